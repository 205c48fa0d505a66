#include "verbs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/gather.h"
#include "os/os.h"

#define GATHER   16u /* completions at a time */
#define OWN_SKIP UINT64_MAX

static const struct roam_transport_option verbs_options[] = {
	ROAM_TRANSPORT_OPTION(
		"ROAM_VERBS_DEVICE", "auto", "",
		"the card of the verbs transport: its name as in `rdma link`, or the "
		"IPv4 address of its interface; several, separated by commas, are "
		"for the nodes in turn; auto: the one with the address by which other "
		"hosts reach this one, else the first whose port is up"),
	ROAM_TRANSPORT_OPTION(
		"ROAM_VERBS_MEMORY", "0", "0..65536",
		"MiB that the verbs transport may register with the card: a node's buffers, "
		"and of its memory what cards of others read; where the system lets it have "
		"less, it takes less; 0: of the memory half of what is free, divided by the number "
		"of the job's nodes on the host"),
	{.variable = NULL}};

void verbs_say(const struct verbs_state *verbs, const char *format, ...)
{
	va_list args;

	if (verbs->params.why == NULL)
		return;
	va_start(args, format);
	vsnprintf(verbs->params.why, verbs->params.why_bytes, format, args);
	va_end(args);
}

void verbs_due(struct verbs_state *verbs, uint64_t when)
{
	uint64_t due = atomic_load(&verbs->due);

	while (when < due && !atomic_compare_exchange_weak(&verbs->due, &due, when))
		;
}

/* -------------------------------------------------------------------------------------- opening */

static void verbs_peers(struct verbs_state *verbs)
{
	uint8_t *at = verbs->aside;

	for (unsigned i = 0; i < verbs->params.nodes; i++) {
		struct verbs_peer *peer = &verbs->peers[i];

		peer->number = i;
		peer->index = verbs->peer_count;
		verbs->peer_count += verbs_reaches(verbs, i);
		peer->rest = at;
		peer->message = at + VERBS_MESSAGE_MAX;
		at += 2 * VERBS_MESSAGE_MAX;
	}
	verbs->own = at;
}

static enum roam_err verbs_open(void *state, const struct roam_transport_params *params)
{
	struct verbs_state *verbs = state;
	enum roam_err err;

	verbs->wanted = -1;
	roami_ear_init(&verbs->ear);
	if (params->nodes > VERBS_NODES_MAX)
		return ROAM_ENODES;
	verbs->params = *params;
	verbs->process = getpid();
	verbs->mark = roami_os_random();
	verbs->card = params->memory[params->node].base;
	atomic_store(&verbs->due, UINT64_MAX);
	verbs->aside_bytes = 2 * VERBS_MESSAGE_MAX * (size_t)params->nodes + VERBS_OWN;
	verbs->aside = roami_os_reserve_sparse(verbs->aside_bytes);
	if (verbs->aside == NULL)
		return ROAM_ENOMEM;
	verbs_peers(verbs);
	verbs_begin_beat(verbs);
	err = verbs_connect_open(verbs);
	return err == ROAM_OK ? roami_ear_open(&verbs->ear, params, verbs->channel->fd) : err;
}

/*
 * A forked child has a copy of this state, but the objects are its parent's: it must not end them.
 */
static void verbs_close(void *state)
{
	struct verbs_state *verbs = state;
	bool mine = verbs->process == getpid();

	if (mine)
		verbs_connect_close(verbs);
	roami_ear_close(&verbs->ear);
	if (mine)
		verbs_memory_free(verbs);
	verbs_reads_free(&verbs->reads);
	if (verbs->aside != NULL)
		roami_os_unmap(verbs->aside, verbs->aside_bytes);
	verbs->aside = NULL;
}

/* ------------------------------------------------------------------------------ to itself */

static _Atomic uint64_t *own_word(const struct verbs_state *verbs, uint64_t at)
{
	return (_Atomic uint64_t *)(void *)(verbs->own + at % VERBS_OWN);
}

/* Keeps what a node sends to itself, which never leaves the node. */
static enum roam_err own_send(struct verbs_state *verbs, const struct iovec *parts, size_t bytes)
{
	uint64_t need = (sizeof(uint64_t) + bytes + 7) & ~(uint64_t)7, put, skip = 0;
	struct roami_gather gather = {parts, 0};
	bool fits;

