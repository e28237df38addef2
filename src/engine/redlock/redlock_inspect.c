/* redlock_inspect.c - what a majority sees: every node is asked, and their lines are put together. A holder is who
 * holds on a majority; who has a few votes only is trying, and is not shown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock.h"

enum what { WHAT_LIST, WHAT_SHOW, WHAT_CHOOSE, WHAT_BREAK, WHAT_ASK, WHAT_EXAMINE, WHAT_INIT };

#define CLOCKS_APART UINT64_C(1000000) /* us */

/* One line, and which nodes have it. */
struct seen {
        struct list listed;
        struct pawl_entry entry;
        nodes_t nodes;
        bool told;
        char text[];
};

/* One node is asked. */
struct probe {
        struct inquiry inquiry; /* first */
        struct survey *survey;
        struct node *node;
};

struct survey {
        struct list listed; /* redlock->inquiries */
        struct redlock *redlock;
        struct inquiry *asker; /* NULL: does not wait any longer */
        uint64_t token;        /* of a break: the holder that is meant; 0: any */
        enum what what;
        bool begun;
        bool marked; /* of init */
        int64_t asked_at;
        nodes_t out, ok, missing;
        bool others;   /* of a break: on a node that was asked another one has it by now */
        bool doubtful; /* of a break: a node was asked, and its answer is lost */
        uint32_t waiters;
        struct list seen;
        struct pawl_why why; /* of the last node that failed */
        char *name;
        uint64_t numbers[NODES_MOST];        /* of the holder that is meant, on each node */
        struct probe probes[2 * NODES_MOST]; /* the second half asks for those who wait */
};

static void survey_free(struct survey *survey)
{
        while (!list_empty(&survey->seen)) {
                struct seen *seen = list_first(&survey->seen, struct seen, listed);

                list_remove(&seen->listed);
                free(seen);
        }
        list_remove(&survey->listed);
        free(survey->name);
        free(survey);
}

void inspect_free(struct redlock *redlock)
{
        while (!list_empty(&redlock->inquiries))
                survey_free(list_first(&redlock->inquiries, struct survey, listed));
}

