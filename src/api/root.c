/*
 * Roots: blocks with names.  The table of names lies in the heap, in pages that are linked, and is
 * read and changed by plain loads and stores under one lock.  Node 0's pool of parts says where it
 * begins (home/placement.h).
 */
#include <string.h>

#include "api/api.h"
#include "home/placement.h"
#include "job/job.h"
#include "roam/roam.h"

static struct roami_job *const job = &roami_api_job;

#define AHEAD 64u /* the alignment of small blocks */

struct root {
	char name[ROAM_ROOT_NAME_MAX + 1];
	int64_t at; /* its distance from the table's first page */
	uint64_t bytes;
};

#define ROOTS ((ROAM_PAGE_SIZE - 16) / sizeof(struct root))

struct root_table {
	int64_t next; /* its distance from the first page; 0: none */
	uint64_t count;
	struct root roots[ROOTS];
};

_Static_assert(sizeof(struct root_table) <= ROAM_PAGE_SIZE, "one page");

/*
 * Where a program has no lock: below the heap, at the same address on all nodes.  Alone among the
 * calls that synchronise this one leaves an undecided program as it is, which takes no lock: until
 * then all nodes do the same.
 */
static const void *roots_lock(void)
{
	return (const void *)((uintptr_t)job->app - AHEAD);
}

static bool roots_alone(void)
{
	return roami_job_undecided(job);
}

static enum roam_err roots_enter(void)
{
	struct roami_node *node;
	uint64_t round;
	enum roam_err err = roami_api_begin();

	if (err != ROAM_OK || roots_alone())
		return err;
	err = roami_api_node(&node, &round);
	return err == ROAM_OK ? roami_api_lock(roots_lock(), UINT64_MAX) : err;
}

static enum roam_err roots_leave(void)
{
	return roots_alone() ? ROAM_OK : roami_api_unlock(roots_lock());
}

static uint64_t offset_of(const void *block)
{
	return (uint64_t)((const uint8_t *)block - job->app);
}

static struct root_table *table_first(void)
{
	uint64_t offset = roami_parts_roots(job->node, 0);

	return offset != 0 ? (void *)(job->app + offset) : NULL;
}

/* No address in the table depends on where the heap begins: other jobs may have other regions. */
static int64_t distance_of(const void *block)
{
	return (const uint8_t *)block - (const uint8_t *)table_first();
}

static struct root_table *table_next(const struct root_table *table)
{
	return table->next != 0 ? (void *)((uint8_t *)table_first() + table->next) : NULL;
}

/* The root of this name; else NULL, and *table_p: the table's last page. */
static struct root *root_find(const char *name, struct root_table **table_p)
{
	struct root_table *table = table_first();

	*table_p = table;
	for (; table != NULL; table = table_next(table)) {
		*table_p = table;
		for (uint64_t i = 0; i < table->count; i++)
			if (strcmp(table->roots[i].name, name) == 0)
				return &table->roots[i];
	}
	return NULL;
}

/* A new page of the table, behind `last` if there is one.  NULL: roam_errno. */
static struct root_table *table_add(struct root_table *last, const void *from)
{
	static const struct roam_region region = {.name = "roots"};
	struct root_table *table = roami_api_alloc(sizeof(*table), &region, from);

	if (table == NULL)
		return NULL;
	if (last != NULL)
		last->next = distance_of(table);
	else
		roami_parts_roots(job->node, offset_of(table));
	return table;
}

/*
 * A root does not begin where its block does, so that roam_free refuses it; it is aligned all the
 * same.
 */
static size_t root_ahead(size_t bytes)
{
	return bytes < ROAM_PAGE_SIZE ? AHEAD : ROAM_PAGE_SIZE;
}

/* NULL: roam_errno. */
static struct root *root_make(const char *name, size_t bytes, struct root_table *table,
			      const void *from)
{
	struct roam_region region = {.name = name};
	size_t ahead = root_ahead(bytes);
	struct root_table *last = table;
	struct root *root;
	uint8_t *block;

	if (table == NULL || table->count == ROOTS)
		table = table_add(table, from);
	if (table == NULL)
		return NULL;
	block = roami_api_alloc(bytes + ahead, &region, from);
	if (block == NULL)
		return NULL;
	root = &table->roots[table->count++];
	strcpy(root->name, name);
	root->at = distance_of(block + ahead);
	root->bytes = bytes;
	if (last != NULL && last != table)
		roami_stored_root(job, roami_parts_roots(job->node, 0), last);
	roami_stored_root(job, roami_parts_roots(job->node, 0), table);
	return root;
}

/* With the lock.  NULL: roam_errno. */
static void *root_of(const char *name, size_t bytes, enum roam_access access, const void *from)
{
	struct root_table *last;
	struct root *root = root_find(name, &last);

	if (root == NULL && access == ROAM_WRITE) {
		root = root_make(name, bytes, last, from);
	} else if (root == NULL) {
		roami_api_errno(ROAM_EUNKNOWN);
	} else if (root->bytes != bytes && (access == ROAM_WRITE || bytes != 0)) {
		roami_api_errno(ROAM_EMISMATCH);
		root = NULL;
	}
	return root != NULL ? (uint8_t *)table_first() + root->at : NULL;
}

static bool root_fits(const char *name, size_t bytes, enum roam_access access)
{
	return name != NULL && name[0] != '\0' &&
	       strnlen(name, ROAM_ROOT_NAME_MAX + 1) <= ROAM_ROOT_NAME_MAX &&
	       bytes <= SIZE_MAX - ROAM_PAGE_SIZE &&
	       (access == ROAM_READ || (access == ROAM_WRITE && bytes > 0));
}

void *roam_root(const char *name, size_t bytes, enum roam_access access)
{
	INSIDE;
	enum roam_err err = root_fits(name, bytes, access) ? roots_enter() : ROAM_EINVAL;
	void *block;

	if (err != ROAM_OK) {
		roami_api_errno(err);
		return NULL;
	}
	block = root_of(name, bytes, access, CALLER);
	err = roots_leave();
	if (err == ROAM_OK)
		return block;
	roami_api_errno(err);
	return NULL;
}
