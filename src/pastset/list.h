/*
 * What `roam past top` shows of the elements that live at a node: the answer to ROAMI_ASK_LIST, to
 * which a server adds what it knows of the programs attached to it.
 */
#ifndef ROAMI_PAST_LIST_H
#define ROAMI_PAST_LIST_H

#include "pastset/kernel.h"

struct roami_listed {
	uint32_t elements; /* of that node's in all; UINT32_MAX: it cannot be asked now */
	uint32_t count;    /* of them here */
	uint32_t guests;   /* programs attached */
	uint32_t nodes;    /* of the job */
	uint64_t refused; /* connections, since the start */
	uint64_t now_ns;  /* the server's clock */
};

struct roami_listing {
	struct roam_ps_state state;
	uint64_t moves, observes; /* of programs attached to the server, since the start */
	char name[ROAM_PS_NAME_MAX + 1];
	char function[ROAM_PS_FUNCTION_MAX + 1];
};

#define ROAMI_LISTINGS_MAX 64u /* in one answer */

struct roami_listings {
	struct roami_listed head;
	struct roami_listing entries[ROAMI_LISTINGS_MAX];
};

/*
 * Elements of this node from `first` on; moves and observes are 0, as is what the head says of the
 * server.  Returns the bytes that are used.
 */
size_t roami_list_fill(struct roami_past *past, uint32_t first, struct roami_listings *all);

#endif
