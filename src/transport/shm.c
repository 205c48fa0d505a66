/*
 * shm: rings in memory that the nodes of one host share.
 *
 * Every node's memory holds one ring per sender, so a ring has one producer (the sending node,
 * serialised by the core) and one consumer.  A message takes whole 64-byte cells; the first 8 bytes
 * are its length + 1, written last.  The producer zeroes the word behind a message before it
 * publishes the message, so the consumer always finds a length or zero: one cache line moves for a
 * short message.  The consumer publishes how far it is only now and then; the producer reads it
 * only when it must.
 */
#include <stdatomic.h>
#include <string.h>

#include "os/os.h"
#include "roam/transport.h"

#define SHM_NODES_MAX 64u
#define CELL          64u
#define WORD          8u
#define SKIP          0xffffffffffffffffu /* the next message is at the start of the ring */

struct shm_ring {
	_Alignas(CELL) _Atomic uint64_t consumed; /* bytes ever taken by the consumer */
	_Alignas(CELL) uint8_t data[];
};

struct shm_out {
	struct shm_ring *ring;
	uint64_t sent; /* bytes ever sent */
	uint64_t room; /* `consumed` as last read */
};

struct shm_in {
	struct shm_ring *ring;
	_Atomic uint64_t taken; /* written by the poller, read by shm_pending */
	uint64_t published;
};

struct shm_state {
	unsigned node;
	unsigned nodes;
	uint64_t others; /* nodes of other hosts */
	uint64_t ring_bytes; /* of data, a multiple of CELL */
	struct shm_out out[SHM_NODES_MAX];
	struct shm_in in[SHM_NODES_MAX];
};

static _Atomic uint64_t *ring_word(struct shm_ring *ring, uint64_t at)
{
	return (_Atomic uint64_t *)(void *)(ring->data + at);
}

static bool shm_reaches(const struct shm_state *shm, unsigned peer)
{
	return (shm->others >> peer & 1) == 0;
}

static enum roam_err shm_open(void *state, const struct roam_transport_params *params)
{
	struct shm_state *shm = state;
	uint64_t each;

	if (params->nodes > SHM_NODES_MAX)
		return ROAM_ENODES;
	shm->node = params->node;
	shm->nodes = params->nodes;
	shm->others = params->others;
	each = params->memory[params->node].bytes / params->nodes & ~(uint64_t)(CELL - 1);
	if (each > 64 * 4096u * 4)
		each = 64 * 4096u * 4;
	each &= ~(uint64_t)4095;
	shm->ring_bytes = each - sizeof(struct shm_ring);
	for (unsigned peer = 0; peer < params->nodes; peer++) {
		uint8_t *theirs = params->memory[peer].base,
			*mine = params->memory[params->node].base;

		if (!shm_reaches(shm, peer))
			continue;
		shm->out[peer].ring = (void *)(theirs + each * params->node);
		shm->in[peer].ring = (void *)(mine + each * peer);
	}
	return ROAM_OK;
}

static void shm_close(void *state)
{
	(void)state;
}

static uint64_t shm_cells(uint64_t bytes)
{
	return (WORD + bytes + CELL - 1) & ~(uint64_t)(CELL - 1);
}

/* Whether `need` bytes and the zero word behind them fit behind what was sent. */
static bool shm_fits(struct shm_state *shm, struct shm_out *out, uint64_t need)
{
	if (out->sent + need + CELL - out->room <= shm->ring_bytes)
		return true;
	out->room = atomic_load_explicit(&out->ring->consumed, memory_order_acquire);
	return out->sent + need + CELL - out->room <= shm->ring_bytes;
}

