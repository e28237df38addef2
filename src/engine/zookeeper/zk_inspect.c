/* zk_inspect.c - list and show: lines are read as they stand, and judged by the rule by which claims judge
 * themselves. Here is also what every question does: it waits for a connection, sends one flight after the other,
 * and begins again if one is lost. */
#include "zk_inspect.h"

#include <stdlib.h>
#include <string.h>
#include <stdio.h>

enum { LINES_AT_ONCE = 64, DATA_AT_ONCE = 500, TRIES = 3 };

/* ---- questions ------------------------------------------------------------------------------------------------- */

static void forget_lines(struct zk_question *question)
{
        for (size_t i = 0; i < question->seen_count; i++)
                free(question->seen[i].child);
        question->seen_count = question->read = 0;
}

static void forget_names(struct zk_question *question)
{
        forget_lines(question);
        for (size_t i = 0; i < question->name_count; i++)
                free(question->names[i]);
        question->name_count = question->first = question->last = 0;
}

static void question_free(struct zk_question *question)
{
        if (question->session)
                zk_forget(question->session, &question->ask);
        if (question->ended)
                question->ended(question);
        loop_unset(question->zk->engine.host->loop, &question->timer);
        list_remove(&question->listed);
        forget_names(question);
        free(question->names);
        free(question->seen);
        free(question);
}

static const char in_doubt[] = "it was asked for, and no answer came: it may have been done";

void zk_question_finish(struct zk_question *question, int code, const char *why)
{
        struct inquiry *inquiry = question->inquiry;
        struct pawl_why kept; /* the sentence may be the question's own */

        if (question->doubtful && code != PAWL_OK) {
                code = PAWL_IN_DOUBT;
                why = in_doubt;
        }
        why_set(&kept, code, "%s", why ? why : "");
        question_free(question);
        inquiry->answered(inquiry, code, why ? kept.text : NULL);
}

void zk_question_fail(struct zk_question *question, int error)
{
        const char *sentence;
        int code = zk_error(error, &sentence);
        struct pawl_why why;

        why_set(&why, code, "%s: %s", question->zk->where, sentence);
        zk_question_finish(question, code, why.text);
}

struct zk_question *zk_question_new(struct engine *engine, struct inquiry *inquiry,
                                    void (*begin)(struct zk_question *question))
{
        struct zk *zk = zk_of(engine);
        struct zk_question *question = calloc(1, sizeof(*question));

        if (!question) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return NULL;
        }
        question->zk = zk;
        question->inquiry = inquiry;
        question->begin = begin;
        question->until = zk_inspect_until(zk);
        snprintf(question->name, sizeof(question->name), "%s", inquiry->name ? inquiry->name : "");
        list_init(&question->ask.listed);
        list_append(&zk->questions, &question->listed);
        return question;
}

void zk_question_start(struct zk_question *question)
{
        forget_names(question);
        question->waiting = zk_any_session(question->zk) == NULL;
        if (!question->waiting)
                question->begin(question);
}

void zk_question_again(struct timer *timer)
{
        zk_question_start(container_of(timer, struct zk_question, timer));
}

void zk_question_pause(struct zk_question *question, int64_t wait, void (*fire)(struct timer *))
{
        question->timer.fire = fire;
        if (loop_set(question->zk->engine.host->loop, &question->timer, zk_now(question->zk) + wait) != 0)
                zk_question_finish(question, PAWL_NO_MEMORY, NULL);
}

static void question_lost(struct zk_question *question)
{
        question->session = NULL;
        question->doubtful |= question->sent;
        if (question->over) {
                zk_question_finish(question, PAWL_OK, NULL);
        } else if (question->sent && !question->repeats) {
                zk_question_finish(question, PAWL_IN_DOUBT, NULL);
        } else { /* in a later turn: whoever tells us is busy with the connection */
                question->sent = false;
                zk_question_pause(question, 0, zk_question_again);
        }
}

