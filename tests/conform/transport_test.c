/*
 * All transports of the build keep the same promises (roam/transport.h): three nodes of one process
 * exchange messages of every size, flood each other, sleep and are woken.  What a transport does
 * not promise, such as that messages arrive, is not tested.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/transports.h"
#include "os/os.h"
#include "unit.h"

#define NODES      3u
#define RING       ((size_t)1 << 20) /* of a node's memory, for transports that need it */
#define SIZE_MAX_  (64u * 1024)
#define SOON_NS    UINT64_C(2000000000)
#define AGAIN_NS   UINT64_C(50000000) /* after that a message that may be lost is sent again */
#define BRIEFLY_NS UINT64_C(30000000)

struct side {
	void *state;
	uint64_t arrived[NODES]; /* messages of each */
	uint32_t last[NODES];    /* number of the last message */
	size_t bytes;
	bool disordered, spoiled;
};

static const struct roam_transport *tested;
static struct side sides[NODES];
static struct roam_transport_memory memory[NODES];
static struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX];
static uint8_t message[SIZE_MAX_];

static uint64_t rig_now(void *arg)
{
	(void)arg;
	return roami_os_now_ns();
}

static uint8_t message_byte(uint32_t number, size_t at)
{
	return (uint8_t)(number * 31 + at * 7 + at / 256);
}

static size_t rig_limit(void)
{
	size_t limit = tested->message_max;

	if (tested->limit != NULL)
		limit = tested->limit(sides[0].state);
	return limit;
}

static bool rig_open(void)
{
	struct roami_options options;

	roami_options_default(&options);
	roami_options_of(&options, tested, values);
	memset(sides, 0, sizeof(sides));
	for (unsigned i = 0; i < NODES; i++) {
		size_t bytes = (tested->caps & ROAM_CAP_MAPPED) != 0 ? RING : ROAM_CARD_BYTES;

		memory[i] = (struct roam_transport_memory){aligned_alloc(4096, RING), bytes};
		memset(memory[i].base, 0, RING);
		sides[i].state = aligned_alloc(64, (tested->state_size + 64) & ~(size_t)63);
		memset(sides[i].state, 0, tested->state_size);
	}
	for (unsigned i = 0; i < NODES; i++) {
		struct roam_transport_params params = {.node = i,
						       .nodes = NODES,
						       .memory = memory,
						       .now = rig_now,
						       .options = values};

		if (tested->open(sides[i].state, &params) != ROAM_OK)
			return false;
	}
	return true;
}

static void rig_close(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		tested->close(sides[i].state);
		free(sides[i].state);
	}
	for (unsigned i = 0; i < NODES; i++)
		free(memory[i].base);
}

static bool rig_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct side *side = arg;
	uint32_t number;

	side->bytes = bytes;
	if (from >= NODES || bytes < sizeof(number) || (uintptr_t)data % 8 != 0) {
		side->spoiled = true;
		return true;
	}
	memcpy(&number, data, sizeof(number));
	for (size_t at = sizeof(number); at < bytes; at++)
		side->spoiled = side->spoiled ||
				((const uint8_t *)data)[at] != message_byte(number, at);
	side->disordered = side->disordered ||
			   (side->arrived[from] > 0 && number != side->last[from] + 1);
	side->arrived[from]++;
	side->last[from] = number;
	return true;
}

static unsigned rig_poll(unsigned node)
{
	int bad = -1;
	unsigned taken = tested->poll(sides[node].state, rig_deliver, &sides[node], 16, &bad);

	CU_ASSERT_EQUAL(bad, -1);
	return taken;
}

static void message_make(uint32_t number, size_t bytes)
{
	for (size_t at = 0; at < bytes; at++)
		message[at] = message_byte(number, at);
	memcpy(message, &number, sizeof(number));
}

/* Sends a message in three parts, one of them empty. */
static bool rig_send(unsigned from, unsigned to, uint32_t number, size_t bytes)
{
	struct iovec parts[3] = {{message, bytes / 3},
				 {message, 0},
				 {message + bytes / 3, bytes - bytes / 3}};

	message_make(number, bytes);
	return tested->send(sides[from].state, to, parts, 3) == ROAM_OK;
}

