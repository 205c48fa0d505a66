#include "page/sharing.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "page/page.h"
#include "page/race.h"

#define REPORTS_MAX 20u
#define TURNS       4u   /* of each node, before a page counts as shared by all */
#define CHUNK       512u /* pages, which the end looks at if any of them was used */

/* The diffs of a page at its home.  Under the page lock. */
struct sharing_page {
	uint64_t writers;
	uint32_t turns;  /* diffs of another writer than the last one */
	uint16_t handed; /* diffs with bytes that another node had written */
	uint8_t last;    /* writer, + 1 */
	bool reported;
};

/* What this node did with a page. */
struct sharing_use {
	_Atomic uint32_t read_faults, write_faults, fetches;
};

/* Bytes of a page. */
struct sharing_bytes {
	uint64_t lines[ROAMI_DIFF_LINES_MAX];
};

struct roami_sharing {
	struct sharing_page *pages;
	struct sharing_use *uses;
	struct sharing_bytes *wrote; /* per page and writer; only with ROAM_SHARING */
	_Atomic uint8_t *chunks;
	_Atomic uint32_t reported_count;
};

static struct roami_sharing *sharing_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_SHARING].state;
}

static size_t wrote_bytes(const struct roami_node *node)
{
	return (size_t)node->layout.pages * node->nodes * sizeof(struct sharing_bytes);
}

static enum roam_err sharing_init(struct roami_node *node, const struct roami_node_params *params)
{
	struct roami_sharing *sharing = sharing_of(node);
	size_t pages = node->layout.pages;

	(void)params;
	if (!roami_sharing_wanted(node) || !roami_race_checked(node))
		return ROAM_OK;
	sharing->pages = roami_os_reserve_sparse(pages * sizeof(*sharing->pages));
	sharing->uses = roami_os_reserve_sparse(pages * sizeof(*sharing->uses));
	sharing->chunks = roami_os_reserve_sparse(pages / CHUNK + 1);
	if (strchr(node->options->sharing, '/') != NULL) { /* a path, not 1 */
		sharing->wrote = roami_os_reserve_sparse(wrote_bytes(node));
		if (sharing->wrote == NULL)
			return ROAM_ENOMEM;
	}
	return sharing->pages == NULL || sharing->uses == NULL || sharing->chunks == NULL
		       ? ROAM_ENOMEM
		       : ROAM_OK;
}

static void sharing_fini(struct roami_node *node)
{
	struct roami_sharing *sharing = sharing_of(node);
	size_t pages = node->layout.pages;

	roami_os_unmap(sharing->pages, pages * sizeof(*sharing->pages));
	roami_os_unmap(sharing->uses, pages * sizeof(*sharing->uses));
	roami_os_unmap((void *)sharing->chunks, pages / CHUNK + 1);
	roami_os_unmap(sharing->wrote, wrote_bytes(node));
}

static struct sharing_use *sharing_use(struct roami_node *node, uint32_t page)
{
	struct roami_sharing *sharing = sharing_of(node);

	roami_assert(page < node->layout.pages && sharing->uses != NULL);
	atomic_store_explicit(&sharing->chunks[page / CHUNK], 1, memory_order_relaxed);
	return &sharing->uses[page];
}

void roami_sharing_fault_now(struct roami_node *node, uint32_t page, bool write)
{
	struct sharing_use *use = sharing_use(node, page);

	atomic_fetch_add_explicit(write ? &use->write_faults : &use->read_faults, 1,
				  memory_order_relaxed);
}

