/* complete.c - what may stand in the place of the last word of a command line, for the completion of shells. The words
 * before it are read by the tables that the commands read theirs by; what is wrong with them is not said here. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "store.h"

/* A store that does not answer by then has no names for us: somebody waits at the keyboard. */
enum { PATIENCE_S = 2 };

/* How far the words before the last one go. */
struct line {
        const struct command *command; /* NULL: its name was not read yet */
        const struct option *options;  /* of its own */
        const struct option *wants;    /* its value is the next word */
        int words;                     /* of the command's own */
        int begins;                    /* where COMMAND begins; 0: it does not yet */
        bool options_over;
        bool unknown; /* there is no such command */
};

/* The word that is to be completed. */
struct place {
        const struct line *line;
        const char *text;
        int skip; /* bytes of it that stand: "--store=" */
        const char *kind;
        FILE *found; /* what is offered: printed when all of it is known, so that the last line is never a name */
};

/* ---- the words before -------------------------------------------------------------------------------------------- */

/* Only what says where names are to be found; other options have nothing to say here. */
static void take_value(const struct option *option, const char *text)
{
        if (option->set == option_text || option->set == option_store)
                option->set(option, text);
}

static void read_long(struct line *line, const char *name)
{
        size_t length = strcspn(name, "=");
        const struct option *option = option_of_name(line->command, line->options, name, length);

        if (!option || !option->value)
                return;
        if (name[length])
                take_value(option, name + length + 1);
        else
                line->wants = option;
}

/* The option among these letters that takes a value, *value what stands behind it. NULL: there is none. */
static const struct option *with_value(const struct line *line, const char *letter, const char **value)
{
        const struct option *option;

        for (; *letter; letter++) {
                option = option_of_letter(line->command, line->options, letter);
                if (option && option->value) {
                        *value = letter + 1;
                        return option;
                }
        }
        return NULL;
}

static void read_short(struct line *line, const char *letters)
{
        const char *value;
        const struct option *option = with_value(line, letters, &value);

        if (option && *value)
                take_value(option, value);
        else
                line->wants = option;
}

static void read_command_name(struct line *line, const char *word)
{
        line->command = command_of_name(word);
        line->unknown = !line->command;
        if (line->command)
                line->options = options_of(line->command);
}

static void read_word(struct line *line, const char *word, int index)
{
        bool dashes = !strcmp(word, "--");

        if (line->wants) {
                take_value(line->wants, word);
                line->wants = NULL;
        } else if (!dashes && !line->options_over && is_option_word(word)) {
                if (word[1] == '-')
                        read_long(line, word + 2);
                else
                        read_short(line, word + 1);
        } else if (!line->command && !dashes) {
                read_command_name(line, word);
        } else if (line->command && command_begins(line->command, line->words, dashes)) {
                line->begins = index + dashes;
        } else if (dashes && !line->options_over) {
                line->options_over = true;
        } else {
                line->words++;
        }
}

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* A terminal shows it as it is: nothing in it ends the line, moves the cursor or turns the text around. */
static bool can_be_typed(const char *text)
{
        char shown[4 * PAWL_NAME_MAX + 1];

        escape_for_terminal(text, shown, sizeof(shown));
        return !strcmp(shown, text);
}

/* One that continues what is there. */
static void offer(const struct place *place, const char *text, const char *help)
{
        const char *typed = place->text + place->skip;

        if (strncmp(text, typed, strlen(typed)) == 0 && can_be_typed(text))
                fprintf(place->found, "%s%s%s\n", text, *help ? "\t" : "", help);
}

static void offer_commands(const struct place *place)
{
        const struct command *command;

        for (size_t i = 0; (command = command_at(i)) != NULL; i++)
                offer(place, command->name, command->summary);
}

static void offer_option(const struct option *option, void *arg)
{
        const struct place *place = arg;
        char text[64];

        if (option->letter && !place->text[1]) {
                snprintf(text, sizeof(text), "-%c", option->letter);
                offer(place, text, option->help);
        }
        if (option->name) {
                snprintf(text, sizeof(text), "--%s", option->name);
                offer(place, text, option->help);
        }
}

static void offer_options(struct place *place)
{
        static const struct option version = {.name = "version", .help = "the version of pawl"};

        options_each(place->line->command, place->line->options, offer_option, place);
        if (!place->line->command)
                offer_option(&version, place);
}

/* ---- names, from the store --------------------------------------------------------------------------------------- */

