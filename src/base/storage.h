/* storage.h - what kind of file system something lies on: how far locks, fsync and reboots may be trusted there. */
#ifndef PAWL_STORAGE_H
#define PAWL_STORAGE_H

enum storage {
        STORAGE_DISK,   /* as far as we know */
        STORAGE_MEMORY, /* gone after a reboot */
        STORAGE_REMOTE, /* shared by machines: locks and fsync are not what they seem */
        STORAGE_UNKNOWN /* it cannot be asked: errno */
};

/* Of an open file or directory; *name is what people call the file system, "" if nothing is to be said. */
enum storage storage_of(int fd, const char **name);

#endif
