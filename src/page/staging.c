#include "page/staging.h"

#include "base/thread.h"
#include "os/os.h"
#include "page/page.h"

#define STAGING_RUN 16u /* pages moved into place with one call, while the next ones arrive */

uint8_t *roami_staging_slot(struct roami_node *node, unsigned slot)
{
	return roami_thread_buffer(node, 0, ROAMI_STAGING_SLOTS * ROAMI_PAGE) + slot * ROAMI_PAGE;
}

uint8_t *roami_staging_aside(struct roami_node *node)
{
	return roami_staging_slot(node, 0);
}

uint8_t *roami_staging_buffer(struct roami_node *node, uint32_t page, unsigned slot)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_assert(slot < ROAMI_STAGING_SLOTS);
	if (entry->here)
		return roami_page_bytes(node, page);
	entry->here = 1;
	return roami_staging_slot(node, slot);
}

/* Lets the engine fill and map the pages in one step; returns how many of them it has done. */
static uint32_t staging_open(struct roami_node *node, const struct roami_staging *staging,
			     const uint8_t *from)
{
	uint32_t done = 0;

	roami_contract(staging->count <= STAGING_RUN);
	if (staging->open && pages_of(node)->engine->copy != NULL)
		done = pages_of(node)->engine->copy(pages_of(node)->engine_state, staging->first,
						    staging->count, from);
	for (uint32_t i = 0; i < done; i++)
		roami_page_entry(node, staging->first + i)->mapped = 1;
	return done;
}

/* Writes the pages to the memfd, which need not be zero there; returns the bytes written. */
static size_t staging_write(struct roami_node *node, uint32_t first, const uint8_t *from,
			    size_t bytes)
{
	roami_contract(bytes % ROAMI_PAGE == 0);
	if (node->fd < 0 || bytes == 0)
		return 0;
	return roami_os_write_at(node->fd, node->layout.heap + (uint64_t)first * ROAMI_PAGE, from,
				 bytes);
}

void roami_staging_end(struct roami_node *node, struct roami_staging *staging)
{
	const uint8_t *from = roami_staging_slot(node, staging->slot);
	uint32_t done;

	roami_contract(staging->count <= STAGING_RUN);
	if (staging->count == 0)
		return;
	roami_assert(staging->count <= node->layout.pages - staging->first);
	done = staging_open(node, staging, from);
	done += (uint32_t)(staging_write(node, staging->first + done, from + done * ROAMI_PAGE,
					 (staging->count - done) * ROAMI_PAGE) /
			   ROAMI_PAGE);
	for (; done < staging->count; done++)
		roami_page_copy(node, roami_page_bytes(node, staging->first + done),
				from + done * ROAMI_PAGE);
	staging->count = 0;
}

void roami_staging_add(struct roami_node *node, struct roami_staging *staging, uint32_t page,
		       unsigned slot, const uint8_t *buffer, bool open)
{
	roami_contract(buffer != NULL && slot < ROAMI_STAGING_SLOTS);
	if (buffer == roami_page_bytes(node, page))
		return;
	if (staging->count > 0 &&
	    (staging->count == STAGING_RUN || page != staging->first + staging->count ||
	     slot != staging->slot + staging->count || open != staging->open))
		roami_staging_end(node, staging);
	if (staging->count == 0)
		*staging = (struct roami_staging){page, 0, slot, open};
	staging->count++;
}
