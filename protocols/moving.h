/*
 * What protocols share whose homes move (rule 7).  Every move increments the page's epoch.  Each
 * node has a reference (ROAM_HOME_REF: node and epoch) to the home of each page that it has dealt
 * with: from pages that it gave away, from answers, from notices; for other pages the directory
 * names the first home.  Requests and diffs carry the reference by which they are sent.  A node
 * that is not the home passes them on by the newer reference that it has, so epochs grow on the
 * way; a node that has none newer than the request's is about to get the page, and parks the
 * request until the page is here.  The home at which a request ends answers it.
 */
#ifndef ROAM_PROTOCOLS_MOVING_H
#define ROAM_PROTOCOLS_MOVING_H

#include "home.h"

/* Per page. */
struct moving_page {
	struct home_scoped_page home;
	uint64_t owed;    /* given away open: the version of what was written, still to be told */
	uint64_t copies;  /* at the home: nodes that may have a copy and have sent nothing since */
	uint64_t counted; /* full barriers when they were counted last */
	uint32_t ref;     /* the newest known, while this node is not home; 0: ask the directory */
	uint32_t checked; /* at node 0, by the tests: the newest epoch ever seen of a home */
	bool refused;     /* the home has refused to move to this copy */
	bool asked;       /* the home moved to a node that asked (MOVING_ASK, MOVING_DIFF) */
	uint16_t regrets; /* how often this node wanted it back after that */
};

extern const struct roam_page_state moving_states[];

/*
 * The first messages of each protocol whose homes move; its handlers call those below, with its
 * policy.
 */
enum { MOVING_WANT, MOVING_DIFF, MOVING_ASK, MOVING_TYPES };

/* All of them begin with it. */
struct moving_head {
	uint32_t page;
	uint32_t ref;
	uint16_t hops;
	uint16_t stay; /* the home is not to move */
	uint32_t run;  /* of a want: so many pages behind it are wanted too */
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
	uint32_t moved; /* the home did: it is then at the asker */
};

/* Notes a reference, if its epoch is newer.  The page lock is held. */
void moving_learn(struct moving_page *data, uint32_t ref);

/* The newest reference known; 0: none. */
uint32_t moving_ref(struct roami_node *node, uint32_t page);

/* Brings the pending page here: the home too, or a copy if it must `stay`, and opens it. */
void moving_fault(struct roami_node *node, uint32_t page, bool stay);

/*
 * This node writes the pending page, which it can read: if its home is here, opens pages behind it
 * that will be written next.
 */
void moving_write_fault(struct roami_node *node, uint32_t page);

/*
 * moving_fault for pages that will be read soon; all are asked for before the first is waited for.
 */
void moving_ahead(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride,
		  bool stay);

/*
 * As home_flush; the homes acknowledge wherever the diffs find them.  moving_flush_asking tries
 * first to become home of a page whose diff is long.
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
 * With the diff applied the writer may have all that the home has: then the home may move without
 * bytes.
 */
void moving_handle_diff(struct roami_node *node, const struct roam_request *request,
			moving_policy_fn *moves);

/* A node that has written a copy asks to be home, if what it copied is all that is here. */
void moving_handle_ask(struct roami_node *node, const struct roam_request *request,
		       moving_policy_fn *moves);

/* The policy that no home moves. */
bool moving_never(struct roami_node *node, const struct moving_head *head, unsigned to);

/*
 * Whether no thread works on the page or writes it here: then a copy of its version has all that is
 * here.  The page lock is held, and the page is here.
 */
bool moving_rests(struct roami_node *node, uint32_t page);

/* The nodes that got a copy since the last full barrier and have sent nothing since. */
uint64_t *moving_copies(struct roami_node *node, struct moving_page *data);

/*
 * Gives the page, which is here and not pending, to node `to`, see roami_home_give.  Returns a
 * reference to the new home; 0: the page stays.  The page lock is held.
 */
uint32_t moving_give(struct roami_node *node, uint32_t page, unsigned to, uint8_t *bytes,
		     uint64_t *version_p);

/* The pending page is this node's from now on; its bytes are in place.  The page lock is held. */
void moving_receive(struct roami_node *node, uint32_t page, uint64_t version, uint32_t ref);

#endif
