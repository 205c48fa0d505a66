/*
 * ROAM_CHECK=scope: finds pages that a node reads after a lock has shown it what another node
 * wrote there outside of any section, which RC promises and ScC does not.  Homes and keepers note
 * the diffs whose pages were first written outside; a node whose load has fetched a page asks all
 * nodes.  Writes that a barrier, reduction or flag has shown since are right under ScC, too.  It
 * works on whole pages, under the protocols that declare checks_races.
 */
#ifndef ROAMI_OUTSIDE_H
#define ROAMI_OUTSIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/node.h"

struct roami_outside;

/* A bit of roami_race_page_code: the writes began outside of any section. */
#define ROAMI_OUTSIDE_CODE (UINT64_C(1) << 63)

enum roam_err roami_outside_init(struct roami_node *node);
void roami_outside_fini(struct roami_node *node);

static inline bool roami_outside_wanted(const struct roami_node *node)
{
	return __builtin_expect((node->options->check & ROAMI_CHECK_SCOPE) != 0, 0);
}

/* What this node has seen by now was shown by more than a lock. */
void roami_outside_shown(struct roami_node *node);

/* A diff of this interval has reached its home or keeper.  Under the page lock. */
void roami_outside_wrote(struct roami_node *node, uint32_t page, unsigned writer,
			 uint64_t interval, uint64_t code);

/* A load of the calling thread has fetched the page. */
void roami_outside_read_now(struct roami_node *node, uint32_t page);

static inline void roami_outside_read(struct roami_node *node, uint32_t page)
{
	if (roami_outside_wanted(node))
		roami_outside_read_now(node, page);
}

#define ROAMI_OUTSIDE_BYTES_MAX (2 * sizeof(uint64_t) + 2 * ROAMI_VCLOCK_BYTES_MAX)
void roami_outside_handle(struct roami_node *node, const struct roam_request *request);

#endif
