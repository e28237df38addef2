/* file.c - a guard for files in one directory.
 *
 *   NAME             the data
 *   .NAME.pawl       the mark: the greatest token admitted (mark.c)
 *   .NAME.new        the next data, and
 *   .NAME.pawl-new   the next mark, being written; what a crash left of them is overwritten
 *   .pawl.lock       for all resources: each locks a byte of its own, so that the lock outlives every replaced file
 *   .pawl.floor      what a prune left: the least token for resources that have no mark
 *
 * A put, all of it under the resource's lock: write the next data and fsync; write the next mark and fsync; rename the
 * mark; fsync the directory; rename the data; fsync the directory. So the mark is never behind the data. NAME does not
 * begin with a dot (base/name.h), so that no resource is another's mark. file_place.c has the files of one resource,
 * file_list.c and file_examine.c look at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"

enum { DEFAULT_WAIT_MS = 10000 };

/* Locks the resource, and refuses a stale token. Nothing is written yet. */
static int enter(pawl_guard *guard, const struct visit *visit, struct place *place)
{
        uint64_t floor = 0;
        int code = place_name(guard, visit, place);

        if (code != PAWL_OK)
                return code;
        code = place_lock(place, files_of(guard)->wait_ms);
        if (code != PAWL_OK)
                return code;
        place->swap = 0; /* what is admitted here is no swap's */
        code = place_read_mark(place->directory, place->mark, place->data, visit, &place->token, NULL);
        /* With the lock: who pruned a mark away had raised the floor before. */
        if (code == PAWL_OK && place->token == 0)
                code = place_read_floor(place->directory, visit, &floor);
        if (code == PAWL_OK && visit->token < place->token)
                code = guard_stale(visit, place->token);
        if (code == PAWL_OK && visit->token < floor)
                code = guard_below_floor(visit, floor);
        if (code != PAWL_OK)
                place_leave(place);
        return code;
}

/* ---- the operations --------------------------------------------------------------------------------------------- */

static int file_admit(pawl_guard *guard, const struct visit *visit)
{
        struct place place;
        int code = enter(guard, visit, &place);

        if (code != PAWL_OK)
                return code;
        code = place_raise_mark(&place);
        place_leave(&place);
        return code;
}

static int put(const struct place *place, const void *data, size_t size)
{
        const mode_t open_to_all = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH; /* but for the umask */
        int code = place_prepare(place, place->next_data, place->data, open_to_all, data, size);

        if (code != PAWL_OK)
                return code;
        code = place_raise_mark(place);
        if (code == PAWL_OK)
                return place_replace(place, place->next_data, place->data);
        unlinkat(place->directory, place->next_data, 0);
        return code;
}

static int file_put(pawl_guard *guard, const struct visit *visit, const void *data, size_t size)
{
        struct place place;
        int code = enter(guard, visit, &place);

        if (code != PAWL_OK)
                return code;
        code = put(&place, data, size);
        place_leave(&place);
        return code;
}

static int read_data(const struct place *place, struct pawl_guard_data *data)
{
        struct stat info = {0};
        int fd = place_open_regular(place->directory, place->data, O_RDONLY, &info);
        char *bytes;
        ssize_t size;

        if (fd < 0 && errno == ENOENT)
                return guard_no_data(place->visit);
        if (fd < 0)
                return place_cannot(place->visit, errno, "open", place->data);
        bytes = malloc((size_t)info.st_size + 1);
        size = bytes ? place_read_all(fd, bytes, (size_t)info.st_size) : -1;
        close(fd);
        if (size < 0) {
                free(bytes);
                return place_cannot(place->visit, errno, "read", place->data);
        }
        bytes[size] = 0;
        *data = (struct pawl_guard_data){bytes, (size_t)size, place->token};
        return PAWL_OK;
}

static int file_get(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        struct place place;
        int code = enter(guard, visit, &place);

        if (code != PAWL_OK)
                return code;
        code = place_raise_mark(&place);
        if (code == PAWL_OK)
                code = read_data(&place, data);
        place_leave(&place);
        return code;
}

