/* grpc.h - gRPC on one HTTP/2 connection: calls with one message each way, and two-way streams of them. It knows
 * nothing of etcd; nghttp2 makes the frames, src/net carries the bytes.
 *
 *   DOWN --grpc_connect--> (net, TLS, the server's SETTINGS) --> up --> (calls, streams)* --> down
 *
 * Events are told as net.h tells them: never inside the call that caused them. A call may be asked, and a stream be
 * opened, in any of them. */
#ifndef PAWL_GRPC_H
#define PAWL_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "../../base/list.h"
#include "../../net/net.h"

enum {
        GRPC_MESSAGE_MAX = 64 << 20, /* a longer message is refused, in either direction */
        GRPC_MEMORY_MAX = 256 << 20, /* what a message may take when it is unpacked */
        GRPC_TEXT_MAX = 200
};

/* As they come over the wire; then our own. */
enum grpc_status {
        GRPC_OK = 0,
        GRPC_CANCELLED = 1,
        GRPC_UNKNOWN = 2,
        GRPC_INVALID_ARGUMENT = 3,
        GRPC_DEADLINE_EXCEEDED = 4,
        GRPC_NOT_FOUND = 5,
        GRPC_ALREADY_EXISTS = 6,
        GRPC_PERMISSION_DENIED = 7,
        GRPC_RESOURCE_EXHAUSTED = 8,
        GRPC_FAILED_PRECONDITION = 9,
        GRPC_ABORTED = 10,
        GRPC_OUT_OF_RANGE = 11,
        GRPC_UNIMPLEMENTED = 12,
        GRPC_INTERNAL = 13,
        GRPC_UNAVAILABLE = 14,
        GRPC_DATA_LOSS = 15,
        GRPC_UNAUTHENTICATED = 16,
        GRPC_LOST = 100, /* the connection was lost */
        GRPC_OVERDUE,    /* not answered in time */
        GRPC_STRANGE,    /* what answers does not speak gRPC, or says what makes no sense */
        GRPC_NO_MEMORY
};

/* Borrowed for the event in which it is told. */
struct grpc_answer {
        int status;       /* GRPC_OK: bytes are the message; else text says why */
        bool undone;      /* the server has not begun to do it: it may be asked again without doubt */
        const char *text; /* what the server said, or a sentence of ours; never NULL */
        const uint8_t *bytes;
        size_t size;
};

struct grpc;
struct grpc_flow; /* what is under way of a call or stream */
struct grpc_out;  /* where a message is written */

/* One call, in the asker's memory, which is kept until it was answered. The asker sets what stands above the line. */
struct grpc_call {
        const char *method; /* "/etcdserverpb.KV/Txn"; a literal */
        /* Writes the message by one grpc_write. Called once, when there is room in the connection: perhaps in a later
         * turn. */
        void (*write)(struct grpc_call *call, struct grpc_out *out);
        /* Exactly once for each grpc_ask that was PAWL_OK. */
        void (*answered)(struct grpc_call *call, const struct grpc_answer *answer);
        int64_t timeout; /* answered with GRPC_OVERDUE after it; ns */
        bool leaderless; /* also a member without a leader shall answer */
        /* ---- */
        int64_t sent_at; /* before write was called; loop time */
        struct grpc_flow *flow;
};

/* PAWL_OK; PAWL_UNREACHABLE: not up, or the server wants no more on this connection; PAWL_NO_MEMORY. */
int grpc_ask(struct grpc *grpc, struct grpc_call *call);
/* It will not be answered any more, and the server is told so. Also for one that is not under way. */
void grpc_forget(struct grpc *grpc, struct grpc_call *call);
static inline bool grpc_asked(const struct grpc_call *call)
{
        return call->flow != NULL;
}

void grpc_write(struct grpc_out *out, const ProtobufCMessage *message);

/* A two-way stream. */
struct grpc_stream {
        const char *method;
        void (*heard)(struct grpc_stream *stream, const uint8_t *bytes, size_t size); /* one message */
        /* It is over, whoever ended it: never GRPC_OK without a reason for us to open it again. Not after grpc_end. */
        void (*ended)(struct grpc_stream *stream, const struct grpc_answer *answer);
        /* ---- */
        struct grpc_flow *flow;
};

/* As grpc_ask. */
int grpc_open(struct grpc *grpc, struct grpc_stream *stream);
/* PAWL_OK: it is copied, and goes out in its order; PAWL_NO_MEMORY; PAWL_UNREACHABLE: the stream is not open. */
int grpc_send(struct grpc *grpc, struct grpc_stream *stream, const ProtobufCMessage *message);
void grpc_end(struct grpc *grpc, struct grpc_stream *stream);

struct grpc_events {
        /* Connected, and the server speaks HTTP/2. */
        void (*up)(struct grpc *grpc);
        /* It is DOWN, as net.h says; every call was answered and every stream ended before. grpc_connect may be
         * called. */
        void (*down)(struct grpc *grpc, const struct pawl_why *why);
};

struct grpc_arena { /* memory for unpacked messages, given back all at once */
        struct grpc_chunk *chunks;
        size_t taken;
};

struct nghttp2_session;

struct grpc {
        struct net net; /* first */
        const struct grpc_events *events;
        struct nghttp2_session *session; /* NULL: not connected */
        struct list calls;               /* of struct grpc_flow, under way */
        struct list streams;
        struct list dying;    /* nobody wants them; nghttp2 still knows of them */
        struct list news;     /* those of which something is to be told */
        struct list spare;    /* flows for the next calls */
        size_t spares, asked; /* asked: calls under way */
        struct timer timer;   /* the connection's limit; then the earliest call's, or a ping */
        struct grpc_arena arena;
        ProtobufCAllocator allocator;
        char *token;
        char authority[300];
        int64_t until; /* of connecting */
        int64_t heard_at, pinged_at;
        bool settled;      /* the server's SETTINGS came */
        bool ready;        /* up was told */
        bool leaving;      /* the server sent GOAWAY: nothing new */
        bool hearing;      /* what is submitted goes out at the end of the event */
        bool submitted;    /* something of ours is to be sent */
        bool served;       /* an answer or a message was told */
        size_t unanswered; /* bytes that were heard since we last sent anything */
        bool *closed;      /* in an event of ours: set by grpc_close */
};

/* Never fails; grpc_close undoes it. target is borrowed. */
void grpc_init(struct grpc *grpc, struct loop *loop, const struct grpc_events *events, const struct net_target *target);
/* Another server from the next grpc_connect on. Only while DOWN. */
void grpc_set_target(struct grpc *grpc, const struct net_target *target);
/* As net_connect. up or down is told in a later turn. */
int grpc_connect(struct grpc *grpc, int64_t time_limit, struct pawl_why *why);
/* Metadata `token` of all calls from now on; NULL: none. Copied. PAWL_OK or PAWL_NO_MEMORY. */
int grpc_set_token(struct grpc *grpc, const char *token);
/* As net_fail: calls are answered with GRPC_LOST, then down is told. */
void grpc_fail(struct grpc *grpc, int code, const char *sentence);
/* Ends it without an event: calls and streams are forgotten. Also in an event. grpc_connect may follow. */
void grpc_close(struct grpc *grpc);
/* up, and takes calls. */
static inline bool grpc_ready(const struct grpc *grpc)
{
        return grpc->ready && !grpc->leaving;
}

/* Unpacks a message: NULL if it is none of that kind, or no memory. Valid until the event returns in which it was told:
 * nobody frees it. */
void *grpc_unpack(struct grpc *grpc, const ProtobufCMessageDescriptor *kind, const uint8_t *bytes, size_t size);

#endif
