/* cmd_engines.c - `pawl engines`: what this build can do, and what each engine promises. */
#include <stdlib.h>

#include "cli.h"

static void print_engine(const struct pawl_engine_info *info)
{
        printf("%s: %s\n", info->scheme, info->summary);
        if (info->missing)
                printf("    not here: %s\n", info->missing);
        else
                printf("    %s\n", info->promise);
}

static void print_json(const struct pawl_engine_info *info)
{
        json_open(stdout, NULL, '{');
        json_text(stdout, "scheme", info->scheme);
        json_flag(stdout, "available", !info->missing);
        json_text(stdout, "missing", info->missing);
        json_text(stdout, "summary", info->summary);
        json_text(stdout, "promise", info->promise);
        json_close(stdout, '}');
}

static const char *sql_scheme;

static const struct option options[] = {
        {0, "sql", "postgres", "print what an administrator runs in the store before its first use", option_text,
         &sql_scheme},
        {0},
};

/* Somebody may have given a whole URL. */
static int no_sql(const char *scheme, int code)
{
        char *shown = url_without_secrets(scheme);

        if (!shown)
                return fail(PAWL_NO_MEMORY, NULL);
        if (code == PAWL_UNSUPPORTED)
                say("no setup needed for %s: only for postgres", shown);
        else
                say("%s: %s; `pawl engines` says which there are, and what is missing", shown, pawl_strerror(code));
        free(shown);
        return EXIT_FAILED;
}

/* Two scripts, each a transaction. */
static int print_sql(const char *scheme)
{
        const char *locks, *guards;
        int code = pawl_engine_sql(scheme, &locks, &guards);

        if (code != PAWL_OK)
                return no_sql(scheme, code);
        if (locks)
                printf("BEGIN;\n%s\nCOMMIT;\n", locks);
        if (guards)
                printf("\n%s", guards);
        return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct pawl_engine_info info;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (sql_scheme)
                return print_sql(sql_scheme);
        if (settings.json)
                json_open(stdout, NULL, '[');
        for (size_t i = 0; pawl_engine(i, &info) == PAWL_OK; i++)
                (settings.json ? print_json : print_engine)(&info);
        if (settings.json) {
                json_close(stdout, ']');
                json_end(stdout);
        }
        return EXIT_DONE;
}

const struct command cmd_engines = {
        .name = "engines",
        .arguments = "",
        .summary = "what this build can do and what each engine promises",
        .details = "--sql prints the SQL that makes the schema, for databases where programs may not make it "
                   "themselves.",
        .flags = COMMAND_JSON,
        .run = run,
};
