#include "os/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#define FIBER_PAGE 4096u

struct roami_fiber {
	void *sp;
	uint8_t *stack; /* lowest usable byte; NULL: a thread's own */
	size_t bytes;
	void (*fn)(void *arg);
	void *arg;
	struct roami_fiber *came_from; /* for the sanitizers, while being switched to */
#ifdef FIBER_ASAN
	void *fake;
	const void *bottom;
	size_t size;
#endif
#ifdef FIBER_TSAN
	void *tsan;
#endif
};

/*
 * Keeps what a called function must keep (System V ABI): six registers and the control words of
 * both floating-point units; then changes stacks.
 */
void roami_fiber_swap(void **save_sp, void *load_sp);
void roami_fiber_start(void);

__asm__(".text\n"
	".globl roami_fiber_swap\n"
	".hidden roami_fiber_swap\n"
	".type roami_fiber_swap, @function\n"
	"roami_fiber_swap:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	subq $8, %rsp\n"
	"	stmxcsr (%rsp)\n"
	"	fnstcw 4(%rsp)\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	ldmxcsr (%rsp)\n"
	"	fldcw 4(%rsp)\n"
	"	addq $8, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size roami_fiber_swap, . - roami_fiber_swap\n"
	".globl roami_fiber_start\n"
	".hidden roami_fiber_start\n"
	".type roami_fiber_start, @function\n"
	"roami_fiber_start:\n"
	"	movq %r12, %rdi\n"
	"	call *%r13\n"
	"	ud2\n"
	".size roami_fiber_start, . - roami_fiber_start\n");

static void fiber_arrived(struct roami_fiber *fiber)
{
#ifdef FIBER_ASAN
	struct roami_fiber *from = fiber->came_from;

	__sanitizer_finish_switch_fiber(fiber->fake, &from->bottom, &from->size);
#else
	(void)fiber;
#endif
}

static void fiber_main(void *arg)
{
	struct roami_fiber *fiber = arg;

	fiber_arrived(fiber);
	fiber->fn(fiber->arg);
	abort();
}

static struct roami_fiber *fiber_new(void)
{
	return calloc(1, sizeof(struct roami_fiber));
}

struct roami_fiber *roami_fiber_thread(void)
{
	struct roami_fiber *fiber = fiber_new();

#ifdef FIBER_TSAN
	if (fiber != NULL)
		fiber->tsan = __tsan_get_current_fiber();
#endif
	return fiber;
}

/* What roami_fiber_swap will pop: control words, six registers, and where to go. */
static void fiber_prepare(struct roami_fiber *fiber)
{
	uint64_t *sp = (void *)(fiber->stack + fiber->bytes - 16);
	uint32_t *words;

	*--sp = (uintptr_t)roami_fiber_start;
	*--sp = 0;                     /* rbp */
	*--sp = 0;                     /* rbx */
	*--sp = (uintptr_t)fiber;      /* r12 */
	*--sp = (uintptr_t)fiber_main; /* r13 */
	*--sp = 0;
	*--sp = 0;
	words = (void *)--sp;
	words[0] = 0x1f80; /* the values every program starts with */
	words[1] = 0x037f;
	fiber->sp = sp;
}

struct roami_fiber *roami_fiber_create(size_t stack_bytes, void (*fn)(void *arg), void *arg)
{
	size_t bytes = (stack_bytes + FIBER_PAGE - 1) & ~(size_t)(FIBER_PAGE - 1);
	struct roami_fiber *fiber = fiber_new();
	uint8_t *room;

	if (fiber == NULL)
		return NULL;
	room = mmap(NULL, bytes + FIBER_PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (room == MAP_FAILED || mprotect(room, FIBER_PAGE, PROT_NONE) != 0) {
		if (room != MAP_FAILED)
			munmap(room, bytes + FIBER_PAGE);
		free(fiber);
		return NULL;
	}
	fiber->stack = room + FIBER_PAGE;
	fiber->bytes = bytes;
	fiber->fn = fn;
	fiber->arg = arg;
#ifdef FIBER_ASAN
	fiber->bottom = fiber->stack;
	fiber->size = bytes;
#endif
#ifdef FIBER_TSAN
	fiber->tsan = __tsan_create_fiber(0);
#endif
	fiber_prepare(fiber);
	return fiber;
}

void roami_fiber_switch(struct roami_fiber *from, struct roami_fiber *to)
{
	to->came_from = from;
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(&from->fake, to->bottom, to->size);
#endif
#ifdef FIBER_TSAN
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
	roami_fiber_swap(&from->sp, to->sp);
	fiber_arrived(from);
}

void roami_fiber_exit(struct roami_fiber *from, struct roami_fiber *to)
{
	to->came_from = from;
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(NULL, to->bottom, to->size);
#endif
#ifdef FIBER_TSAN
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
	roami_fiber_swap(&from->sp, to->sp);
	abort();
}

void roami_fiber_destroy(struct roami_fiber *fiber)
{
	if (fiber == NULL)
		return;
#ifdef FIBER_TSAN
	if (fiber->stack != NULL)
		__tsan_destroy_fiber(fiber->tsan);
#endif
#ifdef FIBER_ASAN
	/* A fiber that did not end has marks on its stack, which later mappings would find. */
	if (fiber->stack != NULL)
		ASAN_UNPOISON_MEMORY_REGION(fiber->stack, fiber->bytes);
#endif
	if (fiber->stack != NULL)
		munmap(fiber->stack - FIBER_PAGE, fiber->bytes + FIBER_PAGE);
	free(fiber);
}
