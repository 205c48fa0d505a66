/*
 * Programs in the kernel that send a frame back: by XDP in the driver (the paper's interrupt
 * level), by tc above it (its kernel level).  A frame begins with the number of times that it is
 * still to be sent back.  Where both ends have programs, that of side 1 notes when each trip ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "latency.h"
#include "os/bpf.h"

#define MAC_BYTES 6
#define TYPE_AT   (2 * MAC_BYTES)
#define COUNT_AT  (TYPE_AT + 2)
#define TIMES     (2u * LATENCY_TRIPS_MAX) /* a power of two */

_Static_assert(LATENCY_TRIPS_MAX + LATENCY_WARM < TIMES, "times of all trips");

enum label { PASS };

/* Notes when a trip ends, of those that are left; the count is in register 7. */
static void program_note(struct roami_bpf *program, int times)
{
	roami_bpf_add(program, BPF_HELP(BPF_FUNC_ktime_get_ns));
	roami_bpf_map(program, 1, times, true);
	roami_bpf_add(program, BPF_COPY(2, 7));
	roami_bpf_add(program, BPF_BY(BPF_RSH, 2, 1));
	roami_bpf_add(program, BPF_BY(BPF_AND, 2, TIMES - 1));
	roami_bpf_add(program, BPF_BY(BPF_LSH, 2, 3));
	roami_bpf_add(program, BPF_WITH(BPF_ADD, 1, 2));
	roami_bpf_add(program, BPF_STORE(BPF_DW, 1, 0, 0));
	roami_bpf_jump(program, BPF_IF_32(BPF_JEQ, 7, 0), PASS);
}

/* Lets a frame pass that is not for us; the frame comes to register 6, its count to 7. */
static void program_look(struct roami_bpf *program, bool driver)
{
	size_t data = driver ? offsetof(struct xdp_md, data) : offsetof(struct __sk_buff, data);
	size_t end = driver ? offsetof(struct xdp_md, data_end)
			    : offsetof(struct __sk_buff, data_end);

	if (!driver) { /* the beginning of a long frame may not be in one piece */
		roami_bpf_add(program, BPF_COPY(6, 1));
		roami_bpf_add(program, BPF_SET(2, COUNT_AT + sizeof(uint32_t)));
		roami_bpf_add(program, BPF_HELP(BPF_FUNC_skb_pull_data));
		roami_bpf_add(program, BPF_COPY(1, 6));
	}
	roami_bpf_add(program, BPF_LOAD(BPF_W, 6, 1, data));
	roami_bpf_add(program, BPF_LOAD(BPF_W, 3, 1, end));
	roami_bpf_add(program, BPF_COPY(4, 6));
	roami_bpf_add(program, BPF_BY(BPF_ADD, 4, COUNT_AT + sizeof(uint32_t)));
	roami_bpf_jump(program, BPF_IF(BPF_JGT, 4, 3), PASS);
	roami_bpf_add(program, BPF_LOAD(BPF_H, 5, 6, TYPE_AT));
	roami_bpf_jump(program, BPF_IF_32(BPF_JNE, 5, htons(LATENCY_TYPE)), PASS);
	roami_bpf_add(program, BPF_LOAD(BPF_W, 7, 6, COUNT_AT));
	roami_bpf_jump(program, BPF_IF_32(BPF_JEQ, 7, 0), PASS);
}

/* `times`: a map for the ends of trips, or -1. */
static int program_make(bool driver, int interface, int times)
{
	struct roami_bpf program = {.count = 0};

	program_look(&program, driver);
	roami_bpf_add(&program, BPF_BY(BPF_SUB, 7, 1));
	roami_bpf_add(&program, BPF_STORE(BPF_W, 6, COUNT_AT, 7));
	roami_bpf_swap(&program, 6, BPF_W, 0, MAC_BYTES);
	roami_bpf_swap(&program, 6, BPF_H, 4, MAC_BYTES + 4);
	if (times >= 0)
		program_note(&program, times);
	if (driver) {
		roami_bpf_add(&program, BPF_SET(0, XDP_TX));
	} else {
		roami_bpf_add(&program, BPF_SET(1, interface));
		roami_bpf_add(&program, BPF_SET(2, 0));
		roami_bpf_add(&program, BPF_HELP(BPF_FUNC_redirect));
	}
	roami_bpf_add(&program, BPF_RETURN);
	roami_bpf_label(&program, PASS);
	roami_bpf_add(&program, BPF_SET(0, driver ? XDP_PASS : ROAMI_BPF_TCX_NEXT));
	roami_bpf_add(&program, BPF_RETURN);
	return roami_bpf_load(&program, driver ? BPF_PROG_TYPE_XDP : BPF_PROG_TYPE_SCHED_CLS,
			      driver ? BPF_XDP : ROAMI_BPF_TCX_INGRESS,
			      driver ? ROAMI_BPF_XDP_FRAGS : 0);
}

