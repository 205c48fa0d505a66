/*
 * Endpoints in a job: what include/roam/dp.h promises.
 *
 * usage: dp [create|run] CASE, on three nodes; `run`: the launcher has started them.
 */
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <roam/dp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "multi.h"

#define NODES   3u
#define PORT    7u
#define FOREVER 0
#define SHORT   20000000u /* ns */

static uint8_t bytes[ROAM_DP_MESSAGE_MAX];
static struct roam_dp *dp;
static void (*test)(void);

static uint8_t byte_of(unsigned node, unsigned number, size_t at)
{
	return (uint8_t)(node * 89 + number * 31 + at * 7 + at / 256);
}

static void fill(uint8_t *to, unsigned node, unsigned number, size_t length)
{
	for (size_t at = 0; at < length; at++)
		to[at] = byte_of(node, number, at);
}

static void open_all(void)
{
	must(roam_dp_open(PORT, &dp));
	must(roam_barrier_all());
}

static void close_all(void)
{
	must(roam_barrier_all());
	roam_dp_close(dp);
}

/* ------------------------------------------------------------------------------------- messages */

/* Lengths around what is sent in one piece, and around what is the most; each node to each. */
static const size_t lengths[] = {0,     1,     15,     16,     17,        1400,
				 1500,  4096,  9000,   61415,  61416,     61417,
				 61440, 70000, 122832, 122833, 256 * 1024 - 1, 256 * 1024};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void expect_next(unsigned next[NODES])
{
	struct roam_dp_message got = {NODES, 0, 0};

	must(roam_dp_receive(dp, bytes, sizeof(bytes), FOREVER, &got));
	check(got.node < NODES && got.endpoint == PORT && next[got.node] < LENGTHS);
	check(got.bytes == lengths[next[got.node]]);
	for (size_t at = 0; at < got.bytes; at++)
		check(bytes[at] == byte_of(got.node, next[got.node], at));
	next[got.node]++;
}

static void test_lengths(void)
{
	static uint8_t out[ROAM_DP_MESSAGE_MAX];
	unsigned next[NODES] = {0};

	open_all();
	for (unsigned i = 0; i < LENGTHS; i++) {
		for (unsigned to = 0; to < NODES; to++) {
			fill(out, roam_node(), i, lengths[i]);
			must(roam_dp_send(dp, to, PORT, out, lengths[i], FOREVER));
		}
		for (unsigned from = 0; from < NODES; from++)
			expect_next(next);
		must(roam_barrier_all()); /* or two of them could wait for room at each other */
	}
	must_fail(roam_dp_receive(dp, bytes, sizeof(bytes), ROAM_DP_TRY, NULL), ROAM_ETIMEDOUT);
	close_all();
}

/* From and into the heap, where other nodes have written: a touch faults. */
static void test_heap(void)
{
	uint8_t *shared;
	struct roam_dp_message got;
	size_t length = 100000;
	unsigned me = roam_node(), before = (me + NODES - 1) % NODES;

	open_all();
	if (me == 0) { /* a message can bring an address of the heap */
		shared = must_alloc(2 * NODES * ROAM_DP_MESSAGE_MAX);
		for (unsigned to = 0; to < NODES; to++)
			must(roam_dp_send(dp, to, PORT, &shared, sizeof(shared), FOREVER));
	}
	must(roam_dp_receive(dp, &shared, sizeof(shared), FOREVER, NULL));
	must(roam_barrier_all());
	fill(shared + (me + 1) % NODES * ROAM_DP_MESSAGE_MAX, me, 1, length);
	must(roam_barrier_all());
	must(roam_dp_send(dp, (me + 1) % NODES, PORT, shared + me * ROAM_DP_MESSAGE_MAX, length,
			  FOREVER));
	must(roam_dp_receive(dp, shared + (NODES + (me + 2) % NODES) * ROAM_DP_MESSAGE_MAX,
			     ROAM_DP_MESSAGE_MAX, FOREVER, &got));
	check(got.node == before && got.bytes == length);
	for (size_t at = 0; at < length; at++)
		check(shared[(NODES + (me + 2) % NODES) * ROAM_DP_MESSAGE_MAX + at] ==
		      byte_of((before + NODES - 1) % NODES, 1, at));
	close_all();
}

