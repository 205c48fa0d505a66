/*
 * A client of a server of elements, over all its connections: its operations that wait, and the
 * answers that it may not have heard, so that a broken connection does nothing twice (rule 11.4).
 *
 * An answer is remembered until the client has heard it, as each of its frames says.  A client asks
 * ROAMI_GUEST_ASKS_MAX operations at a time at most, so no more answers are unheard; one that asks
 * more loses the oldest.  While a client has no connection none of its operations waits: they are
 * taken back, and begun again when the client repeats them.
 */
#ifndef ROAMI_PAST_SESSION_H
#define ROAMI_PAST_SESSION_H

#include "pastset/attached/frames.h"

struct roami_guests;
struct roami_guest;

/*
 * Limits of what is remembered of clients without a connection; beyond them, the one longest
 * without is forgotten.
 */
struct roami_keep {
	uint64_t ns;    /* so long */
	uint64_t bytes; /* of answers, in all */
};

struct roami_session {
	struct roami_guests *all;
	struct roami_session *next, *before; /* of all */
	uint64_t id;                         /* by which the client comes again */
	struct roami_guest *guest;           /* its connection; NULL: it has none */
	uint64_t since;                      /* when its connection ended */
	uint64_t highest;                    /* number of an operation so far */
	struct roami_errand *errands;        /* that wait */
	uint32_t errand_count, memo_count;
	uint64_t memo_bytes, errand_bytes;
	/*
	 * Answers: first those that must be repeated, then the others in the order in which they
	 * were sent.
	 */
	struct roami_memo *memos[ROAMI_GUEST_ASKS_MAX];
	uint32_t *parts; /* elements whose X-functions it takes part in */
	uint32_t part_count;
};

/* NULL: there is no memory. */
struct roami_session *roami_session_make(struct roami_guests *all, struct roami_guest *guest);

/* The session of that id; NULL: it is not known, or no longer. */
struct roami_session *roami_session_find(const struct roami_guests *all, uint64_t id);

/*
 * The client comes again, and says what it has heard and wants to hear.  false: not all of its
 * operations that waited are taken back yet; it may come once more.
 */
bool roami_session_resume(struct roami_session *session, struct roami_guest *guest,
			  const struct roami_attach *ask);

/* The client has heard so many frames of this connection. */
void roami_session_heard(struct roami_session *session, uint32_t heard);

/*
 * The client asks for an operation, for the first time or again, with ROAM_PS_TUPLE_MAX bytes at
 * most, of a tuple or not.  false: the connection is to be dropped.
 */
bool roami_session_op(struct roami_session *session, uint64_t number, const struct roami_ask *ask,
		      const void *tuple, size_t bytes);

/* The client lists another node's elements.  false: the connection is to be dropped. */
bool roami_session_list(struct roami_session *session, uint64_t number,
			const struct roami_list *ask);

void roami_session_cancel(const struct roami_session *session, uint64_t number);

/* The connection is gone; the client may come again. */
void roami_session_away(struct roami_session *session);

/*
 * The client is gone.  If not of its own will (`leaves`), X-functions that it took part in are
 * broken, so that no other participant waits for ever.
 */
void roami_session_end(struct roami_session *session, bool leaves);

/* The outcome of an operation at another node; see relay_outcome of struct roami_past_job. */
void roami_session_outcome(void *errand, const struct roami_outcome *outcome, const void *rest,
			   size_t bytes);

/* Answers the operations that were served meanwhile. */
void roami_sessions_answer(struct roami_guests *all);

/* Forgets sessions by struct roami_keep.  The ns until the next one's time; UINT64_MAX: none. */
uint64_t roami_sessions_forget(struct roami_guests *all);

#endif
