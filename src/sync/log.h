/*
 * Vector clocks, intervals and the log of write notices (rules 5.4, 6.5, 6.8).
 *
 * Every node keeps, per writer, the notices it knows, as runs of pages ascending by interval.
 * `seen` says up to where the log is complete; `clock` up to where this node's copies are fresh:
 * every stale one is invalidated.  A request for a sync carries `clock`; the granting node sends
 * what lies beyond it, then its own `seen`.  Notices travel ahead of the message of their leg,
 * which arrives after them because messages of one peer stay in order.
 *
 * On one host (notice_ring.h) a node keeps its own notices only, and legs carry none: an
 * acquiring node reads those between `clock` and `seen` where their writers left them.
 */
#ifndef ROAMI_LOG_H
#define ROAMI_LOG_H

#include "base/node.h"

/* Write notices of one writer, a run of pages at a time, ascending by interval. */
struct roami_run {
	uint32_t page;
	uint32_t count;
	uint64_t interval;
	uint64_t version;
	union roam_notice_ref ref;
};

/*
 * How nodes learn of one another's write notices: from rings in shared memory, or by message.
 * Chosen once, when the node opens; all nodes of a job choose alike.
 */
struct roami_notices {
	/* An own run is in the log; the log's lock is held. */
	void (*publish)(struct roami_node *node, const struct roami_run *run);
	/* Notices count as received when their message comes; false: when they are collected. */
	bool counts;
	/* See roami_log_ahead, roami_log_know, roami_log_collect. */
	void (*ahead)(struct roami_node *node, unsigned to, const struct roami_vclock *since,
		      const struct roami_vclock *upto, bool own_only);
	void (*know)(struct roami_node *node, unsigned peer, const struct roami_vclock *clock);
	void (*collect)(struct roami_node *node, struct roami_vclock *target_p);
};

extern const struct roami_notices roami_notices_ring;
extern const struct roami_notices roami_notices_messages;

/*
 * Adds this node's notices, sorted by page, as its next interval; nothing if there are none.  app,
 * in an interval.
 */
void roami_log_close_interval(struct roami_node *node, const struct roam_notice *notices,
			      size_t count);

/*
 * Sends one leg of a sync: first the notices beyond `since` of all writers but `to`, then a message
 * of `type`, whose payload is `parts` and the difference of `seen` from `since`.  `since` is the
 * clock that `to` has said it applied.  Any thread.
 */
void roami_log_send(struct roami_node *node, unsigned to, const struct roami_vclock *since,
		    unsigned type, const struct roam_part *parts, unsigned count);

/* roami_log_send with the clock `upto` instead of `seen`. */
void roami_log_send_upto(struct roami_node *node, unsigned to, const struct roami_vclock *since,
			 const struct roami_vclock *upto, unsigned type,
			 const struct roam_part *parts, unsigned count);

/*
 * The first half of roami_log_send_upto: sends the notices, for a leg whose message the caller
 * encodes.  `own_only`: sends this node's own notices only.
 */
void roami_log_ahead(struct roami_node *node, unsigned to, const struct roami_vclock *since,
		     const struct roami_vclock *upto, bool own_only);

/* roami_log_send_upto where the message is the reply to a call. */
void roami_log_reply(struct roami_node *node, const struct roam_request *request,
		     const struct roami_vclock *since, const struct roami_vclock *upto,
		     const struct roam_part *parts, unsigned count);

/* A leg with this clock has arrived, and its notices before it: the log is complete up to there. */
void roami_log_saw(struct roami_node *node, const struct roami_vclock *clock);

/*
 * Collects the notices of other writers between `clock` and `seen` into apply_work; *target_p is
 * `seen` as it was then.  app, in an interval; may block.
 */
void roami_log_collect(struct roami_node *node, struct roami_vclock *target_p);

/* Whether the run's pages are in the heap. */
bool roami_log_run_fits(struct roami_node *node, const struct roami_run *run);

/* Marks [page, page + count) in `bits`; true if one was not marked yet. */
bool roami_log_mark(uint8_t *bits, uint32_t page, uint32_t count);

/*
 * Adds one run's notices, checked, to apply_work.  `upto`: the writer's last interval that
 * is seen; the run may be of a later one.
 */
void roami_log_collect_run(struct roami_node *node, unsigned writer, const struct roami_run *run,
			   uint64_t upto);

/* Whether `clock` covers `seen`: there is nothing to collect. */
bool roami_log_fresh(struct roami_node *node);

/* All notices up to `target` are applied.  app, in an interval. */
void roami_log_applied(struct roami_node *node, const struct roami_vclock *target);

/* Copies of the clocks. */
void roami_log_clock(struct roami_node *node, struct roami_vclock *clock_p);
void roami_log_seen(struct roami_node *node, struct roami_vclock *seen_p);
void roami_log_clocks(struct roami_node *node, struct roami_vclock *seen_p,
		      struct roami_vclock *clock_p);

/* A clock that every node has applied. */
void roami_log_floor(struct roami_node *node, struct roami_vclock *floor_p);

/*
 * The *base*: a clock that the last barrier of all nodes has told every node.  Returns its number.
 * Clocks are sent as their difference from it.
 */
uint64_t roami_log_base(struct roami_node *node, struct roami_vclock *base_p);

/* At node 0: sets the next base and returns its number; *before_p: the one before. */
uint64_t roami_log_base_next(struct roami_node *node, const struct roami_vclock *base,
			     struct roami_vclock *before_p);

/* At the other nodes: sets the base that node 0 has told. */
void roami_log_base_set(struct roami_node *node, const struct roami_vclock *base, uint64_t number);

/*
 * The clocks from which a peer has sent its differences, where base `number` was its own.  If this
 * node's base has that number, both are the base.  Else they are safe bounds: a lower bound of what
 * the peer has applied, and an upper bound of what it has seen.
 */
void roami_log_bases(struct roami_node *node, uint64_t number, struct roami_vclock *applied_p,
		     struct roami_vclock *seen_p);

/* The clock of what a flag passes on: all this node has seen; under ScC its own writes. */
void roami_log_passed_on(struct roami_node *node, struct roami_vclock *clock_p);

/* All threads of the job have met; `seen` is what they knew together when the last one came. */
void roami_log_met(struct roami_node *node, const struct roami_vclock *seen);

/*
 * The clock that must cover a free before its memory is used again (rule 3.2).  Under ScC what
 * this node has applied tells nothing of writes that the freer had learned of by locks: all nodes
 * must have met since.
 */
void roami_log_reuse_clock(struct roami_node *node, struct roami_vclock *clock_p);

/* The lower bound of what `peer` knows: _know raises it, _known reads it. */
void roami_log_know(struct roami_node *node, unsigned peer, const struct roami_vclock *clock);
void roami_log_known(struct roami_node *node, unsigned peer, struct roami_vclock *clock_p);

/* The applied clock of every node covers `floor`: forgets the notices up to it. */
void roami_log_trim(struct roami_node *node, const struct roami_vclock *floor);

#endif
