/* local_file.c - the state directory: made safely, refused when somebody else could interfere, mapped; what a reboot, a
 * copy or another version mean. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../base/storage.h"
#include "local.h"

static const char magic[8] = {'p', 'a', 'w', 'l', '-', 'l', 'c', 'k'};

static struct {
        uint32_t processes;
        uint32_t names;
        uint32_t entries;
} capacity = {PROCESSES_MAX, NAMES_MAX, ENTRIES_MAX};

void local_set_capacity(uint32_t processes, uint32_t names, uint32_t entries)
{
        capacity.processes = processes != 0 ? processes : PROCESSES_MAX;
        capacity.names = names != 0 ? names : NAMES_MAX;
        capacity.entries = entries != 0 ? entries : ENTRIES_MAX;
}

/* ---- the directory ----------------------------------------------------------------------------------------------- */

int file_default_path(char *path, size_t size, struct pawl_why *why)
{
        char buffer[4096];
        struct passwd user;
        struct passwd *found = NULL;

        if (geteuid() == 0) {
                snprintf(path, size, "/var/lib/pawl");
                return PAWL_OK;
        }
        (void)getpwuid_r(geteuid(), &user, buffer, sizeof(buffer), &found);
        if (found == NULL || found->pw_dir == NULL || found->pw_dir[0] != '/')
                return why_set(why, PAWL_INVALID,
                               "user %u has no home directory; say where the locks live, as in local:/some/directory",
                               (unsigned)geteuid());
        if ((size_t)snprintf(path, size, "%s/.local/state/pawl", found->pw_dir) >= size)
                return why_set(why, PAWL_INVALID, "the path of the home directory is too long");
        return PAWL_OK;
}

/* mkdir -p, every new directory for us alone. */
static int make_directories(const char *path, struct pawl_why *why)
{
        char partial[4096];

        snprintf(partial, sizeof(partial), "%s", path);
        for (char *slash = partial + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
                *slash = '\0';
                if (mkdir(partial, 0700) != 0 && errno != EEXIST)
                        return why_system(why, errno, "cannot make the directory %s", partial);
                *slash = '/';
        }
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
                return why_system(why, errno, "cannot make the directory %s", path);
        return PAWL_OK;
}

static int open_directory(struct local *local, struct pawl_why *why)
{
        int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        int code;

        local->directory_fd = open(local->path, flags);
        if (local->directory_fd < 0 && errno == ENOENT) {
                code = make_directories(local->path, why);
                if (code != PAWL_OK)
                        return code;
                local->directory_fd = open(local->path, flags);
        }
        if (local->directory_fd >= 0)
                return PAWL_OK;
        if (errno == ELOOP || errno == ENOTDIR)
                return why_set(why, PAWL_DENIED,
                               "%s is not a directory, or a symbolic link to one; name the directory itself",
                               local->path);
        return why_system(why, errno, "cannot open the directory %s", local->path);
}

static int check_directory(struct local *local, struct pawl_why *why)
{
        struct stat status;

        if (fstat(local->directory_fd, &status) != 0)
                return why_system(why, errno, "cannot look at %s", local->path);
        if (status.st_uid != geteuid() && status.st_uid != 0)
                return why_set(why, PAWL_DENIED,
                               "%s belongs to user %u, who could change locks as he likes; use a directory of your own "
                               "or of root",
                               local->path, (unsigned)status.st_uid);
        if ((status.st_mode & S_IWOTH) != 0)
                return why_set(why, PAWL_DENIED, "everybody may write to %s; chmod it to 700, or to 1770 for a group",
                               local->path);
        if ((status.st_mode & S_IWGRP) != 0 && (status.st_mode & S_ISVTX) == 0)
                return why_set(why, PAWL_DENIED,
                               "a group may write to %s; chmod it to 700, or to 1770 if that group is to share locks",
                               local->path);
        local->shared_directory = (status.st_mode & S_IWGRP) != 0;
        return PAWL_OK;
}

/* Shared memory and locks between machines are not what they seem. */
static int check_filesystem(struct local *local, struct pawl_why *why)
{
        const char *name;
        enum storage storage = storage_of(local->directory_fd, &name);

        if (storage == STORAGE_UNKNOWN)
                return why_system(why, errno, "cannot look at the file system of %s", local->path);
        if (storage == STORAGE_REMOTE)
                return why_set(why, PAWL_UNSUPPORTED,
                               "%s is on %s, where memory shared by processes cannot be trusted; use a local disk",
                               local->path, name);
        local->on_tmpfs = storage == STORAGE_MEMORY;
        return PAWL_OK;
}

