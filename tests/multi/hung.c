/*
 * Shows nothing by itself: a job that hangs, or only seems to, for hang.py.
 * hung START NODES HOW [SECONDS]; each node prints "ready NODE PID" before it does what HOW says:
 *	barrier   a barrier for one thread more than there are
 *	many      the same, and each node has a hundred threads besides
 *	locks     two locks, each held by a node that waits for the other
 *	cond      a condition that nobody signals
 *	flag      a flag that nobody sets, waited for at the end of the job
 *	stranger  the same, but a thread unknown to roam sets it after some seconds
 *	pool      barrier, and node 0 has two threads unknown to roam, each of which waits, for a
 *	          condition or for a semaphore of threads, that a thread of the node wakes it
 *	pooled    stranger, and the thread that sets the flag waits until another one, which sleeps
 *	          for some seconds, wakes it
 *	tuple     the others at a barrier while node 0 waits for a tuple that nobody moves
 *	round     all but node 0 wait for the result of an X-function of all
 *	timed     as tuple, but it waits for some seconds only
 *	serve     as tuple, and node 1 serves programs that attach, at $HUNG_AT
 *	attach    as tuple, but of the server at $HUNG_AT
 *	underway  a lock's grant is long on its way, while all wait
 *	stalled   all meet, but node 1's thread does not notice: it is in a handler of SIGWINCH
 *	compute   the others at a barrier while node 0 computes for some seconds, or, if $HUNG_UNTIL
 *	          is set, until there is such a file
 *	page      as compute, but node 0 then reads what node 2 has written
 *	some      as compute, but another thread of node 0 waits at the barrier, too
 *	until     the others at a barrier while node 0 waits for some seconds for a condition that
 *	          nobody signals, and another thread of it for the lock, for as long
 *	blocked   as compute, but it is another thread of node 0 that computes, with all signals
 *	          blocked, and roam_tx waits for it
 *	handler   as compute, and the program has a handler of its own for SIGQUIT
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <roam/tx.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>


#define MANY     100u
#define LOOK_US  20000u    /* for $HUNG_UNTIL */
#define LOOKS_US 60000000u /* by then the test has ended without it */

static unsigned nodes;
static const char *how;
static unsigned long_us = 4000000u; /* "some seconds" */
static uint64_t barrier, flag, cond, locks[2]; /* names */
static volatile char *page;

static void *stranger(void *arg)
{
	usleep(long_us);
	must(roam_flag_set(&flag));
	return arg;
}

/* Threads as those of a library's pool, which nothing of roam's knows. */
static struct pool {
	pthread_mutex_t mutex;
	pthread_cond_t work;
	sem_t turn;
	bool ready, over;
} pool = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {{0}}, false, false};

static void *pool_worker(void *arg)
{
	pthread_mutex_lock(&pool.mutex);
	while (!pool.ready)
		pthread_cond_wait(&pool.work, &pool.mutex);
	pthread_mutex_unlock(&pool.mutex);
	if (pool.over)
		must(roam_flag_set(&flag));
	return arg;
}

static void *pool_waiter(void *arg)
{
	while (sem_wait(&pool.turn) != 0)
		;
	return arg;
}

static void *pool_waker(void *arg)
{
	usleep(long_us);
	pthread_mutex_lock(&pool.mutex);
	pool.ready = pool.over = true;
	pthread_cond_broadcast(&pool.work);
	pthread_mutex_unlock(&pool.mutex);
	return arg;
}

/* Begins two threads, the first of which nothing wakes but, if need be, the second. */
static void pool_begin(void *(*second)(void *))
{
	pthread_t thread;

	sem_init(&pool.turn, 0, 0);
	check(pthread_create(&thread, NULL, pool_worker, NULL) == 0);
	check(pthread_create(&thread, NULL, second, NULL) == 0);
}

static void own_handler(int signal)
{
	(void)signal;
	if (write(STDOUT_FILENO, "mine\n", 5) != 5)
		_exit(WRONG);
}

