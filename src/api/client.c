/* client.c - a client from pawl_open to pawl_close. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../base/utf8.h"
#include "../core/lease.h"

#define TTL_DEFAULT (10 * SECOND)
/* How long pawl_close waits for a store to confirm releases; the leases do the rest. */
#define CLOSE_PATIENCE (2 * SECOND)

/* ---- open --------------------------------------------------------------------------------------------------------- */

static void log_line(const struct engine_host *host, int level, const char *text)
{
        struct pawl_client *client = host->log_arg;

        if (client->log && (uint32_t)level <= client->log_level)
                client->log(level, text, client->log_arg);
}

/* One word of memory that reads 0 in a child: cheaper than getpid() before every call, and no handler is needed. */
static int mark_here(struct pawl_client *client, struct pawl_why *why)
{
        size_t size = (size_t)sysconf(_SC_PAGESIZE);
        uint32_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (page == MAP_FAILED)
                return why_system(why, errno, "cannot map a page");
        client->here = page;
        if (madvise(page, size, MADV_WIPEONFORK) != 0)
                return why_system(why, errno, "this kernel cannot wipe a page on fork (Linux 4.14 or newer can)");
        *page = 1;
        return PAWL_OK;
}

/* What is not UTF-8 becomes '?': a program may be called anything, and a name that was cut off may end within a letter. Not
 * every store takes that. */
static void keep_utf8(char *text)
{
        uint32_t character;

        for (size_t size = strlen(text), taken; size > 0; text += taken, size -= taken) {
                taken = utf8_next(text, size, &character);
                if (taken > 0)
                        continue;
                *text = '?';
                taken = 1;
        }
}

static int set_owner(struct pawl_client *client, const char *owner, struct pawl_why *why)
{
        char host[65];

        if (owner) {
                if (strnlen(owner, PAWL_OWNER_MAX + 1) > PAWL_OWNER_MAX)
                        return why_set(why, PAWL_INVALID, "the owner is longer than %d bytes", PAWL_OWNER_MAX);
                strcpy(client->owner, owner);
                return PAWL_OK;
        }
        if (gethostname(host, sizeof(host)) != 0)
                strcpy(host, "localhost");
        host[sizeof(host) - 1] = '\0';
        snprintf(client->owner, sizeof(client->owner), "%s:%ld:%.40s", host, (long)getpid(),
                 program_invocation_short_name);
        keep_utf8(client->owner);
        return PAWL_OK;
}

static int set_ttl(struct pawl_client *client, int64_t ttl_ms, struct pawl_why *why)
{
        int code;

        client->ttl = TTL_DEFAULT;
        code = url_duration(client->url, "ttl", &client->ttl, why);
        if (code != PAWL_OK)
                return code;
        if (ttl_ms < 0 || ttl_ms > LEASE_TTL_MAX / MS)
                return why_set(why, PAWL_INVALID, "a ttl of %lld ms is not between %lld ms and 366 days",
                               (long long)ttl_ms, (long long)(LEASE_TTL_MIN / MS));
        if (ttl_ms)
                client->ttl = ttl_ms * MS;
        if (!lease_ttl_valid(client->ttl))
                return why_set(why, PAWL_INVALID, "the ttl must be between %lld ms and 366 days",
                               (long long)(LEASE_TTL_MIN / MS));
        return PAWL_OK;
}

static int open_loop(struct pawl_client *client, struct pawl_why *why)
{
        int error = loop_init(&client->loop, NULL);

        if (error)
                return why_system(why, error, "cannot set up the event loop");
        core_init(&client->core, &client->loop);
        client->core.tell = client_tell;
        client->host = (struct engine_host){
                .loop = &client->loop,
                .events = &core_events,
                .core = &client->core,
                .owner = client->owner,
                .log = log_line,
                .log_arg = client,
                .find = engine_find,
        };
        return PAWL_OK;
}

static int open_engine(struct pawl_client *client, struct pawl_why *why)
{
        const struct engine_ops *ops = engine_find(client->url->scheme, why);
        int code;

        if (!ops)
                return PAWL_NO_ENGINE;
        code = engine_open(ops, &client->host, client->url, &client->engine, why);
        core_use(&client->core, client->engine);
        return code;
}

