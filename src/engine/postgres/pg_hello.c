/* pg_hello.c - what comes before the first request: the names of the servers as addresses (libpq would wait for them),
 * then the session's settings, its id, and the schema if it is not there yet. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

const char *item_of(const char *list, uint32_t index, size_t *length)
{
        bool only = list && !strchr(list, ',');

        *length = 0;
        if (!list)
                return NULL;
        for (uint32_t i = 0; !only && i < index; i++) {
                list = strchr(list, ',');
                if (!list)
                        return NULL;
                list++;
        }
        *length = strcspn(list, ",");
        return list;
}

static bool append(char **list, const char *item, size_t length, bool first)
{
        size_t before = *list ? strlen(*list) : 0;
        char *longer = realloc(*list, before + length + 2);

        if (!longer)
                return false;
        *list = longer;
        if (!first)
                longer[before++] = ',';
        memcpy(longer + before, item, length);
        longer[before + length] = '\0';
        return true;
}

static uint16_t port_of(const struct wire *wire, uint32_t index)
{
        size_t length;
        const char *port = item_of(pq_params_get(&wire->postgres->params, "port"), index, &length);

        return length ? (uint16_t)strtoul(port, NULL, 10) : 5432;
}

static bool add_address(struct wire *wire, const char *address)
{
        bool first = !wire->hosts;
        char port[8];
        size_t length;
        const char *host = item_of(pq_params_get(&wire->postgres->params, "host"), wire->resolved, &length);

        snprintf(port, sizeof(port), "%u", port_of(wire, wire->resolved));
        wire->found++;
        return append(&wire->hosts, host, length, first) && append(&wire->addresses, address, strlen(address), first) &&
               append(&wire->ports, port, strlen(port), first);
}

static bool add_found(struct wire *wire)
{
        char address[NI_MAXHOST];

        for (const struct addrinfo *found = wire->lookup->addresses; found; found = found->ai_next) {
                if (getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof(address), NULL, 0, NI_NUMERICHOST))
                        continue;
                if (!add_address(wire, address))
                        return false;
        }
        return true;
}

static void resolve_next(struct wire *wire);

static void found(void *arg)
{
        struct wire *wire = arg;
        struct pawl_why why;
        int code = lookup_result(wire->lookup, &why);

        if (code != PAWL_OK)
                wire->why = why; /* another host may be known */
        else if (!add_found(wire))
                code = PAWL_NO_MEMORY;
        lookup_close(wire->lookup);
        wire->lookup = NULL;
        if (code == PAWL_NO_MEMORY) {
                wire_fail(wire, code, "%s: no memory", wire->postgres->where);
                return;
        }
        wire->resolved++;
        resolve_next(wire);
}

static void all_resolved(struct wire *wire)
{
        struct pawl_why why = wire->why;

        if (!wire->hosts)
                wire_fail(wire, why.code, "%s", why.text);
        else if (wire_connect(wire) != PAWL_OK)
                wire_fail(wire, PAWL_NO_MEMORY, "%s: no memory", wire->postgres->where);
}

static int begin_lookup(struct wire *wire, const char *host, size_t length)
{
        struct loop *loop = wire->postgres->engine.host->loop;
        char *name = strndup(host, length);
        struct pawl_why why;
        int code = name ? lookup_open(&wire->lookup, loop, name, port_of(wire, wire->resolved), found, wire, &why)
                        : why_set(&why, PAWL_NO_MEMORY, "%s: no memory", wire->postgres->where);

        free(name);
        if (code != PAWL_OK)
                wire_fail(wire, code, "%s", why.text);
        return code;
}

