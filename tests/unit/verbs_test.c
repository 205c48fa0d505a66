/*
 * The verbs transport's share that needs no card: two connected nodes whose queue pairs belong to
 * this test, which does with them what a card does.  A part is read from the sender's buffer some
 * time later, which the test draws, and needs a buffer that the peer has posted; later still the
 * nodes learn of it.  One-sided operations have a queue pair of their own; an error there ends all
 * that it has under way, and that of the peer, until both are made anew.
 */
#include <string.h>

#include "job/job.h"
#include "transport/verbs.h"
#include "unit.h"

#define ENDS     2u
#define BUFFERS  VERBS_BUFFERS_MIN
#define QUEUE    1024u
#define MESSAGES 3000u
#define TURN_NS  10000u
#define SECOND   UINT64_C(1000000000)
#define SLOTS    3u
#define PARTS    3u
#define REFUSED  1u /* the part that cannot be registered */
#define SHARED   ((PARTS - 1) * VERBS_PART + 2 * VERBS_READ_MAX)
#define READS    2000u
#define LINE     64u
#define PUTS     2000u
#define PLACES   12u /* where puts go: one at a time each */

extern const struct roam_transport roami_transport_verbs;

struct queue {
	struct ibv_wc done[QUEUE];
	unsigned put, got;
	unsigned ready; /* completions up to here are told to the node */
};

struct end {
	struct verbs_state verbs;
	struct ibv_context context;
	struct ibv_qp qp;
	struct ibv_cq in_cq, out_cq;
	struct ibv_mr region;
	struct ibv_sge posted[QUEUE];
	uint64_t posted_id[QUEUE];
	unsigned posted_put, posted_got;
	struct ibv_sge leaving[QUEUE];
	uint64_t leaving_id[QUEUE];
	unsigned leaving_put, leaving_got;
	struct queue in, out, landings;
	struct ibv_qp remote;
	bool remote_ready;
	uint32_t remote_number; /* of queue pairs that were made */
	struct ibv_send_wr putting[QUEUE]; /* WRITEs, and the messages behind them */
	struct ibv_sge putting_from[QUEUE];
	unsigned putting_put, putting_got;
	struct ibv_sge room[QUEUE]; /* buffers for these messages */
	uint64_t room_id[QUEUE];
	unsigned room_put, room_got;
	bool puts_fail; /* the next WRITE does */
	struct ibv_cq landings_cq;
	struct ibv_mr parts[PARTS], bounce_region, in_region;
	bool registered[PARTS];
	struct ibv_send_wr reading[SLOTS]; /* READs under way, each with its part */
	struct ibv_sge reading_to[SLOTS];
	unsigned reading_count;
	bool reads_fail, reads_wait; /* the next one does; none lands */
	bool fails; /* the card can no longer reach the peer */
	uint32_t sent, delivered;
	uint32_t sums[MESSAGES]; /* of the messages sent */
	uint8_t memory[2 * BUFFERS * VERBS_BUFFER];
	uint8_t rest[VERBS_MESSAGE_MAX], message[VERBS_MESSAGE_MAX];
	uint8_t bounce[SLOTS * VERBS_READ_MAX];
	uint8_t puts_in[VERBS_PUTS * VERBS_PUT_MESSAGE];
	uint8_t shared[SHARED];
};

static struct end ends[ENDS];
static uint64_t clock_ns, draw;
static unsigned lost_peer, lost_count, notes;
static unsigned registrations, deregistrations;

static bool put_take(const struct end *end, const void *data, size_t bytes);

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

