#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/region.h"
#include "base/thread.h"
#include "dp/dp.h"
#include "fault/soft.h"
#include "home/card.h"
#include "home/remote.h"
#include "link/seal.h"
#include "msg/msg.h"
#include "msg/msg_state.h"
#include "page/page.h"
#include "pastset/job/server.h"
#include "run/open.h"
#include "sync/log_state.h"
#include "sync/state.h"
#include "sync/sync.h"
#include "world_begin.h"
#include "world_memory.h"
#include "world_state.h"

#define FIBERS_MAX   (ROAMI_NODES_MAX * (WORLD_THREADS_MAX + 1))
#define STACK_BYTES  (320u * 1024)
#define STUCK_NS     50000u /* pause until a full queue is looked at again, as with real threads */
#define LATE_LOOKS   256u
#define FAR_BYTES(config) ((config)->nodes * (config)->nodes * sizeof(struct roami_far))

extern const struct roami_fault_engine roami_fault_soft;

static const char *const fiber_state_names[] = {"runs",   "waits", "serves",
						"sleeps", "rests", "is done"};

/* ----------------------------------------------------------------------------------- switching */

__attribute__((noreturn)) static void fiber_stop(struct world_fiber *fiber)
{
	roami_fiber_exit(fiber->fiber, fiber->world->scheduler);
}

void world_fail(struct world *world, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(world->error, sizeof(world->error), format, args);
	va_end(args);
	world->failed = true;
	if (world->current == NULL) {
		fprintf(stderr, "world: %s\n", world->error);
		abort();
	}
	fiber_stop(world->current);
}

static uint64_t sim_now(void *world)
{
	return ((struct world *)world)->now;
}

static uint64_t sim_draw(void *world, uint64_t limit)
{
	return rng_next(&((struct world *)world)->rng) % limit;
}

static void sim_landed(void *world, unsigned node)
{
	world_env.sleep->changed(((struct world *)world)->nodes[node], node, ROAMI_NO_TICKET);
}

/* ------------------------------------------------------------------------------------- opening */

/* The segment of the node that manages a page. */
static struct roami_segment *world_manager(struct world *world, uint32_t page)
{
	return world->nodes[roami_manager(world->nodes[0], page)]->self;
}

/* Places a page by a word of its directory, as roam_alloc_placed does. */
static void world_place_page(struct world *world, uint32_t page)
{
	unsigned home = world_home(&world->config, &world->rng, page, world->layout.pages);

	if (home != ROAM_NOBODY)
		atomic_store(&world_manager(world, page)->directory[page],
			     ROAMI_WORD_ASSIGNED | home);
}

/* Gives the creator's pages bytes, marked as src/job does; some pages stay zero and unmarked. */
static void world_creator_page(struct world *world, struct rng *rng, uint32_t page)
{
	uint8_t *bytes = world->initial + page * ROAMI_PAGE;

	if (page >= world->config.creator_pages || rng_one_in(rng, 4))
		return;
	for (size_t at = 0; at < ROAMI_PAGE; at += sizeof(uint64_t)) {
		uint64_t word = rng_next(rng);

		memcpy(bytes + at, &word, sizeof(word));
	}
	memcpy(roami_page_bytes(world->nodes[0], page), bytes, ROAMI_PAGE);
	atomic_fetch_or(&world->nodes[0]->self->headers[page].where, ROAMI_HEADER_BYTES);
}

static void world_heap(struct world *world)
{
	struct rng rng = {world->config.seed ^ 0x5eed};

	for (uint32_t page = 0; page < world->layout.pages; page++) {
		world_creator_page(world, &rng, page);
		world_place_page(world, page);
		if (rng_one_in(&rng, 8))
			atomic_fetch_or(&world_manager(world, page)->headers[page].where,
					ROAMI_HEADER_BLOCK);
	}
}

/* The threads that a node has when it opens; those of a team are announced as they start. */
static unsigned world_threads(const struct world_config *config, unsigned node)
{
	return config->teams ? 1 : config->threads[node];
}

/*
 * Whether all nodes know that no thread will register: in half of the worlds whose nodes have one
 * thread each.
 */
