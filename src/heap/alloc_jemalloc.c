/*
 * jemalloc for small blocks.  It works on addresses, so it gets those of a *shadow*: inaccessible
 * address space of the slice's size.  Its metadata stays in its own memory, its extents come from
 * the page ranges, and it is asked about a block only after roam's own tables.
 */
#include "heap/alloc_priv.h"

#ifdef ROAMI_HAVE_JEMALLOC

#include <assert.h>
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/*
 * jemalloc asks for more than this only for its reserve, which it would never give back.  Refused,
 * it asks for what it needs: slabs of a few pages.
 */
#define JE_EXTENT_MAX (16u * ROAM_PAGE_SIZE)

struct roami_je {
	extent_hooks_t hooks; /* first: a hook gets its address */
	struct roami_ranges *ranges;
	uint8_t *shadow;
	uint64_t *live; /* a word for each page, a bit for each grain: a live block starts here */
	uint64_t *used; /* handed out before */
	unsigned arena;
	_Atomic uintptr_t inside; /* the thread that has locked and called jemalloc */
};

/* The argument of experimental.arenas_create_ext, which no header declares. */
struct je_config {
	extent_hooks_t *hooks;
	bool metadata_use_hooks;
};

static struct roami_je *je_of(extent_hooks_t *hooks)
{
	return (struct roami_je *)(void *)hooks;
}

static size_t je_bitmap_bytes(const struct roami_je *je)
{
	return (size_t)je->ranges->end * sizeof(uint64_t);
}

static size_t je_shadow_bytes(const struct roami_je *je)
{
	return (size_t)je->ranges->end * ROAM_PAGE_SIZE;
}

static void je_enter(struct roami_je *je)
{
	atomic_store_explicit(&je->inside, (uintptr_t)pthread_self(), memory_order_relaxed);
}

static void je_leave(struct roami_je *je)
{
	atomic_store_explicit(&je->inside, 0, memory_order_relaxed);
}

/* False for a purge of all arenas that the program asked for: the lock is not held. */
static bool je_inside(struct roami_je *je)
{
	uintptr_t self = (uintptr_t)pthread_self();

	return atomic_load_explicit(&je->inside, memory_order_relaxed) == self;
}

/* ---- extent hooks.  Apart from alloc, true means refused. */

static void *je_extent_alloc(extent_hooks_t *hooks, void *at, size_t bytes, size_t alignment,
			     bool *zero, bool *commit, unsigned arena)
{
	struct roami_je *je = je_of(hooks);
	uint32_t first, pages = (uint32_t)(bytes / ROAM_PAGE_SIZE);
	bool fresh;

	(void)arena;
	if (at != NULL || *zero || bytes > JE_EXTENT_MAX || alignment > ROAM_PAGE_SIZE)
		return NULL;
	if (!je_inside(je) || !roami_ranges_take(je->ranges, pages, &first, &fresh))
		return NULL;
	for (uint32_t page = first; page < first + pages; page++) {
		assert(je->live[page] == 0);
		je->used[page] = fresh ? 0 : UINT64_MAX;
	}
	*zero = false;
	*commit = true;
	return je->shadow + (size_t)first * ROAM_PAGE_SIZE;
}

static bool je_extent_dalloc(extent_hooks_t *hooks, void *at, size_t bytes, bool committed,
			     unsigned arena)
{
	struct roami_je *je = je_of(hooks);
	size_t offset = (size_t)((uint8_t *)at - je->shadow);

	(void)committed;
	(void)arena;
	if (!je_inside(je))
		return true;
	roami_ranges_put(je->ranges, (uint32_t)(offset / ROAM_PAGE_SIZE),
			 (uint32_t)(bytes / ROAM_PAGE_SIZE));
	return false;
}

static bool je_extent_split(extent_hooks_t *hooks, void *at, size_t bytes, size_t bytes_a,
			    size_t bytes_b, bool committed, unsigned arena)
{
	struct roami_je *je = je_of(hooks);

	(void)at;
	(void)bytes;
	(void)bytes_a;
	(void)bytes_b;
	(void)committed;
	(void)arena;
	return !je_inside(je) || !roami_ranges_split(je->ranges);
}

