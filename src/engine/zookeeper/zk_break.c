/* zk_break.c - cuts holders off, or asks them to let go. A holder hears of it by its client's mailbox (zk_news.c):
 * a break deletes its node and writes there in one transaction. Holders that are not ours have no mailbox: their
 * node is deleted, or, for one of Curator's, its data become what Curator's Revoker writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zk_inspect.h"

enum {
        AT_ONCE = 200,          /* holders in one transaction */
        MAIL_MAX = 32 << 10,    /* of a mailbox; the oldest lines go, which were read long ago */
        MAIL_LINE = 6 + 32 + 1, /* "break ", the claim's uid, a line's end */
        LOOK_AGAIN = 25,        /* ms: a mailbox that is not there yet */
        BREAK_PATIENCE = 2000   /* ms: how long a break waits for it */
};

struct mail {
        uint64_t client;
        int32_t version;
        bool there;
        bool detached; /* only of leases whose client may have gone */
        char *text;
        size_t size, room;
};

/* The rest of such a question. */
struct force {
        bool breaks;
        bool chosen;    /* who held when it was first looked: nobody who came later is cut off */
        bool others;    /* hold it at this look, chosen or not */
        uint64_t token; /* of the one that is meant; 0: all */
        char reason[PAWL_BREAK_REASON_MAX + 1];
        int64_t *czxids;
        size_t count;
        int64_t until; /* how long to wait for mailboxes */
        struct mail *mails;
        size_t mail_count;
        struct zk_session *delaying; /* of the marker that a lock-delay needs */
        bool marked;
        int64_t marked_at;
        bool retry;    /* something was changed by another: again */
        size_t asked;  /* or cut off */
        size_t unable; /* holders that cannot be asked */
};

static struct force *force_of(const struct zk_question *question)
{
        return question->rest;
}

static void forget_mails(struct force *force)
{
        for (size_t i = 0; i < force->mail_count; i++)
                free(force->mails[i].text);
        free(force->mails);
        force->mails = NULL;
        force->mail_count = 0;
}

/* With a node deleted under its protection the session of the marker lives on by itself; else it is closed and
 * takes the marker along. */
static void leave_marker(const struct zk_question *question)
{
        struct force *force = force_of(question);

        if (force->delaying && (question->sent || force->asked))
                zk_session_drop(force->delaying);
        else if (force->delaying)
                zk_session_unuse(force->delaying);
        force->delaying = NULL;
        force->marked = false;
}

static void force_ended(struct zk_question *question)
{
        struct force *force = force_of(question);

        forget_mails(force);
        leave_marker(question);
        free(force->czxids);
        free(force);
}

/* ---- who ------------------------------------------------------------------------------------------------------- */

static bool is_chosen(const struct force *force, const struct zk_seen *seen)
{
        if (!seen->holds || !seen->there)
                return false;
        for (size_t i = 0; i < force->count; i++)
                if (force->czxids[i] == seen->czxid)
                        return true;
        return false;
}

static bool is_meant(const struct zk_question *question, const struct zk_seen *seen)
{
        const struct force *force = force_of(question);

        return !force->token || zk_token(question->zk, seen->czxid) == force->token;
}

static int choose(struct zk_question *question)
{
        struct force *force = force_of(question);

        force->czxids = malloc((question->seen_count + 1) * sizeof(*force->czxids));
        if (!force->czxids)
                return PAWL_NO_MEMORY;
        for (size_t i = 0; i < question->seen_count; i++)
                if (question->seen[i].holds && question->seen[i].there && is_meant(question, &question->seen[i]))
                        force->czxids[force->count++] = question->seen[i].czxid;
        force->chosen = true;
        return PAWL_OK;
}

/* Leaves of those who were seen the next few who are to be told; the number of them. */
static size_t narrow(struct zk_question *question)
{
        struct force *force = force_of(question);
        size_t left = 0;

        force->others = false;
        for (size_t i = 0; i < question->seen_count; i++) {
                struct zk_seen *seen = &question->seen[i];

                force->others = force->others || (seen->holds && seen->there);
                seen->holds = left < AT_ONCE && is_chosen(force, seen);
                left += seen->holds;
        }
        return left;
}

/* ---- mailboxes ------------------------------------------------------------------------------------------------- */

static bool has_mailbox(const struct zk_question *question, const struct zk_seen *seen)
{
        return seen->holds && seen->ours && seen->record.client != question->zk->client;
}

