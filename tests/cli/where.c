/* where.c - which directory the library takes for local:, for a test that compares it with the command's. It is opened
 * only if it is there, and nothing is made. */
#include <stdio.h>

#include <pawl.h>

int main(void)
{
        struct pawl_why why = {0};
        pawl_client *client;
        int code = pawl_open("local:?create=no", PAWL_OPEN(.why = &why), &client);

        if (code == PAWL_OK) {
                printf("%s\n", pawl_url(client));
                pawl_close(client);
        } else {
                printf("%s\n", why.text);
        }
        return code == PAWL_OK || code == PAWL_NOT_FOUND ? 0 : 1;
}
