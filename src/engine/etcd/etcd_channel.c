/* etcd_channel.c - the connection to one of the endpoints, and requests that outlive it: whatever was asked is asked
 * again on the next connection, until it is answered or its time is up. Watches are in etcd_watch.c. */
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

enum {
        SENT_AT_ONCE = 256, /* calls under way: what is asked beyond waits here, not in the server */
        PATIENCE_IN_LINE = 6,
        TICKS = 20 /* within the time limit: how often the clock is looked at */
};
#define SHORT_LIFE (200 * MS) /* a connection lost sooner is no better than none */
#define STALE_TOKEN (10 * SECOND)

struct etcd_flight {
        struct grpc_call call;
        struct list spare; /* in channel->spare */
        struct etcd_channel *channel;
        struct etcd_ask *ask;
};

static void pump(struct etcd_channel *channel);
static void authenticate(struct etcd_channel *channel);

static struct loop *loop_of(const struct etcd_channel *channel)
{
        return channel->etcd->engine.host->loop;
}

static int64_t now_of(const struct etcd_channel *channel)
{
        return loop_now(loop_of(channel));
}

static const char *where_of(const struct etcd_channel *channel)
{
        return channel->endpoints[channel->endpoint].where;
}

/* ---- what an error means ----------------------------------------------------------------------------------------- */

/* What is to be done about an error. */
enum remedy { TELL, AGAIN, ELSEWHERE, REAUTHENTICATE };

static bool says(const struct grpc_answer *answer, const char *words)
{
        return strstr(answer->text, words) != NULL;
}

/* A token that the server does not know, or no longer: those of a server that was started again are gone. Or we have none,
 * because authentication was enabled while we were connected. Who we are is not in doubt; a wrong password is reported where
 * the token is requested. */
static bool is_about_token(const struct grpc_answer *answer)
{
        return says(answer, "invalid auth token") || says(answer, "auth store is old");
}

static bool wants_token(const struct grpc_answer *answer)
{
        return is_about_token(answer) || says(answer, "user name is empty");
}

static enum remedy remedy_of(const struct grpc_answer *answer)
{
        switch (answer->status) {
        case GRPC_UNAVAILABLE:
        case GRPC_DEADLINE_EXCEEDED:
        case GRPC_CANCELLED:
        case GRPC_ABORTED:
                return ELSEWHERE;
        case GRPC_LOST:
        case GRPC_OVERDUE:
        case GRPC_NO_MEMORY:
                return AGAIN;
        case GRPC_RESOURCE_EXHAUSTED:
                return says(answer, "too many requests") ? AGAIN : TELL;
        case GRPC_UNAUTHENTICATED:
                return REAUTHENTICATE;
        case GRPC_INVALID_ARGUMENT:
                return wants_token(answer) ? REAUTHENTICATE : TELL;
        case GRPC_UNKNOWN:
                return says(answer, "request timed out") || says(answer, "leader changed") || says(answer, "no leader")
                               ? ELSEWHERE
                               : TELL;
        default:
                return TELL;
        }
}

static int code_of_argument(const struct grpc_answer *answer)
{
        bool who = says(answer, "authentication failed") || says(answer, "user name is empty") ||
                   says(answer, "user name not found");

        return who ? PAWL_DENIED : PAWL_INVALID;
}

static int code_of(const struct grpc_answer *answer)
{
        if (is_about_token(answer))
                return PAWL_UNREACHABLE;
        switch (answer->status) {
        case GRPC_RESOURCE_EXHAUSTED:
                return PAWL_FULL;
        case GRPC_PERMISSION_DENIED:
        case GRPC_UNAUTHENTICATED:
                return PAWL_DENIED;
        case GRPC_INVALID_ARGUMENT:
                return code_of_argument(answer);
        case GRPC_NOT_FOUND:
                return PAWL_NOT_FOUND;
        case GRPC_UNIMPLEMENTED:
                return PAWL_UNSUPPORTED;
        case GRPC_DATA_LOSS:
                return PAWL_CORRUPT;
        case GRPC_NO_MEMORY:
                return PAWL_NO_MEMORY;
        default:
                return PAWL_UNREACHABLE;
        }
}

