/* zk_claim.c - acquire, cancel, renew, release. A claim has one flight under way at most, so that none overtakes
 * another; a flight whose answers were lost with the connection is repeated, and finds what the lost one did: the
 * node's name has the claim's uid. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zk.h"

/* Those who stand in line already bear with servers that are away for so many times the time limit. */
enum { PATIENCE_IN_LINE = 6, TRIES_MAX = 8 };
#define RETRY_AFTER (100 * MS)

static void sent(struct zk_part *part, int code, enum zk_claim_state want);
static void send_release(struct zk_part *part);
static void find_node(struct zk_part *part);
static void flight_lost(struct zk_part *part);

static struct zk_part *part_of_ask(struct zk_ask *ask)
{
        return container_of(ask, struct zk_part, ask);
}

static const struct engine_host *host_of(const struct zk_part *part)
{
        return part->zk->engine.host;
}

/* ---- known and forgotten --------------------------------------------------------------------------------------- */

static uint64_t uid_hash(const uint64_t uid[2])
{
        return (uid[0] ^ uid[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

void zk_claim_know(struct zk *zk, struct claim *claim)
{
        struct zk_part *part = zk_part_of(claim);

        part->claim = claim;
        part->zk = zk;
        part->until = zk_now(zk);
        list_init(&part->listed);
        list_init(&part->followers);
        list_init(&part->ask.listed);
        table_add(&zk->claims, &part->link, uid_hash(claim->uid));
        part->known = true;
        zk->known++;
}

struct zk_part *zk_claim_find(struct zk *zk, const uint64_t uid[2])
{
        uint64_t hash = uid_hash(uid);

        for (struct link *link = table_first(&zk->claims, hash); link; link = link->next) {
                struct zk_part *part = container_of(link, struct zk_part, link);

                if (link->hash == hash && part->claim->uid[0] == uid[0] && part->claim->uid[1] == uid[1])
                        return part;
        }
        return NULL;
}

void zk_claim_forget(struct zk_part *part)
{
        struct zk *zk = part->zk;

        if (!part->known)
                return;
        zk_followers_told(part, false);
        zk_wait_end(part);
        if (part->delay && part->state == ZK_CANCELLING) /* it never held */
                zk_delay_cancel(part);
        else if (part->delay)
                zk_delay_end(part, false);
        list_remove(&part->listed);
        table_remove(&zk->claims, &part->link);
        zk_past_drop(zk, part);
        if (part->founded)
                zk_idle_add(zk, part->claim);
        part->known = false;
        zk->known--;
        if (part->session) {
                zk_forget(part->session, &part->ask);
                zk_session_unuse(part->session);
                part->session = NULL;
        }
}

void zk_claim_refuse(struct zk_part *part, int code, const char *why)
{
        const struct engine_host *host = host_of(part);

        zk_claim_forget(part);
        host->events->refused(host->core, part->claim, code, why);
}

static int64_t counts_from(const struct zk_part *part)
{
        int64_t from = zk_counts_from(part->session, part->claim->ttl), marker;

        if (!part->delay)
                return from;
        marker = zk_delay_counts_from(part);
        return marker < from ? marker : from;
}

void zk_claim_grant(struct zk_part *part)
{
        const struct engine_host *host = host_of(part);
        struct zk *zk = part->zk;
        struct grant grant = {
                .token = zk_token(zk, part->token),
                .sent_at = counts_from(part),
        };
        bool adopted = part->state == ZK_ADOPTING; /* who took it has written that down */

        if (part->broken) { /* to the end of the line */
                zk_claim_ask(part);
                return;
        }
        part->state = ZK_HELD;
        part->doubtful = false;
        part->session->kept = false;
        if (part->delay)
                zk_delay_gained(part, grant.sent_at);
        if (part->claim->max_holders)
                zk_wait_tell_held(part);
        zk_wait_granted(part);
        if (zk->history && !adopted) {
                part->since_ms = zk_wall_ms();
                zk_past_note(zk, part, 0);
        }
        zk_news_needed(zk);
        host->events->granted(host->core, part->claim, &grant); /* if it was cancelled, the core gives it back */
}

/* A lost flight may have confirmed the turn: it is first all the same, and writes once more. */
static void end_writing(struct zk_part *part, int error)
{
        if (error == ZK_CONNECTION_LOSS)
                flight_lost(part);
        else if (part->cancelled)
                zk_claim_leave(part, PAWL_CANCELLED);
        else if (error == ZK_OK)
                zk_claim_grant(part);
        else if (error == ZK_NO_NODE)
                zk_claim_look(part);
        else
                zk_claim_retry(part, ZK_LOOKING);
}

/* The answer to setData. */
static void written(struct zk_ask *ask, int error, struct jute_in *reply)
{
        (void)reply;
        end_writing(part_of_ask(ask), error);
}

/* The answers to setData, and to getData, which watches its own node again. */
static void written_and_watched(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);

        (void)reply;
        if (ask->left) {
                part->error = (int16_t)error;
                zk_wait_watched_own(part);
        } else {
                end_writing(part, error == ZK_CONNECTION_LOSS || error == ZK_NO_NODE ? error : part->error);
        }
}

/* The lease of a detached claim is counted from the last change of its node. One that confirms its turn may be passed over
 * until this is done, and never afterwards. The version does not matter: nobody else makes this node. */
static void write_and_grant(struct zk_part *part)
{
        struct jute_out *out;
        bool watches;

        part->state = ZK_WRITING;
        out = zk_begin(part->session, &part->ask, 2 * ZK_REQUEST_ROOM);
        zk_put_held(part, out);
        watches = part->claim->confirms && zk_wait_watch_own(part, out);
        part->ask.answered = watches ? written_and_watched : written;
        sent(part, zk_send(part->session), ZK_LOOKING);
}

void zk_claim_first(struct zk_part *part)
{
        if (part->claim->delay && !part->cancelled)
                zk_delay_mark(part);
        else if (part->claim->detached && part->state != ZK_ASKING) /* its node is as old as its wait */
                write_and_grant(part);
        else if (part->claim->confirms)
                write_and_grant(part);
        else
                zk_claim_grant(part);
}

static void end_release(struct zk_part *part, int code)
{
        const struct engine_host *host = host_of(part);

        if (part->zk->history && code == PAWL_OK)
                zk_past_note(part->zk, part, part->claim->lost ? PAWL_HOW_EXPIRED : PAWL_HOW_RELEASED);
        zk_followers_told(part, part->error == ZK_OK && code == PAWL_OK);
        zk_claim_forget(part);
        host->events->released(host->core, part->claim, code);
}

void zk_claim_gone(struct zk_part *part, int reason)
{
        const struct engine_host *host = host_of(part);

        if (part->state != ZK_HELD)
                return;
        zk_claim_forget(part);
        host->events->gone(host->core, part->claim, reason);
}

void zk_claim_broken(struct zk_part *part)
{
        part->broken = true;
        zk_claim_gone(part, PAWL_REASON_BROKEN);
}

void zk_claim_asked(struct zk_part *part)
{
        const struct engine_host *host = host_of(part);

        if (part->state == ZK_HELD)
                host->events->asked(host->core, part->claim);
}

/* ---- parked: to be done when there is a connection ------------------------------------------------------------- */

void zk_claim_park(struct zk_part *part, enum zk_claim_state want)
{
        part->state = ZK_PARKED;
        part->want = (uint8_t)want;
        list_remove(&part->listed);
        if (part->wait)
                part->wait->behind = NULL;
        list_append(&part->zk->parked, &part->listed);
}

/* The server lives but cannot serve at the moment: once more in a while. */
void zk_claim_retry(struct zk_part *part, enum zk_claim_state want)
{
        struct zk *zk = part->zk;

        zk_claim_park(part, want);
        if (zk->retry.at == NEVER)
                loop_set(zk->engine.host->loop, &zk->retry, zk_now(zk) + RETRY_AFTER); /* moving: cannot fail */
}

/* The session must last as long as the lease, and a little longer. */
static bool session_fits(struct zk_part *part)
{
        const struct zk_session *session = part->session;
        int64_t ttl = part->claim->ttl;
        char why[256];

        if (ttl + part->zk->slack <= session->timeout || part->want == ZK_RELEASING || part->want == ZK_CANCELLING)
                return true;
        snprintf(why, sizeof(why),
                 "%.100s: a lease of %lld ms needs a session of %lld ms, and the servers grant %lld ms at most "
                 "(maxSessionTimeout)",
                 part->zk->where, (long long)(ttl / MS), (long long)session->wanted_ms,
                 (long long)(session->timeout / MS));
        zk_claim_refuse(part, PAWL_UNSUPPORTED, why);
        return false;
}

static void unpark(struct zk_part *part)
{
        list_remove(&part->listed);
        if (!session_fits(part))
                return;
        switch ((enum zk_claim_state)part->want) {
        case ZK_RELEASING:
                send_release(part);
                break;
        case ZK_CANCELLING:
                zk_claim_leave(part, part->code);
                break;
        case ZK_ADOPTING:
                part->state = ZK_ADOPTING;
                zk_lease_ask(part);
                break;
        case ZK_FINDING:
                find_node(part);
                break;
        case ZK_OUTSIDE:
                zk_retire_poll(part);
                break;
        case ZK_LOOKING:
                zk_claim_look(part);
                break;
        case ZK_MARKING:
                zk_claim_first(part);
                break;
        default:
                zk_claim_ask(part);
        }
}

static void unpark_all(struct zk *zk, const struct zk_session *session)
{
        struct list parked;

        list_init(&parked);
        list_splice(&parked, &zk->parked);
        while (!list_empty(&parked)) {
                struct zk_part *part = list_first(&parked, struct zk_part, listed);

                if (part->session->state == ZK_CONNECTED && (!session || part->session == session)) {
                        unpark(part);
                } else {
                        list_remove(&part->listed);
                        list_append(&zk->parked, &part->listed);
                }
        }
}

static void retry(struct timer *timer)
{
        struct zk *zk = container_of(timer, struct zk, retry);

        loop_set(zk->engine.host->loop, timer, NEVER);
        unpark_all(zk, NULL);
}

int zk_claims_open(struct zk *zk)
{
        zk->retry.fire = retry;
        return loop_set(zk->engine.host->loop, &zk->retry, NEVER) == 0 ? PAWL_OK : PAWL_NO_MEMORY;
}

/* A flight of a part was written: is it under way? If not it is parked, or without memory refused; what it may
 * have at the server is deleted behind it. */
static void sent(struct zk_part *part, int code, enum zk_claim_state want)
{
        if (code == PAWL_OK)
                return;
        if (code == PAWL_UNREACHABLE) {
                zk_claim_park(part, want);
        } else if (want == ZK_RELEASING || want == ZK_CANCELLING) {
                zk_claim_retry(part, want);
        } else {
                if (part->made || part->doubtful)
                        zk_ghost_of(part);
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
        }
}

/* The server said no. */
static void refuse_error(struct zk_part *part, int error)
{
        const char *sentence;
        char path[ZK_PATH_MAX], why[256];
        int code = zk_error(error, &sentence);

        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        snprintf(why, sizeof(why), "%.100s: %.60s: %s", part->zk->where, path, sentence);
        if (part->made || part->doubtful)
                zk_ghost_of(part);
        zk_claim_refuse(part, code, why);
}

static bool passes(int error)
{
        const char *sentence;

        return zk_error(error, &sentence) == PAWL_UNREACHABLE;
}

/* ---- the container above the line ------------------------------------------------------------------------------ */

static void no_chroot(struct zk_part *part)
{
        char why[256];

        snprintf(why, sizeof(why), "%.100s: %.100s is not there: run pawl init", part->zk->where, part->zk->chroot);
        zk_claim_refuse(part, PAWL_NOT_FOUND, why);
}

static void make_parent(struct zk_part *part);

static void made_parent(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);
        struct zk *zk = part->zk;

        (void)reply;
        if (ask->left)
                return;
        part->founded |= error == ZK_OK;
        if (error == ZK_CONNECTION_LOSS) {
                zk_claim_park(part, ZK_ASKING);
        } else if (part->cancelled) {
                zk_claim_refuse(part, PAWL_CANCELLED, NULL);
        } else if (error == ZK_OK || error == ZK_NODE_EXISTS) {
                zk_claim_ask(part);
        } else if (error == ZK_UNIMPLEMENTED && !zk->no_containers) {
                zk->no_containers = true;
                make_parent(part);
        } else if (error == ZK_NO_NODE && part->tries < 2 && zk->make_chroot && *zk->chroot) {
                make_parent(part);
        } else if (error == ZK_NO_NODE) {
                no_chroot(part);
        } else {
                refuse_error(part, error);
        }
}

/* The second time the chroot above it, too. */
static void make_parent(struct zk_part *part)
{
        struct zk *zk = part->zk;
        struct zk_session *session = part->session;
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        part->state = ZK_MAKING;
        part->ask.answered = made_parent;
        out = zk_begin(session, &part->ask, 2 * ZK_REQUEST_ROOM);
        if (part->tries > 0 && zk->make_chroot && *zk->chroot) {
                zk_request(session, ZK_CREATE);
                jute_put_create(out, zk->chroot, NULL, 0, zk->acl, ZK_PERSISTENT);
        }
        part->tries += part->tries < TRIES_MAX;
        zk_path_of_name(zk, part->claim->name, part->claim->name_length, path);
        zk_request(session, zk->no_containers ? ZK_CREATE : ZK_CREATE_CONTAINER);
        jute_put_create(out, path, NULL, 0, zk->acl, zk->no_containers ? ZK_PERSISTENT : ZK_CONTAINER);
        sent(part, zk_send(session), ZK_ASKING);
}

/* ---- acquire --------------------------------------------------------------------------------------------------- */

static void put_children(struct zk_part *part, struct jute_out *out)
{
        char path[ZK_PATH_MAX];

        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        zk_request(part->session, ZK_GET_CHILDREN2);
        jute_put_path_watch(out, path, false);
}

/* Believes what the server says of its node: false if it is not on our session. */
static bool learn(struct zk_part *part, const struct zk_stat *stat)
{
        if (stat->owner != part->session->id)
                return false;
        part->token = stat->czxid;
        part->made = true;
        part->tries = 0;
        return true;
}

static void node_made(struct zk_part *part, struct jute_in *reply)
{
        struct jute_text path;
        struct zk_stat stat;
        struct zk_node node;

        jute_get_created(reply, &path, &stat);
        for (size_t i = path.length; i > 0; i--) {
                if (path.at[i - 1] != '/')
                        continue;
                path.at += i;
                path.length -= i;
                break;
        }
        if (reply->bad || !zk_node_read(path, &node) || node.contender.uid[0] != part->claim->uid[0] ||
            node.contender.uid[1] != part->claim->uid[1])
                part->error = ZK_MARSHALLING;
        part->number = node.number;
        if (!learn(part, &stat))
                part->error = ZK_MARSHALLING;
}

/* The container may have been deleted again, by the servers or another client, before our node was in it. */
static bool may_make_parent(const struct zk_part *part)
{
        return part->tries < TRIES_MAX || zk_now(part->zk) - part->until < part->zk->timeout;
}

static void make_failed(struct zk_part *part)
{
        int error = part->error;

        if (part->cancelled) {
                zk_claim_refuse(part, PAWL_CANCELLED, NULL);
        } else if (error == ZK_NO_NODE && may_make_parent(part)) {
                make_parent(part);
        } else if (passes(error) && part->claim->wait && zk_now(part->zk) - part->until < part->zk->timeout) {
                zk_claim_retry(part, ZK_ASKING);
        } else {
                refuse_error(part, error);
        }
}

/* Its node is there, and so is the line. */
static void see_line(struct zk_part *part, int error, struct jute_in *children)
{
        if (part->cancelled)
                zk_claim_leave(part, PAWL_CANCELLED);
        else if (error == ZK_OK)
                zk_line_look(part, children);
        else if (error == ZK_NO_NODE) /* the line was deleted, and our node with it */
                zk_claim_ask(part);
        else
                refuse_error(part, error);
}

static void flight_lost(struct zk_part *part)
{
        part->doubtful = !part->made;
        if (part->cancelled) {
                part->code = PAWL_CANCELLED;
                zk_claim_park(part, ZK_CANCELLING);
        } else {
                zk_claim_park(part, part->made ? ZK_LOOKING : ZK_FINDING);
        }
}

static void wait_behind_ours(struct zk_part *part)
{
        part->state = ZK_WAITING;
        zk_turn_begin(part);
}

/* Its node was made behind one of ours, and the line was not asked for. If another client's stands between, those behind it
 * must not take that one's end for their turn. */
static void asked_alone(struct zk_part *part)
{
        bool next = zk_wait_is_next(part);

        if (part->cancelled)
                zk_claim_leave(part, PAWL_CANCELLED);
        else if (next && !zk_number_retires(part->number))
                wait_behind_ours(part);
        else
                zk_claim_look(part);
}

/* The answer to create2, and the one to getChildren2 if that was asked too. */
static void ask_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);

        if (error == ZK_CONNECTION_LOSS) {
                flight_lost(part);
                return;
        }
        if (ask->left || part->state == ZK_ASKING_ALONE) {
                part->error = (int16_t)error;
                if (error == ZK_OK)
                        node_made(part, reply);
        }
        if (ask->left)
                return;
        if (part->error != ZK_OK)
                make_failed(part);
        else if (part->state == ZK_ASKING_ALONE)
                asked_alone(part);
        else
                see_line(part, error, reply);
}