static bool world_threads_fixed(const struct world_config *config)
{
	bool fixed = !config->teams && config->seed % 2 == 0;

	for (unsigned node = 0; node < config->nodes; node++)
		fixed = fixed && config->threads[node] == 1;
	return fixed;
}

static const struct roam_transport *world_transport(const struct world_config *config)
{
	if (config->lossy)
		return &roami_transport_sim_datagrams;
	return config->cards != 0 ? &roami_transport_sim_card : &roami_transport_sim;
}

/* Maps for a node the segments of its host; of other hosts' nodes it keeps what they tell. */
static void world_segments(struct world *world, unsigned me, void **bases,
			   struct roami_far **peers)
{
	for (unsigned peer = 0; peer < world->config.nodes; peer++) {
		peers[peer] = &world->far[me * world->config.nodes + peer];
		bases[peer] = NULL;
		if (world_together(&world->config, me, peer))
			bases[peer] = world->bases[peer];
		else
			atomic_store(&peers[peer]->ctl.threads,
				     world_threads(&world->config, peer));
	}
}

bool world_open_alone(struct roami_node *node, const struct roam_protocol *protocol)
{
	if (node->nodes > 1 || protocol->writes != ROAM_WRITES_DIFF ||
	    protocol->homes != ROAM_HOMES_NONE)
		return false;
	roami_fault_soft.protect(pages_of(node)->engine_state, 0, node->layout.pages, ROAM_NONE,
				 ROAM_WRITE);
	return true;
}

static bool world_node_open(struct world *world, unsigned me)
{
	static const uint8_t key[ROAMI_KEY_BYTES] = "the key of every world";
	struct world_place *place = &world->places[me];
	struct roami_far *peers[ROAMI_NODES_MAX];
	void *bases[ROAMI_NODES_MAX];
	struct roami_node_params params = {
		.me = me,
		.nodes = world->config.nodes,
		.options = &world->options,
		.env = &world_env,
		.env_state = place,
		.protocol = world->config.protocol,
		.regions = world->config.regions,
		.engine = &roami_fault_soft,
		.transport = world_transport(&world->config),
		.world = &world->sim,
		.layout = world->layout,
		.bases = bases,
		.peers = peers,
		.app = (uint8_t *)world->bases[me] + world->layout.heap,
		.fd = -1,
		.creator_pages = world->config.creator_pages,
		.near = world_near(&world->config, me),
		.read = world_read(&world->config, me),
		.key = key,
		.boot = world->config.seed,
		.extensions = (const struct roami_room *const[]){&roami_past_room,
								&roami_dp_extension, NULL},
	};
	enum roam_err err;

	world_segments(world, me, bases, peers);
	err = roami_node_open(&world->nodes[me], &params);
	if (err == ROAM_OK)
		return true;
	fprintf(stderr, "world: node %u does not open: %s\n", me, roam_strerror(err));
	return false;
}

/* The first thread of a team tells how many there are, while the others begin. */
static void fiber_joins(struct world_fiber *fiber)
{
	const struct world_config *config = &fiber->world->config;
	struct roami_node *node = fiber->world->nodes[fiber->node];

	roami_thread_self(node)->mate = fiber->thread;
	if (fiber->thread == 0)
		roami_state_set(node, ROAMI_STATE_THREADS, config->threads[fiber->node] - 1, true);
}

static void fiber_main(void *arg)
{
	struct world_fiber *fiber = arg;

	if (fiber->world->config.teams && !fiber->service)
		fiber_joins(fiber);
	fiber->fn(fiber->arg);
	fiber->state = FIBER_DONE;
	fiber->world->apps--;
	fiber_stop(fiber);
}

static void service_main(void *arg)
{
	struct roami_node *node = arg;
	struct world_fiber *fiber = world_of(node)->current;

	for (;;) {
		if (roami_msg_poll(node) > 0)
			continue;
		fiber->state = FIBER_SERVICE;
		fiber->wake = fiber->world->now + STUCK_NS;
		world_give_way(fiber);
		fiber->state = FIBER_RUNNABLE;
	}
}

