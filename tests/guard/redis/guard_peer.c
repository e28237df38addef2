/* guard_peer.c - a process with one guard, orders on stdin: guard-peer URL WAIT_MS. Names and data are hex, "-" for
 * nothing.
 *
 *   admit NAME TOKEN       put NAME TOKEN DATA     get NAME TOKEN     forget NAME TOKEN
 *   look NAME -            swap NAME VERSION DATA
 *   list PREFIX -          prune - FLOOR           examine - -
 *   both NAME TOKEN        two threads admit, the second 1 s later; NUMBER: the time of its call in percent of the first's
 *
 * Each is answered by one line: CODE NUMBER DATA TEXT. NUMBER is the greatest token before a get, a version, or how many
 * were pruned; DATA is what get reads, or the lines of a list ("NAME TOKEN CODE") or an examination ("SEVERITY WHAT |
 * MEND"); TEXT is the sentence. */
#include <pawl/guard.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pawl_guard *guard;
static struct pawl_why why;

/* ---- hex --------------------------------------------------------------------------------------------------------- */

static void *need(void *memory)
{
        if (!memory)
                abort();
        return memory;
}

static char *read_hex(const char *hex, size_t *size)
{
        size_t length = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
        char *bytes = need(malloc(length + 1));

        for (size_t i = 0; i < length; i++) {
                char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};

                bytes[i] = (char)strtoul(digits, NULL, 16);
        }
        bytes[length] = '\0';
        *size = length;
        return bytes;
}

static void write_hex(const char *bytes, size_t size)
{
        if (size == 0)
                putchar('-');
        for (size_t i = 0; i < size; i++)
                printf("%02x", (unsigned char)bytes[i]);
}

/* ---- what is gathered --------------------------------------------------------------------------------------------- */

struct text {
        char *bytes;
        size_t size;
};

static void add(struct text *text, const char *line)
{
        size_t length = strlen(line);

        text->bytes = need(realloc(text->bytes, text->size + length + 1));
        memcpy(text->bytes + text->size, line, length + 1);
        text->size += length;
}

static int take_entry(const struct pawl_guard_entry *entry, void *arg)
{
        char line[512];

        snprintf(line, sizeof(line), "%s %llu %d\n", entry->resource, (unsigned long long)entry->token,
                 (int)entry->code);
        add(arg, line);
        return 0;
}

static int take_finding(const struct pawl_finding *finding, void *arg)
{
        char line[8192];

        snprintf(line, sizeof(line), "%u %s | %s\n", (unsigned)finding->severity, finding->what, finding->mend);
        add(arg, line);
        return 0;
}

/* ---- two threads -------------------------------------------------------------------------------------------------- */

struct call {
        const char *name;
        uint64_t token;
        double seconds;
        int code;
        struct pawl_why why;
};

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *admit_timed(void *arg)
{
        struct call *call = arg;
        double began = now();

        call->code = pawl_guard_admit(guard, call->name, call->token, &call->why);
        call->seconds = now() - began;
        return NULL;
}

static int admit_both(const char *name, uint64_t token, uint64_t *percent)
{
        struct call mine = {.name = name, .token = token}, other = mine;
        pthread_t thread;

        if (pthread_create(&thread, NULL, admit_timed, &other) != 0)
                abort();
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        admit_timed(&mine);
        pthread_join(thread, NULL);
        *percent = (uint64_t)(100 * mine.seconds / other.seconds);
        why = mine.why;
        return mine.code;
}

/* ---- orders ------------------------------------------------------------------------------------------------------- */

static void obey(const char *order, const char *name, uint64_t token, const char *hex)
{
        struct pawl_guard_data data = {0};
        struct text text = {0};
        uint64_t number = 0;
        size_t size;
        char *bytes = read_hex(hex, &size);
        int code = PAWL_INVALID;

        why.text[0] = '\0';
        if (strcmp(order, "admit") == 0)
                code = pawl_guard_admit(guard, name, token, &why);
        else if (strcmp(order, "both") == 0)
                code = admit_both(name, token, &number);
        else if (strcmp(order, "put") == 0)
                code = pawl_guard_put(guard, name, token, bytes, size, &why);
        else if (strcmp(order, "get") == 0)
                code = pawl_guard_get(guard, name, token, &why, &data);
        else if (strcmp(order, "look") == 0)
                code = pawl_guard_look(guard, name, &why, &data);
        else if (strcmp(order, "swap") == 0)
                code = pawl_guard_swap(guard, name, token, bytes, size, &why, &number);
        else if (strcmp(order, "forget") == 0)
                code = pawl_guard_forget(guard, name, token, &why);
        else if (strcmp(order, "list") == 0)
                code = pawl_guard_list(guard, name, take_entry, &text, &why);
        else if (strcmp(order, "prune") == 0)
                code = pawl_guard_prune(guard, token, &why, &number);
        else if (strcmp(order, "examine") == 0)
                code = pawl_guard_examine(guard, take_finding, &text, &why);
        printf("%d %llu ", code, (unsigned long long)(data.bytes ? data.token : number));
        write_hex(data.bytes ? data.bytes : text.bytes, data.bytes ? data.size : text.size);
        printf(" %s\n", code == PAWL_OK ? "-" : why.text);
        fflush(stdout);
        free(data.bytes);
        free(text.bytes);
        free(bytes);
}

static void obey_line(char *line)
{
        char *rest = NULL;
        const char *order = strtok_r(line, " \n", &rest);
        const char *name = strtok_r(NULL, " \n", &rest);
        const char *token = strtok_r(NULL, " \n", &rest);
        const char *data = strtok_r(NULL, " \n", &rest);
        size_t size;
        char *plain;

        if (!order || !name || !token)
                abort();
        plain = read_hex(name, &size);
        obey(order, plain, strtoull(token, NULL, 10), data ? data : "-");
        free(plain);
}

int main(int argc, char **argv)
{
        char *line = NULL;
        size_t room = 0;
        int code;

        if (argc != 3)
                return 2;
        code = pawl_guard_open(argv[1], PAWL_GUARD(.why = &why, .wait_ms = (uint32_t)atoi(argv[2])), &guard);
        printf("%d 0 - %s\n", code, code == PAWL_OK ? "-" : why.text);
        fflush(stdout);
        while (code == PAWL_OK && getline(&line, &room, stdin) > 0)
                obey_line(line);
        free(line);
        pawl_guard_close(guard);
        return 0;
}
