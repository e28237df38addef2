/* jute.h - ZooKeeper's records as bytes: the few of its protocol that locks need, written into given memory and
 * read in place. Nothing is allocated and nothing is sent here; texts are views of what was received.
 *
 * A packet is a length of four bytes and so much behind it: a header and a record. Everything is big-endian. Many
 * requests may be written one behind the other into the same memory and sent at once; replies come in the order of
 * the requests:
 *
 *   start = jute_begin(&out, xid, ZK_CREATE2);            jute_get_reply(&in, &reply);
 *   jute_put_create(&out, path, data, size, acl, flags);  if (reply.error == ZK_OK)
 *   jute_end(&out, start);                                        jute_get_created(&in, &path, &stat);
 */
#ifndef PAWL_JUTE_H
#define PAWL_JUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- words of the protocol ------------------------------------------------------------------------------------- */

enum zk_op {
        ZK_ERROR = -1, /* in the answer to a multi */
        ZK_CREATE = 1,
        ZK_DELETE = 2,
        ZK_EXISTS = 3,
        ZK_GET_DATA = 4,
        ZK_SET_DATA = 5,
        ZK_GET_ACL = 6,
        ZK_SYNC = 9,
        ZK_PING = 11,
        ZK_GET_CHILDREN2 = 12,
        ZK_CHECK = 13,
        ZK_MULTI = 14,
        ZK_CREATE2 = 15,
        ZK_CREATE_CONTAINER = 19, /* 3.5 and later */
        ZK_AUTH = 100,
        ZK_SET_WATCHES = 101,
        ZK_GET_EPHEMERALS = 103, /* 3.6 and later */
        ZK_CLOSE = -11
};

/* Numbers of packets that are not ours to choose. */
enum zk_xid { ZK_XID_EVENT = -1, ZK_XID_PING = -2, ZK_XID_AUTH = -4, ZK_XID_SET_WATCHES = -8 };

enum zk_create_flag { ZK_PERSISTENT = 0, ZK_EPHEMERAL = 1, ZK_SEQUENTIAL = 2, ZK_CONTAINER = 4 };

enum zk_event_type {
        ZK_EVENT_SESSION = -1,
        ZK_EVENT_CREATED = 1,
        ZK_EVENT_DELETED = 2,
        ZK_EVENT_CHANGED = 3, /* its data */
        ZK_EVENT_CHILD = 4    /* the list of its children */
};

enum zk_permission { ZK_READ = 1, ZK_WRITE = 2, ZK_MAY_CREATE = 4, ZK_MAY_DELETE = 8, ZK_ADMIN = 16, ZK_ALL = 31 };

enum zk_error {
        ZK_OK = 0,
        ZK_SYSTEM = -1,
        ZK_INCONSISTENT = -2, /* of an operation of a multi: another one failed */
        ZK_DATA_INCONSISTENT = -3,
        ZK_CONNECTION_LOSS = -4,
        ZK_MARSHALLING = -5, /* also: a request longer than jute.maxbuffer */
        ZK_UNIMPLEMENTED = -6,
        ZK_OPERATION_TIMEOUT = -7,
        ZK_BAD_ARGUMENTS = -8,
        ZK_NO_NODE = -101,
        ZK_NO_AUTH = -102,
        ZK_BAD_VERSION = -103,
        ZK_NO_CHILDREN_FOR_EPHEMERALS = -108,
        ZK_NODE_EXISTS = -110,
        ZK_NOT_EMPTY = -111,
        ZK_SESSION_EXPIRED = -112,
        ZK_INVALID_ACL = -114,
        ZK_AUTH_FAILED = -115,
        ZK_SESSION_MOVED = -118,
        ZK_NOT_READ_ONLY = -119, /* a write, sent to a server that has no quorum */
        ZK_EPHEMERAL_ON_LOCAL_SESSION = -120,
        ZK_NO_WATCHER = -121,
        ZK_RECONFIG_DISABLED = -123,
        ZK_SESSION_CLOSED_REQUIRE_SASL = -124,
        ZK_QUOTA_EXCEEDED = -125,
        ZK_THROTTLED = -127
};

/* The code of pawl.h for an error of the server, and a sentence without a full stop ("the server is throttling"). */
int zk_error(int error, const char **sentence);

/* ---- writing --------------------------------------------------------------------------------------------------- */

struct jute_out {
        char *start, *at, *end;
        bool full; /* something did not fit: what was written must not be sent */
};

static inline void jute_out_init(struct jute_out *out, void *memory, size_t size)
{
        *out = (struct jute_out){.start = memory, .at = memory, .end = (char *)memory + size};
}
static inline size_t jute_written(const struct jute_out *out)
{
        return (size_t)(out->at - out->start);
}

void jute_put_bool(struct jute_out *out, bool value);
void jute_put_int(struct jute_out *out, int32_t value);
void jute_put_long(struct jute_out *out, int64_t value);
void jute_put_bytes(struct jute_out *out, const void *data, size_t size); /* a buffer, with its length */
void jute_put_text(struct jute_out *out, const char *text);

/* Leaves room for the length; returns where, for jute_end. */
size_t jute_begin_packet(struct jute_out *out);
/* The same, and the header of a request. */
size_t jute_begin(struct jute_out *out, int32_t xid, enum zk_op op);
void jute_end(struct jute_out *out, size_t start);

