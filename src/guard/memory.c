/* memory.c - a guard in memory: a hash table under one mutex. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "guard.h"

enum { DEFAULT_MAX = 65536, FIRST_BUCKETS = 64 };

struct item {
        struct item *next; /* in its bucket */
        uint64_t hash;
        uint64_t token;
        uint64_t swap; /* the id of the last swap */
        void *data;    /* NULL: none yet; else with a NUL behind it */
        size_t size;
        size_t length;
        char resource[];
};

struct memory {
        pawl_guard guard;
        pthread_mutex_t mutex;
        bool ready; /* the mutex is there */
        uint64_t seed;
        struct item **buckets;
        size_t bucket_count; /* a power of two */
        size_t items;
        size_t items_max;
        uint64_t floor; /* of the greatest prune */
};

static struct memory *memory_of(pawl_guard *guard)
{
        return (struct memory *)guard;
}

/* Seeded, so that names from outside cannot be chosen to share a bucket. */
static uint64_t hash_of(const struct memory *memory, const char *text, size_t size)
{
        uint64_t hash = memory->seed;

        for (size_t i = 0; i < size; i++) {
                hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x9e3779b97f4a7c15);
                hash ^= hash >> 29;
        }
        return hash ^ hash >> 32;
}

static struct item **find(struct memory *memory, const struct visit *visit, uint64_t hash)
{
        struct item **item = &memory->buckets[hash & (memory->bucket_count - 1)];

        while (*item && ((*item)->hash != hash || (*item)->length != visit->length ||
                         memcmp((*item)->resource, visit->resource, visit->length) != 0))
                item = &(*item)->next;
        return item;
}

/* Twice the buckets when there are as many items; without memory for it, longer chains do. */
static void grow(struct memory *memory)
{
        size_t count = memory->bucket_count * 2;
        struct item **buckets = calloc(count, sizeof(struct item *));

        if (!buckets)
                return;
        for (size_t i = 0; i < memory->bucket_count; i++) {
                for (struct item *item = memory->buckets[i], *next; item; item = next) {
                        struct item **bucket = &buckets[item->hash & (count - 1)];

                        next = item->next;
                        item->next = *bucket;
                        *bucket = item;
                }
        }
        free(memory->buckets);
        memory->buckets = buckets;
        memory->bucket_count = count;
}

static int add(struct memory *memory, const struct visit *visit, uint64_t hash, struct item **added)
{
        struct item **bucket;
        struct item *item;

        if (memory->items == memory->items_max)
                return why_set(visit->why, PAWL_FULL,
                               "the guard knows %zu resources already: forget one, or open it with a "
                               "greater resources_max",
                               memory->items);
        item = calloc(1, sizeof(*item) + visit->length + 1);
        if (!item)
                return why_set(visit->why, PAWL_NO_MEMORY, "no memory for another resource");
        if (memory->items >= memory->bucket_count)
                grow(memory);
        item->hash = hash;
        item->length = visit->length;
        memcpy(item->resource, visit->resource, visit->length);
        bucket = &memory->buckets[hash & (memory->bucket_count - 1)];
        item->next = *bucket;
        *bucket = item;
        memory->items++;
        *added = item;
        return PAWL_OK;
}

/* With the mutex held. *before: the greatest token until now. */
static int admit(struct memory *memory, const struct visit *visit, struct item **admitted, uint64_t *before)
{
        uint64_t hash = hash_of(memory, visit->resource, visit->length);
        struct item *item = *find(memory, visit, hash);
        int code;

        if ((!item || item->token == 0) && visit->token < memory->floor)
                return guard_below_floor(visit, memory->floor);
        if (!item) {
                code = add(memory, visit, hash, &item);
                if (code != PAWL_OK)
                        return code;
        }
        if (visit->token < item->token)
                return guard_stale(visit, item->token);
        *before = item->token;
        item->token = visit->token;
        *admitted = item;
        return PAWL_OK;
}

static int memory_admit(pawl_guard *guard, const struct visit *visit)
{
        struct memory *memory = memory_of(guard);
        struct item *item;
        uint64_t before;
        int code;

        pthread_mutex_lock(&memory->mutex);
        code = admit(memory, visit, &item, &before);
        pthread_mutex_unlock(&memory->mutex);
        return code;
}

static void *copy(const void *data, size_t size)
{
        char *bytes = size < SIZE_MAX ? malloc(size + 1) : NULL;

        if (!bytes)
                return NULL;
        if (size > 0)
                memcpy(bytes, data, size);
        bytes[size] = 0;
        return bytes;
}

