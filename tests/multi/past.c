/*
 * PastSet on real processes and threads: a bag of tasks that every thread of every node takes from,
 * tuples to and fro between nodes out of shared memory, thousands of elements, bad input, and what
 * was entered before CREATE.
 * past START NODES [PART]
 *	START  fork: roam_create_all; run: under roam run
 *	PART   5: a fifth of the tasks, tuples and elements
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <time.h>
#include <unistd.h>

#define TASKS     (1500u / part)
#define THREADS   4u
#define ROUNDS    (60u / part)
#define ELEMENTS  2000u
#define ENTERED   (ELEMENTS / part)
#define TUPLE_MAX 31000u
#define MANY      100000u
#define AWAY_MAX  1024u

static unsigned nodes;
static unsigned part = 1;
static uint8_t *shared; /* in the heap: two tuples for each node */
static struct roam_ps_element *early;

static struct roam_ps_element *enter(const char *name, const char *template_text,
				     const struct roam_ps_options *options)
{
	struct roam_ps_element *element = NULL;

	must(roam_ps_enter(name, template_text, options, &element));
	return element;
}

/* ---------------------------------------------------------------------------------- X-functions */

static void longest(void *arg, void *sum, const void *tuple, size_t bytes)
{
	check(bytes == 8 && arg == &nodes);
	if (memcmp(tuple, sum, bytes) > 0)
		memcpy(sum, tuple, bytes);
}

/* A mob that does not wait still moves; its result goes to the next observe, and rounds go on. */
static void reduction_late(struct roam_ps_element *element)
{
	unsigned late = 0;

	for (int64_t round = 1; round <= 200; round++) {
		int64_t value = round;
		struct roam_ps_request request = {.op = ROAM_PS_MOB,
						  .tuple = &value,
						  .bytes = sizeof(value),
						  .buffer = &value,
						  .limit = sizeof(value),
						  .timeout_ns = ROAM_PS_TRY};
		enum roam_err err = roam_ps_call(element, &request);

		check(request.moved == (uint64_t)round);
		if (err != ROAM_OK) {
			check(err == ROAM_ETIMEDOUT && request.observed == 0);
			must(roam_ps_observe(element, &value, sizeof(value), NULL));
			late++;
		}
		check(value == round * nodes);
	}
	check(late < 200 || nodes > 1);
	roam_ps_leave(element);
}

/* The program's own filter: values greater by at least so much. */
static bool above(void *arg, uint64_t number, const void *pattern, size_t pattern_bytes,
		  const void *tuple, size_t tuple_bytes)
{
	uint64_t least, value;

	check(arg == &nodes && pattern_bytes == 8 && tuple_bytes == 8);
	memcpy(&least, pattern, 8);
	memcpy(&value, tuple, 8);
	return value >= least + number;
}

/* Each node moves tuples and takes one that matches; the others stay for a request of less. */
static void filter(void)
{
	struct roam_ps_function own = {.name = "above", .match = above, .arg = &nodes};
	struct roam_ps_options options = {.function = "above"};
	struct roam_ps_element *element;
	uint64_t word = 5;
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .which = ROAM_PS_MATCH,
					  .number = 10,
					  .tuple = &word,
					  .bytes = 8,
					  .buffer = &word,
					  .limit = 8};

	must_fail(roam_ps_register(&(struct roam_ps_function){.name = "none"}), ROAM_EINVAL);
	must(roam_ps_register(&own));
	own.combine = longest;
	must_fail(roam_ps_register(&own), ROAM_EINVAL);
	must(roam_barrier_all());
	element = enter("above", "u64", &options);
	for (word = 14; word < 16; word++)
		must(roam_ps_move(element, &word, 8));
	word = 5;
	must(roam_ps_call(element, &request));
	check(word == 15);
	must(roam_ps_observe(element, &word, 8, NULL));
	check(word == 14);
	must(roam_barrier_all());
	request.timeout_ns = ROAM_PS_TRY;
	must_fail(roam_ps_call(element, &request), ROAM_ETIMEDOUT);
	roam_ps_leave(element);
}

