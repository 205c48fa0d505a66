/*
 * Which pages a thread will probably touch next.  Four policies, in one file:
 *
 *   reads    read faults at a constant distance: those behind are fetched ahead
 *   claims   first touches at a constant distance, or column by column: claimed along
 *   rows     pages that are written one after the other: those behind come or open along
 *   again    pages that this node had and lost: they come along with one that it asks for
 *
 * Nothing here changes what a program may see; a wrong prediction costs time.  All state is the
 * calling thread's own, but for a counter in each page's entry.
 */
#ifndef ROAMI_PREFETCH_H
#define ROAMI_PREFETCH_H

#include "base/node.h"

/* After a read fault of `page`, of `region`: has the protocol fetch the pages ahead. */
void roami_prefetch_read(struct roami_node *node, const struct roami_region *region, uint32_t page);

/* The stream of claims that continues with `page`; NULL: none does. */
struct roami_stream *roami_prefetch_claims_expect(struct roami_streams *claims, uint32_t page);

/*
 * The stream to which a claim of `page` belongs: the one that expects it
 * (roami_prefetch_claims_expect), else one whose last claim was near it, else a new one.
 */
struct roami_stream *roami_prefetch_claims_find(struct roami_streams *claims, uint32_t page);

/* The stream whose claim under way was granted more than one page; NULL: none. */
struct roami_stream *roami_prefetch_claims_granted(struct roami_streams *claims);

/*
 * `page` is claimed as the next one of a stream.  Returns how many more to claim along with it,
 * less than `most`: the number grows each time that the next claim is where it was expected.
 */
uint32_t roami_prefetch_claim(struct roami_stream *stream, uint32_t page, uint32_t most);

/* The greatest distance from the last claim of a stream at which a claim may belong to it. */
#define ROAMI_PREFETCH_STRIDE_MAX 64

/*
 * Whether the pending page is to be written and the page before it is dirty: perhaps a row of pages
 * continues.
 */
bool roami_prefetch_row(struct roami_node *node, uint32_t page);

#endif