static struct world_fiber *world_fiber_add(struct world *world, unsigned node, bool service,
					   void (*fn)(void *arg), void *arg)
{
	struct world_fiber *fiber = &world->fibers[world->fiber_count];

	roami_assert(world->fiber_count < FIBERS_MAX);
	*fiber = (struct world_fiber){
		.world = world, .node = node, .service = service, .until = ROAMI_FOREVER,
		.ticket = ROAMI_NO_TICKET,
		.fn = fn, .arg = arg};
	fiber->thread = service ? WORLD_THREADS_MAX : world->places[node].threads++;
	fiber->fiber = roami_fiber_create(STACK_BYTES, fiber_main, fiber);
	if (fiber->fiber == NULL) {
		perror("world: fiber");
		abort();
	}
	world->fiber_count++;
	return fiber;
}

struct world *world_open(const struct world_config *config)
{
	struct world *world = calloc(1, sizeof(*world));
	size_t own_pages = config->heap_pages - config->region_count * config->region_pages +
			   config->alloc_pages * config->nodes;
	uint64_t latency = config->latency_ns_min != 0 ? config->latency_ns_min : 50;

	if (world == NULL)
		return NULL;
	world_memory_open();
	world->config = *config;
	if (roami_homes_everywhere(config->protocol)) /* that no other host has */
		world->config.hosts = 1;
	world->rng.state = config->seed * 0x9e3779b97f4a7c15u + 77;
	world->now = world->began = config->begin ? world_begin_now(config->seed) : 1000;
	world->tick_ns = 1 + rng_below(&world->rng, 100);
	world->sim = (struct roami_sim){.world = world,
					.now = sim_now,
					.draw = sim_draw,
					.queue_max = config->queue_max,
					.latency_ns_min = latency,
					.latency_ns_max = latency + config->latency_ns_max,
					.slow_ns = config->slow_ns,
					.slow_from = config->slow_from,
					.slow_to = config->slow_to,
					.read_ns_max = config->read_ns_max,
					.reads_max = config->reads_max,
					.read_fails = config->read_fails,
					.landed = sim_landed,
					.datagram_max = config->datagram_max,
					.room = config->room};
	world_options(config, &world->options);
	roami_layout_make_regions(&world->layout,
				  own_pages * ROAMI_PAGE, config->nodes, config->region_count,
				  config->region_pages * ROAMI_PAGE, ROAMI_PAGE);
	world_layout(config, &world->layout);
	world->initial = roami_os_reserve(world->layout.pages * ROAMI_PAGE);
	world->fibers = calloc(FIBERS_MAX, sizeof(*world->fibers));
	world->far = roami_os_reserve(FAR_BYTES(config));
	world->scheduler = roami_fiber_thread();
	for (unsigned i = 0; i < config->nodes; i++) {
		world->places[i].world = world;
		world->bases[i] = roami_os_reserve(world->layout.total);
	}
	for (unsigned i = 0; i < config->nodes; i++) {
		if (world->bases[i] == NULL || !world_node_open(world, i)) {
			world_close(world);
			return NULL;
		}
		if (config->announced_writes != 0)
			card_of(world->nodes[i])->writes_max = config->announced_writes;
		log_of(world->nodes[i])->compact_sooner = config->compact_sooner;
		atomic_store(&world->nodes[i]->self->ctl->threads, world_threads(config, i));
		if (config->teams && roami_team_set(world->nodes[i], config->threads[i]) != ROAM_OK)
			abort();
		roami_barrier_fix(world->nodes[i], world_threads_fixed(config));
		world_fiber_add(world, i, true, service_main, world->nodes[i]);
	}
	world->open = world_open_alone(world->nodes[0], config->protocol);
	if (config->begin)
		world_begin(world->nodes, config);
	world_heap(world);
	return world;
}

