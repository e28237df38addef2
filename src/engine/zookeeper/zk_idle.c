/* zk_idle.c - the containers of names that are used once. The servers remove an empty container by themselves, but at most
 * 10,000 a minute, so a client that takes a new name for each piece of work would leave more and more of them. It removes
 * those that it made itself, some time after it released the lock.
 *
 *   made by a claim of ours, which is over --> listed --KEPT later ones, or AFTER--> deleted
 *                                                '--used again--> left to the servers
 *
 * A name in repeated use must not pay for that: one that is acquired again leaves the list, and one that comes back after
 * its container was deleted is recognized by its hash, and is not listed again. A delete of a container with somebody in it
 * is refused, and who comes to a name without one makes it, so nothing depends on when these deletes are done. */
#include <stdlib.h>
#include <string.h>

#include "zk.h"

enum {
        KEPT = 256,        /* names in the list; beyond that the oldest are deleted */
        LISTED_MAX = 1024, /* while nothing can be sent; then the oldest are left to the servers */
        BATCH = 64,        /* in one transaction; one is under way at a time */
        SLOTS = 4096,      /* of hashes of deleted names */
        FEW = 16,          /* not deleted at close: another short-lived process may use the same name next */
        LAST_BYTES = 16384 /* sent at close: with more of them the end of the session might not fit into the socket */
};
#define AFTER (5 * SECOND)

struct idle_name {
        struct list listed; /* in idle->names */
        struct link link;   /* in idle->table */
        int64_t since;
        size_t length;
        char name[];
};

struct zk_idle {
        struct zk *zk;
        struct zk_ask ask;
        struct zk_session *session; /* on which the batch is under way */
        struct timer timer;
        struct list names; /* the oldest first */
        struct table table;
        struct list batch;
        uint32_t *deleted; /* SLOTS, from the first batch on */
        bool refused;      /* the ACL does not permit it */
};

static struct loop *loop_of(const struct zk_idle *idle)
{
        return idle->zk->engine.host->loop;
}

/* ---- the list -------------------------------------------------------------------------------------------------- */

static void name_free(struct idle_name *name)
{
        list_remove(&name->listed);
        free(name);
}

static void names_free(struct list *names)
{
        while (!list_empty(names))
                name_free(list_first(names, struct idle_name, listed));
}

static struct idle_name *oldest(const struct zk_idle *idle)
{
        return list_empty(&idle->names) ? NULL : list_first(&idle->names, struct idle_name, listed);
}

static void unlist(struct zk_idle *idle, struct idle_name *name)
{
        table_remove(&idle->table, &name->link);
        list_remove(&name->listed);
}

static struct idle_name *find(const struct zk_idle *idle, const struct claim *claim, uint64_t hash)
{
        for (struct link *link = table_first(&idle->table, hash); link; link = link->next) {
                struct idle_name *name = container_of(link, struct idle_name, link);

                if (link->hash == hash && name->length == claim->name_length &&
                    memcmp(name->name, claim->name, name->length) == 0)
                        return name;
        }
        return NULL;
}

static size_t slot_of(uint64_t hash)
{
        return (hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) % SLOTS;
}

static void note_deleted(struct zk_idle *idle, uint64_t hash)
{
        if (!idle->deleted)
                idle->deleted = calloc(SLOTS, sizeof(*idle->deleted));
        if (idle->deleted)
                idle->deleted[slot_of(hash)] = (uint32_t)hash;
}

static bool was_deleted(const struct zk_idle *idle, uint64_t hash)
{
        return idle->deleted && idle->deleted[slot_of(hash)] == (uint32_t)hash;
}

static bool is_due(const struct zk_idle *idle)
{
        const struct idle_name *name = oldest(idle);

        return name && (idle->table.count > KEPT || zk_now(idle->zk) - name->since >= AFTER);
}

/* ---- deleting -------------------------------------------------------------------------------------------------- */

