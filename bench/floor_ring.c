/* Floors: messages over a bare ring, wake-ups, a bare barrier, a bare system call. */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "floor.h"

#define TURNS 16u /* round trips or barriers of one sample */

/* For each page: a map of lines, a mask of bytes, the changed word. */
#define BATCH_BYTES (FLOOR_BATCH * (8 + 8 + 8))

/* ------------------------------------------------------------------------------------- ring */

static void ring_send(struct floor_pair *pair, const uint8_t *body)
{
	uint64_t serial = ++pair->sent[pair->side];
	struct floor_cell *cell = &pair->shared->ring[pair->side][serial % FLOOR_RING];

	memcpy(cell->body, body, sizeof(cell->body));
	atomic_store_explicit(&cell->serial, serial, memory_order_release);
}

static void ring_receive(struct floor_pair *pair, uint8_t *body)
{
	unsigned from = 1 - pair->side;
	uint64_t serial = ++pair->sent[from];
	struct floor_cell *cell = &pair->shared->ring[from][serial % FLOOR_RING];

	while (atomic_load_explicit(&cell->serial, memory_order_acquire) != serial)
		floor_pause();
	memcpy(body, cell->body, sizeof(cell->body));
}

void floor_rtt(struct floor_pair *pair, struct floor_out *out)
{
	uint8_t body[56] = {0};

	for (unsigned i = 0; i < pair->samples; i++) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < TURNS; turn++) {
			if (pair->side == 1)
				ring_send(pair, body);
			ring_receive(pair, body);
			if (pair->side == 0)
				ring_send(pair, body);
		}
		if (pair->side == 1)
			floor_note(out, floor_end() - start, TURNS);
	}
}

void floor_send_64(struct floor_pair *pair, struct floor_out *out)
{
	struct floor_shared *shared = pair->shared;
	uint8_t bytes[BATCH_BYTES];

	memset(bytes, 1, sizeof(bytes));
	for (unsigned i = 0; i < pair->samples; i++) {
		uint32_t serial;
		uint64_t start;

		if (pair->side == 0) {
			serial = atomic_load(&shared->batch_taken) + 1;
			while (atomic_load_explicit(&shared->batch, memory_order_acquire) != serial)
				floor_pause();
			memcpy(bytes, shared->batch_bytes, sizeof(bytes));
			atomic_store_explicit(&shared->batch_taken, serial, memory_order_release);
			continue;
		}
		serial = atomic_load(&shared->batch) + 1;
		start = floor_begin();
		memcpy(shared->batch_bytes, bytes, sizeof(bytes));
		atomic_store_explicit(&shared->batch, serial, memory_order_release);
		while (atomic_load_explicit(&shared->batch_taken, memory_order_acquire) != serial)
			floor_pause();
		floor_note(out, floor_end() - start, 1);
	}
}

/* --------------------------------------------------------------------------------- wake-ups */

static void *sleeper_main(void *arg)
{
	struct floor_shared *shared = arg;
	uint32_t seen = atomic_load(&shared->bell);

	atomic_store(&shared->answer, seen);
	while (atomic_load(&shared->stop) == 0) {
		floor_futex(&shared->bell, FUTEX_WAIT, seen);
		seen = atomic_load(&shared->bell);
		atomic_store(&shared->answer, seen);
	}
	return NULL;
}

static void wake_measure(struct floor_pair *pair, struct floor_out *out)
{
	struct floor_shared *shared = pair->shared;

	for (unsigned i = 0; i < (pair->samples + 7) / 8; i++) {
		uint32_t next = atomic_load(&shared->bell) + 1;
		uint64_t start;

		/* Long enough for the thread to have fallen asleep again. */
		for (start = floor_end(); floor_end() - start < 200000;)
			floor_pause();
		start = floor_begin();
		atomic_store(&shared->bell, next);
		floor_futex(&shared->bell, FUTEX_WAKE, 1);
		while (atomic_load(&shared->answer) != next)
			floor_pause();
		floor_note(out, floor_end() - start, 1);
	}
	atomic_store(&shared->stop, 1);
	atomic_fetch_add(&shared->bell, 1);
	floor_futex(&shared->bell, FUTEX_WAKE, 1);
}

/* Side 0 has a thread that sleeps, and a main thread that computes or sleeps. */
static void wake_run(struct floor_pair *pair, struct floor_out *out, bool busy)
{
	struct floor_shared *shared = pair->shared;
	pthread_t sleeper;
	bool made = false;

	if (pair->side == 0) {
		atomic_store(&shared->stop, 0);
		atomic_store(&shared->answer, 0);
		made = pthread_create(&sleeper, NULL, sleeper_main, shared) == 0;
		if (!made)
			atomic_store(&shared->stop, 1);
	}
	floor_meet(pair);
	if (pair->side == 1 && atomic_load(&shared->stop) == 0)
		wake_measure(pair, out);
	while (pair->side == 0 && busy && atomic_load(&shared->stop) == 0)
		floor_pause();
	if (made)
		pthread_join(sleeper, NULL);
	floor_meet(pair);
}

void floor_wake_busy(struct floor_pair *pair, struct floor_out *out)
{
	wake_run(pair, out, true);
}

void floor_wake_idle(struct floor_pair *pair, struct floor_out *out)
{
	wake_run(pair, out, false);
}

/* ---------------------------------------------------------------------- barrier, system call */

static void barrier_once(struct floor_pair *pair)
{
	struct floor_shared *shared = pair->shared;
	uint32_t episode = atomic_load(&shared->episode);

	if (atomic_fetch_add(&shared->gathered, 1) + 1 == pair->sides) {
		atomic_store(&shared->gathered, 0);
		atomic_store(&shared->episode, episode + 1);
		return;
	}
	while (atomic_load(&shared->episode) == episode)
		sched_yield();
}

void floor_barrier(struct floor_pair *pair, struct floor_out *out)
{
	for (unsigned i = 0; i < (pair->samples + 3) / 4; i++) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < TURNS; turn++)
			barrier_once(pair);
		if (pair->side == 1)
			floor_note(out, floor_end() - start, TURNS);
	}
}

void floor_syscall(struct floor_pair *pair, struct floor_out *out)
{
	if (pair->side != 1)
		return;
	for (unsigned i = 0; i < pair->samples; i++) {
		uint64_t start = floor_begin();

		syscall(SYS_getppid);
		floor_note(out, floor_end() - start, 1);
	}
}
