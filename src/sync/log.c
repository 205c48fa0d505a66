#include "sync/log.h"
#include "home/reach.h"

#include <string.h>

#include "msg/msg.h"
#include "page/race.h"
#include "sync/log_state.h"
#include "sync/notice_ring.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* Messages. */
enum { LOG_NOTICES, LOG_ASK };

/* On the wire: a header per writer, then its runs. */
struct notice_header {
	uint32_t writer;
	uint32_t count;
};

#define RUN_BYTES   sizeof(struct roami_run)
#define NOTICES_MAX (32u * 1024 / RUN_BYTES)
#define COMPACT_MIN 1024u

_Static_assert(sizeof(struct roami_run) == 32, "a run on the wire");

static struct roami_run *log_runs(struct roami_node *node, unsigned writer)
{
	roami_contract(writer < node->nodes);
	return (struct roami_run *)(void *)log_of(node)->runs[writer].items;
}

/* Index of the first run of `writer` with an interval beyond `since`; the lock is held. */
static size_t log_after(struct roami_node *node, unsigned writer, uint64_t since)
{
	const struct roami_run *runs = log_runs(node, writer);
	size_t low = log_of(node)->first[writer], high = log_of(node)->runs[writer].count;

	roami_contract(log_locked(node));
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (runs[middle].interval <= since)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---------------------------------------------------------------------------------- compaction */

bool roami_log_mark(uint8_t *bits, uint32_t page, uint32_t count)
{
	bool fresh = false;

	roami_contract(count > 0);
	for (uint32_t i = page; i < page + count; i++) {
		fresh |= (bits[i / 8] & 1u << i % 8) == 0;
		bits[i / 8] |= (uint8_t)(1u << i % 8);
	}
	return fresh;
}

/* Keeps only the newest notice of each page (rule 6.8); the lock is held. */
static void log_compact(struct roami_node *node, unsigned writer)
{
	struct roami_log *log = log_of(node);
	struct roami_vec *vec = &log->runs[writer];
	struct roami_run *runs = log_runs(node, writer);
	size_t first = log->first[writer], kept = vec->count;
	size_t bytes = (node->layout.pages + 7u) / 8;
	uint8_t *bits = roami_os_reserve(bytes);

	roami_contract(log_locked(node));
	if (bits == NULL)
		return;
	for (size_t i = vec->count; i-- > first;)
		if (roami_log_mark(bits, runs[i].page, runs[i].count))
			runs[--kept] = runs[i];
	roami_os_unmap(bits, bytes);
	memmove(runs, runs + kept, (vec->count - kept) * RUN_BYTES);
	vec->count -= kept;
	log->first[writer] = 0;
	log->compacted[writer] = vec->count;
}

/* ----------------------------------------------------------------------------------- inserting */

/* The lock is held. */
static void log_insert(struct roami_node *node, unsigned writer, const struct roami_run *run)
{
	struct roami_log *log = log_of(node);
	struct roami_vec *vec = &log->runs[writer];
	struct roami_run *slot = roami_os_vec_grow(vec, RUN_BYTES, 1);
	struct roami_run *first = log_runs(node, writer) + log->first[writer];

	roami_contract(log_locked(node));
	roami_contract(roami_log_run_fits(node, run));
	if (slot == NULL)
		roami_node_fail(node, "no memory for write notices");
	/* Nearly always at the end; notices of two grants may overtake each other. */
	while (slot > first && slot[-1].interval > run->interval) {
		slot[0] = slot[-1];
		slot--;
	}
	*slot = *run;
	vec->count++;
	if (vec->count - log->first[writer] >
	    2 * log->compacted[writer] + (COMPACT_MIN >> log->compact_sooner))
		log_compact(node, writer);
}

void roami_log_close_interval(struct roami_node *node, const struct roam_notice *notices,
			      size_t count)
{
	struct roami_log *log = log_of(node);
	unsigned me = node->me;
	uint64_t interval;

	roami_contract(roami_interval_entered(node));
	if (atomic_exchange(&release_of(node)->interval_due, 0) == 0 && count == 0)
		return;
	roami_spin_lock(node, &log->lock);
	roami_contract(log_sound(node) && log->seen.at[me] == log->clock.at[me]);
	interval = log->seen.at[me] + 1;
	for (size_t i = 0; i < count;) {
		struct roami_run run = {notices[i].page, 1, interval, notices[i].version,
					notices[i].ref};

		roami_contract(i == 0 || notices[i - 1].page < notices[i].page);
		roami_contract(notices[i].writer == me);
		for (i++; i < count && notices[i].page == run.page + run.count &&
			  notices[i].version == run.version &&
			  notices[i].ref.word == run.ref.word;
		     i++)
			run.count++;
		log_insert(node, me, &run);
		log_of(node)->notices->publish(node, &run);
	}
	log->seen.at[me] = interval;
	log->clock.at[me] = interval;
	roami_spin_unlock(&log->lock);
	ROAMI_COUNT(node->stats, intervals, 1);
}

bool roami_log_run_fits(struct roami_node *node, const struct roami_run *run)
{
	return run->page < node->layout.pages && run->count > 0 &&
	       run->count <= node->layout.pages - run->page;
}

static void log_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_log *log = log_of(node);
	const uint8_t *at = request->data, *end = at + request->bytes;

	roami_contract(roami_msg_polling(node));
	while (at < end) {
		struct notice_header header;

		if ((size_t)(end - at) < sizeof(header))
			roami_node_fail(node, "node %u sent malformed write notices",
					request->from);
		memcpy(&header, at, sizeof(header));
		at += sizeof(header);
		if (header.writer >= node->nodes || header.count > (size_t)(end - at) / RUN_BYTES)
			roami_node_fail(node, "node %u sent malformed write notices",
					request->from);
		roami_spin_lock(node, &log->lock);
		for (uint32_t i = 0; i < header.count; i++, at += RUN_BYTES) {
			struct roami_run run;

			memcpy(&run, at, RUN_BYTES);
			if (!roami_log_run_fits(node, &run))
				roami_node_fail(node, "node %u sent malformed write notices",
						request->from);
			if (run.interval > log->clock.at[header.writer])
				log_insert(node, header.writer, &run);
			if (log->notices->counts)
				ROAMI_COUNT(node->stats, notices_received, run.count);
		}
		roami_spin_unlock(&log->lock);
	}
}

