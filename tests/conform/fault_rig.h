/*
 * A heap under one fault engine, for the tests of the engines.
 */
#ifndef ROAM_TESTS_FAULT_RIG_H
#define ROAM_TESTS_FAULT_RIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/engine.h"
#include "fault/soft.h"
#include "os/os.h"
#include "unit.h"

#define PAGE ((size_t)ROAM_PAGE_SIZE)

#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#ifndef WITH_TSAN
#define WITH_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifndef WITH_ASAN
#define WITH_ASAN 0
#endif

/* One heap under one engine, with the access each page should have. */
struct rig {
	const struct roami_fault_engine *engine;
	void *state;
	struct roami_view view;
	uint32_t pages;
	_Atomic uint8_t *access; /* the access that we asked for */
	_Atomic uint32_t *locks; /* per page: held while its access changes */
	_Atomic uint32_t faults;
	_Atomic uint32_t last_page;
	_Atomic bool last_write;
	_Atomic bool last_known;
	_Atomic uint32_t errors;      /* seen by threads, in which CUnit cannot be used */
	_Atomic uintptr_t last_stack; /* an address in the fault function's frame */
};

/*
 * Opens a heap with memory of its own, which children of fork do not get; every page has no access.
 */
enum roam_err rig_open(struct rig *rig, const struct roami_fault_engine *engine, uint32_t pages);
void rig_close(struct rig *rig);

/* The fault function: gives what is asked for (kind not known: read first), under the page's lock.
 */
void rig_fault(void *arg, uint32_t page, bool write, bool known);

/* Calls protect(), and notes the result in `access`. */
enum roam_err rig_protect(struct rig *rig, uint32_t first, uint32_t count, enum roam_access from,
			  enum roam_access to);

/* A load and a store of the program. */
uint8_t rig_load(struct rig *rig, size_t offset);
void rig_store(struct rig *rig, size_t offset, uint8_t value);

void rig_page_lock(struct rig *rig, uint32_t page);
void rig_page_unlock(struct rig *rig, uint32_t page);

/* The number of faults since the last call. */
uint32_t rig_faults(struct rig *rig);

/*
 * The number of faults of a write to a page without access: two where the engine cannot tell it
 * from a read.
 */
uint32_t rig_write_faults(const struct rig *rig);

bool rig_is_soft(const struct rig *rig);

/*
 * Whether an engine can be tested here; if not, says why.  Fails the test if this kernel should be
 * able to run the engine: an engine that fails its own probe is broken, not skipped.
 */
bool rig_engine_usable(const struct roami_fault_engine *engine);

/* Runs a test with a fresh heap under every engine; `signals`: only those that work by signals. */
void rig_each_engine(uint32_t pages, bool signals, void (*test)(struct rig *rig));

#endif
