/* zk_wait.c - claims that wait: who is before them, what they watch, and what wakes them.
 *
 * A claim waits for one node only, the last that stands in its way. If that is one of this client's own claims
 * nothing is watched at all: the client itself knows when it has given it back, and asks in the same flight whether
 * the node of the next is there. If not, its own node is watched too, and first: events come in the order of the
 * changes, so that when the one before goes and its own node was not told to be gone, it is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../session/turn.h"
#include "zk.h"

enum { SPARES_KEPT = 64 };

/* ---- what a claim needs until it is held ----------------------------------------------------------------------- */

int zk_wait_begin(struct zk_part *part)
{
        struct zk *zk = part->zk;
        struct zk_wait *wait;

        if (part->wait)
                zk_wait_end(part);
        if (list_empty(&zk->spare_waits)) {
                wait = malloc(sizeof(*wait));
        } else {
                wait = list_first(&zk->spare_waits, struct zk_wait, spare);
                list_remove(&wait->spare);
                zk->spare_wait_count--;
        }
        if (!wait)
                return PAWL_NO_MEMORY;
        memset(wait, 0, sizeof(*wait));
        list_init(&wait->spare);
        wait->part = part;
        part->wait = wait;
        return PAWL_OK;
}

static void stop_following(struct zk_part *part)
{
        if (!part->wait || !part->wait->behind)
                return;
        part->wait->behind = NULL;
        list_remove(&part->listed);
}

static void leave_tail(struct zk_part *part)
{
        if (part->wait->tail)
                table_remove(&part->zk->tails, &part->wait->named);
        part->wait->tail = false;
}

static void stop_watching(struct zk_part *part)
{
        struct zk_wait *wait = part->wait;

        zk_watch_remove(part->session, &wait->own);
        zk_watch_remove(part->session, &wait->before);
        free(wait->paths);
        wait->paths = NULL;
        wait->early = false;
}

void zk_wait_end(struct zk_part *part)
{
        struct zk *zk = part->zk;
        struct zk_wait *wait = part->wait;

        if (!wait)
                return;
        zk_turn_end(part);
        stop_following(part);
        leave_tail(part);
        stop_watching(part);
        part->wait = NULL;
        if (zk->spare_wait_count >= SPARES_KEPT) {
                free(wait);
                return;
        }
        list_append(&zk->spare_waits, &wait->spare);
        zk->spare_wait_count++;
}

void zk_wait_granted(struct zk_part *part)
{
        struct zk_wait *wait = part->wait;

        if (!wait)
                return;
        if (!wait->paths || !wait->own.listed.next || list_empty(&wait->own.listed)) {
                zk_wait_end(part);
                return;
        }
        zk_turn_end(part);
        stop_following(part);
        leave_tail(part);
        zk_watch_remove(part->session, &wait->before);
}

void zk_waits_free(struct zk *zk)
{
        while (!list_empty(&zk->spare_waits)) {
                struct zk_wait *wait = list_first(&zk->spare_waits, struct zk_wait, spare);

                list_remove(&wait->spare);
                free(wait);
        }
        zk->spare_wait_count = 0;
}

/* ---- behind our own -------------------------------------------------------------------------------------------- */

static void follow(struct zk_part *part, struct zk_part *other)
{
        list_remove(&part->listed);
        list_append(&other->followers, &part->listed);
        part->wait->behind = other;
}

static struct zk_part *find_tail(const struct zk *zk, const struct claim *claim, uint64_t hash)
{
        for (struct link *link = table_first(&zk->tails, hash); link; link = link->next) {
                struct zk_part *part = container_of(link, struct zk_wait, named)->part;

                if (link->hash == hash && part->claim->name_length == claim->name_length &&
                    memcmp(part->claim->name, claim->name, claim->name_length) == 0)
                        return part;
        }
        return NULL;
}

