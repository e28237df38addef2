/* trace_test.c - the tracing engine before an engine that this test plays: everything goes through, both ways, and
 * leaves a line. */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/module.h"
#include "engine/engine.h"

/* ---- the engine behind ---- */

struct fake {
        struct engine engine;
};

struct fake_part {
        char mine[40];
};

static char calls[1000];

static void called(const char *what)
{
        strncat(calls, what, sizeof(calls) - strlen(calls) - 2);
        strcat(calls, " ");
}

static int fake_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        CHECK_STR(url->scheme, "fake");
        if (url_option(url, "fail"))
                return why_set(why, PAWL_DENIED, "asked to fail");
        engine->capabilities = PAWL_CAN_SHARE | PAWL_CAN_QUEUE;
        return PAWL_OK;
}

static void fake_close(struct engine *engine)
{
        (void)engine;
        called("close");
}

static void fake_acquire(struct engine *engine, struct claim *claim)
{
        struct grant grant = {.token = 77, .sent_at = 1};

        called("acquire");
        memset(claim->part, 0xff, sizeof(struct fake_part));
        if (strcmp(claim->name, "busy") == 0)
                engine->host->events->refused(engine->host->core, claim, PAWL_BUSY, "it is %n %s busy");
        else
                engine->host->events->granted(engine->host->core, claim, &grant);
}

static void fake_cancel(struct engine *engine, struct claim *claim)
{
        called("cancel");
        engine->host->events->refused(engine->host->core, claim, PAWL_CANCELLED, NULL);
}

static void fake_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        called("renew");
        for (size_t i = 0; i < n; i++)
                engine->host->events->renewed(engine->host->core, claims[i], PAWL_OK, 5);
        engine->host->events->asked(engine->host->core, claims[0]);
        engine->host->events->gone(engine->host->core, claims[0], PAWL_REASON_TAKEN);
}

static void fake_release(struct engine *engine, struct claim *claim)
{
        called("release");
        engine->host->events->released(engine->host->core, claim, PAWL_LOST);
}

static int fake_acquire_now(struct engine *engine, struct claim *claim, int64_t now, struct grant *grant)
{
        (void)engine;
        (void)claim;
        CHECK_INT(now, 9);
        called("acquire_now");
        grant->token = 78;
        return PAWL_OK;
}

static int fake_release_now(struct engine *engine, struct claim *claim, int64_t now)
{
        (void)engine;
        (void)claim;
        (void)now;
        called("release_now");
        return PAWL_OK;
}

static void fake_sleep(struct engine *engine, struct claim *claim, int64_t until)
{
        (void)engine;
        (void)claim;
        (void)until;
        called("sleep");
}

static void fake_look(struct engine *engine, struct claim *claim)
{
        (void)engine;
        (void)claim;
        called("look");
}

static void fake_show(struct engine *engine, struct inquiry *inquiry)
{
        (void)engine;
        called("show");
        inquiry->entry(inquiry, &(struct pawl_entry){.name = inquiry->name});
        inquiry->entry(inquiry, &(struct pawl_entry){.name = inquiry->name});
        inquiry->answered(inquiry, PAWL_OK, NULL);
}

static void fake_list(struct engine *engine, struct inquiry *inquiry)
{
        (void)engine;
        (void)inquiry;
        called("list"); /* never answered: closing must not leak it */
}

static void fake_examine(struct engine *engine, struct inquiry *inquiry)
{
        (void)engine;
        called("examine");
        inquiry->finding(inquiry, &(struct pawl_finding){.where = "fake", .what = "not real", .mend = ""});
        inquiry->answered(inquiry, PAWL_OK, NULL);
}

static void fake_unask(struct engine *engine, struct inquiry *inquiry)
{
        (void)engine;
        CHECK_STR(inquiry->name, "orders");
        called("unask");
}

static int fake_word(struct engine *engine, const struct claim *claim, char *word, size_t size)
{
        (void)engine;
        (void)claim;
        snprintf(word, size, "secret-word");
        return PAWL_OK;
}

static int fake_read(struct engine *engine, const char *word, char *name, int64_t *ttl, struct pawl_why *why)
{
        (void)engine;
        (void)word;
        (void)why;
        strcpy(name, "adopted");
        *ttl = SECOND;
        return PAWL_OK;
}

static void fake_adopt(struct engine *engine, struct claim *claim, const char *word)
{
        struct grant grant = {.token = 79, .sent_at = 1};

        CHECK_STR(word, "secret-word");
        engine->host->events->granted(engine->host->core, claim, &grant);
}

static void fake_forget(struct engine *engine, struct claim *claim)
{
        (void)engine;
        (void)claim;
        called("forget");
}

