/* table.h - finding a claim by its uid, a queue by its name. */
#ifndef PAWL_TABLE_H
#define PAWL_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* Chained by hash; grows when it can. The user's struct holds the link and compares. */
struct link {
        struct link *next;
        uint64_t hash;
};
struct table {
        struct link **rooms;
        size_t size, count;
};
int table_init(struct table *table); /* PAWL_OK or PAWL_NO_MEMORY */
void table_free(struct table *table);
void table_add(struct table *table, struct link *link, uint64_t hash);
void table_remove(struct table *table, struct link *link);
struct link *table_first(const struct table *table, uint64_t hash); /* then link->next, comparing the hash too */
uint64_t table_hash(const void *bytes, size_t size);

#endif
