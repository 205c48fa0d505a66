/*
 * A node's other threads while it runs an attempt of a transaction: they are held, because they
 * would see what is not committed, and what they write would be undone with it.
 *
 * The gate is shut first.  A thread that computes gets a signal, in whose handler it waits; one
 * that is in a function of a library may hold a lock that the transaction needs, and is left to go
 * on until it has left it, or sleeps; one that is in a call of roam or in a fault goes on to its
 * end, where the signal finds it.  A thread that waits for others in a call of roam counts as
 * held, and passes the gate when its wait has ended; so does each fault.  A thread stores that it
 * runs again before it looks at the gate, which is shut before anybody looks at the threads.
 */
#include "base/thread.h"
#include "os/inside.h"
#include "page/page.h"
#include "sync/tx.h"

#define AGAIN_NS      200000u
/* So many signals in a row that find a thread asleep at one place of a library: it waits there. */
#define LIBRARY_TURNS 25u
/* Or in one at all: it may spin there until a thread that is held goes on. */
#define LIBRARY_LONG  5000u

_Static_assert(ROAMI_THREADS_MAX <= ROAMI_INTERRUPT_OTHERS, "each thread has its own");

static struct roami_tx_hold *hold_of(const struct roami_node *node)
{
	return &tx_of(node)->hold;
}

static bool hold_open(void *arg)
{
	return atomic_load(&hold_of(arg)->shut) == 0;
}

/* Whether the thread may run although the gate is shut. */
static bool hold_own(struct roami_node *node, unsigned number)
{
	return atomic_load(&hold_of(node)->turn) == number + 1;
}

static void hold_stopped(struct roami_node *node, unsigned number, bool stopped)
{
	struct roami_tx_hold *hold = hold_of(node);

	roami_contract(number < ROAMI_THREADS_MAX);
	atomic_store(&hold->stopped[number], stopped);
	atomic_fetch_add(&hold->changes, stopped);
	if (stopped)
		roami_os_futex_wake(&hold->changes, 1);
}

bool roami_tx_strangers(struct roami_node *node)
{
	for (unsigned i = 0; i < atomic_load(&threads_of(node)->top); i++)
		if (threads_of(node)->threads[i].strange && i != node->env->thread(node))
			return true;
	return false;
}

void roami_tx_registers(struct roami_node *node)
{
	sigset_t now;

	if (node->protocol->transactions == NULL || node->env->tid == NULL)
		return;
	roami_interrupt_forget(node->env->thread(node));
	if (pages_of(node)->engine->load == NULL)
		roami_interrupt_open();
	roami_interrupt_unblock(&now);
}

void roami_tx_came(struct roami_node *node)
{
	struct roami_thread *thread = roami_thread_self(node);

	if (!thread->registered)
		thread->strange = true;
	roami_tx_gate(node);
}

void roami_tx_gate(struct roami_node *node)
{
	struct roami_tx_hold *hold = hold_of(node);
	unsigned number;

	if (__builtin_expect(atomic_load(&hold->shut) == 0, 1))
		return;
	number = node->env->thread(node);
	if (hold_own(node, number))
		return;
	while (atomic_load(&hold->shut) != 0) {
		hold_stopped(node, number, true);
		roami_wait(node, hold_open, node);
		hold_stopped(node, number, false);
	}
}

/*
 * Whether a thread that the signal found in a library may be held there, without a lock of the
 * library, as far as can be told.  Its own time counts, not that of the one that waits.
 */
static bool hold_library(struct roami_tx_seen *seen, uintptr_t where)
{
	uint64_t sleeps = roami_os_sleeps();

	/* One that calls the kernel in a loop is found at one place, too, but has not slept. */
	seen->same = seen->where == where && seen->sleeps != sleeps ? seen->same + 1 : 1;
	seen->where = where;
	seen->sleeps = sleeps;
	seen->all++;
	return seen->same >= LIBRARY_TURNS || seen->all >= LIBRARY_LONG;
}

void roami_tx_held(void *arg, bool own, uintptr_t where)
{
	struct roami_node *node = arg;
	struct roami_tx_hold *hold = hold_of(node);
	unsigned number;

	if (atomic_load(&hold->shut) == 0 || roami_inside.call != NULL)
		return;
	number = node->env->thread(node);
	if (own)
		hold->seen[number] = (struct roami_tx_seen){0};
	else if (!hold_library(&hold->seen[number], where))
		return;
	hold->seen[number].all = 0;
	while (atomic_load(&hold->shut) != 0) {
		hold_stopped(node, number, true);
		roami_os_futex_wait(&hold->shut, 1, 0);
		hold_stopped(node, number, false);
	}
}

