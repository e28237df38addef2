/* once_test.c - one execution for each key: the rules one by one, and a crowd of processes that are killed in the middle. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <pawl/guard.h>
#include <pawl/once.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int executions;

static int say_hello(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        const char *text = arg;

        atomic_fetch_add(&executions, 1);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        result->status = 7;
        result->flags = 3;
        result->size = strlen(text);
        result->data = malloc(result->size + 1);
        memcpy(result->data, text, result->size);
        return PAWL_OK;
}

static int fail_with_full(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        (void)lock, (void)result, (void)arg;
        atomic_fetch_add(&executions, 1);
        return PAWL_FULL;
}

static bool result_is(const struct pawl_result *result, int status, const char *text)
{
        return result->status == status && result->size == strlen(text) &&
               !memcmp(result->data, text, result->size + 1);
}

TEST(the_first_runs_and_all_get_its_result)
{
        static char first[] = "first", second[] = "second";
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_result mine, theirs;

        if (!(pawl_capabilities(one) & PAWL_CAN_KEEP)) {
                CHECK_CODE(pawl_once(one, "k", NULL, say_hello, first, &mine), PAWL_UNSUPPORTED);
                return;
        }
        CHECK_CODE(pawl_once_look(one, "k", NULL, &mine), PAWL_NOT_FOUND);
        MUST(pawl_once(one, "k", NULL, say_hello, first, &mine));
        CHECK(result_is(&mine, 7, "first"));
        MUST(pawl_once(two, "k", NULL, say_hello, second, &theirs));
        CHECK(result_is(&theirs, 7, "first"));
        CHECK_UINT(theirs.token, mine.token);
        CHECK_UINT(theirs.flags, 3);
        CHECK_INT(atomic_load(&executions), 1);
        free(mine.data);
        free(theirs.data);
        MUST(pawl_once_look(two, "k", NULL, &theirs));
        CHECK(result_is(&theirs, 7, "first"));
        free(theirs.data);
        MUST(pawl_once(two, "another key", NULL, say_hello, second, &theirs));
        CHECK(result_is(&theirs, 7, "second"));
        free(theirs.data);
}

TEST(a_failure_is_not_kept_and_the_next_one_runs)
{
        static char text[] = "at last";
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_result result;
        struct pawl_why why = {0};

        NEEDS(one, PAWL_CAN_KEEP);
        CHECK_CODE(pawl_once(one, "k", PAWL_ONCE(.why = &why), fail_with_full, NULL, &result), PAWL_FULL);
        CHECK_CODE(why.code, PAWL_FULL);
        CHECK_CODE(pawl_once_look(one, "k", NULL, &result), PAWL_NOT_FOUND);
        MUST(pawl_once(one, "k", NULL, say_hello, text, &result));
        CHECK(result_is(&result, 7, "at last"));
        free(result.data);
        CHECK_INT(atomic_load(&executions), 2);
}

static int give_up(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        (void)lock, (void)arg;
        result->data = NULL;
        if (atomic_fetch_add(&executions, 1) > 3)
                exit(1); /* it would never end */
        return PAWL_LOST;
}

static int promise_more(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        (void)lock, (void)arg;
        result->size = 1000;
        return PAWL_OK;
}

TEST(what_an_execution_says_is_what_its_caller_gets)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_result result;
        static char text[] = "never";

        NEEDS(one, PAWL_CAN_KEEP);
        CHECK_CODE(pawl_once(one, "k", NULL, give_up, NULL, &result), PAWL_LOST);
        CHECK_INT(atomic_load(&executions), 1);
        CHECK_CODE(pawl_once(one, "k", NULL, promise_more, NULL, &result), PAWL_INVALID);
        CHECK_CODE(pawl_once_look(one, "k", NULL, &result), PAWL_NOT_FOUND);
        /* What cannot be kept is not begun. */
        CHECK_CODE(pawl_once(one, "k", PAWL_ONCE(.keep_ms = INT64_MAX), say_hello, text, &result), PAWL_INVALID);
        CHECK_INT(atomic_load(&executions), 1);
}

static void *call_until_done(void *arg)
{
        struct pawl_result result;
        int code = pawl_once(arg, "k", PAWL_ONCE(.wait_ms = 3 * PATIENCE), fail_with_full, NULL, &result);

        return code == PAWL_FULL ? arg : NULL;
}

