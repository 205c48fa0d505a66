/*
 * Sets of nodes: the part that is not inline.
 */
#include "nodeset.h"

#include <string.h>

/* Node numbers have at most two digits. */
static char *nodeset_number(char *to, unsigned node)
{
	if (node >= 10)
		*to++ = (char)('0' + node / 10);
	*to++ = (char)('0' + node % 10);
	return to;
}

const char *roami_nodeset_text(struct roami_nodeset set, char text[ROAMI_NODESET_TEXT_MAX])
{
	struct roami_nodeset others = {~set.bits};
	char *to = text;
	unsigned node = roami_nodeset_next(set, 0);

	if (node == ROAMI_NODES_MAX)
		return strcpy(text, "none");
	while (node < ROAMI_NODES_MAX) {
		unsigned end = roami_nodeset_next(others, node);

		if (to != text)
			*to++ = ',';
		to = nodeset_number(to, node);
		if (end - node > 1) {
			*to++ = '-';
			to = nodeset_number(to, end - 1);
		}
		node = roami_nodeset_next(set, end);
	}
	*to++ = '\0';
	assert(to <= text + ROAMI_NODESET_TEXT_MAX);
	return text;
}
