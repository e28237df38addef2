/* cmd_once.c - `pawl once`: the first caller with KEY runs COMMAND; status and output are kept, and later callers
 * get them. */
#include <pawl/once.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run.h"
#include "tee.h"

struct request {
        struct claim_request claim;
        struct hold hold;
        const char *key;
        int64_t keep_ms;          /* 0: a day */
        int64_t keep_failures_ms; /* 0: as long as the others */
        bool keep_for_ever;
        bool only_success;
        bool look;
        bool forget;
};
static struct request request = {.claim = {CLAIM_REQUEST, .purpose = "waiting for the result of"}, .hold = {HOLD}};

/* What pawl_result.flags mean here. */
enum { OUTPUT_CUT = 1 };
/* What claim_wait returns if the lock is taken; no exit status. */
enum { TAKEN = 1000 };

/* People search for this option; the message says what there is instead. */
static bool option_list(const struct option *option, const char *text)
{
        (void)option;
        (void)text;
        say("kept keys cannot be listed: no engine lists what is kept beside a lock that nobody holds; "
            "'pawl once --look KEY' prints one, 'pawl ls once/' lists those that are being run");
        return false;
}

static const struct option options[] = {
        {0, "keep", "DUR", "how long the result is kept (24h)", option_some_time, &request.keep_ms},
        {0, "keep-forever", NULL, "keep it until --forget", option_flag, &request.keep_for_ever},
        {0, "only-success", NULL, "keep no failure: after a status other than 0 the next caller runs", option_flag,
         &request.only_success},
        {0, "keep-failures", "DUR", "how long a status other than 0 is kept (as --keep)", option_some_time,
         &request.keep_failures_ms},
        {'n', "nonblock", NULL, "fail at once if another one is at it", claim_no_wait, &request.claim.wait_ms},
        {'w', "wait", "DUR", "give up after DUR; else wait for whoever is at it", option_duration,
         &request.claim.wait_ms},
        {'E', "conflict-exit-code", "N", "the status when -n or -w gives up (1)", claim_exit_code,
         &request.claim.conflict_status},
        {0, "ttl", "DUR", "the lease: if a runner dies the next one runs after it (10s)", option_some_time,
         &request.claim.ttl_ms},
        CLAIM_NAMES(request.claim),
        {0, "look", NULL, "print the kept output, run nothing; status 1 if there is none", option_flag, &request.look},
        {0, "forget", NULL, "forget the result: the next caller runs", option_flag, &request.forget},
        {0, "list", NULL, "kept keys cannot be listed: says what can be seen", option_list, NULL},
        HOLD_OPTIONS(request.hold),
        {0},
};

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void print_json(const struct pawl_result *result, bool replayed, bool kept)
{
        json_open(stdout, NULL, '{');
        json_text(stdout, "key", request.key);
        json_flag(stdout, "replayed", replayed);
        json_flag(stdout, "kept", kept);
        json_number(stdout, "status", result->status);
        json_token(stdout, "token", result->token);
        json_number(stdout, "size", (int64_t)result->size);
        json_flag(stdout, "cut", result->flags & OUTPUT_CUT);
        json_time(stdout, "stored", result->stored_us / 1000);
        json_bytes(stdout, "output", result->data, result->size);
        json_close(stdout, '}');
        json_end(stdout);
}

/* As the one execution ended. */
static int replay(struct pawl_result *result)
{
        int status = result->status;

        detail("'%s' was done before, with token %llu", request.key, (unsigned long long)result->token);
        if (settings.json)
                print_json(result, true, true);
        else
                fwrite(result->data, 1, result->size, stdout);
        if (result->flags & OUTPUT_CUT)
                warn("the output of '%s' was longer: only its first %zu bytes were kept", request.key, result->size);
        free(result->data);
        return status;
}

static int look(pawl_client *client, const char *key)
{
        struct pawl_why why = {0};
        struct pawl_result result;
        int code = client ? pawl_once_look(client, key, &why, &result) : PAWL_NOT_FOUND;

        if (code == PAWL_NOT_FOUND)
                return EXIT_CONFLICT;
        if (code != PAWL_OK)
                return fail(code, &why);
        replay(&result);
        return EXIT_DONE;
}

