/*
 * Shows that a fault needs little of the stack it comes on, leaves registers alone, and lets
 * signals wait.  In each node four threads share pages with the other nodes':
 *	the first has a guarded alternate stack of 8 KiB, as Rust's have
 *	one has the smallest stack that there is, and only touches
 *	one runs on 4 KiB and has a guarded alternate stack, as goroutines have
 *	one has a stack of 64 KiB and takes locks
 * A timer of each thread runs a handler, which uses its stack and errno, all the time.
 * stacks NODES ROUNDS
 */
#include "multi.h"

#include <errno.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define THREADS   4u
#define PAGES     24u
#define SMALL     8192u
#define WORDS     (ROAM_PAGE_SIZE / sizeof(uint64_t))
#define DEPTH_MAX (48u * 1024) /* a quarter of the 64 KiB stays free */

size_t roami_signals_depth(void); /* the library's own */

struct shared {
	uint64_t pages[PAGES][WORDS];
	uint64_t count;
	char lock;
};

static struct shared *shared;
static unsigned nodes, rounds;
static pthread_barrier_t local;
static _Atomic unsigned ticks;

/* ------------------------------------------------------------------------------------- signals */

static void tick(int number)
{
	volatile char used[1024];
	int saved = errno;

	for (unsigned i = 0; i < sizeof(used); i += 64)
		used[i] = (char)number;
	errno = EXDEV + (used[0] == 0);
	atomic_fetch_add(&ticks, 1);
	errno = saved;
}

static void timer_begin(timer_t *timer)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
	struct itimerspec every = {{0, 700000}, {0, 700000}};

	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	check(timer_create(CLOCK_MONOTONIC, &event, timer) == 0);
	check(timer_settime(*timer, 0, &every, NULL) == 0);
}

