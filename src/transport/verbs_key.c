/*
 * The keys by which peers read each other's memory (verbs_read.c).
 *
 * A node registers its memory with the card in parts, each when a peer first wants to read it, and
 * tells that peer the key.  Where the card or ROAM_VERBS_MEMORY has no room for one more, the part
 * that has been registered longest is deregistered, if it has been for a while: what is read now
 * matters more.  Its node first asks for the key back, one part at a time, and waits until each
 * peer that was told it has said that it reads by it no more; a peer says so when its reads of the
 * part have ended.  So no read fails by that: each that has no key is a message.  Without room
 * and without a part that could go a peer is told that there is no key, and asks again later.
 *
 * The other parts stay registered until the node closes; by then all nodes have met at the end of
 * the job or of its round, and none reads any more.  A card goes on to use the page that it was
 * given, whatever becomes of the place where that was mapped: nobody punches a hole where a home is
 * (only copies are evicted, and no card reads those; homes that cards read stay where they are).
 *
 * The connecting thread registers, and tells; parts that are wanted stand in a list, to which the
 * polling thread adds, and which the connecting thread takes as a whole.
 */
#include <unistd.h>

#include "os/os.h"
#include "verbs.h"

#define STAYS_NS UINT64_C(50000000)  /* before a part may go again */
#define AGAIN_NS UINT64_C(200000000) /* before a peer asks again that was told of no key */

static struct verbs_held *key_of(const struct verbs_reads *reads, unsigned peer, uint64_t part)
{
	return &reads->held[peer * reads->part_count + part];
}

void verbs_keys_wake(const struct verbs_state *verbs)
{
	uint64_t one = 1;

	if (write(verbs->wanted, &one, sizeof(one)) < 0)
		return; /* full: it looks */
}

/* --------------------------------------------------------------------------- parts of this node */

size_t verbs_part_bytes(const struct verbs_reads *reads, uint64_t part)
{
	size_t left = reads->shared_bytes - part * VERBS_PART;

	return left < VERBS_PART ? left : VERBS_PART;
}

/* Notes peers that want a part. */
static void part_wanted(struct verbs_reads *reads, uint64_t part, uint64_t peers)
{
	struct verbs_part *mine = &reads->parts[part];
	uint32_t first;

	if (atomic_fetch_or(&mine->wants, peers) != 0)
		return; /* it is in the list, or about to be */
	first = atomic_load(&reads->wanted);
	do
		mine->next = first;
	while (!atomic_compare_exchange_weak(&reads->wanted, &first, (uint32_t)part + 1));
}

/* Whether the part that has been registered longest goes, or one goes already. */
static bool part_goes(struct verbs_state *verbs)
{
	struct verbs_reads *reads = &verbs->reads;
	const struct verbs_part *oldest;

	if (atomic_load(&reads->leaving) != 0)
		return true;
	if (reads->oldest == 0)
		return false;
	oldest = &reads->parts[reads->oldest - 1];
	if (verbs_now(verbs) - oldest->since_ns < STAYS_NS)
		return false;
	reads->untold = oldest->holders;
	atomic_store(&reads->awaited, oldest->holders);
	atomic_store(&reads->leaving, reads->oldest);
	return true;
}

/* Registers a part, if there is room. */
static void part_register(struct verbs_state *verbs, uint64_t part)
{
	struct verbs_reads *reads = &verbs->reads;
	struct verbs_part *mine = &reads->parts[part];
	size_t bytes = verbs_part_bytes(reads, part);

	if (bytes > reads->most - reads->registered)
		return;
	mine->region = ibv_reg_mr(verbs->domain, reads->shared + part * VERBS_PART, bytes,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					  IBV_ACCESS_REMOTE_WRITE);
	if (mine->region == NULL) {
		reads->most = reads->registered; /* the system allows no more */
		return;
	}
	reads->registered += bytes;
	mine->since_ns = verbs_now(verbs);
	if (reads->oldest == 0)
		reads->oldest = (uint32_t)part + 1;
	else
		reads->parts[reads->youngest - 1].younger = (uint32_t)part + 1;
	reads->youngest = (uint32_t)part + 1;
}

/* Deregisters the oldest part. */
static void part_deregister(struct verbs_reads *reads)
{
	uint64_t part = reads->oldest - 1;
	struct verbs_part *oldest = &reads->parts[part];

	ibv_dereg_mr(oldest->region);
	reads->registered -= verbs_part_bytes(reads, part);
	reads->oldest = oldest->younger;
	oldest->region = NULL;
	oldest->holders = 0;
	oldest->younger = 0;
}

void verbs_parts_close(struct verbs_reads *reads)
{
	while (reads->oldest != 0)
		part_deregister(reads);
}

