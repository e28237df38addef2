/* fuzz.h - what every target has: the entry that libFuzzer and replay.c call, and a check that ends the run. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition) ((condition) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #condition))

static inline _Noreturn void fuzz_failed(const char *file, int line, const char *text)
{
        fprintf(stderr, "%s:%d: must: %s\n", file, line, text);
        abort();
}

#endif
