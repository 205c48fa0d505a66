/*
 * How nodes connect over the verbs transport, without a card: all of the transport, with its
 * connecting threads, over the connection manager and the cards of verbs_fake.c.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "transport/verbs.h"
#include "unit.h"
#include "verbs_fake.h"

#define NODES    3u
#define SECOND   UINT64_C(1000000000)
#define WAIT_NS  (5 * SECOND) /* for what needs milliseconds */
#define MESSAGES 300u
#define LONGEST  20000u

extern const struct roam_transport roami_transport_verbs;

struct message {
	uint32_t number;
	uint32_t bytes;
};

struct node {
	unsigned me;
	struct verbs_state *verbs; /* NULL: closed */
	uint32_t sent[NODES], got[NODES];
	unsigned strangers, lost, notices;
};

static struct node nodes[NODES];
static struct verbs_card cards[NODES];
static struct roam_transport_memory memory[NODES];
static uint64_t draw, ahead_ns;
static struct fake_counts before;
static int helpers;

static uint64_t node_now(void *arg)
{
	(void)arg;
	return roami_os_now_ns() + __atomic_load_n(&ahead_ns, __ATOMIC_RELAXED);
}

static void node_lost(void *arg, unsigned peer, uint64_t silent_ns)
{
	struct node *node = arg;

	CU_ASSERT(peer != node->me && silent_ns > 0);
	node->lost++;
}

static void node_stranger(void *arg)
{
	((struct node *)arg)->strangers++;
}

static void node_notice(void *arg, const char *line)
{
	CU_ASSERT(strstr(line, "failed") != NULL);
	((struct node *)arg)->notices++;
}

static void node_helper(void *arg, int change)
{
	(void)arg;
	helpers += change;
}

static void node_open(unsigned me, unsigned count, uint64_t deadline_ns)
{
	struct node *node = &nodes[me];
	struct roam_transport_params params = {.node = me,
					       .nodes = count,
					       .memory = memory,
					       .now = node_now,
					       .now_arg = node,
					       .address = FAKE_ADDRESS,
					       .deadline_ns = deadline_ns,
					       .lost = node_lost,
					       .stranger = node_stranger,
					       .notice = node_notice,
					       .helper = node_helper};

	*node = (struct node){.me = me};
	node->verbs = calloc(1, roami_transport_verbs.state_size);
	CU_ASSERT_FATAL(node->verbs != NULL);
	CU_ASSERT_EQUAL_FATAL(roami_transport_verbs.open(node->verbs, &params), ROAM_OK);
}

static void node_close(struct node *node)
{
	if (node->verbs != NULL)
		roami_transport_verbs.close(node->verbs);
	free(node->verbs);
	node->verbs = NULL;
}

static void begin(void)
{
	draw = unit_seed();
	before = fake_counts();
	memset(cards, 0, sizeof(cards));
	memset(nodes, 0, sizeof(nodes));
	for (unsigned i = 0; i < NODES; i++)
		memory[i] = (struct roam_transport_memory){&cards[i], sizeof(cards[i])};
}

static void open_all(unsigned count)
{
	begin();
	for (unsigned i = 0; i < count; i++)
		node_open(i, count, 0);
}

/* Nothing is left, and no rule of the card or of the manager was broken. */
static void close_all(void)
{
	struct fake_counts now;

	for (unsigned i = 0; i < NODES; i++)
		node_close(&nodes[i]);
	now = fake_counts();
	CU_ASSERT_EQUAL(now.objects, 0);
	CU_ASSERT_EQUAL(now.early, 0);
	CU_ASSERT_EQUAL(now.missing, 0);
	CU_ASSERT_EQUAL(now.unacked, 0);
	CU_ASSERT_EQUAL(helpers, 0);
}

/* Each message comes once, in order, whole. */
static bool node_take(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct node *node = arg;
	struct message head;

	if (unit_below(&draw, 8) == 0)
		return false;
	CU_ASSERT_FATAL(bytes >= sizeof(head));
	memcpy(&head, data, sizeof(head));
	CU_ASSERT_EQUAL_FATAL(head.number, node->got[from]);
	CU_ASSERT_EQUAL_FATAL(head.bytes, bytes);
	for (size_t i = sizeof(head); i < bytes; i++)
		CU_ASSERT_FATAL(((const uint8_t *)data)[i] == (uint8_t)(head.number + i));
	node->got[from]++;
	return true;
}

