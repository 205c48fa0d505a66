/* By which transports a node of a job reaches the others. */
#include <stdio.h>

#include "boot/job.h"
#include "msg/transports.h"

/* No transport works: to nodes of this host, or of others. */
static bool choose_failed(struct roami_job *job, bool here)
{
	char line[400], missing[320];

	roami_transports_missing(missing, sizeof(missing));
	snprintf(line, sizeof(line), "no transport reaches the nodes of %s (%s)",
		 here ? "this host" : "other hosts", missing);
	roami_job_says(job, ROAM_EUNSUPPORTED, line);
	return false;
}

bool roami_job_transports(struct roami_job *job, struct roami_node_params *params)
{
	const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1], *near;
	bool alone = params->nodes == 1; /* then there is nobody to reach */
	uint64_t mapped = 0;

	roami_transports_allowed(alone ? "auto" : job->options.transport, allowed);
	for (unsigned node = 0; node < params->nodes; node++)
		if (job->bases[node] != NULL)
			mapped |= roami_nodeset_bit(node);
	near = roami_transport_for(allowed, true);
	if (mapped == roami_nodeset_first(params->nodes).bits) {
		params->transport = near;
	} else {
		params->transport = roami_transport_for(allowed, false);
		if (mapped != roami_nodeset_bit(params->me) && near != params->transport)
			params->beside = near;
	}
	if (params->transport == NULL || near == NULL)
		return choose_failed(job, near == NULL);
	near = params->beside != NULL ? params->beside : params->transport;
	if (job->options.onesided && (near->caps & ROAM_CAP_MAPPED) != 0)
		params->near = mapped;
	return true;
}
