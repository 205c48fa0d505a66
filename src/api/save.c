/*
 * Checkpoints.  The calls are made of reductions, which all threads go through, and of plain loads
 * and stores: the first thread of each node that writes does the node's part between them.  They
 * are INSIDE as a whole: for a thread that left them in the middle the others would wait for ever.
 */
#include "roam/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "job/job.h"
#include "save/store.h"
#include "sync/sync.h"

static struct roami_job *const job = &roami_api_job;

/* A checkpoint that is being written or read, as the calling thread sees it. */
struct saving {
	const char *directory;
	uint64_t expected; /* the number of the checkpoint there, if there is one; 0: any */
	bool works;        /* for its node */
	struct roami_save_store store;
	struct roami_save_plan plan;
	struct roami_save_info info;
	uint64_t *states; /* of all threads; NULL: not here */
	bool together;    /* all threads have come to the call */
	bool early;       /* it was saved in a later round of CREATE */
};

/* The worst error of all threads, which all get. */
static enum roam_err agree(enum roam_err mine)
{
	int32_t worst = (int32_t)mine;
	enum roam_err err = roami_api_reduce(&worst, 1, ROAM_INT32, ROAM_MAX);

	return err != ROAM_OK ? err : (enum roam_err)worst;
}

/* Words of which every thread has some, and 0 in the place of the others: all get all. */
static enum roam_err share(uint64_t *words, size_t count)
{
	enum roam_err err = ROAM_OK;

	for (size_t at = 0; at < count && err == ROAM_OK; at += ROAM_REDUCE_MAX) {
		size_t some = count - at < ROAM_REDUCE_MAX ? count - at : ROAM_REDUCE_MAX;

		err = roami_api_reduce(words + at, (unsigned)some, ROAM_INT64, ROAM_OR);
	}
	return err;
}

static enum roam_err share_at(struct roami_save_at *at)
{
	return share(&at->number, sizeof(*at) / 8);
}

static bool first_of_node(void)
{
	return roami_team_mate(job) == 0;
}

static enum roam_err said(struct saving *it, enum roam_err err, const char *why)
{
	snprintf(it->store.why, sizeof(it->store.why), "%s", why);
	return err;
}

/* What this node's state forbids. */
static enum roam_err state_fits(struct saving *it)
{
	char who[24];
	unsigned blocks;

	if (roami_locks_held(job->node))
		return said(it, ROAM_ESTATE, "a thread holds a lock");
	blocks = roami_save_strange(job);
	if (blocks == 0)
		return ROAM_OK;
	if (job->me == 0)
		snprintf(who, sizeof(who), "other nodes have");
	else
		snprintf(who, sizeof(who), "node %u has", job->me);
	snprintf(it->store.why, sizeof(it->store.why),
		 "%s allocated %u blocks since CREATE, which a resumed run would not have: node 0 "
		 "or main has to allocate them", who, blocks);
	return ROAM_ESTATE;
}

static enum roam_err plan_make(struct saving *it)
{
	if (!roami_save_plan(&it->plan, job))
		return said(it, ROAM_ENOMEM, "no memory");
	return ROAM_OK;
}

/* Begins either: all threads are here, and those that work have a plan. */
static enum roam_err begin(struct saving *it, const char *directory)
{
	enum roam_err err = roami_api_transacts() ? ROAM_ESTATE : ROAM_OK;

	*it = (struct saving){.directory = directory,
			      .expected = it->expected,
			      .store = ROAMI_SAVE_STORE_NONE};
	if (err != ROAM_OK)
		return said(it, err, "not within a transaction");
	if (directory == NULL || directory[0] == '\0')
		return said(it, ROAM_EINVAL, "no directory is named");
	err = agree(ROAM_OK); /* seals the job, if need be */
	if (err != ROAM_OK)
		return err;
	it->together = true;
	it->works = first_of_node() && roami_save_writes(job);
	err = agree(first_of_node() ? state_fits(it) : ROAM_OK);
	if (err == ROAM_OK)
		err = agree(it->works ? plan_make(it) : ROAM_OK);
	return err;
}

