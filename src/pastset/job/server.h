/* What nodes ask of each other's kernels; the names of elements. */
#ifndef ROAMI_PAST_SERVER_H
#define ROAMI_PAST_SERVER_H

#include "pastset/kernel.h"

/* Message types, in the order of the table. */
enum {
	ROAMI_PAST_LOCATE, /* at which node is an element, or is it to be? */
	ROAMI_PAST_BIND,   /* of its owner: its number, made now if it is not there */
	ROAMI_PAST_OP,     /* struct roami_ask, then a tuple to move */
	ROAMI_PAST_RELE,   /* struct roami_let_go: a record is held no more */
	ROAMI_PAST_CANCEL, /* the call of the sender's with this id must not wait any longer */
	ROAMI_PAST_ALARM,  /* to oneself */
	ROAMI_PAST_RELAY, /* struct roami_relay_head, struct roami_ask, a tuple: see relay.c */
	ROAMI_PAST_RELAYED, /* struct roami_relay_head, struct roami_told, what follows it */
	ROAMI_PAST_PARTIAL, /* struct roami_partial_head, then a tuple: see partial.h */
	ROAMI_PAST_TYPES
};

extern const struct roami_room roami_past_room;

struct roami_relay_head {
	uint32_t id; /* of the operation's slot; 0: nobody waits for an answer */
	uint32_t spare;
};

struct roami_let_go {
	uint64_t record;
	uint32_t element;
	uint32_t spare;
};

/* The reply to an operation; then the tuple observed, or struct roam_ps_state. */
struct roami_told {
	uint32_t err;
	uint32_t bytes; /* of the tuple observed, or of that which was too long */
	uint64_t moved;
	uint64_t observed;
	uint64_t record; /* ROAMI_ASK_RECORD: held for who asked; ROAMI_ASK_RESERVE: his */
	uint32_t skipped;
	uint32_t spare;
};

static inline struct roami_told roami_told_of(const struct roami_op *op)
{
	return (struct roami_told){.err = (uint32_t)op->err,
				   .bytes = op->bytes,
				   .moved = op->moved,
				   .observed = op->observed,
				   .skipped = op->skipped};
}

/* ---- names.c: every node knows where the elements are whose names have their hash there */

enum roam_err roami_names_open(struct roami_past *past); /* past->lock is held */
void roami_names_close(struct roami_past *past);

/* The node that knows where an element is. */
unsigned roami_name_home(const struct roami_node *node, const char *name, size_t bytes);

/* Where a name's element lives: at `wanted` if it is new. */
struct roami_locate {
	uint32_t wanted;
	uint32_t name_bytes;
	/* then the name */
};

struct roami_located {
	uint32_t err;
	uint32_t owner;
};

void roami_name_locate(struct roami_past *past, const struct roami_locate *ask, const char *name,
		       struct roami_located *answer);

/* An element's name, cut to fit. */
void roami_name_of(struct roami_past *past, uint32_t element, char *name, size_t bytes);

struct roami_bind {
	uint64_t delta;
	uint64_t heap;       /* where its tuples' bytes go in the heap, if it is new, */
	uint64_t heap_bytes; /* and how many; 0: they stay with the element */
	char function[ROAM_PS_FUNCTION_MAX + 1]; /* "": none */
	uint32_t participants;
	uint32_t forget;
	uint32_t place; /* of a program that is attached: enum roam_ps_place, and */
	uint32_t node;  /* the node */
	uint32_t name_bytes;
	uint32_t template_bytes;
	/* then the name and the template's canonical text */
};

struct roami_ps_bound {
	uint32_t err;
	uint32_t element;
	uint32_t template_bytes; /* of the element's own, if that is another one */
	uint32_t paged;
	uint64_t heap;
	char function[ROAM_PS_FUNCTION_MAX + 1]; /* the element's own */
	uint32_t participants;
	uint32_t nodes; /* to a program that is attached, whose node is not there: so many are */
	char template_text[ROAM_PS_TEMPLATE_MAX + 1];
};

void roami_name_bind(struct roami_past *past, const struct roami_bind *ask, const char *texts,
		     struct roami_ps_bound *answer);

/*
 * locate.c: of the nodes that know.  Where an element lives, at `wanted` if it is new; node->nodes:
 * where its name says.  And its number there; the name and the template's text lie in `texts`, one
 * after the other.
 */
enum roam_err roami_past_locate(struct roami_node *node, const char *name, size_t bytes,
				unsigned wanted, uint32_t *owner_p);
void roami_past_bind(struct roami_node *node, unsigned owner, const struct roami_bind *ask,
		     const char *texts, struct roami_ps_bound *answer);

#endif
