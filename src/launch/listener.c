#include "launch/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"

#define STRANGE_NS UINT64_C(3000000000) /* for a connection to show the key */
#define REACH_MS   ((int)(ROAMI_LISTENER_REACH_NS / 2000000)) /* to connect, and for the hello */

bool roami_listener_open(struct roami_listener *listener, const uint8_t *key, uint16_t *port_p)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof(address);

	memcpy(listener->key, key, sizeof(listener->key));
	listener->listener = roami_os_fd(
		socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (listener->listener < 0 ||
	    bind(listener->listener, (void *)&address, sizeof(address)) != 0 ||
	    listen(listener->listener, SOMAXCONN) != 0 ||
	    getsockname(listener->listener, (void *)&address, &length) != 0)
		return false;
	*port_p = ntohs(address.sin_port);
	return true;
}

struct roami_wire *roami_listener_hang_up(struct roami_wire *wire)
{
	if (wire != NULL)
		roami_wire_close(wire);
	free(wire);
	return NULL;
}

void roami_listener_shut(struct roami_listener *listener)
{
	for (unsigned i = 0; i < ROAMI_LISTENER_STRANGERS; i++)
		listener->strangers[i].wire = roami_listener_hang_up(listener->strangers[i].wire);
	if (listener->listener >= 0)
		close(listener->listener);
	listener->listener = -1;
	explicit_bzero(listener->key, sizeof(listener->key));
}

void roami_listener_polls(const struct roami_listener *listener, struct pollfd *polls)
{
	polls[0] = (struct pollfd){listener->listener, POLLIN, 0};
	for (unsigned i = 0; i < ROAMI_LISTENER_STRANGERS; i++) {
		const struct roami_wire *wire = listener->strangers[i].wire;

		polls[1 + i] = (struct pollfd){wire != NULL ? wire->fd : -1, POLLIN, 0};
	}
}

/*
 * If no slot is free the oldest connection is closed: connections without the key keep no other
 * out.
 */
static void listener_accept(struct roami_listener *listener)
{
	struct roami_stranger *stranger = listener->strangers;
	int fd = roami_os_fd(accept4(listener->listener, NULL, NULL, SOCK_CLOEXEC));

	if (fd < 0)
		return;
	for (unsigned i = 1; i < ROAMI_LISTENER_STRANGERS && stranger->wire != NULL; i++)
		if (listener->strangers[i].wire == NULL ||
		    listener->strangers[i].until < stranger->until)
			stranger = &listener->strangers[i];
	if (stranger->wire != NULL)
		roami_wire_close(stranger->wire);
	else
		stranger->wire = malloc(sizeof(*stranger->wire));
	stranger->until = roami_os_now_ns() + STRANGE_NS;
	if (stranger->wire == NULL)
		close(fd);
	else if (!roami_wire_open(stranger->wire, fd, false, listener->key))
		stranger->until = 0;
}

struct roami_wire *roami_listener_turn(struct roami_listener *listener, const struct pollfd *polls,
				       struct roami_frame *frame)
{
	struct roami_wire *known = NULL;

	for (unsigned i = 0; i < ROAMI_LISTENER_STRANGERS && known == NULL; i++) {
		struct roami_stranger *stranger = &listener->strangers[i];
		enum roami_os_got got = ROAMI_OS_NOTHING;

		if (stranger->wire != NULL && polls[1 + i].revents != 0)
			got = roami_wire_receive(stranger->wire, frame);
		if (got == ROAMI_OS_LOST)
			stranger->wire = roami_listener_hang_up(stranger->wire);
		if (got != ROAMI_OS_GOT)
			continue;
		known = stranger->wire;
		stranger->wire = NULL;
	}
	if (polls[0].revents != 0)
		listener_accept(listener);
	return known;
}

uint64_t roami_listener_due(struct roami_listener *listener)
{
	uint64_t now = roami_os_now_ns(), next = UINT64_MAX;

	for (unsigned i = 0; i < ROAMI_LISTENER_STRANGERS; i++) {
		struct roami_stranger *stranger = &listener->strangers[i];

		if (stranger->wire != NULL && now >= stranger->until)
			stranger->wire = roami_listener_hang_up(stranger->wire);
		if (stranger->wire != NULL && stranger->until < next)
			next = stranger->until;
	}
	return next;
}

static bool listener_await(int fd, short what)
{
	struct pollfd at = {fd, what, 0};

	return poll(&at, 1, REACH_MS) > 0;
}

static int listener_connect(uint32_t address, uint16_t port)
{
	struct sockaddr_in there = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
	int fd = roami_os_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int error = 0;
	socklen_t length = sizeof(error);

	if (fd < 0)
		return -1;
	if ((connect(fd, (void *)&there, sizeof(there)) != 0 && errno != EINPROGRESS) ||
	    !listener_await(fd, POLLOUT) ||
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
		close(fd);
		return -1;
	}
	fcntl(fd, F_SETFL, 0);
	return fd;
}

bool roami_listener_reach(struct roami_wire *wire, uint32_t address, uint16_t port,
			  const uint8_t *key, struct roami_frame *frame)
{
	int fd = listener_connect(address, port);

	if (fd < 0)
		return false;
	if (roami_wire_open(wire, fd, true, key))
		while (!wire->keyed && listener_await(fd, POLLIN) &&
		       roami_wire_receive(wire, frame) == ROAMI_OS_NOTHING)
			;
	if (!wire->keyed)
		roami_wire_close(wire);
	return wire->keyed;
}
