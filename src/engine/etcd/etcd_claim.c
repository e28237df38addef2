/* etcd_claim.c - acquire, cancel, renew, release. A claim has one request under way at most, so that none overtakes
 * another; a request whose answer was lost is sent again by the channel, and every one of them may be done twice: the
 * key has the claim's uid in it, and no key is used again of which a request may still be done (etcd_slot.c). */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../session/turn.h"
#include "etcd_txn.h"

static void enter(struct etcd_part *part);

static const struct engine_host *host_of(const struct etcd_part *part)
{
        return part->etcd->engine.host;
}

static struct etcd_part *part_of_ask(struct etcd_ask *ask)
{
        return container_of(ask, struct etcd_part, ask);
}

static struct etcd_channel *channel_of(const struct etcd_part *part)
{
        return &part->etcd->channel;
}

/* ---- known and forgotten ----------------------------------------------------------------------------------------- */

static uint64_t uid_hash(const uint64_t uid[2])
{
        return (uid[0] ^ uid[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

void claim_know(struct etcd *etcd, struct claim *claim)
{
        struct etcd_part *part = part_of(claim);

        part->claim = claim;
        part->etcd = etcd;
        part->since = etcd_now(etcd);
        ask_init(&part->ask);
        list_init(&part->termed);
        table_add(&etcd->claims, &part->link, uid_hash(claim->uid));
        part->known = true;
}

struct etcd_part *claim_find(struct etcd *etcd, const uint64_t uid[2])
{
        uint64_t hash = uid_hash(uid);

        for (struct link *link = table_first(&etcd->claims, hash); link; link = link->next) {
                struct etcd_part *part = container_of(link, struct etcd_part, link);

                if (link->hash == hash && part->claim->uid[0] == uid[0] && part->claim->uid[1] == uid[1])
                        return part;
        }
        return NULL;
}

void claim_rename(struct etcd_part *one, struct etcd_part *other)
{
        struct etcd *etcd = one->etcd;
        uint64_t uid[2] = {one->claim->uid[0], one->claim->uid[1]}, order = one->order;

        table_remove(&etcd->claims, &one->link);
        table_remove(&etcd->claims, &other->link);
        memcpy(one->claim->uid, other->claim->uid, sizeof(uid));
        memcpy(other->claim->uid, uid, sizeof(uid));
        one->order = other->order;
        other->order = order;
        one->doubtful = other->doubtful = one->doubtful || other->doubtful;
        table_add(&etcd->claims, &one->link, uid_hash(one->claim->uid));
        table_add(&etcd->claims, &other->link, uid_hash(other->claim->uid));
}

/* It was told first what becomes of its key, its marker and those behind it. */
void claim_forget(struct etcd_part *part)
{
        if (!part->known)
                return;
        part->known = false;
        if (part->sent && !part->tidy && !part->claim->detached)
                slots_spoil(part->etcd);
        sweep_remove(part);
        channel_forget(channel_of(part), &part->ask);
        door_leave(part);
        wait_end(part);
        wait_left(part, part->state == PART_HELD || part->state == PART_RELEASING);
        delay_forget(part);
        if (part->renewing && part->term)
                part->term->wanted--;
        part->renewing = false;
        term_part(part);
        table_remove(&part->etcd->claims, &part->link);
}

void claim_let_go(struct etcd_part *part)
{
        struct etcd_term *term = part->term;

        wait_left(part, false); /* its key stays: those behind it must see it */
        delay_let_go(part);
        if (term)
                term_drop(term);
        claim_forget(part);
}

/* ---- what the core is told --------------------------------------------------------------------------------------- */

uint64_t etcd_token(const struct etcd *etcd, uint64_t create_revision)
{
        return (etcd->base << ETCD_BASE_SHIFT) + create_revision;
}

/* A marker must outlive the lease by the whole lock-delay, so its term counts too. */
static int64_t counts_from(const struct etcd_part *part, int64_t now)
{
        int64_t ttl = part->claim->ttl, from = term_counts_from(&part->term->time, now, ttl), marked;

        if (!part->marker)
                return from;
        marked = delay_counts_from(part, now);
        return marked < from ? marked : from;
}

void claim_refuse(struct etcd_part *part, int code, const char *why)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->refused(host->core, part->claim, code, why);
}

void claim_told(struct etcd_part *part, int64_t sent_at)
{
        const struct engine_host *host = host_of(part);
        struct grant grant = {.token = etcd_token(part->etcd, part->order), .sent_at = counts_from(part, sent_at)};

        part->state = PART_HELD;
        part->since = etcd_now(part->etcd);
        if (part->term->own) {
                delay_leave_alone(part);
                wait_left(part, false); /* from now on others may give it back by its word: those behind it watch */
        }
        news_held(part);
        history_began(part);
        host->events->granted(host->core, part->claim, &grant); /* if it was cancelled, the core gives it back */
}

void claim_gone(struct etcd_part *part, int reason)
{
        const struct engine_host *host = host_of(part);

        history_ended(part, reason == PAWL_REASON_BROKEN ? PAWL_HOW_BROKEN : PAWL_HOW_EXPIRED);
        if (reason == PAWL_REASON_BROKEN) /* who broke it took the marker over */
                delay_drop(part);
        else
                delay_orphan(part);
        claim_forget(part);
        host->events->gone(host->core, part->claim, reason);
}

void claim_asked(struct etcd_part *part)
{
        const struct engine_host *host = host_of(part);

        if (part->state == PART_HELD)
                host->events->asked(host->core, part->claim);
}

static void end_release(struct etcd_part *part, int code)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->released(host->core, part->claim, code);
}

/* ---- ghosts: what may be left in the store although its caller was told that it failed --------------------------- */

struct etcd_ghost {
        struct etcd_ask ask;
        struct list listed; /* in etcd->ghosts */
        int64_t lease;      /* or a key: */
        uint64_t created;   /* the one that was created then; 0: whichever is there */
        size_t length;
        char key[];
};

static void write_ghost(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_ghost *ghost = container_of(ask, struct etcd_ghost, ask);
        Pb__DeleteRangeRequest request = PB__DELETE_RANGE_REQUEST__INIT;

        request.key = bytes_of(ghost->key, ghost->length);
        grpc_write(out, &request.base);
}

static void ghost_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        struct etcd_ghost *ghost = container_of(ask, struct etcd_ghost, ask);

        (void)reply;
        (void)why; /* the lease has to do it then */
        list_remove(&ghost->listed);
        free(ghost);
}

