#include "link/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ROOM_LEAST ((size_t)8 << 10)
#define ROOM_KEEP  ((size_t)256 << 10) /* more is given back once it is empty */

/* Moves the bytes to the beginning, where that is worth the copy. */
static void flow_shift(struct roami_flow *flow)
{
	if (flow->at < flow->end && flow->at < flow->room / 2)
		return;
	if (flow->at > 0 && flow->at < flow->end)
		memmove(flow->bytes, flow->bytes + flow->at, flow->end - flow->at);
	flow->end -= flow->at;
	flow->at = 0;
}

uint8_t *roami_flow_room(struct roami_flow *flow, size_t bytes)
{
	size_t room;
	uint8_t *grown;

	if (roami_flow_empty(flow) || flow->room - flow->end < bytes)
		flow_shift(flow);
	if (flow->end == 0 && flow->room > ROOM_KEEP && bytes <= ROOM_KEEP)
		roami_flow_free(flow);
	room = flow->room < ROOM_LEAST ? ROOM_LEAST : flow->room;
	while (room - flow->end < bytes)
		room *= 2;
	if (room > flow->room) {
		grown = realloc(flow->bytes, room);
		if (grown == NULL)
			return NULL;
		flow->bytes = grown;
		flow->room = room;
	}
	return flow->bytes + flow->end;
}

bool roami_flow_send(struct roami_flow *flow, int fd)
{
	while (flow->at < flow->end) {
		ssize_t sent = send(fd, flow->bytes + flow->at, flow->end - flow->at,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		flow->at += (size_t)sent;
	}
	return true;
}

void roami_flow_free(struct roami_flow *flow)
{
	free(flow->bytes);
	*flow = (struct roami_flow){.bytes = NULL};
}
