/* The client of PMI-1, with a launcher that says what it should, or what it should not. */
#include "launch/pmi1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#define INIT  "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
#define MAXES "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
#define NAME  "cmd=my_kvsname kvsname=kvs_7\n"
#define PUT   "cmd=put_result rc=0 msg=success\n"
#define OUT   "cmd=barrier_out\n"
#define GET   "cmd=get_result rc=0 msg=success value="
#define START INIT MAXES NAME
#define UPTO  START PUT OUT
#define MINE  "00000003616263" /* "abc" */

static struct roami_blob blobs[2];
static char asked[16384];

/* A job of two nodes whose launcher has said all that it will say. */
static bool talk(struct roami_bound *bound, const char *said, size_t bytes, const char *mine,
		 size_t mine_bytes)
{
	struct roami_pmi1 *pmi = calloc(1, sizeof(*pmi));
	ssize_t got;
	int pair[2];
	bool good;

	memset(bound, 0, sizeof(*bound));
	bound->nodes = 2;
	CU_ASSERT_FATAL(pmi != NULL && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CU_ASSERT_FATAL(write(pair[1], said, bytes) == (ssize_t)bytes);
	shutdown(pair[1], SHUT_WR);
	pmi->fd = pair[0];
	good = roami_pmi1_begin(bound, pmi) &&
	       roami_pmi1_gather(bound, pmi, mine, mine_bytes, blobs);
	close(pair[0]);
	got = read(pair[1], asked, sizeof(asked) - 1);
	asked[got > 0 ? got : 0] = '\0';
	close(pair[1]);
	free(pmi);
	return good;
}

static void test_good(void)
{
	struct roami_bound bound;
	static const char said[] = UPTO GET MINE "\n" GET "0000000278ff\n";

	CU_ASSERT_TRUE_FATAL(talk(&bound, said, sizeof(said) - 1, "abc", 3));
	CU_ASSERT_STRING_EQUAL(asked, "cmd=init pmi_version=1 pmi_subversion=1\n"
				      "cmd=get_maxes\n"
				      "cmd=get_my_kvsname\n"
				      "cmd=put kvsname=kvs_7 key=roam-0-0-0 value=" MINE "\n"
				      "cmd=barrier_in\n"
				      "cmd=get kvsname=kvs_7 key=roam-0-0-0\n"
				      "cmd=get kvsname=kvs_7 key=roam-0-1-0\n");
	CU_ASSERT_EQUAL(blobs[0].bytes, 3);
	CU_ASSERT_EQUAL(memcmp(blobs[0].data, "abc", 3), 0);
	CU_ASSERT_EQUAL(blobs[1].bytes, 2);
	CU_ASSERT_EQUAL(memcmp(blobs[1].data, "x\377", 2), 0);
}

/* Answers with fields in another order, an unknown field, and nothing to exchange. */
static void test_order(void)
{
	struct roami_bound bound;
	static const char said[] = "cmd=response_to_init pmi_subversion=1 pmi_version=1 rc=0\n"
				   "vallen_max=1024 keylen_max=64 cmd=maxes\n"
				   "kvsname=kvs_7 tag=3 cmd=my_kvsname\n"
				   "msg=success rc=0 cmd=put_result\n" OUT
				   "value=00000000 rc=0 cmd=get_result\n" GET "00000000\n";

	CU_ASSERT_TRUE(talk(&bound, said, sizeof(said) - 1, NULL, 0));
	CU_ASSERT_EQUAL(blobs[0].bytes, 0);
}

/* Data longer than a value takes several values. */
static void test_parts(void)
{
	struct roami_bound bound;
	char said[8192] = START, mine[500], more[1024];
	size_t parts[] = {400, 100};

	memset(mine, 'z', sizeof(mine));
	strcat(said, PUT PUT OUT);
	for (unsigned node = 0; node < 2; node++)
		for (unsigned part = 0; part < 2; part++) {
			memset(more, '7', sizeof(more));
			for (size_t i = 1; i < 2 * parts[part]; i += 2)
				more[i] = 'a';
			more[2 * parts[part]] = '\0';
			strcat(strcat(strcat(strcat(said, GET), "000001f4"), more), "\n");
		}
	CU_ASSERT_TRUE_FATAL(talk(&bound, said, strlen(said), mine, sizeof(mine)));
	CU_ASSERT_EQUAL(blobs[1].bytes, sizeof(mine));
	CU_ASSERT_EQUAL(memcmp(blobs[1].data, mine, sizeof(mine)), 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(asked, "key=roam-0-0-1 value=000001f4"));
}

static void wrong(const char *said, size_t bytes, const char *why)
{
	struct roami_bound bound;

	CU_ASSERT_FALSE(talk(&bound, said, bytes, "abc", 3));
	if (strstr(bound.why, why) == NULL)
		printf("%s\n", bound.why);
	CU_ASSERT_PTR_NOT_NULL(strstr(bound.why, why));
}

#define WRONG(said, why) wrong(said, sizeof(said) - 1, why)

static void test_wrong(void)
{
	static char longest[ROAMI_PMI1_LINE + 2];

	WRONG("", "has closed the connection");
	WRONG(INIT "cmd=maxes kvsn", "has closed the connection");
	WRONG("cmd=response_to_init rc=-1 msg=version\n", "refuses");
	WRONG("cmd=init\n", "in place of response_to_init");
	WRONG("\n", "in place of response_to_init");
	WRONG("cmd\n", "in place of response_to_init");
	WRONG(INIT "cmd=maxes vallen_max=63\n", "malformed");
	WRONG(INIT "cmd=maxes vallen_max=-1\n", "malformed");
	WRONG(INIT "cmd=maxes vallen_max=99999999999999999999\n", "malformed");
	WRONG(INIT "cmd=maxes\n", "malformed");
	WRONG(INIT MAXES "cmd=my_kvsname\n", "malformed");
	WRONG(INIT MAXES "cmd=my_kvsname kvsname=\n", "malformed");
	WRONG(START "cmd=put_result rc=-1 msg=duplicate_key\n", "refuses");
	WRONG(START PUT PUT, "in place of barrier_out");
	WRONG("cmd=response_to_init rc=0\0 \n", "malformed line");
	memset(longest, 'x', sizeof(longest));
	wrong(longest, sizeof(longest), "a line too long");
}

static void test_wrong_values(void)
{
	WRONG(UPTO "cmd=get_result rc=-1 msg=key_not_found value=unknown\n", "refuses");
	WRONG(UPTO "cmd=get_result rc=0\n", "malformed");
	WRONG(UPTO GET "0000\n", "malformed");
	WRONG(UPTO GET "00000003\n", "malformed");
	WRONG(UPTO GET "000000036162\n", "malformed");
	WRONG(UPTO GET "0000000361626364\n", "malformed");
	WRONG(UPTO GET "0000000361626G\n", "malformed");
	WRONG(UPTO GET "0000000361626\n", "malformed");
	WRONG(UPTO GET "-0000003616263\n", "malformed");
	WRONG(UPTO GET "ffffffff616263\n", "malformed");
	WRONG(UPTO GET "00001001616263\n", "malformed");
}

static void test_port(void)
{
	static const char *const said[] = {
		"cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=2\ncmd=set debug=0\n",
		"cmd=initack rc=0\ncmd=set rank=4\ncmd=set size=2\ncmd=set debug=0\n",
		"cmd=initack rc=-1\n",
		"cmd=initack rc=0\ncmd=set size=x\n",
	};

	for (unsigned i = 0; i < 4; i++) {
		struct roami_bound bound = {.nodes = 0};
		struct roami_pmi1 pmi = {.round = 0};
		int pair[2];

		CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
		CU_ASSERT_FATAL(write(pair[1], said[i], strlen(said[i])) > 0);
		pmi.fd = pair[0];
		CU_ASSERT_EQUAL(roami_pmi1_ack(&bound, &pmi, 5), i == 0);
		CU_ASSERT_TRUE(i != 0 || (bound.nodes == 4 && bound.me == 2));
		CU_ASSERT_EQUAL(i == 0, bound.why[0] == '\0');
		close(pair[0]);
		close(pair[1]);
	}
}

static CU_TestInfo tests[] = {
	{"a conversation", test_good},
	{"fields in any order", test_order},
	{"long values", test_parts},
	{"garbage", test_wrong},
	{"garbage as values", test_wrong_values},
	{"at a port", test_port},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("pmi1", tests, argc, argv);
}
