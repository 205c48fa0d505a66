/*
 * Choice of the diff implementation.
 */
#include "diff.h"

#include <string.h>

static bool diff_has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
	       __builtin_cpu_supports("popcnt");
}

static bool diff_has_avx512(void)
{
	return diff_has_avx2() && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
}

const struct roami_diff_ops *roami_diff_choose(const char *simd)
{
	bool any = simd == NULL || strcmp(simd, "auto") == 0;

	__builtin_cpu_init();
	if (any || strcmp(simd, "avx512") == 0) {
		if (diff_has_avx512())
			return &roami_diff_avx512;
	}
	if (any || strcmp(simd, "avx2") == 0) {
		if (diff_has_avx2())
			return &roami_diff_avx2;
	}
	if (any || strcmp(simd, "scalar") == 0)
		return &roami_diff_scalar;
	return NULL;
}

ROAMI_RACY bool roami_diff_apply(uint8_t *dst, uint8_t *also, const uint8_t *in, size_t len)
{
	return roami_diff_apply_lines(dst, also, in, len);
}

ROAMI_RACY bool roami_diff_sound(const uint8_t *in, size_t len)
{
	struct roami_diff_lines lines;

	return roami_diff_parse(&lines, in, len);
}

ROAMI_RACY size_t roami_diff_runs(const uint8_t *cur, const uint8_t *twin)
{
	bool before = false;
	size_t runs = 0;

	for (size_t at = 0; at < ROAMI_DIFF_PAGE_BYTES; at += 8) {
		uint64_t word = roami_diff_load(cur + at) ^ roami_diff_load(twin + at);
		bool low = (uint32_t)word != 0, high = word >> 32 != 0;

		runs += (size_t)(low && !before) + (size_t)(high && !low);
		before = high;
	}
	return runs;
}
