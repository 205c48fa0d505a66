/*
 * sockets: a transport that only tests have, for nodes of one host: datagrams of AF_UNIX, which the
 * kernel neither loses nor reorders.  A transport takes no more than this file and its name in a
 * list.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/os.h"
#include "roam/transport.h"

#define NODES_MAX   64u
#define PARTS_MAX   16u
#define MESSAGE_MAX (64u * 1024)
#define NS_PER_S    1000000000u
#define NAME_BYTES  6u /* bytes of an address that the kernel chooses: a zero, five digits */

struct sockets_card {
	uint8_t name[NAME_BYTES];
	_Atomic uint16_t open;
};

struct sockets_state {
	struct roam_transport_params params;
	struct sockets_card *card;
	int fd;
	int wake[2];
	unsigned spins; /* how often it looks at the socket before it sleeps */
	int files[ROAM_STACKS_MAX];
	_Atomic uint32_t kept; /* bytes of `data` that were not taken; under the poll lock */
	_Alignas(8) uint8_t data[MESSAGE_MAX + sizeof(uint64_t)];
};

static const struct roam_transport_option sockets_options[] = {
	ROAM_TRANSPORT_OPTION("ROAM_SOCKETS_LOOKS", "1", "0..100",
			      "how often a thread looks for what has come before it sleeps"),
	ROAM_TRANSPORT_OPTION("ROAM_SOCKETS", "yes", "yes|no",
			      "no: the transport does not open, for tests"),
	{.variable = NULL}};

