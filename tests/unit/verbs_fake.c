#include "verbs_fake.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS  64u
#define QUEUE   512u
#define PORTS   64u
#define PRIVATE 56u /* what managers lengthen the private data to */

struct channel {
	struct rdma_event_channel channel;
	struct rdma_cm_event *events[EVENTS];
	unsigned put, got;
};

struct id {
	struct rdma_cm_id id;
	struct id *other;  /* the other end of the attempt */
	uint16_t port;     /* that it listens at, or connects to */
	uint32_t qp_num;   /* of this end */
	unsigned unacked;
	bool stranger, accepted, rejected;
};

struct event {
	struct rdma_cm_event event;
	uint8_t data[PRIVATE];
};

struct pair {
	struct ibv_qp qp;
	struct pair *other;
	struct ibv_sge posted[QUEUE], leaving[QUEUE];
	uint64_t posted_id[QUEUE], leaving_id[QUEUE];
	unsigned posted_put, posted_got, leaving_put, leaving_got;
};

struct queue {
	struct ibv_cq cq;
	struct ibv_wc done[QUEUE];
	unsigned put, got;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_device device = {.name = "fake0", .transport_type = IBV_TRANSPORT_IWARP};
static struct ibv_context manager = {.device = &device};
static struct id *listeners[PORTS];
static struct pair *pairs[PORTS]; /* by their number */
static struct event *held[EVENTS];
static unsigned held_count, refuse;
static bool holds, spoils;
static unsigned spoil_at;
static uint8_t spoil_byte;
static struct fake_counts counts;

static void locked(void)
{
	pthread_mutex_lock(&lock);
}

static void unlocked(void)
{
	pthread_mutex_unlock(&lock);
}

/* --------------------------------------------------------------------------------------- events */

static void event_put(struct event *event)
{
	struct id *id = (void *)event->event.id;
	struct channel *channel = (void *)id->id.channel;
	uint64_t one = 1;

	if (id->stranger || channel->put - channel->got == EVENTS) {
		free(event);
		return;
	}
	channel->events[channel->put++ % EVENTS] = &event->event;
	if (write(channel->channel.fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void event_send(struct id *id, enum rdma_cm_event_type type, const void *data, size_t bytes,
		       bool travels)
{
	struct event *event = calloc(1, sizeof(*event));

	event->event.event = type;
	event->event.id = &id->id;
	if (data != NULL) {
		memcpy(event->data, data, bytes);
		event->event.param.conn.private_data = event->data;
		event->event.param.conn.private_data_len = PRIVATE;
	}
	if (travels && holds && held_count < EVENTS)
		held[held_count++] = event;
	else
		event_put(event);
}

/* Drops what has not been taken yet of an identifier that ends. */
static void events_drop(struct id *id)
{
	struct channel *channel = (void *)id->id.channel;
	unsigned kept = 0;

	for (unsigned i = 0; i < held_count; i++)
		if (held[i]->event.id == &id->id)
			free(held[i]);
		else
			held[kept++] = held[i];
	held_count = kept;
	for (unsigned at = channel->got, to = channel->got;; at++) {
		if (at == channel->put) {
			channel->put = to;
			break;
		}
		if (channel->events[at % EVENTS]->id == &id->id)
			free(channel->events[at % EVENTS]);
		else
			channel->events[to++ % EVENTS] = channel->events[at % EVENTS];
	}
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct channel *channel = calloc(1, sizeof(*channel));

	channel->channel.fd = eventfd(0, EFD_CLOEXEC);
	return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
}

int rdma_get_cm_event(struct rdma_event_channel *of, struct rdma_cm_event **event_p)
{
	struct channel *channel = (void *)of;
	uint64_t count;

	locked();
	*event_p = channel->got == channel->put ? NULL : channel->events[channel->got++ % EVENTS];
	if (*event_p != NULL)
		((struct id *)(void *)(*event_p)->id)->unacked++;
	else if (read(of->fd, &count, sizeof(count)) < 0)
		errno = EAGAIN;
	unlocked();
	return *event_p != NULL ? 0 : -1;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	locked();
	((struct id *)(void *)event->id)->unacked--;
	unlocked();
	free(event);
	return 0;
}

/* ---------------------------------------------------------------------------------- connections */

static struct id *id_new(struct rdma_event_channel *channel, void *context)
{
	struct id *id = calloc(1, sizeof(*id));

	id->id.channel = channel;
	id->id.context = context;
	counts.objects++;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space space)
{
	(void)space;
	locked();
	*id = &id_new(channel, context)->id;
	unlocked();
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *of)
{
	struct id *id = (void *)of;

	locked();
	counts.unacked += id->unacked > 0;
	events_drop(id);
	if (id->port < PORTS && listeners[id->port] == id)
		listeners[id->port] = NULL;
	if (id->other != NULL)
		id->other->other = NULL;
	counts.objects--;
	unlocked();
	free(id);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	memcpy(&id->route.addr.src_addr, address, sizeof(struct sockaddr_in));
	id->verbs = &manager;
	return 0;
}

int rdma_listen(struct rdma_cm_id *of, int backlog)
{
	struct id *id = (void *)of;

	(void)backlog;
	locked();
	for (id->port = 1; listeners[id->port] != NULL;)
		id->port++;
	listeners[id->port] = id;
	unlocked();
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	return htons(((struct id *)(void *)id)->port);
}

int rdma_resolve_addr(struct rdma_cm_id *of, struct sockaddr *from, struct sockaddr *to,
		      int timeout_ms)
{
	struct id *id = (void *)of;

	(void)from, (void)timeout_ms;
	locked();
	id->port = ntohs(((struct sockaddr_in *)(void *)to)->sin_port);
	id->id.verbs = &manager;
	event_send(id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0, false);
	unlocked();
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	locked();
	event_send((void *)id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0, false);
	unlocked();
	return 0;
}

static void request(struct id *id, const void *data, size_t bytes)
{
	struct id *listener = id->port < PORTS ? listeners[id->port] : NULL;

	counts.requests++;
	if (refuse > 0 || listener == NULL) {
		refuse -= refuse > 0;
		id->rejected = true;
		event_send(id, RDMA_CM_EVENT_UNREACHABLE, NULL, 0, true);
		return;
	}
	id->other = id_new(listener->id.channel, NULL);
	id->other->other = id;
	id->other->id.verbs = &manager;
	id->other->port = UINT16_MAX;
	event_send(id->other, RDMA_CM_EVENT_CONNECT_REQUEST, data, bytes, true);
}

int rdma_connect(struct rdma_cm_id *of, struct rdma_conn_param *param)
{
	struct id *id = (void *)of;

	locked();
	id->qp_num = param->qp_num;
	request(id, param->private_data, param->private_data_len);
	unlocked();
	return 0;
}

int rdma_accept(struct rdma_cm_id *of, struct rdma_conn_param *param)
{
	struct id *id = (void *)of, *other;
	uint8_t answer[PRIVATE] = {0};

	locked();
	memcpy(answer, param->private_data, param->private_data_len);
	if (spoils)
		answer[spoil_at] = spoil_byte;
	spoils = false;
	id->qp_num = param->qp_num;
	counts.accepted++;
	other = id->other;
	if (other != NULL) {
		other->accepted = true;
		if (!other->stranger) {
			pairs[id->qp_num]->other = pairs[other->qp_num];
			pairs[other->qp_num]->other = pairs[id->qp_num];
		}
		event_send(other, RDMA_CM_EVENT_CONNECT_RESPONSE, answer, param->private_data_len,
			   true);
	}
	unlocked();
	return 0;
}

/* An event at the other end, unless it has gone. */
static int tell_other(struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
	struct id *other;

	locked();
	other = ((struct id *)(void *)id)->other;
	if (other != NULL && type == RDMA_CM_EVENT_REJECTED)
		other->rejected = true;
	if (other != NULL)
		event_send(other, type, NULL, 0, true);
	counts.rejected += type == RDMA_CM_EVENT_REJECTED;
	unlocked();
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	(void)data, (void)bytes;
	return tell_other(id, RDMA_CM_EVENT_REJECTED);
}

int rdma_establish(struct rdma_cm_id *id)
{
	return tell_other(id, RDMA_CM_EVENT_ESTABLISHED);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	return tell_other(id, RDMA_CM_EVENT_DISCONNECTED);
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id, (void)attr;
	*mask = IBV_QP_STATE;
	return 0;
}

/* ------------------------------------------------------------------------------------- the card */

static void done_put(struct ibv_cq *cq, struct ibv_wc done)
{
	struct queue *queue = (void *)cq;

	if (queue->put - queue->got < QUEUE)
		queue->done[queue->put++ % QUEUE] = done;
}

/* Moves what a pair has sent to where it is connected. */
static void pair_move(struct pair *pair)
{
	struct pair *to = pair->other;

	while (to != NULL && pair->leaving_got < pair->leaving_put) {
		unsigned from = pair->leaving_got++ % QUEUE, at = to->posted_got % QUEUE;

		if (to->posted_got == to->posted_put ||
		    to->posted[at].length < pair->leaving[from].length) {
			counts.missing++;
			continue;
		}
		to->posted_got++;
		memcpy((void *)(uintptr_t)to->posted[at].addr,
		       (void *)(uintptr_t)pair->leaving[from].addr, pair->leaving[from].length);
		done_put(to->qp.recv_cq, (struct ibv_wc){.wr_id = to->posted_id[at],
							 .byte_len = pair->leaving[from].length});
		done_put(pair->qp.send_cq, (struct ibv_wc){.wr_id = pair->leaving_id[from]});
	}
}

static int card_receive(struct ibv_qp *qp, struct ibv_recv_wr *wanted, struct ibv_recv_wr **bad)
{
	struct pair *pair = (void *)qp;

	(void)bad;
	locked();
	pair->posted[pair->posted_put % QUEUE] = *wanted->sg_list;
	pair->posted_id[pair->posted_put++ % QUEUE] = wanted->wr_id;
	unlocked();
	return 0;
}

static int card_send(struct ibv_qp *qp, struct ibv_send_wr *wanted, struct ibv_send_wr **bad)
{
	struct pair *pair = (void *)qp;

	(void)bad;
	locked();
	counts.early += qp->state != IBV_QPS_RTS;
	pair->leaving[pair->leaving_put % QUEUE] = *wanted->sg_list;
	pair->leaving_id[pair->leaving_put++ % QUEUE] = wanted->wr_id;
	unlocked();
	return 0;
}

static int card_poll(struct ibv_cq *cq, int most, struct ibv_wc *done)
{
	struct queue *queue = (void *)cq;
	int count = 0;

	locked();
	for (unsigned i = 0; i < PORTS; i++)
		if (pairs[i] != NULL)
			pair_move(pairs[i]);
	while (count < most && queue->got < queue->put)
		done[count++] = queue->done[queue->got++ % QUEUE];
	unlocked();
	return count;
}

static int card_notify(struct ibv_cq *cq, int solicited)
{
	(void)cq, (void)solicited;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	locked();
	for (pair->qp.qp_num = 1; pairs[pair->qp.qp_num] != NULL;)
		pair->qp.qp_num++;
	pairs[pair->qp.qp_num] = pair;
	pair->qp.context = pd->context;
	pair->qp.send_cq = wanted->send_cq;
	pair->qp.recv_cq = wanted->recv_cq;
	counts.objects++;
	unlocked();
	return &pair->qp;
}

/* Only the moves that a connection makes are possible. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)mask;
	if (attr->qp_state != qp->state + 1)
		return EINVAL;
	qp->state = attr->qp_state;
	return 0;
}

/* Buffers that were posted may still come back, flushed. */
int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct pair *pair = (void *)qp;

	locked();
	while (pair->posted_got < pair->posted_put)
		done_put(qp->recv_cq,
			 (struct ibv_wc){.wr_id = pair->posted_id[pair->posted_got++ % QUEUE],
					 .status = IBV_WC_WR_FLUSH_ERR});
	if (pair->other != NULL)
		pair->other->other = NULL;
	pairs[qp->qp_num] = NULL;
	counts.objects--;
	unlocked();
	free(pair);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int depth, void *arg,
			     struct ibv_comp_channel *channel, int vector)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	(void)depth, (void)arg, (void)channel, (void)vector;
	queue->cq.context = context;
	locked();
	counts.objects++;
	unlocked();
	return &queue->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	locked();
	counts.objects--;
	unlocked();
	free(cq);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned events)
{
	(void)cq, (void)events;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	(void)channel, (void)cq, (void)context;
	return -1;
}

/* ----------------------------------------------------------------------------------- the device */

struct ibv_device **ibv_get_device_list(int *count)
{
	static struct ibv_device *list[] = {&device, NULL};

	if (count != NULL)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	struct ibv_context *context = calloc(1, sizeof(*context));

	context->device = of;
	context->ops.post_recv = card_receive;
	context->ops.post_send = card_send;
	context->ops.poll_cq = card_poll;
	context->ops.req_notify_cq = card_notify;
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	free(context);
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){.phys_port_cnt = 1};
	return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	(void)context, (void)port;
	((struct ibv_port_attr *)(void *)attr)->state = IBV_PORT_ACTIVE;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	channel->context = context;
	channel->fd = eventfd(0, EFD_CLOEXEC);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	(void)pd, (void)at, (void)bytes, (void)access;
	return calloc(1, sizeof(struct ibv_mr));
}

int ibv_dereg_mr(struct ibv_mr *region)
{
	free(region);
	return 0;
}

/* ------------------------------------------------------------------------------- what tests ask */

void fake_refuse(unsigned count)
{
	locked();
	refuse = count;
	unlocked();
}

void fake_pass(void)
{
	locked();
	for (unsigned i = 0; i < held_count; i++)
		event_put(held[i]);
	held_count = 0;
	unlocked();
}

void fake_hold(bool on)
{
	locked();
	holds = on;
	unlocked();
	if (!on)
		fake_pass();
}

void fake_spoil(unsigned at, uint8_t byte)
{
	locked();
	spoils = true;
	spoil_at = at;
	spoil_byte = byte;
	unlocked();
}

unsigned fake_held(void)
{
	unsigned count;

	locked();
	count = held_count;
	unlocked();
	return count;
}

bool fake_ask(uint16_t port, const void *hello, uint8_t bytes)
{
	struct id *id;
	bool accepted;

	locked();
	id = id_new(NULL, NULL);
	id->stranger = true;
	id->port = port;
	request(id, hello, bytes);
	while (!id->accepted && !id->rejected) {
		unlocked();
		usleep(100);
		locked();
	}
	accepted = id->accepted;
	id->port = UINT16_MAX;
	if (id->other != NULL)
		id->other->other = NULL;
	counts.objects--;
	unlocked();
	free(id);
	return accepted;
}

void fake_remove(void)
{
	locked();
	for (unsigned i = 0; i < PORTS; i++)
		if (listeners[i] != NULL)
			event_send(listeners[i], RDMA_CM_EVENT_DEVICE_REMOVAL, NULL, 0, false);
	unlocked();
}

struct fake_counts fake_counts(void)
{
	struct fake_counts copy;

	locked();
	copy = counts;
	unlocked();
	return copy;
}
