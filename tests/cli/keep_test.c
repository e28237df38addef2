/* keep_test.c - cli/keep.c and cli/hold.c against a lock that is made to do what no embedded store does: its renewals
 * fail, or little is left of its lease when COMMAND is to start. COMMAND and its watchdog are real; the library is played
 * here. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../../cli/run.h"
#include "tap.h"

/* ---- the library ------------------------------------------------------------------------------------------------- */

enum { MS = 1000000 };

static int64_t lease_ends_at;    /* ns */
static int64_t renewals_fail_at; /* from then on UNCERTAIN */
static int64_t mended_at;        /* from then on HELD, with a lease of an hour */
static int loop_fd = -1;

static bool is_mended(void)
{
        return mended_at && now_ns() >= mended_at;
}

uint64_t pawl_token(const pawl_lock *lock)
{
        (void)lock;
        return 1;
}

const char *pawl_duration_text(int64_t ms, char *text, size_t size)
{
        snprintf(text, size, "%lldms", (long long)ms);
        return text;
}

int pawl_asked(pawl_lock *lock)
{
        (void)lock;
        return 0;
}

int64_t pawl_remaining_ms(pawl_lock *lock)
{
        int64_t left = (lease_ends_at - now_ns()) / MS;

        (void)lock;
        if (is_mended())
                return 3600000;
        return left > 0 ? left : 0;
}

int pawl_check(pawl_lock *lock)
{
        return pawl_remaining_ms(lock) > 0 ? PAWL_OK : PAWL_LOST;
}

int pawl_state(pawl_lock *lock)
{
        if (pawl_check(lock) != PAWL_OK)
                return PAWL_GONE;
        return is_mended() || now_ns() < renewals_fail_at ? PAWL_HELD : PAWL_UNCERTAIN;
}

int pawl_reason(pawl_lock *lock)
{
        (void)lock;
        return PAWL_REASON_EXPIRED;
}

uint32_t pawl_capabilities(const pawl_client *client)
{
        (void)client;
        return 0;
}

int pawl_show(pawl_client *client, const char *name, pawl_entry_fn *fn, void *arg)
{
        (void)client;
        (void)name;
        (void)fn;
        (void)arg;
        return PAWL_NOT_FOUND;
}

const char *pawl_reason_text(int reason)
{
        (void)reason;
        return "the lease ran out";
}

const char *pawl_how_text(int how)
{
        (void)how;
        return "played";
}

const char *pawl_name(const pawl_lock *lock)
{
        (void)lock;
        return "played";
}

const char *pawl_strerror(int code)
{
        (void)code;
        return "played";
}

/* By a minute. */
int pawl_renew(pawl_lock *lock)
{
        (void)lock;
        lease_ends_at = now_ns() + 60000 * (int64_t)MS;
        return PAWL_OK;
}

int pawl_release(pawl_lock *lock)
{
        (void)lock;
        return PAWL_OK;
}

const char *pawl_owner(const pawl_client *client)
{
        (void)client;
        return "played";
}

const char *client_url(const pawl_client *client)
{
        (void)client;
        return "played:";
}

bool hide_password(const char *variable)
{
        (void)variable;
        return true;
}

int claim_check(const struct command *command, const struct claim_request *request)
{
        (void)command;
        (void)request;
        return EXIT_DONE;
}

int pawl_fd(const pawl_client *client)
{
        (void)client;
        return loop_fd;
}

int pawl_dispatch(pawl_client *client)
{
        (void)client;
        return PAWL_OK;
}

