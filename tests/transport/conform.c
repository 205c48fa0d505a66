/*
 * What every transport promises, with what roam puts over it: each message arrives once, whole and
 * in order, from each node to each, itself included; a message that is not taken comes again; a
 * full queue says so and loses nothing; a sleeping thread is woken; a node can leave and come back;
 * a node that has left is named.  bare.c has what a transport promises alone.
 *
 * usage: conform NAME [plain|auth|encrypt]
 *
 * All nodes are in this process.  It ends with status 0, or says what is wrong.
 */
#include "conform.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/transports.h"
#include "link/reliable.h"
#include "link/seal.h"
#include "link/sealed.h"
#include "onesided.h"
#include "unit.h"

#define RINGS      (256u * 1024)
#define SHORT_LIFE 1u /* seconds until a silent peer is named, in tests of that */
#define LOOK_US    1000u /* between two looks at what takes seconds */

const struct roam_transport *tested;
struct node nodes[NODES];
static bool bare; /* no layer is put over the transport */
static bool onesided; /* the test that runs is of one-sided operations */
static unsigned seal_wanted; /* enum roami_option_seal */
static uint8_t key[ROAMI_KEY_BYTES] = "not a secret";
static struct roami_seal_params seal_params;
static struct roam_transport_memory memory[NODES];

void wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static uint64_t now(void *arg)
{
	(void)arg;
	return roami_os_now_ns();
}

static void lost(void *arg, unsigned peer, uint64_t silent_ns)
{
	struct node *node = arg;

	(void)silent_ns;
	atomic_store(&node->lost, peer + 1);
}

static void notice(void *arg, const char *line)
{
	(void)arg;
	printf("notice: %s\n", line);
}

static void *state_new(const struct roam_transport *transport)
{
	size_t bytes = (transport->state_size + 64) & ~(size_t)63;
	void *state = aligned_alloc(64, bytes);

	if (state == NULL)
		wrong("no memory");
	return memset(state, 0, bytes);
}

/* The layer that gives messages what the transport lacks, chosen as in base/layers.c. */
static const struct roam_transport *layer_over(void)
{
	const unsigned good = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED;

	if (bare)
		return NULL;
	if ((tested->caps & good) != good)
		return &roami_transport_reliable;
	return seal_wanted != ROAMI_SEAL_OFF ? &roami_transport_sealed : NULL;
}

/* Peers whose memory a node may reach by one-sided operations: no layer lies between. */
static uint64_t node_reads(unsigned number)
{
	return onesided && tested->onesided != NULL ? ((1u << NODES) - 1) & ~(1u << number) : 0;
}

static void node_open(unsigned number, uint64_t deadline_s)
{
	struct node *node = &nodes[number];
	struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX];
	struct roami_options options;
	char why[300] = "";

	roami_options_read(&options, environ, 2);
	roami_options_of(&options, tested, values);
	*node = (struct node){.number = number, .random = number + 1, .below = tested};
	node->params = (struct roam_transport_params){.node = number,
						      .nodes = NODES,
						      .memory = memory,
						      .now = now,
						      .now_arg = node,
						      .options = values,
						      .deadline_ns = deadline_s * NS_PER_S,
						      .read = node_reads(number),
						      .lost = lost,
						      .notice = notice,
						      .seal = &seal_params,
						      .why = why,
						      .why_bytes = sizeof(why)};
	node->top = node->below;
	node->below_state = node->top_state = state_new(tested);
	if (tested->open(node->below_state, &node->params) != ROAM_OK)
		wrong("%s does not open: %s", tested->name, why);
	node->params.lower = node->below;
	node->params.lower_state = node->below_state;
	if (layer_over() == NULL)
		return;
	node->top = layer_over();
	node->top_state = state_new(node->top);
	if (node->top->open(node->top_state, &node->params) != ROAM_OK)
		wrong("%s does not open over %s", node->top->name, tested->name);
}

