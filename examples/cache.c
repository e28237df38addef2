/* cache.c - a page that is costly to render, and a crowd that wants it the moment it is missing: one renders it,
 * the others wait for that. When it has become old, one renders it anew, and the others get the old one meanwhile.
 *
 *     cache [URL] */
#include <pawl.h>
#include <pawl/flight.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CROWD = 6, LONG_MS = 60000 };

static const char PAGE[] = "example/front-page";

static pawl_client *client; /* one client serves any number of threads; those of other processes are served alike */
static atomic_int rendered, failures;

/* Which rendering the caller gets; 0: none. fresh_ms is the caller's own idea of what is new enough. */
static int get_page(int64_t fresh_ms, pawl_build_fn *render)
{
        struct pawl_value value;
        int code =
                pawl_flight(client, PAGE, PAWL_FLIGHT(.fresh_ms = fresh_ms, .stale_ms = LONG_MS), render, NULL, &value);
        int number = 0;

        if (code == PAWL_OK) {
                sscanf(value.data, "page %d", &number);
                free(value.data);
        } else {
                fprintf(stderr, "cache: %s\n", pawl_strerror(code));
        }
        return number;
}

static int finish(void **data, size_t *size)
{
        char text[32];

        snprintf(text, sizeof(text), "page %d", atomic_fetch_add(&rendered, 1) + 1);
        *data = strdup(text);
        *size = strlen(text);
        return *data ? PAWL_OK : PAWL_NO_MEMORY;
}

static int render(pawl_lock *lock, void **data, size_t *size, void *arg)
{
        const struct timespec work = {.tv_nsec = 50000000};

        (void)lock;
        (void)arg;
        nanosleep(&work, NULL);
        return finish(data, size);
}

static void *want_any(void *arg)
{
        if (get_page(LONG_MS, render) != 1)
                atomic_fetch_add(&failures, 1);
        return arg;
}

static void *want_meanwhile(void *arg)
{
        if (get_page(1, render) != 1)
                atomic_fetch_add(&failures, 1);
        return arg;
}

static void run_crowd(int count, void *(*run)(void *))
{
        pthread_t threads[CROWD];
        int started = 0;

        while (started < count && pthread_create(&threads[started], NULL, run, NULL) == 0)
                started++;
        if (started < count)
                atomic_fetch_add(&failures, 1);
        while (started > 0)
                pthread_join(threads[--started], NULL);
}

/* While it renders others want the page: they have the old one, and do not wait. */
static int render_in_public(pawl_lock *lock, void **data, size_t *size, void *arg)
{
        (void)lock;
        (void)arg;
        run_crowd(3, want_meanwhile);
        return finish(data, size);
}

static const char *play(void)
{
        const struct timespec moment = {.tv_nsec = 5000000};

        if (pawl_flight_forget(client, PAGE, NULL) != PAWL_OK)
                return "the page of an earlier run cannot be forgotten";
        run_crowd(CROWD, want_any);
        if (atomic_load(&rendered) != 1 || atomic_load(&failures))
                return "the crowd did not get one page";
        printf("%d wanted a page that was missing: rendered once\n", CROWD);
        nanosleep(&moment, NULL);
        if (get_page(1, render_in_public) != 2 || atomic_load(&rendered) != 2 || atomic_load(&failures))
                return "those who came while an old page was rendered anew did not get the old one";
        printf("the page was old: rendered once, and 3 used the old one meanwhile\n");
        if (pawl_flight_forget(client, PAGE, NULL) != PAWL_OK || get_page(LONG_MS, render) != 3)
                return "a page that was forgotten is still there";
        printf("the page was forgotten, because an article has changed: rendered anew\n");
        return NULL;
}

int main(int argc, char **argv)
{
        const char *wrong;
        int code = pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client);

        if (code != PAWL_OK) {
                fprintf(stderr, "cache: %s\n", pawl_strerror(code));
                return 1;
        }
        wrong = play();
        if (wrong)
                printf("%s\n", wrong);
        pawl_close(client);
        return wrong ? 1 : 0;
}