/* ---- files in it ------------------------------------------------------------------------------------------------- */

static mode_t file_mode(const struct local *local)
{
        return local->shared_directory ? 0660 : 0600;
}

/* Of a file or directory below: who could interfere. */
static int check_rights(const struct local *local, const struct stat *status, const char *name, mode_t mode,
                        struct pawl_why *why)
{
        struct stat directory;

        if (fstat(local->directory_fd, &directory) != 0)
                return why_system(why, errno, "cannot look at %s", local->path);
        if ((status->st_mode & S_IWOTH) != 0 || ((status->st_mode & S_IWGRP) != 0 && !local->shared_directory))
                return why_set(why, PAWL_DENIED, "others may write to %s/%s; chmod it to %o", local->path, name,
                               (unsigned)mode);
        if (!local->shared_directory && status->st_uid != geteuid() && status->st_uid != directory.st_uid &&
            status->st_uid != 0)
                return why_set(why, PAWL_DENIED, "%s/%s belongs to user %u; remove it when nobody uses it", local->path,
                               name, (unsigned)status->st_uid);
        return PAWL_OK;
}

int file_check(const struct local *local, int fd, const char *name, struct pawl_why *why)
{
        struct stat status;

        if (fstat(fd, &status) != 0)
                return why_system(why, errno, "cannot look at %s/%s", local->path, name);
        if (!S_ISREG(status.st_mode))
                return why_set(why, PAWL_DENIED, "%s/%s is not a regular file; remove it", local->path, name);
        if (status.st_nlink > 1)
                return why_set(why, PAWL_DENIED, "%s/%s has a second name; remove that link", local->path, name);
        return check_rights(local, &status, name, file_mode(local), why);
}

static int open_file(struct local *local, const char *name, int flags, int *fd, struct pawl_why *why)
{
        *fd = openat(local->directory_fd, name, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, file_mode(local));
        if (*fd >= 0)
                return file_check(local, *fd, name, why);
        if (errno == ENOENT)
                return PAWL_NOT_FOUND;
        if (errno == ELOOP)
                return why_set(why, PAWL_DENIED, "%s/%s is a symbolic link; remove it", local->path, name);
        if (errno == EISDIR || errno == ENXIO)
                return why_set(why, PAWL_DENIED, "%s/%s is not a regular file; remove it", local->path, name);
        return why_system(why, errno, "cannot open %s/%s", local->path, name);
}

/* The umask may have taken the group's right away. A file that is not ours has its mode already. */
void file_share(const struct local *local, int fd, mode_t mode)
{
        struct stat directory;

        if (!local->shared_directory || fstat(local->directory_fd, &directory) != 0)
                return;
        if (fchown(fd, (uid_t)-1, directory.st_gid) == 0)
                (void)fchmod(fd, mode);
}

static int open_alive(struct local *local, struct pawl_why *why)
{
        int code = open_file(local, "alive", O_CREAT, &local->alive_fd, why);

        if (code == PAWL_OK)
                file_share(local, local->alive_fd, 0660);
        else if (code == PAWL_NOT_FOUND) /* although it was to be made: /proc, or removed under us */
                why_set(why, code = PAWL_SYSTEM, "no file can be made in %s; name a directory on a disk", local->path);
        return code;
}

/* One prepares at a time. A process that was stopped while preparing must not hang the others for ever. */
static int init_lock(struct local *local, struct pawl_why *why)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
        struct timespec pause = {.tv_nsec = 200000};

        for (int i = 0; i < 25000; i++) { /* 5 s and more */
                if (fcntl(local->alive_fd, F_OFD_SETLK, &lock) == 0)
                        return PAWL_OK;
                if (errno != EAGAIN && errno != EACCES)
                        return why_system(why, errno, "cannot lock %s/alive", local->path);
                nanosleep(&pause, NULL);
        }
        return why_set(why, PAWL_SYSTEM,
                       "another process has been preparing %s for seconds; see whether one that uses it is stopped",
                       local->path);
}

