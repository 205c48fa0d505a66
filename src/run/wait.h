/* Waiting with real threads: spin, yield, sleep (rule 4); the service thread. */
#ifndef ROAMI_WAIT_H
#define ROAMI_WAIT_H

#include <pthread.h>

#include "base/layers.h"
#include "base/node.h"

/* The numbers of the node's threads, see seat.c. */
struct roami_seats {
	pthread_key_t key;
	bool keyed;
	_Atomic uint64_t open;    /* the round in which seats are given back; 0: none */
	_Atomic uint32_t leaving; /* threads that give theirs back */
	_Atomic uint64_t taken[ROAMI_THREADS_MAX / 64]; /* bits */
	_Atomic int32_t tids[ROAMI_THREADS_MAX];        /* the kernel's numbers of their threads */
};

/* Where the threads sleep whose ticket modulo ROAMI_NOOKS is this nook's index. */
#define ROAMI_NOOKS 1024u

struct roami_nook {
	_Atomic uint32_t calls; /* a futex */
	_Atomic uint32_t asleep;
};

/* State of the surroundings of one node of real threads; `env_state` of the node. */
struct roami_real {
	pthread_t service;
	bool service_runs;
	_Atomic uint32_t stop;
	_Atomic uint32_t helpers; /* threads of this process that are the library's own */
	/* Others of the library's own: what they do for processes outside of the job may matter. */
	_Atomic uint32_t aside;
	int tasks;                /* the kernel's directory of the process's threads; 0: none */
	bool measured;            /* the policy below is this machine's */
	bool fits;                /* the host's nodes fit its CPUs */
	uint32_t crowd;           /* more threads of this node that wait awake are too many */
	uint64_t pause_ns;        /* how long to pause-spin */
	uint64_t spin_ns;         /* then yield until this after the start; then sleep */
	_Atomic uint64_t taken_until; /* until then no thread yields, see real_yield */
	_Atomic uint64_t taken_ns;    /* the length of that pause */
	uint64_t chaos;           /* ROAM_CHAOS; 0: off */
	uint64_t round;           /* counts the nodes this state has served: seats hold for one */
	struct roami_seats seats;
	struct roami_nook nooks[ROAMI_NOOKS];
	/* Of transports that a thread can sleep at, see wait_net.c. */
	_Atomic uint32_t watcher;       /* a thread of the application sleeps at the transport */
	_Atomic uint64_t service_until; /* the service thread sleeps; UINT64_MAX: for ever */
	_Atomic uint64_t entries;       /* waits begun */
	_Atomic uint64_t often_ns;      /* when the last of so many began */
	void (*on_first_end)(struct roami_real *real); /* the first thread ends; or NULL */
	void (*on_fail)(struct roami_node *node,
			const char *text); /* ends the job; does not return */
};

extern const struct roami_env roami_env_real;
extern const struct roami_env roami_env_chaos; /* roami_env_real with delays at every step */

/*
 * Fills in the waiting policy for `nodes` on this host, of `threads` each.  `spin_us` 0: twice the
 * wake-up cost measured here.
 */
void roami_real_init(struct roami_real *real, unsigned nodes, unsigned threads, uint64_t spin_us,
		     uint64_t chaos);

/* The calling thread's number; `thread` of both environments. */
unsigned roami_seat(struct roami_node *node);

/* The kernel's number of a thread; 0: there is none of this number. */
int roami_seat_tid(struct roami_node *node, unsigned number);

/* Whether it has one already. */
bool roami_seated(const struct roami_node *node);

/*
 * The calling thread is the library's own and never looks at the app view: it has a number until
 * the round ends, but does not count among the threads that use the node.
 */
void roami_seat_aside(struct roami_node *node);

/* The calling thread is counted by the barriers of all threads, or no more.  ROAM_ESTATE: again. */
enum roam_err roami_thread_register(struct roami_node *node, bool on);

/*
 * A round begins, before its node is opened: all seats are free, and ends of threads give theirs
 * back; until they are shut, when other nodes of the job may be about to leave.  Shutting waits for
 * the threads that are giving theirs back.
 */
void roami_seats_open(struct roami_real *real);
void roami_seats_shut(struct roami_real *real);
/* For good: ends of threads do not look at `real` any more. */
void roami_seats_end(struct roami_real *real);

/* Wakes all threads of this node that sleep in a wait, to look again. */
void roami_wake_all(struct roami_node *node);

/*
 * The program ends in a handler of a signal that came in a wait of this thread, which will not go
 * on: others handle messages from now on.
 */
void roami_wait_abandon(struct roami_node *node);

/* The service thread serves messages while no application thread does. */
enum roam_err roami_service_start(struct roami_node *node);
void roami_service_stop(struct roami_node *node);

/* ---- wait_net.c: waiting where peers cannot reach the bell */

/* Whether threads of this node sleep at the transport. */
static inline bool roami_net(const struct roami_node *node)
{
	return layers_of(node)->sleeper != NULL;
}

/*
 * An application thread sleeps, at most until the time `until` (0: no limit); `value`: the bell's
 * futex before the condition was checked; `rests`: see roami_inside_rest.
 */
void roami_net_sleep(struct roami_node *node, uint32_t value, uint64_t until, bool rests,
		     bool (*condition)(void *arg), void *arg);

/* An application thread begins to wait: from now on it handles arriving messages. */
void roami_net_enter(struct roami_node *node);

/* An application thread ends its wait: makes sure that another thread handles messages. */
void roami_net_leave(struct roami_node *node);
void roami_net_abandon(struct roami_node *node); /* of roami_wait_abandon */

/*
 * A message for `peer` was kept or sent.  Returns whether a thread must see to the timers that it
 * began.
 */
bool roami_net_ring(struct roami_node *node, unsigned peer);

/* Perhaps no thread polls: the service thread must wake for the timers, and see datagrams. */
void roami_net_cover(struct roami_node *node);

/* Wakes the application threads that sleep. */
void roami_net_wake_apps(struct roami_node *node);

void roami_net_service(struct roami_node *node);
void roami_net_service_stop(struct roami_node *node);

/* How long a sleep may last, as delayed messages wake no thread.  0: for ever. */
uint64_t roami_sleep_ns(struct roami_node *node);

/*
 * The longest sleep of an application thread whose condition may hold at the time `until`; 0: at no
 * particular time.
 */
uint64_t roami_app_sleep_ns(struct roami_node *node, uint64_t until);

#endif
