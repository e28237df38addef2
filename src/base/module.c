/* module.c - opens the shared object in which an engine or a guard lives.
 *
 * It is looked for where the library itself was put, and where it was said at build time that modules are; never where
 * the environment of the program says, because what is opened here runs with the program's rights. For the same reason
 * a file is refused that somebody else could have put there. */
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* From the directory of the library, or of a program that has it inside: beside the installed library, from the
 * installed command, and in the build tree. Relative, so that an installation may be moved. */
static const char *const beside[] = {"pawl", PAWL_MODULES_FROM_BIN, "src/engine"};

/* ---- where ------------------------------------------------------------------------------------------------------- */

struct search {
        uintptr_t address;
        uint32_t objects; /* seen so far */
        bool program;     /* found in the program itself, which is the first */
        char path[PATH_MAX];
};

static int see_object(struct dl_phdr_info *info, size_t size, void *arg)
{
        struct search *search = arg;
        bool first = search->objects++ == 0;

        (void)size;
        for (size_t i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

                if (segment->p_type != PT_LOAD ||
                    search->address - info->dlpi_addr - segment->p_vaddr >= segment->p_memsz)
                        continue;
                search->program = first;
                return first || realpath(info->dlpi_name, search->path) ? 1 : -1;
        }
        return 0;
}

/* The file this code is in: the library, or the program it was linked into. False if nobody can tell. */
static bool own_file(char path[PATH_MAX])
{
        struct search search = {.address = (uintptr_t)beside};
        ssize_t length;

        if (dl_iterate_phdr(see_object, &search) != 1)
                return false;
        if (!search.program) {
                memcpy(path, search.path, sizeof(search.path));
                return true;
        }
        /* Its name there is empty, or argv[0], which is whatever the caller made it. */
        length = readlink("/proc/self/exe", path, PATH_MAX - 1);
        if (length <= 0)
                return false;
        path[length] = '\0';
        return *path == '/';
}

/* ---- whether it may be trusted ----------------------------------------------------------------------------------- */

/* Only root, we ourselves, or who owns the library could have written it. */
static bool trusted(const char *path)
{
        char own[PATH_MAX];
        struct stat status;
        struct stat library;

        if (stat(path, &status) != 0 || status.st_mode & S_IWOTH)
                return false;
        if (status.st_uid == 0 || status.st_uid == geteuid())
                return true;
        return own_file(own) && stat(own, &library) == 0 && library.st_uid == status.st_uid;
}

static bool trusted_with_directory(const char *path)
{
        char directory[PATH_MAX];
        char *slash;

        snprintf(directory, sizeof(directory), "%s", path);
        slash = strrchr(directory, '/');
        if (!slash)
                return false;
        *slash = '\0';
        return trusted(path) && trusted(directory);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static const struct module *check(const struct module *module, const char *path, struct pawl_why *why)
{
        if (module->abi != MODULE_ABI) {
                why_set(why, PAWL_NO_ENGINE,
                        "%s was built for module interface %u, this library has %d: install both from one build", path,
                        module->abi, MODULE_ABI);
                return NULL;
        }
        if (!module->version || strcmp(module->version, PAWL_VERSION) != 0) {
                why_set(why, PAWL_NO_ENGINE, "%s is of pawl %s, this library is %s: install both from one build", path,
                        module->version ? module->version : "(none)", PAWL_VERSION);
                return NULL;
        }
        return module;
}

const struct module *module_load(const char *path, struct pawl_why *why)
{
        const struct module *module;
        void *object;

        if (access(path, F_OK) != 0) {
                why_set(why, PAWL_NOT_FOUND, "there is no module %s", path);
                return NULL;
        }
        if (!trusted_with_directory(path)) {
                why_set(why, PAWL_NO_ENGINE,
                        "the module %s is not opened: it or its directory belongs to another user, or everybody may "
                        "write to it",
                        path);
                return NULL;
        }
        object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!object) {
                why_set(why, PAWL_NO_ENGINE, "the module cannot be opened: %s", dlerror());
                return NULL;
        }
        module = dlsym(object, "pawl_module");
        if (!module) {
                why_set(why, PAWL_NO_ENGINE, "%s is not a module of pawl", path);
                dlclose(object);
                return NULL;
        }
        return check(module, path, why);
}

/* A directory is asked only once the ones before it are known to have no such file. */
static const struct module *load_from(const char *directory, const char *name, struct pawl_why *why)
{
        char path[PATH_MAX];

        if (snprintf(path, sizeof(path), "%s/pawl-%s.so", directory, name) >= (int)sizeof(path)) {
                why_set(why, PAWL_NOT_FOUND, "the path of the module %s is too long", name);
                return NULL;
        }
        return module_load(path, why);
}

static const struct module *load_beside(const char *name, struct pawl_why *why)
{
        const struct module *module = NULL;
        char own[PATH_MAX];
        char *slash;

        why->code = PAWL_NOT_FOUND;
        /* A program with more rights than who started it may stand in a directory of the starter's. */
        if (getauxval(AT_SECURE) || !own_file(own))
                return NULL;
        slash = strrchr(own, '/');
        *slash = '\0';
        for (size_t i = 0; i < sizeof(beside) / sizeof(*beside) && why->code == PAWL_NOT_FOUND && !module; i++) {
                char directory[2 * PATH_MAX];

                snprintf(directory, sizeof(directory), "%s/%s", own, beside[i]);
                module = load_from(directory, name, why);
        }
        return module;
}

const struct module *module_open(const char *name, struct pawl_why *why)
{
        struct pawl_why own = {0};
        const struct module *module = load_beside(name, &own);

        if (!module && own.code == PAWL_NOT_FOUND)
                module = load_from(PAWL_MODULE_DIR, name, &own);
        if (!module && why)
                *why = own;
        return module;
}
