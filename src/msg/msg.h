/*
 * Active messages between nodes: sending, calls and replies, parking.  Protocols see the part in
 * roam/protocol.h.
 *
 * Keeps rule 4: messages of one peer are handled in the order sent, one handler at a time.
 */
#ifndef ROAMI_MSG_H
#define ROAMI_MSG_H

#include "base/node.h"

/* Longest payload of one message. */
#define ROAMI_MSG_MAX (60u * 1024)

#define ROAMI_REGION_NONE   UINT32_MAX /* no protocol's */
#define ROAMI_CALLS_EACH    64u /* under way, of one thread at most */

struct roami_call {
	_Atomic uint32_t state; /* 0 free, 1 waiting, 2 answered */
	uint32_t id;
	uint8_t *reply;
	size_t reply_max;
	size_t bytes;
	uint8_t *page;   /* where the bytes of a page go that come with the reply; may be NULL */
	uint32_t page_at; /* they came: 1; or are to be copied from a node: 2 + it */
};

/* How an answer brings the bytes of a page: bits of a message's flags. */
#define ROAMI_ANSWER_PAGE 2u /* they follow the payload */
#define ROAMI_ANSWER_LEFT 4u /* they are to be copied from the sender's memory */
#define ROAMI_ANSWER_PUT  8u /* the sender has put them in place */
#define ROAMI_ANSWERS     (ROAMI_ANSWER_PAGE | ROAMI_ANSWER_LEFT | ROAMI_ANSWER_PUT)

/* How answers bring pages, from this node to a peer and from the peer to this node. */
struct roami_answers {
	uint32_t left; /* one that stays in place: ROAMI_ANSWER_... */
	uint32_t put;  /* one that `buffer` was filled for */
	/* Where the bytes are to be stored: in the asker's memory, or in `spare`. */
	uint8_t *(*buffer)(struct roami_node *node, unsigned asker, uint32_t page, uint8_t *spare);
};

/* They are chosen with a peer's reach, before the node sends or gets a message. */
void roami_msg_answers_set(struct roami_node *node, unsigned peer,
			   const struct roami_answers *answers);
const struct roami_answers *roami_msg_answers(const struct roami_node *node, unsigned peer);

/* `handled` is called whenever a handler has returned, on its thread. */
void roami_msg_handled_by(struct roami_node *node, void (*handled)(struct roami_node *node));

/*
 * Gives the messages of a table the next types, from *first_p on.  All nodes of a job register
 * alike, in one order, before they are sent anything.  `region`: whose protocol's they are, or
 * ROAMI_REGION_NONE.
 */
enum roam_err roami_msg_register(struct roami_node *node, const struct roam_message *messages,
				 unsigned region, unsigned *first_p);

/* The message of a type; NULL: there is no such type. */
const struct roam_message *roami_msg_named(const struct roami_node *node, unsigned type);

/* Like roami_send and roami_call, with the global type. */
void roami_msg_send(struct roami_node *node, unsigned to, unsigned type,
		    const struct roam_part *parts, unsigned count);
size_t roami_msg_call(struct roami_node *node, unsigned to, unsigned type,
		      const struct roam_part *parts, unsigned count, void *reply, size_t reply_max);

/* A call in two halves, so that several can be under way.  app. */
struct roami_call *roami_msg_call_start(struct roami_node *node, unsigned to, unsigned type,
					const struct roam_part *parts, unsigned count, void *reply,
					size_t reply_max);
size_t roami_msg_call_end(struct roami_node *node, struct roami_call *call);

/*
 * A call whose request is the message of a put (roam/transport.h): whoever gets it finds the bytes
 * stored.  NULL: the card has no room, and nothing has begun.  Never blocks.
 */
struct roam_put;
struct roami_call *roami_msg_call_put(struct roami_node *node, unsigned to, unsigned type,
				      const struct roam_put *puts, unsigned count,
				      const struct roam_part *part, void *reply, size_t reply_max);

/* Whether the end would find the reply there; to be waited for.  `call`: a struct roami_call. */
bool roami_msg_call_answered(void *call);

/* Ends a call that will not be answered. */
void roami_msg_call_drop(struct roami_call *call);

/* Batch limit, so that every thread of a node can have one batch outstanding. */
#define ROAMI_CALLS_AT_ONCE ROAMI_CALLS_EACH

