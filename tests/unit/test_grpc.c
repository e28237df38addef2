/* test_grpc.c - gRPC against a real etcd, and against servers of our own that break the rules. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/etcd/etcd.pb-c.h"
#include "engine/etcd/grpc.h"
#include "net_user.h"

/* ---- somebody who asks ------------------------------------------------------------------------------------------- */

struct asker {
        struct grpc grpc; /* first */
        struct net_target target;
        char host[64];
        int ups, downs;
        bool close_when_answered;
        struct pawl_why why;
};

static void on_up(struct grpc *grpc)
{
        ((struct asker *)(void *)grpc)->ups++;
}

static void on_down(struct grpc *grpc, const struct pawl_why *why)
{
        struct asker *asker = (struct asker *)(void *)grpc;

        asker->downs++;
        asker->why = *why;
}

static const struct grpc_events events = {.up = on_up, .down = on_down};

static void ask_at(struct asker *asker, const char *host, uint16_t port)
{
        *asker = (struct asker){0};
        REQUIRE_INT(loop_init(&loop, NULL), 0);
        snprintf(asker->host, sizeof(asker->host), "%s", host);
        asker->target = (struct net_target){.host = asker->host, .port = port};
        grpc_init(&asker->grpc, &loop, &events, &asker->target);
        REQUIRE_INT(grpc_connect(&asker->grpc, 20 * SECOND, NULL), PAWL_OK);
}

/* Connects to the etcd of tests/servers. */
static void begin_at_etcd(struct asker *asker)
{
        const char *url = getenv("ETCD_URL");
        char host[64];
        unsigned port;

        if (!url)
                SKIP("no etcd: run it by tests/servers/with etcd");
        REQUIRE(sscanf(url, "etcd://%63[^:]:%u", host, &port) == 2);
        ask_at(asker, host, (uint16_t)port);
        TURN_UNTIL(asker->ups == 1);
}

static void end_asker(struct asker *asker)
{
        grpc_close(&asker->grpc);
        loop_close(&loop);
}

struct question {
        struct grpc_call call; /* first */
        struct asker *asker;
        char key[40];
        size_t value_size; /* of a put */
        int answers;
        int status;
        bool undone;
        char text[300];
        int64_t revision;
        size_t found; /* the size of the value that was found */
};

static void write_put(struct grpc_call *call, struct grpc_out *out)
{
        struct question *question = (struct question *)(void *)call;
        Pb__PutRequest put = PB__PUT_REQUEST__INIT;
        char *value = malloc(question->value_size + 1);

        REQUIRE(value != NULL);
        memset(value, 'v', question->value_size);
        put.key = (ProtobufCBinaryData){.data = (uint8_t *)question->key, .len = strlen(question->key)};
        put.value = (ProtobufCBinaryData){.data = (uint8_t *)value, .len = question->value_size};
        grpc_write(out, &put.base);
        free(value);
}

static void write_range(struct grpc_call *call, struct grpc_out *out)
{
        struct question *question = (struct question *)(void *)call;
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;

        range.key = (ProtobufCBinaryData){.data = (uint8_t *)question->key, .len = strlen(question->key)};
        grpc_write(out, &range.base);
}

static void write_revoke(struct grpc_call *call, struct grpc_out *out)
{
        Pb__LeaseRevokeRequest revoke = PB__LEASE_REVOKE_REQUEST__INIT;

        (void)call;
        revoke.id = 4711;
        grpc_write(out, &revoke.base);
}

static void on_answered(struct grpc_call *call, const struct grpc_answer *answer)
{
        struct question *question = (struct question *)(void *)call;
        struct grpc *grpc = &question->asker->grpc;

        question->answers++;
        question->status = answer->status;
        question->undone = answer->undone;
        snprintf(question->text, sizeof(question->text), "%s", answer->text);
        if (answer->status == GRPC_OK && call->write == write_put) {
                Pb__PutResponse *put = grpc_unpack(grpc, &pb__put_response__descriptor, answer->bytes, answer->size);

                REQUIRE(put && put->header);
                question->revision = put->header->revision;
        } else if (answer->status == GRPC_OK && call->write == write_range) {
                Pb__RangeResponse *range =
                        grpc_unpack(grpc, &pb__range_response__descriptor, answer->bytes, answer->size);

                REQUIRE(range != NULL);
                question->found = range->n_kvs > 0 ? range->kvs[0]->value.len : 0;
        }
        if (question->asker->close_when_answered)
                grpc_close(grpc);
}

