/*
 * Counters and times of a node, from the table in counters.def.  They live in the node's segment,
 * where the node that prints the report reads all nodes' counters.  Any thread counts, in a bank of
 * its own: nothing is ordered by a count, none is lost.
 *
 * The room keeps no rule: no answer depends on it.
 */
#ifndef ROAMI_STATS_H
#define ROAMI_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROAMI_STATS_TYPES_MAX 192 /* message types counted one by one */

enum roami_stat {
#define COUNTER(name, meaning) ROAMI_STAT_##name,
#define TIME(name, meaning)
#include "stats/counters.def"
#undef TIME
#undef COUNTER
#define COUNTER(name, meaning)
#define TIME(name, meaning) ROAMI_STAT_TIME_##name,
#include "stats/counters.def"
#undef TIME
#undef COUNTER
	ROAMI_STATS_COUNT
};

/*
 * What one thread counted.  The first bank is shared by the threads that have none of their own:
 * any thread gets one of the next if one is free, and threads of a team then have one in any case.
 */
struct roami_stats_bank {
	_Alignas(64) _Atomic uint64_t values[ROAMI_STATS_COUNT];
	_Atomic uint64_t types[ROAMI_STATS_TYPES_MAX]; /* messages sent, by type */
	_Atomic uint64_t before[ROAMI_STATS_COUNT]; /* what of the values is left out */
	_Atomic uint64_t kept[ROAMI_STATS_COUNT];   /* what counts while the region is shut */
	_Atomic uint32_t mate; /* whose bank: the thread's number in the team, + 1 */
};

#define ROAMI_STATS_ANY	  16  /* the shared bank and those for any thread */
#define ROAMI_STATS_MATES 256 /* threads of a team, at most */
#define ROAMI_STATS_BANKS (ROAMI_STATS_ANY + ROAMI_STATS_MATES)

/*
 * The region of interest: what counts.  Without marks it is the node's life; what came before the
 * first mark, and what comes between regions, is left out.
 */
enum roami_stats_region {
	ROAMI_STATS_ALL,  /* no mark yet */
	ROAMI_STATS_OPEN, /* a thread is between its marks */
	ROAMI_STATS_SHUT  /* none is: the sums stand still */
};

struct roami_stats {
	_Atomic uint64_t types_before[ROAMI_STATS_TYPES_MAX]; /* as in a bank, of all banks */
	_Atomic uint64_t types_kept[ROAMI_STATS_TYPES_MAX];
	_Atomic uint32_t region;  /* enum roami_stats_region */
	_Atomic uint32_t within;  /* threads between their marks */
	_Atomic uint32_t marking; /* a thread is at work on these and on what is left out */
	_Atomic uint64_t kept_ns; /* as `kept`, of wall time */
	_Atomic uint64_t kept_cycles;
	_Atomic uint32_t threads; /* of the team; 0: there is none */
	_Atomic uint32_t used;    /* banks, if more than ROAMI_STATS_ANY */
	_Atomic uint64_t start_ns; /* 0: the node never started */
	_Atomic uint64_t start_cycles;
	_Atomic uint64_t wall_ns; /* 0: the node still runs */
	_Atomic uint64_t wall_cycles;
	_Atomic uint64_t peak_kb; /* resident memory */
	struct roami_stats_bank banks[ROAMI_STATS_BANKS];
};

extern __thread unsigned roami_stats_bank; /* the calling thread's; 0: the shared one */

/*
 * Gives the calling thread a bank of its own, if one is free and it has none, until it gives it
 * back.  What was counted there stays.
 */
void roami_stats_bank_take(void);
void roami_stats_bank_give(void);

/*
 * Adds to a number of the calling thread's bank.  One instruction, so that a signal handler of the
 * thread may count in between; not locked, as no other thread writes there.
 */
static inline void roami_stats_count(_Atomic uint64_t *number, unsigned bank, uint64_t n)
{
#ifdef __x86_64__
	if (bank != 0) {
		__asm__ volatile("addq %1, %0" : "+m"(*number) : "er"(n) : "cc");
		return;
	}
#endif
	atomic_fetch_add_explicit(number, n, memory_order_relaxed);
}

static inline void roami_stats_add(struct roami_stats *stats, enum roami_stat stat, uint64_t n)
{
	unsigned bank = roami_stats_bank;

	roami_stats_count(&stats->banks[bank].values[stat], bank, n);
}

