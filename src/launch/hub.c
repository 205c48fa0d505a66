#include "launch/hub.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "os/os.h"

#define HUB_MAGIC  UINT64_C(0x726f616d68756231)
#define HUB_HEAD   sizeof(struct roami_hub_head)
#define STRANGE_NS UINT64_C(3000000000) /* for a connection to show which node it is of */
#define SEND_S     5
#define RETRY_US   20000u
#define GREET_MS   1000 /* the time node 0 has to say that it is it */

static void hub_patience(int fd)
{
	const struct timeval patience = {SEND_S, 0};

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

/* --------------------------------------------------------------------------------------- node 0 */

static bool hub_listen(struct roami_bound *bound, struct roami_hub *hub)
{
	const int on = 1;

	hub->peers = calloc(bound->nodes + ROAMI_HUB_STRANGERS, sizeof(*hub->peers));
	if (hub->peers == NULL)
		return roami_bound_fail(bound, "out of memory");
	for (unsigned i = 0; i < bound->nodes + ROAMI_HUB_STRANGERS; i++)
		hub->peers[i].fd = -1;
	for (unsigned i = 0; i < hub->address_count; i++) {
		const struct sockaddr *address = (const void *)&hub->addresses[i];

		hub->listener =
			roami_os_fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
		if (hub->listener < 0)
			break;
		setsockopt(hub->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(hub->listener, address, hub->address_bytes) == 0 &&
		    listen(hub->listener, SOMAXCONN) == 0)
			return true;
		close(hub->listener);
		hub->listener = -1;
	}
	return roami_bound_fail(bound, "node 0 cannot listen for the others: %s%s", strerror(errno),
				errno == EADDRINUSE ? " (other programs have all its ports)" : "");
}

static void hub_drop(struct roami_hub_peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	peer->fd = -1;
	peer->have = 0;
}

/* On one host all nodes belong to one user; between hosts this cannot be checked. */
static bool hub_trusts(const struct roami_hub *hub, int fd, pid_t *pid_p, uid_t *uid_p)
{
	return hub->addresses[0].ss_family != AF_UNIX ||
	       (roami_os_peer(fd, pid_p, uid_p) && *uid_p == geteuid());
}

/* Node 0's first frame, which tells it from other programs that listen at its addresses. */
static void hub_greeting(const struct roami_hub *hub, uint64_t *greeting)
{
	greeting[0] = HUB_MAGIC;
	greeting[1] = hub->job;
}

/* If no slot is free, the oldest connection that is not a node's yet is closed. */
static void hub_accept(struct roami_bound *bound, struct roami_hub *hub)
{
	struct roami_hub_peer *slot = &hub->peers[bound->nodes];
	int fd = roami_os_fd(accept4(hub->listener, NULL, NULL, SOCK_CLOEXEC));
	uint64_t greeting[2];
	pid_t pid;
	uid_t uid;

	if (fd >= 0 && !hub_trusts(hub, fd, &pid, &uid)) {
		close(fd);
		return;
	}
	if (fd < 0)
		return;
	for (unsigned i = 1; i < ROAMI_HUB_STRANGERS && slot->fd >= 0; i++) {
		struct roami_hub_peer *other = &hub->peers[bound->nodes + i];

		if (other->fd < 0 || other->since < slot->since)
			slot = other;
	}
	hub_drop(slot);
	hub_patience(fd);
	slot->fd = fd;
	slot->since = roami_os_now_ns();
	hub_greeting(hub, greeting);
	if (!roami_os_send(fd, greeting, sizeof(greeting)))
		hub_drop(slot);
}

/* Whether what a peer says of itself fits this job and this round. */
static bool hub_fits(const struct roami_bound *bound, const struct roami_hub *hub,
		     const struct roami_hub_peer *peer)
{
	const struct roami_hub_head *head = &peer->head;
	size_t index = (size_t)(peer - hub->peers);

	return head->magic == HUB_MAGIC && head->job == hub->job && head->nodes == bound->nodes &&
	       head->round == hub->round && head->bytes <= ROAMI_BLOB_BYTES && head->node > 0 &&
	       head->node < bound->nodes && (index >= bound->nodes || head->node == index);
}

/* Handles received bytes; false: the peer is gone, or is not a node of this job. */
static bool hub_read(const struct roami_bound *bound, struct roami_hub *hub,
		     struct roami_hub_peer *peer)
{
	size_t want = peer->have < HUB_HEAD ? HUB_HEAD : HUB_HEAD + peer->head.bytes;
	uint8_t *to = peer->have < HUB_HEAD ? (uint8_t *)&peer->head + peer->have
					    : peer->data + (peer->have - HUB_HEAD);
	ssize_t got = recv(peer->fd, to, want - peer->have, MSG_DONTWAIT);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (got <= 0)
		return false;
	peer->have += (size_t)got;
	return peer->have != HUB_HEAD || hub_fits(bound, hub, peer);
}

static bool hub_complete(const struct roami_hub_peer *peer)
{
	return peer->fd >= 0 && peer->have >= HUB_HEAD && peer->have == HUB_HEAD + peer->head.bytes;
}

/* A connection has shown that it is a node's. */
static bool hub_know(struct roami_bound *bound, struct roami_hub *hub,
		     struct roami_hub_peer *stranger)
{
	struct roami_hub_peer *peer = &hub->peers[stranger->head.node];

	if (peer->fd >= 0)
		return roami_bound_fail(bound, ROAMI_TWICE, stranger->head.node);
	*peer = *stranger;
	stranger->fd = -1;
	stranger->have = 0;
	return true;
}

static bool hub_hear(struct roami_bound *bound, struct roami_hub *hub, struct roami_hub_peer *peer)
{
	bool stranger = peer >= hub->peers + bound->nodes;

	if (!hub_read(bound, hub, peer)) {
		hub_drop(peer);
		return stranger || roami_bound_fail(bound, "node %u has ended before it joined",
						    (unsigned)(peer - hub->peers));
	}
	return !stranger || !hub_complete(peer) || hub_know(bound, hub, peer);
}

/* One turn of waiting. */
static bool hub_turn(struct roami_bound *bound, struct roami_hub *hub)
{
	struct pollfd fds[ROAMI_NODES_MAX + ROAMI_HUB_STRANGERS + 1];
	struct roami_hub_peer *who[ROAMI_NODES_MAX + ROAMI_HUB_STRANGERS];
	unsigned count = 0;

	for (unsigned i = 0; i < bound->nodes + ROAMI_HUB_STRANGERS; i++) {
		struct roami_hub_peer *peer = &hub->peers[i];

		if (i >= bound->nodes && peer->fd >= 0 &&
		    roami_os_now_ns() - peer->since > STRANGE_NS)
			hub_drop(peer);
		if (peer->fd < 0 || hub_complete(peer))
			continue;
		who[count] = peer;
		fds[count++] = (struct pollfd){peer->fd, POLLIN, 0};
	}
	fds[count] = (struct pollfd){hub->listener, POLLIN, 0};
	if (poll(fds, count + 1, ROAMI_LOOK_MS) < 0)
		return true;
	for (unsigned i = 0; i < count; i++)
		if (fds[i].revents != 0 && !hub_hear(bound, hub, who[i]))
			return false;
	if ((fds[count].revents & POLLIN) != 0)
		hub_accept(bound, hub);
	return true;
}

/* The first node that is waited for; 0: none. */
static unsigned hub_missing(const struct roami_bound *bound, const struct roami_hub *hub)
{
	for (unsigned node = 1; node < bound->nodes; node++)
		if (!hub_complete(&hub->peers[node]))
			return node;
	return 0;
}

static bool hub_answer(struct roami_bound *bound, struct roami_hub *hub,
		       const struct roami_blob *all)
{
	struct roami_hub_head head = {HUB_MAGIC, hub->job, 0, bound->nodes, hub->round, 0};

	for (unsigned i = 0; i < bound->nodes; i++)
		head.bytes += (uint32_t)sizeof(all[i].bytes) + all[i].bytes;
	for (unsigned node = 1; node < bound->nodes; node++) {
		int fd = hub->peers[node].fd;
		bool good = roami_os_send(fd, &head, sizeof(head));

		for (unsigned i = 0; i < bound->nodes && good; i++)
			good = roami_os_send(fd, &all[i].bytes, sizeof(all[i].bytes)) &&
			       roami_os_send(fd, all[i].data, all[i].bytes);
		if (!good)
			return roami_bound_fail(bound, "node %u has ended before it joined", node);
		hub->peers[node].have = 0;
	}
	return true;
}

static bool hub_collect(struct roami_bound *bound, struct roami_hub *hub, struct roami_blob *all)
{
	unsigned missing;

	while ((missing = hub_missing(bound, hub)) != 0) {
		if (!hub_turn(bound, hub))
			return false;
		if (bound->look == NULL && roami_os_now_ns() >= bound->until)
			return roami_bound_fail(bound,
						"node %u of %u has not come: its process has ended "
						"early, or never called roam_start",
						missing, bound->nodes);
		if (!roami_bound_patient(bound))
			return false;
	}
	for (unsigned node = 1; node < bound->nodes; node++) {
		all[node].bytes = hub->peers[node].head.bytes;
		memcpy(all[node].data, hub->peers[node].data, all[node].bytes);
	}
	if (hub->listener >= 0) { /* all have come */
		close(hub->listener);
		hub->listener = -1;
	}
	return hub_answer(bound, hub, all);
}

/* ----------------------------------------------------------------------------------- the others */

/* Whether it is node 0 that has taken a connection. */
static bool hub_greeted(const struct roami_hub *hub, int fd)
{
	uint64_t wanted[2], greeting[2];
	struct pollfd ready = {fd, POLLIN, 0};

	hub_greeting(hub, wanted);
	return poll(&ready, 1, GREET_MS) > 0 &&
	       recv(fd, greeting, sizeof(greeting), MSG_DONTWAIT) == (ssize_t)sizeof(greeting) &&
	       memcmp(greeting, wanted, sizeof(wanted)) == 0;
}

/* Node 0 may come later, or listen at another of its addresses. */
static bool hub_connect(struct roami_bound *bound, struct roami_hub *hub)
{
	bool good, stranger;
	pid_t pid = 0;
	uid_t uid = (uid_t)-1;

	for (unsigned i = 0;; i++) {
		const struct sockaddr *address =
			(const void *)&hub->addresses[i % hub->address_count];
		int fd = roami_os_fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));

		if (fd < 0)
			return roami_bound_fail(bound, "socket: %s", strerror(errno));
		hub_patience(fd);
		good = connect(fd, address, hub->address_bytes) == 0;
		stranger = good && !hub_trusts(hub, fd, &pid, &uid);
		if (good && !stranger && hub_greeted(hub, fd)) {
			hub->fd = fd;
			return true;
		}
		close(fd);
		if (stranger)
			return roami_bound_fail(bound,
						"process %d of user %u listens in node 0's place",
						(int)pid, (unsigned)uid);
		if (!roami_bound_patient(bound))
			return false;
		usleep(RETRY_US);
	}
}