	roami_os_lock(&verbs->own_held);
	put = atomic_load(&verbs->own_put);
	if (put % VERBS_OWN + need > VERBS_OWN)
		skip = VERBS_OWN - put % VERBS_OWN;
	fits = put + skip + need - atomic_load(&verbs->own_taken) <= VERBS_OWN;
	if (fits) {
		if (skip > 0)
			atomic_store_explicit(own_word(verbs, put), OWN_SKIP, memory_order_relaxed);
		put += skip;
		atomic_store_explicit(own_word(verbs, put), bytes, memory_order_relaxed);
		roami_gather_copy(&gather, verbs->own + put % VERBS_OWN + sizeof(uint64_t), bytes);
		atomic_store(&verbs->own_put, put + need);
	}
	roami_os_unlock(&verbs->own_held);
	return fits ? ROAM_OK : ROAM_EAGAIN;
}

static unsigned own_take(struct verbs_state *verbs, unsigned max)
{
	uint64_t taken = atomic_load_explicit(&verbs->own_taken, memory_order_relaxed);
	unsigned count = 0;

	while (count < max && taken != atomic_load(&verbs->own_put)) {
		uint64_t bytes = atomic_load_explicit(own_word(verbs, taken), memory_order_relaxed);

		if (bytes == OWN_SKIP) {
			taken += VERBS_OWN - taken % VERBS_OWN;
			continue;
		}
		if (!verbs->deliver(verbs->deliver_arg, verbs->params.node,
				    verbs->own + taken % VERBS_OWN + sizeof(bytes), bytes))
			break;
		taken += (sizeof(bytes) + bytes + 7) & ~(uint64_t)7;
		atomic_store(&verbs->own_taken, taken);
		count++;
	}
	return count;
}

/* -------------------------------------------------------------------------------------- sending */

/* Sends as much of a message as may leave; the rest is kept.  The lock is held. */
static void send_parts(struct verbs_state *verbs, struct verbs_peer *peer,
		       const struct iovec *parts, uint32_t bytes)
{
	struct roami_gather reader = {parts, 0};
	uint32_t at = 0;

	while (at < bytes && verbs_may(verbs, peer, false)) {
		uint8_t *out = verbs_out(verbs, peer, peer->sent) + sizeof(struct verbs_head);
		uint32_t some = bytes - at;

		if (some > VERBS_PAYLOAD)
			some = VERBS_PAYLOAD;
		roami_gather_copy(&reader, out, some);
		if (!verbs_post(verbs, peer, bytes, at, some))
			return;
		at += some;
	}
	if (at == bytes)
		return;
	roami_gather_copy(&reader, peer->rest + at, bytes - at);
	peer->rest_at = at;
	peer->rest_bytes = bytes;
	atomic_fetch_or(&verbs->resting, verbs_bit(peer->number));
	/* The polling thread may have noted more room since, and has not seen the rest. */
	verbs_push(verbs, peer);
}

static enum roam_err verbs_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	struct verbs_state *verbs = state;
	struct verbs_peer *peer = &verbs->peers[to];
	enum roam_err err = ROAM_EAGAIN;
	size_t bytes = roami_gather_bytes(parts, count);
	uint32_t at;

	if (bytes == 0 || bytes > VERBS_MESSAGE_MAX)
		return ROAM_EINVAL;
	if (to == verbs->params.node)
		return own_send(verbs, parts, bytes);
	roami_os_lock(&peer->held);
	at = atomic_load(&peer->at);
	if (at == VERBS_GONE || at == VERBS_BROKEN) {
		err = ROAM_OK; /* as good as lost */
	} else if (at == VERBS_READY && peer->rest_at == peer->rest_bytes &&
		   verbs_may(verbs, peer, false)) {
		send_parts(verbs, peer, parts, (uint32_t)bytes);
		err = ROAM_OK;
	}
	roami_os_unlock(&peer->held);
	if (at == VERBS_APART)
		verbs_want(verbs, peer);
	return err;
}

/* ------------------------------------------------------------------------------------ arriving */

static void gather_one(struct verbs_state *verbs, const struct ibv_wc *done)
{
	struct verbs_peer *peer = &verbs->peers[done->wr_id % VERBS_NODES_MAX];
	uint64_t arrived = atomic_load_explicit(&peer->arrived, memory_order_relaxed);

	if (done->wr_id / VERBS_NODES_MAX != atomic_load(&peer->epoch))
		return; /* the completion is of an abandoned attempt */
	if (done->status != IBV_WC_SUCCESS) {
		if (atomic_load(&peer->at) == VERBS_READY)
			verbs_end(verbs, peer, VERBS_BROKEN, done->status);
		return;
	}
	peer->bytes[arrived % verbs->buffers] = done->byte_len;
	atomic_store_explicit(&peer->arrived, arrived + 1, memory_order_release);
	atomic_fetch_or(&verbs->arrivals, verbs_bit(peer->number));
}

