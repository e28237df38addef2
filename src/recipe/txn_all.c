/* txn_all.c - what most programs need: the loop around a transaction, and all the locks at once. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "recipe.h"
#include "txn.h"

int pawl_txn_run(pawl_client *client, const struct pawl_txn_options *theirs, pawl_txn_fn *fn, void *arg)
{
        struct pawl_txn_options options;
        pawl_txn *txn;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_TXN");
        int ended;

        if (code == PAWL_OK && !fn)
                code = recipe_fail(options.why, PAWL_INVALID, "there is no function to run");
        if (code != PAWL_OK)
                return code;
        code = pawl_txn_begin(client, theirs, &txn);
        if (code != PAWL_OK)
                return code;
        while ((code = fn(txn, arg)) == PAWL_WOUNDED && (code = pawl_txn_restart(txn)) == PAWL_OK)
                ;
        if (code == PAWL_TIMEOUT)
                recipe_fail(options.why, code, "the transaction was not done in time");
        ended = pawl_txn_end(txn);
        return code == PAWL_OK ? ended : code;
}

/* ---- all at once ------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, each once: how many they are. */
static size_t sort(const char **names, size_t n)
{
        size_t kept = 0;

        qsort(names, n, sizeof(*names), by_bytes);
        for (size_t i = 0; i < n; i++)
                if (i == 0 || strcmp(names[i], names[kept - 1]) != 0)
                        names[kept++] = names[i];
        return kept;
}

static int take_each(pawl_txn *txn, const char *const *names, size_t n, const struct pawl_lock_options *options)
{
        int code = PAWL_OK;

        for (size_t i = 0; i < n && code == PAWL_OK; i++)
                code = pawl_txn_acquire(txn, names[i], options, NULL);
        return code;
}

/* Nothing was done under them yet: also who lost one may just begin again. */
static bool starts_again(int code)
{
        return code == PAWL_WOUNDED || code == PAWL_LOST;
}

static int take_all(const struct pawl_txn_options *options, pawl_txn *txn, const char *const *names, size_t n)
{
        struct pawl_lock_options each;
        int code = RECIPE_OPTIONS(&each, options->lock, "PAWL_LOCK");

        if (code != PAWL_OK)
                return recipe_why(options->why, code, "the options of the locks: %s",
                                  code == PAWL_INVALID ? "they have no size: make them with PAWL_LOCK(...)"
                                                       : "they ask for something newer than this library");
        each.size = sizeof(each);
        if (!each.why)
                each.why = options->why;
        while (starts_again(code = take_each(txn, names, n, &each)))
                if ((code = pawl_txn_restart(txn)) != PAWL_OK)
                        return recipe_fail(options->why, code, "they were not all free in time");
        return code;
}

static int check_names(const struct pawl_txn_options *options, const char *const *names, size_t n)
{
        if (options->cover)
                return PAWL_OK;
        if (!names || n == 0)
                return recipe_fail(options->why, PAWL_INVALID, "there are no names");
        for (size_t i = 0; i < n; i++)
                if (!names[i])
                        return recipe_fail(options->why, PAWL_INVALID, "one of the names is NULL");
        return PAWL_OK;
}

/* What is to be taken, in an array of its own. NULL: no memory. */
static const char **choose(const struct pawl_txn_options *options, const char *const *names, size_t *n)
{
        const char **chosen = calloc(options->cover ? 1 : *n, sizeof(*chosen));

        if (chosen && options->cover) {
                chosen[0] = options->cover;
                *n = 1;
        } else if (chosen) {
                memcpy(chosen, names, *n * sizeof(*chosen));
                *n = sort(chosen, *n);
        }
        return chosen;
}

int pawl_acquire_all(pawl_client *client, const char *const *names, size_t n, const struct pawl_txn_options *theirs,
                     pawl_txn **out)
{
        struct pawl_txn_options options;
        const char **chosen;
        pawl_txn *txn;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_TXN");

        if (code == PAWL_OK && !out)
                code = recipe_fail(options.why, PAWL_INVALID, "there is no place for the transaction: it is NULL");
        if (code != PAWL_OK || (code = check_names(&options, names, n)) != PAWL_OK)
                return code;
        code = pawl_txn_begin(client, theirs, &txn);
        if (code != PAWL_OK)
                return code;
        chosen = choose(&options, names, &n);
        code = chosen ? take_all(&options, txn, chosen, n) : recipe_fail(options.why, PAWL_NO_MEMORY, "out of memory");
        free(chosen);
        if (code == PAWL_OK)
                *out = txn;
        else
                pawl_txn_end(txn);
        return code;
}
