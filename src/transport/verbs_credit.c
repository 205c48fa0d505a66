/* What may be sent to a peer, and what the peer is told of the buffers that are free here. */
#include <stdio.h>
#include <string.h>

#include "os/os.h"
#include "verbs.h"

#define BEAT_NS  1000000000u
#define BEATS    4u           /* signs of life within a deadline, if the deadline is short */
#define BEGIN_NS 30000000000u /* how long a peer may take to begin, if the deadline is not longer */
#define BREAK_NS 5000000000u  /* how long a broken connection may last without a deadline */
#define STALL_NS 50000u       /* pause if the card has no room */
#define REAP     16u

uint8_t *verbs_in(const struct verbs_state *verbs, const struct verbs_peer *peer, uint64_t number)
{
	return verbs->memory +
	       ((size_t)peer->index * 2 * verbs->buffers + number % verbs->buffers) * VERBS_BUFFER;
}

uint8_t *verbs_out(const struct verbs_state *verbs, const struct verbs_peer *peer, uint64_t number)
{
	return verbs_in(verbs, peer, number) + (size_t)verbs->buffers * VERBS_BUFFER;
}

/* The number of a completion: its peer, and its attempt to connect. */
static uint64_t verbs_id(const struct verbs_peer *peer)
{
	return atomic_load(&peer->epoch) * (uint64_t)VERBS_NODES_MAX + peer->number;
}

void verbs_end(struct verbs_state *verbs, struct verbs_peer *peer, enum verbs_at how,
	       enum ibv_wc_status status)
{
	uint32_t at = atomic_load(&peer->at);

	/* A peer that has left explains a failure that was seen before. */
	while (at != VERBS_GONE && at != (uint32_t)how) {
		if (!atomic_compare_exchange_weak(&peer->at, &at, (uint32_t)how))
			continue;
		if (how == VERBS_BROKEN) {
			if (verbs->beat_ns == 0)
				atomic_store(&peer->heard_ns, verbs_now(verbs));
			atomic_store(&peer->status, (uint32_t)status);
			atomic_store(&verbs->failed, peer->number + 1);
		}
		verbs_due(verbs, verbs_now(verbs) + STALL_NS);
		break;
	}
}

/* -------------------------------------------------------------------------------------- buffers */

bool verbs_receive(struct verbs_state *verbs, struct verbs_peer *peer, uint64_t number)
{
	struct ibv_sge part = {(uintptr_t)verbs_in(verbs, peer, number), VERBS_BUFFER,
			       verbs->region->lkey};
	struct ibv_recv_wr wanted = {.wr_id = verbs_id(peer), .sg_list = &part, .num_sge = 1}, *bad;

	return ibv_post_recv(peer->qp, &wanted, &bad) == 0;
}

void verbs_reap(struct verbs_state *verbs)
{
	struct ibv_wc done[REAP];
	int count;

	if (!roami_os_lock_try(&verbs->reaping))
		return;
	do {
		count = ibv_poll_cq(verbs->out, REAP, done);
		for (int i = 0; i < count; i++) {
			struct verbs_peer *peer = &verbs->peers[done[i].wr_id % VERBS_NODES_MAX];

			if (done[i].status == IBV_WC_SUCCESS)
				atomic_fetch_add(&peer->left, 1);
			else if (atomic_load(&peer->at) == VERBS_READY)
				verbs_end(verbs, peer, VERBS_BROKEN, done[i].status);
		}
	} while (count == (int)REAP);
	roami_os_unlock(&verbs->reaping);
}

bool verbs_may(struct verbs_state *verbs, struct verbs_peer *peer, bool spare)
{
	if (peer->sent - peer->credit >= peer->theirs - (spare ? 0 : VERBS_SPARE))
		return false;
	if (peer->sent - atomic_load(&peer->left) >= verbs->buffers)
		verbs_reap(verbs);
	if (peer->sent - atomic_load(&peer->left) < verbs->buffers)
		return true;
	verbs_due(verbs, verbs_now(verbs) + STALL_NS);
	return false;
}

