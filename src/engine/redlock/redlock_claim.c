/* redlock_claim.c - the life of a claim: an attempt, its undoing, the hold, the release.
 *
 * An attempt asks all nodes at once for a number. With the same greatest number T from a majority it is granted, in
 * one round trip: nodes that stand level give the same number, that of the hint. Otherwise T is written back, and a
 * majority must have it. A failed attempt is undone everywhere before the next one, which has a uid of its own. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "redlock.h"

/* How long the others are waited for once a majority has answered without a decision: a multiple of what it took so
 * far. */
#define STRAGGLERS_LEAST (50 * MS)
enum { STRAGGLERS_FACTOR = 4 };

static const struct engine_host *host_of(const struct part *part)
{
        return part->redlock->engine.host;
}

/* ---- knowing and forgetting -------------------------------------------------------------------------------------- */

void claim_know(struct redlock *redlock, struct claim *claim)
{
        struct part *part = part_of(claim);

        part->redlock = redlock;
        part->claim = claim;
        part->since = part->asked_at = redlock_now(redlock);
        list_init(&part->listed);
}

void claim_forget(struct part *part)
{
        struct place *place = part->place;

        list_remove(&part->listed);
        place_hide(part);
        renewal_forget(part);
        if (part->round)
                round_leave(part->round);
        part->place = NULL;
        if (!place)
                return;
        if (place->holder == part)
                place->holder = NULL;
        if (place->trying == part)
                place->trying = NULL;
}

void claim_refuse(struct part *part, int code, const char *why)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->refused(host->core, part->claim, code, why);
}

void claim_gone(struct part *part, int reason)
{
        const struct engine_host *host = host_of(part);
        struct place *place = part->place;

        claim_forget(part);
        if (place)
                place_next(place);
        host->events->gone(host->core, part->claim, reason);
}

/* A round for this claim, which waits for it. NULL: no memory. */
static struct round *begin_round(struct part *part, void (*told)(struct round *))
{
        struct round *round = round_new(part->redlock, part, told);

        if (!round)
                return NULL;
        round->asker = part;
        part->round = round;
        return round;
}

/* ---- waiting for a majority -------------------------------------------------------------------------------------- */

static void be_patient(struct redlock *redlock, int64_t until)
{
        if (!redlock->patience.place || until < redlock->patience.at)
                (void)!loop_set(redlock->engine.host->loop, &redlock->patience, until);
}

static void refuse_without_quorum(struct part *part)
{
        struct pawl_why why;
        int code = trust_why(part->redlock, &why);

        claim_refuse(part, code, why.text);
}

/* Until there is one, until it is hopeless, or until the time for that is over. */
static void pend(struct part *part)
{
        struct redlock *redlock = part->redlock;

        if (trust_hopeless(redlock) || redlock_now(redlock) - part->asked_at >= redlock->timeout) {
                refuse_without_quorum(part);
                return;
        }
        part->state = PENDING;
        part->place = NULL;
        list_append(&redlock->pending, &part->listed);
        be_patient(redlock, part->asked_at + redlock->timeout);
}

static void enter(struct part *part)
{
        if (part->adopts) {
                claim_adopt_now(part);
                return;
        }
        part->place = place_get(part->redlock, part->claim->name, part->claim->name_length);
        if (part->place)
                place_enter(part);
        else
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
}

void claims_wake(struct redlock *redlock)
{
        int64_t now = redlock_now(redlock);
        bool hopeless = trust_hopeless(redlock);
        struct list pending;

        list_init(&pending);
        list_splice(&pending, &redlock->pending);
        while (!list_empty(&pending)) {
                struct part *part = list_first(&pending, struct part, listed);

                list_remove(&part->listed);
                if (trust_quorum(redlock)) {
                        enter(part);
                } else if (hopeless || now - part->asked_at >= redlock->timeout) {
                        refuse_without_quorum(part);
                } else {
                        list_append(&redlock->pending, &part->listed);
                        be_patient(redlock, part->asked_at + redlock->timeout);
                }
        }
}