/* --------------------------------------------------------------------------------------- bounds */

static void test_bounds(void)
{
	struct roam_dp *more[ROAM_DP_OPEN_MAX], *one;
	struct roam_dp_message got = {9, 9, 9};

	open_all();
	must_fail(roam_dp_open(PORT, &one), ROAM_EBUSY);
	must_fail(roam_dp_open(PORT, NULL), ROAM_EINVAL);
	must_fail(roam_dp_send(dp, NODES, PORT, bytes, 1, FOREVER), ROAM_EINVAL);
	must_fail(roam_dp_send(dp, 0, PORT, NULL, 1, FOREVER), ROAM_EINVAL);
	must_fail(roam_dp_send(NULL, 0, PORT, bytes, 1, FOREVER), ROAM_EINVAL);
	must_fail(roam_dp_send(dp, 0, PORT, bytes, ROAM_DP_MESSAGE_MAX + 1, FOREVER), ROAM_ETOOBIG);
	must_fail(roam_dp_send(dp, 0, PORT + 1, bytes, 1, FOREVER), ROAM_EUNKNOWN);
	must_fail(roam_dp_receive(dp, NULL, 1, FOREVER, &got), ROAM_EINVAL);
	must_fail(roam_dp_receive(NULL, bytes, 1, FOREVER, &got), ROAM_EINVAL);
	check(roam_dp_file(NULL) == -1 && roam_errno() == ROAM_EINVAL);
	roam_dp_close(NULL);
	for (unsigned i = 1; i < ROAM_DP_OPEN_MAX; i++)
		must(roam_dp_open(UINT32_MAX - i, &more[i]));
	must_fail(roam_dp_open(1, &one), ROAM_ENOSPC);
	for (unsigned i = 1; i < ROAM_DP_OPEN_MAX; i++)
		roam_dp_close(more[i]);
	must(roam_dp_open(1, &one));
	roam_dp_close(one);
	/* Too long for the buffer: its length is told, and it stays. */
	must(roam_dp_send(dp, roam_node(), PORT, bytes, 100, FOREVER));
	must_fail(roam_dp_receive(dp, bytes, 99, FOREVER, &got), ROAM_ETOOBIG);
	check(got.node == roam_node() && got.endpoint == PORT && got.bytes == 100);
	must(roam_dp_receive(dp, bytes, 100, ROAM_DP_TRY, NULL));
	/* Endpoints that are not open do not count among those that a node can send to. */
	for (unsigned i = 1; i < 2 * ROAM_DP_PEERS_MAX; i++)
		must_fail(roam_dp_send(dp, 0, 1000 + i, bytes, 1, FOREVER), ROAM_EUNKNOWN);
	must(roam_dp_send(dp, roam_node(), PORT, bytes, 1, FOREVER));
	close_all();
}

/* A full endpoint holds up its sender, and nobody else; then all that was sent comes. */
static void test_full(void)
{
	struct roam_dp *other;
	unsigned sent = 1, got = 0;
	uint64_t begun;

	must(roam_dp_open(PORT + 1, &other));
	open_all();
	if (roam_node() > 0) {
		must(roam_dp_send(dp, 0, PORT, bytes, roam_node() == 1 ? 1000 : 0, FOREVER));
		must(roam_dp_send(dp, 0, PORT + 1, bytes, 1000, FOREVER));
	}
	if (roam_node() == 1) {
		while (roam_dp_send(dp, 0, PORT, bytes, 1000, ROAM_DP_TRY) == ROAM_OK)
			sent++;
		check(sent == ROAM_DP_ROOM / (1008 + 16));
		begun = roam_clock_us();
		must_fail(roam_dp_send(dp, 0, PORT, bytes, 1000, SHORT), ROAM_ETIMEDOUT);
		check(roam_clock_us() - begun >= SHORT / 1000);
		must(roam_dp_send(dp, 0, PORT + 1, bytes, 1000, ROAM_DP_TRY));
	}
	must(roam_barrier_all());
	if (roam_node() == 2)
		must(roam_dp_send(dp, 0, PORT, bytes, 1000, ROAM_DP_TRY));
	must(roam_barrier_all());
	if (roam_node() == 1)
		must(roam_dp_send(dp, 0, PORT, bytes, ROAM_DP_MESSAGE_MAX, FOREVER));
	for (; roam_node() == 0 && got < ROAM_DP_ROOM / (1008 + 16) + 3; got++)
		must(roam_dp_receive(dp, bytes, sizeof(bytes), FOREVER, NULL));
	must(roam_barrier_all());
	roam_dp_close(other);
	close_all();
}

