/*
 * One link of the reliable layer: what two nodes know of the datagrams between them, seen from one
 * side.  Any thread may enter the sending half (link_out.c), only the polling thread the arriving
 * half (link_in.c); the link's lock guards what both touch.
 *
 * The room keeps rules 10.2 (what comes is checked as if it were hostile) and 10.3 (seal.h: keys,
 * nonces, silence before the first authentic packet).
 */
#ifndef ROAMI_LINK_H
#define ROAMI_LINK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "link/datagram.h"
#include "link/seal.h"
#include "roam/protocol.h"
#include "roam/transport.h"
#include "stats/stats.h"

#define ROAMI_LINKS_MAX     64u
#define ROAMI_LINK_BYTES    (384u * 1024) /* room for messages kept until they are acknowledged */
#define ROAMI_LINK_MESSAGE  (64u * 1024)  /* longest message */
#define ROAMI_LINK_HOLD_NS  300000u       /* how long an ack waits for a message to ride on */
/*
 * So many datagrams may always be under way, and so many are acknowledged at once: a sender that
 * waits for its window never waits for an ack that is held back.
 */
#define ROAMI_LINK_WINDOW_MIN 8u
#define ROAMI_STAMP_SHIFT   8

enum roami_sent { ROAMI_SENT_NOT, ROAMI_SENT_ONCE, ROAMI_SENT_ARRIVED };

/* A datagram kept until it is acknowledged. */
struct roami_kept {
	uint64_t sent_ns; /* the last time */
	uint64_t end;     /* where it ends, in bytes ever put into the store */
	uint32_t at;      /* where in the store */
	uint32_t bytes;
	enum roami_sent sent;
};

struct roami_link {
	_Atomic uint32_t held;
	unsigned peer;
	struct roami_seal seal;

	/* Leaving.  Datagrams first .. end - 1 are kept, those before `next` were sent. */
	uint64_t first, next, end;
	uint64_t credit;  /* the first datagram that may not be sent yet */
	uint64_t head;    /* bytes ever freed in the store */
	uint64_t tail;    /* bytes ever taken */
	uint8_t *store;   /* ROAMI_LINK_BYTES */
	uint32_t flight;  /* datagrams sent and not known to have arrived */
	uint32_t window;  /* how many datagrams may be under way, as losses show */
	uint32_t steady;  /* up to this window every arrival lets it grow */
	uint32_t grown;   /* arrivals since the window grew */
	uint64_t recover; /* losses before this datagram have narrowed the window */
	uint64_t rtt_ns, rtt_vary_ns;
	unsigned backoff;
	uint64_t spoke_ns; /* when a datagram was last sent */
	uint8_t *closed; /* encrypted copies: ROAM_SEND_MANY of ROAMI_DATAGRAM_MAX bytes */
	struct roami_kept kept[ROAMI_WINDOW];

	/* Arriving. */
	uint64_t expect;               /* every datagram before this one has arrived */
	uint64_t map[ROAMI_MAP_WORDS]; /* bit seq % ROAMI_WINDOW: the datagram is kept in `early` */
	uint8_t *early;                /* ROAMI_WINDOW of ROAMI_DATAGRAM_MAX bytes */
	uint16_t early_bytes[ROAMI_WINDOW];
	unsigned early_count;
	uint64_t heard_ns; /* when the last good datagram arrived; at first: the opening */
	bool heard;
	bool may_be_silent;
	unsigned owed; /* datagrams not acknowledged */
	bool owed_now;
	uint64_t owed_due;
	uint32_t echo;
	uint64_t echo_ns; /* when the stamp arrived; 0: none has yet */

	/* The message that fragments are joined to; only the polling thread uses it. */
	uint8_t *message;      /* ROAMI_LINK_MESSAGE */
	uint32_t have, length; /* have == length > 0: whole, but not delivered yet */
};

struct roami_reliable {
	struct roam_transport_params params;
	unsigned share;       /* credit given to each peer */
	uint32_t fragment;    /* payload of one datagram */
	_Atomic uint64_t due; /* no timer is earlier than this */
	uint64_t beat_ns;     /* how often each peer gets a sign of life; 0: never */
	uint64_t beat_due;
	uint64_t owing;       /* bits: peers whose datagrams arrived in the poll under way */
	unsigned refused;     /* links with a message that could not be delivered yet */
	uint8_t *memory;      /* of all links */
	size_t memory_bytes;
	_Atomic uintptr_t corker; /* the polling thread; it sends its handlers' messages last */
	uint64_t uncork;          /* bits: peers for which this thread keeps messages until then */
	_Atomic uint32_t own;     /* this node's messages to itself, kept in its link's store */
	roam_deliver_fn *deliver; /* of the poll under way */
	void *deliver_arg;
	unsigned delivered;
	uint64_t arrived_ns; /* when this poll took its last datagram; 0: it took none */
	int bad_peer;
	uint8_t *opened; /* ROAMI_DATAGRAM_MAX bytes: a decrypted datagram */
	struct roami_sealer sealer;
	struct roami_link links[ROAMI_LINKS_MAX];
};

#define ROAMI_RELIABLE_COUNT(reliable, name, n)                                               \
	do {                                                                                  \
		if ((reliable)->params.stats != NULL)                                         \
			ROAMI_COUNT((struct roami_stats *)(reliable)->params.stats, name, n); \
	} while (0)

static inline uint64_t roami_link_now(const struct roami_reliable *reliable)
{
	return reliable->params.now(reliable->params.now_arg);
}

void roami_link_lock(struct roami_link *link);
void roami_link_unlock(struct roami_link *link);

/* Whether some thread holds the link's lock; for contracts. */
static inline bool roami_link_locked(const struct roami_link *link)
{
	return atomic_load_explicit(&link->held, memory_order_relaxed) != 0;
}

/* Lets the layer's timers run not later than `when`. */
void roami_link_due(struct roami_reliable *reliable, uint64_t when);

/* ---- leaving; the lock is held */

/* Keeps a message cut into datagrams of `fragment` payload.  false: there is no room. */
bool roami_link_keep(struct roami_link *link, const struct iovec *parts, unsigned count,
		     size_t bytes, uint32_t fragment);

/* Frees the oldest datagram. */
void roami_link_drop(struct roami_link *link);

/* Sends as much of what is kept as credit and window allow. */
void roami_link_push(struct roami_reliable *reliable, struct roami_link *link, uint64_t now);

/* Sends a datagram without a message. */
void roami_link_ack(struct roami_reliable *reliable, struct roami_link *link, uint64_t now);

/*
 * Notes what a peer says has arrived; `map` may be NULL.  false: it names a datagram that was never
 * sent.
 */
bool roami_link_acked(struct roami_reliable *reliable, struct roami_link *link,
		      const struct roami_packet *packet, const uint64_t *map, uint64_t now);

/* Sends the resends and acks that are due; returns when the next is due, UINT64_MAX: none. */
uint64_t roami_link_timers(struct roami_reliable *reliable, struct roami_link *link, uint64_t now);

/* ---- arriving; the lock is not held */

/*
 * Takes a datagram of the link's peer; false: its content makes no sense, though the peer closed
 * it.
 */
bool roami_link_arrive(struct roami_reliable *reliable, struct roami_link *link, const void *data,
		       size_t bytes);

/* Delivers what could not be delivered when it arrived. */
bool roami_link_retry(struct roami_reliable *reliable, struct roami_link *link);

#endif
