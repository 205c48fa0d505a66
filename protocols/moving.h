/*
 * What protocols with moving homes share (rule 7).  Every move increments the page's epoch.  Each
 * node has a reference (ROAM_HOME_REF: node and epoch) to the home of each page that it has dealt
 * with: from pages that it gave away, from answers, from notices; for other pages the directory
 * names the first home.  Requests and diffs carry the reference by which they are sent.  A node
 * that is not the home passes them on by the newer reference that it has, so epochs grow on the
 * way; a node without a newer reference than the request's is about to get the page, and parks the
 * request until the page is here.  The home at which a request ends answers it.
 */
#ifndef ROAM_PROTOCOLS_MOVING_H
#define ROAM_PROTOCOLS_MOVING_H

#include "home.h"

/* Per page. */
struct moving_page {
	struct home_scoped_page home;
	uint64_t owed;    /* of a page given away open: the version of its writes, not told yet */
	uint64_t copies;  /* at the home: nodes that may have a copy and have sent nothing since */
	uint64_t counted; /* the number of full barriers when `copies` was last valid */
	uint32_t ref;     /* the newest known, while this node is not home; 0: ask the directory */
	uint32_t checked; /* for tests, at node 0: the newest epoch ever seen of a home */
	bool refused;     /* the home has refused to move to this copy */
	bool asked;       /* the home went to a node that asked (MOVING_ASK, MOVING_DIFF) */
	uint16_t regrets; /* how often this node wanted the home back after that */
};

extern const struct roam_page_state moving_states[];

/*
 * The first messages of each protocol with moving homes; its handlers call the functions below,
 * with its policy.
 */
enum { MOVING_WANT, MOVING_DIFF, MOVING_ASK, MOVING_TYPES };

/* The beginning of each of these messages. */
struct moving_head {
	uint32_t page;
	uint32_t ref;
	uint16_t hops;
	uint16_t stay; /* the home must not move */
	uint32_t run;  /* of a want: how many pages behind it are wanted, too */
	uint64_t have; /* of a diff or an ask: the version of the copy that was written */
};

#define MOVING_ONCE     ROAM_PAGES_ONCE /* the most diffs under way at a time */
#define MOVING_DIFF_MAX (sizeof(struct moving_head) + ROAM_DIFF_MAX)
#define MOVING_SCRATCH  (MOVING_ONCE * MOVING_DIFF_MAX)

static inline struct moving_page *moving_page(struct roami_node *node, uint32_t page)
{
	return roami_page_data(node, page);
}

struct moving_answer {
	uint64_t version;
	uint32_t ref;
	uint32_t moved; /* the home has moved to the asker */
};

/* Notes a reference, if its epoch is newer.  The page lock is held. */
void moving_learn(struct roami_node *node, uint32_t page, uint32_t ref);

/* The newest reference known; 0: none. */
uint32_t moving_ref(struct roami_node *node, uint32_t page);

/*
 * Brings the pending page here, and opens it: with the home, or as a copy if the home must `stay`.
 */
void moving_fault(struct roami_node *node, uint32_t page, bool stay);

/*
 * Handles a write of the pending page, which this node can read: if its home is here, opens pages
 * behind it that will be written next.
 */
void moving_write_fault(struct roami_node *node, uint32_t page);

/* moving_fault for pages that will be read soon; asks for all before it waits for the first. */
void moving_ahead(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride,
		  bool stay);

/*
 * home_flush for moving homes, which acknowledge wherever the diffs find them.  moving_flush_asking
 * first tries to become home of pages with long diffs.
 */
void moving_flush(struct roami_node *node, const struct roam_sync *sync, struct roam_dirty *dirty,
		  size_t count);
void moving_flush_asking(struct roami_node *node, const struct roam_sync *sync,
			 struct roam_dirty *dirty, size_t count);

void moving_acquire(struct roami_node *node, const struct roam_sync *sync,
		    const struct roam_notice *notices, size_t count);
void moving_collect(struct roami_node *node, uint32_t page);
void moving_check(struct roami_node *const *nodes, unsigned count);

/* ------------------------------------------------------------------------------------ handlers */

/* A policy: whether the home, which is here, moves to node `to`.  The page lock is held. */
typedef bool moving_policy_fn(struct roami_node *node, const struct moving_head *head, unsigned to);

void moving_handle_want(struct roami_node *node, const struct roam_request *request,
			moving_policy_fn *moves);
/*
 * Handles a diff.  With it applied the writer may have all that the home has: then the home may
 * move without bytes.
 */
void moving_handle_diff(struct roami_node *node, const struct roam_request *request,
			moving_policy_fn *moves);

/* Handles the request of a writer to become home, which it may if its copy has all that is here. */
void moving_handle_ask(struct roami_node *node, const struct roam_request *request,
		       moving_policy_fn *moves);

/* The policy that no home moves. */
bool moving_never(struct roami_node *node, const struct moving_head *head, unsigned to);

/*
 * Whether no thread works on the page or writes it here: then a copy of its version has all bytes
 * that are here.  The page lock is held, and the page is here.
 */
bool moving_rests(struct roami_node *node, uint32_t page);

/* The nodes that got a copy since the last full barrier and have sent nothing since. */
uint64_t *moving_copies(struct roami_node *node, struct moving_page *data);

/*
 * Gives the page, which is here and not pending, to node `to` (roami_home_give).  Returns a
 * reference to the new home; 0: the page stays.  The page lock is held.
 */
uint32_t moving_give(struct roami_node *node, uint32_t page, unsigned to, uint8_t *bytes,
		     uint64_t *version_p);

/* Makes the pending page, whose bytes are in place, this node's.  The page lock is held. */
void moving_receive(struct roami_node *node, uint32_t page, uint64_t version, uint32_t ref);

#endif
