/* peer.c - a guard at the end of a pipe: peer URL [WAIT_MS] reads one call per line (admit NAME TOKEN, put NAME TOKEN
 * TEXT, get NAME TOKEN, swap NAME VERSION TEXT, forget NAME TOKEN, list PREFIX, prune FLOOR, examine) and answers with
 * one: the code's name, a tab, and what was found or why not. Names and texts are percent-encoded; "" is "-". */
#include <inttypes.h>
#include <pawl/guard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pawl_why why;

/* In place. */
static char *decode(char *text)
{
        char *out = text;

        if (strcmp(text, "-") == 0)
                *text = 0;
        for (char *in = text; *in; in++, out++) {
                unsigned byte = 0;

                if (*in == '%' && sscanf(in + 1, "%2x", &byte) == 1) {
                        *out = (char)byte;
                        in += 2;
                } else {
                        *out = *in;
                }
        }
        *out = 0;
        return text;
}

static void encode(const char *bytes, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                if (bytes[i] > ' ' && bytes[i] < 127 && bytes[i] != '%')
                        putchar(bytes[i]);
                else
                        printf("%%%02x", (unsigned)(unsigned char)bytes[i]);
        }
}

static void answer(int code)
{
        printf("%s\t%s", pawl_error_name(code), code == PAWL_OK ? "" : why.text);
}

static void get(pawl_guard *guard, const char *name, uint64_t token)
{
        struct pawl_guard_data data;
        int code = pawl_guard_get(guard, name, token, &why, &data);

        answer(code);
        if (code != PAWL_OK)
                return;
        printf("%" PRIu64 " ", data.token);
        encode(data.bytes, data.size);
        free(data.bytes);
}

/* Kept until the end: the answer's first word is the code. */
struct listing {
        char *text;
        size_t size;
        FILE *file;
};

static int on_entry(const struct pawl_guard_entry *entry, void *arg)
{
        struct listing *listing = arg;

        fprintf(listing->file, "%s=%" PRIu64 " ", entry->resource, entry->token);
        return 0;
}

static int on_finding(const struct pawl_finding *finding, void *arg)
{
        struct listing *listing = arg;

        fprintf(listing->file, "%u %s [%s]; ", finding->severity, finding->what, finding->mend);
        return 0;
}

static void list(pawl_guard *guard, const char *prefix)
{
        struct listing listing = {0};
        int code;

        listing.file = open_memstream(&listing.text, &listing.size);
        if (!listing.file)
                abort();
        code = prefix ? pawl_guard_list(guard, prefix, on_entry, &listing, &why)
                      : pawl_guard_examine(guard, on_finding, &listing, &why);
        fclose(listing.file);
        answer(code);
        fputs(listing.text, stdout);
        free(listing.text);
}

static void prune(pawl_guard *guard, uint64_t floor)
{
        uint64_t pruned = 0;
        int code = pawl_guard_prune(guard, floor, &why, &pruned);

        answer(code);
        if (code == PAWL_OK)
                printf("%" PRIu64, pruned);
}

static void obey(pawl_guard *guard, char *line)
{
        const char *word = strtok(line, " \n");
        char *name = strtok(NULL, " \n");
        const char *number = strtok(NULL, " \n");
        char *text = strtok(NULL, " \n");
        uint64_t token = number ? strtoull(number, NULL, 10) : 0;

        name = name ? decode(name) : NULL;
        if (strcmp(word, "admit") == 0)
                answer(pawl_guard_admit(guard, name, token, &why));
        else if (strcmp(word, "swap") == 0) {
                text = decode(text);
                answer(pawl_guard_swap(guard, name, token, text, strlen(text), &why, NULL));
        } else if (strcmp(word, "put") == 0)
                answer(pawl_guard_put(guard, name, token, decode(text), strlen(text), &why));
        else if (strcmp(word, "get") == 0)
                get(guard, name, token);
        else if (strcmp(word, "forget") == 0)
                answer(pawl_guard_forget(guard, name, token, &why));
        else if (strcmp(word, "prune") == 0)
                prune(guard, strtoull(name, NULL, 10));
        else
                list(guard, strcmp(word, "examine") == 0 ? NULL : name);
        putchar('\n');
        fflush(stdout);
}

int main(int argc, char **argv)
{
        pawl_guard *guard;
        char *line = NULL;
        size_t room = 0;
        uint32_t wait = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
        int code = argc < 2 ? PAWL_INVALID : pawl_guard_open(argv[1], PAWL_GUARD(.why = &why, .wait_ms = wait), &guard);

        answer(code);
        putchar('\n');
        fflush(stdout);
        if (code != PAWL_OK)
                return 1;
        while (getline(&line, &room, stdin) > 0)
                obey(guard, line);
        free(line);
        pawl_guard_close(guard);
        return 0;
}
