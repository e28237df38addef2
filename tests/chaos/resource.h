/* resource.h - the thing that locks protect: a file with a counter per name, and a log of every write that was let in.
 * The fenced counter admits a token before the first read and refuses lower ones; its unfenced twin lets everybody in,
 * which proves that the rig can see lost updates. Its own critical sections are fcntl locks: the kernel frees them at
 * death, and a forked child does not inherit them. */
#ifndef CHAOS_RESOURCE_H
#define CHAOS_RESOURCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { RESOURCE_NAMES = 8, RESOURCE_LOG = 1 << 17 };

/* One write that was let in: what the writer had read, and what it wrote. */
struct effect {
        uint64_t token;
        uint64_t read;
        uint64_t wrote;
        uint32_t client;
        uint32_t op;
};

/* count is the commit point: an effect written but not counted never happened, whoever was killed in between. */
struct counter {
        _Atomic uint64_t highest; /* the highest token admitted */
        _Atomic uint64_t count;
        _Atomic uint64_t refused;
        struct effect log[RESOURCE_LOG];
};

struct resource {
        int fd;
        pthread_mutex_t mutex; /* fcntl locks do not exclude threads of one process */
        struct resource_map {
                struct counter fenced[RESOURCE_NAMES];
                struct counter twin[RESOURCE_NAMES];
        } * map;
};

bool resource_open(struct resource *resource, const char *path);
void resource_close(struct resource *resource);

/* The barrier before the first read. False: a higher token was here. */
bool resource_admit(struct resource *resource, unsigned name, uint64_t token);
bool resource_read(struct resource *resource, unsigned name, uint64_t token, uint64_t *value);
bool resource_write(struct resource *resource, unsigned name, const struct effect *effect);

void twin_read(struct resource *resource, unsigned name, uint64_t *value);
void twin_write(struct resource *resource, unsigned name, const struct effect *effect);

#endif
