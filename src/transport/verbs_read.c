/*
 * Reads of peers' memory, past their processors, by keys (verbs_key.c).  Without a key a read does
 * not begin: its caller sends a message instead.
 *
 * A read lands in a bounce page, which is registered, and is copied from there by the thread that
 * finds it done.  The queue pair that each two nodes have for it, and what becomes of it when a
 * read fails, is in verbs_remote.c.
 */
#include <string.h>

#include "os/os.h"
#include "verbs.h"

#define GATHER  16u
#define ANSWERS 16u /* reads of one peer that the card answers at a time, if it can */

/* ---------------------------------------------------------------------------------------- reads */

uint8_t *verbs_slot_bytes(const struct verbs_reads *reads, unsigned slot)
{
	return reads->bounce + (size_t)slot * VERBS_READ_MAX;
}

bool verbs_slot_take(struct verbs_reads *reads, unsigned peer, uint64_t part, unsigned *slot_p)
{
	uint64_t free = atomic_load(&reads->free);

	while (free != 0 && !atomic_compare_exchange_weak(&reads->free, &free, free & (free - 1)))
		;
	if (free == 0)
		return false;
	*slot_p = (unsigned)__builtin_ctzll(free);
	atomic_store(&reads->under_way[*slot_p].of, verbs_read_of(peer, part));
	return true;
}

void verbs_slot_give(struct verbs_reads *reads, unsigned slot)
{
	atomic_fetch_or(&reads->free, (uint64_t)1 << slot);
}

static bool read_post(struct verbs_state *verbs, struct verbs_peer *peer, unsigned slot,
		      const struct verbs_held *held, uint64_t offset)
{
	struct verbs_reads *reads = &verbs->reads;
	struct ibv_sge part = {(uintptr_t)verbs_slot_bytes(reads, slot),
			       reads->under_way[slot].bytes, reads->region->lkey};
	struct ibv_send_wr wanted = {.wr_id = slot,
				     .sg_list = &part,
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_READ,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma = {held->address + offset, held->key}},
			   *bad;
	bool posted;

	roami_os_lock(&peer->held);
	posted = atomic_load(&peer->at) == VERBS_READY && peer->remote != NULL &&
		 atomic_load(&peer->unready) == 0;
	if (posted && ibv_post_send(peer->remote, &wanted, &bad) != 0) {
		verbs_remote_broken(verbs, peer, IBV_WC_FATAL_ERR);
		posted = false;
	}
	roami_os_unlock(&peer->held);
	return posted;
}

static enum roam_err read_get(void *state, unsigned to, uint64_t from, const struct iovec *parts,
			      unsigned count, uint32_t *done)
{
	struct verbs_state *verbs = state;
	struct verbs_reads *reads = &verbs->reads;
	struct verbs_peer *peer = &verbs->peers[to];
	size_t bytes = parts->iov_len;
	const struct verbs_held *held;
	unsigned slot;

	if (count != 1 || bytes > VERBS_READ_MAX || from >= reads->shared_bytes ||
	    from % VERBS_PART + bytes > verbs_part_bytes(reads, from / VERBS_PART))
		return ROAM_EINVAL;
	held = verbs_key_held(verbs, peer, from / VERBS_PART);
	if (held == NULL || atomic_load(&peer->unready) != 0 ||
	    !verbs_slot_take(reads, to, from / VERBS_PART, &slot))
		return ROAM_EAGAIN;
	/* A key is given back when no slot names its part (verbs_key.c): hence once more. */
	if (atomic_load(&held->at) != VERBS_KEY_HELD) {
		verbs_slot_give(reads, slot);
		return ROAM_EAGAIN;
	}
	*done = 0;
	reads->under_way[slot].to = parts->iov_base;
	reads->under_way[slot].bytes = (uint32_t)bytes;
	atomic_store(&reads->under_way[slot].done, done);
	if (read_post(verbs, peer, slot, held, from % VERBS_PART))
		return ROAM_OK;
	verbs_slot_give(reads, slot);
	return ROAM_EAGAIN;
}

