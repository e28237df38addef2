/* check.c - the sweeps. A tenure is everything one client did about one claim; each check sorts tenures, or their
 * beginnings and ends, and walks once over them. */
#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pawl.h"

#define NEVER INT64_MAX

struct tenure {
        uint32_t client;
        uint32_t op;
        uint32_t lock;
        uint32_t limit;
        uint8_t mode;
        uint8_t flags;
        uint8_t answers;
        uint8_t deed; /* DID_ACQUIRE or DID_BREAK */
        int32_t release_status;
        int32_t unused;
        uint64_t token;
        int64_t invoked; /* all times: NEVER if it did not happen */
        int64_t queued;
        int64_t granted;
        int64_t refused;
        int64_t letting_go; /* the release, or the break, was called */
        int64_t let_go;     /* and has returned */
        int64_t lost;
        int64_t killed;
        int64_t believed; /* the last time, 0: never */
        int64_t valid_least;
        int64_t valid_most;  /* by whatever was read last */
        int64_t fixed_until; /* by the grant and by explicit renewals only */
};

struct span {
        int64_t from;
        int64_t to;
};

struct death {
        uint32_t process;
        int64_t at;
};

struct work {
        struct findings *findings;
        struct tenure *tenures; /* by lock, then by the time of the grant */
        size_t tenure_count;
        struct death *deaths; /* by process */
        size_t death_count;
        struct span *stops;
        size_t stop_count;
        const struct tenure **breaks;
        size_t break_count;
        int64_t end; /* of the history */
};

/* One moment of one tenure, for the sweeps. */
struct point {
        uint32_t lock;
        uint32_t rank; /* at equal times the lower comes first */
        int64_t at;
        const struct tenure *tenure;
};

static const char *const invariant_texts[] = {
#define INVARIANT_TEXT(name, text) text,
        INVARIANTS(INVARIANT_TEXT)
#undef INVARIANT_TEXT
};

const char *invariant_text(enum invariant invariant)
{
        return invariant_texts[invariant];
}

static __attribute__((format(printf, 3, 4))) void found(struct findings *findings, enum invariant invariant,
                                                        const char *format, ...)
{
        va_list list;

        if (findings->violations[invariant]++ > 0)
                return;
        va_start(list, format);
        vsnprintf(findings->first[invariant], sizeof findings->first[invariant], format, list);
        va_end(list);
}

static int64_t least(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
        return a > b ? a : b;
}

static int compare(int64_t a, int64_t b)
{
        return (a > b) - (a < b);
}

/* ---- from records to tenures ---------------------------------------------------------------------------------- */

static int by_claim(const void *left, const void *right)
{
        const struct record *a = left, *b = right;
        int order = compare(a->client, b->client);

        if (order == 0)
                order = compare(a->op, b->op);
        return order != 0 ? order : compare(a->at, b->at);
}

static int by_process(const void *left, const void *right)
{
        const struct death *a = left, *b = right;

        return compare(a->process, b->process);
}

static int64_t killed_at(const struct work *work, uint32_t client)
{
        struct death key = {.process = client / CLIENTS_PER_PROCESS};
        const struct death *death = NULL;

        if (work->death_count > 0)
                death = bsearch(&key, work->deaths, work->death_count, sizeof key, by_process);
        return death ? death->at : NEVER;
}

static void take_answer(struct work *work, struct tenure *tenure, const struct record *record)
{
        if (tenure->answers++ > 0)
                found(work->findings, INVARIANT_NONSENSE, "client %u, op %u: answered twice", record->client,
                      record->op);
        if (record->phase == PHASE_FAIL) {
                tenure->refused = record->at;
                return;
        }
        tenure->granted = record->at;
        tenure->token = record->token;
        tenure->fixed_until = most(tenure->fixed_until, record->valid_most);
}

