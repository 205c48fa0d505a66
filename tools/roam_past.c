/* roam past: a server of PastSet elements for programs that attach, and a view of its elements. */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "os/os.h"
#include "link/address.h"
#include "pastset/attached/host.h"
#include "roam_past.h"
#include "roam_serve.h"
#include "roam_tool.h"

#define WHY_BYTES 512

static const char past_usage[] =
	"usage: roam past serve ADDRESS [--key FILE] [--functions FILE]... [--keep SECONDS]\n"
	"                       [--keep-memory MIB]\n"
	"       roam past top ADDRESS [--key FILE] [--once] [--json] [--every SECONDS]\n"
	"\n"
	"serve hosts PastSet elements without a job.  Programs attach with roam_ps_attach\n"
	"(roam/pastset.h) and leave as they like; the elements end with the server, at SIGINT\n"
	"or SIGTERM.  It prints \"serving at ADDRESS\" when it is ready.\n"
	"\n"
	"top shows a server's elements, the busiest first, until q or Ctrl-C.\n"
	"\n"
	"  ADDRESS            HOST:PORT (port 0: a free one), or the path of a Unix\n"
	"                     socket, with a /\n"
	"  --key FILE         the key of server and clients; else the file that\n"
	"                     ROAM_PS_KEY names.  serve makes it if it does not exist\n"
	"  --functions FILE   a shared object with X-functions: its array roam_ps_functions, of\n"
	"                     struct roam_ps_function, which ends with a NULL name, is registered\n"
	"  --keep SECONDS     how long a program whose connection broke can come back (60)\n"
	"  --keep-memory MIB  how much is kept of answers that such programs may have missed,\n"
	"                     in all; the one away longest is forgotten first (64)\n"
	"  --once             show the elements once, with rates over --every, and end\n"
	"  --json             print a line of JSON each time\n"
	"  --every SECONDS    the time between two looks (1)\n"
	"\n"
	"ROAM_PS_MEMORY bounds serve's memory for elements and tuples; attached programs may make\n"
	"it use as much again, or 16 MiB.\n";

/* -------------------------------------------------------------------------------------- options */

struct past_options {
	const char *address;
	const char *key;
	const char *functions[16];
	unsigned function_count;
	double keep_s, keep_mib;
	struct top_options top;
};

