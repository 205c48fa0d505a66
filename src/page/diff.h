/*
 * Diffs: which bytes of a page differ from its twin.
 *
 * Byte-exact (rule 1.5): two nodes may write neighbouring bytes of one word at the same time, so
 * a store touches changed bytes only and is never a read-modify-write of its neighbours. The page
 * may be written by other threads of the node while it is compared (rule 6.2), so every byte of
 * `cur` is read once: loaded, compared, and stored or packed from the register. With the sticky
 * forms the twin afterwards holds exactly what was sent, and a byte that changes during the call
 * is either sent now or still differs from the twin at the next release.
 *
 * Encoded form, identical from every implementation, little-endian:
 *
 *	u64 map                        bit i: line i (64 bytes) has changed bytes; never 0
 *	for each bit of map, ascending:
 *		u64 mask               bit j: byte j of the line changed; never 0
 *		u8  bytes[popcount]    the changed bytes, ascending
 *
 * No allocation, no system call, no lock: fit for the fault path. The caller holds the page lock;
 * only application threads (through the app view) and writers of other bytes may race.
 */
#ifndef ROAMI_DIFF_H
#define ROAMI_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROAMI_DIFF_LINE_BYTES 64
#define ROAMI_DIFF_PAGE_BYTES 4096
#define ROAMI_DIFF_LINES_MAX  (ROAMI_DIFF_PAGE_BYTES / ROAMI_DIFF_LINE_BYTES)
#define ROAMI_DIFF_BYTES_MAX  (8 + ROAMI_DIFF_LINES_MAX * 8 + ROAMI_DIFF_PAGE_BYTES)

/*
 * For functions that touch page bytes, which race by design. ThreadSanitizer intercepts memcpy
 * and memcmp whatever the attribute says: such functions use loops of their own.
 */
#define ROAMI_RACY __attribute__((no_sanitize_thread))

/*
 * One implementation. In all calls: cur, twin and dst are aligned to 64 bytes, bytes is a multiple
 * of 64 up to 4096, dst and twin do not overlap cur.
 */
struct roami_diff_ops {
	const char *name;
	/* True if nothing changed. */
	bool (*same)(const uint8_t *cur, const uint8_t *twin, size_t bytes);
	/* Stores each byte of cur that differs from twin to dst; returns how many. */
	size_t (*put)(uint8_t *dst, const uint8_t *cur, const uint8_t *twin, size_t bytes);
	/* As put, and twin takes the bytes sent. */
	size_t (*put_sticky)(uint8_t *dst, const uint8_t *cur, uint8_t *twin, size_t bytes);
	/*
	 * Writes the encoded form to out and returns its length, 0 if nothing changed. out needs
	 * ROAMI_DIFF_BYTES_MAX bytes whatever the result: space behind the result is scratch.
	 */
	size_t (*encode)(uint8_t *out, const uint8_t *cur, const uint8_t *twin, size_t bytes);
	/* As encode, and twin takes the bytes sent. */
	size_t (*encode_sticky)(uint8_t *out, const uint8_t *cur, uint8_t *twin, size_t bytes);
	/*
	 * Stores an encoded diff into the page dst and, unless NULL, into its existing twin `also`,
	 * both of 4096 bytes. `in` is untrusted: it is checked before the first store, and even one
	 * that changes during the call cannot cause an access outside the page or of in[len...].
	 * Malformed: false, nothing stored. len 0 is the diff of nothing: true.
	 */
	bool (*apply)(uint8_t *dst, uint8_t *also, const uint8_t *in, size_t len);
};

/*
 * The implementation for `simd`: "scalar", "avx2", "avx512", or the best this CPU has (NULL or
 * "auto"). NULL if the CPU lacks the one named, or no implementation has that name.
 */
const struct roami_diff_ops *roami_diff_choose(const char *simd);

/* Counts the runs of neighbouring 4-byte words in which two pages differ; for statistics. */
size_t roami_diff_runs(const uint8_t *cur, const uint8_t *twin);

/* The portable `apply`, for callers that have no ops at hand. */
bool roami_diff_apply(uint8_t *dst, uint8_t *also, const uint8_t *in, size_t len);

/* Whether an encoded diff is well formed and not empty, so that `apply` would store something. */
bool roami_diff_sound(const uint8_t *in, size_t len);

/* The rest is for the implementations only. */

extern const struct roami_diff_ops roami_diff_scalar;
extern const struct roami_diff_ops roami_diff_avx2;
extern const struct roami_diff_ops roami_diff_avx512;

/* Compiled into each implementation, with the instructions that one may use. */
#define ROAMI_DIFF_INLINE static inline __attribute__((always_inline)) ROAMI_RACY

/* Words at any address, of memory that has any type. */
struct roami_diff_u64 {
	uint64_t v;
} __attribute__((packed, may_alias));

struct roami_diff_u32 {
	uint32_t v;
} __attribute__((packed, may_alias));

