/*
 * Functions that are called when a transaction has been committed, when that is on the disk, or
 * when an attempt of it has been undone.
 */
#include <string.h>

#include "sync/tx.h"

struct tx_call {
	roami_tx_fn *fn;
	void *arg;
	const void *from;
	bool committed; /* when it is called */
	bool later;     /* not before it is durable */
};

struct tx_owed {
	roami_tx_fn *fn;
	void *arg;
	uint64_t number; /* of struct roami_tx_store */
};

#define OWED_MAX 4096u /* functions; with more of them a commit waits for the disk */

static enum roam_err tx_then(struct roami_node *node, struct tx_call call)
{
	struct roami_tx_calls *calls = tx_calls_of(node);
	struct tx_call *at;

	roami_contract(roami_tx_inside(node));
	if (calls->now)
		return ROAM_ESTATE;
	at = roami_os_vec_grow(&calls->list, sizeof(*at), 1);
	if (at == NULL)
		return ROAM_ENOMEM;
	/* So that there is room when it is committed. */
	if (call.later && roami_os_vec_grow(&calls->later, sizeof(struct tx_owed),
					    calls->list.count + 1) == NULL)
		return ROAM_ENOMEM;
	*at = call;
	calls->list.count++;
	return ROAM_OK;
}

enum roam_err roami_tx_then(struct roami_node *node, bool committed, roami_tx_fn *fn, void *arg,
			    const void *from)
{
	return tx_then(node, (struct tx_call){fn, arg, from, committed, false});
}

enum roam_err roami_tx_when_durable(struct roami_node *node, roami_tx_fn *fn, void *arg)
{
	return tx_then(node, (struct tx_call){fn, arg, NULL, true, true});
}

bool roami_tx_owes(struct roami_node *node)
{
	const struct roami_vec *list = &tx_calls_of(node)->list;
	const struct tx_call *calls = (const void *)list->items;
	size_t i = 0;

	while (i < list->count && !calls[i].later)
		i++;
	return i < list->count;
}

static void tx_owe(struct roami_tx_calls *calls, struct tx_call call, uint64_t number)
{
	struct tx_owed *owed = (void *)calls->later.items;

	owed[calls->later.count++] = (struct tx_owed){call.fn, call.arg, number};
}

/* The first function that is owed, if it is due. */
static bool tx_next_due(struct roami_node *node, bool waits, struct tx_owed *owed_p)
{
	struct roami_vec *later = &tx_calls_of(node)->later;

	if (later->count == 0)
		return false;
	*owed_p = *(struct tx_owed *)(void *)later->items;
	if (!tx_of(node)->store->durable(node, owed_p->number, waits))
		return false;
	later->count--;
	memmove(later->items, later->items + sizeof(*owed_p), later->count * sizeof(*owed_p));
	return true;
}

void roami_tx_due(struct roami_node *node, void (*inside)(bool in), bool waits)
{
	struct roami_tx_calls *calls = tx_calls_of(node);
	struct tx_owed owed;
	bool due;

	while (calls->later.count > 0 && !calls->now) {
		tx_library(inside, true);
		due = tx_next_due(node, waits || calls->later.count > OWED_MAX, &owed);
		tx_library(inside, false);
		if (!due)
			return;
		calls->now = true;
		owed.fn(owed.arg);
		calls->now = false;
	}
}

void roami_tx_calls(struct roami_node *node, bool committed, uint64_t number)
{
	struct roami_tx_calls *calls = tx_calls_of(node);
	size_t count = calls->list.count;

	calls->now = true;
	for (size_t i = 0; i < count; i++) {
		size_t at = committed ? i : count - 1 - i;
		struct tx_call call = ((struct tx_call *)(void *)calls->list.items)[at];

		calls->from = call.from;
		if (call.committed == committed && call.later && number != 0)
			tx_owe(calls, call, number);
		else if (call.committed == committed)
			call.fn(call.arg);
	}
	calls->list.count = 0;
	calls->now = false;
}

void roami_tx_calls_free(struct roami_tx_calls *calls)
{
	roami_os_vec_free(&calls->list, sizeof(struct tx_call));
	roami_os_vec_free(&calls->later, sizeof(struct tx_owed));
}
