/*
 * The leaving half of a link: what is kept until it is acknowledged, resending, credit, and the
 * window that losses narrow.
 */
#include "link/link.h"

#include <sched.h>
#include <string.h>

#include "os/gather.h"
#include "os/os.h"

#define RTO_MIN_NS   1000000u
#define RTO_MAX_NS   200000000u
#define RTO_FIRST_NS 3000000u /* until a round trip was measured */
#define BACKOFF_MAX  8u
#define FULL_NS      50000u /* pause after the lower transport took no more */
#define RESEND_ONCE  8u     /* datagrams resent by one timer */
#define OVERTAKEN    3u         /* a datagram is lost when so many later ones have arrived */
#define RTT_SANE     (1u << 26) /* 17 s in units of a stamp */

void roami_link_lock(struct roami_link *link)
{
	roami_os_lock(&link->held);
}

void roami_link_unlock(struct roami_link *link)
{
	roami_contract(roami_link_locked(link));
	roami_os_unlock(&link->held);
}

void roami_link_due(struct roami_reliable *reliable, uint64_t when)
{
	uint64_t due = atomic_load(&reliable->due);

	while (when < due && !atomic_compare_exchange_weak(&reliable->due, &due, when))
		;
}

static struct roami_kept *link_kept(struct roami_link *link, uint64_t seq)
{
	return &link->kept[seq % ROAMI_WINDOW];
}

static uint32_t stamp_of(uint64_t now)
{
	return (uint32_t)(now >> ROAMI_STAMP_SHIFT);
}

/* ------------------------------------------------------------------------------------- keeping */

/* Where the datagram behind `tail` begins: never around the end of the store. */
static uint64_t store_begin(uint64_t tail, uint64_t bytes)
{
	uint64_t at = tail % ROAMI_LINK_BYTES;

	return at + bytes > ROAMI_LINK_BYTES ? tail + ROAMI_LINK_BYTES - at : tail;
}

static uint32_t datagram_bytes(size_t left, uint32_t fragment)
{
	return (uint32_t)(sizeof(struct roami_packet) + (left < fragment ? left : fragment));
}

static uint64_t store_round(uint64_t bytes)
{
	return (bytes + 7) & ~(uint64_t)7;
}

static bool store_fits(struct roami_link *link, size_t bytes, uint32_t fragment)
{
	uint64_t tail = link->tail, count = (bytes + fragment - 1) / fragment;

	if (link->end + count - link->first > ROAMI_WINDOW)
		return false;
	for (size_t left = bytes; left > 0; left -= left < fragment ? left : fragment) {
		uint64_t each = store_round(datagram_bytes(left, fragment));

		tail = store_begin(tail, each) + each;
	}
	return tail - link->head <= ROAMI_LINK_BYTES;
}

bool roami_link_keep(struct roami_link *link, const struct iovec *parts, unsigned count,
		     size_t bytes, uint32_t fragment)
{
	struct roami_gather reader = {parts, 0};

	roami_contract(roami_link_locked(link));
	(void)count;
	if (link->first == link->end)
		link->head = link->tail = 0;
	if (!store_fits(link, bytes, fragment))
		return false;
	for (size_t left = bytes; left > 0;) {
		struct roami_kept *kept = link_kept(link, link->end);
		uint32_t each = datagram_bytes(left, fragment);
		struct roami_packet *packet;

		link->tail = store_begin(link->tail, store_round(each));
		*kept = (struct roami_kept){.at = (uint32_t)(link->tail % ROAMI_LINK_BYTES),
					    .bytes = each,
					    .sent = ROAMI_SENT_NOT};
		packet = (void *)(link->store + kept->at);
		*packet = (struct roami_packet){.seq = link->end,
						.length = (uint32_t)bytes,
						.offset = (uint32_t)(bytes - left),
						.flags = ROAMI_PACKET_DATA};
		roami_gather_copy(&reader, (uint8_t *)(packet + 1), each - sizeof(*packet));
		left -= each - sizeof(*packet);
		link->tail += store_round(each);
		kept->end = link->tail;
		link->end++;
	}
	return true;
}

