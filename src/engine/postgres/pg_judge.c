/* pg_judge.c - what the answers of pg_examine.c mean for locks, and the command that mends what is wrong. Each judge_X
 * looks at one thing and tells at least whether it is fine, if that can be known. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../base/quote.h"
#include "advisory.h"
#include "pg_examine.h"

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void tell(const struct examination *examination, enum pawl_severity severity, const char *mend,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
static void tell(const struct examination *examination, enum pawl_severity severity, const char *mend,
                 const char *format, ...)
{
        char what[1024];
        struct pawl_finding finding = {
                .severity = severity, .where = examination->postgres->where, .what = what, .mend = mend};
        va_list args;

        if (!examination->inquiry)
                return;
        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        examination->inquiry->finding(examination->inquiry, &finding);
}

static const char *fact(const struct examination *examination, enum fact which)
{
        return examination->facts[which];
}

static bool is(const struct examination *examination, enum fact which, const char *value)
{
        return strcmp(examination->facts[which], value) == 0;
}

/* Negative: not known. */
static int64_t number(const struct examination *examination, enum fact which)
{
        const char *text = fact(examination, which);

        return *text ? strtoll(text, NULL, 10) : -1;
}

/* A name as SQL reads it: in double quotes, those in it doubled. */
static const char *identifier(const char *name, char *room, size_t size)
{
        size_t at = 0;

        room[at++] = '"';
        for (; *name && at + 3 < size; name++) {
                if (*name == '"')
                        room[at++] = '"';
                room[at++] = *name;
        }
        room[at++] = '"';
        room[at] = '\0';
        return room;
}

/* The first of a list with commas. */
static void first_of(const char *list, char *room, size_t size)
{
        snprintf(room, size, "%.*s", (int)strcspn(list, ","), list);
}

/* psql as it reaches this database, for an administrator and not for our own role; before: what is piped into it. */
static size_t psql(struct examination *examination, const char *before)
{
        const struct {
                const char *option, *value;
        } words[] = {
                {"-h", pq_params_get(&examination->postgres->params, "host")},
                {"-p", pq_params_get(&examination->postgres->params, "port")},
                {"-d", fact(examination, DATABASE)},
        };
        char first[256], word[512];
        size_t size = sizeof(examination->mend);
        size_t at = (size_t)snprintf(examination->mend, size, "%spsql -X", before);

        for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
                if (!words[i].value || !*words[i].value)
                        continue;
                first_of(words[i].value, first, sizeof(first));
                quote_for_shell(first, word, sizeof(word));
                at += (size_t)snprintf(examination->mend + at, size - at, " %s %s", words[i].option, word);
        }
        return at;
}

/* The command with statements after it, ended by NULL. */
static const char *statements(struct examination *examination, const char *const *texts)
{
        size_t size = sizeof(examination->mend);
        size_t at = psql(examination, "");
        char word[2048];

        for (; *texts && at < size; texts++) {
                quote_for_shell(*texts, word, sizeof(word));
                at += (size_t)snprintf(examination->mend + at, size - at, " -c %s", word);
        }
        return at < size ? examination->mend : "";
}

/* A setting of the whole server, read again without a restart. */
static const char *setting(struct examination *examination, const char *text)
{
        const char *const texts[] = {text, "SELECT pg_reload_conf()", NULL};

        return statements(examination, texts);
}

/* Our own sentences begin with where it was; a finding says that besides. */
static const char *without_place(const struct examination *examination, const struct pawl_why *why)
{
        size_t length = strlen(examination->postgres->where);

        if (strncmp(why->text, examination->postgres->where, length) == 0 && strncmp(why->text + length, ": ", 2) == 0)
                return why->text + length + 2;
        return why->text;
}

/* ---- what it is -------------------------------------------------------------------------------------------------- */

/* When the last release of each branch was, or will be: https://www.postgresql.org/support/versioning/ */
static const struct {
        int major;
        const char *until;
} branches[] = {
        {12, "2024-11-21"}, {13, "2025-11-13"}, {14, "2026-11-12"},
        {15, "2027-11-11"}, {16, "2028-11-09"}, {17, "2029-11-08"},
};

