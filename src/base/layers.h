/*
 * The layers between messages and a transport: what the user asks for to go wrong, and the reliable
 * layer where the rest does not promise that messages arrive once and in order.
 */
#ifndef ROAMI_LAYERS_H
#define ROAMI_LAYERS_H

#include "base/node.h"

/* The transports' names, the farthest first: "a", "a, on each over b". */
const char *roami_layers_over(const struct roami_node *node, char *text, size_t bytes);

/* The option of the faulty layer, ROAM_FAULTY; false: `why` says what is wrong. */
bool roami_layers_check(const char *faulty, char *why, size_t why_bytes);

#endif
