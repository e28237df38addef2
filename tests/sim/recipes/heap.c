/* heap.c - whose memory it is. What a thread of a process has allocated is freed when the process dies, as the kernel
 * would; what is left when it is done was leaked, on whatever path the faults have led it. The world's own memory is
 * nobody's. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

enum { BUCKETS = 1024 };

struct block {
        struct block *next;
        const struct process *owner;
        void *memory;
        size_t size;
};

/* Only whoever has the baton looks here. */
static struct block *buckets[BUCKETS];

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);

static struct block **bucket_of(const void *memory)
{
        return &buckets[(uintptr_t)memory / 16 % BUCKETS];
}

static void *add(const struct process *owner, void *memory, size_t size)
{
        struct block **bucket = bucket_of(memory);
        struct block *block;

        if (!memory || !owner)
                return memory;
        block = __real_malloc(sizeof(*block));
        if (!block)
                abort();
        *block = (struct block){.next = *bucket, .owner = owner, .memory = memory, .size = size};
        *bucket = block;
        return memory;
}

/* Whose it was; NULL: nobody's. */
static const struct process *remove_block(const void *memory)
{
        for (struct block **at = bucket_of(memory); *at; at = &(*at)->next)
                if ((*at)->memory == memory) {
                        struct block *block = *at;
                        const struct process *owner = block->owner;

                        *at = block->next;
                        __real_free(block);
                        return owner;
                }
        return NULL;
}

static const struct process *mine(void)
{
        return thread_me() ? thread_me()->process : NULL;
}

void *__wrap_malloc(size_t size)
{
        return add(mine(), __real_malloc(size), size);
}

void *__wrap_calloc(size_t count, size_t size)
{
        return add(mine(), __real_calloc(count, size), count * size);
}

void *__wrap_realloc(void *memory, size_t size)
{
        const struct process *owner = memory ? remove_block(memory) : mine();
        void *moved = __real_realloc(memory, size);

        return add(owner, moved ? moved : memory, size) ? moved : NULL;
}

void __wrap_free(void *memory)
{
        if (memory)
                remove_block(memory);
        __real_free(memory);
}

char *__wrap_strdup(const char *text)
{
        char *copy = __wrap_malloc(strlen(text) + 1);

        return copy ? strcpy(copy, text) : NULL;
}

void *world_room(void *old, size_t size)
{
        void *room = __real_realloc(old, size);

        if (!room)
                abort();
        return room;
}

size_t heap_size(const struct process *process)
{
        size_t size = 0;

        for (int i = 0; i < BUCKETS; i++)
                for (struct block *block = buckets[i]; block; block = block->next)
                        size += block->owner == process ? block->size : 0;
        return size;
}

static struct block *first_of(const struct process *process, int bucket)
{
        struct block *block = buckets[bucket];

        while (block && block->owner != process)
                block = block->next;
        return block;
}

void heap_free(const struct process *process)
{
        struct block *block;

        for (int i = 0; i < BUCKETS; i++)
                while ((block = first_of(process, i)))
                        __wrap_free(block->memory);
}
