/* Chooses the transports by which a node of a job reaches the others. */
#include <stdio.h>

#include "base/transports.h"
#include "job/job.h"

/* Reports that no transport reaches the nodes of this host (`here`) or of other hosts. */
static bool choose_failed(struct roami_job *job, bool here)
{
	char line[400], missing[320];

	roami_transports_missing(missing, sizeof(missing));
	snprintf(line, sizeof(line), "no transport reaches the nodes of %s (%s)",
		 here ? "this host" : "other hosts", missing);
	roami_job_says(job, ROAM_EUNSUPPORTED, line);
	return false;
}

static enum roami_where choose_where(const struct roami_job *job, unsigned node)
{
	if (job->bases[node] != NULL)
		return ROAMI_WHERE_MAPPED;
	return job->boot.host[node] == job->boot.host[job->me] ? ROAMI_WHERE_HERE
							       : ROAMI_WHERE_AWAY;
}

/* A node's messages to itself use a transport that it needs anyway, the cheapest if possible. */
static void choose_own(unsigned me, unsigned nodes, const struct roam_transport **by)
{
	const struct roam_transport *other = NULL;

	for (unsigned node = 0; node < nodes; node++) {
		if (node == me)
			continue;
		if (by[node] == by[me])
			return;
		other = by[node];
	}
	if (other != NULL)
		by[me] = other;
}

/*
 * Whether cards read pages of a transport's peers.  What they do no seal covers.  Where faults are
 * injected into the messages of such a transport, which is on one host, a layer lies over it
 * (base/layers.c) that counts messages only: a thread would not be woken when another one finds
 * that its page has landed.
 */
static bool choose_reads(const struct roami_job *job, const struct roam_transport *transport)
{
	bool faulty = job->options.faulty[0] != '\0' && job->boot.hosts <= 1;

	return job->options.onesided && transport->onesided != NULL && !faulty &&
	       job->options.seal != ROAMI_SEAL_AUTH && job->options.seal != ROAMI_SEAL_ENCRYPT;
}

bool roami_job_transports(struct roami_job *job, struct roami_node_params *params,
			  const struct roam_transport **by)
{
	const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1];
	bool alone = params->nodes == 1; /* a lone node has no peer to reach */

	roami_transports_allowed(alone ? "auto" : job->options.transport,
				 job->options.seal == ROAMI_SEAL_OFF, allowed);
	for (unsigned node = 0; node < params->nodes; node++) {
		enum roami_where where = choose_where(job, node);

		params->local += where != ROAMI_WHERE_AWAY;
		by[node] = roami_transport_for(allowed, where);
		if (by[node] == NULL)
			return choose_failed(job, where != ROAMI_WHERE_AWAY);
	}
	choose_own(params->me, params->nodes, by);
	params->by = by;
	for (unsigned node = 0; node < params->nodes; node++) {
		if (job->options.onesided && (by[node]->caps & ROAM_CAP_MAPPED) != 0)
			params->near |= roami_nodeset_bit(node);
		else if (node != params->me && choose_reads(job, by[node]))
			params->read |= roami_nodeset_bit(node);
	}
	return true;
}
