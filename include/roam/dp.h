/*
 * Endpoints: messages between nodes, for programs that want roam's transports without its memory.
 *
 * The idea is that of Directed Point (Lee, Tam and Wang 1998) and of Socket-DP: a process opens
 * *endpoints*, which have numbers, and sends to the pair of a node and an endpoint there.  Arrivals
 * need no thread of the program: they are put into the endpoint's memory at once, and a descriptor
 * becomes readable, so that select, poll and epoll work.
 *
 *	roam_dp_open(7, &dp);                                 on each node
 *	roam_barrier_all();
 *	roam_dp_send(dp, 1, 7, "hello", 5, 0);                to endpoint 7 of node 1
 *	roam_dp_receive(dp, buffer, sizeof(buffer), 0, &got); what came first
 *
 * Two programs that are no nodes of a job can do the same, see roam_dp_meet.
 *
 * Messages.  Each arrives once and whole, and those from one node to one endpoint in the order
 * sent, over every transport: what a transport cannot send in one piece is cut, and joined again
 * where it arrives.  A message has 0 to ROAM_DP_MESSAGE_MAX bytes.  It says nothing about the
 * heap of roam.h: what a program stores there still needs that header's synchronisation.
 *
 * Room.  An endpoint keeps up to ROAM_DP_ROOM bytes from each node until they are received: of each
 * message its bytes, rounded up to 16, and 16 more.  roam_dp_send returns when the message is on
 * its way; it waits only while there is no room for it at the endpoint.  So a node that does not
 * receive holds up those that send to that endpoint, and nobody else.
 *
 * Timeouts are in nanoseconds; 0: without a limit.  A call that was timed out has done nothing.
 * Before the first message to an endpoint its node is asked whether the endpoint is open; the
 * answer comes without that program's help, but not at once: a first message with ROAM_DP_TRY is
 * mostly timed out.
 *
 * Threads.  Any number of threads may use an endpoint at the same time, but not while one closes
 * it.  When the job ends, creates nodes, or parts from the other program, calls under way return
 * ROAM_ESTATE, also those that wait, and descriptors that were made before are readable.  Meanwhile
 * no thread may open an endpoint, nor close one, unless a call with that one has returned
 * ROAM_ESTATE: then roam_dp_close waits until roam is done with it.  Signal handlers and
 * transactions must not: there calls return ROAM_ESTATE, and roam_dp_close does nothing.  A thread
 * need not call roam_thread_init for that, except to send from, or receive into, the heap.
 *
 * Errors that every call can return: ROAM_EINVAL, ROAM_ESTATE (the endpoint is of a round of nodes
 * that is over: those opened before CREATE cannot be used behind it), and those of roam_start.
 */
#ifndef ROAM_DP_H
#define ROAM_DP_H

#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROAM_DP_MESSAGE_MAX ((size_t)256 * 1024) /* bytes of a message */
#define ROAM_DP_ROOM        ((size_t)512 * 1024) /* kept for each node that sends */
#define ROAM_DP_OPEN_MAX    64u                  /* endpoints that a node has open */
#define ROAM_DP_PEERS_MAX   1024u                /* open endpoints to which a node has sent */

#define ROAM_DP_TRY UINT64_MAX /* as a timeout: do not wait at all */

struct roam_dp;

/*
 * Opens an endpoint of this node; numbers are the program's, all but UINT32_MAX.  Errors:
 * ROAM_EBUSY (the node has it open), ROAM_ENOSPC (ROAM_DP_OPEN_MAX), ROAM_ENOMEM.
 */
ROAM_RESULT enum roam_err roam_dp_open(uint32_t endpoint, struct roam_dp **dp_p);

/* Closes it; what has not been received is lost.  NULL: does nothing. */
void roam_dp_close(struct roam_dp *dp);

/*
 * Sends a message to an endpoint of a node, which may be this one.  Errors: ROAM_EUNKNOWN (the node
 * does not have it open, or has closed it: what was sent and not received is lost),
 * ROAM_ETOOBIG, ROAM_ETIMEDOUT (there was no room, or no answer yet), ROAM_ENOSPC
 * (ROAM_DP_PEERS_MAX).
 */
