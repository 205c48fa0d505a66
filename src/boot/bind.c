#include "boot/bind.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <unistd.h>

#include "api/options.h"
#include "os/os.h"

#define LOOK_MS 100    /* between looks at the others */
#define TURN_US 100000 /* from node to node */

const struct roami_binding *const roami_bindings[] = {
#ifdef ROAMI_HAVE_PMIX
	&roami_bind_pmix,
#endif
	&roami_bind_pmi1,
	//SLURM
	NULL,
};

bool roami_bound_fail(struct roami_bound *bound, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(bound->why, sizeof(bound->why), format, args);
	va_end(args);
	return false;
}

bool roami_bound_patient(struct roami_bound *bound)
{
	if (bound->look != NULL)
		return bound->look(bound);
	if (roami_os_now_ns() < bound->until)
		return true;
	usleep(bound->me * TURN_US); /* one line, then the launcher ends the others */
	return roami_bound_fail(bound, "not all %u nodes have come: a process has ended early, or "
				       "never called roam_start", bound->nodes);
}

bool roami_bound_wait(struct roami_bound *bound, int fd, short events)
{
	struct pollfd ready = {fd, events, 0};

	while (poll(&ready, 1, LOOK_MS) <= 0)
		if (!roami_bound_patient(bound))
			return false;
	return true;
}

/* Variables by which launchers say how many processes there are, whatever else they offer. */
static bool bind_count(const char **name_p, const char **value_p)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*name_p = names[i];
		*value_p = getenv(names[i]);
		if (*value_p != NULL && atoi(*value_p) > 1)
			return true;
	}
	return false;
}

/* Nothing has worked: fine for a process that is alone. */
static enum roam_err bind_none(struct roami_bound *bound, const char *tried)
{
	const char *name, *value;

	bound->binding = NULL;
	if (tried[0] == '\0' && !bind_count(&name, &value))
		return ROAM_OK;
	if (tried[0] != '\0')
		snprintf(bound->why, sizeof(bound->why), "%s", tried);
	else
		roami_bound_fail(bound,
				 "%s=%.8s says that a launcher started several nodes, but there is "
				 "neither PMIx nor PMI (srun: add --mpi=pmix or --mpi=pmi2; "
				 "ROAM_LAUNCHER=none: be alone)",
				 name, value);
	return ROAM_ESYSTEM;
}

enum roam_err roami_bind(struct roami_bound *bound, const char *wanted)
{
	char tried[ROAMI_WHY_BYTES] = "";

	memset(bound, 0, sizeof(*bound));
	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
		bound->pidfds[i] = -1;
	if (strcmp(wanted, "none") == 0)
		return ROAM_OK;
	for (unsigned i = 0; roami_bindings[i] != NULL; i++) {
		const struct roami_binding *binding = roami_bindings[i];

		if (binding->marker() == NULL ||
		    (strcmp(wanted, "auto") != 0 && strcmp(wanted, binding->name) != 0))
			continue;
		bound->binding = binding;
		if (binding->open(bound))
			return ROAM_OK;
		snprintf(tried, sizeof(tried), "%s", bound->why);
	}
	return bind_none(bound, tried);
}

/*
 * Statics name locks, and functions are handed to nodes: they must lie at the same address on every
 * node.  `roam run` sees to it; other launchers know nothing of it, so the program begins once
 * more, before anything of it has run.
 */
__attribute__((constructor)) static void bind_addresses(int argc, char **argv, char **env)
{
	const char *wanted = getenv("ROAM_LAUNCHER");
	int now = personality(0xffffffff);
	char path[4096];
	ssize_t length;
	bool started = false;

	(void)argc;
	for (unsigned i = 0; roami_bindings[i] != NULL; i++)
		started = started || roami_bindings[i]->marker() != NULL;
	if (!started || getenv("ROAM_BOOT") != NULL || getauxval(AT_SECURE) != 0 || now < 0 ||
	    (now & ADDR_NO_RANDOMIZE) != 0 || (wanted != NULL && strcmp(wanted, "none") == 0))
		return;
	length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (length <= 0 || personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0)
		return;
	path[length] = '\0';
	execve(path, argv, env); /* where it fails, the nodes will compare their addresses */
}