static void node_close(unsigned number)
{
	struct node *node = &nodes[number];

	if (node->top != node->below) {
		node->top->close(node->top_state);
		free(node->top_state);
	}
	node->below->close(node->below_state);
	free(node->below_state);
}

/* ------------------------------------------------------------------------------------- messages */

static uint32_t node_random(struct node *node, uint32_t below)
{
	node->random = node->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(node->random >> 33) % below;
}

static uint8_t message_byte(const struct message *message, uint32_t at)
{
	return (uint8_t)(at * 7 + at / 251 + message->number * 13 + message->from);
}

void message_fill(const struct message *message, uint8_t *body)
{
	for (uint32_t at = 0; at < message->bytes - sizeof(*message); at++)
		body[at] = message_byte(message, at);
}

bool node_send(struct node *node, unsigned to, uint32_t bytes)
{
	static __thread uint8_t body[LONGEST];
	struct message head = {node->number, node->sent[to], bytes, 0};
	uint32_t rest = bytes - (uint32_t)sizeof(head), half = rest / 3;
	struct iovec parts[3] = {{&head, sizeof(head)}, {body, half}, {body + half, rest - half}};
	enum roam_err err;

	message_fill(&head, body);
	err = node->top->send(node->top_state, to, parts, 3);
	if (err != ROAM_OK && err != ROAM_EAGAIN)
		wrong("send of %u bytes: error %d", bytes, (int)err);
	node->sent[to] += err == ROAM_OK;
	return err == ROAM_OK;
}

static bool node_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct node *node = arg;
	struct message head;

	if (node->refuse > 0) {
		node->refuse--;
		node->refused++;
		return false;
	}
	if (((uintptr_t)data & 7) != 0 || bytes < sizeof(head) || from >= NODES)
		wrong("node %u got %zu bytes at %p from %u", node->number, bytes, data, from);
	memcpy(&head, data, sizeof(head));
	/* A transport alone may lose, repeat and reorder. */
	if (head.from != from || head.bytes != bytes ||
	    (head.number != node->got[from] && !bare))
		wrong("node %u: message %u of %u bytes from %u, of which it has %u, came as %zu",
		      node->number, head.number, head.bytes, from, node->got[from], bytes);
	for (uint32_t at = 0; at < bytes - sizeof(head); at++)
		if (((const uint8_t *)data)[sizeof(head) + at] != message_byte(&head, at))
			wrong("node %u: message %u from %u: wrong byte %u", node->number,
			      head.number, from, at);
	node->disordered += head.number != node->got[from];
	node->got[from]++;
	return true;
}

unsigned node_poll(struct node *node, unsigned max)
{
	int bad = -1;
	unsigned taken = node->top->poll(node->top_state, node_deliver, node, max, &bad);

	if (bad >= 0)
		wrong("node %u: the bytes of node %d make no sense to it", node->number, bad);
	return taken;
}

void poll_all(void)
{
	for (unsigned i = 0; i < NODES; i++)
		node_poll(&nodes[i], 16);
}

static bool all_there(void)
{
	for (unsigned from = 0; from < NODES; from++)
		for (unsigned to = 0; to < NODES; to++)
			if (nodes[from].sent[to] != nodes[to].got[from])
				return false;
	return true;
}

static void await_all(const char *what)
{
	uint64_t until = roami_os_now_ns() + PATIENCE_NS;

	for (unsigned turn = 0; !all_there(); turn++) {
		poll_all();
		if (roami_os_now_ns() > until)
			wrong("%s: messages do not arrive", what);
		if (turn % 64 == 63)
			sched_yield();
	}
}

void send_surely(unsigned from, unsigned to, uint32_t bytes)
{
	uint64_t until = roami_os_now_ns() + PATIENCE_NS;

	while (!node_send(&nodes[from], to, bytes)) {
		poll_all();
		if (roami_os_now_ns() > until)
			wrong("node %u never has room for %u bytes to %u", from, bytes, to);
	}
}

