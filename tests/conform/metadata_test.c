/*
 * Shows what a touched page costs beside its bytes: with a million pages touched, at most 64 bytes
 * each (page entry, the protocol's word, header, directory, list of sharers), by the resident set
 * of the whole process.  The engine here opens pages without touching them, so the million pages
 * themselves take no memory; copies that the protocol makes are given back at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/page.h"
#include "core/wait.h"
#include "unit.h"

#define PAGES     (1u << 20)
#define BATCH     1024u /* pages of copies kept at most */
#define BYTES_MAX 64u
#define NODES     2u

extern const struct roam_transport roami_transport_shm;

/* --------------------------------------------------------------------------------- two nodes */

struct pair {
	struct roami_options options;
	struct roami_layout layout;
	void *bases[NODES];
	struct roami_real reals[NODES];
	struct roami_node *nodes[NODES];
};

static void pair_failed(struct roami_node *node, const char *text)
{
	fprintf(stderr, "node %u: %s\n", node->me, text);
	abort();
}

static void pair_open_node(struct pair *pair, const struct roam_protocol *protocol, unsigned me)
{
	struct roami_node_params params = {
		.me = me,
		.nodes = NODES,
		.options = &pair->options,
		.env = &roami_env_real,
		.env_state = &pair->reals[me],
		.protocol = protocol,
		.engine = &roami_fault_plain,
		.transport = &roami_transport_shm,
		.layout = pair->layout,
		.bases = pair->bases,
		.app = (uint8_t *)pair->bases[me] + pair->layout.heap,
		.fd = -1,
		.onesided = true,
	};

	roami_real_init(&pair->reals[me], NODES, 20, 0);
	pair->reals[me].on_fail = pair_failed;
	if (roami_node_open(&pair->nodes[me], &params) != ROAM_OK)
		abort();
}

static void pair_open(struct pair *pair, const struct roam_protocol *protocol)
{
	memset(pair, 0, sizeof(*pair));
	roami_options_default(&pair->options);
	roami_layout_make(&pair->layout, (size_t)PAGES * ROAMI_PAGE, NODES);
	for (unsigned i = 0; i < NODES; i++) {
		pair->bases[i] = roami_os_reserve(pair->layout.total);
		if (pair->bases[i] == NULL)
			abort();
		/* Or one byte of a huge page would count as two megabytes. */
		madvise(pair->bases[i], pair->layout.total, MADV_NOHUGEPAGE);
	}
	for (unsigned i = 0; i < NODES; i++)
		pair_open_node(pair, protocol, i);
}

static void pair_close(struct pair *pair)
{
	for (unsigned i = 0; i < NODES; i++)
		roami_node_close(pair->nodes[i]);
	for (unsigned i = 0; i < NODES; i++)
		roami_os_unmap(pair->bases[i], pair->layout.total);
}

/* -------------------------------------------------------------------------------- measuring */

/* Bytes of this process in memory, files' pages apart. */
static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long kb, sum = 0, found = 0;
	char line[200];

	if (file == NULL)
		abort();
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "RssAnon: %lu kB", &kb) == 1 ||
		    sscanf(line, "RssShmem: %lu kB", &kb) == 1) {
			sum += kb;
			found++;
		}
	fclose(file);
	CU_ASSERT_EQUAL(found, 2);
	return (uint64_t)sum << 10;
}

/* Touches all pages of the heap on one node; copies of their bytes do not stay. */
static void touch_all(struct roami_node *node, bool write)
{
	for (uint32_t page = 0; page < PAGES; page++) {
		if (roami_page_access(node, page) == ROAM_NONE)
			roami_fault(node, page, write, true);
		if (page % BATCH == BATCH - 1)
			madvise(roami_page_bytes(node, page + 1 - BATCH), BATCH * ROAMI_PAGE,
				MADV_DONTNEED);
	}
}

/* A protocol that keeps a page's state per node of the job takes that, and the page's entry. */
static uint64_t bytes_max(const struct roami_node *node)
{
	if (node->protocol->page_node_size == 0)
		return BYTES_MAX;
	return sizeof(struct roami_page) + roami_page_state_bytes(node) + 1;
}

static void check_touch(struct roami_node *node, bool write, const char *what)
{
	uint64_t before = resident_bytes(), bytes;

	touch_all(node, write);
	bytes = resident_bytes() - before;
	printf("\n%s: node %u %s %u pages: %.1f bytes each", node->protocol->name, node->me, what,
	       PAGES, (double)bytes / PAGES);
	for (uint32_t page = 0; page < PAGES; page++)
		if (roami_page_access(node, page) == ROAM_NONE)
			CU_FAIL_FATAL("a page that was not opened");
	CU_ASSERT(bytes > sizeof(struct roami_page) * PAGES); /* it is what was measured */
	CU_ASSERT(bytes <= bytes_max(node) * PAGES);
}

static void test_protocol(const struct roam_protocol *protocol)
{
	uint64_t before = resident_bytes();
	struct pair *pair = malloc(sizeof(*pair));

	pair_open(pair, protocol);
	CU_ASSERT(resident_bytes() - before < 16u << 20); /* nothing but what is touched */
	/* Where there is no home a write takes a twin. */
	check_touch(pair->nodes[0], !protocol->keeps_twins, "is first to touch");
	/* Without one-sided fetches each page would be a message: as costly in memory, but slow. */
	if (protocol->writes == ROAM_WRITES_DIFF && protocol->messages == NULL)
		check_touch(pair->nodes[1], false, "fetches");
	pair_close(pair);
	free(pair);
}

static void test_metadata(void)
{
	for (unsigned i = 0; roami_protocols[i] != NULL; i++)
		test_protocol(roami_protocols[i]);
	printf("\n");
}

static CU_TestInfo tests[] = {
	{"at most 64 bytes per touched page", test_metadata},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("metadata", tests, argc, argv);
}
