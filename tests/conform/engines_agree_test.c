/*
 * Shows that the fault engine changes nothing but speed (rule 9.4): the same program, run under
 * soft, sigsegv and uffd, takes every page of every node through the same states for the same
 * causes, in the same order, and reads the same values.  Where homes move, pages requested at once
 * come in any order, so only each page's own order is compared.
 *
 * All nodes live in this process, one thread each; a baton goes from one to the next, so that a
 * run is decided by its seed alone.  The moves are seen from outside: the protocol and the engine
 * are wrapped, and after each of their calls the page table is compared with what it was.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault_rig.h"
#include "page/page.h"
#include "run/open.h"
#include "run/wait.h"
#include "sync/sync.h"

#define NODES    3u
#define PAGES    48u
#define WRAPPED_MAX 64u /* the most messages of a protocol */
#define STEPS    500u
#define SEEDS    12u
#define LOCKS    4u
#define LOCK_ID  0x1000u
#define OWN_ID   (LOCK_ID + 8 * LOCKS) /* for locks that only one node takes */
#define MOST     200000u     /* events of one node: with more, a page faults for ever */
#define CREATORS (PAGES / 2) /* pages that node 0 filled before CREATE */

extern const struct roam_transport roami_transport_shm;

/* --------------------------------------------------------------------------------- the program */

enum action { LOAD, STORE, LOAD_RUN, STORE_RUN, SECTION, AHEAD, BARRIER, ACTIONS };

struct step {
	enum action action;
	unsigned node; /* but for barriers */
	uint32_t page;
	uint32_t count;
	uint32_t stride;
	uint32_t at; /* in the page */
	uint8_t value;
};

static enum action draw_action(uint64_t *seed)
{
	static const enum action often[] = {LOAD,     LOAD,      LOAD,    STORE,   STORE, STORE,
					    LOAD_RUN, STORE_RUN, SECTION, SECTION, AHEAD, BARRIER};

	return often[unit_below(seed, sizeof(often) / sizeof(often[0]))];
}

static void draw_steps(uint64_t seed, struct step *steps)
{
	for (unsigned i = 0; i < STEPS; i++) {
		struct step *step = &steps[i];

		step->action = i == STEPS - 1 ? BARRIER : draw_action(&seed);
		step->node = (unsigned)unit_below(&seed, NODES);
		step->stride = 1 + (uint32_t)unit_below(&seed, 3);
		step->count = 1 + (uint32_t)unit_below(&seed, 9);
		step->page = (uint32_t)unit_below(&seed, PAGES - 3 * 9);
		if (unit_below(&seed, 2) == 0)
			step->page = (uint32_t)unit_below(&seed, 6); /* some are used by all */
		step->at = (uint32_t)unit_below(&seed, PAGE);
		step->value = (uint8_t)unit_random(&seed);
	}
}

/* ----------------------------------------------------------------------------------- the trace */

enum cause { READ_FAULT, WRITE_FAULT, RELEASE, ACQUIRE, EVICT, FETCH_AHEAD, MESSAGE, OUTSIDE };

static const char *const cause_names[] = {"a read fault", "a write fault", "a release",
					  "an acquire",   "an eviction",   "fetching ahead",
					  "a message",    "nothing seen"};

enum what { FAULT, PROTECT, MOVE, VALUE };

/* FAULT: write, known.  PROTECT: from, to, count.  MOVE: access and state, before and after. */
struct event {
	enum what what;
	uint32_t page;
	uint32_t count;
	enum cause cause;
	uint8_t old, new;
	uint8_t old_state, new_state;
};

struct seen {
	uint8_t access, state;
};

struct trace {
	struct roami_spin lock;
	struct event *events;
	size_t count;
	struct seen seen[PAGES];
	bool kind_known; /* every fault has told whether it was a write */
};

struct run {
	const struct roam_protocol *protocol;
	const struct roami_fault_engine *engine;
	bool hide_kind; /* soft is used as an engine that cannot tell reads from writes */
	struct roami_options options;
	struct roami_layout layout;
	const struct step *steps;
	void *bases[NODES];
	uint8_t *apps[NODES];
	int fds[NODES];
	struct roami_real reals[NODES];
	struct roami_node *nodes[NODES];
	struct trace traces[NODES];
	pthread_mutex_t baton;
	pthread_cond_t passed;
	unsigned turn;
	unsigned arrived;
	unsigned released; /* nodes, before barriers */
	_Atomic unsigned handling; /* handlers of the protocol's messages now running */
};

