#include "pastset/attach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"
#include "pastset/address.h"

#define PATIENCE_MS 10000 /* so long may a server take to answer who attaches */
#define PARTS_MAX   4u

/* A thread waits for an answer. */
struct attach_ask {
	struct attach_ask *next;
	pthread_cond_t changed;
	uint64_t number;
	uint32_t kind; /* that the answer is of */
	bool answered;
	bool sleeps;
	bool cancelled; /* the server was told */
	const struct roam_ps_cancel *cancel;
	uint8_t *head; /* where the answer's first bytes go, */
	size_t head_max;
	uint8_t *rest; /* and those after */
	size_t rest_max;
	size_t got;
};

/* ---------------------------------------------------------------------------------------- bytes */

/* server->lock is held. */
static void attach_lose(struct roam_ps_server *server, enum roam_err why)
{
	if (server->lost == ROAM_OK)
		server->lost = why;
	shutdown(server->fd, SHUT_RDWR);
	for (struct attach_ask *ask = server->asks; ask != NULL; ask = ask->next)
		pthread_cond_signal(&ask->changed);
}

static enum roam_err attach_send(struct roam_ps_server *server, uint32_t kind, uint64_t number,
				 const struct roam_part *parts, unsigned count)
{
	struct roami_guest_head head = {kind, 0, number};
	struct roam_part all[PARTS_MAX + 1] = {{&head, sizeof(head)}};
	size_t bytes;
	bool sent;

	for (unsigned i = 0; i < count; i++)
		all[i + 1] = parts[i];
	pthread_mutex_lock(&server->sending);
	bytes = roami_channel_close(&server->channel, all, count + 1, server->out);
	sent = roami_os_send(server->fd, server->out, bytes);
	pthread_mutex_unlock(&server->sending);
	return sent ? ROAM_OK : ROAM_ELOST;
}

/* The next whole frame in `in`; NULL: there is none, or *bad_p. */
static uint8_t *attach_frame(struct roam_ps_server *server, size_t *bytes_p, bool *bad_p)
{
	uint32_t length;
	uint8_t *text = NULL;

	if (server->have < sizeof(length))
		return NULL;
	memcpy(&length, server->in, sizeof(length));
	*bad_p = length > ROAMI_GUEST_FRAME_MAX - sizeof(length) ||
		 length < ROAMI_CHANNEL_TAG + sizeof(struct roami_guest_head);
	if (*bad_p || server->have < sizeof(length) + length)
		return NULL;
	text = roami_channel_open(&server->channel, server->in, length);
	*bad_p = text == NULL;
	*bytes_p = length - ROAMI_CHANNEL_TAG;
	return text;
}

/* The first frame goes out of `in`. */
static void attach_shift(struct roam_ps_server *server)
{
	uint32_t length;

	memcpy(&length, server->in, sizeof(length));
	server->have -= sizeof(length) + length;
	memmove(server->in, server->in + sizeof(length) + length, server->have);
}

/* What comes, or somebody wants us to look; false: the server is gone. */
static bool attach_receive(struct roam_ps_server *server)
{
	struct pollfd polled[2] = {{.fd = server->fd, .events = POLLIN},
				   {.fd = server->wake, .events = POLLIN}};
	uint64_t count;
	ssize_t got;

	if (poll(polled, 2, -1) < 0)
		return errno == EINTR;
	if (polled[1].revents != 0)
		(void)!read(server->wake, &count, sizeof(count));
	if (polled[0].revents == 0)
		return true;
	got = recv(server->fd, server->in + server->have, sizeof(server->in) - server->have,
		   MSG_DONTWAIT);
	if (got < 0)
		return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
	server->have += (size_t)got;
	return got > 0;
}

/* -------------------------------------------------------------------------------------- answers */

/* server->lock is held.  false: nobody has asked for it, or it is too long. */
static bool attach_answer(struct roam_ps_server *server, const uint8_t *text, size_t bytes)
{
	struct attach_ask *ask = server->asks;
	struct roami_guest_head head;
	size_t first;

	memcpy(&head, text, sizeof(head));
	text += sizeof(head);
	bytes -= sizeof(head);
	while (ask != NULL && ask->number != head.number)
		ask = ask->next;
	if (ask == NULL || ask->answered || ask->kind != head.kind ||
	    bytes > ask->head_max + ask->rest_max)
		return false;
	first = bytes < ask->head_max ? bytes : ask->head_max;
	memcpy(ask->head, text, first);
	if (bytes > first)
		memcpy(ask->rest, text + first, bytes - first);
	ask->got = bytes;
	ask->answered = true;
	pthread_cond_signal(&ask->changed);
	return true;
}

