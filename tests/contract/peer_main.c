/* peer_main.c - contract-peer, the other process of the contract suite: one client, one lock, orders on stdin.
 *
 *   contract-peer talk URL thread|caller     orders, one line each; see contract.h
 *   contract-peer quiet URL thread|caller    lets everything go wrong once; the library must not print a word */
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pawl.h"

static pawl_client *client;
static pawl_lock *lock;
static atomic_int lost;
static atomic_int asked;
static struct pawl_why why; /* of the last acquire */

static void on_lost(pawl_lock *which, int reason, void *arg)
{
        (void)which, (void)reason, (void)arg;
        atomic_fetch_add(&lost, 1);
}

static void on_asked(pawl_lock *which, void *arg)
{
        (void)which, (void)arg;
        atomic_fetch_add(&asked, 1);
}

static void answer(long number, uint64_t token, const char *text)
{
        printf("%ld %llu %s\n", number, (unsigned long long)token, text && *text ? text : "-");
        fflush(stdout);
}

/* ---- orders ---------------------------------------------------------------------------------------------------- */

static void do_acquire(const char *rest)
{
        char name[256] = "";
        long long wait_ms = 0, ttl_ms = 0, delay_ms = 0;
        unsigned flags = 0, mode = 0, max_holders = 0;
        sscanf(rest, "%255s %lld %lld %u %u %u %lld", name, &wait_ms, &ttl_ms, &flags, &mode, &max_holders, &delay_ms);
        pawl_lock *got = NULL;
        memset(&why, 0, sizeof why);
        int code = pawl_acquire(client, name,
                                PAWL_LOCK(.wait_ms = wait_ms, .ttl_ms = ttl_ms, .flags = flags, .mode = mode,
                                          .max_holders = max_holders, .delay_ms = delay_ms, .note = "a peer",
                                          .on_lost = on_lost, .on_asked = on_asked, .why = &why),
                                &got);
        if (code == PAWL_OK)
                lock = got;
        answer(code, code == PAWL_OK ? pawl_token(lock) : 0, NULL);
}

static void do_adopt(const char *rest)
{
        char word[256] = "";
        sscanf(rest, "%255s", word);
        pawl_lock *got = NULL;
        int code = pawl_adopt(client, word, PAWL_LOCK(.on_lost = on_lost), &got);
        if (code == PAWL_OK)
                lock = got;
        answer(code, code == PAWL_OK ? pawl_token(lock) : 0, NULL);
}

static void do_store(const char *rest)
{
        rest += *rest == ' ';
        answer(pawl_store(lock, rest, strlen(rest), 0), pawl_token(lock), NULL);
}

/* MS TEXT; without a text: nothing any more. */
static void do_keep(const char *rest)
{
        char *text;
        long long keep_ms = strtoll(rest, &text, 10);
        if (*text == ' ')
                text++;
        int code = pawl_store(lock, text, strlen(text), keep_ms);
        if (code != PAWL_OK)
                (void)pawl_explain(client, &why);
        answer(code, pawl_token(lock), NULL);
}

static void do_fetch(const char *rest)
{
        char name[256] = "";
        struct pawl_value value = {0};
        sscanf(rest, "%255s", name);
        int code = pawl_fetch(client, name, &value);
        answer(code, value.token, value.data);
        free(value.data);
}

/* NAME [TOKEN] */
static void do_break(const char *rest)
{
        char name[256] = "";
        unsigned long long token = 0;
        sscanf(rest, "%255s %llu", name, &token);
        memset(&why, 0, sizeof why);
        int code = pawl_break_if(client, name, PAWL_BREAK(.token = token, .why = &why));
        answer(code, 0, why.text);
}

static void do_lease(const char *rest)
{
        char word[PAWL_LEASE_MAX + 1] = "";
        (void)rest;
        int code = pawl_lease(lock, word, sizeof word);
        answer(code, pawl_token(lock), word);
}

static void do_release(const char *rest)
{
        (void)rest;
        int code = pawl_release(lock);
        lock = NULL;
        answer(code, 0, NULL);
}

static void do_forget(const char *rest)
{
        (void)rest;
        int code = pawl_forget(lock);
        if (code == PAWL_OK)
                lock = NULL;
        answer(code, 0, NULL);
}

static void do_check(const char *rest)
{
        (void)rest;
        answer(pawl_check(lock), pawl_token(lock), NULL);
}

static void do_renew(const char *rest)
{
        (void)rest;
        answer(pawl_renew(lock), pawl_token(lock), NULL);
}

static void do_state(const char *rest)
{
        (void)rest;
        answer(pawl_state(lock), 0, NULL);
}

static void do_reason(const char *rest)
{
        (void)rest;
        answer(pawl_reason(lock), 0, NULL);
}

static void do_remaining(const char *rest)
{
        (void)rest;
        answer((long)pawl_remaining_ms(lock), 0, NULL);
}

