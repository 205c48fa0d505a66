/*
 * through: home-based write-through, the plainest protocol of many writers; for tests.
 *
 * Idea.  A page has a home for good.  What a node has written to a copy it sends to the home, as a
 * diff, at its next release.  An acquire drops the copies of all pages that there are notices of; a
 * fault copies the page from its home.  Versions play no part: a copy that is fetched after an
 * acquire has all that the acquire asks for, because diffs are at home before notices are given.
 *
 * Page states: invalid -> copy -> invalid at other nodes; invalid -> master at the home, for good.
 * Messages: none of its own.
 *
 * What keeps it right:
 * - Own pages that others have copied since the last release may have been written: each release
 *   closes them for writing and gives notice.
 * - A copy that is dropped goes home first, with a notice, if it was written.
 */
#include "roam/protocol_home.h"

#define SOME 64u

enum through_state { THROUGH_INVALID, THROUGH_COPY, THROUGH_MASTER };

/* -------------------------------------------------------------------------------------- faults */

static void through_read_fault(struct roami_node *node, uint32_t page)
{
	uint64_t version;
	bool claimed;
	unsigned home = roami_home_claim(node, page, &claimed);

	if (home != roami_me(node)) {
		if (roami_fetch(node, home, page, &version) != ROAM_FETCH_OK)
			roami_node_fail(node, "page %u is not at its home", page);
	} else {
		roami_page_set_home(node, page, true);
	}
	if (claimed)
		roami_home_publish(node, page, 1, 1, 1);
	roami_page_move(node, page, home == roami_me(node) ? THROUGH_MASTER : THROUGH_COPY);
	roami_page_open(node, page, 1, ROAM_READ);
}

/* ------------------------------------------------------------------------------------- release */

/* A page of this home was written, or may have been. */
static void through_tell(struct roami_node *node, uint32_t page)
{
	roami_home_unshare(node, page);
	roami_notice_add(node, page, roami_home_version_bump(node, page));
}

static void through_flush(struct roami_node *node, struct roam_dirty *dirty, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint16_t home = (uint16_t)roami_home_lookup(node, dirty[i].page);

		if (dirty[i].home) {
			through_tell(node, dirty[i].page);
			continue;
		}
		roami_flush(node, &dirty[i], &home, 1);
		if (dirty[i].changed)
			roami_notice_add(node, dirty[i].page, dirty[i].version);
	}
}

/* Dirty pages are pending, and the release gives notice of them anyway. */
static bool through_among(const struct roam_dirty *dirty, size_t count, uint32_t page)
{
	for (size_t i = 0; i < count; i++)
		if (dirty[i].page == page)
			return true;
	return false;
}

static void through_release(struct roami_node *node, const struct roam_sync *sync,
			    struct roam_dirty *dirty, size_t count)
{
	uint32_t pages[SOME];
	size_t some;

	(void)sync;
	do {
		some = roami_home_shared(node, pages, SOME);
		for (size_t i = 0; i < some; i++) {
			if (through_among(dirty, count, pages[i]))
				continue;
			roami_page_hold(node, pages[i]);
			roami_page_close(node, &pages[i], 1, ROAM_READ);
			through_tell(node, pages[i]);
			roami_page_done(node, pages[i]);
		}
	} while (some == SOME);
	through_flush(node, dirty, count);
}

/* ------------------------------------------------------------------------------------- acquire */

static void through_drop(struct roami_node *node, uint32_t page)
{
	struct roam_dirty dirty = {.page = page};

	if (roami_page_state(node, page) != THROUGH_COPY)
		return;
	roami_page_close(node, &page, 1, ROAM_NONE);
	if (roami_page_dirty(node, page))
		through_flush(node, &dirty, 1);
	roami_page_clean(node, page);
	roami_page_move(node, page, THROUGH_INVALID);
}

static void through_acquire(struct roami_node *node, const struct roam_sync *sync,
			    const struct roam_notice *notices, size_t count)
{
	(void)sync;
	for (size_t i = 0; i < count; i++) {
		if (i > 0 && notices[i].page == notices[i - 1].page)
			continue;
		roami_page_hold(node, notices[i].page); /* also while it is being fetched */
		through_drop(node, notices[i].page);
		roami_page_done(node, notices[i].page);
	}
}

static const struct roam_page_state through_states[] = {
	[THROUGH_INVALID] = {"invalid", 1u << THROUGH_COPY | 1u << THROUGH_MASTER},
	[THROUGH_COPY] = {"copy", 1u << THROUGH_INVALID},
	[THROUGH_MASTER] = {"master", 0},
	{NULL, 0},
};

const struct roam_protocol roami_protocol_through = {
	.name = "through",
	.paper = "home-based write-through; for tests",
	.model = ROAM_MODEL_RC,
	.writes = ROAM_WRITES_DIFF,
	.homes = ROAM_HOMES_FIXED,
	.states = through_states,
	.read_fault = through_read_fault,
	.release = through_release,
	.acquire = through_acquire,
};
