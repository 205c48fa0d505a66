/* Connections to the page server: another one when one is lost, as when a server is restarted. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "job/job.h"

#define AGAIN_NS UINT64_C(8000000000) /* for a server to come back */
#define AGAIN_US 20000u

unsigned roami_stored_number(const struct roami_job *job)
{
	return job->boot.nodes > 0 ? job->boot.me : job->me;
}

/* Whether no server is there, or one that ends. */
static bool again_away(enum roam_err err)
{
	return err == ROAM_ELOST || err == ROAM_EAGAIN || err == ROAM_EPROTO;
}

enum roam_err roami_stored_connect(struct roami_job *job, uint64_t until,
				   struct roami_store_opened *opened_p,
				   char why[ROAMI_STORE_TEXT_MAX + 1])
{
	struct roami_stored *stored = job->stored;
	bool again = (stored->open.flags & ROAMI_STORE_AGAIN) != 0;
	enum roam_err err;

	for (;;) {
		err = roami_store_connect(&stored->client, job->options.store, stored->key,
					  &stored->open, opened_p, why, ROAMI_STORE_TEXT_MAX + 1);
		if ((err != ROAM_EBUSY && !(again && again_away(err))) ||
		    roami_os_now_ns() >= until)
			return err;
		usleep(AGAIN_US);
	}
}

/* Looks for the name of this node's last commit. */
struct again {
	struct roami_job *job;
	char name[24];
	struct roami_stored_last last;
};

static void again_name(void *arg, const struct roami_store_entry *entry, const uint8_t *data)
{
	struct again *again = arg;

	if (entry->from == strlen(again->name) &&
	    memcmp(data, again->name, entry->from) == 0 &&
	    entry->bytes - entry->from == sizeof(again->last))
		memcpy(&again->last, data + entry->from, sizeof(again->last));
}

/* Whether the server is the one that it was, and has all that it had received; if not, why. */
static enum roam_err again_same(const struct roami_stored *stored,
				const struct roami_store_opened *opened,
				char why[ROAMI_STORE_TEXT_MAX + 1])
{
	const char *what = NULL;

	if (memcmp(opened->store, stored->store, sizeof(stored->store)) != 0)
		what = "there is another store now";
	else if (opened->serial < stored->serial || (opened->flags & ROAMI_STORE_ORDERLY) == 0)
		what = "it had not been stopped in order: what it had received, but not written, "
		       "is lost";
	if (what != NULL)
		snprintf(why, ROAMI_STORE_TEXT_MAX + 1, "%s", what);
	return what != NULL ? ROAM_ELOST : ROAM_OK;
}

/* Whether the commit under way was received. */
static enum roam_err again_received(struct roami_job *job, bool *received_p)
{
	struct roami_stored *stored = job->stored;
	struct again again = {.job = job};
	enum roam_err err;

	snprintf(again.name, sizeof(again.name), ROAMI_STORED_COMMIT "%u",
		 roami_stored_number(job));
	err = roami_store_load(stored->client, ROAMI_STORE_NAMES, 0, UINT32_MAX, again_name,
			       &again);
	*received_p = memcmp(again.last.job, stored->open.job, sizeof(again.last.job)) == 0 &&
		      again.last.number == stored->asked;
	return err;
}

static enum roam_err again_try(struct roami_job *job, uint64_t until,
			       struct roami_store_opened *opened, bool *received_p,
			       char why[ROAMI_STORE_TEXT_MAX + 1])
{
	struct roami_stored *stored = job->stored;
	enum roam_err err;

	do {
		roami_store_disconnect(stored->client);
		stored->client = NULL;
		err = roami_stored_connect(job, until, opened, why);
		if (err == ROAM_OK)
			err = again_same(stored, opened, why);
		else if (again_away(err))
			snprintf(why, ROAMI_STORE_TEXT_MAX + 1,
				 "the connection is lost, and could not be made again in %u s",
				 (unsigned)(AGAIN_NS / 1000000000));
		if (err != ROAM_OK)
			return err;
		err = again_received(job, received_p);
	} while (err == ROAM_ELOST && roami_os_now_ns() < until); /* it went down once more */
	if (err != ROAM_OK)
		snprintf(why, ROAMI_STORE_TEXT_MAX + 1, "it does not say what it has");
	return err;
}

/* No other thread uses the client from now on. */
static bool again_begin(struct roami_stored *stored)
{
	bool down;

	pthread_mutex_lock(&stored->lock);
	down = stored->down && stored->lost == ROAM_OK;
	if (down && stored->client != NULL)
		shutdown(roami_store_fd(stored->client), SHUT_RDWR);
	while (down && stored->reading)
		pthread_cond_wait(&stored->changed, &stored->lock);
	pthread_mutex_unlock(&stored->lock);
	return down;
}

void roami_stored_again(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;
	char why[ROAMI_STORE_TEXT_MAX + 1] = "";
	struct roami_store_opened opened;
	bool received = false;
	enum roam_err err;

	if (!again_begin(stored))
		return;
	stored->open.flags |= ROAMI_STORE_AGAIN;
	err = again_try(job, roami_os_now_ns() + AGAIN_NS, &opened, &received, why);
	pthread_mutex_lock(&stored->lock);
	stored->down = false;
	if (err == ROAM_OK) {
		stored->durable = opened.durable > stored->durable ? opened.durable
								   : stored->durable;
		stored->serial = opened.serial; /* if it was received, its own is no later one */
		stored->received = received ? stored->asked : stored->received;
	} else {
		stored->lost = ROAM_ELOST;
		snprintf(stored->why, sizeof(stored->why), "%s",
			 why[0] != '\0' ? why : roam_strerror(err));
	}
	pthread_cond_broadcast(&stored->changed);
	pthread_mutex_unlock(&stored->lock);
}
