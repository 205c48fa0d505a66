/* roam run: reads the command line. */
#include "roam_run.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/node.h"
#include "os/os.h"
#include "roam_tool.h"

#define THREADS_MAX 256u     /* threads of a node: ROAM_THREADS */
#define TIMEOUT_MAX 1000000u /* seconds */

static int run_usage(FILE *to)
{
	fprintf(to,
		"usage: roam run -n NODES [-H HOSTS | -f FILE] [OPTION]... [--] PROGRAM "
		"[ARGUMENT]...\n"
		"  -n, --nodes NODES    the number of nodes, 1 to %d\n"
		"  -H, --hosts HOSTS    the hosts: a,b:4,n[01-03]:2; :N: the number of nodes\n"
		"  -f, --hostfile FILE  a file of hosts, one per line\n"
		"      --threads T      T threads in each node, for programs that create N x T\n"
		"                       processes; auto: as many as a NUMA domain has\n"
		"                       processors\n"
		"  -t, --tag            mark each line of output with its node: \"[2] ...\"\n"
		"  -T, --timeout S      end the job after S seconds, with status %d\n"
		"      --gdb NODE       run this node under gdb: at the terminal; without one, or "
		"with -H,\n"
		"                       gdb starts it and shows where it stopped\n"
		"      --checkpoint DIR  save programs that call roam_resume_point in DIR, on\n"
		"                       node 0's host,\n"
		"      --every S        every S seconds (600; 0: at each call)\n"
		"      --resume DIR     go on from what was saved in DIR\n"
		"      --trust-pointers  take over a heap from ROAM_STORE with pointers to\n"
		"                       code or variables of another program\n"
		"      --report-bindings  print where each node may run: host, threads, CPUs\n"
		"Each node has a copy of the standard input.\n"
		"Hosts are reached by ssh, or by the command in ROAM_RSH.  The exit status is 0 if "
		"every node's\n"
		"was, else that of the first node that failed, or 128 + N if signal N killed it.\n"
		"Signals are passed on.  SIGQUIT makes the nodes print what they wait for.  Nodes "
		"that SIGINT,\nSIGTERM or SIGHUP did not end within %u s are killed; a second such "
		"signal kills at once.\n",
		ROAMI_NODES_MAX, TOOL_TIMEOUT, STOP_S);
	return to == stdout ? 0 : TOOL_USAGE;
}

/* A hostfile may be as long as 1 MiB. */
static bool run_read_hosts(struct hosts *hosts, const char *path)
{
	static char text[1 << 20];
	FILE *file = roami_os_file(path);
	size_t bytes;

	if (file == NULL) {
		snprintf(hosts->why, sizeof(hosts->why), "%.200s: %s", path, strerror(errno));
		return false;
	}
	bytes = fread(text, 1, sizeof(text), file);
	fclose(file);
	return hosts_parse_file(hosts, path, text, bytes);
}

static bool run_parse_hosts(struct run_args *args, int option, const char *text)
{
	bool good = option == 'H' ? hosts_parse_list(&args->hosts, text)
				  : run_read_hosts(&args->hosts, text);

	if (!good)
		tool_say("run: -%c: %s", option, args->hosts.why);
	args->far = true;
	return good;
}

static bool run_parse_number(const char *option, const char *kind, const char *text, unsigned least,
			     unsigned most, unsigned *number_p)
{
	char *end;
	unsigned long number;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number < least ||
	    number > most) {
		tool_say("run: %s %.40s: %s number from %u to %u", option, text, kind, least, most);
		return false;
	}
	*number_p = (unsigned)number;
	return true;
}

static bool run_parse_nodes(const char *text, unsigned *nodes_p)
{
	char *end;
	unsigned long nodes;

	errno = 0;
	nodes = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || nodes < 1 ||
	    nodes > ROAMI_NODES_MAX) {
		tool_say("run: -n %.40s: the number of nodes must be from 1 to %d", text,
			 ROAMI_NODES_MAX);
		return false;
	}
	*nodes_p = (unsigned)nodes;
	return true;
}

