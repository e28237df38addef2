/* answer.c - see answer.h. */
#include "answer.h"

#include <string.h>

enum { SAID_MAX = 160 };

bool act_changes(enum act act)
{
        return act == ACT_PUT || act == ACT_FORGET || act == ACT_PRUNE || act == ACT_SWAP;
}

bool act_is_versioned(enum act act)
{
        return act == ACT_LOOK || act == ACT_SWAP;
}

/* The first line of what the server says about it, if it is meant for people, and holds no secret of ours. */
static void read_said(const struct question *question, const struct reply *reply, char said[SAID_MAX + 4])
{
        const char *text = reply->body ? reply->body : "";
        size_t size = strcspn(text, "\r\n");

        said[0] = '\0';
        if (size == 0 || *text == '<' || *text == '{' || origin_is_told(question->origin, text))
                return;
        if (size > SAID_MAX)
                size = SAID_MAX;
        memcpy(said, ": ", 2);
        memcpy(said + 2, text, size);
        said[size + 2] = '\0';
}

static int refuse(const struct question *question, const struct reply *reply, int code, const char *what)
{
        char said[SAID_MAX + 4];

        read_said(question, reply, said);
        return why_set(question->why, code, "%.200s: %s (%d%s)", question->where, what, reply->status, said);
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

/* A server that does not repeat the id has not compared it: after a doubt the version that it has may be ours. */
static int on_moved(const struct question *question, const struct reply *reply)
{
        bool knows = strcmp(reply->swap, question->request->swap) == 0 && reply->greatest.said;

        if (question->swap->again && !knows)
                return refuse(question, reply, PAWL_IN_DOUBT,
                              "the version is another, and the server does not say whether this swap has made it");
        if (reply->greatest.said)
                return guard_moved(question->visit, question->swap, reply->greatest.value);
        return refuse(question, reply, PAWL_STALE, "the version is another");
}

static int on_stale(const struct question *question, const struct reply *reply)
{
        if (question->act == ACT_SWAP)
                return on_moved(question, reply);
        if (reply->greatest.said && reply->greatest.value > question->visit->token)
                return guard_stale(question->visit, reply->greatest.value);
        return refuse(question, reply, PAWL_STALE, "the token is too old");
}

/* A gateway may have passed the request on before it gave up, and a server may fail after the deed. */
static int on_failure(const struct question *question, const struct reply *reply)
{
        if (reply->status == 501)
                return refuse(question, reply, PAWL_UNSUPPORTED, "the server cannot do that");
        if (reply->status == 507)
                return refuse(question, reply, PAWL_FULL, "the server has no room");
        if (act_changes(question->act))
                return refuse(question, reply, PAWL_IN_DOUBT,
                              "the server failed, and what was asked for may be done or not");
        return refuse(question, reply, PAWL_UNREACHABLE, "the server cannot answer now");
}

static int on_success_of_another_kind(const struct question *question, const struct reply *reply)
{
        if (act_changes(question->act))
                return refuse(question, reply, PAWL_IN_DOUBT,
                              "the server does not say that it has done what was asked for");
        return refuse(question, reply, PAWL_UNSUPPORTED, "the server's answer is of another kind");
}

static int on_refusal(const struct question *question, const struct reply *reply)
{
        static const struct {
                int status;
                int code;
                const char *what;
        } refusals[] = {
                {400, PAWL_INVALID, "the server finds the request wrong"},
                {401, PAWL_DENIED, "the server does not know who we are"},
                {403, PAWL_DENIED, "the server does not allow it"},
                {404, PAWL_UNSUPPORTED, "the server has nothing there: is the path right?"},
                {405, PAWL_UNSUPPORTED, "the server knows no such request"},
                {407, PAWL_DENIED, "a proxy does not know who we are"},
                {408, PAWL_UNREACHABLE, "the server did not get the request in time"},
                {412, PAWL_INVALID, "the server refuses it"},
                {413, PAWL_FULL, "the server takes less data at once"},
                {428, PAWL_UNSUPPORTED, "the server got no token: something between us drops " PAWL_FENCE_HEADER},
                {429, PAWL_UNREACHABLE, "the server has too much to do"},
        };

        if (reply->status == 428 && act_is_versioned(question->act))
                return refuse(question, reply, PAWL_UNSUPPORTED, "the server wants a token: it does not know versions");
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                if (refusals[i].status == reply->status)
                        return refuse(question, reply, refusals[i].code, refusals[i].what);
        }
        if (reply->status >= 500)
                return on_failure(question, reply);
        if (reply->status >= 400)
                return refuse(question, reply, PAWL_INVALID, "the server refuses it");
        if (reply->status >= 300)
                return refuse(question, reply, PAWL_UNSUPPORTED,
                              "the server points to another place, and redirects are not followed: name that place");
        return on_success_of_another_kind(question, reply);
}

