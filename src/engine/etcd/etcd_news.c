/* etcd_news.c - what others have to tell the holders of locks: that one is broken, or that somebody asks for it. Each is a
 * key of its own:
 *
 *   PREFIX .pawl/mail/ <client> / <uid>      value: broken, or asked; on the lease of the lock it is about
 *
 * So mail that nobody reads goes with the lock. A client watches its mail once it has held a lock for a moment: who holds
 * for shorter than that has no use for it. What came before the watch stood is read when it does.
 *
 * The sentinels of the client's leases lie in the mailbox, too (etcd_proof.c): behind the letters, and never cleared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

static const int64_t moment = 50 * MS;

struct etcd_news {
        struct etcd *etcd;
        struct etcd_watch watch;
        struct etcd_ask read;  /* what was there before the watch */
        struct etcd_ask clear; /* deletes what was read */
        struct timer timer;
        bool unread, uncleared; /* once more, when that is answered */
};

size_t key_of_mail(const struct etcd *etcd, uint64_t client, char *key)
{
        char rest[32];

        snprintf(rest, sizeof(rest), "mail/%016llx/", (unsigned long long)client);
        return key_of_ours(etcd, rest, key);
}

/* ---- deleting what was read -------------------------------------------------------------------------------------- */

static void write_clear(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_news *news = container_of(ask, struct etcd_news, clear);
        char key[ETCD_KEY_MAX], end[ETCD_KEY_MAX];
        size_t length = key_of_mail(news->etcd, news->etcd->client, key);
        Pb__DeleteRangeRequest request = PB__DELETE_RANGE_REQUEST__INIT;

        request.key = bytes_of(key, length);
        memcpy(end, key, length);
        end[length] = 'g'; /* behind all hexadecimal digits, and before the sentinels */
        request.range_end = bytes_of(end, length + 1);
        grpc_write(out, &request.base);
}

static void clear_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why);

static const struct etcd_method clear_mail = {
        .path = "/etcdserverpb.KV/DeleteRange",
        .reply = &pb__delete_range_response__descriptor,
        .write = write_clear,
        .answered = clear_answered,
};

/* All letters: what comes in between is deleted too, but the watch tells it all the same. */
static void clear(struct etcd_news *news)
{
        news->uncleared = ask_busy(&news->clear);
        if (!news->uncleared)
                channel_ask(&news->etcd->channel, &news->clear, &clear_mail,
                            etcd_now(news->etcd) + news->etcd->timeout);
}

static void clear_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        struct etcd_news *news = container_of(ask, struct etcd_news, clear);
        const Pb__DeleteRangeResponse *told = (const Pb__DeleteRangeResponse *)reply;

        (void)why;
        if (told)
                etcd_wrote(news->etcd, revision_of(told->header), told->deleted > 0);
        if (told && news->uncleared)
                clear(news);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool says(const Pb__KeyValue *mail, const char *word)
{
        return mail->value.len == strlen(word) && memcmp(mail->value.data, word, mail->value.len) == 0;
}

/* What a key has behind the mailbox's prefix; its length is 0 if it is none of it. */
static const char *rest_of(const struct etcd_news *news, const Pb__KeyValue *mail, size_t *length)
{
        char key[ETCD_KEY_MAX];
        size_t begin = key_of_mail(news->etcd, news->etcd->client, key);

        *length = mail->key.len > begin ? mail->key.len - begin : 0;
        return (const char *)mail->key.data + (*length ? begin : 0);
}

/* Returns whether it was a letter. One about a key that an earlier lease of ours had is too late, and so is one about an
 * earlier claim that had this key. */
static bool take(struct etcd_news *news, const Pb__KeyValue *mail)
{
        enum { UID_DIGITS = 32 };
        size_t length;
        const char *rest = rest_of(news, mail, &length);
        struct etcd_part *part;
        uint64_t uid[2];

        if (length != UID_DIGITS || !uid_read(rest, uid))
                return false;
        part = claim_find(news->etcd, uid);
        if (!part || part->state != PART_HELD || !part->term || part->term->lease != mail->lease ||
            (uint64_t)mail->mod_revision < part->order)
                return true;
        if (says(mail, "broken"))
                claim_gone(part, PAWL_REASON_BROKEN);
        else if (says(mail, "asked"))
                claim_asked(part);
        return true;
}