static const struct etcd_method ghost_method = {
        .path = "/etcdserverpb.KV/DeleteRange",
        .reply = &pb__delete_range_response__descriptor,
        .write = write_ghost,
        .answered = ghost_answered,
};

/* Whoever put the key again since then is left alone, however late this is done. */
static void write_ghost_as_created(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_ghost *ghost = container_of(ask, struct etcd_ghost, ask);
        ProtobufCBinaryData key = bytes_of(ghost->key, ghost->length);
        struct etcd_txn txn;

        txn_begin(&txn);
        txn_if_created(&txn, key, ghost->created);
        txn_delete(&txn, TXN_THEN, key);
        grpc_write(out, &txn.request.base);
}

static const struct etcd_method ghost_as_created_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_ghost_as_created,
        .answered = ghost_answered,
};

static void write_lease_ghost(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_ghost *ghost = container_of(ask, struct etcd_ghost, ask);
        Pb__LeaseRevokeRequest request = PB__LEASE_REVOKE_REQUEST__INIT;

        request.id = ghost->lease;
        grpc_write(out, &request.base);
}

static const struct etcd_method lease_ghost_method = {
        .path = "/etcdserverpb.Lease/LeaseRevoke",
        .reply = &pb__lease_revoke_response__descriptor,
        .write = write_lease_ghost,
        .answered = ghost_answered,
};

static void add_ghost(struct etcd *etcd, struct etcd_ghost *ghost, const struct etcd_method *method)
{
        ask_init(&ghost->ask);
        ghost->ask.patient = true;
        list_append(&etcd->ghosts, &ghost->listed);
        channel_ask(&etcd->channel, &ghost->ask, method, NEVER);
}

/* Without memory the lease has to do it. */
void ghost_of_key(struct etcd *etcd, const char *key, size_t length, uint64_t created)
{
        struct etcd_ghost *ghost = calloc(1, sizeof(*ghost) + length);

        if (!ghost)
                return;
        memcpy(ghost->key, key, length);
        ghost->length = length;
        ghost->created = created;
        add_ghost(etcd, ghost, created ? &ghost_as_created_method : &ghost_method);
}

