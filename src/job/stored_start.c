/*
 * A store at the start of a job, and at its end.  Node 0 gets all pages before any other node has
 * begun, and then says which parts of the heap were in use, in one record.
 */
#include "job/stored.h"

#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"
#include "link/address.h"

#define BUSY_NS UINT64_C(2000000000) /* for another job's connections to go */
#define BUSY_US 20000u

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

enum roam_err roami_stored_starts(struct roami_job *job)
{
	if (job->options.store[0] == '\0' || job->boot.nodes == 0)
		return ROAM_OK;
	if (job->main == &roami_main_everywhere && (job->key != NULL || job->lent[0] != 0))
		return ROAM_OK;
	return job->boot.me != 0 ? ROAM_EUNSUPPORTED
				 : roami_stored_says(
					   job, ROAM_EUNSUPPORTED,
					   "a launcher's job can have it only by roam run, and if "
					   "its program begins with roam_start");
}

static enum roam_err stored_connect(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;
	struct roami_store_opened opened;
	char why[ROAMI_STORE_TEXT_MAX + 1] = "";
	uint64_t until = roami_os_now_ns() + BUSY_NS;
	enum roam_err err;

	/* The server may not have seen yet that the job before has ended. */
	while ((err = roami_store_connect(&stored->client, job->options.store, stored->key,
					  &stored->open, &opened, why, sizeof(why))) ==
		       ROAM_EBUSY &&
	       roami_os_now_ns() < until)
		usleep(BUSY_US);
	if (err != ROAM_OK)
		return roami_stored_says(job, err, why[0] != '\0' ? why : roam_strerror(err));
	stored->asked = stored->received = stored->serial = 0;
	stored->durable = opened.durable;
	return ROAM_OK;
}

struct loading {
	struct roami_job *job;
	struct roami_segment self;
	enum roam_err err;
	uint64_t high;
};

static void load_page(void *arg, const struct roami_store_entry *entry, const uint8_t *data)
{
	struct loading *it = arg;
	uint64_t at = (uint64_t)entry->where * ROAMI_PAGE;
	uint8_t *heap = (uint8_t *)it->job->bases[0] + it->job->layout.heap;

	if (entry->from > ROAMI_PAGE || entry->bytes > ROAMI_PAGE - entry->from ||
	    at >= it->job->layout.heap_bytes) {
		it->err = ROAM_EPROTO;
		return;
	}
	memcpy(heap + at + entry->from, data, entry->bytes);
	if (it->job->boot.nodes > 1)
		atomic_fetch_or(&it->self.headers[entry->where].where, ROAMI_HEADER_BYTES);
	it->high = at + ROAMI_PAGE > it->high ? at + ROAMI_PAGE : it->high;
}

/* `leases`: what this job has taken meanwhile does not count. */
static void load_parts(struct loading *it, const uint8_t *data, size_t bytes, bool leases)
{
	const struct roami_heap_parts *pool = roami_job_pool(it->job, 0);
	struct roami_stored_parts value;

	if (bytes != sizeof(value)) {
		it->err = ROAM_EMISMATCH;
		return;
	}
	memcpy(&value, data, sizeof(value));
	if (value.version != ROAMI_STORED_VERSION || value.part != pool->part ||
	    value.count != pool->count)
		it->err = ROAM_EMISMATCH;
	else if (!leases || memcmp(value.job, it->job->stored->open.job, sizeof(value.job)) != 0)
		roami_stored_fold(&value, it->job->stored->old);
}

static bool name_is(const struct roami_store_entry *entry, const uint8_t *data, const char *name)
{
	return entry->from == strlen(name) && memcmp(data, name, entry->from) == 0;
}

static void load_name(void *arg, const struct roami_store_entry *entry, const uint8_t *data)
{
	struct loading *it = arg;
	size_t bytes = entry->bytes - entry->from, lease = strlen(ROAMI_STORED_LEASE);

	if (entry->from > entry->bytes)
		it->err = ROAM_EPROTO;
	else if (name_is(entry, data, ROAMI_STORED_ROOTS) && bytes == sizeof(uint64_t))
		memcpy(&it->job->stored->roots, data + entry->from, sizeof(uint64_t));
	else if (name_is(entry, data, ROAMI_STORED_PARTS))
		load_parts(it, data + entry->from, bytes, false);
	else if (entry->from > lease && memcmp(data, ROAMI_STORED_LEASE, lease) == 0)
		load_parts(it, data + entry->from, bytes, true);
	else
		it->err = ROAM_EMISMATCH;
}

