/* Sending diffs to their homes by message: see reach.h. */
#include <string.h>

#include "base/region.h"
#include "home/brought.h"
#include "home/reach.h"
#include "home/remote.h"
#include "page/page.h"
#include "page/pointers.h"
#include "page/race.h"

/*
 * Diffs for one home, in messages: the writer's clock (for the race check; else an empty one), and
 * what it has synchronised on last (for the race check), then items.
 */
struct flush_item {
	uint32_t page;
	uint32_t bytes;
};

#define BATCH_BYTES (48u * 1024)
#define BATCH_PAGES (BATCH_BYTES / sizeof(struct flush_item))
#define FLUSH_PAGES 512u

_Static_assert(BATCH_PAGES * sizeof(uint64_t) <= ROAMI_SLAB_BYTES &&
		       BATCH_BYTES + ROAMI_DIFF_BYTES_MAX + 64 <= ROAMI_SLAB_BYTES,
	       "both ends of a batch have a room for it");

/* Patches an existing twin too: another node's writes must not look like this node's (rule 1.5). */
static bool diff_apply(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes)
{
	struct roami_page *entry = roami_page_entry(node, page);
	bool good;

	roami_page_lock(node, page);
	good = pages_of(node)->diff->apply(roami_page_bytes(node, page),
				 entry->twin != 0 ? roami_twin_bytes(node, entry->twin) : NULL,
				 diff, bytes);
	roami_page_unlock(node, page);
	return good;
}

/* Applies the diff at this home; returns the new version; 0: the home was taken. */
static uint64_t diffs_count(struct roami_node *node, const struct roam_request *request,
			    uint32_t page, const uint8_t *diff, size_t bytes)
{
	struct roami_header *header = &node->self->headers[page];
	bool taken = roami_homes_of(node, page) == ROAM_HOMES_TAKEN;

	roami_contract(page < node->layout.pages);
	if (taken && !roami_home_enter(node, header))
		return 0;
	if (!diff_apply(node, page, diff, bytes))
		roami_node_fail(node, "node %u: malformed diff", request->from);
	ROAMI_COUNT(node->stats, diffs_applied, 1);
	roami_assert(atomic_load(&header->where) & ROAM_HEADER_HOME);
	return taken ? roami_home_leave(header, true) : atomic_fetch_add(&header->version, 1) + 1;
}

static void diffs_handle(struct roami_node *node, const struct roam_request *request)
{
	const uint8_t *at = request->data, *end = at + request->bytes;
	struct roami_slab *slab = roami_node_slab(node);
	uint64_t *versions = (void *)slab->bytes;
	struct roam_part part = {versions, 0};
	struct roami_vclock clock;
	struct roami_synced since = {0, ROAMI_SYNCED_NOT};
	size_t count = 0, clock_bytes;
	uint64_t code;

	if (roami_race_checked(node))
		memset(&clock, 0, sizeof(clock));
	clock_bytes = roami_vclock_decode(&clock, node->nodes, at, request->bytes);
	if (clock_bytes == 0)
		roami_node_fail(node, "node %u: malformed message of diffs", request->from);
	at += clock_bytes;
	if (roami_race_checked(node)) {
		if (sizeof(since) > (size_t)(end - at))
			roami_node_fail(node, "node %u: malformed message of diffs", request->from);
		memcpy(&since, at, sizeof(since));
		at += sizeof(since);
	}
	while (at < end) {
		struct flush_item item;

		if ((size_t)(end - at) < sizeof(item))
			roami_node_fail(node, "node %u: malformed message of diffs", request->from);
		memcpy(&item, at, sizeof(item));
		at += sizeof(item);
		code = 0;
		if (roami_race_checked(node) && sizeof(code) <= (size_t)(end - at)) {
			memcpy(&code, at, sizeof(code));
			at += sizeof(code);
		}
		if (item.page >= node->layout.pages || item.bytes > (size_t)(end - at) ||
		    count == BATCH_PAGES)
			roami_node_fail(node, "node %u: malformed diff", request->from);
		versions[count++] = diffs_count(node, request, item.page, at, item.bytes);
		if (roami_race_checked(node)) {
			roami_page_lock(node, item.page);
			roami_race_note(node, item.page, request->origin, &clock, &since,
					code, at, item.bytes);
			roami_page_unlock(node, item.page);
		}
		at += (item.bytes + 7u) & ~7u;
		roami_step(node);
	}
	part.bytes = count * sizeof(versions[0]);
	roami_reply(node, request, &part, 1);
	roami_slab_give(slab);
}

