/*
 * The rules of RULES 11.2, 11.3 and 11.5: what First, Last and DeltaValue allow, and which tuple an
 * observe gets.
 */
#include "pastset/element.h"

#include <string.h>

void roami_element_init(struct roami_element *element, uint64_t delta, bool forget)
{
	memset(element, 0, sizeof(*element));
	element->delta = delta != 0 ? delta : UINT64_MAX;
	element->forget = forget;
	roami_tuples_init(&element->tuples);
}

/* Removes the oldest tuple if it and so all older ones were observed, and the element may. */
static bool element_forget(struct roami_node *node, struct roami_past_pool *pool,
			   struct roami_element *element)
{
	struct roami_tuples *tuples = &element->tuples;

	if (!element->forget || tuples->oldest >= tuples->first)
		return false;
	roami_tuples_truncate(node, pool, tuples, tuples->oldest + 1);
	return true;
}

roami_record roami_element_reserve(struct roami_node *node, struct roami_past_pool *pool,
				   struct roami_element *element, uint32_t bytes)
{
	roami_record record;

	do
		record = roami_tuples_reserve(node, pool, &element->tuples, bytes);
	while (record == 0 && element_forget(node, pool, element));
	return record;
}

static bool element_move(struct roami_node *node, struct roami_past_pool *pool,
			 struct roami_element *element, struct roami_op *op)
{
	struct roami_tuples *tuples = &element->tuples;
	bool done;

	if (tuples->last + 1 - tuples->first >= element->delta)
		return false;
	do
		done = roami_tuples_append(node, pool, tuples, op->record);
	while (!done && element_forget(node, pool, element));
	if (done) {
		op->moved = tuples->last;
	} else {
		op->err = ROAM_ENOSPC;
		roami_record_rele(node, pool, op->record);
	}
	op->record = 0;
	return true;
}

/* The number that an observe is for, beyond `last` if it has to wait. */
static uint64_t element_number(const struct roami_element *element, struct roami_op *op)
{
	const struct roami_tuples *tuples = &element->tuples;

	switch ((enum roam_ps_which)op->ask.which) {
	case ROAM_PS_FIFO:
		return tuples->first;
	case ROAM_PS_LAST:
		return tuples->oldest > tuples->last ? tuples->oldest : tuples->last;
	case ROAM_PS_NUMBER:
		return op->ask.number;
	case ROAM_PS_NEXT:
		break;
	}
	if (op->ask.number > tuples->last)
		return op->ask.number;
	op->skipped = op->ask.number + 1 < tuples->oldest;
	return op->skipped ? tuples->oldest : op->ask.number + 1;
}

static void element_tag(const struct roami_past_pool *pool, struct roami_element *element,
			const struct roami_op *op, uint64_t number)
{
	struct roami_tuples *tuples = &element->tuples;

	if ((op->ask.flags & ROAM_PS_PEEK) != 0)
		return;
	if (op->ask.which == ROAM_PS_LAST && (op->ask.flags & ROAM_PS_SKIP) != 0)
		while (tuples->first < number)
			roami_tuples_tag(pool, tuples, tuples->first);
	roami_tuples_tag(pool, tuples, number);
}

static bool element_observe(const struct roami_past_pool *pool, struct roami_element *element,
			    struct roami_op *op)
{
	uint64_t number = element_number(element, op);
	roami_record record;

	if (number > element->tuples.last)
		return false;
	if (number < element->tuples.oldest) {
		op->err = ROAM_EGONE;
		return true;
	}
	record = roami_tuples_find(pool, &element->tuples, number);
	op->bytes = roami_record_bytes(pool, record);
	if (op->bytes > op->ask.limit) {
		op->err = ROAM_ETOOBIG;
		return true;
	}
	roami_record_hold(pool, record);
	op->record = record;
	op->observed = number;
	element_tag(pool, element, op, number);
	return true;
}

static void element_state(const struct roami_element *element, struct roam_ps_state *state)
{
	const struct roami_tuples *tuples = &element->tuples;

	*state = (struct roam_ps_state){tuples->first,  tuples->last,  tuples->oldest,
					element->delta, tuples->bytes, element->waiting};
}

bool roami_element_try(struct roami_node *node, struct roami_past_pool *pool,
		       struct roami_element *element, struct roami_op *op)
{
	switch ((enum roam_ps_op)op->ask.op) {
	case ROAM_PS_MOVE:
	case ROAM_PS_MOB:
		return element_move(node, pool, element, op);
	case ROAM_PS_OBSERVE:
		return element_observe(pool, element, op);
	case ROAM_PS_DELTA:
		element->delta = op->ask.number;
		break;
	case ROAM_PS_TRUNCATE:
		roami_tuples_truncate(node, pool, &element->tuples, op->ask.number);
		break;
	case ROAM_PS_STATE:
		element_state(element, &op->state);
		break;
	}
	return true;
}
