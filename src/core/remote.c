#include "core/remote.h"

#include <string.h>

#include "core/domain.h"
#include "core/far.h"
#include "core/guess.h"
#include "core/log.h"
#include "core/page.h"
#include "core/race.h"
#include "core/sync.h"
#include "msg/msg.h"

/* ----------------------------------------------------------------------------- directory words */

struct word_op {
	uint32_t page;
	uint32_t swap;
	uint64_t from;
	uint64_t to;
};

static uint64_t word_apply(_Atomic uint64_t *word, const struct word_op *op)
{
	uint64_t found = op->from;

	if (!op->swap)
		return atomic_load(word);
	atomic_compare_exchange_strong(word, &found, op->to);
	return found;
}

static uint64_t word_remote(struct roami_node *node, const struct word_op *op)
{
	unsigned manager = roami_manager(node, op->page);
	struct roam_part part = {op, sizeof(*op)};
	uint64_t found;

	roami_step(node);
	if (roami_near(node, manager) || manager == node->me)
		return word_apply(&node->segments[manager].directory[op->page], op);
	roami_msg_call(node, manager, ROAMI_TYPE_MEMORY + ROAMI_MEMORY_WORD, &part, 1, &found,
		       sizeof(found));
	return found;
}

uint64_t roami_word_load(struct roami_node *node, uint32_t page)
{
	struct word_op op = {page, 0, 0, 0};

	return word_remote(node, &op);
}

uint64_t roami_word_swap(struct roami_node *node, uint32_t page, uint64_t from, uint64_t to)
{
	struct word_op op = {page, 1, from, to};

	return word_remote(node, &op);
}

uint32_t roami_memory_page(struct roami_node *node, const struct roam_request *request,
			   size_t bytes)
{
	uint32_t page;

	if (request->bytes < bytes)
		roami_node_fail(node, "node %u sent a short request", request->from);
	memcpy(&page, request->data, sizeof(page));
	if (page >= node->layout.pages)
		roami_node_fail(node, "node %u asked for page %u, beyond the heap", request->from,
				page);
	return page;
}

static void word_handle(struct roami_node *node, const struct roam_request *request)
{
	struct word_op op;
	uint64_t found;
	struct roam_part part = {&found, sizeof(found)};

	roami_memory_page(node, request, sizeof(op));
	memcpy(&op, request->data, sizeof(op));
	found = word_apply(&node->self->directory[op.page], &op);
	roami_reply(node, request, &part, 1);
}

/* ------------------------------------------------------------------------------------ adoption */

static void adopt_header(struct roami_node *node, struct roami_header *header)
{
	atomic_store(&header->version, node->version_begin + 1);
	atomic_fetch_or(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY |
						node->epoch_begin << ROAMI_HEADER_EPOCH);
}

static void adopt_handle(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_memory_page(node, request, 8);

	if (request->bytes == 8 + ROAMI_PAGE)
		memcpy(roami_page_bytes(node, page), (const uint8_t *)request->data + 8,
		       ROAMI_PAGE);
	adopt_header(node, &node->self->headers[page]);
	roami_reply(node, request, NULL, 0);
}

void roami_adopt(struct roami_node *node, unsigned home, uint32_t page)
{
	uint64_t word = page;
	uint8_t bytes[ROAM_PAGE_SIZE];
	struct roam_part parts[2] = {{&word, sizeof(word)}, {bytes, 0}};

	if (home != 0 && roami_creator_copy(node, page, bytes))
		parts[1].bytes = sizeof(bytes);
	if (!roami_near(node, home)) {
		roami_msg_call(node, home, ROAMI_TYPE_MEMORY + ROAMI_MEMORY_ADOPT, parts, 2, NULL,
			       0);
		return;
	}
	if (parts[1].bytes > 0)
		roami_page_copy(node, node->segments[home].heap + (size_t)page * ROAMI_PAGE, bytes);
	adopt_header(node, &node->segments[home].headers[page]);
}

/* ------------------------------------------------------------------------------------- flushes */

#define STEP_BYTES  512u
#define FLUSH_AHEAD 1024u /* bytes */

