/*
 * verbs: messages over a network card of RDMA (libibverbs, librdmacm), or over Soft-RoCE.  Each
 * pair of nodes has a reliable connection, whose order and reliability are the card's; a node makes
 * it when it first sends to the peer.  verbs.c has the messages, verbs_credit.c what may be sent
 * and what the peers are told, verbs_read.c reads of the peers' memory, verbs_put.c writes to it,
 * verbs_remote.c the queue pair for both, verbs_key.c by what keys, verbs_connect.c the thread that
 * connects, verbs_find.c devices and memory, and why there are none, verbs_hello.c what strangers
 * say when they connect.
 *
 * A peer sends no more than the buffers that it knows to be free here, so none is ever missing when
 * something arrives.  The transport needs no immediates, atomics or shared receive queues: iWARP
 * will do.
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
#define VERBS_BUFFER      4352u /* bytes of a buffer: a page, and what messages put before it */
#define VERBS_BUFFERS_MIN 4u    /* for each peer, each way */
#define VERBS_BUFFERS_MAX 32u
#define VERBS_SPARE       2u /* a peer's last buffers are for telling it what is free here */
#define VERBS_OWN         (256u * 1024) /* room for a node's messages to itself */
#define VERBS_RETRIES     6u /* of the card; 7 means for ever with some */
#define VERBS_READS       64u   /* under way at a node, at most; a mask of them is a word */
#define VERBS_READ_MAX    4096u /* bytes of a read */
#define VERBS_PUTS        16u   /* of one peer that may wait at a node */
#define VERBS_PUT_PARTS   16u   /* of a put, at most */
#define VERBS_PUT_BYTES   3072u /* of these parts */
#define VERBS_PUT_MESSAGE 512u  /* bytes of its message */
#define VERBS_PART        (UINT64_C(256) * 1024) /* bytes of a node's memory with one key */

/*
 * What follows a head whose `length` is 0.  Up to VERBS_JOINED: a struct verbs_key; VERBS_STORE: a
 * struct verbs_store and what belongs to it.
 */
enum {
	VERBS_NOTHING,
	VERBS_WANT,
	VERBS_KEY,
	VERBS_BACK,
	VERBS_GIVEN,
	VERBS_AGAIN,
	VERBS_JOINED,
	VERBS_STORE
};

/* Stands before each part of a message, or alone where only `taken` is to be told. */
struct verbs_head {
	uint32_t length; /* length of the whole message; 0: no message */
	uint32_t offset; /* of this part in it */
	uint32_t taken;  /* parts of this connection that the sender has taken, modulo 2^32 */
	uint16_t what;
	uint16_t stored; /* puts that the sender has taken, modulo 2^16 */
};

/*
 * A part of a node's memory: a peer wants to read it; the key, and where its first byte is; its
 * node wants the key back; a peer reads by it no more.
 * VERBS_AGAIN: the sender has ended its queue pair for one-sided operations; `key` is what a hello
 * would say of its new one, `address` how many puts have come.  VERBS_JOINED: the sender is ready
 * for what comes from the peer's new one.
 */
struct verbs_key {
	uint64_t address; /* 0: there is no key */
	uint32_t part;
	uint32_t key;
};

#define VERBS_PAYLOAD (VERBS_BUFFER - sizeof(struct verbs_head))

/* A put: where its parts go; then its message, filled up to 8 bytes, then the parts' bytes. */
struct verbs_store {
	uint32_t count;
	uint32_t message; /* bytes */
	struct verbs_store_part {
		uint64_t at; /* in the peer's memory */
		uint32_t bytes;
		uint32_t spare;
	} parts[VERBS_PUT_PARTS];
};

_Static_assert(sizeof(struct verbs_store) + VERBS_PUT_MESSAGE + VERBS_PUT_BYTES <= VERBS_READ_MAX &&
		       VERBS_READ_MAX <= VERBS_PAYLOAD,
	       "a put fits in a bounce page, and in a part of a message");

static inline size_t verbs_store_bytes_at(const struct verbs_store *store)
{
	return sizeof(*store) + ((store->message + 7) & ~(size_t)7);
}

/* Where a node tells its peers how to reach it: at the start of its memory. */
struct verbs_card {
	_Atomic uint64_t mark;    /* a random number that a peer must know to connect */
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
	unsigned index;         /* its number among those that this transport reaches */
	_Atomic uint32_t at;    /* enum verbs_at */
	_Atomic uint32_t epoch; /* number of the attempt to connect: tells completions apart */
	_Atomic uint32_t
		status; /* why the connection broke, enum ibv_wc_status */

