/* redlock_trust.c - which nodes may vote. A node that was restarted or emptied may have forgotten numbers it gave,
 * so it does not count until somebody has marked it anew: with a floor that is read from a majority of the others,
 * after all attempts and leases it may have had a part in are over. New nodes are marked by the first client that
 * reaches all of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "redlock.h"

#define GRACE (100 * MS)             /* for nodes whose connection is still being made, when the others are there */
#define MEND_PAUSE (250 * MS)        /* between two looks at the same state */
#define LOOK_PAUSE (1 * SECOND)      /* later on */
#define QUARANTINE_MORE (1 * SECOND) /* clocks run at different rates, and round to ms */

static struct node *node_of(struct member *member)
{
        return container_of(member, struct node, member);
}

static nodes_t which(const struct redlock *redlock, bool (*is)(const struct node *))
{
        nodes_t nodes = 0;

        for (uint32_t i = 0; i < redlock->count; i++)
                if (is(&redlock->nodes[i]))
                        nodes |= redlock->nodes[i].bit;
        return nodes;
}

static uint32_t count_of(const struct redlock *redlock, bool (*is)(const struct node *))
{
        return how_many(which(redlock, is));
}

/* ---- looking at one of them -------------------------------------------------------------------------------------- */

static bool is_decided(const struct node *node)
{
        return node->member.decided;
}

static bool is_reachable(const struct node *node)
{
        return node->member.decided && node->member.reachable;
}

/* The same server under another name would have two votes. */
const struct node *trust_twin(const struct node *node)
{
        for (const struct node *other = node->redlock->nodes; other < node; other++)
                if (is_reachable(other) && is_reachable(node) && other->member.run == node->member.run)
                        return other;
        return NULL;
}

static bool is_voter(const struct node *node)
{
        return node->votes;
}

/* Waiting does not help: somebody has to do something. */
static bool is_hopeless(const struct node *node)
{
        const struct member *member = &node->member;

        if (!member->decided || node->votes)
                return false;
        if (member->reachable) /* somebody may have marked it since we looked */
                return node->doubts > 1;
        return member->why.sys_errno == ECONNREFUSED || member->why.code != PAWL_UNREACHABLE;
}

/* When the last of those that are not trusted was looked at. */
static int64_t doubted_at(const struct redlock *redlock)
{
        int64_t at = 0;

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct member *member = &redlock->nodes[i].member;

                if (member->reachable && !member->trusted && member->asked_at > at)
                        at = member->asked_at;
        }
        return at;
}

/* Marked, and nothing was ever locked there: somebody was interrupted while marking. Only if that was seen after the others
 * were found without a marker: it may have given locks since we last looked. */
static bool is_unused(const struct node *node)
{
        const struct member *member = &node->member;

        return member->trusted && member->longest == 0 && member->asked_at >= doubted_at(node->redlock);
}

static bool is_new(const struct node *node)
{
        const struct member *member = &node->member;

        return is_reachable(node) && !trust_twin(node) && (member->trusted ? is_unused(node) : !member->marked);
}

/* ---- looking at all of them -------------------------------------------------------------------------------------- */

bool trust_decided(const struct redlock *redlock)
{
        return count_of(redlock, is_decided) == redlock->count;
}

nodes_t trust_reachable(const struct redlock *redlock)
{
        return which(redlock, is_reachable);
}

nodes_t trust_voters(const struct redlock *redlock)
{
        return which(redlock, is_voter);
}

/* All of them are there, and nothing was ever locked: they are being marked, or should be. */
static bool all_new(const struct redlock *redlock)
{
        return count_of(redlock, is_new) == redlock->count;
}

/* With a majority there, others that are on their way are waited for a moment: a lock on more nodes stands more failures. */
bool trust_quorum(const struct redlock *redlock)
{
        uint32_t voters = count_of(redlock, is_voter);

        if (voters < redlock->quorum)
                return false;
        if (voters == redlock->count || (trust_decided(redlock) && !all_new(redlock)))
                return true;
        return redlock_now(redlock) >= redlock->grace_until;
}

/* Nothing but new ones so far. */
static bool seem_new(const struct redlock *redlock)
{
        uint32_t reachable = count_of(redlock, is_reachable);

        return reachable > 0 && count_of(redlock, is_new) == reachable;
}

bool trust_hopeless(const struct redlock *redlock)
{
        bool undecided = count_of(redlock, is_decided) < redlock->count;

        if (seem_new(redlock) && !redlock->init_manual && (undecided || all_new(redlock)))
                return false;
        return count_of(redlock, is_hopeless) > redlock->count - redlock->quorum;
}