static void question_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_question *question = container_of(ask, struct zk_question, ask);

        if (error == ZK_CONNECTION_LOSS) {
                question_lost(question);
                return;
        }
        question->take(question, question->answers++, error, reply);
        if (reply && reply->bad && question->code == PAWL_OK) {
                question->code = PAWL_CORRUPT;
                question->why = "the server's answer makes no sense";
        }
        if (ask->left > 0)
                return;
        question->session = NULL;
        if (question->code != PAWL_OK)
                zk_question_finish(question, question->code, question->why);
        else
                question->then(question);
}

struct jute_out *zk_question_flight(struct zk_question *question, struct zk_session *session, size_t room)
{
        question->session = session ? session : zk_any_session(question->zk);
        if (!question->session) {
                question_lost(question);
                return NULL;
        }
        zk_ask_init(&question->ask, question_answered);
        question->answers = 0;
        return zk_begin(question->session, &question->ask, room);
}

void zk_question_send(struct zk_question *question,
                      void (*take)(struct zk_question *question, size_t place, int error, struct jute_in *reply),
                      void (*then)(struct zk_question *question))
{
        int code;

        question->take = take;
        question->then = then;
        code = zk_send(question->session);
        if (code == PAWL_OK)
                return;
        question->session = NULL;
        question->sent = false;
        if (question->over || code != PAWL_NO_MEMORY)
                question_lost(question);
        else
                zk_question_finish(question, code, NULL);
}

void zk_inspect_up(struct zk *zk)
{
        struct list *next;

        for (struct list *at = zk->questions.next; at != &zk->questions; at = next) {
                struct zk_question *question = container_of(at, struct zk_question, listed);

                next = at->next;
                if (question->waiting)
                        zk_question_start(question);
        }
        zk_examine_up(zk);
}

/* A server that closes the connection is there, and may only be without a leader for a moment. */
bool zk_is_hopeless(const struct zk *zk, const struct pawl_why *why, size_t failures, int64_t until)
{
        size_t rounds = why->sys_errno ? 1 : 4;

        if (zk_is_final(why) || zk_now(zk) >= until)
                return true;
        return !zk->ever && failures >= rounds * zk->server_count;
}

void zk_inspect_down(struct zk *zk, const struct pawl_why *why)
{
        struct list *next;

        for (struct list *at = zk->questions.next; at != &zk->questions; at = next) {
                struct zk_question *question = container_of(at, struct zk_question, listed);

                next = at->next;
                if (question->waiting && zk_is_hopeless(zk, why, ++question->failures, question->until))
                        zk_question_finish(question, why->code, why->text);
        }
        zk_examine_down(zk, why);
}

void zk_inspect_free(struct zk *zk)
{
        while (!list_empty(&zk->questions))
                question_free(list_first(&zk->questions, struct zk_question, listed));
        zk_examine_free(zk);
}

static void inspect_forget(struct engine *engine, struct inquiry *inquiry)
{
        struct zk *zk = zk_of(engine);

        if (zk_examine_forget(zk, inquiry))
                return;
        for (struct list *at = zk->questions.next; at != &zk->questions; at = at->next) {
                struct zk_question *question = container_of(at, struct zk_question, listed);

                if (question->inquiry == inquiry) {
                        question_free(question);
                        return;
                }
        }
}

/* ---- reading lines --------------------------------------------------------------------------------------------- */

/* Room for one more of size bytes each. */
static bool make_room(void **things, size_t count, size_t *room, size_t size)
{
        size_t more = *room ? 2 * *room : 64;
        void *bigger;

        if (count < *room)
                return true;
        bigger = realloc(*things, more * size);
        if (!bigger)
                return false;
        *things = bigger;
        *room = more;
        return true;
}

int zk_question_add_name(struct zk_question *question, const char *name)
{
        void *names = question->names;
        bool fits = make_room(&names, question->name_count, &question->name_room, sizeof(char *));

        question->names = names;
        if (!fits || !(question->names[question->name_count] = strdup(name)))
                return PAWL_NO_MEMORY;
        question->name_count++;
        return PAWL_OK;
}

