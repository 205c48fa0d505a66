/*
 * A world: the nodes of a job in one process, on virtual time, under the soft engine and the sim
 * network.  Everything that happens follows from one number, the seed: which fiber runs next, how
 * long messages travel, which options are on.
 *
 * A fiber gives way only where the core calls the surroundings: at steps (by chance), when it
 * spins, when it waits.
 */
#ifndef ROAM_TESTS_WORLD_H
#define ROAM_TESTS_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/node.h"
#include "rng.h"

#define WORLD_THREADS_MAX 8u /* application threads of one node */

#define WORLD_REGIONS_MAX 3u

struct world_config {
	uint64_t seed;
	const struct roam_protocol *protocol;
	/* The heap's first pages are under these, region_pages each. */
	const struct roam_protocol *regions[WORLD_REGIONS_MAX];
	unsigned region_count;
	uint32_t region_pages;
	unsigned nodes;
	unsigned threads[ROAMI_NODES_MAX]; /* application threads of each node */
	bool teams; /* each node has as many, fixed; others learn of them as they start */
	uint32_t heap_pages;
	uint32_t alloc_pages;   /* per node, behind the heap_pages: for what it allocates */
	uint32_t creator_pages; /* with bytes of node 0 that are not zero */
	bool onesided;  /* between nodes of one host */
	unsigned hosts; /* node i is on host i % hosts */
	bool hot;
	bool tree;          /* barriers along a tree */
	bool kind_known;    /* faults tell reads from writes */
	unsigned placement; /* enum roam_place of the heap; ROAM_PLACE_NODE: random nodes */
	uint32_t prefetch;
	uint32_t cache_pages;
	uint32_t tx_fair;
	unsigned ivy; /* enum roami_option_ivy */
	uint32_t mirage_delta;
	uint64_t lrc_memory;
	unsigned erc; /* enum roami_option_erc */
	const char *simd;
	uint32_t step_every;  /* a step gives way once in so many times; 0: never */
	uint32_t stall_every; /* and once in so many of those for long; 0: never */
	/* An access is tried again when the page it faulted on is gone, or so late; 0: at once. */
	uint32_t late_ns;
	unsigned queue_max;
	uint64_t latency_ns_min; /* 0: very short */
	uint64_t latency_ns_max; /* beyond that */
	uint64_t slow_ns;        /* and more from one node to another; 0: nowhere */
	unsigned slow_from;
	unsigned slow_to;
	bool lossy; /* datagrams, and what `faulty` says, instead of messages */
	size_t datagram_max;
	size_t room;
	unsigned deadline; /* seconds; 0: none */
	uint64_t ps_memory; /* for tuples, of each node; 0: as much as usual */
	unsigned seal;     /* of datagrams: enum roami_option_seal */
	char faulty[128];
	uint64_t steps_max;  /* more: it does not end */
	bool begin; /* counts begin just below the ends of 32 bits and the like: world_begin.h */
	bool begin_epochs; /* those of homes too, which then move a few times and stay */
	bool begin_tuples; /* numbers of tuples too: operations go by world_past_call */
	uint32_t diff_log_bytes; /* of diffs that a node leaves for others; 0: as many as usual */
	uint32_t compact_sooner; /* lists of notices, see base/node.h */
	uint32_t ring_runs;  /* write notices a node leaves for the others; 0: as many as usual */
	uint32_t lock_slots; /* records of locks at each home; 0: as many as usual */
	uint32_t barrier_slots; /* the same of barriers */
	bool trace;
	/* Called at each step of the core, if another fiber runs there or not; NULL: nothing. */
	void (*on_step)(struct roami_node *node);
};

/* Draws everything but the protocol from the seed. */
void world_draw(struct world_config *config, uint64_t seed, const struct roam_protocol *protocol);

/* How many protocols there are. */
unsigned world_protocols(void);

/*
 * others: how many protocols can be beside others.  beside: number `draw` of these, or the next one
 * that can be beside `own`; `own` itself if none can.
 */
