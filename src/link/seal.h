/*
 * The one place where a datagram is closed before it leaves and opened when it arrives.
 *
 * With a key no process outside the job can make a datagram, change one, or have one taken twice;
 * with `encrypt` none reads its payload either.  Each direction of each link has a key of its own,
 * made from the job's key, both nodes' numbers and the boot number; a datagram's number is its
 * nonce, and no number is used twice.  The cipher is libsodium's AES-256-GCM where the CPU has it,
 * else ChaCha20-Poly1305.
 *
 * What is authenticated but not encrypted is not run through the cipher, which takes a microsecond
 * a page, but hashed with a secret key first (NH of UMAC with words of 64 bits; Black et al.,
 * CRYPTO 1999: two payloads of one length collide with probability 2^-64, whoever chose them);
 * header, digest and length are what the cipher authenticates.
 *
 * Without a key that digest, with a hash key that is public, is a checksum against bytes changed on
 * the way, which UDP's own 16 bits do not exclude; it is no protection against intent.
 */
#ifndef ROAMI_SEAL_H
#define ROAMI_SEAL_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/datagram.h"
#include "roam/roam.h"

#define ROAMI_SEAL_WINDOW 1024u /* how many others a datagram may overtake */

struct roami_seal_params {
	const uint8_t *key; /* the job's, ROAMI_KEY_BYTES; NULL: datagrams have a checksum only */
	uint64_t boot;      /* this start of the job's nodes: counters begin anew, and so do keys */
	bool encrypt;
	bool no_aes; /* some CPU of the job may lack AES */
};

/* What all links of a node share. */
struct roami_sealer {
	struct roami_seal_params params;
	bool aes;
	uint64_t hash[ROAMI_DATAGRAM_MAX / sizeof(uint64_t)]; /* key of NH */
};

union roami_seal_key {
	crypto_aead_aes256gcm_state aes;
	uint8_t chacha[crypto_aead_chacha20poly1305_ietf_KEYBYTES];
};

/* The seals of one link.  Closing and opening touch different fields. */
struct roami_seal {
	const struct roami_sealer *sealer;
	unsigned me, peer;
	union roami_seal_key out, in;
	uint64_t number; /* of the next datagram that leaves */
	uint64_t end;    /* no datagram from this number on has arrived */
	uint64_t seen[ROAMI_SEAL_WINDOW / 64];
};

enum roami_seal_verdict { ROAMI_SEAL_GOOD, ROAMI_SEAL_BROKEN, ROAMI_SEAL_REPLAYED };

/* Whether this host's CPU has the instructions for AES-256-GCM. */
bool roami_seal_has_aes(void);

/* `params` NULL: no key.  ROAM_ESYSTEM: the cipher library does not start. */
enum roam_err roami_sealer_init(struct roami_sealer *sealer,
				const struct roami_seal_params *params);
void roami_seal_init(struct roami_seal *seal, const struct roami_sealer *sealer, unsigned me,
		     unsigned peer);

/*
 * Closes a datagram of `bytes` with its header, which is filled in but for tag and number; returns
 * what to send: the datagram, or an encrypted copy of the same length in `room`.
 */
void *roami_seal_close(struct roami_seal *seal, struct roami_packet *packet, size_t bytes,
		       void *room);

/*
 * Whether the peer closed this datagram for us, and it has not come before.  If so, and it is
 * encrypted, *packet_p becomes a copy in `room`.
 */
enum roami_seal_verdict roami_seal_open(struct roami_seal *seal,
					const struct roami_packet **packet_p, size_t bytes,
					void *room);

#endif
