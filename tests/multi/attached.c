/*
 * A program that is attached to `roam past serve`, for attached.py.
 * attached ADDRESS MODE [ARGUMENT]...
 *	all [job]       every operation, right and wrong, by several threads; the server is one
 *	                server, or a job
 *	attach          attaches, no more; says what went wrong, and its status is the error
 *	loop OP         does an operation again and again, and writes the number of times it was
 *	                done to stdout after each
 *	check OP DONE   what that has left behind, if it was killed
 *	wait HOW        waits in an operation, in four threads, and says what that returned
 *	waiting N       returns once N operations wait at the element "wait"
 *	move N          moves N tuples to it, which do not wait
 *	..., -sum, -alone: the same at the elements "wait sum", "alone"
 *	rate N          moves to the element "rated" and observes N times a second, until its
 *	                standard input ends; says how often it was
 *	named NAME      enters an element
 *	rest            what waits there, and how many tuples nobody has observed
 */
#include "multi.h"

#include <poll.h>
#include <pthread.h>
#include <roam/pastset.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define THREADS 8u
#define TASKS   400u
#define WAITERS 4u
#define SECOND  1000000000u

static struct roam_ps_server *server;
static bool of_job;

static struct roam_ps_element *enter(const char *name, const char *template_text,
				     const struct roam_ps_options *options)
{
	struct roam_ps_element *element = NULL;

	must(roam_ps_enter_at(server, name, template_text, options, &element));
	return element;
}

static struct roam_ps_state state_of(struct roam_ps_element *element)
{
	struct roam_ps_state state;

	must(roam_ps_state(element, &state));
	return state;
}

static void nap(void)
{
	nanosleep(&(struct timespec){0, 2000000}, NULL);
}

/* ------------------------------------------------------------------------------------------ all */

static void *bag_take(void *arg)
{
	struct roam_ps_element *bag = arg;
	uint64_t task = 1, sum = 0;

	while (task != 0) {
		must(roam_ps_observe(bag, &task, sizeof(task), NULL));
		sum += task;
	}
	return (void *)(uintptr_t)sum;
}

static void bag(void)
{
	struct roam_ps_options options = {.delta = 5};
	struct roam_ps_element *element = enter("bag", "u64", &options);
	pthread_t threads[THREADS];
	uint64_t sum = 0;

	for (unsigned i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, bag_take, element) == 0);
	for (uint64_t task = TASKS + THREADS; task > 0; task--) {
		uint64_t left = task > THREADS ? task - THREADS : 0;

		must(roam_ps_move(element, &left, sizeof(left)));
	}
	for (unsigned i = 0; i < THREADS; i++) {
		void *part;

		pthread_join(threads[i], &part);
		sum += (uintptr_t)part;
	}
	check(sum == (uint64_t)TASKS * (TASKS + 1) / 2);
	roam_ps_leave(element);
}

/* Tests tuples of all sizes, and which of them an observe gets. */
static void sizes(void)
{
	struct roam_ps_element *element = enter(NULL, "u8[ ]", NULL), *other = NULL;
	uint8_t *out = calloc(1, ROAM_PS_TUPLE_MAX), *in = malloc(ROAM_PS_TUPLE_MAX);
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE, .buffer = in};
	uint32_t count = ROAM_PS_TUPLE_MAX - 4;
	size_t bytes;

	check(strcmp(roam_ps_template(element), "u8[]") == 0);
	check(of_job || roam_ps_node(element) == 0);
	for (uint32_t i = 4; i < ROAM_PS_TUPLE_MAX; i++)
		out[i] = (uint8_t)(i * 7);
	memcpy(out, &count, sizeof(count));
	must(roam_ps_mob(element, out, ROAM_PS_TUPLE_MAX, element, in, ROAM_PS_TUPLE_MAX, &bytes));
	check(bytes == ROAM_PS_TUPLE_MAX && memcmp(in, out, bytes) == 0);
	count = 10;
	memcpy(out, &count, sizeof(count));
	must(roam_ps_move(element, out, 14));
	must_fail(roam_ps_move(element, out, 15), ROAM_EINVAL);
	must_fail(roam_ps_observe(element, in, 13, &bytes), ROAM_ETOOBIG);
	check(bytes == 14 && state_of(element).first == 2);
	request.limit = 14;
	request.which = ROAM_PS_NUMBER;
	request.number = 2;
	request.flags = ROAM_PS_PEEK;
	must(roam_ps_call(element, &request));
	check(request.observed == 2 && request.got == 14 && state_of(element).first == 2);
	must(roam_ps_truncate(element, 2));
	request.number = 1;
	must_fail(roam_ps_call(element, &request), ROAM_EGONE);
	request.which = ROAM_PS_NEXT;
	request.number = 0;
	must(roam_ps_call(element, &request));
	check(request.observed == 2 && request.skipped);
	request.flags = 8;
	must_fail(roam_ps_call(element, &request), ROAM_EINVAL);
	must_fail(roam_ps_enter_at(server, "u8[]", "u16", NULL, &other), ROAM_EMISMATCH);
	check(strstr(roam_ps_why(), "has the template u8[], not u16") != NULL);
	must_fail(roam_ps_enter_at(server, "x", "u8[", NULL, &other), ROAM_EINVAL);
	must_fail(roam_ps_enter_at(server, "x", "u8",
				   &(struct roam_ps_options){.storage = ROAM_PS_PAGES}, &other),
		  ROAM_EINVAL);
	must_fail(roam_ps_enter_at(server, "x", "u8",
				   &(struct roam_ps_options){.place = ROAM_PS_NODE, .node = 64},
				   &other),
		  ROAM_EINVAL);
	check(strstr(roam_ps_why(), "there is no node 64, the job has ") != NULL);
	check(other == NULL);
	must(roam_ps_enter_at(server, "placed", "u8",
			      &(struct roam_ps_options){.place = ROAM_PS_NODE}, &other));
	check(roam_ps_node(other) == 0);
	roam_ps_leave(other);
	roam_ps_leave(element);
	free(out);
	free(in);
}