void zk_claim_ask(struct zk_part *part)
{
        struct zk_session *session = part->session;
        struct jute_out *out;
        char path[ZK_PATH_MAX], record[RECORD_MAX + 1];
        size_t length;
        bool alone;

        zk_followers_told(part, false); /* its place will be another one */
        if (zk_wait_begin(part) != PAWL_OK) {
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
                return;
        }
        part->made = false;
        part->doubtful = false;
        part->broken = false;
        part->error = ZK_OK;
        part->ask.answered = ask_answered;
        alone = zk_wait_behind_ours(part);
        part->state = alone ? ZK_ASKING_ALONE : ZK_ASKING;
        length = record_write(part->claim, part->zk->client, host_of(part)->owner, part->since_ms, false, record);
        zk_path_to_make(part, path);
        out = zk_begin(session, &part->ask, 2 * ZK_REQUEST_ROOM);
        zk_request(session, ZK_CREATE2);
        jute_put_create(out, path, record, length, part->zk->acl, ZK_EPHEMERAL | ZK_SEQUENTIAL);
        if (!alone)
                put_children(part, out);
        sent(part, zk_send(session), ZK_ASKING);
}

static void look_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);

        if (error == ZK_CONNECTION_LOSS)
                flight_lost(part);
        else
                see_line(part, error, reply);
}

