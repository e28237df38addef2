/* cmd_put.c - `pawl put`: a fenced write of what comes on standard input; or one that is made only if the version is still
 * the one that was read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store.h"

/* Everything on standard input, before the guard is asked: half a resource is never written. */
static bool read_input(char **data, size_t *size)
{
        size_t room = 0;
        ssize_t got;

        *data = NULL;
        *size = 0;
        do {
                if (*size == room) {
                        char *more = realloc(*data, room = room ? 2 * room : 65536);

                        if (!more) {
                                say("standard input is too large for the memory");
                                return false;
                        }
                        *data = more;
                }
                got = read(STDIN_FILENO, *data + *size, room - *size);
                if (got > 0)
                        *size += (size_t)got;
        } while (got > 0 || (got < 0 && errno == EINTR));
        if (got < 0)
                say("cannot read standard input: %s", strerror(errno));
        return got == 0;
}

static const char *if_version;

static const struct option options[] = {
        STORE_OPTION,
        {0, "if-version", "VERSION", "in place of TOKEN: only if RESOURCE is at VERSION, as 'pawl get -V' prints it",
         option_text, &if_version},
        {0},
};

static int write_input(pawl_guard *guard, const char *resource, uint64_t number)
{
        struct pawl_why why = {0};
        char *data;
        size_t size;
        int status = EXIT_FAILED;

        if (read_input(&data, &size))
                status = fail(if_version ? pawl_guard_swap(guard, resource, number, data, size, &why, NULL)
                                         : pawl_guard_put(guard, resource, number, data, size, &why),
                              &why);
        free(data);
        return status;
}

static int run(const struct command *command, int argc, char **argv)
{
        pawl_guard *guard;
        uint64_t number;
        int words, status;

        if (!options_read(command, options, &argc, &argv, &status))
                return status;
        words = if_version ? 1 : 2;
        if (!arguments_count(command, argc, words, words, &status))
                return status;
        if (if_version && !store_version(if_version, &number))
                return EXIT_FAILED;
        if (!store_open(command, if_version ? NULL : argv[1], &guard, &number, &status))
                return status;
        status = write_input(guard, argv[0], number);
        pawl_guard_close(guard);
        return status;
}

const struct command cmd_put = {
        .name = "put",
        .arguments = "--store STORE RESOURCE TOKEN | --if-version VERSION RESOURCE < DATA",
        .summary = "replace RESOURCE by standard input, unless TOKEN is stale",
        .details = "The check and the write are one: whole or not at all.\n" STORE_DETAILS
                   "Status: 0 written; 124 the token or the version is stale and nothing has changed; 125 pawl failed.",
        .flags = 0,
        .run = run,
};
