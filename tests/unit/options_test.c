/*
 * Options come from the environment as the table says, bad values are named and refused, and
 * misspelt variables are noticed.
 */
#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/transports.h"
#include "unit.h"

static char said[8192];

/* Reads options from an environment of up to three variables; the messages go to `said`. */
static enum roam_err read_env(struct roami_options *options, const char *a, const char *b,
			      const char *c)
{
	const char *env[] = {"HOME=/", a, b, c, NULL};
	int fd = memfd_create("said", 0);
	enum roam_err err;
	ssize_t length;

	for (unsigned i = 1; i < 4; i++)
		if (env[i] == NULL)
			env[i] = "PATH=/bin";
	CU_ASSERT_FATAL(fd >= 0);
	err = roami_options_read(options, (char *const *)(uintptr_t)env, fd);
	length = pread(fd, said, sizeof(said) - 1, 0);
	said[length > 0 ? length : 0] = '\0';
	close(fd);
	return err;
}

static unsigned lines_said(void)
{
	unsigned lines = 0;

	for (const char *c = said; *c != '\0'; c++)
		lines += *c == '\n';
	return lines;
}

/* Every default of the table is a value that the table allows, and is shown as the table has it. */
static void test_defaults(void)
{
	struct roami_options options, again;
	struct roami_option option;
	char text[64], assignment[128];

	roami_options_default(&options);
	for (unsigned i = 0; roami_option_at(i, &option); i++) {
		const struct roami_option *o = &option;

		roami_option_show(o, &options, text, sizeof(text));
		CU_ASSERT_STRING_EQUAL(text, o->value);
		snprintf(assignment, sizeof(assignment), "%s=%s", o->variable, o->value);
		CU_ASSERT_EQUAL(read_env(&again, assignment, NULL, NULL), ROAM_OK);
		CU_ASSERT_EQUAL(said[0], '\0');
		CU_ASSERT_EQUAL(memcmp(&again, &options, sizeof(options)), 0);
		CU_ASSERT(strlen(o->meaning) > 10);
	}
	CU_ASSERT_STRING_EQUAL(options.protocol, "hlrc");
	CU_ASSERT_EQUAL(options.heap, UINT64_C(64) << 30);
	CU_ASSERT_EQUAL(options.nodes_max, 64);
	CU_ASSERT_EQUAL(options.log, ROAMI_LEVEL_WARN);
	CU_ASSERT_EQUAL(options.hot, true);
	CU_ASSERT_STRING_EQUAL(options.stats, "");
}

/* Values of every type are read. */
static void test_values(void)
{
	struct roami_options options;

	CU_ASSERT_EQUAL(
		read_env(&options, "ROAM_HEAP=512M", "ROAM_PROTOCOL=another", "ROAM_CHECK=race"),
		ROAM_OK);
	CU_ASSERT_EQUAL(options.heap, UINT64_C(512) << 20);
	CU_ASSERT_STRING_EQUAL(options.protocol, "another");
	CU_ASSERT_EQUAL(options.check, ROAMI_CHECK_RACE);
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_CHECK=statics,race", "", ""), ROAM_OK);
	CU_ASSERT_EQUAL(options.check, ROAMI_CHECK_RACE | ROAMI_CHECK_STATICS);
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_CHECK=none", "", ""), ROAM_OK);
	CU_ASSERT_EQUAL(options.check, 0);
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_CHECK=race,", "", ""), ROAM_EINVAL);
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_CHECK=race,none", "", ""), ROAM_EINVAL);
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_CHAOS=0xffffffffffffffff", "ROAM_HOT=off",
				 "ROAM_SIMD=avx2"),
			ROAM_OK);
	CU_ASSERT_EQUAL(options.chaos, UINT64_MAX);
	CU_ASSERT_EQUAL(options.hot, false);
	CU_ASSERT_STRING_EQUAL(options.simd, "avx2");
	CU_ASSERT_EQUAL(
		read_env(&options, "ROAM_STATS=./s.json", "ROAM_LOG=debug", "ROAM_BARRIER=tree"),
		ROAM_OK);
	CU_ASSERT_STRING_EQUAL(options.stats, "./s.json");
	CU_ASSERT_EQUAL(options.log, ROAMI_LEVEL_DEBUG);
	CU_ASSERT_EQUAL(options.barrier_tree, ROAMI_BARRIER_TREE);
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_STATS=1", "ROAM_HEAP=16777217", "ROAM_PIN=yes"),
			ROAM_OK);
	CU_ASSERT_STRING_EQUAL(options.stats, "1");
	CU_ASSERT_EQUAL(options.heap, 16777216 + ROAM_PAGE_SIZE);
	CU_ASSERT_EQUAL(options.pin, true);
}

