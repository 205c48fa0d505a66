#include "pastset/attached/line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"

#define PARTS_MAX 4u
#define LOOK_NS   UINT64_C(250000000) /* between checks for a cancel, while the line is opened */

/* --------------------------------------------------------------------------------------- frames */

bool roami_line_send(struct roami_line *line, const struct roami_guest_head *head,
		     const struct roam_part *parts, unsigned count)
{
	struct roam_part all[PARTS_MAX + 1] = {{head, sizeof(*head)}};
	size_t bytes;

	roami_assert(count <= PARTS_MAX && !roami_line_full(line));
	for (unsigned i = 0; i < count; i++)
		all[i + 1] = parts[i];
	bytes = roami_channel_close(&line->channel, all, count + 1, line->out);
	line->flow = (struct roami_flow){line->out, 0, bytes, sizeof(line->out)};
	return roami_line_flush(line);
}

bool roami_line_flush(struct roami_line *line)
{
	return roami_flow_send(&line->flow, line->fd);
}

uint8_t *roami_line_frame(struct roami_line *line, size_t *bytes_p, bool *bad_p)
{
	uint32_t length;
	uint8_t *text = NULL;

	if (line->have < sizeof(length))
		return NULL;
	memcpy(&length, line->in, sizeof(length));
	*bad_p = length > ROAMI_GUEST_FRAME_MAX - sizeof(length) ||
		 length < ROAMI_CHANNEL_TAG + sizeof(struct roami_guest_head);
	if (*bad_p || line->have < sizeof(length) + length)
		return NULL;
	text = roami_channel_open(&line->channel, line->in, length);
	*bad_p = text == NULL;
	*bytes_p = length - ROAMI_CHANNEL_TAG;
	return text;
}

static void line_drop(struct roami_line *line, size_t bytes)
{
	roami_assert(bytes <= line->have);
	line->have -= bytes;
	memmove(line->in, line->in + bytes, line->have);
}

void roami_line_shift(struct roami_line *line)
{
	uint32_t length;

	memcpy(&length, line->in, sizeof(length));
	line_drop(line, sizeof(length) + length);
}

bool roami_line_receive(struct roami_line *line, bool full, uint64_t until)
{
	struct pollfd polled[2] = {
		{.fd = line->fd, .events = (short)(full ? POLLIN | POLLOUT : POLLIN)},
		{.fd = line->wake, .events = POLLIN}};
	uint64_t count;
	ssize_t got;

	if (poll(polled, 2, roami_os_poll_ms(until)) < 0)
		return errno == EINTR;
	if (polled[1].revents != 0)
		(void)!read(line->wake, &count, sizeof(count));
	if (polled[0].revents == 0)
		return true;
	got = recv(line->fd, line->in + line->have, sizeof(line->in) - line->have, MSG_DONTWAIT);
	if (got < 0)
		return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
	line->have += (size_t)got;
	return got > 0;
}

/* ---------------------------------------------------------------------------------------- hello */

/* Whether the time for connecting is over, with errno. */
static bool hello_late(const struct roami_line *line)
{
	uint64_t now = roami_os_now_ns();

	if (now < line->until &&
	    (now < line->least || line->cancel == NULL ||
	     __atomic_load_n(&line->cancel->cancelled, __ATOMIC_SEQ_CST) == 0))
		return false;
	errno = ETIMEDOUT;
	return true;
}

/* When to check for a cancel again; at `until` at the latest. */
static uint64_t hello_look(uint64_t until)
{
	uint64_t look = roami_os_now_ns() + LOOK_NS;

	return look < until ? look : until;
}

/* As of struct roami_route. */
static bool hello_wait(void *arg, int fd, bool last)
{
	const struct roami_line *line = arg;
	struct pollfd polled = {.fd = fd, .events = POLLOUT};
	uint64_t now = roami_os_now_ns(), until = line->until;

	if (!last && now < until)
		until = now + (until - now) / 2;
	while (!hello_late(line) && roami_os_now_ns() < until)
		if (poll(&polled, 1, roami_os_poll_ms(hello_look(until))) > 0)
			return true;
	return false;
}

