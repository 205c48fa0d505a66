/*
 * Loaded before libc: a disk that fails a page server, which writes by pwritev and fdatasync
 * (--no-uring).  BAD_DISK says how: "short": no write takes more than a third; "write N": the N-th
 * takes half, and then there is an error; "sync N": the N-th sync fails, and what was written since
 * the one before is gone, as the kernel drops what it cannot write.  Or "slow": a snapshot's
 * child is late to close the files of its parent.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static off_t first = -1, end; /* written since the last sync */
static int file = -1;

/* Whether this is the call that fails: the disk is `kind` N, and it is the N-th. */
static bool fails(const char *kind, unsigned *calls)
{
	const char *how = getenv("BAD_DISK");
	size_t length = strlen(kind);

	return how != NULL && strncmp(how, kind, length) == 0 &&
	       ++*calls == (unsigned)atoi(how + length);
}

static void written(int fd, off_t offset, ssize_t bytes)
{
	if (fd != file)
		first = -1;
	file = fd;
	if (first < 0 || offset < first)
		first = offset;
	end = offset + bytes;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
	const char *how = getenv("BAD_DISK");
	static unsigned calls;
	static bool failed;
	ssize_t bytes;

	if (failed) {
		errno = EIO;
		return -1;
	}
	failed = fails("write ", &calls);
	if (failed)
		return pwrite(fd, parts->iov_base, (parts->iov_len + 1) / 2, offset);
	if (how != NULL && strcmp(how, "short") == 0)
		return pwrite(fd, parts->iov_base, (parts->iov_len + 2) / 3, offset);
	bytes = 0;
	for (int i = 0; i < count; i++) {
		ssize_t some = pwrite(fd, parts[i].iov_base, parts[i].iov_len, offset + bytes);

		if (some < 0)
			return bytes > 0 ? bytes : -1;
		bytes += some;
	}
	written(fd, offset, bytes);
	return bytes;
}

int fdatasync(int fd)
{
	static const char zeroes[4096];
	static unsigned calls;

	if (fails("sync ", &calls)) {
		while (first >= 0 && fd == file && first < end) {
			size_t some = end - first < 4096 ? (size_t)(end - first) : 4096;

			if (pwrite(fd, zeroes, some, first) < 0)
				break;
			first += (off_t)some;
		}
		errno = EIO;
		return -1;
	}
	first = -1;
	return fsync(fd);
}

int close_range(unsigned first_fd, unsigned last_fd, int flags)
{
	const char *how = getenv("BAD_DISK");

	if (how != NULL && strcmp(how, "slow") == 0)
		usleep(30000);
	return (int)syscall(SYS_close_range, first_fd, last_fd, flags);
}