static void explain(const struct etcd_channel *channel, const struct grpc_answer *answer, struct pawl_why *why)
{
        const char *where = where_of(channel);

        if (says(answer, "too many requests"))
                why_set(why, PAWL_FULL, "%s has more requests than it can do at the moment: %.200s", where,
                        answer->text);
        else if (answer->status == GRPC_RESOURCE_EXHAUSTED)
                why_set(why, PAWL_FULL,
                        "%s has no room (%.200s): raise --quota-backend-bytes or compact and defragment, then "
                        "`etcdctl alarm disarm`",
                        where, answer->text);
        else if (answer->status == GRPC_PERMISSION_DENIED)
                why_set(why, PAWL_DENIED, "%s: the user has no right to keys that begin with '%s' (%.200s)", where,
                        channel->etcd->prefix, answer->text);
        else if (code_of(answer) == PAWL_DENIED)
                why_set(why, PAWL_DENIED, "%s wants to know who asks, in the URL as user:password@ (%.200s)", where,
                        answer->text);
        else
                why_set(why, code_of(answer), "%s says: %.300s", where, answer->text);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

void ask_init(struct etcd_ask *ask)
{
        list_init(&ask->listed);
}

void channel_clock(struct etcd_channel *channel)
{
        if (channel->overdue.at == NEVER)
                loop_set(loop_of(channel), &channel->overdue, now_of(channel) + channel->etcd->timeout / TICKS);
}

static void park(struct etcd_channel *channel, struct etcd_ask *ask)
{
        list_remove(&ask->listed);
        list_append(&channel->parked, &ask->listed);
        channel_clock(channel);
}

static void answer(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        list_remove(&ask->listed);
        ask->method->answered(ask, reply, why);
}

static struct etcd_flight *take_flight(struct etcd_channel *channel)
{
        struct etcd_flight *flight;

        if (list_empty(&channel->spare)) {
                flight = calloc(1, sizeof(*flight));
                if (!flight)
                        return NULL;
                list_init(&flight->spare);
                flight->channel = channel;
                return flight;
        }
        flight = list_first(&channel->spare, struct etcd_flight, spare);
        list_remove(&flight->spare);
        return flight;
}

static void give_back(struct etcd_flight *flight)
{
        flight->ask = NULL;
        list_append(&flight->channel->spare, &flight->spare);
}

static void flight_write(struct grpc_call *call, struct grpc_out *out)
{
        struct etcd_flight *flight = container_of(call, struct etcd_flight, call);

        flight->ask->sent_at = call->sent_at;
        flight->ask->method->write(flight->ask, out);
}

/* On this connection it does not get better: what is under way is asked again elsewhere. */
static void leave_endpoint(struct etcd_channel *channel, int code, const char *sentence)
{
        grpc_fail(&channel->grpc, code, sentence);
}

/* The stream goes at once, so that no late answer is taken for that of a later request. */
void channel_suspect(struct etcd_channel *channel)
{
        if (channel->keeping.flow)
                grpc_end(&channel->grpc, &channel->keeping);
        if (channel_ready(channel))
                leave_endpoint(channel, PAWL_UNREACHABLE, "leases are not kept alive: no answer in time");
}

static void again_in_a_while(struct etcd_channel *channel)
{
        if (channel->again.at == NEVER)
                loop_set(loop_of(channel), &channel->again, now_of(channel) + channel->etcd->timeout / TICKS / 2);
        channel->stalled = true;
}

static bool is_over(const struct etcd_channel *channel, const struct etcd_ask *ask)
{
        return !ask->early && now_of(channel) >= ask->until;
}

/* Not answered, and it may help to ask again. */
static void repeat(struct etcd_channel *channel, struct etcd_ask *ask, const struct grpc_answer *told,
                   enum remedy remedy)
{
        struct pawl_why why;

        explain(channel, told, &why);
        if (told->undone)
                ask->tries--;
        if (is_over(channel, ask)) {
                answer(ask, NULL, &why);
                return;
        }
        park(channel, ask);
        if (told->status == GRPC_LOST)
                return; /* down is told next */
        channel->why = why;
        if (remedy == REAUTHENTICATE && ask->tries < 3 && now_of(channel) - channel->token_at > MS)
                authenticate(channel);
        else if (remedy == REAUTHENTICATE)
                leave_endpoint(channel, why.code, why.text); /* and come back after a pause, with a new token */
        else if (remedy == ELSEWHERE && channel->endpoint_count > 1)
                leave_endpoint(channel, why.code, why.text);
        else
                again_in_a_while(channel);
}

static bool may_repeat(const struct etcd_channel *channel, const struct etcd_ask *ask, enum remedy remedy)
{
        if (remedy == TELL || ask->early)
                return false;
        return remedy != REAUTHENTICATE || channel->etcd->user;
}

static void failed(struct etcd_channel *channel, struct etcd_ask *ask, const struct grpc_answer *told)
{
        enum remedy remedy = remedy_of(told);
        struct pawl_why why;

        ask->status = (uint8_t)told->status;
        if (may_repeat(channel, ask, remedy)) {
                repeat(channel, ask, told, remedy);
                return;
        }
        explain(channel, told, &why);
        answer(ask, NULL, &why);
}

static void flight_answered(struct grpc_call *call, const struct grpc_answer *told)
{
        struct etcd_flight *flight = container_of(call, struct etcd_flight, call);
        struct etcd_channel *channel = flight->channel;
        struct etcd_ask *ask = flight->ask;
        ProtobufCMessage *reply = NULL;
        struct grpc_answer strange = {.status = GRPC_STRANGE, .text = "an answer that cannot be read"};

        ask->flight = NULL;
        give_back(flight);
        channel->sent_count--;
        if (told->status < GRPC_LOST)
                channel->heard_at = now_of(channel);
        if (told->status == GRPC_OK) {
                reply = grpc_unpack(&channel->grpc, ask->method->reply, told->bytes, told->size);
                told = &strange;
        }
        if (reply)
                answer(ask, reply, NULL);
        else
                failed(channel, ask, told);
        pump(channel);
}

/* PAWL_OK, or it is not sent. */
static int send_ask(struct etcd_channel *channel, struct etcd_ask *ask)
{
        struct etcd_flight *flight = take_flight(channel);
        int code;

        if (!flight)
                return PAWL_NO_MEMORY;
        flight->ask = ask;
        flight->call = (struct grpc_call){.method = ask->method->path,
                                          .write = flight_write,
                                          .answered = flight_answered,
                                          .timeout = PATIENCE_IN_LINE * channel->etcd->timeout,
                                          .leaderless = ask->early};
        ask->tries++;
        code = grpc_ask(&channel->grpc, &flight->call);
        if (code != PAWL_OK) {
                ask->tries--;
                give_back(flight);
                return code;
        }
        if (channel->sent_count++ == 0)
                channel->heard_at = now_of(channel);
        ask->flight = flight;
        list_remove(&ask->listed);
        list_append(&channel->sent, &ask->listed);
        channel_clock(channel);
        return PAWL_OK;
}

/* Sends what is parked, as far as that is wise. */
static void pump(struct etcd_channel *channel)
{
        while (channel_ready(channel) && !channel->stalled && channel->sent_count < SENT_AT_ONCE &&
               !list_empty(&channel->parked)) {
                int code = send_ask(channel, list_first(&channel->parked, struct etcd_ask, listed));

                if (code == PAWL_UNREACHABLE)
                        leave_endpoint(channel, PAWL_UNREACHABLE,
                                       "the server wants no more requests on this connection");
                if (code == PAWL_NO_MEMORY)
                        why_set(&channel->why, code, "no memory to ask %s", where_of(channel));
                if (code != PAWL_OK) {
                        channel_clock(channel);
                        return;
                }
        }
}

void channel_ask(struct etcd_channel *channel, struct etcd_ask *ask, const struct etcd_method *method, int64_t until)
{
        ask->method = method;
        ask->until = until;
        ask->tries = 0;
        ask->status = GRPC_OK;
        ask->early = false;
        list_append(&channel->parked, &ask->listed);
        if (channel_ready(channel)) {
                pump(channel);
        } else {
                channel_clock(channel);
                channel_want(channel);
        }
}

void channel_forget(struct etcd_channel *channel, struct etcd_ask *ask)
{
        if (ask->flight) {
                grpc_forget(&channel->grpc, &ask->flight->call);
                give_back(ask->flight);
                ask->flight = NULL;
                channel->sent_count--;
        }
        list_remove(&ask->listed);
}

/* ---- asks whose time is up --------------------------------------------------------------------------------------- */

/* Nothing will change by trying again. */
static bool is_final(const struct pawl_why *why)
{
        return why->code == PAWL_DENIED || why->code == PAWL_UNSUPPORTED || why->code == PAWL_INVALID ||
               why->code == PAWL_CORRUPT;
}

/* round: no endpoint could be reached. Answering one may end others, so that the list is looked at from its begin. */
static void give_up(struct etcd_channel *channel, bool round)
{
        bool final = is_final(&channel->why);
        int64_t now = now_of(channel);
        struct list waiting;

        list_init(&waiting);
        list_splice(&waiting, &channel->parked);
        while (!list_empty(&waiting)) {
                struct etcd_ask *ask = list_first(&waiting, struct etcd_ask, listed);

                if (now >= ask->until || (round && (final || !ask->patient || !channel->ever))) {
                        answer(ask, NULL, &channel->why);
                        continue;
                }
                list_remove(&ask->listed);
                list_append(&channel->parked, &ask->listed);
        }
}

/* The oldest was not answered, and nothing else either. */
static bool is_silent(const struct etcd_channel *channel)
{
        return channel->sent_count > 0 && now_of(channel) - channel->heard_at >= channel->etcd->timeout / 3;
}

static void look_at_clock(struct timer *timer)
{
        struct etcd_channel *channel = container_of(timer, struct etcd_channel, overdue);

        loop_set(loop_of(channel), timer, NEVER); /* at once, while the heap still has the room it left: cannot fail */
        if (is_silent(channel))
                leave_endpoint(channel, PAWL_UNREACHABLE, "no answer in time");
        if (!list_empty(&channel->parked)) {
                if (channel->why.code == PAWL_OK)
                        why_set(&channel->why, PAWL_UNREACHABLE, "%s: no answer in time", where_of(channel));
                give_up(channel, false);
        }
        watches_mend(channel);
        pump(channel);
        if (channel->sent_count || !list_empty(&channel->parked) || channel->unwatched)
                channel_clock(channel);
}

/* ---- authentication ---------------------------------------------------------------------------------------------- */

static void write_authenticate(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_channel *channel = container_of(ask, struct etcd_channel, authenticate);
        Pb__AuthenticateRequest request;

        pb__authenticate_request__init(&request);
        request.name = channel->etcd->user;
        if (channel->etcd->password)
                request.password = channel->etcd->password;
        grpc_write(out, &request.base);
}

static void greet(struct etcd_channel *channel);

static void authenticated(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_channel *channel = container_of(ask, struct etcd_channel, authenticate);
        const Pb__AuthenticateResponse *reply = (const Pb__AuthenticateResponse *)message;

        if (!reply && ask->status != GRPC_FAILED_PRECONDITION) { /* that is: authentication is not enabled */
                grpc_fail(&channel->grpc, why->code, why->text);
                return;
        }
        if (grpc_set_token(&channel->grpc, reply ? reply->token : NULL) != PAWL_OK) {
                grpc_fail(&channel->grpc, PAWL_NO_MEMORY, "no memory");
                return;
        }
        channel->token_at = ask->sent_at;
        greet(channel);
}

static const struct etcd_method authenticate_method = {
        .path = "/etcdserverpb.Auth/Authenticate",
        .reply = &pb__authenticate_response__descriptor,
        .write = write_authenticate,
        .answered = authenticated,
};

/* Before the channel is ready, and on this connection only. */
static void ask_early(struct etcd_channel *channel, struct etcd_ask *ask, const struct etcd_method *method)
{
        int code;

        ask->method = method;
        ask->tries = 0;
        ask->early = true;
        ask->status = GRPC_OK;
        code = send_ask(channel, ask);
        if (code != PAWL_OK)
                grpc_fail(&channel->grpc, code, "no memory, or the connection is gone");
}

/* Without the token we had: a server that does not know it refuses even to give a new one. */
static void authenticate(struct etcd_channel *channel)
{
        if (ask_busy(&channel->authenticate))
                return;
        channel->state = CHANNEL_AUTHENTICATING;
        (void)grpc_set_token(&channel->grpc, NULL); /* nothing to allocate */
        ask_early(channel, &channel->authenticate, &authenticate_method);
}

void channel_doubt_token(struct etcd_channel *channel)
{
        if (channel->etcd->user && channel_ready(channel) && now_of(channel) - channel->token_at > STALE_TOKEN)
                authenticate(channel);
}

/* ---- the greeting: what we must know of the store before any grant ----------------------------------------------- */

static void write_greeting(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_channel *channel = container_of(ask, struct etcd_channel, greet);
        Pb__RangeRequest request = PB__RANGE_REQUEST__INIT;
        char key[ETCD_KEY_MAX];

        request.key = bytes_of(key, key_of_ours(channel->etcd, "base", key));
        grpc_write(out, &request.base);
}

#define UNREADABLE UINT64_MAX
static uint64_t read_base(const Pb__RangeResponse *reply)
{
        uint64_t base = 0;

        if (reply->n_kvs == 0)
                return 0;
        for (size_t i = 0; i < reply->kvs[0]->value.len; i++) {
                uint8_t c = reply->kvs[0]->value.data[i];

                if (c < '0' || c > '9' || i > 4)
                        return UNREADABLE;
                base = base * 10 + (uint64_t)(c - '0');
        }
        return base < ETCD_BASE_MAX ? base : UNREADABLE;
}

static void be_ready(struct etcd_channel *channel)
{
        channel->state = CHANNEL_READY;
        channel->ever = true;
        channel->stalled = false;
        channel->failed = 0;
        channel->why.code = PAWL_OK;
        channel->ready_at = now_of(channel);
        channel->turn++;
        watches_up(channel);
        terms_up(channel->etcd);
        pump(channel);
}

/* It never goes back. One that cannot be read is passed over only for who writes it anew, and nobody enters a line then. */
static void take_base(struct etcd *etcd, const Pb__RangeResponse *reply, uint64_t base)
{
        if (base == UNREADABLE) {
                etcd->base_at = -1;
                return;
        }
        etcd->base_at = reply->n_kvs > 0 ? reply->kvs[0]->mod_revision : 0;
        if (base <= etcd->base)
                return;
        etcd->base = base; /* restored: what was seen was another past */
        etcd->revision = 0;
        etcd->run_from = etcd->run_to = etcd->run_next = 0;
        waits_unlearn(etcd);
}

static void greeted(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_channel *channel = container_of(ask, struct etcd_channel, greet);
        struct etcd *etcd = channel->etcd;
        const Pb__RangeResponse *reply = (const Pb__RangeResponse *)message;
        uint64_t base = reply ? read_base(reply) : 0;

        if (!reply) {
                grpc_fail(&channel->grpc, why->code, why->text);
        } else if (base == UNREADABLE && !examine_mends(etcd)) {
                grpc_fail(&channel->grpc, PAWL_CORRUPT,
                          "the key .pawl/base is not a number: `pawl init --yes` writes it anew");
        } else if (reply->header && reply->header->revision < etcd->revision && base <= etcd->base) {
                grpc_fail(
                        &channel->grpc, PAWL_CORRUPT,
                        "the store has gone back: was it restored from a snapshot? Tokens would repeat: run `pawl init "
                        "--yes` first");
        } else {
                take_base(etcd, reply, base);
                etcd_saw(etcd, reply->header);
                channel->raft_term = reply->header ? reply->header->raft_term : 0;
                be_ready(channel);
        }
}

static const struct etcd_method greet_method = {
        .path = "/etcdserverpb.KV/Range",
        .reply = &pb__range_response__descriptor,
        .write = write_greeting,
        .answered = greeted,
};

static void write_status(struct etcd_ask *ask, struct grpc_out *out)
{
        Pb__StatusRequest request = PB__STATUS_REQUEST__INIT;

        (void)ask;
        grpc_write(out, &request.base);
}

/* Client-chosen numbers of watches, and compares of ranges, are there since 3.4. */
static bool is_too_old(const char *version)
{
        char *end;
        long major = strtol(version, &end, 10), minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;

        return end != version && (major < 3 || (major == 3 && minor < 4));
}

static void status_told(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_channel *channel = container_of(ask, struct etcd_channel, status);
        const Pb__StatusResponse *reply = (const Pb__StatusResponse *)message;

        (void)why; /* who may not ask for it may still use the locks */
        if (reply && is_too_old(reply->version))
                grpc_fail(&channel->grpc, PAWL_UNSUPPORTED, "this etcd is older than 3.4");
}

static const struct etcd_method status_method = {
        .path = "/etcdserverpb.Maintenance/Status",
        .reply = &pb__status_response__descriptor,
        .write = write_status,
        .answered = status_told,
};

static void greet(struct etcd_channel *channel)
{
        if (channel->state == CHANNEL_GREETING)
                return;
        channel->state = CHANNEL_GREETING;
        if (!ask_busy(&channel->status))
                ask_early(channel, &channel->status, &status_method);
        if (!ask_busy(&channel->greet))
                ask_early(channel, &channel->greet, &greet_method);
}

void channel_greet_again(struct etcd_channel *channel)
{
        if (channel_ready(channel))
                greet(channel);
}

/* ---- up and down ------------------------------------------------------------------------------------------------- */

static void up(struct grpc *grpc)
{
        struct etcd_channel *channel = container_of(grpc, struct etcd_channel, grpc);

        if (channel->etcd->user)
                authenticate(channel);
        else
                greet(channel);
}

static void connect_now(struct etcd_channel *channel)
{
        const struct etcd_endpoint *endpoint = &channel->endpoints[channel->endpoint];
        int64_t timeout = channel->etcd->timeout;
        struct pawl_why why;

        channel->target.host = endpoint->host;
        channel->target.port = endpoint->port;
        grpc_set_target(&channel->grpc, &channel->target);
        channel->state = CHANNEL_CONNECTING;
        if (grpc_connect(&channel->grpc, channel->endpoint_count > 1 ? timeout / 3 : timeout, &why) == PAWL_OK)
                return;
        channel->why = why;
        channel->state = CHANNEL_DOWN;
        loop_set(loop_of(channel), &channel->again, now_of(channel) + net_backoff(&channel->backoff, loop_of(channel)));
}

static bool is_wanted(const struct etcd_channel *channel)
{
        const struct etcd *etcd = channel->etcd;

        return !list_empty(&channel->parked) || !list_empty(&channel->watches) || etcd->claims.count ||
               !list_empty(&etcd->terms);
}

/* Those who wait have no request under way that could be given up. */
static void end_waits(struct etcd_channel *channel, bool round)
{
        if (round && (is_final(&channel->why) ||
                      now_of(channel) - channel->lost_at >= PATIENCE_IN_LINE * channel->etcd->timeout))
                wait_refuse_all(channel->etcd, &channel->why);
}

static void down(struct grpc *grpc, const struct pawl_why *why)
{
        struct etcd_channel *channel = container_of(grpc, struct etcd_channel, grpc);
        int64_t now = now_of(channel), pause = 0;
        bool round, was_ready = channel_ready(channel), lived = was_ready && now - channel->ready_at >= SHORT_LIFE;

        if (strstr(why->text, where_of(channel)))
                channel->why = *why;
        else
                why_set(&channel->why, why->code, "%s: %s", where_of(channel), why->text);
        channel->state = CHANNEL_DOWN;
        if (was_ready)
                channel->lost_at = now;
        if (lived)
                net_backoff_reset(&channel->backoff);
        channel->endpoint = (channel->endpoint + 1) % channel->endpoint_count;
        round = !was_ready && ++channel->failed >= channel->endpoint_count;
        if (round || (was_ready && !lived)) { /* first: whoever asks again now must not connect without a pause */
                channel->failed = 0;
                pause = net_backoff(&channel->backoff, loop_of(channel));
        }
        loop_set(loop_of(channel), &channel->again, now + pause);
        watches_down(channel);
        terms_down(channel->etcd);
        doors_hurry(channel->etcd);
        give_up(channel, round);
        end_waits(channel, round);
}

static void again(struct timer *timer)
{
        struct etcd_channel *channel = container_of(timer, struct etcd_channel, again);

        loop_set(loop_of(channel), timer, NEVER);
        channel->stalled = false;
        if (channel->state == CHANNEL_DOWN && is_wanted(channel))
                connect_now(channel);
        else
                pump(channel);
}

void channel_want(struct etcd_channel *channel)
{
        if (channel->state == CHANNEL_DOWN && channel->again.at == NEVER)
                connect_now(channel);
}

static const struct grpc_events grpc_events = {.up = up, .down = down};

static void shuffle(struct etcd_channel *channel)
{
        for (size_t i = channel->endpoint_count; i > 1; i--) {
                struct etcd_endpoint last = channel->endpoints[i - 1];
                uint32_t chance;

                loop_random(loop_of(channel), &chance, sizeof(chance));
                channel->endpoints[i - 1] = channel->endpoints[chance % i];
                channel->endpoints[chance % i] = last;
        }
}

/* The timers are set from now on, if only to NEVER: moving a set timer cannot fail. */
int channel_init(struct etcd_channel *channel, struct etcd *etcd)
{
        struct loop *loop = etcd->engine.host->loop;

        channel->etcd = etcd;
        list_init(&channel->parked);
        list_init(&channel->sent);
        list_init(&channel->spare);
        ask_init(&channel->authenticate);
        ask_init(&channel->greet);
        ask_init(&channel->status);
        channel->overdue.fire = look_at_clock;
        channel->again.fire = again;
        channel->token_at = INT64_MIN / 2;
        channel->target.tls = etcd->tls;
        channel->target.silence = etcd->timeout;
        shuffle(channel);
        grpc_init(&channel->grpc, loop, &grpc_events, &channel->target);
        if (watches_init(channel) != PAWL_OK || loop_set(loop, &channel->overdue, NEVER) != 0 ||
            loop_set(loop, &channel->again, NEVER) != 0)
                return PAWL_NO_MEMORY;
        return PAWL_OK;
}

static void drop_asks(struct list *asks)
{
        while (!list_empty(asks)) {
                struct etcd_ask *ask = list_first(asks, struct etcd_ask, listed);

                list_remove(&ask->listed);
                if (ask->flight)
                        give_back(ask->flight);
                ask->flight = NULL;
        }
}

void channel_close(struct etcd_channel *channel)
{
        struct etcd_flight *flight;

        if (!channel->etcd)
                return;
        loop_unset(loop_of(channel), &channel->overdue);
        loop_unset(loop_of(channel), &channel->again);
        grpc_close(&channel->grpc); /* what was sent stays sent: the server may still do it */
        drop_asks(&channel->sent);
        drop_asks(&channel->parked);
        while (!list_empty(&channel->spare)) {
                flight = list_first(&channel->spare, struct etcd_flight, spare);
                list_remove(&flight->spare);
                free(flight);
        }
}
