/*
 * The thread that connects.  The connection manager allocates and blocks, which neither a page
 * fault nor a handler may do: these only note which peer they want, and their message waits.
 *
 * Both of two nodes may begin at once.  Then the attempt of the one with the lower number goes on:
 * that node refuses the other's attempt, and the other node gives up its own when the lower one's
 * arrives.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/os.h"
#include "verbs.h"

#define BACKLOG    64
#define RESOLVE_MS 2000
#define CARD_NS    2000000u    /* pause if a peer is not open yet */
#define AGAIN_NS   50000000u   /* pause after an attempt has failed */
#define DRAIN_NS   200000000u  /* time for the last messages to leave */
#define FAILS_NS   7500000000u /* when the card gives a peer up, about, without a deadline */
#define TICK_NS    4096u
#define NS_PER_MS  1000000u

/* A copy of an event, whose own memory goes when it is acknowledged. */
struct verbs_event {
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	int status;
	uint8_t data[sizeof(struct verbs_hello)];
	size_t bytes;
};

/* Makes threads that sleep at the transport look again: what they wait for may have changed. */
static void connect_stir(struct verbs_state *verbs)
{
	verbs_due(verbs, 0);
	roami_ear_wake(&verbs->ear, ROAM_SLEEPER_APP);
	roami_ear_wake(&verbs->ear, ROAM_SLEEPER_SERVICE);
}

void verbs_want(struct verbs_state *verbs, struct verbs_peer *peer)
{
	uint64_t one = 1, none = 0;

	atomic_compare_exchange_strong(&peer->wanted_ns, &none, verbs_now(verbs));
	if ((atomic_fetch_or(&verbs->want, verbs_bit(peer->number)) & verbs_bit(peer->number)) ==
		    0 &&
	    write(verbs->wanted, &one, sizeof(one)) < 0)
		return; /* full: it looks */
}

/* ------------------------------------------------------------------------------------- attempts */

static struct verbs_hello connect_hello(const struct verbs_state *verbs, unsigned peer)
{
	const struct verbs_card *card = verbs->params.memory[peer].base;
	struct verbs_hello hello = {.mark = atomic_load(&card->mark),
				    .from = (uint16_t)verbs->params.node,
				    .flags = verbs->beat_ns == 0 ? VERBS_MAY_BE_SILENT : 0,
				    .buffers = verbs->buffers,
				    .bytes = VERBS_BUFFER,
				    .reads = verbs_remote_says(verbs, &verbs->peers[peer])};

	memcpy(hello.magic, VERBS_MAGIC, sizeof(hello.magic));
	return hello;
}

static bool connect_checks(const struct verbs_state *verbs, const struct verbs_event *event,
			   struct verbs_hello *hello)
{
	const struct verbs_expected expected = {.mark = verbs->mark,
						.nodes = verbs->params.nodes,
						.node = verbs->params.node,
						.others = verbs->params.others,
						.bytes = VERBS_BUFFER,
						.buffers_min = VERBS_BUFFERS_MIN,
						.buffers_max = VERBS_BUFFERS_MAX};

	return verbs_hello_check(event->data, event->bytes, &expected, hello);
}

static struct rdma_conn_param connect_param(const struct verbs_hello *hello)
{
	return (struct rdma_conn_param){.private_data = hello,
					.private_data_len = sizeof(*hello),
					.retry_count = VERBS_RETRIES,
					.rnr_retry_count = VERBS_RETRIES,
					.responder_resources = 1,
					.initiator_depth = 1};
}

/* Abandons an attempt, if there is one. */
static void connect_drop(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct rdma_cm_id *id = peer->id;
	struct ibv_qp *qp, *remote;

	roami_os_lock(&peer->held);
	qp = peer->qp;
	remote = peer->remote;
	peer->qp = peer->remote = NULL;
	atomic_fetch_add(&peer->epoch, 1);
	atomic_store(&peer->at, VERBS_APART);
	roami_os_unlock(&peer->held);
	peer->id = NULL;
	if (qp != NULL)
		ibv_destroy_qp(qp);
	if (remote != NULL)
		ibv_destroy_qp(remote);
	if (id != NULL)
		rdma_destroy_id(id);
	peer->retry_ns = verbs_now(verbs) + AGAIN_NS;
}

/* Brings an attempt's queue pair to a state, with what the manager knows. */
static bool connect_move(const struct verbs_state *verbs, struct verbs_peer *peer,
			 enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (rdma_init_qp_attr(peer->id, &attr, &mask) != 0)
		return false;
	/* iWARP has none of these: TCP resends for it. */
	attr.timeout = verbs->timeout;
	attr.retry_cnt = VERBS_RETRIES;
	attr.rnr_retry = VERBS_RETRIES;
	attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
	return ibv_modify_qp(peer->qp, &attr, mask) == 0;
}

