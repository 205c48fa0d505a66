/*
 * hlrc: home-based lazy release consistency.
 *
 * Paper: Rangarajan and Iftode, Software Distributed Shared Memory over Virtual Interface
 * Architecture (2000), after Zhou, Iftode and Li, Performance Evaluation of Two Home-Based Lazy
 * Release Consistency Protocols (1996).
 *
 * Idea.  Every page has a home with the master copy.  Time at a node is cut into intervals, by its
 * releases.  The first write to a copy makes a twin; at the release the bytes that differ from the
 * twin, the diff, go to the home at once, and the interval's write notices name the pages.  Notices
 * travel with locks and barriers; a node that acquires drops the copies that they name, and fetches
 * them whole from the homes when it touches them again.  No diff is kept, so there is nothing to
 * collect.
 *
 * Page states: invalid -> copy -> invalid at other nodes; invalid -> master at the home, for good;
 * invalid -> provisional page -> master or copy for a page that is written before it has a home
 * (home_provisional.c).  Whether a copy is dirty is the core's business (write detection).
 *
 * Messages: none of its own.  Fetches and diffs are the core's (one-sided where memory is shared),
 * notices ride on the legs of synchronisation.
 *
 * Differences from the paper, and why:
 * - One version per page instead of a vector of timestamps: a notice leaves its writer only after
 *   the home has applied the diff and answered with the version, so a fetch begun after the notice
 *   always finds it (rule 6.1).  No request waits at the home.
 * - The home needs no twin, and no detection of its writes while no other node has a copy (rule
 *   6.7).
 * - Pages written in every interval stay writable and are compared at each release (rule 1.6):
 *   invisible here.
 * - A copy that this node writes in every interval is not dropped at an acquire: bytes that the
 *   home has and its twin lacks are patched in, and it stays open (home_refresh.c).  A write opens
 *   the pages behind it, too, if as many before it are open for writing (home_run.c).
 * - Where nodes have cards that read each other's memory, a copy is one READ, past the home, after
 *   a first fetch by message (rules 12).  The home then closes the page whenever it has written it.
 *   A diff of few stretches is written into the home's page by the card, and then told.
 * - Homes are claimed by the first node that touches the page after CREATE.
 */
#include "home.h"

static void hlrc_read_fault(struct roami_node *node, uint32_t page)
{
	if (!home_provisional(node, page))
		home_read_fault(node, page);
}

static void hlrc_release(struct roami_node *node, const struct roam_sync *sync,
			 struct roam_dirty *dirty, size_t count)
{
	home_publish_shared(node, sync, dirty, count);
	home_flush(node, sync, dirty, count);
}

static void hlrc_acquire(struct roami_node *node, const struct roam_sync *sync,
			 const struct roam_notice *notices, size_t count)
{
	home_refresh(node, notices, count);
	home_invalidate(node, sync, notices, count, home_flush);
}

const struct roam_protocol roami_protocol_hlrc = {
	.name = "hlrc",
	.paper = "home-based lazy release consistency; Rangarajan and Iftode 2000",
	.model = ROAM_MODEL_RC,
	.writes = ROAM_WRITES_DIFF,
	.checks_races = true,
	.homes = ROAM_HOMES_FIXED,
	.one_sided = ROAM_ONE_SIDED_READ_WRITE,
	.needed = home_needed,
	.page_size = sizeof(struct home_page),
	.states = home_states,
	.read_fault = hlrc_read_fault,
	.write_fault = home_write_row,
	.provisional = home_claim_provisional,
	.ahead = home_ahead,
	.release = hlrc_release,
	.acquire = hlrc_acquire,
	.evict = home_evict,
	.check = home_check,
};
