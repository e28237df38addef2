/* version.c - prints which libpawl the benchmark runs against. */
#include <pawl.h>
#include <stdio.h>

int main(void)
{
        return puts(pawl_version()) < 0;
}
