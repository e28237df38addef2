/* reply.c - see reply.h. */
#include "reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIRST_ROOM = 256 };

/* A piece of a line. */
struct piece {
        const char *at;
        size_t size;
};

static int bad(struct reply *reply, const char *problem)
{
        reply->problem = problem;
        return PAWL_UNSUPPORTED;
}

static int no_memory(struct reply *reply)
{
        reply->problem = "no memory for the server's answer";
        return PAWL_NO_MEMORY;
}

void reply_init(struct reply *reply, enum reply_need need)
{
        *reply = (struct reply){.need = need, .state = REPLY_IN_STATUS};
}

void reply_free(struct reply *reply)
{
        free(reply->line);
        free(reply->body);
        reply->line = reply->body = NULL;
}

bool reply_is_fresh(const struct reply *reply)
{
        return reply->head == 0;
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

bool reply_decimal(const char *text, size_t size, uint64_t *value)
{
        uint64_t number = 0;

        if (size == 0 || size > 19)
                return false;
        for (size_t i = 0; i < size; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return false;
                number = number * 10 + (uint64_t)(text[i] - '0');
        }
        if (number > INT64_MAX)
                return false;
        *value = number;
        return true;
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t';
}

static struct piece trim(struct piece piece)
{
        while (piece.size > 0 && is_blank(piece.at[0])) {
                piece.at++;
                piece.size--;
        }
        while (piece.size > 0 && is_blank(piece.at[piece.size - 1]))
                piece.size--;
        return piece;
}

static bool is(struct piece piece, const char *word)
{
        return piece.size == strlen(word) && strncasecmp(piece.at, word, piece.size) == 0;
}

/* Whether a list such as "keep-alive, close" has the word. */
static bool lists(struct piece list, const char *word)
{
        for (;;) {
                const char *comma = memchr(list.at, ',', list.size);
                size_t size = comma ? (size_t)(comma - list.at) : list.size;

                if (is(trim((struct piece){list.at, size}), word))
                        return true;
                if (!comma)
                        return false;
                list.at += size + 1;
                list.size -= size + 1;
        }
}

/* RFC 9110, 5.6.2: what a field's name is made of. */
static bool is_token(struct piece piece)
{
        for (size_t i = 0; i < piece.size; i++) {
                char c = piece.at[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      (c && strchr("!#$%&'*+-.^_`|~", c))))
                        return false;
        }
        return piece.size > 0;
}

/* ---- fields ---------------------------------------------------------------------------------------------------- */

static int read_number(struct reply *reply, struct reply_number *number, struct piece value)
{
        if (number->said || !reply_decimal(value.at, value.size, &number->value))
                return bad(reply, "a number in its head is not one, or is said twice");
        number->said = true;
        return PAWL_OK;
}

static int read_admitted(struct reply *reply, struct piece value)
{
        if (reply->admitted[0] || value.size == 0 || value.size >= sizeof(reply->admitted))
                return bad(reply, "its Pawl-Admitted is not one, or is said twice");
        memcpy(reply->admitted, value.at, value.size);
        reply->admitted[value.size] = '\0';
        return PAWL_OK;
}

/* NAME VERSION */
static int read_version(struct reply *reply, struct piece value)
{
        const char *blank = memchr(value.at, ' ', value.size);
        size_t size = blank ? (size_t)(blank - value.at) : 0;

        if (reply->versioned[0] || size == 0 || size >= sizeof(reply->versioned) ||
            !reply_decimal(blank + 1, value.size - size - 1, &reply->version))
                return bad(reply, "its Pawl-Version is not one, or is said twice");
        memcpy(reply->versioned, value.at, size);
        reply->versioned[size] = '\0';
        return PAWL_OK;
}

static int read_swap(struct reply *reply, struct piece value)
{
        if (reply->swap[0] || value.size != SWAP_ID_MAX)
                return bad(reply, "its " PAWL_SWAP_HEADER " is not one, or is said twice");
        memcpy(reply->swap, value.at, value.size);
        reply->swap[value.size] = '\0';
        return PAWL_OK;
}

static int read_coding(struct reply *reply, struct piece value)
{
        if (reply->chunked || !is(value, "chunked"))
                return bad(reply, "it has a Transfer-Encoding that is not \"chunked\"");
        reply->chunked = true;
        return PAWL_OK;
}

static int read_field(struct reply *reply, struct piece name, struct piece value)
{
        const struct {
                const char *name;
                struct reply_number *number;
        } numbers[] = {
                {"Content-Length", &reply->length},  {"Pawl-Before", &reply->before},
                {"Pawl-Greatest", &reply->greatest}, {"Pawl-Marks", &reply->marks},
                {"Pawl-Pruned", &reply->pruned},
        };

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                if (is(name, numbers[i].name))
                        return read_number(reply, numbers[i].number, value);
        }
        if (is(name, "Pawl-Admitted"))
                return read_admitted(reply, value);
        if (is(name, PAWL_NOW_HEADER))
                return read_version(reply, value);
        if (is(name, PAWL_SWAP_HEADER))
                return read_swap(reply, value);
        if (is(name, "Transfer-Encoding"))
                return read_coding(reply, value);
        if (is(name, "Connection") && lists(value, "close"))
                reply->keeps = false;
        if (is(name, "Age"))
                reply->aged = true;
        if (is(name, "Content-Encoding") && !is(value, "identity"))
                reply->encoded = true;
        return PAWL_OK;
}

