/*
 * A handler that another library has installed over ours gets faults of our ranges.  If it puts
 * ours back and raises the signal anew, as Python's faulthandler does, only the stack and the
 * processor's registers show that there was a fault, which the return from the signal repeats.
 */
#include "fault/passed.h"

#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define LOOK_BYTES  65536u /* of the stack: what is between the two signals */
#define CHUNK_WORDS 32u
#define INFO_WORDS  3u     /* of siginfo_t: number and error, code, address */
#define FRAME_MAX   1024u  /* from a context to its siginfo_t, if the kernel has put both there */

#define TRAP_PAGE   14 /* the processor's number of a page fault */

#define CR2_IN_CONTEXT offsetof(ucontext_t, uc_mcontext.gregs[REG_CR2])

static const uint8_t passed_syscall[2] = {0x0f, 0x05}; /* the instruction */

/* AddressSanitizer does not allow what these read: frames of others. */
#define PASSED_READS __attribute__((no_sanitize("address")))

PASSED_READS static greg_t passed_register(const void *context, int number)
{
	return ((const ucontext_t *)context)->uc_mcontext.gregs[number];
}

/* Reads memory of which it is not known whether it is there; returns how many bytes are. */
static size_t passed_read(uintptr_t at, void *bytes, size_t count)
{
	struct iovec to = {bytes, count};
	struct iovec from = {(void *)at, count}; /* NOLINT: an address */
	ssize_t done = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

	return done > 0 ? (size_t)done : 0;
}

/* Whether the thread comes back from a system call, by which it may have raised a signal. */
static bool passed_called(uintptr_t code)
{
	uint8_t bytes[sizeof(passed_syscall)];

	return passed_read(code - sizeof(bytes), bytes, sizeof(bytes)) == sizeof(bytes) &&
	       memcmp(bytes, passed_syscall, sizeof(bytes)) == 0;
}

/* A context between the stack pointer and `at`, which was read up to there; NULL: it is none. */
static const ucontext_t *passed_context(const struct roami_passed *passed, uintptr_t at,
					uintptr_t distance)
{
	uintptr_t context = at - distance;

	if (context < passed->sp || context % sizeof(uint64_t) != 0)
		return NULL;
	return (const ucontext_t *)context; /* NOLINT: an address */
}

/* The context of a fault of which the kernel says these words, which lie at `at`. */
static const ucontext_t *passed_told(const struct roami_passed *passed, uintptr_t at,
				     const uint64_t *words)
{
	const ucontext_t *context;

	if (words[0] != (uint64_t)passed->signal || (int32_t)words[1] <= 0 ||
	    !passed->ours(passed->signal, (uintptr_t)words[2]))
		return NULL;
	context = passed_context(passed, at, passed->distance);
	return context != NULL && (uint64_t)passed_register(context, REG_CR2) == words[2] ? context
											  : NULL;
}

/* Whether the thread's last fault, if this instruction made it, is ours but did not come here. */
static bool passed_other(const struct roami_passed *passed, uintptr_t code)
{
	return passed->ours(passed->signal, passed->address) &&
	       (passed->address != passed->last.address || code == passed->last.code);
}

/*
 * The context to which the word at `at` belongs as the address of the thread's last fault: a
 * handler without SA_SIGINFO is told no more.
 */
PASSED_READS static const ucontext_t *passed_untold(const struct roami_passed *passed, uintptr_t at,
						    uint64_t word)
{
	const ucontext_t *context;

	if (word != passed->address)
		return NULL;
	context = passed_context(passed, at, CR2_IN_CONTEXT);
	if (context == NULL || context->uc_link != NULL ||
	    passed_register(context, REG_TRAPNO) != TRAP_PAGE ||
	    !passed_other(passed, (uintptr_t)passed_register(context, REG_RIP)))
		return NULL;
	return context;
}

/* The signal was raised in the other handler: that one's frame is further up. */
static bool passed_in_handler(struct roami_passed *passed)
{
	uint64_t words[CHUNK_WORDS];

	for (uintptr_t at = passed->sp; at < passed->sp + LOOK_BYTES;) {
		size_t count = passed_read(at, words, sizeof(words)) / sizeof(*words);

		if (count < INFO_WORDS)
			return false;
		for (size_t i = 0; i + INFO_WORDS <= count; i++) {
			uintptr_t word = at + i * sizeof(*words);

			passed->context = passed_untold(passed, word, words[i]);
			if (passed->context == NULL)
				passed->context = passed_told(passed, word, words + i);
			if (passed->context != NULL)
				return true;
		}
		at += (count - INFO_WORDS + 1) * sizeof(*words);
	}
	return false;
}

bool roami_passed_find(struct roami_passed *passed, int signal, const siginfo_t *info,
		       const void *context)
{
	uintptr_t code = (uintptr_t)passed_register(context, REG_RIP);

	if ((info->si_code != SI_TKILL && info->si_code != SI_USER) || info->si_pid != getpid())
		return false;
	passed->signal = signal;
	passed->address = (uintptr_t)passed_register(context, REG_CR2);
	passed->distance = (uintptr_t)info - (uintptr_t)context;
	passed->sp = ((uintptr_t)passed_register(context, REG_RSP) + 7) & ~(uintptr_t)7;
	if (passed->distance > FRAME_MAX)
		return false;
	if (passed_in_handler(passed))
		return true;
	/*
	 * It was blocked in that handler, and came when this had returned to the fault.  The kernel
	 * keeps the address of the thread's last fault that was signalled; a new thread has that of
	 * the thread that made it.
	 */
	passed->context = NULL;
	return passed_other(passed, code) && !passed_called(code);
}