static void prepare(struct question *question, struct asker *asker, const char *method,
                    void (*write)(struct grpc_call *, struct grpc_out *))
{
        *question = (struct question){.asker = asker, .status = -1};
        question->call.method = method;
        question->call.write = write;
        question->call.answered = on_answered;
        question->call.timeout = 30 * SECOND;
        snprintf(question->key, sizeof(question->key), "test_grpc");
}

static void ask(struct question *question)
{
        REQUIRE_INT(grpc_ask(&question->asker->grpc, &question->call), PAWL_OK);
        CHECK_INT(question->answers, 0);
}

static void ask_and_wait(struct question *question)
{
        question->answers = 0;
        ask(question);
        TURN_UNTIL(question->answers == 1);
}

static const char put_method[] = "/etcdserverpb.KV/Put";
static const char range_method[] = "/etcdserverpb.KV/Range";

/* ---- calls ------------------------------------------------------------------------------------------------------- */

TEST(a_call_is_answered_with_a_message)
{
        struct asker asker;
        struct question put, get;

        begin_at_etcd(&asker);
        prepare(&put, &asker, put_method, write_put);
        put.value_size = 100;
        ask_and_wait(&put);
        CHECK_INT(put.status, GRPC_OK);
        CHECK(put.revision > 0);
        prepare(&get, &asker, range_method, write_range);
        ask_and_wait(&get);
        CHECK_INT(get.status, GRPC_OK);
        CHECK_UINT(get.found, 100);
        CHECK(!grpc_asked(&get.call));
        end_asker(&asker);
}

TEST(a_message_may_be_longer_than_a_frame_and_a_window)
{
        struct asker asker;
        struct question put, get;

        begin_at_etcd(&asker);
        prepare(&put, &asker, put_method, write_put);
        put.value_size = 1000 * 1000; /* etcd takes 1.5 MB; its window is 64 KB, a frame 16 KB */
        ask_and_wait(&put);
        CHECK_INT(put.status, GRPC_OK);
        prepare(&get, &asker, range_method, write_range);
        for (int i = 0; i < 20; i++) { /* more than our windows, if we did not open them again */
                ask_and_wait(&get);
                CHECK_INT(get.status, GRPC_OK);
                CHECK_UINT(get.found, 1000 * 1000);
        }
        put.value_size = 1;
        ask_and_wait(&put);
        end_asker(&asker);
}

TEST(what_a_server_refuses_comes_with_its_words)
{
        struct asker asker;
        struct question revoke, unknown;

        begin_at_etcd(&asker);
        prepare(&revoke, &asker, "/etcdserverpb.Lease/LeaseRevoke", write_revoke);
        ask_and_wait(&revoke);
        CHECK_INT(revoke.status, GRPC_NOT_FOUND);
        CHECK_STR(revoke.text, "etcdserver: requested lease not found");
        prepare(&unknown, &asker, "/etcdserverpb.KV/Sing", write_range);
        ask_and_wait(&unknown);
        CHECK_INT(unknown.status, GRPC_UNIMPLEMENTED);
        CHECK_INT(asker.downs, 0);
        end_asker(&asker);
}