/* ---------------------------------------------------------------------------------------- tests */

static void test_sizes(void)
{
	static const uint32_t around[] = {64,   256,  1024,  4336,  4352,       8672,
					  9152, 9216, 18304, 36608, LONGEST - 3};

	for (unsigned i = 0; i < sizeof(around) / sizeof(around[0]); i++)
		for (uint32_t bytes = around[i] - 3; bytes <= around[i] + 3; bytes++)
			for (unsigned from = 0; from < NODES; from++)
				for (unsigned to = 0; to < NODES; to++)
					if (bytes >= sizeof(struct message) && bytes <= LONGEST)
						send_surely(from, to, bytes);
	await_all("sizes");
}

static void test_mixed(void)
{
	for (unsigned turn = 0; turn < 3000; turn++) {
		struct node *node = &nodes[turn % NODES];
		uint32_t most = node_random(node, 8) == 0 ? LONGEST - 16 : 300;

		node_send(node, node_random(node, NODES), 16 + node_random(node, most));
		if (node_random(node, 3) == 0)
			node_poll(&nodes[node_random(node, NODES)], 1 + node_random(node, 16));
	}
	await_all("mixed");
}

/* Nobody polls the receiver: what a sender may send has a limit; then all of it arrives. */
static void test_full(void)
{
	for (unsigned size = 0; size < 2; size++) {
		unsigned count = 0;

		send_surely(0, 1, 100);
		while (count < 20000 && node_send(&nodes[0], 1, size == 0 ? 100 : LONGEST))
			count++;
		if (count == 20000)
			wrong("%u messages went to a node that takes none", count);
		await_all("full");
	}
}

static void test_refused(void)
{
	for (unsigned turn = 0; turn < 60; turn++) {
		send_surely(0, 1, turn % 3 == 0 ? LONGEST : 40);
		send_surely(2, 1, 40);
		nodes[1].refuse = 1 + turn % 3;
		poll_all();
	}
	await_all("refused");
	if (nodes[1].refused < 20)
		wrong("only %u messages were refused", nodes[1].refused);
}

struct sleeper {
	struct node *node;
	enum roam_sleeper who;
	uint32_t want;
	_Atomic uint32_t done;
};

static void *sleeper_main(void *arg)
{
	struct sleeper *sleeper = arg;
	struct node *node = sleeper->node;

	while (node->got[0] < sleeper->want) {
		uint64_t due = node->top->due != NULL ? node->top->due(node->top_state)
						      : UINT64_MAX;
		uint64_t at = roami_os_now_ns(), most = 5 * (uint64_t)NS_PER_S;

		if (node_poll(node, 16) > 0)
			continue;
		if (due != UINT64_MAX && due < at + most)
			most = due > at ? due - at : 1;
		node->below->wait(node->below_state, sleeper->who, most);
	}
	atomic_store(&sleeper->done, 1);
	return NULL;
}

/* Each message wakes a sleeping thread, which otherwise would sleep 5 s. */
static void test_sleep(void)
{
	if (tested->wait == NULL)
		return;
	for (unsigned round = 0; round < 60; round++) {
		uint64_t began = roami_os_now_ns(), took;
		struct sleeper sleeper = {.node = &nodes[1],
					  .who = round % 2 == 0 ? ROAM_SLEEPER_SERVICE
								: ROAM_SLEEPER_APP,
					  .want = nodes[1].got[0] + 1};
		pthread_t thread;

		if (pthread_create(&thread, NULL, sleeper_main, &sleeper) != 0)
			wrong("no thread");
		if (round % 4 < 2)
			roami_os_futex_wait(&sleeper.done, 0, 2000000); /* it sleeps */
		while (!node_send(&nodes[0], 1, 40))
			node_poll(&nodes[0], 16);
		while (atomic_load(&sleeper.done) == 0)
			node_poll(&nodes[0], 16);
		pthread_join(thread, NULL);
		took = roami_os_now_ns() - began;
		if (took > 4 * (uint64_t)NS_PER_S) /* on a busy machine it takes a second, too */
			wrong("a message took %.1f s to be noticed", (double)took / NS_PER_S);
	}
}

