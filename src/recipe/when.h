/* when.h - time, sleep and chance for recipes, which stand on the public headers and have no loop. All of it is here, so
 * that the simulator (tests/sim) gives a recipe another clock by linking another when.c. */
#ifndef PAWL_WHEN_H
#define PAWL_WHEN_H

#include <stdint.h>

/* ns on CLOCK_BOOTTIME, as in the loop. */
int64_t when_now(void);
/* ns since 1970, by the wall clock: it may be wrong, and jump. */
int64_t when_unix(void);
/* The whole of it, whatever signals arrive; 0 or less: returns at once. */
void when_sleep(int64_t ns);
/* Uniform over all 64 bits, and not to be guessed. */
uint64_t when_random(void);

#endif
