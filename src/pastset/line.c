#include "pastset/line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"
#include "pastset/address.h"

#define PARTS_MAX 4u

/* --------------------------------------------------------------------------------------- frames */

bool roami_line_send(struct roami_line *line, const struct roami_guest_head *head,
		     const struct roam_part *parts, unsigned count)
{
	struct roam_part all[PARTS_MAX + 1] = {{head, sizeof(*head)}};
	size_t bytes;

	for (unsigned i = 0; i < count; i++)
		all[i + 1] = parts[i];
	bytes = roami_channel_close(&line->channel, all, count + 1, line->out);
	return roami_os_send(line->fd, line->out, bytes);
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
	line->have -= bytes;
	memmove(line->in, line->in + bytes, line->have);
}

void roami_line_shift(struct roami_line *line)
{
	uint32_t length;

	memcpy(&length, line->in, sizeof(length));
	line_drop(line, sizeof(length) + length);
}

bool roami_line_receive(struct roami_line *line)
{
	struct pollfd polled[2] = {{.fd = line->fd, .events = POLLIN},
				   {.fd = line->wake, .events = POLLIN}};
	uint64_t count;
	ssize_t got;

	if (poll(polled, 2, -1) < 0)
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

/* -------------------------------------------------------------------------------------- meeting */

/* Waits for so many bytes in `in`. */
static bool meet_fill(struct roami_line *line, size_t want)
{
	while (line->have < want) {
		struct pollfd polled = {.fd = line->fd, .events = POLLIN};

		if (poll(&polled, 1, line->patience_ms) <= 0 || !roami_line_receive(line))
			return false;
	}
	return true;
}

/* Waits for a frame of that kind with so many bytes of its own, or ROAMI_GUEST_GONE. */
static enum roam_err meet_frame(struct roami_line *line, uint32_t kind, void *data, size_t bytes)
{
	struct roami_guest_head head;
	bool bad = false;
	uint8_t *text;
	size_t got;

	while ((text = roami_line_frame(line, &got, &bad)) == NULL)
		if (bad || !meet_fill(line, line->have + 1))
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

/* Both show that they know the key. */
static enum roam_err line_meet(struct roami_line *line, const char *address, const uint8_t *key,
			       const struct roami_attach *attach, struct roami_attached *attached_p,
			       char *why, size_t why_bytes)
{
	const struct roami_guest_head head = {.kind = ROAMI_GUEST_ATTACH};
	uint8_t hello[ROAMI_CHANNEL_HELLO];
	enum roam_err err;

	if (!roami_channel_init(&line->channel, ROAMI_GUEST_MAGIC, hello))
		return ROAM_ESYSTEM;
	snprintf(why, why_bytes, "what answers at %s is no server of elements of this version",
		 address);
	if (!roami_os_send(line->fd, hello, sizeof(hello)) || !meet_fill(line, sizeof(hello)) ||
	    !roami_channel_meet(&line->channel, ROAMI_GUEST_MAGIC, key, true, line->in))
		return ROAM_EPROTO;
	line_drop(line, sizeof(hello));
	snprintf(why, why_bytes, "the server at %s has another key", address);
	err = meet_frame(line, ROAMI_GUEST_WELCOME, NULL, 0);
	if (err == ROAM_OK)
		err = roami_line_send(line, &head, &(struct roam_part){attach, sizeof(*attach)}, 1)
			      ? meet_frame(line, ROAMI_GUEST_ATTACHED, attached_p,
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
	line->have = 0;
	line->fd = roami_address_connect(address, line->patience_ms, why, why_bytes);
	if (line->fd >= 0)
		return line_meet(line, address, key, attach, attached_p, why, why_bytes);
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
