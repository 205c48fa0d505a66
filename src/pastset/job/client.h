/* Bindings to elements: what a program has in its hands.  Operations go where the element lives. */
#ifndef ROAMI_PAST_CLIENT_H
#define ROAMI_PAST_CLIENT_H

#include "base/node.h"
#include "pastset/element.h"
#include "pastset/template.h"

/*
 * What a participant asked whom the server may have heard of, and who had no time to wait for the
 * answer: he asks for the same again, by the same number, so that it is done once.  The server's
 * lock is held.
 */
struct roami_unsure {
	struct roami_unsure *next; /* of the server's */
	uint64_t number;           /* 0: nothing */
	uint8_t op;
};

struct roam_ps_element {
	/* The one way to the element: what stands in front of it replaces this. */
	enum roam_err (*call)(struct roam_ps_element *element, struct roam_ps_request *request);
	struct roami_node *node;
	struct roam_ps_server *server; /* where the program is attached, instead of a node */
	uint64_t round; /* of the job; for src/api */
	uint32_t owner;
	uint32_t element; /* of the owner's */
	bool paged;       /* its tuples' bytes are in the heap, from `heap` on */
	uint64_t heap;
	bool rounds; /* it has an X-function, of which this binding is a participant */
	uint64_t rounds_moved, rounds_observed;
	const struct roami_function *function; /* by which the program can combine itself, */
	struct roami_taker *taker;             /* with what comes there; NULL: nothing does */
	struct roami_unsure unsure; /* of a participant, at a server */
	struct roami_template template;
	uint32_t participants;             /* of its X-function */
	uint64_t label[ROAMI_LABEL_WORDS]; /* its name, as far as there is room */
};

/*
 * `heap`: an offset, of options->memory bytes, for a new element whose storage is ROAM_PS_PAGES.
 * `why`, of why_bytes: more about an error.
 */
enum roam_err roami_past_enter(struct roami_node *node, const char *name, const char *template_text,
			       const struct roam_ps_options *options, uint64_t heap,
			       struct roam_ps_element **element_p, char *why, size_t why_bytes);

/* The same at a server that the program is attached to. */
enum roam_err roami_past_enter_at(struct roam_ps_server *server, const char *name,
				  const char *template_text, const struct roam_ps_options *options,
				  struct roam_ps_element **element_p, char *why, size_t why_bytes);

/*
 * Has an operation done at the element's owner.  `ask` begins it.  *record: of a tuple in the heap,
 * to be moved, or that was reserved or observed; NULL: the bytes travel.
 */
enum roam_err roami_client_ask(struct roam_ps_element *element, const struct roami_ask *ask,
			       struct roam_ps_request *request, roami_record *record);

/*
 * For reports: what the calling thread waits for, and whether that can end without the threads of
 * the job.  By who waits at a node; for waits at servers, which know no node, by who calls.
 */
void roami_client_waits(struct roami_node *node, const struct roam_ps_element *element,
			const struct roam_ps_request *request);

/* The beginning of a request. */
struct roami_ask roami_client_begin(const struct roam_ps_element *element,
				    const struct roam_ps_request *request);

/* Takes over what is known of the outcome but the tuple. */
struct roami_told;
enum roam_err roami_client_outcome(struct roam_ps_request *request, const struct roami_told *told);

/* ---- pages.c: elements whose tuples lie in the heap */

/* Moves and observes. */
enum roam_err roami_pages_do(struct roam_ps_element *element, struct roam_ps_request *request);

#endif
