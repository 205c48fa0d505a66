/*
 * The report of counters and times, as a table and as JSON.
 */
#include "stats/stats.h"

#include <fcntl.h>
#include <sched.h>
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
__thread uint64_t roami_stats_handled;

/* A bit for each bank that a thread has for its own. */
static _Atomic uint32_t *stats_given(void)
{
	static _Atomic uint32_t roami_stats_given;

	return &roami_stats_given;
}

void roami_stats_bank_take(void)
{
	for (unsigned bank = 1; bank < ROAMI_STATS_ANY && roami_stats_bank == 0; bank++)
		if ((atomic_fetch_or(stats_given(), 1u << bank) >> bank & 1) == 0)
			roami_stats_bank = bank;
}

void roami_stats_bank_give(void)
{
	unsigned bank = roami_stats_bank;

	roami_stats_bank = 0;
	if (bank != 0 && bank < ROAMI_STATS_ANY)
		atomic_fetch_and(stats_given(), ~(1u << bank));
}

unsigned roami_stats_banks(const struct roami_stats *stats)
{
	uint32_t used = atomic_load_explicit(&stats->used, memory_order_relaxed);

	return used > ROAMI_STATS_ANY ? used : ROAMI_STATS_ANY;
}

void roami_stats_banks_use(struct roami_stats *stats, unsigned banks)
{
	uint32_t used = atomic_load(&stats->used);

	while (used < banks && !atomic_compare_exchange_weak(&stats->used, &used, banks))
		;
}

static bool stats_shut(const struct roami_stats *stats)
{
	return atomic_load_explicit(&stats->region, memory_order_relaxed) == ROAMI_STATS_SHUT;
}

/* What a bank has counted beyond what was left out. */
static uint64_t stats_raw(const struct roami_stats *stats, unsigned bank, unsigned stat)
{
	return atomic_load_explicit(&stats->banks[bank].values[stat], memory_order_relaxed) -
	       atomic_load_explicit(&stats->banks[bank].before[stat], memory_order_relaxed);
}

static uint64_t stats_raw_type(const struct roami_stats *stats, unsigned type)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < roami_stats_banks(stats); i++)
		sum += atomic_load_explicit(&stats->banks[i].types[type], memory_order_relaxed);
	return sum - atomic_load_explicit(&stats->types_before[type], memory_order_relaxed);
}

/* Of the whole job: what a check has found counts wherever it was found. */
static bool stats_whole(unsigned stat)
{
	return stat == ROAMI_STAT_races || stat == ROAMI_STAT_races_alike ||
	       stat == ROAMI_STAT_private_pointers || stat == ROAMI_STAT_heap_errors ||
	       stat == ROAMI_STAT_heap_alike ||
	       stat == ROAMI_STAT_barriers_before;
}

uint64_t roami_stats_of(const struct roami_stats *stats, unsigned bank, unsigned stat)
{
	if (stats_shut(stats) && !stats_whole(stat))
		return atomic_load_explicit(&stats->banks[bank].kept[stat], memory_order_relaxed);
	return stats_raw(stats, bank, stat);
}

uint64_t roami_stats_sum(const struct roami_stats *stats, unsigned stat)
{
	uint64_t sum = 0;

	for (unsigned bank = 0; bank < roami_stats_banks(stats); bank++)
		sum += roami_stats_of(stats, bank, stat);
	return sum;
}

uint64_t roami_stats_sum_type(const struct roami_stats *stats, unsigned type)
{
	if (stats_shut(stats))
		return atomic_load_explicit(&stats->types_kept[type], memory_order_relaxed);
	return stats_raw_type(stats, type);
}

/* Wall time that counts, of a region that is open. */
static uint64_t stats_open_ns(const struct roami_stats *stats)
{
	return atomic_load(&stats->kept_ns) + roami_os_now_ns() - atomic_load(&stats->start_ns);
}

static uint64_t stats_open_cycles(const struct roami_stats *stats)
{
	return atomic_load(&stats->kept_cycles) + roami_os_cycles() -
	       atomic_load(&stats->start_cycles);
}

static void stats_from_now(struct roami_stats *stats)
{
	atomic_store(&stats->start_cycles, roami_os_cycles());
	atomic_store(&stats->start_ns, roami_os_now_ns());
}

void roami_stats_begin(struct roami_stats *stats)
{
	uint32_t within = atomic_load(&stats->within);

	memset(stats->banks, 0, roami_stats_banks(stats) * sizeof(stats->banks[0]));
	memset(stats, 0, offsetof(struct roami_stats, start_ns));
	/* A mark that was made before the node began is one of the node's. */
	atomic_store(&stats->within, within);
	atomic_store(&stats->region, within > 0 ? ROAMI_STATS_OPEN : ROAMI_STATS_ALL);
	atomic_store(&stats->wall_ns, 0);
	atomic_store(&stats->wall_cycles, 0);
	atomic_store(&stats->peak_kb, 0);
	stats_from_now(stats);
}

