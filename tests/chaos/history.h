/* history.h - what each process writes down while it works: one file per client, one write per record, so that a
 * kill -9 leaves whole records. One machine has one clock (CLOCK_BOOTTIME), so the times of all files compare. */
#ifndef CHAOS_HISTORY_H
#define CHAOS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

enum phase { PHASE_INVOKE = 1, PHASE_OK = 2, PHASE_FAIL = 3 };

enum deed {
        DID_ACQUIRE = 1,  /* INVOKE, then OK or FAIL with its status */
        DID_RELEASE = 2,  /* INVOKE, then OK (held until now) or FAIL */
        DID_CHECK = 3,    /* OK: believed at ->at; FAIL: known to be lost at ->at */
        DID_QUEUE = 4,    /* written by an observer that saw the claim in the queue */
        DID_KILL = 5,     /* written by the driver, before the signal is sent */
        DID_STOP = 6,     /* likewise */
        DID_CONTINUE = 7, /* written after the signal was sent */
        DID_BREAK = 8,    /* INVOKE, then OK */
        DID_RENEW = 9,    /* OK: by an explicit call */
};

enum tenure_flag {
        TENURE_FIXED = 1,    /* nobody renews it */
        TENURE_DETACHED = 2, /* it outlives its process */
};

/* Clients of one process are numbered process * CLIENTS_PER_PROCESS + n; a process number is never used twice. */
enum { CLIENTS_PER_PROCESS = 8 };

struct record {
        int64_t at;
        uint32_t client;
        uint32_t op;
        uint32_t lock;
        uint8_t phase;
        uint8_t deed;
        uint8_t mode;   /* enum pawl_mode */
        uint8_t flags;  /* enum tenure_flag */
        uint32_t limit; /* at most so many holders, 0: any number */
        int32_t status;
        uint64_t token;
        int64_t valid_least; /* the lease stands at least until then */
        int64_t valid_most;  /* and at most until then */
};

int64_t boottime_now(void);

/* Appends to one file. */
struct history {
        int fd;
        uint32_t client;
};
bool history_open(struct history *history, const char *directory, uint32_t client);
void history_write(struct history *history, struct record record);
void history_close(struct history *history);

/* Every record of every file in directory, in no order. False if memory or the disk failed; free *records. */
bool history_load(const char *directory, struct record **records, size_t *count);

#endif
