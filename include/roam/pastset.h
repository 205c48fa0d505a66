/*
 * PastSet: structured shared memory, beside the pages of roam/roam.h.
 *
 * Programs share *elements* instead of bytes.  An element is a named, ordered sequence of tuples of
 * one type, its *template*.  roam_ps_move adds a tuple at the end, roam_ps_observe reads one, which
 * stays: a tuple is tagged as observed, and can be observed again until the element is truncated.
 * The words and their meaning are those of the PastSet papers (Bjorndalen, Anshus, Vinter and
 * Larsen 2000; Vinter 1999); docs/pastset.md says where this library had to choose.
 *
 * Order.  Operations on one element happen one after the other, in an order that all see; between
 * elements there is none.  Tuples carry their own bytes and order nothing else: what a program
 * stores in the heap of roam.h still needs that header's synchronisation.
 *
 * Numbers.  The tuples of an element are numbered 1, 2, 3 and so on.  *Last* is the number of the
 * newest; *First* that of the oldest that nobody has observed, Last + 1 if there is none.
 *
 * Blocking.  All operations are synchronous.  A move waits while DeltaValue forbids it, an observe
 * until its tuple is there; with a timeout, or until another thread cancels it.  An operation that
 * was timed out or cancelled has not been done, and says so; of one at a server that did not answer
 * that may be unknown, see "attaching".  Who came first is served first, among
 * those who can be served.
 *
 * Threads.  Any number of threads of any node may use elements, and the same one, at the same time.
 * None of them has to be known to roam_thread_init, but for elements in pages.  Not from signal
 * handlers.  At most 1,024 operations of one node may be under way at others: the next one is not
 * done, and returns ROAM_EAGAIN.
 *
 * Where.  An element lives at one node; others send their operations there, its own threads need no
 * message.  Elements belong to the nodes of a job as they are since CREATE, or since roam run
 * started them: those entered before CREATE, or in a round that roam_wait_for_end has ended, are
 * gone, and operations on them return ROAM_ESTATE.
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
 * Numbers are i8 i16 i32 i64, u8 u16 u32 u64, f32 f64.  Spaces count for nothing.
 *
 * A tuple's bytes are the same on every machine: the fields in their order without gaps, numbers
 * little-endian, IEEE 754; before the items of a [] their count as u32.  So the tuple of a template
 * of fixed size is a packed struct; others are written and read with a cursor, below.
 */

/*
 * A place in the bytes of a tuple that is written or read field by field.  What does not fit any
 * more, or is not there, does nothing, nor does what follows; roam_ps_cursor_end says so.
 *
 *	roam_ps_cursor_begin(&cursor, tuple, sizeof(tuple));
 *	roam_ps_put(&cursor, &number, sizeof(number));
 *	roam_ps_put_items(&cursor, name, (uint32_t)strlen(name), 1);
 *	err = roam_ps_cursor_end(&cursor, &bytes);
 */
struct roam_ps_cursor {
	uint8_t *begin, *at, *end; /* at: NULL once something did not fit */
};

/* At the beginning of `bytes` of a tuple, or for one. */
void roam_ps_cursor_begin(struct roam_ps_cursor *cursor, void *tuple, size_t bytes);

/*
 * *bytes_p, which may be NULL: those that were written or read.  Errors: ROAM_ETOOBIG (not all
 * fitted, or was there).
 */
enum roam_err roam_ps_cursor_end(const struct roam_ps_cursor *cursor, size_t *bytes_p);

/* Numbers, arrays and groups of fixed size. */
void roam_ps_put(struct roam_ps_cursor *cursor, const void *fields, size_t bytes);
void roam_ps_get(struct roam_ps_cursor *cursor, void *fields, size_t bytes);

/*
 * A [], of items of that size each.  To write, `items` may be NULL: then they follow one by one, as
 * they must where their sizes vary (item_bytes 0).  roam_ps_get_items returns where they are, in
 * the tuple and at no particular address, and goes on behind them; items of size 0 are to be read
 * one by one.  *count_p: how many; 0 where something was not there, and the result NULL.
 */
void roam_ps_put_items(struct roam_ps_cursor *cursor, const void *items, uint32_t count,
		       size_t item_bytes);
const void *roam_ps_get_items(struct roam_ps_cursor *cursor, uint32_t *count_p, size_t item_bytes);