static void take_acquire(struct work *work, struct tenure *tenure, const struct record *record)
{
        if (record->phase == PHASE_INVOKE) {
                tenure->invoked = record->at;
                tenure->lock = record->lock;
                tenure->limit = record->limit;
                tenure->mode = record->mode;
                tenure->flags = record->flags;
        } else {
                take_answer(work, tenure, record);
        }
}

static void take_release(struct tenure *tenure, const struct record *record)
{
        if (record->phase == PHASE_INVOKE) {
                tenure->letting_go = record->at;
        } else {
                tenure->let_go = record->at;
                tenure->release_status = record->status;
        }
}

static void take_check(struct tenure *tenure, const struct record *record)
{
        if (record->phase == PHASE_FAIL)
                tenure->lost = least(tenure->lost, record->at);
        else
                tenure->believed = most(tenure->believed, record->at);
}

static void take(struct work *work, struct tenure *tenure, const struct record *record)
{
        switch (record->deed) {
        case DID_ACQUIRE:
                take_acquire(work, tenure, record);
                break;
        case DID_RELEASE:
                take_release(tenure, record);
                break;
        case DID_BREAK:
                tenure->deed = DID_BREAK;
                tenure->lock = record->lock;
                take_release(tenure, record);
                break;
        case DID_CHECK:
                take_check(tenure, record);
                break;
        case DID_RENEW:
                tenure->fixed_until = most(tenure->fixed_until, record->valid_most);
                break;
        case DID_QUEUE:
                tenure->queued = record->at;
                break;
        }
        if (record->phase == PHASE_OK) {
                tenure->valid_least = most(tenure->valid_least, record->valid_least);
                tenure->valid_most = most(tenure->valid_most, record->valid_most);
        }
}

static const struct tenure blank_tenure = {
        .deed = DID_ACQUIRE,
        .release_status = -1,
        .invoked = NEVER,
        .queued = NEVER,
        .granted = NEVER,
        .refused = NEVER,
        .letting_go = NEVER,
        .let_go = NEVER,
        .lost = NEVER,
        .killed = NEVER,
};

static bool of_driver(const struct record *record)
{
        return record->deed == DID_KILL || record->deed == DID_STOP || record->deed == DID_CONTINUE;
}

/* The driver's own records, in the order of each process: kills, and spans from stop to continue. */
static void collect_faults(struct work *work, const struct record *records, size_t count)
{
        int64_t stopped = NEVER;

        for (size_t i = 0; i < count; i++) {
                work->end = most(work->end, records[i].at);
                switch (records[i].deed) {
                case DID_KILL:
                        work->deaths[work->death_count++] =
                                (struct death){records[i].client / CLIENTS_PER_PROCESS, records[i].at};
                        break;
                case DID_STOP:
                        stopped = records[i].at;
                        work->findings->stops++;
                        break;
                case DID_CONTINUE:
                        work->stops[work->stop_count++] = (struct span){stopped, records[i].at + 100 * MS};
                        break;
                }
        }
        work->findings->kills += work->death_count;
        qsort(work->deaths, work->death_count, sizeof *work->deaths, by_process);
}

static void check_belief(struct work *work, const struct tenure *tenure, const struct record *record)
{
        if (record->deed != DID_CHECK || record->phase != PHASE_OK)
                return;
        if ((tenure->flags & TENURE_FIXED) && record->at > tenure->fixed_until)
                found(work->findings, INVARIANT_LATE_BELIEF, "client %u, op %u: %" PRId64 " us too late",
                      record->client, record->op, (record->at - tenure->fixed_until) / 1000);
        if (record->at > tenure->lost)
                found(work->findings, INVARIANT_RESURRECTED, "client %u, op %u", record->client, record->op);
}

