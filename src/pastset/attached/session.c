#include "pastset/attached/session.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "pastset/attached/guest.h"
#include "pastset/job/relay.h"

#define AWAY_MAX 1024u /* sessions without a connection: the oldest are forgotten */

/* An operation that waits. */
struct roami_errand {
	struct roami_guests *all;
	struct roami_session *session;      /* NULL: the session has ended */
	struct roami_errand *next, *before; /* of the session's */
	struct roami_errand *next_done;
	uint64_t number;   /* the client's */
	uint32_t to, from; /* the elements it was begun at, as clients number them */
	bool away;         /* the connection broke: the operation is taken back */
	bool lists;        /* elements of the node of `to`, from number `from` on */
	struct roami_past_waiter *waiter; /* here, */
	uint64_t id;                 /* by which it is cancelled; */
	uint32_t relay;              /* or its id at another node; 0: here */
	struct roami_op op;
	struct roami_outcome outcome; /* from there, with what follows it */
	size_t room, got;
	uint8_t rest[];
};

/* An answer. */
struct roami_memo {
	uint64_t number; /* of the operation */
	bool undone;     /* it was taken back, but for what it had moved */
	bool sent;       /* on the connection that there is, */
	uint32_t frame;  /* the so many-th of it */
	struct roami_outcome outcome;
	size_t bytes;
	uint8_t rest[];
};

/* -------------------------------------------------------------------------------------- answers */

/* The index of the answer to operation `number`; memo_count: there is none. */
static uint32_t memo_find(const struct roami_session *session, uint64_t number)
{
	uint32_t i = 0;

	while (i < session->memo_count && session->memos[i]->number != number)
		i++;
	return i;
}

static size_t memo_size(const struct roami_memo *memo)
{
	return sizeof(*memo) + memo->bytes;
}

static struct roami_memo *memo_pull(struct roami_session *session, uint32_t i)
{
	struct roami_memo *memo = session->memos[i];

	roami_assert(i < session->memo_count);
	session->memo_count--;
	session->memo_bytes -= memo_size(memo);
	session->all->used -= memo_size(memo);
	memmove(&session->memos[i], &session->memos[i + 1],
		(session->memo_count - i) * sizeof(session->memos[0]));
	return memo;
}

static void memo_push(struct roami_session *session, struct roami_memo *memo)
{
	if (session->memo_count == ROAMI_GUEST_ASKS_MAX)
		free(memo_pull(session, 0));
	session->memos[session->memo_count++] = memo;
	session->memo_bytes += memo_size(memo);
	session->all->used += memo_size(memo);
}

/* Sends the memo that was pushed last; false: there is no memory. */
static bool memo_send(struct roami_session *session)
{
	struct roami_memo *memo = session->memos[session->memo_count - 1];
	struct roami_guest *guest = session->guest;

	roami_assert(guest != NULL);
	memo->sent = roami_guest_send(guest, ROAMI_GUEST_OUTCOME, memo->number,
				      &(struct roam_part){&memo->outcome, sizeof(memo->outcome)},
				      &(struct roam_part){memo->rest, memo->bytes});
	memo->frame = (uint32_t)guest->channel.sent;
	return memo->sent;
}

/* Remembers an answer; NULL: no memory, and the client must not get an answer then. */
static struct roami_memo *session_remember(struct roami_session *session, uint64_t number,
					   const struct roami_outcome *outcome,
					   const struct roam_part *rest)
{
	struct roami_memo *memo = malloc(sizeof(*memo) + rest->bytes);

	if (memo == NULL) {
		if (session->guest != NULL)
			roami_guest_lose(session->guest);
		return NULL;
	}
	memset(memo, 0, sizeof(*memo));
	memo->number = number;
	memo->outcome = *outcome;
	memo->bytes = rest->bytes;
	if (rest->bytes > 0)
		memcpy(memo->rest, rest->data, rest->bytes);
	memo_push(session, memo);
	return memo;
}

