/*
 * The numbers of real threads within their node ("seats").  A thread takes the lowest free one when
 * it first uses the node, which may be in a page fault, and its end gives it back.  Threads that
 * the C library does not see end (or whose last destructors used the heap) are looked for when no
 * seat is free.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"
#include "os/inside.h"
#include "page/page.h"
#include "run/wait.h"
#include "sync/state.h"
#include "sync/sync.h"
#include "sync/tx.h"

struct seat {
	const struct roami_real *of; /* NULL: none was taken yet */
	uint64_t round;              /* of it */
	unsigned number;
	bool ends; /* the thread's destructors run */
	pid_t tid;
	struct roami_node *node;
};

static __thread struct seat seat; /* the calling thread's */

static unsigned seat_find(struct roami_seats *seats)
{
	for (unsigned word = 0; word < ROAMI_THREADS_MAX / 64; word++) {
		uint64_t free = ~atomic_load(&seats->taken[word]);

		for (; free != 0; free &= free - 1) {
			uint64_t bit = free & -free;

			if ((atomic_fetch_or(&seats->taken[word], bit) & bit) == 0)
				return word * 64 + (unsigned)__builtin_ctzll(bit);
		}
	}
	return ROAMI_THREADS_MAX;
}

enum roam_err roami_thread_register(struct roami_node *node, bool on)
{
	struct roami_thread *thread = roami_thread_self(node);

	if (thread->registered == on)
		return ROAM_ESTATE;
	if (on) {
		roami_tx_registers(node);
		thread->registered = true; /* then looks at the gate (rule 8.13) */
	}
	if (node->gate != NULL)
		node->gate(node);
	thread->registered = on;
	thread->strange = false;
	roami_state_set(node, ROAMI_STATE_THREADS, on ? 1 : UINT64_MAX, true);
	return ROAM_OK;
}

/*
 * The thread of this number has ended, or calls this as it ends: forgets its state.  False: the
 * number must not be used again, because the thread holds locks for ever.  May block if the thread
 * was registered.
 */
static bool seat_forget(struct roami_node *node, unsigned number)
{
	if (threads_of(node)->threads[number].registered)
		roami_state_set(node, ROAMI_STATE_THREADS, UINT64_MAX, true);
	threads_of(node)->threads[number].registered = false;
	if (roami_lock_holds(node, number))
		return false;
	roami_thread_forget(node, number);
	return true;
}

/* The seat's thread has ended, or is about to; one of the threads that see it gives it back. */
static void seat_give(struct roami_node *node, struct roami_seats *seats, unsigned number,
		      pid_t tid)
{
	if (!atomic_compare_exchange_strong(&seats->tids[number], &tid, 0) ||
	    !seat_forget(node, number))
		return;
	atomic_fetch_sub(&pages_of(node)->users, 1);
	atomic_fetch_and(&seats->taken[number / 64], ~(UINT64_C(1) << number % 64));
}

static void seats_sweep(struct roami_node *node, struct roami_seats *seats)
{
	pid_t process = getpid();

	for (unsigned number = 0; number < ROAMI_THREADS_MAX; number++) {
		pid_t tid = atomic_load(&seats->tids[number]);

		if (tid != 0 && syscall(SYS_tgkill, process, tid, 0) != 0 && errno == ESRCH)
			seat_give(node, seats, number, tid);
	}
}

/* Nothing of a node that is closed meanwhile, or of the parent process, may be touched. */
static void seat_leave(struct roami_seats *seats, uint64_t round)
{
	atomic_fetch_add(&seats->leaving, 1);
	if (atomic_load(&seats->open) == round && seat.tid == roami_os_tid()) {
		roami_step(seat.node);
		seat_give(seat.node, seats, seat.number, seat.tid);
	}
	atomic_fetch_sub(&seats->leaving, 1);
}

/* Only pthread_exit runs the destructors of a process's first thread. */
static void seat_first(struct roami_seats *seats, pid_t tid)
{
	struct roami_real *real = (void *)((uint8_t *)seats - offsetof(struct roami_real, seats));

	if (real->on_first_end != NULL && tid == roami_os_tid() && tid == getpid())
		real->on_first_end(real);
}