void roami_link_drop(struct roami_link *link)
{
	roami_contract(roami_link_locked(link));
	link->head = link_kept(link, link->first)->end;
	link->first++;
}

/* ------------------------------------------------------------------------------------- sending */

/* Fills in what every datagram tells of the other direction. */
static void link_tell(struct roami_reliable *reliable, struct roami_link *link,
		      struct roami_packet *packet, uint64_t now)
{
	packet->ack = link->expect;
	packet->credit = (uint16_t)reliable->share;
	packet->stamp = stamp_of(now);
	packet->flags &= (uint16_t)~(ROAMI_PACKET_ECHO | ROAMI_PACKET_SILENT);
	if (reliable->beat_ns == 0)
		packet->flags |= ROAMI_PACKET_SILENT;
	if (link->echo_ns != 0) {
		packet->flags |= ROAMI_PACKET_ECHO;
		packet->echo = link->echo;
		packet->held = stamp_of(now) - stamp_of(link->echo_ns);
	}
}

/* Sends datagrams that are filled in; returns how many the lower transport took. */
static unsigned link_send(struct roami_reliable *reliable, struct roami_link *link,
			  const struct iovec *datagrams, unsigned count, uint64_t now)
{
	const struct roam_transport_params *params = &reliable->params;
	struct iovec closed[ROAM_SEND_MANY];
	unsigned sent = 0;

	for (unsigned i = 0; i < count; i++) {
		void *room = link->closed + (size_t)i * ROAMI_DATAGRAM_MAX;

		closed[i] = datagrams[i];
		closed[i].iov_base = roami_seal_close(&link->seal, datagrams[i].iov_base,
						      datagrams[i].iov_len, room);
	}
	if (count > 1 && params->lower->send_many != NULL)
		sent = params->lower->send_many(params->lower_state, link->peer, closed, count);
	else
		while (sent < count && params->lower->send(params->lower_state, link->peer,
							   &closed[sent], 1) == ROAM_OK)
			sent++;
	if (sent > 0)
		link->spoke_ns = now;
	if (sent > 0 && params->rouse != NULL)
		params->rouse(params->now_arg, link->peer);
	ROAMI_RELIABLE_COUNT(reliable, datagrams_sent, sent);
	return sent;
}

/*
 * Sends `count` kept datagrams from `seq` on, the first time or again; returns how many were taken.
 */
static unsigned link_transmit(struct roami_reliable *reliable, struct roami_link *link,
			      uint64_t seq, unsigned count, uint64_t now)
{
	struct iovec datagrams[ROAM_SEND_MANY];
	unsigned sent;

	for (unsigned i = 0; i < count; i++) {
		struct roami_kept *kept = link_kept(link, seq + i);
		struct roami_packet *packet = (void *)(link->store + kept->at);

		link_tell(reliable, link, packet, now);
		datagrams[i] = (struct iovec){packet, kept->bytes};
	}
	sent = link_send(reliable, link, datagrams, count, now);
	for (unsigned i = 0; i < sent; i++)
		link_kept(link, seq + i)->sent_ns = now;
	/* If there is a gap the peer must see the map, so it gets an ack of its own. */
	if (sent > 0 && link->early_count == 0) {
		link->owed = 0;
		link->owed_now = false;
	}
	return sent;
}

