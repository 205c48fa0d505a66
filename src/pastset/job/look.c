/* The observer of what a program in the kernel shows of an element: see show.h. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pastset/job/client.h"
#include "pastset/job/server.h"
#include "pastset/shown.h"

#define ANSWER_NS  UINT64_C(2000000) /* after this long the node is asked */
#define SPIN_NS    UINT64_C(20000)
#define MISSED_MAX 8u /* answers that did not come, one after the other: none is expected */

struct look {
	struct roami_show_frame head;
	uint8_t tuple[ROAMI_SHOWN_BYTES];
};

/* What goes to an address of this host does not pass the interface, but for the loopback's. */
static bool look_passes(const struct roami_show *show, const struct roami_show_at *at)
{
	return at->host != show->at.host || ntohl(at->host) >> 24 == IN_LOOPBACKNET;
}

/* Whether it can be answered there: it changes nothing, and all that ask get the same. */
static bool look_fits(const struct roam_ps_element *element, const struct roami_ask *ask)
{
	return element->at.host != 0 &&
	       look_passes(&roami_past_job(element->past)->show, &element->at) &&
	       ask->op == ROAM_PS_OBSERVE && ask->which == ROAM_PS_LAST &&
	       ask->flags == ROAM_PS_PEEK &&
	       atomic_load_explicit(&element->missed, memory_order_relaxed) < MISSED_MAX;
}

/* A socket of this thread's for now; ROAMI_LOOKS: there is none. */
static unsigned look_socket(struct roami_show *show)
{
	unsigned at = 0;
	int off = 1, fd;

	while (at < ROAMI_LOOKS && atomic_exchange(&show->used[at], 1) != 0)
		at++;
	if (at == ROAMI_LOOKS || show->sockets[at] > 0)
		return at;
	fd = roami_os_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_NO_CHECK, &off, sizeof(off)) == 0) {
		show->sockets[at] = fd + 1;
		return at;
	}
	if (fd >= 0)
		close(fd);
	atomic_store(&show->used[at], 0);
	return ROAMI_LOOKS;
}

/* Whether what has come is the answer; what else may come is old, or a stranger's. */
static bool look_answer(const struct roam_ps_element *element, const struct look *sent,
			const struct look *got, ssize_t bytes, const struct sockaddr_in *from)
{
	return bytes >= (ssize_t)sizeof(got->head) && from->sin_family == AF_INET &&
	       from->sin_addr.s_addr == element->at.host && from->sin_port == element->at.port &&
	       got->head.magic == sent->head.magic && got->head.nonce == sent->head.nonce &&
	       got->head.secret == sent->head.secret && got->head.element == sent->head.element;
}

/* The answer's length; 0: none has come in time. */
static size_t look_await(const struct roam_ps_element *element, int fd, const struct look *sent,
			 struct look *got)
{
	struct roami_node *node = element->node;
	uint64_t begun = node->env->now(node), spent = 0;

	do {
		struct pollfd wait = {fd, POLLIN, 0};
		struct sockaddr_in from = {.sin_family = AF_UNSPEC};
		socklen_t size = sizeof(from);
		ssize_t bytes = recvfrom(fd, got, sizeof(*got), MSG_DONTWAIT, (void *)&from, &size);

		if (bytes >= 0 && look_answer(element, sent, got, bytes, &from))
			return (size_t)bytes;
		if (bytes < 0 && spent > SPIN_NS)
			poll(&wait, 1, 1);
		spent = node->env->now(node) - begun;
	} while (spent < ANSWER_NS);
	return 0;
}

/* Asks, and waits; the answer's length. */
static size_t look_ask(struct roam_ps_element *element, struct roami_show *show, int fd,
		       size_t room, struct look *got)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
				       .sin_port = element->at.port,
				       .sin_addr.s_addr = element->at.host};
	struct look ask;

	memset(&ask, 0, sizeof(ask.head) + room);
	ask.head.magic = ROAMI_LOOK_MAGIC;
	ask.head.element = element->element;
	ask.head.secret = element->at.secret;
	ask.head.nonce = atomic_fetch_add(&show->nonce, 1) + 1;
	if (sendto(fd, &ask, sizeof(ask.head) + room, MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const void *)&to, sizeof(to)) < 0)
		return 0;
	return look_await(element, fd, &ask, got);
}

bool roami_show_look(struct roam_ps_element *element, const struct roami_ask *ask,
		struct roam_ps_request *request)
{
	struct roami_show *show = &roami_past_job(element->past)->show;
	size_t room = ask->limit < ROAMI_SHOWN_BYTES ? (ask->limit + 7u) & ~7u : ROAMI_SHOWN_BYTES;
	struct look got;
	size_t bytes;
	unsigned at;

	if (!look_fits(element, ask))
		return false;
	at = look_socket(show);
	if (at == ROAMI_LOOKS)
		return false;
	bytes = look_ask(element, show, show->sockets[at] - 1, room, &got);
	atomic_store(&show->used[at], 0);
	if (bytes == 0) {
		atomic_fetch_add_explicit(&element->missed, 1, memory_order_relaxed);
		return false;
	}
	atomic_store_explicit(&element->missed, 0, memory_order_relaxed);
	if (got.head.found != ROAMI_LOOK_FOUND || got.head.number == 0 ||
	    got.head.bytes > ask->limit || bytes < sizeof(got.head) + got.head.bytes)
		return false;
	ROAMI_COUNT(element->node->stats, ps_looks, 1);
	memcpy(request->buffer, got.tuple, got.head.bytes);
	roami_client_outcome(request, &(struct roami_outcome){.observed = got.head.number,
							      .bytes = got.head.bytes});
	return true;
}
