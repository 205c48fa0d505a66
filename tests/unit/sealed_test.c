/*
 * The sealed layer over a transport that refuses messages at times: each message is closed once,
 * however often it is offered, and arrives as it was.
 */
#include "link/sealed.h"

#include <stdlib.h>
#include <string.h>

#include "link/seal.h"
#include "unit.h"

#define LONGEST 40000u

/* The transport below node 0: it keeps the last message offered to it. */
struct below {
	unsigned refuse; /* how many more times it refuses */
	_Alignas(8) uint8_t offered[2 * LONGEST];
	size_t bytes;
	bool taken;
};

/* Nodes 0 and 1, of which 0 sends. */
struct pair {
	struct below below;
	void *states[2];
	uint8_t got[LONGEST];
	size_t got_bytes;
};

static const uint8_t job_key[ROAMI_KEY_BYTES] = "the key of this job, 32 bytes..";

static enum roam_err below_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	struct below *below = state;

	CU_ASSERT_FATAL(to == 1 && count == 1 && parts[0].iov_len <= sizeof(below->offered));
	memcpy(below->offered, parts[0].iov_base, parts[0].iov_len);
	below->bytes = parts[0].iov_len;
	if (below->refuse > 0) {
		below->refuse--;
		return ROAM_EAGAIN;
	}
	below->taken = true;
	return ROAM_OK;
}

static unsigned below_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			   int *bad_peer)
{
	struct below *below = state;
	unsigned taken = below->taken;

	(void)max, (void)bad_peer;
	if (below->taken)
		below->taken = !deliver(arg, 0, below->offered, below->bytes);
	return taken;
}

static const struct roam_transport below_transport = {
	.name = "below",
	.message_max = 2 * LONGEST,
	.send = below_send,
	.poll = below_poll,
};

static struct pair *pair_open(bool encrypt)
{
	struct roami_seal_params seal = {.key = job_key, .boot = 1, .encrypt = encrypt};
	struct pair *pair = calloc(1, sizeof(*pair));

	CU_ASSERT_FATAL(pair != NULL);
	for (unsigned node = 0; node < 2; node++) {
		struct roam_transport_params params = {.node = node,
						       .nodes = 2,
						       .lower = &below_transport,
						       .lower_state = &pair->below,
						       .seal = &seal};
		size_t bytes = (roami_transport_sealed.state_size + 63) & ~(size_t)63;

		pair->states[node] = aligned_alloc(64, bytes);
		CU_ASSERT_FATAL(pair->states[node] != NULL);
		memset(pair->states[node], 0, bytes);
		CU_ASSERT_EQUAL_FATAL(roami_transport_sealed.open(pair->states[node], &params),
				      ROAM_OK);
	}
	return pair;
}

static void pair_close(struct pair *pair)
{
	for (unsigned node = 0; node < 2; node++) {
		roami_transport_sealed.close(pair->states[node]);
		free(pair->states[node]);
	}
	free(pair);
}

static enum roam_err pair_send(struct pair *pair, uint8_t *bytes, size_t count)
{
	size_t first = count / 7;
	struct iovec parts[3] = {{bytes, first}, {bytes, 0}, {bytes + first, count - first}};

	return roami_transport_sealed.send(pair->states[0], 1, parts, 3);
}

static bool pair_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct pair *pair = arg;

	CU_ASSERT_FATAL(from == 0 && bytes <= sizeof(pair->got));
	memcpy(pair->got, data, bytes);
	pair->got_bytes = bytes;
	return true;
}

static void pair_expect(struct pair *pair, const uint8_t *bytes, size_t count)
{
	int bad = -1;

	CU_ASSERT_EQUAL(roami_transport_sealed.poll(pair->states[1], pair_deliver, pair, 1, &bad),
			1);
	CU_ASSERT_EQUAL(bad, -1);
	CU_ASSERT_EQUAL(pair->got_bytes, count);
	CU_ASSERT(memcmp(pair->got, bytes, count) == 0);
}

static uint64_t offered_number(const struct pair *pair)
{
	return ((const struct roami_packet *)(const void *)pair->below.offered)->number;
}

/* A message that is refused again and again is offered under the number that it had at first. */
static void test_again(void)
{
	static const size_t sizes[] = {1, 9152, 9153, LONGEST};
	static uint8_t bytes[LONGEST];
	uint64_t state = unit_seed();

	for (unsigned mode = 0; mode < 8; mode++) {
		struct pair *pair = pair_open(mode % 2 == 1);
		size_t count = sizes[mode / 2];
		uint64_t number;

		for (size_t at = 0; at < count; at++)
			bytes[at] = (uint8_t)unit_random(&state);
		pair->below.refuse = 4;
		CU_ASSERT_EQUAL(pair_send(pair, bytes, count), ROAM_EAGAIN);
		number = offered_number(pair);
		for (unsigned turn = 0; turn < 3; turn++)
			CU_ASSERT_EQUAL(pair_send(pair, bytes, count), ROAM_EAGAIN);
		CU_ASSERT_EQUAL(pair_send(pair, bytes, count), ROAM_OK);
		CU_ASSERT_EQUAL(offered_number(pair), number);
		pair_expect(pair, bytes, count);
		/* One just like it is another message. */
		CU_ASSERT_EQUAL(pair_send(pair, bytes, count), ROAM_OK);
		CU_ASSERT(offered_number(pair) > number);
		pair_expect(pair, bytes, count);
		pair_close(pair);
	}
}

/* Another message may be sent in place of a refused one: one byte, its last, is different. */
static void test_other(void)
{
	static uint8_t bytes[LONGEST];

	for (unsigned mode = 0; mode < 2; mode++) {
		struct pair *pair = pair_open(mode == 1);

		pair->below.refuse = 2;
		bytes[LONGEST - 1] = 1;
		CU_ASSERT_EQUAL(pair_send(pair, bytes, LONGEST), ROAM_EAGAIN);
		bytes[LONGEST - 1] = 2;
		CU_ASSERT_EQUAL(pair_send(pair, bytes, LONGEST), ROAM_EAGAIN);
		CU_ASSERT_EQUAL(pair_send(pair, bytes, LONGEST), ROAM_OK);
		pair_expect(pair, bytes, LONGEST);
		CU_ASSERT_EQUAL(pair_send(pair, bytes, LONGEST - 1), ROAM_OK);
		pair_expect(pair, bytes, LONGEST - 1);
		pair_close(pair);
	}
}

static CU_TestInfo tests[] = {
	{"a refused message is closed once", test_again},
	{"another message in place of a refused one", test_other},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("sealed", tests, argc, argv);
}
