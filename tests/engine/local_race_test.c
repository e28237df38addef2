/* local_race_test.c - two processes inside the same two steps. The hooks of one engine run the other ones, at exactly the
 * place where the first was interrupted. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local_driver.h"

/* ---- an entry that is freed twice ------------------------------------------------------------------------------- */

enum { MANY = 64 };

static struct driver leaver, rebuilder, holder;
static struct seat many[MANY];
static char names[MANY][16];

static void stop_at_commit(struct local *local, int point)
{
        if (point != 2)
                return;
        local->hook = NULL;
        raise(SIGSTOP);
}

/* A process that is stopped inside the bucket of "a", which the caller holds too. */
static pid_t stopped_inside(const char *path)
{
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                seat.claim.mode = PAWL_SHARED;
                driver_local(&driver)->hook = stop_at_commit;
                seat_try(&seat);
                _exit(0);
        }
        REQUIRE(child > 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        return child;
}

static void end(pid_t child)
{
        REQUIRE(child > 0);
        kill(child, SIGKILL);
        REQUIRE(waitpid(child, NULL, 0) == child);
}

/* The rebuilder is about to free an entry that the leaver gave up. The leaver closes; then somebody takes what is free. */
static void close_and_take(struct local *local, int point)
{
        if (point != 23)
                return;
        local->hook = NULL;
        driver_close(&leaver);
        for (int i = 0; i < MANY; i++) {
                snprintf(names[i], sizeof(names[i]), "many-%d", i);
                seat_init(&many[i], &holder, names[i]);
                REQUIRE_INT(seat_try(&many[i]), PAWL_OK);
        }
}

TEST(what_was_given_up_is_freed_once_also_while_its_owner_closes)
{
        const char *path = path_in(tap_directory(), "d");
        struct seat seat, other;
        pid_t child;

        driver_must_open(&leaver, path);
        driver_must_open(&rebuilder, path);
        driver_must_open(&holder, path);
        seat_init(&seat, &leaver, "a");
        seat.claim.mode = PAWL_SHARED;
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        child = stopped_inside(path);
        CHECK_INT(seat_release(&seat), PAWL_OK); /* by giving it up */
        end(child);
        driver_local(&rebuilder)->hook = close_and_take;
        seat_init(&other, &rebuilder, "a");
        CHECK_INT(seat_try(&other), PAWL_OK);
        CHECK(leaver.engine == NULL); /* the hook ran */
        for (int i = 0; i < MANY; i++) {
                struct seat second;

                seat_init(&second, &rebuilder, names[i]);
                second.claim.wait = false; /* so that the holder is checked at once */
                CHECK_INT(seat_try(&second), PAWL_BUSY);
        }
        for (int i = 0; i < MANY; i++)
                CHECK_INT(seat_release(&many[i]), PAWL_OK);
        driver_close(&rebuilder);
        driver_close(&holder);
}

/* ---- what is left behind in a stuck bucket --------------------------------------------------------------------- */

static void die_while_leaving(struct local *local, int point)
{
        (void)local;
        if (point == 71)
                raise(SIGKILL);
}

/* Holds "a" together with others; gives it back when the byte is there, and ends. */
static pid_t holder_that_leaves(const char *path, int go, bool dies)
{
        int ready[2];
        char byte;
        pid_t child;

        REQUIRE(pipe(ready) == 0);
        child = fork();
        if (child == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                seat.claim.mode = PAWL_SHARED;
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                if (dies)
                        driver_local(&driver)->hook = die_while_leaving;
                REQUIRE(write(ready[1], "", 1) == 1 && read(go, &byte, 1) == 1);
                CHECK_INT(seat_release(&seat), PAWL_OK);
                driver_close(&driver);
                _exit(0);
        }
        REQUIRE(child > 0 && read(ready[0], &byte, 1) == 1);
        close(ready[0]);
        close(ready[1]);
        return child;
}

static uint32_t entries_in_use(struct driver *driver)
{
        struct local *local = driver_local(driver);
        uint32_t count = 0;

        for (uint32_t i = 0; i < atomic_load(&local->header->entries_ready); i++)
                count += entry_owner(&local->entries[i]) != 0;
        return count;
}

