/*
 * roam bench latency: the tables of "The Low-Latency Protocol" (Bjorndalen, Anshus, Larsen and
 * Vinter), with the ways of today: round trips of short messages between two processes, over bare
 * sockets and over roam's endpoints (roam/dp.h), blocking, spinning, and spinning before sleeping.
 * With --busy the processor that answers multiplies matrices beside it, as in their tables 2, 4, 5
 * and 6.
 *
 * Each row is measured by two new processes, in network namespaces that a cable (veth) joins, if
 * this process may make some, else over the loopback device.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/transports.h"
#include "bench.h"
#include "latency.h"

#define SIZES   16u
#define ROW_S   60u /* a row that takes longer is given up */
#define LOOK_US 10000u
#define HEAD    24u /* bytes of the shortest frame that a ring of roam's takes */

static const unsigned usual[] = {32, 64, 1024, 4096};
static const char *const waits[LATENCY_WAITS] = {"blocking", "spinning", "adaptive",
						   "poll", "none"};

#define THEIRS_ALONE 13.4 /* s: the matrices without messages */

/*
 * What the paper measured: of the averages of five times 1,500 round trips; beside the matrices
 * also how long these took, in s, and round trips per second.
 */
static const struct theirs {
	const char *way; /* ours that is most like it */
	const char *theirs;
	unsigned bytes;
	double min, average, max;
	double work, per_s; /* 0: without the matrices */
} theirs[] = {
	{"tcp", "TCP/IP, userlevel", 32, 187, 188, 189, 0, 0},
	{"udp", "UDP/IP, userlevel", 32, 141, 141, 142, 0, 0},
	{"packet socket", "Packet socket, userlevel", 32, 114, 115, 115, 0, 0},
	{"roam/packet", "LLP userlevel", 32, 87, 88, 88, 0, 0},
	{"kernel", "LLP kernel level", 32, 67, 67, 67, 0, 0},
	{"interrupt", "LLP interrupt handler", 32, 54, 54, 54, 0, 0},
	{"tcp", "TCP/IP, userlevel", 1024, 384, 384, 385, 0, 0},
	{"udp", "UDP/IP, userlevel", 1024, 339, 339, 340, 0, 0},
	{"packet socket", "Packet socket, userlevel", 1024, 311, 311, 312, 0, 0},
	{"roam/packet", "LLP userlevel", 1024, 283, 284, 286, 0, 0},
	{"kernel", "LLP kernel level", 1024, 251, 252, 253, 0, 0},
	{"interrupt", "LLP interrupt handler", 1024, 215, 215, 215, 0, 0},
	{"packet ring", "LLP userlevel static buf", 32, 82, 82, 83, 0, 0},
	{"packet ring", "LLP userlevel static buf", 1024, 278, 278, 278, 0, 0},
	{"tcp", "TCP/IP, userlevel", 32, 231, 286, 441, 21, 3494},
	{"udp", "UDP/IP, userlevel", 32, 145, 202, 291, 24, 4950},
	{"packet socket", "Packet socket, userlevel", 32, 118, 140, 178, 30, 7120},
	{"roam/packet", "LLP userlevel", 32, 90, 106, 130, 26, 9406},
	{"packet ring", "LLP userlevel static buf", 32, 84, 102, 131, 24, 9801},
	{"kernel", "LLP kernel level", 32, 68, 68, 69, 24, 14621},
	{"interrupt", "LLP interrupt handler", 32, 54, 54, 54, 21, 18501},
	{"tcp", "TCP/IP, userlevel", 1024, 387, 427, 467, 16, 2341},
	{"udp", "UDP/IP, userlevel", 1024, 423, 598, 921, 16, 1671},
	{"packet socket", "Packet socket, userlevel", 1024, 316, 346, 396, 20, 2893},
	{"roam/packet", "LLP userlevel", 1024, 287, 287, 288, 18, 3482},
	{"packet ring", "LLP userlevel static buf", 1024, 281, 282, 287, 18, 3540},
	{"kernel", "LLP kernel level", 1024, 254, 255, 255, 16, 3923},
	{"interrupt", "LLP interrupt handler", 1024, 215, 215, 215, 15, 4642},
};

/* How long one way may take, as a share of another one's p50; both spin. */
static const struct goal {
	const char *way, *of;
	unsigned bytes;
	double most;
} goals[] = {
	{"roam/packet", "udp", 64, .65},
	{"roam/packet", "udp", 4096, .75},
	{"roam/xdp", "udp", 64, .75},
	{"roam/packet", "packet socket", 64, 1.3},
	{"roam/packet", "packet socket", 4096, 1.3},
	{"roam/xdp", "xdp socket", 64, 1.3},
	{"sealed packet", "sealed udp", 64, .85},
	{"sealed packet", "sealed udp", 4096, .85},
	{"sealed xdp", "sealed udp", 64, .85},
	{"sealed xdp", "sealed udp", 4096, .85},
};

