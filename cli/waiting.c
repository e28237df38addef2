/* waiting.c - what people are told while a claim waits and when it is refused: who holds the lock, for how long, until
 * when its lease lasts, and how many waiters are ahead.
 *
 * At a terminal one line is updated in place; without one a line is written once, with -v one whenever something changed.
 * The store is asked after a second, and then every few seconds: a claim that waits for hours must not be a load. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)
#define FIRST_AFTER (1 * SECOND)
#define REDRAW_EVERY (1 * SECOND)
#define ASK_EVERY (5 * SECOND)

/* ---- what the store says --------------------------------------------------------------------------------------- */

struct looker {
        struct holders *holders;
        const char *own;
        uint32_t same; /* waiters with our owner: who of them are we, if there are more? */
};

static void add_waiter(struct looker *looker, const struct pawl_entry *entry)
{
        if (entry->owner && !strcmp(entry->owner, looker->own))
                looker->same++;
        looker->holders->ahead += looker->same == 0;
        looker->holders->waiters++;
}

void holders_add(struct holders *holders, const struct pawl_entry *entry)
{
        if (holders->count++ > 0)
                return;
        snprintf(holders->owner, sizeof(holders->owner), "%s",
                 entry->owner && *entry->owner ? entry->owner : "a client without a name");
        if (entry->note && *entry->note)
                snprintf(holders->note, sizeof(holders->note), " (%s)", entry->note);
        holders->token = entry->token;
        holders->since_ms = entry->since_ms;
        if (entry->remaining_ms > 0)
                holders->lease_ends = now_ns() + entry->remaining_ms * MS;
}

static int on_entry(const struct pawl_entry *entry, void *arg)
{
        struct looker *looker = arg;

        if (entry->role == PAWL_ROLE_WAITER)
                add_waiter(looker, entry);
        else if (entry->role == PAWL_ROLE_HOLDER)
                holders_add(looker->holders, entry);
        else if (entry->role == PAWL_ROLE_FREE && entry->remaining_ms > 0)
                looker->holders->delay_ends = now_ns() + entry->remaining_ms * MS;
        return 0;
}

bool holders_look(pawl_client *client, const char *name, struct holders *holders)
{
        struct looker looker = {.holders = holders, .own = pawl_owner(client)};
        int code = PAWL_UNSUPPORTED;

        *holders = (struct holders){0};
        if (pawl_capabilities(client) & PAWL_CAN_INSPECT)
                code = pawl_look(client, name, on_entry, &looker);
        holders->known = code == PAWL_OK || code == PAWL_NOT_FOUND;
        holders->silent = !holders->known && code != PAWL_UNSUPPORTED;
        holders->queued = looker.same == 1;
        return holders->known;
}

static const char *time_to(int64_t ends, char *buffer)
{
        return duration_text((ends - now_ns()) / MS, buffer);
}

/* "held by web1:4711:backup.sh for 3m12s (lease ends within 8.2s)": of foreign holders the store may not know the times. */
static void holder_text(const struct holders *holders, char *text, size_t size)
{
        char held[40] = "", left[48] = "", others[32] = "", number[24];

        if (holders->count > 1)
                snprintf(others, sizeof(others), " and %u more", holders->count - 1);
        if (holders->since_ms > 0)
                snprintf(held, sizeof(held), " for %s", duration_text(unix_ms() - holders->since_ms, number));
        if (holders->lease_ends)
                snprintf(left, sizeof(left), " (lease ends within %s)", time_to(holders->lease_ends, number));
        snprintf(text, size, "held by %s%s%s%s%s", holders->owner, holders->note, others, held, left);
}

