#include "home/placement.h"

#include <string.h>

#include "base/region.h"
#include "home/home_state.h"
#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/staging.h"

#define PART_LEAST 8u /* pages; see placement_marks */

/* ----------------------------------------------------------------------------------- the pools */

enum { PARTS_LOOK, PARTS_TAKE, PARTS_PUT, PARTS_FREE, PARTS_ROOTS };

void roami_parts_apply(struct roami_node *node, unsigned by, const struct roami_parts_ask *ask,
		       const struct roami_vclock *clock, struct roami_parts_answer *answer)
{
	struct roami_heap_parts *pool = &node->segments[0].pool[ask->region];
	struct roami_spin *lock = (void *)&pool->lock;
	bool used = false;

	roami_assert(pool != NULL && ask->region < node->region_count && by < node->nodes);
	memset(answer, 0, sizeof(*answer));
	if (ask->what == PARTS_LOOK) {
		struct roami_heap_part part = roami_heap_parts_look(pool, ask->first);

		*answer = (struct roami_parts_answer){1,          ask->first, part.used,
						part.state, part.node,  0,        part.interval};
		return;
	}
	if (ask->what == PARTS_ROOTS) {
		if (ask->interval != 0)
			atomic_store(&pool->roots, ask->interval);
		answer->interval = atomic_load(&pool->roots);
		return;
	}
	roami_spin_lock(node, lock);
	if (ask->what == PARTS_TAKE)
		answer->done = roami_heap_parts_take(pool, ask->parts, ask->flag != 0, by, clock,
						     &answer->first, &used);
	else if (ask->what == PARTS_PUT)
		roami_heap_parts_put(pool, ask->first, ask->parts, ask->flag != 0, by,
				     ask->interval);
	else
		answer->done = roami_heap_parts_free(pool, ask->first, by, ask->interval);
	roami_spin_unlock(lock);
	answer->used = used;
}

static void parts_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_parts_ask ask;
	struct roami_parts_answer answer;
	struct roam_part part = {&answer, sizeof(answer)};
	struct roami_vclock clock = {{0}};
	size_t clock_bytes = request->bytes - sizeof(ask);
	uint32_t count;

	if (node->me == 0 && request->bytes >= sizeof(ask))
		memcpy(&ask, request->data, sizeof(ask));
	if (node->me != 0 || request->bytes < sizeof(ask) ||
	    (ask.what == PARTS_TAKE) != (clock_bytes > 0) ||
	    roami_vclock_decode(&clock, node->nodes, (const uint8_t *)request->data + sizeof(ask),
				clock_bytes) != clock_bytes)
		roami_node_fail(node, "node %u: malformed request to the heap pool", request->from);
	if (ask.region >= node->region_count)
		count = 0;
	else if (ask.what == PARTS_ROOTS) /* it is about no part */
		count = ask.interval < node->layout.heap_bytes ? 1 : 0;
	else
		count = node->self->pool[ask.region].count;
	if (ask.what > PARTS_ROOTS || ask.first >= count || ask.parts > count - ask.first)
		roami_node_fail(node, "node %u asked for parts beyond the heap", request->from);
	roami_parts_apply(node, request->from, &ask, &clock, &answer);
	roami_reply(node, request, &part, 1);
}

struct roami_heap_part roami_parts_look(struct roami_node *node, unsigned region, uint32_t part)
{
	struct roami_parts_ask ask = {.what = PARTS_LOOK, .region = region, .first = part};
	struct roami_parts_answer answer;

	roami_assert(region < node->region_count);
	node->reach[0]->parts(node, &ask, NULL, &answer);
	if (answer.state > ROAMI_HEAP_PARTS_REST ||
	    (answer.node >= node->nodes && answer.node != ROAMI_HEAP_PARTS_NOBODY))
		roami_node_fail(node, "node 0: malformed reply from the heap pool");
	return (struct roami_heap_part){(enum roami_heap_parts_state)answer.state, answer.used != 0,
					answer.node, answer.interval};
}

bool roami_parts_take(struct roami_node *node, unsigned region, uint32_t parts, bool block,
		      const struct roami_vclock *clock, uint32_t *first_p, bool *used_p)
{
	struct roami_parts_ask ask = {
		.what = PARTS_TAKE, .region = region, .parts = parts, .flag = block};
	struct roami_parts_answer answer;
	uint32_t count = node->self->pool[region].count;

	roami_assert(region < node->region_count && parts > 0);
	node->reach[0]->parts(node, &ask, clock, &answer);
	if (answer.done != 0 && (answer.first >= count || parts > count - answer.first))
		roami_node_fail(node, "node 0: malformed reply from the heap pool");
	*first_p = answer.first;
	*used_p = answer.used != 0;
	return answer.done != 0;
}

