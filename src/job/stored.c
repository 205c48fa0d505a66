#include "job/stored.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"
#include "sync/tx.h"

#define FOR_EVER UINT64_MAX

/* ------------------------------------------------------------------------- what the server says */

static void stored_lost(struct roami_stored *stored, enum roam_err err, const char *why)
{
	if (stored->lost != ROAM_OK)
		return;
	stored->lost = err;
	snprintf(stored->why, sizeof(stored->why), "%s", why);
}

static void stored_error(struct roami_stored *stored, const uint8_t *data, size_t bytes)
{
	struct roami_store_error error = {0};
	char text[ROAMI_STORE_TEXT_MAX + 1] = "it has failed";

	if (bytes >= sizeof(error))
		memcpy(&error, data, sizeof(error));
	if (error.text_bytes > 0 && error.text_bytes <= ROAMI_STORE_TEXT_MAX &&
	    error.text_bytes <= bytes - sizeof(error)) {
		memcpy(text, data + sizeof(error), error.text_bytes);
		text[error.text_bytes] = '\0';
	}
	stored_lost(stored, ROAM_ELOST, text);
}

/* A frame, or that none will come. */
static void stored_take(struct roami_stored *stored, enum roam_err err,
			const struct roami_store_head *head, const uint8_t *data, size_t bytes)
{
	struct roami_store_receipt receipt;
	bool receipts = err == ROAM_OK && bytes == sizeof(receipt);

	if (err == ROAM_ETIMEDOUT)
		return;
	if (receipts)
		memcpy(&receipt, data, sizeof(receipt));
	if (err != ROAM_OK) {
		stored_lost(stored, ROAM_ELOST, "the connection is lost");
	} else if (head->kind == ROAMI_STORE_RECEIPT && receipts) {
		stored->received = head->number;
		stored->serial = receipt.serial;
	} else if (head->kind == ROAMI_STORE_DURABLE && receipts) {
		if (receipt.serial > stored->durable)
			stored->durable = receipt.serial;
	} else if (head->kind == ROAMI_STORE_ERROR) {
		stored_error(stored, data, bytes);
	} else {
		stored_lost(stored, ROAM_ELOST, "it sends what was not asked for");
	}
}

static bool met_receipt(const struct roami_stored *stored, uint64_t number)
{
	return stored->received >= number;
}

static bool met_durable(const struct roami_stored *stored, uint64_t serial)
{
	return stored->durable >= serial;
}

/* Waits; one of the threads that wait reads for all.  false: the server is of no use any more. */
static bool stored_await(struct roami_stored *stored,
			 bool (*met)(const struct roami_stored *stored, uint64_t value),
			 uint64_t value)
{
	bool good;

	pthread_mutex_lock(&stored->lock);
	while (!met(stored, value) && stored->lost == ROAM_OK) {
		struct roami_store_head head;
		const uint8_t *data = NULL;
		size_t bytes = 0;
		enum roam_err err;

		if (stored->reading) {
			pthread_cond_wait(&stored->changed, &stored->lock);
			continue;
		}
		stored->reading = true;
		pthread_mutex_unlock(&stored->lock);
		err = roami_store_receive(stored->client, FOR_EVER, &head, &data, &bytes);
		pthread_mutex_lock(&stored->lock);
		stored_take(stored, err, &head, data, bytes);
		stored->reading = false;
		pthread_cond_broadcast(&stored->changed);
	}
	good = met(stored, value);
	pthread_mutex_unlock(&stored->lock);
	return good;
}

enum roam_err roami_stored_says(struct roami_job *job, enum roam_err err, const char *why)
{
	char line[480];

	snprintf(line, sizeof(line), "ROAM_STORE=%s: %s", job->options.store, why);
	if (job->silent || job->bases[job->me] == NULL)
		fprintf(stderr, "roam: %s\n", line);
	else
		roami_job_says_line(job, line);
	return err;
}

/* The job cannot go on. */
void roami_stored_fail(struct roami_job *job)
{
	char text[ROAMI_STORE_TEXT_MAX + 1];

	pthread_mutex_lock(&job->stored->lock);
	snprintf(text, sizeof(text), "%s", job->stored->why);
	pthread_mutex_unlock(&job->stored->lock);
	if (job->node == NULL) {
		roami_stored_says(job, ROAM_ELOST, text);
		_exit(ROAMI_EXIT_REPORTED);
	}
	roami_node_fail(job->node, "the page server at %s: %s", job->options.store, text);
}

/* -------------------------------------------------------------------------------------- commits */

static void stored_sent(struct roami_stored *stored, bool good)
{
	if (good)
		return;
	pthread_mutex_lock(&stored->lock);
	stored_lost(stored, ROAM_ELOST, "the connection is lost");
	pthread_mutex_unlock(&stored->lock);
}

void roami_stored_commit_begin(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;

	pthread_mutex_lock(&stored->turn);
	roami_store_begin(&stored->commit, stored->client, ++stored->asked, FOR_EVER);
}

void roami_stored_commit_page(struct roami_job *job, uint32_t page, const void *bytes)
{
	struct roami_stored *stored = job->stored;

	if (stored->lost == ROAM_OK)
		stored_sent(stored, roami_store_add_bytes(&stored->commit, page, 0, bytes,
							  ROAMI_PAGE));
}

