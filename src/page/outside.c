#include "page/outside.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/region.h"
#include "fault/signals.h"
#include "msg/msg.h"
#include "os/os.h"
#include "page/page.h"
#include "page/race.h"

#define REPORTS_MAX 20u

/* The last diff of a writer whose page was first written outside of any section. */
struct outside_diff {
	uint64_t interval;
	uint64_t code;
};

/* Where a page was written, and where it was read. */
struct outside_pair {
	uint64_t wrote, read;
};

struct roami_outside {
	struct roami_spin lock;
	struct roami_vclock shown; /* this node's clock, when more than a lock last set it */
	uint32_t report_count;
	struct outside_pair reports[REPORTS_MAX];
	struct outside_diff diffs[]; /* per page and writer */
};

/* What a message begins with; the reader's clock and what more than locks has shown it follow. */
struct outside_read {
	uint32_t page;
	uint32_t spare;
	uint64_t code;
};

_Static_assert(ROAMI_OUTSIDE_BYTES_MAX == sizeof(struct outside_read) + 2 * ROAMI_VCLOCK_BYTES_MAX,
	       "as its message has it");

static struct roami_outside *outside_of(const struct roami_node *node)
{
	return races_of(node)->outside;
}

static size_t outside_bytes(const struct roami_node *node)
{
	return sizeof(struct roami_outside) +
	       (size_t)node->layout.pages * ROAMI_NODES_MAX * sizeof(struct outside_diff);
}

enum roam_err roami_outside_init(struct roami_node *node)
{
	if (!roami_outside_wanted(node))
		return ROAM_OK;
	races_of(node)->outside = roami_os_reserve_sparse(outside_bytes(node));
	return outside_of(node) == NULL ? ROAM_ENOMEM : ROAM_OK;
}

void roami_outside_fini(struct roami_node *node)
{
	roami_os_unmap(outside_of(node), outside_bytes(node));
}

void roami_outside_shown(struct roami_node *node)
{
	struct roami_outside *outside = outside_of(node);
	struct roami_vclock clock;

	if (outside == NULL)
		return;
	roami_race_clock(node, &clock);
	roami_spin_lock(node, &outside->lock);
	roami_vclock_copy(&outside->shown, &clock, node->nodes);
	roami_spin_unlock(&outside->lock);
}

void roami_outside_wrote(struct roami_node *node, uint32_t page, unsigned writer,
			 uint64_t interval, uint64_t code)
{
	roami_contract_locked(node, page);
	roami_contract(writer < node->nodes);
	if (outside_of(node) == NULL || (code & ROAMI_OUTSIDE_CODE) == 0)
		return;
	outside_of(node)->diffs[(size_t)page * ROAMI_NODES_MAX + writer] =
		(struct outside_diff){interval, code & ~ROAMI_OUTSIDE_CODE};
}

/* Whether the pair of codes is the first of its kind. */
static bool outside_new(struct roami_node *node, const struct outside_pair *pair)
{
	struct roami_outside *outside = outside_of(node);
	uint32_t i = 0;
	bool known;

	roami_spin_lock(node, &outside->lock);
	while (i < outside->report_count &&
	       memcmp(&outside->reports[i], pair, sizeof(*pair)) != 0)
		i++;
	known = i < outside->report_count || i == REPORTS_MAX;
	if (!known)
		outside->reports[outside->report_count++] = *pair;
	roami_spin_unlock(&outside->lock);
	return !known;
}

static void outside_report(struct roami_node *node, uint32_t page, unsigned writer,
			   unsigned reader, const struct outside_pair *pair)
{
	char line[900], name[ROAMI_RACE_NAME_BYTES];
	char wrote[ROAMI_OS_POSITION_BYTES], read[ROAMI_OS_POSITION_BYTES];
	int length;

	roami_contract(writer != reader);
	roami_race_code_text(node, pair->wrote, wrote);
	roami_race_code_text(node, pair->read, read);
	if (wrote[0] == '\0' || read[0] == '\0' || !outside_new(node, pair))
		return;
	roami_race_name(node, (uint64_t)page * ROAMI_PAGE, name, sizeof(name));
	length = snprintf(line, sizeof(line),
			  "roam: scope: page %p%s was written by node %u outside of a section, at "
			  "%s, and only locks have shown that to node %u, which reads it at %s\n",
			  (void *)(node->app + (uint64_t)page * ROAMI_PAGE), name, writer, wrote,
			  reader, read);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

/* Looks for diffs that this node has noted, which the reader has seen by locks alone. */
static void outside_look(struct roami_node *node, const struct outside_read *what, unsigned reader,
			 const struct roami_vclock *clock, const struct roami_vclock *shown)
{
	for (unsigned writer = 0; writer < node->nodes; writer++) {
		struct outside_diff diff;
		struct outside_pair pair;

		roami_page_lock(node, what->page);
		diff = outside_of(node)->diffs[(size_t)what->page * ROAMI_NODES_MAX + writer];
		roami_page_unlock(node, what->page);
		pair = (struct outside_pair){diff.code, what->code};
		if (writer != reader && diff.interval > shown->at[writer] &&
		    diff.interval <= clock->at[writer])
			outside_report(node, what->page, writer, reader, &pair);
	}
}

void roami_outside_read_now(struct roami_node *node, uint32_t page)
{
	struct roami_races *races = races_of(node);
	struct outside_read what = {.page = page};
	struct roami_vclock clock, shown;
	struct roami_vclock_wire wires[2];
	struct roam_part parts[3] = {{&what, sizeof(what)}, {&wires[0], 0}, {&wires[1], 0}};
	uintptr_t code;

	if (races->outside == NULL || !roami_region_of(node, page)->protocol->checks_races)
		return;
	code = roami_signals_code(races->text, races->text_end);
	what.code = roami_race_code(node, (const void *)code); /* NOLINT: an address */
	roami_race_clock(node, &clock);
	roami_spin_lock(node, &races->outside->lock);
	roami_vclock_copy(&shown, &races->outside->shown, node->nodes);
	roami_spin_unlock(&races->outside->lock);
	parts[1].bytes = roami_vclock_encode(&clock, NULL, node->nodes, &wires[0]);
	parts[2].bytes = roami_vclock_encode(&shown, NULL, node->nodes, &wires[1]);
	outside_look(node, &what, node->me, &clock, &shown);
	for (unsigned i = 0; i < node->nodes; i++)
		if (i != node->me)
			roami_msg_call(node, i, roami_race_outside_type(node), parts, 3, NULL, 0);
}

void roami_outside_handle(struct roami_node *node, const struct roam_request *request)
{
	struct outside_read what = {.page = UINT32_MAX};
	const uint8_t *at = request->data, *end = at + request->bytes;
	struct roami_vclock clocks[2];
	size_t bytes = 1;

	memset(clocks, 0, sizeof(clocks));
	if (request->bytes >= sizeof(what)) {
		memcpy(&what, at, sizeof(what));
		at += sizeof(what);
	}
	for (unsigned i = 0; i < 2 && bytes > 0; i++) {
		bytes = roami_vclock_decode(&clocks[i], node->nodes, at, (size_t)(end - at));
		at += bytes;
	}
	if (bytes == 0 || at != end || outside_of(node) == NULL ||
	    what.page >= node->layout.pages)
		roami_node_fail(node, "node %u told of a load in a malformed message",
				request->from);
	outside_look(node, &what, request->origin, &clocks[0], &clocks[1]);
	roami_reply(node, request, NULL, 0);
}
