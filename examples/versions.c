/* versions.c - many threads change one document without a lock: each reads it with its version, changes it, and writes
 * it if the version is still the same; else again. Nothing is lost, and nobody ever waits for somebody who has gone
 * away.
 *
 *     versions [GUARD-URL]
 */
#include <pawl/version.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOPPERS = 4, APPLES_EACH = 25, APPLES = 90 };

static const char STOCK[] = "stock";
static const int SOLD_OUT = -1; /* of our own: it is none of pawl's */

static pawl_guard *guard;

static int apples_in(const struct pawl_change *change)
{
        return change->old ? atoi(change->old) : 0;
}

static int put_apples(struct pawl_change *change, int apples)
{
        char text[32];

        snprintf(text, sizeof(text), "%d apples", apples);
        return pawl_change_to(change, text, strlen(text));
}

static int fill(struct pawl_change *change, void *arg)
{
        (void)arg;
        return put_apples(change, APPLES);
}

/* May run more than once for one apple: it only computes. */
static int take_apple(struct pawl_change *change, void *arg)
{
        int apples = apples_in(change);

        *(unsigned *)arg += change->number > 1; /* another one was faster */
        usleep(200);                            /* as if there were more to compute */
        return apples > 0 ? put_apples(change, apples - 1) : SOLD_OUT;
}

struct shopper {
        pthread_t thread;
        unsigned again;
        int bought, refused;
        const char *wrong;
};

static void *shop(void *arg)
{
        struct shopper *shopper = arg;

        for (int i = 0; i < APPLES_EACH; i++) {
                int code = pawl_update(guard, STOCK, take_apple, &shopper->again, PAWL_UPDATE(.wait_ms = 60000), NULL);

                if (code == PAWL_OK)
                        shopper->bought++;
                else if (code == SOLD_OUT)
                        shopper->refused++;
                else
                        shopper->wrong = pawl_strerror(code);
        }
        return NULL;
}

/* The story. The first thing that does not come out as it should is the answer. */
static const char *play(unsigned *again)
{
        struct shopper shoppers[SHOPPERS] = {0};
        struct pawl_guard_data data = {0};
        const char *wrong = NULL;
        uint64_t filled, version;
        int bought = 0, refused = 0;

        if (pawl_update(guard, STOCK, fill, NULL, NULL, &filled) != PAWL_OK)
                return "the stock cannot be filled";
        for (int i = 0; i < SHOPPERS; i++)
                if (pthread_create(&shoppers[i].thread, NULL, shop, &shoppers[i]) != 0)
                        return "no thread";
        for (int i = 0; i < SHOPPERS; i++) {
                pthread_join(shoppers[i].thread, NULL);
                bought += shoppers[i].bought;
                refused += shoppers[i].refused;
                *again += shoppers[i].again;
                wrong = wrong ? wrong : shoppers[i].wrong;
        }
        if (wrong || bought != APPLES || refused != SHOPPERS * APPLES_EACH - APPLES)
                return wrong ? wrong : "an apple was sold twice, or not at all";
        /* A reader of another program that has never heard of tokens. */
        if (pawl_guard_look(guard, STOCK, NULL, &data) != PAWL_OK || strcmp(data.bytes, "0 apples") != 0)
                wrong = "the stock is not empty";
        else if (data.token != filled + APPLES)
                wrong = "not every apple has a version of its own";
        /* Who has read before all this and writes now is refused. */
        else if (pawl_guard_swap(guard, STOCK, filled, "90 apples", 9, NULL, &version) != PAWL_STALE)
                wrong = "a late write is not refused";
        free(data.bytes);
        return wrong;
}

int main(int argc, char **argv)
{
        const char *wrong = "cannot open the guard";
        unsigned again = 0;

        if (pawl_guard_open(argc > 1 ? argv[1] : "file:.", NULL, &guard) == PAWL_OK)
                wrong = play(&again);
        if (wrong)
                printf("%s\n", wrong);
        else
                printf("%d apples sold once each, without a lock; %u times another one was faster\n", APPLES, again);
        pawl_guard_close(guard);
        return wrong ? 1 : 0;
}
