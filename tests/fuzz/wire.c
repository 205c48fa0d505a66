/*
 * libFuzzer: what strangers write to the launcher's port.  Without the key no frame comes through;
 * with it, a frame that was changed does not either.  The first byte says which.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[ROAMI_KEY_BYTES] = "the key of a job";
static struct roami_wire launcher, agent;
static struct roami_frame frame;

static void must(int holds)
{
	if (!holds)
		abort();
}

/* Bytes of a stranger, all of which the launcher reads. */
static void strange(int from, const uint8_t *data, size_t size)
{
	enum roami_os_got got;

	must(write(from, data, size) == (ssize_t)size);
	got = roami_wire_receive(&launcher, &frame);
	must(got != ROAMI_OS_GOT);
}

/* A frame of the agent's, one bit of which is changed, if any; then the rest of the data. */
static void changed(int from, const uint8_t *data, size_t size)
{
	uint8_t hello[32], out[ROAMI_WIRE_FRAME];
	enum roami_os_got got;
	ssize_t bytes;
	size_t at = size > 1 ? data[0] | (size_t)data[1] << 8 : 0;
	int pair[2];

	must(recv(from, hello, sizeof(hello), 0) == (ssize_t)sizeof(hello)); /* the launcher's */
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	must(roami_wire_open(&agent, pair[0], true, key));
	must(recv(pair[1], out, sizeof(out), 0) == (ssize_t)sizeof(hello));
	must(write(from, out, sizeof(hello)) == (ssize_t)sizeof(hello));
	must(write(pair[1], hello, sizeof(hello)) == (ssize_t)sizeof(hello));
	must(roami_wire_receive(&agent, &frame) == ROAMI_OS_NOTHING && agent.keyed);
	must(roami_wire_send(&agent, ROAMI_FRAME_CARD, 3, data, size > 900 ? 900 : size));
	bytes = recv(pair[1], out, sizeof(out), 0);
	must(bytes >= 36);
	if (at < (size_t)bytes)
		out[at] ^= (uint8_t)(1u << size % 8);
	must(write(from, out, (size_t)bytes) == bytes);
	got = roami_wire_receive(&launcher, &frame);
	must((got == ROAMI_OS_GOT) == (at >= (size_t)bytes));
	roami_wire_close(&agent);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int pair[2];

	if (size < 1)
		return 0;
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	must(roami_wire_open(&launcher, pair[0], false, key));
	if (data[0] % 2 == 0)
		strange(pair[1], data + 1, size - 1);
	else
		changed(pair[1], data + 1, size - 1);
	roami_wire_close(&launcher);
	close(pair[1]);
	return 0;
}
