/* A store at the start of a job, and at its end. */
#include "job/stored.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"
#include "link/address.h"

#define BUSY_NS UINT64_C(2000000000) /* for another job's connections to go */

#define AWAIT_NS UINT64_C(60000000000) /* for all nodes of a launcher to come */
#define AWAIT_US 2000u

enum roam_err roami_stored_check(struct roami_job *job)
{
	const struct roam_protocol *protocol = roami_protocol_find(job->options.protocol);
	const char *why = NULL;
	char text[200];

	if (job->options.store[0] == '\0')
		return ROAM_OK;
	snprintf(text, sizeof(text),
		 "pages go there with transactions, which ROAM_PROTOCOL=%s does not have; take "
		 "ROAM_PROTOCOL=plurix",
		 protocol->name);
	if (protocol->transactions == NULL)
		why = text;
	else if (job->shared.found > 0)
		why = "not with static variables in the heap (ROAM_SHARED)";
	else if (job->options.checkpoint[0] != '\0' || job->options.resume[0] != '\0')
		why = "not beside checkpoints (ROAM_CHECKPOINT, ROAM_RESUME)";
	else if ((job->options.check & ROAMI_CHECK_HEAP) != 0)
		why = "not with ROAM_CHECK=heap, which makes other blocks";
	return why != NULL ? roami_stored_says(job, ROAM_EUNSUPPORTED, why) : ROAM_OK;
}

static enum roam_err stored_connect(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;
	struct roami_store_opened opened;
	char why[ROAMI_STORE_TEXT_MAX + 1] = "";
	enum roam_err err;

	/* The server may not have seen yet that the job before has ended. */
	err = roami_stored_connect(job, roami_os_now_ns() + BUSY_NS, &opened, why);
	if (err != ROAM_OK)
		return roami_stored_says(job, err, why[0] != '\0' ? why : roam_strerror(err));
	/* No commit of an earlier process has one of these numbers. */
	stored->asked = stored->received = roami_os_now_ns();
	stored->serial = 0;
	stored->durable = opened.durable;
	memcpy(stored->store, opened.store, sizeof(stored->store));
	return ROAM_OK;
}

struct loading {
	struct roami_job *job;
	struct roami_stored_find find;
	enum roam_err err;
	uint64_t high;
	uint64_t version;
	bool named; /* there are names */
	struct roami_stored_range range;
	uint64_t arrived; /* nodes of this job, a bit each */
	struct roami_stored_foreign foreign;
	uint64_t points; /* the offset in the heap of a pointer to what is foreign; 0: none */
};

/* All of a page. */
static void load_page(struct loading *it, uint64_t at, const uint8_t *data, uint32_t bytes)
{
	const struct roami_layout *layout = &it->job->layout;
	uint64_t offset = roami_layout_base(layout, 0) + at, points;

	memcpy((uint8_t *)it->job->bases[0] + layout->heap + offset, data, bytes);
	if (it->job->boot.nodes > 1)
		atomic_fetch_or(&it->find.self.headers[offset / ROAMI_PAGE].where,
				ROAMI_HEADER_BYTES);
	it->high = offset + ROAMI_PAGE;
	points = it->points == 0 ? roami_stored_points(&it->foreign, data) : 0;
	if (points != 0)
		it->points = offset + points - 1;
}

static void load_bytes(void *arg, const struct roami_store_entry *entry, const uint8_t *data)
{
	struct loading *it = arg;
	uint64_t at = (uint64_t)entry->where * ROAMI_PAGE;
	uint64_t heap = roami_layout_bytes(&it->job->layout, 0);

	if (at >= it->job->stored->open.heap_bytes)
		it->err = ROAM_EPROTO;
	else if (at < heap)
		load_page(it, at, data, entry->bytes);
	else
		roami_stored_find_page(it->job, &it->find, at - heap, data, entry->bytes);
}

static bool name_is(const struct roami_store_entry *entry, const uint8_t *data, const char *name)
{
	return entry->from == strlen(name) && memcmp(data, name, entry->from) == 0;
}

/* The value of a name, of so many bytes. */
static void name_value(struct loading *it, const struct roami_store_entry *entry,
		       const uint8_t *data, void *to, size_t bytes)
{
	if (entry->bytes - entry->from == bytes)
		memcpy(to, data + entry->from, bytes);
	else
		it->err = ROAM_EMISMATCH;
}

