/*
 * verbs: messages over a network card of RDMA (libibverbs, librdmacm), or over Soft-RoCE.  Each
 * pair of nodes has a reliable connection, whose order and reliability are the card's; a node makes
 * it when it first sends to the peer.  verbs.c has the messages, verbs_credit.c what may be sent
 * and what the peers are told, verbs_connect.c the thread that connects, verbs_find.c devices,
 * memory and why there is none, verbs_hello.c what strangers say who want to connect.
 *
 * A peer sends no more than the buffers that it knows to be free here, so none is ever missing when
 * something arrives.  It asks for no immediates, atomics or shared receive queues: iWARP will do.
 */
#ifndef ROAMI_VERBS_H
#define ROAMI_VERBS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>

#include "ear.h"
#include "roam/transport.h"
#include "verbs_hello.h"

#define VERBS_NODES_MAX   64u
#define VERBS_MESSAGE_MAX (64u * 1024)
#define VERBS_PARTS_MAX   16u
#define VERBS_BUFFER      4352u /* bytes of one: a page, and what messages put before it */
#define VERBS_BUFFERS_MIN 4u    /* of each peer, each way */
#define VERBS_BUFFERS_MAX 32u
#define VERBS_SPARE       2u /* a peer's last buffers: for telling it what is free here */
#define VERBS_OWN         (256u * 1024) /* bytes of messages of a node to itself */

/* Stands before each part of a message, and by itself where only `taken` is to be told. */
struct verbs_head {
	uint32_t length; /* of the whole message; 0: there is none */
	uint32_t offset; /* of this part in it */
	uint32_t taken;  /* parts of this connection that the sender has taken, modulo 2^32 */
	uint32_t zero;
};

#define VERBS_PAYLOAD (VERBS_BUFFER - sizeof(struct verbs_head))

/* Where a node tells its peers how to reach it: at the start of its memory. */
struct verbs_card {
	_Atomic uint64_t mark;    /* a random number, which who connects must know */
	_Atomic uint64_t address; /* IPv4 address << 16 | port; 0: not open */
};

enum verbs_at {
	VERBS_APART, /* no connection, and none under way */
	VERBS_JOINING,
	VERBS_READY,
	VERBS_GONE,  /* the peer has left */
	VERBS_BROKEN /* the connection failed for good */
};

struct verbs_peer {
	unsigned number;
	unsigned place;         /* among those that this transport reaches */
	_Atomic uint32_t at;    /* enum verbs_at */
	_Atomic uint32_t epoch; /* of attempts to connect: tells their completions apart */
	_Atomic uint32_t
		status; /* of the completion that broke the connection, enum ibv_wc_status */

	/* Leaving; under the lock. */
	_Atomic uint32_t held; /* the lock */
	struct ibv_qp *qp;
	uint32_t theirs;       /* buffers that the peer has for us */
	uint64_t sent;         /* parts ever sent */
	uint64_t credit;       /* of them, taken by the peer, as it last told */
	uint64_t told;         /* parts taken, as last told */
	_Atomic uint64_t left; /* parts whose buffers are free again; the reaper's */
	uint8_t *rest;         /* VERBS_MESSAGE_MAX: a message of which not all could leave yet */
	uint32_t rest_at, rest_bytes; /* what has left; all, 0: there is no such message */
	uint64_t spoke_ns;

	/* Arriving; the polling thread's, but `arrived`. */
	_Atomic uint64_t arrived; /* parts ever */
	_Atomic uint64_t taken;
	uint32_t bytes[VERBS_BUFFERS_MAX];
	uint8_t *message;      /* VERBS_MESSAGE_MAX: of several parts */
	uint32_t have, length; /* have == length > 0: whole, and could not be delivered yet */
	_Atomic uint64_t heard_ns;
	bool may_be_silent;

	/* Connecting; the connecting thread's, but for `wanted_ns`. */
	struct rdma_cm_id *id;
	bool began; /* this node did */
	_Atomic uint64_t
		wanted_ns; /* when a message first waited for the connection; 0: none does */
	uint64_t retry_ns;
};

