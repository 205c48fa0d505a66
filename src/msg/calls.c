/* Calls: one, or several at a time by a protocol; and requests passed on unchanged. */
#include "base/region.h"
#include "msg/msg.h"

_Static_assert(ROAM_PAGES_ONCE <= ROAMI_CALLS_AT_ONCE, "calls about pages");

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
