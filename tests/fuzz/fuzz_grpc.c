/* fuzz_grpc.c - any bytes as a gRPC server's. We speak to a unix socket of our own in the same thread; whatever comes, every
 * call is answered once and every stream ends once, nothing crashes, and messages are unpacked as each kind we know.
 *
 * An input is a byte that says in how many pieces the rest comes, then what the server says. Calls have the streams 3, 5
 * and 7, the two-way stream has 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/etcd/etcd.pb-c.h"
#include "engine/etcd/grpc.h"
#include "fuzz.h"

enum { CALLS = 3, TURNS = 4, INPUT_MAX = 64 * 1024 };

struct scene {
        struct grpc grpc; /* first */
        struct loop loop;
        struct net_target target;
        char path[64];
        int listener, server;
        int ups, downs;
        struct call {
                struct grpc_call call; /* first */
                struct scene *scene;
                int asked, answers;
        } calls[CALLS];
        struct grpc_stream stream;
        int opened, ended;
};

static const ProtobufCMessageDescriptor *const kinds[] = {
        &pb__range_response__descriptor,
        &pb__txn_response__descriptor,
        &pb__delete_range_response__descriptor,
        &pb__lease_grant_response__descriptor,
        &pb__lease_keep_alive_response__descriptor,
        &pb__lease_time_to_live_response__descriptor,
        &pb__watch_response__descriptor,
        &pb__status_response__descriptor,
        &pb__alarm_response__descriptor,
        &pb__member_list_response__descriptor,
};

static void unpack(struct grpc *grpc, const uint8_t *bytes, size_t size)
{
        for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
                const ProtobufCMessage *message = grpc_unpack(grpc, kinds[i], bytes, size);

                if (message && !protobuf_c_message_check(message))
                        abort();
        }
}

static void write_range(struct grpc_call *call, struct grpc_out *out)
{
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;

        (void)call;
        grpc_write(out, &range.base);
}

static void on_answered(struct grpc_call *grpc_call, const struct grpc_answer *answer)
{
        struct call *call = (struct call *)(void *)grpc_call;

        call->answers++;
        if (strlen(answer->text) > sizeof(((struct pawl_why *)NULL)->text))
                abort();
        if (answer->status == GRPC_OK)
                unpack(&call->scene->grpc, answer->bytes, answer->size);
}

static void on_heard(struct grpc_stream *stream, const uint8_t *bytes, size_t size)
{
        unpack(&container_of(stream, struct scene, stream)->grpc, bytes, size);
}

static void on_ended(struct grpc_stream *stream, const struct grpc_answer *answer)
{
        (void)answer;
        container_of(stream, struct scene, stream)->ended++;
}

static void on_up(struct grpc *grpc)
{
        struct scene *scene = (struct scene *)(void *)grpc;
        Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;

        scene->ups++;
        scene->stream = (struct grpc_stream){.method = "/s/s", .heard = on_heard, .ended = on_ended};
        scene->opened += grpc_open(grpc, &scene->stream) == PAWL_OK;
        if (scene->stream.flow)
                grpc_send(grpc, &scene->stream, &request.base);
        for (int i = 0; i < CALLS; i++) {
                struct call *call = &scene->calls[i];

                *call = (struct call){.scene = scene};
                call->call = (struct grpc_call){
                        .method = "/c/c", .write = write_range, .answered = on_answered, .timeout = 60 * SECOND};
                call->asked += grpc_ask(grpc, &call->call) == PAWL_OK;
        }
}

static void on_down(struct grpc *grpc, const struct pawl_why *why)
{
        (void)why;
        ((struct scene *)(void *)grpc)->downs++;
}

static const struct grpc_events events = {.up = on_up, .down = on_down};

static void turn(struct scene *scene)
{
        char gone[4096];

        loop_turn(&scene->loop);
        while (scene->server >= 0 && recv(scene->server, gone, sizeof(gone), MSG_DONTWAIT) > 0)
                ;
}

static void begin(struct scene *scene)
{
        static unsigned number;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int length;

        memset(scene, 0, sizeof(*scene));
        scene->server = -1;
        snprintf(scene->path, sizeof(scene->path), "@pawl-fuzz-grpc-%d-%u", (int)getpid(), number++);
        length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", scene->path + 1);
        scene->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (scene->listener < 0 ||
            bind(scene->listener, (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0 ||
            listen(scene->listener, 1) != 0 || loop_init(&scene->loop, NULL) != 0)
                abort();
        scene->target = (struct net_target){.path = scene->path};
        grpc_init(&scene->grpc, &scene->loop, &events, &scene->target);
        if (grpc_connect(&scene->grpc, 60 * SECOND, NULL) != PAWL_OK)
                abort();
        scene->server = accept4(scene->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        for (int i = 0; i < TURNS; i++)
                turn(scene);
}

static void feed(struct scene *scene, const uint8_t *bytes, size_t size)
{
        while (size > 0) {
                ssize_t n = send(scene->server, bytes, size, MSG_NOSIGNAL);

                if (n <= 0)
                        break;
                bytes += n;
                size -= (size_t)n;
                turn(scene);
        }
        for (int i = 0; i < TURNS; i++)
                turn(scene);
}

/* When the server is gone, everything must have been told. */
static void end(struct scene *scene)
{
        close(scene->server);
        scene->server = -1;
        for (int i = 0; i < TURNS; i++)
                turn(scene);
        if (scene->downs != 1 || scene->ended != scene->opened)
                abort();
        for (int i = 0; i < CALLS; i++)
                if (scene->calls[i].answers != scene->calls[i].asked)
                        abort();
        grpc_close(&scene->grpc);
        loop_close(&scene->loop);
        close(scene->listener);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct scene scene;
        size_t piece;

        if (size < 2 || size > INPUT_MAX)
                return 0;
        piece = (size - 1) / (data[0] % 16 + 1) + 1;
        begin(&scene);
        for (size_t at = 1; at < size; at += piece)
                feed(&scene, data + at, at + piece < size ? piece : size - at);
        end(&scene);
        return 0;
}
