/* The two nodes, and their card. */
#include "verbs_ends.h"

#include <string.h>

#include "unit.h"

struct end ends[ENDS];
uint64_t clock_ns, draw;
unsigned lost_peer, lost_count, notes;
unsigned registrations, deregistrations;
bool (*put_take)(const struct end *end, const void *data, size_t bytes);

/* ------------------------------------------------------------------------------------- the card */

static struct end *end_of(const struct ibv_context *context)
{
	return &ends[context == &ends[1].context];
}

static void queue_put(struct queue *queue, struct ibv_wc done)
{
	CU_ASSERT_FATAL(queue->put - queue->got < QUEUE);
	queue->done[queue->put++ % QUEUE] = done;
}

static int card_receive(struct ibv_qp *qp, struct ibv_recv_wr *wanted, struct ibv_recv_wr **bad)
{
	struct end *end = end_of(qp->context);

	(void)bad;
	if (qp == &end->remote) {
		CU_ASSERT_FATAL(end->room_put - end->room_got < VERBS_PUTS);
		end->room[end->room_put % QUEUE] = *wanted->sg_list;
		end->room_id[end->room_put++ % QUEUE] = wanted->wr_id;
		return 0;
	}
	CU_ASSERT_FATAL(end->posted_put - end->posted_got < BUFFERS);
	end->posted[end->posted_put % QUEUE] = *wanted->sg_list;
	end->posted_id[end->posted_put++ % QUEUE] = wanted->wr_id;
	return 0;
}

static struct end *peer_of(const struct end *end)
{
	return &ends[end == &ends[0]];
}

static void flush_one(struct end *end, uint64_t id)
{
	queue_put(&end->landings, (struct ibv_wc){.wr_id = id, .status = IBV_WC_WR_FLUSH_ERR});
}

/* All that the queue pair has under way ends. */
static void remote_flush(struct end *end)
{
	end->remote_ready = false;
	while (end->reading_count > 0)
		flush_one(end, end->reading[--end->reading_count].wr_id);
	while (end->putting_got < end->putting_put)
		flush_one(end, end->putting[end->putting_got++ % QUEUE].wr_id);
	while (end->room_got < end->room_put)
		flush_one(end, end->room_id[end->room_got++ % QUEUE]);
}

/* An operation of this end has failed: both queue pairs are in error. */
static void remote_error(struct end *end, uint64_t id)
{
	queue_put(&end->landings, (struct ibv_wc){.wr_id = id, .status = IBV_WC_REM_ACCESS_ERR});
	remote_flush(end);
	remote_flush(peer_of(end));
}

/* An operation with registered memory, by its key, from or to a bounce page. */
static void card_checks(const struct end *end, const struct ibv_send_wr *wanted)
{
	const struct end *of = peer_of(end);
	uint64_t at = wanted->wr.rdma.remote_addr - (uintptr_t)of->shared;
	const struct ibv_mr *part = &of->parts[at / VERBS_PART];

	CU_ASSERT_FATAL(at + wanted->sg_list->length <= SHARED);
	CU_ASSERT_FATAL(part->rkey == wanted->wr.rdma.rkey && of->registered[at / VERBS_PART]);
	CU_ASSERT_FATAL(wanted->sg_list->addr >= (uintptr_t)end->bounce &&
			wanted->sg_list->addr < (uintptr_t)end->bounce + sizeof(end->bounce));
}

static void card_read(struct end *end, const struct ibv_send_wr *wanted)
{
	card_checks(end, wanted);
	CU_ASSERT_FATAL(end->reading_count < SLOTS);
	end->reading_to[end->reading_count] = *wanted->sg_list;
	end->reading[end->reading_count++] = *wanted;
}

/* Operations of a list. */
static int card_direct(struct end *end, struct ibv_send_wr *wanted)
{
	for (; wanted != NULL; wanted = wanted->next) {
		unsigned at = end->putting_put % QUEUE;

		if (!end->remote_ready) {
			flush_one(end, wanted->wr_id);
			continue;
		}
		if (wanted->opcode == IBV_WR_RDMA_READ) {
			card_read(end, wanted);
			continue;
		}
		if (wanted->opcode == IBV_WR_RDMA_WRITE)
			card_checks(end, wanted);
		end->putting_from[at] = *wanted->sg_list;
		end->putting[at] = *wanted;
		end->putting_put++;
	}
	return 0;
}

