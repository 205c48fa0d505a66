/* Pages that are written in a row open together: own pages, or copies. */
#include "home.h"

#define RUN_MAX 31u

/*
 * Whether the page is open for reading only, not pending, and `fits`; if so, it is pending on
 * return.
 */
static bool run_next(struct roami_node *node, uint32_t page, home_fits_fn *fits)
{
	if (roami_page_access(node, page) != ROAM_READ || !roami_page_try(node, page))
		return false;
	if (roami_page_access(node, page) == ROAM_READ && fits(node, page))
		return true;
	roami_page_done(node, page);
	return false;
}

/*
 * Only copies fit: an own page has no twin to tell whether it was written, so a notice would tell
 * other nodes that it was.
 */
static bool row_fits(struct roami_node *node, uint32_t page)
{
	return roami_page_state(node, page) == HOME_COPY;
}

void home_write_row(struct roami_node *node, uint32_t page)
{
	/* The race detector learns from each page's own write fault which code writes it. */
	if (row_fits(node, page) && !roami_checks_races(node))
		home_write_run(node, page, row_fits);
}

void home_write_run(struct roami_node *node, uint32_t page, home_fits_fn *fits)
{
	uint32_t run = roami_page_row(node, page, RUN_MAX), more = 0;

	roami_contract_pending(node, page);
	while (more < run && run_next(node, page + more + 1, fits))
		more++;
	if (more > 0)
		roami_page_open_written(node, page, more + 1);
	for (uint32_t i = 1; i <= more; i++)
		roami_page_done(node, page + i);
}
