/* Pages that are written before they have a home: see core/guess.h. */
#include "home.h"

#define BATCH         512u /* pages settled at a time, on the stack */
#define FETCH_AT_ONCE 64u

bool home_guess(struct roami_node *node, uint32_t page)
{
	if (roami_page_state(node, page) != HOME_INVALID || !roami_page_guess(node, page))
		return false;
	roami_page_move(node, page, HOME_GUESS);
	roami_page_open(node, page, 1, ROAM_WRITE);
	return true;
}

/* Ours, and written without detection, as if it had been claimed first. */
static void home_won(struct roami_node *node, uint32_t page)
{
	roami_guess_won(node, page);
	home_take(node, page);
	roami_home_publish(node, page, 1, 1, 1);
	roami_page_done(node, page);
}

/* Another node's, which may be claiming the page still: then it is waited for. */
static unsigned home_of_lost(struct roami_node *node, uint32_t page)
{
	bool claimed;
	unsigned home = roami_home_find(node, page, true, &claimed);

	roami_assert(!claimed);
	return home;
}

/* Others are their homes: copies of them, dirty with what was written here. */
static void home_lost(struct roami_node *node, const uint32_t *pages, unsigned count)
{
	struct roam_fetch_one list[FETCH_AT_ONCE];

	for (unsigned i = 0; i < count; i++) {
		roami_guess_lost(node, pages[i]);
		list[i].page = pages[i];
		list[i].home = home_of_lost(node, pages[i]);
	}
	home_fetch_all(node, list, count);
	for (unsigned i = 0; i < count; i++) {
		roami_guess_merge(node, pages[i]);
		roami_page_open(node, pages[i], 1, ROAM_READ);
		roami_page_done(node, pages[i]);
	}
}

void home_guessed(struct roami_node *node, const uint32_t *pages, size_t count)
{
	uint32_t lost[BATCH];
	bool won[BATCH];
	unsigned others = 0;

	roami_assert(count <= BATCH);
	roami_home_claim_each(node, pages, count, won);
	for (size_t i = 0; i < count; i++)
		if (won[i])
			home_won(node, pages[i]);
		else
			lost[others++] = pages[i];
	roami_page_close(node, lost, others, ROAM_NONE);
	for (unsigned i = 0; i < others; i += FETCH_AT_ONCE)
		home_lost(node, lost + i,
			  others - i < FETCH_AT_ONCE ? others - i : FETCH_AT_ONCE);
}
