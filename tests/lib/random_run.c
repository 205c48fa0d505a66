/* Executes a random program's lists and writes the logs. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "random_program.h"
#include "rng.h"

#define RUN_TURNS 4u     /* times that a thread gives up one wait */
#define RUN_NS    200000u /* the longest deadline of such a wait */

struct run {
	const struct random_program *program;
	const struct random_ops *ops;
	void *self;
	struct random_places *places;
	struct random_log *log;
	unsigned thread;
	uint32_t at;
	uint64_t sequence;
	uint64_t last[2];
	bool passed;
};

/*
 * The room in each thread's log: no operation logs more than two events, but waiting for a
 * condition logs three for each turn.
 */
uint32_t random_events_max(const struct random_program *program)
{
	uint32_t most = 0;

	for (unsigned i = 0; i < program->params.threads; i++) {
		const struct random_list *list = &program->lists[i];
		uint32_t events = 0;

		for (uint32_t at = 0; at < list->count; at++)
			events += list->ops[at].kind == RANDOM_AWAIT
					  ? 3 * (program->posts + RUN_TURNS) + 5
					  : 2;
		if (events > most)
			most = events;
	}
	return most;
}

void random_logs_make(const struct random_program *program, struct random_log *logs)
{
	uint32_t max = random_events_max(program);

	for (unsigned i = 0; i < program->params.threads; i++) {
		logs[i] = (struct random_log){malloc(max * sizeof(struct random_event)), 0, max};
		if (logs[i].events == NULL)
			abort();
	}
}

void random_logs_free(const struct random_program *program, struct random_log *logs)
{
	for (unsigned i = 0; i < program->params.threads; i++)
		free(logs[i].events);
}

__attribute__((noreturn)) static void run_fail(struct run *run, const char *what)
{
	char text[160];

	snprintf(text, sizeof(text), "thread %u, operation %u (%s): %s", run->thread, run->at,
		 random_kind_names[run->program->lists[run->thread].ops[run->at].kind], what);
	run->ops->fail(run->self, text);
}

static void run_check(struct run *run, enum roam_err err)
{
	if (err != ROAM_OK)
		run_fail(run, roam_strerror(err));
}

static struct random_event *run_event(struct run *run, enum random_kind kind, unsigned which)
{
	struct random_event *event;

	if (run->log->count == run->log->max)
		run_fail(run, "the log is full: too many wake-ups");
	event = &run->log->events[run->log->count++];
	*event = (struct random_event){
		.sequence = run->sequence, .kind = (uint8_t)kind, .which = (uint16_t)which};
	return event;
}

static void run_sync(struct run *run, enum random_kind kind, unsigned which)
{
	run->sequence = run->ops->sequence(run->self);
	run_event(run, kind, which);
}

static uint64_t run_place(const struct run *run, unsigned block)
{
	return atomic_load_explicit(&run->places->at[block], memory_order_relaxed);
}

static uint64_t run_where(const struct run *run, const struct random_object *object)
{
	return object->block == 0 ? object->offset
				  : run_place(run, object->block - 1u) + object->offset;
}

void random_value_write(void *bytes, uint32_t count, const uint64_t value[2])
{
	for (uint32_t at = 0; at < count; at += sizeof(*value)) {
		uint64_t word = value[at / 8 % 2] + at / 16;

		memcpy((uint8_t *)bytes + at, &word, count - at < 8 ? count - at : 8);
	}
}

void random_value_read(const void *bytes, uint32_t count, uint64_t value[2])
{
	value[0] = value[1] = 0;
	for (uint32_t at = 0; at < count; at += sizeof(*value)) {
		uint64_t word = 0;

		memcpy(&word, (const uint8_t *)bytes + at, count - at < 8 ? count - at : 8);
		value[at / 8 % 2] = value[at / 8 % 2] * 0x2545f4914f6cdd1du + word;
	}
}

