/*
 * Vector clocks.
 */
#include "vclock.h"

#include <assert.h>
#include <string.h>

enum roami_vclock_order roami_vclock_compare(const struct roami_vclock *a,
					     const struct roami_vclock *b, unsigned n)
{
	bool less = false, greater = false;

	assert(n <= ROAMI_NODES_MAX);
	for (unsigned i = 0; i < n; i++) {
		less |= a->at[i] < b->at[i];
		greater |= a->at[i] > b->at[i];
	}
	if (less && greater)
		return ROAMI_VCLOCK_CONCURRENT;
	if (less)
		return ROAMI_VCLOCK_BEFORE;
	return greater ? ROAMI_VCLOCK_AFTER : ROAMI_VCLOCK_EQUAL;
}

bool roami_vclock_covers(const struct roami_vclock *a, const struct roami_vclock *b, unsigned n)
{
	assert(n <= ROAMI_NODES_MAX);
	for (unsigned i = 0; i < n; i++) {
		if (a->at[i] < b->at[i])
			return false;
	}
	return true;
}

void roami_vclock_copy(struct roami_vclock *a, const struct roami_vclock *b, unsigned n)
{
	assert(n <= ROAMI_NODES_MAX);
	memcpy(a->at, b->at, n * sizeof(a->at[0]));
}

void roami_vclock_merge(struct roami_vclock *a, const struct roami_vclock *b, unsigned n)
{
	assert(n <= ROAMI_NODES_MAX);
	for (unsigned i = 0; i < n; i++) {
		if (a->at[i] < b->at[i])
			a->at[i] = b->at[i];
	}
}

void roami_vclock_min(struct roami_vclock *a, const struct roami_vclock *b, unsigned n)
{
	assert(n <= ROAMI_NODES_MAX);
	for (unsigned i = 0; i < n; i++) {
		if (a->at[i] > b->at[i])
			a->at[i] = b->at[i];
	}
}

static size_t vclock_wire_bytes(uint64_t mask)
{
	return sizeof(mask) + (size_t)__builtin_popcountll(mask) * sizeof(uint64_t);
}

size_t roami_vclock_encode(const struct roami_vclock *clock, const struct roami_vclock *base,
			   unsigned n, struct roami_vclock_wire *out)
{
	unsigned used = 0;

	assert(n <= ROAMI_NODES_MAX);
	out->mask = 0;
	for (unsigned i = 0; i < n; i++)
		if (clock->at[i] != (base != NULL ? base->at[i] : 0)) {
			out->mask |= UINT64_C(1) << i;
			out->at[used++] = clock->at[i];
		}
	return vclock_wire_bytes(out->mask);
}

size_t roami_vclock_encode_beyond(const struct roami_vclock *clock,
				  const struct roami_vclock *base, unsigned n,
				  struct roami_vclock_wire *out)
{
	unsigned used = 0;

	assert(n <= ROAMI_NODES_MAX);
	out->mask = 0;
	for (unsigned i = 0; i < n; i++)
		if (clock->at[i] > base->at[i]) {
			out->mask |= UINT64_C(1) << i;
			out->at[used++] = clock->at[i];
		}
	return vclock_wire_bytes(out->mask);
}

size_t roami_vclock_decode(struct roami_vclock *clock, unsigned n, const void *in, size_t len)
{
	const uint8_t *at = in;
	uint64_t mask;
	size_t bytes;

	assert(n <= ROAMI_NODES_MAX);
	if (len < sizeof(mask))
		return 0;
	memcpy(&mask, at, sizeof(mask));
	bytes = vclock_wire_bytes(mask);
	if (len < bytes || (mask & ~roami_nodeset_first(n).bits) != 0)
		return 0;
	at += sizeof(mask);
	for (; mask != 0; mask &= mask - 1, at += sizeof(clock->at[0]))
		memcpy(&clock->at[__builtin_ctzll(mask)], at, sizeof(clock->at[0]));
	return bytes;
}
