#include "link/sealed.h"

#include <string.h>

#include "link/seal.h"
#include "os/gather.h"
#include "os/os.h"

#define NODES_MAX   64u
#define PIECE       (ROAMI_DATAGRAM_MAX - (uint32_t)sizeof(struct roami_packet)) /* of a message */
#define MESSAGE_MAX (63u * 1024)
#define PIECES      ((MESSAGE_MAX + PIECE - 1) / PIECE)
#define CLOSED_MAX  (MESSAGE_MAX + PIECES * sizeof(struct roami_packet))
#define ROOM        ((CLOSED_MAX + 63) & ~(size_t)63)

_Static_assert(PIECE % 8 == 0, "pieces behind each other are aligned");

struct sealed_link {
	_Atomic uint32_t held; /* the lock of the sending side */
	struct roami_seal seal;
	uint8_t *plain;  /* ROOM bytes: pieces before they are closed */
	uint8_t *closed; /* encrypted pieces, one behind the other */
	uint8_t *waits;  /* `plain` or `closed`: a message that did not leave; NULL: none */
	uint32_t waits_bytes; /* without what stands before its pieces */
	uint8_t *opened; /* the message that arrived */
	uint32_t kept;   /* its length, if it could not be delivered yet */
};

struct sealed_state {
	struct roam_transport_params params;
	struct roami_sealer sealer;
	uint8_t *memory;
	size_t memory_bytes;
	uint8_t *room; /* where a piece is decrypted */
	int bad_peer;
	roam_deliver_fn *deliver; /* of the poll under way */
	void *deliver_arg;
	struct sealed_link links[NODES_MAX];
};

static enum roam_err sealed_open(void *state, const struct roam_transport_params *params)
{
	struct sealed_state *sealed = state;
	enum roam_err err = roami_sealer_init(&sealed->sealer, params->seal);

	if (err != ROAM_OK)
		return err;
	if (params->nodes > NODES_MAX)
		return ROAM_ENODES;
	if (params->lower->message_max < CLOSED_MAX)
		return ROAM_EUNSUPPORTED;
	sealed->params = *params;
	sealed->memory_bytes = 3 * ROOM * params->nodes + ROAMI_DATAGRAM_MAX;
	sealed->memory = roami_os_reserve_sparse(sealed->memory_bytes);
	if (sealed->memory == NULL)
		return ROAM_ENOMEM;
	for (unsigned peer = 0; peer < params->nodes; peer++) {
		struct sealed_link *link = &sealed->links[peer];

		link->plain = sealed->memory + 3 * ROOM * peer;
		link->closed = link->plain + ROOM;
		link->opened = link->closed + ROOM;
		roami_seal_init(&link->seal, &sealed->sealer, params->node, peer);
	}
	sealed->room = sealed->memory + 3 * ROOM * params->nodes;
	sealed->bad_peer = -1;
	return ROAM_OK;
}

static void sealed_close(void *state)
{
	struct sealed_state *sealed = state;

	if (sealed->memory != NULL)
		roami_os_unmap(sealed->memory, sealed->memory_bytes);
	sealed->memory = NULL;
}

/* -------------------------------------------------------------------------------------- leaving */

/* Cuts a message of `bytes` into pieces and closes them; where they are, one behind the other. */
static uint8_t *sealed_closed(struct sealed_link *link, const struct iovec *parts, uint32_t bytes)
{
	struct roami_gather gather = {parts, 0};
	const uint8_t *closed = NULL;
	size_t offset = 0;

	for (uint32_t at = 0, some; at < bytes;
	     at += some, offset += sizeof(struct roami_packet) + some) {
		struct roami_packet *packet = (void *)(link->plain + offset);

		some = bytes - at < PIECE ? bytes - at : PIECE;
		*packet = (struct roami_packet){
			.length = bytes, .offset = at, .flags = ROAMI_PACKET_DATA};
		roami_gather_copy(&gather, (uint8_t *)(packet + 1), some);
		closed = roami_seal_close(&link->seal, packet, sizeof(*packet) + some,
					  link->closed + offset);
	}
	return closed >= link->closed && closed < link->closed + ROOM ? link->closed : link->plain;
}

/* Whether the closed message that did not leave is this one, which is then not closed again. */
static bool sealed_again(const struct sealed_link *link, const struct iovec *parts, unsigned count,
			 uint32_t bytes)
{
	uint32_t at = 0;

	if (link->waits == NULL || link->waits_bytes != bytes)
		return false;
	for (unsigned i = 0; i < count; i++) {
		const uint8_t *part = parts[i].iov_base;

		for (size_t left = parts[i].iov_len, some; left > 0; left -= some, part += some) {
			const uint8_t *piece =
				link->plain + at / PIECE * (size_t)ROAMI_DATAGRAM_MAX +
				sizeof(struct roami_packet);

			some = PIECE - at % PIECE < left ? PIECE - at % PIECE : left;
			if (memcmp(piece + at % PIECE, part, some) != 0)
				return false;
			at += (uint32_t)some;
		}
	}
	return true;
}

