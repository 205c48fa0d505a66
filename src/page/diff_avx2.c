/*
 * Diffs with AVX2 and BMI2: compare 32 bytes at once, pack by pext. AVX2 has no byte-masked store
 * (maskmovdqu bypasses the cache), so partly changed words are stored byte by byte.
 */
#include <assert.h>
#include <immintrin.h>

#include "diff.h"

#define AVX2        __attribute__((target("avx2,bmi,bmi2,popcnt"))) ROAMI_RACY
#define AVX2_INLINE static inline __attribute__((always_inline)) AVX2

/*
 * The most changed bytes of a line that are packed one by one, which is then cheaper than eight
 * pexts.
 */
enum { AVX2_FEW = 6 };

/* One line of the page, read once. */
struct avx2_line {
	__m256i low, high;
};

/* A line spilled from registers, to be picked apart. */
union avx2_words {
	__m256i half[2];
	uint64_t word[8];
	uint8_t byte[64];
};

AVX2_INLINE __m256i avx2_load(const uint8_t *from)
{
	return _mm256_loadu_si256((const __m256i_u *)from);
}

AVX2_INLINE void avx2_store(uint8_t *to, __m256i half)
{
	_mm256_storeu_si256((__m256i_u *)to, half);
}

/* The empty asm hides where the value came from: the compiler cannot read the page again. */
AVX2_INLINE struct avx2_line avx2_read(const uint8_t *cur)
{
	struct avx2_line line = {avx2_load(cur), avx2_load(cur + 32)};

	__asm__("" : "+x"(line.low), "+x"(line.high));
	return line;
}

/* All bits set where line and twin are equal, both halves in one. */
AVX2_INLINE __m256i avx2_equal(struct avx2_line line, const uint8_t *twin)
{
	return _mm256_and_si256(_mm256_cmpeq_epi8(line.low, avx2_load(twin)),
				_mm256_cmpeq_epi8(line.high, avx2_load(twin + 32)));
}

