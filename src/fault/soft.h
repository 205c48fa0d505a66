/*
 * Loads and stores of the `soft` engine: for worlds, and wherever page faults cannot be had
 * (ThreadSanitizer).
 */
#ifndef ROAMI_FAULT_SOFT_H
#define ROAMI_FAULT_SOFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

/*
 * Copies `bytes` at `offset` of the heap, all within one page, out of or into the runtime view, if
 * this node has the access; otherwise returns false and the caller runs the fault function for page
 * offset / ROAM_PAGE_SIZE and tries again.  Check and copy are one step to protect(): when that has
 * returned, no store with the old access is under way. Aligned 2, 4 and 8 byte values are not torn.
 * Any thread.
 */
bool roami_soft_load(void *state, uint64_t offset, void *out, size_t bytes);
bool roami_soft_store(void *state, uint64_t offset, const void *in, size_t bytes);

/* The access this node has to a page. */
enum roam_access roami_soft_access(void *state, uint32_t page);

#endif
