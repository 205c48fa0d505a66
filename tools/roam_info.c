/*
 * roam info: what this build and this machine can do, and the options.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/node.h"
#include "base/options.h"
#include "base/transports.h"
#include "fault/engine.h"
#include "job/local.h"
#include "launch/bind.h"
#include "os/os.h"
#include "page/diff.h"
#include "roam_tool.h"
#include "stats/stats.h"

#define WIDTH 98
#define NAME_WIDTH 18

static const char *const model_names[] = {"SC", "RC", "ScC", "TX"};

/* "  name    text", the text wrapped and indented. */
static void info_row(const char *name, const char *text)
{
	int column = printf("  %-*s", NAME_WIDTH, name);

	if (column > NAME_WIDTH + 2)
		column = printf("\n  %-*s", NAME_WIDTH, "") - 1;
	while (*text != '\0') {
		int word = (int)strcspn(text, " ");

		if (column + word + 1 > WIDTH && column > NAME_WIDTH + 2)
			column = printf("\n  %-*s", NAME_WIDTH, "") - 1;
		column += printf(" %.*s", word, text);
		text += word;
		text += strspn(text, " ");
	}
	printf("\n");
}

static void info_version(void)
{
	printf("roam %s\n", roam_version());
#ifdef ROAMI_HAVE_JEMALLOC
	info_row("jemalloc", "built in: serves small shared blocks; is malloc in programs that "
			     "link libroam.a, not in those that link libroam.so");
#else
	info_row("jemalloc", "not built in");
#endif
#ifdef ROAMI_HAVE_LIBSIGSEGV
	info_row("libsigsegv", "built in: GPL-2+ applies to programs that link roam");
#else
	info_row("libsigsegv", "not built in: own handler");
#endif
}

/* A number from a file of /proc; -1: it cannot be read. */
static long proc_number(const char *path)
{
	FILE *file = roami_os_file(path);
	long value = -1;

	if (file == NULL)
		return -1;
	if (fscanf(file, "%ld", &value) != 1)
		value = -1;
	fclose(file);
	return value;
}

static void info_limit(const char *name, __rlimit_resource_t resource, const char *unit, rlim_t per)
{
	struct rlimit limit;
	char text[64];

	if (getrlimit(resource, &limit) != 0)
		return;
	if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(text, sizeof(text), "no limit");
	else
		snprintf(text, sizeof(text), "%llu%s", (unsigned long long)(limit.rlim_cur / per),
			 unit);
	info_row(name, text);
}

/*
 * `use`: what the call is for; `without`: the alternative, printed after errno's text if it is
 * missing.
 */
static void info_call(const char *name, bool there, const char *use, const char *without)
{
	char text[240];

	if (there)
		snprintf(text, sizeof(text), "yes: %s", use);
	else
		snprintf(text, sizeof(text), "missing: %s; %s", strerror(errno), without);
	info_row(name, text);
}

/* Whether a call that makes a descriptor succeeds. */
static bool info_made(int fd)
{
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Calls and rights that a container's profile or limits may refuse. */
static void info_refused(void)
{
	struct io_uring_params params = {.flags = 0};
	int now = personality(0xffffffff), set;

	info_call("io_uring", info_made((int)syscall(SYS_io_uring_setup, 1, &params)),
		  "ROAM_UDP=uring", "ROAM_UDP=plain needs none");
	set = personality((unsigned long)now | ADDR_NO_RANDOMIZE);
	info_call("fixed addresses", set >= 0, "nodes of `roam run` have their statics at the same",
		  "`roam run` and other launchers want programs that are linked with -no-pie");
	if (set >= 0)
		personality((unsigned long)now);
	info_limit("locked memory", RLIMIT_MEMLOCK, " KiB (uring takes some)", 1 << 10);
}

static void info_machine(void)
{
	struct utsname host;
	char text[256];
	size_t used = 0;
	static const char *const simds[] = {"scalar", "avx2", "avx512"};

	uname(&host);
	printf("\nmachine\n");
	snprintf(text, sizeof(text), "%s %s, %u CPUs usable", host.sysname, host.release,
		 roami_os_cpus());
	info_row("kernel", text);
	for (size_t i = 0; i < sizeof(simds) / sizeof(simds[0]); i++)
		if (roami_diff_choose(simds[i]) != NULL)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used > 0 ? ", " : "", simds[i]);
	info_row("page compare", text);
	info_call("memfd", info_made(roami_os_memfd("roam-info", ROAM_PAGE_SIZE)),
		  "the shared heap", "roam cannot do without");
	info_call("pidfd", info_made(roami_os_pidfd(getpid())),
		  "a node's death is noticed at once", "roam cannot do without");
	info_refused();
	snprintf(text, sizeof(text), "%ld (sigsegv: pages of different access need a mapping each)",
		 proc_number("/proc/sys/vm/max_map_count"));
	info_row("vm.max_map_count", text);
	info_limit("address space", RLIMIT_AS, " MiB", 1 << 20);
	info_limit("open files", RLIMIT_NOFILE, "", 1);
}