static void fake_store(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *inquiry)
{
        (void)engine;
        CHECK_STR(claim->name, inquiry->name);
        CHECK_UINT(token, 77);
        CHECK_UINT(inquiry->size, 12);
        CHECK_INT(inquiry->keep, SECOND);
        CHECK(memcmp(inquiry->data, "secret bytes", 12) == 0);
        inquiry->answered(inquiry, PAWL_LOST, NULL);
}

static void fake_fetch(struct engine *engine, struct inquiry *inquiry)
{
        char data[] = "secret bytes";

        (void)engine;
        inquiry->value(inquiry, &(struct pawl_value){.data = data, .size = 12, .token = 77});
        inquiry->answered(inquiry, PAWL_OK, NULL);
}

static const struct engine_instant fake_instant = {
        .acquire = fake_acquire_now,
        .release = fake_release_now,
        .sleep = fake_sleep,
        .look = fake_look,
};
static const struct engine_inspect fake_inspect = {
        .list = fake_list,
        .show = fake_show,
        .history = fake_show,
        .break_ = fake_show,
        .ask = fake_show,
        .examine = fake_examine,
        .forget = fake_unask,
};
static const struct engine_inspect old_inspect = {
        .list = fake_list,
        .show = fake_show,
        .history = fake_show,
        .break_ = fake_show,
        .ask = fake_show,
};
static const struct engine_leases fake_leases = {fake_word, fake_read, fake_adopt, fake_forget};
static const struct engine_values fake_values = {.store = fake_store, .fetch = fake_fetch};

#define FAKE                                                                                                           \
        .name = "fake", .size = sizeof(struct fake), .claim_size = sizeof(struct fake_part), .open = fake_open,        \
        .close = fake_close, .acquire = fake_acquire, .cancel = fake_cancel, .renew = fake_renew,                      \
        .release = fake_release

static const struct engine_ops plain_ops = {FAKE};
static const struct engine_ops full_ops = {
        FAKE, .instant = &fake_instant, .inspect = &fake_inspect, .leases = &fake_leases, .values = &fake_values,
};

static const struct engine_ops old_ops = {FAKE, .inspect = &old_inspect};

/* ---- the host before ---- */

static const struct engine_ops *found;
static char told[1000];
static char lines[8000];

static void tell(const char *event, long value)
{
        size_t used = strlen(told);

        snprintf(told + used, sizeof(told) - used, "%s:%ld ", event, value);
}

static void on_granted(void *core, struct claim *claim, const struct grant *grant)
{
        (void)claim;
        CHECK(core == told);
        tell("granted", (long)grant->token);
}

static void on_refused(void *core, struct claim *claim, int code, const char *why)
{
        (void)core;
        (void)claim;
        (void)why;
        tell("refused", code);
}

static void on_renewed(void *core, struct claim *claim, int code, int64_t sent_at)
{
        (void)core;
        (void)claim;
        (void)code;
        tell("renewed", (long)sent_at);
}

static void on_released(void *core, struct claim *claim, int code)
{
        (void)core;
        (void)claim;
        tell("released", code);
}

static void on_gone(void *core, struct claim *claim, int reason)
{
        (void)core;
        (void)claim;
        tell("gone", reason);
}

static void on_asked(void *core, struct claim *claim)
{
        (void)core;
        (void)claim;
        tell("asked", 1L);
}

static const struct engine_events events = {on_granted, on_refused, on_renewed, on_released, on_gone, on_asked};

static void keep_line(const struct engine_host *host, int level, const char *text)
{
        CHECK(host->log_arg == lines);
        CHECK_INT(level, PAWL_LOG_TRACE);
        CHECK(strlen(lines) + strlen(text) + 2 < sizeof(lines));
        strcat(lines, text);
        strcat(lines, "\n");
}

static const struct engine_ops *find(const char *scheme, struct pawl_why *why)
{
        if (strcmp(scheme, "fake") == 0)
                return found;
        why_set(why, PAWL_NO_ENGINE, "no %s here", scheme);
        return NULL;
}

static struct loop loop;
static struct engine_host host = {.loop = &loop,
                                  .events = &events,
                                  .core = told,
                                  .owner = "me",
                                  .log = keep_line,
                                  .log_arg = lines,
                                  .find = find};

#ifdef BUILTIN_TRACE
extern const struct engine_ops trace_engine;
#endif

static const struct engine_ops *trace_ops(void)
{
#ifdef BUILTIN_TRACE
        return &trace_engine;
#else
        const struct module *module = module_load(getenv("TRACE_MODULE"), NULL);

        return module ? module->engine : NULL;
#endif
}

static int open_trace(const char *text, const struct engine_ops *behind, struct engine **engine, struct pawl_why *why)
{
        const struct engine_ops *ops = trace_ops();
        struct url *url;
        int code;

        REQUIRE(ops != NULL);
        REQUIRE(loop_init(&loop, NULL) == 0);
        REQUIRE(url_parse(text, &url, why) == PAWL_OK);
        found = behind;
        code = engine_open(ops, &host, url, engine, why);
        url_free(url);
        return code;
}

