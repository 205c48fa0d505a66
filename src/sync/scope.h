/*
 * Scope consistency: the write notices that are kept with a lock (rules, section 5).  Its list
 * names the pages written in the lock's critical sections; it travels with the token.  Every node
 * that held the token keeps the list as it was then, and says in its next request how far that
 * goes, so that a grant brings only what came since.  What all nodes know from full barriers is
 * forgotten.
 *
 * What a section wrote is what the node's intervals since the acquire did: those of inner sections
 * too, and of other threads, which is more than need be but never too little.
 */
#ifndef ROAMI_SCOPE_H
#define ROAMI_SCOPE_H

#include "base/node.h"

/* A lock's list at a node; of the lock's holder, else under the lock's spin. */
struct roami_scope {
	struct roami_vec notices; /* struct roami_scope_notice, ascending by number */
	size_t compacted;         /* their count after the last compaction */
	uint64_t number;          /* of the newest */
	uint64_t applied;         /* up to here this node's stale copies are gone */
	uint64_t since;           /* own intervals beyond it are the section's */
};

void roami_scope_fini(struct roami_scope *scope);

/* A critical section begins; after the interval before it was closed, and the acquire. */
void roami_scope_enter(struct roami_node *node, struct roami_scope *scope);

/* The section ends, after its release: appends to the list what it wrote. */
void roami_scope_leave(struct roami_node *node, struct roami_scope *scope);

/* Sends the list beyond `number`, in messages of `type`, ahead of a grant.  Any thread. */
void roami_scope_send(struct roami_node *node, unsigned to, unsigned type, uint64_t id,
		      const struct roami_scope *scope, uint64_t number);

/* Handler: adds what came, from `at` on in the message. */
void roami_scope_learn(struct roami_node *node, struct roami_scope *scope,
		       const struct roam_request *request, size_t at);

/* Moves what is not applied into apply_work.  app, in an interval. */
void roami_scope_collect(struct roami_node *node, struct roami_scope *scope);

#endif
