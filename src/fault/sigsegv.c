/*
 * Access by mprotect, touches by SIGSEGV: works on every kernel.  Every change of access within the
 * view is a mapping of its own to the kernel, which allows vm.max_map_count (65530) of them; beyond
 * it protect() returns ROAM_ENOMEM.
 *
 * With ROAMI_HAVE_LIBSIGSEGV a fault goes through GNU libsigsegv.  That library does not tell the
 * kind of access, and gives a fault that no handler takes to the default action instead of the
 * program's older handler; so roam's handler stands before the library's and passes it only faults
 * inside its views.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fault/engine.h"
#include "fault/signals.h"
#include "os/os.h"

#ifdef ROAMI_HAVE_LIBSIGSEGV
#include <sigsegv.h>
#endif

#define SIGSEGV_MAGIC 0x73656776u
#define FILL_MAX      16u /* pages of a write */

struct sigsegv_state {
	uint32_t magic; /* set by open, cleared by close */
	pid_t pid;      /* a forked child has the state but not the heap */
	struct roami_view view;
	roami_fault_fn *fn;
	void *arg;
#ifdef ROAMI_HAVE_LIBSIGSEGV
	sigsegv_dispatcher dispatcher;
	void *ticket;
	struct sigaction library; /* libsigsegv's own handler */
#endif
};

static struct sigsegv_state *sigsegv_check(void *state)
{
	struct sigsegv_state *sigsegv = state;

	assert(sigsegv->magic == SIGSEGV_MAGIC);
	return sigsegv;
}

static void sigsegv_fault(const struct sigsegv_state *sigsegv, uintptr_t address, bool write,
			  bool kind_known)
{
	uintptr_t offset = address - (uintptr_t)sigsegv->view.app;

	roami_signals_fault(sigsegv->fn, sigsegv->arg, (uint32_t)(offset / ROAM_PAGE_SIZE), write,
			    kind_known);
}

/*
 * SEGV_ACCERR only: where nothing is mapped (in a child of fork, say) no access can be given.  Nor
 * for a jump into the heap, which would fault for ever.
 */
static bool sigsegv_is_ours(const siginfo_t *info, const void *context)
{
	return info->si_code == SEGV_ACCERR && !roami_signals_is_fetch(context);
}

#ifdef ROAMI_HAVE_LIBSIGSEGV

/* Called by the kernel: passes on to the library's handler, which calls sigsegv_global. */
static bool sigsegv_on_signal(void *arg, siginfo_t *info, const void *context)
{
	const struct sigsegv_state *sigsegv = arg;

	if (!sigsegv_is_ours(info, context))
		return false;
	sigsegv->library.sa_sigaction(SIGSEGV, info, (void *)(uintptr_t)context);
	return true;
}

/*
 * Called by the library, as its one handler per process.  A dispatcher per heap: its tree is not
 * made for threads.
 */
static int sigsegv_global(void *address, int serious)
{
	struct sigsegv_state *sigsegv = roami_signals_find(SIGSEGV, (uintptr_t)address);

	(void)serious;
	return sigsegv != NULL && sigsegv_dispatch(&sigsegv->dispatcher, address);
}

static int sigsegv_area(void *address, void *arg)
{
	sigsegv_fault(arg, (uintptr_t)address, false, false);
	return 1;
}

/* Lets the library install its handler, notes it, and puts back what was there for
 * roami_signals_add to chain to. */
static enum roam_err sigsegv_library_open(struct sigsegv_state *sigsegv)
{
	struct sigaction before;

	if (sigaction(SIGSEGV, NULL, &before) != 0 || sigsegv_install_handler(sigsegv_global) != 0)
		return ROAM_ESYSTEM;
	if (sigaction(SIGSEGV, &before, &sigsegv->library) != 0)
		return ROAM_ESYSTEM;
	if ((sigsegv->library.sa_flags & SA_SIGINFO) == 0)
		return ROAM_EUNSUPPORTED;
	sigsegv_init(&sigsegv->dispatcher);
	sigsegv->ticket = sigsegv_register(&sigsegv->dispatcher, sigsegv->view.app,
					   sigsegv->view.bytes, sigsegv_area, sigsegv);
	return sigsegv->ticket != NULL ? ROAM_OK : ROAM_ENOMEM;
}

static void sigsegv_library_close(struct sigsegv_state *sigsegv)
{
	if (sigsegv->ticket != NULL)
		sigsegv_unregister(&sigsegv->dispatcher, sigsegv->ticket);
}

#else

static bool sigsegv_on_signal(void *arg, siginfo_t *info, const void *context)
{
	if (!sigsegv_is_ours(info, context))
		return false;
	sigsegv_fault(arg, (uintptr_t)info->si_addr, roami_signals_is_write(context), true);
	return true;
}

static enum roam_err sigsegv_library_open(struct sigsegv_state *sigsegv)
{
	(void)sigsegv;
	return ROAM_OK;
}

static void sigsegv_library_close(struct sigsegv_state *sigsegv)
{
	(void)sigsegv;
}

#endif

/* ------------------------------------------------------------------------------- the engine */

