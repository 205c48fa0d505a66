#include "store/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/address.h"
#include "os/os.h"

#define PARTS_MAX 4u
#define MEET_NS   UINT64_C(10000000000) /* a server has so long to answer */

_Static_assert(ROAMI_STORE_FRAME_MAX < 65536, "a frame");

struct roami_store_client {
	int fd; /* -1: none */
	uint64_t until; /* of meeting */
	struct roami_route route;
	struct roami_channel channel;
	size_t have;  /* bytes in `in` */
	size_t shown; /* of them, those of the frame that was received last */
	uint8_t in[2 * ROAMI_STORE_FRAME_MAX], out[ROAMI_STORE_FRAME_MAX];
};

/* --------------------------------------------------------------------------------------- frames */

/* Waits for the socket; false, with errno: it is too late, or broken. */
static bool fd_poll(int fd, short events, uint64_t until)
{
	struct pollfd polled = {.fd = fd, .events = events};

	for (;;) {
		int got = poll(&polled, 1, roami_os_poll_ms(until));

		if (got > 0)
			return true;
		if (got < 0 && errno != EINTR)
			return false;
		errno = ETIMEDOUT;
		if (got == 0 && roami_os_now_ns() >= until)
			return false;
	}
}

static bool client_write(const struct roami_store_client *client, const uint8_t *bytes,
			 size_t count, uint64_t until)
{
	while (count > 0) {
		ssize_t sent = send(client->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0) {
			bytes += sent;
			count -= (size_t)sent;
		} else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			if (!fd_poll(client->fd, POLLOUT, until))
				return false;
		} else if (sent < 0 && errno != EINTR) {
			return false;
		}
	}
	return true;
}

bool roami_store_send(struct roami_store_client *client, uint32_t kind, uint64_t number,
		      const struct roam_part *parts, unsigned count, uint64_t until)
{
	const struct roami_store_head head = {.kind = kind, .number = number};
	struct roam_part all[PARTS_MAX + 1] = {{&head, sizeof(head)}};
	size_t bytes;

	roami_assert(count <= PARTS_MAX);
	for (unsigned i = 0; i < count; i++)
		all[i + 1] = parts[i];
	bytes = roami_channel_close(&client->channel, all, count + 1, client->out);
	return client_write(client, client->out, bytes, until);
}

/* Takes what has come.  ROAM_ETIMEDOUT: nothing until then. */
static enum roam_err client_read(struct roami_store_client *client, uint64_t until)
{
	ssize_t got;

	if (!fd_poll(client->fd, POLLIN, until))
		return errno == ETIMEDOUT ? ROAM_ETIMEDOUT : ROAM_ELOST;
	got = recv(client->fd, client->in + client->have, sizeof(client->in) - client->have,
		   MSG_DONTWAIT);
	if (got < 0)
		return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK ? ROAM_OK
										  : ROAM_ELOST;
	client->have += (size_t)got;
	return got > 0 ? ROAM_OK : ROAM_ELOST;
}

/* Drops the bytes in front. */
static void client_drop(struct roami_store_client *client, size_t bytes)
{
	client->have -= bytes;
	memmove(client->in, client->in + bytes, client->have);
}

enum roam_err roami_store_receive(struct roami_store_client *client, uint64_t until,
				  struct roami_store_head *head, const uint8_t **data_p,
				  size_t *bytes_p)
{
	uint32_t length = 0;
	enum roam_err err;
	uint8_t *text;

	client_drop(client, client->shown);
	client->shown = 0;
	for (;;) {
		if (client->have >= sizeof(length)) {
			memcpy(&length, client->in, sizeof(length));
			if (length > ROAMI_STORE_FRAME_MAX - sizeof(length) ||
			    length < ROAMI_CHANNEL_TAG + sizeof(*head))
				return ROAM_EKEY;
			if (client->have >= sizeof(length) + length)
				break;
		}
		err = client_read(client, until);
		if (err != ROAM_OK)
			return err;
	}
	text = roami_channel_open(&client->channel, client->in, length);
	if (text == NULL)
		return ROAM_EKEY;
	client->shown = sizeof(length) + length;
	memcpy(head, text, sizeof(*head));
	*data_p = text + sizeof(*head);
	*bytes_p = length - ROAMI_CHANNEL_TAG - sizeof(*head);
	return ROAM_OK;
}

