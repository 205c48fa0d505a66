/* What nodes wait for, in words. */
#include <stdio.h>

#include "boot/local.h"
#include "core/sync.h"

/* By enum roam_sync_kind. */
static const char *const waits_kinds[] = {"in lock ",      "at barrier ", "for flag ",
					  "in reduction ", "in create ",  "at the end ",
					  "for condition "};

void roami_boot_waits(const struct roami_ctl *const *ctls, unsigned nodes, char *text,
		      size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned node = 0; node < nodes && used < bytes; node++) {
		uint32_t kind = ctls[node] != NULL ? atomic_load(&ctls[node]->wait_kind) : 0;
		char what[ROAMI_SYNC_NAME_BYTES];

		if (kind == 0 || kind > sizeof(waits_kinds) / sizeof(waits_kinds[0]))
			continue;
		roami_sync_name(atomic_load(&ctls[node]->wait_id), waits_kinds[kind - 1], what);
		used += (size_t)snprintf(text + used, bytes - used, "%s node %u waited %s",
					 used == 0 ? ";" : ",", node, what);
	}
}