static void ends_open(void)
{
	draw = unit_seed();
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

static void end_send(struct end *end)
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

/* Checks that the peer's messages come whole, each once, in order; refuses some for a while. */
static bool end_take(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct end *end = arg;

	if (unit_below(&draw, 4) == 0)
		return false;
	if (put_take(end, data, bytes))
		return true;
	CU_ASSERT_FATAL(from == !end->verbs.params.node && end->delivered < ends[from].sent);
	CU_ASSERT_FATAL(sum_of(data, bytes) == ends[from].sums[end->delivered]);
	end->delivered++;
	return true;
}

static void end_poll(struct end *end)
{
	int bad = -1;

	roami_transport_verbs.poll(&end->verbs, end_take, end,
				   1 + (unsigned)unit_below(&draw, 4), &bad);
	CU_ASSERT_FATAL(bad == -1);
}

/* ------------------------------------------------------------------------------------ the tests */

static void test_messages(void)
{
	ends_open();
	for (unsigned turn = 0; turn < 100 * MESSAGES; turn++) {
		struct end *end = &ends[unit_below(&draw, ENDS)];

		clock_ns += TURN_NS;
		if (unit_below(&draw, 3) == 0)
			end_send(end);
		else
			end_poll(end);
		if (ends[0].delivered == MESSAGES && ends[1].delivered == MESSAGES)
			break;
	}
	CU_ASSERT_EQUAL(ends[0].delivered, MESSAGES);
	CU_ASSERT_EQUAL(ends[1].delivered, MESSAGES);
	CU_ASSERT_EQUAL(lost_count, 0);
}

/* The sender learns of free buffers only by parts that carry no message. */
static void test_one_way(void)
{
	ends_open();
	for (unsigned turn = 0; turn < 100 * MESSAGES && ends[1].delivered < MESSAGES; turn++) {
		clock_ns += TURN_NS;
		end_send(&ends[0]);
		end_poll(&ends[unit_below(&draw, ENDS)]);
	}
	CU_ASSERT_EQUAL(ends[1].delivered, MESSAGES);
}

static void test_silence(void)
{
	uint64_t start;

	ends_open();
	for (start = clock_ns; clock_ns < start + 3 * SECOND; clock_ns += SECOND / 50) {
		end_poll(&ends[0]);
		end_poll(&ends[1]);
	}
	CU_ASSERT_EQUAL(lost_count, 0); /* signs of life have come */
	for (start = clock_ns; lost_count == 0 && clock_ns < start + 3 * SECOND;
	     clock_ns += SECOND / 50)
		end_poll(&ends[0]);
	CU_ASSERT_EQUAL(lost_peer, 1);
	CU_ASSERT(clock_ns - start <= SECOND + SECOND / 10);
}

static void test_broken(void)
{
	ends_open();
	ends[0].fails = true;
	end_send(&ends[0]);
	for (uint64_t start = clock_ns; lost_count == 0 && clock_ns < start + 3 * SECOND;
	     clock_ns += SECOND / 50)
		end_poll(&ends[0]);
	CU_ASSERT_EQUAL(notes, 1);
	CU_ASSERT_EQUAL(lost_peer, 1);
	end_send(&ends[0]); /* as good as lost */
	CU_ASSERT_EQUAL(ends[0].sent, 2);
}

/* Parts that no node sends are their sender's. */
static void test_malformed(void)
{
	static const struct verbs_head heads[] = {
		{1, 0, 2, 0, 0},                 /* more taken than was sent */
		{1, 0, 0, 0, 1},                 /* more puts taken than were sent */
		{VERBS_MESSAGE_MAX + 1, 0, 0, 0, 0}, /* too long a message */
		{0, 0, 0, 0, 0},                 /* bytes of none */
		{1, 1, 0, 0, 0},                 /* a place behind the message's end */
		{9, 8, 0, 0, 0},                 /* the middle of a message first */
		{1, 0, 0, VERBS_WANT, 0},        /* a key, and a message */
		{0, 0, 0, VERBS_WANT, 0},        /* less than a key */
		{0, 0, 0, VERBS_STORE, 0},       /* less than a put */
		{0, 0, 0, VERBS_STORE + 1, 0},   /* something unknown */
	};

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		uint8_t byte = 7;
		struct iovec part = {&byte, 1};
		int bad = -1;

		ends_open();
		CU_ASSERT(roami_transport_verbs.send(&ends[1].verbs, 0, &part, 1) == ROAM_OK);
		memcpy(verbs_out(&ends[1].verbs, &ends[1].verbs.peers[0], 0), &heads[i],
		       sizeof(heads[i]));
		for (unsigned turn = 0; turn < 20 && bad < 0; turn++)
			roami_transport_verbs.poll(&ends[0].verbs, end_take, &ends[0], 1, &bad);
		CU_ASSERT_EQUAL(bad, 1);
		CU_ASSERT_EQUAL(ends[0].delivered, 0);
	}
}