/* Attaches a program to this side's device, as long as the process lasts; false with errno. */
static bool program_attach(bool driver, int times)
{
	int interface = (int)if_nametoindex(LATENCY_DEVICE);
	int program = program_make(driver, interface, times);

	return program >= 0 &&
	       roami_bpf_attach(program, interface, driver ? BPF_XDP : ROAMI_BPF_TCX_INGRESS,
				driver ? XDP_FLAGS_DRV_MODE : 0) >= 0;
}

bool latency_bpf_works(const struct latency_spaces *spaces, bool driver, char *why, size_t bytes)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		bool good = latency_spaces_enter(spaces, 0) && program_attach(driver, -1);

		_exit(good ? 0 : errno);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		status = ECHILD << 8;
	snprintf(why, bytes, "%s (they need CAP_BPF, CAP_NET_ADMIN, and Linux %s)",
		 strerror(WEXITSTATUS(status)), driver ? "5.18" : "6.6");
	return WEXITSTATUS(status) == 0;
}

static bool run_driver(const struct latency_run *run)
{
	return run->way->frames == LATENCY_DRIVER;
}

/* ------------------------------------------------------------ a process asks, a program answers */

void latency_echo_open(struct latency_run *run)
{
	if (!program_attach(run_driver(run), -1))
		latency_fail(run, "a program: %s", strerror(errno));
	latency_frames_open(run);
}

void latency_echo_send(struct latency_run *run)
{
	const uint32_t once = 1; /* what has come has 0 there */

	memcpy(run->buffer + COUNT_AT, &once, sizeof(once));
	latency_frames_send(run);
}

/* ------------------------------------------------------------------------ programs on both ends */

void latency_inside_open(struct latency_run *run)
{
	int map = -1;

	if (run->side == 1) {
		map = roami_bpf_make_map(BPF_MAP_TYPE_ARRAY, TIMES * sizeof(uint64_t), 1,
					 BPF_F_MMAPABLE);
		run->times = map < 0 ? MAP_FAILED
				     : mmap(NULL, TIMES * sizeof(uint64_t), PROT_READ, MAP_SHARED,
					    map, 0);
		if (run->times == MAP_FAILED)
			latency_fail(run, "a map: %s", strerror(errno));
	}
	if (!program_attach(run_driver(run), map))
		latency_fail(run, "a program: %s", strerror(errno));
	latency_frames_open(run);
}

/* Side 1 sends a frame that comes back when all trips are done. */
static void inside_run(struct latency_run *run, unsigned time)
{
	uint32_t trips = LATENCY_WARM + run->trips, count = 2 * trips;

	memcpy(run->buffer + COUNT_AT, &count, sizeof(count));
	latency_frames_send(run);
	if (recv(run->fd, run->buffer, sizeof(run->buffer), 0) < 0)
		latency_fail(run, "the frame does not come back: %s", strerror(errno));
	for (unsigned trip = 0; trip < run->trips; trip++) {
		uint64_t ns = run->times[trip] - run->times[trip + 1];

		run->shared->ticks[time][run->trips - 1 - trip] =
			(float)((double)ns * run->ticks_per_us / 1000 + run->overhead);
	}
	run->shared->trips[time] += run->trips;
}

/* One run; beside the matrices several, until these are done. */
static void inside_runs(struct latency_run *run, unsigned time)
{
	atomic_store(&run->shared->began, time + 1);
	do
		inside_run(run, time);
	while (run->busy && atomic_load(&run->shared->works) <= time);
	atomic_store(&run->shared->done, time + 1);
}

/* Side 0 has nothing to do but to be there. */
void latency_bpf_trips(struct latency_run *run)
{
	if (run->side == 0)
		while (atomic_load(&run->shared->done) < LATENCY_TIMES)
			usleep(1000);
	else if (!run->way->inside)
		latency_trips(run);
	else
		for (unsigned time = 0; time < LATENCY_TIMES; time++)
			inside_runs(run, time);
}