/* Stores the changed bytes straight into the home's page; how many. */
static size_t flush_put(struct roami_node *node, uint8_t *to, const uint8_t *from, uint8_t *twin,
			bool keep)
{
	size_t changed = 0, step = node->env->step == NULL ? ROAMI_PAGE : STEP_BYTES;

	for (size_t at = 0; at < ROAMI_PAGE; at += step) {
		if (keep)
			changed += node->diff->put_sticky(to + at, from + at, twin + at, step);
		else
			changed += node->diff->put(to + at, from + at, twin + at, step);
		roami_step(node);
	}
	return changed;
}

/* The changed bytes of one page; its version is still to be counted up. */
static size_t flush_bytes(struct roami_node *node, struct roam_dirty *dirty, unsigned home)
{
	struct roami_page *entry = roami_page_entry(node, dirty->page);
	struct roami_segment *there = &node->segments[home];
	size_t changed;

	roami_assert(entry->twin != 0);
	__builtin_prefetch(&there->headers[dirty->page].version, 1);
	changed = flush_put(node, there->heap + (size_t)dirty->page * ROAMI_PAGE,
			    roami_page_bytes(node, dirty->page),
			    roami_twin_bytes(node, entry->twin), dirty->keep);
	dirty->changed = changed != 0;
	return changed;
}

/*
 * First lines of a page that comes soon are on their way while this one is compared; of the home's
 * one, for its address translation.
 */
static void flush_expect(struct roami_node *node, uint32_t page, unsigned home)
{
	const struct roami_page *entry = roami_page_entry(node, page);
	const uint8_t *bytes = roami_page_bytes(node, page),
		      *twin = roami_twin_bytes(node, entry->twin);

	__builtin_prefetch(node->segments[home].heap + (size_t)page * ROAMI_PAGE);
	for (size_t at = 0; at < FLUSH_AHEAD; at += 64) {
		__builtin_prefetch(bytes + at);
		__builtin_prefetch(twin + at);
	}
}

/* Whether diffs go straight into a home's memory; a check for races is the home's to make. */
static bool flush_near(const struct roami_node *node, unsigned home)
{
	return roami_near(node, home) && !roami_race_checked(node);
}

/* Whether a diff that goes by message holds its home, lest that be taken meanwhile. */
static bool flush_holds(struct roami_node *node, unsigned home)
{
	return flush_near(node, home) && roami_homes_here(node) == ROAM_HOMES_TAKEN;
}

/*
 * Homes that may be taken are held for as long as it takes; false: this one is elsewhere, or it has
 * a twin that the diff must go into, too: then it is held until the message is answered.
 */
static bool flush_enter(struct roami_node *node, struct roam_dirty *dirty, unsigned home)
{
	const uint32_t twinned = ROAMI_HEADER_OPEN | ROAMI_HEADER_TWIN;
	struct roami_header *header;

	dirty->moved = false;
	dirty->asks = !dirty->home && !flush_near(node, home);
	if (dirty->home || dirty->asks || roami_homes_here(node) != ROAM_HOMES_TAKEN)
		return !dirty->home && !dirty->asks;
	header = &node->segments[home].headers[dirty->page];
	dirty->moved = !roami_home_enter(node, header);
	if (dirty->moved || (atomic_load(&header->where) & twinned) != twinned)
		return !dirty->moved;
	dirty->asks = true;
	return false;
}

static uint64_t flush_leave(struct roami_node *node, const struct roam_dirty *dirty, unsigned home)
{
	struct roami_header *header = &node->segments[home].headers[dirty->page];

	roami_step(node);
	if (roami_homes_here(node) == ROAM_HOMES_TAKEN)
		return roami_home_leave(header, dirty->changed);
	return dirty->changed ? atomic_fetch_add(&header->version, 1) + 1 : 0;
}

/*
 * All bytes first, then all versions (rule 6.3): a version is a locked instruction, which waits
 * for the stores before it.
 */
static void flush_direct(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
			 size_t count)
{
	size_t bytes = 0, changed = 0, same = 0;

	for (size_t i = 0; i < count; i++) {
		if (i + 2 < count && !dirty[i + 2].home && flush_near(node, homes[i + 2]))
			flush_expect(node, dirty[i + 2].page, homes[i + 2]);
		if (!flush_enter(node, &dirty[i], homes[i]))
			continue;
		bytes += flush_bytes(node, &dirty[i], homes[i]);
		changed += dirty[i].changed;
		same += !dirty[i].changed;
	}
	for (size_t i = 0; i < count; i++)
		if (!dirty[i].home && !dirty[i].moved && !dirty[i].asks)
			dirty[i].version = flush_leave(node, &dirty[i], homes[i]);
	ROAMI_COUNT(node->stats, diffs_empty, same);
	ROAMI_COUNT(node->stats, diffs, changed);
	ROAMI_COUNT(node->stats, diff_bytes, bytes);
	ROAMI_COUNT(node->stats, bytes_sent, bytes);
}

