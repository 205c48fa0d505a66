/*
 * roam bench latency: tables 1 and 3 of "The Low-Latency Protocol" (Bjorndalen, Anshus, Larsen and
 * Vinter), with the ways of today: round trips of short messages between two processes, over bare
 * sockets and over roam's endpoints (roam/dp.h), blocking, spinning, and spinning before sleeping.
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

#define SIZES   3u
#define ROW_S   60u /* a row that takes longer is given up */
#define LOOK_US 10000u

static const unsigned sizes[SIZES] = {32, 1024, 4096};
static const char *const waits[LATENCY_WAITS] = {"blocking", "spinning", "adaptive",
						   "poll", "none"};

/* What the paper measured: of the averages of five times 1,500 round trips. */
static const struct theirs {
	const char *way; /* ours that is most like it */
	const char *theirs;
	unsigned bytes;
	double min, average, max;
} theirs[] = {
	{"tcp", "TCP/IP, userlevel", 32, 187, 188, 189},
	{"udp", "UDP/IP, userlevel", 32, 141, 141, 142},
	{"packet socket", "Packet socket, userlevel", 32, 114, 115, 115},
	{"roam/packet", "LLP userlevel", 32, 87, 88, 88},
	{"kernel", "LLP kernel level", 32, 67, 67, 67},
	{"interrupt", "LLP interrupt handler", 32, 54, 54, 54},
	{"tcp", "TCP/IP, userlevel", 1024, 384, 384, 385},
	{"udp", "UDP/IP, userlevel", 1024, 339, 339, 340},
	{"packet socket", "Packet socket, userlevel", 1024, 311, 311, 312},
	{"roam/packet", "LLP userlevel", 1024, 283, 284, 286},
	{"kernel", "LLP kernel level", 1024, 251, 252, 253},
	{"interrupt", "LLP interrupt handler", 1024, 215, 215, 215},
};

struct row {
	const struct latency_way *way;
	unsigned bytes;
	enum latency_wait wait;
	double min, average, max; /* of the averages of the runs */
	double shortest, p50, p99, longest; /* of all round trips */
	uint32_t trips;
	const struct theirs *theirs; /* NULL: none */
};

struct latency_bench {
	const struct bench *bench;
	struct latency_shared *shared;
	struct latency_spaces spaces;
	bool has[LATENCY_NEEDS]; /* what a way may need; LATENCY_FRAMES: there are namespaces */
	unsigned mtu, trips;
	char where[96];
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

static bool row_run(const struct latency_bench *all, const struct row *row)
{
	unsigned count = row->way->near ? 1 : 2;
	pid_t pids[2];

	memset(all->shared, 0, sizeof(*all->shared));
	files_remove(all);
	fflush(stdout);
	for (unsigned side = 0; side < count; side++) {
		pids[side] = fork();
		if (pids[side] == 0)
			side_main(all, row, side);
		if (pids[side] < 0) {
			if (side > 0) {
				kill(pids[0], SIGKILL);
				waitpid(pids[0], NULL, 0);
			}
			return false;
		}
	}
	if (sides_await(pids, count) && atomic_load(&all->shared->done) == LATENCY_TIMES)
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

		for (unsigned trip = 0; trip < all->trips; trip++) {
			float ticks = all->shared->ticks[time][trip] - (float)all->bench->overhead;

			every[row->trips++] = ticks;
			average += ticks / each / all->trips;
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
		if (strcmp(theirs[i].way, row->way->name) == 0 && theirs[i].bytes == row->bytes)
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
		       "\"times\": %u, \"trips\": %u, \"rows\": [",
		       all->bench->report.pin, where, LATENCY_TIMES, all->trips);
		return;
	}
	printf("CPUs %s; %s; %u x %u round trips, in us\n"
	       "min, average, max: of the %u averages; p50, p99: of all round trips;\n"
	       "to kernel, to interrupt: a program answers; kernel, interrupt: one at each end\n"
	       "theirs: blocking, two PCs of 166 MHz, Ethernet of 100 Mbit/s\n",
	       all->bench->report.pin, where, LATENCY_TIMES, all->trips, LATENCY_TIMES);
	printf("%5s  %-13s  %-8s  %8s %8s %8s %8s %8s   %s\n", "bytes", "way", "wait", "min",
	       "average", "max", "p50", "p99", "theirs: min average max");
}

static void print_row(const struct row *row)
{
	printf("%5u  %-13s  %-8s  %8.2f %8.2f %8.2f %8.2f %8.2f", row->bytes, row->way->name,
	       waits[row->wait], row->min, row->average, row->max, row->p50, row->p99);
	if (row->theirs != NULL)
		printf("   %.0f %.0f %.0f", row->theirs->min, row->theirs->average,
		       row->theirs->max);
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
	       "\"longest\": %.3f, \"theirs\": ",
	       row->bytes, waits[row->wait], row->trips, row->min, row->average, row->max,
	       row->shortest, row->p50, row->p99, row->longest);
	if (row->theirs != NULL)
		printf("{\"name\": \"%s\", \"min\": %.0f, \"average\": %.0f, \"max\": %.0f}}",
		       row->theirs->theirs, row->theirs->min, row->theirs->average,
		       row->theirs->max);
	else
		printf("null}");
}

/* ----------------------------------------------------------------------------------------- rows */

/* A bare frame is as long as the cable takes; roam cuts messages. */
static bool row_possible(const struct latency_bench *all, const struct row *row)
{
	bool frames = row->way->frames != LATENCY_ANY && row->way->transport == NULL;

	return all->has[row->way->frames] && (!frames || row->bytes <= all->mtu) &&
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
		print_row(row);
	fflush(stdout);
	all->rows++;
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
	if (all->shared == MAP_FAILED ||
	    !bench_place_make(all->where, sizeof(all->where), "/tmp")) {
		fprintf(stderr, "roam bench: %s\n", strerror(errno));
		return false;
	}
	latency_look(all, why, bytes);
	return true;
}

int bench_latency(const struct bench *bench, unsigned trips, unsigned mtu, bool json)
{
	struct latency_bench all = {.bench = bench, .trips = trips, .mtu = mtu, .json = json};
	char why[160] = "";

	if (!latency_open(&all, why, sizeof(why)))
		return EXIT_FAILURE;
	print_head(&all);
	for (unsigned size = 0; size < SIZES; size++)
		for (const struct latency_way *way = latency_ways; way->name != NULL; way++)
			for (unsigned wait = 0; wait < LATENCY_WAITS; wait++) {
				struct row row = {.way = way,
						  .bytes = sizes[size],
						  .wait = (enum latency_wait)wait};

				latency_row(&all, &row);
			}
	if (json)
		printf("\n]}\n");
	latency_spaces_close(&all.spaces);
	files_remove(&all);
	rmdir(all.where);
	return all.rows > 0 && all.failed == 0 && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
