/* hurt_test.c - the guard over HTTP while memory is refused, one allocation after the other: it says so, keeps its
 * promises, and works again as soon as there is memory. Against the example server; the guard's files are compiled in, so
 * that their allocations are ours to refuse. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard/guard.h"
#include "tap.h"

extern const struct guard_ops http_guard;

/* ---- allocations -------------------------------------------------------------------------------------------------- */

static long left = -1; /* until one is refused; < 0: none is */
static bool refused;

static bool refuses(void)
{
        if (left < 0 || left-- > 0)
                return false;
        refused = true;
        return true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
        return refuses() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
        return refuses() ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
        return refuses() ? NULL : __real_realloc(old, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
        return refuses() ? NULL : __real_strdup(text);
}

int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **text, const char *format, ...)
{
        va_list args;
        int size;

        if (refuses())
                return -1;
        va_start(args, format);
        size = vasprintf(text, format, args);
        va_end(args);
        return size;
}

/* ---- a server ------------------------------------------------------------------------------------------------------- */

static pid_t server;
static char address[64];

static void start_server(void)
{
        const char *program = getenv("PAWL_TEST_HTTP_SERVER");
        int ends[2];
        FILE *said;

        REQUIRE(program != NULL && pipe(ends) == 0);
        server = fork();
        if (server == 0) {
                dup2(ends[1], STDOUT_FILENO);
                execl(program, program, "--port", "0", "mem:", (char *)NULL);
                _exit(127);
        }
        close(ends[1]);
        said = fdopen(ends[0], "r");
        REQUIRE(said != NULL && fscanf(said, "listening on http://%48[0-9.:]", address) == 1);
        fclose(said);
}

static void end_server(void)
{
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
}

/* ---- the guard ------------------------------------------------------------------------------------------------------ */

static struct pawl_why why;

/* Opened by hand: in the library a guard is a module, with allocations of its own. */
static pawl_guard *open_guard(void)
{
        char text[128];
        struct url *url = NULL;
        pawl_guard *guard = NULL;
        int code = PAWL_NO_MEMORY;

        snprintf(text, sizeof(text), "http://anna:secret@%s", address);
        if (url_parse(text, &url, &why) != PAWL_OK)
                return NULL;
        guard = calloc(1, http_guard.size);
        if (guard) {
                guard->ops = &http_guard;
                guard->pid = getpid();
                code = http_guard.open(guard, url, PAWL_GUARD(.wait_ms = 30000, .why = &why));
        }
        url_free(url);
        if (code == PAWL_OK)
                return guard;
        CHECK_INT(code, PAWL_NO_MEMORY);
        if (guard)
                http_guard.close(guard);
        free(guard);
        return NULL;
}

static void close_guard(pawl_guard *guard)
{
        if (!guard)
                return;
        http_guard.close(guard);
        free(guard);
}

static int count_entry(const struct pawl_guard_entry *entry, void *arg)
{
        (void)entry;
        ++*(int *)arg;
        return 0;
}

/* All calls once. Each does it or says why not; a failed one has a sentence. */
static void use(pawl_guard *guard, uint64_t token)
{
        struct visit visit = {"orders", 6, token, &why};
        struct visit look = {"versioned", 9, 0, &why};
        struct pawl_guard_data data = {0}, found = {0};
        uint64_t pruned = 0;
        int listed = 0;
        const struct guard_swap next = {.data = "next", .size = 4, .id = 1};
        int code[7];

        code[0] = http_guard.admit(guard, &visit);
        code[1] = http_guard.put(guard, &visit, "data", 4);
        code[2] = http_guard.get(guard, &visit, &data);
        code[3] = http_guard.list(guard, "", count_entry, &listed, &why);
        code[4] = http_guard.prune(guard, 1, &why, &pruned);
        code[5] = http_guard.look(guard, &look, &found);
        look.token = found.token + 1;
        code[6] = code[5] == PAWL_OK || code[5] == PAWL_NOT_FOUND ? http_guard.swap(guard, &look, &next) : code[5];
        for (int i = 0; i < 7; i++) {
                if (!CHECK(code[i] == PAWL_OK || (i == 5 && code[i] == PAWL_NOT_FOUND) ||
                           (refused && (code[i] == PAWL_NO_MEMORY || code[i] == PAWL_IN_DOUBT ||
                                        (i == 2 && code[i] == PAWL_NOT_FOUND)))))
                        NOTE("call %d: %s: %s", i, pawl_error_name(code[i]), why.text);
        }
        if (code[2] == PAWL_OK)
                CHECK_STR(data.bytes, "data");
        if (code[5] == PAWL_OK)
                CHECK_STR(found.bytes, "next");
        free(data.bytes);
        free(found.bytes);
}

TEST_WITHIN(300, without_memory_the_guard_says_so_and_works_again_with_it)
{
        long count = 0;

        start_server();
        do {
                pawl_guard *guard;

                refused = false;
                left = count++;
                guard = open_guard();
                if (guard)
                        use(guard, (uint64_t)count);
                left = -1;
                if (guard) {
                        struct visit visit = {"orders", 6, (uint64_t)count, &why};
                        struct visit older = {"orders", 6, 1, &why};

                        if (!CHECK_INT(http_guard.admit(guard, &visit), PAWL_OK))
                                NOTE("after refusing allocation %ld: %s", count, why.text);
                        if (count > 1)
                                CHECK_INT(http_guard.put(guard, &older, "late", 4), PAWL_STALE);
                }
                close_guard(guard);
        } while (refused && count < 2000);
        NOTE("%ld allocations were refused", count - 1);
        CHECK(count > 30);
        CHECK(!refused);
        end_server();
}
