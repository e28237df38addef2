/* fuzz_url.c - a URL is refused with a sentence, or read; and what is shown of it is a URL without a password. */
#include <string.h>

#include "base/url.h"
#include "fuzz.h"
#include "passfile.h"

static void check_sentence(const struct pawl_why *why, int code)
{
        MUST(code > PAWL_OK && why->code == code);
        MUST(memchr(why->text, 0, sizeof(why->text)) != NULL && why->text[0]);
        for (const char *c = why->text; *c; c++)
                MUST((unsigned char)*c >= 0x20 && *c != 0x7f);
}

static void check_shown(const struct url *url)
{
        struct url *shown = NULL;

        MUST(url_parse(url->shown, &shown, NULL) == PAWL_OK);
        MUST(shown->password == NULL);
        MUST(strcmp(shown->scheme, url->scheme) == 0 && strcmp(shown->path, url->path) == 0);
        MUST(shown->host_count == url->host_count && shown->option_count <= url->option_count);
        MUST(strcmp(shown->shown, url->shown) == 0);
        for (uint32_t i = 0; i < url->host_count; i++)
                MUST(strcmp(shown->hosts[i].name, url->hosts[i].name) == 0 &&
                     shown->hosts[i].port == url->hosts[i].port);
        url_free(shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = strndup((const char *)data, size);
        struct pawl_why why = {0};
        struct url *url = NULL;
        int64_t ttl = 0;
        int code;

        MUST(text != NULL);
        if (opens_a_file(text)) {
                free(text);
                return 0;
        }
        code = url_parse(text, &url, &why);
        if (code == PAWL_OK) {
                MUST(strcmp(url->whole, text) == 0);
                MUST(url->scheme[0] && strlen(url->shown) <= strlen(text));
                check_shown(url);
                code = url_duration(url, "ttl", &ttl, &why);
                MUST(code == PAWL_OK || code == PAWL_INVALID);
        } else {
                MUST(url == NULL);
                check_sentence(&why, code);
        }
        url_free(url);
        free(text);
        return 0;
}
