/* handover.c - a process takes a lock and hands it to another one, which goes on with it: with the same token, and
 * without a moment in which a third could have had it. So a front end may take the lock, and the worker that it
 * starts has it.
 *
 *     handover [URL] */
#include <pawl.h>
#include <pawl/handle.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TTL_MS = 3000, PATIENCE_S = 120 };

static const char NAME[] = "example/upload";

/* What passes through the pipe. Who knows the word has the lock: keep it out of logs. */
struct parcel {
        char word[PAWL_LEASE_MAX + 1];
        uint64_t token;
};

/* Works longer than a lease lasts: it is renewed again, by this process. */
static int work(pawl_client *client, const struct parcel *parcel, int tell)
{
        const struct timespec pause = {.tv_sec = TTL_MS / 1000 + 1};
        pawl_lock *lock;
        int code = pawl_take_over(client, parcel->word, NULL, &lock);

        if (code != PAWL_OK)
                return code;
        printf("the worker goes on with token %llu\n", (unsigned long long)pawl_token(lock));
        if (pawl_token(lock) != parcel->token || write(tell, "t", 1) != 1)
                code = PAWL_SYSTEM;
        nanosleep(&pause, NULL);
        if (code == PAWL_OK)
                code = pawl_check(lock);
        printf("the worker is done\n");
        return pawl_release(lock) == PAWL_OK ? code : PAWL_LOST;
}

static int worker(const char *url, int from, int tell)
{
        struct parcel parcel;
        pawl_client *client;
        int code;

        alarm(PATIENCE_S);
        if (read(from, &parcel, sizeof(parcel)) != (ssize_t)sizeof(parcel))
                return 1;
        code = pawl_open(url, NULL, &client);
        if (code == PAWL_OK) {
                code = work(client, &parcel, tell);
                pawl_close(client);
        }
        if (code != PAWL_OK)
                fprintf(stderr, "handover: the worker: %s\n", pawl_strerror(code));
        fflush(stdout);
        return code == PAWL_OK ? 0 : 1;
}

static const char *hand(pawl_client *client, struct parcel *parcel)
{
        pawl_lock *lock;
        int code = pawl_acquire(
                client, NAME,
                PAWL_LOCK(.flags = PAWL_DETACH | PAWL_RENEW, .ttl_ms = TTL_MS, .wait_ms = PATIENCE_S * 1000), &lock);

        if (code == PAWL_UNSUPPORTED)
                return "this engine has no leases that outlive a process";
        if (code != PAWL_OK)
                return "the front end does not get the lock";
        memset(parcel, 0, sizeof(*parcel));
        parcel->token = pawl_token(lock);
        printf("the front end has the lock, with token %llu\n", (unsigned long long)parcel->token);
        if (pawl_hand_over(lock, parcel->word, sizeof(parcel->word)) == PAWL_OK)
                return NULL;
        pawl_release(lock);
        return "the lock cannot be handed over";
}

/* A third one waits: it comes after the worker. */
static const char *play(pawl_client *client, int to, int heard)
{
        struct parcel parcel;
        const char *wrong = hand(client, &parcel);
        pawl_lock *lock;
        char byte;

        if (wrong)
                return wrong;
        if (write(to, &parcel, sizeof(parcel)) != (ssize_t)sizeof(parcel) || read(heard, &byte, 1) != 1)
                return "the worker does not take it over";
        if (pawl_acquire(client, NAME, PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock) != PAWL_BUSY)
                return "a third has the lock, too";
        if (pawl_acquire(client, NAME, PAWL_LOCK(.wait_ms = PATIENCE_S * 1000), &lock) != PAWL_OK)
                return "the lock was not given back";
        printf("the next one has token %llu\n", (unsigned long long)pawl_token(lock));
        wrong = pawl_token(lock) > parcel.token ? NULL : "the next token is not greater";
        return pawl_release(lock) == PAWL_OK ? wrong : "the lock was lost";
}

int main(int argc, char **argv)
{
        const char *url = argc > 1 ? argv[1] : NULL, *wrong = "cannot open the store";
        int parcels[2], words[2], status;
        pawl_client *client;

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (pipe(parcels) != 0 || pipe(words) != 0)
                return 1;
        if (fork() == 0) { /* before any client is open: a client stays in its process */
                close(parcels[1]);
                _exit(worker(url, parcels[0], words[1]));
        }
        close(words[1]);
        if (pawl_open(url, NULL, &client) == PAWL_OK) {
                wrong = play(client, parcels[1], words[0]);
                pawl_close(client);
        }
        close(parcels[1]);
        if ((wait(&status) < 0 || status != 0) && !wrong)
                wrong = "the worker failed";
        if (wrong)
                printf("%s\n", wrong);
        return wrong ? 1 : 0;
}
