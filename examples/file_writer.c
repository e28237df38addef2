/* file_writer.c - two programs add lines to one file: read it, add, replace it, all under a lock and with its token. The
 * first read is a barrier: from then on an older holder cannot write, although the new one has written nothing yet.
 *
 *     file_writer [URL [DIRECTORY]]
 */
#include <pawl.h>
#include <pawl/guard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char NAME[] = "example/visitors", FILE_NAME[] = "visitors.txt";

/* What the file holds, in memory of the caller's; NULL if we may not read it any more, or cannot. */
static char *read_file(pawl_guard *guard, pawl_lock *lock)
{
        struct pawl_guard_data data;
        int code = pawl_guard_get(guard, FILE_NAME, pawl_token(lock), NULL, &data);

        if (code == PAWL_NOT_FOUND) /* admitted, but there is no file yet */
                return strdup("");
        return code == PAWL_OK ? data.bytes : NULL;
}

/* The text that was read, and a line more: the whole file, or nothing. Takes the text. */
static int add_line(pawl_guard *guard, pawl_lock *lock, char *text, const char *line)
{
        char *longer = NULL;
        int length = text ? asprintf(&longer, "%s%s\n", text, line) : -1;
        int code = PAWL_NO_MEMORY;

        if (length >= 0)
                code = pawl_guard_put(guard, FILE_NAME, pawl_token(lock), longer, (size_t)length, NULL);
        free(longer);
        free(text);
        return code;
}

static int take(pawl_client *client, pawl_lock **lock)
{
        return pawl_acquire(client, NAME, PAWL_LOCK(.ttl_ms = 3000, .wait_ms = 10000), lock);
}

/* The story. The first thing that does not come out as it should is the answer. */
static const char *play(pawl_client *client, pawl_guard *guard)
{
        pawl_lock *first, *second;
        char *seen_by_first, *seen_by_second;

        if (take(client, &first) != PAWL_OK)
                return "the first writer does not get the lock";
        if (add_line(guard, first, read_file(guard, first), "first was here") != PAWL_OK)
                return "the first writer cannot write";
        seen_by_first = read_file(guard, first);
        /* Here the first writer is paused, and does not know how long. Somebody breaks its lock. */
        if (pawl_break(client, NAME) != PAWL_OK || take(client, &second) != PAWL_OK)
                return "the second writer does not get the broken lock";
        seen_by_second = read_file(guard, second);
        if (add_line(guard, first, seen_by_first, "first again, too late") != PAWL_STALE)
                return "an older holder writes after a newer one has read";
        if (add_line(guard, second, seen_by_second, "second was here") != PAWL_OK)
                return "the second writer cannot write";
        seen_by_second = read_file(guard, second);
        if (!seen_by_second || strcmp(seen_by_second, "first was here\nsecond was here\n") != 0)
                return "a line is missing, or there is one too many";
        free(seen_by_second);
        if (pawl_release(first) != PAWL_LOST || pawl_release(second) != PAWL_OK)
                return "release does not say what was";
        return NULL;
}

int main(int argc, char **argv)
{
        char store[4096];
        const char *wrong = "cannot open the store or the guard";
        pawl_client *client = NULL;
        pawl_guard *guard = NULL;

        snprintf(store, sizeof(store), "file:%s", argc > 2 ? argv[2] : ".");
        if (pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client) == PAWL_OK &&
            pawl_guard_open(store, NULL, &guard) == PAWL_OK)
                wrong = play(client, guard);
        printf("%s\n", wrong ? wrong : "two lines by two writers; the late one is not among them");
        pawl_guard_close(guard);
        pawl_close(client);
        return wrong ? 1 : 0;
}
