/*
 * The cards of a simulated world: each reads other nodes' memory, past their processors.  A read
 * has a delay of its own, so reads overtake each other and messages in either direction.  Its lines
 * of 64 bytes land at times of their own, in any order, while the home stores: only those times are
 * chosen here, the world lets the lines land between the steps of its fibers.  A read may find no
 * room, and may end with an error after some of its lines have landed.
 *
 * A put stores other nodes' memory likewise, never a byte beside those it has; its message arrives
 * when all have landed.  It may fail after some have: then all land once more, later, before the
 * message.  After an error the cards of both nodes do nothing for a while.
 */
#include <stdlib.h>
#include <string.h>

#include "os/gather.h"
#include "sim.h"

#define LINE  64u
#define LINES 64u /* of a read at most */

struct roami_sim_read {
	struct roami_sim_read *next;
	const uint8_t *from;
	uint8_t *to;
	uint32_t *done;
	unsigned reader, of;
	unsigned lines;
	uint32_t result;
	uint64_t ends;
	uint64_t due[LINES]; /* UINT64_MAX: landed */
};

static enum roam_err card_attach(void *state, void *memory, size_t bytes)
{
	unsigned node;
	struct roami_sim *sim = roami_sim_of(state, &node);

	sim->memory[node] = memory;
	sim->memory_bytes[node] = bytes;
	return ROAM_OK;
}

/* Draws when each line lands, and when the read is done. */
static void read_times(struct roami_sim *sim, struct roami_sim_read *read)
{
	uint64_t spread = sim->read_ns_max + 1;
	uint64_t begin = sim->now(sim->world) + 1 + sim->draw(sim->world, spread);
	uint64_t width = 1 + sim->draw(sim->world, spread);

	read->ends = begin;
	for (unsigned i = 0; i < read->lines; i++) {
		read->due[i] = begin + sim->draw(sim->world, width);
		if (read->due[i] > read->ends)
			read->ends = read->due[i];
	}
	read->result = 1;
	if (sim->read_fails != 0 && sim->draw(sim->world, sim->read_fails) == 0)
		read->result = 2 + ROAM_EINVAL;
}

/* Whether an operation of two nodes may begin. */
static bool card_may(const struct roami_sim *sim, unsigned node, unsigned peer)
{
	uint64_t now = sim->now(sim->world);

	return (sim->reads_max == 0 || sim->read_count < sim->reads_max) &&
	       now >= sim->unready[node] && now >= sim->unready[peer];
}

/* An operation of two nodes has failed. */
static void card_failed(struct roami_sim *sim, unsigned node, unsigned peer)
{
	uint64_t until = sim->now(sim->world) + sim->draw(sim->world, 2 * sim->read_ns_max + 1);

	sim->unready[node] = sim->unready[peer] = until;
}

static enum roam_err card_get(void *state, unsigned peer, uint64_t from, const struct iovec *parts,
			      unsigned count, uint32_t *done)
{
	unsigned node;
	struct roami_sim *sim = roami_sim_of(state, &node);
	struct roami_sim_read *read;

	if (count != 1 || parts->iov_len > LINE * LINES || parts->iov_len % LINE != 0 ||
	    from > sim->memory_bytes[peer] || parts->iov_len > sim->memory_bytes[peer] - from)
		return ROAM_EINVAL;
	if (!card_may(sim, node, peer))
		return ROAM_EAGAIN;
	read = malloc(sizeof(*read));
	if (read == NULL)
		return ROAM_EAGAIN;
	*read = (struct roami_sim_read){.next = sim->reads,
					.from = sim->memory[peer] + from,
					.to = parts->iov_base,
					.done = done,
					.reader = node,
					.of = peer,
					.lines = (unsigned)(parts->iov_len / LINE)};
	*done = 0;
	read_times(sim, read);
	sim->reads = read;
	sim->read_count++;
	return ROAM_OK;
}

/* The world lets reads land by itself. */
static unsigned card_reap(void *state)
{
	(void)state;
	return 0;
}

static void read_land(struct roami_sim_read *read, uint64_t now)
{
	for (unsigned i = 0; i < read->lines; i++) {
		if (read->due[i] > now)
			continue;
		read->due[i] = UINT64_MAX;
		memcpy(read->to + (size_t)i * LINE, read->from + (size_t)i * LINE, LINE);
	}
}

/* ----------------------------------------------------------------------------------------- puts */

#define PUTS_MAX    16u
#define BYTES_MAX   3072u
#define MESSAGE_MAX 512u
#define STRETCH     (UINT64_C(256) * 1024)
#define PIECES      (PUTS_MAX * 2 + BYTES_MAX / LINE)

/* Bytes of a put within one line of the peer's memory. */
struct put_piece {
	uint64_t to;
	uint64_t due; /* UINT64_MAX: landed */
	uint16_t at, bytes;
};

struct roami_sim_put {
	struct roami_sim_put *next;
	unsigned from, to;
	unsigned pieces;
	bool fails; /* this time */
	uint64_t ends;
	size_t message_bytes;
	struct put_piece piece[PIECES];
	uint8_t bytes[BYTES_MAX];
	uint8_t message[MESSAGE_MAX];
};

/* Draws when each piece lands; of one that fails some never do. */
static void put_times(struct roami_sim *sim, struct roami_sim_put *put)
{
	uint64_t begin = sim->now(sim->world) + 1 + sim->draw(sim->world, sim->read_ns_max + 1);
	uint64_t width = 1 + sim->draw(sim->world, sim->read_ns_max + 1);

	put->ends = begin;
	for (unsigned i = 0; i < put->pieces; i++) {
		put->piece[i].due = begin + sim->draw(sim->world, width);
		if (put->fails && sim->draw(sim->world, 2) == 0)
			put->piece[i].due = UINT64_MAX;
		else if (put->piece[i].due > put->ends)
			put->ends = put->piece[i].due;
	}
}

