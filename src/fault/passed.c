/*
 * A handler that another library has installed over ours gets faults of our ranges.  If it puts
 * ours back and raises the signal anew, as Python's faulthandler does, only the stack and the
 * processor's registers show that there was a fault, which the return from the signal repeats.
 */
#include "fault/passed.h"

#include <stddef.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define LOOK_BYTES  65536u /* of the stack: what is between the two signals */
#define CHUNK_WORDS 32u
#define INFO_WORDS  3u     /* of siginfo_t: number and error, code, address */
#define FRAME_MAX   1024u  /* from a context to its siginfo_t, if the kernel has put both there */

static greg_t passed_register(const void *context, int number)
{
	return ((const ucontext_t *)context)->uc_mcontext.gregs[number];
}

/* Reads words of the stack, of which it is not known how far it goes; returns how many. */
static size_t passed_read(uintptr_t at, uint64_t words[CHUNK_WORDS])
{
	struct iovec to = {words, CHUNK_WORDS * sizeof(*words)};
	struct iovec from = {(void *)at, to.iov_len}; /* NOLINT: an address */
	ssize_t done = process_vm_readv(getpid(), &to, 1, &from, 1, 0);

	return done > 0 ? (size_t)done / sizeof(*words) : 0;
}

/* Whether these words, which lie at `at`, are what the kernel says of a fault. */
static bool passed_is(const struct roami_passed *passed, uintptr_t at, const uint64_t *words)
{
	uintptr_t context = at - passed->distance;

	return words[0] == (uint64_t)passed->signal && (int32_t)words[1] > 0 &&
	       passed->ours(passed->signal, (uintptr_t)words[2]) && context >= passed->sp &&
	       context % sizeof(*words) == 0 &&
	       (uint64_t)passed_register((const void *)context, REG_CR2) == words[2];
}

/* The signal was raised in the other handler: that one's frame is further up. */
static bool passed_in_handler(struct roami_passed *passed)
{
	uint64_t words[CHUNK_WORDS];

	for (uintptr_t at = passed->sp; at < passed->sp + LOOK_BYTES;) {
		size_t count = passed_read(at, words);

		if (count < INFO_WORDS)
			return false;
		for (size_t i = 0; i + INFO_WORDS <= count; i++) {
			if (!passed_is(passed, at + i * sizeof(*words), words + i))
				continue;
			passed->context = (const void *)(at + i * sizeof(*words) - /* NOLINT */
							 passed->distance);
			return true;
		}
		at += (count - INFO_WORDS + 1) * sizeof(*words);
	}
	return false;
}

bool roami_passed_find(struct roami_passed *passed, int signal, const siginfo_t *info,
		       const void *context)
{
	uintptr_t cr2 = (uintptr_t)passed_register(context, REG_CR2);
	uintptr_t code = (uintptr_t)passed_register(context, REG_RIP);

	if ((info->si_code != SI_TKILL && info->si_code != SI_USER) || info->si_pid != getpid())
		return false;
	passed->signal = signal;
	passed->distance = (uintptr_t)info - (uintptr_t)context;
	passed->sp = ((uintptr_t)passed_register(context, REG_RSP) + 7) & ~(uintptr_t)7;
	if (passed->distance > FRAME_MAX)
		return false;
	if (passed_in_handler(passed))
		return true;
	/*
	 * It was blocked in that handler, and came when this had returned.  The kernel keeps the
	 * address of the thread's last fault that was signalled.
	 */
	passed->context = NULL;
	return passed->ours(signal, cr2) &&
	       (cr2 != passed->last.address || code == passed->last.code);
}