void roami_sharing_fetched_now(struct roami_node *node, uint32_t page)
{
	atomic_fetch_add_explicit(&sharing_use(node, page)->fetches, 1, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------ shared by all */

/*
 * Reports a page that all nodes write again and again, although each writes its own bytes.  A few
 * diffs may change bytes of the node that stored their first values.
 */
static void sharing_note(struct roami_node *node, uint32_t page, unsigned writer, bool handed)
{
	struct sharing_page *shared = &sharing_of(node)->pages[page];
	char line[400], name[ROAMI_RACE_NAME_BYTES];
	int length;

	shared->writers |= roami_nodeset_bit(writer);
	shared->turns += shared->last != writer + 1;
	shared->last = (uint8_t)(writer + 1);
	if (handed && shared->handed < UINT16_MAX)
		shared->handed++;
	if (shared->reported || node->nodes < 3 || shared->turns < TURNS * node->nodes ||
	    shared->handed > node->nodes ||
	    (unsigned)__builtin_popcountll(shared->writers) != node->nodes ||
	    atomic_fetch_add(&sharing_of(node)->reported_count, 1) >= REPORTS_MAX)
		return;
	shared->reported = true;
	roami_race_name(node, (uint64_t)page * ROAMI_PAGE, name, sizeof(name));
	length = snprintf(line, sizeof(line),
			  "roam: sharing: page %p%s is written by all %u nodes, "
			  "each its own bytes\n",
			  (void *)(node->app + (uint64_t)page * ROAMI_PAGE), name, node->nodes);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

void roami_sharing_wrote(struct roami_node *node, uint32_t page, unsigned writer,
			 const uint8_t *diff, bool handed)
{
	struct roami_sharing *sharing = sharing_of(node);
	struct sharing_bytes *wrote;
	uint64_t map, mask;

	roami_contract_locked(node, page);
	sharing_use(node, page);
	sharing_note(node, page, writer, handed);
	if (sharing->wrote == NULL)
		return;
	wrote = &sharing->wrote[(size_t)page * node->nodes + writer];
	memcpy(&map, diff, sizeof(map));
	diff += sizeof(map);
	for (; map != 0; map &= map - 1) {
		memcpy(&mask, diff, sizeof(mask));
		diff += sizeof(mask) + (unsigned)__builtin_popcountll(mask);
		wrote->lines[__builtin_ctzll(map)] |= mask;
	}
}

/* ------------------------------------------------------------------------------------ the file */

/* "wrote", page, writer, "0-7,64-71": the bytes. */
static void sharing_put_bytes(FILE *file, uint32_t page, unsigned writer,
			      const struct sharing_bytes *wrote)
{
	const char *comma = "";
	uint32_t from = ROAMI_PAGE;

	fprintf(file, "wrote\t%u\t%u\t", page, writer);
	for (uint32_t byte = 0; byte <= ROAMI_PAGE; byte++) {
		bool is = byte < ROAMI_PAGE &&
			  (wrote->lines[byte / ROAMI_DIFF_LINE_BYTES] >>
				   byte % ROAMI_DIFF_LINE_BYTES & 1) != 0;

		if (is && from == ROAMI_PAGE)
			from = byte;
		if (is || from == ROAMI_PAGE)
			continue;
		fprintf(file, "%s%u-%u", comma, from, byte - 1);
		comma = ",";
		from = ROAMI_PAGE;
	}
	fputc('\n', file);
}

static void sharing_put_page(FILE *file, struct roami_node *node, uint32_t page)
{
	const struct roami_sharing *sharing = sharing_of(node);
	const struct sharing_use *use = &sharing->uses[page];
	uint64_t writers = sharing->pages[page].writers;

	if (use->read_faults != 0 || use->write_faults != 0 || use->fetches != 0)
		fprintf(file, "page\t%u\t%u\t%u\t%u\n", page, use->read_faults, use->write_faults,
			use->fetches);
	for (; writers != 0; writers &= writers - 1) {
		unsigned writer = (unsigned)__builtin_ctzll(writers);

		sharing_put_bytes(file, page, writer,
				  &sharing->wrote[(size_t)page * node->nodes + writer]);
	}
}

void roami_sharing_end(struct roami_node *node)
{
	const struct roami_sharing *sharing = sharing_of(node);
	FILE *file;

	if (sharing->wrote == NULL)
		return;
	file = roami_race_file(node, "ROAM_SHARING", node->options->sharing);
	if (file == NULL)
		return;
	for (uint32_t page = 0; page < node->layout.pages; page++) {
		if (page % CHUNK == 0 && sharing->chunks[page / CHUNK] == 0)
			page += CHUNK - 1;
		else
			sharing_put_page(file, node, page);
	}
	fclose(file);
}

const struct roami_room roami_room_sharing = {.name = "sharing",
					      .state_size = sizeof(struct roami_sharing),
					      .init = sharing_init,
					      .fini = sharing_fini};
