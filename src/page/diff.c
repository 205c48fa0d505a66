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
