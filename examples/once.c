/* once.c - a payment that several processes are asked for, as it happens when a request is sent again: it is made
 * once, and all of them have the one receipt.
 *
 * Shows it the hard way: the first falls asleep just before it charges, and wakes up when another one has done it.
 * What it writes then is refused by the guard, because the token of its execution is the smaller one.
 *
 *     once [URL [DIRECTORY]] */
#include <pawl.h>
#include <pawl/guard.h>
#include <pawl/once.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASKED = 4, LINE = 64, PATIENCE_S = 120 };

static const char KEY[] = "example/payment-4711", RECEIPT[] = "receipt-4711";

struct worker {
        pawl_guard *guard;
        int sleeps; /* the first time */
};

/* The execution. What it does goes through the guard, with its token; what it returns is the result for everybody. */
static int charge(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        struct worker *worker = arg;
        char text[LINE];
        int code, length = snprintf(text, sizeof(text), "42.00, charged by process %d\n", (int)getpid());

        if (worker->sleeps) {
                worker->sleeps = 0;
                raise(SIGSTOP); /* a long pause, as a machine makes one: nothing runs, no lease is renewed */
        }
        code = pawl_guard_put(worker->guard, RECEIPT, pawl_token(lock), text, (size_t)length, NULL);
        if (code != PAWL_OK)
                return code;
        result->data = strdup(text);
        result->size = (size_t)length;
        return result->data ? PAWL_OK : PAWL_NO_MEMORY;
}

static int ask(pawl_client *client, struct worker *worker, struct pawl_result *result)
{
        int code = pawl_once(client, KEY, PAWL_ONCE(.ttl_ms = 1000), charge, worker, result);

        if (code != PAWL_STALE)
                return code;
        printf("process %d was overtaken, and charged nothing\n", (int)getpid());
        fflush(stdout);
        return pawl_once(client, KEY, PAWL_ONCE(.ttl_ms = 1000), charge, worker, result);
}

/* One process that is asked for the payment. It tells the receipt that it has. */
static int serve(const char *url, const char *store, int sleeps, int tell)
{
        struct worker worker = {.sleeps = sleeps};
        pawl_client *client = NULL;
        struct pawl_result result;
        int code;

        alarm(PATIENCE_S);
        code = pawl_open(url, NULL, &client);
        if (code == PAWL_OK)
                code = pawl_guard_open(store, NULL, &worker.guard);
        if (code == PAWL_OK)
                code = ask(client, &worker, &result);
        if (code == PAWL_OK) {
                if (write(tell, result.data, result.size) != (ssize_t)result.size)
                        code = PAWL_SYSTEM;
                free(result.data);
        }
        if (code != PAWL_OK)
                fprintf(stderr, "once: process %d: %s\n", (int)getpid(), pawl_strerror(code));
        pawl_guard_close(worker.guard);
        pawl_close(client);
        return code == PAWL_OK ? 0 : 1;
}

static pid_t start(const char *url, const char *store, int sleeps, int tell)
{
        pid_t pid = fork(); /* before any client is open: a client stays in its process */

        if (pid == 0)
                _exit(serve(url, store, sleeps, tell));
        return pid;
}

/* A payment of an earlier run is another payment. */
static int forget(const char *url)
{
        pawl_client *client;
        int code = pawl_open(url, NULL, &client);

        if (code != PAWL_OK)
                return code;
        code = pawl_once_forget(client, KEY, NULL);
        pawl_close(client);
        return code == PAWL_NOT_FOUND ? PAWL_OK : code;
}

/* Did all of them tell this receipt? */
static const char *compare(const char *receipt, int told)
{
        FILE *lines = fdopen(told, "r");
        char line[LINE];
        int count = 0;

        while (lines && fgets(line, sizeof(line), lines) && strcmp(line, receipt) == 0)
                count++;
        if (lines)
                fclose(lines);
        printf("%d processes have the receipt: %s", count, receipt);
        return count == ASKED ? NULL : "not all of them have the same receipt";
}

/* What is kept as the result is what was written, and what everybody has. */
static const char *audit(const char *url, const char *store, int told)
{
        struct pawl_result result = {0};
        struct pawl_guard_data data = {0};
        const char *wrong = "there is no receipt";
        pawl_client *client = NULL;
        pawl_guard *guard = NULL;

        if (pawl_open(url, NULL, &client) == PAWL_OK && pawl_guard_open(store, NULL, &guard) == PAWL_OK &&
            pawl_once_look(client, KEY, NULL, &result) == PAWL_OK &&
            pawl_guard_get(guard, RECEIPT, result.token, NULL, &data) == PAWL_OK)
                wrong = strcmp(result.data, data.bytes) == 0 ? compare(data.bytes, told) : "it was charged again";
        free(result.data);
        free(data.bytes);
        pawl_guard_close(guard);
        pawl_close(client);
        return wrong;
}

static const char *play(const char *url, const char *store, const int *ends)
{
        int status, failed = 0;
        pid_t first;

        if (forget(url) != PAWL_OK)
                return "cannot open the store";
        first = start(url, store, 1, ends[1]);
        if (first < 0 || waitpid(first, &status, WUNTRACED) != first || !WIFSTOPPED(status))
                return "the first process does not fall asleep";
        printf("process %d has begun, and sleeps\n", (int)first);
        for (int i = 1; i < ASKED; i++)
                if (start(url, store, 0, ends[1]) < 0)
                        return "cannot start a process";
        for (int i = 1; i < ASKED; i++)
                failed += wait(&status) < 0 || status != 0;
        kill(first, SIGCONT);
        failed += waitpid(first, &status, 0) != first || status != 0;
        close(ends[1]);
        return failed ? "a process failed" : audit(url, store, ends[0]);
}

int main(int argc, char **argv)
{
        char store[4096];
        const char *wrong = "cannot make a pipe";
        int ends[2];

        setvbuf(stdout, NULL, _IOLBF, 0); /* so that nothing is printed again by a child */
        snprintf(store, sizeof(store), "file:%s", argc > 2 ? argv[2] : ".");
        if (pipe(ends) == 0)
                wrong = play(argc > 1 ? argv[1] : NULL, store, ends);
        printf("%s\n", wrong ? wrong : "charged once");
        return wrong ? 1 : 0;
}
