/* line.h - who holds, in a line whose order the store keeps (ZooKeeper, etcd): the one rule both engines judge by. */
#ifndef PAWL_LINE_H
#define PAWL_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One who stands in the line. */
struct contender {
        uint64_t uid[2]; /* of the attempt; 0 and 0: not one of ours */
        uint64_t order;  /* as the store has it: less is earlier */
        uint32_t limit;  /* shared: at most so many; 0: any number */
        bool shared;
};

enum { LINE_NOBODY = -1, LINE_ANYBODY = -2 };

struct verdict {
        bool granted;
        bool next; /* all before it hold */
        /* When the one that is waited for is gone we hold, whatever the others did: no need to look again. Of those in the
         * line, that is; if it leaves a lock-delay behind, look. */
        bool proven;
        /* The place, among the earlier ones, of the one whose end to wait for. LINE_ANYBODY: of any of them, because
         * a limited lock is full; who is not next need not look before the last of them holds or is gone.
         * LINE_NOBODY: granted. */
        long wait_for;
};

/* Judges a claim by those before it, who are sorted by their order. Each holds if all before it do, and
 *   exclusive: if nobody is before it;
 *   shared: if those before it share, and are fewer than the least limit of any of them and its own.
 * Those who come later change nothing: once granted, always granted. */
void line_judge(const struct contender *earlier, size_t count, const struct contender *claim, struct verdict *verdict);

/* How many of a sorted line hold: the first so many of it. */
size_t line_holding(const struct contender *line, size_t count);

/* For qsort. */
int line_compare(const void *a, const void *b);

#endif
