/* redlock_round.c - one question to all nodes, counted as the answers come. Who asked may go away; the round lives
 * on until everybody has answered, and a release until everybody has confirmed it or its lease is over. */
#include <stdlib.h>
#include <string.h>

#include "redlock.h"

#define ASK_AGAIN (1 * SECOND)
enum { SPARES_KEPT = 8 };

static void time_is_up(struct timer *timer);

static struct round *allocate(struct redlock *redlock)
{
        struct round *round;

        if (!list_empty(&redlock->spare_rounds)) {
                round = list_first(&redlock->spare_rounds, struct round, listed);
                list_remove(&round->listed);
                redlock->spare_count--;
                return round;
        }
        round = calloc(1, sizeof(*round) + redlock->count * sizeof(round->ballots[0]));
        if (!round)
                return NULL;
        round->redlock = redlock;
        round->timer.fire = time_is_up;
        for (uint32_t i = 0; i < redlock->count; i++) {
                round->ballots[i].round = round;
                round->ballots[i].node = &redlock->nodes[i];
        }
        return round;
}

/* What the votes need to know of the claim. */
static void copy_claim(struct round *round, const struct part *part)
{
        const struct claim *claim = part->claim;

        round->claim = (struct claim){
                .name = round->name,
                .name_length = claim->name_length,
                .uid = {part->uid[0], part->uid[1]},
                .ttl = claim->ttl,
                .delay = claim->delay,
                .age = claim->age,
                .detached = claim->detached,
                .note = round->note,
        };
        memcpy(round->name, claim->name, claim->name_length);
        round->name[claim->name_length] = '\0';
        strncpy(round->note, claim->note ? claim->note : "", PAWL_NOTE_MAX);
}

struct round *round_new(struct redlock *redlock, const struct part *part, void (*told)(struct round *))
{
        struct round *round = allocate(redlock);

        if (!round)
                return NULL;
        copy_claim(round, part);
        round->asker = NULL;
        round->told = told;
        round->sent = round->out = round->again = round->soon = 0;
        round->ok = round->busy = round->other = round->missing = round->doubtful = round->failed = 0;
        round->late = round->telling = round->queued = false;
        round->ticket = 0;
        list_append(&redlock->rounds, &round->listed);
        return round;
}

