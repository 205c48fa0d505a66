/*
 * Shows that calls which give up do so in time and change nothing: roam_trylock, roam_lock_until
 * and roam_cond_wait_until, with which all nodes then count under one lock.  The same is shown of
 * what is built of them: reader-writer locks, roam_once, roam_realloc.  soon START NODES ROUNDS;
 * START fork: roam_create_all; run: under roam run.
 */
#include "multi.h"

#include <stdbool.h>
#include <unistd.h>

#define WAIT_US  20000u
#define LATE_US  5000000u /* a busy machine */

struct shared {
	uint64_t count;
	uint64_t turn;
	uint64_t told;
	char lock[8], cond[8], guard[8], contended[64];
	struct roam_rwlock rw;
	uint32_t once;
	uint32_t made;      /* by roam_once */
	uint64_t first;     /* written by all nodes, with `last`, which is on another page */
	uint64_t *numbers;
	char space[ROAM_PAGE_SIZE];
	uint64_t last;
};

static struct shared *shared;
static unsigned nodes, rounds;

static uint64_t soon(void)
{
	return roam_clock_us() + WAIT_US;
}

/* Node 0 holds the lock during the test. */
static void held(void)
{
	uint64_t start = roam_clock_us();

	must_fail(roam_trylock(shared->lock), ROAM_EBUSY);
	must_fail(roam_trylock(shared->lock), ROAM_EBUSY);
	check(roam_clock_us() - start < LATE_US);
	if (roam_node() == 0)
		return;
	start = roam_clock_us();
	must_fail(roam_lock_until(shared->lock, soon()), ROAM_ETIMEDOUT);
	must_fail(roam_lock_until(shared->lock, 0), ROAM_ETIMEDOUT);
	check(roam_clock_us() - start >= WAIT_US && roam_clock_us() - start < WAIT_US + LATE_US);
}

static void locks(void)
{
	if (roam_node() == 0)
		must(roam_trylock(shared->lock));
	must(roam_barrier_all());
	held();
	must(roam_barrier_all());
	if (roam_node() == 0)
		must(roam_unlock(shared->lock));
	must(roam_barrier_all());
	for (unsigned turn = 0; turn < nodes; turn++) {
		if (roam_node() == turn) {
			must(roam_lock_until(shared->lock, roam_clock_us() + LATE_US));
			check(shared->count == turn);
			shared->count++;
			must(roam_unlock(shared->lock));
			/* No other node wants the lock. */
			must(roam_trylock(shared->lock));
			must(roam_unlock(shared->lock));
		}
		must(roam_barrier_all());
	}
}

/* The thread that gave up takes no signal, which is for the thread that waits. */
static void conditions(void)
{
	uint64_t start = roam_clock_us();

	must(roam_lock(shared->guard));
	must_fail(roam_cond_wait_until(shared->cond, shared->guard, soon()), ROAM_ETIMEDOUT);
	check(roam_clock_us() - start >= WAIT_US);
	must(roam_unlock(shared->guard));
	must(roam_barrier_all());
	must(roam_lock(shared->guard));
	if (roam_node() == nodes - 1) {
		shared->told = 1;
		must(roam_cond_signal(shared->cond));
	} else if (roam_node() == 0) {
		while (shared->told == 0)
			must(roam_cond_wait_until(shared->cond, shared->guard,
						  roam_clock_us() + LATE_US));
	}
	must(roam_unlock(shared->guard));
	must(roam_barrier_all());
}

static void contended_lock(unsigned round)
{
	enum roam_err err = ROAM_EBUSY;

	if ((round + roam_node()) % 3 == 0)
		must(roam_lock(shared->contended));
	else if ((round + roam_node()) % 3 == 1)
		while ((err = roam_lock_until(shared->contended, roam_clock_us() + round % 50)) ==
		       ROAM_ETIMEDOUT)
			;
	else
		while ((err = roam_trylock(shared->contended)) == ROAM_EBUSY)
			;
	check(err == ROAM_OK || err == ROAM_EBUSY);
}

/* ---------------------------------------------------------------------------------- built calls */

static void makes(void)
{
	must(roam_lock(shared->guard)); /* this thread may use roam */
	shared->made++;
	must(roam_unlock(shared->guard));
}

static void once(void)
{
	must_fail(roam_once(&shared->once, NULL), ROAM_EINVAL);
	for (unsigned i = 0; i < 3; i++)
		must(roam_once(&shared->once, makes));
	check(shared->made == 1);
	must(roam_barrier_all());
}

/* The call ends at its time, not before. */
static void gives_up(enum roam_err (*lock)(struct roam_rwlock *, uint64_t))
{
	uint64_t until = soon();

	must_fail(lock(&shared->rw, 0), ROAM_ETIMEDOUT);
	must_fail(lock(&shared->rw, until), ROAM_ETIMEDOUT);
	check(roam_clock_us() >= until);
}

