/* bare_etcd.c - see bare_etcd.h. Field numbers are those of etcd's rpc.proto and kv.proto. */
#include "bare_etcd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "bench.h"
#include "turns.h"

enum { MESSAGE_MAX = 512, BUFFER = 65536, FRAME = 5, LEASE_SECONDS = 60, WINDOW = 1 << 20, NOISE_NS = 1000000 };
static const char LINE[] = "bare/line/", LINE_END[] = "bare/line0";

/* One message of gRPC: a flag, its length, and what protobuf makes of it. */
struct message {
        uint8_t bytes[MESSAGE_MAX];
        size_t length;
};

struct bare_etcd {
        int fd;
        nghttp2_session *session;
        char authority[32];
        struct message put, delete;
        /* The call under way. */
        int32_t call;
        const struct message *sending;
        size_t sent;
        bool answered;
        uint8_t answer[BUFFER];
        size_t answer_length;
        /* The watch. */
        int32_t watch;
        uint8_t news[BUFFER];
        size_t news_length;
        bool watching;
        int64_t ours;        /* the revision of our key */
        int64_t before;      /* how many keys are before ours; negative while our key's answer is not here */
        int64_t early[1024]; /* deletions that were told before that answer */
        int earlier;
};

/* ---- protobuf --------------------------------------------------------------------------------------------------- */

static void put_varint(struct message *m, uint64_t value)
{
        for (; value > 0x7f; value >>= 7)
                m->bytes[m->length++] = (uint8_t)(value | 0x80);
        m->bytes[m->length++] = (uint8_t)value;
}

static void put_number(struct message *m, unsigned field, uint64_t value)
{
        put_varint(m, field << 3);
        put_varint(m, value);
}

static void put_bytes(struct message *m, unsigned field, const void *bytes, size_t length)
{
        put_varint(m, field << 3 | 2);
        put_varint(m, length);
        memcpy(m->bytes + m->length, bytes, length);
        m->length += length;
}

static void put_text(struct message *m, unsigned field, const char *text)
{
        put_bytes(m, field, text, strlen(text));
}

static void put_message(struct message *m, unsigned field, const struct message *inner)
{
        put_bytes(m, field, inner->bytes, inner->length);
}

/* Puts the head of gRPC before what is there. */
static void frame(struct message *m)
{
        uint32_t length = htonl((uint32_t)m->length);

        memmove(m->bytes + FRAME, m->bytes, m->length);
        m->bytes[0] = 0;
        memcpy(m->bytes + 1, &length, sizeof(length));
        m->length += FRAME;
}

struct field {
        uint64_t number;
        uint64_t value; /* of a number; of bytes: their length */
        const uint8_t *bytes;
};

static uint64_t take_varint(const uint8_t **at, const uint8_t *end)
{
        uint64_t value = 0;

        for (int shift = 0; *at < end && shift < 64; shift += 7) {
                uint8_t byte = *(*at)++;

                value |= (uint64_t)(byte & 0x7f) << shift;
                if (byte < 0x80)
                        break;
        }
        return value;
}

/* The next field before end; false at the end. There are only numbers and bytes in what we read. */
static bool take_field(const uint8_t **at, const uint8_t *end, struct field *field)
{
        uint64_t head;

        if (*at >= end)
                return false;
        head = take_varint(at, end);
        field->number = head >> 3;
        field->value = take_varint(at, end);
        field->bytes = *at;
        if ((head & 7) == 2)
                *at += field->value;
        return *at <= end;
}

/* The number that a path of fields leads to, or -1. Of fields that are there several times the first, or the last. */
static int64_t find(const uint8_t *at, size_t length, const unsigned *path, bool last)
{
        const uint8_t *end = at + length;
        struct field field;
        int64_t found = -1;

        while (take_field(&at, end, &field)) {
                if (field.number != path[0] || (found >= 0 && !last))
                        continue;
                found = path[1] ? find(field.bytes, field.value, path + 1, last) : (int64_t)field.value;
        }
        return found;
}