void world_close(struct world *world)
{
	for (unsigned i = 0; i < world->fiber_count; i++)
		roami_fiber_destroy(world->fibers[i].fiber);
	for (unsigned i = 0; i < world->config.nodes; i++)
		roami_node_close(world->nodes[i]);
	for (unsigned i = 0; i < world->config.nodes; i++)
		roami_os_unmap(world->bases[i], world->layout.total);
	roami_os_unmap(world->far, FAR_BYTES(&world->config));
	roami_os_unmap(world->initial, world->layout.pages * ROAMI_PAGE);
	roami_fiber_destroy(world->scheduler);
	roami_sim_land_none(&world->sim);
	world_memory_close();
	free(world->fibers);
	free(world);
}

/* -------------------------------------------------------------------------------------- fibers */

void world_spawn(struct world *world, unsigned node, void (*fn)(void *arg), void *arg)
{
	world_fiber_add(world, node, false, fn, arg);
	world->apps++;
}

void world_doing(struct world *world, const char *what, uint64_t number)
{
	struct world_fiber *fiber = world->current;

	fiber->doing = what;
	fiber->number = number;
	if (world->config.trace)
		printf("%10lu  node %u thread %u: %s %#lx\n", (unsigned long)world->now,
		       fiber->node, fiber->thread, what, (unsigned long)number);
}

void world_sleep(struct world *world, uint64_t ns)
{
	struct world_fiber *fiber = world->current;

	fiber->state = FIBER_SLEEPING;
	fiber->wake = world->now + ns;
	world_give_way(fiber);
	fiber->state = FIBER_RUNNABLE;
}

/* ---------------------------------------------------------------------------------- scheduling */

static bool node_can_poll(struct roami_node *node)
{
	return atomic_load_explicit(&msg_of(node)->poll_lock.held, memory_order_relaxed) == 0 &&
	       roami_msg_pending(node);
}

static bool fiber_can_poll(const struct world *world, const struct world_fiber *fiber)
{
	struct roami_node *node = world->nodes[fiber->node];

	return node_can_poll(node) || (fiber->wake <= world->now && roami_msg_stuck(node));
}

static bool fiber_can_run(struct world *world, struct world_fiber *fiber)
{
	switch (fiber->state) {
	case FIBER_RUNNABLE:
		return true;
	case FIBER_WAITING:
		return fiber->notified || fiber->until <= world->now ||
		       (fiber->ticket == ROAMI_NO_TICKET && fiber_can_poll(world, fiber));
	case FIBER_SERVICE:
		return fiber_can_poll(world, fiber);
	case FIBER_SLEEPING:
		return fiber->wake <= world->now;
	default:
		return false;
	}
}

/* When something may change by itself; UINT64_MAX: never. */
static uint64_t world_next(struct world *world)
{
	uint64_t next = roami_sim_land_due(&world->sim);

	for (unsigned i = 0; i < world->config.nodes; i++) {
		uint64_t due = roami_sim_due(&world->sim, i);
		uint64_t delayed = roami_msg_due(world->nodes[i]);

		if (due > world->now && due < next)
			next = due;
		if (delayed > world->now && delayed < next)
			next = delayed;
	}
	for (unsigned i = 0; i < world->fiber_count; i++) {
		struct world_fiber *fiber = &world->fibers[i];
		bool timed = fiber->state == FIBER_SLEEPING ||
			     ((fiber->state == FIBER_SERVICE || fiber->state == FIBER_WAITING) &&
			      roami_msg_stuck(world->nodes[fiber->node]));

		if (timed && fiber->wake > world->now && fiber->wake < next)
			next = fiber->wake;
		if (fiber->state == FIBER_WAITING && fiber->until > world->now &&
		    fiber->until < next)
			next = fiber->until;
	}
	return next;
}

