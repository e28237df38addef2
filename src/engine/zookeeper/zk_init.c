/* zk_init.c - `pawl init`: makes the path of the URL and .pawl in it, or raises the number there after a restore.
 * Tokens are this number and the node's czxid; servers that were set back, or made anew, give czxids again, and
 * only a greater number keeps tokens growing (docs/decisions/0105). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../session/words.h"
#include "zk_inspect.h"

enum { NUMBER_MAX = 32767 }; /* tokens are below 2^63 */

/* The rest of such a question. */
struct init {
        int32_t version;
        uint64_t number;
        bool there; /* .pawl was there before */
        bool retry;
};

static struct init *init_of(const struct zk_question *question)
{
        return question->rest;
}

static void init_ended(struct zk_question *question)
{
        free(question->rest);
}

/* Days since 2020: greater than any number before it even if nothing is left to read that from. */
static uint64_t number_of_today(void)
{
        int64_t days = zk_wall_ms() / 86400000 - 18262;

        return days > 0 ? (uint64_t)days : 0;
}

static void take_raise(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        (void)place, (void)reply;
        init_of(question)->retry = error == ZK_BAD_VERSION;
        if (error != ZK_OK && error != ZK_BAD_VERSION)
                question->code = zk_error(error, &question->why);
}

static void raised(struct zk_question *question)
{
        struct init *init = init_of(question);

        if (init->retry) {
                zk_question_start(question);
                return;
        }
        question->zk->restores = init->number;
        zk_question_finish(question, PAWL_OK, NULL);
}

static void raise_number(struct zk_question *question)
{
        struct init *init = init_of(question);
        uint64_t today = number_of_today();
        char path[ZK_PATH_MAX], text[24];
        struct jute_out *out;
        int length;

        init->number = init->number + 1 > today ? init->number + 1 : today;
        if (init->number > NUMBER_MAX) {
                zk_question_finish(question, PAWL_CORRUPT,
                                   "the number in .pawl is too great: write a smaller one there by hand");
                return;
        }
        out = zk_question_flight(question, NULL, ZK_REQUEST_ROOM);
        if (!out)
                return;
        length = snprintf(text, sizeof(text), "%" PRIu64, init->number);
        zk_path_of_own(question->zk, NULL, path);
        zk_request(question->session, ZK_SET_DATA);
        jute_put_set_data(out, path, text, (size_t)length, init->version);
        zk_question_send(question, take_raise, raised);
}

static void path_made(struct zk_question *question)
{
        if (question->inquiry->force)
                raise_number(question);
        else if (init_of(question)->there)
                zk_question_finish(question, PAWL_MISUSE,
                                   "it was done before; after a restore of the servers' data run pawl init --yes");
        else
                zk_question_finish(question, PAWL_OK, NULL);
}

/* The answers to: make each part of the path, make .pawl, read it. */
static void take_path(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct init *init = init_of(question);
        struct jute_text text;
        struct zk_stat stat;
        struct words words;

        (void)place;
        if (error == ZK_NODE_EXISTS) {
                init->there = question->ask.left == 1;
        } else if (error != ZK_OK) {
                question->code = zk_error(error, &question->why);
        } else if (question->ask.left == 0) {
                jute_get_data(reply, &text, &stat);
                init->version = stat.version;
                words = (struct words){.at = text.at, .end = text.at + text.length};
                if (!words_number(&words, 10, NUMBER_MAX, &init->number))
                        init->number = 0;
        }
}

static void init_begin(struct zk_question *question)
{
        const struct zk *zk = question->zk;
        size_t length = strlen(zk->chroot);
        char path[ZK_PATH_MAX];
        struct jute_out *out = zk_question_flight(question, NULL, (length / 2 + 3) * ZK_REQUEST_ROOM);

        if (!out)
                return;
        for (size_t i = 1; i <= length; i++) {
                if (i < length && zk->chroot[i] != '/')
                        continue;
                snprintf(path, sizeof(path), "%.*s", (int)i, zk->chroot);
                zk_request(question->session, ZK_CREATE);
                jute_put_create(out, path, NULL, 0, zk->acl, ZK_PERSISTENT);
        }
        zk_path_of_own(zk, NULL, path);
        zk_request(question->session, ZK_CREATE);
        jute_put_create(out, path, "0", 1, zk->acl, ZK_PERSISTENT);
        zk_request(question->session, ZK_GET_DATA);
        jute_put_path_watch(out, path, false);
        zk_question_send(question, take_path, path_made);
}

void zk_inspect_init(struct engine *engine, struct inquiry *inquiry)
{
        struct init *init = calloc(1, sizeof(*init));
        struct zk_question *question;

        if (!init) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        question = zk_question_new(engine, inquiry, init_begin);
        if (!question) {
                free(init);
                return;
        }
        question->rest = init;
        question->ended = init_ended;
        zk_question_start(question);
}
