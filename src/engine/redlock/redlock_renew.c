/* redlock_renew.c - renewal in batches: one command for hundreds of locks to each node, counted for each lock. A
 * node that has lost a lock gets it again while a majority still has it: otherwise one restart after another would
 * eat the majority. */
#include <stdlib.h>
#include <string.h>

#include "redlock.h"

/* One lock of a batch, with its own copy of the claim. */
struct item {
        struct claim claim;
        struct renewal *renewal;
        struct part *asker; /* NULL: released meanwhile, or renewed once more */
        nodes_t ok, other, missing, out;
        bool decided;
        struct slip *slips; /* one for each node */
};

struct slip {
        struct vote vote; /* first */
        struct item *item;
        nodes_t bit;
};

struct renewal {
        struct list listed; /* redlock->renewals */
        struct redlock *redlock;
        int64_t sent_at;
        size_t count;
        size_t open; /* items with answers missing */
        bool sending;
        struct vote **votes;
        struct slip *slips;
        char *names;
        struct item items[];
};

void renewal_forget(struct part *part)
{
        if (part->item)
                part->item->asker = NULL;
        part->item = NULL;
}

static void renewal_free(struct renewal *renewal)
{
        for (size_t i = 0; i < renewal->count; i++)
                if (renewal->items[i].asker)
                        renewal_forget(renewal->items[i].asker);
        list_remove(&renewal->listed);
        free(renewal->votes);
        free(renewal->slips);
        free(renewal->names);
        free(renewal);
}

void renewals_free(struct redlock *redlock)
{
        while (!list_empty(&redlock->renewals))
                renewal_free(list_first(&redlock->renewals, struct renewal, listed));
}

static struct renewal *renewal_new(struct redlock *redlock, struct claim *const *claims, size_t n)
{
        struct renewal *renewal = calloc(1, sizeof(*renewal) + n * sizeof(renewal->items[0]));
        size_t length = 0;

        if (!renewal)
                return NULL;
        for (size_t i = 0; i < n; i++)
                length += claims[i]->name_length + 1;
        renewal->redlock = redlock;
        renewal->count = n;
        list_append(&redlock->renewals, &renewal->listed);
        renewal->votes = malloc(n * sizeof(renewal->votes[0]));
        renewal->slips = calloc(n * redlock->count, sizeof(renewal->slips[0]));
        renewal->names = malloc(length);
        if (renewal->votes && renewal->slips && renewal->names)
                return renewal;
        renewal->count = 0;
        renewal_free(renewal);
        return NULL;
}

static void fill(struct renewal *renewal, struct claim *const *claims)
{
        char *name = renewal->names;

        for (size_t i = 0; i < renewal->count; i++) {
                struct item *item = &renewal->items[i];
                struct part *part = part_of(claims[i]);

                renewal_forget(part);
                part->item = item;
                item->asker = part;
                item->renewal = renewal;
                item->slips = &renewal->slips[i * renewal->redlock->count];
                item->claim = *claims[i];
                memcpy(name, claims[i]->name, claims[i]->name_length);
                name[claims[i]->name_length] = '\0';
                item->claim.name = name;
                item->claim.note = "";
                memcpy(item->claim.uid, part->uid, sizeof(part->uid));
                name += claims[i]->name_length + 1;
        }
}

/* ---- what a majority says ---------------------------------------------------------------------------------------- */

static void not_awaited(struct round *round)
{
        (void)round;
}

/* Votes that nobody waits for: with the number of the hold as the hint, or giving back what a minority still has. */
static void in_the_background(struct part *part, enum vote_kind kind, nodes_t nodes)
{
        struct round *round = nodes ? round_new(part->redlock, part, not_awaited) : NULL;

        if (!round)
                return; /* nothing to do; or no memory, and the next renewal does it */
        round_send(round, kind, part->token, nodes);
        round_leave(round);
}

