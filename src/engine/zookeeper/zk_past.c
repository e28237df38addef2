/* zk_past.c - past owners. Beginnings and ends gather in memory and are written as one node, .pawl/past/b-NUMBER:
 * at once after a quiet second, else once a second; so a busy client pays one request a second for them. Who makes
 * every 32nd deletes what is older than the last 128. A node that was made twice, because its answer was lost,
 * does no harm: each end is told once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zk_inspect.h"

enum {
        BATCHES = 128,
        TRIM_EVERY = 32,
        READ_AT_ONCE = 16,
        LINES_READ = 64,    /* of one name; older ones are not looked for */
        WRITE_EVERY = 1000, /* ms */
        OWN_WAIT = 5        /* ms: until what we wrote ourselves may be confirmed */
};

struct zk_past {
        struct zk *zk;
        struct past past;
        struct zk_ask ask, trim;
        struct zk_session *session, *trimming; /* on which they are under way */
        struct timer timer;
        int64_t written_at;
        uint64_t noted, writing, confirmed; /* lines so far: noted, in text and before, in the store */
        char *text;                         /* being written; kept until it is confirmed */
        size_t size;
        bool missing; /* what is above it is to be made first */
        bool trimmed; /* once in the life of each client: many are short */
        struct list adopted;
};

static void flush(struct zk_past *past);

static struct loop *loop_of(const struct zk_past *past)
{
        return past->zk->engine.host->loop;
}

/* ---- deleting what is old -------------------------------------------------------------------------------------- */

static bool batch_number(struct jute_text child, int32_t *number)
{
        char text[16];
        char *end;

        if (child.length < 3 || child.length > sizeof(text) || memcmp(child.at, "b-", 2) != 0)
                return false;
        memcpy(text, child.at + 2, child.length - 2);
        text[child.length - 2] = '\0';
        *number = (int32_t)strtol(text, &end, 10);
        return *end == '\0';
}

static void trim_answered(struct zk_ask *ask, int error, struct jute_in *reply);

static void delete_old(struct zk_past *past, struct jute_in *children)
{
        struct jute_in again = *children;
        size_t count = jute_get_count(children, 4), old = 0;
        struct zk_session *session = past->trimming;
        int32_t number, newest = INT32_MIN;
        struct jute_out *out;

        for (size_t i = 0; i < count; i++)
                if (batch_number(jute_get_text(children), &number) &&
                    (newest == INT32_MIN || zk_number_order(number, newest) > 0))
                        newest = number;
        jute_get_count(&again, 4);
        zk_ask_init(&past->trim, trim_answered);
        out = zk_begin(session, &past->trim, (BATCHES + TRIM_EVERY) * ZK_PATH_MAX);
        for (size_t i = 0; i < count && old < BATCHES + TRIM_EVERY - 1; i++) {
                struct jute_text child = jute_get_text(&again);
                char path[ZK_PATH_MAX], rest[32];

                if (!batch_number(child, &number) ||
                    (!zk_number_retires(newest) && zk_number_order(newest, number) < BATCHES))
                        continue;
                snprintf(rest, sizeof(rest), "past/%.*s", (int)child.length, child.at);
                zk_path_of_own(past->zk, rest, path);
                zk_request(session, ZK_DELETE);
                jute_put_path_version(out, path, -1);
                old++;
        }
        if (zk_number_retires(newest) && count > 0) { /* so that it counts from 0 again; who writes next makes it */
                char path[ZK_PATH_MAX];

                zk_path_of_own(past->zk, "past", path);
                zk_request(session, ZK_DELETE);
                jute_put_path_version(out, path, -1);
                old++;
        }
        if (old == 0 || zk_send(session) != PAWL_OK)
                past->trimming = NULL;
}

/* First the children, then the answers to deletes, which nobody needs. */
static void trim_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_past *past = container_of(ask, struct zk_past, trim);

        if (error == ZK_OK && reply->at < reply->end)
                delete_old(past, reply);
        else if (ask->left == 0)
                past->trimming = NULL;
}