/* The number behind "arrived." in a name; 0: of another job; UINT_MAX: no such name. */
static unsigned name_arrived(const struct loading *it, const struct roami_store_entry *entry,
			     const uint8_t *data)
{
	static const size_t ahead = sizeof(ROAMI_STORED_ARRIVED) - 1;
	const uint8_t *job = it->job->stored->open.job;
	char text[8] = "";

	if (entry->from <= ahead || entry->from - ahead >= sizeof(text) ||
	    memcmp(data, ROAMI_STORED_ARRIVED, ahead) != 0)
		return UINT_MAX;
	memcpy(text, data + ahead, entry->from - ahead);
	return entry->bytes - entry->from == 16 && memcmp(data + entry->from, job, 16) == 0
		       ? (unsigned)strtoul(text, NULL, 10) % ROAMI_NODES_MAX
		       : 0;
}

/* Each commit has one, also that by which a node arrives at an empty store. */
static bool name_commit(const struct roami_store_entry *entry, const uint8_t *data)
{
	static const size_t ahead = sizeof(ROAMI_STORED_COMMIT) - 1;

	return entry->from > ahead && memcmp(data, ROAMI_STORED_COMMIT, ahead) == 0;
}

static void load_name(void *arg, const struct roami_store_entry *entry, const uint8_t *data)
{
	struct loading *it = arg;
	uint64_t at = 0;
	unsigned node = name_arrived(it, entry, data);

	it->named = it->named || (node == UINT_MAX && !name_commit(entry, data));
	if (node != UINT_MAX)
		it->arrived |= UINT64_C(1) << node;
	if (name_is(entry, data, ROAMI_STORED_FORMAT))
		name_value(it, entry, data, &it->version, sizeof(it->version));
	else if (name_is(entry, data, ROAMI_STORED_PROGRAM) &&
		 !roami_stored_foreign(&it->foreign, data + entry->from,
				       entry->bytes - entry->from))
		it->err = ROAM_EMISMATCH;
	else if (name_is(entry, data, ROAMI_STORED_RANGE))
		name_value(it, entry, data, &it->range, sizeof(it->range));
	if (!name_is(entry, data, ROAMI_STORED_ROOTS))
		return;
	name_value(it, entry, data, &at, sizeof(at));
	it->job->stored->roots = at - (uintptr_t)it->job->app;
	if (it->job->stored->roots >= it->job->layout.heap_bytes)
		it->err = ROAM_EPROTO;
}

static enum roam_err load_says(struct roami_job *job, enum roam_err err)
{
	if (err == ROAM_EMISMATCH)
		return roami_stored_says(job, err, "the store is of another version of roam");
	return err == ROAM_OK ? err : roami_stored_says(job, err, "the store cannot be read");
}

static enum roam_err load_names(struct loading *it)
{
	enum roam_err err = roami_store_load(it->job->stored->client, ROAMI_STORE_NAMES, 0,
					     UINT32_MAX, load_name, it);

	return err == ROAM_OK ? it->err : err;
}

static enum roam_err load_points(struct roami_job *job, uint64_t at)
{
	char line[240];

	snprintf(line, sizeof(line),
		 "the heap has a pointer to code or variables, at %p, of a program that was built "
		 "or loaded differently; if it is none, or is not used, say "
		 "ROAM_TRUST_POINTERS=1 (roam run --trust-pointers)",
		 (void *)(job->app + at));
	return roami_stored_says(job, ROAM_EMISMATCH, line);
}

/* Gets the pages, and finds out where blocks are. */
static enum roam_err load_all(struct loading *it)
{
	struct roami_job *job = it->job;
	uint32_t end = (uint32_t)(job->stored->open.heap_bytes / ROAMI_PAGE);
	enum roam_err err = load_names(it);

	roami_segment_point(&it->find.self, &job->layout, job->bases[0]);
	if (err == ROAM_OK && it->version != ROAMI_STORED_VERSION &&
	    (it->version != 0 || it->named))
		err = ROAM_EMISMATCH;
	if (err == ROAM_OK)
		err = roami_store_load(job->stored->client, ROAMI_STORE_PAGES, 0, end, load_bytes,
				       it);
	if (err == ROAM_OK && it->err != ROAM_OK)
		err = it->err;
	return err == ROAM_OK && !roami_stored_found(job, &it->find) ? ROAM_EPROTO : err;
}

static enum roam_err stored_load(struct roami_job *job)
{
	struct loading it = {.job = job};
	enum roam_err err = load_all(&it);

	if (err != ROAM_OK)
		return load_says(job, err);
	if (it.points != 0 && !job->options.trust_pointers)
		return load_points(job, it.points);
	atomic_store(&job->high, it.high);
	roami_heap_parts_old(roami_job_pool(job, 0), job->stored->old);
	if (job->boot.nodes > 0)
		roami_alloc_skip(job->allocs[0], roami_stored_begins(job));
	return ROAM_OK;
}

