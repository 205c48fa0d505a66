/*
 * Operations of programs that are attached to this node on elements that live at others.  A thread
 * that waits for a call could not wait for its sockets, too: these are messages forth and back.
 */
#ifndef ROAMI_PAST_RELAY_H
#define ROAMI_PAST_RELAY_H

#include "pastset/job/server.h"

#define ROAMI_RELAY_SERIALS ((1u << 31) / ROAMI_AWAY_MAX) /* of operations; the last is one less */

/*
 * Sends an operation, with what goes with it; relay_outcome will hear of it.  Returns its id; 0:
 * ROAMI_AWAY_MAX are under way.
 */
uint32_t roami_relay_begin(struct roami_past *past, unsigned owner, const struct roami_ask *ask,
			 const void *tuple, size_t bytes, void *arg);

/* The operation must stop waiting; its outcome is delivered nevertheless. */
void roami_relay_cancel(struct roami_past *past, unsigned owner, uint32_t id);

/* ROAMI_ASK_BREAK. */
void roami_relay_break(struct roami_past *past, unsigned owner, uint32_t element);

/* Handlers. */
void roami_relay_run(struct roami_node *node, const struct roam_request *request,
		   void (*run)(struct roami_node *node, const struct roam_request *request));
void roami_relay_heard(struct roami_node *node, const struct roam_request *request);

/* The owner's answer to what roami_relay_run ran. */
void roami_relay_reply(struct roami_node *node, const struct roam_request *request,
		     const struct roam_part *parts);

#endif
