#include "store/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

static uint64_t list_free(struct roami_log_commit *list)
{
	uint64_t bytes = 0;

	while (list != NULL) {
		struct roami_log_commit *next = list->next;

		bytes += sizeof(*list) + list->record.bytes;
		free(list);
		list = next;
	}
	return bytes;
}

/* Takes the commits that are there, as many as may be; the lock is held. */
static struct roami_log_commit *writer_take(struct roami_writer *writer)
{
	struct roami_log_commit *list = writer->first, **at = &writer->first;

	for (unsigned i = 0; i < ROAMI_LOG_BATCH_MAX && *at != NULL; i++)
		at = &(*at)->next;
	writer->first = *at;
	if (writer->first == NULL)
		writer->last = &writer->first;
	*at = NULL;
	return list;
}

static void writer_tell(const struct roami_writer *writer)
{
	const uint64_t one = 1;

	(void)!write(writer->wake, &one, sizeof(one));
}

static void *writer_main(void *arg)
{
	struct roami_writer *writer = arg;
	struct roami_log_commit *list;
	char why[ROAMI_STORE_WHY] = "";
	bool good = true;
	int err;

	pthread_mutex_lock(&writer->lock);
	while (good && !(writer->ends && writer->first == NULL)) {
		if (writer->first == NULL) {
			pthread_cond_wait(&writer->more, &writer->lock);
			continue;
		}
		list = writer_take(writer);
		pthread_mutex_unlock(&writer->lock);
		good = roami_log_append(&writer->log, list, why);
		err = errno;
		pthread_mutex_lock(&writer->lock);
		writer->done += list_free(list);
		if (good)
			writer->durable = writer->log.durable;
		else
			writer->err = err;
		memcpy(writer->why, why, sizeof(why));
		writer->failed = !good;
		writer_tell(writer);
	}
	pthread_mutex_unlock(&writer->lock);
	return NULL;
}

bool roami_writer_start(struct roami_writer *writer, const struct roami_log *log, int wake)
{
	*writer = (struct roami_writer){.wake = wake, .log = *log, .durable = log->durable};
	writer->last = &writer->first;
	pthread_mutex_init(&writer->lock, NULL);
	pthread_cond_init(&writer->more, NULL);
	return roami_os_thread(&writer->thread, writer_main, writer);
}

void roami_writer_put(struct roami_writer *writer, struct roami_log_commit *commit)
{
	pthread_mutex_lock(&writer->lock);
	commit->next = NULL;
	*writer->last = commit;
	writer->last = &commit->next;
	pthread_mutex_unlock(&writer->lock);
}

void roami_writer_go(struct roami_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	pthread_cond_signal(&writer->more);
	pthread_mutex_unlock(&writer->lock);
}

bool roami_writer_news(struct roami_writer *writer, uint64_t *durable_p, uint64_t *done_p)
{
	bool good;

	pthread_mutex_lock(&writer->lock);
	*durable_p = writer->durable;
	*done_p = writer->done;
	good = !writer->failed;
	pthread_mutex_unlock(&writer->lock);
	return good;
}

bool roami_writer_stop(struct roami_writer *writer)
{
	pthread_mutex_lock(&writer->lock);
	writer->ends = true;
	pthread_cond_signal(&writer->more);
	pthread_mutex_unlock(&writer->lock);
	pthread_join(writer->thread, NULL);
	list_free(writer->first);
	writer->first = NULL;
	if (!roami_log_close(&writer->log, !writer->failed, writer->why)) {
		writer->err = errno;
		writer->failed = true;
	}
	pthread_cond_destroy(&writer->more);
	pthread_mutex_destroy(&writer->lock);
	return !writer->failed;
}
