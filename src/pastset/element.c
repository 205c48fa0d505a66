/*
 * Rules 11.2, 11.3 and 11.5: what First, Last and DeltaValue allow, and which tuple an
 * observe gets.
 */
#include "pastset/element.h"

#include <string.h>

#include "pastset/bitmap.h"

void roami_element_init(struct roami_element *element, struct roami_past_buddy *buddy,
			uint64_t delta, bool forget)
{
	memset(element, 0, sizeof(*element));
	element->buddy = buddy;
	element->delta = delta != 0 ? delta : UINT64_MAX;
	element->forget = forget;
	roami_tuples_init(&element->tuples);
}

/* Removes the oldest tuple if it and so all older ones were observed, and the element may. */
static bool element_forget(struct roami_node *node, struct roami_element *element)
{
	struct roami_tuples *tuples = &element->tuples;

	if (!element->forget || tuples->oldest >= tuples->first)
		return false;
	roami_tuples_truncate(node, element->buddy, tuples, tuples->oldest + 1);
	return true;
}

roami_record roami_element_reserve(struct roami_node *node, struct roami_element *element,
				   uint32_t bytes)
{
	roami_record record;

	roami_assert(roami_spin_held(&element->lock));
	do
		record = roami_tuples_reserve(node, element->buddy, &element->tuples, bytes);
	while (record == 0 && element_forget(node, element));
	return record;
}

static bool element_move(struct roami_node *node, struct roami_element *element,
			 struct roami_op *op)
{
	struct roami_tuples *tuples = &element->tuples;
	bool done;

	roami_assert(op->record != 0);
	if (tuples->last + 1 - tuples->first >= element->delta)
		return false;
	do
		done = roami_tuples_append(node, element->buddy, tuples, op->record);
	while (!done && element_forget(node, element));
	if (done) {
		op->moved = tuples->last;
	} else {
		op->err = ROAM_ENOSPC;
		roami_record_rele(node, element->buddy, op->record);
	}
	op->record = 0;
	return true;
}

/* The first and the second in a round: is one of two here, and does the other take partials? */
static void element_pair(const struct roami_node *node, struct roami_element *element,
			 uint32_t first, uint32_t second)
{
	uint32_t here = node->me + 1;

	element->partner = 0;
	if (element->participants == 2 && (first == here) != (second == here))
		element->partner = first == here ? second : first;
}

/*
 * Gives the partner the tuple that the participant here has moved, if nothing can fail from now on.
 */
static void element_give(struct roami_node *node, struct roami_element *element,
			 struct roami_op *op, const struct roami_round *round)
{
	uint32_t bytes = element->template->bytes;

	if (op->partial == NULL || element->partner == 0 || bytes > ROAMI_PARTIAL_MAX ||
	    element->function->combine == NULL || op->ask.number != element->tuples.last + 1 ||
	    !roami_tuples_buffer(node, element->buddy, &element->tuples))
		return;
	element->given = op->partial->round = op->ask.number;
	element->recalled = false;
	op->partial->partner = element->partner;
	op->partial->bytes = bytes;
	memcpy(op->partial->tuple, roami_record_data(element->buddy, round->record), bytes);
}

bool roami_element_unsure(const struct roami_element *element, const struct roami_op *op)
{
	roami_contract(roami_spin_held(&element->lock));
	/* A mob's second half has begun before the partner could use what its first has moved. */
	return element->given != 0 && !op->lax && op->moved == 0 &&
	       op->ask.op != ROAMI_ASK_BREAK && !roami_element_expects(element, op);
}

/* Takes the tuple into its round; the last one completes it. */
static enum roam_err element_combine(struct roami_node *node, struct roami_element *element,
				     struct roami_op *op)
{
	struct roami_round *round = &element->rounds[op->ask.number % ROAMI_ROUNDS_MAX];
	struct roami_tuples *tuples = &element->tuples;
	bool completes = round->count + 1 == element->participants;
	bool takes = op->node == node->me + 1 || (op->ask.flags & ROAMI_ASK_PARTIAL) != 0;
	uint32_t who = takes ? op->node : 0;

	roami_assert((op->record != 0) != (op->brought != NULL));
	if (completes && op->ask.number != tuples->last + 1)
		return ROAM_EINVAL;
	while (completes && !roami_tuples_buffer(node, element->buddy, tuples))
		if (!element_forget(node, element))
			return ROAM_ENOSPC;
	if (round->count++ == 0) {
		round->record = op->record;
		round->first = who;
	} else {
		roami_function_combine(element->function, element->template,
				       roami_record_data(element->buddy, round->record),
				       op->record != 0
					       ? roami_record_data(element->buddy, op->record)
					       : op->brought);
	}
	if (round->record != op->record && op->record != 0)
		roami_record_rele(node, element->buddy, op->record);
	op->record = 0;
	op->brought = NULL;
	op->moved = op->ask.number;
	if (completes) {
		element_pair(node, element, round->first, who);
		roami_tuples_append(node, element->buddy, tuples, round->record);
		round->count = 0;
	} else {
		element_give(node, element, op, round);
	}
	return ROAM_OK;
}

static bool element_round(struct roami_node *node, struct roami_element *element,
			  struct roami_op *op)
{
	const struct roami_tuples *tuples = &element->tuples;

	if (roami_element_expects(element, op)) {
		op->known = (op->ask.flags & ROAMI_ASK_PARTIAL) != 0;
		element->given = 0;
	}
	if (op->ask.number > tuples->last + ROAMI_ROUNDS_MAX ||
	    (op->ask.number > tuples->last && op->ask.number - tuples->first >= element->delta))
		return false;
	op->err = op->ask.number <= tuples->last ? ROAM_EINVAL : element_combine(node, element, op);
	if (op->record != 0)
		roami_record_rele(node, element->buddy, op->record);
	op->record = 0;
	return true;
}

