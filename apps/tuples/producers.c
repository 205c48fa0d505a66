/*
 * Half of the processes make -n items of 256 bytes, the other half use them; at most 16 wait.
 */
#include "tuples.h"

#define WORDS 32
#define ROOM  16

struct item {
	uint64_t word[WORDS];
};

static uint64_t checksum; /* over what this process has used */

static long producers(void)
{
	return procs / 2;
}

static void item_make(struct item *item, long number)
{
	for (unsigned i = 0; i < WORDS; i++)
		item->word[i] = noise((uint64_t)(number * WORDS) + i);
}

/* The sum of these over all items does not depend on their order. */
static uint64_t item_use(const struct item *item)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WORDS; i++)
		sum = sum * 31 + item->word[i];
	return sum;
}

/* The first item that producer or consumer `id` of `count` makes or uses. */
static long share(long id, long count)
{
	return size * id / count;
}

/* Produces or consumes this process's share. */
static void work(void (*give)(const struct item *item), void (*get)(struct item *item))
{
	long makers = producers(), users = procs - makers;
	struct item item;

	if (me < makers) {
		for (long i = share(me, makers); i < share(me + 1, makers); i++) {
			item_make(&item, i);
			give(&item);
		}
		return;
	}
	for (long i = share(me - makers, users); i < share(me - makers + 1, users); i++) {
		get(&item);
		checksum += item_use(&item);
	}
}

/* ------------------------------------------------------------------ an element of DeltaValue 16 */

static struct roam_ps_element *items;

static void tuples_begin(void)
{
	items = element("items", "u64[32]");
	must(roam_ps_delta(items, ROOM));
}

static void tuples_give(const struct item *item)
{
	must(roam_ps_move(items, item, sizeof(*item)));
}

static void tuples_get(struct item *item)
{
	must(roam_ps_observe(items, item, sizeof(*item), NULL));
}

static void tuples_work(void)
{
	work(tuples_give, tuples_get);
}

/* ----------------------------------------------------- pages: a ring, a lock and two conditions */

struct ring {
	long made, used;
	char lock, more, room; /* their addresses name them */
	struct item item[ROOM];
};

static struct ring *ring;

static void pages_give(const struct item *item)
{
	must(roam_lock(&ring->lock));
	while (ring->made - ring->used == ROOM)
		must(roam_cond_wait(&ring->room, &ring->lock));
	ring->item[ring->made++ % ROOM] = *item;
	must(roam_cond_signal(&ring->more));
	must(roam_unlock(&ring->lock));
}

static void pages_get(struct item *item)
{
	must(roam_lock(&ring->lock));
	while (ring->made == ring->used)
		must(roam_cond_wait(&ring->more, &ring->lock));
	*item = ring->item[ring->used++ % ROOM];
	must(roam_cond_signal(&ring->room));
	must(roam_unlock(&ring->lock));
}

static void pages_work(void)
{
	work(pages_give, pages_get);
}

static void set_up(void)
{
	ring = shared(sizeof(*ring));
	must(roam_lock_init(&ring->lock));
	must(roam_cond_init(&ring->more));
	must(roam_cond_init(&ring->room));
}

/* The sums of all that was used, and of all that was to be made. */
static bool right(void)
{
	int64_t used = (int64_t)checksum;
	uint64_t made = 0;
	struct item item;

	must(roam_reduce(&used, 1, ROAM_INT64, ROAM_SUM));
	for (long i = 0; i < size; i++) {
		item_make(&item, i);
		made += item_use(&item);
	}
	return (uint64_t)used == made;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "tuples-producers",
		.size = 1000,
		.size_min = 1,
		.size_max = 1000000,
		.procs_min = 2,
		.set_up = set_up,
		.right = right,
		.models = {{"tuples", tuples_begin, tuples_work}, {"pages", NULL, pages_work}},
	};

	return program_main(argc, argv, &program);
}