static void destroy(struct pawl_client *client)
{
        engine_close(client->engine);
        if (client->core.loop) {
                core_free(&client->core);
                loop_close(&client->loop);
        }
        if (client->here)
                munmap((void *)(uintptr_t)client->here, (size_t)sysconf(_SC_PAGESIZE));
        url_free(client->url);
        free(client);
}

static int set_look(struct pawl_client *client, int64_t look_ms, struct pawl_why *why)
{
        if (look_ms < 0 || look_ms > 3600 * 1000)
                return why_set(why, PAWL_INVALID, "look_ms is %lld ms, and not between 0 and an hour",
                               (long long)look_ms);
        client->look_ms = look_ms;
        return PAWL_OK;
}

static int open_client(struct pawl_client *client, const char *url, const struct pawl_open_options *options)
{
        int code;

        if (options->flags)
                return why_set(options->why, PAWL_UNSUPPORTED, "flags 0x%x are not known to this version",
                               options->flags);
        if (options->drive > PAWL_DRIVE_CALLER || options->log_level > PAWL_LOG_TRACE)
                return why_set(options->why, PAWL_INVALID, "the drive or the log_level is not one of those in pawl.h");
        client->drive = options->drive;
        client->log = options->log;
        client->log_arg = options->log_arg;
        client->log_level = options->log_level;
        if ((code = url_parse(url ? url : "local:", &client->url, options->why)) != PAWL_OK ||
            (code = set_ttl(client, options->ttl_ms, options->why)) != PAWL_OK ||
            (code = set_look(client, options->look_ms, options->why)) != PAWL_OK ||
            (code = set_owner(client, options->owner, options->why)) != PAWL_OK ||
            (code = mark_here(client, options->why)) != PAWL_OK ||
            (code = open_loop(client, options->why)) != PAWL_OK ||
            (code = open_engine(client, options->why)) != PAWL_OK)
                return code;
        return PAWL_OK;
}

int pawl_open(const char *url, const struct pawl_open_options *theirs, pawl_client **out)
{
        struct pawl_open_options options;
        struct pawl_client *client;
        int code;

        if (theirs && theirs->size == 0)
                return why_set(theirs->why, PAWL_INVALID, OPTIONS_SIZELESS, "PAWL_OPEN(...)", "pawl_open_options");
        code = options_read(&options, sizeof(options), theirs);
        if (code == PAWL_UNSUPPORTED)
                return why_set(options.why, code, OPTIONS_NEWER, "pawl_open_options");
        if (code != PAWL_OK)
                return code;
        if (!out)
                return why_set(options.why, PAWL_INVALID, "there is no place for the client: it is NULL");
        client = calloc(1, sizeof(*client));
        if (!client)
                return why_set(options.why, PAWL_NO_MEMORY, "out of memory");
        list_init(&client->sleepers);
        list_init(&client->questions);
        code = open_client(client, url, &options);
        if (code != PAWL_OK) {
                destroy(client);
                return code;
        }
        *out = client;
        return PAWL_OK;
}

/* ---- close -------------------------------------------------------------------------------------------------------- */

/* A blocking caller is told, an asynchronous one called back. */
static void end_wait(struct pawl_lock *lock)
{
        if (lock->state == LOCK_WAITING)
                core_cancel(lock, false);
}

static void end_lock(struct pawl_lock *lock)
{
        bool unheard = lock->notices & NOTICE_GRANTED && lock->status == PAWL_OK;

        if (!lock->owned)
                return;
        core_set_owned(lock, false);
        lock->on_lost = NULL;
        lock->on_asked = NULL;
        if (unheard)
                lock->status = PAWL_CANCELLED; /* nobody has heard of the grant yet, and now it is over */
        if (lock->claim.detached && !unheard)
                core_forget(lock);
        else
                core_release(lock);
}

/* Each on its own: one that fails does not keep the others. Ending one may settle others, so each is moved aside first. */
static void for_each_lock(struct pawl_client *client, void (*end)(struct pawl_lock *))
{
        struct list done;

        list_init(&done);
        while (!list_empty(&client->core.locks)) {
                struct pawl_lock *lock = list_first(&client->core.locks, struct pawl_lock, listed);

                list_remove(&lock->listed);
                list_append(&done, &lock->listed);
                end(lock);
        }
        list_splice(&client->core.locks, &done);
}