/*
 * The oldest untagged tuple that matches the pattern.  Looks at each tuple once, because tags stay
 * and new tuples have new numbers.
 */
static uint64_t element_match(struct roami_element *element, struct roami_op *op)
{
	struct roami_tuples *tuples = &element->tuples;
	const struct roami_past_buddy *buddy = element->buddy;
	uint64_t number = op->looked + 1 > tuples->first ? op->looked + 1 : tuples->first;

	for (; number <= tuples->last; number++) {
		roami_record record = roami_tuples_find(buddy, tuples, number);

		if (!roami_tuples_tagged(buddy, tuples, number) &&
		    roami_function_match(element->function, element->template, op->ask.number,
					 roami_record_data(buddy, op->record),
					 roami_record_bytes(buddy, op->record),
					 roami_record_data(buddy, record),
					 roami_record_bytes(buddy, record)))
			break;
	}
	op->looked = number - 1;
	return number;
}

/* The number of the tuple that an observe returns; beyond `last` if it must wait. */
static uint64_t element_number(struct roami_element *element, struct roami_op *op)
{
	const struct roami_tuples *tuples = &element->tuples;

	switch ((enum roam_ps_which)op->ask.which) {
	case ROAM_PS_FIFO:
		return tuples->first;
	case ROAM_PS_LAST:
		return tuples->oldest > tuples->last ? tuples->oldest : tuples->last;
	case ROAM_PS_NUMBER:
		return op->ask.number;
	case ROAM_PS_MATCH:
		return element_match(element, op);
	case ROAM_PS_NEXT:
		break;
	}
	if (op->ask.number > tuples->last)
		return op->ask.number;
	op->skipped = op->ask.number + 1 < tuples->oldest;
	return op->skipped ? tuples->oldest : op->ask.number + 1;
}

static void element_tag(struct roami_element *element, const struct roami_op *op, uint64_t number)
{
	struct roami_tuples *tuples = &element->tuples;

	if ((op->ask.flags & ROAM_PS_PEEK) != 0)
		return;
	if (element->participants != 0 &&
	    ((op->ask.flags & ROAMI_ASK_ROUND) == 0 ||
	     roami_record_seen(element->buddy, op->record) != element->participants))
		return;
	if (op->ask.which == ROAM_PS_LAST && (op->ask.flags & ROAM_PS_SKIP) != 0)
		while (tuples->first < number)
			roami_tuples_tag(element->buddy, tuples, tuples->first);
	roami_tuples_tag(element->buddy, tuples, number);
}

static bool element_observe(struct roami_node *node, struct roami_element *element,
			    struct roami_op *op)
{
	bool known = op->ask.which != ROAM_PS_MATCH || (element->matches && op->record != 0);
	uint64_t number = known ? element_number(element, op) : 0;
	roami_record record;

	if (number > element->tuples.last)
		return false;
	if (op->record != 0)
		roami_record_rele(node, element->buddy, op->record);
	op->record = 0;
	if (!known) {
		op->err = ROAM_EINVAL;
		return true;
	}
	if (number < element->tuples.oldest) {
		op->err = ROAM_EGONE;
		return true;
	}
	record = roami_tuples_find(element->buddy, &element->tuples, number);
	op->bytes = element->packs ? roami_bitmap_bytes(roami_record_data(element->buddy, record))
				   : roami_record_bytes(element->buddy, record);
	if (op->bytes > op->ask.limit) {
		op->err = ROAM_ETOOBIG;
		return true;
	}
	roami_record_hold(element->buddy, record);
	op->record = record;
	op->observed = number;
	element_tag(element, op, number);
	return true;
}

static void element_state(const struct roami_element *element, struct roam_ps_state *state)
{
	const struct roami_tuples *tuples = &element->tuples;

	*state = (struct roam_ps_state){tuples->first,  tuples->last,  tuples->oldest,
					element->delta, tuples->bytes, element->waiting};
}

/* Nothing is moved or observed any more; what there is may be looked at. */
static bool element_broken(struct roami_node *node, struct roami_element *element,
			   struct roami_op *op)
{
	if (op->ask.op == ROAMI_ASK_BREAK) {
		element->broken = true;
		return true;
	}
	/* The partner may have the result already of the round that was given: that comes first. */
	if (!element->broken || element->given != 0 || op->ask.op == ROAM_PS_STATE ||
	    op->ask.op == ROAM_PS_TRUNCATE)
		return false;
	if (op->record != 0)
		roami_record_rele(node, element->buddy, op->record);
	op->record = 0;
	op->err = ROAM_ELOST;
	return true;
}

bool roami_element_try(struct roami_node *node, struct roami_element *element, struct roami_op *op)
{
	roami_assert(roami_spin_held(&element->lock));
	if (roami_element_unsure(element, op))
		return false;
	if (element_broken(node, element, op))
		return true;
	switch ((enum roam_ps_op)op->ask.op) {
	case ROAM_PS_MOVE:
	case ROAM_PS_MOB:
		if (element->participants != 0)
			return element_round(node, element, op);
		return element_move(node, element, op);
	case ROAM_PS_OBSERVE:
		return element_observe(node, element, op);
	case ROAM_PS_DELTA:
		element->delta = op->ask.number;
		break;
	case ROAM_PS_TRUNCATE:
		roami_tuples_truncate(node, element->buddy, &element->tuples, op->ask.number);
		break;
	case ROAM_PS_STATE:
		element_state(element, &op->state);
		break;
	}
	return true;
}
