/* Bytes in several parts (struct iovec): how many they are, and reading them in pieces. */
#ifndef ROAMI_GATHER_H
#define ROAMI_GATHER_H

#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

/* Where a reader is: {parts, 0} at first. */
struct roami_gather {
	const struct iovec *part;
	size_t at;
};

static inline size_t roami_gather_bytes(const struct iovec *parts, unsigned count)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += parts[i].iov_len;
	return bytes;
}

/* The next bytes, of which the parts have at least so many. */
static inline void roami_gather_copy(struct roami_gather *gather, uint8_t *to, size_t bytes)
{
	while (bytes > 0) {
		size_t some = gather->part->iov_len - gather->at;

		if (some > bytes)
			some = bytes;
		if (some > 0)
			memcpy(to, (const uint8_t *)gather->part->iov_base + gather->at, some);
		to += some;
		bytes -= some;
		gather->at += some;
		if (gather->at == gather->part->iov_len && bytes > 0) {
			gather->part++;
			gather->at = 0;
		}
	}
}

#endif
