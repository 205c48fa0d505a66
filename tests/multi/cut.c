/*
 * Shows that a thread can be cancelled or thrown out where it is in no call for long, or in a call
 * that consists of others, and leaves nothing behind.  cut WHAT NODES:
 *	locks	threads that take and free locks are cancelled asynchronously, at any instruction
 *	jumps	a handler throws a thread out of roam_rdlock, roam_wrlock and roam_once
 *	values	a call meets a page that is long in coming: then no signal is blocked
 *	reads	a handler throws a thread out of roam_read: its memory is freed
 *	ends	a handler calls exit at any moment; a node that has a lock then is named
 */
#include "multi.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define LOCKS    2u
#define CANCELS  400u
#define PAGES    200u
#define READS    300u
#define ENDS_US  20000u /* after that threads end */
#define SOON_US  100000 /* when the handler runs; the wait is then long, */
#define LATE_US  300000u /* and ends */

static struct shared {
	struct roam_rwlock rw;
	uint32_t once;
	uint64_t locks[LOCKS][2]; /* and what each guards */
	uint64_t made;
	char barrier;
} *shared;

static int64_t (*pages)[ROAM_PAGE_SIZE / sizeof(int64_t)];
static unsigned nodes;

/* ---------------------------------------------------------------------------------- cancelled */

static void free_lock(void *lock)
{
	roam_unlock(lock); /* which the thread may not have */
}

static void *locker(void *arg)
{
	uint64_t *lock = shared->locks[(uintptr_t)arg];
	int before;

	pthread_cleanup_push(free_lock, lock);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	for (;;) {
		roam_lock(lock);
		lock[1]++;
		roam_unlock(lock);
	}
	pthread_cleanup_pop(1);
	return NULL;
}

static void cancelled(void)
{
	pthread_t threads[LOCKS];
	uintptr_t which = 0;

	for (unsigned i = 0; i < LOCKS; i++)
		check(pthread_create(&threads[i], NULL, locker, (void *)(uintptr_t)i) == 0);
	for (unsigned i = 0; i < CANCELS; i++, which = i % LOCKS) {
		usleep(i % 16 * 20);
		pthread_cancel(threads[which]);
		check(pthread_join(threads[which], NULL) == 0);
		check(pthread_create(&threads[which], NULL, locker, (void *)which) == 0);
	}
	for (unsigned i = 0; i < LOCKS; i++) {
		pthread_cancel(threads[i]);
		check(pthread_join(threads[i], NULL) == 0);
	}
	for (unsigned i = 0; i < LOCKS; i++) {
		must(roam_lock(shared->locks[i]));
		must(roam_unlock(shared->locks[i]));
	}
}

/* --------------------------------------------------------------------------------- thrown out */

static sigjmp_buf out;

static void tick(int number)
{
	(void)number;
	siglongjmp(out, 1);
}

static void make(void)
{
	usleep(LATE_US);
	shared->made++;
}

static void waits(char call)
{
	if (call == 'r')
		must(roam_rdlock(&shared->rw));
	if (call == 'w')
		must(roam_wrlock(&shared->rw));
	if (call == 'o')
		must(roam_once(&shared->once, make));
}

/* The call is done when the handler throws the thread out of it. */
static void thrown_out(char call)
{
	struct itimerval soon = {{0, 0}, {0, SOON_US}};

	if (sigsetjmp(out, 1) == 0) {
		setitimer(ITIMER_REAL, &soon, NULL);
		waits(call);
		for (;;)
			pause();
	}
	if (call != 'o')
		must(roam_rwunlock(&shared->rw));
}

static void makes_wait(char call)
{
	if (call == 'o') {
		must(roam_once(&shared->once, make));
		return;
	}
	usleep(LATE_US);
	must(roam_rwunlock(&shared->rw));
}

