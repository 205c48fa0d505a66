#include "tuples.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROCS_MAX 64

long size, procs = 1, me;

static const struct program *program;
static const struct model *model;
/* The result of the run; the same in every process. */
static struct {
	int64_t us; /* of the process that worked longest, because some begin later than others */
	int64_t wrong;
} outcome;

/* ----------------------------------------------------------------------------- for the programs */

void must(enum roam_err err)
{
	if (err == ROAM_OK)
		return;
	fprintf(stderr, "%s: process %ld: %s\n", program->name, me, roam_strerror(err));
	exit(1);
}

void *own(size_t bytes)
{
	void *block = calloc(1, bytes);

	if (block == NULL)
		must(ROAM_ENOMEM);
	return block;
}

void *shared(size_t bytes)
{
	void *block = roam_alloc(bytes);

	if (block == NULL)
		must(roam_errno());
	return block;
}

uint64_t noise(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

long first_of(long count, long id)
{
	return count * id / procs;
}

static struct roam_ps_element *element_enter(const char *name, const char *text, long process,
					     const char *function)
{
	const struct roam_ps_options options = {.place = ROAM_PS_NODE,
						.node = (unsigned)process,
						.forget = true,
						.function = function,
						.participants = (unsigned)procs};
	struct roam_ps_element *entered;

	if (roam_ps_enter(name, text, &options, &entered) == ROAM_OK)
		return entered;
	fprintf(stderr, "%s: %s: %s\n", program->name, name, roam_ps_why());
	exit(1);
}

struct roam_ps_element *element(const char *name, const char *text)
{
	return element_enter(name, text, 0, NULL);
}

struct roam_ps_element *element_at(const char *name, const char *text, long process)
{
	return element_enter(name, text, process, NULL);
}

struct roam_ps_element *element_x(const char *name, const char *text, const char *function)
{
	return element_enter(name, text, 0, function);
}

void put(struct roam_ps_element *element, int64_t value)
{
	must(roam_ps_move(element, &value, sizeof(value)));
}

int64_t take(struct roam_ps_element *element)
{
	int64_t value;

	must(roam_ps_observe(element, &value, sizeof(value), NULL));
	return value;
}

int64_t look(struct roam_ps_element *element, uint64_t number)
{
	int64_t value;
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .which = ROAM_PS_NUMBER,
					  .flags = ROAM_PS_PEEK,
					  .number = number,
					  .buffer = &value,
					  .limit = sizeof(value)};

	must(roam_ps_call(element, &request));
	return value;
}

/* ----------------------------------------------------------------------------- a process's life */

static void run(void)
{
	int64_t begin_us;

	me = roam_node();
	if (model->begin != NULL)
		model->begin();
	must(roam_barrier_all());
	begin_us = (int64_t)roam_clock_us();
	model->work();
	must(roam_barrier_all());
	outcome.us = (int64_t)roam_clock_us() - begin_us;
	outcome.wrong = !program->right();
	must(roam_reduce(&outcome.us, 2, ROAM_INT64, ROAM_MAX));
}

__attribute__((noreturn)) static void usage(const char *why)
{
	fprintf(stderr,
		"%s: %s\nusage: %s [-p processes] [-n size] -m model\nmodels:", program->name, why,
		program->name);
	for (const struct model *known = program->models; known->name != NULL; known++)
		fprintf(stderr, " %s", known->name);
	fprintf(stderr, "\n");
	exit(2);
}

static long number_of_text(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (end == text || *end != '\0')
		usage("not a number");
	return number;
}

static const struct model *model_of_text(const char *text)
{
	for (const struct model *known = program->models; known->name != NULL; known++)
		if (strcmp(known->name, text) == 0)
			return known;
	usage("no such model");
}

static void read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "p:m:n:")) != -1) {
		if (option == 'p')
			procs = number_of_text(optarg);
		else if (option == 'n')
			size = number_of_text(optarg);
		else if (option == 'm')
			model = model_of_text(optarg);
		else
			usage("unknown option");
	}
	if (optind != argc)
		usage("no arguments but options");
	if (model == NULL)
		usage("which model? -m");
	if (procs < program->procs_min || procs > PROCS_MAX)
		usage("not a number of processes for this program");
	if (size < program->size_min || size > program->size_max)
		usage("not a size for this program");
}

int program_main(int argc, char **argv, const struct program *the_program)
{
	uint64_t total_us, start_us;

	program = the_program;
	size = program->size;
	procs = program->procs_min;
	read_options(argc, argv);
	if (roam_start_main() != ROAM_OK)
		return 1; /* roam has reported why */
	program->set_up();
	start_us = roam_clock_us();
	must(roam_create_all(run, (unsigned)procs));
	must(roam_wait_for_end());
	total_us = roam_clock_us() - start_us;
	printf("%s: model %s n %ld p %ld total_us %" PRIu64 " region_us %" PRId64 " verified %s\n",
	       program->name, model->name, size, procs, total_us, outcome.us,
	       outcome.wrong ? "FAILED" : "ok");
	return outcome.wrong ? 1 : 0;
}
