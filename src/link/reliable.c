#include "link/reliable.h"

#include <pthread.h>

#include "link/link.h"
#include "os/gather.h"
#include "os/os.h"

#define BEAT_NS      1000000000u
#define BEATS        4u           /* signs of life within a deadline, if the deadline is short */
#define BEGIN_NS     30000000000u /* a peer's time to begin, if the deadline is not longer */
#define CREDIT_FIRST 16u          /* credit until the peer has said anything; no share is smaller */
#define LINK_MEMORY                              \
	(ROAMI_LINK_BYTES + ROAMI_LINK_MESSAGE + \
	 (size_t)(ROAMI_WINDOW + ROAM_SEND_MANY) * ROAMI_DATAGRAM_MAX)

/* How many datagrams each peer may have arriving: its share of the room for them. */
static unsigned reliable_share(const struct roam_transport_params *params, size_t datagram)
{
	size_t share = ROAMI_WINDOW;

	if (params->lower->room != NULL)
		share = params->lower->room(params->lower_state) / datagram / params->nodes;
	if (share > ROAMI_WINDOW)
		share = ROAMI_WINDOW;
	return share < CREDIT_FIRST ? CREDIT_FIRST : (unsigned)share;
}

/* Makes the links and their memory; its last piece is where the node opens datagrams. */
static enum roam_err reliable_links(struct roami_reliable *reliable)
{
	const struct roam_transport_params *params = &reliable->params;

	reliable->memory_bytes = params->nodes * LINK_MEMORY + ROAMI_DATAGRAM_MAX;
	reliable->memory = roami_os_reserve_sparse(reliable->memory_bytes);
	if (reliable->memory == NULL)
		return ROAM_ENOMEM;
	reliable->opened = reliable->memory + params->nodes * LINK_MEMORY;
	for (unsigned peer = 0; peer < params->nodes; peer++) {
		struct roami_link *link = &reliable->links[peer];

		link->peer = peer;
		link->heard_ns = roami_link_now(reliable);
		link->credit = CREDIT_FIRST;
		link->window = CREDIT_FIRST;
		link->steady = ROAMI_WINDOW;
		link->store = reliable->memory + peer * LINK_MEMORY;
		link->message = link->store + ROAMI_LINK_BYTES;
		link->early = link->message + ROAMI_LINK_MESSAGE;
		link->closed = link->early + (size_t)ROAMI_WINDOW * ROAMI_DATAGRAM_MAX;
		roami_seal_init(&link->seal, &reliable->sealer, params->node, peer);
	}
	return ROAM_OK;
}

static void reliable_begin_beat(struct roami_reliable *reliable)
{
	uint64_t deadline = reliable->params.deadline_ns;

	if (deadline == 0)
		return;
	reliable->beat_ns = deadline / BEATS < BEAT_NS ? deadline / BEATS : BEAT_NS;
	reliable->beat_due = roami_link_now(reliable) + reliable->beat_ns;
	roami_link_due(reliable, reliable->beat_due);
}

static enum roam_err reliable_open(void *state, const struct roam_transport_params *params)
{
	struct roami_reliable *reliable = state;
	size_t datagram = params->lower->message_max;
	enum roam_err err;

	if (params->nodes > ROAMI_LINKS_MAX)
		return ROAM_ENODES;
	if (params->lower->limit != NULL)
		datagram = params->lower->limit(params->lower_state);
	if (datagram > ROAMI_DATAGRAM_MAX)
		datagram = ROAMI_DATAGRAM_MAX;
	if (datagram < ROAMI_DATAGRAM_MIN)
		return ROAM_EUNSUPPORTED;
	reliable->params = *params;
	reliable->share = reliable_share(params, datagram);
	reliable->fragment = (uint32_t)(datagram - sizeof(struct roami_packet)) & ~7u;
	reliable->bad_peer = -1;
	atomic_store(&reliable->due, UINT64_MAX);
	reliable_begin_beat(reliable);
	err = roami_sealer_init(&reliable->sealer, params->seal);
	return err == ROAM_OK ? reliable_links(reliable) : err;
}

static void reliable_close(void *state)
{
	struct roami_reliable *reliable = state;

	roami_os_unmap(reliable->memory, reliable->memory_bytes);
	reliable->memory = NULL;
}

