/* peer.c - a process of its own that uses a guard, told line by line what to do:
 *
 *     open URL WAIT-MS      admit NAME TOKEN      put NAME TOKEN HEX      fill NAME TOKEN SIZE (that many bytes 'x')
 *     get NAME TOKEN        forget NAME TOKEN     list PREFIX|-           prune FLOOR
 *     examine               close                 count NAME TIMES (adds one to the number there; see below)
 *
 * Each is answered by one line: CODE NUMBER HEX SENTENCE. NUMBER is get's token before, or how many were listed, pruned or
 * found; HEX is data, or what was listed. count tells how often it was
 * said to be done, and in HEX how often that was in doubt. Names have no blanks here; %XX in them is decoded. */
#include <inttypes.h>
#include <pawl/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pawl_guard *guard;
static struct pawl_why why;

/* What a command gives back beside its code. */
struct result {
        uint64_t number;
        char *bytes;
        size_t size;
};

static void decode(char *text)
{
        char *out = text;

        for (unsigned byte; *text; text++) {
                if (*text == '%' && sscanf(text + 1, "%2x", &byte) == 1) {
                        *out++ = (char)byte;
                        text += 2;
                } else {
                        *out++ = *text;
                }
        }
        *out = '\0';
}

static size_t from_hex(const char *hex, char *bytes)
{
        size_t size = strlen(hex) / 2;

        for (size_t i = 0; i < size; i++) {
                unsigned byte = 0;

                sscanf(hex + 2 * i, "%2x", &byte);
                bytes[i] = (char)byte;
        }
        return size;
}

static int on_entry(const struct pawl_guard_entry *entry, void *arg)
{
        struct result *result = arg;
        char *grown = NULL;
        int size = asprintf(&grown, "%s%s=%" PRIu64 ":%d\n", result->bytes ? result->bytes : "", entry->resource,
                            entry->token, entry->code);

        if (size < 0)
                return 1;
        free(result->bytes);
        result->bytes = grown;
        result->size = (size_t)size;
        result->number++;
        return 0;
}

static int on_finding(const struct pawl_finding *finding, void *arg)
{
        const struct pawl_guard_entry entry = {finding->what, finding->severity, 0, 0};

        return on_entry(&entry, arg);
}

static int run_put(const char *name, uint64_t token, const char *hex)
{
        char *bytes = malloc(strlen(hex) / 2 + 1);
        int code = bytes ? pawl_guard_put(guard, name, token, bytes, from_hex(hex, bytes), &why) : PAWL_NO_MEMORY;

        free(bytes);
        return code;
}

static int run_fill(const char *name, uint64_t token, size_t size)
{
        char *bytes = malloc(size + 1);
        int code = PAWL_NO_MEMORY;

        if (bytes) {
                memset(bytes, 'x', size);
                code = pawl_guard_put(guard, name, token, bytes, size, &why);
        }
        free(bytes);
        return code;
}

static int run_get(const char *name, uint64_t token, struct result *result)
{
        struct pawl_guard_data data = {0};
        int code = pawl_guard_get(guard, name, token, &why, &data);

        *result = (struct result){data.token, data.bytes, data.size};
        return code;
}

static int run_look(const char *name, struct result *result)
{
        struct pawl_guard_data data = {0};
        int code = pawl_guard_look(guard, name, &why, &data);

        *result = (struct result){data.token, data.bytes, data.size};
        return code;
}

static int run_swap(const char *name, uint64_t version, const char *hex, struct result *result)
{
        char *bytes = malloc(strlen(hex) / 2 + 1);
        int code = PAWL_NO_MEMORY;

        if (bytes)
                code = pawl_guard_swap(guard, name, version, bytes, from_hex(hex, bytes), &why, &result->number);
        free(bytes);
        return code;
}

/* One word more behind those that stand there. */
static int add_word(struct pawl_change *change, void *arg)
{
        const char *old = change->old ? change->old : "";
        char *longer = NULL;
        int size = asprintf(&longer, "%s %s", old, (const char *)arg);
        int code = size < 0 ? PAWL_NO_MEMORY : pawl_change_to(change, longer, (size_t)size);

        free(size < 0 ? NULL : longer);
        return code;
}

