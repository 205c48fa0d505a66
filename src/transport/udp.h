/*
 * udp: datagrams between hosts, or between the nodes of one.  Nothing is promised: the reliable
 * layer stands over it.  udp.c has the socket and checks senders; two backends move bytes: calls of
 * the kernel (udp_plain.c), and a ring of requests where io_uring is allowed (udp_uring.c).
 */
#ifndef ROAMI_UDP_H
#define ROAMI_UDP_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "ear.h"
#include "know.h"
#include "roam/transport.h"

#define UDP_NODES_MAX 64u
#define UDP_DATAGRAM  9224u /* longest datagram with its mark */
#define UDP_PARTS_MAX 16u

/*
 * Stands before every datagram.  `mark` is a random number of the node it is for: what carries
 * another one is a stranger's, or of an earlier job at the same port (rule 10.2).
 */
struct udp_mark {
	uint64_t mark : 48;
	uint64_t from : 16;
};

_Static_assert(sizeof(struct udp_mark) == 8, "what stands before a datagram");

/* Where a node tells its peers how to reach it: at the start of its memory. */
struct udp_card {
	_Atomic uint64_t mark;
	_Atomic uint64_t address; /* IPv4 address << 16 | port; 0: not open */
};

struct udp_peer {
	struct roami_known known;
	struct sockaddr_in address;
	uint64_t mark;
};

struct udp_state;

/* What moves bytes. */
struct udp_backend {
	const char *name;
	enum roam_err (*open)(struct udp_state *udp);
	void (*close)(struct udp_state *udp);
	/* Hands arrived datagrams to udp_arrived. */
	unsigned (*poll)(struct udp_state *udp, unsigned max);
	bool (*pending)(const struct udp_state *udp);
	int (*pollable)(const struct udp_state *udp); /* the file to sleep at */
};

struct udp_state {
	struct roam_transport_params params;
	int fd;
	struct roami_ear ear;
	uint64_t mark;
	size_t limit; /* without the mark */
	_Atomic uint32_t cuts; /* the kernel splits what is sent at a time (UDP_SEGMENT) */
	size_t room;
	struct udp_card *card;
	struct udp_peer peers[UDP_NODES_MAX];
	const struct udp_backend *backend;
	void *backend_state;
	roam_deliver_fn *deliver; /* of the poll under way */
	void *deliver_arg;
};

extern const struct udp_backend roami_udp_plain;
extern const struct udp_backend roami_udp_uring;

/* Lets the kernel join datagrams that arrive together (UDP_GRO); false: it does not. */
bool roami_udp_joined(struct udp_state *udp);

/*
 * The length of each of the datagrams that the kernel has joined, of which the last may be shorter;
 * 0: it is one datagram.
 */
size_t roami_udp_each(struct msghdr *header);

#define UDP_JOINED 65536u /* bytes of joined datagrams at most */
#define UDP_BESIDE CMSG_SPACE(sizeof(int))

/* Checks whose datagram this is, and hands it on.  `data` is aligned to 8. */
void roami_udp_arrived(struct udp_state *udp, const struct sockaddr_in *source, const void *data,
		       size_t bytes);

#endif
