/* Own pages that are written in a row open together. */
#include "home.h"

#define RUN_MAX 31u

/* How many pages behind `page` will probably be written next: as many as lie open before it. */
static uint32_t run_behind(struct roami_node *node, uint32_t page)
{
	uint32_t run = 0, end = roami_pages(node) - 1;

	while (run < RUN_MAX && run < page && page + run < end &&
	       roami_page_ours(node, page - run - 1) && roami_page_ours(node, page + run + 1) &&
	       roami_page_is_home(node, page - run - 1) &&
	       roami_page_access(node, page - run - 1) == ROAM_WRITE)
		run++;
	return run;
}

/* Whether the page can be read only, nobody works on it, and it `fits`: pending if so. */
static bool run_next(struct roami_node *node, uint32_t page, home_fits_fn *fits)
{
	if (roami_page_access(node, page) != ROAM_READ || !roami_page_try(node, page))
		return false;
	if (roami_page_access(node, page) == ROAM_READ && fits(node, page))
		return true;
	roami_page_done(node, page);
	return false;
}

void home_write_run(struct roami_node *node, uint32_t page, home_fits_fn *fits)
{
	uint32_t run = run_behind(node, page), more = 0;

	while (more < run && run_next(node, page + more + 1, fits))
		more++;
	if (more > 0)
		roami_page_open_written(node, page, more + 1);
	for (uint32_t i = 1; i <= more; i++)
		roami_page_done(node, page + i);
}
