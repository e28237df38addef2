/* scene_once.c - payments that are to be made once (pawl/once.h). Each process wants all of them; an execution shows
 * its token to the resource. All get one and the same result for a key, and what the resource took last is what that
 * result says. Without faults there is one execution. */
#include <inttypes.h>
#include <pawl/once.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

enum { KEYS = 2, BUG_NO_SECOND_LOOK = 1 };

struct once {
        struct payment {
                struct stage *stage;
                uint64_t highest; /* the resource's */
                uint64_t taken;   /* the token of what it took last */
                uint64_t result;  /* the token of the result that everybody gets */
                int executions;
        } payments[KEYS];
};

/* Mostly in time, sometimes asleep for longer than any lease. */
static int pay(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        struct payment *payment = arg;
        struct stage *stage = payment->stage;
        uint64_t token = pawl_token(lock);
        char text[32];

        payment->executions++;
        stage_pause(stage, 0, stage_chance(stage, 8) ? 300 * MS : 3 * SECOND);
        if (stage_admit(&payment->highest, token))
                payment->taken = token;
        stage_say(stage, "pays with token %" PRIu64, token);
        stage_pause(stage, 0, stage_chance(stage, 8) ? 100 * MS : 2 * SECOND);
        snprintf(text, sizeof(text), "%" PRIu64, token);
        result->data = strdup(text);
        result->size = strlen(text);
        return PAWL_OK;
}

/* What somebody might write: it looks before it has the lock, and not again when it has. */
static int pay_without_second_look(pawl_client *client, const char *key, struct payment *payment,
                                   struct pawl_result *result)
{
        char name[PAWL_NAME_MAX + 1];
        pawl_lock *lock;
        int code = pawl_once_look(client, key, NULL, result);

        if (code != PAWL_NOT_FOUND)
                return code;
        if ((code = pawl_once_name(key, name)) != PAWL_OK ||
            (code = pawl_acquire(client, name, NULL, &lock)) != PAWL_OK)
                return code;
        *result = (struct pawl_result){.token = pawl_token(lock)};
        code = pay(lock, result, payment);
        return code == PAWL_OK ? pawl_once_finish(lock, result, 0) : code;
}

static void compare(struct stage *stage, struct payment *payment, const struct pawl_result *result)
{
        if (strtoull(result->data, NULL, 10) != result->token)
                stage_fail(stage, "a result says that it is of token %s, and is of %" PRIu64, (char *)result->data,
                           result->token);
        if (payment->result && payment->result != result->token)
                stage_fail(stage, "two got different results: of tokens %" PRIu64 " and %" PRIu64, payment->result,
                           result->token);
        payment->result = result->token;
}

static bool pay_once(struct stage *stage, pawl_client *client, int key)
{
        struct payment *payment = &((struct once *)stage->state)->payments[key];
        struct pawl_result result = {0};
        char text[32];
        int code;

        payment->stage = stage;
        snprintf(text, sizeof(text), "payment-%d", key);
        do {
                if (stage->direction.bug == BUG_NO_SECOND_LOOK)
                        code = pay_without_second_look(client, text, payment, &result);
                else
                        code = pawl_once(client, text, NULL, pay, payment, &result);
        } while (code != PAWL_OK && stage_again(stage, code, "pawl_once"));
        if (code != PAWL_OK)
                return false;
        compare(stage, payment, &result);
        free(result.data);
        return true;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);

        for (int key = 0; key < KEYS; key++) {
                stage_pause(stage, 0, 200 * MS);
                if (!pay_once(stage, client, key))
                        break;
        }
        pawl_close(client);
}

static void end(struct stage *stage)
{
        const struct once *once = stage->state;
        bool faults = stage->direction.faults || stage->direction.crash;

        for (int key = 0; key < KEYS; key++) {
                const struct payment *payment = &once->payments[key];

                if (!faults && payment->executions != 1)
                        stage_fail(stage, "payment %d was made %d times", key, payment->executions);
                if (payment->result && payment->taken != payment->result)
                        stage_fail(stage, "everybody was told of payment %" PRIu64 ", and the resource took %" PRIu64,
                                   payment->result, payment->taken);
        }
}

static const char *const bugs[] = {"who has the lock does not look again", NULL};

const struct scene scene_once = {.name = "once",
                                 .promise = "one result for everybody, and the resource has that",
                                 .processes = 4,
                                 .again = true,
                                 .bound = 60 * SECOND,
                                 .play = play,
                                 .end = end,
                                 .size = sizeof(struct once),
                                 .bugs = bugs};
