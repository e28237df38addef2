/* answer.h - what an answer means for a guard: a code and a sentence. Nothing is a pass but an answer that says, in a field
 * which only a server that checks tokens has, that this token was admitted; or which version it is. */
#ifndef PAWL_HTTP_ANSWER_H
#define PAWL_HTTP_ANSWER_H

#include "request.h"

enum act { ACT_ADMIT, ACT_GET, ACT_PUT, ACT_FORGET, ACT_LIST, ACT_PRUNE, ACT_LOOK, ACT_SWAP };

/* What was asked, and of whom. */
struct question {
        enum act act;
        const char *where; /* the guard's URL, without secrets */
        const struct origin *origin;
        const struct request *request;
        const struct visit *visit;     /* NULL for ACT_LIST and ACT_PRUNE */
        const struct guard_swap *swap; /* of ACT_SWAP */
        struct pawl_why *why;
};

/* The server may have done something that an unanswered request leaves in doubt. */
bool act_changes(enum act act);
/* It is about a version, not about a token. */
bool act_is_versioned(enum act act);
/* PAWL_OK, PAWL_NOT_FOUND (admitted, but there is nothing), PAWL_STALE, or why not. */
int answer_judge(const struct question *question, const struct reply *reply);

#endif
