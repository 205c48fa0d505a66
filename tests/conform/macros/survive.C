/*
 * What programs of the suite do, one case a run: survive CASE PROCS.
 *
 *	input     reads its standard input, then allocates, deep in a function, before MAIN_INITENV
 *	locks     65,536 locks in an array
 *	late      one process initialises locks and conditions after CREATE, others use them
 *	threads   any thread of any process allocates after CREATE
 *	rounds    CREATE five times, from another file than MAIN_ENV's; WAIT_FOR_END in a function of its
 *	          own, and only where there is more than one process
 *	tickets   the number of a process is a ticket, which need not be that of its node
 *	output    each process prints, and the one with ticket 0 writes a file
 *	pointers  shared objects point to functions and to tables of the program
 *	sparse    30 GB, of which some pages are used
 *	bytes     neighbours write the bytes of one word
 *	region    marks around CREATE and WAIT_FOR_END, as Splash-3 has them
 *	registers a thread of its own that synchronises
 */
include(survive.H)
MAIN_ENV

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#define LOCKS 65536
#define STEP 64
#define BODIES 500

struct table;

struct shape {
	const struct table *table; /* a static of the program */
	long (*area)(const struct shape *);
	const char *name;
	long a, b;
};

struct table {
	long (*area)(const struct shape *);
	const char *name;
};

struct cell {
	LOCKDEC(lock)
	CONDVARDEC(done)
	long value;
};

struct big {
	ALOCKDEC(lock, LOCKS)
	long slot[LOCKS];
};

struct shared *shared;
long procs;
static struct big *big;
static struct cell *cells;
static struct shape *shapes;
static long *bodies;
static char *space, *image;
static const char *file;

void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "survive: failed: %s\n", what);
	LOCK(shared->lock)
	shared->failed++;
	UNLOCK(shared->lock)
}

#define EXPECT(holds) expect((holds) != 0, #holds)
#define WRONG(what)   expect(0, what)

static long ticket(void)
{
	long id;

	LOCK(shared->lock)
	id = shared->next++;
	UNLOCK(shared->lock)
	return id;
}

/* ----------------------------------------------------------------------------------------- cases */

static long *read_bodies(long depth)
{
	long *read, i, first;

	if (depth > 0)
		return read_bodies(depth - 1);
	if (scanf("%ld", &first) != 1)
		exit(4);
	read = (long *)G_MALLOC(BODIES * sizeof(long))
	read[0] = first;
	for (i = 1; i < BODIES; i++)
		if (scanf("%ld", &read[i]) != 1)
			exit(4);
	return read;
}

static void do_input(void)
{
	long i, id = ticket(), sum = 0;

	for (i = id; i < BODIES; i += procs)
		sum += bodies[i];
	LOCK(shared->lock)
	shared->sum += sum;
	UNLOCK(shared->lock)
}

static void end_input(void)
{
	long i, sum = 0;

	for (i = 0; i < BODIES; i++)
		sum += bodies[i];
	EXPECT(shared->sum == sum && bodies[1] != 0);
}

static void do_locks(void)
{
	long i, k, id = ticket();

	for (i = 0; i < LOCKS; i += STEP) {
		k = (i + id * 5000) % LOCKS;
		ALOCK(big->lock, k)
		big->slot[k]++;
		AULOCK(big->lock, k)
		ALOCK(big->lock, k + 1 + id)
		big->slot[k + 1 + id]++;
		AULOCK(big->lock, k + 1 + id)
	}
}

static void end_locks(void)
{
	long i, sum = 0;

	for (i = 0; i < LOCKS; i++)
		sum += big->slot[i];
	EXPECT(sum == 2 * procs * (LOCKS / STEP));
}

static void do_late(void)
{
	long i, id = ticket();

	if (id == 0) {
		cells = (struct cell *)G_MALLOC(300 * sizeof(struct cell))
		for (i = 0; i < 300; i++) {
			LOCKINIT(cells[i].lock)
			CONDVARINIT(cells[i].done)
			cells[i].value = 0;
		}
		shared->given = cells;
	}
	BARRIER(shared->barrier, procs)
	cells = (struct cell *)shared->given;
	for (i = 0; i < 300; i++) {
		LOCK(cells[i].lock)
		while (cells[i].value % procs != id)
			CONDVARWAIT(cells[i].done, cells[i].lock)
		cells[i].value++;
		CONDVARBCAST(cells[i].done)
		UNLOCK(cells[i].lock)
	}
	BARRIER(shared->barrier, procs)
	for (i = 0; i < 300; i++)
		EXPECT(cells[i].value == procs);
}

