/* zk_delay.c - lock-delay: who held the lock when its session died is followed by nobody for a while. The store is
 * the timer: beside the node of a holder with a lock-delay stands a marker, _d_ and the claim's uid, on a second
 * session that lasts longer by the delay. When the client dies its node goes first and the marker later; until
 * then the marker is an orphan, and blocks everybody.
 *
 * The marker is made when the claim is the first in line and before it is told: a claim that dies waiting leaves
 * none. Given back, both are deleted at once. Lost, but with the client alive, the marker is left for the delay
 * and then deleted by us. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zk.h"

enum { GUID_LENGTH = 36 };
#define RETRY_AFTER (100 * MS)

struct zk_delay {
        struct zk_ask ask;
        struct list listed; /* in zk->delays */
        struct timer timer; /* the delay after a loss */
        struct zk *zk;
        struct zk_session *session;
        struct zk_part *part; /* NULL: it is over, and the marker is to be deleted when the timer says so */
        int64_t ttl, delay;
        int64_t told; /* from when the lease counts, as the core knows it */
        bool sent;    /* it may be there */
        bool made;
        bool due; /* to be deleted now */
        char path[ZK_PATH_MAX];
};

static void marker_send(struct zk_delay *delay);

/* ---- names ----------------------------------------------------------------------------------------------------- */

bool zk_delay_is_marker(struct jute_text child)
{
        return child.length > 3 && memcmp(child.at, "_d_", 3) == 0;
}

bool zk_delay_owner(struct jute_text child, uint64_t uid[2])
{
        return child.length == 3 + GUID_LENGTH && zk_guid_read(child.at + 3, uid);
}

static void marker_path(const struct zk_part *part, char *path)
{
        char guid[GUID_LENGTH + 1];
        size_t length;

        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        length = strlen(path);
        zk_guid_write(part->claim->uid, guid);
        snprintf(path + length, ZK_PATH_MAX - length, "/_d_%s", guid);
}

bool zk_delay_path(const struct zk_part *part, char *path)
{
        if (!part->delay || !part->delay->made)
                return false;
        marker_path(part, path);
        return true;
}

/* ---- the life of a marker -------------------------------------------------------------------------------------- */

static void delay_free(struct zk_delay *delay)
{
        loop_unset(delay->zk->engine.host->loop, &delay->timer);
        if (delay->part)
                delay->part->delay = NULL;
        if (delay->session) {
                zk_forget(delay->session, &delay->ask);
                zk_session_unuse(delay->session);
        }
        list_remove(&delay->listed);
        free(delay);
}

static void delay_over(struct timer *timer)
{
        struct zk_delay *delay = container_of(timer, struct zk_delay, timer);

        loop_set(delay->zk->engine.host->loop, timer, NEVER);
        delay->due = true;
        if (!delay->sent)
                delay_free(delay); /* its session may never come up */
        else if (!zk_asked(&delay->ask))
                marker_send(delay);
}

/* The holder's session and this one are kept alive at different moments, and the servers end sessions in steps:
 * what that may take away is added, so that the marker never goes too early. */
static bool find_markers_session(struct zk_delay *delay)
{
        struct zk *zk = delay->zk;
        int64_t apart = (delay->ttl + zk->slack) / 3, every = zk_pace(zk, delay->ttl);

        delay->session = zk_session_find(zk, delay->ttl + zk->slack + delay->delay + apart, ZK_MARKERS);
        if (!delay->session)
                return false;
        if (every < delay->session->every)
                delay->session->every = every;
        return true;
}

static void refuse_delay(struct zk_part *part, int code, const char *why)
{
        zk_delay_cancel(part);
        zk_ghost_of(part);
        zk_claim_refuse(part, code, why);
}

static void refuse_marker(struct zk_delay *delay, int error)
{
        const char *sentence;
        int code = zk_error(error, &sentence);
        char why[256];

        snprintf(why, sizeof(why), "%.100s: the marker of a lock-delay on %.60s: %s", delay->zk->where,
                 delay->part->claim->name, sentence);
        refuse_delay(delay->part, code, why);
}

