/* zk_turn.c - claims that confirm their turn, while they wait: is the head of the queue one of those, and dead? It is
 * deleted under version 0, which a node has until it is written to: a head that has confirmed stays, and one that is
 * deleted never held. See session/turn.h; the confirming itself is in zk_claim.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../session/turn.h"
#include "zk.h"

/* Of a claim that waits. Its requests are apart from the claim's own: they never concern the claim's node. */
struct zk_turn {
        struct zk_ask ask;
        struct timer timer;
        struct zk_part *part;
        struct zk_session *session; /* on which ask is under way */
        struct turn turn;
        size_t rank; /* so many are before the claim, when it last read the queue */
        char *head;  /* the path of the head's node; NULL: not known */
};

static struct zk_turn *turn_of_ask(struct zk_ask *ask)
{
        return container_of(ask, struct zk_turn, ask);
}

static struct loop *loop_of(const struct zk_turn *turn)
{
        return turn->part->zk->engine.host->loop;
}

static void sleep_until(struct zk_turn *turn, int64_t at)
{
        (void)loop_set(loop_of(turn), &turn->timer, at); /* moving a set timer: cannot fail */
}

static void rest(struct zk_turn *turn)
{
        int64_t now = zk_now(turn->part->zk);

        sleep_until(turn, turn_next(&turn->turn, turn->rank, now));
}

static void forget_head(struct zk_turn *turn)
{
        free(turn->head);
        turn->head = NULL;
        turn->turn = (struct turn){0};
}

/* What was seen before an answer was lost counts no more: the head may have suffered from the same servers. */
static void begin_anew(struct zk_turn *turn)
{
        forget_head(turn);
        rest(turn);
}

static void send_check(struct zk_turn *turn);

/* ---- passing over ------------------------------------------------------------------------------------------------ */

static void passed_over(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_turn *turn = turn_of_ask(ask);

        (void)reply;
        if (error == ZK_OK || error == ZK_NO_NODE) {
                forget_head(turn);
                send_check(turn);
        } else {
                begin_anew(turn); /* ZK_BAD_VERSION: it has confirmed */
        }
}

