/* jute.c - the records of jute.h, byte by byte, and what the server's errors mean to somebody who wants a lock. */
#include "jute.h"

#include <string.h>

#include "pawl.h"

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* Room for so many bytes, or NULL from the first time on that there was none. */
static char *take(struct jute_out *out, size_t size)
{
        char *at = out->at;

        if (out->full || size > (size_t)(out->end - at)) {
                out->full = true;
                return NULL;
        }
        out->at += size;
        return at;
}

static void write_int(char *at, uint32_t value)
{
        at[0] = (char)(value >> 24);
        at[1] = (char)(value >> 16);
        at[2] = (char)(value >> 8);
        at[3] = (char)value;
}

void jute_put_bool(struct jute_out *out, bool value)
{
        char *at = take(out, 1);

        if (at)
                *at = value;
}

void jute_put_int(struct jute_out *out, int32_t value)
{
        char *at = take(out, 4);

        if (at)
                write_int(at, (uint32_t)value);
}

void jute_put_long(struct jute_out *out, int64_t value)
{
        char *at = take(out, 8);

        if (!at)
                return;
        write_int(at, (uint32_t)((uint64_t)value >> 32));
        write_int(at + 4, (uint32_t)value);
}

void jute_put_bytes(struct jute_out *out, const void *data, size_t size)
{
        char *at = size <= INT32_MAX ? take(out, 4 + size) : NULL;

        if (!at) {
                out->full = true;
                return;
        }
        write_int(at, (uint32_t)size);
        if (size > 0)
                memcpy(at + 4, data, size);
}

void jute_put_text(struct jute_out *out, const char *text)
{
        jute_put_bytes(out, text, strlen(text));
}

void jute_put_count(struct jute_out *out, size_t count)
{
        if (count > INT32_MAX)
                out->full = true;
        else
                jute_put_int(out, (int32_t)count);
}

size_t jute_begin_packet(struct jute_out *out)
{
        size_t start = jute_written(out);

        jute_put_int(out, 0);
        return start;
}

size_t jute_begin(struct jute_out *out, int32_t xid, enum zk_op op)
{
        size_t start = jute_begin_packet(out);

        jute_put_int(out, xid);
        jute_put_int(out, op);
        return start;
}

void jute_end(struct jute_out *out, size_t start)
{
        size_t length;

        if (out->full)
                return;
        length = jute_written(out) - start - 4;
        if (length > INT32_MAX)
                out->full = true;
        else
                write_int(out->start + start, (uint32_t)length);
}

void jute_put_connect(struct jute_out *out, const struct zk_connect *connect)
{
        size_t start = jute_begin_packet(out);

        jute_put_int(out, 0); /* the version of the protocol: there was never another */
        jute_put_long(out, connect->last_zxid);
        jute_put_int(out, connect->timeout_ms);
        jute_put_long(out, connect->session);
        jute_put_bytes(out, connect->password, sizeof(connect->password));
        jute_put_bool(out, connect->read_only);
        jute_end(out, start);
}

void jute_put_close(struct jute_out *out, int32_t xid)
{
        jute_end(out, jute_begin(out, xid, ZK_CLOSE));
}

void jute_put_auth(struct jute_out *out, const char *scheme, const char *text, size_t length)
{
        size_t start = jute_begin(out, ZK_XID_AUTH, ZK_AUTH);

        jute_put_int(out, 0); /* a type that no server looks at */
        jute_put_text(out, scheme);
        jute_put_bytes(out, text, length);
        jute_end(out, start);
}

static void put_acl(struct jute_out *out, enum zk_acl acl)
{
        jute_put_int(out, 1);
        jute_put_int(out, ZK_ALL);
        jute_put_text(out, acl == ZK_ACL_CREATOR ? "auth" : "world");
        jute_put_text(out, acl == ZK_ACL_CREATOR ? "" : "anyone");
}

void jute_put_create(struct jute_out *out, const char *path, const void *data, size_t size, enum zk_acl acl,
                     int32_t flags)
{
        jute_put_text(out, path);
        jute_put_bytes(out, data, size);
        put_acl(out, acl);
        jute_put_int(out, flags);
}

void jute_put_path(struct jute_out *out, const char *path)
{
        jute_put_text(out, path);
}

void jute_put_path_version(struct jute_out *out, const char *path, int32_t version)
{
        jute_put_text(out, path);
        jute_put_int(out, version);
}

void jute_put_path_watch(struct jute_out *out, const char *path, bool watch)
{
        jute_put_text(out, path);
        jute_put_bool(out, watch);
}

void jute_put_set_data(struct jute_out *out, const char *path, const void *data, size_t size, int32_t version)
{
        jute_put_text(out, path);
        jute_put_bytes(out, data, size);
        jute_put_int(out, version);
}

