#include "link/seal.h"

#include <string.h>

/* The purpose of the keys, and the version of the format that they close. */
static const char seal_purpose[8] = "roam s1";

struct seal_context {
	char purpose[8];
	uint64_t boot;
	uint32_t from, to;
};

/* What the cipher authenticates of a datagram whose payload it does not encrypt. */
struct seal_witness {
	uint8_t header[sizeof(struct roami_packet) - ROAMI_TAG_BYTES];
	uint64_t bytes;
	uint64_t digest[2];
};

_Static_assert(ROAMI_TAG_BYTES == crypto_aead_aes256gcm_ABYTES &&
		       ROAMI_TAG_BYTES == crypto_aead_chacha20poly1305_ietf_ABYTES,
	       "both ciphers' tags fit the header");
_Static_assert(crypto_aead_aes256gcm_KEYBYTES == crypto_aead_chacha20poly1305_ietf_KEYBYTES &&
		       crypto_aead_aes256gcm_NPUBBYTES ==
			       crypto_aead_chacha20poly1305_ietf_NPUBBYTES,
	       "both ciphers take the same keys and nonces");
_Static_assert(sizeof(struct seal_witness) == sizeof(struct roami_packet) + 8, "no padding");

/* ----------------------------------------------------------------------------------------- keys */

/* Derives a key for one purpose from the job's; `from` == `to`: the key that all nodes share. */
static void seal_derive(const struct roami_seal_params *params, unsigned from, unsigned to,
			uint8_t key[ROAMI_KEY_BYTES])
{
	struct seal_context context = {.boot = params->boot, .from = from, .to = to};

	memcpy(context.purpose, seal_purpose, sizeof(context.purpose));
	crypto_generichash(key, ROAMI_KEY_BYTES, (const uint8_t *)&context, sizeof(context),
			   params->key, ROAMI_KEY_BYTES);
}

bool roami_seal_has_aes(void)
{
	return sodium_init() >= 0 && crypto_aead_aes256gcm_is_available() != 0;
}

enum roam_err roami_sealer_init(struct roami_sealer *sealer, const struct roami_seal_params *params)
{
	static const uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
	uint8_t key[ROAMI_KEY_BYTES] = {0};

	if (sodium_init() < 0)
		return ROAM_ESYSTEM;
	if (params != NULL && params->key != NULL) {
		sealer->params = *params;
		sealer->aes = !params->no_aes && roami_seal_has_aes();
		seal_derive(params, 0, 0, key);
	}
	crypto_stream_chacha20((uint8_t *)sealer->hash, sizeof(sealer->hash), nonce, key);
	sodium_memzero(key, sizeof(key));
	return ROAM_OK;
}

static void seal_key(const struct roami_sealer *sealer, union roami_seal_key *key, unsigned from,
		     unsigned to)
{
	uint8_t bytes[ROAMI_KEY_BYTES];

	seal_derive(&sealer->params, from, to, bytes);
	if (sealer->aes)
		crypto_aead_aes256gcm_beforenm(&key->aes, bytes);
	else
		memcpy(key->chacha, bytes, sizeof(bytes));
	sodium_memzero(bytes, sizeof(bytes));
}

void roami_seal_init(struct roami_seal *seal, const struct roami_sealer *sealer, unsigned me,
		     unsigned peer)
{
	seal->sealer = sealer;
	seal->me = me;
	seal->peer = peer;
	if (sealer->params.key == NULL || me == peer)
		return;
	seal_key(sealer, &seal->out, me, peer);
	seal_key(sealer, &seal->in, peer, me);
}

/* --------------------------------------------------------------------------------------- cipher */

/* The cipher's input and output, and the bytes that it authenticates beside them. */
struct seal_text {
	const void *in;
	void *out;
	size_t bytes;
	const void *beside;
	size_t beside_bytes;
};

static void seal_nonce(uint64_t number, uint8_t nonce[crypto_aead_aes256gcm_NPUBBYTES])
{
	memcpy(nonce, &number, sizeof(number));
	memset(nonce + sizeof(number), 0, crypto_aead_aes256gcm_NPUBBYTES - sizeof(number));
}

static void seal_encrypt(const struct roami_seal *seal, uint64_t number,
			 const struct seal_text *text, uint8_t *tag)
{
	uint8_t nonce[crypto_aead_aes256gcm_NPUBBYTES];

	seal_nonce(number, nonce);
	if (seal->sealer->aes)
		crypto_aead_aes256gcm_encrypt_detached_afternm(text->out, tag, NULL, text->in,
							       text->bytes, text->beside,
							       text->beside_bytes, NULL, nonce,
							       &seal->out.aes);
	else
		crypto_aead_chacha20poly1305_ietf_encrypt_detached(text->out, tag, NULL, text->in,
								   text->bytes, text->beside,
								   text->beside_bytes, NULL, nonce,
								   seal->out.chacha);
}

static bool seal_decrypt(const struct roami_seal *seal, uint64_t number,
			 const struct seal_text *text, const uint8_t *tag)
{
	uint8_t nonce[crypto_aead_aes256gcm_NPUBBYTES];
	int bad;

	seal_nonce(number, nonce);
	if (seal->sealer->aes)
		bad = crypto_aead_aes256gcm_decrypt_detached_afternm(text->out, NULL, text->in,
								     text->bytes, tag, text->beside,
								     text->beside_bytes, nonce,
								     &seal->in.aes);
	else
		bad = crypto_aead_chacha20poly1305_ietf_decrypt_detached(
			text->out, NULL, text->in, text->bytes, tag, text->beside,
			text->beside_bytes, nonce, seal->in.chacha);
	return bad == 0;
}

