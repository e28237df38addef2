/* fuzz_pq_params.c - a URL of a PostgreSQL database is refused with a sentence, or becomes keywords and values for libpq:
 * each once, each ended, none with the password in it but the password, and a server elsewhere must prove who it is. */
#include <string.h>

#include "base/pq_params.h"
#include "fuzz.h"
#include "passfile.h"

/* As of the engine: pg_open.c. */
static const char *const own_options[] = {"ttl",  "prefix", "timeout",     "schema", "create",
                                          "mode", "pooler", "connections", NULL};

/* Stands for whatever the URL has as its password: it is in no URL by chance, so where it is found it was put. */
#define SECRET "vZ8~secret~Qk3"

static int is_secret(const char *keyword)
{
        return strcmp(keyword, "password") == 0 || strcmp(keyword, "sslpassword") == 0;
}

static void hide(struct url *url)
{
        if (url->password && *url->password)
                url->password = SECRET;
        for (uint32_t i = 0; i < url->option_count; i++)
                if (is_secret(url->options[i].key) && *url->options[i].value)
                        url->options[i].value = SECRET;
}

static void check_sentence(const struct pawl_why *why, int code)
{
        MUST(code > PAWL_OK && why->code == code);
        MUST(memchr(why->text, 0, sizeof(why->text)) != NULL && why->text[0]);
        MUST(strstr(why->text, SECRET) == NULL);
}

static void check_values(const struct pq_params *params)
{
        MUST(params->count > 0 && params->count <= PQ_PARAMS_MAX);
        MUST(params->keywords[params->count] == NULL && params->values[params->count] == NULL);
        for (uint32_t i = 0; i < params->count; i++) {
                const char *value = params->values[i];

                MUST(value >= params->text && value < params->text + params->used);
                MUST(memchr(value, 0, (size_t)(params->text + params->used - value)) != NULL && *value);
                MUST(is_secret(params->keywords[i]) || strstr(value, SECRET) == NULL);
                MUST(pq_params_get(params, params->keywords[i]) == value); /* it stands once */
        }
}

/* The entry of a list by commas, as libpq counts them; "" where there is none. */
static const char *entry(const char *list, int number, char *room, size_t size)
{
        size_t length;

        *room = '\0';
        for (; list && number > 0; number--)
                list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
        if (!list)
                return room;
        length = strcspn(list, ",");
        MUST(length < size);
        memcpy(room, list, length);
        room[length] = '\0';
        return room;
}

/* libpq connects to an entry of hostaddr, or where that is empty to the host of the same place. */
static int leads_away(const struct pq_params *params)
{
        const char *hosts = pq_params_get(params, "host");
        const char *addresses = pq_params_get(params, "hostaddr");
        const char *list = addresses ? addresses : hosts;
        char room[8192];

        for (int i = 0; list; i++, list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
                const char *to = entry(addresses, i, room, sizeof(room));

                if (!*to)
                        to = entry(hosts, i, room, sizeof(room));
                if (*to && !pq_host_is_here(to))
                        return 1;
        }
        return 0;
}

static void check_tls(const struct pq_params *params, const struct url *url)
{
        bool insecure = false;

        if (!leads_away(params))
                return;
        MUST(params->remote);
        MUST(url_flag(url, "insecure", &insecure, NULL) == PAWL_OK);
        if (!insecure && !url_option(url, "sslmode"))
                MUST(strcmp(pq_params_get(params, "sslmode"), "verify-full") == 0);
}

static void check_environment(const struct pq_params *params, const struct url *url)
{
        static const char *const filled[] = {
                "application_name", "connect_timeout", "dbname",  "passfile",    "password",   "port",
                "sslcert",          "sslcrl",          "sslmode", "sslrootcert", "gssencmode", "user"};

        for (size_t i = 0; i < sizeof(filled) / sizeof(*filled); i++)
                MUST(pq_params_get(params, filled[i]) != NULL);
        MUST(pq_params_get(params, "host") || pq_params_get(params, "hostaddr"));
        MUST(strcmp(pq_params_get(params, "client_encoding"), "UTF8") == 0);
        for (size_t i = 0; own_options[i]; i++)
                MUST(pq_params_get(params, own_options[i]) == NULL);
        MUST(!url->password || !*url->password || strcmp(pq_params_get(params, "password"), SECRET) == 0);
}

static void check(struct url *url)
{
        struct pq_params params;
        struct pawl_why why = {0};
        int code;

        hide(url);
        code = pq_params_make(url, own_options, &params, &why);
        if (code == PAWL_OK) {
                check_values(&params);
                check_tls(&params, url);
                check_environment(&params, url);
        } else {
                check_sentence(&why, code);
        }
        pq_params_free(&params);
        pq_params_free(&params); /* once more is fine */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = strndup((const char *)data, size);
        struct url *url = NULL;

        MUST(text != NULL);
        if (!opens_a_file(text) && !strstr(text, "secret") && url_parse(text, &url, NULL) == PAWL_OK)
                check(url);
        url_free(url);
        free(text);
        return 0;
}
