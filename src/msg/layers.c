#include "msg/layers.h"

#include <stdlib.h>
#include <string.h>

#include "msg/mixed.h"
#include "msg/reliable.h"
#include "msg/seal.h"

#define DEADLINE_S 5u
#define NS_PER_S   1000000000u

extern const struct roam_transport roami_transport_faulty;

static uint64_t layer_now(void *arg)
{
	struct roami_node *node = arg;

	return node->env->now(node);
}

static void layer_rouse(void *arg, unsigned peer)
{
	struct roami_node *node = arg;

	node->env->ring(node, peer);
}

static void layer_stranger(void *arg)
{
	struct roami_node *node = arg;

	ROAMI_COUNT(node->stats, datagrams_strange, 1);
}

__attribute__((noreturn)) static void layer_lost(void *arg, unsigned peer, uint64_t silent_ns)
{
	struct roami_node *node = arg;
	const char *on = "", *host = "";

	if (node->host_names != NULL) {
		on = " on ";
		host = node->host_names[peer];
	}
	node->lost = peer + 1;
	roami_node_fail(node, "node %u%s%s has been silent for %.1f s, longer than ROAM_DEADLINE",
			peer, on, host, (double)silent_ns / 1e9);
}

/* How long a peer may be silent; 0: for ever. */
static uint64_t layers_deadline(const struct roami_node_params *params)
{
	uint64_t seconds = params->options->deadline;

	if (params->traced)
		return 0;
	if (seconds == 0 && params->hosts > 1)
		seconds = DEADLINE_S;
	return seconds * NS_PER_S;
}

/* Whether datagrams are sealed, and how.  An error: they should be, and there is no key. */
static enum roam_err layers_seal(const struct roami_node_params *params,
				 struct roami_seal_params *seal)
{
	unsigned wanted = params->options->seal;

	if (wanted == ROAMI_SEAL_AUTO)
		wanted = params->hosts > 1 ? ROAMI_SEAL_AUTH : ROAMI_SEAL_OFF;
	if (wanted == ROAMI_SEAL_OFF)
		return ROAM_OK;
	if (params->key == NULL)
		return ROAM_EINVAL;
	*seal = (struct roami_seal_params){
		.key = params->key,
		.boot = params->boot,
		.encrypt = wanted == ROAMI_SEAL_ENCRYPT,
		.no_aes = params->hosts > 1 && !params->aes};
	return ROAM_OK;
}

/* One more layer over what is there. */
static enum roam_err layer_open(struct roami_node *node, struct roam_transport_params *params,
				const struct roam_transport *transport, const char *option)
{
	struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX];
	struct roami_layer *layer = node->layers;
	enum roam_err err;

	while (layer->transport != NULL)
		layer++;
	roami_assert(layer < node->layers + ROAMI_LAYERS_MAX);
	layer->transport = transport;
	layer->state = aligned_alloc(64, (transport->state_size + 64) & ~(size_t)63);
	if (layer->state == NULL)
		return ROAM_ENOMEM;
	memset(layer->state, 0, transport->state_size);
	params->option = option;
	params->options = values;
	roami_options_of(node->options, transport, values);
	layer->opened = true;
	err = transport->open(layer->state, params);
	params->options = NULL;
	params->lower = transport;
	params->lower_state = layer->state;
	node->transport = transport;
	node->transport_state = layer->state;
	return err;
}

static struct roam_transport_memory layers_rings(const struct roami_node_params *params,
						 unsigned peer)
{
	return (struct roam_transport_memory){(uint8_t *)params->bases[peer] + params->layout.rings,
					      (size_t)params->layout.nodes_max *
						      params->layout.ring_bytes};
}

static struct roam_transport_memory layers_card(const struct roami_node_params *params,
						unsigned peer)
{
	return (struct roam_transport_memory){params->peers[peer]->card, ROAM_CARD_BYTES};
}

/* What the lowest transport finds of each peer, and whom it is not for. */
static void layers_memory(struct roami_node *node, const struct roami_node_params *params,
			  struct roam_transport_params *open)
{
	for (unsigned peer = 0; peer < params->nodes; peer++) {
		bool mapped = params->bases[peer] != NULL;

		node->memory[peer] = mapped && params->beside == NULL ? layers_rings(params, peer)
								      : layers_card(params, peer);
		if (mapped && params->beside != NULL) {
			node->rings[peer] = layers_rings(params, peer);
			open->others |= roami_nodeset_bit(peer);
		}
	}
}

/* The transport of this host's peers beside what is there, and the layer that joins them. */
static enum roam_err layers_mix(struct roami_node *node, struct roam_transport_params *open,
				const struct roam_transport *transport)
{
	struct roam_transport_params rings = *open;
	enum roam_err err;

	rings.others = ~open->others;
	rings.memory = node->rings;
	err = layer_open(node, &rings, transport, NULL);
	open->beside = rings.lower;
	open->beside_state = rings.lower_state;
	return err == ROAM_OK ? layer_open(node, open, &roami_transport_mixed, NULL) : err;
}

enum roam_err roami_layers_open(struct roami_node *node, const struct roami_node_params *params)
{
	const unsigned good = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED;
	struct roami_seal_params seal = {.key = NULL};
	struct roam_transport_params open = {
		.node = params->me,
		.nodes = params->nodes,
		.memory = node->memory,
		.world = params->world,
		.now = layer_now,
		.now_arg = node,
		.stats = node->stats,
		.seal = &seal,
		.stranger = layer_stranger,
		.address = params->address,
		.bell = params->beside != NULL ? params->bells[params->me] : 0,
		.deadline_ns = layers_deadline(params),
		.lost = layer_lost,
		.why = params->why,
		.why_bytes = params->why_bytes,
		.mtu = (unsigned)params->options->mtu};
	enum roam_err err;

	layers_memory(node, params, &open);
	if (params->transport->wait == NULL)
		open.rouse = layer_rouse;
	err = layers_seal(params, &seal);
	if (err == ROAM_OK)
		err = layer_open(node, &open, params->transport, NULL);
	if (err == ROAM_OK && params->nodes > 1 && params->options->faulty[0] != '\0')
		err = layer_open(node, &open, &roami_transport_faulty, params->options->faulty);
	if (err == ROAM_OK && (node->transport->caps & good) != good)
		err = layer_open(node, &open, &roami_transport_reliable, NULL);
	if (err == ROAM_OK && params->beside != NULL)
		err = layers_mix(node, &open, params->beside);
	return err;
}

void roami_layers_close(struct roami_node *node)
{
	for (unsigned i = ROAMI_LAYERS_MAX; i-- > 0;) {
		struct roami_layer *layer = &node->layers[i];

		if (layer->opened)
			layer->transport->close(layer->state);
		free(layer->state);
		*layer = (struct roami_layer){0};
	}
}

bool roami_layers_check(const char *faulty, char *why, size_t why_bytes)
{
	return roami_transport_faulty.check(faulty, why, why_bytes);
}
