#include "pastset/kernel.h"

#include <string.h>

#include "pastset/bitmap.h"
#include "pastset/shown.h"

#define BROUGHT_MAX 1024u /* bytes that are copied under a lock */

/* ------------------------------------------------------------------------------------- waiters */

static struct roami_past_waiter *waiter_take(struct roami_past *past,
					     const struct roam_request *request)
{
	struct roami_past_waiter *waiter;
	uint32_t used;
	uint64_t id;

	roami_spin_lock(past->node, &past->waiter_lock);
	used = atomic_load_explicit(&past->waiters_used, memory_order_relaxed);
	waiter = past->free_waiter;
	if (waiter != NULL) {
		past->free_waiter = waiter->next;
	} else if (used < ROAMI_WAITERS_MAX) {
		waiter = &past->waiters[used];
		atomic_store(&past->waiters_used, used + 1);
	}
	id = ++past->serial | 1ull << 63;
	roami_spin_unlock(&past->waiter_lock);
	if (waiter == NULL)
		return NULL;
	memset(&waiter->request, 0, sizeof(waiter->request));
	if (request != NULL) {
		waiter->request = *request;
		id = (uint64_t)(request->origin + 1u) << 32 | request->call;
	}
	atomic_store(&waiter->done, 0);
	atomic_store(&waiter->deadline, 0);
	atomic_store(&waiter->cancelled, 0);
	atomic_store(&waiter->id, id);
	return waiter;
}

void roami_past_free_waiter(struct roami_past *past, struct roami_past_waiter *waiter)
{
	roami_assert(atomic_load(&waiter->id) != 0 && atomic_load(&waiter->at) == 0);
	atomic_store(&waiter->id, 0);
	roami_spin_lock(past->node, &past->waiter_lock);
	waiter->next = past->free_waiter;
	past->free_waiter = waiter;
	roami_spin_unlock(&past->waiter_lock);
}

static bool waiter_cancelled(const struct roami_past_waiter *waiter)
{
	return atomic_load(&waiter->cancelled) == atomic_load(&waiter->id);
}

/* The element's lock is held, for both. */
static void queue_push(struct roami_past *past, struct roami_element *element,
		       struct roami_past_waiter *waiter)
{
	roami_assert(roami_spin_held(&element->lock) && atomic_load(&waiter->at) == 0);
	waiter->next = NULL;
	waiter->before = element->last_waiter;
	if (element->last_waiter != NULL)
		element->last_waiter->next = waiter;
	else
		element->first_waiter = waiter;
	element->last_waiter = waiter;
	element->waiting++;
	atomic_store(&waiter->deadline, waiter->op.deadline);
	atomic_store(&waiter->at, (uint32_t)(element - past->elements) + 1);
}

static void queue_pull(struct roami_element *element, struct roami_past_waiter *waiter)
{
	roami_assert(roami_spin_held(&element->lock) && atomic_load(&waiter->at) != 0);
	if (waiter->before != NULL)
		waiter->before->next = waiter->next;
	else
		element->first_waiter = waiter->next;
	if (waiter->next != NULL)
		waiter->next->before = waiter->before;
	else
		element->last_waiter = waiter->before;
	element->waiting--;
	atomic_store(&waiter->at, 0);
}

static struct roami_past_buddy *op_buddy(struct roami_past *past, const struct roami_op *op)
{
	return roami_past_element(past, op->ask.element)->buddy;
}

/* Ends an operation undone: what it reserved goes back. */
static void op_give_up(struct roami_past *past, struct roami_op *op, enum roam_err why)
{
	if (op->record != 0)
		roami_record_rele(past->node, op_buddy(past, op), op->record);
	op->record = 0;
	op->err = why;
}

static bool waiter_late(struct roami_past *past, struct roami_past_waiter *waiter)
{
	uint64_t deadline = atomic_load(&waiter->deadline);

	return deadline != 0 && deadline <= past->node->env->now(past->node);
}

