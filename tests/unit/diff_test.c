/*
 * Diffs: every implementation that this CPU can run, compared with byte loops, on random pages;
 * hostile input; other writers of the same words and lines at the same time.
 */
#include "../../src/page/diff.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/unit.h"

#if defined(__SANITIZE_THREAD__)
#define SLOW 10
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLOW 10
#endif
#endif
#ifndef SLOW
#define SLOW 1 /* under ThreadSanitizer only the tests of races need full length */
#endif

enum {
	PAGE = ROAMI_DIFF_PAGE_BYTES,
	PAGES = 6000 / SLOW,
	MALFORMED = 20000 / SLOW,
	RACES = 3000,
	GUARD = 64
};

/* Skips the bytes behind a result of this length. */
struct encoded {
	size_t len;
	uint8_t bytes[ROAMI_DIFF_BYTES_MAX + GUARD];
};

/* What the tests work on: the page, its twin before and after the test, a destination. */
struct pages {
	_Alignas(64) uint8_t cur[PAGE];
	_Alignas(64) uint8_t old[PAGE];
	_Alignas(64) uint8_t twin[PAGE];
	_Alignas(64) uint8_t dst[PAGE + GUARD];
	_Alignas(64) uint8_t want[PAGE + GUARD];
};

static const char *const names[] = {"scalar", "avx2", "avx512"};

/* Runs a test with each implementation that the CPU can run, and names the others. */
static void
with_each(void (*test)(const struct roami_diff_ops *ops))
{
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct roami_diff_ops *ops = roami_diff_choose(names[i]);

		if (ops == NULL) {
			unit_skip(names[i], "the cpu lacks it");
			continue;
		}
		CU_ASSERT_STRING_EQUAL(ops->name, names[i]);
		test(ops);
	}
}

static void
fill(uint8_t *bytes, size_t count, uint64_t *seed)
{
	for (size_t i = 0; i < count; i += 8) {
		uint64_t word = unit_random(seed);

		memcpy(bytes + i, &word, count - i < 8 ? count - i : 8);
	}
}

/* Gives a byte another value: any bit pattern, or one bit. */
static void
change(uint8_t *byte, uint64_t *seed)
{
	if (unit_below(seed, 2) == 0)
		*byte ^= (uint8_t)(1 + unit_below(seed, 255));
	else
		*byte ^= (uint8_t)(1u << unit_below(seed, 8));
}

static void
change_range(uint8_t *page, size_t bytes, size_t first, size_t count, size_t step, uint64_t *seed)
{
	for (size_t i = first; i < bytes && count > 0; i += step, count--)
		change(&page[i], seed);
}

/* Changes the page in one of the ways in which programs do, or in an edge case. */
static void
change_page(uint8_t *page, size_t bytes, unsigned pattern, uint64_t *seed)
{
	size_t at = unit_below(seed, bytes), runs = 1 + unit_below(seed, 40);
	size_t dice = 1 + unit_below(seed, 64);

	switch (pattern) {
	case 0:
		break;
	case 1:
		change(&page[at], seed);
		break;
	case 2: /* every k-th */
		change_range(page, bytes, at % dice, PAGE, dice, seed);
		break;
	case 3: /* runs */
		for (; runs > 0; runs--) {
			at = unit_below(seed, bytes);
			change_range(page, bytes, at, 1 + (size_t)(*seed % 100), 1, seed);
		}
		break;
	case 4:
		change_range(page, bytes, 0, PAGE, 1, seed);
		break;
	case 5: /* around line boundaries */
		for (size_t line = 64; line <= bytes; line += 64 * dice) {
			change(&page[line - 1], seed);
			change_range(page, bytes, line, dice % 3, 1, seed);
		}
		break;
	case 6: /* the first and the last */
		change(&page[0], seed);
		change(&page[bytes - 1], seed);
		break;
	case 7: /* each byte with some probability */
		for (size_t i = 0; i < bytes; i++) {
			if (unit_below(seed, dice) == 0)
				change(&page[i], seed);
		}
		break;
	case 8: /* aligned words of 1 to 16 bytes */
		for (; runs > 0; runs--) {
			size_t word = (size_t)1 << unit_below(seed, 5);

			at = unit_below(seed, bytes) / word * word;
			change_range(page, bytes, at, word, 1, seed);
		}
		break;
	default: /* all but one */
		change_range(page, bytes, 0, at, 1, seed);
		change_range(page, bytes, at + 1, PAGE, 1, seed);
	}
}

