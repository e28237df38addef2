/* redlock_trust.c - which nodes may vote. A node that was restarted or emptied may have forgotten numbers it gave,
 * so it does not count until somebody has marked it anew: with a floor that is read from a majority of the others,
 * after all attempts and leases it may have had a part in are over. New nodes are marked by the first client that
 * reaches all of them. A node votes only if it has a seat in the roster, and for requests made with that roster. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "redlock.h"

#define GRACE (100 * MS)             /* for nodes whose connection is still being made, when the others are there */
#define MEND_PAUSE (250 * MS)        /* between two looks at the same state */
#define LOOK_PAUSE (1 * SECOND)      /* later on */
#define QUARANTINE_MORE (1 * SECOND) /* clocks run at different rates, and round to ms */
#define NOBODY "0000000000000000"    /* the id of a seat whose server was away when the set was made */
enum { DOUBTS_MOST = 3 };            /* how often a node may be seen without a vote before it is no use to wait */

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

/* ---- the roster -------------------------------------------------------------------------------------------------- */

/* The node's own copy, and the id it has there. */
static bool read_roster(const struct node *node, struct roster *roster, char own[ID_LENGTH + 1])
{
        return node->member.roster && roster_read(roster, own, node->member.roster);
}

static bool is_of_set(const struct node *node, const char *set)
{
        struct roster roster;
        char own[ID_LENGTH + 1];

        return read_roster(node, &roster, own) && strcmp(roster.set, set) == 0;
}

/* How many nodes that can be trusted (or others that have one, too) have this set. */
static uint32_t count_of_set(const struct redlock *redlock, const char *set, bool trusted)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct node *node = &redlock->nodes[i];

                count += is_reachable(node) && (node->member.trusted || !trusted) && is_of_set(node, set);
        }
        return count;
}

/* The roster of the set that most nodes have; that of the first of them, not yet the greatest. */
static uint32_t pick_roster(const struct redlock *redlock, bool trusted, struct roster *picked)
{
        uint32_t most = 0;

        picked->count = 0;
        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct node *node = &redlock->nodes[i];
                struct roster roster;
                char own[ID_LENGTH + 1];
                uint32_t count;

                if (!is_reachable(node) || (trusted && !node->member.trusted) || !read_roster(node, &roster, own))
                        continue;
                count = count_of_set(redlock, roster.set, trusted);
                if (count > most) {
                        most = count;
                        *picked = roster;
                }
        }
        return most;
}

static void join_all(const struct redlock *redlock, struct roster *roster)
{
        for (uint32_t i = 0; i < redlock->count; i++) {
                struct roster other;
                char own[ID_LENGTH + 1];

                if (is_reachable(&redlock->nodes[i]) && read_roster(&redlock->nodes[i], &other, own))
                        roster_join(roster, &other);
        }
}

/* What we go by: the greatest of what the nodes have, and never less than before. */
static void learn_roster(struct redlock *redlock)
{
        struct roster picked;
        uint32_t count = pick_roster(redlock, true, &picked);

        if (!redlock->founding && count &&
            (!redlock->roster.count || count > count_of_set(redlock, redlock->roster.set, true)))
                redlock->roster = picked;
        join_all(redlock, &redlock->roster);
        redlock->tag = redlock->roster.count ? roster_tag(&redlock->roster) : 0;
}

/* Has it the roster that we go by, with itself in it? Only what it said counts here, not what is on its way to it. */
static bool has_roster(const struct node *node)
{
        struct roster roster;
        char own[ID_LENGTH + 1];

        return read_roster(node, &roster, own) && strcmp(own, node->member.id) == 0 && roster_seat(&roster, own) >= 0 &&
               roster_tag(&roster) == node->redlock->tag;
}

/* Was it given a seat before, if by another roster than the greatest? Then its quarantine has begun. */
static bool was_seated(const struct node *node)
{
        struct roster roster;
        char own[ID_LENGTH + 1];

        return read_roster(node, &roster, own) && strcmp(own, node->member.id) == 0 &&
               strcmp(roster.set, node->redlock->roster.set) == 0 && roster_seat(&roster, own) >= 0;
}