static void init_unlock(struct local *local)
{
        struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

        (void)fcntl(local->alive_fd, F_OFD_SETLK, &lock);
}

/* ---- the layout -------------------------------------------------------------------------------------------------- */

struct layout {
        size_t processes;
        size_t buckets;
        size_t names;
        size_t entries;
        size_t size;
};

static size_t whole_pages(size_t size)
{
        return (size + PAGE - 1) / PAGE * PAGE;
}

static struct layout layout_of(uint32_t processes, uint32_t names, uint32_t entries)
{
        struct layout layout;

        layout.processes = 2 * PAGE;
        layout.buckets = layout.processes + whole_pages(processes * sizeof(struct process));
        layout.names = layout.buckets + BUCKETS * sizeof(struct bucket);
        layout.entries = layout.names + whole_pages(names * sizeof(struct name));
        layout.size = layout.entries + whole_pages(entries * sizeof(struct entry));
        return layout;
}

static int read_boot_id(char id[40], struct pawl_why *why)
{
        int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        ssize_t got;

        memset(id, 0, 40);
        if (fd < 0)
                return why_system(why, errno,
                                  "cannot read /proc/sys/kernel/random/boot_id, which tells one boot from another");
        got = read(fd, id, 36);
        close(fd);
        if (got != 36)
                return why_set(why, PAWL_SYSTEM, "/proc/sys/kernel/random/boot_id is not what it should be");
        return PAWL_OK;
}

/* Where a time namespace shifts CLOCK_BOOTTIME, leases cannot be compared. */
static uint64_t read_time_namespace(void)
{
        struct stat status;

        return stat("/proc/self/ns/time", &status) == 0 ? status.st_ino : 0;
}

static int give_space(struct local *local, int fd, size_t from, size_t size, struct pawl_why *why)
{
        int error = posix_fallocate(fd, (off_t)from, (off_t)size);

        if (error == 0)
                return PAWL_OK;
        return why_system(why, error, "no room on the disk for %s", local->path);
}

/* ---- a new file -------------------------------------------------------------------------------------------------- */