static bool je_extent_merge(extent_hooks_t *hooks, void *a, size_t bytes_a, void *b, size_t bytes_b,
			    bool committed, unsigned arena)
{
	struct roami_je *je = je_of(hooks);

	(void)a;
	(void)bytes_a;
	(void)b;
	(void)bytes_b;
	(void)committed;
	(void)arena;
	if (!je_inside(je))
		return true;
	roami_ranges_join(je->ranges);
	return false;
}

/* What is absent is refused: memory here is always committed and never purged. */
static const extent_hooks_t je_hooks = {
	.alloc = je_extent_alloc,
	.dalloc = je_extent_dalloc,
	.split = je_extent_split,
	.merge = je_extent_merge,
};

/* ---- opening and closing */

static bool je_option_is(const char *name, const char *wanted)
{
	const char *text;
	size_t size = sizeof(text);

	return mallctl(name, &text, &size, NULL, 0) == 0 && strcmp(text, wanted) == 0;
}

static bool je_option_off(const char *name)
{
	bool on;
	size_t size = sizeof(on);

	return mallctl(name, &on, &size, NULL, 0) == 0 && !on;
}

/*
 * Filling blocks would touch the shadow.  Other options that touch blocks do not concern this
 * arena: they work in thread caches (lg_san_uaf_align) or need the default hooks (san_guard_*).
 */
bool roami_je_able(void)
{
	size_t mib[4], length = 4;

	return mallctlnametomib("experimental.arenas_create_ext", mib, &length) == 0 &&
	       je_option_is("opt.junk", "false") && je_option_off("opt.zero");
}

static bool je_arena_set(const struct roami_je *je, const char *what, ssize_t value)
{
	char name[64];

	snprintf(name, sizeof(name), "arena.%u.%s", je->arena, what);
	return mallctl(name, NULL, NULL, &value, sizeof(value)) == 0;
}

static void je_arena_do(const struct roami_je *je, const char *what)
{
	char name[64];

	snprintf(name, sizeof(name), "arena.%u.%s", je->arena, what);
	mallctl(name, NULL, NULL, NULL, 0);
}

static bool je_arena_open(struct roami_je *je)
{
	struct je_config config = {.hooks = &je->hooks, .metadata_use_hooks = false};
	size_t size = sizeof(je->arena);

	if (mallctl("experimental.arenas_create_ext", &je->arena, &size, &config, sizeof(config)) !=
	    0)
		return false;
	if (je_arena_set(je, "dirty_decay_ms", -1) && je_arena_set(je, "muzzy_decay_ms", -1))
		return true;
	je_arena_do(je, "destroy");
	return false;
}

static void je_unmap(struct roami_je *je)
{
	roami_os_unmap(je->used, je_bitmap_bytes(je));
	roami_os_unmap(je->live, je_bitmap_bytes(je));
	roami_os_unmap(je->shadow, je_shadow_bytes(je));
	roami_os_unmap(je, sizeof(*je));
}

struct roami_je *roami_je_open(struct roami_ranges *ranges)
{
	struct roami_je *je = roami_je_able() ? roami_os_reserve(sizeof(*je)) : NULL;
	void *shadow;