static struct roam_ps_cancel cancel;

static void *cancelled(void *arg)
{
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE, .cancel = &cancel};

	must_fail(roam_ps_call(arg, &request), ROAM_ECANCELED);
	return NULL;
}

/* Tests timeouts, DeltaValue, and threads that are cancelled. */
static void waits(void)
{
	struct roam_ps_options options = {.delta = 1};
	struct roam_ps_element *element = enter("waits", "u8", &options);
	uint8_t byte = 7;
	struct roam_ps_request move = {
		.op = ROAM_PS_MOVE, .tuple = &byte, .bytes = 1, .timeout_ns = 20000000};
	struct roam_ps_request mob = {.op = ROAM_PS_MOB,
				      .tuple = &byte,
				      .bytes = 1,
				      .which = ROAM_PS_NUMBER,
				      .number = 5,
				      .buffer = &byte,
				      .limit = 1,
				      .timeout_ns = 20000000};
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, cancelled, element) == 0);
	while (state_of(element).waiting < THREADS)
		nap();
	roam_ps_cancel(&cancel);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	check(state_of(element).waiting == 0);
	must(roam_ps_call(element, &move));
	must_fail(roam_ps_call(element, &move), ROAM_ETIMEDOUT);
	move.timeout_ns = ROAM_PS_TRY;
	must_fail(roam_ps_call(element, &move), ROAM_ETIMEDOUT);
	must_fail(roam_ps_delta(element, 0), ROAM_EINVAL);
	must(roam_ps_delta(element, 2));
	must_fail(roam_ps_call(element, &mob), ROAM_ETIMEDOUT);
	check(mob.moved == 2 && mob.observed == 0 && state_of(element).waiting == 0);
	roam_ps_leave(element);
}

/* Each thread is a participant. */
static void *reduce(void *arg)
{
	static const char *const functions[] = {"sum", "longest"};
	uint64_t mine = 1 + (uint64_t)(uintptr_t)arg, word;

	for (unsigned f = 0; f < 2; f++) {
		struct roam_ps_options options = {.function = functions[f],
						  .participants = THREADS};
		struct roam_ps_element *element = enter(functions[f], "u64", &options);

		for (unsigned round = 1; round <= 30; round++) {
			word = mine + round;
			must(roam_ps_mob(element, &word, 8, NULL, &word, 8, NULL));
			check(word == (f == 0 ? THREADS * round + THREADS * (THREADS + 1) / 2
					      : THREADS + round));
		}
		roam_ps_leave(element);
	}
	return NULL;
}

/* The server's filter: the oldest tuple with the pattern's remainder. */
static void filter(void)
{
	struct roam_ps_options options = {.function = "alike"};
	struct roam_ps_element *element = enter("alike", "u8", &options);
	uint8_t byte;
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .which = ROAM_PS_MATCH,
					  .number = 3,
					  .tuple = &byte,
					  .bytes = 1,
					  .buffer = &byte,
					  .limit = 1,
					  .timeout_ns = ROAM_PS_TRY};

	for (byte = 0; byte < 9; byte++)
		must(roam_ps_move(element, &byte, 1));
	for (unsigned i = 0; i < 9; i++) {
		byte = (uint8_t)(102 - i / 3);
		must(roam_ps_call(element, &request));
		check(byte == (3 - i / 3) % 3 + i % 3 * 3);
	}
	byte = 0;
	must_fail(roam_ps_call(element, &request), ROAM_ETIMEDOUT);
	roam_ps_leave(element);
}

