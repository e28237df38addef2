/* fuzz_http.c - an answer of HTTP is refused with a sentence, or read; the same whether it comes at once or byte by byte. */
#include <string.h>

#include "fuzz.h"
#include "guard/http/reply.h"

static int feed(struct reply *reply, enum reply_need need, const char *bytes, size_t size, size_t step, size_t *used)
{
        int code = PAWL_OK;

        reply_init(reply, need);
        *used = 0;
        while (code == PAWL_OK && *used < size && reply->state != REPLY_DONE) {
                size_t part = size - *used < step ? size - *used : step;
                size_t taken = 0;

                code = reply_read(reply, bytes + *used, part, &taken);
                MUST(taken <= part && (taken > 0 || code != PAWL_OK));
                *used += taken;
        }
        return code;
}

static void check_reply(const struct reply *reply, int code)
{
        MUST(code == PAWL_OK || (code == PAWL_UNSUPPORTED || code == PAWL_FULL));
        MUST((code == PAWL_OK) == (reply->problem == NULL));
        MUST(strlen(reply->admitted) <= PAWL_FENCE_MAX);
        MUST(!reply->body || reply->body[reply->size] == '\0');
        if (code == PAWL_OK && reply->state == REPLY_DONE) {
                MUST(reply->status >= 200 && reply->status <= 599);
                MUST(reply->need != REPLY_NO_BODY || reply->size == 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        enum reply_need need = size > 0 ? data[0] % 3 : REPLY_DATA;
        const char *bytes = (const char *)data + (size > 0);
        struct reply whole, slow;
        size_t whole_used, slow_used;
        int code, slow_code;

        size -= size > 0;
        code = feed(&whole, need, bytes, size, SIZE_MAX, &whole_used);
        slow_code = feed(&slow, need, bytes, size, 1, &slow_used);
        check_reply(&whole, code);
        check_reply(&slow, slow_code);
        MUST(code == slow_code);
        if (code == PAWL_OK) {
                MUST(whole_used == slow_used && whole.state == slow.state && whole.status == slow.status);
                MUST(whole.keeps == slow.keeps && strcmp(whole.admitted, slow.admitted) == 0);
                MUST(whole.size == slow.size && (!whole.size || memcmp(whole.body, slow.body, whole.size) == 0));
        }
        reply_free(&whole);
        reply_free(&slow);
        return 0;
}