/*
 * Cycles that the calling thread has spent in message handlers and no time of its own has taken
 * yet: nearly all of them ran while it waited.  They are part of the time that it counts next, or,
 * as far as they are more than that, of the next ones: few handlers are timed, and stand for many.
 */
extern __thread uint64_t roami_stats_handled;

static inline void roami_stats_add_time(struct roami_stats *stats, enum roami_stat stat,
					enum roami_stat handlers, uint64_t cycles)
{
	uint64_t handled = roami_stats_handled < cycles ? roami_stats_handled : cycles;

	roami_stats_add(stats, stat, cycles);
	if (handled == 0)
		return;
	roami_stats_handled -= handled;
	roami_stats_add(stats, handlers, handled);
}

/* ROAMI_COUNT(node->stats, fetches, 1);  ROAMI_TIME(node->stats, page, cycles); */
#define ROAMI_COUNT(stats, name, n) roami_stats_add(stats, ROAMI_STAT_##name, (uint64_t)(n))
#define ROAMI_TIME(stats, name, cycles)                          \
	roami_stats_add_time(stats, ROAMI_STAT_TIME_##name,      \
			     ROAMI_STAT_TIME_##name##_handlers, (uint64_t)(cycles))
/* A time that lies within others. */
#define ROAMI_TIME_WITHIN(stats, name, cycles) \
	roami_stats_add(stats, ROAMI_STAT_TIME_##name, (uint64_t)(cycles))

/* A message of so many bytes was sent. */
static inline void roami_stats_message(struct roami_stats *stats, size_t bytes)
{
	unsigned log2 = 63 - (unsigned)__builtin_clzll((uint64_t)bytes | 32);
	unsigned at = log2 < 12 ? log2 - 5 : 7;

	roami_stats_add(stats, ROAMI_STAT_messages_under_64 + at, 1);
}

/* A message of `type` was sent. */
static inline void roami_stats_type(struct roami_stats *stats, unsigned type)
{
	unsigned bank = roami_stats_bank;

	if (type < ROAMI_STATS_TYPES_MAX)
		roami_stats_count(&stats->banks[bank].types[type], bank, 1);
}

/*
 * The node has a team of so many threads, of which the calling one is the mate-th: from now on it
 * has a bank of its own.
 */
void roami_stats_team(struct roami_stats *stats, unsigned threads, unsigned mate);

/* How many banks may have counted anything. */
unsigned roami_stats_banks(const struct roami_stats *stats);

/* At least so many have. */
void roami_stats_banks_use(struct roami_stats *stats, unsigned banks);

/* Less what is left out: a line of a bank, of all banks, and a message type. */
uint64_t roami_stats_of(const struct roami_stats *stats, unsigned bank, unsigned stat);
uint64_t roami_stats_sum(const struct roami_stats *stats, unsigned stat);
uint64_t roami_stats_sum_type(const struct roami_stats *stats, unsigned type);

/* The node starts: all is zero.  The node ends: wall time and peak memory, on the node itself. */
void roami_stats_begin(struct roami_stats *stats);
void roami_stats_end(struct roami_stats *stats);

/* Counts and times begin here: what there has been is left out of all sums from now on. */
void roami_stats_begin_here(struct roami_stats *stats);

/*
 * A thread's marks.  The region opens with the first thread in it and shuts with the last one; a
 * second mark without a first one ends what began with the node.
 */
void roami_stats_enter(struct roami_stats *stats);
void roami_stats_leave(struct roami_stats *stats);

/* A line of the table, for `roam info` and the manual. */
struct roami_stats_line {
	const char *name;
	const char *meaning;
	bool time;
};

extern const struct roami_stats_line roami_stats_lines[ROAMI_STATS_COUNT];

/* A counter by name, or a time in nanoseconds by "time_NAME"; 0 if unknown. */
uint64_t roami_stats_find(const struct roami_stats *stats, const char *name);

/* What a report shows.  Names may be NULL. */
struct roami_stats_report {
	const struct roami_stats *const *stats; /* one per node */
	unsigned nodes;
	unsigned first; /* number of the first one */
	const char *protocol;
	const char *transport;
	const char *engine;
	const char *const *types; /* of ROAMI_STATS_TYPES_MAX message types; NULL: left out */
};

/* The table of all nodes, rows that are zero everywhere left out.  Allocates nothing. */
void roami_stats_print(int fd, const struct roami_stats_report *report);

/*
 * The report as one JSON object, every row with one number per node; the file is replaced.  false:
 * errno says why.
 */
bool roami_stats_json(const char *path, const struct roami_stats_report *report);

#endif