static void trim(struct zk_past *past, struct zk_session *session)
{
        char path[ZK_PATH_MAX];
        struct jute_out *out;

        if (past->trimming)
                return;
        past->trimming = session;
        zk_path_of_own(past->zk, "past", path);
        zk_ask_init(&past->trim, trim_answered);
        out = zk_begin(session, &past->trim, ZK_REQUEST_ROOM);
        zk_request(session, ZK_GET_CHILDREN2);
        jute_put_path_watch(out, path, false);
        if (zk_send(session) != PAWL_OK)
                past->trimming = NULL;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

void zk_request_above_past(struct zk_session *session, struct jute_out *out)
{
        char path[ZK_PATH_MAX];

        zk_request_own(session, out);
        zk_path_of_own(session->zk, "past", path);
        zk_request(session, ZK_CREATE2);
        jute_put_create(out, path, "", 0, session->zk->acl, ZK_PERSISTENT);
}

void zk_request_past(struct zk_session *session, struct jute_out *out, const char *text, size_t size)
{
        char path[ZK_PATH_MAX];

        zk_path_of_own(session->zk, "past/b-", path);
        zk_request(session, ZK_CREATE2);
        jute_put_create(out, path, text, size, session->zk->acl, ZK_SEQUENTIAL);
}

static void write_later(struct zk_past *past)
{
        if (past->timer.place == 0)
                loop_set(loop_of(past), &past->timer, past->written_at + WRITE_EVERY * MS); /* else with the next */
}

static void batch_written(struct zk_past *past, struct zk_session *session, struct jute_in *reply)
{
        struct jute_text path;
        struct zk_stat stat;
        int32_t number;

        jute_get_created(reply, &path, &stat);
        if (path.length < 12)
                return;
        path.at += path.length - 12;
        path.length = 12;
        if (batch_number(path, &number) && (!past->trimmed || number % TRIM_EVERY == TRIM_EVERY - 1))
                trim(past, session);
        past->trimmed = true;
}

/* The last answer is the batch's; those before it are of what had to be made above it. */
static void flush_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_past *past = container_of(ask, struct zk_past, ask);
        struct zk_session *session = past->session;

        if (ask->left > 0)
                return;
        past->session = NULL;
        if (error == ZK_CONNECTION_LOSS)
                return; /* again when there is a connection */
        if (error == ZK_NO_NODE && !past->missing) {
                past->missing = true;
                flush(past);
                return;
        }
        /* An error: we may not, or there is no room. History is not worth more. */
        free(past->text);
        past->text = NULL;
        past->confirmed = past->writing;
        if (error == ZK_OK) {
                past->missing = false;
                batch_written(past, session, reply);
        } else if (error == ZK_NODE_EXISTS) { /* the numbers are used up */
                trim(past, session);
        }
        if (past->past.count > 0)
                write_later(past);
}

/* One that is connected, of whatever kind: what is written does not hang on it. NULL: there is none. */
static struct zk_session *find_connected(const struct zk *zk)
{
        struct zk_session *found = NULL;

        for (struct list *at = zk->sessions.next; at != &zk->sessions; at = at->next) {
                struct zk_session *session = container_of(at, struct zk_session, listed);

                if (session->state == ZK_CONNECTED && (!found || session->kind == ZK_SHARED))
                        found = session;
        }
        return found;
}

static void flush(struct zk_past *past)
{
        struct zk_session *session;
        struct jute_out *out;

        if (past->session)
                return;
        if (!past->text) {
                past->text = past_write(&past->past, &past->size);
                past->writing = past->noted;
        }
        if (!past->text)
                return;
        session = find_connected(past->zk);
        if (!session)
                session = zk_any_session(past->zk);
        if (!session)
                return;
        past->written_at = zk_now(past->zk);
        zk_ask_init(&past->ask, flush_answered);
        out = zk_begin(session, &past->ask, past->size + ZK_OWN_ROOM + 2 * ZK_REQUEST_ROOM);
        if (past->missing)
                zk_request_above_past(session, out);
        zk_request_past(session, out, past->text, past->size);
        if (zk_send(session) == PAWL_OK)
                past->session = session;
}

static void timer_fired(struct timer *timer)
{
        flush(container_of(timer, struct zk_past, timer));
}

void zk_past_up(struct zk *zk)
{
        if (zk->past->text || zk->past->past.count > 0)
                flush(zk->past);
}

/* ---- what happened --------------------------------------------------------------------------------------------- */

struct zk_adopted *zk_past_adopted(const struct zk *zk, const struct zk_part *part)
{
        for (struct list *at = zk->past->adopted.next; at != &zk->past->adopted; at = at->next) {
                struct zk_adopted *adopted = container_of(at, struct zk_adopted, listed);

                if (memcmp(adopted->uid, part->claim->uid, sizeof(adopted->uid)) == 0)
                        return adopted;
        }
        return NULL;
}

