/*
 * The report of counters and times, as a table and as JSON.
 */
#include "stats/stats.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

#define GROUP  8 /* nodes side by side */
#define LABEL  18
#define COLUMN 12

const struct roami_stats_line roami_stats_lines[ROAMI_STATS_COUNT] = {
#define COUNTER(name, meaning) {#name, meaning, false},
#define TIME(name, meaning)
#include "stats/counters.def"
#undef TIME
#undef COUNTER
#define COUNTER(name, meaning)
#define TIME(name, meaning) {#name, meaning, true},
#include "stats/counters.def"
#undef TIME
#undef COUNTER
};

/* ------------------------------------------------------------------------------------ measuring */

__thread unsigned roami_stats_bank;

/* A bit for each bank that a thread has for its own. */
static _Atomic uint32_t *stats_given(void)
{
	static _Atomic uint32_t given;

	return &given;
}

void roami_stats_bank_take(void)
{
	for (unsigned bank = 0; bank < ROAMI_STATS_BANKS - 1 && roami_stats_bank == 0; bank++)
		if ((atomic_fetch_or(stats_given(), 1u << bank) >> bank & 1) == 0)
			roami_stats_bank = bank + 1;
}

void roami_stats_bank_give(void)
{
	unsigned bank = roami_stats_bank;

	roami_stats_bank = 0;
	if (bank != 0)
		atomic_fetch_and(stats_given(), ~(1u << (bank - 1)));
}

uint64_t roami_stats_sum(const struct roami_stats *stats, unsigned stat)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < ROAMI_STATS_BANKS; i++)
		sum += atomic_load_explicit(&stats->banks[i].values[stat], memory_order_relaxed);
	return sum - atomic_load_explicit(&stats->before.values[stat], memory_order_relaxed);
}

uint64_t roami_stats_sum_type(const struct roami_stats *stats, unsigned type)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < ROAMI_STATS_BANKS; i++)
		sum += atomic_load_explicit(&stats->banks[i].types[type], memory_order_relaxed);
	return sum - atomic_load_explicit(&stats->before.types[type], memory_order_relaxed);
}

void roami_stats_begin(struct roami_stats *stats)
{
	memset(stats->banks, 0, sizeof(stats->banks));
	memset(&stats->before, 0, sizeof(stats->before));
	atomic_store(&stats->wall_ns, 0);
	atomic_store(&stats->wall_cycles, 0);
	atomic_store(&stats->peak_kb, 0);
	atomic_store(&stats->start_cycles, roami_os_cycles());
	atomic_store(&stats->start_ns, roami_os_now_ns());
}

void roami_stats_begin_here(struct roami_stats *stats)
{
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		if (i != ROAMI_STAT_races && i != ROAMI_STAT_races_alike) /* of the whole job */
			atomic_fetch_add(&stats->before.values[i], roami_stats_sum(stats, i));
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		atomic_fetch_add(&stats->before.types[i], roami_stats_sum_type(stats, i));
	atomic_store(&stats->start_cycles, roami_os_cycles());
	atomic_store(&stats->start_ns, roami_os_now_ns());
}

void roami_stats_end(struct roami_stats *stats)
{
	atomic_store(&stats->wall_cycles, roami_os_cycles() - atomic_load(&stats->start_cycles));
	atomic_store(&stats->peak_kb, roami_os_rss_peak_kb());
	atomic_store(&stats->wall_ns, roami_os_now_ns() - atomic_load(&stats->start_ns));
}

/* Nanoseconds since the node began; of a node that still runs, or died, until now. */
static uint64_t stats_wall_ns(const struct roami_stats *stats)
{
	uint64_t wall = atomic_load(&stats->wall_ns), start = atomic_load(&stats->start_ns);

	return wall != 0 || start == 0 ? wall : roami_os_now_ns() - start;
}

static double stats_cycles_per_ns(const struct roami_stats *stats)
{
	uint64_t wall = atomic_load(&stats->wall_ns), start = atomic_load(&stats->start_ns);
	uint64_t cycles = atomic_load(&stats->wall_cycles);

	if (wall == 0 && start != 0) {
		wall = roami_os_now_ns() - start;
		cycles = roami_os_cycles() - atomic_load(&stats->start_cycles);
	}
	return wall == 0 || cycles == 0 ? 1.0 : (double)cycles / (double)wall;
}