static void run_load(struct run *run, const struct random_op *op)
{
	const struct random_object *object = &run->program->objects[op->which];
	uint8_t bytes[RANDOM_BYTES_MAX];
	struct random_event *event;

	run->ops->load(run->self, run_where(run, object), bytes, object->bytes);
	memset(run->last, 0, sizeof(run->last));
	memcpy(run->last, bytes, object->bytes < 16 ? object->bytes : 16);
	event = run_event(run, RANDOM_LOAD, op->which);
	random_value_read(bytes, object->bytes, event->value);
}

static void run_store(struct run *run, const struct random_op *op)
{
	const struct random_object *object = &run->program->objects[op->which];
	uint64_t mark = rng_mix(run->program->params.seed * 977 + run->thread * 0x100000001u +
				run->at * 0x10001u);
	uint64_t value[2] = {mark, ~mark * 3};
	uint8_t bytes[RANDOM_BYTES_MAX];
	struct random_event *event;

	if (op->mode == RANDOM_FEW) {
		value[0] = mark % 2 == 0 ? 0 : UINT64_C(0x0101010101010101);
		value[1] = value[0];
	} else if (op->mode == RANDOM_COPY) {
		memcpy(value, run->last, sizeof(value));
	} else if (op->mode == RANDOM_EXACT) {
		value[0] = op->value;
	}
	event = run_event(run, RANDOM_STORE, op->which);
	memcpy(event->value, value, sizeof(value));
	random_value_write(bytes, object->bytes, value);
	run->ops->store(run->self, run_where(run, object), bytes, object->bytes);
}

/*
 * How an operation waits: the same in every run, without a draw of the generator.  Half of the
 * locks are taken plainly; the others are tried first, or given up at a deadline and wanted again.
 */
static uint64_t run_draw(const struct run *run)
{
	return rng_mix(run->program->params.seed * 0x51ed27u + run->thread * 0x10001u +
		       run->at * 0x9e3779b1u);
}

static void run_pause(struct run *run, unsigned length)
{
	if (run->ops->pause != NULL)
		run->ops->pause(run->self, length);
}

/* Takes the lock by one of the calls that may give up; returns whether it was taken. */
static bool run_lock_soon(struct run *run, unsigned lock)
{
	uint64_t draw = run_draw(run);

	for (unsigned turn = 0; turn < 1 + (draw >> 8) % RUN_TURNS; turn++) {
		bool tries = (draw >> (16 + turn) & 1) != 0;
		enum roam_err err = tries ? run->ops->lock_try(run->self, lock)
					  : run->ops->lock_within(run->self, lock,
								  (draw >> (20 + turn)) % RUN_NS);

		if (err == ROAM_OK)
			return true;
		if (err != (tries ? ROAM_EBUSY : ROAM_ETIMEDOUT))
			run_check(run, err);
		if ((draw >> (12 + turn) & 1) != 0)
			run_pause(run, 1u << (draw >> 32) % 8);
	}
	return false;
}

static void run_lock(struct run *run, unsigned lock)
{
	if (run_draw(run) % 2 == 0 || run->ops->lock_try == NULL || !run_lock_soon(run, lock))
		run_check(run, run->ops->lock(run->self, lock));
	run_sync(run, RANDOM_LOCK, lock);
}

static void run_unlock(struct run *run, unsigned lock)
{
	run_sync(run, RANDOM_UNLOCK, lock);
	run_check(run, run->ops->unlock(run->self, lock));
}

/* At times a lock is wanted for a while only; if it was given up, not again. */
static void run_rest(struct run *run, const struct random_op *op)
{
	uint64_t draw = run_draw(run);
	unsigned lock = (unsigned)(draw >> 40) % 4;
	enum roam_err err = ROAM_EBUSY;

	run_pause(run, op->count);
	if (draw % 4 == 0 && run->ops->lock_within != NULL)
		err = run->ops->lock_within(run->self, lock, (draw >> 8) % RUN_NS);
	if (err == ROAM_OK) {
		run_sync(run, RANDOM_LOCK, lock);
		run_unlock(run, lock);
	} else if (err != ROAM_EBUSY && err != ROAM_ETIMEDOUT) {
		run_check(run, err);
	}
}

