/* etcd_wait.c - claims that wait. Each waits for one that stands before it, and looks when that is gone: for a claim of our
 * own client without a watch, because we know when we have deleted its key; for another's by a watch on its key; for room
 * among the holders of a limited lock by a watch on the whole line.
 *
 * A grant is always told from a read in which our own key, with its lease, was there: an event says only that another key is
 * gone, and ours may be gone as well (etcd#11456). */
#include <stdlib.h>
#include <string.h>

#include "etcd_txn.h"

/* How much of the line to look at. */
enum look {
        LOOK_OWN,  /* our own key only: whoever stood before it is gone */
        LOOK_LAST, /* and the two before it */
        LOOK_HEAD, /* the first thousand, for many of ours at once */
        LOOK_WHOLE
};
enum { SEEN_OF_LAST = 3, SEEN_OF_HEAD = 1000, MANY = 8 };

struct etcd_line {
        struct link link;  /* in etcd->lines, by name */
        struct list waits; /* those of our own that wait, in the order of the store */
        size_t count;
        size_t name_length;
        char name[];
};

struct etcd_wait {
        struct list listed; /* in etcd->waits */
        struct list placed; /* in line->waits */
        struct etcd_line *line;
        struct etcd_part *part;
        struct etcd_part *blocker; /* of our own, whom it waits for; NULL: it is another's key */
        struct etcd_wait *beside;  /* the next that waits for the same one */
        struct etcd_watch watch;
        struct etcd_turn *turn; /* of one that confirms its turn: it checks the head of the queue; or NULL */
        char *key;              /* whose end it waits for */
        size_t key_length;
        size_t missing;   /* LIMITED: so many must go before it is worth a look */
        uint64_t seen_at; /* the revision of the last look */
        uint64_t gone_at; /* LIMITED: the revision at which the last one went while a look was under way */
        bool limited;
        bool marker;   /* the key is a marker's */
        bool nearest;  /* nobody stands between the blocker and it */
        bool unsure;   /* the watch was made anew while a check was under way: check again */
        uint64_t here; /* the connection (channel.turn) whose member has reported that the key is gone; 0: none */
        uint8_t look;  /* enum look: what to look at next */
};

static struct etcd_part *part_of_ask(struct etcd_ask *ask)
{
        return container_of(ask, struct etcd_part, ask);
}

/* ---- the lines of our own ---------------------------------------------------------------------------------------- */

static struct etcd_line *find_line(const struct etcd *etcd, const struct claim *claim)
{
        uint64_t hash = table_hash(claim->name, claim->name_length);

        for (struct link *link = table_first(&etcd->lines, hash); link; link = link->next) {
                struct etcd_line *line = container_of(link, struct etcd_line, link);

                if (link->hash == hash && line->name_length == claim->name_length &&
                    memcmp(line->name, claim->name, claim->name_length) == 0)
                        return line;
        }
        return NULL;
}

static struct etcd_line *make_line(struct etcd *etcd, const struct claim *claim)
{
        struct etcd_line *line = malloc(sizeof(*line) + claim->name_length);

        if (!line)
                return NULL;
        list_init(&line->waits);
        line->count = 0;
        line->name_length = claim->name_length;
        memcpy(line->name, claim->name, claim->name_length);
        table_add(&etcd->lines, &line->link, table_hash(claim->name, claim->name_length));
        return line;
}

static struct etcd_wait *wait_at(struct list *placed)
{
        return container_of(placed, struct etcd_wait, placed);
}

static void take_place(struct etcd_line *line, struct etcd_wait *wait)
{
        struct list *before = line->waits.prev;

        while (before != &line->waits && wait_at(before)->part->order > wait->part->order)
                before = before->prev;
        list_append(before->next, &wait->placed);
        line->count++;
}

static bool is_at_large(const struct etcd_part *part)
{
        return part->claim->detached && (part->state == PART_HELD || part->state == PART_RELEASING);
}

static bool is_exclusive(const struct etcd_part *part)
{
        return part->claim->mode == PAWL_EXCLUSIVE;
}

static uint8_t usual_look(const struct etcd_part *part)
{
        return is_exclusive(part) ? LOOK_LAST : LOOK_WHOLE;
}

