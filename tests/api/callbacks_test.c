/* callbacks_test.c - callbacks that cause callbacks, on the local engine: nobody else is kept waiting by them. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "pawl.h"
#include "tap.h"

static pawl_client *client;
static atomic_int grants, failures, stop;

static void again(void);

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        (void)arg;
        if (status == PAWL_OK)
                atomic_fetch_add(&grants, 1);
        if (!atomic_load(&stop))
                again();
        pawl_release_async(lock, NULL, NULL);
}

/* Whoever is granted asks for the same lock again before he lets go: there is always a next one. */
static void again(void)
{
        pawl_lock *lock;

        if (pawl_acquire_async(client, "endless", NULL, on_granted, NULL, &lock) != PAWL_OK)
                atomic_fetch_add(&failures, 1);
}

static void open_client(uint32_t drive)
{
        char url[512];

        snprintf(url, sizeof(url), "local:%s/state", tap_directory());
        REQUIRE_INT(pawl_open(url, PAWL_OPEN(.drive = drive), &client), PAWL_OK);
}

TEST(dispatch_returns_while_callbacks_go_on_causing_callbacks)
{
        struct pollfd ready = {.events = POLLIN};

        open_client(PAWL_DRIVE_CALLER);
        ready.fd = pawl_fd(client);
        again();
        for (int i = 0; i < 100; i++) {
                CHECK_INT(poll(&ready, 1, 10000), 1);
                CHECK_INT(pawl_dispatch(client), PAWL_OK);
        }
        CHECK(atomic_load(&grants) >= 100);
        CHECK_INT(atomic_load(&failures), 0);
        atomic_store(&stop, 1);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(leases_are_renewed_while_callbacks_go_on_causing_callbacks)
{
        struct pawl_stats stats = {.size = sizeof(stats)};
        pawl_lock *held;

        open_client(PAWL_DRIVE_THREAD);
        REQUIRE_INT(pawl_acquire(client, "held", PAWL_LOCK(.ttl_ms = 1000), &held), PAWL_OK);
        again();
        sleep(3);
        CHECK_INT(pawl_check(held), PAWL_OK);
        CHECK_INT(pawl_stats(client, &stats), PAWL_OK);
        CHECK(stats.renewals > 0);
        CHECK(atomic_load(&grants) > 100);
        CHECK_INT(atomic_load(&failures), 0);
        atomic_store(&stop, 1);
        CHECK_INT(pawl_release(held), PAWL_OK);
        CHECK_INT(pawl_close(client), PAWL_OK);
}