static void resolve_next(struct wire *wire)
{
        const char *hosts = pq_params_get(&wire->postgres->params, "host");

        while (wire->state == RESOLVING) {
                size_t length;
                const char *host =
                        wire->resolved && !strchr(hosts, ',') ? NULL : item_of(hosts, wire->resolved, &length);

                if (!host) {
                        all_resolved(wire);
                        return;
                }
                if (length == 0 || *host == '/' || *host == '@') { /* a socket of this machine */
                        if (!add_address(wire, "")) {
                                wire_fail(wire, PAWL_NO_MEMORY, "%s: no memory", wire->postgres->where);
                                return;
                        }
                        wire->resolved++;
                        continue;
                }
                if (begin_lookup(wire, host, length) != PAWL_OK)
                        return;
                if (!wire->lookup->at_once)
                        return;
                found(wire); /* goes on from there */
                return;
        }
}

/* What is an address already, for all hosts or for none. */
static bool take_addresses(struct wire *wire, const char *addresses)
{
        const struct pq_params *params = &wire->postgres->params;
        const char *hosts = pq_params_get(params, "host");
        const char *ports = pq_params_get(params, "port");

        wire->hosts = strdup(hosts ? hosts : addresses);
        wire->addresses = strdup(addresses);
        wire->ports = strdup(ports ? ports : "");
        wire->found = 1;
        for (const char *at = addresses; (at = strchr(at, ',')) != NULL; at++)
                wire->found++;
        return wire->hosts && wire->addresses && wire->ports;
}

void hello_resolve(struct wire *wire)
{
        const struct pq_params *params = &wire->postgres->params;
        const char *addresses = pq_params_get(params, "hostaddr");

        free(wire->hosts);
        free(wire->addresses);
        free(wire->ports);
        wire->hosts = wire->addresses = wire->ports = NULL;
        wire->resolved = wire->found = wire->tried = 0;
        if (pq_params_get(params, "host") && !addresses) {
                resolve_next(wire);
                return;
        }
        if ((addresses && !take_addresses(wire, addresses)) || wire_connect(wire) != PAWL_OK)
                wire_fail(wire, PAWL_NO_MEMORY, "%s: no memory", wire->postgres->where);
}

/* ---- the schema -------------------------------------------------------------------------------------------------- */

/* It is made in the schema that the settings name. */
static void install(struct wire *wire)
{
        struct pawl_why why;

        wire->installed = true;
        wire->state = INSTALLING;
        if (PQexitPipelineMode(wire->conn) && PQsendQuery(wire->conn, sql_schema)) {
                wire_flush(wire);
                return;
        }
        error_of_connection(wire->postgres, wire->conn, &why);
        wire_fail(wire, why.code, "%s", why.text);
}

/* There was none, or an older one: what an administrator has to do. */
static void not_installed(struct wire *wire, const PGresult *result)
{
        const struct postgres *postgres = wire->postgres;
        struct pawl_why why;

        error_of_result(postgres, result, &why);
        if (!wire->older)
                wire_fail(wire, why.code,
                          "%s; the schema %s is not there and could not be made: let an administrator run what `pawl "
                          "engines --sql postgres` prints",
                          why.text, postgres->schema);
        else if (error_is(result, "42501"))
                wire_fail(wire, PAWL_OTHER_VERSION,
                          "%s: the schema %s is of version %d, this needs %d, and the role may not change it: let its "
                          "owner run what `pawl engines --sql postgres` prints",
                          postgres->where, postgres->schema, wire->older, SQL_VERSION);
        else
                wire_fail(wire, why.code, "%s; the schema %s of version %d could not be made one of version %d",
                          why.text, postgres->schema, wire->older, SQL_VERSION);
}

void hello_installed(struct wire *wire, const PGresult *result)
{
        struct pawl_why why;

        if (!result) {
                if (!PQenterPipelineMode(wire->conn)) {
                        error_of_connection(wire->postgres, wire->conn, &why);
                        wire_fail(wire, why.code, "%s", why.text);
                        return;
                }
                wire->state = GREETING;
                hello_begin(wire);
        } else if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
                not_installed(wire, result);
        }
}

/* ---- greeting ---------------------------------------------------------------------------------------------------- */

static void hello(struct wire *wire, int (*write)(struct ask *, struct wire *),
                  void (*answered)(struct ask *, const PGresult *, const struct pawl_why *))
{
        wire->hello.write = write;
        wire->hello.answered = answered;
        if (wire_ask(wire, &wire->hello) != PAWL_OK)
                wire_fail(wire, PAWL_NO_MEMORY, "%s: no memory", wire->postgres->where);
}