static void answer(struct survey *survey, int code, const char *why)
{
        struct inquiry *asker = survey->asker;

        survey->asker = NULL;
        if (asker)
                asker->answered(asker, code, why);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static bool same_holder(const struct pawl_entry *one, const struct pawl_entry *two)
{
        return one->role == two->role && strcmp(one->name, two->name) == 0 && strcmp(one->owner, two->owner) == 0 &&
               strcmp(one->note, two->note) == 0;
}

static struct seen *find(struct survey *survey, const struct pawl_entry *entry)
{
        for (struct list *at = survey->seen.next; at != &survey->seen; at = at->next) {
                struct seen *seen = container_of(at, struct seen, listed);

                if (seen->entry.token == entry->token && same_holder(&seen->entry, entry))
                        return seen;
        }
        return NULL;
}

static const char *keep(char **room, const char *text)
{
        char *kept = strcpy(*room, text);

        *room += strlen(text) + 1;
        return kept;
}

static struct seen *seen_new(struct survey *survey, const struct pawl_entry *entry)
{
        size_t size = strlen(entry->name) + strlen(entry->owner) + strlen(entry->note) + 3;
        struct seen *seen = calloc(1, sizeof(*seen) + size);
        char *room;

        if (!seen)
                return NULL;
        room = seen->text;
        seen->entry = *entry;
        seen->entry.name = keep(&room, entry->name);
        seen->entry.owner = keep(&room, entry->owner);
        seen->entry.note = keep(&room, entry->note);
        seen->entry.broken_by = seen->entry.reason = NULL; /* of past owners, which a node does not tell */
        list_append(&survey->seen, &seen->listed);
        return seen;
}

static void on_entry(struct inquiry *inquiry, const struct pawl_entry *told)
{
        struct probe *probe = container_of(inquiry, struct probe, inquiry);
        struct survey *survey = probe->survey;
        struct pawl_entry entry = *told;
        struct seen *seen;

        entry.owner = entry.owner ? entry.owner : "";
        entry.note = entry.note ? entry.note : "";
        seen = find(survey, &entry);
        if (!seen)
                seen = seen_new(survey, &entry);
        if (!seen) {
                why_set(&survey->why, PAWL_NO_MEMORY, "out of memory");
                return;
        }
        seen->nodes |= probe->node->bit;
        if (entry.remaining_ms < seen->entry.remaining_ms)
                seen->entry.remaining_ms = entry.remaining_ms;
}

/* A holder may have a greater number on nodes that came late; the token is what most have. Nodes that were away when a lease
 * was taken up still name its former owner: they have the same token. */
static bool same_lock(const struct pawl_entry *one, const struct pawl_entry *two)
{
        return same_holder(one, two) ||
               (one->role == two->role && one->token && one->token == two->token && strcmp(one->name, two->name) == 0);
}

static struct seen *merge(struct survey *survey, struct seen *first, nodes_t *nodes)
{
        struct seen *best = first;

        *nodes = 0;
        for (struct list *at = &first->listed; at != &survey->seen; at = at->next) {
                struct seen *seen = container_of(at, struct seen, listed);

                if (seen->told || !same_lock(&first->entry, &seen->entry))
                        continue;
                *nodes |= seen->nodes;
                seen->told = true;
                if (how_many(seen->nodes) > how_many(best->nodes))
                        best = seen;
        }
        return best;
}

static void tell_holders(struct survey *survey)
{
        for (struct list *at = survey->seen.next; at != &survey->seen; at = at->next) {
                struct seen *seen = container_of(at, struct seen, listed);
                nodes_t nodes;

                if (seen->told || seen->entry.role == PAWL_ROLE_WAITER)
                        continue;
                seen = merge(survey, seen, &nodes);
                if (how_many(nodes) < survey->redlock->quorum)
                        continue;
                seen->entry.waiters = survey->waiters;
                survey->asker->entry(survey->asker, &seen->entry);
        }
}

/* The one who has waited longest. */
static struct seen *next_waiter(struct survey *survey)
{
        struct seen *next = NULL;

        for (struct list *at = survey->seen.next; at != &survey->seen; at = at->next) {
                struct seen *seen = container_of(at, struct seen, listed);

                if (!seen->told && seen->entry.role == PAWL_ROLE_WAITER &&
                    (!next || seen->entry.since_ms < next->entry.since_ms))
                        next = seen;
        }
        return next;
}

static void tell_waiters(struct survey *survey)
{
        struct seen *seen;

        while ((seen = next_waiter(survey))) {
                seen->told = true;
                seen->entry.token = 0; /* it was what told one waiter from the other */
                survey->asker->entry(survey->asker, &seen->entry);
        }
}

static void count_waiters(struct survey *survey)
{
        for (struct list *at = survey->seen.next; at != &survey->seen; at = at->next)
                survey->waiters += container_of(at, struct seen, listed)->entry.role == PAWL_ROLE_WAITER;
}

/* ---- examining --------------------------------------------------------------------------------------------------- */

static void on_finding(struct inquiry *inquiry, const struct pawl_finding *finding)
{
        struct probe *probe = container_of(inquiry, struct probe, inquiry);
        struct inquiry *asker = probe->survey->asker;

        if (asker)
                asker->finding(asker, finding);
}

static void find_out(struct survey *survey, uint32_t severity, const char *where, const char *what, const char *mend)
{
        struct pawl_finding finding = {.severity = severity, .where = where, .what = what, .mend = mend};

        survey->asker->finding(survey->asker, &finding);
}

/* Without its name, which stands before it. */
static const char *why_unreachable(const struct node *node)
{
        const char *text = node->member.why.text;
        size_t length = strlen(node->name);

        if (!node->member.decided || !*text)
                return "it does not answer";
        return strncmp(text, node->name, length) == 0 && strncmp(text + length, ": ", 2) == 0 ? text + length + 2
                                                                                              : text;
}

static void examine_node(struct survey *survey, const struct node *node)
{
        const struct member *member = &node->member;
        const struct node *twin = trust_twin(node);
        char text[1000];

        if (twin) {
                snprintf(text, sizeof(text), "it is the same server as %s and would have two votes", twin->name);
                find_out(survey, PAWL_DANGER, node->name, text,
                         "name another server in the URL, or leave this one out");
        } else if (trust_stranger(node, text, sizeof(text))) {
                find_out(survey, member->trusted ? PAWL_DANGER : PAWL_WARNING, node->name, text,
                         "name the same servers in the URL of every client; if it is to replace one of the others: "
                         "pawl -e URL "
                         "init --yes, with the new list");
        } else if (!member->reachable) {
                find_out(survey, PAWL_WARNING, node->name, why_unreachable(node), "start it, or fix the network to it");
        } else if (!member->trusted && !member->marked) {
                find_out(
                        survey, PAWL_WARNING, node->name,
                        "it has no marker: it is new, was emptied, or lost its data in a restart; it does not vote",
                        "with a majority of the others it is taken in again by any client that stays open long enough; "
                        "otherwise: pawl -e URL init --yes");
        } else if (!member->trusted) {
                find_out(
                        survey, PAWL_WARNING, node->name,
                        "it was restarted and may have lost its last writes; it does not vote",
                        "with a majority of the others it is taken in again by any client that stays open long enough; "
                        "appendonly yes and appendfsync always make that unnecessary");
        }
}

static void examine_clocks(struct survey *survey)
{
        const struct redlock *redlock = survey->redlock;
        const struct node *first = NULL, *last = NULL;
        int64_t least = 0, most = 0;
        char text[700];

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct node *node = &redlock->nodes[i];
                int64_t ahead = (int64_t)node->member.clock - node->member.asked_at / 1000;

                if (!node->member.reachable || !node->member.decided)
                        continue;
                if (!first || ahead < least) {
                        least = ahead;
                        first = node;
                }
                if (!last || ahead > most) {
                        most = ahead;
                        last = node;
                }
        }
        if (!first || most - least <= (int64_t)CLOCKS_APART)
                return;
        snprintf(text, sizeof(text),
                 "its clock is %.1f s behind that of %s: tokens cost a second round trip, and after a "
                 "loss of all data they may repeat",
                 (double)(most - least) / 1e6, last->name);
        find_out(survey, PAWL_WARNING, first->name, text, "chronyc makestep (keep the clocks of all nodes in step)");
}