void ghost_of_lease(struct etcd *etcd, int64_t lease)
{
        struct etcd_ghost *ghost = calloc(1, sizeof(*ghost));

        if (!ghost)
                return;
        ghost->lease = lease;
        add_ghost(etcd, ghost, &lease_ghost_method);
}

static void leave_ghost(const struct etcd_part *part)
{
        char key[ETCD_KEY_MAX];

        if (part->term)
                ghost_of_key(part->etcd, key, key_of_claim(part, key), 0);
}

/* Who overwrites a key takes it off its lease, and then it would stay for good. */
static void remove_unleased(const struct etcd_part *part, uint64_t created)
{
        char key[ETCD_KEY_MAX];

        ghost_of_key(part->etcd, key, key_of_claim(part, key), created);
}

void claim_taken(struct etcd_part *part)
{
        remove_unleased(part, part->order);
        claim_gone(part, PAWL_REASON_TAKEN);
}

void claims_free(struct etcd *etcd)
{
        while (!list_empty(&etcd->ghosts)) {
                struct etcd_ghost *ghost = list_first(&etcd->ghosts, struct etcd_ghost, listed);

                list_remove(&ghost->listed);
                free(ghost);
        }
}

void claim_abandon(struct etcd_part *part, int code, const char *why)
{
        leave_ghost(part);
        claim_refuse(part, code, why);
}

/* ---- giving up the place: delete, then tell ---------------------------------------------------------------------- */

/* The marker goes too, but for a loss: then it is what keeps others away. Of a lease that was adopted it is not known
 * whether there is one. */
static bool takes_marker(const struct etcd_part *part)
{
        if (part->state == PART_RELEASING && part->claim->lost)
                return false;
        return part->marker || part->claim->detached;
}

/* If the key is not there any more, somebody else saw to it that it went, and to the marker. */
static void write_delete_more(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_part *part = part_of_ask(ask);
        const struct etcd_batch *batch = part->state == PART_RELEASING && !part->plain ? history_batch(part) : NULL;
        char key[ETCD_KEY_MAX], marker[ETCD_KEY_MAX], past[ETCD_KEY_MAX];
        struct sight_room room;
        ProtobufCBinaryData own = bytes_of(key, key_of_claim(part, key));
        struct etcd_txn txn;

        txn_begin(&txn);
        txn_if_created(&txn, own, part->order);
        txn_delete(&txn, TXN_THEN, own);
        if (takes_marker(part))
                txn_delete(&txn, TXN_THEN, bytes_of(marker, key_of_marker(part->etcd, part->claim, marker)));
        if (part->state == PART_RELEASING)
                wait_write_heir(&txn, part, &room);
        if (batch) {
                memcpy(past, batch->key, batch->key_length);
                txn_put(&txn, TXN_THEN, bytes_of(past, batch->key_length))->value = bytes_of(batch->text, batch->size);
        }
        grpc_write(out, &txn.request.base);
}

static void left_line(struct etcd_part *part, int64_t count, const struct pawl_why *why)
{
        if (count > 0)
                delay_drop(part);
        if (count < 0)
                claim_abandon(part, part->code, why ? why->text : NULL);
        else
                claim_refuse(part, part->code, NULL);
}

static uint32_t how_it_ends(const struct etcd_part *part)
{
        return part->claim->lost ? PAWL_HOW_EXPIRED : PAWL_HOW_RELEASED;
}

/* One that is gone was deleted by an earlier attempt, if there was one: our lease still stands. */
static void released(struct etcd_part *part, int64_t count)
{
        bool ours = count > 0 || (count == 0 && part->ask.tries > 1);

        history_left(part, how_it_ends(part), ours);
        if (ours && !part->claim->lost)
                delay_drop(part);
        else
                delay_orphan(part);
        if (count < 0)
                leave_ghost(part);
        end_release(part, ours ? PAWL_OK : count < 0 ? PAWL_IN_DOUBT : PAWL_LOST);
}

void claim_deleted(struct etcd_part *part, int64_t count, const struct pawl_why *why)
{
        part->tidy = count > 0 && part->ask.tries == 1 && !part->doubtful && !part->claim->lost;
        if (part->state == PART_RELEASING)
                released(part, count);
        else
                left_line(part, count, why);
}

static void send_delete(struct etcd_part *part);

