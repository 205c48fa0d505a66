/*
 * The queue pair for one-sided operations, reads (verbs_read.c) and puts (verbs_put.c), which each
 * two nodes have beside the one for their messages.
 *
 * An operation that fails, because of a key that the card does not know for one, ends the queue
 * pair on both sides, and nothing else: reads that were under way are repeated as messages, by
 * their callers.  The two nodes then join new ones.  Each ends its own, waits until the card uses
 * none of its operations and buffers any more, makes a new one, and tells the peer its number and
 * how many puts have come (VERBS_AGAIN).  Whichever began, each says this once.  From then on
 * nothing that was sent over the peer's old one can change memory here: what the peer's puts lack
 * comes by message, and cannot be overtaken.  Having heard the peer, a node joins the two, says so
 * (VERBS_JOINED), and begins operations when it hears that of the peer.  A node begins this once in
 * JOIN_NS at most, and answers at once.  The connecting thread does it.
 */
#include <stdio.h>

#include "os/os.h"
#include "verbs.h"

#define JOIN_NS   UINT64_C(50000000)
#define NS_PER_MS 1000000u
#define SOON_MS   1

/* What a peer has said by VERBS_JOINED. */
enum { JOINED_NOT, JOINED_READY, JOINED_WITHOUT };

void verbs_remote_make(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct verbs_reads *reads = &verbs->reads;
	struct ibv_qp_init_attr wanted = {
		.send_cq = reads->landings,
		.recv_cq = reads->landings,
		.cap = {.max_send_wr = VERBS_READS + VERBS_PUTS * (VERBS_PUT_PARTS + 1),
			.max_recv_wr = VERBS_PUTS,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};

	if ((verbs->params.read & verbs_bit(peer->number)) != 0 && reads->slots != 0)
		peer->remote = ibv_create_qp(verbs->domain, &wanted);
}

uint32_t verbs_remote_says(const struct verbs_state *verbs, const struct verbs_peer *peer)
{
	return peer->remote == NULL
		       ? 0
		       : peer->remote->qp_num << VERBS_ANSWERS_BITS | verbs->reads.answers;
}

static bool remote_move(const struct verbs_state *verbs, struct verbs_peer *peer,
			enum ibv_qp_state state, uint32_t theirs)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	uint32_t most = theirs & ((1u << VERBS_ANSWERS_BITS) - 1);
	int mask;

	if (rdma_init_qp_attr(peer->id, &attr, &mask) != 0)
		return false;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	attr.dest_qp_num = theirs >> VERBS_ANSWERS_BITS;
	attr.timeout = verbs->timeout;
	attr.retry_cnt = VERBS_RETRIES;
	attr.rnr_retry = VERBS_RETRIES;
	attr.max_dest_rd_atomic = (uint8_t)verbs->reads.answers;
	attr.max_rd_atomic = (uint8_t)(most < verbs->reads.answers ? most : verbs->reads.answers);
	return ibv_modify_qp(peer->remote, &attr, mask) == 0;
}

static void remote_end(struct verbs_peer *peer)
{
	struct ibv_qp *remote;

	roami_os_lock(&peer->held);
	remote = peer->remote;
	peer->remote = NULL;
	roami_os_unlock(&peer->held);
	if (remote != NULL)
		ibv_destroy_qp(remote);
}

/* Gives the card buffers for the peer's puts. */
static bool remote_receive(struct verbs_state *verbs, struct verbs_peer *peer)
{
	bool good;

	roami_os_lock(&peer->held);
	peer->put_posted = atomic_load(&peer->put_come);
	atomic_store(&peer->put_flushed, 0);
	good = verbs_put_receive(verbs, peer);
	roami_os_unlock(&peer->held);
	return good;
}

void verbs_remote_join(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t theirs)
{
	if (peer->remote != NULL &&
	    !(theirs != 0 && remote_move(verbs, peer, IBV_QPS_INIT, theirs) &&
	      remote_receive(verbs, peer) && remote_move(verbs, peer, IBV_QPS_RTR, theirs) &&
	      remote_move(verbs, peer, IBV_QPS_RTS, theirs)))
		remote_end(peer);
}

/* ---------------------------------------------------------------------------------------- again */

/* The connecting thread is to look at the peer. */
static void remote_look(struct verbs_state *verbs, const struct verbs_peer *peer)
{
	atomic_fetch_or(&verbs->reads.broken, verbs_bit(peer->number));
	verbs_keys_wake(verbs);
}

void verbs_remote_broken(struct verbs_state *verbs, struct verbs_peer *peer,
			 enum ibv_wc_status status)
{
	if (atomic_exchange(&peer->unready, 1 + (uint32_t)status) != 0)
		return;
	/* A card that flushes follows the peer's, whose node says why. */
	if (status != IBV_WC_WR_FLUSH_ERR && atomic_exchange(&peer->complained, 1) == 0) {
		atomic_store(&peer->why, (uint32_t)status);
		atomic_store(&verbs->reads.failed, peer->number + 1);
		verbs_due(verbs, 0);
	}
	remote_look(verbs, peer);
}

bool verbs_remote_told(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t what,
		       const struct verbs_key *key)
{
	uint32_t ready = 0, how = key->key != 0 ? JOINED_READY : JOINED_WITHOUT;

	if (what == VERBS_JOINED && atomic_exchange(&peer->joined, how) != JOINED_NOT)
		return false;
	if (what == VERBS_AGAIN) {
		if (atomic_load(&peer->join_theirs) != 0)
			return false;
		atomic_store(&peer->join_stored, key->address);
		atomic_store(&peer->join_theirs, (uint64_t)key->key + 1);
		atomic_compare_exchange_strong(&peer->unready, &ready, 1 + IBV_WC_WR_FLUSH_ERR);
	}
	remote_look(verbs, peer);
	return true;
}

