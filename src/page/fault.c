/* Faults of the app view: what the faulting thread does before its access is retried. */
#include <errno.h>
#include <string.h>

#include "base/region.h"
#include "base/thread.h"
#include "os/os.h"
#include "page/page.h"
#include "page/prefetch.h"
#include "page/outside.h"
#include "page/race.h"
#include "page/sharing.h"

/* ------------------------------------------------------------------------------- coming back */

#define RETURNS_MAX 16u
#define RETURNS     (sizeof(((struct roami_returns *)0)->pages) / sizeof(uint32_t))

/*
 * A page may be taken away before the access that faulted is made, if the thread is not scheduled
 * (or waits for another page that the same instruction needs).  Then the thread faults again,
 * having run only for the entry and exit of a fault.  A write after a read of a page proves
 * nothing: one instruction may do both, or two may.  Nor does a page that this node has evicted:
 * with a small cache, threads come back to many pages without any other node taking them.
 */
static struct roami_returns *returns_of(struct roami_node *node)
{
	return &roami_thread_self(node)->returns;
}

static struct roami_returns *returns_enter(struct roami_node *node)
{
	struct roami_returns *returns = returns_of(node);

	returns->idle = returns->ran != 0 &&
			node->env->ran(node) - returns->ran < ROAM_STAY_NS / 2;
	return returns;
}

static void returns_count(struct roami_returns *returns, uint32_t page, bool upgrade, bool evicted)
{
	bool listed = false;

	roami_contract(returns->count <= RETURNS_MAX);
	for (unsigned i = 0; i < RETURNS; i++)
		listed |= returns->pages[i] == page + 1;
	if (!listed)
		returns->pages[returns->next++ % RETURNS] = page + 1;
	if (upgrade && returns->read == page + 1)
		return;
	if (!listed || !returns->idle || evicted)
		returns->count = 0;
	else if (returns->count < RETURNS_MAX)
		returns->count++;
	returns->again = listed;
}

/* The clock is read only by a thread that comes back to a page, because reading it costs time. */
static void returns_leave(struct roami_node *node, struct roami_returns *returns, uint32_t page,
			  bool write)
{
	roami_contract(returns->again || returns->count == 0);
	returns->read = write ? 0 : page + 1;
	returns->ran = returns->again ? node->env->ran(node) : 0;
}

void roami_returns_forget(struct roami_node *node)
{
	returns_of(node)->ran = 0;
}

/*
 * The time differs per node: two nodes that each need the other's page must not swap them for ever.
 */
uint64_t roami_stay_ns(struct roami_node *node)
{
	uint64_t more = ((uint64_t)ROAM_STAY_NS << returns_of(node)->count) - ROAM_STAY_NS;

	roami_contract(returns_of(node)->count <= RETURNS_MAX);
	return ROAM_STAY_NS + more + more * node->me / node->nodes;
}

/* -------------------------------------------------------------------------------------- faults */

/* A write to a page that this node can read. */
static void fault_upgrade(struct roami_node *node, const struct roam_protocol *protocol,
			  uint32_t page)
{
	roami_contract_pending(node, page);
	if (protocol->write_fault != NULL)
		protocol->write_fault(node, page);
	if (roami_page_access(node, page) == ROAM_READ &&
	    roami_writes_of(node, page) == ROAM_WRITES_DIFF)
		roami_page_upgrade(node, page);
}

static void fault_none(struct roami_node *node, const struct roam_protocol *protocol, uint32_t page,
		       bool write)
{
	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_NONE);
	if (write && roami_writes_of(node, page) == ROAM_WRITES_FAULT) {
		protocol->write_fault(node, page);
		return;
	}
	if (write)
		atomic_fetch_or(&node->table[page].flags, ROAMI_PAGE_WANT);
	protocol->read_fault(node, page);
}

/*
 * The page table says that the access is there, yet the page faulted: an engine call for a
 * neighbouring page removed it, or another thread opened the page first.  The repair is under the
 * page lock, and to what the table says then: a handler may take the access away even from a
 * pending page.
 */
static void fault_repair(struct roami_node *node, uint32_t page)
{
	enum roam_err err = ROAM_OK;
	enum roam_access has;

	roami_contract_pending(node, page);
	roami_step(node);
	roami_page_lock(node, page);
	has = roami_page_access(node, page);
	if (has != ROAM_NONE)
		err =
			pages_of(node)->engine->protect(pages_of(node)->engine_state, page, 1,
							ROAM_NONE, ROAM_READ);
	if (err == ROAM_OK && has == ROAM_WRITE)
		err =
			pages_of(node)->engine->protect(pages_of(node)->engine_state, page, 1,
							ROAM_READ, ROAM_WRITE);
	roami_page_unlock(node, page);
	if (err != ROAM_OK)
		roami_node_fail(node, "cannot open page %u: %s", page, roam_strerror(err));
}

/*
 * Notes that the calling thread is the only one that has used this node; a second one waits from
 * now on.
 */
static void solo_enter(struct roami_node *node)
{
	if (pages_of(node)->engine->copy == NULL)
		return;
	node->env->thread(node);
	roami_contract(atomic_load(&pages_of(node)->users) != 0);
	if (atomic_load(&pages_of(node)->users) != 1)
		return;
	atomic_store(&pages_of(node)->solo, 1);
	if (atomic_load(&pages_of(node)->users) != 1)
		atomic_store(&pages_of(node)->solo, 0);
}

