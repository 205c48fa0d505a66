/*
 * The plug-in interface of transports: how bytes move between the nodes of a job.
 *
 * A transport is one file, src/transport/NAME.c, that defines `const struct roam_transport
 * roami_transport_NAME`, plus its name in src/transport/meson.build.  It never sees pages,
 * protocols or locks.
 */
#ifndef ROAM_TRANSPORT_H
#define ROAM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "roam/roam.h"

/*
 * What a transport declares of itself.  A job chooses by this, and by cost_ns, how a peer is
 * reached; no other file knows a transport's name.  Whether threads can sleep at a transport shows
 * from its `wait`.
 */
enum roam_transport_caps {
	ROAM_CAP_RELIABLE = 1, /* every message accepted by send() arrives, once */
	ROAM_CAP_ORDERED = 2,  /* messages of one sender arrive in the order sent */
	/*
	 * Messages lie in the segments of its peers, which must be mapped; the core loads and
	 * stores there itself.
	 */
	ROAM_CAP_MAPPED = 4,
	ROAM_CAP_HOSTS = 8 /* reaches nodes of other hosts, too */
};

/*
 * Memory of one node that its peers can reach: with ROAM_CAP_MAPPED the part of its segment that is
 * for messages, else its card, where it says how it is reached.  NULL and 0 where there is none.
 * The card of a node on another host is a copy of its first ROAM_CARD_BYTES bytes as they were when
 * that one had opened its transport, and zero until the job has passed them on.
 */
#define ROAM_CARD_BYTES 64u

struct roam_transport_memory {
	void *base;
	size_t bytes;
};

/*
 * An option of a transport: a variable of the environment, named ROAM_ and the transport in
 * capitals first.  It is read, checked, shown (`roam info options`) and compared between nodes like
 * all others.
 */
struct roam_transport_option {
	const char *variable;
	const char *value;   /* the default */
	const char *allowed; /* "least..most": a number; else words, "a|b|c" */
	const char *meaning;
};

/* A line of a transport's table of options, which ends with {.variable = NULL}. */
#define ROAM_TRANSPORT_OPTION(variable, value, allowed, meaning) {variable, value, allowed, meaning}

struct roam_transport_value {
	uint64_t number;
	unsigned word; /* which of the words */
};

struct roam_transport;

#define ROAM_SEND_MANY 44u
#define ROAM_WAYS_MAX  8u /* transports that a job joins */

/* A transport, or the highest layer over it, and the peers that it reaches; bits. */
struct roam_transport_way {
	const struct roam_transport *transport;
	void *state;
	uint64_t peers;
};

struct roam_transport_params {
	unsigned node;
	unsigned nodes;
	const struct roam_transport_memory
		*memory; /* one per node, valid for the life of the transport */
	void *world;     /* the simulated world (sim only) */

	uint64_t (*now)(void *now_arg); /* nanoseconds; virtual in a simulated world */
	void *now_arg;
	/* The values of the transport's options, in their order; until open returns. */
	const struct roam_transport_value *options;
	const char *option; /* of layers: what the user set for this one; NULL or "": nothing */
	char *why; /* where open() may say more about why it fails; NULL: nowhere */
	size_t why_bytes;
	unsigned mtu;       /* bytes of a packet on the way, if set; 0: ask the kernel */
	uint32_t address;   /* IPv4 of this host, host byte order; 0: all peers are here */
	uint64_t others;    /* peers that another transport reaches, not this one; bits */
	int bell;           /* an eventfd by which `others` wake who is in wait(); 0: none */
	/* What wait() sleeps at, too: file() of the job's other transports; until open returns. */
	const int *files;
	unsigned file_count;

	/* Of layers, which are transports over another one: that one, opened, and its state. */
	const struct roam_transport *lower;
	void *lower_state;
	/* Of the layer that joins several, until open returns: these, each peer in one of them. */
	const struct roam_transport_way *ways;
	unsigned way_count;
	void *stats;      /* the node's counters; NULL: none */
	const void *seal; /* what datagrams are closed with; NULL: a checksum */

	/*
	 * Of layers that notice when a peer falls silent for so long: what to call then.  0: none
	 * does.
	 */
	uint64_t deadline_ns;
	void (*lost)(void *now_arg, unsigned peer, uint64_t silent_ns);

	/* To be called when something comes that no node of the job can have sent.  May be NULL. */
	void (*stranger)(void *now_arg);

	/*
	 * To be called after a layer has sent by itself, outside its own send(): the peer may sleep
	 * where the transport does not wake it.  NULL: it does.
	 */
	void (*rouse)(void *now_arg, unsigned peer);
};

/*
 * Takes one message.  `data` is 8-byte aligned, valid during the call only, and was written by a
 * peer: not trusted. false: cannot be taken now; the transport keeps it and poll returns.
 */
typedef bool roam_deliver_fn(void *arg, unsigned from, const void *data, size_t bytes);