static void collect_tenures(struct work *work, const struct record *records, size_t count)
{
        size_t next;

        for (size_t i = 0; i < count; i = next) {
                struct tenure *tenure = &work->tenures[work->tenure_count];

                next = i + 1;
                if (of_driver(&records[i]))
                        continue;
                *tenure = blank_tenure;
                tenure->client = records[i].client;
                tenure->op = records[i].op;
                for (next = i; next < count && records[next].client == tenure->client && records[next].op == tenure->op;
                     next++)
                        take(work, tenure, &records[next]);
                for (size_t j = i; j < next; j++)
                        check_belief(work, tenure, &records[j]);
                tenure->killed = killed_at(work, tenure->client);
                work->tenure_count++;
        }
}

static void collect_breaks(struct work *work)
{
        for (size_t i = 0; i < work->tenure_count; i++)
                if (work->tenures[i].deed == DID_BREAK)
                        work->breaks[work->break_count++] = &work->tenures[i];
}

/* ---- the checks ----------------------------------------------------------------------------------------------- */

static bool is_grant(const struct tenure *tenure)
{
        return tenure->deed == DID_ACQUIRE && tenure->granted != NEVER;
}

static int by_token(const void *left, const void *right)
{
        const struct point *a = left, *b = right;

        return (a->tenure->token > b->tenure->token) - (a->tenure->token < b->tenure->token);
}

static int by_time(const void *left, const void *right)
{
        const struct point *a = left, *b = right;
        int order = compare(a->lock, b->lock);

        if (order == 0)
                order = compare(a->at, b->at);
        return order != 0 ? order : compare(a->rank, b->rank);
}

static void check_tokens(struct work *work, struct point *points)
{
        size_t count = 0;

        for (size_t i = 0; i < work->tenure_count; i++)
                if (is_grant(&work->tenures[i]))
                        points[count++] = (struct point){.tenure = &work->tenures[i]};
        qsort(points, count, sizeof *points, by_token);
        for (size_t i = 0; i < count; i++) {
                uint64_t token = points[i].tenure->token;

                if (token == 0 || token > INT64_MAX)
                        found(work->findings, INVARIANT_TOKEN_RANGE, "token %" PRIu64 ", client %u, op %u", token,
                              points[i].tenure->client, points[i].tenure->op);
                if (i > 0 && token == points[i - 1].tenure->token)
                        found(work->findings, INVARIANT_TOKEN_TWICE, "token %" PRIu64 ", clients %u and %u", token,
                              points[i - 1].tenure->client, points[i].tenure->client);
        }
        work->findings->grants += count;
}

enum { RANK_ASK = 0, RANK_KNOWN = 1 };

/* A grant that was asked for after another was known has a greater token than that. */
static void sweep_order(struct work *work, struct point *points, size_t count, enum invariant invariant)
{
        const struct tenure *highest = NULL;

        qsort(points, count, sizeof *points, by_time);
        for (size_t i = 0; i < count; i++) {
                const struct tenure *tenure = points[i].tenure;

                if (i > 0 && points[i].lock != points[i - 1].lock)
                        highest = NULL;
                if (points[i].rank == RANK_KNOWN) {
                        if (!highest || tenure->token > highest->token)
                                highest = tenure;
                } else if (highest && tenure->token <= highest->token && tenure != highest) {
                        found(work->findings, invariant,
                              "lock %u: client %u, op %u has %" PRIu64 " after %" PRIu64 " of client %u, op %u",
                              tenure->lock, tenure->client, tenure->op, tenure->token, highest->token, highest->client,
                              highest->op);
                }
        }
}

static void check_order(struct work *work, struct point *points, bool across)
{
        size_t count = 0;

        for (size_t i = 0; i < work->tenure_count; i++) {
                const struct tenure *tenure = &work->tenures[i];
                uint32_t lock = across ? 0 : tenure->lock;

                if (!is_grant(tenure))
                        continue;
                points[count++] = (struct point){lock, RANK_ASK, tenure->invoked, tenure};
                points[count++] = (struct point){lock, RANK_KNOWN, tenure->granted, tenure};
        }
        sweep_order(work, points, count, across ? INVARIANT_TOKEN_ORDER_ACROSS : INVARIANT_TOKEN_ORDER);
}

