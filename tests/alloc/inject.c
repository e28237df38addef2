/* inject.c - see inject.h. */
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

static struct {
        atomic_bool armed;
        atomic_int which;
        atomic_long k;
        atomic_int error;
        atomic_bool lasting;
        atomic_long seen; /* calls of which */
        atomic_bool struck;
        atomic_long calls[INJECTED];
        atomic_long outstanding;
} plan;

const char *inject_name(int which)
{
#define INJECT_TEXT(name) #name,
        static const char *const names[] = {INJECT_ALLOCATIONS(INJECT_TEXT) INJECT_CALLS(INJECT_TEXT) "an allocation"};
#undef INJECT_TEXT
        return names[which];
}

void inject_arm(int which, long k, int error, bool lasting)
{
        for (int i = 0; i < INJECTED; i++)
                atomic_store(&plan.calls[i], 0);
        atomic_store(&plan.which, which);
        atomic_store(&plan.k, k);
        atomic_store(&plan.error, error);
        atomic_store(&plan.lasting, lasting);
        atomic_store(&plan.seen, 0);
        atomic_store(&plan.struck, false);
        atomic_store(&plan.armed, true);
}

bool inject_disarm(void)
{
        atomic_store(&plan.armed, false);
        return atomic_load(&plan.struck);
}

long inject_calls(int which)
{
        return atomic_load(&plan.calls[which]);
}

long inject_outstanding(void)
{
        return atomic_load(&plan.outstanding);
}

static bool is_meant(enum injected what)
{
        int which = atomic_load(&plan.which);

        return which == (int)what || (which == INJECT_ANY_ALLOCATION && what <= INJECT_strdup);
}