/* The present run: callbacks of protocols and signal handlers have no other way to find it. */
static struct run *now;
static struct roam_protocol wrapped_protocol;
static struct roam_message wrapped_messages[WRAPPED_MAX];
static struct roami_fault_engine wrapped_engine;

static void trace_add(struct trace *trace, const struct event *event)
{
	if (trace->count == MOST) {
		fprintf(stderr, "page %u faults for ever\n", event->page);
		abort();
	}
	trace->events[trace->count++] = *event;
}

static void trace_event(struct roami_node *node, const struct event *event)
{
	struct trace *trace = &now->traces[node->me];

	roami_spin_lock(node, &trace->lock);
	trace_add(trace, event);
	roami_spin_unlock(&trace->lock);
}

/* Notes what has moved since the last look. */
static void trace_look(struct roami_node *node, enum cause cause)
{
	struct trace *trace = &now->traces[node->me];

	roami_spin_lock(node, &trace->lock);
	for (uint32_t page = 0; page < PAGES; page++) {
		struct seen is = {(uint8_t)roami_page_access(node, page),
				  (uint8_t)roami_page_state(node, page)};
		struct seen was = trace->seen[page];

		if (is.access == was.access && is.state == was.state)
			continue;
		trace->seen[page] = is;
		trace_add(trace, &(struct event){MOVE, page, 1, cause, was.access, is.access,
						 was.state, is.state});
	}
	roami_spin_unlock(&trace->lock);
}

static bool event_covers(const struct event *event, uint32_t page)
{
	uint32_t count = event->what == PROTECT ? event->count : 1;

	return page >= event->page && page - event->page < count;
}

/* Joins a move that continues the one before it to that one. */
static bool event_goes_on(const struct trace *trace, const struct event *event)
{
	struct event *before = trace->count > 0 ? &trace->events[trace->count - 1] : NULL;

	if (before == NULL || event->what != MOVE || before->what != MOVE ||
	    before->page != event->page)
		return false;
	before->new = event->new;
	before->new_state = event->new_state;
	return true;
}

/*
 * Splits a node's events by page; a call of the engine is one event of each of its pages.  Where
 * several threads look, the machine decides which of them sees a move first, and in how many looks.
 */
static void trace_by_page(struct trace *trace)
{
	struct event *events = trace->events;
	size_t count = trace->count, most = 0;

	for (size_t i = 0; i < count; i++)
		most += events[i].what == PROTECT ? events[i].count : 1;
	trace->events = calloc(most + 1, sizeof(*events));
	if (trace->events == NULL)
		abort();
	trace->count = 0;
	for (uint32_t page = 0; page < PAGES; page++)
		for (size_t i = 0; i < count; i++) {
			struct event *event = &trace->events[trace->count];

			if (!event_covers(&events[i], page))
				continue;
			*event = events[i];
			event->page = page;
			event->cause = OUTSIDE;
			event->count = event->what == PROTECT ? 1 : event->count;
			if (!event_goes_on(trace, event))
				trace->count++;
		}
	free(events);
}

/* ------------------------------------------------------------------------ the wrapped protocol */

static void wrap_read_fault(struct roami_node *node, uint32_t page)
{
	now->protocol->read_fault(node, page);
	trace_look(node, READ_FAULT);
}

static void wrap_write_fault(struct roami_node *node, uint32_t page)
{
	now->protocol->write_fault(node, page);
	trace_look(node, WRITE_FAULT);
}

static void wrap_ahead(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	now->protocol->ahead(node, first, count, stride);
	trace_look(node, FETCH_AHEAD);
}

static void wrap_release(struct roami_node *node, const struct roam_sync *sync,
			 struct roam_dirty *dirty, size_t count)
{
	now->protocol->release(node, sync, dirty, count);
	trace_look(node, RELEASE);
}

static void wrap_acquire(struct roami_node *node, const struct roam_sync *sync,
			 const struct roam_notice *notices, size_t count)
{
	now->protocol->acquire(node, sync, notices, count);
	trace_look(node, ACQUIRE);
}

