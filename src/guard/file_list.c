/* file_list.c - all resources of the guard for files: listed, and pruned. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../base/name.h"
#include "file.h"

bool file_is_mark(const char *file, char name[FILE_NAME_MAX + 1], char resource[PAWL_NAME_MAX + 1])
{
        size_t size = strlen(file);
        size_t length;

        if (file[0] != '.' || size <= strlen(MARK_END) + 1 || strcmp(file + size - strlen(MARK_END), MARK_END) != 0)
                return false;
        size -= strlen(MARK_END) + 1;
        if (size > FILE_NAME_MAX || name_decode(file + 1, size, NULL, resource, &length) != PAWL_OK)
                return false;
        memcpy(name, file + 1, size);
        name[size] = 0;
        return true;
}

int file_each(pawl_guard *guard, file_name_fn *fn, void *arg, struct pawl_why *why)
{
        int fd = openat(directory_of(guard), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a position of its own */
        DIR *stream = fd < 0 ? NULL : fdopendir(fd);
        int code;

        if (!stream) {
                code = why_system(why, errno, "cannot list the guard's directory");
                if (fd >= 0)
                        close(fd);
                return code;
        }
        for (const struct dirent *file; (file = readdir(stream)) && fn(file->d_name, arg) == 0;)
                ;
        closedir(stream);
        return PAWL_OK;
}

/* ---- listing ---------------------------------------------------------------------------------------------------- */

struct listing {
        pawl_guard *guard;
        const char *prefix;
        pawl_guard_entry_fn *fn;
        void *arg;
};

static int list_one(const char *file, void *arg)
{
        const struct visit quiet = {.why = NULL};
        const struct listing *listing = arg;
        char name[FILE_NAME_MAX + 1];
        char resource[PAWL_NAME_MAX + 1];
        struct pawl_guard_entry entry = {.resource = resource};

        if (!file_is_mark(file, name, resource) || strncmp(resource, listing->prefix, strlen(listing->prefix)) != 0)
                return 0;
        entry.code = place_read_mark(directory_of(listing->guard), file, name, &quiet, &entry.token, NULL);
        if (entry.code == PAWL_OK && entry.token == 0)
                return 0; /* forgotten meanwhile */
        return listing->fn(&entry, listing->arg);
}

int file_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why)
{
        struct listing listing = {guard, prefix, fn, arg};

        return file_each(guard, list_one, &listing, why);
}

/* ---- pruning ---------------------------------------------------------------------------------------------------- */

struct pruning {
        pawl_guard *guard;
        uint64_t floor;
        struct pawl_why *why;
        uint64_t count;
        int code; /* of the first mark that could not be judged, and stays */
};

/* With the lock. Nobody is writing what lies beside it: it was left by a crash. */
static int remove_mark(const struct place *place)
{
        unlinkat(place->directory, place->next_data, 0);
        unlinkat(place->directory, place->next_mark, 0);
        if (unlinkat(place->directory, place->mark, 0) != 0)
                return place_cannot(place->visit, errno, "remove", place->mark);
        return PAWL_OK;
}

static int prune_resource(struct pruning *pruning, const char *resource)
{
        struct visit visit = {resource, strlen(resource), pruning->floor, pruning->why};
        struct place place;
        int code = place_name(pruning->guard, &visit, &place);

        if (code == PAWL_OK)
                code = place_lock(&place, files_of(pruning->guard)->wait_ms);
        if (code != PAWL_OK)
                return code;
        code = place_read_mark(place.directory, place.mark, place.data, &visit, &place.token, NULL);
        if (code == PAWL_OK && place.token > 0 && place.token <= pruning->floor) {
                code = remove_mark(&place);
                pruning->count += code == PAWL_OK;
        }
        place_leave(&place);
        return code;
}

static int prune_one(const char *file, void *arg)
{
        struct pruning *pruning = arg;
        const struct visit quiet = {.why = NULL};
        char name[FILE_NAME_MAX + 1];
        char resource[PAWL_NAME_MAX + 1];
        uint64_t token = 0;
        int code;

        if (!file_is_mark(file, name, resource))
                return 0;
        /* First without the lock: most marks of a busy store are above the floor, and marks only grow. */
        code = place_read_mark(directory_of(pruning->guard), file, name, &quiet, &token, NULL);
        if (code == PAWL_OK && (token == 0 || token > pruning->floor))
                return 0;
        code = prune_resource(pruning, resource);
        if (pruning->code == PAWL_OK)
                pruning->code = code;
        return code != PAWL_OK && code != PAWL_CORRUPT && code != PAWL_OTHER_VERSION;
}

/* The floor first, and on the disk, before any mark goes: whoever finds none reads it. */
static int raise_floor(struct place *place)
{
        uint64_t known = 0;
        int code = place_read_floor(place->directory, place->visit, &known);

        if (code != PAWL_OK)
                return code;
        if (known > place->visit->token)
                return PAWL_OK; /* it never goes down */
        place->token = known;
        return place_raise_mark(place);
}

int file_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why, uint64_t *pruned)
{
        const struct visit visit = {"the floor", strlen("the floor"), floor, why};
        struct pruning pruning = {.guard = guard, .floor = floor, .why = why};
        struct place place;
        int code;

        place_name_floor(guard, &visit, &place);
        code = place_lock(&place, files_of(guard)->wait_ms);
        if (code != PAWL_OK)
                return code;
        code = raise_floor(&place);
        if (code == PAWL_OK)
                code = file_each(guard, prune_one, &pruning, why);
        if (code == PAWL_OK)
                code = pruning.code;
        if (code == PAWL_OK)
                code = place_sync_directory(&place);
        place_leave(&place);
        *pruned = pruning.count;
        return code;
}
