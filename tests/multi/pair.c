/*
 * Two programs that meet: what include/roam/dp.h promises of a pair.
 *
 * usage: pair listen|connect ADDRESS KEY_FILE CASE
 */
#include <poll.h>
#include <roam/dp.h>
#include <stdbool.h>
#include <unistd.h>

#include "multi.h"

#define PORT 3u
#define S    UINT64_C(1000000000)

static uint8_t bytes[ROAM_DP_MESSAGE_MAX];
static struct roam_dp_pair *pair;
static struct roam_dp *dp;
static unsigned me;

static uint8_t byte_of(unsigned node, unsigned number, size_t at)
{
	return (uint8_t)(node * 89 + number * 31 + at * 7 + at / 256);
}

static size_t length_of(unsigned number)
{
	return number % 9 == 8 ? ROAM_DP_MESSAGE_MAX - number : number * 97;
}

/* The other program may not have opened the endpoint yet. */
static enum roam_err send_first(const void *data, size_t count)
{
	enum roam_err err;

	while ((err = roam_dp_send(dp, 1 - me, PORT, data, count, 0)) == ROAM_EUNKNOWN)
		usleep(1000);
	return err;
}

static void send_number(unsigned number)
{
	for (size_t at = 0; at < length_of(number); at++)
		bytes[at] = byte_of(me, number, at);
	must(send_first(bytes, length_of(number)));
}

static void receive_number(unsigned number)
{
	struct roam_dp_message got;

	must(roam_dp_receive(dp, bytes, sizeof(bytes), 30 * S, &got));
	check(got.node == 1 - me && got.endpoint == PORT && got.bytes == length_of(number));
	for (size_t at = 0; at < got.bytes; at++)
		check(bytes[at] == byte_of(1 - me, number, at));
}

/* Each sends to the other in turn; then one parts with messages that the other has not received. */
static void test_talk(void)
{
	for (unsigned number = 0; number < 60; number++) {
		if (number % 2 == me)
			send_number(number);
		else
			receive_number(number);
	}
	if (me == 0) {
		for (unsigned number = 0; number < 7; number++)
			send_number(number);
		roam_dp_part(pair);
		must_fail(roam_dp_send(dp, 1, PORT, bytes, 1, 0), ROAM_ESTATE);
		roam_dp_close(dp);
		pair = NULL;
		return;
	}
	usleep(200000);
	for (unsigned number = 0; number < 7; number++)
		receive_number(number);
	must_fail(roam_dp_receive(dp, bytes, 1, 0, NULL), ROAM_ELOST);
	must_fail(roam_dp_send(dp, 0, PORT, bytes, 1, 0), ROAM_ELOST);
}

/* One dies: the other one, which waits, is told, and so is poll(2). */
static void test_dies(void)
{
	struct pollfd at = {roam_dp_file(dp), POLLIN, 0};

	if (me == 0) {
		must(roam_dp_receive(dp, bytes, 1, 30 * S, NULL));
		_exit(0);
	}
	must(send_first(bytes, 1));
	check(poll(&at, 1, 20000) == 1);
	must_fail(roam_dp_receive(dp, bytes, 1, 0, NULL), ROAM_ELOST);
}

/* As test_dies, where the other one waits for room. */
static void test_full(void)
{
	enum roam_err err;

	if (me == 0) {
		must(roam_dp_receive(dp, bytes, sizeof(bytes), 30 * S, NULL));
		usleep(300000);
		_exit(0);
	}
	do
		err = send_first(bytes, 9000);
	while (err == ROAM_OK);
	check(err == ROAM_ELOST);
}

/* After a pair there can be another one, and a job. */
static void test_again(void)
{
	must(send_first(bytes, 10));
	must(roam_dp_receive(dp, bytes, 10, 30 * S, NULL));
}

/* A pair and a job exclude each other; a process has one pair. */
static void test_state(void)
{
	struct roam_dp_pair *more;
	struct roam_dp *none;

	must_fail(roam_start(), ROAM_ESTATE);
	must_fail(roam_dp_meet("/tmp/none", NULL, 1, S, &more), ROAM_ESTATE);
	must_fail(roam_dp_meet(NULL, NULL, 1, S, &more), ROAM_EINVAL);
	must_fail(roam_dp_open(1, &none), ROAM_ESTATE);
	must_fail(roam_dp_open_pair(pair, PORT, &none), ROAM_EBUSY);
	must_fail(roam_dp_open_pair(pair, UINT32_MAX, &none), ROAM_EINVAL);
	must_fail(roam_dp_send(dp, 2, PORT, bytes, 1, 0), ROAM_EINVAL);
	check(roam_dp_pair_node(pair) == me);
	must(roam_dp_send(dp, me, PORT, bytes, 5, 0));
	must(roam_dp_receive(dp, bytes, 5, 0, NULL));
	must(roam_dp_open_pair(pair, PORT + 1, &none));
	must_fail(roam_dp_receive(none, bytes, 5, S / 50, NULL), ROAM_ETIMEDOUT);
	roam_dp_close(none);
	test_again(); /* the other one parts only when this one is here */
}

static const struct {
	const char *name;
	void (*run)(void);
	unsigned turns;
} tests[] = {{"talk", test_talk, 1}, {"dies", test_dies, 1},   {"full", test_full, 1},
	     {"state", test_state, 1}, {"again", test_again, 20}};

static void meet(char **argv)
{
	bool listens = strcmp(argv[1], "listen") == 0;
	enum roam_err err = roam_dp_meet(argv[2], argv[3], listens, 20 * S, &pair);

	if (err != ROAM_OK)
		exit(10 + (int)err);
	me = roam_dp_pair_node(pair);
	check(me == (listens ? 0 : 1));
	must(roam_dp_open_pair(pair, PORT, &dp));
}

static void part(void)
{
	if (pair == NULL)
		return;
	roam_dp_close(dp);
	roam_dp_part(pair);
}

int main(int argc, char **argv)
{
	for (unsigned i = 0; argc > 4 && i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (strcmp(argv[4], tests[i].name) != 0)
			continue;
		for (unsigned turn = 0; turn < tests[i].turns; turn++) {
			meet(argv);
			tests[i].run();
			part();
		}
		must(roam_start());
		must(roam_finish());
		printf("right\n");
		return 0;
	}
	fprintf(stderr, "usage: pair listen|connect ADDRESS KEY_FILE CASE\n");
	return 2;
}