static const struct option past_long[] = {
	{"key", required_argument, NULL, 'k'},
	{"functions", required_argument, NULL, 'f'},
	{"keep", required_argument, NULL, 'K'},
	{"keep-memory", required_argument, NULL, 'M'},
	{"once", no_argument, NULL, 'o'},
	{"json", no_argument, NULL, 'j'},
	{"every", required_argument, NULL, 'e'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static bool past_number(const char *text, double least, double most, double *number_p)
{
	char *end;

	*number_p = strtod(text, &end);
	return *end == '\0' && *number_p >= least && *number_p <= most;
}

static bool past_seconds(const char *text, double *seconds_p)
{
	return past_number(text, 0.01, 3600, seconds_p);
}

static bool past_option(struct past_options *options, int letter, bool top)
{
	switch (letter) {
	case 'k':
		options->key = optarg;
		return true;
	case 'f':
		if (top || options->function_count == 16)
			return false;
		options->functions[options->function_count++] = optarg;
		return true;
	case 'K':
		return !top && past_seconds(optarg, &options->keep_s);
	case 'M':
		return !top && past_number(optarg, 0.01, 1 << 20, &options->keep_mib);
	case 'o':
		options->top.once = true;
		return top;
	case 'j':
		options->top.json = true;
		return top;
	case 'e':
		return top && past_seconds(optarg, &options->top.every_s);
	default:
		return false;
	}
}

/* Reads the arguments; returns 0 to go on, or 1 + the exit status. */
static int past_parse(struct past_options *options, int argc, char **argv, bool top)
{
	int letter;

	options->top.every_s = 1;
	options->keep_s = ROAMI_HOST_KEEP_S;
	options->keep_mib = ROAMI_HOST_KEEP_MIB;
	optind = 1;
	while ((letter = getopt_long(argc, argv, "h", past_long, NULL)) != -1) {
		if (letter == 'h') {
			fputs(past_usage, stdout);
			return 1;
		}
		if (!past_option(options, letter, top)) {
			tool_say("past %s: what is %s? `roam past --help`", argv[0],
				 tool_refused(argv, letter, past_long));
			return TOOL_USAGE + 1;
		}
	}
	if (optind != argc - 1) {
		tool_say("past %s: one address, please; `roam past --help`", argv[0]);
		return TOOL_USAGE + 1;
	}
	options->address = argv[optind];
	if (options->key == NULL)
		options->key = getenv("ROAM_PS_KEY");
	if (options->key == NULL) {
		tool_say("past %s: no key: name its file by --key or ROAM_PS_KEY", argv[0]);
		return TOOL_USAGE + 1;
	}
	return 0;
}

/* ---------------------------------------------------------------------------------------- serve */

static bool serve_functions(const char *file)
{
	void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	const struct roam_ps_function *function = object != NULL
							  ? dlsym(object, "roam_ps_functions")
							  : NULL;

	if (function == NULL) {
		tool_say("past serve: no X-functions: %s", dlerror()); /* names the file */
		return false;
	}
	for (; function->name != NULL; function++) {
		enum roam_err err = roam_ps_register(function);

		if (err != ROAM_OK) {
			tool_say("past serve: the X-function %s of %s: %s", function->name, file,
				 roam_strerror(err));
			return false;
		}
	}
	return true;
}

static int serve_run(const struct past_options *options, const uint8_t *key, int stop)
{
	const struct roami_keep keep = {(uint64_t)(options->keep_s * 1e9),
					(uint64_t)(options->keep_mib * (1 << 20))};
	char why[WHY_BYTES], at[WHY_BYTES];
	struct roami_host *host;
	struct roami_node *node;
	enum roam_err err;
	uint64_t round;

	err = roami_api_node(&node, &round); /* the server has reported why */
	for (unsigned i = 0; err == ROAM_OK && i < options->function_count; i++)
		if (!serve_functions(options->functions[i]))
			return TOOL_FAILED;
	if (err != ROAM_OK)
		return TOOL_FAILED;
	err = roami_host_open(&host, roami_past_of(node), options->address, key, &keep,
			      at, sizeof(at), why, sizeof(why));
	if (err != ROAM_OK) {
		tool_say("past serve: %s", why);
		return TOOL_FAILED;
	}
	printf("serving at %s\n", at);
	fflush(stdout);
	err = roami_host_serve(host, stop);
	if (err != ROAM_OK)
		tool_say("past serve: %s", strerror(errno));
	roami_host_close(host);
	roam_finish();
	return err == ROAM_OK ? 0 : TOOL_FAILED;
}

static int past_serve(int argc, char **argv)
{
	struct past_options options = {.address = NULL};
	uint8_t key[ROAMI_CHANNEL_KEY];
	int status = past_parse(&options, argc, argv, false), stop;

	if (status != 0)
		return status - 1;
	if (!tool_serve_key("past", options.key, key))
		return TOOL_FAILED;
	stop = tool_serve_stop("past");
	return stop < 0 ? TOOL_FAILED : serve_run(&options, key, stop);
}

/* ------------------------------------------------------------------------------------------ top */

static int past_top(int argc, char **argv)
{
	struct past_options options = {.address = NULL};
	struct roam_ps_server *server;
	int status = past_parse(&options, argc, argv, true);

	if (status != 0)
		return status - 1;
	if (roam_ps_attach(options.address, options.key, &server) != ROAM_OK) {
		tool_say("past top: %s", roam_ps_why());
		return TOOL_FAILED;
	}
	status = tool_past_top(server, options.address, &options.top);
	roam_ps_detach(server);
	return status;
}

int tool_past(int argc, char **argv)
{
	static const struct tool_part parts[2] = {{"serve", past_serve}, {"top", past_top}};

	return tool_parts("past", past_usage, parts, argc, argv);
}
