/*
 * Sleeping where peers are other hosts: they cannot see which threads are awake, or ring.  The
 * kernel wakes every thread that sleeps at the transport, and one that wakes without need takes the
 * CPU from one that polls.
 *
 * The service thread sleeps at the transport, and listens there as long as application threads
 * compute.  Where they wait so often that saying when they do costs more than it saves, it leaves
 * the transport to them and looks only now and then ("hot").  While one of them sleeps at the
 * transport, it need not be there.
 * All timers of the layers below are covered: by a thread that polls, by the timeout of a thread
 * that sleeps, or by the service thread.  The service thread sleeps only briefly while application
 * threads wait at times, and is woken if a timer would be late by more than that.
 */
#include <unistd.h>

#include "base/layers.h"
#include "msg/msg.h"
#include "os/inside.h"
#include "run/wait.h"

#define AWAKE_MASK 0xffffu
#define STUCK_NS   50000u  /* own messages wait for room: interval between looks */
#define HOT_NS     100000u /* a hot service thread looks after this, then ever more seldom */
#define LATE_NS    400000u /* but no later; timers may be so late: peers resend after 1 ms */
#define OFTEN      64u     /* waits within OFTEN_NS make it hot */
#define OFTEN_NS   1000000u
#define RARE_NS    20000u /* waits more seldom than this end that */

static struct roami_real *net_of(struct roami_node *node)
{
	return node->env_state;
}

static void net_wait(struct roami_node *node, enum roam_sleeper who, uint64_t ns)
{
	layers_of(node)->sleeper->transport->wait(layers_of(node)->sleeper->state, who, ns);
}

static void net_wake(struct roami_node *node, enum roam_sleeper who)
{
	layers_of(node)->sleeper->transport->wake(layers_of(node)->sleeper->state, who);
}

/* Whether what arrives wakes the service thread, if it sleeps at the transport. */
static void net_listen(struct roami_node *node, bool on)
{
	const struct roam_transport *transport = layers_of(node)->sleeper->transport;

	if (transport->listen != NULL)
		transport->listen(layers_of(node)->sleeper->state, on);
}

static bool net_awake(struct roami_node *node)
{
	return (atomic_load(&node->self->ctl->bell.busy) & AWAKE_MASK) != 0;
}

/* -------------------------------------------------------------------------- application threads */

void roami_net_wake_apps(struct roami_node *node)
{
	struct roami_bell *bell = &node->self->ctl->bell;

	atomic_fetch_add(&bell->app, 1);
	roami_os_futex_wake(&bell->app, INT32_MAX);
	if (atomic_load(&net_of(node)->watcher) != 0)
		net_wake(node, ROAM_SLEEPER_APP);
	ROAMI_COUNT(node->stats, wakes, 1);
}

static __thread bool net_watches; /* the calling thread sleeps at the transport */

/*
 * The calling thread does not sleep at the transport after all: a handler of a signal runs, and
 * waits in its turn, or ends the process.  If it returns, `watcher` is cleared once more, which may
 * be another thread's by then: the service thread then listens beside that one.
 */
static void net_watches_no_more(struct roami_node *node)
{
	if (!net_watches)
		return;
	net_watches = false;
	atomic_store(&net_of(node)->watcher, 0);
}

/* The first to sleep does so at the transport; it wakes the others when it has taken something. */
void roami_net_sleep(struct roami_node *node, uint32_t value, uint64_t until, bool rests,
		     bool (*condition)(void *arg), void *arg)
{
	struct roami_real *real = net_of(node);
	bool watches = atomic_exchange(&real->watcher, 1) == 0;
	uint64_t ns;

	atomic_thread_fence(memory_order_seq_cst);
	if (!condition(arg) && !roami_msg_pending(node)) {
		ROAMI_COUNT(node->stats, sleeps, 1);
		net_watches = watches;
		ns = roami_app_sleep_ns(node, until);
		roami_inside_rest(rests);
		if (watches)
			net_wait(node, ROAM_SLEEPER_APP, ns);
		else
			roami_os_futex_wait(&node->self->ctl->bell.app, value, ns);
		roami_inside_rest(false);
	}
	net_watches = false;
	if (watches)
		atomic_store(&real->watcher, 0);
}