static void enrol(struct node *node, const char *id)
{
        char text[ROSTER_TEXT_MAX];

        if (node->member.enrolling)
                return;
        roster_write(&node->redlock->roster, id, text);
        node->engine->ops->member->enrol(node->engine, text, node->redlock->tag);
}

/* Is there a node before it in the list with the same seat: a copy of the same server? */
static bool is_copy(const struct node *node)
{
        for (const struct node *other = node->redlock->nodes; other < node; other++)
                if (other->seat == node->seat && is_reachable(other))
                        return true;
        return false;
}

/* Finds its seat, and brings a node that has a seat up to what we know. */
static void seat_node(struct node *node)
{
        const struct redlock *redlock = node->redlock;

        node->seat = -1;
        if (!is_reachable(node) || redlock->roster.count != redlock->count)
                return;
        node->seat = roster_seat(&redlock->roster, node->member.id);
        if (node->seat >= 0 && is_copy(node))
                node->seat = -1;
        if (node->seat >= 0 && was_seated(node) && !has_roster(node))
                enrol(node, node->member.id);
}

static bool seat_is_taken(const struct redlock *redlock, int seat)
{
        for (uint32_t i = 0; i < redlock->count; i++)
                if (redlock->nodes[i].seat == seat)
                        return true;
        return false;
}

/* Is it known to be of another set? An operator may be making that one just now, one server after the other: taken back
 * from there, it would be missing in both. */
static bool is_of_another_set(const struct node *node)
{
        struct roster roster;
        char own[ID_LENGTH + 1];

        return read_roster(node, &roster, own) && strcmp(roster.set, node->redlock->roster.set) != 0;
}

/* Is this the seat of a node that forgot its data? Its own old roster says so, or we saw it vote there, or the client
 * that seated it called it by the same name. Anything else is a server that nobody has asked to join. */
static bool is_home(const struct node *node, int seat)
{
        const struct seat *at = &node->redlock->roster.seats[seat];
        struct roster roster;
        char own[ID_LENGTH + 1];

        if (is_of_another_set(node)) /* unless it was away when ours was made, and the seat was kept for it */
                return strcmp(at->id, NOBODY) == 0 && roster_is_at(at, node->name);
        if (read_roster(node, &roster, own) && strcmp(own, at->id) == 0)
                return true;
        return (node->home == seat && strcmp(node->home_id, at->id) == 0) || roster_is_at(at, node->name);
}

/* Is it the seat of a server of our list that is only away? */
static bool is_awaited(const struct redlock *redlock, int seat)
{
        const struct seat *at = &redlock->roster.seats[seat];

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct node *node = &redlock->nodes[i];

                if (!is_reachable(node) &&
                    (roster_is_at(at, node->name) || (node->home == seat && strcmp(node->home_id, at->id) == 0)))
                        return true;
        }
        return false;
}

/* The seat it may take; -1: none. */
static int find_seat(const struct node *node)
{
        const struct redlock *redlock = node->redlock;
        int any = -1;

        for (int seat = (int)redlock->roster.count - 1; seat >= 0; seat--) {
                if (seat_is_taken(redlock, seat))
                        continue;
                if (!node->member.trusted && is_home(node, seat))
                        return seat;
                if (!is_awaited(redlock, seat))
                        any = seat;
        }
        return node->replaces ? any : -1;
}

