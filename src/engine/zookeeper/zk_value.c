/* zk_value.c - a few bytes beside a lock: the node .pawl/kept/XX/NAME, where XX comes of the name, so that no node has a
 * million children. Its data are a line, and what is kept behind it:
 *
 *   kept1 TOKEN KEEP_MS
 *
 * One transaction checks that the claim's node is there, and writes. It names the version that was read before: of a write
 * whose answer was lost the repetition counts, and what arrives still later changes nothing.
 *
 * Every few times a store looks at some of the others there, too, in the same flights, and deletes what was to be kept no
 * longer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../session/words.h"
#include "zk_inspect.h"

enum {
        HEAD_MAX = 64,   /* of the line, with its end */
        SWEEP_EVERY = 4, /* stores, by chance: many clients store but once */
        SWEPT_AT_ONCE = 16,
        TRIES_MAX = 8
};

/* Another value, which may be over. */
struct other {
        char *name; /* of its node */
        int32_t version;
        bool over;
};

/* The rest of a store. */
struct keeping {
        char lock[ZK_PATH_MAX]; /* the claim's node */
        char path[ZK_PATH_MAX]; /* the value's */
        size_t above;           /* so long is the path of what the value stands in */
        char *data;             /* NULL: nothing is to be kept any more */
        size_t size;
        unsigned tries;
        bool there; /* the value, in this version */
        int32_t version;
        int error;       /* of the transaction, and of which operation: */
        size_t failed;   /* 0: of the check */
        int first_error; /* of what is above the value */
        int64_t now_ms;  /* by the servers' clock */
        struct other others[SWEPT_AT_ONCE];
        size_t other_count;
};

static struct keeping *keeping_of(const struct zk_question *question)
{
        return question->rest;
}

static void forget_others(struct keeping *keeping)
{
        for (size_t i = 0; i < keeping->other_count; i++)
                free(keeping->others[i].name);
        keeping->other_count = 0;
}

static void keeping_free(struct keeping *keeping)
{
        forget_others(keeping);
        free(keeping->data);
        free(keeping);
}

static void keeping_ended(struct zk_question *question)
{
        keeping_free(keeping_of(question));
}

/* ---- paths and data -------------------------------------------------------------------------------------------- */

/* FNV-1a: all versions of us must find the same. */
static unsigned bucket_of(const char *name)
{
        uint32_t hash = 2166136261u;

        for (; *name; name++)
                hash = (hash ^ (unsigned char)*name) * 16777619u;
        return (hash ^ hash >> 8 ^ hash >> 16 ^ hash >> 24) & 0xff;
}

/* Returns how much of it is the path of what it stands in. */
static size_t path_of_value(const struct zk *zk, const char *name, char *path)
{
        char rest[16];
        size_t length;

        snprintf(rest, sizeof(rest), "kept/%02x", bucket_of(name));
        zk_path_of_own(zk, rest, path);
        length = strlen(path);
        path[length] = '/';
        name_encode(name, strlen(name), NULL, path + length + 1);
        return length;
}

/* The line, and the bytes behind it. */
static bool write_data(struct keeping *keeping, const struct inquiry *inquiry, uint64_t token)
{
        if (inquiry->size == 0)
                return true;
        keeping->data = malloc(HEAD_MAX + inquiry->size);
        if (!keeping->data)
                return false;
        keeping->size =
                (size_t)snprintf(keeping->data, HEAD_MAX, "kept1 %" PRIu64 " %" PRId64 "\n", token, inquiry->keep / MS);
        memcpy(keeping->data + keeping->size, inquiry->data, inquiry->size);
        keeping->size += inquiry->size;
        return true;
}

/* What a node says. keep_ms 0: until it is replaced. */
struct kept {
        uint64_t token;
        int64_t keep_ms;
        struct jute_text bytes;
};

/* False: it was not written by us. */
static bool read_data(struct jute_text data, struct kept *kept)
{
        const char *end = memchr(data.at, '\n', data.length < HEAD_MAX ? data.length : HEAD_MAX);
        struct words words = {.at = data.at, .end = end};
        uint64_t keep_ms;

        if (!end || end == data.at || !words_is(&words, "kept1") ||
            !words_number(&words, 10, INT64_MAX, &kept->token) || !words_number(&words, 10, INT64_MAX / MS, &keep_ms) ||
            !words_end(&words))
                return false;
        kept->keep_ms = (int64_t)keep_ms;
        kept->bytes = (struct jute_text){.at = end + 1, .length = data.length - (size_t)(end + 1 - data.at)};
        return kept->bytes.length > 0 && kept->bytes.length <= PAWL_VALUE_MAX;
}

