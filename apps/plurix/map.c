/*
 * A hash map with chains.  Every process puts, gets and removes keys of its own -n times, and knows
 * what it must find; one operation of a hundred counts at a key of all.
 */
#include "plurix.h"

#define BUCKETS 512u
#define KEYS    400u /* of a process */
#define COMMON  8u   /* keys of all */
#define SHARE   100

struct entry {
	struct entry *next;
	uint64_t key, value;
};

static struct entry **buckets;
static uint64_t mine[KEYS]; /* what this process has put; 0: it is not there */

struct op {
	uint64_t key, value; /* 0: not there */
};

static struct entry **find(uint64_t key)
{
	struct entry **at = &buckets[noise(key) % BUCKETS];

	while (*at != NULL && (*at)->key != key)
		at = &(*at)->next;
	return at;
}

static void get(void *arg)
{
	struct op *op = arg;
	struct entry *entry = *find(op->key);

	op->value = entry != NULL ? entry->value : 0;
}

static void set(void *arg)
{
	const struct op *op = arg;
	struct entry **at = find(op->key);

	if (*at == NULL) {
		*at = shared(sizeof(**at));
		(*at)->key = op->key;
	}
	(*at)->value = op->value;
}

static void cut(void *arg)
{
	const struct op *op = arg;
	struct entry **at = find(op->key), *entry = *at;

	if (entry == NULL)
		return;
	*at = entry->next;
	must(roam_free(entry));
}

static void count(void *arg)
{
	struct op op = *(const struct op *)arg;

	get(&op);
	op.value++;
	set(&op);
}

static long wrong;

static uint64_t own_key(unsigned number)
{
	return COMMON + (uint64_t)number * (uint64_t)procs + (uint64_t)me;
}

static void turn(uint64_t *random)
{
	unsigned number = (unsigned)draw(random, KEYS);
	uint64_t which = draw(random, 4);
	struct op op = {own_key(number), 0};

	if (which == 0) {
		op.value = mine[number] = draw(random, 1000000) + 1;
		step(set, &op);
	} else if (which == 1) {
		mine[number] = 0;
		step(cut, &op);
	} else {
		step(get, &op);
		wrong += op.value != mine[number];
	}
}

static void work(void)
{
	uint64_t random = (uint64_t)me + 1;

	for (long i = 0; i < size; i++) {
		struct op op = {(uint64_t)i / SHARE % COMMON, 0};

		if (i % SHARE == 0)
			step(count, &op);
		else
			turn(&random);
	}
}

static void set_up(void)
{
	buckets = shared(BUCKETS * sizeof(struct entry *));
}

/* All entries that are there, in one step. */
static void total(void *arg)
{
	struct op *op = arg;

	op->value = 0;
	for (unsigned i = 0; i < BUCKETS; i++)
		for (const struct entry *entry = buckets[i]; entry != NULL; entry = entry->next)
			if (entry->key >= COMMON &&
			    (entry->key - COMMON) % (uint64_t)procs == (uint64_t)me)
				op->value++;
}

static bool right(void)
{
	uint64_t counted = 0, there = 0;
	struct op op;

	for (op.key = 0; op.key < COMMON; op.key++) {
		step(get, &op);
		counted += op.value;
	}
	for (unsigned number = 0; number < KEYS; number++) {
		op.key = own_key(number);
		step(get, &op);
		wrong += op.value != mine[number];
		there += mine[number] != 0;
	}
	step(total, &op);
	return wrong == 0 && op.value == there &&
	       counted == (uint64_t)procs * (uint64_t)((size + SHARE - 1) / SHARE);
}

int main(int argc, char **argv)
{
	static const struct program map = {
		.name = "plurix-map",
		.size = 2000,
		.size_min = 1,
		.size_max = 10000000,
		.procs_min = 1,
		.set_up = set_up,
		.right = right,
		.models = PLURIX_MODELS(work),
	};

	return program_main(argc, argv, &map);
}