enum roam_err roam_dp_send(struct roam_dp *dp, unsigned node, uint32_t endpoint, const void *data,
			   size_t bytes, uint64_t timeout_ns);

/* Where a message came from, and how long it is. */
struct roam_dp_message {
	unsigned node;
	uint32_t endpoint; /* by which it was sent: answers go there */
	size_t bytes;
};

/*
 * Takes the message that came first; `message_p` may be NULL.  Errors: ROAM_ETIMEDOUT (there was
 * none), ROAM_ETOOBIG (it has more than `limit` bytes: *message_p says how many, and it is still
 * there).
 */
enum roam_err roam_dp_receive(struct roam_dp *dp, void *buffer, size_t limit, uint64_t timeout_ns,
			      struct roam_dp_message *message_p);

/*
 * A descriptor, an eventfd, that is readable while messages wait; the same at each call, valid
 * until the endpoint is closed.  The program waits for it and then calls roam_dp_receive with
 * ROAM_DP_TRY; it must not read or write it.  From then on each message costs two system calls
 * more, and waiting at the descriptor takes longer than in roam_dp_receive, because a thread of the
 * library wakes first.  -1: none could be made, roam_errno() says why.
 */
int roam_dp_file(struct roam_dp *dp);

/* ------------------------------------------------------------------------------- two programs */

/*
 * Meets another program, with which this one then exchanges messages without a job: the one that
 * listens is node 0 of two, the one that connects node 1.  Both are given an address, HOST:PORT or
 * the path of a Unix socket (which has a /), and a file with a key: 64 hexadecimal digits that only
 * their owner may read (NULL: the one that ROAM_PS_KEY names; the one that listens makes it if it
 * is not there).  They show each other there that they know the key, and then send messages over
 * the transport that ROAM_TRANSPORT names, for both the same, or else udp; all but those that need
 * the other one's memory, such as shm.  The messages are sealed as between the hosts of a job:
 * authenticated, or as ROAM_SEAL says.
 *
 * The calls above work as in a job, for endpoints that roam_dp_open_pair has opened.  If the other
 * program has parted or ended, or its host is cut off, what it sent before it parted can still be
 * received; then all calls return ROAM_ELOST, and descriptors are readable.
 *
 * A process has one pair at a time, and is no node of a job: roam_start and all that starts roam
 * return ROAM_ESTATE after roam_dp_meet, and roam_dp_meet does after them.
 *
 * `listens`: this program does; the other one must not.  Both wait for each other, whichever comes
 * first; ROAM_DP_TRY is no timeout here.  Errors: ROAM_EKEY, ROAM_EMISMATCH (another ROAM_TRANSPORT
 * or ROAM_SEAL), ROAM_EPROTO (what is there is no such program, or of another version or build),
 * ROAM_ELOST (it went away), ROAM_ETIMEDOUT, ROAM_EUNSUPPORTED (the transport), ROAM_ENOMEM,
 * ROAM_ESYSTEM; each is reported on stderr in one line.
 */
struct roam_dp_pair;
ROAM_RESULT enum roam_err roam_dp_meet(const char *address, const char *key_file, int listens,
				       uint64_t timeout_ns, struct roam_dp_pair **pair_p);

/* roam_dp_open for an endpoint of a pair. */
ROAM_RESULT enum roam_err roam_dp_open_pair(struct roam_dp_pair *pair, uint32_t endpoint,
					    struct roam_dp **dp_p);

/* This program's number: 0 if it listened, else 1. */
unsigned roam_dp_pair_node(const struct roam_dp_pair *pair);

/*
 * Parts: returns when the other program has all that was sent to it, or is gone.  Endpoints that
 * are open can only be closed then.  NULL: does nothing.
 */
void roam_dp_part(struct roam_dp_pair *pair);

#ifdef __cplusplus
}
#endif

#endif
