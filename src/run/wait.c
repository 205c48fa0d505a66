#include "run/wait.h"
#include "base/layers.h"
#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "msg/msg.h"
#include "os/inside.h"
#include "page/page.h"

#define ASLEEP_ONE  0x10000u
#define AWAKE_MASK  0xffffu
#define STUCK_NS    50000u /* own messages wait for room: interval between looks */
#define TAKEN_FROM_NS 500000u /* a yield of this: a computing process had the CPU */
#define TAKEN_NS_MIN 8000000u /* no thread yields for so long: at first, at most */
#define TAKEN_NS_MAX 512000000u

static struct roami_real *real_of(struct roami_node *node)
{
	return node->env_state;
}

static uint64_t real_now(struct roami_node *node)
{
	(void)node;
	return roami_os_now_ns();
}

/* ------------------------------------------------------------------------------------ the bell */

static void bell_wake_all(struct roami_bell *bell)
{
	atomic_fetch_add(&bell->app, 1);
	roami_os_futex_wake(&bell->app, INT32_MAX);
	atomic_fetch_add(&bell->service, 1);
	roami_os_futex_wake(&bell->service, INT32_MAX);
}

static void bell_wake_app(struct roami_node *node, struct roami_bell *bell)
{
	if (roami_net(node)) {
		roami_net_wake_apps(node);
		return;
	}
	atomic_fetch_add(&bell->app, 1);
	roami_os_futex_wake(&bell->app, INT32_MAX);
	ROAMI_COUNT(node->stats, wakes, 1);
}

/* Makes the service thread compute again how long it may sleep. */
static void service_wake(struct roami_node *node)
{
	struct roami_bell *bell = &node->self->ctl->bell;

	atomic_fetch_add(&bell->service, 1);
	if (atomic_load(&bell->service_asleep) != 0)
		roami_os_futex_wake(&bell->service, 1);
}

struct real_stay {
	unsigned begun; /* waits under way, one within the other */
	bool awake;     /* it counts as polling */
	bool owes;      /* it does not, and has sent something: its timers are uncovered */
	uint64_t until; /* its condition may hold then without a change; 0: no */
};

static __thread struct real_stay real_stay; /* the calling thread's */

static void real_enter(struct roami_node *node)
{
	if (real_stay.awake)
		return;
	atomic_fetch_add(&node->self->ctl->bell.busy, 1);
	real_stay.awake = true;
	real_stay.owes = false;
	if (roami_net(node))
		roami_net_enter(node);
}

/*
 * A datagram has left.  A thread that waits for its answer counts as polling only when it begins to
 * wait, or when it sends a second one before that: the answer to the first may come meanwhile.
 */
static void real_timed(struct roami_node *node)
{
	if (real_stay.begun == 0)
		roami_net_cover(node);
	else if (real_stay.owes)
		real_enter(node);
	else
		real_stay.owes = true;
}

/* The sender's half: which thread should handle what was just published? */
static void real_ring(struct roami_node *node, unsigned peer)
{
	struct roami_bell *bell;
	uint32_t busy;

	if (roami_net(node)) {
		if (roami_net_ring(node, peer))
			real_timed(node);
		return;
	}
	if (layers_of(node)->transport->due != NULL)
		service_wake(node); /* a layer has begun a timer */
	bell = &node->segments[peer].ctl->bell;
	atomic_thread_fence(memory_order_seq_cst);
	busy = atomic_load_explicit(&bell->busy, memory_order_relaxed);
	if ((busy & AWAKE_MASK) != 0)
		return;
	if (busy != 0) {
		bell_wake_app(node, bell);
		return;
	}
	atomic_fetch_add(&bell->service, 1);
	if (atomic_load(&bell->service_asleep) != 0) {
		roami_os_futex_wake(&bell->service, 1);
		ROAMI_COUNT(node->stats, wakes, 1);
	}
}

/* The caller polls for the answer, unless it sleeps: no other thread need be woken. */
static void real_answered(struct roami_node *node, unsigned peer)
{
	struct roami_bell *bell = &node->segments[peer].ctl->bell;

	atomic_thread_fence(memory_order_seq_cst);
	if (roami_net(node) || layers_of(node)->transport->due != NULL ||
	    atomic_load_explicit(&bell->app_asleep, memory_order_relaxed) != 0)
		real_ring(node, peer);
}

