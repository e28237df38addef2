/* pq_error.c - the SQLSTATE in the text of a connection that failed. */
#include "pq_error.h"

#include <stdio.h>
#include <string.h>

const char *pq_error_state(const char *text, char state[6])
{
        const char *message = NULL;

        *state = 0;
        for (const char *at = strstr(text, ":  "); at; at = strstr(at, ":  ")) {
                at += 3;
                if (strspn(at, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && strncmp(at + 5, ": ", 2) == 0) {
                        snprintf(state, 6, "%.5s", at);
                        message = at + 7;
                }
        }
        return message;
}

void pq_error_line(const char *text, char *line, size_t size)
{
        const char *location = strstr(text, "LOCATION:");
        size_t length = location ? (size_t)(location - text) : strlen(text);
        size_t used = 0;

        for (size_t i = 0; i < length && used + 1 < size; i++) {
                char c = text[i] == '\n' || text[i] == '\t' ? ' ' : text[i];

                if (c != ' ' || (used > 0 && line[used - 1] != ' '))
                        line[used++] = c;
        }
        while (used > 0 && line[used - 1] == ' ')
                used--;
        line[used] = 0;
}
