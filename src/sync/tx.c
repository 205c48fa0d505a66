#include "sync/tx.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "fault/signals.h"
#include "os/inside.h"
#include "page/page.h"
#include "sync/sync.h"

#define KEEPS_MAX 16u /* doublings: 1.3 s */

/* How an attempt ends. */
enum { TX_RETURNED, TX_RESTARTS, TX_RETRIES, TX_CANCELS };

/* The calling thread's, which is kept from being cancelled. */
struct tx_before {
	sigset_t signals;
	struct roami_cancel cancel;
};

/* --------------------------------------------------------------------------------- what is open */

bool roami_tx_open(struct roami_node *node)
{
	roami_step(node);
	return tx_is_open(node);
}

bool roami_tx_watches(struct roami_node *node)
{
	return atomic_load(&tx_of(node)->state) != ROAMI_TX_NONE ||
	       atomic_load(&tx_of(node)->watchers) != 0;
}

/* The function's frames lie below roam_tx's, unless a jump has left both. */
static void tx_left(struct roami_node *node)
{
	if ((uintptr_t)__builtin_frame_address(0) > (uintptr_t)tx_of(node)->restart.sp)
		roami_node_fail(node,
				"a function of roam_tx was left by longjmp, or by an exception");
}

bool roami_tx_inside(struct roami_node *node)
{
	if (!tx_is_open(node) || tx_of(node)->thread != node->env->thread(node))
		return false;
	tx_left(node);
	return true;
}

void roami_tx_doom(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	if (tx_is_open(node))
		roami_tx_reads_lost(node, page);
	roami_tx_conflict(node);
}

/* Whether the transaction, doomed now, may go on without asking: no fault of it is under way. */
static bool tx_unasked(struct roami_node *node)
{
	return tx_of(node)->thread != node->env->thread(node) || roami_inside.call != NULL;
}

void roami_tx_conflict(struct roami_node *node)
{
	_Atomic uint32_t *state = &tx_of(node)->state;
	uint32_t was = ROAMI_TX_OPEN, lost = ROAMI_TX_DOOMED;

	if (node->options->tx_validate == ROAMI_TX_BACKWARD)
		lost = ROAMI_TX_OVERTAKEN;
	if (atomic_compare_exchange_strong(state, &was, lost)) {
		if (lost == ROAMI_TX_DOOMED && tx_unasked(node))
			roami_interrupt_send(&tx_of(node)->interrupt);
		roami_changed(node, node->me);
	}
	roami_tx_wake(node); /* after that: one that begins to watch is seen there, or here */
}

void roami_tx_wake(struct roami_node *node)
{
	if (atomic_load(&tx_of(node)->watchers) == 0)
		return;
	atomic_fetch_add(&tx_of(node)->changes, 1);
	roami_changed(node, node->me);
}

void roami_tx_fetched(struct roami_node *node)
{
	uint32_t was = ROAMI_TX_OVERTAKEN;

	atomic_compare_exchange_strong(&tx_of(node)->state, &was, ROAMI_TX_DOOMED);
}

/* ---------------------------------------------------------------------------------- restarting */

/* On the program's stack; not in a signal handler. */
__attribute__((noreturn)) static void tx_anew(void *arg)
{
	struct roami_node *node = arg;

	if (roami_inside.call != NULL)
		roami_inside_leave();
	tx_left(node);
	roami_restart_leave(&tx_of(node)->restart, TX_RESTARTS);
}

/*
 * Restarts the calling thread's transaction if it is doomed and holds nothing.  true: the fault is
 * over.
 */
static bool tx_asked(struct roami_node *node)
{
	struct roami_tx *tx = tx_of(node);

	roami_tx_came(node);
	if (atomic_load(&tx->state) != ROAMI_TX_DOOMED || tx->held != 0 ||
	    tx->thread != node->env->thread(node))
		return false;
	atomic_store(&tx->interrupt.left, true);
	if (!roami_signals_divert(tx_anew, node))
		tx_anew(node);
	return true;
}

/* What an interruption asks: whether the thread is to begin anew, */
static bool tx_wanted(void *arg)
{
	return atomic_load(&tx_of(arg)->state) == ROAMI_TX_DOOMED;
}