void roami_link_ack(struct roami_reliable *reliable, struct roami_link *link, uint64_t now)
{
	struct {
		struct roami_packet head;
		uint64_t map[ROAMI_MAP_WORDS];
	} ack = {.head = {.flags = ROAMI_PACKET_MAP}};

	roami_contract(roami_link_locked(link));
	link_tell(reliable, link, &ack.head, now);
	for (uint64_t i = 0; i < ROAMI_WINDOW && link->early_count > 0; i++) {
		uint64_t slot = (link->expect + i) % ROAMI_WINDOW;

		if ((link->map[slot / 64] >> slot % 64 & 1) != 0)
			ack.map[i / 64] |= (uint64_t)1 << i % 64;
	}
	link->owed = 0;
	link->owed_now = false;
	if (link_send(reliable, link, &(struct iovec){&ack, sizeof(ack)}, 1, now) == 1)
		ROAMI_RELIABLE_COUNT(reliable, acks_sent, 1);
}

static uint64_t link_rto(const struct roami_link *link)
{
	uint64_t rto = RTO_FIRST_NS;

	if (link->rtt_ns != 0)
		rto = link->rtt_ns + 4 * link->rtt_vary_ns + ROAMI_LINK_HOLD_NS;
	if (rto < RTO_MIN_NS)
		rto = RTO_MIN_NS;
	rto <<= link->backoff;
	return rto < RTO_MAX_NS ? rto : RTO_MAX_NS;
}

/* How many new datagrams may leave in one batch. */
static unsigned link_may(const struct roami_link *link)
{
	unsigned count = 0;

	while (count < ROAM_SEND_MANY && link->next + count < link->end &&
	       link->next + count < link->credit && link->flight + count < link->window)
		count++;
	return count;
}

void roami_link_push(struct roami_reliable *reliable, struct roami_link *link, uint64_t now)
{
	unsigned may, sent;

	roami_contract(roami_link_locked(link));
	while ((may = link_may(link)) > 0) {
		sent = link_transmit(reliable, link, link->next, may, now);
		for (unsigned i = 0; i < sent; i++)
			link_kept(link, link->next + i)->sent = ROAMI_SENT_ONCE;
		link->next += sent;
		link->flight += sent;
		if (sent < may) {
			roami_link_due(reliable, now + FULL_NS);
			return;
		}
	}
	if (link->first < link->next)
		roami_link_due(reliable, now + link_rto(link));
}

/* ----------------------------------------------------------------------------------- resending */

/* Narrows the window after a loss, once for all datagrams that were under way together. */
static void link_narrow(struct roami_link *link, uint64_t seq)
{
	if (seq < link->recover)
		return;
	link->recover = link->next;
	link->steady = link->window / 2;
	if (link->steady < ROAMI_LINK_WINDOW_MIN)
		link->steady = ROAMI_LINK_WINDOW_MIN;
	link->window = link->steady;
	link->grown = 0;
}

static void link_widen(struct roami_link *link, uint32_t arrived)
{
	if (link->window < link->steady) {
		link->window += arrived;
	} else {
		link->grown += arrived;
		if (link->grown >= link->window) {
			link->grown -= link->window;
			link->window++;
		}
	}
	if (link->window > ROAMI_WINDOW)
		link->window = ROAMI_WINDOW;
}

static void link_resend(struct roami_reliable *reliable, struct roami_link *link, uint64_t seq,
			uint64_t now)
{
	struct roami_kept *kept = link_kept(link, seq);

	if (link_transmit(reliable, link, seq, 1, now) == 0)
		kept->sent_ns = now; /* as good as lost */
	ROAMI_RELIABLE_COUNT(reliable, datagrams_resent, 1);
	link_narrow(link, seq);
}

/* Resends datagrams that many later ones have overtaken; at most once a round trip. */
static void link_overtaken(struct roami_reliable *reliable, struct roami_link *link, uint64_t now)
{
	unsigned later = 0;

	for (uint64_t seq = link->next; seq-- > link->first;) {
		struct roami_kept *kept = link_kept(link, seq);

		if (kept->sent == ROAMI_SENT_ARRIVED)
			later++;
		else if (later >= OVERTAKEN && now - kept->sent_ns >= link->rtt_ns)
			link_resend(reliable, link, seq, now);
	}
}

