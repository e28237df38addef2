/* cmd_prune.c - `pawl prune`: a guard forgets its old marks, and refuses what they refused all the same. */
#include <inttypes.h>

#include "store.h"

static void print(uint64_t pruned)
{
        if (!settings.json) {
                printf("%" PRIu64 "\n", pruned);
                return;
        }
        json_open(stdout, NULL, '{');
        json_number(stdout, "pruned", (int64_t)pruned);
        json_close(stdout, '}');
        json_end(stdout);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct pawl_why why = {0};
        pawl_guard *guard;
        uint64_t floor, pruned;
        int code, status;

        if (!options_read(command, store_token_options, argc, argv, &arguments, &status) ||
            !store_open(command, arguments.word[0], &guard, &floor, &status))
                return status;
        code = pawl_guard_prune(guard, floor, &why, &pruned);
        pawl_guard_close(guard);
        if (code == PAWL_OK)
                print(pruned);
        return fail(code, &why);
}

const struct command cmd_prune = {
        .name = "prune",
        .arguments = "--store STORE TOKEN",
        .summary = "let a guard forget its marks up to TOKEN, and print how many",
        .details =
                "From then on a resource without a mark refuses every token below TOKEN. Only if no holder of any\n"
                "lock that is guarded there can have a smaller one: see \"Pruning\" in pawl-fence(1).\n" STORE_DETAILS
                "Status: 0; 125 pawl failed.",
        .flags = COMMAND_JSON,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
