/*
 * Rounds of an X-function of two participants, one at the element's node, the other, its *partner*,
 * at another.  What the first has moved is sent to the partner's node ahead of its asking: the
 * *partial* of the round.  A mob there sends its tuple as ever, but combines it with the partial by
 * itself, in the element's order, and does not wait for an answer.  So what both have to say is on
 * its way at the same time.
 *
 * The element's node does not know whether the partner has used a partial until its tuple comes.
 * An operation that would tell the difference waits meanwhile, and the partial is *recalled*:
 * either the partner has used it, then the tuple is on its way, or it is returned and not used any
 * more.
 */
#ifndef ROAMI_PAST_PARTIAL_H
#define ROAMI_PAST_PARTIAL_H

#include "pastset/kernel.h"

#define ROAMI_TAKERS_MAX  64u  /* elements at others of which a node takes partials */

enum roami_partial_step { ROAMI_PARTIAL_GIVEN, ROAMI_PARTIAL_RECALLED, ROAMI_PARTIAL_RETURNED };

/* About a round's partial; with ROAMI_PARTIAL_GIVEN its bytes follow. */
struct roami_partial_head {
	uint64_t round;
	uint32_t element; /* of its owner's */
	uint32_t step;
};

struct roami_given {
	_Atomic uint64_t round; /* 0: nothing yet */
	uint8_t tuple[ROAMI_PARTIAL_MAX];
};

/* The partials that a node got of another node's element; its bindings at this node share them. */
struct roami_taker {
	uint32_t owner, element;
	uint32_t bytes;    /* of its tuples */
	uint32_t spare;
	uint64_t wanted;   /* up to this round the participant here uses the partial, if given; */
	uint64_t returned; /* up to this one it does not, but for those it wanted before */
	struct roami_given given[2]; /* even and odd: the next may come before this one is read */
};

/* All that a node has. */
struct roami_takers {
	struct roami_spin lock;
	uint32_t count;
	struct roami_taker takers[ROAMI_TAKERS_MAX];
};

/* ---- at the partner's node */

/* Of an element whose tuples have so many bytes.  NULL: there are too many. */
struct roami_taker *roami_taker_open(struct roami_past *past, uint32_t owner, uint32_t element,
				     uint32_t bytes);

/*
 * The participant moves to the round now.  true: it says so to the owner, which either answers or
 * has given a partial for it; false: it will be answered.
 */
bool roami_taker_want(struct roami_past *past, struct roami_taker *taker, uint64_t round);

/* The partial of the round that the operation wants; NULL: it is not here, and may never come. */
const void *roami_taker_given(const struct roami_taker *taker, uint64_t round);

/* ---- at the element's node; no lock is held */

void roami_partial_give(struct roami_past *past, uint32_t element,
			const struct roami_partial *partial);
void roami_partial_recall(struct roami_past *past, unsigned partner, uint32_t element,
			  uint64_t round);

/* ---- of both: ROAMI_PAST_PARTIAL has come */
void roami_partial_heard(struct roami_node *node, const struct roam_request *request);

#endif
