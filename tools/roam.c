/*
 * roam: the command-line tool.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "roam/roam.h"
#include "roam_tool.h"

/*
 * Where the benchmarks are, from the directory of this program: beside it, in the build tree,
 * installed.
 */
static const char *const bench_places[] = {"roam-bench", "../bench/roam-bench",
					   "../libexec/roam/roam-bench"};

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
	const char *meaning;
};

void tool_say(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "roam: %s\n", line);
}

static int tool_version(int argc, char **argv)
{
	(void)argv;
	if (argc > 1) {
		tool_say("version takes no arguments");
		return TOOL_USAGE;
	}
	printf("roam %s\n", roam_version());
	return 0;
}

/* The benchmarks are a program of their own, so that the tool stays small. */
static int tool_bench(int argc, char **argv)
{
	char self[PATH_MAX], path[PATH_MAX + 32];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	(void)argc;
	if (length < 0) {
		tool_say("cannot find myself: %s", strerror(errno));
		return TOOL_FAILED;
	}
	self[length] = '\0';
	slash = strrchr(self, '/');
	*slash = '\0';
	for (size_t i = 0; i < sizeof(bench_places) / sizeof(bench_places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", self, bench_places[i]);
		if (access(path, X_OK) == 0)
			execv(path, argv);
	}
	tool_say("no benchmarks here: they were not built (meson configure -Dbench=true)");
	return TOOL_NOT_FOUND;
}

static int tool_help(int argc, char **argv);

static const struct command commands[] = {
	{"run", tool_run, "run -n NODES [--tag] PROGRAM [ARGUMENT]...",
	 "starts a program on several nodes; `roam run --help`"},
	{"info", tool_info, "info [WHAT]",
	 "version, kernel, protocols, transports, engines, options, counters; `roam info --help`"},
	{"bench", tool_bench, "bench NAME [OPTION]...",
	 "measures; `roam bench help` lists the names"},
	{"help", tool_help, "help", "this"},
	{"version", tool_version, "version", "the version"},
};

static const size_t commands_count = sizeof(commands) / sizeof(commands[0]);

static int tool_help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("roam %s: page-based distributed shared memory\n\n", roam_version());
	for (size_t i = 0; i < commands_count; i++)
		printf("  roam %s\n        %s\n", commands[i].usage, commands[i].meaning);
	printf("\nPrograms that create their nodes themselves (PARMACS, roam_create_all) are "
	       "started as they\n"
	       "are: ./fft -p4.  Both kinds take their options from ROAM_* variables: `roam info "
	       "options`.\n");
	return 0;
}

static const struct command *command_find(const char *name)
{
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";
	for (size_t i = 0; i < commands_count; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct command *command;
	int status;

	if (argc < 2) {
		tool_say("what? `roam help` lists the commands");
		return TOOL_USAGE;
	}
	command = command_find(argv[1]);
	if (command == NULL) {
		tool_say("no command \"%s\"; `roam help` lists them", argv[1]);
		return TOOL_USAGE;
	}
	status = command->run(argc - 1, argv + 1);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		tool_say("cannot write: %s", strerror(errno));
		return TOOL_FAILED;
	}
	return status;
}
