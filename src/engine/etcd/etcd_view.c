/* etcd_view.c - reads lines for whoever looks at them: page by page, with the markers of lock-delays, and for how long the
 * leases of those who hold still stand. */
#include <stdlib.h>
#include <string.h>

#include "etcd_inspect.h"

enum { PAGE = 10000, LEFTS_MAX = 1000 }; /* the store walks over all that is left for every page */

/* Room for one more. False: no memory. */
static bool grow(void **items, size_t count, size_t *room, size_t size)
{
        size_t more = *room ? 2 * *room : 16;
        void *grown;

        if (count < *room)
                return true;
        grown = realloc(*items, more * size);
        if (!grown)
                return false;
        *items = grown;
        *room = more;
        return true;
}
#define GROW(items, count, room) grow((void **)&(items), (count), &(room), sizeof(*(items)))

void view_free(struct view *view)
{
        free(view->seen);
        free(view->lines);
        free(view->markers);
        free(view->lefts);
        *view = (struct view){0};
}

/* ---- what is read ------------------------------------------------------------------------------------------------ */

static struct seen_line *line_for(struct view *view, const char *name)
{
        struct seen_line *line = view->line_count ? &view->lines[view->line_count - 1] : NULL;

        if (line && strcmp(line->name, name) == 0)
                return line;
        if (!GROW(view->lines, view->line_count, view->line_room))
                return NULL;
        line = &view->lines[view->line_count++];
        *line = (struct seen_line){.first = view->count};
        strcpy(line->name, name);
        return line;
}

/* False: no memory. What is no claim's key is passed over. */
static bool take_key(struct question *question, const Pb__KeyValue *kv)
{
        struct view *view = &question->view;
        char name[PAWL_NAME_MAX + 1];
        const char *rest;
        size_t name_length, rest_length;
        struct seen_line *line;
        struct seen *seen;

        if (!key_split(question->etcd, &kv->key, name, &name_length, &rest, &rest_length))
                return true;
        name[name_length] = '\0';
        line = line_for(view, name);
        if (!line || !GROW(view->seen, view->count, view->room))
                return false;
        seen = &view->seen[view->count++];
        line->count++;
        *seen = (struct seen){.lease = kv->lease};
        key_read(rest, rest_length, &seen->contender, &(int64_t){0});
        seen->contender.order = (uint64_t)kv->create_revision;
        if (rest_length <= REST_MAX) {
                seen->rest_length = (uint8_t)rest_length;
                memcpy(seen->rest, rest, rest_length);
        }
        seen->ours = (seen->contender.uid[0] || seen->contender.uid[1]) &&
                     record_read((const char *)kv->value.data, kv->value.len, &seen->record);
        return true;
}

static bool take_marker(struct question *question, const Pb__KeyValue *kv)
{
        struct view *view = &question->view;
        char prefix[ETCD_KEY_MAX];
        size_t length = key_of_ours(question->etcd, "delay/", prefix), name_length;
        const char *text = (const char *)kv->key.data + length;
        const char *slash = kv->key.len > length ? memchr(text, '/', kv->key.len - length) : NULL;
        struct seen_marker *marker;

        if (!slash || kv->key.len - length - (size_t)(slash + 1 - text) != 32)
                return true;
        if (!GROW(view->markers, view->marker_count, view->marker_room))
                return false;
        marker = &view->markers[view->marker_count];
        *marker = (struct seen_marker){.lease = kv->lease, .order = (uint64_t)kv->create_revision};
        if (!uid_read(slash + 1, marker->uid) ||
            name_decode(text, (size_t)(slash - text), NULL, marker->name, &name_length) != PAWL_OK)
                return true;
        marker->name[name_length] = '\0';
        view->marker_count++;
        return true;
}

/* ---- who holds --------------------------------------------------------------------------------------------------- */

static int by_order(const void *a, const void *b)
{
        return line_compare(&((const struct seen *)a)->contender, &((const struct seen *)b)->contender);
}

static bool stands(const struct view *view, const struct seen_line *line, const uint64_t uid[2])
{
        for (size_t i = line->first; i < line->first + line->count; i++)
                if (view->seen[i].contender.uid[0] == uid[0] && view->seen[i].contender.uid[1] == uid[1])
                        return true;
        return false;
}

