/* sqlite_examine.c - is the database fit to keep marks? Where it lies, who may write it, how it commits, what is damaged. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../base/quote.h"
#include "../../base/storage.h"
#include "sqlite.h"

enum { WORD_MAX = PATH_MAX + 512 };

struct examination {
        struct sqlite *sqlite;
        pawl_finding_fn *fn;
        void *arg;
        int ended; /* they want no more */
};

static void tell(struct examination *examination, enum pawl_severity severity, const char *what, const char *mend)
{
        const struct pawl_finding finding = {
                .severity = severity, .where = examination->sqlite->path, .what = what, .mend = mend};

        if (!examination->ended)
                examination->ended = examination->fn(&finding, examination->arg);
}

/* "command PATH", to be copied. */
static void mend_with(const char *command, const char *path, char *mend, size_t size)
{
        char word[WORD_MAX];

        quote_for_shell(path, word, sizeof(word));
        snprintf(mend, size, "%s %s", command, word);
}

static void name_directory(const struct sqlite *sqlite, char *directory, size_t size)
{
        const char *slash = strrchr(sqlite->path, '/');
        int length = slash && slash > sqlite->path ? (int)(slash - sqlite->path) : 1;

        snprintf(directory, size, "%.*s", length, sqlite->path);
}

/* Of its directory: the database itself is opened by SQLite alone. */
static void examine_storage(struct examination *examination, const char *directory)
{
        int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const char *name = "";
        enum storage storage = fd < 0 ? STORAGE_UNKNOWN : storage_of(fd, &name);
        char what[256];

        if (fd >= 0)
                close(fd);
        if (storage == STORAGE_MEMORY)
                tell(examination, PAWL_WARNING,
                     "it is in memory (tmpfs): marks and data are gone after a reboot, and then old tokens pass",
                     "put it on a disk");
        else if (storage == STORAGE_REMOTE) {
                snprintf(what, sizeof(what),
                         "it is on %s: SQLite's locks and fsync may not be true there, and then marks are lost", name);
                tell(examination, PAWL_DANGER, what, "put it on a disk of the machine that uses it");
        } else if (storage == STORAGE_UNKNOWN)
                tell(examination, PAWL_WARNING, "what it is on cannot be found out: its directory cannot be read", "");
        else
                tell(examination, PAWL_FINE, "it is on a disk: marks survive crashes and reboots", "");
}

static void examine_sharing(struct examination *examination, const char *directory)
{
        struct stat file = {0}, around = {0};
        char what[256];
        char mend[WORD_MAX + 64];

        if (lstat(examination->sqlite->path, &file) != 0 || stat(directory, &around) != 0) {
                tell(examination, PAWL_DANGER, "it cannot be looked at any more", "");
                return;
        }
        if ((file.st_mode & S_IWOTH) != 0) {
                mend_with("chmod o-w", examination->sqlite->path, mend, sizeof(mend));
                tell(examination, PAWL_DANGER, "everybody may write to it, and lower or remove marks", mend);
        } else if ((around.st_mode & S_IWOTH) != 0 && (around.st_mode & S_ISVTX) == 0) {
                mend_with("chmod o-w", directory, mend, sizeof(mend));
                tell(examination, PAWL_DANGER, "everybody may write to its directory, and put another in its place",
                     mend);
        } else if ((file.st_mode & S_IWGRP) != 0) {
                snprintf(what, sizeof(what), "group %u may write to it: each of its members can change marks and data",
                         (unsigned)file.st_gid);
                mend_with("chmod g-w", examination->sqlite->path, mend, sizeof(mend));
                tell(examination, PAWL_ADVICE, what, mend);
        } else
                tell(examination, PAWL_FINE, "only its owner may write to it", "");
        if (file.st_nlink > 1)
                tell(examination, PAWL_WARNING,
                     "it has a second name: who opens it by that has another journal, and damages it after a crash",
                     "remove that link");
        if (access(examination->sqlite->path, W_OK) != 0)
                tell(examination, PAWL_DANGER, "we may not write to it: every call will fail", "");
}

/* The first column of the first row, as text. */
static int ask(struct sqlite *sqlite, const char *question, char *answer, size_t size, struct pawl_why *why)
{
        sqlite3_stmt *statement = NULL;
        int code = sqlite3_prepare_v2(sqlite->db, question, -1, &statement, NULL);

        if (code == SQLITE_OK)
                code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
                const unsigned char *text = sqlite3_column_text(statement, 0);

                snprintf(answer, size, "%s", text ? (const char *)text : "");
                code = PAWL_OK;
        } else if (code == SQLITE_DONE) {
                answer[0] = 0;
                code = PAWL_OK;
        } else
                code = sqlite_fail(sqlite, code, why);
        sqlite3_finalize(statement);
        return code;
}

