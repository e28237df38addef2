/* etcd_watch.c - the two streams of a channel: all watches on one, all keep-alives on the other. A watch begins at revision
 * 0, which is "from now on": one that began in the past would be served by the store's slow loop, 50 ms late. What happened
 * before it stood is for its owner to read: docs/decisions/0111.
 *
 * The store reads what "now" is before it has its lock: a write that is under way just then makes a past of it. So a watch
 * of one key is asked for twice in one flight: if the first had to wait for a write, the second comes right after it. Who
 * tells first is believed, and the watch stands when both do. */
#include <string.h>

#include "etcd.h"

static uint64_t hash_of_id(int64_t id)
{
        return (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

/* A watch has an even number, its twin the next one. */
static bool has_twin(const struct etcd_watch *watch)
{
        return !watch->prefix;
}

static void give_number(struct etcd_channel *channel, struct etcd_watch *watch)
{
        watch->id = channel->last_watch_id += 2;
        table_add(&channel->watch_ids, &watch->link, hash_of_id(watch->id));
}

static struct etcd_watch *find(struct etcd_channel *channel, int64_t id)
{
        id &= ~INT64_C(1);
        for (struct link *link = table_first(&channel->watch_ids, hash_of_id(id)); link; link = link->next) {
                struct etcd_watch *watch = container_of(link, struct etcd_watch, link);

                if (watch->id == id)
                        return watch;
        }
        return NULL;
}

/* ---- making and ending them -------------------------------------------------------------------------------------- */

static int open_stream(struct etcd_channel *channel, struct grpc_stream *stream)
{
        if (stream->flow)
                return PAWL_OK;
        return channel_ready(channel) ? grpc_open(&channel->grpc, stream) : PAWL_UNREACHABLE;
}

static int send_create(struct etcd_channel *channel, const struct etcd_watch *watch, int64_t id)
{
        Pb__WatchCreateRequest create = PB__WATCH_CREATE_REQUEST__INIT;
        Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
        Pb__WatchFilter filter = PB__WATCH_FILTER__NO_PUT;
        char key[ETCD_KEY_MAX], end[ETCD_KEY_MAX];
        size_t length = watch->key(watch, key);

        create.key = bytes_of(key, length);
        if (watch->prefix)
                create.range_end = bytes_of(end, key_after_prefix(key, length, end));
        create.filters = &filter;
        create.n_filters = watch->puts ? 0 : 1;
        create.prev_kv = watch->prev;
        create.watch_id = id;
        request.request_case = PB__WATCH_REQUEST__REQUEST_CREATE;
        request.create = &create;
        return grpc_send(&channel->grpc, &channel->watching, &request.base);
}

/* What cannot be asked for now is asked for by watches_mend. */
static void create(struct etcd_channel *channel, struct etcd_watch *watch)
{
        watch->stands = watch->spent = false;
        watch->asked = open_stream(channel, &channel->watching) == PAWL_OK &&
                       send_create(channel, watch, watch->id) == PAWL_OK &&
                       (!has_twin(watch) || send_create(channel, watch, watch->id + 1) == PAWL_OK);
        if (!watch->asked)
                channel->unwatched = true;
}

void watch_begin(struct etcd_channel *channel, struct etcd_watch *watch)
{
        give_number(channel, watch);
        list_init(&watch->listed);
        list_append(&channel->watches, &watch->listed);
        watch->stands = watch->asked = watch->spent = false;
        if (channel_ready(channel))
                create(channel, watch);
        else
                channel_want(channel);
}

static void send_cancel(struct etcd_channel *channel, int64_t id)
{
        Pb__WatchCancelRequest cancel = PB__WATCH_CANCEL_REQUEST__INIT;
        Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;

        cancel.watch_id = id;
        request.request_case = PB__WATCH_REQUEST__REQUEST_CANCEL;
        request.cancel = &cancel;
        grpc_send(&channel->grpc, &channel->watching,
                  &request.base); /* if it is lost: events of an id that is not known */
}

static void send_cancels(struct etcd_channel *channel, int64_t id, bool twins)
{
        send_cancel(channel, id);
        if (twins)
                send_cancel(channel, id + 1);
}

/* A watch of one key that was deleted has nothing more to tell. To cancel each of them would cost a request, an answer and a
 * wake-up for each hand-off; many at once cost little more than one. */
static void cancel_later(struct etcd_channel *channel, int64_t id)
{
        channel->stale[channel->stale_count++] = id;
        if (channel->stale_count < STALE_MAX)
                return;
        while (channel->stale_count)
                send_cancels(channel, channel->stale[--channel->stale_count], true);
}

void watch_end(struct etcd_channel *channel, struct etcd_watch *watch)
{
        if (!watch_begun(watch))
                return;
        if (watch->asked && channel->watching.flow) {
                if (watch->spent)
                        cancel_later(channel, watch->id);
                else
                        send_cancels(channel, watch->id, has_twin(watch));
        }
        table_remove(&channel->watch_ids, &watch->link);
        list_remove(&watch->listed);
        watch->id = 0;
}

/* ---- what they tell ---------------------------------------------------------------------------------------------- */

/* The store ended it: it fell behind a compaction, or we may not. A number is not used twice on a stream. */
static void renumber(struct etcd_channel *channel, struct etcd_watch *watch)
{
        if (has_twin(watch))
                send_cancels(channel, watch->id, true);
        table_remove(&channel->watch_ids, &watch->link);
        give_number(channel, watch);
        watch->asked = watch->stands = false;
        channel->unwatched = true;
}

/* Since 3.5 one that is refused at once is told without its number, so it may be any that does not stand yet. */
static void refused(struct etcd_channel *channel, const char *reason)
{
        for (struct list *at = channel->watches.next; at != &channel->watches; at = at->next) {
                struct etcd_watch *watch = container_of(at, struct etcd_watch, listed);

                if (watch->asked && !watch->stands)
                        renumber(channel, watch);
        }
        channel_clock(channel);
        if (!strstr(reason, "permission denied"))
                channel_doubt_token(channel);
}

static void heard_watch(struct grpc_stream *stream, const uint8_t *bytes, size_t size)
{
        struct etcd_channel *channel = container_of(stream, struct etcd_channel, watching);
        const Pb__WatchResponse *told = grpc_unpack(&channel->grpc, &pb__watch_response__descriptor, bytes, size);
        struct etcd_watch *watch = told ? find(channel, told->watch_id) : NULL;

        if (!told) {
                grpc_fail(&channel->grpc, PAWL_UNREACHABLE, "an event that cannot be read");
                return;
        }
        if (told->canceled && told->watch_id < 0) {
                refused(channel, told->cancel_reason);
                return;
        }
        if (watch && told->canceled) {
                renumber(channel, watch);
                channel_clock(channel);
                return;
        }
        if (watch && told->created && !watch->stands && told->watch_id == watch->id + has_twin(watch)) {
                watch->stands = true;
                watch->from = told->header ? told->header->revision : 0;
                watch->ready(watch);
        }
        for (size_t i = 0; i < told->n_events; i++) {
                watch = find(channel, told->watch_id); /* it may have been ended meanwhile */
                if (!watch || watch->spent)
                        return;
                if (told->events[i]->kv && told->events[i]->kv->mod_revision <= watch->since)
                        continue;
                watch->spent = !watch->prefix && told->events[i]->type == PB__EVENT_TYPE__DELETE;
                watch->fired(watch, told->events[i]);
        }
}

static void ended_watch(struct grpc_stream *stream, const struct grpc_answer *answer)
{
        struct etcd_channel *channel = container_of(stream, struct etcd_channel, watching);

        (void)answer;
        watches_down(channel);
        channel_clock(channel);
}

void watches_mend(struct etcd_channel *channel)
{
        if (!channel->unwatched || !channel_ready(channel))
                return;
        channel->unwatched = false;
        for (struct list *at = channel->watches.next; at != &channel->watches; at = at->next) {
                struct etcd_watch *watch = container_of(at, struct etcd_watch, listed);

                if (!watch->asked)
                        create(channel, watch);
        }
}

/* ---- keep-alives ------------------------------------------------------------------------------------------------- */

bool channel_keep(struct etcd_channel *channel, int64_t lease)
{
        Pb__LeaseKeepAliveRequest request = PB__LEASE_KEEP_ALIVE_REQUEST__INIT;

        request.id = lease;
        return open_stream(channel, &channel->keeping) == PAWL_OK &&
               grpc_send(&channel->grpc, &channel->keeping, &request.base) == PAWL_OK;
}

static void heard_keep(struct grpc_stream *stream, const uint8_t *bytes, size_t size)
{
        struct etcd_channel *channel = container_of(stream, struct etcd_channel, keeping);
        const Pb__LeaseKeepAliveResponse *told =
                grpc_unpack(&channel->grpc, &pb__lease_keep_alive_response__descriptor, bytes, size);

        if (told)
                term_kept(channel->etcd, told);
        else
                grpc_fail(&channel->grpc, PAWL_UNREACHABLE, "an answer that cannot be read");
}

static void ended_keep(struct grpc_stream *stream, const struct grpc_answer *answer)
{
        (void)answer;
        terms_down(container_of(stream, struct etcd_channel, keeping)->etcd);
}

/* ---- the channel comes and goes ---------------------------------------------------------------------------------- */

/* Also with a new token, which the streams do not know. */
void watches_up(struct etcd_channel *channel)
{
        if (channel->watching.flow)
                grpc_end(&channel->grpc, &channel->watching);
        if (channel->keeping.flow) {
                grpc_end(&channel->grpc, &channel->keeping);
                terms_down(channel->etcd);
        }
        watches_down(channel);
        watches_mend(channel);
}

void watches_down(struct etcd_channel *channel)
{
        channel->stale_count = 0;
        for (struct list *at = channel->watches.next; at != &channel->watches; at = at->next)
                container_of(at, struct etcd_watch, listed)->asked = false;
        channel->unwatched = true;
}

int watches_init(struct etcd_channel *channel)
{
        list_init(&channel->watches);
        channel->watching =
                (struct grpc_stream){.method = "/etcdserverpb.Watch/Watch", .heard = heard_watch, .ended = ended_watch};
        channel->keeping = (struct grpc_stream){
                .method = "/etcdserverpb.Lease/LeaseKeepAlive", .heard = heard_keep, .ended = ended_keep};
        return table_init(&channel->watch_ids);
}

void watches_free(struct etcd_channel *channel)
{
        table_free(&channel->watch_ids);
}