/* Many equal bytes take little room; a few bytes take as much as they are. */
static void bitmaps(void)
{
	struct roam_ps_options options = {.function = "bitmap"};
	struct roam_ps_element *element = enter("bitmap", "u8[50000]", &options);
	uint8_t *out = calloc(2, 50000), *in = out + 50000;

	for (unsigned i = 0; i < 50; i++) {
		memset(out, (int)i, 40000);
		must(roam_ps_move(element, out, 50000));
	}
	check(state_of(element).bytes < 50 * 1000);
	for (unsigned i = 0; i < 50; i++) {
		memset(out, (int)i, 40000);
		must(roam_ps_observe(element, in, 50000, NULL));
		check(memcmp(in, out, 50000) == 0);
	}
	roam_ps_leave(element);
	element = enter("small bitmap", "u8", &options);
	must(roam_ps_mob(element, &(uint8_t){7}, 1, element, in, 1, NULL));
	check(in[0] == 7);
	roam_ps_leave(element);
	free(out);
}

static void functions(void)
{
	struct roam_ps_options options = {.function = "none", .participants = 2};
	struct roam_ps_element *element = NULL;
	pthread_t threads[THREADS];

	must_fail(roam_ps_enter_at(server, "none", "u8", &options, &element), ROAM_EUNKNOWN);
	for (uintptr_t i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, reduce, (void *)i) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	filter();
	bitmaps();
}

static void all(void)
{
	struct roam_ps_element *element;
	uint8_t byte = 0;

	bag();
	sizes();
	waits();
	functions();
	element = enter("after", "u8", NULL);
	roam_ps_detach(server);
	must_fail(roam_ps_move(element, &byte, 1), ROAM_ELOST);
	roam_ps_leave(element);
}

/* ---------------------------------------------------------------------------------------- loops */

static void loop_once(const char *op, struct roam_ps_element *element, uint64_t count)
{
	uint64_t word = count;
	struct roam_ps_request cancels = {.op = ROAM_PS_OBSERVE,
					  .which = ROAM_PS_NUMBER,
					  .number = UINT64_MAX,
					  .cancel = &cancel};

	if (strcmp(op, "move") == 0) {
		must(roam_ps_move(element, &word, 8));
	} else if (strcmp(op, "observe") == 0) {
		must(roam_ps_observe(element, &word, 8, NULL));
		check(word == count);
	} else if (strcmp(op, "mob") == 0) {
		must(roam_ps_mob(element, &word, 8, NULL, &word, 8, NULL));
		check(word == count);
	} else if (strcmp(op, "delta") == 0) {
		must(roam_ps_delta(element, count));
	} else if (strcmp(op, "truncate") == 0) {
		must(roam_ps_truncate(element, count));
	} else if (strcmp(op, "state") == 0) {
		check(state_of(element).last == 0);
	} else if (strcmp(op, "cancel") == 0) {
		roam_ps_cancel(&cancel);
		must_fail(roam_ps_call(element, &cancels), ROAM_ECANCELED);
	} else {
		roam_ps_leave(enter(op, "u64", NULL));
	}
}

#define LOOP_TUPLES 100000u

static void loop(const char *op)
{
	struct roam_ps_element *element = enter(op, "u64", NULL);

	if (strcmp(op, "observe") == 0 || strcmp(op, "truncate") == 0)
		for (uint64_t i = 1; i <= LOOP_TUPLES / 10; i++)
			must(roam_ps_move(element, &i, 8));
	for (uint64_t count = 1; count < LOOP_TUPLES; count++) {
		loop_once(op, element, count);
		check(write(STDOUT_FILENO, &count, sizeof(count)) == sizeof(count));
		if (count == LOOP_TUPLES / 10 - 1)
			pause();
	}
}

/* Checks an operation that was acknowledged `done` times; it may have been done once more. */
static void loop_check(const char *op, uint64_t done)
{
	struct roam_ps_element *element = enter(op, "u64", NULL);
	struct roam_ps_state state = state_of(element);

	for (unsigned i = 0; i < 500 && state_of(element).waiting != 0; i++)
		nap();
	check(state_of(element).waiting == 0);
	if (strcmp(op, "move") == 0 || strcmp(op, "mob") == 0)
		check(state.last == done || state.last == done + 1);
	if (strcmp(op, "observe") == 0 || strcmp(op, "mob") == 0)
		check(state.first == done + 1 || state.first == done + 2);
	if (strcmp(op, "delta") == 0)
		check(state.delta == done || state.delta == done + 1);
	if (strcmp(op, "truncate") == 0)
		check(state.oldest == done || state.oldest == done + 1);
	for (uint64_t i = state.oldest; i <= state.last; i += 97) {
		uint64_t word = 0;
		struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
						  .which = ROAM_PS_NUMBER,
						  .number = i,
						  .flags = ROAM_PS_PEEK,
						  .buffer = &word,
						  .limit = 8};

		must(roam_ps_call(element, &request));
		check(word == i);
	}
}