static void *waker_main(void *arg)
{
	struct sleeper *sleeper = arg;

	sleeper->node->below->wait(sleeper->node->below_state, sleeper->who,
				   30 * (uint64_t)NS_PER_S);
	return NULL;
}

static void test_wake(void)
{
	uint64_t began = roami_os_now_ns();

	for (unsigned who = 0; who < 2 && tested->wait != NULL; who++) {
		struct sleeper sleeper = {.node = &nodes[2], .who = (enum roam_sleeper)who};
		pthread_t thread;

		if (pthread_create(&thread, NULL, waker_main, &sleeper) != 0)
			wrong("no thread");
		nodes[2].below->wake(nodes[2].below_state, sleeper.who);
		pthread_join(thread, NULL);
	}
	if (roami_os_now_ns() - began > 10 * (uint64_t)NS_PER_S)
		wrong("wake() did not wake");
}

struct crowd {
	struct node *node;
	unsigned to;
	_Atomic uint32_t *stop;
};

static void *crowd_poll(void *arg)
{
	struct crowd *crowd = arg;

	while (atomic_load(crowd->stop) == 0)
		if (node_poll(crowd->node, 16) == 0)
			sched_yield();
	return NULL;
}

static void *crowd_send(void *arg)
{
	struct crowd *crowd = arg;

	for (unsigned i = 0; i < 500;) {
		if (node_send(crowd->node, crowd->to, 16 + i * 37 % 9000))
			i++;
		else
			sched_yield();
	}
	return NULL;
}

/* Each node has one thread that polls and two that send, each of these to one peer. */
static void test_threads(void)
{
	_Atomic uint32_t stop = 0;
	pthread_t polls[NODES], sends[NODES][2];
	struct crowd crowds[NODES][2];

	for (unsigned i = 0; i < NODES; i++) {
		for (unsigned j = 0; j < 2; j++) {
			crowds[i][j] = (struct crowd){&nodes[i], (i + 1 + j) % NODES, &stop};
			pthread_create(&sends[i][j], NULL, crowd_send, &crowds[i][j]);
		}
		pthread_create(&polls[i], NULL, crowd_poll, &crowds[i][0]);
	}
	for (unsigned i = 0; i < NODES; i++)
		for (unsigned j = 0; j < 2; j++)
			pthread_join(sends[i][j], NULL);
	atomic_store(&stop, 1);
	for (unsigned i = 0; i < NODES; i++)
		pthread_join(polls[i], NULL);
	await_all("threads");
}

static void open_all(uint64_t deadline_s)
{
	for (unsigned i = 0; i < NODES; i++)
		memset(memory[i].base, 0, memory[i].bytes);
	for (unsigned i = 0; i < NODES; i++)
		node_open(i, deadline_s);
}

static void close_all(void)
{
	for (unsigned i = 0; i < NODES; i++)
		node_close(i);
}

static void test_again(void)
{
	close_all();
	open_all(0);
	for (unsigned i = 0; i < NODES; i++)
		send_surely(i, (i + 1) % NODES, 100);
	await_all("again");
}

/*
 * Each of the two remaining nodes names the one that has left; a node that has nothing to say is
 * not named.
 */