static void real_sent(struct roami_node *node, unsigned peer, bool answer)
{
	if (answer)
		real_answered(node, peer);
	else
		real_ring(node, peer);
}

static void real_notify(struct roami_node *node, unsigned peer)
{
	struct roami_bell *bell = &node->segments[peer].ctl->bell;

	if (atomic_load_explicit(&bell->busy, memory_order_relaxed) >= ASLEEP_ONE)
		bell_wake_app(node, bell);
}

/* --------------------------------------------------------------------------- application waits */

uint64_t roami_sleep_ns(struct roami_node *node)
{
	uint64_t due = roami_msg_due_ns(node);

	if (roami_msg_stuck(node))
		return STUCK_NS;
	return due == UINT64_MAX ? 0 : due + 1;
}

static void real_until(struct roami_node *node, uint64_t when)
{
	(void)node;
	real_stay.until = when == ROAMI_FOREVER ? 0 : when;
}

/* `ns`, 0: for ever, but no longer than until the time `until`; 0: none. */
static uint64_t sleep_until(uint64_t ns, uint64_t until)
{
	uint64_t now = until == 0 ? 0 : roami_os_now_ns(), left;

	if (until == 0)
		return ns;
	left = until > now ? until - now : 1;
	return ns == 0 || left < ns ? left : ns;
}

uint64_t roami_app_sleep_ns(struct roami_node *node, uint64_t until)
{
	return sleep_until(roami_sleep_ns(node), until);
}

/* About to sleep: tells a probe, which woke this thread, that it must still wait. */
static void wait_probed(struct roami_node *node, bool (*condition)(void *arg), void *arg)
{
	struct roami_ctl *ctl = node->self->ctl;
	struct roami_waiting *waiting = &ctl->waits[node->env->thread(node)];
	uint32_t probe = atomic_load(&ctl->probed.serial);

	if (atomic_load_explicit(&waiting->seen, memory_order_relaxed) != probe && !condition(arg))
		atomic_store(&waiting->seen, probe);
}

/*
 * A thread sleeps in no wait that a hang could be made of: reports show it.  It has not begun a
 * wait each time that it sleeps.
 */
static bool wait_shown(struct roami_node *node)
{
	struct roami_waiting *waiting = &node->self->ctl->waits[node->env->thread(node)];
	bool show = atomic_load_explicit(&waiting->kind, memory_order_relaxed) == 0 &&
		    roami_thread_self(node)->registered;

	if (show) {
		atomic_store_explicit(&waiting->id, 0, memory_order_relaxed);
		atomic_store_explicit(&waiting->of, ROAMI_WAITS_ENDS, memory_order_relaxed);
		atomic_store_explicit(&waiting->kind, ROAMI_WAITS_ANSWER, memory_order_release);
	}
	return show;
}

/*
 * Whether the thread waits for what other threads of the program do, for as long as that takes, and
 * has nothing that other nodes or the job's end need: a handler may end the program there.
 */
static bool wait_rests(struct roami_node *node)
{
	const struct roami_waiting *waiting = &node->self->ctl->waits[node->env->thread(node)];

	return roami_inside.free ||
	       (!roami_inside.needed &&
		atomic_load_explicit(&waiting->kind, memory_order_relaxed) != 0);
}

/* If a handler exits while it sleeps, it does not return from there. */
static void bell_sleep(struct roami_node *node, bool (*condition)(void *arg), void *arg)
{
	struct roami_bell *bell = &node->self->ctl->bell;
	uint32_t value = atomic_load(&bell->app);
	struct real_stay stay = real_stay;
	bool rests = wait_rests(node), shown = wait_shown(node);

	wait_probed(node, condition, arg);
	/* A signal handler of the program may have waits of its own. */
	real_stay = (struct real_stay){0};
	atomic_fetch_add(&bell->app_asleep, 1);
	atomic_fetch_add(&bell->busy, ASLEEP_ONE - 1);
	if (roami_net(node))
		roami_net_sleep(node, value, stay.until, rests, condition, arg);
	else if (!condition(arg) && !roami_msg_pending(node)) {
		uint64_t ns = roami_app_sleep_ns(node, stay.until);

		ROAMI_COUNT(node->stats, sleeps, 1);
		roami_inside_rest(rests);
		roami_os_futex_wait(&bell->app, value, ns);
		roami_inside_rest(false);
	}
	atomic_fetch_sub(&bell->busy, ASLEEP_ONE - 1);
	atomic_fetch_sub(&bell->app_asleep, 1);
	real_stay = stay;
	if (shown)
		roami_node_waits_cleared(node);
}

