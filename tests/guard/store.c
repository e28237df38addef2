/* store.c - a fresh store for each test, and the calls in short. */
#include "store.h"

#include <sys/wait.h>
#include <unistd.h>

struct pawl_why why;

/* {dir}: the test's directory, {n}: a number of its own. */
static void fill_in(const char *template, char *text, size_t size)
{
        size_t used = 0;

        for (const char *p = template; *p && used < size - 1;) {
                char *out = text + used;
                size_t room = size - used;

                if (strncmp(p, "{dir}", 5) == 0) {
                        used += (size_t)snprintf(out, room, "%s", tap_directory());
                        p += 5;
                } else if (strncmp(p, "{n}", 3) == 0) {
                        used += (size_t)snprintf(out, room, "%ld", (long)getpid());
                        p += 3;
                } else {
                        *out = *p++;
                        used++;
                }
        }
        REQUIRE(used < size - 1);
}

const char *store_url(void)
{
        static char url[1024];
        const char *template = getenv("PAWL_TEST_STORE");
        const char *before = getenv("PAWL_TEST_BEFORE");
        char command[1024] = "";

        if (*url)
                return url;
        fill_in(template ? template : "file:{dir}", url, sizeof(url));
        if (before) {
                fill_in(before, command, sizeof(command));
                REQUIRE(system(command) == 0);
        }
        return url;
}

bool store_is(const char *scheme)
{
        return strncmp(store_url(), scheme, strlen(scheme)) == 0;
}

void needs(const char *word)
{
        const char *without = getenv("PAWL_TEST_WITHOUT");

        if (without && strstr(without, word))
                SKIP("this kind of guard has no %s", word);
}

void needs_persistence(void)
{
        if (store_is("mem:"))
                SKIP("a guard in memory is forgotten when it is closed");
}

pawl_guard *open_store(void)
{
        pawl_guard *guard = NULL;

        if (!CHECK_INT(pawl_guard_open(store_url(), PAWL_GUARD(.why = &why, .wait_ms = 60000), &guard), PAWL_OK))
                NOTE("%s", why.text);
        REQUIRE(guard != NULL);
        return guard;
}

int admit(pawl_guard *guard, const char *resource, uint64_t token)
{
        return pawl_guard_admit(guard, resource, token, &why);
}

int put(pawl_guard *guard, const char *resource, uint64_t token, const char *text)
{
        return pawl_guard_put(guard, resource, token, text, strlen(text), &why);
}

int forget(pawl_guard *guard, const char *resource, uint64_t token)
{
        return pawl_guard_forget(guard, resource, token, &why);
}

void check_get(pawl_guard *guard, const char *resource, uint64_t token, const char *text, uint64_t before)
{
        struct pawl_guard_data data = {0};

        if (!CHECK_INT(pawl_guard_get(guard, resource, token, &why, &data), PAWL_OK)) {
                NOTE("%s", why.text);
                return;
        }
        CHECK_STR(data.bytes, text);
        CHECK_UINT(data.size, strlen(text));
        CHECK_UINT(data.token, before);
        free(data.bytes);
}

void check_empty(pawl_guard *guard, const char *resource, uint64_t token)
{
        struct pawl_guard_data data = {.bytes = &data, .size = 99, .token = 98};

        CHECK_INT(pawl_guard_get(guard, resource, token, &why, &data), PAWL_NOT_FOUND);
        CHECK(data.bytes == &data);
        CHECK_UINT(data.size, 99);
        CHECK_UINT(data.token, 98);
}

struct listing {
        const char *const *names;
        const uint64_t *tokens;
        int count;
        int seen[64]; /* how often each */
};

static int look(const struct pawl_guard_entry *entry, void *arg)
{
        struct listing *listing = arg;
        int i = 0;

        while (i < listing->count && strcmp(listing->names[i], entry->resource) != 0)
                i++;
        if (!CHECK(i < listing->count)) {
                NOTE("not expected: %s", entry->resource);
                return 0;
        }
        CHECK_INT(entry->code, PAWL_OK);
        CHECK_UINT(entry->token, listing->tokens[i]);
        listing->seen[i]++;
        return 0;
}

void check_list(pawl_guard *guard, const char *prefix, const char *const *names, const uint64_t *tokens, int count)
{
        struct listing listing = {names, tokens, count, {0}};

        REQUIRE(count <= 64);
        if (!CHECK_INT(pawl_guard_list(guard, prefix, look, &listing, &why), PAWL_OK))
                NOTE("%s", why.text);
        for (int i = 0; i < count; i++) {
                if (!CHECK_INT(listing.seen[i], 1))
                        NOTE("%s, of prefix %s", names[i], prefix ? prefix : "NULL");
        }
}

void check_child(int child)
{
        int status;

        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_INT(status, 0);
}
