/*
 * Bindings to elements: what a program has in its hands.  A binding's *route* says how operations
 * reach the element, and the node or server where it lives.
 */
#ifndef ROAMI_PAST_CLIENT_H
#define ROAMI_PAST_CLIENT_H

#include "base/node.h"
#include "pastset/element.h"
#include "pastset/job/show.h"
#include "pastset/names.h"
#include "pastset/template.h"

/*
 * One way to an element, chosen when the binding is made: here.c (at this node), away.c (at another
 * node), pages.c (tuples in the heap), pastset/attached/route.c (at a server).
 */
struct roami_ps_route {
	/* Does an operation: the first value of the binding's `call`. */
	enum roam_err (*call)(struct roam_ps_element *element, struct roam_ps_request *request);
	/* Frees the binding. */
	void (*leave)(struct roam_ps_element *element);
	/* Reads the clock that timeouts are counted by. */
	uint64_t (*now)(const struct roam_ps_element *element);

	/*
	 * For an element with tuples in pages, of the route to its owner; NULL: of no such route.
	 * `record` does one part of an operation, and *record goes with it or comes back in place
	 * of a tuple; `rele` lets go of a record.  `begin` precedes all parts of an operation, also
	 * if it returns false because too many are under way, and `end` follows them.
	 */
	enum roam_err (*record)(struct roam_ps_element *element, const struct roami_ask *ask,
				struct roam_ps_request *request, roami_record *record);
	void (*rele)(struct roam_ps_element *element, roami_record record);
	bool (*begin)(struct roam_ps_element *element);
	void (*end)(struct roam_ps_element *element);
};

extern const struct roami_ps_route roami_route_here, roami_route_away, roami_route_pages;

/*
 * An operation of an X-function's participant that a server may have received, while the thread had
 * no time left to wait for the answer: the participant repeats it by its number, so that it is done
 * once.  The server's lock is held.
 */
struct roami_unsure {
	struct roami_unsure *next; /* of the server's */
	uint64_t number;           /* 0: nothing */
	uint8_t op;
};

#define ROAMI_NO_HEAP UINT64_MAX

struct roam_ps_element {
	/* The one way to the element: what stands in front of it replaces this. */
	enum roam_err (*call)(struct roam_ps_element *element, struct roam_ps_request *request);
	const struct roami_ps_route *route;
	const struct roami_ps_route *owner_route; /* with tuples in pages: the way to the owner */
	struct roami_node *node;
	struct roami_past *past; /* the node's */
	struct roam_ps_server *server; /* where the program is attached, instead of a node */
	uint64_t round;                /* of the job; for src/api */
	uint32_t owner;
	uint32_t element;      /* of the owner's */
	uint64_t heap;         /* where its tuples lie in the heap; ROAMI_NO_HEAP: not there */
	bool rounds;           /* it has an X-function, of which this binding is a participant */
	uint32_t participants; /* of its X-function */
	uint32_t shows; /* ROAMI_TUPLE_..., for reports on threads that wait for this element */
	uint64_t rounds_moved, rounds_observed;
	const struct roami_function *function; /* by which the program can combine itself, */
	struct roami_taker *taker;             /* with what comes there; NULL: nothing does */
	struct roami_show_at at; /* where a program in the kernel shows it */
	_Atomic uint32_t missed; /* answers of that which did not come, one after the other */
	struct roami_unsure unsure;            /* of a participant, at a server */
	struct roami_template template;
	uint64_t label[ROAMI_LABEL_WORDS]; /* its name, as far as there is room */
};

/* ---- enter.c */

/*
 * Makes a binding.  `heap`: an offset, of options->memory bytes, for a new element whose storage is
 * ROAM_PS_PAGES.  `why`, of why_bytes: more about an error.
 */
enum roam_err roami_past_enter(struct roami_node *node, const char *name, const char *template_text,
			       const struct roam_ps_options *options, uint64_t heap,
			       struct roam_ps_element **element_p, char *why, size_t why_bytes);

/* An element that is being entered, at a node or a server. */
struct roami_enter {
	struct roam_ps_element *element;
	const struct roam_ps_options *options;
	char *why;
	size_t why_bytes;
	struct roami_bind ask;
	struct roami_ps_bound answer;
	char texts[2 * ROAM_PS_TEMPLATE_MAX + 2]; /* the name, then the template's text */
};

/*
 * Makes the binding and the request to the owner.  roami_enter_end must follow, also after an
 * error.
 */
enum roam_err roami_enter_begin(struct roami_enter *enter, const char *name,
				const char *template_text, const struct roam_ps_options *options);

/* Takes over the owner's answer; `where` names the owner in enter->why. */
enum roam_err roami_enter_bound(struct roami_enter *enter, const char *where);

/* Gives the binding, which has a route by now, to the program; frees it if there was an error. */
enum roam_err roami_enter_end(struct roami_enter *enter, enum roam_err err,
			      struct roam_ps_element **element_p);

/* ---- client.c: what all routes have in common */

/* Refuses a request that makes no sense, whatever the element holds; else clears its results. */
enum roam_err roami_client_check(const struct roam_ps_element *element,
				 struct roam_ps_request *request);

/* Does a mob as a move and an observe, which share its timeout. */
enum roam_err roami_client_apart(struct roam_ps_element *element, struct roam_ps_request *request);

/* The request to an element's owner. */
struct roami_ask roami_client_make(const struct roam_ps_element *element,
				   const struct roam_ps_request *request);

/*
 * Begins an operation that is one part.  false: it is over, and *err_p the outcome, because it was
 * refused, or was a mob that had to be done as two operations.
 */
bool roami_client_begin(struct roam_ps_element *element, struct roam_ps_request *request,
			struct roami_ask *ask, enum roam_err *err_p);

/* Takes over what is known of the outcome but the tuple. */
enum roam_err roami_client_outcome(struct roam_ps_request *request,
				   const struct roami_outcome *outcome);

/* For reports: what a thread waits for, and whether that can end without the job's threads. */
void roami_client_waits(struct roami_node *node, const struct roam_ps_element *element,
			const struct roam_ps_request *request);

/* `leave` and `now` of the routes of a job. */
void roami_client_leave(struct roam_ps_element *element);
uint64_t roami_client_now(const struct roam_ps_element *element);

static inline bool roami_client_moves(const struct roam_ps_request *request)
{
	return request->op == ROAM_PS_MOVE || request->op == ROAM_PS_MOB;
}

/* An X-function's participant observes the next result. */
static inline bool roami_client_turn(const struct roam_ps_request *request)
{
	return (request->op == ROAM_PS_OBSERVE || request->op == ROAM_PS_MOB) &&
	       request->which == ROAM_PS_FIFO && (request->flags & ROAM_PS_PEEK) == 0;
}

/* Ends what roami_client_begin has begun. */
static inline void roami_client_end(struct roam_ps_element *element,
				    const struct roam_ps_request *request)
{
	if (!element->rounds)
		return;
	element->rounds_moved += request->moved != 0;
	element->rounds_observed += request->observed != 0 && roami_client_turn(request);
}

static inline bool roami_client_cancelled(const struct roam_ps_cancel *cancel)
{
	return cancel != NULL && __atomic_load_n(&cancel->cancelled, __ATOMIC_SEQ_CST) != 0;
}

#endif