int roami_store_fd(const struct roami_store_client *client)
{
	return client->fd;
}

/* -------------------------------------------------------------------------------------- meeting */

/* As of struct roami_route. */
static bool meet_wait(void *arg, int fd, bool last)
{
	const struct roami_store_client *client = arg;
	uint64_t now = roami_os_now_ns(), until = client->until;

	if (!last && now < until)
		until = now + (until - now) / 2;
	return fd_poll(fd, POLLOUT, until);
}

/* The server's hello. */
static enum roam_err meet_hello(struct roami_store_client *client, const uint8_t *key)
{
	uint8_t hello[ROAMI_CHANNEL_HELLO];
	enum roam_err err = ROAM_OK;

	if (!roami_channel_init(&client->channel, ROAMI_STORE_MAGIC, hello))
		return ROAM_ESYSTEM;
	if (!client_write(client, hello, sizeof(hello), client->until))
		return ROAM_EPROTO;
	while (client->have < sizeof(hello) && err == ROAM_OK)
		err = client_read(client, client->until);
	if (err != ROAM_OK)
		return err == ROAM_ETIMEDOUT ? ROAM_EAGAIN : ROAM_EPROTO;
	if (!roami_channel_handshake(&client->channel, ROAMI_STORE_MAGIC, key, true, client->in))
		return ROAM_EPROTO;
	client_drop(client, sizeof(hello));
	return ROAM_OK;
}

/* The server's frames for either key: one of them is closed with ours. */
static enum roam_err meet_welcome(struct roami_store_client *client)
{
	enum roam_err err = ROAM_OK;
	bool ours = false;

	while (client->have < 2 * ROAMI_STORE_WELCOME_BYTES && err == ROAM_OK)
		err = client_read(client, client->until);
	if (err != ROAM_OK)
		return err == ROAM_ETIMEDOUT ? ROAM_EAGAIN : err;
	for (unsigned i = 0; i < 2 && !ours; i++) {
		struct roami_channel before = client->channel;
		uint8_t *frame = client->in + i * ROAMI_STORE_WELCOME_BYTES;
		uint32_t length;

		memcpy(&length, frame, sizeof(length));
		if (length != ROAMI_STORE_WELCOME_BYTES - sizeof(length))
			return ROAM_EKEY;
		ours = roami_channel_open(&client->channel, frame, length) != NULL;
		if (!ours)
			client->channel = before;
	}
	client_drop(client, 2 * ROAMI_STORE_WELCOME_BYTES);
	return ours ? ROAM_OK : ROAM_EKEY;
}

/* The server's answer; an error is told in `why`. */
static enum roam_err meet_opened(struct roami_store_client *client,
				 struct roami_store_opened *opened_p, char *why, size_t why_bytes)
{
	struct roami_store_error error;
	struct roami_store_head head;
	const uint8_t *data;
	size_t bytes;
	enum roam_err err = roami_store_receive(client, client->until, &head, &data, &bytes);

	if (err != ROAM_OK)
		return err == ROAM_ETIMEDOUT ? ROAM_EAGAIN : err;
	if (head.kind == ROAMI_STORE_ERROR && bytes >= sizeof(error)) {
		memcpy(&error, data, sizeof(error));
		bytes -= sizeof(error);
		if (error.text_bytes <= bytes && error.text_bytes <= ROAMI_STORE_TEXT_MAX)
			bytes = error.text_bytes;
		snprintf(why, why_bytes, "%.*s", (int)bytes,
			 (const char *)data + sizeof(error));
		return error.err == ROAM_EBUSY || error.err == ROAM_EMISMATCH ||
				       error.err == ROAM_ENOMEM || error.err == ROAM_EINVAL ||
				       error.err == ROAM_ENOSPC
			       ? (enum roam_err)error.err
			       : ROAM_ESYSTEM;
	}
	if (head.kind != ROAMI_STORE_OPENED || bytes != sizeof(*opened_p))
		return ROAM_EPROTO;
	memcpy(opened_p, data, sizeof(*opened_p));
	return ROAM_OK;
}

