/*
 * Transactions: attempts of a function that begin anew when what they read has changed; the commit
 * token, or what takes its place; which pages count as read.  What happens to pages is the
 * protocol's (struct roam_transactions).
 *
 * The room keeps rules 8.3, 8.5 to 8.9, 8.11, 8.12, 8.15 and 8.16.
 */
#ifndef ROAMI_TX_H
#define ROAMI_TX_H

#include "base/node.h"
#include "fault/interrupt.h"
#include "os/restart.h"
#include "roam/protocol_tx.h"

enum {
	ROAMI_TX_NONE,
	ROAMI_TX_OPEN,      /* writes make twins */
	ROAMI_TX_OVERTAKEN, /* likewise, and nothing that it writes counts (backward validation) */
	ROAMI_TX_DOOMED     /* likewise, and it must begin anew (rule 8.3) */
};

/*
 * Why an attempt was aborted: the paper's rules.  T_v is validated, T_j overlaps it.
 * READ_WRITE: T_v must not read what T_j has written; it is T_v that is aborted.
 * WRITE_READ: T_j must not read what T_v has written; it is T_j.
 * WRITE_WRITE: one must not write what the other has written; it is the later one.
 */
enum roami_tx_rule {
	ROAMI_TX_NO_RULE,
	ROAMI_TX_READ_WRITE,
	ROAMI_TX_WRITE_READ,
	ROAMI_TX_WRITE_WRITE
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

/* ROAM_TX_COMMIT=pages: when no commit may begin. */
struct roami_tx_stop {
	struct roami_spin spin; /* for the next three */
	bool commits;  /* one is under way here */
	uint64_t by;   /* nodes that have stopped this one: each has, or had, the token ahead */
	uint64_t owed; /* those of them that wait for the end of the commit under way */
	_Atomic uint32_t running; /* nodes that this one stops, and that have not answered yet */
};

/* Where signals found a thread: in libraries all the time. */
struct roami_tx_seen {
	uintptr_t where; /* the last time */
	uint64_t sleeps; /* of the thread until then */
	uint32_t same;   /* signals in a row that found it there, asleep since the one before, */
	uint32_t all;    /* or in any library */
};

/* The node's other threads, see tx_hold.c. */
struct roami_tx_hold {
	_Atomic uint32_t turn;    /* the thread that runs a transaction, + 1; 0: none does */
	_Atomic uint32_t shut;    /* no other thread may run the program; a futex, as the next */
	_Atomic uint32_t changes; /* threads that have stopped */
	_Atomic uint8_t stopped[ROAMI_THREADS_MAX];
	struct roami_tx_seen seen[ROAMI_THREADS_MAX]; /* each thread's own */
};

/* A page that an attempt could read, and lost. */
struct roami_tx_loss {
	uint32_t page;
	uint32_t attempt;
	bool touched; /* by the attempt that is about to be committed */
};

enum { ROAMI_TX_LOSSES = 16 };

#define ROAMI_TX_CHUNK 512u /* pages, which a report looks at if any of them has conflicts */

/* What is known of a page's part in conflicts at this node. */
struct roami_tx_page {
	uint32_t conflicts; /* attempts that lost it */
	uint32_t aborted_in_vain; /* of them, those that are false aborts */
	uint16_t in_vain;   /* the same, since it was last opened again */
	uint16_t touches;   /* by transactions, since it has been closed at their beginnings */
};

/* What is to be called at the end of a thread's transaction. */
struct roami_tx_calls {
	struct roami_vec list; /* struct tx_call */
	struct roami_vec later; /* struct tx_owed, of transactions that are not durable yet */
	const void *from;      /* see roami_tx_then */
	bool now; /* they are being called: the thread may not begin another transaction */
};

/* Where pages outlive the job (job/stored.h). */
struct roami_tx_store {
	/*
	 * The transaction counts, and no other node has seen its pages; without pages: of a node
	 * that is alone.  Returns whether anything was written.  May block.
	 */
	bool (*commit)(struct roami_node *node, const uint32_t *pages, size_t count);
	/*
	 * The transaction of a node that is alone begins; other threads are held.  May block.
	 * NULL: there is nothing to be done.
	 */
	void (*begin)(struct roami_node *node);
	/*
	 * A number of the transaction that was committed last: all that it `wrote`, and has read,
	 * is durable when the number is.  May block.
	 */
	uint64_t (*number)(struct roami_node *node, bool wrote);
	/* Whether a number is durable; `waits`: returns when it is.  May block. */
	bool (*durable)(struct roami_node *node, uint64_t number, bool waits);
};

struct roami_tx {
	const struct roami_tx_store *store; /* NULL: none */
	bool wrote; /* the transaction that was committed last */
	_Atomic uint32_t state;
	unsigned thread; /* that runs it */
	bool ahead;      /* the attempt has had the token from its beginning (rule 8.11) */
	uint64_t lost;   /* attempts in a row that others doomed */
	_Atomic uint64_t keeps; /* until then the attempt's pages may not be taken; 0: they may */
	uint64_t begun;  /* transactions */
	_Atomic uint32_t watchers; /* threads whose attempt is undone, and that wait for a change */
	_Atomic uint32_t changes;  /* of what one of them may have read */
	uint32_t attempt; /* of the transaction, from 0 on */
	_Atomic bool validates;
	_Atomic uint32_t rule; /* enum roami_tx_rule: by which the attempt is lost */
	_Atomic uint32_t losses; /* of its attempts so far; the first ones: */
	struct roami_tx_loss loss[ROAMI_TX_LOSSES];
	struct roami_tx_page *page; /* of each page; NULL: there are no transactions */
	uint8_t *chunks; /* whether any of ROAMI_TX_CHUNK pages has conflicts */
	uint32_t held;   /* sections of the library that a restart must not leave, nested */
	struct roami_restart restart;
	struct roami_interrupt interrupt; /* of a doomed attempt that touches nothing */
	struct roami_tx_token token;
	struct roami_tx_stop stop;
	struct roami_tx_hold hold;
	struct roami_tx_calls calls[ROAMI_THREADS_MAX]; /* each thread's own */
	struct roami_vec pages; /* uint32_t written, at its end */
};

static inline struct roami_tx *tx_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_TX].state;
}

