/*
 * The common part of the programs in this directory: options, the life of a process, the times,
 * the last line.  Each does one computation in several models: elements of tuples, an X-function,
 * shared pages.
 *
 * -p P  processes        -m MODEL  one of the program's        -n N  the size, see the program
 */
#ifndef TUPLES_H
#define TUPLES_H

#include <roam/pastset.h>
#include <roam/roam.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODELS_MAX 5

struct model {
	const char *name; /* NULL: no more models */
	void (*begin)(
		void); /* enters its elements, fills them; NULL: it has none.  A barrier follows */
	void (*work)(void); /* what is measured */
};

struct program {
	const char *name;
	long size; /* if there is no -n */
	long size_min, size_max;
	long procs_min;
	void (*set_up)(void); /* before CREATE: memory, the input; the same in every process */
	bool (*right)(void);  /* whether work() computed here what one process computes */
	struct model models[MODELS_MAX + 1];
};

/* Set before set_up(), and only read afterwards. */
extern long size, procs;
/* This process, from CREATE on. */
extern long me;

/* The main() of such a program. */
int program_main(int argc, char **argv, const struct program *program);

/* Ends the program if there was an error. */
void must(enum roam_err err);
/* Private memory, zeroed; shared memory, zeroed. */
void *own(size_t bytes);
void *shared(size_t bytes);
/* Element i of a sequence of 64-bit noise: the input of most. */
uint64_t noise(uint64_t i);
/* The first of `count` things that belong to process `id`; the next one's first ends its part. */
long first_of(long count, long id);

/* ---- elements */

/* An element at process 0, which many processes use. */
struct roam_ps_element *element(const char *name, const char *text);
/* At a process. */
struct roam_ps_element *element_at(const char *name, const char *text, long process);
/* An element at process 0, with an X-function in which all processes participate. */
struct roam_ps_element *element_x(const char *name, const char *text, const char *function);
/* Tuples of one i64: appends one; takes the oldest; reads one by its number and leaves it. */
void put(struct roam_ps_element *element, int64_t value);
int64_t take(struct roam_ps_element *element);
int64_t look(struct roam_ps_element *element, uint64_t number);

#endif