/* The value of a line: a count, or nanoseconds. */
static uint64_t stats_value(const struct roami_stats *stats, unsigned line)
{
	uint64_t value = roami_stats_sum(stats, line);

	if (!roami_stats_lines[line].time)
		return value;
	return (uint64_t)((double)value / stats_cycles_per_ns(stats));
}

/*
 * Wall time less what is accounted for; 0 if several threads waited at once for longer than that.
 */
static uint64_t stats_compute_ns(const struct roami_stats *stats)
{
	uint64_t wall = stats_wall_ns(stats), rest = 0;

	rest += stats_value(stats, ROAMI_STAT_TIME_page);
	rest += stats_value(stats, ROAMI_STAT_TIME_lock);
	rest += stats_value(stats, ROAMI_STAT_TIME_barrier);
	rest += stats_value(stats, ROAMI_STAT_TIME_overhead);
	return rest < wall ? wall - rest : 0;
}

uint64_t roami_stats_find(const struct roami_stats *stats, const char *name)
{
	bool time = strncmp(name, "time_", 5) == 0;

	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		if (roami_stats_lines[i].time == time &&
		    strcmp(roami_stats_lines[i].name, name + (time ? 5 : 0)) == 0)
			return stats_value(stats, i);
	return 0;
}

/* --------------------------------------------------------------------------------------- output */

/* Buffered text to a descriptor. */
struct stats_out {
	int fd;
	bool failed;
	unsigned rows; /* since the last head, for JSON's commas */
	size_t used;
	char text[4096];
};

static void out_flush(struct stats_out *out)
{
	size_t done = 0;

	while (done < out->used && !out->failed) {
		ssize_t wrote = write(out->fd, out->text + done, out->used - done);

		out->failed = wrote <= 0;
		done += wrote > 0 ? (size_t)wrote : 0;
	}
	out->used = 0;
}

__attribute__((format(printf, 2, 3))) static void out_add(struct stats_out *out, const char *format,
							  ...)
{
	va_list args;
	int length;

	if (sizeof(out->text) - out->used < 512)
		out_flush(out);
	va_start(args, format);
	length = vsnprintf(out->text + out->used, sizeof(out->text) - out->used, format, args);
	va_end(args);
	if (length > 0 && (size_t)length < sizeof(out->text) - out->used)
		out->used += (size_t)length;
}

/* One row of a report: the value of a node. */
typedef uint64_t stats_row_fn(const struct roami_stats *stats, unsigned index);

static uint64_t row_type(const struct roami_stats *stats, unsigned index)
{
	return roami_stats_sum_type(stats, index);
}

static uint64_t row_wall(const struct roami_stats *stats, unsigned index)
{
	(void)index;
	return stats_wall_ns(stats);
}

static uint64_t row_compute(const struct roami_stats *stats, unsigned index)
{
	(void)index;
	return stats_compute_ns(stats);
}

static uint64_t row_peak(const struct roami_stats *stats, unsigned index)
{
	(void)index;
	return atomic_load_explicit(&stats->peak_kb, memory_order_relaxed);
}

/* How a row is written: the table or JSON. */
struct stats_style {
	void (*row)(struct stats_out *out, const struct roami_stats_report *report,
		    const char *name, stats_row_fn *value, unsigned index, bool time);
	void (*head)(struct stats_out *out, const struct roami_stats_report *report,
		     const char *name);
};

/* Whether any message was counted by type. */
static bool stats_typed(const struct roami_stats_report *report)
{
	uint64_t total = 0;

	for (unsigned i = 0; report->types != NULL && i < ROAMI_STATS_TYPES_MAX; i++)
		for (unsigned node = 0; report->types[i] != NULL && node < report->nodes; node++)
			total += row_type(report->stats[node], i);
	return total > 0;
}

static void stats_rows(struct stats_out *out, const struct roami_stats_report *report,
		       const struct stats_style *style)
{
	style->head(out, report, "time_ms");
	style->row(out, report, "wall", row_wall, 0, true);
	style->row(out, report, "compute", row_compute, 0, true);
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		if (roami_stats_lines[i].time)
			style->row(out, report, roami_stats_lines[i].name, stats_value, i, true);
	style->head(out, report, "counters");
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		if (!roami_stats_lines[i].time)
			style->row(out, report, roami_stats_lines[i].name, stats_value, i, false);
	style->row(out, report, "peak_memory_kb", row_peak, 0, false);
	if (!stats_typed(report))
		return;
	style->head(out, report, "messages");
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		if (report->types[i] != NULL)
			style->row(out, report, report->types[i], row_type, i, false);
}

