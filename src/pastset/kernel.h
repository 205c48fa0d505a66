/*
 * The kernel: the elements that live at this node, the operations on them, and those that wait.
 *
 * Locks: an element's, then that of the buddy allocator or of the waiters.  All are short: no
 * memory of the program is touched under them, so no page fault and no message comes in between.
 *
 * The room keeps rules 11.1 to 11.3, 11.5, 11.6 and 11.8; pastset/job keeps 11.7;
 * pastset/attached keeps 11.4 and 11.7.
 */
#ifndef ROAMI_PAST_KERNEL_H
#define ROAMI_PAST_KERNEL_H

#include "pastset/buddy.h"
#include "pastset/element.h"

#define ROAMI_ELEMENTS_BITS 20u
#define ROAMI_ELEMENTS_MAX (1u << ROAMI_ELEMENTS_BITS)
#define ROAMI_WAITERS_MAX  (1u << 16)
#define ROAMI_ALARMS_MAX   32u
#define ROAMI_GUEST_ID     (1ull << 62) /* in ids of operations of programs that are attached */

/* An operation that waits in an element's queue, or has just been served. */
struct roami_past_waiter {
	struct roami_op op;
	/* In the queue; `next` also of those served, and of the free ones. */
	struct roami_past_waiter *next, *before;
	_Atomic uint32_t at;                /* element + 1 in whose queue it is; 0: none */
	_Atomic uint64_t deadline;          /* that of op, while it waits */
	_Atomic uint64_t id;                /* of the operation; 0: free */
	_Atomic uint64_t cancelled;         /* = id: it must not wait any longer */
	bool unsure;                        /* it was when it came here, see roami_element_unsure */
	_Atomic uint32_t done;              /* of this node's threads: the outcome is in op */
	struct roam_request request;        /* to reply to; call 0: of this node's threads */
};

struct roami_name;
struct roami_past;

/* The reply to an operation; then the tuple observed, or struct roam_ps_state. */
struct roami_outcome {
	uint32_t err;
	uint32_t bytes; /* of the tuple observed, or of that which was too long */
	uint64_t moved;
	uint64_t observed;
	uint64_t record; /* ROAMI_ASK_RECORD: held for, or reserved for, the node that asks */
	uint32_t skipped;
	uint32_t spare;
};

static inline struct roami_outcome roami_outcome_of(const struct roami_op *op)
{
	return (struct roami_outcome){.err = (uint32_t)op->err,
				      .bytes = op->bytes,
				      .moved = op->moved,
				      .observed = op->observed,
				      .skipped = op->skipped};
}

/*
 * Functions of pastset/job/server.c that the kernel calls, since it sends nothing itself.  No lock
 * is held.
 */
struct roami_past_calls {
	/* Replies to another node's operation that had to wait and is done now. */
	void (*reply)(struct roami_past *past, const struct roam_request *request,
		      const struct roami_op *op);
	/* Asks back what was given to the partner for a round: see roami_past_returned. */
	void (*recall)(struct roami_past *past, unsigned partner, uint32_t element,
		       uint64_t round);
	/* Calls roami_past_expire in so many ns. */
	void (*alarm)(struct roami_past *past, uint64_t ns);
};

extern const char roami_past_name[]; /* of the extension */

/* The elements of a node: the state of the extension begins with it. */
struct roami_past {
	struct roami_node *node;
	const struct roami_past_calls *calls;
	struct roami_spin lock; /* of what follows, up to `buddy` */
	_Atomic uint32_t opened;
	struct roami_name *names;
	uint32_t *name_slots;
	uint32_t name_count;
	uint32_t name_mask; /* slots - 1 */
	struct roami_vec strings;
	size_t kept_left; /* of what roami_past_keep has taken */
	struct roami_element *elements;
	_Atomic uint32_t element_count;
	struct roami_past_buddy buddy;
	struct roami_template *templates;                     /* of elements with an X-function */
	struct roami_function functions[ROAMI_FUNCTIONS_MAX]; /* the program's; ends with no name */
	struct roami_spin waiter_lock;
	struct roami_past_waiter *waiters;
	struct roami_past_waiter *free_waiter;
	_Atomic uint32_t waiters_used; /* since the start: those before it may be in use */
	uint64_t serial;               /* of this node's own operations */
	/*
	 * The number before an element's first tuple, the same at all nodes: 0, but tests begin
	 * elsewhere.
	 */
	uint64_t tuples_begin;
	struct roami_spin alarm_lock;
	uint64_t alarms[ROAMI_ALARMS_MAX]; /* when to look for deadlines, the next one last */
	uint32_t alarm_count;
	struct roami_shown *shown; /* what a program in the kernel shows; NULL: none does */
};