/* What is said of a part that is not there, and a key that nobody has asked for. */
static void test_malformed_keys(void)
{
	static const struct verbs_key keys[] = {{0, PARTS, 0}, {0, UINT32_MAX, 0}, {4096, 0, 100}};

	for (size_t i = 0; i < 3; i++) {
		struct verbs_state *verbs;
		int bad = -1;

		ends_open();
		verbs = &ends[1].verbs;
		verbs_post_what(verbs, &verbs->peers[0], i < 2 ? VERBS_WANT : VERBS_KEY, &keys[i],
				sizeof(keys[i]));
		for (unsigned turn = 0; turn < 20 && bad < 0; turn++)
			roami_transport_verbs.poll(&ends[0].verbs, end_take, &ends[0], 1, &bad);
		CU_ASSERT_EQUAL(bad, 1);
	}
}

/* Reads of node 0 that are under way. */
static struct reading {
	uint64_t from;
	uint32_t done;
	bool begun;
	uint8_t to[VERBS_READ_MAX];
} readings[SLOTS];
static unsigned begun, ended, failed, began_of[PARTS], puts_begun;

static void reading_begin(struct reading *reading)
{
	struct iovec part = {reading->to, VERBS_READ_MAX};
	uint64_t pages = SHARED / VERBS_READ_MAX;
	enum roam_err err;

	reading->from = unit_below(&draw, pages) * VERBS_READ_MAX;
	if (unit_below(&draw, 2) == 0) /* the last part is short */
		reading->from = (PARTS - 1) * VERBS_PART;
	memset(reading->to, 0xff, sizeof(reading->to));
	err = verbs_onesided.get(&ends[0].verbs, 1, reading->from, &part, 1, &reading->done);
	CU_ASSERT_FATAL(err == ROAM_OK || err == ROAM_EAGAIN);
	reading->begun = err == ROAM_OK;
	begun += reading->begun;
	began_of[reading->from / VERBS_PART] += reading->begun;
}

static void reading_end(struct reading *reading)
{
	verbs_onesided.reap(&ends[0].verbs);
	if (reading->done == 0)
		return;
	reading->begun = false;
	if (reading->done == 1 && puts_begun == 0)
		CU_ASSERT_FATAL(memcmp(reading->to, ends[1].shared + reading->from,
				       VERBS_READ_MAX) == 0);
	ended++;
	failed += reading->done != 1;
}

static void readings_turn(void)
{
	struct reading *reading = &readings[unit_below(&draw, SLOTS)];

	clock_ns += TURN_NS;
	if (reading->begun)
		reading_end(reading);
	else if (unit_below(&draw, 2) == 0)
		reading_begin(reading);
	end_send(&ends[unit_below(&draw, ENDS)]);
	end_poll(&ends[0]);
	end_poll(&ends[1]);
	if (unit_below(&draw, 4) == 0)
		verbs_keys_serve(&ends[unit_below(&draw, ENDS)].verbs);
}

static void readings_open(void)
{
	ends_open();
	memset(readings, 0, sizeof(readings));
	memset(began_of, 0, sizeof(began_of));
	begun = ended = failed = puts_begun = 0;
}

static void test_reads(void)
{
	struct reading beyond;
	struct iovec part = {beyond.to, VERBS_READ_MAX};

	readings_open();
	CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1, SHARED - 1, &part, 1, &beyond.done) ==
		  ROAM_EINVAL);
	CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1, VERBS_PART - LINE, &part, 1,
				     &beyond.done) == ROAM_EINVAL);
	reading_begin(&readings[0]);
	CU_ASSERT_EQUAL(begun, 0); /* there is no key yet */
	for (unsigned turn = 0; turn < 100 * READS && ended < READS; turn++)
		readings_turn();
	CU_ASSERT_EQUAL(ended, READS);
	CU_ASSERT_EQUAL(failed, 0);
	CU_ASSERT_EQUAL(began_of[REFUSED], 0);
	CU_ASSERT(ends[0].delivered > 0 && ends[1].delivered > 0);
	CU_ASSERT_EQUAL(notes, 0);
}

