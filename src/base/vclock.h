/*
 * Vector clocks: for each node, the number of its last interval that is known. What a node has
 * applied, what a lock's last holder had seen, and which notices may be forgotten are all such
 * vectors (rules 6.5, 6.8).
 *
 * Interval numbers have 64 bits everywhere, in memory and on the wire: a node makes less than a
 * million intervals a second, so they last for half a million years and need no care when compared.
 *
 * Fixed capacity, so that a clock needs no allocation; n, the nodes of the job, says how many
 * entries count. Plain data: no locking.
 */
#ifndef ROAMI_VCLOCK_H
#define ROAMI_VCLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/nodeset.h"

struct roami_vclock {
	uint64_t at[ROAMI_NODES_MAX];
};

/* An encoded clock: a bit for each entry that a base has not, then those entries. */
struct roami_vclock_wire {
	uint64_t mask;
	uint64_t at[ROAMI_NODES_MAX];
};

/* Bytes of an encoded clock, at most. */
#define ROAMI_VCLOCK_BYTES_MAX sizeof(struct roami_vclock_wire)

enum roami_vclock_order {
	ROAMI_VCLOCK_EQUAL,
	ROAMI_VCLOCK_BEFORE,    /* a happened before b: b covers a */
	ROAMI_VCLOCK_AFTER,     /* a happened after b: a covers b */
	ROAMI_VCLOCK_CONCURRENT /* each knows something the other does not */
};

/* How a stands to b. */
enum roami_vclock_order roami_vclock_compare(const struct roami_vclock *a,
					     const struct roami_vclock *b, unsigned n);

/* True if a knows at least everything b knows. */
bool roami_vclock_covers(const struct roami_vclock *a, const struct roami_vclock *b, unsigned n);

/* a becomes b; the entries beyond stay as they are. */
void roami_vclock_copy(struct roami_vclock *a, const struct roami_vclock *b, unsigned n);

/* a learns what b knows: the greater of each entry. */
void roami_vclock_merge(struct roami_vclock *a, const struct roami_vclock *b, unsigned n);

/* a keeps what both know: the smaller of each entry. */
void roami_vclock_min(struct roami_vclock *a, const struct roami_vclock *b, unsigned n);

/*
 * Writes the entries, of n, that differ from `base`'s; NULL: that are not 0.  Returns the bytes
 * written.
 */
size_t roami_vclock_encode(const struct roami_vclock *clock, const struct roami_vclock *base,
			   unsigned n, struct roami_vclock_wire *out);

/*
 * roami_vclock_encode of the entries greater than `base`'s: a reader that knows those learns the
 * rest.
 */
size_t roami_vclock_encode_beyond(const struct roami_vclock *clock,
				  const struct roami_vclock *base, unsigned n,
				  struct roami_vclock_wire *out);

/*
 * Reads what is encoded in the first bytes of in, of n entries: those that are there take the place
 * of *clock's, which are the base's.  Returns the bytes read, 0 if they make no clock: it is then
 * unchanged.
 */
size_t roami_vclock_decode(struct roami_vclock *clock, unsigned n, const void *in, size_t len);

#endif