static void give_up(int signal)
{
        (void)signal;
        _exit(EXIT_FAILED);
}

/* Several holders of one name come one after the other. */
struct names {
        const struct place *place;
        char last[PAWL_NAME_MAX + 1];
};

static int on_entry(const struct pawl_entry *entry, void *arg)
{
        struct names *names = arg;

        if (strcmp(names->last, entry->name) != 0)
                offer(names->place, entry->name, "");
        snprintf(names->last, sizeof(names->last), "%s", entry->name);
        return 0;
}

static void offer_locks(const struct place *place)
{
        struct names names = {.place = place};
        pawl_client *client;

        if (client_open_to_look(&client) != EXIT_DONE || !client)
                return;
        (void)!pawl_list(client, place->text + place->skip, on_entry, &names);
        pawl_close(client);
}

static int on_mark(const struct pawl_guard_entry *entry, void *arg)
{
        offer(arg, entry->resource, "");
        return 0;
}

static void offer_resources(struct place *place)
{
        struct pawl_why why = {0};
        pawl_guard *guard;
        int status;

        if (!store_open_to_look(place->line->command, &guard, &status) || !guard)
                return;
        (void)!pawl_guard_list(guard, place->text + place->skip, on_mark, place, &why);
        pawl_guard_close(guard);
}

static bool has_guard(const struct line *line)
{
        for (const struct option *option = line->options; option && (option->letter || option->name); option++)
                if (option->set == option_store)
                        return true;
        return false;
}

