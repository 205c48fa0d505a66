/*
 * roam bench NAME: measures roam against floors of the machine it runs on.  The tool `roam`
 * executes this program.
 */
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/node.h"
#include "base/transports.h"
#include "bench.h"
#include "fault/engine.h"

#define SAMPLES     8192u
#define TRIPS       1500u /* of latency, as in the paper */
#define MTU         "9000"
#define MTU_MIN     1280
#define SAMPLES_MIN 10
#define SAMPLES_MAX 65536
#define EXIT_USAGE  2
#define EXTENSIONS_MAX 7u /* of the library */

int roami_bench_main(int argc, char **argv);

enum roam_err __real_roami_node_open(struct roami_node **node_p,
				     const struct roami_node_params *params);
enum roam_err __wrap_roami_node_open(struct roami_node **node_p,
				     const struct roami_node_params *params);

static struct roami_node *last_node;

/*
 * The linker calls this function when a node is opened (--wrap).  Rows that call the core need
 * this: the library does not export its node, and their messages are one more extension.
 * release_1_msg needs it, too: its diffs go by message although memory is shared.
 */
enum roam_err __wrap_roami_node_open(struct roami_node **node_p,
				     const struct roami_node_params *params)
{
	const struct roami_room *extensions[EXTENSIONS_MAX + 2] = {NULL};
	struct roami_node_params far = *params;
	enum roam_err err;
	unsigned count = 0;

	for (; count < EXTENSIONS_MAX && params->extensions[count] != NULL; count++)
		extensions[count] = params->extensions[count];
	extensions[count] = &bench_calls;
	far.extensions = extensions;
	if (getenv("BENCH_MESSAGES") != NULL)
		far.near = 0;
	err = __real_roami_node_open(node_p, &far);
	last_node = *node_p;
	return err;
}

struct roami_node *bench_node(void)
{
	return last_node;
}

static const struct {
	const char *name;
	void (*run)(struct bench *bench);
	bool under_protocol;
	const char *meaning;
} benches[] = {
	{"fault", bench_fault, true, "page faults, fetches, writes, releases"},
	{"diff", bench_diff, false, "comparing pages, with every kind of instructions"},
	{"lock", bench_lock, true, "hand-over of locks, in jobs of 2 and 64 nodes"},
	{"barrier", bench_barrier, true, "barriers of 2, 4, 8 and 64 nodes"},
	{"tx", bench_tx, false, "transactions: reads, updates, the token, Test-TA on 1 to 8 nodes"},
	{"past", bench_past, true, "operations of PastSet, here and at another node"},
	{"rtt", bench_rtt, false, "round trips, calls and page fetches over udp"},
	{"stream", bench_stream, false, "pages sent one after the other over udp"},
	{"save", bench_save, true, "checkpoints saved and loaded, compared with plain files"},
	{"store", bench_store, false, "the page server, compared with plain files"},
	{"apps", bench_apps, true, "programs compared with the same sources on threads"},
	{"latency", NULL, false, "round trips of sockets and endpoints; all leaves it out"},
};

#define BENCHES (sizeof(benches) / sizeof(benches[0]))

static int usage(FILE *to)
{
	fprintf(to, "usage: roam bench NAME [--json] [--engine uffd|sigsegv] [-n SAMPLES]\n"
		    "                 [--transport NAME] [--protocol NAME]\n"
		    "                 [--only PART OF A ROW'S NAME] [--series FILE] [--paper]\n"
		    "                 [--mtu BYTES] [--sizes BYTES,...] [--busy]\n\n");
	for (size_t i = 0; i < BENCHES; i++)
		fprintf(to, "  %-8s %s\n", benches[i].name, benches[i].meaning);
	fprintf(to,
		"  %-8s all of them, in about half an hour, of which apps takes two thirds\n\n"
		"Every time is printed with its floor: what the kernel or a bare copy takes for\n"
		"the same work, measured in turn.  Times are in microseconds; msgs and calls:\n"
		"messages and system calls of the measured node for one operation.\n"
		"With --protocol, the rows of the default protocol are measured under that one\n"
		"instead, without its limits, and rows of other protocols are left out.\n"
		"--paper: with tx, the Test-TA of Wende and others (2002) on 1 to 8 nodes, with\n"
		"what they measured beside.\n"
		"latency: five times -n round trips (1500) of each row, between two network\n"
		"namespaces whose cable takes --mtu bytes (9000); for root, else over loopback.\n"
		"Its rows are named \"WAY BYTES WAIT\"; --sizes instead of 32,64,1024,4096.\n"
		"--busy: the processor that answers multiplies matrices beside it.\n"
		"--series FILE: each row's samples in their order, for bench/waits.py to plot.\n"
		"The programs of `apps` and --paper are found beside the build, or in\n"
		"ROAM_BENCH_APPS.\n",
		"all");
	return to == stdout ? 0 : EXIT_USAGE;
}