static struct engine *opened(const struct engine_ops *behind)
{
        struct engine *engine = NULL;

        REQUIRE_INT(open_trace("trace+fake://user:pass@host/?a=b", behind, &engine, NULL), PAWL_OK);
        return engine;
}

static void closed(struct engine *engine)
{
        engine_close(engine);
        loop_close(&loop);
}

static struct claim *claim_for(struct engine *engine, const char *name)
{
        static struct claim claim;

        claim = (struct claim){.name = name, .name_length = strlen(name), .ttl = SECOND, .note = ""};
        claim.part = calloc(1, engine->claim_size);
        return &claim;
}

/* ---- the tests ---- */

TEST(operations_go_in_and_events_come_out_and_each_leaves_a_line)
{
        struct engine *engine = opened(&plain_ops);
        struct claim *claim = claim_for(engine, "orders/42");

        engine->ops->acquire(engine, claim);
        engine->ops->renew(engine, &claim, 1);
        engine->ops->release(engine, claim);
        engine->ops->cancel(engine, claim);
        closed(engine);
        CHECK_STR(calls, "acquire renew release cancel close ");
        CHECK_STR(told, "granted:77 renewed:5 asked:1 gone:2 released:10 refused:3 ");
        CHECK_HAS(lines, "open fake: PAWL_OK\n");
        CHECK_HAS(lines, "acquire orders/42: exclusive");
        CHECK_HAS(lines, "granted orders/42: token 77 after");
        CHECK_HAS(lines, "renew orders/42: 1 of 1\n");
        CHECK_HAS(lines, "renewed orders/42: PAWL_OK after");
        CHECK_HAS(lines, "asked orders/42");
        CHECK_HAS(lines, "gone orders/42: reason 2");
        CHECK_HAS(lines, "release orders/42");
        CHECK_HAS(lines, "released orders/42: PAWL_LOST after");
        CHECK_HAS(lines, "cancel orders/42");
        CHECK_HAS(lines, "refused orders/42: PAWL_CANCELLED");
        CHECK_HAS(lines, "close fake: done");
        free(claim->part);
}

TEST(it_has_the_tables_and_capabilities_of_the_engine_behind)
{
        struct engine *engine = opened(&plain_ops);

        CHECK_UINT(engine->capabilities, PAWL_CAN_SHARE | PAWL_CAN_QUEUE);
        CHECK_NULL(engine->ops->instant);
        CHECK_NULL(engine->ops->inspect);
        CHECK_NULL(engine->ops->leases);
        CHECK_NULL(engine->ops->values);
        CHECK(engine->claim_size >= sizeof(struct fake_part));
        closed(engine);
        engine = opened(&full_ops);
        CHECK(engine->ops->instant && engine->ops->inspect && engine->ops->leases && engine->ops->values);
        closed(engine);
}

TEST(what_is_answered_at_once_is_answered_at_once)
{
        struct engine *engine = opened(&full_ops);
        struct claim *claim = claim_for(engine, "now");
        struct grant grant = {0};

        CHECK_INT(engine->ops->instant->acquire(engine, claim, 9, &grant), PAWL_OK);
        CHECK_UINT(grant.token, 78);
        engine->ops->instant->sleep(engine, claim, 1);
        engine->ops->instant->look(engine, claim);
        CHECK_INT(engine->ops->instant->release(engine, claim, 9), PAWL_OK);
        closed(engine);
        CHECK_STR(calls, "acquire_now sleep look release_now close ");
        CHECK_HAS(lines, "acquire now: at once: token 78 in");
        CHECK_HAS(lines, "look now: after");
        CHECK_HAS(lines, "release now: at once: PAWL_OK in");
        free(claim->part);
}

static size_t entries;
static int answer = -1;

static void take_entry(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        CHECK_STR(entry->name, inquiry->name);
        entries++;
}

static void take_answer(struct inquiry *inquiry, int code, const char *why)
{
        (void)inquiry;
        (void)why;
        answer = code;
}

TEST(a_question_and_its_answer_pass_through)
{
        struct engine *engine = opened(&full_ops);
        struct inquiry inquiry = {.name = "orders", .entry = take_entry, .answered = take_answer};

        engine->ops->inspect->show(engine, &inquiry);
        CHECK_UINT(entries, 2);
        CHECK_INT(answer, PAWL_OK);
        CHECK_HAS(lines, "show orders: PAWL_OK with 2 entries after");
        engine->ops->inspect->list(engine, &inquiry);
        closed(engine);
}

static size_t findings;

static void take_finding(struct inquiry *inquiry, const struct pawl_finding *finding)
{
        (void)inquiry;
        CHECK_STR(finding->what, "not real");
        findings++;
}