/* and whether it holds nothing, and is in no call, after which nothing might ask again. */
static bool tx_allowed(void *arg)
{
	return tx_of(arg)->held == 0 && roami_inside.call == NULL;
}

static void tx_interrupted(void *arg)
{
	ROAMI_COUNT(((struct roami_node *)arg)->stats, tx_interrupts, 1);
	tx_anew(arg);
}

/* The thread's attempts may be interrupted, or no more.  Not in a world: it has no such threads. */
static void tx_interrupts(struct roami_node *node, bool on)
{
	struct roami_interrupt *interrupt = &tx_of(node)->interrupt;

	if (pages_of(node)->engine->load != NULL || node->env->tid == NULL)
		return;
	if (on) {
		interrupt->tid = node->env->tid(node, node->env->thread(node));
		interrupt->top = &tx_of(node)->restart.sp;
		interrupt->wanted = tx_wanted;
		interrupt->allowed = tx_allowed;
		interrupt->at = tx_interrupted;
		interrupt->other = roami_tx_held;
		interrupt->arg = node;
	}
	roami_interrupt_of(on ? interrupt : NULL);
}

void roami_tx_look(struct roami_node *node)
{
	tx_asked(node);
}

void roami_tx_hold(struct roami_node *node)
{
	roami_contract(tx_is_open(node));
	tx_of(node)->held++;
}

void roami_tx_let(struct roami_node *node)
{
	roami_contract(tx_of(node)->held > 0);
	if (--tx_of(node)->held == 0)
		roami_tx_look(node);
}

void roami_tx_retry(struct roami_node *node)
{
	if (!roami_tx_inside(node) || tx_calls_of(node)->now)
		roami_node_fail(node, "roam_tx_retry outside of a transaction");
	if (node->nodes == 1)
		roami_node_fail(node, "roam_tx_retry in a job of one node: it would wait for ever");
	roami_tx_look(node);
	roami_restart_leave(&tx_of(node)->restart, TX_RETRIES);
}

void roami_tx_cancel(struct roami_node *node)
{
	if (!roami_tx_inside(node) || tx_calls_of(node)->now)
		roami_node_fail(node, "roam_tx_cancel outside of a transaction");
	if (node->nodes == 1)
		roami_node_fail(node, "roam_tx_cancel in a job of one node: nothing can be undone");
	roami_tx_look(node);
	roami_restart_leave(&tx_of(node)->restart, TX_CANCELS);
}

/* ------------------------------------------------------------------------------------- attempts */

/*
 * Only what other nodes store outside of transactions can doom the attempt now; that waits for a
 * while, which doubles with each attempt that it has doomed nevertheless.
 */
static void tx_keep(struct roami_node *node, uint64_t again)
{
	uint64_t ns = (uint64_t)ROAM_STAY_NS << (again < KEEPS_MAX ? again : KEEPS_MAX);

	roami_contract(tx_of(node)->ahead);
	atomic_store(&tx_of(node)->keeps, node->env->now(node) + ns);
}

uint64_t roami_tx_keeps(struct roami_node *node)
{
	uint64_t until = atomic_load_explicit(&tx_of(node)->keeps, memory_order_relaxed), now;

	if (until == 0 || atomic_load(&tx_of(node)->state) != ROAMI_TX_OPEN)
		return 0;
	now = node->env->now(node);
	if (now >= until)
		return 0;
	return until - now < ROAM_STAY_NS ? until - now : ROAM_STAY_NS;
}

/* A transaction that lost so often has the token while it runs: no other one can commit. */
static void tx_token_ahead(struct roami_node *node)
{
	struct roami_tx *tx = tx_of(node);
	uint64_t fair = node->options->tx_fair;

	roami_contract(!tx->ahead);
	if (fair == 0 || tx->lost < fair)
		return;
	tx->ahead = roami_tx_token_take(node);
	roami_contract(tx->ahead); /* no attempt is open that could be doomed meanwhile */
	if (node->options->tx_commit == ROAMI_TX_COMMIT_PAGES)
		roami_tx_stop_others(node);
	tx_keep(node, tx->lost - fair);
	ROAMI_COUNT(node->stats, tx_fair, 1);
}

