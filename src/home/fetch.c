/* Fetching pages from their homes, however these are reached. */
#include "base/region.h"
#include "home/home_state.h"
#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/prefetch.h"
#include "page/sharing.h"

/*
 * Notes that the page stands on the home's list, unless the home has forgotten its readers
 * meanwhile: false.
 */
static bool share_listed(_Atomic uint32_t *shared, uint32_t mark)
{
	uint32_t found = mark;

	while (found >> ROAMI_SHARED_BITS == mark >> ROAMI_SHARED_BITS)
		if ((found & ROAMI_SHARED_LISTED) != 0 ||
		    atomic_compare_exchange_weak(shared, &found, found | ROAMI_SHARED_LISTED))
			return true;
	return false;
}

/*
 * Tells `home` that a node may hold a copy; returns the mark's generation, which the home
 * increments when it forgets its readers.  No fetcher relies on a mark before it is listed: the
 * home could drain the list too early.  Every node has a list of its own there, also a home that
 * copies the page on behalf of another node.  Modelled in tests/model/header.pml.
 */
static uint32_t fetch_share(struct roami_node *node, unsigned home, uint32_t page)
{
	struct roami_segment *there = &node->segments[home];
	_Atomic uint32_t *shared = &there->headers[page].shared;
	uint32_t slots = roami_share_slots(&node->layout);
	bool listed;

	roami_contract(home < node->nodes);
	for (;;) {
		uint32_t mark = atomic_load(shared);
		uint64_t at;

		if (mark & ROAMI_SHARED_LISTED)
			return mark >> ROAMI_SHARED_BITS;
		roami_spin_lock(node, &home_of(node)->share_lock[home]);
		mark = atomic_fetch_or(shared, ROAMI_SHARED) | ROAMI_SHARED;
		roami_step(node);
		listed = (mark & ROAMI_SHARED_LISTED) != 0;
		if (!listed) {
			at = atomic_load_explicit(&there->tails[node->me].tail,
						  memory_order_relaxed);
			atomic_store(&there->slots[(size_t)node->me * slots + at % slots], page);
			roami_step(node);
			atomic_store(&there->tails[node->me].tail, at + 1);
			roami_step(node);
			listed = share_listed(shared, mark);
		}
		roami_spin_unlock(&home_of(node)->share_lock[home]);
		if (listed)
			return mark >> ROAMI_SHARED_BITS;
	}
}

/* Bits of `where` that say nothing about the home. */
#define MARKS (0xffu & ~(ROAM_HEADER_HOME | ROAM_HEADER_READY))

bool roami_fetch_may_open(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	return atomic_load_explicit(&pages_of(node)->solo, memory_order_relaxed) != 0 &&
	       (atomic_load(&roami_page_entry(node, page)->flags) & ROAMI_PAGE_WANT) == 0;
}

/*
 * Copies a page to this node.  A page that was never here goes through the engine, which also opens
 * it (roami_page_open finds it mapped), if no other thread can read it before it is checked.  Not
 * for a write, because the twin is made from the runtime view.
 */
static void fetch_bytes(struct roami_node *node, bool mine, uint32_t page, uint8_t *to,
			const uint8_t *from)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract(!mine || roami_page_pending(node, page));
	if (mine && entry->here) {
		/*
		 * Maps the page if it is not mapped yet: a read maps its neighbours too, a write
		 * does not.
		 */
		(void)*(const volatile uint8_t *)to;
	} else if (mine) {
		entry->here = 1;
		if (roami_fetch_may_open(node, page) &&
		    pages_of(node)->engine->copy(pages_of(node)->engine_state, page, 1,
						 from) == 1) {
			entry->mapped = 1;
			return;
		}
	}
	roami_page_copy(node, to, from);
}

/*
 * Whether the home has the page open.  A home that writes with a twin is told before the copy is
 * made, because a byte that it writes and writes back is in no diff.
 */
static bool fetch_open(struct roami_header *header)
{
	uint32_t where = atomic_load(&header->where);

	if ((where & (ROAMI_HEADER_OPEN | ROAMI_HEADER_TWIN | ROAMI_HEADER_WANTED)) ==
	    (ROAMI_HEADER_OPEN | ROAMI_HEADER_TWIN))
		atomic_fetch_or(&header->where, ROAMI_HEADER_WANTED);
	return (where & ROAMI_HEADER_OPEN) != 0;
}

/* Copies the page to `to`; *version_p: the version read before the bytes. */
enum roam_fetch roami_fetch_mapped(struct roami_node *node, unsigned home, uint32_t page,
				   uint8_t *to, uint64_t *version_p)
{
	struct roami_header *header = &node->segments[home].headers[page];

	roami_contract(home < node->nodes);
	for (;;) {
		uint32_t where = atomic_load(&header->where), generation;
		bool open;

		if ((where & ROAM_HEADER_HOME) == 0)
			return ROAM_FETCH_NOT_HOME;
		if ((where & ROAM_HEADER_READY) == 0)
			return ROAM_FETCH_NOT_READY;
		generation = fetch_share(node, home, page);
		atomic_thread_fence(memory_order_seq_cst);
		roami_step(node);
		open = fetch_open(header);
		*version_p = ROAMI_VERSION(atomic_load(&header->version));
		fetch_bytes(node, to == roami_page_bytes(node, page), page, to,
			    node->segments[home].heap + (size_t)page * ROAMI_PAGE);
		atomic_thread_fence(memory_order_acquire);
		if (((atomic_load(&header->where) ^ where) & ~MARKS) == 0 &&
		    atomic_load(&header->shared) >> ROAMI_SHARED_BITS == generation)
			return open ? ROAM_FETCH_OPEN : ROAM_FETCH_OK;
		ROAMI_COUNT(node->stats, fetches_retried, 1);
	}
}