bool trust_stranger(const struct node *node, char *text, size_t size)
{
        const struct roster *roster = &node->redlock->roster;
        struct roster own_roster;
        char own[ID_LENGTH + 1], list[400];

        if (!is_reachable(node) || !roster->count || node->seat >= 0 || trust_twin(node) ||
            (!node->member.trusted && find_seat(node) >= 0))
                return false;
        roster_list(roster, list, sizeof(list));
        if (roster->count != node->redlock->count)
                snprintf(text, size, "%s has the locks of %u servers (%s), and this URL names %u", node->name,
                         roster->count, list, node->redlock->count);
        else if (!node->member.trusted && !is_of_another_set(node))
                snprintf(text, size, "%s is new, and not one of the servers of these locks (%s)", node->name, list);
        else if (is_of_set(node, roster->set))
                snprintf(text, size, "%s was replaced: the servers of these locks are %s", node->name, list);
        else if (read_roster(node, &own_roster, own)) {
                roster_list(&own_roster, list, sizeof(list));
                snprintf(text, size, "%s has the locks of other servers (%s)", node->name, list);
        }
        return true;
}

/* Waiting does not help: somebody has to do something. */
static bool is_hopeless(const struct node *node)
{
        const struct member *member = &node->member;

        if (!member->decided || node->votes)
                return false;
        if (member->reachable) /* somebody may have marked it since we looked, or is doing it */
                return node->doubts > DOUBTS_MOST;
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

/* Marked, and nothing was ever locked there: somebody was interrupted while marking. Only if that was seen after the
 * others were found without a marker: it may have given locks since we last looked. */
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

/* The roster that new nodes get. */
static void first_roster(const struct redlock *redlock, struct roster *roster)
{
        roster->count = redlock->count;
        for (uint32_t i = 0; i < redlock->count; i++)
                roster_sit(&roster->seats[i], 1, redlock->nodes[i].member.id, redlock->nodes[i].name);
        roster_first(roster);
}

/* All of them are there, and nothing was ever locked: they are being marked, or should be. Where some have a roster, it
 * must be the one that all of them get: otherwise a client with another list was there first. */
static bool all_new(const struct redlock *redlock)
{
        struct roster roster;

        if (count_of(redlock, is_new) < redlock->count)
                return false;
        first_roster(redlock, &roster);
        for (uint32_t i = 0; i < redlock->count; i++)
                if (redlock->nodes[i].member.roster[0] && !is_of_set(&redlock->nodes[i], roster.set))
                        return false;
        return true;
}

/* With a majority there, others that are on their way are waited for a moment: a lock on more nodes stands more
 * failures. */
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

static bool is_waiting_for_leases(const struct redlock *redlock)
{
        return redlock->roster.count == redlock->count && count_of(redlock, has_roster) == redlock->count;
}

bool trust_hopeless(const struct redlock *redlock)
{
        bool undecided = count_of(redlock, is_decided) < redlock->count;

        if (seem_new(redlock) && !redlock->init_manual && (undecided || all_new(redlock)))
                return false;
        if (is_waiting_for_leases(redlock))
                return false;
        return count_of(redlock, is_hopeless) > redlock->count - redlock->quorum;
}

static const char *complaint_of(const struct node *node, char *text, size_t size)
{
        const struct member *member = &node->member;
        const struct node *twin = trust_twin(node);

        if (twin)
                snprintf(text, size, "%s is the same server as %s", node->name, twin->name);
        else if (trust_stranger(node, text, size))
                return text;
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

/* A server that works, for others than those in our list. */
static bool is_foreign(const struct node *node)
{
        char text[800];

        return trust_stranger(node, text, sizeof(text)) && node->member.trusted;
}

static int wrong_list(const struct redlock *redlock, struct pawl_why *why)
{
        char text[800] = "";

        for (uint32_t i = 0; i < redlock->count; i++)
                if (is_foreign(&redlock->nodes[i])) {
                        trust_stranger(&redlock->nodes[i], text, sizeof(text));
                        break;
                }
        return why_set(why, PAWL_INVALID, "the list of servers in the URL is not that of the other clients: %.400s",
                       text);
}

static bool is_twin(const struct node *node)
{
        return trust_twin(node);
}

static bool is_one_of_them(const struct node *node)
{
        char text[800];

        return is_reachable(node) && !trust_stranger(node, text, sizeof(text));
}

int trust_why(const struct redlock *redlock, struct pawl_why *why)
{
        uint32_t voters = count_of(redlock, is_voter);

        if (voters < redlock->quorum && count_of(redlock, is_foreign) > redlock->count - redlock->quorum)
                return wrong_list(redlock, why);
        if (voters < redlock->quorum && count_of(redlock, is_twin))
                return no_quorum(redlock, "", why);
        if (all_new(redlock) && redlock->init_manual)
                return why_set(why, PAWL_NO_QUORUM,
                               "the %u nodes are new, and init=manual: run 'pawl -e URL init' once", redlock->count);
        if (voters < redlock->quorum && seem_new(redlock))
                return no_quorum(redlock, "; they are new, and the first time all of them must be there", why);
        if (voters < redlock->quorum && is_waiting_for_leases(redlock))
                return why_set(why, PAWL_NO_QUORUM,
                               "the servers were made a new set, and vote when the leases of the former one are over");
        if (voters < redlock->quorum && count_of(redlock, is_one_of_them) >= redlock->quorum)
                return why_set(
                        why, PAWL_CORRUPT,
                        "%u of %u nodes answer, but only %u still know which tokens they gave, and %u are needed: "
                        "the others were emptied or restarted without their data. When no holder from before is "
                        "at work, run 'pawl -e URL init --yes'",
                        count_of(redlock, is_one_of_them), redlock->count, voters, redlock->quorum);
        if (voters >= redlock->quorum)
                return why_set(why, PAWL_NO_QUORUM, "fewer than %u of %u nodes answered in time", redlock->quorum,
                               redlock->count);
        return no_quorum(redlock, "", why);
}

static void log_votes(struct redlock *redlock)
{
        uint32_t voters = count_of(redlock, is_voter);
        struct pawl_why why;

        redlock->ever = redlock->ever || voters >= redlock->quorum;
        if (count_of(redlock, is_decided) < redlock->count || voters == redlock->told || all_new(redlock))
                return;
        if (!redlock->ever) /* the first claim is refused with the same words */
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
        node->engine->ops->member->mark(node->engine, floor, longest, node->redlock->tag, again);
}

/* The first node in the order of the seats that has not got the roster; NULL: all have. */
static struct node *next_to_enrol(struct redlock *redlock)
{
        struct node *next = NULL;
        int first = NODES_MOST;

        for (uint32_t i = 0; i < redlock->count; i++) {
                struct node *node = &redlock->nodes[i];
                int seat = roster_seat(&redlock->roster, redlock->founding ? node->new_id : node->member.id);

                if (is_reachable(node) && !has_roster(node) && seat < first) {
                        first = seat;
                        next = node;
                }
        }
        return next;
}

/* All reachable nodes get the roster, one after the other, and are marked when all of them have it. So of two clients
 * with different lists, at new servers at the same time, only one gets so far: the one that was first at the first
 * server that both have. */
static void found(struct redlock *redlock, int64_t longest)
{
        struct node *next = next_to_enrol(redlock);

        if (next) {
                enrol(next, redlock->founding ? next->new_id : next->member.id);
                return;
        }
        for (uint32_t i = 0; i < redlock->count; i++)
                if (is_reachable(&redlock->nodes[i]) && !redlock->nodes[i].member.trusted)
                        mark(&redlock->nodes[i], greatest_number(redlock), longest, false);
}

static void found_first(struct redlock *redlock)
{
        first_roster(redlock, &redlock->roster);
        join_all(redlock, &redlock->roster);
        redlock->tag = roster_tag(&redlock->roster);
        found(redlock, 0);
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
static int64_t quarantine_of(int64_t longest)
{
        if (longest < ATTEMPT_MOST)
                longest = ATTEMPT_MOST;
        return longest + longest / 50 + QUARANTINE_MORE;
}

static int64_t quarantine(const struct redlock *redlock)
{
        return quarantine_of(longest_lease(redlock));
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

                if (!other->votes || other->member.asked_at < node->over_at || other->member.confirmed != redlock->tag)
                        continue;
                read++;
                if (other->member.floor > floor)
                        floor = other->member.floor;
        }
        if (read < redlock->quorum || !has_roster(node))
                return false;
        redlock_log(redlock, PAWL_LOG_INFO, "%s had forgotten its data and may vote again", node->name);
        mark(node, floor, longest_lease(redlock), false);
        node->over_at = 0;
        return true;
}

/* Somebody else may have marked it since we looked, or has to, where too few are left to mend it from. */
static int64_t look_again(struct node *node, int64_t now)
{
        int64_t at = node->member.asked_at + (node->doubts > DOUBTS_MOST ? LOOK_PAUSE : MEND_PAUSE);

        if (now < at)
                return at;
        node->engine->ops->member->look(node->engine);
        return now + MEND_PAUSE;
}

static void seat_nodes(struct redlock *redlock);

/* The node takes the seat under its new id. The voters are the first to know; who had the seat before has no vote any
 * more as soon as a majority of them does. */
static void take_seat(struct node *node, int seat)
{
        struct redlock *redlock = node->redlock;
        struct seat *at = &redlock->roster.seats[seat];

        redlock_log(redlock, PAWL_LOG_INFO, "%s takes the place of %s", node->name, at->where);
        roster_sit(at, at->turn + 1, node->member.id, node->name);
        redlock->tag = roster_tag(&redlock->roster);
        seat_nodes(redlock);
        node->seat = seat;
}

/* Votes for others until now: it begins anew, under another id. */
static void demote(struct node *node)
{
        uint64_t random;
        char id[ID_LENGTH + 1];

        loop_random(node->redlock->engine.host->loop, &random, sizeof(random));
        snprintf(id, sizeof(id), "%016llx", (unsigned long long)random);
        enrol(node, id);
}

static uint32_t count_confirmed(const struct redlock *redlock)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < redlock->count; i++)
                count += redlock->nodes[i].votes && redlock->nodes[i].member.confirmed == redlock->tag;
        return count;
}

