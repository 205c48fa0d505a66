/*
 * sim: messages between the nodes of a simulated world.  Each ordered pair of nodes has a bounded
 * queue; a message arrives after a random latency, never before one sent earlier by the same node.
 * All in one thread.  Every message is a block of its own, so that address checkers see a handler
 * read beyond its end.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_message {
	struct sim_message *next;
	uint64_t due;
	size_t bytes;
	uint64_t data[];
};

struct sim_queue {
	struct sim_message *first;
	struct sim_message *last;
	unsigned count;
};

struct roami_sim_node {
	struct roami_sim *sim;
	unsigned node;
	unsigned nodes;
	uint64_t due; /* of the earliest message; UINT64_MAX: none */
	struct sim_queue from[ROAMI_SIM_NODES_MAX];
	struct sim_queue told[ROAMI_SIM_NODES_MAX]; /* messages of puts */
};

static enum roam_err sim_open(void *state, const struct roam_transport_params *params)
{
	struct roami_sim_node *node = state;

	if (params->world == NULL || params->nodes > ROAMI_SIM_NODES_MAX)
		return ROAM_EINVAL;
	node->sim = params->world;
	node->node = params->node;
	node->nodes = params->nodes;
	node->due = UINT64_MAX;
	node->sim->nodes[params->node] = node;
	return ROAM_OK;
}

static struct sim_message *sim_pop(struct sim_queue *queue)
{
	struct sim_message *message = queue->first;

	queue->first = message->next;
	if (queue->first == NULL)
		queue->last = NULL;
	queue->count--;
	return message;
}

static void sim_close(void *state)
{
	struct roami_sim_node *node = state;

	if (node->sim == NULL)
		return;
	for (unsigned from = 0; from < node->nodes; from++)
		while (node->from[from].first != NULL)
			free(sim_pop(&node->from[from]));
	for (unsigned from = 0; from < node->nodes; from++)
		while (node->told[from].first != NULL)
			free(sim_pop(&node->told[from]));
	node->sim->nodes[node->node] = NULL;
	node->sim = NULL;
}

/* Queues a message, which arrives not before those in front of it. */
static void sim_push(struct roami_sim_node *there, struct sim_queue *queue,
		     struct sim_message *message)
{
	message->next = NULL;
	if (queue->last != NULL) {
		if (message->due < queue->last->due)
			message->due = queue->last->due;
		queue->last->next = message;
	} else {
		queue->first = message;
	}
	queue->last = message;
	queue->count++;
	if (message->due < there->due)
		there->due = message->due;
}

static enum roam_err sim_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	struct roami_sim_node *node = state, *there = node->sim->nodes[to];
	struct roami_sim *sim = node->sim;
	struct sim_queue *queue = &there->from[node->node];
	struct sim_message *message;
	uint64_t spread = sim->latency_ns_max - sim->latency_ns_min + 1;
	size_t bytes = 0;
	uint8_t *at;

	for (unsigned i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	if (queue->count >= sim->queue_max)
		return ROAM_EAGAIN;
	message = malloc(sizeof(*message) + bytes);
	if (message == NULL)
		return ROAM_EAGAIN;
	message->bytes = bytes;
	message->due = sim->now(sim->world) + sim->latency_ns_min + sim->draw(sim->world, spread);
	if (node->node == sim->slow_from && to == sim->slow_to)
		message->due += sim->slow_ns;
	at = (uint8_t *)message->data;
	for (unsigned i = 0; i < count; at += parts[i].iov_len, i++)
		if (parts[i].iov_len > 0)
			memcpy(at, parts[i].iov_base, parts[i].iov_len);
	sim_push(there, queue, message);
	return ROAM_OK;
}

void roami_sim_tell(struct roami_sim *sim, unsigned from, unsigned to, const void *data,
		    size_t bytes)
{
	struct roami_sim_node *there = sim->nodes[to];
	struct sim_message *message = malloc(sizeof(*message) + bytes);

	if (message == NULL)
		abort();
	message->bytes = bytes;
	message->due = sim->now(sim->world);
	memcpy(message->data, data, bytes);
	sim_push(there, &there->told[from], message);
}

static void sim_earliest(struct roami_sim_node *node)
{
	node->due = UINT64_MAX;
	for (unsigned from = 0; from < node->nodes; from++) {
		const struct sim_message *first = node->from[from].first,
					 *told = node->told[from].first;

		if (first != NULL && first->due < node->due)
			node->due = first->due;
		if (told != NULL && told->due < node->due)
			node->due = told->due;
	}
}

/* One message of each sender in turn, from a random one on, as long as any has arrived. */
static unsigned sim_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			 int *bad_peer)
{
	struct roami_sim_node *node = state;
	struct roami_sim *sim = node->sim;
	unsigned taken = 0, quiet = 0;
	unsigned from = (unsigned)sim->draw(sim->world, node->nodes);

	(void)bad_peer;
	for (; taken < max && quiet < node->nodes; from = (from + 1) % node->nodes) {
		struct sim_queue *queue = &node->from[from];
		struct sim_message *message = queue->first;

		quiet++;
		if (node->told[from].first != NULL) {
			queue = &node->told[from];
			message = queue->first;
		}
		if (message == NULL || message->due > sim->now(sim->world))
			continue;
		/* Handlers may let others run and send; this message is still the first. */
		if (!deliver(arg, from, message->data, message->bytes))
			continue;
		free(sim_pop(queue));
		sim_earliest(node);
		taken++;
		quiet = 0;
	}
	return taken;
}

static bool sim_pending(const void *state)
{
	const struct roami_sim_node *node = state;

	return node->due <= node->sim->now(node->sim->world);
}

static size_t sim_limit(const void *state)
{
	return ((const struct roami_sim_node *)state)->sim->datagram_max;
}

static size_t sim_room(const void *state)
{
	return ((const struct roami_sim_node *)state)->sim->room;
}

struct roami_sim *roami_sim_of(const void *state, unsigned *node_p)
{
	const struct roami_sim_node *node = state;

	*node_p = node->node;
	return node->sim;
}

uint64_t roami_sim_due(const struct roami_sim *sim, unsigned node)
{
	return sim->nodes[node] == NULL ? UINT64_MAX : sim->nodes[node]->due;
}

/* What they all have. */
#define SIM                                                                                      \
	.cost_ns = 50, .state_size = sizeof(struct roami_sim_node), .message_max = 64 * 1024,    \
	.open = sim_open, .close = sim_close, .send = sim_send, .poll = sim_poll,                \
	.pending = sim_pending

const struct roam_transport roami_transport_sim = {
	.name = "sim",
	.caps = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED | ROAM_CAP_HOSTS,
	SIM,
};

const struct roam_transport roami_transport_sim_card = {
	.name = "sim_card",
	.caps = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED | ROAM_CAP_HOSTS,
	SIM,
	.onesided = &roami_sim_card,
};

const struct roam_transport roami_transport_sim_datagrams = {
	.name = "sim_datagrams",
	.caps = ROAM_CAP_HOSTS,
	SIM,
	.limit = sim_limit,
	.room = sim_room,
};
