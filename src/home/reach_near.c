/* Peers reached by loads and stores in their segments: see reach.h. */
#include "base/marks.h"
#include "base/region.h"
#include "home/reach.h"
#include "home/remote.h"
#include "page/page.h"

/* ----------------------------------------------------------------------------- directory words */

uint64_t roami_word_apply(struct roami_node *node, unsigned manager,
			  const struct roami_word_op *op)
{
	_Atomic uint64_t *word = &node->segments[manager].directory[op->page];
	uint64_t found = op->from;

	roami_contract(op->page < node->layout.pages);
	roami_contract(node->segments[manager].base != NULL);
	if (!op->swap)
		return atomic_load(word);
	atomic_compare_exchange_strong(word, &found, op->to);
	return found;
}

static void near_words(struct roami_node *node, unsigned manager, uint32_t first, uint32_t count,
		       uint64_t *words)
{
	roami_assert(first < node->layout.pages && count <= node->layout.pages - first);
	for (uint32_t i = 0; i < count; i++)
		words[i] = atomic_load(&node->segments[manager].directory[first + i]);
}

/* --------------------------------------------------------------------------------------- homes */

static uint64_t near_look(struct roami_node *node, uint32_t page)
{
	uint64_t word = roami_word_load(node, page);

	roami_word_learned(node, page, word);
	return word;
}

/*
 * Looks before it claims: the caller claims by compare-and-swap (claim_try) if the page has no
 * home.
 */
static uint64_t near_claim(struct roami_node *node, uint32_t page, bool first, bool *claimed_p)
{
	roami_contract_pending(node, page);
	(void)first;
	*claimed_p = false;
	return near_look(node, page);
}

static bool near_block_begins(struct roami_node *node, unsigned manager, uint32_t page)
{
	roami_contract(page < node->layout.pages);
	return (atomic_load(&node->segments[manager].headers[page].where) & ROAMI_HEADER_BLOCK) !=
	       0;
}

/*
 * Whether a claim run may continue to `page`, which no node has touched.  If so, the page is
 * pending and claimed on return.
 */
static bool near_claim_more(struct roami_node *node, uint32_t page)
{
	roami_contract(page < node->layout.pages);
	if (roami_page_access(node, page) != ROAM_NONE ||
	    roami_word_load(node, page) != ROAMI_WORD_CREATOR || !roami_page_try(node, page))
		return false;
	if (roami_word_swap(node, page, ROAMI_WORD_CREATOR, ROAMI_WORD_CLAIMED | node->me) ==
	    ROAMI_WORD_CREATOR)
		return true;
	roami_page_done(node, page);
	return false;
}

static uint32_t near_claim_run(struct roami_node *node, uint32_t page, int32_t stride,
			       uint32_t most)
{
	uint32_t count = 0;

	roami_contract_pending(node, page);
	roami_contract(most < ROAMI_CLAIM_RUN);
	for (uint32_t last = page; count < most; count++) {
		int64_t next = (int64_t)last + stride;

		if (!roami_claim_goes_on(node, page, next) ||
		    !roami_claim_same_block(node, last, (uint32_t)next) ||
		    !near_claim_more(node, (uint32_t)next))
			break;
		last = (uint32_t)next;
	}
	return count;
}

void roami_publish_words(struct roami_node *node, unsigned home, const struct roami_publish *run)
{
	roami_assert(home < node->nodes && run->count <= ROAMI_CLAIM_RUN);
	for (uint32_t i = 0; i < run->count; i++) {
		uint32_t page = run->first + i * (uint32_t)run->stride;

		if (roami_word_swap(node, page, ROAMI_WORD_CLAIMED | home,
				    ROAMI_WORD_READY | home) != (ROAMI_WORD_CLAIMED | home))
			roami_node_fail(node, "page %u: its directory word changed while claimed",
					page);
	}
}

static void near_publish(struct roami_node *node, unsigned manager, const struct roami_publish *run)
{
	(void)manager;
	roami_publish_words(node, node->me, run);
}

/* --------------------------------------------------------------------------------------- pages */

static void near_fetch_one(struct roami_node *node, struct roam_fetch_one *one, uint8_t *to)
{
	bool stays = roami_homes_of(node, one->page) == ROAM_HOMES_FIXED;

	roami_contract_pending(node, one->page);
	roami_contract(one->home != node->me);
	for (unsigned turn = 0;
	     (one->result = roami_fetch_mapped(node, one->home, one->page, to, &one->version)) ==
		     ROAM_FETCH_NOT_HOME &&
	     stays;
	     turn++) { /* claimed at a far manager, and not yet published */
		roami_msg_pause(node, turn);
	}
	if (one->result <= ROAM_FETCH_OPEN)
		ROAMI_COUNT(node->stats, bytes_fetched, ROAMI_PAGE);
	else if (to == roami_page_bytes(node, one->page))
		roami_page_unmap(node, one->page);
}