/* ------------------------------------------------------------------------------------- sending */

/* Sends one writer's runs [at, end), at most NOTICES_MAX; returns how many.  The lock is held. */
static size_t log_send_some(struct roami_node *node, unsigned to, unsigned writer, size_t at,
			    size_t end)
{
	const struct roami_run *runs = log_runs(node, writer) + at;
	size_t count = end - at < NOTICES_MAX ? end - at : NOTICES_MAX;
	struct notice_header header = {writer, (uint32_t)count};
	struct roam_part parts[2] = {{&header, sizeof(header)}, {runs, count * RUN_BYTES}};

	roami_contract(log_locked(node));
	roami_contract(at < end && end <= log_of(node)->runs[writer].count);
	for (size_t i = 0; i < count; i++)
		ROAMI_COUNT(node->stats, notices_sent, runs[i].count);
	roami_msg_send(node, to, roami_type(node, ROAMI_ROOM_LOG, LOG_NOTICES), parts, 2);
	return count;
}

static void log_send_writer(struct roami_node *node, unsigned to, unsigned writer, uint64_t since)
{
	struct roami_log *log = log_of(node);
	size_t at, end;

	roami_contract(to < node->nodes);
	roami_spin_lock(node, &log->lock);
	at = log_after(node, writer, since);
	end = log->runs[writer].count;
	while (at < end)
		at += log_send_some(node, to, writer, at, end);
	roami_spin_unlock(&log->lock);
}

static void messages_ahead(struct roami_node *node, unsigned to, const struct roami_vclock *since,
			   const struct roami_vclock *upto, bool own_only)
{
	roami_contract(to < node->nodes);
	for (unsigned writer = 0; writer < node->nodes; writer++)
		if (writer != to && (!own_only || writer == node->me) &&
		    upto->at[writer] > since->at[writer])
			log_send_writer(node, to, writer, since->at[writer]);
}

