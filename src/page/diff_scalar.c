/*
 * Diffs by 64-bit words: works on every x86-64, and is what the others are measured against.
 */
#include <assert.h>

#include "diff.h"

/* One line of the page as it was when it was read, and which of its bytes differ from the twin. */
struct scalar_line {
	uint64_t words[8];
	uint64_t mask;
};

/* One bit for each byte of word that is not 0. */
ROAMI_DIFF_INLINE uint64_t scalar_mask(uint64_t word)
{
	const uint64_t low7 = UINT64_C(0x7f7f7f7f7f7f7f7f);
	/* The top bit of each byte that is not 0; the sum of 7 bits and 0x7f carries no further. */
	uint64_t tops = (((word & low7) + low7) | word) & ~low7;

	/* The factor moves top bit i to bit 56 + i; no two products meet in one bit. */
	return ((tops >> 7) * UINT64_C(0x0102040810204080)) >> 56;
}

/* Reads a line once; volatile, lest the compiler reads a word again instead of keeping it. */
ROAMI_DIFF_INLINE void scalar_read(struct scalar_line *line, const uint8_t *cur,
				   const uint8_t *twin)
{
	uint64_t any = 0, mask = 0, changes[8];

	for (unsigned w = 0; w < 8; w++) {
		line->words[w] = ((const volatile struct roami_diff_u64 *)(cur + 8 * w))->v;
		changes[w] = line->words[w] ^ roami_diff_load(twin + 8 * w);
		any |= changes[w];
	}
	if (any != 0) {
		for (unsigned w = 0; w < 8; w++)
			mask |= scalar_mask(changes[w]) << (8 * w);
	}
	line->mask = mask;
}

ROAMI_RACY static bool scalar_same(const uint8_t *cur, const uint8_t *twin, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += ROAMI_DIFF_LINE_BYTES) {
		uint64_t any = 0;

		for (unsigned w = 0; w < 8; w++) {
			any |= roami_diff_load(cur + at + 8 * w) ^
			       roami_diff_load(twin + at + 8 * w);
		}
		if (any != 0)
			return false;
	}
	return true;
}

/* Puts; sticky is the twin or NULL. The unchanged bytes of a line are equal in page and twin. */
ROAMI_DIFF_INLINE size_t scalar_put_lines(uint8_t *dst, const uint8_t *cur, const uint8_t *twin,
					  uint8_t *sticky, size_t bytes)
{
	size_t changed = 0;

	assert(bytes % ROAMI_DIFF_LINE_BYTES == 0 && bytes <= ROAMI_DIFF_PAGE_BYTES);
	for (size_t at = 0; at < bytes; at += ROAMI_DIFF_LINE_BYTES) {
		struct scalar_line line;

		scalar_read(&line, cur + at, twin + at);
		if (line.mask == 0)
			continue;
		changed += (size_t)__builtin_popcountll(line.mask);
		roami_diff_store_line(dst + at, line.words, line.mask);
		if (sticky == NULL)
			continue;
		for (unsigned w = 0; w < 8; w++)
			roami_diff_store(sticky + at + 8 * w, line.words[w]);
	}
	return changed;
}

ROAMI_RACY static size_t scalar_put(uint8_t *dst, const uint8_t *cur, const uint8_t *twin,
				    size_t bytes)
{
	return scalar_put_lines(dst, cur, twin, NULL, bytes);
}

ROAMI_RACY static size_t scalar_put_sticky(uint8_t *dst, const uint8_t *cur, uint8_t *twin,
					   size_t bytes)
{
	return scalar_put_lines(dst, cur, twin, twin, bytes);
}

/* Packs the changed bytes of one word; returns where the next go. */
ROAMI_DIFF_INLINE uint8_t *scalar_pack(uint8_t *out, uint64_t word, unsigned mask)
{
	if (mask == 0xff) {
		roami_diff_store(out, word);
		return out + 8;
	}
	for (; mask != 0; mask &= mask - 1)
		*out++ = (uint8_t)(word >> (8 * __builtin_ctz(mask)));
	return out;
}

ROAMI_DIFF_INLINE size_t scalar_encode_lines(uint8_t *out, const uint8_t *cur, const uint8_t *twin,
					     uint8_t *sticky, size_t bytes)
{
	uint8_t *to = out + 8;
	uint64_t map = 0;

	assert(bytes % ROAMI_DIFF_LINE_BYTES == 0 && bytes <= ROAMI_DIFF_PAGE_BYTES);
	for (size_t at = 0; at < bytes; at += ROAMI_DIFF_LINE_BYTES) {
		struct scalar_line line;

		scalar_read(&line, cur + at, twin + at);
		if (line.mask == 0)
			continue;
		map |= UINT64_C(1) << (at / ROAMI_DIFF_LINE_BYTES);
		roami_diff_store(to, line.mask);
		to += 8;
		for (unsigned w = 0; w < 8; w++)
			to = scalar_pack(to, line.words[w], (line.mask >> (8 * w)) & 0xff);
		if (sticky == NULL)
			continue;
		for (unsigned w = 0; w < 8; w++)
			roami_diff_store(sticky + at + 8 * w, line.words[w]);
	}
	if (map == 0)
		return 0;
	roami_diff_store(out, map);
	return (size_t)(to - out);
}

ROAMI_RACY static size_t scalar_encode(uint8_t *out, const uint8_t *cur, const uint8_t *twin,
				       size_t bytes)
{
	return scalar_encode_lines(out, cur, twin, NULL, bytes);
}

ROAMI_RACY static size_t scalar_encode_sticky(uint8_t *out, const uint8_t *cur, uint8_t *twin,
					      size_t bytes)
{
	return scalar_encode_lines(out, cur, twin, twin, bytes);
}

const struct roami_diff_ops roami_diff_scalar = {
	.name = "scalar",
	.same = scalar_same,
	.put = scalar_put,
	.put_sticky = scalar_put_sticky,
	.encode = scalar_encode,
	.encode_sticky = scalar_encode_sticky,
	.apply = roami_diff_apply,
};
