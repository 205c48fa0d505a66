/*
 * adapt's diff log: diffs that a node leaves in its segment (roami_post), so that a copy
 * that lacks a few of them is brought up to date without fetching the page.  For a diff that newer
 * ones have overwritten, or that is out of reach, the page is fetched.
 */
#include "adapt.h"

uint64_t adapt_log_leave(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes)
{
	roami_contract_pending(node, page);
	roami_assert(bytes <= ROAM_DIFF_MAX);
	return roami_post(node, page, diff, bytes);
}

bool adapt_log_follow(struct roami_node *node, unsigned writer, uint64_t ref, uint32_t page,
		      uint8_t *diff, size_t *bytes_p)
{
	roami_contract_pending(node, page);
	*bytes_p = ROAM_DIFF_MAX;
	if (!roami_post_read(node, writer, ref, page, diff, bytes_p))
		return false;
	roami_home_say_read(node, writer, page);
	return true;
}