void roami_log_ahead(struct roami_node *node, unsigned to, const struct roami_vclock *since,
		     const struct roami_vclock *upto, bool own_only)
{
	log_of(node)->notices->ahead(node, to, since, upto, own_only);
}

/* The parts of a leg, and what its clock says beyond `since`. */
struct log_leg {
	struct roam_part parts[4];
	unsigned count;
	struct roami_vclock_wire wire;
};

static void log_leg_make(struct roami_node *node, struct log_leg *leg,
			 const struct roami_vclock *since, const struct roami_vclock *upto,
			 const struct roam_part *parts, unsigned count)
{
	roami_assert(count < 4);
	for (unsigned i = 0; i < count; i++)
		leg->parts[i] = parts[i];
	leg->parts[count] = (struct roam_part){
		&leg->wire, roami_vclock_encode_beyond(upto, since, node->nodes, &leg->wire)};
	leg->count = count + 1;
}

void roami_log_send_upto(struct roami_node *node, unsigned to, const struct roami_vclock *since,
			 const struct roami_vclock *upto, unsigned type,
			 const struct roam_part *parts, unsigned count)
{
	struct log_leg leg;

	roami_log_ahead(node, to, since, upto, false);
	log_leg_make(node, &leg, since, upto, parts, count);
	roami_msg_send(node, to, type, leg.parts, leg.count);
}

void roami_log_send(struct roami_node *node, unsigned to, const struct roami_vclock *since,
		    unsigned type, const struct roam_part *parts, unsigned count)
{
	struct roami_vclock seen;

	roami_log_seen(node, &seen);
	roami_log_send_upto(node, to, since, &seen, type, parts, count);
}

void roami_log_reply(struct roami_node *node, const struct roam_request *request,
		     const struct roami_vclock *since, const struct roami_vclock *upto,
		     const struct roam_part *parts, unsigned count)
{
	struct log_leg leg;

	roami_log_ahead(node, request->origin, since, upto, false);
	log_leg_make(node, &leg, since, upto, parts, count);
	roami_reply(node, request, leg.parts, leg.count);
}

/* -------------------------------------------------------------------------------------- clocks */

void roami_log_saw(struct roami_node *node, const struct roami_vclock *clock)
{
	struct roami_log *log = log_of(node);

	roami_spin_lock(node, &log->lock);
	roami_vclock_merge(&log->seen, clock, node->nodes);
	roami_spin_unlock(&log->lock);
}

static void log_copy(struct roami_node *node, const struct roami_vclock *from,
		     struct roami_vclock *to)
{
	roami_spin_lock(node, &log_of(node)->lock);
	roami_vclock_copy(to, from, node->nodes);
	roami_spin_unlock(&log_of(node)->lock);
}

void roami_log_clock(struct roami_node *node, struct roami_vclock *clock_p)
{
	log_copy(node, &log_of(node)->clock, clock_p);
}

void roami_log_seen(struct roami_node *node, struct roami_vclock *seen_p)
{
	log_copy(node, &log_of(node)->seen, seen_p);
}

void roami_log_clocks(struct roami_node *node, struct roami_vclock *seen_p,
		      struct roami_vclock *clock_p)
{
	struct roami_log *log = log_of(node);

	roami_spin_lock(node, &log->lock);
	roami_contract(log_sound(node));
	roami_vclock_copy(seen_p, &log->seen, node->nodes);
	roami_vclock_copy(clock_p, &log->clock, node->nodes);
	roami_spin_unlock(&log->lock);
}

void roami_log_floor(struct roami_node *node, struct roami_vclock *floor_p)
{
	log_copy(node, &log_of(node)->floor, floor_p);
}

uint64_t roami_log_base(struct roami_node *node, struct roami_vclock *base_p)
{
	struct roami_log *log = log_of(node);
	uint64_t number;

	roami_spin_lock(node, &log->lock);
	roami_vclock_copy(base_p, &log->base, node->nodes);
	number = log->base_number;
	roami_spin_unlock(&log->lock);
	return number;
}

