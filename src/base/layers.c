#include "base/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/transports.h"
#include "link/mixed.h"
#include "link/reliable.h"
#include "link/seal.h"
#include "link/sealed.h"
#include "transport/faulty.h"

#define DEADLINE_S 5u
#define NS_PER_S   1000000000u

static uint64_t layer_now(void *arg)
{
	struct roami_node *node = arg;

	return node->env->now(node);
}

static void layer_rouse(void *arg, unsigned peer)
{
	struct roami_node *node = arg;

	node->env->sleep->sent(node, peer, false);
}

static void layer_stranger(void *arg)
{
	struct roami_node *node = arg;

	ROAMI_COUNT(node->stats, datagrams_strange, 1);
}

static void layer_notice(void *arg, const char *line)
{
	struct roami_node *node = arg;
	char text[300];
	int length = 0;

	if (node->options->log >= ROAMI_LEVEL_WARN)
		length = snprintf(text, sizeof(text), "roam: warning: node %u: %s\n", node->me,
				  line);
	if (length >= (int)sizeof(text))
		length = (int)sizeof(text) - 1;
	if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
		return; /* nowhere to say it */
}

static void layer_helper(void *arg, int change)
{
	struct roami_node *node = arg;

	if (node->env->helper != NULL)
		node->env->helper(node, change);
}

__attribute__((noreturn)) static void layer_lost(void *arg, unsigned peer, uint64_t silent_ns)
{
	struct roami_node *node = arg;
	const char *on = "", *host = "";

	if (node->host_names != NULL) {
		on = " on ";
		host = node->host_names[peer];
	}
	layers_of(node)->lost = peer + 1;
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

/*
 * Opens a layer above those that are open.  `memory`: it is a transport; the memory of its peers.
 */
static enum roam_err layer_open(struct roami_node *node, struct roam_transport_params *params,
				const struct roam_transport *transport,
				struct roam_transport_memory *memory)
{
	struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX];
	struct roami_layer *layer = layers_of(node)->all;
	enum roam_err err;

	while (layer->transport != NULL)
		layer++;
	roami_assert(layer < layers_of(node)->all + ROAMI_LAYERS_MAX);
	layer->transport = transport;
	layer->memory = memory;
	layer->state = aligned_alloc(64, (transport->state_size + 64) & ~(size_t)63);
	if (layer->state == NULL)
		return ROAM_ENOMEM;
	memset(layer->state, 0, transport->state_size);
	if (memory != NULL && transport->wait != NULL)
		layers_of(node)->sleeper = layer;
	params->options = values;
	roami_options_of(node->options, transport, values);
	layer->opened = true;
	err = transport->open(layer->state, params);
	params->options = NULL;
	params->lower = transport;
	params->lower_state = layer->state;
	layers_of(node)->transport = transport;
	layers_of(node)->transport_state = layer->state;
	return err;
}

/* ---------------------------------------------------------------------------------------- peers */

/* The part of a segment that is for messages. */
static struct roam_transport_memory layers_rings(const struct roami_node_params *params,
						 unsigned peer)
{
	return (struct roam_transport_memory){(uint8_t *)params->bases[peer] + params->layout.rings,
					      (size_t)params->layout.nodes_max *
						      params->layout.ring_bytes};
}

/* A node's card: in its segment, where nothing else uses that part, else as it was told. */
static uint8_t *layers_card(const struct roami_node_params *params, unsigned peer, bool rings)
{
	if (params->bases[peer] != NULL && !rings)
		return layers_rings(params, peer).base;
	roami_assert(params->peers != NULL && params->peers[peer] != NULL);
	return params->peers[peer]->card;
}

/* What a transport finds of each peer; NULL: no memory.  `rings`: one of the job needs those. */
static struct roam_transport_memory *layers_memory(const struct roami_node_params *params,
						   const struct roam_transport *transport,
						   bool rings)
{
	struct roam_transport_memory *memory = calloc(params->nodes, sizeof(*memory));
	unsigned at = roami_transport_card_at(transport);

	roami_assert(at + transport->card_bytes <= ROAM_CARD_BYTES);
	for (unsigned peer = 0; memory != NULL && peer < params->nodes; peer++) {
		if ((transport->caps & ROAM_CAP_MAPPED) == 0)
			memory[peer] = (struct roam_transport_memory){
				layers_card(params, peer, rings) + at, ROAM_CARD_BYTES - at};
		else if (params->bases[peer] != NULL)
			memory[peer] = layers_rings(params, peer);
	}
	return memory;
}

/*
 * The order of transports: those at which threads can sleep come last; else the cheaper one first.
 */
