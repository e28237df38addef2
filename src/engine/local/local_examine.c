/* local_examine.c - is the directory fit to keep locks? What pawl doctor asks: where it lies, who may write to it, what
 * room is left. */
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "../../base/quote.h"
#include "local.h"

/* New names and claims are refused when the disk is full: say so before. */
#define DISK_LOW (UINT64_C(64) << 20)

enum { TEXT_MAX = 4096 + 512 };

static void tell(const struct local *local, struct inquiry *inquiry, enum pawl_severity severity, const char *what,
                 const char *mend)
{
        struct pawl_finding finding = {.severity = severity, .where = local->path, .what = what, .mend = mend};

        inquiry->finding(inquiry, &finding);
}

static void examine_storage(const struct local *local, struct inquiry *inquiry)
{
        if (local->on_tmpfs)
                tell(local, inquiry, PAWL_WARNING,
                     "the directory is in memory (tmpfs): after a reboot only the wall clock keeps tokens growing, and "
                     "a clock that was set back lets them repeat",
                     "export PAWL_URL=local:/var/lib/pawl");
        else
                tell(local, inquiry, PAWL_FINE, "the directory is on a disk: tokens grow across crashes and reboots",
                     "");
}

/* "web (1000)", or the number alone if nobody is called so. */
static void user_text(uid_t user, char *text, size_t size)
{
        char buffer[4096];
        struct passwd entry;
        struct passwd *found = NULL;

        if (getpwuid_r(user, &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL)
                snprintf(text, size, "%s (%u)", found->pw_name, (unsigned)user);
        else
                snprintf(text, size, "%u", (unsigned)user);
}

static void group_text(gid_t group, char *text, size_t size)
{
        char buffer[4096];
        struct group entry;
        struct group *found = NULL;

        if (getgrgid_r(group, &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL)
                snprintf(text, size, "%s (%u)", found->gr_name, (unsigned)group);
        else
                snprintf(text, size, "%u", (unsigned)group);
}

static void examine_sharing(const struct local *local, struct inquiry *inquiry)
{
        char word[2 * TEXT_MAX];
        char user[64];
        char group[64];
        char what[384];
        char mend[2 * sizeof(word) + 64];
        struct stat status;

        if (fstat(local->directory_fd, &status) != 0) {
                tell(local, inquiry, PAWL_DANGER, "the directory cannot be looked at any more", "");
                return;
        }
        user_text(status.st_uid, user, sizeof(user));
        if (!local->shared_directory) {
                snprintf(what, sizeof(what), "only user %s may write to it: other users do not share its locks", user);
                tell(local, inquiry, PAWL_FINE, what, "");
                return;
        }
        group_text(status.st_gid, group, sizeof(group));
        snprintf(what, sizeof(what),
                 "user %s and group %s may write to it and share its locks: "
                 "each of them can take, break and damage every lock in it",
                 user, group);
        quote_for_shell(local->path, word, sizeof(word));
        snprintf(mend, sizeof(mend), "chmod 700 %s && chmod -R u=rwX,go= %s", word, word);
        tell(local, inquiry, PAWL_ADVICE, what, mend);
}

/* Locks work without them: said here, and whenever one is stored or fetched. */
static void examine_values(struct local *local, struct inquiry *inquiry)
{
        struct pawl_why why = {0};
        int fd = -1;
        int code = file_open_values(local, false, &fd, &why);

        if (fd >= 0)
                close(fd);
        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                tell(local, inquiry, PAWL_WARNING, why.text, "");
}

/* Has its name still its inode? A directory that was removed and made again has other locks than ours. */
static void examine_name(const struct local *local, struct inquiry *inquiry)
{
        struct stat ours;
        struct stat named;

        if (fstat(local->directory_fd, &ours) == 0 && stat(local->path, &named) == 0 && ours.st_ino == named.st_ino &&
            ours.st_dev == named.st_dev)
                return;
        tell(local, inquiry, PAWL_DANGER,
             "the directory was removed or replaced while it was in use: who opens it now shares no lock with us", "");
}

static uint32_t count_names(const struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->names_ready, memory_order_acquire);
        uint32_t count = 0;

        for (uint32_t i = 0; i < ready && i < local->name_capacity; i++)
                count += atomic_load(&local->names[i].used) == 1;
        return count;
}

static uint32_t count_entries(const struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->entries_ready, memory_order_acquire);
        uint32_t count = 0;

        for (uint32_t i = 0; i < ready && i < local->entry_capacity; i++)
                count += entry_owner(&local->entries[i]) != 0;
        return count;
}

/* Those that died without a word are still marked; the kernel knows better. */
static uint32_t count_processes(struct local *local)
{
        uint32_t count = 0;

        for (uint32_t i = 0; i < local->process_capacity; i++)
                count += atomic_load(&local->processes[i].busy) == SLOT_BUSY &&
                         process_alive(local, identity(i, atomic_load(&local->processes[i].generation)));
        return count;
}

static void examine_room(struct local *local, struct inquiry *inquiry)
{
        const struct {
                const char *of;
                uint32_t used;
                uint32_t capacity;
        } rooms[] = {
                {"names", count_names(local), local->name_capacity},
                {"claims", count_entries(local), local->entry_capacity},
                {"clients", count_processes(local), local->process_capacity},
        };
        char what[256];
        size_t at = 0;
        bool low = false;

        for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
                at += (size_t)snprintf(what + at, sizeof(what) - at, "%s%" PRIu32 " of %" PRIu32 " %s", i ? ", " : "",
                                       rooms[i].used, rooms[i].capacity, rooms[i].of);
                low |= rooms[i].used >= rooms[i].capacity - rooms[i].capacity / 10;
        }
        snprintf(what + at, sizeof(what) - at, " are in use%s",
                 low ? ": nearly all, and new ones will be refused; use a second directory" : "");
        tell(local, inquiry, low ? PAWL_WARNING : PAWL_FINE, what, "");
}

static void examine_disk(const struct local *local, struct inquiry *inquiry)
{
        struct statvfs status;
        uint64_t left;
        char what[256];

        if (fstatvfs(local->directory_fd, &status) != 0)
                return;
        left = (uint64_t)status.f_bavail * status.f_frsize;
        if (left >= DISK_LOW)
                return;
        snprintf(what, sizeof(what),
                 "the disk has %" PRIu64 " MB left: new names, claims and values are refused when it is full",
                 left >> 20);
        tell(local, inquiry, PAWL_WARNING, what, "");
}

void local_examine(struct engine *engine, struct inquiry *inquiry)
{
        struct local *local = local_of(engine);

        examine_storage(local, inquiry);
        examine_sharing(local, inquiry);
        examine_values(local, inquiry);
        examine_name(local, inquiry);
        examine_room(local, inquiry);
        examine_disk(local, inquiry);
        inquiry->answered(inquiry, PAWL_OK, NULL);
}
