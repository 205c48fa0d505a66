/* How a program attaches to a server, and parts from it.  No lock is held when these are called. */
#include "pastset/attached/attach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/os.h"

static void attach_free(struct roam_ps_server *server)
{
	roami_line_close(&server->line);
	if (server->line.wake >= 0)
		close(server->line.wake);
	pthread_mutex_destroy(&server->lock);
	pthread_mutex_destroy(&server->sending);
	explicit_bzero(server->key, sizeof(server->key));
	free(server->address);
	free(server);
}

/* The first connection. */
static enum roam_err attach_first(struct roam_ps_server *server, char *why, size_t why_bytes)
{
	const struct roami_attach attach = {.session = 0};
	struct roami_attached attached;
	enum roam_err err;

	if (server->address == NULL)
		return ROAM_ENOMEM;
	if (server->line.wake < 0)
		return ROAM_ESYSTEM;
	err = roami_line_open(&server->line, server->address, server->key, &attach, &attached, why,
			      why_bytes);
	if (err == ROAM_EAGAIN)
		return ROAM_ELOST;
	if (err == ROAM_OK) {
		roami_attach_joined(server, &attached);
		why[0] = '\0';
	}
	return err;
}

enum roam_err roami_attach_open(struct roami_attachments *all, const char *address,
				const uint8_t *key, struct roam_ps_server **server_p, char *why,
				size_t why_bytes)
{
	struct roam_ps_server *server = calloc(1, sizeof(*server));
	enum roam_err err;

	if (server == NULL)
		return ROAM_ENOMEM;
	pthread_mutex_init(&server->lock, NULL);
	pthread_mutex_init(&server->sending, NULL);
	server->all = all;
	server->held = 1;
	server->pid = getpid();
	server->address = strdup(address);
	memcpy(server->key, key, sizeof(server->key));
	server->line.fd = -1;
	server->line.until = roami_os_now_ns() + ROAMI_ANSWER_NS;
	server->line.wake = roami_os_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	err = attach_first(server, why, why_bytes);
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

/* Says goodbye.  Without a connection the server keeps the session for a while. */
static void attach_part(struct roam_ps_server *server)
{
	const struct roami_guest_head head = {.kind = ROAMI_GUEST_DETACH};

	pthread_mutex_lock(&server->sending);
	pthread_mutex_lock(&server->lock);
	if (!server->broken && !server->full)
		roami_line_send(&server->line, &head, NULL, 0);
	pthread_mutex_unlock(&server->sending);
	roami_attach_lose(server, ROAM_ELOST);
	pthread_mutex_unlock(&server->lock);
}

void roami_attach_close(struct roami_attachments *all, struct roam_ps_server *server)
{
	struct roam_ps_server **at = &all->servers;

	pthread_mutex_lock(&all->lock);
	while (*at != server)
		at = &(*at)->next;
	*at = server->next;
	pthread_mutex_unlock(&all->lock);
	if (server->pid == getpid())
		attach_part(server);
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
	pthread_mutex_lock(&all->lock);
	for (struct roam_ps_server *server = all->servers; server != NULL; server = server->next) {
		pthread_mutex_lock(&server->lock);
		roami_attach_stir(server);
		roami_attach_wake(server);
		pthread_mutex_unlock(&server->lock);
	}
	pthread_mutex_unlock(&all->lock);
}