/* Only exclusive claims that wait: the others need to know more than who is right before them. */
bool zk_wait_behind_ours(struct zk_part *part)
{
        const struct claim *claim = part->claim;
        struct zk *zk = part->zk;
        uint64_t hash = table_hash(claim->name, claim->name_length);
        struct zk_part *tail = find_tail(zk, claim, hash);
        bool follows;

        if (!claim->wait || claim->detached)
                return false;
        follows = tail && claim->mode == PAWL_EXCLUSIVE && tail->session == part->session;
        if (tail)
                leave_tail(tail);
        table_add(&zk->tails, &part->wait->named, hash);
        part->wait->tail = true;
        if (follows)
                follow(part, tail);
        return follows;
}

bool zk_wait_is_next(struct zk_part *part)
{
        const struct zk_part *other = part->wait->behind;

        if (other && other->made && (uint32_t)part->number == (uint32_t)other->number + 1)
                return true;
        stop_following(part);
        return false;
}

struct zk_part *zk_wait_heir(const struct zk_part *part)
{
        struct zk_part *heir;

        if (list_empty(&part->followers) || part->claim->mode != PAWL_EXCLUSIVE)
                return NULL;
        heir = list_first(&part->followers, struct zk_part, listed);
        if (heir->state != ZK_WAITING || heir->session->state != ZK_CONNECTED)
                return NULL;
        return heir->claim->mode == PAWL_EXCLUSIVE || heir->wait->proven ? heir : NULL;
}

/* One that only waited, right behind another of ours, leaves its followers to that one. A shared one may have others
 * between: they wait for an exclusive one, whoever is right before them. */
static bool leave_to_other(struct zk_part *part)
{
        struct zk_part *other = part->wait ? part->wait->behind : NULL;

        if (!other || part->state != ZK_CANCELLING || part->claim->mode != PAWL_EXCLUSIVE)
                return false;
        while (!list_empty(&part->followers)) {
                struct zk_part *follower = list_first(&part->followers, struct zk_part, listed);

                if (follower->state == ZK_WAITING && follower->claim->mode == PAWL_EXCLUSIVE) {
                        follow(follower, other);
                } else {
                        stop_following(follower);
                        if (follower->state == ZK_WAITING)
                                zk_claim_look(follower);
                }
        }
        return true;
}

/* Those who are still asking look for themselves when they are answered. */
void zk_followers_told(struct zk_part *part, bool clean)
{
        struct list told;
        bool inherits = clean && part->inherits;

        if (list_empty(&part->followers) || leave_to_other(part))
                return;
        list_init(&told);
        list_splice(&told, &part->followers);
        while (!list_empty(&told)) {
                struct zk_part *follower = list_first(&told, struct zk_part, listed);

                stop_following(follower);
                if (follower->state != ZK_WAITING)
                        continue;
                if (inherits && follower->number == part->heir)
                        zk_claim_first(follower);
                else if (follower->session->state == ZK_CONNECTED)
                        zk_claim_look(follower);
                else
                        zk_claim_park(follower, ZK_LOOKING);
        }
}

void zk_put_held(struct zk_part *part, struct jute_out *out)
{
        char path[ZK_PATH_MAX], record[RECORD_MAX + 1];
        size_t length =
                record_write(part->claim, part->zk->client, part->zk->engine.host->owner, part->since_ms, true, record);

        zk_path_of_part(part, path);
        zk_request(part->session, ZK_SET_DATA);
        jute_put_set_data(out, path, record, length, -1);
}

/* Writes into its node that it holds: who watches it, to be the next of a limited lock, looks again. */
static void say_held(struct zk_part *part)
{
        struct zk_session *session = part->session;
        struct zk_ask *ask = malloc(sizeof(*ask));

        if (!ask)
                return;
        zk_ask_init(ask, zk_nobody_hears);
        zk_put_held(part, zk_begin(session, ask, ZK_REQUEST_ROOM));
        if (zk_send(session) != PAWL_OK)
                free(ask);
}