static bool hub_receive(struct roami_bound *bound, struct roami_hub *hub, void *data, size_t bytes)
{
	enum roami_os_got got = ROAMI_OS_NOTHING;
	size_t have = 0;

	while (got == ROAMI_OS_NOTHING) {
		if (!roami_bound_wait(bound, hub->fd, POLLIN))
			return false;
		got = roami_os_receive(hub->fd, data, &have, bytes);
	}
	if (got == ROAMI_OS_GOT)
		return true;
	bound->quiet = true; /* it has said why */
	return roami_bound_fail(bound, "node 0 has closed the connection");
}

static bool hub_take(struct roami_bound *bound, struct roami_hub *hub, struct roami_blob *all)
{
	struct roami_hub_head head;

	if (!hub_receive(bound, hub, &head, sizeof(head)))
		return false;
	if (head.magic != HUB_MAGIC || head.job != hub->job || head.nodes != bound->nodes ||
	    head.round != hub->round)
		return roami_bound_fail(
			bound, "node 0 belongs to another job, or has another version of roam");
	for (unsigned node = 0; node < bound->nodes; node++) {
		if (!hub_receive(bound, hub, &all[node].bytes, sizeof(all[node].bytes)))
			return false;
		if (all[node].bytes > ROAMI_BLOB_BYTES)
			return roami_bound_fail(bound, "node 0 has sent something malformed");
		if (!hub_receive(bound, hub, all[node].data, all[node].bytes))
			return false;
	}
	return true;
}

