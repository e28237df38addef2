/* fuzz_state.c - a state file with anything in it is opened, listed, used and closed: no crash, no hang, no token that
 * goes back. The input is a list of scribbles over a valid file, which is too large to be a corpus itself: two clients
 * hold, share and wait in it, and die. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "fuzz.h"

/* ---- an engine without a core ------------------------------------------------------------------------------------ */

struct seat {
        struct claim claim;
        struct part part;
        bool granted;
};

struct world {
        struct loop loop;
        struct engine_host host;
        struct engine *engine;
};

static struct seat *seat_of(struct claim *claim)
{
        return container_of(claim, struct seat, claim);
}

static void on_granted(void *core, struct claim *claim, const struct grant *grant)
{
        (void)core;
        MUST(grant->token > 0 && grant->token < UINT64_C(1) << 63);
        seat_of(claim)->granted = true;
}

static void on_refused(void *core, struct claim *claim, int code, const char *why)
{
        (void)core;
        (void)claim;
        MUST(code != PAWL_OK);
        MUST(why == NULL || strlen(why) < sizeof(((struct pawl_why *)NULL)->text));
}

static void on_renewed(void *core, struct claim *claim, int code, int64_t sent_at)
{
        (void)core;
        (void)claim;
        (void)code;
        (void)sent_at;
}

static void on_released(void *core, struct claim *claim, int code)
{
        (void)core;
        (void)claim;
        (void)code;
}

static void on_gone(void *core, struct claim *claim, int reason)
{
        (void)core;
        (void)reason;
        seat_of(claim)->granted = false;
}

