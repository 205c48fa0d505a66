/*
 * Shows what a touched page costs beside its bytes: with a million pages touched, at most 64 bytes
 * each (page entry, the protocol's word, header, directory, list of sharers), by the resident set
 * of the whole process.  The engine of this test opens pages without touching them, so the million
 * pages themselves take no memory; copies that the protocol makes are given back at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "page/page.h"
#include "run/open.h"
#include "run/wait.h"
#include "unit.h"

#define PAGES     (1u << 20)
#define BATCH     1024u /* pages of copies kept at most */
#define BYTES_MAX 48u /* of the core; 64 with the default protocol's part */
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
		.near = UINT64_MAX,
	};

	roami_real_init(&pair->reals[me], NODES, 1, 20, 0);
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
		/* Otherwise one byte of a huge page would count as two megabytes. */
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

/* This process's resident memory, without pages of files. */
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

/* Touches the first `count` pages on one node; copies of their bytes do not stay. */
static void touch_all(struct roami_node *node, bool write, uint32_t count)
{
	for (uint32_t page = 0; page < count; page++) {
		if (roami_page_access(node, page) == ROAM_NONE)
			roami_fault(node, page, write, true);
		if (page % BATCH == BATCH - 1)
			madvise(roami_page_bytes(node, page + 1 - BATCH), BATCH * ROAMI_PAGE,
				MADV_DONTNEED);
	}
}

static bool is_default(const struct roam_protocol *protocol)
{
	static struct roami_options options;

	roami_options_default(&options);
	return strcmp(options.protocol, protocol->name) == 0;
}

static void check_touch(struct roami_node *node, bool write, uint32_t count, const char *what)
{
	/* Not counted: twins, and what a protocol keeps of every node's writes. */
	uint64_t before = resident_bytes(), bytes, twins = pages_of(node)->twins.fresh,
		 most = BYTES_MAX + node->protocol->page_size +
			NODES * node->protocol->page_node_size;

	if (is_default(node->protocol) || node->protocol->homes == ROAM_HOMES_TAKEN)
		CU_ASSERT(most <= 64);
	touch_all(node, write, count);
	bytes = resident_bytes() - before - (pages_of(node)->twins.fresh - twins) * ROAMI_PAGE;
	printf("\n%s: node %u %s %u pages: %.1f bytes each", node->protocol->name, node->me, what,
	       count, (double)bytes / count);
	for (uint32_t page = 0; page < count; page++)
		if (roami_page_access(node, page) == ROAM_NONE)
			CU_FAIL_FATAL("a page that was not opened");
	CU_ASSERT(bytes > sizeof(struct roami_page) * count); /* this is what was measured */
	CU_ASSERT(bytes <= most * count);
}

static void test_protocol(const struct roam_protocol *protocol)
{
	/*
	 * The other protocols cost as much for each page, and with messages of their own they are
	 * slow.
	 */
	uint32_t count = is_default(protocol) ? PAGES : PAGES / 16;
	uint64_t before = resident_bytes();
	struct pair *pair = malloc(sizeof(*pair));

	pair_open(pair, protocol);
	CU_ASSERT(resident_bytes() - before < 16u << 20); /* nothing but what is touched */
	check_touch(pair->nodes[0], true, count, "is first to touch");
	if (roami_service_start(pair->nodes[0]) != ROAM_OK)
		abort();
	check_touch(pair->nodes[1], false, count, "fetches");
	roami_service_stop(pair->nodes[0]);
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
