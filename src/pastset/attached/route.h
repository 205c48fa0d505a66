/* Bindings to elements of a server that the program is attached to. */
#ifndef ROAMI_PAST_ROUTE_H
#define ROAMI_PAST_ROUTE_H

#include "pastset/attached/attach.h"

extern const struct roami_ps_route roami_route_attached;

/* As roami_past_enter. */
enum roam_err roami_past_enter_at(struct roam_ps_server *server, const char *name,
				  const char *template_text, const struct roam_ps_options *options,
				  struct roam_ps_element **element_p, char *why, size_t why_bytes);

#endif
