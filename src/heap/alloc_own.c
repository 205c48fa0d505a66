/* Roam's own allocator: a treap of free page ranges, and pages cut into small blocks. */
#include "heap/alloc_priv.h"

#include <assert.h>

/* --------------------------------------------------------------------------------- page ranges */

#define RANGE_NONE UINT32_MAX

struct range {
	uint32_t first;
	uint32_t pages;
	uint32_t most; /* pages of the largest range of this subtree */
	uint32_t weight;
	uint32_t left;
	uint32_t right;
};

static struct range *range_at(const struct roami_ranges *ranges, uint32_t node)
{
	return (struct range *)(void *)ranges->nodes.items + node;
}

/* Heap order by a hash of the address: every process builds the same tree. */
static uint32_t range_weight(uint32_t first)
{
	uint64_t z = (first + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return (uint32_t)(z >> 32);
}

static void range_pull(const struct roami_ranges *ranges, uint32_t node)
{
	struct range *range = range_at(ranges, node);
	uint32_t left = range_at(ranges, range->left)->most;
	uint32_t right = range_at(ranges, range->right)->most;

	range->most = range->pages;
	if (left > range->most)
		range->most = left;
	if (right > range->most)
		range->most = right;
}

/* Tree nodes are allocated when a block is handed out, so that giving it back cannot fail. */
static bool range_reserve(struct roami_ranges *ranges, uint32_t live)
{
	while (ranges->nodes.count < (size_t)live + 2) {
		struct range *range = roami_os_vec_grow(&ranges->nodes, sizeof(*range), 1);

		if (range == NULL)
			return false;
		*range = (struct range){.left = ranges->unused};
		ranges->unused = (uint32_t)ranges->nodes.count++;
	}
	return true;
}

static uint32_t range_new(struct roami_ranges *ranges, uint32_t first, uint32_t pages)
{
	uint32_t node = ranges->unused;
	struct range *range = range_at(ranges, node);

	assert(node != 0);
	ranges->unused = range->left;
	*range = (struct range){first, pages, pages, range_weight(first), 0, 0};
	return node;
}

static void range_free(struct roami_ranges *ranges, uint32_t node)
{
	range_at(ranges, node)->left = ranges->unused;
	ranges->unused = node;
}

/* Everything in `a` lies below everything in `b`. */
static uint32_t range_merge(const struct roami_ranges *ranges, uint32_t a, uint32_t b)
{
	struct range *low = range_at(ranges, a), *top = range_at(ranges, b);

	if (a == 0 || b == 0)
		return a + b;
	if (low->weight > top->weight) {
		low->right = range_merge(ranges, low->right, b);
		range_pull(ranges, a);
		return a;
	}
	top->left = range_merge(ranges, a, top->left);
	range_pull(ranges, b);
	return b;
}

/* Cuts a tree at a page. */
static void range_cut(const struct roami_ranges *ranges, uint32_t node, uint32_t page,
		      uint32_t *below_p, uint32_t *above_p)
{
	struct range *range = range_at(ranges, node);

	if (node == 0) {
		*below_p = *above_p = 0;
	} else if (range->first < page) {
		range_cut(ranges, range->right, page, &range->right, above_p);
		range_pull(ranges, node);
		*below_p = node;
	} else {
		range_cut(ranges, range->left, page, below_p, &range->left);
		range_pull(ranges, node);
		*above_p = node;
	}
}

/* Takes the outermost range off a non-empty tree; returns the rest of the tree. */
static uint32_t range_shed(const struct roami_ranges *ranges, uint32_t node, bool last,
			   uint32_t *shed_p)
{
	struct range *range = range_at(ranges, node);
	uint32_t *side = last ? &range->right : &range->left;

	if (*side == 0) {
		*shed_p = node;
		return last ? range->left : range->right;
	}
	*side = range_shed(ranges, *side, last, shed_p);
	range_pull(ranges, node);
	return node;
}

/* Takes pages from the front of the lowest range that has enough; returns the rest of the tree. */
static uint32_t range_carve(struct roami_ranges *ranges, uint32_t node, uint32_t pages,
			    uint32_t *first_p)
{
	struct range *range = range_at(ranges, node);

	assert(range->most >= pages);
	if (range_at(ranges, range->left)->most >= pages) {
		range->left = range_carve(ranges, range->left, pages, first_p);
	} else if (range->pages < pages) {
		range->right = range_carve(ranges, range->right, pages, first_p);
	} else {
		*first_p = range->first;
		range->first += pages;
		range->pages -= pages;
		if (range->pages == 0) {
			uint32_t rest = range_merge(ranges, range->left, range->right);

			range_free(ranges, node);
			return rest;
		}
	}
	range_pull(ranges, node);
	return node;
}

/* The last (or first) range of a tree joins the range *first_p, *pages_p if they touch. */
static uint32_t range_absorb(struct roami_ranges *ranges, uint32_t tree, bool last,
			     uint32_t *first_p, uint32_t *pages_p)
{
	uint32_t node = tree;
	struct range *range = range_at(ranges, node);
	uint32_t next;

	if (tree == 0)
		return 0;
	while ((next = last ? range->right : range->left) != 0)
		range = range_at(ranges, next);
	if (last ? range->first + range->pages != *first_p : range->first != *first_p + *pages_p)
		return tree;
	tree = range_shed(ranges, tree, last, &node);
	if (last)
		*first_p = range->first;
	*pages_p += range->pages;
	range_free(ranges, node);
	return tree;
}

/* ---- which pages were handed out */

static size_t range_used_bytes(const struct roami_ranges *ranges)
{
	return ((size_t)ranges->end / 64 + 1) * sizeof(*ranges->used);
}

/* The bits of `used` for the pages from *at_p to `end` that share a word; *at_p moves on. */
static uint64_t range_used_bits(uint32_t *at_p, uint32_t end)
{
	uint32_t bit = *at_p % 64, count = 64 - bit;

	if (count > end - *at_p)
		count = end - *at_p;
	*at_p += count;
	return (count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1) << bit;
}

static bool range_used(const struct roami_ranges *ranges, uint32_t first, uint32_t pages)
{
	if (first < ranges->high)
		return true;
	for (uint32_t at = first, end = first + pages; ranges->lent && at < end;) {
		const uint64_t *word = &ranges->used[at / 64];

		if ((*word & range_used_bits(&at, end)) != 0)
			return true;
	}
	return false;
}

static void range_use(struct roami_ranges *ranges, uint32_t first, uint32_t pages)
{
	for (uint32_t at = first, end = first + pages; ranges->lent && at < end;) {
		uint64_t *word = &ranges->used[at / 64];

		*word |= range_used_bits(&at, end);
	}
}

bool roami_ranges_open(struct roami_ranges *ranges, uint32_t pages)
{
	struct range *none;

	*ranges = (struct roami_ranges){
		.end = pages, .spare = RANGE_NONE, .spare_before = RANGE_NONE};
	ranges->used = roami_os_reserve_sparse(range_used_bytes(ranges));
	none = roami_os_vec_grow(&ranges->nodes, sizeof(*none), 1);
	if (none == NULL || ranges->used == NULL)
		return false;
	*none = (struct range){0};
	ranges->nodes.count = 1;
	return true;
}

void roami_ranges_close(struct roami_ranges *ranges)
{
	roami_os_vec_free(&ranges->nodes, sizeof(struct range));
	roami_os_unmap(ranges->used, range_used_bytes(ranges));
}

bool roami_ranges_take(struct roami_ranges *ranges, uint32_t pages, uint32_t *first_p,
		       bool *fresh_p)
{
	assert(pages > 0);
	if (!range_reserve(ranges, ranges->live + 1))
		return false;
	if (range_at(ranges, ranges->root)->most >= pages) {
		ranges->root = range_carve(ranges, ranges->root, pages, first_p);
	} else if (ranges->end - ranges->top >= pages) {
		*first_p = ranges->top;
		ranges->top += pages;
	} else {
		return false;
	}
	ranges->live++;
	*fresh_p = !range_used(ranges, *first_p, pages);
	range_use(ranges, *first_p, pages);
	if (!ranges->lent && ranges->top > ranges->high)
		ranges->high = ranges->top;
	return true;
}

/* Frees pages, and joins them with their free neighbours. */
static void range_add(struct roami_ranges *ranges, uint32_t first, uint32_t pages)
{
	uint32_t below, above, node;

	assert(pages > 0 && first + pages <= ranges->top);
	range_cut(ranges, ranges->root, first, &below, &above);
	below = range_absorb(ranges, below, true, &first, &pages);
	above = range_absorb(ranges, above, false, &first, &pages);
	if (!ranges->lent && first + pages == ranges->top) {
		assert(above == 0);
		ranges->top = first;
		ranges->root = below;
		return;
	}
	node = range_new(ranges, first, pages);
	ranges->root = range_merge(ranges, range_merge(ranges, below, node), above);
}

void roami_ranges_put(struct roami_ranges *ranges, uint32_t first, uint32_t pages)
{
	assert(ranges->live > 0);
	ranges->live--;
	range_add(ranges, first, pages);
}

/* ---- lending.  A part lent adds at most one free range, as a live extent does. */

bool roami_ranges_cut(struct roami_ranges *ranges, uint32_t pages, uint32_t parts)
{
	uint32_t top = ranges->top;

	assert(!ranges->lent && pages >= top && pages <= ranges->end);
	if (!range_reserve(ranges, ranges->live + parts))
		return false;
	ranges->live += parts;
	ranges->lent = true;
	ranges->top = ranges->end;
	if (pages > top)
		range_add(ranges, top, pages - top);
	return true;
}

bool roami_ranges_lend(struct roami_ranges *ranges, uint32_t first, uint32_t pages, uint32_t parts,
		       bool used)
{
	assert(ranges->lent);
	if (!range_reserve(ranges, ranges->live + parts))
		return false;
	ranges->live += parts;
	if (used)
		range_use(ranges, first, pages);
	range_add(ranges, first, pages);
	return true;
}

bool roami_ranges_adopt_begin(struct roami_ranges *ranges, uint32_t pages)
{
	return range_reserve(ranges, ranges->live + 1 + pages);
}

/* As if the part was lent, and the pages with blocks were then taken, one by one. */
void roami_ranges_adopt(struct roami_ranges *ranges, uint32_t first, uint32_t pages,
			const uint32_t *blocks, const bool *zero)
{
	uint32_t taken = 0, end;

	assert(ranges->lent);
	for (uint32_t i = 0; i < pages; i++)
		taken += blocks[i] != 0;
	ranges->live += 1 + taken;
	for (uint32_t i = 0; i < pages; i++)
		if (!zero[i])
			range_use(ranges, first + i, 1);
	for (uint32_t i = 0; i < pages; i = end) {
		for (end = i; end < pages && blocks[end] == 0;)
			end++;
		if (end > i)
			range_add(ranges, first + i, end - i);
		else
			end++;
	}
}

/* The range in which a free page lies; 0: the page is not free. */
static uint32_t range_around(const struct roami_ranges *ranges, uint32_t page)
{
	uint32_t node = ranges->root;

	while (node != 0) {
		const struct range *range = range_at(ranges, node);

		if (page < range->first)
			node = range->left;
		else if (page - range->first >= range->pages)
			node = range->right;
		else
			break;
	}
	return node;
}

/* The lowest range of at least `pages` pages; 0: none. */
static uint32_t range_lowest(const struct roami_ranges *ranges, uint32_t pages)
{
	uint32_t node = ranges->root;

	if (range_at(ranges, node)->most < pages)
		return 0;
	for (;;) {
		const struct range *range = range_at(ranges, node);

		if (range_at(ranges, range->left)->most >= pages)
			node = range->left;
		else if (range->pages < pages)
			node = range->right;
		else
			return node;
	}
}

static void range_remove(struct roami_ranges *ranges, uint32_t first)
{
	uint32_t below, above, node;

	range_cut(ranges, ranges->root, first, &below, &above);
	above = range_shed(ranges, above, false, &node);
	range_free(ranges, node);
	ranges->root = range_merge(ranges, below, above);
}

/*
 * The whole parts of a free range that can be given up, page numbers [*from_p, *to_p): one part is
 * kept, the spare, so that a block that comes and goes does not make its part come and go.
 */
static bool range_whole(struct roami_ranges *ranges, uint32_t node, uint32_t part, uint32_t bias,
			uint32_t *from_p, uint32_t *to_p)
{
	const struct range *range = range_at(ranges, node);
	uint32_t end = range->first + range->pages, spare = ranges->spare;
	uint32_t from = (range->first + bias + part - 1) / part * part - bias;
	uint32_t to = (end + bias) / part * part - bias, kept;

	if (node == 0 || end + bias < part || from >= to)
		return false;
	kept = spare != RANGE_NONE ? range_around(ranges, spare) : 0;
	if (kept != 0 &&
	    spare + part > range_at(ranges, kept)->first + range_at(ranges, kept)->pages)
		kept = 0;
	if (kept == 0 || from < spare) { /* the lowest: it is least in the way of large blocks */
		if (kept != 0)
			ranges->spare_before = spare;
		ranges->spare = spare = from;
	}
	if (spare >= from && spare < to) {
		if (spare == from)
			from += part;
		else
			to = spare;
	}
	*from_p = from;
	*to_p = to;
	return from < to;
}

bool roami_ranges_reclaim(struct roami_ranges *ranges, uint32_t page, uint32_t part, uint32_t bias,
			  uint32_t *first_p, uint32_t *parts_p, bool *used_p)
{
	uint32_t node, from, to, first, end;

	if (!ranges->lent)
		return false;
	node = range_around(ranges, page);
	if (!range_whole(ranges, node, part, bias, &from, &to)) {
		node = range_around(ranges, ranges->spare_before);
		if (!range_whole(ranges, node, part, bias, &from, &to))
			node = range_lowest(ranges, 3 * part); /* two parts wherever it begins */
		if (!range_whole(ranges, node, part, bias, &from, &to))
			return false;
	}
	first = range_at(ranges, node)->first;
	end = first + range_at(ranges, node)->pages;
	range_remove(ranges, first);
	*first_p = from;
	*parts_p = (to - from) / part;
	*used_p = range_used(ranges, from, to - from);
	ranges->live -= *parts_p;
	if (from > first)
		range_add(ranges, first, from - first);
	if (end > to)
		range_add(ranges, to, end - to);
	return true;
}

bool roami_ranges_split(struct roami_ranges *ranges)
{
	if (!range_reserve(ranges, ranges->live + 1))
		return false;
	ranges->live++;
	return true;
}

void roami_ranges_join(struct roami_ranges *ranges)
{
	assert(ranges->live > 1);
	ranges->live--;
}

/* ------------------------------------------------------------------------ runs of small blocks */

struct run {
	uint64_t free; /* a bit for each block */
	uint32_t page;
	uint32_t next; /* in the list of its class, while it has a free block */
	uint32_t prev;
	uint8_t class;
	uint8_t used; /* blocks from here on were never handed out */
	bool fresh;   /* and are zero, as the page was new */
};

_Static_assert(sizeof(struct run) == 24, "one per page of small blocks");

static struct run *run_at(const struct roami_runs *runs, uint32_t run)
{
	return (struct run *)(void *)runs->runs.items + run;
}

/* Grains of a block: of all sizes that fit k times in a page, the largest. */
static unsigned run_grains(unsigned class)
{
	static const uint8_t grains[ROAMI_ALLOC_CLASSES] = {
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 21, 32,
	};

	return grains[class];
}

static uint64_t run_all(unsigned class)
{
	unsigned blocks = ROAMI_ALLOC_GRAINS / run_grains(class);

	return blocks == 64 ? UINT64_MAX : (UINT64_C(1) << blocks) - 1;
}

static void run_link(struct roami_runs *runs, uint32_t at)
{
	struct run *run = run_at(runs, at);
	uint32_t *head = &runs->some[run->class];

	run->prev = 0;
	run->next = *head;
	if (*head != 0)
		run_at(runs, *head)->prev = at;
	*head = at;
}

static void run_unlink(struct roami_runs *runs, uint32_t at)
{
	struct run *run = run_at(runs, at);

	if (run->prev != 0)
		run_at(runs, run->prev)->next = run->next;
	else
		runs->some[run->class] = run->next;
	if (run->next != 0)
		run_at(runs, run->next)->prev = run->prev;
}

static uint32_t run_end(struct roami_runs *runs, uint32_t at)
{
	struct run *run = run_at(runs, at);

	run_unlink(runs, at);
	run->next = runs->unused;
	runs->unused = at;
	return run->page;
}

bool roami_runs_open(struct roami_runs *runs)
{
	struct run *none;

	*runs = (struct roami_runs){0};
	none = roami_os_vec_grow(&runs->runs, sizeof(*none), 1);
	if (none == NULL)
		return false;
	*none = (struct run){0};
	runs->runs.count = 1;
	return true;
}

void roami_runs_close(struct roami_runs *runs)
{
	roami_os_vec_free(&runs->runs, sizeof(struct run));
}

unsigned roami_runs_class(size_t bytes)
{
	size_t grains = (bytes + ROAMI_ALLOC_GRAIN - 1) / ROAMI_ALLOC_GRAIN;
	unsigned class = 0;

	assert(bytes > 0 && bytes <= ROAMI_ALLOC_SMALL);
	while (run_grains(class) < grains)
		class ++;
	return class;
}

size_t roami_runs_bytes(const struct roami_runs *runs, uint32_t run)
{
	return (size_t)run_grains(run_at(runs, run)->class) * ROAMI_ALLOC_GRAIN;
}

bool roami_runs_take(struct roami_runs *runs, unsigned class, uint64_t *grain_p, bool *fresh_p)
{
	uint32_t at = runs->some[class];
	struct run *run = run_at(runs, at);
	unsigned block;

	if (at == 0)
		return false;
	assert(run->free != 0);
	block = (unsigned)__builtin_ctzll(run->free);
	run->free &= run->free - 1;
	if (run->free == 0)
		run_unlink(runs, at);
	if (runs->idle[class] == at)
		runs->idle[class] = 0;
	*fresh_p = run->fresh && block >= run->used;
	if (block >= run->used)
		run->used = (uint8_t)(block + 1);
	*grain_p = (uint64_t)run->page * ROAMI_ALLOC_GRAINS + block * run_grains(class);
	return true;
}

uint32_t roami_runs_add(struct roami_runs *runs, unsigned class, uint32_t page, bool fresh)
{
	uint32_t at = runs->unused;

	if (at != 0) {
		runs->unused = run_at(runs, at)->next;
	} else {
		if (roami_os_vec_grow(&runs->runs, sizeof(struct run), 1) == NULL)
			return 0;
		at = (uint32_t)runs->runs.count++;
	}
	*run_at(runs, at) = (struct run){
		.free = run_all(class),
		.page = page,
		.class = (uint8_t) class,
		.fresh = fresh,
	};
	run_link(runs, at);
	return at;
}

bool roami_runs_live(const struct roami_runs *runs, uint32_t run, unsigned grain)
{
	unsigned grains = run_grains(run_at(runs, run)->class);
	uint64_t live = run_all(run_at(runs, run)->class) & ~run_at(runs, run)->free;

	return grain % grains == 0 && (live >> grain / grains & 1) != 0;
}

bool roami_runs_put(struct roami_runs *runs, uint32_t at, unsigned grain, uint32_t *page_p)
{
	struct run *run = run_at(runs, at);
	unsigned class = run->class;

	assert(roami_runs_live(runs, at, grain));
	if (run->free == 0)
		run_link(runs, at);
	run->free |= UINT64_C(1) << grain / run_grains(class);
	if (run->free != run_all(class))
		return false;
	if (runs->idle[class] == 0) {
		runs->idle[class] = at;
		return false;
	}
	*page_p = run_end(runs, at);
	return true;
}

bool roami_runs_trim(struct roami_runs *runs, uint32_t *page_p)
{
	for (unsigned class = 0; class < ROAMI_ALLOC_CLASSES; class ++) {
		uint32_t at = runs->idle[class];

		if (at == 0)
			continue;
		runs->idle[class] = 0;
		*page_p = run_end(runs, at);
		return true;
	}
	return false;
}
