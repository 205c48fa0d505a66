/*
 * The Test-TA of Wende, Schoettner, Goeckelmann, Bindhammer and Schulthess, Performance Evaluation
 * of a Transactional DSM System (2002), section 4: every 10 ms each node reads and writes 501
 * elements of an array of 10,000 longs, from a random one on, with wrap-around; a measuring
 * transaction of each node publishes every 2 s what it has counted.  Nodes come one after another,
 * the others idle, as in figures 4 to 6.
 *
 * -p NODES  -a ELEMENTS  -e SPAN  -i MILLISECONDS  -s SECONDS of each number of nodes
 * -w FACTOR: node 0 computes so many times as long in each transaction   -j: JSON
 * --paper: its figures beside
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <roam/tx.h>

#define NODES_MAX 64
#define WORK_US   100 /* of a slowed node, per factor */

struct figures {
	double seconds;
	uint64_t added; /* to elements; of the whole run */
	uint64_t commits, aborts;
	uint64_t faults, page_ns, tokens, token_ns;
};

static long nodes = 2, elements = 10000, span = 501, every_ms = 10, phase_s = 2, slowed = 1;
static bool json, paper;
static volatile long *array;
static struct figures *table; /* of each phase and node */

static struct figures *entry(long phase, long node)
{
	return &table[phase * nodes + node];
}

static void must(enum roam_err err)
{
	if (err == ROAM_OK)
		return;
	fprintf(stderr, "plurix-test: node %u: %s\n", roam_node(), roam_strerror(err));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec when = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
		;
}

static void test_ta(void *arg)
{
	long at = *(const long *)arg;

	for (long i = 0; i < span; i++, at = at + 1 < elements ? at + 1 : 0)
		array[at] = array[at] + 1;
	if (slowed > 1 && roam_node() == 0)
		for (uint64_t end = now_ns() + (uint64_t)slowed * WORK_US * 1000; now_ns() < end;)
			;
}

static struct figures counted(void)
{
	return (struct figures){
		.commits = roam_counter("tx_commits"),
		.aborts = roam_counter("tx_aborts"),
		.faults = roam_counter("read_faults") + roam_counter("write_faults"),
		.page_ns = roam_counter("time_page"),
		.tokens = roam_counter("tx_token_waits"),
		.token_ns = roam_counter("time_token"),
	};
}

struct measure {
	struct figures *to, figures;
};

static void publish(void *arg)
{
	const struct measure *measure = arg;

	*measure->to = measure->figures;
}

/* The measuring transaction. */
static void measures(long phase, const struct figures *before, uint64_t start, uint64_t added)
{
	struct measure measure = {entry(phase, (long)roam_node()), counted()};
	struct figures *figures = &measure.figures;

	figures->seconds = (double)(now_ns() - start) / 1e9;
	figures->added = added;
	figures->commits -= before->commits;
	figures->aborts -= before->aborts;
	figures->faults -= before->faults;
	figures->page_ns -= before->page_ns;
	figures->tokens -= before->tokens;
	figures->token_ns -= before->token_ns;
	must(roam_tx(publish, &measure, NULL));
}

static uint64_t phase_run(long phase, uint64_t *random)
{
	uint64_t start = now_ns(), next = start, end = start + (uint64_t)phase_s * 1000000000;
	const struct figures before = counted();
	uint64_t added = 0;

	while (next < end) {
		long first;

		*random = *random * 6364136223846793005u + 1442695040888963407u;
		first = (long)((*random >> 33) % (uint64_t)elements);
		must(roam_tx(test_ta, &first, NULL));
		added += (uint64_t)span;
		next += (uint64_t)every_ms * 1000000;
		sleep_until(next); /* at once, if the transaction took longer */
		if (every_ms == 0)
			next = now_ns();
	}
	measures(phase, &before, start, added);
	return added;
}

static void work(void)
{
	uint64_t random = roam_node() + 1;

	for (long phase = 0; phase < nodes; phase++) {
		must(roam_barrier_all());
		if ((long)roam_node() <= phase)
			phase_run(phase, &random);
	}
	must(roam_barrier_all());
}

/* --------------------------------------------------------------------------------------- output */

/* Every element was incremented as often as all transactions say. */
static bool right(void)
{
	uint64_t sum = 0, added = 0;

	for (long i = 0; i < elements; i++)
		sum += (uint64_t)array[i];
	for (long phase = 0; phase < nodes; phase++)
		for (long node = 0; node <= phase; node++)
			added += entry(phase, node)->added;
	return sum == added;
}

static double rate(uint64_t count, double seconds)
{
	return seconds > 0 ? (double)count / seconds : 0;
}

static double mean_us(uint64_t ns, uint64_t count)
{
	return count > 0 ? (double)ns / 1e3 / (double)count : 0;
}

static struct figures phase_sum(long phase)
{
	struct figures sum = {.seconds = entry(phase, 0)->seconds};

	for (long node = 0; node <= phase; node++) {
		const struct figures *one = entry(phase, node);

		sum.commits += one->commits;
		sum.aborts += one->aborts;
		sum.faults += one->faults;
		sum.page_ns += one->page_ns;
		sum.tokens += one->tokens;
		sum.token_ns += one->token_ns;
	}
	return sum;
}

