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
 * What a transport declares about itself.  A job chooses by these capabilities and by cost_ns how a
 * peer is reached; no other file knows a transport's name.  Threads can sleep at a transport if it
 * has `wait`.
 */
enum roam_transport_caps {
	ROAM_CAP_RELIABLE = 1, /* every message accepted by send() arrives exactly once */
	ROAM_CAP_ORDERED = 2,  /* messages of one sender arrive in the order sent */
	/*
	 * Messages lie in the segments of the peers, which must be mapped; the core may load from
	 * and store to these segments itself.
	 */
	ROAM_CAP_MAPPED = 4,
	ROAM_CAP_HOSTS = 8, /* reaches nodes of other hosts, too */
	ROAM_CAP_NAMED = 16, /* used only where ROAM_TRANSPORT names it, however cheap it is */
	ROAM_CAP_BARE = 32 /* messages are sealed only if ROAM_SEAL names a seal: auto uses the
			      transport only with ROAM_SEAL=off */
};

/*
 * Memory of one node that its peers can reach: with ROAM_CAP_MAPPED the part of the node's segment
 * that is for messages, else its *card*, in which the node says how it is reached.  NULL and 0 if
 * there is none.  The card of a node on another host is a copy of the first ROAM_CARD_BYTES bytes
 * as they were when that node had opened its transport; it is zero until the job has passed it on.
 */
#define ROAM_CARD_BYTES 96u

struct roam_transport_memory {
	void *base;
	size_t bytes;
};

/*
 * An option of a transport: an environment variable whose name begins with ROAM_ and the
 * transport's name in capitals.  It is read, checked, shown (`roam info options`) and compared
 * between nodes like every other option.
 */
struct roam_transport_option {
	const char *variable;
	const char *value;   /* the default */
	/* "least..most" for a number, words, "a|b|c", or "" for a text that the transport checks */
	const char *allowed;
	const char *meaning;
};

/* One line of a transport's table of options; the table ends with {.variable = NULL}. */
#define ROAM_TRANSPORT_OPTION(variable, value, allowed, meaning) {variable, value, allowed, meaning}

#define ROAM_TRANSPORT_TEXT 48u /* bytes of a text, with its end */

struct roam_transport_value {
	uint64_t number;
	unsigned word; /* the index of the word */
	char text[ROAM_TRANSPORT_TEXT];
};

struct roam_transport;

#define ROAM_SEND_MANY  44u
#define ROAM_STACKS_MAX 8u /* the most transports that a job joins */

/* A transport, or the highest layer over it, and the peers that it reaches (bit i: node i). */
struct roam_transport_stack {
	const struct roam_transport *transport;
	void *state;
	uint64_t peers;
};

struct roam_transport_params {
	unsigned node;
	unsigned nodes;
	const struct roam_transport_memory
		*memory; /* one per node, valid until close() */
	void *world;     /* the simulated world (sim only) */

	uint64_t (*now)(void *now_arg); /* nanoseconds; virtual in a simulated world */
	void *now_arg;
	/* The values of the transport's options, in their order; valid until open() returns. */
	const struct roam_transport_value *options;
	const char *option; /* layers: the user's setting for this one; NULL or "": none */
	char *why; /* where open() may write why it fails; NULL: nowhere */
	size_t why_bytes;
	unsigned mtu;       /* bytes of a packet on the network; 0: ask the kernel */
	uint32_t address;   /* IPv4 of this host, host byte order; 0: all peers are on this host */
	unsigned local;     /* nodes on this host, which share its memory; 0: not known */
	uint64_t others;    /* peers that another transport reaches (bit i: node i) */
	uint64_t read;      /* peers whose memory may be read by one-sided operations */
	int bell;           /* an eventfd by which `others` wake a thread in wait(); 0: none */
	/* file() of the job's other transports: wait() sleeps there, too; until open() returns. */
	const int *files;
	unsigned file_count;

	/* Layers (transports over another transport): the one below, opened, and its state. */
	const struct roam_transport *lower;
	void *lower_state;
	/* The layer that joins several stacks: these, each peer in one; until open() returns. */
	const struct roam_transport_stack *stacks;
	unsigned stack_count;
	void *stats;      /* the node's counters; NULL: none */
	const void *seal; /* the keys that seal datagrams; NULL: these have a checksum */

	/*
	 * Layers that notice silent peers call `lost` when a peer has been silent for deadline_ns.
	 * 0: they never do.
	 */
	uint64_t deadline_ns;
	void (*lost)(void *now_arg, unsigned peer, uint64_t silent_ns);

	/* Called when something arrives that no node of the job can have sent.  May be NULL. */
	void (*stranger)(void *now_arg);

	/*
	 * Called in poll(), seldom, with a line about the network that the user should read: a
	 * warning, without an end of line.  May be NULL.
	 */
	void (*notice)(void *now_arg, const char *line);

	/* Called when a thread of the transport's own has begun, 1, or ended, -1.  May be NULL. */
	void (*helper)(void *now_arg, int change);

	/*
	 * Called after a layer has sent something by itself, outside of its own send(): the peer
	 * may sleep in a place where the transport does not wake it.  NULL: the transport wakes it.
	 */
	void (*rouse)(void *now_arg, unsigned peer);
};

/*
 * Takes one message.  `data` is 8-byte aligned, valid during the call only, and not to be trusted:
 * a peer wrote it.  false: the message cannot be taken now; the transport keeps it and poll()
 * returns.
 */
typedef bool roam_deliver_fn(void *arg, unsigned from, const void *data, size_t bytes);