void claim_set_out(struct part *part)
{
        if (trust_quorum(part->redlock))
                enter(part);
        else
                pend(part);
}

/* Markers, rosters and queues have keys that begin so: a lock on one of them would be the end of the namespace. */
static bool is_reserved(const struct redlock *redlock, const struct claim *claim)
{
        char start[6];

        snprintf(start, sizeof(start), "%s%s", redlock->prefix_start, claim->name);
        return strcmp(start, "pawl:") == 0;
}

void claim_acquire(struct engine *engine, struct claim *claim)
{
        struct redlock *redlock = redlock_of(engine);

        claim_know(redlock, claim);
        if (is_reserved(redlock, claim))
                claim_refuse(part_of(claim), PAWL_INVALID,
                             "with this prefix the key would begin with pawl:, as markers and queues do");
        else
                claim_set_out(part_of(claim));
}

/* ---- an attempt -------------------------------------------------------------------------------------------------- */

/* Our clock, in us: any number is safe, one that all nodes can take saves a round trip. A wrong clock must not run away with
 * the numbers, so it is never far ahead of the nodes' own, as they were when they were last looked at. */
static uint64_t hint(const struct redlock *redlock)
{
        int64_t now = redlock_now(redlock);
        struct timespec ts;
        uint64_t hint;

        clock_gettime(CLOCK_REALTIME, &ts);
        hint = (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct node *node = &redlock->nodes[i];
                uint64_t most = node->member.clock + (uint64_t)(now - node->member.asked_at) / 1000 + HINT_AHEAD;

                if (node->votes && most < hint)
                        hint = most;
        }
        return hint;
}

/* When it was asked for, by the clock of a node that is the same for all clients: who waits longest is the first, whatever
 * the clients' clocks say. 0: it does not wait. */
static uint64_t ticket(const struct part *part)
{
        const struct redlock *redlock = part->redlock;
        const struct node *first = NULL;

        for (uint32_t i = 0; part->claim->wait && i < redlock->count; i++)
                if (redlock->nodes[i].votes && (!first || redlock->nodes[i].seat < first->seat))
                        first = &redlock->nodes[i];
        return first ? first->member.clock + (uint64_t)((part->since - first->member.asked_at) / 1000) : 0;
}

static int64_t attempt_limit(const struct part *part)
{
        int64_t limit = part->redlock->timeout < ATTEMPT_MOST ? part->redlock->timeout : ATTEMPT_MOST;

        return part->claim->ttl < limit ? part->claim->ttl : limit;
}

static bool too_late(const struct part *part)
{
        return redlock_now(part->redlock) - part->sent_at >= attempt_limit(part);
}

static void fail(struct part *part, struct round *round);
static enum outcome outcome_of(struct part *part, const struct round *round);
static void granted(struct part *part, nodes_t on);
static void accept(struct part *part, struct round *round);

/* A vote given by a run or by data that are no more does not count: whoever restarts gives its numbers again. */
static nodes_t still_standing(const struct round *round)
{
        nodes_t standing = 0;

        for (uint32_t i = 0; i < round->redlock->count; i++) {
                const struct node *node = &round->redlock->nodes[i];

                if (round->ok & node->bit && round->ballots[i].vote.incarnation == node->member.incarnation)
                        standing |= node->bit;
        }
        return standing;
}

static nodes_t with_greatest(const struct round *round, nodes_t nodes, uint64_t *greatest)
{
        nodes_t with = 0;

        *greatest = 0;
        for (uint32_t i = 0; i < round->redlock->count; i++) {
                uint64_t number = round->ballots[i].vote.granted;
                nodes_t bit = round->redlock->nodes[i].bit;

                if (!(nodes & bit) || number < *greatest)
                        continue;
                with = number > *greatest ? bit : with | bit;
                *greatest = number;
        }
        return with;
}

