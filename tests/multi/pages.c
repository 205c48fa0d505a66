/*
 * Clients of a page server, over the client library.  Commit n of client c changes pages of c's
 * own, by c and n alone, and the name "c", which says n.
 *
 * usage: pages_client ADDRESS KEY_FILE commit JOB CLIENT COUNT   goes on behind what is there;
 *                              prints "r N SERIAL" of receipts, "d SERIAL" of what is durable
 *        pages_client ADDRESS KEY_FILE show   verifies all pages, as of one moment while others
 *                              commit; prints the serial number of that, the one that is durable,
 *                              and the n of each client
 *        pages_client ADDRESS KEY_FILE open HEAP_PAGES JOB   opens; prints why it is refused
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/address.h"
#include "os/os.h"
#include "store/client.h"

#define CLIENTS 3u
#define OWN     16u /* pages of a client */
#define HEAP    ((uint64_t)CLIENTS * OWN * ROAMI_STORE_PAGE)
#define AHEAD   12u /* commits that are not durable yet */
#define WAIT_NS UINT64_C(10000000000)

static uint8_t model[HEAP], heap[HEAP];
static uint64_t last[CLIENTS]; /* of each client */

static uint64_t mix(uint64_t word)
{
	word = (word ^ word >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return word ^ word >> 29;
}

struct stretch {
	uint32_t page, from, bytes;
	uint8_t data[ROAMI_STORE_PAGE];
};

/* The i-th stretch of a commit; false: it has no more. */
static bool commit_stretch(unsigned client, uint64_t n, unsigned i, struct stretch *stretch)
{
	uint64_t dice = mix(n * CLIENTS + client + 1), here = mix(dice + i);

	if (i > dice % 4)
		return false;
	stretch->page = client * OWN + (uint32_t)(here % OWN);
	stretch->from = here % 3 == 0 ? (uint32_t)(here / 64 % 2000) : 0;
	stretch->bytes = here % 3 == 0 ? 100 : ROAMI_STORE_PAGE;
	for (uint32_t k = 0; k < stretch->bytes; k++)
		stretch->data[k] = (uint8_t)(mix(n + client) + k * (k >> 7));
	return true;
}

static void each_page(void *arg, const struct roami_store_entry *entry, const uint8_t *data)
{
	(void)arg;
	if (entry->where < CLIENTS * OWN)
		memcpy(heap + (size_t)entry->where * ROAMI_STORE_PAGE, data, ROAMI_STORE_PAGE);
}

static void each_name(void *arg, const struct roami_store_entry *entry, const uint8_t *data)
{
	(void)arg;
	if (entry->from == 1 && entry->bytes == 9 && data[0] >= 'a' && data[0] < 'a' + (int)CLIENTS)
		memcpy(&last[data[0] - 'a'], data + 1, sizeof(last[0]));
}

static int fails(const char *what)
{
	fprintf(stderr, "pages_client: %s\n", what);
	return 1;
}

static void no_name(void *arg)
{
	(void)arg;
	memset(last, 0, sizeof(last));
}

static bool load(struct roami_store_client *client, uint64_t *serial_p)
{
	static const struct roami_store_loader loader = {no_name, each_page, each_name, NULL};

	return roami_store_load_all(client, &loader, serial_p) == ROAM_OK;
}

/* What comes next is said; false: the server is gone, or refuses a commit. */
static bool hear(struct roami_store_client *client, uint64_t *receipt_p, uint64_t *durable_p)
{
	struct roami_store_receipt receipt;
	struct roami_store_head head;
	const uint8_t *data;
	size_t bytes;

	if (roami_store_receive(client, roami_os_now_ns() + WAIT_NS, &head, &data, &bytes) !=
	    ROAM_OK)
		return false;
	if (head.kind == ROAMI_STORE_ERROR && head.number != 0)
		fprintf(stderr, "pages_client: %.*s\n",
			(int)(bytes - sizeof(struct roami_store_error)),
			(const char *)data + sizeof(struct roami_store_error));
	if (bytes != sizeof(receipt) ||
	    (head.kind != ROAMI_STORE_RECEIPT && head.kind != ROAMI_STORE_DURABLE))
		return false;
	memcpy(&receipt, data, sizeof(receipt));
	if (head.kind == ROAMI_STORE_RECEIPT) {
		printf("r %" PRIu64 " %" PRIu64 "\n", head.number, receipt.serial);
		*receipt_p = receipt.serial;
	} else {
		printf("d %" PRIu64 "\n", receipt.serial);
		*durable_p = receipt.serial;
	}
	return true;
}

static bool send_commit(struct roami_store_client *client, unsigned me, uint64_t n)
{
	static struct roami_store_commit commit;
	const char name[2] = {(char)('a' + me), '\0'};
	struct stretch stretch;

	roami_store_begin(&commit, client, n, roami_os_now_ns() + WAIT_NS);
	for (unsigned i = 0; commit_stretch(me, n, i, &stretch); i++)
		if (!roami_store_add_bytes(&commit, stretch.page, stretch.from, stretch.data,
					   stretch.bytes))
			return false;
	return roami_store_add_name(&commit, name, &n, sizeof(n)) && roami_store_end(&commit);
}

static int commits(struct roami_store_client *client, unsigned me, uint64_t count)
{
	uint64_t receipt = 0, durable = 0, before;
	uint64_t end;

	if (!load(client, &before))
		return fails("nothing could be loaded");
	end = last[me] + count;
	for (uint64_t n = last[me] + 1; n <= end; n++) {
		before = receipt;
		if (!send_commit(client, me, n))
			return 3;
		while (receipt == before)
			if (!hear(client, &receipt, &durable))
				return 3;
		while (receipt > durable + AHEAD)
			if (!hear(client, &receipt, &durable))
				return 3;
	}
	while (durable < receipt)
		if (!hear(client, &receipt, &durable))
			return 3;
	roami_store_send(client, ROAMI_STORE_CLOSE, 0, NULL, 0, roami_os_now_ns() + WAIT_NS);
	return 0;
}

static int show(struct roami_store_client *client, const struct roami_store_opened *opened)
{
	struct stretch stretch;
	uint64_t serial;

	if (!load(client, &serial))
		return fails("nothing could be loaded");
	for (unsigned c = 0; c < CLIENTS; c++)
		for (uint64_t n = 1; n <= last[c]; n++)
			for (unsigned i = 0; commit_stretch(c, n, i, &stretch); i++)
				memcpy(model + (size_t)stretch.page * ROAMI_STORE_PAGE +
					       stretch.from,
				       stretch.data, stretch.bytes);
	for (uint32_t page = 0; page < CLIENTS * OWN; page++)
		if (memcmp(model + (size_t)page * ROAMI_STORE_PAGE,
			   heap + (size_t)page * ROAMI_STORE_PAGE, ROAMI_STORE_PAGE) != 0) {
			fprintf(stderr, "pages_client: page %u is none of these commits'\n", page);
			return 1;
		}
	printf("%" PRIu64 " %" PRIu64, serial, opened->durable);
	for (unsigned c = 0; c < CLIENTS; c++)
		printf(" %" PRIu64, last[c]);
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	struct roami_store_open open = {.page_bytes = ROAMI_STORE_PAGE, .heap_bytes = HEAP};
	struct roami_store_opened opened;
	struct roami_store_client *client;
	uint8_t key[ROAMI_CHANNEL_KEY];
	char why[512];
	int status = 0;

	if (argc < 4 || !roami_address_key(argv[2], false, key, why, sizeof(why)))
		return fails("ADDRESS KEY_FILE commit|show|open ...");
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(argv[3], "show") == 0)
		open.flags = ROAMI_STORE_READS;
	if (strcmp(argv[3], "open") == 0 && argc > 4)
		open.heap_bytes = strtoull(argv[4], NULL, 10) * ROAMI_STORE_PAGE;
	if (argc > 4)
		open.job[0] = (uint8_t)atoi(argv[strcmp(argv[3], "open") == 0 ? 5 : 4]);
	if (roami_store_connect(&client, argv[1], key, &open, &opened, why, sizeof(why)) != ROAM_OK)
		return fails(why);
	if (strcmp(argv[3], "commit") == 0 && argc == 7)
		status = commits(client, (unsigned)atoi(argv[5]) % CLIENTS,
				 strtoull(argv[6], NULL, 10));
	else if (strcmp(argv[3], "show") == 0)
		status = show(client, &opened);
	else if (printf("open\n") > 0)
		(void)!getchar(); /* until then */
	roami_store_disconnect(client);
	return status;
}