static bool wrap_evict(struct roami_node *node, uint32_t page)
{
	bool gone = now->protocol->evict(node, page);

	trace_look(node, EVICT);
	return gone;
}

static void wrap_handle(struct roami_node *node, const struct roam_request *request)
{
	atomic_fetch_add(&now->handling, 1);
	now->protocol->messages[request->type - node->regions[0].types].handle(node, request);
	/*
	 * No answer is waited for, because the other node may be in the middle of its own action.
	 */
	if (request->call != 0)
		trace_look(node, MESSAGE);
	atomic_fetch_sub(&now->handling, 1);
}

static void wrap_protocol(const struct roam_protocol *protocol)
{
	wrapped_protocol = *protocol;
	wrapped_protocol.read_fault = wrap_read_fault;
	if (protocol->write_fault != NULL)
		wrapped_protocol.write_fault = wrap_write_fault;
	if (protocol->ahead != NULL)
		wrapped_protocol.ahead = wrap_ahead;
	if (protocol->release != NULL)
		wrapped_protocol.release = wrap_release;
	if (protocol->acquire != NULL)
		wrapped_protocol.acquire = wrap_acquire;
	if (protocol->evict != NULL)
		wrapped_protocol.evict = wrap_evict;
	memset(wrapped_messages, 0, sizeof(wrapped_messages));
	if (protocol->messages == NULL)
		return;
	for (unsigned i = 0; protocol->messages[i].name != NULL; i++) {
		CU_ASSERT_FATAL(i + 1 < WRAPPED_MAX);
		wrapped_messages[i] = protocol->messages[i];
		wrapped_messages[i].handle = wrap_handle;
	}
	wrapped_protocol.messages = wrapped_messages;
}

/* -------------------------------------------------------------------------- the wrapped engine */

struct wrapped {
	struct roami_node *node;
	roami_fault_fn *fn;
	_Alignas(16) uint8_t inner[];
};

/* The handlers that answered must be over, too, as the next action must not race with their end. */
static void handlers_end(void)
{
	while (atomic_load(&now->handling) != 0)
		sched_yield();
}

static void wrap_fault(void *arg, uint32_t page, bool write, bool known)
{
	struct wrapped *wrapped = arg;
	struct roami_node *node = wrapped->node;
	enum cause cause = write ? WRITE_FAULT : READ_FAULT;

	if (!known)
		now->traces[node->me].kind_known = false;
	trace_event(node, &(struct event){FAULT, page, 1, cause, write, known, 0, 0});
	wrapped->fn(node, page, write, known);
	trace_look(node, cause);
	handlers_end();
}

static enum roam_err wrap_open(void *state, const struct roami_view *view, roami_fault_fn *fn,
			       void *arg)
{
	struct wrapped *wrapped = state;

	wrapped->node = arg;
	wrapped->fn = fn;
	return now->engine->open(wrapped->inner, view, wrap_fault, wrapped);
}

static void wrap_close(void *state)
{
	now->engine->close(((struct wrapped *)state)->inner);
}

static enum roam_err wrap_protect(void *state, uint32_t first, uint32_t count,
				  enum roam_access from, enum roam_access to)
{
	struct wrapped *wrapped = state;

	trace_event(wrapped->node, &(struct event){PROTECT, first, count, OUTSIDE, (uint8_t)from,
						   (uint8_t)to, 0, 0});
	return now->engine->protect(wrapped->inner, first, count, from, to);
}

static bool wrap_check(void *state)
{
	return now->engine->check_handlers(((struct wrapped *)state)->inner);
}

static void wrap_engine(const struct roami_fault_engine *engine)
{
	wrapped_engine = (struct roami_fault_engine){
		.name = engine->name,
		.state_size = sizeof(struct wrapped) + engine->state_size,
		.probe = engine->probe,
		.open = wrap_open,
		.close = wrap_close,
		.protect = wrap_protect,
		.check_handlers = wrap_check,
	};
}

/* ------------------------------------------------------------------------------- loads, stores */

static bool run_is_soft(const struct run *run)
{
	return strcmp(run->engine->name, "soft") == 0;
}

