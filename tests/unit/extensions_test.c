/*
 * Shows that a node takes any number of extensions, which register as its own rooms do: each has
 * state and message types of its own, the same on all nodes; they open in order and close in
 * reverse order, even if one of them fails to open.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/msg.h"
#include "pastset/job/server.h"
#include "run/open.h"
#include "run/wait.h"
#include "unit.h"

#define NODES 2u
#define BYTES ((size_t)1 << 24)

extern const struct roam_transport roami_transport_shm;

struct job {
	struct roami_options options;
	struct roami_layout layout;
	void *bases[NODES];
	struct roami_real reals[NODES];
	struct roami_node *nodes[NODES];
};

static char story[16]; /* in one test: what was called */
static bool second_fails;

static void tell(char what)
{
	size_t length = strlen(story);

	CU_ASSERT_FATAL(length + 1 < sizeof(story));
	story[length] = what;
}

/* ---------------------------------------------------------------------------------- extensions */

static const char first_name[] = "first", second_name[] = "second";

/* Answers with what the extension's state counts: requests of this type since the node opened. */
static void count(struct roami_node *node, const struct roam_request *request, const char *name)
{
	uint64_t *state = roami_extension(node, name)->state;
	struct roam_part part = {state, sizeof(*state)};

	++*state;
	roami_reply(node, request, &part, 1);
}

static void first_handle(struct roami_node *node, const struct roam_request *request)
{
	count(node, request, first_name);
}

static void second_handle(struct roami_node *node, const struct roam_request *request)
{
	count(node, request, second_name);
}

static enum roam_err first_init(struct roami_node *node, const struct roami_node_params *params)
{
	(void)params;
	CU_ASSERT(*(uint64_t *)roami_extension(node, first_name)->state == 0);
	tell('1');
	return ROAM_OK;
}

static enum roam_err second_init(struct roami_node *node, const struct roami_node_params *params)
{
	(void)node, (void)params;
	tell('2');
	return second_fails ? ROAM_ENOMEM : ROAM_OK;
}

static void first_stop(struct roami_node *node)
{
	(void)node;
	tell('s');
}

static void first_fini(struct roami_node *node)
{
	(void)node;
	tell('a');
}

static void second_fini(struct roami_node *node)
{
	(void)node;
	tell('b');
}

static const struct roam_message first_messages[] = {{"unused", first_handle, 0},
						     {"first", first_handle, 0},
						     {NULL, NULL, 0}};
static const struct roam_message second_messages[] = {{"second", second_handle, 0},
						      {NULL, NULL, 0}};

static const struct roami_room first = {first_name, first_messages, sizeof(uint64_t),
					first_init, first_stop, first_fini};
static const struct roami_room second = {second_name, second_messages, sizeof(uint64_t),
					 second_init, NULL, second_fini};
static const struct roami_room *const extensions[] = {&first, &roami_past_room, &second, NULL};

/* ---------------------------------------------------------------------------------------- nodes */

static void job_failed(struct roami_node *node, const char *text)
{
	fprintf(stderr, "node %u: %s\n", node->me, text);
	abort();
}

static enum roam_err node_open(struct job *job, unsigned me)
{
	struct roami_node_params params = {
		.me = me,
		.nodes = NODES,
		.options = &job->options,
		.env = &roami_env_real,
		.env_state = &job->reals[me],
		.protocol = roami_protocols[0],
		.engine = &roami_fault_plain,
		.transport = &roami_transport_shm,
		.layout = job->layout,
		.bases = job->bases,
		.app = (uint8_t *)job->bases[me] + job->layout.heap,
		.fd = -1,
		.near = UINT64_MAX,
		.extensions = extensions,
	};

	roami_real_init(&job->reals[me], NODES, 1, 20, 0);
	job->reals[me].on_fail = job_failed;
	return roami_node_open(&job->nodes[me], &params);
}

static struct job *job_make(void)
{
	struct job *job = calloc(1, sizeof(*job));

	CU_ASSERT_FATAL(job != NULL);
	memset(story, 0, sizeof(story));
	roami_options_default(&job->options);
	roami_layout_make(&job->layout, BYTES, NODES);
	for (unsigned i = 0; i < NODES; i++) {
		job->bases[i] = roami_os_reserve(job->layout.total);
		CU_ASSERT_FATAL(job->bases[i] != NULL);
	}
	return job;
}

static void job_end(struct job *job)
{
	for (unsigned i = 0; i < NODES; i++) {
		roami_node_close(job->nodes[i]);
		roami_os_unmap(job->bases[i], job->layout.total);
	}
	free(job);
}

static uint64_t ask(struct roami_node *node, const char *name, unsigned message)
{
	unsigned type = roami_extension(node, name)->types + message;
	uint64_t answer = 0;

	CU_ASSERT(roami_msg_call(node, 1, type, NULL, 0, &answer, sizeof(answer)) ==
		  sizeof(answer));
	return answer;
}

static void test_messages(void)
{
	struct job *job = job_make();

	for (unsigned i = 0; i < NODES; i++)
		CU_ASSERT_FATAL(node_open(job, i) == ROAM_OK);
	CU_ASSERT_STRING_EQUAL(story, "1212");
	CU_ASSERT_FATAL(roami_service_start(job->nodes[1]) == ROAM_OK);
	CU_ASSERT(ask(job->nodes[0], first_name, 1) == 1);
	CU_ASSERT(ask(job->nodes[0], second_name, 0) == 1);
	CU_ASSERT(ask(job->nodes[0], second_name, 0) == 2);
	CU_ASSERT(ask(job->nodes[0], first_name, 1) == 2);
	roami_service_stop(job->nodes[1]);
	for (unsigned i = 0; i < NODES; i++)
		for (unsigned type = 0; roami_msg_named(job->nodes[i], type) != NULL; type++)
			CU_ASSERT(roami_msg_named(job->nodes[i], type) ==
					  roami_msg_named(job->nodes[0], type));
	roami_node_stop(job->nodes[0]);
	job_end(job);
	CU_ASSERT_STRING_EQUAL(story, "1212sbaba");
}

static void test_failure(void)
{
	struct job *job = job_make();

	second_fails = true;
	CU_ASSERT(node_open(job, 0) == ROAM_ENOMEM);
	second_fails = false;
	job_end(job);
	CU_ASSERT_STRING_EQUAL(story, "12ba");
}

static CU_TestInfo tests[] = {
	{"three extensions have states and messages of their own", test_messages},
	{"what had opened closes after a failure", test_failure},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("extensions", tests, argc, argv);
}
