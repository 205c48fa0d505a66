#include "plurix.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static bool locks; /* this process's, set once */
static const char step_lock[1], step_cond[1];
static jmp_buf *again; /* of the step under way, under the lock */

void step_by_tx(void)
{
	locks = false;
}

void step_by_lock(void)
{
	locks = true;
}

/* A step under the lock has stored nothing when it calls step_again, so a jump is enough. */
static void step_locked(roam_tx_fn *fn, void *arg)
{
	jmp_buf jump;

	must(roam_lock(step_lock));
	again = &jump;
	if (setjmp(jump) != 0)
		must(roam_cond_wait(step_cond, step_lock));
	fn(arg);
	must(roam_cond_broadcast(step_cond));
	must(roam_unlock(step_lock));
}

void step(roam_tx_fn *fn, void *arg)
{
	if (locks)
		step_locked(fn, arg);
	else
		must(roam_tx(fn, arg, NULL));
}

void step_again(void)
{
	if (locks)
		longjmp(*again, 1);
	roam_tx_retry();
}

uint64_t draw(uint64_t *state, uint64_t limit)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (*state >> 33) % limit;
}