static bool is_long_enough(struct zk_delay *delay)
{
        const struct zk_session *session = delay->session;
        char why[256];

        if (session->timeout >= session->wanted_ms * MS)
                return true;
        if (delay->part->state != ZK_MARKING) /* it is held, and made again elsewhere: its lease will not be extended */
                return false;
        snprintf(why, sizeof(why),
                 "%.100s: a lock-delay of %lld ms needs a session of %lld ms, and the servers grant %lld ms at most "
                 "(maxSessionTimeout)",
                 delay->zk->where, (long long)(delay->delay / MS), (long long)session->wanted_ms,
                 (long long)(session->timeout / MS));
        refuse_delay(delay->part, PAWL_UNSUPPORTED, why);
        return false;
}

static void marked(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_delay *delay = container_of(ask, struct zk_delay, ask);
        size_t failed = 0;

        if (error == ZK_CONNECTION_LOSS) /* again when it is back */
                return;
        if (error == ZK_OK)
                error = jute_get_results(reply, &failed);
        delay->made = error == ZK_OK || error == ZK_NODE_EXISTS;
        if (!delay->part) {
                if (delay->due)
                        marker_send(delay);
        } else if (delay->part->state == ZK_MARKING) {
                if (delay->made)
                        zk_claim_grant(delay->part);
                else if (error == ZK_NO_NODE)
                        zk_claim_look(delay->part);
                else
                        refuse_marker(delay, error);
        }
}

static void unmarked(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_delay *delay = container_of(ask, struct zk_delay, ask);

        (void)reply;
        if (error != ZK_CONNECTION_LOSS)
                delay_free(delay);
}

/* Only while the claim's node is there: it may have been broken meanwhile. Its data are the claim's record, for others to
 * read. */
static void put_marker(const struct zk_delay *delay, struct jute_out *out)
{
        const struct zk *zk = delay->zk;
        const struct zk_part *part = delay->part;
        char record[RECORD_MAX + 1], path[ZK_PATH_MAX];
        size_t length = record_write(part->claim, zk->client, zk->engine.host->owner, part->since_ms, true, record);

        zk_path_of_part(part, path);
        zk_request(delay->session, ZK_MULTI);
        jute_begin_op(out, ZK_CHECK);
        jute_put_path_version(out, path, -1);
        jute_begin_op(out, ZK_CREATE);
        jute_put_create(out, delay->path, record, length, zk->acl, ZK_EPHEMERAL);
        jute_end_ops(out);
}

/* What a lost connection kept back is sent when the session is up again; without memory a claim that waits for its marker is
 * refused, one that is held tries again at its next renewal. */
static void not_sent(struct zk_delay *delay, int code)
{
        struct zk *zk = delay->zk;

        if (code != PAWL_NO_MEMORY)
                return;
        if (delay->due)
                loop_set(zk->engine.host->loop, &delay->timer, zk_now(zk) + RETRY_AFTER); /* moving: cannot fail */
        else if (delay->part->state == ZK_MARKING)
                refuse_delay(delay->part, code, NULL);
}

/* Makes it or deletes it, whichever is next. What cannot be sent now is sent when the session comes back. */
static void marker_send(struct zk_delay *delay)
{
        struct zk_session *session = delay->session;
        struct jute_out *out;
        int code;

        if (session->state != ZK_CONNECTED || (!delay->due && (!delay->part || !is_long_enough(delay))))
                return;
        zk_ask_init(&delay->ask, delay->due ? unmarked : marked);
        out = zk_begin(session, &delay->ask, 2 * ZK_REQUEST_ROOM);
        if (delay->due) {
                zk_request(session, ZK_DELETE);
                jute_put_path_version(out, delay->path, -1);
        } else {
                put_marker(delay, out);
        }
        code = zk_send(session);
        if (code == PAWL_OK)
                delay->sent = true;
        else
                not_sent(delay, code);
}