/* Not one of a single lease: what is written on it would extend that. */
static struct zk_session *find_connected(const struct zk *zk)
{
        for (struct list *at = zk->sessions.next; at != &zk->sessions; at = at->next) {
                struct zk_session *session = container_of(at, struct zk_session, listed);

                if (session->state == ZK_CONNECTED && session->kind == ZK_SHARED)
                        return session;
        }
        return NULL;
}

static size_t room_for(const struct zk_idle *idle, const struct idle_name *name)
{
        char path[ZK_PATH_MAX];

        zk_path_of_name(idle->zk, name->name, name->length, path);
        return strlen(path) + 32;
}

/* Moves the oldest to the batch; returns the room that their requests need. */
static size_t gather(struct zk_idle *idle, size_t most, size_t bytes)
{
        size_t room = 64;

        for (size_t n = 0; n < most; n++) {
                struct idle_name *name = oldest(idle);

                if (!name || room + room_for(idle, name) > bytes)
                        break;
                room += room_for(idle, name);
                unlist(idle, name);
                note_deleted(idle, name->link.hash);
                list_append(&idle->batch, &name->listed);
        }
        return room;
}

/* One transaction: the servers write their log once for all of them. */
static void send_batch(struct zk_idle *idle, struct zk_session *session, size_t room,
                       void (*answered)(struct zk_ask *, int, struct jute_in *))
{
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        zk_ask_init(&idle->ask, answered);
        out = zk_begin(session, &idle->ask, room);
        zk_request(session, ZK_MULTI);
        for (struct list *at = idle->batch.next; at != &idle->batch; at = at->next) {
                const struct idle_name *name = container_of(at, struct idle_name, listed);

                zk_path_of_name(idle->zk, name->name, name->length, path);
                jute_begin_op(out, ZK_DELETE);
                jute_put_path_version(out, path, -1);
        }
        jute_end_ops(out);
        if (zk_send(session) == PAWL_OK)
                idle->session = session;
}

static void go_on(struct zk_idle *idle)
{
        const struct idle_name *name = oldest(idle);
        int64_t now = zk_now(idle->zk), at = NEVER;

        if (!idle->session)
                names_free(&idle->batch);
        if (idle->session || !name)
                at = NEVER;
        else if (!find_connected(idle->zk))
                at = now + AFTER;
        else
                at = is_due(idle) ? now : name->since + AFTER;
        loop_set(loop_of(idle), &idle->timer, at); /* moving: cannot fail */
}

static void single_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_idle *idle = container_of(ask, struct zk_idle, ask);

        (void)error; /* somebody is there, or it is gone already */
        (void)reply;
        if (ask->left > 0)
                return;
        idle->session = NULL;
        go_on(idle);
}

/* One of them could not be deleted, and therefore none was: each by itself, but for that one. */
static void send_singles(struct zk_idle *idle, struct zk_session *session, size_t but)
{
        size_t room = 64, place = 0;
        struct jute_out *out;
        char path[ZK_PATH_MAX];
        struct list *next;

        for (struct list *at = idle->batch.next; at != &idle->batch; at = next) {
                struct idle_name *name = container_of(at, struct idle_name, listed);

                next = at->next;
                room += room_for(idle, name);
                if (place++ == but)
                        name_free(name);
        }
        if (list_empty(&idle->batch))
                return;
        zk_ask_init(&idle->ask, single_answered);
        out = zk_begin(session, &idle->ask, room);
        for (struct list *at = idle->batch.next; at != &idle->batch; at = at->next) {
                const struct idle_name *name = container_of(at, struct idle_name, listed);

                zk_path_of_name(idle->zk, name->name, name->length, path);
                zk_request(session, ZK_DELETE);
                jute_put_path_version(out, path, -1);
        }
        if (zk_send(session) == PAWL_OK)
                idle->session = session;
}

static void batch_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_idle *idle = container_of(ask, struct zk_idle, ask);
        struct zk_session *session = idle->session;
        size_t failed = 0;

        idle->session = NULL;
        if (error == ZK_OK)
                error = jute_get_results(reply, &failed);
        if (error == ZK_NOT_EMPTY || error == ZK_NO_NODE)
                send_singles(idle, session, failed);
        idle->refused = error == ZK_NO_AUTH;
        if (idle->refused)
                while (oldest(idle)) {
                        struct idle_name *name = oldest(idle);

                        unlist(idle, name);
                        name_free(name);
                }
        go_on(idle);
}

