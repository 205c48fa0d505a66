/* Diffs for protocols that send and keep them themselves: between a page and its twin. */
#include "page/page.h"

bool roami_page_has_twin(struct roami_node *node, uint32_t page)
{
	return roami_page_entry(node, page)->twin != 0;
}

/* NULL: the page has no twin. */
static uint8_t *page_twin(struct roami_node *node, uint32_t page)
{
	uint32_t twin = roami_page_entry(node, page)->twin;

	roami_contract_locked(node, page);
	return twin != 0 ? roami_twin_bytes(node, twin) : NULL;
}

const uint8_t *roami_page_old(struct roami_node *node, uint32_t page)
{
	const uint8_t *twin = page_twin(node, page);

	return twin != NULL ? twin : roami_page_bytes(node, page);
}

size_t roami_diff_make(struct roami_node *node, uint32_t page, uint8_t *out, bool keep)
{
	const uint8_t *bytes = roami_page_bytes(node, page);
	uint8_t *twin = page_twin(node, page);
	size_t made;

	roami_contract_locked(node, page);
	roami_assert(twin != NULL);
	roami_step(node);
	made = keep ? pages_of(node)->diff->encode_sticky(out, bytes, twin, ROAMI_PAGE)
		    : pages_of(node)->diff->encode(out, bytes, twin, ROAMI_PAGE);
	if (made == 0) {
		ROAMI_COUNT(node->stats, diffs_empty, 1);
	} else {
		ROAMI_COUNT(node->stats, diffs, 1);
		ROAMI_COUNT(node->stats, diff_bytes, made);
	}
	return made;
}

bool roami_diff_patch(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes)
{
	roami_contract_locked(node, page);
	roami_step(node);
	ROAMI_COUNT(node->stats, diffs_applied, 1);
	return pages_of(node)->diff->apply(roami_page_bytes(node, page), page_twin(node, page),
					   diff, bytes);
}

void roami_page_rebase(struct roami_node *node, uint32_t page, const uint8_t *bytes)
{
	uint8_t *twin = page_twin(node, page);
	uint8_t own[ROAMI_DIFF_BYTES_MAX];
	size_t made = 0;

	roami_contract_locked(node, page);
	if (twin != NULL) {
		made =
			pages_of(node)->diff->encode(own, roami_page_bytes(node, page), twin,
						     ROAMI_PAGE);
		roami_page_copy(node, twin, bytes);
	}
	roami_page_copy(node, roami_page_bytes(node, page), bytes);
	pages_of(node)->diff->apply(roami_page_bytes(node, page), NULL, own, made);
}