bool roami_flush_pinned(struct roami_node *node, struct roam_dirty *dirty, unsigned home)
{
	struct roami_header *header = &node->segments[home].headers[dirty->page];
	size_t bytes;
	uint32_t where;

	roami_assert(roami_homes_here(node) == ROAM_HOMES_MOVING);
	if (!flush_near(node, home))
		return false;
	where = atomic_load(&header->where);
	if ((where & ROAM_HEADER_HOME) == 0 || (where & ROAMI_HEADER_PINNED) != 0 ||
	    !atomic_compare_exchange_strong(&header->where, &where, where | ROAMI_HEADER_PINNED))
		return false;
	roami_step(node);
	bytes = flush_bytes(node, dirty, home);
	if (dirty->changed)
		dirty->version = atomic_fetch_add(&header->version, 1) + 1;
	atomic_fetch_and(&header->where, ~ROAMI_HEADER_PINNED);
	ROAMI_COUNT(node->stats, diffs_empty, !dirty->changed);
	ROAMI_COUNT(node->stats, diffs, dirty->changed);
	ROAMI_COUNT(node->stats, diff_bytes, bytes);
	ROAMI_COUNT(node->stats, bytes_sent, bytes);
	return true;
}

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

/* Patches an existing twin too: what another node wrote must not look like ours (rule 1.5). */
static bool diff_apply(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes)
{
	struct roami_page *entry = roami_page_entry(node, page);
	bool good;

	roami_page_lock(node, page);
	good = node->diff->apply(roami_page_bytes(node, page),
				 entry->twin != 0 ? roami_twin_bytes(node, entry->twin) : NULL,
				 diff, bytes);
	roami_page_unlock(node, page);
	return good;
}

/* Applies the diff at this home; the version it made, 0: the home was taken. */
static uint64_t diffs_count(struct roami_node *node, const struct roam_request *request,
			    uint32_t page, const uint8_t *diff, size_t bytes)
{
	struct roami_header *header = &node->self->headers[page];
	bool taken = roami_homes_of(node, page) == ROAM_HOMES_TAKEN;

	if (taken && !roami_home_enter(node, header))
		return 0;
	if (!diff_apply(node, page, diff, bytes))
		roami_node_fail(node, "node %u sent a malformed diff", request->from);
	ROAMI_COUNT(node->stats, diffs_applied, 1);
	roami_assert(atomic_load(&header->where) & ROAM_HEADER_HOME);
	return taken ? roami_home_leave(header, true) : atomic_fetch_add(&header->version, 1) + 1;
}

static void diffs_handle(struct roami_node *node, const struct roam_request *request)
{
	const uint8_t *at = request->data, *end = at + request->bytes;
	struct roami_slab *room = roami_node_slab(node);
	uint64_t *versions = (void *)room->bytes;
	struct roam_part part = {versions, 0};
	struct roami_vclock clock;
	struct roami_synced since = {0, ROAMI_SYNCED_NOT};
	size_t count = 0, clock_bytes;

	if (roami_race_checked(node))
		memset(&clock, 0, sizeof(clock));
	clock_bytes = roami_vclock_decode(&clock, node->nodes, at, request->bytes);
	if (clock_bytes == 0)
		roami_node_fail(node, "node %u sent malformed diffs", request->from);
	at += clock_bytes;
	if (roami_race_checked(node)) {
		if (sizeof(since) > (size_t)(end - at))
			roami_node_fail(node, "node %u sent malformed diffs", request->from);
		memcpy(&since, at, sizeof(since));
		at += sizeof(since);
	}
	while (at < end) {
		struct flush_item item;

		if ((size_t)(end - at) < sizeof(item))
			roami_node_fail(node, "node %u sent malformed diffs", request->from);
		memcpy(&item, at, sizeof(item));
		at += sizeof(item);
		if (item.page >= node->layout.pages || item.bytes > (size_t)(end - at) ||
		    count == BATCH_PAGES)
			roami_node_fail(node, "node %u sent a malformed diff", request->from);
		versions[count++] = diffs_count(node, request, item.page, at, item.bytes);
		if (roami_race_checked(node)) {
			roami_page_lock(node, item.page);
			roami_race_note(node, item.page, request->origin, &clock, &since, at,
					item.bytes);
			roami_page_unlock(node, item.page);
		}
		at += (item.bytes + 7u) & ~7u;
		roami_step(node);
	}
	part.bytes = count * sizeof(versions[0]);
	roami_reply(node, request, &part, 1);
	roami_slab_give(room);
}

