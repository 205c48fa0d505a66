#include "home/far.h"

#include <string.h>

#include "base/region.h"
#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/staging.h"
#include "sync/log.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* --------------------------------------------------------------------------------------- state */

struct state_change {
	uint32_t state;
	uint32_t spare;
	uint64_t value;
};

static void state_apply(struct roami_ctl *ctl, const struct state_change *change)
{
	switch ((enum roami_state)change->state) {
	case ROAMI_STATE_THREADS:
		atomic_fetch_add(&ctl->threads, (uint32_t)change->value);
		break;
	case ROAMI_STATE_RETURNED:
		atomic_store(&ctl->returned, (uint32_t)change->value);
		break;
	case ROAMI_STATE_ALLOC_HASH:
		atomic_store(&ctl->alloc_hash, change->value);
		break;
	case ROAMI_STATE_JOINED:
		atomic_store(&ctl->joined, (uint32_t)change->value);
		break;
	case ROAMI_STATES:
		break;
	}
}

void roami_state_set(struct roami_node *node, enum roami_state state, uint64_t value, bool at_once)
{
	struct state_change change = {state, 0, value};
	struct roam_part part = {&change, sizeof(change)};
	struct roami_call *calls[ROAMI_NODES_MAX];

	state_apply(node->self->ctl, &change);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		calls[peer] = node->reach[peer]->tell(
			node, peer, ROAMI_TYPE_SYNC + ROAMI_SYNC_STATE, &part, at_once);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		if (calls[peer] != NULL)
			roami_msg_call_end(node, calls[peer]);
}

/* Of a node that cannot write here itself. */
static struct roami_ctl *state_of(struct roami_node *node, const struct roam_request *request)
{
	if (roami_reach_ctl(node, request->from) != NULL)
		roami_node_fail(node, "node %u, whose state is seen, sent it", request->from);
	return node->segments[request->from].ctl;
}

void roami_state_handle(struct roami_node *node, const struct roam_request *request)
{
	struct state_change change;
	struct roami_ctl *ctl = state_of(node, request);

	if (request->bytes != sizeof(change))
		roami_node_fail(node, "node %u sent a malformed state", request->from);
	memcpy(&change, request->data, sizeof(change));
	if (change.state >= ROAMI_STATES)
		roami_node_fail(node, "node %u sent an unknown state", request->from);
	state_apply(ctl, &change);
	if (change.state == ROAMI_STATE_RETURNED)
		roami_barrier_handle_ended(node, request);
	if (request->call != 0)
		roami_reply(node, request, NULL, 0);
}

struct state_sums {
	uint64_t values[ROAMI_STATS_COUNT];
	uint64_t types[ROAMI_STATS_TYPES_MAX];
	uint64_t wall_ns;
	uint64_t wall_cycles;
	uint64_t peak_kb;
};

void roami_state_stats(struct roami_node *node)
{
	const struct roami_stats *stats = node->stats;
	struct state_sums sums;
	struct roam_part part = {&sums, sizeof(sums)};

	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		sums.values[i] = roami_stats_sum(stats, i);
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		sums.types[i] = roami_stats_sum_type(stats, i);
	sums.wall_ns = atomic_load(&stats->wall_ns);
	sums.wall_cycles = atomic_load(&stats->wall_cycles);
	sums.peak_kb = atomic_load(&stats->peak_kb);
	node->reach[0]->tell(node, 0, ROAMI_TYPE_SYNC + ROAMI_SYNC_STATS, &part, false);
}

void roami_stats_handle(struct roami_node *node, const struct roam_request *request)
{
	struct state_sums sums;
	struct roami_stats *stats = &state_of(node, request)->stats;

	if (request->bytes != sizeof(sums))
		roami_node_fail(node, "node %u sent malformed counters", request->from);
	memcpy(&sums, request->data, sizeof(sums));
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		atomic_store(&stats->banks[0].values[i], sums.values[i]);
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		atomic_store(&stats->banks[0].types[i], sums.types[i]);
	atomic_store(&stats->start_ns, 1);
	atomic_store(&stats->wall_ns, sums.wall_ns);
	atomic_store(&stats->wall_cycles, sums.wall_cycles);
	atomic_store(&stats->peak_kb, sums.peak_kb);
}

