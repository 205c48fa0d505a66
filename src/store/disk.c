#include "store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef ROAMI_HAVE_LIBURING
#include <liburing.h>
#endif

static bool disk_may(const struct roami_disk *disk, enum roami_disk_step step)
{
	return disk->may == NULL || disk->may(disk->arg, step);
}

/* Drops the bytes that were written from the parts; the first one that is left. */
static unsigned parts_drop(struct iovec *parts, unsigned count, size_t bytes)
{
	unsigned first = 0;

	while (first < count && bytes >= parts[first].iov_len)
		bytes -= parts[first++].iov_len;
	if (first < count) {
		parts[first].iov_base = (uint8_t *)parts[first].iov_base + bytes;
		parts[first].iov_len -= bytes;
	}
	return first;
}

bool roami_disk_write(struct roami_disk *disk, int fd, uint64_t offset, struct iovec *parts,
		      unsigned count)
{
	if (!disk_may(disk, ROAMI_DISK_WRITE))
		return false;
	while (count > 0) {
		unsigned some = count < IOV_MAX ? count : IOV_MAX, first;
		ssize_t wrote = pwritev(fd, parts, (int)some, (off_t)offset);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0)
			return false;
		if (wrote == 0) {
			errno = ENOSPC;
			return false;
		}
		offset += (uint64_t)wrote;
		first = parts_drop(parts, some, (size_t)wrote);
		parts += first;
		count -= first;
	}
	return true;
}

/* One that failed is never tried again: the kernel may have dropped what it could not write. */
bool roami_disk_sync(struct roami_disk *disk, int fd)
{
	return disk_may(disk, ROAMI_DISK_SYNC) && fdatasync(fd) == 0;
}

bool roami_disk_rename(struct roami_disk *disk, int directory, const char *from, const char *to)
{
	return disk_may(disk, ROAMI_DISK_RENAME) &&
	       renameat(directory, from, directory, to) == 0 && fsync(directory) == 0;
}

#ifdef ROAMI_HAVE_LIBURING

#define ENTRIES 4u

/* What the next completion says; the calls may be interrupted. */
static int ring_result(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	int result;

	do
		result = io_uring_wait_cqe(ring, &cqe);
	while (result == -EINTR);
	if (result < 0)
		return result;
	result = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return result;
}

/*
 * A write, and a sync behind it, by one call of the kernel.  Returns the bytes written, negative:
 * an error; *synced_p: what the sync said, which a short write cancels.
 */
static int ring_append(struct io_uring *ring, int fd, uint64_t offset, const struct iovec *parts,
		       unsigned count, int *synced_p)
{
	struct io_uring_sqe *write = io_uring_get_sqe(ring), *sync = io_uring_get_sqe(ring);
	int wrote, submitted;

	io_uring_prep_writev(write, fd, parts, count, offset);
	write->flags |= IOSQE_IO_LINK;
	io_uring_prep_fsync(sync, fd, IORING_FSYNC_DATASYNC);
	do
		submitted = io_uring_submit_and_wait(ring, 2);
	while (submitted == -EINTR);
	if (submitted < 0)
		return submitted;
	wrote = ring_result(ring);
	*synced_p = ring_result(ring);
	return wrote;
}

static bool disk_append_ring(struct roami_disk *disk, int fd, uint64_t offset, struct iovec *parts,
			     unsigned count)
{
	size_t bytes = 0;
	unsigned first;
	int wrote, synced = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	if (!disk_may(disk, ROAMI_DISK_WRITE) || !disk_may(disk, ROAMI_DISK_SYNC))
		return false;
	wrote = ring_append(disk->ring, fd, offset, parts, count, &synced);
	if (wrote < 0 || (synced < 0 && synced != -ECANCELED)) {
		errno = wrote < 0 ? -wrote : -synced;
		return false;
	}
	if ((size_t)wrote == bytes && synced == 0)
		return true;
	first = parts_drop(parts, count, (size_t)wrote);
	return roami_disk_write(disk, fd, offset + (uint64_t)wrote, parts + first, count - first) &&
	       roami_disk_sync(disk, fd);
}

void roami_disk_open(struct roami_disk *disk, bool uring)
{
	struct io_uring *ring = uring ? malloc(sizeof(*ring)) : NULL;

	*disk = (struct roami_disk){.ring = NULL};
	if (ring != NULL && io_uring_queue_init(ENTRIES, ring, 0) == 0)
		disk->ring = ring;
	else
		free(ring);
}

void roami_disk_close(struct roami_disk *disk)
{
	if (disk->ring != NULL)
		io_uring_queue_exit(disk->ring);
	free(disk->ring);
	disk->ring = NULL;
}

#else

void roami_disk_open(struct roami_disk *disk, bool uring)
{
	(void)uring;
	*disk = (struct roami_disk){.ring = NULL};
}

void roami_disk_close(struct roami_disk *disk)
{
	(void)disk;
}

#endif

bool roami_disk_append(struct roami_disk *disk, int fd, uint64_t offset, struct iovec *parts,
		       unsigned count)
{
#ifdef ROAMI_HAVE_LIBURING
	if (disk->ring != NULL && count <= IOV_MAX)
		return disk_append_ring(disk, fd, offset, parts, count);
#endif
	return roami_disk_write(disk, fd, offset, parts, count) && roami_disk_sync(disk, fd);
}
