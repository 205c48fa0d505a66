#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The element after some of the events.  The set of events done tells which tuples there are and
 * which of them are tagged, because outcomes name the numbers; the other fields hold what it does
 * not tell.
 */
struct spec {
	uint64_t done; /* a bit for each event */
	uint64_t delta;
	uint64_t oldest;
	uint8_t numbers[HISTORY_UNSURE_MAX]; /* of operations with unknown outcome */
};

#define NOT_BEGUN ROAM_EPEER /* outcome of a mob's second half, say: tells nothing */

struct search {
	const struct history *history;
	uint64_t sure; /* a bit for each event that was done */
	struct spec *seen; /* a table of specs from which no order leads on; done 0: no entry */
	size_t size, used;
};

/* ---------------------------------------------------------------------------------------- rules */

static bool spec_has(const struct spec *spec, unsigned event)
{
	return (spec->done >> event & 1) != 0;
}

/* The number of the tuple that an event of the spec moved or observed; 0: none. */
static uint64_t spec_got(const struct spec *spec, const struct history_event *event)
{
	if (event->unsure != 0)
		return spec->numbers[event->unsure - 1];
	return event->err == ROAM_OK ? event->number : 0;
}

static uint64_t spec_last(const struct search *search, const struct spec *spec)
{
	uint64_t last = 0;

	for (unsigned i = 0; i < search->history->count; i++)
		if (spec_has(spec, i) && search->history->events[i].op == ROAM_PS_MOVE &&
		    spec_got(spec, &search->history->events[i]) != 0)
			last++;
	return last;
}

static bool event_tags(const struct spec *spec, const struct history_event *event, uint64_t number)
{
	uint64_t got = spec_got(spec, event);

	if (event->op != ROAM_PS_OBSERVE || got == 0 || (event->flags & ROAM_PS_PEEK) != 0)
		return false;
	return got == number || ((event->flags & ROAM_PS_SKIP) != 0 && number < got);
}

static uint64_t spec_first(const struct search *search, const struct spec *spec)
{
	uint64_t last = spec_last(search, spec);

	for (uint64_t number = spec->oldest; number <= last; number++) {
		bool tagged = false;

		for (unsigned i = 0; i < search->history->count; i++)
			tagged |= spec_has(spec, i) &&
				  event_tags(spec, &search->history->events[i], number);
		if (!tagged)
			return number;
	}
	return last + 1;
}

static uint64_t spec_value(const struct search *search, const struct spec *spec, uint64_t number)
{
	for (unsigned i = 0; i < search->history->count; i++) {
		const struct history_event *event = &search->history->events[i];

		if (event->op == ROAM_PS_MOVE && spec_has(spec, i) &&
		    spec_got(spec, event) == number)
			return event->value;
	}
	return UINT64_MAX;
}

/* The number of the tuple that an observe is to get; beyond `last`: the observe has to wait. */
static uint64_t spec_number(const struct search *search, const struct spec *spec,
			    const struct history_event *event, bool *skipped_p)
{
	uint64_t last = spec_last(search, spec);

	*skipped_p = false;
	switch (event->which) {
	case ROAM_PS_FIFO:
		return spec_first(search, spec);
	case ROAM_PS_LAST:
		return spec->oldest <= last ? last : last + 1;
	case ROAM_PS_NUMBER:
		return event->argument;
	case ROAM_PS_MATCH: /* no history contains it */
	case ROAM_PS_NEXT:
		break;
	}
	if (event->argument >= last)
		return last + 1;
	*skipped_p = event->argument + 1 < spec->oldest;
	return *skipped_p ? spec->oldest : event->argument + 1;
}

static bool spec_observe(const struct search *search, const struct spec *spec,
			 const struct history_event *event)
{
	bool waits = event->err == ROAM_ETIMEDOUT || event->err == ROAM_ECANCELED, skipped;
	uint64_t number = spec_number(search, spec, event, &skipped);

	if (number > spec_last(search, spec))
		return waits;
	if (number < spec->oldest)
		return event->err == ROAM_EGONE;
	return event->err == ROAM_OK && event->number == number && event->skipped == skipped &&
	       event->value == spec_value(search, spec, number);
}

/* spec_apply for an operation whose outcome is not known; false if it does nothing. */
static bool spec_apply_unsure(const struct search *search, const struct spec *spec,
			      const struct history_event *event, struct spec *next)
{
	uint64_t last = spec_last(search, spec), got = 0;
	bool skipped;

	if (event->op == ROAM_PS_MOVE && last + 1 - spec_first(search, spec) < spec->delta)
		got = last + 1;
	if (event->op == ROAM_PS_OBSERVE) {
		got = spec_number(search, spec, event, &skipped);
		if (got > last || got < spec->oldest)
			return false;
	}
	next->numbers[event->unsure - 1] = (uint8_t)got;
	return got != 0;
}

