/*
 * Puts: bytes that a card writes into a peer's memory, past its processor, by keys (verbs_key.c),
 * and a message behind them on the same queue pair (verbs_remote.c), in whose order a card keeps
 * them: who gets the message finds the bytes.
 *
 * A put is kept in a bounce page until the card has brought it.  Its message needs a buffer there:
 * each node has VERBS_PUTS for each peer, and says in the heads of its messages how many puts it
 * has taken, so that none comes without a buffer.  Without a buffer, a bounce page or a key a put
 * does not begin.  What a queue pair that breaks has not brought comes by message, where the peer's
 * node stores the bytes.
 */
#include <string.h>

#include "os/gather.h"
#include "os/os.h"
#include "verbs.h"

static uint8_t *put_in(const struct verbs_reads *reads, const struct verbs_peer *peer,
		       uint64_t number)
{
	return reads->in + (peer->index * VERBS_PUTS + number % VERBS_PUTS) * VERBS_PUT_MESSAGE;
}

/* Bytes of a whole put; 0: it is none. */
static size_t store_bytes(const struct verbs_store *store)
{
	size_t bytes = 0;

	if (store->count == 0 || store->count > VERBS_PUT_PARTS || store->message == 0 ||
	    store->message > VERBS_PUT_MESSAGE)
		return 0;
	for (unsigned i = 0; i < store->count; i++) {
		if (store->parts[i].bytes == 0 || store->parts[i].bytes > VERBS_PUT_BYTES)
			return 0;
		bytes += store->parts[i].bytes;
	}
	return bytes <= VERBS_PUT_BYTES ? verbs_store_bytes_at(store) + bytes : 0;
}

/* -------------------------------------------------------------------------------------- leaving */

/* Notes what a put is; false: it is none, or does not lie in one part of the peer's memory. */
static bool put_notes(const struct verbs_reads *reads, struct verbs_store *store,
		      const struct roam_put *puts, unsigned count, size_t message)
{
	if (count == 0 || count > VERBS_PUT_PARTS || message > VERBS_PUT_MESSAGE)
		return false;
	store->count = count;
	store->message = (uint32_t)message;
	for (unsigned i = 0; i < count; i++) {
		if (puts[i].to >= reads->shared_bytes || puts[i].bytes > VERBS_PUT_BYTES ||
		    puts[i].to / VERBS_PART != puts[0].to / VERBS_PART ||
		    puts[i].to % VERBS_PART + puts[i].bytes >
			    verbs_part_bytes(reads, puts[i].to / VERBS_PART))
			return false;
		store->parts[i] = (struct verbs_store_part){puts[i].to, (uint32_t)puts[i].bytes, 0};
	}
	return store_bytes(store) != 0;
}

