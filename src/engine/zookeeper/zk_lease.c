/* zk_lease.c - leases that outlive their process, as words: z1.SESSION.PASSWORD.UID.TTL.NAME. A detached claim has
 * a session of its own, which nobody keeps alive and nobody closes: it ends with its time. SESSION and PASSWORD
 * take it up again, UID finds the claim's node, and NAME is in base64url. Whoever knows the word may renew and
 * release; nobody can guess it.
 *
 * To take a session up again is to extend it, so the lease itself is counted from when its node was last written,
 * by the clock of the servers: a node that is made for a moment tells what it says now. A word is looked at on
 * another session first, so that one that is wrong does not touch the lease.
 *
 * Who takes a lease up writes its own name into the node, which is no renewal: a second line says from when the lease
 * counts, until the next renewal writes the node without it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/base64.h"
#include "../session/words.h"
#include "zk_inspect.h"

/* ---- words ----------------------------------------------------------------------------------------------------- */

struct word {
        int64_t session;
        char password[ZK_PASSWORD_SIZE];
        uint64_t uid[2];
        int64_t ttl;
        char name[PAWL_NAME_MAX + 1];
};

static int write_word(struct engine *engine, const struct claim *claim, char *text, size_t size)
{
        const struct zk_part *part = zk_part_of(claim);
        char name[BASE64_SIZE(PAWL_NAME_MAX)], uid[33], password[33];
        uint64_t halves[2];
        int length;

        (void)engine;
        if (part->state != ZK_HELD || !claim->detached)
                return PAWL_MISUSE;
        memcpy(halves, part->session->password, sizeof(halves));
        uid_text(halves, password);
        uid_text(claim->uid, uid);
        base64_encode(claim->name, claim->name_length, name);
        length = snprintf(text, size, "z1.%016llx.%s.%s.%lld.%s", (unsigned long long)part->session->id, password, uid,
                          (long long)(claim->ttl / MS), name);
        return length > 0 && (size_t)length < size ? PAWL_OK : PAWL_INVALID;
}

static bool read_session(const char *text, int64_t *session)
{
        char *end;

        if (strspn(text, "0123456789abcdef") != 16)
                return false;
        *session = (int64_t)strtoull(text, &end, 16);
        return *end == '.' && *session != 0;
}

static bool parse(const char *text, struct word *word)
{
        enum { SESSION = 3, PASSWORD = SESSION + 17, UID = PASSWORD + 33, TTL = UID + 33 };
        uint64_t halves[2];
        char *end;

        if (strncmp(text, "z1.", SESSION) != 0 || strlen(text) < TTL + 3 ||
            !read_session(text + SESSION, &word->session) || !uid_read(text + PASSWORD, halves) ||
            text[UID - 1] != '.' || !uid_read(text + UID, word->uid) || text[TTL - 1] != '.' || text[TTL] < '1' ||
            text[TTL] > '9')
                return false;
        memcpy(word->password, halves, sizeof(word->password));
        word->ttl = strtoll(text + TTL, &end, 10);
        if (*end != '.' || end - (text + TTL) > 12)
                return false;
        word->ttl *= MS;
        return base64_decode(end + 1, word->name, PAWL_NAME_MAX);
}

static int read_word(struct engine *engine, const char *text, char *name, int64_t *ttl, struct pawl_why *why)
{
        struct word word;
        size_t length;

        (void)engine;
        if (!parse(text, &word) || name_check(word.name, &length, NULL) != PAWL_OK || word.ttl < 50 * MS)
                return why_set(why, PAWL_INVALID, "that is not a lease of this engine");
        strcpy(name, word.name);
        *ttl = word.ttl;
        return PAWL_OK;
}

/* ---- what its node says ---------------------------------------------------------------------------------------- */

bool zk_record_read(struct jute_text data, struct record *record, int64_t *from_ms)
{
        const char *second = memchr(data.at, '\n', data.length), *end = data.at + data.length;
        struct words words = {.at = second ? second + 1 : NULL, .end = end};
        uint64_t from = 0;

        if (second &&
            (!words_is(&words, "from") || !words_number(&words, 10, INT64_MAX / MS, &from) || !words_end(&words)))
                return false;
        *from_ms = (int64_t)from;
        return record_read(data.at, (size_t)((second ? second : end) - data.at), record);
}

/* Ours from now on, unless it was written since it was read. */
static void put_taken(struct zk_part *part, struct jute_out *out, const struct zk_adopted *adopted)
{
        const struct zk *zk = part->zk;
        char path[ZK_PATH_MAX], data[RECORD_MAX + 1 + 32];
        size_t length = record_write(part->claim, zk->client, zk->engine.host->owner, part->since_ms, true, data);

        length += (size_t)snprintf(data + length, 32, "\nfrom %lld", (long long)adopted->from_ms);
        zk_path_of_part(part, path);
        zk_request(part->session, ZK_SET_DATA);
        jute_put_set_data(out, path, data, length, adopted->version);
}

/* ---- taking one up --------------------------------------------------------------------------------------------- */