static uint32_t flush_encode(struct roami_node *node, uint8_t *out, uint32_t page, uint8_t *twin,
			     bool keep)
{
	const uint8_t *bytes = roami_page_bytes(node, page);

	roami_contract_pending(node, page);
	roami_step(node);
	if (keep)
		return (uint32_t)pages_of(node)->diff->encode_sticky(out, bytes, twin, ROAMI_PAGE);
	return (uint32_t)pages_of(node)->diff->encode(out, bytes, twin, ROAMI_PAGE);
}

/* Whether the diff already holds its home in place, so that it is not taken meanwhile. */
static bool flush_holds(struct roami_node *node, unsigned home)
{
	roami_assert(home < node->nodes);
	return node->reach[home]->flush_holds && roami_homes_here(node) == ROAM_HOMES_TAKEN;
}

/* Adds a page's diff to a batch; returns the bytes used.  *count: the pages that have changed. */
static size_t flush_item(struct roami_node *node, struct roam_dirty *dirty, bool stays,
			 uint8_t *batch, size_t *count)
{
	struct flush_item item = {dirty->page, 0};
	size_t head = sizeof(item);
	uint8_t *twin = roami_twin_bytes(node, roami_page_entry(node, item.page)->twin);

	roami_contract_pending(node, dirty->page);
	roami_contract(!dirty->home);
	if (dirty->keep && !stays) {
		/* The home may have been taken: then the twin must be unchanged. */
		roami_page_close(node, &item.page, 1, ROAM_READ);
		dirty->keep = false;
	}
	/* In between, if diffs are looked at, goes the code that wrote the page. */
	if (roami_race_checked(node)) {
		uint64_t code = roami_race_page_code(node, item.page);

		memcpy(batch + head, &code, sizeof(code));
		head += sizeof(code);
	}
	roami_diff_count_runs(node, item.page);
	item.bytes = flush_encode(node, batch + head, item.page, twin, dirty->keep);
	roami_pointers_look(node, item.page, batch + head, item.bytes);
	dirty->changed = item.bytes != 0;
	if (item.bytes == 0) {
		ROAMI_COUNT(node->stats, diffs_empty, 1);
		return 0;
	}
	memcpy(batch, &item, sizeof(item));
	ROAMI_COUNT(node->stats, diffs, 1);
	ROAMI_COUNT(node->stats, diff_bytes, item.bytes);
	(*count)++;
	return head + ((item.bytes + 7u) & ~7u);
}

uint64_t roami_home_apply(struct roami_node *node, unsigned from, uint32_t page, const void *diff,
			  size_t bytes)
{
	roami_contract((node->self->headers[page].where & ROAM_HEADER_HOME) != 0);
	if (bytes > 0 && !diff_apply(node, page, diff, bytes))
		roami_node_fail(node, "node %u: malformed diff", from);
	ROAMI_COUNT(node->stats, diffs_applied, 1);
	return atomic_fetch_add(&node->self->headers[page].version, 1) + 1;
}

/* Batches under way. */
#define FLUSH_CALLS 16u

struct flush_call {
	struct roami_call *call; /* NULL: nothing has changed */
	unsigned home;
	uint16_t brought; /* as of its pages */
	size_t first, end;  /* among the dirty pages */
	uint64_t *versions; /* of the pages that changed */
	size_t count;
};

struct flush {
	struct roam_dirty *dirty;
	const uint16_t *homes;
	size_t count;
	struct flush_call calls[FLUSH_CALLS]; /* in turn */
	uint16_t brought[FLUSH_PAGES]; /* the number of the put that has the page; 0: none */
	unsigned begun, ended;
	uint64_t versions[FLUSH_PAGES];
	size_t versions_used;
};