void verbs_remote_complain(struct verbs_state *verbs)
{
	uint32_t failed = atomic_exchange(&verbs->reads.failed, 0);
	char line[160];

	if (failed == 0 || verbs->params.notice == NULL)
		return;
	snprintf(line, sizeof(line),
		 "verbs: the card could not reach memory of node %u: %s; messages replace this",
		 failed - 1,
		 ibv_wc_status_str((enum ibv_wc_status)atomic_load(&verbs->peers[failed - 1].why)));
	verbs->params.notice(verbs->params.now_arg, line);
}

/* Whether the card may still use what belongs to operations with the peer. */
static bool remote_busy(const struct verbs_state *verbs, struct verbs_peer *peer)
{
	const struct verbs_reads *reads = &verbs->reads;
	uint64_t used = reads->slots & ~atomic_load(&reads->free), posted;

	roami_os_lock(&peer->held); /* whoever posts one from now on sees that it must not */
	posted = peer->put_posted;
	roami_os_unlock(&peer->held);
	if (peer->remote != NULL &&
	    atomic_load(&peer->put_come) + atomic_load(&peer->put_flushed) != posted)
		return true;
	for (; used != 0; used &= used - 1) {
		const struct verbs_read *read = &reads->under_way[__builtin_ctzll(used)];

		if (verbs_read_peer(atomic_load(&read->of)) == peer->number &&
		    (atomic_load(&read->done) != NULL || atomic_load(&read->over) == 0))
			return true;
	}
	return false;
}

/* Ends the old queue pair, and makes a new one; false: the card is not done with the old one. */
static bool join_make(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (peer->remote != NULL)
		ibv_modify_qp(peer->remote, &attr, IBV_QP_STATE);
	verbs_read_reap(verbs);
	if (remote_busy(verbs, peer))
		return false;
	remote_end(peer);
	roami_os_lock(&peer->held);
	verbs_remote_make(verbs, peer);
	roami_os_unlock(&peer->held);
	return true;
}

static bool join_say(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct verbs_key key = {.address = atomic_load(&peer->put_come) +
					   atomic_load(&peer->put_resent),
				.key = verbs_remote_says(verbs, peer)};

	return verbs_key_say(verbs, peer, VERBS_AGAIN, &key);
}

/* Whether the two nodes are joined again; false: by messages alone, for good. */
static void join_done(struct verbs_state *verbs, struct verbs_peer *peer)
{
	uint32_t joined = atomic_exchange(&peer->joined, JOINED_NOT);
	bool usable = peer->remote != NULL && joined == JOINED_READY;

	peer->join = VERBS_JOIN_NOT;
	atomic_fetch_and(&verbs->reads.broken, ~verbs_bit(peer->number));
	if (!usable) {
		remote_end(peer);
		return;
	}
	atomic_store(&peer->unready, 0);
	/* The peer may be a step ahead, and have begun anew. */
	if (atomic_load(&peer->join_theirs) != 0) {
		atomic_store(&peer->unready, 1 + IBV_WC_WR_FLUSH_ERR);
		remote_look(verbs, peer);
	}
}

static bool join_say_joined(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct verbs_key key = {.key = verbs_remote_says(verbs, peer)};

	return verbs_key_say(verbs, peer, VERBS_JOINED, &key);
}

/* The next steps, as far as they go; returns when to go on, in ms; -1: when it is woken. */
static int join_steps(struct verbs_state *verbs, struct verbs_peer *peer)
{
	uint64_t now = verbs_now(verbs), theirs;

	switch ((enum verbs_join)peer->join) {
	case VERBS_JOIN_NOT:
		if (now < peer->join_ns && atomic_load(&peer->join_theirs) == 0)
			return (int)((peer->join_ns - now) / NS_PER_MS) + 1;
		if (!join_make(verbs, peer))
			return SOON_MS;
		peer->join = VERBS_JOIN_MADE; /* fall through */
	case VERBS_JOIN_MADE:
		if (!join_say(verbs, peer))
			return SOON_MS;
		peer->join_ns = now + JOIN_NS;
		peer->join = VERBS_JOIN_SAID; /* fall through */
	case VERBS_JOIN_SAID:
		theirs = atomic_load(&peer->join_theirs);
		if (theirs == 0)
			return -1;
		if (!verbs_put_again(verbs, peer, atomic_load(&peer->join_stored)))
			return SOON_MS;
		verbs_remote_join(verbs, peer, (uint32_t)(theirs - 1));
		atomic_store(&peer->join_theirs, 0);
		peer->join = VERBS_JOIN_JOINED; /* fall through */
	case VERBS_JOIN_JOINED:
		if (!join_say_joined(verbs, peer))
			return SOON_MS;
		peer->join = VERBS_JOIN_AWAITS; /* fall through */
	case VERBS_JOIN_AWAITS:
		if (atomic_load(&peer->joined) != JOINED_NOT)
			join_done(verbs, peer);
	}
	return -1;
}

int verbs_remote_serve(struct verbs_state *verbs)
{
	int next = -1;

	for (uint64_t left = atomic_load(&verbs->reads.broken); left != 0; left &= left - 1) {
		struct verbs_peer *peer = &verbs->peers[__builtin_ctzll(left)];
		uint32_t at = atomic_load(&peer->at);
		int wait = SOON_MS;

		if (at == VERBS_GONE || at == VERBS_BROKEN)
			atomic_fetch_and(&verbs->reads.broken, ~verbs_bit(peer->number));
		else if (at == VERBS_READY)
			wait = join_steps(verbs, peer);
		if (wait >= 0 && (next < 0 || wait < next))
			next = wait;
	}
	return next;
}