/* Gives it a seat, and then the roster, when a majority of the voters has that. True: it has it, and waits. */
static bool seated(struct node *node)
{
        struct redlock *redlock = node->redlock;
        int seat = node->seat >= 0 ? node->seat : find_seat(node);

        if (seat < 0)
                return false;
        if (node->member.trusted)
                demote(node);
        else if (node->seat < 0)
                take_seat(node, seat);
        else if (was_seated(node))
                return true;
        else if (count_confirmed(redlock) >= redlock->quorum)
                enrol(node, node->member.id);
        return false;
}

/* When there is something to do for it. */
static int64_t mend(struct node *node, int64_t now)
{
        struct redlock *redlock = node->redlock;
        const struct member *member = &node->member;

        if (!seated(node))
                return look_again(node, now);
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
        bool quorum = count_of(redlock, is_voter) >= redlock->quorum && !redlock->founding;

        redlock->mend_at = NEVER;
        for (uint32_t i = 0; i < redlock->count; i++) {
                struct node *node = &redlock->nodes[i];
                int64_t at;

                if (!is_reachable(node) || node->votes ||
                    (node->member.trusted && node->seat >= 0 && (node->member.longest || is_unused(node))))
                        continue;
                at = quorum ? mend(node, now) : look_again(node, now);
                if (at < redlock->mend_at)
                        redlock->mend_at = at;
        }
        if (redlock->mend_at != NEVER)
                redlock_tend(redlock, redlock->mend_at);
}