/* The same, but known as soon as it stood in the queue. */
static void check_queue(struct work *work, struct point *points)
{
        size_t count = 0;

        for (size_t i = 0; i < work->tenure_count; i++) {
                const struct tenure *tenure = &work->tenures[i];

                if (!is_grant(tenure))
                        continue;
                points[count++] = (struct point){tenure->lock, RANK_ASK, tenure->invoked, tenure};
                if (tenure->queued != NEVER)
                        points[count++] = (struct point){tenure->lock, RANK_KNOWN, tenure->queued, tenure};
        }
        sweep_order(work, points, count, INVARIANT_QUEUE_JUMPED);
}

/* A break cuts holders off at some moment between its call and its return; also one that the store has granted the lock
 * and that does not know yet. */
static int64_t broken_at(const struct work *work, const struct tenure *tenure)
{
        int64_t at = NEVER;

        for (size_t i = 0; i < work->break_count; i++) {
                const struct tenure *breaker = work->breaks[i];

                if (breaker->lock == tenure->lock && breaker->let_go >= tenure->invoked)
                        at = least(at, most(breaker->letting_go, tenure->granted));
        }
        return at;
}

/* Until when a holder was entitled to think itself the holder. A release that said OK said "held until now". */
static int64_t entitled_until(const struct work *work, const struct tenure *tenure)
{
        int64_t end = most(tenure->valid_least, tenure->believed);

        if (tenure->release_status == PAWL_OK)
                end = tenure->letting_go;
        end = least(end, tenure->letting_go);
        end = least(end, tenure->lost);
        if (!(tenure->flags & TENURE_DETACHED))
                end = least(end, tenure->killed);
        return least(end, broken_at(work, tenure));
}

enum { RANK_END = 0, RANK_BEGIN = 1 };

struct crowd {
        uint32_t exclusive;
        uint32_t shared;
        const struct tenure *last; /* who came last, for the sentence */
};

static void join(struct work *work, struct crowd *crowd, const struct tenure *tenure)
{
        if (tenure->mode == PAWL_EXCLUSIVE)
                crowd->exclusive++;
        else
                crowd->shared++;
        if (crowd->exclusive > 1 || (crowd->exclusive == 1 && crowd->shared > 0))
                found(work->findings, INVARIANT_TWO_HOLDERS,
                      "lock %u: client %u, op %u (token %" PRIu64 ") and client %u, op %u (token %" PRIu64 ")",
                      tenure->lock, tenure->client, tenure->op, tenure->token, crowd->last ? crowd->last->client : 0,
                      crowd->last ? crowd->last->op : 0, crowd->last ? crowd->last->token : 0);
        else if (tenure->limit > 0 && crowd->shared > tenure->limit)
                found(work->findings, INVARIANT_TOO_MANY, "lock %u: %u holders, client %u, op %u came last",
                      tenure->lock, crowd->shared, tenure->client, tenure->op);
        crowd->last = tenure;
}

static void check_overlap(struct work *work, struct point *points)
{
        struct crowd crowd = {0};
        size_t count = 0;

        for (size_t i = 0; i < work->tenure_count; i++) {
                const struct tenure *tenure = &work->tenures[i];
                int64_t end = is_grant(tenure) ? entitled_until(work, tenure) : 0;

                if (!is_grant(tenure) || end <= tenure->granted)
                        continue;
                points[count++] = (struct point){tenure->lock, RANK_BEGIN, tenure->granted, tenure};
                points[count++] = (struct point){tenure->lock, RANK_END, end, tenure};
        }
        qsort(points, count, sizeof *points, by_time);
        for (size_t i = 0; i < count; i++) {
                if (i > 0 && points[i].lock != points[i - 1].lock)
                        crowd = (struct crowd){0};
                if (points[i].rank == RANK_BEGIN)
                        join(work, &crowd, points[i].tenure);
                else if (points[i].tenure->mode == PAWL_EXCLUSIVE)
                        crowd.exclusive--;
                else
                        crowd.shared--;
        }
}