uint64_t roami_log_base_next(struct roami_node *node, const struct roami_vclock *base,
			     struct roami_vclock *before_p)
{
	struct roami_log *log = log_of(node);
	uint64_t number;

	roami_spin_lock(node, &log->lock);
	roami_vclock_copy(before_p, &log->base, node->nodes);
	roami_vclock_copy(&log->base, base, node->nodes);
	number = ++log->base_number;
	roami_spin_unlock(&log->lock);
	return number;
}

void roami_log_base_set(struct roami_node *node, const struct roami_vclock *base, uint64_t number)
{
	struct roami_log *log = log_of(node);

	roami_spin_lock(node, &log->lock);
	if (number > log->base_number) {
		roami_vclock_copy(&log->base, base, node->nodes);
		log->base_number = number;
	}
	roami_spin_unlock(&log->lock);
}

void roami_log_bases(struct roami_node *node, uint64_t number, struct roami_vclock *applied_p,
		     struct roami_vclock *seen_p)
{
	struct roami_log *log = log_of(node);
	bool same;

	roami_spin_lock(node, &log->lock);
	same = number == log->base_number;
	roami_vclock_copy(applied_p, same ? &log->base : &log->floor, node->nodes);
	if (seen_p != NULL)
		roami_vclock_copy(seen_p, same ? &log->base : &log->seen, node->nodes);
	roami_spin_unlock(&log->lock);
}

void roami_log_passed_on(struct roami_node *node, struct roami_vclock *clock_p)
{
	struct roami_log *log = log_of(node);

	roami_spin_lock(node, &log->lock);
	roami_vclock_copy(clock_p, &log->seen, node->nodes);
	if (roami_scoped(node)) {
		memset(clock_p, 0, sizeof(*clock_p));
		clock_p->at[node->me] = log->seen.at[node->me];
	}
	roami_spin_unlock(&log->lock);
}

void roami_log_met(struct roami_node *node, const struct roami_vclock *seen)
{
	struct roami_log *log = log_of(node);

	roami_spin_lock(node, &log->lock);
	roami_contract(roami_vclock_covers(&log->seen, seen, node->nodes));
	roami_vclock_merge(&log->met, seen, node->nodes);
	roami_spin_unlock(&log->lock);
}

void roami_log_reuse_clock(struct roami_node *node, struct roami_vclock *clock_p)
{
	struct roami_log *log = log_of(node);

	roami_spin_lock(node, &log->lock);
	roami_vclock_copy(clock_p, roami_scoped(node) ? &log->met : &log->clock, node->nodes);
	roami_spin_unlock(&log->lock);
}

static void messages_know(struct roami_node *node, unsigned peer, const struct roami_vclock *clock)
{
	struct roami_log *log = log_of(node);

	roami_contract(peer < node->nodes);
	roami_spin_lock(node, &log->lock);
	roami_vclock_merge(&log->known[peer], clock, node->nodes);
	roami_spin_unlock(&log->lock);
}

void roami_log_know(struct roami_node *node, unsigned peer, const struct roami_vclock *clock)
{
	log_of(node)->notices->know(node, peer, clock);
}

void roami_log_known(struct roami_node *node, unsigned peer, struct roami_vclock *clock_p)
{
	struct roami_log *log = log_of(node);

	roami_contract(peer < node->nodes);
	roami_spin_lock(node, &log->lock);
	roami_vclock_copy(clock_p, &log->known[peer], node->nodes);
	roami_spin_unlock(&log->lock);
}

/* ---------------------------------------------------------------------------------- collecting */

void roami_log_collect_run(struct roami_node *node, unsigned writer, const struct roami_run *run,
			   uint64_t upto)
{
	struct roam_notice *notices;

	roami_contract(roami_interval_entered(node));
	roami_contract(writer < node->nodes && writer != node->me);
	if (!roami_log_run_fits(node, run))
		roami_node_fail(node, "node %u published malformed write notices", writer);
	notices = roami_os_vec_grow(&release_of(node)->apply_work, sizeof(*notices), run->count);
	if (notices == NULL)
		roami_node_fail(node, "no memory for write notices");
	for (uint32_t i = 0; i < run->count; i++)
		notices[i] = (struct roam_notice){run->page + i, writer, run->version,
						  run->interval < upto ? run->interval : upto,
						  run->ref};
	release_of(node)->apply_work.count += run->count;
}

