/* options.c - as copy_struct_from_user does: a shorter struct is padded with zeros, which are the defaults; a longer one is
 * fine as long as it asks for nothing we have not heard of. */
#include "options.h"

#include <pawl.h>
#include <string.h>

int options_read(void *mine, size_t size, const void *theirs)
{
        const unsigned char *bytes = theirs;
        uint32_t their_size;

        memset(mine, 0, size);
        if (!theirs)
                return PAWL_OK;
        memcpy(&their_size, theirs, sizeof(their_size));
        if (their_size < sizeof(their_size) || their_size > 4096)
                return PAWL_INVALID;
        memcpy(mine, theirs, their_size < size ? their_size : size);
        for (size_t i = size; i < their_size; i++)
                if (bytes[i])
                        return PAWL_UNSUPPORTED;
        return PAWL_OK;
}