/* No longer counts as polling; false: messages arrived before, which this thread must handle. */
static bool real_leave(struct roami_node *node)
{
	struct roami_bell *bell = &node->self->ctl->bell;

	atomic_fetch_sub(&bell->busy, 1);
	if ((atomic_load(&bell->busy) & AWAKE_MASK) == 0 && roami_msg_pending(node)) {
		atomic_fetch_add(&bell->busy, 1);
		return false;
	}
	real_stay.awake = false;
	if ((atomic_load(&bell->busy) & AWAKE_MASK) != 0)
		return true;
	/* Requests delayed while this thread polled are the service thread's from now on. */
	if (roami_net(node))
		roami_net_leave(node);
	else if (roami_sleep_ns(node) != 0)
		service_wake(node);
	return true;
}

/*
 * Sleeps where only a call for its ticket wakes it; other threads handle messages meanwhile.  The
 * sleeper and the caller each store first, then look at what the other has stored.
 */
static void nook_sleep(struct roami_node *node, struct roami_nook *nook,
		       bool (*condition)(void *arg), void *arg)
{
	uint32_t value = atomic_load(&nook->calls);
	struct real_stay stay;

	if (!real_leave(node))
		return;
	stay = real_stay;
	real_stay = (struct real_stay){0};
	atomic_fetch_add(&nook->asleep, 1);
	wait_probed(node, condition, arg);
	if (!condition(arg)) {
		ROAMI_COUNT(node->stats, sleeps, 1);
		roami_inside_rest(wait_rests(node));
		roami_os_futex_wait(&nook->calls, value, sleep_until(0, stay.until));
		roami_inside_rest(false);
	}
	atomic_fetch_sub(&nook->asleep, 1);
	real_stay = stay;
	real_enter(node);
}

static void nook_wake(struct roami_node *node, struct roami_nook *nook)
{
	if (atomic_load_explicit(&nook->asleep, memory_order_relaxed) == 0)
		return;
	atomic_fetch_add(&nook->calls, 1);
	roami_os_futex_wake(&nook->calls, INT32_MAX);
	ROAMI_COUNT(node->stats, wakes, 1);
}

static void real_changed(struct roami_node *node, unsigned peer, uint64_t ticket)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (ticket == ROAMI_NO_TICKET)
		real_notify(node, peer);
	else
		nook_wake(node, &real_of(node)->nooks[ticket % ROAMI_NOOKS]);
}

void roami_wake_all(struct roami_node *node)
{
	real_changed(node, node->me, ROAMI_NO_TICKET);
	for (uint32_t i = 0; i < ROAMI_NOOKS; i++)
		nook_wake(node, &real_of(node)->nooks[i]);
}

/*
 * Counting as polling costs system calls: if `later`, the thread does not before it has sent twice.
 */
static void real_begin(struct roami_node *node, bool later)
{
	if (roami_net(node) && real_stay.begun++ == 0 && !later)
		real_enter(node);
}

static void real_end(struct roami_node *node)
{
	if (!roami_net(node) || --real_stay.begun != 0)
		return;
	while (real_stay.awake && !real_leave(node))
		roami_msg_poll(node);
	if (real_stay.owes)
		roami_net_cover(node);
	real_stay.owes = false;
}

void roami_wait_abandon(struct roami_node *node)
{
	real_stay.begun = 0;
	while (real_stay.awake && !real_leave(node))
		roami_msg_poll(node);
	if (roami_net(node))
		roami_net_abandon(node);
	real_stay = (struct real_stay){0};
}

/*
 * Whether many threads of the node wait awake.  A change wakes all of them but is for one, and the
 * others would take the CPU from that one by looking again.
 */
static bool real_crowded(struct roami_node *node)
{
	return (atomic_load_explicit(&node->self->ctl->bell.busy, memory_order_relaxed) &
		AWAKE_MASK) > real_of(node)->crowd;
}

/*
 * Yields.  A CPU that goes to a computing process comes back much later than to a thread that slept
 * and is woken.  After that no thread of this node yields for a while, which doubles each time it
 * happens again.
 */