static bool hub_give(struct roami_bound *bound, struct roami_hub *hub, const void *mine,
		     size_t bytes)
{
	struct roami_hub_head head = {HUB_MAGIC,    hub->job,   bound->me,
				      bound->nodes, hub->round, (uint32_t)bytes};

	if (hub->fd < 0 && !hub_connect(bound, hub))
		return false;
	return (roami_os_send(hub->fd, &head, sizeof(head)) &&
		roami_os_send(hub->fd, mine, bytes)) ||
	       roami_bound_fail(bound, "node 0 has closed the connection");
}

/* ------------------------------------------------------------------------------------------ all */

bool roami_hub_gather(struct roami_bound *bound, struct roami_hub *hub, const void *mine,
		      size_t bytes, struct roami_blob *all)
{
	bool good;

	if (bound->me == 0 && hub->peers == NULL && !hub_listen(bound, hub))
		return false;
	if (bound->me == 0) {
		all[0].bytes = (uint32_t)bytes;
		if (bytes > 0)
			memcpy(all[0].data, mine, bytes);
		good = hub_collect(bound, hub, all);
	} else {
		good = hub_give(bound, hub, mine, bytes) && hub_take(bound, hub, all);
	}
	hub->round++;
	return good;
}

void roami_hub_close(struct roami_bound *bound, struct roami_hub *hub)
{
	for (unsigned i = 0; hub->peers != NULL && i < bound->nodes + ROAMI_HUB_STRANGERS; i++)
		hub_drop(&hub->peers[i]);
	free(hub->peers);
	if (hub->listener >= 0)
		close(hub->listener);
	if (hub->fd >= 0)
		close(hub->fd);
}
