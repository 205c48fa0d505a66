/*
 * Litmus tests: tiny programs, and the outcomes that a model forbids or a protocol must be able to
 * show.
 */
#ifndef ROAM_TESTS_LITMUS_H
#define ROAM_TESTS_LITMUS_H

#include <stdbool.h>
#include <stdint.h>

#include "roam/protocol.h"

#define LITMUS_THREADS   4u /* one a node, see struct litmus_forbidden */
#define LITMUS_OPS       16u
#define LITMUS_REGISTERS 6u
#define ANY              255u /* in a pattern: whatever */

enum litmus_kind {
	LITMUS_END,
	LITMUS_WRITE, /* variable = value */
	LITMUS_READ,  /* register value = variable */
	LITMUS_ADD,   /* variable++, register value = what it was; ANY: not kept */
	LITMUS_COPY,  /* variable = register value */
	LITMUS_LOCK,
	LITMUS_UNLOCK,
	LITMUS_SET, /* a flag */
	LITMUS_WAIT,
	LITMUS_BARRIER, /* of all */
	LITMUS_SOME,    /* barrier of `value` threads */
	LITMUS_TURN,    /* waits for its turn; one thread at a time in witnesses */
	LITMUS_NEXT     /* the next turn begins */
};

struct litmus_op {
	enum litmus_kind kind;
	unsigned which; /* variable, lock, flag, barrier */
	unsigned value; /* value, register */
};

/* Variables 0 to 3 are called x, y, z, w. */
enum { X, Y, Z, V };

#define W(variable, value)                    \
	{                                     \
		LITMUS_WRITE, variable, value \
	}
#define R(variable, reg)                   \
	{                                  \
		LITMUS_READ, variable, reg \
	}
#define ADD(variable, reg)                \
	{                                 \
		LITMUS_ADD, variable, reg \
	}
#define COPY(variable, reg)                \
	{                                  \
		LITMUS_COPY, variable, reg \
	}
#define LOCK(lock)                   \
	{                            \
		LITMUS_LOCK, lock, 0 \
	}
#define UNLOCK(lock)                   \
	{                              \
		LITMUS_UNLOCK, lock, 0 \
	}
#define SET(flag)                   \
	{                           \
		LITMUS_SET, flag, 0 \
	}
#define WAIT(flag)                   \
	{                            \
		LITMUS_WAIT, flag, 0 \
	}
#define ALL                          \
	{                            \
		LITMUS_BARRIER, 0, 0 \
	}
#define SOME(barrier, threads)                \
	{                                     \
		LITMUS_SOME, barrier, threads \
	}
#define TURN(number)                   \
	{                              \
		LITMUS_TURN, number, 0 \
	}
#define NEXT                      \
	{                         \
		LITMUS_NEXT, 0, 0 \
	}

/* Outcomes: registers 0 to 5, ANY for those that do not matter. */
struct litmus_outcome {
	bool used;
	uint8_t registers[LITMUS_REGISTERS];
};

#define OUTCOME(...)                \
	{                           \
		true,               \
		{                   \
			__VA_ARGS__ \
		}                   \
	}

enum litmus_layout {
	LITMUS_PAGES,
	LITMUS_PAGE,
	LITMUS_BYTES
}; /* own pages, one page, neighbouring bytes */

/* Random schedules: none of the outcomes may be seen. */
struct litmus_forbidden {
	const char *name;
	unsigned threads;
	enum litmus_layout layout;
	struct litmus_op ops[LITMUS_THREADS][LITMUS_OPS];
	bool unsynchronised;
	bool guest; /* the last thread is a second one of the node before */
	struct litmus_outcome only;      /* the one that may be */
	struct litmus_outcome always[3]; /* none of these under any model */
	struct litmus_outcome rc[3];     /* nor these but under scope consistency */
	struct litmus_outcome sc[3];     /* nor these under sequential consistency */
	struct litmus_outcome seen[2];   /* must be seen now and then, or the test is asleep */
};

/* One schedule: the outcome must be this one.  Lock i is at home at node i. */
struct litmus_witness {
	const char *name;
	bool (*shows)(const struct roam_protocol *protocol); /* which ones do */
	struct litmus_op ops[LITMUS_THREADS][LITMUS_OPS];
	struct litmus_outcome outcome;
};

extern const struct litmus_forbidden litmus_forbidden[]; /* end with a NULL name */
extern const struct litmus_witness litmus_witnesses[];

#endif
