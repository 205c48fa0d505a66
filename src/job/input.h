/* The standard input, copied to every node: some read early, some late, some never. */
#ifndef ROAMI_INPUT_H
#define ROAMI_INPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct roami_input {
	int from;       /* what is read */
	int spool;      /* what has come, in memory: a file from byte `base` on */
	uint64_t bytes; /* that have come */
	uint64_t had;   /* by all nodes, of these */
	uint64_t gone;  /* how many of the first bytes are given back: all nodes have had them */
	uint64_t base;  /* more than 0 only under a limit of file sizes */
	bool ends;
};

/* One node's. */
struct roami_input_pipe {
	int to; /* the writing end; -1: closed */
	uint64_t fed;
};

bool roami_input_open(struct roami_input *input, int from);

/*
 * Adds input that came by another way; no bytes: its end.  False, with a line on stderr: what some
 * node has not read yet cannot be kept.
 */
bool roami_input_take(struct roami_input *input, const void *data, size_t bytes);

/* Whether a descriptor may be read: not while another job of the terminal has it. */
bool roami_input_may_read(int from);

/* Reads what is there, up to `room`; 0: its end, -1: nothing for now. */
int roami_input_read(int from, void *data, size_t room);

/* A pipe for a node, which reads from *from_p. */
bool roami_input_pipe_open(struct roami_input_pipe *pipe, int *from_p);

/*
 * Gives each node, as fast as it reads, the input that it has not had yet, and then the end.  Drops
 * the input that all nodes have had.
 */
void roami_input_write(struct roami_input *input, struct roami_input_pipe *pipes, unsigned nodes);

/* The descriptor to poll for writing while the node lacks input; -1: none. */
int roami_input_hungry(const struct roami_input *input, const struct roami_input_pipe *pipe);

/* Whether to read more input: the fastest node has had all that is there. */
bool roami_input_wanted(const struct roami_input *input, const struct roami_input_pipe *pipes,
			unsigned nodes);

/* Fills in what to poll: the source, then each node's pipe; `nodes` + 1 entries. */
nfds_t roami_input_polls(const struct roami_input *input, const struct roami_input_pipe *pipes,
			 unsigned nodes, struct pollfd *polls);

/* `more`: reads what is there.  Then writes to all.  False: as roami_input_take. */
bool roami_input_copy(struct roami_input *input, struct roami_input_pipe *pipes, unsigned nodes,
		      bool more);

#endif