/* Node 0 holds the lock for reading: others may read, and none may write. */
static void readers(void)
{
	if (roam_node() == 0)
		must(roam_rdlock(&shared->rw));
	must(roam_barrier_all());
	must(roam_rdlock(&shared->rw));
	must(roam_rwunlock(&shared->rw));
	must(roam_barrier_all());
	must_fail(roam_trywrlock(&shared->rw), ROAM_EBUSY);
	must(roam_barrier_all());
	gives_up(roam_wrlock_until);
	must(roam_rdlock_until(&shared->rw, soon() + 10000000)); /* no writer waits any more */
	must(roam_rwunlock(&shared->rw));
	must(roam_barrier_all());
	if (roam_node() == 0) {
		must(roam_rwunlock(&shared->rw));
		must(roam_wrlock_until(&shared->rw, soon() + 10000000));
	}
	must(roam_barrier_all());
	must_fail(roam_tryrdlock(&shared->rw), ROAM_EBUSY);
	must_fail(roam_trywrlock(&shared->rw), ROAM_EBUSY);
	must(roam_barrier_all());
	if (roam_node() != 0) {
		gives_up(roam_rdlock_until);
		gives_up(roam_wrlock_until);
	}
	must(roam_barrier_all());
	if (roam_node() == 0)
		must(roam_rwunlock(&shared->rw));
	must(roam_barrier_all());
}

/*
 * Node 0 reads, node 1 waits to write and gives up; the last node waits to read behind node 1, and
 * then reads, though node 0 still does.
 */
static void makes_way(void)
{
	if (roam_node() == 0)
		must(roam_rdlock(&shared->rw));
	must(roam_barrier_all());
	if (roam_node() == 1) {
		must_fail(roam_wrlock_until(&shared->rw, soon() + 50000), ROAM_ETIMEDOUT);
	} else if (roam_node() == nodes - 1) {
		usleep(20000);
		must(roam_rdlock(&shared->rw));
		must(roam_rwunlock(&shared->rw));
	}
	must(roam_barrier_all());
	if (roam_node() == 0)
		must(roam_rwunlock(&shared->rw));
	must(roam_barrier_all());
}

/* While node 0 holds the lock in one way, the last node waits for it in the other way. */
static void kept_out(enum roam_err (*mine)(struct roam_rwlock *),
		     enum roam_err (*other)(struct roam_rwlock *), uint64_t mark)
{
	uint64_t until;

	if (roam_node() == 0)
		must(mine(&shared->rw));
	must(roam_barrier_all());
	if (roam_node() == nodes - 1 && nodes > 1) {
		must(other(&shared->rw));
		must(roam_lock(shared->guard));
		shared->told = mark;
		must(roam_unlock(shared->guard));
		must(roam_rwunlock(&shared->rw));
	} else if (roam_node() == 0) {
		for (until = soon(); roam_clock_us() < until;) {
			must(roam_lock(shared->guard));
			check(shared->told != mark);
			must(roam_unlock(shared->guard));
		}
		must(roam_rwunlock(&shared->rw));
	}
	must(roam_barrier_all());
	check(nodes == 1 || shared->told == mark);
	must(roam_barrier_all());
}

/* Writers change both numbers; a reader finds both as one writer left them. */
static void writers(void)
{
	uint64_t seen = 0;

	for (unsigned round = 0; round < rounds; round++) {
		bool writes = (round + roam_node()) % 4 == 0;
		enum roam_err err = ROAM_EBUSY;

		if (round % 5 == 0)
			err = writes ? roam_trywrlock(&shared->rw) : roam_tryrdlock(&shared->rw);
		if (err == ROAM_EBUSY)
			err = writes ? roam_wrlock(&shared->rw) : roam_rdlock(&shared->rw);
		must(err);
		check(shared->first == shared->last && shared->first >= seen);
		if (writes) {
			shared->first++;
			shared->last++;
		}
		seen = shared->first;
		must(roam_rwunlock(&shared->rw));
	}
	must(roam_barrier_all());
	check(shared->first == shared->last && shared->first >= (uint64_t)rounds / 4 * nodes);
	check(shared->rw.readers == 0 && shared->rw.waiting == 0 && shared->rw.writers == 0);
}

/* Each node makes the list longer that the node before it has left. */
static void longer(void)
{
	for (unsigned turn = 0; turn < nodes; turn++) {
		size_t had = turn * 300 * sizeof(uint64_t), wants = had + 300 * sizeof(uint64_t);

		if (roam_node() == turn) {
			if (turn > 0)
				check(roam_realloc(shared->numbers, had, 0) == NULL &&
				      roam_errno() == ROAM_EINVAL);
			shared->numbers = roam_realloc(shared->numbers, had, wants);
			check(shared->numbers != NULL);
			for (size_t i = 0; i < wants / sizeof(uint64_t); i++)
				check(shared->numbers[i] ==
				      (i < had / sizeof(uint64_t) ? i + 1 : 0));
			for (size_t i = 0; i < wants / sizeof(uint64_t); i++)
				shared->numbers[i] = i + 1;
		}
		must(roam_barrier_all());
	}
}

static void node_main(void)
{
	locks();
	conditions();
	once();
	readers();
	makes_way();
	kept_out(roam_rdlock, roam_wrlock, 2);
	kept_out(roam_wrlock, roam_rdlock, 3);
	kept_out(roam_wrlock, roam_wrlock, 4);
	writers();
	longer();
	for (unsigned round = 0; round < rounds; round++) {
		contended_lock(round);
		shared->turn++;
		must(roam_unlock(shared->contended));
	}
	must(roam_barrier_all());
	check(shared->turn == (uint64_t)nodes * rounds);
}

int main(int argc, char **argv)
{
	check(argc == 4);
	nodes = number(argv[2]);
	rounds = number(argv[3]);
	shared = must_alloc(sizeof(*shared));
	if (strcmp(argv[1], "fork") == 0) {
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
	} else {
		must(roam_start());
		node_main();
	}
	must(roam_finish());
	printf("in time\n");
	return 0;
}
