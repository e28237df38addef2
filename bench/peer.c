/* peer.c - see peer.h. A peer ends when its standard input does, so also if we die. */
#include "peer.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { PORTS_MAX = 8 };

struct peer {
        const char *name;
        const char *job;
        FILE *to, *from;
        pid_t child;
};

static void spawn_peer(struct peer *peer, char **argv)
{
        posix_spawn_file_actions_t wiring;
        int in[2], out[2];

        if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
                bench_die("no pipe for %s", peer->name);
        posix_spawn_file_actions_init(&wiring);
        posix_spawn_file_actions_adddup2(&wiring, in[0], 0);
        posix_spawn_file_actions_adddup2(&wiring, out[1], 1);
        if (posix_spawn(&peer->child, argv[0], &wiring, NULL, argv, environ) != 0)
                bench_die("%s does not start", argv[0]);
        posix_spawn_file_actions_destroy(&wiring);
        close(in[0]);
        close(out[1]);
        peer->to = fdopen(in[1], "w");
        peer->from = fdopen(out[0], "r");
        if (!peer->to || !peer->from)
                bench_die("no memory for %s", peer->name);
}

static double ask_peer(void *arg)
{
        struct peer *peer = arg;
        char answer[128];
        double figure;

        fprintf(peer->to, "%s\n", peer->job);
        fflush(peer->to);
        if (!fgets(answer, sizeof(answer), peer->from) || sscanf(answer, "%lf", &figure) != 1)
                bench_die("%s does not answer to \"%s\"", peer->name, peer->job);
        return figure;
}

struct contender peer_start(const char *name, const uint16_t *ports, size_t n, const char *job)
{
        struct contender none = {.name = name};
        char path[512], text[PORTS_MAX][8];
        char *argv[PORTS_MAX + 2] = {path};
        struct peer *peer = calloc(1, sizeof(*peer));

        if (!peer || n > PORTS_MAX)
                bench_die("no memory for %s", name);
        *peer = (struct peer){.name = name, .job = job};
        snprintf(path, sizeof(path), "%s/peers/%s", bench_build(), name);
        if (access(path, X_OK) != 0) {
                bench_note("%s is not installed: no figure", name);
                free(peer);
                return none;
        }
        for (size_t i = 0; i < n; i++) {
                snprintf(text[i], sizeof(text[i]), "%u", ports[i]);
                argv[i + 1] = text[i];
        }
        spawn_peer(peer, argv);
        return (struct contender){.name = name, .sample = ask_peer, .arg = peer};
}

void peer_stop(struct contender *contender)
{
        struct peer *peer = contender->arg;

        if (!peer)
                return;
        fclose(peer->to);
        waitpid(peer->child, NULL, 0);
        fclose(peer->from);
        free(peer);
}
