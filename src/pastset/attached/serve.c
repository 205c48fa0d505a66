#include "pastset/attached/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/os.h"
#include "pastset/attached/host.h"
#include "pastset/job/server.h"

struct roami_serve {
	struct roami_node *node;
	struct roami_host *host;
	pthread_t thread;
	int stop; /* an eventfd */
	pid_t pid;
};

static void *serve_main(void *arg)
{
	struct roami_serve *serve = arg;
	sigset_t faults;

	/*
	 * This thread handles messages, so it must report faults of exhausted memory as other
	 * threads do.
	 */
	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
	roami_host_serve(serve->host, serve->stop);
	serve->node->env->aside(serve->node, -1);
	return NULL;
}

static enum roam_err serve_begin(struct roami_serve *serve, char *why, size_t why_bytes)
{
	serve->pid = getpid();
	serve->stop = roami_os_fd(eventfd(0, EFD_CLOEXEC));
	if (serve->stop >= 0 && roami_os_thread(&serve->thread, serve_main, serve)) {
		serve->node->env->aside(serve->node, 1);
		return ROAM_OK;
	}
	snprintf(why, why_bytes, "cannot serve: %s", strerror(errno));
	if (serve->stop >= 0)
		close(serve->stop);
	return ROAM_ESYSTEM;
}

/* Drops all clients, and takes back their operations.  The other nodes still answer. */
static void serve_end(struct roami_past *past)
{
	struct roami_past_job *job = roami_past_job(past);
	struct roami_serve *serve = job->serve;
	const uint64_t one = 1;

	if (serve == NULL)
		return;
	job->serve = NULL;
	if (serve->pid == getpid()) {
		(void)!write(serve->stop, &one, sizeof(one));
		pthread_join(serve->thread, NULL);
		roami_host_close(serve->host);
	} else {
		roami_host_forsake(serve->host);
	}
	close(serve->stop);
	free(serve);
}

enum roam_err roami_past_serve(struct roami_past *past, const char *address, const uint8_t *key,
			       char *at, size_t at_bytes, char *why, size_t why_bytes)
{
	const struct roami_keep keep = {past->node->options->ps_keep * 1000000000ull,
					(uint64_t)ROAMI_HOST_KEEP_MIB << 20};
	struct roami_past_job *job = roami_past_job(past);
	struct roami_serve *serve = calloc(1, sizeof(*serve)), *none = NULL;
	enum roam_err err = ROAM_ENOMEM;

	if (serve == NULL)
		return err;
	if (!__atomic_compare_exchange_n(&job->serve, &none, serve, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST)) {
		snprintf(why, why_bytes, "this node serves already");
		free(serve);
		return ROAM_ESTATE;
	}
	serve->node = past->node;
	job->unserve = serve_end;
	err = roami_host_open(&serve->host, past, address, key, &keep, at, at_bytes, why,
			      why_bytes);
	if (err == ROAM_OK) {
		err = serve_begin(serve, why, why_bytes);
		if (err != ROAM_OK)
			roami_host_close(serve->host);
	}
	if (err != ROAM_OK) {
		__atomic_store_n(&job->serve, NULL, __ATOMIC_SEQ_CST);
		free(serve);
	}
	return err;
}