#define ADAPTIVE_MOST 1.1 /* as a share of the better of spinning and blocking */

struct row {
	const struct latency_way *way;
	unsigned bytes;
	enum latency_wait wait;
	double min, average, max; /* of the averages of the runs */
	double shortest, p50, p99, longest; /* of all round trips */
	uint32_t trips;
	double work, per_s; /* the matrices, as a share of alone; round trips */
	const struct theirs *theirs; /* NULL: none */
};

#define ROWS_MAX (SIZES * 20 * LATENCY_WAITS)

struct latency_bench {
	const struct bench *bench;
	struct latency_shared *shared;
	struct latency_spaces spaces;
	bool has[LATENCY_NEEDS]; /* what a way may need; LATENCY_FRAMES: there are namespaces */
	unsigned mtu, trips;
	double alone_us; /* the matrices; 0: there are none */
	unsigned sizes[SIZES], size_count;
	char where[96];
	struct row *row; /* those that were measured */
	unsigned rows, failed;
	bool json;
};

/* ------------------------------------------------------------------------------------ processes */

__attribute__((noreturn)) static void side_main(const struct latency_bench *all,
						const struct row *row, unsigned side)
{
	static struct latency_run run; /* large */

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(ROW_S);
	run = (struct latency_run){.way = row->way,
				   .shared = all->shared,
				   .side = side,
				   .bytes = row->bytes,
				   .wait = row->wait,
				   .trips = all->trips,
				   .busy = all->alone_us != 0,
				   .where = all->where,
				   .apart = all->has[LATENCY_FRAMES],
				   .ticks_per_us = all->bench->ticks_per_us,
				   .overhead = (double)all->bench->overhead,
				   .fd = -1};
	if (row->way->near) {
		latency_job(&run);
		_exit(0);
	}
	if (all->has[LATENCY_FRAMES] && !latency_spaces_enter(&all->spaces, side))
		latency_fail(&run, "cannot enter the namespace: %s", strerror(errno));
	floor_pin(all->bench->cpu[side]);
	row->way->open(&run);
	if (row->way->trips != NULL)
		row->way->trips(&run);
	else
		latency_trips(&run);
	row->way->close(&run);
	_exit(0);
}

/* Whether both ended well; after one that did not, or is late, the other one is ended. */
static bool sides_await(const pid_t *pids, unsigned count)
{
	unsigned left = count, looks = ROW_S * 1000000u / LOOK_US + 100;
	bool good = true, gone[2] = {false, false};

	while (left > 0 && good && looks-- > 0) {
		for (unsigned i = 0; i < count; i++) {
			int status = 0;

			if (gone[i] || waitpid(pids[i], &status, WNOHANG) != pids[i])
				continue;
			gone[i] = true;
			left--;
			good = good && status == 0;
		}
		usleep(LOOK_US);
	}
	for (unsigned i = 0; i < count; i++)
		if (!gone[i]) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
	return good && left == 0;
}

static void files_remove(const struct latency_bench *all)
{
	static const char *const names[] = {"key", "socket"};
	char path[128];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", all->where, names[i]);
		unlink(path);
	}
}

/* The process that multiplies beside a row; 0: there is none. */
static pid_t work_begin(const struct latency_bench *all)
{
	pid_t pid = all->alone_us != 0 ? fork() : -1;

	if (pid == 0)
		latency_work(all->shared, all->bench->cpu[0], all->bench->ticks_per_us);
	return pid < 0 ? 0 : pid;
}