static struct mail *mail_of(struct force *force, uint64_t client)
{
        for (size_t i = 0; i < force->mail_count; i++)
                if (force->mails[i].client == client)
                        return &force->mails[i];
        return NULL;
}

static int list_mails(struct zk_question *question)
{
        struct force *force = force_of(question);

        forget_mails(force);
        force->mails = calloc(AT_ONCE, sizeof(*force->mails));
        if (!force->mails)
                return PAWL_NO_MEMORY;
        for (size_t i = 0; i < question->seen_count; i++) {
                const struct zk_seen *seen = &question->seen[i];
                struct mail *mail;

                if (!has_mailbox(question, seen))
                        continue;
                mail = mail_of(force, seen->record.client);
                if (!mail) {
                        mail = &force->mails[force->mail_count++];
                        mail->client = seen->record.client;
                        mail->detached = true;
                }
                mail->detached = mail->detached && seen->record.detached;
        }
        return PAWL_OK;
}

static void path_of_mail(const struct zk_question *question, const struct mail *mail, char *path)
{
        char rest[32];

        snprintf(rest, sizeof(rest), "mail-%016llx", (unsigned long long)mail->client);
        zk_path_of_own(question->zk, rest, path);
}

static void take_mail(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct mail *mail = &force_of(question)->mails[place];
        struct jute_text text;
        struct zk_stat stat;

        if (error != ZK_OK) {
                if (error != ZK_NO_NODE)
                        question->code = zk_error(error, &question->why);
                return;
        }
        jute_get_data(reply, &text, &stat);
        mail->room = text.length + (AT_ONCE + 1) * MAIL_LINE + 1;
        mail->text = malloc(mail->room);
        if (!mail->text) {
                question->code = PAWL_NO_MEMORY;
                return;
        }
        memcpy(mail->text, text.at, text.length);
        mail->size = text.length;
        mail->version = stat.version;
        mail->there = true;
}

/* Some client that holds has no mailbox: it makes one soon after its grant. */
static bool is_early(const struct zk_question *question)
{
        const struct force *force = force_of(question);

        if (zk_now(question->zk) >= force->until)
                return false;
        for (size_t i = 0; i < force->mail_count; i++)
                if (!force->mails[i].there && !force->mails[i].detached)
                        return true;
        return false;
}

/* One more line, and if it is long its oldest ones go. */
static void write_mail(struct mail *mail, const char *word, const uint64_t uid[2])
{
        char *at, text[33];

        if (mail->size > MAIL_MAX) {
                size_t cut = mail->size - MAIL_MAX / 2;
                const char *line = memchr(mail->text + cut, '\n', mail->size - cut);

                cut = line ? (size_t)(line + 1 - mail->text) : mail->size;
                memmove(mail->text, mail->text + cut, mail->size - cut);
                mail->size -= cut;
        }
        uid_text(uid, text);
        at = mail->text + mail->size;
        mail->size += (size_t)snprintf(at, mail->room - mail->size, "%s %s\n", word, text);
}

static void write_mails(struct zk_question *question, const char *word)
{
        for (size_t i = 0; i < question->seen_count; i++) {
                const struct zk_seen *seen = &question->seen[i];
                struct mail *mail =
                        has_mailbox(question, seen) ? mail_of(force_of(question), seen->record.client) : NULL;

                if (mail && mail->there)
                        write_mail(mail, word, seen->node.contender.uid);
        }
}

static size_t room_for_all(const struct zk_question *question)
{
        const struct force *force = force_of(question);
        size_t room = 2 * ZK_REQUEST_ROOM;

        for (size_t i = 0; i < force->mail_count; i++)
                room += ZK_PATH_MAX + force->mails[i].size + 64;
        for (size_t i = 0; i < question->seen_count; i++)
                room += question->seen[i].holds ? ZK_PATH_MAX + 64 : 0;
        return room;
}

/* ---- break ----------------------------------------------------------------------------------------------------- */

/* What every claim of ours that was cut off leaves behind. */
static void note_past(struct zk_question *question, struct past *past)
{
        for (size_t i = 0; i < question->seen_count; i++) {
                const struct zk_seen *seen = &question->seen[i];
                struct past_line line = {.token = zk_token(question->zk, seen->czxid),
                                         .since_ms = seen->record.since_ms,
                                         .until_ms = zk_wall_ms(),
                                         .how = PAWL_HOW_BROKEN,
                                         .mode = seen->record.mode,
                                         .limit = seen->record.limit,
                                         .name = question->name,
                                         .owner = seen->record.owner,
                                         .note = seen->record.note};

                if (seen->holds && seen->ours)
                        past_note(past, &line);
        }
}

