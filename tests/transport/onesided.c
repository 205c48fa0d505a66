/*
 * One-sided operations of a transport that has them: gets, and puts with their messages; and that
 * they come back after the card has refused one, whose put comes nevertheless.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "conform.h"
#include "onesided.h"
#ifdef WITH_VERBS
#include "transport/verbs.h"
#endif

#define SHARED  (600u * 1024) /* more than two parts of registered memory */
#define PLACES  64u
#define PLACE   (SHARED / PLACES)
#define TURNS   300u
#define READING 4096u
#define LOCKED  (4u << 20) /* more than all nodes, which are of one process, register */
#define LATE_NS (20 * (uint64_t)NS_PER_S)

static uint8_t *shared[NODES], expected[SHARED];
static unsigned turns, gets, puts_done; /* of these, those that succeeded */

static void must_be(bool good, const char *what)
{
	if (!good)
		wrong("one-sided, after %u gets and %u puts of %u: not %s", gets, puts_done, turns,
		      what);
}

/*
 * Makes another key of the one by which node 0 reaches a part of node 1's memory, or the right one
 * of it again.
 */
static void spoil(uint64_t part)
{
#ifdef WITH_VERBS
	struct verbs_state *verbs = nodes[0].below_state;

	verbs->reads.held[1 * verbs->reads.part_count + part].key ^= 0x00ffff00;
#else
	(void)part;
#endif
}

static void share(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		shared[i] = aligned_alloc(4096, SHARED);
		must_be(shared[i] != NULL, "no memory");
		for (unsigned at = 0; at < SHARED; at++)
			shared[i][at] = (uint8_t)(at * 31 + at / 4096 + i);
		must_be(tested->onesided->attach(nodes[i].below_state, shared[i], SHARED) ==
				ROAM_OK,
			"attach");
	}
	for (unsigned at = 0; at < SHARED; at++)
		expected[at] = shared[1][at];
}

/* A get, or none if there is no room; whether it succeeded. */
static bool get_page(uint64_t from)
{
	uint8_t to[READING];
	struct iovec part = {to, sizeof(to)};
	uint64_t start = roami_os_now_ns();
	uint32_t done = 0;
	enum roam_err err = tested->onesided->get(nodes[0].below_state, 1, from, &part, 1, &done);

	must_be(err == ROAM_OK || err == ROAM_EAGAIN, "a get that is allowed");
	poll_all();
	while (err == ROAM_OK && __atomic_load_n(&done, __ATOMIC_ACQUIRE) == 0) {
		tested->onesided->reap(nodes[0].below_state);
		poll_all();
		must_be(roami_os_now_ns() - start < LATE_NS, "a get that ends");
	}
	if (done != 1)
		return false;
	for (unsigned i = 0; i < sizeof(to); i++)
		must_be(to[i] == expected[from + i], "the bytes of a get");
	gets++;
	return true;
}

/* A put of a few stretches of one place, which must come if it begins. */
static bool put_place(unsigned place)
{
	struct roam_put puts[3];
	uint8_t bytes[3][40], body[200];
	struct message head = {0, nodes[0].sent[1], sizeof(head) + sizeof(body), 0};
	struct iovec message[2] = {{&head, sizeof(head)}, {body, sizeof(body)}};
	uint64_t at = (uint64_t)place * PLACE, start = roami_os_now_ns();
	uint32_t before = nodes[1].got[0];

	message_fill(&head, body);
	for (unsigned i = 0; i < 3; i++) {
		size_t some = 1 + (turns * 7 + i * 11) % sizeof(bytes[i]);

		for (unsigned k = 0; k < some; k++)
			bytes[i][k] = (uint8_t)(turns + i * 3 + k * 5);
		puts[i] = (struct roam_put){at + i * 61 + turns % 19, bytes[i], some};
	}
	if (tested->onesided->put(nodes[0].below_state, 1, puts, 3, message, 2) != ROAM_OK) {
		poll_all();
		return false;
	}
	nodes[0].sent[1]++;
	while (nodes[1].got[0] == before) {
		poll_all();
		must_be(roami_os_now_ns() - start < LATE_NS, "a put that comes");
	}
	for (unsigned i = 0; i < 3; i++)
		memcpy(expected + puts[i].to, puts[i].from, puts[i].bytes);
	must_be(memcmp(expected, shared[1], SHARED) == 0, "the bytes of a put, and no others");
	puts_done++;
	return true;
}

/* So many operations at all places; whether all succeeded. */
static bool operate(unsigned count)
{
	bool all = true;

	for (unsigned i = 0; i < count; i++, turns++) {
		unsigned place = turns * 5 % PLACES;

		if (turns % 3 == 0)
			all &= put_place(place);
		else
			all &= get_page(turns * 7 % (SHARED / READING) * READING);
	}
	return all;
}

static void come_back(const char *what)
{
	uint64_t start = roami_os_now_ns();

	while (!operate(PLACES))
		must_be(roami_os_now_ns() - start < LATE_NS, what);
	must_be(operate(TURNS), what);
}

bool test_onesided_possible(char *why, size_t bytes)
{
	struct rlimit limit;

	if (tested->onesided == NULL || geteuid() == 0 ||
	    getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= LOCKED)
		return true;
	snprintf(why, bytes, "RLIMIT_MEMLOCK is %llu KiB",
		 (unsigned long long)limit.rlim_cur / 1024);
	return false;
}

void test_onesided(void)
{
	if (tested->onesided == NULL)
		return;
	share();
	send_surely(0, 1, 64);
	come_back("they begin");
	for (unsigned round = 0; round < 4; round++) {
		uint64_t part = round % 3;

		spoil(part);
		for (unsigned i = 0; i < 20; i++, turns++) {
			put_place((unsigned)(part * 256 * 1024 / PLACE) + 1 + i % 3);
			get_page((uint64_t)part * 256 * 1024 + i % 4 * READING);
		}
		spoil(part);
		come_back("they come back");
	}
	for (unsigned i = 0; i < NODES; i++)
		must_be(nodes[i].lost == 0, "nobody is lost");
}

void test_onesided_end(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		free(shared[i]);
		shared[i] = NULL;
	}
}
