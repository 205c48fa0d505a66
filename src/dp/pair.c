#include "dp/pair.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/layers.h"
#include "base/options.h"
#include "base/transports.h"
#include "fault/engine.h"
#include "link/channel.h"
#include "link/seal.h"
#include "os/inside.h"
#include "link/address.h"
#include "run/open.h"
#include "run/wait.h"

#define MAGIC       "roamdp01"
#define HEAP        ((size_t)1 << 20)
#define NODES       2u
#define STRANGER_NS UINT64_C(3000000000) /* for one that connects to show that it knows the key */
#define GUESTS      32u /* that do so at a time; one more takes the place of the first one */
#define FRAME_MAX   512u
#define LOOK_US     10000u /* until one that connects looks again whether the other one listens */
#define NAME_BYTES  32u

/* What each tells the other first. */
struct pair_hello {
	uint64_t version; /* of all that is not the same in every build */
	char transport[NAME_BYTES];
	uint32_t aes;  /* its CPU has it */
	uint32_t seal; /* enum roami_option_seal */
	uint8_t key[ROAMI_KEY_BYTES]; /* for messages: that of the one that listens counts */
};

_Static_assert(sizeof(struct pair_hello) + ROAMI_CHANNEL_EXTRA <= FRAME_MAX, "it is a frame");
_Static_assert(ROAM_CARD_BYTES + ROAMI_CHANNEL_EXTRA <= FRAME_MAX, "so is a card");
_Static_assert(ROAM_CARD_BYTES == 96, "as docs/wire.md says");

/* What is wrong with the other program. */
#define PAIR_NONE    "what is there is no program that meets"
#define PAIR_SILENT  "the other program does not answer"
#define PAIR_VERSION "the other program is of another version"

#define VERSION (UINT64_C(0x726f616d6470) << 16 | sizeof(struct roami_ctl) % 65536)

struct roam_dp_pair {
	unsigned me;
	int fd;
	struct roami_channel channel;
	struct pair_hello mine, theirs;
	uint8_t key[ROAMI_KEY_BYTES];
	struct roami_options options;
	const struct roam_transport *transport;
	uint32_t address; /* IPv4 of this host; 0: both are on it */
	struct roami_layout layout;
	void *bases[NODES];
	struct roami_far far; /* what is known of the other one */
	struct roami_far *peers[NODES];
	struct roami_real real;
	struct roami_node *node;
	bool serves, watches;
	pthread_t watcher;
	int stop; /* an eventfd that ends the watcher */
	char *why;
	size_t why_bytes;
};

static const struct roami_room *const pair_extensions[] = {&roami_dp_extension, NULL};

struct roami_node *roami_dp_pair_node(const struct roam_dp_pair *pair)
{
	return pair->node;
}

__attribute__((format(printf, 3, 4))) static enum roam_err
pair_says(const struct roam_dp_pair *pair, enum roam_err err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(pair->why, pair->why_bytes, format, args);
	va_end(args);
	return err;
}

/* ------------------------------------------------------------------------------- the connection */

static bool pair_ready(int fd, short events, uint64_t until)
{
	struct pollfd polled = {.fd = fd, .events = events};
	int ready;

	do
		ready = poll(&polled, 1, roami_os_poll_ms(until));
	while (ready < 0 && errno == EINTR);
	return ready > 0;
}

/* Waits for so many bytes. */
static enum roam_err pair_fill(const struct roam_dp_pair *pair, void *to, size_t bytes,
			       uint64_t until)
{
	enum roami_os_got got = ROAMI_OS_NOTHING;
	size_t have = 0;

	while (got == ROAMI_OS_NOTHING) {
		if (!pair_ready(pair->fd, POLLIN, until))
			return ROAM_ETIMEDOUT;
		got = roami_os_receive(pair->fd, to, &have, bytes);
	}
	return got == ROAMI_OS_GOT ? ROAM_OK : ROAM_ELOST;
}

static enum roam_err pair_tell(struct roam_dp_pair *pair, const void *data, size_t bytes)
{
	struct roam_part part = {data, bytes};
	uint8_t frame[FRAME_MAX];
	size_t length = roami_channel_close(&pair->channel, &part, 1, frame);

	return roami_os_send(pair->fd, frame, length) ? ROAM_OK : ROAM_ELOST;
}

