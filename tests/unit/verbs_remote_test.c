/*
 * One-sided operations of the verbs transport, without a card: reads and puts, and the keys of the
 * memory that they go to.
 */
#include <string.h>

#include "job/job.h"
#include "unit.h"
#include "verbs_ends.h"

#define READS  2000u
#define PUTS   2000u
#define PLACES 12u /* where puts go: one at a time each */

/* --------------------------------------------------------------------------------------- reads */

/* Reads of node 0 that are under way. */
static struct reading {
	uint64_t from;
	uint32_t done;
	bool begun;
	uint8_t to[VERBS_READ_MAX];
} readings[SLOTS];
static unsigned begun, ended, failed, began_of[PARTS], puts_begun;

static void reading_begin(struct reading *reading)
{
	struct iovec part = {reading->to, VERBS_READ_MAX};
	uint64_t pages = SHARED / VERBS_READ_MAX;
	enum roam_err err;

	reading->from = unit_below(&draw, pages) * VERBS_READ_MAX;
	if (unit_below(&draw, 2) == 0) /* the last part is short */
		reading->from = (PARTS - 1) * VERBS_PART;
	memset(reading->to, 0xff, sizeof(reading->to));
	err = verbs_onesided.get(&ends[0].verbs, 1, reading->from, &part, 1, &reading->done);
	CU_ASSERT_FATAL(err == ROAM_OK || err == ROAM_EAGAIN);
	reading->begun = err == ROAM_OK;
	begun += reading->begun;
	began_of[reading->from / VERBS_PART] += reading->begun;
}

static void reading_end(struct reading *reading)
{
	verbs_onesided.reap(&ends[0].verbs);
	if (reading->done == 0)
		return;
	reading->begun = false;
	if (reading->done == 1 && puts_begun == 0)
		CU_ASSERT_FATAL(memcmp(reading->to, ends[1].shared + reading->from,
				       VERBS_READ_MAX) == 0);
	ended++;
	failed += reading->done != 1;
}

static void readings_turn(void)
{
	struct reading *reading = &readings[unit_below(&draw, SLOTS)];

	clock_ns += TURN_NS;
	if (reading->begun)
		reading_end(reading);
	else if (unit_below(&draw, 2) == 0)
		reading_begin(reading);
	end_send(&ends[unit_below(&draw, ENDS)]);
	end_poll(&ends[0]);
	end_poll(&ends[1]);
	if (unit_below(&draw, 4) == 0)
		verbs_keys_serve(&ends[unit_below(&draw, ENDS)].verbs);
}

static void readings_open(void)
{
	ends_open();
	memset(readings, 0, sizeof(readings));
	memset(began_of, 0, sizeof(began_of));
	begun = ended = failed = puts_begun = 0;
}

static void test_reads(void)
{
	struct reading beyond;
	struct iovec part = {beyond.to, VERBS_READ_MAX};

	readings_open();
	CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1, SHARED - 1, &part, 1, &beyond.done) ==
		  ROAM_EINVAL);
	CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1, VERBS_PART - LINE, &part, 1,
				     &beyond.done) == ROAM_EINVAL);
	reading_begin(&readings[0]);
	CU_ASSERT_EQUAL(begun, 0); /* there is no key yet */
	for (unsigned turn = 0; turn < 100 * READS && ended < READS; turn++)
		readings_turn();
	CU_ASSERT_EQUAL(ended, READS);
	CU_ASSERT_EQUAL(failed, 0);
	CU_ASSERT_EQUAL(began_of[REFUSED], 0);
	CU_ASSERT(ends[0].delivered > 0 && ends[1].delivered > 0);
	CU_ASSERT_EQUAL(notes, 0);
}

/*
 * There is room for one part at a time: each is read, by a key of its own each time, and none is
 * deregistered while the peer reads it.
 */
static void test_keys_come_back(void)
{
	struct verbs_reads *reads = &ends[1].verbs.reads;

	readings_open();
	for (unsigned i = 0; i < PARTS; i++) {
		reads->parts[i].region = NULL;
		ends[1].registered[i] = false;
	}
	reads->most = VERBS_PART;
	for (unsigned turn = 0; turn < 10 * READS; turn++) {
		readings_turn();
		clock_ns += 10 * TURN_NS;
	}
	CU_ASSERT(ended > READS / 2);
	CU_ASSERT_EQUAL(failed, 0);
	for (unsigned i = 0; i < PARTS; i++)
		CU_ASSERT(began_of[i] > READS / 40);
	CU_ASSERT(deregistrations > 4);
	CU_ASSERT(registrations - deregistrations <= 2);
	CU_ASSERT_EQUAL(notes, 0);
	verbs_parts_close(reads);
	CU_ASSERT_EQUAL(registrations, deregistrations);
	CU_ASSERT_EQUAL(reads->registered, 0);
}

