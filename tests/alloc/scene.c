/* scene.c - the scenario of locks: see scene.h. */
#include "scene.h"

#include <poll.h>

#include "../contract/contract.h"

struct scene {
        const char *place;
        uint32_t drive;
        pawl_client *one, *two;
        pawl_lock *lock;
};

static struct seen seen;
static const char *phase = "";

/* ---- the scenario ---------------------------------------------------------------------------------------------- */

static int open_both(struct scene *scene)
{
        int code = pawl_open(scene->place, PAWL_OPEN(.drive = scene->drive), &scene->one);

        return code != PAWL_OK ? code : pawl_open(scene->place, PAWL_OPEN(.drive = scene->drive), &scene->two);
}

static int take(struct scene *scene)
{
        int code = pawl_acquire(scene->one, "a", PAWL_LOCK(.note = "the first"), &scene->lock);

        return code != PAWL_OK ? code : pawl_check(scene->lock);
}

/* Refused as it should be: PAWL_OK. */
static int refuse(struct scene *scene)
{
        pawl_lock *none;
        int code = pawl_acquire(scene->two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none);

        if (code != PAWL_BUSY)
                return CHECK(code != PAWL_OK) ? code : PAWL_MISUSE;
        code = pawl_acquire(scene->two, "a", PAWL_LOCK(.wait_ms = 2), &none);
        if (code != PAWL_TIMEOUT && code != PAWL_UNREACHABLE &&
            code != PAWL_NO_QUORUM) /* 2 ms may be too short to hear */
                return CHECK(code != PAWL_OK) ? code : PAWL_MISUSE;
        return PAWL_OK;
}

static void turn(pawl_client *client)
{
        struct pollfd fd = {.fd = pawl_fd(client), .events = POLLIN};

        if (fd.fd < 0) {
                nap(1);
        } else {
                poll(&fd, 1, 5);
                (void)pawl_dispatch(client);
        }
}

/* Hands the lock from one to two, which waits for it. */
static int hand_over(struct scene *scene)
{
        int64_t until = now_ms() + PATIENCE;
        pawl_lock *next;
        int code;

        memset(&seen, 0, sizeof(seen));
        code = pawl_acquire_async(scene->two, "a", NULL, see_granted, &seen, &next);
        if (code != PAWL_OK)
                return code;
        code = pawl_release(scene->lock);
        if (code != PAWL_OK)
                return code;
        while (!atomic_load(&seen.granted) && now_ms() < until)
                turn(scene->two);
        if (!CHECK_INT(atomic_load(&seen.granted), 1))
                return PAWL_MISUSE;
        if (atomic_load(&seen.status) != PAWL_OK)
                return atomic_load(&seen.status);
        return pawl_release(next);
}

static int count_entry(const struct pawl_entry *entry, void *arg)
{
        int *count = arg;

        (void)entry;
        ++*count;
        return 0;
}

static int look(struct scene *scene)
{
        struct pawl_stats stats = {.size = sizeof(stats)};
        int count = 0;
        int code = pawl_list(scene->one, NULL, count_entry, &count);

        if (code == PAWL_OK)
                code = pawl_show(scene->one, "a", count_entry, &count);
        return code != PAWL_OK ? code : pawl_stats(scene->one, &stats);
}

/* Bytes beside it, where they can be kept. */
static int keep(struct scene *scene)
{
        struct pawl_value value;
        int code;

        if (!(pawl_capabilities(scene->one) & PAWL_CAN_KEEP))
                return PAWL_OK;
        code = pawl_store(scene->lock, "kept", 4, 0);
        if (code == PAWL_OK)
                code = pawl_store(scene->lock, "for a while", 11, 5000);
        if (code == PAWL_OK)
                code = pawl_fetch(scene->two, "a", &value);
        if (code != PAWL_OK)
                return code;
        free(value.data);
        return pawl_store(scene->lock, NULL, 0, 0);
}

static int lend(struct scene *scene)
{
        bool slow = getenv("PAWL_TEST_LOCKS"); /* it takes a session or two, which must not run out meanwhile */
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock;
        int code = pawl_acquire(scene->one, "b", PAWL_LOCK(.flags = PAWL_DETACH, .ttl_ms = slow ? 4000 : 600), &lock);

        if (code == PAWL_OK)
                code = pawl_lease(lock, word, sizeof(word));
        if (code == PAWL_OK)
                code = pawl_forget(lock);
        if (code == PAWL_OK)
                code = pawl_adopt(scene->two, word, NULL, &lock);
        if (code == PAWL_OK)
                code = pawl_renew(lock);
        return code != PAWL_OK ? code : pawl_release(lock);
}

/* More than a client keeps in stock, each with a ttl of its own and a name that does not fit into a handle. Where
 * each ttl is a session at the server a few must do. */
static int take_many(struct scene *scene)
{
        const char *few = getenv("PAWL_TEST_LOCKS");
        int locks = few ? atoi(few) : 40;
        char name[128];
        pawl_lock *lock;

        for (int i = 0; i < locks; i++) {
                int code;

                snprintf(name, sizeof(name), "%0100d", i);
                code = pawl_acquire(scene->one, name, PAWL_LOCK(.ttl_ms = 1000 + i), &lock);
                if (code != PAWL_OK)
                        return code;
        }
        return PAWL_OK;
}

int play(const char *place, uint32_t drive)
{
        static const struct {
                const char *name;
                int (*play)(struct scene *);
        } acts[] = {{"open", open_both},      {"take", take}, {"keep", keep}, {"refuse", refuse},
                    {"hand over", hand_over}, {"look", look}, {"lend", lend}, {"take many", take_many}};
        struct scene scene = {.place = place, .drive = drive};
        int code = PAWL_OK;

        for (size_t i = 0; i < sizeof(acts) / sizeof(*acts) && code == PAWL_OK; i++) {
                phase = acts[i].name;
                code = acts[i].play(&scene);
        }
        CHECK_INT(pawl_close(scene.one), PAWL_OK);
        CHECK_INT(pawl_close(scene.two), PAWL_OK);
        return code;
}

const char *played(void)
{
        return phase;
}