/* Opens a frame of the other one's, of so many bytes. */
static enum roam_err pair_open_frame(const struct roam_dp_pair *pair, struct roami_channel *channel,
				     uint8_t *frame, void *data, size_t bytes)
{
	const uint8_t *text =
		roami_channel_open(channel, frame, (uint32_t)(bytes + ROAMI_CHANNEL_TAG));

	if (text == NULL)
		return pair_says(pair, ROAM_EKEY, "the other program has another key");
	memcpy(data, text, bytes);
	return ROAM_OK;
}

static enum roam_err pair_version(const struct roam_dp_pair *pair)
{
	return pair->theirs.version == VERSION ? ROAM_OK
					       : pair_says(pair, ROAM_EPROTO, PAIR_VERSION);
}

/* Waits for a frame of so many bytes. */
static enum roam_err pair_hear(struct roam_dp_pair *pair, void *data, size_t bytes, uint64_t until)
{
	_Alignas(8) uint8_t frame[FRAME_MAX];
	uint32_t length = 0;
	enum roam_err err = pair_fill(pair, &length, sizeof(length), until);

	if (err != ROAM_OK)
		return err;
	if (length != bytes + ROAMI_CHANNEL_TAG)
		return pair_says(pair, ROAM_EPROTO, PAIR_VERSION);
	memcpy(frame, &length, sizeof(length));
	err = pair_fill(pair, frame + sizeof(length), length, until);
	if (err != ROAM_OK)
		return err;
	return pair_open_frame(pair, &pair->channel, frame, data, bytes);
}

/* Shows that this program, which connects, knows the key, and what it wants, and hears the same. */
static enum roam_err pair_greet(struct roam_dp_pair *pair, const uint8_t *key, uint64_t until)
{
	uint8_t hello[ROAMI_CHANNEL_HELLO];
	enum roam_err err;

	pair_says(pair, ROAM_OK, PAIR_SILENT);
	roami_channel_fini(&pair->channel);
	if (!roami_channel_init(&pair->channel, MAGIC, hello))
		return pair_says(pair, ROAM_ESYSTEM, "there is no randomness");
	if (!roami_os_send(pair->fd, hello, sizeof(hello)))
		return ROAM_ELOST;
	err = pair_fill(pair, hello, sizeof(hello), until);
	if (err != ROAM_OK)
		return err;
	if (!roami_channel_handshake(&pair->channel, MAGIC, key, true, hello))
		return pair_says(pair, ROAM_EPROTO, PAIR_NONE);
	err = pair_tell(pair, &pair->mine, sizeof(pair->mine));
	if (err == ROAM_OK)
		err = pair_hear(pair, &pair->theirs, sizeof(pair->theirs), until);
	return err == ROAM_OK ? pair_version(pair) : err;
}

/* As of struct roami_route. */
static bool pair_connecting(void *arg, int fd, bool last)
{
	const struct roami_dp_meeting *ask = arg;

	(void)last;
	return pair_ready(fd, POLLOUT, ask->until);
}

/* A signal may cut it short. */
static void pair_pause(void)
{
	roami_inside_defer();
	usleep(LOOK_US);
}

static enum roam_err pair_connect(struct roam_dp_pair *pair, const struct roami_dp_meeting *ask)
{
	struct roami_route route = {.wait = pair_connecting, .arg = (void *)(uintptr_t)ask};
	int error;
	bool yet;

	do {
		pair->fd = roami_address_connect(ask->address, &route, pair->why, pair->why_bytes);
		if (pair->fd >= 0)
			return pair_greet(pair, ask->key, ask->until);
		error = errno;
		yet = error == ECONNREFUSED || error == ENOENT; /* nobody listens yet */
		if (yet)
			pair_pause();
	} while (yet && roami_os_now_ns() < ask->until);
	if (error == EINVAL)
		return ROAM_EINVAL;
	return yet || error == ETIMEDOUT ? ROAM_ETIMEDOUT : ROAM_ELOST;
}

/* --------------------------------------------------------------------------------- the listener */

/* One that has connected: first its hello comes, then what it wants. */
struct pair_guest {
	int fd; /* -1: none */
	bool greets; /* its hello has come */
	uint64_t until;
	size_t have; /* bytes in `frame` */
	struct roami_channel channel;
	_Alignas(8) uint8_t frame[FRAME_MAX];
};