static uint32_t flush_encode(struct roami_node *node, uint8_t *out, uint32_t page, uint8_t *twin,
			     bool keep)
{
	const uint8_t *bytes = roami_page_bytes(node, page);

	roami_step(node);
	if (keep)
		return (uint32_t)node->diff->encode_sticky(out, bytes, twin, ROAMI_PAGE);
	return (uint32_t)node->diff->encode(out, bytes, twin, ROAMI_PAGE);
}

/* Adds a page's diff to a batch; bytes used.  *count: pages that have changed. */
static size_t flush_item(struct roami_node *node, struct roam_dirty *dirty, bool stays,
			 uint8_t *batch, size_t *count)
{
	struct flush_item item = {dirty->page, 0};
	uint8_t *twin = roami_twin_bytes(node, roami_page_entry(node, item.page)->twin);

	if (dirty->keep && !stays) {
		/* Its home may be gone: then the twin must be as it was. */
		roami_page_close(node, &item.page, 1, ROAM_READ);
		dirty->keep = false;
	}
	item.bytes = flush_encode(node, batch + sizeof(item), item.page, twin, dirty->keep);
	dirty->changed = item.bytes != 0;
	if (item.bytes == 0) {
		ROAMI_COUNT(node->stats, diffs_empty, 1);
		return 0;
	}
	memcpy(batch, &item, sizeof(item));
	ROAMI_COUNT(node->stats, diffs, 1);
	ROAMI_COUNT(node->stats, diff_bytes, item.bytes);
	(*count)++;
	return sizeof(item) + ((item.bytes + 7u) & ~7u);
}

uint64_t roami_home_apply(struct roami_node *node, unsigned from, uint32_t page, const void *diff,
			  size_t bytes)
{
	if (bytes > 0 && !diff_apply(node, page, diff, bytes))
		roami_node_fail(node, "node %u sent a malformed diff", from);
	ROAMI_COUNT(node->stats, diffs_applied, 1);
	return atomic_fetch_add(&node->self->headers[page].version, 1) + 1;
}

/* Batches under way. */
#define FLUSH_CALLS 16u

struct flush_call {
	struct roami_call *call; /* NULL: nothing has changed */
	unsigned home;
	size_t first, end;  /* among the dirty pages */
	uint64_t *versions; /* of those that changed */
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

	if (call->call != NULL && roami_msg_call_end(node, call->call) !=
					  call->count * sizeof(call->versions[0]))
		roami_node_fail(node, "node %u has not taken all diffs", call->home);
	for (size_t i = call->first; i < call->end; i++) {
		struct roam_dirty *dirty = &flush->dirty[i];

		if (flush->homes[i] != call->home || !dirty->asks)
			continue;
		if (dirty->changed) {
			dirty->version = call->versions[answered++];
			dirty->moved = dirty->version == 0;
		}
		if (flush_holds(node, call->home))
			roami_home_leave(&node->segments[call->home].headers[dirty->page], false);
	}
}

