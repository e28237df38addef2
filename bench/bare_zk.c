/* bare_zk.c - see bare_zk.h. */
#include "bare_zk.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "bench.h"
#include "turns.h"

enum { SESSION_MS = 20000, PATH_SIZE = 256, DIGITS = 10, WARM_UP = 3000 };
static const int64_t CONNECT_NS = INT64_C(10000000000);
static const char LINE[] = "/bare-line", NODE[] = "/_c_00000000-0000-0000-0000-000000000000-lock-";

struct bare_zk {
        zhandle_t *handle;
        int open_calls;         /* asked and not answered */
        bool gone;              /* what was watched is not there any more */
        char path[PATH_SIZE];   /* of our node */
        char before[PATH_SIZE]; /* of the node before ours; empty if there is none */
        int place;              /* how many are before ours */
};

static void ignore_log(const char *message)
{
        (void)message;
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
        (void)handle, (void)type, (void)path, (void)context;
        if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE)
                bench_die("the session with ZooKeeper ended");
}

static void turn_once(struct bare_zk *zk)
{
        struct timeval patience;
        struct pollfd ready = {.fd = -1};
        int interest = 0, events = 0;

        if (zookeeper_interest(zk->handle, &ready.fd, &interest, &patience) != ZOK)
                bench_die("no connection to ZooKeeper");
        ready.events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
        poll(&ready, 1, (int)(patience.tv_sec * 1000 + patience.tv_usec / 1000));
        if (ready.revents & (POLLIN | POLLHUP | POLLERR))
                events |= ZOOKEEPER_READ;
        if (ready.revents & POLLOUT)
                events |= ZOOKEEPER_WRITE;
        zookeeper_process(zk->handle, events);
}

static void finish(struct bare_zk *zk)
{
        while (zk->open_calls)
                turn_once(zk);
}

static void must(int code, const char *what)
{
        if (code != ZOK)
                bench_die("%s: %s", what, zerror(code));
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static void on_parent(int code, const char *name, const void *data)
{
        struct bare_zk *zk = (struct bare_zk *)(uintptr_t)data;

        (void)name;
        if (code != ZNODEEXISTS)
                must(code, "create of the line");
        zk->open_calls--;
}

static void on_created(int code, const char *name, const struct Stat *stat, const void *data)
{
        struct bare_zk *zk = (struct bare_zk *)(uintptr_t)data;

        (void)stat;
        must(code, "create");
        snprintf(zk->path, sizeof(zk->path), "%s", name);
        zk->open_calls--;
}

static const char *number(const char *name)
{
        size_t length = strlen(name);

        return length > DIGITS ? name + length - DIGITS : name;
}

static void on_list(int code, const struct String_vector *names, const void *data)
{
        struct bare_zk *zk = (struct bare_zk *)(uintptr_t)data;
        const char *ours = number(zk->path), *before = NULL;

        must(code, "getChildren");
        zk->place = 0;
        for (int i = 0; i < names->count; i++) {
                const char *other = number(names->data[i]);

                if (strcmp(other, ours) >= 0)
                        continue;
                zk->place++;
                if (!before || strcmp(other, number(before)) > 0)
                        before = names->data[i];
        }
        snprintf(zk->before, sizeof(zk->before), "%s/%s", LINE, before ? before : "");
        zk->open_calls--;
}

static void on_deleted(int code, const void *data)
{
        struct bare_zk *zk = (struct bare_zk *)(uintptr_t)data;

        must(code, "delete");
        zk->open_calls--;
}

static void on_gone(zhandle_t *handle, int type, int state, const char *path, void *context)
{
        (void)handle, (void)state, (void)path;
        if (type == ZOO_DELETED_EVENT)
                ((struct bare_zk *)context)->gone = true;
}

static void on_watched(int code, const char *value, int length, const struct Stat *stat, const void *data)
{
        struct bare_zk *zk = (struct bare_zk *)(uintptr_t)data;

        (void)value, (void)length, (void)stat;
        if (code == ZNONODE)
                zk->gone = true;
        else
                must(code, "getData");
        zk->open_calls--;
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

struct bare_zk *bare_zk_connect(uint16_t port)
{
        struct bare_zk *zk = calloc(1, sizeof(*zk));
        int64_t give_up = bench_now() + CONNECT_NS;
        char host[32];

        if (!zk)
                bench_die("no memory");
        snprintf(host, sizeof(host), "127.0.0.1:%u", port);
        zk->handle = zookeeper_init2(host, on_event, SESSION_MS, NULL, NULL, 0, ignore_log);
        if (!zk->handle)
                bench_die("ZooKeeper's library does not start");
        while (zoo_state(zk->handle) != ZOO_CONNECTED_STATE) {
                if (bench_now() > give_up)
                        bench_die("ZooKeeper does not answer");
                turn_once(zk);
        }
        zk->open_calls++;
        must(zoo_acreate(zk->handle, LINE, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, on_parent, zk), "create");
        finish(zk);
        return zk;
}

void bare_zk_close(struct bare_zk *zk)
{
        zookeeper_close(zk->handle);
        free(zk);
}

static void look(struct bare_zk *zk)
{
        zk->open_calls++;
        must(zoo_aget_children(zk->handle, LINE, 0, on_list, zk), "getChildren");
}

static void stand_in_line(struct bare_zk *zk, bool looks)
{
        char path[PATH_SIZE];

        snprintf(path, sizeof(path), "%s%s", LINE, NODE);
        zk->open_calls++;
        must(zoo_acreate2(zk->handle, path, "owner", 5, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, on_created, zk),
             "create");
        if (looks)
                look(zk);
        finish(zk);
}

static void leave_line(struct bare_zk *zk)
{
        zk->open_calls++;
        must(zoo_adelete(zk->handle, zk->path, -1, on_deleted, zk), "delete");
        finish(zk);
}

void bare_zk_pairs(struct bare_zk *zk, int n, bool looks)
{
        for (int i = 0; i < n; i++) {
                stand_in_line(zk, looks);
                leave_line(zk);
        }
}

void bare_zk_warm_up(uint16_t port)
{
        struct bare_zk *zk = bare_zk_connect(port);

        bare_zk_pairs(zk, bench_quick() ? 1 : WARM_UP, true);
        bare_zk_close(zk);
}

static void wait_for_turn(struct bare_zk *zk)
{
        while (zk->place > 0) {
                zk->gone = false;
                zk->open_calls++;
                must(zoo_awget(zk->handle, zk->before, on_gone, zk, on_watched, zk), "getData");
                finish(zk);
                while (!zk->gone)
                        turn_once(zk);
                if (zk->place == 1)
                        return;
                look(zk);
                finish(zk);
        }
}

void bare_zk_turns(struct crew *crew, uint32_t me, void *arg)
{
        const struct turns *turns = arg;
        struct bare_zk *zk = bare_zk_connect(turns->port);

        crew_start(crew);
        while (!atomic_load(&crew->stop)) {
                uint64_t ticket = crew_ask(crew);

                stand_in_line(zk, true);
                wait_for_turn(zk);
                crew_turn(crew, me, ticket);
                turns_sleep(turns->hold_ns);
                leave_line(zk);
                turns_sleep(turns->pause_ns);
        }
        bare_zk_close(zk);
}