bool wait_has_line(const struct etcd_part *part)
{
        const struct etcd_line *line = part->etcd->lines.count ? find_line(part->etcd, part->claim) : NULL;

        return line && is_exclusive(wait_at(line->waits.prev)->part);
}

/* PAWL_OK; or it cannot wait, and leaves. */
static int begin_wait(struct etcd_part *part)
{
        struct etcd *etcd = part->etcd;
        struct etcd_wait *wait;

        if (part->wait)
                return PAWL_OK;
        wait = calloc(1, sizeof(*wait));
        if (wait && !(wait->line = find_line(etcd, part->claim)) && !(wait->line = make_line(etcd, part->claim))) {
                free(wait);
                wait = NULL;
        }
        if (!wait) {
                claim_leave(part, PAWL_NO_MEMORY);
                return PAWL_NO_MEMORY;
        }
        wait->part = part;
        wait->look = usual_look(part);
        part->wait = wait;
        list_append(&etcd->waits, &wait->listed);
        take_place(wait->line, wait);
        wait->turn = turn_begin(part);
        return PAWL_OK;
}

bool wait_behind_checker(const struct etcd_part *part)
{
        const struct etcd_part *blocker = part->wait->blocker;

        return blocker && (blocker->state == PART_HELD || (blocker->wait && blocker->wait->turn));
}

static void forget_key(struct etcd_wait *wait)
{
        watch_end(&wait->part->etcd->channel, &wait->watch);
        free(wait->key);
        wait->key = NULL;
        wait->limited = wait->marker = false;
}

static void leave_blocker(struct etcd_wait *wait)
{
        struct etcd_wait **at;

        if (!wait->blocker)
                return;
        at = &wait->blocker->behind;
        while (*at != wait)
                at = &(*at)->beside;
        *at = wait->beside;
        wait->blocker = NULL;
}

void wait_end(struct etcd_part *part)
{
        struct etcd_wait *wait = part->wait;
        struct etcd *etcd = part->etcd;

        if (!wait)
                return;
        part->wait = NULL;
        turn_end(wait->turn);
        leave_blocker(wait);
        forget_key(wait);
        list_remove(&wait->listed);
        list_remove(&wait->placed);
        if (--wait->line->count == 0) {
                table_remove(&etcd->lines, &wait->line->link);
                free(wait->line);
        }
        free(wait);
}

/* ---- behind one of our own --------------------------------------------------------------------------------------- */

static void wait_behind(struct etcd_wait *wait, struct etcd_part *blocker, bool nearest)
{
        forget_key(wait);
        leave_blocker(wait);
        wait->look = usual_look(wait->part);
        wait->blocker = blocker;
        wait->nearest = nearest;
        wait->beside = blocker->behind;
        blocker->behind = wait;
        wait->part->state = PART_WAITING;
}

/* Nobody else's request was done between the two. */
static bool nobody_between(const struct etcd_part *before, const struct etcd_part *part)
{
        return part->etcd->run_from <= before->order + 1 && part->order <= part->etcd->run_to;
}

static bool is_next(const struct etcd_part *part, const struct etcd_wait *wait)
{
        return wait->nearest || nobody_between(part, wait->part);
}

void wait_in_line(struct etcd_part *part)
{
        struct list *before;

        if (begin_wait(part) != PAWL_OK)
                return;
        before = part->wait->placed.prev;
        if (before != &part->wait->line->waits && is_exclusive(wait_at(before)->part))
                wait_behind(part->wait, wait_at(before)->part, nobody_between(wait_at(before)->part, part));
        else
                wait_look(part);
}

void wait_left(struct etcd_part *part, bool held)
{
        while (part->behind) {
                struct etcd_wait *wait = part->behind;
                bool sure = held && is_next(part, wait) && is_exclusive(part) && is_exclusive(wait->part);

                part->behind = wait->beside;
                wait->blocker = NULL;
                if (sure)
                        wait->look = LOOK_OWN;
                else if (is_exclusive(wait->part) && wait->line->count > MANY)
                        wait->look = LOOK_HEAD;
                wait_look(wait->part);
        }
}