void roami_session_heard(struct roami_session *session, uint32_t heard)
{
	uint32_t i = 0;

	while (i < session->memo_count) {
		if (!session->memos[i]->sent)
			i++;
		else if ((int32_t)(heard - session->memos[i]->frame) >= 0)
			free(memo_pull(session, i));
		else
			return;
	}
}

/* ----------------------------------------------------------------------------------- operations */

/* Lets go of the tuple that was observed. */
static void op_release(struct roami_past *past, const struct roami_op *op)
{
	if (op->record != 0)
		roami_record_rele(past->node, roami_past_element(past, op->ask.element)->buddy,
				  op->record);
}

/* Answers an operation begun at `to` that observes `from`.  false: there is no memory. */
static bool outcome_answer(struct roami_session *session, uint64_t number, uint32_t to,
			   uint32_t from, const struct roami_outcome *outcome,
			   const struct roam_part *rest)
{
	roami_hosted_find(session->all, to)->moves += outcome->moved != 0;
	roami_hosted_find(session->all, from)->observes += outcome->observed != 0;
	return session_remember(session, number, outcome, rest) != NULL &&
	       (session->guest == NULL || memo_send(session));
}

/* As outcome_answer, of an operation on an element of this node. */
static bool op_answer(struct roami_session *session, uint64_t number, uint32_t to, uint32_t from,
		      const struct roami_op *op)
{
	struct roami_past *past = session->all->past;
	uint8_t room[ROAM_PS_TUPLE_MAX]; /* of the server's one thread */
	bool packs = roami_past_packs(past, op), known;
	struct roami_outcome outcome;
	struct roam_part rest;

	if (packs)
		roami_past_give(past, op, room);
	roami_past_outcome(past, op, packs ? room : NULL, &outcome, &rest);
	known = outcome_answer(session, number, to, from, &outcome, &rest);
	op_release(past, op);
	return known;
}

/* On any thread. */
static void errand_done(struct roami_errand *errand)
{
	struct roami_guests *all = errand->all;

	roami_spin_lock(all->past->node, &all->done_lock);
	errand->next_done = all->done;
	all->done = errand;
	if (errand->next_done == NULL && all->wake != NULL)
		all->wake(all->arg);
	roami_spin_unlock(&all->done_lock);
}

/* Called by the thread that made the operation possible. */
static void errand_served(void *arg, const struct roami_op *op)
{
	struct roami_errand *errand = arg;

	errand->op = *op;
	errand_done(errand);
}

void roami_session_outcome(void *arg, const struct roami_outcome *outcome, const void *rest,
			   size_t bytes)
{
	struct roami_errand *errand = arg;

	if (bytes > errand->room)
		roami_node_fail(errand->all->past->node, "another node sent a malformed tuple");
	errand->outcome = *outcome;
	if (errand->outcome.moved == 0)
		errand->outcome.moved = errand->op.moved; /* a mob's first half, before */
	errand->op.err = (enum roam_err)outcome->err;
	errand->op.moved = errand->outcome.moved;
	errand->got = bytes;
	memcpy(errand->rest, rest, bytes);
	errand_done(errand);
}

/* Ends the wait; the outcome comes as ever. */
static void errand_cancel(struct roami_errand *errand)
{
	struct roami_past *past = errand->all->past;

	if (errand->relay != 0)
		roami_relay_cancel(past, roami_hosted_owner(errand->to), errand->relay);
	else
		roami_past_cancel_id(past, errand->waiter, errand->id);
}

/* With its place in an element's queue. */
static size_t errand_size(const struct roami_errand *errand)
{
	return sizeof(*errand) + errand->room + sizeof(struct roami_past_waiter);
}

