/* file.c - a guard for files in one directory.
 *
 *   NAME             the data
 *   .NAME.pawl       the mark: the greatest token admitted (mark.c)
 *   .NAME.new        the next data, and
 *   .NAME.pawl-new   the next mark, being written; what a crash left of them is overwritten
 *   .pawl.lock       for all resources: each locks a byte of its own, so that the lock outlives every replaced file
 *
 * A put, all of it under the resource's lock: write the next data and fsync; write the next mark and fsync; rename the
 * mark; fsync the directory; rename the data; fsync the directory. So the mark is never behind the data. NAME does not
 * begin with a dot (base/name.h), so that no resource is another's mark. Everything is opened relative to the directory,
 * and no symbolic link in it is followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../base/name.h"
#include "guard.h"
#include "mark.h"

enum { FILE_NAME_MAX = 200, DEFAULT_WAIT_MS = 10000 };

#define LOCK_FILE ".pawl.lock"
#define MARK_END ".pawl"

struct files {
        pawl_guard guard;
        int directory; /* plus one: 0 is none */
        uint32_t wait_ms;
};

/* One resource, locked. */
struct place {
        int directory;
        int lock;
        uint64_t token; /* the greatest admitted so far; 0: none */
        const struct visit *visit;
        char data[FILE_NAME_MAX + 1];
        char mark[FILE_NAME_MAX + 16];
        char next_data[FILE_NAME_MAX + 16];
        char next_mark[FILE_NAME_MAX + 16];
};

static struct files *files_of(pawl_guard *guard)
{
        return (struct files *)guard;
}

static int directory_of(pawl_guard *guard)
{
        return files_of(guard)->directory - 1;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* A regular file of the directory, or -1 and an errno; ELOOP for anything that is not one. */
static int open_regular(int directory, const char *name, int flags, struct stat *info)
{
        /* O_NONBLOCK: opening a FIFO must not wait before it can be refused. */
        int fd = openat(directory, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, S_IRUSR | S_IWUSR);
        int error;

        if (fd < 0)
                return -1;
        error = fstat(fd, info) == 0 ? 0 : errno;
        if (error == 0 && S_ISREG(info->st_mode))
                return fd;
        if (error == 0)
                error = ELOOP;
        close(fd);
        errno = error;
        return -1;
}

static int cannot(const struct visit *visit, int error, const char *what, const char *name)
{
        if (error == ELOOP || error == EISDIR || error == ENXIO)
                return why_set(visit->why, PAWL_INVALID, "%s in the guard's directory is not a regular file", name);
        return why_system(visit->why, error, "cannot %s %s in the guard's directory", what, name);
}

/* Up to room bytes. The size, or -1 and errno. */
static ssize_t read_all(int fd, char *bytes, size_t room)
{
        size_t size = 0;

        while (size < room) {
                ssize_t n = read(fd, bytes + size, room - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -1;
                if (n == 0)
                        break;
                size += (size_t)n;
        }
        return (ssize_t)size;
}

/* No mark yet is token 0. Everything else that is not a whole mark is an error: never a pass. */
static int read_mark(int directory, const char *file, const char *name, const struct visit *visit, uint64_t *token)
{
        char mark[MARK_MAX];
        struct stat info = {0};
        int fd = open_regular(directory, file, O_RDONLY, &info);
        ssize_t size;
        int code;

        *token = 0;
        if (fd < 0)
                return errno == ENOENT ? PAWL_OK : cannot(visit, errno, "open", file);
        size = read_all(fd, mark, sizeof(mark));
        code = size < 0 ? cannot(visit, errno, "read", file) : mark_read(mark, (size_t)size, name, token);
        close(fd);
        if (code == PAWL_CORRUPT)
                return why_set(
                        visit->why, code,
                        "the mark %s is damaged: the greatest token it admitted is unknown; restore it, or remove it "
                        "when no older holder can be left",
                        file);
        if (code == PAWL_OTHER_VERSION)
                return why_set(visit->why, code, "the mark %s was written by another version of pawl", file);
        return code;
}

/* ---- replacing -------------------------------------------------------------------------------------------------- */

static int sync_directory(const struct place *place)
{
        /* Some file systems have nothing to sync there, and say EINVAL. */
        if (fsync(place->directory) == 0 || errno == EINVAL)
                return PAWL_OK;
        return why_system(place->visit->why, errno,
                          "the guard's directory cannot be written to the disk: what was just "
                          "done may not survive a crash");
}

static int write_all(int fd, const char *bytes, size_t size)
{
        for (size_t done = 0; done < size;) {
                ssize_t n = write(fd, bytes + done, size - done);

                if (n < 0 && errno != EINTR)
                        return errno;
                if (n > 0)
                        done += (size_t)n;
        }
        return fsync(fd) == 0 ? 0 : errno;
}

/* The new file is as open to others as the one it replaces, and belongs to the same, where we may say so. */
static int keep_access(int fd, const struct stat *old)
{
        if (fchown(fd, old->st_uid, old->st_gid) != 0 && errno != EPERM)
                return errno;
        return fchmod(fd, old->st_mode & (S_IRWXU | S_IRWXG | S_IRWXO)) == 0 ? 0 : errno;
}

/* Writes the file that will replace target. */
static int prepare(const struct place *place, const char *next, const char *target, mode_t mode, const void *bytes,
                   size_t size)
{
        struct stat old;
        bool exists = fstatat(place->directory, target, &old, AT_SYMLINK_NOFOLLOW) == 0;
        int error = 0;
        int fd;

        if (exists && !S_ISREG(old.st_mode))
                return cannot(place->visit, ELOOP, "replace", target);
        unlinkat(place->directory, next, 0); /* what a crash left */
        fd = openat(place->directory, next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0)
                return cannot(place->visit, errno, "create", next);
        if (exists)
                error = keep_access(fd, &old);
        if (error == 0)
                error = write_all(fd, bytes, size);
        close(fd);
        if (error == 0)
                return PAWL_OK;
        unlinkat(place->directory, next, 0);
        return cannot(place->visit, error, "write", next);
}

static int replace(const struct place *place, const char *next, const char *target)
{
        int error;

        if (renameat(place->directory, next, place->directory, target) == 0)
                return sync_directory(place);
        error = errno;
        unlinkat(place->directory, next, 0);
        return cannot(place->visit, error, "replace", target);
}

/* ---- the lock --------------------------------------------------------------------------------------------------- */

static struct flock range_of(const char *name, short type)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        /* Two names that fall on one byte wait for one another without need: no more than that. */
        for (; *name; name++)
                hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
        return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(hash >> 2), .l_len = 1};
}

