/*
 * What roam asks of the operating system.  Includes nothing of ours.
 *
 * The room keeps rules 1.3 (roami_os_dontfork) and, with inside.h, 1.4 (cancellation, jumps).
 */
#ifndef ROAMI_OS_H
#define ROAMI_OS_H

#include <stdatomic.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Linux 5.18: MADV_DONTNEED, also for a program that has locked its memory (mlockall). */
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

/* ---- clock */
uint64_t roami_os_now_ns(void);              /* monotonic; async-signal-safe */
static inline uint64_t roami_os_cycles(void) /* the time stamp counter */
{
	return __builtin_ia32_rdtsc();
}
int roami_os_poll_ms(uint64_t until_ns); /* for poll, rounded up; -1: UINT64_MAX, for ever */
uint64_t roami_os_ran_ns(void); /* CPU time of the calling thread; async-signal-safe */
uint64_t roami_os_sleeps(void); /* how often it gave the CPU up to wait; async-signal-safe */
int roami_os_tasks(void);       /* the directory of this process's threads; -1: none */
unsigned roami_os_threads_of(int tasks); /* 0: not known; async-signal-safe */
unsigned roami_os_threads(void); /* of this process, and the first if it has ended; 0: not known */
static inline void roami_os_pause(void)
{
	__builtin_ia32_pause();
}

/* ---- memory.  Sizes are rounded up to pages; NULL on failure with errno set. */

/* Private, zero, not counted until touched. */
void *roami_os_reserve(size_t bytes);
/*
 * roami_os_reserve for huge sparse memory: it is left out of core files, which would look as huge.
 */
void *roami_os_reserve_sparse(size_t bytes);
/* Shared, read/write; `at` NULL: anywhere, at a random distance between guard pages. */
void *roami_os_map_fd(void *at, size_t bytes, int fd, uint64_t offset);
/* Unmaps what that has mapped anywhere, with the guard pages; what lies at `at`, roami_os_unmap. */
void roami_os_unmap_fd(void *at, size_t bytes);
void roami_os_unmap(void *at, size_t bytes);
/* Not inherited by children. */
void roami_os_dontfork(void *at, size_t bytes);
/* Left out of core files; and not left out any more. */
void roami_os_dontdump(void *at, size_t bytes);
void roami_os_dump(void *at, size_t bytes);
/* Gives back whole pages of private memory, which are zero then. */
void roami_os_forget(void *at, size_t bytes);

/* Gives the memory of a shared file range back: a hole. */
void roami_os_discard(void *at, size_t bytes);
/*
 * Huge pages in a mapping of a memfd.  roami_os_huge_make gives the range, which is whole huge
 * pages, its memory in huge pages, as far as these are free, with the bytes that it had; false: the
 * kernel cannot do that here.  roami_os_huge_round rounds down to the beginning of a huge page.
 */
#define ROAMI_OS_HUGE ((size_t)2 << 20)
bool roami_os_huge_make(void *at, size_t bytes);
static inline uint8_t *roami_os_huge_round(uint8_t *at)
{
	return at - (uintptr_t)at % ROAMI_OS_HUGE;
}
/* Whether RLIMIT_FSIZE, which a program may set at any time, lets files be written up to `end`. */
bool roami_os_writes_to(uint64_t end);
/* Stores into a file; how many bytes, the first ones.  Async-signal-safe. */
size_t roami_os_write_at(int fd, uint64_t offset, const void *data, size_t bytes);
/*
 * The next run of [*at_p, end) in which a file has bytes: from *first_p on, up to what *at_p is
 * then.  False: there is none.
 */
bool roami_os_data(int fd, uint64_t *at_p, uint64_t end, uint64_t *first_p);
/* Sealed against shrinking and growing; -1 with errno. */
int roami_os_memfd(const char *name, uint64_t bytes);

/* ---- descriptors: none of ours is ever 0, 1 or 2, though the program has closed them (fds.c) */

/* What a call that makes a descriptor returned, moved up if need be; -1 with errno. */
int roami_os_fd(int fd);
/* `count` descriptors from `first` on, which a launcher opened, are closed by exec from here on. */
void roami_os_fds_keep(int first, unsigned count);
bool roami_os_pipe(int ends[2], int flags); /* closed by exec; false with errno */

/* What a descriptor stands for, to know it again: the program may close it, and open another. */
struct roami_fd_mark {
	int fd;
	uint64_t device, file; /* 0, 0: nothing */
};

void roami_os_fd_mark(struct roami_fd_mark *mark, int fd);
bool roami_os_fd_marked(const struct roami_fd_mark *mark);

/*
 * A TCP connection that sends at once, and is lost when for `lost_ms` its other end has
 * acknowledged nothing: of what was sent, or, after `idle_s` of silence, of a probe each second.
 */
void roami_os_tcp_watch(int fd, int idle_s, int lost_ms);
FILE *roami_os_file(const char *path);      /* to be read; NULL with errno */
/* While another library makes some: those that are closed are held, and given back. */
unsigned roami_os_fds_hold(void);
void roami_os_fds_release(unsigned held);

/*
 * A vector of fixed-size items in mmap memory, grown by mremap: usable in signal handlers, no
 * malloc.
 */
struct roami_vec {
	uint8_t *items;
	size_t count;
	size_t capacity;
};
/* Makes room for `count` more; the first of them; NULL: no memory. */
void *roami_os_vec_grow(struct roami_vec *vec, size_t item_bytes, size_t count);
void roami_os_vec_free(struct roami_vec *vec, size_t item_bytes);