/* ------------------------------------------------------------------------------ setting up */

static double ticks_per_us(void)
{
	struct timespec start, now;
	uint64_t ticks = floor_begin();
	double us;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
		us = (double)(now.tv_sec - start.tv_sec) * 1e6 +
		     (double)(now.tv_nsec - start.tv_nsec) / 1e3;
	} while (us < 50000);
	return (double)(floor_end() - ticks) / us;
}

/* Restricts this process to the first two CPUs that it may use. */
static bool bench_cpus(struct bench *bench)
{
	static char pin[32];
	cpu_set_t allowed, two;
	unsigned count = 0;

	CPU_ZERO(&two);
	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return false;
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && count < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed)) {
			bench->cpu[count++] = cpu;
			CPU_SET(cpu, &two);
		}
	if (count < 2) {
		fprintf(stderr, "roam bench: needs 2 CPUs\n");
		return false;
	}
	snprintf(pin, sizeof(pin), "%u,%u", bench->cpu[0], bench->cpu[1]);
	bench->report.pin = pin;
	return sched_setaffinity(0, sizeof(two), &two) == 0;
}

bool bench_has_goal(const struct bench *bench, const char *protocol)
{
	return protocol != NULL || strcmp(bench->protocol, BENCH_PROTOCOL) == 0;
}

bool bench_has(const struct bench *bench, const char *protocol, const char *what, bool note)
{
	if (protocol == NULL)
		return true;
	if (bench->protocol_chosen && strcmp(protocol, bench->protocol) != 0)
		return false;
	if (roami_protocol_find(protocol) != NULL)
		return true;
	if (note)
		fprintf(stderr, "roam bench: %s left out: no protocol %s in this build\n", what,
			protocol);
	return false;
}

static bool engine_runs(const char *name)
{
	char why[160] = "";

	for (const struct roami_fault_engine *const *engine = roami_fault_engines; *engine != NULL;
	     engine++) {
		if (strcmp((*engine)->name, name) != 0)
			continue;
		if ((*engine)->probe(why, sizeof(why)))
			return true;
		fprintf(stderr, "roam bench: engine %s left out: %s\n", name, why);
	}
	return false;
}

static bool bench_engines(struct bench *bench, const char *wanted)
{
	static const char *const names[] = {"uffd", "sigsegv"};
	unsigned count = 0;

	for (unsigned i = 0; i < 2; i++)
		if ((wanted == NULL || strcmp(wanted, names[i]) == 0) && engine_runs(names[i]))
			bench->engines[count++] = names[i];
	if (count == 0 && wanted != NULL && strcmp(wanted, "uffd") != 0 &&
	    strcmp(wanted, "sigsegv") != 0)
		fprintf(stderr, "roam bench: no engine \"%s\": uffd, sigsegv\n", wanted);
	return count > 0;
}

static bool bench_protocol(struct bench *bench, const char *wanted)
{
	bench->protocol = wanted != NULL ? wanted : BENCH_PROTOCOL;
	bench->protocol_chosen = wanted != NULL;
	if (roami_protocol_find(bench->protocol) != NULL)
		return true;
	fprintf(stderr, "roam bench: no protocol \"%s\":", bench->protocol);
	for (size_t i = 0; roami_protocols[i] != NULL; i++)
		fprintf(stderr, " %s", roami_protocols[i]->name);
	fprintf(stderr, "\n");
	return false;
}

static bool bench_samples(struct bench *bench, const char *text)
{
	char *end;
	long samples = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || samples < SAMPLES_MIN || samples > SAMPLES_MAX) {
		fprintf(stderr, "roam bench: -n %s: not a number of samples, %d to %d\n", text,
			SAMPLES_MIN, SAMPLES_MAX);
		return false;
	}
	bench->samples = (unsigned)samples;
	return true;
}

/* The transport of `fault`; `rtt` and `stream` use udp, all others shm. */
static bool bench_transport(struct bench *bench, const char *text)
{
	const struct roam_transport *found = roami_transport_find(text);

	if (found == NULL) {
		fprintf(stderr, "roam bench: --transport %s: `roam info transports` lists them\n",
			text);
		return false;
	}
	bench->udp = (found->caps & ROAM_CAP_MAPPED) == 0;
	return true;
}