/* A stack above a guard page; the memory beyond belongs to no thread. */
static uint8_t *stack_guarded(size_t bytes)
{
	uint8_t *room = mmap(NULL, bytes + ROAM_PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(room != MAP_FAILED);
	check(mprotect(room, ROAM_PAGE_SIZE, PROT_NONE) == 0);
	return room + ROAM_PAGE_SIZE;
}

static void alternate(void)
{
	stack_t stack = {.ss_sp = stack_guarded(SMALL), .ss_size = SMALL};

	check(sigaltstack(&stack, NULL) == 0);
}

/* ----------------------------------------------------------------------------------- registers */

/* Reads a word, which may fault, while all vector registers are in use. */
__attribute__((target("avx"))) static uint64_t load_avx(const uint64_t *word)
{
	static const uint64_t wanted[4] = {1, 2, 3, 4};
	uint64_t low[4], high[4], value;

	__asm__ volatile("vmovdqu %4, %%ymm3\n\tvmovdqu %4, %%ymm15\n\t"
			 "mov %3, %2\n\t"
			 "vmovdqu %%ymm3, %0\n\tvmovdqu %%ymm15, %1\n\t"
			 : "=m"(low), "=m"(high), "=&r"(value)
			 : "m"(*word), "m"(wanted)
			 : "xmm3", "xmm15");
	check(memcmp(low, wanted, sizeof(wanted)) == 0);
	check(memcmp(high, wanted, sizeof(wanted)) == 0);
	return value;
}

__attribute__((target("avx512f"))) static uint64_t load_avx512(const uint64_t *word)
{
	static const uint64_t wanted[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	uint64_t low[8], high[8], value, mask;

	__asm__ volatile("vmovdqu64 %5, %%zmm1\n\tvmovdqu64 %5, %%zmm31\n\t"
			 "mov $0x5a5a, %k2\n\tkmovw %k2, %%k3\n\t"
			 "mov %4, %3\n\t"
			 "kmovw %%k3, %k2\n\t"
			 "vmovdqu64 %%zmm1, %0\n\tvmovdqu64 %%zmm31, %1\n\t"
			 : "=m"(low), "=m"(high), "=&r"(mask), "=&r"(value)
			 : "m"(*word), "m"(wanted)
			 : "xmm1", "xmm31", "k3");
	check(memcmp(low, wanted, sizeof(wanted)) == 0);
	check(memcmp(high, wanted, sizeof(wanted)) == 0);
	check(mask == 0x5a5a);
	return value;
}

static uint64_t load(const uint64_t *word)
{
	if (__builtin_cpu_supports("avx512f"))
		return load_avx512(word);
	return __builtin_cpu_supports("avx") ? load_avx(word) : *word;
}

/* ----------------------------------------------------------------------------------- the work */

/* All threads of all nodes meet; only the first of each node calls the library. */
static void meet(unsigned thread)
{
	pthread_barrier_wait(&local);
	if (thread == 0)
		must(roam_barrier(&shared->count, nodes));
	pthread_barrier_wait(&local);
}

static void work(unsigned thread)
{
	unsigned me = roam_node() * THREADS + thread;
	timer_t timer;

	timer_begin(&timer);
	for (unsigned round = 1; round <= rounds; round++) {
		for (unsigned i = 0; i < PAGES; i++)
			shared->pages[(i + me) % PAGES][me] = round;
		if (thread == 3) {
			must(roam_lock(&shared->lock));
			shared->count++;
			must(roam_unlock(&shared->lock));
		}
		meet(thread);
		for (unsigned i = 0; i < PAGES; i++)
			for (unsigned of = 0; of < nodes * THREADS; of++)
				check(load(&shared->pages[(i + me) % PAGES][of]) == round);
		check(load(&shared->count) == (uint64_t)round * nodes);
		meet(thread);
	}
	timer_delete(timer);
}

static void *small_thread(void *arg)
{
	(void)arg;
	work(1);
	return NULL;
}

static ucontext_t go_back;

static void go_on(void)
{
	work(2);
}

static void *go_thread(void *arg)
{
	ucontext_t small;

	(void)arg;
	alternate();
	check(getcontext(&small) == 0);
	small.uc_stack.ss_sp = stack_guarded(ROAM_PAGE_SIZE);
	small.uc_stack.ss_size = ROAM_PAGE_SIZE;
	small.uc_link = &go_back;
	makecontext(&small, go_on, 0);
	check(swapcontext(&go_back, &small) == 0);
	return NULL;
}

static void *lock_thread(void *arg)
{
	(void)arg;
	must(roam_thread_init());
	work(3);
	must(roam_thread_fini());
	return NULL;
}

static pthread_t thread_begin(void *(*run)(void *), size_t stack)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	check(pthread_attr_setstacksize(&attributes, stack) == 0);
	check(pthread_create(&thread, &attributes, run, NULL) == 0);
	pthread_attr_destroy(&attributes);
	return thread;
}

static void node_main(void)
{
	struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK | SA_RESTART};
	pthread_t threads[3];

	check(sigaction(SIGALRM, &action, NULL) == 0);
	check(pthread_barrier_init(&local, NULL, THREADS) == 0);
	alternate();
	threads[0] = thread_begin(small_thread, (size_t)PTHREAD_STACK_MIN);
	threads[1] = thread_begin(go_thread, 65536);
	threads[2] = thread_begin(lock_thread, 65536);
	work(0);
	for (unsigned i = 0; i < 3; i++)
		check(pthread_join(threads[i], NULL) == 0);
	check(atomic_load(&ticks) > 0);
	if (roami_signals_depth() > DEPTH_MAX) {
		fprintf(stderr, "node %u: a fault needed %zu bytes\n", roam_node(),
			roami_signals_depth());
		exit(WRONG);
	}
}

int main(int argc, char **argv)
{
	check(argc == 3);
	nodes = number(argv[1]);
	rounds = number(argv[2]);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	must(roam_lock_init(&shared->lock));
	must(roam_create_all(node_main, nodes));
	must(roam_wait_for_end());
	printf("stacks right, %zu bytes at most, %u ticks\n", roami_signals_depth(),
	       atomic_load(&ticks));
	return 0;
}