void zk_claim_look(struct zk_part *part)
{
        struct jute_out *out;

        part->state = ZK_LOOKING;
        part->ask.answered = look_answered;
        out = zk_begin(part->session, &part->ask, ZK_REQUEST_ROOM);
        put_children(part, out);
        sent(part, zk_send(part->session), ZK_LOOKING);
}

/* ---- a lost reply: is the node there? -------------------------------------------------------------------------- */

/* The answers to exists and getChildren2. */
static void learned(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);
        struct zk_stat stat;

        if (error == ZK_CONNECTION_LOSS) {
                flight_lost(part);
        } else if (ask->left) {
                part->error = (int16_t)error;
                if (error == ZK_OK) {
                        jute_get_stat(reply, &stat);
                        if (!learn(part, &stat))
                                part->error = ZK_NO_NODE;
                }
        } else if (part->error == ZK_NO_NODE && !part->cancelled) {
                zk_claim_ask(part);
        } else if (part->error != ZK_OK) {
                refuse_error(part, part->error);
        } else {
                see_line(part, error, reply);
        }
}

static void learn_node(struct zk_part *part)
{
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        part->ask.answered = learned;
        part->state = ZK_FINDING;
        zk_path_of_part(part, path);
        out = zk_begin(part->session, &part->ask, 2 * ZK_REQUEST_ROOM);
        zk_request(part->session, ZK_EXISTS);
        jute_put_path_watch(out, path, false);
        put_children(part, out);
        sent(part, zk_send(part->session), ZK_FINDING);
}