static void tell_own(struct zk_question *question)
{
        for (size_t i = 0; i < question->seen_count; i++) {
                const struct zk_seen *seen = &question->seen[i];
                struct zk_part *part = NULL;

                if (seen->holds && seen->ours && seen->record.client == question->zk->client)
                        part = zk_claim_find(question->zk, seen->node.contender.uid);
                if (part)
                        zk_claim_broken(part);
        }
}

static void take_nothing(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        (void)question, (void)place, (void)error, (void)reply;
}

/* Those who are left are the next few; or it is done. */
static void break_over(struct zk_question *question)
{
        if (force_of(question)->count <= AT_ONCE) {
                zk_question_finish(question, PAWL_OK, NULL);
                return;
        }
        question->sent = question->over = false;
        zk_question_start(question);
}

static void break_done(struct zk_question *question)
{
        struct past past;
        struct jute_out *out;
        char *text = NULL;
        size_t size;

        question->over = true;
        force_of(question)->asked++;
        past_init(&past);
        if (question->zk->history)
                note_past(question, &past);
        tell_own(question);
        text = past_write_broken(&past, question->zk->engine.host->owner, force_of(question)->reason, &size);
        past_free(&past);
        if (!text) {
                break_over(question);
                return;
        }
        out = zk_question_flight(question, NULL, size + ZK_OWN_ROOM + 2 * ZK_REQUEST_ROOM);
        if (out) { /* the holder may be gone, and may have written nothing that would have made the place for it */
                zk_request_above_past(question->session, out);
                zk_request_past(question->session, out, text, size);
                zk_question_send(question, take_nothing, break_over);
        }
        free(text);
}

static void take_break(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct force *force = force_of(question);

        (void)place;
        if (error == ZK_OK)
                error = jute_get_results(reply, NULL);
        force->retry = error == ZK_NO_NODE || error == ZK_BAD_VERSION;
        if (error != ZK_OK && !force->retry)
                question->code = zk_error(error, &question->why);
}

static void break_taken(struct zk_question *question)
{
        if (!force_of(question)->retry) {
                break_done(question);
                return;
        }
        question->sent = false; /* nothing was done: who let go meanwhile is not cut off, who stayed is */
        zk_question_start(question);
}

static void break_now(struct zk_question *question)
{
        struct force *force = force_of(question);
        struct jute_out *out;
        char path[ZK_PATH_MAX];

        write_mails(question, "break");
        out = zk_question_flight(question, NULL, room_for_all(question));
        if (!out)
                return;
        zk_request(question->session, ZK_MULTI);
        for (size_t i = 0; i < question->seen_count; i++)
                if (question->seen[i].holds) {
                        zk_path_of_seen(question, &question->seen[i], path);
                        jute_begin_op(out, ZK_DELETE);
                        jute_put_path_version(out, path, -1);
                }
        for (size_t i = 0; i < force->mail_count; i++)
                if (force->mails[i].there) {
                        path_of_mail(question, &force->mails[i], path);
                        jute_begin_op(out, ZK_SET_DATA);
                        jute_put_set_data(out, path, force->mails[i].text, force->mails[i].size,
                                          force->mails[i].version);
                }
        jute_end_ops(out);
        question->sent = true;
        zk_question_send(question, take_break, break_taken);
}

/* ---- a break with a lock-delay --------------------------------------------------------------------------------- */

/* The one among them whose lock-delay is the longest, or NULL: none has one. */
static const struct zk_seen *most_delayed(const struct zk_question *question)
{
        const struct zk_seen *most = NULL;

        for (size_t i = 0; i < question->seen_count; i++) {
                const struct zk_seen *seen = &question->seen[i];

                if (seen->holds && seen->ours && seen->record.delay_ms > (most ? most->record.delay_ms : 0))
                        most = seen;
        }
        return most;
}

static void take_marker(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct force *force = force_of(question);

        (void)place, (void)reply;
        force->marked = error == ZK_OK || error == ZK_NODE_EXISTS;
        force->marked_at = question->ask.sent_at;
        if (!force->marked && error != ZK_NO_NODE)
                question->code = zk_error(error, &question->why);
}