/*
 * There is room for one part at a time: each is read, by a key of its own each time, and none is
 * deregistered while the peer reads it.
 */
static void test_keys_come_back(void)
{
	struct verbs_reads *reads = &ends[1].verbs.reads;

	readings_open();
	for (unsigned i = 0; i < PARTS; i++) {
		reads->parts[i].region = NULL;
		ends[1].registered[i] = false;
	}
	reads->most = VERBS_PART;
	for (unsigned turn = 0; turn < 10 * READS; turn++) {
		readings_turn();
		clock_ns += 10 * TURN_NS;
	}
	CU_ASSERT(ended > READS / 2);
	CU_ASSERT_EQUAL(failed, 0);
	for (unsigned i = 0; i < PARTS; i++)
		CU_ASSERT(began_of[i] > READS / 40);
	CU_ASSERT(deregistrations > 4);
	CU_ASSERT(registrations - deregistrations <= 2);
	CU_ASSERT_EQUAL(notes, 0);
	verbs_parts_close(reads);
	CU_ASSERT_EQUAL(registrations, deregistrations);
	CU_ASSERT_EQUAL(reads->registered, 0);
}

/* A part that somebody still reads stays, however long that takes. */
static void test_key_kept(void)
{
	struct verbs_reads *reads = &ends[1].verbs.reads;
	struct verbs_key key = {.part = 0};
	struct iovec part = {readings[0].to, VERBS_READ_MAX};
	uint32_t done;

	readings_open();
	for (unsigned i = 0; i < PARTS; i++) {
		reads->parts[i].region = NULL;
		ends[1].registered[i] = false;
	}
	reads->most = VERBS_PART;
	for (unsigned turn = 0; turn < READS && ends[0].reading_count == 0; turn++)
		readings_turn();
	CU_ASSERT_FATAL(ends[0].reading_count > 0 && registrations == 1);
	ends[0].reads_wait = true;
	clock_ns += SECOND / 2;
	while (ends[1].registered[key.part])
		key.part++;
	for (unsigned turn = 0; turn < READS; turn++) {
		CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1, key.part * VERBS_PART, &part, 1,
					     &done) == ROAM_EAGAIN);
		verbs_keys_serve(&ends[turn % ENDS].verbs);
		end_poll(&ends[0]);
		end_poll(&ends[1]);
		CU_ASSERT_FATAL(deregistrations == 0);
	}
	CU_ASSERT(atomic_load(&reads->leaving) != 0);
	CU_ASSERT_EQUAL(atomic_load(&ends[0].verbs.peers[1].back), atomic_load(&reads->leaving));
	CU_ASSERT(ends[0].reading_count < SLOTS);
	CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1,
				     (atomic_load(&reads->leaving) - 1) * VERBS_PART, &part, 1,
				     &done) == ROAM_EAGAIN);
	/* A key that the peer was not asked for, and one that this node has not. */
	CU_ASSERT(!verbs_key_take(&ends[1].verbs, &ends[1].verbs.peers[0], VERBS_GIVEN, &key));
	CU_ASSERT(!verbs_key_take(&ends[1].verbs, &ends[1].verbs.peers[0], VERBS_BACK, &key));
	ends[0].reads_wait = false;
	for (unsigned turn = 0; turn < READS; turn++) {
		verbs_onesided.reap(&ends[0].verbs);
		verbs_keys_serve(&ends[turn % ENDS].verbs);
		end_poll(&ends[0]);
		end_poll(&ends[1]);
	}
	CU_ASSERT_EQUAL(deregistrations, 1);
	CU_ASSERT_EQUAL(registrations, 2);
	verbs_parts_close(reads);
}

