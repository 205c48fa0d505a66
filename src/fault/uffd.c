/*
 * Access and touches by userfaultfd on the app view, in SIGBUS mode: the faulting thread gets the
 * signal itself, there is no worker thread, and protection is a bit per page of the page table, so
 * no limit of mappings and no splitting.
 *
 *   none    nothing mapped: madvise(MADV_DONTNEED_LOCKED).  The bytes stay in the memfd.  A touch
 *           is a "minor" fault, or a "missing" one if the memfd has no page there yet (without
 *           MISSING that would read as zero, unseen).
 *   read    UFFDIO_CONTINUE with write protection.  In one step: protecting afterwards would leave
 *           a moment in which another thread writes unseen, so kernels without that flag cannot
 *           run this engine.
 *   write   UFFDIO_CONTINUE without it, or UFFDIO_WRITEPROTECT off.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault/engine.h"
#include "fault/signals.h"
#include "os/os.h"

/* Linux 6.4; older headers lack the name. */
#ifndef UFFDIO_CONTINUE_MODE_WP
#define UFFDIO_CONTINUE_MODE_WP ((__u64)1 << 1)
#endif

#define UFFD_MAGIC 0x75666664u
#define UFFD_MODES \
	(UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP)
#define UFFD_IOCTLS ((__u64)1 << _UFFDIO_CONTINUE | (__u64)1 << _UFFDIO_WRITEPROTECT)
#define PAGE        ((uint64_t)ROAM_PAGE_SIZE)

struct uffd_state {
	uint32_t magic; /* set by open, cleared by close */
	int uffd;       /* -1: none */
	pid_t pid; /* the descriptor acts on this process, also in the hands of a forked child */
	bool registered;
	struct roami_view view;
	roami_fault_fn *fn;
	void *arg;
};

/* What the engine needs of the kernel, and since when it is there. */
static const struct uffd_feature {
	uint64_t bit;
	const char *name;
} uffd_features[] = {
	{UFFD_FEATURE_SIGBUS, "SIGBUS (Linux 4.14)"},
	{UFFD_FEATURE_PAGEFAULT_FLAG_WP, "PAGEFAULT_FLAG_WP (Linux 5.7)"},
	{UFFD_FEATURE_MISSING_SHMEM, "MISSING_SHMEM (Linux 4.11)"},
	{UFFD_FEATURE_MINOR_SHMEM, "MINOR_SHMEM (Linux 5.14)"},
	{UFFD_FEATURE_WP_HUGETLBFS_SHMEM, "WP_HUGETLBFS_SHMEM (Linux 5.19)"},
};
#define UFFD_FEATURES (sizeof(uffd_features) / sizeof(uffd_features[0]))

static struct uffd_state *uffd_check(void *state)
{
	struct uffd_state *uffd = state;

	assert(uffd->magic == UFFD_MAGIC);
	return uffd;
}

/* ----------------------------------------------------------------------------- kernel requests */

