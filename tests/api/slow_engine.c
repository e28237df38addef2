/* slow_engine.c - see slow_engine.h. One table of names for the process; a queue for each; everything under the lock of the
 * one client that a test opens. */
#include "slow_engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

struct slow_settings slow;

enum { NAMES = 64 };

enum doing { WAITING, HOLDING, RENEWING, RELEASING, CANCELLING, ASKING };

struct answer {
        struct timer timer;
        struct engine *engine;
        struct claim *claim;
        struct inquiry *inquiry;
        int64_t sent_at;
        enum doing doing;
};

struct slow_claim {
        struct list listed; /* in the queue */
        struct claim *claim;
        bool holds;
        bool cancelled;
};

struct slow_name {
        char name[256];
        struct claim *holder;
        struct list queue;
};

struct slow_store {
        struct engine engine;
        struct slow_name names[NAMES];
        size_t count;
        uint64_t token;
};

static struct slow_store *store_of(struct engine *engine)
{
        return (struct slow_store *)(void *)engine;
}

static struct slow_name *name_of(struct slow_store *store, const struct claim *claim)
{
        for (size_t i = 0; i < store->count; i++)
                if (strcmp(store->names[i].name, claim->name) == 0)
                        return &store->names[i];
        if (store->count == NAMES)
                abort();
        strcpy(store->names[store->count].name, claim->name);
        list_init(&store->names[store->count].queue);
        return &store->names[store->count++];
}

static void arrive(struct timer *timer);

static struct answer *answer_later(struct engine *engine, struct claim *claim, enum doing doing, bool mute)
{
        struct answer *answer;
        int64_t now = loop_now(engine->host->loop);

        if (mute)
                return NULL;
        answer = calloc(1, sizeof(*answer));
        answer->timer.fire = arrive;
        answer->engine = engine;
        answer->claim = claim;
        answer->doing = doing;
        answer->sent_at = now;
        if (loop_set(engine->host->loop, &answer->timer, now + __atomic_load_n(&slow.delay, __ATOMIC_RELAXED)) != 0)
                abort();
        return answer;
}

static void grant(struct slow_store *store, struct slow_name *name, struct claim *claim)
{
        struct slow_claim *part = claim->part;
        struct grant grant = {.token = ++store->token, .sent_at = loop_now(store->engine.host->loop) - slow.grant_age};

        slow.grant_age = 0;
        name->holder = claim;
        part->holds = true;
        slow.held++;
        store->engine.host->events->granted(store->engine.host->core, claim, &grant);
}

static void serve(struct slow_store *store, struct slow_name *name)
{
        while (!name->holder && !list_empty(&name->queue)) {
                struct slow_claim *part = list_first(&name->queue, struct slow_claim, listed);

                list_remove(&part->listed);
                grant(store, name, part->claim);
        }
}

static void arrive_claim(struct slow_store *store, struct claim *claim)
{
        struct slow_name *name = name_of(store, claim);
        struct slow_claim *part = claim->part;

        if (slow.refuse) {
                store->engine.host->events->refused(store->engine.host->core, claim, PAWL_DENIED, "the store said no");
                return;
        }
        if (part->cancelled) {
                store->engine.host->events->refused(store->engine.host->core, claim, PAWL_CANCELLED, NULL);
                return;
        }
        if (name->holder && !claim->wait) {
                store->engine.host->events->refused(store->engine.host->core, claim, PAWL_BUSY, NULL);
                return;
        }
        list_append(&name->queue, &part->listed);
        serve(store, name);
}

static void arrive_release(struct slow_store *store, struct claim *claim)
{
        struct slow_name *name = name_of(store, claim);

        if (name->holder == claim) {
                name->holder = NULL;
                slow.held--;
        }
        store->engine.host->events->released(store->engine.host->core, claim, PAWL_OK);
        serve(store, name);
}