/* A key is told, too, that was wanted before its node knew that the two are connected. */
static void test_key_early(void)
{
	struct verbs_peer *peer = &ends[1].verbs.peers[0];
	struct iovec part = {readings[0].to, VERBS_READ_MAX};
	uint32_t done;

	readings_open();
	atomic_store(&peer->at, VERBS_JOINING);
	CU_ASSERT(verbs_onesided.get(&ends[0].verbs, 1, 0, &part, 1, &done) == ROAM_EAGAIN);
	for (unsigned turn = 0; turn < READS / 10; turn++) {
		end_poll(&ends[1]);
		verbs_keys_serve(&ends[1].verbs);
	}
	CU_ASSERT(!verbs_keys_serve(&ends[1].verbs));
	atomic_store(&peer->at, VERBS_READY);
	for (unsigned turn = 0; turn < READS; turn++)
		readings_turn();
	CU_ASSERT(began_of[0] > 0);
}

/* The nodes of a host share its memory. */
static void test_shares(void)
{
	struct verbs_reads *reads = &ends[0].verbs.reads;
	uint64_t alone, four;

	ends_open();
	verbs_reads_free(reads);
	CU_ASSERT(verbs_onesided.attach(&ends[0].verbs, ends[0].shared, SHARED) == ROAM_OK);
	alone = reads->most;
	verbs_reads_free(reads);
	ends[0].verbs.params.local = 4;
	CU_ASSERT(verbs_onesided.attach(&ends[0].verbs, ends[0].shared, SHARED) == ROAM_OK);
	four = reads->most;
	CU_ASSERT(four > alone / 5 && four < alone / 3);
}

/* The nodes join again what broke. */
static void join_turn(void)
{
	verbs_remote_serve(&ends[unit_below(&draw, ENDS)].verbs);
}

/*
 * A READ that fails ends those under way, and for a while all, but not the connection; then there
 * are READs again.  As often as they fail, queue pairs are made in measure.
 */
static void test_reads_fail(void)
{
	uint64_t start;
	uint32_t before;

	readings_open();
	for (unsigned turn = 0; turn < 100 * READS && ended < READS / 10; turn++)
		readings_turn();
	for (unsigned round = 0; round < 5; round++) {
		before = failed;
		ends[0].reads_fail = true;
		for (unsigned turn = 0; turn < READS; turn++)
			readings_turn();
		CU_ASSERT(failed > before && failed <= before + SLOTS);
		ends[0].reads_fail = false;
		for (unsigned turn = 0; turn < READS; turn++)
			readings_turn();
		CU_ASSERT(failed <= before + SLOTS);
		before = begun;
		for (unsigned turn = 0; turn < 10 * READS && begun < before + READS / 10; turn++) {
			readings_turn();
			join_turn();
		}
		CU_ASSERT(begun >= before + READS / 10);
	}
	CU_ASSERT(notes == 1 && lost_count == 0);
	CU_ASSERT(ends[0].remote_number == 5 && ends[1].remote_number == 5);
	CU_ASSERT(atomic_load(&ends[0].verbs.peers[1].at) == VERBS_READY);
	ends[0].reads_fail = true;
	for (start = clock_ns; clock_ns < start + SECOND;) {
		readings_turn();
		join_turn();
	}
	CU_ASSERT(ends[0].remote_number > 10 && ends[0].remote_number < 5 + 22);
}

/* ---------------------------------------------------------------------------------------- puts */

static struct put {
	uint64_t magic;
	uint32_t number;
	uint32_t parts;
	bool under_way;
	struct roam_put put[VERBS_PUT_PARTS];
	uint8_t bytes[VERBS_PUT_BYTES];
} putting[PLACES];
static uint8_t expected[SHARED];
static unsigned puts_come;

/* Whether these are the bytes of a put's message; then all its bytes have come before. */
static bool put_take(const struct end *end, const void *data, size_t bytes)
{
	const struct put *come = data;
	struct put *put;

	if (bytes < 64 || come->magic != PUTS)
		return false;
	put = &putting[come->number % PLACES];
	CU_ASSERT_FATAL(end == &ends[1] && put->under_way && put->number == come->number);
	for (unsigned i = 0; i < put->parts; i++) {
		CU_ASSERT(memcmp(end->shared + put->put[i].to, put->put[i].from,
				 put->put[i].bytes) == 0);
		memcpy(expected + put->put[i].to, put->put[i].from, put->put[i].bytes);
	}
	put->under_way = false;
	puts_come++;
	return true;
}