static void pass_over(struct zk_turn *turn)
{
        struct jute_out *out;

        turn->ask.answered = passed_over;
        out = zk_begin(turn->session, &turn->ask, ZK_REQUEST_ROOM);
        zk_request(turn->session, ZK_DELETE);
        jute_put_path_version(out, turn->head, 0);
        if (zk_send(turn->session) != PAWL_OK)
                begin_anew(turn);
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

/* What another wrote is no record of ours, and such a head is left alone. */
static uint8_t awaits(struct jute_text data, const struct zk_stat *stat)
{
        struct record record;
        int64_t from_ms;

        if (stat->version != 0 || !zk_record_read(data, &record, &from_ms))
                return 0;
        return record.confirms;
}

static void head_read(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_turn *turn = turn_of_ask(ask);
        int64_t now = zk_now(turn->part->zk);
        struct jute_text data;
        struct zk_stat stat;

        if (error == ZK_NO_NODE) {
                forget_head(turn);
                send_check(turn);
                return;
        }
        if (error != ZK_OK && error != ZK_NO_AUTH) {
                begin_anew(turn);
                return;
        }
        if (error == ZK_OK)
                jute_get_data(reply, &data, &stat);
        if (error == ZK_NO_AUTH || reply->bad)
                turn_sees(&turn->turn, UINT64_MAX, 0, now);
        else
                turn_sees(&turn->turn, (uint64_t)stat.czxid, awaits(data, &stat), now);
        if (turn_is_over(&turn->turn, now))
                pass_over(turn);
        else
                rest(turn);
}

/* A marker without its claim keeps the head from its turn. */
static bool is_barred(const struct jute_in *children)
{
        struct jute_in in = *children;
        size_t count = jute_get_count(&in, 4);

        for (size_t i = 0; i < count; i++) {
                struct jute_in all = *children;
                uint64_t uid[2];
                int32_t number;

                if (zk_delay_owner(jute_get_text(&in), uid) && !zk_find_node(&all, uid, &number))
                        return true;
        }
        return false;
}

/* The first of the children; its length is 0 if nobody is before the claim. */
static struct jute_text find_head(struct zk_turn *turn, const struct jute_in *children)
{
        struct jute_in in = *children;
        size_t count = jute_get_count(&in, 4);
        struct jute_text head = {.at = ""};
        int32_t first = turn->part->number;

        turn->rank = 0;
        for (size_t i = 0; i < count; i++) {
                struct jute_text child = jute_get_text(&in);
                struct zk_node node;

                if (!zk_node_read(child, &node) || zk_number_order(node.number, turn->part->number) >= 0)
                        continue;
                turn->rank++;
                if (zk_number_order(node.number, first) < 0) {
                        first = node.number;
                        head = child;
                }
        }
        return head;
}

static bool keep_head(struct zk_turn *turn, struct jute_text child)
{
        char path[ZK_PATH_MAX];
        const struct claim *claim = turn->part->claim;
        size_t length;

        zk_path_of_name(turn->part->zk, claim->name, claim->name_length, path);
        length = strlen(path);
        turn->head = malloc(length + 1 + child.length + 1);
        if (!turn->head)
                return false;
        memcpy(turn->head, path, length);
        turn->head[length] = '/';
        memcpy(turn->head + length + 1, child.at, child.length);
        turn->head[length + 1 + child.length] = '\0';
        return true;
}

static void line_read(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_turn *turn = turn_of_ask(ask);
        struct jute_text head;

        if (error != ZK_OK) {
                begin_anew(turn);
                return;
        }
        head = find_head(turn, reply);
        if (head.length == 0 || reply->bad || is_barred(reply) || !keep_head(turn, head))
                rest(turn);
        else
                send_check(turn);
}

/* Reads the head that it knows, or finds it first. */
static void send_check(struct zk_turn *turn)
{
        struct zk_part *part = turn->part;
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        turn->session = part->session;
        turn->ask.answered = turn->head ? head_read : line_read;
        out = zk_begin(turn->session, &turn->ask, ZK_REQUEST_ROOM);
        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        zk_request(turn->session, turn->head ? ZK_GET_DATA : ZK_GET_CHILDREN2);
        jute_put_path_watch(out, turn->head ? turn->head : path, false);
        if (zk_send(turn->session) != PAWL_OK)
                begin_anew(turn);
}

/* One that holds needs none; one of another session may be cut off, and then it cannot. */
static bool checks(const struct zk_part *other)
{
        return other->session->state == ZK_CONNECTED && (other->state == ZK_HELD || (other->wait && other->wait->turn));
}

/* One behind another of ours that checks need not do it, too. */
static bool is_to_check(const struct zk_part *part)
{
        const struct zk_part *behind = part->wait->behind;

        return part->state == ZK_WAITING && part->session->state == ZK_CONNECTED && !(behind && checks(behind));
}

static void check(struct timer *timer)
{
        struct zk_turn *turn = container_of(timer, struct zk_turn, timer);

        sleep_until(turn, NEVER);
        if (zk_asked(&turn->ask))
                return; /* its answer sets it */
        if (is_to_check(turn->part))
                send_check(turn);
        else
                begin_anew(turn);
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

void zk_turn_begin(struct zk_part *part)
{
        struct zk_turn *turn;

        if (!part->claim->confirms || !part->claim->wait || part->wait->turn)
                return;
        turn = calloc(1, sizeof(*turn));
        if (!turn)
                return; /* it waits as others do */
        zk_ask_init(&turn->ask, NULL);
        turn->part = part;
        turn->rank = 1; /* it is known when the queue was read */
        turn->timer.fire = check;
        if (loop_set(loop_of(turn), &turn->timer, zk_now(part->zk) + TURN_FIRST) == 0)
                part->wait->turn = turn;
        else
                free(turn);
}

void zk_turn_end(struct zk_part *part)
{
        struct zk_turn *turn = part->wait->turn;

        if (!turn)
                return;
        part->wait->turn = NULL;
        loop_unset(loop_of(turn), &turn->timer);
        if (zk_asked(&turn->ask))
                zk_forget(turn->session, &turn->ask);
        free(turn->head);
        free(turn);
}
