/*
 * PastSet: structured shared memory, beside the pages of roam/roam.h.
 *
 * Programs share *elements* instead of bytes.  An element is a named, ordered sequence of tuples of
 * one type, its *template*.  roam_ps_move adds a tuple at the end, roam_ps_observe reads one, which
 * stays: a tuple is tagged as observed, and can be observed again until the element is truncated.
 * The words and their meaning are those of the PastSet papers (Bjorndalen, Anshus, Vinter and
 * Larsen 2000; Vinter 1999); docs/pastset.md says what roam chose where they leave a choice.
 *
 * Order.  Operations on one element happen one after the other, in an order on which all nodes
 * agree; operations on different elements have no order.  Tuples carry their own bytes and order
 * nothing else: what a program stores in the heap of roam.h still needs that header's
 * synchronisation.
 *
 * Numbers.  The tuples of an element are numbered 1, 2, 3 and so on.  *Last* is the number of the
 * newest; *First* that of the oldest that has not been observed, Last + 1 if there is none.
 *
 * Blocking.  All operations are synchronous.  A move waits while DeltaValue forbids it, an observe
 * until its tuple is there.  A wait may have a timeout, and another thread may cancel it.  An
 * operation that was timed out or cancelled has not been done, and its result says so; if a server
 * did not answer, that may be unknown, see "attaching".  Among the waiting operations that can be
 * done, the one that came first is done first.
 *
 * Threads.  Any number of threads of any node may use elements, and the same one, at the same time.
 * A thread need not call roam_thread_init for that, except to use elements in pages.  Signal
 * handlers must not use elements.  At most 1,024 operations of one node may be under way at other
 * nodes: the next one is not done, and returns ROAM_EAGAIN.
 *
 * Where.  An element lives at one node.  Other nodes send their operations there; the node's own
 * threads need no message.  Elements belong to the nodes that CREATE made or roam run started:
 * bindings entered before CREATE, or in a round that roam_wait_for_end has ended, are of no use,
 * and operations on them return ROAM_ESTATE.
 *
 * Errors that every operation can return: ROAM_EINVAL, ROAM_ESTATE, and those of roam_start.
 */
#ifndef ROAM_PASTSET_H
#define ROAM_PASTSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROAM_PS_TUPLE_MAX    61184u /* bytes of a tuple */
#define ROAM_PS_NAME_MAX     255u   /* bytes of a name */
#define ROAM_PS_TEMPLATE_MAX 511u   /* bytes of a template's text */
#define ROAM_PS_FIELDS_MAX   64u    /* fields of a template, and groups */
#define ROAM_PS_NESTED_MAX   8u     /* groups in one another */
#define ROAM_PS_FUNCTION_MAX 31u    /* bytes of an X-function's name */

/* ---------------------------------------------------------------------------------- templates */
/*
 * A template is a list of fields, written as text, so that it can be made while the program runs:
 *
 *	i32, f64[16]                two fields: a number and an array of 16
 *	u8[]                        as many as the tuple says: a string, a blob
 *	u32, (i32, f32[3])[10]      an array of groups of fields
 *	(i64, u8[])[]               any number of records, with a part of variable size each
 *
 * Numbers are i8 i16 i32 i64, u8 u16 u32 u64, f32 f64.  Spaces are ignored.
 *
 * A tuple's bytes are the same on every machine: the fields in their order without gaps, numbers
 * little-endian, IEEE 754; the items of a [] follow their count, a u32.  So the tuple of a template
 * of fixed size is a packed struct; other tuples are written and read with a cursor, below.
 */

/*
 * A place in the bytes of a tuple that is written or read field by field.  A call for a field that
 * does not fit, or is not there, does nothing, nor do later calls; roam_ps_cursor_end says so.
 *
 *	roam_ps_cursor_begin(&cursor, tuple, sizeof(tuple));
 *	roam_ps_put(&cursor, &number, sizeof(number));
 *	roam_ps_put_items(&cursor, name, (uint32_t)strlen(name), 1);
 *	err = roam_ps_cursor_end(&cursor, &bytes);
 */
struct roam_ps_cursor {
	uint8_t *begin, *at, *end; /* at: NULL once something did not fit */
};

/* Begins at the first of `bytes` bytes of a tuple, or of room for one. */
void roam_ps_cursor_begin(struct roam_ps_cursor *cursor, void *tuple, size_t bytes);