static void note_nodes(struct part *part, nodes_t on)
{
        const struct redlock *redlock = part->redlock;

        if (how_many(on) < redlock->count && how_many(on) != how_many(part->on))
                redlock_log(redlock, PAWL_LOG_WARNING, "%s is held on %u of %u nodes", part->claim->name, how_many(on),
                            redlock->count);
        part->on = on;
}

static void told(struct part *part, int code, int64_t sent_at)
{
        const struct engine_host *host = part->redlock->engine.host;

        host->events->renewed(host->core, part->claim, code, sent_at);
}

static void decide(struct item *item)
{
        const struct redlock *redlock = item->renewal->redlock;
        struct part *part = item->asker;
        uint32_t quorum = redlock->quorum;

        if (how_many(item->other | item->missing) >= quorum) {
                item->decided = true;
                in_the_background(part, VOTE_RELEASE, redlock->all & ~item->other & ~item->missing);
                claim_gone(part, PAWL_REASON_TAKEN);
        } else if (how_many(item->ok) >= quorum) {
                item->decided = true;
                told(part, PAWL_OK, item->renewal->sent_at);
        } else if (how_many(item->ok | item->out) < quorum) {
                item->decided = true;
                told(part, PAWL_UNREACHABLE, 0);
        }
}

/* Everybody has answered. */
static void complete(struct item *item)
{
        struct part *part = item->asker;

        renewal_forget(part);
        if (how_many(item->ok) < part->redlock->quorum)
                return;
        note_nodes(part, item->ok);
        part->reached |= item->missing;
        in_the_background(part, VOTE_GRANT, item->missing);
}

static void look(struct item *item)
{
        if (item->asker && !item->decided)
                decide(item);
        if (!item->out && item->asker)
                complete(item);
}

static void count_answer(struct slip *slip)
{
        struct item *item = slip->item;

        switch (slip->vote.code) {
        case PAWL_OK:
                item->ok |= slip->bit;
                break;
        case PAWL_LOST:
                item->other |= slip->bit;
                break;
        case PAWL_NOT_FOUND:
                item->missing |= slip->bit;
                break;
        default:
                break;
        }
        item->out &= ~slip->bit;
}

static void answered(struct vote *vote)
{
        struct slip *slip = container_of(vote, struct slip, vote);
        struct item *item = slip->item;
        struct renewal *renewal = item->renewal;

        count_answer(slip);
        if (renewal->sending)
                return;
        look(item);
        if (!item->out && --renewal->open == 0)
                renewal_free(renewal);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void send_to(struct renewal *renewal, struct node *node)
{
        uint32_t index = (uint32_t)(node - renewal->redlock->nodes);

        for (size_t i = 0; i < renewal->count; i++) {
                struct item *item = &renewal->items[i];
                struct slip *slip = &item->slips[index];

                slip->item = item;
                slip->bit = node->bit;
                slip->vote.kind = VOTE_RENEW;
                slip->vote.claim = &item->claim;
                slip->vote.number = item->asker->token;
                slip->vote.answered = answered;
                item->out |= node->bit;
                renewal->votes[i] = &slip->vote;
        }
        node->engine->ops->member->renew(node->engine, renewal->votes, renewal->count);
}

void claim_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        struct redlock *redlock = redlock_of(engine);
        struct renewal *renewal = renewal_new(redlock, claims, n);

        if (!renewal) {
                for (size_t i = 0; i < n; i++)
                        told(part_of(claims[i]), PAWL_NO_MEMORY, 0);
                return;
        }
        fill(renewal, claims);
        renewal->sending = true;
        renewal->sent_at = redlock_now(redlock);
        for (uint32_t i = 0; i < redlock->count; i++)
                if (redlock->nodes[i].votes)
                        send_to(renewal, &redlock->nodes[i]);
        renewal->open = 1; /* not freed while we look */
        renewal->sending = false;
        for (size_t i = 0; i < n; i++) {
                renewal->open += renewal->items[i].out != 0;
                look(&renewal->items[i]);
        }
        if (--renewal->open == 0)
                renewal_free(renewal);
}