/* ---- an operator prepares them again ----------------------------------------------------------------------------- */

/* How many of the servers that keep these locks are in our list: by their ids, or emptied and by their names. */
static uint32_t count_former(const struct redlock *redlock, const struct roster *former)
{
        uint32_t count = 0;

        for (uint32_t seat = 0; seat < former->count; seat++) {
                bool found = false;

                for (uint32_t i = 0; i < redlock->count && !found; i++) {
                        const struct node *node = &redlock->nodes[i];
                        struct roster roster;
                        char own[ID_LENGTH + 1];

                        found = is_reachable(node) &&
                                ((read_roster(node, &roster, own) && strcmp(own, former->seats[seat].id) == 0) ||
                                 roster_is_at(&former->seats[seat], node->name));
                }
                count += found;
        }
        return count;
}

static int too_few_former(uint32_t here, const struct roster *former, struct pawl_why *why)
{
        char list[300];

        roster_list(former, list, sizeof(list));
        return why_set(why, PAWL_MISUSE,
                       "only %u of the %u servers that keep these locks (%s) are in this list, and the others could "
                       "still grant "
                       "them: replace one server after the other. If the others are gone for good, delete the keys "
                       "pawl:member:PREFIX and pawl:roster:PREFIX on the servers of this list first",
                       here, former->count, list);
}