static void flush_await(struct roami_node *node, struct flush *flush)
{
	struct flush_call *call = &flush->calls[flush->ended++ % FLUSH_CALLS];
	size_t answered = 0;

	roami_assert(flush->ended <= flush->begun);
	if (call->call != NULL && roami_msg_call_end(node, call->call) !=
					  call->count * sizeof(call->versions[0]))
		roami_node_fail(node, "node %u: short reply to a message of diffs", call->home);
	for (size_t i = call->first; i < call->end; i++) {
		struct roam_dirty *dirty = &flush->dirty[i];

		if (flush->homes[i] != call->home || !dirty->asks ||
		    flush->brought[i] != call->brought)
			continue;
		if (dirty->changed) {
			roami_contract(answered < call->count);
			dirty->version = call->versions[answered++];
			dirty->moved = dirty->version == 0;
		}
		if (flush_holds(node, call->home))
			roami_home_leave(&node->segments[call->home].headers[dirty->page], false);
	}
}

/* A call under way to a home, for pages from `first` to `end`. */
static struct flush_call *flush_begin(struct flush *flush, unsigned home, size_t first, size_t end)
{
	struct flush_call *call = &flush->calls[flush->begun++ % FLUSH_CALLS];

	roami_assert(flush->begun - flush->ended <= FLUSH_CALLS);
	*call = (struct flush_call){.home = home,
				    .first = first,
				    .end = end,
				    .versions = flush->versions + flush->versions_used};
	return call;
}

/* Begins a put, if the card has room; its pages are `at` of the dirty ones. */
static void flush_put(struct roami_node *node, struct flush *flush, struct roami_brought *brought,
		      const uint16_t *at)
{
	unsigned pages = brought->pages;
	struct roami_call *started = NULL;
	struct flush_call *call;

	if (pages > 0 && flush->begun - flush->ended < FLUSH_CALLS)
		started = roami_brought_start(node, brought,
					      flush->versions + flush->versions_used);
	brought->pages = brought->puts = 0;
	brought->bytes = 0;
	if (started == NULL)
		return;
	call = flush_begin(flush, brought->home, at[0], at[pages - 1] + 1u);
	call->call = started;
	call->brought = (uint16_t)flush->begun;
	call->count = pages;
	flush->versions_used += pages;
	for (unsigned i = 0; i < pages; i++)
		flush->brought[at[i]] = call->brought;
}

static bool flush_has(const struct flush *flush, size_t i, unsigned home)
{
	return flush->homes[i] == home && flush->dirty[i].asks && flush->dirty[i].changed;
}

/*
 * Begins puts of those of a batch's diffs that a card may write: pages from `from` to `end`, whose
 * items follow each other in the batch.
 */
static void flush_brought(struct roami_node *node, struct flush *flush, size_t from, size_t end,
			 unsigned home, const uint8_t *batch)
{
	struct roami_brought brought = {.home = home};
	uint16_t at[ROAMI_BROUGHT_PUTS];
	struct flush_item item;

	for (size_t i = from; i < end; i++) {
		enum roami_brought_add added;

		if (!flush_has(flush, i, home))
			continue;
		memcpy(&item, batch, sizeof(item));
		batch += sizeof(item);
		added = roami_brought_add(node, &brought, item.page, batch, item.bytes);
		if (added == ROAMI_BROUGHT_FULL) {
			flush_put(node, flush, &brought, at);
			added = roami_brought_add(node, &brought, item.page, batch, item.bytes);
		}
		if (added == ROAMI_BROUGHT_ADDED)
			at[brought.pages - 1] = (uint16_t)i;
		batch += (item.bytes + 7u) & ~7u;
	}
	flush_put(node, flush, &brought, at);
}

/* Leaves out of a batch what goes by puts; returns its bytes. */
static size_t flush_rest(const struct flush *flush, size_t from, size_t end, unsigned home,
			 uint8_t *batch, size_t *count)
{
	size_t at = 0, used = 0;

	for (size_t i = from; i < end; i++) {
		struct flush_item item;
		size_t bytes;

		if (!flush_has(flush, i, home))
			continue;
		memcpy(&item, batch + at, sizeof(item));
		bytes = sizeof(item) + ((item.bytes + 7u) & ~7u);
		if (flush->brought[i] == 0) {
			memmove(batch + used, batch + at, bytes);
			used += bytes;
		} else {
			(*count)--;
		}
		at += bytes;
	}
	return used;
}

