/* list.h - a doubly linked list in its members. A member that is in no list points to itself. */
#ifndef PAWL_LIST_H
#define PAWL_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct list {
        struct list *next;
        struct list *prev;
};

static inline void list_init(struct list *list)
{
        list->next = list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
        return list->next == list;
}

static inline void list_append(struct list *list, struct list *item)
{
        item->prev = list->prev;
        item->next = list;
        list->prev->next = item;
        list->prev = item;
}

/* Also for an item that is in no list. */
static inline void list_remove(struct list *item)
{
        item->prev->next = item->next;
        item->next->prev = item->prev;
        list_init(item);
}

/* Moves everything in from to the end of list. */
static inline void list_splice(struct list *list, struct list *from)
{
        if (list_empty(from))
                return;
        from->next->prev = list->prev;
        list->prev->next = from->next;
        from->prev->next = list;
        list->prev = from->prev;
        list_init(from);
}

#define list_first(list, type, member) container_of((list)->next, type, member)

#endif