static void end(struct saving *it)
{
	roami_save_plan_end(&it->plan);
	roami_save_leave(&it->store);
	free(it->states);
}

/* ----------------------------------------------------------------------------------------- save */

/* Node 0 makes the place, of whose number all learn; then the other nodes open it. */
static enum roam_err places(struct saving *it)
{
	bool first = it->works && job->me == 0;
	enum roam_err err = ROAM_OK;
	struct roami_save_at at = {0};

	if (first)
		err = roami_save_begin(&it->store, it->directory, it->expected);
	if (first && err == ROAM_OK)
		at = it->store.at;
	err = agree(err);
	if (err == ROAM_OK)
		err = share_at(&at);
	if (err == ROAM_OK && it->works && !first)
		err = roami_save_join(&it->store, it->directory, &at);
	return agree(err);
}

/* All threads have to pass as many private bytes. */
static enum roam_err bytes_equal(struct saving *it, size_t bytes)
{
	int32_t ends[2] = {(int32_t)bytes, -(int32_t)bytes};
	enum roam_err err = roami_api_reduce(ends, 2, ROAM_INT32, ROAM_MAX);

	if (err != ROAM_OK || ends[0] == -ends[1])
		return err;
	snprintf(it->store.why, sizeof(it->store.why),
		 "one thread has %d private bytes, another one %d", -ends[1], ends[0]);
	return ROAM_EINVAL;
}

/* Counts of all nodes, and all threads' private bytes, come together. */
static enum roam_err gather(struct saving *it, const struct roami_save_info *mine,
			    const void *state, size_t bytes)
{
	uint64_t sums[3] = {mine->pages, mine->pointers, it->works ? UINT64_C(1) << job->me : 0};
	enum roam_err err = roami_api_reduce(sums, 3, ROAM_INT64, ROAM_SUM);
	size_t words = (bytes + 7) / 8, all = words * roam_nodes();

	it->states = calloc(all + 1, sizeof(*it->states));
	if (err == ROAM_OK)
		err = agree(it->states == NULL ? said(it, ROAM_ENOMEM, "no memory") : ROAM_OK);
	if (err != ROAM_OK)
		return err;
	if (bytes > 0)
		memcpy(it->states + words * roam_node(), state, bytes);
	it->info.pages = sums[0];
	it->info.pointers = sums[1];
	it->info.writers = sums[2];
	it->info.state_bytes = bytes;
	it->info.threads = roam_nodes();
	return share(it->states, all);
}

static enum roam_err save(struct saving *it, const char *directory, const void *state, size_t bytes)
{
	struct roami_save_info mine = {.pages = 0};
	enum roam_err err = begin(it, directory);

	if (err == ROAM_OK)
		err = bytes_equal(it, bytes);
	if (err == ROAM_OK)
		err = places(it);
	if (err == ROAM_OK && it->works)
		roami_save_describe(&it->info, &it->plan);
	if (err == ROAM_OK)
		err = agree(it->works ? roami_save_pages(&it->store, &it->plan, &mine) : ROAM_OK);
	if (err == ROAM_OK)
		err = gather(it, &mine, state, bytes);
	if (err == ROAM_OK)
		err = agree(it->works && job->me == 0
				    ? roami_save_commit(&it->store, &it->info, it->states)
				    : ROAM_OK);
	if (err != ROAM_OK && it->works && job->me == 0)
		roami_save_abandon(&it->store);
	return err;
}

/* Whether this thread says why: of those that know, that of the lowest number. */
static bool speaks(const struct saving *it)
{
	bool knows = it->store.why[0] != '\0';
	int32_t me = (int32_t)roam_node(), first = knows ? me : INT32_MAX;

	if (it->together && roami_api_reduce(&first, 1, ROAM_INT32, ROAM_MIN) != ROAM_OK)
		return knows;
	return knows && first == me;
}

