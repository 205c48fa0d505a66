/*
 * What boot/hang.c asks and tells between nodes that map nothing of each other: whether anybody but
 * threads that wait could do anything at a node, and what those wait for.  These messages are no
 * part of what they count.
 */
#ifndef ROAMI_PROBE_H
#define ROAMI_PROBE_H

#include "core/node.h"

/*
 * Asks `to`, whose answer comes to its copy of the control page here, with `token` as its `probe`
 * then; or, with token 0, makes node 0 say what all wait for.
 */
void roami_probe_ask(struct roami_node *node, unsigned to, uint32_t token);

/* Answers: what the own control page says now. */
void roami_probe_tell(struct roami_node *node, unsigned to, uint32_t token);

/* Messages sent and received without these.  By the thread that asks and tells, under poll_lock. */
void roami_probe_count(struct roami_node *node, uint64_t *sent_p, uint64_t *received_p);

/* Nothing is known of what a node waits for, whose answer came here. */
void roami_probe_forget(struct roami_ctl *far);

void roami_probe_handle_ask(struct roami_node *node, const struct roam_request *request);
void roami_probe_handle_tell(struct roami_node *node, const struct roam_request *request);

#endif