/* Before it waits for others. */
static void tx_token_back(struct roami_node *node)
{
	roami_contract(tx_has_turn(node));
	if (tx_of(node)->ahead) {
		tx_of(node)->ahead = false;
		atomic_store(&tx_of(node)->keeps, 0);
		if (node->options->tx_commit == ROAMI_TX_COMMIT_PAGES)
			roami_tx_go_others(node);
		roami_tx_token_let(node);
	}
}

static void tx_begin(struct roami_node *node)
{
	struct roami_tx *tx = tx_of(node);

	roami_contract(tx_has_turn(node));
	roami_contract(atomic_load(&tx->state) == ROAMI_TX_NONE && tx->held == 0);
	roami_contract(tx_calls_of(node)->list.count == 0);
	tx->thread = node->env->thread(node);
	roami_tx_hold_others(node);
	tx_token_ahead(node); /* not before: others would wait as long */
	atomic_store(&tx->interrupt.left, false);
	atomic_store(&tx->rule, ROAMI_TX_NO_RULE);
	if (node->nodes > 1)
		node->protocol->transactions->begin(node);
	atomic_store(&tx->state, ROAMI_TX_OPEN);
}

/* A transaction begins, or goes on after another one. */
static void tx_starts(struct roami_node *node)
{
	roami_contract(tx_has_turn(node));
	tx_of(node)->begun++;
	tx_of(node)->wrote = false;
	tx_of(node)->lost = 0;
	roami_returns_forget(node); /* the thread has got on */
	roami_tx_reads_begin(node);
}

struct tx_watch {
	struct roami_node *node;
	uint32_t changes; /* when the watch began */
	bool on;
};

/*
 * The attempt is over.  `watch`: not NULL: from now on the loss of a page that it could read counts
 * as a change, unless one was lost already.
 */
static void tx_close(struct roami_node *node, struct tx_watch *watch)
{
	struct roami_tx *tx = tx_of(node);
	uint32_t was = ROAMI_TX_OPEN;

	roami_contract(tx_has_turn(node));
	if (watch == NULL) {
		atomic_store(&tx->state, ROAMI_TX_NONE);
		return;
	}
	atomic_fetch_add(&tx->watchers, 1);
	*watch = (struct tx_watch){node, atomic_load(&tx->changes), true};
	if (atomic_compare_exchange_strong(&tx->state, &was, ROAMI_TX_NONE))
		return;
	atomic_store(&tx->state, ROAMI_TX_NONE);
	atomic_fetch_sub(&tx->watchers, 1);
	watch->on = false;
}

/* The attempt is undone, and its functions are called outside of it. */
static void tx_end(struct roami_node *node, const struct roami_tx_run *run, struct tx_watch *watch)
{
	roami_tx_undo(node);
	tx_close(node, watch);
	roami_tx_let_others(node);
	tx_library(run->inside, false);
	roami_tx_calls(node, false, 0);
	tx_library(run->inside, true);
}

/* Runs the attempt's function; if it retries, the other one. */
static int tx_functions(struct roami_node *node, const struct roami_tx_run *run)
{
	struct roami_tx *tx = tx_of(node);
	int how = roami_restart_run(&tx->restart, run->fn, run->arg);

	if (how != TX_RETRIES || run->otherwise == NULL)
		return how;
	ROAMI_COUNT(node->stats, tx_retries, 1);
	tx_library(run->inside, true);
	roami_tx_undo(node);
	tx_library(run->inside, false);
	tx->held++; /* no fault of theirs restarts what the functions do */
	roami_tx_calls(node, false, 0);
	tx->held--;
	return roami_restart_run(&tx->restart, run->otherwise, run->arg);
}

static void tx_count_abort(struct roami_node *node)
{
	ROAMI_COUNT(node->stats, tx_aborts, 1);
	switch (atomic_load(&tx_of(node)->rule)) {
	case ROAMI_TX_READ_WRITE:
		ROAMI_COUNT(node->stats, tx_read_write, 1);
		break;
	case ROAMI_TX_WRITE_READ:
		ROAMI_COUNT(node->stats, tx_write_read, 1);
		break;
	case ROAMI_TX_WRITE_WRITE:
		ROAMI_COUNT(node->stats, tx_write_write, 1);
	}
}

