/* redis_examine.c - asks a server about itself, one request after the other, for pawl doctor. INFO first: it tells most, and
 * is allowed where CONFIG is not. That the server cannot be reached, or refuses us, is an answer too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "redis_examine.h"

const char *const setting_names[SETTINGS] = {
        [APPENDFSYNC] = "appendfsync",
        [SAVE] = "save",
        [TIMEOUT] = "timeout",
        [KEEPALIVE] = "tcp-keepalive",
        [OUTPUT_LIMIT] = "client-output-buffer-limit",
        [LUA_LIMIT] = "lua-time-limit",
        [MIN_REPLICAS] = "min-replicas-to-write",
        [MAX_CLIENTS] = "maxclients",
        [TLS_CLIENTS] = "tls-auth-clients",
};

static struct examination *examination_of(struct ask *ask)
{
        return container_of(ask, struct examination, ask);
}

static void examination_free(struct examination *examination)
{
        list_remove(&examination->listed);
        free(examination->info);
        free(examination);
}

static void finish(struct examination *examination)
{
        struct inquiry *inquiry = examination->inquiry;

        examination_free(examination);
        if (inquiry)
                inquiry->answered(inquiry, PAWL_OK, NULL);
}

/* ---- what is asked, and what it tells ---------------------------------------------------------------------------- */

static bool is_text(const redisReply *reply)
{
        return (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS) && reply->str;
}

static int write_info(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 1);
        write_text(wire, "INFO");
        return write_end(wire);
}

static void take_info(struct examination *examination, const redisReply *reply, const struct pawl_why *why)
{
        if (reply && is_text(reply))
                examination->info = strdup(reply->str);
        else if (why)
                examination->no_info = *why;
}

static int write_whoami(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 2);
        write_text(wire, "ACL");
        write_text(wire, "WHOAMI");
        return write_end(wire);
}

/* Before Redis 6 there was but one user. */
static void take_whoami(struct examination *examination, const redisReply *reply, const struct pawl_why *why)
{
        const char *user = examination->redis->user ? examination->redis->user : "default";

        (void)why;
        snprintf(examination->user, sizeof(examination->user), "%s", reply && is_text(reply) ? reply->str : user);
}

static int write_time(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 1);
        write_text(wire, "TIME");
        return write_end(wire);
}

static void take_time(struct examination *examination, const redisReply *reply, const struct pawl_why *why)
{
        int64_t took = redis_now(examination->redis) - examination->ask.sent_at;
        struct timespec ts;

        (void)why;
        if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_text(reply->element[0]) ||
            !is_text(reply->element[1]))
                return;
        clock_gettime(CLOCK_REALTIME, &ts);
        examination->clock_off = strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
                                 strtoll(reply->element[1]->str, NULL, 10) -
                                 ((int64_t)ts.tv_sec * 1000000 + (ts.tv_nsec - took / 2) / 1000);
        examination->clock_known = took < SECOND; /* an answer that took longer says nothing about its clock */
}

/* A name that no lock can have: it begins with a control character. */
static size_t probe_name(const struct examination *examination, char name[32])
{
        return (size_t)snprintf(name, 32, "\x01probe %s", examination->redis->client);
}

static int write_probe(struct ask *ask, struct wire *wire)
{
        const struct examination *examination = examination_of(ask);
        const struct redis *redis = examination->redis;
        char name[32];
        size_t length = probe_name(examination, name);

        write_script(wire, ask, SCRIPT_PROBE, 2, 4);
        write_key(wire, redis->prefix, name, length);
        write_text(wire, redis->fence_key);
        write_bytes(wire, redis->prefix, redis->prefix_length);
        write_text(wire, redis->client);
        return write_end(wire);
}

static void add_refused(struct examination *examination, const char *command)
{
        size_t used = strlen(examination->refused);

        snprintf(examination->refused + used, sizeof(examination->refused) - used, "%s%s", used ? ", " : "", command);
}

static void take_probe(struct examination *examination, const redisReply *reply, const struct pawl_why *why)
{
        if (why)
                examination->no_probe = *why;
        if (!reply || reply->type != REDIS_REPLY_ARRAY)
                return;
        examination->probed = true;
        for (size_t i = 0; i + 1 < reply->elements; i += 2) {
                const redisReply *command = reply->element[i], *error = reply->element[i + 1];

                if (!is_text(command) || !is_text(error))
                        continue;
                add_refused(examination, command->str);
                if (!*examination->refusal)
                        snprintf(examination->refusal, sizeof(examination->refusal), "%s", error->str);
        }
}