/* Waits until a message has come; sends it again if it may be lost. */
static bool rig_await(unsigned from, unsigned to, uint32_t number, size_t bytes)
{
	uint64_t before = sides[to].arrived[from], start = roami_os_now_ns(), again = start, now;

	do {
		now = roami_os_now_ns();
		if (now - again > AGAIN_NS && (tested->caps & ROAM_CAP_RELIABLE) == 0) {
			rig_send(from, to, number, bytes);
			again = now;
		}
		rig_poll(to);
		rig_poll(from);
	} while ((sides[to].arrived[from] == before || sides[to].last[from] != number) &&
		 now - start < SOON_NS); /* a message that was sent again before can still arrive */
	return sides[to].arrived[from] > before && sides[to].last[from] == number &&
	       sides[to].bytes == bytes;
}

/* ---------------------------------------------------------------------------------------- cases */

static void case_sizes(void)
{
	static const size_t sizes[] = {8, 9, 64, 65, 576, 1400, 1477, 4096, 4160, 9000, 60000};
	uint32_t number = 0;

	for (unsigned from = 0; from < NODES; from++)
		for (unsigned to = 0; to < NODES; to++)
			for (unsigned i = 0; i <= sizeof(sizes) / sizeof(sizes[0]); i++) {
				size_t bytes = rig_limit();

				if (i < sizeof(sizes) / sizeof(sizes[0]))
					bytes = sizes[i];
				if (from == to || bytes > rig_limit())
					continue;
				CU_ASSERT(rig_send(from, to, ++number, bytes));
				CU_ASSERT(rig_await(from, to, number, bytes));
			}
	for (unsigned i = 0; i < NODES; i++)
		CU_ASSERT(!sides[i].spoiled);
}

/*
 * Nobody polls meanwhile: send() reports when there is no room, and goes on when there is room
 * again.
 */
static void case_flood(void)
{
	uint32_t sent = 0, number = 1000;
	uint64_t start;

	while (sent < 5000 && rig_send(0, 1, sent, 600))
		sent++;
	CU_ASSERT(sent >= 16);
	start = roami_os_now_ns();
	while (sides[1].arrived[0] < sent && roami_os_now_ns() - start < BRIEFLY_NS) {
		uint64_t before = sides[1].arrived[0];

		rig_poll(1);
		if (sides[1].arrived[0] > before)
			start = roami_os_now_ns();
	}
	if ((tested->caps & ROAM_CAP_RELIABLE) != 0)
		CU_ASSERT_EQUAL(sides[1].arrived[0], sent);
	if ((tested->caps & ROAM_CAP_ORDERED) != 0)
		CU_ASSERT(!sides[1].disordered);
	CU_ASSERT(sides[1].arrived[0] >= 16);
	CU_ASSERT(!sides[1].spoiled);
	CU_ASSERT(!tested->pending(sides[1].state));
	for (unsigned i = 0; i < 1000; i++, number++) {
		CU_ASSERT(rig_send(0, 1, number, 600));
		CU_ASSERT(rig_await(0, 1, number, 600));
	}
}

static void case_many(void)
{
	struct iovec all[ROAM_SEND_MANY];
	uint64_t start = roami_os_now_ns();
	unsigned taken = 0;

	if (tested->send_many == NULL)
		return;
	message_make(7, 1000);
	for (unsigned i = 0; i < ROAM_SEND_MANY; i++)
		all[i] = (struct iovec){message, i % 3 == 2 ? 992 : 1000};
	while (taken < ROAM_SEND_MANY && roami_os_now_ns() - start < SOON_NS) {
		taken += tested->send_many(sides[0].state, 2, all + taken, ROAM_SEND_MANY - taken);
		rig_poll(2);
	}
	CU_ASSERT_EQUAL(taken, ROAM_SEND_MANY);
	while (sides[2].arrived[0] < ROAM_SEND_MANY && roami_os_now_ns() - start < SOON_NS)
		rig_poll(2);
	CU_ASSERT_EQUAL(sides[2].arrived[0], ROAM_SEND_MANY);
	CU_ASSERT(!sides[2].spoiled);
}

/* ------------------------------------------------------------------------------------- sleeping */

struct sleeper {
	enum roam_sleeper who;
	uint64_t timeout_ns;
	_Atomic uint32_t begins;
	uint64_t slept_ns;
};

static void *sleeper_main(void *arg)
{
	struct sleeper *sleeper = arg;
	uint64_t start = roami_os_now_ns();

	atomic_store(&sleeper->begins, 1);
	tested->wait(sides[0].state, sleeper->who, sleeper->timeout_ns);
	sleeper->slept_ns = roami_os_now_ns() - start;
	return NULL;
}

