/* recipe.c - see recipe.h. */
#include "recipe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "when.h"

#define PAUSE_FIRST (2 * RECIPE_MS)
#define PAUSE_LONGEST (250 * RECIPE_MS)
#define TURN_EVERY (10 * RECIPE_MS)

/* Nothing can be read from them but why, which every version has in that place. */
static int without_size(void *mine, size_t why_at, const void *theirs, const char *macro)
{
        struct pawl_why *why;

        memcpy(&why, (const char *)theirs + why_at, sizeof(why));
        memcpy((char *)mine + why_at, &why, sizeof(why));
        return recipe_why(why, PAWL_INVALID,
                          "the options have no size: make them with %s(...), or set .size to that of the struct",
                          macro);
}

int recipe_options(void *mine, size_t size, size_t why_at, const void *theirs, const char *macro)
{
        struct pawl_why *why;
        uint32_t given = 0;

        memset(mine, 0, size);
        if (!theirs)
                return PAWL_OK;
        memcpy(&given, theirs, sizeof(given));
        if (given == 0)
                return without_size(mine, why_at, theirs, macro);
        if (given < sizeof(given) || given > 4096)
                return PAWL_INVALID;
        memcpy(mine, theirs, given < size ? given : size);
        memcpy(&why, (const char *)mine + why_at, sizeof(why));
        for (size_t i = size; i < given; i++)
                if (((const char *)theirs)[i])
                        return recipe_why(why, PAWL_UNSUPPORTED,
                                          "the options of %s ask for something newer than this library, which is %s",
                                          macro, pawl_version());
        return PAWL_OK;
}

int recipe_why(struct pawl_why *why, int code, const char *format, ...)
{
        va_list list;

        if (!why)
                return code;
        *why = (struct pawl_why){.code = code};
        va_start(list, format);
        vsnprintf(why->text, sizeof(why->text), format, list);
        va_end(list);
        return code;
}

int recipe_fail(struct pawl_why *why, int code, const char *text)
{
        return recipe_why(why, code, "%s", text);
}

/* What pawl_explain says of a client that may not be used. */
static int unusable(struct pawl_why *why, int code)
{
        return recipe_fail(why, code,
                           code == PAWL_FORKED ? "the client belongs to the parent process: open another after fork()"
                                               : "there is no client: it is NULL");
}

int recipe_explain(struct pawl_why *why, pawl_client *client, int code)
{
        struct pawl_why last;
        int known = pawl_explain(client, &last);

        if (known != PAWL_OK && known == code)
                return unusable(why, code);
        if (known != PAWL_OK || last.code != code)
                return recipe_fail(why, code, pawl_strerror(code));
        if (why)
                *why = last;
        return code;
}

/* A client that may not be used has no capabilities either. */
int recipe_needs(pawl_client *client, uint32_t capabilities, struct pawl_why *why, const char *text)
{
        uint32_t can = pawl_capabilities(client);
        struct pawl_why last;
        int code;

        if (can && (can & capabilities) == capabilities)
                return PAWL_OK;
        code = pawl_explain(client, &last);
        if (code != PAWL_OK)
                return unusable(why, code);
        return capabilities ? recipe_fail(why, PAWL_UNSUPPORTED, text) : PAWL_OK;
}

int recipe_name(const char *family, const char *name, char room[PAWL_NAME_MAX + 1], struct pawl_why *why)
{
        int length;

        if (!name || !*name)
                return recipe_fail(why, PAWL_INVALID, "a name has at least one byte");
        length = snprintf(room, PAWL_NAME_MAX + 1, "%s/%s", family, name);
        if (length > PAWL_NAME_MAX)
                return recipe_fail(why, PAWL_INVALID,
                                   "the name is too long: with what is put before it, it may have 255 bytes");
        return PAWL_OK;
}

bool recipe_read_number(const char *text, size_t size, const char *magic, uint64_t most, uint64_t *number)
{
        size_t at = strlen(magic);
        uint64_t value = 0;

        if (size <= at || memcmp(text, magic, at) != 0 || (text[at] == '0' && size > at + 1))
                return false;
        for (; at < size; at++) {
                uint64_t digit = (unsigned char)text[at] - (uint64_t)'0'; /* what is below wraps, and is too great */

                if (digit > 9 || digit > most || value > (most - digit) / 10)
                        return false;
                value = value * 10 + digit;
        }
        *number = value;
        return true;
}

int64_t recipe_deadline(int64_t wait_ms)
{
        int64_t now = when_now();

        if (wait_ms == PAWL_FOREVER || wait_ms > (RECIPE_NEVER - now) / RECIPE_MS) /* centuries, too */
                return RECIPE_NEVER;
        return wait_ms < 0 ? now : now + wait_ms * RECIPE_MS;
}

int64_t recipe_left(int64_t deadline)
{
        int64_t left;

        if (deadline == RECIPE_NEVER)
                return PAWL_FOREVER;
        left = deadline - when_now();
        return left <= 0 ? PAWL_NO_WAIT : (left + RECIPE_MS - 1) / RECIPE_MS;
}

void recipe_sleep(pawl_client *client, int64_t ns)
{
        int64_t left, now = when_now();
        int64_t until = ns < RECIPE_NEVER - now ? now + ns : RECIPE_NEVER;

        if (pawl_fd(client) < 0) {
                when_sleep(ns);
                return;
        }
        while ((left = until - when_now()) > 0) {
                (void)pawl_dispatch(client);
                when_sleep(left < TURN_EVERY ? left : TURN_EVERY);
        }
}

int recipe_outwait(pawl_client *client, const char *name, int64_t wait_ms, struct pawl_why *why)
{
        uint32_t mode = pawl_capabilities(client) & PAWL_CAN_SHARE ? PAWL_SHARED : PAWL_EXCLUSIVE;
        pawl_lock *lock;
        int code = pawl_acquire(client, name,
                                PAWL_LOCK(.flags = PAWL_BRIEF, .wait_ms = wait_ms, .mode = mode, .why = why), &lock);

        if (code == PAWL_OK)
                (void)pawl_release(lock);
        return code;
}

bool recipe_pause(struct recipe_pause *pause)
{
        int64_t length = pause->next ? pause->next : PAUSE_FIRST;
        int64_t left = pause->deadline == RECIPE_NEVER ? RECIPE_NEVER : pause->deadline - when_now();

        if (left <= 0)
                return false;
        pause->next = 2 * length < PAUSE_LONGEST ? 2 * length : PAUSE_LONGEST;
        length = length / 2 + (int64_t)(when_random() % (uint64_t)(length / 2 + 1));
        recipe_sleep(pause->client, length < left ? length : left);
        return true;
}