/* Bitmaps of a few dots, with some noise, take little room and come back unchanged. */
static void bitmaps(void)
{
	struct roam_ps_options options = {.function = "bitmap", .place = ROAM_PS_CREATOR};
	char name[32];
	uint8_t *out = calloc(2, ROAM_PS_TUPLE_MAX), *in = out + ROAM_PS_TUPLE_MAX;
	uint32_t bytes = ROAM_PS_TUPLE_MAX - 4, seed = roam_node();
	struct roam_ps_element *element;
	struct roam_ps_state state;
	struct roam_ps_request observe = {.op = ROAM_PS_OBSERVE,
					  .which = ROAM_PS_NUMBER,
					  .buffer = in,
					  .timeout_ns = ROAM_PS_TRY};

	snprintf(name, sizeof(name), "bitmap %u", roam_node());
	roam_ps_leave(enter(name, "u8[]", &options));
	must(roam_barrier_all());
	snprintf(name, sizeof(name), "bitmap %u", (roam_node() + 1) % nodes);
	element = enter(name, "u8[]", &options);
	memcpy(out, &bytes, 4);
	for (unsigned i = 1; i <= 100; i++) {
		out[4 + i * 600] = (uint8_t)i;
		must(roam_ps_move(element, out, ROAM_PS_TUPLE_MAX));
	}
	must(roam_ps_state(element, &state));
	check(state.last == 100 && state.bytes < 100 * 2000);
	for (unsigned i = 4; i < ROAM_PS_TUPLE_MAX; i++)
		out[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
	must(roam_ps_mob(element, out, ROAM_PS_TUPLE_MAX, element, in, ROAM_PS_TUPLE_MAX, NULL));
	observe.number = 101;
	observe.limit = 1000;
	must_fail(roam_ps_call(element, &observe), ROAM_ETOOBIG);
	check(observe.got == ROAM_PS_TUPLE_MAX);
	observe.limit = ROAM_PS_TUPLE_MAX;
	must(roam_ps_call(element, &observe));
	check(observe.got == ROAM_PS_TUPLE_MAX && memcmp(in, out, ROAM_PS_TUPLE_MAX) == 0);
	memset(out + 4, 0, bytes);
	for (unsigned i = 1; i <= 100; i++) {
		out[4 + i * 600] = (uint8_t)i;
		observe.number = i;
		must(roam_ps_call(element, &observe));
		check(observe.got == ROAM_PS_TUPLE_MAX && memcmp(in, out, observe.got) == 0);
	}
	must_fail(roam_ps_move(element, out, 100), ROAM_EINVAL);
	roam_ps_leave(element);
	must(roam_barrier_all());
	free(out);
}

/*
 * Global reductions by functions of the library and of the program; a node asks for another
 * function.
 */
static void reductions(void)
{
	struct roam_ps_options options = {.function = "sum", .participants = nodes};
	struct roam_ps_function own = {.name = "longest", .combine = longest, .arg = &nodes};
	struct roam_ps_element *sum, *own_element, *other = NULL;
	uint64_t word = 0;

	must_fail(roam_ps_register(NULL), ROAM_EINVAL);
	must(roam_ps_register(&own));
	must(roam_barrier_all());
	reduction_late(enter("late", "i64", &options));
	sum = enter("sum", "i64, f64", &options);
	options.function = "longest";
	own_element = enter("longest", "u8[8]", &options);
	for (unsigned round = 1; round <= 500; round++) {
		struct {
			int64_t whole;
			double real;
		} pair = {roam_node() + round, roam_node() * 0.5};

		must(roam_ps_mob(sum, &pair, sizeof(pair), NULL, &pair, sizeof(pair), NULL));
		check(pair.whole == nodes * round + nodes * (nodes - 1) / 2);
		check(pair.real == 0.25 * nodes * (nodes - 1));
		word = (roam_node() + round) % nodes;
		must(roam_ps_mob(own_element, &word, 8, NULL, &word, 8, NULL));
		check(word == nodes - 1);
	}
	must_fail(roam_ps_enter("unknown", "i64",
				&(struct roam_ps_options){.function = "sums", .participants = 2},
				&other),
		  ROAM_EUNKNOWN);
	check(strstr(roam_ps_why(), "knows no X-function sums") != NULL);
	options.participants++;
	must_fail(roam_ps_enter("longest", "u8[8]", &options, &other), ROAM_EMISMATCH);
	check(strstr(roam_ps_why(), "has the X-function \"longest\" of") != NULL);
	options.function = "and";
	must_fail(roam_ps_enter("real", "f64", &options, &other), ROAM_EINVAL);
	check(strstr(roam_ps_why(), "and is not for the template f64") != NULL);
	options.participants = 0;
	must_fail(roam_ps_enter("none", "i64", &options, &other), ROAM_EINVAL);
	must_fail(roam_ps_enter("sum", "i64, f64", NULL, &other), ROAM_EMISMATCH);
	check(other == NULL);
	roam_ps_leave(sum);
	roam_ps_leave(own_element);
}

/* ------------------------------------------------------------------------------- a bag of tasks */

static void *bag_take(void *arg)
{
	struct roam_ps_element *bag = arg;
	uint64_t *sum = calloc(1, sizeof(*sum)), task = 0;

	do {
		size_t bytes;

		must(roam_ps_observe(bag, &task, sizeof(task), &bytes));
		check(bytes == sizeof(task));
		*sum += task;
	} while (task != 0); /* one last task for each thread */
	return sum;
}

static void bag(const char *name, enum roam_ps_storage storage)
{
	struct roam_ps_options options = {.delta = 50, .storage = storage, .forget = true};
	struct roam_ps_element *element = enter(name, "u64", &options);
	pthread_t threads[THREADS];
	int64_t sum = 0;

	for (unsigned i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, bag_take, element) == 0);
	for (uint64_t task = TASKS + nodes * THREADS; roam_node() == 0 && task > 0; task--) {
		uint64_t left = task > nodes * THREADS ? task - nodes * THREADS : 0;

		must(roam_ps_move(element, &left, sizeof(left)));
	}
	for (unsigned i = 0; i < THREADS; i++) {
		void *some;

		pthread_join(threads[i], &some);
		sum += (int64_t) * (uint64_t *)some;
		free(some);
	}
	must(roam_reduce(&sum, 1, ROAM_INT64, ROAM_SUM));
	check(sum == (int64_t)TASKS * (TASKS + 1) / 2);
	roam_ps_leave(element);
}

