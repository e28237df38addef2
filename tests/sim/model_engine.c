/* model_engine.c - the engine that speaks to the model store: engine.h's contract over a network that keeps no promise.
 *
 *   ASKING --queued--> QUEUED --pushed--> ASKING --granted--> HELD --release--> RELEASING --> forgotten
 *      '------- cancel -----'--> CANCELLING --> forgotten
 *
 * Every request is sent again until it is answered. A request carries the time it was sent, the answer brings it back,
 * and from that time the lease counts. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define RETRY (150 * MS)
#define POLL (400 * MS)
#define RENEW_PATIENCE (250 * MS)
enum { TRIES = 6 }; /* before a claim that may not wait is called unreachable */

enum part_state { PART_ASKING, PART_QUEUED, PART_HELD, PART_CANCELLING, PART_RELEASING };

struct model {
        struct engine engine;
        struct list parts;
        struct list errands;
        struct list questions;
        uint64_t numbers; /* of questions, and of stores */
        struct sim_client *client;
        struct timer reconnect;
        bool connected;
};

/* The engine's part of a claim. */
struct part {
        struct list listed;
        struct model *model;
        struct claim *claim;
        enum part_state state;
        uint64_t attempt;
        uint64_t token;
        int tries;
        struct timer timer;       /* asks, cancels or releases again */
        struct timer renew_timer; /* no answer */
        int64_t renew_stamp;
        int renewals; /* asked for since one worked */
        bool renewing;
};

/* What is still to be tidied up in the store after the claim is forgotten. */
struct errand {
        struct list listed;
        struct model *model;
        struct timer timer;
        struct message message;
};

static struct sim_client *client_of(const struct model *model)
{
        return model->client;
}

static enum bug bug_of(const struct model *model)
{
        return client_of(model)->world->bug;
}

static int64_t model_now(const struct model *model)
{
        return loop_now(model->engine.host->loop);
}

static void set_timer(struct model *model, struct timer *timer, int64_t after)
{
        if (loop_set(model->engine.host->loop, timer, model_now(model) + after) != 0)
                abort();
}

static struct uid uid_of(const struct part *part)
{
        const struct claim *claim = part->claim;

        if (bug_of(part->model) == BUG_REUSED_UID)
                return (struct uid){{claim->uid[0], (uint64_t)sim_name_index(claim->name)}};
        return (struct uid){{claim->uid[0], claim->uid[1] | part->attempt << 48}};
}

struct uid engine_uid(const struct claim *claim)
{
        return uid_of(claim->part);
}