/* `how` the attempt ended; TX_RETURNED: it is committed. */
static void tx_count(struct roami_node *node, int how)
{
	struct roami_tx *tx = tx_of(node);

	tx->lost = how == TX_RESTARTS ? tx->lost + 1 : 0;
	if (how == TX_RETURNED)
		ROAMI_COUNT(node->stats, tx_commits, 1);
	else if (how == TX_RETRIES)
		ROAMI_COUNT(node->stats, tx_retries, 1);
	else if (how == TX_RESTARTS)
		tx_count_abort(node);
}

static void tx_committed(struct roami_node *node)
{
	roami_contract(!tx_is_open(node));
	roami_tx_reads_judge(node);
	roami_tx_let_others(node);
}

/* How it has ended; TX_RETURNED: it is committed. */
static int tx_attempt(struct roami_node *node, const struct roami_tx_run *run,
		      struct tx_watch *watch)
{
	int how;

	tx_library(run->inside, true);
	tx_begin(node);
	tx_library(run->inside, false);
	how = tx_functions(node, run);
	tx_library(run->inside, true);
	roami_contract(tx_of(node)->held == 0);
	roami_tx_reads_look(node);
	if (how == TX_RETURNED && !roami_tx_commit(node))
		how = TX_RESTARTS;
	tx_token_back(node);
	if (how == TX_RETURNED)
		tx_committed(node);
	else
		tx_end(node, run, how == TX_RETRIES ? watch : NULL);
	tx_library(run->inside, false);
	tx_count(node, how);
	return how;
}

void roami_tx_leave(struct roami_node *node)
{
	roami_contract(tx_has_turn(node));
	tx_interrupts(node, false);
	if (node->nodes > 1)
		roami_tx_undo(node);
	atomic_store(&tx_of(node)->state, ROAMI_TX_NONE);
	tx_token_back(node);
	tx_calls_of(node)->list.count = 0;
	tx_calls_of(node)->now = false;
	tx_of(node)->held = 0;
	roami_tx_let_others(node);
	roami_tx_turn_over(node);
}

static bool tx_changed(void *arg)
{
	const struct tx_watch *watch = arg;

	return atomic_load(&tx_of(watch->node)->changes) != watch->changes;
}

/* Waits without the node's turn: it may be one of its other threads that makes the change. */
static void tx_watch(struct roami_node *node, const struct roami_tx_run *run,
		     struct tx_watch *watch)
{
	struct roami_tx *tx = tx_of(node);
	uint64_t begun = tx->begun;

	roami_contract(watch->on && tx_has_turn(node));
	tx_library(run->inside, true);
	tx_interrupts(node, false);
	roami_tx_turn_over(node);
	roami_node_waits(node, ROAM_SYNC_TX + 1, 0, 0);
	roami_wait(node, tx_changed, watch);
	roami_node_waits_no_more(node);
	atomic_fetch_sub(&tx->watchers, 1);
	roami_tx_turn(node);
	if (tx->begun != begun)
		tx_starts(node);
	tx_interrupts(node, true);
	tx_library(run->inside, false);
}

static enum roam_err tx_attempts(struct roami_node *node, const struct roami_tx_run *run,
				 const struct tx_before *before)
{
	for (uint64_t attempt = 0; run->attempts == 0 || attempt < run->attempts; attempt++) {
		struct tx_watch watch = {.on = false};
		int how = tx_attempt(node, run, &watch);

		if (how == TX_RETURNED)
			return ROAM_OK;
		pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
		if (how == TX_CANCELS)
			return ROAM_ECANCELED;
		if (watch.on)
			tx_watch(node, run, &watch);
		tx_of(node)->attempt++;
	}
	return ROAM_ETIMEDOUT;
}

/* In a job of one node no other node can doom the transaction. */
static enum roam_err tx_alone(struct roami_node *node, const struct roami_tx_run *run)
{
	roami_contract(node->nodes == 1 && tx_has_turn(node));
	if (run->otherwise != NULL)
		return ROAM_EUNSUPPORTED;
	tx_library(run->inside, true);
	tx_begin(node);
	if (tx_of(node)->store != NULL && tx_of(node)->store->begin != NULL)
		tx_of(node)->store->begin(node);
	tx_library(run->inside, false);
	roami_restart_run(&tx_of(node)->restart, run->fn, run->arg);
	atomic_store(&tx_of(node)->state, ROAMI_TX_NONE);
	tx_library(run->inside, true);
	roami_tx_store(node, NULL, 0);
	roami_tx_let_others(node);
	tx_library(run->inside, false);
	ROAMI_COUNT(node->stats, tx_commits, 1);
	return ROAM_OK;
}

