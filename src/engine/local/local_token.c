/* local_token.c - tokens: one counter for the whole file, so that a recycled name repeats none. Blocks of tokens are
 * reserved on disk before the first of them is given out; after a crash of the machine the counter goes on at the end
 * of the last block. */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "local.h"

uint64_t token_floor(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME,
                      &ts); /* not a lease: a number that a new file begins with, above an older one's */
        return ts.tv_sec < 0 ? 0 : (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void raise(_Atomic uint64_t *word, uint64_t value)
{
        uint64_t known = atomic_load(word);

        while (known < value && !atomic_compare_exchange_weak(word, &known, value))
                continue;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

/* Any number of processes may do this at a time, and any of them may stop here: both counters only grow, and the published
 * one never beyond what the durable one was when a sync began that has succeeded since. An attempt that failed may have
 * left the durable one ahead: the next block begins there. */
static int reserve_block(struct local *local, uint64_t token)
{
        struct header *header = local->header;
        uint64_t from = greater(token, greater(atomic_load(&header->limit), atomic_load(&local->durable->limit)));

        if (from >= TOKEN_LIMIT)
                return why_set(&local->why, PAWL_CORRUPT,
                               "the token counter in %s is damaged; remove the directory when nobody uses it",
                               local->path);
        raise(&local->durable->limit, from + TOKEN_BLOCK);
        hook(local, 10);
        if (msync(local->durable, PAGE, MS_SYNC) != 0)
                return why_system(&local->why, errno, "cannot reserve tokens on the disk of %s", local->path);
        raise(&header->limit, from + TOKEN_BLOCK);
        return PAWL_OK;
}

static int reserve(struct local *local, uint64_t token, uint64_t margin)
{
        if (token + margin < atomic_load_explicit(&local->header->limit, memory_order_relaxed))
                return PAWL_OK;
        return reserve_block(local, token);
}

/* Half a block ahead one caller reserves the next, the others go on. */
uint64_t token_slow(struct local *local, uint64_t token)
{
        uint64_t limit = atomic_load_explicit(&local->header->limit, memory_order_acquire);

        if (token >= TOKEN_LIMIT) {
                why_set(&local->why, PAWL_CORRUPT,
                        "the token counter in %s is damaged; remove the directory when nobody uses it", local->path);
                return 0;
        }
        if (token > limit)
                return reserve(local, token, 0) == PAWL_OK ? token : 0;
        if (limit - token == TOKEN_BLOCK / 2 || limit - token == TOKEN_BLOCK / 8)
                (void)reserve(local, token, TOKEN_BLOCK / 2);
        return token;
}

uint64_t token_seal(const struct header *header)
{
        return (atomic_load_explicit(&header->fence, memory_order_relaxed) ^ header->file_id[1]) *
               UINT64_C(0x9e3779b97f4a7c15);
}

int token_mend(struct local *local, struct pawl_why *why)
{
        struct header *header = local->header;
        uint64_t limit = atomic_load(&header->limit);
        uint64_t durable = atomic_load(&local->durable->limit);
        uint64_t from = greater(greater(limit, durable), greater(atomic_load(&header->fence), token_floor()));
        int code;

        if (!local->mend && atomic_load(&header->seal) == token_seal(header) && limit <= durable)
                return PAWL_OK;
        code = reserve_block(local, from);
        if (code != PAWL_OK)
                return why_set(why, code, "%s", local->why.text);
        raise(&header->fence, from);
        atomic_store(&header->seal, token_seal(header));
        return PAWL_OK;
}