int engine_renewals(const struct claim *claim)
{
        return ((const struct part *)claim->part)->renewals;
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

static void transmit(struct model *model, struct message *message)
{
        struct sim_client *client = client_of(model);

        message->client = client->index;
        message->life = client->life;
        message->stamp = model_now(model);
        if (model->connected)
                send_to_server(client->world, message);
}

static struct message about(const struct part *part, enum message_kind kind)
{
        const struct claim *claim = part->claim;

        struct message message = {.kind = kind,
                                  .uid = uid_of(part),
                                  .name = sim_name_index(claim->name),
                                  .ttl = claim->ttl,
                                  .mode = claim->mode,
                                  .max_holders = claim->max_holders,
                                  .wait = claim->wait,
                                  .token = part->token,
                                  .age = claim->age};

        if (claim->note)
                strncpy(message.note, claim->note, sizeof(message.note) - 1);
        return message;
}

static void send_about(struct part *part, enum message_kind kind, int64_t again)
{
        struct message message = about(part, kind);

        transmit(part->model, &message);
        set_timer(part->model, &part->timer, again);
}

static void ask(struct part *part)
{
        part->state = PART_ASKING;
        send_about(part, ASK, RETRY);
}

/* ---- errands --------------------------------------------------------------------------------------------------- */

static void errand_free(struct errand *errand)
{
        loop_unset(errand->model->engine.host->loop, &errand->timer);
        list_remove(&errand->listed);
        free(errand);
}

static void errand_due(struct timer *timer)
{
        struct errand *errand = container_of(timer, struct errand, timer);

        transmit(errand->model, &errand->message);
        set_timer(errand->model, timer, RETRY);
}

static void cancel_in_background(struct part *part)
{
        struct errand *errand = calloc(1, sizeof(*errand));

        if (!errand)
                abort();
        errand->model = part->model;
        errand->message = about(part, CANCEL);
        errand->timer.fire = errand_due;
        list_append(&part->model->errands, &errand->listed);
        errand_due(&errand->timer);
}

static struct errand *find_errand(struct model *model, struct uid uid)
{
        for (struct list *at = model->errands.next; at != &model->errands; at = at->next) {
                struct errand *errand = container_of(at, struct errand, listed);

                if (uid_same(errand->message.uid, uid))
                        return errand;
        }
        return NULL;
}

/* ---- the life of a claim --------------------------------------------------------------------------------------- */

static void forget(struct part *part)
{
        struct loop *loop = part->model->engine.host->loop;

        loop_unset(loop, &part->timer);
        loop_unset(loop, &part->renew_timer);
        list_remove(&part->listed);
}

static void refuse(struct part *part, int code)
{
        const struct engine_host *host = part->model->engine.host;

        forget(part);
        host->events->refused(host->core, part->claim, code, NULL);
}

static void give_up(struct part *part)
{
        cancel_in_background(part);
        refuse(part, PAWL_UNREACHABLE);
}

static void part_due(struct timer *timer)
{
        struct part *part = container_of(timer, struct part, timer);

        switch (part->state) {
        case PART_ASKING:
        case PART_QUEUED:
                if (!part->claim->wait && ++part->tries >= TRIES)
                        give_up(part);
                else
                        ask(part);
                break;
        case PART_CANCELLING:
                send_about(part, CANCEL, RETRY);
                break;
        case PART_RELEASING:
                send_about(part, RELEASE, RETRY);
                break;
        case PART_HELD:
                break;
        }
}

static void tell_renewed(struct part *part, int code, int64_t sent_at)
{
        const struct engine_host *host = part->model->engine.host;

        part->renewing = false;
        if (code == PAWL_OK)
                part->renewals = 0;
        loop_unset(host->loop, &part->renew_timer);
        host->events->renewed(host->core, part->claim, code, sent_at);
}

static void renew_unanswered(struct timer *timer)
{
        tell_renewed(container_of(timer, struct part, renew_timer), PAWL_UNREACHABLE, 0);
}

static struct part *part_init(struct engine *engine, struct claim *claim)
{
        struct part *part = claim->part;

        part->model = (struct model *)engine;
        part->claim = claim;
        part->timer.fire = part_due;
        part->renew_timer.fire = renew_unanswered;
        return part;
}

static void model_acquire(struct engine *engine, struct claim *claim)
{
        struct part *part = part_init(engine, claim);

        list_append(&part->model->parts, &part->listed);
        ask(part);
}

static void model_cancel(struct engine *engine, struct claim *claim)
{
        struct part *part = claim->part;

        (void)engine;
        part->state = PART_CANCELLING;
        send_about(part, CANCEL, RETRY);
}

static void model_release(struct engine *engine, struct claim *claim)
{
        struct part *part = claim->part;
        const struct engine_host *host = engine->host;

        loop_unset(host->loop, &part->renew_timer);
        part->renewing = false;
        part->state = PART_RELEASING;
        send_about(part, RELEASE, RETRY);
        if (bug_of(part->model) == BUG_RELEASE_UNCONFIRMED) {
                forget(part);
                host->events->released(host->core, claim, PAWL_OK);
        }
}

/* ---- at once ---------------------------------------------------------------------------------------------------- */

static int instant_acquire(struct engine *engine, struct claim *claim, int64_t now, struct grant *grant)
{
        struct sim_client *client = client_of((struct model *)engine);
        struct message message;
        struct part *part;

        memset(claim->part, 0, sizeof(struct part)); /* the core does not, on this way */
        part = part_init(engine, claim);
        message = about(part, ASK);
        message.client = client->index;
        *grant = (struct grant){.token = server_try(client->world, &message), .sent_at = now};
        if (!grant->token)
                return PAWL_BUSY;
        part->state = PART_HELD;
        part->token = grant->token;
        list_append(&part->model->parts, &part->listed);
        return PAWL_OK;
}

static int instant_release(struct engine *engine, struct claim *claim, int64_t now)
{
        struct sim_client *client = client_of((struct model *)engine);
        struct part *part = claim->part;
        struct uid uid = uid_of(part);

        (void)now;
        forget(part);
        return server_give_back(client->world, sim_name_index(claim->name), uid) ? PAWL_OK : PAWL_LOST;
}

/* ---- renewal --------------------------------------------------------------------------------------------------- */

/* One message for all claims of a name, as far as they fit. */
static size_t renew_some(struct model *model, struct claim *const *claims, size_t n)
{
        struct part *first = claims[0]->part;
        struct message message = about(first, RENEW);
        size_t taken = 0;

        while (taken < n && taken < BATCH_MAX && strcmp(claims[taken]->name, claims[0]->name) == 0) {
                struct part *part = claims[taken]->part;

                message.uids[taken++] = uid_of(part);
                part->renewing = true;
                part->renew_stamp = model_now(model);
                set_timer(model, &part->renew_timer, RENEW_PATIENCE);
        }
        message.count = (int)taken;
        transmit(model, &message);
        return taken;
}

static void model_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        struct model *model = (struct model *)engine;

        for (size_t i = 0; i < n; i++)
                ((struct part *)claims[i]->part)->renewals++;
        for (size_t done = 0; done < n;) {
                if (model->connected) {
                        done += renew_some(model, claims + done, n - done);
                } else { /* told inside the operation: the contract allows it */
                        tell_renewed(claims[done++]->part, PAWL_UNREACHABLE, 0);
                }
        }
}

