/* trace.c - stands before another engine (trace+local:) and logs what is asked of it and what it says, each with the
 * time since it was asked. It changes nothing: the other's capabilities, claims and optional tables are its own. */
#include "../engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/list.h"
#include "../../base/name.h"

extern const struct engine_ops trace_engine;

struct trace {
        struct engine engine;
        struct engine_ops ops;         /* ours, with the optional tables that the inner engine has */
        struct engine_inspect inspect; /* likewise with its optional operations */
        struct engine_host inner_host; /* as our host, but events come to us */
        struct engine *inner;
        struct url *inner_url;
        size_t note_at;        /* where our note begins in a claim's part: after the inner engine's */
        struct list inquiries; /* not yet answered */
};

/* Our part of a claim. */
struct note {
        int64_t asked_at;
        int64_t slept;
};

/* A question on its way through us. */
struct passing {
        struct inquiry inquiry; /* the inner engine's */
        struct inquiry *asker;
        struct trace *trace;
        const char *what;
        int64_t asked_at;
        size_t lines;
        struct list listed;
};

static struct trace *trace_of(struct engine *engine)
{
        return container_of(engine, struct trace, engine);
}

static struct note *note_of(const struct trace *trace, const struct claim *claim)
{
        return (struct note *)(void *)((char *)claim->part + trace->note_at);
}

