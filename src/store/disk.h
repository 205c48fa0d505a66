/* How the page server's files reach the disk: by io_uring, or by pwritev and fdatasync. */
#ifndef ROAMI_STORE_DISK_H
#define ROAMI_STORE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum roami_disk_step { ROAMI_DISK_WRITE, ROAMI_DISK_SYNC, ROAMI_DISK_RENAME };

struct roami_disk {
	void *ring; /* NULL: no io_uring */
	/* Of tests: false: the step fails, with errno.  NULL: none does. */
	bool (*may)(void *arg, enum roami_disk_step step);
	void *arg;
};

/* `uring`: where the kernel lets us. */
void roami_disk_open(struct roami_disk *disk, bool uring);
void roami_disk_close(struct roami_disk *disk);

/*
 * Writes all parts at the offset, whose bases and lengths it changes, and waits until they are on
 * the disk.  false, with errno: any part of them may be, or none.
 */
bool roami_disk_append(struct roami_disk *disk, int fd, uint64_t offset, struct iovec *parts,
		       unsigned count);

/* The same without the wait. */
bool roami_disk_write(struct roami_disk *disk, int fd, uint64_t offset, struct iovec *parts,
		      unsigned count);
/* A file, with its length; or a directory. */
bool roami_disk_sync(struct roami_disk *disk, int fd);
/* Gives the file its name, for good; `directory` is synced. */
bool roami_disk_rename(struct roami_disk *disk, int directory, const char *from, const char *to);

#endif