static void arrive(struct timer *timer)
{
        struct answer *answer = container_of(timer, struct answer, timer);
        struct slow_store *store = store_of(answer->engine);
        const struct engine_host *host = answer->engine->host;

        switch (answer->doing) {
        case WAITING:
                arrive_claim(store, answer->claim);
                break;
        case RENEWING:
                host->events->renewed(host->core, answer->claim, slow.fail_renew ? PAWL_UNREACHABLE : PAWL_OK,
                                      answer->sent_at);
                break;
        case RELEASING:
                arrive_release(store, answer->claim);
                break;
        case ASKING:
                answer->inquiry->answered(answer->inquiry, PAWL_DENIED, "nobody may look");
                break;
        default:
                break;
        }
        free(answer);
}

static int slow_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        (void)url;
        (void)why;
        engine->capabilities = PAWL_CAN_QUEUE | PAWL_CAN_INSPECT | PAWL_CAN_BREAK | PAWL_CAN_ASK | PAWL_CAN_KEEP;
        return PAWL_OK;
}

static void slow_close(struct engine *engine)
{
        (void)engine;
}

static void slow_acquire(struct engine *engine, struct claim *claim)
{
        struct slow_claim *part = claim->part;

        __atomic_add_fetch(&slow.acquires, 1, __ATOMIC_RELAXED);
        list_init(&part->listed);
        part->claim = claim;
        answer_later(engine, claim, WAITING, slow.mute_acquire);
}

static void slow_cancel(struct engine *engine, struct claim *claim)
{
        struct slow_claim *part = claim->part;

        if (list_empty(&part->listed)) { /* still on its way there, or nobody answers */
                part->cancelled = true;
                return;
        }
        list_remove(&part->listed);
        engine->host->events->refused(engine->host->core, claim, PAWL_CANCELLED, NULL);
}

static void slow_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                __atomic_add_fetch(&slow.renewals, 1, __ATOMIC_RELAXED);
                answer_later(engine, claims[i], RENEWING, slow.mute_renew);
        }
}

static void slow_release(struct engine *engine, struct claim *claim)
{
        __atomic_add_fetch(&slow.releases, 1, __ATOMIC_RELAXED);
        answer_later(engine, claim, RELEASING, slow.mute_release);
}

static void slow_ask(struct engine *engine, struct inquiry *inquiry)
{
        struct answer *answer = answer_later(engine, NULL, ASKING, slow.mute_inspect);

        __atomic_add_fetch(&slow.inquiries, 1, __ATOMIC_RELAXED);
        if (answer)
                answer->inquiry = inquiry;
}

static void slow_examine(struct engine *engine, struct inquiry *inquiry)
{
        struct pawl_finding finding = {.severity = PAWL_WARNING, .where = "slow", .what = "it is slow", .mend = "wait"};

        inquiry->finding(inquiry, &finding);
        slow_ask(engine, inquiry);
}

static void slow_forget(struct engine *engine, struct inquiry *inquiry)
{
        (void)engine;
        (void)inquiry;
        __atomic_add_fetch(&slow.forgotten, 1, __ATOMIC_RELAXED);
}

static const struct engine_inspect slow_inspect = {
        .list = slow_ask,
        .show = slow_ask,
        .history = slow_ask,
        .break_ = slow_ask,
        .ask = slow_ask,
        .examine = slow_examine,
        .forget = slow_forget,
};

static void slow_keep(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *inquiry)
{
        (void)claim;
        (void)token;
        slow_ask(engine, inquiry);
}

static const struct engine_values slow_values = {
        .store = slow_keep,
        .fetch = slow_ask,
};

const struct engine_ops slow_engine = {
        .name = "slow",
        .size = sizeof(struct slow_store),
        .claim_size = sizeof(struct slow_claim),
        .open = slow_open,
        .close = slow_close,
        .acquire = slow_acquire,
        .cancel = slow_cancel,
        .renew = slow_renew,
        .release = slow_release,
        .inspect = &slow_inspect,
        .values = &slow_values,
};
