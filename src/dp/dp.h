/*
 * Endpoints (include/roam/dp.h): an extension of a node, as PastSet is.  receive.c has this node's
 * endpoints and what has arrived there, send.c what it sends to those of other nodes.
 *
 * The number of bytes that a node may send to an endpoint is its share of the endpoint's memory,
 * less what has not been received; the receiver tells it what was.  So an arrival always finds
 * room, and no handler waits.
 *
 * The room keeps rules 4 (handlers never block; memory of the program, whose touch may fault, is
 * touched outside of handlers and locks) and 10.2 (what peers send is checked).
 */
#ifndef ROAMI_DP_H
#define ROAMI_DP_H

#include <sys/types.h>

#include "msg/msg.h"
#include "os/inside.h"
#include "roam/dp.h"

/* Message types, in the order of the table. */
enum {
	ROAMI_DP_FIND,  /* is the endpoint open?  Answered by the next one: */
	ROAMI_DP_FOUND, /* struct roami_dp_status: its generation; 0: it is not */
	ROAMI_DP_PART, /* struct roami_dp_part, then bytes */
	ROAMI_DP_ROOM, /* struct roami_dp_status: so much was received */
	ROAMI_DP_GONE, /* struct roami_dp_status: the endpoint is not open */
	ROAMI_DP_TYPES
};

/* An endpoint of a number has another generation each time that it is opened; never 0. */
struct roami_dp_part {
	uint32_t endpoint;
	uint32_t generation;
	uint32_t from;   /* the sender's endpoint */
	uint32_t length; /* of the message */
	uint32_t offset; /* of this part in it */
	uint32_t zero;
};

struct roami_dp_status {
	uint32_t endpoint;
	uint32_t generation;
	uint64_t taken; /* bytes of room, ever: those of the messages received */
};

/* Stands before a message in an endpoint's memory. */
struct roami_dp_kept {
	uint32_t bytes;
	uint32_t from; /* endpoint */
	uint64_t zero;
};

/* The room that a message takes. */
static inline uint64_t roami_dp_room(size_t bytes)
{
	return sizeof(struct roami_dp_kept) + ((bytes + 15) & ~(uint64_t)15);
}

/* What one node has sent to an endpoint.  Counts of bytes are since it was opened. */
struct roami_dp_inbox {
	uint8_t *ring;     /* ROAM_DP_ROOM bytes */
	uint64_t put, got; /* room taken by messages that have come, and by those received */
	uint64_t reported; /* `got`, as the sender knows it */
	uint32_t have;     /* bytes that have come of a message of several parts */
	uint32_t length;   /* its length; 0: none is coming */
	bool asked;        /* the sender knows the generation; the list's lock is held */
};

enum {
	ROAMI_DP_ENDS = 1, /* its node closes: calls of the program end */
	ROAMI_DP_OVER      /* its node has closed, and does not touch it any more */
};

struct roam_dp {
	struct roami_node *node; /* NULL: it has closed */
	uint64_t round;          /* of the API: see roami_api_node */
	_Atomic uint32_t users;  /* calls of the program that use it; the node waits for them */
	_Atomic uint32_t over;   /* see below */
	pid_t pid;               /* the process that has opened it */
	uint32_t number;
	uint32_t generation;
	struct roami_spin lock;
	int file; /* -1: nobody has asked for it */
	uint8_t *memory;
	size_t memory_bytes;
	uint8_t *order;                 /* the senders of the messages that wait, oldest first */
	uint64_t order_put, order_got;
	_Atomic uint32_t waiting;       /* messages */
	_Atomic uint32_t receiving;     /* a thread copies the oldest one */
	_Atomic uint32_t sleepers;      /* threads that wait to receive */
	struct roami_dp_inbox inboxes[ROAMI_NODES_MAX];
};

/* What this node sends to one endpoint of a node. */
struct roami_dp_link {
	uint32_t node, endpoint;
	bool used;
	uint32_t users;              /* threads that send or will; the list's lock is held */
	_Atomic uint32_t busy;       /* a thread sends */
	_Atomic uint32_t asks;       /* whether it is open was asked and not answered */
	_Atomic uint32_t generation; /* 0: it is not known whether it is open */
	_Atomic uint64_t sent;       /* room taken by what was sent, before it leaves */
	_Atomic uint64_t taken;      /* of that, what was received */
};

/* Links, and one more for roami_dp_drain. */
#define ROAMI_DP_LINKS_BYTES ((ROAM_DP_PEERS_MAX + 1) * sizeof(struct roami_dp_link))

/* A node's share: the state of the extension. */
struct roami_dp_node {
	unsigned types;
	uint32_t generations;
	struct roami_spin lock;             /* of the lists; before that of an endpoint */
	struct roam_dp *open[ROAM_DP_OPEN_MAX];
	struct roami_dp_link *links;        /* NULL: nothing was sent yet */
	_Atomic uint32_t senders;           /* threads that wait to send */
	_Atomic uint32_t lost;              /* of a pair: the other program is gone */
};

extern const struct roami_room roami_dp_extension;

struct roami_dp_node *roami_dp_of(struct roami_node *node);

/* ROAMI_FOREVER, or a time of the clock that is at `now`, for a timeout of the API. */
static inline uint64_t roami_dp_after(uint64_t now, uint64_t timeout_ns)
{
	return timeout_ns != 0 && timeout_ns < ROAMI_FOREVER - now ? now + timeout_ns
								   : ROAMI_FOREVER;
}

/* That, of env->now. */
uint64_t roami_dp_until(struct roami_node *node, uint64_t timeout_ns);

/* Waits until the condition holds, which it also does when `until` has come. */
void roami_dp_await(struct roami_node *node, uint64_t what, uint64_t until,
		    bool (*condition)(void *arg), void *arg);

/* ---- receive.c */

enum roam_err roami_dp_open(struct roami_node *node, uint32_t number, struct roam_dp **dp_p);
/* Frees it; one whose node has closed is freed, too. */
void roami_dp_close(struct roam_dp *dp);
/* Its node ends: returns when no call uses it any more. */
void roami_dp_end(struct roam_dp *dp);
/* Its node closes: nothing arrives any more.  That, if it was not done before. */
void roami_dp_forget(struct roam_dp *dp);
enum roam_err roami_dp_receive(struct roam_dp *dp, void *buffer, size_t limit, uint64_t timeout_ns,
			       struct roam_dp_message *message);
int roami_dp_file(struct roam_dp *dp);

void roami_dp_find_handle(struct roami_node *node, const struct roam_request *request);
void roami_dp_part_handle(struct roami_node *node, const struct roam_request *request);

/* The other nodes are gone: what waits is still received, nothing is sent.  Any thread. */
void roami_dp_lose(struct roami_node *node);

/* ---- send.c */

/* Returns when a node has all that was sent to it, or is gone. */
void roami_dp_drain(struct roami_node *node, unsigned peer);

/* `heap`: the bytes may lie in the heap, where a touch may fault. */
enum roam_err roami_dp_send(struct roam_dp *dp, unsigned node, uint32_t endpoint, const void *data,
			    size_t bytes, bool heap, uint64_t timeout_ns);

void roami_dp_found_handle(struct roami_node *node, const struct roam_request *request);
void roami_dp_room_handle(struct roami_node *node, const struct roam_request *request);
void roami_dp_gone_handle(struct roami_node *node, const struct roam_request *request);

#endif