static enum roam_err meet(struct roami_store_client *client, const char *address,
			  const uint8_t *key, const struct roami_store_open *open,
			  struct roami_store_opened *opened_p, char *why, size_t why_bytes)
{
	const struct roam_part part = {open, sizeof(*open)};
	enum roam_err err = meet_hello(client, key);

	why[0] = '\0';
	if (err == ROAM_OK)
		err = meet_welcome(client);
	if (err == ROAM_OK &&
	    !roami_store_send(client, ROAMI_STORE_OPEN, 0, &part, 1, client->until))
		err = ROAM_ELOST;
	if (err == ROAM_OK)
		err = meet_opened(client, opened_p, why, why_bytes);
	if (err == ROAM_OK || why[0] != '\0')
		return err;
	if (err == ROAM_EKEY)
		snprintf(why, why_bytes, "the page server at %s has another key", address);
	else if (err == ROAM_EPROTO)
		snprintf(why, why_bytes,
			 "what answers at %s is no page server of this version", address);
	else
		snprintf(why, why_bytes, "the page server at %s does not answer", address);
	roami_address_blame(client->fd, address, why, why_bytes);
	return err;
}

enum roam_err roami_store_connect(struct roami_store_client **client_p, const char *address,
				  const uint8_t *key, const struct roami_store_open *open,
				  struct roami_store_opened *opened_p, char *why, size_t why_bytes)
{
	struct roami_store_client *client = calloc(1, sizeof(*client));
	enum roam_err err = ROAM_ELOST;

	snprintf(why, why_bytes, "no memory");
	if (client == NULL)
		return ROAM_ENOMEM;
	client->until = roami_os_now_ns() + MEET_NS;
	client->route.wait = meet_wait;
	client->route.arg = client;
	client->fd = roami_address_connect(address, &client->route, why, why_bytes);
	if (client->fd >= 0)
		err = meet(client, address, key, open, opened_p, why, why_bytes);
	else if (errno != ECONNREFUSED && errno != ENOENT)
		err = errno == EINVAL ? ROAM_EINVAL : ROAM_EAGAIN;
	if (err == ROAM_OK)
		*client_p = client;
	else
		roami_store_disconnect(client);
	return err;
}

void roami_store_disconnect(struct roami_store_client *client)
{
	if (client == NULL)
		return;
	if (client->fd >= 0)
		close(client->fd);
	roami_channel_fini(&client->channel);
	free(client);
}

/* -------------------------------------------------------------------------------------- loading */

typedef void load_each(void *arg, const struct roami_store_entry *entry, const uint8_t *data);

/* Calls `each` with the entries of one frame. */
static bool load_entries(const uint8_t *data, size_t bytes, uint32_t what, load_each *each,
			 void *arg)
{
	struct roami_store_entry entry;

	for (; bytes >= sizeof(entry); bytes -= roami_store_entry_bytes(&entry)) {
		memcpy(&entry, data, sizeof(entry));
		if (roami_store_entry_bytes(&entry) > bytes ||
		    (what == ROAMI_STORE_PAGES
			     ? entry.kind != ROAMI_STORE_BYTES || entry.from != 0 ||
				       entry.bytes != ROAMI_STORE_PAGE
			     : entry.kind != ROAMI_STORE_NAME || entry.from > entry.bytes))
			return false;
		each(arg, &entry, data + sizeof(entry));
		data += roami_store_entry_bytes(&entry);
	}
	return bytes == 0;
}

/* The serial numbers of the answers to LOADs. */
struct load_span {
	uint64_t least, most;
};

static bool load_ask(struct roami_store_client *client, const struct roami_store_load *ask)
{
	const struct roam_part asked = {ask, sizeof(*ask)};

	return roami_store_send(client, ROAMI_STORE_LOAD, 1, &asked, 1,
				roami_os_now_ns() + MEET_NS);
}