/*
 * Gives up a waiter that had to wait for a partial's outcome, now that it is known, if the waiter
 * is cancelled or late.  true: it has given up.  The element's lock is held.
 */
static bool waiter_finish(struct roami_past *past, const struct roami_element *element,
			  struct roami_past_waiter *waiter)
{
	enum roam_err why = ROAM_OK;

	roami_assert(roami_spin_held(&element->lock));
	if (!waiter->unsure || roami_element_unsure(element, &waiter->op))
		return false;
	waiter->unsure = false;
	if (waiter_cancelled(waiter))
		why = ROAM_ECANCELED;
	else if (waiter->op.ask.timeout_ns == ROAM_PS_TRY || waiter_late(past, waiter))
		why = ROAM_ETIMEDOUT;
	if (why != ROAM_OK)
		op_give_up(past, &waiter->op, why);
	return why != ROAM_OK;
}

/*
 * Serves waiters that can go on now, first come first; each may change what those before it can
 * do.  The element's lock is held.
 */
static void queue_serve(struct roami_past *past, struct roami_element *element,
			struct roami_past_waiter ***served)
{
	struct roami_past_waiter *waiter = element->first_waiter;

	roami_assert(roami_spin_held(&element->lock));
	while (waiter != NULL) {
		if (!roami_element_try(past->node, element, &waiter->op) &&
		    !waiter_finish(past, element, waiter)) {
			waiter = waiter->next;
			continue;
		}
		queue_pull(element, waiter);
		waiter->next = NULL;
		**served = waiter;
		*served = &waiter->next;
		waiter = element->first_waiter;
	}
}

/* Takes a waiter out of its queue, if it still waits, `really` holds, and no partial is out. */
static bool waiter_give_up(struct roami_past *past, struct roami_past_waiter *waiter,
			   enum roam_err why,
			   bool (*really)(struct roami_past *past,
					  struct roami_past_waiter *waiter))
{
	uint32_t at = atomic_load(&waiter->at);
	struct roami_element *element;
	bool mine;

	if (at == 0)
		return false;
	element = &past->elements[at - 1];
	roami_spin_lock(past->node, &element->lock);
	mine = atomic_load(&waiter->at) == at && really(past, waiter) &&
	       !(waiter->unsure && roami_element_unsure(element, &waiter->op));
	if (mine) {
		queue_pull(element, waiter);
		op_give_up(past, &waiter->op, why);
	}
	roami_spin_unlock(&element->lock);
	return mine;
}

static void waiter_complete(struct roami_past *past, struct roami_past_waiter *waiter)
{
	roami_assert(atomic_load(&waiter->at) == 0);
	if (waiter->request.call != 0) {
		past->calls->reply(past, &waiter->request, &waiter->op);
		roami_past_free_waiter(past, waiter);
		return;
	}
	if (waiter->op.served != NULL) {
		waiter->op.served(waiter->op.arg, &waiter->op);
		roami_past_free_waiter(past, waiter);
		return;
	}
	atomic_store_explicit(&waiter->done, 1, memory_order_release);
	roami_changed(past->node, past->node->me);
}

/* -------------------------------------------------------------------------------------- alarms */

/*
 * Sets an alarm for a deadline.  An alarm is only set before all others, so they go off in the
 * order of the stack, the last one first.
 */
static void alarm_set(struct roami_past *past, uint64_t deadline)
{
	uint64_t now = past->node->env->now(past->node);
	bool set;

	roami_spin_lock(past->node, &past->alarm_lock);
	set = past->alarm_count == 0 || past->alarms[past->alarm_count - 1] > deadline;
	if (set && past->alarm_count == ROAMI_ALARMS_MAX)
		past->alarm_count--; /* it goes off unexpected, which does no harm */
	if (set)
		past->alarms[past->alarm_count++] = deadline;
	roami_spin_unlock(&past->alarm_lock);
	if (set)
		past->calls->alarm(past, deadline > now ? deadline - now : 0);
}

