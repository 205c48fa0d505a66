/*
 * Shows that every function of roam.h, pastset.h and dp.h returns what the headers say, and nothing
 * crashes, where there is no job: before roam starts, each in a process of its own, and after
 * roam_finish.  Functions that start roam by themselves do so.  outside HEADER...; reads the
 * headers, so that none of their functions is forgotten.
 */
#include "multi.h"

#include <ctype.h>
#include <fcntl.h>
#include <roam/dp.h>
#include <roam/pastset.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NULL_BLOCK 1000 /* returned instead of an error: NULL, for this reason, */
#define NOTHING    2000 /* or nothing that can be compared */

static uint64_t object; /* names every object */
static char *block;     /* a block of the heap, when there was one */
static char outside[64];
static void *pinned;    /* its contents, before the end */
static struct roam_ps_element *element;
static struct roam_dp *dp;
static int heap_fd;

static void nothing(void)
{
}

static int alloc_err(const void *got)
{
	return got != NULL ? ROAM_OK : NULL_BLOCK + (int)roam_errno();
}

static char *anywhere(void)
{
	return block != NULL ? block : outside;
}

static int call_read(void)
{
	ssize_t got = roam_read(heap_fd, outside, 1);

	return got == 0 ? ROAM_OK : -1;
}

static int call_write(void)
{
	ssize_t got = roam_write(heap_fd, outside, 1);

	return got == 1 ? ROAM_OK : -1;
}

/* Sends one byte each way, through a socket, a list and a stream. */
static int call_recv(void)
{
	int ends[2];

	check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	check(roam_send(ends[0], "x", 1, MSG_NOSIGNAL) == 1);
	check(roam_recv(ends[1], outside, 1, 0) == 1 && outside[0] == 'x');
	check(close(ends[0]) == 0 && roam_recv(ends[1], outside, 1, 0) == 0);
	close(ends[1]);
	return ROAM_OK;
}

static int call_readv(void)
{
	struct iovec parts[2] = {{outside, 1}, {outside + 1, 2}};

	check(roam_writev(heap_fd, parts, 2) == 3);
	return roam_readv(heap_fd, parts, 2) == 0 ? ROAM_OK : -1;
}

static int call_fread(void)
{
	FILE *file = tmpfile();

	check(file != NULL && roam_fwrite("xyz", 1, 3, file) == 3);
	rewind(file);
	check(roam_fread(outside, 1, 4, file) == 3 && memcmp(outside, "xyz", 3) == 0);
	fclose(file);
	return ROAM_OK;
}

static int call_state(void)
{
	struct roam_ps_state state;

	return (int)roam_ps_state(element, &state);
}

static int call_call(void)
{
	struct roam_ps_request request = {.op = ROAM_PS_STATE};

	return (int)roam_ps_call(element, &request);
}

static int call_cancel(void)
{
	struct roam_ps_cancel cancel = {0};

	roam_ps_cancel(&cancel);
	return NOTHING;
}

static int call_cursors(void)
{
	struct roam_ps_cursor cursor;
	uint32_t value = 1, count;
	char tuple[64] = {0};
	size_t bytes;

	roam_ps_cursor_begin(&cursor, tuple, sizeof(tuple));
	roam_ps_put(&cursor, &value, sizeof(value));
	roam_ps_put_items(&cursor, &value, 1, sizeof(value));
	must(roam_ps_cursor_end(&cursor, &bytes));
	roam_ps_cursor_begin(&cursor, tuple, bytes);
	roam_ps_get(&cursor, &value, sizeof(value));
	roam_ps_get_items(&cursor, &count, sizeof(value));
	return (int)roam_ps_cursor_end(&cursor, NULL);
}

static int call_enter(void)
{
	struct roam_ps_element *other;

	return (int)roam_ps_enter("other", "u32", NULL, &other);
}

static int call_enter_at(void)
{
	struct roam_ps_element *other;

	return (int)roam_ps_enter_at(NULL, "other", "u32", NULL, &other);
}

static int call_attach(void)
{
	struct roam_ps_server *server;

	return (int)roam_ps_attach("/nonexistent/tuples", "/nonexistent/key", &server);
}