/* An element as one program knows it. */
struct roam_ps_element;

/* Where a new element lives. */
enum roam_ps_place {
	ROAM_PS_HASH,    /* at a node that its name says (default): elements spread over the job */
	ROAM_PS_CREATOR, /* at the node that enters it first */
	ROAM_PS_NODE     /* at the node given */
};

/* Where the bytes of its tuples are. */
enum roam_ps_storage {
	ROAM_PS_SERVER, /* at its node: they travel with the operations (default) */
	ROAM_PS_PAGES   /* in the shared heap, under a lock: they travel as pages */
};

/* What a new element is to be like; NULL or zeroes: the defaults. */
struct roam_ps_options {
	enum roam_ps_place place;
	unsigned node;  /* ROAM_PS_NODE */
	uint64_t delta; /* DeltaValue; 0: unlimited */
	/*
	 * Where there is no memory for a new tuple, the element's oldest go, as far as they and all
	 * older ones have been observed.  Otherwise tuples go by roam_ps_truncate only.
	 */
	bool forget;
	enum roam_ps_storage storage;
	size_t memory;         /* ROAM_PS_PAGES: bytes of the heap for its tuples; 0: 4 MiB */
	const char *function;  /* an X-function's name, see below; NULL: tuples stay as they are */
	unsigned participants; /* in it */
	uint64_t timeout_ns;   /* roam_ps_enter_at: for the server to answer in; 0: 10 s */
};

/*
 * Binds to the element of that name, made now if there is none; NULL: the name is the template's
 * text without spaces, as in the papers' first PastSet.  Of an element that is there already the
 * options count for nothing, but its template must be the same.  Blocks for messages to two nodes
 * at most, not for other programs.  Errors: ROAM_EINVAL (a name, a template that makes no sense, a
 * node that is not there, a template that is not for the X-function), ROAM_EMISMATCH (another
 * template, X-function or number of participants), ROAM_EUNKNOWN (an X-function that is not known
 * where the element is to live), ROAM_ENOMEM (no memory here, or in the heap),
 * ROAM_ENOSPC (ROAM_PS_MEMORY of the node where it is to live is used up, in which names and
 * elements count as tuples do); roam_ps_why() says more about each.
 */
enum roam_err roam_ps_enter(const char *name, const char *template_text,
			    const struct roam_ps_options *options,
			    struct roam_ps_element **element_p);

/*
 * Forgets the binding; the element stays as it is.  No operation may be under way with it.  NULL is
 * ignored.
 */
void roam_ps_leave(struct roam_ps_element *element);

/* The template's text, without spaces; lasts as long as the binding. */
const char *roam_ps_template(const struct roam_ps_element *element);

/* The node that the element lives at; 0 at `roam past serve`. */
unsigned roam_ps_node(const struct roam_ps_element *element);

/*
 * More about the last error of the calling thread's roam_ps_enter, roam_ps_enter_at,
 * roam_ps_attach or roam_ps_serve, in one line: both templates of a mismatch, the place where a
 * text makes no sense.  Never NULL; lasts until the thread's next of these.
 */
const char *roam_ps_why(void);

/* ----------------------------------------------------------------------------------- attaching */
/*
 * `roam past serve` hosts elements without a job.  Programs attach to it and leave as they like; it
 * keeps the elements.  A node of a job may serve programs, too: roam_ps_serve.  They need not be
 * nodes of a job, nor start one: roam_start is not called.
 * Everything below works on elements of a server as on those of a node, from any number of
 * threads, of which 1,024 may be in an operation of one attachment at a time: ROAM_EAGAIN.
 *
 * The connection is a Unix socket or TCP, encrypted and authenticated both ways with a key that
 * server and client have in a file.  Where it breaks, the threads that wait make another one, and
 * their operations go on: each is done once, whatever of it got lost, but those that had to wait
 * come last again among those that do.
 *
 * While there is none, operations wait for it.  One whose time is up, or that is cancelled, ends
 * all the same, whatever keeps the server from answering: it is gone, or stopped, its host is cut
 * off, the connection is full.  It may take three seconds more than its time: the server has two
 * to answer, then the connection counts as broken, and one is for another connection.  The
 * operation returns ROAM_ETIMEDOUT or ROAM_ECANCELED if it was not done, and ROAM_ELOST if nobody
 * here knows, since the server may have got it, or get it yet: it is done once, or not at all.
 * Later operations are as usual.  But an X-function's participant, whose rounds are counted, then
 * calls the same once more, a move, an observe or a mob, and until he has done so the two others
 * return ROAM_ESTATE.  What was done of the first one is not done again; if it has moved a tuple
 * for the round, that one counts and not the second.  (After a mob with request->moved set it is
 * the observe.)
 *
 * Nobody is there any more, because the server was killed say: every operation under way and every
 * later one returns ROAM_ELOST at once; so they do if, after a connection broke, the server cannot
 * be reached, or does not answer, for as long as it remembers who is cut off, 60 s unless `roam
 * past serve --keep` says otherwise.  Who comes later than that, or to a server that was started
 * anew, gets ROAM_EGONE from all operations, and attaches again; so does a program that makes a
 * server with no memory left remember more than any other (docs/pastset.md has the bounds).
 * Whether those under way were done is not known then; what had returned ROAM_OK was.  A program
 * that is killed leaves nothing that waits; where it had moved to an element with an X-function,
 * the others' operations on that one return ROAM_ELOST after that time.
 */