static bool node_send(struct node *node, unsigned to, uint32_t bytes)
{
	static uint8_t text[LONGEST];
	struct message head = {node->sent[to], bytes};
	struct iovec part = {text, bytes};
	enum roam_err err;

	for (size_t i = sizeof(head); i < bytes; i++)
		text[i] = (uint8_t)(head.number + i);
	memcpy(text, &head, sizeof(head));
	err = roami_transport_verbs.send(node->verbs, to, &part, 1);
	CU_ASSERT_FATAL(err == ROAM_OK || err == ROAM_EAGAIN);
	node->sent[to] += err == ROAM_OK;
	return err == ROAM_OK;
}

static void poll_all(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		int bad = -1;

		if (nodes[i].verbs == NULL)
			continue;
		roami_transport_verbs.poll(nodes[i].verbs, node_take, &nodes[i], 4, &bad);
		CU_ASSERT_EQUAL_FATAL(bad, -1);
	}
}

/* Polls until the expression has the value. */
#define AWAIT(expression, value)                                                               \
	do {                                                                                   \
		uint64_t await_until = roami_os_now_ns() + WAIT_NS;                            \
		bool await_done = false;                                                       \
                                                                                               \
		while (!await_done && roami_os_now_ns() < await_until) {                       \
			poll_all();                                                            \
			await_done = (expression) == (value);                                  \
			if (!await_done)                                                       \
				usleep(50);                                                    \
		}                                                                              \
		CU_ASSERT_FATAL(await_done);                                                   \
	} while (0)

/* Waits until two nodes are connected; nobody polls. */
static void await_ready(void)
{
	uint64_t until = roami_os_now_ns() + WAIT_NS;

	while ((atomic_load(&nodes[0].verbs->peers[1].at) != VERBS_READY ||
		atomic_load(&nodes[1].verbs->peers[0].at) != VERBS_READY) &&
	       roami_os_now_ns() < until)
		usleep(50);
	CU_ASSERT_FATAL(roami_os_now_ns() < until);
}

/* ------------------------------------------------------------------------------------ the tests */

static void test_first(void)
{
	open_all(2);
	CU_ASSERT(!node_send(&nodes[0], 1, 100)); /* begins a connection */
	AWAIT(node_send(&nodes[0], 1, 100), true);
	AWAIT(nodes[1].got[0], 1);
	AWAIT(node_send(&nodes[1], 0, LONGEST), true); /* by the same one */
	AWAIT(nodes[0].got[1], 1);
	CU_ASSERT(nodes[0].verbs->peers[1].began && !nodes[1].verbs->peers[0].began);
	CU_ASSERT_EQUAL(fake_counts().requests - before.requests, 1);
	CU_ASSERT_EQUAL(nodes[0].verbs->peers[1].theirs, nodes[1].verbs->buffers);
	CU_ASSERT_EQUAL(nodes[1].verbs->peers[0].theirs, nodes[0].verbs->buffers);
	close_all();
}

static void test_both(void)
{
	open_all(2);
	fake_hold(true);
	CU_ASSERT(!node_send(&nodes[0], 1, 100) && !node_send(&nodes[1], 0, 100));
	AWAIT(fake_held(), 2);
	fake_hold(false);
	await_ready(); /* only then do nodes hear of the attempt that was given up */
	AWAIT(node_send(&nodes[0], 1, 100), true);
	AWAIT(node_send(&nodes[1], 0, 100), true);
	AWAIT(nodes[1].got[0], 1);
	AWAIT(nodes[0].got[1], 1);
	CU_ASSERT_EQUAL(fake_counts().requests - before.requests, 2);
	CU_ASSERT_EQUAL(fake_counts().rejected - before.rejected, 1);
	CU_ASSERT_EQUAL(fake_counts().accepted - before.accepted, 1);
	CU_ASSERT(nodes[0].verbs->peers[1].began && !nodes[1].verbs->peers[0].began);
	CU_ASSERT_EQUAL(nodes[0].strangers + nodes[1].strangers, 0);
	close_all();
}