/* Is it this call's turn to fail? */
static bool strikes(enum injected what)
{
        long k, seen;

        if (!atomic_load(&plan.armed))
                return false;
        atomic_fetch_add(&plan.calls[what], 1);
        if (!is_meant(what))
                return false;
        k = atomic_load(&plan.k);
        seen = atomic_fetch_add(&plan.seen, 1) + 1;
        if (k == 0 || seen < k || (seen > k && !atomic_load(&plan.lasting)))
                return false;
        atomic_store(&plan.struck, true);
        errno = atomic_load(&plan.error);
        return true;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *__wrap_strndup(const char *text, size_t most);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static void *counted(void *memory)
{
        if (memory)
                atomic_fetch_add(&plan.outstanding, 1);
        return memory;
}

void *__wrap_malloc(size_t size)
{
        return strikes(INJECT_malloc) ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
        return strikes(INJECT_calloc) ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
        void *memory = strikes(INJECT_realloc) ? NULL : __real_realloc(old, size);

        return old ? memory : counted(memory);
}

int __wrap_asprintf(char **text, const char *format, ...)
{
        va_list arguments;
        int length;

        if (strikes(INJECT_asprintf))
                return -1;
        va_start(arguments, format);
        length = vasprintf(text, format, arguments);
        va_end(arguments);
        if (length >= 0)
                counted(*text);
        return length;
}

char *__wrap_strndup(const char *text, size_t most)
{
        size_t length = strnlen(text, most);
        char *copy = strikes(INJECT_strndup) ? NULL : counted(__real_malloc(length + 1));

        if (!copy)
                return NULL;
        memcpy(copy, text, length);
        copy[length] = '\0';
        return copy;
}

char *__wrap_strdup(const char *text)
{
        size_t size = strlen(text) + 1;
        char *copy = strikes(INJECT_strdup) ? NULL : counted(__real_malloc(size));

        return copy ? memcpy(copy, text, size) : NULL;
}

void __wrap_free(void *memory)
{
        if (memory)
                atomic_fetch_sub(&plan.outstanding, 1);
        __real_free(memory);
}

/* ---- system calls ---------------------------------------------------------------------------------------------- */

#define WRAP(type, name, failure, parameters, arguments)                                                               \
        type __real_##name parameters;                                                                                 \
        type __wrap_##name parameters;                                                                                 \
        type __wrap_##name parameters                                                                                  \
        {                                                                                                              \
                return strikes(INJECT_##name) ? (failure) : __real_##name arguments;                                   \
        }

WRAP(void *, mmap64, MAP_FAILED, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))
WRAP(int, msync, -1, (void *at, size_t size, int flags), (at, size, flags))
WRAP(int, fsync, -1, (int fd), (fd))
WRAP(int, fdatasync, -1, (int fd), (fd))
WRAP(int, ftruncate64, -1, (int fd, off_t size), (fd, size))
WRAP(int, posix_fallocate64, errno, (int fd, off_t offset, off_t size), (fd, offset, size))
WRAP(int, fstat64, -1, (int fd, struct stat *status), (fd, status))
WRAP(int, fstatfs64, -1, (int fd, struct statfs *status), (fd, status))
WRAP(int, stat64, -1, (const char *path, struct stat *status), (path, status))
WRAP(int, mkdir, -1, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkfifo, -1, (const char *path, mode_t mode), (path, mode))
WRAP(int, mkfifoat, -1, (int fd, const char *path, mode_t mode), (fd, path, mode))
WRAP(int, unlinkat, -1, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(int, renameat, -1, (int from_fd, const char *from, int to_fd, const char *to), (from_fd, from, to_fd, to))
WRAP(int, fchmod, -1, (int fd, mode_t mode), (fd, mode))
WRAP(ssize_t, read, -1, (int fd, void *bytes, size_t size), (fd, bytes, size))
WRAP(ssize_t, write, -1, (int fd, const void *bytes, size_t size), (fd, bytes, size))
WRAP(ssize_t, pread64, -1, (int fd, void *bytes, size_t size, off_t offset), (fd, bytes, size, offset))
WRAP(ssize_t, pwrite64, -1, (int fd, const void *bytes, size_t size, off_t offset), (fd, bytes, size, offset))
WRAP(int, epoll_create1, -1, (int flags), (flags))
WRAP(int, epoll_ctl, -1, (int epoll_fd, int what, int fd, struct epoll_event *event), (epoll_fd, what, fd, event))
WRAP(int, timerfd_create, -1, (int clock, int flags), (clock, flags))
WRAP(int, timerfd_settime, -1, (int fd, int flags, const struct itimerspec *new, struct itimerspec *old),
     (fd, flags, new, old))
WRAP(int, eventfd, -1, (unsigned value, int flags), (value, flags))
WRAP(ssize_t, getrandom, -1, (void *bytes, size_t size, unsigned flags), (bytes, size, flags))
WRAP(int, madvise, -1, (void *at, size_t size, int advice), (at, size, advice))
WRAP(int, pthread_create, errno, (pthread_t * thread, const pthread_attr_t *how, void *(*run)(void *), void *arg),
     (thread, how, run, arg))
WRAP(int, socket, -1, (int family, int type, int protocol), (family, type, protocol))
WRAP(int, connect, -1, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
WRAP(ssize_t, send, -1, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags))
WRAP(ssize_t, recv, -1, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags))
WRAP(int, getsockopt, -1, (int fd, int level, int option, void *value, socklen_t *size),
     (fd, level, option, value, size))
WRAP(int, setsockopt, -1, (int fd, int level, int option, const void *value, socklen_t size),
     (fd, level, option, value, size))
WRAP(int, getaddrinfo, EAI_SYSTEM,
     (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found),
     (host, service, hints, found))

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...);
int __real_fcntl64(int fd, int what, ...);
int __wrap_fcntl64(int fd, int what, ...);

int __wrap_open64(const char *path, int flags, ...)
{
        va_list arguments;
        mode_t mode = 0;

        va_start(arguments, flags);
        if (flags & O_CREAT)
                mode = va_arg(arguments, mode_t);
        va_end(arguments);
        return strikes(INJECT_open64) ? -1 : __real_open64(path, flags, mode);
}

int __wrap_openat64(int fd, const char *path, int flags, ...)
{
        va_list arguments;
        mode_t mode = 0;

        va_start(arguments, flags);
        if (flags & O_CREAT)
                mode = va_arg(arguments, mode_t);
        va_end(arguments);
        return strikes(INJECT_openat64) ? -1 : __real_openat64(fd, path, flags, mode);
}

/* The third argument is a word or a pointer: one register either way. */
int __wrap_fcntl64(int fd, int what, ...)
{
        va_list arguments;
        void *argument;

        va_start(arguments, what);
        argument = va_arg(arguments, void *);
        va_end(arguments);
        return strikes(INJECT_fcntl64) ? -1 : __real_fcntl64(fd, what, argument);
}