struct roami_past *roami_past_of(struct roami_node *node);

/* Memory, at first use.  ROAM_ENOMEM. */
enum roam_err roami_past_open(struct roami_past *past);

/*
 * Charges something that stays for ever, a name or an element, to the memory for tuples.  false:
 * none is left.  past->lock is held.
 */
bool roami_past_keep(struct roami_past *past, size_t bytes);

struct roami_bind;

/* A new element with this template.  past->lock is held. */
enum roam_err roami_past_make(struct roami_past *past, const struct roami_bind *ask,
			      const char *template_text, uint32_t *element_p);

/* Makes an X-function known. */
enum roam_err roami_past_register(struct roami_past *past, const struct roam_ps_function *function);

/*
 * lend: notes that a record of a paged element is lent to a node.  return: notes that it comes
 * back; false: that node has no such record.
 */
void roami_past_lend(struct roami_past *past, struct roami_element *element,
		     const struct roami_lent *lent);
bool roami_past_return(struct roami_past *past, struct roami_element *element,
		       const struct roami_lent *lent);

/* NULL: there is none of that number. */
static inline struct roami_element *roami_past_element(struct roami_past *past, uint32_t element)
{
	if (element >= atomic_load_explicit(&past->element_count, memory_order_acquire))
		return NULL;
	return &past->elements[element];
}

/* Reserves room for a tuple of `bytes` in op->record, or sets op->err. */
bool roami_past_reserve(struct roami_past *past, struct roami_op *op, size_t bytes);

/* roami_past_reserve, and copies a tuple or a pattern there. */
bool roami_past_take(struct roami_past *past, struct roami_op *op, const void *tuple, size_t bytes);

/*
 * As roami_past_take, for memory that cannot fault and lasts until roami_past_run has begun: that
 * puts a small tuple into its record, under the one lock.
 */
bool roami_past_bring(struct roami_past *past, struct roami_op *op, const void *tuple,
		      size_t bytes);

/* packs: whether the observed tuple is compressed.  give: puts its op->bytes bytes at `tuple`. */
bool roami_past_packs(struct roami_past *past, const struct roami_op *op);
void roami_past_give(struct roami_past *past, const struct roami_op *op, void *tuple);

/*
 * Does an operation.  NULL: it is done, the outcome is in *op.  Else it waits: where there is a
 * request it will be replied to, where there is op->served that will be called, else the caller
 * waits for waiter->done and frees it.
 */
struct roami_past_waiter *roami_past_run(struct roami_past *past, struct roami_op *op,
				    const struct roam_request *request);
void roami_past_free_waiter(struct roami_past *past, struct roami_past_waiter *waiter);

/* Ends a wait of this node's thread; of the operation with that id; of another node's call. */
void roami_past_cancel(struct roami_past *past, struct roami_past_waiter *waiter);
void roami_past_cancel_id(struct roami_past *past, struct roami_past_waiter *waiter, uint64_t id);
void roami_past_cancel_call(struct roami_past *past, unsigned origin, uint32_t call);

/* The partner's node says that it does not use the partial of that round. */
void roami_past_returned(struct roami_past *past, uint32_t element, unsigned from, uint64_t round);

/* An alarm went off. */
void roami_past_expire(struct roami_past *past);

/*
 * The reply to an operation that is done, and what follows it; `room` for a tuple that was
 * compressed, NULL if it is none.
 */
void roami_past_outcome(struct roami_past *past, const struct roami_op *op, void *room,
			struct roami_outcome *outcome, struct roam_part *rest);

#endif
