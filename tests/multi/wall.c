/* Loaded before libc: a host whose clock is ten years ahead. */
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define AHEAD_S (10 * 366 * 24 * 3600)

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int err = (int)syscall(SYS_clock_gettime, clock, now);

	if (err == 0 && clock == CLOCK_REALTIME)
		now->tv_sec += AHEAD_S;
	return err;
}

time_t time(time_t *now_p)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now_p != NULL)
		*now_p = now.tv_sec;
	return now.tv_sec;
}