TEST(those_who_wait_do_not_keep_each_other_from_running)
{
        enum { CALLERS = 48 };
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pthread_t threads[CALLERS];
        pawl_client *callers[4];
        struct pawl_result result;
        pawl_lock *lock;
        void *done;

        NEEDS(one, PAWL_CAN_KEEP);
        if (caller_drives())
                SKIP("one client for many threads");
        for (int i = 0; i < 4; i++)
                callers[i] = join(place);
        MUST(pawl_once_begin(one, "k", NULL, &result, &lock));
        for (int i = 0; i < CALLERS; i++)
                REQUIRE_INT(pthread_create(&threads[i], NULL, call_until_done, callers[i % 4]), 0);
        nap(500);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        for (int i = 0; i < CALLERS; i++) {
                REQUIRE_INT(pthread_join(threads[i], &done), 0);
                CHECK(done);
        }
        CHECK_INT(atomic_load(&executions), CALLERS);
}

TEST(an_empty_result_is_a_result_and_the_longest_fits)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_result result = {0}, found;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_once_begin(one, "empty", NULL, &found, &lock));
        REQUIRE(lock);
        MUST(pawl_once_finish(lock, &(struct pawl_result){.status = -1}, 0));
        MUST(pawl_once_begin(two, "empty", NULL, &found, &lock));
        CHECK(!lock);
        CHECK_INT(found.status, -1);
        CHECK_UINT(found.size, 0);
        free(found.data);
        result.size = PAWL_RESULT_MAX + 1;
        result.data = calloc(1, result.size);
        MUST(pawl_once_begin(one, "long", NULL, &found, &lock));
        CHECK_CODE(pawl_once_finish(lock, &result, 0), PAWL_INVALID);
        MUST(pawl_once_begin(one, "long", NULL, &found, &lock));
        result.size--;
        MUST(pawl_once_finish(lock, &result, 0));
        MUST(pawl_once_look(two, "long", NULL, &found));
        CHECK_UINT(found.size, PAWL_RESULT_MAX);
        free(found.data);
        free(result.data);
}

TEST(who_does_not_want_to_wait_hears_that_another_is_at_it)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_result result;
        pawl_lock *lock, *none;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_once_begin(one, "k", NULL, &result, &lock));
        REQUIRE(lock);
        CHECK_CODE(pawl_once_begin(two, "k", PAWL_ONCE(.wait_ms = PAWL_NO_WAIT), &result, &none), PAWL_BUSY);
        CHECK_CODE(pawl_once_begin(two, "k", PAWL_ONCE(.wait_ms = 500), &result, &none), PAWL_TIMEOUT);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_once_begin(two, "k", PAWL_ONCE(.wait_ms = PATIENCE), &result, &lock));
        CHECK(lock);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(a_result_that_comes_late_is_refused_and_the_others_stands)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_result result;
        pawl_lock *late, *lock;
        static char text[] = "late";
        uint64_t token;

        NEEDS(one, PAWL_CAN_KEEP | PAWL_CAN_BREAK);
        MUST(pawl_once_begin(one, "k", PAWL_ONCE(.ttl_ms = 60000), &result, &late));
        REQUIRE(late);
        token = pawl_token(late);
        CHECK_CODE(break_it(two, "once/k"), PAWL_OK);
        MUST(pawl_once_begin(two, "k", PAWL_ONCE(.wait_ms = PATIENCE), &result, &lock));
        REQUIRE(lock);
        CHECK_COMPARE(pawl_token(lock), >, token);
        CHECK_CODE(pawl_once_finish(late, &(struct pawl_result){.data = text, .size = 4}, 0), PAWL_LOST);
        MUST(pawl_once_finish(lock, &(struct pawl_result){.status = 5}, 0));
        MUST(pawl_once_look(one, "k", NULL, &result));
        CHECK(result_is(&result, 5, ""));
        free(result.data);
}

