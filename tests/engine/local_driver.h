/* local_driver.h - drives the embedded engine without the core: a loop, the events, claims that remember what was told. */
#ifndef LOCAL_DRIVER_H
#define LOCAL_DRIVER_H

#include "engine/local/local.h"
#include "tap.h"

struct driver {
        struct loop loop;
        struct engine_host host;
        struct engine *engine;
        struct url *url;
        struct pawl_why why; /* of the last open */
};

/* A claim, and what the engine told about it. */
struct seat {
        struct claim claim;
        struct part part;
        struct driver *driver;
        int granted;
        int refused; /* a code */
        int released;
        int release_code;
        int renewed;
        int gone; /* a reason */
        int asked;
        uint64_t token;
        char why[256];
};

/* Opens local:PATH; the code of engine_open. */
int driver_open(struct driver *driver, const char *path);
void driver_close(struct driver *driver);
/* The same for a test that needs it open. */
void driver_must_open(struct driver *driver, const char *path);
static inline struct local *driver_local(struct driver *driver)
{
        return (struct local *)(void *)driver->engine;
}

/* A claim with a ttl of 10 s that waits. */
void seat_init(struct seat *seat, struct driver *driver, const char *name);
/* Takes the lock if that can be done at once. */
int seat_try(struct seat *seat);
void seat_acquire(struct seat *seat);
int seat_release(struct seat *seat);
/* Takes and gives back. */
bool is_free(struct driver *driver, const char *name);

/* What a store or a fetch came to. */
struct report {
        struct inquiry inquiry;
        bool answered;
        int code;
        char why[256];
        char text[1024]; /* of fetch: the value, cut */
        size_t size;
        uint64_t token;
};
/* Begins to store a text, or nothing if it is NULL, or to fetch; the report is to be turned for, or forgotten. */
void store_begin(struct seat *seat, const char *text, int64_t keep, struct report *report);
void fetch_begin(struct driver *driver, const char *name, struct report *report);
/* The code, once it is answered: after 10 s at most. */
int report_of(struct driver *driver, struct report *report);
int store(struct seat *seat, const char *text, int64_t keep);
/* Whether that is what is kept; NULL: nothing. */
bool is_kept(struct driver *driver, const char *name, const char *text);

/* Turns the loops until the seat's claim is granted, for 10 s at most. */
#define GRANTED(seat, ...)                                                                                             \
        drivers_grant((seat), (struct driver *[]){__VA_ARGS__},                                                        \
                      sizeof((struct driver *[]){__VA_ARGS__}) / sizeof(struct driver *))
bool drivers_grant(const struct seat *seat, struct driver **drivers, size_t count);
void drivers_turn(struct driver **drivers, size_t count);

/* dir/name, valid until the next but three calls. */
const char *path_in(const char *directory, const char *name);

#endif
