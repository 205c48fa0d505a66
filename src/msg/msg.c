#include "msg/msg.h"
#include "base/layers.h"

#include <string.h>

#include "base/region.h"
#include "msg/msg_state.h"

#define PARTS_MAX 8u
#define POLL_MAX  16u

enum roam_err roami_msg_register(struct roami_node *node, const struct roam_message *messages,
				 unsigned region, unsigned *first_p)
{
	struct roami_vec *types = &msg_of(node)->types;

	*first_p = (unsigned)types->count;
	for (; messages->name != NULL; messages++) {
		struct roami_type *type = roami_os_vec_grow(types, sizeof(*type), 1);

		roami_assert(messages->bytes_max <= ROAMI_MSG_MAX && types->count < UINT16_MAX);
		if (type == NULL)
			return ROAM_ENOMEM;
		*type = (struct roami_type){messages, region};
		types->count++;
	}
	return ROAM_OK;
}

const struct roam_message *roami_msg_named(const struct roami_node *node, unsigned type)
{
	const struct roami_type *types = (const void *)msg_of(node)->types.items;

	return type < msg_of(node)->types.count ? types[type].message : NULL;
}

/* ------------------------------------------------------------------------------------- sending */

/* Queues a message behind others that found the ring full; out_lock[to] is held. */
static void msg_queue(struct roami_node *node, unsigned to, const struct iovec *parts,
		      unsigned count)
{
	struct roami_vec *out = &msg_of(node)->out[to];
	size_t bytes = 0;
	uint8_t *at;

	roami_contract(roami_spin_held(&msg_of(node)->out_lock[to]));
	for (unsigned i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	at = roami_os_vec_grow(out, 1, 8 + ((bytes + 7) & ~(size_t)7));
	if (at == NULL)
		roami_node_fail(node, "no memory for messages to node %u", to);
	memcpy(at, &bytes, sizeof(bytes));
	out->count += 8 + ((bytes + 7) & ~(size_t)7);
	at += 8;
	for (unsigned i = 0; i < count; i++) {
		if (parts[i].iov_len > 0)
			memcpy(at, parts[i].iov_base, parts[i].iov_len);
		at += parts[i].iov_len;
	}
	atomic_fetch_or(&msg_of(node)->out_waiting, 1u);
	ROAMI_COUNT(node->stats, messages_queued, 1);
}

/* Sends what was queued for `to`; out_lock[to] is held.  True if nothing is left. */
static bool msg_drain(struct roami_node *node, unsigned to)
{
	struct roami_layers *layers = layers_of(node);
	struct roami_msg *msg = msg_of(node);
	struct roami_vec *out = &msg->out[to];
	size_t *first = &msg->out_first[to];
	bool sent = false;

	roami_contract(roami_spin_held(&msg_of(node)->out_lock[to]));
	while (*first < out->count) {
		struct iovec part;
		size_t bytes;

		memcpy(&bytes, out->items + *first, sizeof(bytes));
		part = (struct iovec){out->items + *first + 8, bytes};
		if (layers->transport->send(layers->transport_state, to, &part, 1) != ROAM_OK)
			break;
		*first += 8 + ((bytes + 7) & ~(size_t)7);
		sent = true;
	}
	if (sent)
		node->env->sleep->sent(node, to, false);
	if (*first < out->count)
		return false;
	out->count = 0;
	*first = 0;
	return true;
}

static void msg_drain_all(struct roami_node *node)
{
	struct roami_msg *msg = msg_of(node);
	uint32_t left = 0;

	if (atomic_load(&msg->out_waiting) == 0 ||
	    atomic_exchange(&msg->out_waiting, 0) == 0)
		return;
	for (unsigned to = 0; to < node->nodes; to++) {
		if (!roami_spin_try(&msg->out_lock[to])) {
			left = 1;
			continue;
		}
		if (!msg_drain(node, to))
			left = 1;
		roami_spin_unlock(&msg->out_lock[to]);
	}
	if (left)
		atomic_fetch_or(&msg->out_waiting, 1u);
}

static void msg_counted(struct roami_node *node, const struct roami_msg_header *header)
{
	ROAMI_COUNT(node->stats, messages_sent, 1);
	roami_stats_type(node->stats, header->type);
	roami_stats_message(node->stats, sizeof(*header) + header->bytes);
	ROAMI_COUNT(node->stats, bytes_sent, sizeof(*header) + header->bytes);
}

/* Sends the message, or queues it; wakes no thread. */
static void msg_publish(struct roami_node *node, unsigned to, const struct roami_msg_header *header,
			const struct roam_part *parts, unsigned count)
{
	struct iovec vec[PARTS_MAX + 1];
	unsigned used = 1;
	struct roami_layers *layers = layers_of(node);
	struct roami_msg *msg = msg_of(node);
	bool queued;

	roami_assert(to < node->nodes && count <= PARTS_MAX);
	roami_contract(roami_msg_named(node, header->type) != NULL);
	roami_contract(header->origin < node->nodes);
	vec[0] = (struct iovec){(void *)(uintptr_t)header, sizeof(*header)};
	for (unsigned i = 0; i < count; i++)
		vec[used++] = (struct iovec){(void *)(uintptr_t)parts[i].data, parts[i].bytes};
	roami_step(node);
	roami_spin_lock(node, &msg->out_lock[to]);
	queued = !msg_drain(node, to) ||
		 layers->transport->send(layers->transport_state, to, vec, used) != ROAM_OK;
	if (queued)
		msg_queue(node, to, vec, used);
	roami_count_one(&msg->sent[to]);
	roami_spin_unlock(&msg->out_lock[to]);
	if (queued) {
		/* Nothing will arrive to announce room: a thread of this node must look. */
		node->env->sleep->sent(node, node->me, false);
		ROAMI_COUNT(node->stats, messages_queued, 1);
	}
	msg_counted(node, header);
}

void roami_msg_put(struct roami_node *node, unsigned to, const struct roami_msg_header *header,
		   const struct roam_part *parts, unsigned count)
{
	msg_publish(node, to, header, parts, count);
	node->env->sleep->sent(node, to, false);
}

bool roami_msg_put_behind(struct roami_node *node, unsigned to,
			  const struct roami_msg_header *header, const struct roam_put *puts,
			  unsigned count, const struct roam_part *part)
{
	const struct roami_layers *layers = layers_of(node);
	struct iovec vec[2] = {{(void *)(uintptr_t)header, sizeof(*header)},
			       {(void *)(uintptr_t)part->data, part->bytes}};
	bool begun;

	roami_contract(roami_msg_named(node, header->type) != NULL && to < node->nodes);
	roami_spin_lock(node, &msg_of(node)->out_lock[to]);
	begun = layers->onesided->put(layers->onesided_state, to, puts, count, vec, 2) == ROAM_OK;
	if (begun)
		roami_count_one(&msg_of(node)->sent[to]);
	roami_spin_unlock(&msg_of(node)->out_lock[to]);
	if (begun) {
		msg_counted(node, header);
		node->env->sleep->sent(node, to, false);
	}
	return begun;
}

uint32_t roami_msg_bytes(const struct roam_part *parts, unsigned count)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += parts[i].bytes;
	roami_assert(bytes <= ROAMI_MSG_MAX);
	return (uint32_t)bytes;
}

