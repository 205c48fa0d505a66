/* What the programs of transactions share: their variables, and a record of attempts. */
#ifndef MULTI_TX_WORK_H
#define MULTI_TX_WORK_H

#include <stdint.h>

#include <roam/tx.h>

#include "multi.h"

#define PAGE (ROAM_PAGE_SIZE / sizeof(long))
#define LOCK ((const void *)(uintptr_t)turns)

static unsigned count = 2000;                /* of transactions, at each node */
static volatile long *pair, *baton, *turns; /* shared: of 2, 1 and 8 pages */

/* One thread's transactions. */
struct work {
	unsigned seed;
	unsigned attempts;
	unsigned committed, aborted;
	long last;
};

static inline void work_alloc(void)
{
	pair = must_alloc(2 * ROAM_PAGE_SIZE);
	baton = must_alloc(ROAM_PAGE_SIZE);
	turns = must_alloc(8 * ROAM_PAGE_SIZE);
}

static inline unsigned draw(unsigned *seed, unsigned limit)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 8) % limit;
}

static void committed(void *arg)
{
	((struct work *)arg)->committed++;
}

static void aborted(void *arg)
{
	((struct work *)arg)->aborted++;
}

/* Counts an attempt; each of its calls may begin the attempt anew. */
static inline void notes(struct work *work)
{
	must(roam_tx_on_commit(committed, work));
	must(roam_tx_on_abort(aborted, work));
	work->attempts++;
}

/* The least that a transaction can do; also inside of another one. */
static inline void nested(void *arg)
{
	(void)arg;
	*baton += 1;
}

#endif
