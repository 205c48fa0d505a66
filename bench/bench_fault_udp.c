/* roam bench fault --transport udp: the rows of bench_fault.c over datagrams, and their floors. */
#include "fault_rounds.h"

#define UDP "ROAM_TRANSPORT=udp ROAM_HOT=0"

SCENARIO(udp_fetch, "read_fetch", UDP " ROAM_PREFETCH=0", fault_fetch_round, 0);
SCENARIO(udp_stream, "read_stream", UDP, fault_stream_round, 1);
SCENARIO(udp_release_1, "release_1", UDP, fault_release_1_round, 0);
SCENARIO(udp_release_64, "release_64", UDP, fault_release_64_round, 1);
SCENARIO(udp_release_sparse, "release_sparse", UDP, fault_release_sparse_round, 0);

enum {
	UDP_FLOORS,
	UDP_WIRE,
	UDP_FETCH,
	UDP_READ_STREAM,
	UDP_RELEASE_1,
	UDP_RELEASE_64,
	UDP_SPARSE,
};

static const struct rig_scenario *const udp_scenarios[] = {
	[UDP_FLOORS] = &fault_floors,
	[UDP_WIRE] = &bench_udp_floor,
	[UDP_FETCH] = &udp_fetch,
	[UDP_READ_STREAM] = &udp_stream,
	[UDP_RELEASE_1] = &udp_release_1,
	[UDP_RELEASE_64] = &udp_release_64,
	[UDP_SPARSE] = &udp_release_sparse,
	NULL,
};

#define FLOOR(kind, weight)                      \
	{                                        \
		UDP_FLOORS, FLOOR_##kind, weight \
	}
#define WIRE(channel)                          \
	{                                      \
		UDP_WIRE, BENCH_UDP_##channel, 1 \
	}

static const struct plan_row udp_rows[] = {
	{"read_fetch",
	 UDP_FETCH,
	 0,
	 {FLOOR(FAULT_READ, 1), WIRE(4K)},
	 0,
	 "f_fault_r + f_udp_4k",
	 .goal = NULL,
	 .transport = "udp"},
	{"read_stream",
	 UDP_READ_STREAM,
	 0,
	 {WIRE(STREAM)},
	 0,
	 "f_udp_stream",
	 .goal = NULL,
	 .transport = "udp"},
	{"release_1",
	 UDP_RELEASE_1,
	 0,
	 {FLOOR(COMPARE, 1), FLOOR(PROTECT, 1), WIRE(64)},
	 0,
	 "compare + protect + f_udp_64",
	 .goal = NULL,
	 .transport = "udp"},
	{"release_64",
	 UDP_RELEASE_64,
	 0,
	 {FLOOR(COMPARE_64, 1), FLOOR(PROTECT_64, 1), WIRE(DIFFS)},
	 0,
	 "64 compares + one protect + the bytes over a bare socket, acknowledged",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 .transport = "udp"},
	{"release_sparse",
	 UDP_SPARSE,
	 0,
	 {{UDP_SPARSE, 1, 1}},
	 0,
	 "release of one changed byte",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 .transport = "udp"},
};

const struct plan bench_fault_udp = {udp_scenarios, udp_rows,
				     sizeof(udp_rows) / sizeof(udp_rows[0])};
