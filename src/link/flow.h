/* Bytes that go out by a socket, as far as it has room for them. */
#ifndef ROAMI_FLOW_H
#define ROAMI_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero: empty.  From `at` to `end` they are yet to be sent. */
struct roami_flow {
	uint8_t *bytes;
	size_t at, end, room;
};

/*
 * Where `bytes` bytes more can be written, to be added to `end`; NULL: there is no memory.  It
 * grows to at most four times the bytes that wait, however long some of them do.
 */
uint8_t *roami_flow_room(struct roami_flow *flow, size_t bytes);

/* Sends what the socket takes now.  false: the connection is broken. */
bool roami_flow_send(struct roami_flow *flow, int fd);

void roami_flow_free(struct roami_flow *flow);

static inline bool roami_flow_empty(const struct roami_flow *flow)
{
	return flow->at == flow->end;
}

#endif
