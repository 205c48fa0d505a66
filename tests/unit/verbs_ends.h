/*
 * Two connected nodes of the verbs transport whose queue pairs belong to the test, which does with
 * them what a card does.  A part is read from the sender's buffer some time later, which the test
 * draws, and needs a buffer that the peer has posted; later still the nodes learn of it.  One-sided
 * operations have a queue pair of their own; an error there ends all that it has under way, and
 * that of the peer, until both are made anew.
 */
#ifndef VERBS_ENDS_H
#define VERBS_ENDS_H

#include "transport/verbs.h"

#define ENDS     2u
#define BUFFERS  VERBS_BUFFERS_MIN
#define QUEUE    1024u
#define MESSAGES 3000u
#define TURN_NS  10000u
#define SECOND   UINT64_C(1000000000)
#define SLOTS    3u
#define BOUNCES  (VERBS_PUTS + 4) /* pages, of which SLOTS are used unless a test wants more */
#define PARTS    3u
#define REFUSED  1u /* the part that cannot be registered */
#define SHARED   ((PARTS - 1) * VERBS_PART + 2 * VERBS_READ_MAX)
#define LINE     64u

extern const struct roam_transport roami_transport_verbs;

struct queue {
	struct ibv_wc done[QUEUE];
	unsigned put, got;
	unsigned ready; /* completions up to here are told to the node */
};

struct end {
	struct verbs_state verbs;
	struct ibv_context context;
	struct ibv_qp qp;
	struct ibv_cq in_cq, out_cq;
	struct ibv_mr region;
	struct ibv_sge posted[QUEUE];
	uint64_t posted_id[QUEUE];
	unsigned posted_put, posted_got;
	struct ibv_sge leaving[QUEUE];
	uint64_t leaving_id[QUEUE];
	unsigned leaving_put, leaving_got;
	struct queue in, out, landings;
	struct ibv_qp remote;
	bool remote_ready;
	uint32_t remote_number; /* of queue pairs that were made */
	struct ibv_send_wr putting[QUEUE]; /* WRITEs, and the messages behind them */
	struct ibv_sge putting_from[QUEUE];
	unsigned putting_put, putting_got;
	struct ibv_sge room[QUEUE]; /* buffers for these messages */
	uint64_t room_id[QUEUE];
	unsigned room_put, room_got;
	bool puts_fail; /* the next WRITE does */
	struct ibv_cq landings_cq;
	struct ibv_mr parts[PARTS], bounce_region, in_region;
	bool registered[PARTS];
	struct ibv_send_wr reading[SLOTS]; /* READs under way, each with its part */
	struct ibv_sge reading_to[SLOTS];
	unsigned reading_count;
	bool reads_fail, reads_wait; /* the next one does; none lands */
	bool fails; /* the card can no longer reach the peer */
	uint32_t sent, delivered;
	uint32_t sums[MESSAGES]; /* of the messages sent */
	uint8_t memory[2 * BUFFERS * VERBS_BUFFER];
	uint8_t rest[VERBS_MESSAGE_MAX], message[VERBS_MESSAGE_MAX];
	uint8_t bounce[BOUNCES * VERBS_READ_MAX];
	uint8_t puts_in[VERBS_PUTS * VERBS_PUT_MESSAGE];
	uint8_t shared[SHARED];
};

extern struct end ends[ENDS];
extern uint64_t clock_ns, draw;
extern unsigned lost_peer, lost_count, notes;
extern unsigned registrations, deregistrations;

/* Whether these bytes are the message of a put, which it then takes; NULL: there are no puts. */
extern bool (*put_take)(const struct end *end, const void *data, size_t bytes);

/* Opens both nodes, connected, with nothing under way. */
void ends_open(void);

/* Sends a message of random bytes, if there is room for it and MESSAGES were not sent yet. */
void end_send(struct end *end);

/* Checks that the peer's messages come whole, each once, in order; refuses some for a while. */
bool end_take(void *arg, unsigned from, const void *data, size_t bytes);

/* Takes what has come to a node. */
void end_poll(struct end *end);

#endif
