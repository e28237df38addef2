/* local_bell.c - how a process learns of what others did to its claims. A futex word cannot be polled; so next to the
 * words on which blocked threads sleep each process has a list of news in the file and a FIFO in the directory: one
 * byte in it, and its loop looks at the list. And the timer that looks even if no bell was ever heard. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "local.h"

int futex_wake(_Atomic uint32_t *word, int count)
{
        return (int)syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns)
{
        struct timespec timeout = {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};

        (void)syscall(SYS_futex, word, FUTEX_WAIT, value, &timeout, NULL, 0);
}

/* ---- news -------------------------------------------------------------------------------------------------------- */

/* One that is listed is not listed again. Who dies between the two steps leaves an entry that is marked and not listed:
 * its news are found by the re-check, or with the next renewal. */
void news_list(struct local *local, struct entry *entry)
{
        uint32_t slot = (entry_owner(entry) & SLOT_MASK) - 1;
        struct process *process;
        uint32_t first;

        if (slot >= local->process_capacity || (atomic_fetch_or(&entry->flags, LISTED) & LISTED) != 0)
                return;
        hook(local, 60);
        process = &local->processes[slot];
        first = atomic_load(&process->news_first);
        do
                entry->news_next = first;
        while (!atomic_compare_exchange_weak(&process->news_first, &first, entry_reference(local, entry)));
}

void news_clear(struct local *local, struct process *process)
{
        (void)local;
        atomic_store(&process->news_first, 0);
}

/* Else it is in our list by mistake: it was ours once, and where it leads is another's list by now. */
static bool is_ours(const struct local *local, const struct entry *entry)
{
        uint32_t owner = entry_owner(entry);

        return owner == local->id || owner == DETACHED;
}

static void look_at_news(struct local *local, struct entry *entry)
{
        struct claim *claim = local->claims[entry_reference(local, entry) - 1];
        bool away = (atomic_fetch_and(&entry->flags, ~(uint32_t)LISTED) & AWAY) != 0;

        if (away && entry_owner(entry) == local->id) {
                entry_commit(entry, FREE);
                atomic_fetch_and(&entry->flags, ~(uint32_t)(AWAY | GIVEN_UP)); /* last: who rebuilds goes by them */
                entry_give(local, entry);
        } else if (!away && claim != NULL && !(claim->blocking && part_of(claim)->view != VIEW_HELD)) {
                claim_look(local, claim); /* one on which a thread sleeps is that thread's to look at */
        }
}

/* The list broke off. What else was in it is marked, and would never be listed again. One that was listed anew meanwhile
 * is looked at too early, and makes the next list break off: then it is looked at again. */
static void look_at_all(struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->entries_ready, memory_order_acquire);

        for (uint32_t i = 0; i < ready && i < local->entry_capacity; i++) {
                struct entry *entry = &local->entries[i];

                if (is_ours(local, entry) &&
                    (local->claims[i] != NULL || (entry_owner(entry) == local->id && (entry_flags(entry) & AWAY) != 0)))
                        look_at_news(local, entry);
        }
}

static void read_news(struct local *local)
{
        uint32_t steps = local->entry_capacity;
        uint32_t reference;

        atomic_store(&local->me->rung, 0); /* before the list is read: later news rings again */
        reference = atomic_exchange(&local->me->news_first, 0);
        while (reference != 0 && steps-- > 0) {
                struct entry *entry = entry_at(local, reference);

                if (entry == NULL || !is_ours(local, entry) || (entry_flags(entry) & LISTED) == 0) {
                        look_at_all(local); /* damaged, or a cycle */
                        return;
                }
                reference = entry->news_next; /* as long as it is marked, nobody lists it anew */
                look_at_news(local, entry);
        }
}

void news_check(struct local *local)
{
        if (atomic_load_explicit(&local->me->rung, memory_order_relaxed) != 0)
                read_news(local);
}

/* ---- the bell ---------------------------------------------------------------------------------------------------- */

static void bell_name(uint32_t slot, char *name, size_t size)
{
        snprintf(name, size, "bell.%u", (unsigned)slot);
}

