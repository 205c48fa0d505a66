#include "faulty.h"

#include <stdatomic.h>
#include <string.h>

#include "os/os.h"

#define NODES_MAX    64u
#define SHELF        256u         /* messages held back at a time; more go on at once */
#define SHELF_BYTES  (64u * 1024) /* longest of them */
#define OVERTAKEN_NS 400000u      /* a reordered message is late by at most so much */

struct faulty_held {
	uint64_t due; /* 0: free */
	unsigned to;
	uint32_t bytes;
};

struct faulty_state {
	struct roam_transport_params params;
	struct roami_faults faults;
	_Atomic uint32_t lock;
	uint64_t draws;
	uint64_t start;
	_Atomic uint64_t due; /* of the earliest message held back */
	struct faulty_held held[SHELF];
	uint8_t *shelf;
};

static uint64_t faulty_now(const struct faulty_state *faulty)
{
	return faulty->params.now(faulty->params.now_arg);
}

/* splitmix64 */
static uint64_t faulty_draw(struct faulty_state *faulty)
{
	uint64_t z = faulty->draws += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static bool faulty_chance(struct faulty_state *faulty, uint32_t of_million)
{
	return of_million > 0 && faulty_draw(faulty) % 1000000 < of_million;
}

static bool faulty_check(const char *option, char *why, size_t why_bytes)
{
	struct roami_faults faults;

	return roami_faults_read(&faults, option, why, why_bytes);
}

static enum roam_err faulty_open(void *state, const struct roam_transport_params *params)
{
	struct faulty_state *faulty = state;
	char why[8];

	if (params->nodes > NODES_MAX ||
	    !roami_faults_read(&faulty->faults, params->option, why, sizeof(why)))
		return ROAM_EINVAL;
	faulty->params = *params;
	faulty->draws = faulty->faults.seed * NODES_MAX + params->node;
	faulty->start = params->now(params->now_arg);
	atomic_store(&faulty->due, UINT64_MAX);
	faulty->shelf = roami_os_reserve_sparse((size_t)SHELF * SHELF_BYTES);
	return faulty->shelf == NULL ? ROAM_ENOMEM : ROAM_OK;
}

static void faulty_close(void *state)
{
	struct faulty_state *faulty = state;

	roami_os_unmap(faulty->shelf, (size_t)SHELF * SHELF_BYTES);
	faulty->shelf = NULL;
}

static bool faulty_is_cut(struct faulty_state *faulty, unsigned to)
{
	uint64_t since = faulty_now(faulty) - faulty->start;

	for (unsigned i = 0; i < faulty->faults.cuts; i++) {
		const struct roami_cut *cut = &faulty->faults.cut[i];

		if (cut->from == faulty->params.node && cut->to == to && since >= cut->begin_ns &&
		    since < cut->end_ns)
			return true;
	}
	return false;
}

static enum roam_err faulty_pass(struct faulty_state *faulty, unsigned to, uint8_t *data,
				 uint32_t bytes)
{
	struct iovec part = {data, bytes};

	return faulty->params.lower->send(faulty->params.lower_state, to, &part, 1);
}

/* A place for a message that is held back; NULL: all are taken. */
static struct faulty_held *faulty_place(struct faulty_state *faulty)
{
	for (unsigned i = 0; i < SHELF; i++)
		if (faulty->held[i].due == 0)
			return &faulty->held[i];
	return NULL;
}

static uint8_t *faulty_bytes(struct faulty_state *faulty, const struct faulty_held *held)
{
	return faulty->shelf + (size_t)(held - faulty->held) * SHELF_BYTES;
}

/* Puts a copy of the message on the shelf for `late` nanoseconds; without room it is lost. */
static void faulty_hold(struct faulty_state *faulty, unsigned to, const struct iovec *parts,
			unsigned count, uint64_t late, bool corrupt)
{
	struct faulty_held *held = faulty_place(faulty);
	uint32_t bytes = 0;
	uint8_t *at;

	if (held == NULL)
		return;
	at = faulty_bytes(faulty, held);
	for (unsigned i = 0; i < count; i++) {
		if (parts[i].iov_len > SHELF_BYTES - bytes)
			return;
		memcpy(at + bytes, parts[i].iov_base, parts[i].iov_len);
		bytes += (uint32_t)parts[i].iov_len;
	}
	if (corrupt && bytes > 0)
		at[faulty_draw(faulty) % bytes] ^= (uint8_t)(1u << faulty_draw(faulty) % 8);
	*held = (struct faulty_held){faulty_now(faulty) + late + 1, to, bytes};
	if (held->due < atomic_load(&faulty->due))
		atomic_store(&faulty->due, held->due);
}

/*
 * What becomes of a message: what is sound and punctual passes as it is, all else goes over the
 * shelf.  The lock is held over the lower transport's send: it may not be told of two at a time.
 */
static enum roam_err faulty_fate(struct faulty_state *faulty, unsigned to,
				 const struct iovec *parts, unsigned count)
{
	const struct roami_faults *faults = &faulty->faults;
	enum roam_err err = ROAM_OK;
	uint64_t late = 0;
	bool corrupt;

	if (faulty_is_cut(faulty, to) || faulty_chance(faulty, faults->drop))
		return ROAM_OK;
	if (faulty_chance(faulty, faults->delay))
		late = faults->delay_ns;
	if (faulty_chance(faulty, faults->reorder))
		late += faulty_draw(faulty) % OVERTAKEN_NS;
	corrupt = faulty_chance(faulty, faults->corrupt);
	if (late != 0 || corrupt)
		faulty_hold(faulty, to, parts, count, late, corrupt);
	else
		err = faulty->params.lower->send(faulty->params.lower_state, to, parts, count);
	/* What was not taken must not arrive either. */
	if (err == ROAM_OK && faulty_chance(faulty, faults->repeat))
		faulty_hold(faulty, to, parts, count, faulty_draw(faulty) % OVERTAKEN_NS, false);
	return err;
}

static enum roam_err faulty_send(void *state, unsigned to, const struct iovec *parts,
				 unsigned count)
{
	struct faulty_state *faulty = state;
	enum roam_err err;

	roami_os_lock(&faulty->lock);
	err = faulty_fate(faulty, to, parts, count);
	roami_os_unlock(&faulty->lock);
	return err;
}

/* Sends what has been held back long enough. */
static void faulty_release(struct faulty_state *faulty)
{
	uint64_t now = faulty_now(faulty), next = UINT64_MAX;

	if (atomic_load(&faulty->due) > now)
		return;
	roami_os_lock(&faulty->lock);
	for (unsigned i = 0; i < SHELF; i++) {
		struct faulty_held *held = &faulty->held[i];

		if (held->due != 0 && held->due <= now) {
			faulty_pass(faulty, held->to, faulty_bytes(faulty, held), held->bytes);
			if (faulty->params.rouse != NULL)
				faulty->params.rouse(faulty->params.now_arg, held->to);
			held->due = 0;
		}
		if (held->due != 0 && held->due < next)
			next = held->due;
	}
	atomic_store(&faulty->due, next);
	roami_os_unlock(&faulty->lock);
}

static unsigned faulty_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			    int *bad_peer)
{
	struct faulty_state *faulty = state;

	faulty_release(faulty);
	return faulty->params.lower->poll(faulty->params.lower_state, deliver, arg, max, bad_peer);
}

