/* reply.h - what an HTTP server answers, read as it comes: bytes in, a reply out. No socket and no clock is known here, and
 * however the bytes are cut, the same reply comes out.
 *
 *   STATUS --> FIELDS --> LENGTH -----------------------------------------> DONE
 *     ^           |-----> CHUNK_SIZE --> CHUNK --> CHUNK_END              ^
 *     |           |           ^  '---------------------|--> TRAILERS -----|
 *     |           |           '------------------------'                  |
 *     '-- 1xx ----'---------------- no body, or one that is not needed ---'
 *
 * Strict where two readers could differ about where a reply ends: lines end in CR LF, a length is said once and one way
 * only. */
#ifndef PAWL_HTTP_REPLY_H
#define PAWL_HTTP_REPLY_H

#include <pawl/guard.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLY_HEAD_MAX = 64 * 1024, REPLY_BODY_MAX = 64 << 20, REPLY_SENTENCE_MAX = 4096 };

/* What the request was after. */
enum reply_need {
        REPLY_NO_BODY, /* HEAD: none follows, whatever is said of its length */
        REPLY_STATUS,  /* the body is a sentence for people: the first REPLY_SENTENCE_MAX bytes are kept */
        REPLY_DATA     /* of a 200 it must be whole, and has REPLY_BODY_MAX bytes at most */
};

enum { SWAP_ID_MAX = 16 };

enum reply_state {
        REPLY_IN_STATUS,
        REPLY_IN_FIELDS,
        REPLY_IN_LENGTH,
        REPLY_IN_CHUNK_SIZE,
        REPLY_IN_CHUNK,
        REPLY_IN_CHUNK_END,
        REPLY_IN_TRAILERS,
        REPLY_DONE
};

/* A number that a field may say. */
struct reply_number {
        bool said;
        uint64_t value;
};

struct reply {
        int status;
        bool keeps;   /* the connection may be used for another request */
        bool aged;    /* it comes from a cache: there is an Age field */
        bool encoded; /* the body is not as the server has it: there is a Content-Encoding */
        struct reply_number before, greatest, marks, pruned;
        char admitted[PAWL_FENCE_MAX + 1];  /* "": not said */
        char versioned[PAWL_FENCE_MAX + 1]; /* whose version is told, encoded; "": none is */
        uint64_t version;
        char swap[SWAP_ID_MAX + 1]; /* the id of a swap that the server has compared; "": none */
        char *body;                 /* with a NUL behind it; NULL: none. reply_free frees it */
        size_t size;
        const char *problem; /* a sentence, if reply_read failed */

        enum reply_need need;
        enum reply_state state;
        bool old;     /* HTTP/1.0 */
        bool chunked; /* Transfer-Encoding: chunked */
        struct reply_number length;
        uint64_t left; /* of the body, or of a chunk */
        size_t room;   /* of body */
        size_t head;   /* bytes of lines so far: limited */
        char *line;
        size_t line_size, line_room;
};

void reply_init(struct reply *reply, enum reply_need need);
/* Reads on, to the end of the reply at most; *used says how much it took. PAWL_OK, and reply->state says whether it is
 * whole; PAWL_UNSUPPORTED (it is no HTTP that we understand), PAWL_FULL (too long) or PAWL_NO_MEMORY with a problem. */
int reply_read(struct reply *reply, const char *bytes, size_t size, size_t *used);
/* Nothing of it was heard yet. */
bool reply_is_fresh(const struct reply *reply);
void reply_free(struct reply *reply);

/* Decimal digits and nothing else, below 2^63. */
bool reply_decimal(const char *text, size_t size, uint64_t *value);

#endif