TEST(more_calls_than_the_server_takes_at_once_wait_for_their_turn)
{
        enum { MANY = 2000 };
        struct asker asker;
        struct question *many = calloc(MANY, sizeof(*many));
        int answered = 0;

        begin_at_etcd(&asker);
        REQUIRE(many != NULL);
        for (int i = 0; i < MANY; i++) {
                prepare(&many[i], &asker, range_method, write_range);
                ask(&many[i]);
        }
        for (int i = 0; i < MANY; i++) {
                TURN_UNTIL(many[i].answers > 0);
                answered += many[i].answers == 1 && many[i].status == GRPC_OK;
        }
        CHECK_INT(answered, MANY);
        end_asker(&asker);
        free(many);
}

TEST(a_call_that_was_forgotten_is_not_answered)
{
        struct asker asker;
        struct question forgotten, next;

        begin_at_etcd(&asker);
        prepare(&forgotten, &asker, range_method, write_range);
        prepare(&next, &asker, range_method, write_range);
        for (int i = 0; i < 50; i++) {
                ask(&forgotten);
                if (i % 2)
                        turn_once();
                grpc_forget(&asker.grpc, &forgotten.call);
                if (forgotten.answers > 0) /* that turn was fast enough */
                        forgotten.answers = 0;
                ask_and_wait(&next);
                CHECK_INT(next.status, GRPC_OK);
                CHECK_INT(forgotten.answers, 0);
        }
        end_asker(&asker);
}

TEST(a_connection_may_be_closed_in_an_answer)
{
        struct asker asker;
        struct question first, second;

        begin_at_etcd(&asker);
        prepare(&first, &asker, range_method, write_range);
        prepare(&second, &asker, range_method, write_range);
        asker.close_when_answered = true;
        ask(&first);
        ask(&second);
        TURN_UNTIL(first.answers + second.answers > 0);
        turn_once();
        CHECK_INT(first.answers + second.answers, 1);
        CHECK_INT(asker.downs, 0);
        end_asker(&asker);
}

TEST(a_lost_connection_answers_its_calls)
{
        struct asker asker;
        struct question question;

        begin_at_etcd(&asker);
        prepare(&question, &asker, range_method, write_range);
        ask(&question);
        grpc_fail(&asker.grpc, PAWL_UNREACHABLE, "enough");
        CHECK_INT(question.answers, 0);
        TURN_UNTIL(asker.downs == 1);
        CHECK_INT(question.answers, 1);
        CHECK_INT(question.status, GRPC_LOST);
        CHECK_STR(question.text, "enough");
        CHECK_INT(grpc_ask(&asker.grpc, &question.call), PAWL_UNREACHABLE);
        REQUIRE_INT(grpc_connect(&asker.grpc, 20 * SECOND, NULL), PAWL_OK);
        TURN_UNTIL(asker.ups == 2);
        ask_and_wait(&question);
        CHECK_INT(question.status, GRPC_OK);
        end_asker(&asker);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

struct watcher {
        struct grpc_stream stream; /* first */
        struct asker *asker;
        int created, events, ended;
        int status;
        size_t size;
};

static void on_heard(struct grpc_stream *stream, const uint8_t *bytes, size_t size)
{
        struct watcher *watcher = (struct watcher *)(void *)stream;
        Pb__WatchResponse *response = grpc_unpack(&watcher->asker->grpc, &pb__watch_response__descriptor, bytes, size);

        REQUIRE(response != NULL);
        watcher->created += response->created;
        for (size_t i = 0; i < response->n_events; i++) {
                watcher->events++;
                watcher->size = response->events[i]->kv->value.len;
        }
}

static void on_ended(struct grpc_stream *stream, const struct grpc_answer *answer)
{
        struct watcher *watcher = (struct watcher *)(void *)stream;

        watcher->ended++;
        watcher->status = answer->status;
}

static void watch(struct watcher *watcher, struct asker *asker)
{
        *watcher = (struct watcher){.asker = asker};
        watcher->stream.method = "/etcdserverpb.Watch/Watch";
        watcher->stream.heard = on_heard;
        watcher->stream.ended = on_ended;
        REQUIRE_INT(grpc_open(&asker->grpc, &watcher->stream), PAWL_OK);
}

static void watch_key(struct watcher *watcher, const char *key)
{
        Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
        Pb__WatchCreateRequest create = PB__WATCH_CREATE_REQUEST__INIT;

        create.key = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)key, .len = strlen(key)};
        request.request_case = PB__WATCH_REQUEST__REQUEST_CREATE;
        request.create = &create;
        REQUIRE_INT(grpc_send(&watcher->asker->grpc, &watcher->stream, &request.base), PAWL_OK);
}

