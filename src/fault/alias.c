#include "fault/alias.h"

#include <assert.h>

#define ALIAS_MAGIC 0x616c6961u

/* A second address: to the inner engine it is a small heap of its own. */
struct alias_view {
	struct roami_alias alias;
	void *state; /* the inner engine's */
	struct alias_state *all;
};

struct alias_state {
	struct roami_fault_engine engine;
	uint32_t magic;
	const struct roami_fault_engine *inner;
	void *heap; /* the inner engine's state of the heap itself */
	roami_fault_fn *fn;
	void *arg;
	unsigned count;
	struct alias_view views[ROAMI_ALIASES_MAX];
};

static struct alias_state *alias_check(void *state)
{
	struct alias_state *all = state;

	assert(all->magic == ALIAS_MAGIC);
	return all;
}

/*
 * The part of [first, first + count) that has this second address; *at_p is counted from the
 * alias's first page.
 */
static uint32_t alias_overlap(const struct roami_alias *alias, uint32_t first, uint32_t count,
			      uint32_t *at_p)
{
	uint32_t begin = first > alias->first ? first : alias->first;
	uint32_t end = first + count, last = alias->first + alias->count;

	end = end < last ? end : last;
	*at_p = begin - alias->first;
	return begin < end ? end - begin : 0;
}

static void alias_fault(void *arg, uint32_t page, bool write, bool kind_known)
{
	const struct alias_view *view = arg;

	view->all->fn(view->all->arg, view->alias.first + page, write, kind_known);
}

static enum roam_err alias_open(void *state, const struct roami_view *view, roami_fault_fn *fn,
				void *arg)
{
	struct alias_state *all = alias_check(state);
	enum roam_err err = all->inner->open(all->heap, view, fn, arg);

	all->fn = fn;
	all->arg = arg;
	for (unsigned i = 0; i < all->count && err == ROAM_OK; i++) {
		const struct roami_alias *alias = &all->views[i].alias;
		uint64_t at = (uint64_t)alias->first * ROAM_PAGE_SIZE;
		struct roami_view second = {alias->app, view->runtime + at,
					    (size_t)alias->count * ROAM_PAGE_SIZE, view->fd,
					    view->offset + at};

		err = all->inner->open(all->views[i].state, &second, alias_fault, &all->views[i]);
	}
	return err;
}

static void alias_close(void *state)
{
	struct alias_state *all = alias_check(state);

	for (unsigned i = 0; i < all->count; i++)
		all->inner->close(all->views[i].state);
	all->inner->close(all->heap);
}

static enum roam_err alias_protect(void *state, uint32_t first, uint32_t count,
				   enum roam_access from, enum roam_access to)
{
	struct alias_state *all = alias_check(state);
	enum roam_err err = all->inner->protect(all->heap, first, count, from, to);

	for (unsigned i = 0; i < all->count && err == ROAM_OK; i++) {
		uint32_t at, pages = alias_overlap(&all->views[i].alias, first, count, &at);

		if (pages > 0)
			err = all->inner->protect(all->views[i].state, at, pages, from, to);
	}
	return err;
}

/* How many of `count` pages from `first` on precede the first one with a second address. */
static uint32_t alias_before(const struct alias_state *all, uint32_t first, uint32_t count)
{
	for (unsigned i = 0; i < all->count; i++) {
		const struct roami_alias *alias = &all->views[i].alias;
		uint32_t at;

		if (alias_overlap(alias, first, count, &at) > 0)
			count = alias->first > first ? alias->first - first : 0;
	}
	return count;
}

/* What would be open at one address only is left to `protect`. */
static uint32_t alias_copy(void *state, uint32_t first, uint32_t count, const uint8_t *from)
{
	struct alias_state *all = alias_check(state);

	count = alias_before(all, first, count);
	return count > 0 ? all->inner->copy(all->heap, first, count, from) : 0;
}

static enum roam_err alias_zero(void *state, uint32_t first, uint32_t count)
{
	struct alias_state *all = alias_check(state);

	if (alias_before(all, first, count) < count)
		return ROAM_ESTATE;
	return all->inner->zero(all->heap, first, count);
}

static void alias_fill(void *state, uint32_t first, uint32_t count)
{
	struct alias_state *all = alias_check(state);

	all->inner->fill(all->heap, first, count);
}

static bool alias_check_handlers(void *state)
{
	struct alias_state *all = alias_check(state);

	return all->inner->check_handlers(all->heap);
}

static int alias_file(const void *state)
{
	const struct alias_state *all = state;

	return all->inner->file(all->heap);
}

static void alias_engine(struct alias_state *all, const struct roami_fault_engine *inner)
{
	all->engine = *inner;
	all->engine.open = alias_open;
	all->engine.close = alias_close;
	all->engine.protect = alias_protect;
	all->engine.copy = inner->copy != NULL ? alias_copy : NULL;
	all->engine.zero = inner->zero != NULL ? alias_zero : NULL;
	all->engine.fill = inner->fill != NULL ? alias_fill : NULL;
	all->engine.check_handlers = inner->check_handlers != NULL ? alias_check_handlers : NULL;
	all->engine.file = inner->file != NULL ? alias_file : NULL;
}

static size_t alias_round(size_t bytes)
{
	return (bytes + 63u) & ~(size_t)63;
}

size_t roami_fault_alias_bytes(const struct roami_fault_engine *inner,
			       const struct roami_aliases *aliases)
{
	return alias_round(sizeof(struct alias_state)) +
	       alias_round(inner->state_size) * (1 + aliases->count);
}

const struct roami_fault_engine *roami_fault_alias(const struct roami_fault_engine *inner,
						   const struct roami_aliases *aliases, void *state)
{
	struct alias_state *all = state;
	uint8_t *states = (uint8_t *)state + alias_round(sizeof(*all));

	assert(inner->load == NULL && inner->store == NULL && aliases->count <= ROAMI_ALIASES_MAX);
	alias_engine(all, inner);
	all->magic = ALIAS_MAGIC;
	all->inner = inner;
	all->heap = states;
	all->count = aliases->count;
	for (unsigned i = 0; i < aliases->count; i++) {
		all->views[i].alias = aliases->of[i];
		all->views[i].state = states + alias_round(inner->state_size) * (1 + i);
		all->views[i].all = all;
	}
	return &all->engine;
}