static const char *ended(int major)
{
        char today[16];
        struct tm parts;
        time_t now = time(NULL);

        if (!gmtime_r(&now, &parts) || !strftime(today, sizeof(today), "%Y-%m-%d", &parts))
                return NULL;
        for (size_t i = 0; i < sizeof(branches) / sizeof(*branches); i++)
                if (branches[i].major == major && strcmp(branches[i].until, today) < 0)
                        return branches[i].until;
        return NULL;
}

static void judge_version(struct examination *examination)
{
        int major = examination->version / 10000;
        const char *until = ended(major);
        const char *mend = "update it to the newest PostgreSQL";

        if (major < 12)
                tell(examination, PAWL_DANGER, mend, "it is PostgreSQL %s: 12 is the oldest that will do",
                     fact(examination, VERSION));
        else if (examination->postgres->advisory && major < 14)
                tell(examination, PAWL_DANGER, mend,
                     "it is PostgreSQL %s: mode=advisory needs 14, which ends sessions whose client is silent",
                     fact(examination, VERSION));
        else if (until)
                tell(examination, PAWL_ADVICE, mend, "it is PostgreSQL %s, which nobody mends any more since %s",
                     fact(examination, VERSION), until);
        else
                tell(examination, PAWL_FINE, "", "it is PostgreSQL %s", fact(examination, VERSION));
}

static void judge_role(struct examination *examination)
{
        const char *mend = "name all servers in the URL, with target_session_attrs=read-write";
        char role[FACT_MAX + 8], text[FACT_MAX + 64];
        const char *const texts[] = {text, NULL};

        if (is(examination, STANDBY, "true")) {
                tell(examination, PAWL_DANGER, mend, "it is a standby, which only reads: locks need the primary");
        } else if (is(examination, READ_ONLY, "on")) {
                snprintf(text, sizeof(text), "ALTER ROLE %s SET default_transaction_read_only = off",
                         identifier(fact(examination, ROLE), role, sizeof(role)));
                tell(examination, PAWL_DANGER, statements(examination, texts),
                     "transactions only read there (default_transaction_read_only): locks are written");
        } else {
                tell(examination, PAWL_FINE, "", "it is a primary, which can write");
        }
}

static void judge_pooler(const struct examination *examination)
{
        if (number(examination, PID) == PQbackendPID(examination->wire.conn))
                return;
        if (examination->postgres->pooler_is_fine)
                tell(examination, PAWL_FINE, "",
                     "a pooler stands in between; pooler=session says that it keeps a server for each client");
        else
                tell(examination, PAWL_DANGER,
                     "connect to the server itself, or say pooler=session in the URL if it is pool_mode = session",
                     "a pooler such as PgBouncer stands in between, and locks live in sessions");
}

/* ---- what it forgets --------------------------------------------------------------------------------------------- */

static void judge_durability(struct examination *examination)
{
        if (is(examination, FSYNC, "off"))
                tell(examination, PAWL_DANGER, setting(examination, "ALTER SYSTEM SET fsync = on"),
                     "a crash of its machine forgets locks, and may damage all of its data (fsync off)");
        if (is(examination, FULL_PAGES, "off"))
                tell(examination, PAWL_DANGER, setting(examination, "ALTER SYSTEM SET full_page_writes = on"),
                     "a crash of its machine may damage its data (full_page_writes off)");
        if (is(examination, FSYNC, "on") && is(examination, FULL_PAGES, "on"))
                tell(examination, PAWL_FINE, "", "locks survive a crash (fsync and full_page_writes on)");
}

/* Our own sessions turn it on. */
static void judge_commits(struct examination *examination)
{
        const char *commit = fact(examination, SYNCHRONOUS_COMMIT);
        char role[FACT_MAX + 8], text[FACT_MAX + 64];
        const char *const texts[] = {text, NULL};

        if (strcmp(commit, "off") != 0 && strcmp(commit, "local") != 0)
                return;
        snprintf(text, sizeof(text), "ALTER ROLE %s SET synchronous_commit = on",
                 identifier(fact(examination, ROLE), role, sizeof(role)));
        tell(examination, PAWL_ADVICE, statements(examination, texts),
             "synchronous_commit is %s for this role: locks are kept, for our own sessions turn it on, but what others "
             "write "
             "while they hold one may be forgotten",
             commit);
}