static void marker_taken(struct zk_question *question)
{
        if (force_of(question)->marked)
                break_now(question);
        else /* the line is gone, and with it who held */
                zk_question_start(question);
}

static void make_marker(struct zk_question *question, const struct zk_seen *holder)
{
        struct force *force = force_of(question);
        const struct record *record = &holder->record;
        struct claim claim = {.ttl = record->ttl_ms * MS,
                              .delay = record->delay_ms * MS,
                              .mode = record->mode,
                              .max_holders = record->limit,
                              .note = record->note};
        char path[ZK_PATH_MAX], data[RECORD_MAX + 1], guid[37];
        struct jute_out *out;
        uint64_t uid[2];
        size_t length, size;

        loop_random(question->zk->engine.host->loop, uid, sizeof(uid));
        zk_path_of_name(question->zk, question->name, strlen(question->name), path);
        length = strlen(path);
        zk_guid_write(uid, guid);
        snprintf(path + length, sizeof(path) - length, "/_d_%s", guid);
        size = record_write(&claim, record->client, record->owner, record->since_ms, false, data);
        out = zk_question_flight(question, force->delaying, ZK_REQUEST_ROOM);
        if (!out)
                return;
        zk_request(question->session, ZK_CREATE2);
        jute_put_create(out, path, data, size, question->zk->acl, ZK_EPHEMERAL);
        zk_question_send(question, take_marker, marker_taken);
}

/* Before its node is deleted something must keep the others out that does not depend on the holder: a marker on a
 * session as long as the delay, which nobody keeps alive. */
static void mark_first(struct zk_question *question, const struct zk_seen *holder)
{
        struct force *force = force_of(question);
        struct zk_session *session = force->delaying;

        if (!session)
                session = force->delaying = zk_session_find(question->zk, holder->record.delay_ms * MS, ZK_OWN);
        if (!session)
                zk_question_finish(question, PAWL_NO_MEMORY, NULL);
        else if (session->state == ZK_CONNECTED)
                make_marker(question, holder);
        else if (zk_is_final(&session->why) || zk_now(question->zk) >= question->until)
                zk_question_finish(question, session->why.code ? session->why.code : PAWL_UNREACHABLE,
                                   session->why.text);
        else
                zk_question_pause(question, LOOK_AGAIN * MS, zk_question_again);
}

/* ---- ask ------------------------------------------------------------------------------------------------------- */

static void take_ask(struct zk_question *question, size_t place, int error, struct jute_in *reply)
{
        struct force *force = force_of(question);

        (void)place, (void)reply;
        if (error == ZK_BAD_VERSION)
                force->retry = true;
        else if (error == ZK_OK || error == ZK_NO_NODE) /* who has let go was in time */
                force->asked++;
        else
                question->code = zk_error(error, &question->why);
}

static void ask_taken(struct zk_question *question)
{
        struct force *force = force_of(question);

        if (force->retry) /* asking twice does no harm */
                zk_question_start(question);
        else if (force->asked)
                zk_question_finish(question, PAWL_OK, NULL);
        else if (force->unable)
                zk_question_finish(question, PAWL_UNSUPPORTED,
                                   "the holder is not one of pawl's or Curator's: it does not listen");
        else
                zk_question_finish(question, PAWL_UNREACHABLE, "the holder's client does not listen: it may be stuck");
}

static void ask_own(struct zk_question *question)
{
        struct force *force = force_of(question);

        for (size_t i = 0; i < question->seen_count; i++) {
                const struct zk_seen *seen = &question->seen[i];
                struct zk_part *part;

                if (!seen->holds || !seen->ours || seen->record.client != question->zk->client)
                        continue;
                force->asked++;
                part = zk_claim_find(question->zk, seen->node.contender.uid);
                if (part && part->state == ZK_HELD)
                        zk_claim_asked(part);
        }
}

/* Requests for those who are not ours; how many. */
static size_t ask_foreign(struct zk_question *question, struct jute_out *out)
{
        char path[ZK_PATH_MAX];
        size_t count = 0;

        for (size_t i = 0; i < question->seen_count; i++) {
                const struct zk_seen *seen = &question->seen[i];

                if (!seen->holds || seen->ours)
                        continue;
                if (!seen->curators) {
                        force_of(question)->unable++;
                        continue;
                }
                zk_path_of_seen(question, seen, path);
                zk_request(question->session, ZK_SET_DATA);
                jute_put_set_data(out, path, "__REVOKE__", 10, -1);
                count++;
        }
        return count;
}

