/* local_file.c - the state directory: made safely, refused when somebody else could interfere, mapped; what a reboot, a
 * copy or another version mean. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../base/storage.h"
#include "local.h"

#define OPEN_PAUSE_FIRST (50 * 1000) /* ns between two tries of a lock; doubled each time */
#define OPEN_PAUSE_MOST (20 * MS)
#define OPEN_PATIENCE (5 * SECOND)
#define PREPARE_PATIENCE (1 * SECOND) /* then we prepare a state of our own: who does so already may be stopped */
#define SAME_BOOT (60 * SECOND)       /* by so much clocks are set in a boot and it is believed to be the same */

static const char remade[8] = {'p', 'a', 'w', 'l', '-', 'r', 'm', 'k'}; /* being made anew in its place */
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

/* create=no: for who only looks. */
static int nothing_there(const struct local *local, struct pawl_why *why)
{
        return why_set(why, PAWL_NOT_FOUND,
                       "there are no locks in %s: nobody has used it since the machine was started", local->path);
}

static int open_directory(struct local *local, struct pawl_why *why)
{
        int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        int code;

        local->directory_fd = open(local->path, flags);
        if (local->directory_fd < 0 && errno == ENOENT && !local->create)
                return nothing_there(local, why);
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

/* O_CREAT only where there is nothing: with fs.protected_regular the kernel refuses it for the file of another member of
 * the group. */
static int open_or_make(struct local *local, const char *name, int *fd, struct pawl_why *why)
{
        int code = PAWL_NOT_FOUND;

        for (int round = 0; round < 3 && code == PAWL_NOT_FOUND; round++) {
                code = open_file(local, name, 0, fd, why);
                if (code != PAWL_NOT_FOUND)
                        return code;
                if (!local->create)
                        return nothing_there(local, why);
                code = open_file(local, name, O_CREAT | O_EXCL, fd, why);
                if (*fd < 0 && errno == EEXIST) /* another one made it just now */
                        code = PAWL_NOT_FOUND;
        }
        if (code == PAWL_OK)
                file_share(local, *fd, 0660);
        return code;
}

static int open_alive(struct local *local, struct pawl_why *why)
{
        int code = open_or_make(local, "alive", &local->alive_fd, why);

        if (code == PAWL_NOT_FOUND && local->create) /* although it was to be made: /proc, or removed under us */
                why_set(why, code = PAWL_SYSTEM, "no file can be made in %s; name a directory on a disk", local->path);
        return code;
}

/* ---- who opens, who prepares, who replaces ----------------------------------------------------------------------- */

enum { INIT_LOCK = 0, OWNER_TEXT = 128 };

static struct flock byte_lock(off_t at, short type)
{
        return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
}

/* Pauses double, and differ: a thousand who come at once must not come back at once. */
static void pause_between(const struct local *local, int64_t *pause)
{
        struct timespec ts;
        uint32_t chance;

        loop_random(local->engine.host->loop, &chance, sizeof(chance));
        ts = (struct timespec){.tv_nsec = *pause / 2 + chance % *pause};
        nanosleep(&ts, NULL);
        *pause = *pause < OPEN_PAUSE_MOST / 2 ? 2 * *pause : OPEN_PAUSE_MOST;
}

/* PAWL_BUSY: not in time. *waited: not at once. */
static int byte_take(struct local *local, off_t at, short type, int64_t patience, bool *waited, struct pawl_why *why)
{
        struct flock lock = byte_lock(at, type);
        int64_t end = local_now(local) + patience;
        int64_t pause = OPEN_PAUSE_FIRST;

        *waited = false;
        while (fcntl(local->alive_fd, F_OFD_SETLK, &lock) != 0) {
                if (errno != EAGAIN && errno != EACCES)
                        return why_system(why, errno, "cannot lock %s/alive", local->path);
                *waited = true;
                if (local_now(local) >= end)
                        return PAWL_BUSY;
                pause_between(local, &pause);
        }
        return PAWL_OK;
}

static void byte_give(struct local *local, off_t at)
{
        struct flock lock = byte_lock(at, F_UNLCK);

        (void)fcntl(local->alive_fd, F_OFD_SETLK, &lock);
}

/* Who replaces the state says so in alive: the kernel does not tell whose lock it is. */
static void sign_alive(struct local *local)
{
        char text[OWNER_TEXT] = "";

        snprintf(text, sizeof(text), "%s", local->engine.host->owner);
        (void)!pwrite(local->alive_fd, text, sizeof(text), 0);
}

static int open_is_stuck(struct local *local, struct pawl_why *why)
{
        char text[OWNER_TEXT + 1] = "";

        if (pread(local->alive_fd, text, OWNER_TEXT, 0) <= 0 || text[0] == '\0')
                snprintf(text, sizeof(text), "another process");
        return why_set(why, PAWL_STUCK,
                       "%s has been replacing %s/state for seconds: it is stopped; continue or kill it", text,
                       local->path);
}

/* Any number open at a time; one that is stopped there is in the way of who would replace the state, and of nobody else. */
static int init_take(struct local *local, short type, struct pawl_why *why)
{
        bool waited;
        int code = byte_take(local, INIT_LOCK, type, OPEN_PATIENCE, &waited, why);

        return code == PAWL_BUSY ? open_is_stuck(local, why) : code;
}

static void init_give(struct local *local)
{
        byte_give(local, INIT_LOCK);
}

/* ---- the layout -------------------------------------------------------------------------------------------------- */

struct layout {
        size_t processes;
        size_t buckets;
        size_t name_hints;
        size_t entry_hints;
        size_t names;
        size_t entries;
        size_t size;
};

static size_t whole_pages(size_t size)
{
        return (size + PAGE - 1) / PAGE * PAGE;
}

static size_t hint_pages(uint32_t count)
{
        return whole_pages((count + 63) / 64 * sizeof(uint64_t));
}

/* Layout 2 had no hints. */
static struct layout layout_of(uint32_t version, uint32_t processes, uint32_t names, uint32_t entries)
{
        struct layout layout;

        layout.processes = 2 * PAGE;
        layout.buckets = layout.processes + whole_pages(processes * sizeof(struct process));
        layout.name_hints = layout.buckets + BUCKETS * sizeof(struct bucket);
        layout.entry_hints = layout.name_hints + (version < 3 ? 0 : hint_pages(names));
        layout.names = layout.entry_hints + (version < 3 ? 0 : hint_pages(entries));
        layout.entries = layout.names + whole_pages(names * sizeof(struct name));
        layout.size = layout.entries + whole_pages(entries * sizeof(struct entry));
        return layout;
}

/* ---- which boot, which clock ------------------------------------------------------------------------------------- */

/* What tells this boot from others. Containers may be given a boot id of their own (LXC, nspawn): a file that is mounted
 * over the kernel's. Two such ids say nothing about the kernel below. */
struct boot {
        char id[40];
        bool kernels_own;
        uint64_t time_namespace;
        int64_t offset; /* what it adds to the clocks */
        int64_t now;    /* CLOCK_BOOTTIME */
        int64_t real;
};

static int read_boot_id(struct boot *boot, struct pawl_why *why)
{
        int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        struct statfs status;
        ssize_t got;

        if (fd < 0)
                return why_system(why, errno,
                                  "cannot read /proc/sys/kernel/random/boot_id, which tells one boot from another");
        got = read(fd, boot->id, 36);
        boot->kernels_own = fstatfs(fd, &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
        close(fd);
        if (got != 36)
                return why_set(why, PAWL_SYSTEM, "/proc/sys/kernel/random/boot_id is not what it should be");
        return PAWL_OK;
}

static uint64_t inode_of(const char *path)
{
        struct stat status;

        return stat(path, &status) == 0 ? status.st_ino : 0;
}

/* Of our own time namespace; the file tells that of our children, which is another after unshare(2). */
static int64_t read_clock_offset(void)
{
        long long seconds;
        long long ns;
        FILE *file;
        int found;

        if (inode_of("/proc/self/ns/time") != inode_of("/proc/self/ns/time_for_children"))
                return CLOCK_UNKNOWN;
        file = fopen("/proc/self/timens_offsets", "re");
        if (file == NULL)
                return CLOCK_UNKNOWN;
        found = fscanf(file, "monotonic %*d %*d boottime %lld %lld", &seconds, &ns);
        fclose(file);
        return found == 2 ? seconds * SECOND + ns : CLOCK_UNKNOWN;
}

static int64_t clock_ns(clockid_t clock)
{
        struct timespec ts;

        clock_gettime(clock, &ts);
        return (int64_t)ts.tv_sec * SECOND + ts.tv_nsec;
}

static int read_boot(struct boot *boot, struct pawl_why *why)
{
        memset(boot, 0, sizeof(*boot));
        boot->time_namespace = inode_of("/proc/self/ns/time");
        boot->offset = read_clock_offset();
        boot->now = clock_ns(CLOCK_BOOTTIME);
        boot->real = clock_ns(CLOCK_REALTIME); /* not for leases: to recognise a boot */
        return read_boot_id(boot, why);
}

static bool same_clock(const struct header *header, const struct boot *boot)
{
        if (header->version < 3 || header->clock_offset == CLOCK_UNKNOWN || boot->offset == CLOCK_UNKNOWN)
                return header->time_namespace == boot->time_namespace;
        return header->clock_offset == boot->offset;
}

/* Now, by the clock of the file. */
static int64_t file_now(const struct header *header, const struct boot *boot)
{
        if (header->version < 3 || header->clock_offset == CLOCK_UNKNOWN || boot->offset == CLOCK_UNKNOWN)
                return boot->now;
        return boot->now - boot->offset + header->clock_offset;
}

static bool same_id(const struct header *header, const struct boot *boot)
{
        return memcmp(header->boot_id, boot->id, sizeof(boot->id)) == 0;
}

/* The kernel itself says so, whatever the clocks are. */
static bool other_kernel_id(const struct header *header, const struct boot *boot)
{
        return header->version >= 3 && header->kernels_own == 1 && boot->kernels_own && !same_id(header, boot);
}

/* Proven: the kernel itself says so, or its clock began anew. */
static bool other_boot(const struct header *header, const struct boot *boot)
{
        if (header->version < 3)
                return boot->kernels_own && !same_id(header, boot);
        return other_kernel_id(header, boot) || file_now(header, boot) < atomic_load(&header->seen);
}

/* A boot begins at one moment of the wall clock: of two boots these moments are an uptime apart. */
static bool same_boot_by_clock(const struct header *header, const struct boot *boot)
{
        int64_t began = boot->real - file_now(header, boot);
        int64_t difference = began - (atomic_load(&header->seen_real) - atomic_load(&header->seen));

        return header->version >= 3 && difference < SAME_BOOT && difference > -SAME_BOOT;
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
                                .entries = capacity.entries};
        struct durable durable = {.limit = fence + TOKEN_BLOCK};
        struct stat status;
        struct boot boot;
        int code = read_boot(&boot, why);

        if (code != PAWL_OK)
                return code;
        memcpy(header.boot_id, boot.id, sizeof(boot.id));
        header.kernels_own = boot.kernels_own;
        header.time_namespace = boot.time_namespace;
        header.clock_offset = boot.offset;
        header.seen = boot.now;
        header.seen_real = boot.real;
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
        struct layout layout = layout_of(LAYOUT_VERSION, capacity.processes, capacity.names, capacity.entries);
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

static int fill_state(struct local *local, int fd, uint64_t fence, struct pawl_why *why)
{
        int code = size_file(local, fd, why);

        if (code == PAWL_OK)
                code = fill_header(local, fd, fence, why);
        if (code == PAWL_OK && fdatasync(fd) != 0)
                code = why_system(why, errno, "cannot write the new state in %s to disk", local->path);
        return code;
}

/* Under another name first: who dies halfway leaves nothing that looks whole. Synced before it is seen, because the
 * tokens of its first block are given out without asking the disk again. */
static int prepare_state(struct local *local, uint64_t fence, char *name, size_t size, struct pawl_why *why)
{
        uint32_t chance;
        int code;
        int fd;

        loop_random(local->engine.host->loop, &chance, sizeof(chance));
        snprintf(name, size, "state.%08x.new", (unsigned)chance);
        code = open_file(local, name, O_CREAT | O_EXCL, &fd, why);
        if (code == PAWL_OK)
                code = fill_state(local, fd, fence, why);
        if (code == PAWL_OK)
                file_share(local, fd, 0660);
        if (fd >= 0)
                close(fd);
        if (code != PAWL_OK)
                (void)unlinkat(local->directory_fd, name, 0);
        return code;
}

/* What was prepared by processes that died. One that lives, and finds its own gone, prepares another. */
static void sweep_prepared(struct local *local)
{
        int fd = openat(local->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
        struct dirent *entry;

        if (directory == NULL) {
                if (fd >= 0)
                        close(fd);
                return;
        }
        while ((entry = readdir(directory)) != NULL) {
                size_t length = strlen(entry->d_name);

                if (strncmp(entry->d_name, "state.", 6) == 0 && length >= 9 &&
                    strcmp(entry->d_name + length - 4, ".new") == 0)
                        (void)unlinkat(local->directory_fd, entry->d_name, 0);
        }
        closedir(directory);
}

/* ---- an old file ------------------------------------------------------------------------------------------------- */

/* STALE: nobody's any more. */
enum verdict { GOOD, STALE, DAMAGED, OTHER_BOOT, OTHER_VERSION, OTHER_CLOCK };

static bool capacities_make_sense(const struct header *header)
{
        return header->processes >= 1 && header->processes <= PROCESSES_MAX && header->names >= 1 &&
               header->names <= NAMES_MAX && header->entries >= 1 && header->entries <= ENTRIES_MAX;
}

static bool marks_make_sense(const struct header *header)
{
        return atomic_load(&header->names_ready) <= atomic_load(&header->names_room) &&
               atomic_load(&header->names_room) <= header->names &&
               atomic_load(&header->entries_ready) <= atomic_load(&header->entries_room) &&
               atomic_load(&header->entries_room) <= header->entries && atomic_load(&header->fence) < TOKEN_LIMIT &&
               atomic_load(&header->limit) < TOKEN_LIMIT;
}

static enum verdict judge(const struct header *header, const struct durable *durable, const struct stat *status,
                          const struct stat *alive, const struct boot *boot)
{
        if (memcmp(header->magic, remade, sizeof(remade)) == 0 && atomic_load(&durable->limit) < TOKEN_LIMIT)
                return STALE;
        if (memcmp(header->magic, magic, sizeof(magic)) != 0 || atomic_load(&durable->limit) >= TOKEN_LIMIT)
                return DAMAGED;
        if (header->inode != status->st_ino) /* a copy */
                return STALE;
        if (header->version != LAYOUT_VERSION)
                return OTHER_VERSION;
        if (!capacities_make_sense(header) || !marks_make_sense(header) || header->alive_inode != alive->st_ino ||
            (uint64_t)status->st_size !=
                    layout_of(LAYOUT_VERSION, header->processes, header->names, header->entries).size)
                return other_boot(header, boot) ? OTHER_BOOT : DAMAGED;
        if (!same_clock(header, boot))
                return OTHER_CLOCK;
        return same_id(header, boot) && !other_boot(header, boot) ? GOOD : OTHER_BOOT;
}

/* Of layout 2: the entries themselves have to be looked at. */
static int64_t old_leases_until(int fd, const struct header *header)
{
        struct layout layout = layout_of(2, header->processes, header->names, header->entries);
        uint32_t ready = atomic_load(&header->entries_ready);
        int64_t until = 0;
        struct entry entry;

        if (!capacities_make_sense(header))
                return 0;
        for (uint32_t i = 0; i < ready && i < header->entries; i++) {
                off_t at = (off_t)(layout.entries + i * sizeof(entry));

                if (pread(fd, &entry, sizeof(entry), at) == (ssize_t)sizeof(entry) && entry_owner(&entry) == DETACHED &&
                    entry_state(&entry) == HELD && entry.lease_until > until)
                        until = entry.lease_until;
        }
        return until;
}

/* For how long the file must be kept although no process uses it, in ns. */
static int64_t leases_left(int fd, const struct header *header, const struct boot *boot)
{
        int64_t until = header->version == 2 ? old_leases_until(fd, header) : atomic_load(&header->leases_until);
        int64_t now = file_now(header, boot);

        return header->version >= 2 && until > now ? until - now : 0;
}

static int damaged(struct local *local, struct pawl_why *why)
{
        return why_set(why, PAWL_CORRUPT, "%s/state is damaged; remove the directory when nobody uses it", local->path);
}

/* left: of the longest lease, 0 if processes use it. */
static int refuse(struct local *local, enum verdict verdict, int64_t left, struct pawl_why *why)
{
        char use[96] = "is in use";

        if (left > 0)
                snprintf(use, sizeof(use), "has leases without a process that may last another %lld s",
                         (long long)((left + SECOND - 1) / SECOND));
        switch (verdict) {
        case OTHER_VERSION:
                return why_set(why, PAWL_OTHER_VERSION,
                               "%s was written by another version of pawl and %s; stop or release that first",
                               local->path, use);
        case OTHER_CLOCK:
                return why_set(why, PAWL_UNSUPPORTED,
                               "%s %s in another time namespace, whose clock differs; use another directory",
                               local->path, use);
        case OTHER_BOOT:
                return why_set(why, PAWL_CORRUPT,
                               "%s/state says that it is damaged or of another boot, but processes use it; stop them, "
                               "then remove the directory",
                               local->path);
        default:
                return damaged(local, why);
        }
}

/* A state that is not simply good: whose is it? *verdict becomes GOOD or STALE, or it is refused. A living process of the
 * same file proves that this is its boot, whatever the ids say. */
static int settle(struct local *local, const struct header *header, const struct boot *boot, enum verdict *verdict,
                  struct pawl_why *why)
{
        bool alive = process_any_alive(local->alive_fd, PROCESSES_MAX);
        int64_t left = leases_left(local->state_fd, header, boot);

        local->mend = false;
        if (*verdict == DAMAGED || (*verdict == STALE && alive))
                return refuse(local, DAMAGED, 0, why);
        if (*verdict == STALE)
                return PAWL_OK;
        if (!alive && (other_kernel_id(header, boot) || (*verdict == OTHER_BOOT && other_boot(header, boot)))) {
                *verdict = STALE;
                return PAWL_OK;
        }
        if (*verdict == OTHER_BOOT && !other_boot(header, boot)) {
                *verdict = alive || left > 0 || same_boot_by_clock(header, boot) ? GOOD : STALE;
                local->mend = !alive && *verdict == GOOD;
                return PAWL_OK;
        }
        if (alive || left > 0)
                return refuse(local, *verdict, alive ? 0 : left, why);
        *verdict = STALE;
        return PAWL_OK;
}

static void adopt_layout(struct local *local, const struct header *header)
{
        local->process_capacity = header->processes;
        local->name_capacity = header->names;
        local->entry_capacity = header->entries;
        local->seed[0] = header->file_id[0];
        local->seed[1] = header->file_id[1];
}

/* Reads the head of the file and decides. *fence: what a new file must begin above. */
static int examine(struct local *local, enum verdict *verdict, uint64_t *fence, struct pawl_why *why)
{
        struct header header;
        struct durable durable;
        struct stat status;
        struct stat alive;
        struct boot boot;
        uint64_t limit;
        int code;

        if (pread(local->state_fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
            pread(local->state_fd, &durable, sizeof(durable), PAGE) != (ssize_t)sizeof(durable))
                return damaged(local, why);
        code = read_boot(&boot, why); /* the time after the header: it says until when it was seen */
        if (code != PAWL_OK)
                return code;
        if (fstat(local->state_fd, &status) != 0 || fstat(local->alive_fd, &alive) != 0)
                return why_system(why, errno, "cannot look at the state in %s", local->path);
        *verdict = judge(&header, &durable, &status, &alive, &boot);
        if (*verdict != GOOD && (code = settle(local, &header, &boot, verdict, why)) != PAWL_OK)
                return code;
        limit = atomic_load(&durable.limit);
        *fence = limit > *fence ? limit : *fence;
        if (*verdict == GOOD)
                adopt_layout(local, &header);
        return PAWL_OK;
}

/* Opens the state and judges it. STALE and no descriptor if there is none. */
static int look_at_state(struct local *local, enum verdict *verdict, uint64_t *fence, struct pawl_why *why)
{
        int code;

        *verdict = STALE;
        if (local->state_fd >= 0)
                close(local->state_fd);
        code = open_file(local, "state", 0, &local->state_fd, why);
        if (code == PAWL_OK)
                return examine(local, verdict, fence, why);
        if (code != PAWL_NOT_FOUND)
                return code;
        if (process_any_alive(local->alive_fd, PROCESSES_MAX))
                return why_set(why, PAWL_CORRUPT,
                               "%s/state was removed while processes use it; stop them, then remove the directory",
                               local->path);
        return PAWL_OK;
}

/* In a group's directory nobody may replace the file of another member: it is written anew in its place. Who dies on the way
 * leaves a mark by which the next one knows. The counter stays where it is. */
static int remake_state(struct local *local, uint64_t fence, struct pawl_why *why)
{
        if (pwrite(local->state_fd, remade, sizeof(remade), 0) != (ssize_t)sizeof(remade) ||
            fdatasync(local->state_fd) != 0 || ftruncate(local->state_fd, (off_t)2 * PAGE) != 0)
                return why_system(why, errno, "cannot make %s/state anew", local->path);
        return fill_state(local, local->state_fd, fence, why);
}

static int put_state(struct local *local, const char *prepared, uint64_t fence, struct pawl_why *why)
{
        if (renameat(local->directory_fd, prepared, local->directory_fd, "state") == 0) {
                (void)fsync(local->directory_fd); /* lost, the file is new again: the clock is its floor */
                return PAWL_OK;
        }
        if ((errno == EPERM || errno == EACCES) && local->state_fd >= 0)
                return remake_state(local, fence, why);
        if (errno == ENOENT) /* swept: another one replaces it, or we do in the next round */
                return PAWL_OK;
        return why_system(why, errno, "cannot put the new state in %s into place", local->path);
}

/* Replaces the state by what was prepared, unless another one did. Nobody opens it meanwhile. */
static int swap_state(struct local *local, const char *prepared, uint64_t fence, struct pawl_why *why)
{
        enum verdict verdict;
        uint64_t known = fence;
        int code = init_take(local, F_WRLCK, why);

        if (code != PAWL_OK)
                return code;
        sign_alive(local);
        code = look_at_state(local, &verdict, &known, why);
        if (code == PAWL_OK && verdict != GOOD && known <= fence)
                code = put_state(local, prepared, fence, why);
        init_give(local);
        return code;
}

static int make_state(struct local *local, uint64_t fence, struct pawl_why *why)
{
        char prepared[32];
        bool waited;
        int prepare = byte_take(local, PREPARE_LOCK, F_WRLCK, PREPARE_PATIENCE, &waited, why);
        int code = PAWL_OK;

        if (prepare != PAWL_OK && prepare != PAWL_BUSY)
                return prepare;
        if (prepare == PAWL_OK && !waited)
                sweep_prepared(local);
        if (prepare == PAWL_BUSY || !waited) { /* else another one has just done so */
                code = prepare_state(local, fence, prepared, sizeof(prepared), why);
                if (code == PAWL_OK) {
                        code = swap_state(local, prepared, fence, why);
                        (void)unlinkat(local->directory_fd, prepared, 0);
                }
        }
        if (prepare == PAWL_OK)
                byte_give(local, PREPARE_LOCK);
        return code;
}

static int map_state(struct local *local, struct pawl_why *why)
{
        struct layout layout =
                layout_of(LAYOUT_VERSION, local->process_capacity, local->name_capacity, local->entry_capacity);
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
        local->name_hints = (_Atomic uint64_t *)(void *)(local->map + layout.name_hints);
        local->entry_hints = (_Atomic uint64_t *)(void *)(local->map + layout.entry_hints);
        local->names = (struct name *)(void *)(local->map + layout.names);
        local->entries = (struct entry *)(void *)(local->map + layout.entries);
        claims = mmap(NULL, local->entry_capacity * sizeof(struct claim *), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (claims == MAP_FAILED)
                return why_system(why, errno, "no memory for the table of claims");
        local->claims = claims;
        return PAWL_OK;
}

static void see_boot(struct local *local)
{
        int64_t now = clock_ns(CLOCK_BOOTTIME);

        raise_to(&local->header->seen, now);
        atomic_store(&local->header->seen_real, clock_ns(CLOCK_REALTIME));
}

/* The state is good, and nobody replaces it meanwhile. */
static int enter_state(struct local *local, struct pawl_why *why)
{
        int code = map_state(local, why);

        if (code == PAWL_OK && (local->mend || !process_any_alive(local->alive_fd, PROCESSES_MAX)))
                code = token_mend(local, why);
        if (code == PAWL_OK)
                code = process_join(local, why);
        if (code == PAWL_OK)
                see_boot(local);
        return code;
}

static int open_state(struct local *local, struct pawl_why *why)
{
        uint64_t fence = token_floor();

        for (int round = 0; round < 8; round++) {
                enum verdict verdict = STALE;
                int code = init_take(local, F_RDLCK, why);

                if (code != PAWL_OK)
                        return code;
                code = look_at_state(local, &verdict, &fence, why);
                if (code == PAWL_OK && verdict == GOOD)
                        code = enter_state(local, why);
                init_give(local);
                if (code != PAWL_OK || verdict == GOOD)
                        return code;
                if (!local->create)
                        return nothing_there(local, why);
                code = make_state(local, fence, why);
                if (code != PAWL_OK)
                        return code;
        }
        return damaged(local, why);
}

/* From the root on, so that it is known later whether the directory was moved: the program may change its directory. */
static int set_whole_path(struct local *local, struct pawl_why *why)
{
        char directory[4096] = "";
        struct stat root;
        int length;

        if (local->path[0] != '/' && getcwd(directory, sizeof(directory)) == NULL)
                return why_system(why, errno, "cannot find out which directory this is");
        length = asprintf(&local->whole_path, "%s%s%s/state", directory, directory[0] != '\0' ? "/" : "", local->path);
        if (length < 0) {
                local->whole_path = NULL;
                return why_set(why, PAWL_NO_MEMORY, "no memory");
        }
        if (stat("/", &root) != 0)
                return why_system(why, errno, "cannot look at /");
        local->root[0] = root.st_dev;
        local->root[1] = root.st_ino;
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
            (code = check_filesystem(local, why)) != PAWL_OK || (code = set_whole_path(local, why)) != PAWL_OK ||
            (code = open_alive(local, why)) != PAWL_OK)
                return code;
        return open_state(local, why);
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
        free(local->whole_path);
        free(local->path);
}

/* Whether the path still leads to our file. It cannot be told if the program has another root since, or may no longer look:
 * then it does. */
static bool is_in_its_place(const struct local *local, const struct stat *ours)
{
        struct stat root;
        struct stat named;

        if (stat("/", &root) != 0 || root.st_dev != local->root[0] || root.st_ino != local->root[1])
                return true;
        if (stat(local->whole_path, &named) != 0)
                return errno != ENOENT && errno != ENOTDIR;
        return named.st_ino == ours->st_ino && named.st_dev == ours->st_dev;
}

static int is_gone(struct local *local, int code, const char *how)
{
        local->gone = how;
        return local->gone_code = code;
}

/* Whether a descriptor is still the one that we opened; one that cannot be asked is. */
static bool is_ours(int fd, uint64_t inode, struct stat *status)
{
        if (fstat(fd, status) == 0)
                return status->st_ino == inode;
        *status = (struct stat){.st_nlink = 1};
        return errno != EBADF;
}

static int check_there(struct local *local)
{
        struct stat state;
        struct stat alive;

        if (!is_ours(local->state_fd, local->header->inode, &state) ||
            !is_ours(local->alive_fd, local->header->alive_inode, &alive))
                return is_gone(
                        local, PAWL_MISUSE,
                        "the program closed descriptors of pawl's, by which others see that it lives (close_range?); "
                        "close the client and open another");
        if (!process_is_ours(local)) /* another client of this program may have got the same numbers */
                return is_gone(
                        local, PAWL_MISUSE,
                        "others took this client for dead: the program closed descriptors of pawl's (close_range?), "
                        "or the state file is damaged; close the client and open another");
        if (state.st_nlink == 0)
                return is_gone(local, PAWL_CORRUPT,
                               "the state file was removed while it was in use; close and open again");
        if (state.st_ino != 0 && !is_in_its_place(local, &state))
                return is_gone(
                        local, PAWL_CORRUPT,
                        "the directory was moved or replaced while it was in use: who opens it now shares no lock "
                        "with us; close and open again");
        return PAWL_OK;
}

bool file_is_there(struct local *local)
{
        return local->gone == NULL && check_there(local) == PAWL_OK;
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

int file_rename(int from, const char *name, int to, const char *fresh_name, unsigned flags)
{
        return (int)syscall(SYS_renameat2, from, name, to, fresh_name, flags);
}

/* Where the file system cannot: an empty directory in its place is replaced, and who opened that finds it gone. */
static int rename_new(int parent, const char *fresh, const char *name)
{
        if (file_rename(parent, fresh, parent, name, RENAME_NOREPLACE) == 0)
                return 0;
        return errno == EINVAL || errno == ENOSYS ? renameat(parent, fresh, parent, name) : -1;
}

/* Under another name first: nobody sees it before the group has its rights. Several may do so at a time; who was not the
 * first opens what is there. */
static int make_fresh(struct local *local, int parent, const char *fresh, const char *shown, struct pawl_why *why)
{
        int fd = -1;
        int code;

        (void)unlinkat(parent, fresh, AT_REMOVEDIR); /* of a member who died here, whom alone it would let in */
        if (mkdirat(parent, fresh, 0700) != 0 && errno != EEXIST)
                return why_system(why, errno, "cannot make the directory %s/%s", local->path, shown);
        code = file_open_below(local, parent, fresh, shown, &fd, why);
        if (code == PAWL_OK)
                file_share(local, fd, 0770);
        if (fd >= 0)
                close(fd);
        return code == PAWL_NOT_FOUND ? PAWL_OK : code;
}

int file_make_below(struct local *local, int parent, const char *name, const char *shown, int *fd, struct pawl_why *why)
{
        char fresh[32];
        int code;

        snprintf(fresh, sizeof(fresh), "%s.new", name);
        code = make_fresh(local, parent, fresh, shown, why);
        if (code != PAWL_OK)
                return code;
        hook(local, 66);
        if (rename_new(parent, fresh, name) != 0) {
                if (errno != EEXIST && errno != ENOENT)
                        return why_system(why, errno, "cannot put the directory %s/%s into place", local->path, shown);
                (void)unlinkat(parent, fresh, AT_REMOVEDIR);
        } else if (fsync(parent) != 0) {
                return why_system(why, errno, "cannot write the directory %s to disk", local->path);
        }
        code = file_open_below(local, parent, name, shown, fd, why);
        if (code == PAWL_NOT_FOUND)
                return why_set(why, PAWL_SYSTEM, "%s/%s was removed while it was made", local->path, shown);
        return code;
}

int file_open_values(struct local *local, bool make, int *fd, struct pawl_why *why)
{
        int code = file_open_below(local, local->directory_fd, "values", "values", fd, why);

        if (code != PAWL_NOT_FOUND || !make)
                return code;
        return file_make_below(local, local->directory_fd, "values", "values", fd, why);
}

/* ---- growth: disk space before first use, so that a full disk is an error and never a SIGBUS --------------------- */

int file_grow_names(struct local *local)
{
        struct header *header = local->header;
        uint32_t from = atomic_load(&header->names_room);
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
                (void)atomic_compare_exchange_strong(&header->names_room, &from,
                                                     from + count); /* if not, another did */
        return code;
}

int file_grow_entries(struct local *local)
{
        struct header *header = local->header;
        uint32_t from = atomic_load(&header->entries_room);
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
                (void)atomic_compare_exchange_strong(&header->entries_room, &from,
                                                     from + count); /* if not, another did */
        return code;
}