static void write_read(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_news *news = container_of(ask, struct etcd_news, read);
        char key[ETCD_KEY_MAX], end[ETCD_KEY_MAX];
        size_t length = key_of_mail(news->etcd, news->etcd->client, key);
        Pb__RangeRequest request = PB__RANGE_REQUEST__INIT;

        sentinels_await(news->etcd);
        request.key = bytes_of(key, length);
        request.range_end = bytes_of(end, key_after_prefix(key, length, end));
        grpc_write(out, &request.base);
}

static void read_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why);

static const struct etcd_method read_mail = {
        .path = "/etcdserverpb.KV/Range",
        .reply = &pb__range_response__descriptor,
        .write = write_read,
        .answered = read_answered,
};

static void read_all(struct etcd_news *news)
{
        news->unread = ask_busy(&news->read);
        if (!news->unread)
                channel_ask(&news->etcd->channel, &news->read, &read_mail, etcd_now(news->etcd) + news->etcd->timeout);
}

static void read_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        struct etcd_news *news = container_of(ask, struct etcd_news, read);
        const Pb__RangeResponse *found = (const void *)reply;
        const char *rest;
        size_t length, letters = 0;

        (void)why; /* it is read again when the watch is made again */
        for (size_t i = 0; found && i < found->n_kvs; i++) {
                rest = rest_of(news, found->kvs[i], &length);
                sentinel_seen(news->etcd, rest, length);
                letters += take(news, found->kvs[i]);
        }
        if (found)
                sentinels_miss(news->etcd);
        if (news->unread)
                read_all(news);
        if (letters)
                clear(news);
}

/* ---- listening --------------------------------------------------------------------------------------------------- */

static size_t watched(const struct etcd_watch *watch, char *key)
{
        const struct etcd_news *news = (const void *)((const char *)watch - offsetof(struct etcd_news, watch));

        return key_of_mail(news->etcd, news->etcd->client, key);
}

static void ready(struct etcd_watch *watch)
{
        read_all(container_of(watch, struct etcd_news, watch));
}

static void fired(struct etcd_watch *watch, const Pb__Event *event)
{
        struct etcd_news *news = container_of(watch, struct etcd_news, watch);

        const char *rest;
        size_t length;

        if (!event->kv)
                return;
        rest = rest_of(news, event->kv, &length);
        if (event->type == PB__EVENT_TYPE__DELETE)
                sentinel_gone(news->etcd, rest, length);
        else if (take(news, event->kv))
                clear(news);
}

static void due(struct timer *timer)
{
        struct etcd_news *news = container_of(timer, struct etcd_news, timer);

        if (news->etcd->claims.count == 0)
                return; /* with the next lock */
        sentinels_put(news->etcd);
        if (watch_begun(&news->watch))
                return;
        news->watch.key = watched;
        news->watch.ready = ready;
        news->watch.fired = fired;
        news->watch.prefix = true;
        news->watch.puts = true;
        watch_begin(&news->etcd->channel, &news->watch);
}

void news_held(struct etcd_part *part)
{
        struct etcd *etcd = part->etcd;
        struct etcd_news *news = etcd->news;

        if (!news) {
                news = calloc(1, sizeof(*news));
                if (!news)
                        return; /* with the next lock */
                news->etcd = etcd;
                news->timer.fire = due;
                ask_init(&news->read);
                ask_init(&news->clear);
                etcd->news = news;
        }
        if ((!watch_begun(&news->watch) || !(part->term->own || part->term->guarded)) && news->timer.place == 0)
                loop_set(etcd->engine.host->loop, &news->timer, etcd_now(etcd) + moment);
}

void news_kept(struct etcd *etcd)
{
        if (etcd->news && watch_begun(&etcd->news->watch))
                sentinels_put(etcd);
}

/* The channel is closed, and its watches with it. */
void news_free(struct etcd *etcd)
{
        struct etcd_news *news = etcd->news;

        if (!news)
                return;
        loop_unset(etcd->engine.host->loop, &news->timer);
        free(news);
        etcd->news = NULL;
}
