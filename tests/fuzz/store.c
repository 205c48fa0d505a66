/*
 * libFuzzer: what comes to a page server (store/caller.c).  A stranger gets no further than its
 * hello, whatever it sends; a client that knows a key may say anything: it is answered, or it is
 * dropped; what is to be written is of a client that may commit, whole entries within the heap, in
 * order, and what the server has in memory is what these entries make.
 */
#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "store/caller.h"

#define CALLERS 2u
#define PAGES   8u
#define HEAP    ((uint64_t)PAGES * ROAMI_STORE_PAGE)
#define AGAIN   0xff00u /* as a length: the client is cut off, and comes again */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The client's side of a connection. */
struct client {
	struct roami_caller caller;
	struct roami_channel channel;
	bool read_key; /* it has that one */
	bool dropped;
};

static struct roami_callers callers;
static struct client clients[CALLERS];
static const struct client *speaks;
static struct roami_store_state shadow;
static uint64_t put_serial;
static uint8_t frame[ROAMI_STORE_FRAME_MAX];

static void must(int holds)
{
	if (!holds)
		abort();
}

void roami_assert_failed(const char *condition, const char *file, int line)
{
	(void)condition, (void)file, (void)line;
	abort();
}

static bool server_make(void *arg)
{
	(void)arg;
	must(callers.is.heap_bytes == callers.state.heap_bytes);
	must(callers.is.heap_bytes <= ROAMI_STORE_HEAP_MAX);
	must(roami_state_make(&shadow, callers.is.heap_bytes));
	return true;
}

static void server_put(void *arg, struct roami_log_commit *commit)
{
	(void)arg;
	must(!speaks->read_key && !speaks->caller.reads && callers.full[0] == '\0');
	must(commit->record.serial == ++put_serial);
	must(commit->record.bytes <= ROAMI_STORE_COMMIT_MAX && commit->record.bytes % 8 == 0);
	must(roami_state_fits(&shadow, roami_log_entries(commit), commit->record.bytes));
	must(roami_state_apply(&shadow, put_serial, roami_log_entries(commit),
			       commit->record.bytes));
	callers.queued -= sizeof(*commit) + commit->record.bytes;
	free(commit);
}

/* What the server says is closed with the right key, and of a kind that it may say. */
static void client_hears(struct client *client)
{
	struct roami_flow *out = &client->caller.out;
	struct roami_store_head head;
	uint32_t length;
	uint8_t *text;

	while (out->at < out->end) {
		memcpy(&length, out->bytes + out->at, sizeof(length));
		must(length <= out->end - out->at - sizeof(length));
		text = roami_channel_open(&client->channel, out->bytes + out->at, length);
		must(text != NULL && length <= ROAMI_STORE_FRAME_MAX - sizeof(length));
		memcpy(&head, text, sizeof(head));
		must(head.kind == ROAMI_STORE_OPENED || head.kind == ROAMI_STORE_LOADED ||
		     head.kind == ROAMI_STORE_RECEIPT || head.kind == ROAMI_STORE_DURABLE ||
		     head.kind == ROAMI_STORE_ERROR);
		out->at += sizeof(length) + length;
	}
}

static void client_says(struct client *client, const void *data, size_t bytes)
{
	struct roam_part part = {data, bytes};
	size_t length, took;

	if (client->dropped)
		return;
	length = roami_channel_close(&client->channel, &part, 1, frame);
	speaks = client;
	took = roami_caller_take(&client->caller, frame, length);
	must(took == length || took == SIZE_MAX || (took == 0 && client->caller.lost));
	client->dropped = took != length;
	client_hears(client);
}

