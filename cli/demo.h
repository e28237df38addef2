/* demo.h - what the director (cmd_demo.c) and the workers (demo_worker.c) of `pawl demo` tell each other. */
#ifndef PAWL_CLI_DEMO_H
#define PAWL_CLI_DEMO_H

#include <pawl.h>

#define DEMO_LOCK "ledger"
enum { DEMO_WORKERS = 3, DEMO_TTL_MS = 2000, DEMO_WORK_MS = 250 };

extern const char *const demo_names[DEMO_WORKERS];

/* What a worker is told to do, one byte each. */
enum demo_order {
        ORDER_TURN = 't',  /* take the lock, read, work, write, release */
        ORDER_SLEEP = 's', /* the same, but stop (SIGSTOP) between the read and the writes */
};

enum demo_event_kind {
        EVENT_WAITS,
        EVENT_HOLDS,
        EVENT_STOPS,
        EVENT_WROTE,   /* to the guarded ledger */
        EVENT_REFUSED, /* by the guard; value: the code */
        EVENT_LOST,    /* value: the reason */
        EVENT_RELEASED,
        EVENT_FAILED, /* value: the code */
        EVENT_KINDS
};

struct demo_event {
        uint32_t kind;
        uint32_t worker;
        uint64_t token;
        int32_t value;
        uint32_t unused;
};

struct demo_paths {
        char top[64];      /* removed at the end */
        char engine[80];   /* URL of the embedded engine */
        char guard[96];    /* URL of the guard that keeps the ledger */
        char ledger[96];   /* the guarded ledger, as a file */
        char careless[96]; /* the same without a guard */
};

/* A worker's whole life, in a process of its own: obeys orders until they end. The exit status. */
int demo_worker(const struct demo_paths *, uint32_t worker, int orders, int events);

#endif
