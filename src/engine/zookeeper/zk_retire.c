/* zk_retire.c - queues whose numbers come to their end. The number of a node is a counter of its parent, of 31 bits. It does
 * not wrap: it sticks at the last one, and every later node gets that, or a negative one, so that nobody can tell who was
 * first. An empty queue is removed and counts from 0 again, but one that is always in use never is.
 *
 * So from ZK_NUMBERS_RETIRE on, half way, a claim does not stay in the queue. It deletes its node, waits outside until the
 * queue is empty, removes it, and starts a new one. Other libraries do not know of that: where one of theirs is in the
 * queue, ours stay in it, too, up to ZK_NUMBERS_END. From there on they are refused. Below that all numbers differ. */
#include "zk.h"

static void outside_answered(struct zk_ask *ask, int error, struct jute_in *reply);

bool zk_number_is_last(int32_t number)
{
        return number < 0 || number >= ZK_NUMBERS_END;
}

bool zk_number_retires(int32_t number)
{
        return number < 0 || number >= ZK_NUMBERS_RETIRE;
}

const char *zk_retire_why(void)
{
        return "the queue of this lock has used up its numbers, and is never empty: stop those who wait in it, until "
               "it is";
}

/* The queue's own czxid: another one has taken its place if that is another. */
static int64_t queue_of(struct jute_in *children)
{
        size_t count = jute_get_count(children, 4);
        struct zk_stat stat = {0};

        for (size_t i = 0; i < count; i++)
                (void)jute_get_text(children);
        jute_get_stat(children, &stat);
        return children->bad ? 0 : stat.czxid;
}

/* Deletes its node if it has one, and the queue, which only works if that is empty; and looks at what is there then. */
void zk_retire_poll(struct zk_part *part)
{
        struct zk_session *session = part->session;
        char path[ZK_PATH_MAX];
        struct jute_out *out;
        int code;

        part->state = ZK_OUTSIDE;
        part->ask.answered = outside_answered;
        part->error = ZK_OK;
        out = zk_begin(session, &part->ask, 3 * ZK_REQUEST_ROOM);
        if (part->made) {
                zk_path_of_part(part, path);
                zk_request(session, ZK_DELETE);
                jute_put_path_version(out, path, -1);
        }
        zk_path_of_name(part->zk, part->claim->name, part->claim->name_length, path);
        zk_request(session, ZK_DELETE);
        jute_put_path_version(out, path, -1);
        zk_request(session, ZK_GET_CHILDREN2);
        jute_put_path_watch(out, path, false);
        code = zk_send(session);
        if (code == PAWL_UNREACHABLE)
                zk_claim_park(part, ZK_OUTSIDE);
        else if (code != PAWL_OK)
                zk_claim_retry(part, ZK_OUTSIDE);
}

void zk_retire(struct zk_part *part, const struct jute_in *children)
{
        struct jute_in in = *children;

        part->token = queue_of(&in);
        zk_wait_end(part);
        zk_retire_poll(part);
}

/* Its own node is gone. */
static void look_from_outside(struct zk_part *part, int error, struct jute_in *children)
{
        bool same = error == ZK_OK && queue_of(children) == part->token;

        if (part->cancelled)
                zk_claim_refuse(part, PAWL_CANCELLED, NULL);
        else if (error != ZK_OK && error != ZK_NO_NODE)
                zk_claim_retry(part, ZK_OUTSIDE);
        else if (!same)
                zk_claim_ask(part);
        else if (!part->claim->wait)
                zk_claim_refuse(part, PAWL_BUSY, NULL);
        else
                zk_claim_retry(part, ZK_OUTSIDE);
}

static void outside_answered(struct zk_ask *ask, int error, struct jute_in *reply)
{
        struct zk_part *part = container_of(ask, struct zk_part, ask);

        if (error == ZK_CONNECTION_LOSS) {
                zk_claim_park(part, ZK_OUTSIDE);
        } else if (ask->left == 2) {
                part->error = (int16_t)error;
        } else if (ask->left == 0 && part->made && part->error != ZK_OK && part->error != ZK_NO_NODE) {
                zk_claim_retry(part, ZK_OUTSIDE); /* its own node is still there */
        } else if (ask->left == 0) {
                part->made = false;
                zk_followers_told(part, false);
                look_from_outside(part, error, reply);
        }
}
