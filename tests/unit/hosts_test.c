/* Lists of hosts and hostfiles, in all dialects; a bad one is refused with its line. */
#include "roam_hosts.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

/* Formats hosts as names and slots: "a:2 b:0". */
static const char *shown(const struct hosts *hosts)
{
	static char text[4096];
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < hosts->count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s:%u",
					 i > 0 ? " " : "", hosts->entries[i].name,
					 hosts->entries[i].slots);
	return text;
}

static void list_is(const char *text, const char *wanted)
{
	struct hosts hosts = {0};

	CU_ASSERT_TRUE(hosts_parse_list(&hosts, text));
	CU_ASSERT_STRING_EQUAL(shown(&hosts), wanted);
}

static void file_is(const char *text, const char *wanted)
{
	struct hosts hosts = {0};

	CU_ASSERT_TRUE(hosts_parse_file(&hosts, "file", text, strlen(text)));
	CU_ASSERT_STRING_EQUAL(shown(&hosts), wanted);
}

static void list_wrong(const char *text, const char *why)
{
	struct hosts hosts = {0};

	CU_ASSERT_FALSE(hosts_parse_list(&hosts, text));
	CU_ASSERT_PTR_NOT_NULL(strstr(hosts.why, why));
}

static void file_wrong(const char *text, const char *why)
{
	struct hosts hosts = {0};

	CU_ASSERT_FALSE(hosts_parse_file(&hosts, "file", text, strlen(text)));
	CU_ASSERT_PTR_NOT_NULL(strstr(hosts.why, why));
}

static void test_lists(void)
{
	list_is("a", "a:0");
	list_is("a,b:4", "a:0 b:4");
	list_is("me@10.0.0.1:2,node-7.example.org", "me@10.0.0.1:2 node-7.example.org:0");
	list_is("n[1-3]:2", "n1:2 n2:2 n3:2");
	list_is("n[01-03,7],m5", "n01:0 n02:0 n03:0 n7:0 m5:0");
	list_is("r[1-2]n[8-10].x", "r1n8.x:0 r1n9.x:0 r1n10.x:0 r2n8.x:0 r2n9.x:0 r2n10.x:0");
	list_is("n[099-101]", "n099:0 n100:0 n101:0");
	list_is("a:2,a:3,b,b", "a:5 b:2");
}

static void test_bad_lists(void)
{
	list_wrong("", "a host name is missing");
	list_wrong("a,,b", "a host name is missing");
	list_wrong("a,", "a host name is missing");
	list_wrong("-oProxyCommand=x", "is not a host name");
	list_wrong("a b", "follows a host");
	list_wrong("a;b", "follows a host");
	list_wrong("a:", "a number of nodes is missing");
	list_wrong("a:0", "1 to 64");
	list_wrong("a:65", "1 to 64");
	list_wrong("a:4x", "follows a host");
	list_wrong("n[1-", "no closing bracket");
	list_wrong("n[3-1]", "not a range");
	list_wrong("n[]", "not a range");
	list_wrong("n[1,]", "not a range");
	list_wrong("n[a-b]", "not a range");
	list_wrong("n[1-99999999999]", "not a range");
	list_wrong("n[0-70]", "not a range");
	list_wrong("n[1-60],m[1-60]", "more than 64 hosts");
	list_wrong("n[1][1][1][1][1][1][1][1][1]", "too many");
}

static void test_files(void)
{
	file_is("a\nb:4\nc slots=2\nd x3\n", "a:0 b:4 c:2 d:3");
	file_is("# all of them\n\n  a slots=2 max_slots=4  # the big one\r\n\tb\n", "a:2 b:0");
	file_is("n[01-02] slots=2\nlast", "n01:2 n02:2 last:0");
}

static void test_bad_files(void)
{
	file_wrong("a\nb c\n", "file:2: \"c\" follows a host");
	file_wrong("a\n\n# x\nb slots=0\n", "file:4: ");
	file_wrong("a slots=two\n", "file:1: a number of nodes is missing");
	file_wrong("a\nb,c\n", "file:2: \",c\" follows a host");
	file_wrong("a\nn[1-\n", "file:2: ");
	file_wrong("# none\n", "file: no hosts in it");
	file_wrong("", "file: no hosts in it");
}

static void test_bytes(void)
{
	static char text[3000];
	struct hosts hosts = {0};

	memset(text, 'a', sizeof(text));
	CU_ASSERT_FALSE(hosts_parse_file(&hosts, "file", text, sizeof(text)));
	CU_ASSERT_PTR_NOT_NULL(strstr(hosts.why, "file:1: not a line of text"));
	memcpy(text, "a\nb\0c\n", 6);
	memset(&hosts, 0, sizeof(hosts));
	CU_ASSERT_FALSE(hosts_parse_file(&hosts, "file", text, 6));
	CU_ASSERT_PTR_NOT_NULL(strstr(hosts.why, "file:2: not a line of text"));
	memset(text, 'a', 300);
	text[300] = '\0';
	list_wrong(text, "too long");
}

/* "4 4": the number of nodes of each host that got some; NULL: there is no room. */
static void share_is(const char *list, unsigned nodes, const char *wanted)
{
	struct hosts hosts = {0};
	char text[256] = "";
	size_t used = 0;

	CU_ASSERT_TRUE(hosts_parse_list(&hosts, list));
	CU_ASSERT_EQUAL(hosts_share(&hosts, nodes), wanted != NULL);
	for (unsigned i = 0; i < hosts.count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u", i > 0 ? " " : "",
					 hosts.entries[i].nodes);
	if (wanted != NULL)
		CU_ASSERT_STRING_EQUAL(text, wanted);
}

static void test_share(void)
{
	share_is("a,b:4", 8, "4 4");
	share_is("a,b", 5, "3 2");
	share_is("a,b,c", 7, "3 2 2");
	share_is("a:2,b:2", 3, "2 1");
	share_is("a:4,b:2", 3, "3");
	share_is("a,b,c", 2, "1 1");
	share_is("a:3,b,c", 5, "3 1 1");
	share_is("a:2,b:2", 5, NULL);
	share_is("a:64", 64, "64");
}

static CU_TestInfo tests[] = {
	{"lists", test_lists},
	{"bad lists", test_bad_lists},
	{"hostfiles", test_files},
	{"bad hostfiles", test_bad_files},
	{"strange bytes", test_bytes},
	{"sharing nodes out", test_share},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("hosts", tests, argc, argv);
}