static int sockets_make(struct sockaddr_un *address, socklen_t *length)
{
	int fd = roami_os_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (fd >= 0 && (bind(fd, (void *)address, sizeof(address->sun_family)) != 0 ||
			getsockname(fd, (void *)address, length) != 0 ||
			*length != offsetof(struct sockaddr_un, sun_path) + NAME_BYTES)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool sockets_probe(const struct roam_transport_value *options, char *why, size_t why_bytes)
{
	struct sockaddr_un address;
	socklen_t length = sizeof(address);
	int fd = sockets_make(&address, &length);

	(void)options;
	if (fd < 0)
		snprintf(why, why_bytes, "a socket of AF_UNIX: %s", strerror(errno));
	else
		close(fd);
	return fd >= 0;
}

static enum roam_err sockets_open(void *state, const struct roam_transport_params *params)
{
	struct sockets_state *sockets = state;
	struct sockaddr_un address;
	socklen_t length = sizeof(address);

	sockets->params = *params;
	sockets->fd = sockets->wake[0] = sockets->wake[1] = -1;
	if (params->nodes > NODES_MAX)
		return ROAM_ENODES;
	sockets->spins = (unsigned)params->options[0].number;
	if (params->options[1].word == 1) {
		snprintf(params->why, params->why_bytes, "ROAM_SOCKETS=no");
		return ROAM_EUNSUPPORTED;
	}
	for (unsigned i = 0; i < params->file_count; i++)
		sockets->files[i] = params->files[i];
	sockets->fd = sockets_make(&address, &length);
	for (unsigned i = 0; i < 2; i++)
		sockets->wake[i] = roami_os_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (sockets->fd < 0 || sockets->wake[0] < 0 || sockets->wake[1] < 0)
		return ROAM_ESYSTEM;
	sockets->card = params->memory[params->node].base;
	memcpy(sockets->card->name, address.sun_path, NAME_BYTES);
	atomic_store(&sockets->card->open, 1);
	return ROAM_OK;
}

static void sockets_close(void *state)
{
	struct sockets_state *sockets = state;

	if (sockets->card != NULL)
		atomic_store(&sockets->card->open, 0);
	for (unsigned i = 0; i < 2; i++)
		if (sockets->wake[i] >= 0)
			close(sockets->wake[i]);
	if (sockets->fd >= 0)
		close(sockets->fd);
}

static enum roam_err sockets_send(void *state, unsigned to, const struct iovec *parts,
				  unsigned count)
{
	struct sockets_state *sockets = state;
	const struct sockets_card *card = sockets->params.memory[to].base;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint64_t from = sockets->params.node;
	struct iovec vec[PARTS_MAX + 1] = {{&from, sizeof(from)}};
	struct msghdr message = {.msg_name = &address,
				 .msg_namelen = offsetof(struct sockaddr_un, sun_path) + NAME_BYTES,
				 .msg_iov = vec,
				 .msg_iovlen = count + 1};

	if (count > PARTS_MAX)
		return ROAM_EINVAL;
	if (atomic_load(&card->open) == 0)
		return ROAM_EAGAIN;
	memcpy(address.sun_path, card->name, NAME_BYTES);
	memcpy(vec + 1, parts, count * sizeof(*parts));
	if (sendmsg(sockets->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return ROAM_OK;
	return errno == EAGAIN || errno == ENOBUFS ? ROAM_EAGAIN : ROAM_OK; /* it has ended */
}

static unsigned sockets_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			     int *bad_peer)
{
	struct sockets_state *sockets = state;
	unsigned taken = 0;
	uint64_t from;

	for (; taken < max; taken++) {
		uint32_t kept = atomic_load(&sockets->kept);
		ssize_t bytes = kept;

		if (kept == 0)
			bytes = recv(sockets->fd, sockets->data, sizeof(sockets->data), 0);
		if (bytes < (ssize_t)sizeof(from))
			break;
		memcpy(&from, sockets->data, sizeof(from));
		if (from >= sockets->params.nodes || (sockets->params.others >> from & 1) != 0) {
			*bad_peer = from < sockets->params.nodes ? (int)from : 0;
			return 0;
		}
		atomic_store(&sockets->kept, (uint32_t)bytes);
		if (!deliver(arg, (unsigned)from, sockets->data + sizeof(from),
			     (size_t)bytes - sizeof(from)))
			break;
		atomic_store(&sockets->kept, 0);
	}
	return taken;
}

static bool sockets_pending(const void *state)
{
	const struct sockets_state *sockets = state;
	uint8_t nothing;

	return atomic_load(&sockets->kept) != 0 ||
	       recv(sockets->fd, &nothing, 0, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static void sockets_wait(void *state, enum roam_sleeper who, uint64_t timeout_ns)
{
	struct sockets_state *sockets = state;
	struct timespec timeout = {(time_t)(timeout_ns / NS_PER_S), (long)(timeout_ns % NS_PER_S)};
	unsigned others = sockets->params.file_count;
	struct pollfd files[3 + ROAM_STACKS_MAX] = {
		{sockets->fd, POLLIN, 0},
		{sockets->wake[who], POLLIN, 0},
		{sockets->params.bell > 0 ? sockets->params.bell : -1, POLLIN, 0}};
	uint64_t counts[64];

	for (unsigned i = 0; i < others; i++)
		files[3 + i] = (struct pollfd){sockets->files[i], POLLIN, 0};
	for (unsigned i = 0; i < sockets->spins; i++)
		if (sockets_pending(sockets))
			return;
	if (ppoll(files, 3 + others, timeout_ns == 0 ? NULL : &timeout, NULL) <= 0)
		return;
	for (unsigned i = 1; i < 3; i++)
		if (files[i].revents != 0 && read(files[i].fd, counts, sizeof(counts)) < 0)
			continue;
}

static void sockets_wake(void *state, enum roam_sleeper who)
{
	const struct sockets_state *sockets = state;
	uint64_t one = 1;

	if (write(sockets->wake[who], &one, sizeof(one)) < 0)
		return; /* the pipe is full, so the sleeper will wake */
}

static int sockets_file(const void *state)
{
	return ((const struct sockets_state *)state)->fd;
}

extern const struct roam_transport roami_transport_sockets;

const struct roam_transport roami_transport_sockets = {
	.name = "sockets",
	.caps = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED,
	.cost_ns = 2000,
	.state_size = sizeof(struct sockets_state),
	.message_max = MESSAGE_MAX,
	.card_bytes = sizeof(struct sockets_card),
	.options = sockets_options,
	.open = sockets_open,
	.close = sockets_close,
	.send = sockets_send,
	.poll = sockets_poll,
	.pending = sockets_pending,
	.probe = sockets_probe,
	.wait = sockets_wait,
	.wake = sockets_wake,
	.file = sockets_file,
};