TEST(a_result_is_kept_for_as_long_as_was_said_and_can_be_forgotten)
{
        static char text[] = "short";
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_result result;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_once(one, "k", PAWL_ONCE(.keep_ms = 1000), say_hello, text, &result));
        free(result.data);
        CHECK(SOON(pawl_once_look(two, "k", NULL, &result) == PAWL_NOT_FOUND || (free(result.data), false)));
        MUST(pawl_once(two, "k", PAWL_ONCE(.keep_ms = -1), say_hello, text, &result));
        free(result.data);
        CHECK_INT(atomic_load(&executions), 2);
        CHECK_CODE(pawl_once_forget(one, "k", NULL), PAWL_OK);
        CHECK_CODE(pawl_once_forget(one, "k", NULL), PAWL_NOT_FOUND);
        CHECK_CODE(pawl_once_look(two, "k", NULL, &result), PAWL_NOT_FOUND);
}

TEST(bad_input_is_refused)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_result result;
        char key[300];
        char name[PAWL_NAME_MAX + 1];
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        memset(key, 'k', sizeof key);
        key[251] = '\0';
        CHECK_CODE(pawl_once_name(key, name), PAWL_INVALID);
        CHECK_CODE(pawl_once_begin(one, key, NULL, &result, &lock), PAWL_INVALID);
        key[250] = '\0';
        CHECK_CODE(pawl_once_name(key, name), PAWL_OK);
        CHECK_CODE(pawl_once_begin(one, "", NULL, &result, &lock), PAWL_INVALID);
        CHECK_CODE(pawl_once_begin(one, NULL, NULL, &result, &lock), PAWL_INVALID);
        CHECK_CODE(pawl_once_begin(one, "k\n", NULL, &result, &lock), PAWL_INVALID);
        CHECK_CODE(pawl_once_begin(one, "k", PAWL_ONCE(.keep_ms = -2), &result, &lock), PAWL_INVALID);
        CHECK_CODE(pawl_once_begin(one, "k", PAWL_ONCE(.flags = 1), &result, &lock), PAWL_UNSUPPORTED);
        CHECK_CODE(pawl_once(one, "k", NULL, NULL, NULL, &result), PAWL_INVALID);
        MUST(pawl_acquire(one, "once/k", NULL, &lock));
        MUST(pawl_store(lock, "not a result", 12, 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_once_look(one, "k", NULL, &result), PAWL_CORRUPT);
        CHECK_CODE(pawl_once_forget(one, "k", NULL), PAWL_OK);
        CHECK_CODE(pawl_once_look(one, "k", NULL, &result), PAWL_NOT_FOUND);
}

/* ---- a crowd ----------------------------------------------------------------------------------------------------- */

/* Where an execution is killed: the first of all at the first of these, and so on; those after the last are not. */
enum step { BEFORE_ANYTHING, AFTER_THE_READ, AFTER_THE_EFFECT, BEFORE_THE_RESULT, STEPS };

struct caller {
        pawl_guard *guard;
        atomic_int *begun; /* executions, of all processes */
        int mine;          /* the number of this one */
        int effects;       /* descriptor: one line for each effect that the guard admitted */
};

static void maybe_die(const struct caller *caller, enum step step)
{
        if (caller->mine == (int)step)
                kill(getpid(), SIGKILL);
}

/* The effect is a payment at a guarded resource: whoever reads it there with its token knows whether it was made, and keeps
 * everybody older from making it. */
static int pay(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        struct caller *caller = arg;
        uint64_t token = pawl_token(lock);
        struct pawl_guard_data seen = {0};
        char receipt[64];
        int code;

        caller->mine = atomic_fetch_add(caller->begun, 1);
        maybe_die(caller, BEFORE_ANYTHING);
        code = pawl_guard_get(caller->guard, "payment", token, NULL, &seen);
        maybe_die(caller, AFTER_THE_READ);
        if (code == PAWL_NOT_FOUND) {
                snprintf(receipt, sizeof receipt, "receipt %ld-%llu", (long)getpid(), (unsigned long long)token);
                code = pawl_guard_put(caller->guard, "payment", token, receipt, strlen(receipt), NULL);
                if (code != PAWL_OK)
                        return code == PAWL_STALE ? PAWL_LOST : code;
                dprintf(caller->effects, "%s\n", receipt);
                maybe_die(caller, AFTER_THE_EFFECT);
                seen.bytes = strdup(receipt);
                seen.size = strlen(receipt);
        } else if (code != PAWL_OK) {
                return code == PAWL_STALE ? PAWL_LOST : code;
        }
        result->data = seen.bytes;
        result->size = seen.size;
        maybe_die(caller, BEFORE_THE_RESULT);
        return PAWL_OK;
}