static void info_protocols(void)
{
	char text[512];

	printf("\nprotocols (ROAM_PROTOCOL)\n");
	for (size_t i = 0; roami_protocols[i] != NULL; i++) {
		const struct roam_protocol *protocol = roami_protocols[i];

		snprintf(text, sizeof(text), "%s, %s: %s", model_names[protocol->model],
			 protocol->writes == ROAM_WRITES_DIFF ? "many writers" : "one writer",
			 protocol->paper);
		info_row(protocol->name, text);
	}
}

static void info_json_if(bool holds, const char *property, bool *first)
{
	if (holds)
		printf("%s\"%s\"", *first ? "" : ", ", property);
	*first = *first && !holds;
}

/* Prints what each protocol declares (roam/protocol.h), for scripts and tests. */
static void info_json_properties(const struct roam_protocol *protocol)
{
	bool first = true;

	info_json_if(protocol->acquire != NULL, "acquires", &first);
	info_json_if(protocol->evict != NULL, "evicts", &first);
	info_json_if(protocol->ahead != NULL, "ahead", &first);
	info_json_if(protocol->provisional != NULL, "provisional", &first);
	info_json_if(protocol->keeps_twins, "keeps_twins", &first);
	info_json_if(protocol->closes_homes, "closes_homes", &first);
	info_json_if(protocol->one_sided != ROAM_ONE_SIDED_NONE, "one_sided", &first);
	info_json_if(protocol->homes == ROAM_HOMES_FOLLOWING, "homes_follow", &first);
	info_json_if(protocol->homes == ROAM_HOMES_TAKEN, "diff_logs", &first);
	info_json_if(protocol->homes == ROAM_HOMES_EVERYWHERE, "one_heap", &first);
	info_json_if(protocol->transactions != NULL, "transactions", &first);
	info_json_if(protocol->checks_races, "checks_races", &first);
}

/* Names and papers come from this tree: they need no escapes. */
static void info_json(void)
{
	static const char *const homes[] = {"none",   "fixed",  "taken",
					    "moving", "moving", "everywhere"};
	static struct roami_options defaults;

	roami_options_default(&defaults);
	printf("{\"format\": \"roam info protocols 1\", \"default\": \"%s\", \"protocols\": [",
	       defaults.protocol);
	for (size_t i = 0; roami_protocols[i] != NULL; i++) {
		const struct roam_protocol *protocol = roami_protocols[i];

		printf("%s\n {\"name\": \"%s\", \"model\": \"%s\", \"writers\": \"%s\", "
		       "\"homes\": \"%s\", \"properties\": [",
		       i > 0 ? "," : "", protocol->name, model_names[protocol->model],
		       protocol->writes == ROAM_WRITES_DIFF ? "many" : "one",
		       homes[protocol->homes]);
		info_json_properties(protocol);
		printf("], \"region_option\": %s%s%s, \"paper\": \"%s\"}",
		       protocol->region_option != NULL ? "\"" : "",
		       protocol->region_option != NULL ? protocol->region_option : "null",
		       protocol->region_option != NULL ? "\"" : "", protocol->paper);
	}
	printf("\n]}\n");
}