/* Sends one batch of diffs for `home`, of pages from `from` on; the index behind the last one. */
static size_t flush_batch(struct roami_node *node, struct flush *flush, size_t from, unsigned home)
{
	struct roami_slab *room;
	struct flush_call *call;
	size_t used = 0, at = from;
	struct roami_vclock clock;
	bool stays = roami_homes_here(node) != ROAM_HOMES_TAKEN || flush_holds(node, home);
	struct roami_vclock_wire wire;
	struct roami_synced since;
	struct roam_part parts[3] = {{&wire, sizeof(wire.mask)}, {&since, 0}, {NULL, 0}};

	if (flush->begun - flush->ended == FLUSH_CALLS)
		flush_await(node, flush);
	room = roami_node_slab(node);
	parts[2].data = room->bytes;
	call = &flush->calls[flush->begun++ % FLUSH_CALLS];
	*call = (struct flush_call){.home = home,
				    .first = from,
				    .versions = flush->versions + flush->versions_used};
	for (; at < flush->count &&
	       used + ROAMI_DIFF_BYTES_MAX + sizeof(struct flush_item) < BATCH_BYTES;
	     at++)
		if (flush->homes[at] == home && flush->dirty[at].asks)
			used += flush_item(node, &flush->dirty[at], stays, room->bytes + used,
					   &call->count);
	call->end = at;
	flush->versions_used += call->count;
	parts[2].bytes = used;
	wire.mask = 0;
	if (roami_race_checked(node)) {
		roami_log_clock(node, &clock);
		parts[0].bytes = roami_vclock_encode(&clock, NULL, node->nodes, &wire);
		since = roami_race_since(node);
		parts[1].bytes = sizeof(since);
	}
	if (used > 0)
		call->call = roami_msg_call_start(
			node, home, ROAMI_TYPE_MEMORY + ROAMI_MEMORY_DIFFS, parts, 3,
			call->versions, call->count * sizeof(call->versions[0]));
	roami_slab_give(room);
	return at;
}

/* Diffs that travel: batch after batch, to all homes at the same time. */
static void flush_far(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		      size_t count)
{
	struct flush flush = {.dirty = dirty, .homes = homes, .count = count};
	uint64_t wanted = 0;

	for (size_t i = 0; i < count; i++)
		if (dirty[i].asks)
			wanted |= roami_nodeset_bit(homes[i]);
	for (; wanted != 0; wanted &= wanted - 1)
		for (size_t at = 0; at < count;)
			at = flush_batch(node, &flush, at, (unsigned)__builtin_ctzll(wanted));
	while (flush.ended < flush.begun)
		flush_await(node, &flush);
}

void roami_flush(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		 size_t count)
{
	bool asks = false;

	flush_direct(node, dirty, homes, count);
	for (size_t i = 0; i < count; i++)
		asks |= dirty[i].asks;
	if (!asks)
		return;
	roami_wait_begin(node);
	while (count > 0) {
		size_t some = count < FLUSH_PAGES ? count : FLUSH_PAGES;

		flush_far(node, dirty, homes, some);
		dirty += some;
		homes += some;
		count -= some;
	}
	roami_wait_end(node);
}

const struct roam_message roami_memory_messages[] = {
	[ROAMI_MEMORY_WORD] = {"word", word_handle, sizeof(struct word_op)},
	[ROAMI_MEMORY_FETCH] = {"fetch", roami_fetch_handle, 8},
	[ROAMI_MEMORY_RAW] = {"raw", roami_raw_handle, 8},
	[ROAMI_MEMORY_MARKS] = {"marks", roami_marks_handle, 8},
	[ROAMI_MEMORY_DIFFS] = {"diffs", diffs_handle, ROAMI_MSG_MAX},
	[ROAMI_MEMORY_ADOPT] = {"adopt", adopt_handle, 8 + ROAM_PAGE_SIZE},
	[ROAMI_MEMORY_FREE] = {"free", roami_free_handle, sizeof(struct roami_remote_free)},
	[ROAMI_MEMORY_PARTS] = {"parts", roami_parts_handle, 1024},
	[ROAMI_MEMORY_PLACE] = {"place", roami_place_handle, sizeof(struct roami_place)},
	[ROAMI_MEMORY_CLAIM] = {"claim", roami_claim_handle, 16},
	[ROAMI_MEMORY_CLAIMS] = {"claims", roami_claims_handle, 16},
	[ROAMI_MEMORY_PUBLISH] = {"publish", roami_publish_handle, 16},
	[ROAMI_MEMORY_WORDS] = {"words", roami_words_handle, 8},
	[ROAMI_MEMORY_TAKE] = {"take", roami_take_handle, 16},
	[ROAMI_MEMORY_BLOCK] = {"block", roami_block_handle, ROAMI_BLOCK_BYTES},
	[ROAMI_MEMORY_TYPES] = {NULL, NULL, 0},
};