/*
 * One-sided operations, for a card that reaches the memory of nodes of other hosts without their
 * processors.  No transport has them yet; how a node would reach a peer by them is a third kind,
 * beside loads and stores, and messages.  All or none are there, and then they are for every
 * operation on pages, headers and words of a peer that this transport reaches.
 *
 * A place is a peer and an offset in its segment, which `attach` has told it of: once, after open,
 * before the card is passed on, which says by what key peers may reach it.  They are asynchronous:
 * ROAM_OK: begun, `done` will be set to 1, or to 2 + enum roam_err, by a poll or reap of the
 * caller's node; ROAM_EAGAIN: no room, nothing has begun.  Local bytes stay the caller's until
 * then, and lie in its own attached segment.  What is begun to one peer happens in that order: a
 * flush puts its diffs and then the header, and a fence is no more than waiting for the last.
 * Processor atomics and those of the card are not atomic against each other: words that `atomic`
 * changes are changed by it alone, by their owner, too.
 */
enum roam_onesided_atomic { ROAM_ONESIDED_CAS, ROAM_ONESIDED_ADD };

struct roam_onesided {
	enum roam_err (*attach)(void *state, void *segment, size_t bytes);
	enum roam_err (*put)(void *state, unsigned peer, uint64_t to, const struct iovec *parts,
			     unsigned count, uint32_t *done);
	enum roam_err (*get)(void *state, unsigned peer, uint64_t from, const struct iovec *parts,
			     unsigned count, uint32_t *done);
	/* On an aligned word; *old: what was there.  ADD adds `value`, CAS stores it if `is`. */
	enum roam_err (*atomic)(void *state, unsigned peer, uint64_t at,
				enum roam_onesided_atomic what, uint64_t is, uint64_t value,
				uint64_t *old, uint32_t *done);
	/* Sets `done` of what has ended; how many.  Any thread, never blocks. */
	unsigned (*reap)(void *state);
};

/* Who sleeps at a transport: a thread of the application, the service thread. */
enum roam_sleeper { ROAM_SLEEPER_APP, ROAM_SLEEPER_SERVICE };

struct roam_transport {
	const char *name;
	unsigned caps;
	unsigned cost_ns;   /* of a short message, roughly: of several the least is taken */
	size_t state_size;  /* the core allocates and zeroes this many bytes */
	size_t message_max; /* longest message in bytes */
	unsigned card_bytes; /* of its card; all transports of a build share ROAM_CARD_BYTES */
	const struct roam_transport_option *options; /* ends without a variable; NULL: none */

	/* Joins.  Called once, on the starting thread; all peers' memory is mapped.  May block. */
	enum roam_err (*open)(void *state, const struct roam_transport_params *params);

	/* Leaves.  Also after a failed open. */
	void (*close)(void *state);

	/*
	 * Queues one message made of `count` parts.  Any thread, also in handlers; never blocks.
	 * ROAM_OK: copied, the caller keeps its buffers.  ROAM_EAGAIN: full, nothing was sent.
	 */
	enum roam_err (*send)(void *state, unsigned to, const struct iovec *parts, unsigned count);

	/*
	 * Hands at most `max` waiting messages to `deliver`; returns how many.  One thread at a
	 * time (the core holds the node's poll lock).  Never blocks.  A peer whose bytes make no
	 * sense: *bad_peer is set to it and 0 is returned.
	 */
	unsigned (*poll)(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			 int *bad_peer);

	/* Whether a message waits.  Any thread, no side effect, a few loads. */
	bool (*pending)(const void *state);

	/* All below may be NULL. */

	/*
	 * Whether this machine and process can run it, without lasting effect; `why`: exactly why
	 * not, or what of it is missing.  Any thread, before open.  NULL: always.
	 */
	bool (*probe)(char *why, size_t why_bytes);

	/* Of layers.  Whether it can use this option; else `why` says why not. */
	bool (*check)(const char *option, char *why, size_t why_bytes);

	/*
	 * Like send, for several messages of one part each; how many were taken, the first ones.
	 * At most ROAM_SEND_MANY.
	 */
	unsigned (*send_many)(void *state, unsigned to, const struct iovec *messages,
			      unsigned count);

	/* Longest message that arrives as things are; NULL: message_max.  After open. */
	size_t (*limit)(const void *state);

	/* Bytes of datagrams that may wait here before some are lost; NULL: enough.  After open. */
	size_t (*room)(const void *state);

	/*
	 * When poll must be called again even if nothing arrives, on the clock of the params;
	 * UINT64_MAX: never.  May be too early.  Any thread, a few loads.
	 */
	uint64_t (*due)(const void *state);

	/*
	 * Sleeps until a message may wait, wake() is called, or so many nanoseconds have passed (0:
	 * for ever).  One thread of each kind at a time.  A transport without it has no way of
	 * waking: senders ring the bell in the memory of their peers.
	 */
	void (*wait)(void *state, enum roam_sleeper who, uint64_t timeout_ns);

	/* The thread in wait(), or the next to come there, returns.  Any thread. */
	void (*wake)(void *state, enum roam_sleeper who);

	/*
	 * Whether what arrives wakes ROAM_SLEEPER_SERVICE from wait(), where what has arrived
	 * already counts; it does from the beginning.  Any thread.  NULL: it always does.
	 */
	void (*listen)(void *state, bool on);

	/*
	 * A file that can be read while messages wait, for who sleeps in another transport's
	 * wait().  After open; -1: none.  Where several with `wait` are joined, threads sleep at
	 * one, and the others need this.
	 */
	int (*file)(const void *state);

	const struct roam_onesided *onesided;
};

#endif