static const char *complaint_of(const struct node *node, char *text, size_t size)
{
        const struct member *member = &node->member;
        const struct node *twin = trust_twin(node);

        if (twin)
                snprintf(text, size, "%s is the same server as %s", node->name, twin->name);
        else if (!member->decided)
                snprintf(text, size, "%s has not answered yet", node->name);
        else
                snprintf(text, size, "%.120s", member->why.text[0] ? member->why.text : node->name);
        return text;
}

static int no_quorum(const struct redlock *redlock, const char *besides, struct pawl_why *why)
{
        char text[380] = "";
        size_t at = 0;

        for (uint32_t i = 0; i < redlock->count && at < sizeof(text); i++) {
                const struct node *node = &redlock->nodes[i];
                char complaint[400];

                if (!node->votes)
                        at += (size_t)snprintf(text + at, sizeof(text) - at, "; %s",
                                               complaint_of(node, complaint, sizeof(complaint)));
        }
        return why_set(why, PAWL_NO_QUORUM, "%u of %u nodes can vote, %u are needed%s%s", count_of(redlock, is_voter),
                       redlock->count, redlock->quorum, besides, text);
}

int trust_why(const struct redlock *redlock, struct pawl_why *why)
{
        uint32_t voters = count_of(redlock, is_voter);

        if (all_new(redlock) && redlock->init_manual)
                return why_set(why, PAWL_NO_QUORUM,
                               "the %u nodes are new, and init=manual: run 'pawl -e URL init' once", redlock->count);
        if (voters < redlock->quorum && seem_new(redlock))
                return no_quorum(redlock, "; they are new, and the first time all of them must be there", why);
        if (voters < redlock->quorum && count_of(redlock, is_reachable) >= redlock->quorum)
                return why_set(
                        why, PAWL_CORRUPT,
                        "%u of %u nodes answer, but only %u still know which tokens they gave, and %u are needed: "
                        "the others were emptied or restarted without their data. When no holder from before is "
                        "at work, run 'pawl -e URL init --yes'",
                        count_of(redlock, is_reachable), redlock->count, voters, redlock->quorum);
        if (voters >= redlock->quorum)
                return why_set(why, PAWL_NO_QUORUM, "fewer than %u of %u nodes answered in time", redlock->quorum,
                               redlock->count);
        return no_quorum(redlock, "", why);
}

static void log_votes(struct redlock *redlock)
{
        uint32_t voters = count_of(redlock, is_voter);
        struct pawl_why why;

        if (count_of(redlock, is_decided) < redlock->count || voters == redlock->told || all_new(redlock))
                return;
        redlock->told = voters;
        no_quorum(redlock, "", &why);
        redlock_log(redlock, voters < redlock->count ? PAWL_LOG_WARNING : PAWL_LOG_INFO, "%s", why.text);
}

/* ---- new nodes --------------------------------------------------------------------------------------------------- */

static uint64_t greatest_number(const struct redlock *redlock)
{
        uint64_t greatest = 0;

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct member *member = &redlock->nodes[i].member;

                if (!member->decided || !member->reachable)
                        continue;
                if (member->floor > greatest)
                        greatest = member->floor;
                if (member->clock + 2 * HINT_AHEAD > greatest)
                        greatest = member->clock + 2 * HINT_AHEAD;
        }
        return greatest;
}

static int64_t longest_lease(const struct redlock *redlock)
{
        int64_t longest = 0;

        for (uint32_t i = 0; i < redlock->count; i++)
                if (redlock->nodes[i].votes && redlock->nodes[i].member.longest > longest)
                        longest = redlock->nodes[i].member.longest;
        return longest;
}

static void mark(struct node *node, uint64_t floor, int64_t longest, bool again)
{
        node->engine->ops->member->mark(node->engine, floor, longest, again);
}

void trust_init(struct redlock *redlock, bool again)
{
        uint64_t floor = greatest_number(redlock);

        for (uint32_t i = 0; i < redlock->count; i++)
                if (is_reachable(&redlock->nodes[i]))
                        mark(&redlock->nodes[i], floor, longest_lease(redlock), again);
}

/* ---- nodes that forgot ------------------------------------------------------------------------------------------- */

static void look_at_voters(struct redlock *redlock)
{
        for (uint32_t i = 0; i < redlock->count; i++)
                if (redlock->nodes[i].votes)
                        redlock->nodes[i].engine->ops->member->look(redlock->nodes[i].engine);
}

/* Every attempt in which it may have voted, and every lease that may rest on that vote, began before it was first
 * seen to have forgotten, and is over when the longest of them would be. */