static void on_bell(struct watch *watch, uint32_t events)
{
        struct local *local = container_of(watch, struct local, bell);
        char bytes[64];

        (void)events;
        while (read(local->bell.fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
                continue;
        read_news(local);
}

/* The FIFO of whoever had the slot before is as good as a new one, and much cheaper: making an inode is most of what
 * opening a client costs. So bells stay when their process leaves; with no reader they are deaf, and say so. */
static int open_fifo(struct local *local)
{
        int flags = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC;
        struct stat status;
        char name[32];
        int fd;

        bell_name(local->slot, name, sizeof(name));
        fd = openat(local->directory_fd, name, flags);
        if (fd < 0 && errno == ENOENT && mkfifoat(local->directory_fd, name, 0600) == 0)
                fd = openat(local->directory_fd, name, flags);
        if (fd < 0)
                return -1;
        if (fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode)) {
                close(fd);
                return -1;
        }
        if ((status.st_mode & S_IWGRP) == 0)
                file_share(local, fd, 0660);
        return fd;
}

/* When first something is acquired: those who only look need none. Without a bell the re-check does its work. */
void bell_open(struct local *local)
{
        if (local->bell_tried)
                return;
        local->bell_tried = true;
        local->bell.fd = open_fifo(local);
        local->bell.events = EPOLLIN;
        local->bell.ready = on_bell;
        if (local->bell.fd >= 0 && loop_watch(local->engine.host->loop, &local->bell) != 0) {
                close(local->bell.fd);
                local->bell.fd = -1;
        }
}

void bell_close(struct local *local)
{
        if (!local->bell_tried || local->bell.fd < 0)
                return;
        loop_unwatch(local->engine.host->loop, &local->bell);
        close(local->bell.fd);
        local->bell.fd = -1;
}

/* A write to a FIFO without a reader raises SIGPIPE in this thread, which would end our program. To keep a read end open
 * against that would make us the listener for others that ring meanwhile. */
static bool write_without_signal(int fd)
{
        const struct timespec at_once = {0};
        sigset_t pipe_signal;
        sigset_t before;
        sigset_t pending;
        bool written;
        bool raised;

        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        if (pthread_sigmask(SIG_BLOCK, &pipe_signal, &before) != 0)
                return false;
        sigpending(&pending);
        written = write(fd, "!", 1) == 1 || errno == EAGAIN;
        raised = !written && errno == EPIPE && !sigismember(&pending, SIGPIPE); /* one that was pending is not ours */
        while (raised && sigtimedwait(&pipe_signal, NULL, &at_once) < 0 && errno == EINTR)
                continue;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return written;
}

/* Only the process that has the slot ever opens the FIFO to read: one without a reader has no listener. */
static bool ring(struct local *local, uint32_t slot)
{
        char name[32];
        bool heard;
        int fd;

        bell_name(slot, name, sizeof(name));
        fd = openat(local->directory_fd, name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return false;
        hook(local, 70);
        heard = write_without_signal(fd);
        close(fd);
        return heard;
}

bool bell_ring(struct local *local, uint32_t id)
{
        uint32_t slot = (id & SLOT_MASK) - 1;
        uint32_t mine = local->id;
        struct process *process;

        if (slot >= local->process_capacity)
                return false;
        process = &local->processes[slot];
        if (atomic_load(&process->rung) == RUNG)
                return process_alive(local, id);
        /* Who else is about to ring may have died or been stopped before the byte. If ours is not to be had, for want of a
         * descriptor perhaps, there is news all the same, and the next one rings. */
        atomic_store(&process->rung, local->id);
        if (!ring(local, slot))
                return false;
        (void)atomic_compare_exchange_strong(&process->rung, &mine, RUNG);
        return true;
}

/* ---- the re-check ------------------------------------------------------------------------------------------------ */

static void look_through(struct local *local, struct list *list)
{
        struct list batch;

        list_init(&batch);
        list_splice(&batch, list);
        while (!list_empty(&batch)) {
                struct part *part = list_first(&batch, struct part, link);

                list_remove(&part->link);
                list_append(list, &part->link); /* if it stays what it is */
                claim_look(local, part->claim);
        }
}

/* Those who have waited for HEAD_CHECK sleep deeper from now on: claim_look moves them. */
static void look_at_fresh(struct local *local, int64_t now)
{
        while (!list_empty(&local->fresh)) {
                struct part *part = list_first(&local->fresh, struct part, link);

                if (part->recheck_at > now)
                        return;
                list_remove(&part->link);
                list_append(&local->deep, &part->link);
                claim_look(local, part->claim);
        }
}

static int64_t next_tick(struct local *local, int64_t now)
{
        int64_t at = NEVER;

        if (!list_empty(&local->limbo) || !list_empty(&local->stalled)) {
                at = now + local->stall_pause;
                local->stall_pause = local->stall_pause < STALL_MOST / 2 ? 2 * local->stall_pause : STALL_MOST;
        }
        if (!list_empty(&local->heads) && now + HEAD_CHECK < at)
                at = now + HEAD_CHECK;
        if (!list_empty(&local->fresh) && list_first(&local->fresh, struct part, link)->recheck_at < at)
                at = list_first(&local->fresh, struct part, link)->recheck_at;
        if (!list_empty(&local->deep) && local->full_check_at < at)
                at = local->full_check_at;
        return at;
}

static void on_tick(struct timer *timer)
{
        struct local *local = container_of(timer, struct local, tick);
        int64_t now = local_now(local);
        int64_t at;

        look_at_fresh(local, now);
        look_through(local, &local->stalled);
        look_through(local, &local->limbo);
        look_through(local, &local->heads);
        if (now >= local->full_check_at) {
                local->full_check_at = now + WAIT_CHECK;
                read_news(local);
                look_through(local, &local->deep);
        }
        at = next_tick(local, local_now(local));
        if (at != NEVER)
                tick_by(local, at);
}

void tick_by(struct local *local, int64_t at)
{
        local->tick.fire = on_tick;
        if (local->tick.place == 0 || local->tick.at > at)
                (void)loop_set(local->engine.host->loop, &local->tick,
                               at); /* no memory: the bell and the core's own look remain */
}