/* ------------------------------------------------------------------------------ to and fro, mob */

/* Node `me` and the next one exchange tuples out of and into the heap, of all sizes. */
static void exchange_with(unsigned first, unsigned second, enum roam_ps_place place,
			  enum roam_ps_storage storage)
{
	unsigned me = roam_node();
	struct roam_ps_options options = {.place = place, .delta = 1, .storage = storage};
	char names[2][32];
	struct roam_ps_element *to, *from;
	uint8_t *out = shared + 2 * me * TUPLE_MAX, *in = out + TUPLE_MAX;

	snprintf(names[0], sizeof(names[0]), "%u to %u, %u %u", first, second, place, storage);
	snprintf(names[1], sizeof(names[1]), "%u to %u, %u %u", second, first, place, storage);
	to = enter(names[me != first], "u8[]", &options);
	from = enter(names[me == first], "u8[]", &options);
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint32_t count = round * (TUPLE_MAX - 4) / (ROUNDS - 1);
		size_t bytes;

		memcpy(out, &count, sizeof(count));
		memset(out + 4, (int)(me + round), count);
		must(roam_ps_mob(to, out, 4 + count, from, in, TUPLE_MAX, &bytes));
		check(bytes == 4 + count && memcmp(in, &count, 4) == 0);
		for (uint32_t i = 0; i < count; i++)
			check(in[4 + i] == (uint8_t)(first + second - me + round));
	}
	roam_ps_leave(to);
	roam_ps_leave(from);
}

static void exchange(void)
{
	for (unsigned i = 0; i < 6; i++)
		if (roam_node() == 0 || roam_node() == nodes - 1)
			exchange_with(0, nodes - 1, (enum roam_ps_place)(i / 2),
				      (enum roam_ps_storage)(i % 2));
	must(roam_barrier_all());
}