void roami_msg_send(struct roami_node *node, unsigned to, unsigned type,
		    const struct roam_part *parts, unsigned count)
{
	struct roami_msg_header header = {(uint16_t)type, (uint16_t)node->me, 0,
					  roami_msg_bytes(parts, count), 0};

	roami_msg_put(node, to, &header, parts, count);
}

void roami_send(struct roami_node *node, unsigned to, unsigned type, const struct roam_part *parts,
		unsigned count)
{
	roami_msg_send(node, to, roami_region_current(node)->types + type, parts, count);
}

static void reply_publish(struct roami_node *node, const struct roam_request *request,
			  const struct roam_part *parts, unsigned count)
{
	struct roami_msg_header header = {request->type, (uint16_t)node->me, request->call,
					  roami_msg_bytes(parts, count), ROAMI_MSG_REPLY};

	roami_assert(request->call != 0);
	msg_publish(node, request->origin, &header, parts, count);
}

void roami_reply(struct roami_node *node, const struct roam_request *request,
		 const struct roam_part *parts, unsigned count)
{
	reply_publish(node, request, parts, count);
	node->env->sleep->sent(node, request->origin, false);
}

void roami_msg_reply_awaited(struct roami_node *node, const struct roam_request *request,
			     const struct roam_part *parts, unsigned count)
{
	reply_publish(node, request, parts, count);
	node->env->sleep->sent(node, request->origin, true);
}

void roami_msg_send_awaited(struct roami_node *node, unsigned to, unsigned type,
			    const struct roam_part *parts, unsigned count)
{
	struct roami_msg_header header = {(uint16_t)type, (uint16_t)node->me, 0,
					  roami_msg_bytes(parts, count), 0};

	msg_publish(node, to, &header, parts, count);
	node->env->sleep->sent(node, to, true);
}