/* A majority has answered, and still nothing is decided: the others may be gone for good. */
static void hurry(struct round *round)
{
        const struct redlock *redlock = round->redlock;
        int64_t now = redlock_now(redlock);
        int64_t wait = (now - round->started_at) * STRAGGLERS_FACTOR;

        if (how_many(round->sent & ~round->out) < redlock->quorum)
                return;
        if (wait < STRAGGLERS_LEAST)
                wait = STRAGGLERS_LEAST;
        if (now + wait < round->timer.at)
                (void)!round_limit(round, now + wait);
}

/* Where no majority is possible any more, the others are still waited for if they will tell why: is it held, or are too few
 * there? */
static bool has_failed(struct part *part, const struct round *round, nodes_t standing)
{
        uint32_t quorum = part->redlock->quorum;

        if (too_late(part))
                return true;
        if (how_many(standing) >= quorum)
                return false;
        if (round->late || !round->out)
                return true;
        if (how_many(standing | round->out) >= quorum || outcome_of(part, round) == OUTCOME_SILENT)
                return false;
        /* Who waits has time: what the others say costs less than to take back what they may have given. */
        return !part->claim->wait || how_many(part->place->turns) >= quorum;
}

static void grant_told(struct round *round)
{
        struct part *part = round->asker;
        uint32_t quorum = part->redlock->quorum;
        nodes_t standing = still_standing(round);

        if (has_failed(part, round, standing)) {
                fail(part, round);
        } else if (how_many(standing) < quorum) {
                hurry(round);
        } else {
                part->exact = with_greatest(round, standing, &part->token);
                if (how_many(part->exact) >= quorum)
                        granted(part, standing);
                else
                        accept(part, round);
        }
}

void claim_has_turn(struct part *part)
{
        if (part->state == ASKING && part->round)
                grant_told(part->round);
}

static void accept_told(struct round *round)
{
        struct part *part = round->asker;
        uint32_t quorum = part->redlock->quorum;
        nodes_t with = part->exact | still_standing(round);

        if (how_many(with | round->out) < quorum || too_late(part) || round->late)
                fail(part, round);
        else if (how_many(with) >= quorum)
                granted(part, with);
        else
                hurry(round);
}

void claim_try(struct part *part)
{
        struct redlock *redlock = part->redlock;
        struct place *place = part->place;
        struct round *round = NULL;

        if (!trust_quorum(redlock)) {
                pend(part);
                place_next(place);
                return;
        }
        part->state = ASKING;
        part->left = 0;
        part->before = 0;
        part->hasty = how_many(place->turns) >= redlock->quorum;
        place->trying = part;
        place->turns = 0;
        loop_random(redlock->engine.host->loop, part->uid, sizeof(part->uid));
        part->sent_at = redlock_now(redlock);
        part->tag = redlock->tag;
        round = begin_round(part, grant_told);
        if (!round || round_limit(round, part->sent_at + attempt_limit(part)) != PAWL_OK) {
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
                place_next(place);
                return;
        }
        round->ticket = part->hasty ? 0 : ticket(part); /* nodes that are behind would keep us in their queues */
        round->queued = place->queued;
        place->queued = place->queued || round->ticket;
        round_send(round, VOTE_GRANT, hint(redlock), redlock->all);
        part->reached = round->sent;
        if (!round->out)
                grant_told(round);
}

/* T must be written where the attempt has a smaller number, or may have one soon. */
static void accept(struct part *part, struct round *asked)
{
        nodes_t nodes = (asked->ok | asked->out) & ~part->exact;
        struct round *round;

        part->state = ACCEPTING;
        part->on = asked->ok | asked->out;
        round_leave(asked);
        round = part->tag == part->redlock->tag ? begin_round(part, accept_told) : NULL; /* votes of one roster only */
        if (!round || round_limit(round, part->sent_at + attempt_limit(part)) != PAWL_OK) {
                fail(part, round);
                return;
        }
        round_send(round, VOTE_ACCEPT, part->token, nodes);
        if (!round->out)
                accept_told(round);
}

