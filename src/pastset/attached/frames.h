/*
 * What a server of elements and the programs attached to it say to each other: frames of a sealed
 * stream (link/channel.h), over TCP or a Unix socket.
 *
 * The client says hello; the server answers with its own and WELCOME, which shows the client that
 * the server knows the key; the client's ATTACH shows it to the server, which answers ATTACHED.
 * From then on the client asks and the server answers, each answer with the number of what was
 * asked, in any order.
 *
 * A client whose connection broke attaches by the name of its session.  It repeats each operation
 * without an answer, under the number it had, or under a new one if the server has not got it.
 */
#ifndef ROAMI_PAST_FRAMES_H
#define ROAMI_PAST_FRAMES_H

#include "link/channel.h"
#include "pastset/list.h"
#include "pastset/names.h"

#define ROAMI_GUEST_MAGIC "roamps04" /* the last two: the version of the format */

/* Operations of one client under way at a time, or answered and remembered; rule 11.7. */
#define ROAMI_GUEST_ASKS_MAX 1024u

enum {
	ROAMI_GUEST_WELCOME,
	ROAMI_GUEST_ATTACH,   /* struct roami_attach */
	ROAMI_GUEST_ATTACHED, /* struct roami_attached */
	ROAMI_GUEST_DETACH, /* the client goes of its own will; no answer */
	ROAMI_GUEST_BIND,   /* struct roami_bind, then the name and the template's text */
	ROAMI_GUEST_BOUND,  /* struct roami_ps_bound */
	ROAMI_GUEST_OP,     /* struct roami_ask, then a tuple to move */
	ROAMI_GUEST_OUTCOME, /* struct roami_outcome, then the tuple or struct roam_ps_state */
	ROAMI_GUEST_CANCEL, /* the operation of that number must not wait; no answer of its own */
	ROAMI_GUEST_LIST,   /* struct roami_list */
	ROAMI_GUEST_LISTED, /* struct roami_listed, then struct roami_listing of each element */
	ROAMI_GUEST_GONE    /* the server has forgotten the session, or the operation repeated */
};

struct roami_guest_head {
	uint32_t kind;
	uint32_t heard;  /* by the client: frames of this connection, modulo 2^32 */
	uint64_t number; /* of what is asked, the client's: 1, 2, ... in a session; 0: none */
};

struct roami_attach {
	uint64_t session; /* the client's; 0: a new one */
	uint32_t heard;   /* frames of the connection that broke */
	uint32_t spare;
	uint64_t wanted; /* no operation before this number is repeated */
};

struct roami_attached {
	uint64_t session;
	uint64_t highest; /* the number up to which the server has got what was asked */
	uint64_t keep_ns; /* how long a session without a connection is remembered */
};

struct roami_list {
	uint32_t first; /* element, */
	uint32_t node;  /* of that node's */
};

/* Bytes of a frame as it is before it is closed. */
#define ROAMI_GUEST_TEXT_MAX \
	(sizeof(struct roami_guest_head) + sizeof(struct roami_outcome) + ROAM_PS_TUPLE_MAX)
#define ROAMI_GUEST_FRAME_MAX (ROAMI_GUEST_TEXT_MAX + ROAMI_CHANNEL_EXTRA)

_Static_assert(sizeof(struct roami_outcome) >= sizeof(struct roami_ask) &&
		       sizeof(struct roami_listings) <= ROAM_PS_TUPLE_MAX,
	       "every frame fits");

#endif
