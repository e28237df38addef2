/* tee.h - COMMAND's standard output, passed on as it comes and kept for later. */
#ifndef PAWL_CLI_TEE_H
#define PAWL_CLI_TEE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct tee {
        pthread_t thread;
        int from;       /* what COMMAND writes to arrives here */
        int stop;       /* an eventfd: COMMAND has ended, take what is there and leave */
        int own_output; /* our standard output, while COMMAND's end of the pipe stands in its place */
        char *bytes;    /* what was kept */
        size_t size;
        size_t room;
        bool cut; /* there was more than room */
};

/* From here on standard output is a pipe, for COMMAND to write to; it is copied to the real one, and the first room
 * bytes are kept. False: says why. */
bool tee_begin(struct tee *, size_t room);
/* COMMAND has ended: what it had written is passed on, and standard output is the real one again. Processes that COMMAND
 * left behind are not waited for. bytes stay, to be freed. */
void tee_end(struct tee *);

#endif