static void stall(int signal)
{
	(void)signal;
	usleep(long_us + long_us / 2);
}

static void compute(void)
{
	const char *file = getenv("HUNG_UNTIL");
	uint64_t start = roam_clock_us(), span = file != NULL ? LOOK_US : long_us;

	do {
		for (uint64_t until = roam_clock_us() + span; roam_clock_us() < until;)
			;
	} while (file != NULL && access(file, F_OK) != 0 && roam_clock_us() - start < LOOKS_US);
}

static void *one_of_many(void *arg)
{
	must(roam_thread_init());
	must(roam_barrier(&barrier, nodes * (MANY + 1) + 1));
	return arg;
}

static void many(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < MANY; i++)
		check(pthread_create(&thread, NULL, one_of_many, NULL) == 0);
	must(roam_barrier(&barrier, nodes * (MANY + 1) + 1));
}

static void wait_for_lock(void)
{
	unsigned me = roam_node() % 2;

	if (roam_node() < 2)
		must(roam_lock(&locks[me]));
	must(roam_barrier_all());
	must(roam_lock(&locks[!me]));
}

static void wait_for_cond(void)
{
	must(roam_lock(&locks[0]));
	must(roam_cond_wait(&cond, &locks[0]));
	must(roam_unlock(&locks[0]));
}

/* The network loses what node 1 sends node 2 from the first second on, for a while. */
static void pass_lock(void)
{
	if (roam_node() == 1) {
		must(roam_lock(&locks[0]));
		must(roam_barrier_all());
		usleep(long_us / 2);
		must(roam_unlock(&locks[0]));
	} else {
		must(roam_barrier_all());
		if (roam_node() == 2)
			must(roam_lock(&locks[0]));
	}
	must(roam_barrier_all());
	if (roam_node() == 2)
		must(roam_unlock(&locks[0]));
}

static void do_tuple(void)
{
	struct roam_ps_element *element;
	struct roam_ps_server *server;
	uint64_t number;
	bool timed = strcmp(how, "timed") == 0;
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .buffer = &number,
					  .limit = sizeof(number),
					  .timeout_ns = timed ? long_us * UINT64_C(1000) : 0};

	if (strcmp(how, "attach") == 0) {
		must(roam_ps_attach(getenv("HUNG_AT"), NULL, &server));
		must(roam_ps_enter_at(server, "wait", "u64", NULL, &element));
	} else {
		must(roam_ps_enter("wait", "u64", NULL, &element));
	}
	check(roam_ps_call(element, &request) == (timed ? ROAM_ETIMEDOUT : ROAM_OK));
}

static void sum_up(void)
{
	const struct roam_ps_options all = {.function = "sum", .participants = nodes};
	struct roam_ps_element *element;
	uint32_t number = 1;

	must(roam_ps_enter("the sum of all that there are here", "u32", &all, &element));
	must(roam_ps_move(element, &number, sizeof(number)));
	must(roam_ps_observe(element, &number, sizeof(number), NULL));
}

static void *at_barrier(void *arg)
{
	must(roam_thread_init());
	must(roam_barrier(&barrier, nodes + 1));
	return arg;
}

static void *computes_blocked(void *arg)
{
	sigset_t all;

	must(roam_thread_init());
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	sem_post(arg);
	compute();
	must(roam_thread_fini());
	return arg;
}

static void empty(void *arg)
{
	(void)arg;
}

static void wait_for_blocked(void)
{
	pthread_t thread;
	sem_t blocks;

	sem_init(&blocks, 0, 0);
	check(pthread_create(&thread, NULL, computes_blocked, &blocks) == 0);
	while (sem_wait(&blocks) != 0)
		;
	must(roam_tx(empty, NULL, NULL));
	pthread_join(thread, NULL);
}

static void *for_lock(void *arg)
{
	must(roam_thread_init());
	must_fail(roam_lock_until(&locks[1], roam_clock_us() + long_us), ROAM_ETIMEDOUT);
	must(roam_thread_fini());
	return arg;
}

