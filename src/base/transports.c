#include "base/transports.h"

#include <stdio.h>
#include <string.h>

const struct roam_transport *roami_transport_find(const char *name)
{
	for (unsigned i = 0; roami_transports[i] != NULL; i++)
		if (strcmp(roami_transports[i]->name, name) == 0)
			return roami_transports[i];
	return NULL;
}

bool roami_transport_works(const struct roam_transport *transport,
			   const struct roam_transport_value *options, char *why, size_t bytes)
{
	why[0] = '\0';
	return transport->probe == NULL || transport->probe(options, why, bytes);
}

const char *roami_transport_wrong(const struct roam_transport *transport)
{
	const struct roam_onesided *onesided = transport->onesided;
	const unsigned both = ROAM_CAP_MAPPED | ROAM_CAP_HOSTS;

	if (transport->open == NULL || transport->close == NULL || transport->send == NULL ||
	    transport->poll == NULL || transport->pending == NULL || transport->message_max == 0)
		return "a function that every transport has is missing";
	if ((transport->caps & both) == both)
		return "segments of other hosts cannot be mapped";
	if ((transport->wait == NULL) != (transport->wake == NULL) ||
	    (transport->wait == NULL && (transport->listen != NULL || transport->file != NULL)))
		return "threads that sleep at it must be woken";
	if (transport->card_bytes > ROAM_CARD_BYTES)
		return "its card is too long";
	if (onesided != NULL &&
	    (onesided->attach == NULL || onesided->get == NULL || onesided->reap == NULL ||
	     (onesided->put == NULL) != (onesided->puts_max == 0)))
		return "of one-sided operations it has some, not those that go together";
	return NULL;
}

bool roami_transports_named(const char *option)
{
	return strcmp(option, "auto") != 0;
}

void roami_transports_allowed(const char *option, bool bare,
			      const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1])
{
	unsigned not = ROAM_CAP_NAMED | (bare ? 0 : ROAM_CAP_BARE), count = 0;
	bool named = roami_transports_named(option);
	char why[8];

	for (unsigned i = 0; roami_transports[i] != NULL && count < ROAMI_TRANSPORTS_MAX; i++)
		if (named ? strcmp(roami_transports[i]->name, option) == 0
			  : (roami_transports[i]->caps & not) == 0 &&
				    roami_transport_works(roami_transports[i], NULL, why,
							  sizeof(why)))
			allowed[count++] = roami_transports[i];
	allowed[count] = NULL;
}

void roami_transports_missing(char *text, size_t bytes)
{
	size_t used = 0;
	char why[160];

	text[0] = '\0';
	for (unsigned i = 0; roami_transports[i] != NULL && used < bytes; i++)
		if (!roami_transport_works(roami_transports[i], NULL, why, sizeof(why)))
			used += (size_t)snprintf(text + used, bytes - used, "%s%s: %s",
						 used > 0 ? "; " : "",
						 roami_transports[i]->name, why);
}

static bool transport_reaches(const struct roam_transport *transport, enum roami_where where)
{
	if ((transport->caps & ROAM_CAP_MAPPED) != 0)
		return where == ROAMI_WHERE_MAPPED;
	return where != ROAMI_WHERE_AWAY || (transport->caps & ROAM_CAP_HOSTS) != 0;
}

unsigned roami_transport_card_at(const struct roam_transport *transport)
{
	unsigned at = 0;

	for (unsigned i = 0; roami_transports[i] != NULL && roami_transports[i] != transport; i++)
		at += (roami_transports[i]->card_bytes + 7) & ~7u;
	return at;
}

const struct roam_transport *roami_transport_for(const struct roam_transport *const *among,
						 enum roami_where where)
{
	const struct roam_transport *best = NULL;

	for (; *among != NULL; among++)
		if (transport_reaches(*among, where) &&
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
						 used > 0 ? " or " : "", roami_transports[i]->name);
}
