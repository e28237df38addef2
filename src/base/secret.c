/* secret.c - may a file be trusted with a secret? */
#include "secret.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* Root has put it there, and nobody can change it: a container's secret. On a disk that can be written a file that
 * everybody can read is rather a mistake. */
static bool is_handed_out(int fd, const struct stat *info)
{
        struct statvfs mounted;

        return info->st_uid == 0 && fstatvfs(fd, &mounted) == 0 && mounted.f_flag & ST_RDONLY;
}

int secret_check(int fd, const char *what, const char *path, struct pawl_why *why)
{
        struct stat info;

        if (fstat(fd, &info) != 0)
                return why_system(why, errno, "cannot look at the %s %s", what, path);
        if (!S_ISREG(info.st_mode))
                return why_set(why, PAWL_INVALID, "the %s %s is not a regular file", what, path);
        if (info.st_mode & (S_IWGRP | S_IWOTH))
                return why_set(why, PAWL_DENIED, "others can write the %s %s: chmod 600 it", what, path);
        if (info.st_mode & S_IROTH && !is_handed_out(fd, &info))
                return why_set(why, PAWL_DENIED, "everybody can read the %s %s: chmod 600 it", what, path);
        return PAWL_OK;
}