static int uffd_new(void)
{
	return roami_os_fd((int)syscall(SYS_userfaultfd,
					O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
}

/* The features this kernel has; 0 and errno if the handshake fails. */
static uint64_t uffd_offers(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	int uffd = uffd_new();

	if (uffd < 0)
		return 0;
	if (ioctl(uffd, UFFDIO_API, &api) != 0)
		api.features = 0;
	close(uffd);
	return api.features;
}

/* A descriptor with the features that the engine needs; -1 and errno. */
static int uffd_connect(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	int uffd = uffd_new();

	for (size_t i = 0; i < UFFD_FEATURES; i++)
		api.features |= uffd_features[i].bit;
	if (uffd >= 0 && ioctl(uffd, UFFDIO_API, &api) != 0) {
		int saved = errno;

		close(uffd);
		errno = saved;
		return -1;
	}
	return uffd;
}

static bool uffd_register(int uffd, const void *at, size_t bytes)
{
	struct uffdio_register request = {
		.range = {(uintptr_t)at, bytes},
		.mode = UFFD_MODES,
	};

	if (ioctl(uffd, UFFDIO_REGISTER, &request) != 0)
		return false;
	return (request.ioctls & UFFD_IOCTLS) == UFFD_IOCTLS;
}

static enum roam_err uffd_error(int error)
{
	return error == ENOMEM || error == ENOSPC ? ROAM_ENOMEM : ROAM_ESYSTEM;
}

/* Write protection on or off for the mapped pages of a range.  Async-signal-safe, like all below.
 */
static enum roam_err uffd_writeprotect(int uffd, uint64_t at, uint64_t bytes, bool on)
{
	struct uffdio_writeprotect request = {
		.range = {at, bytes},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : UFFDIO_WRITEPROTECT_MODE_DONTWAKE,
	};

	while (ioctl(uffd, UFFDIO_WRITEPROTECT, &request) != 0) {
		if (errno != EAGAIN) /* the address space is changing */
			return uffd_error(errno);
		sched_yield();
	}
	return ROAM_OK;
}

/*
 * Maps the pages of [*at_p, end), which the memfd must have, and stops at the first page that
 * fails: *at_p is its address and the return value its errno.
 */
static int uffd_continue(int uffd, uint64_t *at_p, uint64_t end, bool writable)
{
	while (*at_p < end) {
		struct uffdio_continue request = {
			.range = {*at_p, end - *at_p},
			.mode = UFFDIO_CONTINUE_MODE_DONTWAKE |
				(writable ? 0 : UFFDIO_CONTINUE_MODE_WP),
		};

		if (ioctl(uffd, UFFDIO_CONTINUE, &request) == 0)
			return 0;
		if (request.mapped > 0)
			*at_p += (uint64_t)request.mapped; /* so far; EAGAIN does not say why */
		else if (errno != EAGAIN)
			return errno;
		else
			sched_yield();
	}
	return 0;
}

/*
 * Gives the memfd zero pages where [at, end) of the app view has none.  A touch would do so too,
 * but kills the process if it fails.
 */
static enum roam_err uffd_fill(const struct uffd_state *uffd, uint64_t at, uint64_t end)
{
	uint64_t offset = uffd->view.offset + (at - (uintptr_t)uffd->view.app);

	while (fallocate(uffd->view.fd, 0, (off_t)offset, (off_t)(end - at)) != 0)
		if (errno != EINTR)
			return uffd_error(errno);
	return ROAM_OK;
}

/*
 * Maps zeroes, writable, over the hole at *at_p and those behind it: one call where filling and
 * mapping take two.  Advances *at_p over the pages done; false if there are none.
 */
static bool uffd_zero(int uffd, uint64_t *at_p, uint64_t end)
{
	struct uffdio_zeropage request = {
		.range = {.start = *at_p, .len = end - *at_p},
		.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE,
	};

	if (ioctl(uffd, UFFDIO_ZEROPAGE, &request) == 0)
		request.zeropage = (__s64)request.range.len;
	if (request.zeropage <= 0)
		return false;
	*at_p += (uint64_t)request.zeropage;
	return true;
}

/* none -> read or write.  Pages mapped already get the access too. */
static enum roam_err uffd_open_range(const struct uffd_state *uffd, uint64_t at, uint64_t end,
				     bool writable)
{
	uint64_t filled = 0; /* the holes up to here */
	int error;

	while ((error = uffd_continue(uffd->uffd, &at, end, writable)) != 0) {
		enum roam_err err;

		if (error == EEXIST) {
			err = uffd_writeprotect(uffd->uffd, at, PAGE, !writable);
			at += PAGE;
		} else if ((error == EFAULT || error == ENOENT) && writable &&
			   uffd_zero(uffd->uffd, &at, end)) {
			if (at == end)
				return ROAM_OK;
			continue;
		} else if ((error == EFAULT || error == ENOENT) && filled <= at) {
			err = uffd_fill(uffd, at, end);
			filled = end;
		} else {
			err = uffd_error(error);
		}
		if (err != ROAM_OK)
			return err;
	}
	return ROAM_OK;
}

/* --------------------------------------------------------------------------------------- probe */

/* A page mapped twice, and a pipe: a system call on a page without access fails without any
 * signal. */
struct uffd_trial {
	struct uffd_state uffd;
	int pipe[2];
};

static bool uffd_trial_readable(const struct uffd_trial *trial)
{
	char byte;

	return write(trial->pipe[1], trial->uffd.view.app, 1) == 1 &&
	       read(trial->pipe[0], &byte, 1) == 1 && byte == (char)trial->uffd.view.runtime[0];
}

static bool uffd_trial_writable(const struct uffd_trial *trial)
{
	char byte = (char)(trial->uffd.view.runtime[0] + 1);

	if (write(trial->pipe[1], &byte, 1) != 1)
		return false;
	if (read(trial->pipe[0], trial->uffd.view.app, 1) == 1)
		return (char)trial->uffd.view.runtime[0] == byte;
	if (read(trial->pipe[0], &byte, 1) != 1) /* the byte is still there: EFAULT takes nothing */
		return false;
	return false;
}

static bool uffd_trial_is(const struct uffd_trial *trial, enum roam_access access)
{
	return uffd_trial_readable(trial) == (access >= ROAM_READ) &&
	       uffd_trial_writable(trial) == (access == ROAM_WRITE);
}

static bool uffd_trial_zap(const struct uffd_trial *trial)
{
	return madvise(trial->uffd.view.app, PAGE, MADV_DONTNEED_LOCKED) == 0 &&
	       uffd_trial_is(trial, ROAM_NONE);
}

/* Tries the whole cycle once.  Returns what does not work; NULL: all works. */
static const char *uffd_trial_cycle(const struct uffd_trial *trial)
{
	const struct uffd_state *uffd = &trial->uffd;
	uint64_t at = (uintptr_t)uffd->view.app, stop = at;

	if (!uffd_trial_is(trial, ROAM_NONE))
		return "this kernel lets a never touched page be read";
	uffd->view.runtime[0] = 1;
	if (!uffd_trial_is(trial, ROAM_NONE))
		return "this kernel lets a page without access be read";
	if (uffd_continue(uffd->uffd, &stop, at + PAGE, false) != 0)
		return "this kernel lacks UFFDIO_CONTINUE_MODE_WP (Linux 6.4)";
	if (!uffd_trial_is(trial, ROAM_READ))
		return "UFFDIO_CONTINUE_MODE_WP does not protect";
	if (uffd_writeprotect(uffd->uffd, at, PAGE, false) != ROAM_OK ||
	    !uffd_trial_is(trial, ROAM_WRITE))
		return "UFFDIO_WRITEPROTECT does not give write access";
	if (uffd_writeprotect(uffd->uffd, at, PAGE, true) != ROAM_OK ||
	    !uffd_trial_is(trial, ROAM_READ))
		return "UFFDIO_WRITEPROTECT does not protect";
	if (!uffd_trial_zap(trial))
		return "MADV_DONTNEED_LOCKED does not take access away";
	stop = at;
	if (uffd_continue(uffd->uffd, &stop, at + PAGE, true) != 0 ||
	    !uffd_trial_is(trial, ROAM_WRITE))
		return "UFFDIO_CONTINUE does not give write access";
	return NULL;
}

static const char *uffd_trial_run(void)
{
	struct uffd_trial trial = {.pipe = {-1, -1}};
	struct roami_view *view = &trial.uffd.view;
	const char *why = roami_os_writes_to(PAGE) ? "no memory for a trial"
						   : "RLIMIT_FSIZE allows no memory for a trial";

	trial.uffd.uffd = uffd_connect();
	view->bytes = PAGE;
	view->fd = roami_os_memfd("roam-probe", view->bytes);
	if (view->fd >= 0 && roami_os_pipe(trial.pipe, 0)) {
		view->app = roami_os_map_fd(NULL, view->bytes, view->fd, 0);
		view->runtime = roami_os_map_fd(NULL, view->bytes, view->fd, 0);
	}
	if (trial.uffd.uffd >= 0 && view->app != NULL && view->runtime != NULL)
		why = uffd_register(trial.uffd.uffd, view->app, view->bytes)
			      ? uffd_trial_cycle(&trial)
			      : "this kernel does not register a memfd for missing, minor and "
				"write faults";
	roami_os_unmap_fd(view->app, view->bytes);
	roami_os_unmap_fd(view->runtime, view->bytes);
	if (trial.uffd.uffd >= 0)
		close(trial.uffd.uffd);
	if (view->fd >= 0)
		close(view->fd);
	for (int i = 0; i < 2; i++)
		if (trial.pipe[i] >= 0)
			close(trial.pipe[i]);
	return why;
}

static bool uffd_probe(char *why, size_t why_bytes)
{
	uint64_t offers = uffd_offers();
	const char *failed;

	if (offers == 0) {
		snprintf(why, why_bytes, "userfaultfd: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < UFFD_FEATURES; i++) {
		if ((offers & uffd_features[i].bit) == 0) {
			snprintf(why, why_bytes, "this kernel lacks userfaultfd feature %s",
				 uffd_features[i].name);
			return false;
		}
	}
	failed = uffd_trial_run();
	snprintf(why, why_bytes, "%s", failed != NULL ? failed : "");
	return failed == NULL;
}

/* ---------------------------------------------------------------------------------- the engine */

static bool uffd_on_signal(void *arg, siginfo_t *info, const void *context)
{
	const struct uffd_state *uffd = arg;
	uintptr_t offset = (uintptr_t)info->si_addr - (uintptr_t)uffd->view.app;

	if (info->si_code != BUS_ADRERR) /* broken memory */
		return false;
	roami_signals_fault(uffd->fn, uffd->arg, (uint32_t)(offset / ROAM_PAGE_SIZE),
			    roami_signals_is_write(context), true);
	return true;
}

static enum roam_err uffd_open(void *state, const struct roami_view *view, roami_fault_fn *fn,
			       void *arg)
{
	struct uffd_state *uffd = state;
	enum roam_err err;

	assert(uffd->magic == 0);
	assert(view->bytes % ROAM_PAGE_SIZE == 0 && view->bytes / ROAM_PAGE_SIZE <= UINT32_MAX);
	uffd->magic = UFFD_MAGIC;
	uffd->pid = getpid();
	uffd->view = *view;
	uffd->fn = fn;
	uffd->arg = arg;
	uffd->uffd = uffd_connect();
	if (uffd->uffd < 0)
		return errno == EMFILE ? ROAM_ESYSTEM : ROAM_EUNSUPPORTED;
	err = roami_signals_add(SIGBUS, view->app, view->bytes, uffd_on_signal, uffd);
	if (err != ROAM_OK)
		return err;
	err = roami_signals_add(SIGBUS, view->runtime, view->bytes, roami_signals_no_memory, uffd);
	if (err != ROAM_OK)
		return err;
	uffd->registered = uffd_register(uffd->uffd, view->app, view->bytes);
	if (!uffd->registered)
		return ROAM_EUNSUPPORTED;
	/* Registered first: nothing can be mapped in between. */
	return madvise(view->app, view->bytes, MADV_DONTNEED_LOCKED) == 0 ? ROAM_OK : ROAM_ESYSTEM;
}

static void uffd_close(void *state)
{
	struct uffd_state *uffd = state;
	struct uffdio_range range;

	if (uffd->magic != UFFD_MAGIC)
		return;
	range = (struct uffdio_range){(uintptr_t)uffd->view.app, uffd->view.bytes};
	/* In a forked child this would unregister the parent's heap. */
	if (uffd->registered && uffd->pid == getpid())
		ioctl(uffd->uffd, UFFDIO_UNREGISTER, &range);
	if (uffd->uffd >= 0)
		close(uffd->uffd);
	roami_signals_remove(SIGBUS, uffd);
	memset(uffd, 0, sizeof(*uffd));
}

static enum roam_err uffd_protect(void *state, uint32_t first, uint32_t count,
				  enum roam_access from, enum roam_access to)
{
	struct uffd_state *uffd = uffd_check(state);
	uint8_t *app = uffd->view.app + (size_t)first * ROAM_PAGE_SIZE;
	uint64_t at = (uintptr_t)app, bytes = (uint64_t)count * ROAM_PAGE_SIZE;

	assert((size_t)first + count <= uffd->view.bytes / ROAM_PAGE_SIZE);
	if (count == 0)
		return ROAM_OK;
	if (to == ROAM_NONE)
		return madvise(app, bytes, MADV_DONTNEED_LOCKED) == 0 ? ROAM_OK : uffd_error(errno);
	if (from == ROAM_NONE)
		return uffd_open_range(uffd, at, at + bytes, to == ROAM_WRITE);
	return uffd_writeprotect(uffd->uffd, at, bytes, to == ROAM_READ);
}

static uint32_t uffd_copy(void *state, uint32_t first, uint32_t count, const uint8_t *from)
{
	struct uffd_state *uffd = uffd_check(state);
	uint64_t at = (uintptr_t)uffd->view.app + first * PAGE, bytes = count * PAGE, done = 0;

	while (done < bytes) {
		struct uffdio_copy request = {
			.dst = at + done,
			.src = (uintptr_t)from + done,
			.len = bytes - done,
			.mode = UFFDIO_COPY_MODE_WP | UFFDIO_COPY_MODE_DONTWAKE,
		};

		if (ioctl(uffd->uffd, UFFDIO_COPY, &request) == 0)
			return count;
		if (request.copy > 0)
			done += (uint64_t)request.copy; /* so far; errno says EAGAIN, not why */
		else if (errno != EAGAIN) /* the address space is changing */
			break;
		else
			sched_yield();
	}
	return (uint32_t)(done / PAGE);
}

static enum roam_err uffd_zero_pages(void *state, uint32_t first, uint32_t count)
{
	struct uffd_state *uffd = uffd_check(state);
	uint64_t at = (uintptr_t)uffd->view.app + first * PAGE, end = at + count * PAGE;

	return uffd_zero(uffd->uffd, &at, end) && at == end ? ROAM_OK : ROAM_ESTATE;
}

static bool uffd_check_handlers(void *state)
{
	uffd_check(state);
	return roami_signals_check(SIGBUS);
}

static int uffd_file(const void *state)
{
	const struct uffd_state *uffd = state;

	assert(uffd->magic == UFFD_MAGIC);
	return uffd->uffd;
}

const struct roami_fault_engine roami_fault_uffd = {
	.name = "uffd",
	.state_size = sizeof(struct uffd_state),
	.probe = uffd_probe,
	.open = uffd_open,
	.close = uffd_close,
	.protect = uffd_protect,
	.copy = uffd_copy,
	.zero = uffd_zero_pages,
	.check_handlers = uffd_check_handlers,
	.file = uffd_file,
};