/* Whether a transport works here, with the options that the environment sets. */
static bool info_works(const struct roam_transport *transport, char *why, size_t bytes)
{
	struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX];
	struct roami_options options;

	roami_options_read(&options, environ, -1);
	roami_options_of(&options, transport, values);
	return roami_transport_works(transport, values, why, bytes);
}

static void info_transports(void)
{
	char text[512], why[256];

	printf("\ntransports (ROAM_TRANSPORT; auto: per node the cheapest that reaches it)\n");
	for (size_t i = 0; roami_transports[i] != NULL; i++) {
		const struct roam_transport *transport = roami_transports[i];
		bool works = info_works(transport, why, sizeof(why));

		snprintf(text, sizeof(text), "%s%s%s: %s, %s, %s, %s, messages up to %zu bytes%s",
			 works ? "works" : "missing", why[0] != '\0' ? ": " : "", why,
			 transport->caps & ROAM_CAP_HOSTS ? "between hosts" : "within a host",
			 transport->caps & ROAM_CAP_RELIABLE ? "reliable" : "unreliable",
			 transport->caps & ROAM_CAP_ORDERED ? "ordered" : "unordered",
			 transport->caps & ROAM_CAP_MAPPED ? "loads and stores"
							   : "messages only",
			 transport->message_max,
			 transport->caps & ROAM_CAP_NAMED  ? ", only if named"
			 : transport->caps & ROAM_CAP_BARE ? ", with auto only if ROAM_SEAL=off"
							   : "");
		info_row(transport->name, text);
	}
}

/* A text of the machine, such as the name of an error. */
static void info_json_text(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text < ' ' ? ' ' : *text);
	}
	putchar('"');
}

/* Prints what transports declare (roam/transport.h), and whether they work here. */
static void info_json_transports(void)
{
	char why[256];

	printf("{\"format\": \"roam info transports 1\", \"transports\": [");
	for (size_t i = 0; roami_transports[i] != NULL; i++) {
		const struct roam_transport *transport = roami_transports[i];
		bool first = true, works = info_works(transport, why, sizeof(why));

		printf("%s\n {\"name\": \"%s\", \"works\": %s, \"why\": ", i > 0 ? "," : "",
		       transport->name, works ? "true" : "false");
		info_json_text(why);
		printf(", \"capabilities\": [");
		info_json_if((transport->caps & ROAM_CAP_RELIABLE) != 0, "reliable", &first);
		info_json_if((transport->caps & ROAM_CAP_ORDERED) != 0, "ordered", &first);
		info_json_if((transport->caps & ROAM_CAP_MAPPED) != 0, "mapped", &first);
		info_json_if((transport->caps & ROAM_CAP_HOSTS) != 0, "hosts", &first);
		info_json_if(transport->wait != NULL, "sleeps", &first);
		info_json_if((transport->caps & ROAM_CAP_NAMED) != 0, "named", &first);
		info_json_if((transport->caps & ROAM_CAP_BARE) != 0, "bare", &first);
		printf("], \"cost_ns\": %u, \"message_max\": %zu}", transport->cost_ns,
		       transport->message_max);
	}
	printf("\n]}\n");
}

/* Prints the other launchers, and which of them works here. */
static void info_launchers(void)
{
	char why[256], text[400];

	printf("\nlaunchers (ROAM_LAUNCHER), besides `roam run`\n");
#ifndef ROAMI_HAVE_PMIX
	info_row("pmix", "mpirun, prterun, srun --mpi=pmix: not built in (pmix.h was missing)");
#endif
	for (size_t i = 0; roami_bindings[i] != NULL; i++) {
		const struct roami_binding *binding = roami_bindings[i];
		bool works = binding->works(why, sizeof(why));
		const char *marker = binding->marker();

		snprintf(text, sizeof(text), "%s: %s: %s%s%s", binding->launchers,
			 works ? "works" : "missing", why,
			 marker != NULL ? "; here: " : "", marker != NULL ? marker : "");
		info_row(binding->name, text);
	}
}