static void *allocate(void *arg)
{
	long **of = (long **)arg, i, k;

	for (k = 0; k < 20; k++) {
		of[k] = (long *)G_MALLOC((1 + (unsigned long)k * 97) * sizeof(long))
		for (i = 0; i < 1 + k * 97; i++)
			of[k][i] = (long)(unsigned long)&of[k][i];
	}
	return NULL;
}

static void do_threads(void)
{
	pthread_t thread[3];
	long i, k, j, p, id = ticket();

	shared->blocks[id] = (long **)G_MALLOC(80 * sizeof(long *))
	for (i = 0; i < 3; i++)
		EXPECT(pthread_create(&thread[i], NULL, allocate, &shared->blocks[id][20 * i]) == 0);
	allocate(&shared->blocks[id][60]);
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	BARRIER(shared->barrier, procs)
	for (p = 0; p < procs; p++)
		for (i = 0; i < 80; i++)
			for (k = i % 20, j = 0; j < 1 + k * 97; j++)
				if (shared->blocks[p][i][j] !=
				    (long)(unsigned long)&shared->blocks[p][i][j])
					WRONG("a thread's block is whole");
}

#ifdef ROAM_PARMACS_ENV
/* Until somebody has taken one. */
static void await_ticket(void)
{
	long next;

	do {
		usleep(100);
		LOCK(shared->lock)
		next = shared->next;
		UNLOCK(shared->lock)
	} while (next == 0);
}
#endif

static void do_tickets(void)
{
	long node, id;

	GET_PID(node)
#ifdef ROAM_PARMACS_ENV
	if (procs > 1 && node == 0)
		await_ticket(); /* another one has ticket 0 */
#endif
	id = ticket();
	shared->of[id] = id + 1;
	BARRIER(shared->barrier, procs)
	EXPECT(id == procs - 1 ? shared->of[0] == 1 : shared->of[id + 1] == id + 2);
#ifdef ROAM_PARMACS_ENV
	EXPECT(procs == 1 || node != 0 || id != 0);
#else
	EXPECT(node > 0);
#endif
	if (id == 0)
		shared->sum = 55; /* main reads it, whoever it was */
}

static void end_tickets(void)
{
	EXPECT(shared->sum == 55);
}

static void do_output(void)
{
	long id = ticket();
	FILE *to;

	printf("process %ld of %ld\n", id, procs);
	fprintf(stderr, "error %ld\n", id);
	if (id != 0)
		return;
	to = fopen(file, "w");
	EXPECT(to != NULL);
	fprintf(to, "by ticket 0\n");
	fclose(to);
}

static long square(const struct shape *shape)
{
	return shape->a * shape->a;
}

static long rectangle(const struct shape *shape)
{
	return shape->a * shape->b;
}

static const struct table tables[2] = {{square, "square"}, {rectangle, "rectangle"}};

static void do_pointers(void)
{
	long i, id = ticket(), sum = 0;

	for (i = id; i < 90; i += procs) {
		shapes[i].table = &tables[i % 2];
		shapes[i].area = i % 2 ? rectangle : square;
		shapes[i].name = shapes[i].table->name;
		shapes[i].a = i;
		shapes[i].b = 2;
	}
	BARRIER(shared->barrier, procs)
	for (i = 0; i < 90; i++) {
		sum += shapes[i].table->area(&shapes[i]) + shapes[i].area(&shapes[i]);
		EXPECT(strcmp(shapes[i].name, i % 2 ? "rectangle" : "square") == 0);
	}
	for (i = 0; i < 90; i++)
		sum -= 2 * (i % 2 ? 2 * i : i * i);
	EXPECT(sum == 0);
}

static void do_sparse(void)
{
	unsigned long at, step = 40000001, bytes = 30000000000ul;
	long id = ticket(), i = 0;
	struct rusage usage;

	for (at = 0; at < bytes; at += step, i++)
		if (i % procs == id)
			space[at] = (char)(i % 100 + 1);
	BARRIER(shared->barrier, procs)
	for (at = 0, i = 0; at < bytes; at += step, i++)
		if (space[at] != (char)(i % 100 + 1) || space[at + 20000000 < bytes ? at + 20000000 : at + 1] != 0)
			WRONG("what was written, and zero elsewhere");
	getrusage(RUSAGE_SELF, &usage);
	EXPECT(usage.ru_maxrss < 400000);
}

