#include "roam_tag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

bool tag_open(struct tag_stream *streams[2], struct tag_stream *within[2], unsigned node,
	      bool marked, int ends[2])
{
	for (int i = 0; i < 2; i++) {
		struct tag_stream *stream = calloc(1, sizeof(*stream));
		int pipe[2];

		if (stream == NULL || !roami_os_pipe(pipe, 0)) {
			free(stream);
			return false;
		}
		stream->node = node;
		stream->marked = marked;
		stream->from = pipe[0];
		stream->to = STDOUT_FILENO + i;
		stream->within = &within[i];
		ends[i] = pipe[1];
		streams[i] = stream;
	}
	return true;
}

static void tag_write(int to, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t wrote = write(to, text, bytes);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return; /* the reader is gone */
		text += wrote;
		bytes -= (size_t)wrote;
	}
}

/*
 * Passes on the first `bytes` of the buffer, with the mark unless they continue the line passed on
 * last.
 */
static void tag_pass(struct tag_stream *stream, size_t bytes, bool ends)
{
	char line[TAG_BYTES + 16];
	int mark = 0;

	if (stream->marked)
		mark = *stream->within != stream && *stream->within != NULL
			       ? snprintf(line, sizeof(line), "\n")
			       : 0;
	else if (*stream->within != stream)
		mark = snprintf(line, sizeof(line), "%s[%u] ", *stream->within != NULL ? "\n" : "",
				stream->node);
	memcpy(line + mark, stream->text, bytes);
	tag_write(stream->to, line, (size_t)mark + bytes);
	*stream->within = ends ? NULL : stream;
	stream->used -= bytes;
	memmove(stream->text, stream->text + bytes, stream->used);
}

static void tag_lines(struct tag_stream *stream)
{
	char *end;

	while ((end = memchr(stream->text, '\n', stream->used)) != NULL)
		tag_pass(stream, (size_t)(end - stream->text) + 1, true);
	if (stream->used == sizeof(stream->text))
		tag_pass(stream, stream->used, false);
}

bool tag_pump(struct tag_stream *stream)
{
	ssize_t got = read(stream->from, stream->text + stream->used, TAG_BYTES - stream->used);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (got > 0) {
		stream->used += (size_t)got;
		tag_lines(stream);
		return true;
	}
	/* Ends an unfinished last line, so that the next node's line does not continue it. */
	if (stream->used > 0)
		tag_pass(stream, stream->used, false);
	if (*stream->within == stream) {
		tag_write(stream->to, "\n", 1);
		*stream->within = NULL;
	}
	close(stream->from);
	stream->from = -1;
	return false;
}
