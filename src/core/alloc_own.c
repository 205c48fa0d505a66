/* Roam's own allocator: a treap of free page ranges, and pages cut into small blocks. */
#include "core/alloc_priv.h"

#include <assert.h>

/* --------------------------------------------------------------------------------- page ranges */

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

/* Nodes are bought when a block is handed out, so that giving it back cannot fail. */
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

/* Takes the outermost range off a non-empty tree; the tree that is left. */
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

/* Takes pages from the front of the lowest range that has them; the tree that is left. */
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

bool roami_ranges_open(struct roami_ranges *ranges, uint32_t pages)
{
	struct range *none;

	*ranges = (struct roami_ranges){.end = pages};
	none = roami_os_vec_grow(&ranges->nodes, sizeof(*none), 1);
	if (none == NULL)
		return false;
	*none = (struct range){0};
	ranges->nodes.count = 1;
	return true;
}

void roami_ranges_close(struct roami_ranges *ranges)
{
	roami_os_vec_free(&ranges->nodes, sizeof(struct range));
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
	*fresh_p = *first_p >= ranges->high;
	if (ranges->top > ranges->high)
		ranges->high = ranges->top;
	return true;
}

void roami_ranges_put(struct roami_ranges *ranges, uint32_t first, uint32_t pages)
{
	uint32_t below, above, node;

	assert(pages > 0 && first + pages <= ranges->top);
	assert(ranges->live > 0);
	ranges->live--;
	range_cut(ranges, ranges->root, first, &below, &above);
	below = range_absorb(ranges, below, true, &first, &pages);
	above = range_absorb(ranges, above, false, &first, &pages);
	if (first + pages == ranges->top) {
		assert(above == 0);
		ranges->top = first;
		ranges->root = below;
		return;
	}
	node = range_new(ranges, first, pages);
	ranges->root = range_merge(ranges, range_merge(ranges, below, node), above);
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