/* As with getenv, the first of two counts; and an empty value counts as none. */
static void test_twice(void)
{
	struct roami_options options;

	CU_ASSERT_EQUAL(read_env(&options, "ROAM_PREFETCH=7", "ROAM_PREFETCH=9", "ROAM_HEAP="),
			ROAM_OK);
	CU_ASSERT_EQUAL(options.prefetch, 7);
	CU_ASSERT_EQUAL(options.heap, UINT64_C(64) << 30);
}

/* A bad value: one line with variable, value and what is allowed; the option keeps its default. */
static void test_refused(void)
{
	static const char *const bad[] = {
		"ROAM_HEAP=15M",
		"ROAM_HEAP=1025G",
		"ROAM_HEAP=2T",
		"ROAM_HEAP=-1",
		"ROAM_HEAP=64Q",
		"ROAM_HEAP=64GG",
		"ROAM_HEAP=G",
		"ROAM_HEAP= 64G",
		"ROAM_HEAP=99999999999999999999",
		"ROAM_HEAP=18446744073709551615T",
		"ROAM_HEAP=16777216T",
		"ROAM_NODES_MAX=0",
		"ROAM_NODES_MAX=65",
		"ROAM_NODES_MAX=4K",
		"ROAM_NODES_MAX=+4",
		"ROAM_NODES_MAX=0x",
		"ROAM_CHAOS=18446744073709551616",
		"ROAM_CHAOS=0x10000000000000000",
		"ROAM_SPIN_US=1000001",
		"ROAM_CACHE_PAGES=4294967296",
		"ROAM_SIMD=sse",
		"ROAM_SIMD=auto|",
		"ROAM_SIMD=auto|scalar",
		"ROAM_CHECK=racer",
		"ROAM_CHECK=rac",
		"ROAM_PIN=2",
		"ROAM_HOT=maybe",
		"ROAM_STATS=2",
		"ROAM_STATS=stats.json",
		"ROAM_LOG=verbose",
		"ROAM_ALLOC=dlmalloc",
		"ROAM_PROTOCOL=a-name-that-is-far-too-long-to-be-that-of-a-protocol",
	};
	struct roami_options options, defaults;

	roami_options_default(&defaults);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CU_ASSERT_EQUAL(read_env(&options, bad[i], NULL, NULL), ROAM_EINVAL);
		CU_ASSERT_EQUAL(lines_said(), 1);
		CU_ASSERT_EQUAL(strncmp(said, "roam: ROAM_", 11), 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(said, ": must be "));
		CU_ASSERT_EQUAL(memcmp(&options, &defaults, sizeof(options)), 0);
	}
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_HEAP=1", "ROAM_LOG=x", "ROAM_SIMD=y"),
			ROAM_EINVAL);
	CU_ASSERT_EQUAL(lines_said(), 3);
	read_env(&options, "ROAM_HEAP=12Q", NULL, NULL);
	CU_ASSERT_STRING_EQUAL(said, "roam: ROAM_HEAP=12Q: must be a size from 16M to 1T\n");
	read_env(&options, "ROAM_SIMD=sse", NULL, NULL);
	CU_ASSERT_STRING_EQUAL(said, "roam: ROAM_SIMD=sse: must be auto, scalar, avx2 or avx512\n");
}

/* Values of any length and content are printed safely, on one line. */
static void test_hostile(void)
{
	static char value[100000];
	struct roami_options options;

	strcpy(value, "ROAM_HEAP=");
	memset(value + strlen(value), '\033', sizeof(value) - 11);
	CU_ASSERT_EQUAL(read_env(&options, value, NULL, NULL), ROAM_EINVAL);
	CU_ASSERT_EQUAL(lines_said(), 1);
	CU_ASSERT_PTR_NULL(strchr(said, '\033'));
	memcpy(value, "ROAM_XXXXX", 10);
	CU_ASSERT_EQUAL(read_env(&options, value, NULL, NULL), ROAM_OK);
	CU_ASSERT_EQUAL(lines_said(), 1);
	CU_ASSERT_PTR_NULL(strchr(said, '\033'));
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_", "ROAM_=", "ROAM"), ROAM_OK);
	CU_ASSERT_EQUAL(lines_said(), 2);
	value[0] = '\0';
	strcpy(value, "ROAM_STATS=/");
	memset(value + strlen(value), 'a', ROAMI_OPTION_OUTPUT_MAX);
	CU_ASSERT_EQUAL(read_env(&options, value, NULL, NULL), ROAM_EINVAL);
}

