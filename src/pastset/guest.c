#include "pastset/guest.h"

#include <stdlib.h>
#include <string.h>

#define HOSTED_BYTES ((size_t)ROAMI_ELEMENTS_MAX * sizeof(struct roami_hosted))
#define FLOW_LEAST   ((size_t)8 << 10)
#define FLOW_KEEP    ((size_t)256 << 10) /* more is given back once it is empty */

/* An operation that waits. */
struct roami_errand {
	struct roami_guests *all;
	struct roami_guest *guest;          /* NULL: he is gone */
	struct roami_errand *next, *before; /* of the guest's */
	struct roami_errand *next_done;
	uint64_t number; /* the client's */
	uint32_t to;     /* the element it was begun at */
	struct roami_waiter *waiter;
	struct roami_op op;
};

/* ------------------------------------------------------------------------------------------ all */

enum roam_err roami_guests_init(struct roami_guests *all, struct roami_past *past,
				const uint8_t *key)
{
	memset(all, 0, sizeof(*all));
	all->past = past;
	memcpy(all->key, key, sizeof(all->key));
	all->hosted = roami_os_reserve_sparse(HOSTED_BYTES);
	return all->hosted == NULL ? ROAM_ENOMEM : roami_past_open(past);
}

void roami_guests_fini(struct roami_guests *all)
{
	roami_guests_answer(all);
	if (all->hosted != NULL)
		roami_os_unmap(all->hosted, HOSTED_BYTES);
	memset(all->key, 0, sizeof(all->key));
}

/* ------------------------------------------------------------------------------------ going out */

/* Room for `bytes` more; NULL: there is no memory. */
static uint8_t *flow_room(struct roami_flow *flow, size_t bytes)
{
	size_t room = flow->room < FLOW_LEAST ? FLOW_LEAST : flow->room;
	uint8_t *grown;

	if (flow->at == flow->end)
		flow->at = flow->end = 0;
	if (flow->at == 0 && flow->room > FLOW_KEEP && bytes <= FLOW_KEEP && flow->end == 0) {
		free(flow->bytes);
		*flow = (struct roami_flow){NULL, 0, 0, 0};
		room = FLOW_LEAST;
	}
	while (room - flow->end < bytes)
		room *= 2;
	if (room > flow->room) {
		grown = realloc(flow->bytes, room);
		if (grown == NULL)
			return NULL;
		flow->bytes = grown;
		flow->room = room;
	}
	return flow->bytes + flow->end;
}

static void guest_speaks(struct roami_guest *guest)
{
	if (guest->speaks)
		return;
	guest->speaks = true;
	guest->next_speaking = guest->all->speaking;
	guest->all->speaking = guest;
}

struct roami_guest *roami_guests_speaking(struct roami_guests *all)
{
	struct roami_guest *guest = all->speaking;

	if (guest != NULL) {
		all->speaking = guest->next_speaking;
		guest->speaks = false;
	}
	return guest;
}

static void guest_silent(struct roami_guest *guest)
{
	struct roami_guest **at = &guest->all->speaking;

	while (*at != NULL && *at != guest)
		at = &(*at)->next_speaking;
	if (*at != NULL)
		*at = guest->next_speaking;
}

/* false: there is no memory; he is lost, since there is no gap between frames. */
static bool guest_send(struct roami_guest *guest, uint32_t kind, uint64_t number,
		       const struct roam_part *one, const struct roam_part *two)
{
	struct roami_guest_head head = {kind, 0, number};
	struct roam_part parts[3] = {{&head, sizeof(head)}, *one, *two};
	uint8_t *at = flow_room(&guest->out,
				sizeof(head) + one->bytes + two->bytes + ROAMI_CHANNEL_EXTRA);

	guest_speaks(guest);
	guest->lost = at == NULL;
	if (guest->lost)
		return false;
	guest->out.end += roami_channel_close(&guest->channel, parts, 3, at);
	return true;
}

static bool guest_say(struct roami_guest *guest, uint32_t kind, uint64_t number, const void *data,
		      size_t bytes)
{
	return guest_send(guest, kind, number, &(struct roam_part){data, bytes},
			  &(struct roam_part){NULL, 0});
}

/* ----------------------------------------------------------------------------------- operations */

/* Was begun at element `to`.  `guest` NULL: nobody hears of it. */
static bool op_answer(struct roami_guests *all, struct roami_guest *guest, uint64_t number,
		      uint32_t to, const struct roami_op *op)
{
	struct roami_told told;
	struct roam_part rest;
	bool sent = true;

	roami_past_told(all->past, op, &told, &rest);
	all->hosted[to].moves += op->moved != 0;
	all->hosted[op->ask.element].observes += op->observed != 0;
	if (guest != NULL)
		sent = guest_send(guest, ROAMI_GUEST_TOLD, number,
				  &(struct roam_part){&told, sizeof(told)}, &rest);
	if (op->record != 0)
		roami_record_rele(all->past->node,
				  roami_past_element(all->past, op->ask.element)->pool, op->record);
	return sent;
}

