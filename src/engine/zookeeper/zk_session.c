/* zk_session.c - a session and its connection: requests out, answers in, in their order; what keeps the session
 * alive and proves that it stands; going from server to server with it; and its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../session/words.h"
#include "zk.h"

enum {
        PACKET_MAX = 64 << 20,
        SESSIONS_MAX = 8,    /* of different ttls; more share the next longer one */
        FLUSHED_AT_ONCE = 16 /* with more under way, the next answer takes along what was written meanwhile */
};
#define ANY_TTL (10 * SECOND)
#define LEAST_PATIENCE (100 * MS)

static void session_due(struct timer *timer);
static void connect_again(struct timer *timer);
static void keep_alive(struct zk_session *session, int64_t now);
static void beat_answered(struct zk_ask *ask, int error, struct jute_in *reply);
static void number_answered(struct zk_ask *ask, int error, struct jute_in *reply);
static const struct net_events net_events;

static struct zk_session *session_of(struct net *net)
{
        return container_of(net, struct zk_session, net);
}

static int64_t now_of(const struct zk_session *session)
{
        return loop_now(session->net.loop);
}

/* How long an answer may take: half of the session, so that there is time left to find another server. */
static int64_t patience(const struct zk_session *session)
{
        int64_t half = (session->timeout ? session->timeout : session->wanted_ms * MS) / 2;

        if (half < LEAST_PATIENCE)
                half = LEAST_PATIENCE;
        return half < session->zk->timeout ? half : session->zk->timeout;
}