void zk_delay_mark(struct zk_part *part)
{
        struct zk *zk = part->zk;
        struct zk_delay *delay = part->delay;

        part->state = ZK_MARKING;
        part->until = zk_now(zk); /* so long has the marker's session not answered yet */
        if (delay) {              /* of an earlier place in the line: the same uid, so the same marker */
                if (delay->made)
                        zk_claim_grant(part);
                else if (!zk_asked(&delay->ask))
                        marker_send(delay);
                return;
        }
        delay = calloc(1, sizeof(*delay));
        if (!delay) {
                zk_ghost_of(part);
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
                return;
        }
        delay->zk = zk;
        delay->part = part;
        delay->ttl = part->claim->ttl;
        delay->delay = part->claim->delay;
        delay->timer.fire = delay_over;
        list_init(&delay->listed);
        list_init(&delay->ask.listed);
        marker_path(part, delay->path);
        part->delay = delay;
        if (loop_set(zk->engine.host->loop, &delay->timer, NEVER) != 0 || !find_markers_session(delay)) {
                delay_free(delay);
                zk_ghost_of(part);
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
                return;
        }
        list_append(&zk->delays, &delay->listed);
        marker_send(delay);
}

/* The marker is deleted after so long; what never left us needs no deleting. */
static void let_go(struct zk_delay *delay, int64_t after)
{
        struct zk *zk = delay->zk;

        delay->part->delay = NULL;
        delay->part = NULL;
        loop_set(zk->engine.host->loop, &delay->timer, zk_now(zk) + after); /* moving: cannot fail */
}

void zk_delay_cancel(struct zk_part *part)
{
        if (part->delay)
                let_go(part->delay, 0);
}

void zk_delay_end(struct zk_part *part, bool gone)
{
        if (gone)
                delay_free(part->delay);
        else
                let_go(part->delay, part->delay->delay);
}

int64_t zk_delay_counts_from(const struct zk_part *part)
{
        const struct zk_delay *delay = part->delay;

        return delay->made ? zk_counts_from(delay->session, delay->ttl + delay->delay) : INT64_MIN / 2;
}

void zk_delay_mark_again(struct zk_part *part)
{
        struct zk_delay *delay = part->delay;

        if (!delay->made && !zk_asked(&delay->ask))
                marker_send(delay);
}

bool zk_delay_gains(const struct zk_part *part, int64_t from)
{
        return from > part->delay->told;
}

void zk_delay_gained(struct zk_part *part, int64_t from)
{
        if (zk_delay_gains(part, from))
                part->delay->told = from;
}

/* ---- its session ----------------------------------------------------------------------------------------------- */

void zk_delays_up(struct zk_session *session)
{
        struct list *next, *delays = &session->zk->delays;

        for (struct list *at = delays->next; at != delays; at = next) {
                struct zk_delay *delay = container_of(at, struct zk_delay, listed);

                next = at->next;
                if (delay->session == session && !zk_asked(&delay->ask) &&
                    (delay->due || (delay->part && !delay->made)))
                        marker_send(delay);
        }
}

/* Claims that wait for their marker do not wait for its session for ever: nobody else gets the lock meanwhile. */
void zk_delays_down(struct zk_session *session, const struct pawl_why *why, bool was_connected)
{
        struct list *next, *delays = &session->zk->delays;

        for (struct list *at = delays->next; at != delays; at = next) {
                struct zk_delay *delay = container_of(at, struct zk_delay, listed);
                struct zk_part *part = delay->part;

                next = at->next;
                if (delay->session == session && part && part->state == ZK_MARKING &&
                    zk_claim_gives_up(part, session, why, was_connected))
                        refuse_delay(part, why->code, why->text);
        }
}

/* The marker went with the session. One whose claim is still held is made again, on another. */
void zk_delays_expired(struct zk_session *session)
{
        struct list *next, *delays = &session->zk->delays;

        for (struct list *at = delays->next; at != delays; at = next) {
                struct zk_delay *delay = container_of(at, struct zk_delay, listed);

                next = at->next;
                if (delay->session != session)
                        continue;
                zk_session_unuse(session);
                delay->session = NULL;
                delay->made = false;
                if (delay->part && find_markers_session(delay))
                        marker_send(delay);
                else
                        delay_free(delay);
        }
}

void zk_delays_free(struct zk *zk)
{
        while (!list_empty(&zk->delays))
                delay_free(list_first(&zk->delays, struct zk_delay, listed));
}
