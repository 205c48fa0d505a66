/*
 * The pieces of code of docs/porting.md, each used so that a wrong answer ends the program.
 * porting_traps NODES [tx | store]: with the pieces that need a protocol with transactions, and
 * with those that need a page server, too.
 */
#include <roam/roam.h>
#include <roam/save.h>
#include <roam/tx.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N     4096
#define NODES 64

#define must(condition)                                                         \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			exit(EXIT_FAILURE);                                     \
		}                                                               \
	} while (0)

struct count {
	long value;
	char pad[64 - sizeof(long)];
};

struct sem {
	char lock, risen;
	unsigned count;
};

static struct shared {
	unsigned root;
	char *text;
	int ready, data;
	char file[64];
	struct count counts[NODES];
	double a[N], b[N];
	char lock, cond;
	struct roam_rwlock table_lock;
	int table[16];
	uint32_t once;
	int made;
	struct sem sem;
	size_t used, room;
	long *list;
	long accounts[2];
	long steps[3];
} *shared;

static int limit;
static const char *with = ""; /* "tx", "store" */

/* The copy is in the heap, so that every node can follow the pointer. */
static char *shared_strdup(const char *text)
{
	char *copy = roam_alloc(strlen(text) + 1);

	return copy == NULL ? NULL : strcpy(copy, text);
}

static void hand_over(void)
{
	if (roam_node() == 0) {
		shared->data = 42;
		roam_flag_set(&shared->ready);
	}
	roam_flag_wait(&shared->ready);
	must(shared->data == 42);
}

static void from_file(FILE *file)
{
	if (roam_node() == 0)
		must(roam_fread(shared->file, 1, 5, file) == 5);
	roam_barrier_all();
	must(memcmp(shared->file, "bytes", 5) == 0);
}

static void loop(void)
{
	unsigned me = roam_node(), nodes = roam_nodes();
	double sum = 0;

	for (unsigned i = N * me / nodes; i < N * (me + 1) / nodes; i++) {
		shared->a[i] = 2 * shared->b[i];
		sum += shared->a[i];
	}
	roam_reduce(&sum, 1, ROAM_DOUBLE, ROAM_SUM);
	must(sum == N);
}

static void try_it(void)
{
	if (roam_trylock(&shared->lock) == ROAM_OK) {
		shared->counts[roam_node()].value++;
		roam_unlock(&shared->lock);
	}
}

static void wait_a_while(void)
{
	uint64_t until = roam_clock_us() + 10000; /* 10 ms from now */
	enum roam_err err = ROAM_OK;

	roam_lock(&shared->lock);
	while (shared->root != 99 && err == ROAM_OK)
		err = roam_cond_wait_until(&shared->cond, &shared->lock, until);
	must(err == ROAM_ETIMEDOUT);
	roam_unlock(&shared->lock);
}

static int look_up(unsigned key)
{
	int value;

	roam_rdlock(&shared->table_lock);
	value = shared->table[key];
	roam_rwunlock(&shared->table_lock);
	return value;
}

static void make(void)
{
	shared->made++;
}

static void sem_down(struct sem *sem)
{
	roam_lock(&sem->lock);
	while (sem->count == 0)
		roam_cond_wait(&sem->risen, &sem->lock);
	sem->count--;
	roam_unlock(&sem->lock);
}

static void sem_up(struct sem *sem)
{
	roam_lock(&sem->lock);
	sem->count++;
	roam_cond_signal(&sem->risen);
	roam_unlock(&sem->lock);
}

static void append(long value)
{
	roam_lock(&shared->lock);
	if (shared->used == shared->room) {
		size_t bytes = shared->room * sizeof(long);

		shared->list = roam_realloc(shared->list, bytes, 2 * bytes + 64);
		shared->room = (2 * bytes + 64) / sizeof(long);
	}
	shared->list[shared->used++] = value;
	roam_unlock(&shared->lock);
}

static void move(void *arg)
{
	const long *amount = arg;

	shared->accounts[0] -= *amount;
	shared->accounts[1] += *amount;
}

/* Every node moves 1 ten times. */
static void move_all(void)
{
	long amount = 1, nodes = (long)roam_nodes();

	for (int i = 0; i < 10; i++)
		must(roam_tx(move, &amount, NULL) == ROAM_OK);
	roam_barrier_all();
	must(shared->accounts[0] == -10 * nodes && shared->accounts[1] == 10 * nodes);
}

static void count(void *arg)
{
	++*(long *)arg;
}

static void count_runs(void)
{
	long *runs = roam_root("runs", sizeof(*runs), ROAM_WRITE);

	must(runs != NULL);
	if (roam_node() == 0) {
		must(roam_tx(count, runs, NULL) == ROAM_OK && roam_tx_durable() == ROAM_OK);
		printf("run %ld\n", *runs);
	}
}

static void advance(int step)
{
	if (roam_node() == 0)
		shared->steps[step]++;
	roam_barrier_all();
}

/* Each step is made once, by this run or by the one that it resumes. */
static void resumed(void)
{
	struct { int step; } at = {0};

	roam_resume_point(&at, sizeof(at)); /* a resumed run begins where it was saved */
	for (; at.step < 3; at.step++) {
		roam_resume_point(&at, sizeof(at));
		advance(at.step);
	}
	must(shared->steps[0] == 1 && shared->steps[1] == 1 && shared->steps[2] == 1);
	if (getenv("TRAPS_STOP") != NULL && roam_node() == 0)
		kill(getpid(), SIGKILL);
}

static FILE *file;

static void work(void)
{
	resumed();
	must(limit == 7 && strcmp(shared->text, "shared text") == 0);
	hand_over();
	from_file(file);
	loop();
	try_it();
	wait_a_while();
	must(look_up(3) == 9);
	roam_once(&shared->once, make);
	must(shared->made == 1);
	for (long i = 0; i < 20; i++)
		append(i);
	for (unsigned i = 0; roam_node() == 0 && i < roam_nodes(); i++)
		sem_up(&shared->sem);
	sem_down(&shared->sem);
	roam_barrier_all();
	must(shared->used == 20 * (size_t)roam_nodes());
	if (*with != '\0')
		move_all();
	if (strcmp(with, "store") == 0)
		count_runs();
	if (roam_node() == 0)
		printf("as the document says\n");
}

int main(int argc, char **argv)
{
	unsigned nodes = argc > 1 ? (unsigned)atoi(argv[1]) : 2;

	if (argc > 2)
		with = argv[2];
	shared = roam_alloc(sizeof(*shared));
	must(shared != NULL);
	file = tmpfile();
	must(file != NULL && fputs("bytes", file) >= 0 && fseek(file, 0, SEEK_SET) == 0);
	for (unsigned i = 0; i < N; i++)
		shared->b[i] = 0.5;
	shared->table[3] = 9;
	shared->text = shared_strdup("shared text");
	limit = 7;
	must(roam_create_all(work, nodes) == ROAM_OK);
	must(roam_wait_for_end() == ROAM_OK);
	return 0;
}
