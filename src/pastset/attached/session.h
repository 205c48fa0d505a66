/*
 * A client of a server of elements, over all his connections: the operations of his that wait, and
 * what he was answered and may not have heard, so that a broken connection does nothing twice
 * (rule 11.4).
 *
 * An answer is remembered until the client says that he has heard it, as each of his frames does.
 * He asks ROAMI_GUEST_ASKS_MAX operations at a time at most, so no more answers are unheard; who
 * asks more loses the oldest.  While he is away nothing of his waits: what did is taken back, and
 * begun again when he repeats it.
 */
#ifndef ROAMI_PAST_SESSION_H
#define ROAMI_PAST_SESSION_H

#include "pastset/attached/frames.h"

struct roami_guests;
struct roami_guest;

/* What is remembered of those who are away: beyond that, who has been longest is forgotten. */
struct roami_keep {
	uint64_t ns;    /* so long */
	uint64_t bytes; /* of answers, in all */
};

struct roami_session {
	struct roami_guests *all;
	struct roami_session *next, *before; /* of all */
	uint64_t id;                         /* by which he comes again */
	struct roami_guest *guest;           /* his connection; NULL: he is away */
	uint64_t since;                      /* when he went away */
	uint64_t highest;                    /* number that he has asked by */
	struct roami_errand *errands;        /* that wait */
	uint32_t errand_count, memo_count;
	uint64_t memo_bytes, errand_bytes;
	/* Answers: those yet to be repeated, then others in the order they were sent in. */
	struct roami_memo *memos[ROAMI_GUEST_ASKS_MAX];
	uint32_t *parts; /* elements whose X-functions he takes part in */
	uint32_t part_count;
};

/* NULL: there is no memory. */
struct roami_session *roami_session_make(struct roami_guests *all, struct roami_guest *guest);

/* The one of that id; NULL: it is not known, any more. */
struct roami_session *roami_session_find(const struct roami_guests *all, uint64_t id);

/*
 * He comes again, and says what he has heard and wants to hear.  false: not all of his that waited
 * is taken back; he may come once more.
 */
bool roami_session_resume(struct roami_session *session, struct roami_guest *guest,
			  const struct roami_attach *ask);

/* He has heard so many frames of this connection. */
void roami_session_heard(struct roami_session *session, uint32_t heard);

/*
 * He asks for an operation, for the first time or again, with what goes with it: ROAM_PS_TUPLE_MAX
 * bytes at most, of a tuple or not.  false: he is to be dropped.
 */
bool roami_session_op(struct roami_session *session, uint64_t number, const struct roami_ask *ask,
		      const void *tuple, size_t bytes);

/* He asks for elements of another node, which is there.  false: he is to be dropped. */
bool roami_session_list(struct roami_session *session, uint64_t number,
			const struct roami_list *ask);

void roami_session_cancel(const struct roami_session *session, uint64_t number);

/* His connection is gone; he may come again. */
void roami_session_away(struct roami_session *session);

/* He is gone, of his own will or not: then nobody waits for ever for what he was to move. */
void roami_session_end(struct roami_session *session, bool leaves);

/* Of an operation on another node's element; as relay_told of struct roami_past_job. */
void roami_session_told(void *errand, const struct roami_told *told, const void *rest,
			size_t bytes);

/* Answers those whose operations were served meanwhile. */
void roami_sessions_answer(struct roami_guests *all);

/* Forgets whom struct roami_keep says.  The ns until the next one's time; UINT64_MAX: nobody's. */
uint64_t roami_sessions_forget(struct roami_guests *all);

#endif
