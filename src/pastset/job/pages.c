/*
 * The route to an element with its tuples in pages.  First, Last and the queue are the owner's, as
 * of every element, but the tuples' bytes lie in the shared heap, under a lock of the element's
 * own, and travel as the heap's pages do under their protocol.  A mover reserves room at the owner,
 * writes the bytes, and then moves the record; an observer is told which record it has got, reads
 * the bytes, and lets go of the record.
 *
 * The owner hands out room as for other elements, from an allocator whose own memory stays unused:
 * a record's place in it is its place in the heap.
 */
#include "msg/msg.h"
#include "page/page.h"
#include "pastset/job/client.h"
#include "sync/sync.h"

/* The lock's id, which no address of a program's has. */
static uint64_t pages_lock(uint64_t heap)
{
	return 1ull << 62 | heap;
}

/* Where a record's bytes are: the allocator does not use its first block. */
static uint64_t pages_at(const struct roam_ps_element *element, roami_record record)
{
	roami_assert(element->heap != ROAMI_NO_HEAP && record >= ROAMI_PAST_SKIPPED);
	return element->heap + record - ROAMI_PAST_SKIPPED;
}

static enum roam_err pages_move(struct roam_ps_element *element, struct roam_ps_request *request)
{
	struct roami_node *node = element->node;
	struct roami_ask ask = roami_client_make(element, request);
	roami_record record = 0;
	enum roam_err err;

	ask.op = ROAMI_ASK_RESERVE;
	ask.number = request->bytes;
	ask.flags = ROAMI_ASK_RECORD;
	err = element->owner_route->record(element, &ask, request, &record);
	if (err != ROAM_OK)
		return err;
	err = roami_lock(node, pages_lock(element->heap));
	if (err != ROAM_OK) {
		element->owner_route->rele(element, record);
		return err;
	}
	roami_heap_store(node, pages_at(element, record), request->tuple, request->bytes);
	roami_unlock(node, pages_lock(element->heap));
	ask = roami_client_make(element, request);
	ask.flags |= ROAMI_ASK_RECORD;
	return element->owner_route->record(element, &ask, request, &record);
}

static enum roam_err pages_observe(struct roam_ps_element *element, struct roam_ps_request *request)
{
	struct roami_node *node = element->node;
	struct roami_ask ask = roami_client_make(element, request);
	roami_record record = 0;
	enum roam_err err;

	ask.flags |= ROAMI_ASK_RECORD;
	err = element->owner_route->record(element, &ask, request, &record);
	if (err != ROAM_OK)
		return err;
	err = roami_lock(node, pages_lock(element->heap));
	if (err == ROAM_OK) {
		roami_heap_load(node, pages_at(element, record), request->buffer, request->got);
		roami_unlock(node, pages_lock(element->heap));
	}
	element->owner_route->rele(element, record);
	return err;
}

/* A move or an observe is done in parts, a mob as a move and an observe, the rest by the owner. */
static enum roam_err pages_call(struct roam_ps_element *element, struct roam_ps_request *request)
{
	bool moves = request->op == ROAM_PS_MOVE, observes = request->op == ROAM_PS_OBSERVE;
	enum roam_err err = roami_client_check(element, request);

	if (request->which == ROAM_PS_MATCH && (observes || request->op == ROAM_PS_MOB))
		err = ROAM_EINVAL;
	if (err != ROAM_OK)
		return err;
	if (request->op == ROAM_PS_MOB)
		return roami_client_apart(element, request);
	if (!moves && !observes)
		return element->owner_route->call(element, request);
	err = ROAM_EAGAIN;
	if (element->owner_route->begin(element))
		err = moves ? pages_move(element, request) : pages_observe(element, request);
	element->owner_route->end(element);
	return err;
}

const struct roami_ps_route roami_route_pages = {
	.call = pages_call,
	.leave = roami_client_leave,
	.now = roami_client_now,
};