/* On whichever thread made it possible. */
static void errand_served(void *arg, const struct roami_op *op)
{
	struct roami_errand *errand = arg;
	struct roami_guests *all = errand->all;
	bool first;

	errand->op = *op;
	roami_spin_lock(all->past->node, &all->done_lock);
	first = all->done == NULL;
	errand->next_done = all->done;
	all->done = errand;
	roami_spin_unlock(&all->done_lock);
	if (first && all->wake != NULL)
		all->wake(all->arg);
}

static void errand_unlink(struct roami_errand *errand)
{
	struct roami_guest *guest = errand->guest;

	if (errand->before != NULL)
		errand->before->next = errand->next;
	else
		guest->errands = errand->next;
	if (errand->next != NULL)
		errand->next->before = errand->before;
	guest->errand_count--;
}

void roami_guests_answer(struct roami_guests *all)
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

		if (order->guest != NULL)
			errand_unlink(order);
		op_answer(all, order->guest, order->number, order->to, &order->op);
		free(order);
		order = next;
	}
}

/* It has to wait perhaps; false: there is no memory. */
static bool op_run(struct roami_guest *guest, uint64_t number, struct roami_op *op)
{
	struct roami_guests *all = guest->all;
	struct roami_errand *errand = calloc(1, sizeof(*errand));
	uint32_t to = op->ask.element;

	if (errand == NULL)
		return false;
	errand->to = to;
	errand->all = all;
	errand->guest = guest;
	errand->number = number;
	op->served = errand_served;
	op->arg = errand;
	op->id = ROAMI_GUEST_ID | ++all->serial;
	errand->op = *op;
	errand->waiter = roami_past_run(all->past, op, NULL);
	if (errand->waiter == NULL) {
		free(errand);
		return op_answer(all, guest, number, to, op);
	}
	errand->next = guest->errands;
	if (guest->errands != NULL)
		guest->errands->before = errand;
	guest->errands = errand;
	guest->errand_count++;
	return true;
}

/* He takes part in the element's X-function; false: there is no memory. */
static bool guest_part(struct roami_guest *guest, uint32_t element)
{
	uint32_t *grown;

	for (uint32_t i = 0; i < guest->part_count; i++)
		if (guest->parts[i] == element)
			return true;
	grown = realloc(guest->parts, (guest->part_count + 1) * sizeof(*grown));
	if (grown == NULL)
		return false;
	grown[guest->part_count++] = element;
	guest->parts = grown;
	return true;
}

static bool ask_moves(const struct roami_ask *ask)
{
	return ask->op == ROAM_PS_MOVE || ask->op == ROAM_PS_MOB;
}

/* What a client's library would not ask.  The lengths are checked already. */
static enum roam_err ask_check(const struct roami_guests *all, const struct roami_ask *ask,
			       const void *tuple, size_t bytes)
{
	unsigned flags = ask->flags;

	if (ask->op > ROAM_PS_STATE || ask->which > ROAM_PS_NEXT ||
	    (flags & ~(ROAM_PS_PEEK | ROAM_PS_SKIP | ROAMI_ASK_ROUND)) != 0 ||
	    ((flags & ROAM_PS_SKIP) != 0 && ask->which != ROAM_PS_LAST) ||
	    roami_past_element(all->past, ask->element) == NULL ||
	    roami_past_element(all->past, ask->from) == NULL)
		return ROAM_EINVAL;
	if (ask->number == 0 && (ask->op == ROAM_PS_DELTA ||
				 (ask->op == ROAM_PS_OBSERVE && ask->which == ROAM_PS_NUMBER)))
		return ROAM_EINVAL;
	if (ask_moves(ask) &&
	    !roami_template_fits(&all->hosted[ask->element].template, tuple, bytes))
		return ROAM_EINVAL;
	return ROAM_OK;
}

