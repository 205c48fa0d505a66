#include "link/address.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "link/channel.h"
#include "os/os.h"

#define KEY_DIGITS   (2 * ROAMI_CHANNEL_KEY)
#define IDLE_S       5
#define LOST_MS      10000
#define SOCKET_FLAGS (SOCK_STREAM | SOCK_CLOEXEC)

/* ------------------------------------------------------------------------------------ addresses */

/* The path of a Unix socket; false: it is too long. */
static bool address_unix(const char *address, struct sockaddr_un *un, char *why, size_t why_bytes)
{
	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(address) >= sizeof(un->sun_path)) {
		snprintf(why, why_bytes, "the path of a socket has at most %zu bytes: %s",
			 sizeof(un->sun_path) - 1, address);
		errno = EINVAL;
		return false;
	}
	strcpy(un->sun_path, address);
	return true;
}

/* What HOST:PORT stands for; NULL: nothing. */
static struct addrinfo *address_inet(const char *address, bool listens, char *why, size_t why_bytes)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = listens ? AI_PASSIVE : AI_ADDRCONFIG};
	const char *colon = strrchr(address, ':');
	struct addrinfo *list;
	char host[256];
	int err;

	if (colon == NULL || colon[1] == '\0' || (size_t)(colon - address) >= sizeof(host) ||
	    strtoul(colon + 1, NULL, 10) > UINT16_MAX) {
		snprintf(why, why_bytes, "an address is HOST:PORT, or a path with a /: not \"%s\"",
			 address);
		errno = EINVAL;
		return NULL;
	}
	snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
	err = getaddrinfo(host[0] != '\0' ? host : NULL, colon + 1, &hints, &list);
	if (err != 0) {
		snprintf(why, why_bytes, "%s: %s", address, gai_strerror(err));
		errno = EINVAL;
		return NULL;
	}
	return list;
}

void roami_address_tune(int fd)
{
	roami_os_tcp_watch(fd, IDLE_S, LOST_MS);
}

/* A server that is stopped accepts no connection: no attempt may wait without an end. */
static int connect_to(const struct sockaddr *to, socklen_t bytes, const struct roami_route *route,
		      bool last)
{
	int fd = roami_os_fd(socket(to->sa_family, SOCKET_FLAGS | SOCK_NONBLOCK, 0)), err = 0;
	socklen_t err_bytes = sizeof(err);

	if (fd < 0)
		return -1;
	if (connect(fd, to, bytes) == 0)
		return fd;
	err = errno;
	if (err == EINPROGRESS && !route->wait(route->arg, fd, last))
		err = ETIMEDOUT;
	else if (err == EINPROGRESS && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_bytes) != 0)
		err = errno;
	if (err == 0)
		return fd;
	close(fd);
	errno = err;
	return -1;
}

/* A Unix socket is connected at once, or not at all. */
static int connect_unix(const struct sockaddr_un *un)
{
	return connect_to((const struct sockaddr *)(const void *)un, sizeof(*un), NULL, true);
}

static int connect_inet(const char *address, struct roami_route *route, char *why, size_t why_bytes)
{
	struct addrinfo *list, *at;
	int fd = -1, err;

	if (route->bytes != 0)
		return connect_to((const struct sockaddr *)(const void *)&route->to, route->bytes,
				  route, true);
	list = address_inet(address, false, why, why_bytes);
	for (at = list; at != NULL && fd < 0; at = at->ai_next) {
		fd = connect_to(at->ai_addr, at->ai_addrlen, route, at->ai_next == NULL);
		if (fd < 0 || at->ai_addrlen > sizeof(route->to))
			continue;
		memcpy(&route->to, at->ai_addr, at->ai_addrlen);
		route->bytes = at->ai_addrlen;
	}
	err = errno;
	if (list != NULL)
		freeaddrinfo(list);
	errno = err;
	return fd;
}

int roami_address_connect(const char *address, struct roami_route *route, char *why,
			  size_t why_bytes)
{
	struct sockaddr_un un;
	int fd = -1, err;

	why[0] = '\0';
	errno = 0;
	if (strchr(address, '/') == NULL)
		fd = connect_inet(address, route, why, why_bytes);
	else if (address_unix(address, &un, why, why_bytes))
		fd = connect_unix(&un);
	err = errno;
	if (fd >= 0)
		roami_address_tune(fd);
	else if (why[0] == '\0')
		snprintf(why, why_bytes, "no server at %s: %s", address, strerror(err));
	errno = err;
	return fd;
}

void roami_address_blame(int fd, const char *address, char *why, size_t why_bytes)
{
	pid_t pid;
	uid_t uid;

	if (strchr(address, '/') != NULL && roami_os_peer(fd, &pid, &uid) && uid != geteuid())
		snprintf(why, why_bytes, "process %d of user %u listens at %s", (int)pid,
			 (unsigned)uid, address);
}