/* A part that somebody still reads stays, however long that takes. */
static void test_key_kept(void)
{
	struct verbs_reads *reads = &ends[1].verbs.reads;
	struct verbs_key key = {.part = 0};
	struct iovec part = {readings[0].to, VERBS_READ_MAX};
	uint32_t done;

	readings_open();
	for (unsigned i = 0; i < PARTS; i++) {
		reads->parts[i].region = NULL;
		ends[1].registered[i] = false;
	}
	reads->most = VERBS_PART;
	for (unsigned turn = 0; turn < READS && ends[0].reading_count == 0; turn++)
		readings_turn();
	CU_ASSERT_FATAL(ends[0].reading_count > 0 && registrations == 1);
	ends[0].reads_wait = true;
	clock_ns += SECOND / 2;
	while (ends[1].registered[key.part])
		key.part++;
	for (unsigned turn = 0; turn < READS; turn++) {
		CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1, key.part * VERBS_PART, &part, 1,
					     &done) == ROAM_EAGAIN);
		verbs_keys_serve(&ends[turn % ENDS].verbs);
		end_poll(&ends[0]);
		end_poll(&ends[1]);
		CU_ASSERT_FATAL(deregistrations == 0);
	}
	CU_ASSERT(atomic_load(&reads->leaving) != 0);
	CU_ASSERT_EQUAL(atomic_load(&ends[0].verbs.peers[1].back), atomic_load(&reads->leaving));
	CU_ASSERT(ends[0].reading_count < SLOTS);
	CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1,
				     (atomic_load(&reads->leaving) - 1) * VERBS_PART, &part, 1,
				     &done) == ROAM_EAGAIN);
	/* A key that the peer was not asked for, and one that this node has not. */
	CU_ASSERT(!verbs_key_take(&ends[1].verbs, &ends[1].verbs.peers[0], VERBS_GIVEN, &key));
	CU_ASSERT(!verbs_key_take(&ends[1].verbs, &ends[1].verbs.peers[0], VERBS_BACK, &key));
	ends[0].reads_wait = false;
	for (unsigned turn = 0; turn < READS; turn++) {
		verbs_onesided.reap(&ends[0].verbs);
		verbs_keys_serve(&ends[turn % ENDS].verbs);
		end_poll(&ends[0]);
		end_poll(&ends[1]);
	}
	CU_ASSERT_EQUAL(deregistrations, 1);
	CU_ASSERT_EQUAL(registrations, 2);
	verbs_parts_close(reads);
}

/* A key is told, too, that was wanted before its node knew that the two are connected. */
static void test_key_early(void)
{
	struct verbs_peer *peer = &ends[1].verbs.peers[0];
	struct iovec part = {readings[0].to, VERBS_READ_MAX};
	uint32_t done;

	readings_open();
	atomic_store(&peer->at, VERBS_JOINING);
	CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1, 0, &part, 1, &done) == ROAM_EAGAIN);
	for (unsigned turn = 0; turn < READS / 10; turn++) {
		end_poll(&ends[1]);
		verbs_keys_serve(&ends[1].verbs);
	}
	CU_ASSERT(!verbs_keys_serve(&ends[1].verbs));
	atomic_store(&peer->at, VERBS_READY);
	for (unsigned turn = 0; turn < READS; turn++)
		readings_turn();
	CU_ASSERT(began_of[0] > 0);
}

/* What is said of a part that is not there, and a key that nobody has asked for. */
static void test_malformed_keys(void)
{
	static const struct verbs_key keys[] = {{0, PARTS, 0}, {0, UINT32_MAX, 0}, {4096, 0, 100}};

	for (size_t i = 0; i < 3; i++) {
		struct verbs_state *verbs;
		int bad = -1;

		ends_open();
		verbs = &ends[1].verbs;
		verbs_post_what(verbs, &verbs->peers[0], i < 2 ? VERBS_WANT : VERBS_KEY, &keys[i],
				sizeof(keys[i]));
		for (unsigned turn = 0; turn < 20 && bad < 0; turn++)
			roami_transport_verbs.poll(&ends[0].verbs, end_take, &ends[0], 1, &bad);
		CU_ASSERT_EQUAL(bad, 1);
	}
}

