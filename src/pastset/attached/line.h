/* A client's connection to a server of elements: whole frames, and how both meet. */
#ifndef ROAMI_PAST_LINE_H
#define ROAMI_PAST_LINE_H

#include "link/address.h"
#include "link/flow.h"
#include "pastset/attached/frames.h"

/*
 * One thread at a time sends, one receives, and one opens it while none does either.  Zero but for
 * fd -1 and `wake`: not yet open.  No call waits longer than its limit, not even for a server that
 * is stopped or cut off, or for room in a socket.
 */
struct roami_line {
	int fd;
	int wake; /* an eventfd that wakes the thread that receives */
	uint64_t until; /* opening it may take until then, by the clock of roami_os_now_ns, */
	uint64_t least; /* and until then at least, if it is cancelled */
	const struct roam_ps_cancel *cancel; /* by this; NULL: it cannot be */
	struct roami_route route;
	struct roami_channel channel;
	size_t have;
	struct roami_flow flow; /* of `out`, what the socket had no room for */
	uint8_t in[ROAMI_GUEST_FRAME_MAX];
	uint8_t out[ROAMI_GUEST_FRAME_MAX];
};

/*
 * Meets the server at an address: both show that they know the key, and the client attaches.
 * `why` says more.  Errors: ROAM_EINVAL (the address makes no sense), ROAM_ELOST (no server is
 * there), ROAM_EAGAIN (none can be reached, or the connection broke), ROAM_EPROTO (no server of
 * this version), ROAM_EKEY, ROAM_EGONE (the server does not know the session), ROAM_ESYSTEM.
 */
enum roam_err roami_line_open(struct roami_line *line, const char *address, const uint8_t *key,
			      const struct roami_attach *attach, struct roami_attached *attached_p,
			      char *why, size_t why_bytes);
void roami_line_close(struct roami_line *line);

/*
 * A frame, when nothing is left of the one before.  What there is no room for is sent by
 * roami_line_flush.  false: the connection is broken.
 */
bool roami_line_send(struct roami_line *line, const struct roami_guest_head *head,
		     const struct roam_part *parts, unsigned count);
bool roami_line_flush(struct roami_line *line);

static inline bool roami_line_full(const struct roami_line *line)
{
	return !roami_flow_empty(&line->flow);
}

/*
 * Waits for what comes, for room to send if it was full, to be woken, or until then; UINT64_MAX:
 * without end.  false: the connection is broken.
 */
bool roami_line_receive(struct roami_line *line, bool full, uint64_t until);

/* The next whole frame that has come, opened; NULL: there is none, or *bad_p. */
uint8_t *roami_line_frame(struct roami_line *line, size_t *bytes_p, bool *bad_p);

/* Drops the frame that was read. */
void roami_line_shift(struct roami_line *line);

#endif
