#define XXH_INLINE_ALL
#include <xxhash.h>

#include "save/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"
#include "roam/protocol.h"

#define READ_AT_ONCE ((size_t)1 << 14)
#define WRITE_AHEAD  ((uint64_t)8 << 20)

/* Beyond RLIMIT_FSIZE: EFBIG, and no signal. */
static bool write_all(int fd, uint64_t offset, const void *bytes, size_t count)
{
	for (size_t done = 0; done < count;) {
		size_t wrote = roami_os_write_at(fd, offset + done, (const uint8_t *)bytes + done,
						 count - done);

		if (wrote == 0 && !roami_os_writes_to(offset + count))
			errno = EFBIG;
		if (wrote == 0)
			return false;
		done += wrote;
	}
	return true;
}

/* ROAM_EPROTO: the file ends before. */
static enum roam_err read_all(int fd, void *bytes, size_t count)
{
	uint8_t *at = bytes;

	while (count > 0) {
		ssize_t got = read(fd, at, count);

		if (got == 0)
			return ROAM_EPROTO;
		if (got < 0 && errno != EINTR)
			return ROAM_ESYSTEM;
		if (got > 0) {
			at += got;
			count -= (size_t)got;
		}
	}
	return ROAM_OK;
}

uint64_t roami_save_hash(const void *bytes, size_t count)
{
	return XXH3_64bits(bytes, count);
}

static uint64_t head_check(const struct roami_save_head *head)
{
	return roami_save_hash(&head->first, sizeof(*head) - sizeof(head->check));
}

static int open_at(int directory, const char *name, int flags)
{
	return roami_os_fd(openat(directory, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600));
}

/* To be read; what is no file, and would not end, or block, is EINVAL. */
static int open_file(int directory, const char *name)
{
	int fd = open_at(directory, name, O_RDONLY | O_NONBLOCK);
	struct stat is;

	if (fd >= 0 && (fstat(fd, &is) != 0 || !S_ISREG(is.st_mode))) {
		close(fd);
		errno = EINVAL;
		fd = -1;
	}
	return fd;
}

bool roami_save_create(struct roami_save_file *file, int directory, const char *name)
{
	*file = (struct roami_save_file){.fd = open_at(directory, name,
						       O_WRONLY | O_CREAT | O_EXCL)};
	return file->fd >= 0;
}

bool roami_save_put(struct roami_save_file *file, uint32_t first, uint32_t pages,
		    const void *bytes)
{
	struct roami_save_head head = {0, first, pages, file->number++,
				       roami_save_hash(bytes, pages * ROAMI_PAGE)};

	roami_assert(pages <= ROAMI_SAVE_CHUNK);
	head.check = head_check(&head);
	if (!write_all(file->fd, file->bytes, &head, sizeof(head)) ||
	    !write_all(file->fd, file->bytes + sizeof(head), bytes, pages * ROAMI_PAGE))
		return false;
	file->bytes += sizeof(head) + pages * ROAMI_PAGE;
	/* The disk is to be busy while the next chunks are made; errors are fsync's to tell. */
	if (file->bytes - file->begun >= WRITE_AHEAD) {
		(void)sync_file_range(file->fd, (off_t)file->begun,
				      (off_t)(file->bytes - file->begun), SYNC_FILE_RANGE_WRITE);
		file->begun = file->bytes;
	}
	return true;
}

void roami_save_close(struct roami_save_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

bool roami_save_finish(struct roami_save_file *file)
{
	bool good = roami_save_put(file, 0, 0, "") && fsync(file->fd) == 0;
	int why = errno;

	roami_save_close(file);
	errno = why;
	return good;
}

bool roami_save_open(struct roami_save_file *file, int directory, const char *name)
{
	*file = (struct roami_save_file){.fd = open_file(directory, name)};
	if (file->fd >= 0)
		(void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return file->fd >= 0;
}

enum roam_err roami_save_next(struct roami_save_file *file, uint32_t heap_pages,
			      struct roami_save_head *head)
{
	enum roam_err err = read_all(file->fd, head, sizeof(*head));

	if (err != ROAM_OK)
		return err;
	return head->check == head_check(head) && head->number == file->number++ &&
			       head->pages <= ROAMI_SAVE_CHUNK && head->first <= heap_pages &&
			       head->pages <= heap_pages - head->first
		       ? ROAM_OK
		       : ROAM_EPROTO;
}

enum roam_err roami_save_body(struct roami_save_file *file, const struct roami_save_head *head,
			      void *bytes)
{
	enum roam_err err = read_all(file->fd, bytes, head->pages * ROAMI_PAGE);

	if (err == ROAM_OK && roami_save_hash(bytes, head->pages * ROAMI_PAGE) != head->body)
		return ROAM_EPROTO;
	return err;
}

enum roam_err roami_save_skip(struct roami_save_file *file, const struct roami_save_head *head)
{
	return lseek(file->fd, (off_t)(head->pages * ROAMI_PAGE), SEEK_CUR) < 0 ? ROAM_ESYSTEM
										 : ROAM_OK;
}

bool roami_save_small(int directory, const char *name, const void *bytes, size_t count)
{
	uint64_t check = roami_save_hash(bytes, count);
	int fd = open_at(directory, name, O_WRONLY | O_CREAT | O_EXCL), why;
	bool good = fd >= 0 && write_all(fd, 0, &check, sizeof(check)) &&
		    write_all(fd, sizeof(check), bytes, count) && fsync(fd) == 0;

	why = errno;
	if (fd >= 0)
		close(fd);
	errno = why;
	return good;
}

/* Reads what stands at the beginning of a small file; `verify`: that it is all of it. */
static enum roam_err read_small(int directory, const char *name, void *bytes, size_t count,
				bool verify)
{
	int fd = open_file(directory, name), why;
	enum roam_err err = fd < 0 ? ROAM_ESYSTEM : ROAM_OK;
	uint64_t check;

	if (err == ROAM_OK)
		err = read_all(fd, &check, sizeof(check));
	if (err == ROAM_OK)
		err = read_all(fd, bytes, count);
	if (err == ROAM_OK && verify && check != roami_save_hash(bytes, count))
		err = ROAM_EPROTO;
	why = errno;
	if (fd >= 0)
		close(fd);
	errno = why;
	return err;
}

enum roam_err roami_save_read_small(int directory, const char *name, void *bytes, size_t count)
{
	return read_small(directory, name, bytes, count, true);
}

enum roam_err roami_save_peek(int directory, const char *name, void *bytes, size_t count)
{
	return read_small(directory, name, bytes, count, false);
}

uint64_t roami_save_hash_file(const char *path)
{
	uint8_t bytes[READ_AT_ONCE];
	int fd = roami_os_fd(open(path, O_RDONLY | O_CLOEXEC));
	uint64_t hash = 0;
	ssize_t got;

	while (fd >= 0 && (got = read(fd, bytes, sizeof(bytes))) > 0)
		hash = hash * 31 + roami_save_hash(bytes, (size_t)got);
	if (fd >= 0)
		close(fd);
	return hash;
}