/* Sends the rest, and waits for the receipt.  The serial number; 0: the server is gone. */
static uint64_t commit_end(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;
	uint64_t serial = 0;

	if (stored->lost == ROAM_OK)
		stored_sent(stored, roami_store_end(&stored->commit));
	if (job->node != NULL)
		roami_node_waits(job->node, ROAMI_WAITS_STORE, 0, ROAMI_WAITS_ENDS);
	if (stored_await(stored, met_receipt, stored->asked))
		serial = stored->serial;
	if (job->node != NULL)
		roami_node_waits_cleared(job->node);
	pthread_mutex_unlock(&stored->turn);
	return serial;
}

void roami_stored_commit_end(struct roami_job *job)
{
	if (commit_end(job) == 0)
		roami_stored_fail(job);
}

/* Whether all threads of this process but the calling one are held, or roam's own. */
static bool stored_held(const struct roami_job *job)
{
	const struct roami_real *real = &job->real;
	unsigned all = real->tasks > 0 ? roami_os_threads_of(real->tasks) : 0;

	return all == atomic_load(&real->helpers) + atomic_load(&job->node->self->ctl->threads);
}

/* Of the room tx: the pages are pending, and the transaction counts. */
static bool stored_commit(struct roami_node *node, const uint32_t *pages, size_t count)
{
	struct roami_job *job = roami_job_of(node->env_state);

	if (node->nodes == 1)
		return roami_stored_flush(job, false, stored_held(job));
	roami_stored_commit_begin(job);
	for (size_t i = 0; i < count; i++)
		roami_stored_commit_page(job, pages[i], roami_page_bytes(node, pages[i]));
	roami_stored_commit_end(job);
	return true;
}

/* What was stored before the transaction need not go with it, where there may be much of it. */
static void stored_begin(struct roami_node *node)
{
	struct roami_job *job = roami_job_of(node->env_state);

	if (job->stored->apart && roami_stored_used(job) > ROAMI_STORE_COMMIT_MAX / 2)
		roami_stored_flush(job, true, stored_held(job));
}

static bool await_disk(struct roami_job *job, uint64_t serial)
{
	bool good;

	roami_node_waits(job->node, ROAMI_WAITS_STORE, 1, ROAMI_WAITS_ENDS);
	good = stored_await(job->stored, met_durable, serial);
	roami_node_waits_no_more(job->node);
	return good;
}

static void stored_settle(struct roami_node *node, bool wrote)
{
	struct roami_job *job = roami_job_of(node->env_state);
	uint64_t serial;
	bool good;

	if (wrote) {
		pthread_mutex_lock(&job->stored->lock);
		serial = job->stored->serial; /* its own, or a later one */
		pthread_mutex_unlock(&job->stored->lock);
		good = await_disk(job, serial);
	} else {
		good = roami_stored_durable(job) == ROAM_OK;
	}
	if (!good)
		roami_stored_fail(job);
}

static const struct roami_tx_store stored_ops = {stored_commit, stored_begin, stored_settle};

/* What it has read is of commits whose receipts came before: the empty one is behind them. */
enum roam_err roami_stored_durable(struct roami_job *job)
{
	uint64_t serial;

	roami_stored_commit_begin(job);
	serial = commit_end(job);
	return serial != 0 && await_disk(job, serial) ? ROAM_OK : ROAM_ELOST;
}

void roami_stored_node(struct roami_job *job)
{
	if (job->stored != NULL)
		tx_of(job->node)->store = &stored_ops;
}

void roami_stored_commit_name(struct roami_job *job, const char *name, const void *value,
			      uint32_t bytes)
{
	struct roami_stored *stored = job->stored;

	if (stored->lost == ROAM_OK)
		stored_sent(stored, roami_store_add_name(&stored->commit, name, value, bytes));
}

/* ------------------------------------------------------------------- pages without transactions */

void roami_stored_zero(struct roami_job *job, uint64_t offset, uint64_t bytes)
{
	static const uint8_t zero[ROAMI_PAGE];
	struct roami_stored *stored = job->stored;

	if (stored == NULL || stored->apart || roami_tx_inside(job->node))
		return;
	roami_stored_commit_begin(job);
	for (unsigned turn = 1; bytes > 0 && stored->lost == ROAM_OK; turn++) {
		uint32_t from = (uint32_t)(offset % ROAMI_PAGE), some = ROAMI_PAGE - from;

		some = bytes < some ? (uint32_t)bytes : some;
		stored_sent(stored, roami_store_add_bytes(&stored->commit,
							  (uint32_t)(offset / ROAMI_PAGE), from,
							  zero, some));
		offset += some;
		bytes -= some;
		if (turn % ROAMI_STORED_ONCE == 0) {
			roami_stored_commit_end(job);
			roami_stored_commit_begin(job);
		}
	}
	roami_stored_commit_end(job);
}

void roami_stored_root(struct roami_job *job, uint64_t first, const void *page)
{
	if (job->stored == NULL)
		return;
	if (job->stored->apart)
		roami_stored_flush(job, true, false);
	roami_stored_commit_begin(job);
	if (!job->stored->apart)
		roami_stored_commit_page(
			job, (uint32_t)((uint64_t)((const uint8_t *)page - job->app) / ROAMI_PAGE),
			page);
	roami_stored_commit_name(job, ROAMI_STORED_ROOTS, &first, sizeof(first));
	roami_stored_commit_end(job);
}