static bool faulty_pending(const void *state)
{
	const struct faulty_state *faulty = state;

	return faulty->params.lower->pending(faulty->params.lower_state);
}

static size_t faulty_limit(const void *state)
{
	const struct faulty_state *faulty = state;
	const struct roam_transport *lower = faulty->params.lower;
	size_t limit = lower->limit != NULL ? lower->limit(faulty->params.lower_state)
					    : lower->message_max;

	return limit < SHELF_BYTES ? limit : SHELF_BYTES;
}

static size_t faulty_room(const void *state)
{
	const struct faulty_state *faulty = state;
	const struct roam_transport *lower = faulty->params.lower;

	return lower->room != NULL ? lower->room(faulty->params.lower_state) : SIZE_MAX;
}

static uint64_t faulty_due(const void *state)
{
	const struct faulty_state *faulty = state;

	return atomic_load(&faulty->due);
}

const struct roam_transport roami_transport_faulty = {
	.name = "faulty",
	.caps = 0,
	.state_size = sizeof(struct faulty_state),
	.message_max = SHELF_BYTES,
	.open = faulty_open,
	.close = faulty_close,
	.send = faulty_send,
	.poll = faulty_poll,
	.pending = faulty_pending,
	.check = faulty_check,
	.limit = faulty_limit,
	.room = faulty_room,
	.due = faulty_due,
};
