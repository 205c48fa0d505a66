#include "pastset/attached/host.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "msg/msg.h"
#include "os/os.h"
#include "link/address.h"

#define OUT_MUCH      ((size_t)4 << 20) /* to be sent: nothing more is read from the client */
#define STRANGERS_MAX 256u
#define STRANGER_NS   5000000000u /* time for a new connection to show the key */
#define EVENTS        64
#define SECOND_MS     1000
#define FULL_MS       100 /* no connection is accepted, once the system had no room for one */

/* A connection. */
struct host_link {
	struct roami_guest guest; /* first: a guest's address is its link's */
	int fd;                   /* -1: closed; events of before may still name it */
	uint32_t events;          /* that are waited for */
	struct host_link *next, *before;
	uint64_t since;
	size_t have;
	uint8_t in[ROAMI_GUEST_IN_BYTES];
};

struct roami_host {
	struct roami_guests guests;
	int epoll, listener, wake;
	uint64_t forget_ns; /* when the next session is to be forgotten */
	uint64_t full_ns; /* none is accepted until then, or until one closes; 0: all are */
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* to be removed; "": none */
	struct host_link *links, *last;                            /* the newest first */
	struct host_link *closed;
	unsigned strangers;
};

static bool host_watch(const struct roami_host *host, int fd, uint32_t events, void *arg, int how)
{
	struct epoll_event event = {.events = events, .data.ptr = arg};

	return epoll_ctl(host->epoll, how, fd, &event) == 0;
}

static uint64_t host_now(const struct roami_host *host)
{
	return host->guests.past->node->env->now(host->guests.past->node);
}

/*
 * There is no descriptor, or no memory, for one more connection.  Other processes may hold what is
 * missing, so the host tries again by time, and not only when one of its own connections closes.
 */
static void host_unlisten(struct roami_host *host)
{
	if (host_watch(host, host->listener, 0, &host->listener, EPOLL_CTL_MOD))
		host->full_ns = host_now(host) + FULL_MS * 1000000ull;
}

static void host_listen(struct roami_host *host)
{
	if (host->full_ns != 0 &&
	    host_watch(host, host->listener, EPOLLIN, &host->listener, EPOLL_CTL_MOD))
		host->full_ns = 0;
}

/* ---------------------------------------------------------------------------------------- links */

static void link_close(struct roami_host *host, struct host_link *link)
{
	roami_assert(link->fd >= 0);
	if (!link->guest.attached)
		host->strangers--;
	roami_guest_fini(&link->guest);
	/* A child of the program may have it, too: the kernel tells of it until none does. */
	host_watch(host, link->fd, 0, NULL, EPOLL_CTL_DEL);
	close(link->fd);
	link->fd = -1;
	if (link->before != NULL)
		link->before->next = link->next;
	else
		host->links = link->next;
	if (link->next != NULL)
		link->next->before = link->before;
	else
		host->last = link->before;
	link->next = host->closed;
	host->closed = link;
	host_listen(host);
}

static void host_free_closed(struct roami_host *host)
{
	while (host->closed != NULL) {
		struct host_link *link = host->closed;

		host->closed = link->next;
		free(link);
	}
}

/* Waits for what there is to do. */
static void link_watch(struct roami_host *host, struct host_link *link)
{
	size_t much = link->guest.out.end - link->guest.out.at;
	uint32_t events = (much < OUT_MUCH ? EPOLLIN : 0u) | (much > 0 ? EPOLLOUT : 0u);

	if (events != link->events)
		host_watch(host, link->fd, events, link, EPOLL_CTL_MOD);
	link->events = events;
}

/* false: the connection is broken. */
static bool link_send(struct roami_host *host, struct host_link *link)
{
	if (!roami_flow_send(&link->guest.out, link->fd))
		return false;
	link_watch(host, link);
	return true;
}

/* false: the connection is broken, or to be dropped. */
static bool link_receive(struct roami_host *host, struct host_link *link)
{
	bool stranger = !link->guest.attached;
	size_t took, room = stranger ? ROAMI_GUEST_STRANGE : sizeof(link->in);
	ssize_t got = recv(link->fd, link->in + link->have, room - link->have, MSG_DONTWAIT);

	if (got < 0)
		return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
	if (got == 0)
		return false;
	link->have += (size_t)got;
	took = roami_guest_take(&link->guest, link->in, link->have);
	if (stranger && link->guest.attached)
		host->strangers--;
	if (took == SIZE_MAX)
		return false;
	link->have -= took;
	memmove(link->in, link->in + took, link->have);
	return true;
}

static void link_event(struct roami_host *host, struct host_link *link, uint32_t events)
{
	bool stays = true;

	if (link->fd < 0)
		return;
	if ((events & EPOLLOUT) != 0)
		stays = link_send(host, link);
	if (stays && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
		stays = link_receive(host, link);
	if (!stays)
		link_close(host, link);
}

/* ------------------------------------------------------------------------------------ strangers */

/* The oldest connection that has not shown the key. */
static struct host_link *host_stranger(const struct roami_host *host)
{
	struct host_link *link = host->last;

	while (link != NULL && link->guest.attached)
		link = link->before;
	return link;
}

static void host_accept(struct roami_host *host)
{
	int fd = roami_os_fd(accept4(host->listener, NULL, NULL, SOCK_CLOEXEC));
	struct host_link *link;

	if (fd < 0) {
		if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK &&
		    errno != ECONNABORTED)
			host_unlisten(host);
		return;
	}
	if (host->strangers == STRANGERS_MAX)
		link_close(host, host_stranger(host));
	link = malloc(sizeof(*link)); /* `in` is left as it is: most of it is never used */
	if (link == NULL) {
		close(fd);
		return;
	}
	memset(link, 0, offsetof(struct host_link, in));
	roami_guest_init(&link->guest, &host->guests);
	link->fd = fd;
	link->events = EPOLLIN;
	link->since = host_now(host);
	link->next = host->links;
	if (host->links != NULL)
		host->links->before = link;
	else
		host->last = link;
	host->links = link;
	host->strangers++;
	roami_address_tune(fd);
	if (!host_watch(host, fd, EPOLLIN, link, EPOLL_CTL_ADD))
		link_close(host, link);
}

