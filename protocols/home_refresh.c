/*
 * Copies that are brought up to date while they are open.  A page that this node and others write
 * in every interval would otherwise be dropped after every acquire, fetched, opened by a fault,
 * given a twin, and made writable by another fault.
 */
#include "home.h"

static void refresh_done(struct roami_node *node, uint32_t page, uint64_t version)
{
	roami_contract_pending(node, page);
	roami_contract(roami_page_state(node, page) == HOME_COPY);
	roami_page_lock(node, page);
	home_has(roami_page_data(node, page), version);
	roami_page_unlock(node, page);
	roami_page_done(node, page);
}

/* Patches the pages, which are pending and hot. */
static void refresh_some(struct roami_node *node, struct roam_fetch_one *list, unsigned count)
{
	roami_contract(count <= ROAM_REFRESH_MAX);
	for (unsigned i = 0; i < count; i++) {
		roami_contract_pending(node, list[i].page);
		roami_contract(roami_page_hot(node, list[i].page));
	}
	roami_refresh_all(node, list, count);
	for (unsigned i = 0; i < count; i++) {
		if (list[i].result != ROAM_FETCH_OK)
			roami_node_fail(node, "page %u: its home is not node %u", list[i].page,
					list[i].home);
		refresh_done(node, list[i].page, list[i].version);
	}
}

/* Whether the page is to be refreshed; if so, it is pending on return. */
static bool refresh_wants(struct roami_node *node, const struct roam_notice *notice)
{
	if (!roami_page_dirty(node, notice->page) || !home_needs(node, notice))
		return false;
	roami_page_hold(node, notice->page);
	if (roami_page_state(node, notice->page) == HOME_COPY &&
	    roami_page_hot(node, notice->page))
		return true;
	roami_page_done(node, notice->page);
	return false;
}

/* A fetch that begins now brings the versions that all notices of the page ask for. */
void home_refresh(struct roami_node *node, const struct roam_notice *notices, size_t count)
{
	struct roam_fetch_one list[ROAM_REFRESH_MAX];
	unsigned some = 0;

	if (roami_checks_races(node))
		return;
	for (size_t i = 0; i < count; i++) {
		const uint32_t page = notices[i].page;

		roami_assert(i == 0 || notices[i - 1].page <= page);
		if ((some > 0 && list[some - 1].page == page) || !refresh_wants(node, &notices[i]))
			continue;
		list[some++] = (struct roam_fetch_one){.page = page,
						       .home = roami_home_lookup(node, page)};
		if (some == ROAM_REFRESH_MAX) {
			refresh_some(node, list, some);
			some = 0;
		}
	}
	if (some > 0)
		refresh_some(node, list, some);
}
