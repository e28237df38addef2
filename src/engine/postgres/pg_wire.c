/* pg_wire.c - one connection: statements out, results in, in their order; coming back after a loss. libpq speaks, on
 * our loop: nothing here waits. Each statement is followed by a sync of its own, so that one that fails takes no other
 * along. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

static struct loop *loop_of(const struct wire *wire)
{
        return wire->postgres->engine.host->loop;
}

static bool is_failing(const struct wire *wire)
{
        return wire->failing.at != NEVER;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void value_add(struct values *values, const char *value, int length, int format)
{
        values->value[values->count] = value;
        values->length[values->count] = length;
        values->format[values->count++] = format;
}

void value_text(struct values *values, const char *text)
{
        value_add(values, text, 0, 0);
}

/* By hand: several of them go with each request, and printf takes longer than all the rest of writing it. */
void value_number(struct values *values, int64_t number)
{
        char *room = values->number[values->count];
        char *at = room + sizeof(values->number[0]) - 1;
        uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;

        *at = '\0';
        do {
                *--at = (char)('0' + left % 10);
                left /= 10;
        } while (left > 0);
        if (number < 0)
                *--at = '-';
        value_add(values, at, 0, 0);
}

void value_bool(struct values *values, bool yes)
{
        value_add(values, yes ? "t" : "f", 0, 0);
}

void value_bytes(struct values *values, const void *bytes, size_t size)
{
        value_add(values, size ? bytes : NULL, (int)size, 1);
}

static void big_endian(uint64_t number, char *bytes)
{
        for (int i = 7; i >= 0; i--, number >>= 8)
                bytes[i] = (char)(number & 255);
}

void value_uid(struct values *values, const uint64_t uid[2])
{
        char *room = values->number[values->count];

        big_endian(uid[0], room);
        big_endian(uid[1], room + 8);
        value_add(values, room, 16, 1);
}

const char *row_text(const PGresult *rows, int row, int column)
{
        return row < PQntuples(rows) && column < PQnfields(rows) ? PQgetvalue(rows, row, column) : "";
}

bool row_bool(const PGresult *rows, int row, int column)
{
        return *row_text(rows, row, column) == 't';
}

bool row_uid(const PGresult *rows, int row, int column, uint64_t uid[2])
{
        const char *text = row_text(rows, row, column);
        char digits[33];
        size_t count = 0;

        for (; *text; text++) {
                if (*text == '-')
                        continue;
                if (count == 32)
                        return false;
                digits[count++] = *text;
        }
        digits[count] = '\0';
        return count == 32 && uid_read(digits, uid);
}

int64_t row_number(const PGresult *rows, int row, int column)
{
        return strtoll(row_text(rows, row, column), NULL, 10);
}