static void host_patience(struct roami_host *host)
{
	uint64_t now = host_now(host);
	struct host_link *link = host->strangers > 0 ? host_stranger(host) : NULL;

	while (link != NULL && now - link->since > STRANGER_NS) {
		link_close(host, link);
		link = host_stranger(host);
	}
}

/* ----------------------------------------------------------------------------------------- life */

static void host_wake(void *arg)
{
	const struct roami_host *host = arg;
	const uint64_t one = 1;
	ssize_t wrote = write(host->wake, &one, sizeof(one));

	(void)wrote; /* it is only full when it was written to */
}

enum roam_err roami_host_open(struct roami_host **host_p, struct roami_past *past,
			      const char *address, const uint8_t *key,
			      const struct roami_keep *keep, char *at, size_t at_bytes,
			      char *why, size_t why_bytes)
{
	struct roami_host *host = calloc(1, sizeof(*host));
	enum roam_err err = ROAM_ENOMEM;
	bool senseless;

	snprintf(why, why_bytes, "no memory");
	if (host == NULL)
		return err;
	host->epoll = host->listener = host->wake = -1;
	err = roami_guests_init(&host->guests, past, key, keep);
	host->guests.wake = host_wake;
	host->guests.arg = host;
	if (err == ROAM_OK) {
		host->epoll = roami_os_fd(epoll_create1(EPOLL_CLOEXEC));
		host->wake = roami_os_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		host->listener = roami_address_listen(address, at, at_bytes, why, why_bytes);
		senseless = host->listener < 0 && errno == EINVAL;
		if (host->listener >= 0 && strchr(address, '/') != NULL)
			snprintf(host->path, sizeof(host->path), "%s", address);
		if (host->epoll < 0 || host->wake < 0 || host->listener < 0 ||
		    !host_watch(host, host->listener, EPOLLIN, &host->listener, EPOLL_CTL_ADD) ||
		    !host_watch(host, host->wake, EPOLLIN, &host->wake, EPOLL_CTL_ADD))
			err = senseless ? ROAM_EINVAL : ROAM_ESYSTEM;
	}
	if (err == ROAM_OK)
		*host_p = host;
	else
		roami_host_close(host);
	return err;
}

/* The time until something is to be done even if no event comes. */
static int host_sleep_ms(const struct roami_host *host)
{
	uint64_t due = roami_msg_due_ns(host->guests.past->node);
	int patience = host->strangers > 0 ? SECOND_MS : -1;

	if (host->full_ns != 0)
		patience = FULL_MS;
	if (host->forget_ns < due)
		due = host->forget_ns;
	if (due == UINT64_MAX)
		return patience;
	due = due / 1000000 + 1;
	if (patience < 0)
		patience = SECOND_MS;
	return due > (uint64_t)patience ? patience : (int)due;
}

static void host_event(struct roami_host *host, const struct epoll_event *event)
{
	uint64_t count;

	if (event->data.ptr == &host->listener)
		host_accept(host);
	else if (event->data.ptr == &host->wake)
		(void)!read(host->wake, &count, sizeof(count));
	else
		link_event(host, event->data.ptr, event->events);
}

/* Sends and closes what the events have led to. */
static void host_collect(struct roami_host *host)
{
	struct roami_guest *guest;

	roami_msg_poll(host->guests.past->node);
	do {
		roami_sessions_answer(&host->guests);
		guest = roami_guests_speaking(&host->guests);
		if (guest != NULL) {
			struct host_link *link = (struct host_link *)(void *)guest;

			if (guest->lost || !link_send(host, link))
				link_close(host, link);
		}
	} while (guest != NULL);
}

enum roam_err roami_host_serve(struct roami_host *host, int stop)
{
	struct epoll_event events[EVENTS];
	int count;

	host->forget_ns = UINT64_MAX;
	if (!host_watch(host, stop, EPOLLIN, &host->epoll, EPOLL_CTL_ADD))
		return ROAM_ESYSTEM;
	for (;;) {
		count = epoll_wait(host->epoll, events, EVENTS, host_sleep_ms(host));
		if (count < 0 && errno != EINTR)
			return ROAM_ESYSTEM;
		for (int i = 0; i < count; i++) {
			if (events[i].data.ptr == &host->epoll)
				return ROAM_OK;
			host_event(host, &events[i]);
		}
		host_collect(host);
		host_patience(host);
		if (host->full_ns != 0 && host_now(host) >= host->full_ns)
			host_listen(host);
		host->forget_ns = roami_sessions_forget(&host->guests);
		host_free_closed(host);
	}
}

static void host_close_fds(const struct roami_host *host)
{
	for (int *fd = (int[]){host->epoll, host->listener, host->wake, -2}; *fd != -2; fd++)
		if (*fd >= 0)
			close(*fd);
}

void roami_host_forsake(struct roami_host *host)
{
	for (const struct host_link *link = host->links; link != NULL; link = link->next)
		close(link->fd);
	host_close_fds(host);
}

void roami_host_close(struct roami_host *host)
{
	if (host == NULL)
		return;
	while (host->links != NULL)
		link_close(host, host->links);
	host_free_closed(host);
	roami_guests_fini(&host->guests);
	host_close_fds(host);
	if (host->path[0] != '\0')
		unlink(host->path);
	free(host);
}