/* Finds a node by its uid among the children. */
bool zk_find_node(struct jute_in *children, const uint64_t uid[2], int32_t *number)
{
        size_t count = jute_get_count(children, 4);

        for (size_t i = 0; i < count; i++) {
                struct zk_node node;

                if (zk_node_read(jute_get_text(children), &node) && node.contender.uid[0] == uid[0] &&
                    node.contender.uid[1] == uid[1]) {
                        *number = node.number;
                        return true;
                }
        }
        return false;
}

/* The answers to sync and getChildren2. */
static void found(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);
        bool there;

        if (error == ZK_CONNECTION_LOSS) {
                flight_lost(part);
                return;
        }
        if (ask->left)
                return;
        there = error == ZK_OK && zk_find_node(reply, part->claim->uid, &part->number);
        if (part->cancelled && there) {
                part->made = true;
                zk_claim_leave(part, PAWL_CANCELLED);
        } else if (part->cancelled) {
                zk_claim_refuse(part, part->code ? part->code : PAWL_CANCELLED, NULL);
        } else if (there) {
                learn_node(part);
        } else if (error == ZK_OK || error == ZK_NO_NODE) {
                zk_claim_ask(part);
        } else {
                refuse_error(part, error);
        }
}

/* sync first: the server we are connected to now may be behind the one that had our request. */
static void find_node(struct zk_part *part)
{
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        part->state = ZK_FINDING;
        part->ask.answered = found;
        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        out = zk_begin(part->session, &part->ask, 2 * ZK_REQUEST_ROOM);
        zk_request(part->session, ZK_SYNC);
        jute_put_path(out, path);
        put_children(part, out);
        sent(part, zk_send(part->session), part->cancelled ? ZK_CANCELLING : ZK_FINDING);
}