/* ----------------------------------------------------------------------------------- the pools */

enum { PARTS_LOOK, PARTS_TAKE, PARTS_PUT, PARTS_FREE };

void roami_parts_apply(struct roami_node *node, unsigned by, const struct roami_parts_ask *ask,
		       const struct roami_vclock *clock, struct roami_parts_answer *answer)
{
	struct roami_pool *pool = &node->segments[0].pool[ask->domain];
	struct roami_spin *lock = (void *)&pool->lock;
	bool used = false;

	memset(answer, 0, sizeof(*answer));
	if (ask->what == PARTS_LOOK) {
		struct roami_pool_part part = roami_pool_look(pool, ask->first);

		*answer = (struct roami_parts_answer){1,          ask->first, part.used,
						part.state, part.node,  0,        part.interval};
		return;
	}
	roami_spin_lock(node, lock);
	if (ask->what == PARTS_TAKE)
		answer->done = roami_pool_take(pool, ask->parts, ask->flag != 0, by, clock,
					       &answer->first, &used);
	else if (ask->what == PARTS_PUT)
		roami_pool_put(pool, ask->first, ask->parts, ask->flag != 0, by, ask->interval);
	else
		answer->done = roami_pool_free(pool, ask->first, by, ask->interval);
	roami_spin_unlock(lock);
	answer->used = used;
}

void roami_parts_handle(struct roami_node *node, const struct roam_request *request)
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
		roami_node_fail(node, "node %u sent a malformed request", request->from);
	count = ask.domain < node->domain_count ? node->self->pool[ask.domain].count : 0;
	if (ask.what > PARTS_FREE || ask.first >= count || ask.parts > count - ask.first)
		roami_node_fail(node, "node %u asked for parts beyond the heap", request->from);
	roami_parts_apply(node, request->from, &ask, &clock, &answer);
	roami_reply(node, request, &part, 1);
}

struct roami_pool_part roami_parts_look(struct roami_node *node, unsigned domain, uint32_t part)
{
	struct roami_parts_ask ask = {.what = PARTS_LOOK, .domain = domain, .first = part};
	struct roami_parts_answer answer;

	node->reach[0]->parts(node, &ask, NULL, &answer);
	if (answer.state > ROAMI_POOL_REST ||
	    (answer.node >= node->nodes && answer.node != ROAMI_POOL_NOBODY))
		roami_node_fail(node, "node 0 sent a malformed answer about the heap");
	return (struct roami_pool_part){(enum roami_pool_state)answer.state, answer.used != 0,
					answer.node, answer.interval};
}

bool roami_parts_take(struct roami_node *node, unsigned domain, uint32_t parts, bool block,
		      uint32_t *first_p, bool *used_p)
{
	struct roami_parts_ask ask = {
		.what = PARTS_TAKE, .domain = domain, .parts = parts, .flag = block};
	struct roami_parts_answer answer;
	uint32_t count = node->self->pool[domain].count;
	struct roami_vclock clock;

	roami_log_reuse_clock(node, &clock);
	node->reach[0]->parts(node, &ask, &clock, &answer);
	if (answer.done != 0 && (answer.first >= count || parts > count - answer.first))
		roami_node_fail(node, "node 0 sent a malformed answer about the heap");
	*first_p = answer.first;
	*used_p = answer.used != 0;
	return answer.done != 0;
}

void roami_parts_put(struct roami_node *node, unsigned domain, uint32_t first, uint32_t parts,
		     bool used, uint64_t interval)
{
	struct roami_parts_ask ask = {PARTS_PUT, domain, first, parts, used, 0, interval};
	struct roami_parts_answer answer;

	node->reach[0]->parts(node, &ask, NULL, &answer);
}

