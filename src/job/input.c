#include "job/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/os.h"

#define GONE_BYTES (UINT64_C(1) << 20) /* bytes given back at a time */

bool roami_input_open(struct roami_input *input, int from)
{
	input->from = from;
	input->spool = roami_os_fd((int)memfd_create("roam-input", MFD_CLOEXEC));
	return input->spool >= 0;
}

/* Moves what some node has not had yet to the beginning of the file. */
static bool input_rewind(struct roami_input *input)
{
	uint64_t kept = input->bytes - input->had;
	char chunk[4096];

	for (uint64_t at = 0; at < kept && input->had > input->base;) {
		uint64_t rest = kept - at;
		size_t bytes = rest < sizeof(chunk) ? (size_t)rest : sizeof(chunk);

		if (pread(input->spool, chunk, bytes, (off_t)(input->had - input->base + at)) !=
			    (ssize_t)bytes ||
		    roami_os_write_at(input->spool, at, chunk, bytes) != bytes)
			return false;
		at += bytes;
	}
	input->base = input->gone = input->had;
	return true;
}

bool roami_input_take(struct roami_input *input, const void *data, size_t bytes)
{
	bool fits;

	errno = ENOSPC; /* why a write would be short */
	fits = roami_os_writes_to(input->bytes - input->base + bytes) || input_rewind(input);

	if (fits && roami_os_write_at(input->spool, input->bytes - input->base, data, bytes) ==
			    bytes) {
		input->bytes += bytes;
		input->ends = bytes == 0;
		return true;
	}
	fprintf(stderr,
		"roam: %llu bytes of the standard input that a node has not read yet cannot be "
		"kept: %s\n",
		(unsigned long long)(input->bytes - input->had + bytes),
		roami_os_writes_to(input->bytes - input->base + bytes)
			? strerror(errno)
			: "the limit of file sizes (ulimit -f) is too low");
	return false;
}

bool roami_input_may_read(int from)
{
	return !isatty(from) || tcgetpgrp(from) == getpgrp();
}

int roami_input_read(int from, void *data, size_t room)
{
	ssize_t got = read(from, data, room);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return -1;
	return got > 0 ? (int)got : 0;
}

bool roami_input_pipe_open(struct roami_input_pipe *pipe, int *from_p)
{
	int ends[2];

	if (!roami_os_pipe(ends, 0))
		return false;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	*pipe = (struct roami_input_pipe){.to = ends[1]};
	*from_p = ends[0];
	return true;
}

static void input_close(struct roami_input_pipe *pipe)
{
	close(pipe->to);
	pipe->to = -1;
}

static void input_write(const struct roami_input *input, struct roami_input_pipe *pipe)
{
	char chunk[4096];

	while (pipe->to >= 0 && pipe->fed < input->bytes) {
		uint64_t rest = input->bytes - pipe->fed; /* old bytes may lie behind */
		size_t want = rest < sizeof(chunk) ? (size_t)rest : sizeof(chunk);
		ssize_t got = pread(input->spool, chunk, want,
				    (off_t)(pipe->fed - input->base)),
			put;

		if (got <= 0)
			break;
		put = write(pipe->to, chunk, (size_t)got);
		if (put < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (put < 0) { /* the node reads no more */
			input_close(pipe);
			return;
		}
		pipe->fed += (uint64_t)put;
	}
	if (pipe->to >= 0 && input->ends)
		input_close(pipe);
}

void roami_input_write(struct roami_input *input, struct roami_input_pipe *pipes, unsigned nodes)
{
	uint64_t had = input->bytes;

	for (unsigned i = 0; i < nodes; i++) {
		input_write(input, &pipes[i]);
		if (pipes[i].to >= 0 && pipes[i].fed < had)
			had = pipes[i].fed;
	}
	input->had = had;
	had -= had % GONE_BYTES;
	if (had > input->gone && fallocate(input->spool, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					   (off_t)(input->gone - input->base),
					   (off_t)(had - input->gone)) == 0)
		input->gone = had;
}

int roami_input_hungry(const struct roami_input *input, const struct roami_input_pipe *pipe)
{
	return pipe->fed < input->bytes ? pipe->to : -1;
}

bool roami_input_wanted(const struct roami_input *input, const struct roami_input_pipe *pipes,
			unsigned nodes)
{
	for (unsigned i = 0; i < nodes && !input->ends; i++)
		if (pipes[i].to >= 0 && pipes[i].fed == input->bytes)
			return true;
	return false;
}

nfds_t roami_input_polls(const struct roami_input *input, const struct roami_input_pipe *pipes,
			 unsigned nodes, struct pollfd *polls)
{
	bool reads = roami_input_wanted(input, pipes, nodes) && roami_input_may_read(input->from);

	polls[0] = (struct pollfd){reads ? input->from : -1, POLLIN, 0};
	for (unsigned i = 0; i < nodes; i++)
		polls[1 + i] = (struct pollfd){roami_input_hungry(input, &pipes[i]), POLLOUT, 0};
	return nodes + 1;
}

bool roami_input_copy(struct roami_input *input, struct roami_input_pipe *pipes, unsigned nodes,
		      bool more)
{
	char chunk[4096];
	int got = more ? roami_input_read(input->from, chunk, sizeof(chunk)) : -1;

	if (got >= 0 && !roami_input_take(input, chunk, (size_t)got))
		return false;
	roami_input_write(input, pipes, nodes);
	return true;
}
