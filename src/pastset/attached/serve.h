/* A node of a job that programs attach to: the server of elements, in a thread of its own. */
#ifndef ROAMI_PAST_SERVE_H
#define ROAMI_PAST_SERVE_H

#include "pastset/kernel.h"

/* As roami_host_open; then serves.  ROAM_ESTATE: it does so already. */
enum roam_err roami_past_serve(struct roami_past *past, const char *address, const uint8_t *key,
			       char *at, size_t at_bytes, char *why, size_t why_bytes);

/* Drops those who are attached; their operations wait nowhere.  The other nodes still answer. */
void roami_past_unserve(struct roami_past *past);

#endif