/* `protocol`: one was chosen. */
static bool bench_known(const char *name, bool protocol)
{
	for (size_t i = 0; i < BENCHES; i++) {
		if (strcmp(name, benches[i].name) != 0)
			continue;
		if (!protocol || benches[i].under_protocol)
			return true;
		fprintf(stderr, "roam bench: %s does not depend on --protocol\n", name);
		return false;
	}
	fprintf(stderr, "roam bench: no benchmark \"%s\":", name);
	for (size_t i = 0; i < BENCHES; i++)
		fprintf(stderr, " %s", benches[i].name);
	fprintf(stderr, " all\n");
	return false;
}

/* --------------------------------------------------------------------------------- running */

static void bench_run(struct bench *bench, const char *name, bool json)
{
	bench->progress = !json;
	bench->rounds = (bench->samples + RIG_ROUND - 1) / RIG_ROUND;
	bench->ticks_per_us = ticks_per_us();
	bench->overhead = floor_overhead();
	bench->report.bench = name;
	bench->report.wait = "spin";
	bench_machine(bench);
	if (!json)
		report_table_head(&bench->report);
	for (size_t i = 0; i < BENCHES; i++)
		if (benches[i].run != NULL &&
		    (strcmp(name, "all") == 0 || strcmp(name, benches[i].name) == 0))
			benches[i].run(bench);
	if (json)
		report_json(&bench->report);
	else
		report_table_end(&bench->report);
}

static int bench_latency_run(struct bench *bench, const char *mtu_text,
			     struct bench_latency_options *latency)
{
	long mtu = strtol(mtu_text, NULL, 10);

	if (mtu < MTU_MIN || mtu > 65535) {
		fprintf(stderr, "roam bench: --mtu %s: not a number from %d to 65535\n", mtu_text,
			MTU_MIN);
		return EXIT_USAGE;
	}
	if (!bench_cpus(bench))
		return EXIT_FAILURE;
	bench->ticks_per_us = ticks_per_us();
	bench->overhead = floor_overhead();
	latency->trips = bench->samples != 0 ? bench->samples : TRIPS;
	latency->mtu = (unsigned)mtu;
	return bench_latency(bench, latency);
}

int roami_bench_main(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{"engine", required_argument, NULL, 'e'},
						{"only", required_argument, NULL, 'o'},
						{"series", required_argument, NULL, 's'},
						{"transport", required_argument, NULL, 't'},
						{"protocol", required_argument, NULL, 'p'},
						{"paper", no_argument, NULL, 'P'},
						{"mtu", required_argument, NULL, 'm'},
						{"sizes", required_argument, NULL, 'z'},
						{"busy", no_argument, NULL, 'b'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	static struct bench bench; /* large */
	struct bench_latency_options latency = {.sizes = NULL};
	const char *engine = NULL, *protocol = NULL, *series = NULL, *mtu = MTU, *name;
	bool json = false;
	int option;

	while ((option = getopt_long(argc, argv, "n:jh", options, NULL)) != -1) {
		if (option == 'j')
			json = true;
		else if (option == 'e')
			engine = optarg;
		else if (option == 'o')
			bench.only = optarg;
		else if (option == 'p')
			protocol = optarg;
		else if (option == 'P')
			bench.paper = true;
		else if (option == 'm')
			mtu = optarg;
		else if (option == 'z')
			latency.sizes = optarg;
		else if (option == 'b')
			latency.busy = true;
		else if (option == 's')
			series = optarg;
		else if (option == 'n' && bench_samples(&bench, optarg))
			continue;
		else if (option == 't' && bench_transport(&bench, optarg))
			continue;
		else if (option == 'h')
			return usage(stdout);
		else
			return EXIT_USAGE;
	}
	if (optind != argc - 1)
		return usage(stderr);
	name = argv[optind];
	if (strcmp(name, "help") == 0)
		return usage(stdout);
	if (strcmp(name, "all") != 0 && !bench_known(name, protocol != NULL))
		return EXIT_USAGE;
	if (bench.paper && strcmp(name, "tx") != 0) {
		fprintf(stderr, "roam bench: --paper is an option of tx\n");
		return EXIT_USAGE;
	}
	latency.json = json;
	if (strcmp(name, "latency") == 0)
		return bench_latency_run(&bench, mtu, &latency);
	if (bench.samples == 0)
		bench.samples = SAMPLES;
	if (!bench_protocol(&bench, protocol))
		return EXIT_USAGE;
	if (!bench_engines(&bench, engine) || !bench_cpus(&bench))
		return EXIT_FAILURE;
	if (series != NULL && (bench.series = fopen(series, "we")) == NULL) {
		fprintf(stderr, "roam bench: cannot write %s: %s\n", series, strerror(errno));
		return EXIT_FAILURE;
	}
	bench_run(&bench, name, json);
	if (bench.series != NULL && fclose(bench.series) != 0)
		return EXIT_FAILURE;
	return bench.report.count > 0 && fflush(stdout) == 0 ? 0 : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	return roami_bench_main(argc, argv);
}
