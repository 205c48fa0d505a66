/* roam bench lock: hand-over of locks. */
#include <pthread.h>

#include "bench.h"
#include "roam/roam.h"

#define PAIRS 64u

/* Uses every lock once: its first use at a node allocates an entry there, which is not measured. */
static void use_all(void)
{
	for (unsigned i = 0; i < SCENARIO_LOCKS; i++) {
		roam_lock(scenario_lock(i));
		roam_unlock(scenario_lock(i));
	}
	roam_barrier_all();
}

/* Node 0 held the lock and waits at a barrier; channel: the lock's home. */
static void remote_round(struct rig_run *run)
{
	use_all();
	for (unsigned i = 0; i < run->samples; i++) {
		const void *lock = scenario_lock(i);
		uint32_t serial = run->round * RIG_ROUND + i;
		uint64_t start;

		if (run->node == 0) {
			roam_lock(lock);
			roam_unlock(lock);
			atomic_store(&run->shared->flag, serial);
		} else {
			while (atomic_load(&run->shared->flag) != serial)
				floor_pause();
			for (unsigned spin = 0; spin < 100; spin++)
				floor_pause(); /* until the node is there */
			rig_count_begin(run, i % 2);
			start = floor_begin();
			roam_lock(lock);
			rig_note(run, i % 2, floor_end() - start, 1);
			rig_count_end(run, i % 2, 1);
			roam_unlock(lock);
		}
		roam_barrier_all();
	}
}

/* Node 0 held the lock and computes. */
static void busy_round(struct rig_run *run)
{
	use_all();
	for (unsigned i = 0; i < (run->samples + 3) / 4; i++) {
		const void *lock = scenario_lock(i);
		uint32_t serial = 2 * (run->round * RIG_ROUND + i);
		uint64_t start;

		if (run->node == 0) {
			roam_lock(lock);
			roam_unlock(lock);
			atomic_store(&run->shared->flag, serial);
			while (atomic_load(&run->shared->flag) == serial)
				floor_pause();
		} else {
			while (atomic_load(&run->shared->flag) != serial)
				floor_pause();
			for (start = floor_end(); floor_end() - start < 200000;)
				floor_pause(); /* until its service thread sleeps */
			rig_count_begin(run, i % 2);
			start = floor_begin();
			roam_lock(lock);
			rig_note(run, i % 2, floor_end() - start, 1);
			rig_count_end(run, i % 2, 1);
			roam_unlock(lock);
			atomic_store(&run->shared->flag, serial + 1);
		}
		roam_barrier_all();
	}
}

static void again_round(struct rig_run *run)
{
	const void *lock = scenario_lock(run->round);
	uint64_t start;

	if (run->node == 1) {
		roam_lock(lock);
		roam_unlock(lock);
		for (unsigned i = 0; i < run->samples; i++) {
			start = floor_begin();
			roam_lock(lock);
			rig_note(run, 0, floor_end() - start, 1);
			roam_unlock(lock);
			start = floor_begin();
			for (unsigned pair = 0; pair < PAIRS; pair++) {
				roam_lock(lock);
				roam_unlock(lock);
			}
			rig_note(run, 1, floor_end() - start, PAIRS);
		}
	}
	roam_barrier_all();
}

/*
 * Hand-over between two nodes of a larger job, whose vector clocks are longer; the other nodes wait
 * at the barrier.
 */
static void many_round(struct rig_run *run)
{
	const void *lock = scenario_lock(run->round);
	uint32_t serial = 2 * run->round * RIG_ROUND;

	for (unsigned i = 0; i < (run->samples + 15) / 16 && run->node < 2; i++, serial += 2) {
		uint64_t start;

		while (run->node == 1 && atomic_load(&run->shared->flag) != serial + 1)
			floor_pause();
		start = floor_begin();
		roam_lock(lock);
		if (run->node == 1)
			rig_note(run, 0, floor_end() - start, 1);
		roam_unlock(lock);
		atomic_store(&run->shared->flag, serial + 1 + run->node);
		while (run->node == 0 && atomic_load(&run->shared->flag) != serial + 2)
			floor_pause();
	}
	roam_barrier_all();
}

/* ---------------------------------------------------------------------- threads of one node */

/* The state of a hand-over: of a lock of roam, or of a mutex of the node's process. */
struct mates {
	_Atomic uint32_t turn;  /* the waiter is about to ask for it, or has had it */
	_Atomic uint64_t start; /* when the holder released it */
};

static struct mates mates;
static pthread_mutex_t mates_mutex = PTHREAD_MUTEX_INITIALIZER;

static void mates_take(const void *lock)
{
	if (lock != NULL)
		roam_lock(lock);
	else
		pthread_mutex_lock(&mates_mutex);
}

static void mates_give(const void *lock)
{
	if (lock != NULL)
		roam_unlock(lock);
	else
		pthread_mutex_unlock(&mates_mutex);
}

static void mates_await(uint32_t turn)
{
	while (atomic_load(&mates.turn) != turn)
		floor_pause();
}

/*
 * The time from the first thread's unlock, when the second has waited for a given time, to its
 * lock.
 */
static void mates_hand(struct rig_run *run, unsigned channel, const void *lock, uint32_t turn,
		       uint64_t wait)
{
	uint64_t start;

	if (run->node == 0) {
		mates_take(lock);
		atomic_store(&mates.turn, turn);
		mates_await(turn + 1);
		for (start = floor_end(); floor_end() - start < wait;)
			floor_pause();
		atomic_store(&mates.start, floor_begin());
		mates_give(lock);
		mates_await(turn + 2);
	} else {
		mates_await(turn);
		atomic_store(&mates.turn, turn + 1);
		mates_take(lock);
		rig_note(run, channel, floor_end() - atomic_load(&mates.start), 1);
		mates_give(lock);
		atomic_store(&mates.turn, turn + 2);
	}
}

