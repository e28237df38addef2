/* file_place.c - one resource's files: the names, the lock, the mark, and how a file is replaced so that a crash shows the
 * old one or the new one. Everything is opened relative to the directory, and no symbolic link in it is followed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../base/name.h"
#include "file.h"

/* ---- reading ---------------------------------------------------------------------------------------------------- */

int place_open_regular(int directory, const char *name, int flags, struct stat *info)
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

int place_cannot(const struct visit *visit, int error, const char *what, const char *name)
{
        if (error == ELOOP || error == EISDIR || error == ENXIO)
                return why_set(visit->why, PAWL_INVALID, "%s in the guard's directory is not a regular file", name);
        return why_system(visit->why, error, "cannot %s %s in the guard's directory", what, name);
}

ssize_t place_read_all(int fd, char *bytes, size_t room)
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

int place_read_mark(int directory, const char *file, const char *name, const struct visit *visit, uint64_t *token,
                    uint64_t *swap)
{
        char mark[MARK_MAX];
        struct stat info = {0};
        int fd = place_open_regular(directory, file, O_RDONLY, &info);
        ssize_t size;
        int code;

        *token = 0;
        if (swap)
                *swap = 0;
        if (fd < 0)
                return errno == ENOENT ? PAWL_OK : place_cannot(visit, errno, "open", file);
        size = place_read_all(fd, mark, sizeof(mark));
        code = size < 0 ? place_cannot(visit, errno, "read", file) : mark_read(mark, (size_t)size, name, token, swap);
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

int place_sync_directory(const struct place *place)
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

/* Marks and the lock are their owner's alone; in a directory that its group may write, the group's too: its members could
 * replace them anyway, and are to use the guard. Whatever the umask, and as well as we may: the next one to come says what
 * is missing. */
static void share_with_group(int directory, int fd)
{
        struct stat around;

        if (fstat(directory, &around) != 0 || (around.st_mode & S_IWGRP) == 0)
                return;
        if (fchown(fd, (uid_t)-1, around.st_gid) == 0)
                (void)!fchmod(fd, S_IRUSR | S_IWUSR | S_IRGRP | S_IWGRP);
}

int place_prepare(const struct place *place, const char *next, const char *target, mode_t mode, const void *bytes,
                  size_t size)
{
        struct stat old;
        bool exists = fstatat(place->directory, target, &old, AT_SYMLINK_NOFOLLOW) == 0;
        int error = 0;
        int fd;

        if (exists && !S_ISREG(old.st_mode))
                return place_cannot(place->visit, ELOOP, "replace", target);
        unlinkat(place->directory, next, 0); /* what a crash left */
        fd = openat(place->directory, next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (fd < 0)
                return place_cannot(place->visit, errno, "create", next);
        if (exists)
                error = keep_access(fd, &old);
        else if ((mode & S_IROTH) == 0)
                share_with_group(place->directory, fd);
        if (error == 0)
                error = write_all(fd, bytes, size);
        close(fd);
        if (error == 0)
                return PAWL_OK;
        unlinkat(place->directory, next, 0);
        return place_cannot(place->visit, error, "write", next);
}

int place_replace(const struct place *place, const char *next, const char *target)
{
        int error;

        if (renameat(place->directory, next, place->directory, target) == 0)
                return place_sync_directory(place);
        error = errno;
        unlinkat(place->directory, next, 0);
        return place_cannot(place->visit, error, "replace", target);
}

/* ---- the lock --------------------------------------------------------------------------------------------------- */

static struct flock range_of(const char *name, short type)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        /* Two names that fall on one byte wait for one another without need: no more than that. */
        for (const char *p = name; *p; p++)
                hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
        /* The floor's byte is no resource's: who prunes has it while he locks them one by one. */
        hash = strcmp(name, FLOOR_NAME) == 0 ? UINT64_C(1) << 62 : hash >> 2;
        return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)hash, .l_len = 1};
}

static int64_t now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* The kernel's own wait has no end, and whoever has the lock may be stopped for long: so by trying. */
static int lock_range(int fd, const char *name, short type, uint32_t wait_ms)
{
        struct flock range = range_of(name, type);
        int64_t until = now_ns() + (int64_t)wait_ms * 1000000;
        int64_t pause = 50000;

        while (fcntl(fd, F_OFD_SETLK, &range) != 0) {
                struct timespec time = {.tv_nsec = pause};

                if (errno != EAGAIN && errno != EACCES && errno != EINTR)
                        return errno;
                if (now_ns() >= until)
                        return ETIMEDOUT;
                nanosleep(&time, NULL);
                pause = pause < 5000000 ? pause * 3 / 2 : pause;
        }
        return 0;
}