static void examine_all(struct survey *survey)
{
        const struct redlock *redlock = survey->redlock;
        uint32_t voters = how_many(trust_voters(redlock));
        char text[200];

        snprintf(text, sizeof(text), "%u of %u nodes vote, %u are needed", voters, redlock->count, redlock->quorum);
        find_out(survey,
                 voters == redlock->count   ? PAWL_FINE
                 : voters < redlock->quorum ? PAWL_DANGER
                                            : PAWL_WARNING,
                 "the quorum", text, voters == redlock->count ? "" : "see the nodes below");
        for (uint32_t i = 0; i < redlock->count; i++)
                examine_node(survey, &redlock->nodes[i]);
        examine_clocks(survey);
        if (redlock->count % 2 == 0)
                find_out(survey, PAWL_ADVICE, "the quorum",
                         "an even number of nodes stands no more failures than one less, and splits votes more often",
                         "add a node, or take one away");
}

/* ---- asking all nodes -------------------------------------------------------------------------------------------- */

static void finish_lines(struct survey *survey)
{
        struct pawl_why why;

        if (how_many(survey->ok | survey->missing) < survey->redlock->quorum) {
                answer(survey, trust_why(survey->redlock, &why), why.text);
                return;
        }
        count_waiters(survey);
        tell_holders(survey);
        tell_waiters(survey);
        answer(survey, survey->why.code == PAWL_NO_MEMORY ? PAWL_NO_MEMORY : PAWL_OK, NULL);
}