/* Sleeps at node 0 until `wake`, a moment later, has an effect; returns how long. */
static uint64_t sleep_until(enum roam_sleeper who, uint64_t timeout_ns, void (*wake)(void))
{
	struct sleeper sleeper = {.who = who, .timeout_ns = timeout_ns};
	pthread_t thread;

	pthread_create(&thread, NULL, sleeper_main, &sleeper);
	while (atomic_load(&sleeper.begins) == 0)
		sched_yield();
	poll(NULL, 0, 3);
	wake();
	pthread_join(thread, NULL);
	return sleeper.slept_ns;
}

static void wake_by_message(void)
{
	rig_send(1, 0, 1, 64);
}

static void wake_app(void)
{
	tested->wake(sides[0].state, ROAM_SLEEPER_APP);
}

static void wake_service(void)
{
	tested->wake(sides[0].state, ROAM_SLEEPER_SERVICE);
}

static void wake_nobody(void)
{
}

static void drain(void)
{
	uint64_t start = roami_os_now_ns();

	while (roami_os_now_ns() - start < BRIEFLY_NS / 10)
		rig_poll(0);
}

/*
 * A message wakes a sleeper, wake() wakes only its own one, and nobody sleeps through what has
 * come.
 */
static void case_sleep(void)
{
	if (tested->wait == NULL)
		return;
	for (unsigned who = ROAM_SLEEPER_APP; who <= ROAM_SLEEPER_SERVICE; who++) {
		CU_ASSERT(sleep_until(who, SOON_NS, wake_by_message) < SOON_NS / 2);
		CU_ASSERT(tested->pending(sides[0].state));
		CU_ASSERT(sleep_until(who, SOON_NS, wake_nobody) < SOON_NS / 2);
		drain();
		CU_ASSERT(!tested->pending(sides[0].state));
		CU_ASSERT(sleep_until(who, BRIEFLY_NS, wake_nobody) >= BRIEFLY_NS / 2);
	}
	CU_ASSERT(sleep_until(ROAM_SLEEPER_APP, SOON_NS, wake_app) < SOON_NS / 2);
	CU_ASSERT(sleep_until(ROAM_SLEEPER_SERVICE, SOON_NS, wake_service) < SOON_NS / 2);
	CU_ASSERT(sleep_until(ROAM_SLEEPER_APP, BRIEFLY_NS, wake_service) >= BRIEFLY_NS / 2);
	/* A wake before the wait is not lost. */
	CU_ASSERT(sleep_until(ROAM_SLEEPER_SERVICE, SOON_NS, wake_nobody) < SOON_NS / 2);
}

/* The service thread hears arrivals only while it listens. */
static void case_listen(void)
{
	if (tested->listen == NULL)
		return;
	tested->listen(sides[0].state, false);
	CU_ASSERT(sleep_until(ROAM_SLEEPER_SERVICE, BRIEFLY_NS, wake_by_message) >= BRIEFLY_NS / 2);
	tested->listen(sides[0].state, true);
	CU_ASSERT(sleep_until(ROAM_SLEEPER_SERVICE, SOON_NS, wake_nobody) < SOON_NS / 2);
	drain();
}

static void case_file(void)
{
	int file = tested->file != NULL ? tested->file(sides[0].state) : -1;
	struct pollfd at = {file, POLLIN, 0};

	if (file < 0)
		return;
	CU_ASSERT_EQUAL(poll(&at, 1, 0), 0);
	rig_send(2, 0, 1, 64);
	CU_ASSERT_EQUAL(poll(&at, 1, 2000), 1);
	drain();
	CU_ASSERT_EQUAL(poll(&at, 1, 0), 0);
}

/* Runs every case, each on nodes of its own, over each transport that works here. */
static void each_transport(void (*body)(void))
{
	char why[256];

	for (unsigned i = 0; roami_transports[i] != NULL; i++) {
		tested = roami_transports[i];
		if (!roami_transport_works(tested, NULL, why, sizeof(why))) {
			unit_skip(tested->name, why);
			continue;
		}
		CU_ASSERT_FATAL(rig_open());
		body();
		rig_close();
	}
}

#define CASE(name)                         \
	static void test_##name(void)      \
	{                                  \
		each_transport(case_##name); \
	}

CASE(sizes)
CASE(flood)
CASE(many)
CASE(sleep)
CASE(listen)
CASE(file)

static CU_TestInfo tests[] = {
	{"messages of every size arrive as they were", test_sizes},
	{"a full transport says so, and goes on", test_flood},
	{"many messages at once", test_many},
	{"sleepers are woken", test_sleep},
	{"the service thread listens, or does not", test_listen},
	{"its file is readable while messages wait", test_file},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("transport", tests, argc, argv);
}
