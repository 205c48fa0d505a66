#include "verbs_hello.h"

#include <string.h>

bool verbs_hello_check(const void *data, size_t bytes, const struct verbs_expected *expected,
		       struct verbs_hello *hello)
{
	/* Connection managers lengthen the data, with zeroes or older bytes. */
	if (data == NULL || bytes < sizeof(*hello))
		return false;
	memcpy(hello, data, sizeof(*hello));
	return memcmp(hello->magic, VERBS_MAGIC, sizeof(hello->magic)) == 0 &&
	       hello->mark == expected->mark && hello->from < expected->nodes &&
	       hello->from != expected->node && hello->from < 64 &&
	       (expected->others >> hello->from & 1) == 0 &&
	       (hello->flags & ~VERBS_MAY_BE_SILENT) == 0 && hello->bytes == expected->bytes &&
	       hello->buffers >= expected->buffers_min && hello->buffers <= expected->buffers_max &&
	       (hello->reads == 0) == (hello->reads % (1u << VERBS_ANSWERS_BITS) == 0);
}