static void errand_unlink(struct roami_errand *errand)
{
	struct roami_session *session = errand->session;

	roami_assert(session != NULL && session->errand_count > 0);
	if (errand->before != NULL)
		errand->before->next = errand->next;
	else
		session->errands = errand->next;
	if (errand->next != NULL)
		errand->next->before = errand->before;
	session->errand_count--;
	session->errand_bytes -= errand_size(errand);
	session->all->used -= errand_size(errand);
	errand->session = NULL;
}

/* Another node has listed its elements.  A client without a connection asks again. */
static void list_end(struct roami_session *session, struct roami_errand *errand)
{
	struct roami_list ask = {errand->from, roami_hosted_owner(errand->to)};
	struct roami_listings *listings = (struct roami_listings *)(void *)errand->rest;
	size_t head = sizeof(listings->head);

	if (errand->got < head || listings->head.count > ROAMI_LISTINGS_MAX ||
	    errand->got != head + listings->head.count * sizeof(listings->entries[0]))
		roami_node_fail(session->all->past->node, "node %u sent a malformed list",
				ask.node);
	if (session->guest != NULL)
		roami_guest_listed(session->guest, errand->number, &ask, listings);
}

/* The operation is over: answers it, or remembers what it had done. */
static void errand_end(struct roami_errand *errand)
{
	struct roami_session *session = errand->session;
	struct roami_past *past = errand->all->past;
	const struct roami_op *op = &errand->op;
	struct roami_outcome outcome = {.moved = op->moved};
	struct roami_memo *memo;

	if (session == NULL) {
		op_release(past, op);
		return;
	}
	errand_unlink(errand);
	if (errand->lists) {
		list_end(session, errand);
	} else if (errand->away && op->err == ROAM_ECANCELED) {
		memo = session_remember(session, errand->number, &outcome,
					&(struct roam_part){NULL, 0});
		if (memo != NULL)
			memo->undone = true;
	} else if (errand->relay != 0) {
		outcome_answer(session, errand->number, errand->to, errand->from, &errand->outcome,
			       &(struct roam_part){errand->rest, errand->got});
	} else {
		op_answer(session, errand->number, errand->to, errand->from, op);
	}
}

/* `bounds`: no session is in use by the caller, so that any may be forgotten. */
static void sessions_answer(struct roami_guests *all, bool bounds)
{
	struct roami_errand *done, *order = NULL;

	roami_spin_lock(all->past->node, &all->done_lock);
	done = all->done;
	all->done = NULL;
	roami_spin_unlock(&all->done_lock);
	while (done != NULL) { /* in the order in which they were served */
		struct roami_errand *next = done->next_done;

		done->next_done = order;
		order = done;
		done = next;
	}
	while (order != NULL) {
		struct roami_errand *next = order->next_done;

		errand_end(order);
		all->waiting--;
		free(order);
		if (bounds)
			roami_guests_bound(all);
		order = next;
	}
}

void roami_sessions_answer(struct roami_guests *all)
{
	sessions_answer(all, true);
}

/* With room for what comes from another node; NULL: there is no memory. */
static struct roami_errand *errand_make(struct roami_session *session, uint64_t number, uint32_t to,
					uint32_t from, size_t room)
{
	struct roami_errand *errand = malloc(sizeof(*errand) + room);

	if (errand == NULL)
		return NULL;
	memset(errand, 0, sizeof(*errand));
	errand->all = session->all;
	errand->session = session;
	errand->number = number;
	errand->to = to;
	errand->from = from;
	errand->room = room;
	return errand;
}

static void errand_link(struct roami_errand *errand)
{
	struct roami_session *session = errand->session;

	errand->next = session->errands;
	if (session->errands != NULL)
		session->errands->before = errand;
	session->errands = errand;
	session->errand_count++;
	session->errand_bytes += errand_size(errand);
	session->all->used += errand_size(errand);
	session->all->waiting++;
}

/* Runs an operation, which may have to wait.  false: there is no memory. */
static bool op_run(struct roami_session *session, uint64_t number, uint32_t to, uint32_t from,
		   struct roami_op *op)
{
	struct roami_guests *all = session->all;
	struct roami_errand *errand = errand_make(session, number, to, from, 0);

