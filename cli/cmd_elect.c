/* cmd_elect.c - `pawl elect`: campaign, run COMMAND while we lead, and campaign again. And who leads, for those who only
 * look. */
#include <pawl/election.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

struct request {
        struct claim_request claim;
        struct hold hold;
        const char *value;
        bool once;
        bool pass_notify;
        bool observe;
        bool who;
        bool nobody_shown;
        int64_t every_ms;
};
static struct request request = {.claim = {CLAIM_REQUEST, .purpose = "waiting to lead"}, .hold = {HOLD}};

/* A COMMAND that ends at once must not make elections go round as fast as they can. */
enum { REST_MS = 1000 };

/* How often --observe looks if nothing else is said. */
enum { OBSERVE_MS = 500 };

static const struct option options[] = {
        {'w', "wait", "DUR", "give up if not elected within DUR; else campaign for ever", option_duration,
         &request.claim.wait_ms},
        {'n', "nonblock", NULL, "give up at once if another one leads", claim_no_wait, &request.claim.wait_ms},
        {'E', "conflict-exit-code", "N", "the status when -n or -w gives up (1)", claim_exit_code,
         &request.claim.conflict_status},
        {0, "ttl", "DUR", "the leader's lease: a dead one is followed after it (10s)", option_some_time,
         &request.claim.ttl_ms},
        CLAIM_NAMES(request.claim),
        {0, "value", "TEXT", "what observers see of us while we lead", option_text, &request.value},
        {'1', "once", NULL, "end with COMMAND's status instead of campaigning again", option_flag, &request.once},
        {0, "observe", NULL, "print leaders as they change: EPOCH OWNER VALUE", option_flag, &request.observe},
        {0, "who", NULL, "print who leads now; status 1 if nobody does", option_flag, &request.who},
        {0, "every", "DUR", "how often --observe looks (500ms)", option_some_time, &request.every_ms},
        {0, "pass-notify", NULL, "leave NOTIFY_SOCKET to COMMAND, which says when it is ready", option_flag,
         &request.pass_notify},
        HOLD_OPTIONS(request.hold),
        {0},
};

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* Published by us it is text; by others it may be anything. Cut and escaped for people, whole for programs. */
static void print_leader(const struct pawl_leader *leader)
{
        char owner[4 * PAWL_OWNER_MAX + 1], value[1024];

        if (!leader) {
                printf("-\n");
                return;
        }
        escape_for_terminal(leader->owner, owner, sizeof(owner));
        escape_for_terminal(leader->value ? leader->value : "", value, sizeof(value));
        printf("%llu %s%s%s\n", (unsigned long long)leader->epoch, owner, *value ? " " : "", value);
}

static void print_json(const struct pawl_leader *leader)
{
        json_open(stdout, NULL, '{');
        json_token(stdout, "epoch", leader ? leader->epoch : 0);
        json_text(stdout, "owner", leader ? leader->owner : NULL);
        json_text(stdout, "note", leader ? leader->note : NULL);
        if (leader && leader->value)
                json_bytes(stdout, "value", leader->value, leader->value_size);
        else
                json_text(stdout, "value", NULL);
        json_time(stdout, "since", leader ? leader->since_ms : 0);
        if (leader)
                json_number(stdout, "remaining_ms", leader->remaining_ms);
        else
                json_text(stdout, "remaining_ms", NULL);
        json_close(stdout, '}');
        json_end(stdout);
}

static int tell(const struct pawl_leader *leader, void *arg)
{
        (void)arg;
        if (!leader && request.nobody_shown)
                return 0;
        request.nobody_shown = !leader;
        if (settings.json)
                print_json(leader);
        else
                print_leader(leader);
        return fflush(stdout) != 0; /* nobody reads any more */
}

/* A store that is made meanwhile is observed from then on. */
static int observe(const char *name)
{
        struct pawl_why why = {0};
        pawl_client *client = NULL;
        int status, code;

        while ((status = client_open_to_look(&client)) == EXIT_DONE && !client) {
                if (tell(NULL, NULL))
                        return EXIT_DONE;
                poll(NULL, 0, request.every_ms && request.every_ms < OBSERVE_MS ? (int)request.every_ms : OBSERVE_MS);
        }
        if (status != EXIT_DONE)
                return status;
        code = pawl_observe(client, name, PAWL_OBSERVE(.every_ms = request.every_ms, .why = &why), tell, NULL);
        pawl_close(client);
        return code == PAWL_OK ? EXIT_DONE : fail(code, &why);
}

static int who(pawl_client *client, const char *name)
{
        struct pawl_why why = {0};
        struct pawl_leader leader;
        int code = client ? pawl_leader(client, name, &why, &leader) : PAWL_NOT_FOUND;

        if (code == PAWL_NOT_FOUND) {
                detail("nobody leads '%s'", name);
                return EXIT_CONFLICT;
        }
        if (code != PAWL_OK)
                return fail(code, &why);
        tell(&leader, NULL);
        pawl_leader_free(&leader);
        return EXIT_DONE;
}

/* ---- leading ----------------------------------------------------------------------------------------------------- */

