/* reentrant.c - functions that each take the lock for themselves, and call each other: whoever has the handle may take it
 * again while it has it, with the same token, and it is given back by the last.
 *
 *     reentrant [URL] */
#include <pawl.h>
#include <pawl/handle.h>
#include <stdio.h>

static uint64_t seen[3]; /* the token at each depth */
static int deepest;

/* Good on its own, and inside of itself. */
static int visit(pawl_reentrant *tree, int depth)
{
        int code = pawl_reentrant_acquire(tree);

        if (code != PAWL_OK)
                return code;
        seen[depth] = pawl_token(pawl_reentrant_lock(tree));
        deepest = depth;
        if (depth < 2)
                code = visit(tree, depth + 1);
        if (code == PAWL_OK)
                code = pawl_check(pawl_reentrant_lock(tree)); /* still held on the way back */
        if (code == PAWL_OK)
                code = pawl_reentrant_release(tree);
        else
                (void)pawl_reentrant_release(tree);
        return code;
}

int main(int argc, char **argv)
{
        pawl_reentrant *tree = NULL;
        pawl_client *client;
        pawl_lock *lock;
        int code = pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client);

        if (code == PAWL_OK)
                code = pawl_reentrant_new(client, "example/tree", NULL, &tree);
        if (code == PAWL_OK)
                code = visit(tree, 0);
        if (code == PAWL_OK) /* given back: another may have it */
                code = pawl_acquire(client, "example/tree", PAWL_LOCK(.wait_ms = 5000), &lock);
        if (code != PAWL_OK) {
                fprintf(stderr, "reentrant: %s\n", pawl_strerror(code));
                return 1;
        }
        printf("%d calls deep with token %llu, and free afterwards\n", deepest + 1, (unsigned long long)seen[0]);
        code = deepest == 2 && seen[0] == seen[1] && seen[1] == seen[2] && pawl_token(lock) > seen[0] ? 0 : 1;
        pawl_release(lock);
        pawl_reentrant_free(tree);
        pawl_close(client);
        return code;
}