/* The kernel's own wait has no end, and whoever has the lock may be stopped for long: so by trying. */
static int lock_range(int fd, const char *name, uint32_t wait_ms)
{
        struct flock range = range_of(name, F_WRLCK);
        int64_t left = (int64_t)wait_ms * 1000000;
        int64_t pause = 50000;

        while (fcntl(fd, F_OFD_SETLK, &range) != 0) {
                struct timespec time = {.tv_nsec = pause};

                if (errno != EAGAIN && errno != EACCES && errno != EINTR)
                        return errno;
                if (left <= 0)
                        return ETIMEDOUT;
                nanosleep(&time, NULL);
                left -= pause;
                pause = pause < 5000000 ? pause * 3 / 2 : pause;
        }
        return 0;
}

static int lock(struct place *place, uint32_t wait_ms)
{
        struct stat info = {0};
        int error;

        place->lock = open_regular(place->directory, LOCK_FILE, O_RDWR | O_CREAT, &info);
        if (place->lock < 0)
                return cannot(place->visit, errno, "open", LOCK_FILE);
        error = lock_range(place->lock, place->data, wait_ms);
        if (error == 0)
                return PAWL_OK;
        close(place->lock);
        if (error == ETIMEDOUT)
                return why_set(place->visit->why, PAWL_TIMEOUT,
                               "another process has been inside \"%s\" for %u ms: is it stopped?",
                               place->visit->resource, wait_ms);
        return cannot(place->visit, error, "lock", LOCK_FILE);
}

static void leave(struct place *place)
{
        struct flock range = range_of(place->data, F_UNLCK);

        fcntl(place->lock, F_OFD_SETLK, &range); /* a child forked meanwhile shares the descriptor, and would keep it */
        close(place->lock);
}

static int name_files(struct place *place)
{
        char encoded[NAME_ENCODED_MAX + 1];
        size_t length = name_encode(place->visit->resource, place->visit->length, NULL, encoded);

        if (length > FILE_NAME_MAX)
                return why_set(place->visit->why, PAWL_INVALID,
                               "the resource's name is too long for a file: encoded it has %zu bytes, and may have %d",
                               length, FILE_NAME_MAX);
        memcpy(place->data, encoded, length + 1);
        snprintf(place->mark, sizeof(place->mark), ".%s" MARK_END, place->data);
        snprintf(place->next_data, sizeof(place->next_data), ".%s.new", place->data);
        snprintf(place->next_mark, sizeof(place->next_mark), ".%s" MARK_END "-new", place->data);
        return PAWL_OK;
}

