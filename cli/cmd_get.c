/* cmd_get.c - `pawl get`: a fenced read. Reads carry the token too: else an older holder may still write after us. */
#include <stdlib.h>

#include "store.h"

static int run(const struct command *command, int argc, char **argv)
{
        struct pawl_why why = {0};
        struct pawl_guard_data data;
        pawl_guard *guard;
        uint64_t token;
        int code, status;

        if (!options_read(command, store_options, &argc, &argv, &status) ||
            !arguments_count(command, argc, 2, 2, &status) || !store_open(command, argv[1], &guard, &token, &status))
                return status;
        code = pawl_guard_get(guard, argv[0], token, &why, &data);
        pawl_guard_close(guard);
        if (code == PAWL_NOT_FOUND) {
                warn("there are no data in '%s' yet", argv[0]);
                return EXIT_CONFLICT;
        }
        if (code != PAWL_OK)
                return fail(code, &why);
        fwrite(data.bytes, 1, data.size, stdout);
        free(data.bytes);
        return EXIT_DONE;
}

const struct command cmd_get = {
        .name = "get",
        .arguments = "--store STORE RESOURCE TOKEN > DATA",
        .summary = "print RESOURCE, unless TOKEN is stale",
        .details = "From then on every smaller token is refused: nobody who held the lock before can change what was "
                   "read.\n" STORE_DETAILS
                   "Status: 0; 1 admitted, but there are no data yet; 124 the token is stale; 125 pawl failed.",
        .flags = 0,
        .run = run,
};