void roami_msg_reply_page(struct roami_node *node, const struct roam_request *request,
			  uint32_t answer, const struct roam_part *parts, unsigned count)
{
	struct roami_msg_header header = {request->type, (uint16_t)node->me, request->call,
					  roami_msg_bytes(parts, count), ROAMI_MSG_REPLY | answer};

	roami_assert(request->call != 0);
	roami_assert(answer != ROAMI_ANSWER_PAGE || parts[count - 1].bytes == ROAMI_PAGE);
	roami_msg_put(node, request->origin, &header, parts, count);
}

void roami_pass(struct roami_node *node, const struct roam_request *request, unsigned to,
		unsigned type, const struct roam_part *parts, unsigned count)
{
	struct roami_msg_header header = {(uint16_t)(roami_region_current(node)->types + type),
					  request->origin, request->call,
					  roami_msg_bytes(parts, count), 0};

	roami_contract(request->origin < node->nodes);
	roami_msg_put(node, to, &header, parts, count);
}

/* ------------------------------------------------------------------------------------ handling */

uint64_t roami_msg_due(struct roami_node *node)
{
	uint64_t next = atomic_load(&msg_of(node)->delay_next), due;
	struct roami_layers *layers = layers_of(node);

	if (layers->transport->due == NULL)
		return next;
	due = layers->transport->due(layers->transport_state);
	return due < next ? due : next;
}

uint64_t roami_msg_due_ns(struct roami_node *node)
{
	uint64_t next = roami_msg_due(node), now;

	if (next == UINT64_MAX)
		return UINT64_MAX;
	now = node->env->now(node);
	return next <= now ? 0 : next - now;
}

bool roami_msg_polling(const struct roami_node *node)
{
	return roami_spin_held(&msg_of(node)->poll_lock);
}

