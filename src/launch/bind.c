#include "launch/bind.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <unistd.h>

#include "base/options.h"
#include "os/os.h"

#define CLAIM_US 1000

#ifdef ROAMI_HAVE_PMIX
#define OFFERED "offers neither PMIx nor PMI"
#else
#define OFFERED "offers no PMI, and this roam is built without PMIx"
#endif

const struct roami_binding *const roami_bindings[] = {
#ifdef ROAMI_HAVE_PMIX
	&roami_bind_pmix,
#endif
	&roami_bind_pmi1,
	&roami_bind_slurm,
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

bool roami_bound_aborts(const struct roami_bound *bound)
{
	return bound != NULL && bound->binding != NULL && bound->binding->abort != NULL;
}

void roami_bound_abort(struct roami_bound *bound)
{
	if (roami_bound_aborts(bound))
		bound->binding->abort(bound);
}

bool roami_bound_patient(struct roami_bound *bound)
{
	if (bound->look != NULL)
		return bound->look(bound);
	if (roami_os_now_ns() < bound->until)
		return true;
	return roami_bound_fail(bound,
				"not all %u nodes have come: a process has ended early, or "
				"never called roam_start",
				bound->nodes);
}

bool roami_bound_wait(struct roami_bound *bound, int fd, short events)
{
	struct pollfd ready = {fd, events, 0};

	while (poll(&ready, 1, ROAMI_LOOK_MS) <= 0)
		if (!roami_bound_patient(bound))
			return false;
	return true;
}

static bool bound_twice(struct roami_bound *bound, int other)
{
	bound->final = true;
	return roami_bound_fail(bound,
				"node %u runs in two processes, %d and %d: start the program once "
				"in each of the launcher's processes",
				bound->me, other, (int)getpid());
}

bool roami_bound_claim(struct roami_bound *bound, int fd, uint64_t at)
{
	for (;;) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};

		if (fcntl(fd, F_SETLK, &lock) == 0 || (errno != EAGAIN && errno != EACCES))
			return true;
		if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK)
			return bound_twice(bound, (int)lock.l_pid);
		/* The lock's holder has just ended, or checks whether it is claimed. */
		if (!roami_bound_patient(bound))
			return false;
		usleep(CLAIM_US);
	}
}

/* A launcher says that there are several nodes, whatever else it offers. */
static bool bind_several(struct roami_bound *bound)
{
	static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
					       {"PMI_SIZE", "PMI_RANK"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *size = getenv(names[i][0]), *rank = getenv(names[i][1]);

		if (size == NULL || atoi(size) <= 1)
			continue;
		bound->quiet = rank != NULL && strcmp(rank, "0") != 0;
		roami_bound_fail(bound,
				 "%s=%.8s says that a launcher started several nodes, but %s "
				 "(ROAM_LAUNCHER=none: be alone)",
				 names[i][0], size, OFFERED);
		return true;
	}
	return false;
}

enum roam_err roami_bind(struct roami_bound *bound, const char *wanted, bool open_network,
			 uint64_t until)
{
	char tried[ROAMI_WHY_BYTES] = "";

	memset(bound, 0, sizeof(*bound));
	bound->open_network = open_network;
	bound->until = until;
	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
		bound->pidfds[i] = -1;
	if (strcmp(wanted, "none") == 0)
		return ROAM_OK;
	for (unsigned i = 0; roami_bindings[i] != NULL && !bound->final; i++) {
		const struct roami_binding *binding = roami_bindings[i];

		if (binding->marker() == NULL ||
		    (strcmp(wanted, "auto") != 0 && strcmp(wanted, binding->name) != 0))
			continue;
		bound->binding = binding;
		if (binding->open(bound))
			return ROAM_OK;
		snprintf(tried, sizeof(tried), "%s", bound->why);
	}
	bound->binding = NULL;
	if (tried[0] == '\0')
		return bind_several(bound) ? ROAM_ESYSTEM : ROAM_OK;
	snprintf(bound->why, sizeof(bound->why), "%s", tried);
	return ROAM_ESYSTEM;
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