/*
 * Sends one batch of diffs to `home`, of pages from index `from` on; returns the index after the
 * last.
 */
static size_t flush_batch(struct roami_node *node, struct flush *flush, size_t from, unsigned home)
{
	struct roami_slab *slab;
	struct flush_call *call;
	size_t used = 0, at = from, count = 0;
	struct roami_vclock clock;
	bool stays = roami_homes_here(node) != ROAM_HOMES_TAKEN || flush_holds(node, home);
	struct roami_vclock_wire wire;
	struct roami_synced since;
	struct roam_part parts[3] = {{&wire, sizeof(wire.mask)}, {&since, 0}, {NULL, 0}};

	roami_assert(from < flush->count && home != node->me);
	if (flush->begun - flush->ended == FLUSH_CALLS)
		flush_await(node, flush);
	slab = roami_node_slab(node);
	parts[2].data = slab->bytes;
	for (; at < flush->count &&
	       used + ROAMI_DIFF_BYTES_MAX + sizeof(struct flush_item) < BATCH_BYTES;
	     at++)
		if (flush->homes[at] == home && flush->dirty[at].asks)
			used += flush_item(node, &flush->dirty[at], stays, slab->bytes + used,
					   &count);
	call = flush_begin(flush, home, from, at);
	if (count > 0 && roami_brought_may(node, home)) {
		flush_brought(node, flush, from, at, home, slab->bytes);
		used = flush_rest(flush, from, at, home, slab->bytes, &count);
	}
	call->versions = flush->versions + flush->versions_used;
	call->count = count;
	flush->versions_used += count;
	parts[2].bytes = used;
	wire.mask = 0;
	if (roami_race_checked(node)) {
		roami_race_clock(node, &clock);
		parts[0].bytes = roami_vclock_encode(&clock, NULL, node->nodes, &wire);
		since = roami_race_since(node);
		parts[1].bytes = sizeof(since);
	}
	if (used > 0)
		call->call = roami_msg_call_start(
			node, home, roami_type(node, ROAMI_ROOM_FLUSH, ROAMI_FLUSH_DIFFS), parts, 3,
			call->versions, call->count * sizeof(call->versions[0]));
	roami_slab_give(slab);
	return at;
}

/* Sends diffs batch after batch, to all homes at the same time. */
static void flush_some(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		      size_t count)
{
	struct flush flush; /* large: only what is read is set */
	uint64_t wanted = 0;

	roami_assert(count > 0 && count <= FLUSH_PAGES);
	flush.dirty = dirty;
	flush.homes = homes;
	flush.count = count;
	flush.begun = flush.ended = 0;
	flush.versions_used = 0;
	memset(flush.brought, 0, count * sizeof(flush.brought[0]));
	for (size_t i = 0; i < count; i++)
		if (dirty[i].asks)
			wanted |= roami_nodeset_bit(homes[i]);
	for (; wanted != 0; wanted &= wanted - 1)
		for (size_t at = 0; at < count;)
			at = flush_batch(node, &flush, at, (unsigned)__builtin_ctzll(wanted));
	while (flush.ended < flush.begun)
		flush_await(node, &flush);
}

void roami_flush_send(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		      size_t count)
{
	roami_wait_begin(node);
	while (count > 0) {
		size_t some = count < FLUSH_PAGES ? count : FLUSH_PAGES;

		flush_some(node, dirty, homes, some);
		dirty += some;
		homes += some;
		count -= some;
	}
	roami_wait_end(node);
}

static const struct roam_message flush_messages[] = {
	[ROAMI_FLUSH_DIFFS] = {"diffs", diffs_handle, ROAMI_MSG_MAX},
	[ROAMI_FLUSH_WRITTEN] = {"written", roami_brought_handle,
				 ROAMI_BROUGHT_PUTS * sizeof(uint32_t)},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_flush = {.name = "flush", .messages = flush_messages};