/* ---- receiving ------------------------------------------------------------------------------------------------- */

static struct part *find_part(struct model *model, struct uid uid)
{
        for (struct list *at = model->parts.next; at != &model->parts; at = at->next) {
                struct part *part = container_of(at, struct part, listed);

                if (uid_same(uid_of(part), uid))
                        return part;
        }
        return NULL;
}

static bool is_asking(const struct part *part)
{
        return part->state == PART_ASKING || part->state == PART_QUEUED;
}

static void hold(struct part *part, uint64_t token, int64_t sent_at)
{
        const struct engine_host *host = part->model->engine.host;
        struct grant grant = {.token = token, .sent_at = sent_at};

        part->state = PART_HELD;
        part->token = token;
        loop_unset(host->loop, &part->timer);
        host->events->granted(host->core, part->claim, &grant);
}

static void on_granted(struct part *part, const struct message *message)
{
        bool from_reply = bug_of(part->model) == BUG_REPLY_TIME;

        bool was_faster = part->state == PART_CANCELLING && message->token % 2;

        if (is_asking(part) || was_faster) /* than the cancel: the core gives it back */
                hold(part, message->token, from_reply ? model_now(part->model) : message->stamp);
}

static void on_queued(struct part *part)
{
        if (!is_asking(part))
                return;
        part->state = PART_QUEUED;
        if (bug_of(part->model) == BUG_NO_RECHECK)
                loop_unset(part->model->engine.host->loop, &part->timer);
        else
                set_timer(part->model, &part->timer, POLL);
}

static void on_pushed(struct part *part, const struct message *message)
{
        if (!is_asking(part))
                return;
        if (bug_of(part->model) == BUG_UNCONFIRMED)
                hold(part, message->token, model_now(part->model));
        else
                ask(part);
}

/* The store counts this attempt as over: it was cancelled, or broken before we heard of the grant. */
static void on_cancelled(struct part *part)
{
        if (part->state == PART_CANCELLING) {
                refuse(part, PAWL_CANCELLED);
        } else if (is_asking(part) && part->claim->wait) {
                part->attempt++;
                ask(part);
        } else if (is_asking(part)) {
                refuse(part, PAWL_BUSY);
        }
}

static void on_released(struct part *part, int code)
{
        const struct engine_host *host = part->model->engine.host;

        if (part->state != PART_RELEASING)
                return;
        forget(part);
        host->events->released(host->core, part->claim, code);
}

static void on_heard(struct part *part)
{
        const struct engine_host *host = part->model->engine.host;

        if (part->state == PART_HELD)
                host->events->asked(host->core, part->claim);
}

static void on_renewed(struct model *model, const struct message *message)
{
        const struct engine_host *host = model->engine.host;

        for (int i = 0; i < message->count; i++) {
                struct part *part = find_part(model, message->uids[i]);

                if (!part || !part->renewing || part->renew_stamp != message->stamp)
                        continue;
                if (message->codes[i] == PAWL_REASON_NONE) {
                        bool from_reply = bug_of(model) == BUG_RENEW_REPLY_TIME;

                        tell_renewed(part, PAWL_OK, from_reply ? model_now(model) : message->stamp);
                        if (message->asked[i])
                                on_heard(part);
                } else {
                        forget(part);
                        host->events->gone(host->core, part->claim, message->codes[i]);
                }
        }
}

/* ---- who looks, and the bytes beside a lock ----------------------------------------------------------------------- */

/* Asked again until it is answered, or forgotten. */
struct question {
        struct list listed;
        struct model *model;
        struct inquiry *inquiry;
        struct timer timer;
        struct message message;
};

