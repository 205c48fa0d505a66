#include "store/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/address.h"
#include "os/os.h"
#include "store/writer.h"

#define STRANGERS_MAX 256u
#define STRANGER_NS   5000000000u /* time for a new connection to show the key */
#define EVENTS        64
#define SECOND_MS     1000
#define FULL_MS       100 /* no connection is accepted, once the system had no room for one */
#define SPARE_FDS     16u /* descriptors that connections leave to files of the log and snapshots */
#define ROOM_NS       1000000000u /* between two looks for room on the disk, if there was none */
#define ROOM_BYTES    ((size_t)1 << 20) /* that there must be */
#define LAST_NS       1000000000u /* time for clients to take the last frames */

/* A connection. */
struct store_link {
	struct roami_caller caller; /* first */
	int fd; /* -1: closed; events of before may still name it */
	bool ended;      /* nothing more comes */
	uint32_t events; /* that are waited for */
	struct store_link *next, **before;
	struct store_link *next_closed;
	uint64_t since;
	size_t have;
	uint8_t in[2 * ROAMI_STORE_FRAME_MAX];
};

struct roami_store_server {
	struct roami_store_params params;
	struct roami_callers callers;
	int directory, lock;
	struct roami_disk disk;
	struct roami_writer writer;
	bool writes; /* the writer runs */
	bool put;    /* it has got commits since it was last woken */
	uint64_t looked; /* when there was no room on the disk */
	uint64_t done;
	int epoll, listener, wake;
	uint64_t full_ns; /* none is accepted until then, or until one closes; 0: all are */
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* to be removed; "": none */
	struct store_link *links, *closed; /* the newest first */
	unsigned strangers;
	/* A snapshot under way. */
	pid_t child; /* 0: none */
	int child_fd;
	uint64_t snapshot; /* its number */
	uint64_t log_bytes; /* written since the last one began */
	uint8_t *room;
};

static bool server_watch(const struct roami_store_server *server, int fd, uint32_t events,
			 void *arg, int how)
{
	struct epoll_event event = {.events = events, .data.ptr = arg};

	return epoll_ctl(server->epoll, how, fd, &event) == 0;
}

/* There is no room for one more connection: the server tries again soon. */
static void server_unlisten(struct roami_store_server *server)
{
	if (server_watch(server, server->listener, 0, &server->listener, EPOLL_CTL_MOD))
		server->full_ns = roami_os_now_ns() + FULL_MS * UINT64_C(1000000);
}

static void server_listen(struct roami_store_server *server)
{
	if (server->full_ns != 0 && server_watch(server, server->listener, EPOLLIN,
						 &server->listener, EPOLL_CTL_MOD))
		server->full_ns = 0;
}

/* --------------------------------------------------------------------------------------- links */

static void link_close(struct roami_store_server *server, struct store_link *link)
{
	if (!link->caller.open)
		server->strangers--;
	roami_caller_fini(&link->caller);
	/* A snapshot's child may have it, too: the kernel tells of it until none does. */
	server_watch(server, link->fd, 0, NULL, EPOLL_CTL_DEL);
	close(link->fd);
	link->fd = -1;
	*link->before = link->next;
	if (link->next != NULL)
		link->next->before = link->before;
	link->next_closed = server->closed;
	server->closed = link;
	server_listen(server);
}

static void server_free_closed(struct roami_store_server *server)
{
	while (server->closed != NULL) {
		struct store_link *link = server->closed;

		server->closed = link->next_closed;
		free(link);
	}
}

/* false: the connection is broken. */
static bool link_send(struct store_link *link)
{
	return roami_flow_send(&link->caller.out, link->fd);
}

/* Handles what has come, as far as it may be now; false: the connection is to be dropped. */
static bool link_take(struct roami_store_server *server, struct store_link *link)
{
	bool stranger = !link->caller.open;
	size_t took;

	if (!roami_caller_may(&link->caller) || link->have == 0)
		return true;
	took = roami_caller_take(&link->caller, link->in, link->have);
	if (stranger && link->caller.open)
		server->strangers--;
	if (took == SIZE_MAX)
		return false;
	link->have -= took;
	memmove(link->in, link->in + took, link->have);
	return true;
}