/*
 * The length to cut a message by: fragments of about the same length, rather than long ones and a
 * rest, so that those of several messages leave and arrive as one run.
 */
static uint32_t reliable_cut(const struct roami_reliable *reliable, size_t bytes)
{
	size_t count = (bytes + reliable->fragment - 1) / reliable->fragment;

	return (uint32_t)((bytes + count - 1) / count + 7) & ~7u;
}

static void reliable_uncork(struct roami_reliable *reliable)
{
	for (; reliable->uncork != 0; reliable->uncork &= reliable->uncork - 1) {
		struct roami_link *link = &reliable->links[__builtin_ctzll(reliable->uncork)];

		roami_link_lock(link);
		roami_link_push(reliable, link, roami_link_now(reliable));
		roami_link_unlock(link);
	}
}

/*
 * Sends what is kept; within this thread's own poll leaves less than a batch to its end.  It never
 * leaves anything to another thread's poll: that thread may have lost its CPU to this one.
 */
static void reliable_push(struct roami_reliable *reliable, struct roami_link *link)
{
	uintptr_t corker = atomic_load_explicit(&reliable->corker, memory_order_relaxed);

	if (corker == (uintptr_t)pthread_self() &&
	    link->end - link->next < ROAM_SEND_MANY)
		reliable->uncork |= (uint64_t)1 << link->peer;
	else
		roami_link_push(reliable, link, roami_link_now(reliable));
}

static enum roam_err reliable_send(void *state, unsigned to, const struct iovec *parts,
				   unsigned count)
{
	struct roami_reliable *reliable = state;
	struct roami_link *link = &reliable->links[to];
	bool own = to == reliable->params.node, kept;
	size_t bytes = roami_gather_bytes(parts, count);

	if (bytes == 0 || bytes > ROAMI_LINK_MESSAGE)
		return ROAM_EINVAL;
	roami_link_lock(link);
	kept = roami_link_keep(link, parts, count, bytes,
			       own ? ROAMI_LINK_MESSAGE : reliable_cut(reliable, bytes));
	if (kept && own)
		atomic_fetch_add(&reliable->own, 1);
	else if (kept)
		reliable_push(reliable, link);
	roami_link_unlock(link);
	return kept ? ROAM_OK : ROAM_EAGAIN;
}

/* ------------------------------------------------------------------------------------- polling */

/* Delivers what the node sent to itself, which never leaves the node. */
static void reliable_own(struct roami_reliable *reliable, unsigned max)
{
	unsigned me = reliable->params.node;
	struct roami_link *link = &reliable->links[me];

	for (unsigned i = 0; i < max && atomic_load(&reliable->own) > 0; i++) {
		struct roami_kept *kept = &link->kept[link->first % ROAMI_WINDOW];
		const struct roami_packet *packet = (void *)(link->store + kept->at);

		if (!reliable->deliver(reliable->deliver_arg, me, packet + 1, packet->length))
			return;
		reliable->delivered++;
		roami_link_lock(link);
		roami_link_drop(link);
		roami_link_unlock(link);
		atomic_fetch_sub(&reliable->own, 1);
	}
}

static bool reliable_datagram(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct roami_reliable *reliable = arg;

	if (reliable->bad_peer < 0 &&
	    !roami_link_arrive(reliable, &reliable->links[from], data, bytes))
		reliable->bad_peer = (int)from;
	return true;
}

static void reliable_retry(struct roami_reliable *reliable)
{
	for (unsigned peer = 0; reliable->refused > 0 && peer < reliable->params.nodes; peer++)
		if (!roami_link_retry(reliable, &reliable->links[peer]))
			reliable->bad_peer = (int)peer;
}

/* Acknowledges what this poll took, unless a message has carried the ack. */
static void reliable_acks(struct roami_reliable *reliable)
{
	while (reliable->owing != 0) {
		struct roami_link *link = &reliable->links[__builtin_ctzll(reliable->owing)];

		reliable->owing &= reliable->owing - 1;
		roami_link_lock(link);
		if (link->owed_now || link->owed >= ROAMI_LINK_WINDOW_MIN)
			roami_link_ack(reliable, link, roami_link_now(reliable));
		roami_link_unlock(link);
	}
}