/* Leaves out what was counted beyond what is kept. */
static void stats_leave_out(struct roami_stats *stats)
{
	for (unsigned at = 0; at < roami_stats_banks(stats) * ROAMI_STATS_COUNT; at++) {
		unsigned bank = at / ROAMI_STATS_COUNT, stat = at % ROAMI_STATS_COUNT;

		if (!stats_whole(stat))
			atomic_fetch_add(&stats->banks[bank].before[stat],
					 stats_raw(stats, bank, stat) -
						 atomic_load(&stats->banks[bank].kept[stat]));
	}
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		atomic_fetch_add(&stats->types_before[i],
				 stats_raw_type(stats, i) - atomic_load(&stats->types_kept[i]));
}

void roami_stats_team(struct roami_stats *stats, unsigned threads, unsigned mate)
{
	if (roami_stats_bank == 0 && mate < ROAMI_STATS_MATES) {
		roami_stats_bank = ROAMI_STATS_ANY + mate;
		roami_stats_banks_use(stats, roami_stats_bank + 1);
	}
	atomic_store(&stats->threads, threads);
	if (roami_stats_bank != 0)
		atomic_store(&stats->banks[roami_stats_bank].mate, mate + 1);
}

/* Marks are rare, and seldom made by two threads at a time. */
static void stats_mark(struct roami_stats *stats)
{
	while (atomic_exchange(&stats->marking, 1) != 0)
		sched_yield();
}

static void stats_marked(struct roami_stats *stats)
{
	atomic_store(&stats->marking, 0);
}

/* Nothing has counted so far.  Marking. */
static void stats_drop(struct roami_stats *stats)
{
	for (unsigned bank = 0; bank < roami_stats_banks(stats); bank++)
		memset(stats->banks[bank].kept, 0, sizeof(stats->banks[bank].kept));
	memset(stats->types_kept, 0, sizeof(stats->types_kept));
	atomic_store(&stats->kept_ns, 0);
	atomic_store(&stats->kept_cycles, 0);
	stats_leave_out(stats);
	stats_from_now(stats);
}

/* What counts stands still.  Marking. */
static void stats_keep(struct roami_stats *stats)
{
	for (unsigned bank = 0; bank < roami_stats_banks(stats); bank++)
		for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
			atomic_store(&stats->banks[bank].kept[i], stats_raw(stats, bank, i));
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		atomic_store(&stats->types_kept[i], stats_raw_type(stats, i));
	atomic_store(&stats->kept_ns, stats_open_ns(stats));
	atomic_store(&stats->kept_cycles, stats_open_cycles(stats));
	atomic_store(&stats->region, ROAMI_STATS_SHUT);
}

void roami_stats_begin_here(struct roami_stats *stats)
{
	stats_mark(stats);
	stats_drop(stats);
	stats_marked(stats);
}

void roami_stats_enter(struct roami_stats *stats)
{
	stats_mark(stats);
	if (atomic_fetch_add(&stats->within, 1) == 0) {
		if (atomic_load(&stats->region) == ROAMI_STATS_ALL)
			stats_drop(stats);
		stats_leave_out(stats);
		stats_from_now(stats);
		atomic_store(&stats->region, ROAMI_STATS_OPEN);
	}
	stats_marked(stats);
}

void roami_stats_leave(struct roami_stats *stats)
{
	uint32_t within;

	stats_mark(stats);
	within = atomic_load(&stats->within);
	if (within > 0)
		atomic_store(&stats->within, within - 1);
	if (within <= 1 && !stats_shut(stats))
		stats_keep(stats);
	stats_marked(stats);
}

void roami_stats_end(struct roami_stats *stats)
{
	bool shut = stats_shut(stats);

	atomic_store(&stats->wall_cycles,
		     shut ? atomic_load(&stats->kept_cycles) : stats_open_cycles(stats));
	atomic_store(&stats->peak_kb, roami_os_rss_peak_kb());
	atomic_store(&stats->wall_ns, shut ? atomic_load(&stats->kept_ns) : stats_open_ns(stats));
}

/* Nanoseconds that count; of a node that still runs, or died, until now. */
static uint64_t stats_wall_ns(const struct roami_stats *stats)
{
	uint64_t wall = atomic_load(&stats->wall_ns);

	if (wall != 0 || atomic_load(&stats->start_ns) == 0)
		return wall;
	return stats_shut(stats) ? atomic_load(&stats->kept_ns) : stats_open_ns(stats);
}

static double stats_cycles_per_ns(const struct roami_stats *stats)
{
	uint64_t wall = stats_wall_ns(stats), cycles = atomic_load(&stats->wall_cycles);

	if (cycles == 0 && atomic_load(&stats->start_ns) != 0)
		cycles = stats_shut(stats) ? atomic_load(&stats->kept_cycles)
					   : stats_open_cycles(stats);
	return wall == 0 || cycles == 0 ? 1.0 : (double)cycles / (double)wall;
}