/*
 * One-sided operations, for a network card that reaches the memory of nodes on other hosts without
 * their processors.  Only verbs and the network of simulated worlds have them (rules 12).
 *
 * `attach` is called once, after open(), if the params' `read` is not 0, with the memory of the
 * node that peers may reach.  It is as long at all nodes; an address is a peer and an offset in it.
 *
 * ROAM_OK: the operation has begun.  ROAM_EAGAIN: there is no room, and nothing has begun.  Any
 * thread; never blocks.  Operations take effect in any order, also those to one peer, and neither
 * before nor after messages: one that must come later begins when the earlier one is done.
 *
 * `get` reads each 64 bytes at a time of its own between its beginning and its end, while the
 * peer's processors store.  A poll or reap of the caller's node will set `done` to 1, or to 2 +
 * enum roam_err; the local bytes must not change until then.
 *
 * `put` stores bytes at a peer, and no byte beside them; then the message is delivered there as one
 * that was sent: whoever gets it finds all bytes stored.  They are stored in any order, and each
 * may be stored more than once, until the message has been delivered, and not after.  The parts and
 * the message were copied when it returns.  NULL: there is none.
 */
struct roam_put {
	uint64_t to;
	const void *from;
	size_t bytes;
};

struct roam_onesided {
	enum roam_err (*attach)(void *state, void *memory, size_t bytes);
	enum roam_err (*get)(void *state, unsigned peer, uint64_t from, const struct iovec *parts,
			     unsigned count, uint32_t *done);
	/* Sets `done` of ended operations; returns how many.  Any thread, never blocks. */
	unsigned (*reap)(void *state);

	enum roam_err (*put)(void *state, unsigned peer, const struct roam_put *puts,
			     unsigned count, const struct iovec *message, unsigned parts);
	/* Of a put: its parts, their bytes, the bytes of its message, at most. */
	unsigned puts_max, put_bytes_max, put_message_max;
	/* A put lies in one stretch of so many bytes, which begins at a multiple of them. */
	uint64_t put_stretch;
};

/* Which thread sleeps at a transport: one of the application, or the service thread. */
enum roam_sleeper { ROAM_SLEEPER_APP, ROAM_SLEEPER_SERVICE };

struct roam_transport {
	const char *name;
	unsigned caps;
	unsigned cost_ns;   /* of a short message, roughly: the cheapest transport is chosen */
	size_t state_size;  /* the core allocates and zeroes this many bytes */
	size_t message_max; /* longest message in bytes */
	unsigned card_bytes; /* of its card; all transports of a build share ROAM_CARD_BYTES */
	const struct roam_transport_option *options; /* ends with variable NULL; NULL: none */

	/*
	 * Joins the job.  Called once, on the starting thread, with all peers' memory mapped.  May
	 * block.
	 */
	enum roam_err (*open)(void *state, const struct roam_transport_params *params);

	/* Leaves the job.  Called after a failed open(), too. */
	void (*close)(void *state);

	/*
	 * Queues one message made of `count` parts.  Any thread, also in handlers; never blocks.
	 * ROAM_OK: the parts were copied.  ROAM_EAGAIN: the queue is full, nothing was sent.
	 */
	enum roam_err (*send)(void *state, unsigned to, const struct iovec *parts, unsigned count);

	/*
	 * Hands at most `max` waiting messages of each peer to `deliver`; returns how many.  One
	 * thread at a time (the core holds the node's poll lock).  Never blocks.  If a peer's bytes
	 * are malformed, sets *bad_peer to the peer and returns 0.
	 */
	unsigned (*poll)(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			 int *bad_peer);

	/* Whether a message waits.  Any thread, no side effects, a few loads. */
	bool (*pending)(const void *state);

	/* All below may be NULL. */

	/*
	 * Whether the transport can run on this machine, in this process; without lasting effect.
	 * Writes to `why` exactly why not, or what is missing.  `options`: with these values of its
	 * options, too, in their order; NULL: with any.  Any thread, before open().  NULL: it
	 * always can.
	 */
	bool (*probe)(const struct roam_transport_value *options, char *why, size_t why_bytes);

	/* Layers: whether this one can use the option; if not, writes to `why` why not. */
	bool (*check)(const char *option, char *why, size_t why_bytes);

	/*
	 * send() for several messages of one part each, at most ROAM_SEND_MANY.  Returns how many
	 * were taken, from the first on.
	 */
	unsigned (*send_many)(void *state, unsigned to, const struct iovec *messages,
			      unsigned count);

	/* The longest message that the network lets arrive; NULL: message_max.  After open(). */
	size_t (*limit)(const void *state);

	/* Bytes of datagrams that can wait here before any is lost; NULL: enough.  After open(). */
	size_t (*room)(const void *state);

	/*
	 * When poll() must be called again even if nothing arrives, on the clock of the params;
	 * UINT64_MAX: never.  The time may be too early.  Any thread, a few loads.
	 */
	uint64_t (*due)(const void *state);

	/*
	 * Sleeps until a message may wait, wake() is called, or timeout_ns have passed (0: no
	 * limit).  One thread of each kind at a time.  A transport without wait() does not wake
	 * anybody: senders ring the bell in their peers' memory.
	 */
	void (*wait)(void *state, enum roam_sleeper who, uint64_t timeout_ns);

	/* Makes the thread in wait(), or the next one that calls it, return.  Any thread. */
	void (*wake)(void *state, enum roam_sleeper who);

	/*
	 * Chooses whether arrivals wake ROAM_SLEEPER_SERVICE from wait(), those that have arrived
	 * already included.  On after open().  Any thread.  NULL: they always do.
	 */
	void (*listen)(void *state, bool on);

	/*
	 * A descriptor that is readable while messages wait, for threads that sleep in another
	 * transport's wait(); -1: none.  After open().  If several transports with wait() are
	 * joined, threads sleep at one, and the others need file().
	 */
	int (*file)(const void *state);

	const struct roam_onesided *onesided;
};

#endif
