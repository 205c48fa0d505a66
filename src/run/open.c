#include "run/open.h"

#include "base/region.h"
#include "msg/msg.h"

#define STATE_LINE 64u /* states begin at cache lines */

#define ROOM(number, variable) extern const struct roami_room roami_room_##variable;
#include "base/rooms.def"
#undef ROOM

static const struct roami_room *const node_rooms[ROAMI_ROOMS] = {
#define ROOM(number, variable) [ROAMI_ROOM_##number] = &roami_room_##variable,
#include "base/rooms.def"
#undef ROOM
};

static void node_identity(struct roami_node *node, const struct roami_node_params *params)
{
	node->me = params->me;
	node->nodes = params->nodes;
	node->options = params->options;
	node->env = params->env;
	node->env_state = params->env_state;
	node->layout = params->layout;
	node->app = params->app;
	node->fd = params->fd;
	node->host_names = params->host_names;
	node->protocol = params->protocol;
	for (unsigned peer = 0; peer < params->nodes; peer++)
		if (params->bases[peer] != NULL)
			roami_segment_point(&node->segments[peer], &params->layout,
					    params->bases[peer]);
		else
			node->segments[peer].ctl = &params->peers[peer]->ctl;
	node->self = &node->segments[params->me];
	node->stats = &node->self->ctl->stats;
}

/* False: not all nodes map each other's memory. */
static bool node_shares_heap(struct roami_node *node, const struct roami_node_params *params)
{
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		if (params->bases[peer] == NULL)
			return false;
		node->segments[peer].heap = node->segments[0].heap;
	}
	return true;
}

/* --------------------------------------------------------------------------------------- rooms */

static size_t room_bytes(const struct roami_room *room)
{
	return (room->state_size + STATE_LINE - 1) & ~(size_t)(STATE_LINE - 1);
}

static unsigned extensions_count(const struct roami_node_params *params)
{
	unsigned count = 0;

	while (params->extensions != NULL && params->extensions[count] != NULL)
		count++;
	return count;
}

/* The node, then the list of its extensions, then the states of all rooms. */
static size_t node_bytes(const struct roami_node_params *params, size_t *states_p)
{
	unsigned count = extensions_count(params);
	size_t bytes = sizeof(struct roami_node) + (count + 1) * sizeof(struct roami_open_room);

	bytes = (bytes + STATE_LINE - 1) & ~(size_t)(STATE_LINE - 1);
	*states_p = bytes;
	for (unsigned i = 0; i < ROAMI_ROOMS; i++)
		bytes += room_bytes(node_rooms[i]);
	for (unsigned i = 0; i < count; i++)
		bytes += room_bytes(params->extensions[i]);
	return bytes;
}

/* Opens a room whose state is at *at_p, behind which the next one's is. */
static enum roam_err room_open(struct roami_node *node, const struct roami_node_params *params,
			       const struct roami_room *room, struct roami_open_room *open,
			       uint8_t **at_p)
{
	enum roam_err err = ROAM_OK;

	open->room = room;
	open->state = *at_p;
	*at_p += room_bytes(room);
	if (room->messages != NULL)
		err = roami_msg_register(node, room->messages, ROAMI_REGION_NONE, &open->types);
	if (err == ROAM_OK && room->init != NULL)
		err = room->init(node, params);
	return err;
}

static void room_close(struct roami_node *node, struct roami_open_room *open)
{
	if (open->room != NULL && open->room->fini != NULL)
		open->room->fini(node);
	open->room = NULL;
}

/* -------------------------------------------------------------------------------------- opening */

enum roam_err roami_node_open(struct roami_node **node_p, const struct roami_node_params *params)
{
	unsigned count = extensions_count(params);
	size_t states, bytes = node_bytes(params, &states);
	struct roami_node *node = roami_os_reserve(bytes);
	enum roam_err err = ROAM_OK;
	uint8_t *at;

	if (node == NULL)
		return ROAM_ENOMEM;
	*node_p = node;
	node->bytes = bytes;
	node->extensions = (void *)(node + 1);
	at = (uint8_t *)node + states;
	node_identity(node, params);
	if (roami_one_heap(node) && !node_shares_heap(node, params))
		err = ROAM_EUNSUPPORTED;
	for (unsigned i = 0; i < ROAMI_ROOMS && err == ROAM_OK; i++)
		err = room_open(node, params, node_rooms[i], &node->rooms[i], &at);
	for (unsigned i = 0; i < count && err == ROAM_OK; i++)
		err = room_open(node, params, params->extensions[i], &node->extensions[i], &at);
	return err;
}

void roami_node_stop(struct roami_node *node)
{
	unsigned count = 0;

	while (node->extensions[count].room != NULL)
		count++;
	while (count-- > 0)
		if (node->extensions[count].room->stop != NULL)
			node->extensions[count].room->stop(node);
}

void roami_node_close(struct roami_node *node)
{
	unsigned count = 0;

	if (node == NULL)
		return;
	while (node->extensions[count].room != NULL)
		count++;
	while (count-- > 0)
		room_close(node, &node->extensions[count]);
	for (unsigned i = ROAMI_ROOMS; i-- > 0;)
		room_close(node, &node->rooms[i]);
	roami_os_unmap(node, node->bytes);
}

/* ----------------------------------------------------------------------------------- protocols */

/* The last room: the protocols of the regions, with their messages and functions. */
static enum roam_err protocols_init(struct roami_node *node,
				    const struct roami_node_params *params)
{
	enum roam_err err = ROAM_OK;

	(void)params;
	for (unsigned i = 0; i < node->region_count && err == ROAM_OK; i++) {
		struct roami_region *region = &node->regions[i];

		if (region->protocol != NULL && region->protocol->messages != NULL)
			err = roami_msg_register(node, region->protocol->messages, i,
						 &region->types);
	}
	return err == ROAM_OK ? roami_regions_init(node) : err;
}

const struct roami_room roami_room_protocols = {
	.name = "protocols",
	.init = protocols_init,
	.fini = roami_regions_fini,
};