static void near_fetch(struct roami_node *node, const struct roami_reach *reach,
		       struct roami_fetches *fetches)
{
	for (unsigned i = 0; i < fetches->count; i++)
		if (node->reach[fetches->list[i].home] == reach)
			near_fetch_one(node, &fetches->list[i],
				       fetches->aside != NULL
					       ? fetches->aside + i * ROAMI_PAGE
					       : roami_page_bytes(node, fetches->list[i].page));
}

/* ------------------------------------------------------------------------------------- flushes */

#define STEP_BYTES  512u
#define FLUSH_AHEAD 1024u /* bytes */

/* Stores the changed bytes directly into the home's page; returns how many. */
static size_t flush_put(struct roami_node *node, uint8_t *to, const uint8_t *from, uint8_t *twin,
			bool keep)
{
	size_t changed = 0, step = node->env->step == NULL ? ROAMI_PAGE : STEP_BYTES;
	const struct roami_diff_ops *diff = pages_of(node)->diff;

	for (size_t at = 0; at < ROAMI_PAGE; at += step) {
		if (keep)
			changed += diff->put_sticky(to + at, from + at, twin + at, step);
		else
			changed += diff->put(to + at, from + at, twin + at, step);
		roami_step(node);
	}
	return changed;
}

/* Stores the changed bytes of one page; its version is still to be incremented. */
static size_t flush_bytes(struct roami_node *node, struct roam_dirty *dirty, unsigned home)
{
	struct roami_page *entry = roami_page_entry(node, dirty->page);
	struct roami_segment *there = &node->segments[home];
	size_t changed;

	roami_contract_pending(node, dirty->page);
	roami_contract(!dirty->home && home != node->me);
	roami_assert(entry->twin != 0);
	__builtin_prefetch(&there->headers[dirty->page].version, 1);
	roami_diff_count_runs(node, dirty->page);
	changed = flush_put(node, there->heap + (size_t)dirty->page * ROAMI_PAGE,
			    roami_page_bytes(node, dirty->page),
			    roami_twin_bytes(node, entry->twin), dirty->keep);
	dirty->changed = changed != 0;
	return changed;
}

/*
 * Prefetches the first lines of a page that is compared soon, and one line of the home's page for
 * its address translation.
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

/*
 * Holds a home that may be taken in place while the diff is stored.  false: the home is elsewhere,
 * or it has a twin that the diff must go into, too: then it is held until the message is answered.
 */
static bool flush_enter(struct roami_node *node, const struct roami_reach *reach,
			struct roam_dirty *dirty, unsigned home)
{
	const uint32_t twinned = ROAMI_HEADER_OPEN | ROAMI_HEADER_TWIN;
	struct roami_header *header;

	roami_contract_pending(node, dirty->page);
	dirty->moved = false;
	dirty->asks = false;
	if (dirty->home || node->reach[home] != reach)
		return false;
	if (roami_homes_here(node) != ROAM_HOMES_TAKEN)
		return true;
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
static size_t near_flush(struct roami_node *node, const struct roami_reach *reach,
			 struct roam_dirty *dirty, const uint16_t *homes, size_t count)
{
	size_t bytes = 0, changed = 0, same = 0, asks = 0;

