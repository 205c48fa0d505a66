/*
 * Observing the last tuple of a small element without its node: a program in the kernel, at the
 * interface that ROAM_PS_KERNEL names, answers a datagram out of the memory where the node shows
 * its elements (pastset/shown.h).
 *
 * Rule 11.8: the tuple goes into the element, then into that memory, both under the element's
 * lock, then the move is acknowledged.  An observer that gets such an answer has asked before and
 * is answered after the moment at which the program read, so that this is when the observation
 * took place.
 * Whatever else the observer gets, or nothing, it asks the node by an ordinary call.
 *
 * The datagrams are neither authenticated nor encrypted: only where ROAM_SEAL=off.  show.c has the
 * element's node, look.c the observer.
 */
#ifndef ROAMI_PAST_SHOW_H
#define ROAMI_PAST_SHOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ROAMI_LOOKS 8u /* that are under way at once; others ask the node */

/* Where to ask. */
struct roami_show_at {
	uint64_t secret; /* of the node that shows: it is no other one with this address */
	uint32_t host;   /* IPv4, as in a packet; 0: nowhere */
	uint16_t port;   /* as in a packet */
	uint16_t spare;
};

/* The datagram, there and back; a tuple, or room for it, follows. */
struct roami_show_frame {
	uint32_t magic;
	uint32_t element;
	uint64_t secret;
	uint64_t nonce;
	uint32_t found; /* ROAMI_LOOK_FOUND, or else nothing is there */
	uint32_t bytes;
	uint64_t number;
};

#define ROAMI_LOOK_MAGIC UINT32_C(0x6c6f6f6b)
#define ROAMI_LOOK_FOUND 1u

/* A node's share. */
struct roami_show {
	struct roami_show_at at;
	pid_t pid;  /* the process that has opened it: one that was forked has its files */
	int link;   /* the program's, + 1; 0: none */
	int socket; /* whose port nobody else has, + 1 */
	_Atomic uint64_t nonce;
	_Atomic uint32_t used[ROAMI_LOOKS];
	int sockets[ROAMI_LOOKS]; /* + 1; 0: not open */
};

struct roami_past;
struct roam_ps_element;
struct roam_ps_request;
struct roami_ask;

/* Begins to show the elements, if ROAM_PS_KERNEL says so; a line if that is not possible. */
void roami_show_open(struct roami_past *past, struct roami_show *show);
void roami_show_close(struct roami_past *past, struct roami_show *show);

/* Observes; false: nothing is known, the node must be asked. */
bool roami_show_look(struct roam_ps_element *element, const struct roami_ask *ask,
		struct roam_ps_request *request);

#endif