bool verbs_key_say(struct verbs_state *verbs, struct verbs_peer *peer, uint16_t what,
		     const struct verbs_key *key)
{
	bool said;

	roami_os_lock(&peer->held);
	/* What a peer says may arrive before this node knows that the two are connected. */
	said = atomic_load(&peer->at) != VERBS_JOINING;
	if (atomic_load(&peer->at) == VERBS_READY) {
		said = verbs_may(verbs, peer, false);
		if (said)
			verbs_post_what(verbs, peer, what, key, sizeof(*key));
	}
	roami_os_unlock(&peer->held);
	return said;
}

/* Tells a peer the key of a part, or that it has none; false: later. */
static bool part_tell(struct verbs_state *verbs, struct verbs_peer *peer, uint64_t part)
{
	struct verbs_part *mine = &verbs->reads.parts[part];
	struct verbs_key key = {.part = (uint32_t)part};

	if (mine->region == NULL)
		return verbs_key_say(verbs, peer, VERBS_KEY, &key);
	key.key = mine->region->rkey;
	key.address = (uintptr_t)verbs->reads.shared + part * VERBS_PART;
	if (!verbs_key_say(verbs, peer, VERBS_KEY, &key))
		return false;
	mine->holders |= verbs_bit(peer->number);
	return true;
}

/* Answers those that want a part; false: some must wait for room in their buffers. */
static bool part_serve(struct verbs_state *verbs, uint64_t part)
{
	struct verbs_reads *reads = &verbs->reads;
	struct verbs_part *mine = &reads->parts[part];
	uint64_t wants = atomic_exchange(&mine->wants, 0), later = 0;

	if (mine->region == NULL)
		part_register(verbs, part);
	if (atomic_load(&reads->leaving) == part + 1 ||
	    (mine->region == NULL && part_goes(verbs))) {
		part_wanted(reads, part, wants); /* until the one that leaves has gone */
		return true;
	}
	for (; wants != 0; wants &= wants - 1) {
		struct verbs_peer *peer = &verbs->peers[__builtin_ctzll(wants)];

		if (!part_tell(verbs, peer, part))
			later |= verbs_bit(peer->number);
	}
	if (later != 0)
		part_wanted(reads, part, later);
	return later == 0;
}

/* Answers those that want parts; false: some must wait for room in their buffers. */
static bool parts_serve(struct verbs_state *verbs)
{
	struct verbs_reads *reads = &verbs->reads;
	uint32_t first = atomic_exchange(&reads->wanted, 0);
	bool all = true;

	while (first != 0) {
		uint64_t part = first - 1;

		first = reads->parts[part].next;
		all &= part_serve(verbs, part);
	}
	return all;
}

/* Asks for the key of the part that leaves; false: not all who have it yet. */
static bool leaving_tell(struct verbs_state *verbs)
{
	struct verbs_reads *reads = &verbs->reads;
	struct verbs_key key = {.part = atomic_load(&reads->leaving) - 1};

	for (uint64_t left = reads->untold; left != 0; left &= left - 1) {
		struct verbs_peer *peer = &verbs->peers[__builtin_ctzll(left)];

		if (verbs_key_say(verbs, peer, VERBS_BACK, &key))
			reads->untold &= ~verbs_bit(peer->number);
	}
	return reads->untold == 0;
}

/* Peers whose connections have ended read no more. */
static void leaving_forget(struct verbs_state *verbs)
{
	for (uint64_t left = atomic_load(&verbs->reads.awaited); left != 0; left &= left - 1) {
		const struct verbs_peer *peer = &verbs->peers[__builtin_ctzll(left)];

		if (atomic_load(&peer->at) != VERBS_READY)
			atomic_fetch_and(&verbs->reads.awaited, ~verbs_bit(peer->number));
	}
}

/* Deregisters the part that leaves, when all have given its key back. */
static bool leaving_gone(struct verbs_state *verbs)
{
	struct verbs_reads *reads = &verbs->reads;

	if (atomic_load(&reads->leaving) == 0)
		return false;
	leaving_forget(verbs);
	if (atomic_load(&reads->awaited) != 0)
		return false;
	part_deregister(reads);
	atomic_store(&reads->leaving, 0);
	return true;
}

/* ---------------------------------------------------------------------------- keys of the peers */

/* Asks for the key of a peer's part. */
static void key_ask(struct verbs_state *verbs, struct verbs_peer *peer, uint64_t part)
{
	struct verbs_key key = {.part = (uint32_t)part};
	struct verbs_held *held = key_of(&verbs->reads, peer->number, part);
	uint32_t at;

	roami_os_lock(&peer->held);
	at = atomic_load(&held->at);
	if (atomic_load(&peer->at) == VERBS_READY && peer->remote != NULL &&
	    (at == VERBS_KEY_NONE || at == VERBS_KEY_REFUSED) && verbs_may(verbs, peer, false)) {
		atomic_store(&held->at, VERBS_KEY_ASKED);
		verbs_post_what(verbs, peer, VERBS_WANT, &key, sizeof(key));
	}
	roami_os_unlock(&peer->held);
}