/* Bytes of one place, in stretches that do not touch each other. */
static void put_begin(unsigned number)
{
	struct put *put = &putting[number % PLACES];
	uint64_t part = unit_below(&draw, 2) * (PARTS - 1);
	uint64_t at = part * VERBS_PART + (number % PLACES) * 512;
	struct iovec message[] = {{put, 40}, {put, 24}};
	uint8_t *from = put->bytes;
	enum roam_err err;

	*put = (struct put){.magic = PUTS, .number = number};
	for (uint64_t end = at + 500; put->parts < VERBS_PUT_PARTS; put->parts++) {
		size_t some = 1 + unit_below(&draw, 60);

		at += 1 + unit_below(&draw, 20);
		if (at + some > end)
			break;
		for (size_t i = 0; i < some; i++)
			from[i] = (uint8_t)unit_random(&draw);
		put->put[put->parts] = (struct roam_put){at, from, some};
		at += some;
		from += some;
	}
	err = verbs_onesided.put(&ends[0].verbs, 1, put->put, put->parts, message, 2);
	CU_ASSERT_FATAL(err == ROAM_OK || err == ROAM_EAGAIN);
	put->under_way = err == ROAM_OK;
	puts_begun += put->under_way;
}

static void puts_turn(unsigned *number)
{
	readings_turn();
	join_turn();
	if (unit_below(&draw, 2) == 0 && !putting[*number % PLACES].under_way) {
		put_begin(*number);
		*number += putting[*number % PLACES].under_way;
	}
}

/* Runs until so many puts have come; after each `fails` of them one fails; 0: none. */
static void puts_run(unsigned fails)
{
	unsigned number = 0, next = fails;

	readings_open();
	memset(putting, 0, sizeof(putting));
	memcpy(expected, ends[1].shared, SHARED);
	puts_come = 0;
	for (unsigned turn = 0; turn < 500 * PUTS && puts_come < PUTS; turn++) {
		if (fails != 0 && puts_come >= next) {
			ends[0].puts_fail = true;
			next += fails;
		}
		puts_turn(&number);
	}
	CU_ASSERT(puts_come == PUTS);
	while (puts_come < puts_begun && number < 500 * PUTS) {
		end_poll(&ends[0]);
		end_poll(&ends[1]);
		join_turn();
		clock_ns += TURN_NS;
		number++;
	}
	CU_ASSERT_EQUAL(puts_come, puts_begun);
	CU_ASSERT(memcmp(expected, ends[1].shared, SHARED) == 0);
	CU_ASSERT(atomic_load(&ends[0].verbs.peers[1].at) == VERBS_READY && lost_count == 0);
}

static void test_puts(void)
{
	puts_run(0);
	CU_ASSERT(notes == 0 && ends[0].remote_number == 0);
	CU_ASSERT_EQUAL(atomic_load(&ends[1].verbs.peers[0].put_resent), 0);
}

static void test_puts_fail(void)
{
	puts_run(100);
	CU_ASSERT(notes == 1 && ends[0].remote_number > 3 &&
		  ends[0].remote_number == ends[1].remote_number);
	CU_ASSERT(atomic_load(&ends[1].verbs.peers[0].put_resent) > 3);
}

