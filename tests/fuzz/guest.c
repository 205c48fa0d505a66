/*
 * libFuzzer: what comes to a server of elements (pastset/attached/guest.c).  A stranger gets no
 * further than its hello, whatever it sends; a client that knows the key may ask anything: what it
 * asks is answered, or it is dropped, and when it is gone nothing of it waits.  It may be cut off,
 * and come again, while the server still has its connection or after the server has forgotten it.
 */
#include <stdlib.h>
#include <string.h>

#include "pastset/attached/guest.h"
#include "pastset/bitmap.h"
#include "pastset/job/server.h"

#define GUESTS     2u /* one waits for what the other does */
#define CUT        0xff00u /* as a length: a client is cut off, then comes as the next byte says */
#define KEEP_NS    100u
#define KEEP_BYTES 4000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The client's side of a connection. */
struct client {
	struct roami_guest *guest;
	struct roami_channel channel;
	bool dropped;
	uint64_t session;
};

static const uint8_t key[ROAMI_CHANNEL_KEY] = "a key of thirty-two bytes, known";
static struct roami_node node;
static struct roami_options options = {.ps_memory = 1u << 20};
static struct roami_guests guests;
static struct client clients[GUESTS];
static uint8_t frame[ROAMI_GUEST_FRAME_MAX];
static uint64_t now_ns;

static void must(int holds)
{
	if (!holds)
		abort();
}

/* ------------------------------------------------------------------------ what the server needs */

void roami_node_fail(struct roami_node *failed, const char *format, ...)
{
	(void)failed;
	(void)format;
	abort(); /* no client ends the server */
}

void roami_assert_failed(const char *condition, const char *file, int line)
{
	(void)condition;
	(void)file;
	(void)line;
	abort();
}

struct roami_slab *roami_node_slab(struct roami_node *at)
{
	static struct roami_slabs slabs;
	uint32_t first = 0;
	struct roami_slab *room = roami_slab_take(&slabs, &first);

	(void)at;
	must(room != NULL);
	return room;
}

void roami_delay(struct roami_node *at, const struct roam_request *request, uint64_t ns)
{
	(void)at;
	(void)request;
	(void)ns;
}

void roami_reply(struct roami_node *at, const struct roam_request *request,
		 const struct roam_part *parts, unsigned count)
{
	(void)at;
	(void)request;
	(void)parts;
	(void)count;
	abort(); /* there are no other nodes */
}

void roami_msg_reply_awaited(struct roami_node *at, const struct roam_request *request,
			     const struct roam_part *parts, unsigned count)
{
	roami_reply(at, request, parts, count);
}

void roami_msg_send(struct roami_node *at, unsigned to, unsigned type,
		    const struct roam_part *parts, unsigned count)
{
	(void)at;
	(void)to;
	(void)type;
	(void)parts;
	(void)count;
	abort();
}

void roami_msg_send_awaited(struct roami_node *at, unsigned to, unsigned type,
			    const struct roam_part *parts, unsigned count)
{
	roami_msg_send(at, to, type, parts, count);
}

size_t roami_msg_call(struct roami_node *at, unsigned to, unsigned type,
		      const struct roam_part *parts, unsigned count, void *reply, size_t reply_max)
{
	(void)reply;
	(void)reply_max;
	roami_msg_send(at, to, type, parts, count);
	return 0;
}

static uint64_t env_now(struct roami_node *at)
{
	(void)at;
	return now_ns;
}

static void env_spin(struct roami_node *at, unsigned turn)
{
	(void)at;
	(void)turn;
	abort(); /* one thread: a lock was left held */
}

static const struct roami_env env = {.now = env_now, .spin = env_spin};

/* -------------------------------------------------------------------------------------- clients */

/* What the server says is closed with the right key, and of a kind that it may say. */
static void client_hears(struct client *client)
{
	struct roami_flow *out = &client->guest->out;
	struct roami_attached attached;
	struct roami_guest_head head;
	uint32_t length;
	uint8_t *text;

	while (out->at < out->end) {
		memcpy(&length, out->bytes + out->at, sizeof(length));
		must(length <= out->end - out->at - sizeof(length));
		text = roami_channel_open(&client->channel, out->bytes + out->at, length);
		must(text != NULL && length <= ROAMI_GUEST_FRAME_MAX - sizeof(length));
		memcpy(&head, text, sizeof(head));
		must(head.kind == ROAMI_GUEST_WELCOME || head.kind == ROAMI_GUEST_ATTACHED ||
		     head.kind == ROAMI_GUEST_BOUND || head.kind == ROAMI_GUEST_OUTCOME ||
		     head.kind == ROAMI_GUEST_LISTED || head.kind == ROAMI_GUEST_GONE);
		if (head.kind == ROAMI_GUEST_ATTACHED) {
			memcpy(&attached, text + sizeof(head), sizeof(attached));
			client->session = attached.session;
		}
		out->at += sizeof(length) + length;
	}
}

static void client_says(struct client *client, const void *data, size_t bytes)
{
	struct roam_part part = {data, bytes};
	size_t length = roami_channel_close(&client->channel, &part, 1, frame);
	size_t took = roami_guest_take(client->guest, frame, length);

	must(took == length || took == SIZE_MAX);
	client->dropped = took == SIZE_MAX;
}

