/* Sending diffs to their homes by message: see reach.h. */
#include <string.h>

#include "base/region.h"
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
	size_t first, end;  /* among the dirty pages */
	uint64_t *versions; /* of the pages that changed */
	size_t count;
};

struct flush {
	struct roam_dirty *dirty;
	const uint16_t *homes;
	size_t count;
	struct flush_call calls[FLUSH_CALLS]; /* in turn */
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

		if (flush->homes[i] != call->home || !dirty->asks)
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

/*
 * Sends one batch of diffs to `home`, of pages from index `from` on; returns the index after the
 * last.
 */
static size_t flush_batch(struct roami_node *node, struct flush *flush, size_t from, unsigned home)
{
	struct roami_slab *slab;
	struct flush_call *call;
	size_t used = 0, at = from;
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
	call = &flush->calls[flush->begun++ % FLUSH_CALLS];
	*call = (struct flush_call){.home = home,
				    .first = from,
				    .versions = flush->versions + flush->versions_used};
	for (; at < flush->count &&
	       used + ROAMI_DIFF_BYTES_MAX + sizeof(struct flush_item) < BATCH_BYTES;
	     at++)
		if (flush->homes[at] == home && flush->dirty[at].asks)
			used += flush_item(node, &flush->dirty[at], stays, slab->bytes + used,
					   &call->count);
	call->end = at;
	flush->versions_used += call->count;
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
			node, home, roami_type(node, ROAMI_ROOM_FLUSH, 0), parts, 3,
			call->versions, call->count * sizeof(call->versions[0]));
	roami_slab_give(slab);
	return at;
}

/* Sends diffs batch after batch, to all homes at the same time. */
static void flush_some(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		      size_t count)
{
	struct flush flush = {.dirty = dirty, .homes = homes, .count = count};
	uint64_t wanted = 0;

	roami_assert(count > 0 && count <= FLUSH_PAGES);
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
	{"diffs", diffs_handle, ROAMI_MSG_MAX},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_flush = {.name = "flush", .messages = flush_messages};
