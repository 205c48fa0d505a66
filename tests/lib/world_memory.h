/*
 * Memory of worlds: what the library's code maps while a world is open is what earlier worlds have
 * had.  The kernel, asked for it again and again, would take most of a test's time.
 *
 * Memory is as the kernel's is: zero when it comes, the same guard pages.  What is unmapped holds
 * rubbish, until others get it.  Sanitized programs get the kernel's.
 */
#ifndef ROAM_TESTS_WORLD_MEMORY_H
#define ROAM_TESTS_WORLD_MEMORY_H

/* One world at a time.  Memory that other threads map comes from the kernel. */
void world_memory_open(void);

/* Memory mapped since world_memory_open is not used any more. */
void world_memory_close(void);

#endif