/* Makes the queue pair of an attempt, with all receives posted. */
static bool connect_pair(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct ibv_qp_init_attr wanted = {.send_cq = verbs->out,
					  .recv_cq = verbs->in,
					  .cap = {.max_send_wr = verbs->buffers,
						  .max_recv_wr = verbs->buffers,
						  .max_send_sge = 1,
						  .max_recv_sge = 1},
					  .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(verbs->domain, &wanted);
	bool good;

	if (qp == NULL)
		return false;
	roami_os_lock(&peer->held);
	peer->qp = qp;
	verbs_remote_make(verbs, peer);
	good = connect_move(verbs, peer, IBV_QPS_INIT);
	for (unsigned i = 0; i < verbs->buffers && good; i++)
		good = verbs_receive(verbs, peer, i);
	atomic_store(&peer->at, VERBS_JOINING);
	roami_os_unlock(&peer->held);
	return good;
}

static bool connect_begin(struct verbs_state *verbs, struct verbs_peer *peer)
{
	const struct verbs_card *card = verbs->params.memory[peer->number].base;
	uint64_t address = atomic_load(&card->address);
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)address),
				 .sin_addr.s_addr = htonl((uint32_t)(address >> 16))};
	struct sockaddr_in from = *(struct sockaddr_in *)rdma_get_local_addr(verbs->listener);

	if (address == 0) {
		peer->retry_ns = verbs_now(verbs) + CARD_NS;
		return false;
	}
	from.sin_port = 0;
	if (rdma_create_id(verbs->events, &peer->id, peer, RDMA_PS_TCP) != 0) {
		peer->id = NULL;
		peer->retry_ns = verbs_now(verbs) + AGAIN_NS;
		return false;
	}
	peer->began = true;
	atomic_store(&peer->at, VERBS_JOINING);
	return rdma_resolve_addr(peer->id, (void *)&from, (void *)&to, RESOLVE_MS) == 0;
}

static void connect_ready(struct verbs_state *verbs, struct verbs_peer *peer)
{
	roami_os_lock(&peer->held);
	atomic_store(&peer->heard_ns, verbs_now(verbs));
	atomic_store(&peer->wanted_ns, 0);
	atomic_store(&peer->at, VERBS_READY);
	roami_os_unlock(&peer->held);
	atomic_fetch_and(&verbs->want, ~verbs_bit(peer->number));
	connect_stir(verbs);
}

static void connect_tells(struct verbs_peer *peer, const struct verbs_hello *hello)
{
	peer->theirs = hello->buffers;
	peer->may_be_silent = (hello->flags & VERBS_MAY_BE_SILENT) != 0;
}

/* --------------------------------------------------------------------------------------- events */

/* Whether a peer's attempt to connect is to go on; this node's own may give way. */
static bool connect_gives_way(struct verbs_state *verbs, struct verbs_peer *peer)
{
	if (atomic_load(&peer->at) != VERBS_APART && atomic_load(&peer->at) != VERBS_JOINING)
		return false;
	if (peer->id != NULL && peer->began && verbs->params.node < peer->number)
		return false;
	if (peer->id != NULL)
		connect_drop(verbs, peer);
	return true;
}

static void connect_asked(struct verbs_state *verbs, const struct verbs_event *event)
{
	struct verbs_hello hello, mine;
	struct rdma_conn_param param;
	struct verbs_peer *peer;

	if (event->id->verbs != verbs->listener->verbs || !connect_checks(verbs, event, &hello)) {
		atomic_fetch_add(&verbs->strangers, 1);
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id);
		connect_stir(verbs);
		return;
	}
	peer = &verbs->peers[hello.from];
	if (!connect_gives_way(verbs, peer)) {
		rdma_reject(event->id, NULL, 0);
		rdma_destroy_id(event->id);
		return;
	}
	event->id->context = peer;
	peer->id = event->id;
	peer->began = false;
	connect_tells(peer, &hello);
	if (!connect_pair(verbs, peer))
		goto drop;
	verbs_remote_join(verbs, peer, hello.reads);
	mine = connect_hello(verbs, peer->number);
	param = connect_param(&mine);
	param.qp_num = peer->qp->qp_num;
	if (connect_move(verbs, peer, IBV_QPS_RTR) && connect_move(verbs, peer, IBV_QPS_RTS) &&
	    rdma_accept(peer->id, &param) == 0)
		return;
drop:
	connect_drop(verbs, peer);
}

