#include "roam_serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "link/address.h"
#include "os/os.h"
#include "roam_tool.h"

int tool_parts(const char *command, const char *usage, const struct tool_part parts[2], int argc,
	       char **argv)
{
	for (unsigned i = 0; argc > 1 && i < 2; i++)
		if (strcmp(argv[1], parts[i].name) == 0)
			return parts[i].run(argc - 1, argv + 1);
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		fputs(usage, stdout);
		return 0;
	}
	tool_say("%s what? %s or %s; `roam %s --help`", command, parts[0].name, parts[1].name,
		 command);
	return TOOL_USAGE;
}

bool tool_serve_key(const char *command, const char *file, uint8_t *key)
{
	char why[512];

	if (roami_address_key(file, true, key, why, sizeof(why)))
		return true;
	tool_say("%s serve: %s", command, why);
	return false;
}

int tool_serve_stop(const char *command)
{
	sigset_t ends;
	int stop;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	stop = roami_os_fd(signalfd(-1, &ends, SFD_CLOEXEC));
	if (stop < 0)
		tool_say("%s serve: %s", command, strerror(errno));
	return stop;
}
