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

bool roami_transport_works(const struct roam_transport *transport, char *why, size_t bytes)
{
	why[0] = '\0';
	return transport->probe == NULL || transport->probe(why, bytes);
}

bool roami_transports_named(const char *option)
{
	return strcmp(option, "auto") != 0;
}

void roami_transports_allowed(const char *option,
			      const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1])
{
	bool named = roami_transports_named(option);
	unsigned count = 0;
	char why[8];

	for (unsigned i = 0; roami_transports[i] != NULL && count < ROAMI_TRANSPORTS_MAX; i++)
		if (named ? strcmp(roami_transports[i]->name, option) == 0
			  : roami_transport_works(roami_transports[i], why, sizeof(why)))
			allowed[count++] = roami_transports[i];
	allowed[count] = NULL;
}

void roami_transports_missing(char *text, size_t bytes)
{
	size_t used = 0;
	char why[160];

	text[0] = '\0';
	for (unsigned i = 0; roami_transports[i] != NULL && used < bytes; i++)
		if (!roami_transport_works(roami_transports[i], why, sizeof(why)))
			used += (size_t)snprintf(text + used, bytes - used, "%s%s: %s",
						 used > 0 ? "; " : "",
						 roami_transports[i]->name, why);
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