static int forget(pawl_client *client, const char *key)
{
        int64_t wait_ms = request.claim.wait_ms < 0 ? PAWL_FOREVER
                          : request.claim.wait_ms   ? request.claim.wait_ms
                                                    : PAWL_NO_WAIT;
        struct pawl_why why = {0};
        int code = pawl_once_forget(client, key, PAWL_ONCE(.wait_ms = wait_ms, .why = &why));

        if (code == PAWL_NOT_FOUND || code == PAWL_BUSY || code == PAWL_TIMEOUT)
                return (int)request.claim.conflict_status;
        return code == PAWL_OK ? EXIT_DONE : fail(code, &why);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* A COMMAND that a signal ended has no result; nor has one that could not be started. */
static bool has_result(int status)
{
        return status != EXIT_LOST && request.hold.child.ended && request.hold.child.how == CLD_EXITED;
}

static bool is_kept(int status)
{
        return has_result(status) && (status == 0 || !request.only_success);
}

static int64_t keep_for(int status)
{
        if (status != 0 && request.keep_failures_ms)
                return request.keep_failures_ms;
        return request.keep_for_ever ? -1 : request.keep_ms;
}

static int keep_result(pawl_client *client, pawl_lock *lock, const struct tee *tee, int status)
{
        struct pawl_why why = {0};
        struct pawl_result result = {
                .data = tee->bytes, .size = tee->size, .status = status, .flags = tee->cut ? OUTPUT_CUT : 0};
        int code = pawl_once_finish(lock, &result, keep_for(status));

        if (code == PAWL_OK && tee->cut)
                warn("the output of '%s' is longer than %zu bytes: later callers get no more of it", request.key,
                     tee->size);
        if (code == PAWL_LOST) {
                warn("the lock for '%s' was lost: the result is another one's business", request.key);
                return EXIT_LOST;
        }
        if (code != PAWL_OK) {
                (void)pawl_explain(client, &why);
                say("the result of '%s' may not have been kept: %s", request.key,
                    why.code == code ? why.text : pawl_strerror(code));
                return EXIT_FAILED;
        }
        return status;
}

static int64_t unix_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* With --json COMMAND's output is in the object, and nowhere else. */
static void print_run(struct tee *tee, uint64_t token, int status, bool kept)
{
        struct pawl_result result = {.data = tee->bytes,
                                     .size = tee->size,
                                     .status = status,
                                     .flags = tee->cut ? OUTPUT_CUT : 0,
                                     .token = token,
                                     .stored_us = kept ? unix_us() : 0};

        tee->bytes = NULL;
        (void)tee_end(tee); /* standard output is ours again */
        print_json(&result, false, kept);
        free(result.data);
}

/* Waits for whoever reads our output, which may take longer than the lease. A reader that has left wants no more of it; but
 * what could not be written was not given. */
static int pass_output_on(struct tee *tee, bool kept, int status)
{
        int error = tee_end(tee);

        if (!error || error == EPIPE)
                return status;
        say("cannot write to standard output: %s%s", strerror(error),
            kept ? "; the output is kept, and printed by --look" : "");
        return status == EXIT_DONE ? EXIT_FAILED : status;
}

static int execute(struct signals *signals, pawl_client *client, pawl_lock *lock)
{
        uint64_t token = pawl_token(lock);
        struct tee tee;
        int status, ended;
        bool kept;

        if (!tee_begin(&tee, PAWL_RESULT_MAX, settings.json)) {
                pawl_release(lock);
                return EXIT_FAILED;
        }
        ended = hold_command(&request.hold, signals, client, lock);
        tee_take(&tee);
        kept = is_kept(ended);
        status = kept ? keep_result(client, lock, &tee, ended) : hold_release(&request.hold, lock, ended);
        if (settings.json)
                print_run(&tee, token, status, kept && status == ended);
        else
                status = pass_output_on(&tee, kept && status == ended, status);
        hold_end(&request.hold, status);
        return status;
}

/* Until whoever is at it has ended, together with all others who wait. True: look again. */
static bool wait_with_others(struct signals *signals, pawl_client *client, const char *name, int *status)
{
        struct claim_request waiting = request.claim;
        pawl_lock *lock;

        waiting.shared = pawl_capabilities(client) & PAWL_CAN_SHARE;
        *status = claim_wait(signals, client, name, &waiting, &lock);
        if (lock)
                pawl_release(lock);
        return lock;
}

/* As pawl_once_begin, with an ear for signals. Who has waited and found no result stands in line to run. */
static int once(struct signals *signals, pawl_client *client, const char *name)
{
        struct claim_request at_once = request.claim;
        struct pawl_why why = {0};
        struct pawl_result result;
        pawl_lock *lock;
        int code, status;

        at_once.wait_ms = 0;
        at_once.conflict_status = TAKEN;
        at_once.silent = true; /* it waits for the runner then, and says so */
        for (bool waited = false;; waited = true) {
                code = pawl_once_look(client, request.key, &why, &result);
                if (code == PAWL_OK)
                        return replay(&result);
                if (code != PAWL_NOT_FOUND)
                        return fail(code, &why);
                status = claim_wait(signals, client, name, waited ? &request.claim : &at_once, &lock);
                if (lock)
                        break;
                if (waited || status != TAKEN || !wait_with_others(signals, client, name, &status))
                        return status;
        }
        code = pawl_once_look(client, request.key, &why, &result); /* it may have been done while we came to it */
        if (code == PAWL_NOT_FOUND)
                return execute(signals, client, lock);
        pawl_release(lock);
        return code == PAWL_OK ? replay(&result) : fail(code, &why);
}

static int run(const struct command *command, int argc, char **argv)
{
        static char name[PAWL_NAME_MAX + 1];
        struct arguments arguments;
        struct signals signals;
        pawl_client *client;
        int status;

        if (argc)
                watchdog_last_word(argv[argc - 1]);
        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        request.key = request.claim.shown = arguments.word[0];
        if ((request.look || request.forget) && has_command(&arguments))
                return usage_error(command, "--look and --forget run no COMMAND, '%s' is too much", *arguments.command);
        if (request.look)
                return client_look(look, request.key);
        if (request.forget)
                return client_do(forget, request.key);
        if (request.only_success && request.keep_failures_ms)
                return usage_error(command, "--only-success keeps no failures: --keep-failures has no meaning with it");
        if (!has_command(&arguments))
                return usage_error(command, "once wants a COMMAND to run for '%s'", request.key);
        if (pawl_once_name(request.key, name) != PAWL_OK)
                return usage_error(command, "a key has 1 to 250 bytes");
        request.hold.name = name;
        request.hold.argv = arguments.command;
        status = hold_check(command, &request.hold, &request.claim);
        if (status != EXIT_DONE)
                return status;
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        settings.look_ms = CLAIM_LOOK_MS;
        status = client_open(PAWL_DRIVE_CALLER, &client);
        if (status != EXIT_DONE)
                return status;
        status = once(&signals, client, name);
        pawl_close(client);
        return status;
}

const struct command cmd_once = {
        .name = "once",
        .arguments = "KEY [--] COMMAND [ARG...]",
        .summary = "run COMMAND once for KEY; later callers get its status and output",
        .details = "Standard output is kept (its first 65472 bytes), standard error is not. A COMMAND that is killed, "
                   "or cannot\n"
                   "be started, has no result, and the next caller runs. A status other than 0 is a result, unless\n"
                   "--only-success says otherwise. With --json nothing is printed but one object. Give PAWL_TOKEN to "
                   "what COMMAND changes: a "
                   "runner that\n"
                   "was overtaken is refused there (pawl-fence(1)), and its late result is refused here (status 123).",
        .flags = COMMAND_ENGINE | COMMAND_JSON | COMMAND_RUNS,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