static enum roam_err shm_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	struct shm_state *shm = state;
	struct shm_out *out = &shm->out[to];
	uint64_t bytes = 0, at = out->sent % shm->ring_bytes, need, skip = 0;
	uint8_t *data;

	for (unsigned i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	need = shm_cells(bytes);
	if (at + need > shm->ring_bytes)
		skip = shm->ring_bytes - at;
	if (!shm_fits(shm, out, skip + need))
		return ROAM_EAGAIN;
	if (skip > 0) {
		atomic_store_explicit(ring_word(out->ring, 0), 0, memory_order_relaxed);
		atomic_store_explicit(ring_word(out->ring, at), SKIP, memory_order_release);
		out->sent += skip;
		at = 0;
	}
	data = out->ring->data + at + WORD;
	for (unsigned i = 0; i < count; i++) {
		if (parts[i].iov_len > 0)
			memcpy(data, parts[i].iov_base, parts[i].iov_len);
		data += parts[i].iov_len;
	}
	atomic_store_explicit(ring_word(out->ring, (at + need) % shm->ring_bytes), 0,
			      memory_order_relaxed);
	atomic_store_explicit(ring_word(out->ring, at), bytes + 1, memory_order_release);
	out->sent += need;
	return ROAM_OK;
}

static void shm_publish(struct shm_state *shm, struct shm_in *in)
{
	if (in->taken - in->published < shm->ring_bytes / 8)
		return;
	atomic_store_explicit(&in->ring->consumed, in->taken, memory_order_release);
	in->published = in->taken;
}

/* Takes messages of one ring.  False: its bytes make no sense. */
static bool shm_take(struct shm_state *shm, unsigned from, roam_deliver_fn *deliver, void *arg,
		     unsigned max, unsigned *taken)
{
	struct shm_in *in = &shm->in[from];

	while (*taken < max) {
		uint64_t at = in->taken % shm->ring_bytes;
		uint64_t word = atomic_load_explicit(ring_word(in->ring, at), memory_order_acquire);

		if (word == 0)
			break;
		if (word == SKIP) {
			in->taken += shm->ring_bytes - at;
			continue;
		}
		if (word > shm->ring_bytes || at + shm_cells(word - 1) > shm->ring_bytes)
			return false;
		if (!deliver(arg, from, in->ring->data + at + WORD, word - 1))
			break;
		in->taken += shm_cells(word - 1);
		(*taken)++;
		shm_publish(shm, in);
	}
	return true;
}

static unsigned shm_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			 int *bad_peer)
{
	struct shm_state *shm = state;
	unsigned taken = 0;

	for (unsigned peer = 0; peer < shm->nodes; peer++) {
		unsigned some = 0;

		if (!shm_reaches(shm, peer))
			continue;
		if (!shm_take(shm, peer, deliver, arg, max, &some)) {
			*bad_peer = (int)peer;
			return 0;
		}
		taken += some;
	}
	return taken;
}

/*
 * Called by any thread.  While another thread takes messages, `taken` may be old and the word read
 * here part of a later message.  Then the answer may be wrong, which is harmless: the thread that
 * takes messages looks again before it leaves.  This is a data race by design, hence no atomic
 * type, and hidden from ThreadSanitizer.
 */
__attribute__((no_sanitize_thread)) static bool shm_pending(const void *state)
{
	const struct shm_state *shm = state;

	for (unsigned peer = 0; peer < shm->nodes; peer++) {
		const struct shm_in *in = &shm->in[peer];
		uint64_t at = atomic_load_explicit(&in->taken, memory_order_relaxed) %
			      shm->ring_bytes;

		if (shm_reaches(shm, peer) &&
		    *(const volatile uint64_t *)(const void *)(in->ring->data + at) != 0)
			return true;
	}
	return false;
}

const struct roam_transport roami_transport_shm = {
	.name = "shm",
	.caps = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED | ROAM_CAP_MAPPED,
	.cost_ns = 100,
	.state_size = sizeof(struct shm_state),
	.message_max = 64 * 1024,
	.open = shm_open,
	.close = shm_close,
	.send = shm_send,
	.poll = shm_poll,
	.pending = shm_pending,
};