/* ---- passes ---------------------------------------------------------------------------------------------------- */

static bool may_pass(enum act act, int status)
{
        switch (act) {
        case ACT_ADMIT:
        case ACT_FORGET:
        case ACT_LOOK:
                return status == 200 || status == 204 || status == 404;
        case ACT_GET:
                return status == 200 || status == 404;
        case ACT_PUT:
        case ACT_SWAP:
                return status == 200 || status == 201 || status == 204;
        case ACT_LIST:
                return status == 200;
        default:
                return status == 200 || status == 204;
        }
}

static int no_evidence(const struct question *question, const struct reply *reply)
{
        if (question->act == ACT_LIST || question->act == ACT_PRUNE)
                return refuse(question, reply, PAWL_UNSUPPORTED,
                              "the server does not tell its tokens: the answer has no Pawl-Marks or Pawl-Pruned");
        if (question->act == ACT_LOOK)
                return refuse(question, reply, PAWL_UNSUPPORTED,
                              "the server does not know versions: the answer has no " PAWL_NOW_HEADER " for this name");
        if (question->act == ACT_SWAP)
                return refuse(question, reply, PAWL_IN_DOUBT,
                              "the server does not say that it has made the version: it may have done it");
        if (reply->admitted[0])
                return refuse(question, reply, PAWL_UNSUPPORTED,
                              "the answer is for another token: something between us mixes them up");
        if (act_changes(question->act))
                return refuse(question, reply, PAWL_UNSUPPORTED,
                              "the server does not check tokens, and may have done it: the answer has "
                              "no " PAWL_ADMITTED_HEADER);
        return refuse(question, reply, PAWL_UNSUPPORTED,
                      "the server does not check tokens: the answer has no " PAWL_ADMITTED_HEADER);
}

static bool has_evidence(const struct question *question, const struct reply *reply)
{
        if (question->act == ACT_LIST)
                return reply->marks.said;
        if (question->act == ACT_PRUNE)
                return reply->pruned.said;
        if (act_is_versioned(question->act))
                return strcmp(reply->versioned, question->request->name) == 0 &&
                       (question->act == ACT_LOOK || reply->version == question->visit->token);
        return strcmp(reply->admitted, question->request->fence) == 0;
}

static int on_data(const struct question *question, const struct reply *reply)
{
        if (reply->encoded)
                return refuse(question, reply, PAWL_UNSUPPORTED,
                              "the data are compressed, although nobody has asked for it");
        if (question->act == ACT_GET && !reply->before.said)
                return refuse(question, reply, PAWL_UNSUPPORTED,
                              "the server does not say which token was the greatest: the answer has no Pawl-Before");
        return PAWL_OK;
}

int answer_judge(const struct question *question, const struct reply *reply)
{
        if (reply->status == 412 && question->visit && question->act != ACT_LOOK)
                return on_stale(question, reply);
        if (!may_pass(question->act, reply->status))
                return on_refusal(question, reply);
        if (!has_evidence(question, reply))
                return no_evidence(question, reply);
        /* What was admitted once may be stale by now: a cache does not know. */
        if (reply->aged)
                return refuse(question, reply, PAWL_UNSUPPORTED,
                              "a cache has answered, not the server: it must not keep answers to " PAWL_FENCE_HEADER);
        if (reply->status == 404 && (question->act == ACT_GET || question->act == ACT_LOOK))
                return guard_no_data(question->visit);
        if (reply->status == 404 && question->act == ACT_FORGET)
                return why_set(question->why, PAWL_NOT_FOUND, "no token is known for \"%s\"",
                               question->visit->resource);
        return question->request->need == REPLY_DATA ? on_data(question, reply) : PAWL_OK;
}
