/* pg_ghost.c - what may be left at the server although its caller was told that it failed. It is cleaned up behind him
 * as soon as there is a connection; without memory, or when the client is closed before, its lease does it. */
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

struct ghost {
        struct ask ask;
        struct list listed;
        struct postgres *postgres;
        uint64_t uid[2];
        int64_t until;
        bool asked;
        bool failed; /* the server lives, and could not do it: its row is locked, mostly */
        char key[];  /* with the prefix */
};

static void ghost_free(struct ghost *ghost)
{
        list_remove(&ghost->listed);
        free(ghost);
}

static int write_ghost(struct ask *ask, struct wire *wire)
{
        const struct ghost *ghost = container_of(ask, struct ghost, ask);
        struct values values = {.count = 0};

        value_text(&values, ghost->key);
        value_uid(&values, ghost->uid);
        value_number(&values, (int64_t)wire->session);
        return wire_send(wire, ask, SQL_CANCEL, &values);
}

static struct ghost *first_failed(const struct postgres *postgres)
{
        for (struct list *at = postgres->ghosts.next; at != &postgres->ghosts; at = at->next)
                if (container_of(at, struct ghost, listed)->failed)
                        return container_of(at, struct ghost, listed);
        return NULL;
}

/* A row that was locked is locked for a while. */
static void ask_later(struct ghost *ghost)
{
        list_remove(&ghost->listed); /* behind the others */
        list_append(&ghost->postgres->ghosts, &ghost->listed);
        ghost->failed = true;
        retry_later(ghost->postgres);
}

static void ghost_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct ghost *ghost = container_of(ask, struct ghost, ask);
        struct postgres *postgres = ghost->postgres;

        ghost->asked = false;
        if (why && !wire_ready(&postgres->wire))
                return; /* once more when the connection is back */
        if (why && !is_final(why) && postgres_now(postgres) < ghost->until) {
                ask_later(ghost);
                return;
        }
        ghost_free(ghost);
        if (first_failed(postgres))
                retry_later(postgres);
        if (!why)
                claims_granted(postgres, rows);
}

static void ghost_ask(struct ghost *ghost)
{
        if (!ghost->asked && wire_ask(&ghost->postgres->wire, &ghost->ask) == PAWL_OK)
                ghost->asked = true;
}

/* One at a time, the one that failed longest ago: each may keep what is behind it waiting for as long as lock_timeout. */
void ghosts_retry(struct postgres *postgres)
{
        struct ghost *ghost = first_failed(postgres);

        if (!ghost || !wire_ready(&postgres->wire))
                return; /* ghosts_up goes on */
        ghost_ask(ghost);
        if (!ghost->asked) /* no memory */
                retry_later(postgres);
}

void ghost_of_part(const struct part *part)
{
        const struct claim *claim = part->claim;
        struct postgres *postgres = part->postgres;
        char room[KEY_MAX + 1];
        const char *key = key_of(postgres, claim->name, room);
        struct ghost *ghost = calloc(1, sizeof(*ghost) + strlen(key) + 1);

        if (!ghost)
                return;
        ghost->postgres = postgres;
        ghost->until = postgres_now(postgres) + claim->ttl + claim->delay + 60 * SECOND;
        memcpy(ghost->uid, claim->uid, sizeof(ghost->uid));
        strcpy(ghost->key, key);
        ghost->ask.write = write_ghost;
        ghost->ask.answered = ghost_answered;
        list_init(&ghost->ask.listed);
        list_append(&postgres->ghosts, &ghost->listed);
        wire_want(&postgres->wire);
        ghosts_up(postgres);
}

void ghosts_up(struct postgres *postgres)
{
        struct list *next;

        for (struct list *at = postgres->ghosts.next; at != &postgres->ghosts; at = next) {
                next = at->next;
                if (!container_of(at, struct ghost, listed)->failed)
                        ghost_ask(container_of(at, struct ghost, listed));
        }
        if (first_failed(postgres))
                retry_later(postgres);
}

void ghosts_down(struct postgres *postgres)
{
        int64_t now = postgres_now(postgres);
        struct list *next;

        for (struct list *at = postgres->ghosts.next; at != &postgres->ghosts; at = next) {
                struct ghost *ghost = container_of(at, struct ghost, listed);

                next = at->next;
                if (now >= ghost->until && !ghost->asked)
                        ghost_free(ghost);
        }
}

void ghosts_free(struct postgres *postgres)
{
        while (!list_empty(&postgres->ghosts))
                ghost_free(list_first(&postgres->ghosts, struct ghost, listed));
}
