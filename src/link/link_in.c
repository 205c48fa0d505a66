/*
 * The arriving half of a link: datagrams that came too early are kept, those that came twice are
 * dropped, and fragments become messages again.  A peer wrote all this data, so everything is
 * checked before it is used.
 */
#include "link/link.h"

#include <string.h>

static bool map_has(const struct roami_link *link, uint64_t seq)
{
	uint64_t slot = seq % ROAMI_WINDOW;

	return (link->map[slot / 64] >> slot % 64 & 1) != 0;
}

static void map_flip(struct roami_link *link, uint64_t seq)
{
	uint64_t slot = seq % ROAMI_WINDOW;

	link->map[slot / 64] ^= (uint64_t)1 << slot % 64;
}

static uint8_t *early_slot(const struct roami_link *link, uint64_t seq)
{
	return link->early + seq % ROAMI_WINDOW * ROAMI_DATAGRAM_MAX;
}

/* Whether a whole message waits because it could not be delivered. */
static bool link_refused(const struct roami_link *link)
{
	return link->length > 0 && link->have == link->length;
}

static bool link_deliver(struct roami_reliable *reliable, struct roami_link *link, const void *data,
			 size_t bytes)
{
	if (!reliable->deliver(reliable->deliver_arg, link->peer, data, bytes))
		return false;
	reliable->delivered++;
	return true;
}

/* Delivers a message that is whole in one datagram, without a copy. */
static bool link_whole(struct roami_reliable *reliable, struct roami_link *link,
		       const uint8_t *data, uint32_t bytes)
{
	if (link->length != 0)
		return false;
	if (link_deliver(reliable, link, data, bytes))
		return true;
	memcpy(link->message, data, bytes);
	link->have = link->length = bytes;
	reliable->refused++;
	return true;
}

static bool link_fragment(struct roami_reliable *reliable, struct roami_link *link,
			  const struct roami_packet *packet, uint32_t bytes)
{
	if (packet->offset == 0 && link->length == 0)
		link->length = packet->length;
	if (packet->length != link->length || packet->offset != link->have)
		return false;
	memcpy(link->message + link->have, packet + 1, bytes);
	link->have += bytes;
	if (link->have < link->length)
		return true;
	if (link_deliver(reliable, link, link->message, link->length))
		link->have = link->length = 0;
	else
		reliable->refused++;
	return true;
}

/* Takes the next datagram in order; its header is sound. */
static bool link_take(struct roami_reliable *reliable, struct roami_link *link,
		      const struct roami_packet *packet, size_t bytes)
{
	uint32_t payload = (uint32_t)(bytes - sizeof(*packet));

	if (packet->length == payload)
		return link_whole(reliable, link, (const uint8_t *)(packet + 1), payload);
	return link_fragment(reliable, link, packet, payload);
}

/* Takes kept datagrams that are now in order. */
static bool link_pump(struct roami_reliable *reliable, struct roami_link *link)
{
	while (link->early_count > 0 && !link_refused(link)) {
		uint64_t seq = link->expect;

		if (!map_has(link, seq))
			return true;
		roami_link_lock(link);
		map_flip(link, seq);
		link->early_count--;
		link->expect++;
		roami_link_unlock(link);
		if (!link_take(reliable, link, (const void *)early_slot(link, seq),
			       link->early_bytes[seq % ROAMI_WINDOW]))
			return false;
	}
	return true;
}

bool roami_link_retry(struct roami_reliable *reliable, struct roami_link *link)
{
	if (!link_refused(link))
		return true;
	if (!link_deliver(reliable, link, link->message, link->length))
		return true;
	link->have = link->length = 0;
	reliable->refused--;
	roami_link_lock(link);
	link->owed_now = true;
	reliable->owing |= (uint64_t)1 << link->peer;
	roami_link_unlock(link);
	return link_pump(reliable, link);
}

/* Notes that a datagram with a message arrived, which is owed an ack.  The lock is held. */
static void link_owe(struct roami_reliable *reliable, struct roami_link *link,
		     const struct roami_packet *packet, uint64_t now)
{
	roami_contract(roami_link_locked(link));
	if (link->owed == 0) {
		link->owed_due = now + ROAMI_LINK_HOLD_NS;
		roami_link_due(reliable, link->owed_due);
	}
	link->owed++;
	link->echo = packet->stamp;
	link->echo_ns = now;
	reliable->owing |= (uint64_t)1 << link->peer;
}

