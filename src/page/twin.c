/* Twins: copies of pages and their pool, and the diffs between a page and its twin. */
#include <string.h>

#include "page/page.h"
#include "page/race.h"

#define STEP_BYTES 512u /* of a copy, between which another thread may run */

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
/*
 * The home may be written while it is copied, by design; ThreadSanitizer's memcpy cannot be
 * exempted.
 */
ROAMI_RACY static void page_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (size_t at = 0; at < bytes; at++)
		to[at] = *(const volatile uint8_t *)&from[at];
}
#else
#define page_copy(to, from, bytes) ((void)memcpy(to, from, bytes))
#endif

void roami_page_copy(struct roami_node *node, uint8_t *to, const uint8_t *from)
{
	roami_contract(to != from);
	if (node->env->step == NULL) {
		page_copy(to, from, ROAMI_PAGE);
		return;
	}
	for (size_t at = 0; at < ROAMI_PAGE; at += STEP_BYTES) {
		page_copy(to + at, from + at, STEP_BYTES);
		roami_step(node);
	}
}

void roami_twin_make(struct roami_node *node, struct roami_page *entry, uint32_t page)
{
	struct roami_twins *twins = &pages_of(node)->twins;
	uint32_t twin;
	bool has;

	roami_contract_pending(node, page);
	roami_contract(entry == roami_page_entry(node, page) && node->nodes > 1);
	roami_page_lock(node, page); /* a handler may take it away, pending or not */
	has = entry->twin != 0;
	roami_page_unlock(node, page);
	if (has)
		return;
	roami_spin_lock(node, &twins->lock);
	if (twins->free.count > 0)
		twin = ((uint32_t *)(void *)twins->free.items)[--twins->free.count];
	else
		twin = ++twins->fresh;
	roami_spin_unlock(&twins->lock);
	/*
	 * A diff that arrives now goes into the page before the copy, or into both after it (rule
	 * 6.9).
	 */
	roami_page_lock(node, page);
	roami_contract(entry->twin == 0);
	roami_page_copy(node, roami_twin_bytes(node, twin), roami_page_bytes(node, page));
	entry->twin = twin;
	roami_page_unlock(node, page);
	ROAMI_COUNT(node->stats, twins, 1);
}

void roami_twins_give(struct roami_node *node, const uint32_t *list, size_t count)
{
	struct roami_twins *twins = &pages_of(node)->twins;
	uint32_t *slots;

	if (count == 0)
		return;
	roami_spin_lock(node, &twins->lock);
	slots = roami_os_vec_grow(&twins->free, sizeof(uint32_t), count);
	if (slots == NULL)
		roami_node_fail(node, "no memory for the twin pool");
	for (size_t i = 0; i < count; i++) {
		roami_contract(list[i] <= twins->fresh);
		roami_spoil(node, ROAMI_SPOILT_TWIN, roami_twin_bytes(node, list[i]), ROAMI_PAGE);
	}
	memcpy(slots, list, count * sizeof(*slots));
	twins->free.count += count;
	roami_spin_unlock(&twins->lock);
}

void roami_twin_drop(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);
	uint32_t twin = entry->twin;

	roami_contract_locked(node, page); /* pending is not enough: handlers look at the twin */
	entry->twin = 0;
	if (twin != 0)
		roami_twins_give(node, &twin, 1);
}

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

void roami_diff_count_runs(struct roami_node *node, uint32_t page)
{
	const uint8_t *twin = roami_twin_bytes(node, roami_page_entry(node, page)->twin);

	roami_contract_owned(node, page);
	if (node->options->stats[0] != '\0')
		ROAMI_COUNT(node->stats, diff_runs,
			    roami_diff_runs(roami_page_bytes(node, page), twin));
}

size_t roami_diff_make(struct roami_node *node, uint32_t page, uint8_t *out, bool keep)
{
	const uint8_t *bytes = roami_page_bytes(node, page);
	uint8_t *twin = page_twin(node, page);
	size_t made;

	roami_contract_locked(node, page);
	roami_assert(twin != NULL);
	roami_diff_count_runs(node, page);
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

/*
 * Bytes in which the page differs from the twin now stay: threads of this node have written them
 * since, and they are still this node's changes.
 */
void roami_page_follow(struct roami_node *node, uint32_t page, const uint8_t *bytes)
{
	uint8_t *twin, theirs[ROAMI_DIFF_BYTES_MAX];
	size_t made;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	twin = page_twin(node, page);
	roami_assert(twin != NULL);
	roami_step(node);
	made = pages_of(node)->diff->encode(theirs, bytes, twin, ROAMI_PAGE);
	pages_of(node)->diff->apply(roami_page_bytes(node, page), twin, theirs, made);
	roami_page_unlock(node, page);
}

bool roami_page_hot(struct roami_node *node, uint32_t page)
{
	const struct roami_page *entry = roami_page_entry(node, page);
	const uint8_t hot = ROAMI_PAGE_KEEP | ROAMI_PAGE_DIRTY;

	roami_contract_pending(node, page);
	return (atomic_load(&entry->flags) & hot) == hot && entry->twin != 0 &&
	       (entry->heat & ROAMI_HEAT_DEFERRED) == 0;
}

void roami_page_expect(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_pending(node, page);
	if (node->options->hot && !roami_race_checked(node) && !roami_scoped(node) &&
	    (entry->heat & ~ROAMI_HEAT_DEFERRED) >= ROAMI_HOT_AFTER)
		atomic_fetch_or(&entry->flags, ROAMI_PAGE_WANT);
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
