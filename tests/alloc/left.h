/* left.h - what is left at the server after a scene, and how much of what may fail is tried: for each engine its own. */
#ifndef LEFT_H
#define LEFT_H

#include <stdbool.h>

/* How many locks are left there, the witness's aside; -1 if one of them would stay for ever. */
int count_left(const char *place);

/* The first so many are tried one by one, then each so-many-th. */
struct steps {
        long first, step;
};
extern const struct pace {
        struct steps once, by_caller, for_good; /* allocations */
        struct steps calls;                     /* system calls */
        bool hidden;                            /* a library tells want of memory as the end of a connection */
        int replay;                             /* the scene is played again after so many failures */
} pace;

#endif
