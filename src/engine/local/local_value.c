/* local_value.c - the files that hold the bytes kept beside locks: what is in them, where they are, how they are
 * replaced and swept. Who may do that, and when, is local_keep.c's.
 *
 *   values/new.ID.N        being prepared by the process with that identity
 *   values/3f/8a...        a value: its head, the name, the data. The place is the name's SHA-256, so that no name is
 *                          too long for it, or leads anywhere else
 *
 * A value is replaced by renaming a file that is whole and on disk: whoever dies on the way leaves the old one or the
 * new. One that is kept for a moment only is not worth a sync: it counts in this boot and in no other, whatever a power
 * cut left of it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../base/sha256.h"
#include "local.h"

static const char magic[8] = {'p', 'a', 'w', 'l', '-', 'v', 'a', 'l'};

enum {
        VALUE_VERSION = 1,
        SWEEP_WINDOW = 64 /* how many files one sweep looks into */
};

struct value_head {
        char magic[8];
        uint32_t version;
        uint32_t name_length;
        uint64_t size;
        uint64_t token;
        int64_t stored_us;
        int64_t until_us; /* 0: until it is replaced */
        uint64_t boot;    /* in which it was written */
        uint64_t check;   /* of everything, with 0 in its own place */
};
_Static_assert(sizeof(struct value_head) == 64, "layout");
_Static_assert(sizeof(struct value_head) + PAWL_NAME_MAX + PAWL_VALUE_MAX <= VALUE_FILE_MAX, "the greatest one fits");

int64_t value_now_us(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts); /* what is kept outlives the boot, and with it every other clock */
        return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void value_place(const char *name, struct value_place *place)
{
        unsigned char digest[SHA256_SIZE];

        sha256(name, strlen(name), digest);
        place->stripe = digest[0];
        snprintf(place->directory, sizeof(place->directory), "%02x", digest[0]);
        for (int i = 1; i < SHA256_SIZE; i++)
                snprintf(place->file + 2 * (i - 1), 3, "%02x", digest[i]);
}

/* ---- what is in a file ------------------------------------------------------------------------------------------- */

static uint64_t check_of(const void *bytes, size_t size)
{
        unsigned char digest[SHA256_SIZE];
        uint64_t check;

        sha256(bytes, size, digest);
        memcpy(&check, digest, sizeof(check));
        return check;
}

uint64_t value_boot(const struct local *local)
{
        return check_of(local->header->boot_id, sizeof(local->header->boot_id));
}

size_t value_write(const char *name, const struct pawl_value *value, int64_t until_us, uint64_t boot, void *bytes)
{
        struct value_head head = {.version = VALUE_VERSION,
                                  .name_length = (uint32_t)strlen(name),
                                  .size = value->size,
                                  .token = value->token,
                                  .stored_us = value->stored_us,
                                  .until_us = until_us,
                                  .boot = boot};
        char *text = (char *)bytes + sizeof(head);
        size_t size = sizeof(head) + head.name_length + value->size;

        memcpy(head.magic, magic, sizeof(magic));
        memcpy(bytes, &head, sizeof(head));
        memcpy(text, name, head.name_length);
        memcpy(text + head.name_length, value->data, value->size);
        head.check = check_of(bytes, size);
        memcpy(bytes, &head, sizeof(head));
        return size;
}

static bool makes_sense(const struct value_head *head, size_t size)
{
        return head->name_length >= 1 && head->name_length <= PAWL_NAME_MAX && head->size >= 1 &&
               head->size <= PAWL_VALUE_MAX && size == sizeof(*head) + head->name_length + head->size &&
               head->token > 0 && head->token <= INT64_MAX && head->stored_us >= 0 && head->until_us >= 0;
}

/* check_of, with the check itself as it was then: without a copy of what may be long. */
static bool is_whole(void *bytes, size_t size, const struct value_head *head)
{
        struct value_head unchecked = *head;
        bool whole;

        unchecked.check = 0;
        memcpy(bytes, &unchecked, sizeof(unchecked));
        whole = check_of(bytes, size) == head->check;
        memcpy(bytes, head, sizeof(*head));
        return whole;
}

static int read_head(const void *bytes, size_t size, struct value_head *head)
{
        if (size < sizeof(*head))
                return PAWL_CORRUPT;
        memcpy(head, bytes, sizeof(*head));
        if (memcmp(head->magic, magic, sizeof(magic)) != 0)
                return PAWL_CORRUPT;
        return head->version == VALUE_VERSION ? PAWL_OK : PAWL_OTHER_VERSION;
}

