/* redis_examine.h - between redis_examine.c, which asks a server about itself, and redis_judge.c, which knows what the
 * answers mean for locks. */
#ifndef PAWL_REDIS_EXAMINE_H
#define PAWL_REDIS_EXAMINE_H

#include "redis.h"

/* The settings that INFO does not tell. */
enum setting {
        APPENDFSYNC,
        SAVE,
        TIMEOUT,
        KEEPALIVE,
        OUTPUT_LIMIT,
        LUA_LIMIT,
        MIN_REPLICAS,
        MAX_CLIENTS,
        TLS_CLIENTS,
        SETTINGS
};
extern const char *const setting_names[SETTINGS];

enum { SETTING_MAX = 256, REFUSED_MAX = 32 };

/* What was learned. Text that is not known is empty, a number that is not known is negative. */
struct examination {
        struct ask ask;
        struct list listed; /* in redis->examinations */
        struct redis *redis;
        struct inquiry *inquiry; /* NULL: nobody wants to know any more, a reply is still to come */
        bool sent;
        size_t step;
        char *info;              /* INFO, or NULL */
        struct pawl_why no_info; /* why not */
        char settings[SETTINGS][SETTING_MAX];
        struct pawl_why no_settings;
        char user[128];
        bool probed;
        struct pawl_why no_probe;
        char refused[512];   /* by the probe: commands, with blanks between them */
        char refusal[256];   /* the first error */
        int64_t answered_in; /* ns, the fastest of all replies */
        int64_t clock_off;   /* us, the server's less ours */
        bool clock_known;
        char mend[8192]; /* the command being told */
};

/* Tells what all of it means. */
void judge_all(struct examination *examination);
/* Tells that it cannot be asked, or no longer. */
void judge_absence(struct examination *examination, const struct pawl_why *why);

#endif
