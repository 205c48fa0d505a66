/* Which parts of the heap have blocks: what the server is told of them. */
#include "job/stored.h"

#include <stdio.h>
#include <string.h>

#include "job/job.h"

void roami_stored_pack(const struct roami_job *job, const uint8_t *states,
		       struct roami_stored_parts *value)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);

	*value = (struct roami_stored_parts){
		.version = ROAMI_STORED_VERSION, .part = pool->part, .count = pool->count};
	memcpy(value->job, job->stored->open.job, sizeof(value->job));
	for (uint32_t i = 0; i < pool->count; i++)
		value->states[i / 4] |= (uint8_t)(states[i] << i % 4 * 2);
}

/* Two nodes may say different things of a part that was freed: then it is a lease. */
void roami_stored_fold(const struct roami_stored_parts *value, uint8_t *states)
{
	for (uint32_t i = 0; i < value->count; i++) {
		uint8_t now = value->states[i / 4] >> i % 4 * 2 & 3;

		if (now != ROAMI_HEAP_PARTS_FREE)
			states[i] = states[i] == ROAMI_HEAP_PARTS_FREE || states[i] == now
					    ? now
					    : ROAMI_HEAP_PARTS_LEASED;
	}
}

/* With the turn: what this node has taken. */
static void commit_own(struct roami_job *job)
{
	struct roami_stored_parts value;
	char name[24];

	roami_stored_pack(job, job->stored->own, &value);
	snprintf(name, sizeof(name), ROAMI_STORED_LEASE "%u", job->me);
	roami_stored_commit_name(job, name, &value, sizeof(value));
}

static void own_set(struct roami_stored *stored, uint32_t first, uint32_t parts, uint8_t state)
{
	for (uint32_t i = first; i < first + parts; i++)
		stored->own[i] = state;
}

void roami_stored_took(struct roami_job *job, uint32_t first, uint32_t parts, bool block)
{
	if (job->stored == NULL)
		return;
	roami_stored_commit_begin(job);
	own_set(job->stored, first, parts, block ? ROAMI_HEAP_PARTS_REST : ROAMI_HEAP_PARTS_LEASED);
	if (block)
		own_set(job->stored, first, 1, ROAMI_HEAP_PARTS_BLOCK);
	commit_own(job);
	roami_stored_commit_end(job);
}

void roami_stored_raise(struct roami_job *job, uint64_t high)
{
	struct roami_stored *stored = job->stored;
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint64_t base = roami_layout_base(&job->layout, 0);
	uint32_t end = (uint32_t)((high - base + pool->part - 1) / pool->part), first = end;

	while (first > stored->first && stored->own[first - 1] == ROAMI_HEAP_PARTS_FREE)
		first--;
	if (first < end)
		roami_stored_took(job, first, end - first, false);
}

uint64_t roami_stored_begins(const struct roami_job *job)
{
	return roami_layout_base(&job->layout, 0) +
	       job->stored->first * roami_job_pool(job, 0)->part;
}

uint64_t roami_stored_ends(const struct roami_job *job)
{
	return roami_layout_base(&job->layout, 0) + job->stored->end * roami_job_pool(job, 0)->part;
}

void roami_stored_words(struct roami_job *job)
{
	if (job->stored != NULL)
		roami_heap_parts_old(roami_job_pool(job, 0), job->stored->old, job->stored->first);
}

/* What nodes have taken is one record from now on. */
void roami_stored_commit_parts(struct roami_job *job, const uint8_t *states)
{
	struct roami_stored_parts value;
	char name[24];

	roami_stored_commit_begin(job);
	roami_stored_pack(job, states, &value);
	roami_stored_commit_name(job, ROAMI_STORED_PARTS, &value, sizeof(value));
	for (unsigned node = 0; node < ROAMI_NODES_MAX; node++) {
		snprintf(name, sizeof(name), ROAMI_STORED_LEASE "%u", node);
		roami_stored_commit_name(job, name, NULL, 0);
	}
	roami_stored_commit_end(job);
}

/* The most parts in a row that are free. */
void roami_stored_find(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;
	uint32_t count = roami_job_pool(job, 0)->count, run = 0;

	stored->first = stored->end = 0;
	for (uint32_t i = 0; i < count; i++) {
		run = stored->old[i] == ROAMI_HEAP_PARTS_FREE ? run + 1 : 0;
		if (run > stored->end - stored->first) {
			stored->first = i + 1 - run;
			stored->end = i + 1;
		}
	}
}