static void test_left(void)
{
	uint64_t began;

	if ((tested->caps & ROAM_CAP_HOSTS) == 0)
		return;
	close_all();
	open_all(SHORT_LIFE);
	for (unsigned from = 0; from < NODES; from++)
		for (unsigned to = 0; to < NODES; to++)
			send_surely(from, to, 100);
	await_all("left");
	for (began = roami_os_now_ns();
	     roami_os_now_ns() < began + 2 * SHORT_LIFE * (uint64_t)NS_PER_S; usleep(LOOK_US))
		poll_all();
	for (unsigned i = 0; i < NODES; i++)
		if (atomic_load(&nodes[i].lost) != 0)
			wrong("node %u lost node %u, which only had nothing to say", i,
			      atomic_load(&nodes[i].lost) - 1);
	node_close(2);
	began = roami_os_now_ns();
	while (atomic_load(&nodes[0].lost) == 0 || atomic_load(&nodes[1].lost) == 0) {
		node_poll(&nodes[0], 16);
		node_poll(&nodes[1], 16);
		usleep(LOOK_US);
		if (roami_os_now_ns() - began > 10 * (uint64_t)NS_PER_S)
			wrong("nobody notices that node 2 has left");
	}
	if (atomic_load(&nodes[0].lost) != 3 || atomic_load(&nodes[1].lost) != 3)
		wrong("node %u is named, and not 2", atomic_load(&nodes[0].lost) - 1);
	node_close(0);
	node_close(1);
}

static void memory_new(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		memory[i].bytes = (tested->caps & ROAM_CAP_MAPPED) != 0 ? (size_t)NODES * RINGS
									: ROAM_CARD_BYTES;
		memory[i].base = aligned_alloc(4096, (memory[i].bytes + 4095) & ~(size_t)4095);
		if (memory[i].base == NULL)
			wrong("no memory");
	}
}

static const struct conform_test layered_tests[] = {
	{"sizes", test_sizes, false},     {"mixed", test_mixed, false},
	{"full", test_full, false},       {"refused", test_refused, false},
	{"sleep", test_sleep, false},     {"wake", test_wake, false},
	{"threads", test_threads, false}, {"again", test_again, false},
	{"left", test_left, false},       {NULL, NULL, false}};

/* Each of the bare tests has nodes of its own. */
static void run_all(const struct conform_test *tests, const char *how)
{
	char why[128];

	for (unsigned i = 0; tests[i].name != NULL; i++) {
		onesided = tests[i].onesided;
		if (onesided && !test_onesided_possible(why, sizeof(why))) {
			unit_skip(tests[i].name, why);
			continue;
		}
		if (bare)
			open_all(0);
		tests[i].run();
		if (bare)
			close_all();
		test_onesided_end();
		printf("ok %s %s: %s\n", tested->name, how, tests[i].name);
		fflush(stdout);
	}
}

static void read_arguments(int argc, char **argv)
{
	const char *seal = argc > 2 ? argv[2] : "plain";

	tested = argc > 1 ? roami_transport_find(argv[1]) : NULL;
	if (tested == NULL)
		wrong("usage: conform NAME [plain|auth|encrypt]");
	seal_wanted = strcmp(seal, "auth") == 0      ? ROAMI_SEAL_AUTH
		      : strcmp(seal, "encrypt") == 0 ? ROAMI_SEAL_ENCRYPT
						     : ROAMI_SEAL_OFF;
	if (seal_wanted != ROAMI_SEAL_OFF)
		seal_params = (struct roami_seal_params){
			.key = key, .encrypt = seal_wanted == ROAMI_SEAL_ENCRYPT};
}

int main(int argc, char **argv)
{
	char why[256];

	read_arguments(argc, argv);
	if (!roami_transport_works(tested, NULL, why, sizeof(why))) {
		unit_skip(tested->name, why);
		return 0;
	}
	memory_new();
	open_all(0);
	run_all(layered_tests, argc > 2 ? argv[2] : "plain");
	if ((tested->caps & ROAM_CAP_HOSTS) == 0)
		close_all();
	bare = seal_wanted == ROAMI_SEAL_OFF;
	if (bare)
		run_all(bare_tests, "bare");
	for (unsigned i = 0; i < NODES; i++)
		free(memory[i].base);
	return 0;
}