static void world_report(struct world *world, const char *why)
{
	char *at = world->error, *end = world->error + sizeof(world->error);

	world->failed = true;
	at += snprintf(at, (size_t)(end - at), "%s at %lu ns, step %lu", why,
		       (unsigned long)world->now, (unsigned long)world->steps);
	for (unsigned i = 0; i < world->fiber_count && end - at > 200; i++) {
		struct world_fiber *fiber = &world->fibers[i];
		struct roami_ctl *ctl = world->nodes[fiber->node]->self->ctl;
		struct roami_waiting *waits = &ctl->waits[fiber->thread % ROAMI_WAITS_MAX];

		if (fiber->service || fiber->state == FIBER_DONE)
			continue;
		at += snprintf(at, (size_t)(end - at),
			       "\n  node %u thread %u %s: %s %#lx (waits: kind %d, %#lx)%s",
			       fiber->node, fiber->thread, fiber_state_names[fiber->state],
			       fiber->doing == NULL ? "-" : fiber->doing,
			       (unsigned long)fiber->number, (int)atomic_load(&waits->kind) - 1,
			       (unsigned long)atomic_load(&waits->id),
			       fiber->notified ? ", notified" : "");
	}
}

static struct world_fiber *world_pick(struct world *world)
{
	struct world_fiber *ready[FIBERS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < world->fiber_count; i++)
		if (fiber_can_run(world, &world->fibers[i]))
			ready[count++] = &world->fibers[i];
	return count == 0 ? NULL : ready[rng_below(&world->rng, count)];
}

static void world_turn(struct world *world)
{
	struct world_fiber *fiber;
	uint64_t next;

	roami_sim_land(&world->sim);
	fiber = world_pick(world);
	if (fiber == NULL) {
		next = world_next(world);
		if (next == UINT64_MAX)
			world_report(world, "deadlock");
		else
			world->now = next;
		return;
	}
	world->current = fiber;
	roami_fiber_switch(world->scheduler, fiber->fiber);
	world->current = NULL;
	world->now += rng_below(&world->rng, (uint32_t)(2 * world->tick_ns)) + 1;
	if (++world->steps > world->config.steps_max)
		world_report(world, "no end in sight");
}

/* Checks the invariants of one region, if any node has touched it. */
static void world_check_region(struct world *world, unsigned index)
{
	const struct roam_protocol *protocol = world->nodes[0]->regions[index].protocol;
	unsigned *current = world_env.region(world->nodes[0]), was = *current;
	bool active = false;

	for (unsigned i = 0; i < world->config.nodes; i++)
		active |= atomic_load(&world->nodes[i]->regions[index].active) != 0;
	if (!active || protocol->check == NULL)
		return;
	for (unsigned i = 0; i < world->config.nodes; i++)
		roami_region_enter(world->nodes[i], &world->nodes[i]->regions[index]);
	protocol->check(world->nodes, world->config.nodes);
	*current = was;
}

static void world_check(struct world *world)
{
	for (unsigned i = 0; i < world->nodes[0]->region_count; i++)
		world_check_region(world, i);
}

bool world_run(struct world *world)
{
	while (world->apps > 0 && !world->failed)
		world_turn(world);
	if (!world->failed)
		world_check(world);
	return !world->failed;
}

const char *world_error(const struct world *world)
{
	return world->error;
}

/* ------------------------------------------------------------------------------------- at rest */

static uint32_t rest_differs_at(const uint8_t *a, const uint8_t *b)
{
	uint32_t at = 0;

	while (a[at] == b[at])
		at++;
	return at;
}

/* Checks that after a full barrier all copies that may be read are the same. */
static void rest_compare(struct world *world, uint32_t page)
{
	struct roami_node *first = NULL;

	for (unsigned i = 0; i < world->config.nodes; i++) {
		struct roami_node *node = world->nodes[i];

		if (roami_soft_access(pages_of(node)->engine_state, page) == ROAM_NONE)
			continue;
		if (first == NULL)
			first = node;
		else if (memcmp(roami_page_bytes(first, page), roami_page_bytes(node, page),
				ROAMI_PAGE) != 0)
			world_fail(world,
				   "page %u differs at nodes %u and %u, both may read it, from "
				   "offset %u on",
				   page, first->me, i,
				   rest_differs_at(roami_page_bytes(first, page),
						   roami_page_bytes(node, page)));
	}
}

static void rest_access(struct world *world, uint32_t page)
{
	for (unsigned i = 0; i < world->config.nodes && !world->open; i++) {
		struct roami_node *node = world->nodes[i];

		if (roami_soft_access(pages_of(node)->engine_state, page) !=
		    roami_page_access(node, page))
			world_fail(world,
				   "page %u at node %u: the table says access %d, the engine %d",
				   page, i, roami_page_access(node, page),
				   roami_soft_access(pages_of(node)->engine_state, page));
	}
}