static bool is_over(const struct kept *kept, const struct zk_stat *stat, int64_t now_ms)
{
        return kept->keep_ms > 0 && now_ms - stat->mtime_ms >= kept->keep_ms;
}

static void fail_at(struct zk_question *question, const char *path, int error)
{
        const char *sentence;
        int code = zk_error(error, &sentence);
        struct pawl_why why;

        why_set(&why, code, "%.100s: %.100s: %s", question->zk->where, path, sentence);
        zk_question_finish(question, code, why.text);
}

/* ---- store: what is above it ----------------------------------------------------------------------------------- */

static void take_above(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct keeping *keeping = keeping_of(question);

        (void)place, (void)reply;
        if (keeping->first_error == ZK_OK && error != ZK_NODE_EXISTS)
                keeping->first_error = error;
        keeping->error = error;
}

static void above_taken(struct zk_question *question)
{
        struct keeping *keeping = keeping_of(question);
        struct zk *zk = question->zk;

        if (keeping->error == ZK_UNIMPLEMENTED && !zk->no_containers) {
                zk->no_containers = true;
                keeping->error = ZK_OK;
        }
        if (keeping->error == ZK_OK || keeping->error == ZK_NODE_EXISTS) {
                zk_question_start(question);
                return;
        }
        keeping->path[keeping->above] = '\0';
        fail_at(question, keeping->path, keeping->first_error);
}

/* The last of them is a container: the servers remove it when it is empty. */
static void make_above(struct zk_question *question)
{
        struct keeping *keeping = keeping_of(question);
        const struct zk *zk = question->zk;
        struct jute_out *out = zk_question_flight(question, NULL, ZK_OWN_ROOM + 2 * ZK_REQUEST_ROOM);
        char path[ZK_PATH_MAX];

        if (!out)
                return;
        keeping->first_error = ZK_OK;
        zk_request_own(question->session, out);
        zk_path_of_own(zk, "kept", path);
        zk_request(question->session, ZK_CREATE);
        jute_put_create(out, path, NULL, 0, zk->acl, ZK_PERSISTENT);
        snprintf(path, sizeof(path), "%.*s", (int)keeping->above, keeping->path);
        zk_request(question->session, zk->no_containers ? ZK_CREATE : ZK_CREATE_CONTAINER);
        jute_put_create(out, path, NULL, 0, zk->acl, zk->no_containers ? ZK_PERSISTENT : ZK_CONTAINER);
        zk_question_send(question, take_above, above_taken);
}

/* ---- store: those that are over -------------------------------------------------------------------------------- */

static void path_of_other(const struct keeping *keeping, const struct other *other, char *path)
{
        snprintf(path, ZK_PATH_MAX, "%.*s/%s", (int)keeping->above, keeping->path, other->name);
}

/* A few in a row, somewhere among the children. Without memory, fewer. */
static void choose_others(struct zk_question *question, struct jute_in *children)
{
        struct keeping *keeping = keeping_of(question);
        size_t count = jute_get_count(children, 4), first = 0;
        uint64_t chance;

        if (count > SWEPT_AT_ONCE) {
                loop_random(question->zk->engine.host->loop, &chance, sizeof(chance));
                first = chance % (count - SWEPT_AT_ONCE + 1);
        }
        for (size_t i = 0; i < count && keeping->other_count < SWEPT_AT_ONCE; i++) {
                struct jute_text child = jute_get_text(children);
                struct other *other = &keeping->others[keeping->other_count];

                if (i < first || child.length > NAME_ENCODED_MAX)
                        continue;
                *other = (struct other){.name = strndup(child.at, child.length)};
                if (!other->name)
                        return;
                keeping->other_count++;
        }
}

static void look_at_other(const struct keeping *keeping, struct other *other, struct jute_in *reply)
{
        struct jute_text data;
        struct zk_stat stat;
        struct kept kept;

        jute_get_data(reply, &data, &stat);
        if (reply->bad || !read_data(data, &kept))
                return;
        other->version = stat.version;
        other->over = is_over(&kept, &stat, keeping->now_ms);
}

/* Nobody waits for that. What was written again since it was read stays. */
static void delete_others(struct zk_question *question)
{
        const struct keeping *keeping = keeping_of(question);
        struct zk_session *session = keeping->other_count ? zk_any_session(question->zk) : NULL;
        struct zk_ask *ask = session ? malloc(sizeof(*ask)) : NULL;
        char path[ZK_PATH_MAX];
        struct jute_out *out;
        size_t count = 0;

        if (!ask)
                return;
        zk_ask_init(ask, zk_nobody_hears);
        out = zk_begin(session, ask, SWEPT_AT_ONCE * (ZK_PATH_MAX + 32));
        for (size_t i = 0; i < keeping->other_count; i++) {
                if (!keeping->others[i].over)
                        continue;
                path_of_other(keeping, &keeping->others[i], path);
                zk_request(session, ZK_DELETE);
                jute_put_path_version(out, path, keeping->others[i].version);
                count++;
        }
        if (count == 0 || zk_send(session) != PAWL_OK)
                free(ask);
}