static bool link_receive(struct store_link *link)
{
	size_t room = link->caller.open ? sizeof(link->in) : ROAMI_CALLER_STRANGE;
	ssize_t got;

	if (link->have >= room)
		return false; /* a stranger that says too much, or a client that has hung up */
	got = recv(link->fd, link->in + link->have, room - link->have, MSG_DONTWAIT);
	if (got < 0)
		return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK;
	link->have += (size_t)got;
	return got > 0;
}

/*
 * Sends, and handles what has come: again as long as that goes on, since sending may have made room
 * for answers to what is already here, of which no event tells.
 */
static bool link_work(struct roami_store_server *server, struct store_link *link)
{
	size_t had;

	if (!link_send(link))
		return false;
	do {
		had = link->have;
		if (!link_take(server, link) || !link_send(link))
			return false;
	} while (link->have < had);
	return true;
}

/* Handles, sends, and waits for what there is to do. */
static void link_go_on(struct roami_store_server *server, struct store_link *link)
{
	struct roami_caller *caller = &link->caller;
	bool stays = link_work(server, link);
	uint32_t events;

	if (stays) {
		roami_caller_tell(caller);
		stays = link_send(link);
	}
	if (stays && caller->lost)
		stays = !roami_flow_empty(&caller->out);
	if (!stays) {
		link_close(server, link);
		return;
	}
	events = (roami_caller_may(caller) && link->have < sizeof(link->in) ? EPOLLIN : 0u) |
		 (roami_flow_empty(&caller->out) ? 0u : EPOLLOUT);
	if (events != link->events)
		server_watch(server, link->fd, events, link, EPOLL_CTL_MOD);
	link->events = events;
}

static void link_event(struct roami_store_server *server, struct store_link *link, uint32_t events)
{
	if (link->fd < 0)
		return;
	if ((events & ((link->events & EPOLLIN) | EPOLLHUP | EPOLLERR)) != 0 &&
	    !link_receive(link)) {
		link_close(server, link);
		return;
	}
	link_go_on(server, link);
}

/* The oldest connection that has not shown the key. */
static struct store_link *server_stranger(const struct roami_store_server *server)
{
	struct store_link *oldest = NULL;

	for (struct store_link *link = server->links; link != NULL; link = link->next)
		if (!link->caller.open)
			oldest = link;
	return oldest;
}

/* Whether descriptors are left for one more connection, but for SPARE_FDS: the lowest is next. */
static bool server_has_room(const struct roami_store_server *server)
{
	int next = fcntl(server->wake, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	struct rlimit limit;

	if (next < 0)
		return false;
	close(next);
	return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > (rlim_t)next + SPARE_FDS;
}

static void server_accept(struct roami_store_server *server)
{
	struct store_link *link;
	int fd;

	if (!server_has_room(server)) {
		server_unlisten(server);
		return;
	}
	fd = roami_os_fd(accept4(server->listener, NULL, NULL, SOCK_CLOEXEC));
	if (fd < 0) {
		if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK &&
		    errno != ECONNABORTED)
			server_unlisten(server);
		return;
	}
	if (server->strangers == STRANGERS_MAX)
		link_close(server, server_stranger(server));
	link = malloc(sizeof(*link)); /* `in` is left as it is */
	if (link == NULL) {
		close(fd);
		return;
	}
	memset(link, 0, offsetof(struct store_link, in));
	roami_caller_init(&link->caller, &server->callers);
	link->fd = fd;
	link->events = EPOLLIN;
	link->since = roami_os_now_ns();
	link->next = server->links;
	link->before = &server->links;
	if (link->next != NULL)
		link->next->before = &link->next;
	server->links = link;
	server->strangers++;
	roami_address_tune(fd);
	if (!server_watch(server, fd, EPOLLIN, link, EPOLL_CTL_ADD))
		link_close(server, link);
}

