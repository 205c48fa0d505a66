/*
 * A world: the nodes of a job in one process, on virtual time, under the soft engine and the sim
 * network.  Everything that happens follows from one number, the seed: which fiber runs next, how
 * long messages travel, which options are on.
 *
 * A fiber gives way only where the core calls its environment: at steps (by chance), when it spins,
 * and when it waits.
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
	/* The protocols of the heap's first pages, region_pages each. */
	const struct roam_protocol *regions[WORLD_REGIONS_MAX];
	unsigned region_count;
	uint32_t region_pages;
	unsigned nodes;
	unsigned threads[ROAMI_NODES_MAX]; /* application threads of each node */
	bool teams; /* each node has as many, fixed; others learn of them as they start */
	uint32_t heap_pages;
	uint32_t alloc_pages;   /* per node, behind the heap_pages: room for what it allocates */
	uint32_t creator_pages; /* that have bytes of node 0 which are not zero */
	bool onesided;  /* between nodes of one host */
	unsigned hosts; /* node i is on host i % hosts */
	/*
	 * Nodes have cards (sim_card.c), by which some pairs read each other's pages: chosen by
	 * this number, ROAMI_FOREVER all; 0: no node has one.
	 */
	uint64_t cards;
	uint64_t read_ns_max; /* a read takes: until its first line lands, and from there on */
	unsigned reads_max;  /* reads by cards under way; 0: as many as there are */
	unsigned read_fails; /* one of so many fails; 0: none */
	uint8_t announced_writes; /* see home/card.h; 0: as many as usual */
	uint8_t card_segments; /* ROAM_CARD_SEGMENTS */
	bool hot;
	bool tree;          /* barriers along a tree */
	bool kind_known;    /* faults tell reads from writes */
	unsigned placement; /* enum roam_place of the heap; ROAM_PLACE_NODE: random nodes */
	uint32_t prefetch;
	uint32_t cache_pages;
	uint32_t tx_fair;
	unsigned tx_reads; /* enum roami_option_tx_reads */
	unsigned tx_validate; /* enum roami_option_tx_validate */
	unsigned tx_commit;   /* enum roami_option_tx_commit; of half of the seeds, pages */
	uint32_t tx_false; /* 0: as many as usual */
	unsigned ivy; /* enum roami_option_ivy */
	uint32_t mirage_delta;
	uint64_t lrc_memory;
	unsigned erc; /* enum roami_option_erc */
	const char *simd;
	uint32_t step_every;  /* one in so many steps gives way; 0: none */
	uint32_t stall_every; /* and one in so many of those for long; 0: none */
	/*
	 * A late access is tried again when the page that it faulted on is gone, or after so long;
	 * 0: at once.
	 */
	uint32_t late_ns;
	unsigned queue_max;
	uint64_t latency_ns_min; /* 0: very short */
	uint64_t latency_ns_max; /* beyond that */
	uint64_t slow_ns;        /* additional latency from one node to another; 0: none */
	unsigned slow_from;
	unsigned slow_to;
	bool lossy; /* sends datagrams, treated as `faulty` says, instead of messages */
	size_t datagram_max;
	size_t room;
	unsigned deadline; /* seconds; 0: none */
	uint64_t ps_memory; /* each node's memory for tuples; 0: as much as usual */
	unsigned seal;     /* of datagrams: enum roami_option_seal */
	char faulty[128];
	uint64_t steps_max;  /* after more steps a run counts as hung */
	bool begin; /* counts begin just below the ends of 32 bits and the like: world_begin.h */
	bool begin_epochs; /* epochs of homes, too, so that homes move a few times and then stay */
	bool begin_tuples; /* numbers of tuples, too: operations go through world_past_call */
	uint32_t posts_bytes; /* of diffs that a node leaves for others; 0: as many as usual */
	uint32_t compact_sooner; /* lists of notices, see base/node.h */
	uint32_t ring_runs;  /* write notices a node leaves for the others; 0: as many as usual */
	uint32_t lock_slots; /* records of locks at each home; 0: as many as usual */
	uint32_t barrier_slots; /* the same of barriers */
	bool trace;
	/*
	 * Called at each step of the core, whether another fiber runs there or not; NULL: nothing
	 * is.
	 */
	void (*on_step)(struct roami_node *node);
};

/* Draws everything but the protocol from the seed. */
void world_draw(struct world_config *config, uint64_t seed, const struct roam_protocol *protocol);

/* How many protocols there are. */
unsigned world_protocols(void);

/*
 * others: how many protocols can be beside other ones.  beside: number `draw` of these, or the next
 * one of them that can be beside `own`; `own` itself if none can.
 */
unsigned world_others(void);
const struct roam_protocol *world_beside(const struct roam_protocol *own, uint64_t draw);

/*
 * Puts parts of the heap under other protocols: over the seeds each protocol beside each other one,
 * and more of them at a time.
 */