static void client_attach(struct client *client, uint64_t session, uint32_t heard)
{
	struct {
		struct roami_guest_head head;
		struct roami_attach attach;
	} says = {.head = {.kind = ROAMI_GUEST_ATTACH},
		  .attach = {.session = session, .heard = heard}};
	uint8_t hello[ROAMI_CHANNEL_HELLO];

	client->guest = malloc(sizeof(*client->guest));
	must(client->guest != NULL);
	roami_guest_init(client->guest, &guests);
	client->dropped = false;
	must(roami_channel_init(&client->channel, ROAMI_GUEST_MAGIC, hello));
	must(roami_guest_take(client->guest, hello, sizeof(hello)) == sizeof(hello));
	must(roami_channel_handshake(&client->channel, ROAMI_GUEST_MAGIC, key, true,
				     client->guest->out.bytes));
	client->guest->out.at = ROAMI_CHANNEL_HELLO;
	client_says(client, &says, sizeof(says));
	must(!client->dropped && (client->guest->attached || session != 0));
	client_hears(client);
}

static void guest_gone(struct roami_guest *guest)
{
	roami_guest_fini(guest);
	free(guest);
}

/*
 * The client comes again: `how` says what it has heard, whether the server has noticed that it was
 * gone, and whether it takes the other's session.  A client that is forgotten begins anew.
 */
static void client_again(struct client *client, uint8_t how)
{
	struct roami_guest *old = client->guest;
	bool noticed = how % 2 == 0;
	uint64_t session = (how & 2) != 0 ? clients[0].session : client->session;

	if (noticed)
		guest_gone(old);
	client_attach(client, session, how >> 2);
	if (!noticed) {
		must(old->session == NULL || old->session != client->guest->session);
		guest_gone(old);
	}
	if (!client->guest->attached) {
		guest_gone(client->guest);
		client_attach(client, 0, 0);
	}
}

/* The server's turn. */
static void collect(void)
{
	roami_past_expire(guests.past);
	roami_sessions_forget(&guests);
	roami_sessions_answer(&guests);
	while (roami_guests_speaking(&guests) != NULL)
		continue;
	for (unsigned i = 0; i < GUESTS; i++)
		client_hears(&clients[i]);
}

/* Frames: which client sends one, how time goes on, how long the frame is, and its bytes. */
static void talk(const uint8_t *data, size_t size)
{
	for (unsigned i = 0; i < GUESTS; i++)
		client_attach(&clients[i], 0, 0);
	while (size >= 4) {
		struct client *client = &clients[data[0] % GUESTS];
		size_t bytes = (size_t)(data[1] | data[2] << 8);
		bool cut = bytes >= CUT;

		now_ns += data[0] / GUESTS;
		if (cut)
			client_again(client, data[3]);
		data += 3;
		size -= 3;
		bytes = cut ? 1 : bytes < size ? bytes : size;
		if (!cut && !client->dropped)
			client_says(client, data, bytes);
		data += bytes;
		size -= bytes;
		collect();
	}
	for (unsigned i = 0; i < GUESTS; i++)
		guest_gone(clients[i].guest);
	now_ns += KEEP_NS;
	roami_sessions_forget(&guests);
	roami_sessions_answer(&guests);
	must(guests.attached == 0 && guests.speaking == NULL && guests.away == 0 &&
	     guests.sessions == NULL);
}

/* Two pieces of a stranger's, of all lengths. */
static void strange(const uint8_t *data, size_t size)
{
	struct roami_guest *guest = calloc(1, sizeof(*guest));
	size_t first = size > 0 ? data[0] % size : 0, took;

	roami_guest_init(guest, &guests);
	memcpy(frame, data, size);
	took = roami_guest_take(guest, frame, first);
	if (took != SIZE_MAX) {
		must(took <= first);
		took = roami_guest_take(guest, frame + took, size - took);
	}
	must(!guest->attached && atomic_load(&guests.past->element_count) == 0);
	guest_gone(guest);
	must(guests.refused == 1);
}

/* No operation waits, and what is there is of the template. */
static void element_sound(struct roami_element *element, const struct roami_template *template)
{
	static uint8_t whole[ROAM_PS_TUPLE_MAX];
	struct roami_tuples *tuples = &element->tuples;

	must(element->waiting == 0 && element->lock.held == 0);
	for (uint64_t number = tuples->oldest; number <= tuples->last; number++) {
		roami_record record = roami_tuples_find(element->buddy, tuples, number);

		const uint8_t *tuple = roami_record_data(element->buddy, record);
		size_t bytes = roami_record_bytes(element->buddy, record);

		if (element->packs) {
			must(roami_bitmap_bytes(tuple) <= sizeof(whole) &&
			     roami_bitmap_unpack(tuple, bytes, whole));
			bytes = roami_bitmap_bytes(tuple);
			tuple = whole;
		}
		must(roami_template_fits(template, tuple, bytes));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct roami_open_room extensions[2];
	const struct roami_keep keep = {KEEP_NS, KEEP_BYTES};
	struct roami_past_job *job = calloc(1, sizeof(*job));
	struct roami_past *past = &job->past;

	node.env = &env;
	node.options = &options;
	node.nodes = 1;
	extensions[0] = (struct roami_open_room){.state = past, .room = &roami_past_room};
	node.extensions = extensions;
	must(roami_past_room.init(&node, NULL) == ROAM_OK);
	must(roami_guests_init(&guests, past, key, &keep) == ROAM_OK);
	if (size > 0 && size <= sizeof(frame) && data[0] % 2 == 0)
		strange(data + 1, size - 1);
	else if (size > 0)
		talk(data + 1, size - 1);
	for (uint32_t i = 0; i < atomic_load(&past->element_count); i++)
		element_sound(&past->elements[i], &roami_hosted_find(&guests, i)->template);
	roami_guests_fini(&guests);
	roami_past_room.fini(&node);
	free(job);
	return 0;
}