/* Not synced, and the machine went down since. */
static bool is_of_another_boot(const struct value_head *head, uint64_t boot)
{
        return head->boot != boot && value_is_brief(head->stored_us, head->until_us);
}

static bool is_over(const struct value_head *head, uint64_t boot, int64_t now_us)
{
        return (head->until_us != 0 && head->until_us <= now_us) || is_of_another_boot(head, boot);
}

int value_read(void *bytes, size_t size, const char *name, uint64_t boot, int64_t now_us, struct pawl_value *value)
{
        struct value_head head;
        char *text = (char *)bytes + sizeof(head);
        int code = size == 0 ? PAWL_NOT_FOUND : read_head(bytes, size, &head);

        if (code != PAWL_OK)
                return code;
        if (is_of_another_boot(&head, boot))
                return PAWL_NOT_FOUND; /* before the rest is looked at: it need not be whole */
        if (!makes_sense(&head, size) || !is_whole(bytes, size, &head) || strlen(name) != head.name_length ||
            memcmp(name, text, head.name_length) != 0)
                return PAWL_CORRUPT;
        if (is_over(&head, boot, now_us))
                return PAWL_NOT_FOUND;
        *value = (struct pawl_value){.data = text + head.name_length,
                                     .size = head.size,
                                     .token = head.token,
                                     .stored_us = head.stored_us,
                                     .now_us = now_us};
        return PAWL_OK;
}

/* ---- preparing one ----------------------------------------------------------------------------------------------- */

static int write_whole(const struct local *local, int fd, const char *bytes, size_t size, bool brief,
                       struct pawl_why *why)
{
        struct rlimit limit;

        /* Not tried: it would raise SIGXFSZ, which ends the program. */
        if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
                return why_set(why, PAWL_FULL,
                               "files may not be larger than %llu bytes here (ulimit -f), this needs %zu",
                               (unsigned long long)limit.rlim_cur, size);
        while (size > 0) {
                ssize_t written = write(fd, bytes, size);

                if (written < 0 && errno == EINTR)
                        continue;
                if (written < 0)
                        return why_system(why, errno, "cannot write a value to %s", local->path);
                bytes += written;
                size -= (size_t)written;
        }
        if (!brief && fsync(fd) != 0)
                return why_system(why, errno, "cannot write a value in %s to disk", local->path);
        return PAWL_OK;
}

/* One that exists already was left by a process of an earlier boot: nobody else alive has our identity. */
static int open_temporary(struct local *local, int values, char name[32], int *fd, struct pawl_why *why)
{
        int flags = O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC;

        snprintf(name, 32, "new.%x.%x", (unsigned)local->id, (unsigned)local->temporaries++);
        *fd = openat(values, name, flags, 0600);
        if (*fd < 0 && errno == EEXIST && unlinkat(values, name, 0) == 0)
                *fd = openat(values, name, flags, 0600);
        if (*fd < 0)
                return why_system(why, errno, "cannot make a file in %s/values", local->path);
        file_share(local, *fd, 0660);
        return PAWL_OK;
}

int value_prepare(struct local *local, const char *name, const struct pawl_value *value, int64_t until_us,
                  char temporary[32], struct pawl_why *why)
{
        char *bytes = malloc(VALUE_FILE_MAX);
        size_t size = 0;
        int values = -1;
        int fd = -1;
        int code;

        temporary[0] = '\0';
        if (bytes == NULL)
                return why_set(why, PAWL_NO_MEMORY, "no memory");
        code = file_open_values(local, true, &values, why);
        if (code == PAWL_OK)
                code = open_temporary(local, values, temporary, &fd, why);
        hook(local, 60);
        if (code == PAWL_OK)
                size = value_write(name, value, until_us, value_boot(local), bytes);
        if (code == PAWL_OK)
                code = write_whole(local, fd, bytes, size, value_is_brief(value->stored_us, until_us), why);
        hook(local, 61);
        if (fd >= 0 && code != PAWL_OK)
                (void)unlinkat(values, temporary, 0);
        if (fd >= 0)
                close(fd);
        if (values >= 0)
                close(values);
        free(bytes);
        return code;
}

void value_discard(struct local *local, const char *temporary)
{
        struct pawl_why why;
        int values = -1;

        if (temporary[0] != '\0' && file_open_values(local, false, &values, &why) == PAWL_OK)
                (void)unlinkat(values, temporary, 0);
        if (values >= 0)
                close(values);
}

