/* roam pages: a server that keeps the committed pages of jobs, and a check of what it has kept. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link/address.h"
#include "os/os.h"
#include "roam_serve.h"
#include "roam_tool.h"
#include "store/frames.h"
#include "store/server.h"

static const char pages_usage[] =
	"usage: roam pages serve DIR ADDRESS [--key FILE] [--read-key FILE] [--log MIB]\n"
	"                        [--snapshot MIB] [--no-uring]\n"
	"       roam pages check DIR\n"
	"\n"
	"serve keeps the pages that transactions of a job commit (ROAM_STORE=ADDRESS) in the\n"
	"directory DIR, which it makes if need be.  It prints \"serving at ADDRESS\" when it is\n"
	"ready, and ends at SIGINT or SIGTERM.  If the disk fails or is full it ends with a\n"
	"line; what was acknowledged as durable is kept.  Begun on a full disk it serves what it\n"
	"has, says so, and refuses commits until there is room.\n"
	"\n"
	"check verifies all files of a server that does not run, and prints how many commits,\n"
	"pages and names they hold.\n"
	"\n"
	"  ADDRESS            HOST:PORT (port 0: a free one), or the path of a Unix\n"
	"                     socket, with a /\n"
	"  --key FILE         the key of server and clients; else the file that\n"
	"                     ROAM_STORE_KEY names.  serve makes it if it does not exist\n"
	"  --read-key FILE    a key whose clients only read; their commits are refused.  serve\n"
	"                     makes it if it does not exist\n"
	"  --log MIB          bytes of a file of the log (64)\n"
	"  --snapshot MIB     how much log there is before a snapshot of all pages takes its\n"
	"                     place (256), if the pages are not more\n"
	"  --no-uring         write by pwrite and fdatasync, not by io_uring\n";

static const struct option pages_long[] = {
	{"key", required_argument, NULL, 'k'}, {"read-key", required_argument, NULL, 'r'},
	{"log", required_argument, NULL, 'l'}, {"snapshot", required_argument, NULL, 's'},
	{"no-uring", no_argument, NULL, 'u'},  {"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct pages_options {
	const char *key, *read_key;
	struct roami_store_params params;
};

static void pages_say(const char *line)
{
	tool_say("%s", line);
}

static bool pages_mib(const char *text, uint64_t *bytes_p)
{
	char *end;
	double number = strtod(text, &end);

	*bytes_p = (uint64_t)(number * (1 << 20));
	return *end == '\0' && number >= 0.001 && number <= 1 << 20;
}

static bool pages_option(struct pages_options *options, int letter)
{
	switch (letter) {
	case 'k':
		options->key = optarg;
		return true;
	case 'r':
		options->read_key = optarg;
		return true;
	case 'l':
		return pages_mib(optarg, &options->params.log_bytes);
	case 's':
		return pages_mib(optarg, &options->params.snapshot_bytes);
	case 'u':
		options->params.uring = false;
		return true;
	default:
		return false;
	}
}

/* Reads the arguments; returns 0 to go on, or 1 + the exit status. */
static int pages_parse(struct pages_options *options, int argc, char **argv, bool serve)
{
	int letter;

	*options = (struct pages_options){.params = {.log_bytes = ROAMI_LOG_BYTES,
						     .snapshot_bytes = ROAMI_SNAPSHOT_EVERY,
						     .uring = true,
						     .say = pages_say}};
	optind = 1;
	while ((letter = getopt_long(argc, argv, "h", pages_long, NULL)) != -1) {
		if (letter == 'h') {
			fputs(pages_usage, stdout);
			return 1;
		}
		if (!serve || !pages_option(options, letter)) {
			tool_say("pages %s: what is %s? `roam pages --help`", argv[0],
				 tool_refused(argv, letter, pages_long));
			return TOOL_USAGE + 1;
		}
	}
	if (optind != argc - (serve ? 2 : 1)) {
		tool_say("pages %s: %s, please; `roam pages --help`", argv[0],
			 serve ? "a directory and an address" : "one directory");
		return TOOL_USAGE + 1;
	}
	options->params.directory = argv[optind];
	options->params.address = serve ? argv[optind + 1] : NULL;
	if (options->key == NULL)
		options->key = getenv("ROAM_STORE_KEY");
	if (serve && options->key == NULL) {
		tool_say("pages serve: no key: name its file by --key or ROAM_STORE_KEY");
		return TOOL_USAGE + 1;
	}
	return 0;
}