	if (je == NULL)
		return NULL;
	je->hooks = je_hooks;
	je->ranges = ranges;
	shadow = mmap(NULL, je_shadow_bytes(je), PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	je->shadow = shadow == MAP_FAILED ? NULL : shadow;
	je->live = roami_os_reserve_sparse(je_bitmap_bytes(je));
	je->used = roami_os_reserve_sparse(je_bitmap_bytes(je));
	if (je->shadow == NULL || je->live == NULL || je->used == NULL || !je_arena_open(je)) {
		je_unmap(je);
		return NULL;
	}
	return je;
}

void roami_je_close(struct roami_je *je)
{
	je_enter(je);
	je_arena_do(je, "destroy");
	je_leave(je);
	je_unmap(je);
}

/* ---- blocks */

static int je_flags(const struct roami_je *je)
{
	return MALLOCX_ARENA(je->arena) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(ROAMI_ALLOC_GRAIN);
}

static void *je_address(const struct roami_je *je, uint64_t grain)
{
	return je->shadow + grain * ROAMI_ALLOC_GRAIN;
}

/* Notes that grains are handed out; true if they never were before. */
static bool je_use(struct roami_je *je, uint64_t grain, uint64_t grains)
{
	bool fresh = true;

	for (uint64_t end = grain + grains; grain < end;) {
		unsigned bit = (unsigned)(grain % ROAMI_ALLOC_GRAINS);
		uint64_t here = ROAMI_ALLOC_GRAINS - bit;
		uint64_t *word = &je->used[grain / ROAMI_ALLOC_GRAINS];
		uint64_t mask;

		if (here > end - grain)
			here = end - grain;
		mask = (here == 64 ? UINT64_MAX : (UINT64_C(1) << here) - 1) << bit;
		fresh = fresh && (*word & mask) == 0;
		*word |= mask;
		grain += here;
	}
	return fresh;
}

bool roami_je_take(struct roami_je *je, size_t bytes, uint64_t *grain_p, bool *fresh_p)
{
	uint8_t *at;
	uint64_t grain;

	je_enter(je);
	at = mallocx(bytes, je_flags(je));
	je_leave(je);
	if (at == NULL)
		return false;
	grain = (uint64_t)(at - je->shadow) / ROAMI_ALLOC_GRAIN;
	assert(grain < (uint64_t)je->ranges->end * ROAMI_ALLOC_GRAINS);
	assert(!roami_je_live(je, grain));
	je->live[grain / ROAMI_ALLOC_GRAINS] |= UINT64_C(1) << grain % ROAMI_ALLOC_GRAINS;
	*fresh_p = je_use(je, grain, roami_je_bytes(je, grain) / ROAMI_ALLOC_GRAIN);
	*grain_p = grain;
	return true;
}

bool roami_je_live(const struct roami_je *je, uint64_t grain)
{
	return (je->live[grain / ROAMI_ALLOC_GRAINS] >> grain % ROAMI_ALLOC_GRAINS & 1) != 0;
}

size_t roami_je_bytes(const struct roami_je *je, uint64_t grain)
{
	return sallocx(je_address(je, grain), 0);
}

void roami_je_give(struct roami_je *je, uint64_t grain)
{
	assert(roami_je_live(je, grain));
	je->live[grain / ROAMI_ALLOC_GRAINS] &= ~(UINT64_C(1) << grain % ROAMI_ALLOC_GRAINS);
	je_enter(je);
	dallocx(je_address(je, grain), MALLOCX_TCACHE_NONE);
	je_leave(je);
}

void roami_je_trim(struct roami_je *je)
{
	je_enter(je);
	je_arena_do(je, "purge");
	je_leave(je);
}

#else

bool roami_je_able(void)
{
	return false;
}

struct roami_je *roami_je_open(struct roami_ranges *ranges)
{
	(void)ranges;
	return NULL;
}

/* Without an arena these are not called. */
void roami_je_close(struct roami_je *je)
{
	(void)je;
}

bool roami_je_take(struct roami_je *je, size_t bytes, uint64_t *grain_p, bool *fresh_p)
{
	(void)je;
	(void)bytes;
	(void)grain_p;
	(void)fresh_p;
	return false;
}

bool roami_je_live(const struct roami_je *je, uint64_t grain)
{
	(void)je;
	(void)grain;
	return false;
}

size_t roami_je_bytes(const struct roami_je *je, uint64_t grain)
{
	(void)je;
	(void)grain;
	return 0;
}

void roami_je_give(struct roami_je *je, uint64_t grain)
{
	(void)je;
	(void)grain;
}

void roami_je_trim(struct roami_je *je)
{
	(void)je;
}

#endif
