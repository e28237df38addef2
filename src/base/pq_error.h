/* pq_error.h - what libpq says of a connection that failed. For the engine and the guard; libpq itself is not used here. */
#ifndef PAWL_PQ_ERROR_H
#define PAWL_PQ_ERROR_H

#include <stddef.h>

/* libpq has the SQLSTATE of a refused connection in its text alone, with PQERRORS_VERBOSE: "FATAL:  28P01: ...". The words
 * are in the server's language, and have names in them that anybody may choose; the state is neither. Of several attempts
 * the last counts. Returns the message behind it; NULL, and state is empty, if the server said none. */
const char *pq_error_state(const char *text, char state[6]);
/* One line, without where in its source libpq or the server stood. */
void pq_error_line(const char *text, char *line, size_t size);

#endif
