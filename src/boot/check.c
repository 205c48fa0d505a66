/* Whether the options name things that this build, machine and kernel have. */
#include <stdio.h>
#include <string.h>

#include "boot/local.h"
#include "msg/layers.h"

static enum roam_err check_unknown(const char *variable, const char *value,
				   const char *const *names)
{
	fprintf(stderr, "roam: %s=%s: unknown; known are", variable, value);
	for (; *names != NULL; names++)
		fprintf(stderr, " %s", *names);
	fprintf(stderr, "\n");
	return ROAM_EUNKNOWN;
}

static enum roam_err check_names(const struct roami_options *options)
{
	const char *names[64] = {NULL};
	char why[160] = "";
	unsigned count = 0;

	if (roami_protocol_find(options->protocol) == NULL) {
		for (; roami_protocols[count] != NULL && count < 63; count++)
			names[count] = roami_protocols[count]->name;
		return check_unknown("ROAM_PROTOCOL", options->protocol, names);
	}
	if (roami_transport_find(options->transport) == NULL) {
		for (; roami_transports[count] != NULL && count < 63; count++)
			names[count] = roami_transports[count]->name;
		return check_unknown("ROAM_TRANSPORT", options->transport, names);
	}
	if (!roami_layers_check(options->faulty, why, sizeof(why))) {
		fprintf(stderr, "roam: ROAM_FAULTY=%s: %s\n", options->faulty, why);
		return ROAM_EINVAL;
	}
	if (roami_diff_choose(options->simd) == NULL) {
		fprintf(stderr, "roam: ROAM_SIMD=%s: this CPU cannot\n", options->simd);
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

enum roam_err roami_boot_check(const struct roami_options *options,
			       const struct roami_fault_engine **engine_p)
{
	enum roam_err err = check_names(options);

	return err == ROAM_OK ? check_engine(options, engine_p) : err;
}
