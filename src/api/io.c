/*
 * Shared memory across system calls.  The kernel does not fault pages in, and a page may leave at
 * any moment: evicted, invalidated, taken by a writer.  To hold pages here would make other nodes
 * wait for as long as a call lasts, and two such threads could wait for each other for ever.  So
 * calls get private memory, and the bytes go there and back by plain loads and stores.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "api/api.h"
#include "os/os.h"
#include "roam/roam.h"

#define PIECE ((size_t)1 << 20) /* of a regular file at a time */

/* Stands a page before the private memory. */
struct io_pin {
	uint8_t *shared;
	size_t bytes;
	size_t room; /* of all, this included */
	enum roam_access access;
	/* Of a call of this file: where on the stack, and the memory of the call that led to it. */
	uintptr_t frame;
	void *outer;
};

static struct io_pin *pin_of(void *pinned)
{
	return (void *)(((uintptr_t)pinned & ~(ROAMI_PAGE - 1)) - ROAMI_PAGE);
}

/* NULL: no memory. */
static uint8_t *pin_room(size_t offset, size_t bytes)
{
	struct io_pin *pin = NULL;

	if (bytes < SIZE_MAX / 2)
		pin = roami_os_reserve(ROAMI_PAGE + offset + bytes);
	if (pin == NULL)
		return NULL;
	pin->room = ROAMI_PAGE + offset + bytes;
	return (uint8_t *)pin + ROAMI_PAGE + offset;
}

static void pin_free(void *pinned)
{
	roami_os_unmap(pin_of(pinned), pin_of(pinned)->room);
}

void *roam_pin(const void *addr, size_t bytes, enum roam_access access)
{
	uint8_t *pinned = NULL;

	if (bytes == 0 || access < ROAM_READ || access > ROAM_WRITE) {
		roami_api_errno(ROAM_EINVAL);
	} else if (roami_api_transacts()) {
		roami_api_errno(ROAM_ESTATE);
	} else if (!roami_api_shared(addr, bytes)) {
		roami_api_errno(roami_api_over() ? ROAM_ESTATE : ROAM_ENOTOURS);
	} else {
		pinned = pin_room((uintptr_t)addr % ROAMI_PAGE, bytes);
		roami_api_errno(pinned != NULL ? ROAM_OK : ROAM_ENOMEM);
	}
	if (pinned == NULL)
		return NULL;
	pin_of(pinned)->shared = (uint8_t *)(uintptr_t)addr;
	pin_of(pinned)->bytes = bytes;
	pin_of(pinned)->access = access;
	if (access == ROAM_READ)
		memcpy(pinned, addr, bytes);
	return pinned;
}

enum roam_err roam_unpin(void *pinned, size_t written)
{
	struct io_pin *pin;

	if (pinned == NULL)
		return ROAM_EINVAL;
	if (roami_api_transacts())
		return ROAM_ESTATE;
	pin = pin_of(pinned);
	if (written > (pin->access == ROAM_WRITE ? pin->bytes : 0))
		return ROAM_EINVAL;
	if (!roami_api_over())
		memcpy(pin->shared, pinned, written);
	pin_free(pinned);
	return roami_api_over() ? ROAM_ESTATE : ROAM_OK;
}

/* ------------------------------------------------------------------------------ the usual calls */

enum io_call { IO_READ, IO_WRITE, IO_RECV, IO_SEND };

static ssize_t io_direct(enum io_call call, int fd, void *buf, size_t bytes, int flags)
{
	switch (call) {
	case IO_READ:
		return read(fd, buf, bytes);
	case IO_WRITE:
		return write(fd, buf, bytes);
	case IO_RECV:
		return recv(fd, buf, bytes, flags);
	default:
		return send(fd, buf, bytes, flags);
	}
}

/* The private memory of the calling thread's call. */
static __thread void *io_used;

/*
 * Frees what calls have left there that a handler jumped out of: those that began no further up the
 * stack.  A call of the program's own stream (fopencookie) may lead to another one.
 */
static void io_use(void *pinned)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	while (io_used != NULL && pin_of(io_used)->frame <= frame) {
		void *left = io_used;

		io_used = pin_of(left)->outer;
		pin_free(left);
	}
	if (pinned == NULL)
		return;
	pin_of(pinned)->frame = frame;
	pin_of(pinned)->outer = io_used;
	io_used = pinned;
}

/* First no longer to be found: a jump must not leave memory there that is freed. */
static void io_free(void *pinned)
{
	io_used = pin_of(pinned)->outer;
	pin_free(pinned);
}

/* roam_pin for a call. */
static void *io_pin(void *buf, size_t bytes, bool in)
{
	void *pinned = roam_pin(buf, bytes, ROAM_WRITE);

	io_use(pinned);
	if (pinned != NULL && !in)
		memcpy(pinned, buf, bytes);
	return pinned;
}

static void io_unpin(void *buf, void *pinned, size_t written)
{
	if (!roami_api_over())
		memcpy(buf, pinned, written);
	io_free(pinned);
}

/* In private memory, which goes if the thread is cancelled there. */
static ssize_t io_private(enum io_call call, int fd, void *pinned, size_t bytes, int flags)
{
	ssize_t got;

	pthread_cleanup_push(io_free, pinned);
	got = io_direct(call, fd, pinned, bytes, flags);
	pthread_cleanup_pop(0);
	return got;
}

/* Why there is no private memory. */
static int pin_errno(void)
{
	return roami_api_transacts() ? EBUSY : ENOMEM;
}

