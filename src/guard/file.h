/* file.h - what the files of the guard for files share: the guard, one resource locked, and its files. */
#ifndef PAWL_GUARD_FILE_H
#define PAWL_GUARD_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "guard.h"
#include "mark.h"

enum { FILE_NAME_MAX = 200 };

#define LOCK_FILE ".pawl.lock"
#define FLOOR_FILE ".pawl.floor"
#define MARK_END ".pawl"
#define NEXT_DATA_END ".new"
#define NEXT_MARK_END "-new"
/* What the floor's mark says it is of: no resource, whose names in files have no dot in front. */
#define FLOOR_NAME ".floor"

struct files {
        pawl_guard guard;
        int directory; /* plus one: 0 is none */
        uint32_t wait_ms;
        char *path;
};

/* One resource, locked; or the floor. */
struct place {
        int directory;
        int lock;
        uint64_t token; /* the greatest admitted so far; 0: none */
        uint64_t swap;  /* the id of the swap that made it so; 0: none did */
        const struct visit *visit;
        char data[FILE_NAME_MAX + 1];
        char mark[FILE_NAME_MAX + 16];
        char next_data[FILE_NAME_MAX + 16];
        char next_mark[FILE_NAME_MAX + 16];
};

static inline struct files *files_of(pawl_guard *guard)
{
        return (struct files *)guard;
}

static inline int directory_of(pawl_guard *guard)
{
        return files_of(guard)->directory - 1;
}

/* ---- file_place.c ------------------------------------------------------------------------------------------------ */

/* A regular file of the directory, or -1 and an errno; ELOOP for anything that is not one. */
int place_open_regular(int directory, const char *name, int flags, struct stat *info);
/* The sentence for an errno. */
int place_cannot(const struct visit *visit, int error, const char *what, const char *name);
/* Up to room bytes. The size, or -1 and errno. */
ssize_t place_read_all(int fd, char *bytes, size_t room);
/* No mark yet is token 0. Everything else that is not a whole mark is an error: never a pass. swap, the id of the swap that
 * made it, may be NULL. */
int place_read_mark(int directory, const char *file, const char *name, const struct visit *visit, uint64_t *token,
                    uint64_t *swap);
static inline int place_read_floor(int directory, const struct visit *visit, uint64_t *floor)
{
        return place_read_mark(directory, FLOOR_FILE, FLOOR_NAME, visit, floor, NULL);
}

/* Names the files of the visit's resource. */
int place_name(pawl_guard *guard, const struct visit *visit, struct place *place);
/* Names those of the floor. */
void place_name_floor(pawl_guard *guard, const struct visit *visit, struct place *place);
int place_lock(struct place *place, uint32_t wait_ms);
/* The same for who only reads, and may not be allowed to write: then it is shared with others that read. */
int place_lock_to_read(struct place *place, uint32_t wait_ms);
void place_leave(struct place *place);

int place_sync_directory(const struct place *place);
/* Writes the file that will replace target. A new one has this mode; one that is not for all is for the group of a directory
 * that the group may write. */
int place_prepare(const struct place *place, const char *next, const char *target, mode_t mode, const void *bytes,
                  size_t size);
/* Puts it in target's place, on the disk. */
int place_replace(const struct place *place, const char *next, const char *target);
/* Makes the visit's token the greatest, on the disk, with place->swap beside it. */
int place_raise_mark(const struct place *place);

/* ---- file_list.c, file_examine.c --------------------------------------------------------------------------------- */

/* Calls visit for each file of the directory until it returns other than 0. */
typedef int file_name_fn(const char *file, void *arg);
int file_each(pawl_guard *guard, file_name_fn *fn, void *arg, struct pawl_why *why);
/* .NAME.pawl: the resource it is the mark of. */
bool file_is_mark(const char *file, char name[FILE_NAME_MAX + 1], char resource[PAWL_NAME_MAX + 1]);

int file_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why);
int file_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why, uint64_t *pruned);
int file_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why);

#endif