/*
 * Sends a sign of life if one is due; returns how long the peer has been silent, 0: not too long.
 */
static uint64_t reliable_beat_peer(struct roami_reliable *reliable, struct roami_link *link,
				   bool excused, uint64_t now)
{
	uint64_t deadline = reliable->params.deadline_ns, silent;

	roami_link_lock(link);
	if (now >= link->spoke_ns + reliable->beat_ns)
		roami_link_ack(reliable, link, now);
	if (excused)
		link->heard_ns = now;
	silent = link->may_be_silent ? 0 : now - link->heard_ns;
	if (!link->heard && deadline < BEGIN_NS)
		deadline = BEGIN_NS;
	roami_link_unlock(link);
	return silent > deadline ? silent : 0;
}

static void reliable_beat(struct roami_reliable *reliable, uint64_t now)
{
	const struct roam_transport_params *params = &reliable->params;
	/* A node that has slept so long itself has not listened. */
	bool excused = now - reliable->beat_due > params->deadline_ns / 2;

	reliable->beat_due = now + reliable->beat_ns;
	for (unsigned peer = 0; peer < params->nodes; peer++) {
		uint64_t silent = 0;

		if (peer != params->node && (params->others >> peer & 1) == 0)
			silent = reliable_beat_peer(reliable, &reliable->links[peer], excused, now);
		if (silent > 0)
			params->lost(params->now_arg, peer, silent);
	}
}

/* Runs the timers that are due at `now`, the time or a little before. */
static void reliable_timers(struct roami_reliable *reliable, uint64_t now)
{
	if (atomic_load(&reliable->due) > now)
		return;
	atomic_store(&reliable->due, UINT64_MAX);
	for (unsigned peer = 0; peer < reliable->params.nodes; peer++) {
		struct roami_link *link = &reliable->links[peer];

		if (peer == reliable->params.node)
			continue;
		roami_link_lock(link);
		roami_link_due(reliable, roami_link_timers(reliable, link, now));
		roami_link_unlock(link);
	}
	if (reliable->beat_ns == 0)
		return;
	if (reliable->beat_due <= now)
		reliable_beat(reliable, now);
	roami_link_due(reliable, reliable->beat_due);
}

static unsigned reliable_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			      int *bad_peer)
{
	struct roami_reliable *reliable = state;
	const struct roam_transport_params *params = &reliable->params;

	reliable->deliver = deliver;
	reliable->deliver_arg = arg;
	reliable->delivered = 0;
	reliable->arrived_ns = 0;
	atomic_store_explicit(&reliable->corker, (uintptr_t)pthread_self(), memory_order_relaxed);
	reliable_retry(reliable);
	reliable_own(reliable, max);
	params->lower->poll(params->lower_state, reliable_datagram, reliable, max, bad_peer);
	atomic_store_explicit(&reliable->corker, 0, memory_order_relaxed);
	reliable_uncork(reliable);
	reliable_acks(reliable);
	reliable_timers(reliable, reliable->arrived_ns != 0 ? reliable->arrived_ns
							    : roami_link_now(reliable));
	if (reliable->bad_peer >= 0)
		*bad_peer = reliable->bad_peer;
	return *bad_peer >= 0 ? 0 : reliable->delivered;
}

static bool reliable_pending(const void *state)
{
	const struct roami_reliable *reliable = state;
	const struct roam_transport_params *params = &reliable->params;

	return atomic_load(&reliable->own) > 0 || params->lower->pending(params->lower_state);
}

static uint64_t reliable_due(const void *state)
{
	const struct roami_reliable *reliable = state;
	const struct roam_transport_params *params = &reliable->params;
	uint64_t due = atomic_load(&reliable->due), lower = UINT64_MAX;

	if (params->lower->due != NULL)
		lower = params->lower->due(params->lower_state);
	return lower < due ? lower : due;
}

const struct roam_transport roami_transport_reliable = {
	.name = "reliable",
	.caps = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED,
	.state_size = sizeof(struct roami_reliable),
	.message_max = ROAMI_LINK_MESSAGE,
	.open = reliable_open,
	.close = reliable_close,
	.send = reliable_send,
	.poll = reliable_poll,
	.pending = reliable_pending,
	.due = reliable_due,
};