/* Notes what has arrived, unless another thread is doing so. */
static void verbs_gather(struct verbs_state *verbs)
{
	struct ibv_wc done[GATHER];
	int count;

	if (!roami_os_lock_try(&verbs->gathering))
		return;
	do {
		count = ibv_poll_cq(verbs->in, GATHER, done);
		for (int i = 0; i < count; i++)
			gather_one(verbs, &done[i]);
	} while (count == (int)GATHER);
	roami_os_unlock(&verbs->gathering);
}

static bool take_deliver(struct verbs_state *verbs, unsigned from, const void *data, size_t bytes,
			 unsigned *taken)
{
	if (!verbs->deliver(verbs->deliver_arg, from, data, bytes))
		return false;
	(*taken)++;
	return true;
}

/* Adds a part to the message that its peer sends in several.  False: it does not continue it. */
static bool take_part(struct verbs_peer *peer, const struct verbs_head *head, uint32_t bytes)
{
	if (head->offset != peer->have || (peer->have > 0 && head->length != peer->length) ||
	    bytes > head->length - peer->have)
		return false;
	memcpy(peer->message + peer->have, head + 1, bytes);
	peer->length = head->length;
	peer->have += bytes;
	return true;
}

enum take { TAKE_DONE, TAKE_KEPT, TAKE_BAD };

/* Delivers a message whose last part has come. */
static enum take take_whole(struct verbs_state *verbs, struct verbs_peer *peer, unsigned *taken)
{
	if (peer->have == 0 || peer->have < peer->length)
		return TAKE_DONE;
	if (!take_deliver(verbs, peer->number, peer->message, peer->length, taken))
		return TAKE_KEPT;
	peer->have = peer->length = 0;
	return TAKE_DONE;
}

/* A put that no card has brought. */
static enum take take_store(struct verbs_state *verbs, struct verbs_peer *peer,
			    const struct verbs_head *head, uint32_t bytes, unsigned *taken)
{
	struct iovec message;

	if (head->length != 0 || !verbs_put_store(verbs, (const void *)(head + 1), bytes, &message))
		return TAKE_BAD;
	if (!take_deliver(verbs, peer->number, message.iov_base, message.iov_len, taken))
		return TAKE_KEPT;
	atomic_fetch_add(&peer->put_resent, 1);
	verbs_take(verbs, peer);
	return TAKE_DONE;
}

/* One part. */
static enum take take_one(struct verbs_state *verbs, struct verbs_peer *peer, unsigned *taken)
{
	uint64_t number = atomic_load_explicit(&peer->taken, memory_order_relaxed);
	const struct verbs_head *head = (const void *)verbs_in(verbs, peer, number);
	uint32_t bytes = peer->bytes[number % verbs->buffers];

	if (bytes < sizeof(*head) || bytes > VERBS_BUFFER || head->length > VERBS_MESSAGE_MAX ||
	    !verbs_credited(verbs, peer, head->taken) || !verbs_put_credited(peer, head->stored))
		return TAKE_BAD;
	bytes -= (uint32_t)sizeof(*head);
	if (head->what == VERBS_STORE)
		return take_store(verbs, peer, head, bytes, taken);
	if (head->what != VERBS_NOTHING) {
		if (head->length != 0 || bytes != sizeof(struct verbs_key) ||
		    !verbs_key_take(verbs, peer, head->what, (const void *)(head + 1)))
			return TAKE_BAD;
		verbs_take(verbs, peer);
		return TAKE_DONE;
	}
	if ((head->length == 0) != (bytes == 0) || bytes > head->length)
		return TAKE_BAD;
	if (bytes > 0 && peer->have == 0 && bytes == head->length) {
		if (head->offset != 0)
			return TAKE_BAD;
		if (!take_deliver(verbs, peer->number, head + 1, bytes, taken))
			return TAKE_KEPT;
	} else if (bytes > 0 && !take_part(peer, head, bytes)) {
		return TAKE_BAD;
	}
	verbs_take(verbs, peer);
	return TAKE_DONE;
}

/* Handles what has arrived from a peer.  False: its bytes make no sense. */
static bool take_peer(struct verbs_state *verbs, struct verbs_peer *peer, unsigned max,
		      unsigned *taken)
{
	enum take now = TAKE_DONE;
	unsigned some = 0;

	atomic_fetch_and(&verbs->arrivals, ~verbs_bit(peer->number));
	if (atomic_load(&peer->arrived) != atomic_load(&peer->taken) && verbs->beat_ns != 0)
		atomic_store(&peer->heard_ns, verbs_now(verbs));
	while (some < max && (now = take_whole(verbs, peer, &some)) == TAKE_DONE &&
	       atomic_load_explicit(&peer->arrived, memory_order_acquire) !=
		       atomic_load_explicit(&peer->taken, memory_order_relaxed) &&
	       (now = take_one(verbs, peer, &some)) == TAKE_DONE)
		;
	if (now == TAKE_KEPT || atomic_load(&peer->arrived) != atomic_load(&peer->taken) ||
	    (peer->have > 0 && peer->have == peer->length))
		atomic_fetch_or(&verbs->arrivals, verbs_bit(peer->number));
	*taken += some;
	return now != TAKE_BAD;
}