static void offer_names(struct place *place)
{
        settings.quiet = true;
        signal(SIGALRM, give_up);
        alarm(PATIENCE_S);
        if (has_guard(place->line))
                offer_resources(place);
        else
                offer_locks(place);
        alarm(0);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static void offer_alternatives(struct place *place, const char *text);

static void offer_signals(struct place *place, const char *prefix)
{
        char text[96];

        for (int number = 1; number < NSIG; number++)
                if (signal_number(signal_name(number)) == number) {
                        snprintf(text, sizeof(text), "%s%s", prefix, signal_name(number) + strlen("SIG"));
                        offer(place, text, "");
                }
}

/* What stands between a scheme and its servers, its path, or another URL. */
static const char *behind_scheme(const char *scheme)
{
        if (!strcmp(scheme, "local"))
                return ":DIR";
        if (scheme[strlen(scheme) - 1] == '+')
                return "local:DIR";
        return strchr(scheme, '+') ? ":FILE" : "://";
}

static void offer_engines(struct place *place)
{
        struct pawl_engine_info info;
        char text[64];

        for (size_t i = 0; pawl_engine(i, &info) == PAWL_OK; i++) {
                snprintf(text, sizeof(text), "%s%s", info.scheme, behind_scheme(info.scheme));
                offer_alternatives(place, text);
        }
        offer_alternatives(place, "@FILE");
}

/* The prefix of a path is there: nothing else is meant. */
static bool is_path(const struct place *place)
{
        return strcmp(place->kind, "words") != 0;
}

/* A path behind the prefix, once that is there. */
static void offer_paths(struct place *place, const char *prefix, const char *kind)
{
        const char *typed = place->text + place->skip;

        if (strncmp(typed, prefix, strlen(prefix)) != 0) {
                offer(place, prefix, "");
                return;
        }
        place->skip += (int)strlen(prefix);
        place->kind = kind;
}

static bool is_capital(char letter)
{
        return letter >= 'A' && letter <= 'Z';
}

/* "json", "TEXT", "signal:SIG", "file:DIR": words as they are, and in capitals what stands for others. */
static void offer_alternative(struct place *place, const char *text)
{
        char prefix[64];
        size_t length = 0;
        const char *name;

        while (text[length] && !is_capital(text[length]) && length < sizeof(prefix) - 1)
                length++;
        snprintf(prefix, sizeof(prefix), "%.*s", (int)length, text);
        name = text + length;
        if (!*name)
                offer(place, prefix, "");
        else if (!strcmp(name, "SIG"))
                offer_signals(place, prefix);
        else if (!strcmp(name, "DIR"))
                offer_paths(place, prefix, "directories");
        else if (!strcmp(name, "FILE"))
                offer_paths(place, prefix, "files");
        else if (!strcmp(name, "URL"))
                offer_engines(place);
        else if (!strcmp(name, "STORE"))
                offer_alternatives(place, "file:DIR|sqlite:FILE|postgres://|redis://|http://|@FILE");
        else if (!strcmp(name, "NAME") || !strcmp(name, "PREFIX") || !strcmp(name, "RESOURCE"))
                offer_names(place);
        else if (!strcmp(name, "COMMAND"))
                offer_commands(place);
}

/* "text|json" */
static void offer_alternatives(struct place *place, const char *text)
{
        while (*text) {
                size_t length = strcspn(text, "|");
                char one[64];

                snprintf(one, sizeof(one), "%.*s", (int)length, text);
                if (!is_path(place))
                        offer_alternative(place, one);
                text += length + (text[length] == '|');
        }
}

/* ---- the command's own words --------------------------------------------------------------------------------------- */

/* Takes the next word of a usage line, without brackets. False: there is none. */
static bool usage_word(const char **usage, char *word, size_t size)
{
        size_t length;

        *usage += strspn(*usage, " []");
        length = strcspn(*usage, " []");
        snprintf(word, size, "%.*s", (int)length, *usage);
        *usage += length;
        return length > 0;
}

/* What the usage line of the command calls its word with that index: "NAME", "bash|zsh|fish". Options do not count, and of
 * several forms the first does. False: it has no name for it. */
static bool name_of_word(const struct line *line, char *word, size_t size)
{
        const char *usage = line->command->arguments;
        const struct option *option;
        int index = 0;

        while (usage_word(&usage, word, size) && strcmp(word, "|") != 0 && strcmp(word, "--") != 0) {
                if (word[0] != '-') {
                        if (index++ == line->words)
                                return true;
                        continue;
                }
                option = option_of_name(line->command, line->options, word + 2, strlen(word + 2));
                if (option && option->value)
                        (void)usage_word(&usage, word, size);
        }
        return false;
}

static void offer_words(struct place *place)
{
        char name[64];

        if (place->line->words < place->line->command->words_max && name_of_word(place->line, name, sizeof(name)))
                offer_alternatives(place, name);
}

/* ---- the last word ----------------------------------------------------------------------------------------------- */

static void offer_value(struct place *place, const struct option *option, const char *value)
{
        place->skip = (int)(value - place->text);
        offer_alternatives(place, option->value);
}

/* "--", "--tt", "--store=f" */
static void offer_long(struct place *place)
{
        const char *name = place->text + 2;
        size_t length = strcspn(name, "=");
        const struct option *option;

        if (!name[length]) {
                offer_options(place);
                return;
        }
        option = option_of_name(place->line->command, place->line->options, name, length);
        if (option && option->value)
                offer_value(place, option, name + length + 1);
}

/* "-n", "-eredis", "-qsw" */
static void offer_short(struct place *place)
{
        const char *value;
        const struct option *option = with_value(place->line, place->text + 1, &value);

        if (option && *value)
                offer_value(place, option, value);
        else
                offer(place, place->text, "");
}

static void offer_dashed(struct place *place)
{
        if (!place->text[1])
                offer_options(place);
        else if (place->text[1] == '-')
                offer_long(place);
        else
                offer_short(place);
}

static void offer_all(struct place *place)
{
        const struct line *line = place->line;

        if (line->wants)
                offer_value(place, line->wants, place->text);
        else if (!line->options_over && place->text[0] == '-')
                offer_dashed(place);
        else if (!line->command)
                offer_commands(place);
        else if (command_begins(line->command, line->words, false))
                place->kind = "command";
        else
                offer_words(place);
}

static void print_found(const struct place *place, int begins, int index)
{
        if (begins)
                printf(":command %d\n", begins);
        else if (!strcmp(place->kind, "command"))
                printf(":command %d\n", index);
        else
                printf(":%s %d\n", place->kind, place->skip);
}

int complete(int count, char **words)
{
        struct line line = {0};
        struct place place = {.line = &line, .text = count ? words[count - 1] : "", .kind = "words"};
        char *found = NULL;
        size_t size;
        int i;

        place.found = open_memstream(&found, &size);
        if (!place.found)
                return EXIT_FAILED;
        for (i = 0; i < count - 1 && !line.begins; i++)
                read_word(&line, words[i], i);
        if (!line.begins && !line.unknown)
                offer_all(&place);
        if (fclose(place.found) != 0) {
                free(found);
                return EXIT_FAILED;
        }
        fwrite(found, 1, size, stdout);
        free(found);
        print_found(&place, line.begins, i);
        return EXIT_DONE;
}
