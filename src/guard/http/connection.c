/* connection.c - see connection.h. */
#include "connection.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 256 * 1024 }; /* of a body, handed to the connection at once */

static struct connection *connection_of(struct net *net)
{
        return (struct connection *)net;
}

static void finish(struct connection *connection, int code)
{
        connection->over = true;
        connection->code = code;
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

static bool write_bytes(struct connection *connection, const char *bytes, size_t size)
{
        char *room = net_room(&connection->net, size);

        if (!room) {
                finish(connection, why_set(&connection->why, PAWL_NO_MEMORY, "no memory for the request"));
                return false;
        }
        memcpy(room, bytes, size);
        net_wrote(&connection->net, size);
        return true;
}

/* As much as the socket takes: the body is not copied as a whole. */
static void write_on(struct connection *connection)
{
        const struct request *request = connection->request;

        if (!connection->begun) {
                if (!write_bytes(connection, request->head, request->head_size))
                        return;
                connection->begun = true;
        }
        while (connection->written < request->body_size && net_unsent(&connection->net) < PIECE) {
                size_t left = request->body_size - connection->written;
                size_t size = left < PIECE ? left : PIECE;

                if (!write_bytes(connection, (const char *)request->body + connection->written, size))
                        return;
                connection->written += size;
                net_flush(&connection->net);
        }
        net_flush(&connection->net);
}

bool connection_has_asked(const struct connection *connection)
{
        return connection->begun && connection->written == connection->request->body_size &&
               (connection->net.state != NET_UP || net_unsent(&connection->net) == 0);
}

/* ---- what the connection tells --------------------------------------------------------------------------------- */

static void on_up(struct net *net)
{
        (void)net; /* write_on follows the turn */
}

static void on_heard(struct net *net, const char *data, size_t size)
{
        struct connection *connection = connection_of(net);
        size_t used = 0;
        int code;

        if (!connection->reply || connection->over) {
                connection->spoiled = true;
                return;
        }
        code = reply_read(connection->reply, data, size, &used);
        if (code != PAWL_OK) {
                connection->spoiled = true;
                finish(connection, why_set(&connection->why, code, "the server's answer cannot be used: %s",
                                           connection->reply->problem));
                return;
        }
        connection->spoiled = used < size;
        if (connection->reply->state == REPLY_DONE)
                finish(connection, PAWL_OK);
}

static void on_down(struct net *net, const struct pawl_why *why)
{
        struct connection *connection = connection_of(net);

        connection->spoiled = true;
        if (connection->over)
                return;
        connection->why = *why;
        finish(connection, why->code);
}

static const struct net_events events = {.up = on_up, .heard = on_heard, .down = on_down};

/* ---- life ------------------------------------------------------------------------------------------------------ */

int connection_open(struct connection **out, const struct net_target *target, struct pawl_why *why)
{
        struct connection *connection = calloc(1, sizeof(*connection));
        int error;

        if (!connection)
                return why_set(why, PAWL_NO_MEMORY, "no memory for a connection");
        error = loop_init(&connection->loop, NULL);
        if (error != 0) {
                free(connection);
                return why_system(why, error, "cannot make an event loop");
        }
        net_init(&connection->net, &connection->loop, &events, target);
        *out = connection;
        return PAWL_OK;
}

void connection_close(struct connection *connection)
{
        if (!connection)
                return;
        net_close(&connection->net);
        loop_close(&connection->loop);
        free(connection);
}

void connection_abandon(struct connection *connection)
{
        /* Not net_close: it would say farewell for our parent, and take the socket out of the epoll that both share. */
        if (connection->net.state != NET_DOWN)
                close(connection->net.watch.fd);
        loop_close(&connection->loop);
        free(connection);
}

bool connection_is_quiet(struct connection *connection)
{
        connection->reply = NULL;
        while (connection->net.state == NET_UP && !connection->spoiled && loop_turn(&connection->loop) > 0)
                continue; /* an end that was read is told in the turn after */
        return connection->net.state == NET_UP && !connection->spoiled;
}

/* ---- one question ---------------------------------------------------------------------------------------------- */

static int connect_if_down(struct connection *connection, int64_t until)
{
        int64_t left = until - loop_now(&connection->loop);

        if (connection->net.state != NET_DOWN)
                return PAWL_OK;
        connection->spoiled = false;
        return net_connect(&connection->net, left > MS ? left : MS, &connection->why);
}

static int overdue(struct connection *connection)
{
        if (connection->net.state != NET_UP)
                return why_set(&connection->why, PAWL_UNREACHABLE, "%s: no connection in time",
                               connection->net.target->host);
        return why_set(&connection->why, PAWL_UNREACHABLE, "%s: no answer in time", connection->net.target->host);
}

static void wait_for_answer(struct connection *connection, int64_t until)
{
        while (!connection->over) {
                if (connection->net.state == NET_UP)
                        write_on(connection);
                if (connection->over)
                        break;
                if (loop_now(&connection->loop) >= until) {
                        finish(connection, overdue(connection));
                        break;
                }
                loop_wait(&connection->loop, until);
                loop_turn(&connection->loop);
        }
}

int connection_ask(struct connection *connection, const struct request *request, int64_t until, struct reply *reply,
                   struct pawl_why *why)
{
        int code;

        reply_init(reply, request->need);
        connection->reply = reply;
        connection->request = request;
        connection->written = 0;
        connection->begun = connection->over = false;
        code = connect_if_down(connection, until);
        if (code == PAWL_OK) {
                wait_for_answer(connection, until);
                code = connection->code;
        }
        connection->used_at = loop_now(&connection->loop);
        if (code != PAWL_OK && why)
                *why = connection->why;
        return code;
}

bool connection_keeps(const struct connection *connection, const struct reply *reply)
{
        return reply->keeps && !connection->spoiled && connection->net.state == NET_UP &&
               connection_has_asked(connection);
}
