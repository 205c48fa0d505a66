/* Requests of nodes to each other's kernels; the names of elements. */
#ifndef ROAMI_PAST_SERVER_H
#define ROAMI_PAST_SERVER_H

#include "pastset/job/partial.h"
#include "pastset/job/show.h"
#include "pastset/names.h"

#define ROAMI_AWAY_MAX 1024u

/* Message types, in the order of the table. */
enum {
	ROAMI_PAST_LOCATE, /* at which node is an element, or is it to be? */
	ROAMI_PAST_BIND,   /* of its owner: its number, made now if it is not there */
	ROAMI_PAST_OP,     /* struct roami_ask, then a tuple to move */
	ROAMI_PAST_RELE,   /* struct roami_let_go: a record is held no more */
	ROAMI_PAST_CANCEL, /* the call of the sender's with this id must not wait any longer */
	ROAMI_PAST_ALARM,  /* to oneself */
	ROAMI_PAST_RELAY, /* struct roami_relay_head, struct roami_ask, a tuple: see relay.c */
	ROAMI_PAST_RELAYED, /* struct roami_relay_head, struct roami_outcome, what follows it */
	ROAMI_PAST_PARTIAL, /* struct roami_partial_head, then a tuple: see partial.h */
	ROAMI_PAST_TYPES
};

extern const struct roami_room roami_past_room;

/* An operation of a program attached here that is under way at another node. */
struct roami_relay {
	uint32_t id; /* 0: free */
	void *arg;   /* for relay_outcome */
};

/* A node's share of PastSet: the state of the extension. */
struct roami_past_job {
	struct roami_past past; /* first: see roami_past_of */
	unsigned types;         /* of messages, the first one */
	_Atomic uint32_t away;  /* this node's operations that are under way at others */
	struct roami_takers takers;
	struct roami_show show;
	struct roami_spin relay_lock;
	uint32_t relay_serial;
	struct roami_relay relays[ROAMI_AWAY_MAX];
	/* Set by the part for attached programs: what became of a relay; relay_lock is held. */
	void (*relay_outcome)(void *arg, const struct roami_outcome *outcome, const void *rest,
			      size_t bytes);
	struct roami_serve *serve; /* where programs attach to this node; NULL: nowhere */
	void (*unserve)(struct roami_past *past); /* ends that; NULL: nothing ever began */
};

_Static_assert(offsetof(struct roami_past_job, past) == 0, "roami_past_job");

static inline struct roami_past_job *roami_past_job(struct roami_past *past)
{
	return (struct roami_past_job *)(void *)past;
}

/* The type of a message between nodes. */
static inline unsigned roami_past_type(struct roami_past *past, unsigned message)
{
	return roami_past_job(past)->types + message;
}

struct roami_relay_head {
	uint32_t id; /* of the operation's slot; 0: no answer is expected */
	uint32_t spare;
};

/* The answer to ROAMI_PAST_BIND. */
struct roami_bound_here {
	struct roami_ps_bound bound;
	struct roami_show_at at;
};

struct roami_let_go {
	uint64_t record;
	uint32_t element;
	uint32_t spare;
};

/*
 * locate.c: of the nodes that know.  Where an element lives, at `wanted` if it is new; node->nodes:
 * where its name says.  And its number there; the name and the template's text lie in `texts`, one
 * after the other.
 */
enum roam_err roami_past_locate(struct roami_node *node, const char *name, size_t bytes,
				unsigned wanted, uint32_t *owner_p);
void roami_past_bind(struct roami_node *node, unsigned owner, const struct roami_bind *ask,
		     const char *texts, struct roami_ps_bound *answer,
		     struct roami_show_at *at);

#endif
