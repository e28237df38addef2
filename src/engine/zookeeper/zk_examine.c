/* zk_examine.c - asks the servers about themselves, for pawl doctor: each of them by words of four letters, and the
 * ensemble by trying what locks need on a node of its own. That a server cannot be reached, or refuses us, is an answer
 * too. */
#include "zk_examine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_PATIENCE (2 * SECOND)

const char *const zk_words[WORDS] = {[WORD_SRVR] = "srvr", [WORD_CONF] = "conf", [WORD_MNTR] = "mntr"};

static void ask_word(struct zk_examination *examination);
static void ask_namespace(struct zk_examination *examination);

static struct loop *loop_of(const struct zk_examination *examination)
{
        return examination->zk->engine.host->loop;
}

static void examination_free(struct zk_examination *examination)
{
        net_close(&examination->net);
        loop_unset(loop_of(examination), &examination->timer);
        if (examination->session)
                zk_forget(examination->session, &examination->ask);
        list_remove(&examination->listed);
        for (size_t i = 0; examination->said && i < examination->zk->server_count; i++)
                for (size_t word = 0; word < WORDS; word++)
                        free(examination->said[i].answers[word]);
        free(examination->said);
        free(examination->text);
        free(examination);
}

static void finish(struct zk_examination *examination)
{
        struct inquiry *inquiry = examination->inquiry;

        zk_judge(examination);
        examination_free(examination);
        inquiry->answered(inquiry, PAWL_OK, NULL);
}

static void give_up(struct zk_examination *examination)
{
        struct inquiry *inquiry = examination->inquiry;

        examination_free(examination);
        inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
}

/* ---- words of four letters ------------------------------------------------------------------------------------- */

static struct zk_said *said_of(const struct zk_examination *examination)
{
        return &examination->said[examination->server];
}

/* The next word, or the next server; a server that cannot be reached is not asked again. */
static void word_over(struct zk_examination *examination)
{
        struct zk_said *said = said_of(examination);

        loop_unset(loop_of(examination), &examination->timer);
        net_close(&examination->net);
        if (examination->size > 0) {
                examination->text[examination->size] = '\0';
                said->answers[examination->word] = examination->text;
                examination->text = NULL;
        }
        examination->size = 0;
        examination->word++;
        if (examination->word == WORDS || !said->reached) {
                examination->server++;
                examination->word = 0;
        }
        if (examination->server < examination->zk->server_count)
                ask_word(examination);
        else
                ask_namespace(examination);
}

static void word_up(struct net *net)
{
        struct zk_examination *examination = container_of(net, struct zk_examination, net);
        char *room = net_room(net, 4);

        said_of(examination)->reached = true;
        if (!room)
                return; /* the timer ends it */
        memcpy(room, zk_words[examination->word], 4);
        net_wrote(net, 4);
}

static void word_heard(struct net *net, const char *data, size_t size)
{
        struct zk_examination *examination = container_of(net, struct zk_examination, net);
        size_t room = ANSWER_MAX - examination->size;

        if (examination->size == 0)
                said_of(examination)->answered_in = zk_now(examination->zk) - examination->asked_at;
        if (size > room)
                size = room;
        memcpy(examination->text + examination->size, data, size);
        examination->size += size;
}

/* The server closes the connection behind its answer. */
static void word_down(struct net *net, const struct pawl_why *why)
{
        struct zk_examination *examination = container_of(net, struct zk_examination, net);

        if (!said_of(examination)->reached)
                said_of(examination)->why = *why;
        word_over(examination);
}

static void word_late(struct timer *timer)
{
        word_over(container_of(timer, struct zk_examination, timer));
}

static void ask_word(struct zk_examination *examination)
{
        static const struct net_events events = {.up = word_up, .heard = word_heard, .down = word_down};
        const struct zk *zk = examination->zk;
        const struct zk_server *server = &zk->servers[examination->server];
        struct zk_said *said = said_of(examination);

        snprintf(said->where, sizeof(said->where), strchr(server->host, ':') ? "[%s]:%u" : "%s:%u", server->host,
                 (unsigned)server->port);
        if (!examination->text)
                examination->text = malloc(ANSWER_MAX + 1);
        examination->target = (struct net_target){.host = server->host, .port = server->port, .tls = zk->tls};
        examination->asked_at = zk_now(zk);
        net_init(&examination->net, loop_of(examination), &events, &examination->target);
        examination->timer.fire = word_late;
        if (!examination->text ||
            loop_set(loop_of(examination), &examination->timer, zk_now(zk) + 2 * WORD_PATIENCE) != 0)
                give_up(examination);
        else if (net_connect(&examination->net, WORD_PATIENCE, &said->why) != PAWL_OK)
                loop_set(loop_of(examination), &examination->timer, zk_now(zk)); /* moving: cannot fail */
}