int pawl_duration(const char *text, int64_t *ms)
{
        (void)text;
        (void)ms;
        return PAWL_INVALID;
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

struct stage {
        struct signals signals;
        struct watchdog dog;
        struct child child;
        int64_t began_at;
        int64_t ended_at;
        bool lost;
};

static char report[64]; /* a file to which COMMAND writes */

static void run_script(struct stage *stage, const char *script, int64_t lease_ms, const struct keep_options *options)
{
        char shell[] = "/bin/sh", dash_c[] = "-c", name[] = "sh", text[512];
        char *argv[] = {shell, dash_c, text, name, report, NULL};

        snprintf(text, sizeof(text), "%s", script);
        strcpy(report, "/tmp/pawl-keep-test.XXXXXX");
        close(mkostemp(report, O_CLOEXEC));
        settings.quiet = true;
        loop_fd = eventfd(0, EFD_CLOEXEC);
        stage->began_at = now_ns();
        lease_ends_at = stage->began_at + lease_ms * MS;
        renewals_fail_at = stage->began_at;
        REQUIRE(signals_begin(&stage->signals));
        REQUIRE(watchdog_start(&stage->dog));
        CHECK_INT(child_start(&stage->child, argv, &stage->signals, &stage->dog, keep_deadline(NULL, options)), 0);
        stage->lost = keep(&stage->signals, NULL, NULL, &stage->child, &stage->dog, options);
        stage->ended_at = now_ns();
        close(stage->signals.fd);
        close(loop_fd);
        signals_restore(&stage->signals);
}

static bool reported(const char *text)
{
        char line[64] = "";
        FILE *file = fopen(report, "r");

        if (!file)
                return false;
        line[fread(line, 1, sizeof(line) - 1, file)] = 0;
        fclose(file);
        unlink(report);
        return !strcmp(line, text);
}

#define DEAF "trap 'echo term >$1' TERM; while :; do sleep 0.02; done"
#define OBEDIENT "trap 'echo term >$1; exit 0' TERM; while :; do sleep 0.02; done"

/* ---- the sentences ----------------------------------------------------------------------------------------------- */

TEST(while_renewals_fail_the_command_is_told_before_the_lease_ends_and_killed_at_its_end)
{
        struct stage stage = {0};

        mended_at = 0;
        run_script(&stage, DEAF, 1500, &(struct keep_options){.lost_signal = SIGTERM, .kill_after_ms = 1000});
        CHECK(stage.lost);
        CHECK(reported("term\n"));
        CHECK_INT(child_exit_status(&stage.child), EXIT_SIGNAL + SIGKILL);
        CHECK(stage.ended_at >= stage.began_at + 500 * MS);
        CHECK(stage.ended_at < lease_ends_at + 1000 * (int64_t)MS);
}

TEST(a_command_that_obeys_is_gone_before_the_lease_ends_and_was_cut_short_all_the_same)
{
        struct stage stage = {0};

        mended_at = 0;
        run_script(&stage, OBEDIENT, 30000, &(struct keep_options){.lost_signal = SIGTERM, .kill_after_ms = 29500});
        CHECK(stage.lost);
        CHECK(reported("term\n"));
        CHECK_INT(child_exit_status(&stage.child), 0);
        CHECK(stage.ended_at < lease_ends_at);
}

TEST(renewals_that_work_again_in_time_leave_the_command_alone)
{
        struct stage stage = {0};

        mended_at = now_ns() + 200 * MS;
        run_script(&stage, "trap 'echo term >$1' TERM; sleep 1", 30000,
                   &(struct keep_options){.lost_signal = SIGTERM, .kill_after_ms = 1000});
        CHECK(!stage.lost);
        CHECK(!reported("term\n"));
        CHECK_INT(child_exit_status(&stage.child), 0);
}

TEST(a_healthy_lock_is_not_told_to_end_however_long_kill_after_is)
{
        struct stage stage = {0};

        mended_at = 1;
        run_script(&stage, "trap 'echo term >$1' TERM; sleep 0.3", 100,
                   &(struct keep_options){.lost_signal = SIGTERM, .kill_after_ms = 7200000});
        CHECK(!stage.lost);
        CHECK(!reported("term\n"));
}

TEST(on_lost_kill_kills_before_the_lease_ends)
{
        struct stage stage = {0};

        mended_at = 0;
        run_script(&stage, DEAF, 30000, &(struct keep_options){.lost_signal = SIGKILL, .kill_after_ms = 29800});
        CHECK(stage.lost);
        CHECK(!reported("term\n"));
        CHECK(stage.ended_at < lease_ends_at);
}

TEST(on_lost_ignore_does_nothing_but_remember)
{
        struct stage stage = {0};

        mended_at = 0;
        run_script(&stage, "trap 'echo term >$1' TERM; sleep 0.6", 200,
                   &(struct keep_options){.lost_signal = 0, .kill_after_ms = 100});
        CHECK(stage.lost);
        CHECK(!reported("term\n"));
        CHECK_INT(child_exit_status(&stage.child), 0);
}

/* The process was stopped between the grant and COMMAND, or the machine was busy. */
TEST(a_lease_that_is_nearly_over_when_the_command_starts_is_renewed_and_nobodys_mistake)
{
        char shell[] = "/bin/sh", dash_c[] = "-c", text[] = "exit 7";
        char *argv[] = {shell, dash_c, text, NULL};
        struct hold hold = {HOLD, .name = "played", .argv = argv};
        struct signals signals;

        settings.quiet = true;
        mended_at = 0;
        loop_fd = eventfd(0, EFD_CLOEXEC);
        REQUIRE(signals_begin(&signals));
        hold.kill_after_ms = 20000;
        lease_ends_at = now_ns() + 10000 * (int64_t)MS;
        renewals_fail_at = INT64_MAX;
        CHECK_INT(hold_command(&hold, &signals, NULL, NULL), 7);
        hold_end(&hold, 7);
        hold.kill_after_ms = 120000; /* longer than any lease here */
        CHECK_INT(hold_command(&hold, &signals, NULL, NULL), EXIT_FAILED);
        hold.kill_after_ms = -1;
        hold.keep.no_renew = true;
        hold.keep.at_least_ms = 120000;
        CHECK_INT(hold_command(&hold, &signals, NULL, NULL), EXIT_FAILED);
        signals_restore(&signals);
        close(loop_fd);
}
