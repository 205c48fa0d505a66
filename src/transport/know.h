/* Noting once how a peer is reached, by the thread that needs it first, from the peer's card. */
#ifndef ROAMI_KNOW_H
#define ROAMI_KNOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero at first. */
struct roami_known {
	_Atomic uint32_t at; /* 1: a thread is noting it; 2: it is noted */
};

/*
 * Whether it is known how to reach a peer, whose card says where that is: 0, not yet, and then the
 * same for ever.  One thread is given `note`.
 */
static inline bool roami_know(struct roami_known *known, const _Atomic uint64_t *card,
			      void (*note)(void *state, unsigned peer, uint64_t where), void *state,
			      unsigned peer)
{
	uint64_t where;
	uint32_t unknown = 0;

	if (atomic_load_explicit(&known->at, memory_order_acquire) == 2)
		return true;
	where = atomic_load(card);
	if (where == 0)
		return false; /* not open yet */
	if (!atomic_compare_exchange_strong(&known->at, &unknown, 1))
		return unknown == 2; /* otherwise another thread is noting it */
	note(state, peer, where);
	atomic_store_explicit(&known->at, 2, memory_order_release);
	return true;
}

#endif
