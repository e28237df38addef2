/* history.c - appending records and reading them back. */
#include "history.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int64_t boottime_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_BOOTTIME, &now);
        return now.tv_sec * SECOND + now.tv_nsec;
}

bool history_open(struct history *history, const char *directory, uint32_t client)
{
        char path[512];

        snprintf(path, sizeof path, "%s/%u.history", directory, client);
        history->client = client;
        history->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        return history->fd >= 0;
}

void history_write(struct history *history, struct record record)
{
        if (write(history->fd, &record, sizeof record) != (ssize_t)sizeof record) {
                fprintf(stderr, "the history cannot be written\n");
                _exit(90);
        }
}

void history_close(struct history *history)
{
        close(history->fd);
}

/* A record cut short by a kill is not read. */
static bool load_file(const char *path, struct record **records, size_t *count)
{
        struct record *more;
        struct stat stat;
        size_t whole;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        bool good = false;

        if (fd < 0)
                return false;
        if (fstat(fd, &stat) != 0)
                goto out;
        whole = (size_t)stat.st_size / sizeof **records;
        more = realloc(*records, (*count + whole + 1) * sizeof **records);
        if (!more)
                goto out;
        *records = more;
        good = read(fd, more + *count, whole * sizeof *more) == (ssize_t)(whole * sizeof *more);
        *count += whole;
out:
        close(fd);
        return good;
}

bool history_load(const char *directory, struct record **records, size_t *count)
{
        struct dirent *entry;
        char path[1024];
        DIR *dir = opendir(directory);
        bool good = dir != NULL;

        *records = NULL;
        *count = 0;
        while (good && (entry = readdir(dir)) != NULL) {
                if (!strstr(entry->d_name, ".history"))
                        continue;
                snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
                good = load_file(path, records, count);
        }
        if (dir)
                closedir(dir);
        return good;
}