/* It meets the server; what it says first is up to the input, if `opens` is false. */
static void client_begin(struct client *client, bool opens, bool reads)
{
	struct {
		struct roami_store_head head;
		struct roami_store_open open;
	} says = {.head = {.kind = ROAMI_STORE_OPEN},
		  .open = {.heap_bytes = HEAP,
			   .page_bytes = ROAMI_STORE_PAGE,
			   .flags = reads ? ROAMI_STORE_READS : 0}};
	struct roami_flow *out = &client->caller.out;
	uint8_t hello[ROAMI_CHANNEL_HELLO];

	roami_caller_init(&client->caller, &callers);
	client->dropped = false;
	must(roami_channel_init(&client->channel, ROAMI_STORE_MAGIC, hello));
	must(roami_caller_take(&client->caller, hello, sizeof(hello)) == sizeof(hello));
	must(roami_channel_handshake(&client->channel, ROAMI_STORE_MAGIC,
				     client->read_key ? callers.read_key : callers.key, true,
				     out->bytes));
	must(out->end == ROAMI_CHANNEL_HELLO + 2 * ROAMI_STORE_WELCOME_BYTES);
	must(roami_channel_open(&client->channel,
				out->bytes + ROAMI_CHANNEL_HELLO +
					(client->read_key ? ROAMI_STORE_WELCOME_BYTES : 0),
				ROAMI_STORE_WELCOME_BYTES - sizeof(uint32_t)) != NULL);
	out->at = out->end;
	if (opens)
		client_says(client, &says, sizeof(says));
}

/* Frames: whose, how long, and the bytes. */
static void talk(const uint8_t *data, size_t size, uint8_t how)
{
	for (unsigned i = 0; i < CALLERS; i++) {
		clients[i].read_key = (how >> 2 * i & 32) != 0;
		client_begin(&clients[i], (how >> i & 2) == 0, (how >> i & 8) != 0);
	}
	while (size >= 3) {
		struct client *client = &clients[data[0] % CALLERS];
		size_t bytes = (size_t)(data[1] | data[2] << 8);
		bool again = bytes >= AGAIN;

		data += 3;
		size -= 3;
		bytes = again ? 0 : bytes < size ? bytes : size;
		if (again) {
			roami_caller_fini(&client->caller);
			client_begin(client, (how & 64) == 0, (bytes & 1) != 0);
		} else {
			client_says(client, data, bytes);
		}
		callers.durable = callers.serial;
		for (unsigned i = 0; i < CALLERS; i++) {
			roami_caller_tell(&clients[i].caller);
			client_hears(&clients[i]);
		}
		data += bytes;
		size -= bytes;
	}
	for (unsigned i = 0; i < CALLERS; i++)
		roami_caller_fini(&clients[i].caller);
}

/* Two pieces of a stranger's, of all lengths. */
static void strange(const uint8_t *data, size_t size)
{
	static struct roami_caller caller;
	size_t first = size > 0 ? data[0] % size : 0, took;

	roami_caller_init(&caller, &callers);
	memcpy(frame, data, size);
	took = roami_caller_take(&caller, frame, first);
	if (took != SIZE_MAX) {
		must(took <= first);
		took = roami_caller_take(&caller, frame + took, size - took);
	}
	must(!caller.open && callers.is.heap_bytes == 0);
	roami_caller_fini(&caller);
}

static void state_check(void)
{
	const struct roami_store_state *state = &callers.state;

	must(state->pages == shadow.pages && state->name_count == shadow.name_count);
	for (uint32_t page = roami_state_next(state, 0); page < roami_state_heap_pages(state);
	     page = roami_state_next(state, page + 1))
		must(memcmp(state->heap + (size_t)page * ROAMI_STORE_PAGE,
			    shadow.heap + (size_t)page * ROAMI_STORE_PAGE, ROAMI_STORE_PAGE) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	memset(&callers, 0, sizeof(callers));
	memcpy(callers.key, "a key of thirty-two bytes, known", sizeof(callers.key));
	memcpy(callers.read_key, "a key of thirty-two bytes, reads", sizeof(callers.read_key));
	callers.make = server_make;
	callers.put = server_put;
	put_serial = 0;
	if (size > 0 && size <= sizeof(frame) && data[0] % 2 == 1)
		strange(data + 1, size - 1);
	else if (size > 0)
		talk(data + 1, size - 1, data[0]);
	must(callers.staged == 0 && callers.queued == 0 && callers.writers == 0);
	state_check();
	roami_callers_fini(&callers);
	roami_state_free(&shadow);
	return 0;
}
