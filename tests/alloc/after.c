/* after.c - what must be so after a scenario, whichever it is: see scene.h. */
#include "scene.h"

#include <dirent.h>

#include "../contract/contract.h"
#include "inject.h"

int count_descriptors(void)
{
        DIR *directory = opendir("/proc/self/fd");
        int count = 0;

        while (directory && readdir(directory))
                count++;
        if (directory)
                closedir(directory);
        return count;
}

/* A thread that looks up a name is waited for by nobody. */
static bool nothing_leaked(const struct baseline *baseline)
{
        return SOON(inject_outstanding() == baseline->outstanding && count_descriptors() == baseline->descriptors);
}

/* On a busy machine the short lease that is lent may run out: then once more. */
static int play_again(const char *place, uint32_t drive)
{
        int code = PAWL_LOST;

        for (int tries = 0; tries < 4 && code == PAWL_LOST; tries++)
                code = play(place, drive);
        return code;
}

bool is_as_before(struct baseline *baseline, const char *place, uint32_t drive)
{
        (void)nothing_leaked(baseline);
        if (!CHECK_INT(inject_outstanding(), baseline->outstanding) ||
            !CHECK_INT(count_descriptors(), baseline->descriptors) ||
            !CHECK_INT(ask_peer(baseline->witness, "check"), PAWL_OK))
                return false;
        if (++baseline->looks % baseline->replay != 0)
                return true;
        return CHECK_INT(play_again(place, drive), PAWL_OK);
}

struct baseline begin(const char *place, uint32_t drive)
{
        struct baseline baseline = {.witness = start_peer(place), .replay = 1};

        REQUIRE_INT(ask_peer(baseline.witness, "acquire witness 0 600000"), PAWL_OK);
        REQUIRE_INT(play_again(place, drive), PAWL_OK);
        baseline.descriptors = count_descriptors();
        baseline.outstanding = inject_outstanding();
        return baseline;
}

bool is_clean(int code)
{
        return code == PAWL_OK || code == PAWL_SYSTEM || code == PAWL_NO_MEMORY || code == PAWL_FULL ||
               code == PAWL_IN_DOUBT || code == PAWL_DENIED || code == PAWL_CORRUPT || code == PAWL_UNREACHABLE ||
               code == PAWL_UNSUPPORTED || code == PAWL_STUCK;
}