/* One bit for each byte of the line that differs from the twin. */
AVX2_INLINE uint64_t avx2_mask(struct avx2_line line, const uint8_t *twin)
{
	__m256i low = _mm256_cmpeq_epi8(line.low, avx2_load(twin));
	__m256i high = _mm256_cmpeq_epi8(line.high, avx2_load(twin + 32));

	return ~((uint64_t)(uint32_t)_mm256_movemask_epi8(low) |
		 (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32);
}

AVX2_INLINE bool avx2_all(__m256i equal)
{
	return _mm256_movemask_epi8(equal) == -1;
}

AVX2 static bool avx2_same(const uint8_t *cur, const uint8_t *twin, size_t bytes)
{
	size_t at = 0;

	for (; at + 128 <= bytes; at += 128) {
		__m256i one = avx2_equal(avx2_read(cur + at), twin + at);
		__m256i two = avx2_equal(avx2_read(cur + at + 64), twin + at + 64);

		if (!avx2_all(_mm256_and_si256(one, two)))
			return false;
	}
	return at == bytes || avx2_all(avx2_equal(avx2_read(cur + at), twin + at));
}

/* What is done with a changed line, and where; sticky is the twin or NULL. */
struct avx2_put {
	uint8_t *dst, *sticky;
	size_t changed;
};

AVX2_INLINE void avx2_put_line(struct avx2_put *put, size_t at, struct avx2_line line,
			       const uint8_t *twin)
{
	uint64_t mask = avx2_mask(line, twin + at);

	if (mask == 0)
		return;
	put->changed += (size_t)__builtin_popcountll(mask);
	if (mask == UINT64_MAX) {
		avx2_store(put->dst + at, line.low);
		avx2_store(put->dst + at + 32, line.high);
	} else {
		union avx2_words words = {.half = {line.low, line.high}};

		roami_diff_store_line(put->dst + at, words.word, mask);
	}
	if (put->sticky != NULL) {
		avx2_store(put->sticky + at, line.low);
		avx2_store(put->sticky + at + 32, line.high);
	}
}

AVX2_INLINE size_t avx2_put_lines(uint8_t *dst, const uint8_t *cur, const uint8_t *twin,
				  uint8_t *sticky, size_t bytes)
{
	struct avx2_put put = {dst, sticky, 0};
	size_t at = 0;

	assert(bytes % ROAMI_DIFF_LINE_BYTES == 0 && bytes <= ROAMI_DIFF_PAGE_BYTES);
	for (; at + 128 <= bytes; at += 128) {
		struct avx2_line one = avx2_read(cur + at);
		struct avx2_line two = avx2_read(cur + at + 64);

		if (avx2_all(_mm256_and_si256(avx2_equal(one, twin + at),
					      avx2_equal(two, twin + at + 64))))
			continue;
		avx2_put_line(&put, at, one, twin);
		avx2_put_line(&put, at + 64, two, twin);
	}
	if (at < bytes)
		avx2_put_line(&put, at, avx2_read(cur + at), twin);
	return put.changed;
}

AVX2 static size_t avx2_put(uint8_t *dst, const uint8_t *cur, const uint8_t *twin, size_t bytes)
{
	return avx2_put_lines(dst, cur, twin, NULL, bytes);
}

AVX2 static size_t avx2_put_sticky(uint8_t *dst, const uint8_t *cur, uint8_t *twin, size_t bytes)
{
	return avx2_put_lines(dst, cur, twin, twin, bytes);
}

/*
 * Packs the changed bytes of a line; returns where the next go. Writes up to 8 bytes behind them,
 * which stay inside ROAMI_DIFF_BYTES_MAX: line i begins at most at 8 + 72 * i.
 */
AVX2_INLINE uint8_t *avx2_pack(uint8_t *out, struct avx2_line line, uint64_t mask)
{
	union avx2_words words = {.half = {line.low, line.high}};

	if (__builtin_popcountll(mask) <= AVX2_FEW) {
		for (; mask != 0; mask &= mask - 1)
			*out++ = words.byte[__builtin_ctzll(mask)];
		return out;
	}
	for (unsigned w = 0; w < 8; w++, mask >>= 8) {
		/* Each bit of the mask spread over its byte. */
		uint64_t spread = _pdep_u64(mask, UINT64_C(0x0101010101010101)) * 0xff;

		if (spread == 0)
			continue;
		roami_diff_store(out, _pext_u64(words.word[w], spread));
		out += __builtin_popcountll(mask & 0xff);
	}
	return out;
}

struct avx2_encode {
	uint8_t *to, *sticky;
	uint64_t map;
};

AVX2_INLINE void avx2_encode_line(struct avx2_encode *encode, size_t at, struct avx2_line line,
				  const uint8_t *twin)
{
	uint64_t mask = avx2_mask(line, twin + at);

	if (mask == 0)
		return;
	encode->map |= UINT64_C(1) << (at / ROAMI_DIFF_LINE_BYTES);
	roami_diff_store(encode->to, mask);
	if (mask == UINT64_MAX) {
		avx2_store(encode->to + 8, line.low);
		avx2_store(encode->to + 40, line.high);
		encode->to += 8 + ROAMI_DIFF_LINE_BYTES;
	} else {
		encode->to = avx2_pack(encode->to + 8, line, mask);
	}
	if (encode->sticky != NULL) {
		avx2_store(encode->sticky + at, line.low);
		avx2_store(encode->sticky + at + 32, line.high);
	}
}

AVX2_INLINE size_t avx2_encode_lines(uint8_t *out, const uint8_t *cur, const uint8_t *twin,
				     uint8_t *sticky, size_t bytes)
{
	struct avx2_encode encode = {out + 8, sticky, 0};
	size_t at = 0;

	assert(bytes % ROAMI_DIFF_LINE_BYTES == 0 && bytes <= ROAMI_DIFF_PAGE_BYTES);
	for (; at + 128 <= bytes; at += 128) {
		struct avx2_line one = avx2_read(cur + at);
		struct avx2_line two = avx2_read(cur + at + 64);

		if (avx2_all(_mm256_and_si256(avx2_equal(one, twin + at),
					      avx2_equal(two, twin + at + 64))))
			continue;
		avx2_encode_line(&encode, at, one, twin);
		avx2_encode_line(&encode, at + 64, two, twin);
	}
	if (at < bytes)
		avx2_encode_line(&encode, at, avx2_read(cur + at), twin);
	if (encode.map == 0)
		return 0;
	roami_diff_store(out, encode.map);
	return (size_t)(encode.to - out);
}

AVX2 static size_t avx2_encode(uint8_t *out, const uint8_t *cur, const uint8_t *twin, size_t bytes)
{
	return avx2_encode_lines(out, cur, twin, NULL, bytes);
}

AVX2 static size_t avx2_encode_sticky(uint8_t *out, const uint8_t *cur, uint8_t *twin, size_t bytes)
{
	return avx2_encode_lines(out, cur, twin, twin, bytes);
}

/* pdep would gain nothing here, the byte stores dominate; but popcnt does. */
AVX2 static bool avx2_apply(uint8_t *dst, uint8_t *also, const uint8_t *in, size_t len)
{
	return roami_diff_apply_lines(dst, also, in, len);
}

const struct roami_diff_ops roami_diff_avx2 = {
	.name = "avx2",
	.same = avx2_same,
	.put = avx2_put,
	.put_sticky = avx2_put_sticky,
	.encode = avx2_encode,
	.encode_sticky = avx2_encode_sticky,
	.apply = avx2_apply,
};
