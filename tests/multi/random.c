/*
 * A random race-free program on real processes: every value that any thread read is what the oracle
 * expects.  Nodes fork, or, with --roam, are started by `roam run`.
 * random --seed S --nodes N [--threads MOST] [--ops PER-THREAD] [--seconds MOST] [--roam PATH]
 *	[--region PROTOCOL]...	a quarter of the objects, and some blocks, are under this one
 *	[--scoped 1]		only what scope consistency orders
 *	[--team T]		each node is a team of so many threads, as with ROAM_THREADS
 *	Options of roam come from the environment, as always.
 * Exits with 0, with 3 if a value was wrong, with 4 if it took too long: then every thread's last
 * call is told.  A failure prints the command that repeats it.
 */
#include "random.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "multi.h"
#include "rng.h"

#define HUNG        4 /* exit status */
#define HEAP_PAGES  64u
#define NODES_MOST  8u
#define PARTS       4u
#define PART_BYTES  ((size_t)HEAP_PAGES * ROAM_PAGE_SIZE / PARTS)
#define COMMAND_MAX 1024u
#define IDS         64u /* addresses of objects of each kind */

enum id_kind { ID_LOCK, ID_COND, ID_FLAG, ID_BARRIER, ID_KINDS };

/* What a thread is doing, reported if it does not come back. */
struct doing {
	_Atomic uint32_t call; /* index into calls */
	_Atomic uint32_t which;
};

/* What all processes share beside roam's heap; the threads' events stand behind it. */
struct area {
	char command[COMMAND_MAX];
	_Atomic uint64_t sequence;
	_Atomic uint32_t registered;
	_Atomic uint32_t over;
	struct random_places places;
	struct doing doing[RANDOM_THREADS_MAX];
	_Atomic uint32_t counts[RANDOM_THREADS_MAX];
};

struct setting {
	struct random_params params;
	unsigned threads; /* the most threads of a node */
	unsigned team;    /* threads of a team; 0: nodes have threads of their own */
	unsigned seconds;
	const char *regions[PARTS]; /* protocols */
	unsigned region_count;
	const char *roam;
	const char *hosts; /* the hosts that roam uses; NULL: only this one */
	int fd; /* of the area; -1: not made yet */
};

struct member {
	unsigned number;
	unsigned loads;
};

enum call {
	CALL_NONE,
	CALL_LOAD,
	CALL_STORE,
	CALL_LOCK,
	CALL_UNLOCK,
	CALL_INIT,
	CALL_COND_WAIT,
	CALL_COND_POST,
	CALL_FLAG_SET,
	CALL_FLAG_WAIT,
	CALL_FLAG_CLEAR,
	CALL_BARRIER,
	CALL_REDUCE,
	CALL_ALLOC,
	CALL_FREE,
	CALL_DONE
};

static const char *const calls[] = {
	"nothing yet", "load at",	"store at",  "lock",	   "unlock",	 "init",
	"wait for",    "post",		"set flag",  "wait for flag", "clear flag", "barrier",
	"reduce",      "alloc of bytes", "free at", "done",
};

static struct setting setting = {
	.params = {.nodes = 3, .heap_pages = HEAP_PAGES, .allocates = true},
	.threads = 3,
	.seconds = 20,
	.fd = -1,
};
static struct random_program *program;
static struct area *area;
static size_t area_bytes;
static uint8_t *base; /* the block of objects; without those in regions, if there are some */
static uint8_t *parts[PARTS];
static uint8_t *ids;  /* the block whose addresses name locks and the like */
static uint8_t *initial;

/* -------------------------------------------------------------------------------------- telling */

static unsigned node_of(unsigned thread)
{
	return random_params_of(program)->node_of[thread];
}

__attribute__((noreturn)) static void fail(void *self, const char *text)
{
	(void)self;
	dprintf(STDERR_FILENO, "FAILED: node %u: %s; again: %s\n", roam_node(), text,
		area->command);
	_exit(WRONG);
}

__attribute__((noreturn)) static void tell_hung(void)
{
	char text[4096];
	size_t used = (size_t)snprintf(text, sizeof(text), "FAILED: hung for %u s;",
				       setting.seconds);

	for (unsigned i = 0; i < random_params_of(program)->threads; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "%s thread %u of node %u: %s %u", i == 0 ? "" : ",", i,
					 node_of(i), calls[atomic_load(&area->doing[i].call)],
					 atomic_load(&area->doing[i].which));
	dprintf(STDERR_FILENO, "%s; again: %s\n", text, area->command);
	_exit(HUNG);
}