/* -------------------------------------------------------------------------------------- waiting */

static const char *wait_how;
static struct roam_ps_element *wait_element, *wait_sum;

static void *wait_one(void *arg)
{
	uint64_t word = 1;
	enum roam_err err;

	if (strcmp(wait_how, "observe") == 0)
		err = roam_ps_observe(wait_element, &word, 8, NULL);
	else if (strcmp(wait_how, "move") == 0)
		err = roam_ps_move(wait_element, &word, 8);
	else if (strcmp(wait_how, "mob") == 0)
		err = roam_ps_call(wait_element, &(struct roam_ps_request){.op = ROAM_PS_MOB,
									   .which = ROAM_PS_NUMBER,
									   .number = 1u << 30,
									   .tuple = &word,
									   .bytes = 8,
									   .buffer = &word,
									   .limit = 8});
	else
		err = roam_ps_mob(wait_sum, &word, 8, NULL, &word, 8, NULL);
	printf("%s\n", roam_strerror(err));
	return arg;
}

static void waiting(const char *how)
{
	struct roam_ps_options options = {.function = "sum", .participants = 2};
	bool sum = strcmp(how, "sum") == 0;
	unsigned count = sum ? 1 : WAITERS;
	pthread_t threads[WAITERS];

	wait_how = how;
	wait_element = enter("wait", "u64", NULL);
	if (sum)
		wait_sum = enter("wait sum", "u64", &options);
	for (unsigned i = 0; i < count; i++)
		check(pthread_create(&threads[i], NULL, wait_one, NULL) == 0);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void element_do(const char *mode, uint64_t count)
{
	bool sum = strstr(mode, "-sum") != NULL, alone = strstr(mode, "-alone") != NULL;
	struct roam_ps_options options = {.function = "sum", .participants = 2};
	struct roam_ps_element *element = enter(sum ? "wait sum" : alone ? "alone" : "wait",
						"u64", sum ? &options : NULL);
	struct roam_ps_state state;

	if (strcmp(mode, "delta") == 0) {
		must(roam_ps_delta(element, count));
	} else if (strncmp(mode, "move", 4) == 0) {
		while (count-- > 0)
			must(roam_ps_call(element,
					  &(struct roam_ps_request){.op = ROAM_PS_MOVE,
								    .tuple = &count,
								    .bytes = 8,
								    .timeout_ns = 2u * SECOND}));
	} else if (strcmp(mode, "rest") == 0) {
		state = state_of(element);
		printf("%lu %lu\n", (unsigned long)state.waiting,
		       (unsigned long)(state.last + 1 - state.first));
	} else {
		for (unsigned i = 0; i < 1000 && state_of(element).waiting != count; i++)
			nap();
		check(state_of(element).waiting == count);
	}
}

static void rate(unsigned wanted)
{
	struct roam_ps_element *element = enter("rated", "u64", NULL);
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t start = roam_clock_us(), count = 0, word = 0;

	do {
		must(roam_ps_mob(element, &word, 8, element, &word, 8, NULL));
		count++;
		while (roam_clock_us() - start < count * 1000000 / wanted &&
		       poll(&input, 1, 1) == 0)
			continue;
	} while (poll(&input, 1, 0) == 0);
	printf("%.1f\n", (double)count * 1e6 / (double)(roam_clock_us() - start));
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[2] : "", *what = argc > 3 ? argv[3] : "";
	enum roam_err err;

	check(argc > 2);
	err = roam_ps_attach(argv[1], NULL, &server);
	if (err != ROAM_OK) {
		fprintf(stderr, "%s\n", roam_ps_why());
		return (int)err;
	}
	of_job = strcmp(what, "job") == 0;
	if (strcmp(mode, "all") == 0)
		all();
	else if (strcmp(mode, "loop") == 0)
		loop(what);
	else if (strcmp(mode, "check") == 0)
		loop_check(what, strtoull(argv[4], NULL, 10));
	else if (strcmp(mode, "wait") == 0)
		waiting(what);
	else if (strcmp(mode, "rate") == 0)
		rate(number(what));
	else if (strcmp(mode, "named") == 0)
		enter(what, "u64", NULL);
	else if (strcmp(mode, "attach") != 0)
		element_do(mode, strtoull(what, NULL, 10));
	return 0;
}
