/*
 * Bytes that go out by a socket arrive in their order, however much of them it takes at a time; and
 * a flow that is never empty, because the other side is slow, takes no more memory than what waits.
 */
#include "link/flow.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

#define PIECE 1000u
#define WAITS (200u * PIECE)

static uint64_t put, taken; /* bytes */

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 7 + at / 251);
}

static void flow_put(struct roami_flow *flow, size_t bytes)
{
	uint8_t *at = roami_flow_room(flow, bytes);

	CU_ASSERT_FATAL(at != NULL);
	for (size_t i = 0; i < bytes; i++)
		at[i] = byte_at(put++);
	flow->end += bytes;
}

static void taken_check(const uint8_t *bytes, size_t count)
{
	size_t good = 0;

	while (good < count && bytes[good] == byte_at(taken + good))
		good++;
	CU_ASSERT_FATAL(good == count);
	taken += count;
}

/* Without a socket: some bytes always wait. */
static void test_never_empty(void)
{
	struct roami_flow flow = {.bytes = NULL};

	put = taken = 0;
	flow_put(&flow, WAITS);
	for (unsigned turn = 0; turn < 20000; turn++) {
		size_t some = turn % (2 * PIECE);

		if (some >= flow.end - flow.at)
			some = flow.end - flow.at - 1;
		taken_check(flow.bytes + flow.at, some);
		flow.at += some;
		if (put - taken < WAITS)
			flow_put(&flow, turn % 3 * PIECE);
		CU_ASSERT_FATAL(put - taken == flow.end - flow.at && !roami_flow_empty(&flow));
		CU_ASSERT_FATAL(flow.room <= 4 * (WAITS + 3 * PIECE));
	}
	CU_ASSERT(put > 50 * WAITS);
	roami_flow_free(&flow);
	CU_ASSERT(flow.bytes == NULL && roami_flow_empty(&flow));
}

/* What was much is given back. */
static void test_shrinks(void)
{
	struct roami_flow flow = {.bytes = NULL};

	put = 0;
	flow_put(&flow, 1 << 20);
	CU_ASSERT(flow.room >= 1 << 20);
	flow.at = flow.end;
	flow_put(&flow, 10);
	CU_ASSERT(flow.room < 1 << 16 && flow.at == 0 && flow.end == 10);
	roami_flow_free(&flow);
}

static void test_socket(void)
{
	static uint8_t got[100000];
	struct roami_flow flow = {.bytes = NULL};
	int pair[2];

	CU_ASSERT_FATAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	put = taken = 0;
	for (unsigned turn = 0; turn < 300; turn++) {
		ssize_t count;

		flow_put(&flow, 20 * PIECE);
		CU_ASSERT_FATAL(roami_flow_send(&flow, pair[0]));
		count = recv(pair[1], got, turn * 317 % sizeof(got) + 1, MSG_DONTWAIT);
		CU_ASSERT_FATAL(count > 0);
		taken_check(got, (size_t)count);
	}
	while (taken < put) {
		ssize_t count;

		CU_ASSERT_FATAL(roami_flow_send(&flow, pair[0]));
		count = recv(pair[1], got, sizeof(got), MSG_DONTWAIT);
		CU_ASSERT_FATAL(count > 0);
		taken_check(got, (size_t)count);
	}
	CU_ASSERT(roami_flow_empty(&flow));
	close(pair[1]);
	flow_put(&flow, 1);
	CU_ASSERT(!roami_flow_send(&flow, pair[0]));
	close(pair[0]);
	roami_flow_free(&flow);
}

int main(int argc, char **argv)
{
	static CU_TestInfo tests[] = {{"never empty", test_never_empty},
				      {"shrinks", test_shrinks},
				      {"over a socket", test_socket},
				      CU_TEST_INFO_NULL};

	return unit_main("flow", tests, argc, argv);
}