/* ---- the namespace --------------------------------------------------------------------------------------------- */

static const char *chroot_of(const struct zk *zk)
{
        return *zk->chroot ? zk->chroot : "/";
}

/* A name that no lock has: it begins with a point. */
static void probe_path(const struct zk *zk, const char *rest, char *path)
{
        snprintf(path, ZK_PATH_MAX, "%s/.pawl-probe-%016llx%s", zk->chroot, (unsigned long long)zk->client, rest);
}

static bool is_lost(struct zk_examination *examination, int error)
{
        if (error != ZK_CONNECTION_LOSS)
                return false;
        why_set(&examination->why, PAWL_UNREACHABLE, "the connection broke while it was examined");
        examination->connected = false;
        examination->session = NULL;
        finish(examination);
        return true;
}

static void take_names(struct zk_examination *examination, struct jute_in *reply)
{
        struct zk_stat stat;

        jute_get_stat(reply, &stat);
        examination->names = reply->bad ? 0 : stat.children;
}

static void take_access(struct zk_examination *examination, struct jute_in *reply)
{
        size_t count = jute_get_count(reply, 12);
        struct zk_access access;

        for (size_t i = 0; i < count; i++) {
                jute_get_access(reply, &access);
                if (access.scheme.length == 5 && memcmp(access.scheme.at, "world", 5) == 0 &&
                    (access.permissions & ~ZK_READ) != 0)
                        examination->open = true;
        }
}

static void take_number(struct zk_examination *examination, struct jute_in *reply)
{
        struct jute_text text;
        struct zk_stat stat;

        jute_get_data(reply, &text, &stat);
        for (size_t i = 0; i < text.length && text.at[i] >= '0' && text.at[i] <= '9'; i++)
                examination->restores = 10 * examination->restores + (uint64_t)(text.at[i] - '0');
}

static void probe_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_examination *examination = container_of(ask, struct zk_examination, ask);

        (void)reply;
        if (is_lost(examination, error))
                return;
        if (examination->answers == PROBE_LINE)
                examination->written_in = zk_now(examination->zk) - ask->sent_at;
        examination->probes[examination->answers++] = error;
        if (ask->left > 0)
                return;
        examination->session = NULL;
        examination->probed = true;
        finish(examination);
}

static void write_probes(struct zk_session *session, struct jute_out *out, const char *line, const char *claim)
{
        const struct zk *zk = session->zk;

        zk_request(session, zk->no_containers ? ZK_CREATE : ZK_CREATE_CONTAINER);
        jute_put_create(out, line, NULL, 0, zk->acl, zk->no_containers ? ZK_PERSISTENT : ZK_CONTAINER);
        zk_request(session, ZK_CREATE2);
        jute_put_create(out, claim, "probe", 5, zk->acl, ZK_EPHEMERAL);
        zk_request(session, ZK_GET_DATA);
        jute_put_path_watch(out, claim, false);
        zk_request(session, ZK_SET_DATA);
        jute_put_set_data(out, claim, "probed", 6, -1);
        zk_request(session, ZK_GET_CHILDREN2);
        jute_put_path_watch(out, line, false);
        zk_request(session, ZK_DELETE);
        jute_put_path_version(out, claim, -1);
        zk_request(session, ZK_DELETE);
        jute_put_path_version(out, line, -1);
}

static void probe(struct zk_examination *examination)
{
        char line[ZK_PATH_MAX], claim[ZK_PATH_MAX];
        struct zk_session *session = zk_any_session(examination->zk);
        struct jute_out *out;

        if (!session) {
                finish(examination);
                return;
        }
        probe_path(examination->zk, "", line);
        probe_path(examination->zk, "/lock-", claim);
        examination->answers = 0;
        zk_ask_init(&examination->ask, probe_answered);
        out = zk_begin(session, &examination->ask, PROBES * ZK_REQUEST_ROOM);
        write_probes(session, out, line, claim);
        if (zk_send(session) == PAWL_OK)
                examination->session = session;
        else
                finish(examination);
}