enum { INFO_STEP, WHOAMI_STEP, TIME_STEP, PROBE_STEP, FIRST_SETTING, STEPS = FIRST_SETTING + SETTINGS };

static int write_setting(struct ask *ask, struct wire *wire)
{
        write_begin(wire, 3);
        write_text(wire, "CONFIG");
        write_text(wire, "GET");
        write_text(wire, setting_names[examination_of(ask)->step - FIRST_SETTING]);
        return write_end(wire);
}

static void take_setting(struct examination *examination, const redisReply *reply, const struct pawl_why *why)
{
        if (why)
                examination->no_settings = *why;
        if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_text(reply->element[1]))
                return;
        snprintf(examination->settings[examination->step - FIRST_SETTING], SETTING_MAX, "%s", reply->element[1]->str);
}

static const struct step {
        int (*write)(struct ask *ask, struct wire *wire);
        void (*take)(struct examination *, const redisReply *, const struct pawl_why *);
} steps[] = {
        [INFO_STEP] = {write_info, take_info},           [WHOAMI_STEP] = {write_whoami, take_whoami},
        [TIME_STEP] = {write_time, take_time},           [PROBE_STEP] = {write_probe, take_probe},
        [FIRST_SETTING] = {write_setting, take_setting},
};

static const struct step *step_of(const struct examination *examination)
{
        return &steps[examination->step < FIRST_SETTING ? examination->step : FIRST_SETTING];
}

/* ---- one after the other ----------------------------------------------------------------------------------------- */

static void ask_next(struct examination *examination)
{
        struct redis *redis = examination->redis;
        struct pawl_why why;
        int code;

        examination->ask.write = step_of(examination)->write;
        code = wire_ask(&redis->commands, &examination->ask);
        examination->sent = code == PAWL_OK;
        if (examination->sent)
                return;
        why_set(&why, code, "%s: %s", redis->where, code == PAWL_NO_MEMORY ? "no memory" : "the connection broke");
        judge_absence(examination, &why);
        finish(examination);
}

/* A server that does not tell its settings refuses each of them alike. */
static void go_on(struct examination *examination)
{
        examination->step++;
        if (examination->step > FIRST_SETTING && examination->no_settings.code)
                examination->step = STEPS;
        if (examination->step < STEPS) {
                ask_next(examination);
                return;
        }
        judge_all(examination);
        finish(examination);
}

static void answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct examination *examination = examination_of(ask);
        int64_t took = redis_now(examination->redis) - ask->sent_at;

        examination->sent = false;
        if (!examination->inquiry) {
                examination_free(examination);
                return;
        }
        if (!reply && !examination->redis->commands.ready) {
                judge_absence(examination, why);
                finish(examination);
                return;
        }
        if (examination->answered_in < 0 || took < examination->answered_in)
                examination->answered_in = took;
        step_of(examination)->take(examination, reply, why);
        go_on(examination);
}

void examine_begin(struct engine *engine, struct inquiry *inquiry)
{
        struct redis *redis = redis_of(engine);
        struct examination *examination = calloc(1, sizeof(*examination));

        if (!examination) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        examination->redis = redis;
        examination->inquiry = inquiry;
        examination->ask.answered = answered;
        examination->answered_in = -1;
        list_append(&redis->examinations, &examination->listed);
        wire_want(&redis->news); /* whether we may listen is seen by trying */
        if (redis->commands.ready)
                ask_next(examination);
        else
                wire_want(&redis->commands);
}

bool examine_forget(struct redis *redis, const struct inquiry *inquiry)
{
        for (struct list *at = redis->examinations.next; at != &redis->examinations; at = at->next) {
                struct examination *examination = container_of(at, struct examination, listed);

                if (examination->inquiry != inquiry)
                        continue;
                examination->inquiry = NULL;
                if (!examination->sent)
                        examination_free(examination);
                return true;
        }
        return false;
}

void examine_up(struct redis *redis)
{
        struct list *next;

        for (struct list *at = redis->examinations.next; at != &redis->examinations; at = next) {
                struct examination *examination = container_of(at, struct examination, listed);

                next = at->next;
                if (!examination->sent)
                        ask_next(examination);
        }
}

void examine_down(struct redis *redis, const struct pawl_why *why)
{
        while (!list_empty(&redis->examinations)) {
                struct examination *examination = list_first(&redis->examinations, struct examination, listed);

                judge_absence(examination, why);
                finish(examination);
        }
}

void examine_free(struct redis *redis)
{
        while (!list_empty(&redis->examinations))
                examination_free(list_first(&redis->examinations, struct examination, listed));
}
