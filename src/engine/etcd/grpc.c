/* grpc.c - calls and streams on one HTTP/2 connection. nghttp2's callbacks only note what came; when it has taken all
 * of what was heard, tell() tells it: so whoever is told may ask, forget, and close. */
#include "grpc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

enum {
        PREFIX = 5,              /* before each message: compressed or not, and its length */
        STREAM_WINDOW = 4 << 20, /* what a server may send before we have taken it */
        CONNECTION_WINDOW = 16 << 20,
        KEPT_BUFFER = 4096, /* of a spare flow */
        KEPT_FLOWS = 256,
        HELD_BACK = 1 << 20, /* received before windows must be opened again: far less than there is */
        CHUNK = 16 * 1024,
};

static const int64_t at_once = 0;             /* the loop makes it the next turn */
static const int64_t quiet_for = 10 * SECOND; /* then a ping; oftener a server would be offended */
static const int64_t dead_after = 20 * SECOND;

struct buffer {
        uint8_t *bytes;
        size_t start, end, room;
};

struct grpc_flow {
        struct list listed; /* calls, streams, or dying */
        struct list told;   /* has news */
        struct grpc *grpc;
        struct grpc_call *call; /* one of the two; neither: nobody wants it any more */
        struct grpc_stream *stream;
        int64_t until;
        int32_t id;
        int http_status; /* 0: not yet */
        int status;      /* -1: not yet */
        bool is_grpc;    /* by its content-type */
        bool written;    /* of a call: the server may know of it */
        bool refused;    /* the server says that it has not begun */
        bool over;       /* nghttp2 has closed the stream */
        bool telling;
        struct buffer in, out;
        char text[GRPC_TEXT_MAX + 1];
};

struct grpc_out {
        struct grpc_flow *flow;
        uint8_t *frame;
        size_t room;
        size_t size; /* written into the frame */
        bool failed;
};

struct grpc_chunk {
        struct grpc_chunk *next;
        size_t used, room;
        _Alignas(16) char bytes[];
};

static struct grpc *grpc_of(struct net *net)
{
        return (struct grpc *)(void *)net;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Room for size more bytes. False: no memory. */
static bool make_room(struct buffer *buffer, size_t size)
{
        size_t used = buffer->end - buffer->start;
        size_t room = buffer->room ? buffer->room : 512;
        uint8_t *bytes;

        if (buffer->room - buffer->end >= size)
                return true;
        if (buffer->start > 0)
                memmove(buffer->bytes, buffer->bytes + buffer->start, used);
        buffer->start = 0;
        buffer->end = used;
        if (buffer->room - used >= size)
                return true;
        while (room < used + size)
                room *= 2;
        bytes = realloc(buffer->bytes, room);
        if (!bytes)
                return false;
        buffer->bytes = bytes;
        buffer->room = room;
        return true;
}

/* There may have been a password in it. */
static void empty(struct buffer *buffer)
{
        if (buffer->end > 0)
                explicit_bzero(buffer->bytes, buffer->end);
        if (buffer->room > KEPT_BUFFER) {
                free(buffer->bytes);
                *buffer = (struct buffer){0};
        }
        buffer->start = buffer->end = 0;
}

static void *arena_take(void *arg, size_t size)
{
        struct grpc_arena *arena = arg;
        struct grpc_chunk *chunk = arena->chunks;
        void *bytes;

        if (size > GRPC_MEMORY_MAX || arena->taken > GRPC_MEMORY_MAX - size)
                return NULL;
        size = (size + 15) & ~(size_t)15;
        if (!chunk || chunk->room - chunk->used < size) {
                size_t room = size > CHUNK ? size : CHUNK;

                chunk = malloc(sizeof(*chunk) + room);
                if (!chunk)
                        return NULL;
                *chunk = (struct grpc_chunk){.next = arena->chunks, .room = room};
                arena->chunks = chunk;
        }
        bytes = chunk->bytes + chunk->used;
        chunk->used += size;
        arena->taken += size;
        return bytes;
}

static void arena_leave(void *arg, void *bytes)
{
        (void)arg;
        (void)bytes;
}

/* All but one chunk of the usual size is given back. */
static void arena_reset(struct grpc_arena *arena)
{
        struct grpc_chunk *chunk, *kept = NULL;

        while ((chunk = arena->chunks) != NULL) {
                arena->chunks = chunk->next;
                if (!kept && chunk->room == CHUNK)
                        kept = chunk;
                else
                        free(chunk);
        }
        if (kept) {
                kept->next = NULL;
                kept->used = 0;
        }
        arena->chunks = kept;
        arena->taken = 0;
}

static void arena_free(struct grpc_arena *arena)
{
        arena_reset(arena);
        free(arena->chunks);
        arena->chunks = NULL;
}

void *grpc_unpack(struct grpc *grpc, const ProtobufCMessageDescriptor *kind, const uint8_t *bytes, size_t size)
{
        return protobuf_c_message_unpack(kind, &grpc->allocator, size, bytes);
}

static struct grpc_flow *flow_new(struct grpc *grpc)
{
        struct grpc_flow *flow;
        struct buffer in = {0}, out = {0};

