#include "os/room.h"

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

static struct roami_room *room_map(struct roami_room *room)
{
	uint8_t *at = mmap(NULL, ROOM_GUARD + ROAMI_ROOM_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at != MAP_FAILED && mprotect(at, ROOM_GUARD, PROT_NONE) == 0) {
		room->bytes = at + ROOM_GUARD;
		return room;
	}
	if (at != MAP_FAILED)
		munmap(at, ROOM_GUARD + ROAMI_ROOM_BYTES);
	roami_room_give(room);
	return NULL;
}

static bool room_try(struct roami_room *room)
{
	return atomic_load_explicit(&room->held, memory_order_relaxed) == 0 &&
	       atomic_exchange_explicit(&room->held, 1, memory_order_acquire) == 0;
}

static struct roami_room *room_ready(struct roami_room *room)
{
	return __builtin_expect(room->bytes != NULL, 1) ? room : room_map(room);
}

struct roami_room *roami_room_take(struct roami_rooms *rooms, uint32_t *hint_p)
{
	struct roami_room *last = &rooms->rooms[*hint_p];

	if (__builtin_expect(room_try(last), 1))
		return room_ready(last);
	for (uint32_t i = 0;; i++) {
		struct roami_room *room = &rooms->rooms[i % ROAMI_ROOMS_MAX];

		if (room_try(room)) {
			*hint_p = i % ROAMI_ROOMS_MAX;
			return room_ready(room);
		}
		if (i % ROAMI_ROOMS_MAX == ROAMI_ROOMS_MAX - 1)
			sched_yield();
	}
}

void roami_rooms_free(struct roami_rooms *rooms)
{
	for (uint32_t i = 0; i < ROAMI_ROOMS_MAX; i++) {
		struct roami_room *room = &rooms->rooms[i];

		if (room->bytes != NULL)
			munmap(room->bytes - ROOM_GUARD, ROOM_GUARD + ROAMI_ROOM_BYTES);
		room->bytes = NULL;
	}
}

/* The kernel has painted them with zeroes. */
size_t roami_rooms_depth(const struct roami_rooms *rooms)
{
	size_t depth = 0;

	for (uint32_t i = 0; i < ROAMI_ROOMS_MAX; i++) {
		const uint8_t *bytes = rooms->rooms[i].bytes;
		size_t unused = 0;

		while (bytes != NULL && unused < ROAMI_ROOM_BYTES && bytes[unused] == 0)
			unused++;
		if (bytes != NULL && ROAMI_ROOM_BYTES - unused > depth)
			depth = ROAMI_ROOM_BYTES - unused;
	}
	return depth;
}

/*
 * The caller's frame is found by rbp.  As a "signal frame", or gdb would take a stack that does not
 * go on at a higher address for a broken one.
 */
void roami_room_switch(void *stack, void (*fn)(void *arg), void *arg);

__asm__(".text\n"
	".globl roami_room_switch\n"
	".hidden roami_room_switch\n"
	".type roami_room_switch, @function\n"
	"roami_room_switch:\n"
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
	".size roami_room_switch, . - roami_room_switch\n");

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

void roami_room_run(const struct roami_room *room, void (*fn)(void *arg), void *arg)
{
	struct room_visit visit = {fn, arg};
	void *fake;

	__sanitizer_start_switch_fiber(&fake, room->bytes, ROAMI_ROOM_BYTES);
	roami_room_switch(room->bytes + ROAMI_ROOM_BYTES, room_visited, &visit);
	__sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

#else

void roami_room_run(const struct roami_room *room, void (*fn)(void *arg), void *arg)
{
	roami_room_switch(room->bytes + ROAMI_ROOM_BYTES, fn, arg);
	__asm__ volatile(""); /* a call with nothing behind it would leave gdb no frame */
}

#endif
