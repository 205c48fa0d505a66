/*
 * The common part of the programs of transactions, beside that of tuples/: each runs its steps
 * either as transactions or under one lock (-m tx, -m lock), and is verified either way.
 */
#ifndef PLURIX_H
#define PLURIX_H

#include "../tuples/tuples.h"

#include <roam/tx.h>

/* Runs fn(arg) as one step of all processes. */
void step(roam_tx_fn *fn, void *arg);

/* In a step: nothing of it happens; it runs again when another process has changed something. */
__attribute__((noreturn)) void step_again(void);

/* The models of such a program, whose function is `work`. */
#define PLURIX_MODELS(work)                        \
	{                                          \
		{"tx", step_by_tx, work},          \
		{                                  \
			"lock", step_by_lock, work \
		}                                  \
	}
void step_by_tx(void);
void step_by_lock(void);

/* A random number less than `limit`; the sequence follows from *state. */
uint64_t draw(uint64_t *state, uint64_t limit);

#endif