static void read_end(struct verbs_state *verbs, unsigned slot, enum ibv_wc_status status)
{
	struct verbs_reads *reads = &verbs->reads;
	const struct verbs_read *read = &reads->under_way[slot];
	uint32_t *done = atomic_load(&read->done);

	if (status == IBV_WC_SUCCESS)
		memcpy(read->to, verbs_slot_bytes(reads, slot), read->bytes);
	else
		verbs_remote_broken(verbs, &verbs->peers[verbs_read_peer(atomic_load(&read->of))],
				    status);
	verbs_slot_give(reads, slot);
	__atomic_store_n(done, status == IBV_WC_SUCCESS ? 1 : 2 + ROAM_ESYSTEM, __ATOMIC_RELEASE);
}

/* Ends what the card is done with; 1: it was a read. */
static unsigned landing_end(struct verbs_state *verbs, const struct ibv_wc *done)
{
	struct verbs_reads *reads = &verbs->reads;
	uint64_t id = done->wr_id;
	unsigned slot = (unsigned)(id % VERBS_READS);

	if ((id & VERBS_ID_BUFFER) != 0) {
		verbs_put_came(verbs, &verbs->peers[id % VERBS_NODES_MAX], done);
		return 0;
	}
	if ((id & VERBS_ID_PART) != 0) { /* only where it has failed */
		verbs_remote_broken(
			verbs,
			&verbs->peers[verbs_read_peer(atomic_load(&reads->under_way[slot].of))],
			done->status);
		return 0;
	}
	if (atomic_load(&reads->under_way[slot].done) == NULL) {
		verbs_put_ended(verbs, slot, done->status);
		return 0;
	}
	read_end(verbs, slot, done->status);
	return 1;
}

unsigned verbs_read_reap(void *state)
{
	struct verbs_state *verbs = state;
	struct verbs_reads *reads = &verbs->reads;
	struct ibv_wc done[GATHER];
	unsigned total = 0;
	int count;

	if (reads->landings == NULL || !roami_os_lock_try(&reads->reaping))
		return 0;
	do {
		count = ibv_poll_cq(reads->landings, GATHER, done);
		for (int i = 0; i < count; i++)
			total += landing_end(verbs, &done[i]);
	} while (count == (int)GATHER);
	/* Other threads may sleep until theirs have landed: the next poll tells them. */
	atomic_fetch_add(&reads->landed, total);
	roami_os_unlock(&reads->reaping);
	return total;
}

unsigned verbs_read_landed(struct verbs_state *verbs)
{
	verbs_read_reap(verbs);
	return atomic_load(&verbs->reads.landed) == 0 ? 0
						     : atomic_exchange(&verbs->reads.landed, 0);
}

/* -------------------------------------------------------------------------- opening and closing */

/* Buffers for the messages of puts, and bounce pages, as many as the system allows. */
static bool read_pages(struct verbs_state *verbs)
{
	struct verbs_reads *reads = &verbs->reads;
	unsigned count = VERBS_READS;

	reads->in_bytes = (size_t)verbs->peer_count * VERBS_PUTS * VERBS_PUT_MESSAGE;
	reads->in = verbs_map(reads->in_bytes);
	reads->bounce = verbs_map(VERBS_READS * VERBS_READ_MAX);
	if (reads->in == NULL || reads->bounce == NULL)
		return false;
	reads->in_region = ibv_reg_mr(verbs->domain, reads->in, reads->in_bytes,
				      IBV_ACCESS_LOCAL_WRITE);
	if (reads->in_region == NULL)
		return false;
	for (; count > 0 && reads->region == NULL; count /= 2) {
		reads->region = ibv_reg_mr(verbs->domain, reads->bounce, count * VERBS_READ_MAX,
					   IBV_ACCESS_LOCAL_WRITE);
		if (reads->region != NULL)
			reads->slots = UINT64_MAX >> (64 - count);
	}
	atomic_store(&reads->free, reads->slots);
	return reads->slots != 0;
}

/* Completions at a time, at most: all parts of all puts fail, and all buffers come back. */
static unsigned landings_most(const struct verbs_state *verbs)
{
	return VERBS_READS * (VERBS_PUT_PARTS + 1) + verbs->peer_count * VERBS_PUTS * 2;
}

