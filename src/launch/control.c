#include "launch/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "roam/protocol.h"

bool roami_control_send(int fd, uint32_t kind, uint32_t node, const void *data, size_t bytes)
{
	uint32_t head[4] = {kind, node, (uint32_t)bytes, 0};
	struct iovec parts[2] = {{head, sizeof(head)}, {(void *)(uintptr_t)data, bytes}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes > 0 ? 2 : 1};
	ssize_t sent;

	roami_assert(bytes <= ROAMI_FRAME_PAYLOAD);
	do
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)(sizeof(head) + bytes);
}

bool roami_control_receive(int fd, struct roami_frame *frame)
{
	ssize_t got;

	do
		got = recv(fd, frame, sizeof(*frame), 0);
	while (got < 0 && errno == EINTR);
	return got >= (ssize_t)ROAMI_FRAME_HEAD && (size_t)got == ROAMI_FRAME_HEAD + frame->bytes;
}