static void seat_new_set(struct redlock *redlock)
{
        redlock->roster.count = redlock->count;
        for (uint32_t i = 0; i < redlock->count; i++) {
                struct node *node = &redlock->nodes[i];
                uint64_t random;

                strcpy(node->new_id, NOBODY); /* the server that is found under this name later takes the seat */
                if (is_reachable(node)) {
                        loop_random(redlock->engine.host->loop, &random, sizeof(random));
                        snprintf(node->new_id, sizeof(node->new_id), "%016llx", (unsigned long long)random);
                }
                roster_sit(&redlock->roster.seats[i], 1, node->new_id, node->name);
        }
        roster_first(&redlock->roster);
        redlock->tag = roster_tag(&redlock->roster);
}

static int64_t longest_known(const struct redlock *redlock)
{
        int64_t longest = 0;

        for (uint32_t i = 0; i < redlock->count; i++)
                if (redlock->nodes[i].member.longest > longest)
                        longest = redlock->nodes[i].member.longest;
        return longest;
}

/* Was it taken into a new set of which no server votes yet, so lately that it may still have a part in a lease of the
 * former one? By an init that was interrupted, or is run once more. */
static bool is_in_the_making(const struct node *node)
{
        const struct redlock *redlock = node->redlock;
        struct roster roster;
        char own[ID_LENGTH + 1];

        return is_reachable(node) && !node->member.trusted && read_roster(node, &roster, own) &&
               strcmp(own, node->member.id) == 0 && roster_seat(&roster, own) >= 0 &&
               count_of_set(redlock, roster.set, true) == 0 &&
               node->member.untrusted < quarantine_of(longest_known(redlock));
}

/* A new set of servers. Those that had a part in the former one forget it, so that no majority of that can grant any
 * more: if a majority of them is here. If that majority is at work, or was a moment ago, its leases are waited for. */
static int found_set(struct redlock *redlock, struct pawl_why *why)
{
        struct roster former;
        uint32_t here, at_work;

        if (!pick_roster(redlock, true, &former))
                pick_roster(redlock, false, &former);
        join_all(redlock, &former);
        here = count_former(redlock, &former);
        if (former.count && here <= former.count / 2)
                return too_few_former(here, &former, why);
        at_work = count_of_set(redlock, former.set, true) + count_of(redlock, is_in_the_making);
        redlock->founding_waits = former.count && at_work > former.count / 2;
        if (redlock->founding_waits && count_of(redlock, is_reachable) < redlock->count)
                return no_quorum(redlock, "; for a list of another length all of them must be there", why);
        redlock->founding = true;
        seat_new_set(redlock);
        return PAWL_OK;
}

/* Of a set that waits for the leases of the former one only the rosters are written here. Without one of the servers it
 * would not be complete: it is waited for before the others are taken out of the former set. */
static void found_again(struct redlock *redlock)
{
        if (redlock->founding_waits && (count_of(redlock, is_reachable) < redlock->count || !next_to_enrol(redlock)))
                return;
        found(redlock, longest_known(redlock));
}

/* All nodes are here and have one roster, but too few may vote: an operator has made a new set of them. Nobody else can
 * get them there: one that forgets its data has a new id, which is in no roster. */