static int memory_put(pawl_guard *guard, const struct visit *visit, const void *data, size_t size)
{
        struct memory *memory = memory_of(guard);
        void *bytes = copy(data, size);
        void *old = NULL;
        struct item *item;
        uint64_t before;
        int code;

        if (!bytes)
                return why_set(visit->why, PAWL_NO_MEMORY, "no memory for the data");
        pthread_mutex_lock(&memory->mutex);
        code = admit(memory, visit, &item, &before);
        if (code == PAWL_OK) {
                old = item->data;
                item->data = bytes;
                item->size = size;
        }
        pthread_mutex_unlock(&memory->mutex);
        free(code == PAWL_OK ? old : bytes);
        return code;
}

static int read_item(const struct item *item, const struct visit *visit, struct pawl_guard_data *data)
{
        void *bytes;

        if (!item->data)
                return guard_no_data(visit);
        bytes = copy(item->data, item->size);
        if (!bytes)
                return why_set(visit->why, PAWL_NO_MEMORY, "no memory for the data");
        data->bytes = bytes;
        data->size = item->size;
        return PAWL_OK;
}

static int memory_get(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        struct memory *memory = memory_of(guard);
        struct item *item;
        uint64_t before;
        int code;

        pthread_mutex_lock(&memory->mutex);
        code = admit(memory, visit, &item, &before);
        if (code == PAWL_OK)
                code = read_item(item, visit, data);
        if (code == PAWL_OK)
                data->token = before;
        pthread_mutex_unlock(&memory->mutex);
        return code;
}

/* Its token; and itself, if it has no data, which are not ours to forget. */
static void drop(struct memory *memory, struct item **place)
{
        struct item *item = *place;

        item->token = 0;
        if (item->data)
                return;
        *place = item->next;
        memory->items--;
        free(item);
}

static int forget(struct memory *memory, const struct visit *visit)
{
        struct item **place = find(memory, visit, hash_of(memory, visit->resource, visit->length));
        struct item *item = *place;

        if ((!item || item->token == 0) && visit->token < memory->floor)
                return guard_below_floor(visit, memory->floor);
        if (!item || item->token == 0)
                return why_set(visit->why, PAWL_NOT_FOUND, "no token is known for \"%s\"", visit->resource);
        if (visit->token < item->token)
                return guard_stale(visit, item->token);
        drop(memory, place);
        return PAWL_OK;
}

static int memory_forget(pawl_guard *guard, const struct visit *visit)
{
        struct memory *memory = memory_of(guard);
        int code;

        pthread_mutex_lock(&memory->mutex);
        code = forget(memory, visit);
        pthread_mutex_unlock(&memory->mutex);
        return code;
}

/* ---- versions --------------------------------------------------------------------------------------------------- */

static uint64_t version_of(const struct memory *memory, const struct item *item)
{
        return item && item->token > 0 ? item->token : memory->floor;
}

static int memory_look(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        struct memory *memory = memory_of(guard);
        const struct item *item;
        int code;

        pthread_mutex_lock(&memory->mutex);
        item = *find(memory, visit, hash_of(memory, visit->resource, visit->length));
        data->token = version_of(memory, item);
        code = item ? read_item(item, visit, data) : guard_no_data(visit);
        pthread_mutex_unlock(&memory->mutex);
        return code;
}

/* With the mutex held. */
static int advance(struct memory *memory, const struct visit *visit, const struct guard_swap *swap,
                   struct item **advanced)
{
        uint64_t hash = hash_of(memory, visit->resource, visit->length);
        struct item *item = *find(memory, visit, hash);
        uint64_t version = version_of(memory, item);
        int code = PAWL_OK;

        if (version != guard_expected(visit) && (!item || version != visit->token || item->swap != swap->id))
                return guard_moved(visit, swap, version);
        if (!item)
                code = add(memory, visit, hash, &item);
        if (code != PAWL_OK)
                return code;
        item->token = visit->token;
        item->swap = swap->id;
        *advanced = item;
        return PAWL_OK;
}

static int memory_swap(pawl_guard *guard, const struct visit *visit, const struct guard_swap *swap)
{
        struct memory *memory = memory_of(guard);
        void *bytes = copy(swap->data, swap->size);
        void *old = NULL;
        struct item *item = NULL;
        int code;

        if (!bytes)
                return why_set(visit->why, PAWL_NO_MEMORY, "no memory for the data");
        pthread_mutex_lock(&memory->mutex);
        code = advance(memory, visit, swap, &item);
        if (code == PAWL_OK) {
                old = item->data;
                item->data = bytes;
                item->size = swap->size;
        }
        pthread_mutex_unlock(&memory->mutex);
        free(code == PAWL_OK ? old : bytes);
        return code;
}

