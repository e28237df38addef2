/* options.c - reading the command line, and the help that is made from the same tables. Options and words may be mixed;
 * parsing stops where COMMAND begins, so that COMMAND's own options are left to it. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct settings settings;

static bool help_asked;
static bool only_the_table; /* options_of is at work */

static const struct option engine_option = {
        'e',         "engine",     "URL", "the store, or @FILE with its URL; else $PAWL_URL, else the embedded engine",
        option_text, &settings.url};
static const struct option unused_engine_option = {
        'e', "engine", "URL", "accepted, as in every command, and not used", option_text, &settings.url};
static const struct option json_option = {0, "json", NULL, "print JSON", option_flag, &settings.json};
static const struct option common_options[] = {
        {'q', "quiet", NULL, "say only why pawl itself failed", option_flag, &settings.quiet},
        {'v', "verbose", NULL, "say more; twice: everything", option_count, &settings.verbose},
        {0, "log-format", "text|json", "of messages; json has the time", option_log_format, &settings.log_format},
        {'h', "help", NULL, "this text", option_flag, &help_asked},
        {0},
};

/* ---- setters --------------------------------------------------------------------------------------------------- */

static const char *option_name(const struct option *option)
{
        static char name[64];

        if (option->name)
                snprintf(name, sizeof(name), "--%s", option->name);
        else
                snprintf(name, sizeof(name), "-%c", option->letter);
        return name;
}

bool option_flag(const struct option *option, const char *text)
{
        (void)text;
        *(bool *)option->target = true;
        return true;
}

bool option_count(const struct option *option, const char *text)
{
        (void)text;
        ++*(uint32_t *)option->target;
        return true;
}

bool option_text(const struct option *option, const char *text)
{
        *(const char **)option->target = text;
        return true;
}

/* It is a duration but for its size: with the number 1 it would be one. */
static bool is_too_long(const char *text)
{
        size_t digits = strspn(text, "0123456789");
        char shorter[16];
        int64_t ms;

        snprintf(shorter, sizeof(shorter), "1%s", text + digits);
        return digits && pawl_duration(shorter, &ms) == PAWL_OK;
}

bool option_duration(const struct option *option, const char *text)
{
        int64_t ms;

        if (pawl_duration(text, &ms) != PAWL_OK && is_too_long(text)) {
                say("%s: '%s' is longer than ten years", option_name(option), text);
                return false;
        }
        if (pawl_duration(text, &ms) != PAWL_OK) {
                say("%s wants a duration such as 500ms, 10s, 2m or 1h, not '%s'", option_name(option), text);
                return false;
        }
        *(int64_t *)option->target = ms;
        return true;
}

bool option_some_time(const struct option *option, const char *text)
{
        if (!option_duration(option, text))
                return false;
        if (*(int64_t *)option->target > 0)
                return true;
        say("%s wants at least a millisecond, not '%s'", option_name(option), text);
        return false;
}

bool option_number(const struct option *option, const char *text)
{
        char *end;
        unsigned long number;

        errno = 0;
        number = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno || number == 0 || number > INT32_MAX) {
                say("%s wants a number from 1 to %d, not '%s'", option_name(option), INT32_MAX, text);
                return false;
        }
        *(uint32_t *)option->target = (uint32_t)number;
        return true;
}

bool option_token(const struct option *option, const char *text)
{
        unsigned long long number;
        char *end;

        errno = 0;
        number = strtoull(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno || number == 0 || number > INT64_MAX) {
                say("%s wants a token as `pawl show` prints it, a number from 1 to 2^63 - 1, not '%s'",
                    option_name(option), text);
                return false;
        }
        *(uint64_t *)option->target = number;
        return true;
}

bool option_log_format(const struct option *option, const char *text)
{
        bool json = !strcmp(text, "json");

        if (!json && strcmp(text, "text") != 0) {
                say("%s wants text or json, not '%s'", option_name(option), text);
                return false;
        }
        *(uint32_t *)option->target = json ? LOG_JSON : LOG_TEXT;
        return true;
}

/* ---- finding an option ----------------------------------------------------------------------------------------- */

typedef bool option_test(const struct option *, const char *word, size_t length);

static bool has_name(const struct option *option, const char *word, size_t length)
{
        return option->name && strlen(option->name) == length && !memcmp(option->name, word, length);
}

static bool has_letter(const struct option *option, const char *word, size_t length)
{
        (void)length;
        return option->letter && option->letter == *word;
}

static const struct option *search(const struct option *options, option_test *test, const char *word, size_t length)
{
        for (; options && (options->letter || options->name); options++)
                if (test(options, word, length))
                        return options;
        return NULL;
}

static const struct option *find(const struct command *command, const struct option *options, option_test *test,
                                 const char *word, size_t length)
{
        const struct option *found = search(options, test, word, length);

        if (!found && test(&engine_option, word, length))
                found = &engine_option;
        if (!found && (!command || command->flags & COMMAND_JSON) && test(&json_option, word, length))
                found = &json_option;
        return found ? found : search(common_options, test, word, length);
}

const struct option *option_of_name(const struct command *command, const struct option *options, const char *name,
                                    size_t length)
{
        return find(command, options, has_name, name, length);
}