/* Otherwise every one that gives up in a long line would make the next look at all of it. */
void wait_step_aside(struct etcd_part *part)
{
        struct etcd_part *blocker = part->wait ? part->wait->blocker : NULL;
        bool nearest = blocker && part->wait->nearest;

        while (blocker && is_exclusive(part) && part->behind)
                wait_behind(part->behind, blocker, nearest && is_next(part, part->behind));
}

/* ---- behind another: watch its key ------------------------------------------------------------------------------- */

static void write_check(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_part *part = part_of_ask(ask);
        const struct etcd_wait *wait = part->wait;
        Pb__RangeRequest request = PB__RANGE_REQUEST__INIT;

        request.key = bytes_of(wait->key, wait->key_length);
        request.keys_only = true;
        request.serializable =
                true; /* by the member that serves the watch: what it has not seen yet will be an event */
        grpc_write(out, &request.base);
}

/* The same key may have been put again by a request that came late: then it stands behind us. A marker may be younger. */
static bool still_there(const struct etcd_part *part, const Pb__RangeResponse *reply)
{
        return reply->n_kvs > 0 && (part->wait->marker || (uint64_t)reply->kvs[0]->create_revision < part->order);
}

/* The member has not applied yet what we know: what it reports may be about an earlier claim that used the key, or the key
 * may be still to come. Whatever happens to the key after what we know will be an event. */
static bool is_behind(const struct etcd_part *part, const Pb__RangeResponse *reply)
{
        return revision_of(reply->header) < part->wait->seen_at;
}

static void check(struct etcd_part *part);

static void checked(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__RangeResponse *reply = (const Pb__RangeResponse *)message;

        (void)why; /* a look that is refused tells why */
        if (!reply && !channel_ready(&part->etcd->channel))
                part->state = PART_WAITING; /* it will be checked when the watch stands again */
        else if (part->wait->unsure)
                check(part);
        else if (reply && (is_behind(part, reply) || still_there(part, reply)))
                part->state = PART_WAITING;
        else
                wait_look(part);
}

static const struct etcd_method check_method = {
        .path = "/etcdserverpb.KV/Range",
        .reply = &pb__range_response__descriptor,
        .write = write_check,
        .answered = checked,
};

static void check(struct etcd_part *part)
{
        part->wait->unsure = false;
        part->state = PART_LOOKING;
        part->ask.patient = true;
        channel_ask(&part->etcd->channel, &part->ask, &check_method, etcd_now(part->etcd) + part->etcd->timeout);
}

static size_t watched_key(const struct etcd_watch *watch, char *key)
{
        const struct etcd_wait *wait = (const void *)((const char *)watch - offsetof(struct etcd_wait, watch));
        const struct claim *claim = wait->part->claim;

        if (wait->limited)
                return key_of_line(wait->part->etcd, claim->name, claim->name_length, key);
        memcpy(key, wait->key, wait->key_length);
        return wait->key_length;
}

/* It stands: what happened before it did is to be read. */
static void watch_stands(struct etcd_watch *watch)
{
        struct etcd_part *part = container_of(watch, struct etcd_wait, watch)->part;

        if (part->wait->limited)
                wait_look(part);
        else if (part->state != PART_WAITING)
                part->wait->unsure = true;
        else if ((uint64_t)watch->from != part->wait->seen_at) /* else nothing happened since we looked */
                check(part);
}

/* Whether a look that is under way knows of it, its answer tells. */
static void one_went(struct etcd_wait *wait, uint64_t revision)
{
        if (revision <= wait->seen_at)
                return; /* the look knew it already */
        if (wait->part->state == PART_LOOKING)
                wait->gone_at = revision;
        else if (wait->missing > 1)
                wait->missing--;
        else
                wait_look(wait->part);
}

static void watch_fired(struct etcd_watch *watch, const Pb__Event *event)
{
        struct etcd_wait *wait = container_of(watch, struct etcd_wait, watch);

        if (event->type != PB__EVENT_TYPE__DELETE)
                return;
        if (watch->prev && event->prev_kv)
                history_witnessed(wait->part->etcd, wait->part->claim->name, event->prev_kv);
        if (wait->limited) {
                one_went(wait, event->kv ? (uint64_t)event->kv->mod_revision : 0);
        } else {
                wait->here = wait->part->etcd->channel.turn;
                wait_look(wait->part);
        }
}

