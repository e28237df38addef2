/* file_examine.c - is the directory fit to keep marks? Where it lies, who may write to it, and what is damaged in it. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "../base/quote.h"
#include "../base/storage.h"
#include "file.h"

/* Puts are refused when the disk is full: say so before. */
#define DISK_LOW (UINT64_C(64) << 20)

enum { WORD_MAX = PATH_MAX + 512 };

struct examination {
        pawl_guard *guard;
        pawl_finding_fn *fn;
        void *arg;
        int ended; /* they want no more */
        uint64_t marks;
        uint64_t leftovers;
};

static void tell(struct examination *examination, enum pawl_severity severity, const char *what, const char *mend)
{
        const struct pawl_finding finding = {
                .severity = severity, .where = files_of(examination->guard)->path, .what = what, .mend = mend};

        if (!examination->ended)
                examination->ended = examination->fn(&finding, examination->arg);
}

/* "command DIR/file", to be copied. */
static void mend_with(const struct examination *examination, const char *command, const char *file, char *mend,
                      size_t size)
{
        char path[WORD_MAX];
        char word[WORD_MAX + 64];

        snprintf(path, sizeof(path), "%s%s%s", files_of(examination->guard)->path, *file ? "/" : "", file);
        quote_for_shell(path, word, sizeof(word));
        snprintf(mend, size, "%s %s", command, word);
}

static void examine_storage(struct examination *examination)
{
        const char *name;
        enum storage storage = storage_of(directory_of(examination->guard), &name);
        char what[256];

        if (storage == STORAGE_MEMORY)
                tell(examination, PAWL_WARNING,
                     "the directory is in memory (tmpfs): marks and data are gone after a reboot, and then old tokens "
                     "pass",
                     "use a directory on a disk");
        else if (storage == STORAGE_REMOTE) {
                snprintf(what, sizeof(what),
                         "the directory is on %s: whether locks and fsync are true there is up to its server", name);
                tell(examination, PAWL_WARNING, what, "use a directory on a disk of this machine");
        } else if (storage == STORAGE_UNKNOWN)
                tell(examination, PAWL_WARNING, "what the directory is on cannot be found out", "");
        else
                tell(examination, PAWL_FINE, "the directory is on a disk: marks survive crashes and reboots", "");
}

static void examine_sharing(struct examination *examination)
{
        struct stat info;
        char what[256];
        char mend[2 * WORD_MAX];

        if (fstat(directory_of(examination->guard), &info) != 0) {
                tell(examination, PAWL_DANGER, "the directory cannot be looked at any more", "");
                return;
        }
        if ((info.st_mode & S_IWOTH) != 0) {
                mend_with(examination, "chmod o-w", "", mend, sizeof(mend));
                tell(examination, PAWL_DANGER,
                     "everybody may write to it: who removes a mark lets old tokens pass, and who makes one refuses "
                     "all",
                     mend);
        } else if ((info.st_mode & S_IWGRP) != 0) {
                snprintf(what, sizeof(what), "group %u may write to it: each of its members can change marks and data",
                         (unsigned)info.st_gid);
                mend_with(examination, "chmod g-w", "", mend, sizeof(mend));
                tell(examination, PAWL_ADVICE, what, mend);
        } else if (info.st_uid != geteuid() && info.st_uid != 0) {
                snprintf(what, sizeof(what), "it belongs to user %u, who can change marks and data",
                         (unsigned)info.st_uid);
                tell(examination, PAWL_ADVICE, what, "");
        } else
                tell(examination, PAWL_FINE, "only its owner may write to it", "");
        if (faccessat(directory_of(examination->guard), ".", W_OK | X_OK, AT_EACCESS) != 0)
                tell(examination, PAWL_DANGER, "we may not write to it: every call will fail", "");
}

/* Has its name still its inode? A directory that was removed and made again has other marks than ours. */
static void examine_name(struct examination *examination)
{
        struct stat ours;
        struct stat named;

        if (fstat(directory_of(examination->guard), &ours) == 0 &&
            stat(files_of(examination->guard)->path, &named) == 0 && ours.st_ino == named.st_ino &&
            ours.st_dev == named.st_dev)
                return;
        tell(examination, PAWL_DANGER,
             "the directory was removed or replaced while it was in use: who opens it now has other marks than we", "");
}

static void examine_disk(struct examination *examination)
{
        struct statvfs status;
        uint64_t left;
        char what[256];

        if (fstatvfs(directory_of(examination->guard), &status) != 0)
                return;
        left = (uint64_t)status.f_bavail * status.f_frsize;
        if (left >= DISK_LOW)
                return;
        snprintf(what, sizeof(what), "the disk has %" PRIu64 " MB left: when it is full every new token is refused",
                 left >> 20);
        tell(examination, PAWL_WARNING, what, "make room");
}

static void tell_damaged(struct examination *examination, const char *file, const struct pawl_why *why)
{
        char mend[2 * WORD_MAX];

        mend_with(examination, "when no older holder can be left: rm", file, mend, sizeof(mend));
        tell(examination, PAWL_DANGER, why->text, mend);
}

static bool is_leftover(const char *file)
{
        static const char *const ends[] = {NEXT_DATA_END, MARK_END NEXT_MARK_END, FLOOR_FILE NEXT_MARK_END};
        size_t length = strlen(file);

        for (size_t i = 0; file[0] == '.' && i < sizeof(ends) / sizeof(ends[0]); i++) {
                size_t end = strlen(ends[i]);

                if (length >= end && strcmp(file + length - end, ends[i]) == 0)
                        return true;
        }
        return false;
}

static int examine_file(const char *file, void *arg)
{
        struct examination *examination = arg;
        struct pawl_why why;
        const struct visit visit = {.why = &why};
        char name[FILE_NAME_MAX + 1];
        char resource[PAWL_NAME_MAX + 1];
        uint64_t token;

        if (file_is_mark(file, name, resource)) {
                examination->marks++;
                if (place_read_mark(directory_of(examination->guard), file, name, &visit, &token, NULL) != PAWL_OK)
                        tell_damaged(examination, file, &why);
        } else
                examination->leftovers += is_leftover(file);
        return examination->ended;
}

static int examine_files(struct examination *examination, struct pawl_why *why)
{
        struct pawl_why own;
        const struct visit visit = {.why = &own};
        char what[256];
        uint64_t floor;
        int code;

        if (place_read_floor(directory_of(examination->guard), &visit, &floor) != PAWL_OK)
                tell_damaged(examination, FLOOR_FILE, &own);
        else if (floor > 0) {
                snprintf(what, sizeof(what), "it was pruned: resources without a mark admit no token below %" PRIu64,
                         floor);
                tell(examination, PAWL_FINE, what, "");
        }
        code = file_each(examination->guard, examine_file, examination, why);
        if (code != PAWL_OK)
                return code;
        snprintf(what, sizeof(what), "it has %" PRIu64 " marks", examination->marks);
        tell(examination, PAWL_FINE, what, "");
        if (examination->leftovers == 0)
                return PAWL_OK;
        /* Or somebody is writing them this moment. */
        snprintf(what, sizeof(what),
                 "%" PRIu64 " files were left by writers that were killed, or are being written now",
                 examination->leftovers);
        tell(examination, PAWL_ADVICE, what, "the next put to each replaces them");
        return PAWL_OK;
}

int file_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why)
{
        struct examination examination = {.guard = guard, .fn = fn, .arg = arg};

        examine_storage(&examination);
        examine_sharing(&examination);
        examine_name(&examination);
        examine_disk(&examination);
        return examine_files(&examination, why);
}