static void net_kick(struct roami_node *node, uint32_t at)
{
	struct roami_bell *bell = &node->self->ctl->bell;

	if (at == ROAMI_ASLEEP_TRANSPORT) {
		net_wake(node, ROAM_SLEEPER_SERVICE);
	} else {
		atomic_fetch_add(&bell->service, 1);
		roami_os_futex_wake(&bell->service, 1);
	}
	ROAMI_COUNT(node->stats, wakes, 1);
}

/*
 * While this thread polls, no other need be woken.  Where polling begins and ends so often that
 * telling the transport costs, the service thread turns hot.
 */
void roami_net_enter(struct roami_node *node)
{
	struct roami_real *real = net_of(node);
	uint64_t entries = atomic_fetch_add(&real->entries, 1) + 1, now, before;

	net_watches_no_more(node);
	if (atomic_load(&node->self->ctl->bell.service_asleep) != ROAMI_ASLEEP_TRANSPORT)
		return;
	net_listen(node, false);
	if (entries % OFTEN != 0)
		return;
	now = node->env->now(node);
	before = atomic_exchange(&real->often_ns, now);
	if (now - before < OFTEN_NS)
		net_kick(node, ROAMI_ASLEEP_TRANSPORT);
}

void roami_net_cover(struct roami_node *node)
{
	struct roami_real *real = net_of(node);
	uint64_t until, due, now;
	uint32_t at;
	bool stuck;

	atomic_thread_fence(memory_order_seq_cst);
	at = atomic_load(&node->self->ctl->bell.service_asleep);
	if (at == ROAMI_AWAKE)
		return; /* awake: it looks at everything before it sleeps */
	until = atomic_load(&real->service_until);
	now = node->env->now(node);
	stuck = roami_msg_stuck(node);
	due = stuck ? now : roami_msg_due(node);
	if ((due < until && until - due > (stuck ? 0 : LATE_NS)) ||
	    (at == ROAMI_ASLEEP_FUTEX && until > now + LATE_NS && atomic_load(&real->watcher) == 0))
		net_kick(node, at);
}

void roami_net_leave(struct roami_node *node)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&node->self->ctl->bell.service_asleep) == ROAMI_ASLEEP_TRANSPORT)
		net_listen(node, true);
	roami_net_cover(node);
}

void roami_net_abandon(struct roami_node *node)
{
	net_watches_no_more(node);
	roami_net_leave(node);
}

/*
 * A message lies in the memory of a peer of this host.  It may sleep at the transport, where its
 * eventfd wakes it as a datagram does.
 */
static void net_ring_near(struct roami_node *node, unsigned peer)
{
	struct roami_bell *bell = &node->segments[peer].ctl->bell;
	uint64_t one = 1;
	uint32_t busy, at;

	atomic_thread_fence(memory_order_seq_cst);
	busy = atomic_load(&bell->busy);
	at = atomic_load(&bell->service_asleep);
	if ((busy & AWAKE_MASK) != 0 || (busy == 0 && at == ROAMI_AWAKE))
		return;
	if (busy == 0 && at == ROAMI_ASLEEP_FUTEX) {
		atomic_fetch_add(&bell->service, 1);
		roami_os_futex_wake(&bell->service, 1);
	} else if (write(layers_of(node)->bells[peer], &one, sizeof(one)) < 0) {
		return; /* full: it will wake */
	}
	ROAMI_COUNT(node->stats, wakes, 1);
}

bool roami_net_ring(struct roami_node *node, unsigned peer)
{
	struct roami_bell *bell = &node->self->ctl->bell;
	uint32_t busy;

	if (peer != node->me && (layers_of(node)->rung >> peer & 1) != 0) {
		net_ring_near(node, peer);
		return (layers_of(node)->timed >> peer & 1) != 0;
	}
	atomic_thread_fence(memory_order_seq_cst);
	busy = atomic_load(&bell->busy);
	if ((busy & AWAKE_MASK) != 0)
		return false;
	if (peer != node->me)
		return true; /* a datagram wakes its peer, but has begun a timer here */
	if (busy != 0)
		roami_net_wake_apps(node);
	else if (atomic_load(&bell->service_asleep) != ROAMI_AWAKE)
		net_kick(node, atomic_load(&bell->service_asleep));
	return false;
}

