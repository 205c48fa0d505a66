/*
 * Which pages a thread will probably touch next.  Four policies, in one file:
 *
 *   reads    read faults at a constant distance: those behind are fetched ahead
 *   claims   first touches at a constant distance, or column by column: claimed along
 *   rows     pages that are written one after the other: those behind come or open along
 *   again    pages that this node had and lost: they come along with one that it asks for
 *
 * Nothing here changes what a program may see; a wrong guess costs time.  All state is the calling
 * thread's own, but for a counter in each page's entry.
 */
#ifndef ROAMI_PREFETCH_H
#define ROAMI_PREFETCH_H

#include "base/node.h"

/* After a read fault of `page`, in whose region the thread is: has the protocol fetch ahead. */
void roami_prefetch_read(struct roami_node *node, const struct roami_domain *domain, uint32_t page);

/* The stream of claims that goes on with `page`; NULL: none does. */
struct roami_stream *roami_prefetch_claims_expect(struct roami_streams *claims, uint32_t page);

/* That stream, else one that came near `page`, else a new one. */
struct roami_stream *roami_prefetch_claims_find(struct roami_streams *claims, uint32_t page);

/* The stream of which the claim under way has got more than its page; NULL: none. */
struct roami_stream *roami_prefetch_claims_granted(struct roami_streams *claims);

/*
 * `page` is claimed as the next one of a stream.  How many more go along, less than `most`: more
 * each time that the next claim is where it was expected.
 */
uint32_t roami_prefetch_claim(struct roami_stream *stream, uint32_t page, uint32_t most);

/* Whether a claim `page` may belong to a stream whose last claim is so far away. */
#define ROAMI_PREFETCH_STRIDE_MAX 64

/* Whether the pending page is written behind one that is written: the row goes on, perhaps. */
bool roami_prefetch_row(struct roami_node *node, uint32_t page);

#endif