static void says(const struct saving *it, enum roam_err err, const char *call)
{
	if (err != ROAM_OK && speaks(it))
		fprintf(stderr, "roam: %s %s: %s\n", call,
			it->directory != NULL ? it->directory : "", it->store.why);
}

enum roam_err roam_save(const char *directory)
{
	INSIDE;
	struct saving it = {.expected = 0};
	enum roam_err err = save(&it, directory, NULL, 0);

	end(&it);
	says(&it, err, __func__);
	return err;
}

/* ----------------------------------------------------------------------------------------- load */

/* Node 0 reads the head, of which all learn. */
static enum roam_err heads(struct saving *it)
{
	bool first = it->works && job->me == 0;
	enum roam_err err = ROAM_OK;
	struct roami_save_at at = {0};

	if (first)
		err = roami_load_begin(&it->store, it->directory, &it->info, &it->states);
	if (first && err == ROAM_OK)
		at = it->store.at;
	err = agree(err);
	if (err == ROAM_OK)
		err = share_at(&at);
	if (err == ROAM_OK)
		err = share((uint64_t *)(void *)&it->info, sizeof(it->info) / 8);
	if (err == ROAM_OK && it->works && !first)
		err = roami_save_join(&it->store, it->directory, &at);
	return agree(err);
}

/* Every thread gets its private bytes. */
static enum roam_err scatter(struct saving *it, void *state, size_t bytes)
{
	size_t words = roami_save_state_words(&it->info), all = words * it->info.threads;
	unsigned thread = roam_nodes() == it->info.threads ? roam_node() : 0;
	enum roam_err err = ROAM_OK;

	if (it->states == NULL)
		it->states = calloc(all + 1, sizeof(*it->states));
	if (it->states == NULL)
		err = said(it, ROAM_ENOMEM, "no memory");
	if (err == ROAM_OK && bytes != it->info.state_bytes) {
		snprintf(it->store.why, sizeof(it->store.why),
			 "%llu private bytes were saved, the program has %zu",
			 (unsigned long long)it->info.state_bytes, bytes);
		err = ROAM_ECHECKPOINT;
	}
	/* All threads have come to the load; with the next reduction all see it. */
	if (first_of_node())
		job->resumed = true;
	err = agree(err);
	if (err == ROAM_OK)
		err = share(it->states, all);
	if (err == ROAM_OK && bytes > 0)
		memcpy(state, it->states + words * thread, bytes);
	return err;
}

/* The number of nodes that read files, and this one's among them. */
static enum roam_err verify(struct saving *it)
{
	unsigned mine, count = roami_save_writers(job, &mine);

	return roami_load_verify(&it->store, &it->plan, &it->info, mine, count);
}

#define ROUND_ANY UINT64_MAX

/* Loads a checkpoint of this round of CREATE; not yet one of a later round. */
static enum roam_err load(struct saving *it, const char *directory, uint64_t round)
{
	enum roam_err err = begin(it, directory);

	if (err == ROAM_OK)
		err = heads(it);
	it->early = err == ROAM_OK && round != ROUND_ANY && it->info.round > round;
	if (it->early)
		return ROAM_OK;
	if (err == ROAM_OK && round != ROUND_ANY && it->info.round < round)
		return said(it, ROAM_ECHECKPOINT, "it was saved in an earlier round of CREATE");
	if (err == ROAM_OK)
		err = agree(it->works ? roami_load_fits(&it->store, &it->plan, &it->info)
				      : ROAM_OK);
	if (err == ROAM_OK)
		err = agree(it->works ? verify(it) : ROAM_OK);
	if (err == ROAM_OK)
		err = agree(it->works ? roami_load_share(&it->store, &it->plan, &it->info)
				      : ROAM_OK);
	if (err == ROAM_OK)
		err = agree(it->works ? roami_load_pages(&it->store, &it->plan, &it->info)
				      : ROAM_OK);
	return err;
}

