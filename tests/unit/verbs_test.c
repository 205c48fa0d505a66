/*
 * The verbs transport's share that needs no card: messages, and the connection that carries them.
 */
#include <string.h>

#include "unit.h"
#include "verbs_ends.h"

static void test_messages(void)
{
	ends_open();
	for (unsigned turn = 0; turn < 100 * MESSAGES; turn++) {
		struct end *end = &ends[unit_below(&draw, ENDS)];

		clock_ns += TURN_NS;
		if (unit_below(&draw, 3) == 0)
			end_send(end);
		else
			end_poll(end);
		if (ends[0].delivered == MESSAGES && ends[1].delivered == MESSAGES)
			break;
	}
	CU_ASSERT_EQUAL(ends[0].delivered, MESSAGES);
	CU_ASSERT_EQUAL(ends[1].delivered, MESSAGES);
	CU_ASSERT_EQUAL(lost_count, 0);
}

/* The sender learns of free buffers only by parts that carry no message. */
static void test_one_way(void)
{
	ends_open();
	for (unsigned turn = 0; turn < 100 * MESSAGES && ends[1].delivered < MESSAGES; turn++) {
		clock_ns += TURN_NS;
		end_send(&ends[0]);
		end_poll(&ends[unit_below(&draw, ENDS)]);
	}
	CU_ASSERT_EQUAL(ends[1].delivered, MESSAGES);
}

static void test_silence(void)
{
	uint64_t start;

	ends_open();
	for (start = clock_ns; clock_ns < start + 3 * SECOND; clock_ns += SECOND / 50) {
		end_poll(&ends[0]);
		end_poll(&ends[1]);
	}
	CU_ASSERT_EQUAL(lost_count, 0); /* signs of life have come */
	for (start = clock_ns; lost_count == 0 && clock_ns < start + 3 * SECOND;
	     clock_ns += SECOND / 50)
		end_poll(&ends[0]);
	CU_ASSERT_EQUAL(lost_peer, 1);
	CU_ASSERT(clock_ns - start <= SECOND + SECOND / 10);
}

static void test_broken(void)
{
	ends_open();
	ends[0].fails = true;
	end_send(&ends[0]);
	for (uint64_t start = clock_ns; lost_count == 0 && clock_ns < start + 3 * SECOND;
	     clock_ns += SECOND / 50)
		end_poll(&ends[0]);
	CU_ASSERT_EQUAL(notes, 1);
	CU_ASSERT_EQUAL(lost_peer, 1);
	end_send(&ends[0]); /* as good as lost */
	CU_ASSERT_EQUAL(ends[0].sent, 2);
}

/* Parts that no node sends are their sender's. */
static void test_malformed(void)
{
	static const struct verbs_head heads[] = {
		{1, 0, 2, 0, 0},                 /* more taken than was sent */
		{1, 0, 0, 0, 1},                 /* more puts taken than were sent */
		{VERBS_MESSAGE_MAX + 1, 0, 0, 0, 0}, /* too long a message */
		{0, 0, 0, 0, 0},                 /* bytes of none */
		{1, 1, 0, 0, 0},                 /* a place behind the message's end */
		{9, 8, 0, 0, 0},                 /* the middle of a message first */
		{1, 0, 0, VERBS_WANT, 0},        /* a key, and a message */
		{0, 0, 0, VERBS_WANT, 0},        /* less than a key */
		{0, 0, 0, VERBS_STORE, 0},       /* less than a put */
		{0, 0, 0, VERBS_STORE + 1, 0},   /* something unknown */
	};

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		uint8_t byte = 7;
		struct iovec part = {&byte, 1};
		int bad = -1;

		ends_open();
		CU_ASSERT(roami_transport_verbs.send(&ends[1].verbs, 0, &part, 1) == ROAM_OK);
		memcpy(verbs_out(&ends[1].verbs, &ends[1].verbs.peers[0], 0), &heads[i],
		       sizeof(heads[i]));
		for (unsigned turn = 0; turn < 20 && bad < 0; turn++)
			roami_transport_verbs.poll(&ends[0].verbs, end_take, &ends[0], 1, &bad);
		CU_ASSERT_EQUAL(bad, 1);
		CU_ASSERT_EQUAL(ends[0].delivered, 0);
	}
}

static CU_TestInfo tests[] = {
	{"messages come whole and in order, and no buffer is missing", test_messages},
	{"messages of one node alone come, too", test_one_way},
	{"a peer is lost that gives no sign of life", test_silence},
	{"a connection that fails is named, and its peer lost", test_broken},
	{"malformed parts are refused", test_malformed},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("verbs", tests, argc, argv);
}
