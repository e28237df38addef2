/* election.c - who holds the lock leads; its token is the epoch. The value is kept beside the lock. */
#include <pawl/election.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "recipe.h"
#include "when.h"

#define LOOK_EVERY_MS 500

struct pawl_election {
        pawl_client *client;
        pawl_lock *lock;
        atomic_bool published; /* there is a value to withdraw */
        pawl_demoted_fn *on_demoted;
        void *demoted_arg;
        pawl_elected_fn *on_elected;
        void *elected_arg;
        atomic_int users; /* who has the handle, and on_granted until it has run: see pawl_resign */
};

/* ---- candidates -------------------------------------------------------------------------------------------------- */

static void let_go(pawl_election *election)
{
        if (atomic_fetch_sub(&election->users, 1) == 1)
                free(election);
}

static void on_lost(pawl_lock *lock, int reason, void *arg)
{
        pawl_election *election = arg;

        (void)lock;
        if (election->on_demoted)
                election->on_demoted(election, reason, election->demoted_arg);
}

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        pawl_election *election = arg;

        (void)lock;
        election->on_elected(election, status, election->elected_arg);
        let_go(election);
}

static int check_options(pawl_client *client, const struct pawl_election_options *theirs,
                         struct pawl_election_options *options)
{
        int code = RECIPE_OPTIONS(options, theirs, "PAWL_ELECTION");

        if (code != PAWL_OK)
                return code;
        if (options->flags)
                return recipe_fail(options->why, PAWL_UNSUPPORTED, "flags are not known to this version");
        if (options->value_size > PAWL_VALUE_MAX || (options->value_size && !options->value))
                return recipe_fail(options->why, PAWL_INVALID, "there is no value, or more than 65536 bytes of it");
        if (options->value_size)
                return recipe_needs(client, PAWL_CAN_KEEP, options->why,
                                    "this engine keeps nothing beside its locks: there can be no value");
        return PAWL_OK;
}

/* The handle is there before the first callback: the lock is asked for last. */
static int stand(pawl_client *client, const char *name, const struct pawl_election_options *options,
                 pawl_elected_fn *on_elected, void *arg, pawl_election **out)
{
        pawl_election *election = calloc(1, sizeof(*election));
        int code;

        if (!election)
                return recipe_fail(options->why, PAWL_NO_MEMORY, pawl_strerror(PAWL_NO_MEMORY));
        election->client = client;
        election->on_demoted = options->on_demoted;
        election->demoted_arg = options->arg;
        election->on_elected = on_elected;
        election->elected_arg = arg;
        atomic_init(&election->users, on_elected ? 2 : 1);
        code = pawl_acquire_async(client, name,
                                  PAWL_LOCK(.flags = PAWL_CONFIRM, .wait_ms = options->wait_ms,
                                            .ttl_ms = options->ttl_ms, .note = options->note, .on_lost = on_lost,
                                            .arg = election, .why = options->why),
                                  on_elected ? on_granted : NULL, election, &election->lock);
        if (code == PAWL_OK)
                *out = election;
        else
                free(election);
        return code;
}

int pawl_campaign_async(pawl_client *client, const char *name, const struct pawl_election_options *theirs,
                        pawl_elected_fn *on_elected, void *arg, pawl_election **election)
{
        struct pawl_election_options options;
        int code = check_options(client, theirs, &options);

        if (code != PAWL_OK)
                return code;
        if (!election || !on_elected)
                return recipe_fail(options.why, PAWL_INVALID, "there is no place for the election, or no on_elected");
        if (options.value_size)
                return recipe_fail(options.why, PAWL_INVALID,
                                   "who is elected behind our back publishes the value himself");
        return stand(client, name, &options, on_elected, arg, election);
}

static int wait_for_election(pawl_election *election, const struct pawl_election_options *options)
{
        int code = pawl_wait(election->lock, PAWL_FOREVER);

        if (code == PAWL_CANCELLED)
                return recipe_fail(options->why, code, "the client is being closed");
        if (code != PAWL_OK && options->why)
                (void)pawl_lock_why(election->lock, options->why);
        if (code == PAWL_OK && options->value_size) {
                code = pawl_publish(election, options->value, options->value_size);
                if (code != PAWL_OK)
                        recipe_explain(options->why, election->client, code);
        }
        return code;
}

int pawl_campaign(pawl_client *client, const char *name, const struct pawl_election_options *theirs,
                  pawl_election **out)
{
        struct pawl_election_options options;
        pawl_election *election;
        int code = check_options(client, theirs, &options);

        if (code == PAWL_OK && !out)
                code = recipe_fail(options.why, PAWL_INVALID, "there is no place for the election: it is NULL");
        if (code == PAWL_OK)
                code = stand(client, name, &options, NULL, NULL, &election);
        if (code != PAWL_OK)
                return code;
        code = wait_for_election(election, &options);
        if (code == PAWL_OK)
                *out = election;
        else if (code ==
                 PAWL_CANCELLED) /* nobody else has the lock to cancel it: it goes, or is gone, with its client */
                free(election);
        else
                (void)pawl_resign(election);
        return code;
}

/* ---- leaders ----------------------------------------------------------------------------------------------------- */

int pawl_leads(pawl_election *election)
{
        return election ? pawl_check(election->lock) : PAWL_INVALID;
}

int64_t pawl_leads_ms(pawl_election *election)
{
        return election ? pawl_remaining_ms(election->lock) : 0;
}

uint64_t pawl_epoch(const pawl_election *election)
{
        return election ? pawl_token(election->lock) : 0;
}

