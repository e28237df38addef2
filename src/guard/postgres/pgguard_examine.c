/* pgguard_examine.c - is the server fit to keep marks, and may we? */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgguard.h"

/* In the order of PGGUARD_SETTINGS. */
enum {
        IN_RECOVERY,
        VERSION,
        VERSION_NUMBER,
        FSYNC,
        FULL_PAGE_WRITES,
        SYNCHRONOUS_COMMIT,
        STANDBY_NAMES,
        READ_ONLY,
        STANDBYS,
        USER,
        SUPERUSER
};

struct examination {
        struct pgguard *postgres;
        const PGresult *settings;
        pawl_finding_fn *fn;
        void *arg;
        bool ended; /* the listener has heard enough */
};

static void tell(struct examination *examination, uint32_t severity, const char *mend, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

static void tell(struct examination *examination, uint32_t severity, const char *mend, const char *format, ...)
{
        struct pawl_finding finding = {.severity = severity, .where = examination->postgres->where, .mend = mend};
        char what[600];
        va_list args;

        if (examination->ended)
                return;
        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        finding.what = what;
        examination->ended = examination->fn(&finding, examination->arg) != 0;
}

static const char *setting(const struct examination *examination, int column)
{
        return pgguard_text(examination->settings, 0, column);
}

static bool is(const struct examination *examination, int column, const char *value)
{
        return strcmp(setting(examination, column), value) == 0;
}

static void judge_version(struct examination *examination)
{
        const char *version = setting(examination, VERSION);

        if (atoi(setting(examination, VERSION_NUMBER)) < 130000)
                tell(examination, PAWL_DANGER, "update it to PostgreSQL 13 or later",
                     "it is PostgreSQL %s, and the guard needs 13", version);
        else
                tell(examination, PAWL_FINE, "", "it is PostgreSQL %s", version);
}

static void judge_role(struct examination *examination)
{
        if (is(examination, IN_RECOVERY, "true"))
                tell(examination, PAWL_DANGER, "write the primary into the URL, or all servers of the cluster",
                     "it is a standby, where nothing can be written");
        else if (is(examination, READ_ONLY, "on"))
                tell(examination, PAWL_DANGER, "ALTER SYSTEM RESET default_transaction_read_only",
                     "transactions are read-only there (default_transaction_read_only), so nothing is admitted");
        else
                tell(examination, PAWL_FINE, "", "it is a primary, and can be written");
}

static void judge_durability(struct examination *examination)
{
        if (is(examination, FSYNC, "off"))
                tell(examination, PAWL_DANGER, "ALTER SYSTEM SET fsync = on",
                     "a power failure may forget marks, so that a stale token passes, and damage the data (fsync off)");
        if (is(examination, FULL_PAGE_WRITES, "off"))
                tell(examination, PAWL_WARNING, "ALTER SYSTEM SET full_page_writes = on",
                     "a power failure may leave half a page (full_page_writes off)");
        if (is(examination, SYNCHRONOUS_COMMIT, "off"))
                tell(examination, PAWL_FINE, "",
                     "commits do not wait for the disk (synchronous_commit off), but those that admit a token do");
        if (is(examination, FSYNC, "on") && is(examination, FULL_PAGE_WRITES, "on"))
                tell(examination, PAWL_FINE, "", "marks survive a crash and a power failure");
}

static void judge_standbys(struct examination *examination)
{
        long standbys = atol(setting(examination, STANDBYS));

        if (standbys == 0)
                return;
        if (!*setting(examination, STANDBY_NAMES))
                tell(examination, PAWL_WARNING, "ALTER SYSTEM SET synchronous_standby_names = '*'",
                     "%ld standby(s) follow it a moment later: a failover may forget a mark, and a stale token passes",
                     standbys);
        else if (is(examination, SYNCHRONOUS_COMMIT, "local"))
                tell(examination, PAWL_WARNING, "ALTER SYSTEM SET synchronous_commit = on",
                     "commits do not wait for its standbys (synchronous_commit local): a failover may forget a mark");
        else
                tell(examination, PAWL_FINE, "", "a commit waits for its standbys (synchronous_standby_names %s)",
                     setting(examination, STANDBY_NAMES));
}

static void judge_rights(struct examination *examination, const PGresult *rights)
{
        const char *missing = pgguard_text(rights, 0, 0);
        const char *schema = examination->postgres->schema;
        char mend[300];

        snprintf(mend, sizeof(mend), "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %s TO \"%s\"", schema,
                 setting(examination, USER));
        if (strstr(missing, "admit"))
                tell(examination, PAWL_DANGER, mend, "user %s may not call in the schema %s: %s",
                     setting(examination, USER), schema, missing);
        else if (*missing)
                tell(examination, PAWL_FINE, "", "user %s may admit tokens, but not call: %s",
                     setting(examination, USER), missing);
        else
                tell(examination, PAWL_FINE, "", "user %s may do all that a guard needs", setting(examination, USER));
        if (is(examination, SUPERUSER, "on") && !pq_host_is_here(pq_params_get(&examination->postgres->params, "host")))
                tell(examination, PAWL_ADVICE, "use a role that has no right but EXECUTE on the guard's functions",
                     "user %s may do anything there", setting(examination, USER));
}

static void judge_transport(struct examination *examination)
{
        const struct pq_params *params = &examination->postgres->params;
        const char *mode = pq_params_get(params, "sslmode");

        if (params->remote && strncmp(mode, "verify", 6) != 0)
                tell(examination, PAWL_WARNING, "sslmode=verify-full",
                     "nobody checks that the server is who it says (sslmode %s): who stands between can admit any "
                     "token",
                     mode);
}

/* One question more; NULL: it was told. */
static PGresult *ask(struct examination *examination, enum pgguard_statement statement, const char *value)
{
        struct pawl_why own = {0};
        struct pgguard_call call = {.statement = statement, .repeatable = true, .why = &own};

        if (value)
                pgguard_add_text(&call, value);
        if (pgguard_run(examination->postgres, &call) == PAWL_OK)
                return call.result;
        tell(examination, PAWL_DANGER, "", "%s", own.text);
        return NULL;
}

int pgguard_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why)
{
        struct examination examination = {.postgres = pgguard_of(guard), .fn = fn, .arg = arg};
        PGresult *settings = ask(&examination, PGGUARD_SETTINGS, NULL);
        PGresult *rights;

        (void)why;
        if (!settings)
                return PAWL_OK;
        examination.settings = settings;
        judge_version(&examination);
        judge_role(&examination);
        judge_durability(&examination);
        judge_standbys(&examination);
        rights = ask(&examination, PGGUARD_RIGHTS, examination.postgres->schema);
        if (rights)
                judge_rights(&examination, rights);
        judge_transport(&examination);
        PQclear(rights);
        PQclear(settings);
        return PAWL_OK;
}