static void touch_soft(struct run *run, struct roami_node *node, size_t offset, uint8_t *byte,
		       bool write)
{
	struct wrapped *wrapped = pages_of(node)->engine_state;
	bool known = !run->hide_kind;

	while (!(write ? roami_soft_store(wrapped->inner, offset, byte, 1)
		       : roami_soft_load(wrapped->inner, offset, byte, 1)))
		wrap_fault(wrapped, (uint32_t)(offset / PAGE), write && known, known);
}

static void load(struct run *run, struct roami_node *node, uint32_t page, uint32_t at)
{
	size_t offset = page * PAGE + at;
	uint8_t value;

	if (run_is_soft(run))
		touch_soft(run, node, offset, &value, false);
	else
		value = *(volatile uint8_t *)(run->apps[node->me] + offset);
	trace_event(node, &(struct event){VALUE, page, at, OUTSIDE, value, 0, 0, 0});
}

static void store(struct run *run, struct roami_node *node, uint32_t page, uint32_t at,
		  uint8_t value)
{
	size_t offset = page * PAGE + at;

	if (run_is_soft(run))
		touch_soft(run, node, offset, &value, true);
	else
		*(volatile uint8_t *)(run->apps[node->me] + offset) = value;
}

/* ------------------------------------------------------------------------------------- a run */

static void section(struct run *run, struct roami_node *node, const struct step *step)
{
	uint64_t lock = LOCK_ID + 8 * (step->page % LOCKS);

	if (roami_lock(node, lock) != ROAM_OK)
		abort();
	load(run, node, step->page, step->at);
	store(run, node, step->page, step->at, step->value);
	store(run, node, step->page + step->stride, step->at, step->value);
	if (roami_unlock(node, lock) != ROAM_OK)
		abort();
}

static void act(struct run *run, struct roami_node *node, const struct step *step)
{
	uint32_t page = step->page;

	switch (step->action) {
	case LOAD:
		load(run, node, page, step->at);
		break;
	case STORE:
		store(run, node, page, step->at, step->value);
		break;
	case LOAD_RUN:
		for (uint32_t i = 0; i < step->count; i++, page += step->stride)
			load(run, node, page, step->at);
		break;
	case STORE_RUN:
		for (uint32_t i = 0; i < step->count; i++, page += step->stride)
			store(run, node, page, step->at, step->value);
		break;
	case SECTION:
		section(run, node, step);
		break;
	default:
		roami_prefetch(node, page, step->count);
	}
	trace_look(node, OUTSIDE);
}

/* Waits for turn `i`, and holds it on return. */
static void baton_take(struct run *run, unsigned i)
{
	pthread_mutex_lock(&run->baton);
	while (run->turn != i)
		pthread_cond_wait(&run->passed, &run->baton);
}

/* The last of `all` threads passes the turn on. */
static void baton_pass(struct run *run, unsigned all)
{
	handlers_end();
	if (++run->arrived == all) {
		run->arrived = 0;
		run->turn++;
		pthread_cond_broadcast(&run->passed);
	}
	pthread_mutex_unlock(&run->baton);
}

/*
 * Before a barrier the nodes release one after another, hot pages too.  At the barrier they would
 * all release at once, and their messages would come to other nodes before or after these nodes'
 * own releases.
 */
static void release_in_turn(struct run *run, struct roami_node *node)
{
	while (run->released % NODES != node->me)
		pthread_cond_wait(&run->passed, &run->baton);
	do
		if (roami_lock(node, OWN_ID + 8 * node->me) != ROAM_OK ||
		    roami_unlock(node, OWN_ID + 8 * node->me) != ROAM_OK)
			abort();
	while (atomic_load(&pages_of(node)->dirty_count) != 0);
	handlers_end();
	run->released++;
	pthread_cond_broadcast(&run->passed);
}

static void *node_main(void *arg)
{
	struct roami_node *node = arg;
	struct run *run = now;

	for (unsigned i = 0; i < STEPS; i++) {
		const struct step *step = &run->steps[i];

		if (step->action != BARRIER && step->node != node->me)
			continue;
		baton_take(run, i);
		if (step->action != BARRIER) {
			act(run, node, step);
			baton_pass(run, 1);
			continue;
		}
		release_in_turn(run, node);
		pthread_mutex_unlock(&run->baton);
		if (roami_barrier(node, ROAMI_ALL_ID, 0) != ROAM_OK)
			abort();
		trace_look(node, OUTSIDE);
		pthread_mutex_lock(&run->baton);
		baton_pass(run, NODES);
	}
	return NULL;
}

