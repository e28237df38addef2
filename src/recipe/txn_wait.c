/* txn_wait.c - waiting under a policy with ages: who is in the way, and who of us gives way (docs/decisions/0150).
 *
 * The claim stands in the store's line, with its age, before anybody is looked at. So of two who come at the same
 * time one at least sees the other. Those ahead of us only get fewer, where there is a line; they are looked at
 * again from time to time all the same, because a place in the line, or a question to a holder, can be lost with a
 * connection. */
#include <string.h>

#include "recipe.h"
#include "txn.h"
#include "when.h"

enum {
        FIRST_LOOK_MS = 2, /* most claims are granted before */
        LOOK_LESS = 4,     /* so many times later each time */
        LOOK_MAX_MS = 1000,
        LOOK_MAX_NO_LINE_MS = 100 /* whoever comes may be next: the holder changes without passing us */
};

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* What was seen of a name. Claims without an age hold one lock and wait for none, so they count as nobody. */
struct scene {
        const struct pawl_txn *txn;
        bool here;         /* we are in the line */
        bool inside;       /* we hold it */
        bool older_ahead;  /* a holder, or one who waits before us, is older than we are */
        bool older_behind; /* one who waits, and not before us */
        unsigned holders;
        unsigned younger; /* of the holders */
};

/* < 0: it is older than we are; 0: it is us. Ages are made to differ; should two be the same, the owner decides. */
static int compare(const struct pawl_entry *entry, const struct pawl_txn *txn)
{
        if (entry->age != txn->age)
                return entry->age < txn->age ? -1 : 1;
        return strcmp(entry->owner, pawl_owner(txn->client));
}

static void see_holder(struct scene *scene, const struct pawl_entry *entry, int order)
{
        if (entry->age && order == 0) {
                scene->inside = true;
                return;
        }
        scene->holders++;
        scene->younger += entry->age && order > 0;
        scene->older_ahead |= entry->age && order < 0;
}

static void see_waiter(struct scene *scene, const struct pawl_entry *entry, int order)
{
        if (!entry->age)
                return;
        if (order == 0)
                scene->here = true;
        else if (order < 0 && (scene->here || scene->inside))
                scene->older_behind = true;
        else if (order < 0)
                scene->older_ahead = true;
}

static int see(const struct pawl_entry *entry, void *arg)
{
        struct scene *scene = arg;

        if (entry->role == PAWL_ROLE_HOLDER)
                see_holder(scene, entry, compare(entry, scene->txn));
        else if (entry->role == PAWL_ROLE_WAITER)
                see_waiter(scene, entry, compare(entry, scene->txn));
        return 0;
}

/* If it cannot be seen nobody is there; the next look may see more, and the claim says itself if the store is gone. */
static struct scene look(struct pawl_txn *txn, const char *name)
{
        struct scene scene = {.txn = txn};