static int run_update(const char *name, uint64_t wait, char *word, struct result *result)
{
        return pawl_update(guard, name, add_word, word, PAWL_UPDATE(.wait_ms = (uint32_t)wait, .why = &why),
                           &result->number);
}

static int add_one(struct pawl_change *change, void *arg)
{
        char text[32];

        (void)arg;
        snprintf(text, sizeof(text), "%ld", (change->old ? atol(change->old) : 0) + 1);
        return pawl_change_to(change, text, strlen(text));
}

/* Everybody writes the same bytes: whose they are cannot be seen in them. */
static int run_count(const char *name, uint64_t times, struct result *result)
{
        unsigned doubts = 0;
        int size;

        for (uint64_t i = 0; i < times; i++) {
                int code = pawl_update(guard, name, add_one, NULL, PAWL_UPDATE(.wait_ms = 20000, .why = &why), NULL);

                result->number += code == PAWL_OK;
                doubts += code == PAWL_IN_DOUBT;
                if (code != PAWL_OK && code != PAWL_IN_DOUBT && code != PAWL_UNREACHABLE && code != PAWL_STALE)
                        return code;
        }
        size = asprintf(&result->bytes, "%u", doubts);
        result->size = size < 0 ? 0 : (size_t)size;
        return size < 0 ? PAWL_NO_MEMORY : PAWL_OK;
}

static int run(const char *verb, char *name, const char *third, char *fourth, struct result *result)
{
        uint64_t token = strtoull(third, NULL, 10);

        if (strcmp(verb, "open") == 0)
                return pawl_guard_open(name, PAWL_GUARD(.wait_ms = (uint32_t)token, .why = &why), &guard);
        decode(name);
        if (strcmp(verb, "admit") == 0)
                return pawl_guard_admit(guard, name, token, &why);
        if (strcmp(verb, "put") == 0)
                return run_put(name, token, fourth);
        if (strcmp(verb, "fill") == 0)
                return run_fill(name, token, strtoul(fourth, NULL, 10));
        if (strcmp(verb, "get") == 0)
                return run_get(name, token, result);
        if (strcmp(verb, "look") == 0)
                return run_look(name, result);
        if (strcmp(verb, "swap") == 0)
                return run_swap(name, token, fourth, result);
        if (strcmp(verb, "update") == 0)
                return run_update(name, token, fourth, result);
        if (strcmp(verb, "count") == 0)
                return run_count(name, token, result);
        if (strcmp(verb, "forget") == 0)
                return pawl_guard_forget(guard, name, token, &why);
        if (strcmp(verb, "list") == 0)
                return pawl_guard_list(guard, strcmp(name, "-") == 0 ? NULL : name, on_entry, result, &why);
        if (strcmp(verb, "prune") == 0)
                return pawl_guard_prune(guard, strtoull(name, NULL, 10), &why, &result->number);
        if (strcmp(verb, "examine") == 0)
                return pawl_guard_examine(guard, on_finding, result, &why);
        pawl_guard_close(guard);
        guard = NULL;
        return PAWL_OK;
}

static void answer(int code, struct result *result)
{
        printf("%d %" PRIu64 " ", code, result->number);
        for (size_t i = 0; i < result->size; i++)
                printf("%02x", (unsigned)(unsigned char)result->bytes[i]);
        printf(" %s\n", code == PAWL_OK ? "" : why.text);
        fflush(stdout);
        free(result->bytes);
}

int main(void)
{
        char *line = NULL;
        size_t room = 0;

        while (getline(&line, &room, stdin) > 0) {
                struct result result = {0};
                char none[] = "";
                char *rest = NULL;
                char *verb = strtok_r(line, " \n", &rest);
                char *words[3];

                for (int i = 0; i < 3; i++) {
                        words[i] = strtok_r(NULL, " \n", &rest);
                        if (!words[i])
                                words[i] = none;
                }
                why = (struct pawl_why){0};
                answer(run(verb ? verb : none, words[0], words[1], words[2], &result), &result);
        }
        pawl_guard_close(guard);
        free(line);
        return 0;
}
