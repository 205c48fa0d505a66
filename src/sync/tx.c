#include "sync/tx.h"

#include <pthread.h>
#include <signal.h>

#include "fault/signals.h"
#include "os/inside.h"
#include "page/page.h"
#include "sync/sync.h"

/* How an attempt ends. */
enum { TX_RETURNED, TX_RESTARTS, TX_RETRIES };

struct tx_call {
	roami_tx_fn *fn;
	void *arg;
	bool committed; /* when it is called */
};

/* The calling thread's, which is kept from being cancelled. */
struct tx_before {
	sigset_t signals;
	int cancel;
};

/* --------------------------------------------------------------------------------- what is open */

bool roami_tx_open(struct roami_node *node)
{
	uint32_t state = atomic_load(&tx_of(node)->state);

	return state == ROAMI_TX_OPEN || state == ROAMI_TX_DOOMED;
}

bool roami_tx_watches(struct roami_node *node)
{
	return atomic_load(&tx_of(node)->state) != ROAMI_TX_NONE;
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
	if (!roami_tx_open(node) || tx_of(node)->thread != node->env->thread(node))
		return false;
	tx_left(node);
	return true;
}

void roami_tx_doom(struct roami_node *node)
{
	_Atomic uint32_t *state = &tx_of(node)->state;
	uint32_t was = ROAMI_TX_OPEN;

	if (!atomic_compare_exchange_strong(state, &was, ROAMI_TX_DOOMED)) {
		was = ROAMI_TX_WATCHES;
		if (!atomic_compare_exchange_strong(state, &was, ROAMI_TX_CHANGED))
			return;
	}
	roami_changed(node, node->me);
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

	if (atomic_load(&tx->state) != ROAMI_TX_DOOMED || tx->held != 0 ||
	    tx->thread != node->env->thread(node))
		return false;
	if (!roami_signals_divert(tx_anew, node))
		tx_anew(node);
	return true;
}

void roami_tx_look(struct roami_node *node)
{
	tx_asked(node);
}

void roami_tx_hold(struct roami_node *node)
{
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
	if (!roami_tx_inside(node) || tx_of(node)->calling)
		roami_node_fail(node, "roam_tx_retry outside of a transaction");
	if (node->nodes == 1)
		roami_node_fail(node, "roam_tx_retry in a job of one node: it would wait for ever");
	roami_tx_look(node);
	roami_restart_leave(&tx_of(node)->restart, TX_RETRIES);
}

/* ---------------------------------------------------------------------------------- at the end */

enum roam_err roami_tx_then(struct roami_node *node, bool committed, roami_tx_fn *fn, void *arg)
{
	struct roami_vec *calls = &tx_of(node)->calls;
	struct tx_call *call;

	roami_contract(roami_tx_inside(node));
	if (tx_of(node)->calling)
		return ROAM_ESTATE;
	call = roami_os_vec_grow(calls, sizeof(*call), 1);
	if (call == NULL)
		return ROAM_ENOMEM;
	*call = (struct tx_call){fn, arg, committed};
	calls->count++;
	return ROAM_OK;
}

static void tx_calls(struct roami_node *node, bool committed)
{
	struct roami_vec *calls = &tx_of(node)->calls;
	size_t count = calls->count;

	tx_of(node)->calling = true;
	for (size_t i = 0; i < count; i++) {
		size_t at = committed ? i : count - 1 - i;
		struct tx_call call = ((struct tx_call *)(void *)calls->items)[at];

		if (call.committed == committed)
			call.fn(call.arg);
	}
	calls->count = 0;
	tx_of(node)->calling = false;
}

/* Collects the pages written, ascending; they are pending from here on. */
static size_t tx_pages(struct roami_node *node, const uint32_t **pages_p)
{
	struct roami_vec *work = &tx_of(node)->pages;
	uint32_t *pages;
	size_t count;

	roami_spin_lock(node, &pages_of(node)->dirty_lock);
	count = roami_pages_take(node, &pages_of(node)->dirty, work);
	atomic_store(&pages_of(node)->dirty_count, 0);
	roami_spin_unlock(&pages_of(node)->dirty_lock);
	pages = (void *)work->items;
	count = roami_pages_sort(pages, count);
	for (size_t i = 0; i < count; i++)
		roami_page_hold(node, pages[i]);
	*pages_p = pages;
	return count;
}

static void tx_done(struct roami_node *node, const uint32_t *pages, size_t count)
{
	for (size_t i = 0; i < count; i++)
		roami_page_done(node, pages[i]);
}