struct pair_listener {
	struct roam_dp_pair *pair;
	const struct roami_dp_meeting *ask;
	int fd;
	struct pair_guest guests[GUESTS];
};

static void guest_drop(struct pair_guest *guest)
{
	if (guest->fd >= 0)
		close(guest->fd);
	explicit_bzero(guest, sizeof(*guest));
	guest->fd = -1;
}

/* Reads so many bytes of the frame; ROAM_EAGAIN: they have not all come. */
static enum roam_err guest_fill(struct pair_guest *guest, size_t bytes)
{
	switch (roami_os_receive(guest->fd, guest->frame, &guest->have, bytes)) {
	case ROAMI_OS_GOT:
		return ROAM_OK;
	case ROAMI_OS_NOTHING:
		return ROAM_EAGAIN;
	default:
		return ROAM_ELOST;
	}
}

/* Takes the hello, and answers what this program wants, which the other one then says as well. */
static enum roam_err guest_greet(struct pair_listener *listener, struct pair_guest *guest)
{
	struct roam_part part = {&listener->pair->mine, sizeof(listener->pair->mine)};
	enum roam_err err = guest_fill(guest, ROAMI_CHANNEL_HELLO);
	size_t length;

	if (err != ROAM_OK)
		return err;
	if (!roami_channel_handshake(&guest->channel, MAGIC, listener->ask->key, false,
				     guest->frame))
		return pair_says(listener->pair, ROAM_EPROTO, PAIR_NONE);
	length = roami_channel_close(&guest->channel, &part, 1, guest->frame);
	if (!roami_os_send(guest->fd, guest->frame, length))
		return ROAM_ELOST;
	guest->greets = true;
	guest->have = 0;
	return ROAM_EAGAIN;
}

/* Reads what has come from a guest.  ROAM_EAGAIN: more must come; ROAM_OK: it is the right one. */
static enum roam_err guest_hear(struct pair_listener *listener, struct pair_guest *guest)
{
	struct roam_dp_pair *pair = listener->pair;
	size_t want = sizeof(pair->theirs) + ROAMI_CHANNEL_EXTRA;
	enum roam_err err = ROAM_OK;
	uint32_t length;

	if (!guest->greets)
		return guest_greet(listener, guest);
	if (guest->have < sizeof(length))
		err = guest_fill(guest, sizeof(length));
	if (err != ROAM_OK)
		return err;
	memcpy(&length, guest->frame, sizeof(length));
	if (length + sizeof(length) != want)
		return pair_says(pair, ROAM_EPROTO, PAIR_VERSION);
	err = guest_fill(guest, want);
	if (err != ROAM_OK)
		return err;
	err = pair_open_frame(pair, &guest->channel, guest->frame, &pair->theirs,
			      sizeof(pair->theirs));
	return err == ROAM_OK ? pair_version(pair) : err;
}

/* One connects: it gets a free place, or that of the guest who came first. */
static enum roam_err listener_accept(struct pair_listener *listener)
{
	struct pair_guest *guest = &listener->guests[0];
	uint8_t hello[ROAMI_CHANNEL_HELLO];
	int fd = roami_os_fd(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC));

	if (fd < 0) {
		pair_pause(); /* for want of a descriptor, say: others may give one back */
		return ROAM_EAGAIN;
	}
	for (unsigned i = 1; i < GUESTS && guest->fd >= 0; i++)
		if (listener->guests[i].fd < 0 || listener->guests[i].until < guest->until)
			guest = &listener->guests[i];
	guest_drop(guest);
	guest->fd = fd;
	guest->until = roami_os_now_ns() + STRANGER_NS;
	roami_address_tune(fd);
	if (!roami_channel_init(&guest->channel, MAGIC, hello))
		return pair_says(listener->pair, ROAM_ESYSTEM, "there is no randomness");
	if (!roami_os_send(fd, hello, sizeof(hello)))
		guest_drop(guest);
	return ROAM_EAGAIN;
}