/*
 * Ends writing or reading.  *bytes_p, if not NULL: how many bytes were written or read.  Errors:
 * ROAM_ETOOBIG (a field did not fit, or was not there).
 */
enum roam_err roam_ps_cursor_end(const struct roam_ps_cursor *cursor, size_t *bytes_p);

/* Write or read numbers, arrays and groups of fixed size. */
void roam_ps_put(struct roam_ps_cursor *cursor, const void *fields, size_t bytes);
void roam_ps_get(struct roam_ps_cursor *cursor, void *fields, size_t bytes);

/*
 * Write or read a [] of `count` items of item_bytes each.  To write, `items` may be NULL: then the
 * caller writes the items one by one, as it must if their sizes vary (item_bytes 0).
 * roam_ps_get_items returns where the items are, in the tuple and without alignment, and goes on
 * behind them; with item_bytes 0 the caller reads them one by one.  *count_p: how many items; 0,
 * and the result NULL, if not all are there.
 */
void roam_ps_put_items(struct roam_ps_cursor *cursor, const void *items, uint32_t count,
		       size_t item_bytes);
const void *roam_ps_get_items(struct roam_ps_cursor *cursor, uint32_t *count_p, size_t item_bytes);

/* An element as one program knows it. */
struct roam_ps_element;

/* Where a new element lives. */
enum roam_ps_place {
	ROAM_PS_HASH,    /* at a node by the name's hash (default): elements spread over the job */
	ROAM_PS_CREATOR, /* at the node that enters it first */
	ROAM_PS_NODE     /* at the node given */
};

/* Where the bytes of its tuples are. */
enum roam_ps_storage {
	ROAM_PS_SERVER, /* at its node: they travel with the operations (default) */
	ROAM_PS_PAGES   /* in the shared heap, under a lock: they travel as pages */
};

/* Properties of a new element; NULL or zeroes: the defaults. */
struct roam_ps_options {
	enum roam_ps_place place;
	unsigned node;  /* ROAM_PS_NODE */
	uint64_t delta; /* DeltaValue; 0: unlimited */
	/*
	 * If there is no memory for a new tuple, the element's oldest tuples are removed, as far as
	 * they and all older ones have been observed.  Otherwise only roam_ps_truncate removes
	 * tuples.
	 */
	bool forget;
	enum roam_ps_storage storage;
	size_t memory;         /* ROAM_PS_PAGES: bytes of the heap for its tuples; 0: 4 MiB */
	const char *function;  /* an X-function's name, see below; NULL: none */
	unsigned participants; /* in it */
	uint64_t timeout_ns;   /* roam_ps_enter_at: for the server's answer; 0: 10 s */
};

/*
 * Binds to the element of that name, which is made if there is none; NULL: the name is the
 * template's text without spaces, as in the papers' first PastSet.  For an element that exists the
 * options are ignored, but template, X-function and participants must match.  Blocks for messages
 * to two nodes at most, not for other programs.  Errors: ROAM_EINVAL (an invalid name or template,
 * a node that does not exist, a template that does not suit the X-function), ROAM_EMISMATCH (the
 * element has another template, X-function or number of participants), ROAM_EUNKNOWN (the node
 * where the element is to live does not know the X-function), ROAM_ENOMEM (no memory here, or in
 * the heap), ROAM_ENOSPC (ROAM_PS_MEMORY of the node where the element is to live is used up; names
 * and elements count as tuples do); roam_ps_why() says more about each.
 */
enum roam_err roam_ps_enter(const char *name, const char *template_text,
			    const struct roam_ps_options *options,
			    struct roam_ps_element **element_p);

/*
 * Frees the binding; the element stays as it is.  No operation may be under way with the binding.
 * NULL is ignored.
 */
void roam_ps_leave(struct roam_ps_element *element);

/* The template's text, without spaces; lasts as long as the binding. */
const char *roam_ps_template(const struct roam_ps_element *element);

/* The node that the element lives at; 0 at `roam past serve`. */
unsigned roam_ps_node(const struct roam_ps_element *element);

/*
 * More about the last error of the calling thread's roam_ps_enter, roam_ps_enter_at,
 * roam_ps_attach or roam_ps_serve, in one line: both templates of a mismatch, the place of a syntax
 * error.  Never NULL; lasts until the thread's next call of one of them.
 */
const char *roam_ps_why(void);