/* Waits for the condition once; one of the first waits may end at a deadline. */
static void run_wait(struct run *run, const struct random_op *op, unsigned turn)
{
	uint64_t draw = run_draw(run);
	enum roam_err err;

	if (run->ops->cond_wait_within == NULL || turn >= draw % RUN_TURNS) {
		run_check(run, run->ops->cond_wait(run->self, op->cond, op->lock));
		return;
	}
	err = run->ops->cond_wait_within(run->self, op->cond, op->lock,
					 (draw >> (8 + turn)) % RUN_NS);
	if (err != ROAM_ETIMEDOUT)
		run_check(run, err);
}

static void run_await(struct run *run, const struct random_op *op)
{
	for (unsigned turn = 0;; turn++) {
		run_load(run, op);
		if (run->last[0] >= op->value)
			return;
		run_sync(run, RANDOM_UNLOCK, op->lock);
		run_wait(run, op, turn);
		run_sync(run, RANDOM_LOCK, op->lock);
	}
}

static void run_meet(struct run *run, const struct random_op *op)
{
	run_sync(run, RANDOM_ARRIVE, op->which);
	run->log->events[run->log->count - 1].episode = op->instance;
	run_check(run, run->ops->barrier(run->self, op->which, op->count));
	run_sync(run, RANDOM_LEAVE, op->which);
	run->log->events[run->log->count - 1].episode = op->instance;
}

/* Checks that an allocated block is zero: both ends, and some bytes between them. */
static void run_zero(struct run *run, uint64_t offset, uint32_t bytes)
{
	uint64_t word;

	for (uint32_t at = 0; at + sizeof(word) <= bytes; at += at < 48 ? 8 : 488) {
		run->ops->load(run->self, offset + at, &word, sizeof(word));
		if (word != 0)
			run_fail(run, "the block is not zero");
	}
	run->ops->load(run->self, offset + bytes - sizeof(word), &word, sizeof(word));
	if (word != 0)
		run_fail(run, "the block's end is not zero");
}

static void run_alloc(struct run *run, const struct random_op *op)
{
	uint32_t bytes = run->program->blocks[op->which].bytes;
	struct random_event *event;
	uint64_t offset;

	run_check(run, run->ops->alloc(run->self, bytes, &offset));
	atomic_store_explicit(&run->places->at[op->which], offset, memory_order_relaxed);
	run_sync(run, RANDOM_ALLOC, op->which);
	event = &run->log->events[run->log->count - 1];
	event->value[0] = offset;
	run_zero(run, offset, bytes);
}

/*
 * No thread may look at a freed block: its last bytes become rubbish, lest they be right by chance.
 */
static void run_spoil(struct run *run, uint64_t offset, uint32_t bytes)
{
	uint8_t rubbish[512];

	memset(rubbish, 0xdb, sizeof(rubbish));
	for (uint64_t at = offset, end = offset + bytes, step; at < end; at += step) {
		step = sizeof(rubbish) - at % sizeof(rubbish);
		step = step < end - at ? step : end - at;
		run->ops->store(run->self, at, rubbish, step);
	}
}

static void run_free(struct run *run, const struct random_op *op)
{
	uint32_t bytes = run->program->blocks[op->which].bytes;

	if (!run->ops->spoils)
		run_spoil(run, run_place(run, op->which), bytes);
	run_sync(run, RANDOM_FREE, op->which);
	run_check(run, run->ops->free(run->self, run_place(run, op->which)));
}

static double value_get(const void *values, uint32_t i, enum roam_type type)
{
	if (type == ROAM_INT32)
		return ((const int32_t *)values)[i];
	if (type == ROAM_INT64)
		return (double)((const int64_t *)values)[i];
	return ((const double *)values)[i];
}