static bool sigsegv_probe(char *why, size_t why_bytes)
{
	long size = sysconf(_SC_PAGESIZE);

	if (size != ROAM_PAGE_SIZE) {
		snprintf(why, why_bytes, "the system's pages are %ld bytes", size);
		return false;
	}
	if (why_bytes > 0)
		why[0] = '\0';
	return true;
}

static enum roam_err sigsegv_open(void *state, const struct roami_view *view, roami_fault_fn *fn,
				  void *arg)
{
	struct sigsegv_state *sigsegv = state;
	enum roam_err err;

	assert(sigsegv->magic == 0);
	assert(view->bytes % ROAM_PAGE_SIZE == 0 && view->bytes / ROAM_PAGE_SIZE <= UINT32_MAX);
	sigsegv->magic = SIGSEGV_MAGIC;
	sigsegv->pid = getpid();
	sigsegv->view = *view;
	sigsegv->fn = fn;
	sigsegv->arg = arg;
	err = sigsegv_library_open(sigsegv);
	if (err != ROAM_OK)
		return err;
	err = roami_signals_add(SIGSEGV, view->app, view->bytes, sigsegv_on_signal, sigsegv);
	if (err != ROAM_OK)
		return err;
	err = roami_signals_add(SIGBUS, view->app, view->bytes, roami_signals_no_memory, sigsegv);
	if (err != ROAM_OK)
		return err;
	err = roami_signals_add(SIGBUS, view->runtime, view->bytes, roami_signals_no_memory,
				sigsegv);
	if (err != ROAM_OK)
		return err;
	return mprotect(view->app, view->bytes, PROT_NONE) == 0 ? ROAM_OK : ROAM_ESYSTEM;
}

static void sigsegv_close(void *state)
{
	struct sigsegv_state *sigsegv = state;

	if (sigsegv->magic != SIGSEGV_MAGIC)
		return;
	/* A child of fork may have a heap of its own there by now. */
	if (sigsegv->pid == getpid())
		mprotect(sigsegv->view.app, sigsegv->view.bytes, PROT_READ | PROT_WRITE);
	roami_signals_remove(SIGBUS, sigsegv);
	roami_signals_remove(SIGSEGV, sigsegv);
	sigsegv_library_close(sigsegv);
	memset(sigsegv, 0, sizeof(*sigsegv));
}

static enum roam_err sigsegv_protect(void *state, uint32_t first, uint32_t count,
				     enum roam_access from, enum roam_access to)
{
	static const int prot[] = {
		[ROAM_NONE] = PROT_NONE,
		[ROAM_READ] = PROT_READ,
		[ROAM_WRITE] = PROT_READ | PROT_WRITE,
	};
	struct sigsegv_state *sigsegv = sigsegv_check(state);
	uint8_t *at = sigsegv->view.app + (size_t)first * ROAM_PAGE_SIZE;

	assert((size_t)first + count <= sigsegv->view.bytes / ROAM_PAGE_SIZE);
	if (mprotect(at, (size_t)count * ROAM_PAGE_SIZE, prot[to]) == 0) {
		/*
		 * Pages that the file has are then mapped 16 at a time, not at each page's touch.
		 */
		if (count > 1 && from == ROAM_NONE)
			(void)madvise(at, (size_t)count * ROAM_PAGE_SIZE, MADV_POPULATE_READ);
		return ROAM_OK;
	}
	return errno == ENOMEM ? ROAM_ENOMEM : ROAM_ESYSTEM; /* ENOMEM: vm.max_map_count */
}

/* A write costs less than a fault per page: nothing is zeroed first. */
static void sigsegv_fill(void *state, uint32_t first, uint32_t count)
{
	static const uint8_t zeros[ROAM_PAGE_SIZE];
	const struct sigsegv_state *sigsegv = sigsegv_check(state);
	off_t at = (off_t)(sigsegv->view.offset + (uint64_t)first * ROAM_PAGE_SIZE);
	off_t end = at + (off_t)count * ROAM_PAGE_SIZE;
	off_t data = lseek(sigsegv->view.fd, at, SEEK_DATA);
	struct iovec parts[FILL_MAX];

	if ((data < 0 ? errno != ENXIO : data < end) || !roami_os_writes_to((uint64_t)end))
		return;
	for (unsigned i = 0; i < FILL_MAX; i++)
		parts[i] = (struct iovec){(void *)(uintptr_t)zeros, sizeof(zeros)};
	while (at < end) {
		size_t pages = (size_t)(end - at) / sizeof(zeros);
		ssize_t done = pwritev(sigsegv->view.fd, parts,
				       (int)(pages < FILL_MAX ? pages : FILL_MAX), at);

		if (done <= 0)
			return;
		at += done;
	}
}

static bool sigsegv_check_handlers(void *state)
{
	bool segv, bus;

	sigsegv_check(state);
	segv = roami_signals_check(SIGSEGV);
	bus = roami_signals_check(SIGBUS);
	return segv && bus;
}

const struct roami_fault_engine roami_fault_sigsegv = {
	.name = "sigsegv",
	.state_size = sizeof(struct sigsegv_state),
	.bridge = 4,
	.probe = sigsegv_probe,
	.open = sigsegv_open,
	.close = sigsegv_close,
	.protect = sigsegv_protect,
	.fill = sigsegv_fill,
	.check_handlers = sigsegv_check_handlers,
};
