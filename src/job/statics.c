/* Compares the static variables of all nodes. */
#include "job/statics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"

#define WORDS_A_PAGE (ROAMI_PAGE / sizeof(uint64_t))

static bool statics_wanted(const struct roami_job *job)
{
	return (job->options.check & ROAMI_CHECK_STATICS) != 0 && !job->statics.off;
}

static void statics_give_up(struct roami_job *job, const char *why)
{
	job->statics.off = true;
	if (job->boot.me == 0 && job->me == 0)
		fprintf(stderr, "roam: warning: ROAM_CHECK=statics: %s\n", why);
}

/* A row of words for each possible node; every process that executes main makes the same rows. */
static const char *statics_open(struct roami_job *job)
{
	static const struct roam_region anywhere = {.place = ROAM_PLACE_FIRST_TOUCH};
	struct roami_statics *statics = &job->statics;
	const char *why = roami_image_read(&statics->image);
	enum roam_err err;

	if (why != NULL)
		return why;
	statics->row = (statics->image.count + WORDS_A_PAGE) / WORDS_A_PAGE * WORDS_A_PAGE;
	statics->copy = malloc((size_t)(statics->image.data_end - statics->image.data) + 1);
	statics->table = roami_job_alloc(job, ROAMI_NODES_MAX * statics->row * sizeof(uint64_t),
					 &anywhere, &err);
	return statics->copy == NULL || statics->table == NULL ? "no memory" : NULL;
}

void roami_statics_begin(struct roami_job *job)
{
	struct roami_statics *statics = &job->statics;
	const char *why;

	if (!statics_wanted(job))
		return;
	if (statics->table == NULL && (why = statics_open(job)) != NULL) {
		statics_give_up(job, why);
		return;
	}
	memcpy(statics->copy, statics->image.data,
	       (size_t)(statics->image.data_end - statics->image.data));
	statics->noted = false;
}

/* Whether this node has written the variable since statics_begin. */
static bool statics_changed(const struct roami_statics *statics, const struct roami_static *one)
{
	return memcmp(statics->copy + (one->at - statics->image.data), one->at, one->bytes) != 0;
}

/* A hash of the variable's bytes; its lowest bit tells whether they have changed. */
static uint64_t statics_word(const struct roami_statics *statics, const struct roami_static *one)
{
	uint64_t hash = 14695981039346656037u;

	for (size_t i = 0; i < one->bytes; i++)
		hash = (hash ^ one->at[i]) * 1099511628211u;
	return hash << 1 | statics_changed(statics, one);
}

/* Whether the variable is in the heap, where all nodes have the same bytes. */
static bool statics_shared(const struct roami_job *job, const struct roami_static *one)
{
	uint64_t offset;

	return roami_shared_offset(job, one->at, one->bytes, &offset);
}

void roami_statics_note(struct roami_job *job)
{
	struct roami_statics *statics = &job->statics;
	uint64_t *row = statics->table + job->me * statics->row;

	if (!statics_wanted(job) || statics->table == NULL || statics->noted)
		return;
	for (size_t i = 0; i < statics->image.count; i++)
		if (!statics_shared(job, &statics->image.statics[i]))
			row[i] = statics_word(statics, &statics->image.statics[i]);
	statics->noted = true;
}

/* The nodes that have written the variable; 0: none, or its value is the same everywhere. */
static uint64_t statics_writers(const struct roami_statics *statics, size_t index, unsigned nodes)
{
	uint64_t first = statics->table[index], writers = 0;
	bool same = true;

	for (unsigned node = 0; node < nodes; node++) {
		uint64_t word = statics->table[node * statics->row + index];

		writers |= (word & 1) << node;
		same = same && word >> 1 == first >> 1;
	}
	return same ? 0 : writers;
}