/* ---- news of the watch ------------------------------------------------------------------------------------------ */

/* One deletion of the line, of this revision. */
static void count_deletion(struct bare_etcd *etcd, int64_t revision)
{
        if (etcd->before < 0)
                etcd->early[etcd->earlier++ % 1024] = revision;
        else if (revision > etcd->ours)
                etcd->before--;
}

static void read_news(struct bare_etcd *etcd, const uint8_t *at, size_t length)
{
        const uint8_t *end = at + length;
        struct field field;

        etcd->watching = true;
        while (take_field(&at, end, &field))
                if (field.number == 11) /* event -> kv -> mod_revision */
                        count_deletion(etcd, find(field.bytes, field.value, (unsigned[]){2, 3, 0}, false));
}

static void take_news(struct bare_etcd *etcd)
{
        size_t done = 0;

        while (etcd->news_length - done >= FRAME) {
                uint32_t length;

                memcpy(&length, etcd->news + done + 1, sizeof(length));
                length = ntohl(length);
                if (etcd->news_length - done < FRAME + length)
                        break;
                read_news(etcd, etcd->news + done + FRAME, length);
                done += FRAME + length;
        }
        memmove(etcd->news, etcd->news + done, etcd->news_length - done);
        etcd->news_length -= done;
}

/* ---- HTTP/2 ----------------------------------------------------------------------------------------------------- */

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_length,
                     const uint8_t *value, size_t length, uint8_t flags, void *arg)
{
        (void)session, (void)frame, (void)flags, (void)arg;
        if (name_length == 11 && memcmp(name, "grpc-status", 11) == 0 && (length != 1 || value[0] != '0'))
                bench_die("etcd refused: %.*s", (int)length, (const char *)value);
        return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t length,
                   void *arg)
{
        struct bare_etcd *etcd = arg;
        bool news = stream == etcd->watch;
        uint8_t *to = news ? etcd->news : etcd->answer;
        size_t *there = news ? &etcd->news_length : &etcd->answer_length;

        (void)session, (void)flags;
        if (*there + length > BUFFER)
                bench_die("an answer of etcd is too long");
        memcpy(to + *there, data, length);
        *there += length;
        if (news)
                take_news(etcd);
        return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
        struct bare_etcd *etcd = arg;

        (void)session;
        if (error || stream == etcd->watch)
                bench_die("etcd closed a stream");
        etcd->answered |= stream == etcd->call;
        return 0;
}

/* The source of a request: one message; then the end of it, or for the watch, which stays open, a pause. */
static ssize_t give(nghttp2_session *session, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                    nghttp2_data_source *source, void *arg)
{
        struct bare_etcd *etcd = arg;
        size_t left = etcd->sending->length - etcd->sent, n = left < room ? left : room;

        (void)session, (void)stream;
        if (!left)
                return NGHTTP2_ERR_DEFERRED;
        memcpy(to, etcd->sending->bytes + etcd->sent, n);
        etcd->sent += n;
        if (n == left && !source->fd)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)n;
}

/* All that nghttp2 has to say, in one write. */
static void flush(struct bare_etcd *etcd)
{
        uint8_t out[4096];
        size_t length = 0;
        const uint8_t *bytes;
        ssize_t n;

        while ((n = nghttp2_session_mem_send(etcd->session, &bytes)) > 0) {
                if (length + (size_t)n > sizeof(out))
                        bench_die("a request is too long");
                memcpy(out + length, bytes, (size_t)n);
                length += (size_t)n;
        }
        if (n < 0 || (length && write(etcd->fd, out, length) != (ssize_t)length))
                bench_die("cannot write to etcd");
}

static void receive(struct bare_etcd *etcd)
{
        uint8_t in[16384];
        ssize_t n = read(etcd->fd, in, sizeof(in));

        if (n <= 0 || nghttp2_session_mem_recv(etcd->session, in, (size_t)n) != n)
                bench_die("cannot read from etcd");
        flush(etcd);
}