static void check_answers(struct work *work)
{
        for (size_t i = 0; i < work->tenure_count; i++) {
                const struct tenure *tenure = &work->tenures[i];

                if (tenure->deed != DID_ACQUIRE)
                        continue;
                if (tenure->invoked == NEVER)
                        found(work->findings, INVARIANT_NONSENSE, "client %u, op %u: nothing was asked", tenure->client,
                              tenure->op);
                else if (tenure->answers == 0 && tenure->killed == NEVER)
                        found(work->findings, INVARIANT_NO_ANSWER, "lock %u: client %u, op %u", tenure->lock,
                              tenure->client, tenure->op);
                work->findings->refusals += tenure->refused != NEVER;
                work->findings->losses += tenure->lost != NEVER;
        }
}

/* ---- liveness ------------------------------------------------------------------------------------------------- */

/* When a lock that was granted was free again at the latest. */
static int64_t surely_free_at(const struct tenure *tenure)
{
        if (tenure->let_go != NEVER)
                return tenure->let_go;
        if (tenure->flags & TENURE_DETACHED)
                return tenure->valid_most;
        return least(tenure->killed, most(tenure->valid_most, tenure->believed));
}

static int64_t waited_until(const struct work *work, const struct tenure *tenure)
{
        return least(least(tenure->granted, tenure->refused), least(tenure->killed, work->end));
}

static int by_start(const void *left, const void *right)
{
        const struct span *a = left, *b = right;

        return compare(a->from, b->from);
}

/* Joins overlapping spans in place; they are sorted afterwards. */
static size_t merge_spans(struct span *spans, size_t count)
{
        size_t merged = 0;

        qsort(spans, count, sizeof *spans, by_start);
        for (size_t i = 0; i < count; i++) {
                if (merged > 0 && spans[i].from <= spans[merged - 1].to)
                        spans[merged - 1].to = most(spans[merged - 1].to, spans[i].to);
                else
                        spans[merged++] = spans[i];
        }
        return merged;
}

/* The longest stretch of from..to that no span covers. */
static int64_t longest_hole(const struct span *spans, size_t count, int64_t from, int64_t to)
{
        size_t low = 0, high = count;
        int64_t hole = 0;

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (spans[middle].to < from)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (; low < count && spans[low].from < to; low++) {
                hole = most(hole, spans[low].from - from);
                from = most(from, spans[low].to);
        }
        return most(hole, to - from);
}

/* One lock's tenures: nobody waits long while it is free. Stopped processes may be granted it and not answer. */
static void check_gaps_of(struct work *work, const struct tenure *tenures, size_t count, struct span *spans)
{
        size_t covered = 0;

        for (size_t i = 0; i < count; i++)
                if (is_grant(&tenures[i]))
                        spans[covered++] = (struct span){tenures[i].granted, surely_free_at(&tenures[i])};
        memcpy(spans + covered, work->stops, work->stop_count * sizeof *spans);
        covered = merge_spans(spans, covered + work->stop_count);
        for (size_t i = 0; i < count; i++) {
                int64_t gap;

                if (tenures[i].deed != DID_ACQUIRE || tenures[i].invoked == NEVER)
                        continue;
                gap = longest_hole(spans, covered, tenures[i].invoked, waited_until(work, &tenures[i]));
                work->findings->longest_gap = most(work->findings->longest_gap, gap);
                if (gap > STUCK_AFTER)
                        found(work->findings, INVARIANT_STUCK, "lock %u: client %u, op %u saw %" PRId64 " ms",
                              tenures[i].lock, tenures[i].client, tenures[i].op, gap / MS);
        }
}

