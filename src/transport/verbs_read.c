/*
 * Reads of peers' memory, past their processors, by keys (verbs_key.c).  Without a key a read does
 * not begin: its caller sends a message instead.
 *
 * A read lands in a bounce page, which is registered, and is copied from there by the thread that
 * finds it done.
 *
 * Each pair of nodes has a second queue pair for its reads, both ways.  A read that fails breaks
 * it, but not the connection: from then on these two nodes send messages only.
 */
#include <stdio.h>
#include <string.h>

#include "os/os.h"
#include "verbs.h"

#define GATHER  16u
#define ANSWERS 16u /* reads of one peer that the card answers at a time, if it can */

/* ---------------------------------------------------------------------------------------- reads */

static uint8_t *read_bounce(const struct verbs_reads *reads, unsigned slot)
{
	return reads->bounce + (size_t)slot * VERBS_READ_MAX;
}

/* A bounce page, for a read of this part; false: all are in use. */
static bool slot_take(struct verbs_reads *reads, unsigned peer, uint64_t part, unsigned *slot_p)
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

static void slot_give(struct verbs_reads *reads, unsigned slot)
{
	atomic_fetch_or(&reads->free, (uint64_t)1 << slot);
}

/* Notes that a peer's memory can no longer be read. */
static void read_broken(struct verbs_state *verbs, struct verbs_peer *peer,
			enum ibv_wc_status status)
{
	if (atomic_exchange(&peer->unreadable, 1 + (uint32_t)status) != 0)
		return;
	atomic_store(&verbs->reads.failed, peer->number + 1);
	verbs_due(verbs, 0);
}

