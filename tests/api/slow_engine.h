/* slow_engine.h - an engine for the tests of api and core: it answers through the loop, after a while or never. What it
 * stands for is not a store but its silence: what a caller sees while nothing comes back. */
#ifndef SLOW_ENGINE_H
#define SLOW_ENGINE_H

#include "engine/engine.h"

/* Read by every operation as it starts; change it with the atomics of the tests' own thread. */
struct slow_settings {
        int64_t delay;     /* ns until an answer */
        int64_t grant_age; /* how much older than now a grant's sent_at is */
        bool mute_acquire; /* never answers */
        bool mute_renew;
        bool mute_release;
        bool fail_renew; /* answers PAWL_UNREACHABLE */
        bool refuse;     /* every acquire, with a sentence */
        bool mute_inspect;
        uint32_t acquires; /* counted */
        uint32_t renewals;
        uint32_t releases;
        uint32_t held;      /* at this moment */
        uint32_t inquiries; /* counted */
        uint32_t forgotten;
};
extern struct slow_settings slow;

extern const struct engine_ops slow_engine;

#endif
