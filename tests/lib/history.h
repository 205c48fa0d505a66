/*
 * Whether what clients saw of one PastSet element can be explained: is there an order of the
 * operations in which each lies between its call and its return, and every outcome is the one that
 * rule 11 gives?  The answer is exact, by trying all orders, so histories must be short.
 */
#ifndef ROAM_TESTS_HISTORY_H
#define ROAM_TESTS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"
#include "roam/pastset.h"

#define HISTORY_MAX        64u
#define HISTORY_UNSURE_MAX 16u

/* An operation and its outcome, as the client saw them.  A mob is two events. */
struct history_event {
	uint64_t begin, end; /* times of one clock, all different */
	unsigned after;      /* 1 + the event that is the first half of this mob; 0: none */
	unsigned thread;     /* for readers of the test's output */
	enum roam_ps_op op;
	enum roam_ps_which which;
	unsigned flags;
	uint64_t argument; /* a number, DeltaValue */
	uint64_t value;    /* of the tuple moved, or observed */
	enum roam_err err;
	uint64_t number; /* of the tuple moved, or observed */
	bool skipped;
	unsigned unsure; /* 1 + its number among the ROAM_ELOST, which were done since or never */
	struct roam_ps_state state;
};

struct history {
	struct history_event events[HISTORY_MAX];
	unsigned count;
	unsigned unsure; /* events; no more than HISTORY_UNSURE_MAX can be explained */
	uint64_t delta; /* the element's DeltaValue when it was made */
};

/* Draws an operation on one of a few tuples; its timeout, memory and cancel are the caller's. */
void history_draw(struct rng *rng, struct roam_ps_request *request);

/* Notes that an operation is called. */
struct history_event *history_begin(struct history *history, uint64_t now, unsigned thread,
				    const struct roam_ps_request *request);

/*
 * Notes that a mob is called, as its two halves; `from` is the history of the element where it
 * observes.
 */
struct history_event *history_begin_mob(struct history *history, struct history *from,
					uint64_t now, unsigned thread,
					const struct roam_ps_request *request,
					struct history_event **second_p);

/*
 * Notes that the operation has returned; `second` is the observe of a mob, else NULL.  Of the
 * values, only one that was moved or observed counts.
 */
void history_end(struct history_event *event, struct history_event *second, uint64_t now,
		 const struct roam_ps_request *request, enum roam_err err, uint64_t moved,
		 uint64_t observed);

/*
 * Marks timed-out or cancelled operations that may never have been tried: they tell nothing of the
 * element.  Called before history_trim.
 */
void history_doubt_waits(struct history *history);

/*
 * Drops the second halves of mobs whose first was not done, and counts the events that may have
 * been done or not; called before the functions below.
 */
void history_trim(struct history *history);

bool history_explained(const struct history *history);

void history_print(const struct history *history);

#endif
