#include "base/layers.h"
#include "world_begin.h"

#include "base/region.h"
#include "dp/dp.h"
#include "home/home_state.h"
#include "home/provisional.h"
#include "link/link.h"
#include "link/reliable.h"
#include "lrc.h"
#include "msg/msg_state.h"
#include "page/page.h"
#include "rng.h"
#include "sync/log_state.h"
#include "sync/sync.h"
#include "sync/sync_state.h"
#include "world_past.h"

/* Weak: a build may leave it out. */
extern const struct roam_protocol roami_protocol_lrc __attribute__((weak));

#define BITS_32    (UINT64_C(1) << 32)
#define MARKS_END  (UINT64_C(1) << (32 - ROAMI_SHARED_BITS)) /* generations of marks as shared */
#define STAMPS_END (UINT64_C(1) << 40) /* ns, of datagrams' stamps */

/* A value so little below a boundary that a world passes it. */
static uint64_t begin_below(struct rng *rng, uint64_t boundary)
{
	return boundary - rng_range(rng, 1, 24);
}

/* Makes all nodes know everything that was released before the world began. */
static void begin_clocks(struct roami_node *const *nodes, unsigned count, struct rng *rng)
{
	uint64_t base = begin_below(rng, BITS_32);
	struct roami_vclock clock = {{0}};

	for (unsigned i = 0; i < count; i++)
		clock.at[i] = begin_below(rng, BITS_32);
	for (unsigned i = 0; i < count; i++) {
		struct roami_log *log = log_of(nodes[i]);

		log->seen = log->clock = log->floor = log->met = log->base = clock;
		log->base_number = base;
		for (unsigned peer = 0; peer < count; peer++)
			log->known[peer] = clock;
	}
}

/* Rings in segments: write notices, diffs, lists of newly shared pages. */
static void begin_rings(struct roami_node *const *nodes, unsigned count, struct rng *rng)
{
	for (unsigned i = 0; i < count; i++) {
		struct roami_node *node = nodes[i];

		log_of(node)->published = begin_below(rng, BITS_32);
		atomic_store(&node->self->ring->begun, log_of(node)->published);
		atomic_store(&node->self->ring->head, log_of(node)->published);
		home_of(node)->posts_head = begin_below(rng, BITS_32);
		atomic_store(&node->self->posts->begun, home_of(node)->posts_head);
		for (unsigned by = 0; by < count; by++) {
			uint64_t at = begin_below(rng, BITS_32);

			atomic_store(&node->self->tails[by].tail, at);
			atomic_store(&home_of(node)->share_head[by], at);
		}
	}
}

/* Records of locks and barriers, whichever objects get them later. */
static void begin_records(struct roami_node *const *nodes, unsigned count, struct rng *rng)
{
	const struct roami_records *records = &sync_of(nodes[0])->barrier_records;
	uint8_t *at = nodes[0]->self->base + records->at;

	for (uint32_t i = 0; i < records->slots; i++, at += records->item_bytes) {
		struct roami_departure *departure = (void *)(at +
							     roami_barrier_record_bytes(count));

		atomic_store(&departure->episode, begin_below(rng, BITS_32));
	}
	for (unsigned home = 0; home < count; home++) {
		records = &sync_of(nodes[home])->lock_records;
		at = nodes[home]->self->base + records->at;
		for (uint32_t i = 0; i < records->slots; i++, at += records->item_bytes) {
			struct roami_lock_record *record = (void *)at;

			atomic_store(&record->word, begin_below(rng, BITS_32) << 32);
		}
	}
}

/* Generations of the marks as shared; every node may become a home with marks. */
static void begin_marks(struct roami_node *const *nodes, unsigned count, struct rng *rng)
{
	for (unsigned i = 0; i < count; i++)
		for (uint32_t page = 0; page < nodes[i]->layout.pages; page++)
			atomic_store(&nodes[i]->self->headers[page].shared,
				     (uint32_t)(begin_below(rng, MARKS_END) << ROAMI_SHARED_BITS));
}

