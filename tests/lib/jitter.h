/*
 * Random delays at atomic operations: for builds with -Djitter=true, which include this file before
 * each source.  Before an operation, when its operands are known, or behind it, a thread may give
 * way, spin for some microseconds, or sleep for up to 0.26 ms: so it is overtaken between any two
 * steps of the library that other threads can see.
 *
 * Each thread draws for itself how often it is delayed, and some places in the code where it is
 * delayed often: a race needs one thread that is slow at one place, and others that are not.
 * JITTER=SEED in the environment chooses the delays, for each node of a job others (0: none; not
 * set: others in each run).
 */
#ifndef ROAM_TESTS_JITTER_H
#define ROAM_TESTS_JITTER_H

#pragma GCC system_header /* macros in arguments of macros shadow each other's variables */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define ROAMI_JITTER_ONE __attribute__((weak)) /* one in a program, not one in each file */

struct roami_jitter {
	uint64_t seed;    /* what it was drawn for */
	uint64_t state;   /* of the generator */
	uint64_t hot;     /* chooses the places */
	unsigned places;  /* one of 2^places is chosen */
	unsigned often;   /* one operation in 2^often is delayed there, ... */
	unsigned rare;    /* ... and one in 2^rare elsewhere */
	unsigned longest; /* sleep: 2^longest ns */
};

/* The seed, once it is known; the number of the next thread; how often the process has forked. */
ROAMI_JITTER_ONE uint64_t roami_jitter_seed;
ROAMI_JITTER_ONE uint64_t roami_jitter_threads;
ROAMI_JITTER_ONE uint64_t roami_jitter_forks;
ROAMI_JITTER_ONE _Thread_local struct roami_jitter roami_jitter_own;