static bool schema_is_missing(const PGresult *result)
{
        return error_is(result, "42883") || error_is(result, "42P01") || error_is(result, "3F000");
}

static void no_schema(struct wire *wire, const struct pawl_why *why)
{
        const struct postgres *postgres = wire->postgres;

        if (wire->installed)
                wire_fail(wire, PAWL_CORRUPT, "%s: the schema %s was made and cannot be used: %s", postgres->where,
                          postgres->schema, why->text);
        else if (!postgres->create)
                wire_fail(wire, PAWL_NOT_FOUND,
                          "%s: the schema %s is not there, and create=no: let an administrator run what `pawl engines "
                          "--sql postgres` prints",
                          postgres->where, postgres->schema);
        else
                install(wire);
}

/* It is of another version, and does not serve us. One that is older is made as new if we may. */
static void other_version(struct wire *wire, int64_t version)
{
        const struct postgres *postgres = wire->postgres;

        if (version > SQL_VERSION)
                wire_fail(wire, PAWL_OTHER_VERSION,
                          "%s: the schema %s is of version %lld, which does not serve this one's, %d, any more",
                          postgres->where, postgres->schema, (long long)version, SQL_VERSION);
        else if (!postgres->create || wire->installed)
                wire_fail(wire, PAWL_OTHER_VERSION,
                          "%s: the schema %s is of version %lld, this needs %d%s: let its owner run what `pawl engines "
                          "--sql postgres` prints",
                          postgres->where, postgres->schema, (long long)version, SQL_VERSION,
                          postgres->create ? "" : ", and create=no");
        else {
                wire->older = (int)version;
                install(wire);
        }
}

/* A schema of a version serves clients of several: from which on it says itself, and what it is of is the last. */
static bool serves_us(const PGresult *rows)
{
        return row_number(rows, 0, 0) <= SQL_VERSION && row_number(rows, 0, 3) >= SQL_VERSION;
}

/* ---- connections that were given up ------------------------------------------------------------------------------ */

#define EARLIER_EVERY (250 * MS)

static int write_earlier(struct ask *ask, struct wire *wire)
{
        struct values values = {.count = 0};
        char sessions[FORMER_TEXT], pids[FORMER_TEXT];

        former_sessions(&wire->postgres->earlier, sessions);
        former_pids(&wire->postgres->earlier, pids);
        value_text(&values, sessions);
        value_text(&values, pids);
        return wire_send(wire, ask, SQL_EARLIER, &values);
}

/* One that hangs, or is stopped, is no reason not to go on beside it. But where one waits for a synchronous standby, so
 * would whatever is sent now; and so that a server that hangs is not filled with our connections there is no third. A
 * commit that waits for its standby must not be cancelled, nor its process ended: it would be visible at once, and a
 * failover would forget it. */
static void take_earlier(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct wire *wire = container_of(ask, struct wire, hello);
        struct loop *loop = wire->postgres->engine.host->loop;
        bool waits = !why && row_number(rows, 0, 1) > 0;

        if (!rows) {
                wire_fail(wire, why->code, "%s", why->text);
        } else if (why || (row_number(rows, 0, 0) < 2 && !waits)) {
                if (!why && row_number(rows, 0, 0) == 0)
                        wire->postgres->earlier.count = 0;
                wire_be_ready(wire);
        } else if (loop_now(loop) >= wire->until) {
                wire_fail(wire, PAWL_UNREACHABLE, "%s: an earlier connection of this client has not ended: %s",
                          wire->postgres->where,
                          waits ? "its commit waits for a synchronous standby (synchronous_standby_names)"
                                : "the server does not go on with it");
        } else {
                loop_set(loop, &wire->again, loop_now(loop) + EARLIER_EVERY); /* moving: cannot fail */
        }
}