/* A marker whose claim is not there any more keeps all others away. */
static void find_delay(struct view *view, struct seen_line *line)
{
        for (size_t i = 0; i < view->marker_count; i++) {
                struct seen_marker *marker = &view->markers[i];

                if (strcmp(marker->name, line->name) != 0)
                        continue;
                marker->told = true;
                if (stands(view, line, marker->uid))
                        continue;
                if (!line->delayed || marker->order > view->markers[line->marker].order)
                        line->marker = i;
                line->delayed = true;
        }
}

/* False: no memory. */
static bool judge(struct view *view, struct seen_line *line)
{
        struct seen *seen = view->seen + line->first;
        struct contender *contenders = calloc(line->count, sizeof(*contenders));

        if (!contenders)
                return false;
        qsort(seen, line->count, sizeof(*seen), by_order);
        for (size_t i = 0; i < line->count; i++)
                contenders[i] = seen[i].contender;
        line->holders = line_holding(contenders, line->count);
        free(contenders);
        if (seen->ours && seen->record.confirms && !seen->record.holds) /* its turn, but it has not confirmed that */
                line->holders = 0;
        find_delay(view, line);
        /* Who came alone after the one that failed still waits, though it is the first. */
        if (line->delayed && !seen->contender.shared && seen->contender.order > view->markers[line->marker].order)
                line->holders = 0;
        return true;
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static void begin(struct question *question)
{
        const struct etcd *etcd = question->etcd;
        struct view *view = &question->view;

        if (question->one) {
                view->key_length = key_of_line(etcd, question->name, question->name_length, view->key);
        } else { /* without the '/' */
                view->key_length = key_of_line(etcd, question->name, question->name_length, view->key) - 1;
        }
        view->end_length = key_after_prefix(view->key, view->key_length, view->end);
        view->begun = true;
}

static size_t key_of_delays(const struct question *question, char *key)
{
        return key_of_markers(question->etcd, question->name, question->name_length, key) - (question->one ? 0 : 1);
}

/* The markers are read with the first page. */
static void write_page(struct etcd_ask *ask, struct grpc_out *out)
{
        struct question *question = container_of(ask, struct question, ask);
        struct view *view = &question->view;
        char key[ETCD_KEY_MAX], end[ETCD_KEY_MAX];
        size_t length = key_of_delays(question, key);
        Pb__RangeRequest page = PB__RANGE_REQUEST__INIT, markers = PB__RANGE_REQUEST__INIT;
        Pb__RequestOp page_op = PB__REQUEST_OP__INIT, markers_op = PB__REQUEST_OP__INIT;
        Pb__RequestOp *ops[] = {&page_op, &markers_op};
        Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;

        page.key = bytes_of(view->key, view->key_length);
        page.range_end = bytes_of(view->end, view->end_length);
        page.limit = PAGE;
        page_op.request_case = PB__REQUEST_OP__REQUEST_RANGE;
        page_op.range = &page;
        markers.key = bytes_of(key, length);
        markers.range_end = bytes_of(end, key_after_prefix(key, length, end));
        markers_op.request_case = PB__REQUEST_OP__REQUEST_RANGE;
        markers_op.range = &markers;
        txn.success = ops;
        txn.n_success = view->more ? 1 : 2;
        grpc_write(out, &txn.base);
}

static const Pb__RangeResponse *range_of(const Pb__TxnResponse *reply, size_t number)
{
        return number < reply->n_responses && reply->responses[number]->response_case == PB__RESPONSE_OP__RESPONSE_RANGE
                       ? reply->responses[number]->range
                       : NULL;
}

static bool take_page(struct question *question, const Pb__TxnResponse *reply)
{
        struct view *view = &question->view;
        const Pb__RangeResponse *page = range_of(reply, 0), *markers = range_of(reply, 1);

        for (size_t i = 0; markers && i < markers->n_kvs; i++)
                if (!take_marker(question, markers->kvs[i]))
                        return false;
        for (size_t i = 0; page && i < page->n_kvs; i++)
                if (!take_key(question, page->kvs[i]))
                        return false;
        view->more = page && page->more && page->n_kvs > 0;
        if (view->more) {
                const ProtobufCBinaryData *last = &page->kvs[page->n_kvs - 1]->key;

                if (last->len >= ETCD_KEY_MAX)
                        view->more = false; /* nothing of ours is so long, or stands behind it */
                memcpy(view->key, last->data, view->more ? last->len : 0);
                view->key[last->len < ETCD_KEY_MAX ? last->len : 0] = '\0';
                view->key_length = last->len + 1;
        }
        return true;
}

/* The last one may go on. */
static size_t whole_lines(const struct view *view)
{
        return view->line_count - (view->more && view->line_count > 0 ? 1 : 0);
}

static void page_answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct question *question = container_of(ask, struct question, ask);
        struct view *view = &question->view;

        if (!message) {
                question_finish(question, why->code, why->text);
                return;
        }
        if (!take_page(question, (const Pb__TxnResponse *)message)) {
                question_finish(question, PAWL_NO_MEMORY, NULL);
                return;
        }
        if (view->more && whole_lines(view) == 0) {
                view_read(question);
                return;
        }
        for (size_t i = 0; i < whole_lines(view); i++) {
                if (!judge(view, &view->lines[i])) {
                        question_finish(question, PAWL_NO_MEMORY, NULL);
                        return;
                }
        }
        question->read(question);
}