static void granted(struct part *part, nodes_t on)
{
        const struct engine_host *host = host_of(part);
        struct grant grant = {.token = part->token, .sent_at = part->sent_at};

        round_leave(part->round);
        part->state = HELD;
        part->on = on;
        place_hide(part);
        place_taken(part->place, part);
        host->events->granted(host->core, part->claim, &grant);
}

void claim_adopted(struct part *part, uint64_t token, int64_t sent_at)
{
        const struct engine_host *host = host_of(part);
        struct grant grant = {.token = token, .sent_at = sent_at};

        round_leave(part->round);
        part->state = HELD;
        part->token = token;
        if (!part->place->holder)
                part->place->holder = part;
        host->events->granted(host->core, part->claim, &grant);
}

/* ---- a failed attempt is undone ---------------------------------------------------------------------------------- */

/* Who waits and got no vote at all is queued at a majority, and has nothing to take back. */
static bool is_queued(struct part *part, const struct round *round)
{
        const struct redlock *redlock = part->redlock;

        if (!part->claim->wait || round->ok || how_many(round->busy) < redlock->quorum)
                return false;
        if (round->out && how_many(part->place->turns) < redlock->quorum)
                return false;
        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct vote *vote = &round->ballots[i].vote;

                if (round->busy & redlock->nodes[i].bit && vote->left < part->left)
                        part->left = vote->left; /* some are free sooner: it is being handed over */
        }
        return true;
}

/* Held, if a majority names the same holder; its lease is over when the last of that majority says so. */
static enum outcome outcome_of(struct part *part, const struct round *round)
{
        const struct redlock *redlock = part->redlock;

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct vote *vote = &round->ballots[i].vote;
                uint32_t same = 0;

                if (!(round->busy & redlock->nodes[i].bit))
                        continue;
                for (uint32_t j = 0; j < redlock->count; j++)
                        same += round->busy & redlock->nodes[j].bit && round->ballots[j].vote.holder == vote->holder;
                if (vote->left > part->left)
                        part->left = vote->left;
                if (vote->before > part->before)
                        part->before = vote->before;
                if (same >= redlock->quorum) {
                        part->foreign = vote->holder == 0;
                        return OUTCOME_HELD;
                }
        }
        if (how_many(round->busy | round->ok) < redlock->quorum || too_late(part))
                return OUTCOME_SILENT;
        return is_queued(part, round) ? OUTCOME_HELD : OUTCOME_SPLIT;
}

static void undone(struct part *part)
{
        struct redlock *redlock = part->redlock;
        struct place *place = part->place;
        enum outcome outcome = part->outcome;

        if (part->round)
                round_leave(part->round);
        place->trying = NULL;
        if (part->cancelled)
                claim_refuse(part, PAWL_CANCELLED, NULL);
        else if (outcome == OUTCOME_HELD && !part->claim->wait)
                claim_refuse(part, PAWL_BUSY, NULL);
        else if (outcome == OUTCOME_SILENT && !trust_quorum(redlock))
                pend(part);
        else if (outcome == OUTCOME_SILENT &&
                 (!part->claim->wait || redlock_now(redlock) - part->asked_at >= redlock->timeout))
                refuse_without_quorum(part);
        else {
                if (outcome != OUTCOME_SILENT)
                        part->asked_at = place->answered_at = redlock_now(redlock);
                place_wait(part, outcome);
                return;
        }
        place_next(place);
}

/* Those that voted for it must have heard; for the others it goes on in the background. */
static void undo_told(struct round *round)
{
        struct part *part = round->asker;

        if (!(round->out & part->on) || round->late)
                undone(part);
}