static int64_t now(const struct trace *trace)
{
        return loop_now(trace->engine.host->loop);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* "what name: text". The name is encoded: it may hold what a log or a terminal would take for its own. */
static void say(const struct trace *trace, const char *what, const char *name, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
static void say(const struct trace *trace, const char *what, const char *name, const char *format, ...)
{
        char encoded[NAME_ENCODED_MAX + 1];
        char text[256];
        char line[sizeof(encoded) + sizeof(text) + 32];
        va_list args;

        name_encode(name, strlen(name), "/:@,=+", encoded);
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        snprintf(line, sizeof(line), "%s %s: %s", what, encoded, text);
        trace->engine.host->log(trace->engine.host, PAWL_LOG_TRACE, line);
}

/* Where errors have names: a module has no pawl_error_name. */
static const char *code_name(int code)
{
        switch (code) {
#define NAME_OF(name, number, text)                                                                                    \
        case PAWL_##name:                                                                                              \
                return "PAWL_" #name;
                PAWL_ERRORS(NAME_OF)
#undef NAME_OF
        default:
                return "an unknown code";
        }
}

static double us(int64_t ns)
{
        return (double)ns / 1000.0;
}

static double us_since_asked(const struct trace *trace, const struct claim *claim)
{
        return us(now(trace) - note_of(trace, claim)->asked_at);
}

static void asked(const struct trace *trace, const struct claim *claim)
{
        note_of(trace, claim)->asked_at = now(trace);
}

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

static void trace_acquire(struct engine *engine, struct claim *claim)
{
        struct trace *trace = trace_of(engine);

        asked(trace, claim);
        say(trace, "acquire", claim->name, "%s, at most %u holders, ttl %.3f ms, delay %.3f ms%s%s%s",
            claim->mode == PAWL_SHARED ? "shared" : "exclusive", claim->max_holders, us(claim->ttl) / 1000,
            us(claim->delay) / 1000, claim->wait ? ", waits" : "", claim->blocking ? ", a thread sleeps" : "",
            claim->detached ? ", detached" : "");
        trace->inner->ops->acquire(trace->inner, claim);
}

static void trace_cancel(struct engine *engine, struct claim *claim)
{
        struct trace *trace = trace_of(engine);

        say(trace, "cancel", claim->name, "%.1f us after it was asked for", us_since_asked(trace, claim));
        asked(trace, claim);
        trace->inner->ops->cancel(trace->inner, claim);
}

static void trace_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        struct trace *trace = trace_of(engine);

        for (size_t i = 0; i < n; i++) {
                asked(trace, claims[i]);
                say(trace, "renew", claims[i]->name, "%zu of %zu", i + 1, n);
        }
        trace->inner->ops->renew(trace->inner, claims, n);
}

static void trace_release(struct engine *engine, struct claim *claim)
{
        struct trace *trace = trace_of(engine);

        asked(trace, claim);
        say(trace, "release", claim->name, "asked%s", claim->lost ? ": its lease ran out" : "");
        trace->inner->ops->release(trace->inner, claim);
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

static void on_granted(void *arg, struct claim *claim, const struct grant *grant)
{
        struct trace *trace = arg;
        const struct engine_host *host = trace->engine.host;

        say(trace, "granted", claim->name, "token %llu after %.1f us", (unsigned long long)grant->token,
            us_since_asked(trace, claim));
        host->events->granted(host->core, claim, grant);
}

static void on_refused(void *arg, struct claim *claim, int code, const char *why)
{
        struct trace *trace = arg;
        const struct engine_host *host = trace->engine.host;

        say(trace, "refused", claim->name, "%s after %.1f us%s%s", code_name(code), us_since_asked(trace, claim),
            why ? ": " : "", why ? why : "");
        host->events->refused(host->core, claim, code, why);
}

static void on_renewed(void *arg, struct claim *claim, int code, int64_t sent_at)
{
        struct trace *trace = arg;
        const struct engine_host *host = trace->engine.host;

        say(trace, "renewed", claim->name, "%s after %.1f us", code_name(code), us_since_asked(trace, claim));
        host->events->renewed(host->core, claim, code, sent_at);
}

static void on_released(void *arg, struct claim *claim, int code)
{
        struct trace *trace = arg;
        const struct engine_host *host = trace->engine.host;

        say(trace, "released", claim->name, "%s after %.1f us", code_name(code), us_since_asked(trace, claim));
        host->events->released(host->core, claim, code);
}

static void on_gone(void *arg, struct claim *claim, int reason)
{
        struct trace *trace = arg;
        const struct engine_host *host = trace->engine.host;

        say(trace, "gone", claim->name, "reason %d", reason);
        host->events->gone(host->core, claim, reason);
}

static void on_asked(void *arg, struct claim *claim)
{
        struct trace *trace = arg;
        const struct engine_host *host = trace->engine.host;

        say(trace, "asked", claim->name, "to let go");
        host->events->asked(host->core, claim);
}

static const struct engine_events inner_events = {
        .granted = on_granted,
        .refused = on_refused,
        .renewed = on_renewed,
        .released = on_released,
        .gone = on_gone,
        .asked = on_asked,
};

/* ---- at once ----------------------------------------------------------------------------------------------------- */

static int instant_acquire(struct engine *engine, struct claim *claim, int64_t at, struct grant *grant)
{
        struct trace *trace = trace_of(engine);
        int code;

        asked(trace, claim);
        code = trace->inner->ops->instant->acquire(trace->inner, claim, at, grant);
        if (code == PAWL_OK)
                say(trace, "acquire", claim->name, "at once: token %llu in %.1f us", (unsigned long long)grant->token,
                    us_since_asked(trace, claim));
        else
                say(trace, "acquire", claim->name, "at once: %s in %.1f us", code_name(code),
                    us_since_asked(trace, claim));
        return code;
}

static int instant_release(struct engine *engine, struct claim *claim, int64_t at)
{
        struct trace *trace = trace_of(engine);
        int code;

        asked(trace, claim);
        code = trace->inner->ops->instant->release(trace->inner, claim, at);
        say(trace, "release", claim->name, "at once: %s in %.1f us", code_name(code), us_since_asked(trace, claim));
        return code;
}

/* The client is not locked here, so the line is written when it is: by look. */
static void instant_sleep(struct engine *engine, struct claim *claim, int64_t until)
{
        struct trace *trace = trace_of(engine);
        int64_t from = now(trace);

        trace->inner->ops->instant->sleep(trace->inner, claim, until);
        note_of(trace, claim)->slept = now(trace) - from;
}

static void instant_look(struct engine *engine, struct claim *claim)
{
        struct trace *trace = trace_of(engine);

        say(trace, "look", claim->name, "after %.1f us of sleep", us(note_of(trace, claim)->slept));
        trace->inner->ops->instant->look(trace->inner, claim);
}

/* Not written down: asked without the client's mutex, and as often as the program likes. */
static bool instant_stands(struct engine *engine, const struct claim *claim)
{
        const struct engine *inner = trace_of(engine)->inner;

        return !inner->ops->instant->stands || inner->ops->instant->stands(trace_of(engine)->inner, claim);
}

static const struct engine_instant trace_instant = {
        .acquire = instant_acquire,
        .release = instant_release,
        .sleep = instant_sleep,
        .look = instant_look,
        .stands = instant_stands,
};

/* ---- inspection -------------------------------------------------------------------------------------------------- */

static void pass_entry(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        struct passing *passing = container_of(inquiry, struct passing, inquiry);

        passing->lines++;
        passing->asker->entry(passing->asker, entry);
}

static void pass_value(struct inquiry *inquiry, const struct pawl_value *value)
{
        struct passing *passing = container_of(inquiry, struct passing, inquiry);

        passing->lines++;
        passing->asker->value(passing->asker, value);
}

static void pass_finding(struct inquiry *inquiry, const struct pawl_finding *finding)
{
        struct passing *passing = container_of(inquiry, struct passing, inquiry);

        passing->lines++;
        passing->asker->finding(passing->asker, finding);
}

static void pass_end(struct passing *passing)
{
        list_remove(&passing->listed);
        free(passing);
}

static void pass_answer(struct inquiry *inquiry, int code, const char *why)
{
        struct passing *passing = container_of(inquiry, struct passing, inquiry);
        struct inquiry *asker = passing->asker;

        say(passing->trace, passing->what, inquiry->name, "%s with %zu entries after %.1f us", code_name(code),
            passing->lines, us(now(passing->trace) - passing->asked_at));
        pass_end(passing);
        asker->answered(asker, code, why);
}

/* NULL: answered, for want of memory. */
static struct inquiry *pass(struct trace *trace, const char *what, struct inquiry *asker)
{
        struct passing *passing = malloc(sizeof(*passing));

        if (!passing) {
                asker->answered(asker, PAWL_NO_MEMORY, NULL);
                return NULL;
        }
        *passing = (struct passing){
                .inquiry = {.name = asker->name,
                            .force = asker->force,
                            .token = asker->token,
                            .reason = asker->reason,
                            .data = asker->data,
                            .size = asker->size,
                            .keep = asker->keep,
                            .entry = pass_entry,
                            .value = pass_value,
                            .finding = pass_finding,
                            .answered = pass_answer},
                .asker = asker,
                .trace = trace,
                .what = what,
                .asked_at = now(trace),
        };
        list_append(&trace->inquiries, &passing->listed);
        return &passing->inquiry;
}

#define PASS_ON(operation, what)                                                                                       \
        static void inspect_##operation(struct engine *engine, struct inquiry *asker)                                  \
        {                                                                                                              \
                struct trace *trace = trace_of(engine);                                                                \
                struct inquiry *inquiry = pass(trace, what, asker);                                                    \
                                                                                                                       \
                if (inquiry)                                                                                           \
                        trace->inner->ops->inspect->operation(trace->inner, inquiry);                                  \
        }
PASS_ON(list, "list")
PASS_ON(show, "show")
PASS_ON(history, "history")
PASS_ON(break_, "break")
PASS_ON(ask, "ask")
PASS_ON(examine, "examine")
PASS_ON(init, "init")
#undef PASS_ON

static void inspect_forget(struct engine *engine, struct inquiry *asker)
{
        struct trace *trace = trace_of(engine);

        for (struct list *at = trace->inquiries.next; at != &trace->inquiries; at = at->next) {
                struct passing *passing = container_of(at, struct passing, listed);

                if (passing->asker != asker)
                        continue;
                say(trace, passing->what, asker->name, "given up after %.1f us", us(now(trace) - passing->asked_at));
                trace->inner->ops->inspect->forget(trace->inner, &passing->inquiry);
                pass_end(passing);
                return;
        }
}

static const struct engine_inspect trace_inspect = {
        .list = inspect_list,
        .show = inspect_show,
        .history = inspect_history,
        .break_ = inspect_break_,
        .ask = inspect_ask,
        .examine = inspect_examine,
        .init = inspect_init,
        .forget = inspect_forget,
};

/* ---- values: how many bytes, never which ------------------------------------------------------------------------- */

static void values_store(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *asker)
{
        struct trace *trace = trace_of(engine);
        struct inquiry *inquiry = pass(trace, "store", asker);

        if (!inquiry)
                return;
        say(trace, "store", claim->name, "%zu bytes under token %llu, for %.3f ms", asker->size,
            (unsigned long long)token, us(asker->keep) / 1000);
        trace->inner->ops->values->store(trace->inner, claim, token, inquiry);
}

static void values_fetch(struct engine *engine, struct inquiry *asker)
{
        struct trace *trace = trace_of(engine);
        struct inquiry *inquiry = pass(trace, "fetch", asker);

        if (inquiry)
                trace->inner->ops->values->fetch(trace->inner, inquiry);
}

static const struct engine_values trace_values = {
        .store = values_store,
        .fetch = values_fetch,
};

/* ---- leases: their words are secrets and are not logged ---------------------------------------------------------- */

static int leases_word(struct engine *engine, const struct claim *claim, char *word, size_t size)
{
        struct trace *trace = trace_of(engine);
        int code = trace->inner->ops->leases->word(trace->inner, claim, word, size);

        say(trace, "lease", claim->name, "word given: %s", code_name(code));
        return code;
}

static int leases_read(struct engine *engine, const char *word, char *name, int64_t *ttl, struct pawl_why *why)
{
        struct trace *trace = trace_of(engine);

        return trace->inner->ops->leases->read(trace->inner, word, name, ttl, why);
}

static void leases_adopt(struct engine *engine, struct claim *claim, const char *word)
{
        struct trace *trace = trace_of(engine);

        asked(trace, claim);
        say(trace, "adopt", claim->name, "asked");
        trace->inner->ops->leases->adopt(trace->inner, claim, word);
}

static void leases_forget(struct engine *engine, struct claim *claim)
{
        struct trace *trace = trace_of(engine);

        say(trace, "forget", claim->name, "done");
        trace->inner->ops->leases->forget(trace->inner, claim);
}

static int trace_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        struct trace *trace = trace_of(engine);
        int code = trace->inner->ops->overdue(trace->inner, claim, why);

        say(trace, "overdue", claim->name, "%s", code_name(code));
        return code;
}

static bool trace_leave(struct engine *engine)
{
        struct engine *inner = trace_of(engine)->inner;

        return inner->ops->leave(inner);
}

static const struct engine_leases trace_leases = {
        .word = leases_word,
        .read = leases_read,
        .adopt = leases_adopt,
        .forget = leases_forget,
};

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int open_inner(struct trace *trace, struct pawl_why *why)
{
        const struct engine_host *host = trace->engine.host;
        const struct engine_ops *ops = host->find(trace->inner_url->scheme, why);

        if (!ops)
                return PAWL_NO_ENGINE;
        trace->inner = calloc(1, ops->size);
        if (!trace->inner)
                return why_set(why, PAWL_NO_MEMORY, "no memory to open %s", trace->inner_url->shown);
        trace->inner_host = *host;
        trace->inner_host.events = &inner_events;
        trace->inner_host.core = trace;
        trace->inner->ops = ops;
        trace->inner->host = &trace->inner_host;
        trace->inner->claim_size = ops->claim_size;
        return ops->open(trace->inner, trace->inner_url, why);
}

static void take_inspect_after(struct trace *trace, const struct engine_inspect *inner)
{
        if (!inner)
                return;
        trace->inspect = trace_inspect;
        if (!inner->examine)
                trace->inspect.examine = NULL;
        if (!inner->init)
                trace->inspect.init = NULL;
        if (!inner->forget)
                trace->inspect.forget = NULL;
        trace->ops.inspect = &trace->inspect;
}

/* We are what the inner engine is: its tables, its claims, its capabilities. */
static void take_after(struct trace *trace)
{
        const struct engine *inner = trace->inner;
        size_t align = _Alignof(struct note);

        trace->ops = trace_engine;
        trace->ops.overdue = inner->ops->overdue ? trace_overdue : NULL;
        trace->ops.leave = inner->ops->leave ? trace_leave : NULL;
        trace->ops.instant = inner->ops->instant ? &trace_instant : NULL;
        take_inspect_after(trace, inner->ops->inspect);
        trace->ops.leases = inner->ops->leases ? &trace_leases : NULL;
        trace->ops.values = inner->ops->values ? &trace_values : NULL;
        trace->engine.ops = &trace->ops;
        if (inner->url && asprintf(&trace->engine.url, "trace+%s", inner->url) < 0)
                trace->engine.url = NULL; /* it is shown as it was given */
        trace->note_at = (inner->claim_size + align - 1) / align * align;
        trace->engine.claim_size = trace->note_at + sizeof(struct note);
        trace->engine.capabilities = inner->capabilities;
}

static int trace_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        struct trace *trace = trace_of(engine);
        int code;

        list_init(&trace->inquiries);
        code = url_parse(url->whole + strlen("trace+"), &trace->inner_url, why);
        if (code == PAWL_OK)
                code = open_inner(trace, why);
        if (code == PAWL_OK)
                take_after(trace);
        say(trace, "open", trace->inner_url ? trace->inner_url->scheme : "", "%s", code_name(code));
        return code;
}

static void trace_close(struct engine *engine)
{
        struct trace *trace = trace_of(engine);

        if (trace->inner) {
                trace->inner->ops->close(trace->inner);
                say(trace, "close", trace->inner_url->scheme, "done");
                free(trace->inner->url);
                free(trace->inner);
        }
        while (!list_empty(&trace->inquiries))
                pass_end(list_first(&trace->inquiries, struct passing, listed));
        url_free(trace->inner_url);
}

const struct engine_ops trace_engine = {
        .name = "trace",
        .size = sizeof(struct trace),
        .open = trace_open,
        .close = trace_close,
        .acquire = trace_acquire,
        .cancel = trace_cancel,
        .renew = trace_renew,
        .release = trace_release,
};
