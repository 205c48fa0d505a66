/*
 * Transactions: attempts of a function that begin anew when what they read has changed; the commit
 * token.  What happens to pages is the protocol's (struct roam_transactions).
 *
 * The room keeps rules 8.3, 8.5 to 8.9 and 8.11.
 */
#ifndef ROAMI_TX_H
#define ROAMI_TX_H

#include "base/node.h"
#include "os/restart.h"

enum {
	ROAMI_TX_NONE,
	ROAMI_TX_OPEN,    /* writes make twins */
	ROAMI_TX_DOOMED,  /* likewise, and nothing of it counts */
	ROAMI_TX_WATCHES, /* undone; waits for a change of what it has read */
	ROAMI_TX_CHANGED  /* there was one */
};

struct roami_tx_token {
	struct roami_spin spin; /* for all below */
	bool here;
	bool busy;     /* a commit is under way: others wait */
	bool wanted;   /* a thread waits for it */
	bool asked;    /* it will come */
	uint32_t next; /* the node that gets it after this one, + 1; 0: none yet */
	uint32_t tail; /* at node 0: the node that asked last */
};

struct roami_tx {
	_Atomic uint32_t state;
	unsigned thread; /* that runs it */
	bool calling;    /* functions that were to be called at an end: no other one may begin */
	bool ahead;      /* the attempt has had the token from its beginning (rule 8.11) */
	uint64_t lost;   /* attempts in a row that others doomed */
	uint32_t held;   /* sections of the library that a restart must not leave, nested */
	struct roami_restart restart;
	struct roami_tx_token token;
	struct roami_vec calls; /* struct tx_call: what is to be done at its end */
	struct roami_vec pages; /* uint32_t written, at its end */
};

static inline struct roami_tx *tx_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_TX].state;
}

/* Whether the calling thread runs a transaction. */
bool roami_tx_inside(struct roami_node *node);

typedef void roami_tx_fn(void *arg);

struct roami_tx_run {
	roami_tx_fn *fn;
	roami_tx_fn *otherwise; /* when fn calls roami_tx_retry; NULL: wait, then fn again */
	void *arg;
	uint64_t attempts;       /* at most; 0: no limit */
	void (*inside)(bool in); /* the library's own part begins, ends; NULL: nobody cares */
};

/*
 * Runs fn as a transaction until one attempt is committed.  Inside of one: just calls fn.
 * ROAM_EUNSUPPORTED: the protocol has none, or `otherwise` in a job of one node.  ROAM_ESTATE: the
 * node has several threads, or `otherwise` inside of a transaction.  ROAM_ETIMEDOUT: the attempts
 * are used up; nothing was written.  app, may block.
 */
enum roam_err roami_tx_run(struct roami_node *node, const struct roami_tx_run *run);

/* The thread's attempt ends, and begins anew when a page that it read has changed. */
__attribute__((noreturn)) void roami_tx_retry(struct roami_node *node);

/* Restarts the calling thread's transaction if it is doomed. */
void roami_tx_look(struct roami_node *node);

/*
 * Between the two the thread's transaction does not restart, doomed or not: it holds what others
 * wait for, or what would be lost.
 */
void roami_tx_hold(struct roami_node *node);
void roami_tx_let(struct roami_node *node);

/*
 * fn(arg) is called once: when the transaction has been committed, in the order of these calls; or
 * when the attempt has been undone, in the reverse order.  ROAM_ENOMEM.
 */
enum roam_err roami_tx_then(struct roami_node *node, bool committed, roami_tx_fn *fn, void *arg);

/* The thread leaves the transaction for good, without fn: what was written is undone. */
void roami_tx_leave(struct roami_node *node);

/*
 * The commit token.  Waits until this node has it, and keeps it for a commit; false: the
 * transaction is doomed, and the token is not kept.  app, may block.
 */
bool roami_tx_token_take(struct roami_node *node);
void roami_tx_token_let(struct roami_node *node);

void roami_tx_token_open(struct roami_node *node);

extern const struct roam_message roami_tx_messages[];

#endif
