/*
 * Regions: the stretches of the heap that are under one protocol each, so that a page's protocol
 * follows from its number, at every node and at any time.  Region 0, the highest, has the job's
 * protocol; the others are for regions of other ones (roam_alloc_region), one below the other, so
 * that no address depends on how many there are.
 *
 * A thread that runs a protocol's function is in its region: calls of roam/protocol.h that name no
 * page act for it.  While a node has come across region 0 only, none of that costs anything.
 */
#ifndef ROAMI_REGION_H
#define ROAMI_REGION_H

#include "base/node.h"

/*
 * Starts the protocols of the node's regions.  One of a region that cannot run here leaves an error
 * in its region.
 */
enum roam_err roami_regions_init(struct roami_node *node);

/* The reverse, also after a failed init. */
void roami_regions_fini(struct roami_node *node);

/* What a protocol keeps of each of its pages. */
static inline size_t roami_page_state_bytes(const struct roami_node *node,
					    const struct roam_protocol *protocol)
{
	return protocol->page_size + node->nodes * protocol->page_node_size;
}

/* A node comes across a region of regions for the first time. */
void roami_region_begin(struct roami_node *node, struct roami_region *region);

/* The calling thread's. */
struct roami_region *roami_region_current(struct roami_node *node);

static inline struct roami_region *roami_region_of(struct roami_node *node, uint32_t page)
{
	return &node->regions[roami_layout_region(&node->layout, page)];
}

/* How writes of the page are noticed now. */
static inline enum roam_writes roami_writes_of(struct roami_node *node, uint32_t page)
{
	const struct roam_protocol *protocol = roami_region_of(node, page)->protocol;

	return protocol->writes_now == NULL ? protocol->writes : protocol->writes_now(node, page);
}

/* How homes are under the page's protocol; under the one that the calling thread runs. */
static inline enum roam_homes roami_homes_of(struct roami_node *node, uint32_t page)
{
	return roami_region_of(node, page)->protocol->homes;
}

static inline enum roam_homes roami_homes_here(struct roami_node *node)
{
	return roami_region_current(node)->protocol->homes;
}

/* Whether a writer may become the home of what it writes. */
static inline bool roami_homes_change(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_TAKEN || roami_homes_move(protocol);
}

static inline bool roami_regions_several(struct roami_node *node)
{
	return atomic_load_explicit(&node->several, memory_order_relaxed) != 0;
}

/* The calling thread runs functions of the region's protocol from now on; what leave takes. */
static inline unsigned roami_region_enter(struct roami_node *node, struct roami_region *region)
{
	unsigned *current, was;

	if (atomic_load_explicit(&region->active, memory_order_relaxed) == 0)
		roami_region_begin(node, region);
	if (!roami_regions_several(node))
		return 0;
	current = node->env->region(node);
	was = *current;
	*current = (unsigned)(region - node->regions);
	return was;
}

static inline void roami_region_leave(struct roami_node *node, unsigned was)
{
	if (roami_regions_several(node))
		*node->env->region(node) = was;
}

#endif