static void do_lost(const char *rest)
{
        (void)rest;
        answer(atomic_load(&lost), 0, NULL);
}

static void do_why(const char *rest)
{
        (void)rest;
        answer(why.code, 0, why.text);
}

static void do_asked(const char *rest)
{
        (void)rest;
        answer(atomic_load(&asked), 0, NULL);
}

static const struct order {
        const char *word;
        void (*obey)(const char *rest);
        int needs_lock;
} orders[] = {
        {"acquire", do_acquire, 0},     {"adopt", do_adopt, 0}, {"lost", do_lost, 0},   {"asked", do_asked, 0},
        {"release", do_release, 0},     {"lease", do_lease, 1}, {"store", do_store, 1}, {"forget", do_forget, 1},
        {"check", do_check, 1},         {"renew", do_renew, 1}, {"state", do_state, 1}, {"reason", do_reason, 1},
        {"remaining", do_remaining, 1}, {"why", do_why, 0},     {"keep", do_keep, 1},   {"fetch", do_fetch, 0},
        {"break", do_break, 0},
};

static void obey(char *line)
{
        size_t length = strcspn(line, " ");
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
                if (strlen(orders[i].word) != length || strncmp(line, orders[i].word, length))
                        continue;
                if (orders[i].needs_lock && !lock)
                        answer(-2, 0, "no-lock");
                else
                        orders[i].obey(line + length);
                return;
        }
        answer(-3, 0, "what?");
}

/* Waits for orders; under PAWL_DRIVE_CALLER turns the client meanwhile, as a program's event loop would. */
static void talk(void)
{
        char buffer[512];
        size_t used = 0;
        for (;;) {
                struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                        {.fd = pawl_fd(client), .events = POLLIN}};
                if (poll(fds, 2, -1) > 0 && fds[1].revents)
                        pawl_dispatch(client);
                if (!fds[0].revents)
                        continue;
                ssize_t got = read(STDIN_FILENO, buffer + used, sizeof buffer - 1 - used);
                if (got <= 0)
                        return;
                used += (size_t)got;
                char *end;
                while ((end = memchr(buffer, '\n', used))) {
                        *end = '\0';
                        obey(buffer);
                        used -= (size_t)(end + 1 - buffer);
                        memmove(buffer, end + 1, used);
                }
        }
}

/* ---- everything goes wrong once -------------------------------------------------------------------------------- */

static void nap(long ms)
{
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static int expect(int code, int expected)
{
        return code == expected ? 0 : 1;
}

static int refused_calls(void)
{
        pawl_client *other;
        pawl_lock *none;
        int wrong = 0;
        wrong += expect(pawl_open("nosuchscheme:", NULL, &other), PAWL_NO_ENGINE);
        wrong += expect(pawl_open("://", NULL, &other), PAWL_INVALID);
        wrong += expect(pawl_acquire(client, "", NULL, &none), PAWL_INVALID);
        wrong += expect(pawl_acquire(client, "a\nb", NULL, &none), PAWL_INVALID);
        wrong += expect(pawl_acquire(client, "x", PAWL_LOCK(.ttl_ms = -5), &none), PAWL_INVALID);
        return wrong;
}

static int contended_calls(void)
{
        pawl_lock *one, *none;
        int wrong = expect(pawl_acquire(client, "x", NULL, &one), PAWL_OK);
        wrong += expect(pawl_acquire(client, "x", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        wrong += expect(pawl_acquire(client, "x", PAWL_LOCK(.wait_ms = 500), &none), PAWL_TIMEOUT);
        return wrong + expect(pawl_release(one), PAWL_OK);
}

static int lost_lock(void)
{
        pawl_lock *one;
        int wrong = expect(pawl_acquire(client, "y", PAWL_LOCK(.ttl_ms = 60, .flags = PAWL_NO_RENEW), &one), PAWL_OK);
        nap(120);
        wrong += expect(pawl_check(one), PAWL_LOST);
        return wrong + expect(pawl_release(one), PAWL_LOST);
}

static int quiet(void)
{
        pawl_lock *left_behind;
        int wrong = refused_calls() + contended_calls() + lost_lock();
        wrong += expect(pawl_acquire(client, "z", NULL, &left_behind), PAWL_OK);
        wrong += expect(pawl_close(client), PAWL_OK);
        return wrong;
}

int main(int argc, char **argv)
{
        if (argc != 4)
                return 2;
        uint32_t drive = strcmp(argv[3], "caller") ? PAWL_DRIVE_THREAD : PAWL_DRIVE_CALLER;
        int code = pawl_open(argv[2], PAWL_OPEN(.drive = drive, .why = &why), &client);
        if (!strcmp(argv[1], "quiet"))
                return code == PAWL_OK ? quiet() : 100 + code;
        answer(code, 0, why.text);
        if (code != PAWL_OK)
                return 1;
        talk();
        return pawl_close(client) != PAWL_OK;
}
