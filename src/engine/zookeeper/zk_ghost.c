/* zk_ghost.c - a node that may be there although its caller was told that it failed, or is in doubt: deleted as
 * soon as its session is connected again. If the session ends first the node goes with it. */
#include <stdlib.h>
#include <string.h>

#include "zk.h"

struct zk_ghost {
        struct zk_ask ask;
        struct list listed; /* in zk->ghosts */
        struct zk *zk;
        struct zk_session *session;
        uint64_t uid[2];
        bool found; /* path is that of the node, not of the line it stands in */
        size_t line_length;
        char path[ZK_PATH_MAX];
};

static void delete_it(struct zk_ghost *ghost);

static void ghost_free(struct zk_ghost *ghost)
{
        list_remove(&ghost->listed);
        zk_session_unuse(ghost->session);
        free(ghost);
}

static void deleted(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_ghost *ghost = container_of(ask, struct zk_ghost, ask);

        (void)reply;
        if (error != ZK_CONNECTION_LOSS)
                ghost_free(ghost);
}

/* Of a node that is not known by its number: among the children of the line. */
static void looked(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_ghost *ghost = container_of(ask, struct zk_ghost, ask);
        struct jute_text child;
        size_t count;

        if (error == ZK_CONNECTION_LOSS || ask->left)
                return;
        count = error == ZK_OK ? jute_get_count(reply, 4) : 0;
        for (size_t i = 0; i < count; i++) {
                struct zk_node node;

                child = jute_get_text(reply);
                if (!zk_node_read(child, &node) || node.contender.uid[0] != ghost->uid[0] ||
                    node.contender.uid[1] != ghost->uid[1] ||
                    ghost->line_length + child.length + 2 > sizeof(ghost->path))
                        continue;
                ghost->path[ghost->line_length] = '/';
                memcpy(ghost->path + ghost->line_length + 1, child.at, child.length);
                ghost->path[ghost->line_length + 1 + child.length] = '\0';
                ghost->found = true;
                delete_it(ghost);
                return;
        }
        ghost_free(ghost);
}

/* What cannot be sent now is sent when the session comes back. */
static void delete_it(struct zk_ghost *ghost)
{
        struct jute_out *out;

        zk_ask_init(&ghost->ask, ghost->found ? deleted : looked);
        out = zk_begin(ghost->session, &ghost->ask, 2 * ZK_REQUEST_ROOM);
        if (ghost->found) {
                zk_request(ghost->session, ZK_DELETE);
                jute_put_path_version(out, ghost->path, -1);
        } else {
                zk_request(ghost->session, ZK_SYNC);
                jute_put_path(out, ghost->path);
                zk_request(ghost->session, ZK_GET_CHILDREN2);
                jute_put_path_watch(out, ghost->path, false);
        }
        (void)zk_send(ghost->session);
}

static struct zk_ghost *ghost_new(struct zk_session *session)
{
        struct zk_ghost *ghost = calloc(1, sizeof(*ghost));

        if (!ghost)
                return NULL;
        ghost->zk = session->zk;
        ghost->session = session;
        list_init(&ghost->ask.listed);
        zk_session_use(session);
        list_append(&session->zk->ghosts, &ghost->listed);
        return ghost;
}

static void set_out(struct zk_ghost *ghost)
{
        ghost->line_length = strlen(ghost->path);
        if (ghost->session->state == ZK_CONNECTED)
                delete_it(ghost);
}

void zk_ghost_of(const struct zk_part *part)
{
        struct zk_ghost *ghost;

        if (!part->session || part->session->state == ZK_EXPIRED || !(ghost = ghost_new(part->session)))
                return;
        ghost->uid[0] = part->claim->uid[0];
        ghost->uid[1] = part->claim->uid[1];
        ghost->found = part->made;
        if (part->made)
                zk_path_of_part(part, ghost->path);
        else
                zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, ghost->path);
        set_out(ghost);
}

void zk_ghost_at(struct zk_session *session, const char *path)
{
        struct zk_ghost *ghost = strlen(path) < ZK_PATH_MAX ? ghost_new(session) : NULL;

        if (!ghost)
                return;
        ghost->found = true;
        strcpy(ghost->path, path);
        set_out(ghost);
}

static void for_each_of(struct zk_session *session, void (*act)(struct zk_ghost *))
{
        struct list *next, *ghosts = &session->zk->ghosts;

        for (struct list *at = ghosts->next; at != ghosts; at = next) {
                struct zk_ghost *ghost = container_of(at, struct zk_ghost, listed);

                next = at->next;
                if (ghost->session == session && !zk_asked(&ghost->ask))
                        act(ghost);
        }
}

void zk_ghosts_up(struct zk_session *session)
{
        for_each_of(session, delete_it);
}

void zk_ghosts_expired(struct zk_session *session)
{
        for_each_of(session, ghost_free);
}

void zk_ghosts_free(struct zk *zk)
{
        while (!list_empty(&zk->ghosts)) {
                struct zk_ghost *ghost = list_first(&zk->ghosts, struct zk_ghost, listed);

                zk_forget(ghost->session, &ghost->ask);
                ghost_free(ghost);
        }
}
