/* Pages that are written before they have a home: see home/provisional.h. */
#include "home.h"

#define FETCH_AT_ONCE 64u

bool home_provisional(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	if (roami_page_state(node, page) != HOME_INVALID || !roami_page_provisional(node, page))
		return false;
	roami_page_move(node, page, HOME_PROVISIONAL);
	roami_page_open(node, page, 1, ROAM_WRITE);
	return true;
}

/*
 * Makes a page whose claim was granted this node's, which goes on writing it without detection, as
 * if it had been claimed first.
 */
static void home_won(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_contract(roami_page_state(node, page) == HOME_PROVISIONAL);
	roami_provisional_won(node, page);
	home_take(node, page);
	roami_home_publish(node, page, 1, 1, 1);
	roami_page_done(node, page);
}

/*
 * Takes a page of which another node has made this one the home; that node may have a copy that
 * lacks this node's writes.
 */
static void home_given(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_contract(roami_page_state(node, page) == HOME_PROVISIONAL);
	home_take(node, page);
	roami_provisional_given(node, page);
	roami_page_done(node, page);
}

/*
 * Finds the home of a page whose claim was not granted.  true: it is another node, which may still
 * be claiming the page, and is waited for; false: it is this node, where the page was placed
 * meanwhile.
 */
static bool home_elsewhere(struct roami_node *node, struct roam_fetch_one *one)
{
	bool claimed;

	one->home = roami_home_claim(node, one->page, &claimed);
	if (one->home != roami_me(node))
		return true;
	if (claimed)
		home_won(node, one->page);
	else
		home_given(node, one->page);
	return false;
}

/* Makes copies of pages whose homes are other nodes, dirty with what was written here. */
static void home_lost(struct roami_node *node, struct roam_fetch_one *list, unsigned count)
{
	uint32_t pages[FETCH_AT_ONCE];

	roami_assert(count <= FETCH_AT_ONCE);
	for (unsigned i = 0; i < count; i++) {
		roami_contract_pending(node, list[i].page);
		pages[i] = list[i].page;
	}
	roami_page_close(node, pages, count, ROAM_NONE);
	for (unsigned i = 0; i < count; i++)
		roami_provisional_lost(node, pages[i]);
	home_fetch_all(node, list, count);
	for (unsigned i = 0; i < count; i++) {
		roami_provisional_merge(node, pages[i]);
		roami_page_open(node, pages[i], 1, ROAM_READ);
		roami_page_done(node, pages[i]);
	}
}

void home_claim_provisional(struct roami_node *node, const uint32_t *pages, size_t count)
{
	struct roam_fetch_one lost[ROAM_PROVISIONAL_MAX];
	bool won[ROAM_PROVISIONAL_MAX];
	unsigned others = 0;

	roami_assert(count <= ROAM_PROVISIONAL_MAX);
	roami_home_claim_each(node, pages, count, won);
	for (size_t i = 0; i < count; i++)
		if (won[i])
			home_won(node, pages[i]);
	for (size_t i = 0; i < count; i++) {
		lost[others].page = pages[i];
		others += !won[i] && home_elsewhere(node, &lost[others]);
	}
	for (unsigned i = 0; i < others; i += FETCH_AT_ONCE)
		home_lost(node, lost + i, others - i < FETCH_AT_ONCE ? others - i : FETCH_AT_ONCE);
}