/* Keeps a datagram that came too early.  The lock is held. */
static void link_keep_early(struct roami_reliable *reliable, struct roami_link *link,
			    const struct roami_packet *packet, size_t bytes)
{
	roami_contract(roami_link_locked(link));
	link->owed_now = true;
	if (packet->seq < link->expect || map_has(link, packet->seq)) {
		ROAMI_RELIABLE_COUNT(reliable, datagrams_repeated, 1);
		return;
	}
	memcpy(early_slot(link, packet->seq), packet, bytes);
	link->early_bytes[packet->seq % ROAMI_WINDOW] = (uint16_t)bytes;
	map_flip(link, packet->seq);
	link->early_count++;
	ROAMI_RELIABLE_COUNT(reliable, datagrams_early, 1);
}

static bool link_data(struct roami_reliable *reliable, struct roami_link *link,
		      const struct roami_packet *packet, size_t bytes, uint64_t now)
{
	bool next;

	roami_link_lock(link);
	link_owe(reliable, link, packet, now);
	next = packet->seq == link->expect && !link_refused(link);
	if (next)
		link->expect++;
	else if (packet->seq < link->expect + ROAMI_WINDOW)
		link_keep_early(reliable, link, packet, bytes);
	else
		ROAMI_RELIABLE_COUNT(reliable, datagrams_refused, 1);
	roami_link_unlock(link);
	if (!next)
		return true;
	return link_take(reliable, link, packet, bytes) && link_pump(reliable, link);
}

/* Whether the header's fields agree with each other and with the length. */
static bool packet_sound(const struct roami_packet *packet, size_t bytes)
{
	size_t payload = bytes - sizeof(*packet);

	switch (packet->flags & ~(unsigned)(ROAMI_PACKET_ECHO | ROAMI_PACKET_SILENT)) {
	case ROAMI_PACKET_DATA:
		return payload > 0 && packet->length <= ROAMI_LINK_MESSAGE &&
		       packet->length >= payload && packet->offset <= packet->length - payload;
	case ROAMI_PACKET_MAP:
		return payload == ROAMI_MAP_WORDS * sizeof(uint64_t);
	default:
		return false;
	}
}

/* The content of a datagram, if the peer closed it and it is new; NULL: it is dropped. */
static const struct roami_packet *link_open(struct roami_reliable *reliable,
					    struct roami_link *link, const void *data, size_t bytes)
{
	const struct roami_packet *packet = data;

	if (bytes >= sizeof(*packet) && bytes <= ROAMI_DATAGRAM_MAX)
		switch (roami_seal_open(&link->seal, &packet, bytes, reliable->opened)) {
		case ROAMI_SEAL_GOOD:
			return packet;
		case ROAMI_SEAL_REPLAYED:
			ROAMI_RELIABLE_COUNT(reliable, datagrams_replayed, 1);
			return NULL;
		case ROAMI_SEAL_BROKEN:
			break;
		}
	ROAMI_RELIABLE_COUNT(reliable, datagrams_refused, 1);
	return NULL;
}

bool roami_link_arrive(struct roami_reliable *reliable, struct roami_link *link, const void *data,
		       size_t bytes)
{
	const struct roami_packet *packet = link_open(reliable, link, data, bytes);
	uint64_t map[ROAMI_MAP_WORDS], now = roami_link_now(reliable);
	bool data_packet, good;

	reliable->arrived_ns = now;
	if (packet == NULL)
		return true;
	if (!packet_sound(packet, bytes))
		return false;
	data_packet = (packet->flags & ROAMI_PACKET_DATA) != 0;
	if (!data_packet)
		memcpy(map, packet + 1, sizeof(map));
	roami_link_lock(link);
	link->heard_ns = now;
	link->heard = true;
	link->may_be_silent = (packet->flags & ROAMI_PACKET_SILENT) != 0;
	good = roami_link_acked(reliable, link, packet, data_packet ? NULL : map, now);
	roami_link_unlock(link);
	if (!good)
		return false;
	return !data_packet || link_data(reliable, link, packet, bytes, now);
}
