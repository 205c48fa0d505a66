/* What a transport promises alone, with no layer over it: conform.c runs these tests. */
#include "conform.h"
#include "onesided.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#define SOON_NS    UINT64_C(2000000000)
#define AGAIN_NS   UINT64_C(50000000) /* after that a message that may be lost is sent again */
#define BRIEFLY_NS UINT64_C(30000000)
#define FLOOD      5000u
#define SPURIOUS   3u /* times that a thread may be woken for what was taken already */

#define must(condition)                                                          \
	do {                                                                     \
		if (!(condition))                                                \
			wrong("%s, line %d: not %s", __func__, __LINE__, #condition); \
	} while (0)

static bool promises(unsigned capability)
{
	return (tested->caps & capability) != 0;
}

static uint32_t longest(void)
{
	size_t limit = tested->limit != NULL ? tested->limit(nodes[0].below_state)
					     : tested->message_max;

	return limit < LONGEST ? (uint32_t)limit : LONGEST;
}

/* Sends a message until it has come; sends it again if it may be lost. */
static void pass(unsigned from, unsigned to, uint32_t bytes)
{
	uint32_t before = nodes[to].got[from];
	uint64_t start = roami_os_now_ns(), again = start;

	send_surely(from, to, bytes);
	while (nodes[to].got[from] == before) {
		uint64_t now = roami_os_now_ns();

		if (now - again > AGAIN_NS && !promises(ROAM_CAP_RELIABLE)) {
			node_send(&nodes[from], to, bytes);
			again = now;
		}
		poll_all();
		if (now - start > PATIENCE_NS)
			wrong("%u bytes never come from %u to %u", bytes, from, to);
	}
}

static void test_sizes(void)
{
	static const uint32_t sizes[] = {16, 17, 64, 65, 576, 1400, 1477, 4096, 4160, 9000, 60000};

	for (unsigned from = 0; from < NODES; from++)
		for (unsigned to = 0; to < NODES; to++)
			for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
				if (from != to && sizes[i] < longest())
					pass(from, to, sizes[i]);
	for (unsigned to = 1; to < NODES; to++)
		pass(0, to, longest());
}

/* Polls node 1 until nothing has come from node 0 for a moment; all that must come, for longer. */
static void flood_take(uint32_t sent)
{
	uint64_t patience = promises(ROAM_CAP_RELIABLE) ? PATIENCE_NS : BRIEFLY_NS;
	uint64_t last = roami_os_now_ns();

	while (nodes[1].got[0] < sent && roami_os_now_ns() - last < patience)
		if (node_poll(&nodes[1], 16) > 0)
			last = roami_os_now_ns();
		else
			node_poll(&nodes[0], 16);
}

/* Nobody polls meanwhile: send() says when there is no room, and goes on when there is again. */
static void test_flood(void)
{
	uint32_t first;

	pass(0, 1, 600);
	first = nodes[0].sent[1];
	nodes[1].disordered = 0;
	nodes[1].got[0] = first;
	while (nodes[0].sent[1] < first + FLOOD && node_send(&nodes[0], 1, 600))
		;
	must(nodes[0].sent[1] > first);
	flood_take(nodes[0].sent[1]);
	must(nodes[1].got[0] > first);
	if (promises(ROAM_CAP_RELIABLE))
		must(nodes[1].got[0] == nodes[0].sent[1]);
	if (promises(ROAM_CAP_RELIABLE) && promises(ROAM_CAP_ORDERED))
		must(nodes[1].disordered == 0);
	must(!tested->pending(nodes[1].below_state));
	for (unsigned i = 0; i < 1000; i++)
		pass(0, 1, 600);
}

static void test_many(void)
{
	struct iovec all[ROAM_SEND_MANY];
	struct message *messages = calloc(ROAM_SEND_MANY, 1000);
	uint64_t start = roami_os_now_ns();
	unsigned taken = 0;

	must(messages != NULL);
	for (unsigned i = 0; tested->send_many != NULL && i < ROAM_SEND_MANY; i++) {
		struct message *message = (void *)((uint8_t *)messages + (size_t)1000 * i);
		uint32_t bytes = i % 3 == 2 ? 992 : 1000;

		*message = (struct message){0, i, bytes, 0};
		message_fill(message, (uint8_t *)(message + 1));
		all[i] = (struct iovec){message, bytes};
	}
	while (tested->send_many != NULL && nodes[2].got[0] < ROAM_SEND_MANY) {
		if (taken < ROAM_SEND_MANY)
			taken += tested->send_many(nodes[0].below_state, 2, all + taken,
						   ROAM_SEND_MANY - taken);
		node_poll(&nodes[2], 16);
		must(roami_os_now_ns() - start < PATIENCE_NS);
	}
	free(messages);
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
	tested->wait(nodes[0].below_state, sleeper->who, sleeper->timeout_ns);
	sleeper->slept_ns = roami_os_now_ns() - start;
	return NULL;
}

/* Sleeps at node 0 until `wake`, a moment later, has an effect; returns how long. */
static uint64_t sleep_until(enum roam_sleeper who, uint64_t timeout_ns, void (*wake)(void))
{
	struct sleeper sleeper = {.who = who, .timeout_ns = timeout_ns};
	pthread_t thread;

	must(pthread_create(&thread, NULL, sleeper_main, &sleeper) == 0);
	while (atomic_load(&sleeper.begins) == 0)
		sched_yield();
	poll(NULL, 0, 3);
	wake();
	pthread_join(thread, NULL);
	return sleeper.slept_ns;
}

static void wake_by_message(void)
{
	send_surely(1, 0, 64);
}

static void wake_app(void)
{
	tested->wake(nodes[0].below_state, ROAM_SLEEPER_APP);
}

static void wake_service(void)
{
	tested->wake(nodes[0].below_state, ROAM_SLEEPER_SERVICE);
}

static void wake_nobody(void)
{
}

/* Whether a thread that nothing wakes sleeps on. */
static bool sleeps_on(enum roam_sleeper who, void (*wake)(void))
{
	for (unsigned i = 0; i <= SPURIOUS; i++)
		if (sleep_until(who, BRIEFLY_NS, wake) >= BRIEFLY_NS / 2)
			return true;
	return false;
}

static void drain(void)
{
	uint64_t start = roami_os_now_ns();

	do
		node_poll(&nodes[0], 16);
	while (roami_os_now_ns() - start < BRIEFLY_NS / 10);
}

/* The nodes know each other, and nothing waits. */
static void settle(void)
{
	pass(1, 0, 64);
	pass(2, 0, 64);
	drain();
}

/*
 * A message wakes a sleeper, wake() wakes only its own one, and nobody sleeps through what has
 * come.
 */
static void test_sleep(void)
{
	if (tested->wait == NULL)
		return;
	settle();
	for (unsigned who = ROAM_SLEEPER_APP; who <= ROAM_SLEEPER_SERVICE; who++) {
		must(sleep_until(who, SOON_NS, wake_by_message) < SOON_NS / 2);
		must(tested->pending(nodes[0].below_state));
		if (tested->file != NULL) /* it is readable as long as the message waits */
			must(sleep_until(who, SOON_NS, wake_nobody) < SOON_NS / 2);
		drain();
		must(!tested->pending(nodes[0].below_state));
		must(sleeps_on(who, wake_nobody));
	}
	must(sleep_until(ROAM_SLEEPER_APP, SOON_NS, wake_app) < SOON_NS / 2);
	must(sleep_until(ROAM_SLEEPER_SERVICE, SOON_NS, wake_service) < SOON_NS / 2);
	must(sleeps_on(ROAM_SLEEPER_APP, wake_service));
	/* A wake before the wait is not lost. */
	must(sleep_until(ROAM_SLEEPER_SERVICE, SOON_NS, wake_nobody) < SOON_NS / 2);
}

/* The service thread hears arrivals only while it listens. */
static void test_listen(void)
{
	if (tested->listen == NULL)
		return;
	settle();
	tested->listen(nodes[0].below_state, false);
	must(sleeps_on(ROAM_SLEEPER_SERVICE, wake_by_message));
	tested->listen(nodes[0].below_state, true);
	must(sleep_until(ROAM_SLEEPER_SERVICE, SOON_NS, wake_nobody) < SOON_NS / 2);
}

/* Its file is readable while messages wait. */
static void test_file(void)
{
	int file = tested->file != NULL ? tested->file(nodes[0].below_state) : -1;
	struct pollfd at = {file, POLLIN, 0};

	if (file < 0)
		return;
	settle();
	must(poll(&at, 1, 0) == 0);
	send_surely(2, 0, 64);
	must(poll(&at, 1, 2000) == 1);
	drain();
	must(poll(&at, 1, 0) == 0);
}

const struct conform_test bare_tests[] = {{"sizes", test_sizes, false},
					  {"flood", test_flood, false},
					  {"many", test_many, false},
					  {"sleep", test_sleep, false},
					  {"listen", test_listen, false},
					  {"file", test_file, false},
					  {"one-sided", test_onesided, true},
					  {NULL, NULL, false}};
