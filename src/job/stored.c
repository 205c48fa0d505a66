#include "job/stored.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"
#include "sync/tx.h"

#define FOR_EVER UINT64_MAX
#define SAID_US  500000u

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
	if (err == ROAM_ELOST) {
		stored->down = true;
	} else if (err != ROAM_OK) {
		stored_lost(stored, err, "it sends what is not sealed with the key");
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

/* What is not sent is kept, and sent over another connection. */
static void stored_sent(struct roami_stored *stored, bool good)
{
	if (good)
		return;
	pthread_mutex_lock(&stored->lock);
	stored->down = true;
	stored->commit.client = NULL;
	pthread_mutex_unlock(&stored->lock);
}

static bool met_receipt(const struct roami_stored *stored, uint64_t number)
{
	return stored->received >= number;
}

static bool met_durable(const struct roami_stored *stored, uint64_t serial)
{
	return stored->durable >= serial;
}

static void stored_send_again(struct roami_stored *stored)
{
	if (stored->commit.kept != NULL) {
		stored_sent(stored, roami_store_again(&stored->commit, stored->client));
		return;
	}
	pthread_mutex_lock(&stored->lock);
	stored_lost(stored, ROAM_ENOMEM, "the connection was lost, and there was no memory to keep "
					 "what had to be sent again");
	pthread_mutex_unlock(&stored->lock);
}

/* The thread that has the turn sends its commit again, unless it was received. */
static void stored_again(struct roami_job *job, bool turn)
{
	struct roami_stored *stored = job->stored;

	if (!turn)
		pthread_mutex_lock(&stored->turn);
	roami_stored_again(job);
	if (!turn)
		pthread_mutex_unlock(&stored->turn);
	else if (stored->lost == ROAM_OK && stored->received < stored->asked)
		stored_send_again(stored);
}

/*
 * Waits; one of the threads that wait reads for all.  `turn`: the caller has it.  false: the server
 * is of no use any more.
 */
static bool stored_await(struct roami_job *job,
			 bool (*met)(const struct roami_stored *stored, uint64_t value),
			 uint64_t value, bool turn)
{
	struct roami_stored *stored = job->stored;
	bool good;

	pthread_mutex_lock(&stored->lock);
	while (!met(stored, value) && stored->lost == ROAM_OK) {
		struct roami_store_head head;
		const uint8_t *data = NULL;
		size_t bytes = 0;
		enum roam_err err;

		if (stored->down) {
			pthread_mutex_unlock(&stored->lock);
			stored_again(job, turn);
			pthread_mutex_lock(&stored->lock);
			continue;
		}
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
	if (job->silent) {
		usleep(SAID_US); /* node 0 may fail in the same way: its line comes first */
		dprintf(job->outputs[1], "roam: node %u: %s\n", job->boot.me, line);
	} else if (job->bases[job->me] == NULL)
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

void roami_stored_commit_open(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;

	pthread_mutex_lock(&stored->turn);
	if (stored->mute)
		return;
	stored->kept.count = 0;
	roami_store_begin(&stored->commit, stored->down ? NULL : stored->client, ++stored->asked,
			  FOR_EVER);
	stored->commit.kept = &stored->kept;
}

/* What a process that is alone has freed is told with what it has stored before. */
void roami_stored_commit_begin(struct roami_job *job)
{
	roami_stored_commit_open(job);
	roami_stored_commit_notes(job, job->stored->apart ? 0 : SIZE_MAX);
}

void roami_stored_commit_bytes(struct roami_job *job, uint32_t page, uint32_t from,
			       const void *bytes, uint32_t count)
{
	struct roami_stored *stored = job->stored;

	if (stored->lost == ROAM_OK && !stored->mute)
		stored_sent(stored,
			    roami_store_add_bytes(&stored->commit, page, from, bytes, count));
}

void roami_stored_commit_page(struct roami_job *job, uint32_t page, const void *bytes)
{
	roami_stored_commit_bytes(job, page - job->layout.own_first, 0, bytes, ROAMI_PAGE);
}

void roami_stored_commit_name(struct roami_job *job, const char *name, const void *value,
			      uint32_t bytes)
{
	struct roami_stored *stored = job->stored;

	if (stored->lost == ROAM_OK && !stored->mute)
		stored_sent(stored, roami_store_add_name(&stored->commit, name, value, bytes));
}

/* So that the server knows a commit that is sent again. */
static void commit_number(struct roami_job *job)
{
	struct roami_stored_last last = {.number = job->stored->asked};
	char name[24];

	memcpy(last.job, job->stored->open.job, sizeof(last.job));
	snprintf(name, sizeof(name), ROAMI_STORED_COMMIT "%u", roami_stored_number(job));
	roami_stored_commit_name(job, name, &last, sizeof(last));
}

/* Sends the rest, and waits for the receipt.  The serial number; 0: the server is gone. */
static uint64_t commit_end(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;
	uint64_t serial = 0;

	if (stored->mute) {
		pthread_mutex_unlock(&stored->turn);
		return stored->durable + 1; /* any number */
	}
	commit_number(job);
	if (stored->lost == ROAM_OK)
		stored_sent(stored, roami_store_end(&stored->commit));
	if (job->node != NULL)
		roami_node_waits(job->node, ROAMI_WAITS_STORE, 0, ROAMI_WAITS_ENDS);
	if (stored_await(job, met_receipt, stored->asked, true))
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

/* Threads of this process that are not roam's own; 0: not known. */
static unsigned stored_threads(const struct roami_job *job)
{
	unsigned all = job->real.tasks > 0 ? roami_os_threads_of(job->real.tasks) : 0;
	unsigned helpers = atomic_load(&job->real.helpers);

	return all > helpers ? all - helpers : 0;
}

/* Whether all threads of the program but the calling one are held. */
static bool stored_held(const struct roami_job *job)
{
	return stored_threads(job) == atomic_load(&job->node->self->ctl->threads);
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

	if (job->stored->apart && roami_stored_much(job))
		roami_stored_flush(job, true, stored_held(job));
}

static bool await_disk(struct roami_job *job, uint64_t serial)
{
	bool good;

	roami_node_waits(job->node, ROAMI_WAITS_STORE, 1, ROAMI_WAITS_ENDS);
	good = stored_await(job, met_durable, serial, false);
	roami_node_waits_no_more(job->node);
	return good;
}

/* A commit without pages: what the node has read is of commits whose receipts came before it. */
static uint64_t commit_empty(struct roami_job *job)
{
	roami_stored_commit_begin(job);
	return commit_end(job);
}

static uint64_t stored_serial(struct roami_node *node, bool wrote)
{
	struct roami_job *job = roami_job_of(node->env_state);
	uint64_t serial;

	if (wrote) {
		pthread_mutex_lock(&job->stored->lock);
		serial = job->stored->serial; /* its own, or a later one */
		pthread_mutex_unlock(&job->stored->lock);
	} else {
		serial = commit_empty(job);
	}
	if (serial == 0)
		roami_stored_fail(job);
	return serial;
}

/* Takes what has come, unless another thread does. */
static void stored_poll(struct roami_stored *stored)
{
	struct roami_store_head head;
	const uint8_t *data = NULL;
	size_t bytes = 0;
	enum roam_err err = ROAM_OK;

	while (err == ROAM_OK && !stored->reading && !stored->down && stored->lost == ROAM_OK) {
		err = roami_store_receive(stored->client, 0, &head, &data, &bytes);
		stored_take(stored, err, &head, data, bytes);
	}
}

static bool stored_is_durable(struct roami_node *node, uint64_t number, bool waits)
{
	struct roami_job *job = roami_job_of(node->env_state);
	bool is;

	if (job->stored->mute)
		return true;
	pthread_mutex_lock(&job->stored->lock);
	if (job->stored->durable < number)
		stored_poll(job->stored);
	is = job->stored->durable >= number;
	pthread_mutex_unlock(&job->stored->lock);
	if (!is && waits && !await_disk(job, number))
		roami_stored_fail(job);
	return is || waits;
}

static const struct roami_tx_store stored_ops = {stored_commit, stored_begin, stored_serial,
						 stored_is_durable};

enum roam_err roami_stored_durable(struct roami_job *job)
{
	uint64_t serial;

	if (job->stored->mute)
		return ROAM_OK;
	serial = commit_empty(job);
	return serial != 0 && await_disk(job, serial) ? ROAM_OK : ROAM_ELOST;
}

void roami_stored_node(struct roami_job *job)
{
	if (job->stored != NULL)
		tx_of(job->node)->store = &stored_ops;
}

/* ------------------------------------------------------------------- pages without transactions */

void roami_stored_zero(struct roami_job *job, uint64_t offset, uint64_t bytes)
{
	static const uint8_t zero[ROAMI_PAGE];
	struct roami_stored *stored = job->stored;

	if (stored == NULL || stored->apart || roami_tx_inside(job->node))
		return;
	offset -= roami_layout_base(&job->layout, 0);
	roami_stored_commit_begin(job);
	for (unsigned turn = 1; bytes > 0 && stored->lost == ROAM_OK; turn++) {
		uint32_t from = (uint32_t)(offset % ROAMI_PAGE), some = ROAMI_PAGE - from;

		some = bytes < some ? (uint32_t)bytes : some;
		roami_stored_commit_bytes(job, (uint32_t)(offset / ROAMI_PAGE), from, zero, some);
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
	uint64_t at = (uintptr_t)job->app + first;

	if (job->stored == NULL)
		return;
	if (job->stored->apart)
		roami_stored_flush(job, true, false);
	roami_stored_commit_begin(job);
	if (!job->stored->apart)
		roami_stored_commit_page(
			job, (uint32_t)((uint64_t)((const uint8_t *)page - job->app) / ROAMI_PAGE),
			page);
	roami_stored_commit_name(job, ROAMI_STORED_ROOTS, &at, sizeof(at));
	roami_stored_commit_end(job);
}