static int file_forget(pawl_guard *guard, const struct visit *visit)
{
        struct place place;
        int code = enter(guard, visit, &place);

        if (code != PAWL_OK)
                return code;
        if (place.token == 0)
                code = why_set(visit->why, PAWL_NOT_FOUND, "no token is known for \"%s\"", visit->resource);
        else if (unlinkat(place.directory, place.mark, 0) != 0)
                code = place_cannot(visit, errno, "remove", place.mark);
        else
                code = place_sync_directory(&place);
        place_leave(&place);
        return code;
}

/* ---- versions --------------------------------------------------------------------------------------------------- */

/* The mark, or the floor where there is none. With the lock. */
static int read_version(struct place *place)
{
        int code =
                place_read_mark(place->directory, place->mark, place->data, place->visit, &place->token, &place->swap);

        if (code == PAWL_OK && place->token == 0)
                code = place_read_floor(place->directory, place->visit, &place->token);
        return code;
}

/* With the lock: a put raises the mark first, and between the two the version of the old data is not known. */
static int file_look(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        struct place place;
        int code = place_name(guard, visit, &place);

        if (code == PAWL_OK)
                code = place_lock_to_read(&place, files_of(guard)->wait_ms);
        if (code != PAWL_OK)
                return code;
        code = place_sync_directory(&place); /* who wrote it may have been killed before this */
        if (code == PAWL_OK)
                code = read_version(&place);
        if (code == PAWL_OK) {
                data->token = place.token;
                code = read_data(&place, data);
        }
        place_leave(&place);
        return code;
}

/* With the lock. The mark names the swap before the data are there: one that finds itself named, and was killed between the
 * two or not, writes its data again. */
static int swap_data(struct place *place, const struct guard_swap *swap)
{
        const struct visit *visit = place->visit;
        int code = read_version(place);

        if (code != PAWL_OK)
                return code;
        if (place->token != guard_expected(visit) && (place->token != visit->token || place->swap != swap->id))
                return guard_moved(visit, swap, place->token);
        place->swap = swap->id;
        return put(place, swap->data, swap->size);
}

static int file_swap(pawl_guard *guard, const struct visit *visit, const struct guard_swap *swap)
{
        struct place place;
        int code = place_name(guard, visit, &place);

        if (code == PAWL_OK)
                code = place_lock(&place, files_of(guard)->wait_ms);
        if (code != PAWL_OK)
                return code;
        code = swap_data(&place, swap);
        place_leave(&place);
        return code;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static int file_open(pawl_guard *guard, const struct url *url, const struct pawl_guard_options *options)
{
        static const char *const no_options[] = {NULL};
        struct files *files = files_of(guard);
        int code = url_only(url, no_options, options->why);
        int fd;

        if (code != PAWL_OK)
                return code;
        if (url->host_count > 0)
                return why_set(options->why, PAWL_INVALID,
                               "a file: URL has no host: write file:/DIRECTORY with one slash");
        if (!*url->path)
                return why_set(options->why, PAWL_INVALID, "a file: URL needs a directory: write file:/DIRECTORY");
        files->path = strdup(url->path);
        if (!files->path)
                return why_set(options->why, PAWL_NO_MEMORY, "no memory for the guard");
        fd = open(url->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return why_set(options->why, PAWL_NOT_FOUND, "there is no directory %s: make it first", url->path);
        if (fd < 0)
                return why_system(options->why, errno, "cannot open the guard's directory %s", url->path);
        files->directory = fd + 1;
        files->wait_ms = options->wait_ms ? options->wait_ms : DEFAULT_WAIT_MS;
        return PAWL_OK;
}

static void file_close(pawl_guard *guard)
{
        if (files_of(guard)->directory > 0)
                close(directory_of(guard));
        free(files_of(guard)->path);
}

const struct guard_ops file_guard = {
        .size = sizeof(struct files),
        .open = file_open,
        .close = file_close,
        .admit = file_admit,
        .put = file_put,
        .get = file_get,
        .forget = file_forget,
        .list = file_list,
        .prune = file_prune,
        .examine = file_examine,
        .look = file_look,
        .swap = file_swap,
};
