/*
 * Sealed datagrams: a peer with the key opens what was closed for it, once; for every other peer,
 * and with any bit changed, it is refused.
 */
#include "link/seal.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define HEADER sizeof(struct roami_packet)
#define MODES  4u
#define PLAIN  MODES /* the mode without a key */

/* Nodes 0 and 1 and the link between them, as each of them has it. */
struct pair {
	struct roami_sealer sealers[2];
	struct roami_seal seals[2];
};

static const uint8_t job_key[ROAMI_KEY_BYTES] = "the key of this job, 32 bytes..";
static const uint8_t other_key[ROAMI_KEY_BYTES] = "the key of another job, 32 bytes";

/* Both ciphers, each with and without encrypting. */
static struct roami_seal_params mode_params(unsigned mode)
{
	return (struct roami_seal_params){
		.key = job_key, .boot = 7, .encrypt = mode % 2 == 1, .no_aes = mode / 2 == 1};
}

static struct pair *pair_open(const struct roami_seal_params *first,
			      const struct roami_seal_params *second)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	CU_ASSERT_FATAL(pair != NULL);
	CU_ASSERT_EQUAL_FATAL(roami_sealer_init(&pair->sealers[0], first), ROAM_OK);
	CU_ASSERT_EQUAL_FATAL(roami_sealer_init(&pair->sealers[1], second), ROAM_OK);
	roami_seal_init(&pair->seals[0], &pair->sealers[0], 0, 1);
	roami_seal_init(&pair->seals[1], &pair->sealers[1], 1, 0);
	return pair;
}

static struct pair *pair_of_mode(unsigned mode)
{
	struct roami_seal_params params = mode_params(mode);

	return mode == PLAIN ? pair_open(NULL, NULL) : pair_open(&params, &params);
}

/* A datagram in memory of exactly its size, so that an address checker sees a read beyond it. */
static struct roami_packet *packet_make(size_t bytes, uint64_t seq)
{
	struct roami_packet *packet = calloc(1, bytes);

	CU_ASSERT_FATAL(packet != NULL);
	packet->seq = seq;
	for (size_t at = HEADER; at < bytes; at++)
		((uint8_t *)packet)[at] = (uint8_t)(at * 13 + seq);
	return packet;
}

/* A datagram of its own, closed with `seal`. */
static struct roami_packet *packet_closed(struct roami_seal *seal, size_t bytes, uint64_t seq)
{
	struct roami_packet *packet = packet_make(bytes, seq), *copy = packet_make(bytes, seq);
	uint8_t *room = malloc(bytes);

	CU_ASSERT_FATAL(room != NULL);
	memcpy(copy, roami_seal_close(seal, packet, bytes, room), bytes);
	free(room);
	free(packet);
	return copy;
}

static enum roami_seal_verdict packet_open(struct roami_seal *seal,
					   const struct roami_packet *packet, size_t bytes)
{
	uint8_t *room = malloc(bytes);
	enum roami_seal_verdict verdict;

	CU_ASSERT_FATAL(room != NULL);
	verdict = roami_seal_open(seal, &packet, bytes, room);
	if (verdict == ROAMI_SEAL_GOOD) {
		struct roami_packet *meant = packet_make(bytes, packet->seq);

		CU_ASSERT_EQUAL(memcmp(packet + 1, meant + 1, bytes - HEADER), 0);
		free(meant);
	}
	free(room);
	return verdict;
}

static void test_lengths(void)
{
	for (unsigned mode = 0; mode <= PLAIN; mode++) {
		struct pair *pair = pair_of_mode(mode);

		for (size_t bytes = HEADER; bytes <= ROAMI_DATAGRAM_MAX;
		     bytes += bytes < 300 || bytes > ROAMI_DATAGRAM_MAX - 50 ? 1 : 97) {
			struct roami_packet *packet =
				packet_closed(&pair->seals[0], bytes, bytes);

			CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packet, bytes),
					ROAMI_SEAL_GOOD);
			free(packet);
		}
		free(pair);
	}
}

