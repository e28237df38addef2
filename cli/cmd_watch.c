/* cmd_watch.c - `pawl watch`: what happens to a lock, or to all with a prefix, a line for each event. The store is polled:
 * one name with its history; of many names the list, and then those where something has changed, and a few more. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

#define MS INT64_C(1000000)

enum {
        POLLED_MAX = 64,            /* names whose holders, queue and history are read in one poll */
        FREE_MAX = 8,               /* of these, those that nobody holds: their history may show what no poll saw */
        WINDOW_MS = 10 * 60 * 1000, /* a name that is new to us: its past owners of that time are news */
        FORGET_AFTER_MS = 20 * 60 * 1000 /* a name that nobody holds */
};

enum until { UNTIL_END = 0, UNTIL_FREE, UNTIL_HELD };

static struct {
        const char *name;
        const char *prefix;
        int64_t interval_ms;
        int64_t for_ms; /* 0: no end */
        uint32_t count; /* 0: any number */
        uint32_t until; /* enum until */
} request = {.interval_ms = 1000};

static bool option_until(const struct option *option, const char *text)
{
        bool free = !strcmp(text, "free");

        if (!free && strcmp(text, "held") != 0) {
                say("--until wants free or held, not '%s'", text);
                return false;
        }
        *(uint32_t *)option->target = free ? UNTIL_FREE : UNTIL_HELD;
        return true;
}

static const struct option options[] = {
        {'p', "prefix", "PREFIX", "all names that begin with PREFIX ('': all) in place of NAME", option_text,
         &request.prefix},
        {'i', "interval", "DUR", "from one poll to the next (1s)", option_some_time, &request.interval_ms},
        {0, "until", "free|held", "end when it is free, or held", option_until, &request.until},
        {0, "for", "DUR", "end after DUR", option_some_time, &request.for_ms},
        {0, "count", "N", "end after N events", option_number, &request.count},
        {0},
};

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static uint32_t printed;

static bool is_over(void)
{
        return request.count && printed >= request.count;
}

static int64_t held_ms(const struct happening *happening)
{
        const struct pawl_entry *entry = happening->entry;
        bool ended =
                entry && entry->role == PAWL_ROLE_PAST && entry->since_ms > 0 && strcmp(happening->event, "acquired");

        return ended && entry->until_ms > entry->since_ms ? entry->until_ms - entry->since_ms : ended ? 0 : -1;
}

static bool is_of_queue(const struct happening *happening)
{
        return happening->entry && happening->entry->role == PAWL_ROLE_WAITER;
}

static void print_json(const struct happening *happening)
{
        const struct pawl_entry *entry = happening->entry;

        json_open(stdout, NULL, '{');
        json_text(stdout, "event", happening->event);
        if (happening->name)
                json_text(stdout, "name", happening->name);
        json_time(stdout, "at", happening->at_ms);
        if (entry && entry->token)
                json_token(stdout, "token", entry->token);
        if (entry) {
                json_text(stdout, "mode", entry->mode == PAWL_SHARED ? "shared" : "exclusive");
                json_text(stdout, "owner", entry->owner);
                json_text(stdout, "note", entry->note);
        }
        if (held_ms(happening) >= 0)
                json_number(stdout, "held_ms", held_ms(happening));
        if (is_of_queue(happening))
                json_number(stdout, "waiters", happening->waiters);
        if (happening->code)
                json_text(stdout, "error", pawl_error_name(happening->code));
        if (happening->message)
                json_text(stdout, "message", happening->message);
        json_close(stdout, '}');
        json_end(stdout);
}

static void print_entry(const struct pawl_entry *entry)
{
        char text[4 * PAWL_OWNER_MAX + 1];

        if (entry->token)
                printf(" token %llu", (unsigned long long)entry->token);
        escape_for_terminal(*entry->owner ? entry->owner : "a client without a name", text, sizeof(text));
        printf(" %s", text);
        escape_for_terminal(entry->note, text, sizeof(text));
        if (*text)
                printf(" (%s)", text);
}

static void print_text(const struct happening *happening)
{
        time_t seconds = (time_t)(happening->at_ms / 1000);
        char clock[32] = "", text[4 * 504], held[24];
        struct tm tm;

        strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", localtime_r(&seconds, &tm));
        printf("%s.%03d %-8s", clock, (int)(happening->at_ms % 1000), happening->event);
        if (happening->name) {
                escape_for_terminal(happening->name, text, sizeof(text));
                printf(" '%s'", text);
        }
        if (happening->entry)
                print_entry(happening->entry);
        if (held_ms(happening) >= 0)
                printf(" after %s", duration_text(held_ms(happening), held));
        if (is_of_queue(happening))
                printf("; %u in the queue", happening->waiters);
        if (happening->message) {
                escape_for_terminal(happening->message, text, sizeof(text));
                printf(": %s", text);
        }
        putchar('\n');
}

