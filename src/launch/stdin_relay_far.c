/*
 * The standard input for other hosts: node 0 brings it to the first node of each, which asks for
 * more when its nodes have had all.  A thread for each on either side.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/local.h"
#include "launch/stdin_relay.h"
#include "os/os.h"

#define FETCH_NS UINT64_C(4000000000) /* until node 0 must have tried the first address */

/*
 * The connection is lost, and nodes would take a part for the whole input: the job ends, unless no
 * node reads any more.
 */
static void far_failed(const struct roami_stdin *relay, const char *what, const char *host)
{
	if (atomic_load(&relay->taken))
		return;
	fprintf(stderr, "roam: %s %s, which the program may read (no TCP between the hosts?)\n",
		what, host);
	_exit(ROAMI_EXIT_REPORTED);
}

/* The next frame; false: none will come by then. */
static bool far_frame(struct roami_wire *wire, struct roami_frame *frame)
{
	struct pollfd ready = {wire->fd, POLLIN, 0};
	enum roami_os_got got;

	while ((got = roami_wire_receive(wire, frame)) == ROAMI_OS_NOTHING)
		poll(&ready, 1, -1);
	return got == ROAMI_OS_GOT && frame->kind == ROAMI_FRAME_INPUT;
}

/* --------------------------------------------------------------------------------------- node 0 */

struct relay_bring {
	const struct roami_stdin *relay;
	struct roami_stdin_target target;
	int from;
	bool reached;
	struct roami_wire wire;
	struct roami_frame frame;
};

/*
 * Sends one portion when the other side asks for it.  false: there is no more, or no node wants
 * more.
 */
static bool bring_some(struct relay_bring *bring)
{
	ssize_t got;

	if (bring->reached && !far_frame(&bring->wire, &bring->frame))
		return false;
	do
		got = read(bring->from, bring->frame.payload, sizeof(bring->frame.payload));
	while (got < 0 && errno == EINTR);
	if (!bring->reached && got > 0)
		far_failed(bring->relay, "cannot bring the standard input to host",
			   bring->target.host);
	return bring->reached &&
	       roami_wire_send(&bring->wire, ROAMI_FRAME_INPUT, 0, bring->frame.payload,
			       got > 0 ? (size_t)got : 0) &&
	       got > 0;
}

static void *bring_main(void *arg)
{
	struct relay_bring *bring = arg;
	const struct roami_stdin_target *target = &bring->target;

	for (unsigned i = 0; i < target->count && !bring->reached; i++)
		bring->reached = roami_listener_reach(&bring->wire, target->addresses[i],
						      target->port, target->key, &bring->frame);
	bring->reached = bring->reached &&
			 roami_wire_send(&bring->wire, ROAMI_FRAME_HELLO, 0, NULL, 0);
	while (bring_some(bring))
		;
	close(bring->from);
	if (bring->reached)
		roami_wire_close(&bring->wire);
	atomic_fetch_sub(bring->relay->aside, 1);
	explicit_bzero(bring, sizeof(*bring)); /* the key is in it */
	free(bring);
	return NULL;
}

bool roami_stdin_bring(const struct roami_stdin *relay, unsigned node,
		       const struct roami_stdin_target *target)
{
	struct relay_bring *bring = calloc(1, sizeof(*bring));

	if (bring == NULL)
		return false;
	bring->relay = relay;
	bring->target = *target;
	bring->from = fcntl(relay->first + (int)node, F_DUPFD_CLOEXEC, 3);
	return bring->from >= 0 && roami_stdin_thread(relay, bring_main, bring);
}

/* --------------------------------------------------------------------------------- other hosts */

struct relay_fetch {
	const struct roami_stdin *relay;
	unsigned addresses; /* of this host */
	struct roami_listener listener;
	int to;
	struct roami_frame frame;
};

/*
 * The connection from node 0; NULL: there is none within the time in which node 0 tries each
 * address.
 */
static struct roami_wire *fetch_await(struct relay_fetch *fetch)
{
	uint64_t until = roami_os_now_ns() + FETCH_NS + fetch->addresses * ROAMI_LISTENER_REACH_NS;
	struct pollfd polls[ROAMI_LISTENER_POLLS];
	struct roami_wire *wire = NULL;

	while (wire == NULL && roami_os_now_ns() < until) {
		roami_listener_due(&fetch->listener);
		roami_listener_polls(&fetch->listener, polls);
		if (poll(polls, ROAMI_LISTENER_POLLS, 1000) > 0)
			wire = roami_listener_turn(&fetch->listener, polls, &fetch->frame);
	}
	roami_listener_shut(&fetch->listener);
	return wire;
}

/* Asks for a portion and passes it on.  false: that was the last, or no node wants more. */
static bool fetch_some(struct relay_fetch *fetch, struct roami_wire *wire)
{
	struct roami_frame *frame = &fetch->frame;

	if (!roami_wire_send(wire, ROAMI_FRAME_INPUT, 0, NULL, 0) || !far_frame(wire, frame)) {
		far_failed(fetch->relay, "lost the connection that brings the standard input of",
			   "node 0");
		return false;
	}
	for (uint32_t at = 0; at < frame->bytes;) {
		ssize_t put = write(fetch->to, frame->payload + at, frame->bytes - at);

		if (put < 0 && errno != EINTR)
			return false;
		at += put > 0 ? (uint32_t)put : 0;
	}
	return frame->bytes > 0;
}

static void *fetch_main(void *arg)
{
	struct relay_fetch *fetch = arg;
	struct roami_wire *wire = fetch_await(fetch);

	while (wire != NULL && fetch_some(fetch, wire))
		;
	close(fetch->to);
	roami_listener_hang_up(wire);
	atomic_fetch_sub(fetch->relay->aside, 1);
	free(fetch);
	return NULL;
}

struct roami_stdin *roami_stdin_fetch(unsigned nodes, unsigned addresses, const uint8_t *key,
				      uint16_t *port_p, _Atomic uint32_t *aside)
{
	struct relay_fetch *fetch = calloc(1, sizeof(*fetch));
	struct roami_stdin *relay;
	int ends[2];

	if (fetch == NULL || !roami_os_pipe(ends, 0))
		return NULL;
	relay = roami_stdin_open(nodes, ends[0], aside);
	fetch->relay = relay;
	fetch->addresses = addresses;
	fetch->to = ends[1];
	if (relay == NULL || !roami_listener_open(&fetch->listener, key, port_p) ||
	    !roami_stdin_thread(relay, fetch_main, fetch))
		return NULL;
	return relay;
}
