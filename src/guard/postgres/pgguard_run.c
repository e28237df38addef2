/* pgguard_run.c - one call, from a connection to an answer. */
#include <endian.h>
#include <string.h>
#include <time.h>

#include "../../base/duration.h"
#include "pgguard.h"

enum { TEXT_TYPE = 25, NUMBER_TYPE = 20, BYTES_TYPE = 17 };

/* ---- values ---------------------------------------------------------------------------------------------------------- */

static void add(struct pgguard_call *call, Oid type, const void *bytes, size_t size)
{
        call->types[call->count] = type;
        call->values[call->count] = bytes;
        call->lengths[call->count] = (int)size;
        call->count++;
}

void pgguard_add_text(struct pgguard_call *call, const char *text)
{
        add(call, TEXT_TYPE, text, strlen(text));
}

void pgguard_add_number(struct pgguard_call *call, uint64_t number, uint64_t *room)
{
        *room = htobe64(number);
        add(call, NUMBER_TYPE, room, sizeof(*room));
}

void pgguard_add_bytes(struct pgguard_call *call, const void *bytes, size_t size)
{
        add(call, BYTES_TYPE, size > 0 ? bytes : "", size);
}

bool pgguard_has(const PGresult *result, int row, int column)
{
        return row < PQntuples(result) && column < PQnfields(result) && !PQgetisnull(result, row, column);
}

const char *pgguard_text(const PGresult *result, int row, int column)
{
        return pgguard_has(result, row, column) ? PQgetvalue(result, row, column) : "";
}

uint64_t pgguard_number(const PGresult *result, int row, int column)
{
        uint64_t number;

        if (!pgguard_has(result, row, column) || PQgetlength(result, row, column) != sizeof(number))
                return 0;
        memcpy(&number, PQgetvalue(result, row, column), sizeof(number));
        return be64toh(number);
}

/* ---- tries ----------------------------------------------------------------------------------------------------------- */

/* What is known while a call is tried. */
struct tries {
        bool doubt; /* an earlier try was sent, and lost */
        bool prepared;
        uint32_t count;
};

/* A little longer each time, and not the same for all: they met once already. False if the time is over. */
static bool pause_before(const struct tries *tries, int64_t deadline)
{
        uint32_t step = tries->count < 7 ? tries->count : 7;
        int64_t most = (INT64_C(4) << step) * MS;
        int64_t now = pgguard_now();
        int64_t pause = most / 2 + now % (most / 2 + 1); /* the last digits of the time are chance enough */
        struct timespec span = {pause / SECOND, pause % SECOND};

        if (now + pause >= deadline)
                return false;
        nanosleep(&span, NULL);
        return true;
}

static int give_up(const struct pgguard *postgres, const struct pgguard_call *call)
{
        return why_set(call->why, PAWL_TIMEOUT,
                       "%s: other transactions were in the way until the time was over (serialization failures or "
                       "deadlocks)",
                       postgres->where);
}

static int lost(const struct pgguard *postgres, const struct pgguard_call *call)
{
        if (call->changes)
                return why_set(call->why, PAWL_IN_DOUBT,
                               "%s: the connection was lost, or the time was over, before the answer came: it may have "
                               "been done or not",
                               postgres->where);
        return why_set(call->why, PAWL_UNREACHABLE,
                       "%s: the connection was lost, or the time was over, before the answer came", postgres->where);
}

/* One try on one connection. unchecked: nobody has looked yet whose the schema is at its other end. */
static enum pgguard_end attempt(struct pgguard *postgres, PGconn *conn, bool *unchecked, struct pgguard_call *call,
                                struct tries *tries, int *code)
{
        PGresult *error = NULL;
        enum pgguard_end end = PGGUARD_DONE;

        if (*unchecked || !atomic_load(&postgres->ready))
                end = pgguard_prepare(postgres, conn, call, &error, code);
        if (end == PGGUARD_DONE) {
                *unchecked = false;
                end = pgguard_ask(conn, postgres->statements[call->statement], call, &error);
                *code = PAWL_OK;
        } else if (end == PGGUARD_LOST && *code == PAWL_OK) {
                *code = why_set(call->why, PAWL_UNREACHABLE, "%s: it did not answer in time", postgres->where);
        }
        if (end == PGGUARD_MISSING) { /* dropped since we looked, or newer than those that are there */
                atomic_store(&postgres->ready, false);
                end = tries->prepared || !postgres->may_create ? PGGUARD_REFUSED : PGGUARD_AGAIN;
                tries->prepared = true;
                call->lacking = true;
        }
        if (end == PGGUARD_REFUSED && *code == PAWL_OK)
                *code = pgguard_tell(postgres, call, error);
        PQclear(error);
        return end;
}

/* With a connection of the pool, or a new one. PGGUARD_REFUSED: *code has its sentence. */
static enum pgguard_end try_once(struct pgguard *postgres, struct pgguard_call *call, struct tries *tries, int *code)
{
        PGconn *conn;
        bool unchecked;
        enum pgguard_end end = PGGUARD_REFUSED;

        *code = pgguard_take(postgres, call->deadline, &conn, call->why);
        if (*code != PAWL_OK)
                return PGGUARD_REFUSED;
        unchecked = !conn;
        if (!conn)
                *code = pgguard_connect(postgres, call->deadline, &conn, call->why);
        if (*code == PAWL_OK)
                end = attempt(postgres, conn, &unchecked, call, tries, code);
        if ((end == PGGUARD_LOST || unchecked) && conn) {
                PQfinish(conn);
                conn = NULL;
        }
        pgguard_give(postgres, conn);
        return end;
}

/* A stale token after a lost try: whether that one had been done, nobody knows. A swap is known by its id. */
static int after_doubt(const struct pgguard *postgres, const struct pgguard_call *call, int code)
{
        const struct visit visit = {call->resource, 0, call->token, call->why};
        const struct guard_swap again = {.again = true};

        if (code == PAWL_STALE && call->swap)
                return guard_moved(&visit, &again, call->greatest);
        return code == PAWL_STALE && !call->changes ? code : lost(postgres, call);
}

static int run(struct pgguard *postgres, struct pgguard_call *call)
{
        struct tries tries = {.doubt = call->swap && call->swap->again};
        int code = PAWL_OK;

        for (;; tries.count++) {
                enum pgguard_end end = try_once(postgres, call, &tries, &code);

                if (end == PGGUARD_DONE)
                        return PAWL_OK;
                if (end == PGGUARD_LOST && code != PAWL_OK)
                        end = PGGUARD_REFUSED; /* lost before the statement itself was sent */
                else if (end == PGGUARD_LOST && (tries.doubt || !call->repeatable))
                        return lost(postgres, call);
                else if (end == PGGUARD_LOST)
                        tries.doubt = true;
                if (end == PGGUARD_REFUSED && !tries.doubt)
                        return code;
                if (end == PGGUARD_REFUSED &&
                    code != PAWL_UNREACHABLE) /* which a server that restarts is for a while */
                        return after_doubt(postgres, call, code);
                if (!pause_before(&tries, call->deadline))
                        return tries.doubt ? lost(postgres, call) : give_up(postgres, call);
        }
}

int pgguard_run(struct pgguard *postgres, struct pgguard_call *call)
{
        call->deadline = pgguard_now() + postgres->wait;
        return run(postgres, call);
}