/* Checks the count of cached copies, by which their number is bounded. */
static void rest_cached(struct world *world, unsigned index)
{
	struct roami_node *node = world->nodes[index];
	uint32_t cached = 0;

	for (uint32_t page = 0; page < world->layout.pages; page++)
		cached += roami_page_access(node, page) != ROAM_NONE &&
			  !roami_page_is_home(node, page);
	if (cached != atomic_load(&pages_of(node)->cached))
		world_fail(world, "node %u has %u copies, and counts %u", index, cached,
			   atomic_load(&pages_of(node)->cached));
}

void world_rest(struct world *world)
{
	struct world_fiber *fiber = world->current;

	if (++world->resting < world->apps) {
		fiber->state = FIBER_RESTING;
		world_give_way(fiber);
		fiber->state = FIBER_RUNNABLE;
		return;
	}
	world->resting = 0;
	world_check(world);
	for (uint32_t page = 0; page < world->layout.pages; page++) {
		rest_compare(world, page);
		rest_access(world, page);
	}
	for (unsigned i = 0; i < world->config.nodes; i++)
		rest_cached(world, i);
	for (unsigned i = 0; i < world->fiber_count; i++)
		if (world->fibers[i].state == FIBER_RESTING)
			world->fibers[i].state = FIBER_RUNNABLE;
}

/* -------------------------------------------------------------------------------------- access */

/*
 * Handles a fault of the fiber's access; in late worlds it tries again only when the page is gone.
 */
static void access_fault(struct roami_node *node, uint64_t offset, bool write)
{
	struct world *world = world_of(node);
	bool known = world->config.kind_known;
	enum roam_access needed = write ? ROAM_WRITE : ROAM_READ;
	uint32_t page = (uint32_t)(offset / ROAMI_PAGE);
	uint64_t until;

	roami_fault(node, page, write && known, known);
	until = world->now + world->config.late_ns;
	while (world->now < until &&
	       roami_soft_access(pages_of(node)->engine_state, page) >= needed)
		world_sleep(world, world->config.late_ns / LATE_LOOKS);
	roami_step(node);
}

void world_load(struct roami_node *node, uint64_t offset, void *out, size_t bytes)
{
	roami_step(node);
	while (!roami_soft_load(pages_of(node)->engine_state, offset, out, bytes))
		access_fault(node, offset, false);
	world_of(node)->current->made++;
}

void world_store(struct roami_node *node, uint64_t offset, const void *in, size_t bytes)
{
	roami_step(node);
	while (!roami_soft_store(pages_of(node)->engine_state, offset, in, bytes))
		access_fault(node, offset, true);
	world_of(node)->current->made++;
}

void world_move(struct roami_node *node, uint64_t to, uint64_t from)
{
	void *soft = pages_of(node)->engine_state;
	uint32_t word;

	roami_step(node);
	while (!roami_soft_load(soft, from, &word, sizeof(word)) ||
	       !roami_soft_store(soft, to, &word, sizeof(word))) {
		bool write = roami_soft_access(soft, (uint32_t)(from / ROAMI_PAGE)) != ROAM_NONE;

		access_fault(node, write ? to : from, write);
	}
	world_of(node)->current->made++;
}

struct roami_node *world_node(struct world *world, unsigned node)
{
	return world->nodes[node];
}

uint64_t world_now(const struct world *world)
{
	return world->now;
}

uint64_t world_elapsed(const struct world *world)
{
	return world->now - world->began;
}

uint64_t world_steps(const struct world *world)
{
	return world->steps;
}

struct rng *world_rng(struct world *world)
{
	return &world->rng;
}

const uint8_t *world_initial(const struct world *world)
{
	return world->initial;
}

uint64_t world_count(struct world *world, enum roami_stat stat)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < world->config.nodes; i++)
		sum += roami_stats_sum(world->nodes[i]->stats, stat);
	return sum;
}
