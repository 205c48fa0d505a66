/* Properties of the machine, which explain every row. */
#include <stdio.h>

#include "bench.h"

static const uint8_t kinds[] = {
	FLOOR_SYSCALL,     FLOOR_RTT,     FLOOR_WAKE_IDLE,   FLOOR_WAKE_BUSY,   FLOOR_FAULT_READ,
	FLOOR_FAULT_WRITE, FLOOR_PROTECT, FLOOR_PROTECT_RUN, FLOOR_KINDS_COUNT,
};

static const struct rig_scenario floors = {
	.name = "machine",
	.nodes = 2,
	.floors = kinds,
	.prepare = rig_floor_prepare,
	.begin = rig_floor_begin,
	.round = rig_floor_round,
};

static const char *const meaning[FLOOR_KINDS_COUNT] = {
#define FLOOR_MEANING(constant, function, text) [constant] = text,
	FLOOR_KINDS(FLOOR_MEANING)
#undef FLOOR_MEANING
};

static void machine_fact(struct bench *bench, struct rig *rig, const char *name, const char *engine,
			 enum floor_kind kind, double *us_p)
{
	struct floor_out *out = &rig->run.shared->channel[kind].out;

	*us_p = report_median(out->ticks, out->count, bench->ticks_per_us).us;
	report_fact(&bench->report, name, engine, *us_p, meaning[kind]);
}

static void machine_engine(struct bench *bench, struct rig *rig, const char *engine, bool first)
{
	double us, alone;

	if (first) {
		machine_fact(bench, rig, "syscall", NULL, FLOOR_SYSCALL, &us);
		machine_fact(bench, rig, "f_rtt", NULL, FLOOR_RTT, &us);
		machine_fact(bench, rig, "wake_idle", NULL, FLOOR_WAKE_IDLE, &us);
		machine_fact(bench, rig, "wake_busy", NULL, FLOOR_WAKE_BUSY, &us);
	}
	machine_fact(bench, rig, "f_fault_r", engine, FLOOR_FAULT_READ, &us);
	machine_fact(bench, rig, "f_fault_w", engine, FLOOR_FAULT_WRITE, &us);
	machine_fact(bench, rig, "protect", engine, FLOOR_PROTECT, &alone);
	machine_fact(bench, rig, "protect_running", engine, FLOOR_PROTECT_RUN, &us);
	report_fact(&bench->report, "ipi", engine, us > alone ? us - alone : 0,
		    "the difference: interrupting the other CPU");
}

void bench_machine(struct bench *bench)
{
	struct rig_params params = {
		.protocol = bench->protocol,
		.rounds = 1,
		.samples = bench->samples < 512 ? bench->samples : 512,
		.cpu = {bench->cpu[0], bench->cpu[1]},
		.overhead = bench->overhead,
	};

	for (const char *const *engine = bench->engines; *engine != NULL; engine++) {
		struct rig rig;

		params.engine = *engine;
		if (rig_open(&rig, &floors, &params) && rig_round(&rig))
			machine_engine(bench, &rig, *engine, engine == bench->engines);
		rig_close(&rig);
	}
}