static int fill_header(struct local *local, int fd, uint64_t fence, struct pawl_why *why)
{
        struct header header = {.version = LAYOUT_VERSION,
                                .processes = capacity.processes,
                                .names = capacity.names,
                                .entries = capacity.entries,
                                .time_namespace = read_time_namespace()};
        struct durable durable = {.limit = fence + TOKEN_BLOCK};
        struct stat status;
        int code = read_boot_id(header.boot_id, why);

        if (code != PAWL_OK)
                return code;
        memcpy(header.magic, magic, sizeof(magic));
        loop_random(local->engine.host->loop, header.file_id, sizeof(header.file_id));
        header.fence = fence;
        header.limit = fence + TOKEN_BLOCK;
        header.seal = token_seal(&header);
        if (fstat(fd, &status) != 0)
                return why_system(why, errno, "cannot look at the new state in %s", local->path);
        header.inode = status.st_ino;
        if (fstat(local->alive_fd, &status) != 0)
                return why_system(why, errno, "cannot look at %s/alive", local->path);
        header.alive_inode = status.st_ino;
        if (pwrite(fd, &durable, sizeof(durable), PAGE) != (ssize_t)sizeof(durable) ||
            pwrite(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
                return why_system(why, errno, "cannot write the new state in %s", local->path);
        return PAWL_OK;
}

static int size_file(struct local *local, int fd, struct pawl_why *why)
{
        struct layout layout = layout_of(capacity.processes, capacity.names, capacity.entries);
        struct rlimit limit;

        /* Not tried: it would raise SIGXFSZ, which ends the program. */
        if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < layout.size)
                return why_set(why, PAWL_FULL,
                               "files may not be larger than %llu bytes here (ulimit -f), the state in %s needs %zu, "
                               "most of it never written",
                               (unsigned long long)limit.rlim_cur, local->path, layout.size);
        if (ftruncate(fd, (off_t)layout.size) != 0)
                return why_system(why, errno, "cannot make the state in %s", local->path);
        return give_space(local, fd, 0, layout.names, why);
}

/* Under another name first: who dies halfway leaves nothing that looks whole. Synced before it is seen, because the
 * tokens of its first block are given out without asking the disk again. */
static int create_state(struct local *local, uint64_t fence, struct pawl_why *why)
{
        int code;
        int fd;

        (void)unlinkat(local->directory_fd, "state.new", 0);
        code = open_file(local, "state.new", O_CREAT | O_EXCL, &fd, why);
        if (code == PAWL_OK)
                code = size_file(local, fd, why);
        if (code == PAWL_OK)
                code = fill_header(local, fd, fence, why);
        if (code == PAWL_OK && fdatasync(fd) != 0)
                code = why_system(why, errno, "cannot write the new state in %s to disk", local->path);
        if (code == PAWL_OK) {
                file_share(local, fd, 0660);
                if (renameat(local->directory_fd, "state.new", local->directory_fd, "state") != 0)
                        code = why_system(why, errno, "cannot put the new state in %s into place", local->path);
                else
                        (void)fsync(local->directory_fd); /* lost, the file is new again: the clock is its floor */
        }
        if (fd >= 0)
                close(fd);
        if (code != PAWL_OK)
                (void)unlinkat(local->directory_fd, "state.new", 0);
        return code;
}

/* ---- an old file ------------------------------------------------------------------------------------------------- */

enum verdict { GOOD, STALE, DAMAGED, OTHER_VERSION, OTHER_CLOCK };

static bool capacities_make_sense(const struct header *header)
{
        return header->processes >= 1 && header->processes <= PROCESSES_MAX && header->names >= 1 &&
               header->names <= NAMES_MAX && header->entries >= 1 && header->entries <= ENTRIES_MAX;
}

static bool marks_make_sense(const struct header *header)
{
        return atomic_load(&header->names_ready) <= header->names_room && header->names_room <= header->names &&
               atomic_load(&header->entries_ready) <= header->entries_room && header->entries_room <= header->entries &&
               atomic_load(&header->fence) < TOKEN_LIMIT && atomic_load(&header->limit) < TOKEN_LIMIT;
}

static int judge(struct local *local, const struct header *header, const struct durable *durable, enum verdict *verdict,
                 struct pawl_why *why)
{
        struct stat status;
        struct stat alive;
        char boot_id[40];
        int code = read_boot_id(boot_id, why);

        if (code != PAWL_OK)
                return code;
        if (fstat(local->state_fd, &status) != 0 || fstat(local->alive_fd, &alive) != 0)
                return why_system(why, errno, "cannot look at the state in %s", local->path);
        if (memcmp(header->magic, magic, sizeof(magic)) != 0 || atomic_load(&durable->limit) >= TOKEN_LIMIT)
                *verdict = DAMAGED;
        else if (header->version != LAYOUT_VERSION)
                *verdict = OTHER_VERSION;
        else if (memcmp(header->boot_id, boot_id, sizeof(boot_id)) != 0 || header->inode != status.st_ino)
                *verdict = STALE;
        else if (!capacities_make_sense(header) || !marks_make_sense(header) || header->alive_inode != alive.st_ino ||
                 (uint64_t)status.st_size != layout_of(header->processes, header->names, header->entries).size)
                *verdict = DAMAGED;
        else
                *verdict = header->time_namespace != read_time_namespace() ? OTHER_CLOCK : GOOD;
        return PAWL_OK;
}

static int damaged(struct local *local, struct pawl_why *why)
{
        return why_set(why, PAWL_CORRUPT, "%s/state is damaged; remove the directory when nobody uses it", local->path);
}

static int refuse(struct local *local, enum verdict verdict, struct pawl_why *why)
{
        switch (verdict) {
        case OTHER_VERSION:
                return why_set(
                        why, PAWL_OTHER_VERSION,
                        "%s/state was written by another version of pawl that is still using it; stop that first",
                        local->path);
        case OTHER_CLOCK:
                return why_set(why, PAWL_UNSUPPORTED,
                               "%s is in use in another time namespace, whose clock differs; use another directory",
                               local->path);
        default:
                return damaged(local, why);
        }
}

/* Reads the head of the file and decides. *fence: what a new file must begin above. */
static int examine(struct local *local, enum verdict *verdict, uint64_t *fence, struct pawl_why *why)
{
        struct header header;
        struct durable durable;
        uint64_t limit;
        int code;

        if (pread(local->state_fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
            pread(local->state_fd, &durable, sizeof(durable), PAGE) != (ssize_t)sizeof(durable))
                return damaged(local, why);
        code = judge(local, &header, &durable, verdict, why);
        if (code != PAWL_OK)
                return code;
        if (*verdict == DAMAGED || (*verdict != GOOD && process_any_alive(local->alive_fd, PROCESSES_MAX)))
                return refuse(local, *verdict, why);
        limit = atomic_load(&durable.limit);
        *fence = limit > *fence ? limit : *fence;
        local->process_capacity = header.processes;
        local->name_capacity = header.names;
        local->entry_capacity = header.entries;
        local->seed[0] = header.file_id[0];
        local->seed[1] = header.file_id[1];
        return PAWL_OK;
}

/* Opens the state, replaced by a new one if it is missing or of another boot, version or clock, and nobody lives. */
static int open_state(struct local *local, struct pawl_why *why)
{
        uint64_t fence = token_floor();

        for (int round = 0; round < 2; round++) {
                enum verdict verdict = STALE;
                int code = open_file(local, "state", 0, &local->state_fd, why);

                if (code == PAWL_NOT_FOUND && process_any_alive(local->alive_fd, PROCESSES_MAX))
                        return why_set(
                                why, PAWL_CORRUPT,
                                "%s/state was removed while processes use it; stop them, then remove the directory",
                                local->path);
                if (code == PAWL_OK)
                        code = examine(local, &verdict, &fence, why);
                if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                        return code;
                if (verdict == GOOD)
                        return PAWL_OK;
                if (local->state_fd >= 0)
                        close(local->state_fd);
                local->state_fd = -1;
                code = create_state(local, fence, why);
                if (code != PAWL_OK)
                        return code;
        }
        return damaged(local, why);
}

static int map_state(struct local *local, struct pawl_why *why)
{
        struct layout layout = layout_of(local->process_capacity, local->name_capacity, local->entry_capacity);
        void *map = mmap(NULL, layout.size, PROT_READ | PROT_WRITE, MAP_SHARED, local->state_fd, 0);
        void *claims;

        if (map == MAP_FAILED)
                return why_system(why, errno, "cannot map %s/state", local->path);
        local->map = map;
        local->map_size = layout.size;
        local->header = (struct header *)map;
        local->durable = (struct durable *)(void *)(local->map + PAGE);
        local->processes = (struct process *)(void *)(local->map + layout.processes);
        local->buckets = (struct bucket *)(void *)(local->map + layout.buckets);
        local->names = (struct name *)(void *)(local->map + layout.names);
        local->entries = (struct entry *)(void *)(local->map + layout.entries);
        claims = mmap(NULL, local->entry_capacity * sizeof(struct claim *), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (claims == MAP_FAILED)
                return why_system(why, errno, "no memory for the table of claims");
        local->claims = claims;
        return PAWL_OK;
}

int file_open(struct local *local, const char *path, struct pawl_why *why)
{
        int code;

        local->path = strdup(path);
        if (local->path == NULL)
                return why_set(why, PAWL_NO_MEMORY, "no memory");
        for (size_t length = strlen(path); length > 1 && local->path[length - 1] == '/'; length--)
                local->path[length - 1] = '\0'; /* a slash at the end would follow a symbolic link */
        if ((code = open_directory(local, why)) != PAWL_OK || (code = check_directory(local, why)) != PAWL_OK ||
            (code = check_filesystem(local, why)) != PAWL_OK || (code = open_alive(local, why)) != PAWL_OK ||
            (code = init_lock(local, why)) != PAWL_OK)
                return code;
        code = open_state(local, why);
        if (code == PAWL_OK)
                code = map_state(local, why);
        if (code == PAWL_OK && !process_any_alive(local->alive_fd, PROCESSES_MAX))
                code = token_mend(local, why);
        if (code == PAWL_OK)
                code = process_join(local, why);
        init_unlock(local);
        return code;
}

void file_close(struct local *local)
{
        if (local->claims != NULL)
                munmap(local->claims, local->entry_capacity * sizeof(struct claim *));
        if (local->map != NULL)
                munmap(local->map, local->map_size);
        if (local->state_fd >= 0)
                close(local->state_fd);
        if (local->alive_fd >= 0)
                close(local->alive_fd);
        if (local->directory_fd >= 0)
                close(local->directory_fd);
        free(local->path);
}

bool file_is_there(struct local *local)
{
        struct stat status;

        if (!local->deleted && fstat(local->state_fd, &status) == 0 && status.st_nlink == 0)
                local->deleted = true;
        return !local->deleted;
}

/* ---- directories below ------------------------------------------------------------------------------------------- */

int file_open_below(struct local *local, int parent, const char *name, const char *shown, int *fd, struct pawl_why *why)
{
        struct stat status;

        *fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (*fd < 0 && errno == ENOENT)
                return PAWL_NOT_FOUND;
        if (*fd < 0 && (errno == ELOOP || errno == ENOTDIR))
                return why_set(why, PAWL_DENIED, "%s/%s is not a directory, or a symbolic link to one; remove it",
                               local->path, shown);
        if (*fd < 0 || fstat(*fd, &status) != 0)
                return why_system(why, errno, "cannot open the directory %s/%s", local->path, shown);
        return check_rights(local, &status, shown, local->shared_directory ? 0770 : 0700, why);
}

/* Under another name first: nobody sees it before the group has its rights. */
int file_make_below(struct local *local, int parent, const char *name, const char *shown, int *fd, struct pawl_why *why)
{
        char fresh[32];
        int code;

        snprintf(fresh, sizeof(fresh), "%s.new", name);
        (void)unlinkat(parent, fresh, AT_REMOVEDIR); /* of a member who died here, whom alone it would let in */
        if (mkdirat(parent, fresh, 0700) != 0 && errno != EEXIST)
                return why_system(why, errno, "cannot make the directory %s/%s", local->path, shown);
        code = file_open_below(local, parent, fresh, shown, fd, why);
        if (code == PAWL_NOT_FOUND)
                return why_set(why, PAWL_SYSTEM, "%s/%s was removed while it was made", local->path, shown);
        if (code != PAWL_OK)
                return code;
        file_share(local, *fd, 0770);
        hook(local, 66);
        if (renameat(parent, fresh, parent, name) != 0 || fsync(parent) != 0)
                return why_system(why, errno, "cannot put the directory %s/%s into place", local->path, shown);
        return PAWL_OK;
}

int file_open_values(struct local *local, bool make, int *fd, struct pawl_why *why)
{
        int code = file_open_below(local, local->directory_fd, "values", "values", fd, why);

        if (code != PAWL_NOT_FOUND || !make)
                return code;
        code = init_lock(local, why);
        if (code != PAWL_OK)
                return code;
        code = file_open_below(local, local->directory_fd, "values", "values", fd, why);
        if (code == PAWL_NOT_FOUND)
                code = file_make_below(local, local->directory_fd, "values", "values", fd, why);
        init_unlock(local);
        return code;
}

/* ---- growth: disk space before first use, so that a full disk is an error and never a SIGBUS --------------------- */

int file_grow_names(struct local *local)
{
        struct header *header = local->header;
        uint32_t from = header->names_room;
        uint32_t count = NAME_CHUNK;
        int code;

        if (from >= local->name_capacity || atomic_load(&header->names_ready) >= local->name_capacity)
                return why_set(&local->why, PAWL_FULL, "%s has room for %u names, and all are in use", local->path,
                               (unsigned)local->name_capacity);
        if (count > local->name_capacity - from)
                count = local->name_capacity - from;
        code = give_space(local, local->state_fd, (size_t)((char *)&local->names[from] - local->map),
                          count * sizeof(struct name), &local->why);
        if (code == PAWL_OK)
                header->names_room = from + count;
        return code;
}

int file_grow_entries(struct local *local)
{
        struct header *header = local->header;
        uint32_t from = header->entries_room;
        uint32_t count = ENTRY_CHUNK;
        int code;

        if (from >= local->entry_capacity || atomic_load(&header->entries_ready) >= local->entry_capacity)
                return why_set(&local->why, PAWL_FULL,
                               "%s has room for %u claims, held and waiting, and all are in use", local->path,
                               (unsigned)local->entry_capacity);
        if (count > local->entry_capacity - from)
                count = local->entry_capacity - from;
        code = give_space(local, local->state_fd, (size_t)((char *)&local->entries[from] - local->map),
                          count * sizeof(struct entry), &local->why);
        if (code == PAWL_OK)
                header->entries_room = from + count;
        return code;
}