	if (errand == NULL) {
		op_release(all->past, op);
		return false;
	}
	op->served = errand_served;
	op->arg = errand;
	op->id = errand->id = ROAMI_GUEST_ID | ++all->serial;
	errand->op = *op;
	errand_link(errand); /* another thread may serve it before we know that it waits */
	errand->waiter = roami_past_run(all->past, op, NULL);
	if (errand->waiter != NULL)
		return true;
	errand_unlink(errand);
	all->waiting--;
	free(errand);
	return op_answer(session, number, to, from, op);
}

static bool session_refuse(struct roami_session *session, uint64_t number, enum roam_err err,
			   uint64_t moved)
{
	const struct roami_outcome outcome = {.err = (uint32_t)err, .moved = moved};

	return session_remember(session, number, &outcome, &(struct roam_part){NULL, 0}) &&
	       memo_send(session);
}

/* As op_run, at another node. */
static bool relay_run(struct roami_session *session, uint64_t number, uint32_t to, uint32_t from,
		    const struct roami_op *op, const void *tuple, size_t bytes)
{
	bool observes = op->ask.op == ROAM_PS_OBSERVE || op->ask.op == ROAM_PS_MOB;
	struct roami_errand *errand = errand_make(
		session, number, to, from,
		observes ? op->ask.limit : sizeof(struct roam_ps_state));

	if (errand == NULL)
		return false;
	errand->op.moved = op->moved;
	errand->relay = roami_relay_begin(session->all->past, roami_hosted_owner(to), &op->ask,
					  tuple, roami_ask_carries(&op->ask) ? bytes : 0, errand);
	if (errand->relay != 0) {
		errand_link(errand);
		return true;
	}
	free(errand);
	return session_refuse(session, number, ROAM_EAGAIN, op->moved);
}

/* The client takes part in the element's X-function; false: there is no memory. */
static bool session_part(struct roami_session *session, uint32_t element)
{
	uint32_t *grown;

	for (uint32_t i = 0; i < session->part_count; i++)
		if (session->parts[i] == element)
			return true;
	grown = realloc(session->parts, (session->part_count + 1) * sizeof(*grown));
	if (grown == NULL)
		return false;
	grown[session->part_count++] = element;
	session->parts = grown;
	session->all->used += sizeof(*grown);
	return true;
}

/* Refuses what no library of a client asks.  Lengths are checked already. */
static enum roam_err ask_check(const struct roami_guests *all, const struct roami_ask *ask,
			       const void *tuple, size_t bytes)
{
	const struct roami_hosted *to = roami_hosted_find(all, ask->element);
	unsigned flags = ask->flags;

	if (ask->op > ROAM_PS_STATE || ask->which > ROAM_PS_MATCH ||
	    (flags & ~(ROAM_PS_PEEK | ROAM_PS_SKIP | ROAMI_ASK_ROUND)) != 0 ||
	    ((flags & ROAM_PS_SKIP) != 0 && ask->which != ROAM_PS_LAST) ||
	    to == NULL || roami_hosted_find(all, ask->from) == NULL ||
	    roami_hosted_owner(ask->element) != roami_hosted_owner(ask->from))
		return ROAM_EINVAL;
	if (ask->number == 0 && (ask->op == ROAM_PS_DELTA ||
				 (ask->op == ROAM_PS_OBSERVE && ask->which == ROAM_PS_NUMBER)))
		return ROAM_EINVAL;
	if (roami_ask_carries(ask) &&
	    !roami_template_fits(&to->template, tuple, bytes))
		return ROAM_EINVAL;
	return ROAM_OK;
}