/* Gives a put to the card; the lock is held. */
static void put_post(struct verbs_state *verbs, struct verbs_peer *peer, unsigned slot,
		     const struct verbs_held *held)
{
	struct verbs_reads *reads = &verbs->reads;
	const struct verbs_store *store = (const void *)verbs_slot_bytes(reads, slot);
	uintptr_t at = (uintptr_t)store + verbs_store_bytes_at(store);
	struct ibv_send_wr wanted[VERBS_PUT_PARTS + 1], *bad;
	struct ibv_sge from[VERBS_PUT_PARTS + 1];
	unsigned count = store->count;

	for (unsigned i = 0; i < count; i++) {
		from[i] = (struct ibv_sge){at, store->parts[i].bytes, reads->region->lkey};
		wanted[i] = (struct ibv_send_wr){
			.wr_id = VERBS_ID_PART + slot,
			.next = &wanted[i + 1],
			.sg_list = &from[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = {held->address + store->parts[i].at % VERBS_PART, held->key}};
		at += store->parts[i].bytes;
	}
	from[count] = (struct ibv_sge){(uintptr_t)(store + 1), store->message, reads->region->lkey};
	wanted[count] = (struct ibv_send_wr){.wr_id = slot,
					     .sg_list = &from[count],
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = IBV_SEND_SIGNALED};
	peer->put_slots[atomic_load(&peer->put_sent) % VERBS_PUTS] = (uint8_t)slot;
	atomic_fetch_add(&peer->put_sent, 1); /* before the peer can say that it has taken it */
	if (ibv_post_send(peer->remote, wanted, &bad) == 0)
		return;
	/* The message, which is the last, was not posted. */
	atomic_store(&reads->under_way[slot].over, 1);
	verbs_remote_broken(verbs, peer, IBV_WC_FATAL_ERR);
}

/* Whether the peer has a buffer for one more put, and this node has noted the end of old ones. */
static bool put_may(const struct verbs_peer *peer)
{
	uint64_t sent = atomic_load(&peer->put_sent);

	return sent - atomic_load(&peer->put_credit) < VERBS_PUTS &&
	       sent - atomic_load(&peer->put_left) < VERBS_PUTS;
}

static bool put_begin(struct verbs_state *verbs, struct verbs_peer *peer, unsigned slot,
		      const struct verbs_held *held)
{
	bool may;

	roami_os_lock(&peer->held);
	may = atomic_load(&peer->at) == VERBS_READY && peer->remote != NULL &&
	      atomic_load(&peer->unready) == 0 && put_may(peer);
	if (may)
		put_post(verbs, peer, slot, held);
	roami_os_unlock(&peer->held);
	return may;
}

enum roam_err verbs_put(void *state, unsigned to, const struct roam_put *puts, unsigned count,
			const struct iovec *message, unsigned parts)
{
	struct verbs_state *verbs = state;
	struct verbs_reads *reads = &verbs->reads;
	struct verbs_peer *peer = &verbs->peers[to];
	struct roami_gather gather = {message, 0};
	const struct verbs_held *held;
	struct verbs_store store;
	uint8_t *bytes;
	unsigned slot;

	if (!put_notes(reads, &store, puts, count, roami_gather_bytes(message, parts)))
		return ROAM_EINVAL;
	held = verbs_key_held(verbs, peer, puts->to / VERBS_PART);
	if (held == NULL || atomic_load(&peer->unready) != 0 ||
	    !verbs_slot_take(reads, to, puts->to / VERBS_PART, &slot))
		return ROAM_EAGAIN;
	atomic_store(&reads->under_way[slot].over, 0);
	atomic_store(&reads->under_way[slot].done, NULL);
	bytes = verbs_slot_bytes(reads, slot);
	memcpy(bytes, &store, sizeof(store));
	roami_gather_copy(&gather, bytes + sizeof(store), store.message);
	bytes += verbs_store_bytes_at(&store);
	for (unsigned i = 0; i < count; bytes += puts[i++].bytes)
		memcpy(bytes, puts[i].from, puts[i].bytes);
	/* A key is given back when no slot names its part (verbs_key.c): hence once more. */
	if (atomic_load(&held->at) == VERBS_KEY_HELD && put_begin(verbs, peer, slot, held))
		return ROAM_OK;
	verbs_slot_give(reads, slot);
	return ROAM_EAGAIN;
}

void verbs_put_ended(struct verbs_state *verbs, unsigned slot, enum ibv_wc_status status)
{
	struct verbs_read *put = &verbs->reads.under_way[slot];
	struct verbs_peer *peer = &verbs->peers[verbs_read_peer(atomic_load(&put->of))];

	if (status == IBV_WC_SUCCESS) {
		atomic_fetch_add(&peer->put_left, 1); /* they end in their order */
		verbs_slot_give(&verbs->reads, slot);
		return;
	}
	verbs_remote_broken(verbs, peer, status);
	atomic_store(&put->over, 1);
}

bool verbs_put_credited(struct verbs_peer *peer, uint16_t stored)
{
	uint64_t credit = atomic_load(&peer->put_credit);
	uint16_t more = (uint16_t)(stored - (uint16_t)credit);

	if (more > atomic_load(&peer->put_sent) - credit)
		return false;
	if (more != 0)
		atomic_store(&peer->put_credit, credit + more);
	return true;
}

/* Sends a put by message; false: later. */
static bool again_send(struct verbs_state *verbs, struct verbs_peer *peer, unsigned slot)
{
	const uint8_t *bytes = verbs_slot_bytes(&verbs->reads, slot);
	bool sent = true;

	roami_os_lock(&peer->held);
	if (atomic_load(&peer->at) == VERBS_READY) {
		sent = verbs_may(verbs, peer, false);
		if (sent)
			verbs_post_what(verbs, peer, VERBS_STORE, bytes,
					(uint32_t)store_bytes((const void *)bytes));
	}
	roami_os_unlock(&peer->held);
	return sent;
}

bool verbs_put_again(struct verbs_state *verbs, struct verbs_peer *peer, uint64_t stored)
{
	uint64_t left = atomic_load(&peer->put_left);

	if (stored > atomic_load(&peer->put_sent))
		verbs_end(verbs, peer, VERBS_BROKEN, IBV_WC_GENERAL_ERR);
	for (; left != atomic_load(&peer->put_sent); left++) {
		unsigned slot = peer->put_slots[left % VERBS_PUTS];

		if (left >= stored && !again_send(verbs, peer, slot))
			return false;
		atomic_store(&peer->put_left, left + 1);
		verbs_slot_give(&verbs->reads, slot);
	}
	return true;
}

/* ------------------------------------------------------------------------------------- arriving */

bool verbs_put_receive(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct verbs_reads *reads = &verbs->reads;

	while (peer->put_posted - atomic_load(&peer->put_taken) < VERBS_PUTS) {
		struct ibv_sge part = {(uintptr_t)put_in(reads, peer, peer->put_posted),
				       VERBS_PUT_MESSAGE, reads->in_region->lkey};
		struct ibv_recv_wr wanted = {
			.wr_id = atomic_load(&peer->epoch) * (uint64_t)VERBS_ID_EPOCH +
				 VERBS_ID_BUFFER + peer->number,
			.sg_list = &part,
			.num_sge = 1},
			*bad;

		if (ibv_post_recv(peer->remote, &wanted, &bad) != 0)
			return false;
		peer->put_posted++;
	}
	return true;
}

void verbs_put_came(struct verbs_state *verbs, struct verbs_peer *peer, const struct ibv_wc *done)
{
	uint64_t come = atomic_load(&peer->put_come);

	if (done->wr_id / VERBS_ID_EPOCH != atomic_load(&peer->epoch))
		return; /* of an abandoned attempt to connect */
	if (done->status != IBV_WC_SUCCESS) {
		verbs_remote_broken(verbs, peer, done->status);
		atomic_fetch_add(&peer->put_flushed, 1);
		return;
	}
	peer->put_bytes[come % VERBS_PUTS] = done->byte_len;
	atomic_store(&peer->put_come, come + 1);
	atomic_fetch_or(&verbs->reads.come, verbs_bit(peer->number));
}

/* The buffer of a put is free again. */
static void put_taken(struct verbs_state *verbs, struct verbs_peer *peer)
{
	roami_os_lock(&peer->held);
	atomic_fetch_add(&peer->put_taken, 1);
	if (atomic_load(&peer->at) == VERBS_READY && peer->remote != NULL &&
	    atomic_load(&peer->unready) == 0 && !verbs_put_receive(verbs, peer))
		verbs_remote_broken(verbs, peer, IBV_WC_FATAL_ERR);
	if (atomic_load(&peer->at) == VERBS_READY)
		verbs_tell(verbs, peer);
	roami_os_unlock(&peer->held);
}

bool verbs_put_take(struct verbs_state *verbs, struct verbs_peer *peer, unsigned *taken)
{
	uint64_t number = atomic_load(&peer->put_taken);

	atomic_fetch_and(&verbs->reads.come, ~verbs_bit(peer->number));
	for (; number != atomic_load(&peer->put_come); number++) {
		uint32_t bytes = peer->put_bytes[number % VERBS_PUTS];

		if (bytes == 0 || bytes > VERBS_PUT_MESSAGE)
			return false;
		if (!verbs->deliver(verbs->deliver_arg, peer->number,
				    put_in(&verbs->reads, peer, number), bytes)) {
			atomic_fetch_or(&verbs->reads.come, verbs_bit(peer->number));
			return true;
		}
		(*taken)++;
		put_taken(verbs, peer);
	}
	return true;
}

bool verbs_put_store(struct verbs_state *verbs, const struct verbs_store *store, size_t bytes,
		     struct iovec *message_p)
{
	const struct verbs_reads *reads = &verbs->reads;
	const uint8_t *from;

	if (bytes < sizeof(*store) || store_bytes(store) != bytes)
		return false;
	for (unsigned i = 0; i < store->count; i++)
		if (store->parts[i].at >= reads->shared_bytes ||
		    store->parts[i].bytes > reads->shared_bytes - store->parts[i].at)
			return false;
	from = (const uint8_t *)store + verbs_store_bytes_at(store);
	for (unsigned i = 0; i < store->count; from += store->parts[i++].bytes)
		memcpy(reads->shared + store->parts[i].at, from, store->parts[i].bytes);
	*message_p = (struct iovec){(void *)(uintptr_t)(store + 1), store->message};
	return true;
}
