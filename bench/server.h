/* server.h - one server of the benchmark's own, as the tests start it (tests/servers/with): on a free port of 127.0.0.1, its
 * data on tmpfs. It may use the cores that we may use. */
#ifndef PAWL_BENCH_SERVER_H
#define PAWL_BENCH_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct server {
        char url[128];
        uint16_t port;
        /* Private. */
        FILE *to;
        pid_t keeper;
};

/* name is one that tests/servers knows. Waits until it answers; skips the row if it is not installed. It ends with
 * server_stop, and if we die. */
void server_start(struct server *server, const char *name);
void server_stop(struct server *server);

/* What the server answers to request on a connection of its own, until it closes that; copied. False if there is no answer
 * or it does not fit. */
bool server_ask(const struct server *server, const char *request, char *answer, size_t size);
/* The sum of all numbers that stand behind a word that begins a line of the text. */
double server_sum(const char *text, const char *word);

#endif