bool roami_parts_free(struct roami_node *node, unsigned domain, uint32_t first, uint64_t interval)
{
	struct roami_parts_ask ask = {PARTS_FREE, domain, first, 0, 0, 0, interval};
	struct roami_parts_answer answer;

	node->reach[0]->parts(node, &ask, NULL, &answer);
	return answer.done != 0;
}

/* -------------------------------------------------------------------------------------- places */

static unsigned place_home(const struct roami_place *place, uint32_t i, unsigned nodes)
{
	if (place->place == ROAM_PLACE_BLOCK)
		return (unsigned)((uint64_t)i * nodes / place->pages);
	return (place->place == ROAM_PLACE_CYCLIC ? i : place->home) % nodes;
}

bool roami_place_has_option(struct roami_node *node, const struct roami_place *place)
{
	bool has = false;

	for (uint32_t i = 0; i < place->pages; i++)
		has |= atomic_load(&node->self->headers[place->page + i].version) >=
		       ROAMI_OPTION_OWN;
	return has;
}

void roami_place_option(const struct roami_segment *there, const struct roami_place *place)
{
	for (uint32_t i = 0; place->option != 0 && i < place->pages; i++)
		atomic_store(&there->headers[place->page + i].version, place->option);
}

uint64_t roami_page_option(struct roami_node *node, uint32_t page, uint64_t otherwise)
{
	uint64_t option = atomic_load_explicit(&node->self->headers[page].version,
					       memory_order_relaxed);

	roami_assert(roami_domain_of(node, page)->protocol->region_option != NULL);
	return option >= ROAMI_OPTION_OWN ? option - ROAMI_OPTION_OWN : otherwise;
}

void roami_place_words(const struct roami_segment *there, unsigned manager, unsigned nodes,
		       const struct roami_place *place)
{
	roami_place_option(there, place);
	if (roami_page_manager(place->page, nodes) == manager)
		atomic_fetch_or(&there->headers[place->page].where, ROAMI_HEADER_BLOCK);
	if (place->place == ROAM_PLACE_FIRST_TOUCH)
		return;
	for (uint32_t i = 0; i < place->pages; i++) {
		uint64_t nobody = ROAMI_WORD_CREATOR;

		if (roami_page_manager(place->page + i, nodes) == manager)
			atomic_compare_exchange_strong(&there->directory[place->page + i], &nobody,
						       ROAMI_WORD_ASSIGNED |
							       place_home(place, i, nodes));
	}
}

void roami_place_all(struct roami_node *node, const struct roami_place *place)
{
	for (unsigned manager = 0; manager < node->nodes; manager++)
		node->reach[manager]->place(node, manager, place);
}

void roami_place_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_place place;

	if (request->bytes != sizeof(place))
		roami_node_fail(node, "node %u sent a malformed place", request->from);
	memcpy(&place, request->data, sizeof(place));
	if (place.place > ROAM_PLACE_NODE || place.page >= node->layout.pages || place.pages == 0 ||
	    place.pages > node->layout.pages - place.page)
		roami_node_fail(node, "node %u placed pages beyond the heap", request->from);
	if (place.option != 0 &&
	    (roami_domain_of(node, place.page)->protocol->region_option == NULL ||
	     roami_domain_of(node, place.page) !=
		     roami_domain_of(node, place.page + place.pages - 1)))
		roami_node_fail(node, "node %u gave pages an option that they cannot have",
				request->from);
	roami_place_words(node->self, node->me, node->nodes, &place);
	roami_reply(node, request, NULL, 0);
}

/* ----------------------------------------------------------------------------------- many pages */

void roami_words_read(struct roami_node *node, uint32_t first, uint32_t count, uint64_t *words)
{
	unsigned manager = roami_manager(node, first);

	roami_assert(count <= ROAMI_WORDS_MAX && roami_manager(node, first + count - 1) == manager);
	node->reach[manager]->words(node, manager, first, count, words);
}