static uint64_t seal_word(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* NH: for each 16 bytes a product of two 64-bit words, summed modulo 2^128. */
static void seal_digest(const uint64_t *key, const uint8_t *data, size_t bytes, uint64_t digest[2])
{
	unsigned __int128 even = 0, odd = 0, sum;
	uint8_t last[32] = {0};

	for (; bytes >= 32; data += 32, key += 4, bytes -= 32) {
		even += (unsigned __int128)(seal_word(data) + key[0]) *
			(seal_word(data + 8) + key[1]);
		odd += (unsigned __int128)(seal_word(data + 16) + key[2]) *
		       (seal_word(data + 24) + key[3]);
	}
	if (bytes > 0) {
		memcpy(last, data, bytes);
		even += (unsigned __int128)(seal_word(last) + key[0]) *
			(seal_word(last + 8) + key[1]);
		odd += (unsigned __int128)(seal_word(last + 16) + key[2]) *
		       (seal_word(last + 24) + key[3]);
	}
	sum = even + odd;
	digest[0] = (uint64_t)sum;
	digest[1] = (uint64_t)(sum >> 64);
}

/* The checksum without a key: the digest of all bytes behind the tag, with a public hash key. */
static void seal_checksum(const struct roami_seal *seal, const struct roami_packet *packet,
			  size_t bytes, unsigned from, uint64_t sum[2])
{
	seal_digest(seal->sealer->hash, (const uint8_t *)packet + ROAMI_TAG_BYTES,
		    bytes - ROAMI_TAG_BYTES, sum);
	sum[0] ^= bytes << 32 | from << 16 | (seal->me ^ seal->peer ^ from);
}

/*
 * What the cipher works on: the payload, encrypted into `room`, or a witness of the plain payload.
 */
static struct seal_text seal_text(const struct roami_seal *seal, const struct roami_packet *packet,
				  size_t bytes, struct roami_packet *room,
				  struct seal_witness *witness)
{
	const uint8_t *header = (const uint8_t *)packet + ROAMI_TAG_BYTES;
	size_t payload = bytes - sizeof(*packet);

	if (seal->sealer->params.encrypt)
		return (struct seal_text){packet + 1, room + 1, payload, header,
					  sizeof(*packet) - ROAMI_TAG_BYTES};
	memcpy(witness->header, header, sizeof(witness->header));
	witness->bytes = bytes;
	seal_digest(seal->sealer->hash, (const uint8_t *)(packet + 1), payload, witness->digest);
	return (struct seal_text){witness, witness, 0, witness, sizeof(*witness)};
}

void *roami_seal_close(struct roami_seal *seal, struct roami_packet *packet, size_t bytes,
		       void *room)
{
	struct roami_packet *closed = packet;
	struct seal_witness witness;
	struct seal_text text;

	packet->number = seal->number++;
	if (seal->sealer->params.key == NULL) {
		uint64_t sum[2];

		seal_checksum(seal, packet, bytes, seal->me, sum);
		memcpy(packet->tag, sum, sizeof(sum));
		return packet;
	}
	text = seal_text(seal, packet, bytes, room, &witness);
	if (seal->sealer->params.encrypt) {
		closed = room;
		*closed = *packet;
	}
	seal_encrypt(seal, packet->number, &text, closed->tag);
	return closed;
}

/* -------------------------------------------------------------------------------------- opening */

static bool seal_fresh(const struct roami_seal *seal, uint64_t number)
{
	uint64_t slot = number % ROAMI_SEAL_WINDOW;

	if (number >= seal->end)
		return number < UINT64_MAX;
	return seal->end - number <= ROAMI_SEAL_WINDOW &&
	       (seal->seen[slot / 64] >> slot % 64 & 1) == 0;
}

static void seal_note(struct roami_seal *seal, uint64_t number)
{
	uint64_t slot = number % ROAMI_SEAL_WINDOW;

	if (number >= seal->end && number - seal->end >= ROAMI_SEAL_WINDOW) {
		memset(seal->seen, 0, sizeof(seal->seen));
		seal->end = number;
	}
	for (uint64_t skipped = seal->end; skipped < number; skipped++)
		seal->seen[skipped % ROAMI_SEAL_WINDOW / 64] &= ~((uint64_t)1 << skipped % 64);
	seal->seen[slot / 64] |= (uint64_t)1 << slot % 64;
	if (number >= seal->end)
		seal->end = number + 1;
}

static bool seal_checks(const struct roami_seal *seal, const struct roami_packet *packet,
			size_t bytes)
{
	uint64_t sum[2];

	seal_checksum(seal, packet, bytes, seal->peer, sum);
	return memcmp(packet->tag, sum, sizeof(sum)) == 0;
}

enum roami_seal_verdict roami_seal_open(struct roami_seal *seal,
					const struct roami_packet **packet_p, size_t bytes,
					void *room)
{
	const struct roami_packet *packet = *packet_p;
	const struct roami_seal_params *params = &seal->sealer->params;
	struct seal_witness witness;
	struct seal_text text;

	if (params->key == NULL)
		return seal_checks(seal, packet, bytes) ? ROAMI_SEAL_GOOD : ROAMI_SEAL_BROKEN;
	if (!seal_fresh(seal, packet->number))
		return ROAMI_SEAL_REPLAYED;
	text = seal_text(seal, packet, bytes, room, &witness);
	if (!seal_decrypt(seal, packet->number, &text, packet->tag))
		return ROAMI_SEAL_BROKEN;
	seal_note(seal, packet->number);
	if (params->encrypt) {
		memcpy(room, packet, sizeof(*packet));
		*packet_p = room;
	}
	return ROAMI_SEAL_GOOD;
}