static void delete_more_answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;

        if (reply)
                etcd_wrote(part->etcd, revision_of(reply->header), reply->succeeded);
        if (reply && reply->succeeded && part->state == PART_RELEASING)
                wait_inherit(part, reply, takes_marker(part) ? 2 : 1);
        if (!reply && ask->status == GRPC_RESOURCE_EXHAUSTED && !part->plain) {
                part->plain = true; /* a delete is done also where there is no room, but no history written */
                send_delete(part);
                return;
        }
        claim_deleted(part, reply ? reply->succeeded : -1, why);
}

static const struct etcd_method delete_more_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_delete_more,
        .answered = delete_more_answered,
};

/* Confirmed in time, or told as in doubt: then it is done behind the caller's back. */
static void send_delete(struct etcd_part *part)
{
        bool releases = part->state == PART_RELEASING;

        if (!takes_marker(part) && !(releases && ((!part->plain && history_batch(part)) || wait_has_heir(part)))) {
                sweep_add(part);
                return;
        }
        part->ask.patient = true;
        channel_ask(channel_of(part), &part->ask, &delete_more_method, etcd_now(part->etcd) + part->etcd->timeout);
}

void claim_leave(struct etcd_part *part, int code)
{
        channel_forget(channel_of(part), &part->ask);
        part->state = PART_LEAVING;
        part->code = (uint8_t)code;
        wait_step_aside(part);
        wait_end(part);
        send_delete(part);
}

void claim_release(struct engine *engine, struct claim *claim)
{
        struct etcd_part *part = part_of(claim);

        (void)engine;
        if (part->renewing && part->term)
                part->term->wanted--;
        part->renewing = false;
        part->state = PART_RELEASING;
        history_leaving(part, how_it_ends(part));
        send_delete(part);
}

/* ---- acquire: into the line -------------------------------------------------------------------------------------- */

static int64_t wall_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void put_marker(struct etcd_txn *txn, struct etcd_part *part, char *key)
{
        Pb__PutRequest *put;

        if (!part->claim->delay)
                return;
        put = txn_put(txn, TXN_THEN, bytes_of(key, key_of_marker(part->etcd, part->claim, key)));
        put->lease = delay_lease(part);
}

static void put_claim(struct etcd_txn *txn, const struct etcd_part *part, ProtobufCBinaryData key, bool holds,
                      char *value)
{
        const struct etcd *etcd = part->etcd;
        Pb__PutRequest *put = txn_put(txn, TXN_THEN, key);

        put->value = bytes_of(
                value, record_write(part->claim, etcd->client, etcd->engine.host->owner, wall_ms(), holds, value));
        put->lease = part->term->lease;
}

/* Tokens are made with the base that we know, so it must be that of the store when the key is put. */
static void compare_base(struct etcd_txn *txn, struct etcd_part *part, char *key)
{
        ProtobufCBinaryData base = bytes_of(key, key_of_ours(part->etcd, "base", key));

        part->base_at = part->etcd->base_at;
        txn_if_written(txn, base, part->base_at);
        txn_range(txn, TXN_ELSE, base)->keys_only = true;
}

/* Stands in line in any case, and sees who else does. If it was done before: only where it stands. */
static void write_enter(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_part *part = part_of_ask(ask);
        char key[ETCD_KEY_MAX], base[ETCD_KEY_MAX], marker[ETCD_KEY_MAX], value[RECORD_MAX + 1];
        struct sight_room room;
        struct etcd_txn txn;
        ProtobufCBinaryData own = bytes_of(key, key_of_claim(part, key));

        txn_begin(&txn);
        part->sent = true;
        txn_if_absent(&txn, own, NULL);
        if (part->claim->delay && !part->again)
                txn_if_absent(&txn, bytes_of(marker, key_of_marker(part->etcd, part->claim, marker)), NULL);
        put_claim(&txn, part, own, false, value);
        part->brief = part->crowded || (part->claim->wait && wait_has_line(part));
        if (!part->brief)
                sight_write(&txn, part, &room, part->claim->mode == PAWL_SHARED, 0);
        put_marker(&txn, part, marker);
        txn_range(&txn, TXN_ELSE, own)->keys_only = true;
        compare_base(&txn, part, base);
        grpc_write(out, &txn.request.base);
}