/* ----------------------------------------------------------------------------------------- many */

/* Every node leaves its number in every element; each node finds all numbers in some elements. */
static void many_elements(void)
{
	static struct roam_ps_element *elements[ELEMENTS];
	char name[32];

	for (unsigned i = 0; i < ENTERED; i++) {
		uint32_t me = roam_node();

		snprintf(name, sizeof(name), "element %u", i);
		elements[i] = enter(name, "u32", NULL);
		must(roam_ps_move(elements[i], &me, sizeof(me)));
	}
	for (unsigned i = roam_node(); i < ENTERED; i += nodes) {
		uint64_t seen = 0;

		for (unsigned k = 0; k < nodes; k++) {
			uint32_t who;

			must(roam_ps_observe(elements[i], &who, sizeof(who), NULL));
			seen |= 1ull << who;
		}
		check(seen == (1ull << nodes) - 1);
	}
	for (unsigned i = 0; i < ENTERED; i++)
		roam_ps_leave(elements[i]);
	must(roam_barrier_all());
}

/* A long element, which another node reads by number while it grows. */
static void many_tuples(void)
{
	struct roam_ps_element *element = enter("long", "u32, u8[]",
						&(struct roam_ps_options){.place = ROAM_PS_NODE});
	struct roam_ps_state state;
	uint8_t tuple[64] = {0};

	for (uint32_t i = 1; roam_node() == 0 && i <= MANY; i++) {
		uint32_t count = i % 50;

		memcpy(tuple, &i, 4);
		memcpy(tuple + 4, &count, 4);
		must(roam_ps_move(element, tuple, 8 + count));
	}
	for (uint32_t i = 1 + roam_node(); roam_node() != 0 && i <= MANY; i += MANY / 500) {
		struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
						  .which = ROAM_PS_NUMBER,
						  .number = i,
						  .buffer = tuple,
						  .limit = sizeof(tuple)};

		must(roam_ps_call(element, &request));
		check(memcmp(tuple, &i, 4) == 0 && request.got == 8 + i % 50);
	}
	must(roam_barrier_all());
	must(roam_ps_state(element, &state));
	check(state.last == MANY && state.oldest == 1 && state.waiting == 0);
	must(roam_barrier_all());
	if (roam_node() == nodes - 1)
		must(roam_ps_truncate(element, UINT64_MAX));
	must(roam_barrier_all());
	must(roam_ps_state(element, &state));
	check(state.first == MANY + 1 && state.oldest == MANY + 1 && state.bytes == 0);
	roam_ps_leave(element);
}

/* ------------------------------------------------------------------------------------ bad input */

static void enter_fails(const char *name, const char *text, const struct roam_ps_options *options,
			enum roam_err err, const char *why)
{
	struct roam_ps_element *element = NULL;

	must_fail(roam_ps_enter(name, text, options, &element), err);
	check(element == NULL && strstr(roam_ps_why(), why) != NULL);
}

static void bad_enters(void)
{
	char name[ROAM_PS_NAME_MAX + 2];

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	enter_fails("bad", "i32, f65", NULL, ROAM_EINVAL, "character 6: no type");
	enter_fails("", "i32", NULL, ROAM_EINVAL, "a name has 1 to 255 bytes");
	enter_fails(name, "i32", NULL, ROAM_EINVAL, "a name has 1 to 255 bytes");
	enter_fails("bad", NULL, NULL, ROAM_EINVAL, "");
	enter_fails("bad", "i32", &(struct roam_ps_options){.place = (enum roam_ps_place)9},
		    ROAM_EINVAL, "no such place as 9");
	enter_fails("bad", "i32", &(struct roam_ps_options){.place = ROAM_PS_NODE, .node = nodes},
		    ROAM_EINVAL, "there is no node");
	roam_ps_leave(enter("typed", "i32, f64[3]", NULL));
	roam_ps_leave(enter("typed", " i32,f64[ 3 ]", NULL));
	enter_fails("typed", "i32, f64[4]", NULL, ROAM_EMISMATCH,
		    "element typed has the template i32,f64[3], not i32,f64[4]");
	roam_ps_leave(NULL);
}