static void watch_key(struct etcd_wait *wait, const ProtobufCBinaryData *key, bool sure)
{
        char *copy = malloc(key->len);

        if (!copy) {
                claim_leave(wait->part, PAWL_NO_MEMORY);
                return;
        }
        forget_key(wait);
        leave_blocker(wait);
        wait->here = 0;
        wait->unsure = false;
        wait->seen_at = wait->part->etcd->judged_at;
        memcpy(copy, key->data, key->len);
        wait->key = copy;
        wait->key_length = key->len;
        wait->look = sure ? LOOK_OWN : usual_look(wait->part);
        wait->watch = (struct etcd_watch){.key = watched_key,
                                          .ready = watch_stands,
                                          .fired = watch_fired,
                                          .since = (int64_t)wait->seen_at,
                                          .prev = sure && history_curious(wait->part->etcd)};
        wait->part->state = PART_WAITING;
        watch_begin(&wait->part->etcd->channel, &wait->watch);
}

/* The lock is full: one of the earlier ones must go, or as many as are too many. */
static void watch_line(struct etcd_wait *wait, size_t missing)
{
        wait->missing = missing;
        wait->seen_at = wait->part->etcd->judged_at;
        wait->look = LOOK_WHOLE;
        wait->part->state = PART_WAITING;
        if (wait->gone_at > wait->seen_at) {
                wait->gone_at = 0;
                wait_look(wait->part);
        }
        if (wait->limited)
                return; /* it watches already */
        forget_key(wait);
        leave_blocker(wait);
        wait->limited = true;
        wait->watch =
                (struct etcd_watch){.key = watched_key, .ready = watch_stands, .fired = watch_fired, .prefix = true};
        watch_begin(&wait->part->etcd->channel, &wait->watch);
}

/* One whose key says that it is ours is waited for without a watch, if we know it as it stands there, and if nobody else can
 * give it back: a detached one may be, by its word. */
static void wait_for(struct etcd_part *part, const Pb__KeyValue *kv, const uint64_t uid[2], bool nearest, bool sure)
{
        struct etcd_part *blocker = claim_find(part->etcd, uid);

        if (begin_wait(part) != PAWL_OK)
                return;
        if (blocker && blocker != part && blocker->order == (uint64_t)kv->create_revision && !is_at_large(blocker))
                wait_behind(part->wait, blocker, nearest);
        else
                watch_key(part->wait, &kv->key, sure);
}

