/* zk_news.c - the mailbox of a client: the node .pawl/mail-CLIENT, ephemeral, watched. Whoever breaks or asks for
 * a lock of ours adds a line to its data: the word, and the uid of the claim (zk_break.c). Lines stay, so that
 * none is missed while a watch is set again; a line that was read before finds nothing to do.
 *
 * It is made when a claim has been known for a moment: short holds need none. Who asks meanwhile waits for it.
 *
 *   NONE --needed, 50 ms--> MAKING --> THERE --(its session is lost)--> NONE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zk_inspect.h"

enum { NEEDED_AFTER = 50, TRY_AGAIN = 500 /* ms */, TRIES = 3 };
enum news_state { NEWS_NONE, NEWS_MAKING, NEWS_THERE };

struct zk_news {
        struct zk *zk;
        struct zk_ask ask;
        struct zk_watch watch;
        struct timer timer;
        struct zk_session *session; /* it is, or is being made, there */
        uint8_t state;              /* enum news_state */
        bool needed;
        uint8_t tries; /* to make it, one behind the other */
        bool found;    /* of the flight: it is there */
        bool missing;  /* of the flight: what is above the mailbox is not there */
        bool strange;  /* of the flight: it is there, but an earlier session's */
        bool fired;    /* since the flight was sent: look once more */
        char path[ZK_PATH_MAX];
};

static void make(struct zk_news *news);

static struct loop *loop_of(const struct zk_news *news)
{
        return news->zk->engine.host->loop;
}

static void try_again(struct zk_news *news, int64_t wait_ms)
{
        news->state = NEWS_NONE;
        news->tries = 0;
        zk_watch_remove(news->session, &news->watch);
        news->session = NULL;
        news->needed = loop_set(loop_of(news), &news->timer, zk_now(news->zk) + wait_ms * MS) == 0;
}

/* ---- what it says ---------------------------------------------------------------------------------------------- */

static void read_mail_line(struct zk_news *news, const char *line, size_t length)
{
        bool breaks = length == 6 + 32 && memcmp(line, "break ", 6) == 0;
        bool asks = length == 4 + 32 && memcmp(line, "ask ", 4) == 0;
        struct zk_part *part;
        uint64_t uid[2];

        if ((!breaks && !asks) || !uid_read(line + length - 32, uid))
                return;
        part = zk_claim_find(news->zk, uid);
        if (part && breaks)
                zk_claim_broken(part);
        else if (part)
                zk_claim_asked(part);
}

static void read_mail(struct zk_news *news, struct jute_text text)
{
        const char *end = text.at + text.length;

        while (text.at < end) {
                const char *stop = memchr(text.at, '\n', (size_t)(end - text.at));

                if (!stop)
                        return;
                read_mail_line(news, text.at, (size_t)(stop - text.at));
                text.at = stop + 1;
        }
}

/* ---- making it, and watching it -------------------------------------------------------------------------------- */

static void flight_over(struct zk_news *news);
static void look(struct zk_news *news);

static void news_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_news *news = container_of(ask, struct zk_news, ask);
        struct jute_text text;
        struct zk_stat stat;

        if (error == ZK_CONNECTION_LOSS)
                return;                         /* zk_news_up or zk_news_expired will come */
        if (ask->left == 0 && error == ZK_OK) { /* getData is the last */
                jute_get_data(reply, &text, &stat);
                news->found = true;
                news->strange = stat.owner != news->session->id;
                news->state = NEWS_THERE;
                if (!reply->bad)
                        read_mail(news, text);
        } else if (error == ZK_NO_NODE) {
                news->missing = true;
        }
        if (ask->left == 0)
                flight_over(news);
}

static void flight_over(struct zk_news *news)
{
        if (news->found && !news->strange) {
                news->tries = 0;
                if (news->fired)
                        look(news);
                return;
        }
        zk_watch_remove(news->session, &news->watch);
        if ((news->missing || news->strange) && news->tries < TRIES)
                make(news);
        else
                try_again(news, TRY_AGAIN);
}

static void watch_fired(struct zk_watch *watch, int type);