/* The first messages arrive before the node that has accepted hears of the connection. */
static void test_early(void)
{
	open_all(2);
	fake_hold(true);
	CU_ASSERT(!node_send(&nodes[0], 1, 100));
	for (unsigned step = 0; step < 2; step++) { /* the request, and the answer */
		AWAIT(fake_held(), 1);
		fake_pass();
	}
	AWAIT(fake_held(), 1);
	while (node_send(&nodes[0], 1, 100))
		;
	AWAIT(nodes[1].got[0], nodes[0].sent[1]);
	CU_ASSERT(nodes[1].got[0] > 1 && !node_send(&nodes[0], 1, 100)); /* nothing says of room */
	fake_hold(false);
	AWAIT(node_send(&nodes[0], 1, 100), true);
	AWAIT(nodes[1].got[0], nodes[0].sent[1]);
	close_all();
}

/* An answer that is not the peer's ends the attempt; the next one is made. */
static void test_answers(void)
{
	static const struct {
		size_t at;
		uint8_t byte;
	} spoilt[] = {{offsetof(struct verbs_hello, magic), 'R'},
		      {offsetof(struct verbs_hello, from), 2},
		      {offsetof(struct verbs_hello, buffers), 255}};

	for (size_t i = 0; i <= sizeof(spoilt) / sizeof(spoilt[0]); i++) {
		open_all(NODES);
		if (i == sizeof(spoilt) / sizeof(spoilt[0]))
			fake_spoil(offsetof(struct verbs_hello, mark),
				   (uint8_t)~atomic_load(&cards[0].mark));
		else
			fake_spoil((unsigned)spoilt[i].at, spoilt[i].byte);
		AWAIT(node_send(&nodes[0], 1, 100), true);
		AWAIT(nodes[1].got[0], 1);
		CU_ASSERT_EQUAL(fake_counts().requests - before.requests, 2);
		close_all();
	}
}

/* What a node sends to itself has a limit, too. */
static void test_itself(void)
{
	open_all(2);
	while (node_send(&nodes[0], 0, LONGEST))
		CU_ASSERT_FATAL(nodes[0].sent[0] * LONGEST <= VERBS_OWN);
	CU_ASSERT(nodes[0].sent[0] > 1);
	AWAIT(nodes[0].got[0], nodes[0].sent[0]);
	AWAIT(node_send(&nodes[0], 0, LONGEST), true);
	AWAIT(nodes[0].got[0], nodes[0].sent[0]);
	close_all();
}

static void test_late(void)
{
	begin();
	node_open(0, 2, 0);
	for (unsigned i = 0; i < 50; i++) {
		CU_ASSERT(!node_send(&nodes[0], 1, 100));
		usleep(200);
	}
	CU_ASSERT_EQUAL(fake_counts().requests - before.requests, 0);
	node_open(1, 2, 0);
	AWAIT(node_send(&nodes[0], 1, 100), true);
	AWAIT(nodes[1].got[0], 1);
	close_all();
}

/* Nobody asks a node that has closed. */
static void test_closed(void)
{
	open_all(2);
	node_close(&nodes[1]);
	for (unsigned i = 0; i < 50; i++) {
		CU_ASSERT(!node_send(&nodes[0], 1, 100));
		usleep(200);
	}
	CU_ASSERT_EQUAL(fake_counts().requests - before.requests, 0);
	close_all();
}

static void test_again(void)
{
	uint64_t start = roami_os_now_ns();

	open_all(2);
	fake_refuse(3);
	AWAIT(node_send(&nodes[1], 0, 100), true);
	AWAIT(nodes[0].got[1], 1);
	CU_ASSERT_EQUAL(fake_counts().requests - before.requests, 4);
	CU_ASSERT(roami_os_now_ns() - start >= SECOND / 10); /* with pauses */
	close_all();
}

static void test_strangers(void)
{
	struct verbs_hello hello = {.magic = VERBS_MAGIC, .from = 1, .bytes = VERBS_BUFFER};
	uint16_t port;
	unsigned asked = 0;

	open_all(2);
	port = (uint16_t)atomic_load(&cards[0].address);
	hello.mark = atomic_load(&cards[0].mark);
	hello.buffers = nodes[0].verbs->buffers;
	for (size_t at = 0; at < offsetof(struct verbs_hello, bytes) + sizeof(hello.bytes); at++) {
		uint8_t bytes[sizeof(hello)];

		memcpy(bytes, &hello, sizeof(hello));
		bytes[at] ^= 0x82;
		CU_ASSERT(!fake_ask(port, bytes, sizeof(bytes)));
		asked++;
	}
	CU_ASSERT(!fake_ask(port, NULL, 0));
	AWAIT(nodes[0].strangers, asked + 1);
	AWAIT(node_send(&nodes[1], 0, 100), true);
	AWAIT(nodes[0].got[1], 1);
	CU_ASSERT_EQUAL(nodes[0].strangers, asked + 1);
	close_all();
}

