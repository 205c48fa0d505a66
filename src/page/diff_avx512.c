/*
 * Diffs with AVX-512 (BW, VL, VBMI2): a line is one register, masked stores are byte-exact by
 * themselves, and compress and expand pack and unpack a line in one instruction. Both are used
 * between registers: compress to memory is microcoded on some CPUs.
 */
#include <assert.h>
#include <immintrin.h>

#include "diff.h"

#define AVX512 \
	__attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi2,bmi,bmi2,popcnt"))) ROAMI_RACY
#define AVX512_INLINE static inline __attribute__((always_inline)) AVX512

/* Four lines of the page, read once, and what differs from the twin. */
struct avx512_quad {
	__m512i line0, line1, line2, line3;
	__m512i change0, change1, change2, change3;
};

/* The empty asm hides where the value came from: the compiler cannot read the page again. */
AVX512_INLINE __m512i avx512_read(const uint8_t *cur)
{
	__m512i line = _mm512_loadu_si512(cur);

	__asm__("" : "+v"(line));
	return line;
}

AVX512_INLINE __m512i avx512_change(__m512i line, const uint8_t *twin)
{
	return _mm512_xor_si512(line, _mm512_loadu_si512(twin));
}

/* One bit for each byte that changed. */
AVX512_INLINE uint64_t avx512_mask(__m512i change)
{
	return _mm512_test_epi8_mask(change, change);
}

/* Reads four lines; false if nothing changed, which costs one test for all of them. */
AVX512_INLINE bool avx512_quad_read(struct avx512_quad *quad, const uint8_t *cur,
				    const uint8_t *twin)
{
	__m512i any;

	quad->line0 = avx512_read(cur);
	quad->line1 = avx512_read(cur + 64);
	quad->line2 = avx512_read(cur + 128);
	quad->line3 = avx512_read(cur + 192);
	quad->change0 = avx512_change(quad->line0, twin);
	quad->change1 = avx512_change(quad->line1, twin + 64);
	quad->change2 = avx512_change(quad->line2, twin + 128);
	quad->change3 = avx512_change(quad->line3, twin + 192);
	any = _mm512_or_si512(_mm512_or_si512(quad->change0, quad->change1),
			      _mm512_or_si512(quad->change2, quad->change3));
	return avx512_mask(any) != 0;
}

AVX512 static bool avx512_same(const uint8_t *cur, const uint8_t *twin, size_t bytes)
{
	struct avx512_quad quad;
	size_t at = 0;

	for (; at + 256 <= bytes; at += 256) {
		if (avx512_quad_read(&quad, cur + at, twin + at))
			return false;
	}
	for (; at < bytes; at += 64) {
		if (avx512_mask(avx512_change(avx512_read(cur + at), twin + at)) != 0)
			return false;
	}
	return true;
}

/*
 * Stores a line's changed bytes; sticky is the twin or NULL. An unchanged line of dst is not even
 * touched: a store under an empty mask would take the line away from its other users.
 */
AVX512_INLINE size_t avx512_put_line(uint8_t *dst, uint8_t *sticky, size_t at, __m512i line,
				     __m512i change)
{
	uint64_t mask = avx512_mask(change);

	if (mask == 0)
		return 0;
	_mm512_mask_storeu_epi8(dst + at, mask, line);
	if (sticky != NULL)
		_mm512_storeu_si512(sticky + at, line);
	return (size_t)__builtin_popcountll(mask);
}

AVX512_INLINE size_t avx512_put_lines(uint8_t *dst, const uint8_t *cur, const uint8_t *twin,
				      uint8_t *sticky, size_t bytes)
{
	struct avx512_quad quad;
	size_t changed = 0, at = 0;

	assert(bytes % ROAMI_DIFF_LINE_BYTES == 0 && bytes <= ROAMI_DIFF_PAGE_BYTES);
	for (; at + 256 <= bytes; at += 256) {
		if (!avx512_quad_read(&quad, cur + at, twin + at))
			continue;
		changed += avx512_put_line(dst, sticky, at, quad.line0, quad.change0);
		changed += avx512_put_line(dst, sticky, at + 64, quad.line1, quad.change1);
		changed += avx512_put_line(dst, sticky, at + 128, quad.line2, quad.change2);
		changed += avx512_put_line(dst, sticky, at + 192, quad.line3, quad.change3);
	}
	for (; at < bytes; at += 64) {
		__m512i line = avx512_read(cur + at);

		changed += avx512_put_line(dst, sticky, at, line, avx512_change(line, twin + at));
	}
	return changed;
}

AVX512 static size_t avx512_put(uint8_t *dst, const uint8_t *cur, const uint8_t *twin, size_t bytes)
{
	return avx512_put_lines(dst, cur, twin, NULL, bytes);
}