struct roam_ps_server;

/*
 * Attaches to the server at an address: HOST:PORT, or the path of a Unix socket (with a /).  The
 * key is in `key_file`; NULL: in the one that ROAM_PS_KEY names.  A child of fork() attaches for
 * itself: what its parent is attached to returns ROAM_ESTATE.  Blocks, 10 s for an answer at most,
 * and for as long as it takes to look up HOST; later connections are made to the same host.
 * Errors: ROAM_EINVAL (an address or a key file that makes no sense), ROAM_ELOST (no server
 * there), ROAM_EKEY (it has another key), ROAM_EPROTO (something else answers, or another
 * version), ROAM_ENOMEM, ROAM_ESYSTEM; roam_ps_why() says more about each.
 */
enum roam_err roam_ps_attach(const char *address, const char *key_file,
			     struct roam_ps_server **server_p);

/*
 * Lets programs attach to this node of a job, at an address as `roam past serve` has one: then the
 * elements of the whole job are theirs, too, but for those in pages, which enter_at refuses with
 * ROAM_EINVAL.  Each node that wants to serve calls it for itself, once.  To the programs the job
 * is what a server is, and gone at its end.  `at`, of at_bytes, is the address as programs may use
 * it (of a port 0, the one chosen), which 300 bytes hold; may be NULL if at_bytes is 0.  The key as
 * for roam_ps_attach; one is made where there is no file.  The programs' operations that are under
 * way at other nodes count among the 1,024 of this one.  Errors: ROAM_EINVAL (an address or a key
 * file that makes no sense), ROAM_ESTATE (this node serves already), ROAM_ESYSTEM (it cannot have
 * that address), ROAM_ENOMEM; roam_ps_why() says more about each.
 */
enum roam_err roam_ps_serve(const char *address, const char *key_file, char *at, size_t at_bytes);

/*
 * Leaves the server; does not block.  Operations under way return ROAM_ELOST, so do later ones;
 * elements are still to be left.  NULL is ignored.
 */
void roam_ps_detach(struct roam_ps_server *server);

/*
 * As roam_ps_enter, at a server: a new element lives at the job's node that options->place says,
 * where ROAM_PS_CREATOR is the one that serves; `roam past serve` is node 0 of one.  ROAM_PS_PAGES
 * is ROAM_EINVAL.  ROAM_ETIMEDOUT: the server has not answered in time, and three seconds more as
 * above; the element may have been made.
 */
enum roam_err roam_ps_enter_at(struct roam_ps_server *server, const char *name,
			       const char *template_text, const struct roam_ps_options *options,
			       struct roam_ps_element **element_p);