/* Does an operation, or its second half if its first was done. */
static bool session_begin(struct roami_session *session, uint64_t number, struct roami_op *op,
			  const void *tuple, size_t bytes)
{
	struct roami_past *past = session->all->past;
	uint32_t to = op->ask.element,
		 from = op->ask.op == ROAM_PS_MOB ? op->ask.from : op->ask.element;
	bool far = roami_hosted_owner(to) != past->node->me;

	op->err = session->errand_count < ROAMI_GUEST_ASKS_MAX
			  ? ask_check(session->all, &op->ask, tuple, bytes)
			  : ROAM_EAGAIN;
	if (op->err != ROAM_OK)
		return session_refuse(session, number, op->err, op->moved);
	op->ask.element = roami_hosted_element(op->ask.element);
	op->ask.from = roami_hosted_element(op->ask.from);
	if (op->moved != 0) {
		op->ask.op = ROAM_PS_OBSERVE;
		op->ask.element = op->ask.from;
	} else if (roami_ask_carries(&op->ask)) {
		if (roami_hosted_find(session->all, to)->rounds && !session_part(session, to))
			return false;
		if (!far && !roami_past_take(past, op, tuple, bytes))
			return op_answer(session, number, to, from, op);
	}
	return far ? relay_run(session, number, to, from, op, tuple, bytes)
		   : op_run(session, number, to, from, op);
}

static struct roami_errand *errand_find(const struct roami_session *session, uint64_t number)
{
	struct roami_errand *errand = session->errands;

	while (errand != NULL && errand->number != number)
		errand = errand->next;
	return errand;
}

bool roami_session_op(struct roami_session *session, uint64_t number, const struct roami_ask *ask,
		      const void *tuple, size_t bytes)
{
	struct roami_op op = {.ask = *ask};
	struct roami_memo *memo;
	uint32_t at;

	if (number > session->highest) {
		session->highest = number;
		return session_begin(session, number, &op, tuple, bytes);
	}
	if (number == 0 || errand_find(session, number) != NULL)
		return false;
	at = memo_find(session, number);
	if (at == session->memo_count)
		return roami_guest_send(session->guest, ROAMI_GUEST_GONE, number,
					&(struct roam_part){NULL, 0}, &(struct roam_part){NULL, 0});
	memo = memo_pull(session, at);
	if (!memo->undone) {
		memo_push(session, memo);
		return memo_send(session);
	}
	op.moved = memo->outcome.moved;
	free(memo);
	return (op.moved == 0 || op.ask.op == ROAM_PS_MOB) &&
	       session_begin(session, number, &op, tuple, bytes);
}

bool roami_session_list(struct roami_session *session, uint64_t number,
			const struct roami_list *ask)
{
	const struct roami_ask wanted = {.op = ROAMI_ASK_LIST, .element = ask->first};
	struct roami_listings none = {.head = {.elements = UINT32_MAX}};
	struct roami_errand *errand = NULL;

	if (session->errand_count < ROAMI_GUEST_ASKS_MAX)
		errand = errand_make(session, number, roami_hosted_number(ask->node, 0), ask->first,
				     sizeof(struct roami_listings));
	if (errand != NULL)
		errand->relay = roami_relay_begin(session->all->past, ask->node, &wanted, NULL, 0,
						  errand);
	if (errand != NULL && errand->relay != 0) {
		errand->lists = true;
		errand_link(errand);
		return true;
	}
	free(errand);
	return roami_guest_listed(session->guest, number, ask, &none);
}

void roami_session_cancel(const struct roami_session *session, uint64_t number)
{
	struct roami_errand *errand = errand_find(session, number);

	if (errand != NULL)
		errand_cancel(errand);
}

/* ----------------------------------------------------------------------------------------- life */

struct roami_session *roami_session_make(struct roami_guests *all, struct roami_guest *guest)
{
	struct roami_session *session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	do
		randombytes_buf(&session->id, sizeof(session->id));
	while (session->id == 0 || roami_session_find(all, session->id) != NULL);
	session->all = all;
	roami_guests_fix(all, sizeof(*session));
	session->guest = guest;
	session->next = all->sessions;
	if (all->sessions != NULL)
		all->sessions->before = session;
	all->sessions = session;
	return session;
}

