/* A client's connection to a server of elements: whole frames, and how both meet. */
#ifndef ROAMI_PAST_LINE_H
#define ROAMI_PAST_LINE_H

#include "pastset/frames.h"

/*
 * One thread at a time sends, one receives, and one opens it while nobody does either.  Zero but
 * for fd -1, wake and patience_ms: not yet open.
 */
struct roami_line {
	int fd;
	int wake; /* to be written to by who wants the one who receives to look up */
	int patience_ms; /* so long may a server take to answer who connects */
	struct roami_channel channel;
	size_t have;
	uint8_t in[ROAMI_GUEST_FRAME_MAX];
	uint8_t out[ROAMI_GUEST_FRAME_MAX];
};

/*
 * Meets the server at an address: both show that they know the key, and the client attaches.
 * `why` says more.  Errors: ROAM_EINVAL (the address makes no sense), ROAM_ELOST (nobody is
 * there), ROAM_EAGAIN (nobody can be reached, or the connection broke), ROAM_EPROTO (no server of
 * this version), ROAM_EKEY, ROAM_EGONE (the server does not know the session), ROAM_ESYSTEM.
 */
enum roam_err roami_line_open(struct roami_line *line, const char *address, const uint8_t *key,
			      const struct roami_attach *attach, struct roami_attached *attached_p,
			      char *why, size_t why_bytes);
void roami_line_close(struct roami_line *line);

/* false: the connection is broken. */
bool roami_line_send(struct roami_line *line, const struct roami_guest_head *head,
		     const struct roam_part *parts, unsigned count);

/* Waits for what comes, or to be woken; false: the connection is broken. */
bool roami_line_receive(struct roami_line *line);

/* The next whole frame that has come, opened; NULL: there is none, or *bad_p. */
uint8_t *roami_line_frame(struct roami_line *line, size_t *bytes_p, bool *bad_p);

/* That frame is done with. */
void roami_line_shift(struct roami_line *line);

#endif