TEST(a_stream_carries_any_number_of_messages_both_ways)
{
        struct asker asker;
        struct watcher watcher;
        struct question put;

        begin_at_etcd(&asker);
        watch(&watcher, &asker);
        watch_key(&watcher, "test_grpc");
        watch_key(&watcher, "test_grpc");
        TURN_UNTIL(watcher.created == 2);
        watch_key(&watcher, "another");
        TURN_UNTIL(watcher.created == 3);
        prepare(&put, &asker, put_method, write_put);
        for (int i = 1; i <= 10; i++) {
                put.value_size = i % 2 ? 100 * 1000 : 10;
                ask_and_wait(&put);
                TURN_UNTIL(watcher.events == 2 * i);
                CHECK_UINT(watcher.size, put.value_size);
        }
        grpc_end(&asker.grpc, &watcher.stream);
        ask_and_wait(&put);
        turn_once();
        CHECK_INT(watcher.events, 20);
        CHECK_INT(watcher.ended, 0);
        end_asker(&asker);
}

TEST(a_stream_ends_with_its_connection)
{
        struct asker asker;
        struct watcher watcher;

        begin_at_etcd(&asker);
        watch(&watcher, &asker);
        watch_key(&watcher, "test_grpc");
        TURN_UNTIL(watcher.created == 1);
        grpc_fail(&asker.grpc, PAWL_UNREACHABLE, "enough");
        TURN_UNTIL(asker.downs == 1);
        CHECK_INT(watcher.ended, 1);
        CHECK_INT(watcher.status, GRPC_LOST);
        end_asker(&asker);
}

struct speaker {
        struct question question; /* first */
        struct watcher *watcher;
        int sent;
};

static void send_when_answered(struct grpc_call *call, const struct grpc_answer *answer)
{
        struct speaker *speaker = (struct speaker *)(void *)call;
        Pb__WatchRequest request = PB__WATCH_REQUEST__INIT;
        Pb__WatchCancelRequest cancel = PB__WATCH_CANCEL_REQUEST__INIT;

        request.request_case = PB__WATCH_REQUEST__REQUEST_CANCEL;
        request.cancel = &cancel;
        CHECK_INT(answer->status, GRPC_LOST);
        CHECK_INT(speaker->watcher->ended, 0);
        speaker->sent = grpc_send(&speaker->watcher->asker->grpc, &speaker->watcher->stream, &request.base);
}

/* The calls of a lost connection are answered before its streams end. */
TEST(the_answer_of_a_lost_call_may_send_on_a_stream_that_is_about_to_end)
{
        struct asker asker;
        struct watcher watcher;
        struct speaker speaker = {.watcher = &watcher, .sent = -1};

        begin_at_etcd(&asker);
        watch(&watcher, &asker);
        watch_key(&watcher, "test_grpc");
        TURN_UNTIL(watcher.created == 1);
        prepare(&speaker.question, &asker, range_method, write_range);
        speaker.question.call.answered = send_when_answered;
        ask(&speaker.question);
        grpc_fail(&asker.grpc, PAWL_UNREACHABLE, "enough");
        TURN_UNTIL(asker.downs == 1);
        CHECK_INT(speaker.sent, PAWL_UNREACHABLE);
        CHECK_INT(watcher.ended, 1);
        end_asker(&asker);
}

/* ---- what is not gRPC -------------------------------------------------------------------------------------------- */