/* Freed blocks: whoever gets that memory takes it to be zero, here and after the next start. */
static void load_zero(struct roami_job *job)
{
	static const uint8_t zero[ROAMI_PAGE];
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint64_t base = roami_layout_base(&job->layout, 0);
	uint64_t heap = job->layout.heap, at = heap + base, data;
	unsigned pages = 0;

	while (roami_os_data(job->fds[0], &at, heap + job->layout.heap_bytes, &data))
		for (uint64_t page = (data - heap) / ROAMI_PAGE; page * ROAMI_PAGE < at - heap;
		     page++) {
			uint8_t *bytes = (uint8_t *)job->bases[0] + heap + page * ROAMI_PAGE;
			uint64_t part = (page * ROAMI_PAGE - base) / pool->part;

			if (part >= pool->count || memcmp(bytes, zero, ROAMI_PAGE) == 0 ||
			    job->stored->old[part] != ROAMI_HEAP_PARTS_FREE)
				continue;
			memset(bytes, 0, ROAMI_PAGE);
			if (pages++ == 0)
				roami_stored_commit_begin(job);
			roami_stored_commit_page(job, (uint32_t)page, bytes);
			if (pages == ROAMI_STORED_ONCE)
				roami_stored_commit_end(job);
			pages %= ROAMI_STORED_ONCE;
		}
	if (pages > 0)
		roami_stored_commit_end(job);
}

static enum roam_err stored_make(struct roami_job *job)
{
	struct roami_stored *stored = roami_os_reserve(sizeof(*stored));
	const char *file = job->options.store_key;
	char why[ROAMI_STORE_TEXT_MAX + 1] = "";

	if (stored == NULL)
		return roami_stored_says(job, ROAM_ENOMEM, "no memory");
	job->stored = stored;
	pthread_mutex_init(&stored->turn, NULL);
	pthread_mutex_init(&stored->lock, NULL);
	pthread_cond_init(&stored->changed, NULL);
	stored->pagemap = -1;
	pthread_mutex_init(&stored->noting, NULL);
	stored->open = (struct roami_store_open){
		.heap_bytes = roami_store_bytes(roami_layout_bytes(&job->layout, 0)),
		.heap_at = (uintptr_t)job->app + roami_layout_base(&job->layout, 0),
		.page_bytes = ROAMI_STORE_PAGE};
	memcpy(stored->open.job, job->name, sizeof(stored->open.job));
	if (job->boot.nodes == 0 && !roami_os_secret(stored->open.job, sizeof(stored->open.job)))
		return roami_stored_says(job, ROAM_ESYSTEM, "the job gets no random name");
	if (file[0] == '\0')
		return roami_stored_says(job, ROAM_EKEY,
					 "ROAM_STORE_KEY does not name its key's file");
	if (!roami_address_key(file, false, stored->key, why, sizeof(why)))
		return roami_stored_says(job, ROAM_EKEY, why);
	return ROAM_OK;
}

/* Whether the process is alone until CREATE, with others that a launcher has started. */
static bool stored_repeats(const struct roami_job *job)
{
	return job->boot.nodes > 1 && job->main != &roami_main_everywhere;
}

/* Connects. */
static enum roam_err stored_open(struct roami_job *job)
{
	enum roam_err err = stored_make(job);

	return err == ROAM_OK ? stored_connect(job) : err;
}

/* Reads the names until they say what this node waits for. */
static enum roam_err stored_await(struct roami_job *job, struct loading *it,
				  bool (*met)(const struct loading *it))
{
	uint64_t until = roami_os_now_ns() + AWAIT_NS;
	enum roam_err err;

	for (;;) {
		*it = (struct loading){.job = job};
		err = load_names(it);
		if (err != ROAM_OK || met(it))
			return load_says(job, err);
		if (roami_os_now_ns() > until)
			return roami_stored_says(job, ROAM_ETIMEDOUT,
						 "not all nodes have come to it");
		usleep(AWAIT_US);
	}
}

static bool await_all(const struct loading *it)
{
	uint64_t all = (UINT64_C(2) << (it->job->boot.nodes - 1)) - 2;

	return (it->arrived & all) == all;
}

static bool await_range(const struct loading *it)
{
	return memcmp(it->range.job, it->job->stored->open.job, sizeof(it->range.job)) == 0;
}

/*
 * All processes of a launcher that execute main up to CREATE have to begin with the same pages:
 * node 0 changes none before the others have them.
 */