/* ---------------------------------------------------------------------------------------- table */

static void table_value(struct stats_out *out, uint64_t value, bool time)
{
	if (time)
		out_add(out, " %*.3f", COLUMN, (double)value / 1e6);
	else
		out_add(out, " %*llu", COLUMN, (unsigned long long)value);
}

static void table_row(struct stats_out *out, const struct roami_stats_report *report,
		      const char *name, stats_row_fn *value, unsigned index, bool time)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < report->nodes; i++)
		total += value(report->stats[i], index);
	if (total == 0)
		return;
	out_add(out, "  %-*.40s", LABEL, name);
	for (unsigned i = 0; i < report->nodes; i++) {
		if (i > 0 && i % GROUP == 0)
			out_add(out, "\n  %-*s", LABEL, "");
		table_value(out, value(report->stats[i], index), time);
	}
	if (report->nodes > 1)
		table_value(out, total, time);
	out_add(out, "\n");
}

static void table_head(struct stats_out *out, const struct roami_stats_report *report,
		       const char *name)
{
	out_add(out, "%-*s", LABEL + 2, strcmp(name, "time_ms") == 0 ? "time, ms" : name);
	for (unsigned i = 0; i < report->nodes; i++) {
		if (i > 0 && i % GROUP == 0)
			out_add(out, "\n%-*s", LABEL + 2, "");
		out_add(out, " %*s %-2u", COLUMN - 3, "node", report->first + i);
	}
	if (report->nodes > 1)
		out_add(out, " %*s", COLUMN, "all");
	out_add(out, "\n");
}

void roami_stats_print(int fd, const struct roami_stats_report *report)
{
	static const struct stats_style table = {table_row, table_head};
	struct stats_out out = {.fd = fd};

	out_add(&out, "roam: %u node%s", report->nodes, report->nodes == 1 ? "" : "s");
	if (report->protocol != NULL)
		out_add(&out, ", %.40s", report->protocol);
	if (report->transport != NULL)
		out_add(&out, " over %.40s", report->transport);
	if (report->engine != NULL)
		out_add(&out, ", faults by %.40s", report->engine);
	out_add(&out, "\n");
	stats_rows(&out, report, &table);
	out_flush(&out);
}

/* ----------------------------------------------------------------------------------------- JSON */

static void json_row(struct stats_out *out, const struct roami_stats_report *report,
		     const char *name, stats_row_fn *value, unsigned index, bool time)
{
	out_add(out, "%s\n  \"%.60s\": [", out->rows++ > 0 ? "," : "", name);
	for (unsigned i = 0; i < report->nodes; i++) {
		uint64_t number = value(report->stats[i], index);

		if (time)
			out_add(out, "%s%.6f", i > 0 ? ", " : "", (double)number / 1e6);
		else
			out_add(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)number);
	}
	out_add(out, "]");
}

static void json_head(struct stats_out *out, const struct roami_stats_report *report,
		      const char *name)
{
	(void)report;
	if (strcmp(name, "time_ms") != 0)
		out_add(out, "}");
	out_add(out, ",\n \"%s\": {", name);
	out->rows = 0;
}

static void json_name(struct stats_out *out, const char *key, const char *name)
{
	if (name != NULL)
		out_add(out, ",\n \"%s\": \"%.60s\"", key, name);
}

bool roami_stats_json(const char *path, const struct roami_stats_report *report)
{
	static const struct stats_style json = {json_row, json_head};
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	struct stats_out out = {.fd = roami_os_fd(open(path, flags, 0666))};

	if (out.fd < 0)
		return false;
	out_add(&out, "{\"nodes\": %u", report->nodes);
	json_name(&out, "protocol", report->protocol);
	json_name(&out, "transport", report->transport);
	json_name(&out, "engine", report->engine);
	stats_rows(&out, report, &json);
	out_add(&out, "}\n}\n");
	out_flush(&out);
	return close(out.fd) == 0 && !out.failed;
}