/* Each line at once. A reader that has left ends us by SIGPIPE; other failures are reported at the end. */
static void print(const struct happening *happening)
{
        if (is_over() || ferror(stdout))
                return;
        (settings.json ? print_json : print_text)(happening);
        fflush(stdout);
        printed++;
}

static void print_store(const char *event, int code, const char *message)
{
        print(&(struct happening){.event = event, .at_ms = unix_ms(), .code = code, .message = message});
}

/* ---- the names that are watched ----------------------------------------------------------------------------------- */

struct watch {
        pawl_client *client;
        struct watched **name; /* by their names */
        size_t names;
        size_t room;
        size_t turn; /* the next one to be polled */
        int64_t begun_ms;
        int64_t polled_ms; /* unix time of the last poll that was answered; 0: there was none */
        bool away;         /* the store did not answer the last one */
        bool is_free;      /* as it was seen last: nobody holds one of the names, and there is no lock-delay */
        bool is_held;
};

/* Where it is, or belongs. */
static size_t place_of(const struct watch *watch, const char *name)
{
        size_t low = 0, high = watch->names;

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (strcmp(watch->name[middle]->name, name) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static struct watched *insert(struct watch *watch, size_t place, const char *name)
{
        struct watched *watched;

        if (watch->names == watch->room) {
                size_t room = watch->room ? 2 * watch->room : 16;
                struct watched **more = realloc(watch->name, room * sizeof(struct watched *));

                if (!more)
                        return NULL;
                watch->name = more;
                watch->room = room;
        }
        watched = watched_new(name);
        if (!watched)
                return NULL;
        memmove(watch->name + place + 1, watch->name + place, (watch->names++ - place) * sizeof(struct watched *));
        return watch->name[place] = watched;
}

static struct watched *find_or_insert(struct watch *watch, const char *name)
{
        size_t place = place_of(watch, name);

        if (place < watch->names && !strcmp(watch->name[place]->name, name))
                return watch->name[place];
        return insert(watch, place, name);
}

/* Names come and go: what is not used any more is not remembered for ever. */
static void forget_old_names(struct watch *watch)
{
        int64_t before = now_ns() - FORGET_AFTER_MS * MS;
        size_t kept = 0;

        for (size_t i = 0; i < watch->names; i++) {
                struct watched *watched = watch->name[i];

                if (!watched->due && !watched->listed && !watched->missing.count && watched->busy_at < before)
                        watched_free(watched);
                else
                        watch->name[kept++] = watched;
        }
        watch->names = kept;
}

/* ---- a poll ------------------------------------------------------------------------------------------------------- */

static bool has_history(const struct watch *watch)
{
        return pawl_capabilities(watch->client) & PAWL_CAN_HISTORY;
}

static void note_state(struct watch *watch, const struct pawl_entry *entry)
{
        if (entry->role == PAWL_ROLE_HOLDER)
                watch->is_held = true;
        if (entry->role == PAWL_ROLE_HOLDER || (entry->role == PAWL_ROLE_FREE && entry->remaining_ms > 0))
                watch->is_free = false;
}

static int see(struct watch *watch, const char *name, struct sight *sight)
{
        int code = watch->client ? pawl_show(watch->client, name, sight_add, sight) : PAWL_NOT_FOUND;

        if (sight->short_of_memory)
                code = PAWL_NO_MEMORY;
        return code == PAWL_NOT_FOUND ? PAWL_OK : code;
}

/* A name whose past is not known yet: what ended before our time, or long ago, is no news. */
static void settle_first(const struct watch *watch, struct watched *watched, const struct sight *sight)
{
        int64_t before_ms = watch->polled_ms - WINDOW_MS;

        if (!watched->shown)
                watched_settle(watched, sight, before_ms > watch->begun_ms ? before_ms : watch->begun_ms);
        watched->shown = true;
}

static int poll_one(struct watch *watch, struct watched *watched)
{
        struct sight sight = {0};
        int code = see(watch, watched->name, &sight);

        if (code == PAWL_OK) {
                settle_first(watch, watched, &sight);
                watched_compare(watched, &sight, has_history(watch), print);
                watched->due = watched->missing.count > 0;
        }
        sight_clear(&sight);
        return code;
}

static int poll_name(struct watch *watch)
{
        struct watched *watched = find_or_insert(watch, request.name);
        struct sight sight = {0};
        int code = watched ? see(watch, request.name, &sight) : PAWL_NO_MEMORY;

        if (code == PAWL_OK) {
                watch->is_held = false;
                watch->is_free = true;
                for (size_t i = 0; i < sight.count; i++)
                        note_state(watch, &sight.entry[i]);
                if (!watch->polled_ms)
                        watched_begin(watched, &sight, true, print);
                else
                        watched_compare(watched, &sight, watch->client && has_history(watch), print);
        }
        sight_clear(&sight);
        return code;
}

/* The entries of one name out of a list. */
static int take_listed(struct watch *watch, struct sight *sight, uint32_t waiters)
{
        struct watched *watched = find_or_insert(watch, sight->entry[0].name);

        if (!watched)
                return PAWL_NO_MEMORY;
        watched->listed = true;
        if (!watch->polled_ms)
                watched_begin(watched, sight, false, print);
        if (waiters || waiters != watched->waiters || !watched_same_holders(watched, sight))
                watched->due = true;
        watched->waiters = waiters;
        return PAWL_OK;
}

static int compare_names(const void *a, const void *b)
{
        return strcmp(((const struct pawl_entry *)a)->name, ((const struct pawl_entry *)b)->name);
}

/* Takes the entries of sight. */
static int take_list(struct watch *watch, struct sight *list)
{
        int code = PAWL_OK;

        if (list->count)
                qsort(list->entry, list->count, sizeof(*list->entry), compare_names);
        for (size_t i = 0, next; i < list->count && code == PAWL_OK; i = next) {
                struct sight sight = {0};

                for (next = i; next < list->count && !strcmp(list->entry[next].name, list->entry[i].name); next++) {
                        note_state(watch, &list->entry[next]);
                        if (sight_add(&list->entry[next], &sight) != 0)
                                code = PAWL_NO_MEMORY;
                }
                if (code == PAWL_OK)
                        code = take_listed(watch, &sight, list->entry[i].waiters);
                sight_clear(&sight);
        }
        return code;
}

static void unlist(struct watch *watch)
{
        for (size_t i = 0; i < watch->names; i++)
                watch->name[i]->listed = false;
}

/* Not listed any more. */
static void find_unlisted(struct watch *watch)
{
        for (size_t i = 0; i < watch->names; i++) {
                struct watched *watched = watch->name[i];

                if (watched->listed)
                        continue;
                watched->waiters = 0;
                if (watched->last.count)
                        watched->due = true;
        }
}

/* Of those that are due as many as there is time for, the others in the next poll; and of the free ones a few. */
static int poll_some(struct watch *watch)
{
        int64_t until = now_ns() + request.interval_ms * MS;
        unsigned polled = 0, free_ones = 0;
        int code = PAWL_OK;

        for (size_t i = 0; i < watch->names && code == PAWL_OK; i++) {
                struct watched *watched = watch->name[watch->turn++ % watch->names];
                bool is_free = !watched->due && !watched->listed && free_ones < FREE_MAX;

                if (!watched->due && !is_free)
                        continue;
                free_ones += is_free;
                code = poll_one(watch, watched);
                if (++polled == POLLED_MAX || now_ns() > until)
                        break;
        }
        if (watch->names)
                watch->turn %= watch->names;
        return code;
}

static int poll_prefix(struct watch *watch)
{
        struct sight list = {0};
        int code = watch->client ? pawl_list(watch->client, request.prefix, sight_add, &list) : PAWL_OK;

        if (list.short_of_memory)
                code = PAWL_NO_MEMORY;
        if (code == PAWL_OK) {
                watch->is_held = false;
                watch->is_free = true;
                unlist(watch);
                code = take_list(watch, &list);
        }
        sight_clear(&list);
        if (code != PAWL_OK || !watch->client)
                return code;
        find_unlisted(watch);
        code = poll_some(watch);
        forget_old_names(watch);
        return code;
}

/* ---- a store that goes away --------------------------------------------------------------------------------------- */

/* "Try again later" (pawl.h): whatever else is wrong stays wrong. */
static bool may_pass(int code)
{
        return code >= PAWL_UNREACHABLE && code < PAWL_INVALID;
}

/* What came of a poll: EXIT_DONE if the watch goes on. */
static int take_answer(struct watch *watch, int code)
{
        struct pawl_why why = {0};

        if (code == PAWL_OK) {
                watch->polled_ms = unix_ms();
                if (watch->away)
                        print_store("back", PAWL_OK, "the store answers again");
                watch->away = false;
                return EXIT_DONE;
        }
        if (!watch->polled_ms || !may_pass(code))
                return fail_of_client(watch->client, code);
        (void)pawl_explain(watch->client, &why);
        if (!watch->away)
                print_store("away", code, why.code == code ? why.text : pawl_strerror(code));
        watch->away = true;
        return EXIT_DONE;
}

/* A store that is not there yet is polled for, too. */
static int poll_store(struct watch *watch)
{
        int status = watch->client ? EXIT_DONE : client_open_to_look(&watch->client);

        if (status != EXIT_DONE)
                return status;
        return take_answer(watch, request.name ? poll_name(watch) : poll_prefix(watch));
}

/* ---- the loop ----------------------------------------------------------------------------------------------------- */

/* Until then; the client does what is due meanwhile. Nobody reads a pipe any more: ends as by the next line. */
static void pause_until(struct watch *watch, int64_t until)
{
        struct pollfd fds[] = {{.fd = STDOUT_FILENO}, {.fd = -1, .events = POLLIN}};
        int64_t left_ms;

        if (watch->client)
                fds[1].fd = pawl_fd(watch->client);
        while ((left_ms = (until - now_ns() + MS - 1) / MS) > 0) {
                if (poll(fds, 2, (int)(left_ms < INT32_MAX ? left_ms : INT32_MAX)) <= 0)
                        continue;
                if (fds[0].revents & (POLLERR | POLLHUP))
                        raise(SIGPIPE);
                if (fds[0].revents)
                        fds[0].fd = -1;
                if (fds[1].revents && pawl_dispatch(watch->client) != PAWL_OK)
                        fds[1].fd = -1;
        }
}

static bool is_reached(const struct watch *watch)
{
        return !watch->away &&
               ((request.until == UNTIL_FREE && watch->is_free) || (request.until == UNTIL_HELD && watch->is_held));
}

static int not_reached(void)
{
        char wait[24];

        if (request.until == UNTIL_END)
                return EXIT_DONE;
        if (is_over())
                warn("'%s' was not %s within --count %u", request.name ? request.name : request.prefix,
                     request.until == UNTIL_FREE ? "free" : "held", request.count);
        else
                warn("'%s' was not %s within %s", request.name ? request.name : request.prefix,
                     request.until == UNTIL_FREE ? "free" : "held", duration_text(request.for_ms, wait));
        return EXIT_CONFLICT;
}

/* A poll that takes long is followed by a pause of the same length at least. */
static int watch_on(struct watch *watch)
{
        int64_t end = request.for_ms ? now_ns() + request.for_ms * MS : INT64_MAX;

        for (;;) {
                int64_t began = now_ns(), next;
                int status = poll_store(watch);

                if (status != EXIT_DONE || is_reached(watch))
                        return status;
                if (ferror(stdout))
                        return EXIT_DONE; /* main() says why */
                next = began + request.interval_ms * MS;
                if (next < 2 * now_ns() - began)
                        next = 2 * now_ns() - began;
                if (is_over() || now_ns() >= end)
                        return not_reached();
                pause_until(watch, next < end ? next : end);
        }
}

static void watch_end(struct watch *watch)
{
        for (size_t i = 0; i < watch->names; i++) {
                watched_give_up(watch->name[i], print);
                watched_free(watch->name[i]);
        }
        free(watch->name);
        pawl_close(watch->client);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct watch watch = {.begun_ms = unix_ms()};
        struct arguments arguments;
        sigset_t pipe_only;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (!arguments.words == !request.prefix)
                return usage_error(command, "watch wants NAME, or --prefix PREFIX");
        request.name = arguments.words ? arguments.word[0] : NULL;
        signal(SIGPIPE, SIG_DFL);
        sigemptyset(&pipe_only);
        sigaddset(&pipe_only, SIGPIPE);
        sigprocmask(SIG_UNBLOCK, &pipe_only, NULL);
        status = watch_on(&watch);
        watch_end(&watch);
        return status;
}

const struct command cmd_watch = {
        .name = "watch",
        .arguments = "NAME | --prefix PREFIX",
        .summary = "what happens to NAME, a line for each event",
        .details =
                "Events: held, free (at the start), acquired, released, expired, died, broken, gone (how it ended is\n"
                "not known), waiting, left (the queue), missed, and away, back (the store). With --json an object for\n"
                "each. The store is polled; what came and went between two polls is found in the lock's history.\n"
                "Status: 0; 1 --for or --count ended it before --until did; 125 pawl failed.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .words_max = 1,
        .run = run,
};
