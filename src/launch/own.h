/*
 * A directory on this host that is the user's own: processes that were started apart meet there.
 * No other user can put anything where they look, nor keep them from it.
 */
#ifndef ROAMI_OWN_H
#define ROAMI_OWN_H

#include "launch/bind.h"

struct roami_own {
	int directory; /* -1: closed */
	int claims;    /* a file in it; a process claims what it is by locking a byte */
	char path[240];
};

/*
 * Opens it: `roam` in $XDG_RUNTIME_DIR where that is a directory of this user alone, else
 * roam-UID in /tmp, or roam-UID.1 and so on where another user has made that; all processes of the
 * user on the host get one and the same.  False: bound->why.
 */
bool roami_own_open(struct roami_bound *bound, struct roami_own *own);

/* Closes it: what was claimed is free. */
void roami_own_close(struct roami_own *own);

/* A hash of the text and of all that `so_far` is the hash of; 0: of nothing before. */
uint64_t roami_own_hash(uint64_t so_far, const char *text);

/* Whether no process has claimed the byte; if so, none can until roami_own_free. */
bool roami_own_hold(const struct roami_own *own, uint64_t at);
void roami_own_free(const struct roami_own *own, uint64_t at);

#endif