static void put_op_header(struct jute_out *out, int32_t op, bool done)
{
        jute_put_int(out, op);
        jute_put_bool(out, done);
        jute_put_int(out, -1);
}

void jute_begin_op(struct jute_out *out, enum zk_op op)
{
        put_op_header(out, op, false);
}

void jute_end_ops(struct jute_out *out)
{
        put_op_header(out, ZK_ERROR, true);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static uint32_t read_int(const char *at)
{
        const unsigned char *byte = (const unsigned char *)at;

        return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

/* So many bytes, or NULL from the first time on that they were not there. */
static const char *give(struct jute_in *in, size_t size)
{
        const char *at = in->at;

        if (in->bad || size > (size_t)(in->end - at)) {
                in->bad = true;
                return NULL;
        }
        in->at += size;
        return at;
}

size_t jute_packet(const void *data, size_t size, size_t most, struct jute_in *packet)
{
        size_t length;

        jute_in_init(packet, data, 0);
        if (size < 4)
                return 0;
        length = read_int(data);
        if (length > most) {
                packet->bad = true;
                return size;
        }
        if (length > size - 4)
                return 0;
        jute_in_init(packet, (const char *)data + 4, length);
        return 4 + length;
}

bool jute_get_bool(struct jute_in *in)
{
        const char *at = give(in, 1);

        return at && *at;
}

int32_t jute_get_int(struct jute_in *in)
{
        const char *at = give(in, 4);

        return at ? (int32_t)read_int(at) : 0;
}

int64_t jute_get_long(struct jute_in *in)
{
        const char *at = give(in, 8);

        return at ? (int64_t)((uint64_t)read_int(at) << 32 | read_int(at + 4)) : 0;
}

struct jute_text jute_get_text(struct jute_in *in)
{
        int32_t length = jute_get_int(in);
        const char *at = NULL;

        if (length >= 0)
                at = give(in, (size_t)length);
        else if (length < -1) /* -1 is Java's null */
                in->bad = true;
        return (struct jute_text){.at = at ? at : "", .length = at ? (size_t)length : 0};
}

size_t jute_get_count(struct jute_in *in, size_t least)
{
        int32_t count = jute_get_int(in);

        if (count <= 0) {
                in->bad = in->bad || count < -1;
                return 0;
        }
        if ((size_t)count > (size_t)(in->end - in->at) / least) {
                in->bad = true;
                return 0;
        }
        return (size_t)count;
}

void jute_get_connect(struct jute_in *in, struct zk_connect *answer)
{
        struct jute_text password;

        *answer = (struct zk_connect){0};
        jute_get_int(in); /* the version of the protocol */
        answer->timeout_ms = jute_get_int(in);
        answer->session = jute_get_long(in);
        password = jute_get_text(in);
        if (password.length > sizeof(answer->password)) {
                in->bad = true;
                return;
        }
        if (password.length > 0)
                memcpy(answer->password, password.at, password.length);
        if (in->at < in->end) /* servers before 3.4 do not say it */
                answer->read_only = jute_get_bool(in);
}

void jute_get_reply(struct jute_in *in, struct zk_reply *reply)
{
        reply->xid = jute_get_int(in);
        reply->zxid = jute_get_long(in);
        reply->error = jute_get_int(in);
}

void jute_get_stat(struct jute_in *in, struct zk_stat *stat)
{
        stat->czxid = jute_get_long(in);
        stat->mzxid = jute_get_long(in);
        stat->ctime_ms = jute_get_long(in);
        stat->mtime_ms = jute_get_long(in);
        stat->version = jute_get_int(in);
        stat->cversion = jute_get_int(in);
        stat->aversion = jute_get_int(in);
        stat->owner = jute_get_long(in);
        stat->data_length = jute_get_int(in);
        stat->children = jute_get_int(in);
        stat->pzxid = jute_get_long(in);
}

void jute_get_created(struct jute_in *in, struct jute_text *path, struct zk_stat *stat)
{
        *path = jute_get_text(in);
        jute_get_stat(in, stat);
}

void jute_get_data(struct jute_in *in, struct jute_text *data, struct zk_stat *stat)
{
        *data = jute_get_text(in);
        jute_get_stat(in, stat);
}

void jute_get_access(struct jute_in *in, struct zk_access *access)
{
        access->permissions = jute_get_int(in);
        access->scheme = jute_get_text(in);
        access->id = jute_get_text(in);
}

void jute_get_event(struct jute_in *in, struct zk_event *event)
{
        event->type = jute_get_int(in);
        event->state = jute_get_int(in);
        event->path = jute_get_text(in);
}

static void get_result_body(struct jute_in *in, struct zk_result *result)
{
        switch (result->op) {
        case ZK_ERROR:
                result->error = jute_get_int(in);
                break;
        case ZK_CREATE:
                result->path = jute_get_text(in);
                break;
        case ZK_CREATE2:
        case ZK_CREATE_CONTAINER:
                jute_get_created(in, &result->path, &result->stat);
                break;
        case ZK_SET_DATA:
                jute_get_stat(in, &result->stat);
                break;
        case ZK_DELETE:
        case ZK_CHECK:
                break;
        default:
                in->bad = true;
        }
}

bool jute_get_result(struct jute_in *in, struct zk_result *result)
{
        bool done;

        *result = (struct zk_result){.path = {.at = ""}};
        result->op = jute_get_int(in);
        done = jute_get_bool(in);
        result->error = jute_get_int(in);
        if (in->bad || done)
                return false;
        get_result_body(in, result);
        return !in->bad;
}

int jute_get_results(struct jute_in *in, size_t *failed)
{
        struct zk_result result;
        int error = ZK_OK;

        for (size_t i = 0; jute_get_result(in, &result); i++)
                if (error == ZK_OK && result.error != ZK_OK) {
                        error = result.error;
                        if (failed)
                                *failed = i;
                }
        return in->bad ? ZK_MARSHALLING : error;
}

/* ---- what errors mean ------------------------------------------------------------------------------------------ */

static const struct {
        int error, code;
        const char *sentence;
} meanings[] = {
        {ZK_OK, PAWL_OK, "done"},
        {ZK_SYSTEM, PAWL_UNREACHABLE, "the server failed inside"},
        {ZK_INCONSISTENT, PAWL_UNREACHABLE, "another operation of the same transaction failed"},
        {ZK_DATA_INCONSISTENT, PAWL_CORRUPT, "the server's data are not consistent"},
        {ZK_CONNECTION_LOSS, PAWL_UNREACHABLE, "the server lost its leader"},
        {ZK_MARSHALLING, PAWL_INVALID, "the request could not be read, or is longer than the server's jute.maxbuffer"},
        {ZK_UNIMPLEMENTED, PAWL_UNSUPPORTED, "this server is too old to know the request"},
        {ZK_OPERATION_TIMEOUT, PAWL_UNREACHABLE, "the server took too long"},
        {ZK_BAD_ARGUMENTS, PAWL_INVALID, "the server does not accept the path"},
        {ZK_NO_NODE, PAWL_NOT_FOUND, "there is no such node"},
        {ZK_NO_AUTH, PAWL_DENIED, "the node's ACL does not permit it"},
        {ZK_BAD_VERSION, PAWL_BUSY, "the node was changed by another"},
        {ZK_NO_CHILDREN_FOR_EPHEMERALS, PAWL_INVALID, "the parent is an ephemeral node, which has no children"},
        {ZK_NODE_EXISTS, PAWL_BUSY, "there is such a node already"},
        {ZK_NOT_EMPTY, PAWL_BUSY, "the node has children"},
        {ZK_SESSION_EXPIRED, PAWL_LOST, "the session has expired"},
        {ZK_INVALID_ACL, PAWL_DENIED, "the server does not accept the ACL: is there a user in the URL?"},
        {ZK_AUTH_FAILED, PAWL_DENIED, "the server does not accept the user and password"},
        {ZK_SESSION_MOVED, PAWL_UNREACHABLE, "the session has moved to another server"},
        {ZK_NOT_READ_ONLY, PAWL_UNREACHABLE, "the server has no quorum and can only be read"},
        {ZK_EPHEMERAL_ON_LOCAL_SESSION, PAWL_UNSUPPORTED, "the server's local sessions cannot have ephemeral nodes"},
        {ZK_NO_WATCHER, PAWL_NOT_FOUND, "there is no such watch"},
        {ZK_RECONFIG_DISABLED, PAWL_UNSUPPORTED, "the server's reconfiguration is switched off"},
        {ZK_SESSION_CLOSED_REQUIRE_SASL, PAWL_DENIED, "the server requires SASL, which pawl does not speak"},
        {ZK_QUOTA_EXCEEDED, PAWL_FULL, "the quota of the subtree is used up"},
        {ZK_THROTTLED, PAWL_UNREACHABLE, "the server is throttling requests"},
};

int zk_error(int error, const char **sentence)
{
        for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
                if (meanings[i].error == error) {
                        *sentence = meanings[i].sentence;
                        return meanings[i].code;
                }
        *sentence = "the server answered with an error that pawl does not know";
        return PAWL_OTHER_VERSION;
}