struct verbs_state {
	struct roam_transport_params params;
	struct verbs_card *card;
	uint64_t mark;
	unsigned peer_count;       /* that this transport reaches, without itself */
	unsigned buffers;          /* of each peer, each way */
	_Atomic uint64_t want;     /* peers to be connected; bits, as those below */
	_Atomic uint64_t arrivals; /* something of them has arrived */
	_Atomic uint64_t resting;  /* a rest is to leave to them */
	_Atomic uint64_t owing;    /* they must be told what is free here, and could not be yet */
	_Atomic uint64_t due;
	_Atomic uint64_t strangers; /* refused, and not counted yet */
	_Atomic uint32_t failed;    /* + 1: the peer whose connection failed; not told yet */
	uint64_t beat_ns, beat_due;
	_Atomic uint32_t gathering, reaping, eventing; /* locks of both queues and the channel */
	int process;                                   /* that opened it */

	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct ibv_context *device; /* our own: the manager's stays open, and children inherit it */
	struct ibv_pd *domain;
	struct ibv_comp_channel *channel;
	struct ibv_cq *in, *out;
	unsigned event_count; /* of `in`, to be acknowledged */
	struct ibv_mr *region;
	uint8_t *memory; /* buffers: of each peer those that arrive, then those that leave */
	size_t memory_bytes;
	uint8_t *aside; /* rests and messages of all peers, and of this node its own */
	size_t aside_bytes;
	uint8_t timeout; /* of the card: 4.096 us << timeout */

	pthread_t thread;
	bool runs;
	int wanted; /* an eventfd: the connecting thread is to look */
	_Atomic uint32_t stop;
	struct roami_ear ear;

	/* Messages of this node to itself: a ring of lengths and bytes. */
	_Atomic uint32_t own_held;
	uint8_t *own; /* VERBS_OWN */
	_Atomic uint64_t own_put, own_taken;

	roam_deliver_fn *deliver; /* of the poll under way */
	void *deliver_arg;
	struct verbs_peer peers[VERBS_NODES_MAX];
};

static inline uint64_t verbs_bit(unsigned peer)
{
	return (uint64_t)1 << peer;
}

static inline uint64_t verbs_now(const struct verbs_state *verbs)
{
	return verbs->params.now(verbs->params.now_arg);
}

/* Whether this transport reaches a node, other than this one. */
static inline bool verbs_reaches(const struct verbs_state *verbs, unsigned peer)
{
	return peer < verbs->params.nodes && peer != verbs->params.node &&
	       (verbs->params.others >> peer & 1) == 0;
}

void verbs_lock(_Atomic uint32_t *held);
void verbs_unlock(_Atomic uint32_t *held);

/* Says more about why it does not open. */
__attribute__((format(printf, 2, 3))) void verbs_say(const struct verbs_state *verbs,
						     const char *format, ...);

/* Timers run not later than `when`. */
void verbs_due(struct verbs_state *verbs, uint64_t when);

/* The buffer of part `number` to or from a peer. */
uint8_t *verbs_out(const struct verbs_state *verbs, const struct verbs_peer *peer, uint64_t number);
uint8_t *verbs_in(const struct verbs_state *verbs, const struct verbs_peer *peer, uint64_t number);

/* ---- verbs_find.c */

bool verbs_probe(const struct roam_transport_value *options, char *why, size_t why_bytes);

/* The IPv4 address, host byte order, of the device that the options name; 0: `why` says why not. */
uint32_t verbs_address(const struct roam_transport_params *params, char *why, size_t why_bytes);

/* Buffers and queues on the listener's device. */
enum roam_err verbs_memory(struct verbs_state *verbs);
void verbs_memory_free(struct verbs_state *verbs);

/* ---- verbs_connect.c */

enum roam_err verbs_connect_open(struct verbs_state *verbs);
void verbs_connect_close(struct verbs_state *verbs);

/* A message waits for a connection.  Any thread. */
void verbs_want(struct verbs_state *verbs, struct verbs_peer *peer);

/* ---- verbs_credit.c; of a peer whose lock is held, but where said otherwise */

/* Whether one more part may leave; `spare`: it only tells what is free here. */
bool verbs_may(struct verbs_state *verbs, struct verbs_peer *peer, bool spare);

/* Sends a part, whose payload is in its buffer already; false: the connection is broken. */
bool verbs_post(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t length,
		uint32_t offset, uint32_t bytes);

/* Sends of the rest whatever may leave. */
void verbs_push(struct verbs_state *verbs, struct verbs_peer *peer);

/* Gives the buffer of a part back to the card.  Takes the lock. */
void verbs_take(struct verbs_state *verbs, struct verbs_peer *peer);

/* Posts the buffer of part `number`. */
bool verbs_receive(struct verbs_state *verbs, struct verbs_peer *peer, uint64_t number);

/* What the peer says it has taken; false: more than was sent.  Takes the lock. */
bool verbs_credited(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t taken);

/* Notes what has left.  Takes no lock. */
void verbs_reap(struct verbs_state *verbs);

/* The connection is over. */
void verbs_end(struct verbs_state *verbs, struct verbs_peer *peer, enum verbs_at how,
	       enum ibv_wc_status status);

/* Rests, peers to be told, signs of life; names a peer that is lost.  The polling thread. */
void verbs_timers(struct verbs_state *verbs);

/* The first beat, after open. */
void verbs_begin_beat(struct verbs_state *verbs);

#endif
