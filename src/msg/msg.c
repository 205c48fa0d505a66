#include "msg/msg.h"
#include "base/layers.h"

#include <string.h>

#include "base/region.h"
#include "msg/msg_state.h"

/* What stands before every payload. */
struct msg_header {
	uint16_t type;
	uint16_t origin;
	uint32_t call;
	uint32_t bytes;
	uint32_t flags;
};

#define FLAG_REPLY 1u
#define FLAG_MANY  16u /* several requests of a word each: struct msg_many */
#define PARTS_MAX  8u
#define POLL_MAX   16u
#define OUT_LIMIT  (1u << 20) /* bytes queued for one peer above which application threads wait */

_Static_assert(sizeof(struct msg_header) == 16, "message header");

struct msg_many {
	uint32_t call;
	uint32_t spare;
	uint64_t what;
};

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

/* Sends the message, or queues it; wakes no thread. */
static void msg_publish(struct roami_node *node, unsigned to, const struct msg_header *header,
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
	ROAMI_COUNT(node->stats, messages_sent, 1);
	roami_stats_type(node->stats, header->type);
	roami_stats_message(node->stats, sizeof(*header) + header->bytes);
	ROAMI_COUNT(node->stats, bytes_sent, sizeof(*header) + header->bytes);
}

static void msg_put(struct roami_node *node, unsigned to, const struct msg_header *header,
		    const struct roam_part *parts, unsigned count)
{
	msg_publish(node, to, header, parts, count);
	node->env->sleep->sent(node, to, false);
}

static size_t msg_page_bytes(const struct msg_header *header)
{
	return header->flags & ROAMI_ANSWER_PAGE ? ROAMI_PAGE : 0;
}

static uint32_t msg_bytes(const struct roam_part *parts, unsigned count)
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
	struct msg_header header = {(uint16_t)type, (uint16_t)node->me, 0, msg_bytes(parts, count),
				    0};

	msg_put(node, to, &header, parts, count);
}

void roami_send(struct roami_node *node, unsigned to, unsigned type, const struct roam_part *parts,
		unsigned count)
{
	roami_msg_send(node, to, roami_region_current(node)->types + type, parts, count);
}

static void reply_publish(struct roami_node *node, const struct roam_request *request,
			  const struct roam_part *parts, unsigned count)
{
	struct msg_header header = {request->type, (uint16_t)node->me, request->call,
				    msg_bytes(parts, count), FLAG_REPLY};

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
	struct msg_header header = {(uint16_t)type, (uint16_t)node->me, 0, msg_bytes(parts, count),
				    0};

	msg_publish(node, to, &header, parts, count);
	node->env->sleep->sent(node, to, true);
}

void roami_msg_reply_page(struct roami_node *node, const struct roam_request *request,
			  uint32_t answer, const struct roam_part *parts, unsigned count)
{
	struct msg_header header = {request->type, (uint16_t)node->me, request->call,
				    msg_bytes(parts, count), FLAG_REPLY | answer};

	roami_assert(request->call != 0);
	roami_assert(answer != ROAMI_ANSWER_PAGE || parts[count - 1].bytes == ROAMI_PAGE);
	msg_put(node, request->origin, &header, parts, count);
}

void roami_pass(struct roami_node *node, const struct roam_request *request, unsigned to,
		unsigned type, const struct roam_part *parts, unsigned count)
{
	struct msg_header header = {(uint16_t)(roami_region_current(node)->types + type),
				    request->origin, request->call, msg_bytes(parts, count), 0};

	roami_contract(request->origin < node->nodes);
	msg_put(node, to, &header, parts, count);
}

/* --------------------------------------------------------------------------------------- calls */

struct call_room {
	struct roami_node *node;
	unsigned to;
};

static bool msg_has_room(void *arg)
{
	struct call_room *room = arg;
	struct roami_msg *msg = msg_of(room->node);
	bool yes;

	roami_contract(room->to < room->node->nodes);
	if (atomic_load(&msg->out_waiting) == 0) /* nothing is queued for anybody */
		return true;
	roami_spin_lock(room->node, &msg->out_lock[room->to]);
	yes = msg->out[room->to].count - msg->out_first[room->to] < OUT_LIMIT;
	roami_spin_unlock(&msg->out_lock[room->to]);
	return yes;
}