/* Misspelt variables are noticed, the right one is suggested, and nothing else happens. */
static void test_unknown(void)
{
	struct roami_options options, defaults;

	roami_options_default(&defaults);
	CU_ASSERT_EQUAL(read_env(&options, "ROAM_PROTOCL=another", NULL, NULL), ROAM_OK);
	CU_ASSERT_EQUAL(memcmp(&options, &defaults, sizeof(options)), 0);
	CU_ASSERT_STRING_EQUAL(said, "roam: warning: unknown variable ROAM_PROTOCL; "
				     "did you mean ROAM_PROTOCOL?\n");
	read_env(&options, "ROAM_FALUT=uffd", NULL, NULL);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "did you mean ROAM_FAULT?"));
	read_env(&options, "ROAM_SOMETHING_ELSE=1", NULL, NULL);
	CU_ASSERT_EQUAL(lines_said(), 1);
	CU_ASSERT_PTR_NULL(strstr(said, "did you mean"));
	read_env(&options, "ROAMING=1", "ROAM_PROTOCOL=another", "roam_fault=x");
	CU_ASSERT_EQUAL(said[0], '\0');
	read_env(&options, "ROAM_PROTOCL=another", "ROAM_LOG=error", NULL);
	CU_ASSERT_EQUAL(said[0], '\0');
	read_env(&options, "ROAM_PROTOCL=another", "ROAM_BOOT=local:1:2:5", NULL);
	CU_ASSERT_EQUAL(said[0], '\0');
	CU_ASSERT_STRING_EQUAL(options.boot, "local:1:2:5");
}

/*
 * What a transport declares is an option like all others: it is listed, refused with the allowed
 * values, suggested, and given to its transport; a transport that is not listed gets the defaults.
 */
#define LONG "a text that is longer than forty-seven characters can be"

static void test_transports(void)
{
	static const struct roam_transport_option mine[] = {
		ROAM_TRANSPORT_OPTION("ROAM_MINE", "b", "a|b", "a word, of no use"),
		ROAM_TRANSPORT_OPTION("ROAM_MINE_SIZE", "7", "1..9", "a number, of no use"),
		ROAM_TRANSPORT_OPTION("ROAM_MINE_TEXT", "here", "", "a text, of no use"),
		{.variable = NULL}};
	const struct roam_transport unlisted = {.name = "mine", .options = mine};
	struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX];
	unsigned found = 0, at = 0;
	struct roami_options options;
	struct roami_option near;
	char text[128];

	for (unsigned i = 0; roami_transports[i] != NULL; i++) {
		const struct roam_transport_option *own = roami_transports[i]->options;

		for (at = 0; own != NULL && own[at].variable != NULL; at++, found++) {
			const char *bar = strrchr(own[at].allowed, '|');

			CU_ASSERT_EQUAL(strncmp(own[at].variable, "ROAM_", 5), 0);
			CU_ASSERT_EQUAL(strncasecmp(own[at].variable + 5, roami_transports[i]->name,
						    strlen(roami_transports[i]->name)),
					0);
			snprintf(text, sizeof(text), "%s=%s", own[at].variable,
				 own[at].allowed[0] != '\0' ? "?" : LONG);
			CU_ASSERT_EQUAL(read_env(&options, text, NULL, NULL), ROAM_EINVAL);
			CU_ASSERT_EQUAL(strncmp(said, "roam: ", 6), 0);
			text[strcspn(text, "=") + 2] = '\0';
			CU_ASSERT_PTR_NOT_NULL(strstr(said, text));
			snprintf(text, sizeof(text), "%sX=1", own[at].variable);
			read_env(&options, text, NULL, NULL);
			CU_ASSERT_PTR_NOT_NULL(strstr(said, "did you mean ROAM_"));
			if (own[at].allowed[0] == '\0') {
				snprintf(text, sizeof(text), "%s=some", own[at].variable);
				CU_ASSERT_EQUAL(read_env(&options, text, NULL, NULL), ROAM_OK);
				roami_options_of(&options, roami_transports[i], values);
				CU_ASSERT_STRING_EQUAL(values[at].text, "some");
			}
			if (bar == NULL)
				continue;
			snprintf(text, sizeof(text), "%s=%s", own[at].variable, bar + 1);
			CU_ASSERT_EQUAL(read_env(&options, text, NULL, NULL), ROAM_OK);
			roami_options_of(&options, roami_transports[i], values);
			CU_ASSERT(values[at].word > 0);
		}
	}
	CU_ASSERT(found > 0);
	roami_options_default(&options);
	roami_options_of(&options, &unlisted, values);
	CU_ASSERT_EQUAL(values[0].word, 1);
	CU_ASSERT_EQUAL(values[1].number, 7);
	CU_ASSERT_STRING_EQUAL(values[2].text, "here");
	CU_ASSERT(!roami_option_near("ROAM_MINE", &near) ||
		  strcmp(near.variable, "ROAM_MINE") != 0);
}

