/*
 * The standard input of a launcher's job, which the launcher gives to node 0 alone: how it comes to
 * all nodes while main is executed up to CREATE.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch/wireup.h"

/* Of the first node of each host that is not node 0's, if node 0 gives its input to all. */
struct wireup_input {
	int32_t first; /* of the pipes that the host's nodes have it by */
	uint32_t port; /* where node 0 brings it */
};

/* The first node on the host of `node`. */
static unsigned wireup_first(const struct roami_job *job, unsigned node)
{
	unsigned first = 0;

	while (job->boot.host[first] != job->boot.host[node])
		first++;
	return first;
}

__attribute__((noreturn)) static void wireup_no_input(struct roami_job *job)
{
	roami_bound_fail(&wireup_of(job)->bound,
			 "node %u on host %s cannot have a copy of node 0's input: %s%s",
			 job->boot.me, job->boot.names[job->boot.me], strerror(errno),
			 errno == EADDRINUSE ? " (no TCP port is free: "
					       "net.ipv4.ip_local_port_range)"
					     : "");
	roami_wireup_failed(job);
}

/* The key that node 0 and the first node of another host share. */
static void wireup_pair_key(struct roami_job *job, unsigned other, uint8_t key[ROAMI_KEY_BYTES])
{
	_Static_assert(crypto_box_BEFORENMBYTES == ROAMI_KEY_BYTES, "it fits");
	if (crypto_box_beforenm(key, wireup_of(job)->hello[other].public, wireup_of(job)->secret) !=
	    0)
		WIREUP_FAIL(job, WIREUP_OLD, other);
}

/*
 * How node 0 connects to another host to send it the input: addresses in node 0's own networks are
 * tried first.
 */
static void wireup_bring(struct roami_job *job, unsigned node, uint32_t port)
{
	const struct wireup_hello *mine = &wireup_of(job)->hello[0];
	const struct wireup_hello *there = &wireup_of(job)->hello[node];
	struct roami_stdin_target target = {.port = (uint16_t)port};

	for (unsigned turn = 0; turn < 2; turn++)
		for (uint32_t i = 0; i < there->addresses; i++)
			if (wireup_near(&there->address[i], mine) == (turn == 0))
				target.addresses[target.count++] = there->address[i].address;
	if (there->net_space == mine->net_space) /* only processes are hidden from each other */
		target.addresses[target.count++] = INADDR_LOOPBACK;
	snprintf(target.host, sizeof(target.host), "%s", job->boot.names[node]);
	wireup_pair_key(job, node, target.key);
	if (!roami_stdin_bring(wireup_of(job)->relay, node, &target))
		wireup_no_input(job);
	explicit_bzero(&target, sizeof(target));
}

/* How many addresses wireup_bring tries for this host. */
static unsigned wireup_tried(const struct roami_job *job)
{
	const struct wireup_hello *hello = wireup_of(job)->hello, *mine = &hello[job->boot.me];

	return mine->addresses + (mine->net_space == hello[0].net_space);
}

/*
 * On another host the first node receives the input and gives it to all nodes there; returns its
 * pipes.
 */
static int32_t wireup_relay_far(struct roami_job *job, unsigned near)
{
	uint8_t key[ROAMI_KEY_BYTES];
	struct wireup_input mine = {0}, all[ROAMI_NODES_MAX];
	uint16_t port = 0;

	if (job->boot.me == near && near != 0) {
		wireup_pair_key(job, 0, key);
		wireup_of(job)->relay = roami_stdin_fetch(job->boot.nodes, wireup_tried(job), key,
							 &port, &job->real.aside);
		if (wireup_of(job)->relay == NULL)
			wireup_no_input(job);
		mine = (struct wireup_input){wireup_of(job)->relay->first, port};
		explicit_bzero(key, sizeof(key));
	}
	roami_wireup_gather(job, &mine, sizeof(mine), sizeof(mine));
	for (unsigned node = 0; node < job->boot.nodes; node++)
		memcpy(&all[node], wireup_of(job)->blobs[node].data, sizeof(all[node]));
	for (unsigned node = 1; node < job->boot.nodes && job->boot.me == 0; node++)
		if (wireup_first(job, node) == node)
			wireup_bring(job, node, all[node].port);
	return near == 0 ? wireup_of(job)->hello[0].input : all[near].first;
}

void roami_wireup_relay(struct roami_job *job)
{
	unsigned near = wireup_first(job, job->boot.me);
	int32_t pipes = wireup_of(job)->hello[0].input;
	bool good;

	if (pipes <= 0)
		return;
	if (job->boot.hosts > 1)
		pipes = wireup_relay_far(job, near);
	if (job->boot.me == near)
		good = roami_stdin_start(wireup_of(job)->relay, near);
	else
		good = roami_stdin_take(wireup_of(job)->hello[near].pid, pipes, job->boot.me);
	if (!good)
		wireup_no_input(job);
}

int32_t roami_wireup_make_relay(struct roami_job *job)
{
	int from = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);

	if (from < 0 && errno == EBADF)
		return 0;
	if (from >= 0)
		wireup_of(job)->relay =
			roami_stdin_open(job->boot.nodes, from, &job->real.aside);
	if (wireup_of(job)->relay != NULL)
		return wireup_of(job)->relay->first;
	roami_bound_fail(&wireup_of(job)->bound, "cannot copy the standard input to all nodes: %s",
			 strerror(errno));
	roami_wireup_failed(job);
}
