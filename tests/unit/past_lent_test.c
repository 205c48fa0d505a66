/*
 * What other nodes say of the records of an element in pages: a node that names a place that it was
 * not told of, or has given back, ends the job with a line that names the node; nothing of the
 * element changes.
 */
#include "pastset/job/server.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static jmp_buf failed;
static struct roami_node *node;
static struct roami_past *past;
static struct roami_element *element;

static uint64_t env_now(struct roami_node *at)
{
	(void)at;
	return 1;
}

__attribute__((noreturn)) static void env_fail(struct roami_node *at, const char *text)
{
	(void)at;
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "node 3 sent a malformed PastSet message"));
	longjmp(failed, 1);
}

static const struct roami_env env = {.now = env_now, .fail = env_fail};

/* Whether a message from node 3 is refused. */
static bool refused(unsigned type, const void *data, size_t bytes)
{
	struct roam_request request = {.type = (uint16_t)type,
				       .from = 3,
				       .origin = 3,
				       .call = type == ROAMI_PAST_OP ? 7 : 0,
				       .bytes = (uint32_t)bytes,
				       .data = data};

	if (setjmp(failed) != 0)
		return true;
	roami_past_room.messages[type].handle(node, &request);
	return false;
}

static bool rele_refused(roami_record record)
{
	struct roami_let_go ask = {.record = record};

	return refused(ROAMI_PAST_RELE, &ask, sizeof(ask));
}

static bool move_refused(roami_record record)
{
	struct {
		struct roami_ask ask;
		roami_record record;
	} message = {{.op = ROAM_PS_MOVE, .flags = ROAMI_ASK_RECORD}, record};

	return refused(ROAMI_PAST_OP, &message, sizeof(message));
}

static roami_record lend(uint32_t to, bool reserved)
{
	struct roami_op op = {.ask = {.op = ROAMI_ASK_RESERVE}};

	CU_ASSERT_FATAL(roami_past_reserve(past, &op, 100));
	roami_past_lend(past, element, &(struct roami_lent){op.record, to, reserved});
	return op.record;
}

static void begin(void)
{
	static struct roami_open_room extensions[2];
	static struct roami_options options = {.ps_memory = 1u << 20};
	struct roami_bind ask = {.heap_bytes = 1u << 20, .name_bytes = 1, .template_bytes = 4};
	struct roami_ps_bound answer;

	node = calloc(1, sizeof(*node));
	past = calloc(1, sizeof(struct roami_past_job));
	CU_ASSERT_FATAL(node != NULL && past != NULL);
	node->env = &env;
	node->options = &options;
	node->nodes = 4;
	extensions[0] = (struct roami_open_room){.state = past, .room = &roami_past_room};
	node->extensions = extensions;
	CU_ASSERT_EQUAL_FATAL(roami_past_room.init(node, NULL), ROAM_OK);
	roami_name_bind(past, &ask, "eu8[]", &answer);
	CU_ASSERT_EQUAL_FATAL(answer.err, ROAM_OK);
	element = roami_past_element(past, answer.element);
}

static void end(void)
{
	roami_past_room.fini(node);
	free(past);
	free(node);
}

static void test_lent(void)
{
	roami_record mine, other, held;

	begin();
	mine = lend(3, true);
	other = lend(2, true);
	held = lend(3, false);
	CU_ASSERT(rele_refused(0) && rele_refused(UINT64_MAX) && rele_refused(mine + 8));
	CU_ASSERT(rele_refused(other) && move_refused(other) && move_refused(held));
	CU_ASSERT(move_refused(mine + 4096) && move_refused(0));
	CU_ASSERT_EQUAL(element->tuples.last, 0);
	CU_ASSERT_EQUAL(element->lent.count, 3);
	CU_ASSERT_FALSE(rele_refused(mine));
	CU_ASSERT_TRUE(rele_refused(mine) && move_refused(mine));
	CU_ASSERT_FALSE(rele_refused(held));
	CU_ASSERT_TRUE(rele_refused(held));
	CU_ASSERT_EQUAL(element->lent.count, 1);
	end();
}

static CU_TestInfo tests[] = {{"records lent", test_lent}, CU_TEST_INFO_NULL};

int main(int argc, char **argv)
{
	return unit_main("past_lent", tests, argc, argv);
}