/*
 * Any number of unknown variables makes a few lines; err_fd -1 prints nothing; an internal variable
 * is never suggested.
 */
static void test_many(void)
{
	struct roami_options options;
	struct roami_option near;
	char names[100][16];
	char *env[101];
	int fd = memfd_create("said", 0);

	for (int i = 0; i < 100; i++) {
		snprintf(names[i], sizeof(names[i]), "ROAM_X%d=1", i);
		env[i] = names[i];
	}
	env[100] = NULL;
	CU_ASSERT_EQUAL(roami_options_read(&options, env, fd), ROAM_OK);
	said[pread(fd, said, sizeof(said) - 1, 0)] = '\0';
	close(fd);
	CU_ASSERT_EQUAL(lines_said(), 9);
	CU_ASSERT_PTR_NOT_NULL(strstr(said, "and 92 more"));
	CU_ASSERT_EQUAL(roami_options_read(&options, env, -1), ROAM_OK);
	CU_ASSERT(!roami_option_near("ROAM_QQQQQQQQQQ", &near));
	CU_ASSERT(!roami_option_near("ROAM_XX", &near));
	CU_ASSERT(!roami_option_near("", &near));
	CU_ASSERT(!roami_option_near("ROAM_BOOT", &near) || !near.internal);
}

/* Random bytes as values crash nothing, and an accepted value is read back the same. */
static void test_random(void)
{
	static const char alphabet[] = "0123456789abxKMGT.-/|onfe \377";
	uint64_t seed = unit_seed();
	struct roami_options options, again;
	struct roami_option option;
	const struct roami_option *o = &option;
	unsigned kinds = 0;

	while (roami_option_at(kinds, &option))
		kinds++;
	for (unsigned round = 0; round < 20000; round++) {
		char env[96], text[64];
		int at;

		roami_option_at((unsigned)unit_below(&seed, kinds), &option);
		at = snprintf(env, sizeof(env), "%s=", o->variable);
		for (uint64_t n = unit_below(&seed, 8); n > 0; n--)
			env[at++] = alphabet[unit_below(&seed, sizeof(alphabet) - 1)];
		env[at] = '\0';
		if (read_env(&options, env, NULL, NULL) != ROAM_OK)
			continue;
		roami_option_show(o, &options, text, sizeof(text));
		snprintf(env, sizeof(env), "%s=%s", o->variable, text);
		CU_ASSERT_EQUAL(read_env(&again, env, NULL, NULL), ROAM_OK);
		CU_ASSERT_EQUAL(memcmp(&again, &options, sizeof(options)), 0);
	}
}

static CU_TestInfo tests[] = {
	{"every default is allowed", test_defaults},
	{"values of every type arrive", test_values},
	{"the first of two counts, an empty one does not", test_twice},
	{"bad values are refused and named", test_refused},
	{"hostile values are printed safely", test_hostile},
	{"misspelt variables are noticed", test_unknown},
	{"options that transports declare are like all others", test_transports},
	{"many unknown variables are few lines", test_many},
	{"random values", test_random},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("options", tests, argc, argv);
}
