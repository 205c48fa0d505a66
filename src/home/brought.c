/* Diffs that a card writes into pages at their homes: see brought.h. */
#include "home/brought.h"

#include <string.h>

#include "base/layers.h"
#include "base/region.h"
#include "home/reach.h"
#include "page/diff.h"
#include "page/page.h"
#include "page/race.h"

/* ------------------------------------------------------------------------------- at the writer */

bool roami_brought_may(struct roami_node *node, unsigned home)
{
	const struct roam_onesided *onesided = layers_of(node)->onesided;

	roami_assert(home < node->nodes);
	return node->reach[home]->cards && node->options->card_segments != 0 &&
	       onesided->put != NULL &&
	       (roami_region_current(node)->protocol->one_sided & ROAM_ONE_SIDED_WRITE) != 0;
}

/* Adds neighbouring bytes; false: there is no room.  No stretch has bytes of two pages. */
static bool brought_bytes(struct roami_brought *brought, uint64_t to, const uint8_t *from,
			 size_t bytes)
{
	struct roam_put *last = brought->puts > 0 ? &brought->put[brought->puts - 1] : NULL;

	if (bytes > ROAMI_BROUGHT_BYTES - brought->bytes)
		return false;
	if (last == NULL || to % ROAMI_PAGE == 0 || last->to + last->bytes != to) {
		if (brought->puts == ROAMI_BROUGHT_PUTS)
			return false;
		last = &brought->put[brought->puts++];
		*last = (struct roam_put){to, brought->data + brought->bytes, 0};
	}
	memcpy(brought->data + brought->bytes, from, bytes);
	brought->bytes += bytes;
	last->bytes += bytes;
	return true;
}

/* Adds the changed bytes of a line, and not one beside them; they lie one after the other. */
static bool brought_line(struct roami_brought *brought, uint64_t to, const uint8_t *from,
			uint64_t mask)
{
	while (mask != 0) {
		unsigned at = (unsigned)__builtin_ctzll(mask);
		uint64_t rest = ~(mask >> at);
		unsigned count = rest == 0 ? 64 : (unsigned)__builtin_ctzll(rest);

		if (!brought_bytes(brought, to + at, from, count))
			return false;
		from += count;
		mask = at + count < 64 ? mask >> (at + count) << (at + count) : 0;
	}
	return true;
}

enum roami_brought_add roami_brought_add(struct roami_node *node, struct roami_brought *brought,
				       uint32_t page, const uint8_t *diff, size_t bytes)
{
	uint64_t to = page * (uint64_t)ROAMI_PAGE, stretch = layers_of(node)->onesided->put_stretch;
	unsigned puts = brought->puts;
	size_t used = brought->bytes;
	struct roami_diff_lines lines;
	bool fits = true;

	roami_contract_pending(node, page);
	if (brought->puts > 0 && brought->put[0].to / stretch != to / stretch)
		return ROAMI_BROUGHT_FULL;
	if (!roami_diff_parse(&lines, diff, bytes))
		roami_node_fail(node, "a diff of its own is malformed");
	for (unsigned i = 0; i < lines.count && fits; i++)
		fits = brought_line(brought, to + lines.line[i] * ROAMI_DIFF_LINE_BYTES,
				   diff + lines.body[i], lines.mask[i]);
	if (fits && brought->puts - puts <= node->options->card_segments) {
		brought->page[brought->pages++] = page;
		return ROAMI_BROUGHT_ADDED;
	}
	brought->puts = puts;
	brought->bytes = used;
	return fits || puts == 0 ? ROAMI_BROUGHT_NOT : ROAMI_BROUGHT_FULL;
}

struct roami_call *roami_brought_start(struct roami_node *node, const struct roami_brought *brought,
				      uint64_t *versions)
{
	struct roam_part part = {brought->page, brought->pages * sizeof(brought->page[0])};
	struct roami_call *call;

	roami_contract(brought->pages > 0 && brought->home != node->me);
	call = roami_msg_call_put(node, brought->home,
				  roami_type(node, ROAMI_ROOM_FLUSH, ROAMI_FLUSH_WRITTEN),
				  brought->put, brought->puts, &part, versions,
				  brought->pages * sizeof(versions[0]));
	if (call != NULL) {
		ROAMI_COUNT(node->stats, card_diffs, brought->pages);
		ROAMI_COUNT(node->stats, card_segments, brought->puts);
		ROAMI_COUNT(node->stats, bytes_sent, brought->bytes);
	}
	return call;
}

/* --------------------------------------------------------------------------------- at the home */

/*
 * The bytes are in the page.  A twin would take them for this node's own (rule 1.5), and a check
 * for races would miss them: homes of such protocols have no twins, and with checks nothing is
 * written so.
 */
static uint64_t brought_count(struct roami_node *node, unsigned from, uint32_t page)
{
	struct roami_header *header;

	if (page >= node->layout.pages ||
	    (roami_region_of(node, page)->protocol->one_sided & ROAM_ONE_SIDED_WRITE) == 0)
		roami_node_fail(node, "node %u: malformed diff by a card", from);
	header = &node->self->headers[page];
	roami_assert((atomic_load(&header->where) & ROAM_HEADER_HOME) != 0 &&
		     roami_page_entry(node, page)->twin == 0 && !roami_race_checked(node));
	ROAMI_COUNT(node->stats, diffs_applied, 1);
	return atomic_fetch_add(&header->version, 1) + 1;
}

void roami_brought_handle(struct roami_node *node, const struct roam_request *request)
{
	uint64_t versions[ROAMI_BROUGHT_PUTS];
	size_t count = request->bytes / sizeof(uint32_t);
	struct roam_part part = {versions, count * sizeof(versions[0])};
	const uint32_t *pages = request->data;

	if (count == 0 || count > ROAMI_BROUGHT_PUTS || request->bytes % sizeof(uint32_t) != 0)
		roami_node_fail(node, "node %u: malformed diff by a card", request->from);
	for (size_t i = 0; i < count; i++)
		versions[i] = brought_count(node, request->from, pages[i]);
	roami_reply(node, request, &part, 1);
}