void roami_words_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_words_ask ask;
	uint64_t words[ROAMI_WORDS_MAX];
	struct roam_part part = {words, 0};

	if (request->bytes != sizeof(ask))
		roami_node_fail(node, "node %u sent a short request", request->from);
	memcpy(&ask, request->data, sizeof(ask));
	if (ask.count > ROAMI_WORDS_MAX || ask.first >= node->layout.pages ||
	    ask.count > node->layout.pages - ask.first)
		roami_node_fail(node, "node %u asked for pages beyond the heap", request->from);
	node->reach[node->me]->words(node, node->me, ask.first, ask.count, words);
	part.bytes = ask.count * sizeof(words[0]);
	roami_reply(node, request, &part, 1);
}

void roami_raw_ask(struct roami_node *node, struct roami_query *asks, struct roami_raw_head *heads,
		   unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		asks[i].reply = &heads[i];
		asks[i].reply_max = sizeof(heads[i]);
	}
	roami_msg_ask(node, ROAMI_TYPE_MEMORY + ROAMI_MEMORY_RAW, asks, count);
}

void roami_raw_answer(struct roami_node *node, struct roami_query *ask)
{
	const struct roami_raw_head *head = ask->reply;
	bool came;

	if (roami_msg_answer(node, ask, &came) != sizeof(*head) || !came || head->page != ask->what)
		roami_node_fail(node, "node %u sent no page", ask->to);
}

void roami_raw_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_raw_head head = {0, 0};
	struct roam_part parts[2] = {{&head, sizeof(head)}, {NULL, ROAMI_PAGE}};

	if (request->bytes >= sizeof(head.page))
		memcpy(&head.page, request->data, sizeof(head.page));
	if (request->bytes < sizeof(head.page) || head.page >= node->layout.pages)
		roami_node_fail(node, "node %u asked for a page beyond the heap", request->from);
	parts[1].data = roami_page_bytes(node, (uint32_t)head.page);
	roami_msg_reply_bytes(node, request, parts, 2);
}

/* Awaits a part that was asked for, if any was. */
static void raw_land(struct roami_node *node, struct roami_raw_part *part)
{
	struct roami_landing landing = {.count = 0};

	for (uint32_t i = 0; i < part->count; i++) {
		struct roami_query *ask = &part->asks[i];

		roami_raw_answer(node, ask);
		roami_landing_add(node, &landing, (uint32_t)ask->what, part->slot + i, ask->page,
				  false);
	}
	roami_landing_end(node, &landing);
	part->count = 0;
}

/* Asks for the part that was filled, then awaits the other one, which is filled next. */
static void raw_turn(struct roami_node *node, struct roami_raw *raw)
{
	struct roami_raw_part *part = &raw->parts[raw->turn];

	if (part->count > 0)
		roami_raw_ask(node, part->asks, part->heads, part->count);
	raw->turn ^= 1;
	raw_land(node, &raw->parts[raw->turn]);
}

void roami_raw_begin(struct roami_raw *raw)
{
	raw->turn = 0;
	for (unsigned i = 0; i < 2; i++) {
		raw->parts[i].slot = i * ROAMI_RAW_AT_ONCE;
		raw->parts[i].count = 0;
	}
}

void roami_raw_add(struct roami_node *node, struct roami_raw *raw, unsigned from, uint32_t page)
{
	struct roami_raw_part *part = &raw->parts[raw->turn];

	part->asks[part->count] = (struct roami_query){
		.to = from,
		.what = page,
		.page = roami_landing_room(node, page, part->slot + part->count)};
	if (++part->count == ROAMI_RAW_AT_ONCE)
		raw_turn(node, raw);
}

void roami_raw_end(struct roami_node *node, struct roami_raw *raw)
{
	raw_turn(node, raw);
	raw_turn(node, raw);
}
