/*
 * The X-function "bitmap" (Vinter et al. 2002 name it): tuples are compressed when they are moved
 * and whole again when they are observed; in between they take little memory if they are alike in
 * themselves, as bitmaps are.  LZ4 does it.
 */
#ifndef ROAMI_BITMAP_H
#define ROAMI_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/pastset.h"

/* Bytes of a tuple at most, compressed. */
#define ROAMI_BITMAP_MAX (ROAM_PS_TUPLE_MAX + sizeof(uint32_t))

/* Compresses a tuple, which has a byte at least, into ROAMI_BITMAP_MAX bytes of room; its bytes. */
size_t roami_bitmap_pack(const void *tuple, size_t bytes, uint8_t *room);

/* How many bytes a compressed tuple has when it is whole. */
uint32_t roami_bitmap_bytes(const uint8_t *packed);

/* Makes it whole; false: it is damaged. */
bool roami_bitmap_unpack(const uint8_t *packed, size_t packed_bytes, void *tuple);

#endif
