/* storage.c - file systems by the magic of statfs(2). */
#include "storage.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/statfs.h>

static const struct {
        uint32_t type;
        enum storage storage;
        const char *name;
} known[] = {
        {0x01021994, STORAGE_MEMORY, "tmpfs"},  {0x858458f6, STORAGE_MEMORY, "ramfs"},
        {0x6969, STORAGE_REMOTE, "NFS"},        {0x517b, STORAGE_REMOTE, "SMB"},
        {0xff534d42, STORAGE_REMOTE, "CIFS"},   {0xfe534d42, STORAGE_REMOTE, "SMB"},
        {0x01021997, STORAGE_REMOTE, "9p"},     {0x65735546, STORAGE_REMOTE, "FUSE"},
        {0x5346414f, STORAGE_REMOTE, "AFS"},    {0x00c36400, STORAGE_REMOTE, "Ceph"},
        {0x73757245, STORAGE_REMOTE, "Coda"},   {0x7461636f, STORAGE_REMOTE, "OCFS2"},
        {0x01161970, STORAGE_REMOTE, "GFS2"},   {0x0bd00bd0, STORAGE_REMOTE, "Lustre"},
        {0x47504653, STORAGE_REMOTE, "GPFS"},   {0x19830326, STORAGE_REMOTE, "BeeGFS"},
        {0x786f4256, STORAGE_REMOTE, "vboxsf"}, {0x7c7c6673, STORAGE_REMOTE, "prl_fs"},
        {0xbacbacbc, STORAGE_REMOTE, "vmhgfs"}, {0x20030528, STORAGE_REMOTE, "OrangeFS"},
        {0x6b414653, STORAGE_REMOTE, "AFS"},    {0x564c, STORAGE_REMOTE, "NCP"},
        {0x00c0ffee, STORAGE_REMOTE, "hostfs"}, {0xaad7aaea, STORAGE_REMOTE, "PanFS"},
        {0x013111a8, STORAGE_REMOTE, "IBRIX"},
};

enum storage storage_of(int fd, const char **name)
{
        struct statfs status;

        *name = "";
        if (fstatfs(fd, &status) != 0)
                return STORAGE_UNKNOWN;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                if ((uint32_t)status.f_type != known[i].type)
                        continue;
                *name = known[i].name;
                return known[i].storage;
        }
        return STORAGE_DISK;
}
