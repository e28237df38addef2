/* cmd_renew.c - `pawl renew`: extend a lease that `pawl acquire` printed by its full ttl. */
#include "cli.h"

static int renew(pawl_client *client, const char *word)
{
        struct pawl_why why = {0};
        pawl_lock *lock;
        int code = pawl_adopt(client, word, PAWL_LOCK(.why = &why), &lock);

        if (code != PAWL_OK)
                return fail(code, &why);
        code = pawl_renew(lock);
        if (code == PAWL_OK && settings.json) {
                json_open(stdout, NULL, '{');
                json_text(stdout, "name", pawl_name(lock));
                json_token(stdout, "token", pawl_token(lock));
                json_number(stdout, "remaining_ms", pawl_remaining_ms(lock));
                json_close(stdout, '}');
                json_end(stdout);
        }
        pawl_forget(lock);
        return fail(code, NULL);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status;

        if (!options_read(command, NULL, argc, argv, &arguments, &status))
                return status;
        return client_do(renew, arguments.word[0]);
}

const struct command cmd_renew = {
        .name = "renew",
        .arguments = "LEASE",
        .summary = "extend a lease by its ttl, from now",
        .details = "Status: 0 extended; 123 the lock was lost; 125 pawl failed, or LEASE is not one.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
