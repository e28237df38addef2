/* transfer.c - money between accounts, each with a lock of its own. Threads move it back and forth between the same
 * accounts, in any order: sometimes both names are known beforehand, sometimes the second is found under the first.
 * Nobody waits for ever, and no penny is lost.
 *
 *     transfer [URL]
 */
#include <pawl.h>
#include <pawl/txn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, ACCOUNTS = 4, TRANSFERS = 25, OPENING = 1000 };

/* What a program would have in its database, guarded by the locks; there, by their tokens as well (pawl/guard.h). */
static struct account {
        char name[24];
        int balance;
        int heir; /* where the money of this account goes */
} accounts[ACCOUNTS];

static pawl_client *client;
static atomic_int failures, again;

static void move(struct account *from, struct account *to, int amount)
{
        int before = from->balance;

        from->balance = before - amount;
        to->balance += amount;
}

/* Both are known: all or nothing, in whatever order they are named. */
static int transfer(int from, int to, int amount)
{
        const char *const names[] = {accounts[from].name, accounts[to].name};
        pawl_txn *txn;
        int code = pawl_acquire_all(client, names, 2, PAWL_TXN(.policy = PAWL_WOUND_WAIT, .wait_ms = 20000), &txn);

        if (code != PAWL_OK)
                return code;
        move(&accounts[from], &accounts[to], amount);
        return pawl_txn_end(txn);
}

/* The second is found under the first. It may run several times, so it changes nothing before it has both. */
static int bequeath(pawl_txn *txn, void *arg)
{
        struct account *from = arg, *to;
        int code = pawl_txn_acquire(txn, from->name, NULL, NULL);

        if (code == PAWL_OK) {
                to = &accounts[from->heir];
                code = pawl_txn_acquire(txn, to->name, NULL, NULL);
        }
        if (code == PAWL_WOUNDED)
                atomic_fetch_add(&again, 1);
        if (code != PAWL_OK)
                return code;
        move(from, to, 1);
        return PAWL_OK;
}

static void *teller(void *arg)
{
        int number = *(int *)arg;

        for (int i = 0; i < TRANSFERS; i++) {
                int from = (number + i) % ACCOUNTS, to = (number + 3 * i + 1) % ACCOUNTS;

                if (from != to && transfer(from, to, 1 + i % 5) != PAWL_OK)
                        atomic_fetch_add(&failures, 1);
                if (pawl_txn_run(client, PAWL_TXN(.policy = PAWL_WOUND_WAIT, .wait_ms = 20000), bequeath,
                                 &accounts[to]) != PAWL_OK)
                        atomic_fetch_add(&failures, 1);
        }
        return NULL;
}

int main(int argc, char **argv)
{
        int numbers[THREADS], sum = 0;
        pthread_t threads[THREADS];
        int code = pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client);

        if (code != PAWL_OK) {
                fprintf(stderr, "transfer: %s\n", pawl_strerror(code));
                return 1;
        }
        for (int i = 0; i < ACCOUNTS; i++) {
                snprintf(accounts[i].name, sizeof accounts[i].name, "example/account/%d", i);
                accounts[i].balance = OPENING;
                accounts[i].heir = (i + 1) % ACCOUNTS; /* round and round: as deadlocks are made */
        }
        for (int i = 0; i < THREADS; i++) {
                numbers[i] = i;
                if (pthread_create(&threads[i], NULL, teller, &numbers[i]) != 0)
                        return 1;
        }
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        pawl_close(client);
        for (int i = 0; i < ACCOUNTS; i++)
                sum += accounts[i].balance;
        printf("%d threads, %d accounts: %d in all, as before; %d had to begin again\n", THREADS, ACCOUNTS, sum,
               atomic_load(&again));
        return atomic_load(&failures) == 0 && sum == ACCOUNTS * OPENING ? 0 : 1;
}
