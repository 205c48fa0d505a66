/*
 * Jobs that hang.  Each node has a thread that sleeps until it is asked.  The one of node 0 looks
 * once a second whether the nodes still synchronise, and reports what they wait for: at SIGQUIT,
 * after ROAM_HANG seconds, or, if no thread of the job can ever go on, as the reason why the job
 * ends.  Jobs that would go on wrong, too, because the program has closed descriptors of ours.
 */
#ifndef ROAMI_HANG_H
#define ROAMI_HANG_H

#include <pthread.h>
#include <signal.h>

#include "os/os.h"
#include "run/wait.h"

struct roami_hang;

/*
 * How this node looks at a peer: in the peer's control page, or in the copy here of what it tells.
 */
struct roami_look {
	bool copied; /* the copy: it is as old as the peer's last answer */
	/* Asks the peer to say how it is; `token`: an answer by message will have it. */
	void (*ask)(struct roami_hang *hang, unsigned peer, uint32_t token);
	bool (*answered)(const struct roami_hang *hang, unsigned peer);
	/* Forgets a copy that nobody keeps up to date. */
	void (*forget)(struct roami_hang *hang, unsigned peer);
	/* Passes a request `by` to report (ctl->ask), and ctl->quits, on to node 0. */
	void (*pass)(struct roami_node *node, uint32_t by);
};

/* Why a node fails that finds a descriptor closed: of those below, or the way to its agent. */
#define ROAMI_HANG_CLOSED "the program has closed descriptors that roam had opened, and needs"

/* What a launcher adds to a SIGQUIT that it passes on to all nodes, with its number, from 1 on. */
#define ROAMI_HANG_PASSED (UINT64_C(0x726f616d) << 32)

static inline union sigval roami_hang_passed(uint32_t number)
{
	return (union sigval){.sival_ptr = (void *)(uintptr_t)(ROAMI_HANG_PASSED | number)};
}

struct roami_hang {
	struct roami_node *node;
	struct roami_real *real;
	pthread_t thread;
	struct roami_fd_mark needed[3]; /* of the segment, the engine, the transport */
	bool runs;
	bool apart; /* some nodes are on other hosts */
	const struct roami_look *look[ROAMI_NODES_MAX]; /* by peer */
	_Atomic uint32_t stop;
	/* This node's last look at all: */
	uint32_t asked[ROAMI_NODES_MAX];  /* the number by which an answer to this look is known */
	uint32_t looked[ROAMI_NODES_MAX]; /* the serials of these answers */
	uint32_t answered; /* the serial of this node's last answer */
	/*
	 * Since when nothing has changed, and the sums that show it: of this host, and of the
	 * others.
	 */
	uint64_t still_since;
	uint64_t turns;
	uint64_t far_turns;
	bool far_noted;
	bool reported; /* ROAM_HANG has reported this standstill */
	uint64_t reported_at;   /* when the last report by a signal began */
	uint32_t quits[ROAMI_QUITS]; /* the last that this node has passed on, or reported for */
	bool where;             /* the report under way is for `roam where` */
	uint32_t skip, skipped; /* ticks without a probe: still to come, and after the last probe */
	/* A probe under way, and what its first look found. */
	bool probing;
	uint64_t probed_turns;
	uint64_t sent, received;
};

/*
 * Starts the node's thread; the node is open and its service thread runs.  `fd` is its segment's:
 * once a second, and when it stops, the thread looks whether the program has closed it, or those of
 * engine and transport, as those do that close all descriptors.  Without them engines see no
 * accesses any more, and no message comes.
 */
void roami_hang_start(struct roami_hang *hang, struct roami_node *node, struct roami_real *real,
		      int fd);
void roami_hang_stop(struct roami_hang *hang);

/*
 * Where a running thread of this process is; NULL: not known, because it blocks signals, or has had
 * no processor until this time (roami_os_now_ns).
 */
const void *roami_hang_sample(pid_t tid, uint64_t until);

/* ---- last.c: the end of the program's last thread, if the first one has ended before */

/*
 * The first thread is about to end, or has ended: the process ends after the last thread of the
 * program, as by exit(0).
 */
void roami_last_begin(struct roami_real *real);

/* Begins it if the first thread has ended without that. */
void roami_last_look(struct roami_real *real);

/* How many of the process's threads are neither the program's nor helpers, once it has begun. */
unsigned roami_last_threads(struct roami_real *real);

/* How many threads wait at the job's end that no barrier counts: the one that ends the process. */
unsigned roami_last_waits(struct roami_real *real);

/* ---- look.c: what the nodes say of themselves */

/* Wakes the thread of a node whose control page is mapped. */
void roami_look_at(struct roami_ctl *ctl);

/* Sets `look` and `apart`. */
void roami_look_init(struct roami_hang *hang);

/* Asks all nodes; false: one has not answered in time. */
bool roami_look_all(struct roami_hang *hang);
bool roami_look_answered(const struct roami_hang *hang, unsigned peer);

/* Forgets what is known of other hosts' nodes. */
void roami_look_forget(struct roami_hang *hang);

/* Answers the nodes that have asked this one. */
void roami_look_answer(struct roami_hang *hang);

/* How many threads of the node wait for other threads of the job, and for nothing else. */
unsigned roami_look_waiting(const struct roami_ctl *ctl);

#endif
