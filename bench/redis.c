/* redis.c - see redis.h. */
#include "redis.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "turns.h"

enum { TRIES = 500, TRY_NS = 10000000, NOT_INSTALLED = 127 };

const char REDIS_COMPARE_AND_DELETE[] =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const char REDIS_SET_WITH_FENCE[] =
        "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('incr', KEYS[2]) end";

/* ---- servers ---------------------------------------------------------------------------------------------------- */

static uint16_t free_port(void)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
            getsockname(fd, (struct sockaddr *)&address, &size) != 0)
                bench_die("no free port on 127.0.0.1");
        close(fd);
        return ntohs(address.sin_port);
}

static void run_server(const struct redis_server *server, const char *directory)
{
        char port[8];
        int nowhere = open("/dev/null", O_RDWR);

        snprintf(port, sizeof(port), "%u", server->port);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(nowhere, 0);
        dup2(nowhere, 1);
        dup2(nowhere, 2);
        execlp("redis-server", "redis-server", "--bind", "127.0.0.1", "--port", port, "--unixsocket", server->path,
               "--dir", directory, "--save", "", "--appendonly", "no", "--daemonize", "no", (char *)NULL);
        _exit(NOT_INSTALLED);
}

static bool answers(const struct redis_server *server)
{
        redisContext *connection = redisConnectUnix(server->path);
        redisReply *reply = connection && !connection->err ? redisCommand(connection, "PING") : NULL;
        bool pong = reply && reply->type == REDIS_REPLY_STATUS;

        freeReplyObject(reply);
        if (connection)
                redisFree(connection);
        return pong;
}

static void start_server(struct redis_server *server)
{
        const char *directory = bench_directory();

        server->port = free_port();
        snprintf(server->path, sizeof(server->path), "%s/redis.%u", directory, server->port);
        snprintf(server->url, sizeof(server->url), "redis://127.0.0.1:%u", server->port);
        snprintf(server->unix_url, sizeof(server->unix_url), "redis+unix://%s", server->path);
        server->pid = fork();
        if (server->pid < 0)
                bench_die("fork failed");
        if (server->pid == 0)
                run_server(server, directory);
}

static void wait_for_answer(const struct redis_server *server)
{
        for (int tries = 0; !answers(server); tries++) {
                int status = 0;
                pid_t ended = waitpid(server->pid, &status, WNOHANG);

                if (ended != 0 && WIFEXITED(status) && WEXITSTATUS(status) == NOT_INSTALLED)
                        bench_skip("needs redis-server");
                if (ended != 0 || tries == TRIES)
                        bench_die("redis-server does not start");
                crew_sleep_ns(TRY_NS);
        }
}

void redis_servers_start(struct redis_server *servers, size_t n)
{
        for (size_t i = 0; i < n; i++)
                start_server(&servers[i]);
        for (size_t i = 0; i < n; i++)
                wait_for_answer(&servers[i]);
}

void redis_servers_stop(struct redis_server *servers, size_t n)
{
        for (size_t i = 0; i < n; i++)
                kill(servers[i].pid, SIGTERM);
        for (size_t i = 0; i < n; i++)
                waitpid(servers[i].pid, NULL, 0);
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static redisContext *connected(redisContext *connection)
{
        if (!connection || connection->err)
                bench_die("cannot connect: %s", connection ? connection->errstr : "no memory");
        return connection;
}

redisContext *redis_connect(uint16_t port)
{
        return connected(redisConnect("127.0.0.1", port));
}

redisContext *redis_connect_unix(const char *path)
{
        return connected(redisConnectUnix(path));
}

redisReply *redis_must(redisContext *connection, void *answer, const char *what)
{
        redisReply *reply = answer;

        if (!reply)
                bench_die("%s: %s", what, connection->errstr);
        if (reply->type == REDIS_REPLY_ERROR)
                bench_die("%s: %s", what, reply->str);
        return reply;
}

void redis_load(redisContext *connection, const char *script, char digest[41])
{
        redisReply *reply = redis_must(connection, redisCommand(connection, "SCRIPT LOAD %s", script), "SCRIPT LOAD");

        snprintf(digest, 41, "%s", reply->str);
        freeReplyObject(reply);
}

/* ---- turns ------------------------------------------------------------------------------------------------------ */

static void call(redisContext *connection, const char *command)
{
        freeReplyObject(redis_must(connection, redisCommand(connection, command), command));
}

void redis_turns_blpop(struct crew *crew, uint32_t me, void *arg)
{
        const struct turns *turns = arg;
        redisContext *connection = redis_connect(turns->port);

        if (me == 0)
                call(connection, "DEL token"); /* the last crew's */
        crew_start(crew);
        if (me == 0)
                call(connection, "RPUSH token x");
        while (!atomic_load(&crew->stop)) {
                uint64_t ticket = crew_ask(crew);

                call(connection, "BLPOP token 0");
                crew_turn(crew, me, ticket);
                turns_sleep(turns->hold_ns);
                call(connection, "RPUSH token x");
                turns_sleep(turns->pause_ns);
        }
        redisFree(connection);
}