static uint64_t stats_ns(const struct roami_stats *stats, uint64_t cycles)
{
	return (uint64_t)((double)cycles / stats_cycles_per_ns(stats));
}

/* The value of a line: a count, or nanoseconds. */
static uint64_t stats_value(const struct roami_stats *stats, unsigned line)
{
	uint64_t value = roami_stats_sum(stats, line);

	return roami_stats_lines[line].time ? stats_ns(stats, value) : value;
}

static const enum roami_stat accounted[] = {ROAMI_STAT_TIME_page, ROAMI_STAT_TIME_lock,
					    ROAMI_STAT_TIME_barrier, ROAMI_STAT_TIME_overhead};
#define ACCOUNTED (sizeof(accounted) / sizeof(accounted[0]))

/*
 * Wall time of all threads less what is accounted for; 0 if threads of the program's own waited for
 * longer than that.
 */
static uint64_t stats_compute_ns(const struct roami_stats *stats)
{
	uint64_t threads = atomic_load_explicit(&stats->threads, memory_order_relaxed);
	uint64_t wall = stats_wall_ns(stats) * (threads > 1 ? threads : 1), rest = 0;

	for (unsigned i = 0; i < ACCOUNTED; i++)
		rest += stats_value(stats, accounted[i]);
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

/* ------------------------------------------------------------------------------------- threads */

/* What a thread of a team did: times in ns, the first one what is left of the wall time. */
struct thread_view {
	uint64_t times[1 + ACCOUNTED];
	uint64_t faults, locks;
};

static const char *const thread_names[1 + ACCOUNTED] = {"compute", "page", "lock", "barrier",
							"overhead"};

static void thread_view(const struct roami_stats *stats, unsigned bank, struct thread_view *view)
{
	uint64_t wall = stats_wall_ns(stats), rest = 0;

	for (unsigned i = 0; i < ACCOUNTED; i++)
		rest += view->times[1 + i] =
			stats_ns(stats, roami_stats_of(stats, bank, accounted[i]));
	view->times[0] = rest < wall ? wall - rest : 0;
	view->faults = roami_stats_of(stats, bank, ROAMI_STAT_read_faults) +
		       roami_stats_of(stats, bank, ROAMI_STAT_write_faults);
	view->locks = roami_stats_of(stats, bank, ROAMI_STAT_lock_acquires);
}

/* The bank of a node's thread, in their order; 0: it never had one. */
static unsigned thread_bank(const struct roami_stats *stats, unsigned mate)
{
	for (unsigned bank = 1; bank < roami_stats_banks(stats); bank++)
		if (atomic_load(&stats->banks[bank].mate) == mate + 1)
			return bank;
	return 0;
}

typedef void thread_fn(struct stats_out *out, unsigned node, unsigned mate,
		       const struct thread_view *view);

static void each_thread(struct stats_out *out, const struct roami_stats_report *report,
			thread_fn *fn)
{
	for (unsigned i = 0; i < report->nodes; i++)
		for (unsigned mate = 0; mate < atomic_load(&report->stats[i]->threads); mate++) {
			unsigned bank = thread_bank(report->stats[i], mate);
			struct thread_view view;

			if (bank == 0)
				continue;
			thread_view(report->stats[i], bank, &view);
			fn(out, report->first + i, mate, &view);
		}
}

static void table_thread(struct stats_out *out, unsigned node, unsigned mate,
			 const struct thread_view *view)
{
	char who[40];

	if (out->rows++ == 0) {
		out_add(out, "%-*s", LABEL + 2, "threads, ms");
		for (unsigned i = 0; i < 1 + ACCOUNTED; i++)
			out_add(out, " %*s", COLUMN, thread_names[i]);
		out_add(out, " %*s %*s\n", COLUMN, "faults", COLUMN, "locks");
	}
	snprintf(who, sizeof(who), "node %u, thread %u", node, mate);
	out_add(out, "  %-*.40s", LABEL, who);
	for (unsigned i = 0; i < 1 + ACCOUNTED; i++)
		table_value(out, view->times[i], true);
	table_value(out, view->faults, false);
	table_value(out, view->locks, false);
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
	each_thread(&out, report, table_thread);
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

static void json_thread(struct stats_out *out, unsigned node, unsigned mate,
			const struct thread_view *view)
{
	out_add(out, "%s\n  {\"node\": %u, \"thread\": %u",
		out->rows++ > 0 ? "," : ",\n \"threads\": [", node, mate);
	for (unsigned i = 0; i < 1 + ACCOUNTED; i++)
		out_add(out, ", \"%s_ms\": %.6f", thread_names[i], (double)view->times[i] / 1e6);
	out_add(out, ", \"faults\": %llu, \"locks\": %llu}", (unsigned long long)view->faults,
		(unsigned long long)view->locks);
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
	out_add(&out, "}");
	out.rows = 0;
	each_thread(&out, report, json_thread);
	out_add(&out, "%s\n}\n", out.rows > 0 ? "]" : "");
	out_flush(&out);
	return close(out.fd) == 0 && !out.failed;
}
