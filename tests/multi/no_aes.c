/* Loaded before libsodium: a host whose CPU has no AES. */
int crypto_aead_aes256gcm_is_available(void);

int crypto_aead_aes256gcm_is_available(void)
{
	return 0;
}
