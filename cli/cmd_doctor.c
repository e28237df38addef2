/* cmd_doctor.c - `pawl doctor`: is the store fit to keep locks, or the marks of a guard? What is wrong with it, and the
 * command that mends it. */
#include <stdlib.h>

#include "store.h"

static uint32_t worst;

static const char *severity_text(uint32_t severity)
{
        static const char *const texts[] = {"fine", "advice", "warning", "danger"};

        return severity <= PAWL_DANGER ? texts[severity] : "unknown";
}

static void print_finding(const struct pawl_finding *finding)
{
        char where[1024], what[2048], mend[8192];

        escape_for_terminal(finding->where, where, sizeof(where));
        escape_for_terminal(finding->what, what, sizeof(what));
        escape_for_terminal(finding->mend, mend, sizeof(mend));
        printf("%-8s %s: %s\n", severity_text(finding->severity), where, what);
        if (*mend)
                printf("         mend: %s\n", mend);
}

static void print_json(const struct pawl_finding *finding)
{
        json_open(stdout, NULL, '{');
        json_text(stdout, "severity", severity_text(finding->severity));
        json_text(stdout, "where", finding->where);
        json_text(stdout, "what", finding->what);
        json_text(stdout, "mend", *finding->mend ? finding->mend : NULL);
        json_close(stdout, '}');
}

static int on_finding(const struct pawl_finding *finding, void *arg)
{
        (void)arg;
        if (finding->severity > worst)
                worst = finding->severity;
        (settings.json ? print_json : print_finding)(finding);
        return 0;
}

static void begin(void)
{
        if (settings.json)
                json_open(stdout, NULL, '[');
}

static void end(void)
{
        if (settings.json) {
                json_close(stdout, ']');
                json_end(stdout);
        }
}

/* An advice about a store that is named by this URL, as people wrote it. */
static int advise(const char *url, const char *what)
{
        char *shown = url_without_secrets(url);
        struct pawl_finding finding = {.severity = PAWL_ADVICE, .where = shown, .what = what, .mend = ""};

        if (!shown)
                return PAWL_NO_MEMORY;
        on_finding(&finding, NULL);
        free(shown);
        return PAWL_OK;
}

/* Of the embedded engine only: others have a server that answers or not. */
static int say_no_store(void)
{
        const char *url = settings.url ? settings.url : getenv("PAWL_URL");
        char what[1024];

        snprintf(what, sizeof(what),
                 "%s. The first lock makes the store; a directory that it makes is for that user alone",
                 client_not_there());
        return advise(url && *url ? url : "local:", what);
}

static int examine(pawl_client *client, const char *nothing)
{
        int code = PAWL_OK;

        (void)nothing;
        begin();
        if (client)
                code = pawl_examine(client, on_finding, NULL);
        else
                code = say_no_store();
        end();
        return fail_of_client(client, code);
}

static int examine_guard(const struct command *command)
{
        struct pawl_why why = {0};
        pawl_guard *guard;
        int code, status;

        if (!store_open_to_look(command, &guard, &status))
                return status;
        begin();
        code = guard ? pawl_guard_examine(guard, on_finding, NULL, &why)
                     : advise(store_named(), "there is no database yet: the first token that is admitted makes one");
        end();
        pawl_guard_close(guard);
        return fail(code, &why);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status;

        if (!options_read(command, store_options, argc, argv, &arguments, &status))
                return status;
        if (store_named() && settings.url)
                return usage_error(command, "-e is a store of locks, and --store one of a guard: name one of them");
        if (store_named()) {
                status = examine_guard(command);
        } else {
                settings.quiet = !settings.verbose; /* what the library warns of is a finding here */
                status = client_look(examine, NULL);
        }
        return status == EXIT_DONE && worst > PAWL_ADVICE ? EXIT_CONFLICT : status;
}

const struct command cmd_doctor = {
        .name = "doctor",
        .arguments = "",
        .summary = "what makes locks unsafe in this store, and what mends it",
        .details =
                "With --store it is the store of a guard that is looked at; $PAWL_STORE alone does not do "
                "so.\n" STORE_DETAILS "Status: 0 nothing worse than advice; 1 a warning or a danger; 125 pawl failed.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .run = run,
};
