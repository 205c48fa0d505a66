#include "os/inside.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

__thread struct roami_inside roami_inside;

void roami_inside_signals(sigset_t *set)
{
	static const int now[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

	sigfillset(set);
	for (unsigned i = 0; i < COUNT(now); i++)
		sigdelset(set, now[i]);
}

static bool inside_handled(int number)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) != 0)
		return false;
	return (action.sa_flags & SA_SIGINFO) != 0 ||
	       (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void roami_inside_defer(void)
{
	static const int timers[] = {SIGALRM, SIGVTALRM, SIGUSR1, SIGUSR2};
	sigset_t set;

	if (roami_inside.deferred || roami_inside.call == NULL)
		return;
	roami_inside.deferred = true;
	sigemptyset(&set);
	for (unsigned i = 0; i < COUNT(timers); i++)
		if (inside_handled(timers[i])) {
			sigaddset(&set, timers[i]);
			roami_inside.blocked = true;
		}
	if (roami_inside.blocked)
		pthread_sigmask(SIG_BLOCK, &set, &roami_inside.before);
}

/* A handler may jump out of here. */
void roami_inside_admit(void)
{
	bool blocked = roami_inside.blocked;

	roami_inside.deferred = roami_inside.blocked = false;
	if (blocked)
		pthread_sigmask(SIG_SETMASK, &roami_inside.before, NULL);
}

void roami_inside_overdue(int number)
{
	sigset_t pending, one;

	if (sigpending(&pending) != 0)
		return;
	for (int signal = 1; signal < SIGSYS; signal++) {
		if (sigismember(&pending, signal) != 1 ||
		    (signal != number && inside_handled(signal)))
			continue;
		sigemptyset(&one);
		sigaddset(&one, signal);
		pthread_sigmask(SIG_UNBLOCK, &one, NULL);
		pthread_sigmask(SIG_BLOCK, &one, NULL);
	}
}