void zk_claim_acquire(struct engine *engine, struct claim *claim)
{
        struct zk *zk = zk_of(engine);
        struct zk_part *part = zk_part_of(claim);

        zk_claim_know(zk, claim);
        zk_idle_used(zk, claim);
        if (*zk->chroot == '\0' && strcmp(claim->name, "zookeeper") == 0) {
                zk_claim_refuse(part, PAWL_INVALID, "/zookeeper is the servers' own: give the locks a path in the URL");
                return;
        }
        if (claim->detached && claim->delay) {
                zk_claim_refuse(part, PAWL_UNSUPPORTED, "a lease that outlives its process has no lock-delay here");
                return;
        }
        part->since_ms = zk_wall_ms();
        part->session = zk_session_find(zk, claim->ttl, claim->detached ? ZK_OWN : ZK_SHARED);
        if (part->session)
                part->session->kept = true;
        if (!part->session) {
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
        } else if (part->session->state == ZK_CONNECTED) {
                part->want = ZK_ASKING;
                unpark(part);
        } else {
                zk_claim_park(part, ZK_ASKING);
        }
}

/* ---- cancel ---------------------------------------------------------------------------------------------------- */

static void left(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);

        (void)reply;
        if (error == ZK_CONNECTION_LOSS)
                zk_claim_park(part, ZK_CANCELLING);
        else if (error != ZK_OK && passes(error))
                zk_claim_retry(part, ZK_CANCELLING);
        else
                zk_claim_refuse(part, part->code, part->code == PAWL_FULL ? zk_retire_why() : NULL);
}

void zk_claim_leave(struct zk_part *part, int code)
{
        struct zk_session *session = part->session;
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        part->code = (int16_t)code;
        if (!part->made) {
                part->cancelled = true;
                find_node(part);
                return;
        }
        part->state = ZK_CANCELLING;
        part->ask.answered = left;
        zk_path_of_part(part, path);
        out = zk_begin(session, &part->ask, ZK_REQUEST_ROOM);
        zk_request(session, ZK_DELETE);
        jute_put_path_version(out, path, -1);
        sent(part, zk_send(session), ZK_CANCELLING);
}

