/* inject.h - makes allocations and system calls fail on demand. The library's references to them are bound to our own
 * functions by the linker (--wrap), which count, fail when told to, and else do the real thing. */
#ifndef INJECT_H
#define INJECT_H

#include <stdbool.h>

/* Everything that can be made to fail: X(name), as the linker knows it (the build sets _FILE_OFFSET_BITS). Its list of
 * --wrap must be the same (meson.build). */
/* clang-format off */
#define INJECT_ALLOCATIONS(X) X(malloc) X(calloc) X(realloc) X(asprintf) X(strndup) X(strdup)
#define INJECT_CALLS(X)                                                                                                \
        X(open64)                                                                                                      \
        X(openat64)                                                                                                    \
        X(mmap64)                                                                                                      \
        X(msync)                                                                                                       \
        X(fsync) X(fdatasync) X(ftruncate64) X(posix_fallocate64) X(fcntl64) X(fstat64) X(fstatfs64) X(stat64)         \
                X(mkdir) X(mkfifo) X(mkfifoat) X(unlinkat) X(renameat) X(fchmod) X(read) X(write) X(pread64)           \
                        X(pwrite64) X(epoll_create1) X(epoll_ctl) X(timerfd_create) X(timerfd_settime) X(eventfd)      \
                                X(getrandom) X(madvise) X(pthread_create) X(socket) X(connect) X(send)           \
                                        X(recv) X(getsockopt) X(setsockopt) X(getaddrinfo)
/* clang-format on */

enum injected {
#define INJECT_ENUM(name) INJECT_##name,
        INJECT_ALLOCATIONS(INJECT_ENUM) INJECT_CALLS(INJECT_ENUM)
#undef INJECT_ENUM
                INJECTED
};
enum { INJECT_ANY_ALLOCATION = INJECTED };

const char *inject_name(int which);

/* From now on the k-th call of which fails with error; all later ones too, if it is to last. */
void inject_arm(int which, long k, int error, bool lasting);
/* Everything works again. Returns whether something failed. */
bool inject_disarm(void);
/* How often which was called since inject_arm (k = 0: nothing fails, calls are only counted). */
long inject_calls(int which);
/* Allocations not freed so far. */
long inject_outstanding(void);

#endif