/* Waits for so many bytes in `in`. */
static bool hello_fill(struct roami_line *line, size_t want)
{
	while (line->have < want) {
		if (hello_late(line))
			return false;
		errno = 0;
		if (!roami_line_receive(line, false, hello_look(line->until)))
			return false;
	}
	return true;
}

/* Waits for a frame of that kind with so many bytes of its own, or ROAMI_GUEST_GONE. */
static enum roam_err hello_frame(struct roami_line *line, uint32_t kind, void *data, size_t bytes)
{
	struct roami_guest_head head;
	bool bad = false;
	uint8_t *text;
	size_t got;

	while ((text = roami_line_frame(line, &got, &bad)) == NULL)
		if (bad || !hello_fill(line, line->have + 1))
			return bad ? ROAM_EKEY : ROAM_EAGAIN;
	memcpy(&head, text, sizeof(head));
	if (head.kind == ROAMI_GUEST_GONE)
		return ROAM_EGONE;
	if (head.kind != kind || got != sizeof(head) + bytes)
		return ROAM_EPROTO;
	if (bytes > 0)
		memcpy(data, text + sizeof(head), bytes);
	roami_line_shift(line);
	return ROAM_OK;
}

/* Client and server show each other that they know the key. */
static enum roam_err line_hello(struct roami_line *line, const char *address, const uint8_t *key,
			       const struct roami_attach *attach, struct roami_attached *attached_p,
			       char *why, size_t why_bytes)
{
	const struct roami_guest_head head = {.kind = ROAMI_GUEST_ATTACH};
	uint8_t hello[ROAMI_CHANNEL_HELLO];
	enum roam_err err;

	if (!roami_channel_init(&line->channel, ROAMI_GUEST_MAGIC, hello))
		return ROAM_ESYSTEM;
	if (!roami_os_send(line->fd, hello, sizeof(hello)) || !hello_fill(line, sizeof(hello))) {
		err = errno == ETIMEDOUT ? ROAM_EAGAIN : ROAM_EPROTO;
		snprintf(why, why_bytes,
			 err == ROAM_EAGAIN ? "the server at %s does not answer"
					    : "what answers at %s is no server of elements",
			 address);
		return err;
	}
	snprintf(why, why_bytes, "what answers at %s is no server of elements of this version",
		 address);
	if (!roami_channel_handshake(&line->channel, ROAMI_GUEST_MAGIC, key, true, line->in))
		return ROAM_EPROTO;
	line_drop(line, sizeof(hello));
	snprintf(why, why_bytes, "the server at %s has another key", address);
	err = hello_frame(line, ROAMI_GUEST_WELCOME, NULL, 0);
	if (err == ROAM_OK)
		err = roami_line_send(line, &head, &(struct roam_part){attach, sizeof(*attach)}, 1)
			      ? hello_frame(line, ROAMI_GUEST_ATTACHED, attached_p,
					   sizeof(*attached_p))
			      : ROAM_EAGAIN;
	if (err == ROAM_EAGAIN)
		snprintf(why, why_bytes, "the server at %s does not answer", address);
	return err;
}

enum roam_err roami_line_open(struct roami_line *line, const char *address, const uint8_t *key,
			      const struct roami_attach *attach, struct roami_attached *attached_p,
			      char *why, size_t why_bytes)
{
	enum roam_err err;

	line->have = 0;
	line->flow = (struct roami_flow){.bytes = NULL};
	line->route.wait = hello_wait;
	line->route.arg = line;
	line->fd = roami_address_connect(address, &line->route, why, why_bytes);
	if (line->fd >= 0) {
		err = line_hello(line, address, key, attach, attached_p, why, why_bytes);
		if (err != ROAM_OK && err != ROAM_EGONE)
			roami_address_blame(line->fd, address, why, why_bytes);
		return err;
	}
	if (errno == EINVAL)
		return ROAM_EINVAL;
	return errno == ECONNREFUSED || errno == ENOENT ? ROAM_ELOST : ROAM_EAGAIN;
}

void roami_line_close(struct roami_line *line)
{
	if (line->fd >= 0)
		close(line->fd);
	line->fd = -1;
	roami_channel_fini(&line->channel);
}