static size_t ask_mails(struct zk_question *question, struct jute_out *out)
{
        struct force *force = force_of(question);
        char path[ZK_PATH_MAX];
        size_t count = 0;

        for (size_t i = 0; i < force->mail_count; i++) {
                const struct mail *mail = &force->mails[i];

                if (!mail->there) {
                        force->asked += mail->detached; /* nobody is there to be asked */
                        continue;
                }
                path_of_mail(question, mail, path);
                zk_request(question->session, ZK_SET_DATA);
                jute_put_set_data(out, path, mail->text, mail->size, mail->version);
                count++;
        }
        return count;
}

static void ask_now(struct zk_question *question)
{
        struct force *force = force_of(question);
        struct jute_out *out;

        force->retry = false;
        force->asked = force->unable = 0;
        write_mails(question, "ask");
        ask_own(question);
        out = zk_question_flight(question, NULL, room_for_all(question));
        if (!out)
                return;
        if (ask_mails(question, out) + ask_foreign(question, out) > 0) {
                zk_question_send(question, take_ask, ask_taken);
        } else { /* a flight needs a request */
                zk_request(question->session, ZK_EXISTS);
                jute_put_path_watch(out, "/", false);
                zk_question_send(question, take_nothing, ask_taken);
        }
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static void mails_taken(struct zk_question *question)
{
        const struct zk_seen *delayed;

        if (is_early(question)) {
                zk_question_pause(question, LOOK_AGAIN * MS, zk_question_again);
                return;
        }
        if (!force_of(question)->breaks) {
                ask_now(question);
                return;
        }
        delayed = most_delayed(question);
        /* Its session is kept alive by nobody: one that was made a while ago may not last. */
        if (force_of(question)->marked &&
            zk_now(question->zk) - force_of(question)->marked_at > question->zk->slack / 2)
                leave_marker(question);
        if (delayed && !force_of(question)->marked)
                mark_first(question, delayed);
        else
                break_now(question);
}

static void force_looked(struct zk_question *question)
{
        struct force *force = force_of(question);
        char path[ZK_PATH_MAX];
        struct jute_out *out;

        if (!force->chosen && choose(question) != PAWL_OK) {
                zk_question_finish(question, PAWL_NO_MEMORY, NULL);
                return;
        }
        if (narrow(question) == 0) {
                zk_question_finish(question,
                                   force->breaks && force->asked   ? PAWL_OK
                                   : force->token && force->others ? PAWL_BUSY
                                                                   : PAWL_NOT_FOUND,
                                   NULL);
                return;
        }
        if (list_mails(question) != PAWL_OK) {
                zk_question_finish(question, PAWL_NO_MEMORY, NULL);
                return;
        }
        if (force->mail_count == 0) {
                mails_taken(question);
                return;
        }
        out = zk_question_flight(question, NULL, force->mail_count * ZK_REQUEST_ROOM);
        if (!out)
                return;
        for (size_t i = 0; i < force->mail_count; i++) {
                path_of_mail(question, &force->mails[i], path);
                zk_request(question->session, ZK_GET_DATA);
                jute_put_path_watch(out, path, false);
        }
        zk_question_send(question, take_mail, mails_taken);
}

static void force_begin(struct zk_question *question)
{
        if (zk_question_add_name(question, question->name) == PAWL_OK)
                zk_question_look(question);
        else
                zk_question_finish(question, PAWL_NO_MEMORY, NULL);
}

static void force_inquire(struct engine *engine, struct inquiry *inquiry, bool breaks)
{
        struct force *force = calloc(1, sizeof(*force));
        struct zk_question *question;

        if (!force) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        question = zk_question_new(engine, inquiry, force_begin);
        if (!question) {
                free(force);
                return;
        }
        force->breaks = breaks;
        force->token = inquiry->token;
        snprintf(force->reason, sizeof(force->reason), "%s", inquiry->reason ? inquiry->reason : "");
        force->until = breaks ? zk_now(question->zk) + BREAK_PATIENCE * MS : zk_inspect_until(question->zk);
        question->rest = force;
        question->ended = force_ended;
        question->looked = force_looked;
        zk_question_start(question);
}

void zk_inspect_break(struct engine *engine, struct inquiry *inquiry)
{
        force_inquire(engine, inquiry, true);
}

void zk_inspect_ask(struct engine *engine, struct inquiry *inquiry)
{
        force_inquire(engine, inquiry, false);
}
