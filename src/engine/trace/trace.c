/* trace.c - logs what is asked of another engine. */
#include "../engine.h"

extern const struct engine_ops trace_engine;

const struct engine_ops trace_engine = {
        .name = "trace",
};