/* Locks the resource, and refuses a stale token. Nothing is written yet. */
static int enter(pawl_guard *guard, const struct visit *visit, struct place *place)
{
        int code;

        place->directory = directory_of(guard);
        place->visit = visit;
        code = name_files(place);
        if (code != PAWL_OK)
                return code;
        code = lock(place, files_of(guard)->wait_ms);
        if (code != PAWL_OK)
                return code;
        code = read_mark(place->directory, place->mark, place->data, visit, &place->token);
        if (code == PAWL_OK && visit->token < place->token)
                code = guard_stale(visit, place->token);
        if (code != PAWL_OK)
                leave(place);
        return code;
}

/* Makes the visit's token the greatest, on the disk. */
static int raise_mark(const struct place *place)
{
        char mark[MARK_MAX];
        size_t size;
        int code;

        if (place->visit->token == place->token)
                return sync_directory(place); /* who renamed it may have been killed before this */
        size = mark_write(place->data, place->visit->token, mark);
        code = prepare(place, place->next_mark, place->mark, S_IRUSR | S_IWUSR, mark, size);
        return code == PAWL_OK ? replace(place, place->next_mark, place->mark) : code;
}

/* ---- the operations --------------------------------------------------------------------------------------------- */

static int file_admit(pawl_guard *guard, const struct visit *visit)
{
        struct place place;
        int code = enter(guard, visit, &place);

        if (code != PAWL_OK)
                return code;
        code = raise_mark(&place);
        leave(&place);
        return code;
}

static int put(const struct place *place, const void *data, size_t size)
{
        const mode_t open_to_all = S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH; /* but for the umask */
        int code = prepare(place, place->next_data, place->data, open_to_all, data, size);

        if (code != PAWL_OK)
                return code;
        code = raise_mark(place);
        if (code == PAWL_OK)
                return replace(place, place->next_data, place->data);
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
        leave(&place);
        return code;
}

static int read_data(const struct place *place, struct pawl_guard_data *data)
{
        struct stat info = {0};
        int fd = open_regular(place->directory, place->data, O_RDONLY, &info);
        char *bytes;
        ssize_t size;

        if (fd < 0 && errno == ENOENT)
                return why_set(place->visit->why, PAWL_NOT_FOUND, "there are no data for \"%s\" yet",
                               place->visit->resource);
        if (fd < 0)
                return cannot(place->visit, errno, "open", place->data);
        bytes = malloc((size_t)info.st_size + 1);
        size = bytes ? read_all(fd, bytes, (size_t)info.st_size) : -1;
        close(fd);
        if (size < 0) {
                free(bytes);
                return cannot(place->visit, errno, "read", place->data);
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
        code = raise_mark(&place);
        if (code == PAWL_OK)
                code = read_data(&place, data);
        leave(&place);
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
                code = cannot(visit, errno, "remove", place.mark);
        else
                code = sync_directory(&place);
        leave(&place);
        return code;
}

/* ---- listing ---------------------------------------------------------------------------------------------------- */

/* .NAME.pawl: the resource it is the mark of. */
static bool resource_of(const char *file, char *name, char *resource)
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

static int list_stream(pawl_guard *guard, DIR *stream, const char *prefix, pawl_guard_entry_fn *fn, void *arg)
{
        const struct visit quiet = {.why = NULL};
        char name[FILE_NAME_MAX + 1];
        char resource[PAWL_NAME_MAX + 1];
        int ended = 0;

        for (const struct dirent *file; !ended && (file = readdir(stream));) {
                struct pawl_guard_entry entry = {.resource = resource};

                if (!resource_of(file->d_name, name, resource) || strncmp(resource, prefix, strlen(prefix)) != 0)
                        continue;
                entry.code = read_mark(directory_of(guard), file->d_name, name, &quiet, &entry.token);
                if (entry.code != PAWL_OK || entry.token > 0) /* 0: forgotten meanwhile */
                        ended = fn(&entry, arg);
        }
        return PAWL_OK;
}

static int file_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why)
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
        code = list_stream(guard, stream, prefix, fn, arg);
        closedir(stream);
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
};