static void wait_until(void)
{
	uint64_t end = roam_clock_us() + long_us;
	pthread_t thread;

	must(roam_lock(&locks[0]));
	must(roam_lock(&locks[1]));
	check(pthread_create(&thread, NULL, for_lock, NULL) == 0);
	must_fail(roam_cond_wait_until(&cond, &locks[0], end), ROAM_ETIMEDOUT);
	must(roam_unlock(&locks[0]));
	check(pthread_join(thread, NULL) == 0);
	must(roam_unlock(&locks[1]));
}

static void do_first(void)
{
	pthread_t thread;

	if (strcmp(how, "stranger") == 0)
		check(pthread_create(&thread, NULL, stranger, NULL) == 0);
	else if (strcmp(how, "pool") == 0)
		pool_begin(pool_waiter);
	else if (strcmp(how, "pooled") == 0)
		pool_begin(pool_waker);
	else if (strcmp(how, "tuple") == 0 || strcmp(how, "timed") == 0 ||
		 strcmp(how, "serve") == 0 || strcmp(how, "attach") == 0)
		do_tuple();
	else if (strcmp(how, "until") == 0)
		wait_until();
	if (strcmp(how, "some") == 0)
		check(pthread_create(&thread, NULL, at_barrier, NULL) == 0);
	if (strcmp(how, "compute") == 0 || strcmp(how, "handler") == 0 ||
	    strcmp(how, "some") == 0 || strcmp(how, "page") == 0)
		compute();
	if (strcmp(how, "page") == 0)
		check(*page == 2);
}

static void node_main(void)
{
	must(roam_barrier_all());
	if (roam_node() == 2)
		*page = 2;
	must(roam_barrier_all());
	printf("ready %u %d\n", roam_node(), (int)getpid());
	fflush(stdout);
	if (roam_node() == 1 && strcmp(how, "serve") == 0)
		must(roam_ps_serve(getenv("HUNG_AT"), NULL, NULL, 0));
	if (roam_node() == 0)
		do_first();
	if (strcmp(how, "stalled") == 0 && roam_node() != 1)
		usleep(long_us / 2);
	if (strcmp(how, "stalled") == 0)
		must(roam_barrier_all());
	if (strcmp(how, "barrier") == 0 || strcmp(how, "pool") == 0)
		must(roam_barrier(&barrier, nodes + 1));
	else if (strcmp(how, "many") == 0)
		many();
	else if (strcmp(how, "locks") == 0)
		wait_for_lock();
	else if (strcmp(how, "round") == 0 && roam_node() != 0)
		sum_up();
	else if (strcmp(how, "underway") == 0)
		pass_lock();
	else if (strcmp(how, "cond") == 0)
		wait_for_cond();
	else if (strcmp(how, "blocked") == 0 && roam_node() == 0)
		wait_for_blocked();
	else if (strcmp(how, "stranger") == 0 || strcmp(how, "pooled") == 0 ||
		 (strcmp(how, "flag") == 0 && roam_node() != 0))
		must(roam_flag_wait(&flag));
	if (strcmp(how, "flag") != 0)
		must(roam_barrier(&barrier, nodes + (strcmp(how, "some") == 0)));
}

int main(int argc, char **argv)
{
	check(argc == 4 || argc == 5);
	if (argc == 5)
		long_us = number(argv[4]) * 1000000u;
	nodes = number(argv[2]);
	how = argv[3];
	if (strcmp(how, "handler") == 0)
		signal(SIGQUIT, own_handler);
	signal(SIGWINCH, stall);
	must(roam_start());
	page = roam_alloc(1);
	check(page != NULL);
	if (strcmp(argv[1], "fork") == 0 && nodes == 1) {
		node_main(); /* alone */
	} else if (strcmp(argv[1], "fork") == 0) {
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
	} else {
		node_main();
	}
	must(roam_finish());
	if (roam_node() == 0)
		printf("went on\n");
	return 0;
}