unsigned world_others(void);
const struct roam_protocol *world_beside(const struct roam_protocol *own, uint64_t draw);

/*
 * Parts of the heap come under other protocols: over the seeds each one beside each other one, and
 * more of them at a time.
 */
void world_mix(struct world_config *config, uint32_t region_pages);

/* The weakest model of the protocols: what a program may rely on (docs/consistency.md). */
enum roam_model world_model(const struct world_config *config);

/* Messages become datagrams of which 5 % are lost and others come late, twice or changed. */
void world_lossy(struct world_config *config);

/* Each node has as many threads as node 0, two at least, as under ROAM_THREADS. */
void world_teams(struct world_config *config);

/*
 * world_draw for two nodes of one thread each (more if config->nodes is set afterwards).  Node 0
 * has no bytes at the start, copies have no limit, and a page's home is the node that touches it
 * first.
 */
void world_pair(struct world_config *config, uint64_t seed, const struct roam_protocol *protocol);

/* Another number of nodes, with the threads the seed drew for them. */
void world_nodes(struct world_config *config, unsigned nodes);

/* The library's options as the configuration has them. */
void world_options(const struct world_config *config, struct roami_options *options);

/* The layout of the heap as the configuration has it. */
void world_layout(const struct world_config *config, struct roami_layout *layout);

/* Where a page is placed; ROAM_NOBODY: it is not. */
unsigned world_home(const struct world_config *config, struct rng *rng, uint32_t page,
		    size_t pages);

/* Whether two nodes are on one host. */
bool world_together(const struct world_config *config, unsigned me, unsigned peer);

/* The nodes whose memory node `me` reaches by loads and stores, a bit each. */
uint64_t world_near(const struct world_config *config, unsigned me);

/* One line: what the seed drew. */
void world_describe(const struct world_config *config, char *text, size_t bytes);

/*
 * Rubbish where no node may look any more.  Where memory is shared a page given away is left: the
 * node that got it, or may still read it, copies it later.
 */
void world_spoil(struct roami_node *node, enum roami_spoilt what, void *bytes, size_t count);

struct world;

/* Opens the nodes.  NULL: reported on stderr. */
struct world *world_open(const struct world_config *config);
void world_close(struct world *world);

/* An application thread of `node`; fn returns when it is done.  Before world_run. */
void world_spawn(struct world *world, unsigned node, void (*fn)(void *arg), void *arg);

/* Runs until every application thread is done.  false: world_error says what went wrong. */
bool world_run(struct world *world);
const char *world_error(const struct world *world);

/* The test failed, from a fiber: ends the run. */
__attribute__((noreturn, format(printf, 2, 3))) void world_fail(struct world *world,
								const char *format, ...);

struct roami_node *world_node(struct world *world, unsigned node);
uint64_t world_now(const struct world *world);
/* Virtual time since the world began, which is not at 0, and in some worlds long after it. */
uint64_t world_elapsed(const struct world *world);
uint64_t world_steps(const struct world *world);
struct rng *world_rng(struct world *world);

/* The heap's contents at the start: layout.heap_bytes bytes. */
const uint8_t *world_initial(const struct world *world);

/* ---- for application threads */

/* Loads and stores of the calling fiber's node, at an offset of the heap; within one page. */
void world_load(struct roami_node *node, uint64_t offset, void *out, size_t bytes);
void world_store(struct roami_node *node, uint64_t offset, const void *in, size_t bytes);

/* Copies four bytes by one instruction, which needs both pages at a time. */
void world_move(struct roami_node *node, uint64_t to, uint64_t from);

/* Says what the fiber is doing, for the report of a hang; `what` must last. */
void world_doing(struct world *world, const char *what, uint64_t number);

/* Sleeps on virtual time. */
void world_sleep(struct world *world, uint64_t ns);

/* Waits until every application thread is here, then the invariants are checked; all go on. */
void world_rest(struct world *world);

/* Sum of a counter over all nodes. */
uint64_t world_count(struct world *world, enum roami_stat stat);

#endif