void roami_past_expire(struct roami_past *past)
{
	uint64_t now = past->node->env->now(past->node), next = UINT64_MAX;

	roami_spin_lock(past->node, &past->alarm_lock);
	while (past->alarm_count > 0 && past->alarms[past->alarm_count - 1] <= now)
		past->alarm_count--;
	roami_spin_unlock(&past->alarm_lock);
	for (uint32_t i = 0; i < atomic_load(&past->waiters_used); i++) {
		struct roami_past_waiter *waiter = &past->waiters[i];
		uint64_t deadline = atomic_load(&waiter->deadline);

		if (atomic_load(&waiter->at) == 0 || deadline == 0)
			continue;
		if (deadline > now)
			next = deadline < next ? deadline : next;
		else if (waiter_give_up(past, waiter, ROAM_ETIMEDOUT, waiter_late))
			waiter_complete(past, waiter);
	}
	if (next != UINT64_MAX)
		alarm_set(past, next);
}

/* ---------------------------------------------------------------------------------- operations */

bool roami_past_reserve(struct roami_past *past, struct roami_op *op, size_t bytes)
{
	struct roami_element *element = roami_past_element(past, op->ask.element);

	roami_spin_lock(past->node, &element->lock);
	op->record = roami_element_reserve(past->node, element, (uint32_t)bytes);
	roami_shown_put(past, element); /* it may have forgotten its last tuple */
	roami_spin_unlock(&element->lock);
	if (op->record == 0)
		op->err = ROAM_ENOSPC;
	return op->record != 0;
}

_Static_assert(ROAMI_BITMAP_MAX <= ROAMI_SLAB_BYTES, "the longest tuple");

static bool take_packed(struct roami_past *past, struct roami_op *op, const void *tuple,
			size_t bytes)
{
	struct roami_slab *room = roami_node_slab(past->node);
	size_t packed = roami_bitmap_pack(tuple, bytes, room->bytes);
	bool taken = roami_past_reserve(past, op, packed);

	if (taken)
		memcpy(roami_record_data(op_buddy(past, op), op->record), room->bytes, packed);
	roami_slab_give(room);
	return taken;
}

bool roami_past_take(struct roami_past *past, struct roami_op *op, const void *tuple, size_t bytes)
{
	if (roami_past_element(past, op->ask.element)->packs)
		return take_packed(past, op, tuple, bytes);
	if (!roami_past_reserve(past, op, bytes))
		return false;
	memcpy(roami_record_data(op_buddy(past, op), op->record), tuple, bytes);
	return true;
}

bool roami_past_bring(struct roami_past *past, struct roami_op *op, const void *tuple, size_t bytes)
{
	roami_assert(op->record == 0 && op->brought == NULL);
	if (bytes > BROUGHT_MAX || roami_past_element(past, op->ask.element)->packs)
		return roami_past_take(past, op, tuple, bytes);
	op->brought = tuple;
	op->brought_bytes = (uint32_t)bytes;
	return true;
}

void roami_past_give(struct roami_past *past, const struct roami_op *op, void *tuple)
{
	const struct roami_past_buddy *buddy = op_buddy(past, op);
	const uint8_t *bytes = roami_record_data(buddy, op->record);

	roami_assert(op->record != 0);
	if (!roami_past_packs(past, op))
		memcpy(tuple, bytes, op->bytes);
	else if (!roami_bitmap_unpack(bytes, roami_record_bytes(buddy, op->record), tuple))
		roami_node_fail(past->node, "a compressed tuple is damaged");
}

bool roami_past_packs(struct roami_past *past, const struct roami_op *op)
{
	return op->record != 0 && roami_past_element(past, op->ask.element)->packs;
}

