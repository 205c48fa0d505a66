#include "sync/scope.h"

#include <string.h>

#include "msg/msg.h"
#include "sync/log.h"
#include "sync/log_state.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* In a list and on the wire. */
struct roami_scope_notice {
	uint64_t number;
	uint32_t writer;
	uint32_t spare;
	struct roami_run run;
};

#define NOTICE_BYTES sizeof(struct roami_scope_notice)
#define SEND_MAX     (32u * 1024 / NOTICE_BYTES)
#define COMPACT_MIN  32u

_Static_assert(NOTICE_BYTES == 48, "a lock's notice on the wire");

static struct roami_scope_notice *scope_items(const struct roami_scope *scope)
{
	return (struct roami_scope_notice *)(void *)scope->notices.items;
}

void roami_scope_fini(struct roami_scope *scope)
{
	roami_os_vec_free(&scope->notices, NOTICE_BYTES);
}

static void scope_add(struct roami_node *node, struct roami_scope *scope,
		      const struct roami_scope_notice *notice)
{
	struct roami_scope_notice *slot = roami_os_vec_grow(&scope->notices, NOTICE_BYTES, 1);

	roami_contract(notice->number > scope->number && notice->writer < node->nodes);
	if (slot == NULL)
		roami_node_fail(node, "no memory for the notices of a lock");
	*slot = *notice;
	scope->notices.count++;
	scope->number = notice->number;
}

/* --------------------------------------------------------------------------------- the section */

void roami_scope_enter(struct roami_node *node, struct roami_scope *scope)
{
	struct roami_vclock seen;

	roami_contract(roami_scoped(node));
	roami_contract(scope->applied == scope->number);
	roami_log_seen(node, &seen);
	scope->since = seen.at[node->me];
}

/* Keeps the newest notice of each page, and none that every node has applied. */
static void scope_compact(struct roami_node *node, struct roami_scope *scope)
{
	struct roami_scope_notice *items = scope_items(scope);
	size_t count = scope->notices.count, kept = count, bytes = (node->layout.pages + 7u) / 8;
	uint8_t *bits = roami_os_reserve(bytes);

	roami_contract(log_locked(node));
	if (bits == NULL)
		return;
	for (size_t i = count; i-- > 0;)
		if (items[i].run.interval > log_of(node)->floor.at[items[i].writer] &&
		    roami_log_mark(bits, items[i].run.page, items[i].run.count))
			items[--kept] = items[i];
	roami_os_unmap(bits, bytes);
	memmove(items, items + kept, (count - kept) * NOTICE_BYTES);
	scope->notices.count -= kept;
	scope->compacted = scope->notices.count;
}

void roami_scope_leave(struct roami_node *node, struct roami_scope *scope)
{
	struct roami_log *log = log_of(node);
	const struct roami_run *runs;
	size_t at;

	roami_contract(roami_scoped(node) && scope->applied <= scope->number);
	roami_spin_lock(node, &log->lock);
	runs = (const void *)log->runs[node->me].items;
	at = log->runs[node->me].count;
	while (at > log->first[node->me] && runs[at - 1].interval > scope->since)
		at--;
	for (; at < log->runs[node->me].count; at++) {
		struct roami_scope_notice notice = {scope->number + 1, node->me, 0,
						    runs[at]};

		scope_add(node, scope, &notice);
	}
	if (scope->notices.count >
	    2 * scope->compacted + (COMPACT_MIN >> log_of(node)->compact_sooner))
		scope_compact(node, scope);
	roami_spin_unlock(&log->lock);
	scope->applied = scope->number;
}

/* ------------------------------------------------------------------------------- with the token */

/* The first notice beyond `number`. */
static size_t scope_after(const struct roami_scope *scope, uint64_t number)
{
	const struct roami_scope_notice *items = scope_items(scope);
	size_t at = scope->notices.count;

	while (at > 0 && items[at - 1].number > number)
		at--;
	return at;
}

void roami_scope_send(struct roami_node *node, unsigned to, unsigned type, uint64_t id,
		      const struct roami_scope *scope, uint64_t number)
{
	const struct roami_scope_notice *items = scope_items(scope);
	size_t at = scope_after(scope, number), end = scope->notices.count;

	roami_contract(to < node->nodes && to != node->me);
	while (at < end) {
		size_t count = end - at < SEND_MAX ? end - at : SEND_MAX;
		struct roam_part parts[2] = {{&id, sizeof(id)}, {items + at, count * NOTICE_BYTES}};

		for (size_t i = at; i < at + count; i++)
			ROAMI_COUNT(node->stats, notices_sent, items[i].run.count);
		roami_msg_send(node, to, type, parts, 2);
		at += count;
	}
}

void roami_scope_learn(struct roami_node *node, struct roami_scope *scope,
		       const struct roam_request *request, size_t at)
{
	const uint8_t *data = request->data;

	roami_contract(roami_msg_polling(node));
	if ((request->bytes - at) % NOTICE_BYTES != 0)
		roami_node_fail(node, "node %u sent malformed notices", request->from);
	for (; at < request->bytes; at += NOTICE_BYTES) {
		struct roami_scope_notice notice;

		memcpy(&notice, data + at, NOTICE_BYTES);
		if (notice.number <= scope->number || notice.writer >= node->nodes ||
		    !roami_log_run_fits(node, &notice.run))
			roami_node_fail(node, "node %u sent malformed notices", request->from);
		scope_add(node, scope, &notice);
		ROAMI_COUNT(node->stats, notices_received, notice.run.count);
	}
}

void roami_scope_collect(struct roami_node *node, struct roami_scope *scope)
{
	const struct roami_scope_notice *items = scope_items(scope);

	roami_contract(roami_interval_entered(node));
	roami_contract(scope->applied <= scope->number);
	release_of(node)->apply_work.count = 0;
	for (size_t i = scope_after(scope, scope->applied); i < scope->notices.count; i++)
		if (items[i].writer != node->me)
			roami_log_collect_run(node, items[i].writer, &items[i].run,
					      items[i].run.interval);
	scope->applied = scope->number;
}
