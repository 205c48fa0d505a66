/*
 * Fault engines: how a node takes away and gives access to pages of its app view, and learns of
 * touches.
 *
 * An engine is one file, src/fault/NAME.c, that defines `const struct roami_fault_engine
 * roami_fault_NAME`, plus its name in src/fault/meson.build.  Of roam's headers it includes only
 * this one, roam.h and those of src/os.
 *
 * The room keeps rules 1.1 (MISSING), 1.2 (zap), 1.4 (handlers, their stacks), 1.9 (the library's
 * handlers stay installed) and 1.10 (pages with a second address, alias.h).
 */
#ifndef ROAMI_FAULT_ENGINE_H
#define ROAMI_FAULT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

/*
 * The two views of a heap: `app` is restricted, `runtime` always read/write, both map `fd` at
 * `offset`.
 */
struct roami_view {
	uint8_t *app;
	uint8_t *runtime;
	size_t bytes;
	int fd;
	uint64_t offset;
};

/*
 * Called on the thread that touched `page` without the access it needs, in its signal handler.
 * `write` is the kind of access where `kind_known`; else false.  Returns when the access may be
 * retried.
 *
 * A page may fault although it has the access: two threads met, or the kernel dropped its mapping
 * to reclaim memory (uffd).  Then, with the page's access held still, protect(page, 1, ROAM_NONE,
 * access): harmless, and without it the dropped page faults for ever.
 */
typedef void roami_fault_fn(void *arg, uint32_t page, bool write, bool kind_known);

struct roami_fault_engine {
	const char *name;
	size_t state_size; /* the core allocates and zeroes */

	/*
	 * Opening pages this many apart costs more than fetching the pages between them too and
	 * opening one range.  0: never.
	 */
	uint32_t bridge;

	/*
	 * Whether this kernel and process can run it; if not, says why (for `roam info`).  No
	 * lasting effect.
	 */
	bool (*probe)(char *why, size_t why_bytes);

	/* Takes over the app view: every page becomes ROAM_NONE.  Installs the signal handlers. */
	enum roam_err (*open)(void *state, const struct roami_view *view, roami_fault_fn *fn,
			      void *arg);

	/*
	 * Gives the app view back: plain read/write; restores the handlers.  Also after a failed
	 * open.
	 */
	void (*close)(void *state);

	/*
	 * Changes the access of pages [first, first + count) from `from` (all of them; ROAM_READ
	 * may include pages that have none when `to` is ROAM_NONE, and vice versa) to `to`, in as
	 * few system calls as can be.  Opening needs the pages' bytes to be in place in the runtime
	 * view.  Any thread, also in handlers; async-signal-safe.
	 */
	enum roam_err (*protect)(void *state, uint32_t first, uint32_t count, enum roam_access from,
				 enum roam_access to);

	/*
	 * Fills pages, holes of `fd` without access, with the bytes at `from` and opens them for
	 * reading, in one step: they are readable before the caller can check the bytes.  Returns
	 * how many of the first pages it has done: it ends at a page that is no hole.  NULL: the
	 * engine cannot.
	 */
	uint32_t (*copy)(void *state, uint32_t first, uint32_t count, const uint8_t *from);

	/*
	 * Opens pages without access for writing, over holes of `fd`, in one step: they are zero.
	 * Anything but ROAM_OK: not all were holes; protect does the rest.  NULL: the engine
	 * cannot.
	 */
	enum roam_err (*zero)(void *state, uint32_t first, uint32_t count);

	/*
	 * Provides zero pages for holes of `fd` that no other thread uses yet: opening them costs
	 * less then.  NULL: not with this engine.
	 */
	void (*fill)(void *state, uint32_t first, uint32_t count);

	/*
	 * Loads and stores of this node at an offset of the heap, within one page; false: the page
	 * has to fault first.  NULL: plain loads and stores of the app view, which fault by
	 * themselves.
	 */
	bool (*load)(void *state, uint64_t offset, void *out, size_t bytes);
	bool (*store)(void *state, uint64_t offset, const void *in, size_t bytes);

	/*
	 * Whether roam's signal handlers are still installed; reinstalls and chains if not.  Cheap
	 * enough for once a second.
	 */
	bool (*check_handlers)(void *state);

	/* A descriptor without which accesses are no longer seen; -1: none.  NULL: none. */
	int (*file)(const void *state);
};

/* Does nothing: for a single node.  Not in the list. */
extern const struct roami_fault_engine roami_fault_plain;

extern const struct roami_fault_engine
	*const roami_fault_engines[]; /* NULL-terminated, from the build's list */

#endif
