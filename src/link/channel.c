#include "link/channel.h"

#include <sodium.h>
#include <string.h>

_Static_assert(ROAMI_CHANNEL_KEY == crypto_aead_chacha20poly1305_ietf_KEYBYTES &&
		       ROAMI_CHANNEL_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES,
	       "the cipher's key and tag");

bool roami_channel_init(struct roami_channel *channel, const char *magic,
			uint8_t hello[ROAMI_CHANNEL_HELLO])
{
	memset(channel, 0, sizeof(*channel));
	if (sodium_init() < 0)
		return false;
	randombytes_buf(channel->nonce, sizeof(channel->nonce));
	memcpy(hello, magic, ROAMI_CHANNEL_MAGIC);
	memcpy(hello + ROAMI_CHANNEL_MAGIC, channel->nonce, sizeof(channel->nonce));
	return true;
}

/* Derives the key of one direction: from the first side (`from_first`), or from the other. */
static void channel_key(const char *magic, const uint8_t *key, bool from_first,
			const uint8_t *first, const uint8_t *second, uint8_t *out)
{
	crypto_generichash_state state;
	const uint8_t direction = from_first;

	crypto_generichash_init(&state, key, ROAMI_CHANNEL_KEY, ROAMI_CHANNEL_KEY);
	crypto_generichash_update(&state, (const uint8_t *)magic, ROAMI_CHANNEL_MAGIC);
	crypto_generichash_update(&state, &direction, 1);
	crypto_generichash_update(&state, first, ROAMI_CHANNEL_NONCE);
	crypto_generichash_update(&state, second, ROAMI_CHANNEL_NONCE);
	crypto_generichash_final(&state, out, ROAMI_CHANNEL_KEY);
}

bool roami_channel_handshake(struct roami_channel *channel, const char *magic, const uint8_t *key,
			     bool first, const uint8_t hello[ROAMI_CHANNEL_HELLO])
{
	const uint8_t *other = hello + ROAMI_CHANNEL_MAGIC;
	const uint8_t *one = first ? channel->nonce : other, *two = first ? other : channel->nonce;

	if (memcmp(hello, magic, ROAMI_CHANNEL_MAGIC) != 0)
		return false;
	channel_key(magic, key, first, one, two, channel->send_key);
	channel_key(magic, key, !first, one, two, channel->receive_key);
	return true;
}

static void channel_nonce(uint64_t number, uint8_t *nonce)
{
	memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
	memcpy(nonce, &number, sizeof(number));
}

size_t roami_channel_close(struct roami_channel *channel, const struct roam_part *parts,
			   unsigned count, uint8_t *out)
{
	uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
	uint8_t *text = out + sizeof(uint32_t);
	size_t bytes = 0;
	uint32_t length;

	for (unsigned i = 0; i < count; i++) {
		if (parts[i].bytes > 0)
			memcpy(text + bytes, parts[i].data, parts[i].bytes);
		bytes += parts[i].bytes;
	}
	length = (uint32_t)(bytes + ROAMI_CHANNEL_TAG);
	memcpy(out, &length, sizeof(length));
	channel_nonce(channel->sent++, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt(text, NULL, text, bytes, out, sizeof(length),
						  NULL, nonce, channel->send_key);
	return sizeof(length) + length;
}

uint8_t *roami_channel_open(struct roami_channel *channel, uint8_t *frame, uint32_t length)
{
	uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
	uint8_t *text = frame + sizeof(length);

	channel_nonce(channel->received++, nonce);
	if (length < ROAMI_CHANNEL_TAG || crypto_aead_chacha20poly1305_ietf_decrypt(
						  text, NULL, NULL, text, length, frame,
						  sizeof(length), nonce, channel->receive_key) != 0)
		return NULL;
	return text;
}

void roami_channel_fini(struct roami_channel *channel)
{
	sodium_memzero(channel, sizeof(*channel));
}
