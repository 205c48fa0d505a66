/* Waiting with real threads: spin, yield, sleep (RULES 4); the service thread. */
#ifndef ROAMI_WAIT_H
#define ROAMI_WAIT_H

#include <pthread.h>

#include "core/node.h"

/* State of the surroundings of one node of real threads; `env_state` of the node. */
struct roami_real {
	pthread_t service;
	bool service_runs;
	_Atomic uint32_t stop;
	bool measured;            /* the policy below is this machine's */
	bool fits;                /* the host's nodes fit its CPUs */
	uint64_t pause_ns;        /* pause-spin so long */
	uint64_t spin_ns;         /* then yield until so long after the start; then sleep */
	uint64_t chaos;           /* ROAM_CHAOS; 0: off */
	_Atomic uint32_t threads; /* numbers given to threads */
	uint64_t round;           /* counts the nodes this state has served: numbers hold for one */
	void (*on_fail)(struct roami_node *node,
			const char *text); /* ends the job; does not return */
};

extern const struct roami_env roami_env_real;
extern const struct roami_env roami_env_chaos; /* the same with delays at every step */

/*
 * Fills in the waiting policy for `nodes` on this host.  `spin_us` 0: twice the wake-up cost
 * measured here.
 */
void roami_real_init(struct roami_real *real, unsigned nodes, uint64_t spin_us, uint64_t chaos);

/* The service thread serves messages while no application thread does. */
enum roam_err roami_service_start(struct roami_node *node);
void roami_service_stop(struct roami_node *node);

/* Wakes everything that sleeps at the bell. */
void roami_bell_wake_all(struct roami_bell *bell);

#endif
