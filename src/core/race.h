/*
 * ROAM_CHECK=race: diffs of one byte by two nodes in intervals that nothing orders.  The home of a
 * page remembers, per byte, who changed it last and in which of its intervals; a diff comes with
 * its writer's clock.  Every diff then travels as a message, and homes make twins of their own
 * pages too: slower, and nothing else changes.
 */
#ifndef ROAMI_RACE_H
#define ROAMI_RACE_H

#include "core/node.h"

static inline bool roami_race_checked(const struct roami_node *node)
{
	return node->options->check == ROAMI_CHECK_RACE && node->protocol->checks_races;
}

enum roam_err roami_race_init(struct roami_node *node);
void roami_race_fini(struct roami_node *node);

/* An encoded, checked diff of `writer`'s interval after `clock` reaches this home.  Any thread. */
void roami_race_note(struct roami_node *node, uint32_t page, unsigned writer,
		     const struct roami_vclock *clock, const uint8_t *diff, size_t bytes);

/* The home's own writes to a page, as its twin shows them. */
void roami_race_note_home(struct roami_node *node, uint32_t page);

/* A block's name, for reports; `name` is copied. */
void roami_race_name(struct roami_node *node, uint32_t page, uint32_t pages, const char *name);

#endif