	/* Leaving; under the lock. */
	_Atomic uint32_t held; /* the lock */
	struct ibv_qp *qp;
	struct ibv_qp *remote; /* for one-sided operations, both ways; NULL: there are none */
	/* Why none begins: 1 + enum ibv_wc_status; 0: they begin. */
	_Atomic uint32_t unready;
	_Atomic uint32_t complained, why; /* enum ibv_wc_status of the first failure */
	uint32_t theirs;       /* buffers that the peer has for this node */
	_Atomic uint64_t sent; /* parts ever sent, those about to be included */
	_Atomic uint64_t credit; /* parts that the peer has taken, as it last told; the poller's */
	uint64_t reported;     /* parts taken here, as last reported to the peer */
	_Atomic uint64_t left; /* sent parts whose buffers are free again; the reaper's */
	uint8_t *rest;         /* VERBS_MESSAGE_MAX: a message of which a part must wait */
	uint32_t rest_at, rest_bytes; /* how much of it has left; all, 0: there is none */
	uint64_t spoke_ns;

	/* Arriving; the polling thread's, except `arrived`. */
	_Atomic uint64_t arrived; /* parts ever */
	_Atomic uint64_t taken;
	uint32_t bytes[VERBS_BUFFERS_MAX];
	uint8_t *message;      /* VERBS_MESSAGE_MAX: a message of several parts */
	uint32_t have, length; /* have == length > 0: whole, but not delivered yet */
	_Atomic uint64_t heard_ns;
	bool may_be_silent;

	/*
	 * Puts to the peer: those from `put_left` to `put_sent` have a bounce page each; the peer
	 * has taken those below `put_credit`.
	 */
	uint8_t put_slots[VERBS_PUTS];
	_Atomic uint64_t put_sent, put_left, put_credit;
	/*
	 * Puts of the peer: `put_come` over the queue pair, `put_taken` of them delivered, and
	 * `put_resent` by message.  `put_posted`: buffers given to the card, `put_flushed` of them
	 * came back empty.
	 */
	_Atomic uint64_t put_come, put_taken, put_resent, put_flushed;
	uint64_t put_posted;
	uint64_t put_reported; /* taken and resent ones, as last reported to the peer */
	uint32_t put_bytes[VERBS_PUTS];

	/* Joining `remote` anew: the connecting thread's, except what the peer says. */
	uint32_t join; /* enum verbs_join */
	uint64_t join_ns;             /* when it may begin again */
	_Atomic uint64_t join_theirs; /* 1 + what the peer says of its new one; 0: nothing */
	_Atomic uint64_t join_stored; /* puts that have come to the peer */
	_Atomic uint32_t joined;      /* the peer is; verbs_remote.c says how */

	/* Connecting; the connecting thread's, except `wanted_ns`. */
	struct rdma_cm_id *id;
	bool began; /* this node did */
	_Atomic uint64_t
		wanted_ns; /* since when a message waits for the connection; 0: none does */
	uint64_t retry_ns;

	/* 1 + the part whose key the peer wants back; 0: none.  The polling thread sets it. */
	_Atomic uint32_t back;
};

/* A part of this node's memory that peers may read; but for `wants` the connecting thread's. */
struct verbs_part {
	struct ibv_mr *region;  /* NULL: it is not registered */
	uint64_t holders;       /* peers that were told the key; bits */
	uint64_t since_ns;      /* when it was registered */
	uint32_t younger;       /* 1 + the part that was registered next; 0: none was */
	uint32_t next;          /* in the list of parts with `wants`, before these are set */
	_Atomic uint64_t wants; /* peers that are to be told the key; bits */
};

/* VERBS_KEY_REFUSED: there was none; VERBS_KEY_LEAVING: it is to be given back. */
enum verbs_key_at {
	VERBS_KEY_NONE,
	VERBS_KEY_ASKED,
	VERBS_KEY_HELD,
	VERBS_KEY_REFUSED,
	VERBS_KEY_LEAVING
};

/* The key of a peer's part; written by the polling thread, before `at`. */
struct verbs_held {
	uint64_t address;
	_Atomic uint64_t again_ns; /* when a refused one may be asked for again */
	uint32_t key;
	_Atomic uint32_t at; /* enum verbs_key_at */
};

struct verbs_read {
	_Atomic(uint32_t *) done; /* NULL: it is a put */
	uint8_t *to;
	_Atomic uint64_t of; /* the peer and its part, see verbs_read_of */
	uint32_t bytes;
	_Atomic uint32_t over; /* a put that the card has failed to bring, and uses no more */
};