/* Notes that the peer of an own attempt has accepted. */
static bool connect_answered(struct verbs_state *verbs, struct verbs_peer *peer,
			     const struct verbs_event *event)
{
	struct verbs_hello hello;

	if (!connect_checks(verbs, event, &hello) || hello.from != peer->number)
		return false;
	connect_tells(peer, &hello);
	verbs_remote_join(verbs, peer, hello.reads);
	return event->type == RDMA_CM_EVENT_ESTABLISHED ||
	       (connect_move(verbs, peer, IBV_QPS_RTR) && connect_move(verbs, peer, IBV_QPS_RTS) &&
		rdma_establish(peer->id) == 0);
}

/* Takes the next step of an attempt. */
static bool connect_step(struct verbs_state *verbs, struct verbs_peer *peer,
			 const struct verbs_event *event)
{
	struct rdma_conn_param param;
	struct verbs_hello hello;

	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return peer->id->verbs == verbs->listener->verbs &&
		       rdma_resolve_route(peer->id, RESOLVE_MS) == 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (!connect_pair(verbs, peer))
			return false;
		hello = connect_hello(verbs, peer->number);
		param = connect_param(&hello);
		param.qp_num = peer->qp->qp_num;
		return rdma_connect(peer->id, &param) == 0;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED: /* for iWARP, and for connections that this node accepted */
		if (peer->began && !connect_answered(verbs, peer, event))
			return false;
		connect_ready(verbs, peer);
		return true;
	default: /* it has failed */
		return false;
	}
}

static void connect_event(struct verbs_state *verbs, const struct verbs_event *event)
{
	struct verbs_peer *peer = event->id->context;
	uint32_t at;

	if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		connect_asked(verbs, event);
		return;
	}
	if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		for (unsigned i = 0; i < verbs->params.nodes; i++)
			if (verbs_reaches(verbs, i))
				verbs_end(verbs, &verbs->peers[i], VERBS_BROKEN, IBV_WC_FATAL_ERR);
		connect_stir(verbs);
		return;
	}
	if (peer == NULL || peer->id != event->id || event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT)
		return;
	at = atomic_load(&peer->at);
	if (at == VERBS_READY || at == VERBS_BROKEN || at == VERBS_GONE) {
		if (event->type == RDMA_CM_EVENT_DISCONNECTED)
			verbs_end(verbs, peer, VERBS_GONE, IBV_WC_SUCCESS);
		connect_stir(verbs);
	} else if (!connect_step(verbs, peer, event)) {
		connect_drop(verbs, peer);
	}
}

/*
 * Handles all waiting events.  Each is acknowledged first, because an id with unacknowledged events
 * cannot be destroyed.
 */
static void connect_events(struct verbs_state *verbs)
{
	struct rdma_cm_event *come;

	while (rdma_get_cm_event(verbs->events, &come) == 0) {
		struct verbs_event event = {
			.type = come->event, .id = come->id, .status = come->status};

		if (come->param.conn.private_data != NULL &&
		    (come->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
		     come->event == RDMA_CM_EVENT_CONNECT_RESPONSE ||
		     come->event == RDMA_CM_EVENT_ESTABLISHED)) {
			event.bytes = come->param.conn.private_data_len;
			if (event.bytes > sizeof(event.data))
				event.bytes = sizeof(event.data);
			memcpy(event.data, come->param.conn.private_data, event.bytes);
		}
		rdma_ack_cm_event(come);
		connect_event(verbs, &event);
	}
}

/* Begins attempts that are due; returns how long until the next, in ms; -1: for ever. */
static int connect_attempts(struct verbs_state *verbs)
{
	uint64_t now = verbs_now(verbs), next = UINT64_MAX;

	for (uint64_t want = atomic_load(&verbs->want); want != 0; want &= want - 1) {
		struct verbs_peer *peer = &verbs->peers[__builtin_ctzll(want)];

		if (atomic_load(&peer->at) != VERBS_APART) {
			if (atomic_load(&peer->at) != VERBS_JOINING)
				atomic_fetch_and(&verbs->want, ~verbs_bit(peer->number));
			continue;
		}
		if (peer->retry_ns <= now && !connect_begin(verbs, peer) && peer->id != NULL)
			connect_drop(verbs, peer);
		if (atomic_load(&peer->at) == VERBS_APART && peer->retry_ns < next)
			next = peer->retry_ns;
	}
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 1 : (int)((next - now) / NS_PER_MS) + 1;
}

