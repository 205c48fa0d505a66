/*
 * The listener for agents: an agent that shows the key is let in, whatever connected before it, and
 * nothing else is.
 */
#include "launch/listener.h"

#include <arpa/inet.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "unit.h"

#define AGENTS 64u
#define SILENT 200u
#define END_NS UINT64_C(20000000000)

static const uint8_t the_key[ROAMI_KEY_BYTES] = "the key of this job";
static const uint8_t no_key[ROAMI_KEY_BYTES] = "the key of another";

struct house {
	struct roami_listener listener;
	uint16_t port;
	struct roami_frame frame;
	uint64_t end;
};

static void house_open(struct house *house)
{
	*house = (struct house){.end = roami_os_now_ns() + END_NS};
	CU_ASSERT_TRUE_FATAL(roami_listener_open(&house->listener, the_key, &house->port));
}

/* Connects to the listener, and says hello as an agent with `key` does. */
static void knock(const struct house *house, struct roami_wire *wire, const uint8_t *key)
{
	struct sockaddr_in there = {.sin_family = AF_INET,
				    .sin_port = htons(house->port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CU_ASSERT_EQUAL_FATAL(connect(fd, (void *)&there, sizeof(there)), 0);
	CU_ASSERT_TRUE_FATAL(roami_wire_open(wire, fd, true, key));
}

/* Takes one turn of at most `ms`; returns the agent that was let in, which is the caller's. */
static struct roami_wire *turn(struct house *house, int ms)
{
	struct pollfd polls[ROAMI_LISTENER_POLLS];

	roami_listener_due(&house->listener);
	roami_listener_polls(&house->listener, polls);
	if (poll(polls, ROAMI_LISTENER_POLLS, ms) <= 0)
		return NULL;
	return roami_listener_turn(&house->listener, polls, &house->frame);
}

static bool house_late(const struct house *house)
{
	return roami_os_now_ns() > house->end;
}

/* Takes turns until the listener's hello has come to `wire`. */
static void greet(struct house *house, struct roami_wire *wire)
{
	struct roami_frame frame;

	while (!wire->keyed && !house_late(house)) {
		CU_ASSERT_PTR_NULL(turn(house, 0));
		roami_wire_receive(wire, &frame);
	}
	CU_ASSERT_TRUE_FATAL(wire->keyed);
}

/*
 * Takes turns until an agent is let in; returns the node that its frame names, AGENTS if none came
 * in time.
 */
static uint32_t let_in(struct house *house)
{
	struct roami_wire *wire = NULL;

	while (wire == NULL && !house_late(house))
		wire = turn(house, 10);
	if (wire == NULL)
		return AGENTS;
	roami_listener_hang_up(wire);
	return house->frame.node;
}

/* All agents of the largest job connect at once, and only then speak. */
static void test_together(void)
{
	static struct roami_wire agents[AGENTS];
	struct house house;
	bool came[AGENTS + 1] = {false};

	house_open(&house);
	for (uint32_t i = 0; i < AGENTS; i++) {
		knock(&house, &agents[i], the_key);
		greet(&house, &agents[i]);
	}
	for (uint32_t i = 0; i < AGENTS; i++)
		CU_ASSERT_TRUE(roami_wire_send(&agents[i], ROAMI_FRAME_HELLO, i, NULL, 0));
	for (uint32_t i = 0; i < AGENTS; i++)
		came[let_in(&house)] = true;
	for (uint32_t i = 0; i < AGENTS; i++) {
		CU_ASSERT_TRUE(came[i]);
		roami_wire_close(&agents[i]);
	}
	roami_listener_shut(&house.listener);
}

/* Strangers that fill the listener and say nothing keep no agent out. */
static void test_silent(void)
{
	struct roami_wire agent;
	struct house house;
	int fds[SILENT];

	house_open(&house);
	for (unsigned i = 0; i < SILENT; i++) {
		struct roami_wire silent;

		knock(&house, &silent, the_key);
		fds[i] = silent.fd;
		CU_ASSERT_PTR_NULL(turn(&house, 1000));
	}
	knock(&house, &agent, the_key);
	greet(&house, &agent);
	CU_ASSERT_TRUE(roami_wire_send(&agent, ROAMI_FRAME_HELLO, 7, NULL, 0));
	CU_ASSERT_EQUAL(let_in(&house), 7);
	roami_wire_close(&agent);
	for (unsigned i = 0; i < SILENT; i++)
		close(fds[i]);
	roami_listener_shut(&house.listener);
}

/* The listener hangs up on a connection with another key. */
static void test_other_key(void)
{
	struct roami_wire other;
	struct roami_frame frame;
	struct house house;
	enum roami_os_got got = ROAMI_OS_NOTHING;

	house_open(&house);
	knock(&house, &other, no_key);
	greet(&house, &other);
	CU_ASSERT_TRUE(roami_wire_send(&other, ROAMI_FRAME_HELLO, 0, NULL, 0));
	while (got == ROAMI_OS_NOTHING && !house_late(&house)) {
		CU_ASSERT_PTR_NULL(turn(&house, 10));
		got = roami_wire_receive(&other, &frame);
	}
	CU_ASSERT_EQUAL(got, ROAMI_OS_LOST);
	roami_wire_close(&other);
	roami_listener_shut(&house.listener);
}

/* A connection that says nothing has three seconds. */
static void test_due(void)
{
	struct roami_wire silent;
	struct house house;
	uint8_t byte;

	house_open(&house);
	CU_ASSERT_EQUAL(roami_listener_due(&house.listener), UINT64_MAX);
	knock(&house, &silent, the_key);
	CU_ASSERT_PTR_NULL(turn(&house, 1000));
	while (roami_listener_due(&house.listener) != UINT64_MAX && !house_late(&house))
		CU_ASSERT_PTR_NULL(turn(&house, 10));
	CU_ASSERT_FALSE(house_late(&house));
	while (recv(silent.fd, &byte, 1, 0) > 0)
		; /* the listener's hello */
	CU_ASSERT_TRUE(recv(silent.fd, &byte, 1, MSG_DONTWAIT) <= 0);
	close(silent.fd);
	roami_listener_shut(&house.listener);
}

static CU_TestInfo tests[] = {
	{"all agents at a time", test_together},
	{"silent strangers", test_silent},
	{"another key", test_other_key},
	{"an agent that takes too long", test_due},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("listener", tests, argc, argv);
}