/* Everywhere but where somebody else has it: also where nothing was answered. */
static void undo(struct part *part, nodes_t nodes)
{
        struct redlock *redlock = part->redlock;
        struct round *round;

        part->state = UNDOING;
        if (!nodes) {
                undone(part);
                return;
        }
        round = begin_round(part, undo_told);
        if (!round) { /* the lease has to do it */
                undone(part);
                return;
        }
        round_send(round, VOTE_RELEASE, 0, nodes);
        if (!(round->out & part->on) || round_limit(round, redlock_now(redlock) + redlock->timeout) != PAWL_OK)
                undone(part);
}

static void fail(struct part *part, struct round *round)
{
        nodes_t nodes;

        if (part->state == ASKING && round) {
                part->outcome = (uint8_t)outcome_of(part, round);
                part->on = round->ok;
                nodes = round->sent & ~round->busy & ~round->doubtful;
        } else { /* there was a majority: a second try may be luckier */
                part->outcome = OUTCOME_SPLIT;
                nodes = part->on | part->exact;
        }
        if (part->round)
                round_leave(part->round);
        undo(part, nodes);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Of the claims of one client for one name one asks for all of them. */
int claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        const struct redlock *redlock = redlock_of(engine);
        const struct part *part = part_of(claim);
        const struct place *place = part->place;

        if (trust_quorum(redlock) && place && (place->holder || place->answered_at >= part->since))
                return PAWL_TIMEOUT;
        return trust_why(redlock, why);
}

void claim_cancel(struct engine *engine, struct claim *claim)
{
        struct part *part = part_of(claim);
        struct place *place = part->place;

        (void)engine;
        switch ((enum part_state)part->state) {
        case PENDING:
        case ADOPTING:
                claim_refuse(part, PAWL_CANCELLED, NULL);
                break;
        case WAITING:
                claim_refuse(part, PAWL_CANCELLED, NULL);
                if (list_empty(&place->waiting))
                        place_next(place); /* which leaves the nodes' queues */
                break;
        case ASKING:
        case ACCEPTING:
                part->cancelled = true;
                fail(part, part->round);
                break;
        case UNDOING:
                part->cancelled = true;
                break;
        case HELD:
        case RELEASING:
                break;
        }
}

static void finish_release(struct part *part, int code)
{
        const struct engine_host *host = host_of(part);
        struct place *place = part->place;

        claim_forget(part);
        if (place)
                place_next(place);
        host->events->released(host->core, part->claim, code);
}

static void release_told(struct round *round)
{
        struct part *part = round->asker;
        uint32_t quorum = part->redlock->quorum;

        if (how_many(round->ok) >= quorum && !round->late && round_behind(round))
                (void)!round_limit(round, redlock_now(part->redlock) + BEHIND_PATIENCE);
        else if (how_many(round->ok) >= quorum)
                finish_release(part, PAWL_OK);
        else if (how_many(round->ok | round->out | round->failed) < quorum)
                finish_release(part, PAWL_LOST);
        else if (!round->out || round->late)
                finish_release(part, PAWL_IN_DOUBT);
}

void claim_release(struct engine *engine, struct claim *claim)
{
        struct redlock *redlock = redlock_of(engine);
        struct part *part = part_of(claim);
        struct round *round;

        part->state = RELEASING;
        renewal_forget(part);
        if (claim->lost && claim->delay) { /* the keys stay for the lock-delay: it is part of what they live */
                finish_release(part, PAWL_LOST);
                return;
        }
        round = begin_round(part, release_told);
        if (!round) {
                finish_release(part, PAWL_IN_DOUBT);
                return;
        }
        round_send(round, VOTE_RELEASE, part->token, part->reached);
        if (!round->out || round_limit(round, redlock_now(redlock) + redlock->timeout) != PAWL_OK) {
                round->late = true;
                release_told(round);
        }
}
