/* barrier.c - three machines change a database in two steps: nobody begins before all are there, and nobody begins
 * the second step before all have done the first. Who watches waits for a latch that each of them counts down at
 * its end.
 *
 *     barrier [URL] */
#include <pawl.h>
#include <pawl/barrier.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MACHINES = 3, PATIENCE_S = 120 };

static const char MIGRATION[] = "example/migration", DONE[] = "example/migrated";

static void pause_ms(long ms)
{
        const struct timespec pause = {.tv_nsec = ms * 1000000};

        nanosleep(&pause, NULL);
}

static int tell(int fd, char what)
{
        return write(fd, &what, 1) == 1 ? PAWL_OK : PAWL_SYSTEM;
}

/* Some are slow to come, and others slow at work. */
static int migrate(pawl_client *client, int number, int fd)
{
        pawl_barrier *barrier;
        int code;

        pause_ms(40 * number);
        code = pawl_barrier_enter(client, MIGRATION, MACHINES, NULL, &barrier);
        if (code != PAWL_OK)
                return code;
        pause_ms(40 * (MACHINES - number));
        code = tell(fd, '1');
        if (code != PAWL_OK) {
                pawl_barrier_leave(barrier, PAWL_NO_WAIT);
                return code;
        }
        code = pawl_barrier_leave(barrier, PAWL_FOREVER);
        if (code == PAWL_OK)
                code = tell(fd, '2');
        return code == PAWL_OK ? pawl_latch_down(client, DONE, MACHINES, 1, NULL, NULL) : code;
}

static int machine(const char *url, int number, int fd)
{
        pawl_client *client;
        int code;

        alarm(PATIENCE_S);
        code = pawl_open(url, NULL, &client);
        if (code == PAWL_OK) {
                code = migrate(client, number, fd);
                pawl_close(client);
        }
        if (code != PAWL_OK)
                fprintf(stderr, "barrier: machine %d: %s\n", number, pawl_strerror(code));
        return code == PAWL_OK ? 0 : 1;
}

/* A latch stays at 0 until it is forgotten: that of an earlier run, too. */
static const char *watch(pawl_client *client, int begin, int heard)
{
        char steps[2 * MACHINES + 1] = "";
        int code = pawl_latch_forget(client, DONE, NULL);

        close(begin);
        if (code == PAWL_OK)
                code = pawl_latch_wait(client, DONE, PAWL_BARRIER(.wait_ms = PATIENCE_S * 1000));
        if (code != PAWL_OK || pawl_latch_forget(client, DONE, NULL) != PAWL_OK)
                return "the latch does not tell that all are done";
        if (read(heard, steps, 2 * MACHINES) != 2 * MACHINES)
                return "a step was left out";
        printf("the steps as they were done: %s\n", steps);
        return strcmp(steps, "111222") == 0 ? NULL : "one went ahead";
}

int main(int argc, char **argv)
{
        const char *url = argc > 1 ? argv[1] : NULL, *wrong = "cannot open the store";
        int steps[2], begin[2], status;
        pawl_client *client;
        char none;

        if (pipe(steps) != 0 || pipe(begin) != 0)
                return 1;
        for (int i = 0; i < MACHINES; i++)
                if (fork() == 0) { /* before any client is open: a client stays in its process */
                        close(begin[1]);
                        _exit(read(begin[0], &none, 1) == 0 ? machine(url, i, steps[1]) : 1);
                }
        if (pawl_open(url, NULL, &client) == PAWL_OK) {
                wrong = watch(client, begin[1], steps[0]);
                pawl_close(client);
        } else {
                close(begin[1]);
        }
        for (int i = 0; i < MACHINES; i++)
                if (wait(&status) < 0 || status != 0)
                        wrong = "a machine failed";
        if (wrong)
                printf("%s\n", wrong);
        return wrong ? 1 : 0;
}
