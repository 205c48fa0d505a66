/*
 * Shows that a thread interrupted for good in a call has done it, and that the others go on.
 * calls WHAT NODES: a thread of each node waits in roam_barrier, roam_lock, roam_cond_wait,
 * roam_flag_wait and roam_ps_observe, one after the other, and is meanwhile
 *	deferred, asynchronous	cancelled
 *	longjmp	thrown out by a handler
 *	ended	ended by a handler, in roam_barrier only
 * With a large ROAM_SPIN_US the handlers run within the calls, and the job ends with a line.
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define LOOK_US   2000u
#define LOOKS     5u     /* looks in a row that show the waiter asleep, */
#define LOOKS_MAX 50u    /* of at most so many; with a large ROAM_SPIN_US it does not sleep */
#define LATE_US   40000u /* pause before what the waiter waits for comes */

enum call { BARRIER, FLAG, TUPLE, LOCK, COND, CALLS };

static struct shared {
	char barrier, together, flag, lock, guard, cond;
	uint64_t done, ready;
} *shared;

static unsigned nodes;
static const char *what;
static enum call now;
static struct roam_ps_element *element;
static _Atomic int waiter_tid;
static _Atomic bool entering; /* the waiter is about to call */
static sigjmp_buf out; /* jump target of the node's waiting thread */

static bool is(const char *name)
{
	return strcmp(what, name) == 0;
}

/* Waits in the call `now`, until node 0's first thread lets it go on. */
static void wait_now(void)
{
	uint64_t tuple = 0;

	if (now == BARRIER)
		must(roam_barrier(&shared->barrier, nodes + 1));
	if (now == FLAG)
		must(roam_flag_wait(&shared->flag));
	if (now == TUPLE)
		must(roam_ps_observe(element, &tuple, sizeof(tuple), NULL));
	if (now == LOCK)
		must(roam_lock(&shared->lock));
	if (now == COND) {
		must(roam_lock(&shared->guard));
		while (shared->ready == 0)
			must(roam_cond_wait(&shared->cond, &shared->guard));
	}
}

/* Ends the call: two of the calls have left their thread with a lock. */
static void waited(void)
{
	const void *held = now == LOCK ? &shared->lock : now == COND ? &shared->guard : NULL;

	must(roam_touch(shared, sizeof(*shared), ROAM_READ));
	if (held != NULL) {
		shared->done++;
		must(roam_unlock(held));
	}
}

static void *waiter(void *arg)
{
	int before;

	atomic_store(&waiter_tid, (int)gettid());
	must(roam_thread_init());
	if (is("asynchronous"))
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	if (sigsetjmp(out, 1) == 0) {
		atomic_store(&entering, true);
		wait_now();
		check(!is("longjmp"));
	}
	waited();
	pthread_testcancel();
	return arg; /* not if the thread was cancelled */
}

static void interrupted(int number)
{
	(void)number;
	if (is("ended"))
		pthread_exit(NULL);
	siglongjmp(out, 1);
}

static bool asleep(int tid)
{
	char path[64], text[256], state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "re");
	check(file != NULL);
	if (fgets(text, sizeof(text), file) != NULL && strrchr(text, ')') != NULL)
		state = strrchr(text, ')')[2];
	fclose(file);
	return state == 'S';
}

/* Waits until the thread sleeps in the call; faults before that make it sleep, too, but briefly. */
static void await_asleep(void)
{
	unsigned turns = 0;

	for (unsigned looks = 0; looks < LOOKS && turns < LOOKS_MAX;) {
		usleep(LOOK_US);
		if (!atomic_load(&entering))
			continue;
		looks = asleep(atomic_load(&waiter_tid)) ? looks + 1 : 0;
		turns++;
	}
}

static void interrupt(pthread_t thread)
{
	await_asleep();
	if (is("deferred") || is("asynchronous"))
		check(pthread_cancel(thread) == 0);
	else
		check(pthread_kill(thread, SIGALRM) == 0);
}

static void let_go(void)
{
	usleep(LATE_US);
	if (now == BARRIER)
		must(roam_barrier(&shared->barrier, nodes + 1));
	if (now == FLAG)
		must(roam_flag_set(&shared->flag));
	for (unsigned i = 0; now == TUPLE && i < nodes; i++)
		must(roam_ps_move(element, &(uint64_t){i}, sizeof(uint64_t)));
	if (now == LOCK)
		must(roam_unlock(&shared->lock));
	if (now == COND) {
		must(roam_lock(&shared->guard));
		shared->ready = 1;
		must(roam_cond_broadcast(&shared->cond));
		must(roam_unlock(&shared->guard));
	}
}

static void interrupted_in(enum call call)
{
	pthread_t thread;
	void *result;

	now = call;
	atomic_store(&entering, false);
	if (now == LOCK && roam_node() == 0)
		must(roam_lock(&shared->lock));
	must(roam_barrier(&shared->together, nodes));
	check(pthread_create(&thread, NULL, waiter, shared) == 0);
	interrupt(thread);
	must(roam_barrier(&shared->together, nodes));
	if (roam_node() == 0)
		let_go();
	check(pthread_join(thread, &result) == 0);
	check((result == shared) == is("longjmp"));
	must(roam_barrier(&shared->together, nodes));
	check(shared->done == (call < LOCK ? 0 : nodes * (call - LOCK + 1)));
	must(roam_barrier(&shared->together, nodes));
}

static void node_main(void)
{
	struct sigaction action = {.sa_handler = interrupted};
	enum call calls;

	sigaction(SIGALRM, &action, NULL);
	must(roam_ps_enter("calls", "u64", NULL, &element));
	/* A thread cancelled at once would leave the call with the lock that it came for. */
	calls = is("asynchronous") ? LOCK : is("ended") ? BARRIER + 1 : CALLS;
	for (enum call call = 0; call < calls; call++)
		interrupted_in(call);
}

int main(int argc, char **argv)
{
	check(argc == 3);
	what = argv[1];
	nodes = number(argv[2]);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	must(roam_create_all(node_main, nodes));
	must(roam_wait_for_end());
	printf("calls right\n");
	return 0;
}
