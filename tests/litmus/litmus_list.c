/* The lists.  What is allowed is all that is not forbidden; what shows it is in the witnesses. */
#include "litmus.h"

#define A   0
#define B   1
#define F   0
#define G   1
#define ___ ANY

const struct litmus_forbidden litmus_forbidden[] = {
	{
		/* Both read before either write is seen. */
		"store buffering",
		2,
		LITMUS_PAGES,
		{{W(X, 1), R(Y, 0)}, {W(Y, 1), R(X, 1)}},
		.unsynchronised = true,
		.sc = {OUTCOME(0, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(0, 1, ___, ___, ___, ___), OUTCOME(1, 0, ___, ___, ___, ___)},
	},
	{
		"store buffering, locked",
		2,
		LITMUS_PAGES,
		{{LOCK(A), W(X, 1), R(Y, 0), UNLOCK(A)}, {LOCK(A), W(Y, 1), R(X, 1), UNLOCK(A)}},
		.always = {OUTCOME(0, 0, ___, ___, ___, ___), OUTCOME(1, 1, ___, ___, ___, ___)},
		.seen = {OUTCOME(0, 1, ___, ___, ___, ___), OUTCOME(1, 0, ___, ___, ___, ___)},
	},
	{
		"message passing",
		2,
		LITMUS_PAGES,
		{{W(X, 1), W(Y, 1)}, {R(Y, 0), R(X, 1)}},
		.sc = {OUTCOME(1, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(0, 0, ___, ___, ___, ___)},
	},
	{
		/* Written outside, told inside: what needs release consistency. */
		"message passing by a lock",
		2,
		LITMUS_PAGES,
		{{W(X, 1), LOCK(A), W(Y, 1), UNLOCK(A)}, {LOCK(A), R(Y, 0), UNLOCK(A), R(X, 1)}},
		.rc = {OUTCOME(1, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, ___, ___, ___, ___), OUTCOME(0, ___, ___, ___, ___, ___)},
	},
	{
		"message passing inside a section",
		2,
		LITMUS_PAGES,
		{{LOCK(A), W(X, 1), W(Y, 1), UNLOCK(A)}, {LOCK(A), R(Y, 0), UNLOCK(A), R(X, 1)}},
		.always = {OUTCOME(1, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, ___, ___, ___, ___), OUTCOME(0, ___, ___, ___, ___, ___)},
	},
	{
		/* What an inner section wrote is the outer lock's too. */
		"message passing inside an inner section",
		2,
		LITMUS_PAGES,
		{{LOCK(A), LOCK(B), W(X, 1), UNLOCK(B), W(Y, 1), UNLOCK(A)},
		 {LOCK(A), R(Y, 0), UNLOCK(A), R(X, 1)}},
		.always = {OUTCOME(1, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, ___, ___, ___, ___), OUTCOME(0, ___, ___, ___, ___, ___)},
	},
	{
		"a lock shows all its earlier sections",
		3,
		LITMUS_PAGES,
		{{LOCK(A), W(X, 1), UNLOCK(A)},
		 {LOCK(A), R(X, 0), COPY(Y, 0), UNLOCK(A)},
		 {LOCK(A), R(Y, 1), UNLOCK(A), R(X, 2)}},
		.always = {OUTCOME(1, 1, 0, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, 1, ___, ___, ___), OUTCOME(0, ___, ___, ___, ___, ___)},
	},
	{
		"message passing by a flag, out of a section",
		2,
		LITMUS_PAGES,
		{{LOCK(A), W(X, 1), UNLOCK(A), SET(F)}, {WAIT(F), R(X, 0)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, ___, ___, ___, ___, ___)},
	},
	{
		"message passing by a flag",
		2,
		LITMUS_PAGES,
		{{W(X, 1), SET(F)}, {WAIT(F), R(X, 0)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, ___, ___, ___, ___, ___)},
	},
	{
		"message passing by a barrier",
		2,
		LITMUS_PAGES,
		{{W(X, 1), ALL, R(Y, 0)}, {W(Y, 1), ALL, R(X, 1)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___),
			   OUTCOME(___, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, ___, ___, ___, ___)},
	},
	{
		"message passing by a barrier of some",
		3,
		LITMUS_PAGES,
		{{W(X, 1), SOME(1, 2), R(Y, 0)},
		 {W(Y, 1), SOME(1, 2), R(X, 1)},
		 {R(X, 2), R(Y, 3)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___),
			   OUTCOME(___, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, ___, ___, ___, ___)},
	},
	{
		"message passing, twice",
		2,
		LITMUS_PAGES,
		{{W(X, 1), ALL, ALL, W(X, 2), ALL, R(Y, 2)},
		 {ALL, R(X, 0), W(Y, 1), ALL, ALL, R(X, 1)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___), OUTCOME(___, 1, ___, ___, ___, ___),
			   OUTCOME(___, ___, 0, ___, ___, ___)},
		.seen = {OUTCOME(1, 2, 1, ___, ___, ___)},
	},
	{
		"load buffering",
		2,
		LITMUS_PAGES,
		{{R(X, 0), W(Y, 1)}, {R(Y, 1), W(X, 1)}},
		.always = {OUTCOME(1, 1, ___, ___, ___, ___)},
		.seen = {OUTCOME(0, 0, ___, ___, ___, ___)},
	},
	{
		/* Two readers that disagree which write came first. */
		"independent reads of independent writes",
		4,
		LITMUS_PAGES,
		{{W(X, 1)}, {W(Y, 1)}, {R(X, 0), R(Y, 1)}, {R(Y, 2), R(X, 3)}},
		.unsynchronised = true,
		.sc = {OUTCOME(1, 0, 1, 0, ___, ___)},
		.seen = {OUTCOME(1, ___, ___, ___, ___, ___), OUTCOME(0, ___, ___, ___, ___, ___)},
	},
	{
		/* One writer's values are not seen in another order. */
		"coherence",
		2,
		LITMUS_PAGES,
		{{W(X, 1), LOCK(A), UNLOCK(A), W(X, 2)}, {R(X, 0), LOCK(A), UNLOCK(A), R(X, 1)}},
		.always = {OUTCOME(2, 1, ___, ___, ___, ___), OUTCOME(2, 0, ___, ___, ___, ___),
			   OUTCOME(1, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(0, ___, ___, ___, ___, ___)},
	},
	{
		"own writes",
		2,
		LITMUS_PAGES,
		{{W(X, 1), LOCK(A), UNLOCK(A), R(X, 0)}, {LOCK(A), W(Y, 1), UNLOCK(A), R(Y, 1)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___),
			   OUTCOME(___, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, ___, ___, ___, ___)},
	},
	{
		"locks are transitive",
		3,
		LITMUS_PAGES,
		{{W(X, 1), LOCK(A), W(Y, 1), UNLOCK(A)},
		 {LOCK(A), R(Y, 0), UNLOCK(A), LOCK(B), COPY(Z, 0), UNLOCK(B)},
		 {LOCK(B), R(Z, 1), UNLOCK(B), R(X, 2)}},
		.rc = {OUTCOME(1, 1, 0, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, 1, ___, ___, ___)},
	},
	{
		"flags are transitive",
		3,
		LITMUS_PAGES,
		{{W(X, 1), SET(F)}, {WAIT(F), SET(G)}, {WAIT(G), R(X, 0)}},
		.rc = {OUTCOME(0, ___, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, ___, ___, ___, ___, ___)},
	},
	{
		"flag, lock and barrier",
		4,
		LITMUS_PAGES,
		{{W(X, 1), SET(F)},
		 {WAIT(F), LOCK(A), W(Y, 1), UNLOCK(A)},
		 {LOCK(A), R(Y, 0), UNLOCK(A), SOME(1, 2)},
		 {SOME(1, 2), R(Y, 1), R(X, 2)}},
		.rc = {OUTCOME(1, 0, ___, ___, ___, ___), OUTCOME(1, ___, 0, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, 1, ___, ___, ___), OUTCOME(0, ___, ___, ___, ___, ___)},
	},
	{
		/* Thread 2 may hear of the barrier's end after its node has heard of the flag. */
		"barrier of some, then a flag",
		4,
		LITMUS_PAGES,
		{{W(X, 1), SOME(1, 3)},
		 {SOME(1, 3), SET(F)},
		 {SOME(1, 3), R(X, 1)},
		 {R(X, 2), WAIT(F), R(X, 0)}},
		.guest = true,
		.always = {OUTCOME(___, 0, ___, ___, ___, ___)},
		.rc = {OUTCOME(0, ___, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, ___, ___, ___, ___, ___)},
	},
	{
		"false sharing",
		2,
		LITMUS_PAGE,
		{{W(X, 1), ALL, R(Y, 0)}, {W(Y, 1), ALL, R(X, 1)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___),
			   OUTCOME(___, 0, ___, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, ___, ___, ___, ___)},
	},
	{
		"false sharing under different locks",
		3,
		LITMUS_PAGE,
		{{LOCK(A), W(X, 1), UNLOCK(A), ALL, R(Y, 0)},
		 {LOCK(B), W(Y, 1), UNLOCK(B), ALL, R(X, 1)},
		 {LOCK(A), R(X, 4), W(Z, 1), UNLOCK(A), ALL, R(X, 2), R(Y, 3)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___), OUTCOME(___, 0, ___, ___, ___, ___),
			   OUTCOME(___, ___, 0, ___, ___, ___)},
		.seen = {OUTCOME(1, 1, 1, 1, 0, ___), OUTCOME(1, 1, 1, 1, 1, ___)},
	},
	{
		"neighbouring bytes of one word",
		4,
		LITMUS_BYTES,
		{{W(X, 1), ALL, R(Y, 0), R(Z, 1)},
		 {W(Y, 1), ALL, R(Z, 2), R(V, 3)},
		 {W(Z, 1), ALL, R(V, 4)},
		 {W(V, 1), ALL, R(X, 5)}},
		.always = {OUTCOME(0, ___, ___, ___, ___, ___), OUTCOME(___, ___, ___, 0, ___, ___),
			   OUTCOME(___, ___, ___, ___, ___, 0)},
		.seen = {OUTCOME(1, 1, 1, 1, 1, 1)},
	},
	{
		"migratory",
		4,
		LITMUS_PAGES,
		{{LOCK(A), ADD(X, ANY), UNLOCK(A), LOCK(A), ADD(X, ANY), UNLOCK(A), ALL, R(X, 0)},
		 {LOCK(A), ADD(X, ANY), UNLOCK(A), LOCK(A), ADD(X, ANY), UNLOCK(A), ALL, R(X, 1)},
		 {LOCK(A), ADD(X, ANY), UNLOCK(A), LOCK(A), ADD(X, ANY), UNLOCK(A), ALL, R(X, 2)},
		 {LOCK(A), ADD(X, ANY), UNLOCK(A), LOCK(A), ADD(X, ANY), UNLOCK(A), ALL, R(X, 3)}},
		.only = OUTCOME(8, 8, 8, 8, ___, ___),
		.seen = {OUTCOME(8, 8, 8, 8, ___, ___)},
	},
	{.name = NULL},
};

/* --------------------------------------------------------------------------- which show what */

static bool is_sequential(const struct roam_protocol *protocol)
{
	return protocol->model == ROAM_MODEL_SC;
}

static bool is_scoped(const struct roam_protocol *protocol)
{
	return protocol->model == ROAM_MODEL_SCC;
}

/* A node that acquires has been told all by then. */
static bool is_eager(const struct roam_protocol *protocol)
{
	return protocol->model == ROAM_MODEL_RC && protocol->acquire == NULL;
}

static bool is_lazy(const struct roam_protocol *protocol)
{
	return protocol->model == ROAM_MODEL_RC && protocol->acquire != NULL;
}

/* A home has what was released, and stays while others read there. */
static bool is_lazy_at_homes(const struct roam_protocol *protocol)
{
	return is_lazy(protocol) && !protocol->keeps_twins &&
	       protocol->homes != ROAM_HOMES_FOLLOWING;
}

static bool is_followed(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_FOLLOWING;
}

/* The writer has a copy, and no read brings it the page itself. */
static bool stays_behind(const struct roam_protocol *protocol)
{
	return protocol->writes == ROAM_WRITES_DIFF && protocol->homes != ROAM_HOMES_FOLLOWING &&
	       protocol->homes != ROAM_HOMES_EVERYWHERE;
}

/* There is nothing that could stay behind. */
static bool has_one_heap(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_EVERYWHERE;
}

/*
 * Thread 3 touches the variables first: its node is their home, the others have copies.  Lock A is
 * at home at thread 0's node: a release that no node acquires.
 */
const struct litmus_witness litmus_witnesses[] = {
	{
		"both stores are buffered",
		stays_behind,
		{{TURN(1), R(Y, 4), NEXT, TURN(3), W(X, 1), R(Y, 0), NEXT},
		 {TURN(2), R(X, 4), NEXT, TURN(4), W(Y, 1), R(X, 1), NEXT},
		 {TURN(5), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(0, 0, ___, ___, ___, ___),
	},
	{
		"a copy stays readable after another's release",
		is_lazy,
		{{TURN(2), W(X, 1), W(Y, 1), LOCK(A), UNLOCK(A), NEXT},
		 {TURN(1), R(X, 4), NEXT, TURN(3), R(Y, 0), R(X, 1), NEXT},
		 {TURN(4), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(1, 0, ___, ___, 0, ___),
	},
	{
		"an acquire of another lock does not show it either",
		is_lazy,
		{{TURN(2), W(X, 1), LOCK(A), UNLOCK(A), NEXT},
		 {TURN(1), R(X, 4), NEXT, TURN(3), LOCK(B), R(X, 0), UNLOCK(B), LOCK(A), R(X, 1),
		  UNLOCK(A), NEXT},
		 {TURN(4), NEXT},
		 {TURN(0), W(X, 0), NEXT}},
		OUTCOME(0, 1, ___, ___, 0, ___),
	},
	{
		"two readers disagree which write came first",
		is_lazy_at_homes,
		{{TURN(4), W(Y, 1), LOCK(A), UNLOCK(A), NEXT},
		 {TURN(1), R(Y, 4), NEXT, TURN(5), R(X, 0), R(Y, 1), NEXT},
		 {TURN(2), R(X, 5), NEXT, TURN(6), R(Y, 2), R(X, 3), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), LOCK(B), UNLOCK(B), NEXT, TURN(3), W(X, 1), NEXT}},
		OUTCOME(1, 0, 1, 0, 0, 0),
	},
	{
		"a lock does not show what was written before its section",
		is_scoped,
		{{TURN(2), W(X, 1), LOCK(A), W(Y, 1), UNLOCK(A), NEXT},
		 {TURN(1), R(X, 4), NEXT, TURN(3), LOCK(A), R(Y, 0), UNLOCK(A), R(X, 1), NEXT},
		 {TURN(4), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(1, 0, ___, ___, 0, ___),
	},
	{
		"locks are not transitive",
		is_scoped,
		{{TURN(2), LOCK(A), W(X, 1), UNLOCK(A), NEXT},
		 {TURN(3), LOCK(A), R(X, 0), UNLOCK(A), LOCK(B), W(Y, 1), UNLOCK(B), NEXT},
		 {TURN(1), R(X, 4), NEXT, TURN(4), LOCK(B), R(Y, 1), UNLOCK(B), R(X, 2), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(1, 1, 0, ___, 0, ___),
	},
	{
		"a flag passes on its setter's own writes only",
		is_scoped,
		{{TURN(2), W(X, 1), SET(F), NEXT},
		 {TURN(3), WAIT(F), SET(G), NEXT},
		 {TURN(1), R(X, 4), NEXT, TURN(4), WAIT(G), R(X, 0), NEXT},
		 {TURN(0), W(X, 0), NEXT}},
		OUTCOME(0, ___, ___, ___, 0, ___),
	},
	/* The home moves to each reader, and stays at the last one. */
	{
		"both stores are buffered",
		is_followed,
		{{TURN(1), R(X, 4), R(Y, 4), NEXT, TURN(3), W(X, 1), R(Y, 0), NEXT},
		 {TURN(2), R(X, 4), R(Y, 4), NEXT, TURN(4), W(Y, 1), R(X, 1), NEXT},
		 {TURN(5), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(0, 0, ___, ___, 0, ___),
	},
	{
		"the second writer reads the first one's",
		is_sequential,
		{{TURN(1), W(X, 1), R(Y, 0), NEXT},
		 {TURN(2), W(Y, 1), R(X, 1), NEXT},
		 {TURN(3), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(0, 1, ___, ___, ___, ___),
	},
	{
		"a write is seen without any synchronisation",
		is_sequential,
		{{TURN(2), W(X, 1), W(Y, 1), NEXT},
		 {TURN(1), R(X, 4), NEXT, TURN(3), R(Y, 0), R(X, 1), NEXT},
		 {TURN(4), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(1, 1, ___, ___, 0, ___),
	},
	{
		"a release is seen without an acquire",
		is_eager,
		{{TURN(2), W(X, 1), W(Y, 1), LOCK(A), UNLOCK(A), NEXT},
		 {TURN(1), R(X, 4), NEXT, TURN(3), R(Y, 0), R(X, 1), NEXT},
		 {TURN(4), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(1, 1, ___, ___, 0, ___),
	},
	{
		"a store is seen without a release",
		has_one_heap,
		{{TURN(2), W(X, 1), W(Y, 1), NEXT},
		 {TURN(1), R(X, 4), NEXT, TURN(3), R(Y, 0), R(X, 1), NEXT},
		 {TURN(4), NEXT},
		 {TURN(0), W(X, 0), W(Y, 0), NEXT}},
		OUTCOME(1, 1, ___, ___, 0, ___),
	},
	{.name = NULL},
};
