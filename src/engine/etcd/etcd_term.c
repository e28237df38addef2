/* etcd_term.c - leases of the store. Claims of one ttl share a lease; it is kept alive by one message every quarter of
 * its length, however many they are, and a renewal that the core asks for is answered from what is known:
 * docs/decisions/0110. */
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

enum {
        TERMS_MAX = 8,        /* a claim of yet another ttl takes a longer one that is there */
        LOOKED_AT_MOST = 1000 /* claims on a lease whose keys are listed now and then */
};
#define IDLE_FOR (60 * SECOND)
#define LEAST_PAUSE (20 * MS)
/* A lease's keys are told by the leader, which may have applied less than the member that granted the claim. */
#define SURE_AFTER SECOND

static struct loop *loop_of(const struct etcd_term *term)
{
        return term->etcd->engine.host->loop;
}

static uint64_t hash_of(int64_t lease)
{
        return (uint64_t)lease * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

/* The one that waits longest for an answer: two handles of a detached lock have a term each, of one lease. */
static struct etcd_term *find_kept(const struct etcd *etcd, int64_t lease)
{
        struct etcd_term *first = NULL;

        for (struct link *link = table_first(&etcd->leases, hash_of(lease)); link; link = link->next) {
                struct etcd_term *term = container_of(link, struct etcd_term, link);

                if (term->lease == lease && term->state == TERM_ALIVE && term->kept_at && !ask_busy(&term->proof) &&
                    (!first || term->kept_at < first->kept_at))
                        first = term;
        }
        return first;
}

struct etcd_term *term_find(const struct etcd *etcd, int64_t lease)
{
        for (struct link *link = table_first(&etcd->leases, hash_of(lease)); link; link = link->next) {
                struct etcd_term *term = container_of(link, struct etcd_term, link);

                if (term->lease == lease && term->state == TERM_ALIVE)
                        return term;
        }
        return NULL;
}

/* Whole seconds: the store counts no fractions. */
static int64_t seconds_for(const struct etcd *etcd, int64_t ttl)
{
        return (ttl + etcd->slack + SECOND - 1) / SECOND;
}

static int64_t random_lease(const struct etcd *etcd)
{
        uint64_t lease = 0;

        while (lease == 0) {
                loop_random(etcd->engine.host->loop, &lease, sizeof(lease));
                lease &= INT64_MAX;
        }
        return (int64_t)lease;
}

/* ---- keeping it alive -------------------------------------------------------------------------------------------- */

static void set_timer(struct etcd_term *term, int64_t at)
{
        loop_set(loop_of(term), &term->timer, at); /* it is always set, if only to NEVER: cannot fail */
}

static int64_t keep_every(const struct etcd_term *term)
{
        int64_t every = term->time.length / 4;

        return every > LEAST_PAUSE ? every : LEAST_PAUSE;
}

/* One that is its claim's own is kept alive only until that holds: then it is left to itself. */
static bool is_kept(const struct etcd_term *term)
{
        if (!term->own || term->wanted)
                return true;
        if (!list_empty(&term->users))
                return list_first(&term->users, struct etcd_tenant, listed)->kept;
        return !list_empty(&term->parts) && list_first(&term->parts, struct etcd_part, termed)->state != PART_HELD;
}

/* Then another endpoint is tried, while there is time. */
static int64_t answer_within(const struct etcd_term *term)
{
        int64_t within = term->time.length / 3, most = term->etcd->timeout / 3;

        if (within < 250 * MS)
                within = 250 * MS;
        return within < most ? within : most;
}

void term_keep(struct etcd_term *term)
{
        const struct etcd *etcd = term->etcd;
        int64_t now = etcd_now(etcd);

        if (term->state != TERM_ALIVE || term->kept_at)
                return;
        if (channel_keep(&term->etcd->channel, term->lease)) {
                term->kept_at = now;
                set_timer(term, now + answer_within(term));
        } else {
                set_timer(term, now + keep_every(term) / 4);
        }
}

/* The claims that wait for it. Whoever is told may leave the term, and a detached one takes it along: so this comes last. */
static void tell_renewed(struct etcd_term *term, int code)
{
        struct list parts;

        if (!term->wanted)
                return;
        term->wanted = 0;
        list_init(&parts);
        list_splice(&parts, &term->parts);
        while (!list_empty(&parts)) {
                struct etcd_part *part = list_first(&parts, struct etcd_part, termed);

                list_remove(&part->termed);
                list_append(&term->parts, &part->termed);
                if (part->renewing)
                        claim_renewed(part, code);
        }
}

/* ---- which keys are there: what was deleted by hand is found so -------------------------------------------------- */

static void write_look(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_term *term = container_of(ask, struct etcd_term, look);
        Pb__LeaseTimeToLiveRequest request = PB__LEASE_TIME_TO_LIVE_REQUEST__INIT;

        term->looked_at = ask->sent_at;
        request.id = term->lease;
        request.keys = true;
        grpc_write(out, &request.base);
}

static bool same_uid(const uint64_t a[2], const uint64_t b[2])
{
        return a[0] == b[0] && a[1] == b[1];
}

/* Of a detached lock there may be several handles, each with a term of its own. */
static struct etcd_part *part_on(const struct etcd_term *term, const uint64_t uid[2])
{
        struct etcd_part *part;

        if (!term->own)
                return claim_find(term->etcd, uid);
        part = list_empty(&term->parts) ? NULL : list_first(&term->parts, struct etcd_part, termed);
        return part && same_uid(part->claim->uid, uid) ? part : NULL;
}

/* Its marker was put in the same transaction. */
static void delete_stray(struct etcd *etcd, const ProtobufCBinaryData *key, const char *name, size_t name_length,
                         const uint64_t uid[2])
{
        char marker[ETCD_KEY_MAX];
        size_t length = key_of_markers(etcd, name, name_length, marker);

        length = (size_t)(uid_put(marker + length, uid) - marker);
        ghost_of_key(etcd, (const char *)key->data, key->len, 0);
        ghost_of_key(etcd, marker, length, 0);
}

/* A request that was given up, and came late, may have put a key that no claim of ours knows. It is deleted when it was seen
 * twice; of several one after the other. */
static void mark_seen(struct etcd_term *term, const Pb__LeaseTimeToLiveResponse *reply)
{
        char name[PAWL_NAME_MAX + 1];
        size_t name_length, rest_length;
        uint64_t stray[2] = {0, 0};
        struct contender contender;
        struct etcd_part *part;
        const char *rest;
        int64_t lease;

        for (size_t i = 0; i < reply->n_keys; i++) {
                if (!key_split(term->etcd, &reply->keys[i], name, &name_length, &rest, &rest_length))
                        continue;
                key_read(rest, rest_length, &contender, &lease);
                part = part_on(term, contender.uid);
                if (part)
                        part->seen = true;
                else if (slot_is_clean(term->etcd, contender.uid))
                        continue; /* of a claim that has left meanwhile, and of the next one soon */
                else if (!term->own && same_uid(contender.uid, term->stray))
                        delete_stray(term->etcd, &reply->keys[i], name, name_length, contender.uid);
                else if (!term->own)
                        memcpy(stray, contender.uid, sizeof(stray));
        }
        memcpy(term->stray, stray, sizeof(stray));
}

static void looked(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_term *term = container_of(ask, struct etcd_term, look);
        const Pb__LeaseTimeToLiveResponse *reply = (const Pb__LeaseTimeToLiveResponse *)message;
        struct list parts;

        (void)why;
        if (!reply || reply->ttl <= 0)
                return; /* the keep-alive finds out */
        mark_seen(term, reply);
        list_init(&parts);
        list_splice(&parts, &term->parts);
        while (!list_empty(&parts)) {
                struct etcd_part *part = list_first(&parts, struct etcd_part, termed);
                bool seen = part->seen;

                list_remove(&part->termed);
                list_append(&term->parts, &part->termed);
                part->seen = false;
                if (!seen && part->state == PART_HELD && part->since + SURE_AFTER < term->looked_at)
                        claim_taken(part);
        }
}

static const struct etcd_method look_method = {
        .path = "/etcdserverpb.Lease/LeaseTimeToLive",
        .reply = &pb__lease_time_to_live_response__descriptor,
        .write = write_look,
        .answered = looked,
};

static void look(struct etcd_term *term)
{
        if (list_empty(&term->parts) || term->count > LOOKED_AT_MOST || ask_busy(&term->look))
                return;
        channel_ask(&term->etcd->channel, &term->look, &look_method, etcd_now(term->etcd) + term->etcd->timeout);
}

/* The member took down its raft_term before it asked the leader: see etcd_proof.c. */
void term_kept(struct etcd *etcd, const Pb__LeaseKeepAliveResponse *reply)
{
        struct etcd_term *term = find_kept(etcd, reply->id);
        struct pawl_why why;

        if (!term)
                return;
        if (reply->ttl <= 0) {
                why_set(&why, PAWL_LOST, "the lease has ended");
                term_end(term, &why);
                return;
        }
        set_timer(term, etcd_now(etcd) + answer_within(term));
        proof_ask(term, reply->header ? reply->header->raft_term : 0);
}

void term_proven(struct etcd_term *term)
{
        term->time.extended_at = term->kept_at;
        term->kept_at = 0;
        set_timer(term, term->time.extended_at + keep_every(term));
        look(term);
        news_kept(term->etcd);
        tell_renewed(term, PAWL_OK);
}

void term_unproven(struct etcd_term *term, int code)
{
        term->kept_at = 0;
        set_timer(term, etcd_now(term->etcd) + (code == PAWL_OK ? LEAST_PAUSE : keep_every(term) / 4));
        if (code != PAWL_OK)
                tell_renewed(term, code);
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */

static void write_grant(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_term *term = container_of(ask, struct etcd_term, ask);
        Pb__LeaseGrantRequest request = PB__LEASE_GRANT_REQUEST__INIT;

        if (ask->tries <= 1)
                term->time.extended_at = ask->sent_at;
        request.ttl = term->seconds;
        request.id = term->lease;
        grpc_write(out, &request.base);
}

static void free_term(struct etcd_term *term)
{
        channel_forget(&term->etcd->channel, &term->ask);
        channel_forget(&term->etcd->channel, &term->look);
        channel_forget(&term->etcd->channel, &term->proof);
        channel_forget(&term->etcd->channel, &term->sign);
        loop_unset(loop_of(term), &term->timer);
        table_remove(&term->etcd->leases, &term->link);
        list_remove(&term->listed);
        free(term);
}

/* Nobody finds it any more, so that whoever is told may take another. */
static void end_all(struct etcd_term *term, const struct pawl_why *why, bool was_alive)
{
        term->state = TERM_OVER;
        list_remove(&term->listed);
        while (!list_empty(&term->users)) {
                struct etcd_tenant *tenant = list_first(&term->users, struct etcd_tenant, listed);

                list_remove(&tenant->listed);
                tenant->term = NULL;
                tenant->over(tenant, why);
        }
        while (!list_empty(&term->parts)) {
                struct etcd_part *part = list_first(&term->parts, struct etcd_part, termed);

                list_remove(&part->termed);
                part->term = NULL;
                claim_unterm(part, why, was_alive);
        }
        free_term(term);
}

void term_end(struct etcd_term *term, const struct pawl_why *why)
{
        end_all(term, why, true);
}

/* If somebody deleted the sentinel alone the lease goes the same way: others wait for what hangs on it. */
void term_revoked(struct etcd_term *term)
{
        struct pawl_why why;

        why_set(&why, PAWL_LOST, "the lease was revoked");
        ghost_of_lease(term->etcd, term->lease);
        term_end(term, &why);
}

static void revoke(struct etcd_term *term);

/* Each may leave, or take others with it, while they are told. */
static void tell_begun(struct etcd_term *term)
{
        struct list waiting;

        term->state = TERM_ALIVE;
        list_init(&waiting);
        list_splice(&waiting, &term->users);
        while (!list_empty(&waiting)) {
                struct etcd_tenant *tenant = list_first(&waiting, struct etcd_tenant, listed);

                list_remove(&tenant->listed);
                list_append(&term->users, &tenant->listed);
                tenant->begun(tenant);
        }
        list_splice(&waiting, &term->parts);
        while (!list_empty(&waiting)) {
                struct etcd_part *part = list_first(&waiting, struct etcd_part, termed);

                list_remove(&part->termed);
                list_append(&term->parts, &part->termed);
                claim_termed(part);
        }
        if (term->own && term->count == 0) /* given up meanwhile */
                revoke(term);
}

static const struct etcd_method grant_method;

static void ask_grant(struct etcd_term *term)
{
        const struct etcd *etcd = term->etcd;

        table_remove(&term->etcd->leases, &term->link);
        term->lease = random_lease(etcd);
        table_add(&term->etcd->leases, &term->link, hash_of(term->lease));
        channel_ask(&term->etcd->channel, &term->ask, &grant_method, etcd_now(etcd) + etcd->timeout);
}

static void granted(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_term *term = container_of(ask, struct etcd_term, ask);
        const Pb__LeaseGrantResponse *reply = (const Pb__LeaseGrantResponse *)message;
        bool exists = !reply && ask->status == GRPC_FAILED_PRECONDITION;
        int64_t seconds = reply ? reply->ttl : term->seconds;

        if (exists && ask->tries < 2) { /* somebody else's, by chance */
                ask_grant(term);
                return;
        }
        if (!reply && !exists) {
                end_all(term, why, false);
                return;
        }
        term->time.length = seconds * SECOND - term->etcd->slack;
        if (term->time.length < 100 * MS)
                term->time.length = 100 * MS;
        if (reply)
                term->time.extended_at = ask->sent_at;
        set_timer(term, term->time.extended_at + keep_every(term));
        tell_begun(term);
}

static const struct etcd_method grant_method = {
        .path = "/etcdserverpb.Lease/LeaseGrant",
        .reply = &pb__lease_grant_response__descriptor,
        .write = write_grant,
        .answered = granted,
};

/* ---- giving it up ------------------------------------------------------------------------------------------------ */

static void write_revoke(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_term *term = container_of(ask, struct etcd_term, ask);
        Pb__LeaseRevokeRequest request = PB__LEASE_REVOKE_REQUEST__INIT;

        request.id = term->lease;
        grpc_write(out, &request.base);
}

static void revoked(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        (void)message;
        (void)why; /* if it was not heard, the lease runs out */
        free_term(container_of(ask, struct etcd_term, ask));
}

static const struct etcd_method revoke_method = {
        .path = "/etcdserverpb.Lease/LeaseRevoke",
        .reply = &pb__lease_revoke_response__descriptor,
        .write = write_revoke,
        .answered = revoked,
};

static void revoke(struct etcd_term *term)
{
        struct etcd_channel *channel = &term->etcd->channel;

        term->state = TERM_OVER;
        list_remove(&term->listed);
        list_append(&term->etcd->ended, &term->listed);
        set_timer(term, NEVER);
        channel_forget(channel, &term->ask);
        channel_ask(channel, &term->ask, &revoke_method, etcd_now(term->etcd) + term->seconds * SECOND);
}

static void due(struct timer *timer)
{
        struct etcd_term *term = container_of(timer, struct etcd_term, timer);
        int64_t now = etcd_now(term->etcd);

        set_timer(term, NEVER);
        if (term->state != TERM_ALIVE)
                return;
        if (term->count == 0 && now - term->idle_at >= IDLE_FOR) {
                revoke(term);
        } else if (term->kept_at) { /* and not answered */
                channel_forget(&term->etcd->channel, &term->proof);
                term->kept_at = 0;
                set_timer(term, now + keep_every(term) / 4);
                channel_suspect(&term->etcd->channel);
                tell_renewed(term, PAWL_UNREACHABLE);
        } else if (is_kept(term)) {
                term_keep(term);
        }
}

/* ---- who uses it ------------------------------------------------------------------------------------------------- */

static struct etcd_term *term_new(struct etcd *etcd, int64_t ttl, bool own)
{
        struct etcd_term *term = calloc(1, sizeof(*term));

        if (!term)
                return NULL;
        term->etcd = etcd;
        term->own = own;
        term->seconds = seconds_for(etcd, ttl);
        term->time.extended_at = INT64_MIN;
        list_init(&term->parts);
        list_init(&term->users);
        list_init(&term->listed);
        ask_init(&term->ask);
        ask_init(&term->look);
        ask_init(&term->proof);
        ask_init(&term->sign);
        term->ask.patient = true;
        term->timer.fire = due;
        if (loop_set(loop_of(term), &term->timer, NEVER) != 0) {
                free(term);
                return NULL;
        }
        table_add(&etcd->leases, &term->link, hash_of(0));
        list_append(&etcd->terms, &term->listed);
        return term;
}

/* One of exactly that length; or, if there are many already, the shortest that is long enough. */
static struct etcd_term *find_shared(const struct etcd *etcd, int64_t seconds)
{
        struct etcd_term *longer = NULL;
        size_t shared = 0;

        for (struct list *at = etcd->terms.next; at != &etcd->terms; at = at->next) {
                struct etcd_term *term = container_of(at, struct etcd_term, listed);

                if (term->own)
                        continue;
                shared++;
                if (term->seconds == seconds)
                        return term;
                if (term->seconds > seconds && (!longer || term->seconds < longer->seconds))
                        longer = term;
        }
        return shared >= TERMS_MAX ? longer : NULL;
}

static struct etcd_term *find_or_make(struct etcd *etcd, int64_t ttl, bool own, bool *fresh)
{
        struct etcd_term *term = own ? NULL : find_shared(etcd, seconds_for(etcd, ttl));

        *fresh = !term;
        return term ? term : term_new(etcd, ttl, own);
}

int term_join(struct etcd *etcd, struct etcd_part *part)
{
        bool fresh;
        struct etcd_term *term = find_or_make(etcd, part->claim->ttl, part->claim->detached, &fresh);

        if (!term)
                return PAWL_NO_MEMORY;
        part->term = term;
        list_append(&term->parts, &part->termed);
        term->count++;
        if (fresh)
                ask_grant(term);
        else if (term->state == TERM_ALIVE)
                claim_termed(part);
        return PAWL_OK;
}

/* One that belonged to a single claim goes with it; if it was released the lease has nothing left on it. */
static void left(struct etcd_term *term)
{
        if (term->etcd->closing)
                return;
        if (--term->count > 0)
                return;
        term->idle_at = etcd_now(term->etcd);
        if (term->state == TERM_ALIVE && term->own)
                revoke(term);
}

void term_part(struct etcd_part *part)
{
        struct etcd_term *term = part->term;

        if (!term)
                return;
        list_remove(&part->termed);
        part->term = NULL;
        left(term);
}

int term_rent(struct etcd *etcd, struct etcd_tenant *tenant, int64_t ttl, bool own)
{
        bool fresh;
        struct etcd_term *term = find_or_make(etcd, ttl, own, &fresh);

        if (!term)
                return PAWL_NO_MEMORY;
        tenant->term = term;
        list_init(&tenant->listed);
        list_append(&term->users, &tenant->listed);
        term->count++;
        if (fresh)
                ask_grant(term);
        else if (term->state == TERM_ALIVE)
                tenant->begun(tenant);
        return PAWL_OK;
}

void term_leave(struct etcd_tenant *tenant)
{
        struct etcd_term *term = tenant->term;

        if (!term)
                return;
        list_remove(&tenant->listed);
        tenant->term = NULL;
        left(term);
}

struct etcd_term *term_adopt(struct etcd *etcd, struct etcd_part *part, int64_t lease, const struct term_time *time)
{
        struct etcd_term *term = term_new(etcd, part->claim->ttl, true);

        if (!term)
                return NULL;
        table_remove(&etcd->leases, &term->link);
        term->lease = lease;
        table_add(&etcd->leases, &term->link, hash_of(lease));
        term->time = *time;
        term->state = TERM_ALIVE;
        part->term = term;
        list_append(&term->parts, &part->termed);
        term->count = 1;
        return term;
}

void term_drop(struct etcd_term *term)
{
        while (!list_empty(&term->parts)) {
                struct etcd_part *part = list_first(&term->parts, struct etcd_part, termed);

                list_remove(&part->termed);
                part->term = NULL;
        }
        while (!list_empty(&term->users)) {
                struct etcd_tenant *tenant = list_first(&term->users, struct etcd_tenant, listed);

                list_remove(&tenant->listed);
                tenant->term = NULL;
        }
        free_term(term);
}

/* ---- the channel comes and goes ---------------------------------------------------------------------------------- */

/* Calls tell for each, also if that takes terms off the list. */
static void each_term(struct etcd *etcd, void (*tell)(struct etcd_term *))
{
        struct list terms;

        list_init(&terms);
        list_splice(&terms, &etcd->terms);
        while (!list_empty(&terms)) {
                struct etcd_term *term = list_first(&terms, struct etcd_term, listed);

                list_remove(&term->listed);
                list_append(&etcd->terms, &term->listed);
                tell(term);
        }
}

static void up(struct etcd_term *term)
{
        if (is_kept(term))
                term_keep(term);
}

static void down(struct etcd_term *term)
{
        if (term->state != TERM_ALIVE)
                return;
        channel_forget(&term->etcd->channel, &term->proof);
        term->kept_at = 0;
        set_timer(term, etcd_now(term->etcd) + keep_every(term) / 4);
        tell_renewed(term, PAWL_UNREACHABLE);
}

void terms_up(struct etcd *etcd)
{
        each_term(etcd, up);
}

void terms_down(struct etcd *etcd)
{
        each_term(etcd, down);
}

static void revoke_unused(struct etcd_term *term)
{
        if (term->state == TERM_ALIVE && term->count == 0)
                revoke(term);
}

/* The server drops a request whose connection ends before it was passed on: only an answer shows that it was. */
bool terms_revoke(struct etcd *etcd)
{
        if (!channel_ready(&etcd->channel))
                return true;
        each_term(etcd, revoke_unused);
        net_flush(&etcd->channel.grpc.net);
        return list_empty(&etcd->ended);
}

void terms_free(struct etcd *etcd)
{
        while (!list_empty(&etcd->terms))
                free_term(list_first(&etcd->terms, struct etcd_term, listed));
        while (!list_empty(&etcd->ended))
                free_term(list_first(&etcd->ended, struct etcd_term, listed));
}