const struct option *option_of_letter(const struct command *command, const struct option *options, const char *letter)
{
        return find(command, options, has_letter, letter, 1);
}

static void visit(const struct option *options, option_visitor *visitor, void *arg)
{
        for (; options && (options->letter || options->name); options++)
                visitor(options, arg);
}

void options_each(const struct command *command, const struct option *options, option_visitor *visitor, void *arg)
{
        visit(options, visitor, arg);
        visitor(!command || command->flags & COMMAND_ENGINE ? &engine_option : &unused_engine_option, arg);
        if (!command || command->flags & COMMAND_JSON)
                visitor(&json_option, arg);
        visit(common_options, visitor, arg);
}

/* ---- near misses ------------------------------------------------------------------------------------------------ */

enum { NEAR_MAX = 32 };

static size_t least(size_t a, size_t b)
{
        return a < b ? a : b;
}

/* How many letters must be put in, left out, changed or exchanged with their neighbour to make b of a. */
static size_t distance(const char *a, const char *b)
{
        size_t rows[NEAR_MAX + 1][NEAR_MAX + 1], m = strlen(a), n = strlen(b);

        if (m > NEAR_MAX || n > NEAR_MAX)
                return NEAR_MAX;
        for (size_t i = 0; i <= m; i++)
                for (size_t j = 0; j <= n; j++) {
                        if (!i || !j) {
                                rows[i][j] = i + j;
                                continue;
                        }
                        rows[i][j] = least(least(rows[i - 1][j], rows[i][j - 1]) + 1,
                                           rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                                rows[i][j] = least(rows[i][j], rows[i - 2][j - 2] + 1);
                }
        return rows[m][n];
}

const char *near_miss(const char *word, const char *(*known)(size_t index))
{
        size_t nearest = strlen(word) > 4 ? 3 : 2; /* that many mistakes are too many */
        const char *near = NULL, *name;

        for (size_t i = 0; (name = known(i)) != NULL; i++) {
                size_t mistakes = distance(word, name);

                if (mistakes < nearest && mistakes < strlen(name)) {
                        nearest = mistakes;
                        near = name;
                }
        }
        return near;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

struct words {
        int count;
        char **word;
};

/* The long options of a command, for near_miss: its own, then those of all commands. */
static const struct option *own_options;
static bool json_is_known;

static const char *nth_name(const struct option *options, size_t *index)
{
        for (; options && (options->letter || options->name); options++)
                if (options->name && (*index)-- == 0)
                        return options->name;
        return NULL;
}

static const char *option_names(size_t index)
{
        const char *name = nth_name(own_options, &index);

        if (!name)
                name = nth_name(common_options, &index);
        if (!name && index == 0)
                name = engine_option.name;
        else if (!name && index == 1 && json_is_known)
                name = json_option.name;
        return name;
}

/* The long option that a mistake or two make of this one; NULL: none is near. */
static const char *near_option(const struct command *command, const struct option *options, const char *name,
                               size_t length)
{
        char word[NEAR_MAX + 1];

        own_options = options;
        json_is_known = command->flags & COMMAND_JSON;
        if (length > NEAR_MAX)
                return NULL;
        snprintf(word, sizeof(word), "%.*s", (int)length, name);
        return near_miss(word, option_names);
}

static void unknown_option(const struct command *command, const char *name, int length, const char *near)
{
        if (near)
                usage_error(command, "%s has no option %.*s (did you mean --%s?)", command->name, length, name, near);
        else
                usage_error(command, "%s has no option %.*s", command->name, length, name);
}

/* -ttl is -t, -t and -l, but --ttl may be meant. */
static void unknown_letter(const struct command *command, const struct option *options, const char *word, char letter)
{
        const char *name = word + 1;
        char dashed[3] = {'-', letter, 0};

        unknown_option(command, dashed, 2, name[1] ? near_option(command, options, name, strcspn(name, "=")) : NULL);
}

/* --name, --name=value, --name value */
static bool read_long(const struct command *command, const struct option *options, struct words *words)
{
        const char *name = *words->word + 2;
        size_t length = strcspn(name, "=");
        const char *value = name[length] ? name + length + 1 : NULL;
        const struct option *option = find(command, options, has_name, name, length);

        words->count--;
        words->word++;
        if (!option) {
                unknown_option(command, name - 2, (int)length + 2, near_option(command, options, name, length));
                return false;
        }
        if (!option->value && value) {
                usage_error(command, "--%s takes no value", option->name);
                return false;
        }
        if (option->value && !value) {
                if (!words->count) {
                        usage_error(command, "--%s wants a value (%s)", option->name, option->value);
                        return false;
                }
                words->count--;
                value = *words->word++;
        }
        return option->set(option, value);
}

/* -a, -abc, -w5, -w 5 */
static bool read_short(const struct command *command, const struct option *options, struct words *words)
{
        const char *word = *words->word, *letter = word + 1;

        words->count--;
        words->word++;
        for (; *letter; letter++) {
                const struct option *option = find(command, options, has_letter, letter, 1);
                const char *value;

                if (!option) {
                        unknown_letter(command, options, word, *letter);
                        return false;
                }
                if (!option->value) {
                        if (!option->set(option, NULL))
                                return false;
                        continue;
                }
                value = letter + 1;
                if (!*value) {
                        if (!words->count) {
                                usage_error(command, "-%c wants a value (%s)", *letter, option->value);
                                return false;
                        }
                        words->count--;
                        value = *words->word++;
                }
                return option->set(option, value);
        }
        return true;
}

bool is_option_word(const char *word)
{
        return word[0] == '-' && word[1];
}

static bool read_option(const struct command *command, const struct option *options, struct words *words)
{
        return (words->word[0][1] == '-' ? read_long : read_short)(command, options, words);
}

bool command_begins(const struct command *command, int words, bool dashes)
{
        if (dashes)
                return (command->flags & (COMMAND_RUNS | COMMAND_DASHES)) && words >= command->words_min;
        return (command->flags & COMMAND_RUNS) && words == command->words_max;
}

static bool read_all(const struct command *command, const struct option *options, struct words *words,
                     struct arguments *arguments)
{
        bool options_over = false;

        while (words->count && !help_asked) {
                bool dashes = !strcmp(*words->word, "--");

                if (!dashes && !options_over && is_option_word(*words->word)) {
                        if (!read_option(command, options, words))
                                return false;
                        continue;
                }
                if (command_begins(command, arguments->words, dashes)) {
                        arguments->command = words->word + dashes;
                        break;
                }
                if (dashes && !options_over)
                        options_over = true;
                else
                        arguments->word[arguments->words++] = *words->word;
                words->count--;
                words->word++;
        }
        return true;
}

/* The value of this option is the next word. The command is not known yet: what is not common takes none. */
static bool value_follows(const char *word)
{
        const struct option *option;

        if (word[1] == '-') {
                option = option_of_name(NULL, NULL, word + 2, strlen(word + 2));
                return option && option->value;
        }
        for (word++; *word; word++) {
                option = option_of_letter(NULL, NULL, word);
                if (!option || option->value)
                        return option && !word[1];
        }
        return false;
}

/* ---- help ------------------------------------------------------------------------------------------------------ */

/* One that is too long for its column has a line of its own. */
static void help_line(const struct option *option, void *nothing)
{
        enum { COLUMN = 32 };
        char left[80];
        char letter[4] = "  ";

        (void)nothing;
        if (option->letter)
                snprintf(letter, sizeof(letter), "-%c", option->letter);
        snprintf(left, sizeof(left), "%s%s%s%s%s%s", letter, option->name ? (option->letter ? ", " : "  ") : "",
                 option->name ? "--" : "", option->name ? option->name : "", option->value ? " " : "",
                 option->value ? option->value : "");
        if (strlen(left) > COLUMN)
                printf("  %s\n  %*s %s\n", left, COLUMN, "", option->help);
        else
                printf("  %-*s %s\n", COLUMN, left, option->help);
}

static void help(const struct command *command, const struct option *options)
{
        printf("usage: pawl %s [options]%s%s\n\n%s\n\n", command->name, *command->arguments ? " " : "",
               command->arguments, command->summary);
        options_each(command, options, help_line, NULL);
        if (command->details)
                printf("\n%s\n", command->details);
}

/* ---- what the commands call ------------------------------------------------------------------------------------ */

static bool words_count(const struct command *command, int words, int *status)
{
        if (words >= command->words_min && words <= command->words_max)
                return true;
        *status = usage_error(command, "%s arguments: pawl %s%s%s", words < command->words_min ? "too few" : "too many",
                              command->name, *command->arguments ? " " : "", command->arguments);
        return false;
}

bool options_read(const struct command *command, const struct option *options, int argc, char **argv,
                  struct arguments *arguments, int *status)
{
        struct words words = {argc, argv};

        if (only_the_table) {
                own_options = options;
                *status = EXIT_DONE;
                return false;
        }
        *arguments = (struct arguments){.word = argv}; /* words move to the front, over options that were read */
        if (!read_all(command, options, &words, arguments)) {
                *status = EXIT_FAILED;
                return false;
        }
        if (help_asked) {
                help(command, options);
                *status = EXIT_DONE;
                return false;
        }
        return words_count(command, arguments->words, status);
}

/* Every command reads its options first. */
const struct option *options_of(const struct command *command)
{
        char *nothing = NULL;

        own_options = NULL;
        only_the_table = true;
        command->run(command, 0, &nothing);
        only_the_table = false;
        return own_options;
}

int options_leading(int argc, char **argv)
{
        int i = 1;

        while (i < argc && is_option_word(argv[i]))
                i += value_follows(argv[i]) ? 2 : 1;
        return i < argc ? i - 1 : argc - 1;
}

bool has_command(const struct arguments *arguments)
{
        return arguments->command && *arguments->command;
}

int usage_error(const struct command *command, const char *format, ...)
{
        char text[512];
        va_list list;

        va_start(list, format);
        vsnprintf(text, sizeof(text), format, list);
        va_end(list);
        say("%s; see 'pawl %s --help'", text, command->name);
        return EXIT_FAILED;
}