static void bad_operations(void)
{
	struct roam_ps_element *element = enter(NULL, "u8[]",
						&(struct roam_ps_options){.place = ROAM_PS_NODE});
	static uint8_t tuple[ROAM_PS_TUPLE_MAX + 8];
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE, .timeout_ns = ROAM_PS_TRY};
	uint32_t count = ROAM_PS_TUPLE_MAX - 4;
	size_t bytes;

	if (roam_node() != nodes - 1)
		return;
	check(strcmp(roam_ps_template(element), "u8[]") == 0 && roam_ps_node(element) == 0);
	must_fail(roam_ps_call(NULL, &request), ROAM_EINVAL);
	must_fail(roam_ps_call(element, NULL), ROAM_EINVAL);
	must_fail(roam_ps_call(element, &request), ROAM_ETIMEDOUT);
	memcpy(tuple, &count, 4);
	must_fail(roam_ps_move(element, tuple, 5), ROAM_EINVAL);
	must_fail(roam_ps_move(element, NULL, 4), ROAM_EINVAL);
	must_fail(roam_ps_move(element, tuple, sizeof(tuple)), ROAM_ETOOBIG);
	must(roam_ps_move(element, tuple, ROAM_PS_TUPLE_MAX));
	must_fail(roam_ps_observe(element, tuple, 100, &bytes), ROAM_ETOOBIG);
	check(bytes == ROAM_PS_TUPLE_MAX);
	must(roam_ps_observe(element, tuple, sizeof(tuple), &bytes));
	check(bytes == ROAM_PS_TUPLE_MAX);
	must_fail(roam_ps_delta(element, 0), ROAM_EINVAL);
	must_fail(roam_ps_state(element, NULL), ROAM_EINVAL);
	request.which = ROAM_PS_NUMBER;
	must_fail(roam_ps_call(element, &request), ROAM_EINVAL);
	request.number = 1;
	request.flags = ROAM_PS_SKIP;
	must_fail(roam_ps_call(element, &request), ROAM_EINVAL);
	must(roam_ps_truncate(element, 2));
	request.flags = 0;
	must_fail(roam_ps_call(element, &request), ROAM_EGONE);
	request.op = (enum roam_ps_op)77;
	must_fail(roam_ps_call(element, &request), ROAM_EINVAL);
	request = (struct roam_ps_request){.op = ROAM_PS_MOVE, .tuple = tuple, .bytes = 4};
	memset(tuple, 0, 4);
	for (request.flags = ROAM_PS_SKIP << 1; request.flags != 0; request.flags <<= 1)
		must_fail(roam_ps_call(element, &request), ROAM_EINVAL);
	request.which = (enum roam_ps_which)9;
	must_fail(roam_ps_call(element, &request), ROAM_EINVAL);
	roam_ps_leave(element);
}

/* ----------------------------------------------------------------------------- time, cancelling */

static void *cancel_soon(void *arg)
{
	usleep(30000);
	roam_ps_cancel(arg);
	return NULL;
}

/* An observe that waits in vain ends in time, by a timeout or by another thread. */
static void ends(unsigned node)
{
	struct roam_ps_options options = {.place = ROAM_PS_NODE, .node = node};
	struct roam_ps_element *element = enter(node == 0 ? "idle 0" : "idle 1", "u8", &options);
	struct roam_ps_cancel cancel = {0};
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE, .timeout_ns = 50000000};
	uint64_t begun = roam_clock_us();
	pthread_t thread;

	must_fail(roam_ps_call(element, &request), ROAM_ETIMEDOUT);
	check(roam_clock_us() - begun >= 50000);
	request.timeout_ns = 0;
	request.cancel = &cancel;
	check(pthread_create(&thread, NULL, cancel_soon, &cancel) == 0);
	must_fail(roam_ps_call(element, &request), ROAM_ECANCELED);
	must_fail(roam_ps_call(element, &request), ROAM_ECANCELED);
	pthread_join(thread, NULL);
	roam_ps_leave(element);
}