static void say_instead(const char *words, size_t size, const char *sentence)
{
        struct asker asker;
        uint16_t port;
        int listener = listen_tcp(&port, 5), server;

        ask_at(&asker, "127.0.0.1", port);
        server = take(listener);
        REQUIRE(send(server, words, size, MSG_NOSIGNAL) == (ssize_t)size);
        TURN_UNTIL(asker.downs == 1);
        CHECK_INT(asker.ups, 0);
        CHECK_INT(asker.why.code, PAWL_UNREACHABLE);
        CHECK_HAS(asker.why.text, sentence);
        close(server);
        close(listener);
        end_asker(&asker);
}

TEST(another_protocol_is_said_to_be_one)
{
        static const char http[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        static const char redis[] = "-ERR unknown command 'PRI', with args beginning with: '*' 'HTTP/2.0' \r\n";
        static const char tls[] = "\x15\x03\x01\x00\x02\x02\x46\x15\x03\x01\x00\x02\x02\x46";

        say_instead(http, sizeof(http) - 1, "another protocol on this port");
        say_instead(redis, sizeof(redis) - 1, "another protocol on this port");
        say_instead(tls, sizeof(tls) - 1, "another protocol on this port");
}

TEST(a_server_that_says_nothing_is_given_up_in_time)
{
        struct asker asker = {0};
        uint16_t port;
        int listener = listen_tcp(&port, 5);

        REQUIRE_INT(loop_init(&loop, NULL), 0);
        asker.target = (struct net_target){.host = "127.0.0.1", .port = port};
        grpc_init(&asker.grpc, &loop, &events, &asker.target);
        REQUIRE_INT(grpc_connect(&asker.grpc, 100 * MS, NULL), PAWL_OK);
        TURN_UNTIL(asker.downs == 1);
        CHECK_HAS(asker.why.text, "the server hangs, or this port speaks another protocol");
        close(listener);
        end_asker(&asker);
}

/* SETTINGS, and then it takes no more of what is new. */
TEST(a_server_that_goes_away_takes_no_more_calls)
{
        static const char words[] = "\0\0\0\4\0\0\0\0\0"
                                    "\0\0\x8\7\0\0\0\0\0\0\0\0\0\0\0\0\0";
        struct asker asker;
        struct question question;
        uint16_t port;
        int listener = listen_tcp(&port, 5), server;

        ask_at(&asker, "127.0.0.1", port);
        server = take(listener);
        REQUIRE(send(server, words, 9, MSG_NOSIGNAL) == 9);
        TURN_UNTIL(asker.ups == 1);
        prepare(&question, &asker, range_method, write_range);
        ask(&question);
        REQUIRE(send(server, words + 9, sizeof(words) - 1 - 9, MSG_NOSIGNAL) == sizeof(words) - 1 - 9);
        TURN_UNTIL(question.answers == 1);
        CHECK_INT(question.status, GRPC_UNAVAILABLE);
        CHECK(question.undone);
        CHECK_INT(grpc_ask(&asker.grpc, &question.call), PAWL_UNREACHABLE);
        TURN_UNTIL(asker.downs == 1);
        close(server);
        close(listener);
        end_asker(&asker);
}

TEST(a_call_that_nobody_answers_is_overdue_and_the_connection_lives_on)
{
        static const char settings[] = "\0\0\0\4\0\0\0\0\0";
        struct asker asker;
        struct question question;
        uint16_t port;
        int listener = listen_tcp(&port, 5), server;

        ask_at(&asker, "127.0.0.1", port);
        server = take(listener);
        REQUIRE(send(server, settings, sizeof(settings) - 1, MSG_NOSIGNAL) == sizeof(settings) - 1);
        TURN_UNTIL(asker.ups == 1);
        prepare(&question, &asker, range_method, write_range);
        question.call.timeout = 50 * MS;
        ask(&question);
        TURN_UNTIL(question.answers == 1);
        CHECK_INT(question.status, GRPC_OVERDUE);
        CHECK_HAS(question.text, "no answer for 50 ms");
        CHECK_INT(asker.downs, 0);
        CHECK(grpc_ready(&asker.grpc));
        close(server);
        close(listener);
        end_asker(&asker);
}