/*
 * Whether a request for a page that is not here yet must wait: this node is claiming the page, and
 * its directory word already says so.  The page is pending until it is published.
 */
static bool fetch_early(struct roami_node *node, const struct roam_request *request, uint32_t page)
{
	bool early;

	if (roami_homes_of(node, page) != ROAM_HOMES_FIXED)
		return false;
	roami_page_lock(node, page);
	early = roami_page_pending(node, page);
	if (early)
		roami_park(node, request, page);
	roami_page_unlock(node, page);
	return early;
}

void roami_fetch_serve(struct roami_node *node, const struct roam_request *request, uint32_t page)
{
	uint8_t bytes[ROAM_PAGE_SIZE];
	struct roami_fetch_head head;
	struct roam_part parts[2] = {{&head, sizeof(head)}, {bytes, sizeof(bytes)}};

	head.result = roami_fetch_mapped(node, node->me, page, bytes, &head.version);
	if (head.result == ROAM_FETCH_NOT_HOME && fetch_early(node, request, page))
		return;
	if (head.result == ROAM_FETCH_NOT_HOME) /* or the page was published since */
		head.result = roami_fetch_mapped(node, node->me, page, bytes, &head.version);
	if (head.result <= ROAM_FETCH_OPEN)
		roami_msg_reply_page(node, request, ROAMI_ANSWER_PAGE, parts, 2);
	else
		roami_reply(node, request, parts, 1);
}

static void fetch_handle(struct roami_node *node, const struct roam_request *request)
{
	roami_fetch_serve(node, request, roami_memory_page(node, request, sizeof(uint32_t)));
}

void roami_home_copy(struct roami_node *node, uint32_t page, uint8_t *bytes, uint64_t *version_p)
{
	roami_assert(bytes != NULL);
	if (roami_fetch_mapped(node, node->me, page, bytes, version_p) > ROAM_FETCH_OPEN)
		roami_node_fail(node, "page %u: roami_home_copy, but not at home", page);
}

static void fetch_some(struct roami_node *node, struct roam_fetch_one *list, unsigned count,
		       uint8_t *aside)
{
	struct roami_fetches fetches;

	roami_assert(count > 0 && count <= ROAMI_CALLS_AT_ONCE);
	fetches.list = list;
	fetches.count = count;
	fetches.aside = aside;
	fetches.asked = fetches.answered = 0;
	fetches.staging.count = 0;
	for (unsigned i = 0; i < count; i++) {
		roami_assert(list[i].home < node->nodes && list[i].home != node->me);
		roami_contract_pending(node, list[i].page);
		roami_sharing_fetched(node, list[i].page);
	}
	for (unsigned i = 0; home_of(node)->reaches[i] != NULL; i++)
		if (home_of(node)->reaches[i]->fetch_begin != NULL)
			home_of(node)->reaches[i]->fetch_begin(node, home_of(node)->reaches[i],
							       &fetches);
	roami_step(node);
	for (unsigned i = 0; home_of(node)->reaches[i] != NULL; i++)
		home_of(node)->reaches[i]->fetch(node, home_of(node)->reaches[i], &fetches);
	ROAMI_COUNT(node->stats, fetches, count);
}

void roami_fetch_all(struct roami_node *node, struct roam_fetch_one *list, unsigned count)
{
	roami_wait_begin(node);
	while (count > 0) {
		unsigned some = count < ROAMI_CALLS_AT_ONCE ? count : ROAMI_CALLS_AT_ONCE;

		fetch_some(node, list, some, NULL);
		list += some;
		count -= some;
	}
	roami_wait_end(node);
}

/*
 * The copies are patched by what has changed in them, not copied: other threads of this node may be
 * writing them.
 */
void roami_refresh_all(struct roami_node *node, struct roam_fetch_one *list, unsigned count)
{
	uint8_t *aside = roami_staging_aside(node);

	roami_assert(count <= ROAM_REFRESH_MAX);
	roami_wait_begin(node);
	fetch_some(node, list, count, aside);
	roami_wait_end(node);
	ROAMI_COUNT(node->stats, refreshes, count);
	for (unsigned i = 0; i < count; i++) {
		roami_contract(roami_page_hot(node, list[i].page));
		if (list[i].result <= ROAM_FETCH_OPEN)
			roami_page_follow(node, list[i].page, aside + i * ROAMI_PAGE);
	}
}

enum roam_fetch roami_fetch(struct roami_node *node, unsigned home, uint32_t page,
			    uint64_t *version_p)
{
	struct roam_fetch_one one = {.page = page, .home = home};

	roami_contract_pending(node, page);
	roami_fetch_all(node, &one, 1);
	*version_p = one.version;
	return one.result;
}

bool roami_page_in_row(struct roami_node *node, uint32_t page, unsigned home)
{
	roami_contract_pending(node, page);
	roami_assert(home < node->nodes);
	return node->reach[home]->travels && roami_prefetch_row(node, page);
}

static const struct roam_message fetch_messages[] = {
	[ROAMI_FETCH_PAGE] = {"fetch", fetch_handle, 8},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_fetch = {.name = "fetch", .messages = fetch_messages};