static void jumps(void)
{
	for (const char *call = "rwo"; *call != '\0'; call++) {
		must(roam_barrier(&shared->barrier, nodes));
		if (roam_node() == 0 && *call != 'o')
			must(*call == 'r' ? roam_wrlock(&shared->rw) : roam_rdlock(&shared->rw));
		must(roam_barrier(&shared->barrier, nodes));
		if (roam_node() == 0) {
			makes_wait(*call);
		} else {
			usleep(*call == 'o' ? SOON_US / 2 : 0);
			thrown_out(*call);
		}
		must(roam_barrier(&shared->barrier, nodes));
		must(roam_rdlock(&shared->rw));
		must(roam_rwunlock(&shared->rw));
		must(roam_wrlock(&shared->rw));
		must(roam_rwunlock(&shared->rw));
		must(roam_once(&shared->once, make));
	}
	check(shared->made == 1);
}

/* ------------------------------------------------------------------------------------- values */

static unsigned blocked(void)
{
	unsigned count = 0;
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	for (int number = 1; number < SIGSYS; number++)
		count += sigismember(&now, number) == 1;
	return count;
}

static void values(void)
{
	for (unsigned i = 0; i < PAGES; i++) {
		int64_t own[2] = {0, 0};

		if (roam_node() == 0)
			pages[i][0] = i;
		must(roam_barrier(&shared->barrier, nodes));
		must(roam_reduce(roam_node() == 0 ? own : pages[i], 2, ROAM_INT64, ROAM_MAX));
		check(blocked() == 0);
	}
}

/* -------------------------------------------------------------------------------------- reads */

static unsigned long mapped(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages_mapped;

	check(file != NULL && fscanf(file, "%lu", &pages_mapped) == 1);
	fclose(file);
	return pages_mapped;
}

static void reads(void)
{
	struct itimerval soon = {{0, 0}, {0, 300}};
	unsigned long before = mapped();
	int ends[2];

	check(pipe(ends) == 0);
	for (unsigned i = 0; i < READS; i++)
		if (sigsetjmp(out, 1) == 0) {
			setitimer(ITIMER_REAL, &soon, NULL);
			check(roam_read(ends[0], pages[i % PAGES], ROAM_PAGE_SIZE) < 0);
			for (;;)
				pause();
		}
	check(mapped() < before + READS);
}

/* --------------------------------------------------------------------------------------- ends */

static pthread_t ends_thread;

static void end(int number)
{
	(void)number;
	if (roam_node() == 0 && write(STDOUT_FILENO, "cut right\n", 10) != 10)
		_exit(WRONG);
	exit(0);
}

static void *ender(void *arg)
{
	usleep((unsigned)((roam_clock_us() + roam_node()) * 0x9e3779b9u % ENDS_US));
	pthread_kill(ends_thread, SIGINT);
	return arg;
}

static void ends(void)
{
	pthread_t other;

	ends_thread = pthread_self();
	signal(SIGINT, end);
	check(pthread_create(&other, NULL, ender, NULL) == 0);
	for (unsigned i = 0;; i++) {
		uint64_t *lock = shared->locks[i % LOCKS];

		must(roam_lock(lock));
		lock[1]++;
		pages[i % PAGES][roam_node()]++;
		must(roam_unlock(lock));
		must(roam_free(must_alloc(64 + i % ROAM_PAGE_SIZE)));
	}
}

/* -------------------------------------------------------------------------------------- main */

static void (*todo)(void);

static void node_main(void)
{
	struct sigaction action = {.sa_handler = tick};

	sigaction(SIGALRM, &action, NULL);
	must(roam_barrier(&shared->barrier, nodes));
	todo();
	must(roam_barrier(&shared->barrier, nodes));
}

int main(int argc, char **argv)
{
	check(argc == 3);
	todo = strcmp(argv[1], "locks") == 0   ? cancelled
	       : strcmp(argv[1], "jumps") == 0 ? jumps
	       : strcmp(argv[1], "reads") == 0 ? reads
	       : strcmp(argv[1], "ends") == 0  ? ends
					       : values;
	nodes = number(argv[2]);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	pages = must_alloc(PAGES * sizeof(*pages));
	must(roam_create_all(node_main, nodes));
	must(roam_wait_for_end());
	printf("cut right\n");
	return 0;
}