/* Flips every bit of a datagram that ends within a word, and of one that fills it. */
static void test_flipped_bits(void)
{
	static const size_t lengths[] = {HEADER + 32, HEADER + 45, HEADER};

	for (unsigned mode = 0; mode <= PLAIN; mode++)
		for (unsigned i = 0; i < 3; i++) {
			struct pair *pair = pair_of_mode(mode);
			size_t bytes = lengths[i];
			struct roami_packet *packet = packet_closed(&pair->seals[0], bytes, 3);

			for (size_t bit = 0; bit < bytes * 8; bit++) {
				((uint8_t *)packet)[bit / 8] ^= (uint8_t)(1u << bit % 8);
				CU_ASSERT_NOT_EQUAL(packet_open(&pair->seals[1], packet, bytes),
						    ROAMI_SEAL_GOOD);
				((uint8_t *)packet)[bit / 8] ^= (uint8_t)(1u << bit % 8);
			}
			CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packet, bytes),
					ROAMI_SEAL_GOOD);
			free(packet);
			free(pair);
		}
}

/* Shorter ones, and ones lengthened by zeroes, which the digest alone would not notice. */
static void test_cut(void)
{
	for (unsigned mode = 0; mode <= PLAIN; mode++) {
		struct pair *pair = pair_of_mode(mode);
		size_t bytes = HEADER + 40;
		struct roami_packet *packet = packet_closed(&pair->seals[0], bytes, 3);
		struct roami_packet *longer = calloc(1, bytes + 8);

		CU_ASSERT_FATAL(longer != NULL);
		memcpy(longer, packet, bytes);
		CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packet, bytes - 1), ROAMI_SEAL_BROKEN);
		CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packet, HEADER), ROAMI_SEAL_BROKEN);
		CU_ASSERT_EQUAL(packet_open(&pair->seals[1], longer, bytes + 1), ROAMI_SEAL_BROKEN);
		CU_ASSERT_EQUAL(packet_open(&pair->seals[1], longer, bytes + 8), ROAMI_SEAL_BROKEN);
		free(longer);
		free(packet);
		free(pair);
	}
}

static void refused_by(const struct roami_seal_params *first,
		       const struct roami_seal_params *second)
{
	struct pair *pair = pair_open(first, second);
	struct roami_packet *packet = packet_closed(&pair->seals[0], HEADER + 64, 0);

	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packet, HEADER + 64), ROAMI_SEAL_BROKEN);
	free(packet);
	free(pair);
}

/* Another key, another boot, another way to close; and no key where there is one. */
static void test_strangers(void)
{
	for (unsigned mode = 0; mode < MODES; mode++) {
		struct roami_seal_params good = mode_params(mode), bad = good;

		bad.key = other_key;
		refused_by(&bad, &good);
		bad = good;
		bad.boot--;
		refused_by(&bad, &good);
		bad = good;
		bad.encrypt = !good.encrypt;
		refused_by(&bad, &good);
		refused_by(NULL, &good);
		refused_by(&good, NULL);
	}
}

/* A datagram for one node, or from one, is refused by every other, and by its sender. */
static void test_direction(void)
{
	for (unsigned mode = 0; mode <= PLAIN; mode++) {
		struct pair *pair = pair_of_mode(mode);
		struct roami_packet *packet = packet_closed(&pair->seals[0], HEADER + 64, 0);
		struct roami_seal *third = calloc(1, sizeof(*third));

		CU_ASSERT_FATAL(third != NULL);
		CU_ASSERT_EQUAL(packet_open(&pair->seals[0], packet, HEADER + 64),
				ROAMI_SEAL_BROKEN);
		roami_seal_init(third, &pair->sealers[1], 2, 0);
		CU_ASSERT_EQUAL(packet_open(third, packet, HEADER + 64), ROAMI_SEAL_BROKEN);
		memset(third, 0, sizeof(*third));
		roami_seal_init(third, &pair->sealers[1], 1, 2);
		CU_ASSERT_EQUAL(packet_open(third, packet, HEADER + 64), ROAMI_SEAL_BROKEN);
		free(third);
		free(packet);
		free(pair);
	}
}

#define SENT 3000u

