/*
 * Vector clocks: for each node, the number of its last interval that is known. What a node has
 * applied, what a lock's last holder had seen, and which notices may be forgotten are all such
 * vectors (rules 6.5, 6.8).
 *
 * Fixed capacity, so that a clock needs no allocation; n, the nodes of the job, says how many
 * entries count. Plain data: no locking.
 */
#ifndef ROAMI_VCLOCK_H
#define ROAMI_VCLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/nodeset.h"

struct roami_vclock {
	uint32_t at[ROAMI_NODES_MAX];
};

/* Bytes of an encoded clock. */
#define ROAMI_VCLOCK_BYTES(n)  ((size_t)(n)*4)
#define ROAMI_VCLOCK_BYTES_MAX ROAMI_VCLOCK_BYTES(ROAMI_NODES_MAX)

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

/* a learns what b knows: the greater of each entry. */
void roami_vclock_merge(struct roami_vclock *a, const struct roami_vclock *b, unsigned n);

/* a keeps what both know: the smaller of each entry. */
void roami_vclock_min(struct roami_vclock *a, const struct roami_vclock *b, unsigned n);

/* Writes n entries as little-endian bytes. Returns the bytes written, 0 if room is too small. */
size_t roami_vclock_encode(const struct roami_vclock *clock, unsigned n, uint8_t *out, size_t room);

/*
 * Reads n entries from the first bytes of in; the entries beyond become 0. Returns the bytes read,
 * 0 if in is too short: the clock is then unchanged.
 */
size_t roami_vclock_decode(struct roami_vclock *clock, unsigned n, const uint8_t *in, size_t len);

#endif