static void value_set(void *values, uint32_t i, enum roam_type type, double value)
{
	if (type == ROAM_INT32)
		((int32_t *)values)[i] = (int32_t)value;
	else if (type == ROAM_INT64)
		((int64_t *)values)[i] = (int64_t)value;
	else
		((double *)values)[i] = value;
}

static void run_reduce(struct run *run, const struct random_op *op)
{
	const struct random_reduction *reduction = &run->program->reductions[op->value];
	union {
		double doubles[RANDOM_REDUCE_MAX];
		int64_t wide[RANDOM_REDUCE_MAX];
		int32_t narrow[RANDOM_REDUCE_MAX];
	} values;

	for (uint32_t i = 0; i < reduction->count; i++)
		value_set(&values, i, reduction->type, reduction->inputs[run->thread][i]);
	run_sync(run, RANDOM_ARRIVE, op->which);
	run->log->events[run->log->count - 1].episode = op->instance;
	run_check(run, run->ops->reduce(run->self, &values, reduction->count, reduction->type,
					reduction->op));
	run_sync(run, RANDOM_LEAVE, op->which);
	run->log->events[run->log->count - 1].episode = op->instance;
	for (uint32_t i = 0; i < reduction->count; i++)
		if (value_get(&values, i, reduction->type) != reduction->results[i])
			run_fail(run, "wrong result");
}

static void run_op(struct run *run, const struct random_op *op)
{
	const struct random_ops *ops = run->ops;

	switch ((enum random_kind)op->kind) {
	case RANDOM_LOAD:
		run_load(run, op);
		return;
	case RANDOM_STORE:
		run_store(run, op);
		return;
	case RANDOM_LOCK:
		run_lock(run, op->which);
		return;
	case RANDOM_UNLOCK:
		run_unlock(run, op->which);
		return;
	case RANDOM_TEST:
		run_load(run, op);
		run->passed = run->last[0] >= op->value;
		return;
	case RANDOM_UNLESS:
		if (!run->passed)
			run->at += op->count;
		return;
	case RANDOM_AWAIT:
		run_await(run, op);
		return;
	case RANDOM_FLAG_SET:
		run_sync(run, RANDOM_FLAG_SET, op->which);
		run_check(run, ops->flag_set(run->self, op->which));
		return;
	case RANDOM_FLAG_WAIT:
		run_check(run, ops->flag_wait(run->self, op->which));
		run_sync(run, RANDOM_FLAG_WAIT, op->which);
		return;
	case RANDOM_BARRIER:
		run_meet(run, op);
		return;
	case RANDOM_REDUCE:
		run_reduce(run, op);
		return;
	default:
		break;
	}
	if (op->kind == RANDOM_LOCK_INIT && ops->lock_init != NULL)
		run_check(run, ops->lock_init(run->self, op->which));
	else if (op->kind == RANDOM_COND_INIT && ops->cond_init != NULL)
		run_check(run, ops->cond_init(run->self, op->which));
	else if (op->kind == RANDOM_SIGNAL || op->kind == RANDOM_BROADCAST)
		run_check(run, ops->cond_post(run->self, op->which, op->kind == RANDOM_BROADCAST));
	else if (op->kind == RANDOM_FLAG_CLEAR)
		run_check(run, ops->flag_clear(run->self, op->which));
	else if (op->kind == RANDOM_REST && ops->rest != NULL)
		ops->rest(run->self);
	else if (op->kind == RANDOM_ALLOC)
		run_alloc(run, op);
	else if (op->kind == RANDOM_FREE)
		run_free(run, op);
	else if (op->kind == RANDOM_PAUSE)
		run_rest(run, op);
}

void random_run(const struct random_program *program, unsigned thread, const struct random_ops *ops,
		void *self, struct random_places *places, struct random_log *log)
{
	const struct random_list *list = &program->lists[thread];
	struct run run = {.program = program,
			  .ops = ops,
			  .self = self,
			  .places = places,
			  .log = log,
			  .thread = thread};

	for (; run.at < list->count; run.at++)
		run_op(&run, &list->ops[run.at]);
}
