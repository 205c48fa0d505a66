#include "msg/transports.h"

#include <stdio.h>
#include <string.h>

const struct roam_transport *roami_transport_find(const char *name)
{
	for (unsigned i = 0; roami_transports[i] != NULL; i++)
		if (strcmp(roami_transports[i]->name, name) == 0)
			return roami_transports[i];
	return NULL;
}

bool roami_transports_named(const char *option)
{
	return strcmp(option, "auto") != 0;
}

void roami_transports_allowed(const char *option,
			      const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1])
{
	unsigned count = 0;

	for (unsigned i = 0; roami_transports[i] != NULL && count < ROAMI_TRANSPORTS_MAX; i++)
		if (!roami_transports_named(option) ||
		    strcmp(roami_transports[i]->name, option) == 0)
			allowed[count++] = roami_transports[i];
	allowed[count] = NULL;
}

const struct roam_transport *roami_transport_for(const struct roam_transport *const *among,
						 bool mapped)
{
	const struct roam_transport *best = NULL;

	for (; *among != NULL; among++)
		if ((mapped || ((*among)->caps & ROAM_CAP_HOSTS) != 0) &&
		    (best == NULL || (*among)->cost_ns < best->cost_ns))
			best = *among;
	return best;
}

void roami_transports_far(char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; roami_transports[i] != NULL && used < bytes; i++)
		if ((roami_transports[i]->caps & ROAM_CAP_HOSTS) != 0)
			used += (size_t)snprintf(text + used, bytes - used, "%s%s",
						 used > 0 ? ", " : "", roami_transports[i]->name);
}