/* poll_lock is held. */
static void msg_asked(struct roami_node *node)
{
	_Atomic uint64_t *asked = &msg_of(node)->asked;

	roami_contract(roami_msg_polling(node));
	atomic_store_explicit(asked, atomic_load_explicit(asked, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

uint64_t roami_msg_asked(const struct roami_node *node)
{
	return atomic_load_explicit(&msg_of(node)->asked, memory_order_relaxed);
}

/* Hands a request to its handler, in the region whose message it is. */
static void msg_handle(struct roami_node *node, const struct roam_request *request)
{
	const struct roami_type *type = (const void *)msg_of(node)->types.items;
	unsigned was;

	roami_contract(roami_msg_polling(node));
	type += request->type;
	if (type->region == ROAMI_REGION_NONE) {
		type->message->handle(node, request);
	} else {
		was = roami_region_enter(node, &node->regions[type->region]);
		type->message->handle(node, request);
		roami_region_leave(node, was);
	}
	msg_of(node)->handled(node);
}

/* Hands due requests to their handlers again; poll_lock is held. */
static unsigned parked_handle(struct roami_node *node)
{
	struct roami_vec *copy = &msg_of(node)->parked_copy;
	unsigned handled = 0;

	roami_contract(roami_msg_polling(node));
	while (handled < POLL_MAX && roami_msg_parked_take(node, copy)) {
		struct roami_parked *parked = (void *)copy->items;

		parked->request.data = parked + 1;
		msg_asked(node);
		msg_handle(node, &parked->request);
		handled++;
	}
	return handled;
}

/* ------------------------------------------------------------------------------------- polling */

/* Hands on each of several requests that came in one message. */
static void msg_deliver_many(struct roami_node *node, const struct roam_request *all)
{
	const struct roami_msg_many *many = all->data;
	size_t count = all->bytes / sizeof(*many);

	roami_contract(roami_msg_polling(node));
	if (count == 0 || all->bytes % sizeof(*many) != 0 ||
	    roami_msg_named(node, all->type)->bytes_max < sizeof(many->what))
		roami_node_fail(node, "node %u sent malformed requests", all->from);
	for (size_t i = 0; i < count; i++) {
		struct roam_request one = *all;

		one.call = many[i].call;
		one.bytes = sizeof(many[i].what);
		one.data = &many[i].what;
		if (one.call == 0)
			roami_node_fail(node, "node %u sent malformed requests", all->from);
		msg_handle(node, &one);
	}
}

static bool msg_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct roami_node *node = arg;
	struct roami_msg_header header;
	struct roam_request request;
	const struct roam_message *type;

	roami_contract(roami_msg_polling(node));
	if (bytes < sizeof(header))
		roami_node_fail(node, "node %u sent a message of %zu bytes", from, bytes);
	memcpy(&header, data, sizeof(header));
	type = roami_msg_named(node, header.type);
	if (type == NULL || header.bytes != bytes - sizeof(header) || header.origin >= node->nodes)
		roami_node_fail(node, "node %u sent a malformed message", from);
	ROAMI_COUNT(node->stats, messages_received, 1);
	roami_count_one(&msg_of(node)->received);
	if (header.flags & ROAMI_MSG_REPLY) {
		roami_msg_answered(node, from, &header, (const uint8_t *)data + sizeof(header));
		return true;
	}
	if (header.bytes > type->bytes_max && (header.flags & ROAMI_MSG_MANY) == 0)
		roami_node_fail(node, "node %u sent %s with %u bytes", from, type->name,
				header.bytes);
	request = (struct roam_request){header.type,
					(uint16_t)from,
					header.origin,
					0,
					header.call,
					header.bytes,
					(const uint8_t *)data + sizeof(header)};
	roami_step(node);
	msg_asked(node);
	if (header.flags & ROAMI_MSG_MANY)
		msg_deliver_many(node, &request);
	else
		msg_handle(node, &request);
	return true;
}

bool roami_msg_pending(struct roami_node *node)
{
	struct roami_layers *layers = layers_of(node);

	return layers->transport->pending(layers->transport_state) || roami_msg_due_ns(node) == 0;
}

bool roami_msg_stuck(struct roami_node *node)
{
	return atomic_load(&msg_of(node)->out_waiting) != 0;
}

/*
 * Reading the clock takes longer than handling a short message, and delays request and answer: of
 * so many polls that find something one is timed, and stands for all of them.
 */
#define POLLS_TIMED 8u

unsigned roami_msg_poll(struct roami_node *node)
{
	struct roami_layers *layers = layers_of(node);
	struct roami_msg *msg = msg_of(node);
	unsigned handled;
	int bad_peer = -1;
	uint64_t start = 0;
	bool timed;

	/* Where threads sleep at the transport, asking whether to poll costs as much as polling. */
	if ((layers->sleeper == NULL && !roami_msg_pending(node) && !roami_msg_stuck(node)) ||
	    !roami_spin_try(&msg->poll_lock))
		return 0;
	timed = msg->polls % POLLS_TIMED == 0;
	if (timed)
		start = roami_os_cycles();
	msg_drain_all(node);
	handled = layers->transport->poll(layers->transport_state, msg_deliver, node, POLL_MAX,
					  &bad_peer);
	if (bad_peer >= 0)
		roami_node_fail(node, "node %d sent malformed data", bad_peer);
	handled += parked_handle(node);
	msg->polls += handled > 0;
	roami_spin_unlock(&msg->poll_lock);
	if (handled == 0)
		return 0;
	if (timed) {
		uint64_t cycles = (roami_os_cycles() - start) * POLLS_TIMED;

		roami_stats_handled += cycles;
		ROAMI_TIME_WITHIN(node->stats, handler, cycles);
	}
	roami_changed(node, node->me);
	return handled;
}

void roami_msg_handled_by(struct roami_node *node, void (*handled)(struct roami_node *node))
{
	roami_assert(handled != NULL);
	msg_of(node)->handled = handled;
}

static void msg_handled(struct roami_node *node)
{
	(void)node;
}

/* Core files contain the calls of the first 64 threads; room for those of 2,000 is large. */
static void msg_spare_dump(struct roami_msg *msg)
{
	uintptr_t first = (uintptr_t)&msg->calls[64 * ROAMI_CALLS_EACH];
	uintptr_t end = (uintptr_t)&msg->calls[ROAMI_CALLS_MAX];

	first = (first + ROAMI_PAGE - 1) & ~(uintptr_t)(ROAMI_PAGE - 1);
	roami_os_dontdump((void *)first, (end - first) & ~(size_t)(ROAMI_PAGE - 1));
}

static enum roam_err msg_init(struct roami_node *node, const struct roami_node_params *params)
{
	(void)params;
	msg_spare_dump(msg_of(node));
	msg_of(node)->handled = msg_handled;
	atomic_store(&msg_of(node)->delay_next, UINT64_MAX);
	return ROAM_OK;
}

static void msg_fini(struct roami_node *node)
{
	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
		roami_os_vec_free(&msg_of(node)->out[i], 1);
	roami_os_vec_free(&msg_of(node)->parked, 1);
	roami_os_vec_free(&msg_of(node)->parked_copy, 1);
	roami_os_vec_free(&msg_of(node)->types, sizeof(struct roami_type));
}

const struct roami_room roami_room_msg = {
	.name = "msg",
	.state_size = sizeof(struct roami_msg),
	.init = msg_init,
	.fini = msg_fini,
};
