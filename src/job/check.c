/* Whether the options name things that this build, machine and kernel have. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/layers.h"
#include "base/transports.h"
#include "job/job.h"
#include "page/diff.h"

#define MTU_MIN 576u /* the least that every IPv4 network carries */

/* Printed by one call, because other nodes may print the line at the same moment. */
static enum roam_err check_unknown(const char *what, const char *value, const char *const *names)
{
	char known[400] = "";
	size_t used = 0;

	for (; *names != NULL && used < sizeof(known); names++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, " %s", *names);
	fprintf(stderr, "roam: %s=%s: unknown; known are%s\n", what, value, known);
	return ROAM_EUNKNOWN;
}

/* Reports that there is no such protocol. */
static enum roam_err check_protocol(const char *what, const char *protocol)
{
	const char *names[64] = {NULL};

	for (unsigned count = 0; roami_protocols[count] != NULL && count < 63; count++)
		names[count] = roami_protocols[count]->name;
	return check_unknown(what, protocol, names);
}

static enum roam_err check_names(const struct roami_options *options)
{
	const char *names[64] = {NULL};
	char why[160] = "";
	unsigned count = 0;

	if (roami_protocol_find(options->protocol) == NULL)
		return check_protocol("ROAM_PROTOCOL", options->protocol);
	if (roami_transports_named(options->transport) &&
	    roami_transport_find(options->transport) == NULL) {
		for (names[count++] = "auto"; roami_transports[count - 1] != NULL && count < 63;
		     count++)
			names[count] = roami_transports[count - 1]->name;
		return check_unknown("ROAM_TRANSPORT", options->transport, names);
	}
	if (roami_transports_named(options->transport) &&
	    !roami_transport_works(roami_transport_find(options->transport), NULL, why,
				   sizeof(why))) {
		fprintf(stderr, "roam: ROAM_TRANSPORT=%s: %s\n", options->transport, why);
		return ROAM_EUNSUPPORTED;
	}
	if (!roami_layers_check(options->faulty, why, sizeof(why))) {
		fprintf(stderr, "roam: ROAM_FAULTY=%s: %s\n", options->faulty, why);
		return ROAM_EINVAL;
	}
	if (options->mtu > 0 && options->mtu < MTU_MIN) {
		fprintf(stderr, "roam: ROAM_MTU=%u: must be 0, or at least %u\n",
			(unsigned)options->mtu, MTU_MIN);
		return ROAM_EINVAL;
	}
	if (roami_diff_choose(options->simd) == NULL) {
		fprintf(stderr, "roam: ROAM_SIMD=%s: this CPU has no such instructions\n",
			options->simd);
		return ROAM_EUNSUPPORTED;
	}
	return ROAM_OK;
}

/* The engine that ROAM_FAULT names; auto: uffd where the kernel has it, else sigsegv. */
static const struct roami_fault_engine *check_probe(const struct roami_options *options, char *why,
						    size_t why_bytes)
{
	static const char *const automatic[] = {"uffd", "sigsegv", NULL};
	const char *const named[] = {options->fault, NULL};
	const char *const *wanted = strcmp(options->fault, "auto") == 0 ? automatic : named;

	for (; *wanted != NULL; wanted++)
		for (unsigned i = 0; roami_fault_engines[i] != NULL; i++)
			if (strcmp(roami_fault_engines[i]->name, *wanted) == 0 &&
			    strcmp(*wanted, "soft") != 0 &&
			    roami_fault_engines[i]->probe(why, why_bytes))
				return roami_fault_engines[i];
	return NULL;
}

static enum roam_err check_engine(const struct roami_options *options,
				  const struct roami_fault_engine **engine_p)
{
	const char *const names[] = {"auto", "sigsegv", "uffd", NULL};
	char why[160] = "";

	*engine_p = check_probe(options, why, sizeof(why));
	if (*engine_p != NULL)
		return ROAM_OK;
	for (unsigned i = 0; names[i] != NULL; i++)
		if (strcmp(options->fault, names[i]) == 0) {
			fprintf(stderr, "roam: ROAM_FAULT=%s: %s\n", options->fault, why);
			return ROAM_EUNSUPPORTED;
		}
	return check_unknown("ROAM_FAULT", options->fault, names);
}

