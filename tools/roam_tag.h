/* Output of nodes; each line is marked with its node. */
#ifndef ROAM_TAG_H
#define ROAM_TAG_H

#include <stdbool.h>
#include <stddef.h>

#define TAG_BYTES 8192

/* One pipe from a node.  Whole lines are passed on; lines longer than TAG_BYTES go in parts. */
struct tag_stream {
	unsigned node;
	bool marked; /* its lines have their marks already */
	int from;    /* -1: ended */
	int to;
	struct tag_stream **within; /* per `to`: the stream with an unfinished line, or NULL */
	size_t used;
	char text[TAG_BYTES];
};

/*
 * Opens the streams of a process's stdout and stderr, which it writes to ends[0] and ends[1].
 * `marked`: its lines have their marks; otherwise they get that of `node`.  False with errno: the
 * streams opened before the error stay.
 */
bool tag_open(struct tag_stream *streams[2], struct tag_stream *within[2], unsigned node,
	      bool marked, int ends[2]);

/* Reads what is available and passes it on; false: the stream has ended, and is closed. */
bool tag_pump(struct tag_stream *stream);

#endif