/* Only if nobody is there, and no lock-delay: leaves nothing otherwise. */
static void write_try(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_part *part = part_of_ask(ask);
        const struct claim *claim = part->claim;
        char key[ETCD_KEY_MAX], base[ETCD_KEY_MAX], marker[ETCD_KEY_MAX], value[RECORD_MAX + 1];
        struct sight_room room;
        struct etcd_txn txn;
        ProtobufCBinaryData own = bytes_of(key, key_of_claim(part, key)), end;
        size_t length;

        part->sent = true;
        txn_begin(&txn);
        length = key_of_line(part->etcd, claim->name, claim->name_length, room.line);
        end = bytes_of(room.line_end, key_after_prefix(room.line, length, room.line_end));
        txn_if_absent(&txn, bytes_of(room.line, length), &end);
        length = key_of_markers(part->etcd, claim->name, claim->name_length, room.markers);
        end = bytes_of(room.markers_end, key_after_prefix(room.markers, length, room.markers_end));
        txn_if_absent(&txn, bytes_of(room.markers, length), &end);
        put_claim(&txn, part, own, false, value);
        put_marker(&txn, part, marker);
        txn_range(&txn, TXN_ELSE, own)->keys_only = true;
        compare_base(&txn, part, base);
        grpc_write(out, &txn.request.base);
}

/* The key of an earlier attempt whose answer was lost; 0: there is none, or it was overwritten. */
static uint64_t order_found(const struct etcd_part *part, const Pb__TxnResponse *reply)
{
        const Pb__RangeResponse *found = txn_range_told(reply, 0);

        if (!found || found->n_kvs != 1)
                return 0;
        if (found->kvs[0]->lease == part->term->lease)
                return (uint64_t)found->kvs[0]->create_revision;
        remove_unleased(part, (uint64_t)found->kvs[0]->create_revision);
        return 0;
}

/* Was it not put because the base is another than that we knew then? */
static bool base_moved(struct etcd_part *part, const Pb__TxnResponse *reply)
{
        const Pb__RangeResponse *base = txn_range_told(reply, 1);
        int64_t written = base && base->n_kvs == 1 ? base->kvs[0]->mod_revision : 0;

        if (reply->succeeded || part->order || written == part->base_at)
                return false;
        if (written != part->etcd->base_at)
                channel_greet_again(channel_of(part));
        return true;
}

static bool is_past(const struct etcd_term *term)
{
        return etcd_now(term->etcd) >= term->time.extended_at + term->time.length;
}

/* Its lease is not there: what we know of it is wrong. Then all claims on it are in the same position. Where there are two
 * it is not said which, but one that was kept in time is not ended for the other's sake. Whoever ends may end the claim. */
static bool lease_is_gone(struct etcd_part *part, const struct pawl_why *why)
{
        struct etcd_term *term = part->term, *marked = delay_term(part);
        struct pawl_why over = *why;
        bool both;

        if (part->ask.status != GRPC_NOT_FOUND || part->cancelled)
                return false;
        if (!marked)
                marked = term;
        over.code = PAWL_LOST;
        both = is_past(term) == is_past(marked);
        part->state = PART_TERMING;
        door_leave(part);
        if (both || is_past(term))
                term_end(term, &over);
        if (marked != term && (both || is_past(marked)))
                term_end(marked, &over);
        return true;
}

static void enter_failed(struct etcd_part *part, const struct pawl_why *why)
{
        if (lease_is_gone(part, why))
                return;
        if (part->ask.tries)
                claim_abandon(part, part->cancelled ? PAWL_CANCELLED : why->code, why->text);
        else
                claim_refuse(part, part->cancelled ? PAWL_CANCELLED : why->code, why->text);
}

void claim_entered(struct etcd_part *part)
{
        if (part->cancelled)
                claim_leave(part, PAWL_CANCELLED);
        else if (part->order == 0)
                claim_again(part); /* it was there a moment ago */
        else
                wait_in_line(part);
}

static void entered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;

        part->doubtful |= !reply || ask->tries != 1;
        if (!reply || !reply->header) {
                enter_failed(part, why);
                return;
        }
        part->order = reply->succeeded ? (uint64_t)reply->header->revision : order_found(part, reply);
        (void)base_moved(part, reply); /* it enters again in any case */
        if (part->crowded) {
                door_entered(part); /* it wrote, but in which order is known when all have */
                return;
        }
        etcd_wrote(part->etcd, (uint64_t)reply->header->revision, reply->succeeded);
        if (part->cancelled || part->order == 0 || part->brief)
                claim_entered(part);
        else if (!reply->succeeded)
                wait_look(part);
        else
                wait_judge(part, reply, 1);
        door_leave(part);
}