/*
 * Whether a thread uses the node that cannot be held while a transaction runs: it would see what is
 * not committed.
 */
static bool tx_crowded(struct roami_node *node)
{
	if (atomic_load(&pages_of(node)->users) <= 1 &&
	    atomic_load(&node->self->ctl->threads) <= 1)
		return false;
	return node->env->tid == NULL || !roami_interrupt_ready() || node->options->threads > 1 ||
	       roami_tx_strangers(node);
}

/* ROAM_STORE_SYNC=each: waits.  What functions that are owed wait for; 0: for nothing. */
static uint64_t tx_number(struct roami_node *node, bool wrote)
{
	const struct roami_tx_store *store = tx_of(node)->store;
	bool each = node->options->store_sync == ROAMI_STORE_EACH;
	uint64_t number;

	if (!each && !roami_tx_owes(node))
		return 0;
	number = store->number(node, wrote);
	return each && store->durable(node, number, true) ? 0 : number;
}

static enum roam_err tx_outermost(struct roami_node *node, const struct roami_tx_run *run)
{
	struct tx_before before;
	enum roam_err err;
	uint64_t number = 0;
	bool wrote;

	roami_tx_due(node, run->inside, false);
	roami_interrupt_unblock(&before.signals);
	before.cancel = roami_cancel_shut();
	tx_library(run->inside, true);
	roami_tx_turn(node);
	tx_library(run->inside, false);
	tx_starts(node);
	tx_interrupts(node, true);
	err = node->nodes == 1 ? tx_alone(node, run) : tx_attempts(node, run, &before);
	tx_interrupts(node, false);
	tx_library(run->inside, true);
	wrote = tx_of(node)->wrote;
	roami_tx_turn_over(node);
	if (err == ROAM_OK && tx_of(node)->store != NULL)
		number = tx_number(node, wrote);
	tx_library(run->inside, false);
	if (err == ROAM_OK) /* after the turn: they may wait for other threads */
		roami_tx_calls(node, true, number);
	roami_tx_due(node, run->inside, false);
	roami_cancel_open(before.cancel);
	return err;
}

enum roam_err roami_tx_run(struct roami_node *node, const struct roami_tx_run *run)
{
	if (node->protocol->transactions == NULL)
		return ROAM_EUNSUPPORTED;
	if (tx_calls_of(node)->now)
		return ROAM_ESTATE;
	if (roami_tx_inside(node)) {
		if (run->otherwise != NULL)
			return ROAM_ESTATE;
		run->fn(run->arg);
		return ROAM_OK;
	}
	if (pages_of(node)->engine->load == NULL)
		roami_interrupt_open();
	if (tx_crowded(node))
		return ROAM_ESTATE;
	return tx_outermost(node, run);
}

/* ----------------------------------------------------------------------------------------- room */

static enum roam_err tx_init(struct roami_node *node, const struct roami_node_params *params)
{
	(void)params;
	if (node->protocol->transactions != NULL)
		pages_of(node)->asked = tx_asked;
	if (node->protocol->transactions != NULL && node->env->tid != NULL)
		node->gate = roami_tx_gate;
	roami_tx_token_open(node);
	tx_of(node)->interrupt.pid = getpid();
	return roami_tx_reads_open(node);
}

static void tx_fini(struct roami_node *node)
{
	for (unsigned i = 0; i < ROAMI_THREADS_MAX; i++)
		roami_tx_calls_free(&tx_of(node)->calls[i]);
	roami_os_vec_free(&tx_of(node)->pages, sizeof(uint32_t));
	roami_tx_reads_close(node);
}

const struct roami_room roami_room_tx = {
	.name = "tx",
	.messages = roami_tx_messages,
	.state_size = sizeof(struct roami_tx),
	.init = tx_init,
	.fini = tx_fini,
};
