/* etcd_delay.c - lock-delay. A claim that has one puts a marker beside the line, on a lease that is longer by the delay: if
 * its client dies, the claim goes with the first lease and the marker with the second. So the store is the timer. A marker
 * whose claim is in the line means nothing; one whose claim is gone holds everybody off. Who gives a lock back deletes both;
 * who loses one but lives lets the marker stand for the delay, and deletes it then. */
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

struct etcd_marker {
        struct etcd_tenant tenant;
        struct etcd_ask ask;
        struct timer timer; /* an orphan's end */
        struct list listed; /* in etcd->markers */
        struct etcd *etcd;
        struct etcd_part *part; /* NULL: it is an orphan, or being deleted */
        bool put;               /* it may be in the store */
        size_t length;
        char key[];
};

static void free_marker(struct etcd_marker *marker)
{
        if (marker->part)
                marker->part->marker = NULL;
        channel_forget(&marker->etcd->channel, &marker->ask);
        loop_unset(marker->etcd->engine.host->loop, &marker->timer);
        list_remove(&marker->listed);
        term_leave(&marker->tenant);
        free(marker);
}

/* ---- in the store ------------------------------------------------------------------------------------------------ */

static void write_put(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_marker *marker = container_of(ask, struct etcd_marker, ask);
        Pb__PutRequest request = PB__PUT_REQUEST__INIT;

        request.key = bytes_of(marker->key, marker->length);
        request.lease = marker->tenant.term->lease;
        grpc_write(out, &request.base);
}

static void put_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        (void)ask;
        (void)reply;
        (void)why;
}

static const struct etcd_method put_method = {
        .path = "/etcdserverpb.KV/Put",
        .reply = &pb__put_response__descriptor,
        .write = write_put,
        .answered = put_answered,
};

static void write_delete(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_marker *marker = container_of(ask, struct etcd_marker, ask);
        Pb__DeleteRangeRequest request = PB__DELETE_RANGE_REQUEST__INIT;

        request.key = bytes_of(marker->key, marker->length);
        grpc_write(out, &request.base);
}

static void delete_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        (void)reply;
        (void)why; /* its lease has to do it then */
        free_marker(container_of(ask, struct etcd_marker, ask));
}

static const struct etcd_method delete_method = {
        .path = "/etcdserverpb.KV/DeleteRange",
        .reply = &pb__delete_range_response__descriptor,
        .write = write_delete,
        .answered = delete_answered,
};

static void delete_marker(struct etcd_marker *marker)
{
        slots_spoil(marker->etcd);
        channel_forget(&marker->etcd->channel, &marker->ask);
        channel_ask(&marker->etcd->channel, &marker->ask, &delete_method, NEVER);
}

static void delay_is_over(struct timer *timer)
{
        struct etcd_marker *marker = container_of(timer, struct etcd_marker, timer);

        loop_set(marker->etcd->engine.host->loop, timer, NEVER);
        delete_marker(marker);
}

/* ---- its lease --------------------------------------------------------------------------------------------------- */

static int64_t length_of(const struct claim *claim)
{
        return claim->ttl + claim->delay;
}

/* The first time the claim's own transaction puts it. */
static void begun(struct etcd_tenant *tenant)
{
        struct etcd_marker *marker = container_of(tenant, struct etcd_marker, tenant);

        if (marker->part && marker->part->state == PART_TERMING)
                claim_marked(marker->part);
        else if (marker->part) {
                slots_spoil(marker->etcd);
                channel_ask(&marker->etcd->channel, &marker->ask, &put_method,
                            etcd_now(marker->etcd) + marker->part->claim->ttl);
        }
}

static int rent(struct etcd_marker *marker)
{
        const struct claim *claim = marker->part->claim;

        return term_rent(marker->etcd, &marker->tenant, length_of(claim), claim->detached);
}

static void rent_again(struct etcd_marker *marker)
{
        struct etcd_part *part = marker->part;

        if (rent(marker) != PAWL_OK && part->state == PART_TERMING)
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
}

/* A lease that ran out, or that nobody answered for, is asked for again. One that is refused waits for the next renewal of
 * its claim: at once would be again and again. */