/* ---- store ----------------------------------------------------------------------------------------------------- */

/* The answers to the transaction, then to: exists, and getData of the others. */
static void take_written(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct keeping *keeping = keeping_of(question);
        struct zk_stat stat;

        if (place == 0) {
                question->sent = false;
                keeping->failed = 0;
                keeping->error = error == ZK_OK ? jute_get_results(reply, &keeping->failed) : error;
                question->over = keeping->error == ZK_OK && !reply->bad;
        } else if (place == 1) {
                if (error == ZK_OK)
                        jute_get_stat(reply, &stat);
                keeping->now_ms = error == ZK_OK && !reply->bad ? stat.mtime_ms : 0;
        } else if (error == ZK_OK) {
                look_at_other(keeping, &keeping->others[place - 2], reply);
        }
}

/* Since it was looked at: our server was behind, or a lost flight of ours was faster, or its time was over and somebody
 * deleted it. Or what is above it is not there. */
static bool was_changed(const struct keeping *keeping)
{
        return keeping->error == ZK_BAD_VERSION || keeping->error == ZK_NODE_EXISTS || keeping->error == ZK_NO_NODE;
}

static void written(struct zk_question *question)
{
        struct keeping *keeping = keeping_of(question);

        if (keeping->error == ZK_OK) {
                delete_others(question);
                zk_question_finish(question, PAWL_OK, NULL);
        } else if (keeping->error == ZK_NO_NODE && keeping->failed == 0) {
                zk_question_finish(question, PAWL_LOST, NULL);
        } else if (!was_changed(keeping) || ++keeping->tries == TRIES_MAX) {
                fail_at(question, keeping->path, keeping->error);
        } else if (keeping->error == ZK_NO_NODE && !keeping->there) {
                make_above(question);
        } else {
                zk_question_start(question);
        }
}

static void put_value(const struct zk_question *question, struct jute_out *out)
{
        const struct keeping *keeping = keeping_of(question);

        if (keeping->data && keeping->there) {
                jute_begin_op(out, ZK_SET_DATA);
                jute_put_set_data(out, keeping->path, keeping->data, keeping->size, keeping->version);
        } else if (keeping->data) {
                jute_begin_op(out, ZK_CREATE);
                jute_put_create(out, keeping->path, keeping->data, keeping->size, question->zk->acl, ZK_PERSISTENT);
        } else if (keeping->there) {
                jute_begin_op(out, ZK_DELETE);
                jute_put_path_version(out, keeping->path, keeping->version);
        }
}

/* The names of claims have their ids, which are never given again: while there is a node of this name the lock is ours, for
 * who holds goes on holding as long as his node is there. */
static void write_value(struct zk_question *question)
{
        const struct keeping *keeping = keeping_of(question);
        size_t others = keeping->other_count;
        char path[ZK_PATH_MAX];
        struct jute_out *out =
                zk_question_flight(question, NULL, 3 * ZK_REQUEST_ROOM + keeping->size + others * (ZK_PATH_MAX + 32));

        if (!out)
                return;
        zk_request(question->session, ZK_MULTI);
        jute_begin_op(out, ZK_CHECK);
        jute_put_path_version(out, keeping->lock, -1);
        put_value(question, out);
        jute_end_ops(out);
        if (others) {
                zk_request(question->session, ZK_EXISTS);
                jute_put_path_watch(out, keeping->path, false);
        }
        for (size_t i = 0; i < others; i++) {
                path_of_other(keeping, &keeping->others[i], path);
                zk_request(question->session, ZK_GET_DATA);
                jute_put_path_watch(out, path, false);
        }
        question->sent = true;
        zk_question_send(question, take_written, written);
}

/* The answers to sync, if it was asked for, to exists and to getChildren2. */
static void take_seen(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct keeping *keeping = keeping_of(question);
        size_t synced = keeping->tries > 0;
        struct zk_stat stat;

        if (place < synced)
                return;
        if (place > synced) {
                if (error == ZK_OK)
                        choose_others(question, reply);
                return;
        }
        keeping->there = error == ZK_OK;
        if (error == ZK_OK) {
                jute_get_stat(reply, &stat);
                keeping->version = stat.version;
        } else if (error != ZK_NO_NODE) {
                question->code = zk_error(error, &question->why);
        }
}