static bool quiet(struct pawl_client *client)
{
        for (struct list *at = client->core.locks.next; at != &client->core.locks; at = at->next)
                if (container_of(at, struct pawl_lock, listed)->known)
                        return false;
        return true;
}

/* Called when no claim is under way any more. */
static bool has_left(const struct pawl_client *client)
{
        struct engine *engine = client->engine;

        return !engine->ops->leave || engine->ops->leave(engine);
}

/* A blocked caller who drives sleeps in the loop, and would not see that his wait is over. We must not turn the loop at
 * once: that would swallow the wake. */
static void wake_driver(struct pawl_client *client)
{
        static const struct timespec moment = {.tv_nsec = MS};

        loop_wake(&client->loop);
        latch_give(&client->latch);
        nanosleep(&moment, NULL);
        latch_take(&client->latch);
}

static void wait_for_quiet(struct pawl_client *client)
{
        int64_t patience = loop_now(&client->loop) + CLOSE_PATIENCE;
        int64_t now;

        for (;;) {
                if (client->driver == DRIVER_NOBODY)
                        loop_turn(&client->loop);
                client_call_back(client);
                if (!list_empty(&client->core.notices) && !client->in_callback)
                        continue;
                now = loop_now(&client->loop);
                if (!client->inside && list_empty(&client->core.notices) &&
                    ((quiet(client) && has_left(client)) || now >= patience))
                        return;
                if (client->driver != DRIVER_NOBODY) {
                        wake_driver(client);
                        continue;
                }
                latch_give(&client->latch);
                loop_wait(&client->loop, now + 5 * MS);
                latch_take(&client->latch);
        }
}

int pawl_close(pawl_client *client)
{
        int code;

        if (!client)
                return PAWL_OK;
        code = client_check(client);
        if (code != PAWL_OK)
                return code;
        client_lock(client);
        if (client->closing || client_calls_back(client)) {
                latch_give(&client->latch);
                return PAWL_MISUSE;
        }
        client->closing = true;
        client_thread_stop(client);
        client_end_questions(client);
        for_each_lock(client, end_wait); /* first, so that no release hands a lock to one of our own */
        for_each_lock(client, end_lock);
        wait_for_quiet(client);
        latch_give(&client->latch);
        destroy(client);
        return PAWL_OK;
}

/* ---- the rest ------------------------------------------------------------------------------------------------------ */

int pawl_fd(const pawl_client *client)
{
        if (client_check(client) != PAWL_OK || client->drive != PAWL_DRIVE_CALLER)
                return -1;
        return loop_fd(&client->loop);
}

int pawl_dispatch(pawl_client *client)
{
        int code = client_check(client);

        if (code != PAWL_OK)
                return code;
        if (client->drive != PAWL_DRIVE_CALLER)
                return PAWL_MISUSE;
        client_lock(client);
        if (client_calls_back(client)) {
                code = PAWL_MISUSE;
        } else if (client->driver == DRIVER_NOBODY) {
                loop_turn(&client->loop);
                client_call_back(client);
        }
        client_unlock(client); /* makes the descriptor readable if callbacks are left */
        return code;
}

const char *pawl_url(const pawl_client *client)
{
        if (!client)
                return "";
        return client->engine && client->engine->url ? client->engine->url : client->url->shown;
}

const char *pawl_owner(const pawl_client *client)
{
        return client ? client->owner : "";
}

uint32_t pawl_capabilities(const pawl_client *client)
{
        return client_check(client) == PAWL_OK ? client->engine->capabilities : 0;
}

int pawl_stats(pawl_client *client, struct pawl_stats *stats)
{
        struct pawl_stats mine = {.size = 0};
        uint64_t size;
        int code = client_check(client);

        if (code != PAWL_OK)
                return code;
        if (!stats || stats->size <= sizeof(stats->size) || stats->size > 4096)
                return PAWL_INVALID;
        size = stats->size;
        client_lock(client);
        core_read_stats(&client->core, &mine);
        client_unlock(client);
        memset(stats, 0, size);
        memcpy(stats, &mine, size < sizeof(mine) ? size : sizeof(mine));
        stats->size = size;
        return PAWL_OK;
}
