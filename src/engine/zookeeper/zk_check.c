/* zk_check.c - what the store has of a session, beside what we believe: asked now and then together with the beat.
 * A lock whose node was deleted by hand is told to be gone; a node that nobody here knows, because its create was
 * given up and came late all the same, is deleted. */
#include <string.h>

#include "zk.h"

/* The answer is as long as the locks are many: so it is asked for less often then, and of very many not at all. */
enum { CLAIMS_PER_BEAT = 1000, CLAIMS_MAX = 10000 };

bool zk_check_is_due(struct zk_session *session)
{
        if (session->kind != ZK_SHARED || session->zk->no_ephemerals || session->users > CLAIMS_MAX)
                return false;
        return ++session->beats % (1 + session->users / CLAIMS_PER_BEAT) == 0;
}

void zk_check_request(struct zk_session *session, struct jute_out *out)
{
        const char *chroot = session->zk->chroot;

        zk_request(session, ZK_GET_EPHEMERALS);
        jute_put_path(out, *chroot ? chroot : "/");
}

/* Answers come in order: whatever is held now was made before this was asked. */
static void see_node(struct zk_session *session, struct jute_text path)
{
        struct jute_text name = path;
        struct zk_node node;
        struct zk_part *part;
        char text[ZK_PATH_MAX];
        const char *slash = memrchr(path.at, '/', path.length);

        if (!slash || path.length >= sizeof(text))
                return;
        name.at = slash + 1;
        name.length = (size_t)(path.at + path.length - name.at);
        if (!zk_node_read(name, &node) || (!node.contender.uid[0] && !node.contender.uid[1]))
                return;
        part = zk_claim_find(session->zk, node.contender.uid);
        if (part && (!part->made || part->number == node.number)) {
                part->seen = true;
                return;
        }
        memcpy(text, path.at, path.length);
        text[path.length] = '\0';
        zk_ghost_at(session, text);
}

static void gather_held(struct zk_session *session, struct list *held, bool unseen)
{
        const struct zk *zk = session->zk;

        for (size_t i = 0; i < zk->claims.size; i++) {
                for (struct link *link = zk->claims.rooms[i]; link; link = link->next) {
                        struct zk_part *part = container_of(link, struct zk_part, link);

                        if (part->session != session || part->state != ZK_HELD)
                                continue;
                        if (!unseen) {
                                part->seen = false;
                        } else if (!part->seen) {
                                list_remove(&part->listed);
                                list_append(held, &part->listed);
                        }
                }
        }
}

void zk_check_answered(struct zk_session *session, int error, struct jute_in *reply)
{
        struct list gone;
        size_t count;

        if (error == ZK_UNIMPLEMENTED)
                session->zk->no_ephemerals = true;
        if (error != ZK_OK)
                return;
        list_init(&gone);
        gather_held(session, &gone, false);
        count = jute_get_count(reply, 4);
        for (size_t i = 0; i < count; i++)
                see_node(session, jute_get_text(reply));
        if (reply->bad)
                return;
        gather_held(session, &gone, true);
        while (!list_empty(&gone)) {
                struct zk_part *part = list_first(&gone, struct zk_part, listed);

                list_remove(&part->listed);
                zk_claim_gone(part, PAWL_REASON_BROKEN);
        }
}
