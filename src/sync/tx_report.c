/*
 * ROAM_CHECK=conflicts: the pages that attempts of transactions lost, at the end.  Lines name the
 * worst ones; with ROAM_CONFLICTS each node writes all of them to a file for `roam tx report`.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "page/race.h"
#include "sync/tx.h"

#define REPORTS_MAX 5u
#define BLOCKS_MAX  3u /* named of a page */

/* The first page from `page` on that has conflicts; if none has, the number of pages. */
static uint32_t report_next(const struct roami_node *node, uint32_t page)
{
	const struct roami_tx *tx = tx_of(node);

	roami_contract(tx->page != NULL);
	while (page < node->layout.pages && tx->page[page].conflicts == 0)
		if (tx->chunks[page / ROAMI_TX_CHUNK] == 0)
			page = (page / ROAMI_TX_CHUNK + 1) * ROAMI_TX_CHUNK;
		else
			page++;
	return page < node->layout.pages ? page : node->layout.pages;
}

/* The pages with the most conflicts, the worst first; returns how many. */
static unsigned report_worst(struct roami_node *node, uint32_t worst[REPORTS_MAX])
{
	const struct roami_tx *tx = tx_of(node);
	unsigned count = 0;

	for (uint32_t page = report_next(node, 0); page < node->layout.pages;
	     page = report_next(node, page + 1)) {
		unsigned at = count;

		while (at > 0 && tx->page[worst[at - 1]].conflicts < tx->page[page].conflicts)
			at--;
		if (at == REPORTS_MAX)
			continue;
		count += count < REPORTS_MAX;
		for (unsigned i = count - 1; i > at; i--)
			worst[i] = worst[i - 1];
		worst[at] = page;
	}
	return count;
}

/* The blocks of which the page has bytes, as roami_race_name has them. */
static void report_blocks(struct roami_node *node, uint32_t page, char *text, size_t bytes)
{
	uint64_t first = (uint64_t)page * ROAMI_PAGE, end = first + ROAMI_PAGE;
	unsigned named = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < roami_race_blocks(node) && named < BLOCKS_MAX; i++) {
		const struct roami_block *block = roami_race_block_at(node, i);
		size_t used = strlen(text);

		if (block == NULL || block->bytes == 0 || block->offset >= end ||
		    block->offset + block->bytes <= first)
			continue;
		named++;
		roami_race_name(node, block->offset > first ? block->offset : first, text + used,
				bytes - used);
	}
}

/* All that this node knows, for `roam tx report`. */
static void report_file(struct roami_node *node)
{
	static const char *const reads[] = {"resident", "exact", "adapt"};
	static const char *const validates[] = {"forward", "backward"};
	static const char *const commits[] = {"token", "pages"};
	const struct roami_tx *tx = tx_of(node);
	FILE *file = roami_race_file(node, "ROAM_CONFLICTS", node->options->conflicts);

	if (file == NULL)
		return;
	fprintf(file, "mode\t%s\t%s\t%s\n", reads[node->options->tx_reads],
		validates[node->options->tx_validate], commits[node->options->tx_commit]);
	for (uint32_t page = report_next(node, 0); page < node->layout.pages;
	     page = report_next(node, page + 1))
		fprintf(file, "page\t%u\t%u\t%u\t%d\n", page, tx->page[page].conflicts,
			tx->page[page].aborted_in_vain, roami_tx_closes(node, page));
	fclose(file);
}

void roami_tx_report(struct roami_node *node)
{
	const struct roami_tx *tx = tx_of(node);
	uint32_t worst[REPORTS_MAX];
	unsigned count;

	if ((node->options->check & ROAMI_CHECK_CONFLICTS) == 0 || tx->page == NULL)
		return;
	if (strchr(node->options->conflicts, '/') != NULL) { /* a path, not 1 */
		report_file(node);
		return;
	}
	count = report_worst(node, worst);
	for (unsigned i = 0; i < count; i++) {
		const struct roami_tx_page *data = &tx->page[worst[i]];
		char blocks[BLOCKS_MAX * ROAMI_RACE_NAME_BYTES], line[sizeof(blocks) + 200];
		int length;

		report_blocks(node, worst[i], blocks, sizeof(blocks));
		length = snprintf(line, sizeof(line),
				  "roam: conflicts: node %u: page %p%s was lost by %u attempts, "
				  "%u of them in vain\n",
				  node->me, (void *)(node->app + (uint64_t)worst[i] * ROAMI_PAGE),
				  blocks, data->conflicts, data->aborted_in_vain);
		if (write(STDERR_FILENO, line, (size_t)length) < 0)
			return;
	}
}