static void drop(struct zk_adopted *adopted)
{
        list_remove(&adopted->listed);
        explicit_bzero(adopted->password, sizeof(adopted->password));
        free(adopted);
}

struct zk_adopted *zk_past_adopt(struct zk *zk, const struct zk_part *part)
{
        struct zk_adopted *adopted = zk_past_adopted(zk, part);

        if (adopted)
                return adopted;
        adopted = calloc(1, sizeof(*adopted));
        if (!adopted)
                return NULL;
        memcpy(adopted->uid, part->claim->uid, sizeof(adopted->uid));
        list_append(&zk->past->adopted, &adopted->listed);
        return adopted;
}

void zk_past_drop(struct zk *zk, const struct zk_part *part)
{
        struct zk_adopted *adopted = zk_past_adopted(zk, part);

        if (adopted && !zk_claim_find(zk, adopted->uid)) /* else another handle of the lease still needs it */
                drop(adopted);
}

void zk_past_note(struct zk *zk, const struct zk_part *part, int how)
{
        const struct claim *claim = part->claim;
        const struct zk_adopted *adopted = zk_past_adopted(zk, part);
        struct zk_past *past = zk->past;
        struct past_line line = {.token = zk_token(zk, part->token),
                                 .since_ms = adopted ? adopted->record.since_ms : part->since_ms,
                                 .until_ms = how ? zk_wall_ms() : 0,
                                 .how = (uint32_t)how,
                                 .mode = claim->mode,
                                 .limit = claim->max_holders,
                                 .name = claim->name,
                                 .owner = adopted ? adopted->record.owner : zk->engine.host->owner,
                                 .note = adopted ? adopted->record.note : claim->note};

        past_note(&past->past, &line);
        past->noted++;
        if (past->session || zk_now(zk) - past->written_at < WRITE_EVERY * MS)
                write_later(past);
        else
                flush(past);
}

int zk_past_open(struct zk *zk)
{
        struct zk_past *past = calloc(1, sizeof(*past));

        if (!past)
                return PAWL_NO_MEMORY;
        zk->past = past;
        past->zk = zk;
        past->timer.fire = timer_fired;
        past->written_at = zk_now(zk) - WRITE_EVERY * MS;
        past_init(&past->past);
        list_init(&past->ask.listed);
        list_init(&past->trim.listed);
        list_init(&past->adopted);
        return PAWL_OK;
}

void zk_past_free(struct zk *zk)
{
        struct zk_past *past = zk->past;

        if (!past)
                return;
        if (past->session) /* it is sent; what came later has no room behind it */
                zk_forget(past->session, &past->ask);
        past->session = NULL;
        if (past->past.count > 0 && find_connected(zk)) {
                free(past->text);
                past->text = NULL;
                flush(past);
        }
        if (past->session)
                zk_forget(past->session, &past->ask);
        if (past->trimming)
                zk_forget(past->trimming, &past->trim);
        loop_unset(loop_of(past), &past->timer);
        while (!list_empty(&past->adopted))
                drop(list_first(&past->adopted, struct zk_adopted, listed));
        past_free(&past->past);
        free(past->text);
        free(past);
        zk->past = NULL;
}

/* ---- history --------------------------------------------------------------------------------------------------- */

/* The rest of such a question. */
struct reading {
        uint64_t noted; /* what we have to say ourselves is written first */
        int64_t until;  /* but not for ever */
        struct past_view view;
        int32_t *batches; /* the newest first */
        size_t count, read;
        bool again; /* read once more, because an end was missing */
};

static struct reading *reading_of(const struct zk_question *question)
{
        return question->rest;
}

static void reading_ended(struct zk_question *question)
{
        struct reading *reading = reading_of(question);

        past_view_free(&reading->view);
        free(reading->batches);
        free(reading);
}

/* Those whose data were read are those who hold, and a token is told to nobody else. */
static bool holds(void *arg, uint64_t token)
{
        const struct zk_question *question = arg;

        for (size_t i = 0; i < question->seen_count; i++)
                if (question->seen[i].holds && question->seen[i].there &&
                    zk_token(question->zk, question->seen[i].czxid) == token)
                        return true;
        return false;
}

