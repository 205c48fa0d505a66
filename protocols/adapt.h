/* What the files of adapt share: the state of a page, and what an acquire does with diffs. */
#ifndef ROAM_PROTOCOLS_ADAPT_H
#define ROAM_PROTOCOLS_ADAPT_H

#include "home.h"

#define ADAPT_OWN_BITS 7
#define ADAPT_OWN_MASK ((1u << ADAPT_OWN_BITS) - 1)

/*
 * The second half is in four bytes of its own, because it changes while the page is pending,
 * without the page's lock.
 */
struct adapt_page {
	struct home_page home;
	uint32_t tries : 3;   /* requests for the home that were refused, up to TRIES_MAX */
	uint32_t wait : 6;    /* writes to come before the next request */
	uint32_t alone : 2;   /* of a copy: diffs sent since one of another node */
	uint32_t updates : 2; /* of a copy: updates since it was last seen to be read */
	uint32_t seen : 1;    /* a copy was fetched before */
	uint32_t keen : 1;    /* and fetched again, so it is worth updates */
	uint32_t exact : 1;   /* the copy has only writes that its version has */
	/* Of a copy: the low bits of a version after `have` that this node's diff made; 0: none. */
	uint32_t own : ADAPT_OWN_BITS;
	uint32_t placed : 1; /* of a home: the page has been closed once */
	uint32_t taken : 1;  /* of a home: taken, and not closed since */
	uint32_t met : 1;    /* of a home: about to be written once while other nodes had copies */
	uint32_t dense : 2;  /* of a home: diffs in a row that were too long to leave */
	uint32_t rounds : 4; /* of a home: releases with a twin */
};

_Static_assert(sizeof(struct adapt_page) <= 16, "at most 64 bytes of metadata per touched page");

static inline struct adapt_page *adapt_page(struct roami_node *node, uint32_t page)
{
	roami_contract(roami_page_ours(node, page));
	return roami_page_data(node, page);
}

/* Finds out whether the home of the pending page was taken from this node. */
void adapt_look(struct roami_node *node, uint32_t page);

/*
 * Leaves a diff of this node's open interval in the diff log.  Returns the reference to
 * it, for roami_notice_add_diff; 0: there is no room, or no node reads it.  The page is pending.
 */
uint64_t adapt_log_leave(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes);

/*
 * Copies a diff that adapt_log_leave has left, of at most ROAM_DIFF_MAX bytes, and lets the home
 * know that its diffs are read; false: it is gone.  The page is pending.
 */
bool adapt_log_follow(struct roami_node *node, unsigned writer, uint64_t ref, uint32_t page,
		      uint8_t *diff, size_t *bytes_p);

/*
 * At an acquire: brings copies up to date by the diffs that the notices, ascending by page, name,
 * or drops them.
 */
void adapt_refresh(struct roami_node *node, const struct roam_notice *notices, size_t count);

#endif
