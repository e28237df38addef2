/* ten_lines.c - from nothing to a held lock. The part between the marks stands in README.md; a test compares them.
 *
 *     ten_lines [URL]
 */
#include <inttypes.h>
#include <pawl.h>
#include <stdio.h>

static int stored;

/* A real one would send the token along, so that the resource can refuse a writer whose lock is long lost. */
static void store_order(int order, uint64_t token)
{
        printf("order %d stored under token %" PRIu64 "\n", order, token);
        stored = 1;
}

/* begin */
static int save_order(const char *url, struct pawl_why *why)
{
        pawl_client *client;
        pawl_lock *lock;
        int code = pawl_open(url, PAWL_OPEN(.why = why), &client); /* url NULL: this machine, no server */

        if (code != PAWL_OK)
                return code;
        code = pawl_acquire(client, "orders/42", PAWL_LOCK(.wait_ms = 5000, .why = why), &lock);
        if (code == PAWL_OK) {
                store_order(42, pawl_token(lock));
                code = pawl_release(lock); /* PAWL_LOST if it had been lost meanwhile */
        }
        pawl_close(client);
        return code;
}
/* end */

int main(int argc, char **argv)
{
        struct pawl_why why = {0};
        int code = save_order(argc > 1 ? argv[1] : NULL, &why);

        if (code != PAWL_OK)
                fprintf(stderr, "ten_lines: %s\n", why.text[0] ? why.text : pawl_strerror(code));
        return code == PAWL_OK && stored ? 0 : 1;
}
