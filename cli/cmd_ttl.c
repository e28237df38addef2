/* cmd_ttl.c - `pawl ttl`: how long a lease should be. */
#include "cli.h"

static struct {
        int64_t work_ms;
        int64_t latency_ms;
        int64_t drift_ms;
} request = {.work_ms = -1};

static const struct option options[] = {
        {0, "work", "DUR", "the longest stretch without renewal; with --no-renew all of the work", option_duration,
         &request.work_ms},
        {0, "latency", "DUR", "to the store and back, at its worst (0)", option_duration, &request.latency_ms},
        {0, "drift", "DUR", "how far clocks may run apart meanwhile (0)", option_duration, &request.drift_ms},
        {0},
};

/* As short as it is exact, and a duration that every command takes: 10300 is "10.3s". */
static void print_duration(int64_t ms)
{
        int fraction = (int)(ms % 1000);
        int digits = 3;

        for (; digits && fraction % 10 == 0; digits--)
                fraction /= 10;
        if (digits)
                printf("%lld.%0*ds\n", (long long)(ms / 1000), digits, fraction);
        else
                printf("%llds\n", (long long)(ms / 1000));
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int64_t ttl_ms;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (request.work_ms < 0)
                return usage_error(command, "ttl wants --work DUR");
        ttl_ms = pawl_ttl_for(request.work_ms, request.latency_ms, request.drift_ms);
        if (settings.json) {
                json_open(stdout, NULL, '{');
                json_number(stdout, "ttl_ms", ttl_ms);
                json_close(stdout, '}');
                json_end(stdout);
        } else {
                print_duration(ttl_ms);
        }
        return EXIT_DONE;
}

const struct command cmd_ttl = {
        .name = "ttl",
        .arguments = "",
        .summary = "the ttl for given work without renewal: 2 x (work + latency + drift)",
        .details = "A lease that is renewed (`pawl run`) need not outlast the work: its ttl must outlast the longest "
                   "stall that\nshould be survived. `pawl acquire` and `pawl run --no-renew` do not renew.",
        .flags = COMMAND_JSON,
        .run = run,
};