static void tx_undo(struct roami_node *node)
{
	const uint32_t *pages;
	size_t count = tx_pages(node, &pages);

	if (count > 0)
		node->protocol->transactions->abort(node, pages, count);
	tx_done(node, pages, count);
}

/* Decides: once this has succeeded, nothing dooms the transaction (rule 8.6). */
static bool tx_counts(struct roami_node *node)
{
	uint32_t was = ROAMI_TX_OPEN;

	return atomic_compare_exchange_strong(&tx_of(node)->state, &was, ROAMI_TX_NONE);
}

/* Commits, holding the token.  Pages stay pending until the commit is over (rule 8.7). */
static bool tx_publish(struct roami_node *node)
{
	const struct roam_transactions *transactions = node->protocol->transactions;
	const uint32_t *pages;
	size_t count = tx_pages(node, &pages);
	bool counts;

	transactions->validate(node, pages, count);
	counts = tx_counts(node);
	if (counts)
		transactions->commit(node, pages, count);
	else
		transactions->abort(node, pages, count);
	tx_done(node, pages, count);
	return counts;
}

/*
 * One that has written nothing counts though it is doomed: all that it has read is of one moment,
 * which lies within it (rule 8.7).
 */
static bool tx_commit(struct roami_node *node)
{
	bool counts;

	if (atomic_load(&pages_of(node)->dirty_count) == 0) {
		atomic_store(&tx_of(node)->state, ROAMI_TX_NONE);
		return true;
	}
	if (tx_of(node)->ahead ? atomic_load(&tx_of(node)->state) == ROAMI_TX_DOOMED
			       : !roami_tx_token_take(node))
		return false;
	counts = tx_publish(node);
	if (!tx_of(node)->ahead)
		roami_tx_token_let(node);
	return counts;
}

/* ------------------------------------------------------------------------------------- attempts */

/* A transaction that lost so often has the token while it runs: no other one can commit. */
static void tx_token_ahead(struct roami_node *node)
{
	struct roami_tx *tx = tx_of(node);
	uint64_t fair = node->options->tx_fair;

	roami_contract(!tx->ahead);
	if (fair == 0 || tx->lost < fair)
		return;
	tx->ahead = roami_tx_token_take(node);
	ROAMI_COUNT(node->stats, tx_fair, 1);
}

/* Before it waits for others. */
static void tx_token_back(struct roami_node *node)
{
	if (tx_of(node)->ahead) {
		tx_of(node)->ahead = false;
		roami_tx_token_let(node);
	}
}

static void tx_begin(struct roami_node *node)
{
	struct roami_tx *tx = tx_of(node);

	roami_contract(atomic_load(&tx->state) == ROAMI_TX_NONE && tx->held == 0);
	roami_contract(tx->calls.count == 0);
	tx->thread = node->env->thread(node);
	if (node->nodes > 1)
		node->protocol->transactions->begin(node);
	atomic_store(&tx->state, ROAMI_TX_OPEN);
}

static void tx_library(const struct roami_tx_run *run, bool in)
{
	if (run->inside != NULL)
		run->inside(in);
}

static bool tx_changed(void *arg)
{
	struct roami_node *node = arg;

	return atomic_load(&tx_of(node)->state) == ROAMI_TX_CHANGED;
}

/*
 * The attempt is undone, and its functions are called outside of it; `watches`: returns when a page
 * that it could read is lost.
 */
static void tx_end(struct roami_node *node, const struct roami_tx_run *run, bool watches)
{
	_Atomic uint32_t *state = &tx_of(node)->state;
	uint32_t was = ROAMI_TX_OPEN;

	tx_undo(node);
	if (!watches || !atomic_compare_exchange_strong(state, &was, ROAMI_TX_WATCHES))
		atomic_store(state, ROAMI_TX_NONE);
	tx_library(run, false);
	tx_calls(node, false);
	tx_library(run, true);
	if (atomic_load(state) == ROAMI_TX_NONE)
		return;
	roami_node_waits(node, ROAM_SYNC_TX + 1, 0, 0);
	roami_wait(node, tx_changed, node);
	roami_node_waits_no_more(node);
	atomic_store(state, ROAMI_TX_NONE);
}

/* Runs the attempt's function; if it retries, the other one. */
static int tx_functions(struct roami_node *node, const struct roami_tx_run *run)
{
	struct roami_tx *tx = tx_of(node);
	int how = roami_restart_run(&tx->restart, run->fn, run->arg);

	if (how != TX_RETRIES || run->otherwise == NULL)
		return how;
	ROAMI_COUNT(node->stats, tx_retries, 1);
	tx_library(run, true);
	tx_undo(node);
	tx_library(run, false);
	tx->held++; /* no fault of theirs restarts what the functions do */
	tx_calls(node, false);
	tx->held--;
	return roami_restart_run(&tx->restart, run->otherwise, run->arg);
}