static void info_engines(void)
{
	char *nothing_set[] = {NULL}, why[256], text[300];
	const struct roami_fault_engine *taken = NULL;
	struct roami_options defaults;

	roami_options_read(&defaults, nothing_set, -1);
	roami_boot_check(&defaults, &taken);
	printf("\nfault engines (ROAM_FAULT; auto takes %s)\n",
	       taken != NULL ? taken->name : "none");
	for (size_t i = 0; roami_fault_engines[i] != NULL; i++) {
		const struct roami_fault_engine *engine = roami_fault_engines[i];
		bool works;

		if (strcmp(engine->name, "soft") == 0) /* for tests: ROAM_FAULT does not take it */
			continue;
		why[0] = '\0';
		works = engine->probe(why, sizeof(why));
		snprintf(text, sizeof(text), "%s%s%s", works ? "works" : "missing",
			 why[0] != '\0' ? ": " : "", why);
		info_row(engine->name, text);
	}
}

/*
 * Prints every option with its default, its present value if that differs, its allowed values, and
 * its meaning.
 */
static void info_options(void)
{
	struct roami_options options;
	struct roami_option option;
	char text[1024], allowed[160], value[256];

	roami_options_read(&options, environ, -1);
	printf("\noptions\n");
	for (unsigned i = 0; roami_option_at(i, &option); i++) {
		const struct roami_option *o = &option;

		if (o->internal)
			continue;
		allowed[0] = '\0';
		if (o->type != ROAMI_OPTION_NAME)
			roami_option_allowed(o, allowed, sizeof(allowed) - 2);
		if (allowed[0] != '\0')
			strcat(allowed, "; ");
		roami_option_show(o, &options, value, sizeof(value));
		snprintf(text, sizeof(text), "%s [%sdefault %s%s%s]", o->meaning, allowed, o->value,
			 strcmp(value, o->value) == 0 ? "" : "; now ",
			 strcmp(value, o->value) == 0 ? "" : value);
		info_row(o->variable, text);
	}
}

static void info_counters(void)
{
	printf("\ncounters (ROAM_STATS, roam_counter)\n");
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		if (!roami_stats_lines[i].time)
			info_row(roami_stats_lines[i].name, roami_stats_lines[i].meaning);
	printf("\ntimes\n");
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		if (roami_stats_lines[i].time)
			info_row(roami_stats_lines[i].name, roami_stats_lines[i].meaning);
}

struct section {
	const char *name;
	void (*show)(void);
	bool always; /* without arguments, too */
};

static const struct section sections[] = {
	{"version", info_version, true},     {"machine", info_machine, true},
	{"protocols", info_protocols, true}, {"transports", info_transports, true},
	{"launchers", info_launchers, true},
	{"engines", info_engines, true},     {"options", info_options, true},
	{"counters", info_counters, false},
};

static const size_t sections_count = sizeof(sections) / sizeof(sections[0]);

static int info_usage(FILE *to)
{
	fprintf(to, "usage: roam info [WHAT]...\n  WHAT: all");
	for (size_t i = 0; i < sections_count; i++)
		fprintf(to, ", %s", sections[i].name);
	fprintf(to, "\n       roam info protocols|transports --json\n");
	return to == stdout ? 0 : TOOL_USAGE;
}

static bool info_one(const char *name)
{
	bool all = strcmp(name, "all") == 0, found = all;

	for (size_t i = 0; i < sections_count; i++)
		if (all || strcmp(sections[i].name, name) == 0) {
			sections[i].show();
			found = true;
		}
	return found;
}

int tool_info(int argc, char **argv)
{
	struct roami_options options;
	enum roam_err err = roami_options_read(&options, environ, STDERR_FILENO);

	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return info_usage(stdout);
	for (int i = 0; i < 2 && argc == 3 && strcmp(argv[2], "--json") == 0; i++)
		if (strcmp(argv[1], i == 0 ? "protocols" : "transports") == 0) {
			i == 0 ? info_json() : info_json_transports();
			return err == ROAM_OK ? 0 : TOOL_FAILED;
		}
	for (size_t i = 0; argc == 1 && i < sections_count; i++)
		if (sections[i].always)
			sections[i].show();
	for (int i = 1; i < argc; i++)
		if (!info_one(argv[i]))
			return info_usage(stderr);
	return err == ROAM_OK ? 0 : TOOL_FAILED;
}
