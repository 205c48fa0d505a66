/* roam past top: the elements of a server, shown periodically. */
#ifndef ROAM_PAST_H
#define ROAM_PAST_H

#include <stdbool.h>

#include "pastset/attached/attach.h"

struct top_options {
	bool once;
	bool json;
	double every_s;
};

/* Shows the server's elements until it is interrupted, or once; returns the exit status. */
int tool_past_top(struct roam_ps_server *server, const char *address,
		  const struct top_options *options);

#endif