static void examine_commits(struct examination *examination)
{
        char mode[32], synchronous[32], what[256];
        struct pawl_why why;

        if (ask(examination->sqlite, "PRAGMA main.journal_mode", mode, sizeof(mode), &why) != PAWL_OK ||
            ask(examination->sqlite, "PRAGMA main.synchronous", synchronous, sizeof(synchronous), &why) != PAWL_OK) {
                tell(examination, PAWL_DANGER, why.text, "restore it from a backup");
                return;
        }
        snprintf(what, sizeof(what),
                 "journal_mode is %s; what the guard commits is on the disk when it says so (synchronous %s)", mode,
                 strcmp(synchronous, "3") == 0 ? "EXTRA" : synchronous);
        tell(examination, strcmp(synchronous, "3") == 0 ? PAWL_FINE : PAWL_WARNING, what, "");
}

static void examine_pages(struct examination *examination)
{
        char answer[256], what[600];
        struct pawl_why why;

        if (ask(examination->sqlite, "PRAGMA main.quick_check(1)", answer, sizeof(answer), &why) != PAWL_OK)
                tell(examination, PAWL_DANGER, why.text, "restore it from a backup");
        else if (strcmp(answer, "ok") != 0) {
                snprintf(what, sizeof(what), "it is damaged: %s", answer);
                tell(examination, PAWL_DANGER, what, "restore it from a backup");
        } else
                tell(examination, PAWL_FINE, "quick_check finds no damage", "");
}

static void examine_marks(struct examination *examination)
{
        char count[32], floor[32], version[32], what[256];
        bool found = false;
        struct pawl_why why;

        if (sqlite_look_for_tables(examination->sqlite, &found, NULL, &why) != PAWL_OK) {
                tell(examination, PAWL_DANGER, why.text, "restore it from a backup");
                return;
        }
        if (!found) {
                tell(examination, PAWL_FINE, "it has no marks yet: pawl's tables are made with the first", "");
                return;
        }
        if (ask(examination->sqlite, "SELECT version FROM main.pawl_floor", version, sizeof(version), &why) !=
                    PAWL_OK ||
            ask(examination->sqlite, "SELECT token FROM main.pawl_floor", floor, sizeof(floor), &why) != PAWL_OK ||
            ask(examination->sqlite, "SELECT count(*) FROM main.pawl_mark", count, sizeof(count), &why) != PAWL_OK) {
                tell(examination, PAWL_DANGER, why.text, "restore it from a backup");
                return;
        }
        if (strtol(version, NULL, 10) != SCHEMA_VERSION) {
                tell(examination, PAWL_DANGER, "its marks were made by another version of pawl", "use that version");
                return;
        }
        snprintf(what, sizeof(what), "it has %s marks; resources without one admit no token below %s", count, floor);
        if (strcmp(floor, "0") == 0)
                snprintf(what, sizeof(what), "it has %s marks, and was never pruned", count);
        tell(examination, PAWL_FINE, what, "");
}

/* What SQLite has to say; unless it cannot even begin. */
static void examine_contents(struct examination *examination)
{
        struct pawl_why why;

        if (sqlite_set_up(examination->sqlite, &why) != PAWL_OK) {
                tell(examination, PAWL_DANGER, why.text, "");
                return;
        }
        examine_commits(examination);
        examine_pages(examination);
        examine_marks(examination);
}

int sqlite_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why)
{
        struct sqlite *sqlite = sqlite_of(guard);
        struct examination examination = {.sqlite = sqlite, .fn = fn, .arg = arg};
        char directory[PATH_MAX];
        char what[128];
        int code;

        code = sqlite_take_turn(sqlite, why);
        if (code != PAWL_OK)
                return code;
        name_directory(sqlite, directory, sizeof(directory));
        snprintf(what, sizeof(what), "it is read by SQLite %s", sqlite3_libversion());
        tell(&examination, PAWL_FINE, what, "");
        examine_storage(&examination, directory);
        examine_sharing(&examination, directory);
        examine_contents(&examination);
        sqlite_leave_turn(sqlite);
        return PAWL_OK;
}