/* In mode=advisory a failover ends all sessions, and every holder hears of it. */
static void judge_standbys(struct examination *examination)
{
        int64_t standbys = number(examination, STANDBYS);
        bool advisory = examination->postgres->advisory != NULL;
        bool named = *fact(examination, STANDBY_NAMES);

        if (standbys <= 0 || is(examination, STANDBY, "true"))
                return;
        if (number(examination, SYNCHRONOUS_STANDBYS) > 0 || (named && number(examination, UNKNOWN_STANDBYS) > 0))
                tell(examination, PAWL_FINE, "", "%" PRId64 " standby(s) follow it, and commits wait for them (%s)",
                     standbys, fact(examination, STANDBY_NAMES));
        else if (advisory)
                tell(examination, PAWL_FINE, "",
                     "%" PRId64 " standby(s) follow it a moment later: a failover ends all sessions and their locks, "
                     "and their holders hear of it; tokens go on by the clock",
                     standbys);
        else
                tell(examination, PAWL_WARNING,
                     setting(examination, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'"),
                     "%" PRId64 " standby(s) follow it a moment later: a failover may forget locks that were just "
                     "granted; tokens go on by the clock, and still fence",
                     standbys);
}

static void judge_clock(const struct examination *examination)
{
        int64_t off = examination->clock_off;

        if (!examination->clock_known)
                return;
        if (off > 1000000 || off < -1000000)
                tell(examination, PAWL_WARNING, "chronyc makestep",
                     "its clock is %.1f s %s ours: after a failover or a restored backup tokens go on by the clock, "
                     "which must not go back",
                     (double)llabs(off) / 1000000, off > 0 ? "ahead of" : "behind");
        else
                tell(examination, PAWL_FINE, "", "its clock and ours agree");
}

static void judge_vacuum(struct examination *examination)
{
        static const char *const texts[] = {"ALTER SYSTEM SET autovacuum = on", "ALTER SYSTEM SET track_counts = on",
                                            "SELECT pg_reload_conf()", NULL};

        if (is(examination, AUTOVACUUM, "off"))
                tell(examination, PAWL_WARNING, statements(examination, texts),
                     "nobody cleans up after updates (autovacuum off): the rows of locks grow, and become slow");
        else if (*fact(examination, AUTOVACUUM))
                tell(examination, PAWL_FINE, "", "autovacuum cleans up after updates");
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static void add_setting(char *list, size_t size, const char *name, const char *value, const char *usual)
{
        size_t used = strlen(list);

        if (*value && strcmp(value, usual) != 0)
                snprintf(list + used, size - used, "%s%s = %s", used ? ", " : "", name, value);
}

/* What would end a session or a wait, or change what a statement sees. */
static void judge_settings(const struct examination *examination)
{
        char list[512] = "";

        add_setting(list, sizeof(list), "idle_session_timeout", fact(examination, IDLE_TIMEOUT), "0");
        add_setting(list, sizeof(list), "statement_timeout", fact(examination, STATEMENT_TIMEOUT), "0");
        add_setting(list, sizeof(list), "lock_timeout", fact(examination, LOCK_TIMEOUT), "0");
        add_setting(list, sizeof(list), "default_transaction_isolation", fact(examination, ISOLATION),
                    "read committed");
        if (*list)
                tell(examination, PAWL_FINE, "", "%s: our own sessions set them otherwise", list);
}

/* The server's own default is that of its system: two hours. */
static void judge_keepalive(struct examination *examination)
{
        int64_t idle = number(examination, KEEPALIVE);

        if (idle > 120)
                tell(examination, PAWL_ADVICE, setting(examination, "ALTER SYSTEM SET tcp_keepalives_idle = 30"),
                     "it misses a machine that vanished after %" PRId64
                     " s at the earliest (tcp_keepalives_idle): so long its "
                     "sessions stay, and stand in line",
                     idle);
        else if (idle > 0)
                tell(examination, PAWL_FINE, "",
                     "it looks after %" PRId64 " s of silence whether a machine is still there", idle);
}

static void judge_room(struct examination *examination)
{
        int64_t room = number(examination, MAX_CONNECTIONS) - number(examination, RESERVED);
        int64_t used = number(examination, CONNECTIONS_NOW);
        const struct advisory *advisory = examination->postgres->advisory;
        char text[96];

        if (room < 0 || used < 0)
                return;
        snprintf(text, sizeof(text), "ALTER SYSTEM SET max_connections = %" PRId64,
                 2 * number(examination, MAX_CONNECTIONS));
        if (10 * used > 9 * room) {
                const char *const texts[] = {text, NULL};

                tell(examination, PAWL_WARNING, statements(examination, texts),
                     "%" PRId64 " of its %" PRId64
                     " connections are in use: who comes last gets no lock. After the command, restart it",
                     used, room);
        } else if (advisory && advisory->limit > room / 2) {
                tell(examination, PAWL_ADVICE, "say a lower connections= in the URL",
                     "it takes %" PRId64 " connections, and one client with many who wait may use %u of them", room,
                     advisory->limit);
        } else {
                tell(examination, PAWL_FINE, "", "%" PRId64 " of its %" PRId64 " connections are in use", used, room);
        }
}

static void judge_privacy(const struct examination *examination)
{
        if (!examination->postgres->params.remote)
                return;
        if (*fact(examination, TLS))
                tell(examination, PAWL_FINE, "", "the connection is encrypted (%s)", fact(examination, TLS));
        else
                tell(examination, PAWL_WARNING, "say sslmode=verify-full in the URL",
                     "the connection is not encrypted: who can listen reads the password, and can take locks");
}

/* ---- who may do what --------------------------------------------------------------------------------------------- */

/* What a role needs, as statements. */
struct grants {
        char texts[4][3 * FACT_MAX];
        const char *list[5];
};

static const char *grant_all(struct examination *examination, struct grants *grants)
{
        char role[FACT_MAX + 8], schema[FACT_MAX];
        size_t count = 0;

        identifier(fact(examination, ROLE), role, sizeof(role));
        identifier(examination->postgres->schema, schema, sizeof(schema));
        snprintf(grants->texts[count++], sizeof(grants->texts[0]), "GRANT USAGE ON SCHEMA %s TO %s", schema, role);
        snprintf(grants->texts[count++], sizeof(grants->texts[0]), "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %s TO %s",
                 schema, role);
        if (examination->postgres->advisory)
                snprintf(grants->texts[count++], sizeof(grants->texts[0]),
                         "GRANT USAGE ON SEQUENCE %s.advisory_token TO %s", schema, role);
        for (size_t i = 0; i < count; i++)
                grants->list[i] = grants->texts[i];
        grants->list[count] = NULL;
        return statements(examination, grants->list);
}

/* By the owner of the schema, if it is there: the script refuses others. */
static const char *install(struct examination *examination)
{
        size_t at = psql(examination, "pawl engines --sql postgres | ");
        size_t size = sizeof(examination->mend);
        const char *schema = examination->postgres->schema; /* letters, digits and _: pg_open.c */
        char owner[2 * FACT_MAX];

        if (at < size && *fact(examination, OWNER)) {
                quote_for_shell(fact(examination, OWNER), owner, sizeof(owner));
                at += (size_t)snprintf(examination->mend + at, size - at, " -U %s", owner);
        }
        if (at < size && strcmp(schema, "pawl") != 0)
                at += (size_t)snprintf(examination->mend + at, size - at, " -c \"SET pawl.schema = '%s'\"", schema);
        if (at < size)
                at += (size_t)snprintf(examination->mend + at, size - at, " -1 -f -");
        return at < size ? examination->mend : "";
}

static void judge_missing_schema(struct examination *examination)
{
        if (is(examination, MAY_CREATE, "true") && examination->postgres->create)
                tell(examination, PAWL_FINE, "", "the schema %s is not there yet, and is made at the first use",
                     examination->postgres->schema);
        else
                tell(examination, PAWL_DANGER, install(examination),
                     "the schema %s is not there, and %s: an administrator can", examination->postgres->schema,
                     examination->postgres->create ? "this role may not make it" : "create=no");
}

static void judge_older_schema(struct examination *examination)
{
        if (is(examination, MAY_CHANGE, "true") && examination->postgres->create)
                tell(examination, PAWL_FINE, "",
                     "the schema %s is of version %" PRId64 ", and is made one of version %d at the first use",
                     examination->postgres->schema, examination->schema_version, SQL_VERSION);
        else
                tell(examination, PAWL_DANGER, install(examination),
                     "the schema %s is of version %" PRId64 ", this needs %d, and %s: its owner can",
                     examination->postgres->schema, examination->schema_version, SQL_VERSION,
                     examination->postgres->create ? "this role may not change it" : "create=no");
}

static bool may_all(const struct examination *examination)
{
        return is(examination, MAY_USE, "true") && number(examination, REFUSED_FUNCTIONS) == 0 &&
               (!examination->postgres->advisory || is(examination, MAY_COUNT, "true"));
}

/* What resolves it is a statement, or advice. */
static void judge_distrust(struct examination *examination)
{
        char *text = examination->distrust;
        size_t length = strcspn(text, "\n");
        const char *resolves = text[length] ? text + length + 1 : "";
        const char *const texts[] = {resolves, NULL};
        bool statement = strncmp(resolves, "DROP ", 5) == 0 || strncmp(resolves, "REVOKE ", 7) == 0;

        text[length] = '\0';
        tell(examination, PAWL_DANGER, statement ? statements(examination, texts) : resolves, "%s", text);
}

static void judge_rights(struct examination *examination)
{
        struct grants grants;

        if (!is(examination, SCHEMA, "true"))
                judge_missing_schema(examination);
        else if (*examination->distrust)
                judge_distrust(examination);
        else if (number(examination, FUNCTIONS) <= 0)
                tell(examination, PAWL_DANGER, install(examination), "the schema %s has no locks in it",
                     examination->postgres->schema);
        else if (!may_all(examination))
                tell(examination, PAWL_DANGER, grant_all(examination, &grants),
                     "the role %s may not use the schema %s and all that is in it", fact(examination, ROLE),
                     examination->postgres->schema);
        else if (examination->schema_version < 0)
                tell(examination, PAWL_DANGER, install(examination),
                     "the schema %s has no locks in it, or does not say of which version they are",
                     examination->postgres->schema);
        else if (examination->schema_version < SQL_VERSION)
                judge_older_schema(examination);
        else if (examination->schema_serves > SQL_VERSION)
                tell(examination, PAWL_DANGER, "install the newer pawl here as well",
                     "the schema %s is of version %" PRId64 ", and does not serve this one's, %d, any more",
                     examination->postgres->schema, examination->schema_version, SQL_VERSION);
        else if (examination->postgres->advisory || is(examination, MAY_WRITE, "true"))
                tell(examination, PAWL_FINE, "", "the role %s has the rights it needs", fact(examination, ROLE));
        else
                tell(examination, PAWL_FINE, "",
                     "the role %s has the rights it needs; with those to write %s.lock and %s.wait it would be faster",
                     fact(examination, ROLE), examination->postgres->schema, examination->postgres->schema);
}

static void judge_power(struct examination *examination)
{
        static const char *const texts[] = {"CREATE ROLE pawl LOGIN", "\\password pawl", NULL};

        if (is(examination, SUPERUSER, "on"))
                tell(examination, PAWL_ADVICE, statements(examination, texts),
                     "the role %s may do anything there: locks need a role that may do little",
                     fact(examination, ROLE));
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void judge_all(struct examination *examination)
{
        judge_version(examination);
        judge_role(examination);
        judge_pooler(examination);
        judge_rights(examination);
        judge_power(examination);
        judge_durability(examination);
        judge_commits(examination);
        judge_standbys(examination);
        judge_clock(examination);
        judge_vacuum(examination);
        judge_settings(examination);
        judge_keepalive(examination);
        judge_room(examination);
        judge_privacy(examination);
}

void judge_absence(struct examination *examination, const struct pawl_why *why)
{
        const char *what = why->code == PAWL_DENIED      ? "it refuses us"
                           : why->code == PAWL_NOT_FOUND ? "there is nothing to use"
                                                         : "it cannot be reached";

        tell(examination, PAWL_DANGER, "", "%s: %s", what, without_place(examination, why));
}
