/* tee.c - see tee.h. A thread of its own copies, so that the lock does not wait for whoever reads our output. */
#include "tee.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli.h"

/* Zeros behind what is kept: a reader of UTF-8 finds an end also where the last character was cut. */
enum { TEXT_END = 4 };

static void keep_bytes(struct tee *tee, const char *bytes, size_t size)
{
        size_t left = tee->room - tee->size;
        size_t fits = size < left ? size : left;

        memcpy(tee->bytes + tee->size, bytes, fits);
        tee->size += fits;
        tee->cut |= fits < size;
}

/* Nobody may read any more: COMMAND goes on all the same, and its result is kept. */
static void pass_bytes_on(struct tee *tee, const char *bytes, size_t size)
{
        while (size && !tee->mute && !tee->error) {
                ssize_t written = write(tee->own_output, bytes, size);

                if (written < 0 && errno == EINTR)
                        continue;
                if (written < 0 && errno == EAGAIN) { /* others who have this output may have made it so */
                        poll(&(struct pollfd){.fd = tee->own_output, .events = POLLOUT}, 1, -1);
                        continue;
                }
                if (written <= 0) {
                        tee->error = written < 0 ? errno : EIO;
                        return;
                }
                bytes += written;
                size -= (size_t)written;
        }
}

/* 0: there is nothing more now, or ever. */
static size_t read_some(const struct tee *tee, char *bytes, size_t room)
{
        ssize_t got;

        do
                got = read(tee->from, bytes, room);
        while (got < 0 && errno == EINTR);
        return got > 0 ? (size_t)got : 0;
}

/* False: there was nothing. */
static bool copy_some(struct tee *tee)
{
        char bytes[16384];
        size_t got;

        pthread_mutex_lock(&tee->mutex);
        got = read_some(tee, bytes, sizeof(bytes));
        keep_bytes(tee, bytes, got);
        pthread_mutex_unlock(&tee->mutex);
        pass_bytes_on(tee, bytes, got);
        return got > 0;
}

static void *copy(void *arg)
{
        struct tee *tee = arg;
        struct pollfd fds[] = {{.fd = tee->from, .events = POLLIN}, {.fd = tee->stop, .events = POLLIN}};

        while (!fds[1].revents) {
                if (poll(fds, 2, -1) < 0)
                        continue;
                if (fds[0].revents && !fds[1].revents && !copy_some(tee))
                        fds[0].fd = -1; /* all of it was taken: wait to be stopped */
        }
        pass_bytes_on(tee, tee->rest, tee->rest_size);
        return NULL;
}

static bool start_copying(struct tee *tee)
{
        sigset_t all, before;
        int error;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&tee->thread, NULL, copy, tee);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        errno = error;
        return !error;
}

/* Room for a whole pipe. Without memory for one that COMMAND has made larger the old one must do. */
static bool make_room_for_rest(struct tee *tee)
{
        int size = fcntl(tee->from, F_GETPIPE_SZ);
        char *rest = size > 0 && (size_t)size > tee->rest_room ? realloc(tee->rest, (size_t)size) : NULL;

        if (rest) {
                tee->rest = rest;
                tee->rest_room = (size_t)size;
        }
        return tee->rest;
}

bool tee_begin(struct tee *tee, size_t room, bool mute)
{
        int ends[2] = {-1, -1};

        *tee = (struct tee){.mutex = PTHREAD_MUTEX_INITIALIZER,
                            .mute = mute,
                            .room = room,
                            .bytes = calloc(1, room + TEXT_END),
                            .stop = eventfd(0, EFD_CLOEXEC)};
        tee->own_output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (tee->bytes && tee->stop >= 0 && tee->own_output >= 0 && fflush(stdout) == 0 &&
            pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0) {
                tee->from = ends[0];
                if (make_room_for_rest(tee) && start_copying(tee)) {
                        dup2(ends[1], STDOUT_FILENO);
                        close(ends[1]);
                        return true;
                }
        }
        say("cannot pass the command's output on: %s", strerror(errno));
        for (int i = 0; i < 2; i++)
                if (ends[i] >= 0)
                        close(ends[i]);
        return false;
}

void tee_take(struct tee *tee)
{
        size_t got;

        pthread_mutex_lock(&tee->mutex);
        make_room_for_rest(tee);
        while (tee->rest_size < tee->rest_room &&
               (got = read_some(tee, tee->rest + tee->rest_size, tee->rest_room - tee->rest_size)) > 0)
                tee->rest_size += got;
        keep_bytes(tee, tee->rest, tee->rest_size);
        pthread_mutex_unlock(&tee->mutex);
        eventfd_write(tee->stop, 1);
}

int tee_end(struct tee *tee)
{
        pthread_join(tee->thread, NULL);
        dup2(tee->own_output, STDOUT_FILENO);
        close(tee->from);
        close(tee->stop);
        close(tee->own_output);
        free(tee->bytes);
        free(tee->rest);
        return tee->error;
}
