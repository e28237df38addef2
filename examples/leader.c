/* leader.c - three candidates, one leader. It works with its epoch at a guard, and publishes its address when it is
 * ready. It is killed, and the next one leads; that one steps down, and the third does. A write of the first that
 * was on its way is refused.
 *
 *     leader [URL [DIRECTORY]] */
#include <pawl.h>
#include <pawl/election.h>
#include <pawl/guard.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CANDIDATES = 3, PATIENCE_S = 120 };

static const char NAME[] = "example/scheduler", PLAN[] = "plan.txt";

static volatile sig_atomic_t told_to_go;

static void on_term(int number)
{
        (void)number;
        told_to_go = 1;
}

static int make_plan(pawl_guard *guard, uint64_t epoch, const char *text)
{
        return pawl_guard_put(guard, PLAN, epoch, text, strlen(text), NULL);
}

/* As long as it leads; it asks before every step. */
static int lead(pawl_election *election, pawl_guard *guard)
{
        const struct timespec work = {.tv_nsec = 20000000};
        char address[64];
        int code;

        snprintf(address, sizeof(address), "pid:%d", (int)getpid()); /* a real one has a port */
        code = make_plan(guard, pawl_epoch(election), address);
        if (code == PAWL_OK)
                code = pawl_publish(election, address, strlen(address));
        while (code == PAWL_OK && !told_to_go && (code = pawl_leads(election)) == PAWL_OK) {
                nanosleep(&work, NULL);
                code = make_plan(guard, pawl_epoch(election), address);
        }
        return code;
}

static int stand(const char *url, const char *store)
{
        pawl_client *client = NULL;
        pawl_guard *guard = NULL;
        pawl_election *election = NULL;
        int code;

        alarm(PATIENCE_S);
        signal(SIGTERM, on_term);
        code = pawl_open(url, NULL, &client);
        if (code == PAWL_OK)
                code = pawl_guard_open(store, NULL, &guard);
        if (code == PAWL_OK)
                code = pawl_campaign(client, NAME, PAWL_ELECTION(.ttl_ms = 4000), &election);
        if (code == PAWL_OK)
                code = lead(election, guard);
        pawl_resign(election);
        pawl_guard_close(guard);
        pawl_close(client);
        return code == PAWL_OK ? 0 : 1;
}

/* ---- who watches
 * ----------------------------------------------------------------------------------------------------- */

struct watch {
        uint64_t epoch; /* of the last leader that was seen */
        int pid;
};

/* Ends the watching when there is a leader later than the last, and it has told its address. */
static int on_news(const struct pawl_leader *leader, void *arg)
{
        struct watch *watch = arg;

        if (!leader || leader->epoch <= watch->epoch || !leader->value)
                return 0;
        watch->epoch = leader->epoch;
        watch->pid = atoi((const char *)leader->value + strlen("pid:"));
        printf("%s leads, in epoch %llu\n", (const char *)leader->value, (unsigned long long)leader->epoch);
        return 1;
}

static int see_next(pawl_client *client, struct watch *watch)
{
        return pawl_observe(client, NAME, PAWL_OBSERVE(.every_ms = 20, .wait_ms = PATIENCE_S * 1000), on_news, watch);
}

static const char *play(pawl_client *client, pawl_guard *guard)
{
        struct watch watch = {0};
        uint64_t first;
        int status;

        if (see_next(client, &watch) != PAWL_OK)
                return "nobody leads";
        first = watch.epoch;
        kill(watch.pid, SIGKILL);
        if (see_next(client, &watch) != PAWL_OK)
                return "nobody follows a leader that was killed";
        if (make_plan(guard, first, "by the first, too late") != PAWL_STALE)
                return "the plan of a dead leader is admitted";
        printf("what the first one had still sent was refused\n");
        kill(watch.pid, SIGTERM);
        if (waitpid(watch.pid, &status, 0) != watch.pid || status != 0)
                return "a leader cannot step down";
        if (see_next(client, &watch) != PAWL_OK)
                return "nobody follows a leader that stepped down";
        kill(watch.pid, SIGTERM);
        if (waitpid(watch.pid, &status, 0) != watch.pid || status != 0)
                return "the last leader cannot step down";
        return NULL;
}

int main(int argc, char **argv)
{
        const char *url = argc > 1 ? argv[1] : NULL, *wrong = "cannot open the store or the guard";
        pid_t candidates[CANDIDATES];
        char store[4096];
        pawl_client *client = NULL;
        pawl_guard *guard = NULL;

        snprintf(store, sizeof(store), "file:%s", argc > 2 ? argv[2] : ".");
        for (int i = 0; i < CANDIDATES; i++) {
                candidates[i] = fork(); /* before any client is open: a client stays in its process */
                if (candidates[i] == 0)
                        _exit(stand(url, store));
        }
        if (pawl_open(url, NULL, &client) == PAWL_OK && pawl_guard_open(store, NULL, &guard) == PAWL_OK)
                wrong = play(client, guard);
        if (wrong) {
                printf("%s\n", wrong);
                for (int i = 0; i < CANDIDATES; i++)
                        if (candidates[i] > 0)
                                kill(candidates[i], SIGKILL);
        }
        while (wait(NULL) > 0)
                ;
        pawl_guard_close(guard);
        pawl_close(client);
        return wrong ? 1 : 0;
}