/* Splits "Name: value", in the head or in the trailers. */
static int split_field(struct reply *reply, struct piece line, struct piece *name, struct piece *value)
{
        const char *colon = memchr(line.at, ':', line.size);

        *name = (struct piece){line.at, colon ? (size_t)(colon - line.at) : 0};
        if (!is_token(*name))
                return bad(reply, "a line of its head is not \"Name: value\"");
        *value = trim((struct piece){colon + 1, line.size - name->size - 1});
        return PAWL_OK;
}

/* ---- the head -------------------------------------------------------------------------------------------------- */

/* HTTP/1.1 200 whatever */
static int on_status(struct reply *reply, struct piece line)
{
        uint64_t status;

        if (line.size < 12 || memcmp(line.at, "HTTP/1.", 7) != 0 || (line.at[7] != '0' && line.at[7] != '1') ||
            line.at[8] != ' ' || !reply_decimal(line.at + 9, 3, &status) || status < 100 || status > 599 ||
            (line.size > 12 && line.at[12] != ' '))
                return bad(reply, "it does not begin like an answer of HTTP/1.1");
        reply->status = (int)status;
        reply->old = line.at[7] == '0';
        reply->keeps = !reply->old;
        reply->state = REPLY_IN_FIELDS;
        return PAWL_OK;
}

/* "100 Continue" and its like: the answer itself is still to come. What they said does not count for it. */
static int begin_again(struct reply *reply)
{
        if (reply->status == 101)
                return bad(reply, "it changes to another protocol, for which nobody has asked");
        reply->state = REPLY_IN_STATUS;
        reply->chunked = reply->aged = reply->encoded = false;
        reply->length = reply->before = reply->greatest = reply->marks = reply->pruned = (struct reply_number){0};
        reply->admitted[0] = reply->versioned[0] = reply->swap[0] = '\0';
        return PAWL_OK;
}

static bool must_be_whole(const struct reply *reply)
{
        return reply->need == REPLY_DATA && reply->status == 200;
}

/* Where the body ends must be said: one that ends with its connection looks whole when it was cut. */
static int without_length(struct reply *reply)
{
        if (must_be_whole(reply))
                return bad(reply, "it does not say where its data end: neither Content-Length nor chunked");
        reply->keeps = false;
        reply->state = REPLY_DONE;
        return PAWL_OK;
}

static int with_length(struct reply *reply)
{
        reply->left = reply->length.value;
        reply->state = reply->left > 0 ? REPLY_IN_LENGTH : REPLY_DONE;
        if (must_be_whole(reply) && reply->left > REPLY_BODY_MAX) {
                reply->problem = "the data are more than 64 MiB";
                return PAWL_FULL;
        }
        return PAWL_OK;
}

static int on_head(struct reply *reply)
{
        if (reply->chunked && (reply->length.said || reply->old))
                return bad(reply, "it says in two ways where its body ends");
        if (reply->status < 200)
                return begin_again(reply);
        if (reply->need == REPLY_NO_BODY || reply->status == 204 || reply->status == 304) {
                reply->state = REPLY_DONE;
                return PAWL_OK;
        }
        if (!reply->chunked)
                return reply->length.said ? with_length(reply) : without_length(reply);
        reply->state = REPLY_IN_CHUNK_SIZE;
        return PAWL_OK;
}

static int on_field(struct reply *reply, struct piece line)
{
        struct piece name, value;
        int code;

        if (line.size == 0)
                return on_head(reply);
        code = split_field(reply, line, &name, &value);
        return code == PAWL_OK ? read_field(reply, name, value) : code;
}

/* ---- the body -------------------------------------------------------------------------------------------------- */

/* HEX[;anything] */
static int on_chunk_size(struct reply *reply, struct piece line)
{
        const char *semicolon = memchr(line.at, ';', line.size);
        struct piece number = trim((struct piece){line.at, semicolon ? (size_t)(semicolon - line.at) : line.size});
        uint64_t size = 0;

        if (number.size == 0 || number.size > 15)
                return bad(reply, "a chunk does not begin with its size");
        for (size_t i = 0; i < number.size; i++) {
                static const char digits[] = "0123456789abcdef0123456789ABCDEF";
                const char *digit = memchr(digits, number.at[i], sizeof(digits) - 1);

                if (!digit)
                        return bad(reply, "a chunk does not begin with its size");
                size = size << 4 | (uint64_t)((digit - digits) & 15);
        }
        reply->left = size;
        reply->state = size > 0 ? REPLY_IN_CHUNK : REPLY_IN_TRAILERS;
        return PAWL_OK;
}