/* A destructor of the thread: the program's destructors have their first turn before. */
static void seat_end(void *arg)
{
	struct roami_seats *seats = arg;
	const struct seat mine = seat;

	/* The thread ends anyway; cancelled in here it would never be counted as having left. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	if (mine.of == NULL)
		return;
	if (roami_inside.call != NULL && mine.tid == roami_os_tid())
		roami_node_fail(mine.node, "a thread has ended within %s: it may hold what others "
					   "wait for",
				roami_inside.call);
	if (mine.tid == roami_os_tid() && atomic_load(&seats->open) == mine.round &&
	    tx_is_open(mine.node) && tx_of(mine.node)->thread == mine.number)
		roami_node_fail(mine.node, "a thread has ended within a function of roam_tx");
	if (!mine.ends) {
		seat.ends = true;
		pthread_setspecific(seats->key, seats);
		return;
	}
	seat_leave(seats, mine.round);
	seat_first(seats, mine.tid);
	roami_stats_bank_give();
	seat = (struct seat){0};
}

/* How many slots of waiting threads need be looked at. */
static void seat_show(struct roami_ctl *ctl, unsigned number)
{
	uint32_t seats = atomic_load(&ctl->seats);

	while (seats <= number && !atomic_compare_exchange_weak(&ctl->seats, &seats, number + 1))
		;
}

/* `counts`: among the threads that use the node, not for a moment else. */
static void seat_take(struct roami_node *node, struct roami_real *real, bool counts)
{
	unsigned number = seat_find(&real->seats);

	if (number == ROAMI_THREADS_MAX) {
		seats_sweep(node, &real->seats);
		number = seat_find(&real->seats);
	}
	if (number == ROAMI_THREADS_MAX)
		roami_node_fail(node, "more than %u threads use roam at a time",
				ROAMI_THREADS_MAX);
	roami_os_faults_unblock(); /* rule 1.4 */
	seat = (struct seat){real, real->round, number, false, roami_os_tid(), node};
	seat_show(node->self->ctl, number);
	atomic_store(&real->seats.tids[number], seat.tid);
	if (real->seats.keyed)
		pthread_setspecific(real->seats.key, &real->seats);
	roami_stats_bank_take();
	if (!counts)
		return;
	atomic_fetch_add(&pages_of(node)->users, 1);
	for (unsigned turn = 0; atomic_load(&pages_of(node)->solo) != 0; turn++)
		node->env->spin(node, turn);
}

unsigned roami_seat(struct roami_node *node)
{
	struct roami_real *real = node->env_state;

	if (seat.of != real || seat.round != real->round)
		seat_take(node, real, true);
	return seat.number;
}

int roami_seat_tid(struct roami_node *node, unsigned number)
{
	const struct roami_real *real = node->env_state;

	return atomic_load(&real->seats.tids[number]);
}

bool roami_seated(const struct roami_node *node)
{
	const struct roami_real *real = node->env_state;

	return seat.of == real && seat.round == real->round;
}

void roami_seat_aside(struct roami_node *node)
{
	struct roami_real *real = node->env_state;

	if (roami_seated(node))
		atomic_fetch_sub(&pages_of(node)->users, 1);
	else
		seat_take(node, real, false);
	atomic_store(&real->seats.tids[seat.number], 0);
}

void roami_seats_open(struct roami_real *real)
{
	struct roami_seats *seats = &real->seats;

	if (!seats->keyed)
		seats->keyed = pthread_key_create(&seats->key, seat_end) == 0;
	for (unsigned word = 0; word < ROAMI_THREADS_MAX / 64; word++)
		atomic_store(&seats->taken[word], 0);
	for (unsigned number = 0; number < ROAMI_THREADS_MAX; number++)
		atomic_store(&seats->tids[number], 0);
	atomic_store(&seats->open, ++real->round);
}

void roami_seats_shut(struct roami_real *real)
{
	atomic_store(&real->seats.open, 0);
	for (unsigned turn = 0; atomic_load(&real->seats.leaving) != 0; turn++)
		roami_os_spin(turn);
}

void roami_seats_end(struct roami_real *real)
{
	roami_seats_shut(real);
	if (real->seats.keyed)
		pthread_key_delete(real->seats.key);
	real->seats.keyed = false;
}