/* The nodes of a host share its memory. */
static void test_shares(void)
{
	struct verbs_reads *reads = &ends[0].verbs.reads;
	uint64_t alone, four;

	ends_open();
	verbs_reads_free(reads);
	CU_ASSERT(verbs_onesided.attach(&ends[0].verbs, ends[0].shared, SHARED) == ROAM_OK);
	alone = reads->most;
	verbs_reads_free(reads);
	ends[0].verbs.params.local = 4;
	CU_ASSERT(verbs_onesided.attach(&ends[0].verbs, ends[0].shared, SHARED) == ROAM_OK);
	four = reads->most;
	CU_ASSERT(four > alone / 5 && four < alone / 3);
}

/* The nodes join again what broke. */
static void join_turn(void)
{
	verbs_remote_serve(&ends[unit_below(&draw, ENDS)].verbs);
}

/*
 * A READ that fails ends those under way, and for a while all, but not the connection; then there
 * are READs again.  As often as they fail, queue pairs are made in measure.
 */
static void test_reads_fail(void)
{
	uint64_t start;
	uint32_t before;

	readings_open();
	for (unsigned turn = 0; turn < 100 * READS && ended < READS / 10; turn++)
		readings_turn();
	for (unsigned round = 0; round < 5; round++) {
		before = failed;
		ends[0].reads_fail = true;
		for (unsigned turn = 0; turn < READS; turn++)
			readings_turn();
		CU_ASSERT(failed > before && failed <= before + SLOTS);
		ends[0].reads_fail = false;
		for (unsigned turn = 0; turn < READS; turn++)
			readings_turn();
		CU_ASSERT(failed <= before + SLOTS);
		before = begun;
		for (unsigned turn = 0; turn < 10 * READS && begun < before + READS / 10; turn++) {
			readings_turn();
			join_turn();
		}
		CU_ASSERT(begun >= before + READS / 10);
	}
	CU_ASSERT(notes == 1 && lost_count == 0);
	CU_ASSERT(ends[0].remote_number == 5 && ends[1].remote_number == 5);
	CU_ASSERT(atomic_load(&ends[0].verbs.peers[1].at) == VERBS_READY);
	ends[0].reads_fail = true;
	for (start = clock_ns; clock_ns < start + SECOND;) {
		readings_turn();
		join_turn();
	}
	CU_ASSERT(ends[0].remote_number > 10 && ends[0].remote_number < 5 + 22);
}

/* ---------------------------------------------------------------------------------------- puts */

static struct put {
	uint64_t magic;
	uint32_t number;
	uint32_t parts;
	bool under_way;
	struct roam_put put[VERBS_PUT_PARTS];
	uint8_t bytes[VERBS_PUT_BYTES];
} putting[PLACES];
static uint8_t expected[SHARED];
static unsigned puts_come;

/* Whether these are the bytes of a put's message; then all its bytes have come before. */
static bool puts_take(const struct end *end, const void *data, size_t bytes)
{
	const struct put *come = data;
	struct put *put;

	if (bytes < 64 || come->magic != PUTS)
		return false;
	put = &putting[come->number % PLACES];
	CU_ASSERT_FATAL(end == &ends[1] && put->under_way && put->number == come->number);
	for (unsigned i = 0; i < put->parts; i++) {
		CU_ASSERT(memcmp(end->shared + put->put[i].to, put->put[i].from,
				 put->put[i].bytes) == 0);
		memcpy(expected + put->put[i].to, put->put[i].from, put->put[i].bytes);
	}
	put->under_way = false;
	puts_come++;
	return true;
}

/* Bytes of one place, in stretches that do not touch each other. */
static void put_begin(unsigned number)
{
	struct put *put = &putting[number % PLACES];
	uint64_t part = unit_below(&draw, 2) * (PARTS - 1);
	uint64_t at = part * VERBS_PART + (number % PLACES) * 512;
	struct iovec message[] = {{put, 40}, {put, 24}};
	uint8_t *from = put->bytes;
	enum roam_err err;

	*put = (struct put){.magic = PUTS, .number = number};
	for (uint64_t end = at + 500; put->parts < VERBS_PUT_PARTS; put->parts++) {
		size_t some = 1 + unit_below(&draw, 60);

		at += 1 + unit_below(&draw, 20);
		if (at + some > end)
			break;
		for (size_t i = 0; i < some; i++)
			from[i] = (uint8_t)unit_random(&draw);
		put->put[put->parts] = (struct roam_put){at, from, some};
		at += some;
		from += some;
	}
	err = verbs_onesided.put(&ends[0].verbs, 1, put->put, put->parts, message, 2);
	CU_ASSERT_FATAL(err == ROAM_OK || err == ROAM_EAGAIN);
	put->under_way = err == ROAM_OK;
	puts_begun += put->under_way;
}