/* Makes a page's copies equally old everywhere; the keys of diffs go on from their versions. */
static void begin_keys(struct roami_node *const *nodes, unsigned count, struct rng *rng)
{
	for (uint32_t page = 0; page < nodes[0]->layout.pages; page++) {
		uint64_t key = begin_below(rng, BITS_32);

		for (unsigned i = 0; i < count; i++)
			if (roami_region_of(nodes[i], page)->protocol == &roami_protocol_lrc)
				lrc_page(nodes[i], page)->key = key;
	}
}

/* Objects are made when they are first used. */
static void begin_lock(struct roami_node *node, void *item)
{
	struct roami_lock *lock = item;

	roami_lock_make(node, item);
	lock->tickets = UINT32_MAX - (uint32_t)(lock->id / 8 % 8);
	lock->next_after = lock->tickets;
	lock->scope.number = lock->scope.applied = lock->tickets;
	atomic_store(&lock->serving, lock->tickets);
}

static void begin_barrier(struct roami_node *node, void *item)
{
	struct roami_barrier *barrier = item;

	(void)node;
	barrier->departed = UINT32_MAX - (uint32_t)(barrier->id / 8 % 8);
}

static void begin_counts(struct roami_node *node, struct rng *rng)
{
	sync_of(node)->locks.make = begin_lock;
	sync_of(node)->barriers.make = begin_barrier;
	for (unsigned i = 0; i < ROAMI_THREADS_MAX; i++) {
		sync_of(node)->cond_turn[i] = (uint32_t)begin_below(rng, BITS_32);
		sync_of(node)->cond_done[i] = sync_of(node)->cond_turn[i];
	}
	msg_of(node)->call_serial = (uint32_t)begin_below(rng, ROAMI_CALL_SERIALS);
	msg_of(node)->polls = (uint32_t)begin_below(rng, BITS_32);
	pages_of(node)->barriers_left = begin_below(rng, BITS_32);
	provisional_of(node)->epoch = begin_below(rng, BITS_32);
	roami_dp_of(node)->generations = UINT32_MAX - node->me % 4;
}

/* Datagrams from one node to another: the number of each, and that of its payload. */
static void begin_link(struct roami_link *from, struct roami_link *to, struct rng *rng)
{
	uint64_t granted = from->credit - from->first;

	from->first = from->next = from->end = from->recover = to->expect =
		begin_below(rng, BITS_32);
	from->credit = from->first + granted;
	from->seal.number = to->seal.end = begin_below(rng, BITS_32);
}

static struct roami_reliable *begin_reliable(struct roami_node *node)
{
	for (unsigned i = 0; i < ROAMI_LAYERS_MAX; i++)
		if (layers_of(node)->all[i].transport == &roami_transport_reliable)
			return layers_of(node)->all[i].state;
	return NULL;
}

uint64_t world_begin_now(uint64_t seed)
{
	struct rng rng = {seed ^ 0x5ba3};

	return STAMPS_END - rng_below(&rng, 2000000);
}

void world_begin(struct roami_node *const *nodes, const struct world_config *config)
{
	struct rng state = {config->seed ^ 0xbe91}, *rng = &state;
	unsigned count = config->nodes;
	/* Begins equal on all nodes: some protocols rely on that before the first message. */
	uint64_t version = begin_below(rng, UINT64_C(1) << 48);
	uint32_t epoch = config->begin_epochs ? ROAM_EPOCH_MAX - rng_below(rng, 4) : 0;
	uint64_t tuples = config->begin_tuples ? begin_below(rng, BITS_32) : 0;

	begin_clocks(nodes, count, rng);
	begin_rings(nodes, count, rng);
	begin_records(nodes, count, rng);
	begin_marks(nodes, count, rng);
	begin_keys(nodes, count, rng);
	for (unsigned i = 0; i < count; i++) {
		struct roami_reliable *reliable = begin_reliable(nodes[i]);

		begin_counts(nodes[i], rng);
		world_past_begin(nodes[i], tuples, rng);
		home_of(nodes[i])->version_begin = version;
		home_of(nodes[i])->epoch_begin = epoch;
		for (unsigned peer = 0; reliable != NULL && peer < count; peer++)
			if (peer != i)
				begin_link(&reliable->links[peer],
					   &begin_reliable(nodes[peer])->links[i], rng);
	}
}