/* Hears a guest, or gives it up; ROAM_OK: it is the one, and its connection is the pair's. */
static enum roam_err listener_guest(struct pair_listener *listener, struct pair_guest *guest,
				    bool ready, enum roam_err last)
{
	enum roam_err err = ready ? guest_hear(listener, guest) : ROAM_EAGAIN;

	if (err == ROAM_EAGAIN && roami_os_now_ns() < guest->until)
		return last;
	if (err == ROAM_EAGAIN || err == ROAM_ELOST)
		pair_says(listener->pair, ROAM_OK, PAIR_SILENT);
	if (err == ROAM_OK) {
		listener->pair->fd = guest->fd;
		listener->pair->channel = guest->channel;
		guest->fd = -1;
	}
	guest_drop(guest);
	return err == ROAM_EAGAIN ? ROAM_ETIMEDOUT : err;
}

/* Waits until a guest says something, one comes, or is to be given up. */
static bool listener_poll(const struct pair_listener *listener, struct pollfd *polls)
{
	uint64_t until = listener->ask->until;

	for (unsigned i = 0; i < GUESTS; i++) {
		polls[i] = (struct pollfd){listener->guests[i].fd, POLLIN, 0};
		if (listener->guests[i].fd >= 0 && listener->guests[i].until < until)
			until = listener->guests[i].until;
	}
	polls[GUESTS] = (struct pollfd){listener->fd, POLLIN, 0};
	return poll(polls, GUESTS + 1, roami_os_poll_ms(until)) >= 0;
}

/* Strangers at the address are dropped; the last one's fault is what a timeout reports. */
static enum roam_err listener_await(struct pair_listener *listener)
{
	struct pollfd polls[GUESTS + 1];
	enum roam_err err = ROAM_ETIMEDOUT, fatal = ROAM_EAGAIN;

	do {
		if (!listener_poll(listener, polls))
			continue; /* a signal */
		for (unsigned i = 0; i < GUESTS && err != ROAM_OK; i++)
			if (listener->guests[i].fd >= 0)
				err = listener_guest(listener, &listener->guests[i],
						     polls[i].revents != 0, err);
		if (err != ROAM_OK && polls[GUESTS].revents != 0)
			fatal = listener_accept(listener);
	} while (err != ROAM_OK && fatal == ROAM_EAGAIN &&
		 roami_os_now_ns() < listener->ask->until);
	return fatal == ROAM_EAGAIN ? err : fatal;
}

static enum roam_err pair_listen(struct roam_dp_pair *pair, const struct roami_dp_meeting *ask)
{
	char at[256];
	struct pair_listener *listener = calloc(1, sizeof(*listener));
	enum roam_err err;

	if (listener == NULL)
		return ROAM_ENOMEM;
	listener->pair = pair;
	listener->ask = ask;
	listener->fd =
		roami_address_listen(ask->address, at, sizeof(at), pair->why, pair->why_bytes);
	if (listener->fd < 0) {
		err = errno == EINVAL ? ROAM_EINVAL : ROAM_ESYSTEM;
		free(listener);
		return err;
	}
	for (unsigned i = 0; i < GUESTS; i++)
		listener->guests[i].fd = -1;
	pair_says(pair, ROAM_OK, "nobody came to %s", at);
	err = listener_await(listener);
	for (unsigned i = 0; i < GUESTS; i++)
		guest_drop(&listener->guests[i]);
	if (strchr(ask->address, '/') != NULL)
		unlink(ask->address); /* while it is surely this program's */
	close(listener->fd);
	free(listener);
	return err;
}

/* ------------------------------------------------------------------------------------- the node */

__attribute__((noreturn)) static void pair_failed(struct roami_node *node, const char *text)
{
	char line[300];
	int length = snprintf(line, sizeof(line), "roam: node %u of a pair: %s\n", node->me, text);

	if (length >= (int)sizeof(line))
		length = (int)sizeof(line) - 1;
	if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_FAILURE);
}

/* The transport that ROAM_TRANSPORT allows, whichever it will be reached by. */
static enum roam_err pair_transport(struct roam_dp_pair *pair)
{
	const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1];
	struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX];

	roami_transports_allowed(pair->options.transport, pair->options.seal == ROAMI_SEAL_OFF,
				 allowed);
	pair->transport = roami_transport_for(allowed, ROAMI_WHERE_AWAY);
	if (pair->transport == NULL)
		return pair_says(pair, ROAM_EUNSUPPORTED,
				 "ROAM_TRANSPORT=%s does not reach another program",
				 pair->options.transport);
	roami_options_of(&pair->options, pair->transport, values);
	if (!roami_transport_works(pair->transport, values, pair->why, pair->why_bytes))
		return ROAM_EUNSUPPORTED;
	if (pair->options.seal == ROAMI_SEAL_AUTO)
		pair->options.seal = ROAMI_SEAL_AUTH;
	return ROAM_OK;
}