/* One turn of the thread that reads.  server->lock is held but while it sleeps. */
static void attach_read(struct roam_ps_server *server)
{
	bool here, bad = false;
	uint8_t *text;
	size_t bytes;

	server->reading = true;
	pthread_mutex_unlock(&server->lock);
	here = attach_receive(server);
	pthread_mutex_lock(&server->lock);
	for (;;) {
		text = attach_frame(server, &bytes, &bad);
		if (text == NULL)
			break;
		if (!attach_answer(server, text, bytes)) {
			bad = true;
			break;
		}
		attach_shift(server);
	}
	server->reading = false;
	if (bad || !here)
		attach_lose(server, bad ? ROAM_EPROTO : ROAM_ELOST);
}

static bool ask_cancels(const struct attach_ask *ask)
{
	return ask->cancel != NULL && !ask->cancelled &&
	       __atomic_load_n(&ask->cancel->cancelled, __ATOMIC_SEQ_CST) != 0;
}

/* Waits for the answer.  server->lock is held. */
static void ask_wait(struct roam_ps_server *server, struct attach_ask *ask)
{
	while (!ask->answered && server->lost == ROAM_OK) {
		if (ask_cancels(ask)) {
			ask->cancelled = true;
			pthread_mutex_unlock(&server->lock);
			attach_send(server, ROAMI_GUEST_CANCEL, ask->number, NULL, 0);
			pthread_mutex_lock(&server->lock);
		} else if (server->reading) {
			ask->sleeps = true;
			pthread_cond_wait(&ask->changed, &server->lock);
			ask->sleeps = false;
		} else {
			attach_read(server);
		}
	}
}

static void ask_unlink(struct roam_ps_server *server, struct attach_ask *ask)
{
	struct attach_ask **at = &server->asks;

	while (*at != ask)
		at = &(*at)->next;
	*at = ask->next;
	server->ask_count--;
	for (ask = server->asks; ask != NULL && !ask->sleeps; ask = ask->next)
		continue;
	if (ask != NULL && !server->reading)
		pthread_cond_signal(&ask->changed); /* somebody has to read */
}

/* Asks, and waits for the answer. */
static enum roam_err attach_do(struct roam_ps_server *server, uint32_t kind,
			       const struct roam_part *parts, unsigned count,
			       struct attach_ask *ask)
{
	enum roam_err err;

	if (server->pid != getpid())
		return ROAM_ESTATE;
	pthread_mutex_lock(&server->lock);
	err = server->lost;
	if (err == ROAM_OK && server->ask_count == ROAMI_GUEST_ASKS_MAX)
		err = ROAM_EAGAIN;
	if (err == ROAM_OK) {
		pthread_cond_init(&ask->changed, NULL);
		ask->number = ++server->number;
		ask->next = server->asks;
		server->asks = ask;
		server->ask_count++;
		pthread_mutex_unlock(&server->lock);
		err = attach_send(server, kind, ask->number, parts, count);
		pthread_mutex_lock(&server->lock);
		if (err != ROAM_OK)
			attach_lose(server, err);
		ask_wait(server, ask);
		if (!ask->answered)
			err = server->lost;
		ask_unlink(server, ask);
		pthread_cond_destroy(&ask->changed);
	}
	pthread_mutex_unlock(&server->lock);
	return err;
}

enum roam_err roami_attach_call(struct roam_ps_server *server, uint32_t kind,
				const struct roam_part *parts, unsigned count, void *reply,
				size_t reply_max, size_t *got_p)
{
	struct attach_ask ask = {.kind = kind + 1, .head = reply, .head_max = reply_max};
	enum roam_err err = attach_do(server, kind, parts, count, &ask);

	*got_p = ask.got;
	return err;
}

enum roam_err roami_attach_ask(struct roam_ps_element *element, const struct roami_ask *what,
			       struct roam_ps_request *request)
{
	struct roam_part parts[2] = {{what, sizeof(*what)}, {NULL, 0}};
	struct roami_told told = {.err = ROAM_OK};
	struct attach_ask ask = {.kind = ROAMI_GUEST_TOLD,
				 .cancel = request->cancel,
				 .head = (uint8_t *)&told,
				 .head_max = sizeof(told)};
	enum roam_err err;

	if (roami_ask_carries(what))
		parts[1] = (struct roam_part){request->tuple, request->bytes};
	if (what->op == ROAM_PS_OBSERVE || what->op == ROAM_PS_MOB) {
		ask.rest = request->buffer;
		ask.rest_max = what->limit;
	}
	if (what->op == ROAM_PS_STATE) {
		ask.rest = (uint8_t *)&request->state;
		ask.rest_max = sizeof(request->state);
	}
	err = attach_do(element->server, ROAMI_GUEST_OP, parts, 2, &ask);
	if (err != ROAM_OK)
		return err;
	if (ask.got < sizeof(told) || (told.observed != 0 && ask.got != sizeof(told) + told.bytes))
		return ROAM_EPROTO;
	return roami_client_outcome(request, &told);
}

/* -------------------------------------------------------------------------------- coming, going */

/* Waits for so many bytes in `in`. */
static bool meet_fill(struct roam_ps_server *server, size_t want)
{
	while (server->have < want) {
		struct pollfd polled = {.fd = server->fd, .events = POLLIN};

		if (poll(&polled, 1, PATIENCE_MS) <= 0 || !attach_receive(server))
			return false;
	}
	return true;
}