struct roami_session *roami_session_find(const struct roami_guests *all, uint64_t id)
{
	struct roami_session *session = all->sessions;

	while (session != NULL && session->id != id)
		session = session->next;
	return session;
}

static uint64_t sessions_now(const struct roami_guests *all)
{
	return all->past->node->env->now(all->past->node);
}

/* The session longest without a connection; NULL: each has one. */
static struct roami_session *sessions_oldest(const struct roami_guests *all)
{
	struct roami_session *oldest = NULL;

	for (struct roami_session *at = all->sessions; at != NULL; at = at->next)
		if (at->guest == NULL && (oldest == NULL || at->since < oldest->since))
			oldest = at;
	return oldest;
}

/* Bytes of answers to clients without a connection. */
static uint64_t sessions_bytes(const struct roami_guests *all)
{
	uint64_t bytes = 0;

	for (const struct roami_session *at = all->sessions; at != NULL; at = at->next)
		if (at->guest == NULL)
			bytes += at->memo_bytes;
	return bytes;
}

void roami_session_away(struct roami_session *session)
{
	struct roami_guests *all = session->all;

	roami_assert(session->guest != NULL);
	if (all->away == AWAY_MAX)
		roami_session_end(sessions_oldest(all), false);
	session->guest = NULL;
	session->since = sessions_now(all);
	all->away++;
	for (struct roami_errand *errand = session->errands; errand != NULL;
	     errand = errand->next) {
		errand->away = true;
		errand_cancel(errand);
	}
}

bool roami_session_resume(struct roami_session *session, struct roami_guest *guest,
			  const struct roami_attach *ask)
{
	uint32_t i = 0;

	roami_assert(session->guest == NULL);
	sessions_answer(session->all, false);
	if (session->errands != NULL)
		return false;
	roami_session_heard(session, ask->heard);
	while (i < session->memo_count)
		if (session->memos[i]->number < ask->wanted)
			free(memo_pull(session, i));
		else
			session->memos[i++]->sent = false;
	session->guest = guest;
	session->all->away--;
	return true;
}

/* The other participants would wait for ever for the client's tuple. */
static void session_break(struct roami_guests *all, uint32_t number)
{
	uint32_t element = roami_hosted_element(number);
	struct roami_op op = {.ask = {.op = ROAMI_ASK_BREAK, .element = element, .from = element}};

	if (roami_hosted_owner(number) == all->past->node->me)
		roami_past_run(all->past, &op, NULL);
	else
		roami_relay_break(all->past, roami_hosted_owner(number), element);
}

void roami_session_end(struct roami_session *session, bool leaves)
{
	struct roami_guests *all = session->all;

	while (session->errands != NULL) {
		struct roami_errand *errand = session->errands;

		errand_unlink(errand);
		errand_cancel(errand);
	}
	for (uint32_t i = 0; i < session->part_count && !leaves; i++)
		session_break(all, session->parts[i]);
	while (session->memo_count > 0)
		free(memo_pull(session, session->memo_count - 1));
	if (session->guest == NULL)
		all->away--;
	if (session->before != NULL)
		session->before->next = session->next;
	else
		all->sessions = session->next;
	if (session->next != NULL)
		session->next->before = session->before;
	all->used -= session->part_count * sizeof(*session->parts);
	roami_guests_fix(all, -(int64_t)sizeof(*session));
	free(session->parts);
	free(session);
}

uint64_t roami_sessions_forget(struct roami_guests *all)
{
	uint64_t now = sessions_now(all);

	while (all->away > 0) {
		struct roami_session *oldest = sessions_oldest(all);

		if (now - oldest->since < all->keep.ns && sessions_bytes(all) <= all->keep.bytes)
			return all->keep.ns - (now - oldest->since);
		roami_session_end(oldest, false);
	}
	return UINT64_MAX;
}