void verbs_reads_open(struct verbs_state *verbs)
{
	struct verbs_reads *reads = &verbs->reads;
	struct ibv_device_attr attr;
	unsigned answers = ANSWERS;

	/* The second queue pair is connected without the manager, which iWARP needs. */
	if (verbs->params.read == 0 ||
	    verbs->device->device->transport_type == IBV_TRANSPORT_IWARP ||
	    ibv_query_device(verbs->device, &attr) != 0)
		return;
	if (attr.max_qp_rd_atom < (int)answers)
		answers = (unsigned)attr.max_qp_rd_atom;
	if (attr.max_qp_init_rd_atom < (int)answers)
		answers = (unsigned)attr.max_qp_init_rd_atom;
	reads->answers = answers;
	reads->landings =
		answers > 0 ? ibv_create_cq(verbs->device, (int)landings_most(verbs), NULL,
					    verbs->channel, 0)
			    : NULL;
	if (reads->landings == NULL)
		return;
	if (ibv_req_notify_cq(reads->landings, 0) == 0 && read_pages(verbs))
		return;
	ibv_destroy_cq(reads->landings);
	reads->landings = NULL;
}

static uint64_t reads_most(const struct verbs_state *verbs)
{
	uint64_t option = verbs->params.options != NULL ? verbs->params.options[1].number << 20 : 0;
	uint64_t free = roami_os_memory_free(), other = verbs->memory_bytes;
	unsigned local = verbs->params.local > 0 ? verbs->params.local : 1;

	if (option == 0)
		return free != 0 ? free / 2 / local : UINT64_MAX;
	other += verbs->reads.in_bytes;
	other += (uint64_t)__builtin_popcountll(verbs->reads.slots) * VERBS_READ_MAX;
	return option > other ? option - other : 0;
}

/* Despite what it lacks it succeeds: pages then come by message. */
static enum roam_err read_attach(void *state, void *memory, size_t bytes)
{
	struct verbs_state *verbs = state;
	struct verbs_reads *reads = &verbs->reads;
	size_t parts = (bytes + VERBS_PART - 1) / VERBS_PART;

	reads->parts_bytes = parts * sizeof(*reads->parts);
	reads->held_bytes = parts * sizeof(*reads->held) * verbs->params.nodes;
	reads->parts = roami_os_reserve_sparse(reads->parts_bytes);
	reads->held = roami_os_reserve_sparse(reads->held_bytes);
	if (reads->parts == NULL || reads->held == NULL)
		return ROAM_ENOMEM;
	reads->most = reads_most(verbs);
	reads->shared = memory;
	reads->shared_bytes = bytes;
	reads->part_count = (uint32_t)parts;
	return ROAM_OK;
}

void verbs_reads_close(struct verbs_state *verbs)
{
	struct verbs_reads *reads = &verbs->reads;

	verbs_parts_close(reads);
	if (reads->landings != NULL) {
		ibv_ack_cq_events(reads->landings, reads->event_count);
		ibv_destroy_cq(reads->landings);
	}
	if (reads->region != NULL)
		ibv_dereg_mr(reads->region);
	if (reads->in_region != NULL)
		ibv_dereg_mr(reads->in_region);
	if (reads->in != NULL)
		roami_os_unmap(reads->in, reads->in_bytes);
	if (reads->bounce != NULL)
		roami_os_unmap(reads->bounce, VERBS_READS * VERBS_READ_MAX);
}

void verbs_reads_free(struct verbs_reads *reads)
{
	if (reads->parts != NULL)
		roami_os_unmap(reads->parts, reads->parts_bytes);
	if (reads->held != NULL)
		roami_os_unmap(reads->held, reads->held_bytes);
	*reads = (struct verbs_reads){.bounce = NULL};
}

const struct roam_onesided verbs_onesided = {
	.attach = read_attach,
	.get = read_get,
	.reap = verbs_read_reap,
	.put = verbs_put,
	.puts_max = VERBS_PUT_PARTS,
	.put_bytes_max = VERBS_PUT_BYTES,
	.put_message_max = VERBS_PUT_MESSAGE,
	.put_stretch = VERBS_PART,
};