/* An endpoint that was closed refuses, also those that wait for room; opened anew it takes. */
static void test_closed(void)
{
	struct roam_dp_message got;
	enum roam_err err;

	open_all();
	must(roam_barrier_all());
	if (roam_node() == 1) {
		do
			err = roam_dp_send(dp, 0, PORT, bytes, 5000, FOREVER);
		while (err == ROAM_OK);
		must_fail(err, ROAM_EUNKNOWN);
		must_fail(roam_dp_send(dp, 0, PORT, bytes, 1, FOREVER), ROAM_EUNKNOWN);
	}
	if (roam_node() == 0) {
		usleep(30000);
		roam_dp_close(dp);
	}
	must(roam_barrier_all());
	if (roam_node() == 0)
		must(roam_dp_open(PORT, &dp));
	must(roam_barrier_all());
	if (roam_node() == 1)
		must(roam_dp_send(dp, 0, PORT, bytes, 77, FOREVER));
	if (roam_node() == 0) {
		must(roam_dp_receive(dp, bytes, sizeof(bytes), FOREVER, &got));
		check(got.node == 1 && got.bytes == 77);
	}
	close_all();
}

/* ------------------------------------------------------------------------------------- arrivals */

static bool readable(int file, int ms)
{
	struct pollfd at = {file, POLLIN, 0};

	return poll(&at, 1, ms) == 1;
}

static bool selected(int file)
{
	struct timeval most = {20, 0};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(file, &set);
	return select(file + 1, &set, NULL, NULL, &most) == 1;
}

static bool polled(int file)
{
	struct epoll_event event = {.events = EPOLLIN};
	int set = epoll_create1(0);
	bool yes = epoll_ctl(set, EPOLL_CTL_ADD, file, &event) == 0 &&
		   epoll_wait(set, &event, 1, 20000) == 1;

	close(set);
	return yes;
}

/* The thread is outside of the library: messages that come make the descriptor readable. */
static void test_file(void)
{
	unsigned me = roam_node();
	int file;

	open_all();
	file = roam_dp_file(dp);
	check(file >= 0 && file == roam_dp_file(dp));
	check(!readable(file, 0));
	must(roam_barrier_all());
	for (unsigned turn = 0; turn < 200; turn++) {
		if (me == turn % 2) {
			must(roam_dp_send(dp, 1 - me, PORT, bytes, 8, FOREVER));
			must(roam_dp_send(dp, 1 - me, PORT, bytes, 8, FOREVER));
		} else if (me < 2) {
			check(turn % 3 == 0 ? readable(file, 20000)
					    : turn % 3 == 1 ? selected(file) : polled(file));
			must(roam_dp_receive(dp, bytes, 8, ROAM_DP_TRY, NULL));
			must(roam_dp_receive(dp, bytes, 8, FOREVER, NULL));
			check(!readable(file, 0));
		}
	}
	must(roam_dp_send(dp, me, PORT, bytes, 8, FOREVER));
	roam_dp_close(dp);
	/* One that waited before the descriptor was asked for is seen, too. */
	must(roam_dp_open(PORT + 2, &dp));
	must(roam_dp_send(dp, me, PORT + 2, bytes, 8, FOREVER));
	check(readable(roam_dp_file(dp), 20000));
	close_all();
}

/* Whether a thread of a process is stopped. */
static bool is_stopped(pid_t pid, const char *thread)
{
	char path[80], text[256] = "";
	const char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", (int)pid, thread);
	file = fopen(path, "r");
	if (file == NULL)
		return true; /* it has ended */
	check(fgets(text, sizeof(text), file) != NULL);
	fclose(file);
	end = strrchr(text, ')');
	return end != NULL && end[2] == 'T';
}

/* Stops all threads of a process: one may run on until it next gets a processor. */
static void stop(pid_t pid)
{
	char path[40];
	bool all = false;

	check(kill(pid, SIGSTOP) == 0);
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	while (!all) {
		DIR *threads = opendir(path);
		struct dirent *entry;

		check(threads != NULL);
		all = true;
		while ((entry = readdir(threads)) != NULL)
			all = all && (entry->d_name[0] == '.' || is_stopped(pid, entry->d_name));
		closedir(threads);
		usleep(1000);
	}
}