static void *connect_main(void *arg)
{
	struct verbs_state *verbs = arg;
	struct pollfd files[2] = {{verbs->events->fd, POLLIN, 0}, {verbs->wanted, POLLIN, 0}};
	uint64_t count;

	while (atomic_load(&verbs->stop) == 0) {
		int wait = connect_attempts(verbs), remote = verbs_remote_serve(verbs);

		if (remote >= 0 && (wait < 0 || remote < wait))
			wait = remote;
		if (!verbs_keys_serve(verbs))
			wait = 1; /* ms: a peer has no room yet, or a read is under way */
		if (poll(files, 2, wait) <= 0)
			continue;
		if (files[1].revents != 0 && read(verbs->wanted, &count, sizeof(count)) < 0)
			continue; /* another read has emptied it */
		connect_events(verbs);
	}
	return NULL;
}

/* ------------------------------------------------------------------------------- open and close */

/* How long the card resends: it gives a peer up about when the node does. */
static uint8_t connect_timeout(uint64_t deadline_ns)
{
	uint64_t least =
		(deadline_ns != 0 ? deadline_ns : FAILS_NS) / (VERBS_RETRIES + 1) / TICK_NS;
	uint8_t timeout = 14;

	while (timeout < 20 && (uint64_t)1 << (timeout + 1) <= least)
		timeout++;
	return timeout;
}

static enum roam_err connect_listen(struct verbs_state *verbs)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	char why[160] = "";
	uint32_t found = verbs_address(&verbs->params, why, sizeof(why));

	if (found == 0) {
		verbs_say(verbs, "%s", why);
		return ROAM_EUNSUPPORTED;
	}
	address.sin_addr.s_addr = htonl(found);
	verbs->events = rdma_create_event_channel();
	if (verbs->events == NULL ||
	    rdma_create_id(verbs->events, &verbs->listener, NULL, RDMA_PS_TCP) != 0 ||
	    rdma_bind_addr(verbs->listener, (void *)&address) != 0 ||
	    verbs->listener->verbs == NULL || rdma_listen(verbs->listener, BACKLOG) != 0) {
		verbs_say(verbs, "the connection manager does not take %s: %s",
			  inet_ntoa(address.sin_addr), strerror(errno));
		return ROAM_EUNSUPPORTED;
	}
	return verbs_memory(verbs);
}

enum roam_err verbs_connect_open(struct verbs_state *verbs)
{
	unsigned held = roami_os_fds_hold();
	enum roam_err err = connect_listen(verbs);

	roami_os_fds_release(held);
	verbs->timeout = connect_timeout(verbs->params.deadline_ns);
	verbs->wanted = roami_os_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (err != ROAM_OK)
		return err;
	if (verbs->wanted < 0 || fcntl(verbs->events->fd, F_SETFL, O_NONBLOCK) != 0 ||
	    !roami_os_helper(&verbs->thread, connect_main, verbs))
		return ROAM_ESYSTEM;
	verbs->runs = true;
	if (verbs->params.helper != NULL)
		verbs->params.helper(verbs->params.now_arg, 1);
	atomic_store(&verbs->card->mark, verbs->mark);
	atomic_store(&verbs->card->address,
		     (uint64_t)ntohl(((struct sockaddr_in *)rdma_get_local_addr(verbs->listener))
					     ->sin_addr.s_addr)
				     << 16 |
			     ntohs(rdma_get_src_port(verbs->listener)));
	return ROAM_OK;
}

/* Waits until the last messages have left: the card still has to send them. */
static void connect_drain(struct verbs_state *verbs)
{
	uint64_t until = verbs_now(verbs) + DRAIN_NS;
	bool all = false;

	for (unsigned turn = 0; !all && verbs_now(verbs) < until; turn++) {
		verbs_reap(verbs);
		all = true;
		for (unsigned i = 0; i < verbs->params.nodes && all; i++) {
			struct verbs_peer *peer = &verbs->peers[i];

			all = atomic_load(&peer->at) != VERBS_READY ||
			      atomic_load(&peer->left) == peer->sent;
		}
		roami_os_spin(turn);
	}
}

void verbs_connect_close(struct verbs_state *verbs)
{
	uint64_t one = 1;

	atomic_store(&verbs->stop, 1);
	if (verbs->runs) {
		atomic_store(&verbs->card->address, 0);
		if (write(verbs->wanted, &one, sizeof(one)) == sizeof(one))
			pthread_join(verbs->thread, NULL);
		if (verbs->params.helper != NULL)
			verbs->params.helper(verbs->params.now_arg, -1);
		verbs->runs = false;
		connect_drain(verbs);
	}
	for (unsigned i = 0; i < verbs->params.nodes; i++)
		if (verbs->peers[i].id != NULL) {
			rdma_disconnect(verbs->peers[i].id);
			connect_drop(verbs, &verbs->peers[i]);
		}
	if (verbs->wanted >= 0)
		close(verbs->wanted);
	verbs->wanted = -1;
}