/* Sends a head, which still lacks `taken`, and the bytes behind it. */
static bool post_part(struct verbs_state *verbs, struct verbs_peer *peer, struct verbs_head wanting,
		      uint32_t bytes)
{
	struct verbs_head *head = (void *)verbs_out(verbs, peer, peer->sent);
	struct ibv_sge part = {(uintptr_t)head, (uint32_t)sizeof(*head) + bytes,
			       verbs->region->lkey};
	struct ibv_send_wr wanted = {.wr_id = verbs_id(peer),
				     .sg_list = &part,
				     .num_sge = 1,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	peer->reported = atomic_load(&peer->taken);
	wanting.taken = (uint32_t)peer->reported;
	peer->put_reported = atomic_load(&peer->put_taken) + atomic_load(&peer->put_resent);
	wanting.stored = (uint16_t)peer->put_reported;
	*head = wanting;
	atomic_fetch_add(&peer->sent, 1); /* before the peer can say that it has taken the part */
	if (ibv_post_send(peer->qp, &wanted, &bad) != 0) {
		verbs_end(verbs, peer, VERBS_BROKEN, IBV_WC_FATAL_ERR);
		return false;
	}
	if (verbs->beat_ns != 0)
		peer->spoke_ns = verbs_now(verbs);
	return true;
}

bool verbs_post(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t length,
		uint32_t offset, uint32_t bytes)
{
	return post_part(verbs, peer, (struct verbs_head){.length = length, .offset = offset},
			 bytes);
}

void verbs_post_what(struct verbs_state *verbs, struct verbs_peer *peer, uint16_t what,
		     const void *data, uint32_t bytes)
{
	memcpy(verbs_out(verbs, peer, peer->sent) + sizeof(struct verbs_head), data, bytes);
	post_part(verbs, peer, (struct verbs_head){.what = what}, bytes);
}

void verbs_push(struct verbs_state *verbs, struct verbs_peer *peer)
{
	while (peer->rest_at < peer->rest_bytes && verbs_may(verbs, peer, false)) {
		uint32_t some = peer->rest_bytes - peer->rest_at;

		if (some > VERBS_PAYLOAD)
			some = VERBS_PAYLOAD;
		memcpy(verbs_out(verbs, peer, peer->sent) + sizeof(struct verbs_head),
		       peer->rest + peer->rest_at, some);
		if (!verbs_post(verbs, peer, peer->rest_bytes, peer->rest_at, some))
			return;
		peer->rest_at += some;
	}
	if (peer->rest_at == peer->rest_bytes) {
		peer->rest_at = peer->rest_bytes = 0;
		atomic_fetch_and(&verbs->resting, ~verbs_bit(peer->number));
	}
}

/* --------------------------------------------------------------------------------------- credit */

void verbs_tell(struct verbs_state *verbs, struct verbs_peer *peer)
{
	uint64_t bit = verbs_bit(peer->number);
	uint64_t puts = atomic_load(&peer->put_taken) + atomic_load(&peer->put_resent);

	if (atomic_load(&peer->taken) - peer->reported < verbs->buffers / 2 &&
	    puts - peer->put_reported < VERBS_PUTS / 2) {
		atomic_fetch_and(&verbs->owing, ~bit);
	} else if (verbs_may(verbs, peer, true)) {
		verbs_post(verbs, peer, 0, 0, 0);
		atomic_fetch_and(&verbs->owing, ~bit);
	} else {
		atomic_fetch_or(&verbs->owing, bit);
	}
}

void verbs_take(struct verbs_state *verbs, struct verbs_peer *peer)
{
	uint32_t at;

	roami_os_lock(&peer->held);
	at = atomic_load(&peer->at);
	/* One that begins to join anew has no queue pair yet. */
	if (peer->qp != NULL && (at == VERBS_READY || at == VERBS_JOINING) &&
	    !verbs_receive(verbs, peer, atomic_load(&peer->taken)))
		verbs_end(verbs, peer, VERBS_BROKEN, IBV_WC_FATAL_ERR);
	atomic_fetch_add(&peer->taken, 1);
	if (atomic_load(&peer->at) == VERBS_READY)
		verbs_tell(verbs, peer);
	else if (at == VERBS_JOINING)
		atomic_fetch_or(&verbs->owing, verbs_bit(peer->number));
	roami_os_unlock(&peer->held);
}

bool verbs_credited(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t taken)
{
	uint64_t credit = atomic_load(&peer->credit);
	uint32_t more = taken - (uint32_t)credit;

	if (more > atomic_load(&peer->sent) - credit)
		return false;
	if (more == 0)
		return true;
	atomic_store(&peer->credit, credit + more);
	if ((atomic_load(&verbs->resting) & verbs_bit(peer->number)) == 0)
		return true;
	roami_os_lock(&peer->held);
	if (atomic_load(&peer->at) == VERBS_READY)
		verbs_push(verbs, peer);
	roami_os_unlock(&peer->held);
	return true;
}

/* --------------------------------------------------------------------------------------- timers */

void verbs_begin_beat(struct verbs_state *verbs)
{
	uint64_t deadline = verbs->params.deadline_ns;

	verbs->beat_due = UINT64_MAX;
	if (deadline == 0)
		return;
	verbs->beat_ns = deadline / BEATS < BEAT_NS ? deadline / BEATS : BEAT_NS;
	verbs->beat_due = verbs_now(verbs) + verbs->beat_ns;
	for (unsigned i = 0; i < verbs->params.nodes; i++)
		atomic_store(&verbs->peers[i].heard_ns, verbs_now(verbs));
	verbs_due(verbs, verbs->beat_due);
}

/* Says why a connection failed; the peer is lost only if it then stays silent. */
static void verbs_complain(struct verbs_state *verbs, const struct verbs_peer *peer)
{
	char line[160];

	if (atomic_load(&peer->at) != VERBS_BROKEN || verbs->params.notice == NULL)
		return;
	snprintf(line, sizeof(line), "verbs: the connection to node %u failed: %s", peer->number,
		 ibv_wc_status_str((enum ibv_wc_status)atomic_load(&peer->status)));
	verbs->params.notice(verbs->params.now_arg, line);
}

/* How long a peer has been silent, if that is too long; else 0.  *due_p: when to look again. */
static uint64_t verbs_silent(const struct verbs_state *verbs, const struct verbs_peer *peer,
			     uint64_t now, uint64_t *due_p)
{
	uint64_t deadline = verbs->params.deadline_ns, since = atomic_load(&peer->heard_ns);

	switch (atomic_load(&peer->at)) {
	case VERBS_APART:
	case VERBS_JOINING:
		since = atomic_load(&peer->wanted_ns);
		if (deadline < BEGIN_NS)
			deadline = BEGIN_NS;
		if (since == 0)
			return 0;
		break;
	case VERBS_BROKEN:
		if (deadline == 0)
			deadline = BREAK_NS;
		break;
	default:
		if (peer->may_be_silent)
			return 0;
	}
	if (deadline == 0 || now <= since)
		return 0;
	if (since + deadline + 1 < *due_p)
		*due_p = since + deadline + 1;
	return now - since > deadline ? now - since : 0;
}

/* Sends a sign of life to a peer that has had none; before the first one, asks for a connection. */
static void verbs_beat_peer(struct verbs_state *verbs, struct verbs_peer *peer, bool excused,
			    uint64_t now)
{
	if (excused)
		atomic_store(&peer->heard_ns, now);
	if (atomic_load(&peer->at) == VERBS_APART && atomic_load(&peer->wanted_ns) == 0)
		verbs_want(verbs, peer);
	roami_os_lock(&peer->held);
	if (atomic_load(&peer->at) == VERBS_READY && now >= peer->spoke_ns + verbs->beat_ns &&
	    verbs_may(verbs, peer, false))
		verbs_post(verbs, peer, 0, 0, 0);
	roami_os_unlock(&peer->held);
}

static void verbs_beat(struct verbs_state *verbs, uint64_t now)
{
	/* A node that has slept so long itself has not listened. */
	bool excused = now - verbs->beat_due > verbs->params.deadline_ns / 2;

	verbs->beat_due = now + verbs->beat_ns;
	for (unsigned i = 0; i < verbs->params.nodes; i++)
		if (verbs_reaches(verbs, i))
			verbs_beat_peer(verbs, &verbs->peers[i], excused, now);
}

/* Sends what could not leave before. */
static void verbs_retry(struct verbs_state *verbs)
{
	uint64_t left = atomic_load(&verbs->resting) | atomic_load(&verbs->owing);

	for (; left != 0; left &= left - 1) {
		struct verbs_peer *peer = &verbs->peers[__builtin_ctzll(left)];

		roami_os_lock(&peer->held);
		if (atomic_load(&peer->at) == VERBS_READY) {
			verbs_push(verbs, peer);
			verbs_tell(verbs, peer);
		}
		roami_os_unlock(&peer->held);
	}
}

void verbs_timers(struct verbs_state *verbs)
{
	const struct roam_transport_params *params = &verbs->params;
	uint64_t now, due;
	uint32_t failed;

	if ((atomic_load(&verbs->resting) | atomic_load(&verbs->owing)) != 0)
		verbs_retry(verbs);
	due = atomic_load(&verbs->due);
	if (due == UINT64_MAX || due > (now = verbs_now(verbs)))
		return;
	atomic_store(&verbs->due, UINT64_MAX);
	due = UINT64_MAX;
	verbs_reap(verbs);
	for (uint64_t strangers = atomic_exchange(&verbs->strangers, 0);
	     strangers > 0 && params->stranger != NULL; strangers--)
		params->stranger(params->now_arg);
	failed = atomic_exchange(&verbs->failed, 0);
	if (failed > 0)
		verbs_complain(verbs, &verbs->peers[failed - 1]);
	verbs_remote_complain(verbs);
	if (verbs->beat_due <= now)
		verbs_beat(verbs, now);
	for (unsigned i = 0; i < params->nodes; i++) {
		uint64_t silent = verbs_reaches(verbs, i)
					  ? verbs_silent(verbs, &verbs->peers[i], now, &due)
					  : 0;

		if (silent > 0 && params->lost != NULL)
			params->lost(params->now_arg, i, silent);
	}
	verbs_due(verbs, due < verbs->beat_due ? due : verbs->beat_due);
}