void zk_wait_tell_held(struct zk_part *part)
{
        struct list told;

        if (part->wait && (part->wait->paths || part->wait->waited))
                say_held(part);
        list_init(&told);
        list_splice(&told, &part->followers);
        while (!list_empty(&told)) {
                struct zk_part *follower = list_first(&told, struct zk_part, listed);

                if (follower->state == ZK_WAITING && follower->wait->until_held) {
                        stop_following(follower);
                        zk_claim_look(follower);
                } else {
                        list_remove(&follower->listed);
                        list_append(&part->followers, &follower->listed);
                }
        }
}

/* ---- watching others ------------------------------------------------------------------------------------------- */

/* Its node is not there any more: somebody deleted it. One that waits gets a new one, at the end of the line; if it was
 * passed over it is given more time the next time. */
static void own_gone(struct zk_part *part)
{
        if (part->state == ZK_HELD) {
                zk_claim_gone(part, PAWL_REASON_BROKEN);
                return;
        }
        part->claim->confirms = turn_more(part->claim->confirms);
        zk_claim_ask(part);
}

static void own_fired(struct zk_watch *watch, int type);

static void set_watch(struct zk_part *part, struct zk_watch *watch, const char *path,
                      void (*fired)(struct zk_watch *, int))
{
        zk_watch_remove(part->session, watch);
        watch->path = path;
        watch->length = strlen(path);
        watch->fired = fired;
        zk_watch_add(part->session, watch);
}

bool zk_wait_watch_own(struct zk_part *part, struct jute_out *out)
{
        char path[ZK_PATH_MAX];

        if (!part->wait || !part->wait->paths)
                return false;
        zk_path_of_part(part, path);
        zk_request(part->session, ZK_GET_DATA);
        jute_put_path_watch(out, path, true);
        return true;
}

void zk_wait_watched_own(struct zk_part *part)
{
        if (part->wait && part->wait->paths)
                set_watch(part, &part->wait->own, part->wait->paths, own_fired);
}

/* Curator's way to ask for a lock. */
static bool is_revoke(struct jute_text text)
{
        return text.length == 10 && memcmp(text.at, "__REVOKE__", 10) == 0;
}

static void own_read(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = container_of(ask, struct zk_part, ask);
        struct jute_text text;
        struct zk_stat stat;

        if (error == ZK_NO_NODE)
                own_gone(part);
        if (error != ZK_OK)
                return;
        jute_get_data(reply, &text, &stat);
        if (!reply->bad && is_revoke(text))
                zk_claim_asked(part);
}

/* Somebody wrote into the node of a holder. */
static void read_own(struct zk_part *part)
{
        struct jute_out *out;

        if (zk_asked(&part->ask))
                return;
        set_watch(part, &part->wait->own, part->wait->paths, own_fired);
        part->ask.answered = own_read;
        out = zk_begin(part->session, &part->ask, ZK_REQUEST_ROOM);
        zk_request(part->session, ZK_GET_DATA);
        jute_put_path_watch(out, part->wait->own.path, true);
        (void)zk_send(part->session); /* without it a deletion by hand is found later */
}

static void own_fired(struct zk_watch *watch, int type)
{
        struct zk_part *part = container_of(watch, struct zk_wait, own)->part;

        if (type == ZK_EVENT_SESSION && part->state == ZK_WAITING)
                zk_claim_park(part, ZK_LOOKING);
        else if (type == ZK_EVENT_SESSION)
                part->wait->early = true;
        else if (part->state != ZK_WAITING && part->state != ZK_HELD)
                part->wait->early = true, part->broken |= type == ZK_EVENT_DELETED;
        else if (type == ZK_EVENT_DELETED)
                own_gone(part);
        else if (part->state == ZK_HELD)
                read_own(part);
        else
                zk_claim_look(part);
}