/*
 * Makes a page of `bytes`, changed in one of the patterns; dst has other contents, as the home may.
 */
static size_t
pages_random(struct pages *pages, unsigned round, uint64_t *seed)
{
	size_t bytes = round % 4 == 3 ? 64 * (1 + unit_below(seed, 64)) : PAGE;

	fill(pages->old, PAGE, seed);
	memcpy(pages->cur, pages->old, PAGE);
	memcpy(pages->twin, pages->old, PAGE);
	change_page(pages->cur, bytes, round % 10, seed);
	fill(pages->dst, PAGE + GUARD, seed);
	memcpy(pages->want, pages->dst, PAGE + GUARD);
	return bytes;
}

/* The naive put: stores into `want`. */
static size_t
naive_put(struct pages *pages, size_t bytes)
{
	size_t changed = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (pages->cur[i] != pages->old[i]) {
			pages->want[i] = pages->cur[i];
			changed++;
		}
	}
	return changed;
}

/* The naive encoder, straight from the format's description. */
static void
naive_encode(struct encoded *out, const struct pages *pages, size_t bytes)
{
	out->len = 8;
	memset(out->bytes, 0, 8);
	for (size_t line = 0; line < bytes / 64; line++) {
		size_t mask_at = out->len, to = out->len + 8;

		memset(out->bytes + mask_at, 0, 8);
		for (size_t i = 0; i < 64; i++) {
			if (pages->cur[64 * line + i] == pages->old[64 * line + i])
				continue;
			out->bytes[mask_at + i / 8] |= (uint8_t)(1u << (i % 8));
			out->bytes[to++] = pages->cur[64 * line + i];
		}
		if (to == mask_at + 8)
			continue;
		out->bytes[line / 8] |= (uint8_t)(1u << (line % 8));
		out->len = to;
	}
	if (out->len == 8)
		out->len = 0;
}

/* roami_diff's same, put and put_sticky do what byte loops do, and touch nothing else. */
static void
put_each(const struct roami_diff_ops *ops)
{
	struct pages *pages = aligned_alloc(64, sizeof(*pages));
	uint64_t seed = unit_seed();

	CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
	for (unsigned round = 0; round < PAGES; round++) {
		size_t bytes = pages_random(pages, round, &seed), changed;
		size_t want = naive_put(pages, bytes);
		uint8_t after[PAGE];

		CU_ASSERT_EQUAL(ops->same(pages->cur, pages->twin, bytes), want == 0);
		if (round / 10 % 2 == 0) {
			changed = ops->put(pages->dst, pages->cur, pages->twin, bytes);
			memcpy(after, pages->old, PAGE);
		} else {
			changed = ops->put_sticky(pages->dst, pages->cur, pages->twin, bytes);
			memcpy(after, pages->cur, PAGE);
		}
		CU_ASSERT_EQUAL(changed, want);
		CU_ASSERT_EQUAL(memcmp(pages->dst, pages->want, sizeof(pages->dst)), 0);
		CU_ASSERT_EQUAL(memcmp(pages->twin, after, PAGE), 0);
	}
	free(pages);
}

static void
test_put(void)
{
	with_each(put_each);
}