struct verbs_reads {
	unsigned answers; /* reads of a peer that this card answers at a time */
	struct ibv_cq *landings; /* of all that `remote` of any peer does */
	unsigned event_count; /* events of `landings` to be acknowledged */
	struct ibv_mr *region;
	uint8_t *bounce;       /* VERBS_READS times VERBS_READ_MAX: where reads land */
	uint64_t slots;        /* those that are registered; bits */
	_Atomic uint64_t free; /* and not in use */
	struct ibv_mr *in_region;
	uint8_t *in; /* VERBS_PUTS times VERBS_PUT_MESSAGE for each peer: messages of puts */
	size_t in_bytes;
	struct verbs_read under_way[VERBS_READS];
	_Atomic uint32_t reaping; /* a lock */
	_Atomic uint32_t landed;  /* reads that the next poll counts */
	_Atomic uint64_t come;    /* peers whose puts wait to be delivered; bits */
	_Atomic uint64_t broken;  /* peers whose `remote` is to be joined anew; bits */
	_Atomic uint32_t failed;  /* 1 + the peer whose reads failed; not told yet */

	uint8_t *shared; /* what peers may read of this node; theirs is as long */
	size_t shared_bytes;
	uint32_t part_count;
	struct verbs_part *parts;
	size_t parts_bytes;
	struct verbs_held *held; /* of all nodes, node by node */
	size_t held_bytes;
	uint64_t registered, most; /* bytes of parts */
	uint32_t oldest, youngest; /* 1 + registered parts; 0: there are none */
	_Atomic uint32_t wanted;   /* 1 + the first of the parts with `wants`; 0: there are none */
	_Atomic uint64_t back;     /* peers that want a key back; bits */

	/* The part that is about to be deregistered: */
	_Atomic uint32_t leaving; /* 1 + its number; 0: there is none */
	_Atomic uint64_t awaited; /* peers that have not given its key back; bits */
	uint64_t untold;          /* those of them that were not asked to */
};

struct verbs_state {
	struct roam_transport_params params;
	struct verbs_card *card;
	uint64_t mark;
	unsigned peer_count;       /* peers that this transport reaches */
	unsigned buffers;          /* for each peer, each way */
	_Atomic uint64_t want;     /* bits, as in the next masks: peers to be connected */
	_Atomic uint64_t arrivals; /* peers with arrivals */
	_Atomic uint64_t resting;  /* peers for which a rest is kept */
	_Atomic uint64_t owing;    /* peers that could not be told yet what is free here */
	_Atomic uint64_t due;
	_Atomic uint64_t strangers; /* refused, and not counted yet */
	_Atomic uint32_t failed;    /* 1 + the peer whose connection failed; not told yet */
	uint64_t beat_ns, beat_due;
	_Atomic uint32_t gathering, reaping, eventing; /* locks of both queues and the channel */
	int process;                                   /* that opened it */

	struct rdma_event_channel *events;
	struct rdma_cm_id *listener;
	struct ibv_context *device; /* our own: children inherit the manager's, which stays open */
	struct ibv_pd *domain;
	struct ibv_comp_channel *channel;
	struct ibv_cq *in, *out;
	unsigned event_count; /* events of `in` to be acknowledged */
	struct ibv_mr *region;
	uint8_t *memory; /* buffers: for each peer those for arrivals, then those for sending */
	size_t memory_bytes;
	uint8_t *aside; /* rests and messages of all peers, and this node's to itself */
	size_t aside_bytes;
	uint8_t timeout; /* the card's: 4.096 us << timeout */

	pthread_t thread;
	bool runs;
	int wanted; /* an eventfd: wakes the connecting thread */
	_Atomic uint32_t stop;
	struct roami_ear ear;

	/* Messages of this node to itself: a ring of lengths and bytes. */
	_Atomic uint32_t own_held;
	uint8_t *own; /* VERBS_OWN */
	_Atomic uint64_t own_put, own_taken;

	struct verbs_reads reads;

	roam_deliver_fn *deliver; /* of the poll under way */
	void *deliver_arg;
	struct verbs_peer peers[VERBS_NODES_MAX];
};