static int on_chunk_end(struct reply *reply, struct piece line)
{
        if (line.size > 0)
                return bad(reply, "a chunk is longer than its size");
        reply->state = REPLY_IN_CHUNK_SIZE;
        return PAWL_OK;
}

static int on_trailer(struct reply *reply, struct piece line)
{
        struct piece name, value;

        if (line.size == 0) {
                reply->state = REPLY_DONE;
                return PAWL_OK;
        }
        return split_field(reply, line, &name, &value);
}

static int grow(char **bytes, size_t *room, size_t needed)
{
        size_t next = *room > FIRST_ROOM ? *room : FIRST_ROOM;
        char *grown;

        if (needed <= *room)
                return PAWL_OK;
        while (next < needed)
                next *= 2;
        grown = realloc(*bytes, next);
        if (!grown)
                return PAWL_NO_MEMORY;
        *bytes = grown;
        *room = next;
        return PAWL_OK;
}

/* Keeps the data, or as much of a sentence as anybody reads. */
static int keep(struct reply *reply, const char *bytes, size_t size)
{
        size_t most = must_be_whole(reply) ? REPLY_BODY_MAX : REPLY_SENTENCE_MAX;

        if (size > most - reply->size && must_be_whole(reply)) {
                reply->problem = "the data are more than 64 MiB";
                return PAWL_FULL;
        }
        if (size > most - reply->size)
                size = most - reply->size;
        if (grow(&reply->body, &reply->room, reply->size + size + 1) != PAWL_OK)
                return no_memory(reply);
        memcpy(reply->body + reply->size, bytes, size);
        reply->size += size;
        reply->body[reply->size] = '\0';
        return PAWL_OK;
}

static int read_body(struct reply *reply, const char *bytes, size_t size, size_t *used)
{
        int code;

        if (size > reply->left)
                size = (size_t)reply->left;
        code = keep(reply, bytes, size);
        if (code != PAWL_OK)
                return code;
        *used = size;
        reply->left -= size;
        if (reply->left == 0)
                reply->state = reply->state == REPLY_IN_CHUNK ? REPLY_IN_CHUNK_END : REPLY_DONE;
        return PAWL_OK;
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

static int on_line(struct reply *reply, struct piece line)
{
        switch (reply->state) {
        case REPLY_IN_STATUS:
                return on_status(reply, line);
        case REPLY_IN_FIELDS:
                return on_field(reply, line);
        case REPLY_IN_CHUNK_SIZE:
                return on_chunk_size(reply, line);
        case REPLY_IN_CHUNK_END:
                return on_chunk_end(reply, line);
        default:
                return on_trailer(reply, line);
        }
}

/* The lines of chunks are not of the head; each of them is limited by itself. */
static bool is_too_long(const struct reply *reply, size_t more)
{
        bool of_chunks = reply->state == REPLY_IN_CHUNK_SIZE || reply->state == REPLY_IN_CHUNK_END;

        return more > REPLY_HEAD_MAX - (of_chunks ? reply->line_size : reply->head);
}

static int take_line(struct reply *reply)
{
        size_t size = reply->line_size;

        reply->line_size = 0;
        if (size < 2 || reply->line[size - 2] != '\r')
                return bad(reply, "a line of it does not end in CR LF");
        size -= 2;
        if (memchr(reply->line, '\r', size) || memchr(reply->line, '\0', size))
                return bad(reply, "a line of it has a CR or a NUL in it");
        return on_line(reply, (struct piece){reply->line, size});
}

static int read_line(struct reply *reply, const char *bytes, size_t size, size_t *used)
{
        const char *end = memchr(bytes, '\n', size);

        if (end)
                size = (size_t)(end - bytes) + 1;
        if (is_too_long(reply, size)) {
                reply->problem = "its head is longer than 64 KiB";
                return PAWL_FULL;
        }
        if (grow(&reply->line, &reply->line_room, reply->line_size + size) != PAWL_OK)
                return no_memory(reply);
        memcpy(reply->line + reply->line_size, bytes, size);
        reply->line_size += size;
        if (reply->state != REPLY_IN_CHUNK_SIZE && reply->state != REPLY_IN_CHUNK_END)
                reply->head += size;
        *used = size;
        return end ? take_line(reply) : PAWL_OK;
}

int reply_read(struct reply *reply, const char *bytes, size_t size, size_t *used)
{
        int code = PAWL_OK;

        *used = 0;
        while (code == PAWL_OK && *used < size && reply->state != REPLY_DONE) {
                bool in_body = reply->state == REPLY_IN_LENGTH || reply->state == REPLY_IN_CHUNK;
                size_t step = 0;

                code = in_body ? read_body(reply, bytes + *used, size - *used, &step)
                               : read_line(reply, bytes + *used, size - *used, &step);
                *used += step;
        }
        return code;
}