static void tried(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;

        part->doubtful |= !reply || ask->tries != 1;
        if (!reply || !reply->header) {
                enter_failed(part, why);
                return;
        }
        etcd_wrote(part->etcd, revision_of(reply->header), reply->succeeded);
        part->order = reply->succeeded ? (uint64_t)reply->header->revision : order_found(part, reply);
        if (part->order) {
                door_leave(part);
                claim_told(part, ask->sent_at);
                return;
        }
        if (base_moved(part, reply) && !part->cancelled) {
                claim_again(part);
                return;
        }
        part->tidy = !part->doubtful;
        delay_drop(part);
        claim_refuse(part, part->cancelled ? PAWL_CANCELLED : PAWL_BUSY, NULL);
}

static const struct etcd_method enter_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_enter,
        .answered = entered,
};
static const struct etcd_method try_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_try,
        .answered = tried,
};

void claim_enter(struct etcd_part *part)
{
        bool tries = !part->claim->wait && part->claim->mode == PAWL_EXCLUSIVE;

        part->ask.patient = part->claim->wait;
        channel_ask(channel_of(part), &part->ask, tries ? &try_method : &enter_method,
                    etcd_now(part->etcd) + part->etcd->timeout);
}

static void enter(struct etcd_part *part)
{
        part->state = PART_ENTERING;
        if (door_pass(part))
                claim_enter(part);
}

/* If it was passed over it is given more time the next time. */
void claim_again(struct etcd_part *part)
{
        part->claim->confirms = turn_more(part->claim->confirms);
        part->order = 0;
        part->again = part->doubtful = true;
        wait_end(part);
        wait_left(part, false);
        enter(part);
}

/* When everything it hangs on is there. */
static void enter_if_ready(struct etcd_part *part)
{
        if (part->state == PART_TERMING && term_alive(part->term) && delay_ready(part))
                enter(part);
}

void claim_termed(struct etcd_part *part)
{
        enter_if_ready(part);
}

void claim_marked(struct etcd_part *part)
{
        enter_if_ready(part);
}

static void begin(struct etcd_part *part)
{
        part->state = PART_TERMING;
        part->order = 0;
        if (term_join(part->etcd, part) != PAWL_OK)
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
}

void claim_acquire(struct engine *engine, struct claim *claim)
{
        struct etcd_part *part = part_of(claim);

        if (!claim->wait) /* the request that makes the key of a try grants the lock */
                claim->confirms = 0;
        slot_take(etcd_of(engine), claim);
        claim_know(etcd_of(engine), claim);
        part->asked_at = etcd_now(part->etcd);
        part->state = PART_TERMING;
        if (claim->delay && delay_begin(part) != PAWL_OK)
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
        else
                begin(part);
}

/* ---- its term is over -------------------------------------------------------------------------------------------- */

void claim_unterm(struct etcd_part *part, const struct pawl_why *why, bool was_alive)
{
        bool sent = part->ask.tries > 0 || part->swept;

        sweep_remove(part);
        channel_forget(channel_of(part), &part->ask);
        door_leave(part);
        part->renewing = false;
        if (part->state == PART_HELD) {
                claim_gone(part, PAWL_REASON_SESSION);
        } else if (part->state == PART_RELEASING) {
                history_left(part, PAWL_HOW_EXPIRED, false);
                delay_orphan(part);
                end_release(part, sent ? PAWL_IN_DOUBT : PAWL_LOST);
        } else if (part->state == PART_LEAVING) {
                claim_refuse(part, part->code, NULL);
        } else if (!was_alive || part->state == PART_ADOPTING) {
                claim_refuse(part, part->state == PART_ADOPTING ? PAWL_LOST : why->code, why->text);
        } else if (part->cancelled) {
                claim_refuse(part, PAWL_CANCELLED, NULL);
        } else { /* to the end of the line: its place went with the term */
                part->doubtful = true;
                wait_end(part);
                wait_left(part, false);
                begin(part);
        }
}

/* ---- cancel ------------------------------------------------------------------------------------------------------ */

int claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        const struct etcd *etcd = etcd_of(engine);
        const struct etcd_part *part = part_of(claim);
        const struct etcd_channel *channel = &etcd->channel;
        bool cut_off = !channel_ready(channel) || channel->stalled;

        if (part->order != 0 && !cut_off) /* its key is there */
                return PAWL_TIMEOUT;
        return engine_silent(why, etcd->where, etcd_now(etcd) - part->asked_at, cut_off ? &channel->why : NULL);
}