static void finish_interference(struct survey *survey)
{
        struct redlock *redlock = survey->redlock;
        struct pawl_why why;

        for (uint32_t i = 0; survey->what == WHAT_BREAK && i < redlock->count; i++)
                if (survey->ok & redlock->nodes[i].bit)
                        redlock->nodes[i].engine->ops->member->call(redlock->nodes[i].engine, survey->name,
                                                                    strlen(survey->name));
        if (how_many(survey->ok | survey->missing) >= redlock->quorum)
                answer(survey, survey->ok ? PAWL_OK : survey->others ? PAWL_BUSY : PAWL_NOT_FOUND, NULL);
        else if (survey->what == WHAT_BREAK && (survey->ok || survey->doubtful))
                answer(survey, PAWL_IN_DOUBT, "too few nodes have confirmed it: it may have been done");
        else
                answer(survey, trust_why(redlock, &why), why.text);
}

/* ---- one holder of a token -------------------------------------------------------------------------------------------
 *
 * Who holds on a majority is found first (WHAT_CHOOSE); then its votes are taken away by their number. Each node compares
 * and deletes in one step, so another holder that has come meanwhile keeps its votes. */

/* NULL: a majority has none with this token; *others: it has one with another. */
static const struct seen *find_meant(struct survey *survey, bool *others)
{
        *others = false;
        for (struct list *at = survey->seen.next; at != &survey->seen; at = at->next) {
                struct seen *seen = container_of(at, struct seen, listed);
                nodes_t nodes;

                if (seen->told || seen->entry.role != PAWL_ROLE_HOLDER)
                        continue;
                seen = merge(survey, seen, &nodes);
                if (how_many(nodes) < survey->redlock->quorum)
                        continue;
                if (seen->entry.token == survey->token)
                        return seen;
                *others = true;
        }
        return NULL;
}

/* NULL: it has no vote there. */
static const struct seen *vote_on(const struct survey *survey, const struct seen *meant, const struct node *node)
{
        for (struct list *at = survey->seen.next; at != &survey->seen; at = at->next) {
                const struct seen *seen = container_of(at, struct seen, listed);

                if (seen->nodes & node->bit && same_lock(&meant->entry, &seen->entry))
                        return seen;
        }
        return NULL;
}

/* A vote with another number and of another time may have come late (merge), or be already one of the next lock of the same
 * client, which has the same owner and note. So it is left alone, and ends with its lease at the latest; unless such votes
 * would hold the lock without the others. */
static nodes_t votes_meant(struct survey *survey, const struct seen *meant)
{
        const struct redlock *redlock = survey->redlock;
        nodes_t sure = 0, late = 0;

        for (uint32_t i = 0; i < redlock->count; i++) {
                const struct seen *vote = vote_on(survey, meant, &redlock->nodes[i]);

                if (!vote)
                        continue;
                survey->numbers[i] = vote->entry.token;
                if (vote->entry.token == survey->token || vote->entry.since_ms == meant->entry.since_ms)
                        sure |= redlock->nodes[i].bit;
                else
                        late |= redlock->nodes[i].bit;
        }
        return how_many(late) < redlock->quorum ? sure : sure | late;
}

static void ask_nodes(struct survey *survey, nodes_t nodes);

/* True if its votes are being taken away. */
static bool finish_choosing(struct survey *survey)
{
        struct redlock *redlock = survey->redlock;
        const struct seen *meant;
        struct pawl_why why;
        nodes_t nodes;
        bool others;

        if (how_many(survey->ok | survey->missing) < redlock->quorum) {
                answer(survey, trust_why(redlock, &why), why.text);
                return false;
        }
        meant = find_meant(survey, &others);
        if (!meant) {
                answer(survey, others ? PAWL_BUSY : PAWL_NOT_FOUND, NULL);
                return false;
        }
        nodes = votes_meant(survey, meant);
        survey->what = WHAT_BREAK;
        survey->ok = survey->missing = 0;
        ask_nodes(survey, nodes);
        return true;
}

static void finish(struct survey *survey)
{
        if (survey->asker && survey->what == WHAT_CHOOSE && finish_choosing(survey))
                return;
        if (survey->asker && (survey->what == WHAT_LIST || survey->what == WHAT_SHOW))
                finish_lines(survey);
        else if (survey->asker && survey->what == WHAT_EXAMINE)
                answer(survey, PAWL_OK, NULL);
        else if (survey->asker)
                finish_interference(survey);
        survey_free(survey);
}

