#include "pastset/attached/guest.h"

#include <string.h>

#include "pastset/job/server.h"

#define HOSTED_BYTES ((size_t)ROAMI_ELEMENTS_MAX * sizeof(struct roami_hosted))

/* ------------------------------------------------------------------------------------------ all */

enum roam_err roami_guests_init(struct roami_guests *all, struct roami_past *past,
				const uint8_t *key, const struct roami_keep *keep)
{
	memset(all, 0, sizeof(*all));
	all->past = past;
	all->keep = *keep;
	all->bound = past->node->options->ps_memory;
	if (all->bound < ROAMI_GUESTS_LEAST)
		all->bound = ROAMI_GUESTS_LEAST;
	memcpy(all->key, key, sizeof(all->key));
	roami_past_job(past)->relay_outcome = roami_session_outcome;
	return roami_past_open(past);
}

void roami_guests_fini(struct roami_guests *all)
{
	while (all->sessions != NULL)
		roami_session_end(all->sessions, true);
	roami_sessions_answer(all);
	/* Some operations are being served this moment, or at other nodes. */
	for (unsigned turn = 0; all->waiting > 0; turn++) {
		all->past->node->env->spin(all->past->node, turn);
		roami_sessions_answer(all);
	}
	roami_assert(all->used == 0 && all->fixed == 0);
	for (unsigned owner = 0; owner < ROAMI_NODES_MAX; owner++)
		if (all->hosted[owner] != NULL)
			roami_os_unmap(all->hosted[owner], HOSTED_BYTES);
	explicit_bzero(all->key, sizeof(all->key));
}

struct roami_hosted *roami_hosted_find(const struct roami_guests *all, uint32_t number)
{
	unsigned owner = roami_hosted_owner(number);
	struct roami_hosted *hosted;

	if (owner >= all->past->node->nodes || all->hosted[owner] == NULL)
		return NULL;
	hosted = &all->hosted[owner][roami_hosted_element(number)];
	return hosted->name[0] != '\0' ? hosted : NULL;
}

/* ------------------------------------------------------------------------------------ going out */

static void out_free(struct roami_guest *guest)
{
	guest->all->used -= guest->out.room;
	roami_flow_free(&guest->out);
}