void world_mix(struct world_config *config, uint32_t region_pages);

/* The weakest model of the world's protocols: what a program may rely on (docs/consistency.md). */
enum roam_model world_model(const struct world_config *config);

/* Gives nodes cards: pairs of them are near, far, or read each other's pages past the homes. */
void world_cards(struct world_config *config);

/* Messages become datagrams, of which 5 % are lost and others come late, twice or changed. */
void world_lossy(struct world_config *config);

/* Gives each node as many threads as node 0, at least two, as under ROAM_THREADS. */
void world_teams(struct world_config *config);

/*
 * world_draw for two nodes of one thread each (more if config->nodes is set afterwards).  Node 0
 * has no bytes at the start, the number of copies has no limit, and a page's home is the node that
 * touches it first.
 */
void world_pair(struct world_config *config, uint64_t seed, const struct roam_protocol *protocol);

/* A node of several threads, which messages from one other node reach late. */
struct world_mates {
	unsigned nodes;
	unsigned node, threads; /* the others have one thread each */
	unsigned slow_from;
	uint64_t slow_ns;
};

/* A configuration for a story of such a node: the order of messages is what the story says. */
void world_mates(struct world_config *config, uint64_t seed, const struct roam_protocol *protocol,
		 const struct world_mates *mates);

/*
 * Opens all pages of a node that is alone and has no homes: in a real job the pages of such a node
 * are never protected, so it has no memory for twins.  Homes do without twins.  false: it has
 * homes, or is not alone.
 */
bool world_open_alone(struct roami_node *node, const struct roam_protocol *protocol);

/* Sets another number of nodes, with the threads that the seed drew for them. */
void world_nodes(struct world_config *config, unsigned nodes);

/* The library's options for the configuration. */
void world_options(const struct world_config *config, struct roami_options *options);

/* The layout of the heap for the configuration. */
void world_layout(const struct world_config *config, struct roami_layout *layout);

/* Where a page is placed; ROAM_NOBODY: it is not. */
unsigned world_home(const struct world_config *config, struct rng *rng, uint32_t page,
		    size_t pages);

/* Whether two nodes are on one host. */
bool world_together(const struct world_config *config, unsigned me, unsigned peer);

/* The nodes whose memory node `me` reaches by loads and stores, a bit each. */
uint64_t world_near(const struct world_config *config, unsigned me);

/* The nodes whose memory the card of node `me` reads, a bit each. */
uint64_t world_read(const struct world_config *config, unsigned me);

/* Writes one line: what the seed drew. */
void world_describe(const struct world_config *config, char *text, size_t bytes);

/*
 * Puts rubbish where no node may look any more.  Where memory is shared a page that was given away
 * is left alone: the node that got it, or may still read it, copies it later.
 */
void world_spoil(struct roami_node *node, enum roami_spoilt what, void *bytes, size_t count);

struct world;

/* Opens the nodes.  NULL: an error, reported on stderr. */
struct world *world_open(const struct world_config *config);
void world_close(struct world *world);

/* Adds an application thread of `node`; fn returns when it is done.  Called before world_run. */
void world_spawn(struct world *world, unsigned node, void (*fn)(void *arg), void *arg);

/* Runs until every application thread is done.  false: world_error says what went wrong. */
bool world_run(struct world *world);
const char *world_error(const struct world *world);

/* Ends the run, called from a fiber: the test has failed. */
__attribute__((noreturn, format(printf, 2, 3))) void world_fail(struct world *world,
								const char *format, ...);

struct roami_node *world_node(struct world *world, unsigned node);
uint64_t world_now(const struct world *world);
/* Virtual time since the world began; the clock itself begins above 0, in some worlds far above. */
uint64_t world_elapsed(const struct world *world);
uint64_t world_steps(const struct world *world);
struct rng *world_rng(struct world *world);

/* The heap's contents at the start: layout.heap_bytes bytes. */
const uint8_t *world_initial(const struct world *world);

/* ---- for application threads */

/* Loads and stores of the calling fiber's node, at an offset of the heap and within one page. */
void world_load(struct roami_node *node, uint64_t offset, void *out, size_t bytes);
void world_store(struct roami_node *node, uint64_t offset, const void *in, size_t bytes);

/* Copies four bytes by one instruction, which needs both pages at the same time. */
void world_move(struct roami_node *node, uint64_t to, uint64_t from);

/* Notes what the fiber is doing, for the report of a hang; `what` is not copied. */
void world_doing(struct world *world, const char *what, uint64_t number);

/* Sleeps on virtual time. */
void world_sleep(struct world *world, uint64_t ns);

/* Waits until every application thread is here; then the invariants are checked, and all go on. */
void world_rest(struct world *world);

/* Sum of a counter over all nodes. */
uint64_t world_count(struct world *world, enum roami_stat stat);

#endif