/* Which parts have blocks; node 0 gets the pages, too. */
static enum roam_err stored_load(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;
	struct loading it = {.job = job};
	enum roam_err err;

	roami_segment_point(&it.self, &job->layout, job->bases[job->me]);
	err = roami_store_load(stored->client, ROAMI_STORE_NAMES, 0, UINT32_MAX, load_name, &it);
	if (err == ROAM_OK && it.err == ROAM_OK && job->me == 0)
		err = roami_store_load(stored->client, ROAMI_STORE_PAGES, 0, job->layout.pages,
				       load_page, &it);
	if (stored->roots >= job->layout.heap_bytes)
		it.err = ROAM_EPROTO;
	if (it.err == ROAM_EMISMATCH)
		return roami_stored_says(job, it.err, "the store is of another version of roam");
	if (err == ROAM_OK)
		err = it.err;
	if (err != ROAM_OK)
		return roami_stored_says(job, err, "the store cannot be read");
	if (job->me == 0)
		atomic_store(&job->high, it.high);
	roami_stored_find(job);
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

/* What all nodes of a launcher's job know from their start; NULL: nothing. */
static const uint8_t *stored_secret(const struct roami_job *job)
{
	if (job->key != NULL)
		return job->key;
	return job->lent[0] != 0 && job->bases[0] != NULL
		       ? ((const struct roami_ctl *)job->bases[0])->key
		       : NULL;
}

/* A name of the job that all of its nodes give it, and no other job. */
static bool stored_job(const struct roami_job *job, uint8_t name[16])
{
	const uint8_t *secret = stored_secret(job);

	if (job->boot.nodes == 0)
		return roami_os_secret(name, 16);
	return secret != NULL && crypto_generichash(name, 16, secret, ROAMI_KEY_BYTES,
						    (const uint8_t *)ROAMI_STORE_MAGIC, 8) == 0;
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
	stored->open = (struct roami_store_open){.heap_bytes = job->layout.heap_bytes,
						 .heap_at = (uintptr_t)job->app,
						 .page_bytes = ROAMI_STORE_PAGE};
	if (!stored_job(job, stored->open.job))
		return roami_stored_says(job, ROAM_ESYSTEM, "the job gets no random name");
	if (file[0] == '\0')
		return roami_stored_says(job, ROAM_EKEY,
					 "ROAM_STORE_KEY does not name its key's file");
	if (!roami_address_key(file, false, stored->key, why, sizeof(why)))
		return roami_stored_says(job, ROAM_EKEY, why);
	return ROAM_OK;
}

/* Connects, and gets what the server has. */
static enum roam_err stored_open(struct roami_job *job)
{
	enum roam_err err = stored_make(job);

	if (err == ROAM_OK)
		err = stored_connect(job);
	return err == ROAM_OK ? stored_load(job) : err;
}

enum roam_err roami_stored_begin(struct roami_job *job)
{
	enum roam_err err;

	if (job->options.store[0] == '\0')
		return ROAM_OK;
	err = stored_open(job);
	job->failed = err; /* which was told */
	if (err != ROAM_OK)
		return err;
	load_zero(job);
	roami_stored_commit_parts(job, job->stored->old);
	roami_stored_words(job);
	atomic_store(&roami_job_pool(job, 0)->roots, job->stored->roots);
	if (job->boot.nodes > 1)
		atomic_store(&roami_job_ctl(job, 0)->creator_end, job->high);
	if (job->node != NULL)
		roami_stored_node(job);
	if (job->boot.nodes <= 1)
		job->failed = roami_stored_apart(job);
	return job->failed;
}

enum roam_err roami_stored_follow(struct roami_job *job)
{
	enum roam_err err;

	if (job->options.store[0] == '\0' || job->me == 0)
		return ROAM_OK;
	err = stored_open(job);
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
	memset(stored->own, 0, sizeof(stored->own));
}

enum roam_err roami_stored_join(struct roami_job *job)
{
	return job->stored != NULL ? stored_connect(job) : ROAM_OK;
}

enum roam_err roami_stored_ended(struct roami_job *job)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint8_t states[ROAMI_HEAP_PARTS_PARTS] = {0};

	if (job->stored == NULL)
		return ROAM_OK;
	for (uint32_t i = 0; i < pool->count; i++)
		states[i] = (uint8_t)roami_heap_parts_look(pool, i).state;
	memset(job->stored->own, 0, sizeof(job->stored->own));
	roami_stored_commit_parts(job, states);
	return roami_stored_apart(job);
}

void roami_stored_close(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;

	if (stored == NULL)
		return;
	if (roami_stored_durable(job) != ROAM_OK)
		roami_stored_fail(job);
	roami_store_disconnect(stored->client);
	stored->client = NULL;
}
