/* pgguard_resolve.c - names of hosts become addresses here, within the deadline: libpq would wait for the resolver as long
 * as that likes, and let PGHOSTADDR lead elsewhere. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../loop/loop.h"
#include "../../net/resolve.h"
#include "pgguard.h"

/* Lists for libpq, by commas, in step: a host stands as often as it has addresses. */
struct pgguard_places {
        uint32_t count;
        bool named; /* one has an address */
        char hosts[8192];
        char addresses[4096];
        char ports[1024];
};

static void add_item(char *list, size_t size, bool first, const char *item, size_t length)
{
        size_t used = strlen(list);

        snprintf(list + used, size - used, "%s%.*s", first ? "" : ",", (int)length, item);
}

/* False: no room. */
static bool add_place(struct pgguard_places *places, const char *host, size_t length, const char *address,
                      const char *port, size_t port_length)
{
        bool first = places->count == 0;

        if (strlen(places->hosts) + length + 2 > sizeof(places->hosts) ||
            strlen(places->addresses) + strlen(address) + 2 > sizeof(places->addresses) ||
            strlen(places->ports) + port_length + 2 > sizeof(places->ports))
                return false;
        add_item(places->hosts, sizeof(places->hosts), first, host, length);
        add_item(places->addresses, sizeof(places->addresses), first, address, strlen(address));
        add_item(places->ports, sizeof(places->ports), first, port, port_length);
        places->count++;
        places->named = places->named || *address;
        return true;
}

static void on_found(void *arg)
{
        *(bool *)arg = true;
}

static int wait_for_answer(struct net_lookup *lookup, struct loop *loop, const bool *found, int64_t deadline,
                           struct pawl_why *why)
{
        while (!lookup->at_once && !*found) {
                int64_t left = deadline - pgguard_now();

                if (left <= 0)
                        return why_set(why, PAWL_UNREACHABLE, "nobody said in time which address %s has", lookup->host);
                loop_wait(loop, loop_now(loop) + left);
                loop_turn(loop);
        }
        return lookup_result(lookup, why);
}

/* One item of each list. A host that cannot be found is left out: another may be. */
struct item {
        const char *host;
        size_t length;
        const char *port;
        size_t port_length;
};

static int add_found(struct pgguard_places *places, const struct item *item, const struct net_lookup *lookup)
{
        char address[NI_MAXHOST];

        for (const struct addrinfo *found = lookup->addresses; found; found = found->ai_next)
                if (getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof(address), NULL, 0, NI_NUMERICHOST) ==
                            0 &&
                    !add_place(places, item->host, item->length, address, item->port, item->port_length))
                        break; /* more than anybody has */
        return PAWL_OK;
}

static int look_up(struct pgguard_places *places, const struct item *item, struct loop *loop, int64_t deadline,
                   struct pawl_why *why)
{
        char name[NI_MAXHOST];
        struct net_lookup *lookup = NULL;
        bool found = false;
        int code;

        if (item->length >= sizeof(name))
                return why_set(why, PAWL_UNREACHABLE, "a host's name is too long");
        memcpy(name, item->host, item->length);
        name[item->length] = 0;
        code = lookup_open(&lookup, loop, name, (uint16_t)atoi(item->port), on_found, &found, why);
        if (code == PAWL_OK)
                code = wait_for_answer(lookup, loop, &found, deadline, why);
        if (code == PAWL_OK)
                code = add_found(places, item, lookup);
        lookup_close(lookup);
        return code;
}

static const char *next_item(const char *at, size_t *length)
{
        *length = strcspn(at, ",");
        return at;
}

static int fill(struct pgguard_places *places, const struct pq_params *params, struct loop *loop, int64_t deadline,
                struct pawl_why *why)
{
        struct item item = {.host = pq_params_get(params, "host"), .port = pq_params_get(params, "port")};
        int code = PAWL_OK;

        for (;;) {
                item.host = next_item(item.host, &item.length);
                item.port = next_item(item.port, &item.port_length);
                if (item.length == 0 || *item.host == '/' || *item.host == '@')
                        add_place(places, item.host, item.length, "", item.port, item.port_length);
                else
                        code = look_up(places, &item, loop, deadline, why);
                if (!item.host[item.length])
                        break;
                item.host += item.length + 1;
                if (item.port[item.port_length]) /* else one port is for all */
                        item.port += item.port_length + 1;
        }
        return places->count > 0 ? PAWL_OK : code;
}

static void replace(struct pq_params *params, const char *keyword, const char *value)
{
        uint32_t at = 0;

        while (at < params->count && strcmp(params->keywords[at], keyword) != 0)
                at++;
        if (at == params->count && params->count < PQ_PARAMS_MAX)
                params->count++;
        params->keywords[at] = keyword;
        params->values[at] = value;
}

int pgguard_resolve(const struct pgguard *postgres, int64_t deadline, struct pq_params *params,
                    struct pgguard_places **places, struct pawl_why *why)
{
        struct pgguard_places *made;
        struct loop loop;
        int error;
        int code;

        *places = NULL;
        *params = postgres->params;
        if (pq_params_get(params, "hostaddr"))
                return PAWL_OK;
        made = calloc(1, sizeof(*made));
        if (!made)
                return why_set(why, PAWL_NO_MEMORY, "no memory for addresses");
        *places = made;
        error = loop_init(&loop, NULL);
        if (error)
                return why_system(why, error, "cannot look up a host");
        code = fill(made, params, &loop, deadline, why);
        loop_close(&loop);
        if (code == PAWL_OK && made->named) {
                replace(params, "host", made->hosts);
                replace(params, "hostaddr", made->addresses);
                replace(params, "port", made->ports);
        }
        return code;
}