static void solo_leave(struct roami_node *node)
{
	if (atomic_load_explicit(&pages_of(node)->solo, memory_order_relaxed) != 0)
		atomic_store_explicit(&pages_of(node)->solo, 0, memory_order_release);
}

/* Whether the thread's transaction has begun anew (rules 8.3 and 8.7). */
static bool fault_left(struct roami_node *node)
{
	return pages_of(node)->asked != NULL && pages_of(node)->asked(node);
}

void roami_fault(struct roami_node *node, uint32_t page, bool write, bool kind_known)
{
	struct roami_region *region = roami_region_of(node, page);
	struct roami_returns *returns = NULL;
	enum roam_access has;
	unsigned was;

	if (page < region->first || page >= region->end)
		roami_node_fail(node, "access to page %u, past the end of the shared heap", page);
	if (!roami_node_dumped(node, page))
		roami_page_dump(node, page);
	roami_step(node);
	if (fault_left(node))
		return;
	was = roami_region_enter(node, region);
	if (node->options->cache_pages != 0)
		roami_evict_not(node, page);
	if (roami_writes_of(node, page) == ROAM_WRITES_FAULT)
		returns = returns_enter(node);
	roami_page_hold(node, page);
	roami_contract_pending(node, page);
	has = roami_page_access(node, page);
	if (has == ROAM_NONE)
		solo_enter(node);
	if (!kind_known)
		write = has == ROAM_READ;
	if (write && has != ROAM_WRITE)
		roami_race_wrote(node, page);
	if (has == ROAM_NONE || (write && has == ROAM_READ))
		roami_sharing_fault(node, page, write);
	if (returns != NULL)
		returns_count(returns, page, write && has == ROAM_READ,
			      node->table[page].evicted);
	node->table[page].evicted = 0;
	if (has == ROAM_WRITE || (has == ROAM_READ && !write)) {
		fault_repair(node, page);
	} else if (has == ROAM_READ) {
		ROAMI_COUNT(node->stats, write_faults, 1);
		fault_upgrade(node, region->protocol, page);
	} else {
		if (write)
			ROAMI_COUNT(node->stats, write_faults, 1);
		else
			ROAMI_COUNT(node->stats, read_faults, 1);
		fault_none(node, region->protocol, page, write);
	}
	roami_page_done(node, page);
	if (has == ROAM_NONE && !write)
		roami_prefetch_read(node, region, page);
	roami_region_leave(node, was);
	if (has == ROAM_NONE)
		solo_leave(node);
	if (has == ROAM_NONE && !write)
		roami_outside_read(node, page);
	if (node->options->cache_pages != 0)
		roami_evict(node);
	if (returns != NULL)
		returns_leave(node, returns, page, write);
	fault_left(node);
}

void roami_fault_entry(void *arg, uint32_t page, bool write, bool kind_known)
{
	struct roami_node *node = arg;
	uint64_t start = roami_os_cycles();
	int saved = errno;

	roami_fault(node, page, write, kind_known);
	errno = saved;
	ROAMI_TIME(node->stats, page, roami_os_cycles() - start);
}

/* ---------------------------------------------------------------------------- loads and stores */

/* How many of `bytes` bytes from `offset` on lie in the first page. */
static size_t heap_step(uint64_t offset, size_t bytes)
{
	size_t left = ROAMI_PAGE - offset % ROAMI_PAGE;

	roami_contract(bytes > 0);
	return bytes < left ? bytes : left;
}

void roami_heap_load(struct roami_node *node, uint64_t offset, void *out, size_t bytes)
{
	uint8_t *to = out;
	size_t step;

	roami_contract(offset <= node->layout.heap_bytes);
	roami_contract(bytes <= node->layout.heap_bytes - offset);
	if (pages_of(node)->engine->load == NULL)
		memcpy(out, node->app + offset, bytes);
	for (; pages_of(node)->engine->load != NULL && bytes > 0; bytes -= step) {
		step = heap_step(offset, bytes);
		roami_step(node);
		while (!pages_of(node)->engine->load(pages_of(node)->engine_state, offset, to,
						     step))
			roami_fault(node, (uint32_t)(offset / ROAMI_PAGE), false, true);
		offset += step;
		to += step;
	}
}

void roami_heap_store(struct roami_node *node, uint64_t offset, const void *in, size_t bytes)
{
	const uint8_t *from = in;
	size_t step;

	roami_contract(offset <= node->layout.heap_bytes);
	roami_contract(bytes <= node->layout.heap_bytes - offset);
	if (pages_of(node)->engine->store == NULL)
		memcpy(node->app + offset, in, bytes);
	for (; pages_of(node)->engine->store != NULL && bytes > 0; bytes -= step) {
		step = heap_step(offset, bytes);
		roami_step(node);
		while (!pages_of(node)->engine->store(pages_of(node)->engine_state, offset, from,
						      step))
			roami_fault(node, (uint32_t)(offset / ROAMI_PAGE), true, true);
		offset += step;
		from += step;
	}
}
