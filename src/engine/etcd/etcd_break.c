/* etcd_break.c - break and ask. Both read the line, and then write to its holders: each key in one transaction with
 * the mail that tells its owner, if the key is still the one that was read. If it is not, the line is read again; who
 * came to hold since is left alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd_inspect.h"

/* A transaction has 128 operations at most; of each holder there are four. */
enum { AT_ONCE = 24, OPS = 4 * AT_ONCE + 1, READS_MAX = 16 };

struct etcd_break {
        bool breaks;      /* else it asks */
        size_t at, count; /* of the holders: those in the transaction under way */
        size_t done;
        unsigned reads;
        uint64_t token; /* of the one that is meant; 0: all who held at first */
        uint64_t upto;  /* the latest of those */
        int64_t lease;  /* for the lock-delay; 0: none */
        int64_t delay_s;
        struct etcd_batch batch; /* that they were broken, for the history */
        char reason[PAWL_BREAK_REASON_MAX + 1];
        uint64_t marker[2]; /* the uid of the lock-delay that the break leaves */
        size_t op_count, compare_count;
        Pb__Compare compares[AT_ONCE], *compare_list[AT_ONCE];
        Pb__RequestOp ops[OPS], *op_list[OPS];
        Pb__PutRequest puts[OPS];
        Pb__DeleteRangeRequest deletes[OPS];
        char keys[OPS][ETCD_KEY_MAX];
};

void break_free(struct etcd_break *acting)
{
        if (acting)
                free(acting->batch.text);
        free(acting);
}

static const struct seen *holder(const struct question *question, size_t number)
{
        return &question->view.seen[question->view.lines[0].first + number];
}

/* ---- the transaction --------------------------------------------------------------------------------------------- */

static Pb__RequestOp *add_op(struct etcd_break *acting, Pb__RequestOp__RequestCase what)
{
        Pb__RequestOp *op = &acting->ops[acting->op_count];

        pb__request_op__init(op);
        op->request_case = what;
        acting->op_list[acting->op_count] = op;
        return op;
}

/* The key is in acting->keys[acting->op_count]. */
static void add_delete(struct etcd_break *acting, size_t length)
{
        Pb__DeleteRangeRequest *request = &acting->deletes[acting->op_count];

        pb__delete_range_request__init(request);
        request->key = bytes_of(acting->keys[acting->op_count], length);
        add_op(acting, PB__REQUEST_OP__REQUEST_DELETE_RANGE)->delete_range = request;
        acting->op_count++;
}

static void add_put(struct etcd_break *acting, size_t length, const char *value, int64_t lease)
{
        Pb__PutRequest *put = &acting->puts[acting->op_count];

        pb__put_request__init(put);
        put->key = bytes_of(acting->keys[acting->op_count], length);
        put->value = bytes_of((char *)(uintptr_t)value, strlen(value));
        put->lease = lease;
        add_op(acting, PB__REQUEST_OP__REQUEST_PUT)->put = put;
        acting->op_count++;
}

static size_t key_of_seen(const struct question *question, const struct seen *seen, char *key)
{
        size_t length = key_of_line(question->etcd, question->name, question->name_length, key);

        memcpy(key + length, seen->rest, seen->rest_length);
        return length + seen->rest_length;
}

/* If it is still the key that was read. The room of its key is that of the operation to come. */
static void compare(struct etcd_break *acting, char *key, size_t length, const struct seen *seen)
{
        Pb__Compare *compare = &acting->compares[acting->compare_count];

        pb__compare__init(compare);
        compare->target = PB__COMPARE_TARGET__IF_CREATE;
        compare->result = PB__COMPARE_RESULT__EQUAL;
        compare->with_case = PB__COMPARE__WITH_CREATE_REVISION;
        compare->create_revision = (int64_t)seen->contender.order;
        compare->key = bytes_of(key, length);
        acting->compare_list[acting->compare_count++] = compare;
}

/* On the lease of the lock: what nobody reads goes with it. */
static void add_mail(const struct question *question, const struct seen *seen, const char *word)
{
        struct etcd_break *acting = question->acting;
        char *key = acting->keys[acting->op_count];
        size_t length;

        if (!seen->ours)
                return;
        length = key_of_mail(question->etcd, seen->record.client, key);
        length = (size_t)(uid_put(key + length, seen->contender.uid) - key);
        add_put(acting, length, word, seen->lease);
}

static size_t key_of_delay(const struct question *question, const uint64_t uid[2], char *key)
{
        size_t length = key_of_markers(question->etcd, question->name, question->name_length, key);

        return (size_t)(uid_put(key + length, uid) - key);
}

