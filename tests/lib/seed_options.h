/* The command line that the tests with seeds share. */
#ifndef ROAM_TESTS_SEED_OPTIONS_H
#define ROAM_TESTS_SEED_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct seed_options {
	const char *program;
	const char *protocol; /* NULL: all; "default": the default of ROAM_PROTOCOL */
	uint64_t from, to;
	unsigned nodes;      /* 0: drawn */
	uint32_t operations; /* 0: drawn */
	bool trace;
	bool list;
	bool about; /* only tells, by its status, whether it looks at the protocol */
	bool lossy; /* over datagrams */
	bool cards; /* nodes read each other's pages by cards: world_cards */
	bool mixed; /* parts of the heap are under other protocols */
	bool undo;  /* some writes are undone at once */
	bool teams; /* each node has the same number of threads, fixed before they run */
};

/*
 * [--protocol NAME] [--seeds A..B] [--nodes N] [--ops N] [--trace] [--list] [--lossy]
 * [--cards] [--mixed] [--undo] [--teams] [--about]; anything else: usage, exit status 2.
 */
void seed_options_read(struct seed_options *options, int argc, char **argv);

struct roam_protocol;

/*
 * Runs one(options, protocol, seed, arg) for every seed; then done(protocol, seeds, failed, arg)
 * per protocol.  If the process dies, prints the command that repeats the seed; `one` prints it by
 * seed_replay().  Returns the exit status.
 */
int seed_main(const struct seed_options *options,
	      bool (*one)(const struct seed_options *options, const struct roam_protocol *protocol,
			  uint64_t seed, void *arg),
	      bool (*done)(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
			   void *arg),
	      void *arg);

/*
 * seed_main for a program that tests a property that some protocols have: those for which `about`
 * is true.  If there is none of them it says that it skips all (tests/skips.txt: only where a build
 * has few protocols), or fails if it was asked for one.
 */
int seed_main_about(const struct seed_options *options,
		    bool (*about)(const struct roam_protocol *protocol),
		    bool (*one)(const struct seed_options *options,
				const struct roam_protocol *protocol, uint64_t seed, void *arg),
		    bool (*done)(const struct roam_protocol *protocol, uint64_t seeds,
				 uint64_t failed, void *arg),
		    void *arg);

const char *seed_replay(void);

struct world;
struct world_config;

/*
 * Runs the world to its end; if that fails, prints what went wrong with the seed, and how to repeat
 * it.
 */
bool seed_world(struct world *world, const struct world_config *config);

/* The argument of a thread's function under seed_pair: world, node, and seed_pair's `arg`. */
struct seed_thread {
	struct world *world;
	unsigned me;
	void *arg;
};

/*
 * Opens a world and runs `fn` on one thread of each node to the end.  Returns the world, for its
 * counts and for world_close; NULL: it failed, as seed_world has printed.
 */
struct world *seed_pair(const struct world_config *config, void (*fn)(void *arg), void *arg);

/* A `done` that only prints how many seeds failed. */
bool seed_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed, void *arg);

#endif