/* same sees a change of any single bit. */
static void
same_each(const struct roami_diff_ops *ops)
{
	struct pages *pages = aligned_alloc(64, sizeof(*pages));
	unsigned missed = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
	memset(pages, 0, sizeof(*pages));
	for (unsigned bit = 0; bit < PAGE * 8; bit++) {
		pages->cur[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		missed += ops->same(pages->cur, pages->twin, PAGE);
		missed += ops->put(pages->dst, pages->cur, pages->twin, PAGE) != 1;
		pages->cur[bit / 8] = 0;
	}
	CU_ASSERT_EQUAL(missed, 0);
	CU_ASSERT(ops->same(pages->cur, pages->twin, PAGE));
	free(pages);
}

static void
test_same(void)
{
	with_each(same_each);
}

/* Both encoders give the very bytes of the naive one, and stay within ROAMI_DIFF_BYTES_MAX. */
static void
encode_each(const struct roami_diff_ops *ops)
{
	struct pages *pages = aligned_alloc(64, sizeof(*pages));
	struct encoded want, got;
	uint64_t seed = unit_seed();

	CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
	for (unsigned round = 0; round < PAGES; round++) {
		size_t bytes = pages_random(pages, round, &seed);
		bool sticky = round / 10 % 2 == 1;
		size_t room = 8 + bytes / 64 * 72; /* for a shorter page less is used */

		naive_encode(&want, pages, bytes);
		memset(got.bytes, 0xa5, sizeof(got.bytes));
		got.len = sticky ? ops->encode_sticky(got.bytes, pages->cur, pages->twin, bytes)
		                 : ops->encode(got.bytes, pages->cur, pages->twin, bytes);
		CU_ASSERT_EQUAL(got.len, want.len);
		CU_ASSERT_EQUAL(memcmp(got.bytes, want.bytes, want.len), 0);
		CU_ASSERT_EQUAL(memcmp(pages->twin, sticky ? pages->cur : pages->old, PAGE), 0);
		for (size_t i = room; i < sizeof(got.bytes); i++)
			got.len += got.bytes[i] != 0xa5 ? 1 : 0;
		CU_ASSERT_EQUAL(got.len, want.len);
	}
	free(pages);
}

static void
test_encode(void)
{
	with_each(encode_each);
}

/*
 * apply stores the changed bytes and no others, into the page and its twin, and reads no byte
 * behind the input (which ends where its heap block ends, so that AddressSanitizer would see it).
 */
static void
apply_each(const struct roami_diff_ops *ops)
{
	struct pages *pages = aligned_alloc(64, sizeof(*pages));
	struct encoded diff;
	uint64_t seed = unit_seed();

	CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
	for (unsigned round = 0; round < PAGES; round++) {
		size_t bytes = pages_random(pages, round, &seed);
		uint8_t *also = round % 3 == 0 ? NULL : pages->twin, *exact;

		naive_encode(&diff, pages, bytes);
		naive_put(pages, bytes);
		exact = malloc(diff.len + 1);
		CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
		memcpy(exact + 1, diff.bytes, diff.len);
		CU_ASSERT(ops->apply(pages->dst, also, exact + 1, diff.len));
		free(exact);
		CU_ASSERT_EQUAL(memcmp(pages->dst, pages->want, sizeof(pages->dst)), 0);
		CU_ASSERT_EQUAL(memcmp(pages->twin, also ? pages->cur : pages->old, PAGE), 0);
	}
	free(pages);
}

static void
test_apply(void)
{
	with_each(apply_each);
}

/* What makes an input well-formed, written naively once more. */
static bool
naive_valid(const uint8_t *in, size_t len)
{
	size_t at = 8;
	bool any = len == 0;

	if (len > 0 && len < 8)
		return false;
	for (unsigned line = 0; len > 0 && line < 64; line++) {
		size_t changed = 0;

		if (((in[line / 8] >> (line % 8)) & 1) == 0)
			continue;
		if (len < at + 8)
			return false;
		for (unsigned i = 0; i < 64; i++)
			changed += (in[at + i / 8] >> (i % 8)) & 1;
		if (changed == 0 || len < at + 8 + changed)
			return false;
		at += 8 + changed;
		any = true;
	}
	return any && (len == 0 || at == len);
}

/* Spoils an encoded diff: shorter, longer, wrong bits in map or mask or anywhere, or garbage. */
static void
spoil(struct encoded *diff, uint64_t *seed)
{
	size_t bit = unit_below(seed, 64), len = diff->len;

	switch (unit_below(seed, 7)) {
	case 0:
		diff->len = unit_below(seed, len);
		break;
	case 1:
		diff->len += 1 + unit_below(seed, sizeof(diff->bytes) - len);
		break;
	case 2:
		diff->bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		break;
	case 3:
		diff->bytes[8 + bit / 8] ^= (uint8_t)(1u << (bit % 8));
		break;
	case 4:
		diff->bytes[unit_below(seed, len)] = (uint8_t)unit_random(seed);
		break;
	case 5: /* an empty mask, or an empty map */
		memset(diff->bytes + 8 * unit_below(seed, 2), 0, 8);
		break;
	default:
		fill(diff->bytes, sizeof(diff->bytes), seed);
		diff->len = unit_below(seed, sizeof(diff->bytes) + 1);
	}
}

/* Malformed input is refused with nothing stored; what is accepted is well-formed. */
static void
malformed_each(const struct roami_diff_ops *ops)
{
	struct pages *pages = aligned_alloc(64, sizeof(*pages));
	struct encoded diff;
	uint64_t seed = unit_seed();
	unsigned refused = 0;

	CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
	for (unsigned round = 0; round < MALFORMED; round++) {
		size_t bytes = pages_random(pages, 1 + round % 9, &seed);
		uint8_t *exact;
		bool valid, done;

		naive_encode(&diff, pages, bytes);
		if (diff.len == 0)
			continue;
		spoil(&diff, &seed);
		valid = naive_valid(diff.bytes, diff.len);
		exact = malloc(diff.len + 1);
		CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
		memcpy(exact + 1, diff.bytes, diff.len);
		done = ops->apply(pages->dst, pages->twin, exact + 1, diff.len);
		free(exact);
		CU_ASSERT_EQUAL(done, valid);
		if (!valid) {
			CU_ASSERT_EQUAL(memcmp(pages->dst, pages->want, sizeof(pages->dst)), 0);
			CU_ASSERT_EQUAL(memcmp(pages->twin, pages->old, PAGE), 0);
			refused++;
		}
	}
	CU_ASSERT(refused > MALFORMED / 2);
	free(pages);
}

static void
test_malformed(void)
{
	with_each(malformed_each);
}

/* Two threads and one page: `other` writes every odd byte, and must find all of them at the end. */
struct race {
	const struct roami_diff_ops *ops;
	struct pages *pages;
	bool stop;
	unsigned passes, lost;
};

ROAMI_RACY static void *
race_neighbour(void *arg)
{
	struct race *race = arg;
	volatile uint8_t *dst = race->pages->dst;

	for (uint8_t value = 1; !__atomic_load_n(&race->stop, __ATOMIC_ACQUIRE); value++) {
		for (size_t i = 1; i < PAGE; i += 2)
			dst[i] = value;
		for (size_t i = 1; i < PAGE; i += 2)
			race->lost += dst[i] != value;
		__atomic_fetch_add(&race->passes, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Sends the even bytes several times: the more stores, the more chances to lose one. */
static void
race_store(const struct race *race, uint8_t *out)
{
	struct pages *pages = race->pages;
	size_t len = race->ops->encode(out, pages->cur, pages->twin, PAGE);
	bool refused = false;

	for (unsigned i = 0; i < 16; i++) {
		race->ops->put(pages->dst, pages->cur, pages->twin, PAGE);
		refused |= !race->ops->apply(pages->dst, NULL, out, len);
	}
	CU_ASSERT(!refused);
}

/* Changes even bytes and sends them, again and again; returns how many did not arrive. */
ROAMI_RACY static unsigned
race_rounds(struct race *race)
{
	struct pages *pages = race->pages;
	uint8_t out[ROAMI_DIFF_BYTES_MAX];
	uint64_t seed = unit_seed();
	unsigned missing = 0;

	for (unsigned round = 0; round < RACES; round++) {
		size_t step = 2 * (1 + unit_below(&seed, 12));

		for (size_t i = 0; i < PAGE; i += 2)
			pages->cur[i] = i % step == 0 ? (uint8_t)(round | 1) : 0;
		race_store(race, out);
		for (size_t i = 0; i < PAGE; i += step)
			missing += pages->dst[i] != pages->cur[i];
	}
	return missing;
}

/*
 * put and apply lose no write of a thread that writes the neighbouring bytes, and it loses none of
 * theirs.
 */
static void
neighbours_each(const struct roami_diff_ops *ops)
{
	struct race race = {.ops = ops, .pages = aligned_alloc(64, sizeof(struct pages))};
	pthread_t other;

	CU_ASSERT_PTR_NOT_NULL_FATAL(race.pages);
	memset(race.pages, 0, sizeof(*race.pages));
	CU_ASSERT_EQUAL_FATAL(pthread_create(&other, NULL, race_neighbour, &race), 0);
	while (__atomic_load_n(&race.passes, __ATOMIC_RELAXED) < 10)
		;
	CU_ASSERT_EQUAL(race_rounds(&race), 0);
	__atomic_store_n(&race.stop, true, __ATOMIC_RELEASE);
	CU_ASSERT_EQUAL(pthread_join(other, NULL), 0);
	CU_ASSERT(race.passes > 10);
	CU_ASSERT_EQUAL(race.lost, 0);
	free(race.pages);
}

static void
test_neighbours(void)
{
	with_each(neighbours_each);
}

/* Writes the page while it is diffed. */
ROAMI_RACY static void *
race_writer(void *arg)
{
	struct race *race = arg;
	volatile uint64_t *cur = (uint64_t *)(void *)race->pages->cur;
	uint64_t seed = unit_seed() + 1;

	while (!__atomic_load_n(&race->stop, __ATOMIC_ACQUIRE)) {
		for (unsigned i = 0; i < 64; i++)
			cur[unit_below(&seed, PAGE / 8)] = unit_random(&seed);
		__atomic_fetch_add(&race->passes, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Sends what changed, by put or by encode and apply, and writes it into the twin. */
static void
race_send(const struct race *race, uint8_t *out, bool put)
{
	struct pages *pages = race->pages;

	if (put) {
		race->ops->put_sticky(pages->dst, pages->cur, pages->twin, PAGE);
	} else {
		size_t len = race->ops->encode_sticky(out, pages->cur, pages->twin, PAGE);

		CU_ASSERT(race->ops->apply(pages->dst, NULL, out, len));
	}
}

/*
 * Each byte is read once: whatever the page did meanwhile, the twin holds what was sent, and one
 * more diff of the page at rest makes the home equal to it (no write is lost).
 */
static void
moving_each(const struct roami_diff_ops *ops)
{
	struct race race = {.ops = ops, .pages = aligned_alloc(64, sizeof(struct pages))};
	struct pages *pages = race.pages;
	uint8_t out[ROAMI_DIFF_BYTES_MAX];
	unsigned wrong = 0;
	pthread_t other;

	CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
	memset(pages, 0, sizeof(*pages));
	CU_ASSERT_EQUAL_FATAL(pthread_create(&other, NULL, race_writer, &race), 0);
	while (__atomic_load_n(&race.passes, __ATOMIC_RELAXED) < 10)
		;
	for (unsigned round = 0; round < RACES; round++) {
		race_send(&race, out, round % 2 == 0);
		wrong += memcmp(pages->dst, pages->twin, PAGE) != 0;
	}
	__atomic_store_n(&race.stop, true, __ATOMIC_RELEASE);
	CU_ASSERT_EQUAL(pthread_join(other, NULL), 0);
	CU_ASSERT_EQUAL(wrong, 0);
	race_send(&race, out, true);
	CU_ASSERT_EQUAL(memcmp(pages->dst, pages->cur, PAGE), 0);
	free(pages);
}

static void
test_moving(void)
{
	with_each(moving_each);
}

/* Runs of changed words, counted one by one. */
static size_t naive_runs(const uint8_t *cur, const uint8_t *twin)
{
	size_t runs = 0;
	bool before = false;

	for (size_t at = 0; at < PAGE; at += 4) {
		bool differs = memcmp(cur + at, twin + at, 4) != 0;

		runs += differs && !before;
		before = differs;
	}
	return runs;
}

static void
test_runs(void)
{
	uint8_t cur[PAGE] = {0}, twin[PAGE] = {0};
	uint64_t seed = 1;
	size_t wrong = 0;

	CU_ASSERT_EQUAL(roami_diff_runs(cur, twin), 0);
	for (unsigned round = 1; round < 2000; round++) {
		memset(cur, 0, sizeof(cur));
		for (unsigned i = 0; i < round % 97; i++) {
			size_t at = unit_random(&seed) % PAGE, most = PAGE - at;
			size_t bytes = unit_random(&seed) % (most < 40 ? most : 40) + 1;

			memset(cur + at, 1 << round % 8, bytes);
		}
		wrong += roami_diff_runs(cur, twin) != naive_runs(cur, twin);
	}
	CU_ASSERT_EQUAL(wrong, 0);
	memset(cur, 0x80, sizeof(cur));
	CU_ASSERT_EQUAL(roami_diff_runs(cur, twin), 1);
}

/* auto takes the best one there is; an unknown name gives none. */
static void
test_choose(void)
{
	const struct roami_diff_ops *best = NULL;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct roami_diff_ops *ops = roami_diff_choose(names[i]);

		best = ops != NULL ? ops : best;
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(best);
	CU_ASSERT_PTR_EQUAL(roami_diff_choose(NULL), best);
	CU_ASSERT_PTR_EQUAL(roami_diff_choose("auto"), best);
	CU_ASSERT_PTR_NOT_NULL(roami_diff_choose("scalar"));
	CU_ASSERT_PTR_NULL(roami_diff_choose("sse9"));
	CU_ASSERT_PTR_NULL(roami_diff_choose(""));
}

static CU_TestInfo tests[] = {
	{"choice", test_choose},
	{"runs of changed words", test_runs},
	{"every single bit counts", test_same},
	{"put matches a byte loop", test_put},
	{"encode matches the naive encoder", test_encode},
	{"apply stores changed bytes only", test_apply},
	{"malformed diffs are refused", test_malformed},
	{"writers of neighbouring bytes lose nothing", test_neighbours},
	{"a page that is written meanwhile", test_moving},
	CU_TEST_INFO_NULL,
};

int
main(int argc, char **argv)
{
	return unit_main("diff", tests, argc, argv);
}
