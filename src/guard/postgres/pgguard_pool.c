/* pgguard_pool.c - a few connections for any number of threads. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "../../base/duration.h"
#include "pgguard.h"

int64_t pgguard_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now); /* as the condition counts */
        return now.tv_sec * SECOND + now.tv_nsec;
}

/* A server that ends says so first, and closes a moment later; so one that says anything unasked is left. */
static bool is_alive(const PGconn *conn)
{
        struct pollfd news = {.fd = PQsocket(conn), .events = POLLIN};

        return PQstatus(conn) == CONNECTION_OK && news.fd >= 0 && poll(&news, 1, 0) == 0;
}

static int wait_for_one(struct pgguard *postgres, int64_t deadline)
{
        struct timespec until = {deadline / SECOND, deadline % SECOND};

        while (postgres->idle_count == 0 && postgres->open_count == PGGUARD_CONNECTIONS)
                if (pthread_cond_timedwait(&postgres->returned, &postgres->mutex, &until) == ETIMEDOUT)
                        return PAWL_TIMEOUT;
        return PAWL_OK;
}

int pgguard_take(struct pgguard *postgres, int64_t deadline, PGconn **conn, struct pawl_why *why)
{
        int code;

        *conn = NULL;
        pthread_mutex_lock(&postgres->mutex);
        code = wait_for_one(postgres, deadline);
        if (code == PAWL_OK && postgres->idle_count > 0)
                *conn = postgres->idle[--postgres->idle_count];
        else if (code == PAWL_OK)
                postgres->open_count++;
        pthread_mutex_unlock(&postgres->mutex);
        if (code != PAWL_OK)
                return why_set(why, code, "%s: all %d connections of this guard were in use until the time was over",
                               postgres->where, PGGUARD_CONNECTIONS);
        if (*conn && !is_alive(*conn)) {
                PQfinish(*conn);
                *conn = NULL;
        }
        return PAWL_OK;
}

void pgguard_give(struct pgguard *postgres, PGconn *conn)
{
        bool whole = conn && PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_IDLE;

        if (!whole)
                PQfinish(conn); /* NULL is fine */
        pthread_mutex_lock(&postgres->mutex);
        if (whole)
                postgres->idle[postgres->idle_count++] = conn;
        else
                postgres->open_count--;
        pthread_cond_signal(&postgres->returned);
        pthread_mutex_unlock(&postgres->mutex);
}

/* In a child of fork() the connection is the parent's still: what PQfinish says must not reach the server. */
static void finish_inherited(PGconn *conn)
{
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

        if (fd < 0)
                return; /* better lost than said */
        if (dup3(fd, PQsocket(conn), O_CLOEXEC) >= 0)
                PQfinish(conn);
        close(fd);
}

void pgguard_close_all(struct pgguard *postgres)
{
        bool inherited = postgres->guard.pid != getpid();

        for (uint32_t i = 0; i < postgres->idle_count; i++) {
                if (inherited)
                        finish_inherited(postgres->idle[i]);
                else
                        PQfinish(postgres->idle[i]);
        }
        postgres->idle_count = 0;
}
