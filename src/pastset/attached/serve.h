/* A node of a job that programs attach to: the server of elements, in a thread of its own. */
#ifndef ROAMI_PAST_SERVE_H
#define ROAMI_PAST_SERVE_H

#include "pastset/kernel.h"

/*
 * As roami_host_open; then serves, until the job's nodes have all returned.  ROAM_ESTATE: the node
 * serves already.
 */
enum roam_err roami_past_serve(struct roami_past *past, const char *address, const uint8_t *key,
			       char *at, size_t at_bytes, char *why, size_t why_bytes);

#endif
