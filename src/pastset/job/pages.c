/*
 * Storage in pages.  First, Last and the waiting are the owner's as ever, but the tuples' bytes lie
 * in the shared heap, under a lock of the element's, and travel as the heap's pages do under their
 * protocol.  A mover asks for room, writes the bytes, and then moves what lies there; an observer
 * is told where his tuple lies, reads it, and lets go of it.
 *
 * Room is handed out as for other elements, from a pool whose own memory stays unused: a place in
 * it is the place in the heap.
 */
#include "msg/msg.h"
#include "page/page.h"
#include "pastset/job/client.h"
#include "pastset/job/server.h"
#include "sync/sync.h"

/* The lock's id, which no address of a program's has. */
static uint64_t pages_lock(uint64_t heap)
{
	return 1ull << 62 | heap;
}

/* Where a record's bytes are: the pool does not use its first block. */
static uint64_t pages_at(const struct roam_ps_element *element, roami_record record)
{
	return element->heap + record - ROAMI_PAST_SKIPPED;
}

static void pages_rele(struct roam_ps_element *element, roami_record record)
{
	struct roami_node *node = element->node;
	struct roami_let_go ask = {record, element->element, 0};
	struct roam_part part = {&ask, sizeof(ask)};
	struct roami_past *past = roami_past_of(node);

	if (element->owner == node->me)
		roami_record_rele(node, roami_past_element(past, element->element)->pool, record);
	else
		roami_msg_send(node, element->owner, past->types + ROAMI_PAST_RELE, &part,
			       1);
}

static enum roam_err pages_move(struct roam_ps_element *element, struct roam_ps_request *request)
{
	struct roami_node *node = element->node;
	struct roami_ask ask = roami_client_begin(element, request);
	roami_record record = 0;
	enum roam_err err;

	ask.op = ROAMI_ASK_RESERVE;
	ask.number = request->bytes;
	ask.flags = ROAMI_ASK_RECORD;
	err = roami_client_ask(element, &ask, request, &record);
	if (err != ROAM_OK)
		return err;
	err = roami_lock(node, pages_lock(element->heap));
	if (err != ROAM_OK) {
		pages_rele(element, record);
		return err;
	}
	roami_heap_store(node, pages_at(element, record), request->tuple, request->bytes);
	roami_unlock(node, pages_lock(element->heap));
	ask = roami_client_begin(element, request);
	ask.flags |= ROAMI_ASK_RECORD;
	return roami_client_ask(element, &ask, request, &record);
}

static enum roam_err pages_observe(struct roam_ps_element *element, struct roam_ps_request *request)
{
	struct roami_node *node = element->node;
	struct roami_ask ask = roami_client_begin(element, request);
	roami_record record = 0;
	enum roam_err err;

	ask.flags |= ROAMI_ASK_RECORD;
	err = roami_client_ask(element, &ask, request, &record);
	if (err != ROAM_OK)
		return err;
	err = roami_lock(node, pages_lock(element->heap));
	if (err == ROAM_OK) {
		roami_heap_load(node, pages_at(element, record), request->buffer, request->got);
		roami_unlock(node, pages_lock(element->heap));
	}
	pages_rele(element, record);
	return err;
}

enum roam_err roami_pages_do(struct roam_ps_element *element, struct roam_ps_request *request)
{
	return request->op == ROAM_PS_MOVE ? pages_move(element, request)
					   : pages_observe(element, request);
}