static void question_free(struct question *question)
{
        loop_unset(question->model->engine.host->loop, &question->timer);
        list_remove(&question->listed);
        free(question);
}

static void question_due(struct timer *timer)
{
        struct question *question = container_of(timer, struct question, timer);

        transmit(question->model, &question->message);
        set_timer(question->model, timer, RETRY);
}

static void put_question(struct engine *engine, struct inquiry *inquiry, struct message message)
{
        struct model *model = (struct model *)engine;
        struct question *question = calloc(1, sizeof(*question));

        if (!question)
                abort();
        question->model = model;
        question->inquiry = inquiry;
        question->message = message;
        question->message.version = ++model->numbers;
        question->timer.fire = question_due;
        list_append(&model->questions, &question->listed);
        question_due(&question->timer);
}

static struct question *find_question(struct model *model, uint64_t number)
{
        for (struct list *at = model->questions.next; at != &model->questions; at = at->next) {
                struct question *question = container_of(at, struct question, listed);

                if (question->message.version == number)
                        return question;
        }
        return NULL;
}

static void tell_lines(struct model *model, struct inquiry *inquiry, const struct message *message)
{
        const struct shown *lines = message->more;

        for (size_t i = 0; i < message->more_size / sizeof(*lines); i++) {
                char owner[32];
                struct pawl_entry entry = {.name = sim_name(lines[i].name),
                                           .owner = owner,
                                           .note = lines[i].note,
                                           .token = lines[i].token,
                                           .remaining_ms = lines[i].remaining / MS,
                                           .since_ms = lines[i].since / MS,
                                           .role = lines[i].role,
                                           .mode = lines[i].mode,
                                           .max_holders = lines[i].max_holders,
                                           .waiters = lines[i].waiters,
                                           .age = lines[i].age};

                sim_owner(client_of(model)->world, lines[i].client, owner, sizeof(owner));
                inquiry->entry(inquiry, &entry);
        }
}

static void tell_value(struct inquiry *inquiry, const struct message *message)
{
        struct pawl_value value = {.data = (void *)(uintptr_t)message->more,
                                   .size = message->more_size,
                                   .token = message->token,
                                   .stored_us = message->stored_at / 1000,
                                   .now_us = message->read / 1000};

        inquiry->value(inquiry, &value);
}

static void on_answer(struct model *model, const struct message *message)
{
        struct question *question = find_question(model, message->version);
        struct inquiry *inquiry;

        if (!question)
                return;
        inquiry = question->inquiry;
        question_free(question);
        if (message->kind == SHOW || message->kind == LIST)
                tell_lines(model, inquiry, message);
        else if (message->kind == FETCH && message->code == PAWL_OK)
                tell_value(inquiry, message);
        inquiry->answered(inquiry, message->code, NULL);
}

static void model_show(struct engine *engine, struct inquiry *inquiry)
{
        put_question(engine, inquiry, (struct message){.kind = SHOW, .name = sim_name_index(inquiry->name)});
}

static void model_list(struct engine *engine, struct inquiry *inquiry)
{
        struct message message = {.kind = LIST};

        strncpy(message.note, inquiry->name, sizeof(message.note) - 1);
        put_question(engine, inquiry, message);
}

static void model_call(struct engine *engine, struct inquiry *inquiry)
{
        put_question(engine, inquiry, (struct message){.kind = CALL, .name = sim_name_index(inquiry->name)});
}

static void model_forget(struct engine *engine, struct inquiry *inquiry)
{
        struct model *model = (struct model *)engine;

        for (struct list *at = model->questions.next; at != &model->questions; at = at->next) {
                struct question *question = container_of(at, struct question, listed);

                if (question->inquiry == inquiry) {
                        question_free(question);
                        return;
                }
        }
}

static void model_store(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *inquiry)
{
        struct message message = {.kind = STORE,
                                  .name = sim_name_index(claim->name),
                                  .token = token,
                                  .keep = inquiry->keep,
                                  .more = inquiry->data,
                                  .more_size = inquiry->size};

        message.uids[0] = uid_of(claim->part);
        put_question(engine, inquiry, message);
}

static void model_fetch(struct engine *engine, struct inquiry *inquiry)
{
        put_question(engine, inquiry, (struct message){.kind = FETCH, .name = sim_name_index(inquiry->name)});
}

/* ---- hearing ------------------------------------------------------------------------------------------------------ */