/* Brings the WRITE, or the message, that is first; WRITEs of one put in any order. */
static void card_bring(struct end *end)
{
	struct end *to = peer_of(end);
	unsigned first = end->putting_got % QUEUE, other = (end->putting_got + 1) % QUEUE;
	struct ibv_send_wr *wr = &end->putting[first];
	struct ibv_sge *from = &end->putting_from[first];

	if (end->putting_put - end->putting_got > 1 && wr->opcode == IBV_WR_RDMA_WRITE &&
	    end->putting[other].opcode == IBV_WR_RDMA_WRITE && unit_below(&draw, 2) == 0) {
		struct ibv_send_wr swapped = *wr;
		struct ibv_sge swapped_from = *from;

		*wr = end->putting[other];
		*from = end->putting_from[other];
		end->putting[other] = swapped;
		end->putting_from[other] = swapped_from;
	}
	end->putting_got++;
	if (wr->opcode == IBV_WR_RDMA_WRITE && end->puts_fail) {
		end->puts_fail = false;
		remote_error(end, wr->wr_id);
	} else if (wr->opcode == IBV_WR_RDMA_WRITE) {
		memcpy((void *)(uintptr_t)wr->wr.rdma.remote_addr, (void *)(uintptr_t)from->addr,
		       from->length);
	} else {
		/* A real card would wait a while. */
		CU_ASSERT_FATAL(to->room_got < to->room_put);
		CU_ASSERT_FATAL(from->length <= to->room[to->room_got % QUEUE].length);
		memcpy((void *)(uintptr_t)to->room[to->room_got % QUEUE].addr,
		       (void *)(uintptr_t)from->addr, from->length);
		queue_put(&to->landings,
			  (struct ibv_wc){.wr_id = to->room_id[to->room_got++ % QUEUE],
					  .byte_len = from->length});
		queue_put(&end->landings, (struct ibv_wc){.wr_id = wr->wr_id});
	}
}

/* Ends a READ under way, any of them. */
static void card_land(struct end *end)
{
	unsigned which = (unsigned)unit_below(&draw, end->reading_count), last;
	const struct ibv_sge *to = &end->reading_to[which];
	struct ibv_send_wr read = end->reading[which];

	memcpy((void *)(uintptr_t)to->addr, (void *)(uintptr_t)read.wr.rdma.remote_addr,
	       end->reads_fail ? 0 : to->length);
	last = --end->reading_count;
	end->reading[which] = end->reading[last];
	end->reading_to[which] = end->reading_to[last];
	if (end->reads_fail)
		remote_error(end, read.wr_id);
	else
		queue_put(&end->landings, (struct ibv_wc){.wr_id = read.wr_id});
}

static int card_send(struct ibv_qp *qp, struct ibv_send_wr *wanted, struct ibv_send_wr **bad)
{
	struct end *end = end_of(qp->context);

	(void)bad;
	if (qp == &end->remote)
		return card_direct(end, wanted);
	CU_ASSERT_FATAL(end->leaving_put - end->leaving_got < QUEUE);
	end->leaving[end->leaving_put % QUEUE] = *wanted->sg_list;
	end->leaving_id[end->leaving_put++ % QUEUE] = wanted->wr_id;
	return 0;
}

/* Moves the part that this end sent first. */
static void card_move(struct end *end)
{
	struct end *to = &ends[end == &ends[0]];
	const struct ibv_sge *part = &end->leaving[end->leaving_got % QUEUE];
	const struct ibv_sge *room = &to->posted[to->posted_got % QUEUE];
	struct ibv_wc done = {.wr_id = end->leaving_id[end->leaving_got++ % QUEUE]};

	if (end->fails) {
		done.status = IBV_WC_RETRY_EXC_ERR;
		queue_put(&end->out, done);
		return;
	}
	/* A real card ends the connection. */
	CU_ASSERT_FATAL(to->posted_got < to->posted_put && part->length <= room->length);
	memcpy((void *)(uintptr_t)room->addr, (void *)(uintptr_t)part->addr, part->length);
	queue_put(&to->in, (struct ibv_wc){.wr_id = to->posted_id[to->posted_got++ % QUEUE],
					   .byte_len = part->length});
	queue_put(&end->out, done);
}