/* Seen in the queue, or asked long enough ago to stand in it. */
static bool is_queued_by(const struct tenure *tenure, int64_t at)
{
        return tenure->deed == DID_ACQUIRE && (tenure->queued < at || tenure->invoked < at - 5 * MS);
}

/* Was somebody waiting when the holder died who is not dead itself? */
static bool somebody_waits(const struct tenure *tenures, size_t count, int64_t at, int64_t until)
{
        for (size_t i = 0; i < count; i++)
                if (is_queued_by(&tenures[i], at) && least(tenures[i].granted, tenures[i].refused) >= until &&
                    tenures[i].killed > until)
                        return true;
        return false;
}

static bool died_holding(const struct tenure *tenure)
{
        return is_grant(tenure) && tenure->mode == PAWL_EXCLUSIVE && !(tenure->flags & TENURE_DETACHED) &&
               tenure->killed != NEVER && tenure->killed > tenure->granted && tenure->letting_go == NEVER &&
               tenure->lost == NEVER && tenure->valid_least > tenure->killed;
}

/* Tenures are sorted by grant, so the next grant is the next in the array. */
static void measure_deaths_of(struct work *work, const struct tenure *tenures, size_t count)
{
        for (size_t i = 0; i + 1 < count; i++) {
                const struct tenure *next = &tenures[i + 1];

                if (!died_holding(&tenures[i]) || !is_grant(next) || next->granted < tenures[i].killed)
                        continue;
                if (somebody_waits(tenures, count, tenures[i].killed, next->granted))
                        work->findings->deaths[work->findings->death_count++] = next->granted - tenures[i].killed;
        }
}

static int by_lock(const void *left, const void *right)
{
        const struct tenure *a = left, *b = right;
        int order = compare(a->lock, b->lock);

        return order != 0 ? order : compare(a->granted, b->granted);
}

static int by_value(const void *left, const void *right)
{
        return compare(*(const int64_t *)left, *(const int64_t *)right);
}

static void check_liveness(struct work *work, struct span *spans)
{
        struct findings *findings = work->findings;
        size_t next;

        for (size_t i = 0; i < work->tenure_count; i = next) {
                for (next = i; next < work->tenure_count && work->tenures[next].lock == work->tenures[i].lock; next++)
                        ;
                check_gaps_of(work, work->tenures + i, next - i, spans);
                measure_deaths_of(work, work->tenures + i, next - i);
        }
        if (findings->death_count > 0)
                qsort(findings->deaths, findings->death_count, sizeof *findings->deaths, by_value);
}

/* ---- outside -------------------------------------------------------------------------------------------------- */

bool check_history(struct record *records, size_t count, struct findings *findings)
{
        struct work work = {.findings = findings};
        struct point *points = calloc(2 * count + 1, sizeof *points);
        struct span *spans = calloc(2 * count + 1, sizeof *spans);
        bool good = false;

        work.tenures = calloc(count + 1, sizeof *work.tenures);
        work.deaths = calloc(count + 1, sizeof *work.deaths);
        work.stops = calloc(count + 1, sizeof *work.stops);
        work.breaks = calloc(count + 1, sizeof *work.breaks);
        free(findings->deaths);
        findings->deaths = calloc(count + 1, sizeof *findings->deaths);
        findings->death_count = 0;
        if (!points || !spans || !work.tenures || !work.deaths || !work.stops || !work.breaks || !findings->deaths)
                goto out;
        if (count > 0)
                qsort(records, count, sizeof *records, by_claim);
        collect_faults(&work, records, count);
        collect_tenures(&work, records, count);
        qsort(work.tenures, work.tenure_count, sizeof *work.tenures, by_lock);
        collect_breaks(&work);
        check_answers(&work);
        check_tokens(&work, points);
        check_order(&work, points, false);
        check_order(&work, points, true);
        check_queue(&work, points);
        check_overlap(&work, points);
        check_liveness(&work, spans);
        good = true;
out:
        free(work.tenures);
        free(work.deaths);
        free(work.stops);
        free(work.breaks);
        free(points);
        free(spans);
        return good;
}