static void before_fired(struct zk_watch *watch, int type)
{
        struct zk_wait *wait = container_of(watch, struct zk_wait, before);
        struct zk_part *part = wait->part;

        if (type == ZK_EVENT_SESSION && part->state == ZK_WAITING)
                zk_claim_park(part, ZK_LOOKING);
        else if (part->state == ZK_WATCHING)
                wait->early = true;
        else if (part->state != ZK_WAITING)
                return;
        else if (type == ZK_EVENT_DELETED && wait->proven)
                zk_claim_first(part);
        else
                zk_claim_look(part);
}

static void watch_lost(struct zk_part *part)
{
        if (part->cancelled) {
                part->code = PAWL_CANCELLED;
                zk_claim_park(part, ZK_CANCELLING);
        } else {
                zk_claim_park(part, ZK_LOOKING);
        }
}

static void watch_other(struct zk_part *part, struct jute_text child, bool proven);
static bool may_hold(struct zk_part *part, struct jute_in *children);

/* What was watched may have changed between the look and the watch: is there no need to wait any more? */
static bool is_over(struct zk_part *part, struct jute_in *reply)
{
        struct jute_text data;
        struct zk_stat stat;
        struct record record;
        int64_t from_ms;

        if (part->wait->whole_line)
                return may_hold(part, reply);
        if (!part->wait->until_held)
                return false;
        jute_get_data(reply, &data, &stat);
        return !reply->bad && zk_record_read(data, &record, &from_ms) && record.holds;
}

/* The answers to what sets both watches: first of its own node, then of the other one. */
static void watched(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = container_of(ask, struct zk_part, ask);
        struct zk_wait *wait = part->wait;

        if (error == ZK_CONNECTION_LOSS) {
                watch_lost(part);
        } else if (ask->left) {
                part->error = (int16_t)error;
        } else if (part->cancelled) {
                zk_claim_leave(part, PAWL_CANCELLED);
        } else if (part->error == ZK_NO_NODE) {
                own_gone(part);
        } else if (wait->early || error == ZK_NO_NODE) {
                zk_watch_remove(part->session, &wait->before);
                zk_claim_look(part);
        } else if (error == ZK_NO_AUTH && !wait->whole_line) {
                watch_other(part, (struct jute_text){.at = ""}, false); /* see below */
        } else if (error != ZK_OK) {
                zk_claim_retry(part, ZK_LOOKING);
        } else if (is_over(part, reply)) {
                zk_watch_remove(part->session, &wait->before);
                zk_claim_look(part);
        } else {
                wait->proven &= part->error == ZK_OK; /* of a node that we may not read nobody tells us that it goes */
                part->state = ZK_WAITING;
        }
}

static void send_watches(struct zk_part *part, enum zk_op op)
{
        struct zk_wait *wait = part->wait;
        struct jute_out *out;
        int code;

        part->state = ZK_WATCHING;
        part->error = ZK_OK;
        part->ask.answered = watched;
        wait->early = false;
        wait->whole_line = op == ZK_GET_CHILDREN2;
        set_watch(part, &wait->own, wait->paths, own_fired);
        set_watch(part, &wait->before, wait->paths + strlen(wait->paths) + 1, before_fired);
        out = zk_begin(part->session, &part->ask, 256 + wait->own.length + wait->before.length);
        zk_request(part->session, ZK_GET_DATA);
        jute_put_path_watch(out, wait->own.path, true);
        zk_request(part->session, op);
        jute_put_path_watch(out, wait->before.path, true);
        code = zk_send(part->session);
        if (code == PAWL_UNREACHABLE)
                zk_claim_park(part, ZK_LOOKING);
        else if (code != PAWL_OK)
                zk_claim_leave(part, code);
}

/* child: the node in the same line to wait for; of no length: the line itself. That is also for a node that we may not read:
 * servers send no event of it, also not to a client that only asked whether it exists (CVE-2024-23944). */