/* ---- waiting.  Shared between processes. */
void roami_os_futex_wait(_Atomic uint32_t *word, uint32_t value,
			 uint64_t timeout_ns); /* 0: for ever */
void roami_os_futex_wake(_Atomic uint32_t *word, int count);
/*
 * One turn of a spin for another thread, which may have lost its processor, or be stopped: pauses
 * first, then yields, then sleeps for longer and longer.  `turn`: those before.  Async-signal-safe.
 */
void roami_os_spin(unsigned turn);
#define ROAMI_OS_SPIN_PAUSES 64u /* a turn that does not pause, then one that does */
/* A short lock of threads of one process: 0 is free.  Waits by roami_os_spin. */
static inline bool roami_os_lock_try(_Atomic uint32_t *held)
{
	return atomic_exchange_explicit(held, 1, memory_order_acquire) == 0;
}
static inline void roami_os_lock(_Atomic uint32_t *held)
{
	unsigned turn = 0;

	while (!roami_os_lock_try(held))
		while (atomic_load_explicit(held, memory_order_relaxed) != 0)
			roami_os_spin(turn++);
}
static inline void roami_os_unlock(_Atomic uint32_t *held)
{
	atomic_store_explicit(held, 0, memory_order_release);
}

/* What a failed roami_assert of roam/protocol.h comes to. */
__attribute__((noreturn)) void roami_assert_failed(const char *condition, const char *file,
						   int line);

/* ---- processes */
unsigned roami_os_cpus(void);    /* in our affinity mask */
/* The CPUs that the calling thread may run on, "0-3,8"; cut off at `bytes`. */
void roami_os_cpus_text(char *text, size_t bytes);
bool roami_os_pin(unsigned cpu); /* the calling thread, to the cpu-th of our mask */

/* Where the calling thread may run. */
struct roami_os_mask {
	cpu_set_t cpus;
};
void roami_os_mask_get(struct roami_os_mask *mask);
void roami_os_mask_set(const struct roami_os_mask *mask);

/*
 * NUMA domains that have CPUs of our mask.  roami_os_domain_cpus: how many the first one has (all,
 * if there are no domains).  roami_os_domain_take binds the calling thread to those of domain
 * `number`, counted round and round.
 */
unsigned roami_os_domain_cpus(void);
void roami_os_domain_take(unsigned number);
/* A thread that takes no signals; thread_p NULL: it is detached.  False with errno. */
bool roami_os_thread(pthread_t *thread_p, void *(*run)(void *), void *arg);
/* Unblocks the signals of page faults in the calling thread. */
void roami_os_faults_unblock(void);
/* As roami_os_thread, but it calls nothing of the program: its stack is left out of core files. */
bool roami_os_helper(pthread_t *thread_p, void *(*run)(void *), void *arg);

int roami_os_pidfd(pid_t pid);   /* -1 with errno */
/* How the process of a pidfd ended, as of wait; false: it has not, or this kernel does not say. */
bool roami_os_pidfd_status(int pidfd, int *status);
/* How a process ended that its parent has not waited for yet, on any kernel. */
bool roami_os_zombie_status(pid_t pid, int *status);
/* Whether a process, or its first thread alone, has ended, and is kept. */
bool roami_os_zombie(pid_t pid);
bool roami_os_blocks(pid_t tid, int number); /* a thread of this process blocks the signal */
/*
 * Whether a thread of this process, none of the library's own, sleeps until another thread of this
 * process wakes it: for a lock or a condition of threads.  *sleeps: how often it has gone to sleep;
 * if it has not since an earlier call, it has slept all the time between the two.
 */
bool roami_os_dormant(pid_t tid, uint64_t *sleeps);
/*
 * What another process has open as `its`; -1 with errno.  /proc refuses processes of other users,
 * but not to root, for which the file itself must be root's.
 */
int roami_os_open_its(pid_t pid, int its, int flags);
/* All of it, over a socket that blocks; false: the other side is gone, or takes too long. */
bool roami_os_send(int fd, const void *data, size_t bytes);
/* Takes what a socket has, without waiting: up to `want` bytes, of which *have_p are in `to`. */
enum roami_os_got { ROAMI_OS_NOTHING, ROAMI_OS_GOT, ROAMI_OS_LOST };
enum roami_os_got roami_os_receive(int fd, void *to, size_t *have_p, size_t want);
/* Process and user of a Unix socket's other end as it connected or listened; false with errno. */
bool roami_os_peer(int fd, pid_t *pid_p, uid_t *uid_p);
pid_t roami_os_tid(void);
bool roami_os_traced(void); /* a debugger holds this process */
uint64_t roami_os_rss_peak_kb(void); /* the most that was resident, since exec or fork */
/* Whether the machine has several domains of memory, of which each is near to some CPUs. */
bool roami_os_numa(void);

/* Bytes that may still be had: of the machine, and of our memory cgroup; 0 if unknown. */
uint64_t roami_os_memory_free(void);

/* Processes that the kernel has killed so far because our memory cgroup was full; 0 if unknown. */
uint64_t roami_os_oom_kills(void);
uint64_t roami_os_random(void);
/* Bytes that cannot be guessed; false: the kernel gives none. */
bool roami_os_secret(void *bytes, size_t count);

/*
 * Where code lies: file and offset for addr2line, and the symbol if it is exported.  And data: the
 * address, with the same if it is a static.
 */
#define ROAMI_OS_POSITION_BYTES 144
void roami_os_position(const void *code, char text[ROAMI_OS_POSITION_BYTES]);
void roami_os_object(const void *object, char text[ROAMI_OS_POSITION_BYTES]);

#endif
