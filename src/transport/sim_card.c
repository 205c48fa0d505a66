/*
 * The cards of a simulated world: each reads other nodes' memory, past their processors.  A read
 * has a delay of its own, so reads overtake each other and messages in either direction.  Its lines
 * of 64 bytes land at times of their own, in any order, while the home stores: only those times are
 * chosen here, the world lets the lines land between the steps of its fibers.  A read may find no
 * room, and may end with an error after some of its lines have landed.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define LINE  64u
#define LINES 64u /* of a read at most */

struct roami_sim_read {
	struct roami_sim_read *next;
	const uint8_t *from;
	uint8_t *to;
	uint32_t *done;
	unsigned reader;
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

static enum roam_err card_get(void *state, unsigned peer, uint64_t from, const struct iovec *parts,
			      unsigned count, uint32_t *done)
{
	unsigned node;
	struct roami_sim *sim = roami_sim_of(state, &node);
	struct roami_sim_read *read;

	if (count != 1 || parts->iov_len > LINE * LINES || parts->iov_len % LINE != 0 ||
	    from > sim->memory_bytes[peer] || parts->iov_len > sim->memory_bytes[peer] - from)
		return ROAM_EINVAL;
	if (sim->reads_max != 0 && sim->read_count >= sim->reads_max)
		return ROAM_EAGAIN;
	read = malloc(sizeof(*read));
	if (read == NULL)
		return ROAM_EAGAIN;
	*read = (struct roami_sim_read){.next = sim->reads,
					.from = sim->memory[peer] + from,
					.to = parts->iov_base,
					.done = done,
					.reader = node,
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

void roami_sim_land(struct roami_sim *sim)
{
	struct roami_sim_read **at = &sim->reads;
	uint64_t now;

	if (sim->reads == NULL)
		return;
	now = sim->now(sim->world);
	while (*at != NULL) {
		struct roami_sim_read *read = *at;

		read_land(read, now);
		if (read->ends > now) {
			at = &read->next;
			continue;
		}
		*at = read->next;
		sim->read_count--;
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
	return due;
}

void roami_sim_land_none(struct roami_sim *sim)
{
	while (sim->reads != NULL) {
		struct roami_sim_read *read = sim->reads;

		sim->reads = read->next;
		free(read);
	}
	sim->read_count = 0;
}

const struct roam_onesided roami_sim_card = {
	.attach = card_attach,
	.get = card_get,
	.reap = card_reap,
};
