/*
 * A page server: its directory, the sockets of its clients, one thread for them and one for the
 * log, and a child process now and then that writes a snapshot.
 */
#ifndef ROAMI_STORE_SERVER_H
#define ROAMI_STORE_SERVER_H

#include "store/caller.h"

#define ROAMI_SNAPSHOT_EVERY ((uint64_t)256 << 20) /* bytes of log, at least */

struct roami_store_params {
	const char *directory; /* made if it is not there */
	const char *address;
	const uint8_t *key, *read_key; /* NULL: none */
	uint64_t log_bytes;      /* of a file of the log */
	uint64_t snapshot_bytes; /* of all of the log, and the state as often as that */
	bool uring;
	void (*say)(const char *line); /* what is wrong, and does not end the server */
};

struct roami_store_server;

/* A directory that only its user may use, held against other servers; -1: why. */
int roami_store_directory(const char *path, bool make, int *lock_p, char why[ROAMI_STORE_WHY]);

/*
 * Recovers what there is and listens; `at`: the address as clients may use it.  If there is no room
 * for a log it serves what it has, says so, and refuses commits until there is.  ROAM_EINVAL (the
 * address), ROAM_EPROTO (the files are damaged), ROAM_EMISMATCH (of another version), ROAM_ENOMEM,
 * ROAM_ESYSTEM; `why` says why.
 */
enum roam_err roami_store_open(struct roami_store_server **server_p,
			       const struct roami_store_params *params, char *at, size_t at_bytes,
			       char why[ROAMI_STORE_WHY]);

/* Serves until `stop` can be read from.  ROAM_ESYSTEM: the disk has failed, or the server; why. */
enum roam_err roami_store_serve(struct roami_store_server *server, int stop,
				char why[ROAMI_STORE_WHY]);

/* Writes what was received, and closes all.  false: that failed; why. */
bool roami_store_close(struct roami_store_server *server, char why[ROAMI_STORE_WHY]);

#endif
