/* test_list.c - the list. */
#include "base/list.h"
#include "tap.h"

struct member {
        int number;
        struct list links;
};

static void check_order(struct list *list, const char *expected)
{
        char seen[32];
        size_t n = 0;

        for (struct list *item = list->next; item != list; item = item->next) {
                CHECK(item->next->prev == item);
                seen[n++] = (char)('0' + container_of(item, struct member, links)->number);
        }
        seen[n] = 0;
        CHECK_STR(seen, expected);
}

TEST(members_stand_in_the_order_of_being_appended_and_leave_from_anywhere)
{
        struct member members[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
        struct list list;

        list_init(&list);
        CHECK(list_empty(&list));
        for (int i = 0; i < 4; i++)
                list_append(&list, &members[i].links);
        check_order(&list, "0123");
        list_remove(&members[2].links);
        list_remove(&members[2].links);
        check_order(&list, "013");
        CHECK_INT(list_first(&list, struct member, links)->number, 0);
        list_remove(&members[0].links);
        list_remove(&members[3].links);
        list_remove(&members[1].links);
        CHECK(list_empty(&list));
}

TEST(a_spliced_list_is_empty_and_its_members_stand_at_the_end)
{
        struct member members[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
        struct list list, other;

        list_init(&list);
        list_init(&other);
        list_splice(&list, &other);
        CHECK(list_empty(&list));
        list_append(&list, &members[0].links);
        list_append(&other, &members[1].links);
        list_append(&other, &members[2].links);
        list_splice(&list, &other);
        check_order(&list, "012");
        CHECK(list_empty(&other));
        list_append(&list, &members[3].links);
        list_splice(&other, &list);
        check_order(&other, "0123");
}