static void cancel_parked(struct zk_part *part)
{
        if (part->want == ZK_RELEASING || part->want == ZK_CANCELLING)
                return;
        if (part->made || part->doubtful) {
                part->code = PAWL_CANCELLED;
                zk_claim_park(part, ZK_CANCELLING);
        } else {
                zk_claim_refuse(part, PAWL_CANCELLED, NULL);
        }
}

int zk_claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        const struct zk *zk = zk_of(engine);
        const struct zk_part *part = zk_part_of(claim);
        const struct zk_session *session = part->session;

        bool connected = session && session->state == ZK_CONNECTED;
        bool outside = part->state == ZK_OUTSIDE || (part->state == ZK_PARKED && part->want == ZK_OUTSIDE);

        if (connected && (part->made || outside))
                return PAWL_TIMEOUT;
        return engine_silent(why, zk->where, zk_now(zk) - part->until,
                             session && !connected && session->state != ZK_GREETING ? &session->why : NULL);
}

void zk_claim_cancel(struct engine *engine, struct claim *claim)
{
        struct zk_part *part = zk_part_of(claim);

        (void)engine;
        switch ((enum zk_claim_state)part->state) {
        case ZK_PARKED:
                cancel_parked(part);
                break;
        case ZK_WAITING:
                zk_claim_leave(part, PAWL_CANCELLED);
                break;
        case ZK_MARKING:
                zk_delay_cancel(part);
                zk_claim_leave(part, PAWL_CANCELLED);
                break;
        case ZK_HELD:
        case ZK_RELEASING:
        case ZK_CANCELLING:
                break;
        default:
                part->cancelled = true; /* when its answer is there: nothing overtakes it */
        }
}

/* ---- renew ----------------------------------------------------------------------------------------------------- */

static bool has_room(const struct zk_part *part)
{
        const struct claim *claim = part->claim;

        return zk_now(part->zk) - counts_from(part) <= claim->ttl / 4;
}

static void renewed(struct zk_part *part, int code)
{
        const struct engine_host *host = host_of(part);
        int64_t from = code == PAWL_OK ? counts_from(part) : 0;

        if (code == PAWL_OK && part->delay)
                zk_delay_gained(part, from);
        host->events->renewed(host->core, part->claim, code, from);
}

/* A detached lease is kept by nobody else: its node is written. */
static void rewritten(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);

        (void)reply;
        if (error == ZK_OK)
                zk_session_believe(part->session);
        if (error == ZK_NO_NODE)
                zk_claim_gone(part, PAWL_REASON_BROKEN);
        else
                renewed(part, error == ZK_OK ? PAWL_OK : PAWL_UNREACHABLE);
}

static void rewrite(struct zk_part *part)
{
        int code;

        if (zk_asked(&part->ask) && part->ask.answered == rewritten)
                return;
        zk_forget(part->session, &part->ask); /* it reads its node: that can wait */
        part->ask.answered = rewritten;
        zk_put_held(part, zk_begin(part->session, &part->ask, ZK_REQUEST_ROOM));
        code = zk_send(part->session);
        if (code != PAWL_OK)
                renewed(part, code);
}

/* Nothing keeps its session alive between renewals. To take that up again is a sign of life at the leader itself. */
static void renew_own(struct zk_part *part)
{
        struct zk_session *session = part->session;

        if (zk_now(part->zk) - session->known <= part->zk->slack / 2) {
                rewrite(part);
                return;
        }
        list_remove(&part->listed);
        list_append(&session->renewals, &part->listed);
        zk_session_refresh(session);
}

/* A session serves them all, and is kept alive whether they are renewed or not: while enough is known of it they are renewed
 * at once, and otherwise as soon as more is known. */
void zk_claim_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        (void)engine;
        for (size_t i = 0; i < n; i++) {
                struct zk_part *part = zk_part_of(claims[i]);
                struct zk_session *session = part->session;

                if (session->state != ZK_CONNECTED) {
                        renewed(part, PAWL_UNREACHABLE);
                } else if (session->kind == ZK_OWN) {
                        renew_own(part);
                } else if (has_room(part)) {
                        renewed(part, PAWL_OK);
                } else {
                        list_remove(&part->listed);
                        list_append(&session->renewals, &part->listed);
                        if (part->delay)
                                zk_delay_mark_again(part);
                }
        }
}

/* More is known of session. A lock with a lock-delay gains nothing until its other session does, too: told as a success, its
 * renewal would be due again at once. */
static bool gains(const struct zk_part *part, const struct zk_session *session)
{
        if (part->delay)
                return has_room(part) || zk_delay_gains(part, counts_from(part));
        return part->session == session;
}

/* renewed may end the claim, or ask for more. */
static void tell_renewed(struct zk_session *renewing, const struct zk_session *session)
{
        struct list renewals;

        list_init(&renewals);
        list_splice(&renewals, &renewing->renewals);
        while (!list_empty(&renewals)) {
                struct zk_part *part = list_first(&renewals, struct zk_part, listed);

                list_remove(&part->listed);
                if (gains(part, session))
                        renewed(part, PAWL_OK);
                else
                        list_append(&renewing->renewals, &part->listed);
        }
}

