/* server.c - see server.h. The keeper is tests/servers/with; what it runs tells us the URL and then waits for the end of its
 * standard input, which is ours: so the server ends however we end. */
#include "server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static void run_keeper(const char *name, int in, int out)
{
        dup2(in, 0);
        dup2(out, 1);
        dup2(0, 3); /* the shell behind may give what it runs in the background no standard input */
        execl(BENCH_WITH, "with", name, "--", "/bin/sh", "-c",
              "eval echo \\$$(echo \"$0\" | tr a-z- A-Z_)_URL && exec cat <&3", name, (char *)NULL);
        _exit(127);
}

/* The keeper prints the URL, or TAP with a reason to skip if the server is not installed. */
static void read_url(struct server *server, const char *name, FILE *from)
{
        if (!fgets(server->url, sizeof(server->url), from) || !strstr(server->url, "://")) {
                bool skip = strncmp(server->url, "1..", 3) == 0;

                server_stop(server);
                if (skip)
                        bench_skip("needs the server %s, which is not installed", name);
                bench_die("%s does not start", name);
        }
        server->url[strcspn(server->url, "\n")] = '\0';
}

void server_start(struct server *server, const char *name)
{
        const char *colon;
        int in[2], out[2];
        FILE *from;

        if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
                bench_die("no pipe for %s", name);
        server->keeper = fork();
        if (server->keeper < 0)
                bench_die("fork failed");
        if (server->keeper == 0)
                run_keeper(name, in[0], out[1]);
        close(in[0]);
        close(out[1]);
        server->to = fdopen(in[1], "w");
        from = fdopen(out[0], "r");
        if (!server->to || !from)
                bench_die("no memory for %s", name);
        server->url[0] = '\0';
        read_url(server, name, from);
        fclose(from);
        colon = strrchr(server->url, ':');
        server->port = (uint16_t)strtoul(colon + 1, NULL, 10);
}

void server_stop(struct server *server)
{
        fclose(server->to);
        waitpid(server->keeper, NULL, 0);
}

bool server_ask(const struct server *server, const char *request, char *answer, size_t size)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(server->port)};
        size_t length = strlen(request), got = 0;
        ssize_t n;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
            write(fd, request, length) == (ssize_t)length)
                while (got < size - 1 && (n = read(fd, answer + got, size - 1 - got)) > 0)
                        got += (size_t)n;
        if (fd >= 0)
                close(fd);
        answer[got] = '\0';
        return got > 0 && got < size - 1; /* it may have been reset at the end: a server need not read all */
}

double server_sum(const char *text, const char *word)
{
        size_t length = strlen(word);
        double sum = 0;

        for (const char *line = text; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, word, length) == 0) {
                        const char *end = strchr(line, '\n');
                        const char *last = end ? end : line + strlen(line);

                        while (last > line && last[-1] != ' ' && last[-1] != '\t')
                                last--;
                        sum += strtod(last, NULL);
                }
        }
        return sum;
}