static bool layers_before(const struct roam_transport *a, const struct roam_transport *b)
{
	if ((a->wait != NULL) != (b->wait != NULL))
		return a->wait == NULL;
	return a->cost_ns < b->cost_ns;
}

/* The transports and the peers that each reaches; how many. */
static unsigned layers_stacks(const struct roami_node_params *params,
			      struct roam_transport_stack stacks[ROAM_STACKS_MAX])
{
	unsigned count = 0, i;

	for (unsigned peer = 0; peer < params->nodes; peer++) {
		const struct roam_transport *transport = params->transport;

		if (params->by != NULL && params->by[peer] != NULL)
			transport = params->by[peer];
		for (i = 0; i < count && stacks[i].transport != transport;)
			i++;
		if (i == count) {
			roami_assert(count < ROAM_STACKS_MAX);
			for (; i > 0 && layers_before(transport, stacks[i - 1].transport); i--)
				stacks[i] = stacks[i - 1];
			stacks[i] = (struct roam_transport_stack){.transport = transport};
			count++;
		}
		stacks[i].peers |= roami_nodeset_bit(peer);
	}
	return count;
}

/* --------------------------------------------------------------------------------------- stacks */

/* What this node joins, while it opens. */
struct layers_plan {
	struct roam_transport_stack stacks[ROAM_STACKS_MAX];
	unsigned count;
	bool rings;  /* one has ROAM_CAP_MAPPED */
	int files[ROAM_STACKS_MAX];
	unsigned file_count;
};

static void layers_plan(const struct roami_node_params *params, struct layers_plan *plan)
{
	plan->count = layers_stacks(params, plan->stacks);
	for (unsigned i = 0; i < plan->count; i++)
		plan->rings = plan->rings ||
			      (plan->stacks[i].transport->caps & ROAM_CAP_MAPPED) != 0;
}

/* The file at which the sleeper sleeps for a transport before it. */
static bool layers_file(struct roami_node *node, struct layers_plan *plan,
			const struct roam_transport_stack *stack)
{
	void *state = layers_of(node)->transport_state;
	int file = stack->transport->file != NULL ? stack->transport->file(state) : -1;

	if (file < 0)
		return stack->transport->wait == NULL;
	plan->files[plan->file_count++] = file;
	return true;
}

int roami_layers_file(const struct roami_node *node)
{
	const struct roami_layer *all = layers_of(node)->all;
	int file = -1;

	for (unsigned i = 0; i < ROAMI_LAYERS_MAX && file < 0; i++)
		if (all[i].opened && all[i].transport->file != NULL)
			file = all[i].transport->file(all[i].state);
	return file;
}

/*
 * Whether ROAM_FAULTY applies to a transport: on one host to each, else only to those that are not
 * reliable.  Both ends must decide alike, because both must have the same layers.
 */
static bool layers_faulty(const struct roami_node_params *params,
			  const struct roam_transport *transport)
{
	return params->nodes > 1 && params->options->faulty[0] != '\0' &&
	       (params->hosts <= 1 || (transport->caps & ROAM_CAP_RELIABLE) == 0);
}

/*
 * Over a transport that the seal does not cover by itself.  Without having been asked for a seal,
 * between hosts node 0 says what is not protected.
 */
static enum roam_err layers_bare(struct roami_node *node, const struct roami_node_params *params,
				 struct roam_transport_params *open)
{
	unsigned wanted = params->options->seal;
	char line[160];

	if (wanted == ROAMI_SEAL_AUTH || wanted == ROAMI_SEAL_ENCRYPT)
		return layer_open(node, open, &roami_transport_sealed, NULL);
	if (wanted == ROAMI_SEAL_OFF || params->hosts <= 1 || params->me != 0)
		return ROAM_OK;
	snprintf(line, sizeof(line),
		 "what goes over %s%s is neither authenticated nor encrypted: ROAM_SEAL=auth, "
		 "encrypt, or off",
		 layers_of(node)->transport->name, params->read != 0 ? " and what cards read" : "");
	layer_notice(node, line);
	return ROAM_OK;
}