void zk_claims_proven(struct zk_session *session)
{
        struct zk *zk = session->zk;

        if (session->kind == ZK_SHARED)
                tell_renewed(session, session);
        if (session->kind != ZK_MARKERS)
                return;
        for (struct list *at = zk->sessions.next; at != &zk->sessions; at = at->next)
                if (container_of(at, struct zk_session, listed)->kind == ZK_SHARED)
                        tell_renewed(container_of(at, struct zk_session, listed), session);
}

void zk_claims_not_renewed(struct zk_session *session)
{
        struct list renewals;

        list_init(&renewals);
        list_splice(&renewals, &session->renewals);
        while (!list_empty(&renewals)) {
                struct zk_part *part = list_first(&renewals, struct zk_part, listed);

                list_remove(&part->listed);
                renewed(part, PAWL_UNREACHABLE);
        }
}

/* ---- release --------------------------------------------------------------------------------------------------- */

/* The caller has waited long enough. */
static void release_behind(struct zk_part *part)
{
        zk_ghost_of(part);
        end_release(part, PAWL_IN_DOUBT);
}

/* A delete that finds nothing: done by a lost flight of ours, or by somebody else. */
static int release_code(const struct zk_part *part)
{
        if (part->error == ZK_OK || (part->error == ZK_NO_NODE && part->doubtful))
                return PAWL_OK;
        return part->error == ZK_NO_NODE ? PAWL_LOST : PAWL_IN_DOUBT;
}

/* The lock was given back. A marker that was being made again meanwhile is deleted behind it. */
static void marker_gone(struct zk_part *part)
{
        char path[ZK_PATH_MAX];

        if (part->both && zk_delay_path(part, path))
                zk_delay_end(part, true);
        else
                zk_delay_cancel(part);
}

/* The answer to delete, or to the deletion of node and marker. */
static void node_deleted(struct zk_part *part, int error, struct jute_in *reply)
{
        size_t failed = 0;

        part->error = (int16_t)error;
        if (error != ZK_OK || part->claim->lost)
                return;
        if (part->both)
                part->error = (int16_t)jute_get_results(reply, &failed);
        if (part->error == ZK_OK)
                marker_gone(part);
        else if (part->error == ZK_NO_NODE && failed == 0) /* the marker, deleted first, is not there: so without it */
                part->again = true;
}

/* The answer to what was asked about the heir: is its node there, on its session? */
static void heir_seen(struct zk_part *part, int error, struct jute_in *reply)
{
        const struct zk_part *heir = zk_wait_heir(part);
        struct zk_stat stat;

        if (error != ZK_OK || !heir || heir->number != part->heir)
                return;
        jute_get_stat(reply, &stat);
        part->inherits = !reply->bad && stat.owner == heir->session->id;
}

static void release_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);

        if (error == ZK_CONNECTION_LOSS) {
                part->doubtful = true;
                zk_claim_park(part, ZK_RELEASING);
                return;
        }
        if (part->heired && !ask->left)
                heir_seen(part, error, reply);
        else
                node_deleted(part, error, reply);
        if (ask->left)
                return;
        if (part->again) {
                part->again = false;
                zk_delay_cancel(part);
                send_release(part);
        } else if (part->error != ZK_OK && passes(part->error)) {
                zk_claim_retry(part, ZK_RELEASING);
        } else {
                end_release(part, release_code(part));
        }
}

static void put_delete(struct zk_part *part, struct jute_out *out)
{
        char path[ZK_PATH_MAX], marker[ZK_PATH_MAX];

        zk_path_of_part(part, path);
        part->both = !part->claim->lost && zk_delay_path(part, marker);
        if (!part->both) {
                zk_request(part->session, ZK_DELETE);
                jute_put_path_version(out, path, -1);
                return;
        }
        zk_request(part->session, ZK_MULTI);
        jute_begin_op(out, ZK_DELETE);
        jute_put_path_version(out, marker, -1);
        jute_begin_op(out, ZK_DELETE);
        jute_put_path_version(out, path, -1);
        jute_end_ops(out);
}

/* Who of us is next is asked about in the same flight: if its node is there it holds the lock, without another
 * round trip. Not if this one has a lock-delay: it may have been broken. */
static void send_release(struct zk_part *part)
{
        struct zk_session *session = part->session;
        const struct zk_part *heir = part->claim->lost || part->claim->delay ? NULL : zk_wait_heir(part);
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        part->state = ZK_RELEASING;
        part->inherits = false;
        part->heired = heir != NULL;
        part->ask.answered = release_answered;
        out = zk_begin(session, &part->ask, 3 * ZK_REQUEST_ROOM);
        put_delete(part, out);
        if (heir) {
                part->heir = heir->number;
                zk_path_of_part(heir, path);
                zk_request(session, ZK_EXISTS);
                jute_put_path_watch(out, path, false);
        }
        sent(part, zk_send(session), ZK_RELEASING);
}