static void do_bytes(void)
{
	long turn, i, id = ticket();

	for (turn = 0; turn < 20; turn++) {
		for (i = id; i < 20000; i += procs)
			image[i] = (char)(image[i] + i % 5 + 1);
		if (turn % 4 == 3)
			BARRIER(shared->barrier, procs)
		LOCK(shared->lock)
		shared->sum++;
		UNLOCK(shared->lock)
	}
}

static void end_bytes(void)
{
	long i;

	for (i = 0; i < 20000; i++)
		if (image[i] != (char)(20 * (i % 5 + 1)))
			WRONG("every byte is its writer's");
}

static void lock_often(long times)
{
	while (times-- > 0) {
		LOCK(shared->lock)
		UNLOCK(shared->lock)
	}
}

static void do_region(void)
{
	lock_often(4);
	BARRIER(shared->barrier, procs)
	lock_often(6);
}

static void end_region(void)
{
#ifdef ROAM_PARMACS_ENV
	unsigned long within = roam_counter("lock_acquires");

	lock_often(3);
	EXPECT(roam_counter("lock_acquires") == within + 3);
	SPLASH3_ROI_END();
	lock_often(70);
	EXPECT(roam_counter("lock_acquires") == within + 3);
	EXPECT(within == 6 || within == 10); /* 6: ROAM_STATS_AFTER=1 */
#endif
}

static void *synchronise(void *arg)
{
	*(long *)arg = 1;
#ifdef ROAM_PARMACS_ENV
	if (roam_thread_init() != ROAM_OK) {
		*(long *)arg = 0;
		return NULL;
	}
#endif
	lock_often(5);
#ifdef ROAM_PARMACS_ENV
	EXPECT(roam_thread_fini() == ROAM_OK);
#endif
	return NULL;
}

static void do_registers(void)
{
	pthread_t thread;
	long may = 0;

	EXPECT(pthread_create(&thread, NULL, synchronise, &may) == 0);
	pthread_join(thread, NULL);
	LOCK(shared->lock)
	shared->sum += may;
	UNLOCK(shared->lock)
	BARRIER(shared->barrier, procs)
}

static void end_registers(void)
{
	printf("%ld registered\n", shared->sum);
}

static void nothing(void)
{
}

static const struct {
	const char *name;
	void (*work)(void);
	void (*end)(void);
} cases[] = {
	{"input", do_input, end_input}, {"locks", do_locks, end_locks}, {"late", do_late, nothing},
	{"threads", do_threads, nothing}, {"tickets", do_tickets, end_tickets},
	{"output", do_output, nothing}, {"pointers", do_pointers, nothing},
	{"sparse", do_sparse, nothing}, {"bytes", do_bytes, end_bytes},
	{"region", do_region, end_region}, {"registers", do_registers, end_registers},
};

static void set_up(const char *name)
{
	LOCKINIT(shared->lock)
	BARINIT(shared->barrier, procs)
	if (strcmp(name, "locks") == 0) {
		big = (struct big *)G_MALLOC(sizeof(*big));
		ALOCKINIT(big->lock, LOCKS)
		memset(big->slot, 0, sizeof(big->slot));
	}
	if (strcmp(name, "pointers") == 0)
		shapes = (struct shape *)G_MALLOC(90 * sizeof(struct shape));
	if (strcmp(name, "sparse") == 0)
		space = (char *)G_MALLOC(30000000000ul);
	if (strcmp(name, "bytes") == 0) {
		image = (char *)G_MALLOC(20000);
		memset(image, 0, 20000);
	}
}

int main(int argc, char **argv)
{
	unsigned i;

	if (argc < 3)
		exit(2);
	procs = atol(argv[2]);
	file = argc > 3 ? argv[3] : "/dev/null";
	if (strcmp(argv[1], "input") == 0)
		bodies = read_bodies(10);
	MAIN_INITENV(,80000000)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	set_up(argv[1]);
	if (strcmp(argv[1], "rounds") == 0)
		rounds();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0) {
			if (cases[i].work == do_region) {
				lock_often(50);
				SPLASH3_ROI_BEGIN();
			}
			CREATE(cases[i].work, procs)
			WAIT_FOR_END(procs)
			cases[i].end();
		}
	printf("survive: %s %s\n", argv[1], shared->failed == 0 ? "ok" : "FAILED");
	exit(shared->failed != 0);
	MAIN_END
}