/* ---- all resources ---------------------------------------------------------------------------------------------- */

static int memory_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why)
{
        struct memory *memory = memory_of(guard);
        int ended = 0;

        (void)why;
        pthread_mutex_lock(&memory->mutex);
        for (size_t i = 0; i < memory->bucket_count && !ended; i++) {
                for (struct item *item = memory->buckets[i]; item && !ended; item = item->next) {
                        struct pawl_guard_entry entry = {.resource = item->resource, .token = item->token};

                        if (item->token > 0 && strncmp(item->resource, prefix, strlen(prefix)) == 0)
                                ended = fn(&entry, arg);
                }
        }
        pthread_mutex_unlock(&memory->mutex);
        return PAWL_OK;
}

static uint64_t prune(struct memory *memory, uint64_t floor)
{
        uint64_t count = 0;

        if (memory->floor < floor)
                memory->floor = floor;
        for (size_t i = 0; i < memory->bucket_count; i++) {
                for (struct item **place = &memory->buckets[i]; *place;) {
                        struct item *item = *place;

                        if (item->token > 0 && item->token <= floor) {
                                drop(memory, place);
                                count++;
                        }
                        if (*place == item)
                                place = &item->next;
                }
        }
        return count;
}

static int memory_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why, uint64_t *pruned)
{
        struct memory *memory = memory_of(guard);

        (void)why;
        pthread_mutex_lock(&memory->mutex);
        *pruned = prune(memory, floor);
        pthread_mutex_unlock(&memory->mutex);
        return PAWL_OK;
}

static int memory_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why)
{
        struct memory *memory = memory_of(guard);
        struct pawl_finding finding = {.where = "mem:", .mend = ""};
        char what[256];
        bool low;

        (void)why;
        pthread_mutex_lock(&memory->mutex);
        low = memory->items >= memory->items_max - memory->items_max / 10;
        snprintf(what, sizeof(what), "%zu of %zu resources are in use, in this process alone%s", memory->items,
                 memory->items_max, low ? ": nearly all, and new ones will be refused" : "");
        pthread_mutex_unlock(&memory->mutex);
        finding.what = what;
        if (low) {
                finding.severity = PAWL_WARNING;
                finding.mend = "prune it, or open it with a greater resources_max";
        }
        fn(&finding, arg);
        return PAWL_OK;
}

static int memory_open(pawl_guard *guard, const struct url *url, const struct pawl_guard_options *options)
{
        static const char *const no_options[] = {NULL};
        struct memory *memory = memory_of(guard);
        int code = url_only(url, no_options, options->why);

        if (code != PAWL_OK)
                return code;
        if (url->host_count > 0 || *url->path)
                return why_set(options->why, PAWL_INVALID,
                               "a guard in memory has no place: write mem: and nothing else");
        if (pthread_mutex_init(&memory->mutex, NULL) != 0)
                return why_set(options->why, PAWL_NO_MEMORY, "no memory for the guard");
        memory->ready = true;
        memory->items_max = options->resources_max ? options->resources_max : DEFAULT_MAX;
        memory->bucket_count = FIRST_BUCKETS;
        memory->buckets = calloc(memory->bucket_count, sizeof(struct item *));
        if (!memory->buckets)
                return why_set(options->why, PAWL_NO_MEMORY, "no memory for the guard");
        if (getrandom(&memory->seed, sizeof(memory->seed), 0) < 0)
                memory->seed = (uintptr_t)memory->buckets; /* better than none; nothing but speed hangs on it */
        return PAWL_OK;
}

static void memory_close(pawl_guard *guard)
{
        struct memory *memory = memory_of(guard);

        for (size_t i = 0; memory->buckets && i < memory->bucket_count; i++) {
                for (struct item *item = memory->buckets[i], *next; item; item = next) {
                        next = item->next;
                        free(item->data);
                        free(item);
                }
        }
        free(memory->buckets);
        if (memory->ready)
                pthread_mutex_destroy(&memory->mutex);
}

const struct guard_ops memory_guard = {
        .size = sizeof(struct memory),
        .open = memory_open,
        .close = memory_close,
        .admit = memory_admit,
        .put = memory_put,
        .get = memory_get,
        .forget = memory_forget,
        .list = memory_list,
        .prune = memory_prune,
        .examine = memory_examine,
        .look = memory_look,
        .swap = memory_swap,
};