static int card_poll(struct ibv_cq *cq, int most, struct ibv_wc *done)
{
	struct end *end = end_of(cq->context);
	struct queue *queue = cq == &end->in_cq          ? &end->in
			      : cq == &end->landings_cq ? &end->landings
							: &end->out;
	int count = 0;

	for (unsigned i = 0; i < ENDS; i++)
		while (ends[i].leaving_got < ends[i].leaving_put && unit_below(&draw, 3) > 0)
			card_move(&ends[i]);
	while (end->reading_count > 0 && !end->reads_wait && unit_below(&draw, 3) > 0)
		card_land(end);
	for (unsigned i = 0; i < ENDS; i++)
		while (ends[i].putting_got < ends[i].putting_put && unit_below(&draw, 4) > 0)
			card_bring(&ends[i]);
	while (queue->ready < queue->put && unit_below(&draw, 4) > 0)
		queue->ready++;
	while (count < most && queue->got < queue->ready)
		done[count++] = queue->done[queue->got++ % QUEUE];
	return count;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	struct end *end = &ends[(uint8_t *)at >= ends[1].shared];
	uint64_t part = (uint64_t)((uint8_t *)at - end->shared) / VERBS_PART;

	(void)pd;
	CU_ASSERT_FATAL(part < PARTS && !end->registered[part]);
	CU_ASSERT(bytes <= VERBS_PART && (access & IBV_ACCESS_REMOTE_READ) != 0);
	end->parts[part].rkey = 1000 + registrations++;
	end->registered[part] = true;
	return &end->parts[part];
}

/* No READ of the part may be under way. */
int ibv_dereg_mr(struct ibv_mr *region)
{
	struct end *end = &ends[region >= ends[1].parts], *peer = &ends[end == &ends[0]];
	uint64_t part = (uint64_t)(region - end->parts);

	CU_ASSERT_FATAL(part < PARTS && end->registered[part]);
	for (unsigned i = 0; i < peer->reading_count; i++)
		CU_ASSERT(peer->reading[i].wr.rdma.rkey != region->rkey);
	end->registered[part] = false;
	deregistrations++;
	return 0;
}

/* The queue pairs for one-sided operations are made anew, after the card is done with the old. */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *wanted)
{
	struct end *end = &ends[(struct ibv_pd *)&ends[1] == pd];

	CU_ASSERT(wanted->cap.max_recv_wr >= VERBS_PUTS);
	end->remote.qp_num = (end == &ends[1] ? 200u : 100u) + ++end->remote_number;
	return &end->remote;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	const struct end *end = end_of(qp->context);

	CU_ASSERT(qp == &end->remote && !end->remote_ready && end->reading_count == 0 &&
		  end->putting_got == end->putting_put && end->room_got == end->room_put &&
		  end->landings.got == end->landings.put);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct end *end = end_of(qp->context);

	(void)mask;
	if (attr->qp_state == IBV_QPS_ERR)
		remote_flush(end);
	if (attr->qp_state == IBV_QPS_RTR)
		CU_ASSERT_EQUAL(attr->dest_qp_num, peer_of(end)->remote.qp_num);
	if (attr->qp_state == IBV_QPS_RTS)
		end->remote_ready = true;
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id, (void)attr;
	*mask = 0;
	return 0;
}

/* ------------------------------------------------------------------------------------- the ends */

static uint64_t clock_now(void *arg)
{
	(void)arg;
	return clock_ns;
}

static void end_lost(void *arg, unsigned peer, uint64_t silent_ns)
{
	(void)arg;
	CU_ASSERT(silent_ns > SECOND);
	lost_peer = peer;
	lost_count++;
}

static void end_notice(void *arg, const char *line)
{
	(void)arg;
	CU_ASSERT(strstr(line, "the connection to node 1 failed") != NULL ||
		  strstr(line, "could not reach memory of node 1: remote access error; messages") !=
			  NULL);
	notes++;
}

