/* What nodes wait for, in words. */
#include <stdio.h>
#include <string.h>

#include "job/local.h"
#include "sync/sync.h"

/* By enum roam_sync_kind. */
static const char *const waits_kinds[] = {"in lock ",      "at barrier ", "for flag ",
					  "in reduction ", "in create ",  "at the end ",
					  "for condition ", "in roam_tx "};

#define KINDS (sizeof(waits_kinds) / sizeof(waits_kinds[0]))

static bool waits_counted(uint32_t kind)
{
	return kind == ROAM_SYNC_BARRIER + 1 || kind == ROAM_SYNC_REDUCE + 1;
}

/* Threads of all nodes that wait for one object. */
static unsigned waits_arrived(const struct roami_ctl *const *ctls, unsigned nodes, uint32_t kind,
			      uint64_t id)
{
	unsigned count = 0;

	for (unsigned node = 0; node < nodes; node++)
		for (unsigned i = 0; ctls[node] != NULL && i < atomic_load(&ctls[node]->seats); i++)
			count += atomic_load(&ctls[node]->waits[i].kind) == kind &&
				 atomic_load(&ctls[node]->waits[i].id) == id;
	return count;
}

/* By enum roami_tuple_wait. */
static const char *const waits_tuples[] = {"to enter", "to move to", "to observe a tuple of",
					   "in a mob of", "for"};

#define TUPLES (sizeof(waits_tuples) / sizeof(waits_tuples[0]))

static void waits_tuple(const struct roami_ctl *const *ctls, unsigned nodes,
			const struct roami_wait_group *group, char *text, size_t bytes)
{
	uint32_t what = group->of & ROAMI_TUPLE_WHAT;
	unsigned participants = group->of >> ROAMI_TUPLE_PARTICIPANTS;
	uint64_t label[ROAMI_LABEL_WORDS + 1] = {0};
	int used;

	memcpy(label, group->label, sizeof(group->label));
	what = what < TUPLES ? what : ROAMI_TUPLE_OTHER;
	used = snprintf(text, bytes, "%s element %s%s", waits_tuples[what], (const char *)label,
			(group->of & ROAMI_TUPLE_SERVER) != 0 ? " at a server" : "");
	if (participants != 0 && (size_t)used < bytes)
		snprintf(text + used, bytes - (size_t)used, " (%u of %u participants wait)",
			 waits_arrived(ctls, nodes, ROAMI_WAITS_TUPLE, group->id), participants);
}

void roami_boot_wait(const struct roami_ctl *const *ctls, unsigned nodes,
		     const struct roami_wait_group *group, char *text, size_t bytes)
{
	char what[ROAMI_SYNC_NAME_BYTES];
	size_t used = 0;

	text[0] = '\0';
	if (group->threads > 1)
		used = (size_t)snprintf(text, bytes, "in %u threads ", group->threads);
	if (group->kind == ROAMI_WAITS_TUPLE) {
		waits_tuple(ctls, nodes, group, text + used, bytes - used);
		return;
	}
	if (group->kind == ROAMI_WAITS_DP)
		snprintf(text + used, bytes - used, "%s endpoint %u%s",
			 group->id % 2 != 0 ? "to send to" : "to receive at",
			 (unsigned)(group->id / 2),
			 (group->of & ROAMI_WAITS_ENDS) != 0 ? " until a time" : "");
	if (group->kind == ROAMI_WAITS_ANSWER)
		snprintf(text + used, bytes - used, "for a page or an answer of another node");
	if (group->kind == ROAMI_WAITS_HOLD)
		snprintf(text + used, bytes - used, "in roam_tx for its thread %u to stop",
			 (unsigned)group->id);
	if (group->kind == ROAMI_WAITS_STORE)
		snprintf(text + used, bytes - used, "for the page server%s",
			 group->id != 0 ? "'s disk" : "");
	if (group->kind == 0 || group->kind > KINDS)
		return;
	roami_sync_name(group->id, waits_kinds[group->kind - 1], what);
	if (waits_counted(group->kind))
		snprintf(text + used, bytes - used, "%s (%u of %u threads arrived)", what,
			 waits_arrived(ctls, nodes, group->kind, group->id), group->of);
	else
		snprintf(text + used, bytes - used, "%s%s", what,
			 (group->of & ROAMI_WAITS_ENDS) != 0 ? " until a time" : "");
}

/*
 * Appends what one node's threads wait for to `text`, which has `used` bytes; returns the new
 * number.
 */
static size_t waits_node(const struct roami_ctl *const *ctls, unsigned nodes, unsigned node,
			 char *text, size_t bytes, size_t used)
{
	struct roami_wait_group groups[ROAMI_WAIT_GROUPS];
	unsigned waiting, count = roami_wait_groups(ctls[node], groups, &waiting);
	char what[ROAMI_WAIT_BYTES];

	for (unsigned i = 0; i < count && used < bytes; i++) {
		roami_boot_wait(ctls, nodes, &groups[i], what, sizeof(what));
		used += (size_t)snprintf(text + used, bytes - used, "%s node %u waited %s",
					 used == 0 ? ";" : ",", node, what);
	}
	return used;
}

/* Whether a thread waits for an object that its program or a library has as a static. */
static bool waits_named(const struct roami_waiting *waiting, char position[ROAMI_OS_POSITION_BYTES])
{
	uint32_t kind = atomic_load(&waiting->kind);
	uint64_t id = atomic_load(&waiting->id);

	if (kind == 0 || kind > KINDS || id < ROAMI_SYNCED_OWN)
		return false;
	roami_os_position((const void *)id, position); /* NOLINT: an address */
	return position[0] != '0';
}

void roami_boot_positions(const struct roami_ctl *ctl, char *text, size_t bytes)
{
	char position[ROAMI_OS_POSITION_BYTES], what[ROAMI_OS_POSITION_BYTES + 30];
	size_t used = strlen(text);

	for (unsigned i = 0; i < atomic_load(&ctl->seats); i++) {
		if (!waits_named(&ctl->waits[i], position))
			continue;
		snprintf(what, sizeof(what), "%#llx is %s",
			 (unsigned long long)atomic_load(&ctl->waits[i].id), position);
		if (strstr(text, what) == NULL && used + strlen(what) + 3 < bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%s %s",
						 used == 0 ? ";" : ",", what);
	}
}

void roami_boot_waits(const struct roami_ctl *const *ctls, unsigned nodes, char *text,
		      size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned node = 0; node < nodes && used < bytes; node++)
		if (ctls[node] != NULL)
			used = waits_node(ctls, nodes, node, text, bytes, used);
}
