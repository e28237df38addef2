/* cmd_acquire.c - `pawl acquire`: take a lock for a script; it lives its ttl, or until `pawl release LEASE`. */
#include <errno.h>
#include <string.h>

#include "run.h"

static struct claim_request request = {CLAIM_REQUEST, .purpose = "waiting for", .flags = PAWL_DETACH};

static const struct option options[] = {
        CLAIM_OPTIONS(request),
        {0},
};

static void print_json(pawl_lock *lock, const char *word)
{
        json_open(stdout, NULL, '{');
        json_text(stdout, "event", "held");
        json_text(stdout, "name", pawl_name(lock));
        json_flag(stdout, "held", true);
        json_token(stdout, "token", pawl_token(lock));
        json_text(stdout, "lease", word);
        json_number(stdout, "remaining_ms", pawl_remaining_ms(lock));
        json_close(stdout, '}');
        json_end(stdout);
}

/* A lease nobody was told of would lock everybody out until it ends: then rather not have it. */
static int hand_out(pawl_lock *lock)
{
        char word[PAWL_LEASE_MAX + 1];
        int code = pawl_lease(lock, word, sizeof(word));

        if (code != PAWL_OK) {
                pawl_release(lock);
                return fail(code, NULL);
        }
        if (settings.json)
                print_json(lock, word);
        else
                printf("%llu %s\n", (unsigned long long)pawl_token(lock), word);
        if (fflush(stdout) != 0) {
                say("cannot write the lease to standard output: %s; the lock is given back", strerror(errno));
                pawl_release(lock);
                return EXIT_FAILED;
        }
        return fail(pawl_forget(lock), NULL);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct signals signals;
        pawl_client *client;
        pawl_lock *lock;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        status = claim_check(command, &request);
        if (status != EXIT_DONE)
                return status;
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        settings.look_ms = CLAIM_LOOK_MS;
        status = client_open(PAWL_DRIVE_CALLER, &client);
        if (status != EXIT_DONE)
                return status;
        status = claim_wait(&signals, client, arguments.word[0], &request, &lock);
        if (lock)
                status = hand_out(lock);
        pawl_close(client);
        return status;
}

const struct command cmd_acquire = {
        .name = "acquire",
        .arguments = "NAME",
        .summary = "take NAME and print TOKEN LEASE; it lives its ttl",
        .details = "The lock outlives this process and is not renewed: `pawl renew LEASE` extends it by its ttl,\n"
                   "`pawl release LEASE` ends it. Who knows LEASE may do both.\n"
                   "Status: 0 held; 1 (-E) not free; 125 pawl failed; 128+N signal N ended the wait.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