static int lock(struct place *place, short type, uint32_t wait_ms)
{
        int error = lock_range(place->lock, place->data, type, wait_ms);

        if (error == 0)
                return PAWL_OK;
        close(place->lock);
        if (error == ETIMEDOUT)
                return why_set(place->visit->why, PAWL_TIMEOUT,
                               "another process has been inside \"%s\" for %u ms: is it stopped?",
                               place->visit->resource, wait_ms);
        return place_cannot(place->visit, error, "lock", LOCK_FILE);
}

/* First without O_CREAT, which fs.protected_regular forbids for another user's file in some directories. */
static int open_lock(const struct place *place)
{
        struct stat info = {0};
        int fd = place_open_regular(place->directory, LOCK_FILE, O_RDWR, &info);

        if (fd >= 0 || errno != ENOENT)
                return fd;
        fd = place_open_regular(place->directory, LOCK_FILE, O_RDWR | O_CREAT | O_EXCL, &info);
        if (fd < 0 && errno == EEXIST)
                return place_open_regular(place->directory, LOCK_FILE, O_RDWR, &info);
        if (fd >= 0)
                share_with_group(place->directory, fd);
        return fd;
}

int place_lock(struct place *place, uint32_t wait_ms)
{
        place->lock = open_lock(place);
        if (place->lock < 0)
                return place_cannot(place->visit, errno, "open", LOCK_FILE);
        return lock(place, F_WRLCK, wait_ms);
}

int place_lock_to_read(struct place *place, uint32_t wait_ms)
{
        struct stat info = {0};
        int error;

        place->lock = open_lock(place);
        if (place->lock >= 0)
                return lock(place, F_WRLCK, wait_ms); /* not shared: readers that come and go would keep writers out */
        error = errno;
        if (error == EACCES || error == EPERM || error == EROFS)
                place->lock = place_open_regular(place->directory, LOCK_FILE, O_RDONLY, &info);
        if (place->lock < 0)
                return place_cannot(place->visit, error, "open", LOCK_FILE);
        return lock(place, F_RDLCK, wait_ms);
}

void place_leave(struct place *place)
{
        struct flock range = range_of(place->data, F_UNLCK);

        fcntl(place->lock, F_OFD_SETLK, &range); /* a child forked meanwhile shares the descriptor, and would keep it */
        close(place->lock);
}

int place_name(pawl_guard *guard, const struct visit *visit, struct place *place)
{
        char encoded[NAME_ENCODED_MAX + 1];
        size_t length = name_encode(visit->resource, visit->length, NULL, encoded);

        place->directory = directory_of(guard);
        place->visit = visit;
        if (length > FILE_NAME_MAX)
                return why_set(visit->why, PAWL_INVALID,
                               "the resource's name is too long for a file: encoded it has %zu bytes, and may have %d",
                               length, FILE_NAME_MAX);
        memcpy(place->data, encoded, length + 1);
        snprintf(place->mark, sizeof(place->mark), ".%s" MARK_END, place->data);
        snprintf(place->next_data, sizeof(place->next_data), ".%s" NEXT_DATA_END, place->data);
        snprintf(place->next_mark, sizeof(place->next_mark), ".%s" MARK_END NEXT_MARK_END, place->data);
        return PAWL_OK;
}

void place_name_floor(pawl_guard *guard, const struct visit *visit, struct place *place)
{
        *place = (struct place){.directory = directory_of(guard),
                                .visit = visit,
                                .data = FLOOR_NAME,
                                .mark = FLOOR_FILE,
                                .next_mark = FLOOR_FILE NEXT_MARK_END};
}

/* ---- the mark -------------------------------------------------------------------------------------------------------- */

int place_raise_mark(const struct place *place)
{
        char mark[MARK_MAX];
        size_t size;
        int code;

        if (place->visit->token == place->token)
                return place_sync_directory(place); /* who renamed it may have been killed before this */
        size = mark_write(place->data, place->visit->token, place->swap, mark);
        code = place_prepare(place, place->next_mark, place->mark, S_IRUSR | S_IWUSR, mark, size);
        return code == PAWL_OK ? place_replace(place, place->next_mark, place->mark) : code;
}
