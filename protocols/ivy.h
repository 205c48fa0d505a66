/*
 * ivy's parts, for protocols that are ivy with a change (mirage): one owner per page, which alone
 * may write, or reads beside the nodes of its copyset.
 */
#ifndef ROAM_PROTOCOLS_IVY_H
#define ROAM_PROTOCOLS_IVY_H

#include "roam/protocol.h"
#include "roam/protocol_home.h"

enum ivy_state {
	IVY_START,   /* owner at node 0, which has all pages first; none elsewhere */
	IVY_NONE,    /* no access; the page is at its owner */
	IVY_FETCH,   /* a read asked for a copy */
	IVY_COPY,    /* a copy that may be read; this node is in the owner's copyset */
	IVY_EVICTED, /* the copy was evicted, and the owner does not know it yet */
	IVY_ASKED,   /* a write asked for the page; a copy may be here until it is invalidated */
	IVY_SHARED,  /* owner; others have copies, so no node writes */
	IVY_OWNER    /* owner; no other node has the page */
};

enum { IVY_READ, IVY_WRITE, IVY_INVALIDATE, IVY_DROP }; /* the first of the messages */

enum { IVY_MANAGER_FIXED, IVY_MANAGER_DYNAMIC }; /* the values of ROAM_IVY */

/* Per page; begins the page data of each protocol that uses ivy's parts. */
struct ivy_page {
	uint64_t copies; /* at the owner, the copyset: a bit for each node that has a copy */
	uint64_t until;  /* until when the page may not leave; after that, when it left */
	uint32_t owner;  /* elsewhere: the probable owner; at first node 0 */
	uint32_t spare;
};

/* Per node; begins the node state of each protocol that uses ivy's parts. */
struct ivy_node {
	bool dynamic; /* requests go to the probable owner; else to the page's manager */
	/* How long, in ns, a page stays at least after it came here; called under the page lock. */
	uint64_t (*window)(struct roami_node *node, uint32_t page);
	/*
	 * The owner's answer to a read, which the page's state shows already: gives up writing, and
	 * replies with the bytes.  Under the page lock.
	 */
	void (*lend)(struct roami_node *node, const struct roam_request *request, uint32_t page);
	/*
	 * Answers a node that takes the page, and has no copy, with the bytes and the part, under
	 * the page lock.  NULL: by roami_reply_page.
	 */
	void (*give)(struct roami_node *node, const struct roam_request *request, uint32_t page,
		     const struct roam_part *part);
	/*
	 * Called when a node that writes takes the page away, to which this node had access; its
	 * bytes are not sent yet.  Under the page lock.  NULL: nothing is to be done.
	 */
	void (*lost)(struct roami_node *node, uint32_t page);
	/*
	 * How long, in ns, a node that writes may not take the page, beside `until`.  Under the
	 * page lock.  NULL: 0.
	 */
	uint64_t (*keeps)(struct roami_node *node, uint32_t page);
};

extern const struct roam_page_state ivy_states[];
extern const struct roam_message ivy_messages[];

/*
 * The page's state, where "start" is replaced by what it means at this node.  The page lock is
 * held.
 */
enum ivy_state ivy_state(struct roami_node *node, uint32_t page);

/* ivy_state without the lock held: an invalidation may come between. */
enum ivy_state ivy_look(struct roami_node *node, uint32_t page);

static inline bool ivy_owns(enum ivy_state state)
{
	return state == IVY_OWNER || state == IVY_SHARED;
}

static inline uint64_t ivy_bit(unsigned node)
{
	roami_assert(node < 64);
	return UINT64_C(1) << node;
}

/* ivy's own `lend`. */
void ivy_lend(struct roami_node *node, const struct roam_request *request, uint32_t page);

/* How long a page stays at the node that has got it, where nothing chooses that for each page. */
uint64_t ivy_window(struct roami_node *node, uint32_t page);

/*
 * Makes this node the owner of a pending page, with the copyset; another node is the owner.
 * ivy_want fills in the call that asks for it (roami_pages_call), ivy_taken follows the answer.
 */
void ivy_want(struct roami_node *node, uint32_t page, struct roam_page_call *call);
void ivy_taken(struct roami_node *node, const struct roam_page_call *call);

void ivy_read_fault(struct roami_node *node, uint32_t page);
void ivy_write_fault(struct roami_node *node, uint32_t page);
bool ivy_evict(struct roami_node *node, uint32_t page);
void ivy_collect(struct roami_node *node, uint32_t page);
void ivy_check(struct roami_node *const *nodes, unsigned count);

#endif