/* What a node has sent before it leaves arrives; nothing is said of its end. */
static void test_leaves(void)
{
	open_all(2);
	AWAIT(node_send(&nodes[1], 0, 100), true);
	AWAIT(nodes[0].got[1], 1);
	CU_ASSERT(node_send(&nodes[1], 0, 5000));
	node_close(&nodes[1]);
	AWAIT(nodes[0].got[1], 2);
	AWAIT(atomic_load(&nodes[0].verbs->peers[1].at), (uint32_t)VERBS_GONE);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT(node_send(&nodes[0], 1, 5000)); /* as good as lost */
	__atomic_fetch_add(&ahead_ns, 60 * SECOND, __ATOMIC_RELAXED);
	poll_all();
	CU_ASSERT_EQUAL(nodes[0].lost + nodes[0].notices, 0);
	close_all();
}

static void test_removed(void)
{
	open_all(2);
	AWAIT(node_send(&nodes[1], 0, 100), true);
	AWAIT(nodes[0].got[1], 1);
	fake_remove();
	AWAIT(atomic_load(&nodes[0].verbs->peers[1].at), (uint32_t)VERBS_BROKEN);
	AWAIT(nodes[0].notices, 1);
	CU_ASSERT_EQUAL(nodes[0].lost, 0); /* not yet: it might have left */
	__atomic_fetch_add(&ahead_ns, 6 * SECOND, __ATOMIC_RELAXED);
	AWAIT(nodes[0].lost > 0, true);
	close_all();
}

/* A node under a debugger says when it connects that it may fall silent. */
static void test_may_be_silent(void)
{
	begin();
	node_open(0, 2, SECOND);
	node_open(1, 2, 0);
	AWAIT(node_send(&nodes[0], 1, 100), true);
	AWAIT(nodes[1].got[0], 1);
	for (unsigned i = 0; i < 20; i++) {
		__atomic_fetch_add(&ahead_ns, SECOND / 4, __ATOMIC_RELAXED);
		poll_all();
	}
	CU_ASSERT_EQUAL(nodes[0].lost, 0);
	close_all();
}

/* A node that did not run itself for a while does not take others for lost. */
static void test_excused(void)
{
	begin();
	node_open(0, 2, SECOND);
	node_open(1, 2, SECOND);
	AWAIT(node_send(&nodes[0], 1, 100), true);
	AWAIT(nodes[1].got[0], 1);
	__atomic_fetch_add(&ahead_ns, 5 * SECOND, __ATOMIC_RELAXED);
	poll_all();
	poll_all();
	CU_ASSERT_EQUAL(nodes[0].lost + nodes[1].lost, 0);
	close_all();
}

/* All to all, to itself, too; connections come about meanwhile. */
static void test_many(void)
{
	unsigned all = 0;

	open_all(NODES);
	while (all < NODES * NODES * MESSAGES) {
		struct node *node = &nodes[unit_below(&draw, NODES)];
		unsigned to = (unsigned)unit_below(&draw, NODES);
		uint32_t bytes = unit_below(&draw, 4) == 0 ? LONGEST : 200;

		if (node->sent[to] < MESSAGES)
			all += node_send(node, to, 16 + (uint32_t)unit_below(&draw, bytes - 16));
		if (unit_below(&draw, 3) == 0)
			poll_all();
	}
	for (unsigned i = 0; i < NODES; i++)
		for (unsigned from = 0; from < NODES; from++)
			AWAIT(nodes[i].got[from], MESSAGES);
	close_all();
}

static CU_TestInfo tests[] = {
	{"the first message makes a connection, which both use", test_first},
	{"of two attempts at a time the lower node's goes on", test_both},
	{"messages may come before the connection is heard of", test_early},
	{"an answer of somebody else is refused", test_answers},
	{"a node sends to itself", test_itself},
	{"a peer that is not open yet is waited for", test_late},
	{"nobody asks a node that has closed", test_closed},
	{"an attempt that fails is followed by another", test_again},
	{"strangers are refused and counted", test_strangers},
	{"what a node has sent arrives after it has left", test_leaves},
	{"a card that is removed breaks connections", test_removed},
	{"a peer that may be silent is not lost", test_may_be_silent},
	{"a node that slept takes nobody for lost", test_excused},
	{"all nodes send to all", test_many},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("verbs_connect", tests, argc, argv);
}
