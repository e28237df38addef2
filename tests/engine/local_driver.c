/* local_driver.c - see local_driver.h. */
#include "local_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct seat *seat_of(struct claim *claim)
{
        return container_of(claim, struct seat, claim);
}

static void on_granted(void *core, struct claim *claim, const struct grant *grant)
{
        (void)core;
        seat_of(claim)->granted++;
        seat_of(claim)->token = grant->token;
}

static void on_refused(void *core, struct claim *claim, int code, const char *why)
{
        (void)core;
        seat_of(claim)->refused = code;
        snprintf(seat_of(claim)->why, sizeof(seat_of(claim)->why), "%s", why != NULL ? why : "");
}

static void on_renewed(void *core, struct claim *claim, int code, int64_t sent_at)
{
        (void)core;
        (void)sent_at;
        if (code == PAWL_OK)
                seat_of(claim)->renewed++;
}

static void on_released(void *core, struct claim *claim, int code)
{
        (void)core;
        seat_of(claim)->release_code = code;
        seat_of(claim)->released++;
}

static void on_gone(void *core, struct claim *claim, int reason)
{
        (void)core;
        seat_of(claim)->gone = reason;
}

static void on_asked(void *core, struct claim *claim)
{
        (void)core;
        seat_of(claim)->asked++;
}

static const struct engine_events events = {
        .granted = on_granted,
        .refused = on_refused,
        .renewed = on_renewed,
        .released = on_released,
        .gone = on_gone,
        .asked = on_asked,
};

static void ignore_log(const struct engine_host *host, int level, const char *text)
{
        (void)host;
        (void)level;
        (void)text;
}

int driver_open(struct driver *driver, const char *path)
{
        char text[4096];
        int code;

        memset(driver, 0, sizeof(*driver));
        snprintf(text, sizeof(text), "local:%s", path);
        if (loop_init(&driver->loop, NULL) != 0)
                return PAWL_SYSTEM;
        driver->host = (struct engine_host){
                .loop = &driver->loop, .events = &events, .owner = "host:1:test", .log = ignore_log};
        code = url_parse(text, &driver->url, &driver->why);
        if (code == PAWL_OK)
                code = engine_open(&local_engine, &driver->host, driver->url, &driver->engine, &driver->why);
        if (code != PAWL_OK) {
                url_free(driver->url);
                loop_close(&driver->loop);
                driver->engine = NULL;
        }
        return code;
}

void driver_close(struct driver *driver)
{
        if (driver->engine == NULL)
                return;
        engine_close(driver->engine);
        url_free(driver->url);
        loop_close(&driver->loop);
        driver->engine = NULL;
}

void driver_must_open(struct driver *driver, const char *path)
{
        int code = driver_open(driver, path);

        if (code != PAWL_OK)
                NOTE("open: %s", driver->why.text);
        REQUIRE_INT(code, PAWL_OK);
}

void seat_init(struct seat *seat, struct driver *driver, const char *name)
{
        static uint64_t count;

        memset(seat, 0, sizeof(*seat));
        seat->driver = driver;
        seat->claim = (struct claim){.name = name,
                                     .name_length = strlen(name),
                                     .uid = {(uint64_t)(uintptr_t)seat, ++count},
                                     .ttl = 10 * SECOND,
                                     .wait = true,
                                     .note = "",
                                     .part = &seat->part};
}

int seat_try(struct seat *seat)
{
        struct grant grant;
        int code = local_instant.acquire(seat->driver->engine, &seat->claim, loop_now(&seat->driver->loop), &grant);

        if (code == PAWL_OK)
                on_granted(NULL, &seat->claim, &grant);
        return code;
}

void seat_acquire(struct seat *seat)
{
        local_engine.acquire(seat->driver->engine, &seat->claim);
}

/* As the core does it: at once, or when the other process that is inside the bucket is out. */
int seat_release(struct seat *seat)
{
        struct driver *driver = seat->driver;
        int code = local_instant.release(driver->engine, &seat->claim, loop_now(&driver->loop));

        if (code != PAWL_STUCK)
                return code;
        local_engine.release(driver->engine, &seat->claim);
        while (!seat->released)
                drivers_turn(&driver, 1);
        return seat->release_code;
}

bool is_free(struct driver *driver, const char *name)
{
        struct seat seat;
        int code;

        seat_init(&seat, driver, name);
        seat.claim.wait = false;
        code = seat_try(&seat);
        if (code == PAWL_STUCK) { /* as the core does it: the long way */
                seat_acquire(&seat);
                while (!seat.granted && !seat.refused)
                        drivers_turn(&driver, 1);
                code = seat.granted ? PAWL_OK : seat.refused;
        }
        return code == PAWL_OK && seat_release(&seat) == PAWL_OK;
}

static void on_value(struct inquiry *inquiry, const struct pawl_value *value)
{
        struct report *report = container_of(inquiry, struct report, inquiry);

        report->size = value->size;
        report->token = value->token;
        snprintf(report->text, sizeof(report->text), "%.*s", (int)value->size, (const char *)value->data);
}

static void on_answered(struct inquiry *inquiry, int code, const char *why)
{
        struct report *report = container_of(inquiry, struct report, inquiry);

        report->answered = true;
        report->code = code;
        snprintf(report->why, sizeof(report->why), "%s", why != NULL ? why : "");
}

void store_begin(struct seat *seat, const char *text, int64_t keep, struct report *report)
{
        *report = (struct report){.inquiry = {.name = seat->claim.name,
                                              .data = text,
                                              .size = text != NULL ? strlen(text) : 0,
                                              .keep = keep,
                                              .answered = on_answered}};
        local_values.store(seat->driver->engine, &seat->claim, seat->token, &report->inquiry);
}

void fetch_begin(struct driver *driver, const char *name, struct report *report)
{
        *report = (struct report){.inquiry = {.name = name, .value = on_value, .answered = on_answered}};
        local_values.fetch(driver->engine, &report->inquiry);
}

int report_of(struct driver *driver, struct report *report)
{
        int64_t end = loop_now(&driver->loop) + 10 * SECOND;

        while (!report->answered && loop_now(&driver->loop) < end)
                drivers_turn(&driver, 1);
        return report->answered ? report->code : -1;
}

int store(struct seat *seat, const char *text, int64_t keep)
{
        struct report report;

        store_begin(seat, text, keep, &report);
        return report_of(seat->driver, &report);
}

bool is_kept(struct driver *driver, const char *name, const char *text)
{
        struct report report;
        int code;

        fetch_begin(driver, name, &report);
        code = report_of(driver, &report);
        if (text == NULL)
                return code == PAWL_NOT_FOUND;
        return code == PAWL_OK && report.size == strlen(text) && strcmp(report.text, text) == 0;
}

void drivers_turn(struct driver **drivers, size_t count)
{
        struct timespec pause = {.tv_nsec = 200000};
        size_t done = 0;

        for (size_t i = 0; i < count; i++)
                done += loop_turn(&drivers[i]->loop);
        if (done == 0)
                nanosleep(&pause, NULL);
}

bool drivers_grant(const struct seat *seat, struct driver **drivers, size_t count)
{
        int64_t end = loop_now(&drivers[0]->loop) + 10 * SECOND;

        while (!seat->granted && loop_now(&drivers[0]->loop) < end)
                drivers_turn(drivers, count);
        return seat->granted;
}

const char *path_in(const char *directory, const char *name)
{
        static char paths[4][4096];
        static int at;

        at = (at + 1) % 4;
        snprintf(paths[at], sizeof(paths[at]), "%s/%s", directory, name);
        return paths[at];
}
