/*
 * Floors: what the bare kernel call, a bare copy or a bare ring costs on this machine.  The files
 * floor_*.c include this header and the system's, nothing else, so that nothing slow of roam can
 * flatter a ratio.
 *
 * All processes ("sides") of a floor_pair call each kind together; side 1 measures, unless the kind
 * says otherwise.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOOR_PAGES 4096u
#define FLOOR_PAGE  4096u
#define FLOOR_BATCH 64u  /* pages of a batch, for kinds that use one */
#define FLOOR_RING  256u /* cells of a ring */

/* Where samples go: time stamp counter ticks of one operation. */
struct floor_out {
	float *ticks;
	uint32_t max;
	uint32_t count;
	double overhead; /* ticks of an empty measurement */
};

enum floor_engine { FLOOR_UFFD, FLOOR_MPROTECT };

/* One message of the bare ring: 64 bytes in all. */
struct floor_cell {
	_Alignas(64) _Atomic uint64_t serial;
	uint8_t body[56];
};

struct floor_shared {
	_Alignas(64) _Atomic uint32_t arrived;
	_Alignas(64) _Atomic uint32_t turn; /* meetings so far */
	_Atomic uint32_t asleep;
	_Alignas(64) _Atomic uint32_t bell;
	_Alignas(64) _Atomic uint32_t answer;
	_Alignas(64) _Atomic uint32_t stop;
	_Alignas(64) _Atomic uint32_t batch;
	_Alignas(64) _Atomic uint32_t batch_taken;
	_Alignas(64) _Atomic uint32_t gathered;
	_Alignas(64) _Atomic uint32_t episode;
	_Alignas(64) uint8_t batch_bytes[FLOOR_PAGE];
	struct floor_cell ring[2][FLOOR_RING];
};

struct floor_pair {
	unsigned side;
	unsigned sides;
	unsigned samples; /* wanted of each call */
	unsigned cpu[2];
	enum floor_engine engine;
	struct floor_shared *shared;
	int fd[2];
	uint8_t *mem[2]; /* memory of each side, FLOOR_PAGES, mapped by both sides */
	uint8_t *app;    /* this side's memory, with restricted access */
	uint8_t *twins;  /* FLOOR_PAGES of private memory */
	int uffd;
	uint64_t sent[2]; /* messages of the ring */
	uint32_t value;   /* something new to write */
	uint32_t order[FLOOR_PAGES];
};

/* Called before the fork; false with errno. */
bool floor_pair_open(struct floor_pair *pair, enum floor_engine engine);
/* Called in each process; false with errno. */
bool floor_pair_enter(struct floor_pair *pair, unsigned side, unsigned sides);
/* Waits until all sides are here. */
void floor_meet(struct floor_pair *pair);
/* Shuffles the pages. */
void floor_shuffle(uint32_t *order, uint32_t count, uint64_t seed);
/* Starts a thread that computes on a CPU until it is stopped.  NULL: failed. */
struct floor_spinner;
struct floor_spinner *floor_spinner_start(unsigned cpu);
/* Returns when the thread has its CPU. */
void floor_spinner_await(struct floor_spinner *spinner);
void floor_spinner_stop(struct floor_spinner *spinner);
/* Opens the part of a pair that belongs to floor_fault.c. */
bool floor_fault_open(struct floor_pair *pair);
long floor_futex(_Atomic uint32_t *word, int op, uint32_t value);
bool floor_pin(unsigned cpu);