static struct roam_ps_cancel crowd_cancel;

static void *crowd_one(void *arg)
{
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE, .cancel = &crowd_cancel};
	enum roam_err err;

	do
		err = roam_ps_call(arg, &request);
	while (err == ROAM_EAGAIN);
	check(err == ROAM_ECANCELED);
	return NULL;
}

/* Operations of a node under way at another one: one too many is refused, the others go on. */
static void crowd(void)
{
	struct roam_ps_options options = {.place = ROAM_PS_NODE, .node = 0};
	struct roam_ps_element *element = enter("crowd", "u8", &options);
	static pthread_t threads[AWAY_MAX];
	struct roam_ps_state state;
	pthread_attr_t small;
	enum roam_err err = ROAM_OK;

	must(roam_barrier_all());
	if (roam_node() != 1)
		return;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64u << 10);
	for (unsigned i = 0; i < AWAY_MAX; i++)
		check(pthread_create(&threads[i], &small, crowd_one, element) == 0);
	while (err == ROAM_OK)
		err = roam_ps_state(element, &state);
	check(err == ROAM_EAGAIN);
	roam_ps_cancel(&crowd_cancel);
	for (unsigned i = 0; i < AWAY_MAX; i++)
		pthread_join(threads[i], NULL);
	must(roam_ps_state(element, &state));
	check(state.waiting == 0);
	roam_ps_leave(element);
}

/* The memory for tuples is bounded; observed tuples may be dropped. */
static void full(void)
{
	struct roam_ps_options options = {.place = ROAM_PS_CREATOR, .forget = true};
	struct roam_ps_element *element;
	static uint8_t tuple[16384];
	uint32_t count = sizeof(tuple) - 4;
	enum roam_err err = ROAM_OK;
	struct roam_ps_state state;

	if (roam_node() != 0)
		return;
	element = enter("full", "u8[]", &options);
	memcpy(tuple, &count, 4);
	while (err == ROAM_OK)
		err = roam_ps_move(element, tuple, sizeof(tuple));
	check(err == ROAM_ENOSPC);
	must(roam_ps_state(element, &state));
	check(state.bytes > 4u << 20 && state.bytes < 32u << 20);
	must(roam_ps_observe(element, tuple, sizeof(tuple), NULL));
	for (unsigned i = 0; i < 8; i++)
		must(roam_ps_observe(element, tuple, sizeof(tuple), NULL));
	must(roam_ps_move(element, tuple, sizeof(tuple)));
	must(roam_ps_state(element, &state));
	check(state.oldest > 1 && state.oldest <= state.first);
	must(roam_ps_truncate(element, UINT64_MAX));
	roam_ps_leave(element);
}

static void node_main(void)
{
	uint8_t byte = 1;

	nodes = roam_nodes();
	bag("bag", ROAM_PS_SERVER);
	bag("bag of pages", ROAM_PS_PAGES);
	exchange();
	reductions();
	filter();
	bitmaps();
	many_elements();
	many_tuples();
	bad_enters();
	bad_operations();
	ends(0);
	ends(1);
	full();
	if (nodes == 2 && early != NULL)
		crowd();
	if (early != NULL)
		must_fail(roam_ps_move(early, &byte, 1), ROAM_ESTATE);
	must(roam_barrier_all());
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return WRONG;
	if (argc > 3)
		part = number(argv[3]);
	setenv("ROAM_PS_MEMORY", "32M", 1);
	must(roam_start());
	shared = must_alloc(2 * number(argv[2]) * TUPLE_MAX);
	if (strcmp(argv[1], "fork") == 0) {
		uint8_t byte = 7;

		early = enter("early", "u8", NULL);
		must(roam_ps_mob(early, &byte, 1, early, &byte, 1, NULL));
		must(roam_create_all(node_main, number(argv[2])));
		must(roam_wait_for_end());
		must_fail(roam_ps_move(early, &byte, 1), ROAM_ESTATE);
	} else {
		node_main();
	}
	if (roam_node() == 0)
		printf("tuples right\n");
	must(roam_finish());
	return 0;
}