static struct zk_part *part_of_ask(struct zk_ask *ask)
{
        return container_of(ask, struct zk_part, ask);
}

static void refuse_over(struct zk_part *part)
{
        zk_claim_refuse(part, PAWL_LOST, "the lease is over: it ran out, or was released or broken");
}

static void refuse_error(struct zk_part *part, int error)
{
        const char *sentence;
        int code = zk_error(error, &sentence);

        zk_claim_refuse(part, code, sentence);
}

/* True, and it is refused or parked, if what it asked for was not answered as it should be. */
static bool is_refused(struct zk_part *part, int error)
{
        if (error == ZK_CONNECTION_LOSS)
                zk_claim_park(part, ZK_ADOPTING);
        else if (part->cancelled)
                zk_claim_refuse(part, PAWL_CANCELLED, NULL);
        else if (error == ZK_NO_NODE)
                refuse_over(part);
        else if (error != ZK_OK)
                refuse_error(part, error);
        else
                return false;
        return true;
}

static void send(struct zk_part *part)
{
        int code = zk_send(part->session);

        if (code == PAWL_UNREACHABLE)
                zk_claim_park(part, ZK_ADOPTING);
        else if (code != PAWL_OK)
                zk_claim_refuse(part, code, NULL); /* the lease is as it was */
}

/* ---- first: is there such a node? ------------------------------------------------------------------------------ */

/* The session is the lease's own now. It is not closed by who takes it up in vain. */
static void resume(struct zk_part *part, const struct zk_adopted *adopted)
{
        zk_session_unuse(part->session);
        part->session = zk_session_resume(part->zk, adopted->session, adopted->password, part->claim->ttl);
        if (!part->session) {
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
                return;
        }
        part->session->dropped = true;
        zk_claim_park(part, ZK_ADOPTING);
}

static void node_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);
        struct zk_adopted *adopted;
        struct jute_text data;
        struct zk_stat stat;
        int64_t from_ms;

        if (is_refused(part, error))
                return;
        adopted = zk_past_adopted(part->zk, part);
        jute_get_data(reply, &data, &stat);
        if (!zk_record_read(data, &adopted->record, &from_ms) || stat.owner != adopted->session ||
            adopted->record.ttl_ms != part->claim->ttl / MS || !adopted->record.detached) {
                refuse_over(part);
                return;
        }
        /* The claim is what the lease is, not what its taker asks for. */
        part->claim->mode = adopted->record.mode;
        part->claim->max_holders = adopted->record.limit;
        part->claim->delay = adopted->record.delay_ms * MS;
        if (part->claim->age == 0)
                part->claim->age = adopted->record.age;
        part->since_ms = adopted->record.since_ms;
        part->token = stat.czxid;
        resume(part, adopted);
}

/* Its number, if its node is among them. */
static bool find_child(const struct zk_part *part, struct jute_in *children, struct jute_text *child, int32_t *number)
{
        size_t count = jute_get_count(children, 4);
        struct zk_node node;

        for (size_t i = 0; i < count; i++) {
                *child = jute_get_text(children);
                if (zk_node_read(*child, &node) && node.contender.uid[0] == part->claim->uid[0] &&
                    node.contender.uid[1] == part->claim->uid[1]) {
                        *number = node.number;
                        return true;
                }
        }
        return false;
}

static void children_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);
        struct jute_text child;
        char path[ZK_PATH_MAX];
        struct jute_out *out;
        size_t length;

        if (ask->left > 0)
                return; /* sync */
        if (is_refused(part, error))
                return;
        if (!find_child(part, reply, &child, &part->number)) {
                refuse_over(part);
                return;
        }
        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        length = strlen(path);
        snprintf(path + length, sizeof(path) - length, "/%.*s", (int)child.length, child.at);
        zk_ask_init(&part->ask, node_answered);
        out = zk_begin(part->session, &part->ask, ZK_REQUEST_ROOM);
        zk_request(part->session, ZK_GET_DATA);
        jute_put_path_watch(out, path, false);
        send(part);
}

static void look_for(struct zk_part *part)
{
        struct zk_session *session = part->session;
        char path[ZK_PATH_MAX];
        struct jute_out *out;

        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        zk_ask_init(&part->ask, children_answered);
        out = zk_begin(session, &part->ask, 2 * ZK_REQUEST_ROOM);
        zk_request(session, ZK_SYNC);
        jute_put_path(out, path);
        zk_request(session, ZK_GET_CHILDREN2);
        jute_put_path_watch(out, path, false);
        send(part);
}

/* ---- then: its session, and how old it is ---------------------------------------------------------------------- */

static void ask_age(struct zk_part *part);

static void taken(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);
        struct zk_session *session = part->session;

        (void)reply;
        if (error == ZK_BAD_VERSION && !part->cancelled) {
                ask_age(part); /* it was renewed meanwhile, or taken up by another */
                return;
        }
        if (is_refused(part, error))
                return;
        session->dropped = false;
        session->time.extended_at = zk_past_adopted(part->zk, part)->counts_from;
        session->time.length = part->claim->ttl;
        part->made = true;
        zk_claim_grant(part);
}