#define MATES_SOON  10000u   /* ticks in which the waiter still spins, if it spins at all */
#define MATES_LATE  4000000u /* it sleeps */
#define MATES_FEWER 16u      /* of those */

/*
 * Channels: a lock whose next thread has just begun to wait; one whose next thread sleeps; both for
 * a mutex.  Other nodes, if there are any, wait at the barrier.
 */
static void mates_round(struct rig_run *run)
{
	const void *lock = scenario_lock(run->round);
	uint32_t turn = run->round * RIG_ROUND * 16;

	use_all();
	for (unsigned i = 0; i < run->samples && run->node < 2; i++) {
		bool late = i % MATES_FEWER == 0;

		mates_hand(run, 0, lock, turn += 4, MATES_SOON);
		mates_hand(run, 2, NULL, turn += 4, MATES_SOON);
		if (!late)
			continue;
		mates_hand(run, 1, lock, turn += 4, MATES_LATE);
		mates_hand(run, 3, NULL, turn += 4, MATES_LATE);
	}
	roam_barrier_all();
}

static const uint8_t floor_list[] = {FLOOR_RTT, FLOOR_WAKE_BUSY, FLOOR_KINDS_COUNT};

static const struct rig_scenario floors = {
	.name = "floors",
	.nodes = 2,
	.floors = floor_list,
	.prepare = rig_floor_prepare,
	.begin = rig_floor_begin,
	.round = rig_floor_round,
};

#define SCENARIO(identifier, title, count, function)    \
	static const struct rig_scenario identifier = { \
		.name = title,                          \
		.nodes = count,                         \
		.roam = true,                           \
		.prepare = scenario_prepare,            \
		.round = function,                      \
	}

SCENARIO(remote, "lock_remote", 2, remote_round);
SCENARIO(busy, "lock_remote_busy", 2, busy_round);
SCENARIO(again, "lock_again", 2, again_round);
SCENARIO(two, "lock_turns_2", 2, many_round);
SCENARIO(many, "lock_turns_64", 64, many_round);

/* A row for this number of nodes, each of two threads. */
#define MATES(identifier, title, count)                 \
	static const struct rig_scenario identifier = { \
		.name = title,                          \
		.nodes = 2 * (count),                   \
		.roam = true,                           \
		.env = "ROAM_THREADS=2",                \
		.prepare = scenario_prepare,            \
		.round = mates_round,                   \
	}

MATES(mates_1x2, "lock_mate_1x2", 1);
MATES(mates_2x2, "lock_mate_2x2", 2);

static const struct rig_scenario *const scenarios[] = {
	&floors, &remote, &busy, &again, &two, &many, &mates_1x2, &mates_2x2, NULL};

#define SHM .transport = "shm"

#define MATES_ROW(title, rig, channel, text)                                                 \
	{                                                                                    \
		title, rig, channel, {{rig, (channel) + 2, 1}}, 0, text, PLAN_LIMIT, 2, 0, 0, \
			"<= 2 x a mutex", SHM                                                \
	}

static const struct plan_row rows[] = {
	{"f_wake_busy", 0, FLOOR_WAKE_BUSY, .goal = NULL},
	{"lock_remote",
	 1,
	 0,
	 {{0, FLOOR_RTT, 1}},
	 0.2,
	 "f_rtt + 0.2",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 SHM},
	{"lock_remote_here",
	 1,
	 1,
	 {{0, FLOOR_RTT, 1}},
	 0.2,
	 "f_rtt + 0.2; the lock's home is here",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 SHM},
	{"lock_remote_busy",
	 2,
	 0,
	 {{0, FLOOR_WAKE_BUSY, 1}},
	 0,
	 "wake-up on a busy CPU",
	 PLAN_LIMIT,
	 1.3,
	 0,
	 0,
	 "<= 1.3 x floor (goal 1 us)",
	 SHM},
	{"lock_remote_busy_here",
	 2,
	 1,
	 {{0, FLOOR_WAKE_BUSY, 1}},
	 0,
	 "wake-up on a busy CPU; the lock's home is here",
	 PLAN_LIMIT,
	 1.3,
	 0,
	 0,
	 "<= 1.3 x floor (goal 1 us)",
	 SHM},
	{"lock_again",
	 3,
	 0,
	 {{0, FLOOR_RTT, 1}},
	 0,
	 "f_rtt",
	 PLAN_LIMIT,
	 0,
	 0.1,
	 0,
	 "<= 0.1 us",
	 SHM},
	{"lock_again_pair", 3, 1, {{0, FLOOR_RTT, 1}}, 0, "f_rtt", .goal = NULL, SHM},
	{"lock_turns_2", 4, 0, {{0, FLOOR_RTT, 1}}, 0, "f_rtt", .goal = NULL, SHM},
	{"lock_turns_64",
	 5,
	 0,
	 {{4, 0, 1}},
	 0,
	 "the same in a job of 2 nodes",
	 .goal = NULL,
	 SHM},
	MATES_ROW("lock_mate_1x2", 6, 0, "pthread mutex, same threads"),
	MATES_ROW("lock_mate_1x2_asleep", 6, 1, "pthread mutex, same threads, the next one sleeps"),
	MATES_ROW("lock_mate_2x2", 7, 0, "pthread mutex, same threads"),
	MATES_ROW("lock_mate_2x2_asleep", 7, 1, "pthread mutex, same threads, the next one sleeps"),
};

void bench_lock(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};

	for (const char *const *engine = bench->engines; *engine != NULL; engine++)
		plan_run(bench, &plan, *engine);
}
