/* What nodes wait for, in words. */
#include <stdio.h>

#include "boot/local.h"
#include "core/sync.h"

/* By enum roam_sync_kind. */
static const char *const waits_kinds[] = {"in lock ",      "at barrier ", "for flag ",
					  "in reduction ", "in create ",  "at the end ",
					  "for condition "};

#define KINDS (sizeof(waits_kinds) / sizeof(waits_kinds[0]))

static bool waits_counted(uint32_t kind)
{
	return kind == ROAM_SYNC_BARRIER + 1 || kind == ROAM_SYNC_REDUCE + 1;
}

/* Threads of all nodes that wait for the same. */
static unsigned waits_arrived(const struct roami_ctl *const *ctls, unsigned nodes, uint32_t kind,
			      uint64_t id)
{
	unsigned count = 0;

	for (unsigned node = 0; node < nodes; node++)
		for (unsigned i = 0; ctls[node] != NULL && i < ROAMI_WAITS_MAX; i++)
			count += atomic_load(&ctls[node]->waits[i].kind) == kind &&
				 atomic_load(&ctls[node]->waits[i].id) == id;
	return count;
}

/* By enum roami_tuple_wait. */
static const char *const waits_tuples[] = {"to enter", "to move to", "to observe a tuple of",
					   "in a mob of", "for"};

#define TUPLES (sizeof(waits_tuples) / sizeof(waits_tuples[0]))

static void waits_tuple(const struct roami_ctl *const *ctls, unsigned nodes,
			const struct roami_waiting *waiting, char *text, size_t bytes)
{
	uint32_t of = atomic_load(&waiting->of), what = of & ROAMI_TUPLE_WHAT;
	unsigned participants = of >> ROAMI_TUPLE_PARTICIPANTS;
	uint64_t label[ROAMI_LABEL_WORDS + 1] = {0};
	int used;

	for (unsigned i = 0; i < ROAMI_LABEL_WORDS; i++)
		label[i] = atomic_load(&waiting->label[i]);
	what = what < TUPLES ? what : ROAMI_TUPLE_OTHER;
	used = snprintf(text, bytes, "%s element %s", waits_tuples[what], (const char *)label);
	if (participants != 0 && (size_t)used < bytes)
		snprintf(text + used, bytes - (size_t)used, " (%u of %u participants wait)",
			 waits_arrived(ctls, nodes, ROAMI_WAITS_TUPLE, atomic_load(&waiting->id)),
			 participants);
}

bool roami_boot_wait(const struct roami_ctl *const *ctls, unsigned nodes,
		     const struct roami_waiting *waiting, char *text, size_t bytes)
{
	uint32_t kind = atomic_load(&waiting->kind), of = atomic_load(&waiting->of);
	uint64_t id = atomic_load(&waiting->id);
	char what[ROAMI_SYNC_NAME_BYTES];

	if (kind == ROAMI_WAITS_TUPLE)
		waits_tuple(ctls, nodes, waiting, text, bytes);
	if (kind == 0 || kind > KINDS)
		return kind == ROAMI_WAITS_TUPLE;
	roami_sync_name(id, waits_kinds[kind - 1], what);
	if (waits_counted(kind))
		snprintf(text, bytes, "%s (%u of %u threads arrived)", what,
			 waits_arrived(ctls, nodes, kind, id), of);
	else
		snprintf(text, bytes, "%s", what);
	return true;
}

void roami_boot_waits(const struct roami_ctl *const *ctls, unsigned nodes, char *text,
		      size_t bytes)
{
	char what[ROAMI_WAIT_BYTES];
	size_t used = 0;

	text[0] = '\0';
	for (unsigned node = 0; node < nodes; node++)
		for (unsigned i = 0; ctls[node] != NULL && i < ROAMI_WAITS_MAX && used < bytes; i++)
			if (roami_boot_wait(ctls, nodes, &ctls[node]->waits[i], what, sizeof(what)))
				used += (size_t)snprintf(text + used, bytes - used,
							 "%s node %u waited %s",
							 used == 0 ? ";" : ",", node, what);
}
