/*
 * jiajia1: home-based scope consistency, as JIAJIA V1.1.
 *
 * Paper: Hu, Shi and Tang, A Lock-based Cache Coherence Protocol for Scope Consistency (1998); the
 * system that Cheung, Wang and Hwang, JUMP-DP, compare theirs with.
 *
 * Idea.  Every page has a fixed home with the master copy, as under hlrc.  What differs is which
 * nodes are told of a write.  A critical section is a scope: a node that acquires a lock sees what
 * was written in the earlier sections of that lock, and need not see what was written outside of
 * them.  So write notices belong to the lock in whose section the writes were: the lock's list
 * travels with its token and is emptied by full barriers, which tell every node everything.  A node
 * is told of fewer pages than under release consistency, drops fewer copies and fetches less.
 * Programs that use a lock to pass on writes made outside of its sections are wrong under it.
 *
 * Page states: as in hlrc; invalid -> copy -> invalid at other nodes, invalid -> master at home.
 *
 * Messages: none of its own.
 *
 * Differences from the paper, and why:
 * - A version per page tells a notice that is news from one that is not: a node that has fetched
 *   the page since keeps its copy, where JIAJIA drops all that the list names.
 * - Sections of the threads of one node are not told apart: a list may name a page that another
 *   thread of the node wrote meanwhile.  That write is seen earlier than need be, which does no
 *   harm.
 * - The home's own writes: once a page has been fetched by another node, it is read-only at its
 *   home after each release, so that each section's first write of it is seen and put into the
 *   lists. (hlrc leaves such pages open at times and gives notice later: under a transitive model a
 *   node that is told of a later interval is told of the earlier ones, too.)
 * - A page written without a change gets a notice too: the section may have written the values that
 *   its node wrote before it, which a diff does not show.
 * - jiajia1-rc is this file with release consistency: notices do not belong to locks, and reach
 *   every node that acquires, as hlrc's do.
 * - Homes are claimed by the first node that touches the page after CREATE, not in blocks.
 * - Cards read pages and write diffs under jiajia1-rc, as under hlrc (rules 12), but not under
 *   jiajia1: what a READ brings, or a fetch while a card writes, may be newer than the version that
 *   the copy counts as, and the notice of a page written without a change must not tell an older
 *   version than that of the bytes that were there.
 */
#include "home.h"

static void jiajia1_release(struct roami_node *node, const struct roam_sync *sync,
			    struct roam_dirty *dirty, size_t count)
{
	home_publish_shared(node, sync, dirty, count);
	home_flush(node, sync, dirty, count);
}

static void jiajia1_acquire(struct roami_node *node, const struct roam_sync *sync,
			    const struct roam_notice *notices, size_t count)
{
	home_invalidate(node, sync, notices, count, home_flush);
}

/* For both models: under -rc each synchronisation passes on all that a node knows. */
#define JIAJIA1_FIELDS					\
	.writes = ROAM_WRITES_DIFF,			\
	.closes_homes = true,				\
	.homes = ROAM_HOMES_FIXED,				\
	.page_size = sizeof(struct home_scoped_page),	\
	.states = home_states,				\
	.read_fault = home_read_fault,			\
	.ahead = home_ahead,				\
	.release = jiajia1_release,			\
	.acquire = jiajia1_acquire,			\
	.evict = home_evict,				\
	.check = home_check

const struct roam_protocol roami_protocol_jiajia1 = {
	.name = "jiajia1",
	.paper = "home-based scope consistency; Hu, Shi and Tang 1998",
	.model = ROAM_MODEL_SCC,
	JIAJIA1_FIELDS,
};

const struct roam_protocol roami_protocol_jiajia1_rc = {
	.name = "jiajia1-rc",
	.paper = "home-based, notices as under RC; after Hu, Shi and Tang 1998",
	.model = ROAM_MODEL_RC,
	.checks_races = true,
	.one_sided = ROAM_ONE_SIDED_READ_WRITE,
	.needed = home_needed,
	JIAJIA1_FIELDS,
};