void roami_parts_put(struct roami_node *node, unsigned region, uint32_t first, uint32_t parts,
		     bool used, uint64_t interval)
{
	struct roami_parts_ask ask = {PARTS_PUT, region, first, parts, used, 0, interval};
	struct roami_parts_answer answer;

	roami_assert(region < node->region_count && parts > 0);
	node->reach[0]->parts(node, &ask, NULL, &answer);
}

bool roami_parts_free(struct roami_node *node, unsigned region, uint32_t first, uint64_t interval)
{
	struct roami_parts_ask ask = {PARTS_FREE, region, first, 0, 0, 0, interval};
	struct roami_parts_answer answer;

	roami_assert(region < node->region_count);
	node->reach[0]->parts(node, &ask, NULL, &answer);
	return answer.done != 0;
}

uint64_t roami_parts_roots(struct roami_node *node, uint64_t set)
{
	struct roami_parts_ask ask = {.what = PARTS_ROOTS, .interval = set};
	struct roami_parts_answer answer;

	roami_assert(set < node->layout.heap_bytes);
	node->reach[0]->parts(node, &ask, NULL, &answer);
	if (answer.interval >= node->layout.heap_bytes)
		roami_node_fail(node, "node 0: malformed reply from the heap pool");
	return answer.interval;
}

/* -------------------------------------------------------------------------------------- places */

static unsigned place_home(const struct roami_placement *place, uint32_t i, unsigned nodes)
{
	roami_assert(i < place->pages && nodes > 0);
	if (place->policy == ROAM_PLACE_BLOCK)
		return (unsigned)((uint64_t)i * nodes / place->pages);
	return (place->policy == ROAM_PLACE_CYCLIC ? i : place->home) % nodes;
}

bool roami_placement_has_option(struct roami_node *node, const struct roami_placement *place)
{
	bool has = false;

	roami_assert(place->pages <= node->layout.pages - place->page);
	for (uint32_t i = 0; i < place->pages; i++)
		has |= atomic_load(&node->self->headers[place->page + i].option) >=
		       ROAMI_OPTION_OWN;
	return has;
}

void roami_placement_option(const struct roami_segment *there, const struct roami_placement *place)
{
	for (uint32_t i = 0; place->option != 0 && i < place->pages; i++)
		atomic_store(&there->headers[place->page + i].option, place->option);
}

uint64_t roami_page_option(struct roami_node *node, uint32_t page, uint64_t otherwise)
{
	uint64_t option = atomic_load_explicit(&node->self->headers[page].option,
					       memory_order_relaxed);

	roami_assert(roami_region_of(node, page)->protocol->region_option != NULL);
	return option >= ROAMI_OPTION_OWN ? option - ROAMI_OPTION_OWN : otherwise;
}

/*
 * Where runs of claims end: a block's beginning, the page behind it, with which a block that is
 * placed later may begin, and the beginnings of as many equal parts as there are nodes.  Most
 * programs divide arrays so; a node that is early would become home of pages that the next one is
 * about to write, and diffs of them would travel for ever.
 *
 * Marks those of `manager` in the headers of the segment `there`.  true: one was not marked yet.
 */
static bool placement_marks(const struct roami_segment *there, uint32_t heap, unsigned manager,
			    unsigned nodes, const struct roami_placement *place)
{
	unsigned parts = place->pages >= nodes * PART_LEAST ? nodes : 1;
	uint32_t all = ROAMI_HEADER_BLOCK;

	for (unsigned part = 0; part <= parts; part++) {
		uint32_t page = place->page + (uint32_t)((uint64_t)part * place->pages / parts);

		if (page < heap && roami_page_manager(page, nodes) == manager)
			all &= atomic_fetch_or(&there->headers[page].where, ROAMI_HEADER_BLOCK);
	}
	return all == 0;
}

/* Takes the list; how many there are.  The lock is held. */
static uint32_t untold_take(struct roami_home *home, struct roami_placement *list)
{
	uint32_t count = atomic_load(&home->untold_count);

	memcpy(list, home->untold, count * sizeof(*list));
	atomic_store(&home->untold_count, 0);
	return count;
}

/* Those of one manager that follow each other in one message: mostly all. */
static void untold_send(struct roami_node *node, const struct roami_placement *list, uint32_t count)
{
	unsigned type = roami_type(node, ROAMI_ROOM_PARTS, ROAMI_HEAP_PARTS_BEGIN);

	for (uint32_t first = 0, end; first < count; first = end) {
		struct roam_part part = {&list[first], 0};

		for (end = first; end < count && list[end].home == list[first].home; end++)
			part.bytes += sizeof(*list);
		roami_msg_send(node, list[first].home, type, &part, 1);
	}
}