static void put_try(unsigned *number)
{
	if (unit_below(&draw, 2) == 0 && !putting[*number % PLACES].under_way) {
		put_begin(*number);
		*number += putting[*number % PLACES].under_way;
	}
}

static void puts_turn(unsigned *number)
{
	readings_turn();
	join_turn();
	put_try(number);
}

static void puts_open(void)
{
	readings_open();
	put_take = puts_take;
	memset(putting, 0, sizeof(putting));
	memcpy(expected, ends[1].shared, SHARED);
	puts_come = 0;
}

/* Lets what is under way come, or go on. */
static void puts_pass(void)
{
	end_poll(&ends[0]);
	end_poll(&ends[1]);
	join_turn();
	clock_ns += TURN_NS;
}

/* Runs until so many puts have come; after each `fails` of them one fails; 0: none. */
static void puts_run(unsigned fails)
{
	unsigned number = 0, next = fails;

	puts_open();
	for (unsigned turn = 0; turn < 500 * PUTS && puts_come < PUTS; turn++) {
		if (fails != 0 && puts_come >= next) {
			ends[0].puts_fail = true;
			next += fails;
		}
		puts_turn(&number);
	}
	CU_ASSERT(puts_come == PUTS);
	for (; puts_come < puts_begun && number < 500 * PUTS; number++)
		puts_pass();
	CU_ASSERT_EQUAL(puts_come, puts_begun);
	CU_ASSERT(memcmp(expected, ends[1].shared, SHARED) == 0);
	CU_ASSERT(atomic_load(&ends[0].verbs.peers[1].at) == VERBS_READY && lost_count == 0);
}

static void test_puts(void)
{
	puts_run(0);
	CU_ASSERT(notes == 0 && ends[0].remote_number == 0);
	CU_ASSERT_EQUAL(atomic_load(&ends[1].verbs.peers[0].put_resent), 0);
}

static void test_puts_fail(void)
{
	puts_run(100);
	CU_ASSERT(notes == 1 && ends[0].remote_number > 3 &&
		  ends[0].remote_number == ends[1].remote_number);
	CU_ASSERT(atomic_load(&ends[1].verbs.peers[0].put_resent) > 3);
}

/*
 * A peer that has taken puts may say so before the card says that it is done with them.  As long as
 * it does not, no more begin than are noted, even if there are bounce pages; then one fails, and
 * what has not come comes by message.
 */
static void test_puts_unnoted(void)
{
	struct verbs_reads *reads = &ends[0].verbs.reads;
	unsigned number = 0, before;

	puts_open();
	for (unsigned turn = 0; turn < 500 * PUTS && puts_come < PUTS / 10; turn++)
		puts_turn(&number);
	for (unsigned turn = 0; turn < PUTS; turn++)
		puts_pass();
	CU_ASSERT_FATAL(puts_come > 0 && puts_come == puts_begun);
	reads->slots = (1u << BOUNCES) - 1;
	atomic_fetch_or(&reads->free, reads->slots & ~((1u << SLOTS) - 1));
	CU_ASSERT_FATAL(roami_os_lock_try(&reads->reaping));
	before = puts_begun;
	for (unsigned turn = 0; turn < PUTS; turn++, puts_pass())
		put_try(&number);
	CU_ASSERT_EQUAL(puts_begun, before + VERBS_PUTS);
	CU_ASSERT_EQUAL(puts_come, puts_begun);
	roami_os_unlock(&reads->reaping);
	ends[0].puts_fail = true;
	for (unsigned turn = 0; turn < 10 * PUTS; turn++, puts_pass())
		put_try(&number);
	for (unsigned turn = 0; turn < PUTS; turn++)
		puts_pass();
	CU_ASSERT(puts_begun > before + VERBS_PUTS && puts_come == puts_begun);
	CU_ASSERT(atomic_load(&ends[1].verbs.peers[0].put_resent) > 0);
	CU_ASSERT(memcmp(expected, ends[1].shared, SHARED) == 0);
	CU_ASSERT_EQUAL(lost_count, 0);
}