static void watch_other(struct zk_part *part, struct jute_text child, bool proven)
{
        struct zk_wait *wait = part->wait;
        char own[ZK_PATH_MAX], line[ZK_PATH_MAX];
        size_t own_size, line_size;

        zk_path_of_part(part, own);
        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, line);
        own_size = strlen(own) + 1;
        line_size = strlen(line) + 1;
        stop_watching(part);
        wait->paths = malloc(own_size + line_size + child.length + 1);
        if (!wait->paths) {
                zk_claim_leave(part, PAWL_NO_MEMORY);
                return;
        }
        memcpy(wait->paths, own, own_size);
        memcpy(wait->paths + own_size, line, line_size);
        if (child.length) {
                wait->paths[own_size + line_size - 1] = '/';
                memcpy(wait->paths + own_size + line_size, child.at, child.length);
                wait->paths[own_size + line_size + child.length] = '\0';
        }
        wait->proven = proven;
        send_watches(part, child.length ? ZK_GET_DATA : ZK_GET_CHILDREN2);
}

/* ---- the line -------------------------------------------------------------------------------------------------- */

struct view {
        struct jute_in children;  /* from their count on */
        size_t count;             /* of children */
        size_t earlier;           /* in zk->earlier */
        bool own;                 /* its own node is among them */
        bool foreign;             /* one that is not ours is */
        struct jute_text orphan;  /* a marker whose claim is not in the line */
        struct jute_text double_; /* a second node of the claim: a create that was believed to be lost was late */
};

static bool add_earlier(struct zk *zk, size_t count, const struct contender *contender)
{
        if (count == zk->earlier_room) {
                size_t room = count ? 2 * count : 64;
                struct contender *earlier = realloc(zk->earlier, room * sizeof(*earlier));

                if (!earlier)
                        return false;
                zk->earlier = earlier;
                zk->earlier_room = room;
        }
        zk->earlier[count] = *contender;
        return true;
}

static struct jute_in all_children(const struct view *view)
{
        struct jute_in in = view->children;

        (void)jute_get_count(&in, 4);
        return in;
}

static bool has_claim(const struct view *view, const uint64_t uid[2])
{
        struct jute_in in = view->children;
        int32_t number;

        return zk_find_node(&in, uid, &number);
}

/* A marker without its claim: the claim's session died, and nobody may have the lock until the marker goes, too. */
static void see_marker(struct view *view, struct jute_text child)
{
        uint64_t uid[2];

        if (zk_delay_owner(child, uid) && !has_claim(view, uid))
                view->orphan = child;
}

static bool is_own_uid(const struct zk_part *part, const struct zk_node *node)
{
        const uint64_t *uid = part->claim->uid;

        return node->contender.uid[0] == uid[0] && node->contender.uid[1] == uid[1];
}

/* A line that was deleted counts from 0 again: another's node may have our number. Who is behind us may have seen us wait,
 * and wants to hear when we hold. */
static bool see_children(struct zk_part *part, struct view *view)
{
        struct jute_in in = view->children;

        view->count = jute_get_count(&in, 4);
        for (size_t i = 0; i < view->count; i++) {
                struct jute_text child = jute_get_text(&in);
                struct zk_node node;
                int32_t order;

                if (zk_delay_is_marker(child)) {
                        see_marker(view, child);
                        continue;
                }
                if (!zk_node_read(child, &node))
                        continue;
                order = zk_number_order(node.number, part->number);
                view->foreign |= !node.contender.uid[0] && !node.contender.uid[1];
                if (order == 0 && is_own_uid(part, &node))
                        view->own = true;
                else if (is_own_uid(part, &node))
                        view->double_ = child;
                else if (order > 0)
                        part->wait->waited = true;
                if (order >= 0)
                        continue;
                node.contender.order = (uint64_t)((int64_t)order - INT32_MIN);
                if (!add_earlier(part->zk, view->earlier++, &node.contender))
                        return false;
        }
        return !in.bad;
}

/* The child with that place in the order. */
static bool child_of(const struct zk_part *part, const struct view *view, uint64_t order, struct jute_text *child,
                     struct zk_node *node)
{
        struct jute_in in = all_children(view);