static const struct etcd_method read_page = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_page,
        .answered = page_answered,
};

void view_read(struct question *question)
{
        if (!question->view.begun)
                begin(question);
        question_ask(question, &read_page);
}

void view_next(struct view *view)
{
        size_t whole = whole_lines(view);
        size_t first = whole < view->line_count ? view->lines[whole].first : view->count;

        if (view->line_count > whole)
                memmove(view->lines, view->lines + whole, (view->line_count - whole) * sizeof(*view->lines));
        if (view->count > first)
                memmove(view->seen, view->seen + first, (view->count - first) * sizeof(*view->seen));
        view->line_count -= whole;
        view->count -= first;
        if (view->line_count > 0)
                view->lines[0].first = 0;
}

/* ---- what is left of leases -------------------------------------------------------------------------------------- */

static struct seen_left *left_of(const struct view *view, int64_t lease)
{
        for (size_t i = 0; i < view->left_count; i++)
                if (view->lefts[i].lease == lease)
                        return &view->lefts[i];
        return NULL;
}

int64_t view_left(const struct view *view, int64_t lease)
{
        const struct seen_left *left = left_of(view, lease);

        return left ? left->ms : -1;
}

/* Of very many the rest is not asked for: what is told then is the ttl. */
static void want_left(struct view *view, int64_t lease)
{
        if (lease == 0 || left_of(view, lease) || view->left_count >= LEFTS_MAX ||
            !GROW(view->lefts, view->left_count, view->left_room))
                return;
        view->lefts[view->left_count++] = (struct seen_left){.lease = lease, .ms = -1};
}

static void write_look(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct view *view = &container_of(ask, struct question, ask)->view;
        Pb__LeaseTimeToLiveRequest look = PB__LEASE_TIME_TO_LIVE_REQUEST__INIT;

        look.id = view->lefts[view->lefts_known].lease;
        grpc_write(out, &look.base);
}

static void look_at_next(struct question *question);

/* Whole seconds, rounded down: less than one is shown as a half. */
static void looked(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct question *question = container_of(ask, struct question, ask);
        const Pb__LeaseTimeToLiveResponse *reply = (const Pb__LeaseTimeToLiveResponse *)message;
        struct seen_left *left = &question->view.lefts[question->view.lefts_known++];

        (void)why; /* it is gone, or not to be known */
        if (reply && reply->ttl >= 0 && reply->ttl < INT64_MAX / 1000)
                left->ms = reply->ttl > 0 ? reply->ttl * 1000 : 500;
        look_at_next(question);
}

static const struct etcd_method look = {
        .path = "/etcdserverpb.Lease/LeaseTimeToLive",
        .reply = &pb__lease_time_to_live_response__descriptor,
        .write = write_look,
        .answered = looked,
};

static void look_at_next(struct question *question)
{
        if (question->view.lefts_known < question->view.left_count)
                question_ask(question, &look);
        else
                question->looked(question);
}

void view_lefts(struct question *question, void (*told)(struct question *question))
{
        struct view *view = &question->view;

        for (size_t i = 0; i < whole_lines(view); i++)
                for (size_t k = 0; k < view->lines[i].holders; k++)
                        want_left(view, view->seen[view->lines[i].first + k].lease);
        for (size_t i = 0; i < view->marker_count; i++)
                want_left(view, view->markers[i].lease);
        question->looked = told;
        look_at_next(question);
}
