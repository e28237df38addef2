/* tee.h - COMMAND's standard output, passed on as it comes and kept for later. */
#ifndef PAWL_CLI_TEE_H
#define PAWL_CLI_TEE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct tee {
        pthread_t thread;
        pthread_mutex_t mutex; /* around reading and keeping, which go together */
        int from;              /* what COMMAND writes to arrives here */
        int stop;              /* an eventfd: COMMAND has ended, pass the rest on and leave */
        int own_output;        /* our standard output, while COMMAND's end of the pipe stands in its place */
        char *bytes;           /* what was kept */
        size_t size;
        size_t room;
        bool cut;   /* there was more than room */
        int error;  /* why standard output could not be written to; nothing more is passed on then */
        bool mute;  /* nothing is passed on */
        char *rest; /* what was still in the pipe when COMMAND had ended */
        size_t rest_size;
        size_t rest_room;
};

/* From here on standard output is a pipe, for COMMAND to write to; it is copied to the real one, unless mute, and the first
 * room bytes are kept. False: says why. */
bool tee_begin(struct tee *, size_t room, bool mute);
/* COMMAND has ended: bytes are all that it had written, or the first of it. Waits for nobody, neither for who reads
 * our output nor for processes that COMMAND left behind. */
void tee_take(struct tee *);
/* After tee_take: all of it is passed on, and standard output is the real one again. 0, or the errno by which writing to it
 * failed. */
int tee_end(struct tee *);

#endif
