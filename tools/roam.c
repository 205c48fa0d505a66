/*
 * roam: the command-line tool.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "roam/roam.h"
#include "roam_far.h"
#include "roam_tool.h"

/* The places of the tool's other programs: beside this one, in the build tree, or installed. */
static const char *const program_places[] = {"", "../bench/", "../libexec/roam/"};

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;
	const char *meaning;
};

void tool_say(const char *format, ...)
{
	char line[TOOL_LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "roam: %s\n", line);
}

const char *tool_refused(char **argv, int result, const struct option *known)
{
	static char letter[3] = "-";
	bool unknown = result == '?' && optopt > 0 && optopt <= CHAR_MAX;

	for (; known->name != NULL; known++)
		unknown = unknown && known->val != optopt;
	letter[1] = (char)optopt;
	return unknown ? letter : argv[optind - 1];
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

/* Finds the path of another program of the tool; false: there is none. */
static bool program_find(const char *name, char *path, size_t bytes)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0)
		return false;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(program_places) / sizeof(program_places[0]); i++) {
		snprintf(path, bytes, "%s/%s%s", self, program_places[i], name);
		if (access(path, R_OK) == 0)
			return true;
	}
	return false;
}

/* The benchmarks are a separate program, so that the tool stays small. */
static int tool_bench(int argc, char **argv)
{
	char path[PATH_MAX + 64];

	(void)argc;
	if (program_find("roam-bench", path, sizeof(path)))
		execv(path, argv);
	tool_say("no benchmarks here: they were not built (meson configure -Dbench=true)");
	return TOOL_NOT_FOUND;
}

/*
 * Runs a command that is written in Python, `compare/NAME.py`.  Tries Debian's Python first,
 * because that finds Debian's packages, whatever the user's PATH is.
 */
static int tool_python(int argc, char **argv)
{
	char path[PATH_MAX + 64], self[PATH_MAX], file[64], debian[] = "/usr/bin/python3";
	char any[] = "python3", plain[] = "-B", roam[] = "--roam";
	char **args = calloc((size_t)argc + 5, sizeof(*args));
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	snprintf(file, sizeof(file), "compare/%s.py", argv[0]);
	if (args == NULL || length < 0 || !program_find(file, path, sizeof(path))) {
		tool_say("%s: cannot find %s beside this program or in ../libexec/roam", argv[0],
			 file);
		free(args);
		return TOOL_NOT_FOUND;
	}
	self[length] = '\0';
	args[0] = debian; /* the full path, by which Python finds its packages */
	args[1] = plain;
	args[2] = path;
	args[3] = roam;
	args[4] = self;
	memcpy(&args[5], &argv[1], (size_t)(argc - 1) * sizeof(*args));
	execv(debian, args);
	args[0] = any;
	execvp(any, args);
	tool_say("%s needs python3: %s (apt-get install python3)", argv[0], strerror(errno));
	free(args);
	return TOOL_NOT_FOUND;
}

static int tool_help(int argc, char **argv);

static const struct command commands[] = {
	{"run", tool_run, "run -n NODES [-H HOSTS] [--tag] PROGRAM [ARGUMENT]...",
	 "starts a program on several nodes, on one host or several; `roam run --help`"},
	{"info", tool_info, "info [WHAT]",
	 "version, kernel, protocols, transports, engines, options, counters; `roam info --help`"},
	{"where", tool_where, "where PID",
	 "prints what every thread of a running job waits for; PID: a node, or its launcher"},
	{"bench", tool_bench, "bench NAME [OPTION]...",
	 "measures; `roam bench help` lists the names"},
	{"compare", tool_python, "compare [OPTION]... PROGRAM [ARGUMENT]...",
	 "runs a program under each protocol and shows what it cost; `roam compare --help`"},
	{"doctor", tool_python, "doctor [OPTION]... PROGRAM [ARGUMENT]...",
	 "runs a program under several models, says what is wrong with it; `roam doctor --help`"},
	{"tx", tool_python, "tx report [OPTION]... PROGRAM [ARGUMENT]...",
	 "runs a program of transactions, names the pages that conflict most; `roam tx --help`"},
	{"pages", tool_pages, "pages serve|check DIR [OPTION]...",
	 "keeps the pages that jobs commit, or verifies what is kept; `roam pages --help`"},
	{"past", tool_past, "past serve|top ADDRESS [OPTION]...",
	 "hosts PastSet elements for programs that attach, or shows them; `roam past --help`"},
	{"help", tool_help, "help", "prints this list"},
	{"version", tool_version, "version", "prints the version"},
};

static const size_t commands_count = sizeof(commands) / sizeof(commands[0]);

static void help_print(FILE *to)
{
	fprintf(to, "roam %s: page-based distributed shared memory\n\n", roam_version());
	for (size_t i = 0; i < commands_count; i++)
		fprintf(to, "  roam %s\n        %s\n", commands[i].usage, commands[i].meaning);
	fprintf(to, "\nPrograms that create their nodes themselves (PARMACS, roam_create_all) are "
		    "started\n"
		    "directly: ./fft -p4.  Both kinds take options from ROAM_* variables: `roam "
		    "info options`.\n");
}

static int tool_help(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	help_print(stdout);
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

/*
 * Keeps descriptors 0 to 2 open, here and in child processes, so that other files do not get them.
 */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	const struct command *command;
	int status;

	open_standard();
	if (argc < 2) {
		help_print(stderr);
		return TOOL_USAGE;
	}
	if (strcmp(argv[1], "agent") == 0)
		return tool_agent(argc - 1, argv + 1);
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