/* KIND(constant, function, what is measured) */
#define FLOOR_KINDS(KIND)                                                                       \
	KIND(FLOOR_FAULT_READ, floor_fault_read, "bare read fault, opening the page included")  \
	KIND(FLOOR_FAULT_WRITE, floor_fault_write, "bare write fault on a readable page")       \
	KIND(FLOOR_GET, floor_get, "4 KiB from the other process, written by it last")          \
	KIND(FLOOR_PUT, floor_put, "4 KiB into the other process, written by it last")          \
	KIND(FLOOR_STREAM, floor_stream, "the same in address order, per page")                 \
	KIND(FLOOR_TWIN, floor_twin, "4 KiB into a pooled twin")                                \
	KIND(FLOOR_COMPARE, floor_compare, "compare of a page just copied")                     \
	KIND(FLOOR_COMPARE_64, floor_compare_64, "compares of 64 pages just copied")            \
	KIND(FLOOR_STORE, floor_store, "a store to a page of plain memory")                     \
	KIND(FLOOR_PROTECT, floor_protect, "write-protecting a page just written")              \
	KIND(FLOOR_PROTECT_64, floor_protect_64, "64 neighbours in one call")                   \
	KIND(FLOOR_PROTECT_RUN, floor_protect_run, "one page while another thread runs")        \
	KIND(FLOOR_PROTECT_RUN_64, floor_protect_run_64, "64 pages while another thread runs")  \
	KIND(FLOOR_RTT, floor_rtt, "64 bytes both ways over a bare ring, spinning")             \
	KIND(FLOOR_SEND_64, floor_send_64, "the diffs of 64 words over the ring, acknowledged") \
	KIND(FLOOR_WAKE_BUSY, floor_wake_busy, "futex wake of a thread on a busy CPU")          \
	KIND(FLOOR_WAKE_IDLE, floor_wake_idle, "futex wake of a thread on an idle CPU")         \
	KIND(FLOOR_SYSCALL, floor_syscall, "getppid")                                           \
	KIND(FLOOR_BARRIER, floor_barrier, "a counting barrier that yields")

#define FLOOR_ENUM(constant, function, text) constant,
enum floor_kind { FLOOR_KINDS(FLOOR_ENUM) FLOOR_KINDS_COUNT };
#undef FLOOR_ENUM

#define FLOOR_DECLARE(constant, function, text) \
	void function(struct floor_pair *pair, struct floor_out *out);
FLOOR_KINDS(FLOOR_DECLARE)
#undef FLOOR_DECLARE

/* Floors of one process: ticks of `turns` calls on `bytes` bytes. */
uint64_t floor_memcmp_ticks(const void *a, const void *b, size_t bytes, unsigned turns);
uint64_t floor_memcpy_ticks(void *to, const void *from, size_t bytes, unsigned turns);

static inline void floor_pause(void)
{
	__builtin_ia32_pause();
}

/* Makes the compiler forget what it knows about memory. */
static inline void floor_clobber(void)
{
	__asm__ volatile("" ::: "memory");
}

static inline uint64_t floor_begin(void)
{
	uint64_t now;

	__asm__ volatile("lfence" ::: "memory");
	now = __builtin_ia32_rdtsc();
	__asm__ volatile("lfence" ::: "memory");
	return now;
}

static inline uint64_t floor_end(void)
{
	unsigned cpu;
	uint64_t now = __builtin_ia32_rdtscp(&cpu);

	__asm__ volatile("lfence" ::: "memory");
	return now;
}

/* Notes the ticks of `operations`. */
static inline void floor_note(struct floor_out *out, uint64_t ticks, double operations)
{
	double each = ((double)ticks - out->overhead) / operations;

	if (out->count < out->max)
		out->ticks[out->count++] = (float)(each > 0 ? each : 0);
}

/* Ticks of an empty measurement. */
static inline double floor_overhead(void)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		uint64_t start = floor_begin(), spent = floor_end() - start;

		if (spent < best)
			best = spent;
	}
	return (double)best;
}

/* A socket on the loopback and its port; -1: none. */
int floor_udp_open(uint32_t *port_p);

/*
 * Sends `pages` times 4 KiB with a header of 64 bytes from side 0 to side 1, which asks for them,
 * by sendmmsg and recvmmsg in batches; at most FLOOR_UDP_AHEAD are on their way.  A socket buffer
 * of the usual size has room for 25 datagrams, less up to a quarter that was read but that the
 * kernel has not given back yet.  false: cannot send, or one was lost.
 */
#define FLOOR_UDP_AHEAD 16u
bool floor_udp_stream(int fd, uint32_t port, unsigned side, unsigned pages);

/* Sends `out` bytes from side 1 to side 0 and `back` bytes back, `turns` times; false: cannot. */
bool floor_udp_turns(int fd, uint32_t port, unsigned side, unsigned turns, uint32_t out,
		     uint32_t back);

#endif