        if (list_empty(&grpc->spare)) {
                flow = calloc(1, sizeof(*flow));
                if (!flow)
                        return NULL;
        } else {
                flow = list_first(&grpc->spare, struct grpc_flow, listed);
                list_remove(&flow->listed);
                grpc->spares--;
                in = flow->in;
                out = flow->out;
        }
        *flow = (struct grpc_flow){.grpc = grpc, .status = -1, .in = in, .out = out};
        list_init(&flow->listed);
        list_init(&flow->told);
        return flow;
}

static void flow_free(struct grpc_flow *flow)
{
        struct grpc *grpc = flow->grpc;

        list_remove(&flow->listed);
        list_remove(&flow->told);
        empty(&flow->in);
        empty(&flow->out);
        if (grpc->spares >= KEPT_FLOWS) {
                free(flow->in.bytes);
                free(flow->out.bytes);
                free(flow);
                return;
        }
        list_append(&grpc->spare, &flow->listed);
        grpc->spares++;
}

static void flows_free(struct list *list)
{
        while (!list_empty(list)) {
                struct grpc_flow *flow = list_first(list, struct grpc_flow, listed);

                list_remove(&flow->listed);
                list_remove(&flow->told);
                empty(&flow->in);
                empty(&flow->out);
                free(flow->in.bytes);
                free(flow->out.bytes);
                free(flow);
        }
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void no_memory(struct grpc *grpc)
{
        net_fail(&grpc->net, PAWL_NO_MEMORY, "%s: no memory", grpc->authority);
}

/* Moves what nghttp2 has to send to the connection. */
static void pump(struct grpc *grpc)
{
        const uint8_t *bytes;
        ssize_t size;

        grpc->submitted = grpc->served = false;
        grpc->unanswered = 0;
        if (!grpc->session || grpc->net.state != NET_UP || grpc->net.failing)
                return;
        while ((size = nghttp2_session_mem_send(grpc->session, &bytes)) > 0) {
                char *room = net_room(&grpc->net, (size_t)size);

                if (!room) {
                        no_memory(grpc);
                        return;
                }
                memcpy(room, bytes, (size_t)size);
                net_wrote(&grpc->net, (size_t)size);
        }
        if (size < 0)
                no_memory(grpc);
}

/* Something was submitted. While we hear, everything goes out together at the end. */
static void send_soon(struct grpc *grpc, bool now)
{
        grpc->submitted = true;
        if (grpc->hearing)
                return;
        pump(grpc);
        if (now || grpc->net.loop->turn == INT64_MIN)
                net_flush(&grpc->net);
}

static void put_prefix(uint8_t *at, size_t size)
{
        at[0] = 0;
        at[1] = (uint8_t)(size >> 24);
        at[2] = (uint8_t)(size >> 16);
        at[3] = (uint8_t)(size >> 8);
        at[4] = (uint8_t)size;
}

static bool put_message(struct buffer *out, const ProtobufCMessage *message, size_t size)
{
        if (size > GRPC_MESSAGE_MAX || !make_room(out, PREFIX + size))
                return false;
        put_prefix(out->bytes + out->end, size);
        protobuf_c_message_pack(message, out->bytes + out->end + PREFIX);
        out->end += PREFIX + size;
        return true;
}

/* Straight into the frame if it fits. */
void grpc_write(struct grpc_out *out, const ProtobufCMessage *message)
{
        size_t size = protobuf_c_message_get_packed_size(message);

        if (PREFIX + size > out->room) {
                out->failed = !put_message(&out->flow->out, message, size);
                return;
        }
        put_prefix(out->frame, size);
        protobuf_c_message_pack(message, out->frame + PREFIX);
        out->size = PREFIX + size;
}

static ssize_t take_out(struct buffer *out, uint8_t *frame, size_t room)
{
        size_t size = out->end - out->start < room ? out->end - out->start : room;

        memcpy(frame, out->bytes + out->start, size);
        out->start += size;
        return (ssize_t)size;
}

static ssize_t write_call(struct grpc_flow *flow, uint8_t *frame, size_t room, uint32_t *flags)
{
        struct grpc_out out = {.flow = flow, .frame = frame, .room = room};
        ssize_t size;

        if (!flow->written) {
                flow->written = true;
                flow->call->sent_at = loop_now(flow->grpc->net.loop);
                flow->call->write(flow->call, &out);
                if (out.failed) {
                        flow->status = GRPC_NO_MEMORY;
                        snprintf(flow->text, sizeof(flow->text), "no memory for a message, or it is too long");
                        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
                }
        }
        if (out.size > 0) {
                *flags |= NGHTTP2_DATA_FLAG_EOF;
                return (ssize_t)out.size;
        }
        size = take_out(&flow->out, frame, room);
        if (flow->out.start == flow->out.end)
                *flags |= NGHTTP2_DATA_FLAG_EOF;
        return size;
}

static ssize_t write_data(nghttp2_session *session, int32_t id, uint8_t *frame, size_t room, uint32_t *flags,
                          nghttp2_data_source *source, void *arg)
{
        struct grpc_flow *flow = source->ptr;

        (void)session;
        (void)id;
        (void)arg;
        if (flow->call)
                return write_call(flow, frame, room, flags);
        if (flow->out.start == flow->out.end)
                return NGHTTP2_ERR_DEFERRED;
        return take_out(&flow->out, frame, room);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

enum { HEADERS = 8 };

/* Names and values that stay need no copy. The same ones in the same order each time: they become an index each. */
static nghttp2_nv header(const char *name, const char *value, uint8_t flags)
{
        return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                            .value = (uint8_t *)(uintptr_t)value,
                            .namelen = strlen(name),
                            .valuelen = strlen(value),
                            .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | flags};
}

static int submit(struct grpc *grpc, struct grpc_flow *flow, const char *method, bool leaderless)
{
        const uint8_t stays = NGHTTP2_NV_FLAG_NO_COPY_VALUE;
        nghttp2_data_provider source = {.source.ptr = flow, .read_callback = write_data};
        nghttp2_nv headers[HEADERS];
        size_t n = 0;

        headers[n++] = header(":method", "POST", stays);
        headers[n++] = header(":scheme", grpc->net.target->tls ? "https" : "http", stays);
        headers[n++] = header(":path", method, stays);
        headers[n++] = header(":authority", grpc->authority, stays);
        headers[n++] = header("content-type", "application/grpc", stays);
        headers[n++] = header("te", "trailers", stays);
        if (!leaderless)
                headers[n++] = header("hasleader", "true", stays);
        if (grpc->token)
                headers[n++] = header("token", grpc->token, NGHTTP2_NV_FLAG_NONE);
        flow->id = nghttp2_submit_request(grpc->session, NULL, headers, n, &source, flow);
        if (flow->id > 0)
                return PAWL_OK;
        if (flow->id == NGHTTP2_ERR_NOMEM)
                return PAWL_NO_MEMORY;
        grpc->leaving = true; /* no more numbers for streams on this connection */
        loop_set(grpc->net.loop, &grpc->timer, at_once);
        return PAWL_UNREACHABLE;
}

static void look_at(struct grpc *grpc, int64_t at)
{
        if (at < grpc->timer.at)
                loop_set(grpc->net.loop, &grpc->timer, at); /* moving: cannot fail */
}

int grpc_ask(struct grpc *grpc, struct grpc_call *call)
{
        struct grpc_flow *flow;
        int code;

        call->flow = NULL;
        if (!grpc_ready(grpc) || grpc->net.failing)
                return PAWL_UNREACHABLE;
        flow = flow_new(grpc);
        if (!flow)
                return PAWL_NO_MEMORY;
        code = submit(grpc, flow, call->method, call->leaderless);
        if (code != PAWL_OK) {
                flow_free(flow);
                return code;
        }
        flow->call = call;
        call->flow = flow;
        call->sent_at = loop_now(grpc->net.loop);
        flow->until = call->timeout < NEVER - call->sent_at ? call->sent_at + call->timeout : NEVER;
        look_at(grpc, flow->until);
        list_append(&grpc->calls, &flow->listed);
        if (grpc->asked++ == 0)
                net_expect(&grpc->net, true);
        send_soon(grpc, grpc->asked == 1);
        return PAWL_OK;
}

int grpc_open(struct grpc *grpc, struct grpc_stream *stream)
{
        struct grpc_flow *flow;
        int code;

        stream->flow = NULL;
        if (!grpc_ready(grpc) || grpc->net.failing)
                return PAWL_UNREACHABLE;
        flow = flow_new(grpc);
        if (!flow)
                return PAWL_NO_MEMORY;
        code = submit(grpc, flow, stream->method, false);
        if (code != PAWL_OK) {
                flow_free(flow);
                return code;
        }
        flow->stream = stream;
        stream->flow = flow;
        flow->until = NEVER;
        list_append(&grpc->streams, &flow->listed);
        look_at(grpc, grpc->heard_at + quiet_for);
        send_soon(grpc, false);
        return PAWL_OK;
}

int grpc_send(struct grpc *grpc, struct grpc_stream *stream, const ProtobufCMessage *message)
{
        struct grpc_flow *flow = stream->flow;

        if (!flow || flow->over || !grpc->session) /* the connection is lost, and those under way are being told */
                return PAWL_UNREACHABLE;
        if (!put_message(&flow->out, message, protobuf_c_message_get_packed_size(message)))
                return PAWL_NO_MEMORY;
        nghttp2_session_resume_data(grpc->session, flow->id); /* fails if it was not deferred */
        send_soon(grpc, false);
        return PAWL_OK;
}

static void count_off(struct grpc *grpc)
{
        if (--grpc->asked == 0)
                net_expect(&grpc->net, false);
}

/* Nobody wants it any more; nghttp2 may still know of it. */
static void let_go(struct grpc *grpc, struct grpc_flow *flow)
{
        flow->call = NULL;
        flow->stream = NULL;
        list_remove(&flow->listed);
        list_append(&grpc->dying, &flow->listed);
        if (!flow->over) {
                nghttp2_submit_rst_stream(grpc->session, NGHTTP2_FLAG_NONE, flow->id, NGHTTP2_CANCEL);
                send_soon(grpc, false);
        } else if (!flow->telling) {
                flow_free(flow);
        }
}

void grpc_forget(struct grpc *grpc, struct grpc_call *call)
{
        struct grpc_flow *flow = call->flow;

        if (!flow)
                return;
        call->flow = NULL;
        count_off(grpc);
        if (grpc->session)
                let_go(grpc, flow);
        else
                flow_free(flow);
}

void grpc_end(struct grpc *grpc, struct grpc_stream *stream)
{
        struct grpc_flow *flow = stream->flow;

        if (!flow)
                return;
        stream->flow = NULL;
        if (grpc->session)
                let_go(grpc, flow);
        else
                flow_free(flow);
}

/* ---- what came --------------------------------------------------------------------------------------------------- */

static struct grpc_flow *flow_of(nghttp2_session *session, int32_t id)
{
        return nghttp2_session_get_stream_user_data(session, id);
}

static void has_news(struct grpc_flow *flow)
{
        if (list_empty(&flow->told))
                list_append(&flow->grpc->news, &flow->told);
        /* A stream may also end while we send: that is not for the caller to be told. */
        if (!flow->grpc->hearing)
                look_at(flow->grpc, at_once);
}

static int digit(uint8_t c)
{
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
}

/* %XX stands for a byte. What cannot be shown is not. */
static void take_text(char text[GRPC_TEXT_MAX + 1], const uint8_t *value, size_t size)
{
        size_t n = 0;

        for (size_t i = 0; i < size && n < GRPC_TEXT_MAX; i++) {
                uint8_t c = value[i];

                if (c == '%' && i + 2 < size && digit(value[i + 1]) >= 0 && digit(value[i + 2]) >= 0) {
                        c = (uint8_t)(digit(value[i + 1]) * 16 + digit(value[i + 2]));
                        i += 2;
                }
                text[n++] = c >= ' ' && c != 0x7f ? (char)c : '?';
        }
        text[n] = '\0';
}

/* A number of at most three digits, else -1. */
static int take_number(const uint8_t *value, size_t size)
{
        int number = 0;

        if (size == 0 || size > 3)
                return -1;
        for (size_t i = 0; i < size; i++) {
                if (value[i] < '0' || value[i] > '9')
                        return -1;
                number = number * 10 + (value[i] - '0');
        }
        return number;
}

static bool is_named(const uint8_t *name, size_t size, const char *expected)
{
        return size == strlen(expected) && memcmp(name, expected, size) == 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t size, uint8_t flags, void *arg)
{
        struct grpc_flow *flow = flow_of(session, frame->hd.stream_id);

        (void)flags;
        (void)arg;
        if (!flow)
                return 0;
        if (is_named(name, name_size, ":status")) {
                flow->http_status = take_number(value, size);
        } else if (is_named(name, name_size, "content-type")) {
                flow->is_grpc = size >= 16 && memcmp(value, "application/grpc", 16) == 0;
        } else if (is_named(name, name_size, "grpc-status")) {
                int status = take_number(value, size);

                flow->status = status >= 0 && status <= GRPC_UNAUTHENTICATED ? status : GRPC_UNKNOWN;
        } else if (is_named(name, name_size, "grpc-message")) {
                take_text(flow->text, value, size);
        }
        return 0;
}

/* It makes no sense to listen any longer. */
static void give_up(nghttp2_session *session, struct grpc_flow *flow, int status, const char *text)
{
        flow->status = status;
        snprintf(flow->text, sizeof(flow->text), "%s", text);
        empty(&flow->in);
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, flow->id, NGHTTP2_CANCEL);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t size, void *arg)
{
        struct grpc_flow *flow = flow_of(session, id);

        (void)flags;
        (void)arg;
        if (!flow || (!flow->call && !flow->stream) || flow->status > GRPC_UNAUTHENTICATED)
                return 0;
        if (flow->in.end - flow->in.start + size > GRPC_MESSAGE_MAX + PREFIX + STREAM_WINDOW) {
                give_up(session, flow, GRPC_STRANGE, "a message is too long");
                return 0;
        }
        if (!make_room(&flow->in, size)) {
                give_up(session, flow, GRPC_NO_MEMORY, "no memory for a message");
                return 0;
        }
        memcpy(flow->in.bytes + flow->in.end, bytes, size);
        flow->in.end += size;
        if (flow->stream)
                has_news(flow);
        return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
        struct grpc *grpc = arg;

        (void)session;
        if (frame->hd.type == NGHTTP2_GOAWAY)
                grpc->leaving = true;
        else if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
                grpc->settled = true;
        return 0;
}

static int on_closed(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
        struct grpc_flow *flow = flow_of(session, id);

        (void)arg;
        if (!flow)
                return 0;
        flow->over = true;
        if (!flow->call && !flow->stream) {
                if (!flow->telling)
                        flow_free(flow);
                return 0;
        }
        flow->refused = error == NGHTTP2_REFUSED_STREAM;
        if (flow->status < 0 && error != NGHTTP2_NO_ERROR) {
                flow->status = error == NGHTTP2_CANCEL ? GRPC_CANCELLED : GRPC_UNAVAILABLE;
                snprintf(flow->text, sizeof(flow->text), "the server ended the call: %s",
                         nghttp2_http2_strerror(error));
        }
        has_news(flow);
        return 0;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static size_t size_of_first(const struct buffer *in)
{
        const uint8_t *at = in->bytes + in->start;

        return (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | (size_t)at[4];
}

/* What the headers say against it; NULL: nothing. */
static const char *what_is_wrong(const struct grpc_flow *flow, char text[GRPC_TEXT_MAX + 1])
{
        if (flow->http_status != 0 && flow->http_status != 200) {
                snprintf(text, GRPC_TEXT_MAX + 1, "another protocol on this port: HTTP status %d", flow->http_status);
                return text;
        }
        if (flow->http_status == 200 && !flow->is_grpc)
                return "another protocol on this port: HTTP/2, but not gRPC";
        return NULL;
}

/* The end of a call or of a stream, as an answer. */
static void make_answer(const struct grpc_flow *flow, struct grpc_answer *answer, char text[GRPC_TEXT_MAX + 1])
{
        const struct buffer *in = &flow->in;
        const char *wrong = flow->status > GRPC_UNAUTHENTICATED ? NULL : what_is_wrong(flow, text);

        *answer = (struct grpc_answer){.status = flow->status, .text = flow->text, .undone = flow->refused};
        if (!wrong && flow->status < 0)
                wrong = "the answer has no status";
        if (!wrong && flow->status == GRPC_OK && flow->call) {
                if (in->end - in->start < PREFIX || in->bytes[in->start] != 0 ||
                    size_of_first(in) != in->end - in->start - PREFIX)
                        wrong = "the answer is not one message";
                answer->bytes = in->bytes + in->start + PREFIX;
                answer->size = in->end - in->start - PREFIX;
        }
        if (wrong) {
                answer->status = GRPC_STRANGE;
                answer->text = wrong;
        }
}

/* Whether there still is a connection of ours: it may have been closed in the event, and be freed even. */
static bool tell_end(struct grpc *grpc, struct grpc_flow *flow, const struct grpc_answer *answer)
{
        struct grpc_call *call = flow->call;
        struct grpc_stream *stream = flow->stream;
        bool closed = false;

        grpc->closed = &closed;
        flow->telling = true;
        if (call) {
                call->flow = NULL;
                flow->call = NULL;
                grpc->asked--;
                grpc->served = true;
                call->answered(call, answer);
        } else {
                stream->flow = NULL;
                flow->stream = NULL;
                stream->ended(stream, answer);
        }
        if (closed)
                return false;
        grpc->closed = NULL;
        arena_reset(&grpc->arena);
        flow_free(flow);
        return true;
}

static void make_no_sense(struct grpc *grpc, struct grpc_flow *flow)
{
        if (flow->over) {
                flow->status = GRPC_STRANGE;
                snprintf(flow->text, sizeof(flow->text), "a message makes no sense");
                empty(&flow->in);
        } else {
                give_up(grpc->session, flow, GRPC_STRANGE, "a message makes no sense");
        }
}

/* The messages of a stream. Whether there still is a connection. */
static bool tell_messages(struct grpc *grpc, struct grpc_flow *flow)
{
        struct buffer *in = &flow->in;
        bool closed = false;

        while (flow->stream && in->end - in->start >= PREFIX) {
                const uint8_t *at = in->bytes + in->start;
                size_t size = size_of_first(in);

                if (at[0] != 0 || size > GRPC_MESSAGE_MAX) {
                        make_no_sense(grpc, flow);
                        return true;
                }
                if (in->end - in->start - PREFIX < size)
                        return true;
                in->start += PREFIX + size;
                grpc->served = true;
                grpc->closed = &closed;
                flow->stream->heard(flow->stream, at + PREFIX, size);
                if (closed)
                        return false;
                grpc->closed = NULL;
                arena_reset(&grpc->arena);
        }
        if (in->start == in->end)
                empty(in);
        return true;
}

/* Whether there still is a connection. */
static bool tell_flow(struct grpc *grpc, struct grpc_flow *flow)
{
        struct grpc_answer answer;
        char text[GRPC_TEXT_MAX + 1];

        list_remove(&flow->told);
        flow->telling = true;
        if (flow->stream && !what_is_wrong(flow, text) && !tell_messages(grpc, flow))
                return false;
        if (flow->over && (flow->call || flow->stream)) {
                make_answer(flow, &answer, text);
                return tell_end(grpc, flow, &answer);
        }
        flow->telling = false;
        if (flow->over)
                flow_free(flow);
        return true;
}

/* Everything that came since. Whether there still is a connection. */
static bool tell(struct grpc *grpc)
{
        while (!list_empty(&grpc->news))
                if (!tell_flow(grpc, container_of(grpc->news.next, struct grpc_flow, told)))
                        return false;
        return true;
}

/* All that is left on a connection that is no more. Whether there still is a connection. */
static bool tell_lost(struct grpc *grpc, struct list *flows, const struct pawl_why *why)
{
        while (!list_empty(flows)) {
                struct grpc_flow *flow = list_first(flows, struct grpc_flow, listed);
                struct grpc_answer answer = {
                        .status = GRPC_LOST, .text = why->text, .undone = flow->call && !flow->written};

                if (!tell_end(grpc, flow, &answer))
                        return false;
        }
        return true;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static void tell_up(struct grpc *grpc)
{
        grpc->ready = true;
        grpc->events->up(grpc);
}

/* nghttp2 says when it has nothing to hear or say any more: after GOAWAY, theirs or, if they break the rules, ours. */
static void look_if_over(struct grpc *grpc)
{
        const struct net *net = &grpc->net;

        if (net->failing || net->state != NET_UP)
                return;
        if (grpc->leaving && grpc->asked == 0)
                net_fail(&grpc->net, PAWL_UNREACHABLE, "%s: the server closes the connection", grpc->authority);
        else if (nghttp2_session_want_read(grpc->session) || nghttp2_session_want_write(grpc->session))
                return;
        else if (grpc->ready)
                net_fail(&grpc->net, PAWL_UNREACHABLE, "%s: the server broke the rules of HTTP/2", grpc->authority);
        else
                net_fail(&grpc->net, PAWL_UNREACHABLE, "%s: another protocol on this port: gRPC was expected%s",
                         grpc->authority, net->target->tls ? "" : ", without TLS");
}

/* A server measures the connection with a PING beside nearly every answer. The acknowledgement goes with the next
 * request: a write of its own would cost as much as that. But what came alone is answered at once. */
static bool can_wait(const struct grpc *grpc)
{
        return grpc->served && !grpc->submitted && grpc->unanswered < HELD_BACK && !grpc->leaving &&
               nghttp2_session_want_read(grpc->session);
}

/* After something was heard, or a timer fired: tells what there is, then sends what that brought about. */
static void catch_up(struct grpc *grpc)
{
        bool closed = false;

        grpc->hearing = true;
        if (grpc->settled && !grpc->ready) {
                grpc->closed = &closed;
                tell_up(grpc);
                if (closed)
                        return;
                grpc->closed = NULL;
        }
        if (!tell(grpc))
                return;
        grpc->hearing = false;
        if (!can_wait(grpc))
                pump(grpc);
        look_if_over(grpc);
        if (grpc->asked == 0)
                net_expect(&grpc->net, false);
}

static void heard(struct net *net, const char *data, size_t size)
{
        struct grpc *grpc = grpc_of(net);
        ssize_t n;

        grpc->heard_at = loop_now(net->loop);
        grpc->hearing = true;
        grpc->unanswered += size;
        n = nghttp2_session_mem_recv(grpc->session, (const uint8_t *)data, size);
        if (n == NGHTTP2_ERR_NOMEM || n == NGHTTP2_ERR_CALLBACK_FAILURE)
                no_memory(grpc);
        else if (n < 0)
                net_fail(net, PAWL_UNREACHABLE, "%s: the server broke the rules of HTTP/2: %s", grpc->authority,
                         nghttp2_strerror((int)n));
        catch_up(grpc);
}

static int begin_session(struct grpc *grpc)
{
        const nghttp2_settings_entry settings[] = {
                {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        };
        nghttp2_session_callbacks *callbacks;
        nghttp2_option *option = NULL;
        int error = nghttp2_session_callbacks_new(&callbacks);

        if (error != 0)
                return error;
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
        error = nghttp2_option_new(&option);
        if (error == 0) {
                nghttp2_option_set_no_closed_streams(option, 1);
                error = nghttp2_session_client_new2(&grpc->session, callbacks, grpc, option);
                nghttp2_option_del(option);
        }
        nghttp2_session_callbacks_del(callbacks);
        if (error == 0)
                error = nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, settings,
                                                sizeof(settings) / sizeof(*settings));
        if (error == 0)
                error = nghttp2_session_set_local_window_size(grpc->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
        return error;
}

static void up(struct net *net)
{
        struct grpc *grpc = grpc_of(net);

        grpc->heard_at = loop_now(net->loop);
        if (begin_session(grpc) != 0)
                no_memory(grpc);
        else
                pump(grpc); /* it is up when the server's SETTINGS are there */
}

static void end_session(struct grpc *grpc)
{
        loop_unset(grpc->net.loop, &grpc->timer);
        nghttp2_session_del(grpc->session);
        grpc->session = NULL;
        grpc->ready = grpc->settled = grpc->leaving = grpc->hearing = false;
        flows_free(&grpc->dying);
}

static void down(struct net *net, const struct pawl_why *why)
{
        struct grpc *grpc = grpc_of(net);

        end_session(grpc);
        if (tell_lost(grpc, &grpc->calls, why) && tell_lost(grpc, &grpc->streams, why))
                grpc->events->down(grpc, why);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* Answers the calls that are overdue. Returns when the next one will be. */
static int64_t find_overdue(struct grpc *grpc, int64_t now)
{
        int64_t next = NEVER;
        struct list *at, *after;

        for (at = grpc->calls.next; at != &grpc->calls; at = after) {
                struct grpc_flow *flow = container_of(at, struct grpc_flow, listed);

                after = at->next;
                if (flow->until > now) {
                        next = flow->until < next ? flow->until : next;
                } else if (!flow->over && flow->status != GRPC_OVERDUE) {
                        flow->status = GRPC_OVERDUE;
                        snprintf(flow->text, sizeof(flow->text), "no answer for %lld ms",
                                 (long long)(flow->call->timeout / MS));
                        nghttp2_submit_rst_stream(grpc->session, NGHTTP2_FLAG_NONE, flow->id, NGHTTP2_CANCEL);
                }
        }
        return next;
}

/* Pings a server that is quiet while something is under way. Returns when to look again. */
static int64_t look_for_life(struct grpc *grpc, int64_t now)
{
        int64_t quiet = now - grpc->heard_at;

        if (list_empty(&grpc->calls) && list_empty(&grpc->streams))
                return NEVER;
        if (quiet < quiet_for)
                return grpc->heard_at + quiet_for;
        if (quiet >= dead_after && grpc->pinged_at > grpc->heard_at) {
                net_fail(&grpc->net, PAWL_UNREACHABLE, "%s: no sign of life for %lld s", grpc->authority,
                         (long long)(quiet / SECOND));
                return NEVER;
        }
        if (grpc->pinged_at <= grpc->heard_at) {
                nghttp2_submit_ping(grpc->session, NGHTTP2_FLAG_NONE, NULL);
                grpc->pinged_at = now;
        }
        return grpc->heard_at + dead_after;
}

static void due(struct timer *timer)
{
        struct grpc *grpc = container_of(timer, struct grpc, timer);
        int64_t now = loop_now(grpc->net.loop);
        int64_t overdue, life;

        loop_set(grpc->net.loop, timer, NEVER); /* into the place that it has just left: that cannot fail */
        if (!grpc->session || grpc->net.failing)
                return;
        if (!grpc->ready && now >= grpc->until) {
                net_fail(&grpc->net, PAWL_UNREACHABLE,
                         "%s: no answer: the server hangs, or this port speaks another protocol", grpc->authority);
                return;
        }
        grpc->hearing = true;
        grpc->submitted = true; /* something may be */
        overdue = find_overdue(grpc, now);
        life = look_for_life(grpc, now);
        look_at(grpc, overdue < life ? overdue : life);
        if (!grpc->ready)
                look_at(grpc, grpc->until);
        catch_up(grpc);
}

/* ---- from outside ------------------------------------------------------------------------------------------------ */

static const struct net_events events = {.up = up, .heard = heard, .down = down};

static void set_authority(struct grpc *grpc)
{
        const struct net_target *target = grpc->net.target;
        bool v6 = target->host && strchr(target->host, ':');

        if (target->path)
                snprintf(grpc->authority, sizeof(grpc->authority), "localhost");
        else
                snprintf(grpc->authority, sizeof(grpc->authority), "%s%.250s%s:%u", v6 ? "[" : "", target->host,
                         v6 ? "]" : "", (unsigned)target->port);
}

void grpc_init(struct grpc *grpc, struct loop *loop, const struct grpc_events *told, const struct net_target *target)
{
        *grpc = (struct grpc){.events = told};
        net_init(&grpc->net, loop, &events, target);
        list_init(&grpc->calls);
        list_init(&grpc->streams);
        list_init(&grpc->dying);
        list_init(&grpc->news);
        list_init(&grpc->spare);
        grpc->timer.fire = due;
        grpc->allocator =
                (ProtobufCAllocator){.alloc = arena_take, .free = arena_leave, .allocator_data = &grpc->arena};
        set_authority(grpc);
}

void grpc_set_target(struct grpc *grpc, const struct net_target *target)
{
        grpc->net.target = target;
        set_authority(grpc);
}

int grpc_connect(struct grpc *grpc, int64_t time_limit, struct pawl_why *why)
{
        int64_t now = loop_now(grpc->net.loop);
        int code;

        grpc->until = time_limit < NEVER - now ? now + time_limit : NEVER;
        if (loop_set(grpc->net.loop, &grpc->timer, grpc->until) != 0)
                return why_set(why, PAWL_NO_MEMORY, "no memory to connect");
        code = net_connect(&grpc->net, time_limit, why);
        if (code != PAWL_OK)
                loop_unset(grpc->net.loop, &grpc->timer);
        return code;
}

static void drop_token(struct grpc *grpc)
{
        if (grpc->token)
                explicit_bzero(grpc->token, strlen(grpc->token));
        free(grpc->token);
        grpc->token = NULL;
}

int grpc_set_token(struct grpc *grpc, const char *token)
{
        char *copy = token ? strdup(token) : NULL;

        if (token && !copy)
                return PAWL_NO_MEMORY;
        drop_token(grpc);
        grpc->token = copy;
        return PAWL_OK;
}

void grpc_fail(struct grpc *grpc, int code, const char *sentence)
{
        net_fail(&grpc->net, code, "%s", sentence);
}

static void forget_all(struct list *flows)
{
        for (struct list *at = flows->next; at != flows; at = at->next) {
                struct grpc_flow *flow = container_of(at, struct grpc_flow, listed);

                if (flow->call)
                        flow->call->flow = NULL;
                if (flow->stream)
                        flow->stream->flow = NULL;
        }
        flows_free(flows);
}

void grpc_close(struct grpc *grpc)
{
        if (grpc->closed)
                *grpc->closed = true;
        grpc->closed = NULL;
        forget_all(&grpc->calls);
        forget_all(&grpc->streams);
        grpc->asked = 0;
        end_session(grpc);
        flows_free(&grpc->spare);
        grpc->spares = 0;
        arena_free(&grpc->arena);
        drop_token(grpc);
        net_close(&grpc->net);
}
