/* limit.c - a rate for all processes together: three of them send mails, 20 a second at most, whoever sends them.
 *
 *     limit [URL]
 */
#include <pawl.h>
#include <pawl/limit.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 3, MAILS = 8, RATE = 20, BURST = 5 };

static char name[64]; /* a bucket of this run's own: one that was used a moment ago is not full */

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int send_mails(const char *url)
{
        pawl_client *client;
        int sent = 0, code = pawl_open(url, NULL, &client);

        if (code != PAWL_OK)
                return 1;
        while (code == PAWL_OK && sent < MAILS) {
                code = pawl_limit(client, name, PAWL_LIMIT(.rate = RATE, .burst = BURST), NULL); /* waits its turn */
                sent += code == PAWL_OK;
        }
        if (code != PAWL_OK)
                fprintf(stderr, "limit: %s\n", pawl_strerror(code));
        pawl_close(client);
        return code == PAWL_OK ? 0 : 1;
}

/* The first BURST may go at once, each of the others has to wait for 1/RATE of a second. */
static const char *together(const char *url)
{
        const double least = (double)(PROCESSES * MAILS - BURST) / RATE;
        double begun = now(), took;
        int status, failed = 0;

        for (int i = 0; i < PROCESSES; i++) {
                pid_t pid = fork(); /* before any client is open: a client stays in its process */

                if (pid == 0)
                        _exit(send_mails(url));
                failed += pid < 0;
        }
        for (int i = 0; i < PROCESSES; i++)
                failed += wait(&status) < 0 || status != 0;
        took = now() - begun;
        printf("%d mails by %d processes took %.2f s; %.2f s is the least for them\n", PROCESSES * MAILS, PROCESSES,
               took, least);
        return failed ? "a process failed" : took < least ? "they were too fast" : NULL;
}

/* Who does not want to wait is told how long it would have been. */
static const char *refused(pawl_client *client)
{
        const struct pawl_limit_options *options =
                PAWL_LIMIT(.rate = 1, .per_ms = 3600 * 1000, .wait_ms = PAWL_NO_WAIT);
        struct pawl_permit permit;
        char rare[80];

        snprintf(rare, sizeof(rare), "%s/rare", name);
        if (pawl_limit(client, rare, options, NULL) != PAWL_OK)
                return "the first permit is not there";
        if (pawl_limit(client, rare, options, &permit) != PAWL_BUSY)
                return "there is a second permit within the hour";
        printf("the next report may be sent in %lld minutes\n", (long long)(permit.wait_ms + 59999) / 60000);
        return NULL;
}

int main(int argc, char **argv)
{
        const char *url = argc > 1 ? argv[1] : NULL, *wrong;
        pawl_client *client;

        snprintf(name, sizeof(name), "example/mails-%d-%lld", (int)getpid(), (long long)time(NULL));
        wrong = together(url);
        if (!wrong && pawl_open(url, NULL, &client) == PAWL_OK) {
                wrong = refused(client);
                pawl_close(client);
        }
        if (wrong)
                printf("%s\n", wrong);
        return wrong ? 1 : 0;
}