/* Refuses checks that look at diffs if the protocol does not show its diffs. */
static enum roam_err check_diffs(const struct roami_options *options)
{
	static const char *const names[] = {"race", "statics", "sharing", "pointers",
					    "heap", "scope"};
	const char *name = NULL;

	if (roami_protocol_find(options->protocol)->checks_races)
		return ROAM_OK;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]) && name == NULL; i++)
		if ((options->check & ROAMI_CHECK_DIFFS & 1u << i) != 0)
			name = names[i];
	if (name == NULL)
		return ROAM_OK;
	fprintf(stderr,
		"roam: ROAM_CHECK=%s: needs the writers' diffs, which ROAM_PROTOCOL=%s does not "
		"show; take ROAM_PROTOCOL=hlrc\n",
		name, options->protocol);
	return ROAM_EUNSUPPORTED;
}

/* ------------------------------------------------------- checks that some protocols cannot have */

/*
 * A protocol with nothing to do at an acquire takes copies away, or brings them up to date,
 * when the writer released: it is not known what has shown a node the write that it reads.
 */
static bool protocol_acquires(const struct roam_protocol *protocol)
{
	return protocol->acquire != NULL;
}

/*
 * Under ScC a lock may tell a node of a block, but not of the bytes around it, which were not
 * written in a section of that lock.
 */
static bool protocol_tells_all(const struct roam_protocol *protocol)
{
	return protocol->model != ROAM_MODEL_SCC;
}

/* Only transactions conflict. */
static bool protocol_transacts(const struct roam_protocol *protocol)
{
	return protocol->transactions != NULL;
}

struct check_need {
	unsigned check;
	const char *name;
	bool (*met)(const struct roam_protocol *protocol);
	const char *before, *why; /* around the protocol's name */
};

static const struct check_need check_needs[] = {
	{ROAMI_CHECK_SCOPE, "scope", protocol_acquires, "under ",
	 "writes are seen without a lock's notices; take ROAM_PROTOCOL=hlrc"},
	{ROAMI_CHECK_HEAP, "heap", protocol_tells_all, "under ",
	 "a node may not see what lies around a block; take ROAM_PROTOCOL=hlrc"},
	{ROAMI_CHECK_CONFLICTS, "conflicts", protocol_transacts, "", "has no transactions"},
};

static enum roam_err check_checks(const struct roami_options *options)
{
	const struct roam_protocol *protocol = roami_protocol_find(options->protocol);

	for (size_t i = 0; i < sizeof(check_needs) / sizeof(check_needs[0]); i++) {
		const struct check_need *need = &check_needs[i];

		if ((options->check & need->check) == 0 || need->met(protocol))
			continue;
		fprintf(stderr, "roam: ROAM_CHECK=%s: %sROAM_PROTOCOL=%s %s\n", need->name,
			need->before, options->protocol, need->why);
		return ROAM_EUNSUPPORTED;
	}
	return ROAM_OK;
}

enum roam_err roami_boot_check(const struct roami_options *options,
			       const struct roami_fault_engine **engine_p)
{
	enum roam_err err = check_names(options);

	if (err == ROAM_OK)
		err = check_diffs(options);
	if (err == ROAM_OK)
		err = check_checks(options);
	return err == ROAM_OK ? check_engine(options, engine_p) : err;
}

bool roami_boot_apart(const struct roami_options *options, char *why, size_t bytes)
{
	if (!roami_homes_everywhere(roami_protocol_find(options->protocol)))
		return true;
	snprintf(why, bytes,
		 "ROAM_PROTOCOL=%s: its nodes have one memory, so all must be on one host; take "
		 "ROAM_PROTOCOL=hlrc",
		 options->protocol);
	return false;
}

/* -------------------------------------------------------------------------------------- models */

static const char *const model_names[] = {
	[ROAM_MODEL_SC] = "SC",
	[ROAM_MODEL_RC] = "RC",
	[ROAM_MODEL_SCC] = "ScC",
	[ROAM_MODEL_TX] = "TX",
};