/* The address by which the other one reaches this host. */
static enum roam_err pair_address(struct roam_dp_pair *pair)
{
	struct sockaddr_storage own;
	const struct sockaddr_in *in = (const void *)&own;
	socklen_t bytes = sizeof(own);

	if (getsockname(pair->fd, (void *)&own, &bytes) != 0)
		return pair_says(pair, ROAM_ESYSTEM, "the connection is lost");
	if (own.ss_family == AF_INET6)
		return pair_says(pair, ROAM_EUNSUPPORTED, "transports need an IPv4 address");
	if (own.ss_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
		pair->address = ntohl(in->sin_addr.s_addr);
	return ROAM_OK;
}

static enum roam_err pair_open(struct roam_dp_pair *pair)
{
	struct roami_node_params params = {
		.me = pair->me,
		.nodes = NODES,
		.options = &pair->options,
		.env = &roami_env_real,
		.env_state = &pair->real,
		.protocol = roami_protocols[0], /* there are no pages */
		.engine = &roami_fault_plain,
		.transport = pair->transport,
		.bases = pair->bases,
		.peers = pair->peers,
		.address = pair->address,
		.fd = -1,
		.near = roami_nodeset_bit(pair->me),
		.hosts = NODES, /* neither sees whether the other one sleeps */
		.aes = pair->mine.aes != 0 && pair->theirs.aes != 0,
		.traced = true, /* the connection shows that one is gone, not its silence */
		.key = pair->key,
		.extensions = pair_extensions,
		.why = pair->why,
		.why_bytes = pair->why_bytes,
	};

	roami_layout_make(&pair->layout, HEAP, NODES);
	params.layout = pair->layout;
	pair->bases[pair->me] = roami_os_reserve_sparse(pair->layout.total);
	if (pair->bases[pair->me] == NULL)
		return pair_says(pair, ROAM_ENOMEM, "there is no memory");
	params.app = (uint8_t *)pair->bases[pair->me] + pair->layout.heap;
	pair->peers[1 - pair->me] = &pair->far;
	roami_real_init(&pair->real, NODES, 1, pair->options.spin_us, 0);
	pair->real.on_fail = pair_failed;
	pair->real.round = roami_os_now_ns(); /* no other pair had it at this address */
	roami_seats_open(&pair->real);
	return roami_node_open(&pair->node, &params);
}

/* Each learns the other's card; then messages come. */
static enum roam_err pair_join(struct roam_dp_pair *pair, uint64_t until)
{
	uint64_t types = roami_dp_of(pair->node)->types, theirs = 0;
	enum roam_err err;

	roami_assert(layers_of(pair->node)->card != NULL);
	err = pair_tell(pair, &types, sizeof(types));
	if (err == ROAM_OK)
		err = pair_tell(pair, layers_of(pair->node)->card, ROAM_CARD_BYTES);
	if (err == ROAM_OK)
		err = pair_hear(pair, &theirs, sizeof(theirs), until);
	if (err == ROAM_OK && theirs != types)
		err = pair_says(pair, ROAM_EPROTO, "the other program is of another build");
	if (err == ROAM_OK)
		err = pair_hear(pair, pair->far.card, ROAM_CARD_BYTES, until);
	if (err != ROAM_OK)
		return err;
	err = roami_service_start(pair->node);
	pair->serves = err == ROAM_OK;
	return err;
}

/* Notices that the other one is gone: it says nothing more on the connection. */
static void *pair_watch(void *arg)
{
	struct roam_dp_pair *pair = arg;
	struct pollfd polled[2] = {{.fd = pair->fd, .events = POLLIN},
				   {.fd = pair->stop, .events = POLLIN}};

	while (poll(polled, 2, -1) <= 0)
		;
	if (polled[0].revents != 0)
		roami_dp_lose(pair->node);
	return NULL;
}

static enum roam_err pair_begin(struct roam_dp_pair *pair)
{
	pair->stop = roami_os_fd(eventfd(0, EFD_CLOEXEC));
	if (pair->stop < 0 || !roami_os_helper(&pair->watcher, pair_watch, pair))
		return pair_says(pair, ROAM_ESYSTEM, "there is no thread to be had");
	pair->watches = true;
	pair->node->env->helper(pair->node, 1);
	return ROAM_OK;
}

/* What both said must fit together. */
static enum roam_err pair_agree(struct roam_dp_pair *pair)
{
	const struct pair_hello *first = pair->me == 0 ? &pair->mine : &pair->theirs;

