/*
 * A connection of a program that is attached to a server of elements, as the server sees it: bytes
 * in, bytes out; what the program asks is its session's.  Nothing here knows of sockets or threads;
 * pastset/attached/host.c does.
 *
 * Input is not trusted.  A client that does not know the key gets no further than its hello; what a
 * client with the key asks is checked all the same, for it may be wrong.
 */
#ifndef ROAMI_PAST_GUEST_H
#define ROAMI_PAST_GUEST_H

#include "link/flow.h"
#include "pastset/attached/session.h"

/* An element that clients have entered, beside what the kernel knows. */
struct roami_hosted {
	struct roami_template template;
	bool rounds; /* it has an X-function with participants */
	char name[ROAM_PS_NAME_MAX + 1];
	uint64_t moves, observes;
};

struct roami_guests {
	struct roami_past *past;
	uint8_t key[ROAMI_CHANNEL_KEY];
	struct roami_hosted *hosted[ROAMI_NODES_MAX]; /* by owner and element; NULL: no element */
	uint64_t serial;                              /* of operations that wait */
	uint32_t waiting; /* of those, at elements or in `done` */
	uint32_t attached;
	uint64_t refused;
	struct roami_session *sessions;
	uint32_t away;    /* of those, without a connection */
	struct roami_keep keep;
	uint64_t used, bound; /* bytes of sessions, connections, answers and what waits, */
	uint64_t fixed;       /* of those, of sessions and connections */
	struct roami_spin done_lock;
	struct roami_errand *done;    /* served, not yet answered; the last one first */
	struct roami_guest *speaking; /* those with bytes that go out */
	void (*wake)(void *arg);      /* there is one now; on any thread, done_lock is held */
	void *arg;
};

#define ROAMI_GUEST_IN_BYTES (2 * ROAMI_GUEST_FRAME_MAX) /* what comes in has so much room, */
#define ROAMI_GUEST_STRANGE  1024u /* and so much before it has shown the key */
#define ROAMI_GUESTS_LEAST   ((uint64_t)16 << 20) /* bound: that, if ROAM_PS_MEMORY is less */

struct roami_guest {
	struct roami_guests *all;
	struct roami_session *session; /* NULL: none yet, or it is on another connection */
	bool met;      /* its hello has come */
	bool attached; /* it has shown the key */
	bool leaves;   /* it says that it goes */
	bool lost;     /* it is to be dropped */
	bool speaks;   /* it is in the list of guests with bytes to send */
	struct roami_guest *next_speaking;
	struct roami_channel channel;
	struct roami_flow out;
};

/* ROAM_ENOMEM. */
enum roam_err roami_guests_init(struct roami_guests *all, struct roami_past *past,
				const uint8_t *key, const struct roami_keep *keep);
void roami_guests_fini(struct roami_guests *all);

/* A node's elements as clients number them: all of a job's. */
static inline uint32_t roami_hosted_number(unsigned owner, uint32_t element)
{
	return owner << ROAMI_ELEMENTS_BITS | element;
}

static inline unsigned roami_hosted_owner(uint32_t number)
{
	return number >> ROAMI_ELEMENTS_BITS;
}

static inline uint32_t roami_hosted_element(uint32_t number)
{
	return number & (ROAMI_ELEMENTS_MAX - 1);
}

/* The element of that number; NULL: no client has entered it. */
struct roami_hosted *roami_hosted_find(const struct roami_guests *all, uint32_t number);

/* The next guest that has bytes to send, or is lost; NULL: none. */
struct roami_guest *roami_guests_speaking(struct roami_guests *all);

/* A new connection, of which nothing is known yet. */
void roami_guest_init(struct roami_guest *guest, struct roami_guests *all);

/*
 * Handles the bytes in `in`, which it may change.  Returns how many it has used, and leaves the
 * beginning of an incomplete frame; SIZE_MAX: the guest must be dropped.
 */
size_t roami_guest_take(struct roami_guest *guest, uint8_t *in, size_t bytes);

/* Sends a frame.  false: no memory; the guest is lost, since frames must have no gap. */
bool roami_guest_send(struct roami_guest *guest, uint32_t kind, uint64_t number,
		      const struct roam_part *one, const struct roam_part *two);

/* Answers ROAMI_GUEST_LIST; adds what the server knows to `listings`. */
bool roami_guest_listed(struct roami_guest *guest, uint64_t number, const struct roami_list *ask,
			struct roami_listings *listings);

/* Counts so many more bytes of sessions and connections. */
void roami_guests_fix(struct roami_guests *all, int64_t bytes);

/* Forgets the client that uses most, while more than `bound` is used. */
void roami_guests_bound(struct roami_guests *all);

/* Marks the guest to be dropped. */
void roami_guest_lose(struct roami_guest *guest);

/* The connection is gone: takes back the operations that wait. */
void roami_guest_fini(struct roami_guest *guest);

#endif
