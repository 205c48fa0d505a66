/* Elements: what an operation does to one, and whether it can be done now. */
#ifndef ROAMI_ELEMENT_H
#define ROAMI_ELEMENT_H

#include "pastset/tuple.h"
#include "pastset/xfunc.h"
#include "roam/pastset.h"

/* In ask.flags, beside ROAM_PS_PEEK and ROAM_PS_SKIP: the tuple's bytes stay in the heap. */
#define ROAMI_ASK_RECORD 0x80u

/* In ask.flags: an X-function's participant observes the result of a round. */
#define ROAMI_ASK_ROUND 0x40u

/* In ask.flags: a mob of a round; it is answered unless its partial was given to that node. */
#define ROAMI_ASK_PARTIAL 0x20u

/* In ask.op, beside enum roam_ps_op: room in the heap for a tuple of `number` bytes. */
#define ROAMI_ASK_RESERVE 0x80u

/* In ask.op: a participant of the element's X-function is gone, so its rounds never end. */
#define ROAMI_ASK_BREAK 0x81u

/* In ask.op, to another node: its elements from `element` on, struct roami_listings. */
#define ROAMI_ASK_LIST 0x82u

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

/* Whether a tuple goes with it: to move, or a pattern. */
static inline bool roami_ask_carries(const struct roami_ask *ask)
{
	return ask->op == ROAM_PS_MOVE || ask->op == ROAM_PS_MOB ||
	       (ask->op == ROAM_PS_OBSERVE && ask->which == ROAM_PS_MATCH);
}

#define ROAMI_PARTIAL_MAX 256u /* bytes */

/* The part of a round that the partner gets before it asks, see pastset/job/partial.h. */
struct roami_partial {
	uint64_t round;   /* 0: there is none */
	uint32_t partner; /* the node + 1 */
	uint32_t bytes;
	uint8_t tuple[ROAMI_PARTIAL_MAX];
};

/* A round of an X-function that not all participants have moved to. */
struct roami_round {
	roami_record record; /* the sum so far */
	uint32_t count;      /* of participants that have moved */
	uint32_t first;      /* the first of them, as roami_op.node; 0 also: it takes no partials */
};

/* An operation under way at its element's owner. */
struct roami_op {
	struct roami_ask ask;
	/* Called, on any thread, once it is done after it had to wait; NULL: see roami_past_run. */
	void (*served)(void *arg, const struct roami_op *op);
	void *arg;
	uint32_t node;    /* + 1: that of the thread that asks; 0: of a program that is attached */
	bool lax;         /* it may find what was there before the partner used a partial */
	bool known;       /* it was told the outcome by a partial: no answer */
	struct roami_partial *partial; /* room for what to give the partner; NULL: nothing is */
	uint64_t id; /* with `served`: ROAMI_GUEST_ID and a number, to cancel it by */
	uint64_t deadline;   /* 0: none */
	roami_record record; /* to move, a pattern: reserved; then that observed, held; 0: none */
	const void *brought; /* what is yet to be put there, see roami_past_bring */
	uint32_t brought_bytes;
	uint64_t looked;     /* for a pattern: tuples up to this number are not like it or tagged */
	enum roam_err err;
	uint32_t bytes; /* of the tuple observed, also if it was too long */
	bool skipped;
	uint64_t moved;
	uint64_t observed;
	struct roam_ps_state state;
};

struct roami_past_waiter;

/* A record whose place another node was told: reserved for it to move, or observed, and held. */
struct roami_lent {
	roami_record record;
	uint32_t node;
	uint32_t reserved;
};

struct roami_element {
	struct roami_spin lock;
	uint32_t name; /* index of its own, see names.c */
	bool forget;
	bool broken; /* operations fail, ROAM_ELOST, once nothing is given any more */
	bool paged; /* of `own`, the places stand for places in the heap, where the bytes are */
	uint64_t heap;
	struct roami_past_buddy own;
	struct roami_vec lent; /* struct roami_lent, of a paged one; in no order */
	struct roami_past_buddy *buddy; /* of its records: that of all, or its own */
	uint64_t delta;
	struct roami_tuples tuples;
	const struct roami_function *function; /* NULL: none */
	const struct roami_template *template; /* with a function */
	bool matches;          /* tuples may be observed by a pattern */
	bool packs;            /* tuples are compressed */
	uint32_t participants; /* in a reduction; 0: it is none */
	uint32_t partner;      /* the node + 1 that takes partials; 0: none */
	uint64_t given;        /* the round whose partial it may use, unknown to us; 0: none */
	bool recalled;         /* that one */
	struct roami_round rounds[ROAMI_ROUNDS_MAX];     /* by number, in a ring */
	struct roami_past_waiter *first_waiter, *last_waiter; /* in the order in which they came */
	uint32_t waiting;
};

void roami_element_init(struct roami_element *element, struct roami_past_buddy *buddy,
			uint64_t delta, bool forget);

/* Room for a tuple to move; 0: there is none.  The lock is held. */
roami_record roami_element_reserve(struct roami_node *node, struct roami_element *element,
				   uint32_t bytes);

/*
 * Does the operation, or, of a mob, the half that is due, if it can be done now: then the outcome
 * is in it.  false: it has to wait; nothing has changed.  The lock is held.
 */
bool roami_element_try(struct roami_node *node, struct roami_element *element, struct roami_op *op);

/*
 * Whether the operation must wait until it is known if the partner has used its partial.  The lock
 * is held.
 */
bool roami_element_unsure(const struct roami_element *element, const struct roami_op *op);

/* Whether it is the partner's move to the round whose partial was given: it can be done. */
static inline bool roami_element_expects(const struct roami_element *element,
					 const struct roami_op *op)
{
	return element->given != 0 && op->node == element->partner &&
	       op->ask.number == element->given &&
	       (op->ask.op == ROAM_PS_MOVE || op->ask.op == ROAM_PS_MOB);
}

#endif