#define HEADER(header_name, text)                                                                                      \
        (nghttp2_nv)                                                                                                   \
        {                                                                                                              \
                .name = (uint8_t *)(uintptr_t)(header_name), .value = (uint8_t *)(uintptr_t)(text),                    \
                .namelen = strlen(header_name), .valuelen = strlen(text),                                              \
                .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                  \
        }

static int32_t request(struct bare_etcd *etcd, const char *path, const struct message *message, bool stays_open)
{
        nghttp2_nv headers[] = {
                HEADER(":method", "POST"), HEADER(":scheme", "http"),
                HEADER(":path", path),     HEADER(":authority", etcd->authority),
                HEADER("te", "trailers"),  HEADER("content-type", "application/grpc"),
        };
        nghttp2_data_provider source = {.source = {.fd = stays_open}, .read_callback = give};
        int32_t stream;

        etcd->sending = message;
        etcd->sent = 0;
        stream = nghttp2_submit_request(etcd->session, NULL, headers, sizeof(headers) / sizeof(headers[0]), &source,
                                        NULL);
        if (stream < 0)
                bench_die("nghttp2: %s", nghttp2_strerror(stream));
        return stream;
}

/* The answer lies in etcd->answer, behind its head. */
static void call(struct bare_etcd *etcd, const char *path, const struct message *message)
{
        etcd->answered = false;
        etcd->answer_length = 0;
        etcd->call = request(etcd, path, message, false);
        flush(etcd);
        while (!etcd->answered)
                receive(etcd);
        if (etcd->answer_length < FRAME)
                bench_die("an answer of etcd is empty");
}

