/* Floors: the pair of processes that measure them together. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "floor.h"

/* since Linux 5.14; older headers lack the name */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define MEET_SPINS 20000u

long floor_futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

bool floor_pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

bool floor_pair_open(struct floor_pair *pair, enum floor_engine engine)
{
	size_t bytes = (size_t)FLOOR_PAGES * FLOOR_PAGE;

	pair->engine = engine;
	pair->shared = mmap(NULL, sizeof(*pair->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pair->shared == MAP_FAILED)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		pair->fd[i] = memfd_create("floor", MFD_CLOEXEC);
		if (pair->fd[i] < 0 || ftruncate(pair->fd[i], (off_t)bytes) != 0)
			return false;
		pair->mem[i] = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pair->fd[i],
				    0);
		if (pair->mem[i] == MAP_FAILED)
			return false;
	}
	return true;
}

bool floor_pair_enter(struct floor_pair *pair, unsigned side, unsigned sides)
{
	size_t bytes = (size_t)FLOOR_PAGES * FLOOR_PAGE;

	pair->side = side;
	pair->sides = sides;
	pair->value = 1;
	pair->twins = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pair->twins == MAP_FAILED)
		return false;
	memset(pair->twins, 1, bytes);
	for (unsigned i = 0; i < FLOOR_PAGES; i++)
		pair->order[i] = i;
	floor_shuffle(pair->order, FLOOR_PAGES, side + 1);
	if (side >= 2)
		return true;
	memset(pair->mem[side], (int)side + 1, bytes);
	/* Puts both mappings into this process's page tables, so that copies take no faults. */
	for (unsigned i = 0; i < 2; i++)
		if (madvise(pair->mem[i], bytes, MADV_POPULATE_WRITE) != 0)
			return false;
	return floor_fault_open(pair);
}

void floor_meet(struct floor_pair *pair)
{
	struct floor_shared *shared = pair->shared;
	uint32_t turn = atomic_load(&shared->turn);
	unsigned spins = 0;

	if (atomic_fetch_add(&shared->arrived, 1) + 1 == pair->sides) {
		atomic_store(&shared->arrived, 0);
		atomic_fetch_add(&shared->turn, 1);
		if (atomic_load(&shared->asleep) != 0)
			floor_futex(&shared->turn, FUTEX_WAKE, INT32_MAX);
		return;
	}
	while (atomic_load(&shared->turn) == turn) {
		if (pair->sides <= 2 && spins++ < MEET_SPINS) {
			floor_pause();
			continue;
		}
		atomic_fetch_add(&shared->asleep, 1);
		floor_futex(&shared->turn, FUTEX_WAIT, turn);
		atomic_fetch_sub(&shared->asleep, 1);
	}
}

void floor_shuffle(uint32_t *order, uint32_t count, uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;

	for (uint32_t i = count; i > 1; i--) {
		uint32_t j, kept = order[i - 1];

		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		j = (uint32_t)((state >> 32) % i);
		order[i - 1] = order[j];
		order[j] = kept;
	}
}

/* ----------------------------------------------------------------------- a thread that runs */

struct floor_spinner {
	pthread_t thread;
	unsigned cpu;
	_Atomic uint32_t turns;
	_Atomic uint32_t stop;
};

static void *spinner_main(void *arg)
{
	struct floor_spinner *spinner = arg;

	floor_pin(spinner->cpu);
	while (atomic_load_explicit(&spinner->stop, memory_order_relaxed) == 0) {
		atomic_fetch_add_explicit(&spinner->turns, 1, memory_order_relaxed);
		for (unsigned i = 0; i < 16; i++)
			floor_pause();
	}
	return NULL;
}

struct floor_spinner *floor_spinner_start(unsigned cpu)
{
	struct floor_spinner *spinner = calloc(1, sizeof(*spinner));

	if (spinner == NULL)
		return NULL;
	spinner->cpu = cpu;
	if (pthread_create(&spinner->thread, NULL, spinner_main, spinner) != 0) {
		free(spinner);
		return NULL;
	}
	floor_spinner_await(spinner);
	return spinner;
}

void floor_spinner_await(struct floor_spinner *spinner)
{
	uint32_t turns = atomic_load(&spinner->turns);

	while (atomic_load_explicit(&spinner->turns, memory_order_relaxed) == turns)
		floor_pause();
}

void floor_spinner_stop(struct floor_spinner *spinner)
{
	if (spinner == NULL)
		return;
	atomic_store(&spinner->stop, 1);
	pthread_join(spinner->thread, NULL);
	free(spinner);
}