void holders_text(const struct holders *holders, char *text, size_t size)
{
        char delay[24];

        if (holders->silent)
                snprintf(text, size, "the store does not answer");
        else if (!holders->known)
                snprintf(text, size, "held by another client");
        else if (holders->count)
                holder_text(holders, text, size);
        else if (holders->delay_ends)
                snprintf(text, size, "its last holder failed, and its lock-delay ends in %s",
                         time_to(holders->delay_ends, delay));
        else
                snprintf(text, size, "no holder at this moment");
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

/* In place only where nobody else writes: in the foreground of a terminal that knows how to erase a line. */
static bool is_in_place(void)
{
        const char *kind = getenv("TERM");

        return settings.log_format == LOG_TEXT && kind && *kind && strcmp(kind, "dumb") != 0 && isatty(STDERR_FILENO) &&
               terminal_is_ours();
}

static const char *shown_name(const struct waiting *waiting)
{
        return waiting->request->shown ? waiting->request->shown : waiting->name;
}

static void compose(const struct waiting *waiting, char *text, size_t size)
{
        const struct holders *holders = &waiting->holders;
        char who[256], ahead[48] = "";

        holders_text(holders, who, sizeof(who));
        if (holders->known && holders->queued && holders->ahead)
                snprintf(ahead, sizeof(ahead), "; %u ahead of you", holders->ahead);
        snprintf(text, size, "%s '%s': %s%s", waiting->request->purpose, shown_name(waiting), who, ahead);
}

static size_t terminal_width(void)
{
        struct winsize size;

        return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Cut, so that it stays one line: the last column is left free, some terminals wrap there. */
static void draw(struct waiting *waiting)
{
        char text[1024], shown[4 * sizeof(text)], line[sizeof(shown) + 16];
        size_t width = terminal_width(), at = 0, columns = sizeof("pawl: ") - 1;

        compose(waiting, text, sizeof(text));
        escape_for_terminal(text, shown, sizeof(shown));
        while (shown[at]) {
                size_t wide, length = character_at(shown + at, &wide);

                if (columns + wide >= width)
                        break;
                columns += wide;
                at += length;
        }
        snprintf(line, sizeof(line), "\rpawl: %.*s\033[K", (int)at, shown);
        waiting->drawn = true;
        if (write(STDERR_FILENO, line, strlen(line)) < 0)
                return; /* nobody reads it; the wait goes on */
}

/* In the background the line is the shell's by now. */
static void erase(struct waiting *waiting)
{
        static const char clear[] = "\r\033[K";
        bool drawn = waiting->drawn;

        waiting->drawn = false;
        if (!drawn || !is_in_place())
                return;
        if (write(STDERR_FILENO, clear, sizeof(clear) - 1) < 0)
                return;
}

/* What a line is about: while that stays, no second one is written. That the store does not answer may pass; if not, the end
 * of the wait says why. */
static bool is_news(const struct waiting *waiting, const struct holders *before)
{
        const struct holders *now = &waiting->holders;

        if (!waiting->spoken)
                return !now->silent || settings.verbose;
        return settings.verbose && (now->token != before->token || now->ahead != before->ahead ||
                                    now->count != before->count || now->known != before->known);
}

static void write_line(struct waiting *waiting, const struct holders *before)
{
        char text[1024];

        if (!is_news(waiting, before))
                return;
        waiting->spoken = true;
        compose(waiting, text, sizeof(text));
        announce(&(struct event){.what = "waiting", .name = shown_name(waiting), .holders = &waiting->holders}, "%s",
                 text);
}

/* A manager that starts candidates one after the other must not wait for the last of them to lead. One whose store does not
 * answer is not ready. */
static void notify(const struct waiting *waiting)
{
        char text[1024];

        if (!notify_wanted())
                return;
        compose(waiting, text, sizeof(text));
        if (waiting->request->ready_to_wait && !waiting->holders.silent)
                notify_ready("%s", text);
        else
                notify_status("%s", text);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

void waiting_begin(struct waiting *waiting, pawl_client *client, const char *name, const struct claim_request *request,
                   const bool *over)
{
        *waiting = (struct waiting){.client = client, .name = name, .request = request, .over = over};
        waiting->next = (settings.quiet && !notify_wanted()) || !request->purpose ? INT64_MAX : now_ns() + FIRST_AFTER;
}

int waiting_due_ms(const struct waiting *waiting)
{
        int64_t left;

        if (waiting->next == INT64_MAX)
                return -1;
        left = waiting->next - now_ns();
        return left <= 0 ? 0 : (int)(left / MS) + 1;
}

/* One that has not answered is not asked again for this wait: nothing is heard meanwhile, no signal and no grant. */
static void ask(struct waiting *waiting)
{
        if (now_ns() < waiting->ask_at || waiting->holders.silent)
                return;
        holders_look(waiting->client, waiting->name, &waiting->holders);
        waiting->ask_at = now_ns() + ASK_EVERY;
}

void waiting_show(struct waiting *waiting)
{
        struct holders before = waiting->holders;
        bool in_place;

        if (waiting->next > now_ns())
                return;
        in_place = !settings.quiet && is_in_place();
        if (in_place || !waiting->spoken || settings.verbose || notify_wanted())
                ask(waiting);
        if (*waiting->over)
                return;
        notify(waiting);
        if (in_place) {
                draw(waiting);
        } else {
                erase(waiting);
                write_line(waiting, &before);
        }
        waiting->next = now_ns() + (in_place ? REDRAW_EVERY : ASK_EVERY);
}

void waiting_end(struct waiting *waiting)
{
        erase(waiting);
        waiting->next = INT64_MAX;
}