static void node_failed(struct roami_node *node, const char *text)
{
	fprintf(stderr, "node %u: %s\n", node->me, text);
	abort();
}

static void open_memory(struct run *run, unsigned me)
{
	size_t total = run->layout.total;

	run->fds[me] = roami_os_memfd("engines-agree", total);
	run->bases[me] = roami_os_map_fd(NULL, total, run->fds[me], 0);
	if (run->fds[me] < 0 || run->bases[me] == NULL)
		abort();
	run->apps[me] = (uint8_t *)run->bases[me] + run->layout.heap;
	if (!run_is_soft(run))
		run->apps[me] = roami_os_map_fd(NULL, run->layout.heap_bytes, run->fds[me],
						run->layout.heap);
	if (run->apps[me] == NULL)
		abort();
}

static void open_node(struct run *run, unsigned me)
{
	struct roami_node_params params = {
		.me = me,
		.nodes = NODES,
		.options = &run->options,
		.env = &roami_env_real,
		.env_state = &run->reals[me],
		.protocol = &wrapped_protocol,
		.engine = &wrapped_engine,
		.transport = &roami_transport_shm,
		.layout = run->layout,
		.bases = run->bases,
		.app = run->apps[me],
		.fd = run->fds[me],
		.creator_pages = CREATORS,
		.near = UINT64_MAX,
	};
	struct trace *trace = &run->traces[me];

	trace->events = malloc(MOST * sizeof(*trace->events));
	trace->kind_known = true;
	roami_real_init(&run->reals[me], NODES, 1, 20, 0);
	run->reals[me].on_fail = node_failed;
	if (trace->events == NULL || roami_node_open(&run->nodes[me], &params) != ROAM_OK)
		abort();
	atomic_store(&run->nodes[me]->self->ctl->threads, 1);
}

static void fill_creators(struct run *run)
{
	struct roami_node *node = run->nodes[0];

	for (uint32_t page = 0; page < CREATORS; page++) {
		memset(roami_page_bytes(node, page), (int)(page + 1), PAGE);
		atomic_fetch_or(&node->self->headers[page].where, ROAMI_HEADER_BYTES);
	}
}

static void run_open(struct run *run)
{
	now = run;
	wrap_protocol(run->protocol);
	wrap_engine(run->engine);
	roami_layout_make(&run->layout, PAGES * PAGE, NODES);
	pthread_mutex_init(&run->baton, NULL);
	pthread_cond_init(&run->passed, NULL);
	for (unsigned i = 0; i < NODES; i++)
		open_memory(run, i);
	for (unsigned i = 0; i < NODES; i++)
		open_node(run, i);
	fill_creators(run);
	for (unsigned i = 0; i < NODES; i++)
		if (roami_service_start(run->nodes[i]) != ROAM_OK)
			abort();
}

static void run_close(struct run *run)
{
	for (unsigned i = 0; i < NODES; i++)
		roami_service_stop(run->nodes[i]);
	for (unsigned i = 0; i < NODES; i++) {
		roami_node_close(run->nodes[i]);
		if (!run_is_soft(run))
			roami_os_unmap(run->apps[i], run->layout.heap_bytes);
		roami_os_unmap(run->bases[i], run->layout.total);
		close(run->fds[i]);
	}
	pthread_cond_destroy(&run->passed);
	pthread_mutex_destroy(&run->baton);
}

static struct run *run_make(const struct roam_protocol *protocol,
			    const struct roami_fault_engine *engine, bool hide_kind, uint64_t seed,
			    const struct step *steps)
{
	struct run *run = calloc(1, sizeof(*run));
	pthread_t threads[NODES];

	if (run == NULL)
		abort();
	run->protocol = protocol;
	run->engine = engine;
	run->hide_kind = hide_kind;
	run->steps = steps;
	roami_options_default(&run->options);
	run->options.prefetch = seed % 3 == 0 ? 0 : 8;
	/* Eviction would depend on the order in which pages come. */
	run->options.cache_pages = seed % 4 == 0 && !roami_homes_move(protocol) ? 6 : 0;
	run->options.hot = seed % 5 != 0;
	run_open(run);
	for (unsigned i = 0; i < NODES; i++)
		if (pthread_create(&threads[i], NULL, node_main, run->nodes[i]) != 0)
			abort();
	for (unsigned i = 0; i < NODES; i++)
		pthread_join(threads[i], NULL);
	run_close(run);
	for (unsigned i = 0; roami_homes_move(protocol) && i < NODES; i++)
		trace_by_page(&run->traces[i]);
	return run;
}

