/* The oracle: replays the logs of a run in the order of its synchronisation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "random_program.h"

#define CLOCKS RANDOM_THREADS_MAX
#define FREE   0xffu

struct vclock {
	uint32_t at[CLOCKS];
};

/* A block's life, and the node whose memory it was before. */
struct check_block {
	bool live;
	int64_t at;
	int freer; /* node; -1: never freed */
};

struct check {
	const struct random_program *program;
	unsigned threads;
	struct random_result *result;
	uint8_t *memory;
	struct vclock clocks[CLOCKS];
	struct vclock locks[RANDOM_LOCKS_MAX];
	uint8_t holder[RANDOM_LOCKS_MAX]; /* FREE: none */
	struct vclock flags[RANDOM_FLAGS_MAX];
	bool set[RANDOM_FLAGS_MAX];
	struct vclock *barriers_at;
	uint32_t *arrived;
	int writer[RANDOM_OBJECTS_MAX];
	uint32_t written[RANDOM_OBJECTS_MAX];
	uint32_t read[RANDOM_OBJECTS_MAX][CLOCKS];
	struct check_block blocks[RANDOM_BLOCKS_MAX];
};

static void vclock_join(struct vclock *clock, const struct vclock *other)
{
	for (unsigned i = 0; i < CLOCKS; i++)
		if (clock->at[i] < other->at[i])
			clock->at[i] = other->at[i];
}

static void bytes_print(char *text, size_t room, const void *bytes, unsigned count)
{
	size_t at = 0;

	for (unsigned i = 0; i < count && at + 3 < room; i++)
		at += (size_t)snprintf(text + at, room - at, "%02x", ((const uint8_t *)bytes)[i]);
}

/* The oracle's copy of an object's bytes. */
static uint8_t *check_bytes(const struct check *check, uint32_t which)
{
	const struct random_program *program = check->program;
	const struct random_object *object = &program->objects[which];
	size_t heap = (size_t)program->params.heap_pages * ROAM_PAGE_SIZE;

	return check->memory + object->offset +
	       (object->block == 0 ? 0 : heap + program->blocks[object->block - 1].copy);
}

static bool check_race(struct check *check, unsigned thread, const struct random_event *event,
		       uint32_t object, bool store)
{
	const struct vclock *clock = &check->clocks[thread];
	unsigned block = check->program->objects[object].block;
	int writer = check->writer[object];
	bool ordered = writer < 0 || clock->at[writer] >= check->written[object];

	for (unsigned i = 0; i < check->threads && store; i++)
		ordered &= clock->at[i] >= check->read[object][i];
	if (block != 0 && !check->blocks[block - 1].live)
		ordered = false;
	if (!ordered)
		snprintf(check->result->error, sizeof(check->result->error),
			 "the program has a race: object %u, thread %u, sequence %lu (writer %d)",
			 object, thread, (unsigned long)event->sequence, writer);
	return ordered;
}

static bool check_value(struct check *check, unsigned thread, const struct random_event *event)
{
	const struct random_object *object = &check->program->objects[event->which];
	const uint8_t *expected = check_bytes(check, event->which);
	int writer = check->writer[event->which];
	char got[40], want[40];
	unsigned shown = object->bytes < 16 ? object->bytes : 16;
	uint64_t value[2];

	check->result->reads++;
	if (writer >= 0 && writer != (int)thread &&
	    (check->program->params.nodes == 1 ||
	     check->program->params.node_of[writer] != check->program->params.node_of[thread]))
		check->result->reads_foreign++;
	random_value_read(expected, object->bytes, value);
	if (memcmp(event->value, value, sizeof(value)) == 0)
		return true;
	bytes_print(got, sizeof(got), event->value, shown);
	bytes_print(want, sizeof(want), value, shown);
	snprintf(check->result->error, sizeof(check->result->error),
		 "wrong value: thread %u of node %u read %s from object %u (block %d, page %u, "
		 "offset %u, %u bytes), sequence %lu; thread %d had written %s",
		 thread, check->program->params.node_of[thread], got, event->which,
		 object->block - 1, object->offset / ROAM_PAGE_SIZE,
		 object->offset % ROAM_PAGE_SIZE, object->bytes,
		 (unsigned long)event->sequence, writer, want);
	return false;
}

static bool check_access(struct check *check, unsigned thread, const struct random_event *event)
{
	const struct random_object *object = &check->program->objects[event->which];
	uint32_t now = ++check->clocks[thread].at[thread];

	if (!check_race(check, thread, event, event->which, event->kind == RANDOM_STORE))
		return false;
	if (event->kind == RANDOM_LOAD) {
		check->read[event->which][thread] = now;
		return check_value(check, thread, event);
	}
	check->result->writes++;
	check->writer[event->which] = (int)thread;
	check->written[event->which] = now;
	random_value_write(check_bytes(check, event->which), object->bytes, event->value);
	return true;
}

static bool check_broken(struct check *check, unsigned thread, const struct random_event *event,
			 const char *what)
{
	snprintf(check->result->error, sizeof(check->result->error),
		 "%s: %s %u, thread %u, sequence %lu", what, random_kind_names[event->kind],
		 event->which, thread, (unsigned long)event->sequence);
	return false;
}

/*
 * Counts an allocation or free as a store to all the block's objects; an allocation stores zeros.
 */
static bool check_objects(struct check *check, unsigned thread, const struct random_event *event)
{
	const struct random_block *block = &check->program->blocks[event->which];

	for (uint32_t object = block->first; object < block->first + block->count; object++) {
		if (!check_race(check, thread, event, object, true))
			return false;
		check->writer[object] = (int)thread;
		check->written[object] = check->clocks[thread].at[thread];
		memset(check_bytes(check, object), 0, check->program->objects[object].bytes);
	}
	return true;
}