static void spec_truncate(struct spec *spec, uint64_t last, uint64_t argument)
{
	uint64_t first = argument > last ? last + 1 : argument;

	spec->oldest = first > spec->oldest ? first : spec->oldest;
}

/* Whether the event, with its outcome, can come next; *next is the element after it. */
static bool spec_apply(const struct search *search, const struct spec *spec, unsigned index,
		       struct spec *next)
{
	const struct history_event *event = &search->history->events[index];
	uint64_t last = spec_last(search, spec);

	*next = *spec;
	next->done |= 1ull << index;
	if (event->unsure != 0 && (event->op == ROAM_PS_MOVE || event->op == ROAM_PS_OBSERVE))
		return spec_apply_unsure(search, spec, event, next);
	switch (event->op) {
	case ROAM_PS_MOVE:
		if (last + 1 - spec_first(search, spec) >= spec->delta)
			return event->err == ROAM_ETIMEDOUT || event->err == ROAM_ECANCELED;
		return event->err == ROAM_OK && event->number == last + 1;
	case ROAM_PS_OBSERVE:
		return spec_observe(search, spec, event);
	case ROAM_PS_DELTA:
		next->delta = event->argument;
		return event->err == ROAM_OK || event->unsure != 0;
	case ROAM_PS_TRUNCATE:
		spec_truncate(next, last, event->argument);
		return event->err == ROAM_OK || event->unsure != 0;
	case ROAM_PS_STATE:
		return event->err == ROAM_OK && event->state.last == last &&
		       event->state.first == spec_first(search, spec) &&
		       event->state.oldest == spec->oldest && event->state.delta == spec->delta;
	default:
		return false;
	}
}

/* --------------------------------------------------------------------------------------- search */

static size_t seen_slot(const struct search *search, const struct spec *spec)
{
	uint64_t hash = spec->done * 0x9e3779b97f4a7c15u ^ spec->delta * 0xbf58476d1ce4e5b9u ^
			spec->oldest * 0x94d049bb133111ebu;
	size_t slot = (hash ^ hash >> 29) % search->size;

	while (search->seen[slot].done != 0 &&
	       memcmp(&search->seen[slot], spec, sizeof(*spec)) != 0)
		slot = (slot + 1) % search->size;
	return slot;
}

static void seen_grow(struct search *search)
{
	struct search grown = *search;

	grown.size = search->size * 2 + 1024;
	grown.seen = calloc(grown.size, sizeof(*grown.seen));
	if (grown.seen == NULL)
		abort();
	for (size_t i = 0; i < search->size; i++)
		if (search->seen[i].done != 0)
			grown.seen[seen_slot(&grown, &search->seen[i])] = search->seen[i];
	free(search->seen);
	*search = grown;
}

static bool search_from(struct search *search, const struct spec *spec)
{
	const struct history *history = search->history;
	uint64_t ended = UINT64_MAX; /* later events begin later and cannot come next */

	if ((spec->done & search->sure) == search->sure)
		return true;
	if (spec->done != 0 && search->seen[seen_slot(search, spec)].done != 0)
		return false;
	for (unsigned i = 0; i < history->count; i++)
		if (!spec_has(spec, i) && history->events[i].end < ended)
			ended = history->events[i].end;
	for (unsigned i = 0; i < history->count; i++) {
		const struct history_event *event = &history->events[i];
		struct spec next;

		if (!spec_has(spec, i) && event->begin < ended &&
		    (event->after == 0 || spec_has(spec, event->after - 1)) &&
		    spec_apply(search, spec, i, &next) && search_from(search, &next))
			return true;
	}
	if (2 * ++search->used > search->size)
		seen_grow(search);
	search->seen[seen_slot(search, spec)] = *spec;
	return false;
}

bool history_explained(const struct history *history)
{
	struct search search = {history, 0, NULL, 0, 0};
	struct spec spec = {.delta = history->delta, .oldest = 1};
	bool yes;

	for (unsigned i = 0; i < history->count; i++)
		if (history->events[i].unsure == 0)
			search.sure |= 1ull << i;
	if (history->unsure > HISTORY_UNSURE_MAX)
		abort();
	seen_grow(&search);
	yes = search_from(&search, &spec);
	free(search.seen);
	return yes;
}

