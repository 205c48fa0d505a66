/* The page room's memory: the table of pages, the pool of twins, and the fault engine. */
#include <stdlib.h>

#include "base/region.h"
#include "msg/msg.h"
#include "page/page.h"

/* One twin more than there are pages, because index 0 means no twin.  A single node needs none. */
static size_t twins_bytes(const struct roami_node *node)
{
	return node->nodes == 1 ? ROAMI_PAGE : (node->layout.pages + 1) * ROAMI_PAGE;
}

static enum roam_err pages_init(struct roami_node *node, const struct roami_node_params *params)
{
	roami_assert(params->engine != NULL && node->layout.pages > 0);
	pages_of(node)->engine = params->engine;
	pages_of(node)->aliases = params->aliases;
	pages_of(node)->diff = roami_diff_choose(params->options->simd);
	if (pages_of(node)->diff == NULL)
		return ROAM_EUNSUPPORTED;
	node->table = roami_os_reserve_sparse(node->layout.pages * sizeof(*node->table));
	pages_of(node)->twins.pool = roami_os_reserve_sparse(twins_bytes(node));
	roami_msg_handled_by(node, roami_page_close_late);
	return node->table != NULL && pages_of(node)->twins.pool != NULL ? ROAM_OK : ROAM_ENOMEM;
}

static void pages_fini(struct roami_node *node)
{
	roami_os_vec_free(&pages_of(node)->dirty, sizeof(uint32_t));
	roami_os_vec_free(&pages_of(node)->cache, sizeof(uint32_t));
	roami_os_vec_free(&pages_of(node)->twins.free, sizeof(uint32_t));
	roami_os_unmap(node->table, node->layout.pages * sizeof(*node->table));
	roami_os_unmap(pages_of(node)->twins.pool, twins_bytes(node));
}

const struct roami_room roami_room_pages = {
	.name = "pages",
	.state_size = sizeof(struct roami_pages),
	.init = pages_init,
	.fini = pages_fini,
};

static enum roam_err engine_init(struct roami_node *node, const struct roami_node_params *params)
{
	struct roami_view view = {params->app, node->self->heap, params->layout.heap_bytes,
				  params->fd, params->layout.heap};
	bool aliased = params->aliases != NULL && params->aliases->count > 0 &&
		       params->engine != &roami_fault_plain;
	size_t bytes = params->engine->state_size;

	roami_assert(node->self != NULL && pages_of(node)->engine_state == NULL);
	if (aliased)
		bytes = roami_fault_alias_bytes(params->engine, params->aliases);
	pages_of(node)->engine_state = calloc(1, bytes + 1);
	if (pages_of(node)->engine_state == NULL)
		return ROAM_ENOMEM;
	if (aliased)
		pages_of(node)->engine = roami_fault_alias(params->engine, params->aliases,
							   pages_of(node)->engine_state);
	return pages_of(node)->engine->open(pages_of(node)->engine_state, &view, roami_fault_entry,
					    node);
}

static void engine_fini(struct roami_node *node)
{
	if (pages_of(node)->engine_state != NULL)
		pages_of(node)->engine->close(pages_of(node)->engine_state);
	free(pages_of(node)->engine_state);
}

const struct roami_room roami_room_engine = {
	.name = "engine",
	.init = engine_init,
	.fini = engine_fini,
};

bool roami_page_faults(const struct roami_node *node, const void *memory)
{
	const struct roami_aliases *aliases = pages_of(node)->aliases;
	const uint8_t *at = memory;

	for (unsigned i = 0; aliases != NULL && i < aliases->count; i++)
		if (at >= aliases->of[i].app &&
		    at < aliases->of[i].app + (size_t)aliases->of[i].count * ROAMI_PAGE)
			return true;
	return at >= node->app && at < node->app + node->layout.heap_bytes;
}

/* Includes a region's metadata of its pages among [first, end) in core files. */
static void region_dump(const struct roami_node *node, const struct roami_region *region,
			size_t first, size_t end)
{
	size_t each;

	roami_contract(first < end && end <= node->layout.pages);
	if (region->protocol == NULL)
		return;
	each = roami_page_state_bytes(node, region->protocol);
	if (first < region->first)
		first = region->first;
	if (end > region->end)
		end = region->end;
	if (first < end)
		roami_os_dump(region->page_data + (first - region->first) * each,
			      (end - first) * each);
}

void roami_page_dump(struct roami_node *node, uint32_t page)
{
	uint32_t part = page / ROAMI_DUMP_PAGES, bit = 1u << part % 32;
	size_t first = (size_t)part * ROAMI_DUMP_PAGES, count = ROAMI_DUMP_PAGES;

	roami_assert(page < node->layout.pages);
	if ((atomic_fetch_or(&pages_of(node)->dumped[part / 32], bit) & bit) != 0)
		return;
	if (count > node->layout.pages - first)
		count = node->layout.pages - first;
	roami_os_dump(node->table + first, count * sizeof(*node->table));
	for (unsigned i = 0; i < node->region_count; i++)
		region_dump(node, &node->regions[i], first, first + count);
}
