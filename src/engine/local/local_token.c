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

/* The reserve word is ours. The greater of the two counters is where the next block begins: an attempt that failed may
 * have left the durable one ahead of the published one, never behind. */
static int reserve_block(struct local *local, uint64_t token)
{
        struct header *header = local->header;
        uint64_t from = atomic_load_explicit(&header->limit, memory_order_relaxed);
        uint64_t durable = atomic_load_explicit(&local->durable->limit, memory_order_relaxed);

        from = from > durable ? from : durable;
        from = from > token ? from : token;
        if (from >= TOKEN_LIMIT)
                return why_set(&local->why, PAWL_CORRUPT,
                               "the token counter in %s is damaged; remove the directory when nobody uses it",
                               local->path);
        atomic_store_explicit(&local->durable->limit, from + TOKEN_BLOCK, memory_order_relaxed);
        hook(local, 10);
        if (msync(local->durable, PAGE, MS_SYNC) != 0)
                return why_system(&local->why, errno, "cannot reserve tokens on the disk of %s", local->path);
        atomic_store_explicit(&header->limit, from + TOKEN_BLOCK, memory_order_release);
        return PAWL_OK;
}

static int reserve(struct local *local, uint64_t token, uint64_t margin)
{
        struct header *header = local->header;
        int code = PAWL_OK;

        if (word_take(local, &header->reserve) == NOT_TAKEN)
                return why_set(&local->why, PAWL_BUSY,
                               "another process is reserving tokens in %s and does not come to an end", local->path);
        if (token + margin >= atomic_load_explicit(&header->limit, memory_order_relaxed))
                code = reserve_block(local, token);
        word_give(&header->reserve);
        return code;
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

static uint64_t greater(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

int token_mend(struct local *local, struct pawl_why *why)
{
        struct header *header = local->header;
        uint64_t limit = atomic_load(&header->limit);
        uint64_t durable = atomic_load(&local->durable->limit);
        uint64_t from = greater(greater(limit, durable), greater(atomic_load(&header->fence), token_floor()));
        int code;

        if (atomic_load(&header->seal) == token_seal(header) && limit <= durable)
                return PAWL_OK;
        code = reserve_block(local, from);
        if (code != PAWL_OK)
                return why_set(why, code, "%s", local->why.text);
        atomic_store(&header->fence, from);
        atomic_store(&header->seal, token_seal(header));
        return PAWL_OK;
}