/* The answer to one LOAD, up to its last frame; *next_p: what to go on with. */
static enum roam_err load_answer(struct roami_store_client *client, uint32_t what,
				 uint32_t *next_p, load_each *each, void *arg,
				 struct load_span *span)
{
	uint64_t until = roami_os_now_ns() + MEET_NS;
	struct roami_store_part part = {.flags = 0};
	struct roami_store_head head;
	const uint8_t *data;
	size_t bytes;

	while ((part.flags & ROAMI_STORE_LAST) == 0) {
		enum roam_err err = roami_store_receive(client, until, &head, &data, &bytes);

		if (err != ROAM_OK)
			return err;
		if (head.kind == ROAMI_STORE_DURABLE)
			continue;
		if (head.kind != ROAMI_STORE_LOADED || bytes < sizeof(part))
			return ROAM_EPROTO;
		memcpy(&part, data, sizeof(part));
		if (!load_entries(data + sizeof(part), bytes - sizeof(part), what, each, arg))
			return ROAM_EPROTO;
	}
	if (part.next <= *next_p)
		return ROAM_EPROTO;
	*next_p = part.next;
	span->least = part.serial < span->least ? part.serial : span->least;
	span->most = part.serial > span->most ? part.serial : span->most;
	return ROAM_OK;
}

/* Loads [ask->first, ask->end). */
static enum roam_err load_rest(struct roami_store_client *client, struct roami_store_load *ask,
			       load_each *each, void *arg, struct load_span *span)
{
	enum roam_err err = ROAM_OK;

	while (ask->first < ask->end && err == ROAM_OK)
		err = load_ask(client, ask)
			      ? load_answer(client, ask->what, &ask->first, each, arg, span)
			      : ROAM_ELOST;
	return err;
}

enum roam_err roami_store_load(struct roami_store_client *client, uint32_t what, uint32_t first,
			       uint32_t end, load_each *each, void *arg)
{
	struct roami_store_load ask = {.what = what, .first = first, .end = end};
	struct load_span span = {UINT64_MAX, 0};

	return load_rest(client, &ask, each, arg, &span);
}

/*
 * What was changed behind commit `since`.  Pages and names are asked for in one breath, so that no
 * commit comes between the two answers if each is one.
 */
static enum roam_err load_round(struct roami_store_client *client,
				const struct roami_store_loader *loader, uint64_t since,
				struct load_span *paged, struct load_span *named)
{
	struct roami_store_load pages = {ROAMI_STORE_PAGES, 0, UINT32_MAX, 0, since};
	struct roami_store_load names = {ROAMI_STORE_NAMES, 0, UINT32_MAX, 0, 0};
	enum roam_err err;

	*paged = *named = (struct load_span){UINT64_MAX, 0};
	if (!load_ask(client, &pages) || !load_ask(client, &names))
		return ROAM_ELOST;
	loader->begin(loader->arg);
	err = load_answer(client, pages.what, &pages.first, loader->page, loader->arg, paged);
	if (err == ROAM_OK)
		err = load_answer(client, names.what, &names.first, loader->name, loader->arg,
				  named);
	if (err == ROAM_OK)
		err = load_rest(client, &pages, loader->page, loader->arg, paged);
	if (err == ROAM_OK)
		err = load_rest(client, &names, loader->name, loader->arg, named);
	return err;
}

enum roam_err roami_store_load_all(struct roami_store_client *client,
				   const struct roami_store_loader *loader, uint64_t *serial_p)
{
	struct load_span paged, named;
	enum roam_err err;

	*serial_p = 0;
	do {
		err = load_round(client, loader, *serial_p, &paged, &named);
		*serial_p = paged.least;
	} while (err == ROAM_OK && (paged.least != paged.most || named.least != named.most ||
				    named.most > paged.most));
	return err;
}

/* -------------------------------------------------------------------------------------- commits */

void roami_store_begin(struct roami_store_commit *commit, struct roami_store_client *client,
		       uint64_t number, uint64_t until)
{
	commit->client = client;
	commit->number = number;
	commit->until = until;
	commit->kept = NULL;
	commit->bytes = 0;
}