static void all_read(struct zk_question *question)
{
        struct reading *reading = reading_of(question);
        bool found = reading->view.count > 0;

        if (!reading->again && past_awaits_end(&reading->view, holds, question)) {
                reading->again = true;
                past_view_free(&reading->view);
                zk_question_pause(question, (WRITE_EVERY + WRITE_EVERY / 4) * MS, zk_question_again);
                return;
        }
        past_tell(&reading->view, question->inquiry, holds, question, zk_wall_ms());
        zk_question_finish(question, found ? PAWL_OK : PAWL_NOT_FOUND, NULL);
}

static void read_batches(struct zk_question *question);

static void take_batch(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct jute_text text;
        struct zk_stat stat;

        (void)place;
        if (error != ZK_OK)
                return; /* it was deleted meanwhile, or may not be read */
        jute_get_data(reply, &text, &stat);
        if (past_read(&reading_of(question)->view, text.at, text.length, question->name) != PAWL_OK)
                question->code = PAWL_NO_MEMORY;
}

static void read_batches(struct zk_question *question)
{
        struct reading *reading = reading_of(question);
        size_t end = reading->read + READ_AT_ONCE < reading->count ? reading->read + READ_AT_ONCE : reading->count;
        char path[ZK_PATH_MAX], rest[32];
        struct jute_out *out;

        if (reading->read == reading->count || reading->view.count >= LINES_READ) {
                all_read(question);
                return;
        }
        out = zk_question_flight(question, NULL, READ_AT_ONCE * ZK_REQUEST_ROOM);
        if (!out)
                return;
        for (; reading->read < end; reading->read++) {
                snprintf(rest, sizeof(rest), "past/b-%010d", reading->batches[reading->read]);
                zk_path_of_own(question->zk, rest, path);
                zk_request(question->session, ZK_GET_DATA);
                jute_put_path_watch(out, path, false);
        }
        zk_question_send(question, take_batch, read_batches);
}

static int newest_first(const void *a, const void *b)
{
        return zk_number_order(*(const int32_t *)b, *(const int32_t *)a);
}

static void take_batches(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct reading *reading = reading_of(question);
        size_t count;

        if (place == 0 || error == ZK_NO_NODE)
                return; /* sync, or there is no history yet */
        if (error != ZK_OK) {
                question->code = zk_error(error, &question->why);
                return;
        }
        count = jute_get_count(reply, 4);
        reading->batches = malloc((count + 1) * sizeof(*reading->batches));
        if (!reading->batches) {
                question->code = PAWL_NO_MEMORY;
                return;
        }
        for (size_t i = 0; i < count; i++)
                if (batch_number(jute_get_text(reply), &reading->batches[reading->count]))
                        reading->count++;
        qsort(reading->batches, reading->count, sizeof(*reading->batches), newest_first);
}

static void history_looked(struct zk_question *question)
{
        struct reading *reading = reading_of(question);
        char path[ZK_PATH_MAX];
        struct jute_out *out = zk_question_flight(question, NULL, 2 * ZK_REQUEST_ROOM);

        if (!out)
                return;
        free(reading->batches);
        reading->batches = NULL;
        reading->count = reading->read = 0;
        past_view_free(&reading->view);
        zk_path_of_own(question->zk, "past", path);
        zk_request(question->session, ZK_SYNC);
        jute_put_path(out, path);
        zk_request(question->session, ZK_GET_CHILDREN2);
        jute_put_path_watch(out, path, false);
        zk_question_send(question, take_batches, read_batches);
}

static void history_begin(struct zk_question *question)
{
        struct zk_past *past = question->zk->past;

        if (past->confirmed < reading_of(question)->noted && zk_now(question->zk) < reading_of(question)->until) {
                flush(past);
                zk_question_pause(question, OWN_WAIT * MS, zk_question_again);
                return;
        }
        if (zk_question_add_name(question, question->name) == PAWL_OK)
                zk_question_look(question);
        else
                zk_question_finish(question, PAWL_NO_MEMORY, NULL);
}

void zk_inspect_history(struct engine *engine, struct inquiry *inquiry)
{
        struct reading *reading = calloc(1, sizeof(*reading));
        struct zk_question *question;

        if (!reading) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        question = zk_question_new(engine, inquiry, history_begin);
        if (!question) {
                free(reading);
                return;
        }
        reading->noted = question->zk->past->noted;
        reading->until = zk_now(question->zk) + question->zk->timeout / 2;
        question->rest = reading;
        question->ended = reading_ended;
        question->looked = history_looked;
        zk_question_start(question);
}