        if (pawl_look(txn->client, name, see, &scene) != PAWL_OK)
                scene = (struct scene){.txn = txn};
        return scene;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static bool has_line(const struct pawl_txn *txn)
{
        return pawl_capabilities(txn->client) & PAWL_CAN_QUEUE;
}

/* Soon at first, because most waits are short, then less and less often; within a lease at least four times. Half
 * of it is chance: those who wait for the same are not to look at the same time. */
static int64_t until_next_look(const struct pawl_txn *txn, const struct pawl_lock_options *options, int64_t *ms)
{
        int64_t most = has_line(txn) ? LOOK_MAX_MS : LOOK_MAX_NO_LINE_MS;

        if (options->ttl_ms && options->ttl_ms / 4 < most)
                most = options->ttl_ms / 4;
        *ms = *ms * LOOK_LESS < most ? *ms * LOOK_LESS : most;
        return *ms / 2 + (int64_t)(when_random() % (uint64_t)*ms);
}

/* The one who dies is the younger, and only if it holds something: who holds nothing stands in nobody's way but of
 * those behind it in the same line, and they see the same ones ahead. */
static bool must_die(struct pawl_txn *txn, const struct part *part, const struct scene *scene)
{
        if (txn->options.policy != PAWL_WAIT_DIE || !part->before || !scene->older_ahead)
                return false;
        return scene->here || !has_line(txn);
}

/* All holders, for they are all asked: among older ones the youngest waits as well. */
static bool may_wound(struct pawl_txn *txn, const struct scene *scene)
{
        return txn->options.policy == PAWL_WOUND_WAIT && scene->holders && scene->younger == scene->holders;
}

/* True, and *code, if the claim was decided within so many ms, or cannot be waited for. */
static bool is_decided(pawl_lock *lock, int64_t ms, int *code)
{
        *code = pawl_wait(lock, ms);
        if (*code == PAWL_TIMEOUT && pawl_state(lock) == PAWL_WAITING)
                return false;
        if (*code == PAWL_TIMEOUT) /* its own time is over, or it was decided since */
                *code = pawl_wait(lock, PAWL_NO_WAIT);
        return true;
}

/* Asks the holders to let go. If it is lost, the next look asks again. It reaches those who hold the lock when it
 * arrives: in the worst case ourselves. */
static void ask(struct pawl_txn *txn, struct part *part, const char *name)
{
        atomic_store(&part->asking, true);
        (void)pawl_ask(txn->client, name);
}

/* Was it an older one who asked for one of those that we were asked for in doubt? Only who waits has to know. */
static bool was_asked_by_older(struct pawl_txn *txn, struct part *part)
{
        for (part = part->before; part; part = part->before)
                if (atomic_load(&part->doubted) && look(txn, pawl_name(part->lock)).older_behind)
                        return true;
        return false;
}

/* Who was ahead is gone, and an older one behind us may have looked before that: it need not look again. */
static int look_behind(struct pawl_txn *txn, struct part *part, const char *name)
{
        struct scene scene = look(txn, name);

        atomic_store(&part->asking, false); /* what we asked has arrived */
        return scene.older_behind ? PAWL_WOUNDED : PAWL_OK;
}

static int wait_in_line(struct pawl_txn *txn, struct part *part, const char *name,
                        const struct pawl_lock_options *options)
{
        int64_t next_ms = FIRST_LOOK_MS, about_ms = FIRST_LOOK_MS;
        bool waited = false;
        int code;

        while (!is_decided(part->lock, next_ms, &code)) {
                struct scene scene = look(txn, name);

                waited = true;
                if (must_die(txn, part, &scene) || was_asked_by_older(txn, part))
                        return PAWL_WOUNDED;
                if (may_wound(txn, &scene))
                        ask(txn, part, name);
                next_ms = until_next_look(txn, options, &about_ms);
        }
        if (code == PAWL_OK && waited && txn->options.policy == PAWL_WOUND_WAIT)
                code = look_behind(txn, part, name);
        return code;
}

/* ---- being asked ------------------------------------------------------------------------------------------------- */

/* Whoever asks is taken at his word: to find out whether he is older would block. Only if it may have been
 * ourselves that is left to the next wait; later questions for the same lock are not told. */
static void on_asked(pawl_lock *lock, void *arg)
{
        struct part *part = arg;
        struct pawl_txn *txn = part->txn;
        bool doubted = atomic_load(&part->asking);
        bool first = !doubted && txn_wound(txn);

        if (doubted)
                atomic_store(&part->doubted, true);
        txn_tell(txn, true);
        if (part->on_asked)
                part->on_asked(lock, part->arg);
        if (first && txn->options.on_wounded)
                txn->options.on_wounded(txn, txn->options.arg);
        txn_tell(txn, false);
}

static void on_lost(pawl_lock *lock, int reason, void *arg)
{
        struct part *part = arg;

        if (part->on_lost)
                part->on_lost(lock, reason, part->arg);
}

static void hear(struct pawl_txn *txn, struct pawl_lock_options *options, struct part *part)
{
        part->txn = txn;
        part->on_lost = options->on_lost;
        part->on_asked = options->on_asked;
        part->arg = options->arg;
        options->on_lost = on_lost;
        options->on_asked = on_asked;
        options->arg = part;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static int explain(struct pawl_txn *txn, pawl_lock *lock, int code, struct pawl_why *why)
{
        if (code != PAWL_OK && txn_is_wounded(txn)) /* cancelled, most often: on_asked did that */
                code = PAWL_WOUNDED;
        if (code == PAWL_WOUNDED)
                return recipe_fail(why, code, "an older transaction comes first: restart this one");
        if (code != PAWL_OK && why)
                (void)pawl_lock_why(lock, why);
        return code;
}

int txn_take_by_age(struct pawl_txn *txn, const char *name, struct pawl_lock_options *options, struct part *part)
{
        pawl_lock *lock;
        bool added;
        int code;

        if (txn->options.policy == PAWL_WOUND_WAIT)
                hear(txn, options, part);
        code = pawl_acquire_async(txn->client, name, options, NULL, NULL, &lock);
        if (code != PAWL_OK)
                return code;
        added = txn_add(txn, part, lock);
        code = explain(txn, lock, added ? wait_in_line(txn, part, name, options) : PAWL_WOUNDED, options->why);
        if (code == PAWL_OK)
                return code;
        if (added)
                txn_remove(txn, part);
        pawl_release(lock);
        if (code == PAWL_WOUNDED) /* also who found it out himself: he is to begin anew before anything else */
                (void)txn_wound(txn);
        return code;
}