static int call_serve(void)
{
	return (int)roam_ps_serve("/nonexistent/tuples", "/nonexistent/key", NULL, 0);
}

static int call_register(void)
{
	return (int)roam_ps_register(&(struct roam_ps_function){.name = NULL});
}

static int call_leave(void)
{
	if (block == NULL)
		roam_ps_leave(NULL);
	return NOTHING;
}

static int call_bound(void)
{
	return element == NULL ||
			       (strcmp(roam_ps_template(element), "u32") == 0 &&
				roam_ps_node(element) == 0)
		       ? NOTHING
		       : -1;
}

static int call_dp_open(void)
{
	struct roam_dp *other;

	return (int)roam_dp_open(8, &other);
}

static int call_dp_open_pair(void)
{
	struct roam_dp *other;

	return (int)roam_dp_open_pair(NULL, 8, &other);
}

/* There is no such key. */
static int call_dp_meet(void)
{
	struct roam_dp_pair *pair;

	return (int)roam_dp_meet("/nonexistent/pair", "/nonexistent/key", 0, 1, &pair);
}

static int call_reduce(void)
{
	int32_t value = 1;

	return (int)roam_reduce(&value, 1, ROAM_INT32, ROAM_SUM);
}

static int call_unlock(void)
{
	roam_lock(&object);
	return (int)roam_unlock(&object);
}

static int call_flag_wait(void)
{
	roam_flag_set(&object);
	return (int)roam_flag_wait(&object);
}

static int call_regions(void)
{
	return alloc_err(roam_alloc_region(64, NULL));
}

#define CALL(name, before, after, expression)   \
	static int call_##name(void)            \
	{                                       \
		return (int)(expression);       \
	}
#define VOID(name, before, after, statement)    \
	static int call_##name(void)            \
	{                                       \
		statement;                      \
		return NOTHING;                 \
	}
#define OWN(name, before, after, unused)

/*
 * Each function by its name without roam_, and what it returns before the start and after the end.
 */
