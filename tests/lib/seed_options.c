#include "seed_options.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/node.h"
#include "base/options.h"
#include "world.h"

static char replay[200]; /* the command of the running seed, printed if the process dies */

const char *seed_replay(void)
{
	return replay;
}

__attribute__((noreturn)) static void usage(const struct seed_options *options)
{
	fprintf(stderr,
		"usage: %s [--protocol NAME] [--seeds A..B] [--nodes N] [--ops N] [--trace] "
		"[--list] [--lossy] [--cards] [--mixed] [--undo] [--teams] [--about]\n",
		options->program);
	exit(2);
}

static void options_seeds(struct seed_options *options, const char *text)
{
	char *end;

	options->from = strtoull(text, &end, 0);
	options->to = options->from;
	if (strncmp(end, "..", 2) == 0)
		options->to = strtoull(end + 2, &end, 0);
	if (*end != '\0' || options->to < options->from)
		usage(options);
}

static void options_value(struct seed_options *options, const char *name, const char *value)
{
	if (value == NULL)
		usage(options);
	if (strcmp(name, "--protocol") == 0)
		options->protocol = value;
	else if (strcmp(name, "--seeds") == 0)
		options_seeds(options, value);
	else if (strcmp(name, "--nodes") == 0)
		options->nodes = (unsigned)strtoul(value, NULL, 0);
	else if (strcmp(name, "--ops") == 0)
		options->operations = (uint32_t)strtoul(value, NULL, 0);
	else
		usage(options);
}

void seed_options_read(struct seed_options *options, int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');

	options->program = name == NULL ? argv[0] : name + 1;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0) {
			options->trace = true;
		} else if (strcmp(argv[i], "--list") == 0) {
			options->list = true;
		} else if (strcmp(argv[i], "--lossy") == 0) {
			options->lossy = true;
		} else if (strcmp(argv[i], "--cards") == 0) {
			options->cards = true;
		} else if (strcmp(argv[i], "--mixed") == 0) {
			options->mixed = true;
		} else if (strcmp(argv[i], "--undo") == 0) {
			options->undo = true;
		} else if (strcmp(argv[i], "--teams") == 0) {
			options->teams = true;
		} else if (strcmp(argv[i], "--about") == 0) {
			options->about = true;
		} else {
			options_value(options, argv[i], argv[i + 1]);
			i++;
		}
	}
	if ((options->nodes == 1 && !options->teams) || options->nodes > 16)
		usage(options);
}

/* Says which seed was running, after an assertion, a crash, or a run that took too long. */
static void seed_died(int number)
{
	ssize_t ignored = write(STDERR_FILENO, replay, strlen(replay));

	ignored = write(STDERR_FILENO, "\n", 1);
	(void)ignored;
	raise(number); /* the default action: SA_RESETHAND */
}

static void seed_handlers(void)
{
	static const int numbers[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGALRM, SIGTERM};
	static char stack[64 * 1024];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = seed_died,
				   .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};

	sigaltstack(&alternate, NULL);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

static void seed_remember(const struct seed_options *options, const char *protocol, uint64_t seed)
{
	const char *jitter = getenv("JITTER"); /* jitter.h */
	int at = snprintf(replay, sizeof(replay), "replay: %s%.20s%s%s --protocol %s --seeds %lu",
			  jitter != NULL ? "JITTER=" : "", jitter != NULL ? jitter : "",
			  jitter != NULL ? " " : "", options->program, protocol,
			  (unsigned long)seed);

	if (options->nodes != 0)
		at += snprintf(replay + at, sizeof(replay) - (size_t)at, " --nodes %u",
			       options->nodes);
	if (options->operations != 0)
		at += snprintf(replay + at, sizeof(replay) - (size_t)at, " --ops %u",
			       options->operations);
	snprintf(replay + at, sizeof(replay) - (size_t)at, "%s%s%s%s%s",
		 options->lossy ? " --lossy" : "", options->cards ? " --cards" : "",
		 options->mixed ? " --mixed" : "",
		 options->undo ? " --undo" : "", options->teams ? " --teams" : "");
}

