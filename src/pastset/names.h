/* The names of elements: every node knows where those live whose names have their hash there. */
#ifndef ROAMI_PAST_NAMES_H
#define ROAMI_PAST_NAMES_H

#include "pastset/kernel.h"

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

#endif