#define TABLE(CALL, VOID, OWN)                                                                     \
	VOID(strerror, NOTHING, NOTHING, check(roam_strerror(ROAM_EINVAL) != NULL))                \
	VOID(version, NOTHING, NOTHING, check(roam_version() != NULL))                             \
	CALL(start, ROAM_OK, ROAM_ESTATE, roam_start())                                            \
	CALL(start_main, ROAM_OK, ROAM_ESTATE, roam_start_main())                                  \
	CALL(finish, ROAM_OK, ROAM_OK, roam_finish())                                              \
	VOID(node, NOTHING, NOTHING, check(roam_node() == 0))                                      \
	VOID(nodes, NOTHING, NOTHING, check(roam_nodes() >= 1))                                    \
	CALL(needs, ROAM_OK, ROAM_ESTATE, roam_needs(ROAM_MODEL_SCC))                              \
	CALL(create, ROAM_OK, ROAM_ESTATE, roam_create(nothing))                                   \
	CALL(create_all, ROAM_OK, ROAM_ESTATE, roam_create_all(nothing, 2))                        \
	CALL(distribute, ROAM_OK, ROAM_ESTATE, roam_distribute(&object, sizeof(object)))           \
	CALL(wait_for_end, ROAM_OK, ROAM_ESTATE, roam_wait_for_end())                              \
	CALL(threads_fixed, ROAM_OK, ROAM_ESTATE, roam_threads_fixed())                            \
	CALL(thread_init, ROAM_ESTATE, ROAM_ESTATE, roam_thread_init())                            \
	CALL(thread_fini, ROAM_ESTATE, ROAM_ESTATE, roam_thread_fini())                            \
	CALL(alloc, ROAM_OK, NULL_BLOCK + ROAM_ESTATE, alloc_err(roam_alloc(64)))                  \
	CALL(alloc_placed, ROAM_OK, NULL_BLOCK + ROAM_ESTATE,                                      \
	     alloc_err(roam_alloc_placed(64, ROAM_PLACE_BLOCK, 0, "block")))                       \
	OWN(alloc_region, ROAM_OK, NULL_BLOCK + ROAM_ESTATE, regions)                              \
	CALL(free, ROAM_ENOTOURS, ROAM_ESTATE, roam_free(anywhere()))                              \
	CALL(realloc, NULL_BLOCK + ROAM_ENOTOURS, NULL_BLOCK + ROAM_ESTATE,                        \
	     alloc_err(roam_realloc(anywhere(), 1, 2)))                                            \
	CALL(root, ROAM_OK, NULL_BLOCK + ROAM_ESTATE,                                              \
	     alloc_err(roam_root("outside", 64, ROAM_WRITE)))                                      \
	VOID(errno, NOTHING, NOTHING, roam_errno())                                                \
	CALL(touch, ROAM_ENOTOURS, ROAM_ESTATE, roam_touch(anywhere(), 1, ROAM_WRITE))             \
	OWN(read, ROAM_OK, ROAM_OK, read)                                                          \
	OWN(write, ROAM_OK, ROAM_OK, write)                                                        \
	CALL(pin, NULL_BLOCK + ROAM_ENOTOURS, NULL_BLOCK + ROAM_ESTATE,                            \
	     alloc_err(roam_pin(anywhere(), 1, ROAM_READ)))                                        \
	CALL(unpin, ROAM_EINVAL, ROAM_ESTATE, roam_unpin(pinned, pinned != NULL))                  \
	OWN(recv, ROAM_OK, ROAM_OK, recv)                                                          \
	OWN(send, ROAM_OK, ROAM_OK, recv)                                                          \
	OWN(readv, ROAM_OK, ROAM_OK, readv)                                                        \
	OWN(writev, ROAM_OK, ROAM_OK, readv)                                                       \
	OWN(fread, ROAM_OK, ROAM_OK, fread)                                                        \
	OWN(fwrite, ROAM_OK, ROAM_OK, fread)                                                       \
	VOID(prefetch, NOTHING, NOTHING, roam_prefetch(anywhere(), 1))                             \
	CALL(home, ROAM_ENOTOURS, ROAM_ESTATE, roam_home(anywhere(), 1, 0))                        \
	CALL(lock_init, ROAM_OK, ROAM_ESTATE, roam_lock_init(&object))                             \
	CALL(lock, ROAM_OK, ROAM_ESTATE, roam_lock(&object))                                       \
	CALL(trylock, ROAM_OK, ROAM_ESTATE, roam_trylock(&object))                                 \
	CALL(lock_until, ROAM_OK, ROAM_ESTATE, roam_lock_until(&object, 0))                        \
	OWN(unlock, ROAM_OK, ROAM_ESTATE, unlock)                                                  \
	CALL(barrier, ROAM_OK, ROAM_ESTATE, roam_barrier(&object, 1))                              \
	CALL(barrier_all, ROAM_OK, ROAM_ESTATE, roam_barrier_all())                                \
	CALL(cond_init, ROAM_OK, ROAM_ESTATE, roam_cond_init(&object))                             \
	CALL(cond_wait, ROAM_ENOTHELD, ROAM_ESTATE, roam_cond_wait(&object, &outside))             \
	CALL(cond_wait_until, ROAM_ENOTHELD, ROAM_ESTATE,                                          \
	     roam_cond_wait_until(&object, &outside, 0))                                           \
	CALL(cond_signal, ROAM_OK, ROAM_ESTATE, roam_cond_signal(&object))                         \
	CALL(cond_broadcast, ROAM_OK, ROAM_ESTATE, roam_cond_broadcast(&object))                   \
	CALL(rdlock, ROAM_ENOTOURS, ROAM_ESTATE, roam_rdlock((void *)anywhere()))          \
	CALL(wrlock, ROAM_ENOTOURS, ROAM_ESTATE, roam_wrlock((void *)anywhere()))          \
	CALL(tryrdlock, ROAM_ENOTOURS, ROAM_ESTATE, roam_tryrdlock((void *)anywhere()))    \
	CALL(trywrlock, ROAM_ENOTOURS, ROAM_ESTATE, roam_trywrlock((void *)anywhere()))    \
	CALL(rdlock_until, ROAM_ENOTOURS, ROAM_ESTATE,                                     \
	     roam_rdlock_until((void *)anywhere(), 0))                                     \
	CALL(wrlock_until, ROAM_ENOTOURS, ROAM_ESTATE,                                     \
	     roam_wrlock_until((void *)anywhere(), 0))                                     \
	CALL(rwunlock, ROAM_ENOTOURS, ROAM_ESTATE, roam_rwunlock((void *)anywhere()))      \
	CALL(once, ROAM_ENOTOURS, ROAM_ESTATE, roam_once((void *)anywhere(), nothing))     \
	CALL(flag_set, ROAM_OK, ROAM_ESTATE, roam_flag_set(&object))                               \
	OWN(flag_wait, ROAM_OK, ROAM_ESTATE, flag_wait)                                            \
	CALL(flag_clear, ROAM_OK, ROAM_ESTATE, roam_flag_clear(&object))                           \
	OWN(reduce, ROAM_OK, ROAM_ESTATE, reduce)                                                  \
	VOID(counter, NOTHING, NOTHING, check(roam_counter("read_faults") == 0))                   \
	VOID(stats_print, NOTHING, NOTHING, roam_stats_print(heap_fd))                             \
	VOID(roi_begin, NOTHING, NOTHING, roam_roi_begin())                                        \
	VOID(roi_end, NOTHING, NOTHING, roam_roi_end())                                            \
	VOID(clock_us, NOTHING, NOTHING, check(roam_clock_us() != 0))                              \
	OWN(ps_cursor_begin, ROAM_OK, ROAM_OK, cursors)                                            \
	OWN(ps_cursor_end, ROAM_OK, ROAM_OK, cursors)                                              \
	OWN(ps_put, ROAM_OK, ROAM_OK, cursors)                                                     \
	OWN(ps_get, ROAM_OK, ROAM_OK, cursors)                                                     \
	OWN(ps_put_items, ROAM_OK, ROAM_OK, cursors)                                               \
	OWN(ps_get_items, ROAM_OK, ROAM_OK, cursors)                                               \
	OWN(ps_enter, ROAM_OK, ROAM_ESTATE, enter)                                                 \
	OWN(ps_leave, NOTHING, NOTHING, leave)                                                     \
	OWN(ps_template, NOTHING, NOTHING, bound)                                                  \
	OWN(ps_node, NOTHING, NOTHING, bound)                                                      \
	VOID(ps_why, NOTHING, NOTHING, check(roam_ps_why() != NULL))                               \
	OWN(ps_attach, ROAM_EINVAL, ROAM_EINVAL, attach)                                           \
	OWN(ps_serve, ROAM_EINVAL, ROAM_EINVAL, serve)                                             \
	VOID(ps_detach, NOTHING, NOTHING, roam_ps_detach(NULL))                                    \
	OWN(ps_enter_at, ROAM_EINVAL, ROAM_EINVAL, enter_at)                                       \
	OWN(ps_register, ROAM_EINVAL, ROAM_EINVAL, register)                                       \
	CALL(ps_move, ROAM_EINVAL, ROAM_ESTATE, roam_ps_move(element, &object, 4))                 \
	CALL(ps_observe, ROAM_EINVAL, ROAM_ESTATE, roam_ps_observe(element, outside, 64, NULL))    \
	CALL(ps_mob, ROAM_EINVAL, ROAM_ESTATE,                                                     \
	     roam_ps_mob(element, &object, 4, element, outside, 64, NULL))                         \
	CALL(ps_delta, ROAM_EINVAL, ROAM_ESTATE, roam_ps_delta(element, 4))                        \
	CALL(ps_truncate, ROAM_EINVAL, ROAM_ESTATE, roam_ps_truncate(element, 4))                  \
	OWN(ps_state, ROAM_EINVAL, ROAM_ESTATE, state)                                             \
	OWN(ps_call, ROAM_EINVAL, ROAM_ESTATE, call)                                               \
	OWN(dp_open, ROAM_OK, ROAM_ESTATE, dp_open)                                                \
	VOID(dp_close, NOTHING, NOTHING, roam_dp_close(NULL))                                      \
	CALL(dp_send, ROAM_EINVAL, ROAM_ESTATE, roam_dp_send(dp, 0, 7, outside, 1, 0))             \
	CALL(dp_receive, ROAM_EINVAL, ROAM_ESTATE, roam_dp_receive(dp, outside, 1, 0, NULL))       \
	CALL(dp_file, -1, -1, roam_dp_file(dp))                                                    \
	OWN(dp_meet, ROAM_EINVAL, ROAM_ESTATE, dp_meet)                                            \
	OWN(dp_open_pair, ROAM_EINVAL, ROAM_EINVAL, dp_open_pair)                                  \
	VOID(dp_pair_node, NOTHING, NOTHING, nothing())                                            \
	VOID(dp_part, NOTHING, NOTHING, roam_dp_part(NULL))                                        \
	OWN(ps_cancel, NOTHING, NOTHING, cancel)

