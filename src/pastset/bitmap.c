/* The bytes of the tuple as u32, then LZ4's, or the tuple itself where those would not be fewer. */
#include "pastset/bitmap.h"

#include <lz4.h>
#include <string.h>

#include "roam/protocol.h"

size_t roami_bitmap_pack(const void *tuple, size_t bytes, uint8_t *room)
{
	uint32_t whole = (uint32_t)bytes;
	uint8_t *at = room + sizeof(whole);
	int packed = LZ4_compress_default(tuple, (char *)at, (int)bytes, (int)bytes - 1);

	roami_assert(bytes > 0 && bytes <= ROAM_PS_TUPLE_MAX);
	memcpy(room, &whole, sizeof(whole));
	if (packed > 0)
		return sizeof(whole) + (size_t)packed;
	memcpy(at, tuple, bytes);
	return sizeof(whole) + bytes;
}

uint32_t roami_bitmap_bytes(const uint8_t *packed)
{
	uint32_t whole;

	memcpy(&whole, packed, sizeof(whole));
	return whole;
}

bool roami_bitmap_unpack(const uint8_t *packed, size_t packed_bytes, void *tuple)
{
	uint32_t whole = roami_bitmap_bytes(packed);
	size_t bytes = packed_bytes - sizeof(whole);
	const uint8_t *at = packed + sizeof(whole);

	if (bytes == whole) {
		memcpy(tuple, at, bytes);
		return true;
	}
	return LZ4_decompress_safe((const char *)at, tuple, (int)bytes, (int)whole) == (int)whole;
}