static bool guest_op(struct roami_guest *guest, uint64_t number, const uint8_t *data, size_t bytes)
{
	struct roami_past *past = guest->all->past;
	struct roami_op op = {.err = ROAM_OK};
	const struct roami_element *element;
	struct roami_told told = {.err = ROAM_EAGAIN};

	if (bytes < sizeof(op.ask))
		return false;
	memcpy(&op.ask, data, sizeof(op.ask));
	data += sizeof(op.ask);
	bytes -= sizeof(op.ask);
	if (bytes > (ask_moves(&op.ask) ? ROAM_PS_TUPLE_MAX : 0))
		return false;
	if (op.ask.limit > ROAM_PS_TUPLE_MAX)
		op.ask.limit = ROAM_PS_TUPLE_MAX;
	if (guest->errand_count < ROAMI_GUEST_ASKS_MAX)
		told.err = ask_check(guest->all, &op.ask, data, bytes);
	if (told.err != ROAM_OK)
		return guest_say(guest, ROAMI_GUEST_TOLD, number, &told, sizeof(told));
	element = roami_past_element(past, op.ask.element);
	if (ask_moves(&op.ask)) {
		if (element->function != NULL && !guest_part(guest, op.ask.element))
			return false;
		if (!roami_past_reserve(past, &op, bytes))
			return op_answer(guest->all, guest, number, op.ask.element, &op);
		memcpy(roami_record_data(element->pool, op.record), data, bytes);
	}
	return op_run(guest, number, &op);
}

static void guest_cancel(struct roami_guest *guest, uint64_t number)
{
	struct roami_errand *errand = guest->errands;

	while (errand != NULL && errand->number != number)
		errand = errand->next;
	if (errand != NULL)
		roami_past_cancel_id(guest->all->past, errand->waiter, errand->op.id);
}

/* ------------------------------------------------------------------------------ other questions */

static bool guest_bind(struct roami_guest *guest, uint64_t number, const uint8_t *data,
		       size_t bytes)
{
	char texts[2 * ROAM_PS_TEMPLATE_MAX + 1], why[64];
	struct roami_guests *all = guest->all;
	struct roami_ps_bound answer;
	struct roami_hosted *hosted;
	struct roami_template template;
	struct roami_bind ask;

	if (bytes < sizeof(ask))
		return false;
	memcpy(&ask, data, sizeof(ask));
	bytes -= sizeof(ask);
	if (ask.name_bytes == 0 || ask.name_bytes > ROAM_PS_TEMPLATE_MAX ||
	    ask.template_bytes > ROAM_PS_TEMPLATE_MAX ||
	    (size_t)ask.name_bytes + ask.template_bytes != bytes || bytes >= sizeof(texts))
		return false;
	memcpy(texts, data + sizeof(ask), bytes);
	texts[bytes] = '\0';
	ask.function[ROAM_PS_FUNCTION_MAX] = '\0';
	memset(&answer, 0, sizeof(answer));
	answer.err = ROAM_EINVAL;
	if (roami_template_parse(&template, texts + ask.name_bytes, why, sizeof(why)) == ROAM_OK &&
	    strlen(template.text) == ask.template_bytes && ask.heap_bytes == 0 &&
	    (ask.function[0] == '\0') == (ask.participants == 0))
		roami_name_bind(all->past, &ask, texts, &answer);
	if (answer.err == ROAM_OK) {
		hosted = &all->hosted[answer.element];
		hosted->template = template;
		memcpy(hosted->name, texts,
		       ask.name_bytes < sizeof(hosted->name) - 1 ? ask.name_bytes
								 : sizeof(hosted->name) - 1);
	}
	return guest_say(guest, ROAMI_GUEST_BOUND, number, &answer, sizeof(answer));
}

static void list_one(const struct roami_guests *all, uint32_t number, struct roami_listing *entry)
{
	const struct roami_hosted *hosted = &all->hosted[number];
	const struct roami_element *element = roami_past_element(all->past, number);
	struct roami_op op = {.ask = {.op = ROAM_PS_STATE, .element = number, .from = number}};

	memset(entry, 0, sizeof(*entry));
	roami_past_run(all->past, &op, NULL);
	entry->state = op.state;
	entry->moves = hosted->moves;
	entry->observes = hosted->observes;
	memcpy(entry->name, hosted->name, sizeof(entry->name));
	if (element->function != NULL)
		strcpy(entry->function, element->function->name);
}

static bool guest_list(struct roami_guest *guest, uint64_t number, const uint8_t *data,
		       size_t bytes)
{
	struct roami_listing entries[ROAMI_LISTINGS_MAX];
	const struct roami_guests *all = guest->all;
	struct roami_listed listed = {
		.elements = atomic_load(&all->past->element_count),
		.guests = all->attached,
		.refused = all->refused,
		.now_ns = all->past->node->env->now(all->past->node),
	};
	struct roami_list ask;

	if (bytes != sizeof(ask))
		return false;
	memcpy(&ask, data, sizeof(ask));
	for (uint32_t at = ask.first; at < listed.elements && listed.count < ROAMI_LISTINGS_MAX;
	     at++)
		list_one(all, at, &entries[listed.count++]);
	return guest_send(guest, ROAMI_GUEST_LISTED, number,
			  &(struct roam_part){&listed, sizeof(listed)},
			  &(struct roam_part){entries, listed.count * sizeof(entries[0])});
}

