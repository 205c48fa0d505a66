#include "base/region.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

static size_t region_data_bytes(const struct roami_node *node, const struct roami_region *region)
{
	return (region->end - region->first) * roami_page_state_bytes(node, region->protocol) + 1;
}

uint8_t *roami_scratch(struct roami_node *node)
{
	const struct roami_region *region = roami_region_current(node);

	return roami_thread_buffer(node, 1 + (unsigned)(region - node->regions),
				   node->nodes * region->protocol->scratch_size);
}

static enum roam_err region_open(struct roami_node *node, struct roami_region *region)
{
	region->page_data = roami_os_reserve_sparse(region_data_bytes(node, region));
	region->state = calloc(1, region->protocol->node_size + 1);
	return region->page_data != NULL && region->state != NULL ? ROAM_OK : ROAM_ENOMEM;
}

/* The protocol starts, or ends, in its region. */
static void region_init(struct roami_node *node, struct roami_region *region)
{
	unsigned was;

	if (region->protocol == NULL)
		return;
	was = roami_region_enter(node, region);
	if (!roami_protocol_beside(node->protocol, region->protocol))
		region->err = ROAM_EUNSUPPORTED;
	else if (region->protocol->init != NULL)
		region->err = region->protocol->init(node);
	roami_region_leave(node, was);
}

static void region_fini(struct roami_node *node, struct roami_region *region)
{
	unsigned was = roami_region_enter(node, region);

	if (region->protocol->fini != NULL && region->state != NULL)
		region->protocol->fini(node);
	roami_region_leave(node, was);
}

/* From here to there the calling thread is alone, and what it enters is not yet in use. */
static void regions_alone(struct roami_node *node, bool begin)
{
	atomic_store(&node->several, begin);
	for (unsigned i = 0; i < node->region_count; i++)
		atomic_store(&node->regions[i].active, begin || i == 0);
}

static enum roam_err regions_open(struct roami_node *node, const struct roami_node_params *params)
{
	const struct roam_protocol *const *regions = params->regions;
	const struct roami_layout *layout = &node->layout;
	unsigned count = 1 + layout->regions;
	enum roam_err err = ROAM_OK;

	node->regions = calloc(count, sizeof(*node->regions));
	if (node->regions == NULL)
		return ROAM_ENOMEM;
	node->region_count = count;
	for (unsigned i = 0; i < count && err == ROAM_OK; i++) {
		struct roami_region *region = &node->regions[i];

		region->protocol = i == 0 ? node->protocol : regions[i - 1];
		if (region->protocol == NULL)
			continue;
		region->first = (uint32_t)(roami_layout_base(layout, i) / ROAMI_PAGE);
		region->end = (uint32_t)(roami_layout_bytes(layout, i) / ROAMI_PAGE);
		region->end += region->first;
		err = region_open(node, region);
	}
	return err;
}

enum roam_err roami_regions_init(struct roami_node *node)
{
	regions_alone(node, true);
	for (unsigned i = 0; i < node->region_count; i++)
		region_init(node, &node->regions[i]);
	regions_alone(node, false);
	return node->regions[0].err;
}

void roami_regions_fini(struct roami_node *node)
{
	regions_alone(node, true);
	for (unsigned i = 0; i < node->region_count; i++)
		if (node->regions[i].protocol != NULL)
			region_fini(node, &node->regions[i]);
}

static void regions_close(struct roami_node *node)
{
	for (unsigned i = 0; i < node->region_count; i++) {
		struct roami_region *region = &node->regions[i];

		if (region->protocol == NULL)
			continue;
		roami_os_unmap(region->page_data, region_data_bytes(node, region));
		if (region->memory != NULL)
			roami_os_unmap(region->memory, region->memory_bytes);
		roami_os_vec_free(&region->shared, sizeof(uint32_t));
		free(region->state);
	}
	free(node->regions);
}

const struct roami_room roami_room_regions = {
	.name = "regions",
	.init = regions_open,
	.fini = regions_close,
};

void roami_region_begin(struct roami_node *node, struct roami_region *region)
{
	if (region->err != ROAM_OK)
		roami_node_fail(node, "protocol %s cannot run here: %s", region->protocol->name,
				roam_strerror(region->err));
	atomic_store(&node->several, 1);
	atomic_store(&region->active, 1);
}

struct roami_region *roami_region_current(struct roami_node *node)
{
	return &node->regions[roami_regions_several(node) ? *node->env->region(node) : 0];
}

void *roami_memory_open(struct roami_node *node, size_t bytes)
{
	struct roami_region *region = roami_region_current(node);

	roami_assert(region->memory == NULL);
	region->memory = roami_os_reserve_sparse(bytes);
	region->memory_bytes = bytes;
	if (region->memory == NULL)
		roami_node_fail(node,
				"cannot map the %zu bytes of protocol %s (limit of address "
				"space, ulimit -v)",
				bytes, region->protocol->name);
	return region->memory;
}

void *roami_memory(struct roami_node *node)
{
	return roami_region_current(node)->memory;
}

void roami_memory_spoil(struct roami_node *node, void *at, size_t bytes)
{
	roami_spoil(node, ROAMI_SPOILT_MEMORY, at, bytes);
}

void roami_memory_lock(struct roami_node *node)
{
	roami_spin_lock(node, &roami_region_current(node)->memory_lock);
}

void roami_memory_unlock(struct roami_node *node)
{
	roami_spin_unlock(&roami_region_current(node)->memory_lock);
}

bool roami_page_ours(struct roami_node *node, uint32_t page)
{
	const struct roami_region *region = roami_region_current(node);

	return page >= region->first && page < region->end;
}

uint32_t roami_request_page(struct roami_node *node, const struct roam_request *request,
			    size_t bytes)
{
	uint32_t page = UINT32_MAX;

	if (request->bytes >= bytes)
		memcpy(&page, request->data, sizeof(page));
	if (!roami_page_ours(node, page))
		roami_node_fail(node, "node %u sent a malformed request about a page",
				request->from);
	return page;
}
