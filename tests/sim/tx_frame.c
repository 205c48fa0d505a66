#include "tx_frame.h"

#include <stdlib.h>

void tx_must(struct world *world, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(world, "%s", roam_strerror(err));
}

uint64_t tx_load(struct roami_node *node, uint32_t page)
{
	uint64_t value;

	world_load(node, (uint64_t)page * ROAM_PAGE_SIZE, &value, sizeof(value));
	return value;
}

void tx_store(struct roami_node *node, uint32_t page, uint64_t value)
{
	world_store(node, (uint64_t)page * ROAM_PAGE_SIZE, &value, sizeof(value));
}

bool tx_world(const struct seed_options *options, struct world_config *config,
	      void (*spawn)(struct world *world, void *arg), void *arg)
{
	struct world *world;
	bool good;

	config->trace = options->trace;
	world = world_open(config);
	if (world == NULL)
		exit(EXIT_FAILURE);
	spawn(world, arg);
	good = seed_world(world, config);
	world_close(world);
	return good;
}

static bool tx_about(const struct roam_protocol *protocol)
{
	return protocol->transactions != NULL;
}

int tx_seeds(const struct seed_options *options,
	     bool (*one)(const struct seed_options *options, const struct roam_protocol *protocol,
			 uint64_t seed, void *arg))
{
	return seed_main_about(options, tx_about, one, seed_done, NULL);
}