/* What is no put, or does not lie in one part. */
static void test_puts_wrong(void)
{
	static const struct roam_put wrong[][2] = {
		{{0, expected, VERBS_PUT_BYTES + 1}, {64, expected, 8}},
		{{0, expected, 8}, {VERBS_PART, expected, 8}},
		{{VERBS_PART - 4, expected, 8}, {0, expected, 8}},
		{{SHARED - 4, expected, 8}, {SHARED - 16, expected, 8}},
		{{0, expected, 0}, {64, expected, 8}},
		{{0, expected, VERBS_PUT_BYTES}, {4096, expected, 1}},
	};
	uint8_t bytes[VERBS_PUT_MESSAGE + 1] = {0};
	struct iovec message = {bytes, 64};

	ends_open();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CU_ASSERT_EQUAL(
			verbs_onesided.put(&ends[0].verbs, 1, wrong[i], 2, &message, 1),
			ROAM_EINVAL);
	message.iov_len = sizeof(bytes);
	CU_ASSERT_EQUAL(verbs_onesided.put(&ends[0].verbs, 1, &wrong[1][0], 1, &message, 1),
			ROAM_EINVAL);
	/* As it comes by message. */
	for (unsigned i = 0; i < 4; i++) {
		struct verbs_store store = {1, 8, {{i == 0 ? SHARED - 4 : 0, 8, 0}}};
		uint8_t come[sizeof(store) + 16];
		struct iovec found;

		store.message = i == 1 ? VERBS_PUT_MESSAGE + 1 : 8;
		store.count = i == 2 ? VERBS_PUT_PARTS + 1 : 1;
		memset(come, 7, sizeof(come));
		memcpy(come, &store, sizeof(store));
		CU_ASSERT(!verbs_put_store(&ends[0].verbs, (void *)come,
					   sizeof(come) - (i == 3), &found));
	}
}

/* The peers of node 0 whose memory a job lets its card read; it has 1 or 2 nodes on its host. */
static uint64_t chosen(unsigned hosts, unsigned seal, bool onesided, const char *faulty)
{
	static struct roami_job job;
	const struct roam_transport *by[ROAMI_NODES_MAX];
	struct roami_node_params params = {.me = 0, .nodes = ENDS};

	job.boot.hosts = hosts;
	job.boot.host[1] = hosts > 1;
	job.options.onesided = onesided;
	job.options.seal = seal;
	strcpy(job.options.transport, "verbs");
	strcpy(job.options.faulty, faulty);
	CU_ASSERT_FATAL(roami_job_transports(&job, &params, by));
	CU_ASSERT(by[0] == &roami_transport_verbs && by[1] == &roami_transport_verbs);
	CU_ASSERT_EQUAL(params.local, hosts > 1 ? 1 : 2);
	return params.read;
}

/* No layer lies between the card and the node that would not pass on what has landed. */
static void test_chosen(void)
{
	CU_ASSERT_EQUAL(chosen(1, ROAMI_SEAL_AUTO, true, ""), 2);
	CU_ASSERT_EQUAL(chosen(2, ROAMI_SEAL_OFF, true, ""), 2);
	CU_ASSERT_EQUAL(chosen(2, ROAMI_SEAL_AUTO, true, "drop=5%"), 2); /* it is not injected */
	CU_ASSERT_EQUAL(chosen(1, ROAMI_SEAL_AUTO, true, "drop=5%"), 0);
	CU_ASSERT_EQUAL(chosen(1, ROAMI_SEAL_AUTH, true, ""), 0);
	CU_ASSERT_EQUAL(chosen(2, ROAMI_SEAL_ENCRYPT, true, ""), 0);
	CU_ASSERT_EQUAL(chosen(1, ROAMI_SEAL_AUTO, false, ""), 0);
}

static CU_TestInfo tests[] = {
	{"cards read where nothing lies between them and the node", test_chosen},
	{"pages are read by their keys, where there are keys", test_reads},
	{"a read that fails ends reads for a while, not the connection", test_reads_fail},
	{"puts come whole, before their messages, each once", test_puts},
	{"puts that fail come by message, and nothing of them later", test_puts_fail},
	{"no more puts begin than are noted", test_puts_unnoted},
	{"what is no put is refused", test_puts_wrong},
	{"keys come back before parts are deregistered", test_keys_come_back},
	{"a part that is read stays registered", test_key_kept},
	{"a key that is wanted early is told later", test_key_early},
	{"the nodes of a host share its memory", test_shares},
	{"malformed keys are refused", test_malformed_keys},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("verbs_remote", tests, argc, argv);
}
