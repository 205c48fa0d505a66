/* adapt: copies that are brought up to date by diffs that their writers left in logs. */
#include "adapt.h"

#define UPDATES 3u /* updates of a copy before it is closed to see whether it is read */

/* Copies the diff that made `version` to `diff`, if one of the notices says where it lies. */
static bool adapt_follow(struct roami_node *node, const struct roam_notice *notices, size_t count,
			 uint64_t version, uint8_t *diff, size_t *bytes_p)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t left = roami_notice_diff(node, &notices[i]);

		if (notices[i].version == version && left != 0)
			return adapt_log_follow(node, notices[i].writer, left, notices[i].page,
						diff, bytes_p);
	}
	return false;
}

/* Counts up the version of a copy that has the next one, because this node's own diff made it. */
static void adapt_own(struct adapt_page *data)
{
	if (data->own == 0 || data->own != ((data->home.have + 1) & ADAPT_OWN_MASK))
		return;
	data->own = 0;
	home_has(&data->home, data->home.have + 1u);
}

/*
 * Brings a copy from its version to the newest of the page's notices, if all diffs in between are
 * there; this node's own writes are in the copy already.
 */
static void adapt_update(struct roami_node *node, const struct roam_notice *notices, size_t count)
{
	struct adapt_page *data = adapt_page(node, notices->page);
	uint8_t diff[ROAM_DIFF_MAX];
	uint64_t newest = 0;
	size_t bytes;

	roami_contract_pending(node, notices->page);
	roami_contract(roami_page_state(node, notices->page) == HOME_COPY);
	for (size_t i = 0; i < count; i++)
		newest = notices[i].version > newest ? notices[i].version : newest;
	while (adapt_own(data), data->home.have < newest) {
		bool good;

		if (!adapt_follow(node, notices, count, data->home.have + 1, diff, &bytes))
			return;
		roami_page_lock(node, notices->page);
		good = roami_diff_patch(node, notices->page, diff, bytes);
		if (good)
			home_has(&data->home, data->home.have + 1u);
		roami_page_unlock(node, notices->page);
		if (!good)
			roami_node_fail(node, "page %u: malformed diff in a log",
					notices->page);
	}
}

/*
 * Updates a copy.  After a few updates the copy is closed, to see whether it is read; if it is not
 * read by the next notice, it is not updated, and so it is invalidated.
 */
static void update_page(struct roami_node *node, const struct roam_notice *notices, size_t count)
{
	uint32_t page = notices->page;
	struct adapt_page *data = adapt_page(node, page);

	roami_assert(count > 0 && notices[count - 1].page == page);
	roami_page_hold(node, page);
	if (roami_page_dirty(node, page))
		data->updates = 0;
	if (roami_page_state(node, page) == HOME_COPY) {
		if (roami_page_access(node, page) == ROAM_NONE)
			data->seen = 0;
		else if (data->exact && (data->keen || roami_page_dirty(node, page)))
			adapt_update(node, notices, count);
		if (data->updates < UPDATES)
			data->updates++;
		else
			roami_page_close(node, &page, 1, ROAM_NONE);
	}
	roami_page_done(node, page);
}

/* adapt_look for a page that is not pending; fast if the page's home was not taken. */
static void update_look(struct roami_node *node, uint32_t page)
{
	if (!roami_page_is_home(node, page) || roami_home_here(node, page) != 0)
		return;
	roami_page_hold(node, page);
	adapt_look(node, page);
	roami_page_done(node, page);
}

/*
 * Whether the page is a copy; a fetch under way makes it one, and checks itself what the copy
 * needs.
 */
static bool update_is_copy(struct roami_node *node, uint32_t page)
{
	bool copy;

	roami_page_lock(node, page);
	copy = roami_page_state(node, page) == HOME_COPY;
	roami_page_unlock(node, page);
	return copy;
}

void adapt_refresh(struct roami_node *node, const struct roam_notice *notices, size_t count)
{
	for (size_t first = 0, end; first < count; first = end) {
		uint32_t page = notices[first].page;
		bool left = false;

		for (end = first; end < count && notices[end].page == page; end++)
			left |= roami_notice_diff(node, &notices[end]) != 0;
		update_look(node, page);
		if (left && update_is_copy(node, page))
			update_page(node, &notices[first], end - first);
	}
}