void zk_path_of_seen(const struct zk_question *question, const struct zk_seen *seen, char *path)
{
        const char *name = question->names[seen->line];
        size_t length;

        zk_path_of_name(question->zk, name, strlen(name), path);
        length = strlen(path);
        snprintf(path + length, ZK_PATH_MAX - length, "/%s", seen->child);
}

static void add_child(struct zk_question *question, struct jute_text child)
{
        struct zk_seen seen = {.line = question->first + question->answers - 2}; /* the first answer was sync's */
        uint64_t uid[2];
        void *all = question->seen;
        bool fits;

        seen.marker = zk_delay_is_marker(child);
        if (seen.marker ? !zk_delay_owner(child, uid) : !zk_node_read(child, &seen.node))
                return; /* claims pass over it, too */
        fits = make_room(&all, question->seen_count, &question->seen_room, sizeof(seen));
        question->seen = all;
        seen.child = fits ? strndup(child.at, child.length) : NULL;
        if (seen.child)
                question->seen[question->seen_count++] = seen;
        else
                question->code = PAWL_NO_MEMORY;
}

static void take_line(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        size_t count;

        if (place == 0)
                return; /* sync */
        if (error != ZK_OK) {
                if (error != ZK_NO_NODE && (error != ZK_NO_AUTH || question->name_count == 1)) /* of many, the others */
                        question->code = zk_error(error, &question->why);
                return;
        }
        count = jute_get_count(reply, 4);
        for (size_t i = 0; i < count && question->code == PAWL_OK; i++)
                add_child(question, jute_get_text(reply));
}

/* By their lines, then markers, then by their numbers. */
static int compare_seen(const void *a, const void *b)
{
        const struct zk_seen *one = a, *other = b;

        if (one->line != other->line)
                return one->line < other->line ? -1 : 1;
        if (one->marker != other->marker)
                return one->marker ? -1 : 1;
        return one->marker ? strcmp(one->child, other->child) : zk_number_order(one->node.number, other->node.number);
}

/* Does the marker's claim stand in the line? */
static bool has_claim(const struct zk_seen *marker, const struct zk_seen *line, size_t count)
{
        struct jute_text child = {.at = marker->child, .length = strlen(marker->child)};
        uint64_t uid[2];

        if (!zk_delay_owner(child, uid))
                return false;
        for (size_t i = 0; i < count; i++)
                if (!line[i].marker && line[i].node.contender.uid[0] == uid[0] &&
                    line[i].node.contender.uid[1] == uid[1])
                        return true;
        return false;
}

/* Judges one line of those that were seen: who of it holds? */
static int judge(struct zk_seen *line, size_t count)
{
        struct contender *contenders = malloc((count + 1) * sizeof(*contenders));
        size_t standing = 0, holding;

        if (!contenders)
                return PAWL_NO_MEMORY;
        for (size_t i = 0; i < count; i++) {
                if (!line[i].marker)
                        contenders[standing++] = line[i].node.contender;
                else
                        line[i].orphan = !has_claim(&line[i], line, count);
        }
        holding = line_holding(contenders, standing);
        free(contenders);
        for (size_t i = 0, place = 0; i < count; i++)
                if (!line[i].marker)
                        line[i].holds = place++ < holding;
        return PAWL_OK;
}

/* Where the line of the one at the place ends. */
static size_t end_of_line(const struct zk_question *question, size_t place)
{
        size_t end = place;

        while (end < question->seen_count && question->seen[end].line == question->seen[place].line)
                end++;
        return end;
}

static void read_data(struct zk_question *question);

static void lines_taken(struct zk_question *question)
{
        size_t end;

        if (question->seen_count)
                qsort(question->seen, question->seen_count, sizeof(*question->seen), compare_seen);
        for (size_t at = 0; at < question->seen_count; at = end) {
                end = end_of_line(question, at);
                if (judge(question->seen + at, end - at) != PAWL_OK) {
                        zk_question_finish(question, PAWL_NO_MEMORY, NULL);
                        return;
                }
        }
        read_data(question);
}