static void add_break(const struct question *question, const struct seen *seen)
{
        struct etcd_break *acting = question->acting;
        char *key = acting->keys[acting->op_count];
        size_t length = key_of_seen(question, seen, key);

        compare(acting, key, length, seen);
        add_delete(acting, length);
        add_mail(question, seen, "broken");
        if (seen->ours && seen->record.delay_ms > 0) /* ours stands in its place, and from now on */
                add_delete(acting, key_of_delay(question, seen->contender.uid, acting->keys[acting->op_count]));
}

static void add_ask(const struct question *question, const struct seen *seen, char *key)
{
        compare(question->acting, key, key_of_seen(question, seen, key), seen);
        add_mail(question, seen, "asked");
}

static void add_rest(const struct question *question)
{
        struct etcd_break *acting = question->acting;
        char *key = acting->keys[acting->op_count];

        if (acting->lease)
                add_put(acting, key_of_delay(question, acting->marker, key), "", acting->lease);
        if (acting->batch.text) {
                Pb__PutRequest *put = &acting->puts[acting->op_count];

                add_put(acting, 0, "", 0);
                put->key = bytes_of(acting->batch.key, acting->batch.key_length);
                put->value = bytes_of(acting->batch.text, acting->batch.size);
        }
}

static void write_act(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct question *question = container_of(ask, struct question, ask);
        struct etcd_break *acting = question->acting;
        Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;

        acting->op_count = acting->compare_count = 0;
        for (size_t i = acting->at; i < acting->at + acting->count; i++) {
                const struct seen *seen = holder(question, i);

                if (acting->breaks)
                        add_break(question, seen);
                else if (seen->ours)
                        add_ask(question, seen, acting->keys[OPS - 1 - (i - acting->at)]);
        }
        if (acting->breaks)
                add_rest(question);
        txn.compare = acting->compare_list;
        txn.n_compare = acting->compare_count;
        txn.success = acting->op_list;
        txn.n_success = acting->op_count;
        grpc_write(out, &txn.base);
}

static void acted(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why);

static const struct etcd_method act_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_act,
        .answered = acted,
};

/* ---- one after the other ----------------------------------------------------------------------------------------- */

/* With a lease of its own: the lock-delay counts from the delete. */
static void read_again(struct question *question)
{
        question->acting->lease = 0;
        view_free(&question->view);
        view_read(question);
}

static void remember_broken(struct question *question)
{
        struct etcd_break *acting = question->acting;
        struct etcd *etcd = question->etcd;
        struct past past;

        free(acting->batch.text);
        acting->batch.text = NULL;
        if (!etcd->history)
                return;
        past_init(&past);
        for (size_t i = acting->at; i < acting->at + acting->count; i++) {
                const struct seen *seen = holder(question, i);
                struct past_line line = {.token = etcd_token(etcd, seen->contender.order),
                                         .how = PAWL_HOW_BROKEN,
                                         .since_ms = seen->record.since_ms,
                                         .until_ms = etcd_unix_ms(),
                                         .mode = seen->record.mode,
                                         .limit = seen->record.limit,
                                         .name = question->name,
                                         .owner = seen->record.owner,
                                         .note = seen->record.note};

                if (seen->ours)
                        past_note(&past, &line);
        }
        batch_make_broken(etcd, &past, acting->reason, &acting->batch);
        past_free(&past);
}

static void act(struct question *question)
{
        struct etcd_break *acting = question->acting;
        size_t left = question->view.lines[0].holders - acting->at;

        acting->count = left < AT_ONCE ? left : AT_ONCE;
        if (acting->breaks)
                remember_broken(question);
        question_ask(question, &act_method);
}

static const char doubt[] = "it was asked for, and no answer came: it may have been done";

static void acted(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct question *question = container_of(ask, struct question, ask);
        struct etcd_break *acting = question->acting;
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;
        bool perhaps = ask->tries > 1;

        if (!reply) {
                bool sent = ask->tries > 0 && (why->code == PAWL_UNREACHABLE || why->code == PAWL_IN_DOUBT);

                question_finish(question, sent && acting->breaks ? PAWL_IN_DOUBT : why->code,
                                sent && acting->breaks ? doubt : why->text);
                return;
        }
        if (!reply->succeeded) { /* somebody has let go since it was read; or it was an earlier attempt of ours */
                acting->done += perhaps ? 1 : 0;
                read_again(question);
                return;
        }
        acting->done += acting->count;
        acting->at += acting->count;
        if (acting->at < question->view.lines[0].holders)
                act(question);
        else
                question_finish(question, PAWL_OK, NULL);
}

