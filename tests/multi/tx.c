/*
 * Transactions on real processes.  tx START TEST NODES [COUNT]; START: fork, or run (roam run).
 *
 *	bank	transfers beside transactions that add all accounts up; two values on two pages,
 *		written together, are never seen to differ, also in attempts that begin anew
 *	state	what a restart gives back: registers, floating-point control, x87, signal mask
 *	retry	a baton that goes around; an alternative
 *	blocks	blocks allocated in attempts that begin anew, or freed in transactions
 *	calls	what must not be called is refused; on_commit and on_abort; attempts
 *	team	nodes of ROAM_THREADS refuse
 *	alone	a job of one node
 *	twice	a block that is freed twice in one transaction
 *	leaves, gone, exits, out, waits	functions that do not return; a retry outside, and alone
 */
#include "tx_work.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>
#include <xmmintrin.h>

#define ACCOUNTS 24u
#define STRIDE   (PAGE / 3) /* three of them on each page */

static long *accounts; /* account i is at accounts[i * STRIDE] */
static void *volatile *slot;
static const char *test;

/* ----------------------------------------------------------------------------------------- bank */

static void transfer(void *arg)
{
	struct work *work = arg;
	long a = pair[0], amount;
	unsigned from, to;

	notes(work);
	from = draw(&work->seed, ACCOUNTS);
	to = draw(&work->seed, ACCOUNTS);
	amount = (long)draw(&work->seed, 100);
	accounts[from * STRIDE] -= amount;
	check(pair[PAGE] == a);
	accounts[to * STRIDE] += amount;
	pair[0] = a + 1;
	pair[PAGE] = a + 1;
}

static void adds_up(void *arg)
{
	struct work *work = arg;
	long sum = 0, a = pair[PAGE];

	notes(work);
	for (unsigned i = 0; i < ACCOUNTS; i++)
		sum += accounts[i * STRIDE];
	check(sum == 0);
	check(pair[0] == a);
}

static void bank(void)
{
	struct work work = {.seed = roam_node() + 1};
	unsigned transfers = 0;

	for (unsigned i = 0; i < count; i++) {
		bool moves = draw(&work.seed, 3) != 0;

		must(roam_tx(moves ? transfer : adds_up, &work, NULL));
		transfers += moves;
		if (i % 64 == 0) {
			must(roam_lock(LOCK));
			*turns += transfers;
			transfers = 0;
			must(roam_unlock(LOCK));
		}
	}
	check(work.committed == count && work.aborted >= work.attempts - count);
	/* The signal may come between the call and the count. */
	check(work.aborted - (work.attempts - count) <= roam_counter("tx_interrupts"));
	must(roam_lock(LOCK));
	*turns += transfers;
	must(roam_unlock(LOCK));
	must(roam_barrier_all());
	check(pair[0] == *turns && pair[PAGE] == *turns);
}

/* ---------------------------------------------------------------------------------------- state */

static volatile sig_atomic_t signalled;

static void on_signal(int number)
{
	(void)number;
	signalled++;
}

