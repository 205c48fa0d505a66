#include "report.h"

#include <stdio.h>
#include <stdlib.h>

static int float_order(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return x < y ? -1 : x > y;
}

struct report_median report_median(float *ticks, uint32_t count, double ticks_per_us)
{
	struct report_median median = {-1, -1, -1, -1, count};

	if (count == 0)
		return median;
	qsort(ticks, count, sizeof(*ticks), float_order);
	median.us = ticks[count / 2] / ticks_per_us;
	median.p10 = ticks[count / 10] / ticks_per_us;
	median.p99 = ticks[count - 1 - count / 100] / ticks_per_us;
	median.p90 = ticks[count - 1 - count / 10] / ticks_per_us;
	return median;
}

struct report_row *report_add(struct report *report, const char *name)
{
	struct report_row *row = &report->rows[report->count];

	if (report->count == REPORT_ROWS_MAX)
		return NULL;
	*row = (struct report_row){
		.name = name,
		.us = -1,
		.p10 = -1,
		.p90 = -1,
		.floor_us = -1,
		.limit_us = -1,
		.faults = -1,
		.messages = -1,
		.syscalls = -1,
	};
	report->count++;
	return row;
}

void report_fact(struct report *report, const char *name, const char *engine, double us,
		 const char *meaning)
{
	if (report->facts < sizeof(report->fact) / sizeof(report->fact[0]))
		report->fact[report->facts++] = (struct report_fact){name, engine, us, meaning};
}

/* ------------------------------------------------------------------------------------- table */

static void table_time(double us)
{
	if (us < 0)
		printf(" %9s", "-");
	else if (us < 10)
		printf(" %9.3f", us);
	else if (us < 10000)
		printf(" %9.1f", us);
	else
		printf(" %9.0f", us);
}

static void table_count(double count)
{
	if (count < 0)
		printf(" %6s", "-");
	else
		printf(" %6.2f", count);
}

void report_table_head(const struct report *report)
{
	printf("roam bench %s: processes pinned to CPUs %s, waiting by %s, times in us\n\n",
	       report->bench, report->pin, report->wait);
	if (report->facts > 0)
		printf("This machine:\n");
	for (unsigned i = 0; i < report->facts; i++)
		printf("  %-18s %-8s %9.3f  %s\n", report->fact[i].name,
		       report->fact[i].engine != NULL ? report->fact[i].engine : "",
		       report->fact[i].us, report->fact[i].meaning);
	printf("\n%-30s %-8s %9s %9s %9s %9s %6s %9s %-6s %6s %6s %6s %6s  %s\n", "row", "engine",
	       "median", "p10", "p90", "floor", "ratio", "limit", "met", "faults", "msgs", "calls",
	       "n", "floor; goal");
	fflush(stdout);
}

void report_table_rows(const struct report *report, unsigned from)
{
	static const char *const met[] = {"-", "yes", "NO"};

	for (unsigned i = from; i < report->count; i++) {
		const struct report_row *row = &report->rows[i];
		char name[64];

		snprintf(name, sizeof(name), "%s%s%s", row->name, row->variant != NULL ? " " : "",
			 row->variant != NULL ? row->variant : "");
		printf("%-30s %-8s", name, row->engine != NULL ? row->engine : "-");
		table_time(row->us);
		table_time(row->p10);
		table_time(row->p90);
		table_time(row->floor_us);
		if (row->us >= 0 && row->floor_us > 0)
			printf(" %6.2f", row->us / row->floor_us);
		else
			printf(" %6s", "-");
		table_time(row->limit_us);
		printf(" %-6s", met[row->met]);
		table_count(row->faults);
		table_count(row->messages);
		table_count(row->syscalls);
		printf(" %6u  %s%s%s\n", row->n, row->floor != NULL ? row->floor : "",
		       row->goal != NULL ? "; " : "", row->goal != NULL ? row->goal : "");
	}
	fflush(stdout);
}

void report_table_end(const struct report *report)
{
	unsigned met = 0, missed = 0;

	for (unsigned i = 0; i < report->count; i++) {
		met += report->rows[i].met == REPORT_MET;
		missed += report->rows[i].met == REPORT_MISSED;
	}
	printf("\n%u rows: %u met, %u missed, %u reported\n", report->count, met, missed,
	       report->count - met - missed);
}

/* -------------------------------------------------------------------------------------- JSON */

static void json_text(const char *key, const char *text)
{
	if (text == NULL) {
		printf("\"%s\":null", key);
		return;
	}
	printf("\"%s\":\"", key);
	for (; *text != '\0'; text++)
		if (*text == '"' || *text == '\\')
			printf("\\%c", *text);
		else if ((unsigned char)*text >= ' ')
			putchar(*text);
	putchar('"');
}

static void json_number(const char *key, double value)
{
	if (value < 0)
		printf(",\"%s\":null", key);
	else
		printf(",\"%s\":%.6g", key, value);
}

static void json_row(const struct report_row *row)
{
	static const char *const met[] = {"null", "true", "false"};

	printf("{");
	json_text("name", row->name);
	printf(",");
	json_text("protocol", row->protocol);
	printf(",");
	json_text("transport", row->transport);
	printf(",");
	json_text("engine", row->engine);
	if (row->variant != NULL) {
		printf(",");
		json_text("variant", row->variant);
	}
	json_number("us", row->us);
	json_number("p10", row->p10);
	json_number("p90", row->p90);
	json_number("floor_us", row->floor_us);
	json_number("ratio", row->us >= 0 && row->floor_us > 0 ? row->us / row->floor_us : -1);
	printf(",\"n\":%u,", row->n);
	json_text("floor", row->floor);
	printf(",");
	json_text("goal", row->goal);
	json_number("limit_us", row->limit_us);
	printf(",\"met\":%s", met[row->met]);
	json_number("faults", row->faults);
	json_number("messages", row->messages);
	json_number("syscalls", row->syscalls);
	printf("}");
}

void report_json(const struct report *report)
{
	printf("{");
	json_text("bench", report->bench);
	printf(",");
	json_text("pin", report->pin);
	printf(",");
	json_text("wait", report->wait);
	printf(",\"machine\":[");
	for (unsigned i = 0; i < report->facts; i++) {
		printf("%s{", i > 0 ? "," : "");
		json_text("name", report->fact[i].name);
		printf(",");
		json_text("engine", report->fact[i].engine);
		json_number("us", report->fact[i].us);
		printf("}");
	}
	printf("],\"rows\":[\n");
	for (unsigned i = 0; i < report->count; i++) {
		printf("%s", i > 0 ? ",\n" : "");
		json_row(&report->rows[i]);
	}
	printf("\n]%s%s}\n", report->paper != NULL ? ",\"paper\":" : "",
	       report->paper != NULL ? report->paper : "");
}
