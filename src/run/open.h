/*
 * The life of a node: it opens its rooms in the order of base/rooms.def, then its extensions.
 *
 * The room keeps rules 4 (wait.h) and 10.4 (probe.h).
 */
#ifndef ROAMI_OPEN_H
#define ROAMI_OPEN_H

#include "base/node.h"

/* Makes a node that serves messages as soon as a thread polls.  Reports errors itself. */
enum roam_err roami_node_open(struct roami_node **node_p, const struct roami_node_params *params);

/*
 * The extensions end what works without the job's other nodes, which have all returned and still
 * answer.
 */
void roami_node_stop(struct roami_node *node);

/* The reverse of open; no thread may be in a call.  Also of a half-open node.  Segments stay
 * mapped. */
void roami_node_close(struct roami_node *node);

#endif
