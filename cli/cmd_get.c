/* cmd_get.c - `pawl get`: a fenced read. Reads carry the token too: else an older holder may still write after us.
 * Without a token it is a look, which admits nothing: for who only reads, and for resources that have a version instead
 * of a lock. */
#include <inttypes.h>
#include <stdlib.h>

#include "store.h"

static bool with_version;

static const struct option options[] = {
        STORE_OPTION,
        STORE_FORCE,
        {'V', "with-version", NULL, "without TOKEN: print the version first, in a line of its own", option_flag,
         &with_version},
        {0},
};

/* Prints what was found. */
static int print(const char *resource, int code, const struct pawl_guard_data *data, const struct pawl_why *why)
{
        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                return fail(code, why);
        if (with_version)
                printf("%" PRIu64 "\n", data->token);
        if (code == PAWL_NOT_FOUND) {
                warn("there are no data in '%s' yet", resource);
                return EXIT_CONFLICT;
        }
        fwrite(data->bytes, 1, data->size, stdout);
        return EXIT_DONE;
}

/* Without a token: *data is that of a resource nobody has written if there is no store at all. */
static int look(pawl_guard *guard, const char *resource, struct pawl_why *why, struct pawl_guard_data *data)
{
        return guard ? pawl_guard_look(guard, resource, why, data) : PAWL_NOT_FOUND;
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct pawl_why why = {0};
        struct pawl_guard_data data = {0};
        pawl_guard *guard;
        uint64_t token;
        int code, status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (with_version && arguments.words == 2)
                return usage_error(command, "-V goes without TOKEN: a resource has a lock or a version, not both");
        if (!(arguments.words == 2 ? store_open(command, arguments.word[1], &guard, &token, &status)
                                   : store_open_to_look(command, &guard, &status)))
                return status;
        code = arguments.words == 2 ? pawl_guard_get(guard, arguments.word[0], token, &why, &data)
                                    : look(guard, arguments.word[0], &why, &data);
        pawl_guard_close(guard);
        status = print(arguments.word[0], code, &data, &why);
        free(data.bytes);
        return status;
}

const struct command cmd_get = {
        .name = "get",
        .arguments = "--store STORE [-V] RESOURCE [TOKEN] > DATA",
        .summary = "print RESOURCE, unless TOKEN is stale",
        .details = "From then on every smaller token is refused: nobody who held the lock before can change what was "
                   "read.\nWithout TOKEN it only reads; with -V also the version, for `pawl put "
                   "--if-version`.\n" STORE_DETAILS
                   "Status: 0; 1 there are no data yet; 124 the token is stale; 125 pawl failed.",
        .words_min = 1,
        .words_max = 2,
        .run = run,
};