/* Datagrams in a random order within the window, twice: accepted the first time, then refused. */
static void test_replay(void)
{
	struct roami_packet *packets[SENT];
	uint64_t random = unit_seed();

	for (unsigned mode = 0; mode < MODES; mode++) {
		struct pair *pair = pair_of_mode(mode);

		for (unsigned i = 0; i < SENT; i++)
			packets[i] = packet_closed(&pair->seals[0], HEADER + 16, i);
		for (unsigned first = 0; first < SENT; first += ROAMI_SEAL_WINDOW / 2) {
			unsigned end = first + ROAMI_SEAL_WINDOW / 2;

			if (end > SENT)
				end = SENT;
			for (unsigned i = end - 1; i > first; i--) {
				unsigned with =
					first + (unsigned)unit_below(&random, i - first + 1);
				struct roami_packet *packet = packets[i];

				packets[i] = packets[with];
				packets[with] = packet;
			}
		}
		for (unsigned i = 0; i < SENT; i++) {
			CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[i], HEADER + 16),
					ROAMI_SEAL_GOOD);
			CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[i], HEADER + 16),
					ROAMI_SEAL_REPLAYED);
		}
		for (unsigned i = 0; i < SENT; i++) {
			CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[i], HEADER + 16),
					ROAMI_SEAL_REPLAYED);
			free(packets[i]);
		}
		free(pair);
	}
}

/* A datagram older than the window is refused; a leap forgets nothing that could be replayed. */
static void test_window(void)
{
	struct pair *pair = pair_of_mode(0);
	struct roami_packet *packets[3 * ROAMI_SEAL_WINDOW];
	size_t bytes = HEADER + 16;
	const unsigned last = 3 * ROAMI_SEAL_WINDOW - 1;

	for (unsigned i = 0; i <= last; i++)
		packets[i] = packet_closed(&pair->seals[0], bytes, i);
	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[5], bytes), ROAMI_SEAL_GOOD);
	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[last], bytes), ROAMI_SEAL_GOOD);
	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[5], bytes), ROAMI_SEAL_REPLAYED);
	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[last - ROAMI_SEAL_WINDOW], bytes),
			ROAMI_SEAL_REPLAYED);
	for (unsigned i = last - ROAMI_SEAL_WINDOW + 1; i < last; i++)
		CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[i], bytes), ROAMI_SEAL_GOOD);
	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], packets[last], bytes), ROAMI_SEAL_REPLAYED);
	for (unsigned i = 0; i <= last; i++)
		free(packets[i]);
	free(pair);
}

/* A forged number does not move the window: the datagrams that it claims to follow still arrive. */
static void test_forged_number(void)
{
	struct pair *pair = pair_of_mode(0);
	size_t bytes = HEADER + 16;
	struct roami_packet *good = packet_closed(&pair->seals[0], bytes, 0);
	struct roami_packet *forged = packet_make(bytes, 0);

	memcpy(forged, good, bytes);
	forged->number = UINT64_MAX - 1;
	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], forged, bytes), ROAMI_SEAL_BROKEN);
	forged->number = 100000;
	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], forged, bytes), ROAMI_SEAL_BROKEN);
	CU_ASSERT_EQUAL(packet_open(&pair->seals[1], good, bytes), ROAMI_SEAL_GOOD);
	free(forged);
	free(good);
	free(pair);
}

/* The same bytes look different each time; encrypted ones cannot be seen. */
static void test_never_the_same(void)
{
	for (unsigned mode = 0; mode < MODES; mode++) {
		struct pair *pair = pair_of_mode(mode);
		size_t bytes = HEADER + 64;
		struct roami_packet *first = packet_closed(&pair->seals[0], bytes, 9);
		struct roami_packet *second = packet_closed(&pair->seals[0], bytes, 9);
		struct roami_packet *plain = packet_make(bytes, 9);
		bool shows = memcmp(first + 1, plain + 1, 64) == 0;

		CU_ASSERT_NOT_EQUAL(first->number, second->number);
		CU_ASSERT_NOT_EQUAL(memcmp(first->tag, second->tag, sizeof(first->tag)), 0);
		CU_ASSERT_EQUAL(shows, mode % 2 == 0);
		CU_ASSERT_EQUAL(memcmp(first + 1, second + 1, 64) == 0, mode % 2 == 0);
		free(plain);
		free(second);
		free(first);
		free(pair);
	}
}

static CU_TestInfo tests[] = {{"closed and opened, at every length", test_lengths},
			      {"flipped bits", test_flipped_bits},
			      {"cut short, or longer", test_cut},
			      {"strangers", test_strangers},
			      {"other directions", test_direction},
			      {"replay, and reorder within the window", test_replay},
			      {"beyond the window", test_window},
			      {"a forged number moves nothing", test_forged_number},
			      {"never the same", test_never_the_same},
			      CU_TEST_INFO_NULL};

int main(int argc, char **argv)
{
	return unit_main("seal", tests, argc, argv);
}