/* ----------------------------------------------------------------------------------- attaching */
/*
 * `roam past serve` hosts elements without a job.  Programs attach to this server and leave as they
 * like; the server keeps the elements.  A node of a job may serve programs, too: roam_ps_serve.  An
 * attached program need not be a node of a job, and does not call roam_start.  All calls below work
 * on elements of a server as on those of a node, from any number of threads, of which 1,024 may be
 * in an operation of one attachment at a time; the next one gets ROAM_EAGAIN.
 *
 * The connection is a Unix socket or TCP, encrypted and authenticated both ways with a key that
 * server and client have in a file.  If it breaks, the waiting threads make another one, and their
 * operations go on: each is done once, whatever was lost, but operations that had to wait at the
 * element are queued again behind those that wait there.
 *
 * While there is no connection, operations wait for one.  An operation whose time is up, or that is
 * cancelled, ends all the same, whatever keeps the server from answering: it is gone or stopped,
 * its host is cut off, the connection is full.  It may take three seconds more than its time: two
 * for the server's answer, then the connection counts as broken, and one for another connection.
 * The operation returns ROAM_ETIMEDOUT or ROAM_ECANCELED if it was not done.  It returns ROAM_ELOST
 * if it is not known whether it was done, since the server may have received it, or may still
 * receive it: it is done once, or not at all.  Later operations are as usual, except for an
 * X-function's participant, whose rounds are counted.  The participant has to call the same
 * operation (a move, an observe or a mob) once more; until then the other two return ROAM_ESTATE.
 * What was done at the first call is not done again; if the first call has moved a tuple for the
 * round, that tuple counts and not the second one.  (After a mob with request->moved set, the
 * operation to repeat is the observe.)
 *
 * If there is no server any more, for example because it was killed, every operation under way and
 * every later one returns ROAM_ELOST at once.  Operations also return ROAM_ELOST if, after a
 * connection broke, the server cannot be reached, or does not answer, for as long as it remembers
 * clients without a connection: 60 s, or as `roam past serve --keep` says.  A program that comes
 * again later than that, or to a server that was restarted, gets ROAM_EGONE from all operations,
 * and has to attach again; so does the program that uses most of a server whose memory is used up
 * (docs/pastset.md has the bounds).  Whether the operations under way were done is not known then;
 * those that had returned ROAM_OK were.  A program that is killed leaves no operation behind that
 * waits.  If the program had moved to an element with an X-function, the other participants'
 * operations on that element return ROAM_ELOST after that time.
 */
struct roam_ps_server;

/*
 * Attaches to the server at an address: HOST:PORT, or the path of a Unix socket (with a /).  The
 * key is in `key_file`; NULL: in the file that ROAM_PS_KEY names.  A child of fork() has to attach
 * for itself: its parent's attachments return ROAM_ESTATE.  Blocks for 10 s at most for an answer,
 * and for as long as it takes to look up HOST; later connections are made to the host that was
 * found.  Errors: ROAM_EINVAL (an invalid address or key file), ROAM_ELOST (no server there),
 * ROAM_EKEY (the server has another key), ROAM_EPROTO (something else answers, or another version),
 * ROAM_ENOMEM, ROAM_ESYSTEM; roam_ps_why() says more about each.
 */
enum roam_err roam_ps_attach(const char *address, const char *key_file,
			     struct roam_ps_server **server_p);

/*
 * Lets programs attach to this node of a job, at an address as for `roam past serve`.  They may use
 * the elements of the whole job, except for those in pages, which roam_ps_enter_at refuses with
 * ROAM_EINVAL.  A node calls this once; several nodes may.  To the programs the job is a server,
 * which is gone at the job's end.  `at`, of at_bytes, receives the address that programs may use
 * (for port 0, with the port chosen); 300 bytes are enough; it may be NULL if at_bytes is 0.  The
 * key is as for roam_ps_attach; a key is made if there is no file.  The programs' operations under
 * way at other nodes count among the 1,024 of this node.  Errors: ROAM_EINVAL (an invalid address
 * or key file), ROAM_ESTATE (this node serves already), ROAM_ESYSTEM (the address cannot be used),
 * ROAM_ENOMEM; roam_ps_why() says more about each.
 */
enum roam_err roam_ps_serve(const char *address, const char *key_file, char *at, size_t at_bytes);

/*
 * Leaves the server; does not block.  Operations under way and later ones return ROAM_ELOST.  The
 * bindings still have to be freed by roam_ps_leave.  NULL is ignored.
 */
void roam_ps_detach(struct roam_ps_server *server);