static void tx_count(struct roami_node *node, bool counts, bool retries)
{
	struct roami_tx *tx = tx_of(node);

	tx->lost = counts || retries ? 0 : tx->lost + 1;
	if (counts)
		ROAMI_COUNT(node->stats, tx_commits, 1);
	else if (retries)
		ROAMI_COUNT(node->stats, tx_retries, 1);
	else
		ROAMI_COUNT(node->stats, tx_aborts, 1);
}

/* true: committed. */
static bool tx_attempt(struct roami_node *node, const struct roami_tx_run *run)
{
	bool counts;
	int how;

	tx_library(run, true);
	tx_token_ahead(node);
	tx_begin(node);
	tx_library(run, false);
	how = tx_functions(node, run);
	tx_library(run, true);
	roami_contract(tx_of(node)->held == 0);
	counts = how == TX_RETURNED && tx_commit(node);
	tx_token_back(node);
	if (!counts)
		tx_end(node, run, how == TX_RETRIES);
	tx_library(run, false);
	tx_count(node, counts, how == TX_RETRIES);
	if (counts)
		tx_calls(node, true);
	return counts;
}

void roami_tx_leave(struct roami_node *node)
{
	if (node->nodes > 1)
		tx_undo(node);
	atomic_store(&tx_of(node)->state, ROAMI_TX_NONE);
	tx_token_back(node);
	tx_of(node)->calls.count = 0;
	tx_of(node)->held = 0;
	tx_of(node)->calling = false;
}

static enum roam_err tx_attempts(struct roami_node *node, const struct roami_tx_run *run,
				 const struct tx_before *before)
{
	for (uint64_t attempt = 0; run->attempts == 0 || attempt < run->attempts; attempt++) {
		if (tx_attempt(node, run))
			return ROAM_OK;
		pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
	}
	return ROAM_ETIMEDOUT;
}

/* In a job of one node no other node can doom the transaction. */
static enum roam_err tx_alone(struct roami_node *node, const struct roami_tx_run *run)
{
	if (run->otherwise != NULL)
		return ROAM_EUNSUPPORTED;
	tx_begin(node);
	roami_restart_run(&tx_of(node)->restart, run->fn, run->arg);
	atomic_store(&tx_of(node)->state, ROAMI_TX_NONE);
	ROAMI_COUNT(node->stats, tx_commits, 1);
	tx_calls(node, true);
	return ROAM_OK;
}

/* Whether another thread uses the node: it would see what is not committed. */
static bool tx_crowded(struct roami_node *node)
{
	return atomic_load(&pages_of(node)->users) > 1 ||
	       atomic_load(&node->self->ctl->threads) > 1;
}

enum roam_err roami_tx_run(struct roami_node *node, const struct roami_tx_run *run)
{
	struct tx_before before;
	enum roam_err err;

	if (node->protocol->transactions == NULL)
		return ROAM_EUNSUPPORTED;
	if (tx_of(node)->calling)
		return ROAM_ESTATE;
	if (roami_tx_inside(node)) {
		if (run->otherwise != NULL)
			return ROAM_ESTATE;
		run->fn(run->arg);
		return ROAM_OK;
	}
	if (tx_crowded(node) || roami_tx_watches(node))
		return ROAM_ESTATE;
	pthread_sigmask(SIG_SETMASK, NULL, &before.signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.cancel);
	tx_of(node)->lost = 0;
	err = node->nodes == 1 ? tx_alone(node, run) : tx_attempts(node, run, &before);
	pthread_setcancelstate(before.cancel, NULL);
	return err;
}

/* ----------------------------------------------------------------------------------------- room */

static enum roam_err tx_init(struct roami_node *node, const struct roami_node_params *params)
{
	(void)params;
	if (node->protocol->transactions != NULL)
		pages_of(node)->asked = tx_asked;
	roami_tx_token_open(node);
	return ROAM_OK;
}

static void tx_fini(struct roami_node *node)
{
	roami_os_vec_free(&tx_of(node)->calls, sizeof(struct tx_call));
	roami_os_vec_free(&tx_of(node)->pages, sizeof(uint32_t));
}

const struct roami_room roami_room_tx = {
	.name = "tx",
	.messages = roami_tx_messages,
	.state_size = sizeof(struct roami_tx),
	.init = tx_init,
	.fini = tx_fini,
};
