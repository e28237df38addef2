/* test_storage.c - where the embedded engine may not share memory. What fstatfs(2) says of a file system is ours here. */
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "pawl.h"
#include "tap.h"

static unsigned said;

/* The C library has two names for it. */
static int say(struct statfs *status)
{
        memset(status, 0, sizeof(*status));
        status->f_type = (__typeof__(status->f_type))said;
        return 0;
}

int __wrap_fstatfs(int fd, struct statfs *status);
int __wrap_fstatfs64(int fd, struct statfs *status);

int __wrap_fstatfs(int fd, struct statfs *status)
{
        (void)fd;
        return say(status);
}

int __wrap_fstatfs64(int fd, struct statfs *status)
{
        (void)fd;
        return say(status);
}

static int open_on(unsigned type, const char *directory, struct pawl_why *why)
{
        pawl_client *client = NULL;
        char url[4200];
        int code;

        said = type;
        snprintf(url, sizeof(url), "local:%s/locks", directory);
        code = pawl_open(url, PAWL_OPEN(.why = why), &client);
        pawl_close(client);
        return code;
}

TEST(a_file_system_that_machines_share_is_refused_by_its_name)
{
        static const struct {
                unsigned type;
                const char *name;
        } rows[] = {{0x6969, "NFS"},       {0xff534d42, "CIFS"},   {0x01021997, "9p"},     {0x65735546, "FUSE"},
                    {0x00c36400, "Ceph"},  {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0x19830326, "BeeGFS"},
                    {0x01161970, "GFS2"},  {0x7461636f, "OCFS2"},  {0x786f4256, "vboxsf"}, {0xbacbacbc, "vmhgfs"},
                    {0x7c7c6673, "prl_fs"}};
        const char *directory = tap_directory();
        struct pawl_why why = {0};
        char state[4200];

        snprintf(state, sizeof(state), "%s/locks/state", directory);
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                if (!CHECK_INT(open_on(rows[i].type, directory, &why), PAWL_UNSUPPORTED))
                        NOTE("%s was accepted", rows[i].name);
                CHECK_HAS(why.text, rows[i].name);
                CHECK(access(state, F_OK) != 0);
        }
}

TEST(one_of_this_machine_is_not)
{
        static const unsigned types[] = {0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0xa501fcf5};

        for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
                CHECK_INT(open_on(types[i], tap_directory(), NULL), PAWL_OK);
}
