/* The extension: its messages and its life. */
#include <string.h>

#include "dp/dp.h"

static const char dp_name[] = "dp";

struct roami_dp_node *roami_dp_of(struct roami_node *node)
{
	return roami_extension(node, dp_name)->state;
}

uint64_t roami_dp_until(struct roami_node *node, uint64_t timeout_ns)
{
	uint64_t now;

	if (timeout_ns == 0)
		return ROAMI_FOREVER;
	now = node->env->now(node);
	return timeout_ns == ROAM_DP_TRY ? now : roami_dp_after(now, timeout_ns);
}

void roami_dp_await(struct roami_node *node, uint64_t what, uint64_t until,
		    bool (*condition)(void *arg), void *arg)
{
	if (condition(arg))
		return;
	roami_wait_begin(node);
	roami_node_waits(node, ROAMI_WAITS_DP, what,
			 until == ROAMI_FOREVER ? 0 : ROAMI_WAITS_ENDS);
	if (until != ROAMI_FOREVER)
		roami_wait_until(node, until);
	roami_wait(node, condition, arg);
	if (until != ROAMI_FOREVER)
		roami_wait_until(node, ROAMI_FOREVER);
	roami_node_waits_no_more(node);
	roami_wait_end(node);
}

static enum roam_err dp_init(struct roami_node *node, const struct roami_node_params *params)
{
	(void)params;
	roami_dp_of(node)->types = roami_extension(node, dp_name)->types;
	return ROAM_OK;
}

/*
 * Calls under way may need the other nodes, which still serve.  No call opens or closes an endpoint
 * now (include/roam/dp.h); in a forked process the list's lock may be held for ever.
 */
static void dp_stop(struct roami_node *node)
{
	struct roami_dp_node *all = roami_dp_of(node);

	for (unsigned i = 0; i < ROAM_DP_OPEN_MAX; i++)
		if (all->open[i] != NULL)
			roami_dp_end(all->open[i]);
}

static void dp_fini(struct roami_node *node)
{
	struct roami_dp_node *all = roami_dp_of(node);

	for (unsigned i = 0; i < ROAM_DP_OPEN_MAX; i++)
		if (all->open[i] != NULL)
			roami_dp_forget(all->open[i]);
	memset(all->open, 0, sizeof(all->open));
	if (all->links != NULL)
		roami_os_unmap(all->links, ROAMI_DP_LINKS_BYTES);
	all->links = NULL;
}

static const struct roam_message dp_messages[] = {
	[ROAMI_DP_FIND] = {"dp find", roami_dp_find_handle, sizeof(uint32_t)},
	[ROAMI_DP_FOUND] = {"dp found", roami_dp_found_handle, sizeof(struct roami_dp_status)},
	[ROAMI_DP_PART] = {"dp part", roami_dp_part_handle, ROAMI_MSG_MAX},
	[ROAMI_DP_ROOM] = {"dp room", roami_dp_room_handle, sizeof(struct roami_dp_status)},
	[ROAMI_DP_GONE] = {"dp gone", roami_dp_gone_handle, sizeof(struct roami_dp_status)},
	[ROAMI_DP_TYPES] = {NULL, NULL, 0},
};

const struct roami_room roami_dp_extension = {
	.name = dp_name,
	.messages = dp_messages,
	.state_size = sizeof(struct roami_dp_node),
	.init = dp_init,
	.stop = dp_stop,
	.fini = dp_fini,
};