/* One process: the receipt goes to its standard answer, a file of its own. */
static _Noreturn void call(const char *place, const char *directory, int number, atomic_int *begun)
{
        char text[PAWL_RESULT_MAX + 1], url[512];
        struct caller caller = {.begun = begun};
        struct pawl_result result;
        struct pawl_why why = {0};
        pawl_client *client;
        int code, answer;

        alarm(120);
        snprintf(text, sizeof text, "%s/answer-%d", directory, number);
        answer = open(text, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        snprintf(text, sizeof text, "%s/effects", directory);
        caller.effects = open(text, O_WRONLY | O_CREAT | O_APPEND, 0600);
        snprintf(url, sizeof url, "file:%s/guarded", directory);
        if (answer < 0 || caller.effects < 0 || pawl_guard_open(url, NULL, &caller.guard) != PAWL_OK ||
            pawl_open(place, NULL, &client) != PAWL_OK)
                _exit(2);
        do
                code = pawl_once(client, "payment-4711", PAWL_ONCE(.ttl_ms = 1000, .why = &why), pay, &caller, &result);
        while (code == PAWL_LOST || code == PAWL_IN_DOUBT || code == PAWL_UNREACHABLE ||
               code == PAWL_STUCK); /* of a hundred on a busy machine one may get no processor for a while, within a step */
        if (code != PAWL_OK) {
                dprintf(answer, "error %d: %s", code, why.text);
                _exit(3);
        }
        if (write(answer, result.data, result.size) != (ssize_t)result.size)
                _exit(4);
        _exit(0);
}

static size_t read_all(const char *directory, const char *name, char *text, size_t size)
{
        char path[512];
        ssize_t got;
        int fd;

        snprintf(path, sizeof path, "%s/%s", directory, name);
        fd = open(path, O_RDONLY);
        got = fd < 0 ? 0 : read(fd, text, size - 1);
        close(fd);
        text[got > 0 ? got : 0] = '\0';
        return got > 0 ? (size_t)got : 0;
}

TEST_WITHIN(180, a_crowd_with_kills_makes_one_effect_and_all_survivors_get_its_result)
{
        const char *place = fresh_place();
        char *directory;
        int callers = getenv("PAWL_TEST_CALLERS") ? atoi(getenv("PAWL_TEST_CALLERS")) : 100, dead = 0, answered = 0;
        char path[512], text[512], first[512] = "", name[64];
        pid_t pids[1000];
        pawl_client *probe = join(place);
        atomic_int *begun = mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        bool able = pawl_capabilities(probe) & PAWL_CAN_KEEP;

        (void)leave(probe);
        if (!able)
                SKIP("the engine does not claim PAWL_CAN_KEEP");
        REQUIRE(callers <= 1000 && begun != MAP_FAILED);
        directory = strdup(tap_directory());
        snprintf(path, sizeof path, "%s/guarded", directory);
        REQUIRE_INT(mkdir(path, 0700), 0);
        for (int i = 0; i < callers; i++) {
                pids[i] = fork();
                REQUIRE_COMPARE(pids[i], >=, 0);
                if (pids[i] == 0)
                        call(place, directory, i, begun);
        }
        for (int i = 0; i < callers; i++) {
                int status = 0;

                REQUIRE_INT(waitpid(pids[i], &status, 0), pids[i]);
                snprintf(name, sizeof name, "answer-%d", i);
                read_all(directory, name, text, sizeof text);
                if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
                        dead++;
                        continue;
                }
                if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                        NOTE("caller %d ended with %x: %s", i, (unsigned)status, text);
                CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
                if (!*first)
                        snprintf(first, sizeof first, "%s", text);
                CHECK_STR(text, first);
                answered++;
        }
        read_all(directory, "effects", text, sizeof text);
        NOTE("%d callers got the result, %d were killed while they ran", answered, dead);
        CHECK_INT(dead, STEPS);
        CHECK(*first != '\0');
        CHECK_INT(answered + dead, callers);
        CHECK(strncmp(text, first, strlen(first)) == 0 && strlen(text) == strlen(first) + 1); /* one line */
        free(directory);
}