static void on_asked(void *core, struct claim *claim)
{
        (void)core;
        (void)claim;
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

static char directory[256];
static char state_path[512];

static int world_open(struct world *world)
{
        char text[512];
        struct pawl_why why = {0};
        struct url *url;
        int code;

        memset(world, 0, sizeof(*world));
        snprintf(text, sizeof(text), "local:%s", directory);
        MUST(loop_init(&world->loop, NULL) == 0);
        world->host = (struct engine_host){
                .loop = &world->loop, .events = &events, .owner = "host:1:fuzz", .log = ignore_log};
        MUST(url_parse(text, &url, &why) == PAWL_OK);
        code = engine_open(&local_engine, &world->host, url, &world->engine, &why);
        MUST(code == PAWL_OK || why.text[0] != '\0');
        url_free(url);
        if (code != PAWL_OK)
                loop_close(&world->loop);
        return code;
}

static void world_close(struct world *world)
{
        engine_close(world->engine);
        loop_close(&world->loop);
}

static void seat_init(struct seat *seat, const char *name, bool wait)
{
        static uint64_t count;

        memset(seat, 0, sizeof(*seat));
        seat->claim = (struct claim){.name = name,
                                     .name_length = strlen(name),
                                     .uid = {7, ++count},
                                     .ttl = 3600 * SECOND,
                                     .wait = wait,
                                     .note = "a note",
                                     .part = &seat->part};
}

/* ---- the valid file ----------------------------------------------------------------------------------------------- */

static uint8_t *image;
static size_t image_size;

/* Two clients that do a little of everything, and die. */
static void make_scene(void)
{
        static struct seat seats[8];
        static const char *const names[] = {"a", "a", "b", "b", "c", "c", "a", "d"};
        struct world one, two;

        if (world_open(&one) != PAWL_OK || world_open(&two) != PAWL_OK)
                _exit(1);
        for (int i = 0; i < 8; i++) {
                struct world *world = i % 2 == 0 ? &one : &two;

                seat_init(&seats[i], names[i], true);
                seats[i].claim.mode = i == 2 || i == 3 ? PAWL_SHARED : PAWL_EXCLUSIVE;
                seats[i].claim.detached = i == 4;
                local_engine.acquire(world->engine, &seats[i].claim);
        }
        local_engine.release(one.engine, &seats[2].claim);
        _exit(0);
}

static void read_image(void)
{
        struct stat status;
        int fd = open(state_path, O_RDONLY | O_CLOEXEC);

        MUST(fd >= 0 && fstat(fd, &status) == 0);
        image_size = (size_t)status.st_size;
        image = malloc(image_size);
        MUST(image != NULL && read(fd, image, image_size) == (ssize_t)image_size);
        close(fd);
}

static void remove_directory(void)
{
        DIR *files = opendir(directory);

        for (struct dirent *file = files != NULL ? readdir(files) : NULL; file != NULL; file = readdir(files))
                (void)unlinkat(dirfd(files), file->d_name, 0);
        if (files != NULL)
                closedir(files);
        (void)rmdir(directory);
}

/* In memory if there is such a place: every open of a file that was left open writes to the disk. */
static void prepare(void)
{
        pid_t child;
        int status;

        if (image != NULL)
                return;
        snprintf(directory, sizeof(directory), "%s/pawl-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : P_tmpdir);
        MUST(mkdtemp(directory) != NULL);
        snprintf(state_path, sizeof(state_path), "%s/state", directory);
        atexit(remove_directory);
        local_set_capacity(4, 16, 64);
        child = fork();
        if (child == 0)
                make_scene();
        MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        read_image();
}

/* ---- scribbles ------------------------------------------------------------------------------------------------------ */

/* Where something is: most of the file is buckets and holes. Of the buckets, one that has a name in it. */
static size_t place(uint8_t region, uint32_t at)
{
        size_t processes = 2 * PAGE;
        size_t buckets = processes + PAGE;
        size_t names = buckets + BUCKETS * sizeof(struct bucket);
        size_t entries = names + 4 * PAGE;
        uint64_t hash;

        switch (region % 6) {
        case 0:
                return at % 512;
        case 1:
                return PAGE + at % 16;
        case 2:
                return processes + at % (4 * sizeof(struct process));
        case 3:
                memcpy(&hash, image + names + at % 4 * sizeof(struct name) + offsetof(struct name, hash), sizeof(hash));
                return buckets + hash % BUCKETS * sizeof(struct bucket) + at / 4 % sizeof(struct bucket);
        case 4:
                return names + at % (8 * sizeof(struct name));
        default:
                return entries + at % (32 * sizeof(struct entry));
        }
}

static void scribble(int fd, const uint8_t *data, size_t size)
{
        enum { RECORD = 12 };

        for (; size >= RECORD; data += RECORD, size -= RECORD) {
                size_t width = (size_t)1 << (data[1] % 4);
                uint32_t at;
                size_t offset;

                memcpy(&at, data + 2, 2);
                at = (at & 0xffff) * (uint32_t)width; /* aligned, as fields are */
                offset = place(data[0], at);
                if (offset + width <= image_size)
                        MUST(pwrite(fd, data + 4, width, (off_t)offset) == (ssize_t)width);
        }
        if (size > 0 && data[0] == 0xff)
                MUST(ftruncate(fd, (off_t)(data[size - 1] * (size_t)PAGE)) == 0);
}

static void write_state(const uint8_t *data, size_t size)
{
        int fd = open(state_path, O_RDWR | O_CLOEXEC);

        if (fd < 0) { /* replaced or removed meanwhile */
                fd = open(state_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
                MUST(fd >= 0);
        }
        struct stat status;
        MUST(fstat(fd, &status) == 0);
        ((struct header *)(void *)image)->inode = status.st_ino;
        MUST(ftruncate(fd, (off_t)image_size) == 0 && pwrite(fd, image, image_size, 0) == (ssize_t)image_size);
        scribble(fd, data, size);
        close(fd);
}

/* ---- use -------------------------------------------------------------------------------------------------------------- */

static void on_entry(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        (void)inquiry;
        MUST(strlen(entry->name) <= PAWL_NAME_MAX && strlen(entry->owner) <= PAWL_OWNER_MAX);
        MUST(strlen(entry->note) <= PAWL_NOTE_MAX);
}

static void on_answered(struct inquiry *inquiry, int code, const char *why)
{
        (void)inquiry;
        (void)code;
        (void)why;
}

static void inspect(struct world *world)
{
        struct inquiry all = {.name = "", .entry = on_entry, .answered = on_answered};
        struct inquiry one = {.name = "a", .entry = on_entry, .answered = on_answered};

        local_inspect.list(world->engine, &all);
        local_inspect.show(world->engine, &one);
        local_inspect.history(world->engine, &one);
        local_inspect.ask(world->engine, &one);
}

static void take_and_give(struct world *world)
{
        static const char *const names[] = {"a", "b", "c", "d", "new"};
        struct inquiry broken = {.name = "b", .entry = on_entry, .answered = on_answered};
        struct seat seats[5], waiting;
        struct claim *claim;

        for (int i = 0; i < 5; i++) {
                seat_init(&seats[i], names[i], false);
                local_engine.acquire(world->engine, &seats[i].claim);
        }
        seat_init(&waiting, "a", true);
        local_engine.acquire(world->engine, &waiting.claim);
        local_inspect.break_(world->engine, &broken);
        loop_turn(&world->loop);
        for (int i = 0; i < 5; i++) {
                claim = &seats[i].claim;
                if (seats[i].granted)
                        local_engine.renew(world->engine, &claim, 1);
                if (seats[i].granted)
                        local_engine.release(world->engine, claim);
        }
        if (waiting.granted)
                local_engine.release(world->engine, &waiting.claim);
        else if (waiting.part.view != VIEW_NONE)
                local_engine.cancel(world->engine, &waiting.claim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct world world;
        int64_t begin;

        prepare();
        write_state(data, size < 12 * 32 ? size : 12 * 32);
        if (world_open(&world) != PAWL_OK)
                return 0;
        begin = loop_now(&world.loop);
        inspect(&world);
        take_and_give(&world);
        inspect(&world);
        MUST(loop_now(&world.loop) - begin < 20 * SECOND);
        world_close(&world);
        return 0;
}