void zk_claim_release(struct engine *engine, struct claim *claim)
{
        struct zk *zk = zk_of(engine);
        struct zk_part *part = zk_part_of(claim);

        list_remove(&part->listed); /* of the renewals */
        zk_forget(part->session, &part->ask);
        zk_wait_end(part);
        part->until = zk_now(zk) + (claim->ttl < zk->timeout ? claim->ttl : zk->timeout);
        send_release(part);
}

/* ---- the sessions come and go ---------------------------------------------------------------------------------- */

void zk_claims_up(struct zk_session *session)
{
        unpark_all(session->zk, session);
        while (session->kind == ZK_OWN && !list_empty(&session->renewals)) {
                struct zk_part *part = list_first(&session->renewals, struct zk_part, listed);

                list_remove(&part->listed);
                rewrite(part);
        }
}

/* A connection that was cut says nothing about the next one; where there is none, the next is not waited for. */
bool zk_claim_gives_up(const struct zk_part *part, const struct zk_session *session, const struct pawl_why *why,
                       bool was_connected)
{
        const struct zk *zk = part->zk;
        int64_t now = zk_now(zk), timeout = zk->timeout;
        int64_t since = zk->lost_at > part->until ? zk->lost_at : part->until;

        if (zk_is_final(why))
                return true;
        if (part->claim->wait && was_connected)
                return false;
        if (part->claim->wait && zk->ever)
                return now - since >= (part->made ? PATIENCE_IN_LINE * timeout : timeout);
        if (session->round < zk->server_count)
                return false;
        return !session->met || now - part->until >= timeout;
}

static void end_parked(struct zk_part *part, const struct pawl_why *why, bool was_connected)
{
        bool pointless = zk_now(part->zk) >= part->until;

        if (part->want == ZK_RELEASING) {
                if (pointless)
                        release_behind(part);
        } else if (part->want == ZK_CANCELLING) {
                if (part->code == PAWL_BUSY && zk_claim_gives_up(part, part->session, why, was_connected)) {
                        zk_ghost_of(part);
                        zk_claim_refuse(part, part->code, NULL);
                }
        } else if (zk_claim_gives_up(part, part->session, why, was_connected)) {
                if (part->made || part->doubtful)
                        zk_ghost_of(part);
                zk_claim_refuse(part, why->code, why->text);
        }
}

void zk_claims_down(struct zk_session *session, const struct pawl_why *why, bool was_connected)
{
        struct list *next;
        struct zk *zk = session->zk;

        zk_claims_not_renewed(session);
        for (struct list *at = zk->parked.next; at != &zk->parked; at = next) {
                struct zk_part *part = container_of(at, struct zk_part, listed);

                next = at->next;
                if (part->session == session)
                        end_parked(part, why, was_connected);
        }
}

static void start_over(struct zk_part *part)
{
        const struct claim *claim = part->claim;

        zk_followers_told(part, false);
        zk_wait_end(part);
        if (part->delay)
                zk_delay_cancel(part);
        part->made = part->doubtful = false;
        part->session = zk_session_find(part->zk, claim->ttl, claim->detached ? ZK_OWN : ZK_SHARED);
        if (part->session) {
                part->session->kept = true;
                zk_claim_park(part, ZK_ASKING);
        } else {
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
        }
}

/* Its node went with the session. */
static void session_over(struct zk_part *part)
{
        zk_session_unuse(part->session);
        part->session = NULL;
        if (part->state == ZK_HELD)
                zk_claim_gone(part, PAWL_REASON_SESSION);
        else if (part->want == ZK_RELEASING)
                end_release(part, part->doubtful ? PAWL_IN_DOUBT : PAWL_LOST);
        else if (part->want == ZK_ADOPTING)
                zk_claim_refuse(part, PAWL_LOST, "the lease is over: it ran out, or was released or broken");
        else if (part->want == ZK_CANCELLING)
                zk_claim_refuse(part, part->code, NULL);
        else
                start_over(part);
}

/* All of them are taken out first: what is told of one may end others. */
void zk_claims_expired(struct zk_session *session)
{
        struct zk *zk = session->zk;
        struct list over;

        list_init(&over);
        for (size_t i = 0; i < zk->claims.size; i++) {
                for (struct link *link = zk->claims.rooms[i]; link; link = link->next) {
                        struct zk_part *part = container_of(link, struct zk_part, link);

                        if (part->session != session)
                                continue;
                        if (part->state != ZK_PARKED)
                                part->want = part->state;
                        list_remove(&part->listed);
                        list_append(&over, &part->listed);
                }
        }
        while (!list_empty(&over)) {
                struct zk_part *part = list_first(&over, struct zk_part, listed);

                list_remove(&part->listed);
                if (part->wait)
                        part->wait->behind = NULL;
                session_over(part);
        }
}
