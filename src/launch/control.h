/*
 * What a node of a job across hosts tells the agent that started it, and is told: frames over a
 * socket pair that keeps their bounds.  The agent passes them to and from the launcher
 * (launch/wire.h).
 */
#ifndef ROAMI_CONTROL_H
#define ROAMI_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/options.h"
#include "base/segment.h"
#include "job/start.h"
#include "roam/transport.h"

#define ROAMI_CARD_OPTIONS  80 /* options of a build at most */
#define ROAMI_FRAME_PAYLOAD 16384u

enum roami_frame_kind {
	ROAMI_FRAME_JOIN = 1, /* from a node that starts */
	ROAMI_FRAME_BOOT,     /* the answer: struct roami_boot */
	ROAMI_FRAME_CARD,     /* from a node that joins: struct roami_boot_card */
	ROAMI_FRAME_TABLE,    /* to all nodes, when all have joined: struct roami_boot_table */
	ROAMI_FRAME_FAIL,     /* from a node: why the job cannot go on, a line without an end */
	ROAMI_FRAME_WAITS,    /* from a node: struct roami_wait_group, of all; to it: say so */
	ROAMI_FRAME_DYING,    /* from a node: the thread that ends it, a uint32_t */
	ROAMI_FRAME_END,      /* from node 0, and to all: the job has ended in order */
	/* Between launcher and agents only. */
	ROAMI_FRAME_HELLO,  /* an agent's first; node: the number of its host; struct roami_hello */
	ROAMI_FRAME_ENV,    /* to it: NAME=VALUE */
	ROAMI_FRAME_ARG,    /* one argument of the program, which is the first */
	ROAMI_FRAME_START,  /* struct roami_boot_start: go */
	ROAMI_FRAME_EXIT,   /* from it: a node's wait status, and its pid: 2 int32_t */
	ROAMI_FRAME_SIGNAL, /* to it: pass on signal `node`; a uint32_t: SIGQUITs so far */
	ROAMI_FRAME_INPUT,  /* of the standard input; none: its end; from it: more is wanted */
	ROAMI_FRAME_QUIT,   /* end your nodes; node: nanoseconds are no more left to them if 0 */
	ROAMI_FRAME_KINDS
};

struct roami_frame {
	uint32_t kind;
	uint32_t node; /* that it is from, or for */
	uint32_t bytes;
	uint32_t spare;
	uint8_t payload[ROAMI_FRAME_PAYLOAD];
};

#define ROAMI_FRAME_HEAD offsetof(struct roami_frame, payload)

struct roami_hello {
	uint32_t aes; /* the host's CPU has it */
};

struct roami_boot_start {
	struct roami_boot boot; /* without `me`; `address` 0: the one that reaches the launcher */
	uint32_t tag;           /* mark lines of output */
	uint32_t share;         /* nodes of one host reach each other's memory */
	uint32_t gdb;           /* + 1: the node that runs under gdb; 0: none */
};

/* How a node comes: it must fit to the others. */
struct roami_boot_card {
	uint64_t program; /* hash of its file */
	uint64_t library; /* and of libroam's, if that is another */
	uint64_t load;    /* where they are loaded */
	uint64_t allocs;  /* alloc_hash; 0: to be checked later */
	uint32_t asked;   /* nodes that the program asks for; 0: any number; or unknown */
	uint32_t threads; /* registered */
	int32_t pid;
	uint32_t options_count;
	uint32_t
		options[ROAMI_CARD_OPTIONS]; /* hashes of their values, in the order of the table */
	uint8_t transport[ROAM_CARD_BYTES];
};

struct roami_boot_table {
	struct {
		uint8_t transport[ROAM_CARD_BYTES];
		uint32_t threads;
		uint32_t spare;
	} nodes[ROAMI_NODES_MAX];
};

_Static_assert(sizeof(struct roami_boot_table) <= ROAMI_FRAME_PAYLOAD, "a table is one frame");
_Static_assert(sizeof(struct roami_boot_start) <= ROAMI_FRAME_PAYLOAD, "a start is one frame");
_Static_assert(sizeof(struct roami_boot_card) <= ROAMI_FRAME_PAYLOAD, "a card is one frame");

/* This program and these options, for the launcher to compare. */
void roami_build_card(const struct roami_job *job, struct roami_boot_card *card);

/*
 * In what `node` does not fit to `first`, in words before "than node 0", and what to do about it;
 * NULL: it fits.
 */
#define ROAMI_DIFFERS_BYTES 100u
const char *roami_build_differs(const struct roami_boot_card *first,
				const struct roami_boot_card *node, char *what, size_t bytes);

/* One frame, from or to a socket pair; false: the other side is gone, or what came is malformed. */
bool roami_control_send(int fd, uint32_t kind, uint32_t node, const void *data, size_t bytes);
bool roami_control_receive(int fd, struct roami_frame *frame);

#endif