static void settle(struct round *round)
{
        struct redlock *redlock = round->redlock;

        if (round->asker || round->out || round->again || round->telling)
                return;
        loop_unset(redlock->engine.host->loop, &round->timer);
        list_remove(&round->listed);
        if (redlock->spare_count == SPARES_KEPT) {
                free(round);
                return;
        }
        list_append(&redlock->spare_rounds, &round->listed);
        redlock->spare_count++;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static bool is_silent(const struct node *node, int64_t now)
{
        return node->behind > BEHIND_MOST && now - node->heard_at >= BEHIND_PATIENCE;
}

static nodes_t without_silent(const struct redlock *redlock, nodes_t nodes)
{
        int64_t now = redlock_now(redlock);
        nodes_t others = 0;

        for (uint32_t i = 0; i < redlock->count; i++)
                if (redlock->nodes[i].votes && !is_silent(&redlock->nodes[i], now))
                        others |= redlock->nodes[i].bit;
        return how_many(nodes & others) >= redlock->quorum ? nodes & others : nodes;
}

/* A release is needed also where a vote would not count. */
static bool can_ask(const struct node *node, enum vote_kind kind)
{
        return node->member.reachable && (kind == VOTE_RELEASE || node->votes);
}

static void answered(struct vote *vote);

static bool ask(struct round *round, struct node *node)
{
        struct ballot *ballot = &round->ballots[node - round->redlock->nodes];
        struct vote *vote = &ballot->vote;

        if (!can_ask(node, round->kind))
                return false;
        vote->kind = round->kind;
        vote->claim = &round->claim;
        vote->number = round->number;
        vote->ticket = round->ticket;
        vote->queued =
                round->kind == VOTE_RELEASE ? !round->sent : round->queued; /* one node is enough to tell the second */
        vote->answered = answered;
        if (node->engine->ops->member->vote(node->engine, vote) != PAWL_OK)
                return false;
        round->sent |= node->bit;
        round->out |= node->bit;
        if (node->behind++ == 0)
                node->heard_at = redlock_now(round->redlock);
        return true;
}

static void not_confirmed(struct round *round, nodes_t bit)
{
        round->failed |= bit;
        if (round->kind != VOTE_RELEASE || redlock_now(round->redlock) >= round->until)
                return;
        round->again |= bit;
        redlock_tend(round->redlock, round->until);
}

void round_send(struct round *round, enum vote_kind kind, uint64_t number, nodes_t nodes)
{
        struct redlock *redlock = round->redlock;

        round->kind = kind;
        round->number = number;
        round->started_at = redlock_now(redlock);
        round->until = round->started_at + round->claim.ttl + round->claim.delay;
        if (kind == VOTE_GRANT)
                nodes = without_silent(redlock, nodes);
        for (uint32_t i = 0; i < redlock->count; i++) {
                struct node *node = &redlock->nodes[i];

                if (nodes & node->bit && !ask(round, node))
                        not_confirmed(round, node->bit);
        }
}

int round_limit(struct round *round, int64_t at)
{
        return loop_set(round->redlock->engine.host->loop, &round->timer, at) == 0 ? PAWL_OK : PAWL_NO_MEMORY;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void tell(struct round *round)
{
        if (!round->asker)
                return;
        round->telling = true;
        round->told(round);
        round->telling = false;
}

static void time_is_up(struct timer *timer)
{
        struct round *round = container_of(timer, struct round, timer);

        round->late = true;
        tell(round);
        settle(round);
}

static nodes_t *answers_of(struct round *round, int code)
{
        switch (code) {
        case PAWL_OK:
                return &round->ok;
        case PAWL_BUSY:
                return &round->busy;
        case PAWL_LOST:
                return &round->other;
        case PAWL_NOT_FOUND:
                return &round->missing;
        case PAWL_IN_DOUBT:
                return &round->doubtful;
        default:
                return NULL;
        }
}

static void answered(struct vote *vote)
{
        struct ballot *ballot = container_of(vote, struct ballot, vote);
        struct round *round = ballot->round;
        nodes_t bit = ballot->node->bit;
        nodes_t *answers = answers_of(round, vote->code);

        ballot->node->behind--;
        ballot->node->heard_at = redlock_now(round->redlock);
        round->out &= ~bit;
        if (answers)
                *answers |= bit;
        else
                not_confirmed(round, bit);
        if ((vote->code == PAWL_UNREACHABLE || vote->code == PAWL_FULL) && round->again & bit &&
            ballot->node->member.reachable) {
                round->soon |= bit; /* it is there, and busy with something else, or full */
                redlock_tend(round->redlock, redlock_now(round->redlock) + ASK_AGAIN);
        }
        tell(round);
        settle(round);
}

bool round_behind(const struct round *round)
{
        const struct redlock *redlock = round->redlock;

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct node *node = &redlock->nodes[i];

                if (round->out & node->bit && node->behind > BEHIND_MOST && !is_silent(node, redlock_now(redlock)))
                        return true;
        }
        return false;
}

void round_leave(struct round *round)
{
        loop_unset(round->redlock->engine.host->loop, &round->timer);
        if (round->asker)
                round->asker->round = NULL;
        round->asker = NULL;
        settle(round);
}

/* ---- in the background ------------------------------------------------------------------------------------------- */

void rounds_again(struct redlock *redlock, struct node *node)
{
        for (struct list *at = redlock->rounds.next; at != &redlock->rounds; at = at->next) {
                struct round *round = container_of(at, struct round, listed);

                if (round->again & node->bit && ask(round, node)) {
                        round->again &= ~node->bit;
                        round->soon &= ~node->bit;
                }
        }
}

void rounds_soon(struct redlock *redlock)
{
        nodes_t soon = 0;

        for (struct list *at = redlock->rounds.next; at != &redlock->rounds; at = at->next)
                soon |= container_of(at, struct round, listed)->soon;
        for (uint32_t i = 0; i < redlock->count; i++)
                if (soon & redlock->nodes[i].bit)
                        rounds_again(redlock, &redlock->nodes[i]);
}

bool rounds_sweep(struct redlock *redlock, int64_t now)
{
        bool left = false;

        for (struct list *at = redlock->rounds.next, *next; at != &redlock->rounds; at = next) {
                struct round *round = container_of(at, struct round, listed);

                next = at->next;
                if (now >= round->until)
                        round->again = 0;
                left = left || round->again;
                settle(round);
        }
        return left;
}

void rounds_free(struct redlock *redlock)
{
        list_splice(&redlock->spare_rounds, &redlock->rounds);
        while (!list_empty(&redlock->spare_rounds)) {
                struct round *round = list_first(&redlock->spare_rounds, struct round, listed);

                loop_unset(redlock->engine.host->loop, &round->timer);
                list_remove(&round->listed);
                free(round);
        }
}