void hello_earlier(struct wire *wire)
{
        if (wire->postgres->earlier.count == 0)
                wire_be_ready(wire);
        else
                hello(wire, write_earlier, take_earlier);
}

/* ---- entering ---------------------------------------------------------------------------------------------------- */

static int write_enter(struct ask *ask, struct wire *wire)
{
        struct values values = {.count = 0};

        value_number(&values, (int64_t)wire->session);
        return wire_send(wire, ask, wire->enter, &values);
}

static void entered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct wire *wire = container_of(ask, struct wire, hello);

        if (!rows || why) {
                if (schema_is_missing(rows))
                        no_schema(wire, why);
                else
                        wire_fail(wire, why->code, "%s", why->text);
                return;
        }
        if (!serves_us(rows)) {
                other_version(wire, row_number(rows, 0, 3));
                return;
        }
        wire->fast = row_bool(rows, 0, 2);
        hello_earlier(wire);
}

static int write_settings(struct ask *ask, struct wire *wire)
{
        struct values values = {.count = 0};

        value_text(&values, wire->postgres->schema);
        value_text(&values, wire->postgres->owner);
        wire->lock_limit = wire->postgres->lock_limit;
        value_number(&values, wire->lock_limit / MS);
        /* A little sooner than we give the connection up. In mode=advisory some statements wait for a lock. */
        value_number(&values, wire->postgres->advisory ? 0 : wire->postgres->timeout / 10 * 9 / MS);
        return wire_send(wire, ask, SQL_SETTINGS, &values);
}

/* Two lines: what is wrong, and what resolves it. */
static void distrust(struct wire *wire, const char *text)
{
        size_t length = strcspn(text, "\n");

        wire_fail(wire, PAWL_DENIED, "%s: %.*s. To resolve this: %s", wire->postgres->where, (int)length, text,
                  text[length] ? text + length + 1 : text);
}

static void read_only(struct wire *wire, bool standby)
{
        if (standby)
                wire_fail(wire, PAWL_UNREACHABLE,
                          "%s: it is a read-only standby: locks need the primary; name all servers in the URL",
                          wire->postgres->where);
        else
                wire_fail(wire, PAWL_UNREACHABLE,
                          "%s: its transactions are read-only (default_transaction_read_only = on), and locks are "
                          "written",
                          wire->postgres->where);
}

static void set(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct wire *wire = container_of(ask, struct wire, hello);
        const struct postgres *postgres = wire->postgres;
        struct pawl_why missing;

        if (rows && !why)
                wire->pid = row_number(rows, 0, 0);
        if (!rows || why) {
                wire_fail(wire, why->code, "%s", why->text);
        } else if (wire->pid != PQbackendPID(wire->conn) && !postgres->pooler_is_fine) {
                wire_fail(wire, PAWL_UNSUPPORTED,
                          "%s: a pooler such as PgBouncer stands in between. Locks live in sessions here: connect to "
                          "the server itself, or say pooler=session if it keeps a server for each client",
                          postgres->where);
        } else if (row_bool(rows, 0, 1) || row_bool(rows, 0, 2)) {
                read_only(wire, row_bool(rows, 0, 1));
        } else if (PQgetisnull(rows, 0, 3)) { /* nothing is run in it before its owner was seen */
                why_set(&missing, PAWL_NOT_FOUND, "it is not there");
                no_schema(wire, &missing);
        } else if (*row_text(rows, 0, 4)) {
                distrust(wire, row_text(rows, 0, 4));
        } else if (!row_bool(rows, 0, 3)) {
                wire_fail(wire, PAWL_DENIED,
                          "%s: the role may not use the schema %s: let its owner GRANT USAGE ON SCHEMA %s, and EXECUTE "
                          "ON ALL "
                          "FUNCTIONS IN it",
                          postgres->where, postgres->schema, postgres->schema);
        } else {
                wire->state = ENTERING;
                hello(wire, write_enter, entered);
        }
}

void hello_begin(struct wire *wire)
{
        if (wire->looks)
                wire_be_ready(wire);
        else
                hello(wire, write_settings, set);
}