static void run_free(struct run *run)
{
	for (unsigned i = 0; i < NODES; i++)
		free(run->traces[i].events);
	free(run);
}

/* ----------------------------------------------------------------------------------- comparing */

static void event_print(const char *who, const struct trace *trace, size_t at)
{
	static const char *const names[] = {"fault", "protect", "move", "value"};
	const struct event *event = &trace->events[at];

	if (at >= trace->count)
		printf("  %-8s ends\n", who);
	else
		printf("  %-8s %s of page %u (%u), %u -> %u, state %u -> %u, by %s\n", who,
		       names[event->what], event->page, event->count, event->old, event->new,
		       event->old_state, event->new_state, cause_names[event->cause]);
}

static bool traces_agree(const struct run *expected, const struct run *run, unsigned node)
{
	const struct trace *a = &expected->traces[node], *b = &run->traces[node];
	size_t at = 0;

	while (at < a->count && at < b->count &&
	       memcmp(&a->events[at], &b->events[at], sizeof(*a->events)) == 0)
		at++;
	if (at == a->count && at == b->count)
		return true;
	printf("\nnode %u, %s: event %zu differs\n", node, run->protocol->name, at);
	event_print(expected->engine->name, a, at);
	event_print(run->engine->name, b, at);
	return false;
}

static size_t trace_count(const struct run *run, enum what what, enum cause cause)
{
	size_t count = 0;

	for (unsigned node = 0; node < NODES; node++)
		for (size_t i = 0; i < run->traces[node].count; i++)
			count += run->traces[node].events[i].what == what &&
				 run->traces[node].events[i].cause == cause;
	return count;
}

static bool runs_agree(const struct run *expected, const struct run *run)
{
	for (unsigned node = 0; node < NODES; node++)
		if (!traces_agree(expected, run, node))
			return false;
	return true;
}

static const struct roami_fault_engine *soft_engine(void)
{
	unsigned i = 0;

	while (strcmp(roami_fault_engines[i]->name, "soft") != 0)
		i++;
	return roami_fault_engines[i];
}

/* How often each cause was seen, over all seeds: a cause that never occurs is not compared. */
static size_t causes_seen[OUTSIDE + 1];

static void compare_seed(const struct roam_protocol *protocol, uint64_t seed)
{
	static struct step steps[STEPS];
	struct run *expected[2];

	draw_steps(seed, steps);
	for (unsigned hide = 0; hide < 2; hide++)
		expected[hide] = run_make(protocol, soft_engine(), hide, seed, steps);
	for (unsigned i = 0; roami_fault_engines[i] != NULL; i++) {
		struct run *run;
		bool known = true;

		if (roami_fault_engines[i] != soft_engine() &&
		    !rig_engine_usable(roami_fault_engines[i]))
			continue;
		run = run_make(protocol, roami_fault_engines[i], false, seed, steps);
		for (unsigned node = 0; node < NODES; node++)
			known &= run->traces[node].kind_known;
		if (!runs_agree(expected[known ? 0 : 1], run))
			CU_FAIL("the engines differ");
		for (unsigned cause = 0; cause <= OUTSIDE; cause++)
			causes_seen[cause] += trace_count(run, MOVE, cause);
		run_free(run);
	}
	run_free(expected[0]);
	run_free(expected[1]);
}

static void test_agree(void)
{
	for (unsigned i = 0; roami_protocols[i] != NULL; i++) {
		if (roami_homes_everywhere(roami_protocols[i])) /* one heap needs no fault engine */
			continue;
		for (uint64_t seed = unit_seed(); seed < unit_seed() + SEEDS; seed++)
			compare_seed(roami_protocols[i], seed);
	}
	for (unsigned cause = 0; cause < OUTSIDE; cause++)
		CU_ASSERT(causes_seen[cause] > 0);
}

static CU_TestInfo tests[] = {
	{"engines take pages through the same states", test_agree},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("engines_agree", tests, argc, argv);
}
