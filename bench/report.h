/* Rows, medians, the table for people and the JSON for machines. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPORT_ROWS_MAX 1024

enum report_met { REPORT_ONLY, REPORT_MET, REPORT_MISSED };

/* A time is negative where there is none. */
struct report_row {
	const char *name;
	const char *protocol; /* NULL: the row has none of the next four */
	const char *transport;
	const char *engine;
	const char *variant;
	double us, p10, p90;
	uint32_t n;
	double floor_us;
	const char *floor; /* what the floor is made of */
	double limit_us;
	const char *goal;
	enum report_met met;
	double faults, messages, syscalls; /* per operation */
};

struct report_fact {
	const char *name;
	const char *engine;
	double us;
	const char *meaning;
};

struct report {
	const char *bench;
	const char *pin;
	const char *wait;
	unsigned count;
	unsigned facts;
	const char *paper; /* JSON of a paper's program here; NULL: it did not run */
	struct report_row rows[REPORT_ROWS_MAX];
	struct report_fact fact[32];
};

struct report_median {
	double us, p10, p90, p99;
	uint32_t n;
};

/* Sorts the samples. */
struct report_median report_median(float *ticks, uint32_t count, double ticks_per_us);

/* Adds a row with nothing but a name; NULL: there are too many. */
struct report_row *report_add(struct report *report, const char *name);
void report_fact(struct report *report, const char *name, const char *engine, double us,
		 const char *meaning);
void report_table_head(const struct report *report);
void report_table_rows(const struct report *report, unsigned from);
void report_table_end(const struct report *report);
void report_json(const struct report *report);

#endif
