/*
 * Descriptors.  A program may have been started with some of the standard ones closed; what the
 * library opened in their place would be written to as the program's output, or read as its input.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

#define FDS_FIRST (STDERR_FILENO + 1)

int roami_os_fd(int fd)
{
	int moved, saved;

	if (fd < 0 || fd >= FDS_FIRST)
		return fd;
	moved = fcntl(fd, F_DUPFD_CLOEXEC, FDS_FIRST);
	saved = errno;
	close(fd);
	errno = saved;
	return moved;
}

void roami_os_fds_keep(int first, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		fcntl(first + (int)i, F_SETFD, FD_CLOEXEC);
}

bool roami_os_pipe(int ends[2], int flags)
{
	int saved;

	if (pipe2(ends, flags | O_CLOEXEC) != 0)
		return false;
	ends[0] = roami_os_fd(ends[0]);
	ends[1] = roami_os_fd(ends[1]);
	if (ends[0] >= 0 && ends[1] >= 0)
		return true;
	saved = errno;
	for (unsigned i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	errno = saved;
	return false;
}

void roami_os_fd_mark(struct roami_fd_mark *mark, int fd)
{
	struct stat status = {.st_dev = 0};

	*mark = (struct roami_fd_mark){.fd = fd};
	if (fstat(fd, &status) == 0) {
		mark->device = status.st_dev;
		mark->file = status.st_ino;
	}
}

bool roami_os_fd_marked(const struct roami_fd_mark *mark)
{
	struct roami_fd_mark now;

	roami_os_fd_mark(&now, mark->fd);
	return now.file != 0 && now.device == mark->device && now.file == mark->file;
}

void roami_os_tcp_watch(int fd, int idle_s, int lost_ms)
{
	const int on = 1, every_s = 1, times = lost_ms / 1000 - idle_s;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof(lost_ms));
}

FILE *roami_os_file(const char *path)
{
	int fd = roami_os_fd(open(path, O_RDONLY | O_CLOEXEC));
	FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;

	if (file == NULL && fd >= 0)
		close(fd);
	return file;
}

unsigned roami_os_fds_hold(void)
{
	unsigned held = 0;

	for (int fd = 0; fd < FDS_FIRST; fd++) {
		int got = fcntl(fd, F_GETFD) < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

		if (got == fd)
			held |= 1u << fd;
		else if (got >= 0)
			close(got);
	}
	return held;
}

void roami_os_fds_release(unsigned held)
{
	int saved = errno;

	for (int fd = 0; fd < FDS_FIRST; fd++)
		if ((held >> fd & 1u) != 0)
			close(fd);
	errno = saved;
}
