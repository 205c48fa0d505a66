/* What a node keeps of messages; internal to src/msg, but for tests that count or change it. */
#ifndef ROAMI_MSG_STATE_H
#define ROAMI_MSG_STATE_H

#include "msg/msg.h"

#define ROAMI_CALLS_MAX     (ROAMI_THREADS_MAX * ROAMI_CALLS_EACH) /* a power of two */
#define ROAMI_CALL_SERIALS  (UINT32_MAX / ROAMI_CALLS_MAX / 2 + 1) /* then they begin anew */

/* What stands before every payload. */
struct roami_msg_header {
	uint16_t type;
	uint16_t origin;
	uint32_t call;
	uint32_t bytes;
	uint32_t flags; /* ROAMI_ANSWER_..., or: */
};

#define ROAMI_MSG_REPLY 1u
#define ROAMI_MSG_MANY  16u /* several requests of a word each: struct roami_msg_many */

_Static_assert(sizeof(struct roami_msg_header) == 16, "message header");

struct roami_msg_many {
	uint32_t call;
	uint32_t spare;
	uint64_t what;
};

/* Messages that wait: parked for a page, delayed until a time, or out for a full ring. */
struct roami_parked {
	uint32_t page;
	uint32_t bytes;
	uint64_t when; /* 0: parked for the page */
	struct roam_request request;
};

/* A type of message. */
struct roami_type {
	const struct roam_message *message; /* NULL: none */
	unsigned region; /* whose protocol's it is; ROAMI_REGION_NONE: a room's */
};

struct roami_msg {
	struct roami_spin poll_lock;
	uint32_t polls; /* that found something; poll_lock is held */
	_Atomic uint64_t asked; /* requests handed to handlers */
	_Atomic uint64_t received;              /* messages since the node was opened */
	_Atomic uint64_t sent[ROAMI_NODES_MAX]; /* messages, to each node */
	_Atomic uint64_t aside_received, aside_sent; /* of these, see roami_msg_send_aside */
	_Atomic uint32_t reading; /* threads that wait for what cards read */
	struct roami_spin call_lock;
	struct roami_spin out_lock[ROAMI_NODES_MAX];
	struct roami_vec out[ROAMI_NODES_MAX]; /* bytes: length word, message, padded */
	size_t out_first[ROAMI_NODES_MAX];
	_Atomic uint32_t out_waiting; /* peers with queued messages */
	struct roami_call calls[ROAMI_CALLS_MAX];
	uint32_t call_serial;
	struct roami_spin parked_lock;
	struct roami_vec parked;      /* struct roami_parked with payload, back to back */
	struct roami_vec parked_copy; /* the one being handled */
	_Atomic uint64_t delay_next;  /* earliest `when`; UINT64_MAX: none */
	struct roami_vec types;       /* struct roami_type, by the type of a message */
	const struct roami_answers *answers[ROAMI_NODES_MAX]; /* by peer */
	void (*handled)(struct roami_node *node); /* a handler has returned */
};

static inline struct roami_msg *msg_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_MSG].state;
}

/* Sends the message, or queues it, and wakes a thread that sleeps for it at `to`. */
void roami_msg_put(struct roami_node *node, unsigned to, const struct roami_msg_header *header,
		   const struct roam_part *parts, unsigned count);

/* Sends a message behind the bytes of a put (roam/transport.h); false: the card has no room. */
bool roami_msg_put_behind(struct roami_node *node, unsigned to,
			  const struct roami_msg_header *header, const struct roam_put *puts,
			  unsigned count, const struct roam_part *part);

/* The length of a payload, which must not be too long. */
uint32_t roami_msg_bytes(const struct roam_part *parts, unsigned count);

/* In calls.c: a reply has come; fails the node if no call waits for it.  poll_lock is held. */
void roami_msg_answered(struct roami_node *node, unsigned from,
			const struct roami_msg_header *header, const void *data);

/*
 * Takes one request that is due out of the parked ones into `copy`; false if none is.  poll_lock is
 * held.
 */
bool roami_msg_parked_take(struct roami_node *node, struct roami_vec *copy);

#endif
