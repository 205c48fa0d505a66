#include "core/race.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/page.h"

#define REPORTS_MAX   20u
#define INTERVAL_BITS 56u
#define INTERVAL_MASK ((UINT64_C(1) << INTERVAL_BITS) - 1)

/* A shadow word of a byte: the writer's number + 1 above, its interval below. */
static uint64_t shadow_word(unsigned writer, uint64_t interval)
{
	return ((uint64_t)writer + 1) << INTERVAL_BITS | (interval & INTERVAL_MASK);
}

enum roam_err roami_race_init(struct roami_node *node)
{
	if (!roami_race_checked(node))
		return ROAM_OK;
	node->shadow = roami_os_reserve_sparse((size_t)node->layout.pages * ROAMI_PAGE *
					       sizeof(node->shadow[0]));
	return node->shadow == NULL ? ROAM_ENOMEM : ROAM_OK;
}

void roami_race_fini(struct roami_node *node)
{
	if (node->shadow != NULL)
		roami_os_unmap(node->shadow,
			       (size_t)node->layout.pages * ROAMI_PAGE * sizeof(node->shadow[0]));
}

/* ------------------------------------------------------------------------------------- regions */

void roami_race_name(struct roami_node *node, uint32_t page, uint32_t pages, const char *name)
{
	struct roami_region *region = roami_os_vec_grow(&node->regions, sizeof(*region), 1);

	if (region == NULL)
		return;
	*region = (struct roami_region){page, pages, ""};
	snprintf(region->name, sizeof(region->name), "%s", name);
	node->regions.count++;
}

static const struct roami_region *race_region(const struct roami_node *node, uint32_t page)
{
	const struct roami_region *regions = (const void *)node->regions.items;

	for (size_t i = node->regions.count; i-- > 0;)
		if (page >= regions[i].page && page < regions[i].page + regions[i].pages)
			return &regions[i];
	return NULL;
}

static void race_report(struct roami_node *node, uint32_t page, uint32_t byte, unsigned first,
			unsigned second)
{
	const struct roami_region *region = race_region(node, page);
	char line[240];
	int length;

	if (atomic_fetch_add(&node->races, 1) >= REPORTS_MAX)
		return;
	length = snprintf(line, sizeof(line),
			  "roam: race: %p (%s + %#zx) was written by node %u and node %u in "
			  "intervals that nothing orders\n",
			  (void *)(node->app + page * ROAMI_PAGE + byte),
			  region != NULL ? region->name : "heap",
			  (page - (region != NULL ? region->page : 0)) * ROAMI_PAGE + byte, first,
			  second);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

/* --------------------------------------------------------------------------------------- notes */

/* One changed byte; true if it is a race that begins here. */
static bool race_byte(struct roami_node *node, uint32_t page, uint32_t byte, unsigned writer,
		      const struct roami_vclock *clock)
{
	uint64_t *word = &node->shadow[(size_t)page * ROAMI_PAGE + byte];
	unsigned last = (unsigned)(*word >> INTERVAL_BITS) - 1;
	bool race = *word != 0 && last != writer &&
		    (*word & INTERVAL_MASK) > (clock->at[last] & INTERVAL_MASK);

	*word = shadow_word(writer, clock->at[writer] + 1);
	return race;
}

void roami_race_note(struct roami_node *node, uint32_t page, unsigned writer,
		     const struct roami_vclock *clock, const uint8_t *diff, size_t bytes)
{
	uint64_t map, mask;
	bool in_race = false;

	if (bytes == 0)
		return;
	memcpy(&map, diff, sizeof(map));
	diff += sizeof(map);
	for (; map != 0; map &= map - 1) {
		uint32_t line = (uint32_t)__builtin_ctzll(map) * ROAMI_DIFF_LINE_BYTES;

		memcpy(&mask, diff, sizeof(mask));
		diff += sizeof(mask) + (unsigned)__builtin_popcountll(mask);
		for (; mask != 0; mask &= mask - 1) {
			uint32_t byte = line + (uint32_t)__builtin_ctzll(mask);
			unsigned last =
				(unsigned)(node->shadow[(size_t)page * ROAMI_PAGE + byte] >>
					   INTERVAL_BITS) -
				1;
			bool race = race_byte(node, page, byte, writer, clock);

			if (race && !in_race) /* the first byte of a run is enough */
				race_report(node, page, byte, last, writer);
			in_race = race;
		}
	}
}

void roami_race_note_home(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);
	uint8_t diff[ROAMI_DIFF_BYTES_MAX + 64];
	struct roami_vclock clock;
	size_t bytes;

	if (entry->twin == 0)
		return;
	roami_log_clock(node, &clock);
	/* A diff that arrives now must be in the page and in the twin, or in neither. */
	roami_page_lock(node, page);
	bytes = node->diff->encode(diff, roami_page_bytes(node, page),
				   roami_twin_bytes(node, entry->twin), ROAMI_PAGE);
	roami_race_note(node, page, node->me, &clock, diff, bytes);
	roami_page_unlock(node, page);
}
