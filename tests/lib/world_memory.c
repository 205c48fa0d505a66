#include "world_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* tests/meson.build makes the linker redirect the library's calls to these functions. */
void *__wrap_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);
void *__wrap_mremap(void *at, size_t from, size_t to, int flags, ...);
int __wrap_mprotect(void *at, size_t bytes, int prot);
int __wrap_madvise(void *at, size_t bytes, int advice);
void *__real_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__real_mremap(void *at, size_t from, size_t to, int flags, ...);
int __real_mprotect(void *at, size_t bytes, int prot);
int __real_madvise(void *at, size_t bytes, int advice);

#define PAGE        4096u
#define FIRST_BITS  12u /* slots have 4 KiB to 1 GiB: one class for each power of two */
#define CLASSES     19u
#define CLASS_BYTES (UINT64_C(1) << 35)
#define SLOTS_MAX   4096u
#define WAIT_SLOTS  64u /* a slot is used again after so many others were unmapped */
#define KEPT_MAX    512u /* pages that a class keeps between worlds */
#define GUARDS_MAX  4096u
#define LOOK_PAGES  16384u
#define SMALL       (UINT64_C(1) << 16)
#define RUBBISH     0xdb

/* Slots of one size, one behind the other; unmapped ones are used again in turn. */
struct class {
	uint8_t *slots;
	size_t bytes;
	uint32_t begun;
	size_t in_use[SLOTS_MAX]; /* bytes mapped; 0: unmapped */
	uint32_t unmapped[SLOTS_MAX];
	uint64_t first, last; /* of `unmapped` */
};

struct guard {
	void *at;
	size_t bytes;
};

/*
 * The one world that is open gets whatever library code maps here: the calls cannot name a world.
 */
static struct {
	uint8_t *base;
	struct class classes[CLASSES];
	struct guard guards[GUARDS_MAX];
	unsigned guard_count;
	uint8_t look[LOOK_PAGES];
} memory;

/*
 * True in the thread whose world is open; threads that are clients of a server use the kernel's
 * memory.
 */
static _Thread_local bool memory_open;

static size_t round_up(size_t bytes)
{
	return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* -------------------------------------------------------------------------------------- slots */

static bool ours(const void *at)
{
	return memory.base != NULL && (const uint8_t *)at >= memory.base &&
	       (const uint8_t *)at < memory.base + CLASSES * CLASS_BYTES;
}

static struct class *class_of(const void *at, uint32_t *slot_p)
{
	uint64_t offset = (uint64_t)((const uint8_t *)at - memory.base);
	struct class *class = &memory.classes[offset / CLASS_BYTES];

	*slot_p = (uint32_t)(offset % CLASS_BYTES / class->bytes);
	return class;
}

static void *slot_at(const struct class *class, uint32_t slot)
{
	return class->slots + slot * class->bytes;
}

/* NULL: use the kernel's memory. */
static void *slot_take(size_t bytes)
{
	unsigned bits = bytes <= PAGE ? FIRST_BITS : 64u - (unsigned)__builtin_clzl(bytes - 1);
	struct class *class;
	uint32_t slot;

	if (bits >= FIRST_BITS + CLASSES)
		return NULL;
	class = &memory.classes[bits - FIRST_BITS];
	if (class->last - class->first > WAIT_SLOTS) {
		slot = class->unmapped[class->first++ % SLOTS_MAX];
		memset(slot_at(class, slot), 0, class->bytes);
	} else if (class->begun < SLOTS_MAX && class->begun < CLASS_BYTES / class->bytes) {
		slot = class->begun++;
	} else {
		return NULL;
	}
	class->in_use[slot] = bytes;
	return slot_at(class, slot);
}

/* Large slots are few, and are used again only in the next world. */
static void slot_give(void *at)
{
	uint32_t slot;
	struct class *class = class_of(at, &slot);

	if (at != slot_at(class, slot) || class->in_use[slot] == 0)
		abort();
	if (memory_open && class->bytes <= SMALL) {
		memset(at, RUBBISH, class->in_use[slot]);
		class->unmapped[class->last++ % SLOTS_MAX] = slot;
	}
	class->in_use[slot] = 0;
}

/* -------------------------------------------------------------------------------------- calls */

void *__wrap_mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *got = NULL;

	if (memory_open && at == NULL && fd < 0 && prot == (PROT_READ | PROT_WRITE))
		got = slot_take(round_up(bytes));
	return got != NULL ? got : __real_mmap64(at, bytes, prot, flags, fd, offset);
}

