/* peer.c - the test's end of a peer: another process that does what it is told, line by line. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PEERS_MAX = 64 };

struct peer {
        pid_t pid;
        int to;
        int from;
        uint64_t token;
        char text[256];
        char buffer[256];
        size_t buffered;
};

static struct peer *peers[PEERS_MAX];

static const char *peer_program(void)
{
        const char *program = getenv("PAWL_TEST_PEER");
        if (program)
                return program;
        printf("Bail out! PAWL_TEST_PEER does not say where contract-peer is\n");
        fflush(stdout);
        _exit(1);
}

/* Runs the peer program with these as its stdin, stdout and (if it is not -1) stderr. */
static pid_t spawn(int in, int out, int err, const char *place, const char *how)
{
        const char *program = peer_program();
        const char *drive = caller_drives() ? "caller" : "thread";
        pid_t pid = fork();
        if (pid < 0)
                abort(); /* as a process to be killed it would be everybody */
        if (pid)
                return pid;
        dup2(in, STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        if (err >= 0)
                dup2(err, STDERR_FILENO);
        execl(program, program, how, place, drive, (char *)NULL);
        _exit(127);
}

struct peer *start_peer(const char *place)
{
        int to[2], from[2];
        struct peer **slot = peers;
        while (*slot && slot < peers + PEERS_MAX - 1)
                slot++;
        struct peer *peer = calloc(1, sizeof *peer);
        if (*slot || !peer || pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
                abort();
        signal(SIGPIPE, SIG_IGN);
        peer->pid = spawn(to[0], from[1], -1, place, "talk");
        close(to[0]);
        close(from[1]);
        peer->to = to[1];
        peer->from = from[0];
        *slot = peer;
        if (hear_peer(peer) != PAWL_OK)
                printf("# a peer could not open %s: %s\n", place, peer->text);
        return peer;
}

void tell_peer(struct peer *peer, const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        vdprintf(peer->to, format, arguments);
        va_end(arguments);
        dprintf(peer->to, "\n");
}

/* "NUMBER TOKEN TEXT" */
static long understand(struct peer *peer, const char *answer)
{
        long number = -1;
        unsigned long long token = 0;
        peer->text[0] = '\0';
        sscanf(answer, "%ld %llu %255s", &number, &token, peer->text);
        peer->token = token;
        return number;
}

long hear_peer(struct peer *peer)
{
        int64_t until = now_ms() + PATIENCE;
        for (;;) {
                char *end = memchr(peer->buffer, '\n', peer->buffered);
                if (end) {
                        *end = '\0';
                        long number = understand(peer, peer->buffer);
                        peer->buffered -= (size_t)(end + 1 - peer->buffer);
                        memmove(peer->buffer, end + 1, peer->buffered);
                        return number;
                }
                struct pollfd fd = {.fd = peer->from, .events = POLLIN};
                int64_t left = until - now_ms();
                if (left <= 0 || poll(&fd, 1, (int)left) <= 0)
                        return -1;
                ssize_t got = read(peer->from, peer->buffer + peer->buffered, sizeof peer->buffer - peer->buffered);
                if (got <= 0)
                        return -1;
                peer->buffered += (size_t)got;
        }
}

long ask_peer(struct peer *peer, const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        vdprintf(peer->to, format, arguments);
        va_end(arguments);
        dprintf(peer->to, "\n");
        return hear_peer(peer);
}

uint64_t peer_token(const struct peer *peer)
{
        return peer->token;
}

const char *peer_text(const struct peer *peer)
{
        return peer->text;
}

void signal_peer(struct peer *peer, int signal)
{
        kill(peer->pid, signal);
}

static void free_peer(struct peer *peer)
{
        for (int i = 0; i < PEERS_MAX; i++)
                if (peers[i] == peer)
                        peers[i] = NULL;
        close(peer->to);
        close(peer->from);
        free(peer);
}

void kill_peer(struct peer *peer)
{
        kill(peer->pid, SIGKILL);
        waitpid(peer->pid, NULL, 0);
        free_peer(peer);
}

void end_all_peers(void)
{
        for (int i = 0; i < PEERS_MAX; i++)
                if (peers[i])
                        kill_peer(peers[i]);
}

int run_quiet_scenario(const char *place, char *output, size_t size)
{
        int out[2], status = -1;
        size_t used = 0;
        ssize_t got;
        if (pipe2(out, O_CLOEXEC))
                return -1;
        pid_t pid = spawn(STDIN_FILENO, out[1], out[1], place, "quiet");
        close(out[1]);
        while (used + 1 < size && (got = read(out[0], output + used, size - 1 - used)) > 0)
                used += (size_t)got;
        output[used] = '\0';
        close(out[0]);
        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