void history_print(const struct history *history)
{
	static const char *const ops[] = {"move", "observe", "mob", "delta", "truncate", "state"};
	static const char *const which[] = {"fifo", "last", "number", "next"};

	for (unsigned i = 0; i < history->count; i++) {
		const struct history_event *event = &history->events[i];

		printf("  %2u: %5lu..%-5lu thread %u %s", i, (unsigned long)event->begin,
		       (unsigned long)event->end, event->thread, ops[event->op]);
		if (event->op == ROAM_PS_OBSERVE)
			printf(" %s%s%s", which[event->which],
			       (event->flags & ROAM_PS_PEEK) != 0 ? " peek" : "",
			       (event->flags & ROAM_PS_SKIP) != 0 ? " skip" : "");
		printf(" %ld -> %s, number %lu value %lx", (long)event->argument,
		       roam_strerror(event->err), (unsigned long)event->number,
		       (unsigned long)event->value);
		if (event->op == ROAM_PS_STATE)
			printf(", first %lu last %lu oldest %lu", (unsigned long)event->state.first,
			       (unsigned long)event->state.last,
			       (unsigned long)event->state.oldest);
		printf("%s\n", event->skipped ? ", skipped" : "");
	}
}

/* ------------------------------------------------------------------------------------ recording */

void history_draw(struct rng *rng, struct roam_ps_request *request)
{
	static const enum roam_ps_op ops[] = {ROAM_PS_MOVE,    ROAM_PS_MOVE,    ROAM_PS_MOVE,
					      ROAM_PS_OBSERVE, ROAM_PS_OBSERVE, ROAM_PS_OBSERVE,
					      ROAM_PS_MOB,     ROAM_PS_MOB,     ROAM_PS_DELTA,
					      ROAM_PS_TRUNCATE, ROAM_PS_STATE};

	*request = (struct roam_ps_request){
		.op = ops[rng_below(rng, sizeof(ops) / sizeof(ops[0]))]};
	if (request->op == ROAM_PS_OBSERVE || request->op == ROAM_PS_MOB) {
		request->which = (enum roam_ps_which)rng_below(rng, 4);
		request->flags = rng_one_in(rng, 4) ? ROAM_PS_PEEK : 0;
	}
	request->number = rng_below(rng, 12) + (request->which == ROAM_PS_NUMBER);
	if (request->op == ROAM_PS_DELTA)
		request->number = rng_one_in(rng, 2) ? UINT64_MAX : 1 + rng_below(rng, 3);
}

struct history_event *history_begin(struct history *history, uint64_t now, unsigned thread,
				    const struct roam_ps_request *request)
{
	struct history_event *event = &history->events[history->count++];

	if (history->count > HISTORY_MAX)
		abort();
	*event = (struct history_event){.begin = now,
					.end = UINT64_MAX,
					.thread = thread,
					.op = request->op,
					.which = request->which,
					.flags = request->flags,
					.argument = request->number};
	return event;
}

struct history_event *history_begin_mob(struct history *history, struct history *from,
					uint64_t now, unsigned thread,
					const struct roam_ps_request *request,
					struct history_event **second_p)
{
	struct history_event *event = history_begin(history, now, thread, request);

	*second_p = history_begin(from, now, thread, request);
	event->op = ROAM_PS_MOVE;
	(*second_p)->op = ROAM_PS_OBSERVE;
	if (from == history)
		(*second_p)->after = (unsigned)(event - history->events) + 1;
	return event;
}

static void event_end(struct history_event *event, uint64_t now,
		      const struct roam_ps_request *request, enum roam_err err, uint64_t value)
{
	event->end = now;
	event->err = err;
	event->skipped = request->skipped;
	event->state = request->state;
	event->number = event->op == ROAM_PS_MOVE ? request->moved : request->observed;
	event->value = value;
}

void history_end(struct history_event *event, struct history_event *second, uint64_t now,
		 const struct roam_ps_request *request, enum roam_err err, uint64_t moved,
		 uint64_t observed)
{
	bool half = second != NULL && request->moved != 0;

	event_end(event, now, request, half ? ROAM_OK : err,
		  event->op == ROAM_PS_OBSERVE ? observed : moved);
	if (half)
		event_end(second, now, request, err, observed);
	else if (second != NULL && err == ROAM_ELOST)
		event_end(second, now, request, err, observed); /* begun or not */
	else if (second != NULL)
		second->err = NOT_BEGUN;
}

void history_doubt_waits(struct history *history)
{
	for (unsigned i = 0; i < history->count; i++)
		if (history->events[i].err == ROAM_ETIMEDOUT ||
		    history->events[i].err == ROAM_ECANCELED)
			history->events[i].err = NOT_BEGUN;
}

void history_trim(struct history *history)
{
	unsigned count = 0, place[HISTORY_MAX];

	history->unsure = 0;
	for (unsigned i = 0; i < history->count; i++) {
		struct history_event event = history->events[i];

		place[i] = count;
		if (event.err == NOT_BEGUN)
			continue;
		if (event.after != 0)
			event.after = place[event.after - 1] + 1;
		if (event.err == ROAM_ELOST) {
			event.unsure = ++history->unsure;
			event.end = UINT64_MAX;
		}
		history->events[count++] = event;
	}
	history->count = count;
}