TEST(an_examination_passes_through_and_a_question_can_be_given_up)
{
        struct engine *engine = opened(&full_ops);
        struct inquiry inquiry = {
                .name = "orders", .entry = take_entry, .finding = take_finding, .answered = take_answer};

        engine->ops->inspect->examine(engine, &inquiry);
        CHECK_UINT(findings, 1);
        CHECK_INT(answer, PAWL_OK);
        answer = -1;
        engine->ops->inspect->list(engine, &inquiry);
        engine->ops->inspect->forget(engine, &inquiry);
        CHECK_INT(answer, -1);
        CHECK_HAS(lines, "list orders: given up after");
        closed(engine);
        CHECK_STR(calls, "examine list unask close ");
        engine = opened(&old_ops);
        CHECK(engine->ops->inspect->examine == NULL);
        CHECK(engine->ops->inspect->forget == NULL);
        closed(engine);
}

TEST(the_word_of_a_lease_is_not_logged)
{
        struct engine *engine = opened(&full_ops);
        struct claim *claim = claim_for(engine, "adopted");
        char word[PAWL_LEASE_MAX + 1];
        char name[PAWL_NAME_MAX + 1];
        int64_t ttl = 0;

        CHECK_INT(engine->ops->leases->word(engine, claim, word, sizeof(word)), PAWL_OK);
        CHECK_STR(word, "secret-word");
        CHECK_INT(engine->ops->leases->read(engine, word, name, &ttl, NULL), PAWL_OK);
        CHECK_STR(name, "adopted");
        CHECK_INT(ttl, SECOND);
        engine->ops->leases->adopt(engine, claim, word);
        CHECK_STR(told, "granted:79 ");
        engine->ops->leases->forget(engine, claim);
        closed(engine);
        CHECK_HAS(calls, "forget");
        CHECK_HAS(lines, "adopt adopted");
        CHECK(strstr(lines, "secret") == NULL);
        free(claim->part);
}

static char fetched[20];

static void take_value(struct inquiry *inquiry, const struct pawl_value *value)
{
        (void)inquiry;
        snprintf(fetched, sizeof(fetched), "%.*s", (int)value->size, (const char *)value->data);
}

TEST(what_is_stored_and_fetched_passes_through_and_is_not_logged)
{
        struct engine *engine = opened(&full_ops);
        struct claim *claim = claim_for(engine, "orders");
        struct inquiry inquiry = {.name = "orders",
                                  .data = "secret bytes",
                                  .size = 12,
                                  .keep = SECOND,
                                  .value = take_value,
                                  .answered = take_answer};

        engine->ops->values->store(engine, claim, 77, &inquiry);
        CHECK_INT(answer, PAWL_LOST);
        CHECK_HAS(lines, "store orders: 12 bytes under token 77");
        CHECK_HAS(lines, "store orders: PAWL_LOST");
        engine->ops->values->fetch(engine, &inquiry);
        CHECK_INT(answer, PAWL_OK);
        CHECK_STR(fetched, "secret bytes");
        CHECK_HAS(lines, "fetch orders: PAWL_OK with 1 entries after");
        closed(engine);
        CHECK(strstr(lines, "secret") == NULL);
        free(claim->part);
}

TEST(neither_a_name_nor_a_sentence_can_forge_a_line)
{
        struct engine *engine = opened(&plain_ops);
        struct claim *claim = claim_for(engine, "a%n b\xc3\xa9\"'");

        engine->ops->acquire(engine, claim);
        CHECK_HAS(lines, "granted a%25n%20b%C3%A9%22%27: token");
        free(claim->part);
        claim = claim_for(engine, "busy");
        engine->ops->acquire(engine, claim);
        CHECK_HAS(lines, "refused busy: PAWL_BUSY");
        CHECK_HAS(lines, "it is %n %s busy");
        free(claim->part);
        closed(engine);
}

TEST(a_password_in_the_url_is_not_logged)
{
        closed(opened(&plain_ops));
        CHECK(strstr(lines, "pass") == NULL);
}

TEST(an_inner_engine_that_does_not_open_is_closed_and_says_why)
{
        struct engine *engine = NULL;
        struct pawl_why why = {0};

        CHECK_INT(open_trace("trace+fake:?fail=1", &plain_ops, &engine, &why), PAWL_DENIED);
        CHECK_STR(why.text, "asked to fail");
        CHECK_STR(calls, "close ");
        CHECK_NULL(engine);
        loop_close(&loop);
}

TEST(an_inner_engine_that_is_not_there_says_why)
{
        struct engine *engine = NULL;
        struct pawl_why why = {0};

        CHECK_INT(open_trace("trace+gopher:", &plain_ops, &engine, &why), PAWL_NO_ENGINE);
        CHECK_HAS(why.text, "no gopher here");
        loop_close(&loop);
}