/* What time brings: strangers are dropped, and connections accepted again. */
static void server_patience(struct roami_store_server *server)
{
	struct store_link *link;

	while (server->strangers > 0) {
		link = server_stranger(server);
		if (roami_os_now_ns() - link->since <= STRANGER_NS)
			break;
		link_close(server, link);
	}
	if (server->full_ns != 0 && roami_os_now_ns() >= server->full_ns)
		server_listen(server);
}

/* Sends what was added to all connections. */
static void server_go_on(struct roami_store_server *server)
{
	struct store_link *next;

	for (struct store_link *link = server->links; link != NULL; link = next) {
		next = link->next;
		link_go_on(server, link);
	}
}

/* ------------------------------------------------------------------------------------ snapshots */

/* The child: it has the state as it was when the process was forked. */
static void __attribute__((noreturn))
snapshot_child(struct roami_store_server *server, const struct roami_file_head *head)
{
	struct roami_disk disk = {.ring = NULL};
	int directory;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	directory = dup2(server->directory, STDERR_FILENO + 1);
	close_range((unsigned)STDERR_FILENO + 2, ~0u, 0); /* sockets, and the lock */
	_exit(directory >= 0 && roami_snapshot_write(directory, &disk, &server->callers.state,
						      head, server->room)
		      ? 0
		      : (errno != 0 && errno < 256 ? errno : EIO));
}

static void snapshot_begin(struct roami_store_server *server)
{
	struct roami_file_head head;

	roami_file_head_make(&head, ROAMI_SNAPSHOT_MAGIC, server->callers.is.store,
			     server->callers.is.heap_bytes, server->callers.is.heap_at,
			     server->callers.serial);
	server->snapshot = server->callers.serial;
	server->log_bytes = 0;
	server->child = fork();
	if (server->child == 0)
		snapshot_child(server, &head);
	server->child_fd = server->child > 0 ? roami_os_pidfd(server->child) : -1;
	if (server->child > 0 && server->child_fd >= 0 &&
	    server_watch(server, server->child_fd, EPOLLIN, &server->child, EPOLL_CTL_ADD))
		return;
	server->params.say("pages serve: no snapshot could be begun");
	if (server->child > 0) {
		kill(server->child, SIGKILL);
		waitpid(server->child, NULL, 0);
	}
	if (server->child_fd >= 0)
		close(server->child_fd);
	server->child = 0;
}

/* The child has ended. */
static void snapshot_end(struct roami_store_server *server)
{
	char line[ROAMI_STORE_WHY];
	int status = -1, err;

	while (waitpid(server->child, &status, 0) < 0 && errno == EINTR)
		continue;
	close(server->child_fd);
	server->child = 0;
	err = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
	if (err == 0 && !roami_snapshot_commit(server->directory, &server->disk, server->snapshot))
		err = errno;
	if (err == 0)
		return;
	roami_snapshot_drop(server->directory, server->snapshot);
	snprintf(line, sizeof(line), "pages serve: snapshot %llu was not written: %s",
		 (unsigned long long)server->snapshot, strerror(err));
	server->params.say(line);
}

/* Whether the log has grown enough, as long as it takes to write the state. */
static void snapshot_consider(struct roami_store_server *server)
{
	uint64_t state = server->callers.state.pages * ROAMI_STORE_PAGE;

	if (server->child == 0 && server->writes &&
	    server->log_bytes >= server->params.snapshot_bytes && server->log_bytes >= state)
		snapshot_begin(server);
}

/* ----------------------------------------------------------------------------------- the log */

static bool no_room(int err)
{
	return err == ENOSPC || err == EDQUOT || err == EFBIG;
}

static void server_put(void *arg, struct roami_log_commit *commit)
{
	struct roami_store_server *server = arg;

	roami_writer_put(&server->writer, commit);
	server->put = true;
}

