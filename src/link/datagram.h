/*
 * What the reliable layer puts on the wire: datagrams of a fixed header and, behind it, a fragment
 * of a message or a map of what has arrived.  See docs/wire.md.
 */
#ifndef ROAMI_DATAGRAM_H
#define ROAMI_DATAGRAM_H

#include <stdint.h>

#define ROAMI_KEY_BYTES    32u   /* bytes of a job's key */
#define ROAMI_DATAGRAM_MAX 9216u /* longest datagram, header included */
#define ROAMI_DATAGRAM_MIN 512u  /* a network that carries less is refused */
#define ROAMI_WINDOW       256u  /* datagrams under way to one peer */

enum {
	ROAMI_PACKET_DATA = 1,   /* a fragment follows */
	ROAMI_PACKET_MAP = 2,    /* a map follows: bit i stands for datagram ack + i */
	ROAMI_PACKET_ECHO = 4,   /* `echo` and `held` mean something */
	ROAMI_PACKET_SILENT = 8, /* the sender may fall silent, and sends no signs of life */
};

#define ROAMI_TAG_BYTES 16u

struct roami_packet {
	uint8_t tag[ROAMI_TAG_BYTES]; /* see seal.h */
	uint64_t number;              /* numbers datagrams sent to this peer, resent ones anew */
	uint64_t seq;                 /* numbers payloads, from 0; a bare ack has 0 */
	uint64_t ack;                 /* every datagram before it has arrived */
	uint32_t stamp;               /* the sender's clock, in units of 256 ns */
	uint32_t echo;                /* `stamp` of the newest datagram that arrived */
	uint32_t held;                /* how long ago that one arrived, in the same unit */
	uint32_t length;              /* length of the whole message */
	uint32_t offset;              /* place of this fragment in it */
	uint16_t credit;              /* how many datagrams from `ack` on may be sent */
	uint16_t flags;
};

_Static_assert(sizeof(struct roami_packet) == 64, "header of a datagram");

#define ROAMI_MAP_WORDS (ROAMI_WINDOW / 64)

#endif