void zk_question_look(struct zk_question *question)
{
        char path[ZK_PATH_MAX];
        struct jute_out *out;

        forget_lines(question);
        question->last = question->first + LINES_AT_ONCE;
        if (question->last > question->name_count)
                question->last = question->name_count;
        out = zk_question_flight(question, NULL, (question->last - question->first + 1) * (ZK_PATH_MAX + 32));
        if (!out)
                return;
        /* Another server may know less than the one we heard of: it catches up first. */
        zk_request(question->session, ZK_SYNC);
        zk_path_of_name(question->zk, question->names[question->first], strlen(question->names[question->first]), path);
        jute_put_path(out, path);
        for (size_t i = question->first; i < question->last; i++) {
                zk_path_of_name(question->zk, question->names[i], strlen(question->names[i]), path);
                zk_request(question->session, ZK_GET_CHILDREN2);
                jute_put_path_watch(out, path, false);
        }
        zk_question_send(question, take_line, lines_taken);
}

/* ---- their data ------------------------------------------------------------------------------------------------ */

static bool is_read(const struct zk_question *question, const struct zk_seen *seen)
{
        return seen->marker ? seen->orphan : seen->holds || question->everyone;
}

/* Somebody else's data, as far as they can be printed. */
static void take_foreign(struct zk_seen *seen, struct jute_text data)
{
        size_t length = data.length < sizeof(seen->foreign) ? data.length : sizeof(seen->foreign) - 1;

        memcpy(seen->foreign, data.at, length);
        for (size_t i = 0; i < length; i++)
                if ((unsigned char)seen->foreign[i] < 0x20 || (unsigned char)seen->foreign[i] >= 0x7f)
                        seen->foreign[i] = '?';
        seen->foreign[length] = '\0';
        seen->curators =
                strstr(seen->child, "-lock-") || strstr(seen->child, "__READ__") || strstr(seen->child, "__WRIT__");
}

static void take_data(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct zk_seen *seen;
        struct jute_text data;
        struct zk_stat stat;
        int64_t from_ms;

        (void)place;
        while (!is_read(question, &question->seen[question->read]))
                question->read++;
        seen = &question->seen[question->read++];
        seen->there = error == ZK_OK || error == ZK_NO_AUTH;
        if (error == ZK_NO_AUTH) {
                strcpy(seen->foreign, "may not be read");
                return;
        }
        if (error != ZK_OK)
                return;
        jute_get_data(reply, &data, &stat);
        seen->czxid = stat.czxid;
        seen->ctime_ms = stat.ctime_ms;
        seen->ours = zk_record_read(data, &seen->record, &from_ms);
        if (!seen->ours)
                take_foreign(seen, data);
}

/* Have all that we took for holders been there? If not, others may hold by now. */
static bool is_settled(const struct zk_question *question)
{
        for (size_t i = 0; i < question->seen_count; i++)
                if (question->seen[i].holds && !question->seen[i].there)
                        return false;
        return true;
}

/* How long the lock-delay of an orphaned marker may still last. One that was made by a break began then; one that
 * its holder had made lasts as long as the holder's second session. */
static int64_t delay_left(const struct zk_seen *marker)
{
        int64_t delay = marker->ours ? marker->record.delay_ms : 1;
        int64_t left = marker->ctime_ms + delay - zk_wall_ms();

        return left > 0 && left < delay ? left : delay;
}

/* Of a line whose data were read. A lock-delay keeps everybody out, but for those who share it with the one who
 * died. */
struct line_view {
        size_t holders, waiters;
        int64_t delay_ms;
        bool shared_delay;
};

static struct line_view view_line(struct zk_seen *line, size_t count)
{
        struct line_view view = {0};

        for (size_t i = 0; i < count; i++)
                if (line[i].marker && line[i].orphan && line[i].there) {
                        int64_t left = delay_left(&line[i]);

                        view.delay_ms = left > view.delay_ms ? left : view.delay_ms;
                        view.shared_delay = line[i].ours && line[i].record.mode == PAWL_SHARED;
                }
        for (size_t i = 0; i < count; i++) {
                if (line[i].marker)
                        continue;
                if (line[i].ours && line[i].record.confirms && !line[i].record.holds)
                        line[i].holds = false; /* its turn, but it has not confirmed that */
                if (line[i].holds && view.delay_ms > 0 && !(view.shared_delay && line[i].node.contender.shared))
                        line[i].holds = false;
                if (line[i].holds)
                        view.holders += line[i].there;
                else
                        view.waiters++;
        }
        return view;
}

