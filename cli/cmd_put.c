/* cmd_put.c - `pawl put`: a fenced write of what comes on standard input. */
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

static int run(const struct command *command, int argc, char **argv)
{
        struct pawl_why why = {0};
        pawl_guard *guard;
        uint64_t token;
        char *data;
        size_t size;
        int status;

        if (!options_read(command, store_options, &argc, &argv, &status) ||
            !arguments_count(command, argc, 2, 2, &status) || !store_open(command, argv[1], &guard, &token, &status))
                return status;
        status = EXIT_FAILED;
        if (read_input(&data, &size))
                status = fail(pawl_guard_put(guard, argv[0], token, data, size, &why), &why);
        free(data);
        pawl_guard_close(guard);
        return status;
}

const struct command cmd_put = {
        .name = "put",
        .arguments = "--store STORE RESOURCE TOKEN < DATA",
        .summary = "replace RESOURCE by standard input, unless TOKEN is stale",
        .details = "The check and the write are one: whole or not at all.\n" STORE_DETAILS
                   "Status: 0 written; 124 the token is stale and nothing has changed; 125 pawl failed.",
        .flags = 0,
        .run = run,
};