/* Waits for a frame of that kind, without more. */
static bool meet_frame(struct roam_ps_server *server, uint32_t kind, bool *bad_p)
{
	struct roami_guest_head head;
	uint8_t *text;
	size_t bytes;

	while ((text = attach_frame(server, &bytes, bad_p)) == NULL)
		if (*bad_p || !meet_fill(server, server->have + 1))
			return false;
	memcpy(&head, text, sizeof(head));
	attach_shift(server);
	return head.kind == kind;
}

/* Both show that they know the key. */
static enum roam_err attach_meet(struct roam_ps_server *server, const char *address,
				 const uint8_t *key, char *why, size_t why_bytes)
{
	uint8_t hello[ROAMI_CHANNEL_HELLO];
	bool bad = false;

	if (!roami_channel_init(&server->channel, ROAMI_GUEST_MAGIC, hello))
		return ROAM_ESYSTEM;
	snprintf(why, why_bytes, "what answers at %s is no server of elements of this version",
		 address);
	if (!roami_os_send(server->fd, hello, sizeof(hello)) || !meet_fill(server, sizeof(hello)) ||
	    !roami_channel_meet(&server->channel, ROAMI_GUEST_MAGIC, key, true, server->in))
		return ROAM_EPROTO;
	server->have -= sizeof(hello);
	memmove(server->in, server->in + sizeof(hello), server->have);
	snprintf(why, why_bytes, "the server at %s has another key", address);
	if (!meet_frame(server, ROAMI_GUEST_WELCOME, &bad))
		return bad ? ROAM_EKEY : ROAM_ELOST;
	if (attach_send(server, ROAMI_GUEST_ATTACH, 0, NULL, 0) != ROAM_OK ||
	    !meet_frame(server, ROAMI_GUEST_ATTACHED, &bad))
		return ROAM_ELOST;
	why[0] = '\0';
	return ROAM_OK;
}

static void attach_free(struct roam_ps_server *server)
{
	if (server->fd >= 0)
		close(server->fd);
	if (server->wake >= 0)
		close(server->wake);
	pthread_mutex_destroy(&server->lock);
	pthread_mutex_destroy(&server->sending);
	roami_channel_fini(&server->channel);
	free(server);
}

enum roam_err roami_attach_open(struct roami_attachments *all, const char *address,
				const uint8_t *key, struct roam_ps_server **server_p, char *why,
				size_t why_bytes)
{
	struct roam_ps_server *server = calloc(1, sizeof(*server));
	enum roam_err err = ROAM_ELOST;

	if (server == NULL)
		return ROAM_ENOMEM;
	pthread_mutex_init(&server->lock, NULL);
	pthread_mutex_init(&server->sending, NULL);
	server->held = 1;
	server->pid = getpid();
	server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	server->fd = roami_address_connect(address, why, why_bytes);
	if (server->fd < 0 && errno == EINVAL)
		err = ROAM_EINVAL;
	else if (server->fd >= 0)
		err = server->wake < 0 ? ROAM_ESYSTEM
				       : attach_meet(server, address, key, why, why_bytes);
	if (err != ROAM_OK) {
		attach_free(server);
		return err;
	}
	pthread_mutex_lock(&all->lock);
	server->next = all->servers;
	all->servers = server;
	pthread_mutex_unlock(&all->lock);
	*server_p = server;
	return ROAM_OK;
}

void roami_attach_close(struct roami_attachments *all, struct roam_ps_server *server)
{
	struct roam_ps_server **at = &all->servers;

	pthread_mutex_lock(&all->lock);
	while (*at != server)
		at = &(*at)->next;
	*at = server->next;
	pthread_mutex_unlock(&all->lock);
	if (server->pid == getpid()) {
		attach_send(server, ROAMI_GUEST_DETACH, 0, NULL, 0);
		pthread_mutex_lock(&server->lock);
		attach_lose(server, ROAM_ELOST);
		pthread_mutex_unlock(&server->lock);
	}
	roami_attach_rele(server);
}

void roami_attach_hold(struct roam_ps_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->held++;
	pthread_mutex_unlock(&server->lock);
}

void roami_attach_rele(struct roam_ps_server *server)
{
	bool last;

	pthread_mutex_lock(&server->lock);
	last = --server->held == 0;
	pthread_mutex_unlock(&server->lock);
	if (last)
		attach_free(server);
}

void roami_attach_look(struct roami_attachments *all)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&all->lock);
	for (struct roam_ps_server *server = all->servers; server != NULL; server = server->next) {
		pthread_mutex_lock(&server->lock);
		for (struct attach_ask *ask = server->asks; ask != NULL; ask = ask->next)
			pthread_cond_signal(&ask->changed);
		(void)!write(server->wake, &one, sizeof(one));
		pthread_mutex_unlock(&server->lock);
	}
	pthread_mutex_unlock(&all->lock);
}