/* As io_private, for shared memory. */
static ssize_t io_once(enum io_call call, int fd, void *buf, size_t bytes, int flags)
{
	bool in = call == IO_READ || call == IO_RECV;
	void *pinned = io_pin(buf, bytes, in);
	ssize_t got;
	int err;

	if (pinned == NULL) {
		errno = pin_errno();
		return -1;
	}
	got = io_private(call, fd, pinned, bytes, flags);
	err = errno;
	/* With MSG_TRUNC it may be longer than what came. */
	if (got < 0 || !in)
		io_unpin(buf, pinned, 0);
	else
		io_unpin(buf, pinned, (size_t)got < bytes ? (size_t)got : bytes);
	errno = err;
	return got;
}

/* In pieces, so that a large file takes little memory: to a file that makes no difference. */
static ssize_t io_pieces(enum io_call call, int fd, uint8_t *buf, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		size_t some = bytes - done < PIECE ? bytes - done : PIECE;
		ssize_t got = io_once(call, fd, buf + done, some, 0);

		if (got < 0)
			return done > 0 ? (ssize_t)done : got;
		done += (size_t)got;
		if ((size_t)got < some)
			break;
	}
	return (ssize_t)done;
}

static ssize_t io_call(enum io_call call, int fd, void *buf, size_t bytes, int flags)
{
	struct stat about;

	if (!roami_api_shared(buf, bytes))
		return io_direct(call, fd, buf, bytes, flags);
	if (bytes > PIECE && call <= IO_WRITE && fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
		return io_pieces(call, fd, buf, bytes);
	return io_once(call, fd, buf, bytes, flags);
}

ssize_t roam_read(int fd, void *buf, size_t bytes)
{
	return io_call(IO_READ, fd, buf, bytes, 0);
}

ssize_t roam_write(int fd, const void *buf, size_t bytes)
{
	return io_call(IO_WRITE, fd, (void *)(uintptr_t)buf, bytes, 0);
}

ssize_t roam_recv(int fd, void *buf, size_t bytes, int flags)
{
	return io_call(IO_RECV, fd, buf, bytes, flags);
}

ssize_t roam_send(int fd, const void *buf, size_t bytes, int flags)
{
	return io_call(IO_SEND, fd, (void *)(uintptr_t)buf, bytes, flags);
}

/* Bytes of all parts; SIZE_MAX: wrong. */
static size_t iov_bytes(const struct iovec *parts, int count)
{
	size_t bytes = 0;

	if (count < 0 || count > IOV_MAX)
		return SIZE_MAX;
	for (int i = 0; i < count; i++)
		if (__builtin_add_overflow(bytes, parts[i].iov_len, &bytes) || bytes > SSIZE_MAX)
			return SIZE_MAX;
	return bytes;
}

/* Between the parts and private memory that holds them one after the other; `bytes` of them. */
static void iov_copy(const struct iovec *parts, uint8_t *room, size_t bytes, bool in)
{
	for (; bytes > 0; parts++) {
		size_t some = parts->iov_len < bytes ? parts->iov_len : bytes;

		if (in)
			memcpy(parts->iov_base, room, some);
		else
			memcpy(room, parts->iov_base, some);
		room += some;
		bytes -= some;
	}
}

static ssize_t iov_call(enum io_call call, int fd, const struct iovec *parts, int count)
{
	size_t bytes = iov_bytes(parts, count);
	bool can = bytes != SIZE_MAX && !roami_api_transacts();
	uint8_t *room = can ? pin_room(0, bytes + 1) : NULL;
	ssize_t got;
	int err;

	if (room == NULL) {
		errno = bytes == SIZE_MAX ? EINVAL : pin_errno();
		return -1;
	}
	io_use(room);
	if (call == IO_WRITE)
		iov_copy(parts, room, bytes, false);
	got = io_private(call, fd, room, bytes, 0);
	err = errno;
	if (call == IO_READ && got > 0)
		iov_copy(parts, room, (size_t)got, true);
	io_free(room);
	errno = err;
	return got;
}

ssize_t roam_readv(int fd, const struct iovec *parts, int count)
{
	return iov_call(IO_READ, fd, parts, count);
}

ssize_t roam_writev(int fd, const struct iovec *parts, int count)
{
	return iov_call(IO_WRITE, fd, parts, count);
}

static size_t stream_private(bool in, void *pinned, size_t size, size_t count, FILE *file)
{
	size_t got;

	pthread_cleanup_push(io_free, pinned);
	got = in ? fread(pinned, size, count, file) : fwrite(pinned, size, count, file);
	pthread_cleanup_pop(0);
	return got;
}

static size_t io_stream(bool in, void *buf, size_t size, size_t count, FILE *file)
{
	size_t bytes, got;
	void *pinned;

	if (__builtin_mul_overflow(size, count, &bytes) || !roami_api_shared(buf, bytes))
		return in ? fread(buf, size, count, file) : fwrite(buf, size, count, file);
	pinned = io_pin(buf, bytes, in);
	if (pinned == NULL) {
		errno = pin_errno();
		return 0;
	}
	got = stream_private(in, pinned, size, count, file);
	io_unpin(buf, pinned, in ? got * size : 0);
	return got;
}

size_t roam_fread(void *buf, size_t size, size_t count, FILE *file)
{
	return io_stream(true, buf, size, count, file);
}

size_t roam_fwrite(const void *buf, size_t size, size_t count, FILE *file)
{
	return io_stream(false, (void *)(uintptr_t)buf, size, count, file);
}
