/* words.h - lines of words, as the engines with sessions keep them in the store: written and read strictly. */
#ifndef PAWL_WORDS_H
#define PAWL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct words {
        const char *at, *end; /* at is NULL behind the last word */
};

/* Each takes one word, and is false if it is not there or not what it should be. */
bool words_next(struct words *words, const char **word, size_t *length);
bool words_is(struct words *words, const char *expected);
bool words_number(struct words *words, unsigned base, uint64_t max, uint64_t *number);
/* What words_encode wrote, of at most max bytes (and PAWL_NAME_MAX); text holds max + 1. */
bool words_text(struct words *words, size_t max, char *text);
/* Nothing follows. */
static inline bool words_end(const struct words *words)
{
        return !words->at;
}

/* Writes at most max bytes (and PAWL_NAME_MAX) of text as one word: name_encode, or % if it is empty. out holds
 * 3 * max + 1. */
void words_encode(const char *text, size_t max, char *out);

#endif