/* Who gives back or closes beside a stopped process leaves something for others to put away, however it ends. */
static void leave_beside_a_stopped_one(bool dies)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        int go[2];
        int status;
        pid_t stopped, leaving;

        REQUIRE(pipe(go) == 0);
        leaving = holder_that_leaves(path, go[0], dies);
        stopped = stopped_inside(path);
        REQUIRE(write(go[1], "", 1) == 1 && waitpid(leaving, &status, 0) == leaving);
        CHECK_INT(dies ? WTERMSIG(status) : status, dies ? SIGKILL : 0);
        end(stopped);
        driver_must_open(&driver, path);
        CHECK(is_free(&driver, "a"));
        (void)process_reap_dead(driver_local(&driver));
        CHECK_INT(entries_in_use(&driver), driver_local(&driver)->cached);
        driver_close(&driver);
}

TEST(a_client_that_closes_beside_a_stopped_process_leaves_no_entry_behind)
{
        leave_beside_a_stopped_one(false);
}

TEST(a_process_that_dies_while_it_gives_up_an_entry_leaves_none_behind)
{
        leave_beside_a_stopped_one(true);
}

/* ---- a bell that only another process that rings hears ----------------------------------------------------------- */

static struct driver listener, newcomer, second_ringer;
static bool heard;
static const char *bells;

/* The listener leaves while it is rung for. A new process gets its slot, and listens to nothing yet. */
static void leave_and_ring(struct local *local, int point)
{
        uint32_t slot = driver_local(&listener)->slot;

        if (point != 70)
                return;
        local->hook = NULL;
        driver_close(&listener);
        driver_must_open(&newcomer, bells);
        REQUIRE_INT(driver_local(&newcomer)->slot, slot);
        heard = bell_ring(driver_local(&second_ringer), driver_local(&newcomer)->id);
}

TEST(a_ring_that_only_another_ringer_could_hear_is_not_taken_for_heard)
{
        struct driver ringer;
        struct seat seat, held, waiting;
        struct pollfd bell = {.events = POLLIN};

        bells = path_in(tap_directory(), "d");
        driver_must_open(&listener, bells);
        driver_must_open(&ringer, bells);
        driver_must_open(&second_ringer, bells);
        seat_init(&seat, &listener, "b");
        REQUIRE_INT(seat_try(&seat), PAWL_OK); /* now it has a bell */
        REQUIRE_INT(seat_release(&seat), PAWL_OK);
        driver_local(&ringer)->hook = leave_and_ring;
        CHECK(!bell_ring(driver_local(&ringer), driver_local(&listener)->id));
        CHECK(listener.engine == NULL);
        CHECK(!heard);
        seat_init(&held, &second_ringer, "a");
        REQUIRE_INT(seat_try(&held), PAWL_OK);
        seat_init(&waiting, &newcomer, "a");
        seat_acquire(&waiting);
        CHECK_INT(seat_release(&held), PAWL_OK);
        bell.fd = driver_local(&newcomer)->bell.fd;
        CHECK_INT(poll(&bell, 1, 0), 1);
        CHECK(GRANTED(&waiting, &newcomer));
        driver_close(&newcomer);
        driver_close(&ringer);
        driver_close(&second_ringer);
}

/* Its default would end the program, and so would one that stays pending once it is unblocked. */
TEST(nobody_hears_of_sigpipe_when_a_bell_has_no_listener)
{
        struct driver ringer;
        struct seat seat;
        sigset_t pending;

        signal(SIGPIPE, SIG_DFL);
        bells = path_in(tap_directory(), "d");
        driver_must_open(&listener, bells);
        driver_must_open(&ringer, bells);
        driver_must_open(&second_ringer, bells);
        seat_init(&seat, &listener, "b");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        driver_local(&ringer)->hook = leave_and_ring;
        CHECK(!bell_ring(driver_local(&ringer), driver_local(&listener)->id));
        CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
        driver_close(&newcomer);
        driver_close(&ringer);
        driver_close(&second_ringer);
}
