/*
 * Vector clocks.
 */
#include "vclock.h"

#include <assert.h>

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

size_t roami_vclock_encode(const struct roami_vclock *clock, unsigned n, uint8_t *out, size_t room)
{
	assert(n <= ROAMI_NODES_MAX);
	if (room < ROAMI_VCLOCK_BYTES(n))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		uint32_t entry = clock->at[i];

		out[4 * i] = (uint8_t)entry;
		out[4 * i + 1] = (uint8_t)(entry >> 8);
		out[4 * i + 2] = (uint8_t)(entry >> 16);
		out[4 * i + 3] = (uint8_t)(entry >> 24);
	}
	return ROAMI_VCLOCK_BYTES(n);
}

size_t roami_vclock_decode(struct roami_vclock *clock, unsigned n, const uint8_t *in, size_t len)
{
	assert(n <= ROAMI_NODES_MAX);
	if (len < ROAMI_VCLOCK_BYTES(n))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		clock->at[i] = (uint32_t)in[4 * i] | (uint32_t)in[4 * i + 1] << 8 |
			       (uint32_t)in[4 * i + 2] << 16 | (uint32_t)in[4 * i + 3] << 24;
	}
	for (unsigned i = n; i < ROAMI_NODES_MAX; i++)
		clock->at[i] = 0;
	return ROAMI_VCLOCK_BYTES(n);
}