static void print_json_one(const struct figures *one)
{
	printf("\"commits_per_s\":%.1f,\"aborts_per_s\":%.1f,\"page_us\":%.2f,\"token_us\":%.2f",
	       rate(one->commits, one->seconds), rate(one->aborts, one->seconds),
	       mean_us(one->page_ns, one->faults), mean_us(one->token_ns, one->tokens));
}

static void print_json(bool good)
{
	printf("{\"program\":\"test_ta\",\"elements\":%ld,\"span\":%ld,\"every_ms\":%ld,"
	       "\"seconds\":%ld,\"slowed\":%ld,\"reads\":\"resident\",\"verified\":%s,\"runs\":[",
	       elements, span, every_ms, phase_s, slowed, good ? "true" : "false");
	for (long phase = 0; phase < nodes; phase++) {
		struct figures sum = phase_sum(phase);

		printf("%s\n{\"nodes\":%ld,", phase > 0 ? "," : "", phase + 1);
		print_json_one(&sum);
		printf(",\"each\":[");
		for (long node = 0; node <= phase; node++) {
			printf("%s{", node > 0 ? "," : "");
			print_json_one(entry(phase, node));
			printf("}");
		}
		printf("]}");
	}
	printf("]}\n");
}

/* What the text of the paper says of its figures. */
static const char *paper_says(long count)
{
	switch (count) {
	case 1:
		return "100 commits, 0 aborts";
	case 2:
		return "150 commits, few aborts";
	case 8:
		return "first 73 commits, 14 aborts; last 3, 54";
	default:
		return "";
	}
}

static void print_row(long phase)
{
	const struct figures *first = entry(phase, 0), *last = entry(phase, phase);
	struct figures sum = phase_sum(phase);

	printf("%5ld %9.1f %8.1f %9.1f %8.1f %9.1f %8.1f %8.1f %8.1f", phase + 1,
	       rate(sum.commits, sum.seconds), rate(sum.aborts, sum.seconds),
	       rate(first->commits, first->seconds), rate(first->aborts, first->seconds),
	       rate(last->commits, last->seconds), rate(last->aborts, last->seconds),
	       mean_us(sum.page_ns, sum.faults), mean_us(sum.token_ns, sum.tokens));
	if (paper)
		printf("  %s", paper_says(phase + 1));
	printf("\n");
}

static void print_table(bool good)
{
	printf("Test-TA: %ld elements, %ld of them every %ld ms; per second, and mean us\n",
	       elements, span, every_ms);
	printf("%5s %9s %8s %9s %8s %9s %8s %8s %8s%s\n", "nodes", "commits", "aborts", "first's",
	       "aborts", "last's", "aborts", "page us", "token us",
	       paper ? "  paper (figures 4 and 5)" : "");
	for (long phase = 0; phase < nodes; phase++)
		print_row(phase);
	if (paper)
		printf("paper, figure 6: a page fault 450 to 800 us, a token longer than a page\n");
	printf("verified %s\n", good ? "ok" : "FAILED");
}

/* -------------------------------------------------------------------------------------- options */

__attribute__((noreturn)) static void usage(const char *why)
{
	fprintf(stderr,
		"plurix-test: %s\nusage: plurix-test [-p nodes] [-a elements] [-e span] [-i ms] "
		"[-s seconds] [-w factor] [-j | --paper]\n",
		why);
	exit(2);
}

static long number(const char *text, long min, long max)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (end == text || *end != '\0' || value < min || value > max)
		usage("not a number that it takes");
	return value;
}

static void read_options(int argc, char **argv)
{
	static const struct option options[] = {{"paper", no_argument, NULL, 'P'},
						{"json", no_argument, NULL, 'j'},
						{NULL, 0, NULL, 0}};
	int option;

	while ((option = getopt_long(argc, argv, "p:a:e:i:s:w:j", options, NULL)) != -1) {
		if (option == 'p')
			nodes = number(optarg, 1, NODES_MAX);
		else if (option == 'a')
			elements = number(optarg, 1, 100000000);
		else if (option == 'e')
			span = number(optarg, 1, 100000000);
		else if (option == 'i')
			every_ms = number(optarg, 0, 60000);
		else if (option == 's')
			phase_s = number(optarg, 1, 3600);
		else if (option == 'w')
			slowed = number(optarg, 1, 1000);
		else if (option == 'j')
			json = true;
		else if (option == 'P')
			paper = true;
		else
			usage("unknown option");
	}
	if (optind != argc)
		usage("no arguments but options");
}

int main(int argc, char **argv)
{
	bool good;

	read_options(argc, argv);
	if (roam_start_main() != ROAM_OK)
		return 1; /* roam has reported why */
	array = roam_alloc((size_t)elements * sizeof(*array));
	table = roam_alloc((size_t)(nodes * nodes) * sizeof(*table));
	if (array == NULL || table == NULL)
		must(roam_errno());
	must(roam_create_all(work, (unsigned)nodes));
	must(roam_wait_for_end());
	good = right();
	if (json)
		print_json(good);
	else
		print_table(good);
	return good ? 0 : 1;
}