static bool check_alloc(struct check *check, unsigned thread, const struct random_event *event)
{
	const struct random_program *program = check->program;
	struct check_block *mine = &check->blocks[event->which];
	int64_t at = (int64_t)event->value[0], end = at + program->blocks[event->which].bytes;
	bool reused = false;

	if (mine->live)
		return check_broken(check, thread, event, "the program allocates a live block");
	for (unsigned i = 0; i < program->block_count; i++) {
		const struct check_block *other = &check->blocks[i];
		bool meets = at < other->at + program->blocks[i].bytes && other->at < end;

		if (meets && other->live)
			return check_broken(check, thread, event, "memory in use was allocated");
		reused |= meets && other->freer >= 0 &&
			  other->freer != program->params.node_of[thread];
	}
	check->result->allocs++;
	check->result->reuses += reused;
	mine->live = true;
	mine->at = at;
	return check_objects(check, thread, event);
}

static bool check_free(struct check *check, unsigned thread, const struct random_event *event)
{
	if (!check_objects(check, thread, event))
		return false;
	check->blocks[event->which].live = false;
	check->blocks[event->which].freer = check->program->params.node_of[thread];
	return true;
}

static bool check_sync(struct check *check, unsigned thread, const struct random_event *event)
{
	struct vclock *clock = &check->clocks[thread];
	unsigned which = event->which;

	check->result->syncs++;
	clock->at[thread]++;
	switch ((enum random_kind)event->kind) {
	case RANDOM_LOCK:
		if (check->holder[which] != FREE)
			return check_broken(check, thread, event, "two threads hold a lock");
		check->holder[which] = (uint8_t)thread;
		vclock_join(clock, &check->locks[which]);
		return true;
	case RANDOM_UNLOCK:
		if (check->holder[which] != thread)
			return check_broken(check, thread, event,
					    "a lock was let go by another thread");
		check->holder[which] = FREE;
		check->locks[which] = *clock;
		return true;
	case RANDOM_FLAG_SET:
		check->set[which] = true;
		vclock_join(&check->flags[which], clock);
		return true;
	case RANDOM_FLAG_WAIT:
		if (!check->set[which])
			return check_broken(check, thread, event,
					    "a thread passed a flag before it was set");
		vclock_join(clock, &check->flags[which]);
		return true;
	case RANDOM_ARRIVE:
		check->arrived[event->episode]++;
		vclock_join(&check->barriers_at[event->episode], clock);
		return true;
	case RANDOM_LEAVE:
		if (check->arrived[event->episode] != check->program->barriers_at[event->episode])
			return check_broken(check, thread, event,
					    "a thread left a barrier before all were there");
		vclock_join(clock, &check->barriers_at[event->episode]);
		return true;
	case RANDOM_ALLOC:
		return check_alloc(check, thread, event);
	case RANDOM_FREE:
		return check_free(check, thread, event);
	default:
		return check_broken(check, thread, event, "unknown event");
	}
}

/* The thread whose next event is the oldest; threads: no event is left. */
static unsigned check_oldest(const struct random_log *logs, unsigned threads, const uint32_t *at)
{
	unsigned oldest = threads;

	for (unsigned i = 0; i < threads; i++)
		if (at[i] < logs[i].count &&
		    (oldest == threads ||
		     logs[i].events[at[i]].sequence < logs[oldest].events[at[oldest]].sequence))
			oldest = i;
	return oldest;
}

static bool check_all(struct check *check, const struct random_log *logs)
{
	uint32_t at[CLOCKS] = {0};
	unsigned thread;

	while ((thread = check_oldest(logs, check->threads, at)) < check->threads) {
		uint64_t sequence = logs[thread].events[at[thread]].sequence;

		while (at[thread] < logs[thread].count &&
		       logs[thread].events[at[thread]].sequence == sequence) {
			const struct random_event *event = &logs[thread].events[at[thread]++];
			bool access = event->kind == RANDOM_LOAD || event->kind == RANDOM_STORE;

			if (access ? !check_access(check, thread, event)
				   : !check_sync(check, thread, event))
				return false;
		}
	}
	return true;
}

bool random_check(const struct random_program *program, const struct random_log *logs,
		  const uint8_t *initial, struct random_result *result)
{
	struct check *check = calloc(1, sizeof(*check));
	size_t heap = (size_t)program->params.heap_pages * ROAM_PAGE_SIZE;
	bool good;

	memset(result, 0, sizeof(*result));
	if (check == NULL)
		abort();
	check->program = program;
	check->threads = program->params.threads;
	check->result = result;
	check->memory = malloc(heap + program->copy_bytes);
	check->barriers_at = calloc(program->meeting_count, sizeof(*check->barriers_at));
	check->arrived = calloc(program->meeting_count, sizeof(*check->arrived));
	if (check->memory == NULL || check->barriers_at == NULL || check->arrived == NULL)
		abort();
	memcpy(check->memory, initial, heap);
	memset(check->memory + heap, 0, program->copy_bytes);
	memset(check->holder, FREE, sizeof(check->holder));
	for (uint32_t object = 0; object < RANDOM_OBJECTS_MAX; object++)
		check->writer[object] = -1;
	for (unsigned i = 0; i < RANDOM_BLOCKS_MAX; i++)
		check->blocks[i].freer = -1;
	good = check_all(check, logs);
	free(check->memory);
	free(check->barriers_at);
	free(check->arrived);
	free(check);
	return good;
}
