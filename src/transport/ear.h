/*
 * Where threads sleep for a transport whose arrivals make a descriptor readable: wait, wake and
 * listen of roam/transport.h.
 *
 * The room keeps rules 4 (messages of one peer stay in order, where a transport promises that;
 * sleepers look again before they sleep, here), 9.4 (one slow link, in sim.h) and 10.2 (lengths and
 * datagrams of peers are checked as if they were hostile: shm.c, udp.h, packet.h, verbs_hello.h).
 */
#ifndef ROAMI_EAR_H
#define ROAMI_EAR_H

#include "roam/transport.h"

struct roami_ear {
	int file;    /* the transport's: readable while something has arrived */
	int wake[2]; /* eventfds, one per sleeper */
	int set;     /* an epoll of `file` and `files`, for the service thread's sleep */
	int bell;    /* of the params; 0: none */
	int files[ROAM_STACKS_MAX]; /* of other transports */
	unsigned file_count;
};

/* Called before open, so that close may follow at any time. */
void roami_ear_init(struct roami_ear *ear);

enum roam_err roami_ear_open(struct roami_ear *ear, const struct roam_transport_params *params,
			     int file);
void roami_ear_close(struct roami_ear *ear);

void roami_ear_wait(struct roami_ear *ear, enum roam_sleeper who, uint64_t timeout_ns);
void roami_ear_wake(const struct roami_ear *ear, enum roam_sleeper who);
void roami_ear_listen(struct roami_ear *ear, bool on);

#endif