TABLE(CALL, VOID, OWN)

static const struct entry {
	const char *name;
	int before, after;
	int (*call)(void);
} table[] = {
#define ENTRY(name, before, after, expression) \
	{"roam_" #name, (int)(before), (int)(after), call_##name},
#define OWN_ENTRY(name, before, after, how) \
	{"roam_" #name, (int)(before), (int)(after), call_##how},
	TABLE(ENTRY, ENTRY, OWN_ENTRY)};

#define ENTRIES (sizeof(table) / sizeof(table[0]))

/* ------------------------------------------------------------------------------------- headers */

/* The function that a line of a header declares, or NULL. */
static char *declared(char *line)
{
	char *name = strstr(line, "roam_"), *end;

	if (!isalpha((unsigned char)line[0]) || strchr(line, '(') == NULL)
		return NULL;
	for (; name != NULL; name = strstr(end, "roam_")) {
		for (end = name; isalnum((unsigned char)*end) || *end == '_';)
			end++;
		if (*end == '(') {
			*end = '\0';
			return name;
		}
	}
	return NULL;
}

static void covers(const char *path)
{
	FILE *header = fopen(path, "r");
	unsigned functions = 0;
	char line[400];

	check(header != NULL);
	while (fgets(line, sizeof(line), header) != NULL) {
		const char *name = declared(line);
		bool found = name == NULL;

		for (size_t i = 0; i < ENTRIES && !found; i++)
			found = strcmp(table[i].name, name) == 0;
		if (!found)
			fprintf(stderr, "%s: not in the table\n", name);
		check(found);
		functions += name != NULL;
	}
	check(functions > 5);
	fclose(header);
}

/* --------------------------------------------------------------------------------------- calls */

static void compare(const struct entry *entry, const char *when, int got, int wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "%s %s: %d, expected %d\n", entry->name, when, got, wanted);
	exit(WRONG);
}

static void each_before(void)
{
	for (size_t i = 0; i < ENTRIES; i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			compare(&table[i], "before the start", table[i].call(), table[i].before);
			exit(0);
		}
		check(waitpid(pid, &status, 0) == pid);
		if (status != 0)
			fprintf(stderr, "%s before the start: status %#x\n", table[i].name, status);
		check(status == 0);
	}
}

static void each_after(void)
{
	must(roam_start());
	block = must_alloc(100000);
	pinned = roam_pin(block, 1, ROAM_WRITE);
	check(pinned != NULL);
	must(roam_ps_enter("one", "u32", NULL, &element));
	must(roam_dp_open(7, &dp));
	must(roam_finish());
	for (size_t i = 0; i < ENTRIES; i++)
		compare(&table[i], "after the end", table[i].call(), table[i].after);
}

int main(int argc, char **argv)
{
	setbuf(stdout, NULL);
	heap_fd = open("/dev/null", O_RDWR);
	check(argc > 1 && heap_fd >= 0);
	for (int i = 1; i < argc; i++)
		covers(argv[i]);
	each_before();
	each_after();
	printf("all as said\n");
	return 0;
}