/* ---- its place --------------------------------------------------------------------------------------------------- */

/* The directories of a place; the stripe is ours if they are to be made. */
static int open_place(struct local *local, const struct value_place *place, bool make, int *values, int *directory,
                      struct pawl_why *why)
{
        char shown[16];
        int code = file_open_values(local, make, values, why);

        *directory = -1;
        if (code != PAWL_OK)
                return code;
        snprintf(shown, sizeof(shown), "values/%s", place->directory);
        code = file_open_below(local, *values, place->directory, shown, directory, why);
        if (code == PAWL_NOT_FOUND && make)
                code = file_make_below(local, *values, place->directory, shown, directory, why);
        return code;
}

static void close_place(int values, int directory)
{
        if (directory >= 0)
                close(directory);
        if (values >= 0)
                close(values);
}

/* What a power cut leaves of an unsynced file: nothing, or one of another boot. Anything else that is there would be back
 * in the place of what replaced it. */
static bool outlives_boot(const struct local *local, int directory, const char *name)
{
        struct value_head head;
        int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        ssize_t size;

        if (fd < 0)
                return errno != ENOENT;
        size = read(fd, &head, sizeof(head));
        close(fd);
        if (size == 0)
                return false;
        return size != (ssize_t)sizeof(head) || read_head(&head, sizeof(head), &head) != PAWL_OK ||
               !(value_is_brief(head.stored_us, head.until_us) || is_over(&head, value_boot(local), value_now_us()));
}

/* The new one is there for all to see: that cannot be taken back, only be told. */
static int make_durable(const struct local *local, int directory, struct pawl_why *why)
{
        if (fsync(directory) == 0)
                return PAWL_OK;
        (void)why_system(why, errno, "a value in %s was changed, but perhaps not on disk", local->path);
        return why->code = PAWL_IN_DOUBT;
}

/* A plain rename over another file costs as much as a sync: ext4 begins to write the new one before it returns. */
static int replace(struct local *local, int values, const char *temporary, int directory, const char *name, bool synced)
{
        if (temporary[0] == '\0')
                return unlinkat(directory, name, 0);
        if (synced || file_rename(values, temporary, directory, name, RENAME_EXCHANGE) != 0)
                return renameat(values, temporary, directory, name); /* also if there is nothing yet, or no such way */
        hook(local, 69);
        (void)unlinkat(values, temporary, 0); /* the old one */
        return 0;
}

int value_put(struct local *local, const struct value_place *place, const char *temporary, bool brief,
              struct pawl_why *why)
{
        bool nothing = temporary[0] == '\0';
        int values = -1;
        int directory;
        int code = open_place(local, place, !nothing, &values, &directory, why);

        if (code == PAWL_NOT_FOUND) {
                code = PAWL_OK; /* there is nothing, as there should be */
        } else if (code == PAWL_OK) {
                bool synced = !(brief || nothing) || outlives_boot(local, directory, place->file);
                int error = replace(local, values, temporary, directory, place->file, synced);

                hook(local, 64);
                if (error == 0 && synced)
                        code = make_durable(local, directory, why);
                else if (error != 0 && (!nothing || errno != ENOENT))
                        code = why_system(why, errno, "cannot change a value in %s", local->path);
        }
        close_place(values, directory);
        return code;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int explain(const struct local *local, const struct value_place *place, int code, struct pawl_why *why)
{
        if (code == PAWL_CORRUPT)
                return why_set(why, code, "%s/values/%s/%s is damaged; remove it, or store the value again",
                               local->path, place->directory, place->file);
        if (code == PAWL_OTHER_VERSION)
                return why_set(why, code, "%s/values/%s/%s was written by another version of pawl", local->path,
                               place->directory, place->file);
        return code;
}

static int open_value(struct local *local, int directory, const struct value_place *place, int *fd,
                      struct pawl_why *why)
{
        char shown[80];

