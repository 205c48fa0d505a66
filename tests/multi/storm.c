/*
 * A program that is attached to `roam past serve` over connections that are cut, for
 * replay.py: what its threads see must be as if none had been cut.
 * storm ADDRESS MODE [ARGUMENT]...
 *	histories SEED ROUNDS   random operations on one element after the other; what was seen of
 *	                        each must have an explanation (tests/lib/history.h); says of how
 *	                        many it is not known whether they were done
 *	flood BYTES TUPLES      movers, observers and mobs, tuples of so many bytes: each to one
 *	                        observer, under the number that its mover was told
 *	rounds COUNT            participants of an X-function
 *	timed-rounds COUNT      rounds with limits of time: a participant out of time asks again
 *	participant             says "waiting", takes part in a round for 300 ms; what that and
 *	                        other operations return; the rest of it after a line from stdin
 *	wait                    says "waiting", observes one tuple, says what that returned
 *	timed                   observes, too, but cancels it after a line from stdin; what the next
 *	                        operations return, the last ones after another line
 *	pause                   moves a tuple, says "moved", and another after a line from stdin;
 *	                        says what that returned
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "history.h"
#include "rng.h"

#define THREADS 4u
#define LINKS   2u /* attachments that the threads share */
#define EACH    8u /* operations of a thread in a round */

static const char *address;
static struct roam_ps_server *servers[LINKS];

static struct roam_ps_element *enter(unsigned link, const char *name, const char *template_text,
				     const struct roam_ps_options *options)
{
	struct roam_ps_element *element = NULL;

	must(roam_ps_enter_at(servers[link], name, template_text, options, &element));
	return element;
}

/* It is no more than an error to be cut off before the attach has succeeded. */
static void attach(unsigned link)
{
	enum roam_err err;

	do
		err = roam_ps_attach(address, NULL, &servers[link]);
	while (err == ROAM_ELOST || err == ROAM_EPROTO);
	must(err);
}