AVX512 static size_t avx512_put_sticky(uint8_t *dst, const uint8_t *cur, uint8_t *twin,
				       size_t bytes)
{
	return avx512_put_lines(dst, cur, twin, twin, bytes);
}

struct avx512_encode {
	uint8_t *to, *sticky;
	uint64_t map;
};

/*
 * Packs a line without a branch: an unchanged line is written too, then overwritten by the next.
 * Line i begins at most at 8 + 72 * i, so nothing is written beyond ROAMI_DIFF_BYTES_MAX.
 */
AVX512_INLINE void avx512_encode_line(struct avx512_encode *encode, size_t at, __m512i line,
				      __m512i change)
{
	uint64_t mask = avx512_mask(change);
	uint64_t some = mask != 0;

	roami_diff_store(encode->to, mask);
	_mm512_storeu_si512(encode->to + 8, _mm512_maskz_compress_epi8(mask, line));
	encode->to += 8 * some + (uint64_t)__builtin_popcountll(mask);
	encode->map |= some << (at / ROAMI_DIFF_LINE_BYTES);
	if (encode->sticky != NULL)
		_mm512_storeu_si512(encode->sticky + at, line);
}

AVX512_INLINE size_t avx512_encode_lines(uint8_t *out, const uint8_t *cur, const uint8_t *twin,
					 uint8_t *sticky, size_t bytes)
{
	struct avx512_encode encode = {out + 8, sticky, 0};
	struct avx512_quad quad;
	size_t at = 0;

	assert(bytes % ROAMI_DIFF_LINE_BYTES == 0 && bytes <= ROAMI_DIFF_PAGE_BYTES);
	for (; at + 256 <= bytes; at += 256) {
		if (!avx512_quad_read(&quad, cur + at, twin + at))
			continue;
		avx512_encode_line(&encode, at, quad.line0, quad.change0);
		avx512_encode_line(&encode, at + 64, quad.line1, quad.change1);
		avx512_encode_line(&encode, at + 128, quad.line2, quad.change2);
		avx512_encode_line(&encode, at + 192, quad.line3, quad.change3);
	}
	for (; at < bytes; at += 64) {
		__m512i line = avx512_read(cur + at);

		avx512_encode_line(&encode, at, line, avx512_change(line, twin + at));
	}
	if (encode.map == 0)
		return 0;
	roami_diff_store(out, encode.map);
	return (size_t)(encode.to - out);
}

AVX512 static size_t avx512_encode(uint8_t *out, const uint8_t *cur, const uint8_t *twin,
				   size_t bytes)
{
	return avx512_encode_lines(out, cur, twin, NULL, bytes);
}

AVX512 static size_t avx512_encode_sticky(uint8_t *out, const uint8_t *cur, uint8_t *twin,
					  size_t bytes)
{
	return avx512_encode_lines(out, cur, twin, twin, bytes);
}

/*
 * By words: a masked store to a page that this node has not written for a while took ten times as
 * long as the rest of it.
 */
AVX512_INLINE void avx512_apply_line(uint8_t *dst, const uint64_t words[8], uint64_t mask)
{
	if (mask == UINT64_MAX)
		_mm512_storeu_si512(dst, _mm512_load_si512(words));
	else
		roami_diff_store_line(dst, words, mask);
}

/* The masked load reads no byte behind the line's own: the last line may end the buffer. */
AVX512 static bool avx512_apply(uint8_t *dst, uint8_t *also, const uint8_t *in, size_t len)
{
	struct roami_diff_lines lines;

	if (len == 0)
		return true;
	if (!roami_diff_parse(&lines, in, len))
		return false;
	for (unsigned i = 0; i < lines.count; i++) {
		size_t at = (size_t)lines.line[i] * ROAMI_DIFF_LINE_BYTES;
		uint64_t mask = lines.mask[i];
		uint64_t packed = _bzhi_u64(UINT64_MAX, (unsigned)__builtin_popcountll(mask));
		__m512i body = _mm512_maskz_loadu_epi8(packed, in + lines.body[i]);
		_Alignas(64) uint64_t words[8];

		_mm512_store_si512(words, _mm512_maskz_expand_epi8(mask, body));
		avx512_apply_line(dst + at, words, mask);
		if (also != NULL)
			avx512_apply_line(also + at, words, mask);
	}
	return true;
}

const struct roami_diff_ops roami_diff_avx512 = {
	.name = "avx512",
	.same = avx512_same,
	.put = avx512_put,
	.put_sticky = avx512_put_sticky,
	.encode = avx512_encode,
	.encode_sticky = avx512_encode_sticky,
	.apply = avx512_apply,
};