static enum roam_err stored_await_others(struct roami_job *job)
{
	struct loading it;

	return stored_await(job, &it, await_all);
}

static enum roam_err stored_arrive(struct roami_job *job)
{
	char name[24];

	snprintf(name, sizeof(name), ROAMI_STORED_ARRIVED "%u", job->boot.me);
	job->stored->mute = false;
	roami_stored_commit_open(job);
	roami_stored_commit_name(job, name, job->stored->open.job,
				 sizeof(job->stored->open.job));
	roami_stored_commit_end(job);
	job->stored->mute = true;
	return ROAM_OK;
}

/* The store has the job's beginning: what other nodes must know, and that they all have come. */
static void stored_head(struct roami_job *job)
{
	static const uint64_t version = ROAMI_STORED_VERSION;
	struct roami_stored_range range = {.first = job->stored->first, .end = job->stored->end};
	char name[24];

	memcpy(range.job, job->stored->open.job, sizeof(range.job));
	roami_stored_commit_open(job);
	roami_stored_commit_name(job, ROAMI_STORED_FORMAT, &version, sizeof(version));
	roami_stored_commit_name(job, ROAMI_STORED_RANGE, &range, sizeof(range));
	roami_stored_program(job);
	for (unsigned node = 1; node < ROAMI_NODES_MAX; node++) {
		snprintf(name, sizeof(name), ROAMI_STORED_ARRIVED "%u", node);
		roami_stored_commit_name(job, name, NULL, 0);
	}
	roami_stored_commit_end(job);
}

static enum roam_err stored_begin(struct roami_job *job)
{
	enum roam_err err = stored_open(job);

	if (err == ROAM_OK) {
		job->stored->mute = stored_repeats(job) && job->boot.me != 0;
		err = stored_load(job);
	}
	if (err == ROAM_OK && stored_repeats(job))
		err = job->boot.me == 0 ? stored_await_others(job) : stored_arrive(job);
	return err;
}

enum roam_err roami_stored_begin(struct roami_job *job)
{
	enum roam_err err;

	if (job->options.store[0] == '\0')
		return ROAM_OK;
	err = stored_begin(job);
	job->failed = err; /* which was told */
	if (err != ROAM_OK)
		return err;
	stored_head(job);
	load_zero(job);
	atomic_store(&roami_job_pool(job, 0)->roots, job->stored->roots);
	if (job->boot.nodes > 1)
		atomic_store(&roami_job_ctl(job, 0)->creator_end, job->high);
	if (job->node != NULL)
		roami_stored_node(job);
	if (job->boot.nodes <= 1 || stored_repeats(job))
		job->failed = roami_stored_apart(job);
	return job->failed;
}

/* Which parts nodes may hand out before there are leases. */
static enum roam_err stored_range(struct roami_job *job)
{
	struct loading it;
	enum roam_err err = stored_await(job, &it, await_range);

	if (err == ROAM_OK && (it.range.first > it.range.end ||
			       it.range.end > roami_job_pool(job, 0)->count))
		err = load_says(job, ROAM_EPROTO);
	if (err != ROAM_OK)
		return err;
	job->stored->first = it.range.first;
	job->stored->end = it.range.end;
	roami_alloc_skip(job->allocs[0], roami_stored_begins(job));
	return ROAM_OK;
}

enum roam_err roami_stored_follow(struct roami_job *job)
{
	enum roam_err err;

	if (job->options.store[0] == '\0' || job->me == 0)
		return ROAM_OK;
	err = stored_open(job);
	if (err == ROAM_OK)
		err = stored_range(job);
	if (err == ROAM_OK)
		roami_stored_node(job);
	return err;
}

void roami_stored_forked(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;

	if (stored == NULL || stored->client == NULL)
		return;
	close(roami_store_fd(stored->client)); /* a word here would be the parent's */
	stored->client = NULL;
	stored->apart = false;
	stored->notes.count = 0;
}

enum roam_err roami_stored_join(struct roami_job *job)
{
	return job->stored != NULL ? stored_connect(job) : ROAM_OK;
}

enum roam_err roami_stored_ended(struct roami_job *job)
{
	return job->stored != NULL ? roami_stored_apart(job) : ROAM_OK;
}

void roami_stored_close(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;

	if (stored == NULL)
		return;
	if (stored->apart)
		roami_stored_flush(job, true, false);
	if (roami_stored_durable(job) != ROAM_OK)
		roami_stored_fail(job);
	roami_store_disconnect(stored->client);
	stored->client = NULL;
}