        snprintf(shown, sizeof(shown), "values/%s/%s", place->directory, place->file);
        *fd = openat(directory, place->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (*fd >= 0)
                return file_check(local, *fd, shown, why);
        if (errno == ENOENT)
                return PAWL_NOT_FOUND;
        if (errno == ELOOP)
                return why_set(why, PAWL_DENIED, "%s/%s is a symbolic link; remove it", local->path, shown);
        return why_system(why, errno, "cannot open %s/%s", local->path, shown);
}

/* As much as there is, one byte more than there should be at most. */
static int read_bytes(const struct local *local, int fd, char *bytes, size_t *size, struct pawl_why *why)
{
        *size = 0;
        while (*size <= VALUE_FILE_MAX) {
                ssize_t got = read(fd, bytes + *size, VALUE_FILE_MAX + 1 - *size);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return why_system(why, errno, "cannot read a value in %s", local->path);
                if (got == 0)
                        break;
                *size += (size_t)got;
        }
        return PAWL_OK;
}

int value_load(struct local *local, const struct value_place *place, const char *name, void **bytes,
               struct pawl_value *value, struct pawl_why *why)
{
        int values = -1;
        int directory;
        int fd = -1;
        size_t size;
        int code;

        *bytes = malloc(VALUE_FILE_MAX + 1);
        if (*bytes == NULL)
                return why_set(why, PAWL_NO_MEMORY, "no memory");
        code = open_place(local, place, false, &values, &directory, why);
        if (code == PAWL_OK)
                code = open_value(local, directory, place, &fd, why);
        if (code == PAWL_OK)
                code = read_bytes(local, fd, *bytes, &size, why);
        if (code == PAWL_OK)
                code = explain(local, place, value_read(*bytes, size, name, value_boot(local), value_now_us(), value),
                               why);
        if (fd >= 0)
                close(fd);
        close_place(values, directory);
        return code;
}

/* ---- sweeping ---------------------------------------------------------------------------------------------------- */

/* A file of another version, or a damaged one, is left alone: somebody may want to look at it. */
static bool has_run_out(int directory, const char *name, uint64_t boot, int64_t now_us)
{
        struct value_head head;
        int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        ssize_t size;

        if (fd < 0)
                return false;
        size = read(fd, &head, sizeof(head));
        close(fd);
        if (size == 0)
                return true; /* a power cut left that of an unsynced one */
        return size == (ssize_t)sizeof(head) && read_head(&head, sizeof(head), &head) == PAWL_OK &&
               is_over(&head, boot, now_us);
}

static bool is_value(const char *name)
{
        return strlen(name) == sizeof(((struct value_place *)NULL)->file) - 1 &&
               strspn(name, "0123456789abcdef") == strlen(name);
}

static size_t count_values(DIR *files)
{
        size_t count = 0;

        for (const struct dirent *file; (file = readdir(files)) != NULL;)
                count += is_value(file->d_name);
        return count;
}

/* A window anywhere among them: many processes sweep, each only once, and none should begin where all others began. */
static void sweep_window(const struct local *local, DIR *files)
{
        size_t count = count_values(files);
        uint64_t boot = value_boot(local);
        int64_t now_us = value_now_us();
        size_t at = 0;
        uint32_t from;

        loop_random(local->engine.host->loop, &from, sizeof(from));
        from = count > SWEEP_WINDOW ? (uint32_t)(from % (count - SWEEP_WINDOW + 1)) : 0;
        rewinddir(files);
        for (const struct dirent *file; at < (size_t)from + SWEEP_WINDOW && (file = readdir(files)) != NULL;)
                if (is_value(file->d_name) && at++ >= from && has_run_out(dirfd(files), file->d_name, boot, now_us))
                        (void)unlinkat(dirfd(files), file->d_name, 0);
}

void value_sweep(struct local *local, uint8_t stripe)
{
        struct value_place place;
        struct pawl_why why;
        int values = -1;
        int directory;
        DIR *files = NULL;

        snprintf(place.directory, sizeof(place.directory), "%02x", stripe);
        if (open_place(local, &place, false, &values, &directory, &why) == PAWL_OK)
                files = fdopendir(directory);
        if (files != NULL) {
                sweep_window(local, files);
                closedir(files);
                directory = -1;
        }
        close_place(values, directory);
}

/* Exactly those whose process is gone: an identity never returns while the state file is the same. */
void value_sweep_temporaries(struct local *local)
{
        struct pawl_why why;
        int values = -1;
        DIR *files = NULL;

        if (file_open_values(local, false, &values, &why) == PAWL_OK)
                files = fdopendir(values);
        for (const struct dirent *file; files != NULL && (file = readdir(files)) != NULL;) {
                unsigned id;
                unsigned number;

                if (sscanf(file->d_name, "new.%x.%x", &id, &number) == 2 && !process_alive(local, id))
                        (void)unlinkat(values, file->d_name, 0);
        }
        if (files != NULL)
                closedir(files);
        else if (values >= 0)
                close(values);
}