/* ---- a lease for the lock-delay that a break leaves -------------------------------------------------------------- */

static void write_grant(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_break *acting = container_of(ask, struct question, ask)->acting;
        Pb__LeaseGrantRequest grant = PB__LEASE_GRANT_REQUEST__INIT;

        grant.id = acting->lease;
        grant.ttl = acting->delay_s;
        grpc_write(out, &grant.base);
}

static void granted(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct question *question = container_of(ask, struct question, ask);

        if (message || (ask->status == GRPC_FAILED_PRECONDITION && ask->tries > 1)) /* it is there already */
                act(question);
        else
                question_finish(question, why->code, why->text);
}

static const struct etcd_method grant_method = {
        .path = "/etcdserverpb.Lease/LeaseGrant",
        .reply = &pb__lease_grant_response__descriptor,
        .write = write_grant,
        .answered = granted,
};

static bool needs_delay(struct question *question)
{
        struct etcd_break *acting = question->acting;
        struct loop *loop = question->etcd->engine.host->loop;
        int64_t longest = 0;

        for (size_t i = acting->at; i < question->view.lines[0].holders; i++) {
                const struct seen *seen = holder(question, i);

                if (seen->ours && seen->record.delay_ms > longest)
                        longest = seen->record.delay_ms;
        }
        if (longest == 0 || acting->lease)
                return false;
        acting->delay_s = (longest + 999) / 1000;
        loop_random(loop, &acting->lease, sizeof(acting->lease));
        loop_random(loop, acting->marker, sizeof(acting->marker));
        acting->lease = (acting->lease & INT64_MAX) | 1;
        return true;
}

/* ---- who is meant ------------------------------------------------------------------------------------------------ */

/* The one with the token, or nobody. */
static size_t find_meant(struct question *question)
{
        struct etcd_break *acting = question->acting;

        for (acting->at = 0; acting->at < question->view.lines[0].holders; acting->at++) {
                const struct seen *seen = holder(question, acting->at);

                if (etcd_token(question->etcd, seen->contender.order) == acting->token && seen->rest_length > 0)
                        return 1;
        }
        return 0;
}

/* Those who came to hold since the first look are not; nor can a key be deleted that is longer than we know any. They
 * begin at acting->at. */
static size_t count_meant(struct question *question)
{
        const struct view *view = &question->view;
        size_t count = 0;

        question->acting->at = 0;
        if (view->line_count == 0)
                return 0;
        if (question->acting->token)
                return find_meant(question);
        while (count < view->lines[0].holders && holder(question, count)->contender.order <= question->acting->upto &&
               holder(question, count)->rest_length > 0)
                count++;
        return count;
}

static bool any_ours(const struct question *question, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (holder(question, i)->ours)
                        return true;
        return false;
}

static void line_read(struct question *question)
{
        struct etcd_break *acting = question->acting;
        struct view *view = &question->view;
        size_t count;

        if (acting->reads++ == 0 && view->line_count > 0 && view->lines[0].holders > 0)
                acting->upto = holder(question, view->lines[0].holders - 1)->contender.order;
        count = count_meant(question);
        if (count == 0 || acting->reads > READS_MAX) {
                bool others = acting->token && view->line_count > 0 && view->lines[0].holders > 0;

                question_finish(question, acting->done > 0 ? PAWL_OK : others ? PAWL_BUSY : PAWL_NOT_FOUND, NULL);
                return;
        }
        if (!acting->breaks && !any_ours(question, count)) {
                question_finish(question, PAWL_UNSUPPORTED, "its holder does not use pawl, and cannot be asked");
                return;
        }
        view->lines[0].holders = acting->at + count;
        if (acting->breaks && needs_delay(question))
                question_ask(question, &grant_method);
        else
                act(question);
}

static void begin(struct engine *engine, struct inquiry *inquiry, bool breaks)
{
        struct question *question = question_new(engine, inquiry, true, line_read);

        if (!question)
                return;
        question->acting = calloc(1, sizeof(*question->acting));
        if (!question->acting) {
                question_finish(question, PAWL_NO_MEMORY, NULL);
                return;
        }
        question->acting->breaks = breaks;
        question->acting->token = inquiry->token;
        snprintf(question->acting->reason, sizeof(question->acting->reason), "%s",
                 inquiry->reason ? inquiry->reason : "");
        view_read(question);
}

void break_begin(struct engine *engine, struct inquiry *inquiry)
{
        begin(engine, inquiry, true);
}

void ask_begin(struct engine *engine, struct inquiry *inquiry)
{
        begin(engine, inquiry, false);
}