enum roam_err roam_load(const char *directory)
{
	INSIDE;
	struct saving it = {.expected = 0};
	enum roam_err err = load(&it, directory, ROUND_ANY);

	end(&it);
	says(&it, err, __func__);
	return err;
}

/* ------------------------------------------------------------------------------ resume points */

/* The job ends with the line of the node that knows why; the others wait for that. */
static void resume_fails(const struct saving *it, enum roam_err err)
{
	char text[ROAMI_SAVE_WHY + 120];

	if (!speaks(it) && err != ROAM_EPEER)
		roami_barrier(job->node, ROAMI_ALL_ID, 0);
	snprintf(text, sizeof(text), "cannot resume from %.80s: %s", it->directory,
		 it->store.why[0] != '\0' ? it->store.why : roam_strerror(err));
	roami_api_die(text);
}

static bool resumes(void *state, size_t bytes)
{
	struct saving it = {.expected = 0};
	enum roam_err err;

	if (job->rounds < job->resume_round)
		return false;
	err = load(&it, job->options.resume, job->rounds);
	if (err == ROAM_OK && it.early && first_of_node())
		job->resume_round = (unsigned)it.info.round;
	if (err == ROAM_OK && it.early) /* then all threads see it */
		err = agree(ROAM_OK);
	else if (err == ROAM_OK)
		err = scatter(&it, state, bytes);
	if (err != ROAM_OK)
		resume_fails(&it, err);
	end(&it);
	return !it.early;
}

/* Whether it is time, by node 0's clock. */
static bool is_due(void)
{
	int32_t due = 0;

	if (job->me == 0 && first_of_node()) {
		uint64_t now = roam_clock_us();

		if (job->saved_us == 0)
			job->saved_us = now;
		due = now - job->saved_us >= job->options.checkpoint_every * 1000000;
	}
	return roami_api_reduce(&due, 1, ROAM_INT32, ROAM_MAX) == ROAM_OK && due != 0;
}

static void checkpoint(const void *state, size_t bytes)
{
	uint64_t begun = roam_clock_us();
	struct saving it = {.expected = job->saved_number};
	enum roam_err err = save(&it, job->options.checkpoint, state, bytes);

	end(&it);
	if (job->me == 0 && first_of_node())
		job->saved_us = roam_clock_us();
	if (err == ROAM_OK && job->me == 0 && first_of_node())
		job->saved_number = it.store.at.number;
	if (err == ROAM_OK && job->me == 0 && first_of_node() &&
	    job->options.log >= ROAMI_LEVEL_INFO)
		fprintf(stderr, "roam: saved %llu MiB in %.2f s in %s\n",
			(unsigned long long)(it.info.pages * ROAMI_PAGE >> 20),
			(double)(roam_clock_us() - begun) * 1e-6, it.directory);
	says(&it, job->save_failed ? ROAM_OK : err, "cannot save to");
	if (err != ROAM_OK && first_of_node())
		job->save_failed = true;
}

/* What a program must not do at any time: else it is not saved, and nobody knows. */
static void point_checked(const void *state, size_t bytes)
{
	if (state == NULL && bytes > 0)
		roami_api_die("roam_resume_point: the private bytes are NULL");
	if (bytes > ROAM_RESUME_BYTES_MAX)
		roami_api_die("roam_resume_point: more than 4096 private bytes "
			      "(ROAM_RESUME_BYTES_MAX)");
	if (roami_api_transacts())
		roami_api_die("roam_resume_point: not within a transaction");
}

bool roam_resume_point(void *state, size_t bytes)
{
	INSIDE;

	if (roami_api_begin() != ROAM_OK)
		return false;
	point_checked(state, bytes);
	if (job->options.resume[0] != '\0' && !job->resumed)
		return resumes(state, bytes);
	if (job->options.checkpoint[0] != '\0' && is_due())
		checkpoint(state, bytes);
	return false;
}