static int64_t quarantine(const struct redlock *redlock)
{
        int64_t longest = longest_lease(redlock);

        if (longest < ATTEMPT_MOST)
                longest = ATTEMPT_MOST;
        return longest + longest / 50 + QUARANTINE_MORE;
}

/* The floor of a majority of the others, read after the quarantine: whatever was granted with the node's old votes
 * is in it. */
static bool mended(struct node *node)
{
        struct redlock *redlock = node->redlock;
        uint64_t floor = 0;
        uint32_t read = 0;

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct node *other = &redlock->nodes[i];

                if (!other->votes || other->member.asked_at < node->over_at)
                        continue;
                read++;
                if (other->member.floor > floor)
                        floor = other->member.floor;
        }
        if (read < redlock->quorum)
                return false;
        redlock_log(redlock, PAWL_LOG_INFO, "%s had forgotten its data and may vote again", node->name);
        mark(node, floor, longest_lease(redlock), false);
        node->over_at = 0;
        return true;
}

/* Somebody else may have marked it since we looked, or has to, where too few are left to mend it from. */
static int64_t look_again(struct node *node, int64_t now)
{
        int64_t at = node->member.asked_at + (node->doubts > 1 ? LOOK_PAUSE : MEND_PAUSE);

        if (now < at)
                return at;
        node->engine->ops->member->look(node->engine);
        return now + MEND_PAUSE;
}

/* When there is something to do for it. */
static int64_t mend(struct node *node, int64_t now)
{
        struct redlock *redlock = node->redlock;
        const struct member *member = &node->member;

        if (node->over_of != member->incarnation || member->untrusted < quarantine(redlock)) {
                node->over_of = member->incarnation;
                node->over_at = 0;
                return look_again(node, now);
        }
        if (!node->over_at)
                node->over_at = now;
        else if (mended(node))
                return now + MEND_PAUSE;
        if (now < node->looked_at + MEND_PAUSE)
                return node->looked_at + MEND_PAUSE;
        node->looked_at = now;
        look_at_voters(redlock);
        return now + MEND_PAUSE;
}

static void mend_all(struct redlock *redlock, int64_t now)
{
        bool quorum = count_of(redlock, is_voter) >= redlock->quorum;

        redlock->mend_at = NEVER;
        for (uint32_t i = 0; i < redlock->count; i++) {
                struct node *node = &redlock->nodes[i];
                int64_t at;

                if (!is_reachable(node) ||
                    (node->member.trusted && (quorum || node->member.longest || is_unused(node))))
                        continue;
                at = quorum ? mend(node, now) : look_again(node, now);
                if (at < redlock->mend_at)
                        redlock->mend_at = at;
        }
        if (redlock->mend_at != NEVER)
                redlock_tend(redlock, redlock->mend_at);
}

/* ---- when something changes -------------------------------------------------------------------------------------- */

static void count_votes(struct redlock *redlock)
{
        for (uint32_t i = 0; i < redlock->count; i++) {
                struct node *node = &redlock->nodes[i];

                node->votes = is_reachable(node) && node->member.trusted && !trust_twin(node);
        }
        if (count_of(redlock, is_voter) < redlock->quorum) {
                redlock->grace_until = 0;
        } else if (!redlock->grace_until) {
                redlock->grace_until = redlock_now(redlock) + GRACE;
                redlock_tend(redlock, redlock->grace_until);
        }
}

void trust_changed(struct member *member)
{
        struct node *node = node_of(member);
        struct redlock *redlock = node->redlock;

        count_votes(redlock);
        node->doubts = member->reachable && !member->trusted ? node->doubts + 1 : 0;
        log_votes(redlock);
        if (member->reachable)
                rounds_again(redlock, node);
        if (all_new(redlock) && !redlock->init_manual && count_of(redlock, is_voter) < redlock->quorum)
                trust_init(redlock, false);
        mend_all(redlock, redlock_now(redlock));
        claims_wake(redlock);
        inspect_wake(redlock);
}

void trust_due(struct redlock *redlock)
{
        int64_t now = redlock_now(redlock);

        if (now >= redlock->announce_at)
                places_announce(redlock);
        if (rounds_sweep(redlock, now))
                redlock_tend(redlock, now + SECOND);
        if (now >= redlock->mend_at)
                mend_all(redlock, now);
        else if (redlock->mend_at != NEVER)
                redlock_tend(redlock, redlock->mend_at);
        if (redlock->announce_at != NEVER)
                redlock_tend(redlock, redlock->announce_at);
        claims_wake(redlock);
        inspect_wake(redlock);
}
