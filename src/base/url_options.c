/* url_options.c - what the options of a URL say, read strictly: a value that is not understood is refused with its name,
 * never taken for one of the known ones. A misspelt insecure= must not switch anything off. */
#include <string.h>
#include <strings.h>

#include "duration.h"
#include "url.h"

const char *url_option(const struct url *url, const char *key)
{
        for (uint32_t i = 0; i < url->option_count; i++)
                if (strcmp(url->options[i].key, key) == 0)
                        return url->options[i].value;
        return NULL;
}

int url_only(const struct url *url, const char *const *known, struct pawl_why *why)
{
        for (uint32_t i = 0; i < url->option_count; i++) {
                const char *const *name = known;

                while (*name && strcmp(*name, url->options[i].key) != 0)
                        name++;
                if (!*name)
                        return why_set(why, PAWL_INVALID, "%s: URLs do not have the option %s", url->scheme,
                                       url->options[i].key);
        }
        return PAWL_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

bool flag_parse(const char *text, bool *value)
{
        static const char *const words[2][4] = {{"no", "false", "off", "0"}, {"yes", "true", "on", "1"}};

        for (int i = 0; i < 8; i++) {
                if (strcasecmp(text, words[i / 4][i % 4]) == 0) {
                        *value = i / 4;
                        return true;
                }
        }
        return false;
}

bool number_parse(const char *text, int64_t least, int64_t most, int64_t *value)
{
        int64_t number = 0;

        if (*text == '\0')
                return false;
        for (; *text; text++) {
                int digit = *text - '0';

                if (digit < 0 || digit > 9 || number > (most - digit) / 10)
                        return false;
                number = number * 10 + digit;
        }
        if (number < least)
                return false;
        *value = number;
        return true;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

int url_flag(const struct url *url, const char *key, bool *value, struct pawl_why *why)
{
        const char *text = url_option(url, key);

        if (!text || flag_parse(text, value))
                return PAWL_OK;
        return why_set(why, PAWL_INVALID,
                       "%s=%.32s in the URL is neither yes nor no: write yes, true, on or 1, or no, false, off or 0",
                       key, text);
}

int url_number(const struct url *url, const char *key, int64_t least, int64_t most, int64_t *value,
               struct pawl_why *why)
{
        const char *text = url_option(url, key);

        if (!text || number_parse(text, least, most, value))
                return PAWL_OK;
        return why_set(why, PAWL_INVALID, "%s=%.32s in the URL is not a number from %lld to %lld", key, text,
                       (long long)least, (long long)most);
}

int url_choice(const struct url *url, const char *key, const char *first, const char *second, bool *is_second,
               struct pawl_why *why)
{
        const char *value = url_option(url, key);

        *is_second = value && strcmp(value, second) == 0;
        if (!value || *is_second || strcmp(value, first) == 0)
                return PAWL_OK;
        return why_set(why, PAWL_INVALID, "%s=%.32s in the URL is neither %s nor %s", key, value, first, second);
}

int url_duration(const struct url *url, const char *key, int64_t *value, struct pawl_why *why)
{
        const char *text = url_option(url, key);

        if (!text || duration_parse(text, value))
                return PAWL_OK;
        return why_set(why, PAWL_INVALID,
                       "%s=%.32s in the URL is not a duration: write 500ms, 10s, 2m or 1h, up to 10 years", key, text);
}

const struct pawl_finding url_insecure = {
        .severity = PAWL_WARNING,
        .where = "the URL",
        .what = "insecure= is set: the server's certificate is not verified, so anyone on the network path can read "
                "and "
                "change everything",
        .mend = "leave out insecure=, and give the authority that signed the server's certificate (ca=FILE, for "
                "PostgreSQL sslrootcert=FILE)",
};

/* ---- what several engines have ----------------------------------------------------------------------------------- */

int url_timeout(const struct url *url, int64_t *timeout, struct pawl_why *why)
{
        int code;

        *timeout = 5 * SECOND;
        code = url_duration(url, "timeout", timeout, why);
        if (code == PAWL_OK && (*timeout < 10 * MS || *timeout > 3600 * SECOND))
                return why_set(why, PAWL_INVALID, "timeout=%.32s in the URL is not between 10 ms and an hour",
                               url_option(url, "timeout"));
        return code;
}

int url_slack(const struct url *url, int64_t *slack, struct pawl_why *why)
{
        int code;

        *slack = SECOND;
        code = url_duration(url, "slack", slack, why);
        if (code == PAWL_OK && *slack > 60 * SECOND)
                return why_set(why, PAWL_INVALID, "slack=%.32s in the URL is more than a minute",
                               url_option(url, "slack"));
        return code;
}
