/* replay.c - runs a target without libFuzzer: every file of its corpus, then so many mutations of them, always the same.
 *
 *     fuzz_X CORPUS [MUTATIONS]
 *     fuzz_X FILE                what a fuzzer found */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

enum { FILES_MAX = 1000, INPUT_MAX = 8192 };

struct input {
        uint8_t bytes[INPUT_MAX];
        size_t size;
};

static struct input files[FILES_MAX];
static size_t file_count;
static struct input now; /* what the target has: told if it dies of it */

static uint64_t state = 1;

static uint32_t chance(size_t below)
{
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (uint32_t)((state >> 11) % below);
}

/* ---- mutations --------------------------------------------------------------------------------------------------- */

static void insert(struct input *input, size_t at, const uint8_t *bytes, size_t size)
{
        if (size > sizeof(input->bytes) - input->size)
                return;
        memmove(input->bytes + at + size, input->bytes + at, input->size - at);
        memmove(input->bytes + at, bytes, size);
        input->size += size;
}

static void erase(struct input *input, size_t at, size_t size)
{
        if (size > input->size - at)
                size = input->size - at;
        memmove(input->bytes + at, input->bytes + at + size, input->size - at - size);
        input->size -= size;
}

static void mutate(struct input *input)
{
        static const uint8_t telling[] = "%/?&=:@,[].-+09aAsmh \n\x7f\x80\xc3\xff";
        const struct input *other = &files[chance(file_count)];
        size_t at = chance(input->size + 1);
        uint8_t byte = telling[chance(sizeof(telling))];
        uint8_t copy[64];
        size_t length;

        switch (chance(6)) {
        case 0:
                if (at < input->size)
                        input->bytes[at] ^= (uint8_t)(1u << chance(8));
                break;
        case 1:
                if (at < input->size)
                        input->bytes[at] = byte;
                break;
        case 2:
                insert(input, at, &byte, 1);
                break;
        case 3:
                erase(input, at, 1 + chance(8));
                break;
        case 4: /* something of another */
                length = other->size < sizeof(copy) ? other->size : sizeof(copy);
                memcpy(copy, other->bytes, length);
                if (length > 0)
                        insert(input, at, copy, 1 + chance(length));
                break;
        default: /* a part of itself, again */
                length = input->size - at < sizeof(copy) ? input->size - at : sizeof(copy);
                memcpy(copy, input->bytes + at, length);
                for (uint32_t i = chance(4); i > 0; i--)
                        insert(input, at, copy, length);
        }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void tell(int signal_number)
{
        ssize_t n = write(STDOUT_FILENO, "not ok 1 - died of the input that follows\n", 42);

        n += write(STDOUT_FILENO, now.bytes, now.size);
        n += write(STDOUT_FILENO, "\n", 1);
        signal(signal_number, SIG_DFL);
        raise(signal_number + (n < 0)); /* as it was, whatever could be told */
}

static void run(void)
{
        /* On the heap and exactly as long as it is, so that a sanitizer sees a byte too far. */
        uint8_t *exact = malloc(now.size ? now.size : 1);

        MUST(exact != NULL);
        memcpy(exact, now.bytes, now.size);
        LLVMFuzzerTestOneInput(exact, now.size);
        free(exact);
}

static void load(const char *path)
{
        FILE *file = fopen(path, "rb");

        MUST(file != NULL && file_count < FILES_MAX);
        files[file_count].size = fread(files[file_count].bytes, 1, INPUT_MAX, file);
        file_count++;
        fclose(file);
}

static int by_name(const struct dirent **one, const struct dirent **other)
{
        return strcmp((*one)->d_name, (*other)->d_name);
}

static void load_all(const char *directory)
{
        struct dirent **entries;
        int count = scandir(directory, &entries, NULL, by_name);
        char path[4096];

        MUST(count >= 0);
        for (int i = 0; i < count; i++) {
                snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
                if (entries[i]->d_name[0] != '.')
                        load(path);
                free(entries[i]);
        }
        free(entries);
}

int main(int argc, char **argv)
{
        long mutations = argc > 2 ? atol(argv[2]) : 0;
        struct stat info;

        MUST(argc > 1 && stat(argv[1], &info) == 0);
        if (S_ISDIR(info.st_mode))
                load_all(argv[1]);
        else
                load(argv[1]);
        MUST(file_count > 0);
        signal(SIGABRT, tell);
        signal(SIGSEGV, tell);
        printf("1..1\n");
        fflush(stdout);
        for (size_t i = 0; i < file_count; i++) {
                now = files[i];
                run();
        }
        for (long i = 0; i < mutations; i++) {
                now = files[chance(file_count)];
                for (uint32_t times = 1 + chance(4); times > 0; times--)
                        mutate(&now);
                run();
        }
        printf("ok 1 - %zu inputs and %ld mutations\n", file_count, mutations);
        return 0;
}