/* What is no put, or does not lie in one part. */
static void test_puts_wrong(void)
{
	static const struct roam_put wrong[][2] = {
		{{0, expected, VERBS_PUT_BYTES + 1}, {64, expected, 8}},
		{{0, expected, 8}, {VERBS_PART, expected, 8}},
		{{VERBS_PART - 4, expected, 8}, {0, expected, 8}},
		{{SHARED - 4, expected, 8}, {SHARED - 16, expected, 8}},
		{{0, expected, 0}, {64, expected, 8}},
		{{0, expected, VERBS_PUT_BYTES}, {4096, expected, 1}},
	};
	uint8_t bytes[VERBS_PUT_MESSAGE + 1] = {0};
	struct iovec message = {bytes, 64};

	ends_open();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CU_ASSERT_EQUAL(
			verbs_onesided.put(&ends[0].verbs, 1, wrong[i], 2, &message, 1),
			ROAM_EINVAL);
	message.iov_len = sizeof(bytes);
	CU_ASSERT_EQUAL(verbs_onesided.put(&ends[0].verbs, 1, &wrong[1][0], 1, &message, 1),
			ROAM_EINVAL);
	/* As it comes by message. */
	for (unsigned i = 0; i < 4; i++) {
		struct verbs_store store = {1, 8, {{i == 0 ? SHARED - 4 : 0, 8, 0}}};
		uint8_t come[sizeof(store) + 16];
		struct iovec found;

		store.message = i == 1 ? VERBS_PUT_MESSAGE + 1 : 8;
		store.count = i == 2 ? VERBS_PUT_PARTS + 1 : 1;
		memset(come, 7, sizeof(come));
		memcpy(come, &store, sizeof(store));
		CU_ASSERT(!verbs_put_store(&ends[0].verbs, (void *)come,
					   sizeof(come) - (i == 3), &found));
	}
}

/* The peers of node 0 whose memory a job lets its card read; it has 1 or 2 nodes on its host. */
static uint64_t chosen(unsigned hosts, unsigned seal, bool onesided, const char *faulty)
{
	static struct roami_job job;
	const struct roam_transport *by[ROAMI_NODES_MAX];
	struct roami_node_params params = {.me = 0, .nodes = ENDS};

	job.boot.hosts = hosts;
	job.boot.host[1] = hosts > 1;
	job.options.onesided = onesided;
	job.options.seal = seal;
	strcpy(job.options.transport, "verbs");
	strcpy(job.options.faulty, faulty);
	CU_ASSERT_FATAL(roami_job_transports(&job, &params, by));
	CU_ASSERT(by[0] == &roami_transport_verbs && by[1] == &roami_transport_verbs);
	CU_ASSERT_EQUAL(params.local, hosts > 1 ? 1 : 2);
	return params.read;
}

/* No layer lies between the card and the node that would not pass on what has landed. */
static void test_chosen(void)
{
	CU_ASSERT_EQUAL(chosen(1, ROAMI_SEAL_AUTO, true, ""), 2);
	CU_ASSERT_EQUAL(chosen(2, ROAMI_SEAL_OFF, true, ""), 2);
	CU_ASSERT_EQUAL(chosen(2, ROAMI_SEAL_AUTO, true, "drop=5%"), 2); /* it is not injected */
	CU_ASSERT_EQUAL(chosen(1, ROAMI_SEAL_AUTO, true, "drop=5%"), 0);
	CU_ASSERT_EQUAL(chosen(1, ROAMI_SEAL_AUTH, true, ""), 0);
	CU_ASSERT_EQUAL(chosen(2, ROAMI_SEAL_ENCRYPT, true, ""), 0);
	CU_ASSERT_EQUAL(chosen(1, ROAMI_SEAL_AUTO, false, ""), 0);
}

static CU_TestInfo tests[] = {
	{"cards read where nothing lies between them and the node", test_chosen},
	{"pages are read by their keys, where there are keys", test_reads},
	{"a read that fails ends reads for a while, not the connection", test_reads_fail},
	{"puts come whole, before their messages, each once", test_puts},
	{"puts that fail come by message, and nothing of them later", test_puts_fail},
	{"what is no put is refused", test_puts_wrong},
	{"keys come back before parts are deregistered", test_keys_come_back},
	{"a part that is read stays registered", test_key_kept},
	{"a key that is wanted early is told later", test_key_early},
	{"the nodes of a host share its memory", test_shares},
	{"malformed keys are refused", test_malformed_keys},
	{"messages come whole and in order, and no buffer is missing", test_messages},
	{"messages of one node alone come, too", test_one_way},
	{"a peer is lost that gives no sign of life", test_silence},
	{"a connection that fails is named, and its peer lost", test_broken},
	{"malformed parts are refused", test_malformed},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("verbs", tests, argc, argv);
}