void check_effects(const struct effect *log, uint64_t count, struct findings *findings)
{
        for (uint64_t i = 0; i < count; i++) {
                uint64_t before = i == 0 ? 0 : log[i - 1].wrote;

                if (i > 0 && log[i].token < log[i - 1].token)
                        found(findings, INVARIANT_TOKENS_FALL, "%" PRIu64 " (client %u) after %" PRIu64 " (client %u)",
                              log[i].token, log[i].client, log[i - 1].token, log[i - 1].client);
                if (log[i].read != before)
                        found(findings, INVARIANT_LOST_UPDATE,
                              "client %u, op %u read %" PRIu64 ", but client %u, op %u had written %" PRIu64,
                              log[i].client, log[i].op, log[i].read, i ? log[i - 1].client : 0, i ? log[i - 1].op : 0,
                              before);
        }
        findings->effects += count;
}

void check_resource(const struct resource *resource, struct findings *findings)
{
        for (unsigned name = 0; name < RESOURCE_NAMES; name++) {
                struct counter *fenced = &resource->map->fenced[name];
                struct counter *twin = &resource->map->twin[name];
                uint64_t twins = atomic_load(&twin->count);

                check_effects(fenced->log, atomic_load(&fenced->count), findings);
                findings->stale_refused += atomic_load(&fenced->refused);
                findings->twin_effects += twins;
                for (uint64_t i = 1; i < twins; i++)
                        findings->twin_lost += twin->log[i].read != twin->log[i - 1].wrote;
        }
}

uint64_t findings_total(const struct findings *findings)
{
        uint64_t total = 0;

        for (int i = 0; i < INVARIANT_COUNT; i++)
                total += findings->violations[i];
        return total;
}

int64_t quantile(const int64_t *sorted, size_t count, double share)
{
        size_t place = (size_t)((double)count * share);

        if (count == 0)
                return 0;
        return sorted[place < count ? place : count - 1];
}

void findings_print(const struct findings *findings, FILE *out)
{
        fprintf(out,
                "# %" PRIu64 " kills, %" PRIu64 " stops, %" PRIu64 " grants, %" PRIu64 " refusals, %" PRIu64
                " losses, %" PRIu64 " fenced updates, %" PRIu64 " stale steps refused: %" PRIu64 " violations\n",
                findings->kills, findings->stops, findings->grants, findings->refusals, findings->losses,
                findings->effects, findings->stale_refused, findings_total(findings));
        fprintf(out, "# longest time a lock stayed free while somebody waited: %.1f ms\n",
                (double)findings->longest_gap / 1e6);
        if (findings->death_count > 0)
                fprintf(out, "# holder killed -> next grant, %zu times: median %.2f ms, p95 %.2f ms, longest %.2f ms\n",
                        findings->death_count, (double)quantile(findings->deaths, findings->death_count, 0.5) / 1e6,
                        (double)quantile(findings->deaths, findings->death_count, 0.95) / 1e6,
                        (double)findings->deaths[findings->death_count - 1] / 1e6);
        if (findings->twin_effects > 0)
                fprintf(out, "# the unfenced twin lost %" PRIu64 " of %" PRIu64 " updates\n", findings->twin_lost,
                        findings->twin_effects);
        for (int i = 0; i < INVARIANT_COUNT; i++)
                if (findings->violations[i] > 0)
                        fprintf(out, "# VIOLATED %" PRIu64 " times: %s; first: %s\n", findings->violations[i],
                                invariant_texts[i], findings->first[i]);
}

void findings_free(struct findings *findings)
{
        free(findings->deaths);
        findings->deaths = NULL;
}
