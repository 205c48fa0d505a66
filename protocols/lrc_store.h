/* Where lrc keeps diffs until other nodes ask for them. */
#ifndef LRC_STORE_H
#define LRC_STORE_H

#include "roam/protocol.h"

/*
 * A bounded store of records, store_bytes at most, taken up front and used as needed, so that
 * handlers may put and drop.  A record is a head of LRC_STORE_HEAD bytes that the protocol reads
 * and changes in place, then bytes that it copies in and out.  Records are numbered from 1.  The
 * caller orders its calls: roami_memory_lock.
 */
#define LRC_STORE_HEAD 48

void lrc_store_open(struct roami_node *node, uint64_t store_bytes);
/* The room that a record of so many bytes takes; the room that is left. */
uint64_t lrc_store_need(size_t bytes);
uint64_t lrc_store_left(struct roami_node *node);

/* Stores a record and returns its number; 0: there is no room. */
uint32_t lrc_store_put(struct roami_node *node, const void *data, size_t bytes);
void *lrc_store_head(struct roami_node *node, uint32_t record);
void lrc_store_get(struct roami_node *node, uint32_t record, void *data, size_t bytes);
void lrc_store_drop(struct roami_node *node, uint32_t record);

#endif