static int publish(pawl_client *client, pawl_lock *lock)
{
        int code =
                request.value && *request.value ? pawl_store(lock, request.value, strlen(request.value), 0) : PAWL_OK;

        if (code == PAWL_LOST)
                return EXIT_LOST;
        return code == PAWL_OK ? EXIT_DONE : fail_of_client(client, code);
}

/* The value goes with the leader; should that fail, the next one's replaces it. */
static void withdraw(pawl_lock *lock)
{
        if (request.value && *request.value && pawl_check(lock) == PAWL_OK)
                (void)!pawl_store(lock, NULL, 0, 0);
}

/* One term: COMMAND's exit status. */
static int lead(struct signals *signals, pawl_client *client, pawl_lock *lock)
{
        int status;

        request.hold.child = (struct child){0};
        status = publish(client, lock);
        if (status == EXIT_DONE)
                status = hold_command(&request.hold, signals, client, lock);
        withdraw(lock);
        return hold_release(&request.hold, lock, status);
}

/* False: a signal came that ends us. */
static bool rest_until(struct signals *signals, int64_t until)
{
        struct pollfd fd = {.fd = signals->fd, .events = POLLIN};
        int64_t left;

        while (!signals->ended_by && (left = until - now_ns()) > 0) {
                if (poll(&fd, 1, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
                        break;
                while (signals_next(signals) != 0)
                        continue;
        }
        return !signals->ended_by;
}

/* COMMAND was not run, and another try would come to the same. */
static bool is_final(int status)
{
        return !request.hold.child.ended && status != EXIT_LOST;
}

/* Where the store keeps a dead candidate's place until its session ends, the others pass it over (PAWL_CONFIRM). A dead
 * leader's lock stays there as long, so that COMMAND needs no lock-delay to die in. */
static void confirm_turns(const pawl_client *client)
{
        if (pawl_capabilities(client) & PAWL_SEES_DEATH || request.claim.delay_ms > 0)
                return;
        request.claim.flags = PAWL_CONFIRM;
        request.claim.own_delay_ms = 0;
}

/* TERM is how a service ends, and no failure of ours: COMMAND has ended by it, or well, and the lock is free. */
static int ended_status(const struct signals *signals, int status)
{
        bool ended_well = status == EXIT_DONE || status == EXIT_SIGNAL + SIGTERM;

        if (signals->ended_by == SIGTERM && ended_well && request.hold.released && !request.once)
                return EXIT_DONE;
        return status;
}

static int campaign(struct signals *signals, pawl_client *client)
{
        for (;;) {
                int64_t began_at = now_ns();
                pawl_lock *lock;
                int status;

                request.hold.released = true; /* nothing is held */
                status = claim_wait(signals, client, request.hold.name, &request.claim, &lock);
                if (!lock)
                        return ended_status(signals, status);
                status = lead(signals, client, lock);
                hold_end(&request.hold, status);
                if (request.once || signals->ended_by || is_final(status))
                        return ended_status(signals, status);
                notify_status("campaigning again for '%s': %s ended with status %d", request.hold.name,
                              request.hold.argv[0], status);
                detail("'%s' ended with status %d: campaigning again", request.hold.argv[0], status);
                if (!rest_until(signals, began_at + REST_MS * INT64_C(1000000)))
                        return ended_status(signals, EXIT_SIGNAL + signals->ended_by);
        }
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct signals signals;
        pawl_client *client;
        int status;

        if (argc)
                watchdog_last_word(argv[argc - 1]);
        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        request.hold.name = arguments.word[0];
        if ((request.observe || request.who) && has_command(&arguments))
                return usage_error(command, "--observe and --who run no COMMAND, '%s' is too much", *arguments.command);
        if (request.who)
                return client_look(who, request.hold.name);
        if (request.observe)
                return observe(request.hold.name);
        if (!has_command(&arguments))
                return usage_error(command, "elect wants a COMMAND to run while we lead '%s'", request.hold.name);
        request.hold.argv = arguments.command;
        status = hold_check(command, &request.hold, &request.claim);
        if (status != EXIT_DONE)
                return status;
        request.claim.ready_to_wait = true;
        notify_begin(request.pass_notify);
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        settings.look_ms = CLAIM_LOOK_MS;
        status = client_open(PAWL_DRIVE_CALLER, &client);
        if (status != EXIT_DONE)
                return status;
        confirm_turns(client);
        status = campaign(&signals, client);
        notify_stopping();
        pawl_close(client);
        return status;
}

const struct command cmd_elect = {
        .name = "elect",
        .arguments = "NAME [--] COMMAND [ARG...]",
        .summary = "campaign for NAME, run COMMAND while we lead, campaign again",
        .details = "The epoch is PAWL_TOKEN in COMMAND's environment: it grows with every election. COMMAND is ended "
                   "before\n"
                   "another one can be elected. Ends with INT, TERM or QUIT, which COMMAND gets first: by TERM with "
                   "status\n"
                   "0, unless COMMAND failed; with -1 when COMMAND ends. --observe and --who look and run nothing.",
        .flags = COMMAND_ENGINE | COMMAND_JSON | COMMAND_RUNS,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