static bool read_post(struct verbs_state *verbs, struct verbs_peer *peer, unsigned slot,
		      const struct verbs_held *held, uint64_t offset)
{
	struct verbs_reads *reads = &verbs->reads;
	struct ibv_sge part = {(uintptr_t)read_bounce(reads, slot), reads->under_way[slot].bytes,
			       reads->region->lkey};
	struct ibv_send_wr wanted = {.wr_id = slot,
				     .sg_list = &part,
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_READ,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma = {held->address + offset, held->key}},
			   *bad;
	bool posted;

	roami_os_lock(&peer->held);
	posted = atomic_load(&peer->at) == VERBS_READY && peer->reader != NULL &&
		 atomic_load(&peer->unreadable) == 0;
	if (posted && ibv_post_send(peer->reader, &wanted, &bad) != 0) {
		read_broken(verbs, peer, IBV_WC_FATAL_ERR);
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
	if (held == NULL || atomic_load(&peer->unreadable) != 0 ||
	    !slot_take(reads, to, from / VERBS_PART, &slot))
		return ROAM_EAGAIN;
	/* A key is given back when no slot names its part (verbs_key.c): hence once more. */
	if (atomic_load(&held->at) != VERBS_KEY_HELD) {
		slot_give(reads, slot);
		return ROAM_EAGAIN;
	}
	*done = 0;
	reads->under_way[slot].to = parts->iov_base;
	reads->under_way[slot].bytes = (uint32_t)bytes;
	atomic_store(&reads->under_way[slot].done, done);
	if (read_post(verbs, peer, slot, held, from % VERBS_PART))
		return ROAM_OK;
	slot_give(reads, slot);
	return ROAM_EAGAIN;
}

static void read_end(struct verbs_state *verbs, unsigned slot, enum ibv_wc_status status)
{
	struct verbs_reads *reads = &verbs->reads;
	const struct verbs_read *read = &reads->under_way[slot];
	uint32_t *done = atomic_load(&read->done);

	if (status == IBV_WC_SUCCESS)
		memcpy(read->to, read_bounce(reads, slot), read->bytes);
	else
		read_broken(verbs, &verbs->peers[verbs_read_peer(atomic_load(&read->of))], status);
	slot_give(reads, slot);
	__atomic_store_n(done, status == IBV_WC_SUCCESS ? 1 : 2 + ROAM_ESYSTEM, __ATOMIC_RELEASE);
}

unsigned verbs_read_reap(void *state)
{
	struct verbs_state *verbs = state;
	struct verbs_reads *reads = &verbs->reads;
	struct ibv_wc done[GATHER];
	unsigned total = 0;
	int count;

	if (atomic_load(&reads->free) == reads->slots || !roami_os_lock_try(&reads->reaping))
		return 0;
	do {
		count = ibv_poll_cq(reads->landings, GATHER, done);
		for (int i = 0; i < count; i++)
			read_end(verbs, (unsigned)done[i].wr_id, done[i].status);
		total += count > 0 ? (unsigned)count : 0;
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

void verbs_read_complain(struct verbs_state *verbs)
{
	uint32_t failed = atomic_exchange(&verbs->reads.failed, 0), status;
	char line[160];

	if (failed == 0 || verbs->params.notice == NULL)
		return;
	status = atomic_load(&verbs->peers[failed - 1].unreadable) - 1;
	snprintf(line, sizeof(line), "verbs: the card no longer reads pages of node %u: %s",
		 failed - 1, ibv_wc_status_str((enum ibv_wc_status)status));
	verbs->params.notice(verbs->params.now_arg, line);
}

/* ------------------------------------------------------------------------------- the queue pair */

void verbs_reader_make(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct verbs_reads *reads = &verbs->reads;
	struct ibv_qp_init_attr wanted = {.send_cq = reads->landings,
					  .recv_cq = reads->landings,
					  .cap = {.max_send_wr = VERBS_READS,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1},
					  .qp_type = IBV_QPT_RC};

	if ((verbs->params.read & verbs_bit(peer->number)) != 0 && reads->slots != 0)
		peer->reader = ibv_create_qp(verbs->domain, &wanted);
}

uint32_t verbs_reader_says(const struct verbs_state *verbs, const struct verbs_peer *peer)
{
	return peer->reader == NULL
		       ? 0
		       : peer->reader->qp_num << VERBS_ANSWERS_BITS | verbs->reads.answers;
}

static bool reader_move(const struct verbs_state *verbs, struct verbs_peer *peer,
			enum ibv_qp_state state, uint32_t theirs)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	uint32_t most = theirs & ((1u << VERBS_ANSWERS_BITS) - 1);
	int mask;

	if (rdma_init_qp_attr(peer->id, &attr, &mask) != 0)
		return false;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	attr.dest_qp_num = theirs >> VERBS_ANSWERS_BITS;
	attr.timeout = verbs->timeout;
	attr.retry_cnt = VERBS_RETRIES;
	attr.rnr_retry = VERBS_RETRIES;
	attr.max_dest_rd_atomic = (uint8_t)verbs->reads.answers;
	attr.max_rd_atomic = (uint8_t)(most < verbs->reads.answers ? most : verbs->reads.answers);
	return ibv_modify_qp(peer->reader, &attr, mask) == 0;
}

void verbs_reader_join(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t theirs)
{
	struct ibv_qp *reader = peer->reader;

	if (reader == NULL)
		return;
	if (theirs != 0 && reader_move(verbs, peer, IBV_QPS_INIT, theirs) &&
	    reader_move(verbs, peer, IBV_QPS_RTR, theirs) &&
	    reader_move(verbs, peer, IBV_QPS_RTS, theirs))
		return;
	peer->reader = NULL;
	ibv_destroy_qp(reader);
}

/* -------------------------------------------------------------------------- opening and closing */

/* Bounce pages, as many as the system allows. */
static bool read_pages(struct verbs_state *verbs)
{
	struct verbs_reads *reads = &verbs->reads;
	unsigned count = VERBS_READS;

	reads->bounce = verbs_map(VERBS_READS * VERBS_READ_MAX);
	if (reads->bounce == NULL)
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
	reads->landings = answers > 0 ? ibv_create_cq(verbs->device, (int)VERBS_READS * 2, NULL,
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
};