/* Makes room for `bytes` more to go out; NULL: there is no memory. */
static uint8_t *out_room(struct roami_guest *guest, size_t bytes)
{
	size_t had = guest->out.room;
	uint8_t *at = roami_flow_room(&guest->out, bytes);

	guest->all->used = guest->all->used - had + guest->out.room;
	return at;
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

void roami_guest_lose(struct roami_guest *guest)
{
	guest->lost = true;
	guest_speaks(guest);
}

bool roami_guest_send(struct roami_guest *guest, uint32_t kind, uint64_t number,
		      const struct roam_part *one, const struct roam_part *two)
{
	struct roami_guest_head head = {kind, 0, number};
	struct roam_part parts[3] = {{&head, sizeof(head)}, *one, *two};
	uint8_t *at = out_room(guest,
			       sizeof(head) + one->bytes + two->bytes + ROAMI_CHANNEL_EXTRA);

	guest_speaks(guest);
	if (at == NULL)
		guest->lost = true;
	if (guest->lost)
		return false;
	guest->out.end += roami_channel_close(&guest->channel, parts, 3, at);
	return true;
}

static bool guest_say(struct roami_guest *guest, uint32_t kind, uint64_t number, const void *data,
		      size_t bytes)
{
	return roami_guest_send(guest, kind, number, &(struct roam_part){data, bytes},
				&(struct roam_part){NULL, 0});
}

/* Bytes that are freed if the session is forgotten. */
static uint64_t guests_usage(const struct roami_session *session)
{
	return session->memo_bytes + session->errand_bytes +
	       (session->guest != NULL ? session->guest->out.room : 0);
}

void roami_guests_fix(struct roami_guests *all, int64_t bytes)
{
	all->used += (uint64_t)bytes;
	all->fixed += (uint64_t)bytes;
}

void roami_guests_bound(struct roami_guests *all)
{
	while (all->used > all->bound) {
		struct roami_session *most = NULL;
		struct roami_guest *guest;

		for (struct roami_session *at = all->sessions; at != NULL; at = at->next)
			if (most == NULL || guests_usage(at) > guests_usage(most))
				most = at;
		if (most == NULL)
			return;
		guest = most->guest;
		roami_session_end(most, false);
		if (guest == NULL)
			continue;
		guest->session = NULL;
		out_free(guest);
		roami_guest_lose(guest);
	}
}

/* ------------------------------------------------------------------------------ other questions */

static bool bind_keep(struct roami_past *past, size_t bytes)
{
	bool kept;

	roami_spin_lock(past->node, &past->lock);
	kept = roami_past_keep(past, bytes);
	roami_spin_unlock(&past->lock);
	return kept;
}

/* Lets clients use the element.  false: there is no memory. */
static bool bind_host(struct roami_guests *all, uint32_t number,
		      const struct roami_template *template, const struct roami_bind *ask,
		      const char *name)
{
	struct roami_hosted **all_of = &all->hosted[roami_hosted_owner(number)], *hosted;

	if (*all_of == NULL)
		*all_of = roami_os_reserve_sparse(HOSTED_BYTES);
	if (*all_of == NULL)
		return false;
	hosted = &(*all_of)[roami_hosted_element(number)];
	if (hosted->name[0] == '\0' && !bind_keep(all->past, sizeof(*hosted)))
		return false;
	hosted->template = *template;
	hosted->rounds = ask->participants != 0;
	memcpy(hosted->name, name,
	       ask->name_bytes < sizeof(hosted->name) - 1 ? ask->name_bytes
							  : sizeof(hosted->name) - 1);
	return true;
}

/* The node for a new element that is entered at node `here`. */
static unsigned bind_place(const struct roami_node *here, const struct roami_bind *ask)
{
	if (ask->place == ROAM_PS_HASH)
		return here->nodes;
	return ask->place == ROAM_PS_CREATOR ? here->me : ask->node;
}

/* Enters an element, at whichever node it lives; `texts` as they come. */
static void bind_enter(struct roami_guests *all, const struct roami_template *template,
		       const struct roami_bind *ask, const char *texts,
		       struct roami_ps_bound *answer)
{
	struct roami_node *node = all->past->node;
	struct roami_show_at at; /* not for programs */
	uint32_t owner;

	if (ask->place == ROAM_PS_NODE && ask->node >= node->nodes) {
		answer->err = ROAM_EINVAL;
		answer->nodes = node->nodes;
		return;
	}
	answer->err = (uint32_t)roami_past_locate(node, texts, ask->name_bytes,
						  bind_place(node, ask), &owner);
	if (answer->err != ROAM_OK)
		return;
	roami_past_bind(node, owner, ask, texts, answer, &at);
	if (answer->err != ROAM_OK)
		return;
	if (answer->paged != 0) {
		answer->err = ROAM_EINVAL;
		return;
	}
	answer->element = roami_hosted_number(owner, answer->element);
	if (!bind_host(all, answer->element, template, ask, texts))
		answer->err = ROAM_ENOSPC;
}

static bool guest_bind(struct roami_guest *guest, uint64_t number, const uint8_t *data,
		       size_t bytes)
{
	char texts[2 * ROAM_PS_TEMPLATE_MAX + 1], why[64];
	struct roami_ps_bound answer;
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
	if (memchr(texts, '\0', ask.name_bytes) == NULL &&
	    roami_template_parse(&template, texts + ask.name_bytes, why, sizeof(why)) == ROAM_OK &&
	    strlen(template.text) == ask.template_bytes && ask.heap_bytes == 0 &&
	    (ask.function[0] != '\0' || ask.participants == 0) && ask.place <= ROAM_PS_NODE)
		bind_enter(guest->all, &template, &ask, texts, &answer);
	return guest_say(guest, ROAMI_GUEST_BOUND, number, &answer, sizeof(answer));
}

bool roami_guest_listed(struct roami_guest *guest, uint64_t number, const struct roami_list *ask,
			struct roami_listings *listings)
{
	const struct roami_guests *all = guest->all;
	struct roami_listed *head = &listings->head;

	head->guests = all->attached;
	head->refused = all->refused;
	head->nodes = all->past->node->nodes;
	head->now_ns = all->past->node->env->now(all->past->node);
	for (uint32_t i = 0; i < head->count; i++) {
		const struct roami_hosted *hosted = roami_hosted_find(
			all, roami_hosted_number(ask->node, ask->first + i));

		if (hosted == NULL)
			continue;
		listings->entries[i].moves = hosted->moves;
		listings->entries[i].observes = hosted->observes;
	}
	return guest_say(guest, ROAMI_GUEST_LISTED, number, listings,
			 sizeof(*head) + head->count * sizeof(listings->entries[0]));
}

static bool guest_list(struct roami_guest *guest, uint64_t number, const uint8_t *data,
		       size_t bytes)
{
	struct roami_past *past = guest->all->past;
	struct roami_listings listings;
	struct roami_list ask;

	if (bytes != sizeof(ask))
		return false;
	memcpy(&ask, data, sizeof(ask));
	if (ask.node >= past->node->nodes)
		return false;
	if (ask.node != past->node->me)
		return roami_session_list(guest->session, number, &ask);
	roami_list_fill(past, ask.first, &listings);
	return roami_guest_listed(guest, number, &ask, &listings);
}

/* ------------------------------------------------------------------------------------ coming in */

/* Takes the session from the connection that it is on, which the client knows to be broken. */
static bool guest_resume(struct roami_guest *guest, struct roami_session *session,
			 const struct roami_attach *ask)
{
	struct roami_guest *old = session->guest;

	if (old != NULL) {
		old->session = NULL;
		roami_session_away(session);
		roami_guest_lose(old);
	}
	return roami_session_resume(session, guest, ask);
}

/* The client has shown that it knows the key. */
static bool guest_attach(struct roami_guest *guest, const uint8_t *data, size_t bytes)
{
	struct roami_guests *all = guest->all;
	struct roami_attached answer = {.keep_ns = all->keep.ns};
	struct roami_session *session;
	struct roami_attach ask;

	if (bytes != sizeof(ask))
		return false;
	memcpy(&ask, data, sizeof(ask));
	roami_sessions_answer(all);
	/* A new client leaves room for answers; one that comes again may use that room. */
	if (all->fixed + ROAMI_GUEST_IN_BYTES + sizeof(*session) >
	    (ask.session == 0 ? all->bound / 4 * 3 : all->bound))
		return false;
	if (ask.session == 0) {
		session = roami_session_make(all, guest);
		if (session == NULL)
			return false;
	} else {
		session = roami_session_find(all, ask.session);
		if (session == NULL)
			return guest_say(guest, ROAMI_GUEST_GONE, 0, NULL, 0);
		if (!guest_resume(guest, session, &ask))
			return false;
	}
	guest->session = session;
	guest->attached = true;
	all->attached++;
	roami_guests_fix(all, (int64_t)ROAMI_GUEST_IN_BYTES);
	answer.session = session->id;
	answer.highest = session->highest;
	return guest_say(guest, ROAMI_GUEST_ATTACHED, 0, &answer, sizeof(answer));
}

static bool guest_op(struct roami_guest *guest, uint64_t number, const uint8_t *data, size_t bytes)
{
	struct roami_ask ask;

	if (bytes < sizeof(ask))
		return false;
	memcpy(&ask, data, sizeof(ask));
	data += sizeof(ask);
	bytes -= sizeof(ask);
	if (bytes > (roami_ask_carries(&ask) ? ROAM_PS_TUPLE_MAX : 0))
		return false;
	if (ask.limit > ROAM_PS_TUPLE_MAX)
		ask.limit = ROAM_PS_TUPLE_MAX;
	return roami_session_op(guest->session, number, &ask, data, bytes);
}

/* A question, which does no harm if it is answered twice. */
static bool guest_question(struct roami_guest *guest, const struct roami_guest_head *head,
			   const uint8_t *data, size_t bytes)
{
	if (head->number > guest->session->highest)
		guest->session->highest = head->number;
	return head->kind == ROAMI_GUEST_BIND ? guest_bind(guest, head->number, data, bytes)
					      : guest_list(guest, head->number, data, bytes);
}

/* false: the connection is to be dropped. */
static bool guest_frame(struct roami_guest *guest, const uint8_t *text, size_t bytes)
{
	struct roami_guest_head head;

	if (bytes < sizeof(head) || guest->lost)
		return false;
	memcpy(&head, text, sizeof(head));
	text += sizeof(head);
	bytes -= sizeof(head);
	if (!guest->attached)
		return head.kind == ROAMI_GUEST_ATTACH && guest_attach(guest, text, bytes);
	roami_session_heard(guest->session, head.heard);
	switch (head.kind) {
	case ROAMI_GUEST_BIND:
	case ROAMI_GUEST_LIST:
		return guest_question(guest, &head, text, bytes);
	case ROAMI_GUEST_OP:
		return guest_op(guest, head.number, text, bytes);
	case ROAMI_GUEST_CANCEL:
		roami_session_cancel(guest->session, head.number);
		return bytes == 0;
	case ROAMI_GUEST_DETACH:
		guest->leaves = true;
		return false;
	default:
		return false;
	}
}

/* Answers the client's hello by the server's, and a frame that shows that it knows the key. */
static bool guest_hello(struct roami_guest *guest, const uint8_t *hello)
{
	uint8_t *at = out_room(guest, ROAMI_CHANNEL_HELLO);

	if (at == NULL || !roami_channel_init(&guest->channel, ROAMI_GUEST_MAGIC, at) ||
	    !roami_channel_handshake(&guest->channel, ROAMI_GUEST_MAGIC, guest->all->key, false,
				     hello))
		return false;
	guest->out.end += ROAMI_CHANNEL_HELLO;
	guest->met = true; /* guest_say enters it in the list of those that speak */
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
		if (!guest_hello(guest, in))
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
		roami_guests_bound(guest->all);
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

void roami_guest_fini(struct roami_guest *guest)
{
	struct roami_guests *all = guest->all;

	if (guest->session != NULL && guest->leaves)
		roami_session_end(guest->session, true);
	else if (guest->session != NULL)
		roami_session_away(guest->session);
	if (guest->attached) {
		all->attached--;
		roami_guests_fix(all, -(int64_t)ROAMI_GUEST_IN_BYTES);
	} else {
		all->refused++;
	}
	guest_silent(guest);
	out_free(guest);
	roami_channel_fini(&guest->channel);
	memset(guest, 0, sizeof(*guest));
}