static inline uint64_t roami_jitter_mix(uint64_t value)
{
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* The seed of the environment, mixed with `salt` and the node's place; 0: no delays. */
ROAMI_JITTER_ONE uint64_t roami_jitter_of(uint64_t salt)
{
	const char *text = getenv("JITTER"), *place = getenv("ROAM_BOOT");
	uint64_t seed = text == NULL ? 0 : strtoull(text, NULL, 0);
	struct timespec now;

	if (text != NULL && seed == 0)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (text == NULL)
		seed = (uint64_t)now.tv_nsec << 20 ^ (uint64_t)now.tv_sec;
	for (; place != NULL && *place != '\0'; place++)
		salt = salt * 31 + (uint64_t)*place;
	return roami_jitter_mix(seed + salt * UINT64_C(0x9e3779b97f4a7c15)) | 1;
}

ROAMI_JITTER_ONE void roami_jitter_fork(void)
{
	roami_jitter_forks++;
}

ROAMI_JITTER_ONE void roami_jitter_child(void)
{
	roami_jitter_threads += 1000 * roami_jitter_forks;
	roami_jitter_own.seed = 0;
}

/* The first operation of a process. */
ROAMI_JITTER_ONE uint64_t roami_jitter_first(void)
{
	uint64_t seed = roami_jitter_of(0);

	if (seed == 0)
		return 0;
	pthread_atfork(roami_jitter_fork, NULL, roami_jitter_child);
	__atomic_store_n(&roami_jitter_seed, seed, __ATOMIC_RELAXED);
	return seed;
}

/* Begins a part of a test: all threads draw anew, and are numbered from 0 again. */
static inline void roami_jitter_begin(uint64_t salt)
{
	__atomic_store_n(&roami_jitter_threads, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&roami_jitter_seed, roami_jitter_of(salt), __ATOMIC_RELAXED);
}

ROAMI_JITTER_ONE void roami_jitter_draw(struct roami_jitter *own, uint64_t seed)
{
	uint64_t number = __atomic_fetch_add(&roami_jitter_threads, 1, __ATOMIC_RELAXED);
	uint64_t draw;

	own->seed = seed;
	own->state = roami_jitter_mix(seed + number * UINT64_C(0x9e3779b97f4a7c15)) | 1;
	own->hot = roami_jitter_mix(own->state);
	draw = roami_jitter_mix(own->hot);
	own->places = 4 + (unsigned)(draw >> 16) % 3;
	own->often = 1 + (unsigned)(draw >> 8) % 3;
	own->rare = 7 + (unsigned)(draw % 6);
	own->longest = 13 + (unsigned)(draw >> 24) % 6;
}

/* Half of the delays at the chosen places are sleeps, and a quarter of the others. */
ROAMI_JITTER_ONE void roami_jitter_wait(uint64_t draw, unsigned longest, int chosen)
{
	struct timespec time = {0, (long)(draw >> 8 & ((UINT64_C(1) << longest) - 1))};
	unsigned kind = draw % 8;
	int error = errno;

	if (kind >= (chosen ? 4 : 6))
		nanosleep(&time, NULL);
	else if (kind < 2)
		for (unsigned i = draw >> 8 & 0xff; i > 0; i--)
			__builtin_ia32_pause();
	else
		sched_yield();
	errno = error;
}

/* May delay; each call is a place of its own. */
ROAMI_JITTER_ONE __attribute__((noinline)) void roami_jitter(void)
{
	struct roami_jitter *own = &roami_jitter_own;
	uint64_t seed = __atomic_load_n(&roami_jitter_seed, __ATOMIC_RELAXED);
	uint64_t place = (uint64_t)__builtin_return_address(0) - (uint64_t)&roami_jitter_wait;
	int chosen;

	if (seed == 0)
		seed = roami_jitter_first();
	if (seed == 0)
		return;
	if (own->seed != seed)
		roami_jitter_draw(own, seed);
	own->state ^= own->state << 13;
	own->state ^= own->state >> 7;
	own->state ^= own->state << 17;
	chosen = (roami_jitter_mix(place ^ own->hot) & ((1u << own->places) - 1)) == 0;
	if ((own->state >> 40 & ((1u << (chosen ? own->often : own->rare)) - 1)) == 0)
		roami_jitter_wait(own->state >> 8, own->longest, chosen);
}

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and
#undef atomic_fetch_and_explicit
#undef atomic_fetch_xor
#undef atomic_fetch_xor_explicit
#undef atomic_thread_fence

/* An operation with a result, or without, between two places; its operands have their values. */
#define ROAMI_JITTERED(operation)                        \
	__extension__({                                  \
		roami_jitter();                          \
		__auto_type jitter_result = (operation); \
		roami_jitter();                          \
		jitter_result;                           \
	})
#define ROAMI_JITTERED_VOID(operation) (roami_jitter(), (operation), roami_jitter())

#define ROAMI_JITTERED_FETCH(operation, object, operand, order)                  \
	__extension__({                                                          \
		__auto_type jitter_object = (object);                            \
		__auto_type jitter_operand = (operand);                          \
		ROAMI_JITTERED(operation(jitter_object, jitter_operand, order)); \
	})

/* Called by these names, too; within its own expansion a name is the compiler's. */
#define __atomic_load_n(object, order)                                 \
	__extension__({                                                \
		__auto_type jitter_object = (object);                  \
		ROAMI_JITTERED(__atomic_load_n(jitter_object, order)); \
	})
#define __atomic_store_n(object, value, order)                                             \
	__extension__({                                                                    \
		__auto_type jitter_object = (object);                                      \
		__typeof__((void)0, *jitter_object) jitter_value = (value);                \
		ROAMI_JITTERED_VOID(__atomic_store_n(jitter_object, jitter_value, order)); \
	})
#define __atomic_compare_exchange_n(object, expected, desired, weak, success, failure)     \
	__extension__({                                                                    \
		__auto_type jitter_object = (object);                                      \
		__auto_type jitter_expected = (expected);                                  \
		__typeof__((void)0, *jitter_object) jitter_desired = (desired);            \
		ROAMI_JITTERED(__atomic_compare_exchange_n(jitter_object, jitter_expected, \
							   jitter_desired, weak, success,  \
							   failure));                      \
	})

#define atomic_load_explicit(object, order)         __atomic_load_n(object, order)
#define atomic_store_explicit(object, value, order) __atomic_store_n(object, value, order)
#define atomic_exchange_explicit(object, value, order)                                   \
	__extension__({                                                                  \
		__auto_type jitter_object = (object);                                    \
		__typeof__((void)0, *jitter_object) jitter_value = (value);              \
		ROAMI_JITTERED(__atomic_exchange_n(jitter_object, jitter_value, order)); \
	})
#define atomic_compare_exchange_strong_explicit(object, expected, desired, success, failure) \
	__atomic_compare_exchange_n(object, expected, desired, 0, success, failure)
#define atomic_compare_exchange_weak_explicit(object, expected, desired, success, failure) \
	__atomic_compare_exchange_n(object, expected, desired, 1, success, failure)
#define atomic_fetch_add_explicit(object, operand, order) \
	ROAMI_JITTERED_FETCH(__atomic_fetch_add, object, operand, order)
#define atomic_fetch_sub_explicit(object, operand, order) \
	ROAMI_JITTERED_FETCH(__atomic_fetch_sub, object, operand, order)
#define atomic_fetch_or_explicit(object, operand, order) \
	ROAMI_JITTERED_FETCH(__atomic_fetch_or, object, operand, order)
#define atomic_fetch_and_explicit(object, operand, order) \
	ROAMI_JITTERED_FETCH(__atomic_fetch_and, object, operand, order)
#define atomic_fetch_xor_explicit(object, operand, order) \
	ROAMI_JITTERED_FETCH(__atomic_fetch_xor, object, operand, order)
#define atomic_thread_fence(order) ROAMI_JITTERED_VOID(__atomic_thread_fence(order))

#define atomic_load(object) atomic_load_explicit(object, __ATOMIC_SEQ_CST)
#define atomic_store(object, value) atomic_store_explicit(object, value, __ATOMIC_SEQ_CST)
#define atomic_exchange(object, value) atomic_exchange_explicit(object, value, __ATOMIC_SEQ_CST)
#define atomic_compare_exchange_strong(object, expected, desired)                             \
	atomic_compare_exchange_strong_explicit(object, expected, desired, __ATOMIC_SEQ_CST, \
						__ATOMIC_SEQ_CST)
#define atomic_compare_exchange_weak(object, expected, desired)                             \
	atomic_compare_exchange_weak_explicit(object, expected, desired, __ATOMIC_SEQ_CST, \
					      __ATOMIC_SEQ_CST)
#define atomic_fetch_add(object, operand) \
	atomic_fetch_add_explicit(object, operand, __ATOMIC_SEQ_CST)
#define atomic_fetch_sub(object, operand) \
	atomic_fetch_sub_explicit(object, operand, __ATOMIC_SEQ_CST)
#define atomic_fetch_or(object, operand) atomic_fetch_or_explicit(object, operand, __ATOMIC_SEQ_CST)
#define atomic_fetch_and(object, operand) \
	atomic_fetch_and_explicit(object, operand, __ATOMIC_SEQ_CST)
#define atomic_fetch_xor(object, operand) \
	atomic_fetch_xor_explicit(object, operand, __ATOMIC_SEQ_CST)

#endif