	for (size_t i = 0; i < count; i++) {
		if (i + 2 < count && !dirty[i + 2].home && node->reach[homes[i + 2]] == reach)
			flush_expect(node, dirty[i + 2].page, homes[i + 2]);
		if (!flush_enter(node, reach, &dirty[i], homes[i])) {
			asks += dirty[i].asks;
			continue;
		}
		bytes += flush_bytes(node, &dirty[i], homes[i]);
		changed += dirty[i].changed;
		same += !dirty[i].changed;
	}
	for (size_t i = 0; i < count; i++)
		if (!dirty[i].home && !dirty[i].moved && !dirty[i].asks &&
		    node->reach[homes[i]] == reach)
			dirty[i].version = flush_leave(node, &dirty[i], homes[i]);
	ROAMI_COUNT(node->stats, diffs_empty, same);
	ROAMI_COUNT(node->stats, diffs, changed);
	ROAMI_COUNT(node->stats, diff_bytes, bytes);
	ROAMI_COUNT(node->stats, bytes_sent, bytes);
	return asks;
}

static bool near_flush_pinned(struct roami_node *node, struct roam_dirty *dirty, unsigned home)
{
	struct roami_header *header = &node->segments[home].headers[dirty->page];
	size_t bytes;
	uint32_t where = atomic_load(&header->where);

	roami_contract(roami_homes_move(roami_region_current(node)->protocol) && home != node->me);
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

static void near_adopt(struct roami_node *node, unsigned home, uint32_t page,
		       const uint8_t *bytes)
{
	roami_assert(home != node->me && page < node->layout.pages);
	if (bytes != NULL)
		roami_page_copy(node, node->segments[home].heap + (size_t)page * ROAMI_PAGE, bytes);
	roami_adopt_header(node, &node->segments[home].headers[page]);
}

static uint32_t near_take(struct roami_node *node, unsigned home, const struct roami_take *take)
{
	roami_assert(home != node->me && take->page < node->layout.pages);
	return roami_take_yield(node, &node->segments[home].headers[take->page], take->have);
}

static uint32_t near_where(const struct roami_node *node, unsigned home, uint32_t page)
{
	roami_contract(page < node->layout.pages);
	return atomic_load(&node->segments[home].headers[page].where);
}

static void near_creator_copy(struct roami_node *node, struct roami_query *asks, unsigned count)
{
	roami_assert(count <= ROAMI_CALLS_AT_ONCE);
	for (unsigned i = 0; i < count; i++)
		roami_page_copy(node, asks[i].page,
				node->segments[0].heap + asks[i].what * ROAMI_PAGE);
	ROAMI_COUNT(node->stats, bytes_fetched, count * ROAMI_PAGE);
}

static void near_parts(struct roami_node *node, const struct roami_parts_ask *ask,
		       const struct roami_vclock *clock, struct roami_parts_answer *answer)
{
	roami_parts_apply(node, node->me, ask, clock, answer);
}

static void near_place(struct roami_node *node, unsigned manager,
		       const struct roami_placement *place)
{
	roami_contract(node->segments[manager].base != NULL);
	roami_placement_words(&node->segments[manager], node->layout.pages, manager, node->nodes,
			      place);
}

static struct roami_call *near_tell(struct roami_node *node, unsigned peer, unsigned type,
				    const struct roam_part *part, bool at_once)
{
	(void)node, (void)peer, (void)type, (void)part, (void)at_once;
	return NULL;
}

/* ------------------------------------------------------------------------------------- answers */

static uint8_t *near_answer_buffer(struct roami_node *node, unsigned asker, uint32_t page,
				   uint8_t *spare)
{
	uint8_t *buffer = node->segments[asker].heap + (size_t)page * ROAMI_PAGE;

	roami_contract(page < node->layout.pages);
	(void)spare;
	/*
	 * Maps the page if it is not mapped yet: a read maps its neighbours too, a write does not.
	 */
	(void)*(const volatile uint8_t *)buffer;
	return buffer;
}

/* ------------------------------------------------------------------------------------- objects */

static void near_objects_set(struct roami_node *node, unsigned peer, uint32_t page, uint64_t bits,
			     bool announced, unsigned type)
{
	roami_contract(page < node->layout.pages);
	(void)announced, (void)type;
	atomic_fetch_or(&node->segments[peer].objects[page], bits);
}

static void near_objects_clear(struct roami_node *node, unsigned peer, uint32_t page,
			       uint64_t bits)
{
	roami_contract(page < node->layout.pages);
	atomic_fetch_and(&node->segments[peer].objects[page], ~bits);
}

static bool near_block_unmark(struct roami_node *node, unsigned peer, uint64_t offset,
			      unsigned type)
{
	(void)type;
	return roami_marks_take(&node->segments[peer], offset);
}

/* ------------------------------------------------------------------------------- the constants */

#define NEAR                                                                                     \
	.word = roami_word_apply, .words = near_words, .look = near_look, .claim = near_claim,   \
	.claim_run = near_claim_run, .block_begins = near_block_begins, .publish = near_publish, \
	.fetch = near_fetch, .adopt = near_adopt, .take = near_take, .where = near_where,        \
	.post_read = roami_near_post_read, .creator_has = roami_near_creator_has,                \
	.creator_copy = near_creator_copy, .parts = near_parts, .place = near_place,             \
	.tell = near_tell, .answers = {ROAMI_ANSWER_LEFT, ROAMI_ANSWER_PUT, near_answer_buffer}, \
	.objects_set = near_objects_set, .objects_clear = near_objects_clear,                    \
	.block_unmark = near_block_unmark

const struct roami_reach roami_reach_near = {
	.name = "near",
	NEAR,
	.flush = near_flush,
	.flush_holds = true,
	.flush_pinned = near_flush_pinned,
};

const struct roami_reach roami_reach_checked = {
	.name = "near, checked for races",
	NEAR,
	.flush = roami_far_flush,
	.flush_pinned = roami_far_flush_pinned,
};

void roami_words_ended(struct roami_node *node, uint32_t first, uint32_t count, uint64_t *words)
{
	unsigned manager = roami_manager(node, first);

	if (node->segments[manager].base != NULL)
		near_words(node, manager, first, count, words);
	else
		node->reach[manager]->words(node, manager, first, count, words);
}