/* The program may change its working directory, or a node begin in another one. */
static void run_set_directory(const char *name, const char *directory)
{
	char here[PATH_MAX], whole[2 * PATH_MAX];

	if (directory[0] == '/' || directory[0] == '\0' || getcwd(here, sizeof(here)) == NULL) {
		setenv(name, directory, 1);
		return;
	}
	snprintf(whole, sizeof(whole), "%s/%s", here, directory);
	setenv(name, whole, 1);
}

static const struct option run_longs[] = {{"nodes", required_argument, NULL, 'n'},
					  {"threads", required_argument, NULL, 'm'},
					  {"tag", no_argument, NULL, 't'},
					  {"hosts", required_argument, NULL, 'H'},
					  {"hostfile", required_argument, NULL, 'f'},
					  {"timeout", required_argument, NULL, 'T'},
					  {"gdb", required_argument, NULL, 'g'},
					  {"report-bindings", no_argument, NULL, 'b'},
					  {"checkpoint", required_argument, NULL, 'c'},
					  {"every", required_argument, NULL, 'e'},
					  {"resume", required_argument, NULL, 'r'},
					  {"trust-pointers", no_argument, NULL, 'u'},
					  {"help", no_argument, NULL, 'h'},
					  {NULL, 0, NULL, 0}};

/* Takes an option, whose argument is `text`; false: the argument is wrong, and it has said so. */
static bool run_take(struct run_args *args, int option, const char *text)
{
	unsigned number;

	switch (option) {
	case 'n':
		return run_parse_nodes(text, &args->nodes);
	case 'H':
	case 'f':
		return run_parse_hosts(args, option, text);
	case 'm':
		setenv("ROAM_THREADS", text, 1);
		return strcmp(text, "auto") == 0 ||
		       run_parse_number("--threads", "auto or a", text, 1, THREADS_MAX, &number);
	case 't':
		args->tag = true;
		return true;
	case 'T':
		return run_parse_number("--timeout", "a", text, 1, TIMEOUT_MAX, &args->timeout);
	case 'g':
		if (!run_parse_number("--gdb", "a", text, 0, ROAMI_NODES_MAX - 1, &number))
			return false;
		args->gdb = (int)number;
		return true;
	case 'b':
		setenv("ROAM_BINDINGS", "1", 1);
		return true;
	case 'c':
		run_set_directory("ROAM_CHECKPOINT", text);
		return true;
	case 'u':
		setenv("ROAM_TRUST_POINTERS", "1", 1);
		return true;
	case 'e':
		setenv("ROAM_CHECKPOINT_EVERY", text, 1);
		return run_parse_number("--every", "a", text, 0, TIMEOUT_MAX, &number);
	default:
		run_set_directory("ROAM_RESUME", text);
		return true;
	}
}

int run_parse(struct run_args *args, int argc, char **argv)
{
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "+:n:H:f:tT:h", run_longs, NULL)) != -1) {
		if (option == 'h')
			return run_usage(stdout);
		if (option == ':' || option == '?') {
			tool_say("run: %s %s; `roam run --help`",
				 option == ':' ? "argument missing after" : "unknown option",
				 tool_refused(argv, option, run_longs));
			return TOOL_USAGE;
		}
		if (!run_take(args, option, optarg))
			return TOOL_USAGE;
	}
	if (args->nodes == 0 || optind >= argc) {
		tool_say("run: %s missing; `roam run --help`",
			 args->nodes == 0 ? "-n NODES" : "PROGRAM");
		return TOOL_USAGE;
	}
	args->argv = argv + optind;
	if (args->gdb >= (int)args->nodes) {
		tool_say("run: --gdb %d: there are nodes 0 to %u", args->gdb, args->nodes - 1);
		return TOOL_USAGE;
	}
	if (args->far && !hosts_share(&args->hosts, args->nodes)) {
		tool_say("run: %s", args->hosts.why);
		return TOOL_USAGE;
	}
	return -1;
}