const struct verbs_held *verbs_key_held(struct verbs_state *verbs, struct verbs_peer *peer,
					uint64_t part)
{
	const struct verbs_held *held = key_of(&verbs->reads, peer->number, part);
	uint32_t at = atomic_load(&held->at);

	if (at == VERBS_KEY_NONE ||
	    (at == VERBS_KEY_REFUSED && verbs_now(verbs) >= atomic_load(&held->again_ns)))
		key_ask(verbs, peer, part);
	return at == VERBS_KEY_HELD ? held : NULL;
}

static bool key_told(struct verbs_state *verbs, const struct verbs_peer *peer,
		     const struct verbs_key *key)
{
	struct verbs_held *held = key_of(&verbs->reads, peer->number, key->part);

	if (atomic_load(&held->at) != VERBS_KEY_ASKED)
		return false;
	held->key = key->key;
	held->address = key->address;
	atomic_store(&held->again_ns, verbs_now(verbs) + AGAIN_NS);
	atomic_store(&held->at, key->address != 0 ? VERBS_KEY_HELD : VERBS_KEY_REFUSED);
	return true;
}

/* A peer wants a key back: no read by it begins from now on. */
static bool key_leaves(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t part)
{
	struct verbs_held *held = key_of(&verbs->reads, peer->number, part);

	if (atomic_load(&held->at) != VERBS_KEY_HELD || atomic_load(&peer->back) != 0)
		return false;
	atomic_store(&held->at, VERBS_KEY_LEAVING);
	atomic_store(&peer->back, part + 1);
	atomic_fetch_or(&verbs->reads.back, verbs_bit(peer->number));
	verbs_keys_wake(verbs);
	return true;
}

/* A peer has given the key of the part back that leaves. */
static bool key_given(struct verbs_state *verbs, const struct verbs_peer *peer, uint32_t part)
{
	struct verbs_reads *reads = &verbs->reads;
	uint64_t bit = verbs_bit(peer->number);

	if (atomic_load(&reads->leaving) != part + 1 ||
	    (atomic_fetch_and(&reads->awaited, ~bit) & bit) == 0)
		return false;
	verbs_keys_wake(verbs);
	return true;
}

bool verbs_key_take(struct verbs_state *verbs, struct verbs_peer *peer, uint32_t what,
		    const struct verbs_key *key)
{
	if (key->part >= verbs->reads.part_count)
		return false;
	switch (what) {
	case VERBS_AGAIN:
	case VERBS_JOINED:
		return verbs_remote_told(verbs, peer, what, key);
	case VERBS_WANT:
		part_wanted(&verbs->reads, key->part, verbs_bit(peer->number));
		verbs_keys_wake(verbs);
		return true;
	case VERBS_KEY:
		return key_told(verbs, peer, key);
	case VERBS_BACK:
		return key_leaves(verbs, peer, key->part);
	case VERBS_GIVEN:
		return key_given(verbs, peer, key->part);
	default:
		return false;
	}
}

/* Whether an operation with a peer's part is under way, or about to look whether it may be. */
static bool key_used(const struct verbs_reads *reads, unsigned peer, uint64_t part)
{
	uint64_t used = reads->slots & ~atomic_load(&reads->free);

	for (; used != 0; used &= used - 1)
		if (atomic_load(&reads->under_way[__builtin_ctzll(used)].of) ==
		    verbs_read_of(peer, part))
			return true;
	return false;
}

/* Gives back the key that a peer wants; false: later. */
static bool key_give(struct verbs_state *verbs, struct verbs_peer *peer)
{
	struct verbs_reads *reads = &verbs->reads;
	uint32_t part = atomic_load(&peer->back) - 1;
	struct verbs_key key = {.part = part};
	bool given = !key_used(reads, peer->number, part);

	if (!given)
		return false;
	roami_os_lock(&peer->held);
	if (atomic_load(&peer->at) == VERBS_READY)
		given = verbs_may(verbs, peer, false);
	if (given) { /* before the peer can want another one back */
		atomic_fetch_and(&reads->back, ~verbs_bit(peer->number));
		atomic_store(&peer->back, 0);
		atomic_store(&key_of(reads, peer->number, part)->at, VERBS_KEY_NONE);
		if (atomic_load(&peer->at) == VERBS_READY)
			verbs_post_what(verbs, peer, VERBS_GIVEN, &key, sizeof(key));
	}
	roami_os_unlock(&peer->held);
	return given;
}

bool verbs_keys_serve(struct verbs_state *verbs)
{
	bool all = true;

	for (uint64_t back = atomic_load(&verbs->reads.back); back != 0; back &= back - 1)
		all &= key_give(verbs, &verbs->peers[__builtin_ctzll(back)]);
	do {
		all &= parts_serve(verbs);
		all &= leaving_tell(verbs);
	} while (leaving_gone(verbs));
	return all;
}
