/*
 * Directory words, the creator's bytes, and homes that other nodes may take: calls for whichever
 * node has them, near or far (home/reach.h).
 */
#ifndef ROAMI_REMOTE_H
#define ROAMI_REMOTE_H

#include "base/node.h"

/*
 * The page number with which a message begins.  Fails the node if it is wrong, or if the message is
 * shorter than `bytes`.
 */
uint32_t roami_memory_page(struct roami_node *node, const struct roam_request *request,
			   size_t bytes);

/* Messages of the directory. */
enum { ROAMI_DIRECTORY_WORD, ROAMI_DIRECTORY_WORDS, ROAMI_DIRECTORY_ADOPT };

/* Directory words: a state and a node. */
#define ROAMI_WORD_CREATOR  0u /* unclaimed; the bytes are the creator's, or zero */
#define ROAMI_WORD_CLAIMED  (1ull << 62)
#define ROAMI_WORD_READY    (2ull << 62)
#define ROAMI_WORD_ASSIGNED (3ull << 62) /* placed, not yet touched */
#define ROAMI_WORD_STATE    (3ull << 62)

uint64_t roami_word_load(struct roami_node *node, uint32_t page);
/* Compare and swap; returns the value found. */
uint64_t roami_word_swap(struct roami_node *node, uint32_t page, uint64_t from, uint64_t to);

#define ROAMI_WORDS_MAX 512u /* pages in a row with one manager */

struct roami_words_ask {
	uint32_t first;
	uint32_t count;
};

/* The directory words of `count` pages, which have one manager. */
void roami_words_read(struct roami_node *node, uint32_t first, uint32_t count, uint64_t *words);

/* Whether words are final: those of pages that were just claimed may not be marked ready yet. */
bool roami_words_final(const uint64_t *words, uint32_t count);

/*
 * Copies the bytes that node 0 had at the seal into the runtime view, for `count` pages that this
 * node has claimed, at most ROAMI_CALLS_AT_ONCE.  app, may block.
 */
void roami_creator_fetch(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride);

/*
 * Whether node 0 may have had bytes in the page at the seal, as far as is known without a message.
 */
bool roami_creator_may_have(struct roami_node *node, uint32_t page);

/* Copies the bytes that node 0 had in a page to `to`; false: it had none, the page is zero. */
bool roami_creator_copy(struct roami_node *node, uint32_t page, uint8_t *to);

/*
 * Keeps a home that other nodes may take in place until roami_home_leave, which increments the
 * version if `changed` and returns it.  false: the home is no longer there.
 */
bool roami_home_enter(struct roami_node *node, struct roami_header *header);
uint64_t roami_home_leave(struct roami_header *header, bool changed);

/* Makes the node `home` the home of `page`, with the creator's bytes, on its behalf. */
void roami_adopt(struct roami_node *node, unsigned home, uint32_t page);

#endif
