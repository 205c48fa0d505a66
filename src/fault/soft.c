/*
 * Explicit checks in place of page faults: deterministic, and visible to ThreadSanitizer.  The app
 * view is not used.
 */
#include "fault/soft.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "fault/engine.h"
#include "os/os.h"

#define SOFT_MAGIC 0x736f6674u
#define SOFT_LOCKS 256u /* a power of two */

/*
 * Other nodes store into the runtime view during the copy: a data race by design (a torn copy is
 * never used), whose accesses ThreadSanitizer must not see.  Volatile, or the compiler makes a
 * memcpy of the loop, which it does see.
 */
#define SOFT_RACY __attribute__((no_sanitize_thread))

struct soft_state {
	uint32_t magic; /* set by open, cleared by close */
	uint32_t pages;
	uint8_t *runtime;
	_Atomic uint8_t *access;            /* an enum roam_access per page */
	_Atomic uint32_t locks[SOFT_LOCKS]; /* of the pages whose number has these low bits */
};

_Static_assert(sizeof(_Atomic uint8_t) == 1, "access byte");

static struct soft_state *soft_check(void *state)
{
	struct soft_state *soft = state;

	assert(soft->magic == SOFT_MAGIC);
	return soft;
}

static void soft_lock(struct soft_state *soft, uint32_t page)
{
	_Atomic uint32_t *lock = &soft->locks[page % SOFT_LOCKS];

	for (unsigned turn = 1; atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0;
	     turn++) {
		if (turn % 64 == 0)
			sched_yield();
		else
			roami_os_pause();
	}
}

static void soft_unlock(struct soft_state *soft, uint32_t page)
{
	atomic_store_explicit(&soft->locks[page % SOFT_LOCKS], 0, memory_order_release);
}

/* The private side may be unaligned. */
typedef volatile uint64_t __attribute__((aligned(1), may_alias)) soft_u64;
typedef volatile uint32_t __attribute__((aligned(1), may_alias)) soft_u32;
typedef volatile uint16_t __attribute__((aligned(1), may_alias)) soft_u16;

/* Copies in the widest steps that are aligned in shared memory, where the copy starts at `shared`.
 */
SOFT_RACY static void soft_copy(uint8_t *to, const uint8_t *from, size_t bytes, uintptr_t shared)
{
	for (size_t i = 0, step; i < bytes; i += step) {
		uintptr_t at = shared + i;
		size_t left = bytes - i;

		if (at % 8 == 0 && left >= 8) {
			*(soft_u64 *)(to + i) = *(const soft_u64 *)(from + i);
			step = 8;
		} else if (at % 4 == 0 && left >= 4) {
			*(soft_u32 *)(to + i) = *(const soft_u32 *)(from + i);
			step = 4;
		} else if (at % 2 == 0 && left >= 2) {
			*(soft_u16 *)(to + i) = *(const soft_u16 *)(from + i);
			step = 2;
		} else {
			*(volatile uint8_t *)(to + i) = *(const volatile uint8_t *)(from + i);
			step = 1;
		}
	}
}

/* Locks the page of [offset, offset + bytes) if it has the access; the caller copies and unlocks.
 */
static bool soft_enter(struct soft_state *soft, uint64_t offset, size_t bytes,
		       enum roam_access need)
{
	uint32_t page = (uint32_t)(offset / ROAM_PAGE_SIZE);

	assert(offset / ROAM_PAGE_SIZE < soft->pages);
	assert(offset % ROAM_PAGE_SIZE + bytes <= ROAM_PAGE_SIZE);
	soft_lock(soft, page);
	if (atomic_load_explicit(&soft->access[page], memory_order_relaxed) >= (uint8_t)need)
		return true;
	soft_unlock(soft, page);
	return false;
}

bool roami_soft_load(void *state, uint64_t offset, void *out, size_t bytes)
{
	struct soft_state *soft = soft_check(state);
	const uint8_t *from = soft->runtime + offset;

	if (!soft_enter(soft, offset, bytes, ROAM_READ))
		return false;
	soft_copy(out, from, bytes, (uintptr_t)from);
	soft_unlock(soft, (uint32_t)(offset / ROAM_PAGE_SIZE));
	return true;
}

bool roami_soft_store(void *state, uint64_t offset, const void *in, size_t bytes)
{
	struct soft_state *soft = soft_check(state);
	uint8_t *to = soft->runtime + offset;

	if (!soft_enter(soft, offset, bytes, ROAM_WRITE))
		return false;
	soft_copy(to, in, bytes, (uintptr_t)to);
	soft_unlock(soft, (uint32_t)(offset / ROAM_PAGE_SIZE));
	return true;
}

enum roam_access roami_soft_access(void *state, uint32_t page)
{
	struct soft_state *soft = soft_check(state);

	assert(page < soft->pages);
	return (enum roam_access)atomic_load(&soft->access[page]);
}

/* ------------------------------------------------------------------------------- the engine */

static bool soft_probe(char *why, size_t why_bytes)
{
	if (why_bytes > 0)
		why[0] = '\0';
	return true;
}

/* The fault function is not kept: a caller to which a load or store returned false calls it. */
static enum roam_err soft_open(void *state, const struct roami_view *view, roami_fault_fn *fn,
			       void *arg)
{
	struct soft_state *soft = state;

	(void)fn;
	(void)arg;
	assert(soft->magic == 0);
	assert(view->bytes % ROAM_PAGE_SIZE == 0 && view->bytes / ROAM_PAGE_SIZE <= UINT32_MAX);
	soft->pages = (uint32_t)(view->bytes / ROAM_PAGE_SIZE);
	soft->runtime = view->runtime;
	soft->access = roami_os_reserve(soft->pages); /* zero: ROAM_NONE */
	if (soft->access == NULL)
		return ROAM_ENOMEM;
	soft->magic = SOFT_MAGIC;
	return ROAM_OK;
}

static void soft_close(void *state)
{
	struct soft_state *soft = state;

	if (soft->magic != SOFT_MAGIC)
		return;
	roami_os_unmap((void *)soft->access, soft->pages);
	memset(soft, 0, sizeof(*soft));
}

static enum roam_err soft_protect(void *state, uint32_t first, uint32_t count,
				  enum roam_access from, enum roam_access to)
{
	struct soft_state *soft = soft_check(state);

	(void)from;
	assert(first < soft->pages && count <= soft->pages - first);
	for (uint32_t page = first; page < first + count; page++) {
		soft_lock(soft, page);
		/* Reading first leaves unused parts of the table without memory. */
		if (atomic_load_explicit(&soft->access[page], memory_order_relaxed) != (uint8_t)to)
			atomic_store_explicit(&soft->access[page], (uint8_t)to,
					      memory_order_relaxed);
		soft_unlock(soft, page);
	}
	return ROAM_OK;
}

/* The engine has no signal handlers that could be replaced. */
static bool soft_check_handlers(void *state)
{
	soft_check(state);
	return true;
}

const struct roami_fault_engine roami_fault_soft = {
	.name = "soft",
	.state_size = sizeof(struct soft_state),
	.probe = soft_probe,
	.open = soft_open,
	.close = soft_close,
	.protect = soft_protect,
	.load = roami_soft_load,
	.store = roami_soft_store,
	.check_handlers = soft_check_handlers,
};
