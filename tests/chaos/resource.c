/* resource.c - the guarded counter and its unguarded twin. */
#include "resource.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool resource_open(struct resource *resource, const char *path)
{
        resource->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (resource->fd < 0 || ftruncate(resource->fd, sizeof *resource->map) != 0)
                return false;
        resource->map = mmap(NULL, sizeof *resource->map, PROT_READ | PROT_WRITE, MAP_SHARED, resource->fd, 0);
        pthread_mutex_init(&resource->mutex, NULL);
        return resource->map != MAP_FAILED;
}

void resource_close(struct resource *resource)
{
        munmap(resource->map, sizeof *resource->map);
        close(resource->fd);
}

static void change_lock(struct resource *resource, short type, unsigned name)
{
        struct flock flock = {.l_type = type, .l_whence = SEEK_SET, .l_start = name, .l_len = 1};

        if (fcntl(resource->fd, F_SETLKW, &flock) != 0) {
                fprintf(stderr, "the resource cannot be locked\n");
                _exit(91);
        }
}

static void enter(struct resource *resource, unsigned name)
{
        pthread_mutex_lock(&resource->mutex);
        change_lock(resource, F_WRLCK, name);
}

static void leave(struct resource *resource, unsigned name)
{
        change_lock(resource, F_UNLCK, name);
        pthread_mutex_unlock(&resource->mutex);
}

static uint64_t last_value(struct counter *counter)
{
        uint64_t count = atomic_load(&counter->count);

        return count == 0 ? 0 : counter->log[count - 1].wrote;
}

/* A full log forgets nothing: it lets nobody in any more. */
static bool append(struct counter *counter, const struct effect *effect)
{
        uint64_t count = atomic_load(&counter->count);

        if (count == RESOURCE_LOG)
                return false;
        counter->log[count] = *effect;
        atomic_store(&counter->count, count + 1);
        return true;
}

static bool fence(struct counter *counter, uint64_t token)
{
        if (token < atomic_load(&counter->highest)) {
                atomic_fetch_add(&counter->refused, 1);
                return false;
        }
        atomic_store(&counter->highest, token);
        return true;
}

bool resource_admit(struct resource *resource, unsigned name, uint64_t token)
{
        bool admitted;

        enter(resource, name);
        admitted = fence(&resource->map->fenced[name], token);
        leave(resource, name);
        return admitted;
}

bool resource_read(struct resource *resource, unsigned name, uint64_t token, uint64_t *value)
{
        struct counter *counter = &resource->map->fenced[name];
        bool admitted;

        enter(resource, name);
        admitted = fence(counter, token);
        if (admitted)
                *value = last_value(counter);
        leave(resource, name);
        return admitted;
}

bool resource_write(struct resource *resource, unsigned name, const struct effect *effect)
{
        struct counter *counter = &resource->map->fenced[name];
        bool admitted;

        enter(resource, name);
        admitted = fence(counter, effect->token) && append(counter, effect);
        leave(resource, name);
        return admitted;
}

void twin_read(struct resource *resource, unsigned name, uint64_t *value)
{
        enter(resource, name);
        *value = last_value(&resource->map->twin[name]);
        leave(resource, name);
}

void twin_write(struct resource *resource, unsigned name, const struct effect *effect)
{
        enter(resource, name);
        append(&resource->map->twin[name], effect);
        leave(resource, name);
}
