/* registry_test.c - schemes find their engines, modules that do not fit are refused, every failure is a sentence. */
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/module.h"
#include "engine/engine.h"

static const char *bad_module(const char *name)
{
        static char path[4096];

        snprintf(path, sizeof(path), "%s/pawl-bad-%s.so", getenv("MODULES"), name);
        return path;
}

static void write_file(const char *path, const char *text)
{
        FILE *file = fopen(path, "w");

        REQUIRE(file != NULL);
        fputs(text, file);
        fclose(file);
}

static void copy_file(const char *from, const char *to)
{
        char command[9000];

        snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
        REQUIRE(system(command) == 0);
}

TEST(local_is_built_in)
{
        const struct engine_ops *ops = engine_find("local", NULL);

        REQUIRE(ops != NULL);
        CHECK_STR(ops->name, "local");
}

TEST(an_unknown_scheme_is_told_which_there_are)
{
        struct pawl_why why = {0};

        CHECK_NULL(engine_find("gopher", &why));
        CHECK_INT(why.code, PAWL_NO_ENGINE);
        CHECK_HAS(why.text, "gopher");
        CHECK_HAS(why.text, "local");
        CHECK_HAS(why.text, "postgresql");
}

TEST(an_unknown_scheme_of_any_length_is_no_trouble)
{
        char scheme[2000];
        struct pawl_why why = {0};

        memset(scheme, 'x', sizeof(scheme) - 1);
        scheme[sizeof(scheme) - 1] = '\0';
        CHECK_NULL(engine_find(scheme, &why));
        CHECK_HAS(why.text, "postgresql");
        CHECK_NULL(engine_find("", &why));
        CHECK_NULL(engine_find("trace+", &why));
        CHECK_NULL(engine_find("local ", NULL));
}

TEST(an_engine_that_is_not_installed_says_which_module_is_missing)
{
        static const char *const schemes[] = {"redis", "rediss", "redis+unix", "redlock",   "zk",
                                              "etcd",  "etcds",  "postgres",   "postgresql"};

        for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
                struct pawl_why why = {0};

                CHECK_NULL(engine_find(schemes[i], &why));
                CHECK_INT(why.code, PAWL_NO_ENGINE);
                CHECK_HAS(why.text, schemes[i]);
                CHECK_HAS(why.text, "module pawl-");
        }
}

TEST(the_list_of_engines_ends_and_every_line_is_whole)
{
        struct pawl_engine_info info;
        size_t count = 0;
        bool local = false;

        for (; engine_info(count, &info) == PAWL_OK; count++) {
                CHECK(info.scheme && *info.scheme);
                CHECK(info.summary && *info.summary);
                CHECK(info.promise && *info.promise);
                CHECK(!info.missing || *info.missing);
                CHECK(!strchr(info.summary, '\n') && !strchr(info.promise, '\n'));
                if (strcmp(info.scheme, "local") == 0)
                        local = !info.missing;
        }
        CHECK(local);
        CHECK_INT(count, 12);
        CHECK_INT(engine_info(count + 1000, &info), PAWL_NOT_FOUND);
        CHECK_INT(engine_info(SIZE_MAX, &info), PAWL_NOT_FOUND);
}

TEST(a_module_that_fits_is_opened)
{
        const char *path = getenv("TRACE_MODULE");
        const struct module *module;
        struct pawl_why why = {0};

        if (!path || !*path)
                SKIP("the tracing engine is built in");
        module = module_load(path, &why);
        CHECK_STR(why.text, "");
        REQUIRE(module != NULL);
        CHECK_STR(module->engine->name, "trace");
        CHECK(module_load(path, NULL) == module);
}

TEST(a_module_of_another_interface_is_refused)
{
        struct pawl_why why = {0};

        CHECK_NULL(module_load(bad_module("abi"), &why));
        CHECK_INT(why.code, PAWL_NO_ENGINE);
        CHECK_HAS(why.text, "4711");
        CHECK_HAS(why.text, "install both from one build");
}

TEST(a_module_of_another_version_is_refused)
{
        struct pawl_why why = {0};

        CHECK_NULL(module_load(bad_module("version"), &why));
        CHECK_INT(why.code, PAWL_NO_ENGINE);
        CHECK_HAS(why.text, "9.9.9");
        CHECK_HAS(why.text, PAWL_VERSION);
}

TEST(a_shared_object_that_is_no_module_is_refused)
{
        struct pawl_why why = {0};

        CHECK_NULL(module_load(bad_module("symbol"), &why));
        CHECK_INT(why.code, PAWL_NO_ENGINE);
        CHECK_HAS(why.text, "not a module");
}

TEST(a_file_that_is_no_shared_object_is_refused)
{
        char path[4096];
        struct pawl_why why = {0};

        snprintf(path, sizeof(path), "%s/pawl-text.so", tap_directory());
        write_file(path, "this is not ELF");
        CHECK_NULL(module_load(path, &why));
        CHECK_INT(why.code, PAWL_NO_ENGINE);
        CHECK_HAS(why.text, "cannot be opened");
}

TEST(a_file_that_is_not_there_is_not_found)
{
        struct pawl_why why = {0};

        CHECK_NULL(module_load("/nowhere/pawl-none.so", &why));
        CHECK_INT(why.code, PAWL_NOT_FOUND);
        CHECK_HAS(why.text, "/nowhere/pawl-none.so");
        CHECK_NULL(module_open("no-such-module", &why));
        CHECK_INT(why.code, PAWL_NOT_FOUND);
        CHECK_NULL(module_open("no-such-module", NULL));
}

TEST(a_name_too_long_for_a_path_is_not_found)
{
        char name[5000];
        struct pawl_why why = {0};

        memset(name, 'x', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        CHECK_NULL(module_open(name, &why));
        CHECK_INT(why.code, PAWL_NOT_FOUND);
}

TEST(a_module_that_everybody_may_write_is_not_opened)
{
        char path[4096];
        struct pawl_why why = {0};

        snprintf(path, sizeof(path), "%s/pawl-open.so", tap_directory());
        copy_file(bad_module("version"), path);
        chmod(path, 0666);
        CHECK_NULL(module_load(path, &why));
        CHECK_HAS(why.text, "everybody may write");
        chmod(path, 0600);
        CHECK_NULL(module_load(path, &why));
        CHECK_HAS(why.text, "9.9.9"); /* it was opened, and refused for its version */
}

TEST(a_module_in_a_directory_that_everybody_may_write_is_not_opened)
{
        char path[4096];
        struct pawl_why why = {0};

        snprintf(path, sizeof(path), "%s/pawl-open.so", tap_directory());
        copy_file(bad_module("version"), path);
        chmod(tap_directory(), 0777);
        CHECK_NULL(module_load(path, &why));
        CHECK_HAS(why.text, "everybody may write");
}

TEST(a_module_of_another_user_is_not_opened)
{
        char path[4096];
        struct pawl_why why = {0};

        if (geteuid() != 0)
                SKIP("only root can give files away");
        snprintf(path, sizeof(path), "%s/pawl-open.so", tap_directory());
        copy_file(bad_module("version"), path);
        REQUIRE(chown(path, 65534, 65534) == 0);
        CHECK_NULL(module_load(path, &why));
        CHECK_HAS(why.text, "another user");
}