/* Protocols that exist only for tests; they are run only if they are asked for by name. */
#if __has_include("test_protocols.def")
#define PROTOCOL(name) extern const struct roam_protocol roami_protocol_##name;
#include "test_protocols.def"
#undef PROTOCOL
#endif

#define PROTOCOL(name) &roami_protocol_##name,
static const struct roam_protocol *const test_protocols[] = {
#if __has_include("test_protocols.def")
#include "test_protocols.def"
#endif
	NULL};

/* The protocol number `at` of all; NULL behind the last one. */
static const struct roam_protocol *seed_protocol(const struct seed_options *options, unsigned at)
{
	unsigned known = world_protocols();

	if (at < known)
		return roami_protocols[at];
	return options->protocol != NULL ? test_protocols[at - known] : NULL;
}

/* Whether the options ask for the protocol. */
static bool seed_wanted(const struct seed_options *options, const struct roam_protocol *protocol)
{
	static struct roami_options defaults;

	if (options->protocol == NULL)
		return true;
	if (strcmp(options->protocol, "default") != 0)
		return strcmp(options->protocol, protocol->name) == 0;
	roami_options_default(&defaults);
	return strcmp(defaults.protocol, protocol->name) == 0;
}

int seed_main(const struct seed_options *options,
	      bool (*one)(const struct seed_options *options, const struct roam_protocol *protocol,
			  uint64_t seed, void *arg),
	      bool (*done)(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
			   void *arg),
	      void *arg)
{
	return seed_main_about(options, NULL, one, done, arg);
}

int seed_main_about(const struct seed_options *options,
		    bool (*about)(const struct roam_protocol *protocol),
		    bool (*one)(const struct seed_options *options,
				const struct roam_protocol *protocol, uint64_t seed, void *arg),
		    bool (*done)(const struct roam_protocol *protocol, uint64_t seeds,
				 uint64_t failed, void *arg),
		    void *arg)
{
	const struct roam_protocol *protocol;
	bool good = true, found = false;

	setvbuf(stdout, NULL, _IOLBF, 0);
	seed_handlers();
	for (unsigned i = 0; (protocol = seed_protocol(options, i)) != NULL; i++) {
		uint64_t failed = 0;

		if (!seed_wanted(options, protocol) || (about != NULL && !about(protocol)))
			continue;
		found = true;
		if (options->about)
			continue;
		for (uint64_t seed = options->from; seed <= options->to; seed++) {
			seed_remember(options, protocol->name, seed);
			if (!one(options, protocol, seed, arg))
				failed++;
		}
		good = done(protocol, options->to - options->from + 1, failed, arg) && good;
	}
	if (!found && options->protocol == NULL && !options->about) {
		printf("skip: %s: this build has none of the protocols that it looks at\n",
		       options->program);
		return EXIT_SUCCESS;
	}
	if (!found)
		fprintf(stderr, "%s: looks at no protocol %s\n", options->program,
			options->protocol != NULL ? options->protocol : "of this build");
	return good && found ? EXIT_SUCCESS : EXIT_FAILURE;
}

bool seed_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed, void *arg)
{
	(void)arg;
	printf("%s: %lu seeds, %lu failed\n", protocol->name, (unsigned long)seeds,
	       (unsigned long)failed);
	return failed == 0;
}

bool seed_world(struct world *world, const struct world_config *config)
{
	char text[512];

	if (world_run(world))
		return true;
	world_describe(config, text, sizeof(text));
	printf("FAILED seed %lu: %s\n  %s\n  %s\n", (unsigned long)config->seed,
	       world_error(world), text, seed_replay());
	return false;
}

struct world *seed_pair(const struct world_config *config, void (*fn)(void *arg), void *arg)
{
	struct seed_thread threads[ROAMI_NODES_MAX];
	struct world *world = world_open(config);

	if (world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < config->nodes; i++) {
		threads[i] = (struct seed_thread){world, i, arg};
		world_spawn(world, i, fn, &threads[i]);
	}
	if (seed_world(world, config))
		return world;
	world_close(world);
	return NULL;
}
