/*
 * Round trips of messages between two processes: bench_latency.c has the rows, latency_ways.c how
 * each way sends and receives, latency_bpf.c what answers in the kernel, latency_spaces.c the
 * network between them.
 */
#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "transport/xdp.h"

#define LATENCY_TIMES     5u /* averages of so many runs, as in the paper */
#define LATENCY_TRIPS_MAX 65536u
#define LATENCY_BYTES_MAX 8192u
#define LATENCY_WARM      200u /* round trips before each run that do not count */
#define LATENCY_TYPE      0x6008u /* of bare frames: the paper's */

enum latency_wait {
	LATENCY_BLOCKING, /* the call that receives sleeps */
	LATENCY_SPINNING,
	LATENCY_ADAPTIVE, /* it spins a little, and sleeps then */
	LATENCY_POLL,     /* poll sleeps, until a file tells that a message waits */
	LATENCY_INSIDE,   /* no process receives */
	LATENCY_WAITS
};

/*
 * What it needs: two network namespaces, with raw frames between them, by AF_XDP, or programs in
 * the kernel above the driver, or in it.
 */
enum latency_frames {
	LATENCY_ANY,
	LATENCY_FRAMES,
	LATENCY_XDP,
	LATENCY_KERNEL,
	LATENCY_DRIVER,
	LATENCY_NEEDS
};

/* Shared by both sides of a row, and the bench. */
struct latency_shared {
	_Atomic uint32_t ready; /* side 0 is there; + 1: its port */
	uint8_t mac[2][6];
	_Atomic uint32_t macs; /* bits: sides whose address is there */
	_Atomic uint32_t done; /* runs that are complete */
	_Atomic uint32_t began; /* runs whose round trips count by now */
	_Atomic uint32_t last; /* the number of a run's last round trip; 0: not known yet */
	char error[160];
	_Atomic uint32_t works; /* runs in which side 0's processor has multiplied */
	uint32_t trips[LATENCY_TIMES]; /* of each run */
	double work_us[LATENCY_TIMES]; /* that it took */
	float ticks[LATENCY_TIMES][LATENCY_TRIPS_MAX];
};

struct latency_run;

/* A way for messages to go. */
struct latency_way {
	const char *name;
	const char *transport; /* roam's; NULL: bare sockets */
	const char *seal;      /* roam's ROAM_SEAL */
	enum latency_frames frames;
	bool near;   /* it needs memory that both map: a job of two nodes, on one host */
	void (*open)(struct latency_run *run);
	void (*send)(struct latency_run *run);
	/* Takes a message; false: none has come.  `wait`: returns when one has. */
	bool (*take)(struct latency_run *run, bool wait);
	bool spins; /* `wait` spins, for as long as an option says, before it sleeps */
	void (*close)(struct latency_run *run);
	void (*trips)(struct latency_run *run); /* NULL: latency_trips */
	bool inside; /* both ends are in the kernel */
};

extern const struct latency_way latency_ways[]; /* end with a NULL name */

struct roam_dp;
struct roam_dp_pair;

/* A side of a row. */
struct latency_run {
	const struct latency_way *way;
	struct latency_shared *shared;
	unsigned side; /* 0 answers, 1 measures */
	unsigned bytes;
	enum latency_wait wait;
	unsigned trips;
	bool busy; /* a process multiplies matrices on side 0's processor, as long as a run lasts */
	const char *where; /* a directory for a key and a socket */
	bool apart;        /* the sides are in network namespaces of their own */
	int fd;
	size_t have; /* of a message that comes in pieces */
	struct roam_dp *dp;
	struct roam_dp_pair *pair;
	struct packet_lane lane; /* of a bare socket of AF_XDP */
	struct xdp_socket xdp;
	int file; /* of LATENCY_POLL: readable while a message waits */
	const uint64_t *times; /* of programs on both ends: when trips ended, the last one first */
	double ticks_per_us, overhead;
	uint8_t buffer[LATENCY_BYTES_MAX + 64];
};

/* Ends the process: the row cannot be measured. */
__attribute__((noreturn, format(printf, 2, 3))) void latency_fail(struct latency_run *run,
								  const char *format, ...);

/* Sends and receives as often as wanted; the way is open. */
void latency_trips(struct latency_run *run);

/* The work of a node, of a way that is near. */
void latency_job(struct latency_run *run);

/* Bare frames, which a packet socket sends and receives. */
void latency_frames_open(struct latency_run *run);
void latency_frames_send(struct latency_run *run);

/* ---- latency_work.c: what the answering side's computer does beside it */

/* How long it takes to multiply two matrices of 512 x 512 on a processor; in us. */
double latency_work_alone(unsigned cpu, double ticks_per_us);

/* Multiplies in each run, from when it began; never returns. */
__attribute__((noreturn)) void latency_work(struct latency_shared *shared, unsigned cpu,
					    double ticks_per_us);

/* ---- programs in the kernel */

void latency_echo_open(struct latency_run *run);
void latency_echo_send(struct latency_run *run);
void latency_inside_open(struct latency_run *run);
void latency_bpf_trips(struct latency_run *run);

/* ---- the network */

#define LATENCY_DEVICE "lat0"

/* Two network namespaces, joined by a cable, that last as long as the processes that hold them. */
struct latency_spaces {
	pid_t holder[2]; /* 0: there are none */
};

/* Makes them; false: `why` says why not, and there are none. */
bool latency_spaces_open(struct latency_spaces *spaces, unsigned mtu, char *why, size_t bytes);
void latency_spaces_close(struct latency_spaces *spaces);
/* The calling process enters that of a side. */
bool latency_spaces_enter(const struct latency_spaces *spaces, unsigned side);

/* Whether a program can be attached there, in the driver or above it; `why`: why it cannot. */
bool latency_bpf_works(const struct latency_spaces *spaces, bool driver, char *why, size_t bytes);

#endif