int64_t row_binary_number(const PGresult *rows, int row, int column)
{
        uint64_t number = 0;

        if (row >= PQntuples(rows) || column >= PQnfields(rows) || PQgetlength(rows, row, column) != 8)
                return 0;
        for (int i = 0; i < 8; i++)
                number = number << 8 | (unsigned char)PQgetvalue(rows, row, column)[i];
        return (int64_t)number;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* When the first of those asked is overdue. A long line of requests that moves is not. */
static int64_t due_at(const struct wire *wire)
{
        const struct ask *first = list_first(&wire->asked, struct ask, listed);

        return (first->sent_at > wire->heard_at ? first->sent_at : wire->heard_at) + wire->postgres->timeout;
}

static void watch_time(struct wire *wire)
{
        if (wire->limit.at != NEVER || list_empty(&wire->asked) || wire->patient)
                return;
        loop_set(loop_of(wire), &wire->limit, due_at(wire)); /* moving: cannot fail */
}

static void connect_late(struct wire *wire);

/* The timer is not moved with each request: it fires, finds that all is well, and goes on from there. */
static void limit_reached(struct timer *timer)
{
        struct wire *wire = container_of(timer, struct wire, limit);
        struct loop *loop = loop_of(wire);

        loop_set(loop, timer, NEVER); /* at once, while the heap still has the room it left: cannot fail */
        if (wire->state == DOWN || is_failing(wire))
                return;
        if (wire->state < GREETING || wire->state == INSTALLING) {
                connect_late(wire);
                return;
        }
        if (list_empty(&wire->asked) || wire->patient)
                return;
        if (loop_now(loop) < due_at(wire))
                watch_time(wire);
        else
                wire_fail(wire, PAWL_UNREACHABLE, "%s: no answer for %lld ms", wire->postgres->where,
                          (long long)(wire->postgres->timeout / MS));
}

static void expect(struct wire *wire, bool expected)
{
        if (expected && (wire->state != READY || is_failing(wire)))
                expected = false;
        if (wire->expecting == expected)
                return;
        wire->expecting = expected;
        loop_expect(loop_of(wire), &wire->hot, expected);
}

static void watch_for(struct wire *wire, uint32_t events)
{
        int error;

        if (wire->watched && wire->watch.events == events)
                return;
        wire->watch.events = events;
        error = wire->watched ? loop_rewatch(loop_of(wire), &wire->watch) : loop_watch(loop_of(wire), &wire->watch);
        wire->watched = error == 0;
        if (error)
                wire_fail(wire, PAWL_SYSTEM, "%s: the connection cannot be watched: %s", wire->postgres->where,
                          strerrorname_np(error));
}

static int connection_lost(struct wire *wire)
{
        struct pawl_why why;

        error_of_connection(wire->postgres, wire->conn, &why);
        wire_fail(wire, why.code, "%s", why.text);
        return why.code == PAWL_NO_MEMORY ? PAWL_NO_MEMORY : PAWL_UNREACHABLE;
}

void wire_flush(struct wire *wire)
{
        int left = PQflush(wire->conn);

        if (left < 0)
                connection_lost(wire);
        else
                watch_for(wire, left ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* The first statement of a connection. It is not prepared: where a pooler stands in between, its name may be taken by
 * another client's. The role's own statement_timeout does not count, and nothing of other roles is found: its own
 * search_path has public in it, where anybody may have put a function or an operator that fits better than the
 * server's. SET itself looks nothing up. */
static bool send_first(struct wire *wire, enum sql sql, const struct values *values)
{
        return PQsendQueryParams(wire->conn, "SET statement_timeout TO 0", 0, NULL, NULL, NULL, NULL, 0) &&
               PQsendQueryParams(wire->conn, "SET search_path TO pg_catalog", 0, NULL, NULL, NULL, NULL, 0) &&
               PQsendQueryParams(wire->conn, sql_text[sql], values->count, NULL, values->value, values->length,
                                 values->format, 0);
}

static bool send_statement(struct wire *wire, struct ask *ask, enum sql sql, const struct values *values)
{
        const char *name = sql_name[sql];

        if (sql == SQL_SETTINGS || sql == SQL_EXAMINE)
                return send_first(wire, sql, values);
        ask->prepares = !(wire->prepared & UINT64_C(1) << sql);
        return (!ask->prepares || PQsendPrepare(wire->conn, name, sql_text[sql], 0, NULL)) &&
               PQsendQueryPrepared(wire->conn, name, values->count, values->value, values->length, values->format,
                                   sql == SQL_FETCH);
}

int wire_send(struct wire *wire, struct ask *ask, enum sql sql, const struct values *values)
{
        ask->sql = sql;
        ask->prepares = false;
        if (!send_statement(wire, ask, sql, values) || !PQpipelineSync(wire->conn))
                return connection_lost(wire); /* what was sent of it cannot be taken back */
        wire->prepared |= UINT64_C(1) << sql;
        return PAWL_OK;
}

static void nobody_hears(struct ask *ask, const PGresult *rows, const struct pawl_why *why);

/* A statement of our own in the same flight as another, whose answer no claim needs. */
struct beside {
        struct ask ask; /* first */
        struct wire *wire;
};

static bool send_beside(struct wire *wire, enum sql sql, const struct values *values,
                        void (*answered)(struct ask *, const PGresult *, const struct pawl_why *))
{
        struct beside *beside = calloc(1, sizeof(*beside));

        if (!beside)
                return false;
        beside->wire = wire;
        beside->ask.answered = answered;
        beside->ask.sent_at = loop_now(loop_of(wire));
        list_init(&beside->ask.listed);
        if (wire_send(wire, &beside->ask, sql, values) != PAWL_OK) {
                free(beside);
                return false;
        }
        list_append(&wire->asked, &beside->ask.listed);
        return true;
}

/* ---- news behind a hand-over --------------------------------------------------------------------------------------- */

/* From then on those who were granted something have looked by themselves (LOOK_MOST in pg_wait.c). */
#define NEWS_LAST (20 * SECOND)

/* It failed, and the session still has the news: others that commit with a NOTIFY have kept it waiting for longer than
 * lock_timeout, or somebody has cancelled it. Once more in a while: who was granted the lock does not know it yet. */
static void told_others(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct wire *wire = container_of(ask, struct beside, ask)->wire;
        int64_t now = loop_now(loop_of(wire));

        (void)rows;
        if (!why) {
                wire->untold_since = 0;
        } else if (wire->state == READY && !is_failing(wire)) {
                if (!wire->untold_since)
                        wire->untold_since = now;
                wire->untold = now - wire->untold_since < NEWS_LAST;
                if (wire->untold)
                        retry_later(wire->postgres);
                else
                        wire->untold_since = 0;
        }
        free(ask);
}

/* Without memory: who was granted it looks by itself, later. */
static void send_news(struct wire *wire)
{
        wire->untold = false;
        send_beside(wire, SQL_TELL, &(struct values){.count = 0}, told_others);
}

void wire_tell_again(struct wire *wire)
{
        if (!wire->untold || wire->state != READY || is_failing(wire))
                return;
        send_news(wire);
        watch_time(wire);
        wire_flush(wire);
}

/* Another bound than the server has: said before what it is for. Without memory the next time. */
static void send_bound(struct wire *wire)
{
        struct values values = {.count = 0};

        value_number(&values, wire->postgres->lock_limit / MS);
        if (send_beside(wire, SQL_BOUND, &values, nobody_hears))
                wire->lock_limit = wire->postgres->lock_limit;
}

enum { BOUNDS_IN_TTL = 12 };
#define BOUND_LEAST (5 * MS)

/* A renewal is sent when a third of the lease is over, and has the next third to arrive. In front of it there may be
 * several statements, each of which waits for a row. */
void postgres_bound(struct postgres *postgres, int64_t ttl)
{
        int64_t bound = ttl / BOUNDS_IN_TTL;

        if (bound > postgres->timeout / 4)
                bound = postgres->timeout / 4;
        if (bound < BOUND_LEAST)
                bound = BOUND_LEAST;
        if (bound < postgres->lock_limit)
                postgres->lock_limit = bound;
}

static int send_ask(struct wire *wire, struct ask *ask)
{
        bool idle = list_empty(&wire->asked);
        int code;

        if (wire->state == READY && !wire->looks && wire->lock_limit != wire->postgres->lock_limit)
                send_bound(wire);
        ask->sent_at = loop_now(loop_of(wire));
        ask->result = NULL;
        code = ask->write(ask, wire);
        if (code != PAWL_OK)
                return code;
        list_append(&wire->asked, &ask->listed);
        if (ask->tells)
                send_news(wire);
        watch_time(wire);
        wire_flush(wire);
        if (idle && !wire->patient)
                expect(wire, true);
        return PAWL_OK;
}

int wire_ask(struct wire *wire, struct ask *ask)
{
        bool hello = ask == &wire->hello;

        if (is_failing(wire) || (!hello && wire->state != READY) || wire->state == DOWN)
                return PAWL_UNREACHABLE;
        return send_ask(wire, ask);
}

/* Somebody must be there when the rows come. */
static void nobody_hears(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        (void)rows;
        (void)why;
        free(ask);
}

void wire_forget(struct wire *wire, struct ask *ask)
{
        struct ask *stand_in = calloc(1, sizeof(*stand_in));

        if (!stand_in) { /* results could no longer be told apart */
                list_remove(&ask->listed);
                PQclear(ask->result);
                ask->result = NULL;
                wire_fail(wire, PAWL_NO_MEMORY, "%s: no memory", wire->postgres->where);
                return;
        }
        *stand_in = (struct ask){.answered = nobody_hears,
                                 .sent_at = ask->sent_at,
                                 .result = ask->result,
                                 .sql = ask->sql,
                                 .prepares = ask->prepares};
        ask->result = NULL;
        list_append(ask->listed.next, &stand_in->listed); /* before the next: in its place */
        list_remove(&ask->listed);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void answer(struct wire *wire)
{
        struct ask *ask = list_first(&wire->asked, struct ask, listed);
        PGresult *result = ask->result;
        struct pawl_why why;

        list_remove(&ask->listed);
        ask->result = NULL;
        wire->heard_at = loop_now(loop_of(wire));
        if (result && PQresultStatus(result) == PGRES_TUPLES_OK) {
                ask->answered(ask, result, NULL);
        } else {
                if (result)
                        error_of_result(wire->postgres, result, &why);
                else
                        why_set(&why, PAWL_UNREACHABLE, "%s: an answer makes no sense", wire->postgres->where);
                if (ask->prepares || error_is(result, "26000")) /* it is not prepared after all */
                        wire->prepared &= ~(UINT64_C(1) << ask->sql);
                ask->answered(ask, result, &why);
        }
        PQclear(result);
}

/* The statement's rows or error are kept; its sync ends it. What follows an error in the same flight was not done. */
static void take_result(struct wire *wire, PGresult *result)
{
        struct ask *ask = list_first(&wire->asked, struct ask, listed);

        switch (PQresultStatus(result)) {
        case PGRES_PIPELINE_SYNC:
                PQclear(result);
                answer(wire);
                return;
        case PGRES_COMMAND_OK:
                if (ask->prepares)
                        ask->prepares = false;
                PQclear(result);
                return;
        case PGRES_PIPELINE_ABORTED:
                PQclear(result);
                return;
        default:
                if (ask->result)
                        PQclear(result);
                else
                        ask->result = result;
        }
}

static void take_news(struct wire *wire)
{
        PGnotify *news;

        while (!is_failing(wire) && wire->conn && (news = PQnotifies(wire->conn)) != NULL) {
                if (wire->events->told)
                        wire->events->told(wire, news->extra);
                PQfreemem(news);
        }
}

static void take_installation(struct wire *wire)
{
        PGresult *result;

        while (!is_failing(wire) && wire->state == INSTALLING && !PQisBusy(wire->conn)) {
                result = PQgetResult(wire->conn);
                hello_installed(wire, result); /* NULL: that was the last */
                PQclear(result);
        }
}

static void take(struct wire *wire)
{
        if (!PQconsumeInput(wire->conn)) {
                connection_lost(wire);
                return;
        }
        take_installation(wire);
        while (!is_failing(wire) && !list_empty(&wire->asked) && !PQisBusy(wire->conn)) {
                PGresult *result = PQgetResult(wire->conn);

                if (result)
                        take_result(wire, result);
        }
        take_news(wire);
        if (is_failing(wire))
                return;
        if (PQstatus(wire->conn) != CONNECTION_OK) {
                connection_lost(wire);
                return;
        }
        wire_flush(wire);
        if (list_empty(&wire->asked))
                expect(wire, false);
}

/* Without the loop: nobody changes what is used here meanwhile; a connection that fails is closed in a turn. */
static bool hot_wait(struct loop_hot *hot)
{
        struct wire *wire = container_of(hot, struct wire, hot);
        struct pollfd poll_fd = {.fd = wire->hot_fd, .events = POLLIN};

        wire->hot_found = poll(&poll_fd, 1, 4) > 0;
        return wire->hot_found;
}

static void hot_take(struct loop_hot *hot)
{
        struct wire *wire = container_of(hot, struct wire, hot);

        if (wire->hot_found && wire->state >= GREETING && !is_failing(wire))
                take(wire);
        wire->hot_found = false;
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static void keep_quiet(void *arg, const PGresult *result)
{
        (void)arg;
        (void)result;
}

static void connected(struct wire *wire)
{
        wire->met = true;
        wire->prepared = 0;
        wire->untold = false; /* what the last session had is gone with it */
        wire->untold_since = 0;
        wire->installed = false;
        wire->older = 0;
        wire->version = PQserverVersion(wire->conn);
        PQsetErrorVerbosity(wire->conn, PQERRORS_DEFAULT);
        if (PQsetnonblocking(wire->conn, 1) != 0 || !PQenterPipelineMode(wire->conn)) {
                connection_lost(wire);
                return;
        }
        wire->state = GREETING;
        watch_for(wire, EPOLLIN);
        hello_begin(wire);
}

/* libpq may have closed its socket and opened another, with the same number or not. */
static void follow_socket(struct wire *wire, uint32_t events)
{
        int fd = PQsocket(wire->conn);

        if (wire->watched && wire->watch.fd == fd) {
                wire->watch.events = events;
                wire->watched = loop_rewatch(loop_of(wire), &wire->watch) == 0;
        } else {
                if (wire->watched)
                        loop_unwatch(loop_of(wire), &wire->watch);
                wire->watch.fd = fd;
                wire->watch.events = events;
                wire->watched = fd >= 0 && loop_watch(loop_of(wire), &wire->watch) == 0;
        }
        if (!wire->watched)
                wire_fail(wire, PAWL_SYSTEM, "%s: the connection cannot be watched", wire->postgres->where);
}

static void drop_socket(struct wire *wire)
{
        expect(wire, false);
        if (wire->watched)
                loop_unwatch(loop_of(wire), &wire->watch);
        wire->watched = false;
        PQfinish(wire->conn);
        wire->conn = NULL;
}

/* This address came to nothing: to the next, if there is one and time is left. What the last one said is told. */
static void connect_next(struct wire *wire, const struct pawl_why *why)
{
        if (wire->tried >= wire->found || loop_now(loop_of(wire)) >= wire->until) {
                wire_fail(wire, why->code, "%s", why->text);
                return;
        }
        drop_socket(wire);
        if (wire_connect(wire) != PAWL_OK)
                wire_fail(wire, PAWL_NO_MEMORY, "%s: no memory", wire->postgres->where);
}

static void connect_failed(struct wire *wire)
{
        struct pawl_why why;

        wire->met = wire->met || PQbackendPID(wire->conn) != 0 || PQserverVersion(wire->conn) != 0;
        error_of_connecting(wire->postgres, wire->conn, &why);
        connect_next(wire, &why);
}

static void connect_late(struct wire *wire)
{
        struct pawl_why why;

        why_set(&why, PAWL_UNREACHABLE, "%s: no connection within %lld ms", wire->postgres->where,
                (long long)(wire->postgres->timeout / MS));
        if (wire->state == CONNECTING)
                connect_next(wire, &why);
        else
                wire_fail(wire, why.code, "%s", why.text);
}

static void connect_on(struct wire *wire)
{
        switch (PQconnectPoll(wire->conn)) {
        case PGRES_POLLING_READING:
                wire->met = true; /* it was spoken to; one that hangs up now may be there the next time */
                follow_socket(wire, EPOLLIN);
                break;
        case PGRES_POLLING_WRITING:
                follow_socket(wire, EPOLLOUT);
                break;
        case PGRES_POLLING_OK:
                follow_socket(wire, EPOLLIN);
                if (!is_failing(wire))
                        connected(wire);
                break;
        default:
                connect_failed(wire);
        }
}

static void ready(struct watch *watch, uint32_t events)
{
        struct wire *wire = container_of(watch, struct wire, watch);

        if (is_failing(wire))
                return;
        if (wire->state == CONNECTING) {
                connect_on(wire);
                return;
        }
        if (events & EPOLLOUT)
                wire_flush(wire);
        if (!is_failing(wire) && events & ~(uint32_t)EPOLLOUT)
                take(wire);
}

/* libpq would try one address after the other itself, but without a time limit for each: a server that says nothing would
 * stand in the way of those behind it. */
struct address {
        char *host, *address, *port;
};

static bool copy_item(const char *list, uint32_t index, char **item)
{
        size_t length;
        const char *found = item_of(list, index, &length);

        *item = strndup(found ? found : "", length);
        return *item != NULL;
}

static PGconn *start(const struct pq_params *params, const struct address *to)
{
        const char *const own[][2] = {{"host", to->host}, {"hostaddr", to->address}, {"port", to->port}};
        const char *keywords[PQ_PARAMS_MAX + 4];
        const char *values[PQ_PARAMS_MAX + 4];
        uint32_t count = 0;

        for (uint32_t i = 0; i < params->count; i++) {
                const char *keyword = params->keywords[i];

                if (to->host && (!strcmp(keyword, "host") || !strcmp(keyword, "hostaddr") || !strcmp(keyword, "port")))
                        continue;
                keywords[count] = keyword;
                values[count++] = params->values[i];
        }
        for (size_t i = 0; to->host && i < 3; i++) {
                keywords[count] = own[i][0];
                values[count++] = own[i][1];
        }
        keywords[count] = values[count] = NULL;
        return PQconnectStartParams(keywords, values, 0);
}

int wire_connect(struct wire *wire)
{
        struct loop *loop = loop_of(wire);
        struct address to = {0};
        uint32_t left = wire->found > wire->tried ? wire->found - wire->tried : 1;
        bool enough = !wire->hosts || (copy_item(wire->hosts, wire->tried, &to.host) &&
                                       copy_item(wire->addresses, wire->tried, &to.address) &&
                                       copy_item(wire->ports, wire->tried, &to.port));

        wire->conn = enough ? start(&wire->postgres->params, &to) : NULL;
        free(to.host);
        free(to.address);
        free(to.port);
        if (!wire->conn)
                return PAWL_NO_MEMORY;
        wire->tried++;
        PQsetNoticeReceiver(wire->conn, keep_quiet, NULL);
        PQsetErrorVerbosity(wire->conn, PQERRORS_VERBOSE); /* for the SQLSTATE of a refusal: error_of_connecting */
        wire->state = CONNECTING;
        loop_set(loop, &wire->limit, loop_now(loop) + (wire->until - loop_now(loop)) / left);
        if (PQstatus(wire->conn) == CONNECTION_BAD)
                connect_failed(wire);
        else
                follow_socket(wire, EPOLLOUT);
        return PAWL_OK;
}

void wire_be_ready(struct wire *wire)
{
        wire->state = READY;
        wire->hot_fd = wire->watch.fd; /* from now on others may read it */
        wire->ever = true;
        net_backoff_reset(&wire->backoff);
        wire->events->up(wire);
}

/* ---- connections that were given up ------------------------------------------------------------------------------ */

void former_add(struct former *former, uint64_t session, int64_t pid)
{
        for (size_t i = 0; i < former->count; i++)
                if (former->sessions[i] == session)
                        return;
        if (former->count == FORMER_MAX) {
                memmove(former->sessions, former->sessions + 1, sizeof(former->sessions) - sizeof(former->sessions[0]));
                memmove(former->pids, former->pids + 1, sizeof(former->pids) - sizeof(former->pids[0]));
                former->count--;
        }
        former->sessions[former->count] = session;
        former->pids[former->count++] = pid;
}

static void array_text(const int64_t *numbers, size_t count, char text[FORMER_TEXT])
{
        size_t at = 0;

        text[at++] = '{';
        for (size_t i = 0; i < count; i++)
                at += (size_t)snprintf(text + at, 22, "%s%lld", i ? "," : "", (long long)numbers[i]);
        text[at++] = '}';
        text[at] = '\0';
}

void former_sessions(const struct former *former, char text[FORMER_TEXT])
{
        int64_t numbers[FORMER_MAX];

        for (size_t i = 0; i < former->count; i++)
                numbers[i] = (int64_t)former->sessions[i];
        array_text(numbers, former->count, text);
}

void former_pids(const struct former *former, char text[FORMER_TEXT])
{
        array_text(former->pids, former->count, text);
}

/* ---- losing it, and coming back ---------------------------------------------------------------------------------- */

void wire_fail(struct wire *wire, int code, const char *format, ...)
{
        char text[sizeof(wire->why.text)];
        va_list args;

        if (wire->state == DOWN || is_failing(wire))
                return;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        why_set(&wire->why, code, "%s", text);
        expect(wire, false);
        loop_set(loop_of(wire), &wire->failing, loop_now(loop_of(wire))); /* moving: cannot fail */
}

static void drop_connection(struct wire *wire)
{
        drop_socket(wire);
        lookup_close(wire->lookup);
        wire->lookup = NULL;
        wire->state = DOWN;
}

static void answer_all(struct wire *wire)
{
        struct list asked;

        list_init(&asked);
        list_splice(&asked, &wire->asked);
        while (!list_empty(&asked)) {
                struct ask *ask = list_first(&asked, struct ask, listed);

                list_remove(&ask->listed);
                PQclear(ask->result);
                ask->result = NULL;
                if (ask != &wire->hello)
                        ask->answered(ask, NULL, &wire->why);
        }
}

static void connect_later(struct wire *wire)
{
        struct loop *loop = loop_of(wire);

        loop_set(loop, &wire->again, loop_now(loop) + net_backoff(&wire->backoff, loop));
}

static void failed(struct timer *timer)
{
        struct wire *wire = container_of(timer, struct wire, failing);
        bool was_ready = wire->state == READY;

        loop_set(loop_of(wire), timer, NEVER);
        loop_set(loop_of(wire), &wire->limit, NEVER);
        if (was_ready && !wire->looks && !list_empty(&wire->asked)) /* the server may be at it for long */
                former_add(&wire->postgres->earlier, wire->session, wire->pid);
        drop_connection(wire);
        if (was_ready)
                wire->lost_at = loop_now(loop_of(wire));
        if (wire->wanted) /* first: whoever asks again now must not connect without a pause */
                connect_later(wire);
        answer_all(wire);
        wire->events->down(wire, &wire->why, was_ready);
}

static void connect_now(struct wire *wire)
{
        struct loop *loop = loop_of(wire);

        wire->met = false;
        wire->state = RESOLVING;
        loop_random(loop, &wire->session, sizeof(wire->session));
        wire->session = (wire->session & INT64_MAX) | 1;
        wire->until = loop_now(loop) + wire->postgres->timeout;
        loop_set(loop, &wire->limit, wire->until);
        hello_resolve(wire);
}

static void connect_again(struct timer *timer)
{
        struct wire *wire = container_of(timer, struct wire, again);

        loop_set(loop_of(wire), timer, NEVER);
        if (wire->wanted && wire->state == DOWN)
                connect_now(wire);
        else if (wire->state == ENTERING)
                hello_earlier(wire);
}

void wire_want(struct wire *wire)
{
        wire->wanted = true;
        if (wire->state == DOWN && wire->again.at == NEVER)
                connect_now(wire);
}

/* All timers are set from now on, if only to NEVER: moving a set timer cannot fail. */
int wire_init(struct wire *wire, struct postgres *postgres, const struct wire_events *events)
{
        struct timer *timers[] = {&wire->limit, &wire->again, &wire->failing};

        wire->postgres = postgres;
        wire->events = events;
        wire->watch.fd = -1;
        wire->watch.ready = ready;
        wire->hot.wait = hot_wait;
        wire->hot.take = hot_take;
        list_init(&wire->asked);
        list_init(&wire->hello.listed);
        wire->limit.fire = limit_reached;
        wire->again.fire = connect_again;
        wire->failing.fire = failed;
        for (size_t i = 0; i < sizeof(timers) / sizeof(*timers); i++)
                if (loop_set(loop_of(wire), timers[i], NEVER) != 0)
                        return ENOMEM;
        return 0;
}

void wire_close(struct wire *wire)
{
        if (!wire->postgres)
                return;
        loop_unset(loop_of(wire), &wire->limit);
        loop_unset(loop_of(wire), &wire->again);
        loop_unset(loop_of(wire), &wire->failing);
        drop_connection(wire);
        while (!list_empty(&wire->asked)) {
                struct ask *ask = list_first(&wire->asked, struct ask, listed);

                list_remove(&ask->listed);
                PQclear(ask->result);
                ask->result = NULL;
                if (ask->answered == nobody_hears || ask->answered == told_others)
                        free(ask);
        }
        free(wire->hosts);
        free(wire->addresses);
        free(wire->ports);
        wire->postgres = NULL;
}
