/*
 * Clocks as they come from a peer: whatever the bytes, nothing is read or written beyond them, what
 * is refused changes nothing, and what is taken is encoded as it was.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/vclock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct roami_vclock base, clock;
	struct roami_vclock_wire wire;
	unsigned nodes = size > 0 ? data[0] % (ROAMI_NODES_MAX + 1) : 0;
	size_t used, bytes = size > 0 ? size - 1 : 0;
	uint8_t *copy = malloc(bytes);

	if (size == 0 || (bytes > 0 && copy == NULL))
		return free(copy), 0;
	memcpy(copy, data + 1, bytes);
	memset(&base, 0x5a, sizeof(base));
	clock = base;
	used = roami_vclock_decode(&clock, nodes, copy, bytes);
	if (used == 0 && memcmp(&clock, &base, sizeof(clock)) != 0)
		abort();
	if (used > bytes || memcmp(&clock.at[nodes], &base.at[nodes],
				   (ROAMI_NODES_MAX - nodes) * sizeof(clock.at[0])) != 0)
		abort();
	if (used > 0 && roami_vclock_encode(&clock, &base, nodes, &wire) > used)
		abort();
	free(copy);
	return 0;
}