int pawl_publish(pawl_election *election, const void *value, size_t size)
{
        int code;

        if (!election)
                return PAWL_INVALID;
        if (size)
                atomic_store(&election->published, true); /* also if the answer is lost */
        code = pawl_store(election->lock, value, size, 0);
        if (code == PAWL_OK && !size)
                atomic_store(&election->published, false);
        return code;
}

/* Inside a callback pawl_release does not wait for on_granted, if that is still to run. */
int pawl_resign(pawl_election *election)
{
        int code;

        if (!election)
                return PAWL_OK;
        if (atomic_load(&election->published) && pawl_check(election->lock) == PAWL_OK)
                (void)!pawl_store(election->lock, NULL, 0, 0); /* who leads next replaces it anyway */
        code = pawl_release(election->lock);
        let_go(election);
        return code;
}

/* ---- observers --------------------------------------------------------------------------------------------------- */

static void copy_text(char *room, size_t size, const char *text)
{
        size_t length = text ? strnlen(text, size - 1) : 0;

        memcpy(room, text ? text : "", length);
        room[length] = '\0';
}

static int note_leader(const struct pawl_entry *entry, void *arg)
{
        struct pawl_leader *leader = arg;

        if (entry->role != PAWL_ROLE_HOLDER)
                return 0;
        leader->epoch = entry->token;
        leader->since_ms = entry->since_ms;
        leader->remaining_ms = entry->remaining_ms;
        copy_text(leader->owner, sizeof(leader->owner), entry->owner);
        copy_text(leader->note, sizeof(leader->note), entry->note);
        return 1;
}

/* The value of this leader, if it has one: that of another epoch is nobody's. */
static int add_value(pawl_client *client, const char *name, struct pawl_leader *leader)
{
        struct pawl_value value;
        int code;

        if (!(pawl_capabilities(client) & PAWL_CAN_KEEP))
                return PAWL_OK;
        code = pawl_fetch(client, name, &value);
        if (code != PAWL_OK)
                return code == PAWL_NOT_FOUND ? PAWL_OK : code;
        if (value.token != leader->epoch) {
                free(value.data);
                return PAWL_OK;
        }
        leader->value = value.data;
        leader->value_size = value.size;
        return PAWL_OK;
}

int pawl_leader(pawl_client *client, const char *name, struct pawl_why *why, struct pawl_leader *out)
{
        struct pawl_leader leader = {0};
        int code;

        if (!out)
                return recipe_fail(why, PAWL_INVALID, "there is no place for the leader: it is NULL");
        code = pawl_look(client, name, note_leader, &leader);
        if (code == PAWL_OK)
                code = leader.epoch ? add_value(client, name, &leader) : PAWL_NOT_FOUND;
        if (code != PAWL_OK)
                return code == PAWL_NOT_FOUND ? recipe_fail(why, code, "nobody leads")
                                              : recipe_explain(why, client, code);
        *out = leader;
        return PAWL_OK;
}

void pawl_leader_free(struct pawl_leader *leader)
{
        if (!leader)
                return;
        free(leader->value);
        leader->value = NULL;
        leader->value_size = 0;
}

static bool same(const struct pawl_leader *one, const struct pawl_leader *other)
{
        return one->epoch == other->epoch && one->value_size == other->value_size &&
               (!one->value_size || !memcmp(one->value, other->value, one->value_size));
}

/* Worth asking again. */
static bool passes(int code)
{
        return code == PAWL_UNREACHABLE || code == PAWL_NO_QUORUM || code == PAWL_NO_MEMORY || code == PAWL_SYSTEM ||
               code == PAWL_FULL || code == PAWL_STUCK;
}

struct observer {
        struct pawl_leader told; /* epoch 0: nobody */
        bool told_once;
        pawl_leader_fn *fn;
        void *arg;
};

/* True: fn has seen enough. now is taken over. */
static bool tell(struct observer *observer, struct pawl_leader *now)
{
        bool news = !observer->told_once || !same(&observer->told, now);

        if (!news) {
                pawl_leader_free(now);
                return false;
        }
        pawl_leader_free(&observer->told);
        observer->told = *now;
        observer->told_once = true;
        return observer->fn(now->epoch ? now : NULL, observer->arg) != 0;
}

int pawl_observe(pawl_client *client, const char *name, const struct pawl_observe_options *theirs, pawl_leader_fn *fn,
                 void *arg)
{
        struct pawl_observe_options options;
        struct observer observer = {.fn = fn, .arg = arg};
        int64_t deadline, next;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_OBSERVE");

        if (code != PAWL_OK)
                return code;
        if (!fn)
                return recipe_fail(options.why, PAWL_INVALID, "there is no function to report leaders to");
        if (options.flags || options.every_ms < 0 || options.wait_ms < 0)
                return recipe_fail(options.why, PAWL_INVALID, "no flags are known, and times are not negative");
        deadline = recipe_deadline(options.wait_ms);
        for (;;) {
                struct pawl_leader now = {0};

                code = pawl_leader(client, name, options.why, &now);
                if (code == PAWL_NOT_FOUND)
                        code = PAWL_OK;
                if ((code != PAWL_OK && !passes(code)) || (code == PAWL_OK && tell(&observer, &now)))
                        break;
                if (when_now() >= deadline) {
                        code = recipe_fail(options.why, PAWL_TIMEOUT, "the time to observe is over");
                        break;
                }
                next = recipe_deadline(options.every_ms ? options.every_ms : LOOK_EVERY_MS);
                recipe_sleep(client, (next < deadline ? next : deadline) - when_now());
        }
        pawl_leader_free(&observer.told);
        return code;
}
