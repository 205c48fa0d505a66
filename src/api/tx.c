/*
 * Transactions of the default job.  None of the calls that run functions of the program is INSIDE:
 * the room sync is, between those functions.
 */
#include "roam/tx.h"

#include "api/api.h"
#include "job/job.h"
#include "sync/tx.h"

/* The library's part of roam_tx begins, or ends, on this thread. */
static void tx_inside(bool in)
{
	if (in)
		roami_api_enter("roam_tx");
	else
		roami_inside_leave();
}

static enum roam_err tx_node(struct roami_node **node_p)
{
	uint64_t round;

	*node_p = roami_api_node_now();
	if (*node_p != NULL && roami_api_transacts())
		return ROAM_OK;
	return roami_api_node(node_p, &round);
}

/* `call`: the public function, which the program's code before `caller` has called. */
static enum roam_err tx_run(const struct roami_tx_run *run, const char *call, const void *caller)
{
	struct roami_node *node;
	enum roam_err err;

	if (run->fn == NULL)
		return ROAM_EINVAL;
	tx_inside(true);
	err = tx_node(&node);
	tx_inside(false);
	if (err == ROAM_OK && node->protocol->transactions == NULL)
		return roami_misused(node, ROAMI_MISUSE_TX, ROAM_EUNSUPPORTED, call, NULL, caller);
	return err == ROAM_OK ? roami_tx_run(node, run) : err;
}

enum roam_err roam_tx(roam_tx_fn *fn, void *arg, const struct roam_tx_options *options)
{
	const struct roami_tx_run run = {.fn = fn,
					 .arg = arg,
					 .attempts = options != NULL ? options->attempts : 0,
					 .inside = tx_inside};

	return tx_run(&run, __func__, __builtin_return_address(0));
}

enum roam_err roam_tx_or_else(roam_tx_fn *first, roam_tx_fn *second, void *arg,
			      const struct roam_tx_options *options)
{
	const struct roami_tx_run run = {.fn = first,
					 .otherwise = second,
					 .arg = arg,
					 .attempts = options != NULL ? options->attempts : 0,
					 .inside = tx_inside};

	if (second == NULL)
		return ROAM_EINVAL;
	return tx_run(&run, __func__, __builtin_return_address(0));
}

void roam_tx_retry(void)
{
	struct roami_node *node = roami_api_node_now();

	if (node == NULL || !roami_api_transacts())
		roami_api_die("roam_tx_retry outside of a transaction");
	roami_tx_retry(node);
}

void roam_tx_cancel(void)
{
	struct roami_node *node = roami_api_node_now();

	if (node == NULL || !roami_api_transacts())
		roami_api_die("roam_tx_cancel outside of a transaction");
	roami_tx_cancel(node);
}

enum roam_err roam_tx_writes(void *addr, size_t bytes)
{
	INSIDE;
	struct roami_node *node = roami_api_node_now();

	if (!roami_api_transacts())
		return ROAM_ESTATE;
	if (addr == NULL || bytes == 0)
		return ROAM_EINVAL;
	if (!roami_api_shared(addr, bytes))
		return ROAM_ENOTOURS;
	roami_tx_writes(node, (uint64_t)((uint8_t *)addr - node->app), bytes);
	return ROAM_OK;
}

static enum roam_err tx_durable(void)
{
	INSIDE_OF("roam_tx_durable");
	struct roami_node *node;
	uint64_t round;
	enum roam_err err;

	if (roami_api_transacts())
		return ROAM_ESTATE;
	err = roami_api_node(&node, &round);
	if (err != ROAM_OK)
		return err;
	return roami_api_job.stored != NULL ? roami_stored_durable(&roami_api_job)
					    : ROAM_EUNSUPPORTED;
}

enum roam_err roam_tx_durable(void)
{
	enum roam_err err = tx_durable();

	if (err == ROAM_OK)
		roami_api_tx_due();
	return err;
}

void roami_api_tx_due(void)
{
	struct roami_node *node = roami_api_node_now();

	if (node != NULL && roami_api_job.stored != NULL && roami_inside.call == NULL &&
	    !roami_api_transacts())
		roami_tx_due(node, tx_inside, true);
}

bool roam_tx_inside(void)
{
	return roami_api_transacts();
}

static enum roam_err tx_then(bool committed, roam_tx_fn *fn, void *arg)
{
	struct roami_node *node = roami_api_node_now();

	if (fn == NULL)
		return ROAM_EINVAL;
	if (!roami_api_transacts())
		return ROAM_ESTATE;
	return committed ? roami_tx_when_durable(node, fn, arg)
			 : roami_tx_then(node, false, fn, arg, NULL);
}

enum roam_err roam_tx_on_commit(roam_tx_fn *fn, void *arg)
{
	INSIDE;

	return tx_then(true, fn, arg);
}

enum roam_err roam_tx_on_abort(roam_tx_fn *fn, void *arg)
{
	INSIDE;

	return tx_then(false, fn, arg);
}

/* --------------------------------------------------------------------------- blocks of the heap */

/* The call of roam_free has returned long ago: its error has no other way out than a line. */
static void tx_free(void *block)
{
	struct roami_node *node = roami_api_node_now();
	const uint8_t *from = tx_calls_of(node)->from;
	enum roam_err err;

	roami_api_enter("roam_free");
	err = roami_api_free(block, from);
	if (err != ROAM_OK)
		roami_misused(node, ROAMI_MISUSE_FREE, err, "roam_free", block, from + 1);
	roami_inside_leave();
}

void *roami_api_tx_allocated(void *block, const void *from)
{
	struct roami_node *node = roami_api_node_now();

	if (block != NULL && roami_tx_then(node, false, tx_free, block, from) != ROAM_OK) {
		roami_api_errno(ROAM_ENOMEM);
		roami_api_free_now(block);
		block = NULL;
	}
	roami_tx_let(node);
	return block;
}

enum roam_err roami_api_tx_free(void *block, const void *from)
{
	return roami_tx_then(roami_api_node_now(), true, tx_free, block, from);
}