/* -------------------------------------------------------------------------- the service thread */

/* What the service thread has seen of the application threads. */
struct net_view {
	bool hot;
	bool waited; /* application threads have, since it slept */
	bool served; /* it handled requests that no other thread was there for, since it slept */
	uint32_t slept_at;
	uint64_t entries; /* when it slept */
	uint64_t look_ns; /* while hot */
};

/*
 * Whether datagrams wake the service thread: not while another thread polls.  A polling thread that
 * leaves sets this, too; it may have left before this call, so look again.
 */
static void service_listen(struct roami_node *node)
{
	if (net_awake(node))
		net_listen(node, false);
	atomic_thread_fence(memory_order_seq_cst);
	if (!net_awake(node))
		net_listen(node, true);
}

/* Sleeps; where. */
static uint32_t service_sleep(struct roami_node *node, const struct net_view *view)
{
	struct roami_real *real = net_of(node);
	struct roami_bell *bell = &node->self->ctl->bell;
	uint32_t value = atomic_load(&bell->service);
	bool watched = atomic_load(&real->watcher) != 0;
	uint32_t at = watched || view->hot ? ROAMI_ASLEEP_FUTEX : ROAMI_ASLEEP_TRANSPORT;
	uint64_t now, until;

	/*
	 * First where, then how long: a thread that starts a timer meanwhile sees this one sleep.
	 */
	atomic_store(&real->service_until, UINT64_MAX);
	atomic_store(&bell->service_asleep, at);
	atomic_thread_fence(memory_order_seq_cst);
	now = node->env->now(node);
	until = roami_msg_due(node);
	if (roami_msg_stuck(node))
		until = until < now + STUCK_NS ? until : now + STUCK_NS;
	else if (view->hot && !watched)
		until = now + view->look_ns;
	else if (view->waited || (net_awake(node) && until < now + LATE_NS))
		until = now + LATE_NS; /* other threads have covered the timers */
	atomic_store(&real->service_until, until);
	watched = atomic_load(&real->watcher) != 0;
	/* Arrived messages are for the polling threads, which look once more before they leave. */
	if (atomic_load(&real->stop) == 0 && (net_awake(node) || !roami_msg_pending(node)) &&
	    (at == ROAMI_ASLEEP_TRANSPORT || view->hot || watched)) {
		uint64_t ns = until == UINT64_MAX ? 0 : until > now ? until - now : 1;

		if (at == ROAMI_ASLEEP_TRANSPORT) {
			service_listen(node);
			net_wait(node, ROAM_SLEEPER_SERVICE, ns);
		} else {
			roami_os_futex_wait(&bell->service, value, ns);
		}
	}
	atomic_store(&bell->service_asleep, ROAMI_AWAKE);
	return at;
}

/*
 * Whether application threads handle the messages, judged since the last sleep.  An answer that
 * came before its caller began to wait does not count: the caller would have taken it next.
 */
static void service_judge(struct roami_node *node, struct net_view *view)
{
	uint64_t entries = atomic_load(&net_of(node)->entries), waits = entries - view->entries;

	if (view->served || (waits == 0 && !net_awake(node))) {
		view->hot = false;
	} else if (view->slept_at == ROAMI_ASLEEP_TRANSPORT) {
		view->hot = waits >= OFTEN / 2; /* it slept a little after it was kicked */
		view->look_ns = HOT_NS;
	} else if (view->hot) {
		view->hot = waits * RARE_NS >= view->look_ns;
		if (view->look_ns < LATE_NS)
			view->look_ns *= 2;
	}
	view->waited = waits != 0;
	view->served = false;
	view->entries = entries;
}

void roami_net_service(struct roami_node *node)
{
	struct net_view view = {.served = true};

	while (atomic_load(&net_of(node)->stop) == 0) {
		uint64_t asked = roami_msg_asked(node);

		/*
		 * A polling thread gets to it first; a second one would only compete for the CPU.
		 */
		if (!net_awake(node) && roami_msg_poll(node) > 0) {
			view.served |= roami_msg_asked(node) != asked;
			continue;
		}
		service_judge(node, &view);
		view.slept_at = service_sleep(node, &view);
	}
}

void roami_net_service_stop(struct roami_node *node)
{
	net_wake(node, ROAM_SLEEPER_SERVICE);
}