static void real_yield(struct roami_real *real, uint64_t now)
{
	uint64_t until = atomic_load_explicit(&real->taken_until, memory_order_relaxed);
	uint64_t span = atomic_load_explicit(&real->taken_ns, memory_order_relaxed), after;

	sched_yield();
	after = roami_os_now_ns();
	if (after - now <= TAKEN_FROM_NS)
		return;
	span = now > until + span || span == 0 ? TAKEN_NS_MIN : 2 * span;
	if (span > TAKEN_NS_MAX)
		span = TAKEN_NS_MAX;
	atomic_store_explicit(&real->taken_ns, span, memory_order_relaxed);
	atomic_store_explicit(&real->taken_until, after + span, memory_order_relaxed);
}

/* Whether computing processes want the CPUs, so that a yield may take long. */
static bool real_taken(struct roami_real *real, uint64_t now)
{
	return now < atomic_load_explicit(&real->taken_until, memory_order_relaxed);
}

/* `nook`: where the thread sleeps; NULL: at the bell, where each change wakes it. */
static void real_await(struct roami_node *node, struct roami_nook *nook,
		       bool (*condition)(void *arg), void *arg)
{
	struct roami_real *real = real_of(node);
	uint64_t start = 0, now;
	unsigned turns = 0;

	real_stay.begun++;
	real_enter(node);
	for (;;) {
		bool met, taken;

		if (roami_msg_poll(node) > 0)
			start = 0;
		met = condition(arg);
		if (met && (real_stay.begun > 1 || real_leave(node)))
			break;
		if (met)
			continue;
		if (__builtin_expect(roami_inside.then != NULL, 0) && wait_rests(node))
			roami_inside_end();
		if (real->fits && ++turns % 16 != 0) {
			roami_os_pause();
			continue;
		}
		now = roami_os_now_ns();
		if (start == 0)
			start = now;
		taken = real_taken(real, now);
		if (now - start <= (taken && !real->fits ? real->pause_ns : real->spin_ns) &&
		    !real_crowded(node)) {
			if (!taken && (!real->fits || now - start > real->pause_ns))
				real_yield(real, now);
			continue;
		}
		roami_inside_defer();
		if (nook != NULL)
			nook_sleep(node, nook, condition, arg);
		else
			bell_sleep(node, condition, arg);
	}
	real_stay.begun--;
}

/* ------------------------------------------------------------------------------ threads alone */

enum alone { ALONE_OUTSIDE, ALONE_UNKNOWN, ALONE_YES, ALONE_NO };

/* What the calling thread has found since it began to wait. */
static enum alone *real_found(void)
{
	static __thread enum alone found;

	return &found;
}

/* Threads of this process; 0: not known. */
static unsigned real_threads(const struct roami_real *real)
{
	return real->tasks > 0 ? roami_os_threads_of(real->tasks) : 0;
}

/*
 * Whether this is the program's only thread; found out once for each wait, as only this thread
 * could start another one.  Helpers are counted late and leave the count early.
 */
static bool real_alone(struct roami_node *node)
{
	struct roami_real *real = real_of(node);
	enum alone *found = real_found();
	bool yes;

	if (*found != ALONE_UNKNOWN)
		return *found == ALONE_YES;
	yes = real_threads(real) == atomic_load(&real->helpers) + 1;
	*found = yes ? ALONE_YES : ALONE_NO;
	return yes;
}

static void real_helper(struct roami_node *node, int change)
{
	atomic_fetch_add(&real_of(node)->helpers, (uint32_t)change);
}

static void real_aside(struct roami_node *node, int change)
{
	atomic_fetch_add(&real_of(node)->aside, (uint32_t)change);
}

static void real_wait(struct roami_node *node, uint64_t ticket, bool (*condition)(void *arg),
		      void *arg)
{
	enum alone *found = real_found(), outside = *found;
	struct roami_nook *nook = &real_of(node)->nooks[ticket % ROAMI_NOOKS];

	*found = ALONE_UNKNOWN;
	real_await(node, ticket == ROAMI_NO_TICKET ? NULL : nook, condition, arg);
	*found = outside;
}

/* The awaited thread may have lost its CPU even if the nodes fit the CPUs: threads may not fit. */
static void real_spin(struct roami_node *node, unsigned turn)
{
	roami_os_spin(real_of(node)->fits ? turn : (turn + 1) * ROAMI_OS_SPIN_PAUSES - 1);
}

