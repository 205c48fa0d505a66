/*
 * Shows that a named block is one block, whichever node asks for it first.  Each node asks for
 * many, in an order of its own, and counts itself in each under a lock.  roots START NODES; START
 * fork: roam_create_all, whose nodes end and are created again; create: roam_create_all under roam
 * run; run: roam_start under roam run.
 */
#include "multi.h"

#include <stdint.h>

#define ROOTS 150u /* more than two pages of the table have */
#define LONG  "a name of forty-seven bytes, which is the limit"

_Static_assert(sizeof(LONG) - 1 == ROAM_ROOT_NAME_MAX, "the limit");

struct root {
	const struct root *self;
	uint64_t count;
	uint32_t once;
};

static unsigned nodes, ended; /* rounds */
static struct root *early;

/* Some are smaller than a page, some are pages, and one is a block of whole parts. */
static size_t bytes_of(unsigned i)
{
	return i == 7 ? (size_t)1 << 20 : sizeof(struct root) + i * 61;
}

static struct root *root(unsigned i, enum roam_access access)
{
	char name[24];
	struct root *found;

	snprintf(name, sizeof(name), "root %u", i);
	found = roam_root(name, bytes_of(i), access);
	if (found == NULL)
		must(roam_errno());
	check((uintptr_t)found % (bytes_of(i) < ROAM_PAGE_SIZE ? 64 : ROAM_PAGE_SIZE) == 0);
	return found;
}

static void all_zero(const struct root *made, unsigned i)
{
	const uint8_t *bytes = (const uint8_t *)made;

	for (size_t at = 0; at < bytes_of(i); at++)
		check(bytes[at] == 0);
}

static void joins(unsigned i)
{
	struct root *found = root(i, ROAM_WRITE);

	must(roam_lock(found));
	if (found->count == 0) {
		all_zero(found, i);
		found->self = found;
	}
	check(found->self == found);
	found->count++;
	must(roam_unlock(found));
}

static void fills(void)
{
	early->count++;
}

static void refused(void)
{
	char longer[ROAM_ROOT_NAME_MAX + 2];

	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	check(roam_root(NULL, 8, ROAM_WRITE) == NULL && roam_errno() == ROAM_EINVAL);
	check(roam_root("", 8, ROAM_WRITE) == NULL && roam_errno() == ROAM_EINVAL);
	check(roam_root(longer, 8, ROAM_WRITE) == NULL && roam_errno() == ROAM_EINVAL);
	check(roam_root("none", 0, ROAM_WRITE) == NULL && roam_errno() == ROAM_EINVAL);
	check(roam_root("none", 8, ROAM_NONE) == NULL && roam_errno() == ROAM_EINVAL);
	check(roam_root("none", SIZE_MAX, ROAM_WRITE) == NULL && roam_errno() == ROAM_EINVAL);
	check(roam_root("none", (size_t)1 << 50, ROAM_WRITE) == NULL &&
	      roam_errno() == ROAM_ENOMEM);
	check(roam_root("none", 8, ROAM_READ) == NULL && roam_errno() == ROAM_EUNKNOWN);
	check(roam_root("early", 8, ROAM_WRITE) == NULL && roam_errno() == ROAM_EMISMATCH);
	check(roam_root("early", 8, ROAM_READ) == NULL && roam_errno() == ROAM_EMISMATCH);
	check(roam_root("early", 0, ROAM_READ) == early);
	check(roam_root(LONG, 8, ROAM_READ) != NULL);
	must_fail(roam_free(early), ROAM_ENOTOURS);
	must_fail(roam_free(root(149, ROAM_READ)), ROAM_ENOTOURS);
}

static void node_main(void)
{
	unsigned first = roam_node() * 31 % ROOTS, step = roam_node() % 2 == 0 ? 1 : ROOTS - 1;

	check(roam_root("early", sizeof(*early), ROAM_WRITE) == early);
	for (unsigned i = 0; i < ROOTS; i++)
		joins((first + i * step) % ROOTS);
	must(roam_once(&early->once, fills));
	must(roam_barrier_all());
	check(early->count == 1);
	for (unsigned i = 0; i < ROOTS; i++) {
		const struct root *found = root(i, ROAM_READ);

		check(found->self == found && found->count == (uint64_t)nodes * (ended + 1));
	}
	must(roam_barrier_all());
	refused();
	must(roam_barrier_all());
}

/* Before there are nodes; the value is of a node that goes on. */
static void begin(void)
{
	early = roam_root("early", sizeof(*early), ROAM_WRITE);
	check(early != NULL && early->self == NULL);
	early->self = early;
	check(roam_root(LONG, 8, ROAM_WRITE) != NULL);
	check(roam_root("early", sizeof(*early), ROAM_WRITE) == early);
}

int main(int argc, char **argv)
{
	check(argc == 3);
	nodes = number(argv[2]);
	begin();
	if (strcmp(argv[1], "fork") == 0) {
		for (; ended < 2; ended++) {
			must(roam_create_all(node_main, nodes));
			must(roam_wait_for_end());
			check(early->self == early && early->once == 1);
			check(root(3, ROAM_READ)->count == (uint64_t)nodes * (ended + 1));
		}
	} else if (strcmp(argv[1], "create") == 0) {
		must(roam_create_all(node_main, nodes)); /* what a launcher has started */
		must(roam_wait_for_end());
	} else {
		must(roam_start());
		node_main();
	}
	must(roam_finish());
	check(roam_root("early", 0, ROAM_READ) == NULL && roam_errno() == ROAM_ESTATE);
	printf("roots right\n");
	return 0;
}
