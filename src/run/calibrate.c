/* How long a thread polls before it sleeps: what waking one costs here. */
#include <pthread.h>

#include "os/os.h"
#include "run/wait.h"

#define WAKE_NS_MIN 20000u
#define WAKE_NS_MAX 200000u
#define CROWD       4u     /* threads that wait awake for each CPU that a node has to itself */

struct wake_probe {
	_Atomic uint32_t ping;
	_Atomic uint32_t pong;
};

static void *wake_answer(void *arg)
{
	struct wake_probe *probe = arg;

	for (uint32_t i = 0; i < 8; i++) {
		while (atomic_load(&probe->ping) == i)
			roami_os_futex_wait(&probe->ping, i, 0);
		atomic_store(&probe->pong, i + 1);
		roami_os_futex_wake(&probe->pong, 1);
	}
	return NULL;
}

/* Nanoseconds of one wake-up: half a futex ping-pong between two threads. */
static uint64_t wake_cost(void)
{
	struct wake_probe probe = {0};
	pthread_t other;
	uint64_t start, best = UINT64_MAX;

	if (pthread_create(&other, NULL, wake_answer, &probe) != 0)
		return WAKE_NS_MIN;
	for (uint32_t i = 0; i < 8; i++) {
		start = roami_os_now_ns();
		atomic_store(&probe.ping, i + 1);
		roami_os_futex_wake(&probe.ping, 1);
		while (atomic_load(&probe.pong) == i)
			roami_os_futex_wait(&probe.pong, i, 0);
		start = roami_os_now_ns() - start;
		if (start < best)
			best = start;
	}
	pthread_join(other, NULL);
	return best / 2;
}

void roami_real_init(struct roami_real *real, unsigned nodes, unsigned threads, uint64_t spin_us,
		     uint64_t chaos)
{
	uint64_t spin = spin_us * 1000;

	real->measured = true;
	real->fits = nodes * threads <= roami_os_cpus();
	real->crowd = CROWD * (nodes < roami_os_cpus() ? roami_os_cpus() / nodes : 1);
	if (spin == 0) {
		spin = 2 * wake_cost();
		if (spin < WAKE_NS_MIN)
			spin = WAKE_NS_MIN;
		if (spin > WAKE_NS_MAX)
			spin = WAKE_NS_MAX;
	}
	real->spin_ns = spin;
	real->pause_ns = spin / 4;
	real->chaos = chaos;
}
