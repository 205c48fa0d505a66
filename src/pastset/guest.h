/*
 * A program that is attached to a server of elements, as the server sees it: bytes in, bytes out,
 * and operations in between.  Nothing here knows of sockets or threads; pastset/host.c does.
 *
 * What comes is not trusted.  Whoever does not know the key gets no further than his hello; what a
 * client that knows it asks is checked all the same, for it may be wrong.
 */
#ifndef ROAMI_PAST_GUEST_H
#define ROAMI_PAST_GUEST_H

#include "pastset/frames.h"

/* An element that clients have entered, beside what the kernel knows. */
struct roami_hosted {
	struct roami_template template;
	char name[ROAM_PS_NAME_MAX + 1];
	uint64_t moves, observes;
};

struct roami_guests {
	struct roami_past *past;
	uint8_t key[ROAMI_CHANNEL_KEY];
	struct roami_hosted *hosted; /* by element */
	uint64_t serial;             /* of operations that wait */
	uint32_t attached;
	uint64_t refused;
	struct roami_spin done_lock;
	struct roami_errand *done;    /* served, not yet answered; the last one first */
	struct roami_guest *speaking; /* those with bytes that go out */
	void (*wake)(void *arg);      /* there is one now; on any thread */
	void *arg;
};

/* Bytes that go out. */
struct roami_flow {
	uint8_t *bytes;
	size_t at, end, room;
};

struct roami_guest {
	struct roami_guests *all;
	bool met;      /* his hello has come */
	bool attached; /* he knows the key */
	bool leaves;   /* and goes of his own will */
	bool lost;     /* he is to be dropped */
	bool speaks;   /* he is in the list of those who do */
	struct roami_guest *next_speaking;
	struct roami_channel channel;
	struct roami_flow out;
	struct roami_errand *errands; /* that wait */
	uint32_t errand_count;
	uint32_t *parts; /* elements whose X-functions he takes part in */
	uint32_t part_count;
};

/* ROAM_ENOMEM. */
enum roam_err roami_guests_init(struct roami_guests *all, struct roami_past *past,
				const uint8_t *key);
void roami_guests_fini(struct roami_guests *all);

/* Answers those whose operations were served meanwhile. */
void roami_guests_answer(struct roami_guests *all);

/* Somebody who has something to be sent, or is lost; NULL: nobody. */
struct roami_guest *roami_guests_speaking(struct roami_guests *all);

/* Somebody of whom nothing is known yet. */
void roami_guest_init(struct roami_guest *guest, struct roami_guests *all);

/*
 * Takes what lies in `in`, which it may change.  Returns how much of it; SIZE_MAX: he is to be
 * dropped.  What is left is the beginning of what is not complete.
 */
size_t roami_guest_take(struct roami_guest *guest, uint8_t *in, size_t bytes);

/* He is gone: his operations do not wait any more.  Nothing of him is kept. */
void roami_guest_fini(struct roami_guest *guest);

#endif
