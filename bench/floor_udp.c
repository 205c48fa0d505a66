/* A bare UDP ping-pong over the loopback, both sides spinning. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor.h"

int floor_udp_open(uint32_t *port_p)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (void *)&address, length) != 0 ||
	    getsockname(fd, (void *)&address, &length) != 0)
		return -1;
	*port_p = ntohs(address.sin_port);
	return fd;
}

bool floor_udp_turns(int fd, uint32_t port, unsigned side, unsigned turns, uint32_t out,
		     uint32_t back)
{
	struct sockaddr_in peer = {.sin_family = AF_INET,
				   .sin_port = htons((uint16_t)port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	static uint8_t data[8192];
	uint32_t mine = side == 1 ? out : back;

	for (unsigned i = 0; i < turns; i++) {
		if (side == 1 &&
		    sendto(fd, data, mine, 0, (void *)&peer, sizeof(peer)) != (ssize_t)mine)
			return false;
		while (recv(fd, data, sizeof(data), 0) < 0)
			;
		if (side == 0 &&
		    sendto(fd, data, mine, 0, (void *)&peer, sizeof(peer)) != (ssize_t)mine)
			return false;
	}
	return true;
}