/* Changes all that must be given back, and touches pages that others write. */
static void messes(void *arg)
{
	struct work *work = arg;
	sigset_t set;
	long sum = 0;

	sigemptyset(&set);
	pthread_sigmask(SIG_SETMASK, NULL, &set);
	check(sigismember(&set, SIGUSR1) == 0);
	check(fegetround() == FE_TONEAREST);
	check(_MM_GET_ROUNDING_MODE() == _MM_ROUND_NEAREST);
	work->attempts++;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	fesetround(FE_DOWNWARD);
	/*
	 * Puts seven values on the x87 stack and sets the direction flag, where the access faults.
	 */
	__asm__ volatile("fld1; fld1; fld1; fld1; fld1; fld1; fld1; std\n\t"
			 "movq (%0), %%rax\n\t"
			 "addq $1, (%0)\n\t"
			 "cld; fstp %%st(0); fstp %%st(0); fstp %%st(0); fstp %%st(0);"
			 "fstp %%st(0); fstp %%st(0); fstp %%st(0)"
			 :
			 : "r"(pair)
			 : "rax", "memory", "cc");
	for (unsigned i = 0; i < ACCOUNTS; i++)
		sum += accounts[i * STRIDE];
	accounts[draw(&work->seed, ACCOUNTS) * STRIDE] += sum + 1;
	fesetround(FE_TONEAREST);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void state(void)
{
	struct work work = {.seed = roam_node() + 1};
	struct sigaction action = {.sa_handler = on_signal};
	/* Values live over the call: in registers that the function's callees must keep. */
	register unsigned long a = work.seed * 3, b = a * 5, c = b * 7, d = c * 11, e = d * 13;

	sigaction(SIGUSR1, &action, NULL);
	for (unsigned i = 0; i < count; i++) {
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
		must(roam_tx(messes, &work, NULL));
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
		check(b == a * 5 && c == b * 7 && d == c * 11 && e == d * 13);
		check(fegetround() == FE_TONEAREST);
		check((long double)i + 0.5L == (long double)(2 * i + 1) / 2);
		raise(SIGUSR1);
	}
	check(signalled == (int)count);
	must(roam_barrier_all());
	check(pair[0] == (long)(count * roam_nodes()));
}

/* ---------------------------------------------------------------------------------------- retry */

static void takes(void *arg)
{
	struct work *work = arg;
	long at = *baton;

	notes(work);
	work->last = -1;
	if (at % roam_nodes() != roam_node()) {
		pair[0] = 1;
		roam_tx_retry();
	}
	check(pair[0] == 0);
	*baton = at + 1;
	work->last = at;
}

static void instead(void *arg)
{
	struct work *work = arg;

	notes(work);
	check(pair[0] == 0);
	turns[64 * roam_node()]++;
	work->last = -1;
}

static void retry(void)
{
	struct work work = {.last = -1};
	long others = 0;

	for (unsigned i = 0; i < count / 10; i++) {
		if (i % 2 == 0) {
			must(roam_tx(takes, &work, NULL));
			check(work.last >= 0);
			continue;
		}
		do {
			must(roam_tx_or_else(takes, instead, &work, NULL));
			others += work.last < 0;
			if (work.last < 0)
				usleep(100);
		} while (work.last < 0);
	}
	must(roam_barrier_all());
	check(*baton == (long)(count / 10 * roam_nodes()));
	check(turns[64 * roam_node()] == others);
	check(work.committed == count / 10 + (unsigned)others);
	check(work.aborted >= work.attempts - work.committed);
	check(work.aborted - (work.attempts - work.committed) <= roam_counter("tx_interrupts"));
}

/* --------------------------------------------------------------------------------------- blocks */

static void allocates(void *arg)
{
	struct work *work = arg;
	char *block;

	notes(work);
	block = roam_alloc(100 + draw(&work->seed, 3000));
	if (block == NULL)
		must(roam_errno());
	for (unsigned i = 0; i < 100; i++)
		check(block[i] == 0);
	memset(block, 1, 100);
	if (*slot != NULL)
		must(roam_free((void *)*slot));
	*slot = block;
	if (work->attempts % 2 != 0)
		roam_tx_retry();
}

static void frees(void *arg)
{
	(void)arg;
	if (*slot == NULL)
		return;
	must(roam_free((void *)*slot));
	*slot = NULL;
}

/* The heap is so small that leaks would fill it. */
static void blocks(void)
{
	struct work work = {.seed = roam_node() + 1};

	for (unsigned i = 0; i < count; i++) {
		work.attempts = 0;
		must(roam_tx_or_else(allocates, frees, &work, NULL));
		must(roam_lock(LOCK)); /* frees of other nodes' blocks travel with it */
		must(roam_unlock(LOCK));
	}
	must(roam_barrier_all());
}

static void frees_twice(void *arg)
{
	must(roam_free(arg));
	must(roam_free(arg)); /* is one still */
}

/* The thread that runs the transaction ends in it. */
static void thread_ends(void *arg)
{
	*baton += 1;
	pthread_exit(arg);
}

static void *runs_and_ends(void *arg)
{
	must(roam_thread_init());
	must(roam_tx(thread_ends, arg, NULL));
	return arg;
}

static void gone(void)
{
	pthread_t thread;

	if (roam_node() == 1) {
		check(pthread_create(&thread, NULL, runs_and_ends, NULL) == 0);
		pthread_join(thread, NULL);
	}
	must(roam_barrier_all());
}

/* A line says so, once, whichever node did it. */
static void twice(void)
{
	void *block = roam_alloc(100);

	check(block != NULL);
	must(roam_tx(frees_twice, block, NULL));
	must(roam_barrier_all());
}

/* ---------------------------------------------------------------------------------------- calls */

static unsigned order;

static void first_done(void *arg)
{
	check(arg == &order && order == 0);
	must_fail(roam_tx_on_commit(first_done, NULL), ROAM_ESTATE);
	must_fail(roam_tx(first_done, NULL, NULL), ROAM_ESTATE);
	must(roam_lock(LOCK));
	must(roam_unlock(LOCK));
	order++;
}

static void second_done(void *arg)
{
	(void)arg;
	check(order == 1);
	order++;
}

/* Called between the two functions of roam_tx_or_else, in none of them. */
static void between(void *arg)
{
	must_fail(roam_tx(nested, NULL, NULL), ROAM_ESTATE);
	++*(unsigned *)arg;
}

static void gives_way(void *arg)
{
	must(roam_tx_on_abort(between, arg));
	roam_tx_retry();
}

static void takes_over(void *arg)
{
	check(*(unsigned *)arg > 0);
}

static void fine(void)
{
}

static void refused(void *arg)
{
	char bytes[8];

	(void)arg;
	must_fail(roam_lock(LOCK), ROAM_ESTATE);
	must_fail(roam_trylock(LOCK), ROAM_ESTATE);
	must_fail(roam_unlock(LOCK), ROAM_ESTATE);
	must_fail(roam_barrier_all(), ROAM_ESTATE);
	must_fail(roam_barrier(LOCK, 1), ROAM_ESTATE);
	must_fail(roam_cond_signal(LOCK), ROAM_ESTATE);
	must_fail(roam_flag_set(LOCK), ROAM_ESTATE);
	must_fail(roam_once((uint32_t *)(void *)(uintptr_t)turns, fine), ROAM_ESTATE);
	must_fail(roam_wait_for_end(), ROAM_ESTATE);
	must_fail(roam_finish(), ROAM_ESTATE);
	must_fail(roam_create(fine), ROAM_ESTATE);
	must_fail(roam_create_all(fine, 2), ROAM_ESTATE);
	must_fail(roam_thread_init(), ROAM_ESTATE);
	must_fail(roam_thread_fini(), ROAM_ESTATE);
	check(roam_pin((void *)(uintptr_t)pair, 8, ROAM_READ) == NULL &&
	      roam_errno() == ROAM_ESTATE);
	errno = 0;
	check(roam_write(1, (void *)(uintptr_t)pair, 8) == -1 && errno == EBUSY);
	must_fail(roam_tx_or_else(nested, nested, NULL, NULL), ROAM_ESTATE);
	must(roam_tx(nested, NULL, NULL));
	must(roam_tx_on_commit(first_done, &order));
	must(roam_tx_on_commit(second_done, NULL));
	must(roam_touch((void *)(uintptr_t)pair, 8, ROAM_WRITE));
	memcpy(bytes, (void *)(uintptr_t)pair, 8);
}

static void alternates(void *arg)
{
	struct work *work = arg;

	notes(work);
	pair[0] = 77;
	roam_tx_retry();
}

static void cancels_within(void *arg)
{
	(void)arg;
	roam_tx_cancel();
}

static void cancels(void *arg)
{
	check(roam_tx_inside());
	notes(arg);
	pair[0] = 78;
	must(roam_tx(cancels_within, arg, NULL));
	check(false);
}

static void calls(void)
{
	struct work work = {0};
	struct roam_tx_options options = {.attempts = 3};
	unsigned betweens = 0;

	must_fail(roam_tx(NULL, NULL, NULL), ROAM_EINVAL);
	must_fail(roam_tx_or_else(nested, NULL, NULL, NULL), ROAM_EINVAL);
	must_fail(roam_tx_on_commit(nested, NULL), ROAM_ESTATE);
	must_fail(roam_tx_on_abort(nested, NULL), ROAM_ESTATE);
	for (unsigned node = 0; node < roam_nodes(); node++) {
		if (node == roam_node()) {
			order = 0;
			must(roam_tx(refused, NULL, NULL));
			check(order == 2 && *baton == (long)node + 1);
			must(roam_tx_or_else(gives_way, takes_over, &betweens, NULL));
		}
		must(roam_barrier_all());
	}
	for (unsigned node = 0; node < roam_nodes(); node++) {
		unsigned aborted = work.aborted;

		if (node == roam_node()) {
			must_fail(roam_tx(cancels, &work, NULL), ROAM_ECANCELED);
			check(work.aborted > aborted && work.committed == 0 && pair[0] == 0);
			work = (struct work){0};
		}
		must(roam_barrier_all());
	}
	/* Node 1 ends each wait of node 0, and sees nothing of what node 0 undoes. */
	if (roam_node() == 0) {
		must_fail(roam_tx(alternates, &work, &options), ROAM_ETIMEDOUT);
		check(work.attempts == 3 && work.aborted == 3 && work.committed == 0);
		*turns = 1;
	} else if (roam_node() == 1) {
		while (*turns == 0) {
			check(pair[0] == 0);
			pair[PAGE]++;
			pair[0] = 0;
		}
	}
	must(roam_barrier_all());
	check(pair[0] == 0);
}

/* ---------------------------------------------------------------------------------------- alone */

static void team(void)
{
	must_fail(roam_tx(nested, NULL, NULL), ROAM_ESTATE);
	must(roam_barrier_all());
}

static void alone(void)
{
	order = 0;
	must(roam_tx(refused, NULL, NULL));
	check(order == 2 && *baton == 1);
	must_fail(roam_tx_or_else(nested, nested, NULL, NULL), ROAM_EUNSUPPORTED);
	must(roam_tx(nested, NULL, NULL));
	check(*baton == 2);
}

/* -------------------------------------------------------------------------------------- leaving */

static jmp_buf out;

static void leaves(void *arg)
{
	(void)arg;
	pair[0] = 5;
	longjmp(out, 1);
}

static void left(void)
{
	if (roam_node() == 1 && setjmp(out) == 0)
		must(roam_tx(leaves, NULL, NULL));
	must(roam_barrier_all());
}

static void exits(void *arg)
{
	(void)arg;
	pair[0] = 5;
	exit(0);
}

static void waits(void *arg)
{
	(void)arg;
	roam_tx_retry();
}

/* Node 1 ends in a transaction: node 0 does not see what it wrote. */
static void exited(void)
{
	must(roam_barrier_all());
	if (roam_node() == 1)
		must(roam_tx(exits, NULL, NULL));
	usleep(100000);
	check(pair[0] == 0);
}

static void retries_out(void)
{
	must(roam_barrier_all());
	if (roam_node() == 1)
		roam_tx_retry();
	must(roam_barrier_all());
}

static void waits_alone(void)
{
	must(roam_tx(waits, NULL, NULL));
}

static void work(void)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {{"bank", bank},     {"state", state},     {"retry", retry},
		     {"blocks", blocks}, {"calls", calls},     {"team", team},
		     {"alone", alone},   {"leaves", left},     {"exits", exited},
		     {"out", retries_out}, {"waits", waits_alone}, {"twice", twice},
		     {"gone", gone}};

	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (strcmp(tests[i].name, test) == 0)
			tests[i].fn();
}

int main(int argc, char **argv)
{
	unsigned nodes = argc > 3 ? number(argv[3]) : 2;
	bool first = true;

	if (argc > 4)
		count = number(argv[4]);
	test = argc > 2 ? argv[2] : "bank";
	if (argc > 1 && strcmp(argv[1], "run") == 0)
		must(roam_start());
	accounts = must_alloc(ACCOUNTS * STRIDE * sizeof(long));
	work_alloc();
	slot = must_alloc(ROAM_PAGE_SIZE);
	if (argc > 1 && strcmp(argv[1], "run") == 0) {
		work();
		first = roam_node() == 0;
		must(roam_finish());
	} else {
		must(roam_create_all(work, nodes));
		must(roam_wait_for_end());
	}
	if (first)
		printf("done\n");
	return 0;
}