void roami_placement_begins(struct roami_node *node, unsigned manager,
			    const struct roami_placement *place)
{
	struct roami_placement list[ROAMI_UNTOLD_MAX];
	struct roami_home *home = home_of(node);
	bool is_long = place->pages >= node->nodes * PART_LEAST;
	uint32_t count;

	roami_assert(manager < node->nodes && manager != node->me && place->pages > 0);
	if (!placement_marks(node->self, node->layout.pages, manager, node->nodes, place))
		return;
	roami_spin_lock(node, &home->untold_lock);
	count = atomic_load(&home->untold_count);
	home->untold[count] = *place;
	home->untold[count].home = manager;
	atomic_store(&home->untold_count, ++count);
	count = is_long || count == ROAMI_UNTOLD_MAX ? untold_take(home, list) : 0;
	roami_spin_unlock(&home->untold_lock);
	untold_send(node, list, count);
}

void roami_placement_tell(struct roami_node *node)
{
	struct roami_placement list[ROAMI_UNTOLD_MAX];
	struct roami_home *home = home_of(node);
	uint32_t count;

	if (atomic_load(&home->untold_count) == 0)
		return;
	roami_spin_lock(node, &home->untold_lock);
	count = untold_take(home, list);
	roami_spin_unlock(&home->untold_lock);
	untold_send(node, list, count);
}

void roami_placement_words(const struct roami_segment *there, uint32_t heap, unsigned manager,
			   unsigned nodes, const struct roami_placement *place)
{
	roami_assert(manager < nodes && place->pages > 0);
	roami_placement_option(there, place);
	placement_marks(there, heap, manager, nodes, place);
	if (place->policy == ROAM_PLACE_FIRST_TOUCH)
		return;
	for (uint32_t i = 0; i < place->pages; i++) {
		uint64_t nobody = ROAMI_WORD_CREATOR;

		if (roami_page_manager(place->page + i, nodes) == manager)
			atomic_compare_exchange_strong(&there->directory[place->page + i], &nobody,
						       ROAMI_WORD_ASSIGNED |
							       place_home(place, i, nodes));
	}
}

void roami_placement_all(struct roami_node *node, const struct roami_placement *place)
{
	roami_assert(place->pages <= node->layout.pages - place->page);
	for (unsigned manager = 0; manager < node->nodes; manager++)
		node->reach[manager]->place(node, manager, place);
}

/* Fails if a node must not have sent it. */
static void place_check(struct roami_node *node, unsigned from, const struct roami_placement *place)
{
	if (place->policy > ROAM_PLACE_NODE || place->page >= node->layout.pages ||
	    place->pages == 0 || place->pages > node->layout.pages - place->page)
		roami_node_fail(node, "node %u placed pages beyond the heap", from);
	if (place->option != 0 &&
	    (roami_region_of(node, place->page)->protocol->region_option == NULL ||
	     roami_region_of(node, place->page) !=
		     roami_region_of(node, place->page + place->pages - 1)))
		roami_node_fail(node, "node %u set an option on pages that cannot have it", from);
}

/* Placements that a node has sent: one, or several. */
static void place_apply(struct roami_node *node, const struct roam_request *request)
{
	const uint8_t *data = request->data;
	struct roami_placement place;

	if (request->bytes == 0 || request->bytes % sizeof(place) != 0)
		roami_node_fail(node, "node %u: malformed placement request", request->from);
	for (size_t at = 0; at < request->bytes; at += sizeof(place)) {
		memcpy(&place, data + at, sizeof(place));
		place_check(node, request->from, &place);
		roami_placement_words(node->self, node->layout.pages, node->me, node->nodes,
				      &place);
	}
}

static void place_handle(struct roami_node *node, const struct roam_request *request)
{
	place_apply(node, request);
	roami_reply(node, request, NULL, 0);
}

/* ------------------------------------------------------------------------------------ messages */

static const struct roam_message parts_messages[] = {
	[ROAMI_HEAP_PARTS_ASK] = {"parts", parts_handle, 1024},
	[ROAMI_HEAP_PARTS_PLACE] = {"place", place_handle, sizeof(struct roami_placement)},
	[ROAMI_HEAP_PARTS_BEGIN] = {"begin", place_apply,
				    ROAMI_UNTOLD_MAX * sizeof(struct roami_placement)},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_parts = {.name = "parts", .messages = parts_messages};
