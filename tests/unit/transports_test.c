/*
 * Transports are chosen by what they declare: the cheapest of those that reach a peer, wherever the
 * peer is; a transport that contradicts itself is refused, and none in the build does.
 */
#include "base/transports.h"

#include <string.h>

#include "unit.h"

static enum roam_err fake_open(void *state, const struct roam_transport_params *params)
{
	(void)state;
	(void)params;
	return ROAM_OK;
}

static void fake_close(void *state)
{
	(void)state;
}

static enum roam_err fake_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	(void)state;
	(void)to;
	(void)parts;
	(void)count;
	return ROAM_EAGAIN;
}

static unsigned fake_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			  int *bad_peer)
{
	(void)state;
	(void)deliver;
	(void)arg;
	(void)max;
	(void)bad_peer;
	return 0;
}

static bool fake_pending(const void *state)
{
	(void)state;
	return false;
}

static void fake_wait(void *state, enum roam_sleeper who, uint64_t timeout_ns)
{
	(void)state;
	(void)who;
	(void)timeout_ns;
}

static enum roam_err fake_attach(void *state, void *segment, size_t bytes)
{
	(void)state;
	(void)segment;
	(void)bytes;
	return ROAM_OK;
}

static struct roam_transport fake(const char *name, unsigned caps, unsigned cost_ns)
{
	return (struct roam_transport){.name = name,
				       .caps = caps,
				       .cost_ns = cost_ns,
				       .message_max = 64,
				       .open = fake_open,
				       .close = fake_close,
				       .send = fake_send,
				       .poll = fake_poll,
				       .pending = fake_pending};
}

/*
 * Each place gets the best transport; an expensive one where no cheaper one reaches; none where
 * none does.
 */
static void test_cheapest(void)
{
	struct roam_transport rings = fake("rings", ROAM_CAP_MAPPED, 100);
	struct roam_transport local = fake("local", 0, 2000);
	struct roam_transport net = fake("net", ROAM_CAP_HOSTS, 5000);
	struct roam_transport card = fake("card", ROAM_CAP_HOSTS, 1500);
	const struct roam_transport *among[] = {&net, &local, &rings, &card, NULL};

	CU_ASSERT_PTR_EQUAL(roami_transport_for(among, ROAMI_WHERE_MAPPED), &rings);
	CU_ASSERT_PTR_EQUAL(roami_transport_for(among, ROAMI_WHERE_HERE), &card);
	CU_ASSERT_PTR_EQUAL(roami_transport_for(among, ROAMI_WHERE_AWAY), &card);
	among[3] = NULL;
	CU_ASSERT_PTR_EQUAL(roami_transport_for(among, ROAMI_WHERE_HERE), &local);
	CU_ASSERT_PTR_EQUAL(roami_transport_for(among, ROAMI_WHERE_AWAY), &net);
	CU_ASSERT_PTR_NULL(roami_transport_for(among + 1, ROAMI_WHERE_AWAY));
	CU_ASSERT_PTR_NULL(roami_transport_for(among + 2, ROAMI_WHERE_HERE));
}

/* A name allows only that transport; auto allows those that work and need not be named. */
static void test_allowed(void)
{
	const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1];

	for (unsigned i = 0; roami_transports[i] != NULL; i++) {
		roami_transports_allowed(roami_transports[i]->name, false, allowed);
		CU_ASSERT_PTR_EQUAL(allowed[0], roami_transports[i]);
		CU_ASSERT_PTR_NULL(allowed[1]);
	}
	roami_transports_allowed("auto", true, allowed);
	CU_ASSERT_PTR_NOT_NULL(roami_transport_for(allowed, ROAMI_WHERE_MAPPED));
	for (unsigned i = 0; allowed[i] != NULL; i++)
		CU_ASSERT_EQUAL(allowed[i]->caps & ROAM_CAP_NAMED, 0);
}

/* The build's transports are sound, and a node's card has room for all of theirs. */
static void test_sound(void)
{
	unsigned end = 0;

	for (unsigned i = 0; roami_transports[i] != NULL; i++) {
		const struct roam_transport *transport = roami_transports[i];

		CU_ASSERT_PTR_NULL(roami_transport_wrong(transport));
		CU_ASSERT(roami_transport_card_at(transport) >= end);
		end = roami_transport_card_at(transport) + transport->card_bytes;
		CU_ASSERT(end <= ROAM_CARD_BYTES);
		CU_ASSERT(transport->cost_ns > 0);
	}
}

static void test_wrong(void)
{
	struct roam_onesided half = {.attach = fake_attach};
	struct roam_transport one = fake("one", ROAM_CAP_HOSTS, 1);

	CU_ASSERT_PTR_NULL(roami_transport_wrong(&one));
	one.onesided = &half;
	CU_ASSERT_PTR_NOT_NULL(roami_transport_wrong(&one));
	one = fake("one", ROAM_CAP_HOSTS | ROAM_CAP_MAPPED, 1);
	CU_ASSERT_PTR_NOT_NULL(roami_transport_wrong(&one));
	one = fake("one", ROAM_CAP_HOSTS, 1);
	one.wait = fake_wait;
	CU_ASSERT_PTR_NOT_NULL(roami_transport_wrong(&one));
	one = fake("one", ROAM_CAP_HOSTS, 1);
	one.pending = NULL;
	CU_ASSERT_PTR_NOT_NULL(roami_transport_wrong(&one));
}

static CU_TestInfo tests[] = {
	{"of those that reach a peer the cheapest", test_cheapest},
	{"a name allows one, auto those that work", test_allowed},
	{"those of the build are sound", test_sound},
	{"what contradicts itself is refused", test_wrong},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("transports", tests, argc, argv);
}