static void delete_due(struct timer *timer)
{
        struct zk_idle *idle = container_of(timer, struct zk_idle, timer);
        struct zk_session *session = find_connected(idle->zk);

        loop_set(loop_of(idle), timer, NEVER); /* at once, while the heap still has the room it left: cannot fail */
        if (session && !idle->session && is_due(idle))
                send_batch(idle, session, gather(idle, BATCH, SIZE_MAX), batch_answered);
        go_on(idle);
}

/* ---- what happened --------------------------------------------------------------------------------------------- */

void zk_idle_used(struct zk *zk, const struct claim *claim)
{
        struct zk_idle *idle = zk->idle_names;
        struct idle_name *name;

        if (list_empty(&idle->names))
                return;
        name = find(idle, claim, table_hash(claim->name, claim->name_length));
        if (!name)
                return;
        unlist(idle, name);
        name_free(name);
}

/* Without memory it is left to the servers. The timer does it: whoever says so may be in the midst of something. */
void zk_idle_add(struct zk *zk, const struct claim *claim)
{
        struct zk_idle *idle = zk->idle_names;
        uint64_t hash = table_hash(claim->name, claim->name_length);
        struct idle_name *name, *first;

        if (idle->refused || was_deleted(idle, hash) || find(idle, claim, hash))
                return;
        name = malloc(sizeof(*name) + claim->name_length);
        if (!name)
                return;
        name->since = zk_now(zk);
        name->length = claim->name_length;
        memcpy(name->name, claim->name, claim->name_length);
        list_init(&name->listed);
        list_append(&idle->names, &name->listed);
        table_add(&idle->table, &name->link, hash);
        first = oldest(idle);
        if (idle->table.count > LISTED_MAX) {
                unlist(idle, first);
                name_free(first);
        }
        if (!idle->session && (idle->timer.at == NEVER || idle->table.count == KEPT + 1))
                go_on(idle);
}

/* ---- beginning and end ----------------------------------------------------------------------------------------- */

int zk_idle_open(struct zk *zk)
{
        struct zk_idle *idle = calloc(1, sizeof(*idle));

        if (!idle)
                return PAWL_NO_MEMORY;
        zk->idle_names = idle;
        idle->zk = zk;
        idle->timer.fire = delete_due;
        list_init(&idle->names);
        list_init(&idle->batch);
        list_init(&idle->ask.listed);
        if (table_init(&idle->table) != PAWL_OK || loop_set(loop_of(idle), &idle->timer, NEVER) != 0)
                return PAWL_NO_MEMORY;
        return PAWL_OK;
}

/* One transaction, which the end of the session follows; a server answers it into a connection that is closed, so more than
 * one might keep it from reading that end. Locks that are still held are freed by it: then nothing may be in front of it. */
static void delete_last(struct zk_idle *idle)
{
        struct zk_session *session = find_connected(idle->zk);

        if (!session || idle->zk->known > 0 || idle->table.count <= FEW)
                return;
        send_batch(idle, session, gather(idle, LISTED_MAX, LAST_BYTES), batch_answered);
        if (idle->session)
                zk_forget(session, &idle->ask);
}

void zk_idle_free(struct zk *zk)
{
        struct zk_idle *idle = zk->idle_names;

        if (!idle)
                return;
        if (idle->session)
                zk_forget(idle->session, &idle->ask);
        idle->session = NULL;
        names_free(&idle->batch); /* it is sent */
        if (idle->table.rooms)
                delete_last(idle);
        loop_unset(loop_of(idle), &idle->timer);
        names_free(&idle->names);
        names_free(&idle->batch);
        table_free(&idle->table);
        free(idle->deleted);
        free(idle);
        zk->idle_names = NULL;
}