/*
 * What the log has of `writer` beyond `since`; also what lies beyond the target, for it may stand
 * for an older notice that compaction dropped.  The lock is held.
 */
static void log_collect_writer(struct roami_node *node, unsigned writer, uint64_t since,
			       uint64_t upto)
{
	roami_contract(log_locked(node));
	roami_contract(writer != node->me && since < upto);
	for (size_t i = log_after(node, writer, since); i < log_of(node)->runs[writer].count; i++)
		roami_log_collect_run(node, writer, &log_runs(node, writer)[i], upto);
}

/* Asks `writer` itself, whose log reaches further back than its ring. */
static void log_collect_asked(struct roami_node *node, unsigned writer, uint64_t since,
			      uint64_t upto)
{
	struct roami_log *log = log_of(node);
	struct roam_part part = {&since, sizeof(since)};

	roami_contract(roami_interval_entered(node));
	roami_contract(writer != node->me && since < upto);
	ROAMI_COUNT(node->stats, notices_asked, 1);
	roami_msg_call(node, writer, roami_type(node, ROAMI_ROOM_LOG, LOG_ASK), &part, 1, NULL, 0);
	roami_spin_lock(node, &log->lock);
	log_collect_writer(node, writer, since, upto);
	log->runs[writer].count = 0; /* of others nothing is kept */
	log->compacted[writer] = 0;
	roami_spin_unlock(&log->lock);
}

static void log_handle_ask(struct roami_node *node, const struct roam_request *request)
{
	uint64_t since;

	roami_contract(roami_msg_polling(node));
	if (request->bytes != sizeof(since))
		roami_node_fail(node, "node %u sent a malformed request for notices",
				request->from);
	memcpy(&since, request->data, sizeof(since));
	log_send_writer(node, request->from, node->me, since);
	roami_reply(node, request, NULL, 0);
}

/* Up to where to collect, and what was applied; the lock is held. */
static void log_target(struct roami_node *node, struct roami_vclock *target_p,
		       struct roami_vclock *clock_p)
{
	roami_contract(log_locked(node));
	release_of(node)->apply_work.count = 0;
	roami_vclock_copy(target_p, &log_of(node)->seen, node->nodes);
	roami_vclock_copy(clock_p, &log_of(node)->clock, node->nodes);
}

void roami_log_collect(struct roami_node *node, struct roami_vclock *target_p)
{
	roami_contract(roami_interval_entered(node));
	log_of(node)->notices->collect(node, target_p);
}

/* ---------------------------------------------------------------------------------- by messages */

/* Notices go with the legs of a sync, and the log keeps those of all writers. */
static void messages_publish(struct roami_node *node, const struct roami_run *run)
{
	roami_contract(log_locked(node) && roami_log_run_fits(node, run));
	(void)node, (void)run;
}

static void messages_collect(struct roami_node *node, struct roami_vclock *target_p)
{
	struct roami_vclock clock;

	roami_spin_lock(node, &log_of(node)->lock);
	log_target(node, target_p, &clock);
	for (unsigned writer = 0; writer < node->nodes; writer++)
		if (writer != node->me && target_p->at[writer] > clock.at[writer])
			log_collect_writer(node, writer, clock.at[writer], target_p->at[writer]);
	roami_spin_unlock(&log_of(node)->lock);
}

const struct roami_notices roami_notices_messages = {
	.publish = messages_publish,
	.counts = true,
	.ahead = messages_ahead,
	.know = messages_know,
	.collect = messages_collect,
};

/* ---------------------------------------------------------------------------- in shared memory */

