/*
 * libFuzzer: what strangers send to connect to a node of the verbs transport, the private data of
 * the connection manager.  What is accepted must be such that the node can use it; a byte of what a
 * node of the job sends, changed, is refused or changes only what may be.
 *
 * The input: a byte says how, then the private data.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/verbs_hello.h"

#define NODES 5u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds)
{
	if (!holds)
		abort();
}

static const struct verbs_expected expected = {.mark = 0x1122334455667788,
					       .nodes = NODES,
					       .node = 2,
					       .others = 1u << 3,
					       .bytes = 4352,
					       .buffers_min = 4,
					       .buffers_max = 32};

static void usable(const struct verbs_hello *hello)
{
	expect(hello->from < NODES && hello->from != 2 && hello->from != 3);
	expect(hello->mark == expected.mark && hello->bytes == expected.bytes);
	expect(hello->buffers >= 4 && hello->buffers <= 32);
	expect(hello->reads == 0 || (hello->reads & 0xff) != 0);
}

/* What a node would send, with a byte changed: magic, mark and sizes must be what they are. */
static void changed(size_t at, uint8_t by)
{
	struct verbs_hello good = {.magic = VERBS_MAGIC,
				   .mark = expected.mark,
				   .from = 1,
				   .buffers = 16,
				   .bytes = expected.bytes,
				   .reads = 17u << VERBS_ANSWERS_BITS | 16},
			   got;
	uint8_t bytes[sizeof(good)];

	memcpy(bytes, &good, sizeof(good));
	expect(verbs_hello_check(bytes, sizeof(bytes), &expected, &got));
	expect(!verbs_hello_check(bytes, sizeof(bytes) - 1, &expected, &got));
	at %= sizeof(bytes);
	bytes[at] ^= by;
	if (verbs_hello_check(bytes, sizeof(bytes), &expected, &got)) {
		usable(&got);
		expect(by == 0 || at >= offsetof(struct verbs_hello, reads) ||
		       (at >= offsetof(struct verbs_hello, from) &&
			at < offsetof(struct verbs_hello, bytes)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct verbs_hello hello;
	uint8_t *exact;

	if (size < 3)
		return 0;
	if ((data[0] & 1) != 0)
		changed(data[1], data[2]);
	/* As long as it is, so that the sanitizer sees a read beyond it. */
	exact = malloc(size - 1);
	expect(exact != NULL);
	memcpy(exact, data + 1, size - 1);
	if (verbs_hello_check(exact, size - 1, &expected, &hello))
		usable(&hello);
	free(exact);
	return 0;
}
