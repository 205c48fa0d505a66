/*
 * ROAM_CHECK=race: diffs of one byte by two nodes in intervals that nothing orders.  One node
 * keeps, per byte of a page, the node that changed it last and the interval.  That is the page's
 * home, if all diffs go there by way of the core: they then travel as messages, with their
 * writers' clocks.  A protocol that sends diffs itself shows them to the page's keeper
 * (roami_diff_show).  Homes make twins of their own pages too: slower, and nothing else changes.
 * The other checks of diffs (ROAMI_CHECK_DIFFS) work beside it.
 */
#ifndef ROAMI_RACE_H
#define ROAMI_RACE_H

#include <stdio.h>

#include "base/node.h"
#include "os/os.h"

/* Whether diffs are looked at: for races or for anything else. */
static inline bool roami_race_checked(const struct roami_node *node)
{
	return (node->options->check & ROAMI_CHECK_DIFFS) != 0 && node->protocol->checks_races;
}

struct roami_races {
	uint64_t *shadow;            /* ROAM_CHECK=race: per byte, its last writer */
	struct roami_outside *outside; /* ROAM_CHECK=scope; NULL: not checked */
	struct roami_race *race;     /* and the reports; NULL: not checked */
	uint64_t *written;           /* per page, the code by which this node began to write it */
	uint64_t *codes;             /* at homes: the code by which each writer began, per page */
	uintptr_t text, text_end;    /* the program's code */
	struct roami_blocks *blocks; /* allocated blocks of all nodes, for reports */
};

static inline struct roami_races *races_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_RACE].state;
}

/* What a node last synchronised on before it wrote. */
struct roami_synced {
	uint64_t object;
	uint64_t kind; /* enum roami_synced_kind */
};

#define ROAMI_SYNCED_OWN 4096u /* ids of the library's own objects are below */

enum roami_synced_kind {
	ROAMI_SYNCED_NOT,
	ROAMI_SYNCED_LOCK,
	ROAMI_SYNCED_UNLOCK,
	ROAMI_SYNCED_BARRIER,
	ROAMI_SYNCED_COND,
	ROAMI_SYNCED_FLAG,
	ROAMI_SYNCED_SET, /* a flag, which shows this node nothing */
	ROAMI_SYNCED_REDUCE,
	ROAMI_SYNCED_KINDS
};

/* A thread of this node has synchronised.  Nothing is kept unless a check sees diffs. */
void roami_race_synced_now(struct roami_node *node, enum roami_synced_kind kind, uint64_t object);

static inline void roami_race_synced(struct roami_node *node, enum roami_synced_kind kind,
				     uint64_t object)
{
	if (__builtin_expect(races_of(node)->race != NULL, 0))
		roami_race_synced_now(node, kind, object);
}

struct roami_synced roami_race_since(struct roami_node *node);

/*
 * The clock that this node has applied, which goes with its diffs.  roami_race_clock_by sets the
 * function that reads it, once, when the node opens.
 */
void roami_race_clock_by(struct roami_node *node,
			 void (*clock)(struct roami_node *node, struct roami_vclock *clock_p));
void roami_race_clock(struct roami_node *node, struct roami_vclock *clock_p);

/* The calling thread's write to the page has faulted.  Also called in handlers. */
void roami_race_wrote_now(struct roami_node *node, uint32_t page);

static inline void roami_race_wrote(struct roami_node *node, uint32_t page)
{
	if (__builtin_expect(races_of(node)->race != NULL, 0))
		roami_race_wrote_now(node, page);
}

/* The message to roami_outside_handle. */
unsigned roami_race_outside_type(const struct roami_node *node);

/* The roami_race_code by which this node last began to write the page; 0: not known. */
uint64_t roami_race_page_code(struct roami_node *node, uint32_t page);

/*
 * A diff, encoded and checked, has reached the page's home or keeper.  `writer` made it in the
 * interval that follows `clock`; before that it synchronised on `since`.  `code`:
 * roami_race_page_code at the writer.  Any thread.
 */
void roami_race_note(struct roami_node *node, uint32_t page, unsigned writer,
		     const struct roami_vclock *clock, const struct roami_synced *since,
		     uint64_t code, const uint8_t *diff, size_t bytes);

/* The home's own writes to a page, as its twin shows them. */
void roami_race_note_home(struct roami_node *node, uint32_t page);

/* A block of the heap, as in the message about it. */
#define ROAMI_BLOCK_BYTES 64
struct roami_block {
	uint64_t offset;
	uint64_t bytes; /* 0: there is none any more */
	uint64_t code;  /* which allocated it: roami_race_code */
	char name[ROAMI_BLOCK_BYTES - 3 * sizeof(uint64_t)];
};

/*
 * A block was allocated here, at this place in the heap, by the code at `from`; `name` and `from`
 * may be NULL.  `bytes` 0: its memory may be another block's from now on.  With `tell` the other
 * nodes, which do not do the same, are told before the call returns.  Nothing is kept unless a
 * check names blocks.
 */
void roami_race_block(struct roami_node *node, uint64_t offset, uint64_t bytes, const char *name,
		      const void *from, bool tell);

/* How many blocks this node has heard of; the one of an index, NULL: there is none yet. */
uint32_t roami_race_blocks(const struct roami_node *node);
const struct roami_block *roami_race_block_at(const struct roami_node *node, uint32_t index);

/*
 * Opens this node's file of a report, the path and its number, and writes the blocks to it, a line
 * each; NULL after a line that says why not.
 */
FILE *roami_race_file(const struct roami_node *node, const char *option, const char *path);

/*
 * An address of code as a number that means the same in all of the program's processes, wherever
 * they loaded it; 0: it is not the program's.  roami_race_code_text: in words, "prog+0x11b5
 * (work+0x25)"; "" for 0.
 */
uint64_t roami_race_code(const struct roami_node *node, const void *code);
void roami_race_code_text(const struct roami_node *node, uint64_t code,
			  char text[ROAMI_OS_POSITION_BYTES]);

/*
 * Writes the block at `offset`, as " (name + 0x38, of 4096 bytes from 0x200000000000)", or "" if
 * there is none.  Returns where the block begins, or the page.
 */
#define ROAMI_RACE_NAME_BYTES 180
uint64_t roami_race_name(const struct roami_node *node, uint64_t offset, char *text, size_t bytes);

/* Prints the result of a check in words, which the table of counters does not show. */
void roami_check_verdict(const char *check, uint64_t found, uint64_t alike, int fd);

#endif