static void wait_for_marker(struct etcd_part *part, const Pb__KeyValue *kv)
{
        if (begin_wait(part) != PAWL_OK)
                return;
        watch_key(part->wait, &kv->key, false);
        if (part->wait)
                part->wait->marker = true;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */

void sight_write(struct etcd_txn *txn, const struct etcd_part *part, struct sight_room *room, bool whole,
                 uint64_t up_to)
{
        const struct claim *claim = part->claim;
        size_t length = key_of_line(part->etcd, claim->name, claim->name_length, room->line);
        Pb__RangeRequest *range = txn_range(txn, TXN_THEN, bytes_of(room->line, length));

        range->range_end = bytes_of(room->line_end, key_after_prefix(room->line, length, room->line_end));
        range->keys_only = true;
        range->sort_target = PB__SORT_TARGET__BY_CREATE;
        range->sort_order = whole ? PB__SORT_ORDER__ASCENDING : PB__SORT_ORDER__DESCENDING;
        range->limit = whole ? 0 : SEEN_OF_LAST;
        range->max_create_revision = (int64_t)up_to;
        length = key_of_markers(part->etcd, claim->name, claim->name_length, room->markers);
        range = txn_range(txn, TXN_THEN, bytes_of(room->markers, length));
        range->range_end = bytes_of(room->markers_end, key_after_prefix(room->markers, length, room->markers_end));
        range->keys_only = true;
}

static bool is_own(const struct etcd_part *part, const Pb__KeyValue *kv)
{
        return (uint64_t)kv->create_revision == part->order && kv->lease == part->term->lease;
}

static void read_key(const struct etcd_part *part, const Pb__KeyValue *kv, struct contender *contender)
{
        char name[ETCD_KEY_MAX];
        size_t length = key_of_line(part->etcd, part->claim->name, part->claim->name_length, name);
        int64_t lease;

        key_read((const char *)kv->key.data + length, kv->key.len - length, contender, &lease);
        contender->order = (uint64_t)kv->create_revision;
}

static void marker_uid(const Pb__KeyValue *kv, uint64_t uid[2])
{
        enum { DIGITS = 32 };

        if (kv->key.len < DIGITS || !uid_read((const char *)kv->key.data + kv->key.len - DIGITS, uid))
                uid[0] = uid[1] = 0;
}

static bool same_uid(const uint64_t a[2], const uint64_t b[2])
{
        return a[0] == b[0] && a[1] == b[1];
}

/* Is there a marker of somebody else? Whether its claim is in the line only the whole line tells. */
static bool has_markers(const struct etcd_part *part, const Pb__RangeResponse *markers)
{
        uint64_t uid[2];

        if (markers->n_kvs != 1)
                return markers->n_kvs > 0;
        marker_uid(markers->kvs[0], uid);
        return !same_uid(uid, part->claim->uid);
}

static void look_whole(struct etcd_part *part)
{
        if (begin_wait(part) != PAWL_OK)
                return;
        part->wait->look = LOOK_WHOLE;
        wait_look(part);
}

/* Of an exclusive claim: its own key, the one before it, and the one before that, if they are there. */
static void judge_last(struct etcd_part *part, const Pb__RangeResponse *line, const Pb__RangeResponse *markers)
{
        struct contender before;

        if (line->n_kvs == 0 || !is_own(part, line->kvs[0])) {
                claim_again(part);
        } else if (line->n_kvs > 1) {
                read_key(part, line->kvs[1], &before);
                wait_for(part, line->kvs[1], before.uid, true, line->n_kvs == 2);
        } else if (has_markers(part, markers)) {
                look_whole(part);
        } else {
                claim_grant(part, part->ask.sent_at);
        }
}

struct sight {
        struct contender *contenders; /* the whole line */
        size_t count, own;            /* own: our place */
};

static bool read_line(const struct etcd_part *part, const Pb__RangeResponse *line, struct sight *sight)
{
        sight->own = sight->count = line->n_kvs;
        sight->contenders = calloc(line->n_kvs + 1, sizeof(*sight->contenders));
        if (!sight->contenders)
                return false;
        for (size_t i = 0; i < line->n_kvs; i++) {
                read_key(part, line->kvs[i], &sight->contenders[i]);
                if (is_own(part, line->kvs[i]))
                        sight->own = i;
        }
        return true;
}

/* A marker whose claim is not in the line any more: its lock-delay holds everybody off. */
static const Pb__KeyValue *find_orphan(const struct sight *sight, const Pb__RangeResponse *markers)
{
        for (size_t i = 0; i < markers->n_kvs; i++) {
                uint64_t uid[2];
                size_t at = 0;

                marker_uid(markers->kvs[i], uid);
                while (at < sight->count && !same_uid(sight->contenders[at].uid, uid))
                        at++;
                if (at == sight->count)
                        return markers->kvs[i];
        }
        return NULL;
}

/* So many of the earlier ones must go before there is room. */
static size_t count_missing(const struct sight *sight)
{
        uint32_t least = sight->contenders[sight->own].limit;

        for (size_t i = 0; i < sight->own; i++) {
                uint32_t limit = sight->contenders[i].limit;

                if (limit && (!least || limit < least))
                        least = limit;
        }
        return sight->own >= least ? sight->own - least + 1 : 1;
}

static void judge_sight(struct etcd_part *part, const struct sight *sight, const Pb__RangeResponse *line,
                        const Pb__RangeResponse *markers)
{
        const Pb__KeyValue *orphan = find_orphan(sight, markers);
        struct verdict verdict;

        line_judge(sight->contenders, sight->own, &sight->contenders[sight->own], &verdict);
        if (verdict.granted && !orphan)
                claim_grant(part, part->ask.sent_at);
        else if (!part->claim->wait)
                claim_leave(part, PAWL_BUSY);
        else if (verdict.granted)
                wait_for_marker(part, orphan);
        else if (verdict.wait_for >= 0)
                wait_for(part, line->kvs[verdict.wait_for], sight->contenders[verdict.wait_for].uid, false, false);
        else if (begin_wait(part) == PAWL_OK)
                watch_line(part->wait, count_missing(sight));
}

static void judge_whole(struct etcd_part *part, const Pb__RangeResponse *line, const Pb__RangeResponse *markers)
{
        struct sight sight;

        if (!read_line(part, line, &sight))
                claim_leave(part, PAWL_NO_MEMORY);
        else if (sight.own == sight.count)
                claim_again(part);
        else
                judge_sight(part, &sight, line, markers);
        free(sight.contenders);
}

/* Nobody can come between two who stand in line already: one sight serves all of ours in it, for good. */
static void learn_neighbours(struct etcd_part *part, const Pb__RangeResponse *line)
{
        struct etcd_part *before = NULL;

        for (size_t i = 0; i < line->n_kvs; i++) {
                struct contender contender;
                struct etcd_part *one;

                read_key(part, line->kvs[i], &contender);
                one = claim_find(part->etcd, contender.uid);
                if (one && one->order != contender.order)
                        one = NULL;
                if (one && one->wait && before && one->wait->blocker == before)
                        one->wait->nearest = true;
                before = one;
        }
}

/* Of an exclusive claim near the head of the line. */
static void judge_head(struct etcd_part *part, const Pb__RangeResponse *line, const Pb__RangeResponse *markers)
{
        struct contender before;
        size_t own = 0;

        learn_neighbours(part, line);
        while (own < line->n_kvs && !is_own(part, line->kvs[own]))
                own++;
        if (own == line->n_kvs) { /* it is further back, or not there: so it is looked for */
                part->wait->look = LOOK_LAST;
                wait_look(part);
        } else if (own > 0) {
                read_key(part, line->kvs[own - 1], &before);
                wait_for(part, line->kvs[own - 1], before.uid, true, own == 1);
        } else if (has_markers(part, markers)) {
                look_whole(part);
        } else {
                claim_grant(part, part->ask.sent_at);
        }
}

static bool looks_whole(const struct etcd_part *part)
{
        return !is_exclusive(part) || (part->wait && part->wait->look == LOOK_WHOLE);
}

void wait_judge(struct etcd_part *part, const Pb__TxnResponse *reply, size_t first)
{
        const Pb__RangeResponse *line = txn_range_told(reply, first), *markers = txn_range_told(reply, first + 1);

        part->etcd->judged_at = (uint64_t)reply->header->revision;
        if (!line || !markers)
                claim_leave(part, PAWL_CORRUPT);
        else if (looks_whole(part))
                judge_whole(part, line, markers);
        else if (part->wait && part->wait->look == LOOK_HEAD)
                judge_head(part, line, markers);
        else
                judge_last(part, line, markers);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* The member whose event said that the one before us is gone has done all that was done before that, too: if our own key is
 * there, it was when we became the first. It need not ask the others, unless we ask another one than it. */
static void write_look(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_part *part = part_of_ask(ask);
        char own[ETCD_KEY_MAX];
        struct sight_room room;
        struct etcd_txn txn;
        Pb__RangeRequest *range;
        bool whole = part->wait->look == LOOK_WHOLE || part->wait->look == LOOK_HEAD;

        txn_begin(&txn);
        sight_write(&txn, part, &room, whole, whole ? 0 : part->order);
        if (part->wait->look == LOOK_HEAD)
                txn.ops[TXN_THEN][0].range.limit = SEEN_OF_HEAD;
        if (part->wait->look == LOOK_OWN) { /* in the place of the line */
                range = &txn.ops[TXN_THEN][0].range;
                pb__range_request__init(range);
                range->key = bytes_of(own, key_of_claim(part, own));
                range->keys_only = true;
                range->serializable = part->wait->here == part->etcd->channel.turn && ask->tries == 1;
                txn.ops[TXN_THEN][1].range.serializable = range->serializable;
        }
        grpc_write(out, &txn.request.base);
}

/* Without an answer in time it goes on waiting, for as long as waiters may: the watches tell when a store is there again. */
static void look_failed(struct etcd_part *part, const struct pawl_why *why)
{
        struct etcd *etcd = part->etcd;

        if (part->ask.status == GRPC_NOT_FOUND || part->ask.status == GRPC_OK)
                claim_abandon(part, why->code, why->text);
        else if (channel_ready(&etcd->channel))
                claim_leave(part, why->code);
        else
                claim_abandon(part, why->code, why->text);
}

static void looked(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;

        if (!reply || !reply->header) {
                look_failed(part, why);
                return;
        }
        etcd_saw(part->etcd, reply->header);
        wait_judge(part, reply, 0);
}

static const struct etcd_method look_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_look,
        .answered = looked,
};

void wait_look(struct etcd_part *part)
{
        enum { PATIENCE = 6 };
        struct etcd *etcd = part->etcd;

        if (begin_wait(part) != PAWL_OK)
                return;
        if (!part->wait->limited)
                forget_key(part->wait);
        leave_blocker(part->wait);
        channel_forget(&etcd->channel, &part->ask); /* an earlier look, which knows less */
        part->state = PART_LOOKING;
        part->ask.patient = part->claim->wait;
        channel_ask(&etcd->channel, &part->ask, &look_method, etcd_now(etcd) + PATIENCE * etcd->timeout);
}

/* ---- the heir: one of our own that is next, found in the release itself ------------------------------------------ */

/* Nothing else is to be thought of when the one before it is given back. */
static bool is_simple(const struct etcd_part *part)
{
        return is_exclusive(part) && !part->claim->delay && !part->claim->detached;
}

static struct etcd_part *heir_of(const struct etcd_part *part)
{
        const struct etcd_wait *wait = part->behind;

        if (!wait || wait->beside || !is_next(part, wait) || !is_simple(part) || !is_simple(wait->part))
                return NULL;
        return wait->part;
}

bool wait_has_heir(const struct etcd_part *part)
{
        return heir_of(part) != NULL;
}

/* Behind the delete in the same transaction: if its key is there then, it is the first. */
void wait_write_heir(struct etcd_txn *txn, const struct etcd_part *part, struct sight_room *room)
{
        const struct claim *claim = part->claim;
        const struct etcd_part *heir = heir_of(part);
        Pb__RangeRequest *range;
        size_t length;

        if (!heir)
                return;
        txn_range(txn, TXN_THEN, bytes_of(room->line, key_of_claim(heir, room->line)))->keys_only = true;
        length = key_of_markers(part->etcd, claim->name, claim->name_length, room->markers);
        range = txn_range(txn, TXN_THEN, bytes_of(room->markers, length));
        range->range_end = bytes_of(room->markers_end, key_after_prefix(room->markers, length, room->markers_end));
        range->keys_only = true;
}

/* Whatever is not as it was when it was written makes it look by itself. */
void wait_inherit(struct etcd_part *part, const Pb__TxnResponse *reply, size_t first)
{
        struct etcd_part *heir = heir_of(part);
        const Pb__RangeResponse *own = txn_range_told(reply, first), *markers = txn_range_told(reply, first + 1);

        if (heir && heir->term && own && own->n_kvs == 1 && is_own(heir, own->kvs[0]) && markers && markers->n_kvs == 0)
                claim_grant(heir, part->ask.sent_at);
}

/* ---- there is no store ------------------------------------------------------------------------------------------- */

void wait_refuse_all(struct etcd *etcd, const struct pawl_why *why)
{
        struct list waits;

        list_init(&waits);
        list_splice(&waits, &etcd->waits);
        while (!list_empty(&waits)) {
                struct etcd_wait *wait = list_first(&waits, struct etcd_wait, listed);

                list_remove(&wait->listed);
                list_append(&etcd->waits, &wait->listed);
                claim_abandon(wait->part, why->code, why->text);
        }
}

void waits_unlearn(struct etcd *etcd)
{
        for (struct list *at = etcd->waits.next; at != &etcd->waits; at = at->next) {
                struct etcd_wait *wait = container_of(at, struct etcd_wait, listed);

                wait->seen_at = wait->gone_at = 0;
                wait->watch.since = 0;
        }
}

void waits_free(struct etcd *etcd)
{
        while (!list_empty(&etcd->waits))
                wait_end(list_first(&etcd->waits, struct etcd_wait, listed)->part);
}
