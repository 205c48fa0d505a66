/* Bindings to elements: what a program has in its hands.  Operations go where the element lives. */
#ifndef ROAMI_PAST_CLIENT_H
#define ROAMI_PAST_CLIENT_H

#include "core/node.h"
#include "pastset/template.h"

struct roam_ps_element {
	/* The one way to the element: what stands in front of it replaces this. */
	enum roam_err (*call)(struct roam_ps_element *element, struct roam_ps_request *request);
	struct roami_node *node;
	uint64_t round; /* of the job; for src/api */
	uint32_t owner;
	uint32_t element; /* of the owner's */
	struct roami_template template;
};

/* `why`, of why_bytes: more about an error. */
enum roam_err roami_past_enter(struct roami_node *node, const char *name, const char *template_text,
			       const struct roam_ps_options *options,
			       struct roam_ps_element **element_p, char *why, size_t why_bytes);

#endif
