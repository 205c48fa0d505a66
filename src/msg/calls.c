/*
 * Calls: requests whose senders wait for the answer, one or several at a time; and requests that
 * are passed on unchanged.
 */
#include <string.h>

#include "base/region.h"
#include "msg/msg_state.h"

#define OUT_LIMIT (1u << 20) /* bytes queued for one peer above which application threads wait */

_Static_assert(ROAM_PAGES_ONCE <= ROAMI_CALLS_AT_ONCE, "calls about pages");

static size_t msg_page_bytes(const struct roami_msg_header *header)
{
	return header->flags & ROAMI_ANSWER_PAGE ? ROAMI_PAGE : 0;
}

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
	struct roami_msg_header header = {(uint16_t)type, (uint16_t)node->me, 0,
					  roami_msg_bytes(parts, count), 0};

	roami_contract(roami_msg_named(node, type) != NULL);
	roami_wait(node, msg_has_room, &room);
	call = call_open(node, wanted);
	header.call = call->id;
	roami_msg_put(node, to, &header, parts, count);
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

struct roami_call *roami_msg_call_put(struct roami_node *node, unsigned to, unsigned type,
				      const struct roam_put *puts, unsigned count,
				      const struct roam_part *part, void *reply, size_t reply_max)
{
	struct roami_call wanted = {.reply = reply, .reply_max = reply_max};
	struct roami_call *call = call_open(node, &wanted);
	struct roami_msg_header header = {(uint16_t)type, (uint16_t)node->me, call->id,
					  roami_msg_bytes(part, 1), 0};

	roami_contract(part->data != NULL);
	if (roami_msg_put_behind(node, to, &header, puts, count, part))
		return call;
	roami_msg_call_drop(call);
	return NULL;
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
	struct roami_msg_many many[ROAMI_CALLS_AT_ONCE];
	struct roam_part part = {many, count * sizeof(many[0])};
	struct roami_msg_header header = {(uint16_t)type, (uint16_t)node->me, 0,
					  (uint32_t)part.bytes, ROAMI_MSG_MANY};

	roami_contract(count > 0 && roami_msg_named(node, type) != NULL);
	roami_wait(node, msg_has_room, &room);
	for (unsigned i = 0; i < count; i++) {
		asks[i].call = call_open(node, &(struct roami_call){.reply = asks[i].reply,
								    .reply_max = asks[i].reply_max,
								    .page = asks[i].page});
		many[i] = (struct roami_msg_many){asks[i].call->id, 0, asks[i].what};
	}
	roami_msg_put(node, asks[0].to, &header, &part, 1);
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

void roami_msg_answered(struct roami_node *node, unsigned from,
			const struct roami_msg_header *header, const void *data)
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

size_t roami_msg_call(struct roami_node *node, unsigned to, unsigned type,
		      const struct roam_part *parts, unsigned count, void *reply, size_t reply_max)
{
	size_t bytes;

	roami_contract(to < node->nodes);
	roami_wait_begin(node);
	bytes = roami_msg_call_end(node, roami_msg_call_start(node, to, type, parts, count, reply,
							      reply_max));
	roami_wait_end(node);
	return bytes;
}

void roami_msg_call_drop(struct roami_call *call)
{
	roami_assert(!roami_msg_call_answered(call));
	atomic_store_explicit(&call->state, 0, memory_order_release);
}

size_t roami_call(struct roami_node *node, unsigned to, unsigned type,
		  const struct roam_part *parts, unsigned count, void *reply, size_t reply_max)
{
	return roami_msg_call(node, to, roami_region_current(node)->types + type, parts, count,
			      reply, reply_max);
}

void roami_forward(struct roami_node *node, const struct roam_request *request, unsigned to,
		   unsigned type)
{
	struct roam_part part = {request->data, request->bytes};

	roami_contract(request->data != NULL || request->bytes == 0);
	roami_pass(node, request, to, type, &part, 1);
}

void roami_call_all(struct roami_node *node, struct roam_call *calls, unsigned count)
{
	struct roami_call *started[ROAMI_CALLS_AT_ONCE];
	unsigned types = roami_region_current(node)->types;

	roami_wait_begin(node);
	while (count > 0) {
		unsigned some = count < ROAMI_CALLS_AT_ONCE ? count : ROAMI_CALLS_AT_ONCE;

		for (unsigned i = 0; i < some; i++)
			started[i] = roami_msg_call_start(
				node, calls[i].to, types + calls[i].type, calls[i].parts,
				calls[i].count, calls[i].reply, calls[i].reply_max);
		for (unsigned i = 0; i < some; i++)
			calls[i].bytes = roami_msg_call_end(node, started[i]);
		calls += some;
		count -= some;
	}
	roami_wait_end(node);
}

void roami_call_each(struct roami_node *node, uint64_t nodes, unsigned type,
		     const struct roam_part *parts, unsigned count)
{
	struct roam_call calls[ROAMI_NODES_MAX];
	unsigned used = 0;

	roami_contract((nodes & ~roami_nodeset_first(node->nodes).bits) == 0);
	for (; nodes != 0; nodes &= nodes - 1)
		calls[used++] = (struct roam_call){(unsigned)__builtin_ctzll(nodes), type, parts,
						   count, NULL, 0, 0};
	roami_call_all(node, calls, used);
}
