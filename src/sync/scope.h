/*
 * Scope consistency: the write notices that are kept with a lock (rules, section 5).  Its list
 * names the pages written in the lock's critical sections; it travels with the token.  Every node
 * that has held the token keeps the list as it was then.  Its next request says how far that list
 * goes, so that the grant brings only newer entries.  Entries that all nodes know from full
 * barriers are dropped.
 *
 * The pages that a section wrote are taken to be those of all of the node's intervals since the
 * acquire.  These include intervals of inner sections and of other threads: more than need be, but
 * never too little.
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

/* A critical section begins.  Called after the acquire, when the interval before is closed. */
void roami_scope_enter(struct roami_node *node, struct roami_scope *scope);

/* The section ends: appends the pages that it wrote to the list.  Called after the release. */
void roami_scope_leave(struct roami_node *node, struct roami_scope *scope);

/* Sends the list beyond `number`, in messages of `type`, ahead of a grant.  Any thread. */
void roami_scope_send(struct roami_node *node, unsigned to, unsigned type, uint64_t id,
		      const struct roami_scope *scope, uint64_t number);

/* Handler: adds the entries that the message has from `at` on. */
void roami_scope_learn(struct roami_node *node, struct roami_scope *scope,
		       const struct roam_request *request, size_t at);

/* Moves the entries that are not applied yet into apply_work.  app, in an interval. */
void roami_scope_collect(struct roami_node *node, struct roami_scope *scope);

#endif