/* What opening and connecting do, for reads. */
static void end_shares(struct end *end, struct verbs_peer *peer)
{
	struct verbs_reads *reads = &end->verbs.reads;

	end->remote.context = end->landings_cq.context = &end->context;
	end->remote_ready = true;
	peer->remote = &end->remote;
	end->verbs.domain = (struct ibv_pd *)(void *)end; /* see ibv_create_qp */
	end->verbs.params.read = verbs_bit(peer->number);
	reads->in = end->puts_in;
	reads->in_region = &end->in_region;
	reads->answers = 1;
	reads->landings = &end->landings_cq;
	reads->region = &end->bounce_region;
	reads->bounce = end->bounce;
	reads->slots = (1u << SLOTS) - 1;
	atomic_store(&reads->free, reads->slots);
	CU_ASSERT_FATAL(verbs_onesided.attach(&end->verbs, end->shared, SHARED) == ROAM_OK);
	reads->most = 0;
	for (unsigned i = 0; i < PARTS; i++) {
		end->parts[i].rkey = 100 + i;
		end->registered[i] = i != REFUSED;
		if (i != REFUSED)
			reads->parts[i].region = &end->parts[i];
	}
	for (size_t i = 0; i < SHARED; i += LINE)
		end->shared[i] = (uint8_t)(i / LINE + i / VERBS_READ_MAX);
}

static void end_open(unsigned me)
{
	struct end *end = &ends[me];
	struct verbs_state *verbs = &end->verbs;
	struct verbs_peer *peer = &verbs->peers[!me];

	verbs_reads_free(&verbs->reads);
	memset(end, 0, sizeof(*end));
	verbs->wanted = -1;
	end->context.ops.post_recv = card_receive;
	end->context.ops.post_send = card_send;
	end->context.ops.poll_cq = card_poll;
	end->qp.context = end->in_cq.context = end->out_cq.context = &end->context;
	verbs->params = (struct roam_transport_params){.node = me,
						       .nodes = ENDS,
						       .now = clock_now,
						       .deadline_ns = SECOND,
						       .lost = end_lost,
						       .notice = end_notice};
	verbs->buffers = BUFFERS;
	verbs->memory = end->memory;
	verbs->region = &end->region;
	verbs->in = &end->in_cq;
	verbs->out = &end->out_cq;
	atomic_store(&verbs->due, UINT64_MAX);
	peer->number = !me;
	peer->theirs = BUFFERS;
	peer->qp = &end->qp;
	peer->rest = end->rest;
	peer->message = end->message;
	atomic_store(&peer->at, VERBS_READY);
	end_shares(end, peer);
	for (unsigned i = 0; i < BUFFERS; i++)
		CU_ASSERT_FATAL(verbs_receive(verbs, peer, i));
	CU_ASSERT_FATAL(verbs_put_receive(verbs, peer));
	verbs_begin_beat(verbs);
}

void ends_open(void)
{
	draw = unit_seed();
	put_take = NULL;
	lost_peer = ENDS;
	lost_count = notes = registrations = deregistrations = 0;
	end_open(0);
	end_open(1);
}

static uint32_t sum_of(const uint8_t *bytes, size_t count)
{
	uint32_t sum = (uint32_t)count;

	for (size_t i = 0; i < count; i++)
		sum = sum * 31 + bytes[i];
	return sum;
}

void end_send(struct end *end)
{
	static uint8_t bytes[VERBS_MESSAGE_MAX];
	size_t some = unit_below(&draw, 3) > 0 ? 1 + unit_below(&draw, 200)
					       : 1 + unit_below(&draw, VERBS_MESSAGE_MAX);
	size_t first = some / 3;
	struct iovec parts[] = {{bytes, first}, {bytes + first, some - first}};
	enum roam_err err;

	if (end->sent == MESSAGES)
		return;
	for (size_t i = 0; i < some; i += 64)
		bytes[i] = (uint8_t)unit_random(&draw);
	end->sums[end->sent] = sum_of(bytes, some);
	err = roami_transport_verbs.send(&end->verbs, !end->verbs.params.node, parts, 2);
	CU_ASSERT_FATAL(err == ROAM_OK || err == ROAM_EAGAIN);
	end->sent += err == ROAM_OK;
}

bool end_take(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct end *end = arg;

	if (unit_below(&draw, 4) == 0)
		return false;
	if (put_take != NULL && put_take(end, data, bytes))
		return true;
	CU_ASSERT_FATAL(from == !end->verbs.params.node && end->delivered < ends[from].sent);
	CU_ASSERT_FATAL(sum_of(data, bytes) == ends[from].sums[end->delivered]);
	end->delivered++;
	return true;
}

void end_poll(struct end *end)
{
	int bad = -1;

	roami_transport_verbs.poll(&end->verbs, end_take, end,
				   1 + (unsigned)unit_below(&draw, 4), &bad);
	CU_ASSERT_FATAL(bad == -1);
}
