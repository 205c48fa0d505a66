/*
 * Rooms of a node: parts of the library with messages, state, or both of their own.  A node has
 * those of base/rooms.def, and any number of extensions that come with its parameters
 * (struct roami_node_params).  They open in this order and close in the reverse, so a room may use
 * what stands before it.  Each is one constant: nothing else lists its messages or its state.
 */
#ifndef ROAMI_ROOM_H
#define ROAMI_ROOM_H

#include <stddef.h>

#include "roam/protocol.h"

struct roami_node_params;

struct roami_room {
	const char *name; /* also what an extension is found by: the pointer, not its text */
	const struct roam_message *messages; /* ends with a NULL name; NULL: it has none */
	size_t state_size; /* zeroed, there before init and until fini has returned; 0: none */
	enum roam_err (*init)(struct roami_node *node, const struct roami_node_params *params);
	/* The job's nodes have all returned, and still answer: ends what works without them. */
	void (*stop)(struct roami_node *node);
	void (*fini)(struct roami_node *node); /* also after a failed init of its own */
};

/* A room as a node has it open. */
struct roami_open_room {
	void *state;
	unsigned types;                /* the type of its first message */
	const struct roami_room *room; /* NULL: it is not open */
};

enum roami_room_number {
#define ROOM(number, variable) ROAMI_ROOM_##number,
#include "base/rooms.def"
#undef ROOM
	ROAMI_ROOMS
};

#endif