static bool is_set_waiting(struct redlock *redlock)
{
        struct roster roster;

        if (redlock->founding || count_of(redlock, is_voter) >= redlock->quorum ||
            pick_roster(redlock, false, &roster) < redlock->count || roster.count != redlock->count)
                return false;
        join_all(redlock, &roster);
        redlock->roster = roster;
        redlock->tag = roster_tag(&roster);
        return count_of(redlock, has_roster) == redlock->count;
}

static void end_waiting(struct redlock *redlock)
{
        int64_t longest = longest_known(redlock);

        for (uint32_t i = 0; i < redlock->count; i++)
                if (!redlock->nodes[i].member.trusted && redlock->nodes[i].member.untrusted < quarantine_of(longest))
                        return;
        found(redlock, longest);
}

int trust_init(struct redlock *redlock, bool force, struct pawl_why *why)
{
        uint64_t floor = greatest_number(redlock);
        int code = PAWL_OK;

        redlock->init_manual = false; /* it is done by hand now */
        if (count_of(redlock, is_voter) >= redlock->quorum) {
                for (uint32_t i = 0; i < redlock->count; i++) {
                        struct node *node = &redlock->nodes[i];

                        node->replaces = is_reachable(node) && node->seat < 0;
                        if (node->votes)
                                mark(node, floor, longest_lease(redlock), true);
                }
                mend_all(redlock, redlock_now(redlock));
        } else if (all_new(redlock)) {
                found_first(redlock);
        } else if (force) {
                code = found_set(redlock, why);
                if (code == PAWL_OK)
                        found_again(redlock);
        } else {
                code = trust_why(redlock, why);
        }
        return code;
}

/* A server that joins others is done when it has its seat: it votes when their leases are over. One that does not answer at
 * the moment is waited for, if it is to have one. */
bool trust_init_done(struct redlock *redlock)
{
        bool quorum = count_of(redlock, is_voter) >= redlock->quorum;

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct node *node = &redlock->nodes[i];

                if (!is_reachable(node) && (node->replaces || redlock->founding_waits))
                        return false;
                if (!is_reachable(node) || trust_twin(node) || node->votes)
                        continue;
                if (node->seat < 0 || !was_seated(node) || (!quorum && !redlock->founding_waits))
                        return false;
        }
        redlock->founding = false;
        return true;
}

/* ---- when something changes -------------------------------------------------------------------------------------- */

static void seat_nodes(struct redlock *redlock)
{
        for (uint32_t i = 0; i < redlock->count; i++)
                seat_node(&redlock->nodes[i]);
}

static void count_vote(struct node *node)
{
        node->votes = is_reachable(node) && node->member.trusted && !trust_twin(node) && node->seat >= 0 &&
                      node->member.tag == node->redlock->tag;
        if (!node->votes)
                return;
        node->home = node->seat;
        memcpy(node->home_id, node->member.id, sizeof(node->home_id));
}

static void count_votes(struct redlock *redlock)
{
        learn_roster(redlock);
        seat_nodes(redlock);
        for (uint32_t i = 0; i < redlock->count; i++)
                count_vote(&redlock->nodes[i]);
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
        node->doubts = is_reachable(node) && !node->votes ? node->doubts + 1 : 0;
        log_votes(redlock);
        if (member->reachable)
                rounds_again(redlock, node);
        if (all_new(redlock) && !redlock->init_manual && count_of(redlock, is_voter) < redlock->quorum)
                found_first(redlock);
        if (redlock->founding)
                found_again(redlock);
        else if (is_set_waiting(redlock))
                end_waiting(redlock);
        mend_all(redlock, redlock_now(redlock));
        claims_wake(redlock);
        inspect_wake(redlock);
}

void trust_due(struct redlock *redlock)
{
        int64_t now = redlock_now(redlock);

        if (now >= redlock->announce_at)
                places_announce(redlock);
        rounds_soon(redlock);
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
