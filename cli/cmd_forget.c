/* cmd_forget.c - `pawl forget`: a guard forgets the mark of one resource, so that every token passes there again. */
#include <inttypes.h>
#include <string.h>

#include "store.h"

static bool sure;

static const struct option options[] = {
        STORE_OPTION,
        {0, "yes", NULL, "do it; else only say what would be forgotten", option_flag, &sure},
        {0},
};

/* The mark of one resource. */
struct mark {
        const char *resource;
        uint64_t token; /* 0: none was found */
        int code;
};

static int on_entry(const struct pawl_guard_entry *entry, void *arg)
{
        struct mark *mark = arg;

        if (strcmp(entry->resource, mark->resource) != 0)
                return 0;
        mark->token = entry->token;
        mark->code = entry->code;
        return 1;
}

static int find(pawl_guard *guard, struct mark *mark)
{
        struct pawl_why why = {0};
        int code = pawl_guard_list(guard, mark->resource, on_entry, mark, &why);

        if (code != PAWL_OK)
                return fail(code, &why);
        if (mark->code != PAWL_OK) {
                say("the mark of '%s' cannot be read: %s", mark->resource, pawl_strerror(mark->code));
                return EXIT_FAILED;
        }
        if (mark->token == 0) {
                warn("no token is known for '%s'", mark->resource);
                return EXIT_CONFLICT;
        }
        return EXIT_DONE;
}

/* By the mark's own token: if a greater one has been admitted meanwhile, somebody is still at work, and it is refused. */
static int forget(pawl_guard *guard, const struct mark *mark)
{
        struct pawl_why why = {0};
        int code;

        if (!sure) {
                say("'%s' refuses tokens below %" PRIu64
                    "; without its mark every holder passes, late ones too. If none "
                    "can be left, repeat this with --yes",
                    mark->resource, mark->token);
                return EXIT_FAILED;
        }
        code = pawl_guard_forget(guard, mark->resource, mark->token, &why);
        if (code == PAWL_OK)
                printf("%" PRIu64 "\n", mark->token);
        if (code == PAWL_NOT_FOUND) { /* another one was faster */
                warn("no token is known for '%s'", mark->resource);
                return EXIT_CONFLICT;
        }
        return fail(code, &why);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct mark mark = {.code = PAWL_OK};
        pawl_guard *guard;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status) ||
            !store_open(command, NULL, &guard, NULL, &status))
                return status;
        mark.resource = arguments.word[0];
        status = find(guard, &mark);
        if (status == EXIT_DONE)
                status = forget(guard, &mark);
        pawl_guard_close(guard);
        return status;
}

const struct command cmd_forget = {
        .name = "forget",
        .arguments = "--store STORE --yes RESOURCE",
        .summary = "let a guard forget RESOURCE's mark, and print it: every token passes again",
        .details =
                "After the lock has moved to another store, whose tokens are smaller, or after a token that was never\n"
                "one of a lock. Only if no older holder can be left. The data stay.\n" STORE_DETAILS
                "Status: 0; 1 no token is known; 124 a greater token came meanwhile; 125 pawl failed, or no --yes.",
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