uint64_t roami_link_timers(struct roami_reliable *reliable, struct roami_link *link, uint64_t now)
{
	uint64_t rto = link_rto(link), due = UINT64_MAX;
	unsigned resent = 0;

	roami_contract(roami_link_locked(link));
	for (uint64_t seq = link->first; seq < link->next; seq++) {
		struct roami_kept *kept = link_kept(link, seq);

		/*
		 * Even if all datagrams have arrived, the ack that says so may be lost: the first
		 * is resent.
		 */
		if (kept->sent != ROAMI_SENT_ONCE && seq != link->first)
			continue;
		if (kept->sent_ns + rto <= now && resent < RESEND_ONCE) {
			link_resend(reliable, link, seq, now);
			resent++;
		}
		if (kept->sent_ns + rto < due)
			due = kept->sent_ns + rto;
	}
	if (resent > 0 && link->backoff < BACKOFF_MAX)
		link->backoff++;
	roami_link_push(reliable, link, now);
	if (link->owed > 0 && link->owed_due <= now)
		roami_link_ack(reliable, link, now);
	if (link->owed > 0 && link->owed_due < due)
		due = link->owed_due;
	return due;
}

/* -------------------------------------------------------------------------------- what arrived */

/* The estimate of RFC 6298, from the stamp that the peer echoes: resent datagrams count, too. */
static void link_measure(struct roami_link *link, const struct roami_packet *packet, uint64_t now)
{
	uint32_t units = stamp_of(now) - packet->echo - packet->held;
	uint64_t rtt = ((uint64_t)units << ROAMI_STAMP_SHIFT) + 1, off;

	if (units > RTT_SANE)
		return;
	if (link->rtt_ns == 0) {
		link->rtt_ns = rtt;
		link->rtt_vary_ns = rtt / 2;
		return;
	}
	off = rtt > link->rtt_ns ? rtt - link->rtt_ns : link->rtt_ns - rtt;
	link->rtt_vary_ns = (3 * link->rtt_vary_ns + off) / 4;
	link->rtt_ns = (7 * link->rtt_ns + rtt) / 8;
}

static void link_arrived(struct roami_link *link, struct roami_kept *kept, uint32_t *arrived)
{
	if (kept->sent != ROAMI_SENT_ONCE)
		return;
	kept->sent = ROAMI_SENT_ARRIVED;
	link->flight--;
	(*arrived)++;
}

/* Notes the datagrams that arrived behind a gap.  false: one of them was never sent. */
static bool link_mapped(struct roami_link *link, uint64_t ack, const uint64_t *map,
			uint32_t *arrived)
{
	for (uint64_t i = 0; i < ROAMI_WINDOW; i++) {
		if ((map[i / 64] >> i % 64 & 1) == 0)
			continue;
		if (ack + i >= link->next)
			return false;
		if (ack + i >= link->first)
			link_arrived(link, link_kept(link, ack + i), arrived);
	}
	return true;
}

bool roami_link_acked(struct roami_reliable *reliable, struct roami_link *link,
		      const struct roami_packet *packet, const uint64_t *map, uint64_t now)
{
	uint32_t arrived = 0;

	roami_contract(roami_link_locked(link));
	if (packet->ack > link->next)
		return false;
	while (link->first < packet->ack) {
		link_arrived(link, link_kept(link, link->first), &arrived);
		roami_link_drop(link);
	}
	if (map != NULL && !link_mapped(link, packet->ack, map, &arrived))
		return false;
	if (packet->ack + packet->credit > link->credit)
		link->credit = packet->ack + packet->credit;
	if (arrived > 0) {
		link->backoff = 0;
		link_widen(link, arrived);
		if ((packet->flags & ROAMI_PACKET_ECHO) != 0)
			link_measure(link, packet, now);
	}
	if (map != NULL)
		link_overtaken(reliable, link, now);
	roami_link_push(reliable, link, now);
	return true;
}
