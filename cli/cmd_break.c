/* cmd_break.c - `pawl break`: an administrator's force, by the token of a holder if it is to be that one only. At a
 * terminal it shows the holders, asks, and breaks those that it has shown; nobody agreed to any that came later. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { SHOWN_MAX = 10 };

static uint64_t only_token; /* 0: every holder */
static const char *reason;
static bool sure;

static const struct option options[] = {
        {0, "if-token", "TOKEN", "only if the holder with this token has it, and no other holder", option_token,
         &only_token},
        {0, "reason", "TEXT", "why, for `pawl show`; at most 127 bytes are kept", option_text, &reason},
        {0, "owner", "TEXT", "who breaks it, for `pawl show` (HOST:PID:PROGRAM)", option_text, &settings.owner},
        {'y', "yes", NULL, "do not ask, at a terminal either", option_flag, &sure},
        {0},
};

/* ---- what came of it --------------------------------------------------------------------------------------------- */

static void print_json(pawl_client *client, const char *name, int code)
{
        bool broken = code == PAWL_OK;
        struct holders holders;

        json_open(stdout, NULL, '{');
        json_text(stdout, "event", broken ? "broken" : "refused");
        json_text(stdout, "name", name);
        json_flag(stdout, "broken", broken);
        if (!broken)
                json_text(stdout, "error", pawl_error_name(code));
        if (only_token)
                json_token(stdout, "token", only_token);
        if (broken) {
                json_text(stdout, "broken_by", pawl_owner(client));
                json_text(stdout, "reason", reason);
        } else if (holders_look(client, name, &holders)) {
                json_holders(stdout, &holders);
        }
        json_close(stdout, '}');
        json_end(stdout);
}

static int report(pawl_client *client, const char *name, int code, const struct pawl_why *why)
{
        if (code != PAWL_OK && code != PAWL_NOT_FOUND && code != PAWL_BUSY)
                return fail(code, why);
        if (settings.json)
                print_json(client, name, code);
        if (code == PAWL_NOT_FOUND)
                warn("nobody holds '%s'", name);
        else if (code == PAWL_BUSY)
                warn("%s", why->text);
        else if (reason && !(pawl_capabilities(client) & PAWL_CAN_HISTORY))
                warn("the reason is not kept: this store has no history of its locks");
        return code == PAWL_OK ? EXIT_DONE : EXIT_CONFLICT;
}

static int break_if(pawl_client *client, const char *name, uint64_t token, struct pawl_why *why)
{
        *why = (struct pawl_why){0};
        return pawl_break_if(client, name, PAWL_BREAK(.token = token, .reason = reason, .why = why));
}

/* ---- at a terminal ------------------------------------------------------------------------------------------------- */

/* Who was shown. */
struct shown {
        uint64_t *tokens;
        size_t count;
        bool nameless;        /* one of them has no token: it is not ours */
        bool short_of_memory; /* not all are here */
};

static void show_holder(const struct pawl_entry *entry)
{
        struct holders holders = {.known = true};
        char text[512];

        holders_add(&holders, entry);
        holders_text(&holders, text, sizeof(text));
        say("'%s' is %s, token %llu", entry->name, text, (unsigned long long)entry->token);
}

static int on_entry(const struct pawl_entry *entry, void *arg)
{
        struct shown *shown = arg;
        uint64_t *more;

        if (entry->role != PAWL_ROLE_HOLDER || (only_token && entry->token != only_token))
                return 0;
        more = realloc(shown->tokens, (shown->count + 1) * sizeof(*more));
        if (!more) {
                shown->short_of_memory = true;
                return 1;
        }
        shown->tokens = more;
        shown->tokens[shown->count++] = entry->token;
        shown->nameless = shown->nameless || !entry->token;
        if (shown->count <= SHOWN_MAX)
                show_holder(entry);
        return 0;
}

static bool agreed(void)
{
        char answer[8] = "";

        fputs("break it? [y/N] ", stderr);
        fflush(stderr);
        if (!fgets(answer, sizeof(answer), stdin))
                fputc('\n', stderr);
        return !strcmp(answer, "y\n") || !strcmp(answer, "Y\n") || !strcmp(answer, "yes\n");
}

/* PAWL_OK if any of them was still there. */
static int break_shown(pawl_client *client, const char *name, const struct shown *shown, struct pawl_why *why)
{
        int code = PAWL_NOT_FOUND;

        if (shown->nameless)
                return break_if(client, name, only_token, why);
        for (size_t i = 0; i < shown->count; i++) {
                int one = break_if(client, name, shown->tokens[i], why);

                if (one != PAWL_OK && one != PAWL_BUSY && one != PAWL_NOT_FOUND)
                        return one;
                if (code != PAWL_OK)
                        code = one;
        }
        return code;
}

static int ask_first(pawl_client *client, const char *name, struct shown *shown)
{
        struct pawl_why why;
        int code = pawl_look(client, name, on_entry, shown);

        if (shown->short_of_memory)
                return fail(PAWL_NO_MEMORY, NULL);
        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                return fail_of_client(client, code);
        if (!shown->count) { /* nobody, or another: that is said as without a terminal */
                code = only_token ? break_if(client, name, only_token, &why) : PAWL_NOT_FOUND;
                return report(client, name, code, &why);
        }
        if (shown->count > SHOWN_MAX)
                say("and %zu more", shown->count - SHOWN_MAX);
        if (!agreed()) {
                say("'%s' was not broken", name);
                return EXIT_CONFLICT;
        }
        code = break_shown(client, name, shown, &why);
        return report(client, name, code, &why);
}

/* ---- the command --------------------------------------------------------------------------------------------------- */

static int break_it(pawl_client *client, const char *name)
{
        struct shown shown = {0};
        struct pawl_why why;
        int code, status;

        if (sure || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
                code = break_if(client, name, only_token, &why);
                return report(client, name, code, &why);
        }
        status = ask_first(client, name, &shown);
        free(shown.tokens);
        return status;
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        return client_do(break_it, arguments.word[0]);
}

const struct command cmd_break = {
        .name = "break",
        .arguments = "NAME",
        .summary = "cut the holders of NAME off; the next token is greater all the same",
        .details = "The holders are notified that they lost it; until they have noticed they may still act, and only "
                   "their\n"
                   "tokens stop them (see `pawl fence`). At a terminal it shows the holders and asks; --yes does not.\n"
                   "`pawl show` says who broke a lock, when and why, where the store keeps past owners.\n"
                   "Status: 0 broken; 1 nobody held it, another one does (--if-token), or the answer was no; 125 pawl\n"
                   "failed.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
