/* The standard input, copied to every node: some read early, some late, some never. */
#ifndef ROAMI_INPUT_H
#define ROAMI_INPUT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct roami_input {
	int from;       /* what is read */
	int spool;      /* all that has come, in memory */
	uint64_t bytes; /* of it */
	uint64_t gone;  /* the first of them: all have had these */
	bool ends;
};

/* One node's. */
struct roami_input_pipe {
	int to; /* the end that is written to; -1: closed */
	uint64_t fed;
};

bool roami_input_open(struct roami_input *input, int from);

/* More has come, by another way; no bytes: its end. */
void roami_input_take(struct roami_input *input, const void *data, size_t bytes);

/* Whether a descriptor may be read: not while another job of the terminal has it. */
bool roami_input_may_read(int from);

/* Reads what is there, up to `room`; 0: its end, -1: nothing for now. */
int roami_input_read(int from, void *data, size_t room);

/* A pipe for a node, which reads from *from_p. */
bool roami_input_pipe_open(struct roami_input_pipe *pipe, int *from_p);

/*
 * Gives each node what it has not had yet, as it takes it, and the end.  What all have had is kept
 * no longer.
 */
void roami_input_feed(struct roami_input *input, struct roami_input_pipe *pipes, unsigned nodes);

/* What to poll for writing: there is more for it; -1: nothing. */
int roami_input_hungry(const struct roami_input *input, const struct roami_input_pipe *pipe);

/* Whether to read more: when the fastest node has had all there is. */
bool roami_input_wanted(const struct roami_input *input, const struct roami_input_pipe *pipes,
			unsigned nodes);

/* What to poll: where it comes from, then each node's; `nodes` + 1. */
nfds_t roami_input_polls(const struct roami_input *input, const struct roami_input_pipe *pipes,
			 unsigned nodes, struct pollfd *polls);

/* `more`: reads what is there.  Then feeds all. */
void roami_input_copy(struct roami_input *input, struct roami_input_pipe *pipes, unsigned nodes,
		      bool more);

#endif