static void threads_run(unsigned count, void *(*work)(void *))
{
	pthread_t threads[4 * THREADS];

	for (uintptr_t i = 0; i < count; i++)
		check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

/* ------------------------------------------------------------------------------------ histories */

static struct history history;
static pthread_mutex_t history_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t history_clock;
static struct roam_ps_cancel cancels[THREADS];
static uint64_t round_seed;
static char round_name[32];

static void event_do(unsigned thread, struct roam_ps_element *element,
		     struct roam_ps_request *request, uint64_t value)
{
	struct history_event *event, *second = NULL;
	uint64_t got = 0;
	enum roam_err err;

	pthread_mutex_lock(&history_lock);
	if (request->op == ROAM_PS_MOB)
		event = history_begin_mob(&history, &history, ++history_clock, thread, request,
					  &second);
	else
		event = history_begin(&history, ++history_clock, thread, request);
	pthread_mutex_unlock(&history_lock);
	request->tuple = &value;
	request->bytes = sizeof(value);
	request->buffer = &got;
	request->limit = sizeof(got);
	request->cancel = &cancels[thread];
	err = roam_ps_call(element, request);
	check(err == ROAM_OK || err == ROAM_ETIMEDOUT || err == ROAM_ECANCELED ||
	      err == ROAM_EGONE || err == ROAM_ELOST);
	pthread_mutex_lock(&history_lock);
	history_end(event, second, ++history_clock, request, err, value, got);
	pthread_mutex_unlock(&history_lock);
}

static void *history_thread(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg;
	struct rng rng = {round_seed + thread};
	struct roam_ps_element *element = enter(thread % LINKS, round_name, "u64", NULL);
	struct roam_ps_request request;

	for (unsigned i = 0; i < EACH; i++) {
		history_draw(&rng, &request);
		request.timeout_ns = rng_one_in(&rng, 3) ? ROAM_PS_TRY
							 : 1 + rng_below(&rng, 3000000);
		event_do(thread, element, &request, (uint64_t)(thread + 1) << 32 | i);
		if (rng_one_in(&rng, 8))
			roam_ps_cancel(&cancels[rng_below(&rng, THREADS)]);
		__atomic_store_n(&cancels[thread].cancelled, 0, __ATOMIC_SEQ_CST);
	}
	roam_ps_leave(element);
	return NULL;
}

static void histories(uint64_t seed, unsigned rounds)
{
	unsigned unsure = 0, most = 0;
	double began;

	for (unsigned i = 0; i < rounds; i++) {
		round_seed = seed + THREADS * i;
		snprintf(round_name, sizeof(round_name), "history %u", i);
		memset(&history, 0, sizeof(history));
		history.delta = UINT64_MAX;
		began = now_ms();
		threads_run(THREADS, history_thread);
		/*
		 * After a second without a connection the library gives up what it could not send.
		 */
		if (now_ms() - began > 900)
			history_doubt_waits(&history);
		history_trim(&history);
		unsure += history.unsure;
		most += history.unsure > HISTORY_UNSURE_MAX;
		if (history.unsure > HISTORY_UNSURE_MAX || history_explained(&history))
			continue;
		history_print(&history);
		fprintf(stderr, "round %u has no explanation\n", i);
		exit(1);
	}
	check(most <= rounds / 2);
	printf("%u\n", unsure);
}

/* ---------------------------------------------------------------------------------------- flood */

static size_t flood_bytes;
static char flood_template[32];
static uint64_t flood_tuples, flood_total;
static _Atomic uint64_t *flood_value, *flood_seen; /* No tuple's number is returned twice. */

/* No tuple's number is returned twice. */
static void flood_note(_Atomic uint64_t *at, uint64_t number, uint64_t value)
{
	check(number >= 1 && number <= flood_total);
	check(atomic_exchange(&at[number], value) == 0);
}

static void flood_fill(uint8_t *tuple, uint64_t value)
{
	memset(tuple, (int)(value % 251), flood_bytes);
	memcpy(tuple, &value, sizeof(value));
}

static void flood_got(const uint8_t *tuple, const struct roam_ps_request *request)
{
	uint64_t value;

	memcpy(&value, tuple, sizeof(value));
	check(request->got == flood_bytes);
	for (size_t i = sizeof(value); i < flood_bytes; i++)
		check(tuple[i] == value % 251);
	flood_note(flood_seen, request->observed, value);
}

/* Of four threads one moves, two observe half of the tuples each, and one does both. */
static void *flood_thread(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg, kind = thread % 4;
	struct roam_ps_element *element = enter(thread % LINKS, "flood", flood_template, NULL);
	struct roam_ps_request request = {.op = kind == 0   ? ROAM_PS_MOVE
						: kind == 3 ? ROAM_PS_MOB
							    : ROAM_PS_OBSERVE};
	uint64_t count = kind == 1 || kind == 2 ? flood_tuples / 2 : flood_tuples, value;
	uint8_t *out = malloc(flood_bytes), *in = malloc(flood_bytes);

	for (uint64_t i = 1; i <= count; i++) {
		value = (uint64_t)(thread + 1) << 32 | i;
		flood_fill(out, value);
		request.tuple = out;
		request.bytes = flood_bytes;
		request.buffer = in;
		request.limit = flood_bytes;
		must(roam_ps_call(element, &request));
		if (kind == 0 || kind == 3)
			flood_note(flood_value, request.moved, value);
		if (kind != 0)
			flood_got(in, &request);
	}
	free(out);
	free(in);
	roam_ps_leave(element);
	return NULL;
}

static void flood(size_t bytes, uint64_t tuples)
{
	const unsigned threads = 4 * THREADS;
	struct roam_ps_element *element;
	struct roam_ps_state state;

	flood_bytes = bytes;
	flood_tuples = tuples;
	flood_total = threads / 4 * 2 * tuples;
	flood_value = calloc(flood_total + 1, sizeof(*flood_value));
	flood_seen = calloc(flood_total + 1, sizeof(*flood_seen));
	snprintf(flood_template, sizeof(flood_template), "u8[%zu]", bytes);
	threads_run(threads, flood_thread);
	element = enter(0, "flood", flood_template, NULL);
	must(roam_ps_state(element, &state));
	check(state.last == flood_total && state.first == flood_total + 1 && state.waiting == 0);
	for (uint64_t i = 1; i <= flood_total; i++)
		check(flood_value[i] != 0 && flood_value[i] == flood_seen[i]);
}

/* --------------------------------------------------------------------------------------- rounds */

static unsigned rounds_count;
static uint64_t rounds_timeout_ns; /* 0: none */
static _Atomic unsigned rounds_unsure;

/* Repeats an operation whose time is up, which must be done once all the same. */
static void rounds_do(struct roam_ps_element *element, enum roam_ps_op op, uint64_t *word)
{
	struct roam_ps_request request = {.op = op,
					  .tuple = word,
					  .bytes = sizeof(*word),
					  .buffer = word,
					  .limit = sizeof(*word),
					  .timeout_ns = rounds_timeout_ns};
	enum roam_err err;

	while ((err = roam_ps_call(element, &request)) != ROAM_OK) {
		check(rounds_timeout_ns != 0 && (err == ROAM_ETIMEDOUT || err == ROAM_ELOST));
		rounds_unsure += err == ROAM_ELOST;
		if (request.moved != 0)
			request.op = ROAM_PS_OBSERVE;
	}
}

/* Takes part by mob, or by move and observe. */
static void *rounds_thread(void *arg)
{
	struct roam_ps_options options = {.function = "sum", .participants = THREADS};
	unsigned thread = (unsigned)(uintptr_t)arg;
	struct roam_ps_element *element = enter(thread % LINKS, "rounds", "u64", &options);

	for (uint64_t round = 1; round <= rounds_count; round++) {
		uint64_t word = round + thread;

		if (thread < THREADS / 2) {
			rounds_do(element, ROAM_PS_MOB, &word);
		} else {
			rounds_do(element, ROAM_PS_MOVE, &word);
			rounds_do(element, ROAM_PS_OBSERVE, &word);
		}
		check(word == THREADS * round + THREADS * (THREADS - 1) / 2);
	}
	roam_ps_leave(element);
	return NULL;
}

/* ---------------------------------------------------------------------------------------- alone */

static void alone(bool waits)
{
	struct roam_ps_element *element = enter(0, "alone", "u64", NULL);
	uint64_t word = 7;
	enum roam_err err;

	if (waits) {
		puts("waiting");
		fflush(stdout);
		err = roam_ps_observe(element, &word, 8, NULL);
	} else {
		must(roam_ps_move(element, &word, 8));
		puts("moved");
		fflush(stdout);
		check(getchar() == '\n');
		err = roam_ps_move(element, &word, 8);
		check(roam_ps_move(element, &word, 8) == err);
	}
	puts(roam_strerror(err));
}

/* ---------------------------------------------------------------------------------------- timed */

/* Waits for 300 ms, or until it is cancelled. */
static void timed_do(struct roam_ps_element *element, enum roam_ps_op op,
		     struct roam_ps_cancel *cancel)
{
	uint64_t word = 7;
	struct roam_ps_request request = {.op = op,
					  .tuple = &word,
					  .bytes = sizeof(word),
					  .buffer = &word,
					  .limit = sizeof(word),
					  .timeout_ns = cancel != NULL ? 0 : 300000000,
					  .cancel = cancel};

	puts(roam_strerror(roam_ps_call(element, &request)));
}

static void *timed_cancel(void *cancel)
{
	check(getchar() == '\n');
	roam_ps_cancel(cancel);
	return NULL;
}

/* No client can reach the server meanwhile, except at the beginning and at the end. */
static void timed(void)
{
	struct roam_ps_element *element = enter(0, "alone", "u64", NULL);
	struct roam_ps_cancel cancelled = {0};
	pthread_t thread;

	puts("waiting");
	fflush(stdout);
	check(pthread_create(&thread, NULL, timed_cancel, &cancelled) == 0);
	timed_do(element, ROAM_PS_OBSERVE, &cancelled);
	pthread_join(thread, NULL);
	timed_do(element, ROAM_PS_MOVE, NULL);
	timed_do(element, ROAM_PS_MOVE, &cancelled);
	fflush(stdout);
	check(getchar() == '\n');
	must(roam_ps_move(element, &(uint64_t){7}, 8));
	timed_do(element, ROAM_PS_OBSERVE, NULL);
	timed_do(element, ROAM_PS_OBSERVE, NULL);
}

/* Moves 1 for round one in vain; asked again with 10, the operation still moves 1. */
static void participant(void)
{
	struct roam_ps_options options = {.function = "sum", .participants = 2};
	struct roam_ps_element *one = enter(0, "wait sum", "u64", &options),
			       *two = enter(1, "wait sum", "u64", &options);
	uint64_t word = 1;
	struct roam_ps_request mob = {.op = ROAM_PS_MOB,
				      .tuple = &word,
				      .bytes = sizeof(word),
				      .buffer = &word,
				      .limit = sizeof(word),
				      .timeout_ns = 300000000};

	puts("waiting");
	fflush(stdout);
	puts(roam_strerror(roam_ps_call(one, &mob)));
	puts(roam_strerror(roam_ps_call(one, &mob)));
	must_fail(roam_ps_move(one, &word, 8), ROAM_ESTATE);
	must_fail(roam_ps_observe(one, &word, 8, NULL), ROAM_ESTATE);
	fflush(stdout);
	check(getchar() == '\n');
	must(roam_ps_move(two, &(uint64_t){100}, 8));
	word = 10;
	must(roam_ps_call(one, &mob));
	check(mob.moved == 1 && mob.observed == 1 && word == 101);
	must(roam_ps_move(one, &(uint64_t){1000}, 8));
	must(roam_ps_observe(two, &word, 8, NULL));
	check(word == 101);
	must(roam_ps_mob(two, &(uint64_t){2000}, 8, NULL, &word, 8, NULL));
	check(word == 3000);
	must(roam_ps_observe(one, &word, 8, NULL));
	check(word == 3000);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[2] : "";

	check(argc > 2);
	address = argv[1];
	for (unsigned link = 0; link < LINKS; link++)
		attach(link);
	if (strcmp(mode, "histories") == 0 && argc == 5) {
		histories(strtoull(argv[3], NULL, 10), number(argv[4]));
	} else if (strcmp(mode, "flood") == 0 && argc == 5) {
		flood(number(argv[3]), number(argv[4]));
	} else if (strcmp(mode, "rounds") == 0 && argc == 4) {
		rounds_count = number(argv[3]);
		threads_run(THREADS, rounds_thread);
	} else if (strcmp(mode, "timed-rounds") == 0 && argc == 4) {
		rounds_count = number(argv[3]);
		rounds_timeout_ns = 5000000;
		threads_run(THREADS, rounds_thread);
		printf("%u\n", rounds_unsure);
	} else if (strcmp(mode, "participant") == 0) {
		participant();
	} else if (strcmp(mode, "timed") == 0) {
		timed();
	} else {
		alone(strcmp(mode, "wait") == 0);
	}
	for (unsigned link = 0; link < LINKS; link++)
		roam_ps_detach(servers[link]);
	return 0;
}