static inline struct roami_tx_calls *tx_calls_of(struct roami_node *node)
{
	return &tx_of(node)->calls[node->env->thread(node)];
}

/* Whether it is the calling thread's turn to run a transaction, see roami_tx_turn. */
static inline bool tx_has_turn(struct roami_node *node)
{
	return atomic_load(&tx_of(node)->hold.turn) == node->env->thread(node) + 1;
}

/* roami_tx_open, without a step: for fast paths. */
static inline bool tx_is_open(const struct roami_node *node)
{
	uint32_t state = atomic_load(&tx_of(node)->state);

	return state == ROAMI_TX_OPEN || state == ROAMI_TX_OVERTAKEN || state == ROAMI_TX_DOOMED;
}

/* Whether nothing that the open transaction writes counts. */
static inline bool tx_is_lost(const struct roami_node *node)
{
	uint32_t state = atomic_load(&tx_of(node)->state);

	return state == ROAMI_TX_OVERTAKEN || state == ROAMI_TX_DOOMED;
}

/* Whether the calling thread runs a transaction. */
bool roami_tx_inside(struct roami_node *node);

/*
 * roami_tx_doom without a page: what happens to an open transaction, or to one that waits.  By
 * forward validation an open one is doomed, by backward validation overtaken.
 */
void roami_tx_conflict(struct roami_node *node);

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
 * node has a thread that cannot be held, or `otherwise` inside of a transaction.
 * ROAM_ETIMEDOUT: the attempts are used up; nothing was written.  ROAM_ECANCELED: roami_tx_cancel.
 * app, may block.
 */
enum roam_err roami_tx_run(struct roami_node *node, const struct roami_tx_run *run);

/* The thread's attempt ends, and begins anew when a page that it read has changed. */
__attribute__((noreturn)) void roami_tx_retry(struct roami_node *node);

/* The thread's attempt ends, undone, and is the last one: roami_tx_run returns ROAM_ECANCELED. */
__attribute__((noreturn)) void roami_tx_cancel(struct roami_node *node);

/*
 * The thread's transaction will write every byte of the whole pages among those from `offset` on,
 * and reads none of them.  app, may block.
 */
void roami_tx_writes(struct roami_node *node, uint64_t offset, uint64_t bytes);

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
 * when the attempt has been undone, in the reverse order.  Meanwhile tx_calls_of(node)->from is
 * `from`: the program's code that asked for it, for reports, or NULL.  ROAM_ENOMEM.
 */
enum roam_err roami_tx_then(struct roami_node *node, bool committed, roami_tx_fn *fn, void *arg,
			    const void *from);

/*
 * roami_tx_then when it has been committed, and is durable: with a store fn is called by a later
 * roami_tx_run or roami_tx_due of this thread.
 */
enum roam_err roami_tx_when_durable(struct roami_node *node, roami_tx_fn *fn, void *arg);