/* A call whose request is one word, and whose answer may bring the bytes of a page. */
struct roami_query {
	unsigned to;
	uint64_t what;
	void *reply;
	size_t reply_max;
	uint8_t *page;           /* where they go */
	struct roami_call *call; /* set meanwhile */
};

/*
 * Begins calls of one type, those to one node in one message, at most ROAMI_CALLS_AT_ONCE.  Each is
 * answered and ended by itself; *came_p: a page came.  Handlers answer by roami_reply, or by
 * roami_msg_reply_page.
 */
void roami_msg_ask(struct roami_node *node, unsigned type, struct roami_query *asks,
		   unsigned count);
size_t roami_msg_answer(struct roami_node *node, struct roami_query *ask, bool *came_p);

/* A reply that brings a page: `answer` is a ROAMI_ANSWER_... of this node; _PAGE: the last part. */
void roami_msg_reply_page(struct roami_node *node, const struct roam_request *request,
			  uint32_t answer, const struct roam_part *parts, unsigned count);

/*
 * A call whose answer may bring a page, to `page`.  The end's *page_at_p: 0: it did not; 1: it is
 * there; 2 + a node: it is to be copied from that.
 */
struct roami_call *roami_msg_call_page_start(struct roami_node *node, unsigned to, unsigned type,
					     const struct roam_part *parts, unsigned count,
					     void *reply, size_t reply_max, uint8_t *page);
size_t roami_msg_call_page_end(struct roami_node *node, struct roami_call *call,
			       uint32_t *page_at_p);

/* roami_reply to a caller that waits since its call: wakes no other thread there. */
void roami_msg_reply_awaited(struct roami_node *node, const struct roam_request *request,
			     const struct roam_part *parts, unsigned count);

/* roami_msg_send without a wake-up: a thread that polls or waits for the message takes it. */
void roami_msg_send_awaited(struct roami_node *node, unsigned to, unsigned type,
			    const struct roam_part *parts, unsigned count);

/* Handles waiting messages, if no other thread of the node does so already; how many. */
unsigned roami_msg_poll(struct roami_node *node);

/*
 * One turn of waiting for another node that will be done soon and sends no wake-up: handles
 * messages, then lets other threads run.  `turn`: how often in a row before.
 */
static inline void roami_msg_pause(struct roami_node *node, unsigned turn)
{
	roami_msg_poll(node);
	node->env->spin(node, turn);
}

/* Whether some thread is in roami_msg_poll, as in every handler; for contracts. */
bool roami_msg_polling(const struct roami_node *node);

/* Whether something waits to be handled now. */
bool roami_msg_pending(struct roami_node *node);

/* Requests that were handed to their handlers. */
uint64_t roami_msg_asked(const struct roami_node *node);

/*
 * roami_msg_send of a message that roami_msg_count leaves out; roami_msg_aside: the request being
 * handled is one.
 */
void roami_msg_send_aside(struct roami_node *node, unsigned to, unsigned type,
			  const struct roam_part *parts, unsigned count);
void roami_msg_aside(struct roami_node *node);

/*
 * Counts the messages sent and received, none of them in the middle of its handling; *kept_p: some
 * are kept until later.  Returns false, and counts none, while a thread polls.
 */
bool roami_msg_count(struct roami_node *node, uint64_t *sent_p, uint64_t *received_p,
		     bool *kept_p);

/*
 * A thread waits for what a card reads (1), or no longer does (-1).  That is no message, but others
 * may wait for what the thread then does: meanwhile roami_msg_count says that messages are kept.
 */
void roami_msg_reads(struct roami_node *node, int change);

/* Whether own messages wait for room in a peer's ring. */
bool roami_msg_stuck(struct roami_node *node);

/* When a delayed request is due, or a layer of the transport; UINT64_MAX: never. */
uint64_t roami_msg_due(struct roami_node *node);

/* Nanoseconds until then. */
uint64_t roami_msg_due_ns(struct roami_node *node);

/*
 * Keeps a request until roami_msg_unpark of its page, if `when` is 0, or until then; its handler
 * gets it again.
 */
void roami_msg_keep(struct roami_node *node, const struct roam_request *request, uint32_t page,
		    uint64_t when);

/* Requests parked for `page` may be handled again. */
void roami_msg_unpark(struct roami_node *node, uint32_t page);

#endif