/* ---------------------------------------------------------------------------------------- serve */

static int serve_run(const struct pages_options *options, int stop)
{
	char why[ROAMI_STORE_WHY], at[512], late[ROAMI_STORE_WHY];
	struct roami_store_server *server;
	enum roam_err err = roami_store_open(&server, &options->params, at, sizeof(at), why);

	if (err != ROAM_OK) {
		tool_say("pages serve: %s", why);
		return TOOL_FAILED;
	}
	printf("serving at %s\n", at);
	fflush(stdout);
	err = roami_store_serve(server, stop, why);
	if (!roami_store_close(server, late) && err == ROAM_OK) {
		memcpy(why, late, sizeof(why));
		err = ROAM_ESYSTEM;
	}
	if (err != ROAM_OK)
		tool_say("pages serve: %s; what was acknowledged as durable is kept", why);
	return err == ROAM_OK ? 0 : TOOL_FAILED;
}

static int pages_serve(int argc, char **argv)
{
	uint8_t key[ROAMI_CHANNEL_KEY], read_key[ROAMI_CHANNEL_KEY];
	struct pages_options options;
	int status = pages_parse(&options, argc, argv, true), stop;

	if (status != 0)
		return status - 1;
	if (!tool_serve_key("pages", options.key, key) ||
	    (options.read_key != NULL && !tool_serve_key("pages", options.read_key, read_key)))
		return TOOL_FAILED;
	options.params.key = key;
	if (options.read_key != NULL)
		options.params.read_key = read_key;
	if (options.read_key != NULL && memcmp(key, read_key, sizeof(key)) == 0) {
		tool_say("pages serve: the key to read with is the key to commit with, too");
		return TOOL_FAILED;
	}
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN); /* nobody may read what it says */
	stop = tool_serve_stop("pages");
	return stop < 0 ? TOOL_FAILED : serve_run(&options, stop);
}

/* ---------------------------------------------------------------------------------------- check */

static int pages_check(int argc, char **argv)
{
	struct pages_options options;
	struct roami_store_state *state;
	struct roami_recovered is;
	char why[ROAMI_STORE_WHY];
	int status = pages_parse(&options, argc, argv, false), directory, lock;
	enum roam_err err;

	if (status != 0)
		return status - 1;
	state = calloc(1, sizeof(*state));
	directory = state == NULL ? -1
				  : roami_store_directory(options.params.directory, false, &lock,
							  why);
	if (directory < 0) {
		tool_say("pages check: %s", state == NULL ? "no memory" : why);
		free(state);
		return TOOL_FAILED;
	}
	err = roami_store_recover(directory, state, &is, why);
	if (err != ROAM_OK)
		tool_say("pages check: %s", why);
	else
		printf("%" PRIu64 " commits, %" PRIu64 " pages, %u names; heap of %" PRIu64
		       " bytes; %" PRIu64 " bytes read\n",
		       is.serial, state->pages, state->name_count,
		       roami_store_heap(is.heap_bytes), is.read);
	roami_state_free(state);
	free(state);
	close(directory);
	close(lock);
	return err == ROAM_OK ? 0 : TOOL_FAILED;
}

int tool_pages(int argc, char **argv)
{
	static const struct tool_part parts[2] = {{"serve", pages_serve}, {"check", pages_check}};

	return tool_parts("pages", pages_usage, parts, argc, argv);
}