static bool sweeps_now(const struct zk_question *question)
{
        uint64_t chance;

        loop_random(question->zk->engine.host->loop, &chance, sizeof(chance));
        return keeping_of(question)->data && chance % SWEEP_EVERY == 0;
}

static void store_begin(struct zk_question *question)
{
        struct keeping *keeping = keeping_of(question);
        struct jute_out *out = zk_question_flight(question, NULL, 3 * ZK_REQUEST_ROOM);
        char path[ZK_PATH_MAX];

        if (!out)
                return;
        forget_others(keeping);
        if (keeping->tries > 0) { /* the server may be behind */
                zk_request(question->session, ZK_SYNC);
                jute_put_path(out, keeping->path);
        }
        zk_request(question->session, ZK_EXISTS);
        jute_put_path_watch(out, keeping->path, false);
        if (sweeps_now(question)) {
                snprintf(path, sizeof(path), "%.*s", (int)keeping->above, keeping->path);
                zk_request(question->session, ZK_GET_CHILDREN2);
                jute_put_path_watch(out, path, false);
        }
        zk_question_send(question, take_seen, write_value);
}

static void value_store(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *inquiry)
{
        const struct zk_part *part = zk_part_of(claim);
        struct keeping *keeping = calloc(1, sizeof(*keeping));
        struct zk_question *question;

        if (!keeping || !write_data(keeping, inquiry, token)) {
                free(keeping);
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        zk_path_of_part(part, keeping->lock);
        keeping->above = path_of_value(part->zk, claim->name, keeping->path);
        question = zk_question_new(engine, inquiry, store_begin);
        if (!question) {
                keeping_free(keeping);
                return;
        }
        question->rest = keeping;
        question->ended = keeping_ended;
        question->repeats = true;
        zk_question_start(question);
}

/* ---- fetch ----------------------------------------------------------------------------------------------------- */

static int64_t wall_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void tell_value(struct zk_question *question, struct jute_in *reply)
{
        struct jute_text data;
        struct zk_stat stat;
        struct kept kept;

        jute_get_data(reply, &data, &stat);
        if (reply->bad || !read_data(data, &kept)) {
                question->code = PAWL_CORRUPT;
                question->why = "what is kept there was not written by pawl";
        } else if (is_over(&kept, &stat, zk_wall_ms())) {
                question->code = PAWL_NOT_FOUND;
        } else {
                struct pawl_value value = {.data = (void *)(uintptr_t)kept.bytes.at,
                                           .size = kept.bytes.length,
                                           .token = kept.token,
                                           .stored_us = stat.mtime_ms * 1000,
                                           .now_us = wall_us()};

                question->inquiry->value(question->inquiry, &value);
        }
}

/* The answers to the transaction and to getData. */
static void take_value(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        if (place == 0 && error == ZK_OK)
                error = jute_get_results(reply, NULL);
        if (place == 0 && error == ZK_NO_AUTH)
                error = ZK_OK; /* who may not read the root has passed the majority all the same */
        if (question->code != PAWL_OK)
                return;
        if (place == 1 && error == ZK_NO_NODE)
                question->code = PAWL_NOT_FOUND;
        else if (error != ZK_OK)
                question->code = zk_error(error, &question->why);
        else if (place == 1)
                tell_value(question, reply);
}

static void value_taken(struct zk_question *question)
{
        zk_question_finish(question, PAWL_OK, NULL);
}

/* A transaction that changes nothing goes first. It passes the majority, so behind it our server knows whatever was
 * confirmed before. sync does not: a leader that was cut off, and has not noticed yet, answers it by itself
 * (ZOOKEEPER-1675). */
static void fetch_begin(struct zk_question *question)
{
        struct jute_out *out = zk_question_flight(question, NULL, 2 * ZK_REQUEST_ROOM);
        char path[ZK_PATH_MAX];

        if (!out)
                return;
        zk_request(question->session, ZK_MULTI);
        jute_begin_op(out, ZK_CHECK);
        jute_put_path_version(out, "/", -1);
        jute_end_ops(out);
        path_of_value(question->zk, question->name, path);
        zk_request(question->session, ZK_GET_DATA);
        jute_put_path_watch(out, path, false);
        zk_question_send(question, take_value, value_taken);
}

static void value_fetch(struct engine *engine, struct inquiry *inquiry)
{
        struct zk_question *question = zk_question_new(engine, inquiry, fetch_begin);

        if (question)
                zk_question_start(question);
}

const struct engine_values zk_values = {.store = value_store, .fetch = value_fetch};
