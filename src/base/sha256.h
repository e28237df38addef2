/* sha256.h - SHA-256 (FIPS 180-4), for names that must not collide and files that must be whole. Not for secrets. */
#ifndef PAWL_SHA256_H
#define PAWL_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_SIZE = 32 };

void sha256(const void *data, size_t size, unsigned char digest[SHA256_SIZE]);

#endif
