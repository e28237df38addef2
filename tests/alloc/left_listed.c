/* left_listed.c - what is left in a store with sessions, or one with leases: what a client sees there. Everything hangs on a
 * session, which is closed with its client or ends by itself, or on a lease. */
#include "../contract/contract.h"
#include "left.h"

/* nghttp2 takes what it cannot compress for a fault of the other side. ZooKeeper's server is not quick on a busy machine. */
#ifdef BUILTIN_ETCD
const struct pace pace = {
        .once = {60, 23}, .by_caller = {1, 61}, .for_good = {20, 203}, .calls = {8, 31}, .hidden = true, .replay = 8};
#elif defined(BUILTIN_POSTGRES)
const struct pace pace = {
        .once = {60, 13}, .by_caller = {1, 31}, .for_good = {20, 101}, .calls = {10, 17}, .replay = 4};
#else
const struct pace pace = {.once = {30, 41}, .by_caller = {1, 97}, .for_good = {8, 301}, .calls = {4, 47}, .replay = 8};
#endif

static int note_left(const struct pawl_entry *entry, void *arg)
{
        int *count = arg;

        *count += strcmp(entry->name, "witness") != 0 && (entry->role == PAWL_ROLE_HOLDER || entry->waiters > 0);
        return 0;
}

int count_left(const char *place)
{
        pawl_client *client;
        int count = 0;

        REQUIRE_INT(pawl_open(place, NULL, &client), PAWL_OK);
        CHECK_INT(pawl_list(client, NULL, note_left, &count), PAWL_OK);
        CHECK_INT(pawl_close(client), PAWL_OK);
        return count;
}