static unsigned verbs_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			   int *bad_peer)
{
	struct verbs_state *verbs = state;
	unsigned taken = 0;

	verbs->deliver = deliver;
	verbs->deliver_arg = arg;
	verbs_gather(verbs);
	for (uint64_t left = atomic_load(&verbs->arrivals); left != 0; left &= left - 1) {
		unsigned from = (unsigned)__builtin_ctzll(left);

		if (!take_peer(verbs, &verbs->peers[from], max, &taken)) {
			*bad_peer = (int)from;
			return 0;
		}
	}
	taken += own_take(verbs, max) + verbs_read_landed(verbs);
	for (uint64_t left = atomic_load(&verbs->reads.come); left != 0; left &= left - 1) {
		unsigned from = (unsigned)__builtin_ctzll(left);

		if (!verbs_put_take(verbs, &verbs->peers[from], &taken)) {
			*bad_peer = (int)from;
			return 0;
		}
	}
	verbs_timers(verbs);
	return taken;
}

/* Despite the const it may note arrivals, which changes nothing for others. */
static bool verbs_pending(const void *state)
{
	struct verbs_state *verbs = (struct verbs_state *)(uintptr_t)state;

	if (atomic_load(&verbs->own_put) != atomic_load(&verbs->own_taken) ||
	    atomic_load(&verbs->arrivals) != 0)
		return true;
	verbs_gather(verbs);
	verbs_read_reap(verbs);
	return atomic_load(&verbs->arrivals) != 0 || atomic_load(&verbs->reads.landed) != 0 ||
	       atomic_load(&verbs->reads.come) != 0;
}

static uint64_t verbs_due_at(const void *state)
{
	return atomic_load(&((const struct verbs_state *)state)->due);
}

/* ------------------------------------------------------------------------------------- sleeping */

/*
 * Takes the events of arrivals, and of reads that have landed, and asks for the next ones.  At all
 * times each queue has been asked for an event, the event waits in the channel, or a thread is in
 * this function and looks afterwards.
 */
static void verbs_events(struct verbs_state *verbs)
{
	struct ibv_cq *queue;
	void *context;

	if (!roami_os_lock_try(&verbs->eventing))
		return;
	while (ibv_get_cq_event(verbs->channel, &queue, &context) == 0)
		(*(queue == verbs->in ? &verbs->event_count : &verbs->reads.event_count))++;
	ibv_req_notify_cq(verbs->in, 0);
	if (verbs->reads.landings != NULL)
		ibv_req_notify_cq(verbs->reads.landings, 0);
	roami_os_unlock(&verbs->eventing);
}

static void verbs_wait(void *state, enum roam_sleeper who, uint64_t timeout_ns)
{
	struct verbs_state *verbs = state;

	roami_ear_wait(&verbs->ear, who, timeout_ns);
	verbs_events(verbs);
}

static void verbs_wake(void *state, enum roam_sleeper who)
{
	roami_ear_wake(&((struct verbs_state *)state)->ear, who);
}

/*
 * An event for what a thread took by polling must not wake the service thread; an arrival while
 * that event is taken must wake it.
 */
static void verbs_listen(void *state, bool on)
{
	struct verbs_state *verbs = state;

	if (on)
		verbs_events(verbs);
	roami_ear_listen(&verbs->ear, on);
	if (on && verbs_pending(verbs))
		roami_ear_wake(&verbs->ear, ROAM_SLEEPER_SERVICE);
}

const struct roam_transport roami_transport_verbs = {
	.name = "verbs",
	.caps = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED | ROAM_CAP_HOSTS | ROAM_CAP_BARE,
	.cost_ns = 2000,
	.state_size = sizeof(struct verbs_state),
	.message_max = VERBS_MESSAGE_MAX,
	.card_bytes = sizeof(struct verbs_card),
	.options = verbs_options,
	.open = verbs_open,
	.close = verbs_close,
	.send = verbs_send,
	.poll = verbs_poll,
	.pending = verbs_pending,
	.probe = verbs_probe,
	.due = verbs_due_at,
	.wait = verbs_wait,
	.wake = verbs_wake,
	.listen = verbs_listen,
	.onesided = &verbs_onesided,
};
