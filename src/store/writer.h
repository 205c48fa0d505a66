/* The thread that writes a page server's log: all commits that have come meanwhile at a time. */
#ifndef ROAMI_STORE_WRITER_H
#define ROAMI_STORE_WRITER_H

#include <pthread.h>

#include "store/log.h"

struct roami_writer {
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t more;
	struct roami_log_commit *first, **last;
	bool ends, failed;
	uint64_t durable, done; /* commits on the disk; bytes of them that are freed */
	char why[ROAMI_STORE_WHY]; /* "": it has not failed */
	int err; /* errno of that */
	int wake; /* an eventfd: there is news */
	struct roami_log log; /* the thread's */
};

/* Takes the log over.  false, with errno. */
bool roami_writer_start(struct roami_writer *writer, const struct roami_log *log, int wake);
/* A commit to be written, at the latest when the next call after it is roami_writer_go. */
void roami_writer_put(struct roami_writer *writer, struct roami_log_commit *commit);
void roami_writer_go(struct roami_writer *writer);
/* What there is to know; *done_p grows. false: it has failed. */
bool roami_writer_news(struct roami_writer *writer, uint64_t *durable_p, uint64_t *done_p);
/* Writes what is left, and ends the log in order.  false: it has failed. */
bool roami_writer_stop(struct roami_writer *writer);

#endif