/* getData with a watch, as the last request of a flight. */
static void request_mail(struct zk_news *news, struct jute_out *out)
{
        news->watch.path = news->path;
        news->watch.length = strlen(news->path);
        news->watch.fired = watch_fired;
        news->fired = false;
        zk_watch_remove(news->session, &news->watch);
        zk_watch_add(news->session, &news->watch);
        zk_request(news->session, ZK_GET_DATA);
        jute_put_path_watch(out, news->path, true);
}

static void send_flight(struct zk_news *news)
{
        if (zk_send(news->session) != PAWL_OK)
                try_again(news, TRY_AGAIN);
}

/* Reads it, and watches it. */
static void look(struct zk_news *news)
{
        struct jute_out *out;

        news->found = news->strange = news->missing = false;
        zk_ask_init(&news->ask, news_answered);
        out = zk_begin(news->session, &news->ask, ZK_REQUEST_ROOM);
        request_mail(news, out);
        send_flight(news);
}

static void make(struct zk_news *news)
{
        struct jute_out *out;

        news->session = zk_any_session(news->zk);
        if (!news->session) {
                try_again(news, TRY_AGAIN);
                return;
        }
        zk_ask_init(&news->ask, news_answered);
        out = zk_begin(news->session, &news->ask, ZK_OWN_ROOM + 3 * ZK_REQUEST_ROOM);
        if (news->missing)
                zk_request_own(news->session, out);
        if (news->strange) {
                zk_request(news->session, ZK_DELETE);
                jute_put_path_version(out, news->path, -1);
        }
        news->found = news->missing = news->strange = false;
        news->state = NEWS_MAKING;
        news->tries++;
        zk_request(news->session, ZK_CREATE2);
        jute_put_create(out, news->path, "", 0, news->zk->acl, ZK_EPHEMERAL);
        request_mail(news, out);
        send_flight(news);
}

static void watch_fired(struct zk_watch *watch, int type)
{
        struct zk_news *news = container_of(watch, struct zk_news, watch);

        if (type == ZK_EVENT_SESSION)
                return;           /* the next connection, or another session, brings it back */
        if (zk_asked(&news->ask)) /* such as the delete of a strange one, by the flight that makes ours */
                news->fired = true;
        else if (type == ZK_EVENT_DELETED)
                make(news);
        else
                look(news);
}

/* ---- when ------------------------------------------------------------------------------------------------------ */

static void timer_fired(struct timer *timer)
{
        struct zk_news *news = container_of(timer, struct zk_news, timer);

        news->needed = news->zk->known > 0;
        if (news->needed && news->state == NEWS_NONE)
                make(news);
}

void zk_news_needed(struct zk *zk)
{
        struct zk_news *news = zk->news;

        if (news->needed || news->state != NEWS_NONE)
                return;
        news->needed = loop_set(loop_of(news), &news->timer, zk_now(zk) + NEEDED_AFTER * MS) == 0;
}

void zk_news_up(struct zk_session *session)
{
        struct zk_news *news = session->zk->news;

        if (news->session != session || zk_asked(&news->ask))
                return;
        if (news->state == NEWS_THERE)
                look(news);
        else if (news->state == NEWS_MAKING)
                make(news);
}

void zk_news_expired(struct zk_session *session)
{
        struct zk_news *news = session->zk->news;

        if (!news || news->session != session)
                return;
        zk_forget(session, &news->ask);
        if (!session->zk->closing && session->zk->known > 0) {
                try_again(news, 0);
                return;
        }
        zk_watch_remove(session, &news->watch);
        news->session = NULL;
        news->state = NEWS_NONE;
        news->needed = false;
}

int zk_news_open(struct zk *zk)
{
        struct zk_news *news = calloc(1, sizeof(*news));
        char rest[32];

        if (!news)
                return PAWL_NO_MEMORY;
        zk->news = news;
        news->zk = zk;
        news->timer.fire = timer_fired;
        list_init(&news->ask.listed);
        snprintf(rest, sizeof(rest), "mail-%016llx", (unsigned long long)zk->client);
        zk_path_of_own(zk, rest, news->path);
        return PAWL_OK;
}

void zk_news_free(struct zk *zk)
{
        struct zk_news *news = zk->news;

        if (!news)
                return;
        if (news->session) {
                zk_forget(news->session, &news->ask);
                zk_watch_remove(news->session, &news->watch);
        }
        loop_unset(loop_of(news), &news->timer);
        free(news);
        zk->news = NULL;
}
