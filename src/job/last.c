/*
 * A program whose first thread ends by pthread_exit lives until its last thread ends, and then ends
 * as by exit(0).  The C library would count the library's own threads, which do not end by
 * themselves; so a thread of ours, begun when the first one ends, waits for the last one.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "job/job.h"
#include "os/os.h"

#define LOOK_MIN_US 500u
#define LOOK_MAX_US 20000u

/* What is left when no thread of the program is: the first, which the kernel keeps, and ours. */
#define LEFT 2u

/* job->last: our thread waits for the program's last one; or it ends the process. */
enum { LAST_WAITS = 1, LAST_ENDS };

static uint32_t last_ours(struct roami_job *job)
{
	return atomic_load(&job->real.helpers) + atomic_load(&job->real.aside);
}

/*
 * Whether only threads of the library are left.  A thread that holds `ends` may be one of the
 * program's that counts as a helper meanwhile.  Ours are counted late, and no more before they end.
 */
static bool last_left(struct roami_job *job)
{
	uint32_t ours;
	bool left;

	if (!roami_os_zombie(getpid()) || pthread_mutex_trylock(&job->ends) != 0)
		return false;
	ours = last_ours(job);
	left = roami_os_threads() == LEFT + ours && last_ours(job) == ours;
	pthread_mutex_unlock(&job->ends);
	return left;
}

static void *last_main(void *arg)
{
	struct roami_job *job = arg;

	for (unsigned us = LOOK_MIN_US; !last_left(job);
	     us = us < LOOK_MAX_US ? 2 * us : LOOK_MAX_US)
		usleep(us);
	atomic_store(&job->last, LAST_ENDS);
	pthread_sigmask(SIG_SETMASK, &job->last_mask, NULL);
	roami_os_faults_unblock();
	exit(EXIT_SUCCESS);
}

void roami_last_begin(struct roami_real *real)
{
	struct roami_job *job = roami_job_of(real);
	uint32_t none = 0;

	if (!atomic_compare_exchange_strong(&job->last, &none, LAST_WAITS))
		return;
	if (roami_os_tid() == getpid()) /* else it keeps that of the thread that started the job */
		pthread_sigmask(SIG_SETMASK, NULL, &job->last_mask);
	if (!roami_os_thread(NULL, last_main, job))
		atomic_store(&job->last, 0); /* tried again once a second */
}

void roami_last_look(struct roami_real *real)
{
	if (atomic_load(&roami_job_of(real)->last) == 0 && roami_os_zombie(getpid()))
		roami_last_begin(real);
}

unsigned roami_last_threads(struct roami_real *real)
{
	uint32_t last = atomic_load(&roami_job_of(real)->last);

	if (last == LAST_ENDS) /* it waits as threads of the program do */
		return LEFT - 1;
	return last == LAST_WAITS ? LEFT : 0;
}

unsigned roami_last_waits(struct roami_real *real)
{
	return atomic_load(&roami_job_of(real)->last) == LAST_ENDS;
}
