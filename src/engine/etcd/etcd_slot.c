/* etcd_slot.c - which key a claim gets: docs/decisions/0174. Etcd keeps a key that was deleted in its index until it is
 * compacted, and every look at a line walks over those. So claims of one client on one name use the same few keys again: the
 * id in a key is made of the name, a small number (the slot) and a random number of the client.
 *
 * A key is used again only if nothing that was requested for it can still be done: every request was sent once and was
 * answered, and the last one deleted it. When that is not certain of a claim the random number is drawn anew, and all
 * later claims get keys that were never used. */
#include "etcd.h"

/* Slot 0 if it is free; else 1, one of 2 and 3, one of 4 to 7 and so on: few tries, and not many more keys than claims. */
static uint64_t next_slot(struct etcd *etcd, unsigned try)
{
        uint64_t first = UINT64_C(1) << (try / 2);

        if (try == 0)
                return 0;
        etcd->slot_turn += UINT64_C(0x9e3779b97f4a7c15);
        return first + (etcd->slot_turn >> 16) % first;
}

void slot_take(struct etcd *etcd, struct claim *claim)
{
        uint64_t hash;

        if (claim->detached)
                return; /* its uid is a secret, and its lease is its own */
        while (etcd->slot_nonce == 0)
                loop_random(etcd->engine.host->loop, &etcd->slot_nonce, sizeof(etcd->slot_nonce));
        hash = table_hash(claim->name, claim->name_length);
        claim->uid[1] = etcd->slot_nonce;
        for (unsigned try = 0;; try++) {
                claim->uid[0] = hash + next_slot(etcd, try);
                if (!claim_find(etcd, claim->uid))
                        return;
        }
}

void slots_spoil(struct etcd *etcd)
{
        etcd->slot_nonce = 0;
}

bool slot_is_clean(const struct etcd *etcd, const uint64_t uid[2])
{
        return uid[1] == etcd->slot_nonce && uid[1] != 0;
}