/* A free call, one of the calling thread's if possible; call_lock is held. */
static struct roami_call *call_find(struct roami_node *node)
{
	unsigned at = node->env->thread(node) * ROAMI_CALLS_EACH;
	struct roami_call *calls = msg_of(node)->calls;

	roami_contract(roami_spin_held(&msg_of(node)->call_lock));
	for (unsigned i = 0; i < ROAMI_CALLS_MAX; i++, at++)
		if (atomic_load(&calls[at % ROAMI_CALLS_MAX].state) == 0)
			return &calls[at % ROAMI_CALLS_MAX];
	roami_node_fail(node, "more than %u calls under way", ROAMI_CALLS_MAX);
}

/* A call that waits for an answer, with what `wanted` says of that. */
static struct roami_call *call_open(struct roami_node *node, const struct roami_call *wanted)
{
	struct roami_msg *msg = msg_of(node);
	struct roami_call *call;

	roami_contract(wanted->reply != NULL || wanted->reply_max == 0);
	roami_spin_lock(node, &msg->call_lock);
	call = call_find(node);
	/* The id is the slot's number below a serial number whose top bit is set: 0 is no call. */
	msg->call_serial = (msg->call_serial + 1) % ROAMI_CALL_SERIALS;
	call->id = (uint32_t)(call - msg->calls) |
		   (msg->call_serial | ROAMI_CALL_SERIALS) * ROAMI_CALLS_MAX;
	call->reply = wanted->reply;
	call->reply_max = wanted->reply_max;
	call->page = wanted->page;
	call->page_at = 0;
	atomic_store_explicit(&call->state, 1, memory_order_relaxed);
	roami_spin_unlock(&msg->call_lock);
	return call;
}

static struct roami_call *call_start(struct roami_node *node, unsigned to, unsigned type,
				     const struct roam_part *parts, unsigned count,
				     const struct roami_call *wanted)
{
	struct call_room room = {node, to};
	struct roami_call *call;
	struct msg_header header = {(uint16_t)type, (uint16_t)node->me, 0, msg_bytes(parts, count),
				    0};

	roami_contract(roami_msg_named(node, type) != NULL);
	roami_wait(node, msg_has_room, &room);
	call = call_open(node, wanted);
	header.call = call->id;
	msg_put(node, to, &header, parts, count);
	return call;
}

struct roami_call *roami_msg_call_start(struct roami_node *node, unsigned to, unsigned type,
					const struct roam_part *parts, unsigned count, void *reply,
					size_t reply_max)
{
	struct roami_call wanted = {.reply = reply, .reply_max = reply_max};

	return call_start(node, to, type, parts, count, &wanted);
}

struct roami_call *roami_msg_call_page_start(struct roami_node *node, unsigned to, unsigned type,
					     const struct roam_part *parts, unsigned count,
					     void *reply, size_t reply_max, uint8_t *page)
{
	struct roami_call wanted = {.reply = reply, .reply_max = reply_max, .page = page};

	return call_start(node, to, type, parts, count, &wanted);
}

bool roami_msg_call_answered(void *arg)
{
	struct roami_call *call = arg;

	return atomic_load_explicit(&call->state, memory_order_acquire) == 2;
}

size_t roami_msg_call_page_end(struct roami_node *node, struct roami_call *call,
			       uint32_t *page_at_p)
{
	size_t bytes;

	roami_contract(atomic_load(&call->state) != 0);
	roami_wait(node, roami_msg_call_answered, call);
	bytes = call->bytes;
	*page_at_p = call->page_at;
	atomic_store_explicit(&call->state, 0, memory_order_release);
	return bytes;
}

size_t roami_msg_call_end(struct roami_node *node, struct roami_call *call)
{
	uint32_t page_at;

	return roami_msg_call_page_end(node, call, &page_at);
}