	pair->theirs.transport[NAME_BYTES - 1] = '\0';
	if (strcmp(pair->mine.transport, pair->theirs.transport) != 0)
		return pair_says(pair, ROAM_EMISMATCH,
				 "the other program uses transport %s, this one %s",
				 pair->theirs.transport, pair->mine.transport);
	if (pair->mine.seal != pair->theirs.seal)
		return pair_says(pair, ROAM_EMISMATCH,
				 "the other program has another value of ROAM_SEAL");
	memcpy(pair->key, first->key, sizeof(pair->key));
	return pair_address(pair);
}

static enum roam_err pair_meet(struct roam_dp_pair *pair, const struct roami_dp_meeting *ask)
{
	enum roam_err err = roami_options_read(&pair->options, environ, STDERR_FILENO);

	if (err == ROAM_OK)
		err = pair_transport(pair);
	if (err != ROAM_OK)
		return err;
	pair->mine = (struct pair_hello){.version = VERSION,
					 .aes = roami_seal_has_aes(),
					 .seal = (uint32_t)pair->options.seal};
	snprintf(pair->mine.transport, NAME_BYTES, "%s", pair->transport->name);
	randombytes_buf(pair->mine.key, sizeof(pair->mine.key));
	err = ask->listens ? pair_listen(pair, ask) : pair_connect(pair, ask);
	if (err == ROAM_OK)
		err = pair_agree(pair);
	if (err == ROAM_OK)
		err = pair_open(pair);
	if (err == ROAM_OK)
		err = pair_join(pair, ask->until);
	return err == ROAM_OK ? pair_begin(pair) : err;
}

enum roam_err roami_dp_meet(const struct roami_dp_meeting *ask, struct roam_dp_pair **pair_p,
			    char *why, size_t why_bytes)
{
	struct roam_dp_pair *pair = aligned_alloc(64, (sizeof(*pair) + 63) & ~(size_t)63);
	enum roam_err err;

	if (pair == NULL)
		return ROAM_ENOMEM;
	memset(pair, 0, sizeof(*pair));
	pair->me = ask->listens ? 0 : 1;
	pair->fd = pair->stop = -1;
	pair->why = why;
	pair->why_bytes = why_bytes;
	why[0] = '\0';
	err = pair_meet(pair, ask);
	if (err == ROAM_OK)
		*pair_p = pair;
	else
		roami_dp_part(pair);
	return err;
}

/* -------------------------------------------------------------------------------------- the end */

static void pair_watch_end(struct roam_dp_pair *pair)
{
	uint64_t one = 1;

	if (write(pair->stop, &one, sizeof(one)) == sizeof(one))
		pthread_join(pair->watcher, NULL);
	pair->node->env->helper(pair->node, -1);
}

void roami_dp_part(struct roam_dp_pair *pair)
{
	if (pair->watches) {
		roami_dp_drain(pair->node, 1 - pair->me);
		pair_watch_end(pair);
	}
	if (pair->serves)
		roami_service_stop(pair->node);
	roami_seats_end(&pair->real);
	if (pair->node != NULL)
		roami_node_close(pair->node);
	if (pair->bases[pair->me] != NULL)
		roami_os_unmap(pair->bases[pair->me], pair->layout.total);
	if (pair->fd >= 0) {
		shutdown(pair->fd, SHUT_RDWR); /* a process that was forked may have it, too */
		close(pair->fd);
	}
	if (pair->stop >= 0)
		close(pair->stop);
	roami_channel_fini(&pair->channel);
	explicit_bzero(pair, sizeof(*pair));
	free(pair);
}