/*
 * Calls what the calling thread's transactions have asked for by roami_tx_when_durable, in its
 * order, as far as it is due; `waits`: all.  `inside` is that of struct roami_tx_run.  app, may
 * block.
 */
void roami_tx_due(struct roami_node *node, void (*inside)(bool in), bool waits);

/* ---- tx_calls.c, for tx.c */

/* Whether the transaction that is about to end has functions that may not be called at once. */
bool roami_tx_owes(struct roami_node *node);

/*
 * Calls the functions of a transaction that has been committed, or of an attempt that was undone.
 * `number`: of what has been committed, if it is not known to be durable; else 0.
 */
void roami_tx_calls(struct roami_node *node, bool committed, uint64_t number);

void roami_tx_calls_free(struct roami_tx_calls *calls);

/* The library's own part of a call begins, or ends. */
static inline void tx_library(void (*inside)(bool in), bool in)
{
	if (inside != NULL)
		inside(in);
}

/* The thread leaves the transaction for good, without fn: what was written is undone. */
void roami_tx_leave(struct roami_node *node);

/*
 * The thread's transaction begins, after those of the node's other threads, or is over.  app, may
 * block.
 */
void roami_tx_turn(struct roami_node *node);
void roami_tx_turn_over(struct roami_node *node);

/*
 * An attempt begins: returns when all registered threads of the node but this one are held.  They
 * are let go when it is committed or undone.
 */
void roami_tx_hold_others(struct roami_node *node);
void roami_tx_let_others(struct roami_node *node);

/* Whether a thread but the calling one has touched the heap and is not registered. */
bool roami_tx_strangers(struct roami_node *node);

/* The calling thread is about to be registered: it can be held from then on. */
void roami_tx_registers(struct roami_node *node);

/* The calling thread stops here while another one's attempt runs; _came: it faults. */
void roami_tx_gate(struct roami_node *node);
void roami_tx_came(struct roami_node *node);

/* The same in a signal handler; `own`: it has interrupted code of the program; `where`: which. */
void roami_tx_held(void *node, bool own, uintptr_t where);

/*
 * The commit token.  Waits until this node has it, and keeps it for a commit; false: the
 * transaction is doomed, and the token is not kept.  app, may block.
 */
bool roami_tx_token_take(struct roami_node *node);
void roami_tx_token_let(struct roami_node *node);

void roami_tx_token_open(struct roami_node *node);

/*
 * ROAM_TX_COMMIT=pages, without the token: a commit begins, when no node stops this one; false: the
 * transaction is doomed, and it does not.  app, may block.
 */
bool roami_tx_commit_begins(struct roami_node *node);
void roami_tx_commit_ends(struct roami_node *node);

/*
 * With the token: returns when no other node commits, and none does until roami_tx_go_others.  app,
 * may block.
 */
void roami_tx_stop_others(struct roami_node *node);
void roami_tx_go_others(struct roami_node *node);

/* ------------------------------------------------------------------------------- tx_commit.c */

/*
 * Commits the attempt under way, with the token where ROAM_TX_COMMIT wants it.  false: it is lost,
 * and roami_tx_undo is still to be called.  app, may block.
 */
bool roami_tx_commit(struct roami_node *node);

/* Gives the pages that the attempt has written the bytes that they had before it.  app. */
void roami_tx_undo(struct roami_node *node);

/*
 * The pages, which are pending, go to the page server before any node sees them (rule 8.16).  app,
 * may block.
 */
void roami_tx_store(struct roami_node *node, const uint32_t *pages, size_t count);

/* ------------------------------------------------------------------------ what counts as read */

enum roam_err roami_tx_reads_open(struct roami_node *node);
void roami_tx_reads_close(struct roami_node *node);

/* A transaction begins, with its first attempt. */
void roami_tx_reads_begin(struct roami_node *node);

/* The attempt under way loses a page that it could read.  Under the page lock. */
void roami_tx_reads_lost(struct roami_node *node, uint32_t page);

/*
 * The attempt's function has returned: notes which pages that earlier attempts lost it has touched.
 * roami_tx_reads_judge: it is committed, so attempts that lost no other pages were aborted in vain.
 */
void roami_tx_reads_look(struct roami_node *node);
void roami_tx_reads_judge(struct roami_node *node);

/*
 * At the end, when all nodes have met: with ROAM_CHECK=conflicts names the worst pages, or writes
 * this node's file (ROAM_CONFLICTS).
 */
void roami_tx_report(struct roami_node *node);

extern const struct roam_message roami_tx_messages[];

#endif
