#include "os/slab.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define ROOM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROOM_ASAN 1
#endif
#endif

#ifdef ROOM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#define ROOM_GUARD 4096u

static struct roami_slab *room_map(struct roami_slab *slab)
{
	uint8_t *at = mmap(NULL, ROOM_GUARD + ROAMI_SLAB_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at != MAP_FAILED && mprotect(at, ROOM_GUARD, PROT_NONE) == 0) {
		slab->bytes = at + ROOM_GUARD;
		return slab;
	}
	if (at != MAP_FAILED)
		munmap(at, ROOM_GUARD + ROAMI_SLAB_BYTES);
	roami_slab_give(slab);
	return NULL;
}

static bool room_try(struct roami_slab *slab)
{
	return atomic_load_explicit(&slab->held, memory_order_relaxed) == 0 &&
	       atomic_exchange_explicit(&slab->held, 1, memory_order_acquire) == 0;
}

static struct roami_slab *room_ready(struct roami_slab *slab)
{
	return __builtin_expect(slab->bytes != NULL, 1) ? slab : room_map(slab);
}

struct roami_slab *roami_slab_take(struct roami_slabs *slabs, uint32_t *hint_p)
{
	struct roami_slab *last = &slabs->slabs[*hint_p];

	if (__builtin_expect(room_try(last), 1))
		return room_ready(last);
	for (uint32_t i = 0;; i++) {
		struct roami_slab *slab = &slabs->slabs[i % ROAMI_SLABS_MAX];

		if (room_try(slab)) {
			*hint_p = i % ROAMI_SLABS_MAX;
			return room_ready(slab);
		}
		if (i % ROAMI_SLABS_MAX == ROAMI_SLABS_MAX - 1)
			sched_yield();
	}
}

void roami_slabs_free(struct roami_slabs *slabs)
{
	for (uint32_t i = 0; i < ROAMI_SLABS_MAX; i++) {
		struct roami_slab *slab = &slabs->slabs[i];

		if (slab->bytes != NULL)
			munmap(slab->bytes - ROOM_GUARD, ROOM_GUARD + ROAMI_SLAB_BYTES);
		slab->bytes = NULL;
	}
}

/* The kernel has painted them with zeroes. */
size_t roami_slabs_depth(const struct roami_slabs *slabs)
{
	size_t depth = 0;

	for (uint32_t i = 0; i < ROAMI_SLABS_MAX; i++) {
		const uint8_t *bytes = slabs->slabs[i].bytes;
		size_t unused = 0;

		while (bytes != NULL && unused < ROAMI_SLAB_BYTES && bytes[unused] == 0)
			unused++;
		if (bytes != NULL && ROAMI_SLAB_BYTES - unused > depth)
			depth = ROAMI_SLAB_BYTES - unused;
	}
	return depth;
}

/*
 * The caller's frame is found by rbp.  As a "signal frame", or gdb would take a stack that does not
 * go on at a higher address for a broken one.
 */
void roami_slab_switch(void *stack, void (*fn)(void *arg), void *arg);

__asm__(".text\n"
	".globl roami_slab_switch\n"
	".hidden roami_slab_switch\n"
	".type roami_slab_switch, @function\n"
	"roami_slab_switch:\n"
	"	.cfi_startproc\n"
	"	.cfi_signal_frame\n"
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	movq %rdi, %rsp\n"
	"	movq %rdx, %rdi\n"
	"	call *%rsi\n"
	"	movq %rbp, %rsp\n"
	"	popq %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size roami_slab_switch, . - roami_slab_switch\n");

#ifdef ROOM_ASAN

struct room_visit {
	void (*fn)(void *arg);
	void *arg;
};

static void room_visited(void *arg)
{
	const struct room_visit *visit = arg;
	const void *bottom;
	size_t bytes;

	__sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
	visit->fn(visit->arg);
	__sanitizer_start_switch_fiber(NULL, bottom, bytes);
}

void roami_slab_run(const struct roami_slab *slab, void (*fn)(void *arg), void *arg)
{
	struct room_visit visit = {fn, arg};
	void *fake;

	__sanitizer_start_switch_fiber(&fake, slab->bytes, ROAMI_SLAB_BYTES);
	roami_slab_switch(slab->bytes + ROAMI_SLAB_BYTES, room_visited, &visit);
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

#else

void roami_slab_run(const struct roami_slab *slab, void (*fn)(void *arg), void *arg)
{
	roami_slab_switch(slab->bytes + ROAMI_SLAB_BYTES, fn, arg);
	__asm__ volatile(""); /* a call with nothing behind it would leave gdb no frame */
}

#endif
