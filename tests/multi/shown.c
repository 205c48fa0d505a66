/*
 * Elements that a program in the kernel shows, ROAM_PS_KERNEL: three nodes move, observe, take and
 * truncate at once, observing the last tuple both ways, and what they saw can be explained; tuples
 * are whole while they are replaced; the last tuple that anybody knows is the last.
 * shown ROUNDS LOOKS
 */
#include "multi.h"

#include <roam/pastset.h>
#include <time.h>

#include "history.h"

#define NODES 3u
#define OPS   6u
#define WORDS 30u

static struct history_event *events; /* [rounds][NODES][OPS], in the heap */
static uint64_t *moved;
static unsigned rounds, looks;

static uint64_t clock_next(void)
{
	static uint64_t last;
	struct timespec now;
	uint64_t at;

	clock_gettime(CLOCK_MONOTONIC, &now);
	at = ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) * NODES + roam_node();
	last = at > last ? at : last + NODES;
	return last;
}

static struct roam_ps_element *enter(const char *name)
{
	struct roam_ps_options options = {.place = ROAM_PS_NODE, .forget = true};
	struct roam_ps_element *element = NULL;

	must(roam_ps_enter(name, "u64[30]", &options, &element));
	return element;
}

static void draw(struct rng *rng, struct roam_ps_request *request, uint64_t last)
{
	uint32_t kind = rng_below(rng, 20);

	request->timeout_ns = ROAM_PS_TRY;
	if (kind < 8) {
		request->op = ROAM_PS_MOVE;
	} else if (kind == 8) {
		request->op = ROAM_PS_TRUNCATE;
		request->number = last + 1;
	} else {
		request->op = ROAM_PS_OBSERVE;
		request->which = ROAM_PS_LAST;
		request->flags = kind == 9 ? ROAM_PS_SKIP : ROAM_PS_PEEK;
	}
}

/* One operation, and what came of it. */
static void operate(struct roam_ps_element *element, struct rng *rng, struct history *history,
		    uint64_t value, uint64_t *last)
{
	uint64_t tuple[WORDS], got[WORDS] = {0};
	struct roam_ps_request request = {.tuple = tuple,
					  .bytes = sizeof(tuple),
					  .buffer = got,
					  .limit = sizeof(got)};
	struct history_event *event;
	enum roam_err err;

	for (unsigned i = 0; i < WORDS; i++)
		tuple[i] = value;
	draw(rng, &request, *last);
	event = history_begin(history, clock_next(), roam_node(), &request);
	if (request.op == ROAM_PS_MOVE)
		event->value = value;
	err = roam_ps_call(element, &request);
	for (unsigned i = 1; i < WORDS; i++)
		check(got[i] == got[0]);
	history_end(event, NULL, clock_next(), &request, err, value, got[0]);
	if (request.observed != 0)
		*last = request.observed;
}

static void round_check(unsigned round)
{
	struct history history = {.delta = UINT64_MAX};

	for (unsigned i = 0; i < NODES * OPS; i++)
		history.events[history.count++] = events[round * NODES * OPS + i];
	history_trim(&history);
	if (history_explained(&history))
		return;
	history_print(&history);
	fprintf(stderr, "round %u cannot be explained\n", round);
	exit(WRONG);
}

/* Moves and observes at once, in short histories. */
static void histories(void)
{
	struct rng rng = {.state = 77 + roam_node()};

	for (unsigned round = 0; round < rounds; round++) {
		struct history history = {.delta = UINT64_MAX};
		uint64_t last = 0;
		char name[16];
		struct roam_ps_element *element;

		snprintf(name, sizeof(name), "h%u", round);
		element = enter(name);
		must(roam_barrier_all());
		for (unsigned i = 0; i < OPS; i++)
			operate(element, &rng, &history, 1 + roam_node() * 100 + i, &last);
		memcpy(events + (round * NODES + roam_node()) * OPS, history.events,
		       OPS * sizeof(*events));
		roam_ps_leave(element);
	}
	must(roam_barrier_all());
	if (roam_node() == 0)
		for (unsigned round = 0; round < rounds; round++)
			round_check(round);
}

/* Node 0 replaces the tuple as fast as it can; others never see half of one, nor an older one. */
static void replaced(void)
{
	struct roam_ps_element *element = enter("replaced");
	uint64_t tuple[WORDS] = {0}, last = 0;

	for (unsigned look = 0; look < looks; look++) {
		struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
						  .which = ROAM_PS_LAST,
						  .flags = ROAM_PS_PEEK,
						  .buffer = tuple,
						  .limit = sizeof(tuple)};

		if (roam_node() == 0) {
			for (unsigned i = 0; i < WORDS; i++)
				tuple[i] = look + 1;
			must(roam_ps_move(element, tuple, sizeof(tuple)));
			must(roam_ps_truncate(element, look + 1));
			continue;
		}
		must(roam_ps_call(element, &request));
		for (unsigned i = 1; i < WORDS; i++)
			check(tuple[i] == tuple[0]);
		check(tuple[0] == request.observed && request.observed >= last);
		last = request.observed;
	}
	roam_ps_leave(element);
}

/* What a node knows to be moved another one finds, and not what is gone. */
static void known(void)
{
	struct roam_ps_element *element = enter("known");
	uint64_t tuple[WORDS] = {0};
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .which = ROAM_PS_LAST,
					  .flags = ROAM_PS_PEEK,
					  .buffer = tuple,
					  .limit = sizeof(tuple),
					  .timeout_ns = ROAM_PS_TRY};

	for (uint64_t i = 1; i <= 100; i++) {
		if (roam_node() == i % NODES) {
			tuple[0] = i;
			must(roam_ps_move(element, tuple, sizeof(tuple)));
			*moved = i;
		}
		must(roam_barrier_all());
		must(roam_ps_call(element, &request));
		check(tuple[0] == i && request.observed == *moved);
		request.limit = 8;
		must_fail(roam_ps_call(element, &request), ROAM_ETOOBIG);
		request.limit = sizeof(tuple);
		must(roam_barrier_all());
		if (roam_node() == (i + 1) % NODES)
			must(roam_ps_truncate(element, i + 1));
		must(roam_barrier_all());
		must_fail(roam_ps_call(element, &request), ROAM_ETIMEDOUT);
		must(roam_barrier_all());
	}
	roam_ps_leave(element);
}

static void shown_main(void)
{
	known();
	replaced();
	must(roam_barrier_all());
	histories();
	must(roam_barrier_all());
	if (roam_node() == 0)
		printf("shown ok\n");
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? number(argv[1]) : 10;
	looks = argc > 2 ? number(argv[2]) : 100;
	must(roam_start());
	moved = must_alloc(4096);
	events = must_alloc((size_t)rounds * NODES * OPS * sizeof(*events));
	must(roam_create_all(shown_main, NODES));
	must(roam_wait_for_end());
	return 0;
}