/* Ends a run that takes too long; a thread of node 0 that roam does not know. */
static void *watchdog(void *arg)
{
	const struct timespec tick = {0, 20 * 1000 * 1000};

	for (unsigned i = 0; i < setting.seconds * 50; i++) {
		if (atomic_load(&area->over))
			return NULL;
		nanosleep(&tick, NULL);
	}
	tell_hung();
	return arg;
}

static void watchdog_start(void)
{
	pthread_t thread;
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	check(pthread_create(&thread, NULL, watchdog, NULL) == 0);
	check(pthread_detach(thread) == 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ----------------------------------------------------------------------------------- operations */

static void doing(void *self, enum call call, uint64_t which)
{
	struct doing *mine = &area->doing[((struct member *)self)->number];

	atomic_store_explicit(&mine->call, call, memory_order_relaxed);
	atomic_store_explicit(&mine->which, (uint32_t)which, memory_order_relaxed);
}

static void *id(enum id_kind kind, unsigned which)
{
	return ids + (kind * IDS + which) * 8;
}

static uint8_t *at(uint64_t offset)
{
	return offset < PARTS * PART_BYTES ? parts[offset / PART_BYTES] + offset % PART_BYTES
					   : base + offset;
}

/* Accesses an object, now and then with a hint before, or as a system call would need it. */
static void op_load(void *self, uint64_t offset, void *out, size_t bytes)
{
	struct member *member = self;

	doing(self, CALL_LOAD, offset);
	if (++member->loads % 61 == 0)
		roam_prefetch(at(offset), bytes);
	else if (member->loads % 67 == 0)
		must(roam_touch(at(offset), bytes, ROAM_READ));
	memcpy(out, at(offset), bytes);
}

static void op_store(void *self, uint64_t offset, const void *in, size_t bytes)
{
	struct member *member = self;

	doing(self, CALL_STORE, offset);
	if (++member->loads % 71 == 0)
		must(roam_touch(at(offset), bytes, ROAM_WRITE));
	memcpy(at(offset), in, bytes);
}

static enum roam_err op_lock_init(void *self, unsigned lock)
{
	doing(self, CALL_INIT, lock);
	return lock % 2 == 0 ? ROAM_OK : roam_lock_init(id(ID_LOCK, lock)); /* need not be */
}

static enum roam_err op_lock(void *self, unsigned lock)
{
	doing(self, CALL_LOCK, lock);
	return roam_lock(id(ID_LOCK, lock));
}

static enum roam_err op_lock_try(void *self, unsigned lock)
{
	doing(self, CALL_LOCK, lock);
	return roam_trylock(id(ID_LOCK, lock));
}

static enum roam_err op_lock_within(void *self, unsigned lock, uint64_t ns)
{
	doing(self, CALL_LOCK, lock);
	return roam_lock_until(id(ID_LOCK, lock), roam_clock_us() + ns / 1000);
}

static enum roam_err op_unlock(void *self, unsigned lock)
{
	doing(self, CALL_UNLOCK, lock);
	return roam_unlock(id(ID_LOCK, lock));
}

static enum roam_err op_cond_init(void *self, unsigned cond)
{
	doing(self, CALL_INIT, cond);
	return roam_cond_init(id(ID_COND, cond));
}

static enum roam_err op_cond_wait(void *self, unsigned cond, unsigned lock)
{
	doing(self, CALL_COND_WAIT, cond);
	return roam_cond_wait(id(ID_COND, cond), id(ID_LOCK, lock));
}

static enum roam_err op_cond_wait_within(void *self, unsigned cond, unsigned lock, uint64_t ns)
{
	doing(self, CALL_COND_WAIT, cond);
	return roam_cond_wait_until(id(ID_COND, cond), id(ID_LOCK, lock),
				    roam_clock_us() + ns / 1000);
}

static enum roam_err op_cond_post(void *self, unsigned cond, bool all)
{
	doing(self, CALL_COND_POST, cond);
	return all ? roam_cond_broadcast(id(ID_COND, cond)) : roam_cond_signal(id(ID_COND, cond));
}

static enum roam_err op_flag_set(void *self, unsigned flag)
{
	doing(self, CALL_FLAG_SET, flag);
	return roam_flag_set(id(ID_FLAG, flag));
}

static enum roam_err op_flag_wait(void *self, unsigned flag)
{
	doing(self, CALL_FLAG_WAIT, flag);
	return roam_flag_wait(id(ID_FLAG, flag));
}

static enum roam_err op_flag_clear(void *self, unsigned flag)
{
	doing(self, CALL_FLAG_CLEAR, flag);
	return roam_flag_clear(id(ID_FLAG, flag));
}

/* Full barriers: one without an object, and one that gives the number of all threads. */
static enum roam_err op_barrier(void *self, unsigned barrier, unsigned threads)
{
	doing(self, CALL_BARRIER, barrier);
	if (barrier == 0)
		return roam_barrier_all();
	return roam_barrier(id(ID_BARRIER, barrier),
			    threads == 0 ? random_params_of(program)->threads : threads);
}

static enum roam_err op_reduce(void *self, void *values, unsigned count, enum roam_type type,
			       enum roam_op op)
{
	doing(self, CALL_REDUCE, count);
	return roam_reduce(values, count, type, op);
}

/* Offsets count from the block of objects on, and may wrap. */
static enum roam_err op_alloc(void *self, size_t bytes, uint64_t *offset_p)
{
	struct member *member = self;
	struct roam_region region = {.place = (enum roam_place)(++member->loads % 4),
				     .node = member->loads % roam_nodes()};
	uint8_t *block;

	doing(self, CALL_ALLOC, bytes);
	if (setting.region_count > 0 && member->loads / 4 % 2 == 0)
		region.protocol = setting.regions[member->loads / 8 % setting.region_count];
	block = roam_alloc_region(bytes, &region);
	*offset_p = (uint64_t)(uintptr_t)block - (uint64_t)(uintptr_t)base;
	return block == NULL ? roam_errno() : ROAM_OK;
}

static enum roam_err op_free(void *self, uint64_t offset)
{
	doing(self, CALL_FREE, offset);
	return roam_free(base + offset);
}

/* Relaxed, because it must not order what roam has to order. */
static uint64_t op_sequence(void *self)
{
	(void)self;
	return atomic_fetch_add_explicit(&area->sequence, 1, memory_order_relaxed) + 1;
}

static void op_pause(void *self, unsigned length)
{
	struct timespec time = {0, length * 1000};

	(void)self;
	if (length < 16)
		sched_yield();
	else
		nanosleep(&time, NULL);
}

static const struct random_ops ops = {
	.load = op_load,
	.store = op_store,
	.lock_init = op_lock_init,
	.lock = op_lock,
	.lock_try = op_lock_try,
	.lock_within = op_lock_within,
	.unlock = op_unlock,
	.cond_init = op_cond_init,
	.cond_wait = op_cond_wait,
	.cond_wait_within = op_cond_wait_within,
	.cond_post = op_cond_post,
	.flag_set = op_flag_set,
	.flag_wait = op_flag_wait,
	.flag_clear = op_flag_clear,
	.barrier = op_barrier,
	.reduce = op_reduce,
	.alloc = op_alloc,
	.free = op_free,
	.sequence = op_sequence,
	.pause = op_pause,
	.fail = fail,
};

/* ------------------------------------------------------------------------------------- one node */

static struct random_event *area_events(unsigned thread)
{
	return (struct random_event *)(void *)(area + 1) +
	       (size_t)thread * random_events_max(program);
}

/*
 * Full barriers count the registered threads, so all must register before the first one.  And a
 * started job is sealed only when every node has synchronised.
 */
static void collect(void)
{
	const struct timespec tick = {0, 100 * 1000};
	unsigned all = random_params_of(program)->threads;

	must(roam_flag_set(id(ID_FLAG, RANDOM_FLAGS_MAX + roam_node())));
	atomic_fetch_add(&area->registered, 1);
	while (atomic_load(&area->registered) < all)
		nanosleep(&tick, NULL);
}

static void thread_run(unsigned number)
{
	struct member member = {.number = number};
	struct random_log log = {area_events(number), 0, random_events_max(program)};

	collect();
	random_run(program, number, &ops, &member, &area->places, &log);
	doing(&member, CALL_DONE, 0);
	atomic_store(&area->counts[number], log.count);
}

static void *thread_main(void *arg)
{
	must(roam_thread_init());
	thread_run((unsigned)(uintptr_t)arg);
	must(roam_thread_fini());
	return NULL;
}

/* A thread of a team has its number from roam. */
static void mate_main(void)
{
	check(roam_nodes() == random_params_of(program)->threads);
	if (roam_node() == 0)
		watchdog_start();
	thread_run(roam_node());
}

static void node_main(void)
{
	pthread_t others[RANDOM_THREADS_MAX];
	unsigned mine[RANDOM_THREADS_MAX], count = 0;

	for (unsigned i = 0; i < random_params_of(program)->threads; i++)
		if (node_of(i) == roam_node())
			mine[count++] = i;
	if (roam_node() == 0)
		watchdog_start();
	for (unsigned i = 1; i < count; i++)
		check(pthread_create(&others[i], NULL, thread_main,
				     (void *)(uintptr_t)mine[i]) == 0);
	thread_run(mine[0]);
	for (unsigned i = 1; i < count; i++)
		check(pthread_join(others[i], NULL) == 0);
}

static int judge(void)
{
	struct random_log logs[RANDOM_THREADS_MAX];
	struct random_result result;

	for (unsigned i = 0; i < random_params_of(program)->threads; i++)
		logs[i] = (struct random_log){area_events(i), atomic_load(&area->counts[i]), 0};
	if (!random_check(program, logs, initial, &result)) {
		dprintf(STDERR_FILENO, "FAILED: %s; again: %s\n", result.error, area->command);
		return WRONG;
	}
	printf("right: %lu reads (%lu of another node's value), %lu writes, %lu syncs, "
	       "%lu blocks (%lu of memory freed elsewhere)\n",
	       (unsigned long)result.reads, (unsigned long)result.reads_foreign,
	       (unsigned long)result.writes, (unsigned long)result.syncs,
	       (unsigned long)result.allocs, (unsigned long)result.reuses);
	return 0;
}

/* Whether all nodes run main to its end; if not, one process creates them. */
static bool everywhere(void)
{
	return setting.roam != NULL && setting.team == 0;
}

/* Half of the creator's pages get contents, if there is a creator. */
static void fill(void)
{
	struct rng rng = {setting.params.seed ^ 0x5eed};

	for (size_t at = 0; at < HEAP_PAGES / 2 * ROAM_PAGE_SIZE && !everywhere(); at++)
		initial[at] = at / ROAM_PAGE_SIZE % 4 == 3 ? 0 : (uint8_t)rng_next(&rng);
	for (unsigned i = 0; !everywhere() && i < PARTS / 2; i++)
		memcpy(parts[i], initial + i * PART_BYTES, PART_BYTES);
}

/* Allocates the block of objects; its first parts are under the named protocols. */
static void make_parts(void)
{
	struct roam_region region = {.place = (enum roam_place)(setting.params.seed % 4),
				     .node = (unsigned)(setting.params.seed / 4 %
							setting.params.nodes),
				     .name = "objects"};

	base = roam_alloc_region(PARTS * PART_BYTES, &region);
	check(base != NULL);
	for (unsigned i = 0; i < PARTS; i++)
		parts[i] = base + i * PART_BYTES;
	for (unsigned i = 0; i < setting.region_count; i++) {
		region.protocol = setting.regions[i];
		parts[i] = roam_alloc_region(PART_BYTES, &region);
		check(parts[i] != NULL);
	}
}

static void run_all(void)
{
	if (setting.team > 0)
		must(roam_create_all(mate_main, random_params_of(program)->threads));
	else if (setting.roam == NULL)
		must(roam_create_all(node_main, setting.params.nodes));
	else
		node_main();
}

static int job_main(void)
{
	must(everywhere() ? roam_start() : roam_start_main());
	make_parts();
	ids = must_alloc(ID_KINDS * IDS * 8);
	initial = calloc(HEAP_PAGES, ROAM_PAGE_SIZE);
	check(initial != NULL);
	fill();
	run_all();
	must(roam_finish());
	atomic_store(&area->over, 1);
	return roam_node() == 0 ? judge() : 0;
}

/* ----------------------------------------------------------------------------------- beginning */

/* Draws the number of threads of each node from the seed. */
static void draw(struct random_params *params, unsigned most, unsigned operations)
{
	struct rng rng = {params->seed * 3 + 5};

	params->teams = setting.team > 0;
	for (unsigned node = 0; node < params->nodes; node++)
		for (unsigned i = params->teams ? setting.team : rng_range(&rng, 1, most); i > 0;
		     i--)
			params->node_of[params->threads++] = (uint8_t)node;
	params->operations = operations != 0 ? operations : 1500 / params->threads;
}

static void area_map(void)
{
	area_bytes = sizeof(*area) + (size_t)random_params_of(program)->threads *
					     random_events_max(program) *
					     sizeof(struct random_event);
	if (setting.fd < 0) {
		setting.fd = memfd_create("random", 0);
		check(setting.fd >= 0 && ftruncate(setting.fd, (off_t)area_bytes) == 0);
	}
	area = mmap(NULL, area_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, setting.fd, 0);
	check(area != MAP_FAILED);
}

/* The command that repeats this run: first roam's options, then ours. */
static void area_command(char **argv)
{
	size_t used = 0;

	for (char **word = environ; *word != NULL && used < COMMAND_MAX; word++)
		if (strncmp(*word, "ROAM_", 5) == 0)
			used += (size_t)snprintf(area->command + used, COMMAND_MAX - used, "%s ",
						 *word);
	for (; *argv != NULL && used < COMMAND_MAX; argv++)
		used += (size_t)snprintf(area->command + used, COMMAND_MAX - used, "%s%s", *argv,
					 argv[1] == NULL ? "" : " ");
}

/* Runs this program again, as every node of a job. */
__attribute__((noreturn)) static void launch(int argc, char **argv)
{
	char **words = calloc((size_t)argc + 12, sizeof(*words)), nodes[16], fd[16], threads[16];
	unsigned count = 0;

	check(words != NULL);
	snprintf(nodes, sizeof(nodes), "%u", setting.params.nodes);
	snprintf(fd, sizeof(fd), "%d", setting.fd);
	words[count++] = strdup(setting.roam);
	words[count++] = strdup("run");
	words[count++] = strdup("-n");
	words[count++] = nodes;
	snprintf(threads, sizeof(threads), "%u", setting.team);
	if (setting.team > 0) {
		words[count++] = strdup("--threads");
		words[count++] = threads;
	}
	if (setting.hosts != NULL) { /* the area's file stays open until then */
		words[count++] = strdup("-H");
		words[count++] = strdup(setting.hosts);
	}
	for (int i = 0; i < argc; i++)
		words[count++] = argv[i];
	words[count++] = strdup("--area");
	words[count++] = fd;
	execv(words[0], words);
	perror(words[0]);
	exit(WRONG);
}

static void option(const char *name, const char *value, unsigned *operations)
{
	check(value != NULL);
	if (strcmp(name, "--seed") == 0)
		setting.params.seed = strtoull(value, NULL, 0);
	else if (strcmp(name, "--nodes") == 0)
		setting.params.nodes = number(value);
	else if (strcmp(name, "--threads") == 0)
		setting.threads = number(value);
	else if (strcmp(name, "--team") == 0)
		setting.team = number(value);
	else if (strcmp(name, "--ops") == 0)
		*operations = number(value);
	else if (strcmp(name, "--seconds") == 0)
		setting.seconds = number(value);
	else if (strcmp(name, "--roam") == 0)
		setting.roam = value;
	else if (strcmp(name, "--region") == 0 && setting.region_count < PARTS)
		setting.regions[setting.region_count++] = value;
	else if (strcmp(name, "--hosts") == 0)
		setting.hosts = value;
	else if (strcmp(name, "--scoped") == 0)
		setting.params.scoped = number(value) != 0;
	else if (strcmp(name, "--area") == 0)
		setting.fd = (int)number(value);
	else
		check(strcmp(name, "an option") == 0);
}

int main(int argc, char **argv)
{
	unsigned operations = 0;
	char *team;
	bool first;

	for (int i = 1; i < argc; i += 2)
		option(argv[i], argv[i + 1], &operations);
	check(setting.params.nodes >= (setting.team > 1 ? 1 : 2));
	check(setting.params.nodes <= NODES_MOST &&
	      setting.threads >= 1 && setting.threads <= RANDOM_THREADS_MAX / NODES_MOST &&
	      setting.team <= RANDOM_THREADS_MAX / NODES_MOST);
	if (setting.team > 0 && setting.roam == NULL)
		check(asprintf(&team, "%u", setting.team) > 0 &&
		      setenv("ROAM_THREADS", team, 1) == 0);
	draw(&setting.params, setting.threads, operations);
	program = random_generate(&setting.params);
	first = setting.fd < 0;
	area_map();
	if (first)
		area_command(argv);
	if (first && setting.roam != NULL)
		launch(argc, argv);
	return job_main();
}
