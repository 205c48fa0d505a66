/*
 * A sorted tree.  Every process inserts and removes keys of its own -n times, and looks for the
 * next larger key of any process; at the end the tree is sorted and has what each has left there.
 */
#include "plurix.h"

#define KEYS  512u /* of a process */
#define DEPTH 4096u

struct branch {
	struct branch *child[2]; /* smaller, larger */
	uint64_t key;
};

static struct branch **root;
static bool mine[KEYS];
static long wrong;

/* Where the key is, or would be. */
static struct branch **find(uint64_t key)
{
	struct branch **at = root;

	while (*at != NULL && (*at)->key != key)
		at = &(*at)->child[key > (*at)->key];
	return at;
}

static void insert(void *arg)
{
	struct branch **at = find(*(const uint64_t *)arg);

	if (*at != NULL)
		return;
	*at = shared(sizeof(**at));
	(*at)->key = *(const uint64_t *)arg;
}

/* A branch with two children is replaced by the next larger one. */
static void cut(void *arg)
{
	struct branch **at = find(*(const uint64_t *)arg), *old = *at, **next;

	if (old == NULL)
		return;
	if (old->child[0] == NULL || old->child[1] == NULL) {
		*at = old->child[old->child[0] == NULL];
	} else {
		struct branch *heir;

		for (next = &old->child[1]; (*next)->child[0] != NULL;)
			next = &(*next)->child[0];
		heir = *next;
		*next = heir->child[1];
		heir->child[0] = old->child[0];
		heir->child[1] = old->child[1];
		*at = heir;
	}
	must(roam_free(old));
}

struct walk {
	uint64_t from, found; /* the smallest key above; 0: none */
	uint64_t own;
	bool sorted;
};

static void above(void *arg)
{
	struct walk *walk = arg;

	walk->found = 0;
	for (const struct branch *at = *root; at != NULL;) {
		bool larger = at->key > walk->from;

		if (larger)
			walk->found = at->key;
		at = at->child[!larger];
	}
}

/* All of it, in order. */
static void whole(void *arg)
{
	static const struct branch *path[DEPTH];
	struct walk *walk = arg;
	uint64_t last = 0;
	unsigned depth = 0;

	walk->own = 0;
	walk->sorted = true;
	for (const struct branch *at = *root; at != NULL || depth > 0;) {
		if (at != NULL && depth < DEPTH) {
			path[depth++] = at;
			at = at->child[0];
			continue;
		}
		walk->sorted &= at == NULL && path[depth - 1]->key > last;
		last = path[--depth]->key;
		walk->own += last % (uint64_t)procs == (uint64_t)me;
		at = path[depth]->child[1];
	}
}

/* The number's bits are mixed, so that the tree is not a list; key % procs is the process. */
static uint64_t own_key(unsigned number)
{
	return ((noise(number) >> 20) + 1) * (uint64_t)procs + (uint64_t)me;
}

static void work(void)
{
	uint64_t random = (uint64_t)me + 1;

	for (long i = 0; i < size; i++) {
		unsigned number = (unsigned)draw(&random, KEYS);
		struct walk walk = {.from = own_key(number) - 1};

		uint64_t key = own_key(number);

		if (draw(&random, 3) == 0) {
			step(above, &walk);
			wrong += (walk.found == key) != mine[number];
			continue;
		}
		mine[number] = !mine[number];
		step(mine[number] ? insert : cut, &key);
	}
}

static void set_up(void)
{
	root = shared(sizeof(struct branch *));
}

static bool right(void)
{
	struct walk walk;
	uint64_t there = 0;

	for (unsigned number = 0; number < KEYS; number++)
		there += mine[number];
	step(whole, &walk);
	return wrong == 0 && walk.sorted && walk.own == there;
}

int main(int argc, char **argv)
{
	static const struct program tree = {
		.name = "plurix-tree",
		.size = 1000,
		.size_min = 1,
		.size_max = 10000000,
		.procs_min = 1,
		.set_up = set_up,
		.right = right,
		.models = PLURIX_MODELS(work),
	};

	return program_main(argc, argv, &tree);
}
