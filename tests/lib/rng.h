/* Seeded random numbers for worlds and programs: splitmix64, every seed is good. */
#ifndef ROAM_TESTS_RNG_H
#define ROAM_TESTS_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static inline uint64_t rng_next(struct rng *rng)
{
	return rng_mix(rng->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* A number below `limit`, which is not 0. */
static inline uint32_t rng_below(struct rng *rng, uint32_t limit)
{
	return (uint32_t)((rng_next(rng) >> 32) * limit >> 32);
}

/* least .. most, both included. */
static inline uint32_t rng_range(struct rng *rng, uint32_t least, uint32_t most)
{
	return least + rng_below(rng, most - least + 1);
}

/* True once in `n` times. */
static inline bool rng_one_in(struct rng *rng, uint32_t n)
{
	return rng_below(rng, n) == 0;
}

#endif
