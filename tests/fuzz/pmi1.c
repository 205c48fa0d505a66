/*
 * libFuzzer: what a launcher says over PMI-1.  The client reads answers as they come, until one is
 * none of the protocol's; what it takes is within bounds.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/pmi1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct roami_blob blobs[3];

static void must(int holds)
{
	if (!holds)
		abort();
}

/* Asks for more than one value takes. */
static int talk(struct roami_bound *bound, struct roami_pmi1 *pmi, int by_port)
{
	static const uint8_t mine[900] = "of node 1";

	if (by_port && !roami_pmi1_ack(bound, pmi, 7))
		return 0;
	bound->me = 1;
	bound->nodes = 3;
	if (!roami_pmi1_begin(bound, pmi))
		return 0;
	must(pmi->name[0] != '\0' && strlen(pmi->name) < sizeof(pmi->name));
	return roami_pmi1_gather(bound, pmi, mine, sizeof(mine), blobs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct roami_bound bound = {.until = 0};
	struct roami_pmi1 pmi = {.round = 0};
	int pair[2], good;

	if (size == 0)
		return 0;
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	pmi.fd = pair[0];
	must(write(pair[1], data + 1, size - 1) == (ssize_t)(size - 1));
	must(shutdown(pair[1], SHUT_WR) == 0);
	good = talk(&bound, &pmi, data[0] & 1);
	must(good || bound.why[0] != '\0');
	for (unsigned node = 0; good && node < 3; node++)
		must(blobs[node].bytes <= ROAMI_BLOB_BYTES);
	close(pair[0]);
	close(pair[1]);
	return 0;
}