/* Calls to one node. */
static void ask_one(struct roami_node *node, unsigned type, struct roami_query *asks,
		    unsigned count)
{
	struct call_room room = {node, asks[0].to};
	struct msg_many many[ROAMI_CALLS_AT_ONCE];
	struct roam_part part = {many, count * sizeof(many[0])};
	struct msg_header header = {(uint16_t)type, (uint16_t)node->me, 0, (uint32_t)part.bytes,
				    FLAG_MANY};

	roami_contract(count > 0 && roami_msg_named(node, type) != NULL);
	roami_wait(node, msg_has_room, &room);
	for (unsigned i = 0; i < count; i++) {
		asks[i].call = call_open(node, &(struct roami_call){.reply = asks[i].reply,
								    .reply_max = asks[i].reply_max,
								    .page = asks[i].page});
		many[i] = (struct msg_many){asks[i].call->id, 0, asks[i].what};
	}
	msg_put(node, asks[0].to, &header, &part, 1);
}

void roami_msg_ask(struct roami_node *node, unsigned type, struct roami_query *asks, unsigned count)
{
	roami_assert(count <= ROAMI_CALLS_AT_ONCE);
	for (unsigned at = 0, end; at < count; at = end) {
		for (end = at + 1; end < count && asks[end].to == asks[at].to; end++)
			;
		ask_one(node, type, asks + at, end - at);
	}
}

size_t roami_msg_answer(struct roami_node *node, struct roami_query *ask, bool *came_p)
{
	uint32_t page_at;
	size_t bytes = roami_msg_call_page_end(node, ask->call, &page_at);

	roami_contract(ask->call != NULL);
	*came_p = page_at != 0;
	return bytes;
}

void roami_msg_answers_set(struct roami_node *node, unsigned peer,
			   const struct roami_answers *answers)
{
	roami_assert(peer < node->nodes && answers != NULL);
	msg_of(node)->answers[peer] = answers;
}

const struct roami_answers *roami_msg_answers(const struct roami_node *node, unsigned peer)
{
	roami_assert(peer < node->nodes);
	return msg_of(node)->answers[peer];
}

/* How answers of a peer may bring a page. */
static unsigned msg_answers(const struct roami_node *node, unsigned from)
{
	const struct roami_answers *answers = msg_of(node)->answers[from];

	roami_contract(from < node->nodes);
	return ROAMI_ANSWER_PAGE | answers->left | answers->put;
}

static void msg_answered(struct roami_node *node, unsigned from, const struct msg_header *header,
			 const void *data)
{
	struct roami_call *call = &msg_of(node)->calls[header->call % ROAMI_CALLS_MAX];
	size_t page = msg_page_bytes(header), bytes = header->bytes - page;

	roami_contract(roami_msg_polling(node));
	if (atomic_load(&call->state) != 1 || call->id != header->call || header->bytes < page ||
	    bytes > call->reply_max ||
	    ((header->flags & ROAMI_ANSWERS) != 0 && call->page == NULL) ||
	    (header->flags & ROAMI_ANSWERS & ~msg_answers(node, from)) != 0)
		roami_node_fail(node, "node %u sent a malformed or unexpected reply", from);
	if (bytes > 0)
		memcpy(call->reply, data, bytes);
	if (page > 0) {
		memcpy(call->page, (const uint8_t *)data + bytes, page);
		call->page_at = 1;
	} else if ((header->flags & ROAMI_ANSWER_LEFT) != 0) {
		call->page_at = 2 + from;
	} else if ((header->flags & ROAMI_ANSWER_PUT) != 0) {
		call->page_at = 1;
	}
	call->bytes = bytes;
	atomic_store_explicit(&call->state, 2, memory_order_release);
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
	const struct msg_many *many = all->data;
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
	struct msg_header header;
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
	if (header.flags & FLAG_REPLY) {
		msg_answered(node, from, &header, (const uint8_t *)data + sizeof(header));
		return true;
	}
	if (header.bytes > type->bytes_max && (header.flags & FLAG_MANY) == 0)
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
	if (header.flags & FLAG_MANY)
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