        for (size_t i = 0; i < view->count; i++) {
                *child = jute_get_text(&in);
                if (zk_node_read(*child, node) &&
                    (uint64_t)((int64_t)zk_number_order(node->number, part->number) - INT32_MIN) == order)
                        return true;
        }
        return false;
}

static void wait_for(struct zk_part *part, const struct view *view, size_t place, bool proven)
{
        const struct contender *other = &part->zk->earlier[place];
        struct zk_part *ours = other->uid[0] || other->uid[1] ? zk_claim_find(part->zk, other->uid) : NULL;
        struct jute_text child;
        struct zk_node node;

        if (!child_of(part, view, other->order, &child, &node)) {
                zk_claim_look(part);
        } else if (ours && ours->made && ours->number == node.number && !ours->claim->detached) {
                follow(part, ours);
                part->wait->waited = true;
                part->wait->proven = proven;
                part->state = ZK_WAITING;
        } else {
                watch_other(part, child, proven && !node.delays);
        }
}

/* A limited lock is full. The first who waits hears of every change of the line; the others wait until the one
 * before them holds the lock, and says so in its node, or leaves. Only limited claims of ours say so. */
static void wait_for_any(struct zk_part *part, const struct view *view, bool next)
{
        if (next || part->zk->earlier[view->earlier - 1].limit == 0)
                watch_other(part, (struct jute_text){.at = ""}, false);
        else
                wait_for(part, view, view->earlier - 1, false);
}

static void judge_line(struct zk_part *part, const struct view *view, struct verdict *verdict)
{
        struct contender claim = {
                .uid = {part->claim->uid[0], part->claim->uid[1]},
                .order = UINT64_C(1) << 31,
                .shared = part->claim->mode == PAWL_SHARED,
                .limit = part->claim->max_holders,
        };

        if (view->earlier > 1)
                qsort(part->zk->earlier, view->earlier, sizeof(*part->zk->earlier), line_compare);
        line_judge(part->zk->earlier, view->earlier, &claim, verdict);
}

static bool may_hold(struct zk_part *part, struct jute_in *children)
{
        struct view view = {.children = *children};
        struct verdict verdict;

        if (!see_children(part, &view) || !view.own)
                return true;
        judge_line(part, &view, &verdict);
        return verdict.granted;
}

static void judge(struct zk_part *part, const struct view *view)
{
        struct verdict verdict;

        judge_line(part, view, &verdict);
        part->wait->until_held = !verdict.granted && verdict.wait_for == LINE_ANYBODY;
        if (!verdict.granted)
                zk_turn_begin(part);
        if (verdict.granted && !view->orphan.length)
                zk_claim_first(part);
        else if (!part->claim->wait)
                zk_claim_leave(part, PAWL_BUSY);
        else if (view->orphan.length && (verdict.granted || view->earlier == 0))
                watch_other(part, view->orphan, false);
        else if (verdict.wait_for == LINE_ANYBODY)
                wait_for_any(part, view, verdict.next);
        else
                wait_for(part, view, (size_t)verdict.wait_for, verdict.proven && !view->orphan.length);
}

static void delete_double(struct zk_part *part, struct jute_text child)
{
        char path[ZK_PATH_MAX];
        size_t length;

        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        length = strlen(path);
        snprintf(path + length, sizeof(path) - length, "/%.*s", (int)child.length, child.at);
        zk_ghost_at(part->session, path);
}

void zk_line_look(struct zk_part *part, struct jute_in *children)
{
        struct view view = {.children = *children};
        bool seen;

        stop_following(part);
        seen = see_children(part, &view);
        if (view.double_.length)
                delete_double(part, view.double_);
        if (!seen)
                zk_claim_leave(part, PAWL_NO_MEMORY);
        else if (!view.own)
                own_gone(part);
        else if (zk_number_retires(part->number) && !view.foreign)
                zk_retire(part, children);
        else if (zk_number_is_last(part->number))
                zk_claim_leave(part, PAWL_FULL);
        else
                judge(part, &view);
}