/* Warns, or fails the job, if `protocol` promises less than the program needs. */
static void check_model(struct roami_job *job, const struct roam_protocol *protocol)
{
	struct roami_ctl *first = roami_job_ctl(job, 0);
	/* Otherwise node 0 says it: it is on another host, or alone as this node is. */
	bool ours = (job->me == 0 || job->bases[0] != NULL) && !job->silent;

	if (protocol->model <= job->needs)
		return;
	if (job->options.strict)
		roami_node_fail(job->node,
				"the program needs %s, and protocol %s promises only %s "
				"(ROAM_STRICT=1)",
				model_names[job->needs], protocol->name,
				model_names[protocol->model]);
	if (ours && job->options.log >= ROAMI_LEVEL_WARN && atomic_exchange(&first->warned, 1) == 0)
		fprintf(stderr,
			"roam: warning: the program needs %s, and protocol %s promises only %s: "
			"its results may be wrong\n",
			model_names[job->needs], protocol->name, model_names[protocol->model]);
}

void roami_job_needs(struct roami_job *job, enum roam_model model)
{
	if (model < job->needs)
		job->needs = model;
	check_model(job, job->node->protocol);
	for (unsigned i = 1; i < job->node->region_count; i++)
		if (job->allocs[i] != NULL)
			check_model(job, job->node->regions[i].protocol);
}

enum roam_err roami_job_option(const struct roami_job *job, unsigned region, const char *text,
			       uint64_t *option_p)
{
	const struct roam_protocol *protocol = job->node->regions[region].protocol;
	const char *takes = protocol->region_option;
	size_t length = strcspn(text, "=");
	enum roam_err err;

	if (takes == NULL || strlen(takes) != length || memcmp(takes, text, length) != 0 ||
	    text[length] == '\0') {
		fprintf(stderr,
			"roam: roam_alloc_region: option=%.60s: a region under %s takes %s%s\n",
			text, protocol->name, takes == NULL ? "none" : takes,
			takes == NULL ? "" : "=NUMBER");
		return ROAM_EUNKNOWN;
	}
	err = roami_options_number(text, option_p, STDERR_FILENO);
	*option_p += ROAMI_OPTION_OWN;
	return err;
}

enum roam_err roami_job_region(struct roami_job *job, const char *protocol, unsigned *region_p)
{
	const struct roam_protocol *found;
	unsigned region = 0;

	*region_p = 0;
	if (protocol == NULL || strcmp(protocol, job->node->protocol->name) == 0)
		return ROAM_OK;
	found = roami_protocol_find(protocol);
	if (found == NULL)
		return check_protocol("roam_alloc_region: protocol", protocol);
	while (job->node->regions[++region].protocol != found)
		;
	if (roami_homes_everywhere(found) || roami_one_heap(job->node)) {
		fprintf(stderr,
			"roam: roam_alloc_region: protocol %s cannot be beside %s: under %s all "
			"of the heap is one memory\n",
			protocol, job->node->protocol->name,
			roami_homes_everywhere(found) ? protocol : job->node->protocol->name);
		return ROAM_EUNSUPPORTED;
	}
	if (found->transactions != NULL || job->node->protocol->transactions != NULL) {
		fprintf(stderr,
			"roam: roam_alloc_region: protocol %s cannot be beside %s: a transaction "
			"that is aborted would not undo what it wrote under %s\n",
			protocol, job->node->protocol->name,
			found->transactions != NULL ? job->node->protocol->name : protocol);
		return ROAM_EUNSUPPORTED;
	}
	if (!roami_protocol_beside(job->node->protocol, found)) {
		fprintf(stderr,
			"roam: roam_alloc_region: protocol %s needs the notices of %s, under %s "
			"they are of %s; take ROAM_PROTOCOL=%s-rc\n",
			protocol, model_names[found->model], job->node->protocol->name,
			model_names[job->node->protocol->model], job->node->protocol->name);
		return ROAM_EUNSUPPORTED;
	}
	if (job->node->regions[region].err != ROAM_OK) {
		fprintf(stderr, "roam: roam_alloc_region: protocol %s cannot run here: %s\n",
			protocol, roam_strerror(job->node->regions[region].err));
		return ROAM_EUNSUPPORTED;
	}
	check_model(job, found);
	*region_p = region;
	return ROAM_OK;
}