void roami_past_outcome(struct roami_past *past, const struct roami_op *op, void *room,
			struct roami_outcome *outcome, struct roam_part *rest)
{
	*outcome = roami_outcome_of(op);
	*rest = (struct roam_part){NULL, 0};
	if ((op->ask.flags & ROAMI_ASK_RECORD) != 0)
		outcome->record = op->record;
	else if (room != NULL)
		*rest = (struct roam_part){room, op->bytes};
	else if (op->record != 0)
		*rest = (struct roam_part){
			roami_record_data(roami_past_element(past, op->ask.element)->buddy,
					  op->record),
			op->bytes};
	else if (op->ask.op == ROAM_PS_STATE)
		*rest = (struct roam_part){&op->state, sizeof(op->state)};
}

/* Puts what was brought into a record, or sets op->err.  The element's lock is held. */
static bool op_unload(struct roami_past *past, struct roami_element *element, struct roami_op *op)
{
	roami_assert(op->record == 0 && op->brought != NULL);
	op->record = roami_element_reserve(past->node, element, op->brought_bytes);
	if (op->record != 0)
		memcpy(roami_record_data(element->buddy, op->record), op->brought,
		       op->brought_bytes);
	else
		op->err = ROAM_ENOSPC;
	op->brought = NULL;
	return op->record != 0;
}

/* roami_element_try, after the bytes that came have been put into a record. */
static bool op_try(struct roami_past *past, struct roami_element *element, struct roami_op *op)
{
	if (op->brought != NULL && !roami_element_expects(element, op) &&
	    !op_unload(past, element, op))
		return true;
	return roami_element_try(past->node, element, op);
}

/* The second half of a mob is due. */
static bool op_continues(struct roami_op *op)
{
	if (op->ask.op != ROAM_PS_MOB || op->err != ROAM_OK)
		return false;
	op->ask.op = ROAM_PS_OBSERVE;
	op->ask.element = op->ask.from;
	return true;
}

/*
 * Queues an operation that has to wait, `op` or that of the waiter; NULL: it may not wait, and is
 * done.  No thread that cancels knows a new waiter's id yet.  The element's lock is held.
 */
static struct roami_past_waiter *op_queue(struct roami_past *past, struct roami_element *element,
				     struct roami_op *op, struct roami_past_waiter *waiter,
				     const struct roam_request *request)
{
	bool unsure = roami_element_unsure(element, op);

	roami_contract(roami_spin_held(&element->lock));
	if (op->ask.timeout_ns == ROAM_PS_TRY && !unsure) {
		op_give_up(past, op, ROAM_ETIMEDOUT);
		return NULL;
	}
	if (waiter == NULL) {
		waiter = waiter_take(past, request);
		if (waiter == NULL) {
			op_give_up(past, op, ROAM_EAGAIN);
			return NULL;
		}
		waiter->op = *op;
		waiter->op.partial = NULL;
		if (op->served != NULL)
			atomic_store(&waiter->id, op->id);
	}
	waiter->unsure = unsure;
	queue_push(past, element, waiter);
	/*
	 * Between its halves a mob is in no queue.  A thread that cancels sets `cancelled` and then
	 * looks for the queue; this one queues the waiter and then looks at `cancelled`.
	 */
	if (!waiter_cancelled(waiter) || unsure)
		return waiter;
	queue_pull(element, waiter);
	op_give_up(past, op, ROAM_ECANCELED);
	return NULL;
}

/* A partial whose outcome the partner must tell; it is asked once for each partial. */
struct recall {
	uint64_t round; /* 0: nothing */
	uint32_t partner;
};

/*
 * The partial to recall, if the waiter that was queued, or a break, must wait for its outcome.  The
 * element's lock is held.
 */
static struct recall element_recall(struct roami_element *element,
				    const struct roami_past_waiter *queued)
{
	bool wanted = element->broken || (queued != NULL && queued->unsure);

	roami_assert(roami_spin_held(&element->lock));
	if (element->given == 0 || element->recalled || !wanted)
		return (struct recall){0, 0};
	element->recalled = true;
	return (struct recall){element->given, element->partner};
}