/*
 * As roam_ps_enter, at a server: a new element lives at the job's node that options->place says;
 * ROAM_PS_CREATOR is the node that serves; `roam past serve` is a job of one node.  Errors, besides
 * those of roam_ps_enter: ROAM_EINVAL (ROAM_PS_PAGES), ROAM_ETIMEDOUT (the server has not answered
 * in time and three seconds more, see above; the element may have been made).
 */
enum roam_err roam_ps_enter_at(struct roam_ps_server *server, const char *name,
			       const char *template_text, const struct roam_ps_options *options,
			       struct roam_ps_element **element_p);

/* -------------------------------------------------------------------------------- X-functions */
/*
 * An X-function changes what moving to an element and observing it mean (Vinter et al. 2002: "user
 * redefinable memory semantics").  Most are reductions over a number of participants, in rounds:
 * each participant moves a tuple, and observes the result of all; between the two it may compute.
 * The result of round k is the element's tuple number k.
 *
 * A participant is a binding, used by one thread at a time: its k-th move takes part in round k,
 * its k-th roam_ps_observe waits for round k's result.  It may move several rounds ahead, at most
 * 16 before the oldest is complete, and as far as DeltaValue allows: First is the oldest round that
 * not all participants have observed.  Observes in another order than ROAM_PS_FIFO tag nothing.
 * The template must be of fixed size, the storage ROAM_PS_SERVER.  With options->forget results
 * that all have observed are removed to make room.  Errors: ROAM_EINVAL (one participant too many
 * moves).
 *
 * "sum", "product", "min" and "max" combine the tuples number by number, "and" and "or" integers.
 *
 * "match" is no reduction, and has 0 participants: its element is as any other, but can also be
 * observed by ROAM_PS_MATCH.  Then request->tuple is a pattern, a tuple of the template.  The bits
 * of request->number say which of the outermost fields of a tuple must equal the pattern's; bit 0
 * is the first field.  Tuples are compared where the element lives; only the one found travels.
 *
 * "bitmap", of 0 participants too, compresses tuples of any template when they are moved and makes
 * them whole when they are observed: bitmaps and the like take a fraction of the memory.
 */

/*
 * A program's own X-function: a reduction (`combine`), or a filter as "match" is (`match`); the
 * other pointer is NULL.  It is called at the element's node, by any thread, under a lock: it must
 * be short, and must not block, allocate, or touch the heap.
 */
struct roam_ps_function {
	const char *name;
	/*
	 * Combines a tuple into the sum of those before it.  Both have `bytes` bytes and no
	 * particular alignment; the order of the tuples is not specified.
	 */
	void (*combine)(void *arg, void *sum, const void *tuple, size_t bytes);
	void *arg;
	/*
	 * Whether a tuple matches the pattern of ROAM_PS_MATCH.  Both fit the template and have no
	 * particular alignment; `number` is the request's.  It is called once for each tuple, and
	 * its result must depend on its arguments alone.
	 */
	bool (*match)(void *arg, uint64_t number, const void *pattern, size_t pattern_bytes,
		      const void *tuple, size_t tuple_bytes);
};

/*
 * Registers a function at this node.  No code is sent: each node where elements with it may live
 * has to register it before any node enters one.  A second function of the same name is ignored.
 * Errors: ROAM_EINVAL, ROAM_ENOSPC (63 are registered).
 */
enum roam_err roam_ps_register(const struct roam_ps_function *function);

/* --------------------------------------------------------------------------------- operations */

/*
 * Adds a tuple.  Blocks while Last + 1 - First would reach DeltaValue.  The bytes are copied: the
 * caller may change them at once.  Errors: ROAM_EINVAL (bytes that are no tuple of the template),
 * ROAM_ENOSPC (ROAM_PS_MEMORY of the node where the element lives is used up), ROAM_ETOOBIG.
 */
enum roam_err roam_ps_move(struct roam_ps_element *element, const void *tuple, size_t bytes);

/*
 * Reads the oldest tuple that has not been observed, and tags it, so that each tuple goes to one
 * observer.  Blocks until there is one.  *bytes_p, if not NULL, is its size.  Errors: ROAM_ETOOBIG
 * (the tuple is longer than `limit`; it is not tagged, and *bytes_p is set).
 */
enum roam_err roam_ps_observe(struct roam_ps_element *element, void *tuple, size_t limit,
			      size_t *bytes_p);

/*
 * Moves a tuple to `to`, then observes one of `from` as roam_ps_observe does; both may be the same
 * element.  Not atomic: other operations may come in between.  One message and one reply if both
 * elements live at one node.
 */