/* Frames begin with how many bytes they are. */
static bool commit_keep(const struct roami_store_commit *commit)
{
	uint64_t bytes = commit->bytes;
	uint8_t *at;

	if (commit->kept == NULL)
		return true;
	at = roami_os_vec_grow(commit->kept, 1, sizeof(bytes) + commit->bytes);
	if (at == NULL)
		return false;
	memcpy(at, &bytes, sizeof(bytes));
	memcpy(at + sizeof(bytes), commit->entries, commit->bytes);
	commit->kept->count += sizeof(bytes) + commit->bytes;
	return true;
}

static bool commit_send(const struct roami_store_commit *commit, const void *entries, size_t bytes,
			uint32_t flags)
{
	const struct roami_store_part part = {.flags = flags};
	const struct roam_part parts[2] = {{&part, sizeof(part)}, {entries, bytes}};

	return roami_store_send(commit->client, ROAMI_STORE_COMMIT, commit->number, parts, 2,
				commit->until);
}

/* What cannot be kept is sent all the same. */
static bool commit_flush(struct roami_store_commit *commit, uint32_t flags)
{
	size_t bytes = commit->bytes;

	if (!commit_keep(commit)) {
		roami_os_vec_free(commit->kept, 1);
		commit->kept = NULL;
	}
	commit->bytes = 0;
	return commit->client == NULL || commit_send(commit, commit->entries, bytes, flags);
}

bool roami_store_again(struct roami_store_commit *commit, struct roami_store_client *client)
{
	const uint8_t *at, *end;
	uint64_t bytes;
	bool good = true;

	commit->client = client;
	if (commit->kept == NULL)
		return false;
	at = commit->kept->items;
	for (end = at + commit->kept->count; good && at < end; at += sizeof(bytes) + bytes) {
		memcpy(&bytes, at, sizeof(bytes));
		good = commit_send(commit, at + sizeof(bytes), bytes,
				   at + sizeof(bytes) + bytes == end ? ROAMI_STORE_LAST : 0);
	}
	return good;
}

/* An entry of two pieces. */
static bool commit_add(struct roami_store_commit *commit, const struct roami_store_entry *entry,
		       const void *one, size_t one_bytes, const void *two)
{
	size_t bytes = roami_store_entry_bytes(entry);
	uint8_t *at;

	if (bytes > sizeof(commit->entries) - commit->bytes && !commit_flush(commit, 0))
		return false;
	at = commit->entries + commit->bytes;
	memset(at + bytes - 8, 0, 8);
	memcpy(at, entry, sizeof(*entry));
	memcpy(at + sizeof(*entry), one, one_bytes);
	if (two != NULL)
		memcpy(at + sizeof(*entry) + one_bytes, two, entry->bytes - one_bytes);
	commit->bytes += bytes;
	return true;
}

bool roami_store_add_bytes(struct roami_store_commit *commit, uint32_t page, uint32_t from,
			   const void *data, uint32_t bytes)
{
	const struct roami_store_entry entry = {ROAMI_STORE_BYTES, bytes, page, from};

	roami_assert(from < ROAMI_STORE_PAGE && bytes <= ROAMI_STORE_PAGE - from);
	return commit_add(commit, &entry, data, bytes, NULL);
}

bool roami_store_add_name(struct roami_store_commit *commit, const char *name, const void *value,
			  uint32_t bytes)
{
	uint32_t name_bytes = (uint32_t)strlen(name);
	const struct roami_store_entry entry = {
		value != NULL ? ROAMI_STORE_NAME : ROAMI_STORE_NO_NAME,
		name_bytes + (value != NULL ? bytes : 0), 0, name_bytes};

	roami_assert(name_bytes > 0 && name_bytes <= ROAMI_STORE_KEY_MAX &&
		     bytes <= ROAMI_STORE_VALUE_MAX);
	return commit_add(commit, &entry, name, name_bytes, value);
}

bool roami_store_end(struct roami_store_commit *commit)
{
	return commit_flush(commit, ROAMI_STORE_LAST);
}