static unsigned *real_region(struct roami_node *node)
{
	static __thread unsigned region;

	(void)node;
	return &region;
}

static uint64_t real_ran(struct roami_node *node)
{
	(void)node;
	return roami_os_ran_ns() + roami_os_sleeps() * ROAMI_RAN_FAR;
}

__attribute__((noreturn)) static void real_fail(struct roami_node *node, const char *text)
{
	real_of(node)->on_fail(node, text);
	__builtin_trap();
}

/* --------------------------------------------------------------------------------------- chaos */

/*
 * Seeded delays, from a few nanoseconds to giving the CPU away; the stream of numbers is each
 * thread's own.
 */
static void chaos_step(struct roami_node *node)
{
	static __thread uint64_t state;
	uint64_t draw;

	if (state == 0)
		state = real_of(node)->chaos * 0x9e3779b97f4a7c15u +
			(uint64_t)roami_os_tid() * 0xbf58476d1ce4e5b9u;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	draw = state >> 32 & 0x3ffu;
	if (draw < 2)
		sched_yield();
	else if (draw < 40)
		for (uint64_t i = 0; i < draw * 8; i++)
			roami_os_pause();
}

/* -------------------------------------------------------------------------- the service thread */

static void service_sleep(struct roami_node *node)
{
	struct roami_bell *bell = &node->self->ctl->bell;
	uint32_t value = atomic_load(&bell->service);

	atomic_store(&bell->service_asleep, ROAMI_ASLEEP_FUTEX);
	atomic_thread_fence(memory_order_seq_cst);
	if (!roami_msg_pending(node) && atomic_load(&real_of(node)->stop) == 0)
		roami_os_futex_wait(&bell->service, value, roami_sleep_ns(node));
	atomic_store(&bell->service_asleep, ROAMI_AWAKE);
}

static void *service_main(void *arg)
{
	struct roami_node *node = arg;

	roami_seat_aside(node); /* handlers may use what is a thread's own */
	if (roami_net(node))
		roami_net_service(node);
	for (unsigned turn = 0; atomic_load(&real_of(node)->stop) == 0; turn++) {
		if (roami_msg_poll(node) > 0) {
			turn = 0;
		} else if (roami_msg_polling(node)) {
			/* yield: the polling thread may wait for this CPU */
			roami_os_spin((turn + 1) * ROAMI_OS_SPIN_PAUSES - 1);
		} else {
			service_sleep(node);
			turn = 0;
		}
	}
	return NULL;
}

static void tasks_close(struct roami_real *real)
{
	int tasks = real->tasks;

	real->tasks = 0;
	if (tasks > 0)
		close(tasks);
}

enum roam_err roami_service_start(struct roami_node *node)
{
	struct roami_real *real = real_of(node);
	sigset_t all, old;
	int err;

	atomic_store(&real->stop, 0);
	real->tasks = roami_os_tasks();
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&real->service, NULL, service_main, node);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	real->service_runs = err == 0;
	atomic_fetch_add(&real->helpers, err == 0);
	if (real_threads(real) < 2)
		tasks_close(real); /* this system does not count them */
	errno = err;
	return err == 0 ? ROAM_OK : ROAM_ESYSTEM;
}

void roami_service_stop(struct roami_node *node)
{
	struct roami_real *real = real_of(node);

	if (!real->service_runs)
		return;
	atomic_fetch_sub(&real->helpers, 1);
	atomic_store(&real->stop, 1);
	bell_wake_all(&node->self->ctl->bell);
	if (roami_net(node))
		roami_net_service_stop(node);
	pthread_join(real->service, NULL);
	real->service_runs = false;
	tasks_close(real);
}

/* -------------------------------------------------------------------------- the environment */

static const struct roami_sleep real_sleep = {
	.wait = real_wait,
	.until = real_until,
	.changed = real_changed,
	.sent = real_sent,
	.begin = real_begin,
	.end = real_end,
};

#define REAL_ENV                                                                \
	.now = real_now, .sleep = &real_sleep, .spin = real_spin, .thread = roami_seat, \
	.tid = roami_seat_tid, .region = real_region, .ran = real_ran, .alone = real_alone,  \
	.helper = real_helper, .aside = real_aside, .fail = real_fail

const struct roami_env roami_env_real = {REAL_ENV};
const struct roami_env roami_env_chaos = {REAL_ENV, .step = chaos_step};