static void data_settled(struct zk_question *question)
{
        size_t end;

        for (size_t at = 0; at < question->seen_count; at = end) {
                end = end_of_line(question, at);
                view_line(question->seen + at, end - at);
        }
        question->looked(question);
}

static void data_taken(struct zk_question *question)
{
        if (question->read < question->seen_count)
                read_data(question);
        else if (!is_settled(question) && ++question->tries < TRIES)
                zk_question_look(question);
        else
                data_settled(question);
}

/* The next so many, in one flight. */
static void read_data(struct zk_question *question)
{
        size_t end = question->read, count = 0, room = 0;
        char path[ZK_PATH_MAX];
        struct jute_out *out;

        for (; end < question->seen_count && count < DATA_AT_ONCE; end++)
                if (is_read(question, &question->seen[end])) {
                        zk_path_of_seen(question, &question->seen[end], path);
                        room += strlen(path) + 32;
                        count++;
                }
        if (count == 0) {
                question->read = question->seen_count;
                data_taken(question);
                return;
        }
        out = zk_question_flight(question, NULL, room);
        if (!out)
                return;
        for (size_t i = question->read; i < end; i++)
                if (is_read(question, &question->seen[i])) {
                        zk_path_of_seen(question, &question->seen[i], path);
                        zk_request(question->session, ZK_GET_DATA);
                        jute_put_path_watch(out, path, false);
                }
        zk_question_send(question, take_data, data_taken);
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

static void tell(struct zk_question *question, const struct zk_seen *seen, uint32_t waiters)
{
        char owner[PAWL_OWNER_MAX + 1];
        struct pawl_entry entry = {.name = question->names[seen->line], .owner = owner, .note = "", .waiters = waiters};

        entry.role = seen->holds ? PAWL_ROLE_HOLDER : PAWL_ROLE_WAITER;
        entry.mode = seen->node.contender.shared ? PAWL_SHARED : PAWL_EXCLUSIVE;
        entry.max_holders = seen->node.contender.limit;
        entry.since_ms = seen->ctime_ms;
        if (seen->ours) {
                entry.owner = seen->record.owner;
                entry.note = seen->record.note;
                entry.since_ms = seen->record.since_ms;
                entry.flags = seen->record.detached ? PAWL_DETACH : 0;
                entry.age = seen->record.age;
                /* What is left of a lease that is renewed all the time nobody else knows: at most the whole of it. */
                entry.remaining_ms = seen->holds ? seen->record.ttl_ms : 0;
                entry.token = seen->holds ? zk_token(question->zk, seen->czxid) : 0;
        } else {
                snprintf(owner, sizeof(owner), "not pawl: %s", seen->foreign);
        }
        question->inquiry->entry(question->inquiry, &entry);
}

/* True if there was anything to tell. */
static bool tell_line(struct zk_question *question, struct zk_seen *line, size_t count)
{
        struct line_view view = view_line(line, count);
        uint32_t waiters = (uint32_t)view.waiters;

        for (size_t i = 0; i < count; i++)
                if (line[i].holds && line[i].there)
                        tell(question, &line[i], waiters);
        if (view.holders == 0 && (view.waiters > 0 || view.delay_ms > 0)) {
                struct pawl_entry entry = {.name = question->names[line->line],
                                           .role = PAWL_ROLE_FREE,
                                           .waiters = waiters,
                                           .remaining_ms = view.delay_ms,
                                           .owner = "",
                                           .note = ""};

                question->inquiry->entry(question->inquiry, &entry);
        }
        for (size_t i = 0; question->everyone && i < count; i++)
                if (!line[i].marker && !line[i].holds && line[i].there)
                        tell(question, &line[i], waiters);
        return view.holders || view.waiters || view.delay_ms;
}

static bool tell_lines(struct zk_question *question)
{
        bool found = false;
        size_t end;

        for (size_t at = 0; at < question->seen_count; at = end) {
                end = end_of_line(question, at);
                found = tell_line(question, question->seen + at, end - at) || found;
        }
        return found;
}

/* ---- show ------------------------------------------------------------------------------------------------------ */

static void show_looked(struct zk_question *question)
{
        bool found = tell_lines(question);

        zk_question_finish(question, found ? PAWL_OK : PAWL_NOT_FOUND, NULL);
}

static void show_begin(struct zk_question *question)
{
        question->looked = show_looked;
        question->everyone = true;
        if (zk_question_add_name(question, question->name) == PAWL_OK)
                zk_question_look(question);
        else
                zk_question_finish(question, PAWL_NO_MEMORY, NULL);
}

static void inspect_show(struct engine *engine, struct inquiry *inquiry)
{
        struct zk_question *question = zk_question_new(engine, inquiry, show_begin);

        if (question)
                zk_question_start(question);
}

/* ---- list ------------------------------------------------------------------------------------------------------ */

/* A lost connection begins with the first again: whom it has told of must not be told of twice. */
static void list_looked(struct zk_question *question)
{
        tell_lines(question);
        snprintf(question->name, sizeof(question->name), "%s", question->names[question->last - 1]);
        question->first = question->last;
        question->tries = 0;
        question->rest = question; /* something was told */
        if (question->first < question->name_count)
                zk_question_look(question);
        else
                zk_question_finish(question, PAWL_OK, NULL);
}

static bool is_wanted(const struct zk_question *question, const char *name)
{
        const char *prefix = question->inquiry->name ? question->inquiry->name : "";

        if (strncmp(name, prefix, strlen(prefix)) != 0)
                return false;
        return !question->rest || strcmp(name, question->name) > 0;
}

static void take_names(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        char name[PAWL_NAME_MAX + 1];
        size_t count, length;

        if (place == 0 || (error == ZK_NO_NODE && question->zk->make_chroot))
                return; /* sync, or it is made when it is needed */
        if (error != ZK_OK) {
                question->code = zk_error(error, &question->why);
                if (error == ZK_NO_NODE)
                        question->why = "the path of the URL is not there: run pawl init";
                return;
        }
        count = jute_get_count(reply, 4);
        for (size_t i = 0; i < count && question->code == PAWL_OK; i++) {
                struct jute_text child = jute_get_text(reply);

                if (name_decode(child.at, child.length, NULL, name, &length) == PAWL_OK && is_wanted(question, name))
                        question->code = zk_question_add_name(question, name);
        }
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_taken(struct zk_question *question)
{
        if (question->name_count == 0) {
                zk_question_finish(question, PAWL_OK, NULL);
                return;
        }
        qsort(question->names, question->name_count, sizeof(*question->names), compare_names);
        zk_question_look(question);
}

static void list_begin(struct zk_question *question)
{
        const char *path = *question->zk->chroot ? question->zk->chroot : "/";
        struct jute_out *out = zk_question_flight(question, NULL, 2 * ZK_REQUEST_ROOM);

        if (!out)
                return;
        zk_request(question->session, ZK_SYNC);
        jute_put_path(out, path);
        zk_request(question->session, ZK_GET_CHILDREN2);
        jute_put_path_watch(out, path, false);
        zk_question_send(question, take_names, names_taken);
}

static void inspect_list(struct engine *engine, struct inquiry *inquiry)
{
        struct zk_question *question = zk_question_new(engine, inquiry, list_begin);

        if (!question)
                return;
        question->looked = list_looked;
        zk_question_start(question);
}

const struct engine_inspect zk_inspect = {
        .list = inspect_list,
        .show = inspect_show,
        .history = zk_inspect_history,
        .break_ = zk_inspect_break,
        .ask = zk_inspect_ask,
        .examine = zk_inspect_examine,
        .init = zk_inspect_init,
        .forget = inspect_forget,
};
