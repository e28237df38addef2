/* passfile.h - which URLs a target leaves out: passfile= opens files, which a fuzzer should not. */
#ifndef FUZZ_PASSFILE_H
#define FUZZ_PASSFILE_H

#include <stdio.h>
#include <string.h>

/* Not even with its letters encoded. */
static inline int opens_a_file(const char *text)
{
        char decoded[8192];
        size_t used = 0;

        for (; *text && used < sizeof(decoded) - 1; text++) {
                unsigned value;

                if (*text == '%' && sscanf(text + 1, "%2x", &value) == 1 && text[1] && text[2]) {
                        decoded[used++] = (char)value;
                        text += 2;
                } else {
                        decoded[used++] = *text;
                }
        }
        decoded[used] = 0;
        return memmem(decoded, used, "passfile", 8) != NULL;
}

#endif
