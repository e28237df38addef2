/* fuzz_jute.c - whatever a server sends, as any of the records we read: nothing outside it is looked at, and a
 * text is a part of it. The seeds are packets of a real server. */
#include <string.h>

#include "engine/zookeeper/jute.h"
#include "fuzz.h"

/* Is the text inside what was received? Reads all of it, for the sanitizers. */
static void inside(const struct jute_in *in, const char *start, struct jute_text text)
{
        char byte = 0;

        MUST(text.at != NULL);
        MUST(text.length == 0 || (text.at >= start && text.at + text.length <= in->end));
        for (size_t i = 0; i < text.length; i++)
                byte ^= text.at[i];
        MUST(byte == byte);
}

static void read_texts(struct jute_in in)
{
        const char *start = in.at;
        size_t count = jute_get_count(&in, 4);
        struct zk_stat stat;

        MUST(count <= (size_t)(in.end - start) / 4);
        for (size_t i = 0; i < count; i++)
                inside(&in, start, jute_get_text(&in));
        jute_get_stat(&in, &stat);
}

static void read_accesses(struct jute_in in)
{
        const char *start = in.at;
        size_t count = jute_get_count(&in, 12);
        struct zk_access access;

        for (size_t i = 0; i < count; i++) {
                jute_get_access(&in, &access);
                inside(&in, start, access.scheme);
                inside(&in, start, access.id);
        }
}

static void read_results(struct jute_in in)
{
        const char *start = in.at;
        struct jute_in again = in;
        struct zk_result result;
        size_t count = 0, failed = 0;
        int error;

        while (jute_get_result(&in, &result)) {
                inside(&in, start, result.path);
                count++;
        }
        error = jute_get_results(&again, &failed);
        MUST(again.bad == in.bad && again.at == in.at);
        MUST(error != ZK_OK || !in.bad);
        MUST(failed == 0 || failed < count);
}

static void read_others(struct jute_in in)
{
        const char *start = in.at;
        struct jute_in copy = in;
        struct jute_text text;
        struct zk_event event;
        struct zk_stat stat;

        jute_get_data(&copy, &text, &stat);
        inside(&copy, start, text);
        copy = in;
        jute_get_created(&copy, &text, &stat);
        inside(&copy, start, text);
        jute_get_event(&in, &event);
        inside(&in, start, event.path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        /* Exactly as large as the input, so that a sanitizer sees a byte too much. */
        char *copy = malloc(size ? size : 1);
        struct jute_in packet, connecting;
        struct zk_connect connect;
        struct zk_reply reply;
        size_t used;

        MUST(copy != NULL);
        if (size > 0)
                memcpy(copy, data, size);
        used = jute_packet(copy, size, 1 << 20, &packet);
        MUST(used <= size);
        if (used > 0 && !packet.bad) {
                connecting = packet;
                jute_get_connect(&connecting, &connect);
                MUST(connecting.at <= connecting.end);
                jute_get_reply(&packet, &reply);
                read_texts(packet);
                read_accesses(packet);
                read_results(packet);
                read_others(packet);
        }
        free(copy);
        return 0;
}
