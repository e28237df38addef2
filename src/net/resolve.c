/* resolve.c - getaddrinfo blocks, for as long as it likes, and cannot be cancelled: so it has a thread of its own for each
 * name, which nobody ever waits for. What it shares with the connection is counted and freed by the last of the two. */
#include "resolve.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/list.h"

static void let_go(struct net_lookup *lookup)
{
        if (atomic_fetch_sub(&lookup->holders, 1) > 1)
                return;
        if (lookup->addresses)
                freeaddrinfo(lookup->addresses);
        if (lookup->watch.fd >= 0)
                close(lookup->watch.fd);
        free(lookup);
}

static void ask(struct net_lookup *lookup, int flags)
{
        struct addrinfo hints = {
                .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};

        lookup->error = getaddrinfo(lookup->host, lookup->service, &hints, &lookup->addresses);
        lookup->system_error = lookup->error == EAI_SYSTEM ? errno : 0;
        if (lookup->error != 0)
                lookup->addresses = NULL;
}

static void *ask_beside(void *arg)
{
        struct net_lookup *lookup = arg;
        uint64_t one = 1;
        ssize_t n;

        ask(lookup, 0);
        atomic_store(&lookup->answered, true);
        n = write(lookup->watch.fd, &one, sizeof(one));
        (void)n; /* it cannot be full: it is written once */
        let_go(lookup);
        return NULL;
}

static void told(struct watch *watch, uint32_t events)
{
        struct net_lookup *lookup = container_of(watch, struct net_lookup, watch);

        (void)events;
        if (!atomic_load(&lookup->answered))
                return;
        loop_unwatch(lookup->loop, &lookup->watch);
        lookup->open = false;
        lookup->done(lookup->arg);
}

/* With every signal blocked: they are for the program's own threads. 0 or an errno. */
static int start_thread(struct net_lookup *lookup)
{
        pthread_attr_t attributes;
        sigset_t all, before;
        pthread_t thread;
        int error = pthread_attr_init(&attributes);

        if (error != 0)
                return error;
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        atomic_fetch_add(&lookup->holders, 1);
        error = pthread_create(&thread, &attributes, ask_beside, lookup);
        if (error != 0)
                atomic_fetch_sub(&lookup->holders, 1);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return error;
}

static int cannot_ask(const struct net_lookup *lookup, int error, struct pawl_why *why)
{
        int code = error == ENOMEM ? PAWL_NO_MEMORY : PAWL_SYSTEM;

        why_system(why, error, "cannot look up %s", lookup->host);
        if (why)
                why->code = code;
        return code;
}

static int begin_beside(struct net_lookup *lookup, struct pawl_why *why)
{
        int error;

        lookup->watch.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (lookup->watch.fd < 0)
                return cannot_ask(lookup, errno, why);
        error = loop_watch(lookup->loop, &lookup->watch);
        if (error != 0)
                return cannot_ask(lookup, error, why);
        error = start_thread(lookup);
        if (error != 0) {
                loop_unwatch(lookup->loop, &lookup->watch);
                return cannot_ask(lookup, error, why);
        }
        lookup->open = true;
        return PAWL_OK;
}

int lookup_open(struct net_lookup **out, struct loop *loop, const char *host, uint16_t port, void (*done)(void *),
                void *arg, struct pawl_why *why)
{
        struct net_lookup *lookup = calloc(1, sizeof(*lookup) + strlen(host) + 1);
        int code = PAWL_OK;

        if (!lookup)
                return why_set(why, PAWL_NO_MEMORY, "no memory to look up %s", host);
        lookup->watch = (struct watch){.fd = -1, .events = EPOLLIN, .ready = told};
        lookup->loop = loop;
        lookup->done = done;
        lookup->arg = arg;
        atomic_init(&lookup->holders, 1);
        snprintf(lookup->service, sizeof(lookup->service), "%u", (unsigned)port);
        memcpy(lookup->host, host, strlen(host) + 1);
        ask(lookup, AI_NUMERICHOST);
        if (lookup->error == EAI_MEMORY)
                code = why_set(why, PAWL_NO_MEMORY, "no memory to look up %s", host);
        else if (lookup->error == 0)
                lookup->at_once = true;
        else
                code = begin_beside(lookup, why);
        if (code != PAWL_OK)
                let_go(lookup);
        else
                *out = lookup;
        return code;
}

int lookup_result(const struct net_lookup *lookup, struct pawl_why *why)
{
        switch (lookup->error) {
        case 0:
                return PAWL_OK;
        case EAI_NONAME:
        case EAI_NODATA:
        case EAI_ADDRFAMILY:
                return why_set(why, PAWL_UNREACHABLE, "no address for %s", lookup->host);
        case EAI_MEMORY:
                return why_set(why, PAWL_NO_MEMORY, "no memory to look up %s", lookup->host);
        case EAI_SYSTEM:
                return cannot_ask(lookup, lookup->system_error, why);
        default:
                return why_set(why, PAWL_UNREACHABLE, "cannot look up %s: %s", lookup->host,
                               gai_strerror(lookup->error));
        }
}

void lookup_close(struct net_lookup *lookup)
{
        if (!lookup)
                return;
        if (lookup->watch.fd >= 0)
                loop_unwatch(lookup->loop, &lookup->watch);
        let_go(lookup);
}