void claim_cancel(struct engine *engine, struct claim *claim)
{
        struct etcd_part *part = part_of(claim);

        (void)engine;
        switch ((enum part_state)part->state) {
        case PART_TERMING:
                claim_refuse(part, PAWL_CANCELLED, NULL);
                break;
        case PART_ENTERING:
                if (part->ask.tries == 0)
                        claim_refuse(part, PAWL_CANCELLED, NULL);
                else
                        part->cancelled = true; /* when its answer is there: nothing overtakes it */
                break;
        case PART_WAITING:
        case PART_LOOKING:
        case PART_KEEPING:
        case PART_CONFIRMING:
                claim_leave(part, PAWL_CANCELLED);
                break;
        case PART_ADOPTING:
                part->cancelled = true;
                break;
        default:
                break;
        }
}

/* ---- renew: from what is known of the term, or with its next keep-alive ------------------------------------------ */

/* Of one that is alone on its lease the lease is what is to be extended, not only what we know of it. */
static bool has_room(const struct etcd_part *part, int64_t now)
{
        return !part->term->own && now - counts_from(part, now) <= part->claim->ttl / 4;
}

static void tell_renewed(struct etcd_part *part, int code)
{
        const struct engine_host *host = host_of(part);

        host->events->renewed(host->core, part->claim, code, counts_from(part, etcd_now(part->etcd)));
}

void claim_renewed(struct etcd_part *part, int code)
{
        part->renewing = false;
        if (part->state == PART_HELD)
                tell_renewed(part, code);
        else if (part->state == PART_KEEPING && code == PAWL_OK)
                claim_told(part, etcd_now(part->etcd));
        else if (part->state == PART_KEEPING)
                wait_look(part);
}

static void renew(struct etcd_part *part)
{
        if (has_room(part, etcd_now(part->etcd))) {
                tell_renewed(part, PAWL_OK);
        } else if (!channel_ready(channel_of(part))) {
                channel_want(channel_of(part));
                tell_renewed(part, PAWL_UNREACHABLE);
        } else {
                part->renewing = true;
                part->term->wanted++;
                delay_keep(part);
                term_keep(part->term);
        }
}

void claim_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        (void)engine;
        for (size_t i = 0; i < n; i++)
                renew(part_of(claims[i]));
}

/* ---- confirming its turn ----------------------------------------------------------------------------------------- */

/* Until this is done it may be passed over, and never afterwards. It may be done twice, and at any time: the key that it
 * compares exists for this claim only as long as the claim does. */
static void write_confirm(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_part *part = part_of_ask(ask);
        char key[ETCD_KEY_MAX], value[RECORD_MAX + 1];
        ProtobufCBinaryData own = bytes_of(key, key_of_claim(part, key));
        struct etcd_txn txn;

        txn_begin(&txn);
        txn_if_created(&txn, own, part->order);
        put_claim(&txn, part, own, true, value);
        grpc_write(out, &txn.request.base);
}

static void confirmed(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;

        if (!reply || !reply->header) {
                enter_failed(part, why);
                return;
        }
        etcd_wrote(part->etcd, revision_of(reply->header), reply->succeeded);
        if (reply->succeeded)
                claim_told(part, ask->sent_at);
        else
                claim_again(part);
}

static const struct etcd_method confirm_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_confirm,
        .answered = confirmed,
};

static void confirm(struct etcd_part *part)
{
        enum { PATIENCE = 6 };
        struct etcd *etcd = part->etcd;

        part->state = PART_CONFIRMING;
        part->ask.patient = true;
        channel_ask(&etcd->channel, &part->ask, &confirm_method, etcd_now(etcd) + PATIENCE * etcd->timeout);
}

/* The wait is over. A lease that nobody will keep alive begins with its whole length. */
void claim_grant(struct etcd_part *part, int64_t sent_at)
{
        struct etcd_term *term = part->term;

        wait_end(part);
        if (term->own && etcd_now(part->etcd) - term->time.extended_at > part->claim->ttl / 20) {
                part->state = PART_KEEPING;
                part->renewing = true;
                term->wanted++;
                term_keep(term);
        } else if (part->claim->confirms) {
                confirm(part);
        } else {
                claim_told(part, sent_at);
        }
}
