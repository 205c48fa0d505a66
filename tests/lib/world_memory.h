/*
 * Memory of worlds: what the library's code maps while a world is open is memory of earlier worlds.
 * Mapping it anew by the kernel each time would take most of a test's time.
 *
 * The memory behaves like the kernel's: it is zero at first, and has guard pages.  Unmapped memory
 * holds rubbish until it is mapped again.  Sanitized programs get the kernel's memory.
 */
#ifndef ROAM_TESTS_WORLD_MEMORY_H
#define ROAM_TESTS_WORLD_MEMORY_H

/* Only one world is open at a time.  Other threads map memory of the kernel's. */
void world_memory_open(void);

/* Memory mapped since world_memory_open is no longer used. */
void world_memory_close(void);

#endif
