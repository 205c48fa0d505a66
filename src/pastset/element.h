/* Elements: what an operation does to one, and whether it can be done now. */
#ifndef ROAMI_ELEMENT_H
#define ROAMI_ELEMENT_H

#include "pastset/tuple.h"
#include "roam/pastset.h"

/* An operation as it travels. */
struct roami_ask {
	uint32_t element; /* of its owner's */
	uint8_t op;       /* enum roam_ps_op */
	uint8_t which;    /* enum roam_ps_which */
	uint8_t flags;
	uint8_t spare;
	uint64_t number;
	uint64_t timeout_ns;
	uint32_t limit;
	uint32_t from; /* mob: where it observes */
};

/* An operation under way at its element's owner. */
struct roami_op {
	struct roami_ask ask;
	uint64_t deadline;   /* 0: none */
	roami_record record; /* to move, reserved; then that observed, held; 0: none */
	enum roam_err err;
	uint32_t bytes; /* of the tuple observed, also if it was too long */
	bool skipped;
	uint64_t moved;
	uint64_t observed;
	struct roam_ps_state state;
};

struct roami_waiter;

struct roami_element {
	struct roami_spin lock;
	bool forget;
	uint64_t delta;
	struct roami_tuples tuples;
	struct roami_waiter *first_waiter, *last_waiter; /* in the order in which they came */
	uint32_t waiting;
};

void roami_element_init(struct roami_element *element, uint64_t delta, bool forget);

/* Room for a tuple to move; 0: there is none.  The lock is held. */
roami_record roami_element_reserve(struct roami_node *node, struct roami_past_pool *pool,
				   struct roami_element *element, uint32_t bytes);

/*
 * Does the operation, or, of a mob, the half that is due, if it can be done now: then the outcome
 * is in it.  false: it has to wait; nothing has changed.  The lock is held.
 */
bool roami_element_try(struct roami_node *node, struct roami_past_pool *pool,
		       struct roami_element *element, struct roami_op *op);

#endif
