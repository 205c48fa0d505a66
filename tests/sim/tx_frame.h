/* What the tests of transactions in worlds share: their words, and how a seed's world is run. */
#ifndef ROAM_TESTS_TX_FRAME_H
#define ROAM_TESTS_TX_FRAME_H

#include "seed_options.h"
#include "sync/sync.h"
#include "sync/tx.h"
#include "world.h"

/* The world fails unless `err` is ROAM_OK. */
void tx_must(struct world *world, enum roam_err err);

/* The first word of a page. */
uint64_t tx_load(struct roami_node *node, uint32_t page);
void tx_store(struct roami_node *node, uint32_t page, uint64_t value);

/* Runs the world of `config`, with the threads that `spawn` adds to it; whether it is good. */
bool tx_world(const struct seed_options *options, struct world_config *config,
	      void (*spawn)(struct world *world, void *arg), void *arg);

/* seed_main_about, for the protocols that have transactions. */
int tx_seeds(const struct seed_options *options,
	     bool (*one)(const struct seed_options *options, const struct roam_protocol *protocol,
			 uint64_t seed, void *arg));

#endif