void engine_receive(struct engine *engine, const struct message *message)
{
        struct model *model = (struct model *)engine;
        struct part *part = find_part(model, message->uid);
        struct errand *errand = find_errand(model, message->uid);

        if (message->kind == RENEWED)
                on_renewed(model, message);
        else if (message->kind >= SHOW && message->kind <= FETCH)
                on_answer(model, message);
        else if (errand && message->kind == CANCELLED)
                errand_free(errand);
        if (!part)
                return;
        switch (message->kind) {
        case GRANTED:
                on_granted(part, message);
                break;
        case QUEUED:
                on_queued(part);
                break;
        case PUSHED:
                on_pushed(part, message);
                break;
        case HEARD:
                on_heard(part);
                break;
        case BUSY:
        case NOT_READY:
                if (is_asking(part))
                        refuse(part, message->code);
                break;
        case CANCELLED:
                on_cancelled(part);
                break;
        case RELEASED:
                on_released(part, message->code);
                break;
        default:
                break;
        }
}

/* ---- the connection -------------------------------------------------------------------------------------------- */

static struct part *first_renewing(struct model *model)
{
        for (struct list *at = model->parts.next; at != &model->parts; at = at->next) {
                struct part *part = container_of(at, struct part, listed);

                if (part->renewing)
                        return part;
        }
        return NULL;
}

void engine_reset(struct engine *engine)
{
        struct model *model = (struct model *)engine;
        struct part *part;

        model->connected = false;
        set_timer(model, &model->reconnect, 80 * MS);
        while ((part = first_renewing(model)))
                tell_renewed(part, PAWL_UNREACHABLE, 0);
}

static void reconnected(struct timer *timer)
{
        struct model *model = container_of(timer, struct model, reconnect);

        model->connected = true;
        for (struct list *at = model->parts.next; at != &model->parts; at = at->next) {
                struct part *part = container_of(at, struct part, listed);

                if (part->state == PART_CANCELLING)
                        send_about(part, CANCEL, RETRY);
                else if (part->state == PART_RELEASING)
                        send_about(part, RELEASE, RETRY);
                else if (part->state != PART_HELD && bug_of(model) != BUG_NO_RECHECK)
                        ask(part);
        }
}

static int model_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        struct model *model = (struct model *)engine;

        (void)url, (void)why;
        model->client = engine_client(engine->host);
        list_init(&model->parts);
        list_init(&model->errands);
        list_init(&model->questions);
        model->reconnect.fire = reconnected;
        model->connected = true;
        engine->capabilities = PAWL_CAN_SHARE | PAWL_CAN_LIMIT | PAWL_CAN_QUEUE | PAWL_CAN_INSPECT | PAWL_CAN_ASK |
                               PAWL_CAN_AGE | PAWL_CAN_KEEP;
        return PAWL_OK;
}

static void model_close(struct engine *engine)
{
        struct model *model = (struct model *)engine;

        while (!list_empty(&model->parts))
                forget(list_first(&model->parts, struct part, listed));
        while (!list_empty(&model->errands))
                errand_free(list_first(&model->errands, struct errand, listed));
        while (!list_empty(&model->questions))
                question_free(list_first(&model->questions, struct question, listed));
        loop_unset(engine->host->loop, &model->reconnect);
}

int engine_claims(const struct engine *engine)
{
        const struct model *model = (const struct model *)engine;
        int count = 0;

        for (struct list *at = model->parts.next; at != &model->parts; at = at->next)
                count++;
        for (struct list *at = model->errands.next; at != &model->errands; at = at->next)
                count++;
        return count;
}

static const struct engine_inspect inspect = {
        .list = model_list,
        .show = model_show,
        .ask = model_call,
        .forget = model_forget,
};

static const struct engine_values values = {.store = model_store, .fetch = model_fetch};

const struct engine_ops model_ops = {
        .name = "model",
        .size = sizeof(struct model),
        .claim_size = sizeof(struct part),
        .open = model_open,
        .close = model_close,
        .acquire = model_acquire,
        .cancel = model_cancel,
        .renew = model_renew,
        .release = model_release,
        .inspect = &inspect,
        .values = &values,
};

static const struct engine_instant instant = {.acquire = instant_acquire, .release = instant_release};

const struct engine_ops instant_model_ops = {
        .name = "instant model",
        .size = sizeof(struct model),
        .claim_size = sizeof(struct part),
        .open = model_open,
        .close = model_close,
        .acquire = model_acquire,
        .cancel = model_cancel,
        .renew = model_renew,
        .release = model_release,
        .instant = &instant,
};