static void wake_by(struct zk_session *session, int64_t at)
{
        if (at < session->timer.at)
                loop_set(session->net.loop, &session->timer, at); /* moving: cannot fail */
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

/* Those below 0 have a meaning of their own. */
static int32_t next_xid(int32_t xid)
{
        return xid == INT32_MAX ? 1 : xid + 1;
}

static bool may_ask(const struct zk_session *session)
{
        return session->net.state == NET_UP && !session->net.failing &&
               (session->state == ZK_CONNECTED || session->asking == &session->greeting);
}

struct jute_out *zk_begin(struct zk_session *session, struct zk_ask *ask, size_t room)
{
        char *memory;

        session->asking = ask;
        memory = may_ask(session) ? net_room(&session->net, room) : NULL;
        jute_out_init(&session->out, memory, memory ? room : 0);
        session->out.full = !memory;
        ask->xid = next_xid(session->xid);
        ask->left = 0;
        ask->proves = 0;
        return &session->out;
}

/* Writes are confirmed by a quorum; sync only goes to the leader and back; reads are answered by the server we are connected
 * to. */
static unsigned proves(enum zk_op op)
{
        if (op == ZK_SYNC)
                return ZK_PROVES_LEADER;
        return op == ZK_CREATE || op == ZK_CREATE2 || op == ZK_CREATE_CONTAINER || op == ZK_DELETE ||
                               op == ZK_SET_DATA || op == ZK_MULTI
                       ? ZK_PROVES_WRITE
                       : 0;
}

void zk_request(struct zk_session *session, enum zk_op op)
{
        struct zk_ask *ask = session->asking;

        if (ask->left)
                jute_end(&session->out, session->packet);
        session->xid = next_xid(session->xid);
        session->packet = jute_begin(&session->out, session->xid, op);
        if (ask->left < 8)
                ask->proves |= (uint16_t)(proves(op) << 2 * ask->left);
        ask->left++;
}

static void send_soon(struct zk_session *session)
{
        session->sent_at = now_of(session);
        if (!session->hearing && session->asks <= FLUSHED_AT_ONCE)
                net_flush(&session->net);
        net_expect(&session->net, session->asks > 0);
}

int zk_send(struct zk_session *session)
{
        struct zk_ask *ask = session->asking;

        jute_end(&session->out, session->packet);
        if (!may_ask(session) || session->out.full) {
                session->xid = ask->xid - 1;
                ask->left = 0;
                return may_ask(session) ? PAWL_NO_MEMORY : PAWL_UNREACHABLE;
        }
        ask->sent_at = now_of(session);
        net_wrote(&session->net, jute_written(&session->out));
        list_append(&session->asked, &ask->listed);
        session->asks++;
        wake_by(session, ask->sent_at + patience(session));
        send_soon(session);
        return PAWL_OK;
}

void zk_nobody_hears(struct zk_ask *ask, int error, struct jute_in *reply)
{
        (void)error;
        (void)reply;
        if (ask->left == 0)
                free(ask);
}

void zk_forget(struct zk_session *session, struct zk_ask *ask)
{
        struct zk_ask *stand_in;

        if (!zk_asked(ask))
                return;
        stand_in = malloc(sizeof(*stand_in));
        if (!stand_in) { /* answers could no longer be told apart */
                list_remove(&ask->listed);
                session->asks--;
                net_fail(&session->net, PAWL_NO_MEMORY, "%s: no memory", session->zk->where);
                return;
        }
        *stand_in = *ask;
        stand_in->answered = zk_nobody_hears;
        list_append(ask->listed.next, &stand_in->listed); /* before the next: in its place */
        list_remove(&ask->listed);
}

/* ---- watches --------------------------------------------------------------------------------------------------- */

void zk_watch_add(struct zk_session *session, struct zk_watch *watch)
{
        watch->session = session;
        table_add(&session->watches, &watch->link, table_hash(watch->path, watch->length));
        list_init(&watch->listed);
        list_append(&session->watching, &watch->listed);
}

void zk_watch_remove(struct zk_session *session, struct zk_watch *watch)
{
        (void)session;
        if (!watch->listed.next || list_empty(&watch->listed))
                return;
        table_remove(&watch->session->watches, &watch->link);
        list_remove(&watch->listed);
}

static struct zk_watch *find_watch(const struct zk_session *session, struct jute_text path)
{
        uint64_t hash = table_hash(path.at, path.length);

        for (struct link *link = table_first(&session->watches, hash); link; link = link->next) {
                struct zk_watch *watch = container_of(link, struct zk_watch, link);

                if (link->hash == hash && watch->length == path.length &&
                    memcmp(watch->path, path.at, path.length) == 0)
                        return watch;
        }
        return NULL;
}

/* All that wait there. One that is added again while it is told waits for the next event. */
static void event_told(struct zk_session *session, struct jute_in *in)
{
        struct zk_event event;
        struct list told;
        struct zk_watch *watch;

        jute_get_event(in, &event);
        if (in->bad) {
                net_fail(&session->net, PAWL_UNREACHABLE, "%s: an event that makes no sense", session->zk->where);
                return;
        }
        list_init(&told);
        while ((watch = find_watch(session, event.path)) != NULL) {
                zk_watch_remove(session, watch);
                list_append(&told, &watch->listed);
        }
        while (!list_empty(&told)) {
                watch = list_first(&told, struct zk_watch, listed);
                list_remove(&watch->listed);
                watch->fired(watch, event.type);
        }
}

static void watches_lost(struct zk_session *session)
{
        struct list lost;

        list_init(&lost);
        while (!list_empty(&session->watching)) {
                struct zk_watch *watch = list_first(&session->watching, struct zk_watch, listed);

                zk_watch_remove(session, watch);
                list_append(&lost, &watch->listed);
        }
        while (!list_empty(&lost)) {
                struct zk_watch *watch = list_first(&lost, struct zk_watch, listed);

                list_remove(&watch->listed);
                watch->fired(watch, ZK_EVENT_SESSION);
        }
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

/* The session is not what we think it is: coming back tells. */
static bool is_about_session(int error)
{
        return error == ZK_SESSION_EXPIRED || error == ZK_SESSION_MOVED || error == ZK_CONNECTION_LOSS ||
               error == ZK_NOT_READ_ONLY;
}

/* A detached lease that is held is its holder's to renew. */
static bool is_let_alone(const struct zk_session *session)
{
        return session->kind == ZK_OWN && !session->kept;
}

/* The leader has heard of us: leases last longer, and renewals that wait for that are told. */
static void extend(struct zk_session *session)
{
        if (session->kind != ZK_OWN) /* who renews that has to write its node, too */
                zk_session_believe(session);
        zk_claims_proven(session);
}

void zk_session_believe(struct zk_session *session)
{
        session->time = (struct term_time){.extended_at = session->known, .length = session->timeout};
}

/* What is known is too old to grant anything by: after a long silence, or because the leader does not answer for long.
 * Coming back is a sign of life at once. */
static bool is_stale(const struct zk_session *session, int64_t sent_at)
{
        return sent_at - session->known > session->timeout - (session->timeout - session->zk->slack) / 2;
}

/* An answer by way of the leader. To come back to a session is a sign of life at the leader itself, if a quorum confirms
 * afterwards that it is the leader. */
static void prove(struct zk_session *session, const struct zk_ask *ask, bool is_write)
{
        bool later = zk_proof_answered(&session->proof, ask->sent_at, session->heard_at, is_write, &session->known);

        if (is_write && session->taken_at > session->known) {
                session->known = session->taken_at;
                later = true;
        }
        if (is_write && ask->sent_at > session->wrote_at)
                session->wrote_at = ask->sent_at;
        if (is_write && is_stale(session, ask->sent_at))
                net_fail(&session->net, PAWL_UNREACHABLE, "%s: for %lld ms nothing was heard of the leader",
                         session->zk->where, (long long)((ask->sent_at - session->known) / MS));
        if (later)
                extend(session);
        if (!is_let_alone(session))
                wake_by(session, zk_proof_wants(&session->proof));
}

/* Before 3.6 a server does not know getEphemerals. It says so before it answers what was asked before that, and hangs up. */
static void answer(struct zk_session *session, const struct zk_reply *reply, struct jute_in *in)
{
        struct zk_ask *ask = list_empty(&session->asked) ? NULL : list_first(&session->asked, struct zk_ask, listed);

        if (!ask || ask->xid != reply->xid) {
                session->zk->no_ephemerals |= reply->error == ZK_UNIMPLEMENTED;
                net_fail(&session->net, PAWL_UNREACHABLE, "%s: an answer to nothing", session->zk->where);
                return;
        }
        if (reply->error == ZK_OK && (ask->proves & ZK_PROVES_WRITE))
                prove(session, ask, (ask->proves & ZK_PROVES_WRITE) == ZK_PROVES_WRITE);
        ask->proves >>= 2;
        ask->xid = next_xid(ask->xid);
        if (--ask->left == 0) {
                list_remove(&ask->listed);
                session->asks--;
        }
        ask->answered(ask, reply->error, reply->error == ZK_OK ? in : NULL);
}

static void authenticated(struct zk_session *session, int error)
{
        if (error != ZK_OK)
                net_fail(&session->net, PAWL_DENIED, "%s: it refuses the user or the password", session->zk->where);
}

static void take_reply(struct zk_session *session, struct jute_in *in)
{
        struct zk_reply reply;

        jute_get_reply(in, &reply);
        if (in->bad) {
                net_fail(&session->net, PAWL_UNREACHABLE, "%s: an answer that makes no sense", session->zk->where);
                return;
        }
        if (reply.zxid > 0)
                session->last_zxid = reply.zxid;
        if (reply.zxid > session->zk->seen_zxid && session->state == ZK_CONNECTED)
                session->zk->seen_zxid = reply.zxid;
        if (reply.xid == ZK_XID_EVENT)
                event_told(session, in);
        else if (reply.xid == ZK_XID_AUTH)
                authenticated(session, reply.error);
        else if (is_about_session(reply.error))
                net_fail(&session->net, PAWL_UNREACHABLE,
                         "%s: the session is no longer there, or the server lost its quorum", session->zk->where);
        else
                answer(session, &reply, in);
}

/* ---- the greeting ---------------------------------------------------------------------------------------------- */

static void no_memory(struct zk_session *session)
{
        net_fail(&session->net, PAWL_NO_MEMORY, "%s: no memory", session->zk->where);
}

static void write_packet(struct zk_session *session, void (*put)(struct zk_session *, struct jute_out *), size_t room)
{
        char *memory = net_room(&session->net, room);
        struct jute_out out;

        if (!memory) {
                no_memory(session);
                return;
        }
        jute_out_init(&out, memory, room);
        put(session, &out);
        if (out.full)
                no_memory(session);
        else
                net_wrote(&session->net, jute_written(&out));
        session->sent_at = now_of(session);
}

static void put_connect(struct zk_session *session, struct jute_out *out)
{
        struct zk_connect connect = {
                .last_zxid = session->last_zxid,
                .session = session->id,
                .timeout_ms = session->wanted_ms > INT32_MAX ? INT32_MAX : (int32_t)session->wanted_ms,
        };

        memcpy(connect.password, session->password, sizeof(connect.password));
        jute_put_connect(out, &connect);
}

static void put_auth(struct zk_session *session, struct jute_out *out)
{
        jute_put_auth(out, "digest", session->zk->auth, strlen(session->zk->auth));
}

static void put_close(struct zk_session *session, struct jute_out *out)
{
        session->xid = next_xid(session->xid);
        jute_put_close(out, session->xid);
}

static void up(struct net *net)
{
        struct zk_session *session = session_of(net);

        session->state = ZK_GREETING;
        session->met = true;
        session->greeted = false;
        session->in_size = 0;
        session->xid = 0;
        write_packet(session, put_connect, 128);
        wake_by(session, session->sent_at + patience(session));
}

/* sync first: a server that is behind may not know of the last restore. */
static void ask_number(struct zk_session *session)
{
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        zk_path_of_own(session->zk, NULL, path);
        zk_ask_init(&session->greeting, number_answered);
        out = zk_begin(session, &session->greeting, 2 * ZK_REQUEST_ROOM);
        zk_request(session, ZK_SYNC);
        jute_put_path(out, path);
        zk_request(session, ZK_GET_DATA);
        jute_put_path_watch(out, path, false);
        if (zk_send(session) != PAWL_OK)
                no_memory(session);
}

static void expired(struct zk_session *session)
{
        net_close(&session->net);
        session->state = ZK_EXPIRED;
        why_set(&session->why, PAWL_LOST, "%s: the session has expired", session->zk->where);
        watches_lost(session);
        zk_claims_expired(session);
        zk_delays_expired(session);
        zk_ghosts_expired(session);
        zk_news_expired(session);
        if (session->users == 0)
                loop_set(session->net.loop, &session->timer, 0); /* to be freed */
}

/* What is known of a session is as old as the way of a sign of life to the leader, an interval, and the pause between two
 * signs. A lease may be older than its renewal by a third of its ttl, and by what its session is longer. */
int64_t zk_pace(const struct zk *zk, int64_t ttl)
{
        int64_t timeout = ttl + zk->slack;
        int64_t shortest = zk->shortest && zk->shortest < timeout ? zk->shortest : timeout;
        int64_t pace = (ttl / 3 + zk->slack - zk_proof_interval(zk->tick, shortest)) * 3 / 4;

        if (pace > timeout / 3)
                return timeout / 3;
        return pace > timeout / 16 ? pace : timeout / 16;
}

/* The server has granted it so long. A session that is longer than before is not yet so at the leader. */
static void take_timeout(struct zk_session *session, int64_t timeout)
{
        struct zk *zk = session->zk;

        if (session->known != INT64_MIN && timeout > session->timeout)
                session->known -= timeout - session->timeout;
        session->timeout = timeout;
        if (zk->shortest == 0 || timeout < zk->shortest)
                zk->shortest = timeout;
        zk_proof_begin(&session->proof, zk_proof_interval(zk->tick, zk->shortest));
        if (session->kind != ZK_MARKERS)
                session->every = zk_pace(zk, session->wanted_ms * MS - zk->slack);
}

/* To make one is a write, at the leader itself; to come back to one needs a write behind it. */
static void take_times(struct zk_session *session, int64_t timeout)
{
        take_timeout(session, timeout);
        session->wrote_at = INT64_MIN / 2;
        session->taken_at = session->sent_at;
        if (session->id == 0)
                session->wrote_at = session->known = session->sent_at;
        if (session->id == 0 || session->kind != ZK_OWN)
                zk_session_believe(session);
}

static void take_connect(struct zk_session *session, struct jute_in *in)
{
        struct zk_connect answer;

        jute_get_connect(in, &answer);
        if (session->id == 0 && (answer.session == 0 || answer.timeout_ms <= 0))
                in->bad = true; /* one that was not there cannot have expired */
        if (in->bad) {
                net_fail(&session->net, PAWL_UNREACHABLE,
                         "%s: what answers there does not speak the ZooKeeper protocol", session->zk->where);
                return;
        }
        session->greeted = true;
        if (answer.session == 0 || answer.timeout_ms <= 0) {
                if (session->id != 0)
                        expired(session);
                else
                        net_fail(&session->net, PAWL_UNREACHABLE, "%s: it opens no session: is it a ZooKeeper?",
                                 session->zk->where);
                return;
        }
        session->least_zxid = session->id == 0 ? session->zk->seen_zxid : 0;
        take_times(session, answer.timeout_ms * MS);
        session->id = answer.session;
        memcpy(session->password, answer.password, sizeof(session->password));
        if (session->zk->auth)
                write_packet(session, put_auth, 256 + strlen(session->zk->auth));
        ask_number(session);
}

static void connected(struct zk_session *session)
{
        struct zk *zk = session->zk;

        session->state = ZK_CONNECTED;
        zk->ever = true;
        session->round = 0;
        session->refused_at = 0;
        net_backoff_reset(&session->backoff);
        wake_by(session, now_of(session) + session->every);
        keep_alive(session, now_of(session)); /* first: what is granted now counts from it */
        zk_claims_up(session);
        zk_delays_up(session);
        zk_ghosts_up(session);
        zk_news_up(session);
        zk_past_up(zk);
        zk_inspect_up(zk);
}

/* How often the store was restored; a namespace without that number never was. */
static bool read_number(struct zk *zk, struct jute_text text)
{
        struct words words = {.at = text.at, .end = text.at + text.length};
        uint64_t number = 0;

        if (text.length > 0 && !words_number(&words, 10, (1 << 15) - 1, &number))
                return false;
        if (number > zk->restores) { /* it only grows: tokens must not go back */
                zk->restores = number;
                zk->seen_zxid = 0;
        }
        return true;
}

/* The store is older than what we have seen of it, and nobody has raised its number: tokens would be given again. To open a
 * session is a write, so it was not a server that lags behind. */
static bool went_back(const struct zk_session *session)
{
        bool raised = session->zk->seen_zxid < session->least_zxid;

        return session->last_zxid < session->least_zxid && !raised;
}

static void number_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_session *session = container_of(ask, struct zk_session, greeting);
        struct zk *zk = session->zk;
        struct jute_text text = {.at = ""};
        struct zk_stat stat;
        const char *sentence;

        if (error == ZK_CONNECTION_LOSS || ask->left)
                return;
        if (error == ZK_OK)
                jute_get_data(reply, &text, &stat);
        if (error != ZK_OK && error != ZK_NO_NODE) {
                int code = zk_error(error, &sentence);

                net_fail(&session->net, code, "%s: %s/.pawl: %s", zk->where, zk->chroot, sentence);
        } else if ((reply && reply->bad) || !read_number(zk, text)) {
                net_fail(&session->net, PAWL_CORRUPT, "%s: the data of %s/.pawl are not a number: run pawl init",
                         zk->where, zk->chroot);
        } else if (went_back(session)) {
                net_fail(&session->net, PAWL_CORRUPT,
                         "%s: its data are older than what this client has seen: if they were restored, run pawl init "
                         "--yes",
                         zk->where);
        } else {
                connected(session);
        }
}

/* ---- bytes in -------------------------------------------------------------------------------------------------- */

static bool listens(const struct zk_session *session)
{
        return session->net.state == NET_UP && !session->net.failing;
}

/* Takes whole packets; returns how many bytes they were. */
static size_t take_packets(struct zk_session *session, const char *data, size_t size)
{
        size_t taken = 0;

        while (listens(session)) {
                struct jute_in in;
                size_t length = jute_packet(data + taken, size - taken, PACKET_MAX, &in);

                if (in.bad)
                        net_fail(&session->net, PAWL_UNREACHABLE,
                                 "%s: what answers there does not speak the ZooKeeper protocol", session->zk->where);
                if (length == 0 || in.bad)
                        break;
                taken += length;
                if (session->greeted)
                        take_reply(session, &in);
                else
                        take_connect(session, &in);
        }
        return taken;
}

static bool keep_rest(struct zk_session *session, const char *data, size_t size)
{
        if (session->in_size + size > session->in_room) {
                size_t room = 2 * (session->in_size + size);
                char *in = realloc(session->in, room);

                if (!in)
                        return false;
                session->in = in;
                session->in_room = room;
        }
        memcpy(session->in + session->in_size, data, size);
        session->in_size += size;
        return true;
}

enum { IN_KEPT = 64 * 1024 }; /* more than this is given back */

static void take_kept(struct zk_session *session, const char *data, size_t size)
{
        size_t taken;

        if (!keep_rest(session, data, size)) {
                no_memory(session);
                return;
        }
        taken = take_packets(session, session->in, session->in_size);
        session->in_size -= taken;
        memmove(session->in, session->in + taken, session->in_size);
        if (session->in_size == 0 && session->in_room > IN_KEPT) {
                free(session->in);
                session->in = NULL;
                session->in_room = 0;
        }
}

static void heard(struct net *net, const char *data, size_t size)
{
        struct zk_session *session = session_of(net);
        size_t taken;

        session->hearing = true;
        session->heard_at = now_of(session);
        if (session->in_size > 0) {
                take_kept(session, data, size);
        } else {
                taken = take_packets(session, data, size);
                if (taken < size && listens(session) && !keep_rest(session, data + taken, size - taken))
                        no_memory(session);
        }
        session->hearing = false;
        if (listens(session)) {
                if (net_unsent(net))
                        net_flush(net);
                net_expect(net, session->asks > 0);
        }
}

/* ---- losing it, and coming back -------------------------------------------------------------------------------- */

static void answers_lost(struct zk_session *session)
{
        struct list asked;

        list_init(&asked);
        list_splice(&asked, &session->asked);
        session->asks = 0;
        while (!list_empty(&asked)) {
                struct zk_ask *ask = list_first(&asked, struct zk_ask, listed);

                list_remove(&ask->listed);
                ask->left = 0;
                ask->answered(ask, ZK_CONNECTION_LOSS, NULL);
        }
}

static bool is_connected(const struct zk *zk)
{
        for (struct list *at = zk->sessions.next; at != &zk->sessions; at = at->next)
                if (container_of(at, struct zk_session, listed)->state == ZK_CONNECTED)
                        return true;
        return false;
}

static bool is_wanted(const struct zk_session *session)
{
        const struct zk *zk = session->zk;

        return session->users > 0 || !list_empty(&zk->questions) || !list_empty(&zk->examinations);
}

/* It is not connected, and the next attempt is set out for, if anybody wants it. */
static void tell_down(struct zk_session *session, bool was_connected)
{
        struct zk *zk = session->zk;

        zk_claims_down(session, &session->why, was_connected);
        zk_delays_down(session, &session->why, was_connected);
        if (!is_connected(zk))
                zk_inspect_down(zk, &session->why);
        if (!is_wanted(session))
                loop_set(session->net.loop, &session->timer, 0); /* to be freed */
}

/* The next server at once; after all of them a pause. */
static void set_out_again(struct zk_session *session)
{
        struct zk *zk = session->zk;
        int64_t pause = 0;

        session->server++;
        if (++session->round % zk->server_count == 0)
                pause = net_backoff(&session->backoff, session->net.loop);
        loop_set(session->net.loop, &session->again, now_of(session) + pause);
}

/* A server that has older data than we have seen says nothing: it hangs up. If all do for as long as the session lasts, it
 * is over, whatever becomes of it. */
static bool is_given_up(struct zk_session *session)
{
        int64_t now = now_of(session);

        if (session->state != ZK_GREETING || session->greeted || session->id == 0)
                return false;
        if (session->refused_at == 0)
                session->refused_at = now;
        return now - session->refused_at > session->timeout;
}

/* It took the connection and closed it again, without an answer to the first packet. That may be seen before the connection
 * is: then by an error that a connection has only after it was made. */
static bool is_hung_up(const struct zk_session *session, const struct pawl_why *why)
{
        bool reset = why->sys_errno == EPIPE || why->sys_errno == ECONNRESET;

        if (session->state == ZK_CONNECTING)
                return reset && !session->zk->tls;
        return session->state == ZK_GREETING && !session->greeted && !session->net.given_up &&
               (reset || why->sys_errno == 0);
}

/* A server says nothing of its reasons: what they probably are. */
static const char *reasons_to_hang_up(const struct zk_session *session)
{
        if (session->id != 0)
                return "before it resumed the session: it has no quorum, or older data than this client has seen, or "
                       "too "
                       "many connections from this address (maxClientCnxns in zoo.cfg, by default 60)";
        if (is_connected(session->zk))
                return "before it opened a session, while another session of this client is served: are there too many "
                       "connections from this address? (maxClientCnxns in zoo.cfg, by default 60)";
        if (session->zk->tls)
                return "before it opened a session: it has no quorum, or too many connections from this address "
                       "(maxClientCnxns in zoo.cfg, by default 60)";
        return "before it opened a session: it has no quorum, or too many connections from this address "
               "(maxClientCnxns in "
               "zoo.cfg, by default 60), or expects TLS (zks://)";
}

static void explain_hang_up(struct zk_session *session)
{
        const char *host = session->target.host;
        struct pawl_why *why = &session->why;
        int32_t error = why->sys_errno;
        char where[300];

        snprintf(where, sizeof(where), strchr(host, ':') ? "[%.255s]:%u" : "%.255s:%u", host,
                 (unsigned)session->target.port);
        why_set(why, why->code, "%s closed the connection %s", where, reasons_to_hang_up(session));
        why->sys_errno = error;
}

static void down(struct net *net, const struct pawl_why *why)
{
        struct zk_session *session = session_of(net);
        bool hung_up = is_hung_up(session, why);
        bool was_connected = session->state == ZK_CONNECTED;

        if (is_given_up(session)) {
                expired(session);
                return;
        }
        session->state = ZK_DOWN;
        session->why = *why;
        if (hung_up)
                explain_hang_up(session);
        if (was_connected)
                session->zk->lost_at = now_of(session);
        set_out_again(session); /* first: whoever asks again now must not connect without a pause */
        answers_lost(session);
        watches_lost(session);
        tell_down(session, was_connected);
}

/* With several servers, none may take all the time there is. */
static int64_t connect_patience(const struct zk_session *session)
{
        int64_t limit = patience(session);

        return session->zk->server_count > 1 ? limit / 2 + 50 * MS : session->zk->timeout;
}

static int connect_now(struct zk_session *session)
{
        struct zk *zk = session->zk;
        const struct zk_server *server = &zk->servers[(zk->first_server + session->server) % zk->server_count];
        struct pawl_why why;
        int code;

        if (session->round % zk->server_count == 0)
                session->met = false;
        session->target =
                (struct net_target){.host = server->host, .port = server->port, .tls = zk->tls, .silence = zk->timeout};
        session->state = ZK_CONNECTING;
        code = net_connect(&session->net, connect_patience(session), &why);
        if (code == PAWL_OK)
                return code;
        session->state = ZK_DOWN;
        session->why = why;
        set_out_again(session);
        return code;
}

void zk_session_refresh(struct zk_session *session)
{
        net_close(&session->net);
        session->state = ZK_DOWN;
        answers_lost(session);
        watches_lost(session);
        loop_set(session->net.loop, &session->again, 0); /* moving: cannot fail */
}

static void connect_again(struct timer *timer)
{
        struct zk_session *session = container_of(timer, struct zk_session, again);

        loop_set(session->net.loop, timer, NEVER);
        if (session->state == ZK_DOWN && connect_now(session) != PAWL_OK)
                tell_down(session, false);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

static void session_free(struct zk_session *session)
{
        loop_unset(session->net.loop, &session->timer);
        loop_unset(session->net.loop, &session->again);
        net_close(&session->net);
        while (!list_empty(&session->asked)) {
                struct zk_ask *ask = list_first(&session->asked, struct zk_ask, listed);

                list_remove(&ask->listed);
                if (ask->answered == zk_nobody_hears)
                        free(ask);
        }
        while (!list_empty(&session->watching))
                zk_watch_remove(session, list_first(&session->watching, struct zk_watch, listed));
        list_remove(&session->listed);
        table_free(&session->watches);
        explicit_bzero(session->password, sizeof(session->password));
        free(session->in);
        free(session);
}

/* The server deletes what is on it, and hears no more of us. */
static void say_goodbye(struct zk_session *session)
{
        if (session->state != ZK_CONNECTED || !listens(session))
                return;
        write_packet(session, put_close, 64);
        net_flush(&session->net);
}

/* A write that changes nothing: its answer proves that the quorum knows us. */
void zk_beat(struct zk_session *session)
{
        struct jute_out *out;

        if (session->state != ZK_CONNECTED || zk_asked(&session->beat))
                return;
        zk_ask_init(&session->beat, beat_answered);
        out = zk_begin(session, &session->beat, 256 + ZK_PATH_MAX);
        zk_request(session, ZK_MULTI);
        jute_begin_op(out, ZK_CHECK);
        jute_put_path_version(out, "/", -1);
        jute_end_ops(out);
        if (zk_check_is_due(session))
                zk_check_request(session, out);
        (void)zk_send(session); /* without memory: at the next beat */
}

/* The first answer is the beat's, a second one the check's. */
static void beat_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_session *session = container_of(ask, struct zk_session, beat);
        bool first = !session->beaten;

        session->beaten = ask->left > 0;
        if (error == ZK_CONNECTION_LOSS)
                return;
        if (!first)
                zk_check_answered(session, error, reply);
        else if (error != ZK_OK)
                zk_claims_not_renewed(session);
}

static void witnessed(struct zk_ask *ask, int error, struct jute_in *reply)
{
        (void)ask; /* prove has seen it */
        (void)error;
        (void)reply;
}

/* Goes to the leader and back, and changes nothing. */
static void send_witness(struct zk_session *session)
{
        struct jute_out *out;

        if (session->state != ZK_CONNECTED || zk_asked(&session->witness))
                return;
        zk_ask_init(&session->witness, witnessed);
        out = zk_begin(session, &session->witness, 64);
        zk_request(session, ZK_SYNC);
        jute_put_path(out, "/");
        (void)zk_send(session); /* without memory: later */
}

/* When the next write is due. */
static int64_t beat_due(const struct zk_session *session)
{
        return zk_asked(&session->beat) ? NEVER : session->wrote_at + session->every;
}

static int64_t witness_due(const struct zk_session *session)
{
        return zk_asked(&session->beat) || zk_asked(&session->witness) ? NEVER : zk_proof_wants(&session->proof);
}

static bool is_idle(const struct zk_session *session)
{
        return session->users == 0 && list_empty(&session->asked) &&
               now_of(session) - session->used_at >= session->zk->idle;
}

/* Until when the first answer, or the greeting, should be there; NEVER: nothing is expected. While others are
 * answered its turn will come: of ten thousand that were sent together the last takes its time. */
static int64_t expected_by(const struct zk_session *session)
{
        int64_t since;

        if (session->state == ZK_GREETING && !session->greeted)
                return session->sent_at + patience(session);
        if (list_empty(&session->asked))
                return NEVER;
        since = list_first(&session->asked, struct zk_ask, listed)->sent_at;
        if (session->heard_at > since)
                since = session->heard_at;
        return since + patience(session);
}

static void keep_alive(struct zk_session *session, int64_t now)
{
        if (session->state != ZK_CONNECTED || is_let_alone(session))
                return;
        if (now >= beat_due(session))
                zk_beat(session);
        else if (now >= witness_due(session))
                send_witness(session);
}

static int64_t next_look(const struct zk_session *session, int64_t now)
{
        int64_t next = expected_by(session), at;

        if (session->freed && session->users == 0)
                return now + 10 * MS;
        if (session->state == ZK_CONNECTED && !is_let_alone(session)) {
                at = beat_due(session) < witness_due(session) ? beat_due(session) : witness_due(session);
                next = at < next ? at : next;
        }
        return next > now ? next : now + 10 * MS;
}

/* Nobody wants it any more, and whoever still asks by it has been answered. */
static bool is_over(const struct zk_session *session)
{
        if (session->users > 0)
                return false;
        if (session->state == ZK_EXPIRED || (session->state == ZK_DOWN && !is_wanted(session)))
                return true;
        return session->freed ? session->state != ZK_CONNECTED || list_empty(&session->asked) : is_idle(session);
}

/* The timer is not moved with each request: it fires, finds that all is well, and goes on from there. */
static void session_due(struct timer *timer)
{
        struct zk_session *session = container_of(timer, struct zk_session, timer);
        struct loop *loop = session->net.loop;
        int64_t now = loop_now(loop);

        loop_set(loop, timer, NEVER); /* at once, while the heap still has the room it left: cannot fail */
        if (is_over(session)) {
                if (session->state != ZK_EXPIRED)
                        zk_news_expired(session);
                if (!session->dropped)
                        say_goodbye(session);
                session_free(session);
                return;
        }
        if (now >= expected_by(session))
                net_fail(&session->net, PAWL_UNREACHABLE, "%s: no answer for %lld ms", session->zk->where,
                         (long long)(patience(session) / MS));
        else
                keep_alive(session, now);
        wake_by(session, next_look(session, now));
}

/* ---- sessions as a whole --------------------------------------------------------------------------------------- */

static struct zk_session *session_new(struct zk *zk, int64_t wanted_ms, enum zk_session_kind kind)
{
        struct loop *loop = zk->engine.host->loop;
        struct zk_session *session = calloc(1, sizeof(*session));

        if (!session)
                return NULL;
        session->zk = zk;
        session->kind = (uint8_t)kind;
        session->wanted_ms = wanted_ms;
        session->known = session->time.extended_at = INT64_MIN;
        session->every = zk_pace(zk, wanted_ms * MS - zk->slack);
        session->used_at = loop_now(loop);
        list_init(&session->asked);
        list_init(&session->renewals);
        list_init(&session->watching);
        list_init(&session->listed);
        list_init(&session->beat.listed);
        list_init(&session->witness.listed);
        list_init(&session->greeting.listed);
        session->timer.fire = session_due;
        session->again.fire = connect_again;
        net_init(&session->net, loop, &net_events, &session->target);
        if (table_init(&session->watches) != PAWL_OK || loop_set(loop, &session->timer, NEVER) != 0 ||
            loop_set(loop, &session->again, NEVER) != 0) {
                session_free(session);
                return NULL;
        }
        list_append(&zk->sessions, &session->listed);
        return session;
}

static const struct net_events net_events = {.up = up, .heard = heard, .down = down};

static bool is_open(const struct zk_session *session)
{
        return session->state != ZK_EXPIRED && !session->freed && !session->dropped;
}

/* The one of exactly this length; with many of them also one that is longer. */
static struct zk_session *find_session(const struct zk *zk, int64_t wanted_ms, enum zk_session_kind kind)
{
        struct zk_session *longer = NULL;
        size_t count = 0;

        for (struct list *at = zk->sessions.next; at != &zk->sessions; at = at->next) {
                struct zk_session *session = container_of(at, struct zk_session, listed);

                if (session->kind != kind || !is_open(session))
                        continue;
                if (session->wanted_ms == wanted_ms)
                        return session;
                count++;
                if (session->wanted_ms > wanted_ms && (!longer || session->wanted_ms < longer->wanted_ms))
                        longer = session;
        }
        return count >= SESSIONS_MAX ? longer : NULL;
}

static void want(struct zk_session *session)
{
        if (session->state == ZK_DOWN && session->again.at == NEVER)
                loop_set(session->net.loop, &session->again, 0);
}

struct zk_session *zk_session_find(struct zk *zk, int64_t ttl, enum zk_session_kind kind)
{
        int64_t longest = INT64_MAX / 4; /* a record may say anything */
        int64_t wanted_ms = ((ttl < longest ? ttl : longest) + zk->slack + MS - 1) / MS;
        struct zk_session *session = kind == ZK_OWN ? NULL : find_session(zk, wanted_ms, kind);

        if (!session)
                session = session_new(zk, wanted_ms, kind);
        if (!session)
                return NULL;
        zk_session_use(session);
        want(session);
        return session;
}

struct zk_session *zk_session_resume(struct zk *zk, int64_t id, const char password[ZK_PASSWORD_SIZE], int64_t ttl)
{
        struct zk_session *session = zk_session_find(zk, ttl, ZK_OWN);

        if (!session)
                return NULL;
        session->id = id;
        memcpy(session->password, password, sizeof(session->password));
        return session;
}

void zk_session_use(struct zk_session *session)
{
        session->users++;
}

void zk_session_unuse(struct zk_session *session)
{
        session->used_at = now_of(session);
        if (--session->users > 0)
                return;
        if (session->kind == ZK_OWN)
                session->freed = true;
        if (session->state == ZK_EXPIRED || session->freed)
                loop_set(session->net.loop, &session->timer, 0);
}

void zk_session_drop(struct zk_session *session)
{
        session->dropped = true;
        zk_session_unuse(session);
}

struct zk_session *zk_any_session(struct zk *zk)
{
        struct zk_session *best = NULL;

        for (struct list *at = zk->sessions.next; at != &zk->sessions; at = at->next) {
                struct zk_session *session = container_of(at, struct zk_session, listed);

                if (session->kind != ZK_SHARED || !is_open(session))
                        continue;
                if (!best || (session->state == ZK_CONNECTED) > (best->state == ZK_CONNECTED) ||
                    ((session->state == ZK_CONNECTED) == (best->state == ZK_CONNECTED) &&
                     session->timeout > best->timeout))
                        best = session;
        }
        if (!best) {
                best = zk_session_find(zk, ANY_TTL, ZK_SHARED);
                if (best)
                        zk_session_unuse(best);
                return NULL;
        }
        best->used_at = now_of(best);
        want(best);
        return best->state == ZK_CONNECTED ? best : NULL;
}

void zk_sessions_close(struct zk *zk)
{
        while (!list_empty(&zk->sessions)) {
                struct zk_session *session = list_first(&zk->sessions, struct zk_session, listed);

                if (session->kind != ZK_OWN ||
                    session->kept) /* a detached claim that waits has nothing to leave behind */
                        say_goodbye(session);
                session_free(session);
        }
}