/* Steps by which a queue pair for one-sided operations is joined anew. */
enum verbs_join {
	VERBS_JOIN_NOT,
	VERBS_JOIN_MADE,  /* there is a new one */
	VERBS_JOIN_SAID,  /* the peer knows its number */
	VERBS_JOIN_JOINED, /* it is joined with the peer's */
	VERBS_JOIN_AWAITS /* the peer knows that, too */
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

/* Says more about why it does not open. */
__attribute__((format(printf, 2, 3))) void verbs_say(const struct verbs_state *verbs,
						     const char *format, ...);

/* Lets timers run not later than `when`. */
void verbs_due(struct verbs_state *verbs, uint64_t when);

/* The buffer of part `number` to or from a peer. */
uint8_t *verbs_out(const struct verbs_state *verbs, const struct verbs_peer *peer, uint64_t number);
uint8_t *verbs_in(const struct verbs_state *verbs, const struct verbs_peer *peer, uint64_t number);

/* ---- verbs_find.c */

bool verbs_probe(const struct roam_transport_value *options, char *why, size_t why_bytes);

/* The IPv4 address, host byte order, of the device that the options name; 0: `why` says why not. */
uint32_t verbs_address(const struct roam_transport_params *params, char *why, size_t why_bytes);

/* Memory for the card; NULL: there is none.  It is shared, so that no child gets a copy. */
uint8_t *verbs_map(size_t bytes);

/* Makes buffers and queues on the listener's device. */
enum roam_err verbs_memory(struct verbs_state *verbs);
void verbs_memory_free(struct verbs_state *verbs);

/* ---- verbs_connect.c */

enum roam_err verbs_connect_open(struct verbs_state *verbs);
void verbs_connect_close(struct verbs_state *verbs);

/* Notes that a message waits for a connection.  Any thread. */
void verbs_want(struct verbs_state *verbs, struct verbs_peer *peer);

/* ---- verbs_credit.c; the peer's lock is held, unless said otherwise */

/* Whether one more part may leave; `spare`: it carries only what is free here. */
bool verbs_may(struct verbs_state *verbs, struct verbs_peer *peer, bool spare);

/* Sends a part, whose payload is in its buffer already; false: the connection is broken. */
bool verbs_post(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t length,
		uint32_t offset, uint32_t bytes);

/* Sends what is no message; verbs_may has allowed it. */
void verbs_post_what(struct verbs_state *verbs, struct verbs_peer *peer, uint16_t what,
		     const void *data, uint32_t bytes);

/* Tells a peer of free buffers, if what it was told is old and no message tells it. */
void verbs_tell(struct verbs_state *verbs, struct verbs_peer *peer);

/* Sends as much of the rest as may leave. */
void verbs_push(struct verbs_state *verbs, struct verbs_peer *peer);

/* Gives the buffer of a part back to the card.  Takes the lock. */
void verbs_take(struct verbs_state *verbs, struct verbs_peer *peer);

/* Posts the buffer of part `number`. */
bool verbs_receive(struct verbs_state *verbs, struct verbs_peer *peer, uint64_t number);

/*
 * Notes what the peer says it has taken; false: that is more than was sent.  Takes the lock only if
 * a rest waits for that.  The polling thread alone.
 */
bool verbs_credited(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t taken);

/* Notes which parts have left.  Takes no lock. */
void verbs_reap(struct verbs_state *verbs);

/* Notes that the connection is over. */
void verbs_end(struct verbs_state *verbs, struct verbs_peer *peer, enum verbs_at how,
	       enum ibv_wc_status status);

/*
 * Runs the timers: rests, peers to be told, signs of life; names a peer that is lost.  Called by
 * the polling thread.
 */
void verbs_timers(struct verbs_state *verbs);

/* Begins the signs of life, after open. */
void verbs_begin_beat(struct verbs_state *verbs);

/* ---- verbs_read.c */

extern const struct roam_onesided verbs_onesided;

/* After the domain and the channel are there.  Without what it needs no read ever begins. */
void verbs_reads_open(struct verbs_state *verbs);
/* Ends what the card knows of; frees the rest, in a forked child, too. */
void verbs_reads_close(struct verbs_state *verbs);
void verbs_reads_free(struct verbs_reads *reads);

/* A bounce page for a peer's part; false: all are in use. */
bool verbs_slot_take(struct verbs_reads *reads, unsigned peer, uint64_t part, unsigned *slot_p);
void verbs_slot_give(struct verbs_reads *reads, unsigned slot);
uint8_t *verbs_slot_bytes(const struct verbs_reads *reads, unsigned slot);

/* Ends operations that are done; how many reads.  Any thread. */
unsigned verbs_read_reap(void *state);

/* The same; how many have been ended by any thread since the last call. */
unsigned verbs_read_landed(struct verbs_state *verbs);

/* ---- verbs_put.c */

enum roam_err verbs_put(void *state, unsigned to, const struct roam_put *puts, unsigned count,
			const struct iovec *message, unsigned parts);

/* The card is done with a put, or a buffer for those of peers; verbs->reads.reaping is held. */
void verbs_put_ended(struct verbs_state *verbs, unsigned slot, enum ibv_wc_status status);
void verbs_put_came(struct verbs_state *verbs, struct verbs_peer *peer, const struct ibv_wc *done);

/* Gives the card buffers for puts, as many as are free; the peer's lock is held. */
bool verbs_put_receive(struct verbs_state *verbs, struct verbs_peer *peer);

/* Hands messages of puts to `deliver`; false: the peer's bytes make no sense.  The poller. */
bool verbs_put_take(struct verbs_state *verbs, struct verbs_peer *peer, unsigned *taken);

/* Stores what came by message; *message_p: the message; false: it makes no sense.  The poller. */
bool verbs_put_store(struct verbs_state *verbs, const struct verbs_store *store, size_t bytes,
		     struct iovec *message_p);

/* What the peer says in a head of puts that it has taken; false: more than were sent. */
bool verbs_put_credited(struct verbs_peer *peer, uint16_t stored);

/*
 * Sends by message what has not come to the peer, of which `stored` puts have; false: some later.
 * The connecting thread, once no operation is under way.
 */
bool verbs_put_again(struct verbs_state *verbs, struct verbs_peer *peer, uint64_t stored);

/* ---- verbs_remote.c */

/* Makes the queue pair of an attempt to connect; the peer's lock is held. */
void verbs_remote_make(struct verbs_state *verbs, struct verbs_peer *peer);
/* What a hello says of it. */
uint32_t verbs_remote_says(const struct verbs_state *verbs, const struct verbs_peer *peer);
/* Joins it with the peer's, of which the peer's hello said `theirs`; or ends it. */
void verbs_remote_join(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t theirs);

/* An operation has failed: no other begins until the queue pair is joined anew.  Any thread. */
void verbs_remote_broken(struct verbs_state *verbs, struct verbs_peer *peer,
			 enum ibv_wc_status status);

/* What a peer says of its own; false: it makes no sense.  The polling thread alone. */
bool verbs_remote_told(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t what,
		       const struct verbs_key *key);

/* Joins broken ones anew; returns when it has more to do, in ms; -1: when it is woken. */
int verbs_remote_serve(struct verbs_state *verbs);

/* Says which peer's memory could not be reached. */
void verbs_remote_complain(struct verbs_state *verbs);

/* ---- verbs_key.c */

static inline uint64_t verbs_read_of(unsigned peer, uint64_t part)
{
	return part * VERBS_NODES_MAX + peer;
}

/*
 * Numbers of completions of one-sided operations: below VERBS_READS a read, or a put's message, in
 * that bounce page; with VERBS_ID_PART a part of a put; with VERBS_ID_BUFFER a buffer for the puts
 * of a peer, above it the attempt to connect.
 */
enum { VERBS_ID_PART = 64, VERBS_ID_BUFFER = 128, VERBS_ID_EPOCH = 256 };

static inline unsigned verbs_read_peer(uint64_t of)
{
	return (unsigned)(of % VERBS_NODES_MAX);
}

/* Bytes of a part of a node's memory. */
size_t verbs_part_bytes(const struct verbs_reads *reads, uint64_t part);

/* The key of a peer's part; NULL: it is not here, but is asked for where that makes sense. */
const struct verbs_held *verbs_key_held(struct verbs_state *verbs, struct verbs_peer *peer,
					uint64_t part);

/* What a peer says of a key; false: it makes no sense.  The polling thread alone. */
bool verbs_key_take(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t what,
		    const struct verbs_key *key);

/*
 * Registers what is wanted, tells the keys, takes keys back and gives them back; false: some later.
 * The connecting thread alone.
 */
bool verbs_keys_serve(struct verbs_state *verbs);

/* Wakes the connecting thread. */
void verbs_keys_wake(const struct verbs_state *verbs);

/* Says something of a key, or a struct verbs_key of verbs_remote.c, to a peer; false: later. */
bool verbs_key_say(struct verbs_state *verbs, struct verbs_peer *peer, uint16_t what,
		   const struct verbs_key *key);

/* Deregisters all parts. */
void verbs_parts_close(struct verbs_reads *reads);

#endif
