/* secret.h - may a file be trusted with a secret? */
#ifndef PAWL_SECRET_H
#define PAWL_SECRET_H

#include "why.h"

/* PAWL_OK for a regular file that nobody but its owner can write, and not everybody can read; one of root's may be
 * readable by everybody where it is mounted read-only: Docker (0444) and Kubernetes (0644, or 0440 and a group) hand
 * secrets to containers like that. what: "password file" or the like, for the message. */
int secret_check(int fd, const char *what, const char *path, struct pawl_why *why);

#endif