static void on_answered(struct inquiry *inquiry, int code, const char *why)
{
        struct probe *probe = container_of(inquiry, struct probe, inquiry);
        struct survey *survey = probe->survey;
        bool second = probe >= survey->probes + NODES_MOST;
        nodes_t bit = probe->node->bit;

        survey->others |= code == PAWL_BUSY;
        survey->doubtful |= code == PAWL_IN_DOUBT;
        if (!second && code == PAWL_OK)
                survey->ok |= bit;
        else if (!second && (code == PAWL_NOT_FOUND || code == PAWL_BUSY)) /* busy: it has gone, and another came */
                survey->missing |= bit;
        else if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                why_set(&survey->why, code, "%s", why ? why : "");
        if (!second && survey->what == WHAT_SHOW &&
            code != PAWL_UNREACHABLE) { /* its holders first, then its waiters */
                struct engine *engine = probe->node->engine;

                engine->ops->member->waiters(engine, &survey->probes[NODES_MOST + (probe - survey->probes)].inquiry);
                return;
        }
        survey->out &= ~bit;
        if (!survey->out)
                finish(survey);
}

static void probe_init(struct survey *survey, struct probe *probe, struct node *node)
{
        probe->survey = survey;
        probe->node = node;
        probe->inquiry = (struct inquiry){
                .name = survey->name, .entry = on_entry, .finding = on_finding, .answered = on_answered};
}

static void ask_node(struct survey *survey, struct node *node)
{
        const struct engine_inspect *inspect = node->engine->ops->inspect;
        struct inquiry *inquiry = &survey->probes[node - survey->redlock->nodes].inquiry;

        switch (survey->what) {
        case WHAT_LIST:
                inspect->list(node->engine, inquiry);
                break;
        case WHAT_SHOW:
        case WHAT_CHOOSE:
                inspect->show(node->engine, inquiry);
                break;
        case WHAT_BREAK:
                inquiry->token = survey->numbers[node - survey->redlock->nodes];
                inquiry->reason = survey->asker->reason;
                inspect->break_(node->engine, inquiry);
                break;
        case WHAT_ASK:
                inspect->ask(node->engine, inquiry);
                break;
        case WHAT_EXAMINE:
        case WHAT_INIT:
                inspect->examine(node->engine, inquiry);
                break;
        }
}

/* One bit more than there are nodes: answers may come before everybody is asked. */
static void ask_nodes(struct survey *survey, nodes_t nodes)
{
        struct redlock *redlock = survey->redlock;
        nodes_t guard = (nodes_t)1 << NODES_MOST;

        survey->out = nodes | guard;
        for (uint32_t i = 0; i < redlock->count; i++) {
                struct node *node = &redlock->nodes[i];

                probe_init(survey, &survey->probes[i], node);
                probe_init(survey, &survey->probes[NODES_MOST + i], node);
                if (nodes & node->bit)
                        ask_node(survey, node);
        }
        survey->out &= ~guard;
        if (!survey->out)
                finish(survey);
}

static void ask_all(struct survey *survey)
{
        ask_nodes(survey, trust_reachable(survey->redlock));
}

/* ---- marking ----------------------------------------------------------------------------------------------------- */

static bool any_marked(const struct redlock *redlock)
{
        for (uint32_t i = 0; i < redlock->count; i++)
                if (redlock->nodes[i].member.reachable && redlock->nodes[i].member.marked)
                        return true;
        return false;
}