/* Whether the thread is at the gate, or will pass it before it touches the heap. */
static bool hold_is(struct roami_node *node, unsigned number)
{
	uint32_t kind = atomic_load(&node->self->ctl->waits[number].kind);

	return atomic_load(&hold_of(node)->stopped[number]) != 0 ||
	       (kind != 0 && kind != ROAMI_WAITS_ANSWER);
}

/* False: the thread has ended, which its seat does not show yet. */
static bool hold_signal(struct roami_node *node, unsigned number)
{
	pid_t tid = node->env->tid(node, number);

	roami_contract(!hold_own(node, number));
	return tid != 0 && roami_interrupt_other(&tx_of(node)->interrupt, number, tid);
}

/* Signals the threads that run, if `again`; returns one of their numbers, + 1; 0: none does. */
static unsigned hold_running(struct roami_node *node, bool again)
{
	unsigned one = 0;

	for (unsigned i = 0; i < atomic_load(&threads_of(node)->top); i++) {
		if (!threads_of(node)->threads[i].registered || hold_own(node, i) ||
		    hold_is(node, i))
			continue;
		if (!again || hold_signal(node, i))
			one = i + 1;
	}
	return one;
}

/* The calling thread waits for another one: reports say for which, which may block the signal. */
static void hold_shows(struct roami_node *node, unsigned number)
{
	const struct roami_waiting *own = &node->self->ctl->waits[node->env->thread(node)];
	uint64_t tid = (uint64_t)node->env->tid(node, number);

	roami_contract(number != node->env->thread(node));
	if (atomic_load(&own->kind) != ROAMI_WAITS_HOLD || atomic_load(&own->id) != tid)
		roami_node_waits(node, ROAMI_WAITS_HOLD, tid, 0);
}

void roami_tx_hold_others(struct roami_node *node)
{
	struct roami_tx_hold *hold = hold_of(node);
	bool again = true, shown = false;

	roami_contract(tx_has_turn(node));
	if (node->env->tid == NULL)
		return;
	atomic_store(&hold->shut, 1); /* another thread may come at any time */
	if (atomic_load(&pages_of(node)->users) <= 1)
		return;
	for (;;) {
		uint32_t changes = atomic_load(&hold->changes);
		unsigned one = hold_running(node, again);

		if (one == 0)
			break;
		hold_shows(node, one - 1);
		shown = true;
		roami_inside_rest(true);
		roami_os_futex_wait(&hold->changes, changes, AGAIN_NS);
		roami_inside_rest(false);
		again = atomic_load(&hold->changes) == changes;
	}
	if (shown)
		roami_node_waits_cleared(node);
}

void roami_tx_let_others(struct roami_node *node)
{
	struct roami_tx_hold *hold = hold_of(node);

	if (atomic_load(&hold->shut) == 0)
		return;
	roami_contract(tx_has_turn(node));
	atomic_store(&hold->shut, 0);
	if (atomic_load(&pages_of(node)->users) <= 1)
		return;
	roami_os_futex_wake(&hold->shut, INT32_MAX);
	roami_changed(node, node->me);
}

/* ------------------------------------------------------------------------------------- in turn */

static bool hold_free(void *arg)
{
	return atomic_load(&hold_of(arg)->turn) == 0;
}

void roami_tx_turn(struct roami_node *node)
{
	_Atomic uint32_t *turn = &hold_of(node)->turn;
	uint32_t mine = node->env->thread(node) + 1, none = 0;

	roami_contract(!tx_has_turn(node));
	while (!atomic_compare_exchange_strong(turn, &none, mine)) {
		roami_node_waits(node, ROAM_SYNC_TX + 1, 0, 0);
		roami_wait(node, hold_free, node);
		roami_node_waits_no_more(node);
		none = 0;
	}
}

void roami_tx_turn_over(struct roami_node *node)
{
	roami_contract(tx_has_turn(node));
	atomic_store(&hold_of(node)->turn, 0);
	if (atomic_load(&pages_of(node)->users) > 1)
		roami_changed(node, node->me);
}
