/* Floors: faults and protection, by userfaultfd in SIGBUS mode and by mprotect. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "floor.h"

/* since Linux 6.4; older headers lack the name */
#ifndef UFFDIO_CONTINUE_MODE_WP
#define UFFDIO_CONTINUE_MODE_WP ((__u64)1 << 1)
#endif

#define BYTES ((size_t)FLOOR_PAGES * FLOOR_PAGE)

/* What the signal handler works on: one pair per process. */
static struct floor_pair *fault_pair;
static volatile bool fault_writes;

/* ---------------------------------------------------------------- access, as bare as it gets */

static void uffd_continue(const struct floor_pair *pair, uint8_t *at, size_t bytes, bool writable)
{
	struct uffdio_continue request = {
		.range = {(uintptr_t)at, bytes},
		.mode = UFFDIO_CONTINUE_MODE_DONTWAKE | (writable ? 0 : UFFDIO_CONTINUE_MODE_WP),
	};

	ioctl(pair->uffd, UFFDIO_CONTINUE, &request);
}

static void uffd_protect(const struct floor_pair *pair, uint8_t *at, size_t bytes, bool on)
{
	struct uffdio_writeprotect request = {
		.range = {(uintptr_t)at, bytes},
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : UFFDIO_WRITEPROTECT_MODE_DONTWAKE,
	};

	ioctl(pair->uffd, UFFDIO_WRITEPROTECT, &request);
}

static void access_none(const struct floor_pair *pair, uint8_t *at, size_t bytes)
{
	if (pair->engine == FLOOR_UFFD)
		madvise(at, bytes, MADV_DONTNEED);
	else
		mprotect(at, bytes, PROT_NONE);
}

static void access_read(const struct floor_pair *pair, uint8_t *at, size_t bytes)
{
	if (pair->engine == FLOOR_UFFD)
		uffd_continue(pair, at, bytes, false);
	else
		mprotect(at, bytes, PROT_READ);
}

/* Of readable pages. */
static void access_write(const struct floor_pair *pair, uint8_t *at, size_t bytes)
{
	if (pair->engine == FLOOR_UFFD)
		uffd_protect(pair, at, bytes, false);
	else
		mprotect(at, bytes, PROT_READ | PROT_WRITE);
}

/* Of writable pages. */
static void access_protect(const struct floor_pair *pair, uint8_t *at, size_t bytes)
{
	if (pair->engine == FLOOR_UFFD)
		uffd_protect(pair, at, bytes, true);
	else
		mprotect(at, bytes, PROT_READ);
}

static void fault_signal(int number, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr & ~(uintptr_t)(FLOOR_PAGE - 1);
	uint8_t *page = (uint8_t *)at; /* an address in this side's view, as is checked next */

	(void)context;
	if (fault_pair == NULL || page < fault_pair->app || page >= fault_pair->app + BYTES) {
		signal(number, SIG_DFL);
		return;
	}
	if (fault_writes)
		access_write(fault_pair, page, FLOOR_PAGE);
	else
		access_read(fault_pair, page, FLOOR_PAGE);
}

/* --------------------------------------------------------------------------------- opening */

static bool uffd_open(struct floor_pair *pair)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
			    UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM |
			    UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	struct uffdio_register request = {
		.range = {(uintptr_t)pair->app, BYTES},
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR |
			UFFDIO_REGISTER_MODE_WP,
	};

	pair->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (pair->uffd < 0 || ioctl(pair->uffd, UFFDIO_API, &api) != 0)
		return false;
	return ioctl(pair->uffd, UFFDIO_REGISTER, &request) == 0;
}

bool floor_fault_open(struct floor_pair *pair)
{
	struct sigaction action = {.sa_sigaction = fault_signal, .sa_flags = SA_SIGINFO};
	int number = pair->engine == FLOOR_UFFD ? SIGBUS : SIGSEGV;

	pair->app = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, pair->fd[pair->side], 0);
	if (pair->app == MAP_FAILED)
		return false;
	memset(pair->app, 1, BYTES); /* fills the page table, which mprotect keeps */
	if (pair->engine == FLOOR_UFFD && !uffd_open(pair))
		return false;
	fault_pair = pair;
	return sigaction(number, &action, NULL) == 0;
}

/* ---------------------------------------------------------------------------------- floors */

void floor_fault_read(struct floor_pair *pair, struct floor_out *out)
{
	if (pair->side != 1)
		return;
	access_none(pair, pair->app, BYTES);
	fault_writes = false;
	for (unsigned i = 0; i < pair->samples; i++) {
		volatile uint64_t *word = (volatile uint64_t *)(void *)(pair->app +
									(size_t)pair->order[i] *
										FLOOR_PAGE);
		uint64_t start = floor_begin();

		(void)*word;
		floor_note(out, floor_end() - start, 1);
	}
}

/* All pages readable, none writable. */
static void fault_all_readable(struct floor_pair *pair)
{
	access_none(pair, pair->app, BYTES);
	access_read(pair, pair->app, BYTES);
}

void floor_fault_write(struct floor_pair *pair, struct floor_out *out)
{
	if (pair->side != 1)
		return;
	fault_all_readable(pair);
	fault_writes = true;
	for (unsigned i = 0; i < pair->samples; i++) {
		volatile uint64_t *word = (volatile uint64_t *)(void *)(pair->app +
									(size_t)pair->order[i] *
										FLOOR_PAGE);
		uint64_t start = floor_begin();

		*word = i;
		floor_note(out, floor_end() - start, 1);
	}
	fault_writes = false;
}

/* Measures with a spinner, while that has its CPU. */
static void protect_pages(struct floor_pair *pair, struct floor_out *out, unsigned pages,
			  unsigned samples, struct floor_spinner *spinner)
{
	fault_all_readable(pair);
	for (unsigned i = 0; i < samples; i++) {
		uint32_t first = pair->order[i] & ~(pages - 1);
		uint8_t *at = pair->app + (size_t)first * FLOOR_PAGE;
		uint64_t start;

		access_write(pair, at, (size_t)pages * FLOOR_PAGE);
		for (unsigned page = 0; page < pages; page++)
			*(volatile uint64_t *)(void *)(at + (size_t)page * FLOOR_PAGE) = i;
		if (spinner != NULL)
			floor_spinner_await(spinner);
		start = floor_begin();
		access_protect(pair, at, (size_t)pages * FLOOR_PAGE);
		floor_note(out, floor_end() - start, 1);
	}
}

void floor_protect(struct floor_pair *pair, struct floor_out *out)
{
	if (pair->side == 1)
		protect_pages(pair, out, 1, pair->samples, NULL);
}

void floor_protect_64(struct floor_pair *pair, struct floor_out *out)
{
	if (pair->side == 1)
		protect_pages(pair, out, FLOOR_BATCH, (pair->samples + 7) / 8, NULL);
}

/* Side 0 sleeps at the next meeting meanwhile; another thread of side 1 has side 0's CPU. */
static void protect_running(struct floor_pair *pair, struct floor_out *out, unsigned pages)
{
	struct floor_spinner *spinner;

	if (pair->side != 1)
		return;
	usleep(5000); /* until side 0 sleeps */
	spinner = floor_spinner_start(pair->cpu[0]);
	if (spinner != NULL)
		protect_pages(pair, out, pages, (pair->samples + 15) / 16, spinner);
	floor_spinner_stop(spinner);
}

void floor_protect_run(struct floor_pair *pair, struct floor_out *out)
{
	protect_running(pair, out, 1);
}

void floor_protect_run_64(struct floor_pair *pair, struct floor_out *out)
{
	protect_running(pair, out, FLOOR_BATCH);
}