static enum roam_err sealed_send(void *state, unsigned to, const struct iovec *parts,
				 unsigned count)
{
	struct sealed_state *sealed = state;
	const struct roam_transport_params *params = &sealed->params;
	struct sealed_link *link = &sealed->links[to];
	struct iovec closed;
	enum roam_err err;
	size_t bytes = roami_gather_bytes(parts, count);

	if (bytes == 0 || bytes > MESSAGE_MAX)
		return ROAM_EINVAL;
	if (to == params->node) /* a message to itself never leaves this node */
		return params->lower->send(params->lower_state, to, parts, count);
	roami_os_lock(&link->held);
	closed.iov_base = sealed_again(link, parts, count, (uint32_t)bytes)
				  ? link->waits
				  : sealed_closed(link, parts, (uint32_t)bytes);
	closed.iov_len = bytes + (bytes + PIECE - 1) / PIECE * sizeof(struct roami_packet);
	err = params->lower->send(params->lower_state, to, &closed, 1);
	link->waits = err == ROAM_EAGAIN ? closed.iov_base : NULL;
	link->waits_bytes = (uint32_t)bytes;
	roami_os_unlock(&link->held);
	return err;
}

/* ------------------------------------------------------------------------------------- arriving */

/* Opens all pieces of a message; returns its length, 0: no node of the job has sent this. */
static uint32_t sealed_opened(struct sealed_state *sealed, struct sealed_link *link,
			      const uint8_t *data, size_t bytes)
{
	size_t pieces = (bytes + ROAMI_DATAGRAM_MAX - 1) / ROAMI_DATAGRAM_MAX;
	uint32_t at = 0;

	if (bytes > CLOSED_MAX || bytes <= pieces * sizeof(struct roami_packet))
		return 0;
	for (size_t left = bytes, each; left > 0; left -= each, data += each) {
		const struct roami_packet *packet = (const void *)data;

		each = left < ROAMI_DATAGRAM_MAX ? left : ROAMI_DATAGRAM_MAX;
		if (each <= sizeof(*packet) ||
		    roami_seal_open(&link->seal, &packet, each, sealed->room) != ROAMI_SEAL_GOOD ||
		    packet->offset != at || packet->length != bytes - pieces * sizeof(*packet))
			return 0;
		memcpy(link->opened + at, packet + 1, each - sizeof(*packet));
		at += (uint32_t)(each - sizeof(*packet));
	}
	return at;
}

static bool sealed_arrived(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct sealed_state *sealed = arg;
	struct sealed_link *link = &sealed->links[from];

	if (from == sealed->params.node)
		return sealed->deliver(sealed->deliver_arg, from, data, bytes);
	if (link->kept == 0)
		link->kept = sealed_opened(sealed, link, data, bytes);
	if (link->kept == 0) {
		sealed->bad_peer = (int)from;
		return true;
	}
	if (!sealed->deliver(sealed->deliver_arg, from, link->opened, link->kept))
		return false; /* the transport keeps the message and delivers it again */
	link->kept = 0;
	return true;
}

static unsigned sealed_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			    int *bad_peer)
{
	struct sealed_state *sealed = state;
	const struct roam_transport_params *params = &sealed->params;
	unsigned taken;

	sealed->deliver = deliver;
	sealed->deliver_arg = arg;
	taken = params->lower->poll(params->lower_state, sealed_arrived, sealed, max, bad_peer);
	if (sealed->bad_peer >= 0)
		*bad_peer = sealed->bad_peer;
	return *bad_peer >= 0 ? 0 : taken;
}

static bool sealed_pending(const void *state)
{
	const struct roam_transport_params *params = &((const struct sealed_state *)state)->params;

	return params->lower->pending(params->lower_state);
}

static uint64_t sealed_due(const void *state)
{
	const struct roam_transport_params *params = &((const struct sealed_state *)state)->params;

	return params->lower->due != NULL ? params->lower->due(params->lower_state) : UINT64_MAX;
}

const struct roam_transport roami_transport_sealed = {
	.name = "sealed",
	.caps = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED,
	.state_size = sizeof(struct sealed_state),
	.message_max = MESSAGE_MAX,
	.open = sealed_open,
	.close = sealed_close,
	.send = sealed_send,
	.poll = sealed_poll,
	.pending = sealed_pending,
	.due = sealed_due,
};
