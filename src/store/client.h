/*
 * A client's connection to a page server: frames, and the calls that every client needs.  One
 * thread at a time sends, and one receives.  No call waits longer than its limit; UINT64_MAX: none.
 */
#ifndef ROAMI_STORE_CLIENT_H
#define ROAMI_STORE_CLIENT_H

#include "os/os.h"
#include "store/frames.h"

struct roami_store_client;

/*
 * Meets the server at an address, by struct roami_store_open.  Errors, of which `why` says more:
 * ROAM_EINVAL (the address), ROAM_ELOST (no server is there), ROAM_EAGAIN (it does not answer),
 * ROAM_EPROTO (no page server of this version), ROAM_EKEY, ROAM_ENOMEM, ROAM_ESYSTEM; those with
 * which the server refuses: ROAM_EMISMATCH (another heap size, page size or address), ROAM_EBUSY
 * (another job has the store), ROAM_ENOSPC (it is empty, and there is no room on its disk).
 */
enum roam_err roami_store_connect(struct roami_store_client **client_p, const char *address,
				  const uint8_t *key, const struct roami_store_open *open,
				  struct roami_store_opened *opened_p, char *why, size_t why_bytes);
void roami_store_disconnect(struct roami_store_client *client); /* NULL is ignored */

/*
 * Sends a frame; waits for room in the socket until `until` (roami_os_now_ns).  false: the
 * connection is broken, or the time is over; it is of no use then.
 */
bool roami_store_send(struct roami_store_client *client, uint32_t kind, uint64_t number,
		      const struct roam_part *parts, unsigned count, uint64_t until);

/*
 * The next frame: its head, and its bytes, which stay until the next call.  ROAM_ETIMEDOUT: none
 * has come until `until`; ROAM_ELOST: the connection is broken; ROAM_EKEY: what came is not the
 * server's.
 */
enum roam_err roami_store_receive(struct roami_store_client *client, uint64_t until,
				  struct roami_store_head *head, const uint8_t **data_p,
				  size_t *bytes_p);

/* The descriptor, to poll for frames.  Some may have been read from it already: receive first. */
int roami_store_fd(const struct roami_store_client *client);

/*
 * Calls `each` with each page (`where` is its number, `from` 0, `bytes` ROAMI_STORE_PAGE), or with
 * each name (`from` bytes of it, then the value).  For the time before other frames are under way,
 * and for a client that may commit: while others do, what it gets may be of several moments.
 */
enum roam_err roami_store_load(struct roami_store_client *client, uint32_t what, uint32_t first,
			       uint32_t end,
			       void (*each)(void *arg, const struct roami_store_entry *entry,
					    const uint8_t *data),
			       void *arg);

/*
 * All pages and names as of one commit, which *serial_p tells, while others commit: gets again what
 * was changed meanwhile.  A page may be told more than once: the last time counts; so do the names
 * that follow the last call of `begin`.
 */
struct roami_store_loader {
	void (*begin)(void *arg);
	void (*page)(void *arg, const struct roami_store_entry *entry, const uint8_t *data);
	void (*name)(void *arg, const struct roami_store_entry *entry, const uint8_t *data);
	void *arg;
};
enum roam_err roami_store_load_all(struct roami_store_client *client,
				   const struct roami_store_loader *loader, uint64_t *serial_p);

/*
 * A commit, gathered: add entries, then send.  roami_store_add splits it into frames and sends
 * those that are full.  false: as of roami_store_send.
 */
struct roami_store_commit {
	struct roami_store_client *client;
	uint64_t number, until;
	struct roami_vec *kept; /* what was added, for roami_store_again; NULL: not kept */
	size_t bytes;
	uint8_t entries[ROAMI_STORE_ENTRIES_MAX];
};
void roami_store_begin(struct roami_store_commit *commit, struct roami_store_client *client,
		       uint64_t number, uint64_t until);
bool roami_store_add_bytes(struct roami_store_commit *commit, uint32_t page, uint32_t from,
			   const void *data, uint32_t bytes);
bool roami_store_add_name(struct roami_store_commit *commit, const char *name, const void *value,
			  uint32_t bytes); /* value NULL: forget it */
bool roami_store_end(struct roami_store_commit *commit);

/* Sends a commit whose end was sent once more, over another connection: what was kept of it. */
bool roami_store_again(struct roami_store_commit *commit, struct roami_store_client *client);

#endif