enum roam_err roam_ps_mob(struct roam_ps_element *to, const void *tuple, size_t bytes,
			  struct roam_ps_element *from, void *out, size_t limit, size_t *bytes_p);

/*
 * Sets DeltaValue, the most by which Last + 1 may exceed First: 1 allows one tuple not yet
 * observed; UINT64_MAX: unlimited.  It may change at any time: a greater value lets movers go on; a
 * smaller one removes nothing.  Errors: ROAM_EINVAL (0).
 */
enum roam_err roam_ps_delta(struct roam_ps_element *element, uint64_t delta);

/*
 * Removes all tuples with numbers below `number`, observed or not; UINT64_MAX: all there are.  May
 * raise First, and so let movers go on.  The element keeps its numbers.
 */
enum roam_err roam_ps_truncate(struct roam_ps_element *element, uint64_t number);

/* An element at one moment. */
struct roam_ps_state {
	uint64_t first;
	uint64_t last;    /* 0: no tuple was ever moved */
	uint64_t oldest;  /* the lowest number that has not been truncated; last + 1: none */
	uint64_t delta;   /* UINT64_MAX: unlimited */
	uint64_t bytes;   /* of the tuples there */
	uint64_t waiting; /* operations that wait */
};
enum roam_err roam_ps_state(struct roam_ps_element *element, struct roam_ps_state *state_p);

/*
 * The one call behind those above, with all that they leave out.  Fields that an operation does not
 * use may be zero.
 */
enum roam_ps_op {
	ROAM_PS_MOVE,
	ROAM_PS_OBSERVE,
	ROAM_PS_MOB,
	ROAM_PS_DELTA,
	ROAM_PS_TRUNCATE,
	ROAM_PS_STATE
};

/* Which tuple an observe reads. */
enum roam_ps_which {
	ROAM_PS_FIFO,   /* the oldest that has not been observed */
	ROAM_PS_LAST,   /* the newest; blocks while there is none */
	ROAM_PS_NUMBER, /* that of a number; blocks until it was moved; ROAM_EGONE: truncated */
	ROAM_PS_NEXT,   /* the first after a number; the oldest there if that one was truncated */
	ROAM_PS_MATCH   /* the oldest not observed that is like `tuple`, see "match" above */
};

#define ROAM_PS_PEEK 1u /* do not tag it as observed */
#define ROAM_PS_SKIP 2u /* with ROAM_PS_LAST: tag all older ones too, so that movers go on */

#define ROAM_PS_TRY UINT64_MAX /* as a timeout: do not wait at all */

/*
 * Cancels operations that wait.  Zero at first.  Many operations may share one; once it is
 * cancelled, all of them that have to wait return ROAM_ECANCELED at once.  While an operation with
 * a roam_ps_cancel waits, handlers of all signals run, and must return (roam.h, Signals and
 * cancellation): a handler may tell a thread to cancel the operation.
 */
struct roam_ps_cancel {
	uint32_t cancelled;
};
void roam_ps_cancel(struct roam_ps_cancel *cancel);

struct roam_ps_request {
	enum roam_ps_op op;
	enum roam_ps_which which;
	unsigned flags;
	uint64_t number;   /* of the tuple; DeltaValue; where to truncate; fields of a pattern */
	const void *tuple; /* to move; a pattern */
	size_t bytes;
	struct roam_ps_element *from;  /* mob: where to observe; NULL: the same element */
	void *buffer;                  /* for the tuple observed; may be NULL if limit is 0 */
	size_t limit;                  /* its size */
	uint64_t timeout_ns;           /* 0: wait for ever */
	struct roam_ps_cancel *cancel; /* NULL: it cannot be cancelled */

	/* Out, whether there was an error or not. */
	uint64_t moved;             /* the number of the tuple moved; 0: none was */
	uint64_t observed;          /* the number of the tuple observed; 0: none was */
	size_t got;                 /* its size; also with ROAM_ETOOBIG */
	bool skipped;               /* ROAM_PS_NEXT: tuples in between have been truncated */
	struct roam_ps_state state; /* ROAM_PS_STATE */
};

/*
 * Errors, besides those above: ROAM_ETIMEDOUT, ROAM_ECANCELED (the operation was not done; of a mob
 * request->moved says whether its first half was), ROAM_EGONE.
 */
enum roam_err roam_ps_call(struct roam_ps_element *element, struct roam_ps_request *request);

#ifdef __cplusplus
}
#endif

#endif