/* ------------------------------------------------------------------------------------ coming in */

/* false: he is to be dropped. */
static bool guest_frame(struct roami_guest *guest, const uint8_t *text, size_t bytes)
{
	struct roami_guest_head head;

	if (bytes < sizeof(head))
		return false;
	memcpy(&head, text, sizeof(head));
	text += sizeof(head);
	bytes -= sizeof(head);
	if (!guest->attached) {
		if (head.kind != ROAMI_GUEST_ATTACH || bytes != 0)
			return false;
		guest->attached = true;
		guest->all->attached++;
		return guest_say(guest, ROAMI_GUEST_ATTACHED, 0, NULL, 0);
	}
	switch (head.kind) {
	case ROAMI_GUEST_BIND:
		return guest_bind(guest, head.number, text, bytes);
	case ROAMI_GUEST_OP:
		return guest_op(guest, head.number, text, bytes);
	case ROAMI_GUEST_CANCEL:
		guest_cancel(guest, head.number);
		return bytes == 0;
	case ROAMI_GUEST_LIST:
		return guest_list(guest, head.number, text, bytes);
	case ROAMI_GUEST_DETACH:
		guest->leaves = true;
		return false;
	default:
		return false;
	}
}

/* His hello: ours goes back, and a frame that shows that we know the key. */
static bool guest_meet(struct roami_guest *guest, const uint8_t *hello)
{
	uint8_t *at = flow_room(&guest->out, ROAMI_CHANNEL_HELLO);

	if (at == NULL || !roami_channel_init(&guest->channel, ROAMI_GUEST_MAGIC, at) ||
	    !roami_channel_meet(&guest->channel, ROAMI_GUEST_MAGIC, guest->all->key, false, hello))
		return false;
	guest->out.end += ROAMI_CHANNEL_HELLO;
	guest->met = true; /* what follows makes him speak */
	return guest_say(guest, ROAMI_GUEST_WELCOME, 0, NULL, 0);
}

size_t roami_guest_take(struct roami_guest *guest, uint8_t *in, size_t bytes)
{
	size_t at = 0;
	uint32_t length;
	uint8_t *text;

	if (!guest->met) {
		if (memcmp(in, ROAMI_GUEST_MAGIC,
			   bytes < ROAMI_CHANNEL_MAGIC ? bytes : ROAMI_CHANNEL_MAGIC) != 0)
			return SIZE_MAX;
		if (bytes < ROAMI_CHANNEL_HELLO)
			return 0;
		if (!guest_meet(guest, in))
			return SIZE_MAX;
		at = ROAMI_CHANNEL_HELLO;
	}
	while (bytes - at >= sizeof(length)) {
		memcpy(&length, in + at, sizeof(length));
		if (length > ROAMI_GUEST_FRAME_MAX - sizeof(length))
			return SIZE_MAX;
		if (bytes - at < sizeof(length) + length)
			break;
		text = roami_channel_open(&guest->channel, in + at, length);
		if (text == NULL || !guest_frame(guest, text, length - ROAMI_CHANNEL_TAG))
			return SIZE_MAX;
		at += sizeof(length) + length;
	}
	return at;
}

/* ----------------------------------------------------------------------------------------- life */

void roami_guest_init(struct roami_guest *guest, struct roami_guests *all)
{
	memset(guest, 0, sizeof(*guest));
	guest->all = all;
}

/* Others would wait for ever for what he was to move. */
static void guest_break(struct roami_guest *guest, uint32_t element)
{
	struct roami_op op = {.ask = {.op = ROAMI_ASK_BREAK, .element = element, .from = element}};

	roami_past_run(guest->all->past, &op, NULL);
}

void roami_guest_fini(struct roami_guest *guest)
{
	struct roami_guests *all = guest->all;

	while (guest->errands != NULL) {
		struct roami_errand *errand = guest->errands;

		errand_unlink(errand);
		errand->guest = NULL;
		roami_past_cancel_id(all->past, errand->waiter, errand->op.id);
	}
	for (uint32_t i = 0; i < guest->part_count && !guest->leaves; i++)
		guest_break(guest, guest->parts[i]);
	if (guest->attached)
		all->attached--;
	else
		all->refused++;
	guest_silent(guest);
	free(guest->parts);
	free(guest->out.bytes);
	roami_channel_fini(&guest->channel);
	memset(guest, 0, sizeof(*guest));
}