static void over(struct etcd_tenant *tenant, const struct pawl_why *why)
{
        struct etcd_marker *marker = container_of(tenant, struct etcd_marker, tenant);
        struct etcd_part *part = marker->part;

        channel_forget(&marker->etcd->channel, &marker->ask);
        if (!part)
                free_marker(marker);
        else if (part->state == PART_TERMING && why->code != PAWL_LOST)
                claim_refuse(part, why->code, why->text);
        else if (why->code == PAWL_LOST || why->code == PAWL_UNREACHABLE || part->state == PART_ENTERING)
                rent_again(marker);
        else if (part->state == PART_WAITING || part->state == PART_LOOKING || part->state == PART_KEEPING)
                claim_leave(part, why->code);
}

int delay_begin(struct etcd_part *part)
{
        struct etcd *etcd = part->etcd;
        char key[ETCD_KEY_MAX];
        size_t length = key_of_marker(etcd, part->claim, key);
        struct etcd_marker *marker = calloc(1, sizeof(*marker) + length);

        if (!marker)
                return PAWL_NO_MEMORY;
        marker->etcd = etcd;
        marker->part = part;
        marker->length = length;
        memcpy(marker->key, key, length);
        ask_init(&marker->ask);
        marker->ask.patient = true;
        marker->tenant.begun = begun;
        marker->tenant.over = over;
        marker->tenant.kept = true;
        list_append(&etcd->markers, &marker->listed);
        part->marker = marker;
        marker->timer.fire = delay_is_over;
        if (loop_set(etcd->engine.host->loop, &marker->timer, NEVER) != 0 || rent(marker) != PAWL_OK) {
                free_marker(marker);
                return PAWL_NO_MEMORY;
        }
        return PAWL_OK;
}

bool delay_ready(const struct etcd_part *part)
{
        return !part->marker || term_alive(part->marker->tenant.term);
}

int64_t delay_lease(struct etcd_part *part)
{
        part->marker->put = true;
        return part->marker->tenant.term ? part->marker->tenant.term->lease : 0;
}

int64_t delay_counts_from(const struct etcd_part *part, int64_t now)
{
        const struct etcd_term *term = part->marker->tenant.term;

        return term_alive(term) ? term_counts_from(&term->time, now, length_of(part->claim)) : INT64_MIN / 2;
}

void delay_keep(struct etcd_part *part)
{
        if (part->marker && part->marker->tenant.term)
                term_keep(part->marker->tenant.term);
        else if (part->marker)
                (void)!rent(part->marker);
}

struct etcd_term *delay_term(const struct etcd_part *part)
{
        return part->marker ? part->marker->tenant.term : NULL;
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

static struct etcd_marker *take_from(struct etcd_part *part)
{
        struct etcd_marker *marker = part->marker;

        part->marker = NULL;
        if (marker)
                marker->part = NULL;
        return marker;
}

void delay_orphan(struct etcd_part *part)
{
        int64_t delay = part->claim->delay;
        struct etcd_marker *marker = take_from(part);

        if (marker)
                loop_set(marker->etcd->engine.host->loop, &marker->timer, etcd_now(marker->etcd) + delay);
}

void delay_drop(struct etcd_part *part)
{
        struct etcd_marker *marker = take_from(part);

        if (marker && ask_busy(&marker->ask)) /* it is being put again, and may come late */
                delete_marker(marker);
        else if (marker)
                free_marker(marker);
}

void delay_leave_alone(struct etcd_part *part)
{
        if (part->marker)
                part->marker->tenant.kept = false;
}

void delay_let_go(struct etcd_part *part)
{
        struct etcd_marker *marker = take_from(part);

        if (!marker)
                return;
        if (marker->tenant.term && marker->tenant.term->own)
                term_drop(marker->tenant.term);
        free_marker(marker);
}

void delay_forget(struct etcd_part *part)
{
        struct etcd_marker *marker = take_from(part);

        if (marker && marker->put)
                delete_marker(marker);
        else if (marker)
                free_marker(marker);
}

void delay_free(struct etcd *etcd)
{
        while (!list_empty(&etcd->markers))
                free_marker(list_first(&etcd->markers, struct etcd_marker, listed));
}
