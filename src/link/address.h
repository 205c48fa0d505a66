/*
 * Where programs meet, and the key that they share.  An address with a / is a Unix socket's path,
 * another is HOST:PORT.
 */
#ifndef ROAMI_ADDRESS_H
#define ROAMI_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* How a thread that connects waits, and where it was connected to. */
struct roami_route {
	/* For a socket that is being connected; false: no longer.  `last`: no other one will be. */
	bool (*wait)(void *arg, int fd, bool last);
	void *arg;
	socklen_t bytes; /* 0: the address's name is yet to be looked up, which may take its time */
	struct sockaddr_storage to;
};

/*
 * A connected socket; or one that listens with its address in `at` as clients may use it (of a port
 * 0, the one chosen).  Neither waits when it is used.  -1: `why` says why; errno is EINVAL where
 * the address makes no sense.
 */
int roami_address_connect(const char *address, struct roami_route *route, char *why,
			  size_t why_bytes);
int roami_address_listen(const char *address, char *at, size_t at_bytes, char *why,
			 size_t why_bytes);

/*
 * After a failure to attach over a Unix socket: if the other side is another user's process, `why`
 * says so instead.  The key lets in every process that has it, of any user.
 */
void roami_address_blame(int fd, const char *address, char *why, size_t why_bytes);

/* A host that is cut off or down shows as a lost connection. */
void roami_address_tune(int fd);

/*
 * Reads the key, ROAMI_CHANNEL_KEY bytes, from a file of 64 hexadecimal digits that only its owner
 * may read (NULL: the one that ROAM_PS_KEY names); `make`: a new one if there is no file.  false:
 * `why` says why.
 */
bool roami_address_key(const char *file, bool make, uint8_t *key, char *why, size_t why_bytes);

#endif