/* A transport, and over it what makes it as reliable as messages want it. */
static enum roam_err layers_stack(struct roami_node *node, const struct roami_node_params *params,
				  struct roam_transport_params open, struct layers_plan *plan,
				  unsigned index)
{
	const unsigned good = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED;
	struct roam_transport_stack *stack = &plan->stacks[index];
	struct roam_transport_memory *memory = layers_memory(params, stack->transport, plan->rings);
	bool last = index + 1 == plan->count;
	enum roam_err err;

	roami_assert(roami_transport_wrong(stack->transport) == NULL);
	if (memory == NULL)
		return ROAM_ENOMEM;
	open.memory = memory;
	open.others = roami_nodeset_first(params->nodes).bits & ~stack->peers;
	if (last && plan->count > 1 && params->bells != NULL)
		open.bell = params->bells[params->me];
	open.files = plan->files;
	open.file_count = plan->file_count;
	if (stack->transport->wait == NULL)
		open.rouse = layer_rouse;
	open.read = params->read & stack->peers;
	err = layer_open(node, &open, stack->transport, memory);
	if (open.read != 0) {
		layers_of(node)->onesided = stack->transport->onesided;
		layers_of(node)->onesided_state = layers_of(node)->transport_state;
	}
	if (err == ROAM_OK && !last && !layers_file(node, plan, stack))
		err = ROAM_EUNSUPPORTED;
	open.option = params->options->faulty;
	if (err == ROAM_OK && layers_faulty(params, stack->transport))
		err = layer_open(node, &open, &roami_transport_faulty, NULL);
	open.option = NULL;
	if (err == ROAM_OK && (layers_of(node)->transport->caps & good) != good)
		err = layer_open(node, &open, &roami_transport_reliable, NULL);
	else if (err == ROAM_OK && (stack->transport->caps & ROAM_CAP_BARE) != 0)
		err = layers_bare(node, params, &open);
	if (stack->transport->wait == NULL)
		layers_of(node)->rung |= stack->peers;
	if (layers_of(node)->transport->due != NULL)
		layers_of(node)->timed |= stack->peers;
	stack->transport = layers_of(node)->transport;
	stack->state = layers_of(node)->transport_state;
	return err;
}

/* Lets peers read this node's heap. */
static enum roam_err layers_attach(struct roami_node *node, const struct roami_node_params *params)
{
	const struct roami_layers *layers = layers_of(node);

	if (layers->onesided == NULL)
		return ROAM_EUNSUPPORTED;
	return layers->onesided->attach(layers->onesided_state,
					(uint8_t *)params->bases[params->me] + params->layout.heap,
					params->layout.heap_bytes);
}

static enum roam_err layers_open(struct roami_node *node, const struct roami_node_params *params)
{
	struct roami_seal_params seal = {.key = NULL};
	struct roam_transport_params open = {
		.node = params->me,
		.nodes = params->nodes,
		.world = params->world,
		.now = layer_now,
		.now_arg = node,
		.stats = node->stats,
		.seal = &seal,
		.stranger = layer_stranger,
		.notice = layer_notice,
		.helper = layer_helper,
		.address = params->address,
		.local = params->local,
		.deadline_ns = layers_deadline(params),
		.lost = layer_lost,
		.why = params->why,
		.why_bytes = params->why_bytes,
		.mtu = (unsigned)params->options->mtu};
	struct layers_plan plan = {.count = 0};
	enum roam_err err = layers_seal(params, &seal);

	layers_of(node)->bells = params->bells;
	layers_plan(params, &plan);
	if (!plan.rings || (params->peers != NULL && params->peers[params->me] != NULL))
		layers_of(node)->card = layers_card(params, params->me, plan.rings);
	for (unsigned i = 0; i < plan.count && err == ROAM_OK; i++)
		err = layers_stack(node, params, open, &plan, i);
	if (err == ROAM_OK && params->read != 0)
		err = layers_attach(node, params);
	if (err != ROAM_OK || plan.count == 1)
		return err;
	open.stacks = plan.stacks;
	open.stack_count = plan.count;
	return layer_open(node, &open, &roami_transport_mixed, NULL);
}

const char *roami_layers_over(const struct roami_node *node, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = ROAMI_LAYERS_MAX; i-- > 0;)
		if (layers_of(node)->all[i].memory != NULL && used < bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%s%s",
						 used > 0 ? ", on each over " : "",
						 layers_of(node)->all[i].transport->name);
	return text;
}

static void layers_close(struct roami_node *node)
{
	for (unsigned i = ROAMI_LAYERS_MAX; i-- > 0;) {
		struct roami_layer *layer = &layers_of(node)->all[i];

		if (layer->opened)
			layer->transport->close(layer->state);
		free(layer->state);
		free(layer->memory);
		*layer = (struct roami_layer){0};
	}
	layers_of(node)->sleeper = NULL;
}

const struct roami_room roami_room_layers = {
	.name = "layers",
	.state_size = sizeof(struct roami_layers),
	.init = layers_open,
	.fini = layers_close,
};

bool roami_layers_check(const char *faulty, char *why, size_t why_bytes)
{
	return roami_transport_faulty.check(faulty, why, why_bytes);
}