static int64_t answer(const struct bare_etcd *etcd, const unsigned *path, bool last)
{
        return find(etcd->answer + FRAME, etcd->answer_length - FRAME, path, last);
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

/* Txn: if the key is not there (compare CREATE == 0), put it with the lease, then read: the first of the line, or how many
 * stand in it. */
static void make_put(struct message *txn, const char *key, int64_t lease)
{
        struct message compare = {.length = 0}, put = compare, range = compare, operation = compare;

        put_number(&compare, 2, 1); /* target CREATE; result EQUAL and revision 0 are the defaults */
        put_text(&compare, 3, key);
        put_number(&compare, 4, 0);
        put_message(txn, 1, &compare);
        put_text(&put, 1, key);
        put_text(&put, 2, "owner");
        put_number(&put, 3, (uint64_t)lease);
        put_message(&operation, 2, &put);
        put_message(txn, 2, &operation);
        put_text(&range, 1, LINE);
        put_text(&range, 2, LINE_END);
        put_number(&range, 3, 1); /* limit */
        put_number(&range, 5, 1); /* ascending by */
        put_number(&range, 6, 2); /* create revision */
        operation.length = 0;
        put_message(&operation, 1, &range);
        put_message(txn, 2, &operation);
        frame(txn);
}

static int64_t grant_lease(struct bare_etcd *etcd)
{
        struct message grant = {.length = 0};

        put_number(&grant, 1, LEASE_SECONDS);
        frame(&grant);
        call(etcd, "/etcdserverpb.Lease/LeaseGrant", &grant);
        return answer(etcd, (unsigned[]){2, 0}, false);
}

static void dial(struct bare_etcd *etcd, uint16_t port)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        int on = 1;

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        etcd->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (etcd->fd < 0 || connect(etcd->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
                bench_die("cannot connect to etcd");
        setsockopt(etcd->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        snprintf(etcd->authority, sizeof(etcd->authority), "127.0.0.1:%u", port);
}

static void begin_session(struct bare_etcd *etcd)
{
        nghttp2_session_callbacks *callbacks;
        nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW};

        if (nghttp2_session_callbacks_new(&callbacks) != 0)
                bench_die("no memory");
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
        if (nghttp2_session_client_new(&etcd->session, callbacks, etcd) != 0)
                bench_die("no memory");
        nghttp2_session_callbacks_del(callbacks);
        nghttp2_submit_settings(etcd->session, NGHTTP2_FLAG_NONE, &window, 1);
        nghttp2_session_set_local_window_size(etcd->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
}

struct bare_etcd *bare_etcd_connect(uint16_t port)
{
        struct bare_etcd *etcd = calloc(1, sizeof(*etcd));
        char key[64];
        int64_t lease;

        if (!etcd)
                bench_die("no memory");
        dial(etcd, port);
        begin_session(etcd);
        lease = grant_lease(etcd);
        snprintf(key, sizeof(key), "%s%llx", LINE, (unsigned long long)lease);
        make_put(&etcd->put, key, lease);
        put_text(&etcd->delete, 1, key);
        frame(&etcd->delete);
        return etcd;
}

void bare_etcd_close(struct bare_etcd *etcd)
{
        nghttp2_session_del(etcd->session);
        close(etcd->fd);
        free(etcd);
}

static void put_key(struct bare_etcd *etcd)
{
        call(etcd, "/etcdserverpb.KV/Txn", &etcd->put);
        if (answer(etcd, (unsigned[]){2, 0}, false) != 1) /* succeeded */
                bench_die("the key was there");
}

static void delete_key(struct bare_etcd *etcd)
{
        call(etcd, "/etcdserverpb.KV/DeleteRange", &etcd->delete);
}

void bare_etcd_pairs(struct bare_etcd *etcd, int n)
{
        for (int i = 0; i < n; i++) {
                put_key(etcd);
                delete_key(etcd);
        }
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */

static void watch_line(struct bare_etcd *etcd)
{
        struct message create = {.length = 0}, watch = create;

        put_text(&create, 1, LINE);
        put_text(&create, 2, LINE_END);
        put_number(&create, 5, 0); /* filter NOPUT */
        put_message(&watch, 1, &create);
        frame(&watch);
        etcd->watch = request(etcd, "/etcdserverpb.Watch/Watch", &watch, true);
        flush(etcd);
        while (!etcd->watching)
                receive(etcd);
}

static void stand_in_line(struct bare_etcd *etcd)
{
        int64_t before;

        etcd->before = -1;
        etcd->earlier = 0;
        put_key(etcd);
        etcd->ours = answer(etcd, (unsigned[]){1, 3, 0}, false);   /* header -> revision */
        before = answer(etcd, (unsigned[]){3, 1, 4, 0}, true) - 1; /* responses, the last -> range -> count */
        etcd->before = before;
        for (int i = 0; i < etcd->earlier; i++)
                count_deletion(etcd, etcd->early[i]);
}

void bare_etcd_turns(struct crew *crew, uint32_t me, void *arg)
{
        const struct turns *turns = arg;
        struct bare_etcd *etcd = bare_etcd_connect(turns->port);

        watch_line(etcd);
        crew_start(crew);
        while (!atomic_load(&crew->stop)) {
                uint64_t ticket = crew_ask(crew);

                stand_in_line(etcd);
                while (etcd->before > 0)
                        receive(etcd);
                crew_turn(crew, me, ticket);
                turns_sleep(turns->hold_ns);
                delete_key(etcd);
                turns_sleep(turns->pause_ns);
        }
        bare_etcd_close(etcd);
}

/* ---- noise ------------------------------------------------------------------------------------------------------ */

pid_t bare_etcd_noise_start(uint16_t port)
{
        struct message put = {.length = 0};
        struct bare_etcd *etcd;
        pid_t child = fork();

        if (child < 0)
                bench_die("fork failed");
        if (child > 0)
                return child;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        etcd = bare_etcd_connect(port);
        put_text(&put, 1, "bare/noise");
        put_text(&put, 2, "x");
        frame(&put);
        for (;;) {
                call(etcd, "/etcdserverpb.KV/Put", &put);
                turns_sleep(NOISE_NS);
        }
}

void bare_etcd_noise_stop(pid_t noise)
{
        kill(noise, SIGKILL);
        waitpid(noise, NULL, 0);
}