/* A node that is stopped does not say whether its endpoint is open: a first message has a time. */
static void test_stopped(void)
{
	uint64_t begun;
	pid_t pid = getpid();

	open_all();
	if (roam_node() == 2)
		must(roam_dp_send(dp, 1, PORT, &pid, sizeof(pid), FOREVER));
	if (roam_node() == 1) {
		must(roam_dp_receive(dp, &pid, sizeof(pid), FOREVER, NULL));
		stop(pid);
		begun = roam_clock_us();
		must_fail(roam_dp_send(dp, 2, PORT, bytes, 1, SHORT), ROAM_ETIMEDOUT);
		must_fail(roam_dp_send(dp, 2, PORT, bytes, 2, ROAM_DP_TRY), ROAM_ETIMEDOUT);
		check(roam_clock_us() - begun >= SHORT / 1000);
		check(kill(pid, SIGCONT) == 0);
		must(roam_dp_send(dp, 2, PORT, bytes, 3, FOREVER));
	}
	if (roam_node() == 2) {
		struct roam_dp_message got;

		must(roam_dp_receive(dp, bytes, sizeof(bytes), FOREVER, &got));
		check(got.bytes == 3);
	}
	close_all();
}

static void test_timeout(void)
{
	uint64_t begun = roam_clock_us();

	open_all();
	must_fail(roam_dp_receive(dp, bytes, 8, SHORT, NULL), ROAM_ETIMEDOUT);
	check(roam_clock_us() - begun >= SHORT / 1000);
	must_fail(roam_dp_receive(dp, bytes, 8, ROAM_DP_TRY, NULL), ROAM_ETIMEDOUT);
	close_all();
}

/* -------------------------------------------------------------------------------------- threads */

#define CROWD 4u
#define EACH  300u

static unsigned counts[NODES][CROWD];
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void *crowd_send(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg, out[200] = {0};

	for (unsigned i = 0; i < EACH; i++)
		for (unsigned to = 0; to < NODES; to++) {
			out[0] = me;
			out[1] = i;
			must(roam_dp_send(dp, to, PORT, out, 8 + i % 700, FOREVER));
		}
	return NULL;
}

static void *crowd_receive(void *arg)
{
	unsigned in[200];
	struct roam_dp_message got;

	for (unsigned i = 0; i < NODES * EACH; i++) {
		must(roam_dp_receive(dp, in, sizeof(in), FOREVER, &got));
		check(in[0] < CROWD && in[1] < EACH && got.bytes == 8 + in[1] % 700);
		pthread_mutex_lock(&counting);
		counts[got.node][in[0]]++;
		pthread_mutex_unlock(&counting);
	}
	return arg;
}

/* Threads that roam does not know send and receive at one endpoint. */
static void test_threads(void)
{
	pthread_t sends[CROWD], receives[CROWD];

	open_all();
	for (uintptr_t i = 0; i < CROWD; i++) {
		check(pthread_create(&sends[i], NULL, crowd_send, (void *)i) == 0);
		check(pthread_create(&receives[i], NULL, crowd_receive, NULL) == 0);
	}
	for (unsigned i = 0; i < CROWD; i++) {
		pthread_join(sends[i], NULL);
		pthread_join(receives[i], NULL);
	}
	for (unsigned from = 0; from < NODES; from++)
		for (unsigned i = 0; i < CROWD; i++)
			check(counts[from][i] == EACH);
	close_all();
}

static pthread_t late;
static bool is_late;

static void *late_main(void *arg)
{
	struct roam_dp *mine = arg;

	must_fail(roam_dp_receive(mine, bytes, sizeof(bytes), FOREVER, NULL), ROAM_ESTATE);
	must_fail(roam_dp_send(mine, 0, PORT, bytes, 1, FOREVER), ROAM_ESTATE);
	roam_dp_close(mine);
	return NULL;
}

static void late_start(void)
{
	is_late = true;
	check(pthread_create(&late, NULL, late_main, dp) == 0);
	usleep(20000);
}