/* Before: is it allowed? After: is it done? */
static void init_step(struct survey *survey)
{
        struct redlock *redlock = survey->redlock;
        nodes_t reachable = trust_reachable(redlock);
        struct pawl_why why;

        if (survey->marked) {
                if (!trust_init_done(redlock))
                        return;
                answer(survey, PAWL_OK, NULL);
        } else if (how_many(reachable) < (survey->asker->force ? redlock->quorum : redlock->count)) {
                trust_why(redlock, &why);
                answer(survey, PAWL_NO_QUORUM, why.text);
        } else if (any_marked(redlock) && !survey->asker->force) {
                answer(survey, PAWL_MISUSE,
                       "the nodes are marked already, or were: marking them again is safe for tokens, but a lock that "
                       "is "
                       "held on nodes that forgot it can be given to another; --yes does it");
        } else {
                int code = trust_init(redlock, survey->asker->force, &why);

                survey->marked = code == PAWL_OK;
                if (survey->marked)
                        return;
                answer(survey, code, why.text);
        }
        survey_free(survey);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

/* A node that does not answer at all keeps nobody waiting for long. */
static bool may_begin(const struct survey *survey, int64_t now)
{
        const struct redlock *redlock = survey->redlock;

        if (trust_decided(redlock) || now - survey->asked_at >= redlock->timeout / 2)
                return true;
        return survey->what != WHAT_EXAMINE && survey->what != WHAT_INIT && trust_quorum(redlock);
}

static void begin(struct survey *survey)
{
        if (survey->what == WHAT_INIT) {
                survey->begun = true;
                init_step(survey);
                return;
        }
        survey->begun = true;
        if (survey->what == WHAT_EXAMINE)
                examine_all(survey);
        ask_all(survey);
}

void inspect_wake(struct redlock *redlock)
{
        int64_t now = redlock_now(redlock);

        for (struct list *at = redlock->inquiries.next, *next; at != &redlock->inquiries; at = next) {
                struct survey *survey = container_of(at, struct survey, listed);

                next = at->next;
                if (!survey->begun && survey->asker && may_begin(survey, now))
                        begin(survey);
                else if (survey->marked && survey->asker)
                        init_step(survey);
                else if (!survey->asker && (!survey->begun || survey->marked))
                        survey_free(survey);
                else if (!survey->begun)
                        redlock_tend(redlock, survey->asked_at + redlock->timeout / 2);
        }
}

static void ask(struct engine *engine, struct inquiry *asker, enum what what)
{
        struct redlock *redlock = redlock_of(engine);
        struct survey *survey = calloc(1, sizeof(*survey));

        if (survey)
                survey->name = strdup(asker->name ? asker->name : "");
        if (!survey || !survey->name) {
                free(survey);
                asker->answered(asker, PAWL_NO_MEMORY, NULL);
                return;
        }
        survey->redlock = redlock;
        survey->asker = asker;
        survey->what = what;
        survey->token = asker->token;
        survey->asked_at = redlock_now(redlock);
        list_init(&survey->seen);
        list_append(&redlock->inquiries, &survey->listed);
        inspect_wake(redlock);
}

static void inspect_list(struct engine *engine, struct inquiry *inquiry)
{
        ask(engine, inquiry, WHAT_LIST);
}

static void inspect_show(struct engine *engine, struct inquiry *inquiry)
{
        ask(engine, inquiry, WHAT_SHOW);
}

static void inspect_break(struct engine *engine, struct inquiry *inquiry)
{
        ask(engine, inquiry, inquiry->token ? WHAT_CHOOSE : WHAT_BREAK);
}

static void inspect_ask(struct engine *engine, struct inquiry *inquiry)
{
        ask(engine, inquiry, WHAT_ASK);
}

static void inspect_examine(struct engine *engine, struct inquiry *inquiry)
{
        ask(engine, inquiry, WHAT_EXAMINE);
}

static void inspect_init(struct engine *engine, struct inquiry *inquiry)
{
        ask(engine, inquiry, WHAT_INIT);
}

static void inspect_forget(struct engine *engine, struct inquiry *inquiry)
{
        struct redlock *redlock = redlock_of(engine);

        for (struct list *at = redlock->inquiries.next; at != &redlock->inquiries; at = at->next) {
                struct survey *survey = container_of(at, struct survey, listed);

                if (survey->asker == inquiry)
                        survey->asker = NULL; /* the nodes' answers end it */
        }
}

const struct engine_inspect redlock_inspect = {
        .list = inspect_list,
        .show = inspect_show,
        .break_ = inspect_break,
        .ask = inspect_ask,
        .examine = inspect_examine,
        .init = inspect_init,
        .forget = inspect_forget,
};