ROAMI_DIFF_INLINE uint64_t roami_diff_load(const uint8_t *from)
{
	return ((const struct roami_diff_u64 *)from)->v;
}

ROAMI_DIFF_INLINE void roami_diff_store(uint8_t *to, uint64_t word)
{
	((struct roami_diff_u64 *)to)->v = word;
}

ROAMI_DIFF_INLINE void roami_diff_store32(uint8_t *to, uint32_t half)
{
	((struct roami_diff_u32 *)to)->v = half;
}

/* Stores those bytes of word whose bit is set in mask (8 bits), and no other byte. */
ROAMI_DIFF_INLINE void roami_diff_store_word(uint8_t *dst, uint64_t word, unsigned mask)
{
	if (mask == 0xff) {
		roami_diff_store(dst, word);
		return;
	}
	if ((mask & 0x0f) == 0x0f) {
		roami_diff_store32(dst, (uint32_t)word);
		mask &= 0xf0;
	}
	if ((mask & 0xf0) == 0xf0) {
		roami_diff_store32(dst + 4, (uint32_t)(word >> 32));
		mask &= 0x0f;
	}
	for (; mask != 0; mask &= mask - 1) {
		unsigned k = (unsigned)__builtin_ctz(mask);

		dst[k] = (uint8_t)(word >> (8 * k));
	}
}

/* Stores those bytes of a line, held in eight words, whose bit is set in mask. */
ROAMI_DIFF_INLINE void roami_diff_store_line(uint8_t *dst, const uint64_t words[8], uint64_t mask)
{
	while (mask != 0) {
		unsigned w = (unsigned)__builtin_ctzll(mask) / 8;

		roami_diff_store_word(dst + 8 * w, words[w], (unsigned)(mask >> (8 * w)) & 0xff);
		mask &= ~(UINT64_C(0xff) << (8 * w));
	}
}

/* An encoded diff after its check: nothing but the changed bytes is still read from the input. */
struct roami_diff_lines {
	unsigned count;
	uint64_t mask[ROAMI_DIFF_LINES_MAX];
	uint16_t body[ROAMI_DIFF_LINES_MAX]; /* offset of the changed bytes in the input */
	uint8_t line[ROAMI_DIFF_LINES_MAX];  /* which line of the page */
};

/* Checks an encoded diff of len > 0 bytes and lists its lines. */
ROAMI_DIFF_INLINE bool roami_diff_parse(struct roami_diff_lines *lines, const uint8_t *in,
					size_t len)
{
	size_t at = 8;
	unsigned count = 0;

	if (len < 8 || len > ROAMI_DIFF_BYTES_MAX)
		return false;
	for (uint64_t map = roami_diff_load(in); map != 0; map &= map - 1) {
		uint64_t mask;
		size_t changed;

		if (len - at < 8)
			return false;
		mask = roami_diff_load(in + at);
		at += 8;
		changed = (size_t)__builtin_popcountll(mask);
		if (changed == 0 || changed > len - at)
			return false;
		lines->mask[count] = mask;
		lines->body[count] = (uint16_t)at;
		lines->line[count] = (uint8_t)__builtin_ctzll(map);
		count++;
		at += changed;
	}
	lines->count = count;
	return count > 0 && at == len;
}

/* Unpacks the bytes of one line to those places of dst whose bit is set in mask. */
ROAMI_DIFF_INLINE void roami_diff_unpack(uint8_t *dst, const uint8_t *in, uint64_t mask)
{
	if (mask == UINT64_MAX) {
		for (unsigned at = 0; at < ROAMI_DIFF_LINE_BYTES; at += 8)
			roami_diff_store(dst + at, roami_diff_load(in + at));
		return;
	}
	while (mask != 0) {
		unsigned k = (unsigned)__builtin_ctzll(mask);
		uint64_t rest = mask >> k;

		if (k % 8 == 0 && (rest & 0xff) == 0xff) {
			roami_diff_store(dst + k, roami_diff_load(in));
			in += 8;
			mask &= ~(UINT64_C(0xff) << k);
		} else {
			dst[k] = *in++;
			mask &= mask - 1;
		}
	}
}

/* `apply` without vector instructions. */
ROAMI_DIFF_INLINE bool roami_diff_apply_lines(uint8_t *dst, uint8_t *also, const uint8_t *in,
					      size_t len)
{
	struct roami_diff_lines lines;

	if (len == 0)
		return true;
	if (!roami_diff_parse(&lines, in, len))
		return false;
	for (unsigned i = 0; i < lines.count; i++) {
		size_t at = (size_t)lines.line[i] * ROAMI_DIFF_LINE_BYTES;

		roami_diff_unpack(dst + at, in + lines.body[i], lines.mask[i]);
		if (also != NULL)
			roami_diff_unpack(also + at, in + lines.body[i], lines.mask[i]);
	}
	return true;
}

#endif