/* The node is there and the session is ours. Its lease counts from when the node was last written by who held it, in whole
 * milliseconds: it may be one older or younger. One that is surely over was kept by our touching its session: that is
 * closed, and the lock is free. */
static void take_up(struct zk_part *part, struct zk_adopted *adopted)
{
        int64_t age = adopted->now_ms > adopted->from_ms ? (adopted->now_ms - adopted->from_ms) * MS : 0;

        if (age + MS >= part->claim->ttl) {
                part->session->dropped = age - MS < part->claim->ttl;
                refuse_over(part);
                return;
        }
        adopted->counts_from = part->ask.sent_at - age - MS;
        zk_ask_init(&part->ask, taken);
        put_taken(part, zk_begin(part->session, &part->ask, ZK_REQUEST_ROOM), adopted);
        send(part);
}

/* The last answers are to: make a node, delete it, read ours. */
static void clock_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = part_of_ask(ask);
        struct zk_adopted *adopted = zk_past_adopted(part->zk, part);
        struct record record;
        struct jute_text text;
        struct zk_stat stat;

        if (error == ZK_CONNECTION_LOSS) {
                zk_claim_park(part, ZK_ADOPTING);
                return;
        }
        if (ask->left == 2 && error == ZK_OK) {
                jute_get_created(reply, &text, &stat);
                adopted->now_ms = stat.ctime_ms;
        }
        if (ask->left > 0 || is_refused(part, error))
                return;
        if (adopted->now_ms == 0 && !adopted->missing) { /* nobody needed .pawl yet */
                adopted->missing = true;
                ask_age(part);
                return;
        }
        if (adopted->now_ms == 0) /* it cannot be made: by our own clock, then */
                adopted->now_ms = zk_wall_ms();
        jute_get_data(reply, &text, &stat);
        if (stat.owner != part->session->id || !zk_record_read(text, &record, &adopted->from_ms)) {
                refuse_over(part);
                return;
        }
        if (adopted->from_ms == 0)
                adopted->from_ms = stat.mtime_ms;
        adopted->version = stat.version;
        take_up(part, adopted);
}

static void ask_age(struct zk_part *part)
{
        struct zk_session *session = part->session;
        struct zk_adopted *adopted = zk_past_adopted(part->zk, part);
        char path[ZK_PATH_MAX], rest[48] = "clock-";
        struct jute_out *out;

        adopted->now_ms = 0;
        uid_text(part->claim->uid, rest + strlen(rest));
        zk_path_of_own(part->zk, rest, path);
        zk_ask_init(&part->ask, clock_answered);
        out = zk_begin(session, &part->ask, ZK_OWN_ROOM + 3 * ZK_REQUEST_ROOM);
        if (adopted->missing)
                zk_request_own(session, out);
        zk_request(session, ZK_CREATE2);
        jute_put_create(out, path, "", 0, part->zk->acl, ZK_EPHEMERAL);
        zk_request(session, ZK_DELETE);
        jute_put_path_version(out, path, -1);
        zk_path_of_part(part, path);
        zk_request(session, ZK_GET_DATA);
        jute_put_path_watch(out, path, false);
        send(part);
}

void zk_lease_ask(struct zk_part *part)
{
        if (!zk_past_adopted(part->zk, part))
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
        else if (part->session->kind == ZK_OWN)
                ask_age(part);
        else
                look_for(part);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static void adopt(struct engine *engine, struct claim *claim, const char *text)
{
        const struct engine_host *host = engine->host;
        struct zk_part *part = zk_part_of(claim);
        struct zk *zk = zk_of(engine);
        struct zk_adopted *adopted;
        struct word word;

        if (!parse(text, &word) || strcmp(word.name, claim->name) != 0) {
                host->events->refused(host->core, claim, PAWL_LOST, NULL);
                return;
        }
        memcpy(claim->uid, word.uid, sizeof(word.uid));
        zk_claim_know(zk, claim);
        adopted = zk_past_adopt(zk, part);
        part->session = adopted ? zk_session_find(zk, claim->ttl, ZK_SHARED) : NULL;
        if (!part->session) {
                zk_claim_refuse(part, PAWL_NO_MEMORY, NULL);
                return;
        }
        adopted->session = word.session;
        memcpy(adopted->password, word.password, sizeof(word.password));
        zk_claim_park(part, ZK_ADOPTING);
        if (part->session->state == ZK_CONNECTED) {
                list_remove(&part->listed);
                part->state = ZK_ADOPTING;
                zk_lease_ask(part);
        }
}

static void forget(struct engine *engine, struct claim *claim)
{
        struct zk_part *part = zk_part_of(claim);

        (void)engine;
        if (part->session)
                part->session->dropped = true; /* it is let go of, not closed */
        zk_claim_forget(part);
}

const struct engine_leases zk_leases = {
        .word = write_word,
        .read = read_word,
        .adopt = adopt,
        .forget = forget,
};