static int listen_unix(const char *address, char *why, size_t why_bytes)
{
	struct sockaddr_un un;
	struct stat status;
	mode_t mask;
	int fd, other, bound;

	if (!address_unix(address, &un, why, why_bytes))
		return -1;
	other = connect_unix(&un);
	if (other >= 0) {
		snprintf(why, why_bytes, "another server listens at %s already", address);
		roami_address_blame(other, address, why, why_bytes);
		close(other);
		return -1;
	}
	if (errno == ECONNREFUSED && lstat(address, &status) == 0 && S_ISSOCK(status.st_mode))
		unlink(address); /* of a server that was killed */
	fd = roami_os_fd(socket(AF_UNIX, SOCKET_FLAGS | SOCK_NONBLOCK, 0));
	mask = umask(077);
	bound = fd < 0 ? -1 : bind(fd, (void *)&un, sizeof(un));
	umask(mask);
	if (bound == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	snprintf(why, why_bytes, "cannot serve at %s: %s", address, strerror(errno));
	if (errno == EADDRINUSE && lstat(address, &status) == 0)
		snprintf(why, why_bytes, "cannot serve at %s: %s of user %u is there", address,
			 S_ISSOCK(status.st_mode) ? "a socket" : "a file",
			 (unsigned)status.st_uid);
	if (fd >= 0)
		close(fd);
	return -1;
}

static int listen_inet(const struct addrinfo *at)
{
	const int on = 1;
	int fd = roami_os_fd(socket(at->ai_family, SOCKET_FLAGS | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	close(fd);
	return -1;
}

int roami_address_listen(const char *address, char *at, size_t at_bytes, char *why,
			 size_t why_bytes)
{
	struct sockaddr_storage own;
	socklen_t own_bytes = sizeof(own);
	struct addrinfo *list;
	char port[16];
	int fd;

	snprintf(at, at_bytes, "%s", address);
	if (strchr(address, '/') != NULL)
		return listen_unix(address, why, why_bytes);
	list = address_inet(address, true, why, why_bytes);
	if (list == NULL)
		return -1;
	fd = listen_inet(list);
	freeaddrinfo(list);
	if (fd < 0 || getsockname(fd, (void *)&own, &own_bytes) != 0 ||
	    getnameinfo((void *)&own, own_bytes, NULL, 0, port, sizeof(port), NI_NUMERICSERV) !=
		    0) {
		snprintf(why, why_bytes, "cannot serve at %s: %s", address, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	snprintf(at, at_bytes, "%.*s:%s", (int)(strrchr(address, ':') - address), address, port);
	return fd;
}

/* ----------------------------------------------------------------------------------------- keys */

/* Gives the file its name, unless another one has that.  Some file systems have no links. */
static bool key_name(const char *part, const char *file)
{
	return link(part, file) == 0 || errno == EEXIST ||
	       (errno == EPERM && rename(part, file) == 0);
}

/* Makes the file under another name first: nobody reads half a key. */
static bool key_make(const char *file)
{
	uint8_t key[ROAMI_CHANNEL_KEY];
	char text[KEY_DIGITS + 2], part[PATH_MAX];
	int fd = -1;
	bool made;

	if (sodium_init() >= 0 &&
	    snprintf(part, sizeof(part), "%s.XXXXXX", file) < (int)sizeof(part))
		fd = roami_os_fd(mkostemp(part, O_CLOEXEC)); /* for its owner alone */
	if (fd < 0)
		return false;
	randombytes_buf(key, sizeof(key));
	sodium_bin2hex(text, sizeof(text), key, sizeof(key));
	text[KEY_DIGITS] = '\n';
	made = write(fd, text, KEY_DIGITS + 1) == KEY_DIGITS + 1;
	made = close(fd) == 0 && made && key_name(part, file);
	unlink(part);
	sodium_memzero(key, sizeof(key));
	sodium_memzero(text, sizeof(text));
	return made;
}

static bool key_read(const char *file, int fd, uint8_t *key, char *why, size_t why_bytes)
{
	char text[KEY_DIGITS + 2];
	struct stat stat;
	size_t bytes;
	ssize_t got;
	bool known = fstat(fd, &stat) == 0, good;

	if (known && stat.st_uid != geteuid()) {
		snprintf(why, why_bytes, "the key in %s is not safe: it belongs to another user",
			 file);
		return false;
	}
	if (!known || (stat.st_mode & 077) != 0) {
		snprintf(why, why_bytes,
			 "the key in %s is not safe: others may read it (chmod 600)", file);
		return false;
	}
	got = read(fd, text, sizeof(text));
	good = (got == KEY_DIGITS || (got == KEY_DIGITS + 1 && text[KEY_DIGITS] == '\n')) &&
	       sodium_hex2bin(key, ROAMI_CHANNEL_KEY, text, KEY_DIGITS, NULL, &bytes, NULL) == 0 &&
	       bytes == ROAMI_CHANNEL_KEY;
	sodium_memzero(text, sizeof(text));
	if (!good)
		snprintf(why, why_bytes, "a key is %u hexadecimal digits, %s holds something else",
			 KEY_DIGITS, file);
	return good;
}

bool roami_address_key(const char *file, bool make, uint8_t *key, char *why, size_t why_bytes)
{
	struct stat status;
	bool good;
	int fd;

	if (file == NULL)
		file = getenv("ROAM_PS_KEY");
	if (file == NULL) {
		snprintf(why, why_bytes, "no file with a key: set ROAM_PS_KEY");
		return false;
	}
	fd = roami_os_fd(open(file, O_RDONLY | O_CLOEXEC));
	if (fd < 0 && errno == ENOENT && make && key_make(file))
		fd = roami_os_fd(open(file, O_RDONLY | O_CLOEXEC));
	if (fd < 0) {
		bool others = errno == EACCES && stat(file, &status) == 0 &&
			      status.st_uid != geteuid();

		snprintf(why, why_bytes, "no key in %s: %s", file,
			 others ? "it belongs to another user" : strerror(errno));
		return false;
	}
	good = key_read(file, fd, key, why, why_bytes);
	close(fd);
	return good;
}
