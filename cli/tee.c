/* tee.c - see tee.h. A thread of its own copies, so that neither the lock nor COMMAND waits for whoever reads our output. */
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

static void keep_bytes(struct tee *tee, const char *bytes, size_t size)
{
        size_t left = tee->room - tee->size;
        size_t fits = size < left ? size : left;

        memcpy(tee->bytes + tee->size, bytes, fits);
        tee->size += fits;
        tee->cut |= fits < size;
}

/* Nobody may read any more: COMMAND goes on all the same, and its result is kept. */
static void pass_bytes_on(const struct tee *tee, const char *bytes, size_t size)
{
        while (size) {
                ssize_t written = write(tee->own_output, bytes, size);

                if (written < 0 && errno == EINTR)
                        continue;
                if (written <= 0)
                        return;
                bytes += written;
                size -= (size_t)written;
        }
}

/* False: there is nothing more now, or ever. */
static bool copy_some(struct tee *tee)
{
        char bytes[16384];
        ssize_t got;

        do
                got = read(tee->from, bytes, sizeof(bytes));
        while (got < 0 && errno == EINTR);
        if (got <= 0)
                return false;
        keep_bytes(tee, bytes, (size_t)got);
        pass_bytes_on(tee, bytes, (size_t)got);
        return true;
}

static void *copy(void *arg)
{
        struct tee *tee = arg;
        struct pollfd fds[] = {{.fd = tee->from, .events = POLLIN}, {.fd = tee->stop, .events = POLLIN}};

        while (!fds[1].revents) {
                if (poll(fds, 2, -1) < 0)
                        continue;
                if (fds[0].revents && !copy_some(tee))
                        fds[0].fd = -1; /* all ends are closed: wait to be stopped */
        }
        while (copy_some(tee))
                continue;
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

bool tee_begin(struct tee *tee, size_t room)
{
        int ends[2] = {-1, -1};

        *tee = (struct tee){.room = room, .bytes = malloc(room), .stop = eventfd(0, EFD_CLOEXEC)};
        tee->own_output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (tee->bytes && tee->stop >= 0 && tee->own_output >= 0 && fflush(stdout) == 0 &&
            pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0) {
                tee->from = ends[0];
                if (start_copying(tee)) {
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

void tee_end(struct tee *tee)
{
        eventfd_write(tee->stop, 1);
        pthread_join(tee->thread, NULL);
        dup2(tee->own_output, STDOUT_FILENO);
        close(tee->from);
        close(tee->stop);
        close(tee->own_output);
}
