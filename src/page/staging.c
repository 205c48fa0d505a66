#include "page/staging.h"

#include "base/thread.h"
#include "os/os.h"
#include "page/page.h"

#define LANDING_RUN 16u /* pages moved into place with one call, while the next ones arrive */

static uint8_t *landing_slot(struct roami_node *node, unsigned slot)
{
	return roami_thread_room(node, 0, ROAMI_LANDING_SLOTS * ROAMI_PAGE) + slot * ROAMI_PAGE;
}

uint8_t *roami_landing_room(struct roami_node *node, uint32_t page, unsigned slot)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_assert(slot < ROAMI_LANDING_SLOTS);
	if (entry->here)
		return roami_page_bytes(node, page);
	entry->here = 1;
	return landing_slot(node, slot);
}

/* Lets the engine fill and map the pages in one step; returns how many of them it has done. */
static uint32_t landing_open(struct roami_node *node, const struct roami_landing *landing,
			     const uint8_t *from)
{
	uint32_t done = 0;

	roami_contract(landing->count <= LANDING_RUN);
	if (landing->open && pages_of(node)->engine->copy != NULL)
		done =
			pages_of(node)->engine->copy(pages_of(node)->engine_state, landing->first,
						     landing->count, from);
	for (uint32_t i = 0; i < done; i++)
		roami_page_entry(node, landing->first + i)->mapped = 1;
	return done;
}

/* Writes the pages to the memfd, which need not be zero there; returns the bytes written. */
static size_t landing_write(struct roami_node *node, uint32_t first, const uint8_t *from,
			    size_t bytes)
{
	roami_contract(bytes % ROAMI_PAGE == 0);
	if (node->fd < 0 || bytes == 0)
		return 0;
	return roami_os_write_at(node->fd, node->layout.heap + (uint64_t)first * ROAMI_PAGE, from,
				 bytes);
}

void roami_landing_end(struct roami_node *node, struct roami_landing *landing)
{
	const uint8_t *from = landing_slot(node, landing->slot);
	uint32_t done;

	roami_contract(landing->count <= LANDING_RUN);
	if (landing->count == 0)
		return;
	roami_assert(landing->count <= node->layout.pages - landing->first);
	done = landing_open(node, landing, from);
	done += (uint32_t)(landing_write(node, landing->first + done, from + done * ROAMI_PAGE,
					 (landing->count - done) * ROAMI_PAGE) /
			   ROAMI_PAGE);
	for (; done < landing->count; done++)
		roami_page_copy(node, roami_page_bytes(node, landing->first + done),
				from + done * ROAMI_PAGE);
	landing->count = 0;
}

void roami_landing_add(struct roami_node *node, struct roami_landing *landing, uint32_t page,
		       unsigned slot, const uint8_t *room, bool open)
{
	roami_contract(room != NULL && slot < ROAMI_LANDING_SLOTS);
	if (room == roami_page_bytes(node, page))
		return;
	if (landing->count > 0 &&
	    (landing->count == LANDING_RUN || page != landing->first + landing->count ||
	     slot != landing->slot + landing->count || open != landing->open))
		roami_landing_end(node, landing);
	if (landing->count == 0)
		*landing = (struct roami_landing){page, 0, slot, open};
	landing->count++;
}