/* Nothing to send: an acquiring node reads notices from the segments of their writers. */
static void ring_ahead(struct roami_node *node, unsigned to, const struct roami_vclock *since,
		       const struct roami_vclock *upto, bool own_only)
{
	(void)node, (void)to, (void)since, (void)upto, (void)own_only;
}

static void ring_know(struct roami_node *node, unsigned peer, const struct roami_vclock *clock)
{
	(void)node, (void)peer, (void)clock;
}

static void ring_collect(struct roami_node *node, struct roami_vclock *target_p)
{
	struct roami_vclock clock;

	roami_spin_lock(node, &log_of(node)->lock);
	log_target(node, target_p, &clock);
	roami_spin_unlock(&log_of(node)->lock);
	for (unsigned writer = 0; writer < node->nodes; writer++)
		if (writer != node->me && target_p->at[writer] > clock.at[writer] &&
		    !roami_notice_ring_read(node, writer, clock.at[writer], target_p->at[writer]))
			log_collect_asked(node, writer, clock.at[writer], target_p->at[writer]);
	ROAMI_COUNT(node->stats, notices_received, release_of(node)->apply_work.count);
}

const struct roami_notices roami_notices_ring = {
	.publish = roami_notice_ring_add,
	.ahead = ring_ahead,
	.know = ring_know,
	.collect = ring_collect,
};

/* ------------------------------------------------------------------------------------ intervals */

uint64_t roami_interval(struct roami_node *node)
{
	struct roami_log *log = log_of(node);
	uint64_t interval;

	roami_spin_lock(node, &log->lock);
	interval = log->seen.at[node->me] + 1;
	roami_spin_unlock(&log->lock);
	return interval;
}

bool roami_log_fresh(struct roami_node *node)
{
	struct roami_log *log = log_of(node);
	bool fresh;

	roami_spin_lock(node, &log->lock);
	roami_contract(log_sound(node));
	fresh = roami_vclock_covers(&log->clock, &log->seen, node->nodes);
	roami_spin_unlock(&log->lock);
	return fresh;
}

void roami_log_applied(struct roami_node *node, const struct roami_vclock *target)
{
	struct roami_log *log = log_of(node);

	roami_contract(roami_interval_entered(node));
	roami_spin_lock(node, &log->lock);
	roami_vclock_merge(&log->clock, target, node->nodes);
	roami_contract(log_sound(node));
	roami_spin_unlock(&log->lock);
}

void roami_log_trim(struct roami_node *node, const struct roami_vclock *floor)
{
	struct roami_log *log = log_of(node);

	roami_spin_lock(node, &log->lock);
	roami_contract(log_sound(node) && roami_vclock_covers(&log->clock, floor, node->nodes));
	roami_vclock_merge(&log->floor, floor, node->nodes);
	for (unsigned writer = 0; writer < node->nodes; writer++) {
		struct roami_vec *vec = &log->runs[writer];

		if (vec->count == 0)
			continue;
		log->first[writer] = log_after(node, writer, floor->at[writer]);
		if (log->first[writer] == vec->count) {
			vec->count = 0;
			log->first[writer] = 0;
			log->compacted[writer] = 0;
		}
	}
	roami_spin_unlock(&log->lock);
}

static enum roam_err log_init(struct roami_node *node, const struct roami_node_params *params)
{
	(void)params;
	log_of(node)->notices = &roami_notices_messages;
	if (node->nodes > 1)
		log_of(node)->notices = roami_reach_choose(node, &roami_notices_ring,
							   &roami_notices_messages);
	roami_race_clock_by(node, roami_log_clock);
	return ROAM_OK;
}

static void log_fini(struct roami_node *node)
{
	for (unsigned writer = 0; writer < ROAMI_NODES_MAX; writer++)
		roami_os_vec_free(&log_of(node)->runs[writer], RUN_BYTES);
}

static const struct roam_message log_messages[] = {
	[LOG_NOTICES] = {"notices", log_handle, ROAMI_MSG_MAX},
	[LOG_ASK] = {"notices ask", log_handle_ask, 8},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_log = {
	.name = "log",
	.state_size = sizeof(struct roami_log),
	.messages = log_messages,
	.init = log_init,
	.fini = log_fini,
};