int __wrap_munmap(void *at, size_t bytes)
{
	if (!ours(at))
		return __real_munmap(at, bytes);
	slot_give(at);
	return 0;
}

/* Always moves the memory, so that code that keeps the old place reads rubbish. */
void *__wrap_mremap(void *at, size_t from, size_t to, int flags, ...)
{
	void *next;

	if (!ours(at))
		return __real_mremap(at, from, to, flags);
	next = __wrap_mmap64(NULL, to, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (next != MAP_FAILED) {
		memcpy(next, at, from);
		slot_give(at);
	}
	return next;
}

int __wrap_mprotect(void *at, size_t bytes, int prot)
{
	if (ours(at)) {
		if (memory.guard_count == GUARDS_MAX)
			abort();
		memory.guards[memory.guard_count++] = (struct guard){at, bytes};
	}
	return __real_mprotect(at, bytes, prot);
}

int __wrap_madvise(void *at, size_t bytes, int advice)
{
	/* No world forks, and no core dump is looked at. */
	if (ours(at) &&
	    (advice == MADV_DONTDUMP || advice == MADV_DODUMP || advice == MADV_DONTFORK))
		return 0;
	return __real_madvise(at, bytes, advice);
}

/* ------------------------------------------------------------------------------------- worlds */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
/* Without this memory, where address space is limited, the kernel's is used. */
static void memory_make(void)
{
	memory.base = __real_mmap64(NULL, CLASSES * CLASS_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory.base == MAP_FAILED) {
		memory.base = NULL;
		return;
	}
	for (unsigned i = 0; i < CLASSES; i++) {
		memory.classes[i].slots = memory.base + i * CLASS_BYTES;
		memory.classes[i].bytes = (size_t)1 << (FIRST_BITS + i);
	}
}
#endif

void world_memory_open(void)
{
#ifndef SANITIZED
	if (memory.base == NULL)
		memory_make();
	memory_open = memory.base != NULL;
#endif
}

static bool page_zero(const uint8_t *page)
{
	static const uint8_t zero[PAGE];

	return memcmp(page, zero, PAGE) == 0;
}

/* Zeroes those of some pages that are resident; returns their number. */
static uint32_t pages_clear(uint8_t *at, size_t pages)
{
	uint32_t there = 0;

	if (mincore(at, pages * PAGE, memory.look) != 0)
		abort();
	for (size_t i = 0; i < pages; i++) {
		if ((memory.look[i] & 1) == 0)
			continue;
		there++;
		if (!page_zero(at + i * PAGE))
			memset(at + i * PAGE, 0, PAGE);
	}
	return there;
}

static void class_clear(struct class *class)
{
	size_t pages = class->begun * class->bytes / PAGE;
	uint32_t there = 0;

	for (size_t at = 0; at < pages; at += LOOK_PAGES)
		there += pages_clear(class->slots + at * PAGE,
				     pages - at < LOOK_PAGES ? pages - at : LOOK_PAGES);
	if (there > KEPT_MAX)
		__real_madvise(class->slots, pages * PAGE, MADV_DONTNEED);
	memset(class->in_use, 0, class->begun * sizeof(class->in_use[0]));
	class->begun = 0;
	class->first = class->last = 0;
}

void world_memory_close(void)
{
	if (!memory_open)
		return;
	memory_open = false;
	for (unsigned i = 0; i < memory.guard_count; i++)
		__real_mprotect(memory.guards[i].at, memory.guards[i].bytes,
				PROT_READ | PROT_WRITE);
	memory.guard_count = 0;
	for (unsigned i = 0; i < CLASSES; i++)
		class_clear(&memory.classes[i]);
}