/* A thread waits to receive when the job ends. */
static void test_ends(void)
{
	open_all();
	late_start();
}

/* So does one when nodes are created, see main. */
static void test_creates(void)
{
	open_all();
	close_all();
}

static void exits_now(int signal)
{
	(void)signal;
	if (roam_node() == 0 && write(STDOUT_FILENO, "right\n", 6) != 6)
		_exit(1);
	exit(0);
}

static unsigned exits_us = SHORT / 1000;

static void *exits_main(void *arg)
{
	usleep(exits_us);
	pthread_kill(*(pthread_t *)arg, SIGINT);
	return NULL;
}

/* A thread that waits to receive ends its node in a signal handler. */
static void test_exits(void)
{
	static pthread_t self;
	pthread_t other;

	open_all();
	self = pthread_self();
	signal(SIGINT, exits_now);
	check(pthread_create(&other, NULL, exits_main, &self) == 0);
	roam_dp_receive(dp, bytes, sizeof(bytes), FOREVER, NULL);
	check(false);
}

/* So does one that sends and receives, at any moment. */
static void test_leaves(void)
{
	static pthread_t self;
	pthread_t other;

	open_all();
	self = pthread_self();
	signal(SIGINT, exits_now);
	exits_us = (unsigned)((roam_clock_us() + (uint64_t)getpid()) * 0x9e3779b9u % 0xffffffffu) %
		   (SHORT / 1000);
	check(pthread_create(&other, NULL, exits_main, &self) == 0);
	for (;;) {
		/* The other one may have left. */
		enum roam_err err = roam_dp_send(dp, (roam_node() + 1) % NODES, PORT, bytes, 100,
						 SHORT / 100);

		check(err == ROAM_OK || err == ROAM_ETIMEDOUT);
		err = roam_dp_receive(dp, bytes, sizeof(bytes), SHORT / 100, NULL);
		check(err == ROAM_OK || err == ROAM_ETIMEDOUT);
	}
}

/* All threads wait to receive: a hang, which a report explains. */
static void test_hang(void)
{
	open_all();
	roam_dp_receive(dp, bytes, sizeof(bytes), FOREVER, NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {{"lengths", test_lengths}, {"heap", test_heap},       {"bounds", test_bounds},
	     {"full", test_full},       {"closed", test_closed},   {"file", test_file},
	     {"timeout", test_timeout}, {"threads", test_threads}, {"stopped", test_stopped},
	     {"ends", test_ends},       {"creates", test_creates}, {"exits", test_exits},
	     {"leaves", test_leaves},   {"hang", test_hang}};

/* What was opened before CREATE cannot be used behind it; it can be closed. */
static void work(void)
{
	struct roam_dp *early = dp;

	if (is_late && roam_node() == 0) {
		check(pthread_join(late, NULL) == 0); /* which has closed it */
		is_late = false;
		dp = NULL;
	} else if (early != NULL) {
		must_fail(roam_dp_send(early, 0, PORT, bytes, 1, FOREVER), ROAM_ESTATE);
		must_fail(roam_dp_receive(early, bytes, 1, FOREVER, NULL), ROAM_ESTATE);
		roam_dp_close(early);
		dp = NULL;
	}
	test();
}

int main(int argc, char **argv)
{
	unsigned me;

	for (unsigned i = 0; argc > 2 && i < sizeof(tests) / sizeof(tests[0]); i++)
		if (strcmp(argv[2], tests[i].name) == 0)
			test = tests[i].run;
	if (test == NULL) {
		fprintf(stderr, "usage: dp create|run CASE\n");
		return 2;
	}
	if (strcmp(argv[1], "run") == 0) {
		must(roam_start());
		test();
		me = roam_node();
		must(roam_finish());
	} else {
		/* A job of one node has endpoints, too. */
		must(roam_dp_open(PORT, &dp));
		must(roam_dp_send(dp, 0, PORT, "one", 3, FOREVER));
		must(roam_dp_receive(dp, bytes, 3, ROAM_DP_TRY, NULL));
		if (test == test_creates)
			late_start();
		must(roam_create_all(work, NODES));
		must(roam_wait_for_end());
		me = roam_node();
	}
	if (is_late)
		check(pthread_join(late, NULL) == 0);
	if (me == 0)
		printf("right\n");
	return 0;
}