static void put_pieces(struct roami_sim_put *put, const struct roam_put *one, size_t *used)
{
	for (size_t at = 0, some; at < one->bytes; at += some) {
		uint64_t to = one->to + at;

		some = LINE - to % LINE;
		if (some > one->bytes - at)
			some = one->bytes - at;
		put->piece[put->pieces++] = (struct put_piece){
			.to = to, .at = (uint16_t)(*used + at), .bytes = (uint16_t)some};
	}
	memcpy(put->bytes + *used, one->from, one->bytes);
	*used += one->bytes;
}

/* Whether the operation is one that the contract allows. */
static bool put_allowed(const struct roami_sim *sim, unsigned peer, const struct roam_put *puts,
			unsigned count, size_t message)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < count; bytes += puts[i++].bytes)
		if (puts[i].bytes == 0 || puts[i].bytes > BYTES_MAX ||
		    puts[i].to / STRETCH != puts[0].to / STRETCH ||
		    (puts[i].to + puts[i].bytes - 1) / STRETCH != puts[0].to / STRETCH ||
		    puts[i].to + puts[i].bytes > sim->memory_bytes[peer])
			return false;
	return count > 0 && count <= PUTS_MAX && bytes <= BYTES_MAX && message <= MESSAGE_MAX;
}

static enum roam_err card_put(void *state, unsigned peer, const struct roam_put *puts,
			      unsigned count, const struct iovec *message, unsigned parts)
{
	unsigned node;
	struct roami_sim *sim = roami_sim_of(state, &node);
	struct roami_gather gather = {message, 0};
	size_t used = 0, bytes = roami_gather_bytes(message, parts);
	struct roami_sim_put *put;

	if (!put_allowed(sim, peer, puts, count, bytes))
		return ROAM_EINVAL;
	put = card_may(sim, node, peer) ? malloc(sizeof(*put)) : NULL;
	if (put == NULL)
		return ROAM_EAGAIN;
	put->next = sim->puts;
	put->from = node;
	put->to = peer;
	put->pieces = 0;
	put->message_bytes = bytes;
	roami_gather_copy(&gather, put->message, bytes);
	for (unsigned i = 0; i < count; i++)
		put_pieces(put, &puts[i], &used);
	put->fails = sim->read_fails != 0 && sim->draw(sim->world, sim->read_fails) == 0;
	put_times(sim, put);
	sim->puts = put;
	sim->read_count++;
	return ROAM_OK;
}

/* Lets what is due of a put land; true: it is over. */
static bool put_land(struct roami_sim *sim, struct roami_sim_put *put, uint64_t now)
{
	for (unsigned i = 0; i < put->pieces; i++) {
		struct put_piece *piece = &put->piece[i];

		if (piece->due > now)
			continue;
		piece->due = UINT64_MAX;
		memcpy(sim->memory[put->to] + piece->to, put->bytes + piece->at, piece->bytes);
	}
	if (put->ends > now)
		return false;
	if (put->fails) {
		card_failed(sim, put->from, put->to);
		put->fails = false;
		put_times(sim, put);
		return false;
	}
	roami_sim_tell(sim, put->from, put->to, put->message, put->message_bytes);
	return true;
}

static void puts_land(struct roami_sim *sim, uint64_t now)
{
	struct roami_sim_put **at = &sim->puts;

	while (*at != NULL) {
		struct roami_sim_put *put = *at;

		if (!put_land(sim, put, now)) {
			at = &put->next;
			continue;
		}
		*at = put->next;
		sim->read_count--;
		free(put);
	}
}

/* -------------------------------------------------------------------------------------- landing */

void roami_sim_land(struct roami_sim *sim)
{
	struct roami_sim_read **at = &sim->reads;
	uint64_t now;

	if (sim->reads == NULL && sim->puts == NULL)
		return;
	now = sim->now(sim->world);
	puts_land(sim, now);
	while (*at != NULL) {
		struct roami_sim_read *read = *at;

		read_land(read, now);
		if (read->ends > now) {
			at = &read->next;
			continue;
		}
		*at = read->next;
		sim->read_count--;
		if (read->result != 1)
			card_failed(sim, read->reader, read->of);
		*read->done = read->result;
		sim->landed(sim->world, read->reader);
		free(read);
	}
}

uint64_t roami_sim_land_due(const struct roami_sim *sim)
{
	uint64_t due = UINT64_MAX;

	for (const struct roami_sim_read *read = sim->reads; read != NULL; read = read->next) {
		if (read->ends < due)
			due = read->ends;
		for (unsigned i = 0; i < read->lines; i++)
			if (read->due[i] < due)
				due = read->due[i];
	}
	for (const struct roami_sim_put *put = sim->puts; put != NULL; put = put->next) {
		if (put->ends < due)
			due = put->ends;
		for (unsigned i = 0; i < put->pieces; i++)
			if (put->piece[i].due < due)
				due = put->piece[i].due;
	}
	return due;
}

void roami_sim_land_none(struct roami_sim *sim)
{
	while (sim->reads != NULL) {
		struct roami_sim_read *read = sim->reads;

		sim->reads = read->next;
		free(read);
	}
	while (sim->puts != NULL) {
		struct roami_sim_put *put = sim->puts;

		sim->puts = put->next;
		free(put);
	}
	sim->read_count = 0;
}

const struct roam_onesided roami_sim_card = {
	.attach = card_attach,
	.get = card_get,
	.reap = card_reap,
	.put = card_put,
	.puts_max = PUTS_MAX,
	.put_bytes_max = BYTES_MAX,
	.put_message_max = MESSAGE_MAX,
	.put_stretch = STRETCH,
};