static bool server_make(void *arg)
{
	struct roami_store_server *server = arg;
	char why[ROAMI_STORE_WHY];
	struct roami_log log;

	if (!roami_log_open(&log, server->directory, &server->disk, server->params.log_bytes,
			    &server->callers.is, why)) {
		memcpy(log.fd < 0 && no_room(errno) ? server->callers.full
						    : server->callers.failed,
		       why, sizeof(why));
		return false;
	}
	server->writes = roami_writer_start(&server->writer, &log, server->wake);
	if (!server->writes)
		snprintf(server->callers.failed, sizeof(server->callers.failed),
			 "no thread for the log: %s", strerror(errno));
	return server->writes;
}

/* Whether the disk takes some bytes now. */
static bool room_there(const struct roami_store_server *server)
{
	struct iovec part = {server->room, ROOM_BYTES};
	int fd = roami_os_fd(openat(server->directory, "room",
				    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
	struct roami_disk disk = {.ring = NULL};
	bool good;

	if (fd < 0)
		return false;
	unlinkat(server->directory, "room", 0);
	good = roami_disk_write(&disk, fd, 0, &part, 1) && roami_disk_sync(&disk, fd);
	close(fd);
	return good;
}

/* There was no room for a log: looks now and then, and goes on if there is.  false: that failed. */
static bool server_look(struct roami_store_server *server)
{
	struct roami_callers *callers = &server->callers;

	if (callers->full[0] == '\0' || roami_os_now_ns() - server->looked < ROOM_NS)
		return true;
	server->looked = roami_os_now_ns();
	if (!room_there(server))
		return true;
	if (callers->is.heap_bytes != 0 && !server_make(server))
		return callers->failed[0] == '\0';
	callers->full[0] = '\0';
	callers->durable = callers->serial;
	server->params.say("pages serve: there is room again: commits are taken");
	server_go_on(server);
	return true;
}

static void server_full(struct roami_store_server *server)
{
	char line[ROAMI_STORE_WHY + 80];

	snprintf(line, sizeof(line), "pages serve: %s; commits are refused until there is room",
		 server->callers.full);
	server->looked = roami_os_now_ns();
	server->params.say(line);
}

/* The log has news.  false: it has failed. */
static bool server_news(struct roami_store_server *server)
{
	uint64_t durable, done, count;
	bool good;

	(void)!read(server->wake, &count, sizeof(count));
	if (!server->writes)
		return true;
	good = roami_writer_news(&server->writer, &durable, &done);
	server->callers.queued -= done - server->done;
	server->log_bytes += done - server->done;
	server->done = done;
	server->callers.durable = durable;
	server_go_on(server);
	return good;
}

/* ----------------------------------------------------------------------------------- serving */

/* false: the server has failed. */
static bool server_event(struct roami_store_server *server, const struct epoll_event *event)
{
	bool good = true;

	if (event->data.ptr == &server->listener)
		server_accept(server);
	else if (event->data.ptr == &server->wake)
		good = server_news(server);
	else if (event->data.ptr == &server->child)
		snapshot_end(server);
	else
		link_event(server, event->data.ptr, event->events);
	return good && server->callers.failed[0] == '\0';
}

/* The time until something is to be done even if no event comes. */
static int server_sleep_ms(const struct roami_store_server *server)
{
	if (server->full_ns != 0)
		return FULL_MS;
	return server->strangers > 0 || server->callers.full[0] != '\0' ? SECOND_MS : -1;
}

enum roam_err roami_store_serve(struct roami_store_server *server, int stop,
				char why[ROAMI_STORE_WHY])
{
	struct epoll_event events[EVENTS];
	bool good = true;

	if (!server_watch(server, stop, EPOLLIN, &server->epoll, EPOLL_CTL_ADD)) {
		snprintf(why, ROAMI_STORE_WHY, "%s", strerror(errno));
		return ROAM_ESYSTEM;
	}
	while (good) {
		int count = epoll_wait(server->epoll, events, EVENTS, server_sleep_ms(server));

		if (count < 0 && errno != EINTR) {
			snprintf(why, ROAMI_STORE_WHY, "%s", strerror(errno));
			return ROAM_ESYSTEM;
		}
		for (int i = 0; i < count && good; i++) {
			if (events[i].data.ptr == &server->epoll)
				return ROAM_OK;
			good = server_event(server, &events[i]);
		}
		if (server->put)
			roami_writer_go(&server->writer);
		server->put = false;
		good = good && server_look(server);
		server_patience(server);
		server_free_closed(server);
		snapshot_consider(server);
	}
	snprintf(why, ROAMI_STORE_WHY, "%s",
		 server->callers.failed[0] != '\0' ? server->callers.failed : server->writer.why);
	return ROAM_ESYSTEM;
}

/* ------------------------------------------------------------------------------------- opening */

int roami_store_directory(const char *path, bool make, int *lock_p, char why[ROAMI_STORE_WHY])
{
	struct stat is;
	int fd;

	*lock_p = -1;
	if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
		snprintf(why, ROAMI_STORE_WHY, "%.200s cannot be made: %s", path, strerror(errno));
		return -1;
	}
	fd = roami_os_fd(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (fd < 0 || fstat(fd, &is) != 0) {
		snprintf(why, ROAMI_STORE_WHY, "%.200s: %s", path, strerror(errno));
	} else if (is.st_uid != geteuid() || (is.st_mode & 077) != 0) {
		snprintf(why, ROAMI_STORE_WHY, "%.200s is not safe: %s", path,
			 is.st_uid != geteuid() ? "it belongs to another user"
						: "others may use it (chmod 700)");
	} else {
		*lock_p = roami_os_fd(openat(fd, "lock",
					     O_RDWR | (make ? O_CREAT : 0) | O_CLOEXEC |
						     O_NOFOLLOW,
					     0600));
		if (*lock_p < 0 && !make && errno == ENOENT)
			snprintf(why, ROAMI_STORE_WHY, "%.200s holds no pages", path);
		else if (*lock_p < 0)
			snprintf(why, ROAMI_STORE_WHY, "%.200s/lock: %s", path, strerror(errno));
		else if (flock(*lock_p, LOCK_EX | LOCK_NB) == 0)
			return fd;
		else
			snprintf(why, ROAMI_STORE_WHY, "another server has %.200s", path);
	}
	if (fd >= 0)
		close(fd);
	if (*lock_p >= 0)
		close(*lock_p);
	*lock_p = -1;
	return -1;
}

static enum roam_err open_files(struct roami_store_server *server, char why[ROAMI_STORE_WHY])
{
	struct roami_callers *callers = &server->callers;
	enum roam_err err;

	server->directory = roami_store_directory(server->params.directory, true, &server->lock,
						  why);
	if (server->directory < 0)
		return ROAM_ESYSTEM;
	err = roami_store_recover(server->directory, &callers->state, &callers->is, why);
	if (err != ROAM_OK)
		return err;
	if (!roami_files_sweep(server->directory)) {
		snprintf(why, ROAMI_STORE_WHY, "an incomplete file cannot be removed: %s",
			 strerror(errno));
		return ROAM_ESYSTEM;
	}
	callers->serial = callers->durable = callers->is.serial;
	server->log_bytes = callers->is.read;
	if (callers->is.heap_bytes == 0)
		return roami_os_secret(callers->is.store, sizeof(callers->is.store))
			       ? ROAM_OK
			       : ROAM_ESYSTEM;
	if (server_make(server))
		return ROAM_OK;
	if (callers->full[0] != '\0') {
		callers->durable = callers->is.sure;
		server_full(server);
		return ROAM_OK;
	}
	memcpy(why, callers->failed, ROAMI_STORE_WHY);
	return ROAM_ESYSTEM;
}

static enum roam_err open_sockets(struct roami_store_server *server, char *at, size_t at_bytes,
				  char why[ROAMI_STORE_WHY])
{
	const char *address = server->params.address;

	server->listener = roami_address_listen(address, at, at_bytes, why, ROAMI_STORE_WHY);
	if (server->listener < 0)
		return errno == EINVAL ? ROAM_EINVAL : ROAM_ESYSTEM;
	if (strchr(address, '/') != NULL)
		snprintf(server->path, sizeof(server->path), "%s", address);
	if (server_watch(server, server->listener, EPOLLIN, &server->listener, EPOLL_CTL_ADD) &&
	    server_watch(server, server->wake, EPOLLIN, &server->wake, EPOLL_CTL_ADD))
		return ROAM_OK;
	snprintf(why, ROAMI_STORE_WHY, "%s", strerror(errno));
	return ROAM_ESYSTEM;
}

enum roam_err roami_store_open(struct roami_store_server **server_p,
			       const struct roami_store_params *params, char *at, size_t at_bytes,
			       char why[ROAMI_STORE_WHY])
{
	struct roami_store_server *server = calloc(1, sizeof(*server));
	char ignored[ROAMI_STORE_WHY];
	enum roam_err err = ROAM_ESYSTEM;

	snprintf(why, ROAMI_STORE_WHY, "no memory");
	if (server == NULL)
		return ROAM_ENOMEM;
	server->params = *params;
	server->directory = server->lock = server->listener = server->child_fd = -1;
	memcpy(server->callers.key, params->key, sizeof(server->callers.key));
	if (params->read_key != NULL)
		memcpy(server->callers.read_key, params->read_key,
		       sizeof(server->callers.read_key));
	server->callers.make = server_make;
	server->callers.put = server_put;
	server->callers.arg = server;
	roami_disk_open(&server->disk, params->uring);
	server->room = roami_os_reserve(ROAMI_SNAPSHOT_ROOM);
	server->epoll = roami_os_fd(epoll_create1(EPOLL_CLOEXEC));
	server->wake = roami_os_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (server->room != NULL && server->epoll >= 0 && server->wake >= 0 &&
	    (params->read_key != NULL || roami_os_secret(server->callers.read_key,
							 sizeof(server->callers.read_key))))
		err = open_files(server, why);
	if (err == ROAM_OK)
		err = open_sockets(server, at, at_bytes, why);
	if (err == ROAM_OK)
		*server_p = server;
	else
		roami_store_close(server, ignored);
	return err;
}

/* ------------------------------------------------------------------------------------- closing */

/* Gives clients a moment to take what they are told last. */
static void close_links(struct roami_store_server *server)
{
	uint64_t until = roami_os_now_ns() + LAST_NS;
	struct store_link *next;

	for (struct store_link *link = server->links; link != NULL; link = next) {
		next = link->next;
		roami_caller_tell(&link->caller);
		while (link_send(link) && !roami_flow_empty(&link->caller.out) &&
		       roami_os_now_ns() < until)
			usleep(1000);
		link_close(server, link);
	}
	server_free_closed(server);
}

bool roami_store_close(struct roami_store_server *server, char why[ROAMI_STORE_WHY])
{
	struct roami_callers *callers = &server->callers;
	bool good = true;
	int err = 0;

	if (server->child > 0) { /* what it has not finished is of no use, and no error */
		kill(server->child, SIGKILL);
		waitpid(server->child, NULL, 0);
		close(server->child_fd);
	}
	if (server->writes) {
		good = roami_writer_stop(&server->writer);
		callers->durable = good ? callers->serial : callers->durable;
		memcpy(why, server->writer.why, ROAMI_STORE_WHY);
		err = server->writer.err;
	}
	if (!good)
		roami_callers_end(callers, err == ENOSPC ? ROAM_ENOSPC : ROAM_ESYSTEM, why);
	close_links(server);
	roami_callers_fini(callers);
	roami_disk_close(&server->disk);
	if (server->room != NULL)
		roami_os_unmap(server->room, ROAMI_SNAPSHOT_ROOM);
	for (int *fd = (int[]){server->epoll, server->listener, server->wake, server->directory,
			       server->lock, -2};
	     *fd != -2; fd++)
		if (*fd >= 0)
			close(*fd);
	if (server->path[0] != '\0')
		unlink(server->path);
	free(server);
	return good;
}
