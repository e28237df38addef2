/* place.c - fresh places, the clients in them, their event loops under PAWL_DRIVE_CALLER, and ways to look. */
#include "contract.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { MEMBERS_MAX = 64 };

struct member {
        pawl_client *client;
        pthread_t thread;
        int stop_fd;
};

static struct member members[MEMBERS_MAX];
static pthread_mutex_t members_lock = PTHREAD_MUTEX_INITIALIZER;
static char place_url[1024];

static void bail_out(const char *what, const char *why)
{
        printf("Bail out! %s: %s\n", what, why);
        fflush(stdout);
        _exit(1);
}

int64_t now_ms(void)
{
        struct timespec ts;
        clock_gettime(CLOCK_BOOTTIME, &ts);
        return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void nap(int64_t ms)
{
        struct timespec ts = {ms / 1000, (ms % 1000) * 1000000};
        while (nanosleep(&ts, &ts) == -1 && errno == EINTR)
                ;
}

int64_t pause_after(int64_t waited_ms)
{
        return waited_ms < 20 ? 2 : waited_ms < 400 ? waited_ms / 10 : 40;
}

int64_t believable_ms(int64_t ttl_ms)
{
        return ttl_ms - ttl_ms / 100 - 2;
}

/* ---- reports --------------------------------------------------------------------------------------------------- */

static void name_code(long code, char *text, size_t size)
{
        if (strcmp(pawl_error_name((int)code), "PAWL_UNKNOWN"))
                snprintf(text, size, "%s (%ld: %s)", pawl_error_name((int)code), code, pawl_strerror((int)code));
        else
                snprintf(text, size, "%ld, which is not a code of the library%s", code,
                         code == -1 ? " (a peer that does not answer gives -1)" : "");
}

bool check_code(long actual, long expected, const char *file, int line, const char *text)
{
        char shown[2][256];
        if (actual == expected)
                return tap_check(true, file, line, text);
        name_code(expected, shown[0], sizeof shown[0]);
        name_code(actual, shown[1], sizeof shown[1]);
        return tap_check_shown(false, shown[0], shown[1], file, line, text);
}

void note_wait(const char *file, int line, const char *condition)
{
        const char *tests = strstr(file, "tests/");
        NOTE("%s:%d: waited %d ms for this, which did not become true: %s", tests ? tests : file, line, PATIENCE,
             condition);
}

/* ---- places ---------------------------------------------------------------------------------------------------- */

static void take_down(void)
{
        end_all_peers();
        for (int i = 0; i < MEMBERS_MAX; i++)
                if (members[i].client)
                        (void)leave(members[i].client);
}

/* As an administrator would, once. */
static void prepare(const char *place)
{
        struct pawl_why why = {0};
        pawl_client *client = NULL;
        if (pawl_open(place, PAWL_OPEN(.why = &why), &client) != PAWL_OK)
                bail_out(place, why.text);
        if (pawl_init(client, 0) != PAWL_OK) {
                pawl_explain(client, &why);
                bail_out(place, why.text);
        }
        pawl_close(client);
}

const char *fresh_place(void)
{
        static unsigned number;
        const char *template = getenv("PAWL_TEST_URL");
        if (!number++)
                atexit(take_down);
        take_down();
        size_t used = 0;
        for (const char *p = template ? template : "local:{dir}"; *p && used < sizeof place_url - 1;) {
                char *out = place_url + used;
                size_t room = sizeof place_url - used;
                if (!strncmp(p, "{dir}", 5)) {
                        used += (size_t)snprintf(out, room, "%s", tap_directory());
                        p += 5;
                } else if (!strncmp(p, "{n}", 3)) {
                        used += (size_t)snprintf(out, room, "%ld-%u-%llx", (long)getpid(), number,
                                                 (unsigned long long)now_ms()); /* process ids are used again */
                        p += 3;
                } else {
                        *out = *p++;
                        used++;
                }
        }
        if (used >= sizeof place_url)
                bail_out("PAWL_TEST_URL", "too long");
        place_url[used] = '\0';
        if (getenv("PAWL_TEST_INIT"))
                prepare(place_url);
        return place_url;
}

/* ---- clients --------------------------------------------------------------------------------------------------- */

bool caller_drives(void)
{
        const char *drive = getenv("PAWL_TEST_DRIVE");
        return drive && !strcmp(drive, "caller");
}

/* The event loop a program would have under PAWL_DRIVE_CALLER. */
static void *turn_client(void *arg)
{
        struct member *member = arg;
        struct pollfd fds[2] = {{.fd = pawl_fd(member->client), .events = POLLIN},
                                {.fd = member->stop_fd, .events = POLLIN}};
        while (!fds[1].revents) {
                if (poll(fds, 2, -1) > 0 && fds[0].revents)
                        pawl_dispatch(member->client);
        }
        return NULL;
}

static void enter(pawl_client *client)
{
        pthread_mutex_lock(&members_lock);
        struct member *member = members;
        while (member->client && member < members + MEMBERS_MAX - 1)
                member++;
        if (member->client)
                bail_out("join", "too many clients in one test");
        *member = (struct member){.client = client, .stop_fd = -1};
        if (caller_drives()) {
                member->stop_fd = eventfd(0, EFD_CLOEXEC);
                if (member->stop_fd < 0 || pthread_create(&member->thread, NULL, turn_client, member))
                        bail_out("join", "no thread to turn the client");
        }
        pthread_mutex_unlock(&members_lock);
}

pawl_client *join_with(const char *place, struct pawl_open_options options)
{
        struct pawl_why why = {0};
        pawl_client *client = NULL;
        options.size = sizeof options;
        options.drive = caller_drives() ? PAWL_DRIVE_CALLER : PAWL_DRIVE_THREAD;
        options.why = &why;
        if (pawl_open(place, &options, &client) != PAWL_OK)
                bail_out(place, why.text);
        enter(client);
        return client;
}

pawl_client *join(const char *place)
{
        return join_with(place, (struct pawl_open_options){0});
}

int leave(pawl_client *client)
{
        struct member member = {0};
        pthread_mutex_lock(&members_lock);
        for (int i = 0; i < MEMBERS_MAX; i++) {
                if (members[i].client != client)
                        continue;
                member = members[i];
                if (member.stop_fd >= 0) {
                        eventfd_write(member.stop_fd, 1);
                        pthread_join(member.thread, NULL);
                        close(member.stop_fd);
                }
                members[i].client = NULL;
                break;
        }
        pthread_mutex_unlock(&members_lock);
        return member.client ? pawl_close(client) : PAWL_INVALID;
}

/* ---- looking --------------------------------------------------------------------------------------------------- */

static int note_line(const struct pawl_entry *entry, void *arg)
{
        struct view *view = arg;
        view->holders += entry->role == PAWL_ROLE_HOLDER;
        view->waiters += entry->role == PAWL_ROLE_WAITER;
        view->past += entry->role == PAWL_ROLE_PAST;
        if (view->count < VIEW_MAX) {
                struct line *line = &view->lines[view->count++];
                line->entry = *entry;
                snprintf(line->name, sizeof line->name, "%s", entry->name);
                snprintf(line->owner, sizeof line->owner, "%s", entry->owner ? entry->owner : "");
                snprintf(line->note, sizeof line->note, "%s", entry->note ? entry->note : "");
                snprintf(line->broken_by, sizeof line->broken_by, "%s", entry->broken_by ? entry->broken_by : "");
                snprintf(line->reason, sizeof line->reason, "%s", entry->reason ? entry->reason : "");
        }
        return 0;
}

int show(pawl_client *client, const char *name, struct view *view)
{
        memset(view, 0, sizeof *view);
        return pawl_show(client, name, note_line, view);
}

int list(pawl_client *client, const char *prefix, struct view *view)
{
        memset(view, 0, sizeof *view);
        return pawl_list(client, prefix, note_line, view);
}

const struct line *line_of(const struct view *view, unsigned role, unsigned index)
{
        for (unsigned i = 0; i < view->count; i++)
                if (view->lines[i].entry.role == role && !index--)
                        return &view->lines[i];
        return NULL;
}

static unsigned count_waiters(pawl_client *client, const char *name)
{
        static _Thread_local struct view view;
        show(client, name, &view);
        return view.waiters;
}

bool is_free(pawl_client *client, const char *name)
{
        pawl_lock *lock;
        if (pawl_acquire(client, name, PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock) != PAWL_OK)
                return false;
        return pawl_release(lock) == PAWL_OK;
}

/* Whoever begins to wait may need a connection for it: some times as long as a newcomer needs for its first lock now. */
static void give_time(void)
{
        int64_t began = now_ms();
        pawl_client *newcomer = join(place_url);
        (void)is_free(newcomer, "what a newcomer takes");
        (void)leave(newcomer);
        nap(100 + 4 * (now_ms() - began));
}

bool queue_reaches(pawl_client *client, const char *name, unsigned count)
{
        if (!(pawl_capabilities(client) & PAWL_CAN_INSPECT)) {
                give_time();
                return true;
        }
        unsigned waiters = 0;
        if (SOON((waiters = count_waiters(client, name)) == count))
                return true;
        NOTE("waiters for \"%s\": expected %u, actual %u", name, count, waiters);
        return false;
}

bool nothing_is_left(pawl_client *client, const char *name)
{
        static _Thread_local struct view view;
        if (!(pawl_capabilities(client) & PAWL_CAN_INSPECT))
                return true;
        int code = show(client, name, &view);
        return (code == PAWL_NOT_FOUND || code == PAWL_OK) && view.holders == 0 && view.waiters == 0;
}

int break_it(pawl_client *client, const char *name)
{
        static _Thread_local struct view view;
        uint64_t token = 0;
        int code;

        do {
                const struct line *holder = NULL;
                if (pawl_capabilities(client) & PAWL_CAN_INSPECT && show(client, name, &view) == PAWL_OK)
                        holder = line_of(&view, PAWL_ROLE_HOLDER, 0);
                if (token && (!holder || holder->entry.token != token))
                        return PAWL_OK; /* it was done, and only the answer was lost */
                token = holder ? holder->entry.token : 0;
                code = pawl_break(client, name);
        } while (code == PAWL_IN_DOUBT);
        return code;
}

/* ---- callbacks ------------------------------------------------------------------------------------------------- */

void see_granted(pawl_lock *lock, int status, void *arg)
{
        struct seen *seen = arg;
        (void)lock;
        atomic_store(&seen->status, status);
        atomic_fetch_add(&seen->granted, 1);
}

void see_lost(pawl_lock *lock, int reason, void *arg)
{
        struct seen *seen = arg;
        (void)lock;
        atomic_store(&seen->reason, reason);
        atomic_fetch_add(&seen->lost, 1);
}

void see_asked(pawl_lock *lock, void *arg)
{
        struct seen *seen = arg;
        (void)lock;
        atomic_fetch_add(&seen->asked, 1);
}

void see_released(int status, void *arg)
{
        struct seen *seen = arg;
        atomic_store(&seen->release_status, status);
        atomic_fetch_add(&seen->released, 1);
}