/* -------------------------------------------------------------------------------- X-functions */
/*
 * An X-function changes what moving to an element and observing it mean (Vinter et al. 2002: "user
 * redefinable memory semantics").  Those here are reductions over a number of participants, which
 * goes in rounds: each participant moves a tuple, and observes the result of all; between the two
 * it may work.  The result of round k is the element's tuple number k.
 *
 * A participant is a binding, used by one thread at a time: its k-th move takes part in round k,
 * its k-th roam_ps_observe waits for round k's result.  It may move several rounds ahead, at most
 * 16 before the oldest is complete, and as far as DeltaValue allows: First is the oldest round that
 * not all have observed.  Observes in another order than ROAM_PS_FIFO tag nothing.  The template
 * must be of fixed size, the storage ROAM_PS_SERVER.  With options->forget results that all have
 * observed make room.  Errors: ROAM_EINVAL for a move of more participants than there are.
 *
 * "sum", "product", "min" and "max" combine the tuples number by number, "and" and "or" integers.
 *
 * "match" is no reduction, and has 0 participants: its element is as any other, and ROAM_PS_MATCH
 * may be asked of it.  Then request->tuple is a pattern, a tuple of the template, and the bits of
 * request->number say in which of the outermost fields the tuple observed has to be the same, bit 0
 * in the first one.  Tuples are compared where the element lives; only the one found travels.
 *
 * "bitmap", of 0 participants too, compresses tuples of any template when they are moved and makes
 * them whole when they are observed: bitmaps and the like take a fraction of the memory.
 */

/*
 * A program's own: a reduction, or a filter as "match" is; the other function is NULL.  Runs at the
 * element's node, on any thread, under a lock: it must be short, not block, not allocate, not touch
 * the heap.
 */
struct roam_ps_function {
	const char *name;
	/*
	 * Combines a tuple into the sum of those before it, both of so many bytes and at no
	 * particular address.  In which order is not said.
	 */
	void (*combine)(void *arg, void *sum, const void *tuple, size_t bytes);
	void *arg;
	/*
	 * Whether a tuple is like the pattern of ROAM_PS_MATCH, both of the template and at no
	 * particular address; `number` is the request's.  Asked once about each, it must answer by
	 * these alone.
	 */
	bool (*match)(void *arg, uint64_t number, const void *pattern, size_t pattern_bytes,
		      const void *tuple, size_t tuple_bytes);
};

/*
 * Makes a function known on this node.  No code is sent: each node where elements with it may live
 * registers it before any node enters one.  Of one name the first stays.  Errors: ROAM_EINVAL,
 * ROAM_ENOSPC (63 are known).
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
 * Reads the oldest tuple that nobody has observed, and tags it: each goes to one observer.  Blocks
 * until there is one.  *bytes_p, which may be NULL, is its size.  Errors: ROAM_ETOOBIG (longer than
 * `limit`; it is not tagged, and *bytes_p is set).
 */
enum roam_err roam_ps_observe(struct roam_ps_element *element, void *tuple, size_t limit,
			      size_t *bytes_p);

/*
 * Moves a tuple to `to`, then observes one of `from` as roam_ps_observe does; both may be the same
 * element.  Not atomic: others may come in between.  One message forth and back if both live at one
 * node.
 */
enum roam_err roam_ps_mob(struct roam_ps_element *to, const void *tuple, size_t bytes,
			  struct roam_ps_element *from, void *out, size_t limit, size_t *bytes_p);

/*
 * Sets DeltaValue, the most by which Last + 1 may exceed First: 1 lets one tuple wait to be
 * observed; UINT64_MAX: unlimited.  At any time.  A greater one lets movers go on; a smaller one
 * removes nothing.  Errors: ROAM_EINVAL (0).
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
 * The one call behind those above, with everything they leave out.  What an operation does not use
 * may be zero.
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
	ROAM_PS_FIFO,   /* the oldest that nobody has observed */
	ROAM_PS_LAST,   /* the newest; blocks while there is none */
	ROAM_PS_NUMBER, /* that of a number; blocks until it was moved; ROAM_EGONE: truncated */
	ROAM_PS_NEXT,   /* the first after a number; the oldest there if that one was truncated */
	ROAM_PS_MATCH   /* the oldest nobody has observed that is like `tuple`, see "match" above */
};

#define ROAM_PS_PEEK 1u /* do not tag it as observed */
#define ROAM_PS_SKIP 2u /* with ROAM_PS_LAST: tag all older ones too, so that movers go on */

#define ROAM_PS_TRY UINT64_MAX /* as a timeout: do not wait at all */

/*
 * Cancels operations that wait.  Zero at first.  Many operations may have the same one; once it was
 * cancelled, all that have to wait return ROAM_ECANCELED at once.  While an operation that has one
 * waits, handlers of all signals run, which must return (roam.h, Signals and cancellation): they
 * may tell a thread to cancel it.
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
	struct roam_ps_cancel *cancel; /* NULL: nobody will */

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
