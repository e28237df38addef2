/* top_source.c - asks the store in a thread of its own: one that does not answer must not hold up the keys. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "top.h"

struct source {
        pawl_client *client;
        int fd;
        pthread_t thread;
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        bool asked;    /* the thread has something to do, or is doing it */
        bool answered; /* nobody has taken it yet */
        bool ending;
        char name[PAWL_NAME_MAX + 1];
        struct snapshot answer;
};

static void answer_once(struct source *source)
{
        struct snapshot answer;
        char name[sizeof(source->name)];

        memcpy(name, source->name, sizeof(name));
        pthread_mutex_unlock(&source->mutex);
        snapshot_take(source->client, name, &answer);
        pthread_mutex_lock(&source->mutex);
        snapshot_free(&source->answer);
        source->answer = answer;
        source->asked = false;
        source->answered = true;
        if (eventfd_write(source->fd, 1) != 0)
                return; /* it is full of news that nobody has read */
}

static void *answer_all(void *arg)
{
        struct source *source = arg;

        pthread_mutex_lock(&source->mutex);
        while (!source->ending) {
                if (source->asked)
                        answer_once(source);
                else
                        pthread_cond_wait(&source->changed, &source->mutex);
        }
        pthread_mutex_unlock(&source->mutex);
        return NULL;
}

static void source_free(struct source *source)
{
        close(source->fd);
        pthread_cond_destroy(&source->changed);
        pthread_mutex_destroy(&source->mutex);
        snapshot_free(&source->answer);
        free(source);
}

struct source *source_open(pawl_client *client)
{
        struct source *source = calloc(1, sizeof(*source));

        if (!source)
                return NULL;
        source->client = client;
        source->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (source->fd < 0) {
                free(source);
                return NULL;
        }
        pthread_mutex_init(&source->mutex, NULL);
        pthread_cond_init(&source->changed, NULL);
        errno = pthread_create(&source->thread, NULL, answer_all, source);
        if (errno) {
                source_free(source);
                return NULL;
        }
        return source;
}

void source_close(struct source *source)
{
        if (!source)
                return;
        pthread_mutex_lock(&source->mutex);
        source->ending = true;
        pthread_cond_signal(&source->changed);
        pthread_mutex_unlock(&source->mutex);
        pthread_join(source->thread, NULL);
        source_free(source);
}

int source_fd(const struct source *source)
{
        return source->fd;
}

bool source_ask(struct source *source, const char *name)
{
        bool free_to_ask;

        pthread_mutex_lock(&source->mutex);
        free_to_ask = !source->asked;
        if (free_to_ask) {
                snprintf(source->name, sizeof(source->name), "%s", name);
                source->asked = true;
                pthread_cond_signal(&source->changed);
        }
        pthread_mutex_unlock(&source->mutex);
        return free_to_ask;
}

bool source_take(struct source *source, struct snapshot *answer)
{
        eventfd_t news;
        bool answered;

        (void)eventfd_read(source->fd, &news);
        pthread_mutex_lock(&source->mutex);
        answered = source->answered;
        if (answered) {
                *answer = source->answer;
                source->answer = (struct snapshot){0};
                source->answered = false;
        }
        pthread_mutex_unlock(&source->mutex);
        return answered;
}