void roami_statics_sealed(struct roami_job *job)
{
	struct roami_statics *statics = &job->statics;
	char users[300];

	if (!statics_wanted(job) || statics->table == NULL || job->me != 0 || job->boot.me != 0)
		return;
	for (size_t i = 0; i < statics->image.count; i++) {
		const struct roami_static *one = &statics->image.statics[i];

		if (statics_shared(job, one) || !statics_changed(statics, one))
			continue;
		users[0] = '\0';
		roami_image_users(&statics->image, one, users, sizeof(users));
		fprintf(stderr,
			"roam: statics: %s (%zu bytes) was written between CREATE and the first "
			"synchronisation: with ROAM_THREADS all that CREATE makes have its last "
			"value; used by %s\n",
			one->name, one->bytes, users);
		job->found = true;
	}
}

static void statics_say(const struct roami_statics *statics, const struct roami_static *one,
			uint64_t writers, unsigned nodes)
{
	char users[300] = "", who[ROAMI_NODES_MAX * 4] = "";
	size_t used = 0;

	roami_image_users(&statics->image, one, users, sizeof(users));
	for (unsigned node = 0; node < nodes; node++)
		if (writers >> node & 1)
			used += (size_t)snprintf(who + used, sizeof(who) - used, "%s%u",
						 used > 0 ? ", " : "", node);
	fprintf(stderr,
		"roam: statics: %s (%zu bytes) was written after CREATE on node%s %s of %u, and "
		"differs between them; used by %s\n",
		one->name, one->bytes, (writers & (writers - 1)) != 0 ? "s" : "", who, nodes,
		users);
}

size_t roami_statics_report(struct roami_job *job, unsigned nodes)
{
	struct roami_statics *statics = &job->statics;
	size_t found = 0;

	if (!statics_wanted(job) || statics->table == NULL)
		return 0;
	fflush(stdout);
	for (size_t i = 0; i < statics->image.count; i++) {
		uint64_t writers = statics_writers(statics, i, nodes);

		if (writers == 0)
			continue;
		statics_say(statics, &statics->image.statics[i], writers, nodes);
		found++;
	}
	if (found > 0)
		fprintf(stderr, "roam: statics: %zu found\n", found);
	else
		fprintf(stderr, "roam: statics: none found\n");
	return found;
}

/* Whether a word of the variable is the address of shared memory, and was not at CREATE. */
static bool statics_points(const struct roami_job *job, const struct roami_static *one)
{
	const uint8_t *before = job->statics.copy + (one->at - job->statics.image.data);
	uintptr_t was, is;

	for (size_t at = 0; at + sizeof(is) <= one->bytes; at += sizeof(is)) {
		memcpy(&was, before + at, sizeof(was));
		memcpy(&is, one->at + at, sizeof(is));
		if (was != is && is - (uintptr_t)job->node->app < job->node->layout.heap_bytes)
			return true;
	}
	return false;
}

bool roami_statics_written(const struct roami_job *job, size_t *at_p, char *text, size_t bytes)
{
	const struct roami_statics *statics = &job->statics;
	char users[300] = "";

	if (!statics_wanted(job) || statics->table == NULL || statics->noted)
		return false;
	while (*at_p < statics->image.count) {
		const struct roami_static *one = &statics->image.statics[(*at_p)++];

		if (statics_shared(job, one) || !statics_changed(statics, one))
			continue;
		roami_image_users(&statics->image, one, users, sizeof(users));
		snprintf(text, bytes,
			 "statics: %s (%zu bytes) was written after CREATE on node %u, and no "
			 "other node sees that; used by %s",
			 one->name, one->bytes, job->me, users);
		return true;
	}
	return false;
}

void roami_statics_broken(struct roami_job *job, unsigned dead)
{
	const struct roami_statics *statics = &job->statics;

	if (!statics_wanted(job) || statics->table == NULL || statics->noted)
		return;
	for (size_t i = 0; i < statics->image.count; i++) {
		const struct roami_static *one = &statics->image.statics[i];
		char users[300] = "", text[700];
		int length;

		if (statics_shared(job, one) || !statics_points(job, one))
			continue;
		roami_image_users(&statics->image, one, users, sizeof(users));
		length = snprintf(text, sizeof(text),
				  "roam: statics: %s (%zu bytes) was written after CREATE on node "
				  "%u, and points to shared memory; node %u may lack that; used by "
				  "%s\n",
				  one->name, one->bytes, job->me, dead, users);
		if (write(STDERR_FILENO, text, (size_t)length) < 0)
			return;
	}
}