/*
 * Does what is left of an operation, `op` or that of the waiter.  The waiter in whose queue it
 * waits now; NULL: it is done.  *served: others that were served meanwhile.
 */
static struct roami_past_waiter *op_step(struct roami_past *past, struct roami_op *op,
					 struct roami_past_waiter *waiter,
					 const struct roam_request *request,
					 struct roami_past_waiter ***served)
{
	struct roami_past_waiter *queued = NULL;
	uint64_t deadline = op->deadline;

	do {
		struct roami_element *element = roami_past_element(past, op->ask.element);
		struct recall recall;

		roami_step(past->node);
		roami_spin_lock(past->node, &element->lock);
		if (op_try(past, element, op))
			queue_serve(past, element, served);
		else
			queued = op_queue(past, element, op, waiter, request);
		recall = element_recall(element, queued);
		roami_shown_put(past, element);
		roami_spin_unlock(&element->lock);
		if (recall.round != 0)
			past->calls->recall(past, recall.partner - 1,
					    (uint32_t)(element - past->elements), recall.round);
	} while (queued == NULL && op_continues(op));
	if (queued != NULL && deadline != 0)
		alarm_set(past, deadline);
	return queued;
}

/* Lets served waiters go on, and the waiters that they serve in turn. */
static void served_go_on(struct roami_past *past, struct roami_past_waiter *served,
			 struct roami_past_waiter **end)
{
	while (served != NULL) {
		struct roami_past_waiter *waiter = served;

		served = waiter->next;
		if (served == NULL)
			end = &served;
		if (!op_continues(&waiter->op) ||
		    op_step(past, &waiter->op, waiter, NULL, &end) == NULL)
			waiter_complete(past, waiter);
	}
}

struct roami_past_waiter *roami_past_run(struct roami_past *past, struct roami_op *op,
				    const struct roam_request *request)
{
	struct roami_past_waiter *served = NULL, **end = &served, *queued;

	roami_assert(op->served == NULL || (request == NULL && op->id != 0));
	if (op->ask.timeout_ns != 0 && op->ask.timeout_ns != ROAM_PS_TRY)
		op->deadline = past->node->env->now(past->node) + op->ask.timeout_ns;
	queued = op_step(past, op, NULL, request, &end);
	if (served != NULL)
		served_go_on(past, served, end);
	return queued;
}

void roami_past_returned(struct roami_past *past, uint32_t number, unsigned from, uint64_t round)
{
	struct roami_element *element = roami_past_element(past, number);
	struct roami_past_waiter *served = NULL, **end = &served;

	roami_spin_lock(past->node, &element->lock);
	if (element->given == round && element->partner == from + 1) {
		element->given = 0;
		queue_serve(past, element, &end);
	}
	roami_spin_unlock(&element->lock);
	if (served != NULL)
		served_go_on(past, served, end);
}

/* ---------------------------------------------------------------------------------- cancelling */

static bool waiter_unwanted(struct roami_past *past, struct roami_past_waiter *waiter)
{
	(void)past;
	return waiter_cancelled(waiter);
}

void roami_past_cancel_id(struct roami_past *past, struct roami_past_waiter *waiter, uint64_t id)
{
	atomic_store(&waiter->cancelled, id);
	if (waiter_give_up(past, waiter, ROAM_ECANCELED, waiter_unwanted))
		waiter_complete(past, waiter);
}

void roami_past_cancel(struct roami_past *past, struct roami_past_waiter *waiter)
{
	roami_past_cancel_id(past, waiter, atomic_load(&waiter->id));
}

void roami_past_cancel_call(struct roami_past *past, unsigned origin, uint32_t call)
{
	uint64_t id = (uint64_t)(origin + 1u) << 32 | call;

	for (uint32_t i = 0; i < atomic_load(&past->waiters_used); i++)
		if (atomic_load(&past->waiters[i].id) == id)
			roami_past_cancel_id(past, &past->waiters[i], id);
}