/* The answers to sync, exists, getACL, getData and getEphemerals. */
static void namespace_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_examination *examination = container_of(ask, struct zk_examination, ask);
        int *const errors[] = {NULL, &examination->chroot, &examination->acl, &examination->number};

        if (is_lost(examination, error))
                return;
        if (examination->answers > 0)
                *errors[examination->answers] = error;
        if (error == ZK_OK && examination->answers == 1)
                take_names(examination, reply);
        if (error == ZK_OK && examination->answers == 2)
                take_access(examination, reply);
        if (error == ZK_OK && examination->answers == 3)
                take_number(examination, reply);
        examination->answers++;
        if (ask->left > 0)
                return;
        examination->session = NULL;
        if (examination->chroot == ZK_OK)
                probe(examination);
        else
                finish(examination);
}

static void ask_namespace(struct zk_examination *examination)
{
        struct zk_session *session = zk_any_session(examination->zk);
        const char *chroot = chroot_of(examination->zk);
        char path[ZK_PATH_MAX];
        struct jute_out *out;

        examination->waiting = !session;
        if (!session) {
                if (examination->failures > 0 &&
                    zk_is_hopeless(examination->zk, &examination->why, examination->failures, examination->until))
                        finish(examination);
                return;
        }
        examination->connected = true;
        examination->granted = session->timeout;
        examination->wanted = session->wanted_ms * MS;
        examination->answers = 0;
        zk_ask_init(&examination->ask, namespace_answered);
        out = zk_begin(session, &examination->ask, 4 * ZK_REQUEST_ROOM);
        zk_request(session, ZK_SYNC);
        jute_put_path(out, chroot);
        zk_request(session, ZK_EXISTS);
        jute_put_path_watch(out, chroot, false);
        zk_request(session, ZK_GET_ACL);
        jute_put_path(out, chroot);
        zk_path_of_own(examination->zk, NULL, path);
        zk_request(session, ZK_GET_DATA);
        jute_put_path_watch(out, path, false);
        if (zk_send(session) == PAWL_OK)
                examination->session = session;
        else
                give_up(examination);
}

/* ---- beginning and end ----------------------------------------------------------------------------------------- */

void zk_inspect_examine(struct engine *engine, struct inquiry *inquiry)
{
        struct zk *zk = zk_of(engine);
        struct zk_examination *examination = calloc(1, sizeof(*examination));
        struct zk_said *said = calloc(zk->server_count, sizeof(*said));

        if (!examination || !said) {
                free(examination);
                free(said);
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        examination->zk = zk;
        examination->inquiry = inquiry;
        examination->said = said;
        examination->until = zk_inspect_until(zk);
        list_init(&examination->ask.listed);
        list_append(&zk->examinations, &examination->listed);
        (void)zk_any_session(zk); /* connects meanwhile */
        ask_word(examination);
}

bool zk_examine_forget(struct zk *zk, const struct inquiry *inquiry)
{
        for (struct list *at = zk->examinations.next; at != &zk->examinations; at = at->next) {
                struct zk_examination *examination = container_of(at, struct zk_examination, listed);

                if (examination->inquiry == inquiry) {
                        examination_free(examination);
                        return true;
                }
        }
        return false;
}

void zk_examine_up(struct zk *zk)
{
        struct list *next;

        for (struct list *at = zk->examinations.next; at != &zk->examinations; at = next) {
                struct zk_examination *examination = container_of(at, struct zk_examination, listed);

                next = at->next;
                if (examination->waiting)
                        ask_namespace(examination);
        }
}

void zk_examine_down(struct zk *zk, const struct pawl_why *why)
{
        struct list *next;

        for (struct list *at = zk->examinations.next; at != &zk->examinations; at = next) {
                struct zk_examination *examination = container_of(at, struct zk_examination, listed);

                next = at->next;
                examination->why = *why;
                if (zk_is_hopeless(zk, why, ++examination->failures, examination->until) && examination->waiting)
                        finish(examination);
        }
}

void zk_examine_free(struct zk *zk)
{
        while (!list_empty(&zk->examinations))
                examination_free(list_first(&zk->examinations, struct zk_examination, listed));
}