static void work_end(pid_t pid)
{
	if (pid == 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool row_run(const struct latency_bench *all, const struct row *row)
{
	unsigned count = row->way->near ? 1 : 2;
	pid_t pids[2], work;
	bool good;

	memset(all->shared, 0, sizeof(*all->shared));
	files_remove(all);
	fflush(stdout);
	work = work_begin(all);
	for (unsigned side = 0; side < count; side++) {
		pids[side] = fork();
		if (pids[side] == 0)
			side_main(all, row, side);
		if (pids[side] < 0) {
			if (side > 0) {
				kill(pids[0], SIGKILL);
				waitpid(pids[0], NULL, 0);
			}
			work_end(work);
			return false;
		}
	}
	good = sides_await(pids, count);
	work_end(work);
	if (good && atomic_load(&all->shared->done) == LATENCY_TIMES)
		return true;
	fprintf(stderr, "roam bench: %s, %u bytes, %s: %s\n", row->way->name, row->bytes,
		waits[row->wait],
		all->shared->error[0] != '\0' ? all->shared->error : "a process ended, or hangs");
	return false;
}

/* -------------------------------------------------------------------------------------- numbers */

static void row_count(const struct latency_bench *all, struct row *row)
{
	static float every[LATENCY_TIMES * LATENCY_TRIPS_MAX];
	double each = all->bench->ticks_per_us, sum = 0;
	struct report_median median;

	for (unsigned time = 0; time < LATENCY_TIMES; time++) {
		double average = 0;
		uint32_t trips = all->shared->trips[time];

		if (trips > LATENCY_TRIPS_MAX)
			trips = LATENCY_TRIPS_MAX;
		if (all->alone_us == 0 || trips > all->trips)
			trips = all->trips;
		for (unsigned trip = 0; trip < trips; trip++) {
			float ticks = all->shared->ticks[time][trip] - (float)all->bench->overhead;

			every[row->trips++] = ticks;
			average += ticks / each / trips;
		}
		if (all->alone_us != 0) {
			row->work += all->shared->work_us[time] / all->alone_us / LATENCY_TIMES;
			row->per_s += all->shared->trips[time] / all->shared->work_us[time] * 1e6 /
				      LATENCY_TIMES;
		}
		if (time == 0 || average < row->min)
			row->min = average;
		if (time == 0 || average > row->max)
			row->max = average;
		sum += average;
	}
	row->average = sum / LATENCY_TIMES;
	median = report_median(every, row->trips, each);
	row->shortest = every[0] / each;
	row->p50 = median.us;
	row->p99 = median.p99;
	row->longest = every[row->trips - 1] / each;
	for (unsigned i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
		if (strcmp(theirs[i].way, row->way->name) == 0 && theirs[i].bytes == row->bytes &&
		    (theirs[i].work != 0) == (all->alone_us != 0))
			row->theirs = &theirs[i];
}

/* --------------------------------------------------------------------------------------- output */

static void print_head(const struct latency_bench *all)
{
	char where[64] = "the loopback device";

	if (all->has[LATENCY_FRAMES])
		snprintf(where, sizeof(where), "two network namespaces, veth, MTU %u", all->mtu);
	if (all->json) {
		printf("{\"bench\": \"latency\", \"pin\": \"%s\", \"where\": \"%s\", "
		       "\"times\": %u, \"trips\": %u, \"alone_us\": %.1f, \"rows\": [",
		       all->bench->report.pin, where, LATENCY_TIMES, all->trips, all->alone_us);
		return;
	}
	printf("CPUs %s; %s; %u x %u round trips, in us\n"
	       "min, average, max: of the %u averages; p50, p99: of all round trips;\n"
	       "to kernel, to interrupt: a program answers; kernel, interrupt: one at each end\n"
	       "theirs: blocking, two PCs of 166 MHz, Ethernet of 100 Mbit/s\n",
	       all->bench->report.pin, where, LATENCY_TIMES, all->trips, LATENCY_TIMES);
	if (all->alone_us != 0)
		printf("beside: CPU %u, which answers, multiplies matrices of 512 x 512, alone in "
		       "%.1f ms;\nwork: how many times as long that takes; per s: round trips\n",
		       all->bench->cpu[0], all->alone_us / 1e3);
	printf("%5s  %-13s  %-8s  %8s %8s %8s %8s %8s%s   %s\n", "bytes", "way", "wait", "min",
	       "average", "max", "p50", "p99", all->alone_us != 0 ? "   work   per s" : "",
	       all->alone_us != 0 ? "theirs: min average max, work, per s"
				  : "theirs: min average max");
}

static void print_row(const struct latency_bench *all, const struct row *row)
{
	printf("%5u  %-13s  %-8s  %8.2f %8.2f %8.2f %8.2f %8.2f", row->bytes, row->way->name,
	       waits[row->wait], row->min, row->average, row->max, row->p50, row->p99);
	if (all->alone_us != 0)
		printf(" %6.2f %7.0f", row->work, row->per_s);
	if (row->theirs != NULL)
		printf("   %.0f %.0f %.0f", row->theirs->min, row->theirs->average,
		       row->theirs->max);
	if (row->theirs != NULL && row->theirs->work != 0)
		printf(", %.2f, %.0f", row->theirs->work / THEIRS_ALONE, row->theirs->per_s);
	printf("\n");
}

static void print_row_json(const struct row *row, bool first)
{
	printf("%s\n{\"name\": \"%s\", \"transport\": ", first ? "" : ",", row->way->name);
	if (row->way->transport != NULL)
		printf("\"%s\"", row->way->transport);
	else
		printf("null");
	printf(", \"bytes\": %u, \"wait\": \"%s\", \"n\": %u, \"min\": %.3f, \"average\": %.3f, "
	       "\"max\": %.3f, \"shortest\": %.3f, \"p50\": %.3f, \"p99\": %.3f, "
	       "\"longest\": %.3f, \"work\": %.3f, \"per_s\": %.0f, \"theirs\": ",
	       row->bytes, waits[row->wait], row->trips, row->min, row->average, row->max,
	       row->shortest, row->p50, row->p99, row->longest, row->work, row->per_s);
	if (row->theirs != NULL)
		printf("{\"name\": \"%s\", \"min\": %.0f, \"average\": %.0f, \"max\": %.0f, "
		       "\"work\": %.3f, \"per_s\": %.0f}}",
		       row->theirs->theirs, row->theirs->min, row->theirs->average,
		       row->theirs->max, row->theirs->work / THEIRS_ALONE, row->theirs->per_s);
	else
		printf("null}");
}

/* ---------------------------------------------------------------------------------------- goals */

/* The p50 of a row; 0: it was not measured. */
static double goal_p50(const struct latency_bench *all, const char *way, unsigned bytes,
		       enum latency_wait wait)
{
	for (unsigned i = 0; i < all->rows; i++)
		if (strcmp(all->row[i].way->name, way) == 0 && all->row[i].bytes == bytes &&
		    all->row[i].wait == wait)
			return all->row[i].p50;
	return 0;
}

static void print_goal(const struct latency_bench *all, const char *name, double ratio,
		       double most, unsigned *count)
{
	if (*count == 0 && !all->json)
		printf("\ngoals, of p50: ratio, at most\n");
	if (all->json)
		printf("%s\n{\"name\": \"%s\", \"ratio\": %.3f, \"limit\": %.2f}",
		       *count > 0 ? "," : "", name, ratio, most);
	else
		printf("%-60s %5.2f %5.2f %s\n", name, ratio, most,
		       ratio <= most ? "met" : "missed");
	(*count)++;
}

/* Of what was measured. */
static void print_goals(const struct latency_bench *all)
{
	unsigned count = 0;
	char name[128];

	for (unsigned i = 0; i < sizeof(goals) / sizeof(goals[0]); i++) {
		const struct goal *goal = &goals[i];
		double it = goal_p50(all, goal->way, goal->bytes, LATENCY_SPINNING);
		double of = goal_p50(all, goal->of, goal->bytes, LATENCY_SPINNING);

		snprintf(name, sizeof(name), "%s by %s, %u bytes", goal->way, goal->of,
			 goal->bytes);
		if (it > 0 && of > 0)
			print_goal(all, name, it / of, goal->most, &count);
	}
	for (unsigned i = 0; i < all->rows; i++) {
		const struct row *row = &all->row[i];
		const char *way = row->way->name;
		double spinning = goal_p50(all, way, row->bytes, LATENCY_SPINNING);
		double blocking = goal_p50(all, way, row->bytes, LATENCY_BLOCKING);
		double better = spinning < blocking ? spinning : blocking;

		snprintf(name, sizeof(name), "%s, %u bytes: adaptive by the better", way,
			 row->bytes);
		if (row->wait == LATENCY_ADAPTIVE && row->way->spins && better > 0)
			print_goal(all, name, row->p50 / better, ADAPTIVE_MOST, &count);
	}
}

/* ----------------------------------------------------------------------------------------- rows */

/* A bare frame is as long as the cable takes; roam cuts messages. */
static bool row_possible(const struct latency_bench *all, const struct row *row)
{
	bool frames = row->way->frames != LATENCY_ANY && row->way->transport == NULL;

	return all->has[row->way->frames] &&
	       (!frames || (row->bytes <= all->mtu && row->bytes >= HEAD)) &&
	       row->way->inside == (row->wait == LATENCY_INSIDE);
}

static bool row_wanted(const struct latency_bench *all, const struct row *row)
{
	const char *only = all->bench->only;
	char name[80];

	snprintf(name, sizeof(name), "%s %u %s", row->way->name, row->bytes, waits[row->wait]);
	return (only == NULL || strstr(name, only) != NULL) && row_possible(all, row);
}

static void latency_row(struct latency_bench *all, struct row *row)
{
	if (!row_wanted(all, row))
		return;
	if (!row_run(all, row)) {
		all->failed++;
		return;
	}
	row_count(all, row);
	if (all->json)
		print_row_json(row, all->rows == 0);
	else
		print_row(all, row);
	fflush(stdout);
	if (all->rows < ROWS_MAX)
		all->row[all->rows++] = *row;
}

/* Learns which ways are possible here. */
static void latency_look(struct latency_bench *all, char *why, size_t bytes)
{
	all->has[LATENCY_ANY] = true;
	all->has[LATENCY_FRAMES] = latency_spaces_open(&all->spaces, all->mtu, why, bytes);
	if (!all->has[LATENCY_FRAMES]) {
		fprintf(stderr, "roam bench: rows of raw frames left out: %s\n", why);
		return;
	}
	all->has[LATENCY_XDP] =
		roami_transport_works(roami_transport_find("xdp"), NULL, why, bytes);
	if (!all->has[LATENCY_XDP])
		fprintf(stderr, "roam bench: rows of AF_XDP left out: %s\n", why);
	all->has[LATENCY_KERNEL] = latency_bpf_works(&all->spaces, false, why, bytes);
	if (!all->has[LATENCY_KERNEL])
		fprintf(stderr, "roam bench: rows of tc programs left out: %s\n", why);
	all->has[LATENCY_DRIVER] = latency_bpf_works(&all->spaces, true, why, bytes);
	if (!all->has[LATENCY_DRIVER])
		fprintf(stderr, "roam bench: rows of XDP programs left out: %s\n", why);
}

static bool latency_open(struct latency_bench *all, char *why, size_t bytes)
{
	all->shared = mmap(NULL, sizeof(*all->shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	all->row = calloc(ROWS_MAX, sizeof(*all->row));
	if (all->shared == MAP_FAILED || all->row == NULL ||
	    !bench_place_make(all->where, sizeof(all->where), "/tmp")) {
		fprintf(stderr, "roam bench: %s\n", strerror(errno));
		return false;
	}
	latency_look(all, why, bytes);
	return true;
}

/* How long the matrices take alone; by a process of its own, as they do beside a row. */
static bool latency_alone(struct latency_bench *all)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0) {
		all->shared->work_us[0] =
			latency_work_alone(all->bench->cpu[0], all->bench->ticks_per_us);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return false;
	all->alone_us = all->shared->work_us[0];
	return true;
}

/* Sizes: numbers between commas. */
static bool latency_sizes(struct latency_bench *all, const char *text)
{
	if (text == NULL) {
		memcpy(all->sizes, usual, sizeof(usual));
		all->size_count = sizeof(usual) / sizeof(usual[0]);
		return true;
	}
	for (const char *at = text;;) {
		char *end;
		unsigned long size = strtoul(at, &end, 10);

		if (end == at || size == 0 || size > LATENCY_BYTES_MAX ||
		    all->size_count == SIZES || (*end != ',' && *end != '\0'))
			break;
		all->sizes[all->size_count++] = (unsigned)size;
		if (*end == '\0')
			return true;
		at = end + 1;
	}
	fprintf(stderr, "roam bench: --sizes %s: at most %u numbers from 1 to %u\n", text, SIZES,
		LATENCY_BYTES_MAX);
	return false;
}

int bench_latency(const struct bench *bench, const struct bench_latency_options *options)
{
	struct latency_bench all = {.bench = bench,
				    .trips = options->trips,
				    .mtu = options->mtu,
				    .json = options->json};
	char why[160] = "";

	if (!latency_sizes(&all, options->sizes))
		return EXIT_FAILURE;
	if (!latency_open(&all, why, sizeof(why)) || (options->busy && !latency_alone(&all)))
		return EXIT_FAILURE;
	print_head(&all);
	for (unsigned size = 0; size < all.size_count; size++)
		for (const struct latency_way *way = latency_ways; way->name != NULL; way++)
			for (unsigned wait = 0; wait < LATENCY_WAITS; wait++) {
				struct row row = {.way = way,
						  .bytes = all.sizes[size],
						  .wait = (enum latency_wait)wait};

				latency_row(&all, &row);
			}
	if (all.json)
		printf("\n], \"goals\": [");
	if (all.alone_us == 0)
		print_goals(&all);
	if (all.json)
		printf("\n]}\n");
	free(all.row);
	latency_spaces_close(&all.spaces);
	files_remove(&all);
	rmdir(all.where);
	return all.rows > 0 && all.failed == 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
