/* async.c - a thousand claims, no thread: the program's own poll loop drives pawl. Ten names, a hundred claims on each.
 * Shows that each name has one holder at a time, that tokens grow, and that nobody is forgotten.
 *
 *     async [URL]
 */
#include <pawl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>

enum { NAMES = 10, CLAIMS_PER_NAME = 100, CLAIMS = NAMES * CLAIMS_PER_NAME };

struct name {
        char text[32];
        pawl_lock *held;
        uint64_t last_token;
};

static int granted, released, violations;

static void on_released(int status, void *arg)
{
        (void)arg;
        violations += status != PAWL_OK;
        released++;
}

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct name *name = arg;

        if (status != PAWL_OK || name->held || pawl_token(lock) <= name->last_token)
                violations++;
        name->held = lock;
        name->last_token = pawl_token(lock);
        granted++;
}

/* The guarded work would stand here. */
static void work_and_release(struct name *name)
{
        pawl_lock *lock = name->held;

        if (!lock)
                return;
        if (pawl_check(lock) != PAWL_OK)
                violations++;
        name->held = NULL;
        if (pawl_release_async(lock, on_released, NULL) != PAWL_OK)
                violations++;
}

static int claim_everything(pawl_client *client, struct name *names)
{
        for (int i = 0; i < CLAIMS; i++) {
                struct name *name = &names[i % NAMES];
                pawl_lock *lock; /* the callback gets it too: nothing to keep here */
                int code;

                snprintf(name->text, sizeof(name->text), "example/async/%d", i % NAMES);
                code = pawl_acquire_async(client, name->text, NULL, on_granted, name, &lock);
                if (code != PAWL_OK)
                        return code;
        }
        return PAWL_OK;
}

static int drive_until_done(pawl_client *client, struct name *names)
{
        struct pollfd ready = {.fd = pawl_fd(client), .events = POLLIN}; /* a real program has other descriptors too */

        while (released < CLAIMS) {
                int code;

                if (poll(&ready, 1, 30000) <= 0)
                        return PAWL_TIMEOUT;
                code = pawl_dispatch(client);
                if (code != PAWL_OK)
                        return code;
                for (int i = 0; i < NAMES; i++)
                        work_and_release(&names[i]);
        }
        return PAWL_OK;
}

int main(int argc, char **argv)
{
        static struct name names[NAMES];
        pawl_client *client;
        int code = pawl_open(argc > 1 ? argv[1] : NULL, PAWL_OPEN(.drive = PAWL_DRIVE_CALLER), &client);

        if (code == PAWL_OK) {
                code = claim_everything(client, names);
                if (code == PAWL_OK)
                        code = drive_until_done(client, names);
                pawl_close(client);
        }
        printf("%d of %d claims granted, %d released, %d violations: %s\n", granted, CLAIMS, released, violations,
               pawl_strerror(code));
        return code == PAWL_OK && granted == CLAIMS && violations == 0 ? 0 : 1;
}