enum { ZK_PASSWORD_SIZE = 16 };

struct zk_connect {
        int64_t last_zxid; /* request only */
        int64_t session;   /* 0: a new one; answered: there is none any more */
        int32_t timeout_ms;
        char password[ZK_PASSWORD_SIZE];
        bool read_only; /* request: a server without a quorum will do; answer: it is one */
};
/* A whole packet. */
void jute_put_connect(struct jute_out *out, const struct zk_connect *connect);

/* Whole packets without a body, or with one that never changes. */
void jute_put_close(struct jute_out *out, int32_t xid);
void jute_put_auth(struct jute_out *out, const char *scheme, const char *text, size_t length);

/* Who may do what with a node that is made. */
enum zk_acl {
        ZK_ACL_OPEN,   /* world:anyone may do everything */
        ZK_ACL_CREATOR /* who has authenticated as we have may do everything, others nothing */
};

/* The bodies of requests; they follow jute_begin, or jute_begin_op in a multi. version -1: whatever it is. */
void jute_put_create(struct jute_out *out, const char *path, const void *data, size_t size, enum zk_acl acl,
                     int32_t flags);                                                 /* create, create2, container */
void jute_put_path(struct jute_out *out, const char *path);                          /* sync, getACL, getEphemerals */
void jute_put_path_version(struct jute_out *out, const char *path, int32_t version); /* delete, check */
void jute_put_path_watch(struct jute_out *out, const char *path, bool watch);        /* exists, getData, getChildren2 */
void jute_put_set_data(struct jute_out *out, const char *path, const void *data, size_t size, int32_t version);
/* setWatches is a long (the last zxid seen) and three vectors of paths: on data, on existence, on children. */
void jute_put_count(struct jute_out *out, size_t count);

/* One operation of a multi: its header; its body follows. jute_end_ops is behind the last. A create2 in a multi is
 * taken for a create, whose answer has no stat (3.8): the node's czxid is the reply's zxid. */
void jute_begin_op(struct jute_out *out, enum zk_op op);
void jute_end_ops(struct jute_out *out);

/* ---- reading --------------------------------------------------------------------------------------------------- */

struct jute_in {
        const char *at, *end;
        bool bad; /* something was not what it should be: all that was read since is zero or empty */
};

struct jute_text {
        const char *at; /* not terminated; never NULL */
        size_t length;
};

static inline void jute_in_init(struct jute_in *in, const void *data, size_t size)
{
        *in = (struct jute_in){.at = data, .end = (const char *)data + size};
}

/* The first packet of what was received. Returns its length with the four bytes before it, or 0: not all of it is
 * there yet. It is bad if it says that it is longer than most. */
size_t jute_packet(const void *data, size_t size, size_t most, struct jute_in *packet);

bool jute_get_bool(struct jute_in *in);
int32_t jute_get_int(struct jute_in *in);
int64_t jute_get_long(struct jute_in *in);
struct jute_text jute_get_text(struct jute_in *in); /* a text or a buffer; the same as bytes */
/* The number of elements of a vector, each of at least so many bytes: never more than there is room for in what is
 * left. */
size_t jute_get_count(struct jute_in *in, size_t least);

void jute_get_connect(struct jute_in *in, struct zk_connect *answer);

struct zk_reply {
        int32_t xid;
        int64_t zxid;
        int32_t error; /* enum zk_error; if it is not ZK_OK nothing follows */
};
void jute_get_reply(struct jute_in *in, struct zk_reply *reply);

struct zk_stat {
        int64_t czxid, mzxid, ctime_ms, mtime_ms;
        int32_t version, cversion, aversion;
        int64_t owner; /* the session, of an ephemeral node; else 0, or another sign of a container */
        int32_t data_length, children;
        int64_t pzxid;
};
void jute_get_stat(struct jute_in *in, struct zk_stat *stat); /* exists, setData */

void jute_get_created(struct jute_in *in, struct jute_text *path, struct zk_stat *stat); /* create2, container */
void jute_get_data(struct jute_in *in, struct jute_text *data, struct zk_stat *stat);    /* getData */
/* getChildren2 and getEphemerals begin with a vector of texts: jute_get_count(in, 4), then jute_get_text for each;
 * behind those of getChildren2 is the parent's stat. getACL: jute_get_count(in, 12), then these, then a stat. */
struct zk_access {
        int32_t permissions;
        struct jute_text scheme, id;
};
void jute_get_access(struct jute_in *in, struct zk_access *access);

struct zk_event {
        int32_t type, state;
        struct jute_text path;
};
void jute_get_event(struct jute_in *in, struct zk_event *event);

/* One result of a multi; false behind the last, or if it is bad. If one failed then all have an error: that one
 * its own, those before it ZK_OK, those behind it ZK_INCONSISTENT, and all are ZK_ERROR. */
struct zk_result {
        int32_t op; /* enum zk_op */
        int32_t error;
        struct jute_text path; /* create, create2 */
        struct zk_stat stat;   /* create2, setData */
};
bool jute_get_result(struct jute_in *in, struct zk_result *result);
/* Reads all of them and says which failed first: its error, and its place if failed is not NULL. ZK_OK: none did. */
int jute_get_results(struct jute_in *in, size_t *failed);

#endif
